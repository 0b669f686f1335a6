"""Batches that break the rules of proto/wire/FORMAT.md and proto/event/DESCRIPTIONS.md, one rule each, for test_wire_python.py: what is
changed in a sound batch (a Draft), the section that forbids it, and how. What a collector keeps a batch without a look at is in KEPT.
"""
import hashlib
import types

import format_reader
import uploads
from format_reader import BITS, CONSTANT, DICTIONARY, PLAIN, STRUCT, VARINT

MIB = 1 << 20
# rules for writers that no reader has to check, and what a collector keeps a batch without
KEPT = ("a field that is not the description's", "a ledger with a value less", "a ledger that does not balance", "a ledger that stands there twice")


def message(kind, /, **members):
    made = format_reader.parse(b"", kind)
    vars(made).update(members)
    return made


def column(**members):
    return message("Column", **members)


def batch(**members):
    return lambda b: vars(b.batch).update(members)


def directory(**members):
    return lambda b: vars(b.d).update(members)


def last_group(change):
    return lambda b: change(b.d.groups[-1])


# ---- class descriptions ---------------------------------------------------------------------------------------------------

def text(value):
    return uploads._varint(len(value)) + value


def field(name=b"f", kind=5, semantic=0, count=1, count_field=0, map_=0, members=0, attributes=0):
    return text(name) + bytes([kind, semantic]) + b"".join(map(uploads._varint, (count, count_field, map_, members))) + bytes([attributes])


def map_of(name=b"m", is_flags=0, entries=()):
    return text(name) + bytes([is_flags]) + uploads._varint(len(entries)) + b"".join(uploads._varint(value) + text(name) for value, name in entries)


def described(format_=1, kind=0, status=0, flags=0, pointer_size=8, code=1, name=b"", maps=(), fields=(), behind=b"", counts=None):
    """A description. counts: of maps and fields, where they are others than there are."""
    map_count, field_count = counts or (len(maps), len(fields))
    return bytes([format_, kind, status, flags, pointer_size, 0]) + uploads._varint(code) + bytes(16) + text(b"") + text(name) + \
        uploads._varint(map_count) + b"".join(maps) + uploads._varint(field_count) + b"".join(fields) + behind


def of_class(data):
    """The last group's events are of the class that this describes."""
    def change(b):
        b.batch.descriptions.append(data)
        b.d.groups[-1].class_hash = hashlib.sha256(data).digest()[:16]
    return change


def descriptions():
    notes, keyword = text(b"") * 5, uploads._varint(1) + text(b"k")
    nested = [field(kind=48, members=1)] * 18 + [field()]
    for what, section, data in (
            ("a description too long", "Bounds", described(maps=[map_of(entries=[(0, b"x" * 1000)] * 300)])),
            ("a description of format 3", "Layout", described(3)),
            ("a kind of 3", "Layout", described(kind=3)),
            ("a status of 3", "Layout", described(status=3)),
            ("an unfolded class of format 1", "Layout", described(flags=2)),
            ("a pointer size of 5", "Layout", described(pointer_size=5)),
            ("a code of 17 bits", "Layout", described(code=65536)),
            ("257 maps", "Layout", described(maps=[map_of()] * 257)),
            ("513 fields", "Layout", described(fields=[field()] * 513)),
            ("a byte behind a description", "Notation", described(behind=b"\0")),
            ("a description that ends inside a field", "Layout", described()[:10]),
            ("65 keywords", "Layout", described(2, behind=notes + uploads._varint(65) + keyword * 65)),
            ("a text of 1,025 bytes", "Notation", described(name=b"x" * 1025)),
            ("a NUL in a text", "Notation", described(name=b"a\0b")),
            ("a text that is no UTF-8", "Notation", described(name=b"\xff")),
            ("a map of neither values nor flags", "Layout", described(maps=[map_of(is_flags=2)])),
            ("an unknown type", "Types", described(fields=[field(kind=99)])),
            ("an array of none", "Layout", described(fields=[field(count=0)])),
            ("a map that is not there", "Layout", described(fields=[field(map_=1)])),
            ("a map of a text", "Layout", described(maps=[map_of()], fields=[field(kind=40, map_=1)])),
            ("members of a number", "Layout", described(fields=[field(members=1), field()])),
            ("a hidden field of format 1", "Layout", described(fields=[field(attributes=2)])),
            ("structs 18 deep", "Layout", described(fields=nested)),
            ("a count behind its array", "Layout", described(fields=[field(count_field=2), field()])),
            ("a count that is a text", "Layout", described(fields=[field(kind=40), field(count_field=1)])),
            ("a struct without its members", "Layout", described(fields=[field(kind=48, members=2), field()]))):
        yield what, "Bounds" if section == "Bounds" else f"DESCRIPTIONS, {section}", of_class(data)


