"""What threads did, and what disks, files, faults, interrupts and the network did for whom, out of the records of one trace: one walk a
question, with dictionaries, by the text of collector/query/SQL.md. Times are ns; whose a number was then says naive_state.Machine.
"""
import collections

from naive_state import number

ANY = 0xFFFFFFFF
RUNNING, READY, WAITING = "running", "ready", "waiting"
LOSSES = ("LostEvent/RTLostEvent", "LostEvent/RTLostBuffer", "LostEvent/RTLostFile")
INTERRUPTS = {"PerfInfo/ISR": "isr", "PerfInfo/ISR-MSI": "isr", "PerfInfo/ISR-PASS": "isr", "PerfInfo/DPC": "dpc", "PerfInfo/TimerDPC": "timer_dpc",
              "PerfInfo/ThreadedDPC": "threaded_dpc"}
OPERATIONS = {"Create": "create", "Cleanup": "cleanup", "Close": "close", "Read": "read", "Write": "write", "SetInfo": "set_info", "Delete": "delete",
              "Rename": "rename", "DirEnum": "dir_enum", "Flush": "flush", "QueryInfo": "query_info", "FSControl": "fs_control"}
DISK = {"DiskIo/Read": "read", "DiskIo/Write": "write", "DiskIo/FlushBuffers": "flush"}
NETWORK = {f"{kind}/{way}IPV{v}": way for kind in ("TcpIp", "UdpIp") for way in ("Recv", "Send") for v in (4, 6)}


class Clock:
    """Raw ticks of a trace's clock as ns since 1970, by the pair that its Source message has."""

    def __init__(self, source):
        self.frequency, self.pair = source.frequency, source.clock_pairs[0]

    def ns(self, raw):
        return self.pair.utc_ns + (raw - self.pair.raw) * 10**9 // self.frequency


class Whose:
    """Whose a number was: of the process or thread that had it then, else of the last one that had it before, else of the first one. Instances of a number
    follow each other, so that the first two are the last one that had begun."""

    def __init__(self, machine):
        self.of = collections.defaultdict(list)
        for i in machine.instances:
            self.of[i.kind, i.values["tid"] if i.kind == "thread" else i.key].append(i)

    def instance(self, kind, key, record):
        begun = [i for i in self.of[kind, key] if i.from_key <= (record["units"], record["clock"])]
        return begun[-1] if begun else self.of[kind, key][0] if self.of[kind, key] else None

    def process(self, pid, record):
        """(number of the instance or None, pid)"""
        i = self.instance("process", pid, record)
        return i and i.number, pid

    def thread(self, tid, record):
        """The same of the process that the thread belongs to; thread 0 is Idle's."""
        if tid == 0:
            return self.process(0, record)
        i = self.instance("thread", tid, record)
        return self.process(i.values["pid"], record) if i else (None, ANY)


def marks_of(records, ns):
    """{tid: what events say of the thread, in their order: (what, record, time, CPU, number)}, by the text of "What happened over a stretch of time". What:
    on, off (number: its state, and the reason of its wait), ready (number: who made it ready), begin, end, lost."""
    marks, on = collections.defaultdict(list), {}
    for record in records:
        fields, name, cpu, now = record["fields"], record["name"], record["cpu"], ns(record["clock"])
        if name == "Thread/CSwitch":
            new, old = fields["NewThreadId"], fields["OldThreadId"]
            if on.get(cpu, old) != old:
                marks[on[cpu]].append(("lost", record, now, cpu, None))  # the switch to the old thread is missing
            marks[old].append(("off", record, now, cpu, (number(fields["OldThreadState"]), number(fields["OldThreadWaitReason"]))))
            marks[new].append(("on", record, now, cpu, None))
            on[cpu] = new
        elif name == "Thread/ReadyThread":
            marks[fields["TThreadId"]].append(("ready", record, now, cpu, record["tid"] if record["tid"] != ANY else on.get(cpu)))
        elif name in ("Thread/Start", "Thread/End"):
            marks[fields["TThreadId"]].append((name[7:].replace("Start", "begin").lower(), record, now, cpu, None))
        elif name in LOSSES:
            on = {}
            for tid in marks:
                marks[tid].append(("loss", record, now, cpu, None))
    marks.pop(0, None)  # each CPU has an idle thread of its own
    return marks


