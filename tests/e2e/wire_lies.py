"""Batches that break the rules of proto/wire/FORMAT.md and proto/event/DESCRIPTIONS.md, one rule each, for test_wire_python.py: what is
changed in a sound batch (a Draft), the section that forbids it, and how. What a collector keeps a batch without a look at is in KEPT.
"""
import hashlib
import types

import format_notation
import uploads
from format_columns import BITS, CONSTANT, DICTIONARY, PLAIN, VARINT

MIB = 1 << 20
# rules for writers that no reader has to check, and what a collector keeps a batch without
KEPT = ("a field that is not the description's", "a ledger with a value less", "a ledger that does not balance", "a ledger that is there twice",
        "a ledger too large")
# what is wrong about them is the checksum or the times themselves
OF_THE_CHECKSUM = ("a checksum of other records", "a checksum of 0", "a longer time", "a checksum of nothing")
# their records cannot be made here: 2 GiB of elements, 64 MiB and more of rows
TOO_LARGE = ("more elements than are allowed", "more rows than are allowed", "lengths of 8 bytes in a shared dictionary",
             "more events than are allowed")

# what the collector has to say of each: the rule that was broken, and no other that the same batch happens to break
REASONS = {
    "a checksum of other records": "its checksum is ",
    "a checksum of 0": "its checksum is ",
    "another format": "it is of format 2, only 1 is known",
    "another kind": "kind 3 is not known",
    "no number": "its number is 0, expected 1 to 9223372036854775806",
    "a number beyond all": "its number is 9223372036854775807, expected 1 to 9223372036854775806",
    'a short stream name': "a stream's id has 16 bytes, this one 15",
    "more events than are allowed": "262145 events, at most 262144 are allowed",
    "one event more": "its groups have fewer events than the batch",
    "one event less": "its groups have more events than the batch",
    "a priority of 256": "a priority is at most 255, this one 256",
    "a tombstone with events": "a batch of kind 1 has events",
    "no source": "it has events, and no source",
    "a context that does not exist": "a context, sources, shapes or a dictionary that it names are nowhere",
    "a source that does not exist": "a context, sources, shapes or a dictionary that it names are nowhere",
    "no descriptions": "class descriptions are missing",
    "too many sources": "a context names 4097 sources, at most 4096",
    "a longer time": "its times are ",
    "a byte after the columns": "frame 0 has 1 bytes of no column",
    "a byte less of the columns": "frame 0 is too short for it",
    "a frame that no column uses": "has 1 bytes of no column",
    "a frame that is no zstd": "is not one zstd frame of ",
    "a column in no frame": "it is in frame 77 of ",
    "an unknown encoding": "encoding 7 is not known",
    "an unknown base": "base 5 is not known",
    "PLAIN that is relative": "plain elements are relative",
    "another width than the place's": 'its width is not the one of its place',
    "relative to the time outside groups": "it is relative to events where there are none",
    "`bytes` where the rows say it": "its size follows from its rows, but is given, too",
    "`planes` beyond the width": "3 planes of elements of 2 bytes",
    "no bits": "0 bits of an element, expected 1 to 16",
    "a constant beyond its width": "a constant of 3 bytes, its elements have 2",
    "a shared dictionary that is not there": "it names shared dictionary 1 of 0",
    "a dictionary without values": "a dictionary without values",
    "a dictionary of too many values": "a dictionary of 1048576 values, at most 262144 are allowed",
    "no group column": "a column that every batch has is missing",
    "no thread column": "a column that every batch has is missing",
    'a source beyond the table': "an event's source is not in its table",
    "more threads than events": " threads, at most ",
    "groups in another order": "a group has more events than it says",
    "groups that do not follow their first events": "its groups are not in the order of their first events",
    "a group of one more": "its groups have more events than the batch",
    'a class by a short hash': "a class's hash has 16 bytes, this one 15",
    "a class without a description": "1 class descriptions are missing",
    "more fields than the class has": "fields, and its class ",
    "65 items": "a group of 65 extended items, at most 64 are allowed",
    "an item's type of 17 bits": "an extended item's type or linkage exceeds 16 bits",
    "a version of 9 bits": "a number of a header exceeds its member of the record",
    "a provider of 15 bytes": "a provider has 16 bytes, this one 15",
    'a short name of a context': "a context's name has 8 bytes, this one 7",
    "shapes for none": "not each group has a shape",
    "a shape that does not exist": "a context, sources, shapes or a dictionary that it names are nowhere",
    'a shape beyond the context': "a group's shape is not in the context",
    "a context without sources": "a context without sources",
    'half a name of a shape': "a context's names of shapes have 8 bytes each, these have 12",
    'a priority of 256 in a context': "a priority is at most 255, a context's is 256",
    "a dictionary without a context": "a dictionary without a context",
    "a payload too long": "a payload is longer than 65,535 bytes",
    "a tombstone that ends before it begins": "a tombstone for 2 to 1, which is no range of numbers",
    "a tombstone beyond all numbers": "a tombstone for 1 to 9223372036854775807, which is no range of numbers",
    "too many shared dictionaries": "65 shared dictionaries, at most 64 are allowed",
    "messages 20 deep": "messages are nested too deep",
    "a message that ends inside a field": "it is no protobuf message",
    "a number of 65 bits": "it is no protobuf message",
    "a description too long": "bytes: at most 262144 are allowed",
    "a description of format 3": "of format 3: this version reads formats 1 and 2",
    "a kind of 2": "its kind is not known",
    "a status of 3": "its status is not known",
    "an unfolded class of format 1": "an unfolded class does not end with its payload",
    "a pointer size of 5": "a pointer has neither 4 nor 8 bytes",
    "a code of 17 bits": "its code exceeds 16 bits",
    "257 maps": "it has too many maps",
    "513 fields": "it has too many fields",
    "a byte after a description": "there are bytes after its end",
    "a description that ends inside a field": "it ends early",
    "65 keywords": "it has too many keywords",
    "a text of 1,025 bytes": "a name is too long",
    "a NUL in a text": "a name has a NUL in it",
    "a map of neither values nor flags": "a map is neither of values nor of flags",
    'an unknown type': "a field's type is not known",
    "an array of none": "an array has no elements",
    'a map that is not there': "a field's map does not exist",
    "a map of a text": "a field with a map is no integer",
    "members of a number": "a struct has no members, or a plain field has some",
    "a hidden field of format 1": "a field has unknown attributes",
    "structs 18 deep": "structs are nested too deep",
    "a count after its array": "a count field is not before its array",
    'a count that is a text': "an array's count is no plain number beside it",
    "a struct without its members": "a struct has more members than there are fields",
    "a VARINT that does not fit": "a number is too large for its width",
    "an index beyond its dictionary": "an index beyond its dictionary",
    "bits after the last element": "there are bits after its last element",
    "shared rows of another width": "the rows of its dictionary have another width than the column",
    'a shared dictionary inside a dictionary': "a dictionary's values name a shared dictionary",
    "shared values and own ones": "it names a shared dictionary, and has values of its own",
    "bits of a single value's index": 'indexes of 1 bits into 1 values',
    "a shared dictionary without values": "a shared dictionary without values",
    "too many shared values": "a shared dictionary of 262145 values, at most 262144 are allowed",
    "a list where a width is implied": "a list is where numbers are expected",
    "`planes` of a constant": "an encoding without planes says how many there are",
    "relative elements of 16 bytes": "relative elements of 16 bytes, expected 1 to 8",
    "plain elements without a width": "plain elements have no width",
    "VARINT of 16 bytes": "numbers of 16 bytes, expected 1 to 8",
    "relative to the time inside a dictionary": "it is relative to events where there are none",
    "more elements than are allowed": "a list of more than 67108864 elements",
    "lengths of 8 bytes in a shared dictionary": "the rows of its dictionary have another width than the column",
    "VARINTs that leave a byte": "its numbers do not fill its bytes",
    "a list whose lengths are not its elements": "its elements do not fill its bytes",
    "an event of no group": "an event is of group 1, there are 1",
    'an event of no thread': "an event's thread is not in its table",
    "an extended item too long": "an extended item is longer than 65,535 bytes",
    "more extended items than are allowed": "extended items of more than 67108864 bytes",
    "more rows than are allowed": "it asks for more work than its",
    "more payload than is allowed": "payloads of more than 67108864 bytes",
    "a field with the number 0": "it is no protobuf message",
    "a number in place of bytes": "field 2 has the wire type 0, expected 2",
    "bytes in place of a number": "field 3 has the wire type 2, expected 0",
    "a tombstone too large": "a tombstone of 80002 bytes, at most 65536 are allowed",
    "a source too large": "a source of 65540 bytes, at most 65536 are allowed",
    "a column that is there twice": "a field that holds one message is there twice",
    "a batch of 17 MiB": "413 Request Entity Too Large",
    "4,097 shapes": "4097 shapes, at most 4096 are allowed",
    "65 contexts": "65 contexts, at most 64 are allowed",
    "4,097 sources": "4097 sources, at most 4096 are allowed",
    "16,385 class descriptions": "16385 class descriptions, at most 16384 are allowed",
    "262,145 tombstones": "262145 tombstones, at most 262144 are allowed",
    "17 zstd dictionaries": "17 dictionaries, at most 16 are allowed",
    "a shape too large": "a definition of kind 22 of 65537 bytes, at most 65536 are allowed",
    "a context too large": "a definition of kind 25 of 65537 bytes, at most 65536 are allowed",
    "a zstd dictionary too large": "a definition of kind 24 of 262145 bytes, at most 262144 are allowed",
    "frames larger than are allowed": "decompressed it is larger than 67108864 bytes",
    "a frame that says another size": "is not one zstd frame of ",
    "a byte after a zstd frame": "is not one zstd frame of ",
    "a second zstd frame after the first": "is not one zstd frame of ",
    "a damaged frame that only an unused dictionary has": "Dictionary is corrupted",
    "16,385 groups": "groups, at most 16384 are allowed",
    "a checksum of nothing": "a checksum of no events",
    "a directory of nothing": "a directory or a frame without events",
    "a tombstone that names none": "a batch of kind 1 holds no tombstone",
    "a tombstone with a directory": "a batch of kind 1 has a directory, a frame, a source or a context",
    "a tombstone with a source": "a batch of kind 1 has a directory, a frame, a source or a context",
    "33 labels": "33 labels, a version of 5 bytes",
    "a number of 65 bits in a source": "a source: it is no protobuf message",
    "a label twice": "a label is there twice",
    "a label without a name": "a label with a name of 0 and a value of 1 bytes",
    "a label's name of 65 bytes": 'a label with a name of 65 and a value of 0 bytes',
    "a label's value of 257 bytes": 'a label with a name of 1 and a value of 257 bytes',
    "a version of 65 bytes": "0 labels, a version of 65 bytes",
    "processor times of the directory and of a group": "a group has a column that the batch has for all events",
    "an item without data": "an extended item without data",
    "a shape for no group": "more shapes than groups",
    "a class beside a shape": "a group has a shape and a class",
    "a header beside a shape": "a group has a shape and a header",
    "more items than the shape": "a group has more items than its shape",
    "an item with a type beside a shape": "an item has a type or linkage, and is in a group that has a shape",
    "a shape's item that is no constant": "a shape's item is no constant",
    "a short directory with columns 9 deep": "columns nested too deep",
    "a short directory with a group of none": "a group without events",
    "a short directory with a flag too many": "a number of a short directory is too large, or after its end",
    "a short directory that ends inside a constant": "a short directory ends inside a constant",
    "a short directory of no size": "it is short, and does not say its size",
    "a short directory too large": "a short one has at most 131072 bytes",
    "64 KiB of unknown fields": "fields that are not known here have 65538 bytes, at most 65536 are allowed",
    "64 KiB of reserved fields": "fields that are not known here have 80010 bytes",
    "64 KiB of unknown fields in a frame": "fields that are not known here have 65541 bytes",
    "64 KiB of unknown fields in the directory": "read a batch's directory: fields that are not known here have",
}
# of these no records can be made, whatever one believes: they have the checksum of the sound batch, and are refused before it is compared
WITHOUT_RECORDS = (
    "one event more", "no source", "a context that does not exist", "a source that does not exist", "no descriptions", "too many sources",
    "a byte less of the columns", "a column in no frame", "an unknown encoding", "an unknown base", "relative to the time outside groups",
    "a constant beyond its width", "a shared dictionary that is not there", "a dictionary without values",
    "a dictionary of too many values", "no group column", "no thread column", "a source beyond the table", "more threads than events",
    "groups in another order", "a class by a short hash", "a class without a description", "an item's type of 17 bits",
    "a version of 9 bits", "a short name of a context", "shapes for none", "a shape that does not exist", "a shape beyond the context",
    "a context without sources", "half a name of a shape", "a priority of 256 in a context", "a dictionary without a context",
    "a payload too long", "too many shared dictionaries", "a message that ends inside a field", "a code of 17 bits",
    "a description that ends inside a field", "a struct without its members", "a VARINT that does not fit",
    "an index beyond its dictionary", "a shared dictionary inside a dictionary", "a shared dictionary without values",
    "plain elements without a width", "VARINT of 16 bytes", "relative to the time inside a dictionary", "an event of no group",
    "an event of no thread", "a number in place of bytes", "bytes in place of a number", "16,385 groups", "a tombstone that names none",
    "a directory of nothing", "a number of 65 bits in a source", "a tombstone with a directory", "a tombstone with a source", "an item without data", "a short directory with columns 9 deep",
    "a short directory with a flag too many", "a short directory that ends inside a constant",
    "a short directory of no size", "a short directory too large",)


