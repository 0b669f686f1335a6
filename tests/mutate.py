#!/usr/bin/env python3
"""Mutation testing of the code that answers questions: one condition, comparison, join or sum is changed at a time, in C or in the text of SQL; the
changed file is compiled and linked into the programs (tests/relink.py), and the tests of that code must fail. Prints each mutant with what caught it, and the share of those caught. Part of
the long form.

A mutant is caught by the first of: quick unit tests that link the file; the judges (tests/judges/warm.py) of the file's answers; all other judges; slow unit
tests; the end-to-end tests that OF_FILE names for the file. A mutant that does not build says nothing and is not counted. One that changes no answer (a
hint, an equal bound) is listed in tests/mutants.tsv, with the reason: it must survive to be counted as such.

The judges' stores are made once, by the unchanged collector: the sources that are changed ask a store, and those of collector/state compute its history
anew from the batches.

The sample of a seed depends on each mutant's line alone: a change of another line leaves it as it is.

With --alone the judges are asked first: the summary has the share that they catch alone. With --state each outcome is a line of a file; a later run with the same seed and count takes the outcomes of mutants whose file has not changed from there, and its summary
counts them. A mutant that does not end is caught when it takes ten times as long as the unchanged program.

usage: tests/mutate.py [--count N] [--seed N] [--workers N] [--folder DIR] [--files PART] [--skip N] [--quick] [--again FILE:LINE[:COLUMN],...]
                       [--alone] [--state FILE] [--summary] [--machines NAME,...]
"""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))
import relink  # noqa: E402

# Files whose code makes answers, and the end-to-end tests of each beside the judges.
STATE, QUERY, PROFILE = ["test_ledger", "test_ended"], ["test_query", "test_aggregates", "test_sql_page", "test_first_hour"], ["test_profile", "test_profile_gaps", "test_profile_forms"]
ACTIVITIES = ["test_activity", "test_joins", "test_report"]
OF_FILE = {
    "collector/state/ledger_report.c": STATE, "collector/state/gaps.c": STATE, "collector/app/cmd_ledger.c": [*STATE, "test_delivery"],
    "collector/query/analysis/account_names.c": ["test_accounts"],
    "collector/query/analysis/activity.c": ACTIVITIES, "collector/query/analysis/activity_events.c": ACTIVITIES, "collector/query/analysis/activity_rows.c": ACTIVITIES,
    "collector/query/analysis/activity_tables.c": ACTIVITIES, "collector/query/analysis/event_roles.c": ACTIVITIES, "collector/query/analysis/request_tracker.c": ACTIVITIES,
    "collector/query/analysis/sample_sources.c": ACTIVITIES, "collector/query/analysis/stack_missed.c": ACTIVITIES, "collector/query/analysis/stack_sums.c": PROFILE, "collector/query/analysis/thread_time.c": PROFILE,
    "collector/query/analysis/sched_tracker.c": ACTIVITIES, "collector/query/analysis/event_annotations.c": PROFILE,
    "collector/query/sql/sql_activity.c": ACTIVITIES, "collector/query/scan/counter_names.c": ACTIVITIES,
    "collector/query/analysis/address_space.c": PROFILE, "collector/query/analysis/stackwalk_reader.c": PROFILE, "collector/query/analysis/profile.c": PROFILE, "collector/query/analysis/stack_query.c": PROFILE,
    "collector/query/analysis/aggregate.c": QUERY, "collector/query/analysis/instances.c": ["test_report"], "collector/query/scan/scan.c": QUERY, "collector/query/scan/scan_values.c": QUERY,
    "collector/query/sql/sql_aggregate.c": QUERY, "collector/query/sql/sql_events.c": QUERY, "collector/query/sql/sql_functions.c": QUERY,
    "collector/query/sql/sql_tables.c": QUERY, "collector/web/questions.c": ["test_web", "test_detections", "test_first_hour", "test_joins", "test_access"],
    "collector/query/sql/select.c": QUERY, "collector/query/sql/sql_push.c": QUERY, "collector/query/sql/sql_groups.c": QUERY, "collector/query/sql/sql_prepare.c": QUERY,
    "collector/query/sql/sql_filter.c": QUERY, "collector/query/sql/sql_push_rows.c": QUERY, "collector/query/sql/sql_rows.c": QUERY, "collector/query/analysis/first_events.c": QUERY,
    "collector/query/sql/sql_times.c": QUERY, "collector/query/sql/sql_vtab.c": QUERY, "collector/query/analysis/group_events.c": QUERY,
    "collector/query/analysis/block_keys.c": QUERY, "collector/query/analysis/methods.c": ["test_methods", "test_javascript"], "collector/query/analysis/dotnet_activity.c": ["test_dotnet"],
}
# Unit tests of the files below a path, quick ones; SLOW ones come after the judges.
UNITS_OF = {"collector/state": ["ledger", "ledger_edges", "state_tables", "gaps", "watch"], "collector/app/cmd_ledger.c": [], "collector/query": ["sql", "aggregate", "trackers"], "collector/query/scan/": ["sql", "aggregate", "trackers", "sql_texts", "sql_push"],
            "collector/query/sql/": ["select", "sql", "sql_texts", "sql_push"], "collector/query/analysis/group_events.c": ["sql_push"], "collector/query/analysis/first_events.c": ["sql_push"], "collector/query/analysis/block_keys.c": ["sql_push", "aggregate"],
            "collector/web": []}
