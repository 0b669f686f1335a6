"""Batches in forms that the agent never writes but the text allows (proto/wire/FORMAT.md): the events of real batches, with their columns
as lists and dictionaries (shared ones, too) inside each other at random, in any frames, compressed or not;
sources with other clocks, numbers of arrival; messages with their fields in any order, some numbers twice, unknown fields between
them, their repeated numbers packed or not. The reader in another language (format_reader.py) finds the same records in each, and the collector,
which reads all records and compares their checksum, stores each. The writer here was written from the text alone.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Records 3: Forms that the specification allows and the agent never writes are read, too. | 160 batches | 2026-11-23
import random
import types

import format_notation
import format_reader
import harness
import test_wire_python
import uploads
from format_columns import BITS, CONSTANT, DICTIONARY, PID, PLAIN, PLANES, PREVIOUS, TID, TIME, VARINT
from test_wire_python import compressed
from wire_lies import message

FORMS, SOAK_FORMS = 40, 400  # of each batch
TRACES = (("tracelogging-primitive-types", []), ("clr-gc-events", ["--batch-events", 300]), ("kernel-process-provider", ["--batch-events", 200]))
NAMES = {CONSTANT: "CONSTANT", PLAIN: "PLAIN", PLANES: "PLANES", VARINT: "VARINT", DICTIONARY: "DICTIONARY", BITS: "BITS"}


# ---- columns (sections Columns, Frames and the pool) ----------------------------------------------------------------------

def zigzag(difference, width=8):
    """Of the difference modulo 2⁶⁴, as a number of the width."""
    difference &= (1 << 8 * width) - 1
    if difference >> 8 * width - 1:
        difference -= 1 << 8 * width
    return difference * 2 if difference >= 0 else -difference * 2 - 1


def planes(numbers, count):
    return b"".join(bytes(n >> 8 * k & 255 for n in numbers) for k in range(count))


def bits(numbers, count):
    whole = 0
    for i, n in enumerate(numbers):
        whole |= n << i * count
    return whole.to_bytes((len(numbers) * count + 7) // 8, "little")


def stored_bytes(most):
    return (most.bit_length() + 7) // 8


class Columns:
    """Makes columns out of rows. shared: rows of a dictionary that columns may use; used: what forms there were."""

    def __init__(self, rng, used, shared):
        self.rng, self.used, self.shared = rng, used, shared

    def column(self, encoding, data=b"", **members):
        self.used.add(NAMES[encoding])
        made = message("Column", encoding=encoding, **members)
        made.data = data
        return made

    def numbers(self, values, width, bases=None, first=0, implied=True):
        """Elements of 1 to 8 bytes. bases: what TIME, PID and TID are, where they are allowed; first: what PREVIOUS begins with."""
        rng, said = self.rng, {} if implied and self.rng.randrange(2) else {"width": width}
        base = rng.choice((0, 0, PREVIOUS, *(bases or ())))
        if not base and rng.randrange(3) == 0:
            return self.plain_numbers(values, width, said)
        stored, before = [], first
        for i, value in enumerate(values):
            relative_to = before if base == PREVIOUS else bases[base][i] if base else 0
            stored.append(zigzag(value - relative_to, width) if base else value)
            before = value
        if base:
            self.used.add(f"base {base}")
            said["relative_to"] = base
        most = max(stored, default=0)
        if len(set(stored)) == 1 and rng.randrange(2):
            return self.column(CONSTANT, constant=most.to_bytes(rng.randrange(stored_bytes(most), width + 1), "little"), **said)
        encoding = rng.choice((PLANES, VARINT, BITS))
        if encoding == VARINT:
            data = b"".join(map(uploads._varint, stored))
            return self.column(VARINT, data, bytes=len(data), **said)
        if encoding == BITS:
            count = max(1, rng.randrange(most.bit_length(), 8 * width + 1))
            return self.column(BITS, bits(stored, count), planes=count, **said)
        count = max(1, rng.randrange(stored_bytes(most), width + 1))
        return self.column(PLANES, planes(stored, count), planes=0 if count == width and rng.randrange(2) else count, **said)

    def plain_numbers(self, values, width, said):
        rows = [value.to_bytes(width, "little") for value in values]
        if self.rng.randrange(2):
            return self.column(PLAIN, b"".join(rows), **said)
        return self.dictionary(rows, lambda distinct: self.numbers([int.from_bytes(r, "little") for r in distinct], width, implied=not said), **said)

    def dictionary(self, rows, values_of, **said):
        distinct = sorted(set(rows))
        self.rng.shuffle(distinct)
        return self.column(DICTIONARY, value_count=len(distinct), values=values_of(distinct), **said, **self.indexes(rows, distinct))

    def indexes(self, rows, values):
        places = {row: i for i, row in enumerate(values)}
        numbers = [places[row] for row in rows]
        if len(values) >= 2 and self.rng.randrange(2):
            count = self.rng.randrange((len(values) - 1).bit_length(), 33)
            return {"data": bits(numbers, count), "planes": count}
        return {"data": planes(numbers, stored_bytes(len(values) - 1))}

    def fixed(self, rows, width, implied=False, bases=None):
        """Rows of one width, which is not 0."""
        if width <= 8 and self.rng.randrange(3):
            return self.numbers([int.from_bytes(r, "little") for r in rows], width, bases, implied=implied)
        if len(set(rows)) == 1 and self.rng.randrange(2):
            return self.column(CONSTANT, constant=rows[0].rstrip(b"\0"), width=width)
        if self.rng.randrange(3) == 0:
            return self.dictionary(rows, lambda distinct: self.fixed(distinct, width), width=width)
        return self.rng.choice((self.column(PLAIN, b"".join(rows), width=width),
                                self.column(PLANES, b"".join(bytes(r[k] for r in rows) for k in range(width)), width=width)))

    def rows(self, rows, depth=0, bases=None, in_values=False):
        """Rows of any widths."""
        rng, widths = self.rng, {len(r) for r in rows}
        width = widths.pop() if len(widths) == 1 else 0
        if len(set(rows)) == 1 and rng.randrange(2):
            return self.column(CONSTANT, constant=rows[0])
        if not in_values and set(rows) <= set(self.shared) and rng.randrange(2):
            self.used.add("shared")
            return self.column(DICTIONARY, shared=1, **self.indexes(rows, self.shared))
        if depth < 4 and rng.randrange(3) == 0:
            return self.dictionary(rows, lambda distinct: self.rows(distinct, depth + 1, in_values=True))
        if width and rng.randrange(2):
            return self.fixed(rows, width, bases=bases)
        return self.list(rows)

    def list(self, rows):
        """Rows as elements of one width."""
        rng = self.rng
        width = rng.choice([w for w in (1, 2, 3, 4, 8) if all(len(r) % w == 0 for r in rows)])
        elements = [r[i:i + width] for r in rows for i in range(0, len(r), width)]
        lengths = self.numbers([len(r) // width for r in rows], 4)
        if elements:
            made = self.fixed(elements, width, implied=width == 1)
        else:
            made = self.column(CONSTANT)
        self.used.add("list")
        made.lengths = lengths
        return made


def place(column, frames, rng):
    """Puts a column's data into frames in the order of the text, and says how much it is where rows do not."""
    if column.lengths is not None:
        place(column.lengths, frames, rng)
        column.bytes = len(column.data)
    if column.values is not None:
        place(column.values, frames, rng)
    column.frame = rng.randrange(len(frames))
    frames[column.frame] += column.data


