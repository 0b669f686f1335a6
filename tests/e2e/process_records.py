"""Events about the token of a process: Kernel-Process ProcessStart and ProcessRundown, and Security-Auditing 4688, of a 64-bit Windows. For test_process_facts.py and the judges.
"""
import struct
import uuid

import kernel_records as kernel

KERNEL_PROCESS, SECURITY = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", "54849625-5478-4994-a5ba-3e3b0328c30d"
BEGIN = 132000000000000000 - 1  # FILETIME of clock 0 (test_single_records.trace)


def event(guid, number, version, payload, clock):
    body = struct.pack("<BBHHIIq", 19, 0xC0, 0x40, 0, 8, 4, clock) + uuid.UUID(guid).bytes_le + \
        struct.pack("<HBBBBHQII", number, version, 0, 4, 0, 0, 0x10, 0, 0) + bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body


def text(value):
    return value.encode("utf-16-le") + b"\0\0"


def started(pid, parent, made, clock, kind=1, elevated=0, level=8192, number=1, version=None):
    """Kernel-Process ProcessStart version 3 (2: without the token), or ProcessRundown (15) version 1."""
    rest = text("\\Device\\HarddiskVolume3\\a.exe") + struct.pack("<II", 1, 2) + text("") + text("")
    if version == 2:
        return event(KERNEL_PROCESS, 1, 2, struct.pack("<IQIII", pid, BEGIN + made, parent, 1, 0) + rest, clock)
    return event(KERNEL_PROCESS, number, 3 if number == 1 else 1, struct.pack("<IQQIQIIII", pid, 7, BEGIN + made, parent, 3, 1, 0, kind, elevated) +
                 kernel.sid_bytes(f"S-1-16-{level}") + rest, clock)


def created(pid, subject, target, kind, level, clock):
    """Security-Auditing 4688 version 2."""
    payload = kernel.sid_bytes("S-1-5-18") + text("PC$") + text("SHOP") + struct.pack("<QQ", subject, pid) + text("C:\\a.exe") + text(f"%%{1935 + kind}") + \
        struct.pack("<Q", 4) + text("a.exe") + kernel.sid_bytes("S-1-0-0") + text("-") + text("-") + struct.pack("<Q", target) + text("C:\\p.exe") + \
        kernel.sid_bytes(f"S-1-16-{level}")
    return event(SECURITY, 4688, 2, payload, clock)
