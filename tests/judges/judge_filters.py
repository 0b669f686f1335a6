"""Judge of the parameters of lists: a list of one machine, of a range, of one process or of a text has the rows of the whole list, which other judges
compare, that a naive filter leaves."""
import datetime

from naive_state import FOREVER, parse_time

OF_A_HOST = ["processes", "connections", "alerts", "incidents", "gaps", "blindness", "queries/process-starts", "queries/autostart-keys", "queries/modules-from-unusual-places",
             "queries/top-processes-by-cpu", "queries/top-processes-by-disk", "queries/top-processes-by-network", "queries/process-times", "queries/thread-times", "queries/thread-waits",
             "queries/thread-wakes", "queries/disk-files"]
AT_A_TIME = {"connections": "time", "alerts": "time", "queries/process-starts": "begin", "queries/autostart-keys": "time", "queries/modules-from-unusual-places": "begin"}
WITH_A_LIFE = ["processes", "incidents", "gaps", "blindness"]
WITH_A_TEXT = {"processes": ("image_name", "command_line"), "queries/process-starts": ("image_name", "command_line"), "modules": ("path",), "classes": ("name",)}


def answer(path):
    return path.replace("queries/", "query ") if path.startswith("queries/") else f"route /api/v1/{path}"


def steady(rows):
    """Without what comes by the clock of the collector."""
    return [tuple(sorted(row.items(), key=str)) for row in rows if row.get("kind") != "silent"]


def units(text, otherwise):
    return parse_time(text) if text else otherwise


OF_TIMES = {"processes": ("begin", "end"), "threads": ("begin",), "modules": ("begin",), "streams": ("begin", "received_last"), "batches": ("end",), "gaps": ("begin", "end"),
            "ledger": ("time",), "events": ("time",)}
COMPARED = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b}


def text_of(ns):
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def compare_times(world):
    """A time column that SQL compares with a text has the rows whose times are so."""
    for table, columns in OF_TIMES.items():
        for column in columns:
            times = sorted(row["t"] for row in world.sql(f'SELECT "{column}" + 0 AS t FROM {table} WHERE "{column}" IS NOT NULL'))
            wanted = []
            for ns in times[len(times) // 3::max(1, len(times) // 3)][:2]:
                text = text_of(ns)
                wanted += [(f"\"{column}\" {op} '{text}'", sum(holds(t, ns) for t in times)) for op, holds in COMPARED.items()]
                wanted += [(f"'{text}' > \"{column}\"", sum(t < ns for t in times)), (f"\"{column}\" IN ('{text}', '1999-01-01T00:00:00Z')", times.count(ns)),
                           (f"\"{column}\" BETWEEN '{text}' AND '{text_of(ns + 500)}'", sum(ns <= t <= ns + 500 for t in times))]
            if wanted:
                (row,) = world.sql("SELECT " + ", ".join(f"(SELECT count(*) FROM {table} WHERE {condition}) AS c{i}" for i, (condition, _) in enumerate(wanted)))
                world.same(f"table {table}", f"{column} compared", list(zip((condition for condition, _ in wanted), row.values())), wanted)


def judge_filters(world):
    """Parameters host, from and to, pid and q; times that SQL compares with texts."""
    compare_times(world)
    whole = {path: world.get(path, limit=10000) for path in {*OF_A_HOST, *WITH_A_TEXT}}
    for path in OF_A_HOST:
        for name in world.hosts:
            world.same(answer(path), name, steady(world.get(path, host=name, limit=10000)), steady(row for row in whole[path] if row["host"] == name))
    for path, column in AT_A_TIME.items():
        times = sorted({parse_time(row[column]) for row in whole[path]})
        if times:
            low, high = times[len(times) // 3], times[len(times) * 2 // 3]
            for begin, end in ((low, high), (high + 1, FOREVER), (0, low - 1)):
                got = world.get(path, from_=begin * 100, to=min(end * 100 + 99, (1 << 63) - 1), limit=10000)
                world.same(answer(path), "range", steady(got), steady(row for row in whole[path] if begin <= parse_time(row[column]) <= end))
    for path in WITH_A_LIFE:
        lives = [(units(row["begin"], 0), units(row["end"], FOREVER)) for row in whole[path] if row.get("kind") != "silent"]
        for begin, end in [life for life in sorted(lives) if life[1] < FOREVER][:40:13]:
            for low, high in ((begin - 1, end + 1), (end + 1, end + 2), (begin - 2, begin - 1)):
                got = world.get(path, from_=low * 100 + 50, to=high * 100 + 50, limit=10000)
                world.same(answer(path), "range", steady(got), steady(row for row in whole[path] if units(row["begin"], 0) <= high and units(row["end"], FOREVER) > low))
    for path, columns in WITH_A_TEXT.items():
        for part in ("exe", "Thread", "\\"):
            got = world.get(path, q=part, limit=10000)
            world.same(answer(path), part, steady(got), steady(row for row in whole[path] if any(part.lower() in row[column].lower() for column in columns)))
    for pid in {row["pid"] for row in whole["connections"]}:
        world.same(answer("connections"), "pid", steady(world.get("connections", pid=pid, limit=10000)), steady(row for row in whole["connections"] if row["pid"] == pid))
    for name in world.hosts:
        rows = world.get(f"hosts/{name}/processes", limit=10000)
        for pid in sorted({row["pid"] for row in rows})[-3:]:  # a list of a number has those in whose texts it is, too
            got = world.get(f"hosts/{name}/processes", pid=pid, q="no such text", limit=10000)
            world.same("route /api/v1/hosts/{host}/processes", name, steady(got), steady(row for row in rows if row["pid"] == pid))
