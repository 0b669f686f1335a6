"""A second reader of batches, written from the text alone: proto/wire/FORMAT.md, batch.proto (field numbers and types are read
from that file) and proto/event/DESCRIPTIONS.md. When a batch breaks a rule, the error names the section of the text that has
the rule. Nothing of the project's C code is used.

As a program it prints the records of batches as lines of JSON, with those keys of `etwagent dump --format raw` that a record has:
    tests/e2e/format_reader.py FILE.batch...
"""
import ctypes
import ctypes.util
import hashlib
import json
import pathlib
import re
import struct
import sys
import threading
import types

from xxh3 import xxh3

ROOT = pathlib.Path(__file__).resolve().parents[2]
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
MIB = 1 << 20


class Broken(Exception):
    """A rule of the text that a batch breaks: its section, and the rule."""

    def __init__(self, section, rule):
        super().__init__(f"{section}: {rule}")
        self.section, self.rule = section, rule


class Unknown(Broken):
    """A definition that the batch names and that is nowhere."""

    def __init__(self, kind, name):
        super().__init__("Definitions", f"the batch names {kind} {name.hex()}, which is not at hand")
        self.kind, self.name = kind, name


def need(condition, section, rule):
    if not condition:
        raise Broken(section, rule)


# ---- batch.proto ----------------------------------------------------------------------------------------------------------

