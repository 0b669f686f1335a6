"""A network link between two machines that loses, delays, reorders, duplicates and damages packets: two network namespaces with
a TUN device each, and a thread of the test that carries packets from one to the other. It needs root; may() returns whether this
process has the rights.

    with packets.Line(packets.Weather(loss=0.1, delay_s=0.02, jitter_s=0.05), seed=1) as line:
        subprocess.Popen(line.left.prefix + server)      # has the address line.left.address
        subprocess.Popen(line.right.prefix + client)     # has the address line.right.address

Only the standard library and the kernel's TUN driver are used; nothing outside the two namespaces changes.
"""
import collections
import ctypes
import dataclasses
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import threading
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x891C, 0x8913, 0x8914, 0x1
PACKET_BYTES = 2048


@dataclasses.dataclass
class Weather:
    """What happens to packets, in both directions. May be changed while it runs."""
    loss: float = 0.0       # the share that is lost
    doubled: float = 0.0    # the share that comes twice
    damaged: float = 0.0    # the share of which a bit is flipped
    delay_s: float = 0.0
    jitter_s: float = 0.0   # a random delay on top; what overtakes what is left to it
    cut: bool = False       # nothing passes


class Machine:
    """One end: a network namespace, held by a child process, with an address on its TUN device."""

    def __init__(self, address):
        self.address = address
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                self._inside(theirs)
            finally:
                os._exit(1)
        theirs.close()
        self._line = ours
        text, fds, _, _ = socket.recv_fds(ours, 200, 1)
        if not fds:
            self.close()
            raise OSError(f"no network namespace: {text.decode() or 'the child ended'}")
        self.tun = fds[0]
        os.set_blocking(self.tun, False)

    def _inside(self, line):
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")
            tun = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"line", IFF_TUN | IFF_NO_PI))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                def address(text):
                    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
                fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("16s", b"line") + address(self.address))
                fcntl.ioctl(any_socket, SIOCSIFNETMASK, struct.pack("16s", b"line") + address("255.255.255.0"))
                for name in (b"line", b"lo"):
                    flags = struct.unpack("16xH22x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16s24x", name)))[0]
                    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", name, flags | IFF_UP))
            socket.send_fds(line, [b"ready"], [tun])
        except OSError as error:
            line.send(str(error).encode())
            os._exit(1)
        signal.pause()  # until it is killed

    @property
    def prefix(self):
        """The words before a command that is to run here."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def close(self):
        self._line.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        if getattr(self, "tun", -1) >= 0:
            os.close(self.tun)


def may():
    """Whether this process can make network namespaces and TUN devices."""
    try:
        Machine("10.77.0.9").close()
        return True
    except OSError:
        return False


class Line:
    """Two machines and the packets between them."""

    def __init__(self, weather, seed=0):
        self.weather = weather
        self.passed = collections.Counter()
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="line", daemon=True)

    def __enter__(self):
        # the children are forks of this process: make a line before other threads
        self.left = Machine("10.77.0.1")
        self.right = Machine("10.77.0.2")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.left.close()
        self.right.close()

    def _run(self):
        other = {self.left.tun: self.right.tun, self.right.tun: self.left.tun}
        waiting, number = [], 0
        while not self._stop.is_set():
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(waiting)
                try:
                    os.write(to, packet)
                    self.passed["passed"] += 1
                except OSError:
                    self.passed["full"] += 1
            timeout = min(0.05, max(0.0, waiting[0][0] - now)) if waiting else 0.05
            for source in select.select(list(other), [], [], timeout)[0]:
                try:
                    packet = os.read(source, PACKET_BYTES)
                except OSError:
                    continue
                for due, packet in self._fate(packet):
                    number += 1
                    heapq.heappush(waiting, (due, number, other[source], packet))

    def _fate(self, packet):
        """When, and in what state, a packet arrives: none, one or two of it."""
        weather, chance = self.weather, self._random.random
        if weather.cut or chance() < weather.loss:
            self.passed["lost"] += 1
            return []
        copies = 1
        if chance() < weather.doubled:
            self.passed["doubled"] += 1
            copies = 2
        if chance() < weather.damaged:
            self.passed["damaged"] += 1
            at = self._random.randrange(len(packet))
            packet = packet[:at] + bytes([packet[at] ^ 1 << self._random.randrange(8)]) + packet[at + 1:]
        now = time.monotonic()
        return [(now + weather.delay_s + weather.jitter_s * chance(), packet) for _ in range(copies)]
