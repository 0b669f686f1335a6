#!/usr/bin/env python3
"""The shipped .exe when the machine logs a million events a second, by the emulator's clock, under Wine:

- late: the buffers of one processor come a tenth of a second later than the others'. Every event arrives as it was logged.
- keeps_up: the default buffers, on a clock so slow that this machine can be as fast as it has to be: nothing is lost.
- beyond: ten million events a second by the machine's own clock, few buffers, an agent that compresses as hard as it can.
  Each event that did not come through is counted, the others are as they were logged, the agent keeps its bounds, and the session of the security
  classes, small as it is, loses nothing.

In the last two processes come and go that live less than 5 ms. Each one's start, command line, image and end are in the store.
"""
import collections
import json
import time

import emulated
import test_faults

SCENARIO = """base: windows
duration_ms: 200
machine: {cpus: 4, os: windows-11}
session:
  events: [process, thread, image, sample, cswitch, readythread, syscall, dpc, isr, disk, config]
  samples_per_second: 1000
  events_per_second: %d
  image_ids: no
programs:
  - {name: brief.exe, path: '\\Program Files\\Brief\\brief.exe', command: 'brief.exe --number=#', size: 0x20000, dlls: [base, c],
     life_ms: 4, burst_us: [100, 400], wait_us: [100, 500], does: {syscalls: 5, compute: 5}}
starts:
  - {program: Idle}
  - {program: System, parent: Idle}
  - {program: smss.exe, parent: System}
  - {program: wininit.exe, parent: smss.exe}
  - {program: services.exe, parent: wininit.exe}
  - {program: svchost.exe, parent: services.exe, count: 4}
activities:
  - {parent: services.exe, child: brief.exe, every_ms: 10}
"""
RATE = 1000000  # events a second of the machine's own time
SLOW = 30       # seconds that one of the machine's takes, where the agent shall keep up
SECURITY = {"name": "security", "kind": "system", "priority": "security", "flags": ["PROC_THREAD", "LOADER"], "buffer-size": "64KiB",
            "min-buffers": 64, "max-buffers": 512, "flush": "50ms"}
BULK = {"name": "bulk", "kind": "system", "flags": ["CSWITCH", "DISPATCHER", "DPC", "INTERRUPT", "SYSCALL", "PROFILE", "DISK_IO"]}
FEW = {"buffer-size": "64KiB", "min-buffers": 16, "max-buffers": 32}
LOST = "6a399ae0-4bc6-4de9-870b-3657f8947e7e"  # the provider of RTLostEvent
RT_LOST_EVENT = 32  # its opcode
SHORT_NS = 5000000
CEILING_KIB = 192 << 10  # of the process: two rings, two sessions' buffers in the emulator, batches, Wine's own