def message(kind, /, **members):
    made = format_notation.parse(b"", kind)
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


def described(format_=1, kind=0, status=0, flags=0, pointer_size=8, code=1, name=b"", maps=(), fields=(), rest=b"", counts=None, provider_name=b""):
    """A description. counts: of maps and fields, where they are others than there are."""
    map_count, field_count = counts or (len(maps), len(fields))
    return bytes([format_, kind, status, flags, pointer_size, 0]) + uploads._varint(code) + bytes(16) + text(provider_name) + text(name) + \
        uploads._varint(map_count) + b"".join(maps) + uploads._varint(field_count) + b"".join(fields) + rest


def of_class(data):
    """A group's events get the class that data describes. Their fields and the rest of their payloads become extended items, whose data
    keeps the same order, so that the class may have any number of fields."""
    def change(b):
        b.batch.descriptions.append(data)
        group = next(g for g in b.d.groups if all(c.relative_to <= 1 for c in (*g.fields, g.payload) if c))
        group.class_hash = hashlib.sha256(data).digest()[:16]
        parts = [*group.fields, *([group.payload] if group.payload else [])]
        group.items += [message("Item", type=8, data=part) for part in parts]
        group.fields, group.payload = [], None
    return change


def reordered(b):
    """The first event is of the second group, and all others are of the first one."""
    payload_is(column())(b)
    n, group = b.batch.event_count, b.d.groups[0]
    b.d.groups = [group, message("Group", **{**vars(group), "count": 1})]
    group.count = n - 1
    b.d.group = column(encoding=PLAIN, frame=1)
    b.batch.frames = [message("Frame", data=(1).to_bytes(4, "little") + bytes(4 * (n - 1)))]


