"""Judge of the first rows of an order: single events with ORDER BY and LIMIT, which the collector chooses while it reads. One to three columns in each direction,
NULLS FIRST and LAST, equal values, texts, addresses, counts beyond 2^63, real numbers, conditions, OFFSET, more rows than there are. The rows are those of a
sort of the exported records; each machine is asked alone."""
import collections

import judge_groups
from judge_groups import DISK, IMAGE, CPU, LEVEL, NAME, OFFSET, OPCODE, PATH, PID, SAMPLE, SIZE, THREAD, THROUGHPUT, TID, column, in_order, is_in, of_table, when
from naive_state import number

MACHINES = ["made-reused", "made-losses", "real-clr-32bit", "holed", "hashed-a"]
EXPLAINED = "hashed-a"  # a machine with all these tables
UP, DOWN = (False, None), (True, None)
SHOWN = ["stream", "batch", "position", "clock", "name", "pid", "tid"]
CLOCK, TIME, POSITION, STREAM, BATCH = map(column, ("clock", "time", "position", "stream", "batch"))
BASE = '"ImageBase"', lambda event: number(event["fields"]["ImageBase"])


class First:
    """SELECT ... FROM table WHERE host = ... AND where ORDER BY order LIMIT limit OFFSET offset. order: (column as SQL and as a function, (whether it descends,
    "FIRST", "LAST" or None for where NULLs are))"""

    def __init__(self, table, order, limit, offset=0, where=()):
        self.table, self.order, self.limit, self.offset, self.where = table, order, limit, offset, where

    def sql(self, host):
        conditions = " AND ".join([f"host = '{host}'", *(sql for sql, _ in self.where)])
        by = ", ".join(f"{sql}{' DESC' * down}{f' NULLS {nulls}' if nulls else ''}" for (sql, _), (down, nulls) in self.order)
        return f"SELECT {', '.join(SHOWN)} FROM {self.table} WHERE {conditions} ORDER BY {by} LIMIT {self.limit} OFFSET {self.offset}"

    def place(self, event):
        """What is compared: of NULLs the side first, which is SQL's lower end where the statement does not say it."""
        found = []
        for (_, of), (down, nulls) in self.order:
            value, are_first = of(event), nulls == "FIRST" or nulls is None and not down
            found.append(((value is None) != are_first, in_order(value, down)))
        return tuple(found)

    def values(self, event):
        return [value + 0.0 if isinstance(value, float) else value for value in (of(event) for (_, of), _ in self.order)]  # 0.0 and -0.0 are equal


def of_every(events):
    rare = next(name for name, count in collections.Counter(event["name"] for event in reversed(events)).most_common() if count < 40)
    pids = [pid for pid, _ in collections.Counter(event["pid"] for event in events).most_common(3)]
    yield First("events", [(CLOCK, UP)], 5)
    yield First("events", [(CLOCK, DOWN), (NAME, UP)], 9, 2)
    for direction in (UP, DOWN):  # more than the batches that are read first have; fewer than there may be, of one class
        yield First("events", [(TIME, direction)], 7)
        yield First("events", [(TIME, direction)], 2000)
        yield First("events", [(TIME, direction)], 40, where=[when(f"name = '{rare}'", lambda event: event["name"] == rare)])
    yield First("events", [(PID, UP)], 10)
    yield First("events", [(PID, DOWN), (TID, UP)], 12, 3)
    yield First("events", [(TID, UP), (NAME, DOWN), (CLOCK, UP)], 30)
    yield First("events", [(NAME, DOWN), (CPU, UP)], 12)
    yield First("events", [(NAME, UP), (CLOCK, DOWN)], 25, 1)
    yield First("events", [(LEVEL, DOWN), (OPCODE, UP), (TID, DOWN)], 20)
    yield First("events", [(CPU, UP), (POSITION, DOWN)], 15)
    yield First("events", [(POSITION, UP), (BATCH, DOWN), (STREAM, DOWN)], 40)
    yield First("events", [(PID, UP), (CLOCK, UP)], 8, where=[is_in("pid", pids[1:])])
    yield First("events", [(NAME, UP), (CLOCK, DOWN)], 8, where=[when(f"pid <> {pids[0]}", lambda event: event["pid"] != pids[0]), when("tid >= 8", lambda event: event["tid"] >= 8)])
    yield First("events", [(TID, UP)], 5, where=[when("pid = 4294967294", lambda event: False)])


