"""Judges of answers about what is stored: machines, runs, batches, classes; out of the segment files and the records' order."""
import collections
import hashlib
import json
import time

import format_reader
import naive_store
from naive_state import format_time


def utc(ns):
    """ns since 1970 as the product shows a time."""
    return None if ns is None else format_time(ns // 100)


def records_of(host, found):
    """Each batch of events of a run with its records: they are in the order in which the agent had them."""
    at, pairs = 0, []
    for batch in found:
        pairs.append((batch, host.records[at:at + batch.events]))
        at += batch.events
    return pairs


def ends(records):
    units = [record["units"] for record in records]
    return min(units), max(units)


def source_of(found):
    """The newest Source message that a run's batches carry."""
    told = [source for batch in found for source in batch.envelope.sources]
    return format_reader.parse(told[-1], "Source")


def labels_of(source):
    return json.dumps({label.name: label.value for label in source.labels}) if source.labels else None


def runs(world):
    """A row of each run, as the table streams has it."""
    rows = []
    for (name, stream), found in world.stored.items():
        source, (begin, end) = source_of(found), ends(world.hosts[name].records)
        numbers = {batch.number for batch in found}
        rows.append({"host": name, "stream": stream, "machine": source.host or None, "agent_version": source.agent_version or None, "labels": labels_of(source),
                     "batches": len(found), "highest": max(numbers), "missing": max(numbers) - len(numbers), "events": sum(batch.events for batch in found),
                     "bytes": sum(batch.bytes for batch in found), "begin": format_time(begin), "end": format_time(end),
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
                     "received_first": min(row["received_first"] for row in mine), "received_last": max(row["received_last"] for row in mine)})
    return rows


def flat(rows):
    return [tuple(sorted(row.items())) for row in rows]


def judge_machines(world):
    """hosts, streams, batches in SQL; Fleet and machines in the API."""
    world.same("table hosts", "all", flat(world.sql("SELECT * FROM hosts")), flat(machines(world)))
    world.same("table streams", "all", flat(world.sql("SELECT * FROM streams")), flat(runs(world)))
    want = []
    for (name, stream), found in world.stored.items():
        for batch, records in records_of(world.hosts[name], found):
            begin, end = ends(records)
            want.append({"host": name, "stream": stream, "batch": batch.number, "kind": batch.kind, "events": batch.events, "bytes": batch.bytes,
                         "begin": format_time(begin), "end": format_time(end), "received": utc(batch.received), "segment": batch.segment, "offset": batch.offset})
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
             **{key: sum(row[key] for row in listed) for key in ("alerts", "missing_batches")}}
    least, got, most = silent(world), world.get("fleet"), silent(world)
    world.checks.that(least <= got.pop("silent") <= most, f"silent machines of the fleet: between {least} and {most}")
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
    """How many machines sent nothing for a minute, now."""
    last = collections.defaultdict(int)
    for (name, _), found in world.stored.items():
        last[name] = max(last[name], *(batch.received for batch in found))
    return sum(moment // 10**9 < int(time.time()) - 60 for moment in last.values())


def troubles(world, name):
    """Alerts and gaps of a machine."""
    mine = {key: found for key, found in world.stored.items() if key[0] == name}
    gaps = [after.number - before.number - 1 for found in mine.values() for before, after in zip(found, found[1:]) if after.number - before.number > 1]
    alerts = sum(len(naive_store.Ledger(found).wrongs()) for found in mine.values())
    return {"alerts": alerts, "missing_batches": sum(gaps), "blind_periods": len(gaps)}


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
    got = {(row["name"], row["provider_name"] or "", row["provider"], row["version"], row["pointer_size"]) for row in rows}
    world.same("table classes", "all", got, want)
