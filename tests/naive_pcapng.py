"""A reader of pcapng files, written from the format's description (draft-ietf-opsawg-pcapng) alone and as plainly as it goes; nothing is shared with
the writer. It fails at whatever the description does not allow. For tests.

read(data) returns (options of the section, interfaces, packets).
"""
import dataclasses
import struct

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6


class Bad(Exception):
    """The file breaks a rule."""


@dataclasses.dataclass
class Interface:
    link: int
    name: str
    description: str
    ticks_per_second: int


@dataclasses.dataclass
class Packet:
    interface: Interface
    time_ns: int
    data: bytes
    original: int
    flags: int
    comment: str


def need(condition, what):
    if not condition:
        raise Bad(what)


def read_options(data):
    """{code: [bytes]}; options end with the block, or with one of code 0."""
    found, at = {}, 0
    while at < len(data):
        need(at + 4 <= len(data), "an option's head is cut")
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            need(length == 0 and at + 4 == len(data), "something follows the end of the options")
            return found
        need(at + 4 + length <= len(data), f"option {code} is longer than its block")
        found.setdefault(code, []).append(data[at + 4:at + 4 + length])
        padding = data[at + 4 + length:at + 4 + length + -length % 4]
        need(padding == bytes(-length % 4), f"option {code} is not padded with zeros")
        at += 4 + length + -length % 4
    need(not found, "the options have no end")
    return found


def text(options, code):
    need(len(options.get(code, [])) < 2 or code == 1, f"option {code} is there twice")
    return options[code][0].decode("utf-8") if code in options else ""


def read(data):
    section, interfaces, packets, at = None, [], [], 0
    while at < len(data):
        need(at + 12 <= len(data), "a block is cut")
        kind, length = struct.unpack_from("<II", data, at)
        need(length >= 12 and length % 4 == 0 and at + length <= len(data), f"a block of {length} bytes at {at}")
        need(struct.unpack_from("<I", data, at + length - 4)[0] == length, f"the block at {at} ends with another length")
        body = data[at + 8:at + length - 4]
        need((kind == SECTION) == (at == 0), "one section, at the beginning")
        if kind == SECTION:
            order, major, minor, size = struct.unpack_from("<IHHq", body)
            need((order, major, minor, size) == (0x1A2B3C4D, 1, 0, -1), "the section's head")
            section = read_options(body[16:])
        elif kind == INTERFACE:
            link, zero, _ = struct.unpack_from("<HHI", body)
            need(zero == 0, "reserved bytes")
            options = read_options(body[8:])
            resolution = options.get(9, [b"\6"])[0][0]
            need(resolution < 0x80, "a resolution that is no power of ten")
            interfaces.append(Interface(link, text(options, 2), text(options, 3), 10 ** resolution))
        elif kind == PACKET:
            number, high, low, captured, original = struct.unpack_from("<IIIII", body)
            need(number < len(interfaces), f"a packet of interface {number}")
            need(20 + captured + -captured % 4 <= len(body) and captured <= original, f"{captured} bytes of {original}")
            need(body[20 + captured:20 + captured + -captured % 4] == bytes(-captured % 4), "a packet is not padded with zeros")
            options = read_options(body[20 + captured + -captured % 4:])
            ticks = interfaces[number].ticks_per_second
            packets.append(Packet(interfaces[number], ((high << 32) + low) * 1_000_000_000 // ticks, body[20:20 + captured], original,
                                  struct.unpack("<I", options[2][0])[0] if 2 in options else 0, text(options, 1)))
        else:
            raise Bad(f"a block of type {kind}")
        at += length
    need(section is not None, "no section")
    return section, interfaces, packets