def make(env, native, name, rate):
    """A trace, and the brief processes of its truth by their command lines."""
    scenario, trace, truth = (env.folder / f"{name}.{kind}" for kind in ("yaml", "etl", "jsonl"))
    scenario.write_text(SCENARIO % rate)
    env.run([native / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--out", trace, "--truth", truth])
    lines = [json.loads(line) for line in truth.read_text().splitlines()]
    brief = {p["command_line"]: p for p in lines if p["type"] == "process" and p.get("image") == "brief.exe" and p["end_raw"]}
    return trace, {c: p for c, p in brief.items() if p["end_utc_ns"] - p["begin_utc_ns"] < SHORT_NS}


def brief_are_recorded(checks, collector, host, truth):
    """Each brief process with its command line, times and images."""
    reported = {p["command_line"]: p for p in collector.ask_json("ps", "--host", host, "--all")["processes"] if p["name"] == "brief.exe"}
    checks.that(len(truth) > 5, f"{len(truth)} processes that live less than 5 ms")
    print(f"{host}: {len(truth)} processes that live less than 5 ms", flush=True)
    for command, p in truth.items():
        got = reported.get(command)
        if not got or not got["begin"] or not got["end"]:
            checks.that(False, f"{host}: {command}: {got}")
            continue
        lived_ns = (emulated.utc(got["end"]) - emulated.utc(got["begin"])) * 1e9
        checks.that(abs(lived_ns - (p["end_utc_ns"] - p["begin_utc_ns"])) < 2000, f"{host}: {command} lived {lived_ns} ns")
    images = collections.Counter()
    for line in collector.ask("export", "--host", host, "--format", "jsonl", "--class", "Image/Load").splitlines():
        fields = json.loads(line)["fields"]
        images[fields["ProcessId"]] += "brief.exe" in str(fields["FileName"])
    without = [p["pid"] for p in truth.values() if not images[p["pid"]]]
    checks.that(not without, f"{host}: brief processes without their image: {without}")


def accounted(env, checks, collector, machine, name, trace):
    """What the emulator logged is in the store or is counted. Returns {session: events that are not}."""
    emulator, sources = machine.sessions(), machine.sources()
    missing = {}
    for session, s in sources.items():
        e = emulator[f"etwagent-{session}"]
        checks.equal(s["session"]["lost_events"], e["lost"], f"{name}: {session}: events that Windows lost, as the agent says")
        checks.equal(s["session"]["events"], e["logged"] - e["lost"] + 1, f"{name}: {session}: events that came, and the header")
        checks.equal(s["events_acknowledged"] - s["events_synthesised"] + s["session"]["dropped_events"], s["session"]["events"], f"{name}: {session}: acknowledged or dropped")
        missing[session] = e["lost"] + s["session"]["dropped_events"]
    checks.that(machine.status()["ledger_balanced"], f"{name}: the ledger balances")
    return missing


def records(env, collector, host, trace):
    """Records of the trace that the sessions logged, and those stored, as bags."""
    truth = emulated.compared(env.run([env.agent, "dump", "--format", "raw", trace]).stdout.splitlines())
    stored = emulated.compared(env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw", "--verify"])
                                .stdout.splitlines())
    return truth, stored


def memory_kib(session):
    peaks = []
    for pid in session.processes("etwagent.exe"):
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            peaks += [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return max(peaks, default=0)


def run(env, checks, session, windows, native, collector, name, rate, lines, sessions, batching="batch-events: 16384", in_order=True):
    """One machine that logs a trace to its end, and what became of it."""
    trace, truth = make(env, native, name, rate)
    with emulated.Machine(env, session, windows, name) as machine:
        machine.plays([trace], *lines)
        machine.configure(collector, sessions, batching)
        machine.start()
        began = time.monotonic()

        def played():
            e = machine.sessions()
            return len(e) == len(sessions) and all(s["over"] for s in e.values())
        machine.wait(played, f"{name}: the trace's end")
        offered = time.monotonic() - began
        machine.wait(machine.settled, f"{name}: all acknowledged or counted")
        missing = accounted(env, checks, collector, machine, name, trace)
        late_ms = max(s["late_ms"] for s in machine.sessions().values())
        checks.that(late_ms == 0 if in_order else 80 <= late_ms <= 200, f"{name}: an event came {late_ms} ms after a later one")
        sources, peak = machine.sources(), memory_kib(session)
        checks.equal(machine.stop(), 0, f"{name}: exit code")
    total = sum(s["session"]["events"] for s in sources.values()) + sum(missing.values())
    print(f"{name}: {total} events in {offered:.1f} s, {sum(missing.values())} of them not stored and counted; {peak >> 10} MiB", flush=True)
    if in_order:
        brief_are_recorded(checks, collector, name, truth)
    late = test_faults.ledger_of(collector, name).get("source_late_records", 0)
    checks.that(late == 0 if in_order else late > 100, f"{name}: records that came late, in the ledger: {late}")
    checks.that(0 < peak < CEILING_KIB, f"{name}: the process took {peak} KiB")
    return trace, missing


def test(env, checks, session, windows, arguments):
    env.make_certificates(["late", "keeps-up", "beyond"])
    collector = env.new_collector().start()
    common = (env, checks, session, windows, arguments.native, collector)
    if arguments.only in ("", "late"):
        trace, missing = run(*common, "late", RATE // 10, [f"slow={SLOW / 10}", "late=1 100"], [{**SECURITY, "flags": SECURITY["flags"] + BULK["flags"]}],
                             in_order=False)
        checks.equal(sum(missing.values()), 0, "late: events lost")
        truth, stored = records(env, collector, "late", trace)
        checks.equal((truth - stored, stored - truth), (collections.Counter(), collections.Counter()), "late: records that differ")
    if arguments.only in ("", "keeps_up"):
        _, missing = run(*common, "keeps-up", RATE, [f"slow={SLOW}"], [SECURITY, BULK])
        checks.equal(missing, {"security": 0, "bulk": 0}, "keeps_up: events lost")
    if arguments.only in ("", "beyond"):
        trace, missing = run(*common, "beyond", RATE, ["slow=0.1"], [SECURITY, {**BULK, **FEW}], "level: 19")
        checks.equal(missing["security"], 0, "beyond: events of the security session lost")
        checks.that(missing["bulk"] > 0, "beyond: nothing was lost, so it was not beyond")
        truth, stored = records(env, collector, "beyond", trace)
        unlogged = set(stored) - set(truth)
        added = [dict(zip(emulated.IDENTITY, json.loads(r))) for r in unlogged]
        clocks = {json.loads(r)[emulated.IDENTITY.index("clock")] for r in truth}
        odd = [r for r in added if (r["provider"], r["opcode"]) != (LOST, RT_LOST_EVENT) or r["clock"] not in clocks]
        checks.equal(odd[:1], [], "beyond: records that were never logged, but for RTLostEvents at the time of the event after them")
        checks.that(len(unlogged) > 0, "beyond: no RTLostEvent in the stream")
        ledger = test_faults.ledger_of(collector, "beyond")
        checks.equal(ledger.get("source_events_lost", 0) + ledger.get("events_dropped_full", 0), missing["bulk"], "beyond: the ledger's losses")
        checks.that(0 < ledger["source_lost_records"] <= len(unlogged), f"beyond: RTLostEvents that the ledger knows: {ledger['source_lost_records']}")
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
