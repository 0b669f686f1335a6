"""Makes PE files with a compiled manifest in them, as Microsoft's message compiler, resource compiler and linker do: for tests of
what reads them. Written from the published layouts, and shares nothing with the reader.

usage: wevt_writer.py MANIFEST OUT.dll [--bits 32|64] [--mui LANGUAGE] : the texts go to LANGUAGE/OUT.dll.mui beside it
"""
import argparse
import pathlib
import struct
import uuid
import xml.etree.ElementTree as ET

IN_TYPES = ["", "UnicodeString", "AnsiString", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double",
            "Boolean", "Binary", "GUID", "Pointer", "FILETIME", "SYSTEMTIME", "SID", "HexInt32", "HexInt64", "CountedUnicodeString",
            "CountedAnsiString", "", "CountedBinary"]
OUT_TYPES = ["", "string", "dateTime", "byte", "unsignedByte", "short", "unsignedShort", "int", "unsignedInt", "long", "unsignedLong", "float",
             "double", "boolean", "GUID", "hexBinary", "HexInt8", "HexInt16", "HexInt32", "HexInt64", "PID", "TID", "Port", "IPv4", "IPv6",
             "SocketAddress", "CIMDateTime", "ETWTIME", "Xml", "ErrorCode", "Win32Error", "NTSTATUS", "HResult",
             "DateTimeCultureInsensitive", "Json", "Utf8", "Pkcs7WithTypeInfo", "CodePointer", "DateTimeUtc"]
DEFAULT_OUT = dict(zip(IN_TYPES[1:22], [1, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14, 19, 2, 2, 1, 18, 19]))
WIN_LEVELS = {"win:LogAlways": 0, "win:Critical": 1, "win:Error": 2, "win:Warning": 3, "win:Informational": 4, "win:Verbose": 5}
WIN_OPCODES = {"win:Info": 0, "win:Start": 1, "win:Stop": 2, "win:DC_Start": 3, "win:DC_Stop": 4, "win:Extension": 5, "win:Reply": 6,
               "win:Resume": 7, "win:Suspend": 8, "win:Send": 9, "win:Receive": 240}
WIN_KEYWORDS = {"win:ResponseTime": 1 << 48, "win:EventlogClassic": 1 << 55}
COMMON_CHANNELS = {"System": 8, "Application": 9, "Security": 10}
NONE = 0xFFFFFFFF
FIXED_LENGTH, LENGTH_FROM, FIXED_COUNT, COUNT_FROM = 2, 4, 8, 16
RT_MESSAGETABLE, ENGLISH = 11, 0x0409


def local(tag):
    return tag.split("}")[-1]


def children(node, *path):
    """Children of the last name of the path, which leads through single elements."""
    found = [node] if node is not None else []
    for name in path:
        found = [child for parent in found for child in parent if local(child.tag) == name]
    return found


class Blob:
    def __init__(self):
        self.bytes = bytearray()

    def align(self, to=4):
        self.bytes += bytes(-len(self.bytes) % to)
        return len(self.bytes)

    def put(self, data):
        at = len(self.bytes)
        self.bytes += data
        return at

    def u32(self, at, value):
        struct.pack_into("<I", self.bytes, at, value)

    def name(self, text):
        """A name with its size before it."""
        data = text.encode("utf-16le") + b"\0\0"
        data += bytes(-len(data) % 4)
        self.align()
        return self.put(struct.pack("<I", 4 + len(data)) + data)


