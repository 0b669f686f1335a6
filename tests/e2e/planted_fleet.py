"""A fleet in which each machine but one has a problem of its own: what someone who looks at the dashboard has to find. The machines are generated
(tests/tracegen); MACHINES has, for each problem, the machine and the program that causes it.
"""
import json
import urllib.parse

import harness
import test_tracegen

MILLISECONDS = 2000
MACHINES = {
    "hog": ("farm-hog", "indexer.exe"), "convoy": ("farm-convoy", "ledgerd.exe"), "disk": ("farm-disk", "copier.exe"), "gc": ("farm-gc", "quotes.exe"),
    "beacon": ("farm-beacon", "helper.exe"), "rare": ("farm-rare", "notepad.exe"), "well": ("farm-well", "explorer.exe")}
REMOTE, RARE = "203.0.113.77", "hollow.dll"
BASE = """
summary: a machine of a planted fleet
base: windows
duration_ms: %d
machine: {cpus: 4, os: windows-11, gc_every_ms: %d}
session:
  events: [process, thread, image, sample, stack, %s]
  samples_per_second: 200
pmc: {on_switches: %s}
stacks: {of: {samples: 90, cswitch: 10, readythread: 10, disk: 90}}
%s
starts:
  - {program: Idle}
  - {program: System, parent: Idle}
  - {program: smss.exe, parent: System}
  - {program: csrss.exe, parent: smss.exe}
  - {program: wininit.exe, parent: smss.exe}
  - {program: services.exe, parent: wininit.exe}
  - {program: svchost.exe, parent: services.exe, count: 2}
  - {program: explorer.exe, parent: wininit.exe}
  - {program: notepad.exe, parent: explorer.exe}
%s
"""
PROGRAM = """programs:
  - {name: %s, path: '\\Program Files\\Farm\\%s', command: '"C:\\Program Files\\Farm\\%s" --serve', size: 0x40000, dlls: [base, c, com, net%s], %s}
"""
SWITCHES, START = "cswitch, readythread, dpc, isr", "  - {program: %s, parent: services.exe}"
# recorded beside processes and samples, milliseconds between collections, what the program does
WORK = {
    "hog": (SWITCHES, 400, "threads: 8, burst_us: [2000, 9000], wait_us: [50, 200], does: {compute: 98, waits: 2}"),
    "convoy": (SWITCHES, 400, "threads: 40, burst_us: [20, 60], wait_us: [300, 900], does: {waits: 100}"),
    "disk": (SWITCHES + ", disk, filename, fileio", 400, "threads: 8, burst_us: [20, 60], wait_us: [50, 200], does: {disk: 96, waits: 4}"),
    "gc": (SWITCHES + ", dotnet, pmc", 5, "threads: 6, burst_us: [100, 600], wait_us: [100, 900], does: {compute: 20, dotnet: 60, waits: 20}"),
    "beacon": ("tcpip, udpip", 400, "threads: 2, wait_us: [5000, 9000], does: {syscalls: 10, waits: 90}"),
    "rare": ("tcpip", 400, ""), "well": ("tcpip", 400, ""),
}


def scenario(kind):
    _, program = MACHINES[kind]
    events, gc_every, work = WORK[kind]
    more = PROGRAM % (program, program, program, ", dotnet" if kind == "gc" else "", work) if work else ""
    start = START % program if work else ""
    if kind == "beacon":  # a little to the same address, each 150 ms
        start += "\nscript:\n" + "\n".join(f"  - {{at_ms: {at}, by: {program}, does: connect, address: {REMOTE}, port: 443, sends: 90, receives: 40}}"
                                           for at in range(100, MILLISECONDS - 100, 150))
    if kind == "rare":
        start += f"\nscript:\n  - {{at_ms: 700, by: {program}, does: load, path: '\\ProgramData\\Temp\\{RARE}'}}"
    return BASE % (MILLISECONDS, gc_every, events, "yes" if kind == "gc" else "no", more, start)


def fill(env, target, web):
    """Replays all machines into a collector, and waits until the history has them."""
    folder = env.folder / "planted"
    folder.mkdir(exist_ok=True)
    for kind, (machine, _) in MACHINES.items():
        path = folder / f"{kind}.yaml"
        path.write_text(scenario(kind), encoding="utf-8")
        trace, _ = test_tracegen.generate(env.build, folder, kind, "--preset", str(path), "--seed", "7")
        env.replay([trace], target, agent=machine, spool=folder / f"spool-{kind}")
    harness.wait_until(lambda: all(web.get(f"hosts/{urllib.parse.quote(machine)}/processes", q=program)["items"] if web.ask(f"/api/v1/hosts/{machine}")[0] == 200 else False
                                   for machine, program in MACHINES.values()), "the history of the planted fleet", 60)


def world(web, chromium):
    """What the browser's script needs to know, as JSON."""
    return json.dumps({"url": web.address + "/", "chromium": chromium, "remote": REMOTE, "rare": RARE,
                       "machines": {kind: {"host": host, "program": program} for kind, (host, program) in MACHINES.items()}})
