"""Events of Microsoft-Windows-DotNETRuntime by hand, of one runtime of a process. Times are ticks of 100 ns. Layouts: proto/event/classes/dotnet.c and
dotnet_core.c.
"""
import struct
import uuid

RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"
SUSPENDED, RESTARTING, RESTARTED = 8, 7, 3  # events that have a runtime's number alone


def text(s):
    return s.encode("utf-16-le") + bytes(2)


class Runtime:
    """narrow: of a 32-bit process, whatever the kernel is."""

    def __init__(self, pid=4, tid=8, instance=7, narrow=False):
        self.pid, self.tid, self.instance, self.narrow = pid, tid, instance, narrow

    def event(self, number, version, payload, clock, level=4, task=1, keyword=1):
        body = struct.pack("<BBHHIIq", 18 if self.narrow else 19, 0xC0, 0x20 if self.narrow else 0x40, 0, self.tid, self.pid, clock) + uuid.UUID(RUNTIME).bytes_le + \
            struct.pack("<HBBBBHQII", number, version, 0, level, 0, task, keyword, 0, 0) + bytes(16) + payload
        return struct.pack("<H", 2 + len(body)) + body

    def simple(self, number, clock):
        return self.event(number, 1, struct.pack("<H", self.instance), clock)

    def suspend(self, clock, reason=1):
        return self.event(9, 1, struct.pack("<IIH", reason, 0, self.instance), clock)

    def start(self, clock, number, generation, kind, reason=0, version=2):
        """GC/Start, version 1 or 2."""
        return self.event(1, version, struct.pack("<IIIIH", number, generation, reason, kind, self.instance) + bytes(8 * (version > 1)), clock)

    def stop(self, clock, number, generation):
        return self.event(2, 1, struct.pack("<IIH", number, generation, self.instance), clock)

    def heaps(self, clock, *sizes):
        """GC/HeapStats: the sizes of five generations after a collection."""
        return self.event(4, 2, b"".join(struct.pack("<QQ", size, 0) for size in sizes[:4]) + struct.pack("<QQIIIHQQ", 0, 0, 0, 0, 0, self.instance, sizes[4], 0), clock)

    def history(self, clock, *before):
        """GC/PerHeapHistory: the sizes of a heap's generations before a collection."""
        p = "I" if self.narrow else "Q"
        return self.event(204, 3, struct.pack(f"<H6{p}IIIIII{p}I", self.instance, *[0] * 13, len(before)) + b"".join(struct.pack(f"<10{p}", size, *[0] * 9) for size in before), clock)

    def jitting(self, clock, method, name, il_bytes):
        return self.event(145, 1, struct.pack("<QQII", method, 0, 0, il_bytes) + text("Shop") + text(name) + text("void ()") + struct.pack("<H", self.instance), clock)

    def compiled(self, clock, method, native_bytes, flags):
        return self.event(143, 2, struct.pack("<QQQIII", method, 0, 0x7FF900000000, native_bytes, 0, flags) + text("Shop") + text("x") + text("void ()") +
                          struct.pack("<HQ", self.instance, 0), clock)

    def throughput(self, clock, measured):
        """ThreadPoolWorkerThreadAdjustment/Sample: a real number."""
        return self.event(54, 0, struct.pack("<dH", measured, self.instance), clock)