# ---- columns --------------------------------------------------------------------------------------------------------------

def source_is(made, data=b"", shared=()):
    """The directory's `source` is that column, with its data in a frame of its own; shared: rows of a shared dictionary."""
    def change(b):
        b.batch.frames.append(message("Frame", data=data))
        made.frame = len(b.batch.frames)
        b.d.source, b.d.dictionaries = made, list(shared)
    return change


def payload_is(made):
    """The payloads of the group that has most events, whose data was in a frame of its own."""
    def change(b):
        group = max(b.d.groups, key=lambda g: g.count)
        b.d.groups = [group]
        vars(group).update(fields=[], items=[], kernel_time=None, user_time=None, activity=None, payload=made, count=b.batch.event_count)
        for name in ("group", "time", "cpu", "thread", "thread_pids", "thread_tids"):
            setattr(b.d, name, column())
        b.d.pool, b.batch.frames = b"", []
    return change


def lengths_of_shared(first, rows):
    """A list in the payload's place whose `lengths` are the 8-byte rows of a shared dictionary: as many elements as `first` says in the first
    event, and such a number in each other that the sum modulo 2⁶⁴ is that of `rows` elements."""
    def change(b):
        count = b.batch.event_count
        second = (rows - first) * pow(count - 1, -1, 1 << 64) % (1 << 64) if count % 2 == 0 else 0
        payload_is(column(lengths=column(encoding=DICTIONARY, shared=1, frame=1), constant=b"A"))(b)
        values = column(encoding=PLAIN, width=8, frame=2)
        b.batch.frames = [message("Frame", data=bytes([0] + [1] * (count - 1))),
                          message("Frame", data=first.to_bytes(8, "little") + second.to_bytes(8, "little"))]
        b.d.dictionaries = [message("Dictionary", count=2, values=values)]
    return change


def items_are(data):
    """Each event has an extended item that is this constant."""
    def change(b):
        for g in b.d.groups:
            g.items.append(message("Item", type=8, data=column(constant=data)))
    return change


# what the collector has to say of some of them: the rule that was broken, and no other that the same batch happens to break
REASONS = {
    "shared rows of another width": "the rows of its dictionary have another width than the column",
    "lengths of 8 bytes in a shared dictionary": "the rows of its dictionary have another width than the column",
    "more elements than are allowed": "a list of more than 67108864 elements",
    "more payload than is allowed": "payloads of more than 67108864 bytes",
    "an extended item too long": "an extended item is longer than 65,535 bytes",
    "64 KiB of unknown fields": "fields that are not known here have 65538 bytes, at most 65536 are allowed",
    "64 KiB of fields that are passed over": "fields that are not known here have 80010 bytes",
    "64 KiB of unknown fields in a frame": "fields that are not known here have 65541 bytes",
    "64 KiB of unknown fields in the directory": "read a batch's directory: fields that are not known here have",
    "more extended items than are allowed": "extended items of more than 67108864 bytes",
}


