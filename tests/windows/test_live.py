#!/usr/bin/env python3
"""A real trace, played by the emulator as three live sessions of the shipped .exe (one of the kernel, two of providers),
arrives at a native collector record for record; the machine's state, and the call stacks joined to events, are those of a replay of
the file; each session's stream has its end. Two of the sessions write files of their own, too, one of them a circular one. The same of a machine
that the generator makes, with performance counters on context switches, their interrupts, and stacks.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Live sessions, on the emulator 1: What a live session delivers arrives. | a real trace as three sessions: 179,474 of 179,474 records |
#   2026-11-23
# - Live sessions, on the emulator 2: ... and gives the same state as a replay of the file. | 33 of 33 processes, 679 threads, 1,798 modules,
#   3,066 names | 2026-11-23
# - Live sessions, on the emulator 3: ... also with hardware counters. | a generated machine with 8,836 events that carry counters |
#   2026-11-23
import collections
import json
import os
import re
import sqlite3
import sys
import time

import emulated
import format_notation
import test_ended
import traces
import wine

sys.path.insert(0, str(emulated.ROOT / "tests" / "judges"))
import naive_store  # noqa: E402

TRACE = "clr-kernel-win8-x64"
PLENTY = {"buffer-size": "1MiB", "min-buffers": 64, "max-buffers": 512, "flush": "100ms"}
FOLLOWED_S = 0.05  # a session of a minute follows a wall clock that is so far off by then
FLAGS = ["PROC_THREAD", "LOADER", "DISK_IO", "DISK_IO_INIT", "HARD_FAULTS", "PROFILE", "NETWORKTRACE", "FILENAME", "CSWITCH", "DPC",
         "INTERRUPT", "MEMORY", "FILE_IO", "FILE_IO_INIT", "VIRT_ALLOC", "REGISTRY", "ALPC", "DISPATCHER", "SYSCALL", "PMC_PROFILE"]

# what the state's tables say beside times
STATE = {"threads": "tid, pid, cpu, stack_base, start_address, win32_start_address, teb, name, begin_cause, end_cause",
         "modules": "pid, base, size_bytes, default_base, checksum, timestamp, path, hex(pdb_guid), pdb_age, pdb_path, original_name, begin_cause, end_cause",
         "names": "kind, address, name"}


def providers_of(env, paths):
    """The providers of a trace that are no kernel classes, the busiest first."""
    stats = json.loads(env.run([env.agent, "stats", "--json", *paths]).stdout)
    found = collections.Counter()
    for c in stats["classes"]:
        if not c["classic"]:
            found[c["provider"]] += c["count"]
    return [p for p, _ in found.most_common()], stats["events"]


def three_sessions(providers, files):
    """One ships alone, one keeps all of it in a file as well, one the newest part."""
    return [{"name": "kernel", "kind": "system", "flags": FLAGS, **PLENTY},
            {"name": "one", "priority": "security", "providers": [{"provider": p} for p in providers[::2]], **PLENTY,
             "output": "both", "file": wine.windows_path(files[0])},
            {"name": "two", "providers": [{"provider": p} for p in providers[1::2]], **PLENTY,
             "output": "both", "file": wine.windows_path(files[1]), "circular": True, "file-size": "1MiB"}]


def same_files(env, checks, paths, providers, files):
    """The sessions' own files: all of what one session logged, and the newest of what the other did."""
    truth = [line for line in env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines()]
    for i, file in enumerate(files):
        wanted = set(providers[i::2])
        logged = [line for line in truth if json.loads(line)["provider"] in wanted]
        found = env.run([env.agent, "dump", "--format", "raw", file]).stdout.splitlines()
        whole, kept = emulated.compared(logged), emulated.compared(found)
        checks.that(not kept - whole, f"{file.name}: records that were never logged: {list(kept - whole)[:2]}")
        newest = emulated.compared(logged[-1:])
        is_right = kept == whole if i == 0 else newest - kept == collections.Counter() and (kept == whole or sum(kept.values()) < sum(whole.values()) / 2)
        checks.that(logged and is_right, f"{file.name}: {sum(kept.values())} of {sum(whole.values())} records")


