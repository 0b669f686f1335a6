"""Judges of the tables of what happened over a time, and of the API's routes and the named query that are made of them; out of
naive_activity."""
import collections
import functools

import naive_activity
from judge_state import ns
from judge_store import source_of
from naive_activity import ANY
from naive_state import format_time, parse_time

EVER = -1 << 62, 1 << 62


def clock_of(host):
    return naive_activity.Clock(source_of(next(iter(host.streams.values()))))


def whole(host):
    """Whether all batches arrived: a gap is a loss without a record of the loss."""
    return not host.holes


def keys(world):
    """process_key -> (host, stream, instance)"""
    return {row["process_key"]: (row["host"], row["stream"], row["instance"]) for row in world.sql("SELECT process_key, host, stream, instance FROM processes")}


def spans(host, ranged):
    """The whole time, and one inside it, as (text of SQL, low, high in ns)."""
    begin, end = host.span
    yield "", *EVER
    if ranged:
        yield f"({ns(begin)}, {ns(end)})", ns(begin), ns(end)


@functools.cache
def images(host):
    return {i.number: i.get("name", "").rsplit("\\", 1)[-1] for i in host.state.instances}


def image(host, instance):
    return "" if instance is None else images(host)[instance]


def compare(world, host, table, where, known, columns, sums, want):
    """Rows of a table, by stream, process, columns and sums; want: {(process, pid, *columns): sums}."""
    got = collections.defaultdict(collections.Counter)  # a file object that was used again has a row for each file
    for row in world.sql(f"SELECT * FROM {table}{where} WHERE host = '{host.name}'"):
        key = known.get(row["process_key"])
        into = got[(row["stream"], key if key and key[:2] != (row["host"], row["stream"]) else key and key[2], ANY if row["pid"] is None else row["pid"], row["image"] or "",
                    *(row[name] for name in columns))]
        for name in sums:
            into[name] = max(into[name], row[name] or 0) if name == "max_ns" else into[name] + (row[name] or 0)
    rows = [(stream, key[0], key[1], image(host, key[0]), *key[2:], *(values[name] for name in sums)) for stream in host.streams for key, values in want.items()]
    world.same(f"table {table}", host.name, [(*key, *(values[name] for name in sums)) for key, values in got.items()], rows)


def judge_threads(world):
    """thread_times, waits, wakes."""
    known = keys(world)
    for host in filter(whole, world.hosts.values()):
        whose, clock = naive_activity.Whose(host.state), clock_of(host)
        for where, low, high in spans(host, True):
            times, waits, wakes = naive_activity.thread_tables(host.records, whose, clock.ns, low, high)
            compare(world, host, "thread_times", where, known, ["tid"],
                    ["running_ns", "ready_ns", "waiting_ns", "switches", "waits", "unfinished_running_ns", "unfinished_ready_ns", "unfinished_waiting_ns"], times)
            compare(world, host, "waits", where, known, ["tid", "reason"], ["count", "ns", "max_ns", "unfinished_ns"], waits)
            got = [(row["stream"], row["waker_tid"], row["pid"], row["tid"], row["count"], row["waited_ns"])
                   for row in world.sql(f"SELECT * FROM wakes{where} WHERE host = '{host.name}'")]
            world.same("table wakes", host.name, got, [(stream, key[2], key[4], key[5], row["count"], row["waited_ns"]) for stream in host.streams for key, row in wakes.items()])


TIMES = ["running_ns", "ready_ns", "waiting_ns", "switches", "waits"]


def of_process(row):
    return row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"]


def unfinished(row):
    return sum(row[f"unfinished_{what}_ns"] for what in ("running", "ready", "waiting"))


