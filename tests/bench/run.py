#!/usr/bin/env python3
"""make bench: measures the cost of every stage, alone and together, each compared with a reference measured in the same run.

Builds the release preset. The programs run in turn, N times. A program with one thread runs on one core. Each figure is the
median of the runs. A ratio is the median of the ratios of consecutive runs: on a shared machine a ratio is stable, while a
figure drifts. Prints one table per section (--json: one JSON array of rows instead), and writes the JSON to build/bench.json.

A section is one function in SECTIONS. It gets a Bench and returns rows made by row(). To add a section, add such a function.

With --beside, the build folder of another release, the section "beside" compares the cost of ingest of both releases.

usage: tests/bench/run.py [--runs N] [--build DIR] [--beside DIR] [--json] [--only SECTION] [TRACE NAME...]
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tests" / "bench"), str(SOURCE / "tests" / "e2e")]
import harness  # noqa: E402
import sigma_rules  # noqa: E402
import traces  # noqa: E402

TRACES = ["clr-kernel-win8-x64", "tracelogging-win11-20cpu"]
NS, EVENTS_PER_S = "ns/event", "M events/s"


class Bench:
    """What a section gets: the build folder, how often to measure, which traces, and how to run a program."""

    def __init__(self, build, runs, names, beside=None):
        self.build, self.runs, self.names, self.beside = build, runs, names, beside

    def program(self, *path):
        return self.build.joinpath(*path)

    def on_one_core(self):
        return ["taskset", "-c", "0"] if shutil.which("taskset") else []

    def measure(self, program, *arguments):
        """A program of tests/bench, on one core: the JSON objects that it printed, one a line."""
        done = subprocess.run([*self.on_one_core(), self.program("tests", "bench", program), *arguments], check=True,
                              stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


def row(section, what, values, unit, beside=None, goal=None, more_is_better=False, **others):
    """One row. values: one a run. beside: (its name, its values, of the same runs): the row's ratio is how many times as fast
    (or, with another unit, as large) ours is. goal: ("value" | "ratio", "<=" | ">=", bound)."""
    result = {"section": section, "what": what, "value": round(statistics.median(values), 2), "unit": unit}
    if beside:
        name, theirs = beside
        pairs = [(a, b) for a, b in zip(values, theirs) if a and b]
        result["reference"] = name
        result["reference_value"] = round(statistics.median(theirs), 2)
        if pairs:
            faster = unit == NS and not more_is_better
            result["ratio"] = round(statistics.median(b / a if faster else a / b for a, b in pairs), 3)
    if goal:
        which, how, bound = goal
        got = result.get(which)
        result["goal"] = f"{which} {how} {bound}"
        result["met"] = got is not None and (got <= bound if how == "<=" else got >= bound)
    result.update(others)
    return result


# ---- one trace, stage by stage ----

# what, our figure out of a run, (reference's name, its figure out of the same run) or None, goal
STAGES = [
    ("bare walk: read, decompress, step over", lambda r: r["reference"]["walk_ns"], None, None),
    ("reading the file", lambda r: r["reference"]["file_ns"], ("memory copy", lambda r: r["reference"]["copy_ns"]), None),
    ("decompression alone", lambda r: r["reference"]["decompress_ns"] - r["reference"]["file_ns"],
     ("memory copy", lambda r: r["reference"]["copy_ns"]), None),
    ("index: where buffers are", lambda r: r["plain"]["index_ns"], None, None),
    ("read: buffers into records, no merge", lambda r: r["plain"]["buffers_ns"], ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
    ("merge alone: what it adds to that", lambda r: r["plain"]["read_ns"] - r["plain"]["buffers_ns"],
     ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
    ("read + merge", lambda r: r["plain"]["index_ns"] + r["plain"]["read_ns"], ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
    ("read + merge + decode into an open batch", lambda r: r["plain"]["index_ns"] + r["plain"]["read_add_ns"], ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
    ("columns alone, not compressed", lambda r: r["plain"]["encode_ns"], ("memory copy", lambda r: r["reference"]["copy_ns"]), None),
    ("read + merge + columns, not compressed", lambda r: r["plain"]["index_ns"] + r["plain"]["read_add_ns"] + r["plain"]["encode_ns"],
     ("bare walk", lambda r: r["reference"]["walk_ns"]), ("ratio", ">=", 0.5)),
    ("compression alone: what it adds to that", lambda r: r["packed"]["encode_ns"] - r["plain"]["encode_ns"],
     ("zstd -1 of raw buffers", lambda r: r["reference"]["zstd_ns"] - r["reference"]["decompress_ns"]), None),
    ("columns, dictionaries and zstd", lambda r: r["packed"]["encode_ns"],
     ("zstd -1 of raw buffers", lambda r: r["reference"]["zstd_ns"] - r["reference"]["decompress_ns"]), None),
    ("whole batches", lambda r: r["packed"]["index_ns"] + r["packed"]["read_add_ns"] + r["packed"]["encode_ns"],
     ("decompression + zstd -1 of raw buffers", lambda r: r["reference"]["zstd_ns"]), None),
    ("collector: open a batch, every record", lambda r: r["packed"]["open_ns"] + r["packed"]["decode_ns"],
     ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
    ("collector: checksum of every record", lambda r: r["packed"]["verify_ns"], ("memory copy", lambda r: r["reference"]["copy_ns"]), None),
    ("collector: records folded into state", lambda r: r["packed"]["fold_ns"], ("bare walk", lambda r: r["reference"]["walk_ns"]), None),
]
BATCH_BYTES = {"clr-kernel-win8-x64": 12.5}  # goals, an event


def stages(bench):
    rows = []
    for name in bench.names:
        paths = [str(p) for p in traces.paths(name, bench.build)]
        series = []
        for _ in range(bench.runs + 1):
            series.append({"reference": bench.measure("reference", "measure", "--runs", "3", *paths)[0],  # as often as batches
                           "plain": bench.measure("batches", "--level", "none", *paths)[0],
                           "packed": bench.measure("batches", *paths)[0]})
        series = series[1:]  # the first one warmed the page cache
        expected = traces.event_count(name)
        for program, figures in series[0].items():
            if figures["events"] != expected:
                raise SystemExit(f"FAILED: {program} saw {figures['events']} events in {name}, there are {expected}")
        for what, ours, reference, goal in STAGES:
            beside = (reference[0], [reference[1](r) for r in series]) if reference else None
            if "decompression" not in what or series[0]["reference"]["unpacked_bytes"]:
                rows.append(row(name, what, [ours(r) for r in series], NS, beside, goal))
        bytes_goal = ("value", "<=", BATCH_BYTES[name]) if name in BATCH_BYTES else None
        rows.append(row(name, "size of batches", [r["packed"]["bytes_per_event"] for r in series], "B/event",
                        ("zstd -1 of raw buffers", [r["reference"]["zstd_bytes"] for r in series]), bytes_goal))
    return rows


# ---- events of one class, and schemas ----

def hot_classes(bench):
    """Everything hot, not compressed, beside a copy of the same records; and schemas that are asked for the first time."""
    rows, section = [], "hot classes"
    series = [bench.measure("hot_class", "measure") for _ in range(bench.runs)]
    for same in zip(*series):
        copies = ("copy of the records", [r["copy_ns"] for r in same])
        name = same[0]["class"]
        rows.append(row(section, f"{name}: callback", [r["add_ns"] for r in same], NS, copies))
        rows.append(row(section, f"{name}: columns", [r["encode_ns"] for r in same], NS, copies))
        rows.append(row(section, f"{name}: in all", [r["columns_ns"] for r in same], NS, copies,
                        ("value", "<=", 150 if "fields" in name else 60)))
    for same in zip(*(bench.measure("hot_class", "miss", "--runs", "21") for _ in range(bench.runs))):
        if "load_ns" in same[0]:
            rows.append(row(section, "loading a schema cache, for each event in it", [r["load_ns"] for r in same], NS))
        else:
            rows.append(row(section, f"{same[0]['class']}: a schema's first event", [r["miss_ns"] for r in same], NS, None, ("value", "<=", 20000)))
    return rows


# ---- the query language ----

FILTER_NS = {"where": 60, "drop": 60, "sample": 150, "limit": 200}  # goals

def language(bench):
    """Programs on context switches, beside loops in C over the same records with the same hash table: how long, and how many times as long."""
    rows = []
    for same in zip(*(bench.measure("lang", "measure") for _ in range(bench.runs))):
        name = same[0]["program"]
        rows.append(row("query language", name, [r["ns"] for r in same], NS, ("loop in C", [r["c_ns"] for r in same]),
                        ("value", "<=", 60 if "count" in name else 150)))
        rows.append(row("query language", f"{name}: of the loop's time", [r["ns"] / r["c_ns"] for r in same], "times", goal=("value", "<=", 3)))
    return rows


def filters(bench):
    """One filter of the configuration each, beside a loop in C that makes the same decisions."""
    series = [bench.measure("filters", "measure") for _ in range(bench.runs)]
    return [row("filters", f"{same[0]['filter']}: an event", [r["ns"] for r in same], NS, ("loop in C", [r["c_ns"] for r in same]),
                ("value", "<=", FILTER_NS[same[0]["filter"]])) for same in zip(*series)]


# ---- Sigma rules ----

def thread_s(pid, name):
    """Returns the CPU seconds that the threads of a process with this name have used."""
    used = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        found, fields = path.read_text(encoding="utf-8").split("(", 1)[1].rsplit(")", 1)
        used += sum(map(int, fields.split()[11:13])) if found == name else 0
    return used / os.sysconf("SC_CLK_TCK")


def judged(web):
    with urllib.request.urlopen(web + "/metrics", timeout=30) as answer:
        return int(re.search(rb"^etwcollector_rules_events_total (\d+)", answer.read(), re.MULTILINE).group(1))


def sigma(bench):
    """1,200 generated rules of process_creation: the engine alone on process starts, and all that the collector's thread of the rules does for them: the store
    read, processes, their programs and their parents looked up, the rules run, matches kept."""
    rows, section = [], "Sigma rules: 1,200 of process_creation"
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as name, harness.Environment(bench.build) as env:
        folder = pathlib.Path(name)
        sigma_rules.write(folder)
        series = bench.measure("rules", "measure", "--runs", str(bench.runs), folder)
        rows.append(row(section, "engine: a process start", [r["ns"] for r in series], NS, goal=("value", "<=", 2000), candidates=series[0]["candidates"],
                        matches=series[0]["matches"]))
        rows.append(row(section, "the compiled rules", [r["bytes"] / 2**20 for r in series], "MiB", goal=("value", "<=", 64)))
        trace, count = folder / "starts.etl", sigma_rules.write_trace(folder)
        env.make_certificates()
        loads = env.folder / "loads"
        loads.mkdir()
        sigma_rules.write_loads(loads)
        for what, rules, events in (("process start", folder, count), ("load of an image, 100 rules", loads, 5 * count)):
            spent = [judged_ns(env, trace, rules, events, env.folder / f"spool-{what.split()[0]}-{i}") for i in range(min(bench.runs, 3))]
            rows.append(row(section, f"collector: a {what}, from the store to kept matches", spent, NS, goal=("value", "<=", 2000)))
        env.run([env.collector, "ingest", "--store", env.folder / "past", "--host", "pc", trace])
        one = env.folder / "one.yml"
        one.write_text((loads / "loads.yml").read_text(encoding="utf-8").split("\n---\n", maxsplit=1)[0], encoding="utf-8")
        for what, rules, events, goal in (("one rule, a load of an image", one, 5 * count, 50), ("100 rules, a load of an image", loads, 5 * count, 500),
                                          ("1,200 rules, a process start", folder, count, 500)):
            spent = [tested_ns(env, rules, events) for _ in range(bench.runs)]
            rows.append(row(section, f"back-test (rules test): {what}, CPU beyond a time range without events", spent, NS, goal=("value", "<=", goal)))
    return rows


def tested_ns(env, rules, count):
    """CPU time of `rules test` and its processes for an event, without what reading the rules and opening the store takes."""
    fixed_s, _ = tested_s(env, rules, "--to", "2001-01-01T00:00:00Z")
    whole_s, answer = tested_s(env, rules)
    if answer["events"] < count or answer["ended"] != "whole":
        raise AssertionError(f"{answer['events']} of {count} events were tested: {answer['ended']}")
    return (whole_s - fixed_s) * 1e9 / answer["events"]


def tested_s(env, rules, *words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(env.run([env.collector, "rules", "test", "--json", "--matches", "0", *words, "--store", env.folder / "past", rules]).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, answer


def judged_ns(env, trace, rules, count, spool):
    """CPU time of the collector's thread of the rules for an event."""
    collector = env.new_collector(spool.name, extra=["--rules", rules, "--web", "127.0.0.1:0"]).start()
    web = collector.log().split("dashboard on ")[1].split("/\n")[0]
    begin = thread_s(collector.process.pid, "rules")
    env.replay([trace], collector, spool=spool)
    harness.wait_until(lambda: judged(web) >= count, "all events are judged", 120)
    spent = (thread_s(collector.process.pid, "rules") - begin) * 1e9 / count
    collector.stop()
    return spent