def scheduled(records, ns):
    """(tid, state, reason, begin record, end in ns, waker or None, whether its end was seen) of every stretch of a thread, and (tid,
    record, what) of every switch to it and every wait that it began. A stretch is what lies between two marks of a thread."""
    stretches, counts, last = [], [], max(ns(record["clock"]) for record in records)
    for tid, marks in marks_of(records, ns).items():
        state, first, of_cpu, reason = None, None, None, 0
        for what, record, now, cpu, value in [*marks, ("over", None, last, None, None)]:
            if what == "ready" and state in (RUNNING, READY) or what == "end" and state == RUNNING or what == "lost" and (state, of_cpu) != (RUNNING, cpu):
                continue  # it says nothing new: a thread that runs is not waited for, and its last switch ends it
            # what an event contradicts has an end that no event says: nothing of it counts
            is_known = state and not (what == "off" and (state, of_cpu) != (RUNNING, cpu)) and not (what == "on" and state == RUNNING) and what != "lost"
            if is_known:
                stretches.append((tid, state, reason, first, now, value if what == "ready" else None, what in ("on", "off", "ready")))
            state, first, of_cpu, reason = {"on": RUNNING, "ready": READY}.get(what), record, cpu, 0
            if what == "off" and value[0] != 4:  # 5: waits; 4: has ended; any other: would run
                state, reason = (WAITING if value[0] == 5 else READY), value[1]
            if what == "on":
                counts.append((tid, record, "switches"))
            elif what == "off" and value[0] == 5:
                counts.append((tid, record, "waits"))
    return stretches, counts


