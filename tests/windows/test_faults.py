#!/usr/bin/env python3
"""Faults of live sessions, and how the shipped .exe handles them, with the emulator of ETW under Wine:

- at the start: access denied, a session of the same name, an unknown provider, a filter that Windows rejects, a slow TDH, more
  performance counters than the machine has. The session runs with the available features and logs the missing ones.
- every option reaches Windows with the value of the configuration.
- the limit of system sessions (8) or of all sessions (64) is reached: this is logged and retried, and succeeds when a session ends.
- TDH fails, or takes seconds: a session that needs it waits, the others do not. The clock is set.
- the configuration is reloaded during a flood of events: unchanged sessions continue and lose nothing.
- at run time: another program stops the session; Windows loses events and buffers. The agent detects both, counts them in the ledger, and
  recovers within bounds.
- rundown of what existed before a session: by the session itself, by a short second session, by .NET's rundown provider.
- features that a session asks for and cannot have (counters that another profiler holds, an unknown provider, a filter) are also in the
  status, the ledger and the metrics of both programs.
- the disk of the spool becomes full, and has free space again: the session continues, and events that could not be written are counted.
- the collector does not answer and the spool is small: events of the bulk session are dropped, the security session loses nothing; a trace
  file waits, and leaves half of the spool free.
- a collector asks for a keyframe, and has other content under a session's numbers: the session writes one, and continues under a new name.
- "etwagent providers" prints the answers of TDH, caches them, and works when TDH fails.
- "etwagent record" reports what Windows lost, and continues when another program ends a session.
- more events than the buffers can hold: each dropped event is counted, the ledger balances, the stored events are correct.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 19
# - Delivery 20: ... and a file's source waits instead of losing events. | none of 179,474 events of a trace file lost | 2026-11-23
# - Live sessions, on the emulator 18: Each failure of a session is logged and counted, and the other sessions go on. | stolen, stale and
#   refused sessions, losses, rejected filters, failing and slow TDH, a changed clock, a reload in a flood | 2026-11-23
# - Live sessions, on the emulator 19: ... a refused hardware counter names its holder where Windows does. | counters that another profiler
#   holds, with its tag | 2026-11-23
# - Live sessions, on the emulator 20: ... a flood. | 54,728 of 110,652 events dropped and counted | 2026-11-23
# - Live sessions, on the emulator 21: ... a spool on a full disk. | 6,585 of 105,106 events dropped and counted; the session goes on |
#   2026-11-23
# - Live sessions, on the emulator 22: A keyframe that a collector requests comes from a live session. | one request, one keyframe |
#   2026-11-23
# - Live sessions, on the emulator 23: A machine that was reverted goes on under a new stream name. | each event once | 2026-11-23
import collections
import json
import re
import subprocess
import urllib.request
import uuid

import emulated
import disk
import harness
import proxy
import receiver
import test_ledger
import test_live
import test_trace_schemas
import traces
import wine

TRACE = "clr-kernel-win8-x64"
RUNTIME, FILES = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "edd08927-9cc4-4e65-b970-c2560fb5c289"
SHELL = "315a8872-923e-4ea2-9889-33cd4754bf64"  # its schema is known to TDH alone; each of its events comes twice
# numbers of trace records: after the rundown at the trace's start, before its first Process/Start, between SHELL's events and their
# repetition, before its last third
FIRST, QUIET, BETWEEN, FULL = 20000, 28000, 60000, 100000
PROCESS, THREAD = "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"
PERF_INFO = "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc"
IMAGE, FILE_IO = "2cb15d1d-5fc1-11d2-abe1-00a0c911f518", "90cbdc39-4a3e-11d1-84f4-0000f80464e3"
CLR_RUNDOWN = "a669021c-c450-4609-a035-5af59af4df18"
SMALL = {"buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64, "flush": "50ms"}
DRIFT_STEPS, DRIFT_S = 10, 0.15  # of the clock that drifts
AHEAD_S, BACK_S = 3600, -3000  # of the clock that is set, to a time after the certificates' begin
BACK_AT_S = 21  # after the check, ten seconds after the first step, that finds the drift
STACK, SID, START_KEY = 4, 1, 0x80
KEYFRAME = 2  # a batch's kind


def ledger_of(collector, agent):
    """The sum of each counter over the agent's streams."""
    total = {}
    for stream in test_ledger.ledger(collector, agent)["streams"]:
        for name, value in test_ledger.counters(stream).items():
            total[name] = total.get(name, 0) + value
    return total


def raw(env, collector, host):
    """What is stored of a machine, record by record."""
    lines = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw", "--verify"]).stdout.splitlines()
    return [json.loads(line) for line in lines]


