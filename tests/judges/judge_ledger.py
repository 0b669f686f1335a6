"""Judges of the ledgers: tables, routes, /metrics, and what `etwcollector ledger` and `doctor` print; out of the ledgers in the stored
batches (naive_store.Ledger)."""
import collections
import contextlib
import json
import re
import shutil
import sqlite3
import time

import harness
import judge_store
import naive_store
from naive_store import sides
from judge_store import utc
from naive_state import format_time

COUNTERS = naive_store.counters()
NAMES = {number: name for number, (name, *_) in COUNTERS.items()}
NUMBERS = {name: number for number, name in NAMES.items()}
FIRST_OF_COLLECTOR = list(NAMES.values()).index("ingest_requests")


def called(number):
    return NAMES.get(number, number)


def kind_of(number):
    return COUNTERS[number][2] if number in COUNTERS else None


def ledgers(world):
    return {key: naive_store.Ledger(found) for key, found in world.stored.items()}


def of_session(ledger):
    return {called(number): value for (family, number), value in ledger.values.items() if not family}


def judge_counts(world):
    """The tables ledger and ledger_last; a machine's ledger in the API."""
    changed, last, listed = [], [], collections.defaultdict(list)
    for (host, stream), ledger in ledgers(world).items():
        changed += [(host, stream, batch.number, utc(batch.envelope.ledger.utc_ns), batch.envelope.ledger.incarnation, family, called(number), kind_of(number), value, stored)
                    for batch, stored, family, number, value in ledger.changes]
        last += [(host, stream, family, called(number), kind_of(number), value, ledger.stored) for (family, number), value in ledger.values.items()]
        listed[host] += [(stream, called(number), kind_of(number), value, ledger.stored) for (family, number), value in ledger.values.items() if not family]
    got = world.sql("SELECT host, stream, batch, time, incarnation, family, counter, type, value, stored FROM ledger")
    world.same("table ledger", "all", [tuple(row.values()) for row in got], changed)
    got = world.sql("SELECT host, stream, family, counter, type, value, stored FROM ledger_last")
    world.same("table ledger_last", "all", [tuple(row.values()) for row in got], last)
    for table in ("ledger", "ledger_last", "gaps", "blindness", "alerts"):  # SQLite joins what the sides of an OR find by the rows' numbers
        (row,) = world.sql(f"SELECT count(*) AS count, count(DISTINCT rowid) AS numbers FROM {table}")
        world.same(f"table {table}", "numbers of rows", [row["numbers"]], [row["count"]])
    for host in world.hosts:
        got = [(row["stream"], row["counter"], row["type"], row["value"], row["stored"]) for row in world.get(f"hosts/{host}/ledger", limit=10000)]
        world.same("route /api/v1/hosts/{host}/ledger", host, got, listed[host])


def gap_rows(world, host):
    """{stream: rows (first, last, kind, cause, batches, events, at least, counted, records, begin, end)} of all that a machine lacks."""
    one, found = world.hosts[host], {}
    for stream, rows in judge_store.losses(world, host).items():
        found[stream] = [(hole.first, hole.last, "batches", hole.cause, hole.last - hole.first + 1, hole.events, hole.events, 0, 0, *one.around(hole)) for hole in one.holes]
        found[stream] += [(first, first, kind, cause, 0, None, least, counted, records, begin, end) for first, kind, cause, least, counted, records, begin, end in rows]
    return found


def last_gap_end(world, host):
    """When the last gap of a machine ended, be it of batches or of what Windows lost; None without one."""
    return max([row[10] for rows in gap_rows(world, host).values() for row in rows if row[10]], default=None)


GAP = ["first", "last", "kind", "cause", "batches", "events", "at_least", "counted", "records", "begin", "end"]