class Compiler:
    def __init__(self, manifest, language="en-US"):
        self.root = ET.fromstring(manifest)
        self.messages, self.numbers = {}, {}
        self.strings = {}
        for resources in (r for r in self.root.iter() if local(r.tag) == "resources" and r.get("culture") in (None, language)):
            for s in (s for s in resources.iter() if local(s.tag) == "string"):
                self.strings.setdefault(s.get("id"), s.get("value"))
        self.next_number = 1

    def message(self, reference):
        """The number of a text in the message table."""
        if not reference:
            return NONE
        text = self.strings[reference[9:-1]] if reference.startswith("$(string.") else reference
        if reference not in self.numbers:
            self.numbers[reference] = self.next_number
            self.messages[self.next_number] = text
            self.next_number += 1 if len(self.messages) % 7 else 100  # blocks of the table
        return self.numbers[reference]

    def compile(self):
        providers = [p for p in self.root.iter() if local(p.tag) == "provider" and p.get("guid")]
        blob = Blob()
        blob.put(struct.pack("<4sIHHI", b"CRIM", 0, 5, 1, len(providers)))
        for p in providers:
            blob.put(uuid.UUID(p.get("guid").strip("{}")).bytes_le + bytes(4))
        for i, p in enumerate(providers):
            blob.u32(16 + 20 * i + 16, self.provider(blob, p))
        blob.u32(4, len(blob.bytes))
        return bytes(blob.bytes)

    @staticmethod
    def table(blob, signature, entries, names, name_at):
        """entries: packed, of one size; names: one each, whose offset goes to name_at."""
        at = blob.align() and blob.put(struct.pack("<4sII", signature, 0, len(entries))) or len(blob.bytes) - 12
        places = [blob.put(entry) for entry in entries]
        for place, name in zip(places, names):
            blob.u32(place + name_at, blob.name(name))
        blob.u32(at + 4, len(blob.bytes) - at)
        return at, places

    def provider(self, blob, p):
        start = blob.align()
        sections = ["TTBL", "MAPS", "CHAN", "PRVA", "OPCO", "LEVL", "TASK", "KEYW", "EVNT"]
        kinds = [7, 6, 5, 13, 2, 0, 1, 3, 4]
        blob.put(struct.pack("<4sIII", b"WEVT", 0, self.message(p.get("message")), len(sections)))
        pairs = [blob.put(struct.pack("<II", kind, 0)) for kind in kinds]
        self.maps = self.put_maps(blob, p)
        self.templates = self.put_templates(blob, p)
        at_channels, self.channels = self.put_channels(blob, p)
        private = blob.align() and blob.put(struct.pack("<4sIIII", b"PRVA", 0, 1, 0x10000001, 0))
        blob.u32(private + 16, blob.put(p.get("name").encode("utf-16le") + b"\0\0"))
        blob.align()
        opcodes, self.opcodes = self.put_opcodes(blob, p)
        levels, self.levels = self.put_simple(blob, b"LEVL", children(p, "levels", "level"), WIN_LEVELS, "value", 12, 8)
        tasks, self.tasks = self.put_simple(blob, b"TASK", children(p, "tasks", "task"), {}, "value", 28, 24)
        keywords, self.keywords = self.put_keywords(blob, p)
        places = {"TTBL": self.template_table, "MAPS": self.map_table, "CHAN": at_channels, "PRVA": private, "OPCO": opcodes, "LEVL": levels,
                  "TASK": tasks, "KEYW": keywords, "EVNT": self.put_events(blob, p)}
        for pair, name in zip(pairs, sections):
            blob.u32(pair + 4, places[name])
        blob.u32(start + 4, len(blob.bytes) - start)
        return start

    def put_maps(self, blob, p):
        maps = [m for parent in children(p, "maps") for m in parent]
        self.map_table = blob.align() and blob.put(struct.pack("<4sII", b"MAPS", 0, len(maps)))
        offsets = blob.put(bytes(4 * len(maps)))
        found = {}
        for i, m in enumerate(maps):
            entries = children(m, "map")
            at = blob.put(struct.pack("<4sIIII", b"BMAP" if local(m.tag) == "bitMap" else b"VMAP", 20 + 8 * len(entries), 0, 0, len(entries)))
            for e in entries:
                blob.put(struct.pack("<II", int(e.get("value"), 0), self.message(e.get("message"))))
            blob.u32(offsets + 4 * i, at)
            found[m.get("name")] = at
        for m in maps:
            blob.u32(found[m.get("name")] + 8, blob.name(m.get("name")))
        blob.u32(self.map_table + 4, len(blob.bytes) - self.map_table)
        return found

    def put_templates(self, blob, p):
        templates = children(p, "templates", "template")
        self.template_table = blob.align() and blob.put(struct.pack("<4sII", b"TTBL", 0, len(templates)))
        found = {}
        for t in templates:
            found[t.get("tid")] = self.put_template(blob, t)
        blob.u32(self.template_table + 4, len(blob.bytes) - self.template_table)
        return found

    def put_template(self, blob, t):
        top = [d for d in t if local(d.tag) in ("data", "struct")]
        items = list(top)
        for s in (d for d in top if local(d.tag) == "struct"):
            items += children(s, "data")
        names = [d.get("name") for d in items]
        at = blob.align() and blob.put(struct.pack("<4sIIIII", b"TEMP", 0, len(top), len(items), 0, 1) + uuid.uuid5(uuid.NAMESPACE_OID, t.get("tid")).bytes_le)
        blob.put(b"\x0f\x01\x01\x00")  # the XML fragment, which decoding needs none of
        places = [blob.put(bytes(20)) for _ in items]
        blob.u32(at + 16, places[0] if places else 0)
        member = len(top)
        for place, d in zip(places, items):
            scope = range(0, len(top))
            flags = count = length = kind = extra = where = 0
            if local(d.tag) == "struct":
                members = len(children(d, "data"))
                kind, extra = member, members
                member += members
            else:
                name_in, name_out = d.get("inType").split(":")[1], (d.get("outType") or ":").split(":")[1]
                out = OUT_TYPES.index(name_out) if name_out else DEFAULT_OUT.get(name_in, 1)
                kind = IN_TYPES.index(name_in) | out << 8
                where = self.maps[d.get("map")] if d.get("map") else 0
                if d not in top:
                    owner = next(s for s in top if d in list(s))
                    first = items.index(children(owner, "data")[0])
                    scope = range(first, first + len(children(owner, "data")))
            for attribute in ("count", "length"):
                value = d.get(attribute)
                if value is None:
                    continue
                number = int(value, 0) if value[0].isdigit() else next(i for i in scope if names[i] == value)
                if attribute == "count":
                    count, flags = number, flags | (FIXED_COUNT if value[0].isdigit() else COUNT_FROM)
                else:
                    length, flags = number, flags | (FIXED_LENGTH if value[0].isdigit() else LENGTH_FROM)
            struct.pack_into("<IHHIHH", blob.bytes, place, flags, kind, extra, where, count, length)
        for place, name in zip(places, names):
            blob.u32(place + 16, blob.name(name))
        blob.align()
        blob.u32(at + 4, len(blob.bytes) - at)
        return at

    def put_channels(self, blob, p):
        found, entries, names, following = {}, [], [], 16
        for i, c in enumerate([c for parent in children(p, "channels") for c in parent]):
            name = c.get("name")
            number = int(c.get("value") or "0", 0) or (COMMON_CHANNELS[name] if local(c.tag) == "importChannel" and name in COMMON_CHANNELS else following)
            if local(c.tag) == "channel":
                following = max(following, number + 1)
            found[name] = found[c.get("chid") or name] = number
            entries.append(struct.pack("<IIII", i, 0, number, self.message(c.get("message"))))
            names.append(name)
        return self.table(blob, b"CHAN", entries, names, 4)[0], {**COMMON_CHANNELS, **found}

    def put_simple(self, blob, signature, nodes, common, attribute, size, name_at):
        values = {n.get("name"): (int(n.get(attribute), 0), self.message(n.get("message"))) for n in nodes}
        values.update({name: (value, NONE) for name, value in common.items()})
        entries = [struct.pack("<II", value, message) + bytes(size - 8) for value, message in values.values()]
        at, places = self.table(blob, signature, entries, list(values), name_at)
        return at, {name: (value[0], place) for (name, value), place in zip(values.items(), places)}

    def put_opcodes(self, blob, p):
        values = {("", o.get("name")): (int(o.get("value"), 0) << 16, self.message(o.get("message"))) for o in children(p, "opcodes", "opcode")}
        for t in children(p, "tasks", "task"):
            for o in children(t, "opcodes", "opcode"):
                values[t.get("name"), o.get("name")] = (int(o.get("value"), 0) << 16 | int(t.get("value"), 0), self.message(o.get("message")))
        values.update({("", name): (value << 16, NONE) for name, value in WIN_OPCODES.items()})
        entries = [struct.pack("<III", value, message, 0) for value, message in values.values()]
        at, places = self.table(blob, b"OPCO", entries, [name for _, name in values], 8)
        return at, {key: (value[0] >> 16, place) for (key, value), place in zip(values.items(), places)}

    def put_keywords(self, blob, p):
        values = {k.get("name"): (int(k.get("mask"), 0), self.message(k.get("message"))) for k in children(p, "keywords", "keyword")}
        values.update({name: (mask, NONE) for name, mask in WIN_KEYWORDS.items()})
        entries = [struct.pack("<QII", mask, message, 0) for mask, message in values.values()]
        return self.table(blob, b"KEYW", entries, list(values), 12)[0], {name: mask for name, (mask, _) in values.items()}

    def put_events(self, blob, p):
        events = children(p, "events", "event")
        at = blob.align() and blob.put(struct.pack("<4sIII", b"EVNT", 0, len(events), 0))
        for e in events:
            task, task_at = self.tasks.get(e.get("task"), (0, 0))
            key = (e.get("task"), e.get("opcode")) if (e.get("task"), e.get("opcode")) in self.opcodes else ("", e.get("opcode"))
            opcode, opcode_at = self.opcodes.get(key, (0, 0))
            level, level_at = self.levels.get(e.get("level"), (0, 0))
            keywords = 0
            for name in (e.get("keywords") or "").split():
                keywords |= self.keywords.get(name, 0)
            template = self.templates[e.get("template")] if e.get("template") else 0
            blob.put(struct.pack("<HBBBBHQIIIIIIII", int(e.get("value"), 0), int(e.get("version") or "0", 0), self.channels.get(e.get("channel"), 0),
                                 level, opcode, task, keywords, self.message(e.get("message")), template, opcode_at, level_at, task_at, 0, 0, 0))
        blob.u32(at + 4, len(blob.bytes) - at)
        return at


