#!/usr/bin/env python3
"""The commands that a person uses on Windows, with the shipped .exe and the emulator of ETW under Wine: providers, record, trace, sessions.
Each says its options and exit codes with --help and in the man page; wrong words end with 2, a wrong configuration with 3, what fails with
1; --json is JSON with the keys that --help names; what TDH said is kept until it is too old.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid

import emulated
import harness
import traces
import wine

TRACE = "clr-kernel-win8-x64"
RUNTIME, FILES = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "edd08927-9cc4-4e65-b970-c2560fb5c289"
OPTIONS = {"providers": ("cache", "max-age", "json"), "record": ("config", "session", "duration", "json"),
           "trace": ("command", "output", "flag", "provider", "config", "alone", "name"), "sessions": ("all", "json"),
           "session start": ("config", "file", "json"), "session stop": ("json",), "session show": ("json",), "session flush": ("json",),
           "emit": ("provider", "name", "field", "level", "opcode", "keyword", "events", "json"), "mark": ("json",), "schema install": ("resources",), "schema uninstall": (),
           "session enable": ("level", "any", "all", "event-ids", "pids", "stacks", "capture-state"), "session disable": (), "counters": ("json",)}
FIELDS = ["Irp", "FileObject", "IssuingThreadId", "CreateOptions", "CreateAttributes", "ShareAccess", "FileName"]  # of Create, version 1
DAY_S = 86400
# words: (exit code, part of the message)
WRONG = {
    ("providers", "a", "b"): (2, "unexpected argument 'b'"),
    ("providers", "--max-age", "soon"): (2, "max-age"),
    ("record", "x.etl"): (2, "--config FILE is required"),
    ("record", "--config", "C:\\nowhere.yaml"): (2, "etwagent record --help"),
    ("record", "--config", "C:\\nowhere.yaml", "x.etl"): (1, "nowhere.yaml"),
    ("record", "--config", "CONFIG", "--session", "absent", "x.etl"): (2, "it has no such session"),
    ("record", "--config", "WRONG", "x.etl"): (3, ":2:"),
    ("record", "--nonsense", "x.etl"): (2, "--nonsense"),
    ("trace",): (2, "etwagent trace --help"),
    ("trace", "-c", "x.exe", "--flag", "NO_SUCH_FLAG"): (2, "NO_SUCH_FLAG"),
    ("sessions", "one"): (2, "unexpected argument 'one'"),
    ("session", "start", "--config", "CONFIG"): (2, "session one: it needs a file"),
    ("session", "start", "--config", "CONFIG", "absent"): (2, "it has no session absent"),
    ("session", "start", "--config", "WRONG"): (3, ":2:"),
    ("session", "stop", "etwagent-one"): (1, 'no session etwagent-one runs; "etwagent sessions --all" lists those that do'),
    ("session", "show", "etwagent-one"): (1, "no session etwagent-one runs"),
    ("session", "show", "n" * 256): (1, "a session's name has 1 to 255 characters"),
    ("session", "enable", "etwagent-one", FILES, "--level", "loud"): (2, "level: "),
    ("session", "enable", "etwagent-one", FILES, "--any", "1++2"): (2, "any: "),
    ("session", "disable", "etwagent-one"): (2, "etwagent session disable --help"),
}


def words(env, checks, session, machine):
    man = session.run([machine.agent, "--man"]).stdout
    for command, options in OPTIONS.items():
        done = session.run([machine.agent, *command.split(), "--help"])
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
    code, said, trouble = run("No-Such-Provider")
    checks.that(code == 1 and "No-Such-Provider" in trouble and not said, f"an unknown provider: {code} {said}{trouble}")
    machine.plays(traces.paths(TRACE, env.build), *script, f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
    count = lambda: len([p for p in json.loads(run("--json")[1]) if p["layer"] == "windows"])  # noqa: E731
    checks.equal(count(), 1, "providers by what TDH said a moment ago")
    then = time.time() - 1.1 * DAY_S
    os.utime(cache / "providers.schemas", (then, then))
    checks.equal(count(), 2, "providers when that is a day old")


def schema(env, checks, session, machine):
    """A manifest goes to wevtutil of System32, in whose place is a program that prints its arguments; one with a mistake does not."""
    tool, kept = session.drive / "windows" / "system32" / "wevtutil.exe", machine.folder / "wevtutil.kept"
    paint, denied, wrong = (machine.folder / name for name in ("paint it.man", "denied.man", "wrong.man"))
    text = (emulated.ROOT / "config" / "schemas" / "Microsoft-Windows-DNS-Client.man").read_text(encoding="utf-8")
    for path in (paint, denied):
        path.write_text(text, encoding="utf-8")
    wrong.write_text(text.replace("win:UInt32", "win:UInt33", 1), encoding="utf-8")
    library = machine.folder / "paint it.dll"
    library.write_bytes(b"MZ")

    def run(*given):
        overrides = session.environment["WINEDLLOVERRIDES"] + ";wevtutil.exe=n"  # Wine's own is built in
        done = session.run([machine.agent, "schema", *given], environment={"WINEDLLOVERRIDES": overrides})
        return done.returncode, re.findall(r"wevtutil argument: (.*)", done.stdout), done.stderr
    name = wine.windows_path
    tool.rename(kept)
    try:
        shutil.copy(machine.emulctl, tool)
        shutil.copy(machine.emulctl, machine.folder / "wevtutil.exe")  # not this one
        checks.equal(run("install", name(paint)), (0, ["im", name(paint)], ""), "install")
        checks.equal(run("install", name(paint), "--resources", name(library)), (0, ["im", name(paint), f"/rf:{name(library)}", f"/mf:{name(library)}"], ""), "install with a library")
        checks.equal(run("uninstall", name(paint)), (0, ["um", name(paint)], ""), "uninstall")
        beside = name(paint.parent / "wevtutil.exe").rsplit("\\", 2)
        roundabout = "\\".join((beside[0], beside[1], "..", beside[1], ""))
        checks.equal(run("install", roundabout + paint.name, "--resources", roundabout + library.name),
                     (0, ["im", name(paint), f"/rf:{name(library)}", f"/mf:{name(library)}"], ""), "names are whole paths, which Windows keeps")
        for path, given in ((paint, ()), (library, ("--resources", name(library))), (machine.folder, ())):
            mode = path.stat().st_mode & 0o777
            path.chmod(mode | 0o002)
            code, words, said = run("install", name(paint), *given)
            path.chmod(mode)
            checks.that((code, words) == (1, []) and "S-1-1-0 may write to" in said, f"others may write to {path.name}: {code} {words} {said}")
        code, words, said = run("install", name(paint), "--resources", name(machine.folder))
        checks.that((code, words) == (1, []) and "is no file" in said, f"a folder as a library: {code} {words} {said}")
        code, words, said = run("install", name(denied))
        checks.that((code, words) == (1, ["im", name(denied)]) and "ended with 5" in said, f"what wevtutil refuses: {code} {words} {said}")
        code, words, said = run("install", name(wrong))
        checks.that((code, words) == (3, []) and "win:UInt33" in said, f"a manifest with a mistake: {code} {words} {said}")
        for given in (("install", name(library.with_suffix(".absent"))), ("install", name(paint), "--resources", "C:\\absent.dll")):
            code, words, said = run(*given)
            checks.that((code, words) == (1, []) and "absent" in said, f"{given}: {code} {words} {said}")
    finally:
        kept.replace(tool)
    done = env.run([env.agent, "schema", "install", paint, "--resources", f'{library}" "/x:'], check=False)
    checks.that(done.returncode == 2 and "quotation mark" in done.stderr, f"a name with a quotation mark: {done.returncode} {done.stderr}")


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
    checks.that(listed.returncode == 0 and re.fullmatch(r"etwagent-one: 64 buffers \(\d+ free, at most 128\) of 256 KiB, \d+ written; lost: 0 events, 0 buffers; mode 0x\w{8}; file \S+mine\.etl\n", listed.stdout),
                f"etwagent sessions: {listed.stdout}{listed.stderr}")
    first = machine.sessions()["etwagent-one"]["id"], machine.sessions()["etwagent-one"]["away_ms"]
    machine.control("stop", "etwagent-one")
    harness.wait_until(lambda: (s := machine.sessions().get("etwagent-one")) and (s["id"], s["away_ms"]) != first and s["over"], "the session again, in another file", 60)
    for pid in session.processes("etwagent.exe"):
        os.kill(pid, signal.SIGINT)
    checks.equal(running.wait(timeout=60), 0, "exit code after Ctrl-C")
    said = (machine.folder / "said").read_text(errors="replace")
    checks.that(re.match(r"C:\\\\?.*mine\.etl: \d+ buffers of 256 KiB written; lost: 0 events, 0 buffers; others ended it 1 times, the last file is .*mine-2\.etl$", said.strip()), f"the message at the end: {said}")
    events = env.run([env.agent, "dump", "--format", "raw", file]).stdout.splitlines()
    checks.equal(sum(json.loads(e)["provider"] == FILES for e in events), 562, "events in the file")
    none = session.run([machine.agent, "sessions"]), session.run([machine.agent, "sessions", "--json"])
    checks.equal([(n.returncode, n.stdout) for n in none], [(0, "no session of etwagent runs\n"), (0, "[]\n")], "etwagent sessions when there is none")


def detached(env, checks, session, machine):
    """A session that no program of ours watches: started, changed by name, stopped; sessions of others; the machine's counters."""
    machine.plays(traces.paths(TRACE, env.build), f"provider={FILES} Microsoft-Windows-Kernel-File", f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime",
                  "rate=1000", "counter=0 1221 1000000 Timer", "counter=10 4096 65536 CacheMisses", "counters=3")
    machine.config.write_text(f"sessions: [{{name: one, min-buffers: 8, max-buffers: 96, providers: [{{provider: {FILES}, level: error, any: '0x10'}}]}}, {{name: two, providers: [{{provider: {RUNTIME}}}]}}]\n")
    config, file = wine.windows_path(machine.config), wine.windows_path(machine.folder / "detached.etl")

    def run(*given):
        done = session.run([machine.agent, *given])
        return done.returncode, done.stdout, done.stderr

    def providers():
        shown = json.loads(run("session", "show", "etwagent-one", "--json")[1])
        return {p["provider"]: (p["level"], p["any"], p["all"], p["properties"]) for p in shown["providers"]}
    code, _, trouble = run("session", "start", "--config", config)
    checks.that(code == 2 and "it has 2 sessions: give the NAME of one" in trouble, f"which session: {code} {trouble}")
    code, said, trouble = run("session", "start", "--config", config, "--file", file, "--json", "one")
    started = json.loads(said)
    emulated_one = machine.sessions()["etwagent-one"]
    checks.equal((code, started["name"], started["file"], started["max_buffers"], started["mode"]),
                 (0, "etwagent-one", file, 96, emulated_one["mode"] if isinstance(emulated_one["mode"], str) else f"0x{emulated_one['mode']:08x}"), f"what it started as: {trouble}")
    checks.equal(session.processes("etwagent.exe"), [], "programs of ours while the session runs")
    code, _, trouble = run("session", "start", "--config", config, "--file", file, "one")
    checks.that(code == 1 and 'session etwagent-one runs already; "etwagent session stop etwagent-one" stops it' in trouble, f"a second start: {code} {trouble}")
    checks.equal(machine.sessions()["etwagent-one"]["id"], emulated_one["id"], "the session after the second start")
    machine.control("start", "Foreign")
    names = [[s["name"] for s in json.loads(run("sessions", *more, "--json")[1])] for more in ((), ("--all",))]
    checks.equal((names[0], sorted(names[1])), (["etwagent-one"], ["Foreign", "etwagent-one"]), "sessions, and all sessions")
    checks.equal(providers(), {FILES: (2, "0x10", "0x0", "0x0")}, "its providers")
    checks.equal(run("session", "enable", "etwagent-one", "microsoft-windows-dotnetruntime", "--level", "information", "--any", "0x8", "--stacks"), (0, "", ""), "enable another")
    checks.equal(providers(), {FILES: (2, "0x10", "0x0", "0x0"), RUNTIME: (4, "0x8", "0x0", "0x4")}, "both")
    checks.equal(run("session", "disable", "etwagent-one", FILES), (0, "", ""), "disable the first")
    checks.equal(list(providers()), [RUNTIME], "the second alone")
    checks.equal(run("session", "enable", "Foreign", RUNTIME), (0, "", ""), "enable in the session of another program")
    code, _, trouble = run("session", "enable", "Foreign", "No-Such-Provider")
    checks.that(code == 1 and "this machine has no provider No-Such-Provider" in trouble, f"a provider that the machine lacks: {code} {trouble}")
    code, said, _ = run("session", "show", "Foreign")
    checks.that(code == 0 and said.startswith("Foreign: ") and f"  provider {RUNTIME}: level 5, keywords any 0xffffffffffffffff all 0x0, properties 0x0\n" in said, f"in words: {said}")
    checks.equal(run("session", "flush", "etwagent-one")[0], 0, "flush")
    checks.equal(machine.sessions()["etwagent-one"]["flushes"], 1, "flushes")
    for name in ("etwagent-one", "Foreign"):
        code, said, trouble = run("session", "stop", name, "--json")
        checks.equal((code, json.loads(said)["name"]), (0, name), f"stop: {trouble}")
    checks.equal(machine.sessions(), {}, "sessions at the end")
    code, said, trouble = run("counters", "--json")
    checks.equal((code, json.loads(said)), (0, [{"name": "Timer", "source": 0, "min": 1221, "max": 1000000, "interval": 10000},
                                                {"name": "CacheMisses", "source": 10, "min": 4096, "max": 65536, "interval": 65536}]), f"counters: {trouble}")
    code, said, _ = run("counters")
    checks.that(code == 0 and "CacheMisses: source 10, sampled every 4096 to 65536, now 65536\n" in said and said.endswith("counted at a time: at most 3\n"), f"counters in words: {said}")
    machine.plays([])
    code, said, trouble = run("counters")
    checks.that(code == 1 and not said and "this machine shows no performance counters" in trouble, f"a machine without counters: {code} {said}{trouble}")