def same_records(env, checks, collector, host, paths):
    truth = emulated.compared(env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines())
    stored = emulated.compared(env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw"]).stdout.splitlines())
    missing, extra = truth - stored, stored - truth
    checks.that(not missing, f"{sum(missing.values())} records are missing, such as {list(missing)[:2]}")
    checks.that(not extra, f"{sum(extra.values())} records are in the store alone, such as {list(extra)[:2]}")
    return sum(stored.values())


def state_of(collector, host, extra=()):
    return collector.ask_json("ps", "--host", host, "--all", *extra)


def processes(answer, shift):
    """A list of (members of a process, whether each of its two times is known). Times are relative to the trace's own zero."""
    found = []
    for p in answer["processes"]:
        times = [p[k] and emulated.utc(p[k]) - shift for k in ("begin", "end")]
        found.append(((p["pid"], p["ppid"], p["name"], p["command_line"], p["sid"], p["session"], p["unique_key"], p["known_by"], p["ended_by"],
                       p["exit_status"], *(t is not None for t in times)), times))
    return sorted(found, key=repr)


def shift_of(collector, host):
    """When clock 0 was, in seconds of UTC."""
    first = json.loads(collector.ask("export", "--host", host, "--format", "jsonl", "--raw", "--no-names", "--class", "Process/DCStart").splitlines()[0])
    return first["time"], first["clock"]


def rows_of(collector, host, table, columns):
    """A table of the state as a bag, without times."""
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)
    rows = collections.Counter(db.execute(f"SELECT {columns} FROM {table} JOIN streams USING(stream) WHERE host = ?", (host,)))
    db.close()
    return rows


def same_state(env, checks, collector, host, replayed, frequency):
    zero = []
    for h in (host, replayed):
        time, clock = shift_of(collector, h)
        zero.append(emulated.utc(time) - clock / frequency)
    live, file = (processes(state_of(collector, h), z) for h, z in zip((host, replayed), zero))
    checks.equal(len(live), len(file), "processes that there ever were")
    facts = [[p for p, _ in found] for found in (live, file)]
    checks.that(facts[0] == facts[1], f"processes differ: {[p for p in facts[0] if p not in facts[1]][:3]} in place of {[p for p in facts[1] if p not in facts[0]][:3]}")
    off_s = [abs(a - b) for (_, mine), (_, theirs) in zip(live, file) for a, b in zip(mine, theirs) if a is not None and b is not None]
    checks.that(max(off_s, default=0) < FOLLOWED_S and (off_s or host == "made"), f"times of processes, of which the made machine has none: {off_s} s off")
    for table, columns in STATE.items():
        mine, theirs = (rows_of(collector, h, table, columns) for h in (host, replayed))
        checks.that(sum(theirs.values()) > 20, f"{host}: {table}: {sum(theirs.values())} in the replay")
        checks.that(mine == theirs, f"{host}: {table} of the replay alone: {sum((theirs - mine).values())}, such as {list(theirs - mine)[:2]}; "
                    f"of the sessions alone: {sum((mine - theirs).values())}, such as {list(mine - theirs)[:2]}")
        print(f"{host}: {sum(mine.values())} {table}", flush=True)


def stacks_of(env, collector, host):
    """Events by class, thread and call stack, as the collector joins them."""
    found = collections.Counter()
    for line in env.run([env.collector, "query", "--store", collector.store, "--host", host, "--format", "jsonl", "--rows", "0",
                         "SELECT * FROM stacks"]).stdout.splitlines():
        row = json.loads(line)
        # the names of common opcodes are spelled by schemas that only one of the sessions holds
        found[row["name"].removesuffix("/win:Info").replace("/win:", "/"), row["tid"], tuple(frame["address"] for frame in json.loads(row["frames"]))] += row["count"]
    return found


def same_stacks(env, checks, collector, host, replayed):
    live, file = stacks_of(env, collector, host), stacks_of(env, collector, replayed)
    checks.that(sum(file.values()) > 1000, f"{sum(file.values())} events with stacks")
    checks.that(live == file, f"{host}: stacks that only the file has: {sum((file - live).values())}, such as {list(file - live)[:1]}; "
                f"that only the sessions have: {sum((live - file).values())}, such as {list(live - file)[:1]}")
    print(f"{host}: {sum(live.values())} events with {len(live)} stacks", flush=True)


