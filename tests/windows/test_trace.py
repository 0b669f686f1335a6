#!/usr/bin/env python3
""""etwagent trace -c COMMAND" under Wine with the emulator of ETW. The emulator plays a process of a real trace, and its child, under the
command's id. The file has exactly the events that a naive reading of the trace gives for these processes. The command's exit code is
passed on. No session and no temporary file remains: also after Ctrl-C, with a command that does not exist, when the command is killed,
when a session is refused, and when another program ends a session, which continues in another file. What "etwagent emit" and "etwagent mark" write
is between the kernel's events.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Live sessions, on the emulator 13: `etwagent trace` records a command and its children, and nothing else. | equal to a naive reading of
#   the trace, also when the session is stopped in the middle | 2026-11-23
# - Live sessions, on the emulator 14: ... and passes the exit code on, waits for the children, and leaves no session or file. | also after
#   Ctrl-C | 2026-11-23
import csv
import io
import json
import os
import signal
import shutil
import subprocess
import time

import emulated
import harness
import traces
import wine

TRACE = "clr-kernel-win8-x64"
RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"
# another provider whose events the processes log: Kernel-File, or one of the generated trace
FILES = "edd08927-9cc4-4e65-b970-c2560fb5c289" if traces.real_folder() else "3f0c9d11-8e57-5a3c-b142-90771ce8246b"
PROGRAM = "traced.exe"
ROOT, CHILD = ("cmd.exe", "Test.x64.exe") if traces.real_folder() else ("recorded.exe", "helper.exe")  # which ROOT starts
AFTER_S = 1  # by this time a recording would have ended if it did not wait for the command
HALF = 100000  # records of the trace, in the middle of its events
NUMBERS = ("clock", "id", "opcode", "cpu", "pid", "tid")
PIDS, TIDS = ("ProcessId", "ParentId", "StackProcess"), ("TThreadId", "NewThreadId", "OldThreadId", "ThreadId", "StackThread")
COLUMNS = [*NUMBERS, "provider", "provider_name", "name", *PIDS, *TIDS]
NO_ID = 0xffffffff
PAINT = ({"provider": "Contoso-Paint"},
         {"id": 1, "name": "Draw/Start", "level": 3, "keyword": "0x5", "fields": {"Title": "UnicodeString", "Owner": "UInt32", "Ratio": "Double", "Part": "Float", "Key": "GUID", "Less": "Int16", "Ok": "Boolean",
                                                                                "Note": "AnsiString Utf8", "At": "HexInt64"}})
PAINTED = {"At": "0xdeadbeef", "Title": "größe", "Owner": 4711, "Ratio": 0.25, "Part": -1.5, "Key": "01020304-0506-0708-090a-0b0c0d0e0f10", "Less": -7, "Ok": True, "Note": "ñ"}


def truth(events, root, children):
    """Which events belong, from nothing but the events as the program prints them."""
    pids, tids, kept = {root}, set(), []
    for e in events:
        name = e["name"]
        if name == "Process/Start":
            if children and e["ParentId"] in pids:
                pids.add(e["ProcessId"])
            else:
                pids.discard(e["ProcessId"])
        if name in ("Thread/Start", "Thread/DCStart"):
            (tids.add if e["ProcessId"] in pids else tids.discard)(e["TThreadId"])
        about = e["pid"] in pids if e["pid"] != NO_ID else e["tid"] in tids
        if e["provider_name"] == "Windows Kernel Trace":
            about |= e["ProcessId"] in pids or e["StackProcess"] in pids or any(e[k] in tids for k in TIDS)
        if about:
            kept.append(e)
    return kept, pids


def family(env):
    """Process ids of ROOT and of the CHILD that it starts."""
    text = env.run([env.agent, "dump", "--format", "csv", "--no-names", "--class", "Process/*", "--fields", "ProcessId,ParentId,ImageFileName",
                    *traces.paths(TRACE, env.build)]).stdout
    rows = [(int(e["ProcessId"], 0), int(e["ParentId"], 0), e["ImageFileName"]) for e in csv.DictReader(io.StringIO(text)) if e["ParentId"]]
    return next((parent, pid) for pid, parent, name in rows if name == CHILD and any(p == parent and n == ROOT for p, _, n in rows))


def key(e):
    return e["clock"], e["provider"], e["id"], e["opcode"], e["cpu"], e["tid"]


def read(env, paths):
    """What the test needs of each event; ids that an event has not are None."""
    text = env.run([env.agent, "dump", "--format", "csv", "--no-names", "--fields", ",".join(COLUMNS), *map(str, paths)]).stdout
    events = list(csv.DictReader(io.StringIO(text)))
    for e in events:
        for k in (*NUMBERS, *PIDS, *TIDS):
            e[k] = int(e[k], 0) if e[k] else None
    return [e for e in events if e["name"] != "EventTrace/Header"]


class Run:
    """One "etwagent trace"."""

    def __init__(self, machine, session, file, *words, linger=None, code=7, stdin=subprocess.DEVNULL):
        self.machine, self.session, self.file = machine, session, file
        self.gate, self.said = machine.folder / f"{file.name}.gate", machine.folder / f"{file.name}.said"
        program = machine.folder / PROGRAM
        shutil.copy(machine.emulctl, program)
        command = linger or f'{wine.windows_path(program)} linger {wine.windows_path(self.gate)} {code}'
        with open(self.said, "wb") as out:  # a pipe would stay open as long as the command runs
            self.process = subprocess.Popen(session.command([machine.agent, "trace", "-c", command, "-o", wine.windows_path(file), *words]),
                                            env={**session.environment, **machine.environment}, stdin=stdin, stdout=out, stderr=out)

    def wait_played(self, count):
        harness.wait_until(lambda: len(s := self.machine.sessions()) == count and all(x["over"] for x in s.values()), "the trace's end in every session", 240,
                           lambda: f" {self.machine.sessions()} {self.process.poll()}")

    def end(self, open_gate=True):
        if open_gate:
            self.gate.touch()
        return self.process.wait(timeout=240), self.said.read_text(errors="replace")


def left_behind(machine):
    return sorted(machine.sessions()) + sorted(p.name for p in machine.folder.glob("*.tmp"))


def whole(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "whole") as machine:
        paths, (root, child) = traces.paths(TRACE, env.build), family(env)
        machine.plays(paths, f"alias={root} {PROGRAM}", "items=asked")
        file = machine.folder / "command.etl"
        run = Run(machine, session, file, "--flag", "PROFILE", "--provider", RUNTIME, "--provider", FILES)
        run.wait_played(2)
        there = machine.sessions()
        checks.equal(sorted(there), ["etwagent-trace", "etwagent-trace-providers"], "sessions, private by their names")
        checks.equal(there["etwagent-trace-providers"]["pids"], 0, "ids that Windows filters by: none, children are wanted")
        code, said = run.end()
        checks.equal(code, 7, f"the command's exit code; {said}")
        checks.equal(left_behind(machine), [], "what is left over")
        found = read(env, [file])
        pid = next((e["pid"] for e in found if e["name"] == "Process/Start"), None)
        checks.that(pid and "of 2 processes" in said, f"the command's id, and two processes: {pid} {said}")
        wanted, pids = truth(read(env, paths), root, True)
        checks.equal(pids, {root, child}, "processes by the test's own reading")
        by_provider = lambda es, p: sorted(key(e) for e in es if e["provider"] == p)  # noqa: E731
        for provider in (RUNTIME, FILES):
            mine, theirs = by_provider(found, provider), by_provider(wanted, provider)
            checks.that(theirs and mine == theirs, f"{provider}: {len(mine)} events, {len(theirs)} are right")
        same_events(checks, found, wanted, ("Process/", "Thread/Start", "Thread/End", "PerfInfo/SampleProf", "Image/Load",
                                            *["StackWalk/Stack"] * bool(traces.real_folder())))  # generated stacks are by key
        strangers = [e for e in found if e["provider"] in (RUNTIME, FILES) and e["pid"] not in (pid, child)]
        checks.equal(strangers[:2], [], "others' events")


def same_events(checks, found, wanted, families):
    """By class; what sessions themselves log at their start and end is not in the trace."""
    rundown_ends = ("DCEnd", "DCStart", "Rundown", "DCLoad")
    for family in families:
        mine, theirs = (sorted(key(e) for e in es if (e["name"] == family or family[-1] == "/" and e["name"].startswith(family)) and not e["name"].endswith(rundown_ends))
                        for es in (found, wanted))
        checks.that(mine == theirs and (theirs or family == "Image/Load"), f"{family}: {len(mine)} events, {len(theirs)} are right; {sorted(set(mine) ^ set(theirs))[:4]}")


def ended(env, checks, session, windows, arguments):
    """Another program ends the kernel's session in the middle: the session continues in another file, and the recording has both. A file
    that remained of an earlier, killed recording is deleted."""
    with emulated.Machine(env, session, windows, "ended") as machine:
        paths, (root, _) = traces.paths(TRACE, env.build), family(env)
        machine.plays(paths, f"alias={root} {PROGRAM}", "items=asked", f"hold={HALF}")
        file = machine.folder / "ended.etl"
        (machine.folder / "ended.etl.0.tmp").write_bytes(b"left by one that was killed")
        run = Run(machine, session, file, "--flag", "PROFILE")
        harness.wait_until(lambda: (s := machine.sessions().get("etwagent-trace")) and s["played"] == HALF, "the middle of the trace", 240)
        machine.control("stop", "etwagent-trace")
        harness.wait_until(lambda: "the session runs again" in run.said.read_text(errors="replace"), "the session again", 240)
        machine.go("trace")
        run.wait_played(1)
        code, said = run.end()
        checks.that(code == 7 and "others ended its sessions 1 times" in said, f"exit code, and word of it: {code} {said}")
        checks.equal(left_behind(machine), [], "what is left over")
        found, every = read(env, [file]), read(env, paths)
        wanted, _ = truth(every, root, True)
        middle = every[HALF]["clock"]
        samples = [e["clock"] < middle for e in wanted if e["name"] == "PerfInfo/SampleProf"]
        checks.that(samples.count(True) > 20 and samples.count(False) > 20, f"the middle is one: {samples.count(True)} and {samples.count(False)} samples")
        same_events(checks, found, wanted, ("Process/", "Thread/Start", "Thread/End", "PerfInfo/SampleProf", "Image/Load"))


def unreadable(env, checks, session, windows, arguments):
    """A session's file that is no trace: the message says which and why, and what the sessions recorded stays."""
    with emulated.Machine(env, session, windows, "unreadable") as machine:
        machine.plays(traces.paths(TRACE, env.build), f"alias={family(env)[0]} {PROGRAM}", "items=asked", f"hold={HALF}")
        file = machine.folder / "unreadable.etl"
        first, second = (machine.folder / f"unreadable.etl.{n}.tmp" for n in ("0", "0-2"))
        run = Run(machine, session, file)
        harness.wait_until(lambda: (s := machine.sessions().get("etwagent-trace")) and s["played"] == HALF, "the middle of the trace", 240)
        machine.control("stop", "etwagent-trace")
        harness.wait_until(lambda: "the session runs again" in run.said.read_text(errors="replace"), "the session again", 240)
        first.write_bytes(b"no trace")
        machine.go("trace")
        run.wait_played(1)
        code, said = run.end()
        checks.that(code == 1 and "unreadable.etl.0.tmp: expected an .etl trace" in said and "the file has 8" in said, f"exit code, the file and why: {code} {said}")
        checks.that(all(f"{path.name} stays" in said and path.exists() for path in (first, second)) and not file.exists(), f"what the sessions recorded: {left_behind(machine)} {said}")
        checks.that(len(read(env, [second])) > 100, "the other file")
        checks.equal(sorted(machine.sessions()), [], "sessions")