def judge_thread_queries(world):
    """process-times, thread-times, thread-waits, thread-wakes, of a machine, of one of its processes and of the idle threads."""
    reasons = {row["reason_name"]: row["reason"] for row in world.sql("SELECT DISTINCT reason, reason_name FROM waits")}
    for name, host in ((name, host) for name, host in world.hosts.items() if whole(host)):
        times, waits, wakes = naive_activity.thread_tables(host.records, naive_activity.Whose(host.state), clock_of(host).ns, *EVER)
        processes = collections.defaultdict(collections.Counter)
        for key, row in times.items():
            processes[key[:2]].update({**row, "threads": 1})
        got = [(*of_process(row), row["threads"], *(row[word] for word in TIMES), row["unfinished_ns"]) for row in world.get("queries/process-times", host=name, limit=10000)]
        world.same("query process-times", name, got, [(stream, *key, row["threads"], *(row[word] for word in TIMES), unfinished(row)) for stream in host.streams
                                                      for key, row in processes.items() if key[1]])
        one = max(processes, key=lambda key: (processes[key]["switches"], str(key)), default=(None, ANY))[1]
        for limits, fits in (({}, lambda pid: True), ({"pid": 0}, lambda pid: pid == 0), ({"pid": one}, lambda pid: pid == one)):
            if limits.get("pid") == ANY:
                continue
            got = [(*of_process(row), row["tid"], *(row[word] for word in TIMES), row["unfinished_ns"]) for row in world.get("queries/thread-times", host=name, limit=10000, **limits)]
            world.same("query thread-times", name, got, [(stream, *key, *(row[word] for word in TIMES), unfinished(row)) for stream in host.streams for key, row in times.items() if fits(key[1])])
            got = [(*of_process(row), row["tid"], reasons[row["reason_name"]], row["count"], row["ns"], row["max_ns"], row["unfinished_ns"])
                   for row in world.get("queries/thread-waits", host=name, limit=10000, **limits)]
            world.same("query thread-waits", name, got, [(stream, *key, row["count"], row["ns"], row["max_ns"], row["unfinished_ns"]) for stream in host.streams for key, row in waits.items() if fits(key[1])])
            got = [(*of_process(row), row["tid"], ANY if row["waker_pid"] is None else row["waker_pid"], row["waker_tid"], row["count"], row["waited_ns"])
                   for row in world.get("queries/thread-wakes", host=name, limit=10000, **limits)]
            world.same("query thread-wakes", name, got, [(stream, *key[3:6], key[1], key[2], row["count"], row["waited_ns"]) for stream in host.streams for key, row in wakes.items() if fits(key[4])])


def judge_disk_files(world):
    """disk-files: sums of the rows of disk_times, which has a judge, by file; and of the records in all."""
    for name, host in ((name, host) for name, host in world.hosts.items() if whole(host)):
        sums = collections.defaultdict(collections.Counter)
        for row in world.sql(f"SELECT * FROM disk_times WHERE host = '{name}'"):
            into = sums[row["disk"], row["file"], row["operation"]]
            into.update({word: row[word] for word in ("count", "bytes", "ns")})
            into["max_ns"] = max(into["max_ns"], row["max_ns"])
        rows = world.get("queries/disk-files", host=name, limit=10000)
        world.same("query disk-files", name, [((row["disk"], row["file"], row["operation"]), row["count"], row["bytes"], row["ns"], row["max_ns"]) for row in rows],
                   [(key, row["count"], row["bytes"], row["ns"], row["max_ns"]) for key, row in sums.items()])
        naive = naive_activity.latencies(host.records, naive_activity.Whose(host.state), clock_of(host).ns, *EVER)["disk_times"].values()
        world.same("query disk-files", f"{name}, in all", [sum(row[word] for row in rows) for word in ("count", "bytes", "ns")],
                   [sum(row[word] for row in naive) * len(host.streams) for word in ("count", "bytes", "ns")])


def judge_latencies(world):
    """interrupt_times, disk_times, file_times, fault_times."""
    known = keys(world)
    for host in filter(whole, world.hosts.values()):
        whose, clock = naive_activity.Whose(host.state), clock_of(host)
        for where, low, high in spans(host, True):
            found = naive_activity.latencies(host.records, whose, clock.ns, low, high)
            got = [(row["stream"], row["kind"], row["routine"], row["cpu"], row["count"], row["ns"], row["max_ns"])
                   for row in world.sql(f"SELECT * FROM interrupt_times{where} WHERE host = '{host.name}'")]
            world.same("table interrupt_times", host.name, got, [(stream, *key, row["count"], row["ns"], row["max_ns"])
                                                                 for stream in host.streams for key, row in found["interrupt_times"].items()])
            compare(world, host, "disk_times", where, known, ["operation", "disk", "file_object"], ["count", "ns", "max_ns", "bytes"], found["disk_times"])
            compare(world, host, "file_times", where, known, ["operation", "file_object"], ["count", "ns", "max_ns"], found["file_times"])
            compare(world, host, "fault_times", where, known, ["file_object"], ["count", "ns", "max_ns", "bytes"], found["fault_times"])


def judge_hardware(world):
    """thread_counters, counter_samples."""
    known = keys(world)
    for host in filter(whole, world.hosts.values()):
        whose = naive_activity.Whose(host.state)
        samples = {key: {"samples": n} for key, n in naive_activity.counter_samples(host.records, whose).items()}
        compare(world, host, "counter_samples", "", known, ["tid", "source", "interval"], ["samples"], samples)
        counts = {key: {"value": value, "stretches": n} for key, (value, n) in naive_activity.counted(host.records, whose).items()}
        compare(world, host, "thread_counters", "", known, ["tid", "counter", "number"], ["value", "stretches"], counts)
        got = [(row["stream"], row["cpu"], row["problem"], row["source"], row["count"]) for row in world.sql(f"SELECT * FROM counter_problems WHERE host = '{host.name}'")]
        world.same("table counter_problems", host.name, got, [(stream, *key, n) for stream in host.streams for key, n in naive_activity.counter_problems(host.records).items()])
        world.same("table counter_problems", f"{host.name}, rows", [len(got)], [len(naive_activity.counter_problems(host.records)) * len(host.streams)])


