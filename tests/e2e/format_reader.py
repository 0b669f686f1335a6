"""A second reader of batches, written from the text alone: proto/wire/FORMAT.md, batch.proto (format_notation.py reads field numbers and
types from that file, format_columns.py decodes the columns) and proto/event/DESCRIPTIONS.md (format_description.py). When a batch breaks a
rule, the error names the section of the text that has the rule. Nothing of the project's C code is used.

As a program it prints the records of batches as lines of JSON, with those keys of `etwagent dump --format raw` that a record has:
    tests/e2e/format_reader.py FILE.batch...
"""
import hashlib
import json
import pathlib
import struct
import sys
import types

from format_columns import Frames, PID, Placed, Shared, ShortDirectory, TID, TIME
from format_description import Description
from format_notation import as_utf8, Broken, decompress, ENUMS, MASK64, MIB, need, parse, submessages, Unknown, varint, ZSTD_MAGIC
from xxh3 import xxh3

MOST_BYTES = {"description": 256 << 10, "source": 64 << 10, "shape": 64 << 10, "dictionary": 256 << 10, "context": 64 << 10}


def short_frame(size, block):
    """The zstd frame of a short directory: one compressed block."""
    return ZSTD_MAGIC + b"\xa0" + struct.pack("<I", size) + struct.pack("<I", 5 | len(block) << 3)[:3] + block


class Definitions:
    """What a collector keeps of one stream."""

    def __init__(self):
        self.kept = {kind: {} for kind in MOST_BYTES}

    def learn(self, kind, data):
        need(len(data) <= MOST_BYTES[kind], "Bounds", f"a {kind} is too large")
        self.kept[kind][hashlib.sha256(data).digest()[:16]] = data

    def find(self, kind, name):
        """The definition whose hash begins so; None when there is none, or several."""
        fits = [data for key, data in self.kept[kind].items() if key.startswith(name)]
        return fits[0] if len(fits) == 1 else None


# name, bytes, where in the checksum's block of constants, by what it is predicted
HEADER = (("keyword", 8), ("id", 2), ("task", 2), ("version", 1), ("channel", 1), ("level", 1), ("opcode", 1), ("logger", 2), ("flags", 2),
          ("property", 2), ("pointer_size", 1), ("header_type", 1), ("hook_id", 2), ("header_word", 2))
KIND = struct.Struct("<16sQHHBBBBHHHBBHHI")
OWN = struct.Struct("<qIIII16sHHHH")


def constants_hash(r):
    return xxh3(KIND.pack(r["provider"], r["keyword"], r["id"], r["task"], r["version"], r["channel"], r["level"], r["opcode"], r["logger"],
                          r["flags"], r["property"], r["pointer_size"], r["header_type"], r["hook_id"], r["header_word"], 0))


def checksum(records):
    """The checksum of records in arrival order (section Checksum)."""
    total, hashes = 0, {}
    for number, r in enumerate(records):
        key = tuple(r[name] for name, _ in HEADER) + (r["provider"],)
        if key not in hashes:
            hashes[key] = constants_hash(r)
        items = 0
        for kind, linkage, data in r["items"]:
            items = xxh3(struct.pack("<HHIQ", kind, linkage, len(data), xxh3(data) if data else 0), items)
        payload = xxh3(r["payload"]) if r["payload"] else 0
        seed = hashes[key] + items * 0x9e3779b185ebca87 + payload * 0xc2b2ae3d27d4eb4f + number * 0x165667b19e3779f9 & MASK64
        total += xxh3(OWN.pack(r["time_raw"], r["pid"], r["tid"], r["kernel_time"], r["user_time"], r["activity_id"], r["cpu"],
                               r["source"], len(r["items"]), len(r["payload"])), seed)
    return total % 2**64


def clock(source):
    """(type, frequency, raw time, UTC in ns) of a source's clock."""
    pair = source.clock_pairs[-1] if source.clock_pairs else types.SimpleNamespace(raw=0, utc_ns=0)
    return source.clock_type, source.frequency, pair.raw, pair.utc_ns


def saturated(value):
    return max(-(1 << 63), min(value, (1 << 63) - 1))