def read_schema(path):
    """Messages {name: {number: (field, type, repeated)}} and enums {name: numbers} of a .proto file."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    messages, enums = {}, {}
    for name, body in re.findall(r"\benum\s+(\w+)\s*\{([^}]*)\}", text):
        enums[name] = {int(number) for number in re.findall(r"=\s*(\d+)\s*;", body)}
    for name, body in re.findall(r"\bmessage\s+(\w+)\s*\{([^}]*)\}", re.sub(r"\benum\s+\w+\s*\{[^}]*\}", "", text)):
        messages[name] = {int(number): (field, kind, bool(repeated))
                          for repeated, kind, field, number in re.findall(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*;", body)}
    return messages, enums


MESSAGES, ENUMS = read_schema(ROOT / "proto" / "wire" / "batch.proto")
VARINTS = ("uint32", "uint64", "bool", "sint32", "sint64")


def wire_type(kind):
    if kind in VARINTS or kind in ENUMS:
        return 0
    return 1 if kind in ("fixed64", "sfixed64") else 5 if kind == "fixed32" else 2


def varint(data, at, section="Notation"):
    """Reads one varint of data at the offset at. Returns its value and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        need(at < len(data), section, "a varint goes on after the end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            need(value <= MASK64, section, "a varint has more than 64 bits")
            return value, at
    raise Broken(section, "a varint has more than 64 bits")


def number(kind, raw):
    if kind in ("uint32", "fixed32") or kind in ENUMS:
        return raw & 0xffffffff
    if kind == "bool":
        return raw != 0
    if kind == "sint32":
        return unzigzag(raw & 0xffffffff)
    if kind == "sint64":
        return unzigzag(raw)
    if kind == "sfixed64":
        return raw - (1 << 64) if raw >> 63 else raw
    return raw


def parse(data, message, depth=0, most=100, raw=()):
    """A protobuf message as an object with every field of batch.proto: repeated ones are lists, absent messages None.
    raw: its fields whose messages stay bytes."""
    need(depth <= most, "Bounds", f"messages inside messages, at most {most} deep")
    fields = MESSAGES[message]
    found = types.SimpleNamespace()
    inside = set()
    found.unknown_bytes = 0
    for name, kind, repeated in fields.values():
        zero = None if kind in MESSAGES else b"" if kind == "bytes" else "" if kind == "string" else 0
        setattr(found, name, [] if repeated else zero)
    at = 0
    while at < len(data):
        begin = at
        tag, at = varint(data, at, "The batch")
        field, wire = tag >> 3, tag & 7
        need(field, "The batch", f"a {message} has a field with the number 0")
        if wire == 0:
            value, at = varint(data, at, "The batch")
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            need(len(data) - at >= size, "The batch", f"a {message} ends inside a field")
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        elif wire == 2:
            size, at = varint(data, at, "The batch")
            need(size <= len(data) - at, "The batch", f"a {message} ends inside a field")
            value, at = data[at:at + size], at + size
        else:
            raise Broken("The batch", f"a {message} has a field of the wire type {wire}")
        if field not in fields:
            found.unknown_bytes += at - begin
            continue  # "Growth": unknown fields are ignored
        name, kind, repeated = fields[field]
        expected = wire_type(kind)
        if wire == 2 and expected == 0 and repeated:
            packed(getattr(found, name), value, kind)
            continue
        need(wire == expected, "The batch", f"{message}.{name} has the wire type {wire}")
        if expected != 2:
            value = number(kind, value)
        elif kind == "string":
            value = value.split(b"\0")[0].decode(errors="surrogateescape")
        elif kind in MESSAGES and name not in raw:
            need(repeated or name not in inside, "The batch", f"{message}.{name} is there twice")
            inside.add(name)
            value = parse(value, kind, depth + 1, most)
            found.unknown_bytes += value.unknown_bytes
        elif kind in MESSAGES:
            found.unknown_bytes += unknown_bytes(value, kind)
        if repeated:
            getattr(found, name).append(value)
        else:
            setattr(found, name, value)
    return found


def unknown_bytes(data, message):
    """The size in bytes of the unknown fields of an undecoded message, up to the first bytes that are not valid protobuf."""
    found, at = 0, 0
    while at < len(data):
        begin = at
        try:
            tag, at = varint(data, at)
            size, at = varint(data, at) if tag & 7 in (0, 2) else (8 if tag & 7 == 1 else 4, at)
        except Broken:
            break
        if not tag >> 3 or tag & 7 not in (0, 1, 2, 5) or tag & 7 and size > len(data) - at:
            break
        value = data[at:at + size] if tag & 7 == 2 else b""
        at += size if tag & 7 else 0
        _, kind, _ = MESSAGES[message].get(tag >> 3, (None, None, None))
        found += at - begin if kind is None else unknown_bytes(value, kind) if tag & 7 == 2 and kind in MESSAGES else 0
    return found


def as_utf8(text):
    """A string's bytes as they are in its message, UTF-8 or not."""
    return text.encode(errors="surrogateescape")


def packed(values, data, kind):
    """Packed numbers, all of which are varints in batch.proto."""
    at = 0
    while at < len(data):
        value, at = varint(data, at, "The batch")
        values.append(number(kind, value))


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


# ---- zstd -----------------------------------------------------------------------------------------------------------------

ZSTD = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
for _name, _result, _arguments in (
        ("ZSTD_createDCtx", ctypes.c_void_p, []), ("ZSTD_isError", ctypes.c_uint, [ctypes.c_size_t]),
        ("ZSTD_getFrameContentSize", ctypes.c_ulonglong, [ctypes.c_char_p, ctypes.c_size_t]),
        ("ZSTD_findFrameCompressedSize", ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
        ("ZSTD_decompress_usingDict", ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p,
                                                        ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t])):
    getattr(ZSTD, _name).restype = _result
    getattr(ZSTD, _name).argtypes = _arguments
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
ZSTD_CONTEXTS = threading.local()  # a call releases the interpreter's lock: threads of a test share none


def zstd_context():
    if not hasattr(ZSTD_CONTEXTS, "own"):
        ZSTD_CONTEXTS.own = ZSTD.ZSTD_createDCtx()
    return ZSTD_CONTEXTS.own


def decompress(data, size, dictionary, section):
    """The content of the one zstd frame that data is."""
    need(ZSTD.ZSTD_getFrameContentSize(data, len(data)) == size, section, "a zstd frame says the size that the batch says")
    need(ZSTD.ZSTD_findFrameCompressedSize(data, len(data)) == len(data), section, "the data is one zstd frame and nothing after it")
    out = ctypes.create_string_buffer(max(size, 1))
    got = ZSTD.ZSTD_decompress_usingDict(zstd_context(), out, size, data, len(data), dictionary, len(dictionary))
    need(not ZSTD.ZSTD_isError(got) and got == size, section, "the data is a zstd frame of so many bytes")
    return out.raw[:size]


# ---- proto/event/DESCRIPTIONS.md ------------------------------------------------------------------------------------------

FIXED = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 8, 8: 8, 9: 4, 10: 8, 11: 1, 12: 4, 13: 1, 14: 2, 15: 4, 16: 8, 19: 16, 20: 8,
         21: 16, 22: 4, 23: 16, 24: 2, 25: 1, 26: 2}
