"""Native scans for aggregates: each NAME_by query equals GROUP BY over the plain table, and a naive recomputation over
`dump --format jsonl`, on three traces; so does a GROUP BY that is handed down to the native grouping. A query that a native scan cannot answer exactly is refused, never answered wrongly.
"""
import collections
import datetime
import json

import harness
import traces
from test_query import TRACES, Events, bare, number

TOP_BIT = 1 << 63
ADDRESSES = {"ImageBase", "keyword", "StackBase"}  # SQL has them with the highest bit turned over
IMAGE = '"Image/DCStart"'

# table, arguments (by1, by2, value, every, top), SQL condition, the same in Python over (event, d)
ALWAYS = ("1", lambda e, d: True)
CASES = [
    ("events", {}, *ALWAYS),
    ("events", {"by1": "pid"}, *ALWAYS),
    ("events", {"by1": "pid", "by2": "tid"}, *ALWAYS),
    ("events", {"by1": "pid", "by2": "tid", "by3": "name"}, *ALWAYS),
    ("events", {"by1": "pid", "by3": "cpu", "top": 5, "every": "500ms"}, *ALWAYS),
    ("events", {"by1": "name", "every": "1s"}, *ALWAYS),
    ("events", {"by1": "name", "by2": "cpu", "every": "250ms"}, *ALWAYS),
    ("events", {"every": "100ms"}, *ALWAYS),
    ("events", {"by1": "cpu", "every": 333333333}, *ALWAYS),
    ("events", {"by1": "provider", "by2": "opcode"}, *ALWAYS),
    ("events", {"by1": "keyword", "by2": "level"}, *ALWAYS),
    ("events", {"by1": "activity_id"}, *ALWAYS),
    ("events", {"by1": "name", "top": 3}, *ALWAYS),
    ("events", {"by1": "name", "by2": "pid", "top": 7, "every": "500ms"}, *ALWAYS),
    ("events", {"by1": "pid", "value": "cpu"}, *ALWAYS),
    ("events", {"value": "clock"}, *ALWAYS),
    ("events", {"by1": "cpu", "value": "time"}, "name = 'Thread/DCStart'", lambda e, d: e["name"] == "Thread/" + d.dc),
    ("events", {"by1": "name"}, "pid = {pid}", lambda e, d: e["pid"] == d.pid),
    ("events", {"by1": "name"}, "pid IN ({pids}, 123456789)", lambda e, d: e["pid"] in d.pids),
    ("events", {"by1": "pid"}, "pid <> {pid}", lambda e, d: e["pid"] != d.pid),
    ("events", {"by1": "pid"}, "pid % 8 = 4 OR pid = {pid}", lambda e, d: e["pid"] % 8 == 4 or e["pid"] == d.pid),
    ("events", {"by1": "name"}, "name LIKE 'image/%'", lambda e, d: e["name"].startswith("Image/")),
    ("events", {"by1": "pid", "by2": "name"}, "time >= time_ns('{t1}') AND time < time_ns('{t2}')",
     lambda e, d: d.t1 <= e["time"] < d.t2),
    ("events", {"by1": "cpu", "every": "10ms"}, "time BETWEEN time_ns('{t1}') AND time_ns('{t2}') AND pid = {pid}",
     lambda e, d: d.t1 <= e["time"] <= d.t2 and e["pid"] == d.pid),
    ("events", {}, "time > time_ns('{t2}') AND tid = {tid} AND opcode < 40",
     lambda e, d: e["time"] > d.t2 and e["tid"] == d.tid and e["opcode"] < 40),
    ("events", {}, "pid = 4294967290", lambda e, d: False),
    ("events", {"by1": "pid"}, "pid = 4294967290", lambda e, d: False),
    (IMAGE, {"by1": "ProcessId", "value": "ImageSize"}, *ALWAYS),
    (IMAGE, {"by1": "FileName", "value": "ImageSize", "top": 10}, *ALWAYS),
    (IMAGE, {"by1": "FileName", "by2": "ProcessId", "value": "ImageBase"}, *ALWAYS),
    (IMAGE, {"by1": "ImageBase"}, "ImageBase >= u64('0xffff000000000000')",
     lambda e, d: number(e["fields"]["ImageBase"]) >= 0xFFFF000000000000),
    (IMAGE, {"by1": "ProcessId", "value": "ImageSize", "top": 4, "every": "1ms"}, "ImageSize BETWEEN 65536 AND 1048576",
     lambda e, d: 65536 <= number(e["fields"]["ImageSize"]) <= 1048576),
    (IMAGE, {"by1": "ProcessId"}, "FileName = '{path}'", lambda e, d: bare(e["fields"]["FileName"]) == d.path),
    (IMAGE, {"by1": "FileName"}, "FileName LIKE '%.dll'", lambda e, d: bare(e["fields"]["FileName"]).lower().endswith(".dll")),
    (IMAGE, {"by1": "FileName"}, "FileName IN ('{path}', 'nothing') AND ProcessId > 4",
     lambda e, d: bare(e["fields"]["FileName"]) == d.path and bare(e["fields"]["ProcessId"]) > 4),
    (IMAGE, {"value": "ImageSize"}, "ImageBase > u64('{base}') AND cpu < 2",
     lambda e, d: number(e["fields"]["ImageBase"]) > d.base and e["cpu"] < 2),
    ('"Process/DCStart"', {"by1": "UserSID", "by2": "SessionId", "value": "ParentId"}, *ALWAYS),
    ('"Thread/DCStart"', {"by1": "ProcessId", "value": "TThreadId", "top": 5}, *ALWAYS),
    ('"Thread/DCStart"', {"by1": "ProcessId", "by2": "BasePriority"}, "StackBase > u64('0xfffff80000000000')",
     lambda e, d: number(e["fields"]["StackBase"]) > 0xFFFFF80000000000),
]

