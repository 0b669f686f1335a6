#!/usr/bin/env python3
"""Mutation testing of the code that answers questions: in a copy of the sources one condition, comparison, join or sum is changed at a time, in C or
in the text of SQL; the copy is built, and the tests of that code must fail. Prints each mutant with what caught it, and the share of those caught. Part of
the long form.

A mutant is caught by the first of: quick unit tests that link the file; the judges (tests/judges) of the file's answers over one machine; all judges
over some machines; slow unit tests; the end-to-end tests
that answers.tsv and OF_FILE name for the file. A mutant that does not build says nothing and is not counted. One that changes no answer (a
hint, an equal bound) is listed in tests/mutants.tsv, with the reason: it must survive to be counted as such.

usage: tests/mutate.py [--count N] [--seed N] [--workers N] [--folder DIR] [--files PART] [--skip N] [--quick] [--again FILE:LINE[:COLUMN],...]
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import queue
import random
import re
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "judges"))
import planted  # noqa: E402

# Files whose code makes answers, and the end-to-end tests of each beside the judges.
STATE, QUERY, PROFILE = ["test_ledger"], ["test_query"], ["test_profile", "test_profile_gaps"]
OF_FILE = {
    "collector/state/ledger_report.c": STATE, "collector/state/gaps.c": STATE, "collector/app/cmd_ledger.c": STATE,
    "collector/query/analysis/account_names.c": ["test_accounts"],
    "collector/query/analysis/activity.c": ["test_activity"], "collector/query/analysis/activity_events.c": ["test_activity"], "collector/query/analysis/activity_rows.c": ["test_activity"],
    "collector/query/analysis/activity_tables.c": ["test_activity"], "collector/query/analysis/event_roles.c": ["test_activity"], "collector/query/analysis/request_tracker.c": ["test_activity"],
    "collector/query/analysis/sample_sources.c": ["test_activity"], "collector/query/analysis/stack_missed.c": ["test_activity"], "collector/query/analysis/stack_sums.c": PROFILE, "collector/query/analysis/thread_time.c": PROFILE,
    "collector/query/analysis/sched_tracker.c": ["test_activity"], "collector/query/analysis/event_annotations.c": PROFILE,
    "collector/query/sql/sql_activity.c": ["test_activity"], "collector/query/scan/counter_names.c": ["test_activity"],
    "collector/query/analysis/address_space.c": PROFILE, "collector/query/analysis/stackwalk_reader.c": PROFILE, "collector/query/analysis/profile.c": PROFILE, "collector/query/analysis/stack_query.c": PROFILE,
    "collector/query/analysis/aggregate.c": QUERY, "collector/query/analysis/instances.c": QUERY, "collector/query/scan/scan.c": QUERY, "collector/query/scan/scan_values.c": QUERY,
    "collector/query/sql/sql_aggregate.c": QUERY, "collector/query/sql/sql_events.c": QUERY, "collector/query/sql/sql_functions.c": QUERY,
    "collector/query/sql/sql_tables.c": QUERY, "collector/web/questions.c": ["test_web"],
}
# Unit tests of the files below a path, quick ones; SLOW ones come after the judges.
UNITS_OF = {"collector/state": ["ledger", "watch"], "collector/app/cmd_ledger.c": [], "collector/query": ["sql", "aggregate", "trackers"], "collector/web": []}
SLOW_UNITS = {"collector/state": ["state_worker"], "collector/query": ["object_names_db"]}
UNITS = sorted({unit for table in (UNITS_OF, SLOW_UNITS) for units in table.values() for unit in units})
# Judges whose answers the file makes: they are asked first. A file without a row has all of them at once.
LEDGER, ACTIVITY = "judge_counts,judge_troubles,judge_metrics,judge_printed,judge_gaps", "judge_threads,judge_latencies,judge_hardware,judge_usage,judge_counters"
STACKS, VALUES = "judge_profiles,judge_waits,judge_missed,judge_counted,judge_usage", "judge_headers,judge_aggregates,judge_filters"
FIRST_JUDGES = {
    "collector/query/analysis/account_names.c": "judge_instances", "collector/state/": LEDGER, "collector/app/cmd_ledger.c": LEDGER, "collector/query/analysis/activity": ACTIVITY, "collector/query/analysis/sched_tracker.c": ACTIVITY,
    "collector/query/analysis/event_roles.c": ACTIVITY, "collector/query/analysis/request_tracker.c": ACTIVITY, "collector/query/analysis/sample_sources.c": ACTIVITY,
    "collector/query/analysis/stack_missed.c": STACKS, "collector/query/analysis/stack_sums.c": STACKS, "collector/query/analysis/thread_time.c": STACKS,
    "collector/query/sql/sql_activity.c": ACTIVITY, "collector/query/scan/counter_names.c": ACTIVITY, "collector/query/analysis/event_annotations.c": STACKS,
    "collector/query/analysis/address_space.c": STACKS, "collector/query/analysis/stackwalk_reader.c": STACKS, "collector/query/analysis/profile.c": STACKS,
    "collector/query/analysis/stack_query.c": STACKS, "collector/query/analysis/aggregate.c": VALUES, "collector/query/scan/": VALUES, "collector/query/sql/sql_aggregate.c": VALUES,
    "collector/query/sql/sql_events.c": VALUES, "collector/query/sql/sql_functions.c": VALUES, "collector/query/analysis/instances.c": "judge_instances,judge_lists,judge_modules",
    "collector/query/sql/sql_tables.c": "judge_machines,judge_classes,judge_instances,judge_modules,judge_counts,judge_troubles",
    "collector/web/questions.c": "judge_lists,judge_doings,judge_search,judge_connections,judge_autostart,judge_gaps",
}
MACHINES, MORE = "made-reused", "made-reused,made-ipv6,made-losses"  # of the quick form, and of the long one
NOT_JUDGES = {"judge_pages"}  # a browser for each mutant takes too long, and the routes below the pages are judged
EQUIVALENT = SOURCE / "tests" / "mutants.tsv"

# Lines that no answer hangs on: errors of memory and files, ceilings (tests of ceilings have them), estimates for SQLite's planner.
NO_ANSWER = re.compile(r"^\s*#\s*(include|if|endif|ifndef|error)|\brc\b|\bcode\b|ea_fail|ec_fail|\bEA_E[A-Z]+|EA_GROW|alloc\(|\bfree\(|_MAX\b|capacity|assert|snprintf|\berr\b|"
                       r"sqlite3_(prepare|finalize|reset|close|mprintf)|estimated|EA_PRINTF|return -1;")
FLIPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "=": "<>", "<>": "="}
IN_C = re.compile(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\||\+=|-=)(?=[ \n])|(?<= )([+-])(?= [\w(])")
IN_SQL = re.compile(r" AND (?:\w+\.)?\\?\"?\w+\\?\"? (?:=|<|<=|>|>=) (?:\w+\.)?[\w?]+(?![\w(.])|(?<= )(<=|>=|<>|=|<|>)(?= )|\b(LEFT JOIN|AND|OR|sum\(|min\(|max\(|total\()(?!\w)|(?<= )([+-])(?= )")
SQL_WORDS = {"LEFT JOIN": "JOIN", "AND": "OR", "OR": "AND", "sum(": "max(", "total(": "max(", "min(": "max(", "max(": "min(", "+": "-", "-": "+"}
IS_SQL = re.compile(r"\b(SELECT|WHERE|JOIN|AND|GROUP BY|FROM|CASE|WHEN)\b")


class Mutant:
    def __init__(self, name, text, begin, end, instead):
        self.name, self.begin, self.end, self.instead, self.was = name, begin, end, instead, text[begin:end]
        self.line, self.column = text.count("\n", 0, begin) + 1, begin - text.rfind("\n", 0, begin)
        self.of = text[text.rfind("\n", 0, begin) + 1:text.find("\n", begin)].strip()

    @property
    def place(self):
        return f"{self.name}:{self.line}:{self.column}"

    def __str__(self):
        return f"{self.place}: {self.was.strip()!r} -> {self.instead.strip()!r} in {self.of[:110]!r}"


def regions(text):
    """(kind, begin, end) of code and of the inside of strings; comments and characters are left out."""
    at = 0
    for found in re.finditer(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", text, re.S):
        yield "code", at, found.start()
        if found[0].startswith('"'):
            yield "text", found.start() + 1, found.end() - 1
        at = found.end()
    yield "code", at, len(text)


def closing(text, at):
    """The place after the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i + 1
    return len(text)


