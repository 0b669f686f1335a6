"""Judge of statements that group events: GROUP BY of one to three columns, HAVING, DISTINCT, FILTER, ORDER BY with equal values, LIMIT and OFFSET, numbers beyond
2^63, columns that some events lack, ranges that are empty or end at a batch's first or last event, memory that does not hold the groups. Each is asked of one
machine, of all machines with a restriction to one, and over the API with a token of one machine. The rows are those of loops over the exported records."""
import collections
import contextlib
import functools
import json
import re
import shutil

import harness
import test_access
from judge_events import placed
from naive_state import number

MACHINES = ["made-reused", "made-ipv6", "made-losses", "real-clr-32bit"]  # of the first store
OTHERS = ["twin-a", "holed", "hashed-a"]  # of the second one; all together, too
FILLING = ["made-losses", "twin-a"]  # machines with enough groups
TOP = 1 << 63
SMALL, LIMITED = "64MiB", 4  # memory that many groups fill, and the exit code of an end at a limit


class Statement:
    """SELECT keys, measures FROM table WHERE host = ... AND where GROUP BY keys HAVING having ORDER BY order LIMIT limit. Each part of it is SQL and a function:
    of an event for keys and where; of a group's events for measures; of an answer's row for having. order: (place in the row, whether it descends)."""

    def __init__(self, table, keys, measures, where=(), having=None, order=(), limit=None, offset=0, distinct=False):
        self.table, self.keys, self.measures, self.where, self.having = table, keys, measures, where, having
        self.order, self.limit, self.offset, self.distinct = order, limit, offset, distinct

    def sql(self, host=None):
        columns = [f"{sql} AS c{i}" for i, (sql, _) in enumerate([*self.keys, *self.measures])]
        conditions = [f"host = '{host}'"] * bool(host) + [sql for sql, _ in self.where]
        return "".join([f"SELECT {'DISTINCT ' * self.distinct}{', '.join(columns)} FROM {self.table}", f" WHERE {' AND '.join(conditions)}" if conditions else "",
                        f" GROUP BY {', '.join(sql for sql, _ in self.keys)}" if self.keys and not self.distinct else "", f" HAVING {self.having[0]}" if self.having else "",
                        f" ORDER BY {', '.join(str(at + 1) + ' DESC' * down for at, down in self.order)}" if self.order else "",
                        f" LIMIT {self.limit} OFFSET {self.offset}" if self.limit is not None else ""])

    def rows(self, events):
        """All rows, before ORDER BY and LIMIT."""
        groups = collections.defaultdict(list)
        for event in events:
            if all(holds(event) for _, holds in self.where):
                groups[tuple(of(event) for _, of in self.keys)].append(event)
        if not self.keys and not groups:
            groups[()] = []
        found = [whole((*key, *(of(group) for _, of in self.measures))) for key, group in groups.items()]
        return [row for row in found if not self.having or self.having[1](row)]

    def sorted(self, row):
        return tuple(in_order(row[at], down) for at, down in self.order)