# ---- the recorder ----

def recorder(bench):
    """From a trace's records to the ring on the disk: decoding, columns, compression, the file. CPU time of the agent's process in two replays of
    different length, so that its start counts nothing; reading the trace is measured alone, and subtracted. 300 ns are 3 % of a core at 100,000
    events a second."""
    lengths, section = (5000, 25000), "recorder"
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as name, harness.Environment(bench.build) as env:
        env.make_certificates()
        collector = env.new_collector().start()
        made = []
        for ms in lengths:
            path = pathlib.Path(name) / f"{ms}.etl"
            env.run([bench.program("tests", "tracegen", "tracegen"), "make", "--preset", "office", "--duration-ms", str(ms), "--out", path])
            made.append(path)
        spent, reading = [], []
        for i in range(bench.runs):
            used = [recorded_s(env, collector, path, f"{i}-{path.stem}") for path in made]
            (few_s, few), (many_s, many) = used
            plain = bench.measure("batches", "--level", "none", made[1])[0]
            reading.append(plain["index_ns"] + plain["read_ns"])
            spent.append((many_s - few_s) * 1e9 / (many - few) - reading[-1])
        collector.stop()
    return [row(section, "an event, without reading the trace", spent, NS, ("reading the trace", reading), ("value", "<=", 300)),
            row(section, "of a core at 100,000 events a second", [ns / 100 for ns in spent], "%", goal=("value", "<=", 3))]


