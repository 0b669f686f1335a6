"""Counters of .NET's EventSources (System.Runtime and others) as rows: the view `runtime_counters`. An EventSource writes, for each of its
counters, a self-describing event EventCounters with a struct: of a mean (CounterType Mean), or of an increment (Sum). The test encodes such
events of two processes, 64 and 32 bit, in both forms, and looks for each of them in the view's rows: process, time, provider, counter, value,
unit, kind. Records whose struct has other fields or types, no struct, or a payload that ends early make rows without these values.
The values of instruments (System.Diagnostics.Metrics) in each version of their events are rows, too; texts that are no number have no value.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 13: Counters of .NET's EventSources are rows that SQL reads: process, time, provider, counter, value, unit. | each value
#   of both forms, of 64 and 32 bit, in events that the test encodes | 2026-11-27
# - Answers and pages 15: Values of .NET's instruments (System.Diagnostics.Metrics) are rows of the same view. | each kind of instrument in each
#   version of its event, encoded by the test | 2026-11-27
import json
import math
import random
import struct
import uuid

import harness
import kernel_records as kernel
import test_single_records as single

RUNTIME, ASPNET = uuid.UUID("49592c0f-5a05-516d-aa4b-a64e02026c89"), uuid.UUID("12345678-1234-5678-9abc-def012345678")
UNICODE, I32, F32, F64, COUNTED, STRUCT = 1, 7, 11, 12, 22, 24  # TlgIn
TEXT, NUMBER, REAL, SHORT = (UNICODE, "text"), (I32, "<i"), (F64, "<d"), (F32, "<f")
# System.Diagnostics.Tracing: CounterPayload, IncrementingCounterPayload
MEAN = [("Name", TEXT), ("DisplayName", TEXT), ("Mean", REAL), ("StandardDeviation", REAL), ("Count", NUMBER), ("Min", REAL), ("Max", REAL),
        ("IntervalSec", SHORT), ("Series", TEXT), ("CounterType", TEXT), ("Metadata", TEXT), ("DisplayUnits", TEXT)]
SUM = [("Name", TEXT), ("DisplayName", TEXT), ("DisplayRateTimeScale", TEXT), ("Increment", REAL), ("IntervalSec", SHORT), ("Metadata", TEXT),
       ("Series", TEXT), ("CounterType", TEXT), ("DisplayUnits", TEXT)]
COUNTERS = [("cpu-usage", "CPU Usage", "%", MEAN), ("working-set", "Working Set", "MB", MEAN), ("alloc-rate", "Allocation Rate", "B", SUM),
            ("exception-count", "Exception Count", "", SUM), ("größe", "Länge der Warteschlange", "", MEAN)]
COLUMNS = "provider, pid, image, time, counter, display_name, value, unit, kind, interval_s, count, min, max, standard_deviation"


def value(form, given):
    if form in ("text", "counted"):
        data = given.encode("utf-16-le")
        return data + b"\0\0" if form == "text" else struct.pack("<H", len(data)) + data
    return struct.pack(form, given)


def record(provider, name, source, fields, values, pid, clock, pointer=8, event="EventCounters", payload=None):
    """fields: of the struct Payload; source: the provider's name."""
    if pointer == 4 and fields:  # as older runtimes write texts
        fields = [(field, (COUNTED, "counted") if form == "text" else (kind, form)) for field, (kind, form) in fields]
    text = b"\0" + event.encode() + b"\0" + (b"Payload\0" + bytes((STRUCT | 0x80, len(fields))) if fields is not None else b"") + \
        b"".join(field.encode() + b"\0" + bytes((kind,)) for field, (kind, _) in fields or [])
    out = b""
    for i, (kind, data) in enumerate(((11, struct.pack("<H", 2 + len(text)) + text), (12, struct.pack("<H", 3 + len(source)) + source.encode() + b"\0"))):
        padded = data + bytes(-len(data) % 8)
        out += struct.pack("<HHHH", 8 + len(padded), kind, i == 0, len(data)) + padded
    if payload is None:
        payload = b"".join(value(form, values[field]) for field, (_, form) in fields)
    body = struct.pack("<BBHHIIq", 19 if pointer == 8 else 18, 0xC0, (0x40 if pointer == 8 else 0x20) | 1, 0, pid + 1, pid, clock) + provider.bytes_le + \
        struct.pack("<HBBBBHQII", 0, 0, 11, 0, 0, 0, 0xF00000000000, 0, 0) + bytes(16) + out + payload
    return struct.pack("<H", 2 + len(body)) + body