USED = {"cpu_usage": ["samples"], "disk_usage": ["reads", "read_bytes", "writes", "written_bytes", "ns", "max_ns"], "file_usage": ["reads", "read_bytes", "writes", "written_bytes"],
        "network_usage": ["receives", "received_bytes", "sends", "sent_bytes"]}
ROUTES = {"cpu": ("cpu_usage", ["samples"]), "disk": ("disk_usage", ["read_bytes", "written_bytes"]), "files": ("file_usage", ["read_bytes", "written_bytes"]),
          "network": ("network_usage", ["received_bytes", "sent_bytes"])}
TOP = {"cpu_usage": "cpu", "disk_usage": "disk", "network_usage": "network"}
EVERY = 100_000_000


def judge_usage(world):
    """cpu_usage, disk_usage, file_usage, network_usage; the host page's routes; the processes that used the most."""
    known, top = keys(world), {table: {} for table in TOP}
    for name, host in world.hosts.items():
        whose, clock = naive_activity.Whose(host.state), clock_of(host)
        begin, end = host.span
        for low, high, every in ((*EVER, 0), (ns(begin), ns(end), EVERY)):
            found = naive_activity.usage(host.records, whose, clock.ns, low, high, every)
            where = f"({low}, {high}, {every})" if every else ""
            for table, sums in USED.items():
                want = {(*key[:2], key[2] and format_time(key[2] // 100)): row for key, row in found[table].items()}
                compare(world, host, table, where, known, ["bucket"], sums, want)
            if not every:
                for table in TOP:
                    top[table].update({(name, stream, *key[:2]): [row[word] for word in USED[table]] for stream in host.streams for key, row in found[table].items() if key[1]})
                continue
            for route, (table, sums) in ROUTES.items():
                want = [(stream, *key[:2], format_time(key[2] // 100), sum(row[word] for word in sums)) for stream in host.streams
                        for key, row in found[table].items() if route != "cpu" or key[1]]
                got = [(row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"], row["bucket"], row["value"])
                       for row in world.get(f"hosts/{name}/{route}", from_=low, to=high, every=f"{every // 10**6}ms", limit=10000)]
                world.same(f"route /api/v1/hosts/{{host}}/{route}", name, got, want)
            got = world.get(f"hosts/{name}/disk", from_=low, to=high, every=f"{every // 10**6}ms", limit=10000)
            want = [(stream, *key[:2], *(row[word] for word in USED["disk_usage"])) for stream in host.streams for key, row in found["disk_usage"].items()]
            world.same("route /api/v1/hosts/{host}/disk", f"{name}, requests", [(row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"],
                                                                                     *(row[word] for word in USED["disk_usage"])) for row in got], want)
    for table, what in TOP.items():
        got = [((row["host"], row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"]), [row[word] for word in USED[table]])
               for row in world.get(f"queries/top-processes-by-{what}", limit=10000)]
        world.same(f"query top-processes-by-{what}", "all", got, top[table].items())


GC_COLUMNS = ["clr_instance", "number", "generation", "reason", "type", "begin", "ns", "pauses", "pause_begin", "pause_end", "pause_ns", "suspension_ns", "before_bytes", "after_bytes"]
JIT_COLUMNS = ["tid", "clr_instance", "method_id", "method", "tier", "begin", "ns", "il_bytes", "native_bytes", "own_ns"]


def cell(row, column):
    """A cell as the judge has it: times in units of 100 ns."""
    value = row[column]
    return value if value is None else parse_time(value) if column in ("begin", "pause_begin", "pause_end") else int(value, 0) if column == "method_id" else value


def units_of(row, columns):
    return tuple(value // 100 if column in ("begin", "pause_begin", "pause_end") and value is not None else value for column, value in zip(columns, row))


def judge_dotnet(world):
    """gc_pauses, jit_methods."""
    known = keys(world)
    for host in filter(whole, world.hosts.values()):
        whose, clock = naive_activity.Whose(host.state), clock_of(host)
        for where, low, high in spans(host, True):
            for table, columns, naive in (("gc_pauses", GC_COLUMNS, naive_activity.gc_pauses), ("jit_methods", JIT_COLUMNS, naive_activity.jit_methods)):
                got = [(row["stream"], known.get(row["process_key"], (None,) * 3)[2], row["pid"], row["image"] or "", *(cell(row, column) for column in columns))
                       for row in world.sql(f"SELECT * FROM {table}{where} WHERE host = '{host.name}'")]
                want = [(stream, *row[:2], image(host, row[0]), *units_of(row[2:], columns)) for stream in host.streams
                        for row in naive(host.records, whose, clock.ns, low, high)]
                world.same(f"table {table}", host.name, got, want)
