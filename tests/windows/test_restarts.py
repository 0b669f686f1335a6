#!/usr/bin/env python3
"""Another program ends sessions while processes start and end, with the shipped .exe and the emulator of ETW under Wine. For a while no
session logs anything. Then each session is started again, and the session itself or a second session logs the rundown again. The state
equals the truth that the generator wrote with the trace: it has no object twice, and no object that ended.

- own: the session has the kernel's flags, and logs the whole rundown itself.
- bare: the session has none of these flags, and a second session logs the whole rundown, at both starts.
- mixed: the session logs processes; a second session logs the rundown of threads and modules while processes end.
- late: as own, but the buffers of the processor that logs the rundown arrive after those of the other processors, on which processes end
  meanwhile.
"""
import json
import sqlite3
import time

import emulated
import test_faults
import test_rundown

# short lives, so that between any two moments there is much that began and ended
SCENARIO = """
base: office
duration_ms: 6000
machine: {cpus: 4}
session: {events: [process, thread, image, sample], samples_per_second: 200}
activities:
  - {parent: explorer.exe, child: cmd.exe, every_ms: [40, 120]}
  - {parent: cmd.exe, child: cc1.exe, every_ms: [20, 200]}
"""
GAP = 700
SMALL = {"kind": "system", "buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64, "flush": "50ms"}
ALL = ["process", "thread", "image"]
SESSIONS = {
    "own": {"flags": ["PROC_THREAD", "LOADER", "PROFILE"], "rundown": ALL},
    "bare": {"flags": ["PROFILE"], "rundown": ALL},
    "mixed": {"flags": ["PROCESS", "PROFILE"], "rundown": ALL},
    "late": {"flags": ["PROC_THREAD", "LOADER", "PROFILE"], "rundown": ALL, "max-buffers": 1024},
}
LATE_MS = 300  # of the machine's time
KINDS = ("process", "thread", "module")
TABLES = {"process": ("processes", "pid"), "thread": ("threads", "tid, pid, stack_base"), "module": ("modules", "pid, base")}


def doubles(collector, host, kind):
    """Of each key, instances of which one began before the one in front of it had ended: [(key, end, beginning)]"""
    table, key = TABLES[kind]
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)
    rows = sorted(db.execute(f"SELECT {key}, t.begin_utc_ns, t.end_utc_ns FROM {table} t JOIN streams s USING(stream) WHERE s.host = ?", (host,)))
    db.close()
    return [(a[:-2], a[-1], b[-2]) for a, b in zip(rows, rows[1:]) if a[:-2] == b[:-2] and b[-2] < a[-1]], len(rows)


def restarted(env, checks, session, windows, world, collector, name):
    with emulated.Machine(env, session, windows, name) as machine:
        world.plays(machine, f"gap={GAP}", f"present=etwagent-{name}", *([f"late=0 {LATE_MS}"] if name == "late" else []), rate=2000)
        machine.configure(collector, [{"name": name, **SMALL, **SESSIONS[name]}])
        machine.start()
        second = int(name in ("bare", "mixed"))
        machine.wait(lambda: (s := machine.sources().get(name, {}).get("session", {})).get("rundowns") == second and s["events"] > 500, "events, and existing objects")
        machine.control("stop", f"etwagent-{name}")
        machine.wait(lambda: (s := machine.sources()[name]["session"])["starts"] == 2 and s["rundowns"] == 2 * second, "the next start, and existing objects")
        machine.wait(lambda: machine.sessions()[f"etwagent-{name}"]["over"], "the trace's end")
        machine.wait(lambda: (x := machine.sources()[name])["events_acknowledged"] - x["events_synthesised"] == x["events_delivered"] == x["session"]["events"], "everything acknowledged")
        s = machine.sources()[name]["session"]
        checks.equal((s["ended_by_others"], s["lost_events"], s["dropped_events"]), (1, 0, 0), f"{name}: times that it was ended; events lost and dropped")
        checks.equal(machine.stop(), 0, f"{name}: exit code")
    events = test_rundown.exported(env, collector, name)
    completed = sorted(e["clock"] for e in events if e["name"] == test_rundown.COMPLETE)
    checks.equal(len(completed), 2 * (1 + second), f"{name}: starts that were recorded to their end, of each session")
    first, last = completed[0], completed[-1]
    now = test_rundown.open_now(collector, name)
    ended = max(e["clock"] for e in events if e["name"] == "PerfInfo/SampleProf")
    for kind in KINDS:
        was, is_there = world.truth.at(kind, first), world.truth.at(kind, last)
        before = is_there & world.truth.at(kind, last - 1)  # an object that began or ended at exactly that tick may be in the rundown, or not
        checks.that(len(was - is_there) > 5 and len(is_there - was) > 5, f"{name}: {kind}: {len(was - is_there)} went and {len(is_there - was)} came meanwhile")
        if not second or (name, kind) == ("mixed", "process"):
            wanted = world.truth.at(kind, ended)
            checks.that(now[kind] == wanted, f"{name}: {kind} in the end: {test_rundown.differ(now[kind], wanted)}")
        elif name == "bare":
            checks.that(before <= now[kind] <= is_there | world.truth.at(kind, last - 1), f"{name}: {kind}: {test_rundown.differ(now[kind], is_there)}")
        else:  # only keys of processes that existed at the rundown and still exist
            alive = {key[0] for key, begin, end in world.truth.lives["process"] if (begin is None or begin <= last) and (end is None or end > ended)}
            pid = 1 if kind == "thread" else 0
            wanted = {key for key in is_there | world.truth.at(kind, last - 1) if key[pid] in alive}
            checks.that({key for key in before if key[pid] in alive} <= now[kind] <= wanted, f"{name}: {kind}: {test_rundown.differ(now[kind], wanted)}")
        twice, count = doubles(collector, name, kind)
        checks.that(not twice and count > len(is_there), f"{name}: {kind}: {len(twice)} pairs of one key at a time, of {count}: {twice[:2]}")
    ledger = test_faults.ledger_of(collector, name)
    checks.equal((ledger["source_session_ends"], ledger.get("source_rundowns", 0), ledger.get("source_rundown_failures", 0)), (1, 2 * second, 0), f"{name}: the ledger")
    print(f"{name}: {len(events)} events, {', '.join(f'{len(now[k])} {k}' for k in KINDS)}", flush=True)


def test(env, checks, session, windows, arguments):
    env.make_certificates(list(SESSIONS))
    collector = env.new_collector().start()
    world = test_rundown.World(env, arguments.native, "machine", SCENARIO)
    for name in SESSIONS:
        if arguments.only in ("", name):
            begun = time.monotonic()
            restarted(env, checks, session, windows, world, collector, name)
            print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