def make(dice, rounds):
    records, want, clock = [], [], 1000
    programs = {100: ("shop.exe", 8), 200: ("old.exe", 4)}
    for pid, (program, _) in programs.items():
        records.append(kernel.process(pid, program, clock))
        clock += 10
    for n in range(rounds):
        for pid, (program, pointer) in programs.items():
            for provider, source in ((RUNTIME, "System.Runtime"), (ASPNET, "Shop.Requests")):
                name, display, unit, fields = dice.choice(COUNTERS)
                values = {"Name": name, "DisplayName": display, "DisplayUnits": unit, "IntervalSec": dice.choice((1.0, 0.5, 60.0)), "Series": "Interval=1000",
                          "Metadata": "", "DisplayRateTimeScale": "00:00:01", "CounterType": "Mean" if fields is MEAN else "Sum", "Count": dice.randrange(9),
                          **{k: dice.choice((0.0, -1.5, 1e300, dice.random(), float(dice.randrange(1 << 40)))) for k in ("Mean", "StandardDeviation", "Min", "Max", "Increment")}}
                records.append(record(provider, name, source, fields, values, pid, clock, pointer))
                mean = fields is MEAN
                want.append((source, pid, program, clock, name, display, values["Mean" if mean else "Increment"], unit or None, values["CounterType"],
                             values["IntervalSec"], *((float(values["Count"]), values["Min"], values["Max"], values["StandardDeviation"]) if mean else (None,) * 4)))
                clock += 10
    strange = [record(RUNTIME, "", "System.Runtime", [("Name", NUMBER), ("Mean", TEXT), ("CounterType", REAL)],
                      {"Name": 7, "Mean": "1.5", "CounterType": 2.5}, 100, clock),
               record(RUNTIME, "", "System.Runtime", None, {}, 100, clock + 10, payload=b""),
               record(RUNTIME, "", "System.Runtime", MEAN, {}, 100, clock + 20, payload="half".encode("utf-16-le") + b"\0\0" + b"d\0\0\0"),
               record(RUNTIME, "", "System.Runtime", [("Name", TEXT), ("Mean", REAL)], {"Name": "nan", "Mean": math.nan}, 100, clock + 30),
               record(RUNTIME, "", "System.Runtime", [("Name", TEXT)], {"Name": "other event"}, 100, clock + 40, event="Counters")]
    return records + strange, want, clock


# ---- instruments: dotnet/runtime MetricsEventSource.cs ----

METRICS = uuid.UUID("20752bc4-c151-50f5-f27b-df92d8af5a61")
EVENTS = {"Counter": (4, (0, 1, 2)), "Gauge": (5, (0, 2)), "Histogram": (6, (0, 1, 2)), "UpDownCounter": (16, (0, 1, 2))}


def instrument(kind, version, texts, more, clock, pid=100):
    """texts: session, meter, its version, instrument, unit, tags, then what the kind has; more: bytes after them."""
    body = struct.pack("<BBHHIIq", 19, 0xC0, 0x40, 0, pid + 1, pid, clock) + METRICS.bytes_le + \
        struct.pack("<HBBBBHQII", EVENTS[kind][0], version, 0, 4, 0, 65534 - EVENTS[kind][0], 0xF00000000002, 0, 0) + bytes(16) + \
        b"".join(text.encode("utf-16-le") + b"\0\0" for text in texts) + more
    return struct.pack("<H", 2 + len(body)) + body


def make_instruments(dice):
    """Each kind in each version, and texts that are no number."""
    records, want, clock = [kernel.process(100, "shop.exe", 1000)], [], 2000
    for kind, (_, versions) in EVENTS.items():
        for version in versions:
            for tags, unit in (("", ""), ("http.route=/größe,ok=true", "{request}")):
                head = ["SHARED", "Shop.Meter", "1.0", f"{kind.lower()}-{version}", unit, tags]
                change, whole, count = dice.choice((0.0, -1.5, 1e21, dice.random())), float(dice.randrange(1 << 40)), dice.randrange(1, 9)
                more = struct.pack("<i", 7) if version == 2 else b""
                row = [None, None, None, None]  # value, count, total, quantiles
                if kind in ("Counter", "UpDownCounter"):
                    head += [repr(change)] + ([repr(whole)] if version else [])
                    row = [change, None, whole if version else None, None]
                elif kind == "Gauge":
                    head += [repr(change)]
                    row[0] = change
                else:
                    head += ["0.5=1.25;0.95=7"]
                    if version:
                        more = struct.pack("<id", count, whole) + more
                        row = [whole / count, float(count), whole, None]
                    row[3] = "0.5=1.25;0.95=7"
                records.append(instrument(kind, version, head, more, clock))
                want.append(("Shop.Meter", 100, "shop.exe", head[3], unit or None, kind, tags or None, *row))
                clock += 10
    for text in ("", "NaN", "seven", "[1]"):
        records.append(instrument("Gauge", 0, ["SHARED", "Shop.Meter", "", "strange", "", "", text], b"", clock))
        want.append(("Shop.Meter", 100, "shop.exe", "strange", None, "Gauge", None, None, None, None, None))
        clock += 10
    records.append(instrument("Histogram", 1, ["SHARED", "Shop.Meter", "", "empty", "", "", ""], struct.pack("<id", 0, 0.0), clock))
    want.append(("Shop.Meter", 100, "shop.exe", "empty", None, "Histogram", None, None, 0.0, 0.0, None))
    return records, want


