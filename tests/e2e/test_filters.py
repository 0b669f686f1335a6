"""Filters in the agent's configuration: `etwagent run` ships a generated trace through conditions, sampling, limits and replaced
fields. The store then has what an independent evaluation in Python keeps of `etwagent dump`, event by event; the ledger at the
collector counts what was dropped, and its equations hold, for the stream and for each family; values of replaced fields are
nowhere in the records or the keyframes. Events from which the machine's state is known stay, unless a filter names their class.
`etwagent check` says where in the YAML a mistake is, and notes which filters pass over the state or drop it.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 6: Filters of the agent's configuration keep, sample, limit and redact as documented; each dropped event is in one counter. | six
#   filters over a generated trace, event by event against Python; ledger of stream and families | 2026-11-27
import collections
import hashlib
import hmac
import json
import re

import harness
import test_run
import test_tracegen

HOST, KEY = "test-machine", b"a key of this test, not of yours"
MASK = (1 << 64) - 1

FILTERS = """    filters:
      - classes: ["DiskIo/*"]
        where: TransferSize > 4KiB
      - classes: [Thread/CSwitch]
        drop: OldThreadId == 0 && cpu < 4
        sample: 1/3 by NewThreadId
      - classes: ["PerfInfo/*"]
        limit: 40/s per cpu
      - classes: [PerfInfo/SampleProf]
        limit: 200/s
      - classes: ["Process/*", "Image/*"]
        drop: 1 == 1
        redact: [CommandLine]
      - classes: ["FileIo/Create"]
        where: execname != "none.exe"
        redact: OpenPath
        redact-key: {key}
      - classes: [Registry/SetValue]
        drop: 1 == 1
"""


def value_hash(value):
    """The hash by which values are sampled: see docs/reference/language.md."""
    h = 0xCBF29CE484222325
    for byte in str(value).encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


STATE_OF_PERFINFO = {"PerfInfo/PmcCtrConfig"}


def evaluate(events):
    """What becomes of each event: "kept", or the counter's name."""
    per_cpu, all_samples, second, seconds = collections.Counter(), 0, None, None
    for event in events:
        name, fields = event["name"], event["fields"]
        now = event["time"][:19]
        result = "kept"
        if name.startswith("DiskIo/") and not fields.get("TransferSize", 0) > 4096:
            result = "events_filtered"
        elif name == "Thread/CSwitch":
            if fields["OldThreadId"] == 0 and event["cpu"] < 4:
                result = "events_filtered"
            elif value_hash(fields["NewThreadId"]) % 3:
                result = "events_sampled_out"
        elif name.startswith("PerfInfo/") and name not in STATE_OF_PERFINFO:
            if now != second:
                per_cpu, second = collections.Counter(), now
            if per_cpu[event["cpu"]] >= 40:
                result = "events_limited"
            else:
                per_cpu[event["cpu"]] += 1
                if name == "PerfInfo/SampleProf":
                    if now != seconds:
                        all_samples, seconds = 0, now
                    if all_samples >= 200:
                        result = "events_limited"
                    else:
                        all_samples += 1
        elif name == "Registry/SetValue":
            result = "events_filtered"
        yield result


def dumped(env, trace):
    lines = env.run([env.agent, "dump", "--format", "jsonl", trace]).stdout.splitlines()
    return [json.loads(line) for line in lines], env.run([env.agent, "dump", "--format", "raw", trace]).stdout.splitlines()


def redacted_field(event):
    name = event["name"]
    field = "CommandLine" if name.startswith("Process/") else "OpenPath" if name == "FileIo/Create" else None
    return field if field in event["fields"] else None


def text_of(event):
    """The field's text, without the path with a drive letter that a person sees beside a device path."""
    value = event["fields"][redacted_field(event)]
    return value["value"] if isinstance(value, dict) else value


def plain_fields(event):
    """The fields without names that come from other events: that of a file object is what its redacted path became."""
    return {name: value["value"] if isinstance(value, dict) and "value" in value else value for name, value in event["fields"].items()}


def replaced(event):
    """The event as it is stored."""
    field = redacted_field(event)
    if not field:
        return event
    text = "(redacted)"
    if field == "OpenPath":
        text = hmac.new(KEY, text_of(event).encode("utf-16-le"), hashlib.sha256).hexdigest()[:32]
    return {**event, "fields": {**event["fields"], field: text}}


def ship(env, collector, trace, host, filters, batching="batch-events: 1000"):
    agent = test_run.Agent(env, collector, host)
    agent.configure({"one": ([trace], 0)}, batching)
    agent.config.write_text(agent.config.read_text(encoding="utf-8") + filters, encoding="utf-8")
    try:
        agent.start()
        agent.wait_state("one", "shipped")
        status = agent.now()
        agent.stop()
    finally:
        agent.kill()
    return agent, status