def opened(env, checks, session, machine):
    """A trace file: open, stats, dump and watch say under Wine what the native program says."""
    trace = env.folder / "opened.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", 4, "--duration-ms", 500, "--out", trace])
    of_windows = wine.windows_path(trace)
    for command in (["open", "--json"], ["open"], ["dump", "--class", "Process/*"], ["watch", "--json", "-e", "sched:::on-cpu { @[execname] = count(); }"]):
        done, native = session.run([machine.agent, *command, of_windows]), env.run([env.agent, *command, trace])
        said = done.stdout.replace(of_windows, str(trace))
        checks.that(done.returncode == 0 and len(said.splitlines()) > 10 and said == native.stdout, f"{command}: {done.returncode} {done.stderr} {said[:1500]}\nexpected {native.stdout[:1500]}")
    pages = [env.folder / "windows.html", env.folder / "native.html"]
    done = session.run([machine.agent, "open", "--html", wine.windows_path(pages[0]), of_windows])
    env.run([env.agent, "open", "--html", pages[1], trace])
    checks.that(done.returncode == 0, f"open --html: {done.stderr}")
    checks.that("samples, " in pages[1].read_text() and pages[0].read_text().replace(of_windows, str(trace)) == pages[1].read_text(), "the page of Windows is the native one")
    for command, text in ((["open", "--web", of_windows], "etwcollector, which is built for Linux alone"), (["report", of_windows], "'report' is a command of etwcollector")):
        done = session.run([machine.agent, *command])
        checks.that(done.returncode == 2 and text in done.stderr and not done.stdout, f"{command}: {done.returncode} {done.stderr}")


