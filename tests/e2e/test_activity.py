"""The SQL tables of what happened over a stretch of time (thread_times, waits, wakes, thread_counters, counter_samples,
module_counters, interrupt_times, disk_times, file_times, fault_times) hold what a generated machine's truth says, to the tick; ranges add up;
with events lost they never say more than was, and differ by no more than the losses leave unknown.

# sanitizers: yes
"""
import collections
import json
import re
import struct
import subprocess

import harness
import test_dump_truth
import test_profile
import test_single_records
import test_stacks
import test_tracegen
import traces

number = test_dump_truth.number


class Asked:
    def __init__(self, env, store):
        self.command = [env.collector, "query", "--store", store, "--format", "jsonl", "--rows", "0"]

    def __call__(self, sql):
        done = subprocess.run([str(c) for c in [*self.command, sql]], capture_output=True, text=True)
        if done.returncode:
            raise harness.Failure(f"{sql}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]


class Owners:
    """Whose a thread was at a time."""

    def __init__(self, rows):
        self.begins = collections.defaultdict(list)
        for row in rows:
            if row["type"] == "thread":
                self.begins[row["tid"]].append((row["begin_raw"] or 0, row["pid"]))

    def __call__(self, tid, clock):
        return max(begin for begin in self.begins[tid] if begin[0] <= clock)[1] if tid else 0


def expected_threads(rows):
    """(pid, tid) -> sums, of all threads that had that number in turn."""
    sums = collections.defaultdict(collections.Counter)
    for row in rows:
        if row["type"] == "thread" and row["tid"]:
            for key in ("cpu_ticks", "wait_ticks", "ready_ticks", "switches", "waits", "cycles", "instructions", "cache_misses"):
                sums[row["pid"], row["tid"]][key] += row[key]
    return sums


def ns_of(row):
    return {"cpu_ticks": row["running_ns"], "ready_ticks": row["ready_ns"], "wait_ticks": row["waiting_ns"],
            "switches": row["switches"], "waits": row["waits"]}


def check_threads(checks, ask, rows, host="made"):
    machine = next(row for row in rows if row["type"] == "machine")
    tick_ns = 10 ** 9 // machine["ticks_per_second"]
    truth = expected_threads(rows)
    got = {(row["pid"], row["tid"]): ns_of(row) for row in ask(f"SELECT * FROM thread_times WHERE host = '{host}'")}
    wrong = collections.Counter()
    example = {}
    for thread, sums in truth.items():
        have = got.get(thread, collections.Counter())
        for key in ("cpu_ticks", "ready_ticks", "wait_ticks", "switches", "waits"):
            scale = tick_ns if key.endswith("ticks") else 1
            if have[key] != sums[key] * scale:
                wrong[key] += 1
                example[key] = (thread, have[key], sums[key] * scale)
    checks.that(not wrong, f"{host}: thread_times: {dict(wrong)} of {len(truth)} threads differ from the truth, such as {example}")
    checks.that(not set(got) - set(truth), f"thread_times: unknown threads: {sorted(set(got) - set(truth))[:3]}")
    waits = collections.Counter()
    for row in ask(f"SELECT pid, tid, sum(ns) AS ns FROM waits WHERE host = '{host}' GROUP BY 1, 2"):
        waits[row["pid"], row["tid"]] = row["ns"]
    checks.equal({k: v for k, v in waits.items() if v}, {k: v["wait_ticks"] for k, v in got.items() if v["wait_ticks"]},
                 "waits by reason add up to the time that threads waited")
    return truth, got


def check_unfinished(checks, ask, records, host="made"):
    """States without a recorded end, computed by a naive walk: they last to the last event, or until the thread ends or its number is reused."""
    state, want, reasons = {}, collections.Counter(), collections.Counter()

    def leave(tid, clock):
        what, since, reason = state.pop(tid, ("?", clock, 0))
        want[tid, what] += 100 * (clock - since)
        reasons[tid, reason] += 100 * (clock - since) * (what == "waiting")

    for r in records:
        fields, clock = r["fields"], r["clock"]
        if r["name"] == "Thread/CSwitch":
            old, new, old_state = fields["OldThreadId"], fields["NewThreadId"], number(fields["OldThreadState"])
            if old:
                state[old] = {5: "waiting", 4: "?"}.get(old_state, "ready"), clock, number(fields["OldThreadWaitReason"])
            if new:
                state[new] = "running", clock, 0
        elif r["name"] == "Thread/ReadyThread" and state.get(fields["TThreadId"], "?")[0] in ("?", "waiting"):
            state[fields["TThreadId"]] = "ready", clock, 0
        elif r["name"] == "Thread/Start" or (r["name"] == "Thread/End" and state.get(fields["TThreadId"], "?")[0] != "running"):
            leave(fields["TThreadId"], clock)
    for tid in list(state):
        leave(tid, max(r["clock"] for r in records))
    got = collections.Counter()
    for row in ask(f"SELECT * FROM thread_times WHERE host = '{host}'"):
        for what in ("running", "ready", "waiting"):
            got[row["tid"], what] += row[f"unfinished_{what}_ns"]
    checks.equal(+got, collections.Counter({key: ns for key, ns in want.items() if ns and key[1] != "?"}), f"{host}: intervals without a recorded end")
    checks.that(len({what for _, what in +got}) > 1, f"{host}: hardly anything is open at the end: {+got}")
    got = {(row["tid"], row["reason"]): row["ns"] for row in ask(f"SELECT tid, reason, sum(unfinished_ns) AS ns FROM waits WHERE host = '{host}' GROUP BY 1, 2") if row["ns"]}
    checks.equal(got, {key: ns for key, ns in reasons.items() if ns}, f"{host}: waits without a recorded end, by reason")


def check_wakes(checks, ask, records):
    """Who wakes whom: the last ReadyThread of a waiting thread before it runs."""
    state, running, want = {}, {}, collections.Counter()
    for r in records:
        fields = r["fields"]
        if r["name"] == "Thread/CSwitch":
            if fields["OldThreadId"]:
                state[fields["OldThreadId"]] = number(fields["OldThreadState"])
            running[r["cpu"]] = fields["NewThreadId"]
            state[fields["NewThreadId"]] = 2
        elif r["name"] == "Thread/Start":
            state.pop(fields["TThreadId"], None)
        elif r["name"] == "Thread/ReadyThread" and state.get(fields["TThreadId"]) == 5:
            waker = r["tid"] if r["tid"] != 0xFFFFFFFF else running.get(r["cpu"])
            state[fields["TThreadId"]] = 1
            if waker is not None:
                want[waker, fields["TThreadId"]] += 1
    got = {(row["waker_tid"], row["tid"]): row["count"]
           for row in ask("SELECT waker_tid, tid, sum(count) AS count FROM wakes WHERE host = 'made' GROUP BY 1, 2")}
    checks.equal(got, dict(want), "who woke whom")


def check_counters(checks, ask, truth, records):
    got = collections.defaultdict(collections.Counter)
    names = {"TotalCycles": "cycles", "InstructionRetired": "instructions", "CacheMisses": "cache_misses"}
    for row in ask("SELECT * FROM thread_counters WHERE host = 'made' AND tid <> 0"):
        got[row["pid"], row["tid"]][names[row["counter"]]] += row["value"]
    wrong = [(thread, dict(got[thread])) for thread, sums in truth.items() for key in names.values() if got[thread][key] != sums[key]]
    checks.that(not wrong, f"thread_counters: {len(wrong)} differ from the truth, such as {wrong[:1]}, {truth[wrong[0][0]] if wrong else ''}")
    totals = collections.Counter()
    for sums in truth.values():
        totals.update({key: sums[key] for key in names.values()})
    ipc = ask("SELECT sum(CASE counter WHEN 'InstructionRetired' THEN value END) * 1.0 / sum(CASE counter WHEN 'TotalCycles' THEN "
              "value END) AS ipc FROM thread_counters WHERE host = 'made' AND tid <> 0")[0]["ipc"]
    checks.that(abs(ipc - totals["instructions"] / totals["cycles"]) < 1e-9, f"instructions per cycle: {ipc}")
    want = collections.Counter((r["fields"]["ThreadId"], number(r["fields"]["ProfileSource"])) for r in records
                               if r["name"] == "PerfInfo/PmcCounterProf")
    got = {(row["tid"], row["source"]): row["n"]
           for row in ask("SELECT tid, source, sum(samples) AS n FROM counter_samples WHERE host = 'made' GROUP BY 1, 2")}
    checks.equal(got, dict(want), "counter samples by thread and source")
    checks.equal(ask("SELECT count(*) AS n FROM counter_problems WHERE host = 'made'")[0]["n"], 0, "problems of counters without any")


def check_modules(checks, ask, rows, records):
    """Counter samples by program and module, each put where its address was then; times their interval."""
    truth, owner = test_profile.Truth(rows), Owners(rows)
    want, interval, events = collections.Counter(), {}, collections.Counter()
    for r in records:
        fields = r["fields"]
        if r["name"] in ("PerfInfo/SetInterval", "PerfInfo/CollectionStart"):
            interval[number(fields["Source"])] = number(fields["NewInterval"])
        if r["name"] != "PerfInfo/PmcCounterProf":
            continue
        pid = owner(fields["ThreadId"], r["clock"])
        label = truth.label(pid, int(fields["InstructionPointer"], 16), r["clock"])
        key = pid, label.rsplit("+", 1)[0] if "+" in label else None, number(fields["ProfileSource"])
        known = interval.get(number(fields["ProfileSource"]), 0)
        want[*key, known > 0] += 1
        events[*key, known > 0] += known
    got = {(row["pid"], row["module"], row["source"], row["events"] is not None): (row["samples"], row["events"])
           for row in ask("SELECT * FROM module_counters WHERE host = 'made'")}
    checks.equal(got, {key: (n, events[key] if key[3] else None) for key, n in want.items()}, "counter samples by module")
    checks.that(len({key[1] for key in got}) > 2, "counter samples of hardly a module")


SAMPLE_HEADER, COUNTER_HOOK = re.compile(rb"(..\x11\xc0\x20\x00)\x2e\x0f", re.S), b"\x2f\x0f"


def check_methods(env, checks, collector, ask):
    """Counter samples by .NET method: a real trace of a machine that runs .NET, whose samples of the processor are made samples of a counter
    (the payloads of the two are alike but for what is read as the counter's number)."""
    if not checks.real("activity: counter samples in .NET methods"):
        return
    path = env.folder / "methods.etl"
    path.write_bytes(SAMPLE_HEADER.sub(lambda found: found[1] + COUNTER_HOOK, traces.paths("clr-kernel-win8-x64", env.build)[0].read_bytes()))
    env.replay([path], collector, agent="methods", spool=env.folder / "methods-spool")
    records = test_stacks.records(env.agent, [path])
    modules, want = test_profile.NaiveModules(records), collections.Counter()
    for r in records:
        if r["name"] == "PerfInfo/PmcCounterProf":
            address, tid = int(r["fields"]["InstructionPointer"], 0), r["fields"]["ThreadId"]
            method = None if address >> 63 or not tid else modules.method(modules.threads.get(tid), address, r["clock"])
            want[method, f"{address:#x}" if method and modules.find(modules.threads[tid], address, r["clock"])[0] == "[JIT]" else None] += 1
    got = collections.Counter()
    for row in ask("SELECT method, module, offset, samples FROM code_counters WHERE host = 'methods'"):
        got[row["method"], row["offset"] if row["method"] and row["module"] is None else None] += row["samples"]
    checks.equal(got, want, "counter samples by .NET method, and by the address of code that the runtime made")
    checks.that(sum(n for (method, _), n in want.items() if method) > 10, f"samples in hardly a method: {want}")


def check_compact(env, checks, collector, ask):
    """Compact context switches: who ran for how long, over records of a CPU."""
    tids = [0, 1004, 1008, 1012] + [0] * 12

    def packets(first, switches):
        body = b""
        for tid, ticks in switches:
            if tid:  # Lite: thread, priority, state, time
                body += struct.pack("<I", 2 | tids.index(tid) << 2 | 1 << 6 | 5 << 9 | ticks << 15)
            else:
                body += struct.pack("<H", ticks << 2)
        return struct.pack("<q", first) + struct.pack("<16I", *tids) + bytes([8] * 16) + body

    parts = [(100, [(1004, 10), (1008, 25), (0, 50), (1012, 7)]), (400, [(1004, 100), (1008, 3)])]
    path = env.folder / "compact.etl"
    path.write_bytes(test_single_records.trace([test_single_records.system_record(5, 37, 2, packets(*part), part[0] + 300) for part in parts]))
    env.replay([path], collector, agent="compact", spool=env.folder / "compact-spool")
    ran, switched, since = collections.Counter(), collections.Counter(), None
    for first, switches in parts:
        clock = first
        for tid, ticks in switches:
            clock += ticks
            switched[tid] += since is not None  # the one before it switched to this thread
            ran[tid] += clock - since if since is not None else 0
            since = clock
    got = {row["tid"]: (row["running_ns"], row["switches"], row["ready_ns"], row["waiting_ns"], row["waits"])
           for row in ask("SELECT * FROM thread_times WHERE host = 'compact'")}
    checks.equal(got, {tid: (100 * ran[tid], n, 0, 0, 0) for tid, n in switched.items() if tid}, "threads of compact context switches")
    checks.that(len(got) == 3, f"compact context switches: {got}")


def check_latencies(checks, ask, rows, records):
    tick = 100  # ns: the trace's clock has 10 MHz
    truth, owner = test_profile.Truth(rows), Owners(rows)
    want, drivers = collections.Counter(), collections.Counter()
    for r in records:
        kind = {"PerfInfo/ISR": "isr", "PerfInfo/DPC": "dpc", "PerfInfo/TimerDPC": "timer_dpc", "PerfInfo/ThreadedDPC": "threaded_dpc"}
        if r["name"] in kind:
            took = (r["clock"] - number(r["fields"]["InitialTime"])) * tick
            want[kind[r["name"]], r["fields"]["Routine"], r["cpu"]] += took
            drivers[kind[r["name"]], truth.label(0, int(r["fields"]["Routine"], 16), r["clock"]).rpartition("+")[0]] += took
    got = {(row["kind"], row["routine"], row["cpu"]): row["ns"] for row in ask("SELECT * FROM interrupt_times WHERE host = 'made'")}
    checks.equal(got, dict(want), "time in interrupts and DPCs")
    got = {(row["kind"], row["module"]): row["ns"]
           for row in ask("SELECT kind, module, sum(ns) AS ns FROM interrupt_times WHERE host = 'made' GROUP BY 1, 2")}
    checks.equal(got, dict(drivers), "time in interrupts and DPCs by driver")
    checks.that(len({driver for _, driver in got}) > 1, f"interrupts of hardly a driver: {got}")
    disk, disk_bytes = collections.Counter(), collections.Counter()
    files, begun, faults = collections.Counter(), {}, collections.Counter()
    for r in records:
        fields, name = r["fields"], r["name"]
        if name in ("DiskIo/Read", "DiskIo/Write", "DiskIo/FlushBuffers"):
            who = owner(fields["IssuingThreadId"], r["clock"]) if "IssuingThreadId" in fields else None
            disk[who, fields.get("FileObject", "0x0")] += number(fields["HighResResponseTime"]) * tick
            disk_bytes[fields.get("FileObject", "0x0")] += fields.get("TransferSize", 0)
        elif name == "FileIo/OperationEnd":
            if fields["IrpPtr"] in begun:
                start, who, file_object = begun.pop(fields["IrpPtr"])
                files[who, file_object] += (r["clock"] - start) * tick
        elif name.startswith("FileIo/") and "IrpPtr" in fields:
            begun[fields["IrpPtr"]] = r["clock"], owner(fields["TTID"], r["clock"]), fields["FileObject"]
        elif name == "PageFault/HardFault":
            faults[owner(fields["TThreadId"], r["clock"]), fields["FileObject"]] += (r["clock"] - number(fields["InitialTime"])) * tick
    for table, want in (("disk_times", disk), ("file_times", files), ("fault_times", faults)):
        got = {(row["pid"], row["file_object"]): row["ns"]
               for row in ask(f"SELECT pid, u64_text(file_object) AS file_object, sum(ns) AS ns FROM {table} WHERE host = 'made' GROUP BY 1, 2")}
        checks.equal(got, dict(want), f"{table} by process and file object")
        checks.that(want, f"the trace has nothing for {table}")
    got = {row["file_object"]: row["n"] for row in
           ask("SELECT u64_text(file_object) AS file_object, sum(bytes) AS n FROM disk_times WHERE host = 'made' GROUP BY 1")}
    checks.equal(got, dict(disk_bytes), "bytes of disk requests by file object")
    issued = {r["fields"]["Irp"]: r["pid"] for r in records if r["name"] == "DiskIo/ReadInit"}
    checks.that(issued, "no disk request begins")
    names = {row["file"] for row in ask("SELECT DISTINCT file FROM disk_times WHERE host = 'made' AND file IS NOT NULL")}
    expected = {test_profile.base_name(row["name"]) for row in rows if row["type"] == "name"}
    checks.that(names and {test_profile.base_name(n) for n in names} <= expected, "files of disk requests have other names than the truth's")


def check_ranges(checks, ask, rows, got):
    machine = next(row for row in rows if row["type"] == "machine")
    cut = test_profile.rfc3339((machine["start_utc_ns"] + machine["end_utc_ns"]) // 2)
    sums = collections.defaultdict(collections.Counter)
    for range_of in (f"NULL, '{cut}'", f"'{cut}'"):
        part = ask(f"SELECT * FROM thread_times({range_of}) WHERE host = 'made'")
        checks.that(part, f"nothing in the range {range_of}")
        for row in part:
            sums[row["pid"], row["tid"]].update(ns_of(row))
    wrong = [(k, dict(sums[k]), v) for k, v in got.items() if +sums[k] != +collections.Counter(v)]
    checks.that(not wrong and len(sums) == len(got), f"two halves of the time do not add up for {len(wrong)} threads, such as {wrong[:1]}")
    for table in ("interrupt_times", "disk_times", "file_times", "fault_times", "waits", "wakes", "counter_samples"):
        for column in {"wakes": ("count", "waited_ns"), "counter_samples": ("samples",)}.get(table, ("count", "ns")):
            parts = [ask(f"SELECT coalesce(sum({column}), 0) AS n FROM {table}({r}) WHERE host = 'made'")[0]["n"]
                     for r in ("NULL, NULL", f"NULL, '{cut}'", f"'{cut}'")]
            checks.equal(parts[1] + parts[2], parts[0], f"two halves of {table} add up: {column}")


def check_problems(env, checks, collector, ask):
    """What Windows says of counters that are wrong, and counts that cannot be: each is one row."""
    corruption = struct.pack("<IIIQ", 5, 1, 10, 0)  # processor, counters, source, last good time

    def switched(clock, old, new, counts):
        """A context switch under a header with counters, as PerfInfoTraceHeaderExtPmc is."""
        payload = struct.pack("<IIBBBBBBBBII", new, old, 9, 8, 0, 0, 31, 0, 1, 2, 31, 0)  # Thread/CSwitch, version 4
        # version 4 and two counters; type 17 (PERFINFO64), marker; size; opcode 36 of group 5
        header = struct.pack("<HBBHBBq2Q", 4 | 2 << 8, 17, 0xC0, 32 + len(payload), 36, 5, clock, *counts)
        return header + payload

    # two samples of a counter whose interval and name are recorded
    interval = struct.pack("<III", 10, 65536, 0) + "CacheMisses\0".encode("utf-16le")
    samples = [test_single_records.system_record(15, 47, 2, struct.pack("<QIHH", 0x1000 + at, 8, 10, 0), 41 + at) for at in range(2)]
    path = env.folder / "problems.etl"
    path.write_bytes(test_single_records.trace([
        switched(10, 4, 8, (100, 1000)), switched(20, 8, 4, (150, 1100)),   # thread 8: 50 and 100
        switched(30, 4, 8, (140, 1300)),                                     # thread 4: its first counter went backwards, the other one counted 200
        switched(40, 12, 4, (160, 1400)),                                    # the switch to thread 12 is missing
        test_single_records.system_record(15, 72, 3, interval, 40), *samples,
        test_single_records.system_record(15, 49, 2, corruption, 50)]))
    env.replay([path], collector, agent="broken", spool=env.folder / "broken-spool")
    got = sorted((row["problem"], row["source"], row["count"]) for row in ask("SELECT * FROM counter_problems WHERE host = 'broken'"))
    checks.equal(got, [("a counter went backwards", 0, 1), ("a switch is missing", None, 1), ("corruption", 10, 1)],
                 "problems of counters")
    checks.equal([row["cpu"] for row in ask("SELECT cpu FROM counter_problems WHERE problem = 'corruption' AND host = 'broken'")], [5],
                 "the processor whose counters are wrong")
    got = sorted((row["tid"], row["number"], row["value"]) for row in ask("SELECT * FROM thread_counters WHERE host = 'broken'"))
    checks.equal(got, [(4, 1, 200), (8, 0, 50), (8, 1, 100)], "what counters without problems counted")
    # Windows refused one of three counters: the counts have no names, and each switch is reported as a problem
    config = struct.pack("<I", 3) + "TotalCycles\0InstructionRetired\0CacheMisses\0".encode("utf-16le")
    path = env.folder / "refused.etl"
    path.write_bytes(test_single_records.trace([test_single_records.system_record(15, 48, 2, config, 5), switched(10, 4, 8, (100, 1000)),
                                                switched(20, 8, 4, (150, 1100))]))
    env.replay([path], collector, agent="refused", spool=env.folder / "refused-spool")
    got = [(row["tid"], row["number"], row["counter"], row["value"]) for row in ask("SELECT * FROM thread_counters WHERE host = 'refused'")]
    checks.equal(got, [(8, 0, None, 50), (8, 1, None, 100)], "counters of which one was refused have no names")
    got = [(row["problem"], row["count"]) for row in ask("SELECT * FROM counter_problems WHERE host = 'refused'")]
    checks.equal(got, [("not the counters that were configured", 2)], "a refused counter is a problem")
    check_changed(env, checks, collector, ask, switched)
    got = [(row["module"], row["source"], row["source_name"], row["samples"], row["events"])
           for row in ask("SELECT * FROM module_counters WHERE host = 'broken'")]
    checks.equal(got, [(None, 10, "CacheMisses", 2, 131072)], "counter samples times their interval")
    # samples of a counter whose interval no event says: the sum is unknown, not 0
    path = env.folder / "unknown.etl"
    path.write_bytes(test_single_records.trace(samples[:1]))
    env.replay([path], collector, agent="unknown", spool=env.folder / "unknown-spool")
    got = ask("SELECT sum(samples) AS samples, sum(events) AS events, count(*) AS n FROM module_counters WHERE host = 'unknown'")
    checks.equal(got, [{"samples": 1, "events": None, "n": 1}], "events of samples whose interval is unknown")
    checks.equal(ask("SELECT interval, samples FROM counter_samples WHERE host = 'unknown'"), [{"interval": None, "samples": 1}], "an unknown interval")


def rows_of_losses(env, collector, agent, windows, events):
    """The truth of a machine that loses something for 3 ms sixteen times in 0.6 s, as it is replayed."""
    scenario = env.folder / f"{agent}.yaml"
    scenario.write_text(f"base: stacks\nsummary: lost\nduration_ms: 600\nloss: {{{windows}: 16, lasts_us: 3000}}\n"
                        "stacks: {keys: no, of: {syscalls: 0, files: 0, disk: 0, memory: 0, threads: 0}}\n"
                        f"session: {{events: [{events}]}}\n")
    trace, truth = test_tracegen.generate(env.build, env.folder, agent, "--preset", scenario)
    env.replay([trace], collector, agent=agent, spool=env.folder / f"{agent}-spool")
    return test_tracegen.rows(truth)


def check_lost_buffers(env, checks, collector, ask):
    """Whole buffers are lost with unknown content. The times of a thread exceed the truth at most by the length of a loss, and times without
    a recorded end are kept apart as unfinished."""
    rows = rows_of_losses(env, collector, "buffers", "buffers_windows", "process, thread, image, cswitch, readythread, config, stack, lost")
    losses = [row for row in rows if row["type"] == "loss"]
    expected, got, left = expected_threads(rows), collections.defaultdict(collections.Counter), collections.Counter()
    for row in ask("SELECT * FROM thread_times WHERE host = 'buffers'"):
        got[row["pid"], row["tid"]].update(ns_of(row))
        left.update(cpu_ticks=row["unfinished_running_ns"], ready_ticks=row["unfinished_ready_ns"], wait_ticks=row["unfinished_waiting_ns"])
    checks.that(len(losses) > 10, f"hardly a buffer is lost: {losses}")
    for key in ("cpu_ticks", "ready_ticks", "wait_ticks"):
        want, have = (sum(sums[key] for sums in table.values()) for table in (expected, got))
        # Where a wake-up was lost, the wait is taken to last until the thread runs. That is before the loss is reported, so the excess is at most the length of a loss.
        beyond = {thread: got[thread][key] - 100 * sums[key] for thread, sums in expected.items() if got[thread][key] > 100 * sums[key] + 3_000_000}
        checks.that(have and not beyond, f"with {len(losses)} times buffers lost, {key} of {len(beyond)} threads are far more than in truth, such as {list(beyond.items())[:1]}")
        checks.that(left[key] > 0, f"with {len(losses)} times buffers lost, none of {want} {key} are unfinished")


def check_changed(env, checks, collector, ask, switched):
    """Other counters in mid-stream, and events of any class with counters: each value has the name that was its own then."""
    def config(clock, *names):
        return test_single_records.system_record(15, 48, 2, struct.pack("<I", len(names)) + "".join(n + "\0" for n in names).encode("utf-16le"), clock)

    def counted(clock, opcode, version, payload, *counts):
        """A record of PerfInfo under a header with counters."""
        return struct.pack("<HBBHBBq", version | len(counts) << 8, 17, 0xC0, 16 + 8 * len(counts) + len(payload), opcode, 15, clock) + \
            struct.pack(f"<{len(counts)}Q", *counts) + payload

    plain = test_single_records.system_record(5, 36, 4, struct.pack("<II", 8, 4) + bytes(16), 65)
    sample = struct.pack("<QIHH", 0x1000, 8, 1, 0)
    path = env.folder / "changed.etl"
    path.write_bytes(test_single_records.trace([
        switched(10, 4, 8, (100, 1000)),                                     # before the first configuration: the counts get the names of the first one
        config(15, "TotalCycles", "CacheMisses"), switched(20, 8, 4, (150, 1100)),
        config(25, "TotalCycles", "CacheMisses"), switched(30, 4, 8, (160, 1130)),  # the same again
        counted(35, 46, 2, sample, 170, 1140), counted(36, 46, 2, sample, 171),
        config(40, "BranchMispredictions", "TotalCycles"), switched(50, 8, 4, (500, 2000)),  # the thread that ran before this switch is unknown
        switched(60, 4, 8, (507, 2011)), plain, switched(70, 4, 8, (600, 2100)), switched(80, 8, 4, (602, 2105)),
        config(85, "TotalCycles", "CacheMisses"), switched(90, 4, 8, (900, 3000)), switched(95, 8, 4, (901, 3003))]))
    env.replay([path], collector, agent="changed", spool=env.folder / "changed-spool")
    got = sorted((row["tid"], row["counter"], row["number"], row["value"], row["stretches"])
                 for row in ask("SELECT * FROM thread_counters WHERE host = 'changed'"))
    checks.equal(got, [(4, "BranchMispredictions", 0, 7, 1), (4, "CacheMisses", 1, 30, 1), (4, "TotalCycles", 0, 10, 1), (4, "TotalCycles", 1, 11, 1),
                       (8, "BranchMispredictions", 0, 2, 1), (8, "CacheMisses", 1, 103, 2), (8, "TotalCycles", 0, 51, 2), (8, "TotalCycles", 1, 5, 1)],
                 "counters of which others were configured in between")
    got = sorted((row["problem"], row["count"]) for row in ask("SELECT * FROM counter_problems WHERE host = 'changed'"))
    checks.equal(got, [("a switch without counters", 1), ("other counters from here on", 2)], "problems of counters that change")
    cut = ask("SELECT time FROM events WHERE host = 'changed' AND clock = 65")[0]["time"]
    parts = [sum(row["count"] for row in ask(f"SELECT * FROM counter_problems({r}) WHERE host = 'changed'")) for r in (f"NULL, '{cut}'", f"'{cut}'")]
    checks.equal(parts, [1, 2], "problems of counters by range")
    got = [(row["name"], row["clock"], row["counters"]) for row in
           ask("SELECT name, clock, counters FROM events WHERE host = 'changed' AND clock > 30 AND clock < 61 ORDER BY clock")]
    checks.equal(got, [("PerfInfo/SampleProf", 35, '{"TotalCycles":170,"CacheMisses":1140}'), ("PerfInfo/SampleProf", 36, "[171]"),
                       ("PerfInfo/PmcCtrConfig", 40, None), ("Thread/CSwitch", 50, '{"BranchMispredictions":500,"TotalCycles":2000}'),
                       ("Thread/CSwitch", 60, '{"BranchMispredictions":507,"TotalCycles":2011}')], "counters of single events")
    # a name is cut at 64 characters, and after 4,096 changes the counters have no names
    often = [config(10 + i, ("Even", "Odd")[i % 2] + "x" * 70, "Second") for i in range(4096)]
    path.write_bytes(test_single_records.trace([*often, counted(5000, 46, 2, sample, 1, 2), config(5001, "Third", "Second"), counted(5002, 46, 2, sample, 3, 4),
                                                config(5003, "Third", "Second"), counted(5004, 46, 2, sample, 5, 6)]))
    env.replay([path], collector, agent="often", spool=env.folder / "often-spool")
    got = [row["counters"] for row in ask("SELECT counters FROM \"PerfInfo/SampleProf\" WHERE host = 'often' ORDER BY clock")]
    checks.equal(got, ['{"Odd' + "x" * 61 + '":1,"Second":2}', "[3,4]", "[5,6]"], "counters whose names change too often")


def check_losses(env, checks, collector, ask):
    """Processors lose their events for 3 ms at a time, one event in a hundred: each lost event costs at most the data that it held."""
    rows = rows_of_losses(env, collector, "lossy", "events_windows", "process, thread, image, cswitch, readythread, config, sample, pmc, stack, lost")
    machine, totals = (next(row for row in rows if row["type"] == what) for what in ("machine", "totals"))
    windows = sum(1 for row in rows if row["type"] == "loss")
    ledger = json.loads(collector.ask("ledger", "--host", "lossy", "--json"))["streams"][0]
    lost = next(c["value"] for c in ledger["counters"] if c["name"] == "source_events_lost")
    checks.equal(lost, totals["events_lost"], "lost events in the ledger")
    checks.that(0.005 <= lost / totals["events"] <= 0.02, f"{lost} of {totals['events']} events are lost, not about 1 %")
    check_lossy_stacks(checks, ask, rows, lost)
    expected, got = collections.Counter(), collections.Counter()
    for sums in expected_threads(rows).values():
        expected.update(sums)
    for row in ask("SELECT * FROM thread_times WHERE host = 'lossy'"):
        got.update(ns_of(row))
    checks.that(expected["switches"] - lost <= got["switches"] < expected["switches"], f"with {lost} events lost there are {got['switches']} "
                f"switches of {expected['switches']}")
    # a loss costs the time of each CPU from its last switch before the loss to its first switch after it: the thread that ran is unknown
    checks.that(0.6 * expected["cpu_ticks"] * 100 <= got["cpu_ticks"] <= expected["cpu_ticks"] * 100, f"with {windows} losses threads ran "
                f"{got['cpu_ticks']} ns of {expected['cpu_ticks'] * 100} ns ({machine['cpus']} CPUs)")
    for counter, name in (("TotalCycles", "cycles"), ("InstructionRetired", "instructions"), ("CacheMisses", "cache_misses")):
        row = ask(f"SELECT sum(value) AS value, sum(stretches) AS n FROM thread_counters WHERE host = 'lossy' AND tid <> 0 AND counter = '{counter}'")[0]
        # a lost switch costs the stretches before and after it; where events were lost, no thread's counts are known
        least = expected["switches"] - 2 * lost - (windows + 1) * machine["cpus"]
        checks.that(least <= row["n"] < expected["switches"] and 0 < row["value"] <= expected[name], f"{counter}: {row['n']} stretches of "
                    f"{expected['switches']} (at least {least}), {row['value']} of {expected[name]}")


def check_lossy_stacks(checks, ask, rows, lost):
    """A lost event spoils one event's stack: that of its own, or that which it was a half of."""
    frames = {row["id"]: row["addresses"] for row in rows if row["type"] == "frames"}
    stacks, want, got = collections.defaultdict(dict), collections.Counter(), collections.Counter()
    names = {"samples": "PerfInfo/SampleProf", "pmc": "PerfInfo/PmcCounterProf", "cswitch": "Thread/CSwitch", "readythread": "Thread/ReadyThread"}
    for row in rows:
        if row["type"] == "stack":
            stacks[row["of"], row["event_raw"], row["cpu"], row["tid"]][row["half"]] = frames[row["frames"]]
    for (of, *_), halves in stacks.items():
        want[names[of], tuple(int(a, 16) for half in ("kernel", "user") for a in halves.get(half, ()))] += 1
    for row in ask("SELECT name, frames, count FROM stacks WHERE host = 'lossy'"):
        got[row["name"], tuple(int(f["address"], 16) for f in json.loads(row["frames"]))] += row["count"]
    missing, wrong = sum((want - got).values()), sum((got - want).values())
    checks.that(0 < missing <= lost and wrong <= missing, f"with {lost} events lost {missing} of {sum(want.values())} events lack their stack, "
                f"{wrong} have another one")
    print(f"{lost} events lost: {missing} of {sum(want.values())} events lack their stack, {wrong} have a half of it")


def check_late_halves(env, checks, collector, ask):
    """User halves that come by match id are at their events in the store, too, as addresses and by key."""
    keyed = env.folder / "late-keyed.yaml"
    keyed.write_text("base: late-halves\nstacks: {keys: yes, header_keys: yes, key_cache: 48}\n", encoding="utf-8")
    for name, preset in (("late", "late-halves"), ("late-keyed", keyed)):
        check_late(env, checks, collector, ask, name, preset)


def check_late(env, checks, collector, ask, name, preset):
    trace, truth = test_tracegen.generate(env.build, env.folder, name, "--preset", preset, "--duration-ms", "500")
    env.replay([trace], collector, agent=name, spool=env.folder / f"{name}-spool", extra=["--batch-events", "3000"])
    rows = test_tracegen.rows(truth)
    frames = {row["id"]: row["addresses"] for row in rows if row["type"] == "frames"}
    stacks, want, got = collections.defaultdict(dict), collections.Counter(), collections.Counter()
    for row in rows:
        if row["type"] == "stack":
            stacks[row["of"], row["event_raw"], row["cpu"], row["tid"]][row["half"]] = frames[row["frames"]]
    for halves in stacks.values():
        want[tuple(int(a, 16) for half in ("kernel", "user") for a in halves.get(half, ()))] += 1
    for row in ask(f"SELECT frames, count FROM stacks WHERE host = '{name}'"):
        got[tuple(int(f["address"], 16) for f in json.loads(row["frames"]))] += row["count"]
    late = sum("match_id" in row and row["half"] == "user" for row in rows)
    missing, more = sum((want - got).values()), sum((got - want).values())
    checks.that(late > 50 and not missing and not more, f"{name}: with {late} late halves {missing} of {sum(want.values())} stacks in the store are "
                f"missing, {more} are not in the truth")


def test(env, checks, arguments):
    env.make_certificates(("methods", "made", "late", "late-keyed", "reused", "lossy", "buffers", "broken", "compact", "refused", "changed", "often", "unknown"))
    collector = env.new_collector().start()
    trace, truth = test_tracegen.generate(env.build, env.folder, "stacks", "--preset", "stacks", "--duration-ms",
                                          "3000" if arguments.soak else "500")
    env.replay([trace], collector, agent="made", spool=env.folder / "made-spool", extra=["--batch-events", "3000"])
    ask, rows, records = Asked(env, collector.store), test_tracegen.rows(truth), test_stacks.records(env.agent, [trace])
    expected, got = check_threads(checks, ask, rows)
    check_unfinished(checks, ask, records)
    check_wakes(checks, ask, records)
    check_counters(checks, ask, expected, records)
    check_latencies(checks, ask, rows, records)
    check_ranges(checks, ask, rows, got)
    check_modules(checks, ask, rows, records)
    check_methods(env, checks, collector, ask)
    check_compact(env, checks, collector, ask)
    check_problems(env, checks, collector, ask)
    check_losses(env, checks, collector, ask)
    check_lost_buffers(env, checks, collector, ask)
    check_late_halves(env, checks, collector, ask)
    scenario = env.folder / "reused.yaml"
    scenario.write_text(test_stacks.VARIANTS["reused"], encoding="utf-8")
    trace, truth = test_tracegen.generate(env.build, env.folder, "reused", "--preset", scenario, "--duration-ms", "4000")
    env.replay([trace], collector, agent="reused", spool=env.folder / "reused-spool")
    check_threads(checks, ask, test_tracegen.rows(truth), "reused")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