def recorded_s(env, collector, trace, spool):
    """CPU seconds of a replay into a recorder, and its events."""
    command = env.replay_command([trace], collector, spool=env.folder / spool, extra=["--json", "--live", "--recorder", "256MiB"])
    run = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = run.stdout.read()
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    ledger = json.loads(said)["ledger"]
    if run.returncode or ledger["events_recorded"] < ledger["events_delivered"]:
        raise SystemExit(f"FAILED: a recorder kept {ledger['events_recorded']} of {ledger['events_delivered']} events")
    return used.ru_utime + used.ru_stime, ledger["events_delivered"]


# ---- Windows' callback ----

def callback(bench):
    """From an EVENT_RECORD into the ring: all that the thread does which Windows calls."""
    rows = []
    series = [bench.measure("callback", "measure") for _ in range(bench.runs)]
    for same in zip(*series):
        rows.append(row("Windows' callback", f"{same[0]['class']}: into the ring", [r["put_ns"] for r in same], NS,
                        ("copy of the record", [r["copy_ns"] for r in same]), ("value", "<=", 60)))
    return rows


# ---- a question to a store ----

def store_scan(bench):
    """Native scans of one column of 1.9 million stored disk reads, beside a copy of that column and beside plain SQL."""
    section = "a question to a store, for each stored event in the time that is asked for"
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as folder:
        series = bench.measure("scan", "measure", "--runs", str(bench.runs), str(pathlib.Path(folder) / "store"))
    copies = ("memory copy of the column", [r["copy_ns"] for r in series])
    goal = ("value", "<=", 50)  # 20 M rows/s
    rows = []
    for key, what in (("scan", "sum by time and pid"), ("group", "sum for each pid")):
        ours = [r[f"{key}_ns"] for r in series]
        rows.append(row(section, f"native scan: {what}", ours, NS, copies, goal if key == "scan" else None))
        rows.append(row(section, f"native scan: {what}, beside SQL", ours, NS, ("plain SQL", [r[f"{key}_sql_ns"] for r in series])))
    for question in series[0]["questions"]:
        ours = [r["questions"][question][0] for r in series]
        rows.append(row(section, f"plain SQL handed down: {question}", ours, NS, ("SQLite alone", series[0]["questions"][question][1:])))
    return rows