def relogged(env, checks, session, machine):
    """relog with image ids of a symbol server writes under Wine what the native program writes; the server's files are in the cache."""
    import made_image
    import test_relog_image_ids as ids
    trace, server = ids.make(env, "bare", 60, ids.BARE), ids.Server()
    try:
        events = ids.images(env, trace)
        for name, stamp, size in {ids.what(event) for event in events}:
            if stamp and name.startswith(("n", "k")):
                server.answers[f"/symbols/{name}/{stamp:08X}{size:x}/{name}"] = (200, made_image.image(stamp, size, uuid.UUID(int=stamp)), None)
        outs, said = [env.folder / "windows.etl", env.folder / "native.etl"], []
        for out, run, path in ((outs[0], session.run, wine.windows_path), (outs[1], env.run, str)):
            done = run([machine.agent if run == session.run else env.agent, "relog", path(trace), "-o", path(out), "--json", "--image-ids", server.url, "--image-cache", path(env.folder / out.stem)])
            checks.that(done.returncode == 0, f"{out.stem}: {done.stderr}")
            said.append(json.loads(done.stdout)["image_ids"])
        checks.that(said[0] == said[1] and said[0]["server"]["fetched"] == len(server.answers) > 1, f"the summaries: {said}, {len(server.answers)} images")
        checks.that(outs[0].read_bytes() == outs[1].read_bytes(), "the trace of Windows is the native one")
        kept = [sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) for folder in (env.folder / "windows", env.folder / "native")]
        checks.equal((kept[0], len(kept[0])), (kept[1], len(server.answers)), "files in the caches")
    finally:
        server.close()


def test(env, checks, session, windows, arguments):
    for part in emulated.parts(checks, arguments, (words, providers, schema, record, detached, opened, relogged), real=(providers, record)):
        with emulated.Machine(env, session, windows, part.__name__) as machine:
            machine.plays([])
            part(env, checks, session, machine)


if __name__ == "__main__":
    emulated.main(test, __doc__)
