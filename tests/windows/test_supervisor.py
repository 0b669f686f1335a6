#!/usr/bin/env python3
"""The supervisor of a session, with the shipped .exe and the emulator of ETW under Wine. The emulator measures the delays by the machine's
clock: from a change of a session to the agent's call that responds to it.

- ended: another program ends the session, three times. Each time it runs again within a second plus the pause before the restart.
- stolen: another program ends the session and starts one of the same name: the agent stops that one, and its own has the same settings again.
- restless: Windows delivers nothing and returns immediately, again and again: each start waits twice as long as the previous one.
- waits: starting a session is not permitted any more; a stop of the agent does not wait for the next attempt.
- beside: events that Windows loses in a second session (the rundown) are reported everywhere as losses of the first session.
- slow: TDH takes seconds for a provider's name. The agent asks TDH once, not each time that the provider's state is queried, and not when
  the session is started again.
- grows: Windows loses events, again and again. The session gets more buffers within a second, up to the limit, and not more than that. A
  restart keeps the number. "etwagent sessions" and the last log line report the number and the losses.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Live sessions, on the emulator 15: A session that is stopped, taken over or loses events is detected within a second. | restarted 4 to 21
#   ms after its end, then after doubling pauses | 2026-11-23
# - Live sessions, on the emulator 16: A session that loses events gets more buffers, up to its limit. | 7 to 233 ms after a loss | 2026-11-23
# - Live sessions, on the emulator 17: A stop of the agent waits neither for the next attempt nor for a slow TDH. | TDH that takes seconds |
#   2026-11-23
import json
import os
import re
import signal
import time

import emulated
import test_faults
import traces
import wine

TRACE = "clr-kernel-win8-x64"
KERNEL = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE"], "buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64, "flush": "50ms"}
NAME = "etwagent-kernel"
SECOND_MS, FIRST_PAUSE_MS, TIMES = 1000, 100, 3
FAILURES = 5   # of ProcessTrace: pauses of 0, 100, 200, 400 and 800 ms
LONG_S = 14    # then the attempts are at 0, 0.1, 0.3 ... 12.7 and 25.5 s
SOON_S = 8     # much less than is left to the next attempt
LOST = 10
SLOW_MS, CAPTURES = 3000, 8
RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"


def kernel(machine):
    return machine.sources().get("kernel", {}).get("session", {})


def runs(machine, collector, *script, rate=4000):
    machine.plays(traces.paths(TRACE, machine.env.build), f"rate={rate}", *script)
    machine.configure(collector, [KERNEL])
    machine.start()
    machine.wait(lambda: machine.sources().get("kernel", {}).get("events_acknowledged", 0) > 0, "events")


def ended(checks, machine, session, collector):
    runs(machine, collector)
    took = []
    for i in range(TIMES):
        machine.control("stop", NAME)
        machine.wait(lambda n=i: kernel(machine)["starts"] == n + 2 and kernel(machine)["runs"], "the session again")
        pause = FIRST_PAUSE_MS * 2 ** (i - 1) if i else 0
        took.append(machine.sessions()[NAME]["away_ms"] - pause)
    print(f"ended: there again {', '.join(map(str, took))} ms and a pause later", flush=True)
    checks.that(0 <= min(took) < SECOND_MS, f"noticed and started again, beside the pause, in ms: {took}")
    before = machine.sources()["kernel"]["events_acknowledged"]
    machine.wait(lambda: machine.sources()["kernel"]["events_acknowledged"] > before + 1000, "events of the last one")
    checks.equal(machine.stop(), 0, "exit code")
    checks.equal(machine.log().count("the session runs again"), TIMES, "times that it is logged")
    return {"source_session_ends": TIMES}


def stolen(checks, machine, session, collector):
    runs(machine, collector)
    was = machine.sessions()[NAME]
    machine.control("steal", NAME, "system")
    machine.wait(lambda: kernel(machine)["starts"] == 2 and kernel(machine)["runs"], "our session")
    now = machine.sessions()[NAME]
    same = ("masks", "buffer_kib", "min", "max", "mode", "flush")
    checks.equal([now[k] for k in same], [was[k] for k in same], "our session, and what it was")
    checks.equal(len(machine.sessions()), 1, "sessions that there are")
    checks.that("a session of this name was there; it was stopped" in machine.log(), f"word of the other's: {machine.log()}")
    checks.equal(machine.stop(), 0, "exit code")
    return {"source_session_ends": 1, "source_stale_sessions": 1}


def restless(checks, machine, session, collector):
    begun = time.monotonic()
    runs(machine, collector, f"fail=ProcessTrace 5 {FAILURES}")
    checks.equal((kernel(machine)["starts"], kernel(machine)["ended_by_others"]), (FAILURES + 1, FAILURES), "starts, and ends of what was started")
    last_ms = machine.sessions()[NAME]["away_ms"]
    wanted_ms = FIRST_PAUSE_MS * 2 ** (FAILURES - 2)
    print(f"restless: the last pause was {last_ms} ms, all took {time.monotonic() - begun:.1f} s", flush=True)
    checks.that(last_ms >= wanted_ms, f"the last start came {last_ms} ms after the end, {wanted_ms} ms at the least are right")
    checks.equal(machine.log().count("ProcessTrace ended with error 5"), FAILURES, "times that the reason is logged")
    checks.equal(machine.stop(), 0, "exit code")
    return {"source_session_ends": FAILURES}


def waits(checks, machine, session, collector):
    runs(machine, collector, "fail=StartTraceW 1450 1000 1")
    machine.control("stop", NAME)
    machine.wait(lambda: "start session kernel" in machine.log() and "it is tried again" in machine.log(), "word of the refusal")
    time.sleep(LONG_S)
    checks.equal(kernel(machine)["runs"], False, "the session, which may not be started")
    begun = time.monotonic()
    for pid in session.processes("etwagent.exe"):
        os.kill(pid, signal.SIGINT)
    checks.equal(machine.process.wait(timeout=120), 0, "exit code")
    took = time.monotonic() - begun
    print(f"waits: stopped after {took:.1f} s", flush=True)
    checks.that(took < SOON_S, f"the end took {took:.1f} s")
    machine.drain()
    return {"source_session_ends": 1}


def beside(checks, machine, session, collector):
    machine.plays(traces.paths(TRACE, machine.env.build), "rate=4000", "from=60000", f"lost={LOST} {NAME}-rundown")
    machine.configure(collector, [{**KERNEL, "flags": ["PROFILE"], "rundown": ["process"]}])
    machine.start()
    machine.wait(lambda: kernel(machine).get("rundowns") == 1, "existing objects")
    machine.wait(lambda: kernel(machine)["lost_events"] == LOST, "the loss in the status")
    checks.that(f"rundown: Windows lost {LOST} events of it" in machine.log(), f"word of it: {machine.log()}")
    checks.equal(kernel(machine)["grown"], 0, "more buffers, which would be the first session's")
    checks.equal(machine.stop(), 0, "exit code")
    checks.that(f"lost {LOST} events and 0 buffers; others ended it 0 times" in machine.log(), f"the last line: {machine.log()[-300:]}")
    return {"source_events_lost": LOST, "source_session_ends": 0}


def slow(checks, machine, session, collector):
    machine.plays(traces.paths(TRACE, machine.env.build), "rate=4000", f"tdh-delay={SLOW_MS}", f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
    provider = {"provider": "Microsoft-Windows-DotNETRuntime", "capture-every": "200ms"}
    machine.configure(collector, [{**{k: v for k, v in KERNEL.items() if k not in ("kind", "flags")}, "providers": [provider]}])
    machine.start()
    machine.wait(lambda: (s := machine.sessions().get(NAME)) and s["captures"] > 1, "the provider's state, and again")
    begun, before = time.monotonic(), machine.sessions()[NAME]["captures"]
    machine.wait(lambda: machine.sessions()[NAME]["captures"] >= before + CAPTURES, "its state again and again")
    took = time.monotonic() - begun
    print(f"slow: asked {CAPTURES} times for its state in {took:.1f} s", flush=True)
    checks.that(took < CAPTURES * SLOW_MS / 1000 / 2, f"{CAPTURES} times in {took:.1f} s, and TDH takes {SLOW_MS} ms")
    begun = time.monotonic()
    machine.control("stop", NAME)
    machine.wait(lambda: kernel(machine)["starts"] == 2 and (s := machine.sessions().get(NAME)) and s["captures"] > 0, "the provider in the next session")
    took = time.monotonic() - begun
    print(f"slow: enabled again after {took:.1f} s", flush=True)
    checks.that(took < SLOW_MS / 1000, f"enabled again after {took:.1f} s, and TDH takes {SLOW_MS} ms")
    checks.equal(machine.stop(), 0, "exit code")
    return {"source_parts_refused": 0, "source_session_ends": 1}


def grows(checks, machine, session, collector):
    runs(machine, collector, rate=1000)
    first = machine.sessions()[NAME]["max"]
    took, most = [], first
    for i in range(TIMES):
        machine.control("lose", NAME, str(LOST), "0", "0")
        machine.wait(lambda n=i: kernel(machine)["lost_events"] == LOST * (n + 1), "the loss in the status")
        if most < KERNEL["max-buffers"]:
            machine.wait(lambda n=i: kernel(machine)["grown"] == n + 1, "more buffers")
            most = min(2 * most, KERNEL["max-buffers"])
            took.append(machine.sessions()[NAME]["grown_ms"])
        checks.equal(machine.sessions()[NAME]["max"], most, f"buffers that it may have after {i + 1} losses")
    print(f"grows: from {first} to {most} buffers, {', '.join(map(str, took))} ms after a loss", flush=True)
    checks.that(len(took) == 2 and most == KERNEL["max-buffers"], f"the losses reach the bound and one is after it: {took}, {most}")
    checks.that(min(took) < SECOND_MS, f"noticed, in ms: {took}")
    calm = kernel(machine)["events"]
    machine.wait(lambda: kernel(machine)["events"] > calm + 1000, "events without losses")
    checks.equal((kernel(machine)["grown"], machine.log().count("it may have ")), (2, 2), "times that it grew, and that it is logged")
    listed = json.loads(session.run([machine.agent, "sessions", "--json"]).stdout)
    checks.equal([(s["name"], s["max_buffers"], s["lost_events"]) for s in listed], [(NAME, most, LOST * TIMES)], "etwagent sessions --json")
    text = session.run([machine.agent, "sessions"]).stdout
    checks.that(re.fullmatch(rf"{NAME}: 8 buffers \(\d+ free, at most {most}\) of 64 KiB, \d+ written; lost: {LOST * TIMES} events, 0 buffers; mode 0x\w{{8}}\n", text),
                f"etwagent sessions: {text}")
    machine.control("stop", NAME)
    machine.wait(lambda: kernel(machine)["starts"] == 2 and kernel(machine)["runs"], "the session again")
    checks.equal(machine.sessions()[NAME]["max"], most, "buffers that it may have from the beginning then")
    said = session.run([machine.agent, "status", "--file", wine.windows_path(machine.status_file)]).stdout
    checks.that(f"Windows lost {LOST * TIMES} events and 0 buffers" in said, f"etwagent status: {said}")
    checks.equal(machine.stop(), 0, "exit code")
    last = machine.log()[machine.log().rindex("it ended after"):]
    checks.that(re.match(rf"it ended after \d+ events; Windows wrote \d+ buffers and lost {LOST * TIMES} events and 0 buffers; others ended it 1 times", last), f"the last line: {last}")
    return {"source_session_ends": 1, "source_events_lost": LOST * TIMES}


def lingers(checks, machine, session, collector):
    """The name of a session that was stopped is taken for a moment: the start waits for it, and is not refused."""
    machine.control("start", NAME, "system")
    runs(machine, collector, "stop-takes=400")
    machine.control("stop", NAME)
    machine.wait(lambda: kernel(machine).get("starts") == 2 and kernel(machine)["runs"], "the session again")
    checks.that("start session" not in machine.log(), f"word of a refusal: {machine.log()}")
    checks.equal(machine.stop(), 0, "exit code")
    return {"source_session_ends": 1, "source_starts_refused": 0, "source_stale_sessions": 1}


def masks(checks, machine, session, collector):
    """More buffers cost no kernel flag, whether Windows' update of a session keeps its group masks or not."""
    paths = traces.paths(TRACE, machine.env.build)
    for rule in ("keeps", "resets"):
        machine.plays(paths, "rate=1000", f"update={rule}")
        machine.configure(collector, [{**KERNEL, "flags": ["PROC_THREAD", "LOADER", "CSWITCH", "PROFILE", "SYSCALL"]}])
        machine.status_file.unlink(missing_ok=True)
        machine.start()
        machine.wait(lambda: kernel(machine).get("events", 0) > 100, "events")
        before = machine.sessions()[NAME]["masks"]
        machine.control("lose", NAME, str(LOST), "0", "0")
        machine.wait(lambda: kernel(machine).get("grown") == 1, "more buffers")
        checks.that(before[1], f"{rule}: flags of other masks than the first: {before}")
        checks.equal(machine.sessions()[NAME]["masks"], before, f"{rule}: kernel flags after a growth")
        checks.equal("changed the kernel flags" in machine.log(), rule == "resets", f"{rule}: word of it")
        checks.equal(machine.stop(), 0, "exit code")
    return {"source_events_lost": 2 * LOST}


def test(env, checks, session, windows, arguments):
    every = (ended, stolen, restless, waits, beside, slow, grows, masks, lingers)
    env.make_certificates([part.__name__ for part in every])
    collector = env.new_collector().start()
    for part in emulated.parts(checks, arguments, every):
        with emulated.Machine(env, session, windows, part.__name__) as machine:
            wanted = part(checks, machine, session, collector)
        ledger = test_faults.ledger_of(collector, part.__name__)
        for name, value in wanted.items():
            checks.equal(ledger.get(name, 0), value, f"{part.__name__}: {name} in the ledger")
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