def judge_troubles(world):
    """Alerts and gaps: the tables, the routes, machines with gaps."""
    want = [(host, stream, batch, "", kind, left, right) for (host, stream), ledger in ledgers(world).items() for batch, kind, left, right in ledger.wrongs()]
    got = world.sql("SELECT host, stream, batch, family, kind, \"left\", \"right\", text, time FROM alerts WHERE kind <> 'keyframe'")
    world.same("table alerts", "all", [tuple(row.values())[:7] for row in got], want)
    texts = [all(str(side) in row["text"] for side in (row["left"], row["right"])) for row in got]
    world.same("table alerts", "texts", texts, [True] * len(want))
    for host in [None, *world.hosts]:
        items = world.get("alerts", **({"host": host} if host else {}))
        world.same("route /api/v1/alerts", host or "all", [(row["host"], row["stream"], row["family"], row["kind"], row["left"], row["right"]) for row in items],
                   [(*row[:2], *row[3:]) for row in want if host in (None, row[0])])
    totals = {host: judge_store.troubles(world, host) for host in world.hosts}
    got = world.sql("SELECT host, alerts, gap_periods, missing_batches, lost_events, last_gap_end, blind_periods FROM host_totals")
    names = ("alerts", "gap_periods", "missing_batches", "lost_events")
    world.same("table host_totals", "all", [tuple(row.values()) for row in got],
               [(host, *(found[name] for name in names), last_gap_end(world, host), found["gap_periods"]) for host, found in totals.items()])
    gaps = [(host, stream, *row) for host in world.hosts for stream, rows in gap_rows(world, host).items() for row in rows]
    names = ("host", "stream", *GAP)
    for name in ("gaps", "blindness"):
        got = world.sql("SELECT " + ", ".join(f'"{column}"' for column in names) + f" FROM {name}")
        world.same(f"table {name}", "all", [tuple(row.values()) for row in got], gaps)
        world.same(f"route /api/v1/{name}", "all", [tuple(row[column] for column in names) for row in world.get(name, limit=10000)], gaps)
        for host in world.hosts:
            items = world.get(f"hosts/{host}/{name}", limit=10000)
            world.same(f"route /api/v1/hosts/{{host}}/{name}", host, [tuple(row[column] for column in names[1:]) for row in items], [row[1:] for row in gaps if row[0] == host])


SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')


def scraped(world):
    """{name: {labels as text: number}} of /metrics."""
    found = collections.defaultdict(dict)
    for line in world.web.ask("/metrics")[2].splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            found[name][labels or ""] = float(value)
    return found


def labels(host, stream, **more):
    return ",".join(f'{name}="{value}"' for name, value in {"host": host, "stream": stream, **more}.items())