def check_instruments(env, checks):
    records, want = make_instruments(random.Random(11))
    path = env.folder / "instruments.etl"
    path.write_bytes(single.trace(records))
    collector = env.new_collector("metering").start()
    env.replay([path], collector, agent="metered")
    got = [tuple(row.values()) for row in rows(env, collector.store, "SELECT provider, pid, image, counter, unit, kind, tags, value, count, total, quantiles "
                                               "FROM runtime_counters WHERE host = 'metered' ORDER BY time")]
    checks.equal(len(got), len(want), "rows of instruments")
    for mine, theirs in zip(got, want):
        checks.equal(mine, theirs, "an instrument's row")
    collector.stop()
    print(f"{len(got)} rows of instruments agree")


def rows(env, store, sql):
    return [json.loads(line) for line in env.run([env.collector, "query", "--store", store, "--format", "jsonl", sql]).stdout.splitlines()]


def check_rows(env, checks, rounds=60):
    records, want, clock = make(random.Random(10), rounds)
    path = env.folder / "counters.etl"
    path.write_bytes(single.trace(records))
    collector = env.new_collector().start()
    env.replay([path], collector, agent="counted")
    times = {row["clock"]: row["time"] for row in rows(env, collector.store, "SELECT clock, time FROM events WHERE name LIKE '%Counters'")}
    got = [tuple(row.values()) for row in rows(env, collector.store, f"SELECT {COLUMNS} FROM runtime_counters ORDER BY time LIMIT {len(want)}")]
    checks.equal(len(times), len(want) + 5, "events")
    for mine, theirs in zip(got, want):
        theirs = (*theirs[:3], times[theirs[3]], *theirs[4:])
        checks.equal(mine, theirs, "a counter's row")
    checks.equal(len(got), len(want), "rows")
    strange = rows(env, collector.store, f"SELECT counter, value, unit, kind, count FROM runtime_counters WHERE time >= time_ns('{times[clock]}') ORDER BY time")
    checks.equal([(r["counter"], r["value"], r["unit"], r["kind"], r["count"]) for r in strange],
                 [("7", None, None, "2.5", None), (None,) * 5, (None,) * 5, ("nan", None, None, None, None)],
                 "rows of other payloads")
    sums = {(r["provider"], r["counter"], r["pid"]): (r["n"], r["total"]) for r in
            rows(env, collector.store, "SELECT provider, counter, pid, count(*) AS n, total(value) AS total FROM runtime_counters WHERE host = 'counted' GROUP BY 1, 2, 3")}
    for key in {(w[0], w[4], w[1]) for w in want}:
        values = [w[6] for w in want if (w[0], w[4], w[1]) == key]
        checks.that(key in sums and sums[key][0] == len(values) and math.isclose(sums[key][1], sum(values), rel_tol=1e-9), f"{key}: {sums.get(key)} of {len(values)}")
    named = rows(env, collector.store, "SELECT DISTINCT c.pid, p.image_name FROM runtime_counters c JOIN processes p USING (process_key) ORDER BY 1")
    checks.equal([(r["pid"], r["image_name"]) for r in named], [(100, "shop.exe"), (200, "old.exe")], "processes by their keys")
    checks.equal(rows(env, collector.store, "SELECT name FROM pragma_table_xinfo('runtime_counters') WHERE name = 'value'"), [{"name": "value"}], "its columns are listed")
    print(f"{len(got)} rows of counters agree, and {len(strange)} of other payloads")


def test(env, checks, arguments):
    env.make_certificates(("counted", "metered"))
    check_rows(env, checks, 2000 if arguments.soak else 60)
    check_instruments(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
