"""Each program of docs/guides/cookbook.md over a generated trace, beside an evaluation in Python of what `etwagent dump` prints: the
values that go into each aggregation, and the rows of `emit`.
"""
import collections
import json
import re
import subprocess

import harness
import test_tracegen
import test_watch

UNKNOWN = (1 << 32) - 1
PAGE = harness.ROOT / "docs" / "guides" / "cookbook.md"
TRACES = {"office": 1500, "web-server": 300, "stacks": 250, "32-bit": 150, "attack": 1500}


def value_of(field):
    """A field of the dump as the language reads it."""
    if isinstance(field, dict):
        field = field["value"]
    return int(field, 16) if isinstance(field, str) and re.fullmatch("0x[0-9a-f]+", field) else field


def lines_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class State:
    """Which process a thread is of, and what a process is called."""

    def __init__(self):
        self.running, self.threads, self.names = {}, {0: 0}, {}

    def exe_of(self, tid):
        return self.names.get(self.threads.get(tid, -1), "")


class Event:
    """An event of the dump, with its time in ns, its thread and its process as docs/reference/language.md says."""

    def __init__(self, row, raw, state):
        self.name, self.cpu, self.fields, self.row = row["name"], row["cpu"], row["fields"], row
        self.ns = row["clock"] * 100  # of a clock of 10 MHz
        self.bytes = len(raw["payload"]) // 2
        tid = next((self.fields[key] for key in ("ThreadId", "TThreadId", "IssuingThreadId", "TTID", "NewThreadId") if key in self.fields), None)
        own = next((self.fields[key] for key in ("ProcessId", "PID") if key in self.fields), None)
        is_of_cpu = row["tid"] == UNKNOWN and tid is None
        self.tid = row["tid"] if row["tid"] != UNKNOWN else state.running.get(self.cpu, -1) if tid is None else tid
        self.pid = row["pid"] if row["pid"] != UNKNOWN else own if is_of_cpu and own is not None else state.threads.get(self.tid, -1)
        self.exe = state.names.get(self.pid, "")
        self.exe_of = {field: state.exe_of(self.fields[field]) for field in ("NewThreadId", "OldThreadId", "TThreadId") if field in self.fields}
        self.counters, self.kernel, self.user = {}, (), ()

    def __getitem__(self, field):
        return value_of(self.fields[field])

    def named(self, field):
        """FIELD_name: the name, or the number where it has none."""
        whole = self.fields[field]
        return whole["name"] if isinstance(whole, dict) else whole


def events_of(env, trace):
    """The events in their order."""
    state, found, stacks, of_event, places, modules, walks = State(), [], {}, {}, [], test_watch.Modules(), {}
    for row in map(json.loads, lines_of([env.agent, "stacks", "--list", trace])):
        if "event" in row:
            of_event[row["event"]] = row
        else:
            stacks[row["stack"]] = tuple(row["addresses"] or ())
    raws = lines_of([env.agent, "dump", "--format", "raw", trace])
    rows = [json.loads(line) for line in lines_of([env.agent, "dump", "--format", "jsonl", trace])]
    for row in rows:
        if (row["name"] or "").startswith("StackWalk/Stack"):
            walks[row["fields"]["EventTimeStamp"]["value"], row["fields"]["StackThread"]] = row["fields"]["StackProcess"]
    for i, row in enumerate(rows):
        fields, raw = row["fields"], json.loads(raws[i])
        modules.see(row)
        if row["name"] in ("Thread/Start", "Thread/DCStart"):
            state.threads[fields["TThreadId"]] = fields["ProcessId"]
        if row["name"] in ("Process/Start", "Process/DCStart"):
            state.names[fields["ProcessId"]] = fields["ImageFileName"]
        if row["name"] == "PerfInfo/PmcCtrConfig":
            places = fields["CounterName"]
        event = Event(row, raw, state)
        if row["name"] == "Thread/CSwitch":
            state.running[event.cpu] = fields["NewThreadId"]
        for item in raw["extended"]:
            if item["name"] == "PMC_COUNTERS":
                data = bytes.fromhex(item["data"])
                event.counters = {name: int.from_bytes(data[8 * k:8 * k + 8], "little") for k, name in enumerate(places)}
        if i in of_event:
            pid = walks.get((row["clock"], event.tid), event.pid)
            event.kernel, event.user = (tuple(modules.frame(pid, address) for address in stacks[of_event[i][half]["stack"]]) if half in of_event[i] else ()
                                        for half in ("kernel", "user"))
        if event.name == "PerfInfo/SampleProf":
            event.module = modules.find(event.pid, event["InstructionPointer"])[0] or ""
        found.append(event)
    return found


