"""Programs in the agent's configuration (`watch:` of a source): what they give is at the collector as tables watch_NAME, row for row what
`etwagent watch` gives over the same file; events that are only aggregated do not travel and are counted; a mistake is refused with its line and
column in the YAML.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 7: A program in the agent's configuration gives at the collector, as tables, what it gives over the same trace. | five programs
#   (counts at ticks, distributions, stacks, top, emit and printf): the same rows | 2026-11-27
# - Query language 8: Events of which only a program's results travel are counted. | delivered = batched + aggregated, as many as the trace has
#   | 2026-11-27
# - Query language 11: Results of programs are metrics, bounded in number, and a page of the dashboard. | 230 values as SQL has them, and the number of those
#   that are left out; rows and lines of the page as SQL has them | 2026-11-28
# - Query language 12: ship() raises an event to the priority security. | the batches of two events, and no others, are sent first; they travel though their
#   class is aggregated | 2026-11-28
# - Query language 9: A program that is wrong is refused when the configuration is checked. | line and column in the YAML, of a block, of one
#   line and of a class that is not known | 2026-11-27
import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import format_reader
import harness
import receiver
import test_bounds
import test_ledger
import test_prometheus
import test_tracegen
import test_wire_python
import uploads
import web_world
import wire_lies

PROGRAMS = {
    "switches": "sched:::on-cpu { @[execname, cpu] = count(); }\ntick:500ms { print(@); clear(@); }",
    "waits": "Thread/CSwitch { @[OldThreadWaitReason_name] = quantize(NewThreadWaitTime); @top[cpu] = top(NewThreadId, 3); }",
    "samples": "PerfInfo/SampleProf { @[execname, stack(3)] = count(); }",
    "starts": "FileIo/Create { emit(id = tid, name = OpenPath, half = tid / 2.0); printf(\"%s is opened\\n\", OpenPath); }",
    "means": "Thread/CSwitch { @[NewThreadPriority] = avg(NewThreadWaitTime); @dev[NewThreadPriority] = stddev(NewThreadWaitTime); } tick:200ms { print(@); clear(@); print(@dev); clear(@dev); }",
    "skips": "FileIo/Create, Thread/CSwitch { @ = sum(NewThreadId); @q = sum(NewThreadId / 0); }",
    "few": "Thread/CSwitch { @[NewThreadId] = sum(NewThreadPriority); }",
}


COMMON = ("host", "time", "cpu", "pid", "tid")  # the first columns of a table of events


def config_of(env, collector, host, sources):
    """A configuration as YAML, which JSON is, too; and the path of it."""
    path = env.folder / f"{host}.yaml"
    path.write_text(json.dumps({
        "service": {"status": str(env.folder / f"{host}.json")}, "sources": sources, "batching": {"batch-events": 1000},
        "shipping": {"collector": collector.url, "cert": f"{env.certs}/{host}.crt", "key": f"{env.certs}/{host}.key", "ca": f"{env.certs}/ca.crt",
                     "spool": f"{env.folder}/{host}-spool"}}))
    return path


def ask(collector, sql):
    return json.loads(collector.ask("query", "--format", "json", sql))["rows"]


def ledger(collector, host):
    rows = ask(collector, f"SELECT family, counter, value FROM ledger_last WHERE host = '{host}'")
    return {r["counter"]: r["value"] for r in rows if r["family"] in ("", None)}


def ship(env, checks, collector, host, sources):
    """Runs an agent until all of its sources are at the collector."""
    agent = subprocess.Popen([env.agent, "run", "--config", config_of(env, collector, host, sources)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        receiver.sleep_until(lambda: ledger(collector, host).get("stream_ended") or agent.poll() is not None, 60)
    finally:
        agent.send_signal(signal.SIGTERM)
        said = agent.communicate(timeout=60)[0]
    checks.equal(agent.returncode, 0, f"{host}: the agent's end: {said[-2000:]}")


def rows_of_file(env, trace, program, *options):
    """{table suffix: rows} as the collector should have them, of JSON lines."""
    text = env.run([env.agent, "watch", "--json", *options, "-e", program, trace]).stdout
    found = collections.defaultdict(list)
    for row in map(json.loads, text.splitlines()):
        if "row" in row:
            found["_emit"].append((*row["row"].values(), row["time"]))
        elif "printf" in row:
            found["_printf"].append((row["printf"], row["time"]))
        else:
            name = row["aggregation"].lstrip("@")
            keys = [*row["keys"], *[None] * row.get("others", False)]
            value = [v for k, v in row.items() if k not in ("aggregation", "time", "keys", "others")][0]
            values = [tuple(v.values()) for v in value] if isinstance(value, list) else [(value,)]
            found["_" * bool(name) + name] += [(*(json.dumps(k) if isinstance(k, list) else k for k in keys), *v, row["time"]) for v in values]
    return found


def rows_of_store(collector, host, table):
    rows = ask(collector, f"SELECT *, time_text(tick) AS at FROM \"{table}\" WHERE host = '{host}'")
    return rows


def plain(value):
    """Lists of a stack's frames in one form."""
    return tuple(json.loads(value)) if isinstance(value, str) and value.startswith("[") else value


