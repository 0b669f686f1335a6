#!/usr/bin/env python3
"""Sees that every answer of the product has a judge: what the sources name is compared with answers.tsv, and answers.tsv with the judges.

The table's columns are the answer, the judge (a function of the judges' files, or of an end-to-end test that compares the answer of its
own machines with independent arithmetic: `test_joins.check_ipc`; several with commas; `-`: none) and, where there is none or it does not
judge all, the reason. An answer that ends with `*` stands for all that begin so: its judge takes whatever the product names. Part of tests/lint.sh; prints what is missing, exits 1 when there is any.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]
TABLE = FOLDER / "answers.tsv"


def text_of(path):
    return (SOURCE / path).read_text(encoding="utf-8")


def from_routes():
    """The paths of the web server's table, but for the dashboard's files."""
    table = text_of("collector/web/api.c")
    table = table[table.index("const ec_route EC_ROUTES[]"):]
    return {f"route {path}" for path in re.findall(r'\{EC_\w+,\s*"((?:/api/|/metrics)[^"]*)"', table)}


def from_queries():
    """Named queries."""
    text = text_of("collector/web/questions.c")
    table = text[text.index("static const fixed QUERIES[]"):]
    return {f"query {name}" for name in re.findall(r'^    \{"([a-z-]+)",\n', table[:table.index("\n};")], re.M)}


def from_tables():
    """Tables of SQL: of machines and the store, of what happened over a time, and of events."""
    machines = text_of("collector/query/sql_tables.c")
    machines = machines[machines.index("static const spec SPECS[]"):]
    activity = re.findall(r'^    \[EC_ACTIVITY_\w+\] = \{(?:\.name = )?"(\w+)"', text_of("collector/query/activity.c"), re.M)
    names = re.findall(r'^    \{"(\w+)", (?:STORE|STATE|ALARMS|MEMORY),', machines, re.M) + activity
    return {f"table {name}" for name in [*names, "events", "events_by", '"CLASS"', '"CLASS_by"']}


def from_metrics():
    """Families of /metrics: those that the source names, and one for each counter."""
    text, counters = text_of("collector/metrics/metrics.c"), text_of("proto/base/counters.h")
    names = set(re.findall(r'"(etwcollector_[a-z_]+)"', text))
    names |= {f"etwagent_family_{name}_events_total" for name in re.findall(r'^        \{"([a-z]+)", "events of the family', text, re.M)}
    collector = False
    for name in re.findall(r"^    [XGS]\((\w+),", counters, re.M):
        collector |= name == "ingest_requests"
        names.add(f"etwcollector_{name}_total" if collector else f"etwagent_{name}")
    return {f"metric {name}" for name in names}


def from_pages():
    """What the dashboard shows: every tile, list of facts, table, section and chart that has a title."""
    found = set()
    for path in sorted((SOURCE / "collector/web/ui/src").glob("*.jsx")):
        text = path.read_text(encoding="utf-8")
        for page, body in re.findall(r"^(?:export )?function (\w+)\(.*?\{\n(.*?)^\}", text, re.M | re.S):
            titles = re.findall(r'<(?:Table|Flame|Timeline) label="([^"]+)"|<(?:Section|Chart) title="([^"]+)"|<h2>([A-Z][A-Za-z ]+)|<Table label=\{(what)\}', body)
            found |= {f"panel {page}: {next(filter(None, title)).strip()}" for title in titles}
            found |= {f"panel {page}: facts"} if "<Facts" in body else set()
            found |= {f"panel {page}: tiles"} if 'class="tiles"' in body else set()
        tabs = re.search(r"^const TABS = \{\n(.*?)^\};", text, re.M | re.S)
        found |= {f"panel Security: {title}" for title in re.findall(r"^  \w+: \['([^']+)'", tabs.group(1), re.M)} if tabs else set()
    return found


def from_commands():
    """Parts of what `etwcollector ledger` prints, by their names in JSON, and the checks of `doctor`."""
    ledger, doctor = text_of("collector/app/cmd_ledger.c"), text_of("collector/app/cmd_doctor.c")
    parts = set(re.findall(r'open_list\(l, "(\w+)"\)', ledger)) | set(re.findall(r'\\"(unbalanced_families|unobserved|incidents)\\": \[', ledger))
    equations = re.findall(r'add_equation\(l, "(\w+)"', ledger)
    return {f"ledger {part}" for part in parts} | {f"ledger equation {name}" for name in equations} | \
        {f"doctor {name}" for name in re.findall(r'say\(&?r, [^;]*?"(\w+)", "', doctor)}


def rows():
    """{answer: (judge or None, reason)}"""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        answer, judge, reason = (line.split("\t") + ["", ""])[:3]
        if answer in found:
            raise SystemExit(f"{TABLE.name}: {answer} stands there twice")
        found[answer] = (None if judge == "-" else judge, reason)
    return found


def named():
    return from_routes() | from_queries() | from_tables() | from_metrics() | from_pages() | from_commands()


def judges():
    """The functions judge_... of the judges' files."""
    return {name for path in FOLDER.glob("judge_*.py") for name in re.findall(r"^def (judge_\w+)\(", path.read_text(encoding="utf-8"), re.M)}


def is_check(judge):
    """Whether it is a function of an end-to-end test."""
    name, _, function = judge.partition(".")
    path = SOURCE / "tests" / "e2e" / f"{name}.py"
    return bool(function) and path.exists() and f"\ndef {function}(" in path.read_text(encoding="utf-8")


def problems():
    table, answers, known = rows(), named(), judges()
    families = [answer[:-1] for answer in table if answer.endswith("*")]
    for answer in sorted(answers - set(table)):
        if not answer.startswith(tuple(families)):
            yield f"{answer}: no row in tests/judges/answers.tsv: write a judge and add the row"
    for answer in sorted(set(table) - answers):
        if not answer.endswith("*") or not any(name.startswith(answer[:-1]) for name in answers):
            yield f"{answer}: the row in tests/judges/answers.tsv is about nothing that the sources name"
    for answer, (judge, reason) in table.items():
        for one in filter(None, (judge or "").split(", ")):
            if one in known or is_check(one):
                continue
            yield f"{answer}: there is no function {one} in tests/judges/judge_*.py, nor in tests/e2e"
        if not judge and not reason:
            yield f"{answer}: has neither a judge nor a reason"
    for judge in sorted(known - {one for judge, _ in table.values() for one in (judge or "").split(", ")}):
        yield f"{judge}: judges no answer of tests/judges/answers.tsv"


def main():
    found = list(problems())
    print("\n".join(found) if found else f"{len(rows())} answers have a judge or a reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
