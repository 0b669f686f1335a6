"""Processes and threads are joined by instance: on a machine that uses their numbers again, on the same trace under two names, and on a host
with two runs, SQL's cpu_usage, disk_usage, file_usage, network_usage, process_at and thread_at, and the API's routes of them, credit each event
to the process that its number was of then, as a naive walk over the dumped records and the generator's truth has it; no byte that both the
kernel logger and Kernel-Network logged counts twice. Differences of profiles between hosts, labels and weights are both profiles made apart;
instructions per cycle by machine, program, place and function are sums over dumped records.
"""
import collections
import json
import re
import subprocess

import harness
import profile_formats
import test_ledger
import test_profile
import test_tracegen
import traces
import uploads
import web_world

NO_ID = 0xFFFFFFFF
NETWORK = {name + version: way for name, way in (("TcpIp/Recv", 0), ("TcpIp/Send", 1), ("UdpIp/Recv", 0), ("UdpIp/Send", 1)) for version in ("IPV4", "IPV6")}
OF_PROVIDER = {10: 1, 26: 1, 42: 1, 58: 1, 11: 0, 27: 0, 43: 0, 59: 0}  # ids of Microsoft-Windows-Kernel-Network
EVERY_NS = 500_000_000


def dumped(env, *files):
    done = subprocess.run([str(env.agent), "dump", "--format", "jsonl", *map(str, files)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Owners:
    """Instances by number and time, out of the truth: (pid, place among the processes that had this pid in turn)."""

    def __init__(self, rows):
        self.lives = {"process": collections.defaultdict(list), "thread": collections.defaultdict(list)}
        for row in rows:
            if row["type"] == "process":
                self.lives["process"][row["pid"]].append(row["begin_raw"] or 0)
            if row["type"] == "thread" and row["tid"]:
                self.lives["thread"][row["tid"]].append((row["begin_raw"] or 0, row["pid"]))
        for kind in self.lives.values():
            for lives in kind.values():
                lives.sort()

    def process(self, pid, clock):
        return (pid, sum(begin <= clock for begin in self.lives["process"][pid]) - 1) if pid in self.lives["process"] else None

    def thread(self, tid, clock):
        """(tid, its place) and its process."""
        begun = [life for life in self.lives["thread"].get(tid, ()) if life[0] <= clock]
        return ((tid, len(begun) - 1), self.process(begun[-1][1], clock)) if begun else (None, None)


def used(owners, records):
    """What each process used: kind -> (instance, bucket) -> numbers."""
    sums = {kind: collections.defaultdict(lambda: [0, 0, 0, 0]) for kind in ("cpu", "disk", "file", "network")}

    def add(kind, who, record, way, size):
        row = sums[kind][who, record["utc_ns"] // EVERY_NS * EVERY_NS]
        row[2 * way] += 1
        row[2 * way + 1] += size

    for r in records:
        name, fields, clock = r["name"], r["fields"], r["clock"]
        if name == "PerfInfo/SampleProf":
            tid = fields["ThreadId"]
            add("cpu", owners.thread(tid, clock)[1] if tid else (0, 0), r, 0, 0)
        elif name in ("DiskIo/Read", "DiskIo/Write"):
            add("disk", owners.thread(fields["IssuingThreadId"], clock)[1], r, name == "DiskIo/Write", fields["TransferSize"])
        elif name in ("FileIo/Read", "FileIo/Write"):
            add("file", owners.process(r["pid"], clock), r, name == "FileIo/Write", fields["IoSize"])
        elif name in NETWORK:
            add("network", owners.process(fields["PID"], clock), r, NETWORK[name], fields["size"])
        elif r["provider_name"] == "Microsoft-Windows-Kernel-Network" and r["id"] in OF_PROVIDER:
            add("network-provider", fields["PID"], r, OF_PROVIDER[r["id"]], fields["size"])
    return sums


def utc_ns(text):
    """RFC 3339 with any number of digits, in ns."""
    import datetime
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * 10**9 + int((rest + "000000000")[:9])


class World:
    def __init__(self, env, duration_ms):
        self.env = env
        self.collector = env.new_collector("collector", extra=["--web", "127.0.0.1:0"]).start()
        self.web = web_world.Web(self.collector)
        self.records, self.owners = {}, {}
        for name, preset in (("build", "build-server"), ("web", "web-server")):
            trace, truth = test_tracegen.generate(env.build, env.folder, name, "--preset", preset, "--duration-ms", str(duration_ms))
            self.records[name] = dumped(env, trace)
            for r in self.records[name]:
                r["utc_ns"] = utc_ns(r["time"])
            self.owners[name] = Owners(test_tracegen.rows(truth))
        for agent, name in (("one", "build"), ("two", "build"), ("two", "web")):
            env.replay([env.folder / f"{name}.etl"], self.collector, agent=agent, spool=env.folder / f"spool-{agent}-{name}")

    def ask(self, sql, *more):
        command = self.env.patient([str(c) for c in [self.env.collector, "query", "--store", self.collector.store, "--format", "jsonl", "--rows", "0", *more, sql]])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or done.stderr:
            raise harness.Failure(f"{sql}: {done.returncode} {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def stream(self, agent, name):
        """The stream of a trace; a replay's is of its content, so that two agents have the same one."""
        events = len(self.records[name])
        rows = self.ask(f"SELECT stream FROM streams WHERE host = '{agent}' AND events = {events}")
        if len(rows) != 1:
            raise harness.Failure(f"{agent} has {len(rows)} streams of {events} events")
        return rows[0]["stream"]

    def instances(self, agent, stream, what, number):
        """key -> (number, place among those that had it in turn)."""
        known, seen = {}, collections.Counter()
        for row in self.ask(f"SELECT {what}_key AS k, {number} AS n FROM {what}{'es' if what == 'process' else 's'} WHERE host = '{agent}' "
                            f"AND stream = '{stream}' ORDER BY begin, instance"):
            known[row["k"]] = (row["n"], seen[row["n"]])
            seen[row["n"]] += 1
        return known


COLUMNS = {"cpu": "samples, 0, 0, 0", "disk": "reads, read_bytes, writes, written_bytes", "file": "reads, read_bytes, writes, written_bytes",
           "network": "receives, received_bytes, sends, sent_bytes"}


def check_usage(checks, world, agent, name):
    """Compares the four tables with the naive sums by instance and bucket, and the API's routes with the sums by process, without buckets."""
    stream = world.stream(agent, name)
    known = world.instances(agent, stream, "process", "pid")
    want = used(world.owners[name], world.records[name])
    for kind, columns in COLUMNS.items():
        got = {}
        names = columns.split(", ")
        for row in world.ask(f"SELECT process_key, pid, CAST(bucket AS INTEGER) + 0 AS bucket, {names[0]} AS a, {names[1]} AS b, {names[2]} AS c, {names[3]} AS d "
                             f"FROM {kind}_usage(NULL, NULL, {EVERY_NS}) WHERE host = '{agent}' AND stream = '{stream}'"):
            key = known.get(row["process_key"]), row["bucket"]
            checks.that(key not in got, f"{agent} {name} {kind}: two rows of {key}")
            got[key] = [row["a"], row["b"], row["c"], row["d"]]
        wrong = [(key, got.get(key), want[kind].get(key)) for key in {**got, **want[kind]} if got.get(key) != want[kind].get(key)]
        checks.that(not wrong, f"{agent} {name}: {len(wrong)} of {len(got)} rows of {kind}_usage by process and time are wrong, such as {wrong[:3]}")
        checks.that(len(got) > 3 or (name, kind) in (("build", "network"), ("web", "network")), f"{agent} {name}: hardly a process in {kind}_usage: {len(got)}")
        if agent != "one":  # its API answers of two runs: check_routes
            continue
        by_process = collections.Counter()
        for (who, _), numbers in want[kind].items():
            if kind != "cpu" or who[0]:
                by_process[who] += numbers[0] if kind == "cpu" else numbers[1] + numbers[3]
        for every in ("250ms", "10s"):
            route = {"file": "files"}.get(kind, kind)
            answer = world.web.get(f"hosts/{agent}/{route}", every=every, limit=10000)
            checks.equal(answer["next"], None, f"pages of {route}")
            summed, places = collections.Counter(), {}
            for row in world.ask(f"SELECT instance, process_key AS k FROM processes WHERE host = '{agent}' AND stream = '{stream}'"):
                places[row["instance"]] = known[row["k"]]
            for row in answer["items"]:
                summed[places.get(row["instance"])] += row["value"]
            checks.equal(summed, +by_process, f"{agent}: {route} by process, every {every}")
    samples = sum(r["name"] == "PerfInfo/SampleProf" and r["fields"]["ThreadId"] != 0 for r in world.records[name])
    row = world.ask(f"SELECT sum(samples) AS n FROM cpu_usage WHERE host = '{agent}' AND stream = '{stream}' AND pid IS NOT 0")[0]
    checks.equal(row["n"], samples, f"{agent} {name}: samples that are not Idle's, each once")


def check_top(checks, world):
    """top-processes-by-cpu of all hosts: each trace's samples for each of its names, each once."""
    want = collections.Counter()
    for agent, name in (("one", "build"), ("two", "build"), ("two", "web")):
        stream = world.stream(agent, name)
        for (who, _), numbers in used(world.owners[name], world.records[name])["cpu"].items():
            if who[0]:
                want[agent, stream, who] += numbers[0]
    places = {}
    for agent, name in (("one", "build"), ("two", "build"), ("two", "web")):
        stream = world.stream(agent, name)
        known = world.instances(agent, stream, "process", "pid")
        for row in world.ask(f"SELECT instance, process_key AS k FROM processes WHERE host = '{agent}' AND stream = '{stream}'"):
            places[agent, stream, row["instance"]] = known[row["k"]]
    for host in (None, "two"):
        items = world.web.get("queries/top-processes-by-cpu", limit=10000, host=host)["items"]
        got = {(r["host"], r["stream"], places[r["host"], r["stream"], r["instance"]]): r["samples"] for r in items}
        checks.equal(len(got), len(items), "rows of top-processes-by-cpu, one a process")
        checks.equal(got, {k: n for k, n in want.items() if host in (None, k[0])}, f"top-processes-by-cpu of {host or 'all'}")
    checks.that(max(want.values()) > 1, "no process has two samples")


def check_functions(checks, world):
    """process_at and thread_at of each event that has the numbers, on the host with two runs."""
    reused = 0
    for name in ("build", "web"):
        stream, owners = world.stream("two", name), world.owners[name]
        processes, threads = (world.instances("two", stream, what, number) for what, number in (("process", "pid"), ("thread", "tid")))
        own = {row["k"]: row["p"] for row in world.ask(f"SELECT thread_key AS k, process_key AS p FROM threads WHERE host = 'two' AND stream = '{stream}'")}
        samples = {(r["clock"], r["cpu"]): r["fields"]["ThreadId"] for r in world.records[name] if r["name"] == "PerfInfo/SampleProf"}
        wrong = []
        rows = world.ask(f"SELECT clock, cpu, thread_at(host, stream, ThreadId, time) AS k FROM \"PerfInfo/SampleProf\" WHERE host = 'two' AND stream = '{stream}'")
        for row in rows:
            clock, tid = row["clock"], samples[row["clock"], row["cpu"]]
            thread, process = owners.thread(tid, clock) if tid else (None, None)
            if (threads.get(row["k"]), processes.get(own.get(row["k"]))) != (thread, process):
                wrong.append((row, thread, process))
            reused += thread is not None and len(owners.lives["thread"][tid]) > 1
        checks.that(rows and not wrong, f"{name}: thread_at of {len(wrong)} of {len(rows)} samples is wrong, such as {wrong[:1]}")
        events = {(r["clock"], r["cpu"], r["name"]): r["pid"] for r in world.records[name] if r["name"].startswith("FileIo/") and r["pid"] != NO_ID}
        rows = world.ask(f"SELECT clock, cpu, name, process_at(host, stream, pid, time) AS k FROM events WHERE host = 'two' AND stream = '{stream}' AND name LIKE 'FileIo/%' AND pid <> {NO_ID}")
        wrong = [row for row in rows if processes.get(row["k"]) != owners.process(events[row["clock"], row["cpu"], row["name"]], row["clock"])]
        checks.that(rows and not wrong, f"{name}: process_at of {len(wrong)} of {len(rows)} file events is wrong, such as {wrong[:1]}")
    checks.that(reused > 100, f"{reused} samples of threads whose number was used again")
    row = world.ask(f"SELECT process_at('two', '{stream}', 4, 0) AS before, process_at('two', '{stream}', 4294967295, 1) AS none, process_at('three', '{stream}', 4, 1) AS unknown, "
                    f"process_at('two', 'x', 4, 1) AS nowhere, thread_at('two', '{stream}', 0, 9000000000000000000) AS idle, process_at('two', '{stream}', NULL, 1) AS unknown, "
                    f"process_at('two', '{stream}', -1, 1) AS negative, process_at('two', '{stream}', 4294967300, 9000000000000000000) AS large")[0]
    checks.equal(set(row.values()), {None}, "keys of missing objects")
    done = world.env.run([world.env.collector, "query", "--store", world.collector.store, "SELECT process_at('two', 'x', 4, 'someday')"], check=False)
    checks.that(done.returncode == 2 and "process_at: expected host, stream, a number, and a time in ns since 1970 (time_ns)" in done.stderr,
                f"a time that is text: {done.returncode} {done.stderr}")


def check_names(checks, world):
    """The same trace under two names: joins by key have each row once, and never a row of the other host."""
    for sql, what in (("FROM processes c JOIN processes p ON p.process_key = c.parent_key", "parents"),
                      ("FROM threads c JOIN processes p ON p.process_key = c.process_key", "threads"),
                      ("FROM modules c JOIN processes p ON p.process_key = c.process_key", "modules"),
                      ("FROM thread_times c JOIN processes p ON p.process_key = c.process_key", "thread_times")):
        rows = {row["host"]: (row["n"], row["mixed"]) for row in
                world.ask(f"SELECT c.host AS host, count(*) AS n, sum(c.host <> p.host OR c.stream <> p.stream) AS mixed {sql} WHERE c.stream = '{world.stream('one', 'build')}' GROUP BY 1")}
        checks.that(len(rows) == 2 and rows["one"] == rows["two"] and rows["one"][0] > 10 and not rows["one"][1], f"{what} of the same trace under two names: {rows}")
    alone = world.ask("SELECT count(*) AS n FROM processes c JOIN processes p ON p.host = c.host AND p.stream = c.stream AND p.instance = c.parent_instance")[0]
    by_key = world.ask("SELECT count(*) AS n FROM processes c JOIN processes p ON p.process_key = c.parent_key")[0]
    checks.equal(by_key, alone, "parents by key, and by host, stream and instance")
    for column, table in (("parent_key", "processes"), ("process_key", "threads"), ("process_key", "modules"), ("thread_key", "threads")):
        row = world.ask(f"SELECT {column} AS k, count(*) AS n FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 1")[0]
        got = world.ask(f"SELECT count(*) AS n FROM {table} WHERE {column} = {row['k']}")[0]
        checks.equal(got["n"], row["n"], f"{table} that are looked up by {column}")


def check_provider(env, checks, world):
    """Microsoft-Windows-Kernel-Network alone counts; beside the kernel logger's events in one run it does not."""
    if not checks.real("joins: network_usage of a trace that has Microsoft-Windows-Kernel-Network alone"):
        return
    trace = traces.paths("kernel-network-provider", env.build)[0]
    web = env.folder / "web.etl"
    env.replay([trace], world.collector, agent="provider", spool=env.folder / "spool-provider")
    env.replay([trace, web], world.collector, agent="both", spool=env.folder / "spool-both")
    want = collections.Counter()
    for r in dumped(env, trace):
        if r["provider_name"] == "Microsoft-Windows-Kernel-Network" and r["id"] in OF_PROVIDER:
            want[r["fields"]["PID"], OF_PROVIDER[r["id"]]] += r["fields"]["size"]
    got = collections.Counter()
    for row in world.ask("SELECT pid, received_bytes AS i, sent_bytes AS o FROM network_usage WHERE host = 'provider'"):
        got[row["pid"], 0] += row["i"]
        got[row["pid"], 1] += row["o"]
    checks.equal(+got, +want, "bytes that Kernel-Network logged")
    watched, program = collections.Counter(), '"Microsoft-Windows-Kernel-Network:*" /has(size)/ { @[pid, id] = sum(size); }'
    for row in map(json.loads, env.run([env.agent, "watch", "--json", "-e", program, trace]).stdout.splitlines()):
        if row["keys"][1] in OF_PROVIDER:
            watched[row["keys"][0], OF_PROVIDER[row["keys"][1]]] += row["sum"]
    checks.equal(+watched, +want, "bytes that Kernel-Network logged, by a program")
    kernel = sum(r["fields"]["size"] for r in world.records["web"] if r["name"] in NETWORK)
    row = world.ask("SELECT sum(received_bytes + sent_bytes) AS n FROM network_usage WHERE host = 'both'")[0]
    checks.equal(row["n"], kernel, "bytes of a run that recorded both")


SITES = ("north", "south")


def labelled_sites(env, world):
    """Two machines that differ in their label and in what they did; returns the truth and the records of each."""
    known = {}
    for seed, site in enumerate(SITES, 1):
        trace, truth = test_tracegen.generate(env.build, env.folder, site, "--preset", "stacks", "--duration-ms", "300", "--seed", str(seed))
        test_ledger.upload(env, world.collector, site, [uploads.labelled(b, {"site": site, "role": "builder"}) for b in web_world.captured(env, trace, site)])
        known[site] = test_tracegen.rows(truth), dumped(env, trace)
    return known


def profile(world, *arguments):
    command = [str(c) for c in [world.env.collector, "profile", "--store", world.collector.store, *arguments]]
    return world.env.run(command).stdout


def trees(text):
    """Both sides of a difference's JSON."""
    return [collections.Counter({path: n for path, n in profile_formats.tree(text, column).items() if n}) for column in (3, 5)]


def check_differences(checks, world):
    """Between hosts and between labels, by the command and over HTTP, in each form: what both profiles hold apart."""
    apart = {site: +profile_formats.folded(profile(world, "--host", site, "--weight", "samples", "--format", "folded")) for site in SITES}
    checks.that(all(sum(apart[site].values()) > 100 for site in SITES) and apart["north"] != apart["south"], "two machines that do the same")
    for first, other in (("north", "south"), ("south", "north")):
        want = [apart[first], apart[other]]
        for how in (("--host", first, "--other-host", other), ("--label", f"site={first}", "--label", "role=builder", "--other-label", f"site={other}")):
            asked = (*how, "--weight", "samples")
            checks.that(trees(profile(world, *asked, "--format", "json")) == want, f"{how}: the sides as JSON")
            head = json.loads(profile(world, *asked, "--format", "json"))
            checks.equal((head["hosts"], head["other"]["hosts"]), ([first], [other]), f"{how}: hosts of the sides")
            folded = profile(world, *asked, "--format", "folded")
            sides = [collections.Counter(), collections.Counter()]
            for line in folded.splitlines():
                path, *numbers = line.rsplit(" ", 2)
                for side, n in zip(sides, reversed(numbers)):
                    side[tuple(path.split(";"))] += int(n)
            checks.that([+side for side in sides] == want, f"{how}: the sides folded")
            minus = collections.Counter(apart[first])
            minus.subtract(apart[other])
            command = [str(c) for c in [world.env.collector, "profile", "--store", world.collector.store, *asked, "--format", "pprof"]]
            got = profile_formats.pprof(subprocess.run(command, capture_output=True, check=True).stdout)
            checks.that({k: v for k, v in got.items() if v} == {k: v for k, v in minus.items() if v}, f"{how}: the difference as pprof")
        for query in (f"host={first}&other_host={other}", f"label=site%3D{first}&other_label=site%3D{other}"):
            checks.that(trees(world.web.ask(f"/api/v1/profile?weight=samples&{query}")[2]) == want, f"the sides over HTTP: {query}")
    for arguments, reason in ((("--other-label", "north"), '"north" is no label: NAME=VALUE is expected'), (("--other-host", "nowhere"), "nowhere"),
                              (("--label", "site=west"), "no stored run of an agent had the label site=west"),
                              (("--other-label", "site=west"), "no stored run of an agent had the label site=west"),
                              (("--label", "site=north", "--label", "role=none"), "had the label site=north and the others that were given"),
                              (("--host", "south", "--label", "site=north"), "had the label site=north"),
                              (("--weight", "samples", "--other-weight", "cpu", "--format", "pprof"), "the format pprof has no room for two weights")):
        done = world.env.run([world.env.collector, "profile", "--store", world.collector.store, *arguments], check=False)
        checks.that(done.returncode in (1, 2) and reason in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")
    head = json.loads(profile(world, "--label", "site=north", "--weight", "samples", "--to", "2001-01-01T00:00:00Z", "--format", "json"))
    checks.equal((head["hosts"], head["total"]), ([], 0), "a label whose runs have nothing in the range")
    checks.equal(world.web.ask("/api/v1/profile?weight=samples&label=site%3Dwest")[0], 404, "a label that no machine has, over HTTP")


def check_ipc(checks, world, known):
    """Instructions and cycles by machine, program, place in the code and function."""
    kind_of = {"InstructionRetired": 0, "TotalCycles": 1}
    machines, programs, places = (collections.defaultdict(lambda: [0, 0]) for _ in range(3))
    for site, (rows, records) in known.items():
        truth, owners, sources, intervals = test_profile.Truth(rows), Owners(rows), {}, {}
        for row in rows:
            if row["type"] == "thread" and row["tid"]:
                image = truth.image(row["pid"], row["begin_raw"] or 0)
                for sums in (machines[site, "switches"], programs[site, image, "switches"]):
                    sums[0] += row["instructions"]
                    sums[1] += row["cycles"]
        for r in records:
            fields = r["fields"]
            if r["name"] == "PerfInfo/CollectionStart":
                sources[fields["Source"]["value"]], intervals[fields["Source"]["value"]] = fields["SourceName"], fields["NewInterval"]
            if r["name"] != "PerfInfo/PmcCounterProf":
                continue
            source = fields["ProfileSource"]["value"]
            (pid, _), at = owners.thread(fields["ThreadId"], r["clock"])[1], int(fields["InstructionPointer"], 16)
            image, kind = truth.image(pid, r["clock"]), kind_of[sources[source]]
            for sums in (machines[site, "samples"], programs[site, image, "samples"], places[site, image, truth.label(pid, at, r["clock"])]):
                sums[kind] += intervals[source]
    checks.that(len(places) > 20 and all(all(sums) for sums in machines.values()), f"hardly a counter: {len(places)} places, {dict(machines)}")

    def summed(row):
        ratio = row["instructions"] / row["cycles"] if row["instructions"] and row["cycles"] else None
        same = row["ipc"] == ratio or (row["ipc"] is not None and ratio is not None and abs(row["ipc"] - ratio) < 1e-9)
        checks.that(same, f"a ratio that is none: {row}")
        return [row["instructions"] or 0, row["cycles"] or 0]

    for name, want, columns in (("ipc-by-machine", machines, ("host", "source")), ("ipc-by-program", programs, ("host", "image", "source"))):
        for site in SITES:
            got = {tuple(row[c] for c in columns): summed(row) for row in world.web.get(f"queries/{name}", host=site, limit=10000)["items"]}
            checks.equal({k: v for k, v in got.items() if any(v)}, {k: v for k, v in want.items() if k[0] == site and any(v)}, f"{name} of {site}")
    got = collections.defaultdict(lambda: [0, 0])
    for row in world.ask("SELECT host, image, module, offset, source_name, sum(events) AS n FROM code_counters WHERE host IN ('north', 'south') GROUP BY 1, 2, 3, 4, 5"):
        offset = row["offset"] if isinstance(row["offset"], str) else f"0x{row['offset']:x}"
        got[row["host"], row["image"], f"{row['module']}+{offset}" if row["module"] else offset][kind_of[row["source_name"]]] += row["n"]
    wrong = [(key, got.get(key), places.get(key)) for key in {**got, **places} if got.get(key) != places.get(key)]
    checks.that(not wrong, f"{len(wrong)} of {len(places)} rows of code_counters are wrong, such as {wrong[:2]}")
    example = re.search(r"```SQL\n(.*?)```", (harness.ROOT / "collector" / "query" / "SQL.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
    for site in SITES:
        rows = world.ask(example, "--host", site)
        for row in rows:
            offset = row["offset"] if isinstance(row["offset"], str) else f"0x{row['offset']:x}"
            checks.equal(summed(row), places[site, row["image"], f"{row['module']}+{offset}" if row["module"] else offset], f"the page's example: {row}")
        greatest = sorted((sums[1] for key, sums in places.items() if key[0] == site), reverse=True)[:10]
        checks.equal([row["cycles"] for row in rows], greatest, f"{site}: the page's example")
        text = world.web.ask(f"/api/v1/profile?host={site}&weight=pmc:InstructionRetired&other_weight=pmc:TotalCycles&names=0")[2]
        head = json.loads(text)
        checks.equal((head["counter"], head["other"]["counter"], head["total"], head["other"]["total"]), ("InstructionRetired", "TotalCycles", *machines[site, "samples"]),
                     f"{site}: sums of both counters")
        got, wanted = collections.defaultdict(lambda: [0, 0]), {(image, place): sums for (host, image, place), sums in places.items() if host == site}
        for side, tree in enumerate(trees(text)):
            for path, n in tree.items():
                got[path[0], path[-1]][side] += n
        wrong = [(key, got.get(key), wanted.get(key)) for key in {**got, **wanted} if got.get(key) != wanted.get(key)]
        checks.that(not wrong, f"{site}: {len(wrong)} of {len(wanted)} sums by program and function are wrong, such as {wrong[:2]}")
        by_function = collections.defaultdict(lambda: [0, 0])
        for (_, place), sums in wanted.items():
            by_function[place] = [a + b for a, b in zip(by_function[place], sums)]
        lines = profile(world, "--host", site, "--weight", "pmc:InstructionRetired", "--other-weight", "pmc:TotalCycles").split("\n\n")[0].splitlines()
        checks.that(lines[0].split() == ["self", "total", "other", "self", "other", "total", "self", "/", "other", "function"], f"the heading of top: {lines[0]!r}")
        shown = 0
        for line in lines[1:]:
            own, _, other, _, ratio, label = line.split(None, 5)
            want = by_function.get(label, [0, 0])
            expected = f"{want[0] / want[1]:.3f}" if want[1] else "-"
            checks.equal(([int(own), int(other)], ratio), (want, expected), f"{site}: {label} in top")
            shown += any(want)
        checks.that(shown > 5, f"{site}: top shows {shown} functions with counts")


def test(env, checks, arguments):
    env.make_certificates(("one", "two", "provider", "both", *SITES))
    world = World(env, 10000 if arguments.soak else 2500)
    for agent, name in (("one", "build"), ("two", "build"), ("two", "web")):
        check_usage(checks, world, agent, name)
    check_top(checks, world)
    check_functions(checks, world)
    check_names(checks, world)
    check_provider(env, checks, world)
    known = labelled_sites(env, world)
    check_differences(checks, world)
    check_ipc(checks, world, known)


if __name__ == "__main__":
    harness.main(test, __doc__)