def thread_tables(records, whose, ns, low, high):
    """thread_times, waits and wakes of the time from low to high (ns): {key: sums}."""
    times, waits, wakes = (collections.defaultdict(collections.Counter) for _ in range(3))
    stretches, counts = scheduled(records, ns)
    for tid, what, reason, first, end, waker, seen in stretches:
        began = ns(first["clock"])
        begin, until = max(began, low), min(end, high)
        if end < low or began >= high:
            continue
        moment = first if began >= low else {"units": low // 100, "clock": 1 << 62}
        who, length = (*whose.thread(tid, moment), tid), until - begin
        if not seen:
            if length:
                times[who][f"unfinished_{what}_ns"] += length
                if what == WAITING:
                    waits[(*who, reason)]["unfinished_ns"] += length
            continue
        times[who][f"{what}_ns"] += length
        if what == WAITING:
            row = waits[(*who, reason)]
            row["count"] += low <= end < high  # the wait is of the range in which it ended, its time of all
            row["ns"] += length
            row["max_ns"] = max(row["max_ns"], length)
            if waker is not None and low <= end < high:
                by = whose.thread(waker, {"units": end // 100, "clock": 1 << 62})
                wakes[(*by, waker, *who)].update(count=1, waited_ns=max(end - began, 0))
    for tid, record, what in counts:
        if low <= ns(record["clock"]) < high:
            times[(*whose.thread(tid, record), tid)][what] += 1
    return times, waits, wakes


def disk_requests(records, whose):
    """{ordinal: whose it was} of each request to a disk: its thread's; where the thread is not known, that of the event that began the request."""
    begun, found = {}, {}
    for record in records:
        fields = record["fields"]
        if record["name"] in ("DiskIo/ReadInit", "DiskIo/WriteInit", "DiskIo/FlushInit"):
            begun[fields["Irp"]] = record
        elif record["name"] in DISK:
            who = whose.thread(fields["IssuingThreadId"], record) if "IssuingThreadId" in fields else (None, ANY)
            first = begun.pop(fields.get("Irp"), None)
            if who[1] == ANY and first:
                who = whose.process(first["pid"], record) if first["pid"] != ANY else whose.thread(first["tid"], record)
            found[record["ordinal"]] = who
    return found


def latencies(records, whose, ns, low, high):
    """interrupt_times, disk_times, file_times and fault_times of a time: {table: {key: sums}}."""
    tables, begun, of_disk = collections.defaultdict(lambda: collections.defaultdict(collections.Counter)), {}, disk_requests(records, whose)

    def add(table, key, took, size=0):
        row, took = tables[table][key], max(took, 0)  # the clock may have been set back meanwhile
        row.update(count=1, ns=took, bytes=size)
        row["max_ns"] = max(row["max_ns"], took)

    for record in records:
        fields, name, now = record["fields"], record["name"], ns(record["clock"])
        inside = low <= now < high
        if name in INTERRUPTS and inside:
            add("interrupt_times", (INTERRUPTS[name], fields["Routine"], record["cpu"]), now - ns(number(fields["InitialTime"])))
        elif name in DISK and inside:
            ticks = number(fields["HighResResponseTime"])
            add("disk_times", (*of_disk[record["ordinal"]], DISK[name], fields["DiskNumber"], fields.get("FileObject", "0x0")), now - ns(record["clock"] - ticks), fields.get("TransferSize", 0))
        elif name == "FileIo/OperationEnd":
            first = begun.pop(fields["IrpPtr"], None)
            if first and inside:
                who = whose.process(first["pid"], first) if first["pid"] != ANY else whose.thread(first["tid"], first)
                add("file_times", (*who, OPERATIONS[first["name"][7:]], first["fields"]["FileObject"]), now - ns(first["clock"]))
        elif name.startswith("FileIo/") and name[7:] in OPERATIONS and "IrpPtr" in fields:
            begun[fields["IrpPtr"]] = record
        elif name == "PageFault/HardFault" and inside:
            add("fault_times", (*whose.thread(fields["TThreadId"], record), fields["FileObject"]), now - ns(number(fields["InitialTime"])), fields["ByteCount"])
    return tables


def usage(records, whose, ns, low, high, every):
    """cpu_usage, disk_usage, file_usage and network_usage: {table: {(process, pid, bucket): sums}}; every 0: no buckets."""
    tables, of_disk = collections.defaultdict(lambda: collections.defaultdict(collections.Counter)), disk_requests(records, whose)
    for record in records:
        fields, name, now = record["fields"], record["name"], ns(record["clock"])
        if not low <= now < high:
            continue
        bucket = now // every * every if every else None
        if name == "PerfInfo/SampleProf":
            tables["cpu_usage"][(*whose.thread(fields["ThreadId"], record), bucket)]["samples"] += 1
        elif name in ("DiskIo/Read", "DiskIo/Write", "FileIo/Read", "FileIo/Write"):
            disk, word = name.startswith("DiskIo"), {"Read": ("reads", "read_bytes"), "Write": ("writes", "written_bytes")}[name[7:]]
            who = of_disk[record["ordinal"]] if disk else whose.process(record["pid"], record)
            row = tables["disk_usage" if disk else "file_usage"][(*who, bucket)]
            row.update({word[0]: 1, word[1]: fields["TransferSize" if disk else "IoSize"]})
            if disk:
                took = max(now - ns(record["clock"] - number(fields["HighResResponseTime"])), 0)
                row.update(ns=took)
                row["max_ns"] = max(row["max_ns"], took)
        elif name in NETWORK:
            word = {"Recv": ("receives", "received_bytes"), "Send": ("sends", "sent_bytes")}[NETWORK[name]]
            tables["network_usage"][(*whose.process(fields["PID"], record), bucket)].update({word[0]: 1, word[1]: fields["size"]})
    return tables


def counter_samples(records, whose):
    """{(process, pid, tid, source, interval): samples}, over the whole time."""
    interval, found = {}, collections.Counter()
    for record in records:
        fields, name = record["fields"], record["name"]
        if name in ("PerfInfo/SetInterval", "PerfInfo/CollectionStart"):
            interval[number(fields["Source"])] = number(fields["NewInterval"])
        elif name == "PerfInfo/PmcCounterProf":
            source = number(fields["ProfileSource"])
            found[(*whose.thread(fields["ThreadId"], record), fields["ThreadId"], source, interval.get(source, 0))] += 1
    return found


def switch_pairs(records):
    """(switch, next one of its CPU or None, counts of both, the counters that were asked for at both) for each switch; nothing follows a loss."""
    asked_for = [(i, record["fields"]["CounterName"]) for i, record in enumerate(records) if record["name"] == "PerfInfo/PmcCtrConfig"]
    asked_for = {i: named if isinstance(named, list) else [named] for i, named in asked_for}
    last, asked, pairs = {}, next(iter(asked_for.values()), []), []  # the first ones were asked for before the first switch
    for i, record in enumerate(records):
        if i in asked_for:
            asked = asked_for[i]
        elif record["name"] in LOSSES:
            last = {}
        elif record["name"] == "Thread/CSwitch":
            items = [bytes.fromhex(item["data"]) for item in record["extended"] if item["type"] == 8]
            now = record, [int.from_bytes(items[0][i:i + 8], "little") for i in range(0, len(items[0]), 8)] if items else [], asked
            pairs.append((last.get(record["cpu"]), now))
            last[record["cpu"]] = now
    return pairs


def between(before, after):
    """Why what was counted from one switch of a CPU to the next is not known, or None when it is."""
    (first, counts, asked), (second, counts_then, asked_then) = before, after
    if not counts_then:
        return "a switch without counters"
    if asked != asked_then:
        return "other counters from here on"
    if len(counts) != len(counts_then):
        return "another number of counters"
    return "a switch is missing" if first["fields"]["NewThreadId"] != second["fields"]["OldThreadId"] else None


def counted(records, whose):
    """thread_counters: {(process, pid, tid, counter's name, its place): (value, stretches)}: what was counted from one switch of a CPU to the
    next is of the thread that ran."""
    found = collections.defaultdict(list)
    for before, after in switch_pairs(records):
        if not before or not before[1] or between(before, after):
            continue
        record, counts, asked = after
        old = record["fields"]["OldThreadId"]
        for k, (a, b) in enumerate(zip(before[1], counts)):
            if b >= a:
                found[(*whose.thread(old, record), old, asked[k] if len(asked) == len(counts) else None, k)].append(b - a)
    return {key: (sum(values), len(values)) for key, values in found.items()}


def counter_problems(records):
    """{(cpu, problem, place of the counter or None): count}"""
    found = collections.Counter()
    for before, after in switch_pairs(records):
        record, counts, asked = after
        why = between(before, after) if before and before[1] else None
        found[record["cpu"], why, None] += why is not None
        found[record["cpu"], "not the counters that were configured", None] += bool(counts and asked and len(asked) != len(counts))
        for k, (a, b) in enumerate(zip(before[1], counts) if before and not why else ()):
            found[record["cpu"], "a counter went backwards", k] += b < a
    return +found


RUNTIME = "Microsoft-Windows-DotNETRuntime"
HEAPS = [f"GenerationSize{n}" for n in range(5)]
FOR_GC = 1, 6  # reasons of a suspension: a collection, its preparation
TIERS = {1: "MinOptJitted", 2: "Optimized", 3: "QuickJitted", 4: "OptimizedTier1", 5: "OptimizedTier1OSR", 6: "InstrumentedTier", 7: "InstrumentedTierOptimized"}


def named(value):
    """A value's name, or its number as text where the class has no name for it."""
    return value.get("name") or str(value["value"]) if isinstance(value, dict) else None if value is None else str(value)


def by_runtime(records, whose):
    """{(process, pid, CLR's instance): [events of the runtime since the last loss]}, one list after each loss."""
    parts, groups = [], collections.defaultdict(list)
    for record in records:
        if record["name"] in LOSSES:
            parts, groups = parts + list(groups.items()), collections.defaultdict(list)
        elif record.get("provider_name") == RUNTIME:
            groups[(*whose.process(record["pid"], record), record["fields"].get("ClrInstanceID", 0))].append(record)
    return parts + list(groups.items())


def gc_pauses(records, whose, ns, low, high):
    """Rows of gc_pauses without host and stream: each collection that began in the range, out of the lists of its runtime's events."""
    rows = []
    for key, events in by_runtime(records, whose):
        begun, ends = [], {}
        for at, e in enumerate(events):  # (where it began, where it ended)
            if e["name"] == "GC/Start" and not any(b["fields"]["Count"] == e["fields"]["Count"] and i not in ends for i, b in begun):
                begun.append((at, e))
            elif e["name"] == "GC/Stop":
                ends.update({i: at for i, b in begun if b["fields"]["Count"] == e["fields"]["Count"] and i not in ends})
        pauses = collections.defaultdict(list)
        for at, e in enumerate(events):
            if e["name"] != "GC/SuspendEEStart":
                continue
            after = [(i, n) for i, n in enumerate(events[at + 1:], at + 1) if n["name"] in ("GC/SuspendEEStart", "GC/RestartEEStop")]
            if not after or after[0][1]["name"] != "GC/RestartEEStop":
                continue
            until, done = after[0]
            suspended = next((n for n in reversed(events[at:until]) if n["name"] == "GC/SuspendEEStop"), None)
            inside = [i for i, _ in begun if at < i < until]
            running = [i for i, _ in begun if i < at and ends.get(i, len(events)) > at]
            owner = inside[0] if inside else running[-1] if running and number(e["fields"].get("Reason", 0)) in FOR_GC else None
            pauses[owner].append((ns(e["clock"]), suspended and ns(suspended["clock"]), ns(done["clock"])))
        for i, e in begun:
            if not low <= ns(e["clock"]) < high:
                continue
            fields, end, mine = e["fields"], ends.get(i), pauses.get(i, [])
            before = [n["fields"]["Values"] for at, n in enumerate(events) if n["name"] == "GC/PerHeapHistory" and i < at < (len(events) if end is None else end)
                      and [b for b, _ in begun if b < at and ends.get(b, len(events)) > at][-1] == i]
            next_end = min([at for at, n in enumerate(events) if n["name"] == "GC/Stop" and end is not None and at > end], default=len(events))
            after = [n for at, n in enumerate(events) if n["name"] == "GC/HeapStats" and end is not None and end < at < next_end]
            suspensions = [b - a for a, b, _ in mine if b is not None]
            rows.append((*key, fields["Count"], fields.get("Depth"), named(fields["Reason"]), named(fields.get("Type")), ns(e["clock"]),
                         None if end is None else ns(events[end]["clock"]) - ns(e["clock"]), len(mine), mine[0][0] if mine else None, mine[-1][2] if mine else None,
                         sum(c - a for a, _, c in mine) if mine else None, sum(suspensions) if suspensions else None,
                         sum(number(one["SizeBefore"]) for heap in before for one in heap) if before else None,
                         sum(number(after[0]["fields"][name]) for name in HEAPS if name in after[0]["fields"]) if after else None))
    return rows


def jit_methods(records, whose, ns, low, high):
    """Rows of jit_methods without host and stream."""
    rows = []
    for key, events in by_runtime(records, whose):
        jitting = [e for e in events if e["name"] in ("Method/JittingStarted", "Method/LoadVerbose")]
        last, done = {}, []
        for at, e in enumerate(jitting):
            fields, of = e["fields"], (e["tid"], number(e["fields"]["MethodID"]))
            if e["name"] == "Method/JittingStarted":
                name = ".".join(filter(None, (fields["MethodNamespace"], fields["MethodName"])))
                row = [*key[:2], e["tid"], key[2], of[1], name, None, ns(e["clock"]), None, fields["MethodILSize"], None, None]
                last[of] = at, row
                if low <= ns(e["clock"]) < high:
                    rows.append(row)
            elif of in last:
                begun, row = last.pop(of)
                done.append((e["tid"], begun, at, row))
                row[6] = TIERS.get(number(fields["MethodFlags"]) >> 7 & 7)
                row[8], row[10] = ns(e["clock"]) - row[7], fields["MethodSize"]
        for tid, begun, ended, row in done:  # its own time: less what it shares with those that lie between its two events
            inner = [other for thread, first, last_, other in done if thread == tid and begun < first and last_ < ended]
            edges = sorted({row[7], row[7] + row[8], *(other[7] for other in inner), *(other[7] + other[8] for other in inner)})
            row[11] = sum(b - a for a, b in zip(edges, edges[1:]) if not any(other[7] <= a and b <= other[7] + other[8] for other in inner))
    return [tuple(row) for row in rows]
