"""What all parts of the second reader of batches share (format_reader.py): the error that names a broken rule, protobuf messages as
batch.proto defines them (field numbers and types are read from that file), and zstd frames.
"""
import ctypes
import ctypes.util
import pathlib
import re
import threading
import types

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
        need(0 < field < 1 << 29, "The batch", f"a {message} has a field with the number 0, or with one that has more than 29 bits")
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
