#!/usr/bin/env python3
""""etwagent watch -e PROGRAM" without a trace, under Wine with the emulator of ETW: what a program gives on a live session is what it gives over
the trace that the emulator plays, although the session logs only what the program needs. The session's flags, stacks and providers are those that
standard error names. Ctrl-C prints and ends; so do exit() and the end of -c COMMAND. No session remains.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 5: A program gives the same on a live session as over a trace of the same machine. | nine programs (processes, stacks, ticks,
#   a provider) on the emulator equal the same over the file, line for line | 2026-11-27
# - Query language 10: A live session has what the program's probes need, and nothing else. | kernel masks, stacks and providers as the emulator has
#   them | 2026-11-27
import json
import os
import shutil
import signal
import subprocess
import time

import emulated
import harness
import test_tracegen
import traces
import wine

from test_trace import PROGRAM, RUNTIME, family

TRACE = "clr-kernel-win8-x64"
CSWITCH, PROFILE = 0x4, 0x2  # of the second word of masks

# of a generated trace: (name, program, options, kernel masks of the first two words, classes with stacks)
PROGRAMS = (
    ("switches", "sched:::on-cpu { @[execname] = count(); }", (), (3, CSWITCH), 0),
    ("waits", "Thread/CSwitch { @[OldThreadWaitReason_name] = count(); }", (), (0, CSWITCH), 0),
    ("off-cpu", "sched:::off-cpu { self.t = timestamp; } sched:::on-cpu /self.t/ { @[execname] = quantize(timestamp - self.t); }", (), (3, CSWITCH), 0),
    ("samples", "PerfInfo/SampleProf { @[execname, stack(3)] = count(); } Thread/CSwitch { @n = count(); }", (), (3, CSWITCH | PROFILE), 1),
    ("of-one", "Thread/CSwitch { @[NewThreadId] = count(); }", ("--exe", "*e*"), (3, CSWITCH), 0),
    ("disk", '"DiskIo/*" { @[probe] = sum(TransferSize); }', (), (0x700, 0x10), 0),
    ("images", "Image/Load { @[execname] = count(); @b[FileName] = count(); }", (), (7, 0), 0),
)


class Watch:
    """One "etwagent watch" on a live session."""

    def __init__(self, machine, session, program, *options):
        self.machine, self.session = machine, session
        self.out, self.said = machine.folder / "watch.out", machine.folder / "watch.err"
        with open(self.out, "wb") as out, open(self.said, "wb") as said:
            self.process = subprocess.Popen(session.command([machine.agent, "watch", "--json", *options, "-e", program]),
                                            env={**session.environment, **machine.environment}, stdin=subprocess.DEVNULL, stdout=out, stderr=said)

    def wait_played(self):
        def over():
            if self.process.poll() is not None:
                raise harness.Failure(f"watch ended with {self.process.returncode}: {self.said.read_text(errors='replace')}")
            there = self.machine.sessions()
            return there and all(s["over"] for s in there.values())
        harness.wait_until(over, "the trace's end", 240, lambda: f" {self.machine.sessions()} {self.said.read_text(errors='replace')}")
        return self.machine.sessions()

    def interrupt(self):
        for pid in self.session.processes("etwagent.exe"):
            os.kill(pid, signal.SIGINT)

    def end(self):
        code = self.process.wait(timeout=240)
        return code, self.out.read_text(errors="replace").splitlines(), self.said.read_text(errors="replace")


def over_file(env, program, paths, *options):
    return env.run([env.agent, "watch", "--json", *options, "-e", program, *map(str, paths)]).stdout.splitlines()


def untimed(lines):
    """Lines without their time: a session's clock has its own relation to UTC."""
    rows = [json.loads(line) for line in lines]
    return sorted(json.dumps({k: v for k, v in row.items() if k != "time"}) for row in rows)


def compared(env, checks, session, windows, paths, name, program, options, masks, stacks, providers=0):
    with emulated.Machine(env, session, windows, "same") as machine:
        machine.plays(paths)
        run = Watch(machine, session, program, *options)
        there = run.wait_played()
        checks.equal(sorted(there), ["etwagent-watch"], f"{name}: sessions")
        s = there["etwagent-watch"]
        checks.equal((tuple(s["masks"][:2]), s["stacks"], s["providers"]), (masks, stacks, providers), f"{name}: what the session logs")
        run.interrupt()
        code, mine, said = run.end()
        mine, wanted = untimed(mine), untimed(over_file(env, program, paths, *options))
        checks.that(code == 0 and len(wanted) > 1, f"{name}: exit code {code}, {len(wanted)} lines: {said}")
        checks.that(mine == wanted, f"{name}: {len(mine)} lines, {len(wanted)} over the file: {sorted(set(mine) ^ set(wanted))[:4]} {said}")
        checks.that("etwagent: session etwagent-watch; " in said, f"{name}: what it enables: {said}")
        checks.equal(machine.sessions(), {}, f"{name}: what is left over")


