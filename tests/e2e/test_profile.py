"""`etwcollector profile` over stored events: samples by process and module of a real machine, 32-bit processes
of its among them, agree with a naive recount; of a
generated machine every sample's whole stack, with the module and offset of each address, is what the truth says, and so are counter
samples, ready and waiting time, disk times and faults. Frames of no module are the methods that a .NET runtime made there, those of
native images the methods that were compiled into them. All forms are valid and hold the same stacks. Ranges, processes, hosts and differences add up. The SQL table stacks has every
event of the real machine with the stack of an exhaustive join.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 1
# - Stacks, profiles and symbols 2: Each half of a stack is counted by its outcome, in the agent's counters and in /metrics. | 25,631 halves
#   by cause | 2026-11-23
import collections
import datetime
import json
import re
import struct
import subprocess
import uuid

import harness
import kernel_records
import naive_stacks
import profile_formats
import test_methods
import test_single_records
import test_stacks
import test_tracegen
import traces
import web_world

FORMS = ["json", "folded", "speedscope", "pprof", "chrome", "firefox"]


class Asked:
    def __init__(self, env, store):
        self.command = [env.collector, "profile", "--store", store]

    def raw(self, *options):
        done = subprocess.run([str(part) for part in [*self.command, *options]], capture_output=True)
        if done.returncode:
            raise harness.Failure(f"profile {' '.join(map(str, options))}: {done.stderr.decode()}")
        return done.stdout

    def text(self, *options):
        return self.raw(*options).decode("utf-8")

    def json(self, *options):
        return json.loads(self.text("--format", "json", *options))


def base_name(path):
    return path.replace("/", "\\").rsplit("\\", 1)[-1]


# ---- the real machine ----

class Loaded:
    """A module from its load to its unload; None: before or after all events."""

    def __init__(self, base, size, begin, name):
        self.base, self.size, self.begin, self.end, self.name = base, size, begin, None, name


class NaiveModules:
    """Modules of each process, out of Image events, and the methods that were compiled there: lists, searched. A number that a second process has has a
    second list: what the first one had is nothing of the second one's."""

    def __init__(self, records):
        self.lives, self.processes, self.threads = collections.defaultdict(lambda: [(None, [])]), {}, {}
        self.methods, self.known = collections.defaultdict(list), {}
        for method in test_methods.fold((r for r in records if r["name"] in test_methods.EVENTS), "clock"):
            self.methods[method["pid"]].append(method)
        for record in records:
            fields, clock, name = record["fields"], record["clock"], record["name"]
            if name in ("Image/Load", "Image/DCStart", "Image/DCEnd", "Image/UnLoad"):
                base, size = int(fields["ImageBase"], 0), int(str(fields["ImageSize"]), 0)
                mine = self.lives[fields["ProcessId"]][-1][1]
                there = [m for m in mine if m.base == base and m.end is None]
                if name == "Image/Load" or not there:
                    there.append(Loaded(base, size, clock if name == "Image/Load" else None, base_name(fields["FileName"])))
                    mine.append(there[-1])
                if name == "Image/UnLoad":
                    there[-1].end = clock
            elif name in ("Process/DCStart", "Process/Start", "Process/DCEnd"):
                self.processes.setdefault(fields["ProcessId"], fields["ImageFileName"])
                if name == "Process/Start":
                    self.lives[fields["ProcessId"]].append((clock, []))
            elif name in ("Thread/DCStart", "Thread/Start", "Thread/DCEnd"):
                self.threads.setdefault(fields["TThreadId"], fields["ProcessId"])

    def at(self, pid, address, clock):
        """(the module that was loaded at an address, whether it had been unloaded by then): of those that are there the last that came, else the last that
        was unloaded; (None, False) where none was."""
        lives = [modules for begin, modules in self.lives[0 if address >> 63 else pid] if begin is None or begin <= clock]
        if len(lives) > 1 and not lives[0]:
            lives = lives[1:]
        came = [m for m in lives[-1] if m.base <= address < m.base + m.size and (m.begin is None or m.begin <= clock)]
        there = [m for m in came if m.end is None or clock < m.end]
        if there:
            return max(there, key=lambda m: m.begin or 0), False
        return (max(came, key=lambda m: m.end), True) if came else (None, False)

    def method(self, pid, address, clock):
        if (pid, address) not in self.known:
            self.known[pid, address] = [m for m in self.methods[pid] if m["start"] <= address < m["start"] + m["size"]]
        there = [m for m in self.known[pid, address] if (m["begin"] is None or m["begin"] <= clock) and (m["end"] is None or clock < m["end"])]
        return max(there, key=lambda m: m["start"])["name"] if there else None

    def find(self, pid, address, clock, is_return=False):
        """(name of the module, name of the method or None)"""
        module, is_unloaded = self.at(pid, address, clock)
        method = None if address >> 63 else self.method(pid, address - is_return, clock)
        if method and (not module or is_unloaded):
            return "[JIT]", method
        return (f"[unloaded {module.name}]" if is_unloaded else module.name) if module else "?", method