def killed(env, checks, session, windows, arguments):
    """Another program ends the command: "etwagent trace" returns the exit code that this program gave."""
    with emulated.Machine(env, session, windows, "killed") as machine:
        machine.plays(traces.paths(TRACE, env.build), f"alias={family(env)[0]} {PROGRAM}")
        file = machine.folder / "killed.etl"
        run = Run(machine, session, file)
        run.wait_played(1)
        done = session.run([machine.emulctl.with_name("faultctl.exe"), "end", PROGRAM, "99"])
        checks.equal(done.returncode, 0, f"faultctl: {done.stderr}")
        code, said = run.end(False)
        checks.that(code == 99 and "of 2 processes" in said, f"exit code and word: {code} {said}")
        checks.that(file.exists() and len(read(env, [file])) > 100, "the recording")
        checks.equal(left_behind(machine), [], "what is left over")


def waits(env, checks, session, windows, arguments):
    """The command ends at once, and what it started does not: the recording goes on until that has ended, too."""
    with emulated.Machine(env, session, windows, "waits") as machine:
        machine.plays(traces.paths(TRACE, env.build), f"alias={family(env)[0]} {PROGRAM}")
        file, gate = machine.folder / "waits.etl", machine.folder / "waits.etl.gate"
        program = wine.windows_path(machine.folder / PROGRAM)
        run = Run(machine, session, file, linger=f"cmd.exe /c start /b {program} linger {wine.windows_path(gate)} 7")
        run.wait_played(1)
        harness.wait_until(lambda: session.processes(PROGRAM) and not session.processes("cmd.exe"), "the command's end, and its child", 240)
        time.sleep(AFTER_S)
        checks.that(run.process.poll() is None and machine.sessions(), "the recording ended with the command, and what that started runs on")
        code, said = run.end()
        checks.that(code == 0 and "events, of" in said, f"the command's exit code: {code} {said}")
        checks.equal(left_behind(machine), [], "what is left over")