def check_store(env, checks, collector, events, raw, places):
    kept = [(event, line) for event, line, place in zip(events, raw, places) if place == "kept"]
    export = [env.collector, "export", "--store", collector.store, "--host", HOST, "--format"]
    stored = env.run([*export, "raw"]).stdout.splitlines()
    rows = [json.loads(line) for line in env.run([*export, "jsonl"]).stdout.splitlines()]
    checks.equal(len(stored), len(kept), "events of the store")
    plain = collections.Counter(line for event, line in kept if not redacted_field(event))
    found = collections.Counter(line for row, line in zip(rows, stored) if not redacted_field(row))
    checks.equal((list((plain - found).items())[:3], list((found - plain).items())[:3]), ([], []), "events that differ in the store: missing, more")
    want = [(e["clock"], e["name"], e["cpu"], redacted_field(e), plain_fields(e)) for e in map(replaced, (e for e, _ in kept)) if redacted_field(e)]
    got = [(e["clock"], e["name"], e["cpu"], redacted_field(e), plain_fields(e)) for e in rows if redacted_field(e)]
    order = lambda e: (e[0], e[1], e[2], json.dumps(e[4], sort_keys=True))  # noqa: E731
    checks.that(len(want) > 100, f"{len(want)} events have a field to be replaced")
    checks.equal([pair for pair in zip(sorted(got, key=order), sorted(want, key=order)) if pair[0] != pair[1]][:2], [], "events with replaced fields")
    for condition, holds in (("TransferSize > 16KiB", lambda e: e["fields"].get("TransferSize", 0) > 16384),
                             ('probe =~ "thread/*" && cpu == 1', lambda e: e["name"].startswith("Thread/") and e["cpu"] == 1)):
        got = env.run([*export, "raw", "--where", condition]).stdout.splitlines()
        checks.that(got, f"export --where {condition}: no such event")
        checks.equal(got, [line for row, line in zip(rows, stored) if holds(row)], f"export --where {condition}")
    named = [json.loads(line) for line in env.run([*export, "jsonl", "--where", 'execname =~ "*.exe"', "--class", "FileIo/Read"]).stdout.splitlines()]
    checks.that(named and all(row["name"] == "FileIo/Read" for row in named), "export --where reads the machine's state")
    done = env.run([*export, "raw", "--where", "1 && TransferSiz > 1"], check=False)
    checks.that(done.returncode == 2 and done.stderr.startswith("--where:1:6: ") and "did you mean TransferSize?" in done.stderr, f"a mistake: {done.stderr!r}")
    for condition in ('1)/ { exit(); } * /(1', "1)/ { exit(); } end /(1"):
        done = env.run([*export, "raw", "--where", condition], check=False)
        checks.that(done.returncode == 2 and done.stderr.startswith("--where:1:2: "), f"a condition that ends its probe is refused: {done.stderr!r}")
    everything = "".join(stored) + env.run([*export, "jsonl", "--keyframes"]).stdout + env.run([*export, "raw", "--keyframes"]).stdout
    hidden = {text_of(e) for e in events if redacted_field(e)}
    commands = {text for text in hidden if " " in text and len(text) > 20 and not text.startswith("\\Device")}  # paths are in FileIo/FileCreate, too
    checks.that(len(commands) > 5, f"{len(commands)} command lines to look for")
    for text in sorted(commands):
        checks.that(text.encode("utf-16-le").hex() not in everything and json.dumps(text)[1:-1] not in everything, f"{text!r} is in the store")
    paths = {text_of(e).encode("utf-16-le").hex() for e in events if redacted_field(e) == "OpenPath"}
    opened = "".join(line for row, line in zip(rows, stored) if row["name"] == "FileIo/Create")
    checks.that(paths and not [path for path in paths if len(path) > 16 and path in opened], "paths that were opened are in the store")


def check_ledger(checks, collector, status, events, places):
    counts = collections.Counter(places)
    checks.that(all(counts[name] for name in ("events_filtered", "events_sampled_out", "events_limited")), f"each place has events: {counts}")
    checks.that(status["ledger_balanced"], "the agent's ledger")
    (stream,) = collector.ask_json("ledger", "--host", HOST)["streams"]
    values = {c["name"]: c["value"] for c in stream["counters"] if not c.get("family")}
    checks.equal({name: values.get(name, 0) for name in ("events_filtered", "events_sampled_out", "events_limited", "events_redacted", "events_delivered")},
                 {**{name: counts[name] for name in ("events_filtered", "events_sampled_out", "events_limited")},
                  "events_redacted": sum(1 for e in events if redacted_field(e)), "events_delivered": len(events)}, "counters of the ledger at the collector")
    checks.equal(([e["name"] for e in stream["equations"] if e["holds"]], stream["unbalanced_families"], stream["alerts"]),
                 (["delivered", "batched", "stored"], [], []), "equations, families and alerts")