def walk_pids(records):
    """(time, thread) of walks -> process"""
    return {(r["fields"]["EventTimeStamp"], r["fields"]["StackThread"]): r["fields"]["StackProcess"] for r in records
            if r["name"] in ("StackWalk/Stack", "StackWalk/StackKeyKernel", "StackWalk/StackKeyUser")}


def check_real(env, checks, asked):
    records = test_stacks.records(env.agent, traces.paths("clr-kernel-win8-x64", env.build))
    judge, modules, pids = naive_stacks.Join(records), NaiveModules(records), walk_pids(records)
    by_process, by_module, by_methods, narrow = (collections.Counter() for _ in range(4))
    for event in judge.events:
        record = records[event.ordinal]
        if record["name"] != "PerfInfo/SampleProf":
            continue
        frames = [a for half in ("kernel", "user") for a in event.halves.get(half, ((),))[0]]
        address = frames[0] if frames else int(record["fields"]["InstructionPointer"], 0)
        pid = pids.get((event.clock, event.tid), 0 if event.tid == 0 else modules.threads.get(event.tid, 1 << 33))
        by_process["Idle" if pid == 0 else modules.processes.get(pid, "?")] += record["fields"]["Count"]
        by_module[modules.find(pid, address, event.clock)[0]] += record["fields"]["Count"]
        found = [modules.find(pid, a, event.clock, i > 0) for i, a in enumerate(frames or [address])]
        by_methods[tuple(f"{module.lower()}!{name}" for module, name in reversed(found) if name)] += record["fields"]["Count"]
        narrow.update(module for a, (module, _) in zip(frames, found) if a < 1 << 32 and module != "?")
    reported = asked.json("--host", "real", "--weight", "samples")
    got = collections.Counter()
    for parent, frame, _, total in reported["nodes"]:
        if parent < 0:
            got[reported["processes"][-1 - frame]] += total
    checks.equal(got, by_process, "samples by process of the real machine")
    modules_reported, want = collections.Counter(), collections.Counter()
    for row in reported["top_modules"]:
        modules_reported[reported["modules"][row["module"]]["name"].lower()] += row["self"]
    for name, count in by_module.items():
        want[name.lower()] += count
    checks.equal(+modules_reported, +want, "samples by module of the real machine")
    got = collections.Counter()
    for path, count in profile_formats.tree(json.dumps(reported)).items():
        got[tuple(module.lower() + "!" + name for module, mark, name in (frame.partition("!") for frame in path) if mark)] += count
    checks.equal(got, by_methods, "samples by the managed methods on their stacks")
    managed = {name for path in by_methods for name in path}
    checks.that(len(managed) > 20 and want["[jit]"] > 0, f"hardly a managed method was met: {len(managed)}, {want['[jit]']} samples in them")
    checks.that(sum(narrow.values()) > 1000 and "wow64cpu.dll" in {m.lower() for m in want}, f"hardly a 32-bit frame was met: {narrow}")
    print(f"{sum(narrow.values())} 32-bit frames in {len(narrow)} modules")
    print(f"{sum(n for path, n in by_methods.items() if path)} samples have managed methods on their stacks, {len(managed)} methods")
    outcomes = {key: value for key, value in reported["halves"].items() if value}
    checks.equal(outcomes, dict(judge.outcomes), "outcomes of the real machine's halves")
    checks.equal(reported["keys_undefined"], 0, "keys that are not defined in the real machine's stacks")
    return records, judge, modules


