"""What a collector has stored, read from its segment files by the text of collector/store/segment.h and proto/wire/FORMAT.md: which
batches of which agent, with their ledgers. Only the envelopes are parsed; what events are in a batch follows from the order of a
dump. Nothing of the project's C code is used.
"""
import collections
import re
import struct

import format_reader
import harness

SEGMENT_HEADER, RECORD_HEADER = 40, 48
KINDS = ["events", "tombstone", "keyframe"]


def padded(size):
    return (size + 7) & ~7


class Stored:
    """A batch: agent, stream (hex), number, kind, events, bytes, received (ns), its place, and its envelope."""

    def __init__(self, agent, received, segment, offset, data):
        self.agent, self.received, self.segment, self.offset, self.bytes = agent, received, segment, offset, len(data)
        self.envelope = format_reader.parse(data, "Batch", raw=("sources", "frames"))
        self.stream, self.number = self.envelope.stream.hex(), self.envelope.number
        self.kind, self.events = KINDS[self.envelope.kind], self.envelope.event_count


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
    """{number: (name, severity, sentence)} of proto/base/counters.h, and the names in the order of the file."""
    text = (harness.ROOT / "proto" / "base" / "counters.h").read_text(encoding="utf-8").replace("\\\n", " ")
    rows = re.findall(r'X\((\w+),\s*(\d+),\s*EA_(\w+),\s*((?:"[^"]*"\s*)+)\)', text)
    return {int(number): (name, severity.lower(), "".join(re.findall(r'"([^"]*)"', sentence))) for name, number, severity, sentence in rows}


def ledger_of(batch):
    """{(family, counter's number): value} as a batch says, or None when it says nothing."""
    told = batch.envelope.ledger
    if told is None:
        return None
    values = {("", number): value for number, value in zip(told.counters, told.values)}
    for family in getattr(told, "families", ()):
        values.update({(family.name, number): value for number, value in zip(family.counters, family.values)})
    return values


def by_stream(stored):
    """{(agent, stream): its batches by number}"""
    streams = collections.defaultdict(list)
    for batch in stored:
        streams[batch.agent, batch.stream].append(batch)
    return {key: sorted(found, key=lambda batch: batch.number) for key, found in streams.items()}
