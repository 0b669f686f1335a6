#!/usr/bin/env python3
"""The settings of a session, option by option, with the shipped .exe and the emulator of ETW under Wine:

- structures: each value of the configuration is in the structure that Windows gets (sizes, counts, modes, masks, stacks, counters,
  properties). The values that Windows applies are in "etwagent sessions" and in the status; a value that differs is logged.
- clocks: events have the times of the trace with any clock, also in a session that existed with another clock.
- unanswered: TDH fails for a provider's name and for events whose schema is otherwise unknown. The ledger counts each failure, and
  everything that needs no name is stored.
- planted: DLLs of the right names in the program's folder, in the working folder and on the path are not loaded. Only System32 is searched.
- headless: the events of a session do not begin with EventTrace/Header, and all are stored.
- listed: 200 sessions are listed, as many as the registry may allow; and 60 where Windows refuses a list of more than 64.
- arguments_utf8: a file whose name the code page of the machine lacks is read, without the code page of the manifest.
- full: Windows has its maximum of 64 sessions. This is logged and counted in the ledger, and the session starts when another one ends.
"""
import json
import shutil

import emulated
import test_faults
import traces
import wine

TRACE = "clr-kernel-win8-x64"
SHELL, SHELL_KINDS = "315a8872-923e-4ea2-9889-33cd4754bf64", 4  # events of which only TDH knows anything
FILES = "edd08927-9cc4-4e65-b970-c2560fb5c289"
REAL_TIME, SEQUENTIAL, CIRCULAR, SYSTEM, INDEPENDENT, SHARED_BUFFERS = 0x100, 1, 2, 0x02000000, 0x08000000, 0x10000000
PROPERTIES = {"sid": 1, "terminal-session": 2, "psm-key": 8, "ignore-keyword-0": 0x10, "process-start-key": 0x80, "event-key": 0x100, "exclude-in-private": 0x200}
SMALL = {"buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64, "flush": "50ms"}
APPLIED = ("mode", "buffer_bytes", "min_buffers", "max_buffers", "flush_seconds", "clock", "file_mib")  # as "etwagent sessions" calls them
KERNEL_FLAGS = ["PROC_THREAD", "LOADER", "PERF_COUNTER", "DISK_IO", "HARD_FAULTS", "PROFILE", "CSWITCH", "DPC", "PMC_PROFILE", "INTERRUPT", "SYSCALL", "OB_HANDLE"]
ADOPTED_CLOCK = 2  # system time
ALL_BITS = (1 << 64) - 1  # of keywords, where none are asked for


def sessions_of(folder):
    """(as configured, what Windows has then)"""
    provider = [{"provider": FILES, "level": 4, "any": "0x10", "all": "0x10"}]
    return {
        "kernel": ({"kind": "system", "flags": ["DiagEasy", "PROFILE", "PMC_PROFILE", "SYSCALL", "OB_HANDLE"], "stacks": ["Process/Start", "Thread/CSwitch", "PerfInfo/SampleProf"],
                    "profile-interval": "2ms", "pmc-samples": [{"source": "CacheMisses", "interval": 5000}], "pmc-counters": ["TotalIssues", "BranchMispredictions"],
                    "pmc-events": ["Thread/CSwitch"], "buffer-size": "128KiB", "min-buffers": 20, "max-buffers": 90, "flush": "1500ms", "per-processor": False,
                    "independent": False},
                   {"mode": REAL_TIME | SYSTEM | SHARED_BUFFERS, "clock": 1, "buffer_kib": 128, "min": 20, "max": 40, "flush": 2, "max_file_mib": 0,
                    "masks": [0x230f, 0x4486, 0x40, 0, 0x40, 0, 0, 0], "stack_ids": ["3d6fa8d0/1", "3d6fa8d1/36", "ce1dbfb4/46"], "sampled": [10],
                    "counters": [19, 11], "pmc_ids": ["3d6fa8d1/36"], "providers": 0}),
        "ring": ({"providers": provider, "output": "file", "file": wine.windows_path(folder / "ring.etl"), "circular": True, "file-size": "2MiB", "flush": "3s"},
                 {"mode": CIRCULAR | INDEPENDENT, "clock": 1, "buffer_kib": 256, "min": 64, "max": 128, "flush": 3, "flushes": 0, "max_file_mib": 2, "masks": [0] * 8,
                  "providers": 1, "level": 4, "any": 0x10, "all": 0x10, "property": 0}),
        "both": ({"providers": [{"provider": FILES, "properties": list(PROPERTIES), "stacks": True}], "output": "both", "clock": "cycle",
                  "file": wine.windows_path(folder / "both.etl"), **SMALL},
                 {"mode": REAL_TIME | SEQUENTIAL | INDEPENDENT, "clock": 3, "buffer_kib": 64, "min": 8, "max": 16, "flush": 1, "flushes": 0, "level": 5, "any": ALL_BITS, "all": 0,
                  "property": sum(PROPERTIES.values()) | 4}),
    }


def structures(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "structures") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=2000", "counter=19 1000 2147483647 TotalIssues", "counter=10 4096 1000000 CacheMisses",
                      "counter=11 4096 1000000 BranchMispredictions")
        cases = sessions_of(machine.folder)
        machine.configure(collector, [{"name": name, **asked} for name, (asked, _) in cases.items()])
        machine.start()
        machine.wait(lambda: len(machine.sources()) == 3 and machine.sessions()["etwagent-kernel"]["flushes"] > 1,
                     "flushes of our own: what is asked for is not whole seconds")
        there = machine.sessions()
        for name, (_, wanted) in cases.items():
            found = there[f"etwagent-{name}"]
            checks.equal({k: found[k] for k in wanted}, wanted, f"{name}: what Windows got")
        checks.that("other values" not in machine.log() and "left out" not in machine.log(), machine.log())
        listed = json.loads(session.run([machine.agent, "sessions", "--json"], environment=machine.environment).stdout)
        reported = {s["session"]["name"]: s["session"] for s in machine.sources().values()}
        for s in listed:
            e = there[s["name"]]
            checks.equal([s[k] for k in APPLIED], [f"0x{e['mode']:08x}", e["buffer_kib"] * 1024, e["min"], e["max"], e["flush"], e["clock"], e["max_file_mib"]],
                         f"{s['name']}: etwagent sessions")
            checks.equal([reported[s["name"]][k] for k in APPLIED], [s[k] for k in APPLIED], f"{s['name']}: the status")
            checks.equal(s["flags"], KERNEL_FLAGS if s["name"] == "etwagent-kernel" else [], f"{s['name']}: the kernel's flags by name")
        checks.equal(sorted(s["name"] for s in listed), sorted(there), "sessions that are listed")
        checks.equal((machine.stop(), machine.sessions()), (0, {}), "exit code, and sessions after it")