POINTERS = (17, 18)
UTF16Z, ANSIZ, UTF16_COUNTED, ANSI_COUNTED, UTF16_REST, WBEM_SID, SID, BYTES, STRUCT_TYPE, UTF16_FIXED, ANSI_FIXED, UTF8Z, \
    UTF8_COUNTED, UTF8_FIXED = range(40, 54)
INTEGERS = (1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 18)
SIGNED = (2, 4, 6, 8)
REST = 65535


class Description:
    """A class, from its description's bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0
        self.hash = hashlib.sha256(data).digest()
        section = "DESCRIPTIONS, Layout"
        self.format = self.u8()
        need(self.format in (1, 2), section, "the format is 1 or 2")
        self.kind, self.status, flags = self.u8(), self.u8(), self.u8()
        need(self.kind <= 1 and self.status <= 2, section, "the kind is 0 or 1, the status 0, 1 or 2")
        need(flags <= (3 if self.format == 2 else 1), section, "flags: other bits are 0")
        self.classic, self.unfolded = flags & 1, flags >> 1
        self.pointer_size, self.version = self.u8(), self.u8()
        need(self.pointer_size in (4, 8), section, "the pointer size is 4 or 8")
        self.code = self.varint()
        need(self.code <= 65535, section, "the code is at most 65,535")
        self.provider = self.take(16)
        self.provider_name, self.name = self.string(), self.string()
        map_count = self.varint()
        need(map_count <= 256, section, "at most 256 maps")
        self.maps = [self.map() for _ in range(map_count)]
        field_count = self.varint()
        need(field_count <= 512, section, "at most 512 fields")
        self.fields = [self.field() for _ in range(field_count)]
        if self.format == 2:
            self.notes()
        need(self.at == len(data), "DESCRIPTIONS, Notation", "nothing is after a description's end")
        self.top, end = [], 0
        while end < field_count:
            self.top.append(end)
            end = self.span(end, 0, self.top)

    def take(self, size):
        need(size <= len(self.data) - self.at, "DESCRIPTIONS, Layout", "a description ends inside itself")
        self.at += size
        return self.data[self.at - size:self.at]

    def u8(self):
        return self.take(1)[0]

    def varint(self):
        value, self.at = varint(self.data, self.at, "DESCRIPTIONS, Notation")
        return value

    def notes(self):
        self.message = self.string(65535)
        self.names = [self.string() for _ in range(4)]
        count = self.varint()
        need(count <= 64, "DESCRIPTIONS, Layout", "at most 64 keywords")
        self.keywords = [(self.varint(), self.string()) for _ in range(count)]

    def string(self, most=1024):
        size = self.varint()
        need(size <= most, "DESCRIPTIONS, Notation", "a string has at most 1,024 bytes")
        data = self.take(size)
        need(0 not in data, "DESCRIPTIONS, Notation", "a string has no NUL")
        return data.decode(errors="surrogateescape")

    def map(self):
        name, flags = self.string(), self.u8()
        need(flags <= 1, "DESCRIPTIONS, Layout", "a map's second byte is 0 or 1")
        return name, flags, {self.varint(): self.string() for _ in range(self.varint())}

    def field(self):
        f = types.SimpleNamespace(name=self.string(), type=self.u8(), semantic=self.u8(), count=self.varint(),
                                  count_field=self.varint(), map=self.varint(), members=self.varint(), attributes=self.u8())
        section = "DESCRIPTIONS, Layout"
        need(f.type in FIXED or f.type in POINTERS or UTF16Z <= f.type <= UTF8_FIXED, "DESCRIPTIONS, Types",
             f"the type {f.type} is not known")
        need(1 <= f.count <= 65535, section, "a count is 1 to 65,535")
        need(f.map <= len(self.maps) and (not f.map or f.type in INTEGERS), section, "a field's map is one of the maps; integers only")
        need((f.members > 0) == (f.type == STRUCT_TYPE) or not f.members, section, "members: only of a struct")
        need(f.attributes <= (3 if self.format == 2 else 1), section, "attributes: other bits are 0")
        return f

    def span(self, k, depth, beside):
        """The number of the first field after field k and its members. beside: the earlier fields of the same level, and field k."""
        f = self.fields[k]
        need(depth <= 16, "DESCRIPTIONS, Layout", "structs nest at most 16 deep")
        if f.count_field:
            need(f.count_field - 1 in beside[:-1], "DESCRIPTIONS, Layout", "a count field is an earlier one beside the field")
            counter = self.fields[f.count_field - 1]
            need(counter.type in INTEGERS and counter.count == 1 and not counter.count_field, "DESCRIPTIONS, Layout",
                 "a count field is a plain integer")
        end, members = k + 1, []
        for _ in range(f.members):
            need(end < len(self.fields), "DESCRIPTIONS, Layout", "a struct's members follow it")
            members.append(end)
            end = self.span(end, depth + 1, members)
        f.inside = members
        return end

    def split(self, payload):
        """The whole top-level fields of a payload, as bytes, in their order."""
        rows, at, counts = [], 0, {}
        for k in self.top:
            end = self.whole(k, payload, at, counts)
            if end is None:
                break
            rows.append(payload[at:end])
            at = end
        return rows

    def whole(self, k, payload, at, counts):
        """The offset after field k, or None when the payload does not hold all of it."""
        f = self.fields[k]
        count = counts.get(f.count_field - 1) if f.count_field else f.count
        if count is None:
            return None
        if f.type in (BYTES, ANSI_FIXED, UTF8_FIXED, UTF16_FIXED):
            unit = 2 if f.type == UTF16_FIXED else 1
            if count == REST and not f.count_field:
                count = (len(payload) - at) // unit
            end = at + unit * count
            return end if end <= len(payload) else None
        one = not f.count_field and f.count == 1
        rest = not f.count_field and f.count == REST
        start, done = at, 0
        while rest or done < count:
            end = self.element(f, payload, at, counts)
            if end is None or (end == at and not one):
                if rest and end is None:
                    break
                return None
            at, done = end, done + 1
        if one and f.type in INTEGERS:
            counts[k] = int.from_bytes(payload[start:at], "little", signed=f.type in SIGNED)
        return at

    def element(self, f, payload, at, counts):
        left = len(payload) - at
        if f.type in FIXED or f.type in POINTERS:
            size = FIXED.get(f.type, self.pointer_size)
            return at + size if size <= left else None
        if f.type in (ANSIZ, UTF8Z):
            end = payload.find(b"\0", at)
            return None if left < 1 else end + 1 if end >= 0 else len(payload)
        if f.type == UTF16Z:
            if left < 2:
                return None
            for end in range(at, len(payload) - 1, 2):
                if payload[end] == payload[end + 1] == 0:
                    return end + 2
            return at + left // 2 * 2
        if f.type in (UTF16_COUNTED, ANSI_COUNTED, UTF8_COUNTED):
            size = 2 + int.from_bytes(payload[at:at + 2], "little")
            return at + size if left >= 2 and size <= left else None
        if f.type == UTF16_REST:
            return at + left // 2 * 2
        if f.type == WBEM_SID:
            if left < 4:
                return None
            if payload[at:at + 4] == bytes(4):
                return at + 4
            return self.sid(payload, at + 2 * self.pointer_size)
        if f.type == SID:
            return self.sid(payload, at)
        for member in f.inside:
            at = self.whole(member, payload, at, counts)
            if at is None:
                return None
        return at

    @staticmethod
    def sid(payload, at):
        if len(payload) - at < 8 or payload[at] != 1 or payload[at + 1] > 15:
            return None
        end = at + 8 + 4 * payload[at + 1]
        return end if end <= len(payload) else None


# ---- columns --------------------------------------------------------------------------------------------------------------

CONSTANT, PLAIN, PLANES, VARINT, DICTIONARY, BITS = 0, 1, 2, 3, 4, 6
PREVIOUS, TIME, PID, TID = range(1, 5)


class Frames:
    """Frame 0 and the others, decompressed when they are needed, each read from its beginning to its end."""

    def __init__(self, contents):
        self.contents, self.used = contents, [0] * len(contents)

    def take(self, frame, size):
        need(frame < len(self.contents), "Columns", f"there is no frame {frame}")
        at = self.used[frame]
        need(size <= len(self.contents[frame]) - at, "Frames and the pool", f"frame {frame} is too short for its columns")
        self.used[frame] = at + size
        return self.contents[frame][at:at + size]

    def check_end(self):
        for frame, (content, used) in enumerate(zip(self.contents, self.used)):
            need(used == len(content), "Frames and the pool", f"frame {frame} has bytes that no column uses")


class Elements:
    """n elements: of one width and contiguous in data, or as rows of any width."""

    def __init__(self, n, width=None, data=None, rows=None):
        self.n, self.width, self.data, self.list = n, width, data, rows

    def rows(self):
        if self.list is None:
            w = self.width
            self.list = [self.data[i:i + w] for i in range(0, self.n * w, w)] if w else [b""] * self.n
        return self.list


class Placed:
    """A column of batch.proto with its data; rows(n, …) decodes it."""

    def __init__(self, column, n, width, frames, dictionaries, top=True):
        self.column, self.implied, self.dictionaries, self.top, self.frames = column, width, dictionaries, top, frames
        c = column
        is_list = c.lengths is not None
        need(c.encoding in ENUMS["Encoding"], "Growth", f"the encoding {c.encoding} is not known")
        need(c.relative_to in ENUMS["Base"], "Growth", f"the base {c.relative_to} is not known")
        self.width = c.width or (1 if is_list else width)
        if width:
            need(not is_list, "Columns", "where a width is implied there is no list")
            need(self.width == width, "Columns", f"a column whose place implies the width {width} has the width {self.width}")
        self.check_members()
        self.lengths = self.values = None
        if is_list:
            self.lengths = Placed(c.lengths, n, 4, frames, dictionaries, False)
        if c.encoding == DICTIONARY and not c.shared:
            need(c.values is not None, "Columns", "a dictionary has values")
            need(c.value_count <= 262144, "Bounds", "values of a dictionary: at most 262,144")
            self.value_count = c.value_count
            self.values = Placed(c.values, c.value_count, self.width, frames, None, False)
        elif c.encoding == DICTIONARY:
            need(dictionaries is not None, "Columns", "inside a dictionary's values `shared` is not used")
            need(c.shared <= len(dictionaries), "Columns", f"there is no shared dictionary {c.shared}")
            need(c.values is None and not c.value_count, "Columns", "`values` and `value_count` are absent beside `shared`")
            self.value_count = dictionaries[c.shared - 1].count
        if c.encoding == DICTIONARY:
            if c.planes:
                need(self.value_count >= 2 and c.planes <= 32, "Columns", "bits of a dictionary's indexes: with two values or more, at most 32")
            self.index_bytes = ((self.value_count - 1).bit_length() + 7) // 8 if self.value_count > 1 else 0
        if c.encoding == VARINT or is_list:
            size = c.bytes
        else:
            need(not c.bytes, "Columns", "`bytes` is 0 where rows × stored width say it")
            size = self.size(n)
        self.data = frames.take(c.frame, size)

    def check_members(self):
        c, w = self.column, self.width
        need(not c.planes or c.encoding in (PLANES, DICTIONARY, BITS), "Columns", "`planes` is for PLANES, DICTIONARY and BITS")
        if c.encoding in (PLAIN, PLANES, VARINT, BITS):
            need(w, "Columns", "elements that are stored have a width")
        if c.encoding in (VARINT, BITS):
            need(w <= 8, "Columns", "VARINT and BITS are for elements of at most 8 bytes")
        if c.encoding == PLANES and c.planes:
            need(w <= 8 and c.planes <= w, "Columns", "`planes` is at most the width, and only for at most 8 bytes")
        if c.encoding == BITS:
            need(1 <= c.planes <= 8 * w, "Columns", "BITS: 1 to 8 × width bits")
        if c.encoding == CONSTANT and w:
            need(len(c.constant) <= w, "Columns", "a constant is not longer than the width")
        if c.relative_to:
            need(c.encoding in (PLANES, VARINT, BITS, CONSTANT) and w and w <= 8, "Columns",
                 "`relative_to` is for PLANES, VARINT, BITS and CONSTANT elements of 1 to 8 bytes")
        if c.relative_to > PREVIOUS:
            need(self.top and c.lengths is None, "Columns", "TIME, PID and TID are for columns that are not inside another")

    def size(self, n):
        c = self.column
        if c.encoding == PLAIN:
            return n * self.width
        if c.encoding == PLANES:
            return n * (c.planes or self.width)
        if c.encoding == BITS:
            return (n * c.planes + 7) // 8
        if c.encoding == DICTIONARY:
            return (n * c.planes + 7) // 8 if c.planes else n * self.index_bytes
        return 0

    def rows(self, n, bases=None, first=0):
        """The n rows. bases: what TIME, PID and TID are, row by row. first: what PREVIOUS begins with."""
        self.frames.spend(n)
        if self.lengths is None:
            rows = self.elements(n, bases, first).rows()
        else:
            lengths = [int.from_bytes(r, "little") for r in self.lengths.rows(n)]
            total = sum(lengths)
            need(total <= 64 * MIB, "Bounds", "all elements of a list: at most 64 MiB")
            elements = self.elements(total, None, 0)
            rows, at = [], 0
            if elements.list is None:
                for length in lengths:
                    rows.append(elements.data[at * elements.width:(at + length) * elements.width])
                    at += length
            else:
                for length in lengths:
                    rows.append(b"".join(elements.list[at:at + length]))
                    at += length
        return rows

    def numbers(self, n, bases=None, first=0):
        return [int.from_bytes(r, "little") for r in self.rows(n, bases, first)]

    def elements(self, n, bases, first):
        c, w = self.column, self.width
        self.frames.spend(n)
        if self.column.encoding != VARINT:
            need(len(self.data) == self.size(n), "Bounds", "the sum of `lengths` is the number of elements that the data holds")
        if c.encoding == PLAIN:
            return Elements(n, w, self.data)
        if c.encoding == DICTIONARY:
            return self.looked_up(n)
        if c.encoding == CONSTANT and not c.relative_to:
            row = c.constant.ljust(w, b"\0") if w else c.constant
            return Elements(n, rows=[row] * n)
        if c.encoding == PLANES and not c.relative_to:
            return Elements(n, w, transposed(self.data, n, c.planes or w, w))
        if c.encoding == CONSTANT:
            stored = [int.from_bytes(c.constant, "little")] * n
        elif c.encoding == PLANES:
            data = transposed(self.data, n, c.planes or w, 8)
            stored = struct.unpack(f"<{n}Q", data)
        elif c.encoding == BITS:
            stored = bits(self.data, n, c.planes)
        else:
            stored, at = [], 0
            for _ in range(n):
                value, at = varint(self.data, at, "Columns")
                stored.append(value)
            need(at == len(self.data), "Columns", "VARINT: n varints in exactly `bytes` bytes")
        mask = (1 << 8 * w) - 1
        if not c.relative_to:
            need(all(value <= mask for value in stored), "Columns", "a VARINT that is relative to nothing fits its width")
        elif c.relative_to == PREVIOUS:
            values = []
            for value in stored:
                first = first + unzigzag(value) & mask
                values.append(first)
            stored = values
        else:
            need(bases is not None, "Columns", "TIME, PID and TID are for columns of a group")
            stored = [unzigzag(value) + base & mask for value, base in zip(stored, bases[c.relative_to])]
        return Elements(n, rows=[value.to_bytes(w, "little") for value in stored])

    def looked_up(self, n):
        c = self.column
        if c.shared:
            shared = self.dictionaries[c.shared - 1]
            need(not self.width or shared.placed.width_of_rows() == self.width, "Columns", f"the rows of a shared dictionary have the width {self.width}")
            values = shared.rows()
        else:
            values = self.values.rows(self.value_count)
        if c.planes:
            indexes = bits(self.data, n, c.planes)
        elif self.index_bytes:
            data = transposed(self.data, n, self.index_bytes, 8)
            indexes = struct.unpack(f"<{n}Q", data)
        else:
            indexes = [0] * n
        need(not n or max(indexes) < self.value_count, "Bounds", "an index of a dictionary is beyond its table")
        return Elements(n, rows=[values[i] for i in indexes])

    def width_of_rows(self):
        """The width that all rows have by the column's messages alone; None where only the rows know."""
        c = self.column
        if c.lengths is not None:
            return None
        if c.encoding == CONSTANT:
            return self.width or len(c.constant)
        return self.width or self.values and self.values.width_of_rows()