# queries without an exact native answer, and a part of the error
REFUSED = [
    ("SELECT * FROM events_by('nothing')", "there is no nothing"),
    ("SELECT * FROM events_by", "no query solution"),
    ("SELECT * FROM events_by('pid') WHERE tid <> 0", "tid is not grouped by"),
    ("SELECT * FROM events_by('pid') WHERE pid = 4 OR tid = 4", "tid is not grouped by"),
    ("SELECT name FROM events_by('pid')", "name is not grouped by"),
    ("SELECT * FROM events_by('pid') WHERE name LIKE 'Image%'", "name is not grouped by"),
    ("SELECT * FROM events_by('pid') WHERE name = 'image/load' COLLATE NOCASE", "name is not grouped by"),
    ("SELECT * FROM events_by('pid') WHERE host = 5", "host is compared with something that its column never is"),
    ("SELECT * FROM events_by('pid', NULL, 'name')", "name has no numbers"),
    ("SELECT * FROM events_by('pid', NULL, NULL, 'often')", "expected a duration"),
    ("SELECT * FROM events_by('pid', NULL, NULL, NULL, 0)", "expected a number above 0"),
    ("SELECT * FROM events_by('pid') WHERE time > 'someday'", "a time cannot be compared with 'someday'"),
    ('SELECT sum FROM "Image/DCStart_by"(NULL, NULL, \'ImageBase\')', "integer overflow"),
]


def ns(text):
    seconds = datetime.datetime.fromisoformat(text[:19] + "+00:00").timestamp()
    return int(seconds) * 10**9 + int(text[20:-1].ljust(9, "0"))


def cell(e, column):
    """The value of a column as SQL has it."""
    if column == "time":
        return ns(e["time"])
    value = e[column] if column in e else number(e["fields"].get(column))
    value = number(value) if column in ADDRESSES else value
    return value - TOP_BIT if column in ADDRESSES and value is not None else value


def order(value):
    return (value is not None, isinstance(value, str), value.encode() if isinstance(value, str) else value)