def clocks(env, checks, session, windows, collector):
    paths = traces.paths(TRACE, env.build)
    lines = env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines()
    truth = [emulated.utc(r["time"]) for r in map(json.loads, lines) if r["provider"] == FILES]
    asked = {"performance": {"clock": "qpc"}, "system": {"clock": "system"}, "cycles": {"clock": "cycle"}, "adopted": {"clock": "qpc", "stale": "adopt"}}
    with emulated.Machine(env, session, windows, "clocks") as machine:
        machine.plays(paths)
        machine.control("clock", "etwagent-adopted", str(ADOPTED_CLOCK))
        machine.configure(collector, [{"name": name, **knobs, "providers": [{"provider": FILES}], **SMALL} for name, knobs in asked.items()])
        machine.start()
        machine.wait(lambda: len(machine.sessions()) == 4 and machine.settled(), "everything acknowledged")
        there = {name: machine.sessions()[f"etwagent-{name}"] for name in asked}
        checks.equal([s["clock"] for s in there.values()], [1, 2, 3, ADOPTED_CLOCK], "clocks as Windows has them")
        words = f"Windows applies other values than were asked for (in brackets): buffers at the least {there['adopted']['min']} (8), "
        checks.that(words in machine.log() and f"clock {ADOPTED_CLOCK} (1)" in machine.log() and machine.log().count("other values") == 1,
                    f"word of what the adopted session is: {machine.log()}")
        checks.equal(machine.stop(), 0, "exit code")
    stored = test_faults.raw(env, collector, "clocks")
    for name, s in there.items():
        times = [emulated.utc(r["time"]) for r in stored if r["provider"] == FILES and r["logger"] == s["id"]]
        checks.equal(len(times), len(truth), f"{name}: events")
        # who logs by the system's time has the trace's own; the others' zero is this machine's
        zero = (0, 0) if s["clock"] == ADOPTED_CLOCK else (times[0], truth[0])
        worst = max(abs((a - zero[0]) - (b - zero[1])) for a, b in zip(times, truth))
        # the frequency of the cycles is measured, by the agent and by the emulator
        room = 5e-6 + (1e-4 * (truth[-1] - truth[0]) if name == "cycles" else 0)
        checks.that(worst < room, f"{name}: an event's time is {worst:.6f} s beside the trace's")


def unanswered(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "unanswered") as machine:
        machine.plays(traces.paths(TRACE, env.build), f"provider={SHELL} Microsoft-Windows-Immersive-Shell", "fail=TdhEnumerateProviders 1317 99",
                      "fail=TdhGetEventInformation 5 99")
        machine.configure(collector, [{"name": "named", "providers": [{"provider": SHELL}, {"provider": "No-Answer"}], **SMALL}])
        machine.start()
        machine.wait(lambda: len(machine.sessions()) == 1 and machine.settled(), "everything acknowledged")
        checks.that("provider No-Answer is left out: ask TDH" in machine.log(), f"word of it: {machine.log()}")
        checks.equal(machine.stop(), 0, "exit code")
    ledger = test_faults.ledger_of(collector, "unanswered")
    checks.equal([ledger.get(k, 0) for k in ("source_parts_refused", "decode_asked", "decode_unanswered")], [1, SHELL_KINDS, SHELL_KINDS], "the ledger")
    checks.equal(len([r for r in test_faults.raw(env, collector, "unanswered") if r["provider"] == SHELL]), 8, "events that are there without a name")