def at_start(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "start") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=20000", "fail=StartTraceW 5 1", "tdh-delay=50", "fail=filters 1 1", f"state={RUNTIME} 187",
                      f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime", f"keyword={RUNTIME} 0x1 GCKeyword",
                      f"keyword={RUNTIME} 0x8000 ExceptionKeyword", "counter=19 1000 2147483647 TotalIssues",
                      "counter=10 4096 1000000 CacheMisses", "counters=1", "playback=70000 etwagent-all")
        machine.control("start", "etwagent-all")
        machine.configure(collector, [{
            "name": "all", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE", "PMC_PROFILE"], "stacks": ["Process/Start", "PerfInfo/SampleProf"],
            "profile-interval": "1ms", "pmc-samples": [{"source": "CacheMisses", "interval": 1000}],
            "pmc-counters": ["TotalIssues", "CacheMisses"], "pmc-events": ["Thread/CSwitch"], **SMALL, "clock": "qpc",
            "providers": [{"provider": "Microsoft-Windows-DotNETRuntime", "level": "information", "any": "GCKeyword+ExceptionKeyword+0x10",
                           "event-ids": ["1-3", "80"], "pids": ["4", "3988"], "properties": ["sid", "process-start-key"],
                           "stack-event-ids": ["80"], "capture-state": True},
                          {"provider": "No-Such-Provider"}]}])
        machine.start()
        machine.wait(lambda: "5" in machine.log() and "start session all" in machine.log(), "word of the refusal")
        machine.wait(lambda: machine.sources().get("all", {}).get("events_acknowledged", 0) > 1000, "events after the refusal")
        log, s = machine.log(), machine.sessions()["etwagent-all"]
        for word in ("a session of this name was there; it was stopped; 70000 bytes of its events that no program had read are lost", "this machine has no provider No-Such-Provider",
                     "it is enabled without filters", "CacheMisses is sampled each 4096", "pmc-counters: 2 are asked for, and this machine counts 1 at a time"):
            checks.that(word in log, f"no word of: {word}\n{log}")
        checks.equal((s["masks"][0] & 7, s["masks"][1]), (7, 0x402), "kernel flags")
        checks.equal((s["stacks"], s["sampled"], s["counters"], s["pmc_events"]), (2, [10], [19], 1), "stacks, sampled counters, counters, events with them")
        checks.equal((s["property"], s["any"], s["level"]), (STACK | SID | START_KEY, 0x8011, 4), "the provider's knobs")
        checks.equal((s["ids"], s["captures"], s["providers"]), (0, 1, 1), "filters left out, state asked for, providers")
        checks.equal((s["buffer_kib"], s["min"] >= 8, s["clock"], s["flushes"] > 0), (64, True, 1, True), "buffers, clock and flushes")
        checks.equal(machine.stop(), 0, "exit code")
    checks.that(not list((session.drive / "windows" / "system32").glob("[Ll]og[Ff]iles/WMI/RtBackup/*")), "a playback file that stays")
    clocks = [r["clock"] for r in raw(env, collector, "start") if r["provider"] == RUNTIME and r["id"] == 187]
    ledger = ledger_of(collector, "start")
    checks.equal((ledger["source_counters_refused"], ledger["source_parts_refused"]), (1, 2), "one counter too many, a provider and filters, in the ledger")
    checks.equal((ledger.get("source_starts_refused"), ledger.get("source_stale_sessions"), ledger.get("source_stale_bytes")), (1, 1, 70000),
                 "access denied, a session that was there, and what no program had read of it, in the ledger")
    own = [json.loads(line)["clock"] for line in env.run([env.agent, "dump", "--format", "raw", "--class", "Runtime/Start", *traces.paths(TRACE, env.build)]).stdout.splitlines()]
    states = [clock for clock in clocks if clock not in own]
    checks.that(own and states, f"the provider's state, asked for when the consumer runs: {clocks}, in the trace {own}")


