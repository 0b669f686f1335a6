"""A forwarder on loopback between an agent and a collector, run by the test. It makes the faults that networks make: bytes
are late, slow, cut, reset, truncated, swallowed, corrupted, refused, or held back and delivered after their sender has given
up.

    with proxy.Proxy(collector.port) as between:
        between.plan = lambda number: proxy.Plan(up=proxy.Fault(cut_at=100_000)) if number < 3 else proxy.Plan()
        ... talk to between.port ...
    between.fired["cut"] is the number of cuts that happened.

Up is the direction from the agent to the collector, down is the opposite direction. Offsets count the bytes of one direction
of one connection, including the bytes that TLS adds. Everything runs in one thread of the test's own process and needs only the
standard library.
"""
import collections
import dataclasses
import errno
import random
import selectors
import socket
import struct
import threading
import time

READ_BYTES = 1 << 18
QUEUE_BYTES = 4 << 20  # so much is taken in before a direction stops reading; of a slow direction SLOW_QUEUE_BYTES
SLOW_QUEUE_BYTES = 1 << 16
TICK_S = 0.05


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to one direction of one connection. The default is nothing."""
    delay_s: float = 0.0         # each byte arrives this much later
    bytes_per_s: int = 0         # bandwidth; 0 is unlimited
    drip: tuple = ()             # (bytes, seconds): the most bytes at a time, the pause between
    cut_at: int = -1             # both directions end in order at this offset; -1: never, also below
    reset_at: int = -1           # both directions end with a reset at this offset
    truncate_at: int = -1        # this direction ends in order at this offset; the other continues
    swallow_at: int = -1         # from this offset on no byte passes, and neither end sees it: a half-open connection
    corrupt_at: int = -1         # one bit of this byte is flipped
    hold_at: int = -1            # from this offset on bytes wait for hold_s; they pass even when their sender has ended
    hold_s: float = 0.0

    def pieces(self):
        """(bytes, seconds between them), or None when everything may pass at once."""
        if self.drip:
            return self.drip
        if self.bytes_per_s:
            piece = max(1, int(self.bytes_per_s * TICK_S))
            return piece, piece / self.bytes_per_s
        return None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What happens to one connection."""
    up: Fault = Fault()
    down: Fault = Fault()
    refuse: bool = False         # accepted and reset at once, nothing reaches the collector
    deaf: bool = False           # accepted and never answered; the collector never hears of it


class Flow:
    """One direction of a connection: what was read and waits to be passed on."""

    def __init__(self, connection, source, sink, fault, fired):
        self.connection, self.source, self.sink, self.fault, self.fired = connection, source, sink, fault, fired
        self.queue = collections.deque()  # [due, bytes] or [due, name of an ending]
        self.queued = 0
        self.offset = 0          # bytes read so far
        self.read_open = True    # the source may still send
        self.done = False        # nothing will be passed on any more
        self.swallowing = False
        self.pieces = fault.pieces()
        self.next_piece = 0.0

    def limit(self):
        return SLOW_QUEUE_BYTES if self.pieces else QUEUE_BYTES

    def wants_to_read(self):
        return self.read_open and (self.done or self.swallowing or self.queued < self.limit())

    def due(self, offset):
        """When bytes read now at this offset may pass."""
        fault, now = self.fault, time.monotonic()
        if 0 <= fault.hold_at <= offset:
            self.fired["hold"] += 1
            return now + fault.hold_s
        if fault.delay_s:
            self.fired["delay"] += 1
        return now + fault.delay_s

    def push(self, data):
        """Takes in what the source sent; here the fault's offsets are looked at."""
        if self.done or self.swallowing:
            return
        fault, start = self.fault, self.offset
        self.offset += len(data)
        if start <= fault.corrupt_at < self.offset:
            data = bytearray(data)
            data[fault.corrupt_at - start] ^= 1 << (fault.corrupt_at % 8)
            self.fired["corrupt"] += 1
        ends = [(at, name) for name in ("cut", "reset", "truncate", "swallow")
                if start <= (at := getattr(fault, name + "_at")) < self.offset]
        at, ending = min(ends, default=(self.offset, None))
        # the bytes before hold_at are not held back
        parts = [start, at]
        if start < fault.hold_at < at:
            parts.insert(1, fault.hold_at)
        for first, last in zip(parts, parts[1:]):
            if last > first:
                self.queue.append([self.due(first), memoryview(bytes(data))[first - start:last - start]])
                self.queued += last - first
        if ending:
            self.fired[ending] += 1
        if ending == "swallow":
            self.swallowing = True
        elif ending:
            self.queue.append([self.due(at), ending])

    def end(self, name):
        """The source has ended: in order ("eof") or with a reset."""
        self.read_open = False
        if not self.done and not self.swallowing:
            self.queue.append([self.due(self.offset), name])

    def ready_at(self):
        """When the next thing in the queue may pass; None when there is nothing."""
        if not self.queue or self.done:
            return None
        return max(self.queue[0][0], self.next_piece if self.pieces else 0.0)

    def pump(self, now):
        """Passes on what is due; false when the sink cannot take more for now."""
        while (at := self.ready_at()) is not None and at <= now:
            item = self.queue[0][1]
            if isinstance(item, str):
                self.queue.popleft()
                self.finish(item)
                return True
            piece = item[:self.pieces[0]] if self.pieces else item
            try:
                sent = self.sink.send(piece)
            except BlockingIOError:
                return False
            except OSError:
                self.finish("reset" if not self.connection.held else "gone")
                return True
            self.queued -= sent
            if sent == len(item):
                self.queue.popleft()
            else:
                self.queue[0][1] = item[sent:]
            if self.pieces:
                self.fired["slow"] += 1
                self.next_piece = max(self.next_piece, now - TICK_S) + self.pieces[1] * sent / self.pieces[0]
        return True

    def finish(self, how):
        self.queue.clear()
        self.queued = 0
        self.done = True
        if how == "cut":
            self.connection.cut()
        elif how == "reset":
            self.connection.reset()
        elif how != "gone":
            shut_down(self.sink)