# ---- one function a program: (aggregation, keys, value), or ("emit", row) ----

RECIPES = {}


def recipe(title, trace):
    def keep(function):
        RECIPES[title] = (trace, function)
        return function
    return keep


def turns(events):
    """(context switch at the end, its beginning) of each turn of a thread but the idle one, and the last one of a thread."""
    began = {}
    for e in events:
        if e.name == "Thread/End":
            began.pop(e["TThreadId"], None)
        if e.name == "Thread/CSwitch":
            new, old = e["NewThreadId"], e["OldThreadId"]
            if new:
                began[new] = e
            if old in began:
                yield e, began.pop(old)


def waits(events):
    """(context switch at the end, ns) of each wait of a thread but the idle one."""
    since = {}
    for e in events:
        if e.name == "Thread/CSwitch":
            if e["OldThreadId"]:
                since[e["OldThreadId"]] = e.ns
            if e["NewThreadId"] in since:
                yield e, e.ns - since.pop(e["NewThreadId"])


def of(events, *names):
    return (e for e in events if e.name in names)


@recipe("CPU time by process", "office")
def cpu_time(events):
    return (("ns", [e.exe_of["OldThreadId"]], e.ns - begin.ns) for e, begin in turns(events))


@recipe("Run queue latency", "office")
def run_queue(events):
    ready = {}
    for e in of(events, "Thread/ReadyThread", "Thread/CSwitch"):
        if e.name == "Thread/ReadyThread":
            ready[e["TThreadId"]] = e.ns
        elif e["NewThreadId"] in ready:
            yield "ns", [e.exe_of["NewThreadId"]], e.ns - ready.pop(e["NewThreadId"])


@recipe("Length of time slices by processor", "office")
def slices(events):
    return (("ns", [e.cpu], e.ns - begin.ns) for e, begin in turns(events))