def check_table(env, checks, store, records, judge, modules):
    """The table stacks: every event of every class with the stack that the exhaustive join gives it, and each address's place."""
    want, first, places = collections.Counter(), {}, collections.defaultdict(set)
    for event in judge.events:
        addresses = tuple(a for half in ("kernel", "user") for a in event.halves.get(half, ((),))[0] or ())
        if not addresses:
            continue
        record = records[event.ordinal]
        key = record["name"] or "?", event.tid, addresses
        want[key] += 1
        first.setdefault(key, record["time"])
        if record["name"] == "PerfInfo/SampleProf":
            pid = modules.threads.get(event.tid, 0)
            places[key] |= {tuple(modules.find(pid, a, event.clock, i > 0) for i, a in enumerate(addresses))}
    sql = "SELECT * FROM stacks"
    got, began, wrong = collections.Counter(), {}, []
    for row in map(json.loads, env.run([env.collector, "query", "--store", store, "--host", "real", "--format", "jsonl", "--rows", "0",
                                        sql]).stdout.splitlines()):
        frames = json.loads(row["frames"])
        key = row["name"], naive_stacks.ANY if row["tid"] is None else row["tid"], tuple(int(f["address"], 16) for f in frames)
        got[key] += row["count"]
        began[key] = min(row["first"], began.get(key, row["first"]))
        reported = tuple((f"[unloaded {f['module']}]" if "unloaded" in f else f.get("module", "[JIT]" if "method" in f else "?"), f.get("method")) for f in frames)
        if len(frames) != row["depth"] or row["first"] > row["last"] or (places[key] and reported not in places[key]):
            wrong.append((row, places[key]))
    checks.that(got == want, f"events by stack in SQL: {sum((want - got).values())} of {sum(want.values())} are missing, "
                f"{sum((got - want).values())} are too many, such as {list((want - got).items())[:1]} and {list((got - want).items())[:1]}")
    checks.that(not wrong, f"{len(wrong)} rows of stacks are not what the machine's modules and methods say, such as {wrong[:1]}")
    checks.that(began == first, f"first times of stacks, such as {[(first[k], began.get(k)) for k in first if first[k] != began.get(k)][:1]}")
    print(f"{len(got)} stacks of {sum(got.values())} events, of {len({key[0] for key in got})} classes")
    check_links(env, checks, store, records, judge)


def check_counted(checks, collector, records):
    """The agent counted on the way how stacks find their events, as the exhaustive join does, and each half once. /metrics has it."""
    outcomes = naive_stacks.Join(records).outcomes
    want = {f"stacks_{key}": value for key, value in outcomes.items() if value and key not in ("in_event", "joined")}
    want["stacks_joined"] = outcomes["joined"] + outcomes["in_event"]
    ledger = json.loads(collector.ask("ledger", "--host", "real", "--json"))["streams"][0]
    got = {c["name"]: c["value"] for c in ledger["counters"] if c["name"].startswith("stacks_") and c["value"]}
    checks.equal(got, want, "how stacks found their events, in the ledger")
    metrics = web_world.Web(collector).ask("/metrics")[2]
    reported = {m.group(1): int(m.group(2)) for m in re.finditer(r'^etwagent_(stacks_\w+)_total\{[^}]*host="real"[^}]*\} (\d+)$', metrics, re.MULTILINE)}
    checks.equal({name: n for name, n in reported.items() if n}, want, "how stacks found their events, in /metrics")
    print(f"the agent counted {sum(want.values())} halves: {want}")