def same_machine(checks, session, collector, host):
    """What the sessions say of the machine is the machine's, not that of a real-time session's header."""
    rows = [format_notation.parse(raw, "Source") for batch in naive_store.batches(collector.store) if batch.agent == host for raw in batch.envelope.sources]
    build = int(re.search(r"\d+\.\d+\.(\d+)", session.run(["cmd", "/c", "ver"]).stdout)[1])
    checks.equal({(s.pointer_size, s.cpu_count, s.os_version & 0xff, s.os_build) for s in rows}, {(8, os.cpu_count(), 10, build)}, f"{host}: pointers, processors and version")
    boots = {(s.boot_filetime - 116444736000000000) / 1e7 for s in rows}
    booted = time.time() - float(open("/proc/uptime", encoding="utf-8").read().split()[0])
    checks.that(max(boots) - min(boots) < 1 and booted - 5 < min(boots) <= time.time(), f"{host}: time of boot, this machine's or that of Wine: {boots}")


def ended(env, checks, collector, host):
    """Each session's stream has its closing batch, and nothing waits."""
    streams = test_ended.numbers(env, collector, host)
    checks.equal([[last.get(name, 0) for name in ("stream_ended", *test_ended.WAITING)] for last in streams], [[1, 0, 0, 0, 0]] * 3, f"{host}: ends of the sessions' streams")


def played(env, checks, session, windows, name, paths):
    """As three sessions of the machine of that name, and as a replay of NAME-file."""
    providers, count = providers_of(env, paths)
    count += 3 - len(paths)  # header events: of each session in place of each file
    files = [env.folder / f"{name}-{which}.etl" for which in ("one", "two")]
    collector = env.new_collector(f"{name}-collector").start()
    with emulated.Machine(env, session, windows, name) as machine:
        machine.plays(paths)
        machine.configure(collector, three_sessions(providers, files))
        machine.start()
        machine.wait_shipped(count)
        sources = machine.sources()
        checks.equal(sum(s["session"]["events"] for s in sources.values()), count, "events that the callbacks got")
        checks.equal([s["session"]["dropped_events"] for s in sources.values()], [0, 0, 0], "dropped")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
        checks.equal(machine.sessions()["etwagent-kernel"]["mode"] & 0x0A000100, 0x0A000100, "system logger, independent, real time")
        listed = session.run([machine.agent, "sessions", "--json"], environment=machine.environment)
        checks.equal(sorted((s["name"], s["mode"]) for s in json.loads(listed.stdout)),
                     sorted((s["session"]["name"], s["session"]["mode"]) for s in sources.values()), "etwagent sessions")
        printed = session.run([machine.agent, "status", "--file", wine.windows_path(machine.status_file)]).stdout
        checks.that("session kernel: reading" in printed and "in Windows etwagent-kernel: 64 to 128 buffers of 1024 KiB" in printed,
                    f"etwagent status says {printed}")
        code = machine.stop()
        checks.equal(code, 0, "exit code after Ctrl-C")
        checks.equal(machine.sessions(), {}, "sessions that are left over")
    checks.equal(same_records(env, checks, collector, name, paths), count - 3, "records stored, beside headers")
    ended(env, checks, collector, name)
    same_machine(checks, session, collector, name)
    same_files(env, checks, paths, providers, files)
    env.replay(paths, collector, agent=f"{name}-file", spool=env.folder / f"{name}-replay")
    same_state(env, checks, collector, name, f"{name}-file", emulated.frequency_of(env, paths))
    same_stacks(env, checks, collector, name, f"{name}-file")
    collector.stop()


def test(env, checks, session, windows, arguments):
    env.make_certificates(["real", "real-file", "made", "made-file"])
    played(env, checks, session, windows, "real", traces.paths(TRACE, arguments.native))
    made, scenario = env.folder / "made.etl", env.folder / "made.yaml"
    scenario.write_text("base: office\npmc: {on_switches: yes, samples_per_second: 200}\n")
    env.run([arguments.native / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--duration-ms", "2000", "--out", made])
    counters = [line for line in env.run([env.agent, "dump", "--format", "raw", made]).stdout.splitlines() if '"PMC_COUNTERS"' in line]
    checks.that(len(counters) > 1000, f"{len(counters)} events with counters in the made trace")
    played(env, checks, session, windows, "made", [made])


if __name__ == "__main__":
    emulated.main(test, __doc__)
