#!/usr/bin/env python3
"""Whether a trace describes its modules as Windows' merging tools do, so that WPA and PerfView find their PDBs. It shares no code with the
program under test: a naive reader of .etl files, and these rules, each measured on traces that Windows merged.

- The ids of a module are ImageID/Info and then what names the PDB (DbgID_RSDS, or None and others), and an ImageID/FileVersion may come before them.
- They come immediately before the Image event that they are of: same processor, same time, same base, same process.
- Where the file could not be read, an ImageID/Error is in their place.
- Their header names the process that their payload names, they have FULL headers and version 2.
- Paths of Image events are NT paths.

usage: tests/image_rules.py TRACE...     prints a line a trace (files of one trace with a + between), and what breaks a rule; exits 1 when
something does

check(paths) returns Found: images, with_ids (Image events), ids ({opcode: n}), versions ({version of Image events: n}), broken [text].
"""
import collections
import struct
import sys
import uuid

import naive_etl

IMAGE, IMAGE_ID = "2cb15d1d-5fc1-11d2-abe1-00a0c911f518", "b3e675d7-2554-4f18-830b-2762732560de"
GROUPS = {0x14: (2, 3, 4), 3: (10,)}  # of kernel hooks: the opcodes that are Image events
OPCODES = {2: "UnLoad", 3: "DCStart", 4: "DCEnd", 10: "Load"}
INFO, ERROR, FILE_VERSION = 0, 41, 64
DEBUG = {32: "None", 34: "DbgID_DBG", 36: "DbgID_RSDS", 37: "DbgID_ILRSDS", 38: "DbgPPDB", 39: "DbgEmbeddedPPDB", 40: "DbgDeterm", 41: "Error"}

Found = collections.namedtuple("Found", "images with_ids ids versions broken")
Record = collections.namedtuple("Record", "cpu time kind opcode version pid payload header")  # kind: IMAGE, IMAGE_ID or None


def decode(cpu, data, at, end):
    """The record at `at`, and its length."""
    first, second = struct.unpack_from("<II", data, at)
    header = first >> 16 & 0xFF
    if header == naive_etl.MESSAGE:
        return None, first & 0xFFFF
    if header in naive_etl.SYSTEM or header in naive_etl.COMPACT:
        length, group, opcode = second & 0xFFFF, second >> 24, second >> 16 & 0xFF
        pid, time = struct.unpack_from("<Iq", data, at + 12)
        kind = IMAGE if opcode in GROUPS.get(group, ()) else None
        begin = 32 if header in naive_etl.SYSTEM else 24
        return Record(cpu, time, kind, opcode, first & 0xFFFF, pid, data[at + begin:at + length] if kind else b"", header), length
    if header in naive_etl.PERFINFO:  # it names no process
        length, group, opcode = second & 0xFFFF, second >> 24, second >> 16 & 0xFF
        kind = IMAGE if opcode in GROUPS.get(group, ()) else None
        begin = at + 16 + 8 * (first >> 8 & 7) + 8 * (first >> 15 & 1)
        return Record(cpu, struct.unpack_from("<q", data, at + 8)[0], kind, opcode, first & 0xFF, None, data[begin:at + length] if kind else b"", header), length
    length = first & 0xFFFF
    pid, time = struct.unpack_from("<Iq", data, at + 12)
    if header in naive_etl.FULL:
        kind = str(uuid.UUID(bytes_le=bytes(data[at + 24:at + 40])))
        kind = kind if kind == IMAGE_ID or (kind == IMAGE and second & 0xFF in OPCODES) else None
        return Record(cpu, time, kind, second & 0xFF, second >> 16, pid, data[at + 48:at + length] if kind else b"", header), length
    return Record(cpu, time, None, 0, 0, pid, b"", header), length


def records(path):
    """All records of a file, in its order."""
    with open(path, "rb") as file:
        data = file.read()
    method, at = struct.unpack_from("<I", data, 0x2C)[0] & 0xFFFF, 0
    while at + naive_etl.BUFFER_BYTES <= len(data):
        size, _, _, _, _, _, _, client, _, used, flags, _ = naive_etl.BUFFER_HEADER.unpack_from(data, at)
        if size < naive_etl.BUFFER_BYTES or at + size > len(data):
            break
        cpu = client & (0xFFFF if flags & naive_etl.FLAG_PROCESSOR_WORD else 0xFF)
        body, end = data[at + naive_etl.BUFFER_BYTES:at + size], max(0, used - naive_etl.BUFFER_BYTES)
        if flags & naive_etl.FLAG_COMPRESSED:
            body = naive_etl.UNPACK[method](body, end)
        here, end = 0, min(end, len(body))
        while here + 8 <= end and body[here + 3] & 0x80 and body[here:here + 4] != b"\xff\xff\xff\xff":
            record, length = decode(cpu, body, here, end)
            if length < 8 or here + length > end:
                break
            if record:
                yield record
            here = here + length + 7 & ~7
        at += size