def transposed(data, n, planes, width):
    out = bytearray(n * width)
    for k in range(planes):
        out[k::width] = data[k * n:(k + 1) * n]
    return bytes(out)


def bits(data, n, count):
    whole, mask = int.from_bytes(data, "little"), (1 << count) - 1
    need(whole >> n * count == 0, "Columns", "BITS: bits after the last element are 0")
    if n * count < 4096:
        return [whole >> i * count & mask for i in range(n)]
    values = []
    for i in range(n):  # a few bytes at a time: shifting the whole of a long number takes its length each time
        at = i * count
        values.append(int.from_bytes(data[at >> 3:(at + count + 7) >> 3], "little") >> (at & 7) & mask)
    return values


class ShortDirectory:
    """A directory in its short form, as a Directory message."""

    SECTION = "Short directories"
    REQUIRED = ("group", "time", "cpu", "thread", "thread_pids", "thread_tids")
    OPTIONAL = ("source", "sequence", "kernel_time", "user_time", "activity", "payload")

    def __init__(self, data):
        self.data, self.at = data, 0
        self.message = d = parse(b"", "Directory")
        flags = self.number(127)
        d.first_sequence = self.number() if flags & 64 else 0
        d.thread_count, groups = self.number(262144), self.number(16384)
        for name in self.REQUIRED + tuple(name for k, name in enumerate(self.OPTIONAL) if flags >> k & 1):
            setattr(d, name, self.column())
        d.groups = [self.group() for _ in range(groups)]
        d.pool = data[self.at:]

    def number(self, most=MASK64):
        value, self.at = varint(self.data, self.at, self.SECTION)
        need(value <= most, self.SECTION, f"a number of at most {most}")
        return value

    def column(self, depth=0):
        need(depth < 8, self.SECTION, "columns inside columns, at most 8 deep")
        c, head = parse(b"", "Column"), self.number(255)
        c.encoding, c.relative_to = head & 7, head >> 3 & 7
        if head & 64:
            c.width = self.number(MASK32)
        if head & 128:
            c.lengths = self.column(depth + 1)
        if head & 128 or c.encoding == VARINT:
            c.bytes = self.number(64 * MIB)
        if c.encoding == CONSTANT:
            size = self.number()
            need(size <= len(self.data) - self.at, self.SECTION, "it ends inside a constant")
            c.constant, self.at = self.data[self.at:self.at + size], self.at + size
        elif c.encoding in (PLANES, BITS):
            c.planes = self.number(MASK32)
        elif c.encoding == DICTIONARY:
            c.planes, c.value_count = self.number(MASK32), self.number(MASK32)
            c.values = self.column(depth + 1)
        return c

    def group(self):
        g = parse(b"", "Group")
        g.count, parts = self.number(262144), self.number(2 * 65 * 513 - 1)
        need(g.count, self.SECTION, "a group has an event")
        for _ in range(parts // 2 % 65):
            item = parse(b"", "Item")
            item.data = self.column()
            g.items.append(item)
        g.fields = [self.column() for _ in range(parts // 130)]
        g.payload = self.column() if parts & 1 else None
        return g


class Shared:
    """A dictionary that columns share."""

    def __init__(self, message):
        need(message.count <= 262144, "Bounds", "values of a dictionary: at most 262,144")
        self.message, self.count, self.placed, self.found = message, message.count, None, None

    def place(self, frames):
        need(self.message.values is not None, "The directory", "a shared dictionary has values")
        self.placed = Placed(self.message.values, self.count, None, frames, None, False)

    def rows(self):
        if self.found is None:
            self.found = self.placed.rows(self.count)
        return self.found


# ---- batches --------------------------------------------------------------------------------------------------------------

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


def field_numbers(data):
    """The numbers of a message's fields, in their order."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        yield tag >> 3
        if tag & 7 == 0:
            _, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            at += size
        else:
            at += 8 if tag & 7 == 1 else 4


def submessages(data, message, name):
    """The bytes of a message's submessages of one field, unchanged: definitions are named by their bytes."""
    (field,) = [number for number, row in MESSAGES[message].items() if row[0] == name]
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 2:
            size, at = varint(data, at)
            if tag >> 3 == field:
                found.append(data[at:at + size])
            at += size
        elif tag & 7 == 0:
            _, at = varint(data, at)
        else:
            at += 8 if tag & 7 == 1 else 4
    return found


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
