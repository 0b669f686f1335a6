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


USED = {"cpu_usage": ["samples"], "disk_usage": ["reads", "read_bytes", "writes", "written_bytes"], "file_usage": ["reads", "read_bytes", "writes", "written_bytes"],
        "network_usage": ["receives", "received_bytes", "sends", "sent_bytes"]}
ROUTES = {"cpu": ("cpu_usage", ["samples"]), "disk": ("disk_usage", ["read_bytes", "written_bytes"]), "files": ("file_usage", ["read_bytes", "written_bytes"]),
          "network": ("network_usage", ["received_bytes", "sent_bytes"])}
EVERY = 100_000_000


def judge_usage(world):
    """cpu_usage, disk_usage, file_usage, network_usage; the host page's routes; the processes with the most samples."""
    known, top = keys(world), collections.Counter()
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
                for stream in host.streams:
                    top.update({(name, stream, *key[:2]): row["samples"] for key, row in found["cpu_usage"].items() if key[1]})
                continue
            for route, (table, sums) in ROUTES.items():
                want = [(stream, *key[:2], format_time(key[2] // 100), sum(row[word] for word in sums)) for stream in host.streams
                        for key, row in found[table].items() if route != "cpu" or key[1]]
                got = [(row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"], row["bucket"], row["value"])
                       for row in world.get(f"hosts/{name}/{route}", from_=low, to=high, every=f"{every // 10**6}ms", limit=10000)]
                world.same(f"route /api/v1/hosts/{{host}}/{route}", name, got, want)
    got = [((row["host"], row["stream"], row["instance"], ANY if row["pid"] is None else row["pid"]), row["samples"]) for row in world.get("queries/top-processes-by-cpu", limit=10000)]
    world.same("query top-processes-by-cpu", "all", got, top.items())


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
