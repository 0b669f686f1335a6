"""A second reader of event logs (.evtx), written from the format's description alone and as plainly as it goes: it makes a tree of each
record and nothing is shared with the C reader. For tests: what proto/evtx says is compared with what this says.

records(data) yields (chunk's offset, record's offset in the chunk, id, FILETIME, root); a node is (name, [(attribute, value)], [child]),
a value a list of pieces, and a piece a str, or (type, bytes).
"""
import struct
import uuid

CHUNK = 65536
NULL, STRING, ANSI, XML, ARRAY = 0, 1, 2, 33, 128
WIDTHS = {3: "b", 4: "B", 5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<f", 12: "<d"}


class Bad(Exception):
    pass


class Chunk:
    def __init__(self, data):
        self.data = data

    def word(self, at):
        return struct.unpack_from("<H", self.data, at)[0]

    def dword(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def name(self, at):
        length = self.word(at + 6)
        return self.data[at + 8:at + 8 + 2 * length].decode("utf-16-le"), 10 + 2 * length

    def placed_name(self, at):
        """The name whose place is written at `at`, and where to read on: it may be right there."""
        place = self.dword(at)
        name, size = self.name(place)
        return name, at + 4 + (size if place == at + 4 else 0)

    def records(self):
        at = 512
        while at + 32 <= len(self.data):
            size = self.dword(at + 4)
            if self.data[at:at + 4] != b"**\0\0" or not 32 <= size <= len(self.data) - at or self.dword(at + size - 4) != size:
                at += 1
                continue
            number, time = struct.unpack_from("<QQ", self.data, at + 8)
            yield at, size, number, time
            at += size

    def root(self, at, size):
        top = self.fragment(at + 24, at + size - 4, None, False)
        nodes = [n for n in top if isinstance(n, tuple) and len(n) == 3]
        if not nodes:
            raise Bad("no element")
        return nodes[0]

    def fragment(self, at, end, values, in_template):
        """The nodes and pieces of a fragment."""
        top, stack = [], []  # stack of (name, attributes, children)
        attribute = None
        while at < end:
            token = self.data[at]
            kind, more = token & ~0x40, token & 0x40
            at += 1
            into = attribute if attribute is not None else stack[-1][2] if stack else top
            if kind == 0:
                break
            elif kind == 1:
                at += 6 if in_template else 4
                name, at = self.placed_name(at)
                at += 4 if more else 0
                stack.append((name, [], []))
            elif kind == 6:
                name, at = self.placed_name(at)
                attribute = []
                stack[-1][1].append((name, attribute))
            elif kind == 2:
                attribute = None
            elif kind in (3, 4):
                attribute = None
                node = stack.pop()
                (stack[-1][2] if stack else top).append(node)
            elif kind in (5, 7):
                at += kind == 5
                length = self.word(at)
                into.append(self.data[at + 2:at + 2 + 2 * length].decode("utf-16-le", "surrogatepass"))
                at += 2 + 2 * length
            elif kind == 8:
                into.append(chr(self.word(at)))
                at += 2
            elif kind == 9:
                name, at = self.placed_name(at)
                into.append({"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}.get(name, ""))
            elif kind == 10:
                _, at = self.placed_name(at)
            elif kind == 11:
                at += 2 + 2 * self.word(at)
            elif kind == 12:
                made, at = self.template(at)
                into.extend(made)
            elif kind in (13, 14):
                number, declared = self.word(at), self.data[at + 2]
                at += 3
                value = values[number] if number < len(values) else (NULL, 0, 0)
                self.substitute(value, declared, kind == 14, into, stack[-1] if attribute is not None else None)
            elif kind == 15:
                at += 3
            else:
                raise Bad(f"token {token:#x}")
        if stack:
            raise Bad("an element is open")
        return top

    def substitute(self, value, declared, optional, into, owner):
        kind, at, size = value
        if kind == NULL or (size == 0 and kind not in (STRING, ANSI)):
            if owner is not None and optional and not into:
                owner[1].pop()
            elif owner is None and declared in (STRING, ANSI):
                into.append((STRING, b""))
        elif kind == XML:
            into.extend(self.fragment(at, at + size, None, False))
        else:
            into.append((kind, self.data[at:at + size]))

    def template(self, at):
        definition = self.dword(at + 5)
        size = self.dword(definition + 20)
        if self.dword(definition + 4) != self.dword(at + 1):
            raise Bad("another template is in its place")
        at += 9
        if definition == at:
            at += 24 + size
        count = self.dword(at)
        kinds = [struct.unpack_from("<HB", self.data, at + 4 + 4 * i) for i in range(count)]
        at += 4 + 4 * count
        values = []
        for length, kind in kinds:
            values.append((kind, at, length))
            at += length
        return self.fragment(definition + 24, definition + 24 + size, values, True), at


def records(data):
    for offset in range(4096, len(data), CHUNK):
        chunk = Chunk(data[offset:offset + CHUNK])
        if chunk.data[:8] != b"ElfChnk\0":
            continue
        end = chunk.dword(48)
        for at, size, number, time in chunk.records():
            if at < end:
                yield offset, at, number, time, chunk.root(at, size)


# ---- values as text, and XML ------------------------------------------------------------------------------------------------

def filetime(ticks):
    import datetime
    seconds, rest = divmod(ticks, 10**7)
    day = datetime.datetime(1601, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{day:%Y-%m-%dT%H:%M:%S}.{rest:07d}Z"


def text_of(piece):
    if isinstance(piece, str):
        return piece.split("\0")[0]
    kind, data = piece
    if kind & ARRAY:
        return ", ".join(text_of(p) for p in elements(kind, data))
    if kind == STRING:
        return data.decode("utf-16-le", "surrogatepass").split("\0")[0]
    if kind == ANSI:
        return data.split(b"\0")[0].decode("cp1252")
    if kind in WIDTHS and len(data) == struct.calcsize(WIDTHS[kind]):
        v = struct.unpack(WIDTHS[kind], data)[0]
        return f"{v:.9g}" if kind == 11 else f"{v:.17g}" if kind == 12 else str(v)
    if kind == 13 and len(data) in (1, 4):
        return "true" if any(data) else "false"
    if kind == 15 and len(data) == 16:
        return "{" + str(uuid.UUID(bytes_le=data)).upper() + "}"
    if kind in (16, 32) and len(data) in (4, 8):
        return hex(int.from_bytes(data, "little"))
    if kind == 17 and len(data) == 8:
        return filetime(int.from_bytes(data, "little"))
    if kind == 18 and len(data) == 16:
        y, m, _, d, h, mi, s, ms = struct.unpack("<8H", data)
        return f"{y:04d}-{m:02d}-{d:02d}T{h:02d}:{mi:02d}:{s:02d}.{ms:03d}Z"
    if kind == 19 and len(data) >= 8 and data[1] <= 15 and len(data) >= 8 + 4 * data[1]:
        authority = int.from_bytes(data[2:8], "big")
        return "-".join(map(str, ["S", data[0], f"0x{authority:012X}" if authority >> 32 else authority, *struct.unpack_from(f"<{data[1]}I", data, 8)]))
    if kind == 20 and len(data) == 4 or kind == 21 and len(data) == 8:
        return hex(int.from_bytes(data, "little"))
    return data.hex().upper()


def elements(kind, data):
    kind &= ARRAY - 1
    if kind == STRING:
        text, made = data, []
        while text:
            at = next((i for i in range(0, len(text) - 1, 2) if text[i:i + 2] == b"\0\0"), len(text))
            made.append((STRING, text[:at]))
            text = text[at + 2:]
        return made
    width = struct.calcsize(WIDTHS[kind]) if kind in WIDTHS else {13: 4, 15: 16, 17: 8, 18: 16, 20: 4, 21: 8}.get(kind, 0)
    if not width:
        return [(kind, data)] if data else []
    return [(kind, data[i:i + width]) for i in range(0, len(data) - width + 1, width)]


def escaped(text):
    for of, to in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;"), ("\r", "&#13;"), ("\n", "&#10;"), ("\t", "&#9;")):
        text = text.replace(of, to)
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return "".join("\ufffd" if c < " " else c for c in text)


def xml_of(node):
    name, attributes, children = node
    tag = name + "".join(f" {a}='{''.join(escaped(text_of(p)) for p in value)}'" for a, value in attributes)
    if len(children) == 1 and isinstance(children[0], tuple) and len(children[0]) == 2 and children[0][0] & ARRAY:
        pieces = [escaped(text_of(p)) for p in elements(*children[0])] or [""]
        return "".join(f"<{tag}>{p}</{name}>" for p in pieces)
    inner = "".join(xml_of(c) if isinstance(c, tuple) and len(c) == 3 else escaped(text_of(c)) for c in children)
    return f"<{tag}>{inner}</{name}>"