def columns():
    one, three = column(constant=b"\0\0"), column(constant=b"123")
    # of a width that `source` has not, although every row names the source that is there
    shared = [message("Dictionary", count=1, values=column(constant=b"\0"))]
    for what, section, change in (
            ("a VARINT that does not fit", "Columns", lambda b: source_is(column(encoding=VARINT, bytes=3 * b.batch.event_count), b"\xff\xff\x07" * b.batch.event_count)(b)),
            ("an index beyond its dictionary", "Bounds",
             lambda b: source_is(column(encoding=DICTIONARY, value_count=3, planes=2, values=column(constant=b"\0\0")), b"\xff" * (b.batch.event_count * 2 // 8)
                                 + bytes([(1 << b.batch.event_count * 2 % 8) - 1] if b.batch.event_count * 2 % 8 else []))(b)),
            ("bits behind the last element", "Columns", lambda b: source_is(
                column(encoding=BITS, planes=1), bytes(b.batch.event_count // 8) + b"\x80" * (b.batch.event_count % 8 != 0))(b)),
            ("shared rows of another width", "Columns", source_is(column(encoding=DICTIONARY, shared=1), shared=shared)),
            ("a shared dictionary inside a dictionary", "Columns",
             source_is(column(encoding=DICTIONARY, value_count=1, values=column(encoding=DICTIONARY, shared=1)), shared=shared)),
            ("shared values and own ones", "Columns", source_is(column(encoding=DICTIONARY, shared=1, value_count=1), shared=shared)),
            ("bits of a single value's index", "Columns", source_is(column(encoding=DICTIONARY, value_count=1, planes=1, values=one))),
            ("a shared dictionary without values", "The directory", directory(dictionaries=[message("Dictionary", count=1)])),
            ("too many shared values", "Bounds", directory(dictionaries=[message("Dictionary", count=262145, values=three)])),
            ("a list where a width is implied", "Columns", source_is(column(lengths=column(constant=b"\1")))),
            ("`planes` of a constant", "Columns", source_is(column(planes=1))),
            ("a struct without members", "Columns", payload_is(column(encoding=STRUCT))),
            ("relative elements of 16 bytes", "Columns", payload_is(column(encoding=CONSTANT, width=16, relative_to=1))),
            ("plain elements without a width", "Columns", payload_is(column(encoding=PLAIN))),
            ("VARINT of 16 bytes", "Columns", payload_is(column(encoding=VARINT, width=16))),
            ("relative to the time inside a struct", "Columns", payload_is(column(encoding=STRUCT, children=[column(width=4, relative_to=2)]))),
            ("more elements than are allowed", "Bounds", payload_is(column(lengths=column(constant=b"\xff\xff\xff\x7f")))),
            ("larger structs than are allowed", "Bounds", payload_is(column(encoding=STRUCT, children=[column(constant=bytes(32700))] * 2))),
            ("lengths of 8 bytes in a shared dictionary", "Columns", lengths_of_shared(200000, 5)),
            ("an extended item too long", "Bounds", items_are(bytes(65536))),
            ("more extended items than are allowed", "Bounds", items_are(bytes(65535))),
            ("more payload than is allowed", "Bounds", payload_is(column(constant=bytes(65535))))):
        yield what, section, change


# ---- envelopes, sources, frames -------------------------------------------------------------------------------------------

def frame(data, raw_bytes):
    return lambda b: b.batch.frames.append(message("Frame", data=data, raw_bytes=raw_bytes))


def source(**members):
    return lambda b: vars(b.batch.sources[0]).update(members)


def without_events(**members):
    """A batch without events, as far as it is none."""
    def change(b):
        vars(b.batch).update({"event_count": 0, "checksum": 0, "frames": [], "sources": [], "time_min": 0, "time_span": 0, **members})
        if "directory" not in members:
            b.directory = b""
    return change


def envelopes(zstd):
    grave = message("Tombstone", first=1, last=1, cause=15)
    label = message("Label", name="n", value="v")
    ledger = uploads._bytes(14, b"")
    for what, section, change in (
            ("a field with the number 0", "The batch", lambda b: vars(b).update(tail=b"\0\0")),
            ("a number in place of bytes", "The batch", lambda b: vars(b).update(tail=uploads._number(2, 5))),
            ("bytes in place of a number", "The batch", lambda b: vars(b).update(tail=uploads._bytes(3, b"x"))),
            (KEPT[3], "The batch", lambda b: vars(b).update(tail=ledger + ledger)),
            ("64 KiB of unknown fields", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(999, bytes(65533)))),
            ("64 KiB of fields that are passed over", "Bounds", batch(agent="a" * 40000, host="h" * 40000)),
            ("64 KiB of unknown fields in a frame", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(11, uploads._bytes(999, bytes(65536))))),
            ("64 KiB of unknown fields in the directory", "Bounds", lambda b: vars(b).update(directory_tail=uploads._bytes(999, bytes(65536)))),
            ("a batch of 17 MiB", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(999, bytes(17 * MIB)))),
            ("4,097 shapes", "Bounds", batch(shapes=[b""] * 4097)),
            ("65 contexts", "Bounds", batch(contexts=[b""] * 65)),
            ("4,097 sources", "Bounds", lambda b: vars(b.batch).update(sources=b.batch.sources * 4097)),
            ("a shape too large", "Bounds", batch(shapes=[bytes(65537)])),
            ("a context too large", "Bounds", batch(contexts=[bytes(65537)])),
            ("a zstd dictionary too large", "Bounds", batch(dictionaries=[bytes(262145)])),
            ("frames larger than are allowed", "Bounds", frame(zstd(bytes(65 * MIB)), 65 * MIB)),
            ("a frame that says another size", "Frames and the pool", frame(zstd(b"content"), 8)),
            ("a byte behind a zstd frame", "Frames and the pool", frame(zstd(b"content") + b"\0", 7)),
            ("16,385 groups", "Bounds", lambda b: b.d.groups.extend(b.d.groups[-1:] * 16385)),
            ("a checksum of nothing", "The batch", without_events(checksum=1)),
            ("a tombstone that names none", "Tombstones", without_events(kind=1)),
            ("a tombstone with a directory", "Tombstones", without_events(kind=1, tombstones=[grave], directory=None)),
            ("a tombstone with a source", "Tombstones", lambda b: without_events(kind=1, tombstones=[grave], sources=b.batch.sources)(b)),
            ("33 labels", "Sources", source(labels=[message("Label", name=f"n{i}") for i in range(33)])),
            ("a label twice", "Sources", source(labels=[label, label])),
            ("a label without a name", "Bounds", source(labels=[message("Label", value="v")])),
            ("a label's name of 65 bytes", "Bounds", source(labels=[message("Label", name="n" * 65)])),
            ("a label's value of 257 bytes", "Bounds", source(labels=[message("Label", name="n", value="v" * 257)])),
            ("a version of 65 bytes", "Bounds", source(agent_version="v" * 65)),
            ("processor times of the directory and of a group", "The directory",
             lambda b: (directory(kernel_time=column())(b), vars(b.d.groups[0]).update(kernel_time=column()))),
            ("an item without data", "Groups", last_group(lambda g: g.items.append(message("Item", type=1))))):
        yield what, section, change


def small():
    """Of a batch with a context, whose groups have shapes."""
    def own_item(**members):
        return lambda b: next(g for g in b.d.groups if g.items).items[-1].__dict__.update(members)

    deep = b"\0" + uploads._varint(0) * 3 + uploads._varint(128) * 9
    for what, section, change in (
            ("a shape for no group", "Contexts", lambda b: vars(b.batch).update(context=b.batch.context + b"\0")),
            ("a class beside a shape", "Shapes", last_group(lambda g: vars(g).update(class_hash=bytes(16)))),
            ("a header beside a shape", "Shapes", last_group(lambda g: vars(g).update(header=message("Header")))),
            ("more items than the shape", "Shapes", last_group(lambda g: g.items.append(message("Item", data=column())))),
            ("an item with a type beside a shape", "Shapes", own_item(type=1)),
            ("a short directory with columns 9 deep", "Short directories", lambda b: vars(b).update(directory=deep)),
            ("a short directory of no size", "Short directories", lambda b: vars(b).update(directory=b"\1\0")),
            ("a short directory too large", "Bounds", lambda b: vars(b).update(directory=b"\0" + bytes(131073)))):
        yield what, section, change