@recipe("Context switches by interval", "office")
def switches(events):
    return (("", [(e.ns - events[0].ns) // 100_000_000], 1) for e in of(events, "Thread/CSwitch"))


@recipe("Idle time of each processor", "office")
def idle(events):
    since = {}
    for e in of(events, "Thread/CSwitch"):
        if e["NewThreadId"] == 0:
            since[e.cpu] = e.ns
        if e["OldThreadId"] == 0 and e.cpu in since:
            yield "ns", [e.cpu], e.ns - since.pop(e.cpu)


@recipe("Threads that move to another processor", "office")
def moves(events):
    last = {}
    for e in of(events, "Thread/CSwitch"):
        tid = e["NewThreadId"]
        if tid and last.setdefault(tid, e.cpu) != e.cpu:
            yield "moves", [e.exe_of["NewThreadId"]], 1
        last[tid] = e.cpu


@recipe("Reasons of waits", "office")
def reasons(events):
    return (("", [e.exe_of["OldThreadId"], e.named("OldThreadWaitReason")], 1) for e in of(events, "Thread/CSwitch") if e["OldThreadId"])


@recipe("Off-CPU time by stack", "office")
def off_cpu(events):
    return (("ns", [e.exe_of["NewThreadId"], e.kernel + e.user], ns) for e, ns in waits(events))


@recipe("The longest wait of each process", "office")
def longest_wait(events):
    return (("ns", [e.exe_of["NewThreadId"]], ns) for e, ns in waits(events))


@recipe("Who wakes whom", "office")
def wakes(events):
    running = {}
    for e in of(events, "Thread/ReadyThread", "Thread/CSwitch"):
        if e.name == "Thread/CSwitch":
            running[e.cpu] = e.exe_of["NewThreadId"]
        else:
            yield "", [running.get(e.cpu, ""), e.exe_of["TThreadId"]], 1


@recipe("Samples in kernel and user mode", "office")
def modes(events):
    return (("", [e.exe, "kernel" if e["InstructionPointer"] >> 63 else "user"], 1) for e in of(events, "PerfInfo/SampleProf") if e.tid)


@recipe("Hot stacks", "office")
def hot(events):
    return (("", [e.exe, e.user[:3]], 1) for e in of(events, "PerfInfo/SampleProf") if e.tid and e.user)


@recipe("Samples by module", "office")
def by_module(events):
    return (("", [e.exe, e.module], 1) for e in of(events, "PerfInfo/SampleProf") if e.tid)


@recipe("Instructions per cycle by process", "stacks")
def ipc(events):
    for e, begin in turns(e for e in events if e.counters or e.name == "Thread/End"):
        who = [e.exe_of["OldThreadId"]]
        cycles, instructions = (e.counters[name] - begin.counters[name] for name in ("TotalCycles", "InstructionRetired"))
        yield "cycles", who, cycles
        yield "instructions", who, instructions
        if cycles:
            yield "ipc", who, instructions / cycles


@recipe("Cache misses by process", "stacks")
def misses(events):
    return (("misses", [e.exe_of["OldThreadId"]], e.counters["CacheMisses"] - begin.counters["CacheMisses"])
            for e, begin in turns(e for e in events if e.counters or e.name == "Thread/End"))


def spent(e):
    return e.ns - e["InitialTime"] * 100


@recipe("Time in interrupt service routines", "office")
def isr(events):
    for e in of(events, "PerfInfo/ISR"):
        yield "ns", [e["Routine"]], spent(e)
        yield "calls", [e["Routine"]], 1


@recipe("Time in deferred procedure calls", "office")
def dpc(events):
    return (("ns", [e.cpu], spent(e)) for e in of(events, "PerfInfo/DPC", "PerfInfo/TimerDPC", "PerfInfo/ThreadedDPC"))


@recipe("The longest deferred procedure call of each routine", "office")
def long_dpc(events):
    return (("ns", [e["Routine"], e.name], spent(e)) for e in of(events, "PerfInfo/DPC", "PerfInfo/TimerDPC"))


DISK = "DiskIo/Read", "DiskIo/Write"


@recipe("Disk latency", "office")
def disk_latency(events):
    begin = {}
    for e in of(events, "DiskIo/ReadInit", "DiskIo/WriteInit", "DiskIo/FlushInit", *DISK, "DiskIo/FlushBuffers"):
        if e.name.endswith("Init"):
            begin[e["Irp"]] = e.ns
        elif e["Irp"] in begin:
            yield "ns", [e.name], e.ns - begin.pop(e["Irp"])


@recipe("Bytes by file", "office")
def disk_files(events):
    return (("bytes", [e.named("FileObject"), e.name], e["TransferSize"]) for e in of(events, *DISK))


@recipe("Sizes of requests by process", "office")
def disk_sizes(events):
    return (("", [e.exe, e.name], e["TransferSize"]) for e in of(events, *DISK))


@recipe("Slow requests", "office")
def slow_requests(events):
    for e in of(events, *DISK):
        ns = e.fields["HighResResponseTime"]["ns"]
        if ns > 200_000:
            yield "emit", {"kind": e.name, "disk": e["DiskNumber"], "bytes": e["TransferSize"], "us": ns // 1000}, 1


def opens(events):
    """(end of the operation, its FileIo/Create)"""
    begin = {}
    for e in of(events, "FileIo/Create", "FileIo/OperationEnd"):
        if e.name == "FileIo/Create":
            begin[e["IrpPtr"]] = e
        elif e["IrpPtr"] in begin:
            yield e, begin.pop(e["IrpPtr"])


@recipe("Slow file opens", "office")
def slow_opens(events):
    return (("slow", [begin["OpenPath"]], e.ns - begin.ns) for e, begin in opens(events) if e.ns - begin.ns > 5000)


@recipe("Opens that fail", "web-server")
def failed_opens(events):
    return (("", [e.named("NtStatus"), begin["OpenPath"]], 1) for e, begin in opens(events) if e["NtStatus"])


@recipe("Bytes read and written by process", "office")
def file_bytes(events):
    return (("bytes", [e.exe, e.name], e["IoSize"]) for e in of(events, "FileIo/Read", "FileIo/Write"))


@recipe("Files that are opened most", "office")
def most_opened(events):
    return (("", [e["OpenPath"]], 1) for e in of(events, "FileIo/Create"))


@recipe("How many files each process opens", "office")
def opened(events):
    for e in of(events, "FileIo/Create"):
        yield "paths", [e.exe], e["OpenPath"]
        yield "opens", [e.exe], 1


@recipe("Deleted files", "office")
def deleted(events):
    return (("emit", {"by": e.exe, "pid": e.pid, "file": e.named("FileObject")}, 1) for e in of(events, "FileIo/Delete"))


@recipe("Registry storms", "attack")
def storms(events):
    seen = collections.Counter()
    for e in of(events, *(f"Registry/{kind}" for kind in ("Open", "Create", "Query", "QueryValue", "SetValue", "EnumerateKey", "Close"))):
        keys = e.exe, (e.ns - events[0].ns) // 100_000_000
        seen[keys] += 1
        yield "", keys, 1
        if seen[keys] == 20:
            yield "storms", [e.exe], 1


@recipe("Values that are looked for and not found", "office")
def not_found(events):
    return (("", [e.exe, e["KeyName"], e.named("Status")], 1) for e in of(events, "Registry/QueryValue") if e["Status"])


@recipe("Values that are written", "office")
def written(events):
    return (("", [e.exe, e.named("KeyHandle"), e["KeyName"]], 1) for e in of(events, "Registry/SetValue"))


@recipe("Page faults by process and kind", "stacks")
def faults(events):
    return (("", [e.exe, e.name], 1) for e in events if re.fullmatch("PageFault/(.*Fault|CopyOnWrite)", e.name or ""))


@recipe("Hard faults by file", "office")
def hard_faults(events):
    return (("bytes", [e.named("FileObject")], e["ByteCount"]) for e in of(events, "PageFault/HardFault"))


@recipe("Growth of virtual memory", "attack")
def growth(events):
    return (("bytes", [e["ProcessId"]], e["RegionSize"] * (1 if e.name.endswith("Alloc") else -1))
            for e in of(events, "PageFault/VirtualAlloc", "PageFault/VirtualFree"))


@recipe("Who talks to which address", "web-server")
def talks(events):
    for e in events:
        if re.fullmatch("TcpIp/(Send|Recv)IPV[46]", e.name or ""):
            yield "sent" if "Send" in e.name else "received", [e.exe, e["daddr"], e["dport"]], e["size"]


@recipe("New connections", "web-server")
def connections(events):
    for e in of(events, "TcpIp/ConnectIPV4", "TcpIp/ConnectIPV6"):
        yield "out", [e.exe, e["daddr"], e["dport"]], 1
    for e in of(events, "TcpIp/AcceptIPV4", "TcpIp/AcceptIPV6"):
        yield "in", [e.exe, e["sport"]], 1


@recipe("Retransmissions by address", "web-server")
def retransmissions(events):
    for e in of(events, "TcpIp/RetransmitIPV4", "TcpIp/RetransmitIPV6"):
        yield "", [e["daddr"]], 1
        yield "bytes", [e["daddr"]], e["size"]


@recipe("DNS by process", "office")
def dns(events):
    return (("queries", [e.exe, e["QueryName"]], 1) for e in events if e.row["provider_name"] == "Microsoft-Windows-DNS-Client" and e.row["id"] == 3006)


@recipe("Pauses of the garbage collector", "web-server")
def pauses(events):
    begin = {}
    for e in of(events, "GC/SuspendEEStart", "GC/RestartEEStop"):
        if e.name == "GC/SuspendEEStart":
            begin[e.pid] = e.ns
        elif e.pid in begin:
            ns = e.ns - begin.pop(e.pid)
            yield "ns", [e.exe], ns
            yield "total", [e.exe], ns


@recipe("Collections by generation", "web-server")
def collections_of(events):
    return (("", [e.exe, e["Depth"], e.named("Reason")], 1) for e in of(events, "GC/Start"))


@recipe("Time of the JIT compiler", "web-server")
def jit(events):
    begin = {}
    for e in of(events, "Method/JittingStarted", "Method/LoadVerbose"):
        key = e.pid, e["MethodID"]
        if e.name == "Method/JittingStarted":
            begin[key] = e.ns
            continue
        yield "methods", [e.exe], 1
        if key in begin:
            yield "ns", [e.exe], e.ns - begin.pop(key)


@recipe("Duration of an application's requests", "web-server")
def requests(events):
    begin = {}
    for e in of(events, "RequestStarted", "RequestStopped"):
        key = e.pid, e["RequestId"]
        if e.name == "RequestStarted":
            begin[key] = e
            continue
        start = begin.pop(key, None)
        url = start["Url"] if start else ""
        if start:
            yield "ns", [url], e.ns - start.ns
        yield "status", [url, e["Status"]], 1


@recipe("Processes that start", "stacks")
def starts(events):
    return (("emit", {"by": e.exe, "started": e["ImageFileName"], "pid": e["ProcessId"], "command": e["CommandLine"]}, 1)
            for e in of(events, "Process/Start"))


@recipe("Modules from outside of Windows", "attack")
def modules(events):
    return (("", [e.exe, e["FileName"]], 1) for e in of(events, "Image/Load") if "\\windows\\" not in e["FileName"].lower())


@recipe("Handles by process and type", "attack")
def handles(events):
    for e in of(events, "Object/CreateHandle", "Object/CloseHandle"):
        yield "made" if "Create" in e.name else "closed", [e.exe, e["ObjectType"]], 1


@recipe("System calls by process", "32-bit")
def calls(events):
    for e in of(events, "PerfInfo/SysClEnter", "PerfInfo/SysClExit"):
        if e.name == "PerfInfo/SysClEnter":
            yield "", [e.exe], 1
        elif e["SysCallNtStatus"]:
            yield "failed", [e.named("SysCallNtStatus")], 1


@recipe("Events by class", "office")
def by_class(events):
    for e in events:
        yield "", [e.name], 1
        yield "bytes", [e.row["provider_name"]], e.bytes


@recipe("What Windows lost", "web-server")
def lost(events):
    return (("", [e.name], 1) for e in events if (e.name or "").startswith("LostEvent/"))


# ---- the page ----

def programs_of(page):
    """[(title, program)]"""
    found = []
    for title, text in re.findall(r"^### (.*)\n((?:(?!#).*\n)+)", page, re.M):
        blocks = re.findall(r"(?:^    .*\n)+", text, re.M)
        found.append((title, [re.sub("^    ", "", block, flags=re.M) for block in blocks]))
    return found


def expected_of(program, values):
    """Of each aggregation {keys: result}, by the function that the program's text names; and the rows of emit."""
    groups, rows = collections.defaultdict(lambda: collections.defaultdict(list)), []
    for name, keys, value in values:
        if name == "emit":
            rows.append(keys)
        else:
            groups["@" + name][tuple(keys)].append(value)
    functions = {"@" + name: function for name, function in re.findall(r"@(\w*)(?:\[[^=]*?\])? = (\w+)\(", program)}
    return {name: {keys: test_watch.aggregate(functions[name], these) for keys, these in found.items()} for name, found in groups.items()}, rows, functions


def check_recipe(env, checks, title, program, trace, events):
    expected, rows, functions = expected_of(program, RECIPES[title][1](events))
    out = test_watch.watch(env, program, [trace], "--json", "--keys", "1000000").stdout
    limits = {name: int(n) for name, n in re.findall(r"print\((@\w*), (\d+)\)", program)}
    got = {name: {test_watch.plain_key(keys): value for keys, value in found.items()} for name, found in test_watch.results(out).items()}
    wanted = {name: {test_watch.plain_key(keys): value for keys, value in found.items()} for name, found in expected.items()}
    checks.that(wanted or rows, f"{title}: the trace has no such event")
    checks.equal(set(got), set(wanted), f"{title}: aggregations with results")
    checks.equal([json.loads(line)["row"] for line in out.splitlines() if "row" in json.loads(line)], rows, f"{title}: rows")
    for name, these in wanted.items():
        ours, limit = got.get(name, {}), limits.get(name)
        if limit:
            checks.equal(len(ours), min(limit, len(these)), f"{title}: {name} has so many entries")
            smallest = min((v for v in ours.values()), default=0)
            these = {keys: value for keys, value in these.items() if keys in ours or value > smallest}
        wrong = [keys for keys in these.keys() | ours.keys()
                 if keys not in ours or keys not in these or not test_watch.same(functions[name], ours[keys], these[keys])]
        checks.that(not wrong, f"{title}: {name}: {len(wrong)} of {len(these)} differ: " +
                    "; ".join(f"{keys}: expected {these.get(keys)}, got {ours.get(keys)}" for keys in wrong[:3]))


def test(env, checks, arguments):
    programs = programs_of(PAGE.read_text(encoding="utf-8"))
    checks.that(len(programs) >= 30, f"the page has {len(programs)} programs")
    checks.equal([title for title, blocks in programs if len(blocks) != 1], [], "each title has one program")
    checks.equal([title for title, _ in programs], list(RECIPES), "each program has an evaluation, in the page's order")
    made, all_events = {}, {}
    for name, ms in TRACES.items():
        made[name], _ = test_tracegen.generate(env.build, env.folder, name, "--preset", name, "--duration-ms", str(ms))
        all_events[name] = events_of(env, made[name])
    for title, blocks in programs:
        trace = RECIPES[title][0]
        check_recipe(env, checks, title, blocks[0], made[trace], all_events[trace])


if __name__ == "__main__":
    harness.main(test, __doc__)
