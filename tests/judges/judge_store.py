"""Judges of answers about what is stored: machines, runs, batches, classes; out of the segment files and the records' order."""
import collections
import functools
import hashlib
import json
import time

import format_notation
import naive_store
from naive_state import format_time, parse_time
from world import TAKEN


def utc(ns):
    """ns since 1970 as the product shows a time."""
    return None if ns is None else format_time(ns // 100)


RUN_DIGITS = 24  # streams whose ids begin with the same 12 bytes are of one run: FORMAT.md
RESERVED = [name for name in TAKEN if name.startswith(("pragma_", "(grouped "))]  # tables of SQLite, and of groups: no class has their names
STREAM_ENDED, = (number for number, (name, *_) in naive_store.COUNTERS.items() if name == "stream_ended")


def records_of(host, found):
    """Each batch of events of a run with its records: they are in the order in which the agent had them."""
    at, pairs = 0, []
    for batch in found:
        pairs.append((batch, host.records[at:at + batch.records]))
        at += batch.records
    return pairs


def ends(records):
    """The times of the first and last event as texts; None of none."""
    units = [record["units"] for record in records]
    return (format_time(min(units)), format_time(max(units))) if units else (None, None)


def said(batch, source):
    """The times of the first and last event by the batch's own envelope: ticks since the clock pair of its source."""
    pair, low = source.clock_pairs[-1], batch.envelope.time_min
    return tuple(format_time((pair.utc_ns + ticks * 10**9 // source.frequency) // 100) for ticks in (low, low + batch.envelope.time_span))


def source_of(found):
    """The newest Source message that a run's batches carry."""
    reported = [source for batch in found for source in batch.envelope.sources]
    return format_notation.parse(reported[-1], "Source")


def labels_of(source):
    return json.dumps({label.name: label.value for label in source.labels}) if source.labels else None


def named(found):
    """The numbers of a run that its batches have, or that a tombstone among them names."""
    graves = [grave for batch in found for grave in batch.envelope.tombstones]
    return {batch.number for batch in found} | {number for grave in graves for number in range(grave.first, grave.last + 1)}


def missing_of(found):
    """How many batches of a run have not come and are named by no tombstone."""
    return max(named(found)) - len(named(found))


@functools.cache
def runs(world):
    """A row of each run, as the table streams has it."""
    rows = []
    for (name, stream), found in world.stored.items():
        source, (begin, end) = source_of(found), ends(world.hosts[name].records)
        numbers = named(found)
        rows.append({"host": name, "stream": stream, "machine": source.host or None, "agent_version": source.agent_version or None, "labels": labels_of(source),
                     "batches": len(found), "highest": max(numbers), "missing": missing_of(found), "events": sum(batch.events for batch in found),
                     "bytes": sum(batch.bytes for batch in found), "begin": begin, "end": end,
                     "received_first": utc(min(batch.received for batch in found)), "received_last": utc(max(batch.received for batch in found))})
    return rows


def machines(world):
    rows = []
    for name in world.hosts:
        mine = [row for row in runs(world) if row["host"] == name]
        last = max(mine, key=lambda row: row["received_last"])
        total = {key: sum(row[key] for row in mine) for key in ("batches", "events", "bytes")}
        rows.append({"host": name, "machine": last["machine"], "agent_version": last["agent_version"], "labels": last["labels"], "streams": len(mine), **total,
                     "begin": min(row["begin"] for row in mine), "end": max(row["end"] for row in mine),
                     "received_first": min(row["received_first"] for row in mine), "received_last": max(row["received_last"] for row in mine), "ended": ended(world, name)})
    return rows


def ended(world, name):
    """The time at which the newest run of an agent ended in order: each of its streams ends with a batch without events whose ledger has
    stream_ended."""
    found = {stream: batches for (agent, stream), batches in world.stored.items() if agent == name}
    newest = max(found, key=lambda stream: max(batch.received for batch in found[stream]))
    last = [max(batches, key=lambda batch: batch.number) for stream, batches in found.items() if stream[:RUN_DIGITS] == newest[:RUN_DIGITS]]
    marked = [dict(zip(batch.envelope.ledger.counters, batch.envelope.ledger.values)).get(STREAM_ENDED) for batch in last]
    return utc(max(batch.envelope.ledger.utc_ns for batch in last)) if all(marked) else None


def flat(rows):
    return [tuple(sorted(row.items())) for row in rows]


def judge_machines(world):
    """hosts, streams, batches in SQL; Fleet and machines in the API."""
    world.same("table hosts", "all", flat(world.sql("SELECT * FROM hosts")), flat(machines(world)))
    world.same("table streams", "all", flat(world.sql("SELECT * FROM streams")), flat(runs(world)))
    want = []
    for (name, stream), found in world.stored.items():
        for batch, records in records_of(world.hosts[name], found):
            begin, end = ends(records) if batch.kind != "keyframe" else said(batch, source_of(found))
            want.append({"host": name, "stream": stream, "batch": batch.number, "kind": batch.kind, "events": batch.events, "bytes": batch.bytes,
                         "begin": begin, "end": end, "received": utc(batch.received), "segment": batch.segment, "offset": batch.offset})
    world.same("table batches", "all", flat(world.sql("SELECT * FROM batches")), flat(want))
    listed = [{**row, **troubles(world, row["host"])} for row in machines(world)]
    world.same("route /api/v1/hosts", "all", flat(without(world.get("hosts"), "incidents")), flat(sorted(listed, key=lambda row: row["host"])), ordered=True)
    by_events = sorted(listed, key=lambda row: (-row["events"], row["host"]))
    world.same("route /api/v1/hosts", "sorted", [row["host"] for row in world.get("hosts", sort="events", descending=1, limit=3)], [row["host"] for row in by_events], ordered=True)
    for row in listed:
        world.same("route /api/v1/hosts/{host}", row["host"], flat(without([world.get(f"hosts/{row['host']}")], "incidents")), flat([row]))
        mine = [run for run in runs(world) if run["host"] == row["host"]]
        world.same("route /api/v1/hosts/{host}/streams", row["host"], flat(world.get(f"hosts/{row['host']}/streams")), flat(mine))
    fleet = {"hosts": len(listed), "events": sum(row["events"] for row in listed), "bytes": sum(row["bytes"] for row in listed),
             **{key: sum(row[key] for row in listed) for key in ("alerts", "missing_batches", "lost_events")}}
    least, got, named, most = silent(world), world.get("fleet"), {row["host"] for row in world.get("queries/silent-machines")}, silent(world)
    world.checks.that(len(least) <= got.pop("silent") <= len(most), f"silent machines of the fleet: between {least} and {most}")
    world.checks.that(least <= named <= most, f"silent machines by name: {named}, between {least} and {most}")
    world.same("route /api/v1/fleet", "all", flat(without([got], "incidents")), flat([fleet]))
    labelled = collections.defaultdict(list)
    for row in listed:
        for label, value in json.loads(row["labels"] or "{}").items():
            labelled[label].append(value)
    world.same("route /api/v1/fleet/labels", "all", [(row["label"], row["hosts"], row["values"]) for row in world.get("fleet/labels")],
               [(label, len(values), len(set(values))) for label, values in labelled.items()])
    groups = collections.Counter(json.loads(row["labels"] or "{}").get("site", "") for row in listed)
    world.same("route /api/v1/fleet/groups", "site", {(row["group"], row["hosts"]) for row in world.get("fleet/groups", by="labels.site")}, set(groups.items()))
    groups = collections.Counter(row["agent_version"] or "" for row in listed)
    got = {(row["group"], row["hosts"], row["events"]) for row in world.get("fleet/groups", by="agent_version")}
    world.same("route /api/v1/fleet/groups", "all", got, {(group, n, sum(row["events"] for row in listed if (row["agent_version"] or "") == group)) for group, n in groups.items()})


def silent(world):
    """The machines that sent nothing for a minute, now, although their last run did not end in order."""
    last = collections.defaultdict(int)
    for (name, _), found in world.stored.items():
        last[name] = max(last[name], *(batch.received for batch in found))
    return {name for name, moment in last.items() if moment // 10**9 < int(time.time()) - 60 and ended(world, name) is None}


def loads(world):
    """Of each batch with events: (host, begin in ns, events, bytes)."""
    found = []
    for (name, _), batches in world.stored.items():
        for batch, records in records_of(world.hosts[name], batches):
            begin, _ = ends(records) if batch.kind != "keyframe" else said(batch, source_of(batches))
            if begin:
                found.append((name, parse_time(begin) * 100, batch.events, batch.bytes))
    return found


def judge_load(world):
    """What came over time, by groups of machines, of which the top ones have rows of their own."""
    rows, batches = {row["host"]: row for row in machines(world)}, loads(world)
    groups = {"": lambda host: "", "host": lambda host: host, "agent_version": lambda host: rows[host]["agent_version"] or "",
              "labels.site": lambda host: json.loads(rows[host]["labels"] or "{}").get("site", "")}
    times = sorted(begin for _, begin, _, _ in batches)
    low, high = times[len(times) // 4], times[len(times) * 3 // 4]
    for by, top, every, host in (("", 10, 10**8, None), ("host", 2, 10**8, None), ("host", 0, 3600 * 10**9, None), ("host", 10, 10**9, min(rows)), ("agent_version", 1, 10**9, None),
                                 ("labels.site", 10, 10**7, None)):
        for limits in ({}, {"from_": low, "to": high}):
            sums = collections.defaultdict(collections.Counter)
            for name, begin, events, size in batches:
                if (not limits or low <= begin <= high) and host in (None, name):
                    sums[begin // every * every, groups[by](name)].update(batches=1, events=events, bytes=size)
            totals = collections.Counter()
            for (_, group), row in sums.items():
                totals[group] += row["events"]
            shown, want = sorted(totals, key=lambda group: (-totals[group], group))[:top], collections.defaultdict(collections.Counter)
            for (bucket, group), row in sums.items():
                want[bucket, group if group in shown else None].update(row)
            got = world.get("load", by=by, top=top, every=f"{every // 10**6}ms", host=host, limit=10000, **limits)
            world.same("route /api/v1/load", f"by {by}, {top}", [(parse_time(row["bucket"]) * 100, row["group"], row["batches"], row["events"], row["bytes"]) for row in got],
                       [(*key, row["batches"], row["events"], row["bytes"]) for key, row in want.items()])


LOST_PROVIDER, LOST_NAMES = "6a399ae0-4bc6-4de9-870b-3657f8947e7e", {32: "RTLostEvent", 33: "RTLostBuffer", 34: "RTLostFile"}
COUNTED = {"source_events_lost": "RTLostEvent", "source_buffers_lost": "RTLostBuffer"}
LOOK_BACK = 8  # batches before that of a record, in which the last event of its CPU is looked for: SQL.md, "Missing data"


def header_losses(paths):
    """The counts in the headers of a trace's files: the first record is a TRACE_LOGFILE_HEADER, after the buffer's header and the record's header."""
    lost = collections.Counter()
    for path in paths:
        with open(path, "rb") as f:
            fields = f.read(72 + 32 + 280)[72 + 32:]
        wide = int.from_bytes(fields[44:48], "little") == 8
        at = 276 if wide else 268
        lost["source_events_lost"] += int.from_bytes(fields[48:52], "little")
        lost["source_buffers_lost"] += int.from_bytes(fields[at:at + 4], "little")
    return lost


@functools.cache
def losses(world, name):
    """{stream: rows (batch, kind, cause, at least, counted, records, begin, end)} of what Windows says it lost: by its records in the stored batches,
    from the last event of the record's CPU on, and by the headers of the files. None: unknown."""
    host, found = world.hosts[name], {}
    for stream, batches in host.streams.items():
        rows, placed = [], [(batch.number, record) for batch, records in records_of(host, batches) for record in records]
        for at, (number, record) in enumerate(placed):
            cause = LOST_NAMES.get(record["opcode"]) if record["provider"].strip("{}").lower() == LOST_PROVIDER else None
            if cause:
                near = [before for n, before in placed[:at] if n >= number - LOOK_BACK]
                of_cpu = [before["units"] for before in near if before["cpu"] == record["cpu"]]
                begin = min(max(of_cpu) if of_cpu else min(before["units"] for before in near), record["units"])
                rows.append((number, "recorded", cause, 0, 0, 1, begin, record["units"]))
        every = [record["units"] for _, record in placed]
        for counter, count in (host.counts or header_losses(host.paths)).items():
            if not count:
                continue
            times = [row[6:] for row in rows if row[2] == COUNTED[counter]]
            begin, end = (min(begin for begin, _ in times), max(end for _, end in times)) if times else (min(every), max(every))
            end = None if host.is_cut else end
            rows.append((batches[0].number, "counted", counter, count if counter == "source_events_lost" else 0, count, len(times), begin, end))
        found[stream] = [(*row[:6], *(None if time is None else format_time(time) for time in row[6:])) for row in rows]
    return found


def troubles(world, name):
    """Alerts, gaps and losses of a machine."""
    mine = {key: found for key, found in world.stored.items() if key[0] == name}
    gaps = [hole.last - hole.first + 1 for hole in world.hosts[name].holes]
    alerts = sum(len(naive_store.Ledger(found).wrongs()) for found in mine.values())
    lost = [row for rows in losses(world, name).values() for row in rows]
    periods = len(gaps) + sum(row[1] == "recorded" or not row[5] for row in lost)
    return {"alerts": alerts, "missing_batches": sum(gaps), "gap_periods": periods, "lost_events": sum(row[3] for row in lost),
            "blind_periods": periods}  # the old name, until version 0.2


def without(rows, *names):
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def judge_classes(world):
    """What classes of events are stored: in SQL with their descriptions' hashes, in the API by name."""
    carried = {}
    for found in world.stored.values():
        for batch in found:
            for description in batch.envelope.descriptions:
                carried[hashlib.sha256(description).hexdigest()[:32]] = description
    rows = world.sql("SELECT * FROM classes")
    world.same("table classes", "hashes", [row["hash"] for row in rows], list(carried))
    want = {(record["name"], record["provider_name"] or "", record["provider"], record["version"], record["pointer_size"])
            for host in world.hosts.values() for record in host.records}
    if any(batch.kind == "keyframe" for found in world.stored.values() for batch in found):  # FORMAT.md, "Keyframes"
        want |= {(f"Keyframe/{what}", "etwagent", "c2a7f6b1-5d0e-4f38-9b64-710ed38a52cf", {"Process": 1, "Module": 2}.get(what, 0), 8) for what in ("Begin", "Process", "Thread", "Module", "End")}
    got = {(row["name"], row["provider_name"] or "", row["provider"], row["version"], row["pointer_size"]) for row in rows}
    world.same("table classes", "all", got, want)
    for name in RESERVED:
        done = world.env.run([world.env.collector, "query", "--store", world.collector.store, f'SELECT count(*) FROM "{name}"'], check=False)
        world.same('table "CLASS"', f"events of the name {name}", [(done.returncode, "no such table" in done.stderr)], [(2, True)])