def same(env, checks, session, windows, arguments):
    scenario = env.folder / "office.yaml"
    scenario.write_text("base: office\nstacks: {keys: no}\n")  # a live session defines no keys
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", scenario, "--duration-ms", "2000")
    for name, program, options, masks, stacks in PROGRAMS:
        compared(env, checks, session, windows, [trace], name, program, options, masks, stacks)
    compared(env, checks, session, windows, traces.paths(TRACE, env.build), "collector", f'"{RUNTIME}:*" {{ @[probe] = count(); }}', (), (0, 0), 0, 1)


def ticks(env, checks, session, windows, arguments):
    """The counts of all ticks together are those of the whole."""
    trace, _ = test_tracegen.generate(env.build, env.folder, "ticks", "--preset", "office", "--duration-ms", "2000")
    program = "tick:100ms { print(@); clear(@); } Thread/CSwitch { @[cpu] = count(); }"
    with emulated.Machine(env, session, windows, "ticks") as machine:
        machine.plays([trace])
        run = Watch(machine, session, program)
        run.wait_played()
        run.interrupt()
        code, mine, said = run.end()
        totals = lambda lines: {cpu: sum(r["count"] for r in map(json.loads, lines) if r["keys"] == [cpu]) for cpu in range(64)}  # noqa: E731
        wanted = over_file(env, program, [trace])
        times = lambda lines: len({json.loads(line)["time"] for line in lines})  # noqa: E731
        checks.that(code == 0 and totals(mine) == totals(wanted) and sum(totals(wanted).values()) > 1000, f"totals: {totals(mine)}, {totals(wanted)} {said}")
        checks.that(times(wanted) > 10 and abs(times(mine) - times(wanted)) <= 1, f"ticks: {times(mine)}, {times(wanted)} over the file")


def exits(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "exits") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        program = "PerfInfo/SampleProf { @[cpu] = count(); n = n + 1; } PerfInfo/SampleProf /n == 1000/ { exit(); }"
        code, mine, said = Watch(machine, session, program).end()
        checks.equal((code, untimed(mine)), (0, untimed(over_file(env, program, traces.paths(TRACE, env.build)))), f"exit() after 1,000 events: {said}")
        checks.equal(machine.sessions(), {}, "what is left over")


def silent(env, checks, session, windows, arguments):
    """Ticks, and exit() in them and in begin, on a session in which no event comes, not even a header."""
    with emulated.Machine(env, session, windows, "silent") as machine:
        machine.plays(traces.paths(TRACE, env.build), "header=none")
        absent = '"Microsoft-Windows-DNS-Client:3018" { @ = count(); }'
        code, mine, said = Watch(machine, session, f'tick:1s {{ printf("%d ms", elapsed / 1000000); }} tick:3s {{ exit(); }} {absent}').end()
        checks.equal((code, [json.loads(line)["printf"] for line in mine][:2]), (0, ["1000 ms", "2000 ms"]), f"ticks without an event: {said}")
        begun = time.monotonic()
        code, mine, said = Watch(machine, session, f"begin {{ exit(); }} {absent}").end()
        checks.equal((code, mine), (0, []), f"exit() in begin, after {time.monotonic() - begun:.0f} s: {said}")
        checks.equal(machine.sessions(), {}, "what is left over")