def compare(env, checks, collector, host, trace, name, program):
    for suffix, wanted in rows_of_file(env, trace, program).items():
        table = f"watch_{name}{suffix}"
        got = [[plain(v) for k, v in list(r.items())[len(COMMON):] if k not in ("tick", "others")] for r in rows_of_store(collector, host, table)]
        wanted = [[plain(v) for v in row] for row in wanted]
        key = lambda row: json.dumps(row, default=str)  # noqa: E731
        checks.that(wanted and sorted(map(key, got)) == sorted(map(key, wanted)),
                    f"{table}: {len(got)} rows, {len(wanted)} over the file: {sorted(map(key, got))[:2]} {sorted(map(key, wanted))[:2]}")


def tables(env, checks, collector, trace):
    watch = [{"name": name, "program": program} for name, program in PROGRAMS.items()]
    watch[-1]["keys"] = 10
    ship(env, checks, collector, "ships", [{"name": "file", "files": [str(trace)], "watch": watch}])
    for name, program in PROGRAMS.items():
        if name not in ("few", "skips", "means"):
            compare(env, checks, collector, "ships", trace, name, program)
    few = rows_of_store(collector, "ships", "watch_few")
    whole = sum(row[1] for row in rows_of_file(env, trace, PROGRAMS["few"])[""])
    checks.equal((len(few), [r["others"] for r in few].count(1), sum(r["sum"] for r in few)), (11, 1, whole), "ten keys, and the sum of the others")
    said = env.run([env.agent, "watch", "-e", PROGRAMS["skips"], trace]).stderr
    skipped = sum(int(n) for n in re.findall(r"(\d+) statements were skipped", said))
    others = env.run([env.agent, "watch", "--keys", "10", "-e", PROGRAMS["few"], trace]).stderr
    wanted = {"watch_skipped": skipped, "watch_others": int(others.split(": ")[1].split()[0]), "watch_dropped": 0}
    status = json.loads((env.folder / "ships.json").read_text())["sources"][0]
    for what, numbers in (("ledger", ledger(collector, "ships")), ("status", status)):
        checks.equal({name: numbers.get(name, 0) for name in wanted}, wanted, f"{what}: what programs could not do as they say")
    rows = ask(collector, "SELECT provider_name, count(*) AS n FROM events WHERE host = 'ships' AND name LIKE 'watch!_%' ESCAPE '!' GROUP BY 1")
    numbers = ledger(collector, "ships")
    events = json.loads(env.run([env.agent, "watch", "--json", "-e", "* { @ = count(); }", trace]).stdout)["count"]
    checks.that(len(rows) == 1 and rows[0]["provider_name"] == "etwagent-watch" and rows[0]["n"] > 100, f"rows are events of their provider: {rows}")
    checks.equal((numbers["events_delivered"], numbers["events_batched"], numbers.get("events_aggregated", 0)), (events, events, 0), "events that travelled")
    checks.equal(numbers["events_synthesised"], rows[0]["n"] if rows else 0, "rows are synthesised events")