def column_files(bench):
    """All of 2.1 million stored disk reads as a Parquet file and as an Arrow file, 28 columns, by one core: read, decoded, encoded, compressed, synced."""
    section = "export to files of columns, for each stored event"
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as folder:
        series = bench.measure("scan", "files", "--runs", str(bench.runs), str(pathlib.Path(folder) / "store"))
    rows = [row(section, "Parquet", [r["parquet_ns"] for r in series], NS, goal=("value", "<=", 1000)),   # 1 M rows/s
            row(section, "Arrow", [r["arrow_ns"] for r in series], NS)]
    return rows + [row(section, f"{name}: size of an event", [r[f"{name.lower()}_bytes"] for r in series], "bytes") for name in ("Parquet", "Arrow")]


# ---- from a file to a durable answer ----

def whole_chain(bench):
    """Agent, TLS, collector, store, acknowledged when durable: both programs as users run them, on all cores, their start
    and end included. Beside it: the same file walked by one core."""
    rows = []
    with harness.Environment(bench.build) as env:
        env.make_certificates()
        for name in bench.names:
            paths = traces.paths(name, bench.build)
            walk, chain = [], []
            for i in range(bench.runs):
                collector = env.new_collector(f"{name}-{i}").start()  # an empty store: what it has already it would not take again
                reference = bench.measure("reference", "measure", *map(str, paths))[0]
                start = time.monotonic()
                env.replay(paths, collector, spool=env.folder / f"{name}-spool-{i}")
                chain.append((time.monotonic() - start) * 1e9 / reference["events"])
                walk.append(reference["walk_ns"])
                collector.stop()
            rows.append(row("whole chain, both programs", f"{name}: file to acknowledged", chain, NS, ("bare walk", walk)))
    return rows


