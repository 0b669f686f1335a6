#!/usr/bin/env python3
"""Sessions of boot time: the service writes what Windows starts at boot into the registry, exactly as documented; at "boot" the emulator
starts it from there and nothing else; the service that starts later ends it, ships its file, each event once, and goes on live; a
configuration without it, and an uninstallation, take the keys out again.
"""
import collections
import json
import subprocess
import time

import emulated
import harness
import traces
import wine

TRACE = "clr-kernel-win8-x64"
FILES = "edd08927-9cc4-4e65-b970-c2560fb5c289"
ROOT = r"HKLM\SYSTEM\CurrentControlSet\Control\WMI\Autologger"
SESSION = {"name": "early", "buffer-size": "128KiB", "min-buffers": 16, "max-buffers": 48, "flush": "1500ms", "file-size": "64MiB"}
PROVIDER = {"provider": "Microsoft-Windows-Kernel-File", "level": "information", "any": "KERNEL_FILE_KEYWORD_CREATE", "all": "0x80",
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
    env.make_certificates(["boot"])
    collector = env.new_collector().start()
    with emulated.Machine(env, session, windows, "boot") as machine:
        paths = traces.paths(TRACE, env.build)
        names = (f"provider={FILES} Microsoft-Windows-Kernel-File", f"keyword={FILES} 0x80 KERNEL_FILE_KEYWORD_CREATE")
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
            harness.wait_until(lambda: len(keys(session)) == 2, "the keys", 30)
            found = keys(session)
            guid = found["etwagent-early"].pop("Guid", ("", ""))
            checks.that(guid[0] == "REG_SZ" and len(guid[1]) == 38 and guid[1][0] == "{", f"the session's GUID: {guid}")
            checks.equal(found, {
                "etwagent-early": {"BufferSize": ("REG_DWORD", "0x80"), "MinimumBuffers": ("REG_DWORD", "0x10"), "MaximumBuffers": ("REG_DWORD", "0x30"),
                                   "FlushTimer": ("REG_DWORD", "0x2"), "ClockType": ("REG_DWORD", "0x1"), "LogFileMode": ("REG_DWORD", "0x1"),
                                   "MaxFileSize": ("REG_DWORD", "0x40"), "Start": ("REG_DWORD", "0x1"), "FileName": ("REG_SZ", file)},
                f"etwagent-early\\{{{FILES}}}": {"Enabled": ("REG_DWORD", "0x1"), "EnableLevel": ("REG_DWORD", "0x4"), "EnableProperty": ("REG_DWORD", "0x5"),
                                                 "MatchAnyKeyword": ("REG_QWORD", None), "MatchAllKeyword": ("REG_QWORD", None)}}, "the keys")
            agent("stop")
            (session.drive / "etwemul.table").unlink()  # the machine starts again
            machine.plays(paths, *names)
            kernel = subprocess.Popen(session.command([machine.emulctl, "boot"]), env=session.environment, stdin=subprocess.DEVNULL)
            harness.wait_until(lambda: machine.sessions().get("etwagent-early", {}).get("over"), "the boot session, and the trace in it", 60)
            early = machine.sessions()["etwagent-early"]
            checks.equal([early[k] for k in ("mode", "buffer_kib", "flush", "level", "property", "any", "all")], [1, 128, 2, 4, 5, 0x80, 0x80], "the boot session")
            checks.equal(keys(session)["etwagent-early"]["Status"], ("REG_DWORD", "0x0"), "what Windows says of its start")
            agent("start")
            machine.wait(lambda: machine.sources().get("early-boot", {}).get("events_acknowledged", 0) >= 562, "the boot session's events")
            machine.wait(lambda: machine.sources().get("early", {}).get("session", {}).get("starts") == 1, "the live session")
            checks.that(machine.sessions()["etwagent-early"]["mode"] & 0x100, "the session delivers in real time now")
            checks.equal(kernel.wait(timeout=60), 0, "the emulator's boot")
            agent("stop")
            agent("start")  # in the same boot: nothing is there twice
            machine.wait(lambda: "early-boot" in machine.sources() and machine.sources().get("early", {}).get("session"), "the service again")
            machine.configure(collector, [plain])
            agent("reload")
            harness.wait_until(lambda: not keys(session), "the keys' removal by a configuration without them", 30)
            machine.configure(collector, [{**plain, "boot-file": file}])
            agent("reload")
            harness.wait_until(lambda: len(keys(session)) == 2, "the keys again", 30)
        finally:
            for command in ("stop", "uninstall"):
                session.run([machine.agent, command])
        checks.equal(keys(session), {}, "keys after the uninstallation")
        lines = env.run([env.collector, "export", "--store", collector.store, "--host", "boot", "--format", "raw", "--verify"]).stdout.splitlines()
        clocks = collections.Counter(r["clock"] for r in map(json.loads, lines) if r["provider"] == FILES)
        truth = env.run([env.agent, "dump", "--format", "raw", "--no-names", *paths]).stdout.splitlines()
        wanted = collections.Counter(r["clock"] for r in map(json.loads, truth) if r["provider"] == FILES and int(str(r["keyword"]), 0) & 0x80)
        checks.that(wanted and clocks == wanted, f"{sum(clocks.values())} of {sum(wanted.values())} events, each once")
    collector.stop()


def test(env, checks, session, windows, arguments):
    begun = time.monotonic()
    boot(env, checks, session, windows, arguments)
    print(f"boot: {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    emulated.main(test, __doc__)
