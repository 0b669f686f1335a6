"""A reader of etwagent batches in another language, written from proto/wire/FORMAT.md alone: standard library only.

It is slow and simple on purpose: what it gets right, the specification says. `Batch(data)` parses one batch; `records()`
yields its records in arrival order as dicts. Column names, field numbers and numbers of encodings are FORMAT.md's.
"""
import ctypes
import ctypes.util
import hashlib
import struct
import subprocess
import tempfile

MASK64 = (1 << 64) - 1
SOURCE, SHAPE, ZSTD_DICTIONARY = 17, 22, 24  # kinds of definitions


class Corrupt(Exception):
    """The batch contradicts itself or the specification."""


# ---- protobuf's wire format ----

def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Corrupt("a varint without an end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MASK64:
                raise Corrupt("a varint above 64 bits")
            return value, at
        shift += 7


def fields(data):
    """(number, value) of each field of a message: an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        elif kind == 5:
            value, at = int.from_bytes(data[at:at + 4], "little"), at + 4
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise Corrupt(f"wire type {kind}")
        if at > len(data):
            raise Corrupt("a field is cut off")
        yield key >> 3, value


class Message:
    """A message as {field number: [values]}."""

    def __init__(self, data):
        self.values = {}
        for number, value in fields(data):
            self.values.setdefault(number, []).append(value)

    def has(self, number):
        return number in self.values

    def int(self, number):
        return self.values[number][-1] if number in self.values else 0

    def sint(self, number):
        value = self.int(number)
        return value - (1 << 64) if value >> 63 else value

    def bytes(self, number):
        return self.values[number][-1] if number in self.values else b""

    def all(self, number):
        return self.values.get(number, [])

    def message(self, number):
        return Message(self.bytes(number)) if self.has(number) else None

    def messages(self, number):
        return [Message(v) for v in self.all(number)]


def packed(values):
    """The numbers of a repeated varint field, packed or not."""
    out = []
    for value in values:
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            out.append(number)
    return out


# ---- zstd ----

def _load_zstd():
    try:
        lib = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    lib.ZSTD_createDCtx.restype = ctypes.c_void_p
    lib.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
    lib.ZSTD_decompress_usingDict.restype = ctypes.c_size_t
    lib.ZSTD_decompress_usingDict.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                              ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    lib.ZSTD_isError.argtypes = [ctypes.c_size_t]
    return lib


_ZSTD = _load_zstd()


def decompress(data, raw_bytes, dictionary=b""):
    if raw_bytes > 64 << 20:
        raise Corrupt("a frame above 64 MiB")
    if _ZSTD:
        out, context = ctypes.create_string_buffer(raw_bytes), _ZSTD.ZSTD_createDCtx()
        size = _ZSTD.ZSTD_decompress_usingDict(context, out, raw_bytes, bytes(data), len(data), dictionary, len(dictionary))
        _ZSTD.ZSTD_freeDCtx(context)
        raw = None if _ZSTD.ZSTD_isError(size) else out.raw[:size]
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(dictionary)
            file.flush()
            with_it = ["-D", file.name] if dictionary else []
            done = subprocess.run(["zstd", "-dcq", *with_it], input=bytes(data), capture_output=True)
        raw = done.stdout if done.returncode == 0 else None
    if raw is None or len(raw) != raw_bytes:
        raise Corrupt("a zstd frame is damaged, or of another size than it says")
    return raw


# ---- XXH3, 64 bits ----

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee035"
    "90e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04b"
    "cdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad0"
    "31ce45cb3a8f95160428afd7fbcabb4b407e")
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PMX1, PMX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _mul_fold(a, b):
    product = a * b
    return (product & MASK64) ^ (product >> 64)


def _avalanche(h):
    h ^= h >> 37
    h = h * PMX1 & MASK64
    return h ^ h >> 32


def _xxh64_avalanche(h):
    h ^= h >> 33
    h = h * P64_2 & MASK64
    h ^= h >> 29
    h = h * P64_3 & MASK64
    return h ^ h >> 32


def _mix16(data, at, secret_at, seed, secret=SECRET):
    lo, hi = u64(data, at), u64(data, at + 8)
    return _mul_fold(lo ^ (u64(secret, secret_at) + seed & MASK64), hi ^ (u64(secret, secret_at + 8) - seed & MASK64))


def _long(data, seed):
    secret = SECRET
    if seed:
        secret = b"".join(struct.pack("<QQ", u64(SECRET, i) + seed & MASK64, u64(SECRET, i + 8) - seed & MASK64)
                          for i in range(0, 192, 16))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def accumulate(at, secret_at):
        for i in range(8):
            value = u64(data, at + 8 * i)
            key = value ^ u64(secret, secret_at + 8 * i)
            acc[i ^ 1] = acc[i ^ 1] + value & MASK64
            acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & MASK64

    stripes = (192 - 64) // 8
    blocks = (len(data) - 1) // (64 * stripes)
    for block in range(blocks):
        for stripe in range(stripes):
            accumulate(block * 64 * stripes + 64 * stripe, 8 * stripe)
        for i in range(8):
            a = acc[i]
            acc[i] = (a ^ a >> 47 ^ u64(secret, 128 + 8 * i)) * P32_1 & MASK64
    for stripe in range((len(data) - 1 - 64 * stripes * blocks) // 64):
        accumulate(blocks * 64 * stripes + 64 * stripe, 8 * stripe)
    accumulate(len(data) - 64, 192 - 64 - 7)
    h = len(data) * P64_1 & MASK64
    for i in range(4):
        h += _mul_fold(acc[2 * i] ^ u64(secret, 11 + 16 * i), acc[2 * i + 1] ^ u64(secret, 19 + 16 * i))
    return _avalanche(h & MASK64)


def xxh3_64(data, seed=0):
    n = len(data)
    if n == 0:
        return _xxh64_avalanche(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        word = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return _xxh64_avalanche(word ^ ((u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & MASK64))
    if n <= 8:
        seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "big"), "little") << 32
        value = u32(data, n - 4) + (u32(data, 0) << 32)
        h = value ^ ((u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & MASK64)
        h ^= (h << 49 | h >> 15) & MASK64 ^ (h << 24 | h >> 40) & MASK64
        h = h * PMX2 & MASK64
        h ^= (h >> 35) + n & MASK64
        h = h * PMX2 & MASK64
        return h ^ h >> 28
    if n <= 16:
        lo = u64(data, 0) ^ ((u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & MASK64)
        hi = u64(data, n - 8) ^ ((u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & MASK64)
        swapped = int.from_bytes(lo.to_bytes(8, "big"), "little")
        return _avalanche(n + swapped + hi + _mul_fold(lo, hi) & MASK64)
    if n <= 128:
        h = n * P64_1 & MASK64
        for i in range((n - 1) // 32, -1, -1):
            h += _mix16(data, 16 * i, 32 * i, seed) + _mix16(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return _avalanche(h & MASK64)
    if n <= 240:
        h = n * P64_1 & MASK64
        for i in range(8):
            h += _mix16(data, 16 * i, 16 * i, seed)
        h = _avalanche(h & MASK64)
        for i in range(8, n // 16):
            h += _mix16(data, 16 * i, 16 * (i - 8) + 3, seed)
        h += _mix16(data, n - 16, 136 - 17, seed)
        return _avalanche(h & MASK64)
    return _long(data, seed)


# ---- columns ----

CONSTANT, PLAIN, PLANES, VARINT, DICTIONARY, STRUCT, BITS = range(7)
BASE_NONE, BASE_PREVIOUS, BASE_TIME, BASE_PID, BASE_TID = range(5)


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def byte_width(value):
    return (value.bit_length() + 7) // 8


class Column:
    """One Column message. claim() fixes where its data stands, rows() gives its rows as a list of bytes."""

    def __init__(self, message, frames, dictionaries, count, width):
        m = self.message = message
        self.count, self.place_width = count, width
        self.encoding, self.relative_to = m.int(1), m.int(4)
        self.width = m.int(2) or width
        self.lengths = Column(m.message(8), frames, dictionaries, count, 4) if m.has(8) else None
        if self.lengths:
            count = None
            self.width = self.width or 1
        self.value_count, self.values, self.shared = m.int(9), None, m.int(11)
        if self.encoding == DICTIONARY:
            if self.shared:
                self.values = dictionaries[self.shared - 1]
                self.value_count = self.values[0]
            else:
                self.values = Column(m.message(10), frames, None, self.value_count, self.width if self.lengths else width)
        self.children = [Column(c, frames, dictionaries, count, 0) for c in m.messages(12)]
        self.planes = {PLAIN: self.width, PLANES: m.int(3) or self.width,
                       DICTIONARY: byte_width(max(self.value_count - 1, 0))}.get(self.encoding, 0)
        self.bits = m.int(3) if self.encoding in (DICTIONARY, BITS) else 0
        size = (m.int(6) if self.encoding == VARINT or count is None else (count * self.bits + 7) // 8 if self.bits
                else count * self.planes)
        self.data = frames[m.int(5)].claim(size)

    def elements(self, count, context, initial):
        kind, width, data = self.encoding, self.width, self.data
        if kind == STRUCT:
            parts = [child.rows(count) for child in self.children]
            return [b"".join(row) for row in zip(*parts)] if parts else [b""] * count
        if kind == DICTIONARY:
            if self.shared:
                values = self.values[1].rows(self.value_count)
            else:
                values = self.values.rows(self.value_count)
            return [values[i] for i in (self.unpacked(data, count) if self.bits else self.numbers(data, count, self.planes))]
        if kind == CONSTANT and not self.relative_to:
            row = self.message.bytes(7)
            return [row + bytes(max(width - len(row), 0))] * count
        if kind == PLAIN or kind == PLANES and not self.relative_to and self.planes == width:
            if len(data) != count * width:
                raise Corrupt("elements do not fill their bytes")
            if kind == PLAIN:
                return [data[i:i + width] for i in range(0, len(data), width)]
            return [bytes(row) for row in zip(*(data[i * count:(i + 1) * count] for i in range(width)))]
        if kind == CONSTANT:
            numbers = [int.from_bytes(self.message.bytes(7), "little")] * count
        elif kind == PLANES:
            numbers = self.numbers(data, count, self.planes)
        elif kind == BITS:
            numbers = self.unpacked(data, count)
        elif kind == VARINT:
            numbers, at = [], 0
            for _ in range(count):
                number, at = varint(data, at)
                numbers.append(number)
            if at != len(data):
                raise Corrupt("numbers do not fill their bytes")
        else:
            raise Corrupt(f"encoding {kind}")
        if self.relative_to:
            numbers = self.rebase(numbers, context, initial)
        mask = (1 << 8 * width) - 1
        return [(n & mask).to_bytes(width, "little") for n in numbers]

    def unpacked(self, data, count):
        if len(data) != (count * self.bits + 7) // 8:
            raise Corrupt("bits do not fill their bytes")
        whole, mask = int.from_bytes(data, "little"), (1 << self.bits) - 1
        return [whole >> i * self.bits & mask for i in range(count)]

    @staticmethod
    def numbers(data, count, planes):
        if len(data) != count * planes:
            raise Corrupt("planes do not fill their bytes")
        return [int.from_bytes(data[i::count], "little") for i in range(count)] if planes else [0] * count

    def rebase(self, numbers, context, initial):
        if self.relative_to == BASE_PREVIOUS:
            out = []
            for n in numbers:
                initial = initial + unzigzag(n)
                out.append(initial)
            return out
        if not context:
            raise Corrupt("relative to events where there are none")
        base = context[self.relative_to - BASE_TIME]
        return [b + unzigzag(n) for b, n in zip(base, numbers)]

    def rows(self, count, context=None, initial=0):
        if not self.lengths:
            return self.elements(count, context, initial)
        lengths = [int.from_bytes(row, "little") for row in self.lengths.rows(count)]
        elements, out, at = self.elements(sum(lengths), None, 0), [], 0
        for n in lengths:
            out.append(b"".join(elements[at:at + n]))
            at += n
        return out

    def ints(self, count, context=None, initial=0):
        return [int.from_bytes(row, "little") for row in self.rows(count, context, initial)]


class Frame:
    def __init__(self, data):
        self.data, self.used = data, 0

    def claim(self, size):
        if size > len(self.data) - self.used:
            raise Corrupt("a frame is too short for its columns")
        self.used += size
        return self.data[self.used - size:self.used]


# ---- class descriptions: only what the headers' prediction needs (DESCRIPTIONS.md) ----

class ClassKey:
    """Provider, code, version, kind of number and pointer size of a class."""

    def __init__(self, provider, code, version, classic, pointer_size):
        self.provider, self.code, self.version = provider, code, version
        self.classic, self.pointer_size = classic, pointer_size


# ---- a batch ----

def is_whole(group):
    """Whether a group's payloads stand in the batch's own column, where there is one."""
    return not group["fields"] and not group["payload"]


class Definitions:
    """What batches of one stream define, and others name by the first bytes of its hash."""

    def __init__(self):
        self.kept = {}  # (kind, hash) -> bytes

    def add(self, message):
        for kind in (SOURCE, SHAPE, ZSTD_DICTIONARY):
            for data in message.all(kind):
                self.kept[kind, hashlib.sha256(data).digest()[:16]] = data

    def find(self, kind, ref):
        found = [data for (other, name), data in self.kept.items() if other == kind and name.startswith(ref)]
        if len(found) != 1:
            raise Corrupt(f"{len(found)} definitions begin with {ref.hex()}")
        return found[0]


class Batch:
    """classes: {16-byte hash: ClassKey} of classes described before; what this batch describes is added by describe(),
    which gets a description's bytes and returns (hash, ClassKey). definitions: what batches before defined; what this one
    defines is added."""

    def __init__(self, data, classes=None, describe=None, definitions=None):
        m = Message(data)
        if m.int(1) != 1:
            raise Corrupt(f"format {m.int(1)}")
        definitions = definitions if definitions is not None else Definitions()
        definitions.add(m)
        dictionary = definitions.find(ZSTD_DICTIONARY, m.int(19).to_bytes(8, "little")) if m.int(19) else b""
        self.stream, self.number, self.kind = m.bytes(2), m.int(3), m.int(4)
        self.event_count, self.checksum = m.int(5), m.int(6)
        self.time_min = m.sint(7)
        self.time_max = self.time_min + m.int(8)
        self.descriptions = m.all(12)
        self.tombstones = m.messages(15)
        if m.has(18):
            hashes = [v.to_bytes(8, "little") if isinstance(v, int) else v for v in m.all(18)]
            hashes = b"".join(hashes)
            self.sources = [Message(definitions.find(SOURCE, hashes[i:i + 8])) for i in range(0, len(hashes), 8)]
        else:
            self.sources = m.messages(17)
        self.agent, self.host = m.bytes(20).decode(), m.bytes(21).decode()
        ledger = m.message(14)
        self.ledger = dict(zip(packed(ledger.all(1)), packed(ledger.all(2)))) if ledger else {}
        self.classes = classes if classes is not None else {}
        for description in self.descriptions:
            if describe:
                key, value = describe(description)
                self.classes[key] = value
        directory = m.bytes(10)
        if m.int(9):
            directory = decompress(directory, m.int(9), dictionary)
        self.directory = d = Message(directory)
        self.frames = [Frame(d.bytes(15))]
        for frame in m.messages(11):
            raw = frame.int(2)
            self.frames.append(Frame(decompress(frame.bytes(1), raw, dictionary) if raw else frame.bytes(1)))
        dictionaries = [[v.int(1), None] for v in d.messages(12)]

        def column(message, count, width):
            return Column(message, self.frames, dictionaries, count, width) if message else None

        self.groups = []
        refs = m.bytes(23)
        self.has_shapes = bool(refs)
        if refs and len(refs) - 1 != refs[0] * len(d.all(1)):
            raise Corrupt("not each group has a shape")
        for k, g in enumerate(d.messages(1)):
            n = g.int(2) or 1
            group = {"hash": g.bytes(1), "count": n, "header": g.message(3) or Message(b"")}
            items = [(i.int(1), i.int(2), i.message(3)) for i in g.messages(4)]
            if refs:
                shape = Message(definitions.find(SHAPE, refs[1 + k * refs[0]:1 + (k + 1) * refs[0]]))
                own = iter(items)
                group["hash"], group["header"] = shape.bytes(1), shape.message(2) or Message(b"")
                items = [(i.int(1), i.int(2), i.message(3) or next(own)[2]) for i in shape.messages(3)]
            group["items"] = [(t, linkage, column(c, n, 0)) for t, linkage, c in items]
            group["kernel_time"] = column(g.message(5), n, 4)
            group["user_time"] = column(g.message(6), n, 4)
            group["activity"] = column(g.message(7), n, 16)
            group["fields"] = [column(c, n, 0) for c in g.messages(8)]
            group["payload"] = column(g.message(9), n, 0)
            self.groups.append(group)
        n, threads = self.event_count, d.int(9)
        self.thread_count = threads
        self.columns = {name: column(d.message(number), count, width) for name, number, count, width in (
            ("group", 2, n, 4), ("time", 3, n, 8), ("cpu", 4, n, 2), ("thread", 5, n, 4), ("source", 6, n, 2),
            ("sequence", 7, n, 8), ("pids", 10, threads, 4), ("tids", 11, threads, 4), ("kernel_time", 16, n, 4),
            ("user_time", 17, n, 4), ("activity", 18, n, 16),
            ("payload", 19, sum(g["count"] for g in self.groups if is_whole(g)), 0))}
        for slot, v in zip(dictionaries, d.messages(12)):
            slot[1] = column(v.message(2), slot[0], 0)
        for frame in self.frames:
            if frame.used != len(frame.data):
                raise Corrupt("a frame holds bytes of no column")

    def headers(self):
        """The header constants of each group."""
        first = self.sources[0].int(12) & 0xFFFF if self.sources else 0
        before = dict.fromkeys(("channel", "level", "task", "keyword", "flags", "property", "header_type", "hook_id",
                                "header_word"), 0)
        before["logger"] = first
        nothing, out = before, []
        for group in self.groups:
            h, c = group["header"], self.classes[group["hash"]]
            row = {"id": h.int(1) ^ (0 if c.classic else c.code), "version": h.int(2) ^ c.version,
                   "opcode": h.int(3) ^ (c.code if c.classic else 0), "pointer_size": h.int(4) ^ c.pointer_size,
                   "provider": h.bytes(15) or c.provider}
            for number, name in enumerate(("channel", "level", "task", "keyword", "flags", "property", "header_type",
                                           "hook_id", "header_word", "logger"), 5):
                row[name] = h.int(number) ^ before[name]
            before = nothing if self.has_shapes else row
            out.append(row)
        return out

    def records(self):
        """Records in arrival order: dicts with every identity field and attribute, `ext` a list of (type, linkage,
        data), `payload` bytes."""
        n, col = self.event_count, self.columns
        if not n:
            return
        group_of, threads = col["group"].ints(n), col["thread"].ints(n)
        times = [t - (1 << 64) if t >> 63 else t for t in
                 (v & MASK64 for v in col["time"].ints(n, None, self.time_min))]
        cpus = col["cpu"].ints(n)
        sources = col["source"].ints(n) if col["source"] else [0] * n
        pids, tids = col["pids"].ints(self.thread_count), col["tids"].ints(self.thread_count)
        # small batches have these for all events, others by group
        flat = {name: col[name].rows(n) for name in ("kernel_time", "user_time", "activity") if col[name]}
        whole = [i for i in range(n) if is_whole(self.groups[group_of[i]])]
        if col["payload"]:
            flat["payload"] = dict(zip(whole, col["payload"].rows(len(whole))))
        streams = []
        for k, (group, header) in enumerate(zip(self.groups, self.headers())):
            count = group["count"]
            rows = [i for i in range(n) if group_of[i] == k]
            if len(rows) != count:
                raise Corrupt("events do not belong to their groups")
            context = ([times[i] for i in rows], [pids[threads[i]] for i in rows], [tids[threads[i]] for i in rows])
            parts = [c.rows(count, context) for c in group["fields"]]
            if group["payload"]:
                parts.append(group["payload"].rows(count, context))
            values = {"kernel_time": bytes(4), "user_time": bytes(4), "activity": bytes(16)}
            for name, zero in values.items():
                values[name] = (group[name].rows(count) if group[name] else [flat[name][i] for i in rows] if name in flat
                                else [zero] * count)
            payloads = ([b"".join(p) for p in zip(*parts)] if parts else [flat["payload"][i] for i in rows]
                        if "payload" in flat else [b""] * count)
            items = [(t, l, c.rows(count, context)) for t, l, c in group["items"]]
            streams.append(iter([{**header, "kernel_time": u32(values["kernel_time"][i], 0),
                                  "user_time": u32(values["user_time"][i], 0), "activity_id": values["activity"][i],
                                  "ext": [(t, l, data[i]) for t, l, data in items], "payload": payloads[i]}
                                 for i in range(count)]))
        for i in range(n):
            record = next(streams[group_of[i]])
            record.update(time=times[i], cpu=cpus[i], source=sources[i], pid=pids[threads[i]], tid=tids[threads[i]])
            yield record


def chain(checksum, r):
    """The checksum with one more record."""
    constants = xxh3_64(r["provider"] + struct.pack(
        "<QHHBBBBHHHBBHHI", r["keyword"], r["id"], r["task"], r["version"], r["channel"], r["level"], r["opcode"], r["logger"],
        r["flags"], r["property"], r["pointer_size"], r["header_type"], r["hook_id"], r["header_word"], 0))
    items = 0
    for kind, linkage, data in r["ext"]:
        items = xxh3_64(struct.pack("<HHIQ", kind, linkage, len(data), xxh3_64(data) if data else 0), items)
    payload = r["payload"]
    return xxh3_64(struct.pack(
        "<QqIIII16sHHHHQQQ", constants, r["time"], r["pid"], r["tid"], r["kernel_time"], r["user_time"], r["activity_id"],
        r["cpu"], r["source"], len(r["ext"]), len(payload), items, xxh3_64(payload) if payload else 0, checksum))


def checksum(records):
    value = 0
    for record in records:
        value = chain(value, record)
    return value
