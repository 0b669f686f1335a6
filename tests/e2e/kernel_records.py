"""Records of the kernel by hand: processes, threads, images, samples with stacks; as a 64-bit Windows logs them. Times are ticks of
100 ns. Layouts: proto/event/classes.
"""
import struct
import uuid

import test_single_records as single

DRIVER = 0xFFFFF80000000000  # addresses from here on are the kernel's


def sid_bytes(sid):
    """A SID as bytes, of its text."""
    _, revision, authority, *rest = sid.split("-")
    return struct.pack(">BBHI", int(revision), len(rest), 0, int(authority)) + struct.pack(f"<{len(rest)}I", *map(int, rest))


def process(pid, program, clock, ends=False, sid="S-1-5-18"):
    """Process/Start or Process/End, version 4."""
    return single.system_record(3, 2 if ends else 1, 4, struct.pack("<QIIIiQI", 0xFFFFA00000001080 + pid * 4096, pid, 4, 1, 0, 0x1000, 0) + struct.pack("<QQ", 1, 0) +
                                sid_bytes(sid) + program.encode() + b"\0" + (program + "\0").encode("utf-16le") + bytes(4), clock)


def thread(pid, tid, clock, start=0x1000, ends=False):
    """Thread/Start or Thread/End, version 3."""
    return single.system_record(5, 2 if ends else 1, 3, struct.pack("<IIQQQQQQQIBBBB", pid, tid, 0, 0, 0, 0, 1, start, 0, 0, 8, 5, 2, 0), clock)


def image(pid, base, size, path, clock, unloads=False):
    """Image/Load or Image/UnLoad, version 2."""
    return single.system_record(*((20, 2) if unloads else (3, 10)), 2, struct.pack("<QQIIIIQIIII", base, size, pid, 0, 0, 0, base, 0, 0, 0, 0) +
                                f"\\Device\\HarddiskVolume3\\{path}\0".encode("utf-16le"), clock)


def disk_read(tid, size, offset, clock, version=3):
    """DiskIo/Read, version 2, which does not name the thread, or 3."""
    payload = struct.pack("<IIIIQQQQ", 0, 0x60043, size, 0, offset, 0xFFFFE00000001000, 0xFFFFE00000002000, 700)
    return single.system_record(1, 10, version, payload + (struct.pack("<I", tid) if version > 2 else b""), clock)


def sample(pid, tid, frames, clock):
    """PerfInfo/SampleProf at the first of the frames, and StackWalk/Stack with all of them, the innermost first; kernel and user halves."""
    halves = [[a for a in frames if a >= DRIVER], [a for a in frames if a < DRIVER]]
    return [single.system_record(15, 46, 2, struct.pack("<QIHH", frames[0], tid, 1, 0), clock),
            *(single.system_record(24, 32, 2, struct.pack(f"<QII{len(half)}Q", clock, pid, tid, *half), clock) for half in halves if half)]


def runtime_walk(pid, tid, frames, clock, narrow=False):
    """ClrStack/Walk of the .NET runtime; narrow: of a 32-bit process, whatever the kernel is."""
    payload = struct.pack(f"<HBBI{len(frames)}{'I' if narrow else 'Q'}", 9, 0, 0, len(frames), *frames)
    body = struct.pack("<BBHHIIq", 18 if narrow else 19, 0xC0, 0x20 if narrow else 0x40, 0, tid, pid, clock) + \
        uuid.UUID("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4").bytes_le + struct.pack("<HBBBBHQII", 82, 0, 11, 0, 0, 11, 0x40000000, 0, 0) + bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body
