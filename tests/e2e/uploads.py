"""Uploads and their answers, as far as a test that plays the collector needs them (proto/wire/FORMAT.md, "Upload"):
batches in a body, a batch's stream and number, the Ack message. Written from the text, without the project's own code.
"""
import hashlib
import struct

UPLOAD_PATH = "/v1/batches"
REFUSED_CONFLICT, REFUSED_MALFORMED, REFUSED_RETRY = 0, 1, 2


class Malformed(Exception):
    """The bytes are no upload."""


def batches(body):
    """The batches of an upload's body."""
    found, at = [], 0
    while at < len(body):
        if at + 4 > len(body):
            raise Malformed(f"a batch's length is cut at {at}")
        length, = struct.unpack_from("<I", body, at)
        if not length or at + 4 + length > len(body):
            raise Malformed(f"a batch of {length} bytes at {at} of {len(body)}")
        found.append(body[at + 4:at + 4 + length])
        at += 4 + length
    return found


def body(some):
    return b"".join(struct.pack("<I", len(batch)) + batch for batch in some)


def varint(data, at):
    value, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(message):
    """(field number, value) of a protobuf message: an int, or the bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
        else:
            if kind == 2:
                length, at = varint(message, at)
            else:
                length = {1: 8, 5: 4}.get(kind)
            if length is None or at + length > len(message):
                raise Malformed("a field is cut")
            value = message[at:at + length]
            at += length
        yield key >> 3, value


class Head:
    """What a batch says about itself."""

    def __init__(self, batch):
        self.stream, self.number, self.kind, self.event_count = b"", 0, 0, 0
        for number, value in fields(batch):
            if number == 2:
                self.stream = bytes(value)
            elif number == 3:
                self.number = value
            elif number == 4:
                self.kind = value
            elif number == 5:
                self.event_count = value


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field, value):
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field, value):
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def rewritten(message, change, fixed):
    """A message with its fields' values as change(number, value) gives them; fixed: the numbers of fields of a fixed width."""
    out = b""
    for number, value in fields(message):
        value = change(number, value)
        if isinstance(value, int):
            out += _number(number, value)
        elif number in fixed:
            out += _varint(number << 3 | {4: 5, 8: 1}[len(value)]) + value
        else:
            out += _bytes(number, value)
    return out


SOURCES, SOURCE_HASHES, BATCH_FIXED = 17, 18, (6, 7, 19)  # fields of a Batch; those of a fixed width
LABELS = 15  # of a Source


def labelled(batch, labels):
    """The batch with labels (names and values, texts) on each of its sources."""
    more = b"".join(_bytes(LABELS, _bytes(1, name.encode()) + _bytes(2, value.encode())) for name, value in labels.items())
    def name_of(source):
        return hashlib.sha256(source).digest()[:8]
    new = {name_of(value): name_of(bytes(value) + more) for number, value in fields(batch) if number == SOURCES}

    def change(number, value):
        if number == SOURCES:
            return bytes(value) + more
        return b"".join(new[bytes(value[i:i + 8])] for i in range(0, len(value), 8)) if number == SOURCE_HASHES else value
    return rewritten(batch, change, BATCH_FIXED)


def tombstone(stream, first, last, cause, event_count, utc_min_ns, utc_max_ns):
    """A batch that says that others are gone."""
    grave = _number(1, first) + _number(2, last) + _number(3, cause) + _number(4, event_count) + _varint(5 << 3 | 1) + struct.pack("<q", utc_min_ns) + \
        _varint(6 << 3 | 1) + struct.pack("<q", utc_max_ns)
    return _number(1, 1) + _bytes(2, stream) + _number(3, first) + _number(4, 1) + _bytes(15, grave)


def ack(stream, acknowledged=(), refused=(), unknown=(), credit_bytes=0, retry_after_ms=0, keyframe=False, known=()):
    """An Ack message. acknowledged: (first, last); refused: (number, cause, text); unknown, known: class hashes."""
    out = _bytes(1, stream)
    for first, last in acknowledged:
        out += _bytes(2, _number(1, first) + _number(2, last))
    for number, cause, text in refused:
        out += _bytes(3, _number(1, number) + _number(2, cause) + _bytes(3, text.encode()))
    for value in unknown:
        out += _bytes(4, value)
    out += _number(5, credit_bytes) + _number(6, retry_after_ms) + _number(7, int(keyframe))
    for value in known:
        out += _bytes(8, value)
    return out