# ---- messages -------------------------------------------------------------------------------------------------------------

def written(rng, made, name, used):
    """A message's fields in any order (those of a repeated one in theirs), with unknown ones among them; numbers packed or not."""
    fields, singular = [], format_notation.MESSAGES[name]
    for number, (field, kind, repeated) in singular.items():
        value, wire = getattr(made, field), format_notation.wire_type(kind)
        if wire == 2:
            for one in value if repeated else [value] if value or isinstance(value, types.SimpleNamespace) else []:
                one = format_notation.as_utf8(one) if kind == "string" else written(rng, one, kind, used) if isinstance(one, types.SimpleNamespace) else one
                earlier = [uploads._bytes(number, b"x")] if kind == "bytes" and not repeated and rng.randrange(16) == 0 else []
                used |= {"bytes twice" for _ in earlier}
                fields.append([*earlier, uploads._bytes(number, one)])
        elif repeated and value and rng.randrange(2):
            fields.append([uploads._bytes(number, b"".join(test_wire_python.number_bytes(kind, one) for one in value))])
        elif repeated:
            fields.append([uploads._varint(number << 3 | wire) + test_wire_python.number_bytes(kind, one) for one in value])
        elif value:
            once = uploads._varint(number << 3 | wire)
            if kind == "uint32" and rng.randrange(16) == 0:  # it is cut to its type
                used.add("wide number")
                fields.append([once + uploads._varint(value + (rng.randrange(1, 1 << 32) << 32))])
                continue
            earlier = [once + test_wire_python.number_bytes(kind, 1)] if rng.randrange(16) == 0 else []
            used |= {"number twice" for _ in earlier}
            fields.append([*earlier, once + test_wire_python.number_bytes(kind, value)])
    if rng.randrange(8) == 0:
        used.add("unknown field")
        fields.append([rng.choice((uploads._number(999, 7), uploads._bytes(1000, b"later"), uploads._varint(998 << 3 | 5) + bytes(4),
                                   uploads._varint(997 << 3 | 1) + bytes(8)))])
    return shuffled(rng, fields)