SLOW_UNITS = {"collector/state": ["state_worker"], "collector/query": ["object_names_db"]}
UNITS = sorted({unit for table in (UNITS_OF, SLOW_UNITS) for units in table.values() for unit in units})
# Judges whose answers the file makes: they are asked first. A file without a row has all of them at once.
LEDGER, ACTIVITY = "judge_counts,judge_troubles,judge_printed,judge_gaps", "judge_threads,judge_latencies,judge_hardware,judge_usage,judge_counters"
STACKS, VALUES, GROUPS = "judge_profiles,judge_waits,judge_requests,judge_missed,judge_counted,judge_usage", "judge_headers,judge_functions,judge_aggregates,judge_filters", "judge_groups"
FIRST_JUDGES = {
    "collector/query/analysis/account_names.c": "judge_instances", "collector/state/": LEDGER, "collector/app/cmd_ledger.c": LEDGER, "collector/query/analysis/activity": ACTIVITY, "collector/query/analysis/sched_tracker.c": ACTIVITY,
    "collector/query/analysis/event_roles.c": ACTIVITY, "collector/query/analysis/request_tracker.c": ACTIVITY, "collector/query/analysis/sample_sources.c": ACTIVITY,
    "collector/query/analysis/stack_missed.c": STACKS, "collector/query/analysis/stack_sums.c": STACKS, "collector/query/analysis/thread_time.c": STACKS,
    "collector/query/sql/sql_activity.c": ACTIVITY, "collector/query/scan/counter_names.c": ACTIVITY, "collector/query/analysis/event_annotations.c": STACKS,
    "collector/query/analysis/address_space.c": STACKS, "collector/query/analysis/stackwalk_reader.c": STACKS, "collector/query/analysis/profile.c": STACKS,
    "collector/query/analysis/stack_query.c": STACKS, "collector/query/analysis/aggregate.c": VALUES, "collector/query/scan/": VALUES, "collector/query/sql/sql_aggregate.c": VALUES,
    "collector/query/sql/sql_events.c": VALUES, "collector/query/sql/sql_functions.c": VALUES, "collector/query/analysis/instances.c": "judge_instances,judge_lists,judge_modules",
    "collector/query/sql/s": GROUPS, "collector/query/analysis/group_events.c": GROUPS, "collector/query/analysis/block_keys.c": GROUPS,
    "collector/query/analysis/methods.c": "judge_dotnet", "collector/query/analysis/dotnet_activity.c": "judge_dotnet",
    "collector/query/sql/sql_tables.c": "judge_machines,judge_classes,judge_instances,judge_modules,judge_counts,judge_troubles",
    "collector/web/questions.c": "judge_lists,judge_doings,judge_search,judge_connections,judge_autostart,judge_gaps",
}
COLLECTOR = "collector/app/etwcollector"
MACHINES, MORE = "made-reused", "made-reused,made-ipv6,made-losses,real-clr-32bit"  # of the quick form, and of the long one
EQUIVALENT = SOURCE / "tests" / "mutants.tsv"

