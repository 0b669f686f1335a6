"""Judges of answers about single events: the table events and those of classes, their aggregates, searches of the API, and lists that
are made of events of a few classes."""
import collections
import functools
import json
import re

from judge_state import chosen, ns, rows
from naive_state import number
import test_ledger

HEADER = ["time", "clock", "provider", "id", "version", "channel", "level", "opcode", "task", "cpu", "pid", "tid", "activity_id", "related_activity_id"]
ANY = 0xFFFFFFFF
PORTION, MANY = 3, 40000  # of so many batches one is compared with its fields; of machines with more events than that, some batches


def placed(host, stream):
    """(number of the batch, place in it, record) of each event of a run."""
    at = 0
    for batch in host.streams[stream]:
        for position in range(batch.records):
            yield batch.number, position, host.records[at + position]
        at += batch.records


def judge_headers(world):
    """The table events: every event's place, time and header; of some the fields, too."""
    columns = ["stream", "batch", "position", "name", "keyword", *HEADER]
    for name, host in world.hosts.items():
        portion = 1 + len(host.records) // MANY
        want = [(stream, batch, position, record["name"], record["keyword"], *(record[key] for key in HEADER))
                for stream in host.streams for batch, position, record in placed(host, stream) if batch % portion == 0]
        got = world.sql(f"SELECT {', '.join(columns)} FROM events WHERE host = '{name}' AND batch % {portion} = 0")
        world.same("table events", name, [tuple(row[key] for key in columns) for row in got], want)
        want = [(stream, batch, position) for stream in host.streams for batch, position, record in placed(host, stream) if "_tail" in record["fields"]]
        got = world.sql(f"SELECT stream, batch, position FROM events WHERE host = '{name}' AND decoded <> 'whole'")
        world.same("table events", f"{name}, not decoded whole", [tuple(row.values()) for row in got], want)
        batches = {batch.number for found in host.streams.values() for batch in found}
        for batch in sorted(batches)[1:4:PORTION]:
            want = [(stream, position, json.dumps(record["fields"], sort_keys=True)) for stream in host.streams
                    for number_, position, record in placed(host, stream) if number_ == batch]
            got = world.sql(f"SELECT stream, position, fields FROM events WHERE host = '{name}' AND batch = {batch}")
            world.same("table events", name, [(row["stream"], row["position"], json.dumps(json.loads(row["fields"]), sort_keys=True)) for row in got], want)


FUNCTIONS = {  # what SQL computes of an event: as SQL, as Python
    "time_text(time)": lambda record: record["time"],
    "time_ns(time_text(time)) - time": lambda record: 0,
    "time_bucket(time, 1) - time": lambda record: 0,
    "time_bucket(pid, 4)": lambda record: record["pid"] // 4 * 4,
    "time_bucket(time, '1ms')": lambda record: record["units"] // 10000 * 10**6,
    "time_bucket(-pid, 4)": lambda record: -record["pid"] // 4 * 4,
    "printf('%s|%d', name, pid)": lambda record: f"{record['name']}|{record['pid']}",
    "printf('%d', cpu)": lambda record: f"{record['cpu']}",
    "format('%5d%%|%s|%s|%.1f', pid, name, '', cpu)": lambda record: f"{record['pid']:5}%|{record['name']}||{record['cpu']:.1f}",
    "printf('no value')": lambda record: "no value",
    "u64_text(u64(pid))": lambda record: f"{record['pid']:#x}",
    "hex_text(pid)": lambda record: f"{record['pid']:#x}",
    "duration_ns('2ms') + cpu": lambda record: 2 * 10**6 + record["cpu"],
    "guid(guid_bytes(provider))": lambda record: record["provider"],
}


def judge_functions(world):
    """SQL's own functions of one row, over the events of some batches."""
    for name, host in world.hosts.items():
        some = sorted({batch.number for found in host.streams.values() for batch in found if batch.records})[:2]
        want = [(stream, batch, position, *(of(record) for of in FUNCTIONS.values())) for stream in host.streams
                for batch, position, record in placed(host, stream) if batch in some]
        columns = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(FUNCTIONS))
        got = world.sql(f"SELECT stream, batch, position, {columns} FROM events WHERE host = '{name}' AND batch IN ({', '.join(map(str, some))})")
        world.same("table events", f"{name}, functions", [tuple({**row, "c4": int(row["c4"])}.values()) for row in got], want)