def judge_metrics(world):
    """Every family of /metrics: the agents' counts, what of these is stored, and those of the collector's own metrics that follow from the store."""
    got, books = scraped(world), ledgers(world)
    keys = {key: labels(*key) for key in books}
    for number, (name, _, kind, _) in COUNTERS.items():
        if list(NAMES).index(number) < FIRST_OF_COLLECTOR:
            want = {keys[key]: float(book.values.get(("", number), 0)) for key, book in books.items()}
            world.same(f"metric etwagent_{name}", "all", got[f"etwagent_{name}" + "_total" * (kind == "counter")], want)
    agents = [f"etwagent_{name}" + "_total" * (kind == "counter") for number, (name, _, kind, _) in COUNTERS.items() if list(NAMES).index(number) < FIRST_OF_COLLECTOR]
    world.same("route /metrics", "all", [name for name in got if name.startswith("etwagent_") and "_family_" not in name], agents)
    sums = {"delivered": ["events_delivered"], "batched": ["events_batched", "events_synthesised"], "acknowledged": ["events_acknowledged"],
            "lost": [name for name, severity, *_ in COUNTERS.values() if severity == "loss"]}
    for word, names in sums.items():
        want = {}
        for key, book in books.items():
            for family in sorted({family for family, _ in book.values if family}):
                want[labels(*key, family=family)] = float(sum(book.values.get((family, NUMBERS[name]), 0) for name in names))
        world.same(f"metric etwagent_family_{word}_events_total", "all", got[f"etwagent_family_{word}_events_total"], want)
    want = {}
    for key, book in books.items():
        values = of_session(book)
        for name, left, right in [*sides(values), ("stored", 0, max(0, values.get("events_acknowledged", 0) - book.stored))]:
            want[labels(*key, equation=name)] = float(left == right)
    world.same("metric etwcollector_ledger_balanced", "all", got["etwcollector_ledger_balanced"], want)
    world.same("metric etwcollector_stored_events_total", "all", got["etwcollector_stored_events_total"], {keys[key]: float(book.stored) for key, book in books.items()})
    # every event of every stored stream has come but those of the batches that were left out, and a stream that ended in order keeps none back
    lacking = {(host, stream): sum(row[5] for row in rows if row[3] == "missing") for host in world.hosts for stream, rows in gap_rows(world, host).items()
               if not books[host, stream].values.get(("", NUMBERS["stream_ended"]))}
    world.same("metric etwcollector_waiting_events", "all", got["etwcollector_waiting_events"], {keys[key]: float(lacking.get(key, 0)) for key in books})
    world.same("metric etwcollector_ledger_alerts", "all", got["etwcollector_ledger_alerts"], {keys[key]: float(len(book.wrongs())) for key, book in books.items()})
    totals = {host: judge_store.troubles(world, host) for host in world.hosts}
    for word in ("alerts", "gap_periods", "missing_batches", "lost_events"):
        world.same(f"metric etwcollector_host_{word}", "all", got[f"etwcollector_host_{word}"], {f'host="{host}"': float(found[word]) for host, found in totals.items()})
    stored = collections.Counter()
    for (host, _), book in books.items():
        stored[host] += book.stored
    world.same("metric etwcollector_host_stored_events", "all", got["etwcollector_host_stored_events"], {f'host="{host}"': float(events) for host, events in stored.items()})
    want = {"etwcollector_gap_periods": {}, "etwcollector_gap_events": {}}
    for host, stream in books:
        rows = [(row[2], row[6]) for row in gap_rows(world, host)[stream]]
        for kind in ("batches", "recorded", "counted"):
            sample = keys[host, stream] + f',kind="{kind}"'
            want["etwcollector_gap_periods"][sample] = float(sum(row[0] == kind for row in rows))
            want["etwcollector_gap_events"][sample] = float(sum(row[1] for row in rows if row[0] == kind))
    for name, samples in want.items():
        world.same(f"metric {name}", "all", got[name], samples)
        old = name.replace("_gap_", "_blind_")
        world.same(f"metric {old}", "all", got[old], samples)
    world.same("metric etwcollector_ledger_unbalanced_families", "all", got["etwcollector_ledger_unbalanced_families"], dict.fromkeys(keys.values(), 0.0))
    batches = [batch for found in world.stored.values() for batch in found]
    last = {host: max(batch.received for (name, _), found in world.stored.items() if name == host for batch in found) for host in world.hosts}
    segments = list((world.collector.store / "segments").glob("*.seg"))
    states = {key: world.hosts[key[0]].state.instances for key in books}
    # a keyframe is in batches that follow each other
    keyframes = sum(batch.kind == "keyframe" and (not at or found[at - 1].kind != "keyframe") for found in world.stored.values() for at, batch in enumerate(found))
    single = {"etwcollector_state_keyframes_total": keyframes, "etwcollector_ingest_batches_total": len(batches), "etwcollector_store_events_total": sum(batch.events for batch in batches),
              "etwcollector_store_bytes_total": sum(batch.bytes for batch in batches), "etwcollector_hosts": len(world.hosts), "etwcollector_hosts_left_out": 0,
              "etwcollector_ledger_streams_left_out": 0, "etwcollector_store_segments": len(segments),
              "etwcollector_store_segment_size_bytes": sum(path.stat().st_size for path in segments)}
    for name, value in single.items():
        world.same(f"metric {name}", "all", got[name], {"": float(value)})
    for name in NAMES.values():
        if list(NAMES.values()).index(name) >= FIRST_OF_COLLECTOR and name in ZERO:
            world.same(f"metric etwcollector_{name}_total", "all", got[f"etwcollector_{name}_total"], {"": 0.0})
    world.same("metric etwcollector_state_instances_total", "all", got["etwcollector_state_instances_total"], {keys[key]: float(len(found)) for key, found in states.items()})
    world.same("metric etwcollector_open_processes", "all", got["etwcollector_open_processes"],
               {keys[key]: float(sum(i.kind == "process" and i.ended_by is None for i in found)) for key, found in states.items()})
    world.same("metric etwcollector_host_last_received_timestamp_seconds", "all", got["etwcollector_host_last_received_timestamp_seconds"],
               {f'host="{host}"': float(f"{moment / 1e9:.3f}") for host, moment in last.items()})