def mutants(name):
    text = (SOURCE / name).read_text(encoding="utf-8")
    found = []
    for kind, begin, end in regions(text):
        if kind == "code":
            for m in IN_C.finditer(text, begin, end):
                change = FLIPS[m[1]] if m[1] else "-" if m[2] == "+" else "+"
                if m[1] == "<" and re.search(r"\bfor \([^{;]*;[^{;]*$", text[text.rfind("\n", 0, m.start()):m.start()]):
                    change = "+ 1 <"  # one turn too few: with one too many memory is read that is not the array's, and sanitizers are for that
                found.append(Mutant(name, text, *m.span(), change))
            for m in re.finditer(r"\b(if|while) \(", text[begin:end]):
                first = begin + m.end()
                last = closing(text, first - 1) - 1
                found.append(Mutant(name, text, first, last, f"!({text[first:last]})"))
        elif IS_SQL.search(text, begin, end):
            for m in IN_SQL.finditer(text, begin, end):
                if m[0].startswith(" AND"):
                    found.append(Mutant(name, text, *m.span(), ""))
                    inner = IN_SQL.search(text, m.start() + 5, m.end())
                    if inner and inner[1]:
                        found.append(Mutant(name, text, *inner.span(), FLIPS[inner[1]]))
                else:
                    found.append(Mutant(name, text, *m.span(), FLIPS[m[1]] if m[1] else SQL_WORDS[m[2] or m[3]]))
    return [m for m in found if not NO_ANSWER.search(m.of)]