def merged(env, checks, collector, trace):
    """Rows of ticks (and so of machines) add up to the whole, for averages and deviations, too."""
    whole = rows_of_file(env, trace, PROGRAMS["means"].split(" tick:")[0])
    rows = ask(collector, "SELECT NewThreadPriority AS p, count(*) AS ticks, sum(avg * count) / sum(count) AS mean FROM watch_means WHERE host = 'ships' GROUP BY 1")
    want = {row[0]: row[1] for row in whole[""]}
    checks.that(max(r["ticks"] for r in rows) > 2 and {r["p"] for r in rows} == set(want) and all(abs(r["mean"] - want[r["p"]]) <= 1e-6 * (1 + want[r["p"]]) for r in rows),
                f"averages of ticks: {rows}, {want}")
    want = {row[0]: row[1] for row in whole["_dev"]}
    rows = ask(collector, "SELECT NewThreadPriority AS p, sum(count) AS n, sum(avg * count) AS s, sum((stddev * stddev + avg * avg) * count) AS q FROM watch_means_dev WHERE host = 'ships' GROUP BY 1")
    got = {r["p"]: max(r["q"] / r["n"] - (r["s"] / r["n"]) ** 2, 0) ** 0.5 for r in rows}
    checks.that(got.keys() == want.keys() and all(abs(got[p] - want[p]) <= 1e-4 * (1 + want[p]) for p in want), f"deviations of ticks: {got}, {want}")


def over_http(checks, collector):
    """The named query has each row of a program's tables, over HTTP and in the dashboard."""
    got = web_world.Web(collector).get("queries/watch-results", host="ships", program="starts", limit=10000)["items"]
    want = [{"host": "ships", "time": r["at"], "table": name, "fields": r["fields"]} for name in ("watch_starts_emit", "watch_starts_printf")
            for r in ask(collector, f"SELECT time_text(time) AS at, fields FROM events WHERE host = 'ships' AND name = '{name}'")]
    key = lambda row: json.dumps(row, sort_keys=True)  # noqa: E731
    checks.that(len(want) > 4 and sorted(map(key, got)) == sorted(map(key, want)), f"a program's results over HTTP: {got[:2]}, {want[:2]}")
    checks.equal([r["time"] for r in got], sorted((r["time"] for r in got), reverse=True), "the newest first")
    emitted = [json.loads(r["fields"]) for r in got if r["table"] == "watch_starts_emit"]
    checks.that(all(set(row) == {"tick", "id", "name", "half"} for row in emitted), f"columns of a row: {emitted[:1]}")


RECENT = {
    "switches": "Thread/CSwitch { @[execname, cpu] = count(); } tick:500ms { print(@); }",  # of several prints the last one counts
    "kinds": "Thread/CSwitch { @top = top(NewThreadId, 3); @avg[cpu] = avg(NewThreadWaitTime); @dev = stddev(NewThreadWaitTime); @q = quantize(NewThreadWaitTime);"
             " @min = min(-NewThreadId); @nan[cpu] = min(0.0 / 0.0); }\nFileIo/Create { emit(id = tid); printf(\"x\"); }",
    "many": "* { @[timestamp, 1] = count(); @ends[\"a\\\\b\\\"c\", cpu, cpu] = count(); }",
    "few": "Thread/CSwitch { @[NewThreadId] = sum(NewThreadPriority); }",
}


def exposed(web):
    """{(name, labels): value} of /metrics, each once."""
    found = {}
    for name, labels, value in re.findall(r'^(etw(?:agent|collector)_watch_result\w*)(?:\{(.*)\})? (\S+)$', web.ask("/metrics")[2], re.M):
        key = name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        if key in found:
            raise harness.Failure(f"{key} twice")
        found[key] = float(value)
    return found