def refused(env, checks, session, windows, collector):
    """Counters that another profiler holds: the configuration asks for two on events and one as a sample. Of four counters all but one are
    held. One more name is no counter of this machine. Also an unknown provider."""
    with emulated.Machine(env, session, windows, "refused") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=4000", "counter=19 1000 2147483647 TotalIssues", "counter=10 4096 1000000 CacheMisses",
                      "owner=VTSS 19", "owner=VTSS 10", "owner=0x7 -")
        machine.configure(collector, [{
            "name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "PROFILE", "PMC_PROFILE"], "pmc-samples": [{"source": "CacheMisses", "interval": 5000}],
            "pmc-counters": ["TotalIssues", "CacheMisses", "LLCReference"], "pmc-events": ["Thread/CSwitch"], **SMALL,
            "providers": [{"provider": "No-Such-Provider"}]}])
        machine.start()
        machine.wait(lambda: machine.sources().get("kernel", {}).get("events_acknowledged", 0) > 1000, "events of a session that lacks its counters")
        reported, s = machine.sources()["kernel"]["session"], machine.sessions()["etwagent-kernel"]
        checks.equal((reported["refused_counters"], reported["refused_parts"]), (3, 1), "what was refused, in the status")
        checks.equal((s["sampled"], s["counters"], s["pmc_events"], s["masks"][1]), ([10], [], 0, 0x402), "the sample that there was room for, and no counters on events")
        for word in ("no performance counter LLCReference", "3 of 4 are held: TotalIssues by 'VTSS', CacheMisses by 'VTSS', one by 0x00000007"):
            checks.that(word in machine.log(), f"no word of: {word}\n{machine.log()}")
        # under Wine a program says its lines with CR; a native agent reads the same file
        said = env.run([env.agent, "status", "--file", machine.status_file], check=False).stdout
        checks.that("refused, and left out: 3 performance counters, 1 providers, filters, flags or stacks" in said, said)
        said = env.run([env.agent, "status", "--file", machine.status_file, "--metrics"], check=False).stdout
        checks.that('etwagent_source_counters_refused_total{source="kernel"} 3\n' in said and
                    'etwagent_source_parts_refused_total{source="kernel"} 1\n' in said, said[-2000:])
        checks.equal(machine.stop(), 0, "exit code")
    ledger = ledger_of(collector, "refused")
    checks.equal((ledger["source_counters_refused"], ledger["source_parts_refused"]), (3, 1), "the ledger")
    said = collector.ask("ledger", "--host", "refused")
    checks.that(re.search(r" 3 +performance counters and sampled sources that a session.s start asked for and could not have\n", said), f"the ledger in words: {said}")
    port = re.search(r"dashboard on http://127.0.0.1:(\d+)/", collector.log()).group(1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        metrics = answer.read().decode().splitlines()
    for name, value in (("etwagent_source_counters_refused_total", "3"), ("etwagent_source_parts_refused_total", "1")):
        found = [line.rsplit(" ", 1)[1] for line in metrics if line.startswith(name + "{") and 'host="refused"' in line]
        checks.equal(found, [value], f"{name} in the collector's metrics")


def no_room(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "full") as machine:
        # its events come twice, and TDH has answered before they come again
        machine.plays(traces.paths(TRACE, env.build), "rate=200", f"hold={BETWEEN}", f"provider={SHELL} Microsoft-Windows-Immersive-Shell")
        machine.control("fill", "6", "system")
        machine.control("fill", "58")
        machine.configure(collector, [{"name": "kernel", "kind": "system", "flags": ["PROC_THREAD"], **SMALL},
                                      {"name": "files", "providers": [{"provider": FILES, "event-ids": ["12", "14"]}, {"provider": "Microsoft-Windows-Immersive-Shell"}], **SMALL}])
        machine.start()
        machine.wait(lambda: all(f"start session {n}" in machine.sources().get(n, {}).get("error", "") for n in ("kernel", "files")), "word of no room")
        checks.that("system loggers: system-1, system-2, system-3, system-4, system-5, system-6" in machine.sources()["kernel"]["error"],
                    f"holders of the system loggers: {machine.sources()['kernel']['error']}")
        machine.control("stop", "fill-1")  # a place, and none for the kernel's
        machine.wait(lambda: machine.sources().get("files", {}).get("events_acknowledged", 0) > 0, "events of the other session")
        checks.equal(len(machine.sessions()), 64, "sessions that Windows has")
        refused = machine.control("start", "one-more", check=False)
        checks.that("1450" in refused.stderr, f"a 65th session: {refused.stderr}")
        checks.equal(machine.sessions()["etwagent-files"]["ids"], 2, "event ids that Windows filters by")
        machine.go("files")
        machine.wait(lambda: machine.sources()["files"]["events_acknowledged"] == 571, "all events of the other session, and its header, at the collector")
        machine.control("stop", "system-3")
        machine.wait(lambda: machine.sources()["kernel"]["events_acknowledged"] > 0, "events once there is room")
        checks.equal(machine.sources()["kernel"]["error"], "", "an error that is over")
        checks.equal(machine.stop(), 0, "exit code")
        ids = {r["id"] for r in raw(env, collector, "full") if r["provider"] == FILES}
        checks.that(ids and ids <= {12, 14}, f"ids that came: {ids}")
        events = env.run([env.collector, "export", "--store", collector.store, "--host", "full", "--format", "jsonl"]).stdout.splitlines()
        names = [e["name"] for e in map(json.loads, events) if e["provider"] == SHELL]
        checks.equal((len(names), names[0]), (8, ""), "events without a known schema at first")
        checks.that("ImmersiveShellAppManagerSetActiveProcess/win:Start" in names[4:], f"names that TDH knew: {names}")
    refusals = [test_ledger.counters(stream).get("source_starts_refused", 0) for stream in test_ledger.ledger(collector, "full")["streams"]]
    checks.that(len(refusals) == 2 and min(refusals) >= 1, f"no room, in the ledger of either session: {refusals}")
    ledger = ledger_of(collector, "full")
    checks.equal((ledger["decode_asked"], ledger.get("decode_unanswered", 0)), (4, 0), "kinds that TDH was asked about, in vain")


def in_mid_run(env, checks, session, windows, collector):
    paths = traces.paths(TRACE, env.build)
    with emulated.Machine(env, session, windows, "stolen") as machine:
        # asking after a session that is gone fails before ProcessTrace comes back: Windows' last numbers stay what they were
        machine.plays(paths, "rate=8000", f"hold={FIRST}", f"hold={QUIET}", "stall=1500 etwagent-kernel")
        machine.configure(collector, [{"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE"], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("kernel", {}).get("events_acknowledged", 0) > 0, "events")
        machine.wait_held("kernel", FIRST)
        before = machine.sessions()["etwagent-kernel"]
        machine.control("lose", "etwagent-kernel", "100", "2", "3")
        machine.wait(lambda: machine.sources()["kernel"]["session"]["lost_events"] == 100, "the loss in the status")
        machine.wait(lambda: machine.sources()["kernel"]["session"]["grown"] == 1, "more buffers")
        checks.equal(machine.sources()["kernel"]["session"]["lost_buffers"], 5, "lost buffers")
        checks.equal(machine.sessions()["etwagent-kernel"]["max"], min(2 * before["max"], 64), "buffers that it may have")
        machine.control("stop", "etwagent-kernel")
        # within a second, measured by a loop of short sleeps: when other programs load the processor, the loop is delayed as much as the agent
        turns = 0

        def is_said():
            nonlocal turns
            turns += 1
            return "ended by another program" in machine.log()
        machine.wait(is_said, "word of it")
        noticed = turns * harness.TURN_S
        print(f"stolen: noticed after {noticed:.2f} s", flush=True)
        checks.that(noticed < 1, f"another program ended the session, which was detected after {noticed} s")
        machine.wait(lambda: machine.sources()["kernel"]["session"]["starts"] == 2, "the session to be started again")
        status = machine.sources()["kernel"]
        checks.equal(status["session"]["ended_by_others"], 1, "times that it was ended by others")
        again = status["events_acknowledged"]
        machine.go("kernel")
        machine.wait(lambda: machine.sources()["kernel"]["events_acknowledged"] > again + 1000, "events of the new session")
        machine.wait_held("kernel", QUIET)
        machine.control("lose", "etwagent-kernel", "7", "0", "0")
        machine.wait(lambda: machine.sources()["kernel"]["session"]["lost_events"] == 107, "a loss after Windows' numbers began anew")
        machine.control("lose", "etwagent-kernel", "9", "0", "0")  # no event follows this loss
        checks.equal(machine.stop(), 0, "exit code")
        checks.that("lost 116 events and 5 buffers; others ended it 1 times" in machine.log(), f"the session's numbers when it is stopped: {machine.log()[-500:]}")
    ledger = ledger_of(collector, "stolen")
    checks.equal((ledger["source_session_ends"], ledger["source_events_lost"], ledger["source_buffers_lost"]), (1, 116, 5), "the ledger")
    stored = raw(env, collector, "stolen")
    checks.equal(len({json.dumps(r) for r in stored}), len(stored), "records that came once")
    rundown = {opcode: sum(r["provider"] == PROCESS and r["opcode"] == opcode for r in stored) for opcode in (3, 4)}
    checks.equal(rundown, {3: 2 * 32, 4: 2 * 32}, "processes recorded at two starts, the first time by the trace itself, and two ends")
    truth = env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines()[:QUIET]
    truth = [line for line in truth if is_logged(json.loads(line))]
    missing = emulated.compared(truth) - emulated.compared(map(json.dumps, stored))
    checks.that(len(truth) > 20000 and not missing, f"{sum(missing.values())} of {len(truth)} records that two sessions had are not stored, such as {list(missing)[:1]}")


def is_logged(r):
    """Of the trace's records, those of PROC_THREAD, LOADER and PROFILE."""
    return r["provider"] in (PROCESS, IMAGE) or r["provider"] == THREAD and r["opcode"] in (1, 2, 3, 4) or r["provider"] == PERF_INFO and r["opcode"] == 46


def was_there(env, checks, session, windows, collector):
    """The machine was up before the sessions start. For a session's own flags, Windows logs the rundown in that session. Names of open files
    Windows logs only in another session, at its end. A session that lacks the flags needs the second session for the whole rundown. The
    rundown of .NET comes from a provider."""
    paths = traces.paths(TRACE, env.build)
    plain = {"kind": "system", "flags": ["PROFILE"], "rundown": ["process", "thread", "image", "file-name"], **SMALL}
    with emulated.Machine(env, session, windows, "was-there") as machine:
        machine.plays(paths, "rate=2000", "from=60000", f"state={CLR_RUNDOWN} 187", f"state={CLR_RUNDOWN} 144")
        machine.configure(collector, [{"name": "bare", **plain}, {"name": "own", **plain, "flags": ["PROC_THREAD", "LOADER", "FILENAME"]},
                                      {"name": "dotnet", "rundown": ["dotnet"], "providers": [{"provider": RUNTIME}], **SMALL, "max-buffers": 512}])
        machine.control("start", "etwagent-own-rundown", "system")  # left by an agent that was killed
        machine.start()
        machine.wait(lambda: all(machine.sources().get(n, {}).get("session", {}).get("rundowns") == 1 for n in ("bare", "own")), "both rundowns")
        machine.wait_shipped(2 * 3054 + 4000)
        checks.equal(set(machine.sessions()), {"etwagent-bare", "etwagent-own", "etwagent-dotnet"}, "sessions when the rundowns are over")
        reported = {name: machine.sources()[name]["session"]["rundown_events"] for name in ("bare", "own")}
        checks.that("a session of this name was there; it was stopped" in machine.log(), "a message about the session that was left")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    dropped = {name: x["session"]["dropped_events"] for name, x in machine.sources().items()}
    checks.that("events were lost" not in machine.log(), f"events without room: {dropped}; {machine.log()}")
    by_kind = {}
    for r in raw(env, collector, "was-there"):
        kind = (r["provider"], r["opcode"] if r["id"] == 0 else r["id"])
        by_kind.setdefault(kind, []).append(r)
    names = [r for r in by_kind.get((FILE_IO, 36), [])]
    # a session that logs files also logs their names at its own end; these are more events than its ring holds, and they wait for space
    loggers = {r["logger"] for r in names} - {r["logger"] for r in by_kind[(PROCESS, 4)]}
    checks.equal(len(names), 3 * 3054, "names of open files, of two second sessions and at the end of one session itself")
    rundown = {name: {logger: sum(r["logger"] == logger for r in by_kind.get((guid, 3), [])) for logger in {r["logger"] for r in by_kind.get((guid, 3), [])}}
               for name, guid in (("process", PROCESS), ("thread", THREAD), ("image", IMAGE))}
    for name, counts in rundown.items():
        checks.that(len(counts) == 2 and len(set(counts.values())) == 1 and len(loggers & set(counts)) == 1,
                    f"{name}: recorded by one session itself and once by a second one: {counts}, second sessions {loggers}")
    kinds = sum(next(iter(counts.values())) for counts in rundown.values())
    # RDComplete follows every rundown at a start
    checks.equal((reported["bare"], reported["own"]), (kinds + 3054 + 1, 3054 + 1), "records of the second sessions")
    checks.equal([r["opcode"] for (guid, _), rows in by_kind.items() if guid in (PROCESS, THREAD) for r in rows if r["logger"] in loggers and r["opcode"] != 3], [],
                 "what the second sessions logged beside the rundown")
    checks.that(by_kind.get((CLR_RUNDOWN, 187)) and len(by_kind[(CLR_RUNDOWN, 144)]) > 1000, "methods that were compiled before")
    ledger = ledger_of(collector, "was-there")
    checks.equal((ledger["source_rundowns"], ledger["source_rundown_records"], ledger.get("source_rundown_failures", 0)), (2, sum(reported.values()), 0), "the ledger")
    # of the session that has no flags for processes, state and names come from the second one alone
    listed = collector.ask_json("ps", "--host", "was-there", "--all")["processes"]
    checks.that(sum(p["pid"] != 0 and bool(p["command_line"]) for p in listed) > 20, f"{len(listed)} processes")


def troubles(env, checks, session, windows, collector):
    """TDH that fails and takes seconds, and a clock that is set, in one run."""
    with emulated.Machine(env, session, windows, "troubles") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=2500", "tdh-delay=4000", "fail=TdhEnumerateProviders 1317 1")
        drift = [f"{9 + i / 2}:{DRIFT_S}" for i in range(DRIFT_STEPS)]  # each too small to be a step
        machine.environment = {"LD_PRELOAD": str(env.build / "tests" / "e2e" / "clock.so"), "EA_CLOCK_JUMPS": ";".join([f"8:{AHEAD_S}", *drift, f"{BACK_AT_S}:{BACK_S}"])}
        machine.configure(collector, [{"name": "named", "providers": [{"provider": "No-Answer"}, {"provider": FILES}], **SMALL},
                                      {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE"], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("kernel", {}).get("session", {}).get("events", 0) > 1000, "events of the session without names")
        checks.that("No-Answer is left out" not in machine.log(), "the session without names waited for TDH")
        machine.wait(lambda: "No-Answer is left out: ask TDH" in machine.log(), "word of TDH's failure")
        machine.wait(lambda: machine.sources()["named"].get("session", {}).get("events", 0) > 0, "events of what needs no name")
        machine.wait(lambda: machine.log().count("the system's clock was set by 3") >= 2, "word of the clock, from each session")
        reported = machine.sources()["kernel"]["events_acknowledged"]
        machine.wait(lambda: machine.sources()["kernel"]["events_acknowledged"] > reported + 1000, "events after the step")
        machine.wait(lambda: "the system's clock was set by -" in machine.log(), "word of the clock that was set back")
        machine.wait(lambda: machine.sessions()["etwagent-kernel"]["over"], "the trace's end")
        machine.wait(lambda: (k := machine.sources()["kernel"])["events_acknowledged"] - k["events_synthesised"] == k["session"]["events"], "events after the drift")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    ledger = ledger_of(collector, "troubles")
    checks.that(ledger.get("source_clock_steps", 0) >= 2, "the ledger's clock steps, of the session that still logs")
    checks.equal(ledger.get("source_parts_refused", 0), 1, "the ledger: a provider whose name TDH does not know")
    checks.equal(ledger.get("events_dropped_full", 0), 0, "the ledger's dropped events")
    follows_clock(env, checks, collector)


def follows_clock(env, checks, collector):
    """By the pairs in the store, when the clock's 0 was: as long ago as it was at first, then what the wall clock went by."""
    frequency = emulated.frequency_of(env, traces.paths(TRACE, env.build))
    lines = collector.ask("export", "--host", "troubles", "--format", "jsonl", "--raw", "--no-names", "--class", "PerfInfo/SampleProf").splitlines()
    zeros = [emulated.utc(r["time"]) - r["clock"] / frequency for r in map(json.loads, lines)]
    moves = [round(after - before, 4) for before, after in zip(zeros, zeros[1:]) if abs(after - before) > 0.0005]
    print(f"clock: {len(zeros)} events, moved by {moves}", flush=True)
    checks.that(moves and abs(moves[0] - AHEAD_S) < 0.5, f"the step is followed first: {moves}")
    checks.that(sum(abs(m - BACK_S) < DRIFT_S * DRIFT_STEPS + 0.5 for m in moves) == 1, f"the step back is followed once: {moves}")
    checks.that(abs(sum(moves) - AHEAD_S - BACK_S - DRIFT_S * DRIFT_STEPS) < 0.01, f"the drift is followed: {moves}")
    checks.that(len(moves) <= 8, f"another pair now and then, not with each batch: {moves}")


def reload_in_flood(env, checks, session, windows, collector):
    """Runs the agent as a service, which accepts a command to reload its configuration."""
    kernel = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE"], **SMALL}
    one, two = ({"name": name, "providers": [{"provider": provider}], **SMALL} for name, provider in (("one", FILES), ("two", RUNTIME)))
    with emulated.Machine(env, session, windows, "reloaded") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=5000", f"hold={BETWEEN}")
        machine.configure(collector, [kernel, one])
        try:
            for command in (("install", "--config", wine.windows_path(machine.config)), ("start",)):
                done = session.run([machine.agent, *command])
                checks.equal(done.returncode, 0, f"etwagent {command[0]}: {done.stdout}{done.stderr}")
            machine.wait_held("kernel", BETWEEN)
            machine.configure(collector, [kernel, two])
            machine.go("kernel")
            before = machine.sessions()["etwagent-kernel"]["logged"]
            checks.equal(session.run([machine.agent, "reload"]).returncode, 0, "etwagent reload")
            machine.wait(lambda: machine.status().get("reloads") == 1 and "two" in machine.sources(), "the new configuration")
            after = machine.sessions()
            checks.equal(set(after), {"etwagent-kernel", "etwagent-two"}, "sessions after it")
            kernel_then = after["etwagent-kernel"]
            checks.that(kernel_then["logged"] > before + 100 and not kernel_then["over"], f"logged meanwhile: {before} to {kernel_then}")
            print(f"reload: {kernel_then['logged'] - before} events were logged meanwhile", flush=True)
            machine.go("two")
            machine.wait(lambda: all(s["over"] for s in machine.sessions().values()), "the trace's end")
            logged = machine.sessions()["etwagent-kernel"]["logged"]
            machine.wait(lambda: (k := machine.sources()["kernel"])["events_acknowledged"] - k["events_synthesised"] + k["session"]["dropped_events"] == logged + 1,
                         "every event, and the header, acknowledged or counted as dropped")
            s = machine.sources()["kernel"]["session"]
            checks.equal((s["starts"], s["dropped_events"], s["lost_events"]), (1, 0, 0), "starts, dropped and lost events of the session that goes on")
        finally:
            for command in ("stop", "uninstall"):
                session.run([machine.agent, command])
    ledger = ledger_of(collector, "reloaded")
    checks.equal(ledger.get("events_dropped_full", 0), 0, "the ledger's dropped events")


def flood(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "flood") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        # no flag with a rundown at the start: such events would wait for space
        machine.configure(collector, [{"name": "kernel", "kind": "system", "flags": ["PROFILE", "CSWITCH", "DISK_IO", "FILENAME"], **SMALL}],
                          batching="level: 19")
        machine.start()
        machine.wait(machine.settled, "every event of the flood acknowledged or counted as dropped")
        s = machine.sources()["kernel"]
        checks.that(s["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    dropped = s["session"]["dropped_events"]
    ledger = ledger_of(collector, "flood")
    checks.that("more events were lost" in machine.log(), "a loss is not said")
    stored = raw(env, collector, "flood")
    checks.equal(len(stored), s["session"]["events"] - dropped, "events stored and events dropped are all")
    truth = emulated.compared(env.run([env.agent, "dump", "--format", "raw", *traces.paths(TRACE, env.build)]).stdout.splitlines())
    extra = emulated.compared(map(json.dumps, stored)) - truth
    checks.equal(list(extra)[:1], [], f"{sum(extra.values())} records that were never logged")
    for stream in test_ledger.ledger(collector, "flood")["streams"]:
        checks.equal((stream["unbalanced_families"], stream["alerts"]), ([], []), "alerts of the collector")
    checks.that(0 < ledger.get("events_dropped_full", 0) <= dropped, f"the ledger says {ledger.get('events_dropped_full')} of {dropped}")
    print(f"flood: {s['session']['events']} events, {dropped} dropped and counted", flush=True)


def full_disk(env, checks, session, windows, collector):
    """The spool's disk becomes full while a session runs, and has room again."""
    if not disk.may_mount(env.folder):
        return
    with emulated.Machine(env, session, windows, "full-disk") as machine:
        machine.spool.mkdir()
        with disk.Small(machine.spool, 4) as small:
            machine.plays(traces.paths(TRACE, env.build), "rate=8000", f"hold={FIRST}", f"hold={FULL}")
            machine.configure(collector, [{"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE"], **SMALL}])
            machine.start()
            machine.wait(lambda: machine.sources().get("kernel", {}).get("events_acknowledged", 0) > 1000, "events before the disk is full")
            hog = small.fill()
            machine.go("kernel")
            machine.wait(lambda: machine.sources()["kernel"]["events_evicted_size"] > 5000, "events that found no room")
            s = machine.sources()["kernel"]
            checks.equal((s["state"], s["session"]["starts"], machine.sessions()["etwagent-kernel"]["over"]), ("reading", 1, 0), "the session on a full disk")
            hog.unlink()
            reported = machine.sources()["kernel"]["events_acknowledged"]
            machine.go("kernel")
            machine.wait(lambda: machine.sources()["kernel"]["events_acknowledged"] > reported + 10000, "events when there is room again")
            machine.wait(machine.settled, "the trace's end, and every event acknowledged or counted as lost")
            s = machine.sources()["kernel"]
            checks.that(s["ledger_balanced"] and machine.status()["ledger_balanced"], "the ledger balances")
            checks.equal(machine.stop(), 0, "exit code")
    ledger = ledger_of(collector, "full-disk")
    checks.equal(len(raw(env, collector, "full-disk")), s["events_acknowledged"] - s["events_synthesised"], "events stored")
    checks.equal((ledger["events_evicted_size"], ledger["events_delivered"]), (s["events_evicted_size"], s["events_delivered"]), "the collector's ledger: events that found no room, and all")
    for stream in test_ledger.ledger(collector, "full-disk")["streams"]:
        alerts = [a for a in stream["alerts"] if a["kind"] != "keyframe"]  # what was lost is asked for and mended
        checks.equal((stream["unbalanced_families"], alerts, stream["missing_batches"]), ([], [], 0), "alerts of the collector, and batches missing")
        named = sum(b["events"] for b in stream["gaps"] if b["cause"] == "events_evicted_size")
        checks.equal(named, s["events_evicted_size"], "events that tombstones of the same run name")
    print(f"full disk: {s['session']['events']} events, {s['events_evicted_size']} found no room and are counted", flush=True)


def pressed(env, checks, session, windows, collector):
    """The collector does not answer, and a trace file is replayed first. The file waits with half of the spool. Then events of the bulk
    session are dropped: each is counted and attributed. When the collector answers again, it gets the rest and the whole file."""
    paths, spool_bytes = traces.paths(TRACE, env.build), 2 << 20
    with emulated.Machine(env, session, windows, "pressed") as machine, proxy.Proxy(collector.port) as between:
        between.plan = lambda _: proxy.Plan(refuse=True)
        machine.plays(paths, "rate=40000", "hold=1")
        machine.configure(between, [{"name": "security", "kind": "system", "priority": "security", "flags": ["PROC_THREAD", "LOADER"], **SMALL},
                                    {"name": "bulk", "kind": "system", "priority": "bulk", "flags": ["PROFILE", "DISK_IO", "FILENAME", "CSWITCH"], **SMALL}],
                          "batch-events: 500", [{"name": "file", "files": [wine.windows_path(p) for p in paths]}], spool_bytes=spool_bytes)
        machine.start()
        machine.wait(lambda: machine.status().get("spool", {}).get("disk_bytes", 0) > spool_bytes * 7 // 16, "half a spool of the file")
        machine.wait(lambda: len(machine.sessions()) == 2, "both sessions")
        for name in ("security", "bulk"):
            machine.go(name)
        machine.wait(machine.delivered, "the trace's end, and all of it in the spool")
        before = machine.sources()
        held = sum(p.stat().st_size for p in machine.spool.glob("*.seg"))
        checks.that(held < spool_bytes + spool_bytes // 4, f"the spool has {held} bytes")
        checks.equal((before["file"]["state"], before["file"]["events_acknowledged"]), ("reading", 0), "the file's source, and what went of it")
        checks.that(0 < before["file"]["events_delivered"] < traces.event_count(TRACE), f"the file waits: {before['file']['events_delivered']} events")
        checks.that(before["bulk"]["events_evicted_size"] > 5000, f"the bulk session loses events: {before['bulk']}")
        between.plan = lambda _: proxy.Plan()

        machine.wait(lambda: machine.settled() and machine.sources()["file"]["state"] == "shipped", "every event acknowledged or counted")
        s = machine.sources()
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.stop(), 0, "exit code")
    lost = {name: x["events_evicted_size"] + x["events_evicted_age"] + x.get("session", {}).get("dropped_events", 0) for name, x in s.items()}
    checks.equal((lost["security"], lost["file"]), (0, 0), "events of the security session and of the file that are lost")
    checks.equal((s["security"]["events_acknowledged"] - s["security"]["events_synthesised"], s["file"]["events_acknowledged"]), (s["security"]["session"]["events"], traces.event_count(TRACE)),
                 "and those that arrived")
    streams = {x["stream"]: x for x in test_ledger.ledger(collector, "pressed")["streams"]}
    for name, x in s.items():
        reported = streams[x["stream"]]
        named = sum(b["events"] for b in reported["gaps"] if b["cause"] == "events_evicted_size")
        checks.equal((reported["stored_events"], reported["missing_batches"], named), (x["events_acknowledged"], 0, x["events_evicted_size"]),
                     f"{name}: stored, batches missing, named by tombstones")
        checks.equal((reported["unbalanced_families"], reported["alerts"]), ([], []), f"{name}: alerts of the collector")
    print(f"pressed: {s['bulk']['events_evicted_size']} of {s['bulk']['session']['events']} events of the bulk session were evicted, none of "
          f"{s['security']['session']['events']} of the security session, none of {s['file']['events_delivered']} of the file", flush=True)


def asked(env, checks, session, windows, collector):
    """A collector that asks for a keyframe gets one of the session; one that knows the stream from elsewhere (a machine that was reverted)
    gets all that it does not have under a new name."""
    foreign, names, kinds = test_ledger.captured(env, "clr-gc-events", "foreign", ["--batch-events", "10"]), [], set()
    kernel = [{"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER"], **SMALL}]

    def asking(exchange):
        exchange.read_body()
        kinds.update(h.kind for h in exchange.heads())
        exchange.acknowledge(exchange.heads(), keyframe=True)

    def listen(exchange):
        exchange.read_body()
        names.append(exchange.heads()[0].stream)
        exchange.wait(3600)
    with emulated.Machine(env, session, windows, "asked") as machine, receiver.Receiver(env.certs, asking) as fake:
        machine.plays(traces.paths(TRACE, env.build), "rate=20000")
        machine.configure(fake, kernel)
        machine.start()
        machine.wait(lambda: KEYFRAME in kinds, "a keyframe")
        checks.equal(machine.stop(), 0, "exit code")
    with emulated.Machine(env, session, windows, "reverted") as machine, receiver.Receiver(env.certs, listen) as fake, proxy.Proxy(fake.port) as between:
        machine.plays(traces.paths(TRACE, env.build), "rate=20000")
        machine.configure(between, kernel, "batch-events: 500")
        machine.start()
        machine.wait(lambda: names, "batches")
        test_ledger.upload(env, collector, "reverted", [test_live.renamed(batch, names[0], n + 1) for n, batch in enumerate(foreign)])
        between.target = collector.port
        fake.stop()
        between.reset_all()
        machine.wait(lambda: "session kernel: another machine has used this stream's numbers; the stream continues under a new name" in machine.log(), "word of it")
        machine.wait(machine.settled, "the trace's end, and all of the session")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        s = machine.sources()["kernel"]
        checks.equal(machine.stop(), 0, "exit code")
    streams = {x["stream"]: x for x in test_ledger.ledger(collector, "reverted")["streams"]}
    checks.equal(set(streams), {names[0].hex(), s["stream"]}, "streams")
    new = streams[s["stream"]]
    ledger = test_ledger.counters(new)
    checks.equal((new["missing_batches"], new["unbalanced_families"], [a for a in new["alerts"] if a["kind"] != "keyframe"]), (0, [], []), "the new stream")
    checks.equal((ledger["streams_renewed"], ledger["keyframes_written"] > 0, ledger["events_delivered"]), (1, True, s["session"]["events"]), "its ledger")
    checks.equal(new["stored_events"], s["session"]["events"] + ledger["events_synthesised"], "events stored under the new name, and keyframes")
def described_by(env, paths, provider):
    """The trace's own TRACE_EVENT_INFO and EVENT_MAP_INFO records of a provider, which are the emulator's answers:
    {(id, version): {field: map}}, {map: {value: name}}."""
    infos, maps = {}, {}
    for line in env.run([env.agent, "dump", "--format", "raw", "--no-names", "--class", "MetaData/*", *paths]).stdout.splitlines():
        record = json.loads(line)
        payload = bytes.fromhex(record["payload"])
        if payload[:16] != uuid.UUID(provider).bytes_le:
            continue
        if record["opcode"] == 33:
            name, _, values = test_trace_schemas.map_of(payload[16:])
            maps[name] = values
        else:
            (_, *event), fields = test_trace_schemas.maps_of_fields(payload)
            infos[tuple(event)] = fields
    return infos, maps


def providers(env, checks, session, windows, collector):
    """etwagent providers: what TDH says, kept in files."""
    del collector
    with emulated.Machine(env, session, windows, "providers") as machine:
        script = [f"provider={FILES} Microsoft-Windows-Kernel-File", f"keyword={FILES} 0x80 KERNEL_FILE_KEYWORD_CREATE",
                  f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime"]
        cache = machine.folder / "cache"

        def said(*words):
            done = session.run([machine.agent, "providers", "--json", "--cache", wine.windows_path(cache), *words],
                               environment=machine.environment)
            return [p for p in json.loads(done.stdout) if p["layer"] == "windows"], done.stderr
        machine.plays(traces.paths(TRACE, env.build), *script)
        first, _ = said()
        checks.equal(sorted(p["name"] for p in first), ["Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-Kernel-File"], "providers")
        one, _ = said("microsoft-windows-kernel-file")
        create = [e for e in one[0]["events"] if e["id"] == 12]
        checks.that(create and any(f["name"] == "FileName" for f in create[0]["fields"]), f"event 12: {create}")
        checks.that("KERNEL_FILE_KEYWORD_CREATE" in one[0]["keywords"].values(), f"keywords: {one[0]['keywords']}")
        runtime = said(RUNTIME)[0][0]["events"]
        infos, maps = described_by(env, traces.paths(TRACE, env.build), RUNTIME)
        checks.equal(collections.Counter((e["id"], e["version"]) for e in runtime), collections.Counter(infos.keys()), "events, each once")
        values = {(e["id"], e["version"], f["name"]): {int(v, 0): n for v, n in (f.get("values") or f["flags"]).items()} for e in runtime
                  for f in e["fields"] if f.get("values") or f.get("flags")}
        right = {(*event, field): maps[called] for event, fields in infos.items() for field, called in fields.items()}
        checks.that(len(right) > 20 and values == right, f"names of values, {len(right)}: {[(k, values.get(k), right.get(k)) for k in {*values, *right} if values.get(k) != right.get(k)][:3]}")
        machine.plays(traces.paths(TRACE, env.build), *script, "fail=TdhEnumerateProviders 5 9", "fail=TdhEnumerateManifestProviderEvents 5 9")
        checks.equal(said("microsoft-windows-kernel-file")[0], one, "what TDH said is kept")
        again, trouble = said("--max-age", "0s")
        checks.equal(again, first, "a TDH that fails costs nothing that was known")
        checks.that("earlier answers of TDH are in" in trouble, f"word of it: {trouble}")


def record(env, checks, session, windows, collector):
    """etwagent record: Windows writes the files. At its end the command reports the lost events and that another program ended a session."""
    del collector
    with emulated.Machine(env, session, windows, "record") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        machine.config.write_text(f"sessions: {json.dumps([{'name': 'one', 'kind': 'system', 'flags': ['PROC_THREAD'], 'keep-files': 2, **SMALL}, {'name': 'two', 'providers': [{'provider': FILES}], **SMALL}])}\n")
        file = machine.folder / "out.etl"
        for name, text in (("out-one.etl", "earlier"), ("out-one.1.etl", "older"), ("out-one.2.etl", "oldest")):
            (machine.folder / name).write_text(text)
        command = [machine.agent, "record", "--config", wine.windows_path(machine.config), "--json", wine.windows_path(file)]
        machine.process = running = subprocess.Popen(session.command(command), env={**session.environment, **machine.environment}, stdin=subprocess.DEVNULL,
                                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        machine.wait(lambda: len(s := machine.sessions()) == 2 and s["etwagent-one"]["file_events"] > 1000, "both sessions, and events of the first")
        modes = {name: s["mode"] for name, s in machine.sessions().items()}
        checks.that(all(mode & 1 and not mode & 0x100 for mode in modes.values()), f"sequential files, nothing in real time: {modes}")
        machine.control("lose", "etwagent-one", "100", "2", "0")
        machine.control("stop", "etwagent-two")
        machine.wait(lambda: len(machine.sessions()) == 2, "the session that another program ended, again")
        checks.equal(machine.stop(), 0, "exit code")
        said, _ = running.communicate()
        reported = {s["session"]: (s["lost_events"], s["lost_buffers"], s["ended_by_others"], s["file"][-12:]) for s in json.loads(said)}
        checks.equal(reported, {"one": (100, 2, 0, "\\out-one.etl"), "two": (0, 0, 1, "\\out-two.etl")}, "the message at the end")
        checks.equal(machine.sessions(), {}, "sessions that are left over")
        kept = {p.name: p.read_bytes() for p in machine.folder.glob("out-one.*.etl")}
        checks.equal(kept, {"out-one.1.etl": b"earlier", "out-one.2.etl": b"older"}, "files of earlier starts")

        def begins(path):
            lines = map(json.loads, env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines())
            return [(r["opcode"], r["clock"], r["payload"]) for r in lines if r["provider"] in (PROCESS, THREAD) and r["opcode"] in (1, 2, 3)]
        reported, truth = begins(machine.folder / "out-one.etl"), begins(*traces.paths(TRACE, env.build))
        checks.that(len(reported) > 600 and reported == truth[:len(reported)], f"{len(reported)} records read back from the file, of {len(truth)} of the trace")
        done = session.run([*command, "--duration", "1s"])
        reported = {s["session"]: s["ended_by_others"] for s in json.loads(done.stdout)}
        checks.equal((done.returncode, reported, machine.sessions()), (0, {"one": 0, "two": 0}, {}), "a recording that ends by itself")


def test(env, checks, session, windows, arguments):
    env.make_certificates(["start", "full", "stolen", "was-there", "troubles", "reloaded", "flood", "full-disk", "pressed", "asked", "reverted", "foreign", "providers", "record", "refused"])
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    every = at_start, refused, no_room, in_mid_run, was_there, troubles, reload_in_flood, flood, full_disk, pressed, asked, providers, record
    for part in emulated.parts(checks, arguments, every, real=(at_start, no_room, in_mid_run, was_there, troubles, reload_in_flood, pressed, providers, record)):
        part(env, checks, session, windows, collector)
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