def judges():
    text = (SOURCE / "tests" / "judges" / "judges.py").read_text(encoding="utf-8")
    return ",".join(name for name in re.findall(r"\.(judge_\w+)", text) if name not in NOT_JUDGES)


def fails(command, folder, log, seconds):
    """Whether a test fails, by its first failure: it is ended then."""
    with subprocess.Popen([str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        deadline, lines, failed = time.monotonic() + seconds, queue.Queue(), None
        reader = concurrent.futures.ThreadPoolExecutor(1)
        reader.submit(lambda: ([lines.put(line) for line in process.stdout], lines.put(None)))
        while failed is None:
            try:
                line = lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                failed = f"not ended after {seconds} s"
                break
            if line is None:
                break
            log.write(line)
            if line.startswith("FAILED"):
                failed = line.strip()[8:120]
        if failed:
            try:
                os.killpg(process.pid, signal.SIGTERM)  # the session that was started above, and no other
            except ProcessLookupError:
                pass
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        reader.shutdown(wait=False)
        return failed or (f"exit code {code}" if code else None)


def below(table, name, default):
    """What a table says of a file, by its longest path."""
    return table.get(max((path for path in table if name.startswith(path)), key=len, default=None), default)


def caught(mutant, folder, log, quick):
    """What catches a mutant that was built, or None. Quick tests that are made for the file come first."""
    build = folder / "build/dev"
    judged = folder / "tests/judges/test_answers.py"
    first = below(FIRST_JUDGES, mutant.name, None)
    tests = [[build / "tests/unit" / f"test_{unit}"] for unit in below(UNITS_OF, mutant.name, UNITS)]
    tests += [[judged, "--machines", MACHINES, "--only", first]] if first else []
    tests += [[judged, "--machines", MACHINES if quick else MORE, "--only", judges()]]
    tests += [[build / "tests/unit" / f"test_{unit}"] for unit in below(SLOW_UNITS, mutant.name, [])]
    tests += [] if quick else [[folder / "tests/e2e" / f"{name}.py"] for name in OF_FILE[mutant.name]]
    for test in tests:
        is_script = test[0].suffix == ".py"
        found = fails([sys.executable, "-u", *test, "--build", build] if is_script else test, folder, log, 240 if is_script else 60)
        if found:
            return f"{test[0].stem[5:]}: {found}" if is_script else f"unit.{test[0].name[5:]}"
    return None


def build(folder, log):
    """Whether it builds."""
    targets = [*planted.PROGRAMS, *(f"test_{unit}" for unit in UNITS), "batch_records", "alter_store"]
    environment = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    commands = [["cmake", "--preset", "dev"]] * (not (folder / "build/dev/build.ninja").exists()) + \
        [["cmake", "--build", "--preset", "dev", "-j", "2", "--target", *targets]]
    for command in commands:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
        log.write(done.stdout)
        if done.returncode:
            return False
    return True


def tried(mutant, folder, quick):
    """("caught", by what), ("survived", "") or ("did not build", "")."""
    path = folder / mutant.name
    original = path.read_text(encoding="utf-8")
    with open(folder / "mutants.log", "a", encoding="utf-8") as log:
        log.write(f"==== {mutant}\n")
        path.write_text(original[:mutant.begin] + mutant.instead + original[mutant.end:], encoding="utf-8")
        try:
            if not build(folder, log):
                return "did not build", ""
            found = caught(mutant, folder, log, quick)
        finally:
            path.write_text(original, encoding="utf-8")
    return ("caught", found) if found else ("survived", "")


def equivalents():
    """{(file, line's text, what was changed, to what): reason}"""
    rows = EQUIVALENT.read_text(encoding="utf-8").splitlines()[1:] if EQUIVALENT.exists() else []
    return {tuple(row.split("\t")[:4]): row.split("\t")[4] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="mutants of the sample; default 200")
    parser.add_argument("--seed", type=int, default=33, help="of the sample; default 33")
    parser.add_argument("--workers", type=int, default=2, help="copies that are tested at once; default 2")
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "mutants", help="where the copies are; default build/mutants")
    parser.add_argument("--files", default="", help="files alone whose names have this part")
    parser.add_argument("--again", default="", help="these mutants of the sample alone: FILE:LINE or FILE:LINE:COLUMN, with commas")
    parser.add_argument("--skip", type=int, default=0, help="so many of the sample, which were tried before")
    parser.add_argument("--quick", action="store_true", help="unit tests and judges alone, without the end-to-end tests of a file")
    parser.add_argument("--least", type=float, default=90, help="percent that must be caught; default 90")
    parser.add_argument("--list", action="store_true", help="print the sample and end")
    options = parser.parse_args()
    every = [m for name in OF_FILE for m in mutants(name)]
    sample = random.Random(options.seed).sample(every, min(options.count, len(every)))
    sample = [m for m in sample if options.files in m.name][options.skip:]
    if options.again:
        sample = [m for m in every if any(f"{m.place}:".startswith(f"{place}:") for place in options.again.split(","))]
    print(f"{len(every)} mutants of {len(OF_FILE)} files, {len(sample)} of them are tried", flush=True)
    if options.list:
        print("\n".join(map(str, sample)))
        return 0
    free = queue.Queue()
    for number in range(min(options.workers, len(sample))):
        folder = (options.folder / str(number)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        planted.copy_to(folder)
        with open(folder / "mutants.log", "w", encoding="utf-8") as log:
            if not build(folder, log):
                raise SystemExit(f"the unchanged copy in {folder} does not build: see mutants.log there")
        free.put(folder)
    with open(folder / "mutants.log", "a", encoding="utf-8") as log:
        for name in {mutant.name for mutant in sample}:
            plain = caught(Mutant(name, " ", 0, 0, ""), folder, log, options.quick) if name == sample[0].name else None
            if plain:
                raise SystemExit(f"the tests fail without a mutant: {plain}")
    known, outcomes, survivors = equivalents(), collections.Counter(), []

    def attempt(mutant):
        folder = free.get()
        try:
            return mutant, tried(mutant, folder, options.quick)
        finally:
            free.put(folder)

    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for done in concurrent.futures.as_completed([pool.submit(attempt, mutant) for mutant in sample]):
            mutant, (how, by) = done.result()
            reason = known.get((mutant.name, mutant.of, mutant.was.strip(), mutant.instead.strip()))
            how = "equivalent" if how == "survived" and reason else how
            outcomes[how] += 1
            print(f"{how:13} {mutant}" + (f" [{by or reason}]" if by or reason else ""), flush=True)
            if how == "survived":
                survivors.append(mutant)
    counted = outcomes["caught"] + outcomes["survived"]
    share = 100 * outcomes["caught"] / counted if counted else 100.0
    print(f"{outcomes['caught']} caught, {outcomes['survived']} survived, {outcomes['equivalent']} change no answer, {outcomes['did not build']} did not build:"
          f" {share:.1f} % of {counted} are caught")
    return 0 if share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
