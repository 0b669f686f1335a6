"""Class descriptions, as proto/event/DESCRIPTIONS.md specifies them: a part of the second reader of batches (format_reader.py)."""
import hashlib
import types

from format_notation import need, varint

FIXED = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 8, 8: 8, 9: 4, 10: 8, 11: 1, 12: 4, 13: 1, 14: 2, 15: 4, 16: 8, 19: 16, 20: 8,
         21: 16, 22: 4, 23: 16, 24: 2, 25: 1, 26: 2}
POINTERS = (17, 18)
UTF16Z, ANSIZ, UTF16_COUNTED, ANSI_COUNTED, UTF16_REST, WBEM_SID, SID, BYTES, STRUCT_TYPE, UTF16_FIXED, ANSI_FIXED, UTF8Z, \
    UTF8_COUNTED, UTF8_FIXED = range(40, 54)
INTEGERS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18)
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
        need((f.members > 0) == (f.type == STRUCT_TYPE), section, "members: one at least of a struct, none of other fields")
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