# counters of the collector that nothing of what happens to the shared stores moves
ZERO = ["ingest_refused", "ingest_duplicates", "ingest_conflicts", "ingest_bad_batches", "ingest_bad_checksums", "store_torn_bytes", "store_damaged_bytes",
        "ingest_identities_twice", "store_expired_segments", "store_expired_events", "store_expired_bytes", "store_erased_bytes", "state_evicted",
        "state_keyframes_partial", "state_failures", "state_texts_left_out"]


def judge_printed(world):
    """What `etwcollector ledger --json --series` says of each run, and the exit code."""
    books = ledgers(world)
    off = any(left != right for book in books.values() for _, left, right in sides(of_session(book))) or \
        any(book.stored < of_session(book).get("events_acknowledged", 0) for book in books.values())
    reported = json.loads(world.command("ledger", "--json", "--series", code=3 if off else 0))
    streams = {(row["host"], row["stream"]): row for row in reported["streams"]}
    for key, book in books.items():
        row, found, host = streams[key], world.stored[key], key[0]
        want = [(called(number), number, family, value, COUNTERS[number][1], COUNTERS[number][3]) for (family, number), value in book.values.items()]
        world.same("ledger counters", host, [tuple(c[name] for name in ("name", "number", "family", "value", "severity", "text")) for c in row["counters"]], want)
        world.same("ledger counters", host, [(row["stored_batches"], row["stored_events"], row["missing_batches"], row["damaged_batches"], row["batch"], row["time"])],
                   [(len(found), book.stored, judge_store.missing_of(found), 0, book.reported[-1].number, utc(book.reported[-1].envelope.ledger.utc_ns))])
        values = of_session(book)
        for name, left, right in [*sides(values), ("stored", book.stored, values.get("events_acknowledged", 0))]:
            holds = left == right if name != "stored" else left >= right
            world.same(f"ledger equation {name}", host, [(e["left"], e["right"], e["holds"]) for e in row["equations"] if e["name"] == name], [(left, right, holds)])
        world.same("ledger alerts", host, [(a["batch"], a["kind"], a["left"], a["right"]) for a in row["alerts"]], book.wrongs())
        points = collections.defaultdict(dict)
        for batch, _, family, number, value in book.changes:
            points[batch.number][f"{family}:{called(number)}" if family else called(number)] = value
        stored, want, last = 0, [], ""
        for batch, records in judge_store.records_of(world.hosts[host], found):
            begin, end = judge_store.ends(records) if records else (last, last)
            last = max(end, last)
            if batch in book.reported:
                want.append((batch.number, str(batch.envelope.ledger.incarnation), utc(batch.envelope.ledger.utc_ns), begin, end, stored,
                             sorted(points[batch.number].items())))
            stored += batch.events
        world.same("ledger series", host, [(p["batch"], p["incarnation"], p["time"], p["from"], p["to"], p["stored"], sorted(p["changes"].items())) for p in row["series"]], want)
        world.same("ledger unbalanced_families", host, [row["unbalanced_families"]], [[]])
        rows = judge_store.losses(world, host)[key[1]]
        names = [{"begin": "from", "end": "to"}.get(name, name) for name in GAP]
        for part in ("gaps", "blindness"):
            world.same(f"ledger {part}", host, [tuple(None if b[name] == "unknown" else b[name] for name in names) for b in row[part]], gap_rows(world, host)[key[1]])
        world.same("ledger losses", host, [tuple(b[name] for name in ("batch", "name", "count", "records", "from", "to")) for b in row["losses"]],
                   [(first, cause, counted, *times) for first, kind, cause, _, counted, *times in rows if kind == "counted"])
    world.same("ledger equations", "all", sorted(streams), sorted(books))
    want = []
    for book in books.values():
        for family in {family for family, _ in book.values if family}:
            of = {number: value for (name, number), value in book.values.items() if name == family}
            values = {called(number): value for number, value in of.items()}
            want.append((family, values.get("events_delivered", 0), values.get("events_batched", 0) + values.get("events_synthesised", 0), values.get("events_acknowledged", 0),
                         sum(value for number, value in of.items() if COUNTERS[number][1] == "loss")))
    text = world.command("ledger", code=3 if off else 0)
    severity = {name: (kind, sentence) for name, kind, _, sentence in COUNTERS.values()}
    want_lost = [f"  lost: {counted} {severity[cause][1]}{' (events: unknown)' * (severity[cause][0] == 'unknown')}" for host, stream in books
                 for _, kind, cause, _, counted, *_ in judge_store.losses(world, host)[stream] if kind == "counted"]
    lost = [line for line in text.splitlines() if any(line.startswith(f"  lost: {n}") for n in range(10))]
    world.same("ledger losses", "all, as text", [wanted for wanted in want_lost if not any(line.startswith((f"{wanted}, ", f"{wanted} (at the least")) for line in lost)], [])
    got = re.findall(r"^  family (.+): (\d+) delivered, (\d+) in batches, (\d+) acknowledged, (\d+) lost$", text, re.M)
    world.same("ledger counters", "all, families as text", [(name, *map(int, numbers)) for name, *numbers in got], want)