def alone(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "alone") as machine:
        paths, (root, _) = traces.paths(TRACE, env.build), family(env)
        machine.plays(paths, f"alias={root} {PROGRAM}", f"driver={FILES}")
        machine.config.write_text(f"sessions: [{{name: mine, providers: [{{provider: {FILES}}}], min-buffers: 8, max-buffers: 64}}]\n")
        file = machine.folder / "alone.etl"
        run = Run(machine, session, file, "--alone", "--name", "other", "--config", wine.windows_path(machine.config), code=0xc0000005)
        run.wait_played(2)
        there = machine.sessions()
        checks.equal(there["etwagent-other-mine"]["pids"], 0, "ids that Windows filters by: none, since a driver's events would not come")
        code, said = run.end()
        checks.that(code == 0xc0000005 & 0xff and "of 1 processes" in said, f"the exit code of a crash, as much as this machine's processes have: {code} {said}")
        mine = [e["id"] for e in read(env, [file]) if e["provider"] == FILES]
        wanted = [e["id"] for e in truth(read(env, paths), root, False)[0] if e["provider"] == FILES and e["pid"] == root]
        checks.equal(mine, [12] * 16 if traces.real_folder() else wanted, "events of the command alone")  # the real ones counted by hand
        checks.that(wanted, "the command has events")
        checks.equal(left_behind(machine), [], "what is left over")