def planted(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "planted") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        machine.config.write_text(f"sessions: [{{name: one, providers: [{{provider: {FILES}}}]}}]\n")
        dlls = [session.drive / "windows" / "system32" / name for name in (emulated.ETW[1], emulated.TDH[1])]
        command = [machine.agent, "record", "--config", wine.windows_path(machine.config), "--duration", "300ms", wine.windows_path(machine.folder / "out.etl")]
        path = {"WINEPATH": wine.windows_path(machine.folder)}
        checks.equal(session.run(command, cwd=machine.folder, environment=path).returncode, 0, "exit code with the DLLs in System32")
        for dll in dlls:
            shutil.move(dll, machine.folder / dll.name)
        done = session.run(command, cwd=machine.folder, environment=path)
        for dll in dlls:
            shutil.copy(machine.folder / dll.name, dll)
        checks.that(done.returncode == 1 and "this Windows has no function" in done.stderr, f"planted DLLs: {done.returncode} {done.stderr}")


def full(env, checks, session, windows, collector):
    with emulated.Machine(env, session, windows, "full") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        machine.control("fill", "64")
        machine.configure(collector, [{"name": "files", "providers": [{"provider": FILES}], **SMALL}])
        machine.start()
        machine.wait(lambda: "start session files" in machine.sources().get("files", {}).get("error", ""), "word of no room")
        checks.equal(len(machine.sessions()), 64, "sessions that Windows has")
        machine.control("stop", "fill-7")
        machine.wait(lambda: machine.sources()["files"]["events_acknowledged"] == 563, "all events, and the header, once there is room")
        checks.equal((machine.sources()["files"]["error"], machine.stop()), ("", 0), "an error that is over, and the exit code")
    ledger = test_faults.ledger_of(collector, "full")
    checks.that(ledger.get("source_starts_refused", 0) >= 1, f"too many sessions, in the ledger: {ledger.get('source_starts_refused')}")
    checks.that("no room" in machine.log() or "1450" in machine.log(), f"the reason: {machine.log()}")


def headless(env, checks, session, windows, collector):
    paths = traces.paths(TRACE, env.build)
    truth = emulated.compared(line for line in env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines() if json.loads(line)["provider"] == FILES)
    with emulated.Machine(env, session, windows, "headless") as machine:
        machine.plays(paths, "header=none")
        machine.configure(collector, [{"name": "files", "providers": [{"provider": FILES}], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("files", {}).get("events_acknowledged") == sum(truth.values()), "all events, without a header before them")
        checks.equal(machine.stop(), 0, "exit code")
    lines = env.run([env.collector, "export", "--store", collector.store, "--host", "headless", "--format", "raw", "--verify"]).stdout.splitlines()
    stored = emulated.compared(lines)
    checks.that(truth == stored and truth, f"{sum((truth - stored).values())} records are missing, {sum((stored - truth).values())} too many")
    checks.that(not any(json.loads(line)["provider"] == emulated.EVENT_TRACE and json.loads(line)["opcode"] == 0 for line in lines), "there is a header")


def listed(env, checks, session, windows, collector):
    """EtwMaxLoggers of the registry allows up to 256 sessions. A Windows that has room for 64 refuses a list of more."""
    for limit, count in ((256, 200), (64, 60)):
        with emulated.Machine(env, session, windows, f"listed{limit}") as machine:
            machine.plays((), f"sessions={limit}")
            machine.control("fill", str(count))
            all_of = session.run([machine.agent, "sessions", "--all", "--json"], check=False)
            checks.equal((all_of.returncode, all_of.stderr), (0, ""), f"sessions, where there are {limit} at most")
            checks.equal({s["name"] for s in json.loads(all_of.stdout or "[]")}, {f"fill-{i}" for i in range(1, count + 1)}, f"listed, where there are {limit} at most")


def arguments_utf8(env, checks, session, windows, collector):
    """A Windows before 10 1903 ignores the manifest's code page: a name that the machine's own lacks arrives nevertheless."""
    with emulated.Machine(env, session, windows, "arguments") as machine:
        program = machine.agent.read_bytes()
        checks.equal(program.count(b"activeCodePage"), 2, "code pages of the manifest")
        machine.agent.write_bytes(program.replace(b"activeCodePage", b"activeCodePag_"))
        name = "\u03b1\u03b2\u03b3-\u65e5\u672c.yaml"
        (machine.folder / name).write_text("sessions: [{name: one, providers: [{provider: Microsoft-Windows-DNS-Client}]}]\n")
        done = session.run([machine.agent, "check", f"{wine.windows_path(machine.folder)}\\{name}"])
        checks.that(done.returncode == 0 and 'user session "etwagent-one"' in done.stdout, f"a name of Greek letters and others: {done.returncode} {done.stdout}{done.stderr}")


def test(env, checks, session, windows, arguments):
    env.make_certificates(["structures", "clocks", "unanswered", "full", "headless"])
    collector = env.new_collector().start()
    for part in emulated.parts(checks, arguments, (structures, clocks, unanswered, planted, full, headless, listed, arguments_utf8), real=(clocks, unanswered, full, headless)):
        part(env, checks, session, windows, collector)
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