def judge_doctor(world):
    """What `etwcollector doctor` finds: machines, ledgers, batches that can be read."""
    done = world.env.run([world.env.collector, "doctor", "--store", world.collector.store, "--json", "--verify", "--least-free", "1KiB"], check=False)
    found = collections.defaultdict(list)
    for row in json.loads(done.stdout)["checks"]:
        found[row["check"]].append((row["verdict"], row["text"]))
    batches, wrong = sum(map(len, world.stored.values())), collections.Counter()
    for (host, _), book in ledgers(world).items():
        wrong[host] += len(book.wrongs())
    world.same("doctor verify", "all", found["verify"], [("ok", f"all {batches} batches can be read")])
    last = {}  # a replay is a run of its own: of an agent that has several, any that did not end is the newest for all that is known here
    for (host, _), book in ledgers(world).items():
        last.setdefault(host, []).append(of_session(book).get("stream_ended", 0))
    ended = sum(all(marks) for marks in last.values())
    world.same("doctor hosts", "all", found["hosts"],
               [("ok", f"{len(world.hosts)} agents, {ended} of them ended, 0 silent, 0 gone for more than a week")])
    world.same("doctor clock", "all", found["clock"], [("ok", "this machine's clock agrees with what was stored")])
    world.same("doctor collector", "all", found["collector"], [("ok", "one runs with this store")])
    segments = list((world.collector.store / "segments").glob("*.seg"))
    size = sum(path.stat().st_size for path in segments) / 2**20
    world.same("doctor store", "all", [(verdict, text.split(", index")[0]) for verdict, text in found["store"]], [("ok", f"{len(segments)} segments of {size:.1f} MiB")])
    got = [(verdict, text.split(": ")[0]) if verdict != "ok" else (verdict, text) for verdict, text in found["ledger"]]
    world.same("doctor ledger", "all", got, [("wrong", host) for host in sorted(+wrong)] or [("ok", f"the ledgers of {len(world.stored)} streams balance")])
    want = []
    for host in sorted(world.hosts):
        rows = [dict(zip(GAP, row)) for rows in gap_rows(world, host).values() for row in rows]
        if rows:  # of traces that are older than a day; what is missing after a stream's last event ends when the stream does
            closed = {stream: max((utc(batch.envelope.ledger.utc_ns) for batch, _, family, number, value in book.changes if not family and called(number) == "stream_ended" and value),
                                  default=None) for (of, stream), book in ledgers(world).items() if of == host}
            ends = [row["end"] or closed[stream] for stream, found_ in gap_rows(world, host).items() for row in (dict(zip(GAP, row)) for row in found_)]
            with_stream = max((closed[stream] for stream, found_ in gap_rows(world, host).items() for row in found_ if not row[10] and closed[stream]), default="")
            lasts = None in ends
            fresh = lasts or max(ends) > utc(time.time_ns() - 86400 * 10**9)
            want.append(("warning" if fresh else "info", f"{host}: {sum(row['batches'] for row in rows)} batches are missing, with {sum(row['events'] or 0 for row in rows)} events and 0"
                         f" times an unknown number; at least {sum(row['at_least'] for row in rows if not row['batches'])} further events were lost, and"
                         f" {sum(row['counted'] > 0 and not row['at_least'] for row in rows)} times an unknown number; the first began at {min(row['begin'] for row in rows)}, "
                         + ("the last lasts" if lasts else f"the last ended {'with its stream ' * (max(ends) == with_stream)}at {max(ends)}") + ": see etwcollector ledger"))
    world.same("doctor gaps", "all", found["gaps"], want or [("ok", "no batch is missing, and no agent admits a loss")])
    world.same("doctor blindness", "all", found["blindness"], found["gaps"])
    if has_open_gaps(world):
        world.same("doctor gaps", "two days later", gaps_of_yesterday(world), ["info"] * len(want))