# Lines that no answer hangs on: errors of memory and files, ceilings (tests of ceilings have them), estimates for SQLite's planner.
NO_ANSWER = re.compile(r"^\s*#\s*(include|if|endif|ifndef|error)|\brc\b|\bcode\b|ea_fail|ec_fail|\bEA_E[A-Z]+|EA_GROW|alloc\(|\bfree\(|_MAX\b|capacity|assert|EA_ASSERT|snprintf|\berr\b|"
                       r"sqlite3_(prepare|finalize|reset|close|mprintf)|estimated|EA_PRINTF|return -1;")
FLIPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "=": "<>", "<>": "="}
IN_C = re.compile(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\||\+=|-=)(?=[ \n])|(?<= )([+-])(?= [\w(])")
IN_SQL = re.compile(r" AND (?:\w+\.)?\\?\"?\w+\\?\"? (?:=|<|<=|>|>=) (?:\w+\.)?[\w?]+(?![\w(.])|(?<= )(<=|>=|<>|=|<|>)(?= )|\b(LEFT JOIN|AND|OR|sum\(|min\(|max\(|total\()(?!\w)|(?<= )([+-])(?= )")
SQL_WORDS = {"LEFT JOIN": "JOIN", "AND": "OR", "OR": "AND", "sum(": "max(", "total(": "max(", "min(": "max(", "max(": "min(", "+": "-", "-": "+"}
IS_SQL = re.compile(r"\b(SELECT|WHERE|JOIN|AND|GROUP BY|FROM|CASE|WHEN)\b")


@functools.cache
def digest(name):
    return hashlib.sha256((SOURCE / name).read_bytes()).hexdigest()[:16]


class Mutant:
    def __init__(self, name, text, begin, end, instead):
        self.name, self.begin, self.end, self.instead, self.was = name, begin, end, instead, text[begin:end]
        self.line, self.column = text.count("\n", 0, begin) + 1, begin - text.rfind("\n", 0, begin)
        self.of = text[text.rfind("\n", 0, begin) + 1:text.find("\n", begin)].strip()

    @property
    def place(self):
        return f"{self.name}:{self.line}:{self.column}"

    @property
    def key(self):
        """The mutant in a file of outcomes: it is another one when its file has changed."""
        return f"{self.place} {self.was} {self.instead} {digest(self.name)}"

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


IN_QUOTES = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")


def closing(text, at):
    """The place after the bracket that closes the one at a place."""
    text, depth = IN_QUOTES.sub(lambda quoted: "_" * len(quoted[0]), text), 0
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


def drawn(every, seed):
    """The mutants in the order in which a seed draws them."""
    equal = collections.Counter()

    def rank(mutant):
        what = (seed, mutant.name, mutant.of, mutant.was, mutant.instead)
        equal[what] += 1
        return hashlib.sha256(repr((*what, equal[what])).encode()).digest()
    return sorted(every, key=rank)


class Judges:
    """tests/judges/warm.py: it stores the machines and computes what is naive once, and judges each mutant's collector."""

    def __init__(self, build, machines, folds, log):
        """folds: whether a collector will be asked to compute the history."""
        self.process = subprocess.Popen([sys.executable, "-u", SOURCE / "tests/judges/warm.py", "--build", build, "--machines", machines, *(["--fold"] if folds else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace", bufsize=1)
        self.answers, self.lock, self.asked = {}, threading.Lock(), 0
        for line in self.process.stdout:
            log.write(line)
            log.flush()
            if line == "ready\n":
                break
            if line.startswith("the judges ask"):
                print(line, end="", flush=True)
        else:
            raise SystemExit("the judges find the unchanged collector wrong: see judges.log")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            name, _, found = line.rstrip("\n").partition("\t")
            if name in self.answers:
                self.answers[name].put(found)

    def wrong(self, collector, first, folds):
        """What is wrong, or nothing. first: judges with commas that are asked first; folds: whether the collector computes the history."""
        with self.lock:
            self.asked += 1
            name = str(self.asked)
            answer = self.answers[name] = queue.Queue()
            self.process.stdin.write(f"{name}\t{collector}\t{first}\t{'fold' if folds else ''}\n")
        found = answer.get()
        del self.answers[name]
        return found


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


def has_history(mutant):
    """Whether the mutant's file computes the history."""
    return mutant.name.startswith("collector/state")


def judged(mutant, made, log, judges):
    """What the judges find wrong with a mutant's collector, or nothing."""
    found = judges.wrong(made.link(COLLECTOR, log), below(FIRST_JUDGES, mutant.name, ""), has_history(mutant))
    log.write(f"---- judges: {found}\n")
    log.flush()
    return f"answers: {found[:120]}" if found else None


def caught(mutant, made, log, quick, judges, alone):
    """(what catches a mutant that compiles, or None; whether judges catch it, None when they were not asked). Quick tests that are made for the file
    come first, unless the judges are asked about each one. made: relink.Relinked"""
    def by_units(units):
        for unit in units:
            log.write(f"---- {unit}\n")
            program = made.link(f"tests/unit/test_{unit}", log)
            if program and fails([program], made.folder, log, 60):  # what an ended one leaves is there
                return f"unit.{unit}"
        return None

    by_judges = judged(mutant, made, log, judges) if alone else None
    found = by_judges or by_units(below(UNITS_OF, mutant.name, UNITS))
    if found:
        return found, bool(by_judges) if alone else None
    by_judges = None if alone else judged(mutant, made, log, judges)
    found = by_judges or by_units(below(SLOW_UNITS, mutant.name, []))
    for test in () if found or quick else OF_FILE[mutant.name]:
        failed = fails([sys.executable, "-u", SOURCE / "tests/e2e" / f"{test}.py", "--build", made.folder], SOURCE, log, 600)
        log.write(f"---- {test}: {failed}\n")
        if failed:
            return f"{test[5:]}: {failed[:120]}", bool(by_judges)
    return found, bool(by_judges)


def tried(mutant, made, quick, judges, alone):
    """("caught", by what, whether by judges), ("survived", "", False) or ("did not build", "", None)."""
    original = (SOURCE / mutant.name).read_text(encoding="utf-8")
    with open(made.folder / "mutants.log", "a", encoding="utf-8") as log:
        log.write(f"==== {mutant}\n")
        if not made.change(mutant.name, original[:mutant.begin] + mutant.instead + original[mutant.end:], log):
            return "did not build", "", None
        found, by_judges = caught(mutant, made, log, quick, judges, alone)
    return ("caught", found, by_judges) if found else ("survived", "", False)


def remembered(path):
    """{mutant's key: (how, by what, whether by judges)} of a file of outcomes."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return {row["mutant"]: (row["how"], row["by"], row["judges"]) for row in map(json.loads, lines)}


def remember(path, mutant, outcome):
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps(dict(zip(("mutant", "how", "by", "judges"), (mutant.key, *outcome)))) + "\n")


def equivalents():
    """{(file, line's text, what was changed, to what): reason}"""
    rows = EQUIVALENT.read_text(encoding="utf-8").splitlines()[1:] if EQUIVALENT.exists() else []
    return {tuple(row.split("\t")[:4]): row.split("\t")[4] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="mutants of the sample; default 200")
    parser.add_argument("--seed", type=int, default=33, help="of the sample; default 33")
    parser.add_argument("--workers", type=int, default=2, help="mutants that are tested at once; default 2")
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "mutants", help="where the mutants are; default build/mutants")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "dev", help="a build of the unchanged sources; default build/dev")
    parser.add_argument("--files", default="", help="files alone whose names have this part")
    parser.add_argument("--again", default="", help="these mutants of the sample alone: FILE:LINE or FILE:LINE:COLUMN, with commas")
    parser.add_argument("--skip", type=int, default=0, help="so many of the sample, which were tried before")
    parser.add_argument("--quick", action="store_true", help="unit tests and judges alone, without the end-to-end tests of a file")
    parser.add_argument("--least", type=float, default=90, help="percent that must be caught; default 90")
    parser.add_argument("--machines", help="the machines that the judges ask about, of the first store, with commas")
    parser.add_argument("--list", action="store_true", help="print the sample and end")
    parser.add_argument("--alone", action="store_true", help="ask the judges about mutants that a unit test catches, too")
    parser.add_argument("--state", type=pathlib.Path, help="a file of outcomes: those that it has are taken from it, new ones are added")
    parser.add_argument("--summary", action="store_true", help="count the outcomes that --state has, and try nothing")
    options = parser.parse_args()
    every = [m for name in OF_FILE for m in mutants(name)]
    sample = drawn(every, options.seed)[:options.count]
    sample = [m for m in sample if options.files in m.name][options.skip:]
    if options.again:
        sample = [m for m in every if any(f"{m.place}:".startswith(f"{place}:") for place in options.again.split(","))]
    print(f"{len(every)} mutants of {len(OF_FILE)} files, {len(sample)} of them are tried", flush=True)
    if options.list:
        print("\n".join(map(str, sample)))
        return 0
    before = remembered(options.state)
    waiting = [m for m in sample if m.key not in before or options.alone and before[m.key][2] is None and before[m.key][0] == "caught"]
    known, outcomes, judged_alone = equivalents(), collections.Counter(), collections.Counter()
    if len(waiting) < len(sample):
        print(f"{len(sample) - len(waiting)} outcomes are those of {options.state}", flush=True)

    def count(mutant, how, by, by_judges):
        reason = known.get((mutant.name, mutant.of, mutant.was.strip(), mutant.instead.strip()))
        how = "equivalent" if how == "survived" and reason else how
        outcomes[how] += 1
        if how in ("caught", "survived"):
            judged_alone[by_judges] += 1
        print(f"{how:13} {mutant}" + (f" [{by or reason}]" if by or reason else "") + " (not by judges)" * (how == "caught" and by_judges is False), flush=True)

    for mutant in sample:
        if mutant not in waiting:
            count(mutant, *before[mutant.key])
    if waiting and options.summary:
        print(f"{len(waiting)} are not tried")
    elif waiting:
        try_all(options, waiting, count)
    counted = outcomes["caught"] + outcomes["survived"]
    share = 100 * outcomes["caught"] / counted if counted else 100.0
    print(f"{outcomes['caught']} caught, {outcomes['survived']} survived, {outcomes['equivalent']} change no answer, {outcomes['did not build']} did not build:"
          f" {share:.1f} % of {counted} are caught")
    asked = judged_alone[True] + judged_alone[False]
    if options.alone and asked:
        print(f"the judges alone catch {judged_alone[True]} of {asked}: {100 * judged_alone[True] / asked:.1f} %")
    return 0 if share >= options.least else 1


def try_all(options, sample, count):
    """Tries the mutants of a sample; count(mutant, how, by what, whether by judges) is called with each outcome."""
    free, targets = queue.Queue(), [COLLECTOR, *(f"tests/unit/test_{unit}" for unit in UNITS)]
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in range(min(options.workers, len(sample))):
        free.put(relink.Relinked(options.build, options.folder / str(number), targets))
    with open(options.folder / "judges.log", "w", encoding="utf-8") as log:
        judges = Judges(options.build, options.machines or (MACHINES if options.quick else MORE), any(map(has_history, sample)), log)

    def attempt(mutant):
        made = free.get()
        try:
            return mutant, tried(mutant, made, options.quick, judges, options.alone)
        finally:
            free.put(made)

    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for done in concurrent.futures.as_completed([pool.submit(attempt, mutant) for mutant in sample]):
            mutant, outcome = done.result()
            remember(options.state, mutant, outcome)
            count(mutant, *outcome)
    judges.process.stdin.close()
    judges.process.wait()


if __name__ == "__main__":
    sys.exit(main())