class Batch:
    """A batch: its message (`message`), and, when it has events, its records, groups, classes and sources.

    definitions: what is kept of the batch's stream; what the batch carries is added to it."""

    def __init__(self, data, definitions=None):
        need(len(data) <= 16 * MIB, "Bounds", "a batch has at most 16 MiB")
        self.data, self.definitions = data, definitions or Definitions()
        self.message = m = parse(data, "Batch", raw=("sources", "ledger"))
        need(m.unknown_bytes <= 64 * 1024, "Bounds", "unknown fields of a batch have at most 64 KiB")
        need(m.format == 1, "The batch", f"the format is 1, not {m.format}")
        need(m.kind in ENUMS["Kind"], "Growth", f"the kind {m.kind} is not known")
        need(len(m.stream) == 16, "The batch", "a stream's name has 16 bytes")
        need(m.number, "The batch", "batches are numbered from 1")
        need(m.number <= (1 << 63) - 2, "Bounds", "a batch's number is at most 2⁶³ − 2")
        need(m.event_count <= 262144, "Bounds", "at most 262,144 events")
        need(m.priority <= 255, "Bounds", "the priority is at most 255")
        self.own = Definitions()
        self.appended, self.appended_bytes = set(), 0
        self.add_definitions()
        self.check_tombstones()
        self.groups, self.sources = [], []
        if m.event_count:
            need(m.kind != 1, "Tombstones", "a batch of kind 1 has no events")
            self.read()
        else:
            need(not m.checksum, "The batch", "the checksum is 0 without events")
            if m.kind == 1:
                need(not m.directory and not m.frames and not m.sources and not m.context, "Tombstones",
                     "a batch of kind 1 has no directory, frames, sources and context")
                need(m.tombstones, "Tombstones", "a batch of kind 1 holds a tombstone")
            need(not m.directory and not m.frames, "The batch", "a batch without events has no directory and no frames")
            self.read_names()

    # definitions

    def add_definitions(self):
        m = self.message
        need(len(m.shapes) <= 4096, "Bounds", "at most 4,096 shapes in a batch")
        need(len(m.contexts) <= 64, "Bounds", "at most 64 contexts in a batch")
        need(len(m.sources) <= 4096, "Bounds", "at most 4,096 sources")
        need(len(m.descriptions) <= 16384, "Bounds", "at most 16,384 class descriptions in a batch")
        need(len(m.dictionaries) <= 16, "Bounds", "at most 16 zstd dictionaries in a batch")
        for kind, datas in (("description", m.descriptions), ("shape", m.shapes), ("dictionary", m.dictionaries), ("context", m.contexts),
                            ("source", m.sources if m.context else ())):
            for data in datas:
                self.own.learn(kind, data)
        if not m.context:  # with one they are definitions, of which those are read that the context names
            need(all(len(data) <= MOST_BYTES["source"] for data in m.sources), "Bounds", "a source is too large")
            m.sources = [parse(data, "Source") for data in m.sources]
        for data in m.descriptions:
            Description(data)
        for kind, kept in self.own.kept.items():
            self.definitions.kept[kind].update(kept)

    def find(self, kind, name):
        data = self.own.find(kind, name)
        if data is None:
            data = self.definitions.find(kind, name)
            if data is not None and kind in ("source", "shape") and (kind, name) not in self.appended:
                self.appended.add((kind, name))
                self.appended_bytes += len(data)
                need(self.appended_bytes <= 16 * MIB, "Bounds", "sources and shapes that a batch names and does not hold: at most 16 MiB")
        if data is None:
            raise Unknown(kind, name)
        return data

    def klass(self, name):
        need(len(name) == 16, "Groups", "a class's hash has 16 bytes")
        description = Description(self.find("description", name))
        self.classes[name] = description
        return description

    # the frames

    def read(self):
        m = self.message
        self.read_context()
        dictionary = b""
        directory, size, short = m.directory, m.directory_bytes, not m.directory_bytes and m.directory[:1] in (b"\0", b"\1", b"\2")
        if short:
            compressed, directory = directory[0], directory[1:]
            if compressed == 2:
                need(self.context and self.context.dictionary, "Short directories", "the context names the dictionary that was used")
                dictionary = self.find("dictionary", self.context.dictionary.to_bytes(8, "little"))
            if compressed:
                size, at = varint(directory, 0, "Short directories")
                need(size, "Short directories", "it says its size")
                directory = directory[at:]
            need(max(size, len(directory)) <= 131072, "Bounds", "a short directory has at most 131,072 bytes")
            if compressed:
                directory = short_frame(size, directory)
        total = (size or len(directory)) + sum(f.raw_bytes or len(f.data) for f in m.frames)
        need(total <= 64 * MIB, "Bounds", "directory and frames have at most 64 MiB")
        paid = sum(len(f.data) for f in m.frames) + len(m.padding) + (0 if short else len(m.directory))
        self.cost, self.most_cost = 0, (1 << 22) + 1024 * paid
        self.spend(total + 64 * m.event_count)
        if size:
            directory = decompress(directory, size, dictionary, "The batch")
        self.directory = d = ShortDirectory(directory).message if short else parse(directory, "Directory", most=16)
        need(short or d.unknown_bytes <= 64 * 1024, "Bounds", "unknown fields of a directory have at most 64 KiB")
        frames = Frames([d.pool] + [decompress(f.data, f.raw_bytes, b"", "Frames and the pool") if f.raw_bytes else f.data
                                    for f in m.frames])
        frames.spend = self.spend
        self.read_sources()
        self.read_groups()
        self.place(frames)
        self.read_rows()

    def spend(self, cost):
        self.cost += cost
        need(self.cost <= self.most_cost, "Bounds", "what reading a batch costs: at most 4,194,304, and 1,024 for each byte")

    def read_context(self):
        m, self.context = self.message, None
        if not m.context:
            return
        need(len(m.context) >= 8, "Contexts", "the name of a context has 8 bytes")
        self.context = c = parse(self.find("context", m.context[:8]), "Context")
        need(len(c.sources) % 8 == 0 and len(c.shapes) % 8 == 0, "Contexts", "names have 8 bytes")
        need(c.sources and len(c.sources) <= 8 * 4096 and len(c.shapes) <= 8 * 4096, "Bounds", "1 to 4,096 sources, at most 4,096 shapes")
        need(c.priority <= 255, "Bounds", "the priority is at most 255")

    def read_names(self):
        """A batch without events, too, names a context, its sources and shapes."""
        self.read_context()
        if self.context:
            self.read_sources()
            at = 8
            while at < len(self.message.context):
                _, at = self.next_shape(at)

    def next_shape(self, at):
        """The shape that the index at that offset of `context` names, and the offset after it."""
        listed = listed_names(self.context.shapes)
        index, at = varint(self.message.context, at, "Contexts")
        need(index < len(listed), "Contexts", "a group's shape is in the context")
        return self.find("shape", listed[index]), at

    def read_sources(self):
        if self.context:
            self.sources = [parse(self.find("source", name), "Source") for name in listed_names(self.context.sources)]
        else:
            self.sources = self.message.sources
        need(self.sources, "The batch", "a batch with events has a source")
        for s in self.sources:
            names = [as_utf8(label.name) for label in s.labels]
            need(len(names) <= 32 and len(set(names)) == len(names), "Sources", "at most 32 labels, no name twice")
            need(all(1 <= len(name) <= 64 for name in names) and all(len(as_utf8(label.value)) <= 256 for label in s.labels)
                 and len(as_utf8(s.agent_version)) <= 64, "Bounds", "a label or the version is too long")

    # the groups' headers

    def read_groups(self):
        d, m = self.directory, self.message
        need(len(d.groups) <= 16384, "Bounds", "too many groups")
        shapes = self.read_shapes()
        before = None
        self.classes = {}
        for group, shape in zip(d.groups, shapes):
            g = types.SimpleNamespace(message=group, count=group.count or 1)
            if shape:
                need(not group.class_hash and group.header is None, "Shapes", "a group with a shape has neither class nor header")
            named = shape or group
            g.description = self.classes.get(named.class_hash) or self.klass(named.class_hash)
            g.items = self.read_items(group, shape)
            need(len(group.fields) <= min(512, len(g.description.top)), "Groups", "at most as many fields as the class has")
            g.header = before = self.read_header(named.header, g.description, None if shape else before)
            self.groups.append(g)
        need(sum(g.count for g in self.groups) == m.event_count, "Bounds", "groups' counts do not add up to event_count")

    def read_shapes(self):
        groups, at, shapes = self.directory.groups, 8, []
        if not self.context:
            return [None] * len(groups)
        for _ in groups:
            data, at = self.next_shape(at)
            shapes.append(parse(data, "Shape"))
            for column in (item.data for item in shapes[-1].items if item.data):
                need(all(not value for name, value in vars(column).items() if name not in ("constant", "unknown_bytes")), "Shapes",
                     "an item's data in a shape is a column with nothing but `constant`")
        need(at == len(self.message.context), "Contexts", "`context` has a shape for each group")
        return shapes

    @staticmethod
    def read_items(group, shape):
        """(type, linkage, constant or None, Column or None), in the record's order."""
        items, own = [], iter(group.items)
        if shape is None:
            items = [(i.type, i.linkage, None, i.data) for i in group.items]
        else:
            for i in shape.items:
                if i.data is not None:
                    items.append((i.type, i.linkage, i.data.constant, None))
                    continue
                mine = next(own, None)
                need(mine is not None and not mine.type and not mine.linkage, "Shapes",
                     "the group has an item without type and linkage for each that is no constant")
                items.append((i.type, i.linkage, None, mine.data))
            need(next(own, None) is None, "Shapes", "the group has no more items than its shape")
        need(len(items) <= 64, "Bounds", "a record has at most 64 extended items")
        for kind, linkage, constant, column in items:
            need(kind <= 65535 and linkage <= 65535, "Groups", "type and linkage are 16-bit numbers")
            need(constant is not None or column is not None, "Groups", "an item has data")
        return items

    def read_header(self, h, description, before):
        predicted = before or {"logger": self.sources[0].logger & 0xffff}
        header = {"provider": description.provider}
        if h is not None and h.provider:
            need(len(h.provider) == 16, "Headers", "a provider has 16 bytes")
            header["provider"] = h.provider
        for name, size in HEADER:
            if name == "id":
                base = 0 if description.classic else description.code
            elif name == "opcode":
                base = description.code if description.classic else 0
            elif name in ("version", "pointer_size"):
                base = getattr(description, name)
            else:
                base = predicted.get(name, 0)
            header[name] = base ^ (getattr(h, name) if h is not None else 0)
            need(header[name] < 1 << 8 * size, "Headers", f"{name} exceeds its member of the record")
        return header

    # the columns

    def place(self, frames):
        d, n = self.directory, self.message.event_count
        need(len(d.dictionaries) <= 64, "Bounds", "at most 64 shared dictionaries")
        need(d.thread_count <= n, "Bounds", "threads: at most the events")
        self.dictionaries = [Shared(message) for message in d.dictionaries]

        def put(column, rows, width):
            return Placed(column, rows, width, frames, self.dictionaries) if column is not None else None

        for g in self.groups:
            group = g.message
            g.item_columns = [put(column, g.count, None) for _, _, _, column in g.items]
            g.kernel_time, g.user_time = put(group.kernel_time, g.count, 4), put(group.user_time, g.count, 4)
            g.activity = put(group.activity, g.count, 16)
            g.fields = [put(column, g.count, None) for column in group.fields]
            g.payload = put(group.payload, g.count, None)
        for name in ("group", "time", "cpu", "thread", "thread_pids", "thread_tids"):
            need(getattr(d, name) is not None, "The directory", f"{name} is there when there are events")
        self.columns = {}
        bare = sum(g.count for g in self.groups if not g.fields and g.payload is None)
        for name, rows, width in (("group", n, 4), ("time", n, 8), ("cpu", n, 2), ("thread", n, 4), ("source", n, 2), ("sequence", n, 8),
                                  ("thread_pids", d.thread_count, 4), ("thread_tids", d.thread_count, 4), ("kernel_time", n, 4),
                                  ("user_time", n, 4), ("activity", n, 16), ("payload", bare, None)):
            self.columns[name] = put(getattr(d, name), rows, width)
        for dictionary in self.dictionaries:
            dictionary.place(frames)
        frames.check_end()

    def column(self, name, n, otherwise, first=0):
        column = self.columns[name]
        return column.numbers(n, first=first) if column else otherwise

    def read_rows(self):
        d, m = self.directory, self.message
        n = m.event_count
        self.group = self.column("group", n, None)
        need(max(self.group) < len(self.groups), "Bounds", "an index of a group is beyond its table")
        self.time = [t - (1 << 64) if t >> 63 else t for t in self.column("time", n, None, self.time_min() & MASK64)]
        self.cpu = self.column("cpu", n, None)
        thread = self.column("thread", n, None)
        need(max(thread) < d.thread_count, "Bounds", "an index of a thread is beyond its table")
        pids, tids = self.column("thread_pids", d.thread_count, None), self.column("thread_tids", d.thread_count, None)
        self.pid, self.tid = [pids[t] for t in thread], [tids[t] for t in thread]
        self.source = self.column("source", n, [0] * n)
        need(max(self.source) < len(self.sources), "Bounds", "an index of a source is beyond its table")
        self.sequence = self.column("sequence", n, range(d.first_sequence, d.first_sequence + n))
        for name in ("kernel_time", "user_time", "activity"):
            if self.columns[name]:
                need(all(getattr(g, name) is None for g in self.groups), "The directory", f"{name} is the directory's or the groups'")
        members, first = [[] for _ in self.groups], 0
        for i, g in enumerate(self.group):
            if not members[g]:
                need(g == first, "Groups", "groups are in the order of their first events")
                first += 1
            members[g].append(i)
        for g, rows in zip(self.groups, members):
            need(len(rows) == g.count, "Groups", "a group has `count` events")
            g.rows = rows
        self.read_bodies()
        for dictionary in self.dictionaries:  # whether a column uses it or not
            dictionary.rows()

    def read_bodies(self):
        n = self.message.event_count
        times = {name: self.column(name, n, None) for name in ("kernel_time", "user_time")}
        activities = self.columns["activity"].rows(n) if self.columns["activity"] else None
        self.body = [None] * n
        bare = [i for i in range(n) if not self.groups[self.group[i]].fields and self.groups[self.group[i]].payload is None]
        payloads = dict(zip(bare, self.columns["payload"].rows(len(bare)))) if self.columns["payload"] else {}
        for g in self.groups:
            bases = {TIME: [self.time[i] for i in g.rows], PID: [self.pid[i] for i in g.rows], TID: [self.tid[i] for i in g.rows]}
            items = [(kind, linkage, [constant] * g.count if column is None else column.rows(g.count, bases))
                     for (kind, linkage, constant, _), column in zip(g.items, g.item_columns)]
            g.field_rows = [column.rows(g.count, bases) for column in g.fields]
            rest = g.payload.rows(g.count, bases) if g.payload else None
            own = {name: getattr(g, name).numbers(g.count, bases) if getattr(g, name) else None for name in ("kernel_time", "user_time")}
            own_activities = g.activity.rows(g.count, bases) if g.activity else None
            for r, i in enumerate(g.rows):
                payload = b"".join(rows[r] for rows in g.field_rows) + (rest[r] if rest else payloads.get(i, b""))
                need(len(payload) <= 65535, "Bounds", "a payload has at most 65,535 bytes")
                self.body[i] = {name: own[name][r] if own[name] else times[name][i] if times[name] else 0 for name in own}
                self.body[i].update(activity_id=own_activities[r] if own_activities else activities[i] if activities else bytes(16),
                                    items=[(kind, linkage, rows[r]) for kind, linkage, rows in items], payload=payload)
                need(all(len(data) <= 65535 for _, _, data in self.body[i]["items"]), "Bounds", "an extended item has at most 65,535 bytes")
        payload_bytes = sum(len(b["payload"]) for b in self.body)
        need(payload_bytes <= 64 * MIB, "Bounds", "all payloads: at most 64 MiB")
        self.spend(payload_bytes)
        need(sum(len(data) for b in self.body for _, _, data in b["items"]) <= 64 * MIB, "Bounds", "all extended items: at most 64 MiB")

    # what comes out

    def records(self):
        """The records in arrival order, each a dict of its members."""
        for i in range(self.message.event_count):
            yield {**self.groups[self.group[i]].header, **self.body[i], "time_raw": self.time[i], "cpu": self.cpu[i], "pid": self.pid[i],
                   "tid": self.tid[i], "source": self.source[i]}

    def verify(self):
        """Compares the batch's data about its records with the records: checksum, times, and fields as the descriptions split them."""
        m = self.message
        if not m.event_count:
            return
        need(checksum(self.records()) == m.checksum, "Checksum", "the records do not give the batch's checksum")
        times = [self.converted(i) for i in range(m.event_count)]
        need((max(min(times), max(times) - (1 << 63) + 1), max(times)) == (self.time_min(), self.time_min() + m.time_span), "The batch",
             "time_min and time_span are the events'")
        for g in self.groups:
            for r, i in enumerate(g.rows):
                split = g.description.split(self.body[i]["payload"])
                need(split[:len(g.field_rows)] == [rows[r] for rows in g.field_rows], "Groups",
                     f"fields of {g.description.name} are whole top-level fields in the description's order")

    def time_min(self):
        """The smallest event time in raw ticks of the first source's clock (section The batch)."""
        value = self.message.time_min + clock(self.sources[0])[2] & MASK64
        return value - (1 << 64) if value >> 63 else value

    def utc_ns(self, i):
        """An event's time (section Sources)."""
        _, frequency, raw, utc_ns = clock(self.sources[self.source[i]])
        return saturated(utc_ns + ((self.time[i] - raw) * 10 ** 9 // frequency if frequency else 0))

    def converted(self, i):
        """An event's time in ticks of the first source's clock."""
        first = clock(self.sources[0])
        if clock(self.sources[self.source[i]]) == first:
            return self.time[i]
        return saturated(first[2] + (self.utc_ns(i) - first[3]) * first[1] // 10 ** 9)

    # the ledger, and what is gone

    def check_tombstones(self):
        need(len(self.message.tombstones) <= 262144, "Bounds", "at most 262,144 tombstones in a batch")
        need(all(len(data) <= 64 << 10 for data in submessages(self.data, "Batch", "tombstones")), "Bounds", "a tombstone has at most 64 KiB")
        for t in self.message.tombstones:
            need(1 <= t.first <= t.last <= (1 << 63) - 2, "Tombstones", "1 ≤ first ≤ last ≤ 2⁶³ − 2")

    def check_ledger(self):
        """Both equations, for the whole and for each family that is named. A batch is none the worse for a wrong ledger."""
        ledgers = submessages(self.data, "Batch", "ledger")
        need(len(ledgers) <= 1, "The batch", "Batch.ledger is there twice")
        need(all(len(data) <= 64 << 10 for data in ledgers), "Bounds", "a ledger has at most 64 KiB")
        for numbers in [one for ledger in (parse(data, "Ledger") for data in ledgers) for one in (ledger, *ledger.families)]:
            need(len(numbers.counters) == len(numbers.values), "Ledger", "each counter has one value")
            v = dict(zip(numbers.counters, numbers.values))
            n = [v.get(k, 0) for k in range(22)]
            need(n[1] == sum(n[2:10]) and n[2] + n[10] == sum(n[11:18]) + n[21], "Ledger", "an equation does not hold")


def listed_names(data):
    return [data[i:i + 8] for i in range(0, len(data), 8)]


# ---- as text --------------------------------------------------------------------------------------------------------------

def guid(data):
    a, b, c = struct.unpack_from("<IHH", data)
    return f"{a:08x}-{b:04x}-{c:04x}-{data[8:10].hex()}-{data[10:].hex()}"


def main():
    definitions = {}
    for path in sys.argv[1:]:
        data = pathlib.Path(path).read_bytes()
        try:
            batch = Batch(data, definitions.setdefault(parse(data, "Batch").stream, Definitions()))
            batch.verify()
        except Broken as broken:
            print(f"{path}: {broken}", file=sys.stderr)
            return 1
        for i, r in enumerate(batch.records()):
            r = {name: guid(v) if name == "provider" or name == "activity_id" else v.hex() if isinstance(v, bytes) else v for name, v in r.items()}
            r.update(name=batch.groups[batch.group[i]].description.name, utc_ns=batch.utc_ns(i), sequence=batch.sequence[i],
                     items=[(kind, linkage, data.hex()) for kind, linkage, data in r["items"]])
            print(json.dumps(r))
    return 0


if __name__ == "__main__":
    sys.exit(main())
