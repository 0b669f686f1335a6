"""SQL.md: each example on the page runs and finds something; tables, columns and functions are all there and all real; and
names in queries are those that dump prints.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 9: Each example of the SQL page runs and finds something. | all examples | 2026-11-22
import collections
import json
import random
import re

import harness
import test_requests
import test_runtime_counters
import test_single_records
import traces

TRACES = ["clr-kernel-win8-x64", "shutdown-win10", "tracelogging-win11-20cpu"]
PAGE = harness.ROOT / "collector" / "query" / "SQL.md"
EXAMPLES_MIN = 25
# fields with names, which come from other events or from a table of values: class, field
NAMED = [("DiskIo/Read", "FileObject"), ("DiskIo/Read", "IrpFlags"), ("DiskIo/Write", "FileObject"), ("PageFault/HardFault", "FileObject"),
         ("Image/DCEnd", "FileName"), ("Process/DCEnd", "ExitStatus"), ("Process/DCEnd", "Flags"), ("Image/Load", "SignatureLevel"),
         ("FileIo/FileRundown", "FileName")]


def query(env, store, sql, *extra):
    return env.run([env.collector, "query", "--store", store, "--format", "jsonl", *extra, sql], check=False)


def examples(page):
    return [block.strip() for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)]


def check_examples(env, checks, store, page):
    found = examples(page)
    checks.that(len(found) >= EXAMPLES_MIN, f"{len(found)} examples on the page")
    real, finding = checks.real("sql page: each example, some of which name times and programs of real traces, finds something"), 0
    for sql in found:
        done = query(env, store, sql)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        finding += bool(rows)
        checks.that(done.returncode == 0 and not done.stderr and (rows or not real), f"{sql}\n  {done.returncode} {done.stderr} {len(rows)} rows")
    checks.that(finding >= len(found) * 2 // 3, f"{finding} of {len(found)} examples find something")


def check_lists(env, checks, store, page):
    """The page lists exactly the existing tables, columns, functions and types."""
    def column(sql):
        return {next(iter(json.loads(line).values())) for line in query(env, store, sql).stdout.splitlines()}

    tables = page.split("## Tables")[1].split("--host")[0]
    listed = set(re.findall(r"`([a-z]+)`", "\n".join(line.split("|")[1] for line in tables.splitlines() if line.startswith("| `"))))
    modules = {m for m in column("SELECT name FROM pragma_module_list") if re.fullmatch("[a-z]+", m)}
    of_sqlite = {"json", "fts", "rtree", "pragma", "dbstat", "bytecode", "geopoly"}
    checks.that(listed and listed <= modules, f"tables on the page that are not there: {listed - modules}")
    checks.equal({m for m in modules if not any(m.startswith(s) for s in of_sqlite)} - listed, set(), "tables that the page lacks")

    columns = set(re.findall(r"`([a-z_]+)`", page.split("### Columns of events")[1].split("### Names")[0]))
    for name in column("SELECT name FROM pragma_table_xinfo('events')"):
        checks.that(name in columns, f"the page lacks the column {name}")

    functions = set(re.findall(r"`([a-z0-9_]+)\(", page.split("## Functions")[1].split("Beside them")[0]))
    source = (harness.ROOT / "collector" / "query" / "sql" / "sql_functions.c").read_text(encoding="utf-8")
    checks.equal(functions, set(re.findall(r'^ +\{"([a-z0-9_]+)", \d, ', source, re.MULTILINE)), "functions")

    types = set(re.findall(r"^\| `([A-Z]+)` \|", page.split("## Values")[1], re.MULTILINE))
    checks.that(column("SELECT DISTINCT x.type FROM classes c JOIN pragma_table_xinfo(c.name) x WHERE x.type <> ''") <= types,
                "types that the page lacks")


def check_names(env, checks, store):
    asked = 0
    for trace in TRACES:
        dumped = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl",
                                                        *traces.paths(trace, env.build)]).stdout.splitlines()]
        for name, field in NAMED:
            events = [e for e in dumped if e["name"] == name and field in e["fields"]]
            if not events:
                continue
            expected = collections.Counter(
                (value.get("name") or None) if isinstance(value, dict) else None for value in (e["fields"][field] for e in events))
            done = query(env, store, f'SELECT {field}_name AS name, count(*) AS n FROM "{name}" WHERE {field} IS NOT NULL GROUP BY 1',
                         "--host", trace)
            got = {row["name"]: row["n"] for row in map(json.loads, done.stdout.splitlines())}
            asked += sum(n for what, n in got.items() if what)
            checks.that(got == expected, f"{trace}: names of {name} {field}: {done.stderr}\n  got      {str(got)[:500]}\n"
                                         f"  expected {str(dict(expected))[:500]}")
            native = query(env, store, f'SELECT {field}_name AS name, count AS n FROM "{name}_by"(\'{field}_name\')', "--host", trace)
            checks.equal({row["name"]: row["n"] for row in map(json.loads, native.stdout.splitlines())},
                         dict(collections.Counter(expected) + collections.Counter(
                             {None: sum(e["name"] == name for e in dumped) - len(events)})), f"{trace}: native: {name} {field}")
    checks.that(asked > 1000, f"{asked} names were compared")


def test(env, checks, arguments):
    page = PAGE.read_text(encoding="utf-8")
    env.make_certificates(agents=[*TRACES, "counters"])
    collector = env.new_collector().start()
    for name in TRACES:
        env.replay(traces.paths(name, env.build), collector, agent=name, spool=env.folder / f"spool-{name}")
    made = env.folder / "counters.etl"  # no real trace has counters of .NET
    made.write_bytes(test_single_records.trace(test_runtime_counters.make(random.Random(1), 5)[0]))
    env.replay([made], collector, agent="counters", spool=env.folder / "spool-counters")
    query(env, collector.store, "SELECT count(*) FROM processes", "--wait", "300s")  # the history is made, however slow the machine is
    keys = test_requests.Keys(env.folder)
    env.run([env.collector, "request", "window", "--store", collector.store, "--key", keys.private, "--host", "counters", "--from", "-10m"])
    check_examples(env, checks, collector.store, page)
    check_lists(env, checks, collector.store, page)
    check_names(env, checks, collector.store)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