class Checker:
    def __init__(self, pointer):
        self.pointer, self.broken = pointer, []
        self.images = self.with_ids = 0
        self.ids, self.versions = collections.Counter(), collections.Counter()
        self.pending = []  # (record, base, pid) of ids whose Image event comes next

    def wrong(self, record, why):
        name = f"Image/{OPCODES[record.opcode]}" if record.kind == IMAGE else f"ImageID/{DEBUG.get(record.opcode, record.opcode)}" if record.kind else "another event"
        self.broken.append(f"{name} at {record.time} on processor {record.cpu}: {why}")

    def place(self, record):
        """Base and process that a payload names."""
        form = "<Q" if self.pointer == 8 else "<I"
        base, = struct.unpack_from(form, record.payload)
        has_size = record.kind == IMAGE or record.opcode == INFO
        return base, struct.unpack_from("<I", record.payload, self.pointer * (2 if has_size else 1))[0]

    def take_id(self, record):
        self.ids[record.opcode] += 1
        if record.opcode == FILE_VERSION:
            if self.pending:
                self.wrong(record, "between a module's ids")
            return
        if record.header not in naive_etl.FULL or record.version not in (1, 2):
            self.wrong(record, f"header {record.header}, version {record.version}")
        if record.opcode == ERROR:  # a text, in place of the ids: why the image could not be read
            if self.pending:
                self.wrong(record, "ids are before it")
            self.pending = [(record, None, None)]
            return
        base, pid = self.place(record)
        if record.pid != pid:
            self.wrong(record, f"its header names process {record.pid}, its payload {pid}")
        if record.opcode == INFO and self.pending:
            self.wrong(record, "the module of the ids before it does not follow them")
            self.pending = []
        if record.opcode != INFO and not (self.pending and self.pending[0][1:] == (base, pid) and self.pending[0][0].time == record.time):
            self.wrong(record, "no Info of its module is before it")
        self.pending.append((record, base, pid))

    def take_image(self, record):
        self.images += 1
        self.versions[record.version] += 1
        base, pid = self.place(record)
        if record.version >= 2:
            at = 2 * self.pointer + 16 + self.pointer + 16
            path = bytes(record.payload[at:]).decode("utf-16le", "replace").split("\0")[0]
            if path and not path.startswith("\\"):
                self.wrong(record, f"its path is {path}")
        if not self.pending:
            return
        if self.pending[0][0].opcode == ERROR:
            if self.pending[0][0].time != record.time:
                self.wrong(record, f"an Error of {self.pending[0][0].time} is before it")
            self.pending = []
            return
        self.with_ids += 1
        if len(self.pending) < 2:
            self.wrong(record, "an Info alone is before it")
        if any((a.time, *place) != (record.time, base, pid) for a, *place in self.pending):
            self.wrong(record, f"ids of {self.pending[0][0].time}, base {self.pending[0][1]}, process {self.pending[0][2]} are before it")
        self.pending = []

    def take(self, record):
        if record.kind == IMAGE_ID:
            self.take_id(record)
        elif record.kind == IMAGE:
            self.take_image(record)
        elif self.pending:
            self.wrong(record, f"it is between ids of {self.pending[0][0].time} and their Image event")
            self.pending = []


def check(*paths):
    """Files of one trace: readers merge them, by time and then in this order."""
    by_cpu = collections.defaultdict(list)
    for path in paths:
        with open(path, "rb") as file:
            pointer = naive_etl.logfile_header(file.read(1 << 16))["ptr"]
        for record in records(path):
            by_cpu[record.cpu].append(record)
    found = Found(0, 0, collections.Counter(), collections.Counter(), [])
    for cpu in sorted(by_cpu):
        checker = Checker(pointer)
        for record in sorted(by_cpu[cpu], key=lambda record: record.time):  # buffers of one processor may be out of order
            checker.take(record)
        if checker.pending:
            checker.wrong(checker.pending[0][0], "no Image event follows")
        found = Found(found.images + checker.images, found.with_ids + checker.with_ids, found.ids + checker.ids, found.versions + checker.versions,
                      found.broken + checker.broken)
    return found


def without_generated(broken):
    """Without what tests/tracegen does otherwise: its ids name the System process in their headers."""
    return [text for text in broken if "its header names process 4," not in text]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = 0
    for path in sys.argv[1:]:
        found = check(*path.split("+"))
        ids = ", ".join(f"{DEBUG.get(opcode, 'Info' if opcode == INFO else 'FileVersion' if opcode == FILE_VERSION else opcode)} {n}" for opcode, n in sorted(found.ids.items()))
        print(f"{path}: {found.images} image events, {found.with_ids} of them with ids; {ids or 'no ids'}; {len(found.broken)} break a rule")
        for text in found.broken[:20]:
            print(f"    {text}")
        failed |= bool(found.broken)
    sys.exit(failed)


if __name__ == "__main__":
    main()