class Connection:
    """One accepted connection, its other end at the collector, and the two flows between them."""

    def __init__(self, client, server, plan, fired):
        self.client, self.server = client, server
        # where bytes are held back they outlive their sender, so one side's end is not the other's
        self.held = plan.up.hold_at >= 0 or plan.down.hold_at >= 0
        self.flows = [Flow(self, client, server, plan.up, fired), Flow(self, server, client, plan.down, fired)]
        self.sources = {flow.source: flow for flow in self.flows}
        self.closing = False

    def cut(self):
        """Both ends see an orderly end; bytes that still arrive are read and discarded."""
        for flow in self.flows:
            flow.queue.clear()
            flow.done = True
            shut_down(flow.sink)

    def reset(self):
        """Both ends see ECONNRESET once the forwarder's thread closes them."""
        for end in (self.client, self.server):
            linger_none(end)
        self.closing = True

    def over(self):
        return self.closing or all(not flow.read_open and not flow.queue for flow in self.flows)


def random_plans(seed, span_bytes, calm=0.2, longest_s=0.4):
    """A plan for each connection, drawn from the seed and the connection's number alone. Most directions break somewhere in
    their first span_bytes bytes, and many are slow or late besides."""
    def fault(rng):
        at = int(span_bytes ** rng.random())  # as likely in the handshake as far into a body
        ways = {}
        breaking = rng.choice(["cut", "reset", "truncate", "corrupt", "hold", ""])
        if breaking:
            ways[breaking + "_at"] = at
        if breaking == "hold":
            ways["hold_s"] = rng.uniform(0, longest_s)
        slow = rng.choice(["delay", "rate", "drip", "", "", ""])
        if slow == "delay":
            ways["delay_s"] = rng.uniform(0, longest_s / 4)
        elif slow == "rate":
            ways["bytes_per_s"] = rng.randrange(100_000, 2_000_000)
        elif slow == "drip":
            ways["drip"] = (rng.randrange(200, 20_000), rng.uniform(0, 0.01))
        return Fault(**ways)

    def plan(number):
        rng = random.Random(f"{seed}-{number}")
        if rng.random() < calm:
            return Plan()
        if rng.random() < 0.1:
            return Plan(refuse=True)
        which = rng.choice(["up", "down", "both"])
        return Plan(up=fault(rng) if which != "down" else Fault(), down=fault(rng) if which != "up" else Fault())
    return plan


def shut_down(end):
    try:
        end.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it has gone already