def naive(d, table, arguments, condition):
    """Rows [bucket, keys..., count, value_count, sum, min, max]."""
    events = d.all if table == "events" else d.of(table.strip('"'))
    by = [arguments[k] for k in ("by1", "by2", "by3") if k in arguments]
    every = {"1s": 10**9, "500ms": 5 * 10**8, "250ms": 25 * 10**7, "100ms": 10**8, "10ms": 10**7, "1ms": 10**6}.get(
        arguments.get("every"), arguments.get("every"))
    groups, totals = collections.defaultdict(list), collections.defaultdict(list)
    for e in events:
        if condition(e, d):
            keys = tuple(cell(e, column) for column in by)
            value = cell(e, arguments["value"]) if "value" in arguments else None
            groups[(ns(e["time"]) // every * every if every else None, keys)].append(value)
            totals[keys].append(value)
    if "top" in arguments:
        def rank(keys):
            total = sum(v for v in totals[keys] if v is not None) if "value" in arguments else len(totals[keys])
            return [-total, [order(k) for k in keys]]
        kept = set(sorted(totals, key=rank)[:arguments["top"]])
        groups = {k: v for k, v in groups.items() if k[1] in kept}
    if not groups and not by and not every:
        groups = {(None, ()): []}
    rows = []
    for (bucket, keys), values in groups.items():
        there = [v for v in values if v is not None]
        total = None if arguments.get("value") in OVERFLOWING or not there else sum(there)
        rows.append([bucket, *keys, len(values), len(there) if "value" in arguments else None, total,
                     min(there, default=None), max(there, default=None)])
    return rows


def literal(value):
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


OVERFLOWING = {"ImageBase", "time", "clock"}  # sums of these may not fit


def native_sql(table, arguments, where):
    by = [f'+"{arguments[k]}"' for k in ("by1", "by2", "by3") if k in arguments]  # +: an address is a number here
    name = table[:-1] + '_by"' if table.endswith('"') else table + "_by"
    given = ", ".join(literal(arguments.get(k)) for k in ("by1", "by2", "value", "every", "top", "by3"))
    total = "NULL" if arguments.get("value") in OVERFLOWING else "sum"
    return f"SELECT 'native', {', '.join(['+bucket', *by, 'count', 'value_count', total, 'min', 'max'])} FROM {name}({given}) WHERE {where}"


def plain_sql(table, arguments, where):
    by = [f'+"{arguments[k]}"' for k in ("by1", "by2", "by3") if k in arguments]
    value = f'"{arguments["value"]}"' if "value" in arguments else None
    every = f"time_bucket(time, {literal(arguments['every'])})" if "every" in arguments else "NULL"
    total = "NULL" if arguments.get("value") in OVERFLOWING else f"sum({value})"
    values = [f"count({value})", total, f"+min({value})", f"+max({value})"] if value else ["NULL"] * 4
    group = ", ".join(str(i + 2) for i in range(1 + len(by)))
    sql = f"SELECT 'plain', {', '.join([every, *by, 'count(*)', *values])} FROM {table} WHERE ({where})"
    if "top" in arguments:
        rank = f"sum({value})" if value else "count(*)"
        ranked = f"SELECT {', '.join(by)} FROM {table} WHERE ({where}) GROUP BY {', '.join(by)} ORDER BY {rank} DESC, {', '.join(by)}" \
                 f" LIMIT {arguments['top']}"
        sql += f" AND ({', '.join(by)}) IN ({ranked})"
    return sql + (f" GROUP BY {group}" if by or "every" in arguments else "")


def pushed_sql(table, arguments, where):
    """A GROUP BY of its own, which is handed down when its conditions allow it."""
    by = [f'"{arguments[k]}"' for k in ("by1", "by2", "by3") if k in arguments]
    value = f'"{arguments["value"]}"' if "value" in arguments else None
    every = [f"time_bucket(time, {literal(arguments['every'])})"] if "every" in arguments else []
    total = "NULL" if arguments.get("value") in OVERFLOWING else f"sum({value})"
    values = [f"count({value})", total, f"+min({value})", f"+max({value})"] if value else ["NULL"] * 4
    group = ", ".join(every + by)
    return f"SELECT 'pushed', {', '.join([*(every or ['NULL']), *('+' + b for b in by), 'count(*)', *values])} FROM {table}" \
           + (f" WHERE {where}" if where != "1" else "") + (f" GROUP BY {group}" if group else "")


def rows_of(env, store, name, sql):
    """What each way says, by its name."""
    done = env.run([env.collector, "query", "--store", store, "--format", "jsonl", "--rows", 0, "--host", name, sql])
    rows = {"native": [], "plain": [], "pushed": []}
    for line in done.stdout.splitlines():
        way, *row = json.loads(line).values()
        rows[way].append(row)
    return sort(rows["native"]), sort(rows["plain"]), sort(rows["pushed"])


def sort(rows):
    return sorted(rows, key=lambda row: [order(v) for v in row])


def test(env, checks, arguments):
    env.make_certificates(agents=TRACES)
    collector = env.new_collector().start()
    for name in TRACES:
        env.replay(traces.paths(name, env.build), collector, agent=name, spool=env.folder / f"spool-{name}")
    for name in TRACES:
        dumped = env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *traces.paths(name, env.build)]).stdout.splitlines()
        d = Events(dumped)
        values = {key: getattr(d, key) for key in ("pid", "tid", "t1", "t2")}
        values.update(pids=", ".join(map(str, d.pids)), path=d.path, base=hex(d.base))
        handed_down = 0
        for table, given, where, condition in CASES:
            expected = sort(naive(d, table, given, condition))
            table = table.replace("DCStart", d.dc)
            where = where.format(**values).replace("DCStart", d.dc)
            sql = native_sql(table, given, where)
            native, plain, _ = rows_of(env, collector.store, name, f"{sql} UNION ALL {plain_sql(table, given, where)}")
            checks.that(native == plain, f"{name}: {sql}\n  native {str(native)[:500]}\n  plain  {str(plain)[:500]}")
            checks.that(native == expected, f"{name}: {sql}\n  native {str(native)[:500]}\n  naive  {str(expected)[:500]}")
            if "top" not in given:
                sql = pushed_sql(table, given, where)
                pushed = rows_of(env, collector.store, name, sql)[2]
                checks.that(pushed == expected, f"{name}: {sql}\n  pushed {str(pushed)[:500]}\n  naive  {str(expected)[:500]}")
                plan = env.run([env.collector, "query", "--store", collector.store, "--host", name, f"EXPLAIN QUERY PLAN {sql}"]).stdout
                handed_down += "(grouped " in plan
        checks.that(handed_down >= 25, f"{name}: {handed_down} of {len(CASES)} statements were handed down")
        for sql, word in REFUSED:
            done = env.run([env.collector, "query", "--store", collector.store, "--host", name, sql.replace("DCStart", d.dc)], check=False)
            checks.that(done.returncode == 2 and word in done.stderr, f"{name}: {sql}: {done.returncode} {done.stderr}")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
