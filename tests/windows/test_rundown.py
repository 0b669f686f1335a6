#!/usr/bin/env python3
"""Rundown of what existed before a session, with the shipped .exe and the emulator of ETW under Wine. The trace is a generated one: the truth
that the generator wrote with it has the existing objects of each moment, and the test need not read the records.

- Each word of "rundown" alone: a second session logs exactly these objects, and the state at the collector equals the truth.
- A rundown that is larger than the session's ring waits for space, and loses nothing.
- When the second session cannot be started, or its rundown does not come in time: this is counted and logged, and the first session
  continues. The next start of the first session brings the missing rundown.
- Keyframes of a session with its own rundown, and of a session whose whole rundown comes from the second session: they carry the existing
  objects of that moment, and a collector that joins in the middle is correct from the next keyframe on.
- On schedule: by default a session that logs processes writes a keyframe 15 s after its first event. Also tested: other intervals, no
  keyframes, and a session without state.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Live sessions, on the emulator 7: A session reports the state that existed before its start. | processes, threads, modules and registry
#   keys, each kind by a rundown session alone, equal the generator's | 2026-11-23
# - Live sessions, on the emulator 8: Keyframes carry that state. | by schedule (`keyframe-every`, 4 h; the first after 15 s) and by count;
#   with and without a rundown of its own | 2026-11-23
# - Live sessions, on the emulator 9: A collector that joins between two keyframes has the right state. | equal to the generator's |
#   2026-11-23
import collections
import json
import sqlite3
import threading
import time

import emulated
import receiver
import test_faults
import test_ledger
import uploads

SCENARIO = """
base: office
duration_ms: 6000
machine: {cpus: 4}
session: {events: [process, thread, image, sample, filename, fileio, registry, config], samples_per_second: 200}
"""
CROWD = """
base: office
duration_ms: 200
machine: {cpus: 4}
session: {events: [process, thread, image, sample], samples_per_second: 200}
starts:
  - {program: svchost.exe, parent: services.exe, count: 900}
"""
# of one processor: its buffers come in order, so that a keyframe's state is that of all events before its time
QUIET = """
base: office
duration_ms: 40000
machine: {cpus: 1}
session: {events: [process, thread, image, sample], samples_per_second: 50}
"""
FOREVER = (1 << 63) - 1
KEYS = 1  # enum ea_name_kind
SMALL = {"kind": "system", "buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64, "flush": "50ms"}
COMPLETE = "EventTrace/RDComplete"
# word: (event class that the second session logs for it, kind of object in the truth)
WORDS = {
    "process": ("Process/DCStart", "process"),
    "thread": ("Thread/DCStart", "thread"),
    "image": ("Image/DCStart", "module"),
    "driver": ("Image/DCStart", "module"),  # the kernel has one flag for all images
    "registry": ("Registry/KCBRundownBegin", "key"),
}


def number(text):
    return int(text, 0) if isinstance(text, str) else text


class Truth:
    """What the generator says of its machine."""

    KEYS = {
        "process": lambda j: (j["pid"], j["parent_pid"], j["image"], j["command_line"]),
        "thread": lambda j: (j["tid"], j["pid"], number(j["stack_base"])),
        "module": lambda j: (j["pid"], number(j["base"]), j["size"], j["path"]),
        "key": lambda j: (number(j["address"]), j["name"]),
    }

    def __init__(self, path):
        self.lives = {kind: [] for kind in self.KEYS}
        for j in map(json.loads, path.read_text().splitlines()):
            kind = "key" if j["type"] == "name" and j["kind"] == "registry_key" else j["type"]
            if kind in self.KEYS:
                self.lives[kind].append((self.KEYS[kind](j), j["begin_raw"], j["end_raw"]))

    def at(self, kind, raw):
        """The existing objects after all events up to that time."""
        return {key for key, begin, end in self.lives[kind] if (begin is None or begin <= raw) and (end is None or end > raw)}


OF_EVENT = {
    "process": lambda f: (f["ProcessId"], f["ParentId"], f["ImageFileName"], f["CommandLine"]),
    "thread": lambda f: (f["TThreadId"], f["ProcessId"], number(f["StackBase"])),
    "module": lambda f: (f["ProcessId"], number(f["ImageBase"]), f["ImageSize"], f["FileName"]),
    "key": lambda f: (number(f["KeyHandle"]), f["KeyName"]),
}


def plain(fields):
    return {k: v["value"] if isinstance(v, dict) else v for k, v in fields.items()}


def exported(env, collector, host, *words):
    lines = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "jsonl", "--raw", "--no-names", *words]).stdout
    return [{**e, "fields": plain(e["fields"])} for e in map(json.loads, lines.splitlines())]


def unsigned(value):
    return value + (1 << 63)  # SCHEMA.md: addresses


def open_now(collector, host):
    """What the collector's state says there is, of a machine of one stream."""
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)

    def rows(table, columns, more=""):
        return db.execute(f"SELECT {columns} FROM {table} t JOIN streams s USING(stream) WHERE s.host = ? AND t.end_utc_ns = ? {more}", (host, FOREVER))
    found = {
        "process": set(rows("processes", "pid, parent_pid, image_name, command_line")),
        "thread": {(tid, pid, unsigned(base)) for tid, pid, base in rows("threads", "tid, pid, stack_base")},
        "module": {(pid, unsigned(base), size, path) for pid, base, size, path in rows("modules", "pid, base, size_bytes, path")},
        "key": {(unsigned(address), name) for address, name in rows("names", "address, name", f"AND kind = {KEYS}")},
    }
    db.close()
    return found