def metrics(env, checks, collector, trace):
    """The newest results are metrics, bounded; those of old events are not."""
    web = web_world.Web(collector)
    before = exposed(web)
    checks.equal([v for (name, _), v in before.items()], [0, 1], f"nothing is recent: {before}")
    recent = env.folder / "recent.etl"
    env.run([env.agent, "relog", "--start-at", "-10s", "--output", recent, trace])
    watch = [{"name": name, "program": program} for name, program in RECENT.items()]
    watch[-1]["keys"] = 10
    ship(env, checks, collector, "recent", [{"name": "file", "files": [str(recent)], "watch": watch}])
    got = exposed(web)
    want, left = {}, 0
    rows = ask(collector, "SELECT name, time, fields FROM events WHERE host = 'recent' AND name LIKE 'watch!_%' ESCAPE '!'")
    newest = {name: max(r["time"] for r in rows if r["name"] == name) for name in {r["name"] for r in rows}}
    taken = collections.Counter()
    for row in rows:
        if row["time"] != newest[row["name"]]:
            continue
        pairs = json.loads(row["fields"], object_pairs_hook=list)
        if len(pairs) < 3 or pairs[1][0] != "others":
            continue
        names = [name for name, _ in pairs[2:]]
        values = 2 if names[-1] == "over" or names[-2:] == ["avg", "count"] and names[-3:-2] != ["stddev"] else 3 if names[-3:] == ["stddev", "avg", "count"] else 1
        labels = {(f"key_{k}", str(v)) for k, v in pairs[2:len(pairs) - values]} if not pairs[1][1] else {("others", "1")}
        taken[row["name"]] += 1
        if taken[row["name"]] > 100 or len({n for n in names}) < len(names) or pairs[-1][1] is None:
            left += 1
            continue
        for name, value in pairs[-values:]:
            want["etwagent_watch_result", frozenset({("host", "recent"), ("table", row["name"]), ("of", name), *labels})] = float(value)
    checks.that(len(want) > 130 and left > 1000 and taken["watch_many"] > 1000 and any(("others", "1") in k[1] for k in want), f"{len(want)} results, {left} left out, {taken}")
    want["etwcollector_watch_results_left_out", frozenset()] = left
    want["etwcollector_watch_results_whole", frozenset()] = 1
    checks.equal(len(got), len(want), "metrics of results")
    checks.equal({k: v for k, v in got.items() if want.get(k) != v}, {}, "metrics that are no results")
    checks.equal({k: v for k, v in want.items() if k not in got}, {}, "results that are no metrics")
    for accept in (None, "application/openmetrics-text"):
        text = test_prometheus.scrape(web.port, accept)[1]
        if accept:
            test_prometheus.check_open_metrics(checks, text, "OpenMetrics")
        elif shutil.which("promtool"):  # it asks for names in small letters: those of keys are the tables' columns
            test_prometheus.promtool(checks, ["check", "metrics"], "check metrics", re.sub(r"(?<=key_)\w+", lambda m: m.group().lower(), text))


def aggregates(env, checks, collector, trace):
    program = "Thread/CSwitch { @[execname] = count(); } tick:200ms { print(@); clear(@); }"
    ship(env, checks, collector, "aggregates", [{"name": "file", "files": [str(trace)],
                                                 "watch": [{"name": "only", "program": program, "events": "aggregate"}]}])
    compare(env, checks, collector, "aggregates", trace, "only", program)
    counts = json.loads(env.run([env.agent, "watch", "--json", "-e", "Thread/CSwitch { @ = count(); }", trace]).stdout)
    switches = counts["count"]
    here = ask(collector, "SELECT count(*) AS n FROM \"Thread/CSwitch\" WHERE host = 'aggregates'")[0]["n"]
    numbers = ledger(collector, "aggregates")
    checks.equal((here, numbers.get("events_aggregated")), (0, switches), "context switches at the collector, and in the ledger")
    checks.equal(numbers["events_delivered"], numbers["events_batched"] + switches, "delivered = batched + aggregated")
    alerts = ask(collector, "SELECT * FROM alerts")
    checks.equal(alerts, [], "the collector's checks of the ledger")


SHIP = "Thread/CSwitch { n++; if (n == 3000 || n == 7001) { ship(); ship(); } } Thread/CSwitch /n == 7001/ { ship(); }"
SHIP_TOO = "Thread/CSwitch { n++; if (n == 3000) { ship(); } }"  # the same event is counted once
PRIORITY_FIELD = 16


