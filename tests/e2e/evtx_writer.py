"""Writes event logs (.evtx): chunks, records, templates and values, as Windows lays them out; and damages them.

write(events, ...) returns the file's bytes and the place of each record in it. An event is a dict: provider, guid (or None), id, level, task,
opcode, keywords, time (FILETIME), pid, tid, channel, computer, sid (bytes or None), data: [(name, declared type, type, bytes)].
The same events and seed give the same bytes.
"""
import random
import struct
import uuid
import zlib

CHUNK = 65536
STRING, U16, U32, U64, HEX64, FILETIME, SID, XML, GUID, BINARY, HEX32, BOOL, F64, STRINGS = 1, 6, 8, 10, 21, 17, 19, 33, 15, 14, 20, 13, 12, 129
NAMESPACE = "http://schemas.microsoft.com/win/2004/08/events/event"


def text(s):
    return s.encode("utf-16-le", "surrogatepass")


class Chunk:
    """One chunk while it is being filled. Names and templates are written where they are first needed."""

    def __init__(self):
        self.data = bytearray(512)
        self.names, self.templates, self.places = {}, {}, []

    def name(self, out, at, name):
        """Appends a name's place; the name itself when the chunk does not have it. at: where out begins in the chunk."""
        place = self.names.get(name)
        here = at + len(out) + 4
        out += struct.pack("<I", here if place is None else place)
        if place is None:
            self.names[name] = here
            out += struct.pack("<IHH", 0, sum(map(ord, name)) & 0xffff, len(name)) + text(name) + b"\0\0"

    def element(self, out, at, name, attributes, content, in_template=True):
        """content: None for an empty element, else a list of functions that append to (out, at). attributes: [(name, function)]."""
        out += b"\x41" if attributes else b"\x01"
        out += b"\xff\xff" if in_template else b""
        size_at = len(out)
        out += bytes(4)
        self.name(out, at, name)
        if attributes:
            list_at = len(out)
            out += bytes(4)
            for k, (attribute, value) in enumerate(attributes):
                out += b"\x46" if k + 1 < len(attributes) else b"\x06"
                self.name(out, at, attribute)
                value(out, at)
            struct.pack_into("<I", out, list_at, len(out) - list_at - 4)
        if content is None:
            out += b"\x03"
        else:
            out += b"\x02"
            for put in content:
                put(out, at)
            out += b"\x04"
        struct.pack_into("<I", out, size_at, len(out) - size_at - 4)

    def instance(self, out, at, key, body, values):
        """A template's instance; body(out, at) writes what is in the template, when the chunk does not have it."""
        identity = uuid.uuid5(uuid.NAMESPACE_OID, repr(key)).bytes_le
        here = at + len(out) + 10
        place = self.templates.get(key)
        out += b"\x0c\x01" + identity[:4] + struct.pack("<I", here if place is None else place)
        if place is None:
            self.templates[key] = here
            out += struct.pack("<I", 0) + identity
            size_at = len(out)
            out += bytes(4) + b"\x0f\x01\x01\x00"
            body(out, at)
            out += b"\0"
            struct.pack_into("<I", out, size_at, len(out) - size_at - 4)
        out += struct.pack("<I", len(values)) + b"".join(struct.pack("<HBB", len(v), kind, 0) for kind, v in values)
        for _, v in values:
            out += v

    def add(self, number, event):
        """Appends a record; False, and nothing is changed, when it does not fit."""
        names, templates = dict(self.names), dict(self.templates)
        at, out = len(self.data), bytearray(24) + b"\x0f\x01\x01\x00"
        put_event(self, out, at, number, event)
        out += b"\0"
        out += bytes(-(len(out) + 4) % 8)
        size = len(out) + 4
        struct.pack_into("<4sIQQ", out, 0, b"**\0\0", size, number, event["time"])
        out += struct.pack("<I", size)
        if at + size > CHUNK:
            self.names, self.templates = names, templates
            return False
        self.data += out
        self.places.append((at, size, number))
        return True

    def bytes(self, first, stale=b""):
        """Complete, with its header; stale: what is after the used bytes."""
        end, used = len(self.data), self.data
        last = self.places[-1]
        struct.pack_into("<8sQQQQIIII", used, 0, b"ElfChnk\0", first, first + len(self.places) - 1, self.places[0][2], last[2], 128, last[0], end,
                         zlib.crc32(used[512:end]))
        struct.pack_into("<I", used, 124, zlib.crc32(used[128:512], zlib.crc32(used[:120])))
        return bytes(used + stale[end:CHUNK] if stale else used).ljust(CHUNK, b"\0")


def literal(value):
    def put(out, at):
        out += b"\x05\x01" + struct.pack("<H", len(value)) + text(value)
    return put


def slot(number, kind, optional=False):
    def put(out, at):
        out += struct.pack("<BHB", 14 if optional else 13, number, kind)
    return put


