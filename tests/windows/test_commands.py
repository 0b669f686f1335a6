#!/usr/bin/env python3
"""The commands that a person uses on Windows, with the shipped .exe and the emulator of ETW under Wine: providers, record, trace, sessions.
Each says its options and exit codes with --help and in the man page; wrong words end with 2, a wrong configuration with 3, what fails with
1; --json is JSON with the keys that --help names; what TDH said is kept until it is too old.
"""
import json
import os
import re
import signal
import subprocess
import time

import emulated
import harness
import traces
import wine

TRACE = "clr-kernel-win8-x64"
RUNTIME, FILES = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "edd08927-9cc4-4e65-b970-c2560fb5c289"
OPTIONS = {"providers": ("cache", "max-age", "json"), "record": ("config", "session", "duration", "json"),
           "trace": ("command", "output", "flag", "provider", "config", "alone", "name"), "sessions": ("json",)}
FIELDS = ["Irp", "FileObject", "IssuingThreadId", "CreateOptions", "CreateAttributes", "ShareAccess", "FileName"]  # of Create, version 1
DAY_S = 86400
# words: (exit code, what is said)
WRONG = {
    ("providers", "a", "b"): (2, "unexpected argument 'b'"),
    ("providers", "--max-age", "soon"): (2, "max-age"),
    ("record", "x.etl"): (2, "--config FILE is required"),
    ("record", "--config", "C:\\nowhere.yaml"): (2, "etwagent record --help"),
    ("record", "--config", "C:\\nowhere.yaml", "x.etl"): (1, "nowhere.yaml"),
    ("record", "--config", "CONFIG", "--session", "nobody", "x.etl"): (2, "it has no such session"),
    ("record", "--config", "WRONG", "x.etl"): (3, ":2:"),
    ("record", "--nonsense", "x.etl"): (2, "--nonsense"),
    ("trace",): (2, "etwagent trace --help"),
    ("trace", "-c", "x.exe", "--flag", "NOBODY"): (2, "NOBODY"),
    ("sessions", "one"): (2, "unexpected argument 'one'"),
}


def words(env, checks, session, machine):
    man = session.run([machine.agent, "--man"]).stdout
    for command, options in OPTIONS.items():
        done = session.run([machine.agent, command, "--help"])
        missing = [o for o in options if not re.search(rf"--{o}\b", done.stdout)]
        checks.that(done.returncode == 0 and not missing and not done.stderr and "Exit codes:" in " ".join(done.stdout.split()), f"{command} --help: {missing} {done.stdout}")
        part = man[man.index(f".SS {command}"):].split("\n.SS ", 2)[0] if f".SS {command}" in man else ""
        missing = [o for o in options if not re.search(rf"\\-\\-{o.replace('-', '.{1,2}')}\b", part)]
        checks.that(part and not missing and "Exit codes:" in " ".join(part.split()), f"{command} in the man page: {missing}")
    machine.config.write_text(f"sessions: [{{name: one, providers: [{{provider: {FILES}}}]}}]\n")
    wrong = machine.folder / "wrong.yaml"
    wrong.write_text("sessions:\n- {name: one, kind: nothing}\n")
    paths = {"CONFIG": wine.windows_path(machine.config), "WRONG": wine.windows_path(wrong)}
    for given, (code, text) in WRONG.items():
        done = session.run([machine.agent, *(paths.get(w, w) for w in given)])
        checks.that(done.returncode == code and text in done.stderr and not done.stdout, f"{given}: {done.returncode} {done.stdout}{done.stderr}")
    checks.equal(machine.sessions(), {}, "sessions after words that were wrong")