def message_table(messages):
    """A message table resource: runs of numbers that follow each other are a block."""
    runs = []
    for number in sorted(messages):
        if not runs or number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    head, body = struct.pack("<I", len(runs)), b""
    base = 4 + 12 * len(runs)
    for run in runs:
        head += struct.pack("<III", run[0], run[-1], base + len(body))
        for number in run:
            text = messages[number].encode("utf-16le") + "\r\n\0".encode("utf-16le")
            text += bytes(-len(text) % 4)
            body += struct.pack("<HH", 4 + len(text), 1) + text
    return head + body


def build_pe(resources, bits=64):
    """resources: [(type: number or name, name: number, language, bytes)]. A DLL with nothing but them."""
    tree = {}
    for kind, name, language, data in resources:
        tree.setdefault(kind, {}).setdefault(name, {})[language] = data
    directories, texts, datas = Blob(), [], []

    def directory(entries, level):
        names = sorted(k for k in entries if isinstance(k, str))
        numbers = sorted(k for k in entries if isinstance(k, int))
        at = directories.put(struct.pack("<IIHHHH", 0, 0, 0, 0, len(names), len(numbers)) + bytes(8 * len(entries)))
        for i, key in enumerate(names + numbers):
            entry = at + 16 + 8 * i
            if isinstance(key, str):
                texts.append((entry, key))
            else:
                directories.u32(entry, key)
            if level < 2:
                directories.u32(entry + 4, 0x80000000 | directory(entries[key], level + 1))
            else:
                datas.append((entry + 4, entries[key]))
        return at

    directory(tree, 0)
    for entry, text in texts:
        directories.u32(entry, 0x80000000 | directories.put(struct.pack("<H", len(text)) + text.encode("utf-16le")))
    address = 0x2000
    for entry, data in datas:
        directories.align()
        leaf = directories.put(bytes(16))
        directories.u32(entry, leaf)
        directories.align(8)
        at = directories.put(data)
        struct.pack_into("<IIII", directories.bytes, leaf, address + at, len(data), 0, 0)
    directories.align(512)
    raw = bytes(directories.bytes)
    optional = struct.pack("<HBBIIIII", 0x20B if bits == 64 else 0x10B, 14, 0, 0, len(raw), 0, 0, 0x1000)
    if bits == 64:
        optional += struct.pack("<QIIHHHHHHIIIIHHQQQQII", 0x180000000, 0x1000, 512, 6, 0, 0, 0, 6, 0, 0, 0x3000 + len(raw), 0x400, 0, 2, 0, 1, 1, 1, 1, 0, 16)
    else:
        optional += struct.pack("<IIIIHHHHHHIIIIHHIIIIII", 0x2000, 0x10000000, 0x1000, 512, 6, 0, 0, 0, 6, 0, 0, 0x3000 + len(raw), 0x400, 0, 2, 0, 1, 1, 1, 1, 0, 16)
    optional += struct.pack("<II", 0, 0) * 2 + struct.pack("<II", address, len(raw)) + struct.pack("<II", 0, 0) * 13
    file = struct.pack("<2s58xI", b"MZ", 64) + b"PE\0\0"
    file += struct.pack("<HHIIIHH", 0x8664 if bits == 64 else 0x14C, 2, 0, 0, 0, len(optional), 0x2102) + optional
    file += struct.pack("<8sIIIIIIHHI", b".text", 0x10, 0x1000, 0, 0, 0, 0, 0, 0, 0x60000020)
    file += struct.pack("<8sIIIIIIHHI", b".rsrc", len(raw), address, len(raw), 0x400, 0, 0, 0, 0, 0x40000040)
    return file + bytes(0x400 - len(file)) + raw


def write(manifest, path, bits=64, mui=None, language="en-US", langid=ENGLISH):
    """Compiles the manifest's bytes into path, with the texts of a language; mui: they go to that folder's file."""
    compiler = Compiler(manifest, language)
    crim = compiler.compile()
    texts = (RT_MESSAGETABLE, 1, langid, message_table(compiler.messages))
    path = pathlib.Path(path)
    if mui:
        (path.parent / mui).mkdir(exist_ok=True)
        (path.parent / mui / (path.name + ".mui")).write_bytes(build_pe([texts], bits))
    path.write_bytes(build_pe([("WEVT_TEMPLATE", 1, ENGLISH, crim)] + ([] if mui else [texts]), bits))
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bits", type=int, choices=(32, 64), default=64)
    parser.add_argument("--mui")
    arguments = parser.parse_args()
    write(arguments.manifest.read_bytes(), arguments.out, arguments.bits, arguments.mui)
