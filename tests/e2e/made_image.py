"""Images for tests: a DLL without code, whose debug directory names a PDB. The layout is that of Microsoft's "PE Format"."""
import struct


def image(timestamp, size, guid, age=7, pdb=b"found.pdb"):
    rsds = b"RSDS" + guid.bytes_le + struct.pack("<I", age) + pdb + b"\0"
    section = struct.pack("<IIHHIIII", 0, 0, 0, 0, 2, len(rsds), 0x1000 + 28, 0x400 + 28) + rsds
    section += bytes(-len(section) % 512)
    optional = struct.pack("<HBBIIIIIQIIHHHHHHIIIIHHQQQQII", 0x20B, 14, 0, 0, 0, 0, 0, 0, 0x180000000, 0x1000, 0x200, 10, 0, 0, 0, 10, 0, 0, size, 0x400, 1, 2, 0,
                           1 << 20, 4096, 1 << 20, 4096, 0, 16)
    optional += b"".join(struct.pack("<II", *((0x1000, 28) if i == 6 else (0, 0))) for i in range(16))
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, timestamp, 0, 0, len(optional), 0x2022) + optional
    head += struct.pack("<8sIIIIIIHHI", b".rdata", len(section), 0x1000, len(section), 0x400, 0, 0, 0, 0, 0x40000040)
    return head + bytes(0x400 - len(head)) + section