def emits(env, checks, session, windows, arguments):
    """The command is "etwagent emit", which writes an event for each line of its standard input: its events, and marks of anybody, are between the
    kernel's at the moments at which they were written; the same provider's events of another program are not there."""
    with emulated.Machine(env, session, windows, "emits") as machine:
        paths, (root, _) = traces.paths(TRACE, env.build), family(env)
        emitter, described, manifest = machine.folder / "emitter.exe", machine.folder / "paint.jsonl", machine.folder / "paint.man"
        described.write_text("".join(json.dumps(line) + "\n" for line in PAINT))
        env.run([env.agent, "schema", "compile", "--man", "-o", manifest, described])
        shutil.copy(machine.agent, emitter)
        machine.plays(paths, f"alias={root} emitter.exe", f"hold={HALF}")
        quiet = session.run([machine.agent, "mark", "no session listens", "--json"])
        checks.equal((quiet.returncode, json.loads(quiet.stdout)), (0, {"written": 1, "unheard": 1}), f"a mark without a session: {quiet.stderr}")
        values = [word for value in ("10.0.0.1", "2026-11-28", "1.2.3", "3-5", "1e", "-", "1.", "-1.5e+3", "0", "007", "true") for word in ("--field", f"a{value}={value}")]
        done = session.run([machine.agent, "emit", "--provider", "Contoso-Build", "--name", "Step", *values])
        checks.that(done.returncode == 0 and "1 events written" in done.stdout, f"other values than numbers are texts: {done.returncode} {done.stderr}")
        file, heard = machine.folder / "emits.etl", {"written": 1, "unheard": 0}
        run = Run(machine, session, file, "--provider", "*Contoso-Build", "--provider", "*Contoso-Paint", linger=f"{wine.windows_path(emitter)} emit --events - --manifest {wine.windows_path(manifest)} --json", stdin=subprocess.PIPE)
        harness.wait_until(lambda: (s := machine.sessions()) and len(s) == 2 and all(x["played"] == HALF for x in s.values()), "the middle of the trace", 240,
                           lambda: f" {machine.sessions()} {run.said.read_text(errors='replace')}")

        def write(line):
            run.process.stdin.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
            run.process.stdin.flush()

        write({"provider": "Contoso-Build", "name": "Step", "level": 3, "keyword": "0x10", "opcode": 1, "fields": {"file": "größe.c", "ms": 12.5, "count": 3, "less": -4, "ok": True}})
        time.sleep(AFTER_S)  # the command has no other way to say that it has written
        for words, said in ((("mark", "Maß: half"), heard), (("emit", "--provider", "Contoso-Build", "--name", "Stranger", "--field", "n=1"), heard)):
            done = session.run([machine.agent, *words, "--json"])
            checks.equal((done.returncode, done.stdout and json.loads(done.stdout)), (0, said), f"{words}: {done.stderr}")
        for name in ("trace", "trace-providers"):
            machine.go(name)
        run.wait_played(2)
        write({"provider": "Contoso-Paint", "id": 1, "fields": PAINTED})
        write({"provider": "Contoso-Build", "name": "Done"})
        run.process.stdin.close()
        code, said = run.end(False)
        checks.that(code == 0 and '{"written":3,"unheard":0}' in said, f"the command: {code} {said}")
        every = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", file]).stdout.splitlines()]
        mine = [(e["name"], e["provider_name"], e["level"], e["keyword"], e["opcode"], e["fields"]) for e in every if e["provider_name"] in ("Contoso-Build", "Etwagent-Marks")]
        checks.equal(sorted(mine[:2], key=str, reverse=True) + mine[2:], [("Step", "Contoso-Build", 3, "0x10", 1, {"file": "größe.c", "ms": 12.5, "count": 3, "less": -4, "ok": True}),
                            ("Mark", "Etwagent-Marks", 4, "0x0", 0, {"Text": "Maß: half"}), ("Done", "Contoso-Build", 4, "0x0", 0, {})], "events and marks, of which two sessions have the first ones at one tick of the emulator")
        paint = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--manifest", manifest, "--provider", "Contoso-Paint", file]).stdout.splitlines()]
        checks.equal([(e["name"], e["id"], e["level"], e["keyword"], e["opcode"], e["channel"]) for e in paint], [("Draw/Start", 1, 3, "0x5", 1, 0)], "an event of a manifest")
        checks.that(all(str(value) in str(paint) for value in PAINTED.values()), f"its fields: {paint}")
        middle = read(env, paths)[HALF - 2]["clock"]  # the header is not among these
        own = {e["name"]: e["clock"] for e in every if e["name"] in ("Step", "Mark", "Done")}
        kernel = [e["clock"] for e in every if e["name"].startswith(("Thread/", "Process/", "Image/"))]
        checks.that(abs(own["Step"] - middle) < 10**6 and own["Step"] <= own["Mark"] < own["Done"] and min(kernel) < own["Step"] < max(kernel), f"between the kernel's events: {own} {middle}")
        checks.equal(left_behind(machine), [], "what is left over")
        # what is refused, before and in the middle
        machine.plays(paths, "fail=EventWrite 8 1")
        for words, code, part in ((("emit", "--provider", "Contoso-Build", "--name", "Step"), 1, "write an event"), (("emit", "--name", "Step"), 2, "expected --provider and --name"), (("emit", "--provider", "Contoso-Paint", "--id", "1", "--name", "x"), 2, "--name or --id"),
                                  (("emit", "--provider", "Contoso-Paint", "--id", "1"), 2, "no manifest describes"),
                                  (("emit", "--events", "-", "--name", "x"), 2, "expected --provider and --name"),
                                  (("emit", "--provider", "A", "--name", "B", "--field", "x"), 2, "expected NAME=VALUE"),
                                  (("emit", "--provider", "A", "--name", "B", "--level", "256"), 2, "no such number"), (("mark", "x" * 20000), 2, "32 KiB")):
            done = session.run([machine.agent, *words])
            checks.that(done.returncode == code and part in done.stderr, f"{words[:5]}: {done.returncode} {done.stderr[:300]}")
        fields = {"Title": "x", "Owner": 1, "Ratio": 1, "Part": 1, "Key": PAINTED["Key"], "Less": 1, "Ok": 1, "Note": "x", "At": 1}
        for change, part in (({"Owner": 1 << 32}, "Owner"), ({"Part": "1e39"}, "expected a number for Part"), ({"Key": "x"}, "expected a GUID"), ({"Ratio": "y"}, "expected a number"), ({"Title": None}, "no value for its field Title"),
                             ({"More": 1}, "does not have"), ({"Less": "z"}, "whole number for Less")):
            words = [word for name, value in {**fields, **change}.items() if value is not None for word in ("--field", f"{name}={value}")]
            done = session.run([machine.agent, "emit", "--provider", "Contoso-Paint", "--id", "1", "--manifest", wine.windows_path(manifest), *words])
            checks.that(done.returncode == 2 and part in done.stderr, f"{change}: {done.returncode} {done.stderr[:300]}")
        lines = machine.folder / "lines.jsonl"
        lines.write_text('{"provider": "A", "name": "B"}\n{"provider": "A", "name": "B", "pid": 4}\n')
        machine.plays(paths)
        done = session.run([machine.agent, "emit", "--events", wine.windows_path(lines)])
        checks.that(done.returncode == 1 and "line 2" in done.stderr and "pid" in done.stderr and not done.stdout, f"a wrong line: {done.returncode} {done.stderr} {done.stdout}")


