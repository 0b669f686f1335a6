"""SQL answers equal a naive recomputation over `dump --format jsonl`: each of 50 queries on each of three traces. What SQL
hands down to the scan (host, class, time, pid, fields, dictionaries) and what it keeps for itself must not change an answer.
"""
import collections
import json
import struct

import harness
import test_profile_gaps
import test_single_records
import traces

TRACES = ["clr-kernel-win8-x64", "shutdown-win10", "tracelogging-win11-20cpu"]
NO_ID = 4294967295


def bare(value):
    """A field without its name: {"value": 5, "name": "x"} is 5."""
    return value["value"] if isinstance(value, dict) and "value" in value else value


def number(value):
    value = bare(value)
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


class Events:
    """What dump says of one trace, and values in it that questions can be about."""

    def __init__(self, lines):
        self.all = [json.loads(line) for line in lines]
        self.dc = "DCStart" if any(e["name"] == "Process/DCStart" for e in self.all) else "DCEnd"  # which rundown it has
        self.opcode = 3 if self.dc == "DCStart" else 4
        times = sorted(e["time"] for e in self.all)
        self.t1, self.t2 = times[len(times) // 4], times[3 * len(times) // 4]
        self.pid = collections.Counter(e["pid"] for e in self.all if e["pid"] not in (0, NO_ID)).most_common(1)[0][0]
        self.pids = [p for p, _ in collections.Counter(e["pid"] for e in self.all).most_common(4)]
        self.tid = collections.Counter(e["tid"] for e in self.all if e["tid"] not in (0, NO_ID)).most_common(1)[0][0]
        images = self.of("Image/DCStart")
        self.base = sorted(number(e["fields"]["ImageBase"]) for e in images)[len(images) // 2]
        self.path = collections.Counter(e["fields"]["FileName"] for e in images).most_common(1)[0][0]
        self.image = sorted(e["fields"]["ImageFileName"] for e in self.of("Process/DCStart"))[0]
        self.provider = collections.Counter(e["provider"] for e in self.all).most_common(2)[-1][0]

    def of(self, name):
        name = name.replace("DCStart", self.dc)
        return [e for e in self.all if e["name"] == name]


def field(e, name):
    return bare(e["fields"].get(name))


def count_by(events, key):
    return [[k, n] for k, n in collections.Counter(key(e) for e in events).items()]


# title, SQL with {parameters}, what it must give; rows are compared as they come when the third is "ordered"
QUERIES = [
    ("all", "SELECT count(*) FROM events", lambda d: [[len(d.all)]]),
    ("by class", "SELECT name, count(*) FROM events GROUP BY name", lambda d: count_by(d.all, lambda e: e["name"])),
    ("by provider", "SELECT provider, provider_name, count(*) FROM events GROUP BY 1, 2",
     lambda d: [[*k, n] for k, n in collections.Counter((e["provider"], e["provider_name"]) for e in d.all).items()]),
    ("by pid", "SELECT pid, count(*) FROM events GROUP BY pid", lambda d: count_by(d.all, lambda e: e["pid"])),
    ("by cpu", "SELECT cpu, count(*) FROM events GROUP BY cpu", lambda d: count_by(d.all, lambda e: e["cpu"])),
    ("by thread", "SELECT pid, tid, count(*) FROM events GROUP BY pid, tid",
     lambda d: [[*k, n] for k, n in collections.Counter((e["pid"], e["tid"]) for e in d.all).items()]),
    ("first and last", "SELECT time_text(min(time)), time_text(max(time)) FROM events",
     lambda d: [[min(e["time"] for e in d.all), max(e["time"] for e in d.all)]]),
    ("one pid", "SELECT count(*) FROM events WHERE pid = {pid}", lambda d: [[sum(e["pid"] == d.pid for e in d.all)]]),
    ("pid as text", "SELECT count(*) FROM events WHERE pid = '{pid}'", lambda d: [[sum(e["pid"] == d.pid for e in d.all)]]),
    ("pid in a list", "SELECT pid, count(*) FROM events WHERE pid IN ({pids}, 123456789) GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["pid"] in d.pids], lambda e: e["pid"])),
    ("not this pid", "SELECT count(*) FROM events WHERE pid <> {pid}", lambda d: [[sum(e["pid"] != d.pid for e in d.all)]]),
    ("pids between", "SELECT count(*) FROM events WHERE pid BETWEEN 4 AND {pid}",
     lambda d: [[sum(4 <= e["pid"] <= d.pid for e in d.all)]]),
    ("pid above a fraction", "SELECT count(*) FROM events WHERE pid > {pid} - 0.5 AND pid < {pid} + 0.5",
     lambda d: [[sum(e["pid"] == d.pid for e in d.all)]]),
    ("one thread", "SELECT name, count(*) FROM events WHERE tid = {tid} GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["tid"] == d.tid], lambda e: e["name"])),
    ("a time window", "SELECT count(*) FROM events WHERE time >= time_ns('{t1}') AND time < time_ns('{t2}')",
     lambda d: [[sum(d.t1 <= e["time"] < d.t2 for e in d.all)]]),
    ("one instant", "SELECT count(*) FROM events WHERE time = time_ns('{t1}')",
     lambda d: [[sum(e["time"] == d.t1 for e in d.all)]]),
    ("after", "SELECT name, count(*) FROM events WHERE time > time_ns('{t2}') GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["time"] > d.t2], lambda e: e["name"])),
    ("until, by pid", "SELECT pid, count(*) FROM events WHERE time <= time_ns('{t1}') GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["time"] <= d.t1], lambda e: e["pid"])),
    ("window, pid and class", "SELECT count(*) FROM events WHERE time BETWEEN time_ns('{t1}') AND time_ns('{t2}') AND pid = {pid}"
     " AND name = 'Image/UnLoad'",
     lambda d: [[sum(d.t1 <= e["time"] <= d.t2 and e["pid"] == d.pid and e["name"] == "Image/UnLoad" for e in d.all)]]),
    ("by second", "SELECT time_text(time_bucket(time, '1s')), count(*) FROM events GROUP BY 1",
     lambda d: count_by(d.all, lambda e: e["time"][:19] + ".0000000Z")),
    ("class by name", "SELECT count(*), min(version), max(version) FROM events WHERE name = 'Thread/DCStart'",
     lambda d: [[len(d.of("Thread/DCStart")), min(e["version"] for e in d.of("Thread/DCStart")),
                 max(e["version"] for e in d.of("Thread/DCStart"))]]),
    ("classes in a list", "SELECT name, count(*) FROM events WHERE name IN ('Process/DCStart', 'Image/DCStart', 'No/Such') GROUP BY 1",
     lambda d: count_by(d.of("Process/DCStart") + d.of("Image/DCStart"), lambda e: e["name"])),
    ("classes that look alike", "SELECT name, count(*) FROM events WHERE name LIKE 'process/%' GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["name"].startswith("Process/")], lambda e: e["name"])),
    ("no class of that name", "SELECT count(*) FROM events WHERE name = 'process/dcstart'", lambda d: [[0]]),
    ("in any case", "SELECT count(*) FROM events WHERE name = 'process/dcstart' COLLATE NOCASE",
     lambda d: [[len(d.of("Process/DCStart"))]]),
    ("one provider", "SELECT name, count(*) FROM events WHERE provider = guid('{{{provider}}}') GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["provider"] == d.provider], lambda e: e["name"])),
    ("header constants", "SELECT id, version, opcode, level, channel, task, keyword, count(*) FROM events"
     " WHERE opcode = {opcode} AND version > 1 GROUP BY 1, 2, 3, 4, 5, 6, 7",
     lambda d: [[*k[:6], k[6], n] for k, n in collections.Counter(
         (e["id"], e["version"], e["opcode"], e["level"], e["channel"], e["task"], e["keyword"])
         for e in d.all if e["opcode"] == d.opcode and e["version"] > 1).items()]),
    ("a keyword", "SELECT count(*) FROM events WHERE keyword >= u64('0x8000000000000000')",
     lambda d: [[sum(int(e["keyword"], 16) >= 2**63 for e in d.all)]]),
    ("activities", "SELECT activity_id, count(*) FROM events WHERE activity_id IS NOT NULL GROUP BY 1",
     lambda d: count_by([e for e in d.all if e["activity_id"]], lambda e: e["activity_id"])),
    ("related activities", "SELECT count(related_activity_id) FROM events",
     lambda d: [[sum(e["related_activity_id"] is not None for e in d.all)]]),
    ("stacks in headers", "SELECT count(*), sum(json_array_length(stack)) FROM events WHERE stack <> '[]'",
     lambda d: [[sum(e["stack"] != [] for e in d.all), sum(len(e["stack"]) for e in d.all) or None]]),
    ("raw ticks", "SELECT count(DISTINCT clock), min(clock), max(clock) FROM events",
     lambda d: [[len({e["clock"] for e in d.all}), min(e["clock"] for e in d.all), max(e["clock"] for e in d.all)]]),
    ("all fields as JSON", "SELECT json_extract(fields, '$.ImageFileName') FROM events WHERE name = 'Process/DCStart'",
     lambda d: [[field(e, "ImageFileName")] for e in d.of("Process/DCStart")]),
    ("processes", 'SELECT time, cpu, ProcessId, ParentId, SessionId, ImageFileName, CommandLine, UserSID FROM "Process/DCStart"',
     lambda d: [[e["time"], e["cpu"], *(field(e, f) for f in ("ProcessId", "ParentId", "SessionId", "ImageFileName", "CommandLine",
                                                             "UserSID"))] for e in d.of("Process/DCStart")]),
    ("addresses are shown", 'SELECT UniqueProcessKey, DirectoryTableBase, Flags FROM "process/dcstart"',
     lambda d: [[field(e, f) for f in ("UniqueProcessKey", "DirectoryTableBase", "Flags")] for e in d.of("Process/DCStart")]),
    ("one image by name", "SELECT ProcessId FROM \"Process/DCStart\" WHERE ImageFileName = '{image}'",
     lambda d: [[field(e, "ProcessId")] for e in d.of("Process/DCStart") if field(e, "ImageFileName") == d.image]),
    ("a SID", "SELECT count(*) FROM \"Process/DCStart\" WHERE UserSID = sid('s-1-5-18')",
     lambda d: [[sum(field(e, "UserSID") == "S-1-5-18" for e in d.of("Process/DCStart"))]]),
    ("a dictionary column", "SELECT ProcessId, ImageBase FROM \"Image/DCStart\" WHERE FileName = '{path}'",
     lambda d: [[field(e, "ProcessId"), field(e, "ImageBase")] for e in d.of("Image/DCStart") if field(e, "FileName") == d.path]),
    ("a list of paths", "SELECT FileName, count(*) FROM \"Image/DCStart\" WHERE FileName IN ('{path}', 'nothing') GROUP BY 1",
     lambda d: count_by([e for e in d.of("Image/DCStart") if field(e, "FileName") == d.path], lambda e: field(e, "FileName"))),
    ("addresses above", "SELECT count(*) FROM \"Image/DCStart\" WHERE ImageBase > u64('{base}')",
     lambda d: [[sum(number(e["fields"]["ImageBase"]) > d.base for e in d.of("Image/DCStart"))]]),
    ("the kernel's half", "SELECT count(*) FROM \"Image/DCStart\" WHERE ImageBase >= u64('0xffff000000000000')",
     lambda d: [[sum(number(e["fields"]["ImageBase"]) >= 0xFFFF000000000000 for e in d.of("Image/DCStart"))]]),
    ("an address", "SELECT ProcessId, FileName FROM \"Image/DCStart\" WHERE ImageBase = u64({base})",
     lambda d: [[field(e, "ProcessId"), field(e, "FileName")] for e in d.of("Image/DCStart") if number(e["fields"]["ImageBase"]) == d.base]),
    ("addresses in order", "SELECT DISTINCT ImageBase FROM \"Image/DCStart\" ORDER BY ImageBase",
     lambda d: [[hex(b)] for b in sorted({number(e["fields"]["ImageBase"]) for e in d.of("Image/DCStart")})], "ordered"),
    ("highest addresses", "SELECT u64_text(max(ImageBase)), u64_text(min(ImageBase)) FROM \"Image/DCStart\"",
     lambda d: [[hex(max(number(e["fields"]["ImageBase"]) for e in d.of("Image/DCStart"))),
                 hex(min(number(e["fields"]["ImageBase"]) for e in d.of("Image/DCStart")))]]),
    ("differences of addresses", "SELECT max(ImageBase) - min(ImageBase) FROM \"Image/DCStart\" WHERE ImageBase < u64('0x800000000000')",
     lambda d: [[max(b) - min(b)] for b in [[number(e["fields"]["ImageBase"]) for e in d.of("Image/DCStart")
                                              if number(e["fields"]["ImageBase"]) < 0x800000000000]]]),
    ("newest", "SELECT time FROM events ORDER BY time DESC LIMIT 10", lambda d: [[t] for t in sorted((e["time"] for e in d.all), reverse=True)[:10]], "ordered"),
    ("newest that are not of a process", "SELECT time, name FROM events WHERE name NOT LIKE 'process/%' AND pid <> {pid} ORDER BY time DESC, name LIMIT 12",
     lambda d: [list(row) for row in sorted(sorted((e["time"], e["name"]) for e in d.all if not e["name"].startswith("Process/") and e["pid"] != d.pid),
                                            key=lambda row: row[0], reverse=True)[:12]], "ordered"),
    ("threads from the tenth on", "SELECT pid, tid FROM events ORDER BY pid, tid LIMIT 20 OFFSET 10",
     lambda d: [list(row) for row in sorted((e["pid"], e["tid"]) for e in d.all)[10:30]], "ordered"),
    ("largest images", "SELECT ImageSize, FileName FROM \"Image/DCStart\" WHERE FileName <> '{path}' ORDER BY ImageSize DESC, FileName LIMIT 7",
     lambda d: [[field(e, "ImageSize"), field(e, "FileName")] for e in
                sorted((e for e in d.of("Image/DCStart") if field(e, "FileName") != d.path), key=lambda e: (-number(e["fields"]["ImageSize"]), field(e, "FileName")))[:7]], "ordered"),
    ("neither of two", "SELECT pid, count(*) FROM events WHERE pid <> {pid} AND tid <> {tid} AND (cpu <> 0 OR name LIKE '%/DCStart') GROUP BY pid",
     lambda d: count_by([e for e in d.all if e["pid"] != d.pid and e["tid"] != d.tid and (e["cpu"] != 0 or e["name"].endswith("/" + d.dc))], lambda e: e["pid"])),
    ("sum of sizes", "SELECT ProcessId, count(*), sum(ImageSize) FROM \"Image/DCStart\" GROUP BY 1",
     lambda d: [[p, len(sizes), sum(sizes)] for p, sizes in by_pid(d).items()]),
    ("sizes between", "SELECT count(*) FROM \"Image/DCStart\" WHERE ImageSize BETWEEN 65536 AND 1048576 AND ProcessId <> 0",
     lambda d: [[sum(65536 <= number(e["fields"]["ImageSize"]) <= 1048576 and field(e, "ProcessId") != 0
                     for e in d.of("Image/DCStart"))]]),
    ("ten largest", "SELECT ImageSize, FileName, ProcessId FROM \"Image/DCStart\" ORDER BY ImageSize + 0 DESC, FileName, ProcessId, time LIMIT 10",
     lambda d: sorted(([number(e["fields"]["ImageSize"]), field(e, "FileName"), field(e, "ProcessId")]
                       for e in d.of("Image/DCStart")), key=lambda r: (-r[0], r[1].encode(), r[2]))[:10], "ordered"),
    ("a join of classes", 'WITH p AS MATERIALIZED (SELECT ProcessId AS id, ImageFileName AS image FROM "Process/DCStart")'
     ' SELECT p.image, count(*) FROM "Thread/DCStart" t JOIN p ON p.id = t.ProcessId GROUP BY 1', lambda d: threads_by_image(d)),
    ("either of two", "SELECT count(*) FROM events WHERE (pid = {pid} OR tid = {tid}) AND NOT (time < time_ns('{t1}'))",
     lambda d: [[sum((e["pid"] == d.pid or e["tid"] == d.tid) and not e["time"] < d.t1 for e in d.all)]]),
    ("unknown fields are NULL", 'SELECT count(*) FROM "Thread/DCStart" WHERE ThreadName IS NULL',
     lambda d: [[sum(field(e, "ThreadName") is None for e in d.of("Thread/DCStart"))]] if any(
         "ThreadName" in e["fields"] for e in d.of("Thread/DCStart")) else None),
    ("in the order of arrival", "SELECT name, clock, cpu FROM events ORDER BY stream, batch, position LIMIT 3000",
     lambda d: [[e["name"], e["clock"], e["cpu"]] for e in d.all[:3000]], "ordered"),
]


def by_pid(d):
    sizes = collections.defaultdict(list)
    for e in d.of("Image/DCStart"):
        sizes[field(e, "ProcessId")].append(number(e["fields"]["ImageSize"]))
    return sizes


def threads_by_image(d):
    counts = collections.Counter()
    for p in d.of("Process/DCStart"):
        counts[field(p, "ImageFileName")] += sum(field(t, "ProcessId") == field(p, "ProcessId") for t in d.of("Thread/DCStart"))
    return [[k, n] for k, n in counts.items() if n]


def same(got, expected, ordered):
    if ordered:
        return got == expected
    key = lambda row: [(v is not None, str(type(v)), v) for v in row]  # noqa: E731
    return sorted(got, key=key) == sorted(expected, key=key)


KERNEL_PROCESS = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716"
DOTNET_RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"


def misfits(path):
    """Events of a known provider, some of which are not as it is known: what each is, as (raw time, (id, version), decoded)."""
    made, want = test_profile_gaps.Made(), []
    for number in range(1, 401):
        code, version, payload, decoded = 7 + number % 2, 0, struct.pack("<IIBB", 4, 8, number % 32, 8), "whole"
        if number % 50 == 0:  # an unknown version
            version, decoded = 200, "partial"
        elif number % 77 == 0:  # an unknown event
            code, decoded = 60000, "unknown"
        elif code == 8 and number % 7 == 0:  # a payload that ends early
            payload, decoded = payload[:-3], "partial"
        want.append((made.clock, (code, version), decoded))
        made.event(KERNEL_PROCESS, 0, code, payload, [], version=version)
    path.write_bytes(test_single_records.trace(made.records))
    return want


def query(collector, sql):
    return json.loads(collector.ask("query", "--format", "json", "--host", "misfits", sql))["rows"]


def test_decoded(env, collector, checks):
    """Events that are decoded in part or not at all are rows, and as many as the agent counted."""
    want = misfits(env.folder / "misfits.etl")
    env.replay([env.folder / "misfits.etl"], collector, agent="misfits")
    rows = query(collector, f"SELECT clock, id, version, decoded FROM events WHERE provider = '{KERNEL_PROCESS}'")
    checks.equal(collections.Counter((row["clock"], (row["id"], row["version"]), row["decoded"]) for row in rows), collections.Counter(want), "how events are decoded")
    checks.that({decoded for _, _, decoded in want} == {"whole", "partial", "unknown"}, "the trace has events of each kind")
    of_class = query(collector, "SELECT count(*) AS n FROM \"CpuPriorityChange\" WHERE decoded = 'partial'")
    checks.equal(of_class[0]["n"], sum(key[0] == 8 and decoded == "partial" for _, key, decoded in want), "in a class's table")
    counts = {c["name"]: c["value"] for c in collector.ask_json("ledger", "--host", "misfits")["streams"][0]["counters"] if not c["family"]}
    all_rows = query(collector, "SELECT decoded, count(*) AS n FROM events GROUP BY 1")
    checks.equal({row["decoded"]: row["n"] for row in all_rows}, {decoded: counts[f"decode_{decoded}"] for decoded in ("whole", "partial", "unknown")}, "the agent's counters")


def test_cut_lists(env, collector, checks):
    """A list whose elements vary in size, of payloads that end before it or in it: it has no value, also after an event that has one."""
    head, values = struct.pack("<IH", 1, 5), struct.pack("<QQIIB", 0x11, 0x22, 3, 4, 5) + "Some.Type\0".encode("utf-16le") + struct.pack("<I", 0)
    payloads = [head + values, head, head + values[:4], struct.pack("<IH", 0, 5), head[:4], head + values]
    made = test_profile_gaps.Made()
    for payload in payloads:
        made.event(DOTNET_RUNTIME, 0, 15, payload, [], opcode=10, version=0)
    path = env.folder / "cut.etl"
    path.write_bytes(test_single_records.trace(made.records))
    env.replay([path], collector, agent="cut", spool=env.folder / "spool-cut")
    rows = collector.ask_json("query", "--format", "json", "--host", "cut", "SELECT \"count\" AS n, \"values\" AS list FROM \"Type/BulkType\" ORDER BY clock")["rows"]
    whole = [{"TypeID": 0x11, "ModuleID": 0x22, "TypeNameID": 3, "Name": "Some.Type", "TypeParameterCount": 0}]
    got = [(row["n"], row["list"] and [{name: int(e[name], 0) if str(e[name]).startswith("0x") else e[name] for name in whole[0]} for e in json.loads(row["list"])]) for row in rows]
    checks.equal(got, [(1, whole), (1, None), (1, None), (0, []), (1, None), (1, whole)], "lists of payloads that were cut")


def test_lists(env, collector, checks):
    """Lists of numbers and of texts, and a struct, as columns of a class: the JSON of `fields`; the field after them is its own."""
    U16_TEXT, U32, STRUCT, LIST, MEMBERS = 1, 8, 24, 0x40, 0x80
    fields = [(b"Numbers", bytes([U32 | LIST])), (b"Texts", bytes([U16_TEXT | LIST])), (b"One", bytes([STRUCT | MEMBERS, 2])), (b"Number", bytes([U32])), (b"Text", bytes([U16_TEXT])),
              (b"After", bytes([U32]))]
    metadata = b"\0Judged\0" + b"".join(name + b"\0" + kind for name, kind in fields)
    text = lambda s: s.encode("utf-16le") + bytes(2)  # noqa: E731
    events = [([1, 2, 3], ["one", "two"], {"Number": 7, "Text": "x"}, 8), ([], [], {"Number": 0, "Text": ""}, 9), ([4], ["three"], {"Number": 5, "Text": "y"}, 6)]
    payloads = [struct.pack("<H", len(numbers)) + struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack("<H", len(texts)) + b"".join(map(text, texts)) +
                struct.pack("<I", one["Number"]) + text(one["Text"]) + struct.pack("<I", after) for numbers, texts, one, after in events]
    path = env.folder / "lists.etl"
    path.write_bytes(test_single_records.trace([test_single_records.tracelogging_record(struct.pack("<H", 2 + len(metadata)) + metadata, payload, 10 + n) for n, payload in enumerate(payloads)]))
    ask = lambda sql: json.loads(env.run([env.collector, "query", path, "--format", "json", sql]).stdout)["rows"]  # noqa: E731
    name = ask("SELECT name FROM events WHERE name LIKE '%Judged%'")[0]["name"]
    got = ask(f'SELECT "Numbers" AS numbers, "Texts" AS texts, "One" AS one, "After" AS after FROM "{name}" ORDER BY clock')
    checks.equal([(*(json.loads(row[column]) for column in ("numbers", "texts", "one")), row["after"]) for row in got], events, "lists and structs as columns")
    for column, at, of in (("Numbers", 0, "[1,2,3]"), ("Texts", 1, '["one","two"]')):
        got = ask(f'SELECT "After" AS after FROM "{name}" WHERE "{column}" = \'{of}\'')
        checks.equal([row["after"] for row in got], [event[3] for event in events if json.dumps(event[at], separators=(",", ":")) == of], f"{column} as a condition")


def test_order(collector, checks):
    """What an index gives in order is as SQLite sorts it (+column hides the column from the index)."""
    for column in ("begin", "segment"):
        for where in ("1", "begin <= (SELECT max(begin) FROM batches) - 1", "host = 'shutdown-win10'", "kind IN ('events', 'keyframe')"):
            for order in ("", " DESC"):
                got, sorted_here = (collector.ask_json("query", "--format", "json", f"SELECT {column} FROM batches WHERE {where}"
                                                       f" ORDER BY {by}{order} LIMIT 1000") for by in (column, f"+{column}"))
                checks.that(got["rows"], f"no batch where {where}")
                checks.equal(got["rows"], sorted_here["rows"], f"batches by {column}{order} where {where}")


def test_handed_down(collector, checks):
    """ORDER BY with LIMIT reads the events that can be in the answer; with an expression in its place SQLite sorts all rows, and the answer is the same."""
    for order, sorted_by in (("time DESC, batch, position", "+time DESC, batch, position"), ("cpu, name DESC, time, stream, batch, position", "+cpu, name DESC, time, stream, batch, position")):
        sql = "SELECT rowid, time, cpu, name, fields FROM events WHERE cpu <> 1 AND name NOT LIKE 'Image/%' ORDER BY {} LIMIT 40"
        for by, is_expected in ((order, True), (sorted_by, False)):
            plan = collector.ask("query", "EXPLAIN QUERY PLAN " + sql.format(by))
            checks.equal("first 40 of events by" in plan, is_expected, f"by {by}, handed down: {plan}")
        got, expected = (collector.ask_json("query", "--format", "json", sql.format(by))["rows"] for by in (order, sorted_by))
        checks.equal(len(got), 40, f"rows by {order}")
        checks.equal(got, expected, f"rows by {order}")


def test_analyze(collector, checks):
    """EXPLAIN ANALYZE: every batch is skipped for a reason or read, and what a statement keeps is what it counts."""
    def analyze(sql):
        rows = collector.ask_json("query", "--format", "json", f"EXPLAIN ANALYZE {sql}")["rows"]
        return {row["step"]: (row["batches"], row["events"]) for row in rows}
    ask = lambda sql: collector.ask_json("query", "--format", "json", sql)["rows"][0]  # noqa: E731
    all_batches = ask("SELECT count(*) AS n FROM batches WHERE events > 0")["n"]
    first = ask("SELECT min(time) AS t FROM events")["t"]
    total = ask("SELECT count(*) AS n FROM events")["n"]
    for sql, is_counted in (("SELECT count(*) FROM events", True), ("SELECT name, count(*) FROM events WHERE host = 'shutdown-win10' GROUP BY name", True),
                            ("SELECT count(*) FROM events WHERE pid = 4", False), (f"SELECT count(*) FROM events WHERE time <= '{first}'", False),
                            ("SELECT count(*) FROM \"Image/Load\"", True), ("SELECT count(*) FROM \"Image/Load\" WHERE pid <> 4", False)):
        steps = analyze(sql)
        skipped = sum(batches for step, (batches, _) in steps.items() if step.startswith("skipped"))
        checks.equal(skipped + steps["read, in scans: 1"][0], all_batches, f"batches, {sql}: {steps}")
        checks.equal(steps["decoded"][1] == 0, is_counted, f"counted alone, {sql}: {steps}")
        checks.equal(steps["kept"][1], sum(row["n"] for row in collector.ask_json("query", "--format", "json", sql.replace("count(*)", "count(*) AS n"))["rows"]), f"kept, {sql}")
    checks.equal(analyze("SELECT count(*) FROM events")["counted"], (None, total), "all events are counted")


def test(env, checks, arguments):
    env.make_certificates(agents=[*TRACES, "misfits", "cut"])
    collector = env.new_collector().start()
    for name in TRACES:
        env.replay(traces.paths(name, env.build), collector, agent=name, spool=env.folder / f"spool-{name}")
    asked = collections.Counter()
    for name in TRACES:
        dumped = env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *traces.paths(name, env.build)]).stdout.splitlines()
        d = Events(dumped)
        values = {key: getattr(d, key) for key in ("pid", "tid", "t1", "t2", "image", "provider", "opcode")}
        values.update(pids=", ".join(map(str, d.pids)), path=d.path, base=hex(d.base))
        for title, sql, naive, *ordered in QUERIES:
            expected = naive(d)
            if expected is None:  # this trace's events have no such field
                continue
            sql = sql.format(**values).replace("DCStart", d.dc).replace("dcstart", d.dc.lower())
            done = env.run([env.collector, "query", "--store", collector.store, "--format", "jsonl", "--host", name, sql], check=False)
            unknown = "No/Such" if title == "classes in a list" else sql.split("'")[-2] if title == "no class of that name" else None
            said = done.stderr if not unknown else done.stderr[len(f"etwcollector: nothing is stored of the class '{unknown}'"):].split("; did you mean")[0].strip()
            if not checks.equal((done.returncode, said, bool(done.stderr)), (0, "", bool(unknown)), f"{name}: {title}: {sql}: {done.stderr}"):
                continue
            got = [list(json.loads(line).values()) for line in done.stdout.splitlines()]
            checks.that(same(got, expected, bool(ordered)),
                        f"{name}: {title}: {sql}\n  got      {str(got)[:600]}\n  expected {str(expected)[:600]}")
            asked[title] += 1
    test_order(collector, checks)
    test_handed_down(collector, checks)
    test_analyze(collector, checks)
    test_decoded(env, collector, checks)
    test_cut_lists(env, collector, checks)
    test_lists(env, collector, checks)
    checks.that(sum(n == len(TRACES) for n in asked.values()) >= 50, f"{len(asked)} queries were asked, {dict(asked)}")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