def shipped(env, checks, collector, trace):
    """ship(): the batch that has the event is of priority security, is sent before the others that wait, and is counted; the event travels even where
    its class is aggregated."""
    got, begin = [], time.monotonic()

    def take(exchange):
        exchange.read_body()
        if host == "raised" and time.monotonic() - begin < 2:  # until all is in the spool
            exchange.answer(503, headers=[("Retry-After", "1")])
            return
        got.extend(uploads.batches(exchange.body))
        exchange.acknowledge(exchange.heads())

    for events, host in (("ship", "raised"), ("aggregate", "raised-alone")):
        got.clear()
        begin = time.monotonic()
        with receiver.Receiver(env.certs, take) as fake:
            watch = [{"name": "some", "program": SHIP, "events": events}, {"name": "same", "program": SHIP_TOO}]
            path = config_of(env, fake, host, [{"name": "file", "files": [str(trace)], "watch": watch}])
            agent = subprocess.Popen([env.agent, "run", "--config", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                receiver.sleep_until(lambda: agent.poll() is not None or (got and uploads.Head(got[-1]).event_count == 0), 60)
            finally:
                agent.send_signal(signal.SIGTERM)
                said = agent.communicate(timeout=60)[0]
        checks.equal(agent.returncode, 0, f"{host}: the agent's end: {said[-2000:]}")
        test_ledger.upload(env, collector, host, sorted(got, key=lambda batch: uploads.Head(batch).number))
        switches = ask(collector, f"SELECT batch, time FROM \"Thread/CSwitch\" WHERE host = '{host}' ORDER BY batch, position")
        raised = {r["batch"] for r in ([switches[2999], switches[7000]] if events == "ship" else switches)}
        priorities = [(uploads.Head(batch).number, dict(uploads.fields(batch)).get(PRIORITY_FIELD, 0)) for batch in got]
        checks.that(len(priorities) > 8 and {n for n, p in priorities if p == 1} == raised and len(raised) in (1, 2), f"{host}: batches that are raised: {raised}, {priorities}")
        checks.that(host != "raised" or [n for n, _ in priorities] == [*sorted(raised), *sorted(n for n, p in priorities if not p)], f"{host}: raised batches come first: {priorities}")
        checks.equal((ledger(collector, host).get("watch_shipped"), len(switches) == 2), (2, events == "aggregate"), f"{host}: events that were raised, and context switches that came")


def not_aggregated(env, checks, collector, trace):
    """The machine's state travels all the same, and events after a program's exit()."""
    program = "Process/*, Image/*, Thread/CSwitch { @[probe] = count(); if (@[probe] == 5 && probe == \"Thread/CSwitch\") { exit(); } }"
    ship(env, checks, collector, "states", [{"name": "file", "files": [str(trace)],
                                             "watch": [{"name": "few", "program": program, "events": "aggregate"}]}])
    count = "SELECT name, count(*) AS n FROM events WHERE host = '{}' AND (name LIKE 'Process/%' OR name LIKE 'Image/%') GROUP BY 1 ORDER BY 1"
    states = ask(collector, count.format("states"))
    checks.that(states and states == ask(collector, count.format("ships")), f"processes and images: {states}")
    checks.equal(ledger(collector, "states").get("events_aggregated"), 5, "events that were aggregated: those before exit()")


def batch_of(table, value, payload, utc_ns):
    """A batch with one event, which says of itself that it is a program's result."""
    fields = [wire_lies.field(b"tick", kind=7), wire_lies.field(b"others", kind=1), wire_lies.field(b"who", kind=test_bounds.UTF8Z), wire_lies.field(value, kind=8)]
    description = wire_lies.described(provider_name=b"etwagent-watch", name=table, fields=fields)
    source = wire_lies.message("Source", name="file", clock_type=1, frequency=10**7, pointer_size=8, clock_pairs=[wire_lies.message("ClockPair", utc_ns=utc_ns)])
    group = wire_lies.message("Group", class_hash=test_bounds.hash_of(description), header=wire_lies.message("Header"), payload=wire_lies.column(constant=payload))
    draft = test_wire_python.Draft(test_bounds.batch_of([group], 1, descriptions=[description], stream=os.urandom(16), sources=(source,)))
    draft.batch.checksum = format_reader.checksum(format_reader.Batch(draft.bytes()).records())
    return draft.bytes()


def hostile(env, checks, collector):
    """Names and values that no program gives are no further lines of /metrics."""
    web, table = web_world.Web(collector), b'watch_"\n{x="'
    before = exposed(web)["etwcollector_watch_results_left_out", frozenset()]
    payload = struct.pack("<QB", 0, 0) + b'q"\\\n\xff\xed\xa0\x80\0' + struct.pack("<q", 5)
    now = time.time_ns()
    test_ledger.upload(env, collector, "hostile", [batch_of(table, name, payload, now) for name in (b"count", b'x"} 1\nstolen 7\n#', b"y" * 1000)], at_once=1)
    for accept in (None, "application/openmetrics-text"):
        text = test_prometheus.scrape(web.port, accept)[1]
        lines = [line for line in text.split("\n")[:-1] if not re.fullmatch(r'# .*|[a-z_]+(\{([A-Za-z_]\w*="([^"\\]|\\.)*",?)*\})? [-+.\de]+', line)]
        checks.equal(lines, [], "lines that are no metric")
        checks.equal([re.sub(r'key_who=".*"', "", line) for line in text.split("\n") if 'host="hostile",table="watch_\\"' in line],
                     ['etwagent_watch_result{host="hostile",table="watch_\\"_{x=\\"",of="count",} 5'], "the one result")
        checks.that(f"etwcollector_watch_results_left_out {before + 2:.0f}\n" in text, f"{before} results were left out before, and two more are now")


def mistakes(env, checks):
    head = "shipping: {collector: 'https://localhost:1', cert: a.crt, key: a.key, ca: ca.crt}\nsources:\n  - name: f\n    files: a.etl\n"
    for watch, place, word in (
            ("    watch:\n      - name: one\n        program: |\n          Thread/CSwitch {\n            @[execnam] = count();\n          }\n", "9:15", "did you mean execname"),
            ("    watch:\n      - name: one\n        program: 'Thread/CSwitc { @ = count(); }'\n", "7:19", "did you mean Thread/CSwitch"),
            ("    watch:\n      - name: one\n        program: Thread/CSwitch { @ = count( }\n", "7:46", "expected a value"),
            ("    watch:\n      - name: One\n        program: Thread/CSwitch { @ = count(); }\n", "6:15", "made of a-z"),
            ("    watch:\n      - {name: one, program: 'begin { x = 1; }'}\n      - {name: one, program: 'begin { x = 1; }'}\n", "7:16", "two programs"),
            ("    watch:\n      - {name: one, program: 'Thread/CSwitch { @b = count(); }'}\n      - name: one_b\n        program: |\n          begin { }\n"
             "          Thread/CSwitch { @ = count(); }\n", "10:28", "the table watch_one_b is that of @b of program one"),
            ("    watch:\n      - {name: one, program: 'Thread/CSwitch { emit(a = 1); @emit = count(); }'}\n", "6:31", "watch_one_emit is that of"),
            ("    watch:\n      - {name: one, program: 'begin { x = 1; }'}\n  - name: g\n    files: b.etl\n    watch:\n"
             "      - {name: one, program: 'begin { x = 2; }'}\n", "10:16", "source f has another program called one"),
            ("    watch:\n      - name: one\n        program: 'begin { @" + 61 * "a" + " = count(); }'\n", "7:27", "the name has 61 bytes"),
            ("    watch:\n      - name: one\n        program: 'begin { emit(" + 61 * "a" + " = 1); }'\n", "7:32", "the name has 61 bytes"),
            ("    watch:\n      - {name: one, program: 'Thread/CSwitch { ship(); }'}\n      - {name: two, program: 'Thread/CSwitch { @[stack()] = count(); }'}\n", "6:48",
             "program two of the session reads stacks"),
            ("    filters:\n      - {classes: [Process/*], redact: [CommandLin]}\n", "6:41", "did you mean CommandLine?"),
            ("    watch:\n      - name: one\n        program: FileIo/Read { @[FileObject_name] = count(); }\n", "7:18", "names of file objects")):
        path = env.folder / "wrong.yaml"
        path.write_text(head + watch)
        done = env.run([env.agent, "check", path], check=False)
        said = done.stdout + done.stderr
        checks.that(done.returncode == 3 and f"wrong.yaml:{place}: " in said and word in said, f"{place}, {word}: {done.returncode} {said}")


NEEDS = [  # a session, a program, what the session lacks
    ("kind: system\n    flags: [PROC_THREAD]", "sched:::on-cpu { @[execname] = count(); }", ["the flag CSWITCH, with which Thread/CSwitch comes"]),
    ("kind: system\n    flags: [CSWITCH]", "sched:::on-cpu { @[execname] = count(); }", ["the flag PROC_THREAD, without which names of processes and threads are not known"]),
    ("kind: system\n    flags: [CSWITCH, PROC_THREAD]", "sched:::on-cpu { @[execname] = count(); }", []),
    ("kind: system\n    flags: [CSWITCH]", "Thread/CSwitch { @[stack()] = count(); @s = sum(pmc.TotalCycles); }",
     ["stacks of Thread/CSwitch, which the program reads", "counters on Thread/CSwitch (pmc-events), which the program reads",
      "the counter TotalCycles (pmc-counters), which the program reads"]),
    ("kind: system\n    flags: [CSWITCH]\n    stacks: [Thread/CSwitch]\n    pmc-counters: [TotalCycles]\n    pmc-events: [Thread/CSwitch]",
     "Thread/CSwitch { @[stack()] = count(); @s = sum(pmc.TotalCycles); }", []),
    ("kind: system\n    flags: [PROC_THREAD, DPC]", "dpc:::dpc { @[execname] = count(); @t[tid] = count(); }",
     ["the flag CSWITCH, without which the thread of PerfInfo/DPC is not known"]),
    ("kind: system\n    flags: [PROC_THREAD, CSWITCH, OB_HANDLE]", "Object/DuplicateHandle { @[execname] = count(); }", []),
    ("kind: system\n    flags: [PROC_THREAD, OB_HANDLE]", "Object/DuplicateHandle { @[execname] = count(); }",
     ["the flag CSWITCH, without which the thread of Object/DuplicateHandle is not known"]),
    ("kind: system\n    flags: [PROC_THREAD, NETWORKTRACE]", "tcpip:::receive { @[execname] = count(); }", []),
    ("kind: system\n    flags: [CSWITCH]", "pmc:::profile { @ = count(); }",
     ["the flag PMC_PROFILE, with which PerfInfo/PmcCounterProf comes", "pmc-samples, without which PerfInfo/PmcCounterProf does not come"]),
    ("kind: user\n    providers: [{provider: Microsoft-Windows-DNS-Client, event-ids: ['3006']}]",
     "DNS-Client/3008 { @[ustack()] = count(); }", ["the event 3008 of Microsoft-Windows-DNS-Client, which its event-ids leave out"]),
    ("kind: user\n    providers: [{provider: Microsoft-Windows-DNS-Client, event-ids: ['3000-3010']}]",
     "DNS-Client/3008 { @[ustack()] = count(); }", ["stacks of the provider Microsoft-Windows-DNS-Client, which the program reads"]),
    ("kind: user\n    providers: [{provider: Microsoft-Windows-DNS-Client, stacks: yes}]", "DNS-Client/3008 { @[ustack()] = count(); }", []),
    ("kind: user\n    providers: [{provider: Microsoft-Windows-DNS-Client}]", "PowerShell/4104 { @ = count(); } * { @all = count(); }", []),
    ("kind: user\n    providers: [{provider: Microsoft-Windows-DNS-Client}]", "PowerShell/4104 { @ = count(); } Thread/CSwitch { @b = count(); }",
     ["the flag CSWITCH, with which Thread/CSwitch comes", "the provider Microsoft-Windows-PowerShell, which the program names"]),
]


def needs(env, checks):
    """What a program needs and its session lacks is a note of `check`."""
    for session, program, lacks in NEEDS:
        path = env.folder / "needs.yaml"
        path.write_text(f"sessions:\n  - name: s\n    {session}\n    watch: [{{name: one, program: {json.dumps(program)}}}]\n")
        said = env.run([env.agent, "check", path]).stdout
        notes = [line.split("the session lacks ")[1] for line in said.splitlines() if "note: program one of session s: the session lacks" in line]
        checks.equal(sorted(notes), sorted(lacks), f"{session}: {program}")


def test(env, checks, arguments):
    needs(env, checks)
    mistakes(env, checks)
    env.make_certificates(("ships", "aggregates", "states", "recent", "raised", "raised-alone", "hostile"))
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"])
    collector.start()
    scenario = env.folder / "office.scenario.yaml"
    scenario.write_text("base: office\nstacks: {keys: no}\n")  # definitions of keys come at a trace's end: a program that reads on does not wait for them
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", scenario, "--duration-ms", "2000")
    tables(env, checks, collector, trace)
    merged(env, checks, collector, trace)
    over_http(checks, collector)
    metrics(env, checks, collector, trace)
    aggregates(env, checks, collector, trace)
    not_aggregated(env, checks, collector, trace)
    shipped(env, checks, collector, trace)
    hostile(env, checks, collector)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