def has_open_gaps(world):
    return any(row[10] is None for host in world.hosts for rows in gap_rows(world, host).values() for row in rows)


def gaps_of_yesterday(world):
    """What doctor calls the gaps of a copy of the store whose streams ended two days earlier: no present trouble."""
    copy = world.env.folder / f"{world.collector.store.name}-earlier"
    world.copy(copy)
    try:
        with contextlib.closing(sqlite3.connect(copy / "state.db")) as db, db:
            db.execute("UPDATE ledger_batches SET utc_ns = utc_ns - 2 * 86400 * 1000000000")
        done = world.env.run([world.env.collector, "doctor", "--store", copy, "--json", "--least-free", "1KiB"], check=False)
        return [row["verdict"] for row in json.loads(done.stdout)["checks"] if row["check"] == "gaps"]
    finally:
        shutil.rmtree(copy)


def judge_gaps(world):
    """The named query about machines with gaps."""
    names = ("gap_periods", "missing_batches", "lost_events")
    want = [(host, *(found[name] for name in names), last_gap_end(world, host)) for host, found in ((host, judge_store.troubles(world, host)) for host in world.hosts)
            if any(found[name] for name in names)]
    got = [(row["host"], row["periods"], row["batches"], row["lost_events"], row["last"]) for row in world.get("queries/hosts-with-gaps")]
    world.same("query hosts-with-gaps", "all", got, sorted(want, key=lambda row: (-row[2], -row[3], row[0])), ordered=True)


def judge_incidents(world):
    """What the running collector saw: each equation of a stream that once did not hold. While it does not, an incident lasts, with the last numbers; else it
    has ended, with those of the last alert. It begins with an alert."""
    want = []
    for (host, stream), book in ledgers(world).items():
        last = {"stored": (book.stored, of_session(book).get("events_acknowledged", 0)), **{name: (left, right) for name, left, right in sides(of_session(book))}}
        for kind in {kind for _, kind, *_ in book.wrongs()}:
            times, found = [], None
            for number, name, left, right in book.wrongs():
                if name == kind:
                    batch, = (b for b in book.reported if b.number == number)
                    times, found = [*times, utc(batch.envelope.ledger.utc_ns)], (left, right)
            lasts = last[kind][0] < last[kind][1] if kind == "stored" else last[kind][0] != last[kind][1]
            want.append((host, stream, kind, "", lasts, *(last[kind] if lasts else found), True, times))
    if want:
        harness.wait_until(lambda: len([row for row in world.sql("SELECT kind FROM incidents") if row["kind"] != "silent"]) >= len(want), "the incidents about ledgers that do not balance", 60)
    rows = [row for row in world.sql("SELECT * FROM incidents") if row["kind"] != "silent"]
    alerts = {row[:3]: row[-1] for row in want}
    world.same("table incidents", "all", [(row["host"], row["stream"], row["kind"], row["family"], row["end"] is None, row["left"], row["right"],
                                           row["begin"] in alerts.get((row["host"], row["stream"], row["kind"]), ())) for row in rows], [row[:-1] for row in want])
    world.same("table incidents", "texts", [all(str(row[side]) in row["text"] for side in ("left", "right")) for row in rows if row["end"]],
               [True] * sum(not row[4] for row in want))
    names = ["host", "stream", "kind", "family", "begin", "end", "left", "right", "text"]
    world.same("route /api/v1/incidents", "all", [tuple(row[name] for name in names) for row in world.get("incidents") if row["kind"] != "silent"],
               [tuple(row[name] for name in names) for row in rows])