def put_event(chunk, out, at, number, e):
    guid = e.get("guid")
    data = e["data"]
    key = (e["provider"], guid, e["id"], tuple((name, declared) for name, declared, _, _ in data))
    values = [(U16, struct.pack("<H", e["id"])), (U64, struct.pack("<Q", e["keywords"])), (FILETIME, struct.pack("<Q", e["time"])),
              (U64, struct.pack("<Q", number)), (U32, struct.pack("<I", e["pid"])), (U32, struct.pack("<I", e["tid"])),
              (SID, e["sid"]) if e.get("sid") else (0, b""), (4, bytes([e["level"]])), (U16, struct.pack("<H", e["task"])), (4, bytes([e["opcode"]])),
              (GUID, e["activity"]) if e.get("activity") else (0, b"")]
    first = len(values)

    def element(name, attributes, content):
        return lambda out, at: chunk.element(out, at, name, attributes, content)

    def body(out, at):
        system = [
            element("Provider", [("Name", literal(e["provider"]))] + ([("Guid", literal("{" + str(guid) + "}"))] if guid else []), None),
            element("EventID", [], [slot(0, U16)]),
            element("Level", [], [slot(7, 4)]),
            element("Task", [], [slot(8, U16)]),
            element("Opcode", [], [slot(9, 4)]),
            element("Keywords", [], [slot(1, HEX64)]),
            element("TimeCreated", [("SystemTime", slot(2, FILETIME))], None),
            element("EventRecordID", [], [slot(3, U64)]),
            element("Correlation", [("ActivityID", slot(10, GUID, True))], None),
            element("Execution", [("ProcessID", slot(4, U32)), ("ThreadID", slot(5, U32))], None),
            element("Channel", [], [literal(e["channel"])]),
            element("Computer", [], [literal(e["computer"])]),
            element("Security", [("UserID", slot(6, SID, True))], None),
        ]
        items = [element("Data", [("Name", literal(name))] if name else [], [slot(first + k, declared, True)])
                 for k, (name, declared, _, _) in enumerate(data)]
        chunk.element(out, at, "Event", [("xmlns", literal(NAMESPACE))], [element("System", [], system), element("EventData", [], items)])

    values[1] = (HEX64, values[1][1])
    chunk.instance(out, at, key, body, values + [(kind, value) for _, _, kind, value in data])


def write(events, stale=b"", spare_chunks=0):
    """The file's bytes, and for each record (offset in the file, bytes, number)."""
    chunks, places = [Chunk()], []
    for number, e in enumerate(events, 1):
        if not chunks[-1].add(number, e):
            chunks.append(Chunk())
            if not chunks[-1].add(number, e):
                raise ValueError("a record of more than a chunk")
    out, first = bytearray(4096), 1
    for k, chunk in enumerate(chunks):
        places += [(4096 + k * CHUNK + at, size, number) for at, size, number in chunk.places]
        out += chunk.bytes(first, stale)
        first += len(chunk.places)
    struct.pack_into("<8sQQQIHHHH", out, 0, b"ElfFile\0", 0, len(chunks) - 1, len(events) + 1, 128, 1, 3, 4096, len(chunks))
    struct.pack_into("<I", out, 124, zlib.crc32(out[:120]))
    return bytes(out) + bytes(spare_chunks * CHUNK), places


def sid(*parts):
    return bytes([1, len(parts) - 1]) + parts[0].to_bytes(6, "big") + struct.pack(f"<{len(parts) - 1}I", *parts[1:])


def sample(count, seed=1):
    """Events of a few providers with values of every type."""
    dice, events = random.Random(seed), []
    words = ["", "-", "C:\\Windows\\System32\\cmd.exe", "Überlauf <&'\"> \U0001f600", "a\r\nb\tc", "%%1936", "x" * 300]
    for k in range(count):
        kind = dice.randrange(4)
        s = text(dice.choice(words))
        if kind == 0:
            data = [("SubjectUserSid", SID, SID, sid(5, 21, 1, 2, 3, dice.randrange(1 << 32))), ("NewProcessId", HEX64, HEX64, struct.pack("<Q", dice.randrange(1 << 20))),
                    ("NewProcessName", STRING, STRING, s), ("CommandLine", STRING, 0, b"")]
        elif kind == 1:
            data = [("param1", STRING, STRING, s), ("Flag", BOOL, BOOL, struct.pack("<I", k & 1)), ("Ratio", F64, F64, struct.pack("<d", k / 3)),
                    ("Binary", BINARY, BINARY, bytes(range(k % 40))), ("When", FILETIME, FILETIME, struct.pack("<Q", 131116874743460000 + k)),
                    ("Handle", HEX32, HEX32, struct.pack("<I", k)), ("Missing", U32, 0, b"")]
        elif kind == 2:
            data = [("", STRINGS, STRINGS, text("one\0two\0" + "three" * (k % 3)))]
        else:
            data = [("Data", STRING, STRING, s), ("Data", U32, U32, struct.pack("<I", k)), ("Id", GUID, GUID, uuid.uuid5(uuid.NAMESPACE_OID, str(k)).bytes_le),
                    ("Numbers", U16 | 128, U16 | 128, struct.pack("<3H", k & 0xffff, 2, 3))]
        events.append({"provider": f"Test-Provider-{kind}", "guid": None if kind == 2 else uuid.uuid5(uuid.NAMESPACE_OID, f"p{kind}"), "id": 100 + kind,
                       "level": 4, "task": kind, "opcode": 1, "keywords": 1 << 63 | kind, "time": 131116874743460000 + 10000 * k, "pid": 4 * k, "tid": k,
                       "channel": "Security" if kind == 0 else "Test/Operational", "computer": "desk-7", "sid": sid(5, 18) if kind else None,
                       "activity": uuid.uuid5(uuid.NAMESPACE_OID, f"a{k}").bytes_le if kind == 1 else None, "data": data})
    return events