def counted(host, *keys):
    return collections.Counter(tuple(key(record) for key in keys) for record in host.records)


def judge_aggregates(world):
    """events_by, and a class's own aggregate: counts and sums by group and time."""
    second = 10**9
    for name, host in world.hosts.items():
        runs = len(host.streams)
        want = counted(host, lambda record: record["name"])
        got = world.sql(f"SELECT name, count FROM events_by('name') WHERE host = '{name}'")
        world.same("table events_by", name, [((row["name"],), row["count"]) for row in got], [(key, n * runs) for key, n in want.items()])
        got = world.sql(f"SELECT name, count(*) AS count FROM events WHERE host = '{name}' GROUP BY name")
        world.same("table events", name, [((row["name"],), row["count"]) for row in got], [(key, n * runs) for key, n in want.items()])
        want = counted(host, lambda record: record["pid"], lambda record: record["units"] * 100 // second * second)
        got = world.sql(f"SELECT CAST(bucket AS INTEGER) AS bucket, pid, count FROM events_by('pid', NULL, NULL, '1s') WHERE host = '{name}'")
        world.same("table events_by", name, [((row["pid"], row["bucket"]), row["count"]) for row in got], [(key, n * runs) for key, n in want.items()])
        for klass, field in (("TcpIp/SendIPV4", "size"), ("DiskIo/Read", "TransferSize"), ("Image/Load", "ImageSize"), ("Target/win:Start", "targetName")):
            mine = [record for record in host.records if record["name"] == klass]
            if not mine:
                continue
            got = world.sql(f'SELECT time, cpu, "{field}" AS field FROM "{klass}" WHERE host = \'{name}\'')
            world.same('table "CLASS"', name, [tuple(row.values()) for row in got],
                       [(record["time"], record["cpu"], record["fields"][field]) for record in mine] * runs)
            if isinstance(mine[0]["fields"][field], int):
                sums = collections.defaultdict(list)
                for record in mine:
                    sums[record["cpu"]].append(record["fields"][field])
                got = world.sql(f"SELECT cpu, count, value_count, sum, min, max FROM \"{klass}_by\"('cpu', NULL, '{field}') WHERE host = '{name}'")
                world.same('table "CLASS_by"', name, [tuple(row.values()) for row in got],
                           [(cpu, len(v) * runs, len(v) * runs, sum(v) * runs, min(v), max(v)) for cpu, v in sums.items()])
        real_sums(world, name, host)


def real_sums(world, name, host):
    """A class's own aggregate of a column of real numbers; NaN counts as no value. The sums of these numbers are exact."""
    found = collections.defaultdict(list)
    for record in host.records:
        if record["name"] == "ThreadPoolWorkerThreadAdjustment/Sample":
            found[record["tid"]].append(record["fields"]["Throughput"])
    if found:
        numbers = {tid: [value for value in values if value != "NaN"] for tid, values in found.items()}
        runs = len(host.streams)
        want = [(tid, len(values) * runs, len(some) * runs, *((float(sum(some) * runs), float(min(some)), float(max(some))) if some else (None,) * 3))
                for (tid, values), some in zip(found.items(), numbers.values())]
        got = world.sql(f"SELECT tid, count, value_count, sum, min, max FROM \"ThreadPoolWorkerThreadAdjustment/Sample_by\"('tid', NULL, 'Throughput') WHERE host = '{name}'")
        world.same('table "CLASS_by"', name, [tuple(value if at < 3 or value is None else float(value) for at, value in enumerate(row.values())) for row in got], want)


def judge_counts_over_time(world):
    """Counts of a search by time: of a range, and of a class in all that is stored."""
    for name, host in world.hosts.items():
        begin, end = map(ns, host.span)
        klass = collections.Counter(record["name"] for record in host.records if record["name"]).most_common(1)[0][0]
        for limits, filters in (({"from_": begin, "to": end}, {}), ({}, {"class_": klass})):
            items = world.web.get("events/counts", host=name, buckets=40, **limits, **filters)["items"]
            got = [(test_ledger.utc_ns(item["begin"]), test_ledger.utc_ns(item["end"]), item["count"]) for item in items]
            low, high, width = limits.get("from_", got[0][0]), limits.get("to", got[-1][1]), got[1][1] - got[1][0] + 1
            times = [record["units"] * 100 for record in host.records if not filters or record["name"] == klass]
            counts = collections.Counter([time // width for time in times if low <= time <= high])
            want = [(max(low, place * width), min(high, (place + 1) * width - 1), counts[place] * len(host.streams)) for place in range(low // width, high // width + 1)]
            world.same("route /api/v1/events/counts", name, got, want, ordered=True)
            if not limits:
                world.same("route /api/v1/events/counts", name, [sum(counts.values())], [len(times)])


COMMON = {"host", "time", "cpu", "pid", "tid", "provider_name", "name", "fields", "stream", "batch", "position", "source", "clock", "provider", "id", "version", "channel", "level", "opcode",
          "task", "keyword", "activity_id", "related_activity_id", "stack", "stack_hash", "counters", "decoded", "payload"}  # columns of all events


def judge_values(world):
    """The values of a field in what a search finds: of columns that all events have, and of a field of a class."""
    for name, host in world.hosts.items():
        begin, end = map(ns, host.span)
        ranged = [record for record in host.records if begin <= record["units"] * 100 <= end]
        for field in ("name", "provider_name", "cpu", "pid"):
            got, want = collections.Counter(), collections.Counter(record[field] or 0 for record in ranged)
            for row in world.get("events/values", host=name, field=field, from_=begin, to=end, limit=10000):
                got[row["value"] or 0] += row["count"]
            world.same("route /api/v1/events/values", f"{name}, {field}", got, {value: n * len(host.streams) for value, n in want.items()})
        klass = collections.Counter(record["name"] for record in host.records if record["name"] and record["fields"]).most_common(1)[0][0]
        mine = [record for record in host.records if record["name"] == klass]
        field = next((field for field in mine[0]["fields"] if field.lower() not in COMMON), None)
        if field:
            counts = collections.Counter(repr(record["fields"].get(field)) for record in mine)
            got = [row["count"] for row in world.get("events/values", host=name, class_=klass, field=field, limit=5)]
            world.same("route /api/v1/events/values", f"{name}, {klass} {field}", got, sorted((n * len(host.streams) for n in counts.values()), reverse=True)[:5], ordered=True)


def judge_search(world):
    """The API's search of events: newest first, by class, field, process and time; columns; classes by name."""
    names = ["host", "stream", "batch", "position", "time"]
    for name, host in world.hosts.items():
        everything = [(stream, batch, position, record) for stream in host.streams for batch, position, record in placed(host, stream)]
        begin, end = host.span

        def rows_of(some):
            return [(name, stream, batch, position, record["time"]) for stream, batch, position, record in some]

        ranged = [row for row in everything if begin < row[3]["units"] < end]
        got = world.web.get("events", host=name, from_=ns(begin), to=ns(end), limit=100)["items"]
        world.same("route /api/v1/events", name, [row["time"] for row in got], sorted((row[3]["time"] for row in ranged), reverse=True)[:100], ordered=True)
        klass = collections.Counter(row[3]["name"] for row in everything if row[3]["name"]).most_common(3)[-1][0]
        mine = [row for row in ranged if row[3]["name"] == klass][:2000]
        limit = {"from_": ns(begin), "to": ns(mine[-1][3]["units"] if mine else end), "class_": klass, "host": name}
        mine = [row for row in ranged if row[3]["name"] == klass and row[3]["units"] <= (mine[-1][3]["units"] if mine else end)]
        world.same("route /api/v1/events", name, [tuple(row[key] for key in names) for row in world.get("events", **limit, order="oldest", limit=1000)], rows_of(mine))
        pids = collections.Counter(row[3]["pid"] for row in ranged if row[3]["pid"] != ANY)
        if pids:
            pid = pids.most_common()[-1][0]
            some = [row for row in ranged if row[3]["pid"] == pid]
            got = world.get("events", host=name, pid=pid, from_=ns(begin), to=ns(end), limit=1000)
            world.same("route /api/v1/events", name, [tuple(row[key] for key in names) for row in got], rows_of(some))
    want = collections.defaultdict(set)
    for host in world.hosts.values():
        for record in host.records:
            if record["name"]:
                want[record["name"], record["provider_name"] or ""].add((record["provider"], record["version"], record["pointer_size"]))
    got = {(row["name"], row["provider_name"] or "") for row in world.get("classes", limit=10000)}
    world.same("route /api/v1/classes", "all", got, set(want))
    found = next(host for host in world.hosts.values() if any(record["name"] == "Process/DCStart" for record in host.records))
    fields = next(record["fields"] for record in found.records if record["name"] == "Process/DCStart")
    shown = {row["name"] for row in world.get("columns", class_="Process/DCStart", limit=1000)}
    world.same("route /api/v1/columns", "all", sorted(set(fields) & shown), sorted(fields))


# ---- what processes did ----

def lived(i, record):
    return i.from_key <= (record["units"], record["clock"]) < i.to_key


REGISTRY = ["Registry/Create", "Registry/Open", "Registry/SetValue", "Registry/DeleteValue", "Registry/Delete"]


def status(record):
    """(whether the operation succeeded, what its NTSTATUS is called) of a registry event."""
    found = record["fields"]["Status"]
    return int(found["value"], 16) < 1 << 31, found["name"] or found["value"]


def judge_doings(world):
    """Files and registry keys of single processes: of the process that had the number at that time."""
    for name, host in world.hosts.items():
        for i, row in chosen(rows(host, "process")):
            base = f"hosts/{name}/processes/{row['stream']}/{row['instance']}"
            mine = [record for record in host.records if record["pid"] == i.key and lived(i, record)]
            files = collections.Counter(record["fields"]["OpenPath"] for record in mine if record["name"] == "FileIo/Create")
            got = [(item["path"], item["count"]) for item in world.get(f"{base}/files", limit=10000)]
            world.same("route /api/v1/hosts/{host}/processes/{stream}/{instance}/files", name, got, files.items())
            keys = [(record["time"], record["name"], called(host, record), record["fields"]["KeyName"], status(record)[1]) for record in mine if record["name"] in REGISTRY]
            got = [(item["time"], item["name"], item["key"], item["key_name"], item["status"]) for item in world.get(f"{base}/registry", limit=10000)]
            world.same("route /api/v1/hosts/{host}/processes/{stream}/{instance}/registry", name, got, keys)


CONNECTS = ["TcpIp/ConnectIPV4", "TcpIp/ConnectIPV6", "TcpIp/AcceptIPV4", "TcpIp/AcceptIPV6"]


def connections(host):
    """(record, its process or None)"""
    return [(record, host.state.at("process", record["fields"]["PID"], record)) for record in host.records if record["name"] in CONNECTS]


def judge_connections(world):
    """TCP connections with the process that had the number then; who talks to an address or a network."""
    for name, host in world.hosts.items():
        found = connections(host)
        want = [(name, record["time"], record["name"], stream, i and i.number, record["fields"]["PID"], i and i.get("name", ""), record["fields"]["saddr"],
                 record["fields"]["sport"], record["fields"]["daddr"], record["fields"]["dport"], record["fields"]["connid"])
                for stream in host.streams for record, i in found]
        got = [tuple(row[key] for key in ("host", "time", "name", "stream", "instance", "pid", "image_name", "local", "local_port", "remote", "remote_port", "connection"))
               for row in world.get("connections", host=name, limit=10000)]
        world.same("route /api/v1/connections", name, got, want)
        remotes = collections.Counter(record["fields"]["daddr"] for record, _ in found).most_common(2)
        for remote, _ in remotes:
            got = [row["time"] for row in world.get("connections", host=name, remote=remote, limit=10000)]
            world.same("route /api/v1/connections", name, got, [row[1] for row in want if row[9] == remote])
            mine = collections.defaultdict(list)
            for row in want:
                if row[9] == remote:
                    mine[(*row[3:7], row[9], row[10])].append(row[1])
            got = [((row["stream"], row["instance"], row["pid"], row["image_name"], row["remote"], row["port"]), row["connections"], row["first"])
                   for row in world.get("queries/who-talks-to", host=name, address=remote, limit=10000)]
            world.same("query who-talks-to", name, got, [(key, len(times), min(times)) for key, times in mine.items()])
        four = [row for row in want if "." in row[9]]
        if four:
            got = world.get("queries/who-talks-to", host=name, address="0.0.0.0/0", limit=10000)
            world.same("query who-talks-to", name, [sum(row["connections"] for row in got)], [len(four)])


AUTOSTART = re.compile(r"\\CurrentVersion\\Run|\\Services\\|\\Winlogon|\\Image File Execution Options", re.I)


NAMES_KEY = {"Registry/KCBCreate", "Registry/KCBRundownBegin", "Registry/KCBRundownEnd", "Registry/KCBDelete"}


def when(record):
    return record["units"], record["clock"]


@functools.cache
def key_names(host):
    """What each registry key's control block was called, and when: {handle: [[from, to, name]]}, by the rules of proto/state/object_names.h. A creation names
    the block from its time on, a rundown and a deletion since the end of the last name, or since ever (None); a deletion ends the name after itself."""
    names = collections.defaultdict(list)
    for record in host.records:
        if record["name"] not in NAMES_KEY:
            continue
        lives, text = names[record["fields"]["KeyHandle"]], record["fields"]["KeyName"]
        is_open = bool(lives) and lives[-1][1] is None
        if text and not (is_open and lives[-1][2] == text):
            begin = when(record) if is_open or record["name"] == "Registry/KCBCreate" else lives[-1][1] if lives else None
            if is_open:
                lives[-1][1] = begin
            lives.append([begin, None, text])
        if record["name"] == "Registry/KCBDelete" and lives and lives[-1][1] is None:
            lives[-1][1] = when(record)
    return names


def called(host, record):
    """The name of the key that an event's handle stood for at its time: of the names that had begun by then the last, where it had not ended; else None."""
    begun = [life for life in key_names(host).get(record["fields"]["KeyHandle"], ()) if life[0] is None or life[0] <= when(record)]
    last = max((life[0] or (0, 0) for life in begun), default=None)
    return next((text for begin, end, text in begun if (begin or (0, 0)) == last and (end is None or when(record) <= end)), None)


def autostarts(host):
    """Events that have set (a failed attempt sets none) a value under a key from which Windows starts programs; each has the key's name as `called`."""
    sets = [{**record, "called": called(host, record)} for record in host.records if record["name"] == "Registry/SetValue" and status(record)[0]]
    return [record for record in sets if record["called"] and AUTOSTART.search(record["called"])]


def judge_autostart(world):
    """Values set under keys from which Windows starts programs."""
    for name, host in world.hosts.items():
        want = [(name, record["time"], record["pid"], record["called"], record["fields"]["KeyName"]) for record in autostarts(host)] * len(host.streams)
        got = [(row["host"], row["time"], row["pid"], row["key"], row["value_name"]) for row in world.get("queries/autostart-keys", host=name, limit=10000)]
        world.same("query autostart-keys", name, got, want)


@functools.cache
def samples_of(host):
    """(time in units, counter's name) of each sample of a counter. The last name that an event of the machine gives the counter's number is its name,
    else that which Windows has for it, else the number."""
    named, found = {}, []
    for record in host.records:
        fields = record["fields"]
        if record["name"] in ("PerfInfo/CollectionStart", "PerfInfo/SetInterval") and fields.get("SourceName"):
            named[number(fields["Source"])] = fields["SourceName"]
    for record in host.records:
        if record["name"] == "PerfInfo/PmcCounterProf":
            source = record["fields"]["ProfileSource"]
            found.append((record["units"], named.get(number(source)) or isinstance(source, dict) and source.get("name") or str(number(source))))
    return found


def judge_counters(world):
    """Hardware counters of which samples are stored: of one machine, of all, and in a range, whose ends both belong to it."""
    def listed(hosts, low=-1 << 62, high=1 << 62):
        counts, of_hosts = collections.Counter(), collections.defaultdict(set)
        for host in hosts:
            for units, counter in samples_of(host):
                if low <= units <= high:
                    counts[counter] += len(host.streams)
                    of_hosts[counter].add(host.name)
        return [(counter, n, len(of_hosts[counter])) for counter, n in counts.items()]

    def answer(**params):
        return [(row["counter"], row["samples"], row["hosts"]) for row in world.get("counters", limit=1000, **params)]

    for name, host in world.hosts.items():
        world.same("route /api/v1/counters", name, answer(host=name), listed([host]))
    world.same("route /api/v1/counters", "all", answer(), listed(world.hosts.values()))
    times = sorted(units for host in world.hosts.values() for units, _ in samples_of(host))
    if times:
        low, high = times[len(times) // 3], times[len(times) * 2 // 3]
        world.same("route /api/v1/counters", "range", answer(from_=low * 100, to=high * 100 + 99), listed(world.hosts.values(), low, high))