def packed_frame(zstd, change):
    """A frame of columns is compressed, and then changed."""
    def compress(b):
        one = b.batch.frames[0]
        one.raw_bytes, one.data = len(one.data), change(zstd(one.data))
    return compress


def unused_dictionary(**frame):
    """A shared dictionary that no column uses, whose values have their own frame."""
    def change(b):
        b.batch.frames.append(message("Frame", **frame))
        b.d.dictionaries.append(message("Dictionary", count=300, values=column(encoding=PLAIN, width=1, frame=len(b.batch.frames))))
    return change


def descriptions():
    notes, keyword = text(b"") * 5, uploads._varint(1) + text(b"k")
    nested = [field(kind=48, members=1)] * 18 + [field()]
    for what, section, data in (
            ("a description too long", "Bounds", described(maps=[map_of(entries=[(0, b"x" * 1000)] * 300)])),
            ("a description of format 3", "Layout", described(3)),
            ("a kind of 2", "Layout", described(kind=2)),
            ("a status of 3", "Layout", described(status=3)),
            ("an unfolded class of format 1", "Layout", described(flags=2)),
            ("a pointer size of 5", "Layout", described(pointer_size=5)),
            ("a code of 17 bits", "Layout", described(code=65536)),
            ("257 maps", "Layout", described(maps=[map_of()] * 257)),
            ("513 fields", "Layout", described(fields=[field()] * 513)),
            ("a byte after a description", "Notation", described(rest=b"\0")),
            ("a description that ends inside a field", "Layout", described()[:10]),
            ("65 keywords", "Layout", described(2, rest=notes + uploads._varint(65) + keyword * 65)),
            ("a text of 1,025 bytes", "Notation", described(name=b"x" * 1025)),
            ("a NUL in a text", "Notation", described(name=b"a\0b")),
            ("a map of neither values nor flags", "Layout", described(maps=[map_of(is_flags=2)])),
            ("an unknown type", "Types", described(fields=[field(kind=99)])),
            ("an array of none", "Layout", described(fields=[field(count=0)])),
            ("a map that is not there", "Layout", described(fields=[field(map_=1)])),
            ("a map of a text", "Layout", described(maps=[map_of()], fields=[field(kind=40, map_=1)])),
            ("members of a number", "Layout", described(fields=[field(members=1), field()])),
            ("a hidden field of format 1", "Layout", described(fields=[field(attributes=2)])),
            ("structs 18 deep", "Layout", described(fields=nested)),
            ("a count after its array", "Layout", described(fields=[field(count_field=2), field()])),
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


def rows_of_shared(count, members):
    """The payloads are the first row of a shared dictionary of so many lists with so many elements each, which are constants."""
    def change(b):
        payload_is(column(encoding=DICTIONARY, shared=1, planes=1, frame=1))(b)
        b.batch.frames = [message("Frame", data=bytes((b.batch.event_count + 7) // 8))]
        b.d.dictionaries = [message("Dictionary", count=count, values=column(lengths=column(constant=bytes([members])), constant=b"z"))]
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


def of_number(name, number):
    """That is what the column says in each event; all other columns are constants."""
    def change(b):
        payload_is(column())(b)
        setattr(b.d, name, column(constant=number(b).to_bytes(4, "little")))
    return change


def columns():
    one, three = column(constant=b"\0\0"), column(constant=b"123")
    # of a width that `source` has not, although every row names the source that is there
    shared = [message("Dictionary", count=1, values=column(constant=b"\0"))]
    for what, section, change in (
            ("a VARINT that does not fit", "Columns", lambda b: source_is(column(encoding=VARINT, bytes=3 * b.batch.event_count), b"\xff\xff\x07" * b.batch.event_count)(b)),
            ("an index beyond its dictionary", "Bounds",
             lambda b: source_is(column(encoding=DICTIONARY, value_count=3, planes=2, values=column(constant=b"\0\0")), b"\xff" * (b.batch.event_count * 2 // 8)
                                 + bytes([(1 << b.batch.event_count * 2 % 8) - 1] if b.batch.event_count * 2 % 8 else []))(b)),
            ("bits after the last element", "Columns", lambda b: source_is(
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
            ("relative elements of 16 bytes", "Columns", payload_is(column(encoding=CONSTANT, width=16, relative_to=1))),
            ("plain elements without a width", "Columns", payload_is(column(encoding=PLAIN))),
            ("VARINT of 16 bytes", "Columns", payload_is(column(encoding=VARINT, width=16))),
            ("relative to the time inside a dictionary", "Columns", payload_is(column(encoding=DICTIONARY, value_count=1, values=column(width=4, relative_to=2)))),
            ("more elements than are allowed", "Bounds", payload_is(column(lengths=column(constant=b"\xff\xff\xff\x7f")))),
            ("lengths of 8 bytes in a shared dictionary", "Columns", lengths_of_shared(200000, 5)),
            ("VARINTs that leave a byte", "Columns", lambda b: source_is(column(encoding=VARINT, bytes=b.batch.event_count + 1), bytes(b.batch.event_count + 1))(b)),
            ("a list whose lengths are not its elements", "Bounds", payload_is(column(lengths=column(constant=b"\2"), encoding=PLAIN, width=1))),
            ("an event of no group", "Bounds", of_number("group", lambda b: len(b.d.groups))),
            ("an event of no thread", "Bounds", of_number("thread", lambda b: b.d.thread_count)),
            ("an extended item too long", "Bounds", items_are(bytes(65536))),
            ("more extended items than are allowed", "Bounds", items_are(bytes(65535))),
            ("more rows than are allowed", "Bounds", rows_of_shared(262144, 200)),
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
            ("a tombstone too large", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(15, uploads._number(1, 1) * 40000 + uploads._number(2, 1)))),
            (KEPT[4], "Bounds", batch(ledger=uploads._bytes(1, bytes(65536)))),
            ("a source too large", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(17, uploads._bytes(1, b"n" * 65536)))),
            ("a column that is there twice", "The batch", lambda b: vars(b).update(directory_tail=uploads._bytes(4, b""))),
            (KEPT[3], "The batch", lambda b: vars(b).update(tail=ledger + ledger)),
            ("64 KiB of unknown fields", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(999, bytes(65533)))),
            ("64 KiB of reserved fields", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(20, bytes(40000)) + uploads._bytes(21, bytes(40000)))),
            ("64 KiB of unknown fields in a frame", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(11, uploads._bytes(999, bytes(65536))))),
            ("64 KiB of unknown fields in the directory", "Bounds", lambda b: vars(b).update(directory_tail=uploads._bytes(999, bytes(65536)))),
            ("a batch of 17 MiB", "Bounds", lambda b: vars(b).update(tail=uploads._bytes(999, bytes(17 * MIB)))),
            ("4,097 shapes", "Bounds", batch(shapes=[b""] * 4097)),
            ("65 contexts", "Bounds", batch(contexts=[b""] * 65)),
            ("4,097 sources", "Bounds", lambda b: vars(b.batch).update(sources=b.batch.sources * 4097)),
            ("16,385 class descriptions", "Bounds", lambda b: b.batch.descriptions.extend([described()] * (16385 - len(b.batch.descriptions)))),
            ("262,145 tombstones", "Bounds", batch(tombstones=[grave] * 262145)),
            ("17 zstd dictionaries", "Bounds", batch(dictionaries=[b""] * 17)),
            ("a shape too large", "Bounds", batch(shapes=[bytes(65537)])),
            ("a context too large", "Bounds", batch(contexts=[bytes(65537)])),
            ("a zstd dictionary too large", "Bounds", batch(dictionaries=[bytes(262145)])),
            ("frames larger than are allowed", "Bounds", frame(zstd(bytes(65 * MIB)), 65 * MIB)),
            ("a frame that says another size", "Frames and the pool", frame(zstd(b"content"), 8)),
            ("a byte after a zstd frame", "Frames and the pool", packed_frame(zstd, lambda data: data + b"\0")),
            ("a second zstd frame after the first", "Frames and the pool", packed_frame(zstd, lambda data: data + zstd(b""))),
            ("a damaged frame that only an unused dictionary has", "Frames and the pool",
             unused_dictionary(raw_bytes=300, data=b"".join((zstd(bytes(range(100)) * 3)[:10], b"\xff" * (len(zstd(bytes(range(100)) * 3)) - 10))))),
            ("16,385 groups", "Bounds", lambda b: b.d.groups.extend(b.d.groups[-1:] * 16385)),
            ("a checksum of nothing", "The batch", without_events(checksum=1)),
            ("a directory of nothing", "The batch", without_events(directory=None)),
            ("a tombstone that names none", "Tombstones", without_events(kind=1)),
            ("a tombstone with a directory", "Tombstones", without_events(kind=1, tombstones=[grave], directory=None)),
            ("a tombstone with a source", "Tombstones", lambda b: without_events(kind=1, tombstones=[grave], sources=b.batch.sources)(b)),
            ("33 labels", "Sources", source(labels=[message("Label", name=f"n{i}") for i in range(33)])),
            ("a number of 65 bits in a source", "The batch", lambda b: vars(b).update(tail=uploads._bytes(17, b"\x10" + b"\xff" * 9 + b"\x02"))),
            ("a label twice", "Sources", source(labels=[label, label])),
            ("a label without a name", "Bounds", source(labels=[message("Label", value="v")])),
            ("a label's name of 65 bytes", "Bounds", source(labels=[message("Label", name="n" * 65)])),
            ("a label's value of 257 bytes", "Bounds", source(labels=[message("Label", name="n", value="v" * 257)])),
            ("a version of 65 bytes", "Bounds", source(agent_version="v" * 65)),
            ("processor times of the directory and of a group", "The directory",
             lambda b: (directory(kernel_time=column())(b), vars(b.d.groups[0]).update(kernel_time=column()))),
            ("an item without data", "Groups", last_group(lambda g: g.items.append(message("Item", type=1))))):
        yield what, section, change


def shape_behind(more):
    """The first shape that the context names has these bytes after it, and a name that is right."""
    def change(b):
        data = b.batch.contexts[0]
        old = next(s for s in b.batch.shapes if s and hashlib.sha256(s).digest()[:8] in data)
        b.batch.shapes = [s + more if s == old else s for s in b.batch.shapes]
        data = data.replace(hashlib.sha256(old).digest()[:8], hashlib.sha256(old + more).digest()[:8])
        b.batch.contexts, b.batch.context = [data], hashlib.sha256(data).digest()[:8] + b.batch.context[8:]
    return change


def small():
    """Of a batch with a context, whose groups have shapes."""
    def own_item(**members):
        return lambda b: next(g for g in b.d.groups if g.items).items[-1].__dict__.update(members)

    plain = uploads._varint(0) + uploads._varint(1) + uploads._varint(1) + bytes(2) * 6  # no flags, a thread, a group; six constants
    deep = b"\0" + uploads._varint(0) * 3 + uploads._varint(128) * 9
    for what, section, change in (
            ("a shape for no group", "Contexts", lambda b: vars(b.batch).update(context=b.batch.context + b"\0")),
            ("a class beside a shape", "Shapes", last_group(lambda g: vars(g).update(class_hash=bytes(16)))),
            ("a header beside a shape", "Shapes", last_group(lambda g: vars(g).update(header=message("Header")))),
            ("more items than the shape", "Shapes", last_group(lambda g: g.items.append(message("Item", data=column())))),
            ("an item with a type beside a shape", "Shapes", own_item(type=1)),
            ("a shape's item that is no constant", "Shapes",
             shape_behind(uploads._bytes(3, uploads._number(1, 1) + uploads._bytes(3, uploads._number(1, 1) + uploads._number(2, 1))))),
            ("a short directory with columns 9 deep", "Short directories", lambda b: vars(b).update(directory=deep)),
            ("a short directory with a group of none", "Short directories", lambda b: vars(b).update(directory=b"\0" + plain + b"\0\0")),
            ("a short directory with a flag too many", "Short directories", lambda b: vars(b).update(directory=b"\0" + uploads._varint(128))),
            ("a short directory that ends inside a constant", "Short directories", lambda b: vars(b).update(directory=b"\0" + bytes(3) + b"\0\x09ab")),
            ("a short directory of no size", "Short directories", lambda b: vars(b).update(directory=b"\1\0")),
            ("a short directory too large", "Bounds", lambda b: vars(b).update(directory=b"\0" + bytes(131073)))):
        yield what, section, change