def closed(env, checks, session, windows, arguments):
    """Nothing reads what it prints any more: it ends, although it prints little, and leaves no session."""
    with emulated.Machine(env, session, windows, "closed") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        with open(machine.folder / "closed.err", "wb") as said:
            run = subprocess.Popen(session.command([machine.agent, "watch", "-e", "tick:100ms { printf(\"x\"); } PerfInfo/SampleProf { n++; }"]),
                                   env=session.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        checks.equal(run.stdout.read(1), b"x", "the first tick")
        run.stdout.close()
        try:
            code = run.wait(timeout=60)
        except subprocess.TimeoutExpired:
            code = None
            machine.kill()
            run.wait()
        said = (machine.folder / "closed.err").read_text(errors="replace")
        checks.equal(code, 1, f"exit code: {said}")
        checks.equal(machine.sessions() if code is not None else {}, {}, "what is left over")


def killed(env, checks, session, windows, arguments):
    """A watch that is killed leaves its session to Windows; the next one of that name stops it, and reports that."""
    with emulated.Machine(env, session, windows, "killed") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        program = "PerfInfo/SampleProf { @[cpu] = count(); }"
        run = Watch(machine, session, program)
        before = run.wait_played()["etwagent-watch"]["id"]
        machine.kill()
        run.process.wait()
        checks.equal(sorted(machine.sessions()), ["etwagent-watch"], "the session of the killed one")
        run = Watch(machine, session, program)
        harness.wait_until(lambda: machine.sessions().get("etwagent-watch", {"id": before})["id"] != before, "the next one's session", 120)
        harness.wait_until(lambda: "a session of this name was there; it was stopped" in run.said.read_text(errors="replace"), "the word about it", 60)
        run.interrupt()
        code, _, said = run.end()
        checks.equal((code, machine.sessions()), (0, {}), f"exit code, and what is left over: {said}")


def command(env, checks, session, windows, arguments):
    """The clauses run for the command and its child alone, and the end of both is the end."""
    with emulated.Machine(env, session, windows, "command") as machine:
        paths, (root, child) = traces.paths(TRACE, env.build), family(env)
        machine.plays(paths, f"alias={root} {PROGRAM}")
        program, gate = machine.folder / PROGRAM, machine.folder / "gate"
        shutil.copy(machine.emulctl, program)
        watched = "PerfInfo/SampleProf { @[pid] = count(); }"
        run = Watch(machine, session, watched, "-c", f"{wine.windows_path(program)} linger {wine.windows_path(gate)} 0")
        run.wait_played()
        gate.touch()
        code, mine, said = run.end()
        every = {tuple(r["keys"]): r["count"] for r in map(json.loads, over_file(env, watched, paths))}
        found = {tuple(r["keys"]): r["count"] for r in map(json.loads, mine)}
        wanted = sorted(every[(p,)] for p in (root, child) if (p,) in every)
        checks.that(code == 0 and wanted and sorted(found.values()) == wanted, f"samples of the command and its child: {found}, right are {wanted}; {code} {said}")
        checks.equal(machine.sessions(), {}, "what is left over")


def configured(env, checks, session, windows, arguments):
    """A program in the configuration of a live session: its rows at the collector are those over the file, and the events stay where they are."""
    scenario = env.folder / "configured.yaml"
    scenario.write_text("base: office\nstacks: {keys: no}\n")
    trace, _ = test_tracegen.generate(env.build, env.folder, "configured", "--preset", scenario, "--duration-ms", "2000")
    env.make_certificates(["configured"])
    collector = env.new_collector()
    collector.start()
    programs = {"switches": ("sched:::on-cpu { @[execname] = count(); } tick:100ms { print(@); clear(@); }", "aggregate"),
                "samples": ("PerfInfo/SampleProf { @[execname, stack(3)] = count(); }", "ship")}
    with emulated.Machine(env, session, windows, "configured") as machine:
        machine.plays([trace])
        machine.configure(collector, [{"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "CSWITCH", "PROFILE"], "stacks": ["PerfInfo/SampleProf"],
                                       "watch": [{"name": n, "program": p, "events": e} for n, (p, e) in programs.items()]}])
        machine.start()
        machine.wait(machine.delivered, "the trace's end")
        checks.equal(machine.stop(), 0, "exit code after Ctrl-C")
    ask = lambda sql: json.loads(collector.ask("query", "--format", "json", sql))["rows"]  # noqa: E731
    switches = {r["execname"]: r["n"] for r in ask("SELECT execname, sum(count) AS n FROM watch_switches GROUP BY 1")}
    wanted = {r["keys"][0]: r["count"] for r in map(json.loads, over_file(env, programs["switches"][0].split(" tick")[0], [trace]))}
    checks.that(switches == wanted and len(wanted) > 3, f"switches by process: {switches}, right are {wanted}")
    samples = sorted(r["count"] for r in ask("SELECT count FROM watch_samples"))
    checks.equal(samples, sorted(json.loads(line)["count"] for line in over_file(env, programs["samples"][0], [trace])), "samples by stack")
    numbers = {r["counter"]: r["value"] for r in ask("SELECT counter, value FROM ledger_last WHERE family = ''")}
    stored = {r["name"]: r["n"] for r in ask("SELECT name, count(*) AS n FROM events GROUP BY 1")}
    checks.equal((numbers.get("events_aggregated"), stored.get("Thread/CSwitch", 0)), (sum(wanted.values()), 0), "context switches in the ledger, and stored")
    checks.equal(numbers["events_delivered"], numbers["events_batched"] + numbers["events_aggregated"], "delivered = batched + aggregated")
    checks.that(stored["PerfInfo/SampleProf"] == sum(samples), f"samples travelled, too: {stored}")
    collector.stop()


def refused(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "refused") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        for program, word in (("* { @ = count(); }", "about all events"), ("unmatched { @ = count(); }", "about all events"),
                              ("begin { x = 1; }", "runs on no events"), ("PerfInfo/PmcCounterProf { @ = count(); }", "--pmc-sample"),
                              ("Thread/CSwitc { @ = count(); }", "did you mean")):
            code, _, said = Watch(machine, session, program).end()
            checks.that(code == 2 and word in said, f"{program}: {code} {said}")
        checks.equal(machine.sessions(), {}, "nothing was started")


def test(env, checks, session, windows, arguments):
    for part in emulated.parts(checks, arguments, (same, ticks, exits, silent, closed, killed, command, configured, refused)):
        part(env, checks, session, windows, arguments)


if __name__ == "__main__":
    emulated.main(test, __doc__)
