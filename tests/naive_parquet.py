"""The metadata of a Parquet file, read by the format's specification alone: Thrift's compact protocol, field numbers as parquet.thrift has them.
A struct is {number: value}; bytes stay bytes. Page headers and indexes are read with the same function."""
import struct


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return struct.unpack("b", bytes([self.byte()]))[0]
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            size = self.varint()
            self.at += size
            assert self.at <= len(self.data), "a text that goes beyond the end"
            return self.data[self.at - size:self.at]
        if kind == 9:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.byte() == 1 if head & 15 in (1, 2) else self.value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise AssertionError(f"type {kind} at {self.at}")

    def struct(self):
        found, field = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return found
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            assert field not in found, f"field {field} is there twice"
            found[field] = self.value(head & 15)


def metadata(data):
    """FileMetaData of a whole file's bytes."""
    assert data[:4] == data[-4:] == b"PAR1", "magic"
    size = struct.unpack("<I", data[-8:-4])[0]
    reader = Reader(data[:-8], len(data) - 8 - size)
    found = reader.struct()
    assert reader.at == len(data) - 8, "the metadata ends where its length says"
    return found


def pages(data, chunk):
    """The pages of a ColumnChunk, one after the other: (offset, PageHeader, bytes with the header)."""
    meta = chunk[3]
    at = meta.get(11, meta[9])
    end = at + meta[7]
    while at < end:
        reader = Reader(data, at)
        header = reader.struct()
        size = reader.at - at + header[3]
        yield at, header, size
        at += size
    assert at == end, "pages fill the column chunk"


def number(kind, data):
    """A bound of a column of the physical type."""
    return struct.unpack({1: "<i", 2: "<q", 5: "<d"}[kind], data)[0] if kind in (1, 2, 5) else data