def ingest_s(pid):
    """Returns the CPU seconds that a collector's threads have used, without the thread that folds stored batches into state: it may lag."""
    used = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        name, fields = path.read_text(encoding="utf-8").split("(", 1)[1].rsplit(")", 1)
        used += sum(map(int, fields.split()[11:13])) if name != "history" else 0
    return used / os.sysconf("SC_CLK_TCK")


def ingest_beside(bench):
    """What a collector needs of a processor to take and store a large trace, beside that of another release: each with its own agent, in turns,
    and each as often first. Not slower by more than 2 % is the goal."""
    rows, section = [], "ingest beside another release, processor time of the collector"
    if not bench.beside:
        return rows
    with harness.Environment(bench.build) as ours, harness.Environment(bench.beside) as theirs:
        trace, spent = ours.folder / "firehose.etl", {ours: [], theirs: []}
        made = ours.run([bench.program("tests", "tracegen", "tracegen"), "make", "--preset", "firehose", "--duration-ms", "1000", "--out", trace])
        events = int(re.search(r": (\d+) events", made.stdout).group(1))
        for env in (ours, theirs):
            env.make_certificates()
        for i in range(bench.runs):
            for env in (ours, theirs) if i % 2 else (theirs, ours):
                collector = env.new_collector(f"beside-{i}").start()
                begin = ingest_s(collector.process.pid)
                env.replay([trace], collector, spool=env.folder / f"spool-{i}")
                spent[env].append((ingest_s(collector.process.pid) - begin) * 1e9 / events)
                collector.kill()
                for folder in (collector.store, env.folder / f"spool-{i}"):
                    shutil.rmtree(folder, ignore_errors=True)
        rows.append(row(section, f"firehose: {events} events, uploads until they are acknowledged", spent[ours], NS, ("the other release", spent[theirs]),
                        ("ratio", ">=", 0.98), runs=spent[ours], other_runs=spent[theirs]))
    return rows