def differ(got, wanted):
    return f"{len(got)} in place of {len(wanted)}; only here {sorted(got - wanted)[:2]}; missing {sorted(wanted - got)[:2]}"


class World:
    """A trace, its truth, and the place at which the sessions begin: a sample in the middle, at which nothing begins or ends."""

    def __init__(self, env, native, name="machine", scenario_text=SCENARIO):
        self.native = native
        scenario, self.trace, truth = (env.folder / f"{name}.{kind}" for kind in ("yaml", "etl", "jsonl"))
        scenario.write_text(scenario_text)
        env.run([native / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--out", self.trace, "--truth", truth])
        self.truth = Truth(truth)
        records = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", self.trace]).stdout.splitlines()]
        samples = [i for i, r in enumerate(records) if r["provider"].startswith("ce1dbfb4") and r["opcode"] == 46]
        self.begin = samples[len(samples) // 2]
        self.begin_raw = records[self.begin]["clock"]
        self.end_raw = min(r["clock"] for r in records if r["provider"].startswith("3d6fa8d0") and r["opcode"] == 4)

    def plays(self, machine, *lines, rate=3000):
        machine.plays([self.trace], f"rate={rate}", f"from={self.begin}", *lines)


def files(env, checks, session, windows, world, collector):
    """Names of open files alone, whether Windows logs them without the flag of disk input and output or not."""
    for rule in ("alone", "disk"):
        with emulated.Machine(env, session, windows, f"files-{rule}") as machine:
            world.plays(machine, f"file-names={rule}")
            machine.configure(collector, [{"name": "files", "flags": ["PROFILE"], "rundown": ["file-name"], **SMALL}])
            machine.start()
            machine.wait(lambda: machine.sources().get("files", {}).get("session", {}).get("rundowns") == 1, "the rundown of files")
            counted = machine.sources()["files"]["session"]["rundown_events"]
            machine.wait(machine.settled, "everything acknowledged")
            checks.equal(machine.stop(), 0, f"{rule}: exit code")
        events = exported(env, collector, f"files-{rule}")
        own = {e["logger"] for e in events if e["name"] == "PerfInfo/SampleProf"}
        names = collections.Counter(e["name"] for e in events if e["logger"] not in own and e["name"] != "EventTrace/Header")
        checks.that(names[COMPLETE] == 1 and set(names) == {COMPLETE, "FileIo/FileRundown"} and sum(names.values()) == counted, f"{rule}: events of the second session: {names}")


def alone(env, checks, session, windows, world, collector):
    for word, (name, kind) in WORDS.items():
        with emulated.Machine(env, session, windows, word) as machine:
            world.plays(machine)
            machine.configure(collector, [{"name": word, "flags": ["PROFILE"], "rundown": [word], **SMALL}])
            machine.start()
            machine.wait(lambda: machine.sources().get(word, {}).get("session", {}).get("rundowns") == 1, f"the rundown of {word}")
            reported = machine.sources()[word]["session"]["rundown_events"]
            machine.wait(machine.settled, f"{word}: everything acknowledged")
            checks.equal(machine.stop(), 0, f"{word}: exit code")
        events = exported(env, collector, word)
        own = {e["logger"] for e in events if e["name"] == "PerfInfo/SampleProf"}
        second = [e for e in events if e["logger"] not in own and e["name"] != "EventTrace/Header"]
        ends = [e for e in second if e["name"] == "Registry/KCBRundownEnd"]
        begins = [e for e in second if e["name"] == name]
        checks.equal((len(own), len(second), [e["name"] for e in second if e not in begins + ends]), (1, reported, [COMPLETE]),
                     f"{word}: what the second session recorded beside {name}")
        got, wanted = {OF_EVENT[kind](e["fields"]) for e in begins}, world.truth.at(kind, world.begin_raw)
        checks.that(len(got) == len(begins) and wanted and got == wanted, f"{word}: recorded: {differ(got, wanted)}")
        now = open_now(collector, word)
        if word == "registry":  # Windows names keys when the second session ends, too: those that there are then
            wanted = world.truth.at(kind, ends[0]["clock"])
            got = {OF_EVENT[kind](e["fields"]) for e in ends}
            checks.that(got == wanted, f"{word}: recorded at the end: {differ(got, wanted)}")
            checks.that(wanted <= now[kind], f"{word}: names at the collector: {differ(now[kind], wanted)}")
        else:
            checks.that(now[kind] == wanted, f"{word}: the state: {differ(now[kind], wanted)}")
        checks.equal([k for k, rows in now.items() if rows and k != kind], [], f"{word}: state of objects that were not asked for")
        if word == "driver":
            drivers = {(number(m["base"]), m["path"]) for m in collector.ask_json("modules", "--host", word, "--pid", 0, "--at", "end")["modules"]}
            wanted = {(base, path) for pid, base, _, path in wanted if pid == 0}
            checks.that(len(drivers) > 5 and {base for base, _ in drivers} == {base for base, _ in wanted}, f"drivers: {differ(drivers, wanted)}")


def crowd(env, checks, session, windows, world, collector):
    """So much is there that it is several times what the session's ring holds, at once, and the spool is slow: it waits for room."""
    world = World(env, world.native, "crowd", CROWD)
    with emulated.Machine(env, session, windows, "crowd") as machine:
        world.plays(machine, rate=0)
        machine.configure(collector, [{"name": "own", "flags": ["PROC_THREAD", "LOADER"], **SMALL}], "level: 19")
        machine.start()
        machine.wait(machine.settled, "everything acknowledged or counted")
        # events of the trace's own rundown at its end, long after the start, may be dropped when the ring is full
        checks.equal(machine.sources()["own"]["session"]["lost_events"], 0, "events that Windows lost meanwhile")
        checks.equal(machine.stop(), 0, "exit code")
    reported = exported(env, collector, "crowd")
    checks.equal(sum(e["name"] == COMPLETE for e in reported), 1, "crowd: the start is recorded to its end")
    reported = [e for e in reported if e["opcode"] == 3]
    print(f"crowd: {len(reported)} records, {sum(len(e['payload']) // 2 for e in reported) >> 10} KiB of payloads", flush=True)
    for kind, name in (("process", "Process/DCStart"), ("thread", "Thread/DCStart"), ("module", "Image/DCStart")):
        got, wanted = {OF_EVENT[kind](e["fields"]) for e in reported if e["name"] == name}, world.truth.at(kind, world.begin_raw)
        checks.that(got == wanted, f"crowd: {kind}: {differ(got, wanted)}")


def refused(env, checks, session, windows, world, collector):
    """All six system sessions are in use: the first session runs without a rundown. Another program ends the first session when one of the
    six is free again: its next start brings the rundown."""
    with emulated.Machine(env, session, windows, "refused") as machine:
        world.plays(machine)
        machine.control("fill", "5", "system")
        machine.configure(collector, [{"name": "first", "flags": ["PROFILE"], "rundown": ["process"], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("first", {}).get("events_acknowledged", 0) > 100, "events of the first session")
        checks.that("rundown of existing objects failed: start session first-rundown" in machine.log(), f"word of it: {machine.log()}")
        s = machine.sources()["first"]["session"]
        checks.equal((s["runs"], s["starts"], s["rundowns"], s["rundown_events"]), (True, 1, 0, 0), "the first session, without a rundown")
        checks.that("etwagent-first-rundown" not in machine.sessions(), "no second session")
        checks.equal([p for p in collector.ask_json("ps", "--host", "refused", "--all")["processes"] if p["name"]], [], "processes with a name")
        machine.control("stop", "system-3")
        machine.control("stop", "etwagent-first")
        machine.wait(lambda: (s := machine.sources()["first"]["session"])["starts"] == 2 and s["rundowns"] == 1, "the next start, and its rundown")
        machine.wait(lambda: (x := machine.sources()["first"])["events_acknowledged"] - x["events_synthesised"] == x["session"]["events"] and machine.sessions()["etwagent-first"]["over"],
                     "everything acknowledged")
        reported = machine.sources()["first"]["session"]["rundown_events"]
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    ledger = test_faults.ledger_of(collector, "refused")
    checks.equal([ledger.get(f"source_rundown{name}", 0) for name in ("_failures", "s", "_records")], [1, 1, reported], "the ledger: failed, had, records")
    wanted, now = world.truth.at("process", world.begin_raw), open_now(collector, "refused")["process"]
    checks.that(reported == len(wanted) + 1 and now == wanted, f"processes in the end: {differ(now, wanted)}")


def late(env, checks, session, windows, world, collector):
    """The second session was stopped, and what it has does not come for longer than anybody waits."""
    with emulated.Machine(env, session, windows, "late") as machine:
        world.plays(machine, "stall=60000 etwagent-first-rundown")
        machine.configure(collector, [{"name": "first", "flags": ["PROFILE"], "rundown": ["file-name"], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("first", {}).get("events_acknowledged", 0) > 100, "events while the second session is waited for")
        machine.wait(lambda: "the rest did not come in time" in machine.log(), "word of it")
        machine.wait(lambda: machine.sources()["first"]["session"]["rundowns"] == 1, "the end of the waiting")
        reported = machine.sources()["first"]["session"]["rundown_events"]
        checks.equal(set(machine.sessions()), {"etwagent-first"}, "sessions")
        machine.wait(machine.settled, "everything acknowledged")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    ledger = test_faults.ledger_of(collector, "late")
    checks.equal([ledger.get(f"source_rundown{name}", 0) for name in ("_failures", "s", "_records")], [1, 0, reported], "the ledger: failed, had, records")
    checks.that(not [e for e in exported(env, collector, "late") if e["name"] == "FileIo/FileRundown" and e["logger"] != 1], "names that came")


def recorded(env, session, windows, world, name, sessions, batching, rate):
    """{session: its batches} of a machine with keyframes, taken by a collector that keeps none."""
    kept, lock = {}, threading.Lock()

    def take(exchange):
        exchange.read_body()
        with lock:
            for batch in uploads.batches(exchange.body):
                head = uploads.Head(batch)
                kept[head.stream, head.number] = batch
        exchange.acknowledge(exchange.heads())

    with emulated.Machine(env, session, windows, name) as machine, receiver.Receiver(env.certs, take) as fake:
        world.plays(machine, rate=rate)
        machine.configure(fake, sessions, batching)
        machine.start()
        machine.wait(machine.settled, "everything acknowledged")
        streams = {name: bytes.fromhex(s["stream"]) for name, s in machine.sources().items()}
        machine.stop()
    return {name: [kept[key] for key in sorted(kept) if key[0] == stream] for name, stream in streams.items()}


def of_keyframe(fields, name):
    """(kind, key) of a record of a keyframe."""
    kind = {"Keyframe/Process": "process", "Keyframe/Thread": "thread", "Keyframe/Module": "module"}.get(name)
    if name == "Keyframe/Name" and fields["Kind"] == KEYS:
        return "key", (number(fields["Address"]), fields["Name"])
    return kind, OF_EVENT[kind](fields) if kind else None


def keyframes_of(env, collector, host):
    """[(clock, {kind: what it names})]"""
    found = []
    for e in exported(env, collector, host, "--keyframes", "--class", "Keyframe/*"):
        if e["name"] == "Keyframe/Begin":
            found.append((e["clock"], {kind: set() for kind in OF_EVENT}))
        kind, key = of_keyframe(e["fields"], e["name"])
        if kind:
            found[-1][1][kind].add(key)
    return found


def scheduled(env, checks, session, windows, world, collector):
    world = World(env, world.native, "quiet", QUIET)
    flags, wanted = ["PROC_THREAD", "LOADER", "PROFILE"], {"usual": 1, "often": 3, "never": 0, "nothing": 0}
    of = recorded(env, session, windows, world, "scheduled", [
        {"name": "usual", "flags": flags, **SMALL}, {"name": "often", "flags": flags, "keyframe-every": "2s", **SMALL},
        {"name": "never", "flags": flags, "keyframe-every": "0", **SMALL},
        {"name": "nothing", "flags": ["PROFILE"], "keyframe-every": "1s", **SMALL}], "batch-events: 4096", 10000)
    for host, batches in of.items():
        test_ledger.upload(env, collector, host, batches)
        frames = keyframes_of(env, collector, host) if wanted[host] else []
        kinds = [uploads.Head(batch).kind for batch in batches]
        checks.equal((len(frames), 2 in kinds), (wanted[host], wanted[host] > 0), f"{host}: keyframes on schedule")
        for raw, frame in frames:
            for kind in ("process", "thread", "module"):
                got, there = frame[kind], world.truth.at(kind, raw)
                checks.that(got == there and there, f"{host}: a keyframe's {kind}: {differ(got, there)}")
        size = sum(len(batch) for batch, kind in zip(batches, kinds) if kind == 2)
        print(f"{host}: {len(frames)} keyframes of {size} bytes beside {sum(map(len, batches)) - size} of events", flush=True)


def framed(env, checks, session, windows, world, collector):
    del collector
    sessions = [{"name": "own", "flags": ["PROC_THREAD", "LOADER", "REGISTRY", "PROFILE"], **SMALL},
                {"name": "bare", "flags": ["PROFILE"], "rundown": ["process", "thread", "driver", "registry"], **SMALL}]
    of = recorded(env, session, windows, world, "framed", sessions, "batch-events: 256\n  keyframe-events: 1600", 3000)
    for host, batches in of.items():
        whole, middle = (env.new_collector(f"{host}-{which}").start() for which in ("whole", "middle"))
        test_ledger.upload(env, whole, host, batches)
        kinds = [uploads.Head(batch).kind for batch in batches]
        ends = [i for i in range(len(kinds)) if kinds[i] == 2 and kinds[i + 1:i + 2] != [2]]  # a keyframe may take several batches
        frames = keyframes_of(env, whole, host)
        checks.that(len(ends) >= 3 and len(frames) == len(ends) and (host == "bare" or frames[2][0] < world.end_raw),
                    f"{host}: {len(frames)} keyframes, three before the trace has all itself")
        for raw, frame in frames[1:3]:  # the rundown at the start may still arrive when the first keyframe is due
            # a session without start and end events knows the objects that existed at its start
            moment = raw if host == "own" else world.begin_raw
            for kind, got in frame.items():
                wanted = world.truth.at(kind, moment)
                if host == "bare" and kind == "key":  # the second session named them at its end, too
                    checks.that(len(got) > 5 and got & wanted, f"{host}: a keyframe's keys: {differ(got, wanted)}")
                else:
                    checks.that(got == wanted and wanted, f"{host}: a keyframe's {kind}: {differ(got, wanted)}")
        # the batches after the second keyframe up to the end of the third: they have no rundown events
        test_ledger.upload(env, middle, host, batches[ends[1] + 1:ends[2] + 1])
        middle.stop()
        middle.ask("ledger", "--host", host, check=False)  # builds the state; the missing batches before these raise an alarm
        reported = exported(env, middle, host)
        checks.equal([e["name"] for e in reported if e["name"].endswith(("DCStart", "KCBRundownBegin"))], [], f"{host}: records of a rundown in the middle")
        now, frame = open_now(middle, host), frames[2][1]
        for kind, got in now.items():
            checks.that(got == frame[kind], f"{host}: who joins in the middle: {kind}: {differ(got, frame[kind])}")
        print(f"{host}: {len(batches)} batches, {len(frames)} keyframes; {', '.join(f'{len(rows)} {kind}' for kind, rows in now.items())}", flush=True)
        whole.stop()


def test(env, checks, session, windows, arguments):
    env.make_certificates([*WORDS, "files-alone", "files-disk", "crowd", "refused", "late", "framed", "own", "bare", "scheduled", "usual", "often", "never", "nothing"])
    collector = env.new_collector().start()
    world = World(env, arguments.native)
    for part in (alone, files, crowd, refused, late, framed, scheduled):
        if not arguments.only or arguments.only == part.__name__:
            begun = time.monotonic()
            part(env, checks, session, windows, world, collector)
            print(f"{part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