def providers(env, checks, session, machine):
    cache = machine.folder / "cache"
    script = [f"provider={FILES} Microsoft-Windows-Kernel-File", f"keyword={FILES} 0x80 KERNEL_FILE_KEYWORD_CREATE", f"field=1 {FILES} 4 win:Informational"]

    def run(*given):
        done = session.run([machine.agent, "providers", "--cache", wine.windows_path(cache), *given])
        return done.returncode, done.stdout, done.stderr
    machine.plays(traces.paths(TRACE, env.build), *script)
    code, said, _ = run("--json")
    of_windows = [p for p in json.loads(said) if p["layer"] == "windows"]
    checks.equal((code, [(p["name"], p["provider"]) for p in of_windows]), (0, [("Microsoft-Windows-Kernel-File", FILES)]), "providers that Windows knows")
    code, said, _ = run("--json", FILES)
    p = next(p for p in json.loads(said) if p["layer"] == "windows")
    checks.equal((code, p["keywords"].get("0x80"), list(p["levels"].values())), (0, "KERNEL_FILE_KEYWORD_CREATE", ["win:Informational"]), f"keywords and levels: {p['keywords']} {p['levels']}")
    create = [e for e in p["events"] if e["id"] == 12]
    checks.that(create and [f["name"] for f in create[0]["fields"]] == FIELDS, f"an event and its fields: {create}")
    code, said, _ = run("microsoft-windows-kernel-file")
    checks.that(code == 0 and all(w in said for w in (FILES, "KERNEL_FILE_KEYWORD_CREATE", "win:Informational", "FileName")), f"in words: {said[:2000]}")
    code, said, trouble = run("Nobody-Knows-This")
    checks.that(code == 1 and "Nobody-Knows-This" in trouble and not said, f"a provider that nobody knows: {code} {said}{trouble}")
    machine.plays(traces.paths(TRACE, env.build), *script, f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
    count = lambda: len([p for p in json.loads(run("--json")[1]) if p["layer"] == "windows"])  # noqa: E731
    checks.equal(count(), 1, "providers by what TDH said a moment ago")
    then = time.time() - 1.1 * DAY_S
    os.utime(cache / "providers.schemas", (then, then))
    checks.equal(count(), 2, "providers when that is a day old")


def record(env, checks, session, machine):
    machine.plays(traces.paths(TRACE, env.build))
    machine.config.write_text(f"sessions: [{{name: one, providers: [{{provider: {FILES}}}]}}, {{name: two, providers: [{{provider: {RUNTIME}}}]}}]\n")
    file = machine.folder / "mine.etl"
    command = [machine.agent, "record", "--config", wine.windows_path(machine.config), "--session", "one", wine.windows_path(file)]
    with open(machine.folder / "said", "wb") as out:
        running = subprocess.Popen(session.command(command), env=session.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
    harness.wait_until(lambda: (s := machine.sessions().get("etwagent-one")) and s["over"], "the trace's end", 60)
    checks.equal(list(machine.sessions()), ["etwagent-one"], "the session that is wanted")
    listed = session.run([machine.agent, "sessions"])
    checks.that(listed.returncode == 0 and re.fullmatch(r"etwagent-one: 64 buffers \(\d+ free, at most 128\) of 256 KiB, \d+ written; lost: 0 events, 0 buffers; mode 0x\w{8}\n", listed.stdout),
                f"etwagent sessions: {listed.stdout}{listed.stderr}")
    first = machine.sessions()["etwagent-one"]["id"], machine.sessions()["etwagent-one"]["away_ms"]
    machine.control("stop", "etwagent-one")
    harness.wait_until(lambda: (s := machine.sessions().get("etwagent-one")) and (s["id"], s["away_ms"]) != first and s["over"], "the session again, in another file", 60)
    for pid in session.processes("etwagent.exe"):
        os.kill(pid, signal.SIGINT)
    checks.equal(running.wait(timeout=60), 0, "exit code after Ctrl-C")
    said = (machine.folder / "said").read_text(errors="replace")
    checks.that(re.match(r"C:\\\\?.*mine\.etl: \d+ buffers of 256 KiB written; lost: 0 events, 0 buffers; others ended it 1 times, the last file is .*mine-2\.etl$", said.strip()), f"what is said at the end: {said}")
    events = env.run([env.agent, "dump", "--format", "raw", file]).stdout.splitlines()
    checks.equal(sum(json.loads(e)["provider"] == FILES for e in events), 562, "events in the file")
    none = session.run([machine.agent, "sessions"]), session.run([machine.agent, "sessions", "--json"])
    checks.equal([(n.returncode, n.stdout) for n in none], [(0, "no session of etwagent runs\n"), (0, "[]\n")], "etwagent sessions when there is none")


def test(env, checks, session, windows, arguments):
    for part in emulated.parts(checks, arguments, (words, providers, record), real=(providers, record)):
        with emulated.Machine(env, session, windows, part.__name__) as machine:
            machine.plays([])
            part(env, checks, session, machine)


if __name__ == "__main__":
    emulated.main(test, __doc__)
