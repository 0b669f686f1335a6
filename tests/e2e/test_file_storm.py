"""A process changes files as fast as 100,000 times a second while others start and change files of their own: with the filters of the profile
security.yaml the store has each process start, each file change of the others and, of the storm, what a naive computation in Python keeps; each dropped event
is in `events_repeated` or `events_limited`, and the ledger's equations hold.

# sanitizers: asan-ubsan
"""
import collections
import json
import pathlib
import random
import struct
import uuid

import harness

import kernel_records as kernel
import test_filters
import test_single_records as single

PROFILE = pathlib.Path(harness.__file__).resolve().parents[2] / "config" / "profiles" / "security.yaml"
KERNEL_FILE = "edd08927-9cc4-4e65-b970-c2560fb5c289"
DELETED, RENAMED, CREATED = 26, 27, 30
KEYWORDS = {DELETED: 0x400, RENAMED: 0x800, CREATED: 0x1000}
HOST, SECOND, STORM, OTHER = "stormy", 10_000_000, 500, 600


def change(number, pid, path, clock):
    """Kernel-File CreateNewFile, DeletePath or RenamePath, version 1."""
    head = struct.pack("<QQIIII", 0xFFFFE000 + clock, 0xFFFFE100, pid + 1, 2 << 24, 0x80, 7) if number == CREATED else \
        struct.pack("<QQQQII", 0xFFFFE000 + clock, 0xFFFFE100, 0xFFFFE200, 1, pid + 1, 13 if number == DELETED else 10)
    body = struct.pack("<BBHHIIq", 19, 0xC0, 0x40, 0, pid + 1, pid, clock) + uuid.UUID(KERNEL_FILE).bytes_le + \
        struct.pack("<HBBBBHQII", number, 1, 0, 4, 0, number, KEYWORDS[number], 0, 0) + bytes(16) + head + path.encode("utf-16-le") + b"\0\0"
    return struct.pack("<H", 2 + len(body)) + body


def records(seconds=1, rate=100_000):
    """[(clock, pid, id or 0, path, record)]"""
    dice, made = random.Random(7), []
    for n in range(seconds * rate):
        clock = SECOND + n * (SECOND // rate)
        path = f"\\Device\\HarddiskVolume3\\obj\\{dice.randrange(40) if n % 2 else dice.randrange(60_000)}.obj"  # half of them are of 40 files
        number = dice.choice((CREATED, CREATED, DELETED, RENAMED))
        made.append((clock, STORM, number, path, change(number, STORM, path, clock)))
        if n % 500 == 0:
            made.append((clock, 4, 0, "", kernel.process(1000 + n // 500 * 4, "a.exe", clock)))
        if n % 1000 == 7:
            path = f"\\Device\\HarddiskVolume3\\Users\\a\\{n}.docx"
            made.append((clock, OTHER, CREATED, path, change(CREATED, OTHER, path, clock)))
    return made


def naive(made):
    """What becomes of each event: "kept" or a counter's name."""
    kept, counts = {}, collections.Counter()
    for clock, pid, number, path, _ in made:
        if not number:
            yield "kept"
            continue
        last = kept.get((pid, number, path))
        if last is not None and clock - last < 60 * SECOND:
            yield "events_repeated"
            continue
        rule = number == CREATED  # each filter has a limit of its own
        counts[rule, pid, (clock - 1) // SECOND] += 1
        if counts[rule, pid, (clock - 1) // SECOND] > 200:
            yield "events_limited"
        else:
            kept[pid, number, path] = clock
            yield "kept"


def filters():
    """Those of the profile's session, as of a source."""
    lines = PROFILE.read_text(encoding="utf-8").split("  - name: security-files\n")[1].split("  - name: ")[0]
    return "    filters:\n" + lines.split("    filters:\n")[1]


def test(env, checks, arguments):
    env.make_certificates([HOST])
    made = records()
    trace = env.folder / "storm.etl"
    trace.write_bytes(single.trace([record for *_, record in made], 1 << 20))
    collector = env.new_collector()
    collector.start()
    try:
        agent, status = test_filters.ship(env, collector, trace, HOST, filters())
        places = list(naive(made))
        want = collections.Counter((number, pid) for (_, pid, number, _, _), place in zip(made, places) if place == "kept")
        got = collections.Counter()
        for line in env.run([env.collector, "export", "--store", collector.store, "--host", HOST, "--format", "jsonl"]).stdout.splitlines():
            row = json.loads(line)
            if row["provider"] == KERNEL_FILE or row["name"] == "Process/Start":
                got[row["id"], row["pid"]] += 1
        checks.equal(got, want, "stored events by number and process")
        checks.that(want[0, 4] == 200 and want[CREATED, OTHER] == 100 and 0 < sum(n for (_, pid), n in want.items() if pid == STORM) <= 800, f"the storm is dropped, the others stay: {want}")
        (stream,) = collector.ask_json("ledger", "--host", HOST)["streams"]
        values = {c["name"]: c["value"] for c in stream["counters"] if not c.get("family")}
        counts = collections.Counter(places)
        checks.equal({name: values.get(name, 0) for name in ("events_repeated", "events_limited")}, {name: counts[name] for name in ("events_repeated", "events_limited")}, "counters")
        checks.that(counts["events_repeated"] > 20_000 and counts["events_limited"] > 20_000, f"both drop: {counts}")
        checks.equal(([e["name"] for e in stream["equations"] if e["holds"]], stream["unbalanced_families"], stream["alerts"]),
                     (["delivered", "batched", "stored"], [], []), "equations, families and alerts")
        checks.that(status["ledger_balanced"] and status.get("events_dropped_full", 0) == 0, "the agent's ledger")
    finally:
        collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