# ---- the generator ----

def bare_write(path, size_bytes):
    """Processor time that as many bytes take to be written, in blocks of 1 MiB."""
    block = memoryview(bytes(range(256)) * 4096)
    start = time.process_time()
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size_bytes, len(block)):
            file.write(block[:size_bytes - at])
    return time.process_time() - start


def generator(bench):
    """The model of a machine with 17.4 million events in each of its seconds, its trace written to a file; beside it the bare
    write of as many bytes. Processor time of both."""
    ours, writes, size_bytes = [], [], 0
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as folder:
        trace = pathlib.Path(folder) / "firehose.etl"
        for _ in range(bench.runs):
            start = os.times()
            done = subprocess.run([*bench.on_one_core(), bench.program("tests", "tracegen", "tracegen"), "make", "--preset", "firehose",
                                   "--duration-ms", "100", "--out", trace], check=True, stdout=subprocess.PIPE, text=True)
            end = os.times()
            took = end.children_user + end.children_system - start.children_user - start.children_system
            events = int(re.search(r": (\d+) events", done.stdout).group(1))
            size_bytes = trace.stat().st_size
            ours.append(took * 1e9 / events)
            writes.append(bare_write(pathlib.Path(folder) / "bare", size_bytes) * 1e9 / events)
    return [row("generator", f"firehose: {events} events, {size_bytes >> 20} MiB", ours, NS, ("bare write of as many bytes", writes))]