def linger_none(end):
    """Closing it will be a reset."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass


class Proxy:
    """The forwarder: listens on 127.0.0.1, connects to 127.0.0.1:target for each connection."""

    def __init__(self, target, plan=None, port=0):
        self.target = target
        self.plan = plan or (lambda number: Plan())
        self.port = port
        self.connections = 0             # accepted so far
        self.fired = collections.Counter()  # what happened how often; "slow", "delay" and "hold" count pieces
        self._listener = None
        self._live = set()
        self._deaf = []
        self._commands = collections.deque()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._stop = False
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self):
        self._woken.setblocking(False)
        self._listen()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop = True
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()
        if self._failure:
            raise self._failure

    @property
    def url(self):
        return f"https://localhost:{self.port}"

    # ---- from any thread ----

    def refuse(self):
        """Closes the listening socket: connecting fails with ECONNREFUSED until listen()."""
        self._do(self._unlisten)

    def listen(self):
        self._do(self._listen)

    def cut_all(self):
        """Every connection that is open now ends in order."""
        self._do(lambda: [connection.cut() for connection in self._live])

    def reset_all(self):
        self._do(lambda: [connection.reset() for connection in self._live])

    def busy(self):
        """Whether a connection is open, or bytes of one wait to be passed on."""
        return bool(self._live)

    def _do(self, what):
        done = threading.Event()
        self._commands.append((what, done))
        self._wake.send(b"x")
        while not done.wait(TICK_S):
            if not self._thread.is_alive():
                raise self._failure or RuntimeError("the proxy has ended")

    # ---- in its thread ----

    def _listen(self):
        if self._listener:
            return
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]

    def _unlisten(self):
        if self._listener:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except BlockingIOError:
                return
            except OSError:
                continue  # it went before it was accepted
            plan = self.plan(self.connections)
            self.connections += 1
            if plan.refuse:
                self.fired["refuse"] += 1
                linger_none(client)
                client.close()
                continue
            if plan.deaf:
                self.fired["deaf"] += 1
                self._deaf.append(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                self.fired["unreachable"] += 1
                linger_none(client)
                client.close()
                continue
            for end in (client, server):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if plan.up.pieces():
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_QUEUE_BYTES)
            if plan.down.pieces():
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_QUEUE_BYTES)
            self._live.add(Connection(client, server, plan, self.fired))

    def _watch(self, blocked):
        """Registers what each socket is waited for; only where it changed."""
        wanted = {self._woken: selectors.EVENT_READ}
        if self._listener:
            wanted[self._listener] = selectors.EVENT_READ
        for connection in self._live:
            for flow in connection.flows:
                if flow.wants_to_read():
                    wanted[flow.source] = wanted.get(flow.source, 0) | selectors.EVENT_READ
                if flow in blocked and not flow.done:
                    wanted[flow.sink] = wanted.get(flow.sink, 0) | selectors.EVENT_WRITE
        for key in list(self._selector.get_map().values()):
            events = wanted.pop(key.fileobj, 0)
            if not events:
                self._selector.unregister(key.fileobj)
            elif events != key.events:
                self._selector.modify(key.fileobj, events)
        for end, events in wanted.items():
            self._selector.register(end, events)

    def _read(self, flow):
        try:
            data = flow.source.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            flow.end("eof" if flow.connection.held or error.errno == errno.EPIPE else "reset")
            return
        if data:
            flow.push(data)
        else:
            flow.end("eof")

    def _close(self, connection):
        registered = self._selector.get_map()
        for end in (connection.client, connection.server):
            if end in registered:
                self._selector.unregister(end)
            end.close()

    def _run(self):
        try:
            while not self._stop:
                self._turn()
        except Exception as error:  # the test must hear of it
            self._failure = error
        finally:
            self._unlisten()
            for connection in self._live:
                self._close(connection)
            for client in self._deaf:
                client.close()
            self._selector.close()

    def _turn(self):
        now, blocked, timeout = time.monotonic(), set(), TICK_S
        for connection in list(self._live):
            blocked.update(flow for flow in connection.flows if not connection.closing and not flow.pump(now))
            if connection.over():
                self._live.discard(connection)
                self._close(connection)
                continue
            for flow in connection.flows:
                if (at := flow.ready_at()) is not None and flow not in blocked:
                    timeout = min(timeout, max(0.0, at - now))
        self._watch(blocked)
        readers = {source: flow for connection in self._live for source, flow in connection.sources.items()}
        for key, events in self._selector.select(timeout):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
            elif key.fileobj is self._listener:
                self._accept()
            elif events & selectors.EVENT_READ:
                self._read(readers[key.fileobj])
        while self._commands:
            what, done = self._commands.popleft()
            what()
            done.set()