def check_links(env, checks, store, records, judge):
    """Each event of the real machine has the hash of the stack that the exhaustive join gives it, whatever part of the time is asked for, and
    events and stacks are joined by it."""
    def ask(sql):
        done = env.run([env.collector, "query", "--store", store, "--host", "real", "--format", "jsonl", "--rows", "0", sql])
        return [json.loads(line) for line in done.stdout.splitlines()]

    stacks, rows_of = {}, collections.Counter()
    for row in ask("SELECT name, hash, frames FROM stacks"):
        stacks.setdefault(row["hash"], set()).add(tuple(int(f["address"], 16) for f in json.loads(row["frames"])))
        rows_of[row["name"], row["hash"]] += 1
    checks.that(all(len(same) == 1 for same in stacks.values()), "one hash is of several stacks")
    events = ask("SELECT clock, name, stack_hash FROM events ORDER BY stream, batch, position")
    checks.equal([row["clock"] for row in events], [record["clock"] for record in records], "events in their order")
    want = {event.ordinal: tuple(a for half in ("kernel", "user") for a in event.halves.get(half, ((),))[0] or ()) for event in judge.events}
    wrong = [(i, row) for i, row in enumerate(events)
             if (stacks[row["stack_hash"]] != {want[i]} if row["stack_hash"] is not None else want.get(i))]
    checks.that(not wrong, f"{len(wrong)} of {len(events)} events have another stack in SQL than the exhaustive join gives them, such as {wrong[:1]}")
    begin, end = records[len(records) // 3]["time"], records[len(records) // 2]["time"]
    part = ask(f"SELECT stack_hash FROM \"PerfInfo/SampleProf\" WHERE time BETWEEN time_ns('{begin}') AND time_ns('{end}') ORDER BY batch, position")
    inside = [row["stack_hash"] for row, record in zip(events, records) if begin <= record["time"] <= end and record["name"] == "PerfInfo/SampleProf"]
    checks.that(any(inside), "no sample with a stack in the range")
    checks.equal([row["stack_hash"] for row in part], inside, "stacks of samples in a range")
    by_hash = collections.Counter(row["stack_hash"] for row in events if row["name"] == "PerfInfo/SampleProf" and row["stack_hash"] is not None)
    joined = ask("SELECT e.stack_hash AS hash, count(*) AS n FROM \"PerfInfo/SampleProf\" AS e JOIN stacks AS s "
                 "ON s.hash = e.stack_hash AND s.name = e.name GROUP BY 1")
    checks.equal({row["hash"]: row["n"] for row in joined}, {h: n * rows_of["PerfInfo/SampleProf", h] for h, n in by_hash.items()},
                 "samples joined to the table stacks")
    checks.equal({row["hash"]: row["n"] for row in ask("SELECT * FROM (SELECT stack_hash AS hash, count(*) AS n FROM \"PerfInfo/SampleProf\" GROUP BY 1) "
                                                       "WHERE hash IS NOT NULL")}, dict(by_hash), "samples by stack")
    one = max(by_hash, key=by_hash.get)
    either = ask(f"SELECT name FROM stacks WHERE hash = {int(one, 16)} OR host = 'absent' OR hash = {int(one, 16)}") if int(one, 16) < 1 << 63 else None
    checks.that(either is None or len(either) == sum(n for (_, h), n in rows_of.items() if h == one), f"a stack by its hash: {either}")
    print(f"{sum(want[i] != () for i in want)} events have a stack's hash in SQL, {len(stacks)} of them differ")


# ---- the generated machine ----

class Truth:
    def __init__(self, rows):
        self.frames = {row["id"]: [int(a, 16) for a in row["addresses"]] for row in rows if row["type"] == "frames"}
        self.modules = collections.defaultdict(list)
        self.images = {}
        self.stacks = collections.defaultdict(dict)  # (what, time, cpu, tid) -> half -> addresses
        for row in rows:
            if row["type"] == "module":
                self.modules[row["pid"]].append((int(row["base"], 16), row["size"], row["begin_raw"], row["end_raw"], base_name(row["path"])))
            elif row["type"] == "process":
                self.images.setdefault(row["pid"], []).append((row["begin_raw"], base_name(row["image"])))
            elif row["type"] == "stack":
                self.stacks[row["of"], row["event_raw"], row["cpu"], row["tid"]][row["half"]] = (row["pid"], self.frames[row["frames"]])

    def image(self, pid, raw):
        names = [name for begin, name in self.images[pid] if begin is None or begin <= raw]
        return (names or [self.images[pid][0][1]])[-1]

    def label(self, pid, address, raw):
        for base, size, begin, end, name in self.modules[0 if address >> 63 else pid]:
            if base <= address < base + size and (begin is None or begin <= raw) and (end is None or raw <= end):
                return f"{name}+0x{address - base:x}"
        return f"0x{address:x}"

    def path(self, halves, raw):
        """From the program down to where it was."""
        pid = next(iter(halves.values()))[0]
        frames = [a for half in ("kernel", "user") if half in halves for a in halves[half][1]]
        return (self.image(pid, raw), *(self.label(pid, a, raw) for a in reversed(frames)))

    def all(self, what):
        stacks = collections.Counter()
        for (of, raw, _, _), halves in self.stacks.items():
            if of == what:
                stacks[self.path(halves, raw)] += 1
        return stacks


def check_made(checks, asked, host, rows, records):
    truth = Truth(rows)
    samples = profile_formats.folded(asked.text("--host", host, "--weight", "samples", "--format", "folded"))
    got = collections.Counter({path: n for path, n in samples.items() if path[0] != "Idle"})
    want = truth.all("samples")
    checks.that(sum(want.values()) > 500, "hardly a sample has a stack in the truth")
    checks.that(got == want, f"{host}: samples by stack: {sum((want - got).values())} are missing, {sum((got - want).values())} are not in the "
                f"truth, such as {list((got - want).items())[:1]} and {list((want - got).items())[:1]}")
    cpu = profile_formats.folded(asked.text("--host", host, "--weight", "cpu", "--format", "folded"))
    checks.equal(cpu, collections.Counter({path: 1000000 * n for path, n in got.items()}), "CPU time is samples times their interval")
    sources = collections.Counter(r["fields"]["ProfileSource"]["value"] for r in records if r["name"] == "PerfInfo/PmcCounterProf")
    intervals = {r["fields"]["Source"]["value"]: r["fields"]["NewInterval"] for r in records if r["name"] == "PerfInfo/CollectionStart"}
    got = collections.Counter()
    for source in sources:
        reported = asked.json("--host", host, "--weight", f"pmc:{source}")
        checks.equal((reported["total"], reported["events"]), (sources[source] * intervals[source], sources[source]), f"counter samples of source {source}")
        folded = profile_formats.folded(asked.text("--host", host, "--weight", f"pmc:{source}", "--format", "folded"))
        checks.that(not any(n % intervals[source] for n in folded.values()), f"sums of source {source} that are no multiples of its interval")
        got += collections.Counter({path: n // intervals[source] for path, n in folded.items()})
    checks.that(got == truth.all("pmc"), f"{host}: counter samples by stack are not the truth's")
    by_time = {raw: truth.path(halves, raw) for (of, raw, _, _), halves in truth.stacks.items() if of == "disk"}
    begun, want = {}, collections.Counter()
    for r in records:
        if r["name"] in ("DiskIo/ReadInit", "DiskIo/WriteInit", "DiskIo/FlushInit"):
            begun[r["fields"]["Irp"]] = r["clock"]
        elif r["name"] in ("DiskIo/Read", "DiskIo/Write", "DiskIo/FlushBuffers") and r["fields"]["Irp"] in begun:
            want[by_time[begun.pop(r["fields"]["Irp"])]] += 100 * number(r["fields"]["HighResResponseTime"])
    checks.equal(profile_formats.folded(asked.text("--host", host, "--weight", "disk", "--format", "folded")), want,
                 "disk time by stack of who asked")
    faults = sum(1 for r in records if r["name"] in ("PageFault/TransitionFault", "PageFault/DemandZeroFault", "PageFault/CopyOnWrite",
                                                     "PageFault/GuardPageFault", "PageFault/HardPageFault"))
    checks.equal(asked.json("--host", host, "--weight", "faults")["total"], faults, f"{host}: page faults")
    ready, waiting, open_times = naive_waits(records, truth)
    for weight, want in (("ready", ready), ("wait", waiting)):
        got = profile_formats.folded(asked.text("--host", host, "--weight", weight, "--format", "folded"))
        named = collections.Counter()
        for path in [path for path in got if path[-1].startswith("[") and "!" not in path[-1]]:
            named[path[-1]] += got.pop(path)
        checks.equal((len(path), named), (2, open_times[weight]), f"{host}: {weight} time without a recorded end")
        checks.that(len(want) > 100, f"{host}: hardly a stack has {weight} time")
        checks.that(got == want, f"{host}: {weight} time by stack of where threads went on: {len(want - got)} stacks have too little, "
                    f"{len(got - want)} too much, such as {list((got - want).items())[:1]} and {list((want - got).items())[:1]}")


def check_narrow(checks, asked, rows):
    """32-bit programs on a 64-bit machine: their stacks go through wow64, and plug-ins come and go where samples fall."""
    stacks = profile_formats.folded(asked.text("--host", "narrow", "--weight", "samples", "--format", "folded"))
    through = sum(n for path, n in stacks.items() if any(f.startswith("wow64cpu.dll+") for f in path))
    plugins = collections.Counter()
    for path, n in stacks.items():
        plugins.update({frame.partition("+")[0]: n for frame in path if frame.startswith(("plugin", "narrow"))})
    lives = collections.Counter(row["base"] for row in rows if row["type"] == "module" and base_name(row["path"]).startswith("narrow"))
    checks.that(through > 50, f"hardly a sample went through wow64: {through}")
    checks.that(sum(name.startswith("narrow") for name in plugins) > 1 and sum(name.startswith("plugin") for name in plugins) > 1 and max(lives.values()) > 3,
                f"samples in plug-ins of hardly a kind: {plugins}, {lives}")
    print(f"32-bit programs: {through} samples through wow64; {sum(plugins.values())} in {len(plugins)} plug-ins of two addresses")


def naive_waits(records, truth):
    """Ready and waiting time in ns, each by the stack of the switch to the thread; and what no switch ended: {weight: {frame: ns}}."""
    stacks = {(raw, cpu): truth.path(halves, raw) for (of, raw, cpu, _), halves in truth.stacks.items() if of == "cswitch"}
    state, waited, ready, waiting = {}, collections.Counter(), collections.Counter(), collections.Counter()
    open_times = {"ready": collections.Counter(), "wait": collections.Counter()}

    def leave(tid, clock, end):
        (what, since), woken = state.pop(tid, ("?", clock)), 100 * waited.pop(tid, 0)
        words = {"thread": "when the thread ended", "data": "at the end of the data"}[end]
        still = "still " if end == "data" else ""
        if what == "ready":
            open_times["ready"][f"[{still}ready {words}]"] += 100 * (clock - since)
        if what == "wait":
            open_times["wait"][f"[{still}waiting {words}]"] += 100 * (clock - since) + woken
        else:
            open_times["wait"][f"[woken, without a processor until {words.split(' ', 1)[1]}]"] += woken

    for r in records:
        fields, clock = r["fields"], r["clock"]
        if r["name"] == "Thread/Start" or (r["name"] == "Thread/End" and state.get(fields["TThreadId"], ("?",))[0] != "runs"):
            leave(fields["TThreadId"], clock, "thread")
        elif r["name"] == "Thread/ReadyThread":
            what, since = state.get(fields["TThreadId"], ("?", clock))
            if what in ("?", "wait"):
                waited[fields["TThreadId"]] += clock - since
                state[fields["TThreadId"]] = "ready", clock
        elif r["name"] == "Thread/CSwitch":
            old, new, old_state = fields["OldThreadId"], fields["NewThreadId"], number(fields["OldThreadState"])
            if old:
                state[old] = {5: "wait", 4: "gone"}.get(old_state, "ready"), clock
            what, since = state.get(new, ("?", clock)) if new else ("?", clock)
            state[new] = "runs", clock
            waited[new] += clock - since if what == "wait" else 0
            path = stacks.get((clock, r["cpu"]))
            if path:
                ready[path] += 100 * (clock - since) if what == "ready" else 0
                waiting[path] += 100 * waited[new]
            waited[new] = 0
    for tid in list(state):
        leave(tid, max(r["clock"] for r in records), "data")
    return +ready, +waiting, {weight: +times for weight, times in open_times.items()}


def number(value):
    return value["value"] if isinstance(value, dict) else value


# ---- forms, ranges ----

def check_forms(checks, asked):
    for weight in ("cpu", "samples"):
        texts = {form: asked.raw("--weight", weight, "--format", form) for form in FORMS}
        read = {"folded": profile_formats.folded, "speedscope": profile_formats.speedscope, "chrome": profile_formats.chrome,
                "firefox": profile_formats.firefox, "json": profile_formats.tree}
        first = profile_formats.folded(texts["folded"].decode())
        for form, text in texts.items():
            try:
                stacks = profile_formats.pprof(text) if form == "pprof" else read[form](text.decode())
            except (profile_formats.Wrong, KeyError, ValueError) as wrong:
                checks.that(False, f"{form} with weight {weight}: {wrong!r}")
                continue
            checks.that(stacks == first, f"{form} and folded hold other stacks with weight {weight}")


def check_sums(checks, asked, rows):
    whole = asked.json("--weight", "samples")
    apart = [asked.json("--weight", "samples", "--host", host) for host in ("real", "made")]
    checks.equal(whole["total"], sum(part["total"] for part in apart), "samples of two hosts at once")
    checks.equal(sorted(whole["hosts"]), ["made", "real"], "the hosts of a profile")
    machine = next(row for row in rows if row["type"] == "machine")
    start, middle = machine["start_utc_ns"], (machine["start_utc_ns"] + machine["end_utc_ns"]) // 2
    cut = rfc3339(middle)
    made = ["--host", "made", "--weight", "samples"]
    first, second = asked.json(*made, "--to", cut), asked.json(*made, "--from", cut)
    checks.equal(first["total"] + second["total"], apart[1]["total"], f"samples before and after {cut} (the trace begins {start})")
    checks.that(first["total"] > 100 and second["total"] > 100, "a half of the range holds hardly a sample")
    checks.equal([part["keys_undefined"] for part in (first, second)], [0, 0], "keys of a range whose definitions come later")
    early = profile_formats.folded(asked.text(*made, "--to", cut, "--format", "folded"))
    late = profile_formats.folded(asked.text(*made, "--from", cut, "--format", "folded"))
    both = profile_formats.folded(asked.text(*made, "--format", "folded"))
    checks.that(early + late == both, "stacks of two halves of the range add up to the whole's")
    difference = [*made, "--from", cut, "--diff-to", cut]
    minus = collections.Counter(late)
    minus.subtract(early)
    checks.equal({k: v for k, v in profile_formats.pprof(asked.raw(*difference, "--format", "pprof")).items() if v},
                 {k: v for k, v in minus.items() if v}, "a difference as pprof")
    checks.equal(profile_formats.tree(asked.text(*difference, "--format", "json"), 5), early, "a difference's other range as JSON")
    checks.equal(+profile_formats.folded(asked.text(*difference, "--format", "folded"), 2), late, "a difference as folded")
    checks.equal(profile_formats.speedscope(asked.text(*difference, "--format", "speedscope"), 1), early, "a difference as speedscope")
    pids = collections.Counter()
    for row in rows:
        if row["type"] == "thread" and row.get("samples"):
            pids[row["pid"]] += row["samples"]
    pid, count = pids.most_common(1)[0]
    checks.equal(asked.json(*made, "--pid", pid)["total"], count, f"samples of process {pid}")


def native_images(env, shift):
    """A trace of two processes with native images, all of it so far up in memory, and what its samples' stacks are called."""
    records, want = [], collections.Counter()

    def method(pid, wide, start, size, name):
        """MethodDCEndVerbose of the rundown provider, as a runtime of that width logs it."""
        payload = struct.pack("<QQQIII", start, 1, start, size, 0x6000001, 0) + \
            b"".join((text + "\0").encode("utf-16le") for text in ("Shop.Cart", name, "void ()")) + struct.pack("<H", 9)
        body = struct.pack("<BBHHIIq", 19 if wide else 18, 0xC0, 0x40 if wide else 0x20, 0, pid + 1, pid, 9000) + \
            uuid.UUID("a669021c-c450-4609-a035-5af59af4df18").bytes_le + struct.pack("<HBBBBHQII", 144, 1, 0, 4, 34, 1, 0x10, 0, 0) + bytes(16) + payload
        return struct.pack("<H", 2 + len(body)) + body

    for pid, wide, program, low in ((1234, True, "shop64.exe", 0x7FF810000000), (1300, False, "shop32.exe", 0x6A000000)):
        low += shift
        native, plain, gate, made = low, low + 0x1000000, low + 0x2000000, low + 0x3000000
        records += [
            kernel_records.process(pid, program, 900), kernel_records.thread(pid, pid + 1, 950, low),
            kernel_records.image(pid, native, 0x800000, "Shop.ni.dll", 1000), kernel_records.image(pid, plain, 0x800000, "Core.dll", 1000),
            kernel_records.image(pid, gate, 0x10000, "wow64cpu.dll" if not wide else "ntdll.dll", 1000),
            method(pid, wide, native + 0x1000, 0x100, "Add"), method(pid, wide, native + 0x1100, 0x80, "Pay"),
            method(pid, wide, plain + 0x400, 0x40, "Sort"), method(pid, wide, made, 0x40, "Lambda")]
        name = {a: f"{module}!Shop.Cart.{label}" for a, module, label in (
            (native + 0x1000, "Shop.ni.dll", "Add"), (native + 0x10FF, "Shop.ni.dll", "Add"), (native + 0x1101, "Shop.ni.dll", "Pay"),
            (plain + 0x43F, "Core.dll", "Sort"), (made + 8, "[JIT]", "Lambda"))}
        name |= {native + 0x1180: "Shop.ni.dll+0x1180", plain + 0x3FF: "Core.dll+0x3ff", gate + 0x2A: f"{'ntdll' if wide else 'wow64cpu'}.dll+0x2a"}
        # a return address that is the end of a method (exclusive) belongs to the call in that method
        name_of_return = {native + 0x1180: "Shop.ni.dll!Shop.Cart.Pay", plain + 0x440: "Core.dll!Shop.Cart.Sort", gate + 0x2A: name[gate + 0x2A]}
        for k, (inner, outer) in enumerate(((native + 0x1000, plain + 0x440), (native + 0x10FF, gate + 0x2A), (native + 0x1101, native + 0x1180),
                                            (plain + 0x43F, gate + 0x2A), (plain + 0x3FF, native + 0x1180), (made + 8, gate + 0x2A), (native + 0x1180, plain + 0x440))):
            records += kernel_records.sample(pid, pid + 1, (inner, outer), 3000 + pid * 4 + k)
            want[program, name_of_return[outer], name[inner]] += 1
    path = env.folder / f"native-{shift}.etl"
    path.write_bytes(test_single_records.trace(records))
    return path, want


def check_native_images(env, checks, collector, asked):
    """Methods that were compiled ahead of time (NGEN, ReadyToRun) are named in their image, in a 64-bit process and in a 32-bit one on a
    64-bit kernel; what the image has besides keeps its offset. Of two machines the same files are the same modules, wherever they lie."""
    for host, shift in (("native", 0), ("native-2", 0x8000000)):
        path, want = native_images(env, shift)
        env.replay([path], collector, agent=host, spool=env.folder / f"{host}-spool")
        got = profile_formats.folded(asked.text("--host", host, "--weight", "samples", "--format", "folded"))
        checks.equal(got, want, f"methods of native images of {host}")
    both = ["--host", "native", "--host", "native-2", "--weight", "samples"]
    lines = asked.text(*both, "--format", "folded").splitlines()
    checks.equal((len(lines), profile_formats.folded("\n".join(lines))), (len(want), want + want), "stacks of two machines, merged")
    names = collections.Counter(m["name"] for m in asked.json(*both)["modules"])
    checks.equal({name for name, count in names.items() if count > 1}, set(), "modules of two machines, each once")


def check_without_names(env, checks, asked):
    """Modules whose PDBs cannot be had keep their offsets, and are named."""
    (env.folder / "no-symbols").mkdir()
    options = ["--host", "made", "--weight", "samples", "--format", "folded"]
    named = [*options, "--symbols", env.folder / "no-symbols", "--symbol-cache", env.folder / "symbol-cache"]
    done = subprocess.run([str(part) for part in [*asked.command, *named]], capture_output=True, text=True)
    checks.equal((done.returncode, profile_formats.folded(done.stdout)), (0, profile_formats.folded(asked.text(*options))),
                 "a profile whose symbols are missing")
    checks.that("without names: " in done.stderr and "ntoskrnl.exe" in done.stderr, f"modules without symbols: {done.stderr[-300:]}")
    for wrong in (["--weight", "heat"], ["--weight", "pmc:"], ["--from", "someday"], ["--pid", "x"],
                  ["--diff-from", "2020-01-01T00:00:00Z", "--format", "chrome"],
                  ["--from", "2020-01-01T00:00:01Z", "--to", "2020-01-01T00:00:00Z"],
                  ["--diff-from", "2020-01-01T00:00:01Z", "--diff-to", "2020-01-01T00:00:00Z"], ["--symbols", "srv*C:\\Symbols*https://x"]):
        done = subprocess.run([str(part) for part in [*asked.command, *wrong]], capture_output=True, text=True)
        checks.that(done.returncode == 2 and done.stderr and not done.stdout, f"profile {wrong}: {done.returncode} {done.stderr}")
    for hosts in (["--host", "absent"], ["--host", "made", "--host", "absent"]):
        done = subprocess.run([str(part) for part in [*asked.command, *hosts]], capture_output=True, text=True)
        checks.that(done.returncode == 1 and done.stderr == "etwcollector: nothing is stored of host absent: expected a name that 'etwcollector hosts' or /api/v1/hosts lists (not found)\n" and not done.stdout,
                    f"profile {hosts}: {done.returncode} {done.stderr}")


def rfc3339(utc_ns):
    moment = datetime.datetime.fromtimestamp(utc_ns // 10 ** 9, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{utc_ns % 10 ** 9:09d}Z"


def test(env, checks, arguments):
    env.make_certificates(("real", "made", "narrow", "reused", "native", "native-2"))
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    env.replay(traces.paths("clr-kernel-win8-x64", env.build), collector, agent="real", spool=env.folder / "real-spool")
    trace, truth = test_tracegen.generate(env.build, env.folder, "stacks", "--preset", "stacks", "--duration-ms",
                                          "4000" if arguments.soak else "600")
    env.replay([trace], collector, agent="made", spool=env.folder / "made-spool", extra=["--batch-events", "3000"])
    asked = Asked(env, collector.store)
    rows = test_tracegen.rows(truth)
    # the generated machines run the same code under a sanitizer
    if "san" not in env.build.name and checks.real("profile: a real machine's samples by process, module and method, and its rows of stacks"):
        records, judge, modules = check_real(env, checks, asked)
        check_table(env, checks, collector.store, records, judge, modules)
        check_counted(checks, collector, records)
    check_made(checks, asked, "made", rows, test_stacks.records(env.agent, [trace]))
    check_forms(checks, asked)
    check_sums(checks, asked, rows)
    check_without_names(env, checks, asked)
    check_native_images(env, checks, collector, asked)
    trace, truth = test_tracegen.generate(env.build, env.folder, "wow64", "--preset", "wow64", "--duration-ms", "4000" if arguments.soak else "1200")
    env.replay([trace], collector, agent="narrow", spool=env.folder / "narrow-spool", extra=["--batch-events", "3000"])
    rows = test_tracegen.rows(truth)
    check_made(checks, asked, "narrow", rows, test_stacks.records(env.agent, [trace]))
    check_narrow(checks, asked, rows)
    scenario = env.folder / "reused.yaml"
    scenario.write_text(test_stacks.VARIANTS["reused"], encoding="utf-8")
    trace, truth = test_tracegen.generate(env.build, env.folder, "reused", "--preset", scenario, "--duration-ms", "4000")
    env.replay([trace], collector, agent="reused", spool=env.folder / "reused-spool", extra=["--batch-events", "3000"])
    rows = test_tracegen.rows(truth)
    test_stacks.check_reused(checks, rows)
    check_made(checks, asked, "reused", rows, test_stacks.records(env.agent, [trace]))
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