def of_fields(events):
    for order in ([(THREAD, UP)], [(THREAD, DOWN), (CLOCK, UP)], [(THREAD, (False, "LAST"))], [(THREAD, (True, "FIRST")), (SIZE, DOWN)], [(SIZE, UP), (THREAD, DOWN), (CLOCK, DOWN)],
                  [(OFFSET, DOWN), (CLOCK, UP)], [(OFFSET, UP), (SIZE, UP)]):
        yield First(DISK, order, 20 if order[0][1] == UP else 300, 1)
    yield First(DISK, [(OFFSET, DOWN)], 9, where=[when('"TransferSize" > 512', lambda event: event["fields"]["TransferSize"] > 512)])
    for order in ([(PATH, UP)], [(PATH, DOWN), (BASE, UP)], [(BASE, DOWN), (PATH, UP), (CLOCK, DOWN)], [(BASE, UP)]):
        yield First(IMAGE, order, 250 if len(order) == 1 else 20, 2)
    for limit, order in ((300, [(THROUGHPUT, UP)]), (7, [(THROUGHPUT, UP), (TID, UP)]), (33, [(THROUGHPUT, UP), (TID, UP)]), (33, [(THROUGHPUT, DOWN), (TID, DOWN)]),
                         (110, [(THROUGHPUT, (False, "LAST")), (CLOCK, DOWN)]), (60, [(PID, DOWN), (THROUGHPUT, UP), (CLOCK, DOWN)]), (33, [(THROUGHPUT, (True, "FIRST")), (CLOCK, UP)])):
        yield First(SAMPLE, order, limit)
    yield First(SAMPLE, [(THROUGHPUT, DOWN), (CLOCK, UP)], 9, where=[when('"Throughput" <= 0.5', lambda event: (THROUGHPUT[1](event) or 0) <= 0.5 and THROUGHPUT[1](event) is not None)])


def compare(world, first, name, got, events):
    """Of equal rows at the end any may be chosen: each row is a different event, and has the values of the row at its place in the sorted list."""
    known = {tuple(event[key] for key in SHOWN): event for event in events if all(holds(event) for _, holds in first.where)}
    want = sorted(known.values(), key=first.place)[first.offset:first.offset + first.limit]
    where = f"{name}, {first.sql(name)}"
    world.same(judge_groups.answer(first), where, [first.values(known[row]) if row in known else row for row in got], [first.values(event) for event in want], ordered=True)
    world.same(judge_groups.answer(first), f"{where}: different events", [len(set(got))], [len(want)])


def judge_first(world):
    """The first rows of each order, and that each is chosen while the events are read, as EXPLAIN QUERY PLAN says."""
    for name, events in ((name, events) for name, events in judge_groups.judged_machines(world).items() if name in MACHINES):
        for first in (*of_every(events), *of_fields(events)):
            mine = of_table(first.table, events)
            if mine:
                compare(world, first, name, [tuple(row.values()) for row in world.sql(first.sql(name))], mine)
        if name == EXPLAINED:
            asked = [first.sql(name) for first in (*of_every(events), *of_fields(events)) if of_table(first.table, events)]
            left = [sql for sql in asked if not any("(grouped " in str(row) for row in world.sql(f"EXPLAIN QUERY PLAN {sql}"))]
            world.same("table events", f"{name}, chosen by SQLite", left, [])
