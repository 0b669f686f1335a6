"""The data on which every answer is judged: three traces of real machines (generated ones where the real traces are missing) and six
generated machines (machines/*.yaml), all in one store. In a second store two names have the same trace, each in two runs. Everything is
made once for all judges.

A judge gets the World. It asks the product through World.sql, World.get and World.command, works the answer out from Host.records (what
`etwagent dump` prints of the trace) and naive_store (what lies in the segment files), and hands both to World.same, which counts.
"""
import collections
import functools
import gc
import json
import struct
import subprocess

import dotnet_records
import harness
import kernel_records as kernel
import naive_state
import naive_store
import process_records
import test_ledger
import test_single_records as single
import traces
import uploads
import web_world

REAL = ["shutdown-win10", "clr-kernel-win8-x64", "clr-32bit"]
MACHINES = sorted(path.stem for path in (harness.ROOT / "tests" / "judges" / "machines").glob("*.yaml"))
TWINS, TWIN_TRACE, RUNS = ["twin-a", "twin-b"], "disk", [[], ["--batch-events", 700]]
BATCH_EVENTS = 3000
DAMAGED, LABELS, WRONG_BY = "holed", {"site": "north", "owner": "<i>ops</i>"}, 7
DAMAGED_EVENTS, HOLES, GRAVE, LAST, BUFFERS_LOST = 500, [(3, 4), (8, 8)], (6, 7), 2, 5  # of DAMAGED: batches that never come, that a tombstone names, that are missing at the end
EVICTED = 15  # events_evicted_size
HASHED, OLD_AGENT = ["hashed-a", "hashed-b"], "0.0.7"
SHOWN, WIDTH = 3, 700  # differences of one answer that are printed, and characters of each


@functools.cache
def dumped(agent, *paths):
    """The records of a trace in the order in which an agent sends them, as `etwagent dump --format raw` prints them."""
    done = subprocess.run([str(agent), "dump", "--format", "raw", *map(str, paths)], check=True, capture_output=True, text=True,
                          errors="surrogatepass", encoding="utf-8")
    gc.disable()  # hundreds of thousands of objects that live as long as the process: a search for garbage would look at all of them each time
    records = [json.loads(line) for line in done.stdout.splitlines()]
    for ordinal, record in enumerate(records):
        record["ordinal"] = ordinal
        record["units"] = naive_state.parse_time(record["time"])
    gc.freeze()
    gc.enable()
    return records


def image_file(pid, base, path, sha256, clock):
    """ImageFile/Facts, as an agent writes it (proto/wire/FORMAT.md, "Images' files")."""
    texts = [sha256, "1.2.3", "Example", "Judged", "original.dll", "", sha256[:32], sha256[20:60], sha256[:32], "Judged file",
             f"\\Device\\HarddiskVolume3\\{path}"]
    return single.full_record("7be2d0c4-91a3-4c5f-8e27-3d60b914fa58", 1, 1, struct.pack("<IQQIIQ", pid, base, 0, 0, 0, 4096 + pid) + bytes(20) +
                              b"".join(text.encode() + b"\0" for text in texts), clock)


def program(n):
    """A program's name; one is a number."""
    return "5" if n % 5 == 4 else f"p{n % 5}.exe"


TAKEN = ["hosts", "Processes", "events", "sqlite_schema", "pragma_no_table", "(grouped 1) count(*) of events by name"]  # names of tables that events have, too
REALS = [0.5, -2.25, 0.0, -0.0, 3.0, 1024.125, 0.5, float("nan"), -7.0]
DOTNET_EVERY, NARROW = 4, 5  # rounds of hashed_trace with .NET; the number, of 12, of a 32-bit process