def trouble(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "trouble") as machine:
        machine.plays(traces.paths(TRACE, env.build), "fail=StartTraceW 5 1")
        code, said = Run(machine, session, machine.folder / "no.etl").end()
        checks.that(code == 1 and "start session trace" in said, f"a refused session: {code} {said}")
        checks.equal(session.processes(PROGRAM), [], "the command, which has not run and is gone")
        machine.plays([])
        code, said = Run(machine, session, machine.folder / "no.etl", linger="no-such-program.exe").end(False)
        checks.that(code == 1 and "start no-such-program.exe" in said, f"no such command: {code} {said}")
        code, said = Run(machine, session, machine.folder / "no.etl", "--flag", "NO_SUCH_FLAG", linger="x").end(False)
        checks.that(code == 2 and "no kernel flag 'NO_SUCH_FLAG'" in said, f"no such flag: {code} {said}")
        run = Run(machine, session, machine.folder / "stopped.etl")
        harness.wait_until(lambda: len(machine.sessions()) == 1 and session.processes(PROGRAM), "the command", 240)
        for pid in session.processes("etwagent.exe"):
            os.kill(pid, signal.SIGINT)
        code, said = run.end(False)
        checks.that(code == 130 and "continues without being recorded" in said, f"Ctrl-C that the command does not heed: {code} {said}")
        run.gate.touch()
        checks.equal(left_behind(machine), [], "what is left over")
        harness.wait_until(lambda: not session.processes(PROGRAM), "the command's own end", 240)


def test(env, checks, session, windows, arguments):
    for part in emulated.parts(checks, arguments, (whole, ended, unreadable, killed, waits, alone, emits, trouble)):
        part(env, checks, session, windows, arguments)


if __name__ == "__main__":
    emulated.main(test, __doc__)