def check_state(env, checks, trace):
    """A filter drops the machine's state only when it names the class."""
    events, _ = dumped(env, trace)
    starts = sum(e["name"].startswith(("Process/", "Thread/DC", "Thread/Start", "Thread/End", "Image/")) for e in events)
    for host, classes, stay in (("late-machine", '["*"]', True), ("killed-machine", '["*", Process/DCStart]', False)):
        collector = env.new_collector(f"state-{host}")
        collector.start()
        try:
            ship(env, collector, trace, host, f"    filters:\n      - classes: {classes}\n        drop: 1 == 1\n")
            export = [env.collector, "export", "--store", collector.store, "--host", host, "--format", "jsonl"]
            rows = [json.loads(line)["name"] for line in env.run(export).stdout.splitlines()]
            lost = sum(e["name"] == "Process/DCStart" for e in events)
            checks.that(lost > 10, "processes at the trace's begin")
            checks.equal(sum(name.startswith(("Process/", "Thread/DC", "Thread/Start", "Thread/End", "Image/")) for name in rows),
                         starts - (0 if stay else lost), f"state of {classes}")
            checks.that(not {"Thread/CSwitch", "DiskIo/Read", "FileIo/Create"} & set(rows), f"other events of {classes}: {sorted(set(rows))}")
        finally:
            collector.stop()


def check_mistakes(env, checks):
    head = "shipping:\n  collector: https://localhost:1\n  cert: a\n  key: b\n  ca: c\nsources:\n  - name: one\n    files: x.etl\n    filters:\n"
    for text, place, words in (
            ("      - classes: DiskIo/*\n        where: TransferSize > 1 && TransferSiz > 2\n", "11:36", "did you mean TransferSize?"),
            ("      - classes: DiskIo/*\n        drop: 'TransferSize >'\n", "11:", "the text ends inside an expression"),
            ("      - classes: DiskIo/*\n        drop: |\n          TransferSize > 2 &&\n            execnam == \"x\"\n", "13:13", "did you mean execname?"),
            ("      - classes: DiskIo/*\n        sample: \"1/4 by Irpp\"\n", "11:25", "did you mean Irp?"),
            ("      - classes: DiskIo/*\n        sample: 2/4 by Irp\n", "11:17", "expected 1/N by EXPRESSION"),
            ("      - classes: DiskIo/*\n        limit: 0/s\n", "11:16", "expected N/s"),
            ("      - classes: DiskIo/*\n        repeat: 10s by Irpp\n", "11:24", "did you mean Irp?"),
            ("      - classes: DiskIo/*\n        repeat: 10s per Irp\n", "11:17", "expected DURATION by EXPRESSION"),
            ("      - classes: [DiskIo/Read, DiskIo/Reed]\n        drop: 1\n", "10:32", "did you mean DiskIo/Read?"),
            ("      - classes: Process/*\n        redact: [ImageFileName, CommandLin]\n", "11:33", "did you mean CommandLine?"),
            ("      - classes: DiskIo/*\n        sample: 1/2 by ustack()\n", "11:17", "watch"),
            ("      - classes: DiskIo/*\n", "10:9", "a filter has where"),
            ("      - classes: DiskIo/*\n        where: 1\n        redact-key: x\n", "12:21", "it needs redact")):
        path = env.folder / "mistake.yaml"
        path.write_text(head + text, encoding="utf-8")
        done = env.run([env.agent, "check", path], check=False)
        checks.that(done.returncode == 3 and re.match(rf"\S*mistake.yaml:{place}", done.stderr) and words in done.stderr, f"{text!r}: expected {place} {words!r}, got {done.returncode} {done.stderr!r}")
    path.write_text(head + "      - classes: Process/*\n        drop: 1\n      - classes: Thread/Start\n        limit: 5/s\n", encoding="utf-8")
    done = env.run([env.agent, "check", path])
    checks.that("passes over Process/" in done.stdout and "a filter names Thread/Start" in done.stdout, f"notes about the state: {done.stdout}")


def test(env, checks, _):
    env.make_certificates([HOST, "late-machine", "killed-machine"])
    check_mistakes(env, checks)
    key = env.folder / "redact.key"
    key.write_bytes(KEY + b"\n")
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", *test_tracegen.short_form("office"))
    events, raw = dumped(env, trace)
    places = list(evaluate(events))
    collector = env.new_collector()
    collector.start()
    try:
        agent, status = ship(env, collector, trace, HOST, FILTERS.format(key=json.dumps(str(key))), "{batch-events: 1000, keyframe-every: 200ms}".replace("{", "").replace("}", "").replace(", ", "\n  "))
        check_ledger(checks, collector, status, events, places)
        check_store(env, checks, collector, events, raw, places)
    finally:
        collector.stop()
    check_state(env, checks, trace)


if __name__ == "__main__":
    harness.main(test, __doc__)