def dotnet(n, pid, tid, at):
    """A round of a .NET runtime: a background collection that ends in the process's next round, one inside it, one whose runtime logs two versions of its
    begin, pauses of collections and of a debugger, heaps before and after, such that belong to no collection, compilations inside others, real numbers."""
    r, background = dotnet_records.Runtime(pid, tid, 7 + n % 8 // 4, n % 12 == NARROW), 1000 + n // 12
    ends = [r.stop(at + 5, background - 1, 2), r.heaps(at + 6, 10 + n, 20, 30, 40, 50)] if n % 24 < 12 else []
    made = [r.history(at, 5, n), r.heaps(at + 1, n, 2, 3, 4, 5), *ends, r.history(at + 8),
            r.suspend(at + 10), r.simple(dotnet_records.SUSPENDED, at + 12), r.start(at + 14, background, 2, 1), r.history(at + 15, 100 + n, 20, 3), r.history(at + 16),
            r.start(at + 18, n, n % 3, 0, 2), r.history(at + 19, 90, n), r.stop(at + 24, n, n % 3), r.heaps(at + 25, n, 2, 3, 4, 5),
            r.simple(dotnet_records.RESTARTING, at + 28), r.simple(dotnet_records.RESTARTED, at + 30),
            r.suspend(at + 40, 6), r.simple(dotnet_records.SUSPENDED, at + 43), r.simple(dotnet_records.RESTARTED, at + 49),
            r.suspend(at + 50, 5), r.simple(dotnet_records.SUSPENDED, at + 51), r.simple(dotnet_records.RESTARTED, at + 58),
            r.suspend(at + 60, 1), r.start(at + 62, 500 + n, 1, 2, 4, 1), r.start(at + 62, 500 + n, 1, 2, 4), r.simple(dotnet_records.RESTARTED, at + 66),
            r.stop(at + 67, 500 + n, 1), r.stop(at + 68, 77777, 0), r.heaps(at + 69, 1, 1, 1, 1, 1),
            r.jitting(at + 70, 0x100 + n, "Outer", 10 + n), r.jitting(at + 71, 0x200 + n, "Inner", 20), r.jitting(at + 72, 0x300 + n, "Lost", 30),
            r.compiled(at + 75, 0x200 + n, 200, n % 8 << 7), r.compiled(at + 79, 0x100 + n, 100, 4 << 7), r.compiled(at + 80, 0x400 + n, 400, 0)]
    return made + [r.throughput(at + 81 + k, REALS[(n // DOTNET_EVERY + k) % len(REALS)]) for k in range(3)]


def named(name, clock):
    """A TraceLogging event of that name, without fields."""
    name = name.encode() + b"\0"
    return single.tracelogging_record(struct.pack("<HB", 3 + len(name), 0) + name, b"", clock)


def hashed_trace(first):
    """Programs that load files of which the agent has read the SHA-256: files of one content under several names, of several contents under one name, and some
    that could not be read. first: of the numbers by which two machines differ."""
    records, clock = [], 100000
    for n in range(160):
        pid, at = 100 + 4 * (n % 12), clock + 1000 * n
        records += [kernel.process(pid, program(n), at), kernel.thread(pid, 5000 + n, at + 1)]
        if n % 4:
            records.append(process_records.started(pid, 4, at, at + 2, 1 + n % 3, int(n % 3 == 1), (0, 4096, 8192, 12288)[n % 4]))
        if n % 5 == 0:
            records.append(process_records.created(pid, 0x3E7, 0x10000 + n if n % 2 else 0, 1 + n % 3, 16384, at + 3))
        for k in range(3):
            base, path = 0x10000000 + k * 0x100000, f"lib\\f{(first + n + k) % 7}.dll"
            records.append(kernel.image(pid, base, 0x4000, path, at + 10 + 2 * k))
            if (n + k) % 4:
                records.append(image_file(pid, base, path, f"{(first * (n % 2) + n + k) % 9:064x}", at + 11 + 2 * k))
        if n % 2 == 0:  # offsets beyond 2^63, and in every second version no thread
            offset = (1 << 63) + 4096 * (n % 7) if n % 5 == 0 else 4096 * (n % 9)
            records.append(kernel.disk_read(5000 + n % 6, 512 << n % 4, offset, at + 20, version=2 + n // 2 % 2))
            records.append(kernel.image(pid, 0xfffff80000000000 + n % 4 * 0x10000, 0x4000, f"drivers\\D{n % 3}.sys", at + 21))
        if n % 4 == 0:  # samples whose stacks are keys: every second key is never defined
            records += [kernel.sample(pid, 5000 + n, [0x10000010], at + 30)[0],
                        single.system_record(24, 38, 2, struct.pack("<qIIQ", at + 30, pid, 5000 + n, 0x7000 + n), at + 31)]
            records += [single.system_record(24, 36, 2, struct.pack("<QQQ", 0x7000 + n, 0x10000010, 0x10100020), at + 32)] * (n % 8 == 0)
        if n % 40 == 0:
            records += [named(name, at + 40 + k) for k, name in enumerate(TAKEN)]
        if n % DOTNET_EVERY == 1:
            records += dotnet(n, pid, 5000 + n, at + 400)
        if n % 3 == 0:
            records += [kernel.thread(pid, 5000 + n, at + 500, ends=True), kernel.process(pid, program(n), at + 501, ends=True)]
    return single.trace(records)


def short(rows):
    return [row if len(row) < WIDTH else row[:WIDTH] + "…" for row in sorted(rows)[:SHOWN]]


class Hole:
    """Batches of a stream that are not stored: their numbers, the places of their records in the trace, and the cause."""

    def __init__(self, first, last, begin, end, cause):
        self.first, self.last, self.begin, self.end, self.cause = first, last, begin, end, cause
        self.events = end - begin


class Host:
    """A machine of a store: the paths of its trace, and the batches of each run of its agent. holes: what never came, in order; counts: losses that its
    ledger has from a file's header, by name."""

    def __init__(self, world, name, paths, holes=(), counts=None):
        self.world, self.name, self.paths, self.holes, self.counts = world, name, paths, holes, counts

    @functools.cached_property
    def records(self):
        every = dumped(self.world.env.agent, *self.paths)
        gone = {at for hole in self.holes for at in range(hole.begin, hole.end)}
        return [record for at, record in enumerate(every) if at not in gone] if gone else every

    @property
    def is_cut(self):
        """Whether the last batches of events are missing."""
        return bool(self.holes) and self.holes[-1].end == len(dumped(self.world.env.agent, *self.paths))

    def around(self, hole):
        """(begin, end) of missing batches as times: of a tombstone those of the events; else from the last event before them to the first one after them,
        None where there is none."""
        every = dumped(self.world.env.agent, *self.paths)
        of = [record["time"] for record in every[hole.begin:hole.end]]
        if hole.cause != "missing":
            return min(of), max(of)
        kept = [(record["ordinal"], record["time"]) for record in self.records]
        before, after = [time for ordinal, time in kept if ordinal < hole.begin], [time for ordinal, time in kept if ordinal >= hole.end]
        return max(before, default=None), min(after, default=None)

    @functools.cached_property
    def streams(self):
        """{stream: its batches by number}, as they lie in the store."""
        return {stream: found for (agent, stream), found in self.world.stored.items() if agent == self.name}

    @functools.cached_property
    def state(self):
        """Its processes, threads and modules, each with its number in the order in which they became known."""
        return folded(self.world.env.agent, *self.paths) if not self.holes else fold(self.records)

    @functools.cached_property
    def span(self):
        """(from, to) in units of 100 ns, inside the trace: times that no record has, so that nothing lies on an end."""
        units = [record["units"] for record in self.records]
        taken, chosen = set(units), []
        for share in (3, 7):
            at = units[len(units) * share // 10]
            while at in taken:
                at += 1
            chosen.append(at)
        return tuple(chosen)


def fold(records):
    machine = naive_state.Machine()
    for record in records:
        machine.feed(record)
    machine.number()
    return machine


@functools.cache
def folded(agent, *paths):
    return fold(dumped(agent, *paths))


class World:
    """One collector with its machines."""

    def __init__(self, env, checks, name, hosts):
        """hosts: {name: (paths, the options of each run)}"""
        self.env, self.checks, self.name = env, checks, name
        self.counts = collections.defaultdict(lambda: [set(), 0, 0])  # answer -> [machines, rows, differences]
        self.collector = env.new_collector(name, extra=["--web", "127.0.0.1:0", "--hole-wait", "100ms"]).start()
        for host, (paths, runs) in hosts.items():
            for number, options in enumerate(runs):
                env.replay(paths, self.collector, agent=host, spool=env.folder / f"{name}-{host}-{number}",
                           extra=options if "--batch-events" in options else ["--batch-events", BATCH_EVENTS, *options])
        self.web = web_world.Web(self.collector)
        self.hosts = {host: Host(self, host, paths) for host, (paths, _) in hosts.items()}

    def damaged(self, name, path):
        """One more machine, which has labels, whose ledger is wrong once and counts lost buffers, and of which batches never come: some in the middle, some
        that its agent evicted, and the last ones."""
        batches = [uploads.labelled(batch, LABELS) for batch in test_ledger.captured_paths(
            self.env, [path], len(dumped(self.env.agent, path)), name, ["--batch-events", DAMAGED_EVENTS])]
        heads = [uploads.Head(batch) for batch in batches]
        count = max(head.number for head in heads if head.event_count)
        places = [sum(head.event_count for head in heads[:n]) for n in range(len(heads) + 1)]
        holes = [Hole(first, last, places[first - 1], places[last], "events_evicted_size" if (first, last) == GRAVE else "missing")
                 for first, last in sorted([*HOLES, GRAVE, (count - LAST + 1, count)])]
        host = self.hosts[name] = Host(self, name, (path,), holes, {"source_buffers_lost": BUFFERS_LOST})

        def counts(batch, head):
            def change(values):
                values[test_ledger.SOURCE_BUFFERS_LOST] = BUFFERS_LOST
                if head.number == 2:
                    values[test_ledger.EVENTS_DELIVERED] += WRONG_BY
            return test_ledger.with_ledger(batch, change)

        grave = next(hole for hole in holes if hole.cause != "missing")
        low, high = (naive_state.parse_time(time) * 100 for time in host.around(grave))
        gone = {number for hole in holes for number in range(hole.first, hole.last + 1)}
        sent = [counts(batch, head) for batch, head in zip(batches, heads) if head.number not in gone]
        sent.insert(sum(head.number < grave.first and head.number not in gone for head in heads), uploads.tombstone(heads[0].stream, grave.first, grave.last, EVICTED, grave.events, low, high))
        test_ledger.upload(self.env, self.collector, name, sent)

    def hashed(self, name, path):
        """One more machine, with hashes of modules and with keyframes, whose agent is older."""
        batches = test_ledger.captured_paths(self.env, [path], len(dumped(self.env.agent, path)), name, ["--batch-events", 340, "--keyframe-events", 450])
        at = max(at for at, batch in enumerate(batches) if {number for number, _ in uploads.fields(batch)} & {17, 20, 22, 25} == {17})  # its sources are in it, and no context
        batches[at] = uploads.of_version(batches[at], OLD_AGENT)
        test_ledger.upload(self.env, self.collector, name, batches)
        self.hosts[name] = Host(self, name, (path,))

    def ready(self):
        """Waits for the history of all that is stored; then it may be judged."""
        if DAMAGED in self.hosts:
            harness.wait_until(lambda: self.sql("SELECT 1 FROM gaps"), "the gap of a batch that does not come", 60)
        self.sql("SELECT 1 FROM processes LIMIT 1")  # waits until all that is stored is in the history; the list of machines does not
        self.stored = naive_store.by_stream(naive_store.batches(self.collector.store))
        return self

    def copy(self, to):
        """A copy of the store, whose collector runs and writes."""
        subprocess.run([str(self.env.collector), "backup", "--store", str(self.collector.store), "--to", str(to)], check=True, stdout=subprocess.DEVNULL)

    def sql(self, statement, *options):
        """The rows of a statement as objects."""
        done = self.env.run([self.env.collector, "query", "--store", self.collector.store, "--format", "jsonl", "--rows", 0, *options, statement])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def get(self, path, **params):
        """All items of a list of the API, or its one object."""
        answer = self.web.get(path, **params)
        if "items" not in answer or "next" not in answer:
            if isinstance(answer, dict) and "damaged" in answer and "ending" not in answer:  # one object, not a list
                self.checks.equal((answer.pop("damaged"), answer.pop("behind")), (0, 0), f"{path}: what the answer lacks")
            return answer
        items = answer["items"]
        while answer["next"] is not None:
            answer = self.web.get(path, **{**params, "limit": 10000, "cursor": answer["next"]})
            items += answer["items"]
        return items

    def command(self, *words, code=0):
        """What a command of etwcollector prints about this store."""
        done = self.env.run([self.env.collector, words[0], "--store", self.collector.store, *words[1:]], check=False)
        if done.returncode != code:
            raise harness.Failure(f"{words}: exit code {done.returncode}, not {code}: {done.stderr[-1000:]}")
        return done.stdout

    def same(self, answer, host, got, want, ordered=False):
        """Compares rows (tuples or texts, or {key: value}); the order matters only when the caller asks for it."""
        got, want = (list(rows.items()) if isinstance(rows, dict) else list(rows) for rows in (got, want))
        a, b = collections.Counter(map(repr, got)), collections.Counter(map(repr, want))
        more, missing = a - b, b - a
        wrong = max(sum(more.values()), sum(missing.values()))
        if not wrong and ordered and got != want:
            wrong = 1
        row = self.counts[answer]
        row[0].add(f"{self.name}/{host}")
        row[1] += len(want)
        row[2] += wrong
        self.checks.that(not wrong, f"{answer} of {host}: {wrong} of {len(want)} rows differ; not in the records: {short(more)}; "
                         f"missing: {short(missing)}" + "; the order differs" * (ordered and not more and not missing))


def make(env, checks, wanted=None):
    """[the store of all machines, the store of the twins]; wanted: names of the first one's machines, None: all."""
    env.make_certificates([*(f"real-{name}" for name in traces.among(REAL)), *(f"made-{name}" for name in MACHINES), *TWINS, DAMAGED, *HASHED])
    made = {}
    for name in MACHINES:
        made[name] = env.folder / f"{name}.etl"
        subprocess.run([traces.generator(env.build), "make", "--preset", harness.ROOT / "tests" / "judges" / "machines" / f"{name}.yaml", "--out", made[name]],
                       check=True, stdout=subprocess.DEVNULL)
    hosts = {f"real-{name}": (tuple(traces.paths(name, env.build)), [[]]) for name in traces.among(REAL)}
    hosts.update({f"made-{name}": ((made[name],), [[]]) for name in MACHINES})
    hosts = {name: spec for name, spec in hosts.items() if wanted is None or name in wanted}
    twins = World(env, checks, "twins", {twin: ((made[TWIN_TRACE],), RUNS) for twin in TWINS})
    twins.damaged(DAMAGED, made[TWIN_TRACE])
    for first, name in enumerate(HASHED, 1):
        (env.folder / f"{name}.etl").write_bytes(hashed_trace(first))
        twins.hashed(name, env.folder / f"{name}.etl")
    return [World(env, checks, "all", hosts).ready(), twins.ready()]
