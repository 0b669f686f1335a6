"""What a collector has stored, read from its segment files by the text of collector/store/segment.h and proto/wire/FORMAT.md: which
batches of which agent, with their ledgers. Only the envelopes are parsed; what events are in a batch follows from the order of a
dump. Nothing of the project's C code is used.
"""
import collections
import re
import struct

import format_notation
import harness

SEGMENT_HEADER, RECORD_HEADER = 40, 48
KINDS = ["events", "tombstone", "keyframe"]


def padded(size):
    return (size + 7) & ~7


class Stored:
    """A batch: agent, stream (hex), number, kind, events, bytes, received (ns), its place, and its envelope."""

    def __init__(self, agent, received, segment, offset, data):
        self.agent, self.received, self.segment, self.offset, self.bytes = agent, received, segment, offset, len(data)
        self.envelope = format_notation.parse(data, "Batch", raw=("sources", "frames"))
        self.stream, self.number = self.envelope.stream.hex(), self.envelope.number
        self.kind, self.events = KINDS[self.envelope.kind], self.envelope.event_count
        self.records = self.events if self.kind == "events" else 0  # those that a dump of the trace has


def batches(store):
    """Every batch of a store's segments, in the order in which it was stored; erased records are skipped."""
    found = []
    for path in sorted((store / "segments").glob("*.seg")):
        data, at = path.read_bytes(), SEGMENT_HEADER
        while at + RECORD_HEADER <= len(data):
            _, header, size, received, _, agent_bytes = struct.unpack_from("<IIQqQI", data, at)
            agent = data[at + RECORD_HEADER:at + RECORD_HEADER + agent_bytes].decode()
            begin = at + padded(header)
            if agent:
                found.append(Stored(agent, received, int(path.stem, 16), at, data[begin:begin + size]))
            at = begin + padded(size)
    return found


def counters():
    """{number: (name, severity, "counter" or "gauge", sentence)} of proto/base/counters.h, in the order of the file."""
    text = (harness.ROOT / "proto" / "base" / "counters.h").read_text(encoding="utf-8").replace("\\\n", " ")
    rows = re.findall(r'([XGS])\((\w+),\s*(\d+),\s*EA_(\w+),\s*EA_OF_\w+,\s*((?:"[^"]*"\s*)+)\)', text)
    return {int(number): (name, severity.lower(), "gauge" if kind == "G" else "counter", "".join(re.findall(r'"([^"]*)"', sentence)))
            for kind, name, number, severity, sentence in rows}


class Ledger:
    """A run's ledger, folded from its batches in the order of their numbers by the section "Ledger" of FORMAT.md. changes: (batch,
    events stored before it, family, counter's number, value), values: {(family, number): the last value}, reported: batches whose
    ledger has values."""

    def __init__(self, batches):
        self.values, self.changes, self.reported, self.stored_before, stored, incarnation = {}, [], [], {}, 0, None
        for batch in batches:
            reported = batch.envelope.ledger
            if reported is not None and (reported.counters or reported.families):
                now = {("", number): value for number, value in zip(reported.counters, reported.values)}
                for family in reported.families:
                    now.update({(family.family, number): value for number, value in zip(family.counters, family.values)})
                named = {"", *(family.family for family in reported.families)}
                for key in self.values:
                    if key not in now and (key[0] in named or reported.incarnation != incarnation):
                        now[key] = 0
                for key, value in now.items():
                    if value != self.values.get(key, 0):
                        self.changes.append((batch, stored, *key, value))
                        self.values[key] = value
                incarnation = reported.incarnation
                self.reported.append(batch)
            self.stored_before[batch.number] = stored
            stored += batch.events
        self.stored = stored

    def wrongs(self):
        """(batch, equation, left, right) where an equation of the session stops holding, or fails by another difference; how much more is acknowledged than
        stored moves with each batch, so that of that equation the first batch counts. A ledger names all counters that are not 0."""
        found, before = [], {}
        for batch in self.reported:
            ledger = batch.envelope.ledger
            values = {COUNTERS[number][0]: value for number, value in zip(ledger.counters, ledger.values) if number in COUNTERS}
            equations = {name: (left, right, left - right) for name, left, right in sides(values)}
            stored, acknowledged = self.stored_before[batch.number], values.get("events_acknowledged", 0)
            equations["stored"] = stored, acknowledged, min(0, max(-1, stored - acknowledged))
            found += [(batch.number, name, left, right) for name, (left, right, off) in equations.items() if off not in (0, before.get(name, 0))]
            before = {name: off for name, (_, _, off) in equations.items()}
        return found


COUNTERS = counters()


def sides(values):
    """(name, left, right) of the ledger's equations, out of {counter's name: value}."""
    get = collections.defaultdict(int, values)
    yield "delivered", get["events_delivered"], sum(get[name] for name in (
        "events_batched", "events_pending", "events_filtered", "events_sampled_out", "events_limited", "events_repeated", "events_aggregated", *(name for name in values if name.startswith("events_dropped_"))))
    yield "batched", get["events_batched"] + get["events_synthesised"], sum(get[name] for name in (
        "events_compressing", "events_spooled", "events_unanswered", "events_acknowledged", "events_recorded", "events_unrecorded",
        *(name for name in values if name.startswith(("events_evicted_", "events_removed_")))))


def by_stream(stored):
    """{(agent, stream): its batches by number}"""
    streams = collections.defaultdict(list)
    for batch in stored:
        streams[batch.agent, batch.stream].append(batch)
    return {key: sorted(found, key=lambda batch: batch.number) for key, found in streams.items()}
