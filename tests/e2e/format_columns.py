"""Columns of a batch and the directory that lists them, as proto/wire/FORMAT.md specifies them: a part of the second reader of batches
(format_reader.py).
"""
import struct

from format_notation import ENUMS, MASK32, MASK64, MIB, need, parse, unzigzag, varint

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