def stacks(bench):
    """Joining stacks to events and keeping each once, and a flame graph over stored samples."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as folder:
        heavy = pathlib.Path(folder) / "stacks.etl"
        subprocess.run([bench.program("tests", "tracegen", "tracegen"), "make", "--preset", "stacks", "--out", heavy], check=True,
                       stdout=subprocess.DEVNULL)
        real, = traces.paths("clr-kernel-win8-x64", bench.build)
        for name, trace in (("clr-kernel-win8-x64", real), ("generated: preset stacks", heavy)):
            series = bench.measure("stacks", "join", "--runs", str(bench.runs), trace)
            rows.append(row("stacks", f"join and intern: {name}", [r["join_ns"] for r in series], NS, goal=("value", "<=", 100),
                            halves=series[0]["halves"], stacks=series[0]["stacks"]))
        series = bench.measure("stacks", "flame", "--runs", str(min(bench.runs, 3)), pathlib.Path(folder) / "store")
        rows.append(row("stacks", "flame graph of 10 M stored samples", [r["flame_s"] for r in series], "s", goal=("value", "<=", 2)))
        rows.append(row("stacks", "its memory", [r["peak_mib"] for r in series], "MiB", goal=("value", "<=", 1024)))
        series = bench.measure("stacks", "waits", "--runs", str(min(bench.runs, 3)), pathlib.Path(folder) / "switches")
        rows.append(row("stacks", "threads and waits of 10 M stored context switches", [r["waits_s"] for r in series], "s"))
        rows.append(row("stacks", "their memory", [r["peak_mib"] for r in series], "MiB", goal=("value", "<=", 1024)))
        series = bench.measure("stacks", "counters", "--runs", str(min(bench.runs, 3)), pathlib.Path(folder) / "counters")
        rows.append(row("stacks", "four counters by thread over 10 M stored context switches", [r["counters_s"] for r in series], "s"))
        rows.append(row("stacks", "memory of the counters", [r["peak_mib"] for r in series], "MiB", goal=("value", "<=", 1024)))
    return rows


# ---- traces written again ----

def child(command):
    """Runs a command: what it printed, its processor time in seconds, and the most memory that it had, in MiB."""
    read_end, write_end = os.pipe()
    pid = os.posix_spawnp(command[0], list(map(str, command)), os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_CLOSE, read_end)])
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        said = pipe.read()
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}: status {status}")
    return said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def relogs(bench):
    """Traces written again as they are, and cut with what readers need of the rest; beside them the bare walk of the same file. Processor time,
    the start of the program included."""
    rows, section = [], "relog"
    with tempfile.TemporaryDirectory(prefix="etwagent-bench-") as folder:
        trace, out = pathlib.Path(folder) / "firehose.etl", pathlib.Path(folder) / "out.etl"
        made = subprocess.run([bench.program("tests", "tracegen", "tracegen"), "make", "--preset", "firehose", "--duration-ms", "300", "--out", trace], check=True,
                              stdout=subprocess.PIPE, text=True)
        events, cases = int(re.search(r": (\d+) events", made.stdout).group(1)), {
            "identity": ([], 200, 64), "cut of all but the first millisecond, with its state": (["--from", "start+1ms"], 500, 64)}
        walks, spent, peaks = [], {name: [] for name in cases}, {name: [] for name in cases}
        for _ in range(bench.runs):
            walks.append(bench.measure("reference", "measure", trace)[0]["walk_ns"])
            for name, (words, _, _) in cases.items():
                said, seconds, mib = child([*bench.on_one_core(), bench.program("service", "app", "etwagent"), "relog", trace, "-o", out, "--json", *words])
                spent[name].append(seconds * 1e9 / json.loads(said)["read"])
                peaks[name].append(mib)
                out.unlink()
        for name, (_, goal_ns, goal_mib) in cases.items():
            rows.append(row(section, f"firehose, {events} events: {name}", spent[name], NS, ("bare walk", walks), ("value", "<=", goal_ns)))
            rows.append(row(section, f"{name}: its memory", peaks[name], "MiB", goal=("value", "<=", goal_mib)))
    return rows


SECTIONS = {"stages": stages, "hot": hot_classes, "lang": language, "filters": filters, "rules": sigma, "recorder": recorder, "callback": callback, "scan": store_scan, "files": column_files, "stacks": stacks, "chain": whole_chain,
            "beside": ingest_beside, "generator": generator, "relog": relogs}


def show(rows):
    section = None
    for r in rows:
        if r["section"] != section:
            section = r["section"]
            print(f"\n{section}")
        beside = f"{r['ratio']:.2f} x {r['reference']} ({r['reference_value']:g})" if "ratio" in r else ""
        goal = "" if "goal" not in r else f"  [{r['goal']}: {'met' if r['met'] else 'NOT MET'}]"
        rate = f"{1000 / r['value']:9.2f} M/s" if r["unit"] == NS and r["value"] else " " * 13
        print(f"  {r['what']:44} {r['value']:10.2f} {r['unit']:10} {rate}  {beside}{goal}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--build", help="a build folder that is ready; else the release preset is built")
    parser.add_argument("--beside", type=pathlib.Path, help="a build folder of another release, for the section beside")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this section; may be repeated")
    parser.add_argument("traces", nargs="*", default=TRACES)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build or SOURCE / "build" / "release").resolve()
    if not arguments.build:
        jobs = os.environ.get("JOBS") or str(os.cpu_count() or 2)
        for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release", "-j", jobs]):
            subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    bench = Bench(build, max(arguments.runs, 1), arguments.traces, arguments.beside and arguments.beside.resolve())
    start, rows = time.monotonic(), []
    if not arguments.json:
        print(f"medians of {bench.runs} runs; one core unless said; a ratio says how many times as fast (or as large) as the reference")
    for name in arguments.only or SECTIONS:
        found = SECTIONS[name](bench)
        rows += found
        if not arguments.json:
            show(found)
    out = build.parent / "bench.json"
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"\nas JSON: {out}; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