def shuffled(rng, fields):
    """Merges lists of pieces at random; each list keeps its order. All pieces of one field keep their order too, also from several lists."""
    by_field = {}
    for pieces in fields:
        by_field.setdefault(uploads.varint(pieces[0], 0)[0] >> 3 if pieces else 0, []).extend(pieces)
    order = [number for number, pieces in by_field.items() for _ in pieces]
    rng.shuffle(order)
    left = {number: iter(pieces) for number, pieces in by_field.items()}
    return b"".join(next(left[number]) for number in order)


# ---- batches --------------------------------------------------------------------------------------------------------------

def other_sources(rng, batch):
    """No, one or two further sources with clocks of their own, and which one each event is of."""
    batch.sources = batch.own_sources[:]
    for _ in range(rng.randrange(3)):
        pair = message("ClockPair", raw=rng.choice((0, batch.time[0], -5)), utc_ns=1_600_000_000_000_000_000 + rng.randrange(1 << 40))
        batch.sources.append(message("Source", name="another", clock_type=rng.randrange(1, 4), frequency=rng.choice((0, 1, 10_000_000, 2_441_406)),
                                     clock_pairs=[pair] * rng.randrange(3)))
    batch.source = [rng.randrange(len(batch.sources)) for _ in batch.time]


def formed(rng, batch, used):
    """The batch's events in another form: (bytes, records)."""
    other_sources(rng, batch)
    m = message("Batch", format=1, stream=rng.randbytes(16), number=rng.choice((1, 2**63 - 2)), priority=rng.choice((0, 2, 255)),
                event_count=batch.message.event_count, sources=batch.sources, descriptions=list(dict.fromkeys(g.description.data for g in batch.groups)))
    n, d = m.event_count, message("Directory", first_sequence=rng.choice((0, 5, 2**64 - 1 - batch.message.event_count)))
    shared = sorted({r for g in batch.groups for rows in split_fields(batch, g) for r in rows[:3]})[:rng.randrange(1, 300)]
    make = Columns(rng, used, shared)
    threads = list(dict.fromkeys(zip(batch.pid, batch.tid)))
    rng.shuffle(threads)
    times = [batch.converted(i) for i in range(n)]
    first = max(min(times), max(times) - (1 << 63) + 1)
    raw = format_reader.clock(batch.sources[0])[2]
    m.time_min, m.time_span = (first - raw + (1 << 63)) % (1 << 64) - (1 << 63), max(times) - first
    d.groups = [group(make, batch, g) for g in batch.groups]
    d.thread_count = len(threads)
    d.group, d.cpu = make.numbers(batch.group, 4), make.numbers(batch.cpu, 2)
    d.time = make.numbers([t & format_notation.MASK64 for t in batch.time], 8, first=first)
    d.thread = make.numbers([threads.index(pair) for pair in zip(batch.pid, batch.tid)], 4)
    d.source = make.numbers(batch.source, 2) if any(batch.source) else None
    d.sequence = make.numbers([rng.randrange(1 << 64) for _ in range(n)], 8) if rng.randrange(2) else None
    d.thread_pids, d.thread_tids = (make.numbers([t[k] for t in threads], 4) for k in (0, 1))
    d.dictionaries = [message("Dictionary", count=len(shared), values=make.rows(shared, in_values=True))] if shared else []
    put(rng, m, d, used)
    records = list(batch.records())
    m.checksum = format_reader.checksum(records)
    used |= {name for name in ("source", "sequence") if getattr(d, name)}
    return written(rng, m, "Batch", used), records


def split_fields(batch, g):
    """The leading fields that all events of a group have whole, column by column."""
    split = [g.description.split(batch.body[i]["payload"]) for i in g.rows]
    return [[fields[k] for fields in split] for k in range(min(map(len, split)))]