class Down:
    """A value whose order is the other way round."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        return other.value < self.value


def in_order(value, down):
    """SQL's order: NULL, numbers, texts by their bytes."""
    key = (0, 0) if value is None else (2, value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else (1, value)
    return Down(key) if down else key


# ---- events ----

def events_of(host):
    """Each stored event of a machine as a row of SQL: the columns by name, and its fields."""
    return [{"host": host.name, "stream": stream, "batch": batch, "position": position, "ns": record["units"] * 100, **record}
            for stream in host.streams for batch, position, record in placed(host, stream)]


def column(name):
    return name, lambda event: event[name]


def field(name):
    """A number of 64 bits without a sign is 20 digits from 2^63 on; what an event's version lacks is NULL."""
    def of(event):
        value = event["fields"].get(name)
        return f"{value:020}" if isinstance(value, int) and value >= TOP else value
    return f'"{name}"', of


def real(name):
    """A real number; NaN is NULL."""
    return f'"{name}"', lambda event: None if event["fields"][name] == "NaN" else event["fields"][name]


def address(name):
    """An address as a number: the columns of groups show it so when it is one."""
    return f'"{name}"', lambda event: f"0x{number(event['fields'][name]):x}"


def bucket(ns):
    return f"time_bucket(time, {ns})", lambda event: event["ns"] // ns * ns


def when(sql, holds):
    return sql, holds


def is_in(name, values):
    listed = ", ".join(str(v) if isinstance(v, int) else f"'{v}'" for v in values)
    return f"{name} IN ({listed})", lambda event: event[name] in values


COUNT = "count(*)", len


def some(of, group):
    return [value for value in map(of, group) if value is not None]


def total(sql_of):
    sql, of = sql_of
    return f"sum({sql})", lambda group: sum(some(of, group)) if some(of, group) else None


def average(sql_of):
    sql, of = sql_of
    return f"avg({sql})", lambda group: sum(some(of, group)) / len(some(of, group)) if some(of, group) else None


def real_total(sql_of):
    sql, of = sql_of
    return f"total({sql})", lambda group: float(sum(some(of, group)))


def counted(sql_of):
    sql, of = sql_of
    return f"count({sql})", lambda group: len(some(of, group))


def distinct(sql_of):
    sql, of = sql_of
    return f"count(DISTINCT {sql})", lambda group: len(set(some(of, group)))


def least(sql_of):
    sql, of = sql_of
    return f"min({sql})", lambda group: min(some(of, group), key=lambda v: in_order(v, False), default=None)


def greatest(sql_of):
    sql, of = sql_of
    return f"max({sql})", lambda group: max(some(of, group), key=lambda v: in_order(v, False), default=None)


def greatest_address(sql_of):
    sql, of = sql_of
    return f"u64_text(max({sql}))", lambda group: f"0x{max(int(value, 16) for value in map(of, group)):x}" if group else None


def filtered(sql, holds):
    return f"count(*) FILTER (WHERE {sql})", lambda group: sum(map(bool, map(holds, group)))


# ---- statements ----

NAME, PID, TID, CPU, BATCH, STREAM, HOST, LEVEL, OPCODE = map(column, ("name", "pid", "tid", "cpu", "batch", "stream", "host", "level", "opcode"))
SIZE, OFFSET, THREAD, PATH, BASE = field("TransferSize"), field("ByteOffset"), field("IssuingThreadId"), field("FileName"), address("ImageBase")
PROGRAM, THROUGHPUT = field("ImageFileName"), real("Throughput")
DISK, IMAGE, SAMPLE = '"DiskIo/Read"', '"Image/Load"', '"ThreadPoolWorkerThreadAdjustment/Sample"'


def of_table(table, events):
    return [event for event in events if table == "events" or event["name"] == table.strip('"')]


def common(events):
    """Statements about what every machine has."""
    pids = [pid for pid, _ in collections.Counter(event["pid"] for event in events).most_common(3)]
    cpus = sorted({event["cpu"] for event in events})
    times = sorted(event["ns"] for event in events)
    middle = times[len(times) // 2]
    yield Statement("events", [], [COUNT, distinct(NAME), distinct(PID), least(TID), greatest(TID), greatest(NAME)])
    yield Statement("events", [NAME], [COUNT, least(PID), greatest(PID), distinct(TID), average(TID)])
    yield Statement("events", [NAME, CPU], [COUNT, total(TID), real_total(TID)])
    yield Statement("events", [PID, NAME, CPU], [COUNT], order=[(3, True)])
    yield Statement("events", [PID, TID], [COUNT, least(NAME)], order=[(0, True), (1, False)], limit=7, offset=2)
    yield Statement("events", [NAME], [COUNT], order=[(1, True)], limit=5)
    yield Statement("events", [NAME], [COUNT], order=[(1, True), (0, False)], limit=6, offset=1)
    yield Statement("events", [CPU], [COUNT], order=[(0, False)], limit=0)
    yield Statement("events", [CPU], [COUNT], order=[(0, False)], limit=100, offset=1)
    yield Statement("events", [PID], [COUNT, total(TID)], having=("count(*) > 20", lambda row: row[1] > 20), order=[(1, True)])
    yield Statement("events", [TID], [COUNT, average(PID)], having=("c2 >= 100 OR c1 = 1", lambda row: row[2] >= 100 or row[1] == 1))
    yield Statement("events", [STREAM, BATCH], [COUNT, distinct(NAME)])
    yield Statement("events", [bucket(1000000), CPU], [COUNT], order=[(0, False), (1, True)])
    yield Statement("events", [LEVEL, OPCODE, NAME], [COUNT])
    yield Statement("events", [NAME], [COUNT], where=[is_in("pid", pids[:2]), when(f"cpu < {cpus[-1]}", lambda event: event["cpu"] < cpus[-1])])
    yield Statement("events", [TID], [COUNT], where=[when(f"pid = {pids[0]}", lambda event: event["pid"] == pids[0]), when("9 <= tid", lambda event: event["tid"] >= 9)])
    yield Statement("events", [PID], [COUNT], where=[when(f"tid BETWEEN 8 AND {pids[-1] + 1000}", lambda event: 8 <= event["tid"] <= pids[-1] + 1000)])
    yield Statement("events", [PID], [COUNT], where=[when(f"NOT pid = {pids[0]}", lambda event: event["pid"] != pids[0])])
    yield Statement("events", [PID], [COUNT], where=[when(f"(pid = {pids[0]} OR cpu = {cpus[0]})", lambda event: event["pid"] == pids[0] or event["cpu"] == cpus[0])])
    yield Statement("events", [PID], [filtered(f"cpu = {cpus[0]}", lambda event: event["cpu"] == cpus[0]), COUNT])
    yield Statement("events", [NAME, PID], [], distinct=True)
    yield Statement("events", [CPU], [], distinct=True, order=[(0, True)])
    for table in (DISK, IMAGE):
        yield Statement(table, [], [COUNT, counted(PID)])
    # nothing: one group without keys, and none with them
    for where in ([when(f"time > {times[-1] + 100}", lambda event: False)], [when("pid = 4294967294", lambda event: False)], [when("tid > 9 AND tid < 3", lambda event: False)]):
        yield Statement("events", [], [COUNT, total(TID), real_total(TID), average(TID), least(TID), greatest(NAME), distinct(PID)], where=where)
        yield Statement("events", [NAME], [COUNT, total(TID)], where=where)
    half = [when(f"time >= {middle}", lambda event: event["ns"] >= middle)]
    yield Statement("events", [NAME], [COUNT], where=half)
    yield Statement("events", [bucket(777700), PID], [COUNT], where=half, order=[(2, True)], limit=9)


def divided(a, b):
    """SQL's whole quotient: rounded to 0; NULL by 0."""
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def modulo(a, b):
    return None if b == 0 else a - divided(a, b) * b


def computed(events):
    """Keys, measures and conditions that are expressions."""
    def of(sql, function):
        return sql, lambda event: function(event["pid"], event["tid"], event["cpu"])

    for key in (of("pid % 8", lambda pid, tid, cpu: modulo(pid, 8)), of("pid / 16", lambda pid, tid, cpu: pid // 16), of("(pid - tid) % 5", lambda pid, tid, cpu: modulo(pid - tid, 5)),
                of("(pid - tid) / 7", lambda pid, tid, cpu: divided(pid - tid, 7)), of("tid % cpu", lambda pid, tid, cpu: modulo(tid, cpu)), of("pid % -1", lambda pid, tid, cpu: 0),
                of("cpu * 10 + 1", lambda pid, tid, cpu: cpu * 10 + 1)):
        yield Statement("events", [key], [COUNT, total(TID)], order=[(0, True)])
    yield Statement("events", [of("pid % 4", lambda pid, tid, cpu: modulo(pid, 4)), CPU, bucket(500000)], [COUNT])
    yield Statement("events", [CPU], [greatest(of("tid - pid", lambda pid, tid, cpu: tid - pid)),
                                      counted(of("nullif(cpu, 0)", lambda pid, tid, cpu: cpu or None)), total(of("CASE WHEN cpu = 0 THEN 2 END", lambda pid, tid, cpu: None if cpu else 2))])
    yield Statement("events", [("lower(name)", lambda event: event["name"].lower())], [COUNT, distinct(PID)], where=[when("pid % 8 = 4", lambda event: event["pid"] % 8 == 4)])
    for sql, holds in (("= 5", lambda text: text == "5"), ("IN (5, 'p1.exe')", lambda text: text in ("5", "p1.exe")), ("> 5", lambda text: text > "5"), ("IN (NULL, 5)", lambda text: text == "5")):
        yield Statement('"Process/Start"', [PROGRAM], [COUNT], where=[when(f'"ImageFileName" {sql}', lambda event, holds=holds: holds(event["fields"]["ImageFileName"]))])


def left_to_sqlite(events):
    """What no group of columns has."""
    yield Statement("events", [CPU], [("sum(pid + 1)", lambda group: sum(event["pid"] + 1 for event in group)), COUNT])


def edges(events):
    """Times at the first and last event of a batch. Stored times have ns, exported ones 100 ns."""
    batches = collections.defaultdict(list)
    for event in events:
        batches[event["stream"], event["batch"]].append(event["ns"])
    chosen = sorted(batches.values(), key=len)[-2:]
    for times in chosen:
        yield from between(min(times), max(times))


def between(low, high):
    for sql, holds in ((f"time >= {low} AND time < {high}", lambda ns: low <= ns < high), (f"time >= {low + 100} AND time <= {high + 99}", lambda ns: low < ns <= high),
                       (f"time BETWEEN {high} AND {high + 99}", lambda ns: ns == high), (f"time < {low}", lambda ns: ns < low), (f"{high + 99} < time", lambda ns: ns > high),
                       (f"time BETWEEN {low} AND {low + 99} AND time >= {low}", lambda ns: ns == low)):
        yield Statement("events", [NAME], [COUNT, distinct(BATCH)], where=[when(sql, lambda event, holds=holds: holds(event["ns"]))])


def fields(events):
    """Fields: of some versions alone, beyond 2^63, addresses, texts."""
    if of_table(DISK, events):
        yield Statement(DISK, [THREAD], [COUNT, counted(THREAD), total(SIZE), average(SIZE), least(SIZE), greatest(SIZE)], order=[(0, False)])
        yield Statement(DISK, [THREAD, PID, SIZE], [COUNT, real_total(SIZE)], order=[(0, True), (2, False), (1, False)])
        yield Statement(DISK, [OFFSET], [COUNT], order=[(0, False)])
        yield Statement(DISK, [CPU], [counted(OFFSET), distinct(OFFSET), least(OFFSET), greatest(OFFSET), distinct(THREAD)])
        yield Statement(DISK, [], [COUNT, counted(THREAD), distinct(THREAD), least(THREAD), greatest(THREAD), total(THREAD), average(THREAD)])
        yield Statement(DISK, [THREAD], [COUNT], having=("c0 IS NULL OR count(*) > 2", lambda row: row[0] is None or row[1] > 2))
        yield Statement(DISK, [THREAD], [COUNT], where=[when('"IssuingThreadId" IS NULL', lambda event: event["fields"].get("IssuingThreadId") is None)])
        yield Statement(DISK, [SIZE], [COUNT], where=[when('"ByteOffset" >= 8192', lambda event: event["fields"]["ByteOffset"] >= 8192)])  # texts sort after numbers
        yield Statement(DISK, [SIZE], [COUNT, total(OFFSET)], where=[when('"ByteOffset" < 12288', lambda event: event["fields"]["ByteOffset"] < 12288)])
        yield Statement(DISK, [SIZE], [COUNT], where=[when('"IssuingThreadId" > 0', lambda event: (event["fields"].get("IssuingThreadId") or 0) > 0)])
        yield Statement(DISK, [THREAD], [], distinct=True, order=[(0, True)])
    if of_table(IMAGE, events):
        yield Statement(IMAGE, [PATH], [COUNT, greatest_address(BASE)], order=[(1, True), (0, True)], limit=20)
        yield Statement(IMAGE, [BASE], [COUNT, least(PATH)])
        yield Statement(IMAGE, [PATH], [COUNT], where=[when("\"ImageBase\" >= u64('0x8000000000000000')", lambda event: number(event["fields"]["ImageBase"]) >= TOP)])
        yield Statement(IMAGE, [PATH, PID], [COUNT], where=[when("\"ImageBase\" < u64('0x8000000000000000')", lambda event: number(event["fields"]["ImageBase"]) < TOP)])


def reals(events):
    """Columns of real numbers, which SQLite groups, and whole ones that are compared with real numbers."""
    if of_table(SAMPLE, events):
        measures = [COUNT, counted(THROUGHPUT), total(THROUGHPUT), average(THROUGHPUT), real_total(THROUGHPUT), least(THROUGHPUT), greatest(THROUGHPUT), distinct(THROUGHPUT)]
        yield Statement(SAMPLE, [], measures)
        yield Statement(SAMPLE, [PID], measures, order=[(0, True)])
        yield Statement(SAMPLE, [THROUGHPUT], [COUNT, least(TID), greatest(TID)], order=[(0, False)])
        yield Statement(SAMPLE, [THROUGHPUT], [], distinct=True, order=[(0, True)])
        for sql, holds in (("> 0.5", lambda x: x > 0.5), (">= 0.5", lambda x: x >= 0.5), ("= 0.5", lambda x: x == 0.5), ("<> 0.5", lambda x: x != 0.5), ("< -2", lambda x: x < -2),
                           ("<= 3", lambda x: x <= 3), ("= 0", lambda x: x == 0), ("IN (3, -7, 0.25)", lambda x: x in (3, -7)), ("BETWEEN -2.25 AND 0", lambda x: -2.25 <= x <= 0),
                           ("IS NOT NULL", lambda x: True)):
            where = [when(f'"Throughput" {sql}', lambda event, holds=holds: THROUGHPUT[1](event) is not None and holds(THROUGHPUT[1](event)))]
            yield Statement(SAMPLE, [PID], [COUNT, total(THROUGHPUT)], where=where)
        yield Statement(SAMPLE, [], [COUNT], where=[when('"Throughput" IS NULL', lambda event: THROUGHPUT[1](event) is None)])
    tids = sorted(event["tid"] for event in events)
    middle = tids[len(tids) // 2]
    signs = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "=": lambda a, b: a == b, "<>": lambda a, b: a != b}
    for bound, of in ((middle, signs), (middle + 0.5, signs), (1e300, "<>"), (-1e300, "<>")):
        for sign in of:
            yield Statement("events", [], [COUNT], where=[when(f"tid {sign} {float(bound)}", lambda event, holds=signs[sign], bound=bound: holds(event["tid"], bound))])


# ---- the answers ----

def answer(statement):
    return "table events" if statement.table == "events" else 'table "CLASS"'


def compare(world, statement, name, got, events):
    """What ORDER BY leaves open (equal values), a LIMIT may choose from; of the rest every row and its place counts."""
    every = statement.rows(of_table(statement.table, events))
    in_turn = sorted(every, key=statement.sorted) if statement.order else every
    end = None if statement.limit is None else statement.offset + statement.limit
    want = in_turn[statement.offset:end]
    where = f"{name}, {statement.sql()}"
    if statement.limit is not None or statement.order:
        known = collections.Counter(every) - collections.Counter()
        strangers = [row for row in got if row not in known]
        world.same(answer(statement), where, (strangers, [statement.sorted(row) == statement.sorted(other) for row, other in zip(got, want)], len(set(got))),
                   ([], [True] * len(want), len(want)), ordered=True)
    if statement.limit is None:
        world.same(answer(statement), where, got, want)


def values(rows):
    return [whole(row.values()) for row in rows]


def whole(row):
    """JSON has whole reals as integers, and integers beyond 2^53 as texts."""
    return tuple(int(value) if isinstance(value, float) and value.is_integer() or isinstance(value, str) and re.fullmatch("[1-9][0-9]{15,18}", value) else value
                 for value in row)


@contextlib.contextmanager
def confined(world, host):
    """A function that asks the API with a token of one machine, of a collector over a copy of the store."""
    copy = harness.Collector(world.env, f"{world.collector.name}-confined", ["--web", "127.0.0.1:0", "--web-tokens"])
    world.copy(copy.store)
    try:
        copy.start()
        token = test_access.new_token(world.env, copy.store, "one", "--hosts", host)
        client = test_access.Client(world.env, int(re.findall(r"dashboard on https://127.0.0.1:(\d+)/", copy.log())[-1]))

        def ask(sql):
            status, text, _ = client.ask("/api/v1/sql", token, method="POST", body={"sql": sql, "rows": 100000})
            if status != 200:
                raise harness.Failure(f"{sql}: {status} {text[:500]}")
            return [whole(row) for row in json.loads(text)["rows"]]
        yield ask
    finally:
        copy.kill()
        shutil.rmtree(copy.store, ignore_errors=True)


def little_memory(world, name, events):
    """Groups that memory does not hold: the same rows, or an end at the limit with that reason."""
    for keys in ([column("position"), STREAM, BATCH], [bucket(100), TID, NAME]):
        statement = Statement("events", keys, [COUNT, least(TID)])
        done = world.env.run([world.env.collector, "query", "--store", world.collector.store, "--format", "jsonl", "--rows", 0, "--memory", SMALL, statement.sql(name)], check=False)
        if done.returncode == LIMITED:
            world.same("table events", f"{name}, little memory", ["memory" in done.stderr], [True])
        else:
            world.same("table events", f"{name}, little memory: exit code", [done.returncode], [0])
            compare(world, statement, name, values(json.loads(line) for line in done.stdout.splitlines()), events)


def handed_down(world, name, events):
    """Each statement is computed by the native grouping, as EXPLAIN QUERY PLAN says: a parser that understands too little changes no row."""
    asked = [statement.sql(name) for statement in (*common(events), *fields(events), *computed(events)) if of_table(statement.table, events)]
    left = [sql for sql in asked if not any("(grouped " in str(row) for row in world.sql(f"EXPLAIN QUERY PLAN {sql}"))]
    world.same("table events", f"{name}, not handed down", left, [])


def other_names(world, name, events):
    """Provider and id as a class's name: counted where the scan compares names, refused with the right comparison where SQLite would."""
    manifest = [event for event in events if event["id"] and event["provider_name"] and not event["name"].startswith(event["provider_name"])]
    if not manifest:
        return
    one = manifest[0]
    alias, provider = f"{one['provider_name']}/{one['id']}", one["provider_name"]
    mine = [event for event in events if (event["provider"], event["id"]) == (one["provider"], one["id"])]
    own = {event["name"] for event in mine}
    for condition, count in ((f"name = '{alias}'", len(mine)), (f"name IN ('{alias}', 'No/1', 'No/2')", len(mine)),
                             (f"(name = '{alias}' OR pid = {one['pid']})", sum(event["pid"] == one["pid"] or event in mine for event in events)),
                             (f"NOT (provider_name = '{provider}' AND id = {one['id']})", len(events) - len(mine))):
        world.same("table events", f"{name}, {condition}", values(world.sql(f"SELECT count(*) FROM events WHERE host = '{name}' AND {condition}")), [(count,)])
    got = world.sql(f"SELECT name, count(*) FROM events WHERE host = '{name}' GROUP BY name HAVING name = '{alias}'")
    world.same("table events", f"{name}, HAVING {alias}", values(got), collections.Counter(event["name"] for event in mine).items())
    pairs = f"(SELECT name, host FROM events WHERE host = '{name}' LIMIT 9)"  # the text is compared with no name
    got = world.sql(f"SELECT count(*) FROM {pairs} AS a, {pairs} AS b WHERE a.name <> b.name AND coalesce(a.host, '{alias}') <> b.host")
    world.same("table events", f"{name}, {alias} beside names", values(got), [(0,)])
    got = world.sql(f"SELECT count(*) FROM (SELECT host AS h, count(*) AS n FROM events WHERE host = '{name}' GROUP BY host) WHERE h <> '{alias}'")
    world.same("table events", f"{name}, {alias} where no name is read", values(got), [(1,)])
    for condition in (f"NOT name = '{alias}'", f"name <> '{alias}'", f"(name = '{alias}' OR length(host) = 0)", f"name NOT IN ('{alias}', 'No/1', 'No/2')",
                      f"CASE name WHEN '{alias}' THEN 1 END", f"NOT provider_name = '{one['provider']}'", f"(provider_name = '{one['provider']}' OR length(host) = 0)"):
        if alias not in own:
            done = world.env.run([world.env.collector, "query", "--store", world.collector.store, f"SELECT count(*) FROM events WHERE {condition}"], check=False)
            world.same("table events", f"{name}, {condition}", [(done.returncode, f"provider_name = '{provider}'" in done.stderr)], [(2, True)])


@functools.cache
def judged_machines(world):
    """{machine: its events as rows}"""
    return {name: events_of(host) for name, host in world.hosts.items() if name in MACHINES or world.name != "all"}


def judge_groups(world):
    """Statements over one machine, over all of them, and with a restriction to one."""
    every = judged_machines(world)
    for name, events in ((name, events) for name, events in every.items() if name in MACHINES + OTHERS):
        for statement in (*common(events), *edges(events), *fields(events), *computed(events), *left_to_sqlite(events), *reals(events)):
            if of_table(statement.table, events):
                compare(world, statement, name, values(world.sql(statement.sql(name))), events)
        other_names(world, name, events)
        if name in FILLING:
            little_memory(world, name, events)
            handed_down(world, name, events)
    if world.name == "all" or not every:
        return
    together = [event for events in every.values() for event in events]
    one = next(iter(every))
    for statement in (Statement("events", [HOST, NAME], [COUNT, distinct(PID)]), Statement("events", [NAME], [COUNT, distinct(HOST), distinct(STREAM)]),
                      Statement("events", [HOST], [COUNT, least(TID), greatest(TID)], order=[(1, True)])):
        compare(world, statement, "all", values(world.sql(statement.sql())), together)
        compare(world, statement, one, values(world.sql(statement.sql(), "--host", one)), every[one])


def judge_confined(world):
    """The same statements with a token of one machine, over a copy of the store of a collector that wants tokens."""
    every = judged_machines(world)
    if world.name == "all" or not every:
        return
    one = next(iter(every))
    with confined(world, one) as ask:
        for statement in (*common(every[one]), Statement("events", [HOST], [COUNT]), Statement("events", [HOST, NAME], [COUNT, distinct(PID)])):
            if of_table(statement.table, every[one]):
                compare(world, statement, f"{one} by a token", ask(statement.sql()), every[one])
