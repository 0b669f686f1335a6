#!/usr/bin/env python3
"""Sessions of boot time. The service writes the session that Windows starts at boot into the registry, exactly as documented. At "boot"
the emulator starts it from the registry alone. The service that starts later ends that session, ships its file with each event once, and
continues with a live session. A configuration without the session, and an uninstallation, remove the registry keys. When the files of a
boot are not shipped immediately, the service keeps as many files as the configuration says. The ledger counts the files that were dropped
and the files that Windows may have replaced.
"""
import collections
import json
import subprocess

import emulated
import harness
import test_faults
import traces
import wine

TRACE = "clr-kernel-win8-x64"
# a provider with a keyword that some of its events have: Kernel-File, or the .NET runtime in a generated trace
FILES, NAME, KEYWORD, KEYWORD_NAME = (("edd08927-9cc4-4e65-b970-c2560fb5c289", "Microsoft-Windows-Kernel-File", 0x80, "KERNEL_FILE_KEYWORD_CREATE") if traces.real_folder() else
                                      ("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "Microsoft-Windows-DotNETRuntime", 0x10, "JitKeyword"))
HANG_S = 240  # no wait is that long, however slow the machine is
ROOT = r"HKLM\SYSTEM\CurrentControlSet\Control\WMI\Autologger"
SESSION = {"name": "early", "buffer-size": "128KiB", "min-buffers": 16, "max-buffers": 48, "flush": "1500ms", "file-size": "64MiB"}
PROVIDER = {"provider": NAME, "level": "verbose", "any": KEYWORD_NAME, "all": hex(KEYWORD),
            "properties": ["sid"], "stacks": True, "exclude-event-ids": ["7"]}


def keys(session):
    """{key under Autologger: {value: (type, text)}} of ours."""
    text, found, values = session.run(["reg", "query", ROOT, "/s"]).stdout, {}, None
    for line in text.splitlines():
        if line.startswith("HKEY_"):
            name = line.partition("Autologger\\")[2]
            values = found.setdefault(name, {}) if name.startswith("etwagent-") else {}
        elif line.startswith("    "):
            name, kind, value = line.split(maxsplit=2)
            values[name] = (kind, value if kind != "REG_QWORD" else None)  # Wine's reg cannot print these
    return found


def boot(env, checks, session, windows, arguments):
    collector = env.new_collector().start()
    with emulated.Machine(env, session, windows, "boot") as machine:
        paths = traces.paths(TRACE, env.build)
        truth = env.run([env.agent, "dump", "--format", "raw", "--no-names", *paths]).stdout.splitlines()
        wanted = collections.Counter(r["clock"] for r in map(json.loads, truth) if r["provider"] == FILES and int(str(r["keyword"]), 0) & KEYWORD)
        names = (f"provider={FILES} {NAME}", f"keyword={FILES} {KEYWORD:#x} {KEYWORD_NAME}")
        machine.plays([], *names)
        file = wine.windows_path(machine.folder / "early.etl")
        plain = {**SESSION, "providers": [PROVIDER]}
        machine.configure(collector, [{**plain, "boot-file": file}])

        def agent(*words):
            done = session.run([machine.agent, *words])
            checks.equal(done.returncode, 0, f"etwagent {' '.join(words)}: {done.stdout}{done.stderr}")
        try:
            agent("install", "--config", wine.windows_path(machine.config))
            agent("start")
            harness.wait_until(lambda: len(keys(session)) == 2, "the keys", HANG_S)
            found = keys(session)
            guid = found["etwagent-early"].pop("Guid", ("", ""))
            checks.that(guid[0] == "REG_SZ" and len(guid[1]) == 38 and guid[1][0] == "{", f"the session's GUID: {guid}")
            checks.equal(found, {
                "etwagent-early": {"BufferSize": ("REG_DWORD", "0x80"), "MinimumBuffers": ("REG_DWORD", "0x10"), "MaximumBuffers": ("REG_DWORD", "0x30"),
                                   "FlushTimer": ("REG_DWORD", "0x2"), "ClockType": ("REG_DWORD", "0x1"), "LogFileMode": ("REG_DWORD", "0x1"),
                                   "MaxFileSize": ("REG_DWORD", "0x40"), "FileMax": ("REG_DWORD", "0x4"), "Start": ("REG_DWORD", "0x1"), "FileName": ("REG_SZ", file)},
                f"etwagent-early\\{{{FILES}}}": {"Enabled": ("REG_DWORD", "0x1"), "EnableLevel": ("REG_DWORD", "0x5"), "EnableProperty": ("REG_DWORD", "0x5"),
                                                 "MatchAnyKeyword": ("REG_QWORD", None), "MatchAllKeyword": ("REG_QWORD", None)}}, "the keys")
            agent("stop")
            (session.drive / "etwemul.table").unlink()  # the machine starts again
            machine.plays(paths, *names)
            kernel = subprocess.Popen(session.command([machine.emulctl, "boot"]), env=session.environment, stdin=subprocess.DEVNULL)
            harness.wait_until(lambda: machine.sessions().get("etwagent-early", {}).get("over"), "the boot session, and the trace in it", HANG_S)
            early = machine.sessions()["etwagent-early"]
            checks.equal([early[k] for k in ("mode", "buffer_kib", "flush", "level", "property", "any", "all")], [1, 128, 2, 5, 5, KEYWORD, KEYWORD], "the boot session")
            checks.equal(keys(session)["etwagent-early"]["Status"], ("REG_DWORD", "0x0"), "what Windows says of its start")
            agent("start")
            machine.wait(lambda: machine.sources().get("early-boot", {}).get("events_acknowledged", 0) >= sum(wanted.values()), "the boot session's events")
            machine.wait(lambda: machine.sources().get("early", {}).get("session", {}).get("starts") == 1, "the live session")
            checks.that(machine.sessions()["etwagent-early"]["mode"] & 0x100, "the session delivers in real time now")
            checks.equal(kernel.wait(timeout=HANG_S), 0, "the emulator's boot")
            agent("stop")
            agent("start")  # in the same boot: nothing is there twice
            machine.wait(lambda: machine.sources().get("early", {}).get("session"), "the service again")
            machine.configure(collector, [plain])
            agent("reload")
            harness.wait_until(lambda: not keys(session), "the keys' removal by a configuration without them", HANG_S)
            machine.configure(collector, [{**plain, "boot-file": file}])
            agent("reload")
            harness.wait_until(lambda: len(keys(session)) == 2, "the keys again", HANG_S)
        finally:
            for command in ("stop", "uninstall"):
                session.run([machine.agent, command])
        checks.equal(keys(session), {}, "keys after the uninstallation")
        lines = env.run([env.collector, "export", "--store", collector.store, "--host", "boot", "--format", "raw", "--verify"]).stdout.splitlines()
        clocks = collections.Counter(r["clock"] for r in map(json.loads, lines) if r["provider"] == FILES)
        checks.that(wanted and clocks == wanted, f"{sum(clocks.values())} of {sum(wanted.values())} events, each once")
    collector.stop()


KEPT = 2  # files of boots that wait: keep-files and one


def boots(env, checks, session, windows, arguments):
    """Boots in a row: without the service, with it and no certificate, so that no file is read, and with all that it needs."""
    collector = env.new_collector("later")
    paths = traces.paths(TRACE, env.build)
    with emulated.Machine(env, session, windows, "boots") as machine:
        file = machine.folder / "early.etl"
        names = (f"provider={FILES} {NAME}", f"keyword={FILES} {KEYWORD:#x} {KEYWORD_NAME}")
        machine.plays(paths, *names)
        quiet = {**SESSION, "providers": [{**{k: v for k, v in PROVIDER.items() if k != "exclude-event-ids"}, "event-ids": ["7"]}], "keep-files": KEPT - 1}  # live: of which there is none
        collector.start()
        machine.configure(collector, [{**quiet, "boot-file": wine.windows_path(file)}])
        certificate, hidden = env.certs / "boots.crt", env.certs / "hidden"
        certificate.rename(hidden)
        log = machine.folder / "log.txt"
        machine.config.write_text(machine.config.read_text().replace("service:\n", f"service:\n  log: {json.dumps(wine.windows_path(log))}\n"))

        def agent(*words):
            done = session.run([machine.agent, *words])
            checks.equal(done.returncode, 0, f"etwagent {' '.join(words)}: {done.stdout}{done.stderr}")

        def goes_through(with_service, digits=3, form=""):
            """A boot, at which the trace is logged, and its end. form: how a query names the session's file."""
            machine.plays(paths, *names, *([f"reported-file={form}"] * bool(form)))
            (session.drive / "etwemul.table").unlink(missing_ok=True)
            kernel = subprocess.Popen(session.command([machine.emulctl, "boot", digits]), env=session.environment, stdin=subprocess.DEVNULL)
            harness.wait_until(lambda: machine.sessions().get("etwagent-early", {}).get("over"), "the boot session, and the trace in it", HANG_S)
            if with_service:
                agent("start")
                machine.wait(lambda: machine.sources().get("early", {}).get("session", {}).get("starts") == 1, "the live session")
            else:
                machine.control("stop", "etwagent-early")
            checks.equal(kernel.wait(timeout=HANG_S), 0, "the emulator's boot")

        def there():
            return sorted(p.name for p in machine.folder.glob("early*"))
        try:
            agent("install", "--config", wine.windows_path(machine.config))
            agent("start")
            harness.wait_until(lambda: len(keys(session)) == 2, "the keys", HANG_S)
            agent("stop")
            checks.equal(keys(session)["etwagent-early"]["FileMax"], ("REG_DWORD", f"0x{KEPT:x}"), "FileMax")
            goes_through(False)
            checks.equal(there(), ["early.etl.001"], "files after a boot without the service")
            goes_through(True, digits=4, form="\\??\\")
            checks.equal(there(), ["early-booted.1.etl", "early-booted.etl"], "files that wait")
            checks.that("Windows may have replaced" in log.read_text(), "word of Windows' numbers, which are all used")
            checks.equal(keys(session)["etwagent-early"].get("FileCounter"), ("REG_DWORD", "0x2"), "the number of the last boot's file, after the service wrote the key again")
            agent("stop")
            goes_through(True, form="-")
            checks.equal(there(), ["early-booted.1.etl", "early-booted.etl"], "files that wait, of which the oldest was replaced")
            checks.that("was replaced unread" in log.read_text(), "word of it")
            agent("stop")
            hidden.rename(certificate)
            goes_through(False)
            agent("start")
            machine.wait(lambda: [machine.sources().get(name, {}).get("state") for name in ("early-boot", "early-boot.1")] == ["shipped"] * 2, "all that waited is shipped")
            machine.wait(lambda: (s := machine.sources()["early"])["events_acknowledged"] - s["events_synthesised"] == s["events_delivered"] > 0, "the live session's ledger")
            agent("stop")
            checks.equal(there(), ["early-taken.etl"], "files when all is taken")
            before = machine.status()["pid"]
            agent("start")  # in the same boot: nothing more is there
            machine.wait(lambda: machine.status()["pid"] != before and machine.sources().get("early", {}).get("session", {}).get("starts") == 1, "the live session again")
            checks.equal(list(machine.sources()), ["early"], "sources when all is taken")
        finally:
            for command in ("stop", "uninstall"):
                session.run([machine.agent, command])
        lines = env.run([env.collector, "export", "--store", collector.store, "--host", "boots", "--format", "raw", "--verify"]).stdout.splitlines()
        clocks = collections.Counter(r["clock"] for r in map(json.loads, lines) if r["provider"] == FILES)
        truth = env.run([env.agent, "dump", "--format", "raw", "--no-names", *paths]).stdout.splitlines()
        once = collections.Counter(r["clock"] for r in map(json.loads, truth) if r["provider"] == FILES and int(str(r["keyword"]), 0) & KEYWORD)
        checks.that(once and clocks == once + once, f"{sum(clocks.values())} events, {sum(once.values())} of each of the two boots whose files were kept")
    # the second boot used up Windows' two numbers; two more files were dropped
    checks.equal(test_faults.ledger_of(collector, "boots").get("source_boot_files_lost", 0), 3, "the ledger: files that were lost, or may have been")
    collector.stop()


def numbers(env, checks, session, windows, arguments):
    """Three boots of a session with FileMax 2, and no program that takes its files: the third boot replaces the first file."""
    with emulated.Machine(env, session, windows, "numbers") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        key, file = rf"{ROOT}\etwagent-numbers", machine.folder / "n.etl"
        values = {"Guid": ("REG_SZ", f"{{{FILES}}}"), "FileName": ("REG_SZ", wine.windows_path(file)), "FileMax": ("REG_DWORD", "2"), "LogFileMode": ("REG_DWORD", "1"),
                  "Start": ("REG_DWORD", "1")}
        try:
            for name, (kind, value) in values.items():
                session.run(["reg", "add", key, "/v", name, "/t", kind, "/d", value, "/f"])
            there = []
            for _ in range(3):
                (session.drive / "etwemul.table").unlink(missing_ok=True)
                kernel = subprocess.Popen(session.command([machine.emulctl, "boot"]), env=session.environment, stdin=subprocess.DEVNULL)
                harness.wait_until(lambda: "etwagent-numbers" in machine.sessions(), "the boot session", HANG_S)
                machine.control("stop", "etwagent-numbers")
                checks.equal(kernel.wait(timeout=HANG_S), 0, "the emulator's boot")
                there.append((keys(session)["etwagent-numbers"]["FileCounter"][1], sorted(p.name for p in machine.folder.glob("n.etl*"))))
            checks.equal(there, [("0x1", ["n.etl.001"]), ("0x2", ["n.etl.001", "n.etl.002"]), ("0x1", ["n.etl.001", "n.etl.002"])], "FileCounter and files of three boots")
        finally:
            session.run(["reg", "delete", key, "/f"])


def test(env, checks, session, windows, arguments):
    env.make_certificates(["boot", "boots"])
    for part in emulated.parts(checks, arguments, (boot, boots, numbers)):
        part(env, checks, session, windows, arguments)


if __name__ == "__main__":
    emulated.main(test, __doc__)