def group(make, batch, g):
    rng, bodies = make.rng, [batch.body[i] for i in g.rows]
    bases = {TIME: [batch.time[i] for i in g.rows], PID: [batch.pid[i] for i in g.rows], TID: [batch.tid[i] for i in g.rows]}
    made = message("Group", class_hash=g.description.hash[:16], header=g.message.header,
                   count=0 if g.count == 1 and rng.randrange(2) else g.count)
    made.items = [message("Item", type=kind, linkage=linkage, data=make.rows([b["items"][k][2] for b in bodies], bases=bases))
                  for k, (kind, linkage, _) in enumerate(bodies[0]["items"])]
    fields = split_fields(batch, g)
    fields = fields[:rng.randrange(len(fields) + 1)]
    made.fields = [make.rows(rows, bases=bases) for rows in fields]
    rest = [b["payload"][sum(len(rows[r]) for rows in fields):] for r, b in enumerate(bodies)]
    made.payload = make.rows(rest, bases=bases) if any(rest) or rng.randrange(2) else None
    for name, width in (("kernel_time", 4), ("user_time", 4)):
        values = [b[name] for b in bodies]
        setattr(made, name, make.numbers(values, width, bases) if any(values) or rng.randrange(2) else None)
    activities = [b["activity_id"] for b in bodies]
    made.activity = make.fixed(activities, 16, True) if any(map(any, activities)) or rng.randrange(2) else None
    return made


def put(rng, m, d, used):
    """Places all columns' data, and packs frames and directory."""
    frames = [b""] * rng.randrange(1, 4)
    for g in d.groups:
        for column in (*(item.data for item in g.items), g.kernel_time, g.user_time, g.activity, *g.fields, g.payload):
            if column is not None:
                place(column, frames, rng)
    for name in ("group", "time", "cpu", "thread", "source", "sequence", "thread_pids", "thread_tids"):
        if getattr(d, name) is not None:
            place(getattr(d, name), frames, rng)
    for dictionary in d.dictionaries:
        place(dictionary.values, frames, rng)
    d.pool = frames[0]
    for data in frames[1:]:
        used.add("frame")
        m.frames.append(message("Frame", data=compressed(data), raw_bytes=len(data)) if data and rng.randrange(2) else message("Frame", data=data))
    m.directory = written(rng, d, "Directory", used)
    if rng.randrange(2):
        m.directory, m.directory_bytes = compressed(m.directory), len(m.directory)


def whole(data, definitions):
    """A batch as the reader has it, without a context: its groups have headers of their own, predicted by those before them."""
    batch = format_reader.Batch(data, definitions)
    batch.own_sources, before = batch.sources, {}
    for g in batch.groups:
        header = g.header
        predicted = before or {"logger": batch.sources[0].logger & 0xffff}
        h = format_notation.parse(b"", "Header")
        for field, _ in format_reader.HEADER:
            base = predicted.get(field, 0)
            if field == "id":
                base = 0 if g.description.classic else g.description.code
            elif field == "opcode":
                base = g.description.code if g.description.classic else 0
            elif field in ("version", "pointer_size"):
                base = getattr(g.description, field)
            setattr(h, field, header[field] ^ base)
        if header["provider"] != g.description.provider:
            h.provider = header["provider"]
        g.message.header, before = h, header
    return batch


def test(env, checks, arguments):
    env.make_certificates()
    collector, used = env.new_collector().start(), set()
    poster = test_wire_python.Poster(env, collector)
    for trace, extra in TRACES:
        definitions = format_reader.Definitions()
        for number, data in enumerate(test_wire_python.captured(env, trace, extra)[:2], 1):
            batch = whole(data, definitions)
            if not batch.message.event_count:
                continue  # the closing batch of a stream
            for form in range(SOAK_FORMS if arguments.soak else FORMS):
                rng, name = random.Random(f"{trace}.{number}.{form}"), f"{trace}, batch {number}, form {form}"
                changed, records = formed(rng, batch, used)
                try:
                    again = format_reader.Batch(changed)
                    again.verify()
                    got = list(again.records())
                except format_notation.Broken as broken:
                    checks.that(False, f"{name}: the reader says '{broken}'")
                    continue
                checks.that(got == records, f"{name}: other records")
                cause = poster.cause(changed)
                checks.that(cause is None, f"{name}: the collector refused it with {cause}")
    wanted = {*NAMES.values(), "base 1", "base 2", "base 3", "base 4", "shared", "list", "frame", "source", "sequence", "unknown field",
              "number twice", "bytes twice", "wide number"}
    checks.equal(wanted - used, set(), "forms that none of them had")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
