"""A collector that is not one: an https server with client certificates whose answers the test decides. By default it is
honest and forgets what it acknowledged; a behaviour (a function) makes it slow, silent, wrong or hostile.

    with receiver.Receiver(env.certs, receiver.honest) as fake:
        ... talk to fake.port ...
    fake.uploads        the bodies that came, newest last (bounded)

A behaviour is called with an Exchange when a request's head has been read; it reads the body, answers, or does not.
"""
import collections
import socket
import ssl
import struct
import threading
import time

import harness
import uploads

MAX_HEAD_BYTES = 1 << 16


class Exchange:
    """One request and its answer."""

    def __init__(self, server, connection, number, head):
        self.server, self.connection, self.number = server, connection, number
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.path = (lines[0].split(" ") + ["", ""])[:2]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.body = b""
        self.keep_open = True

    def read_body(self, bytes_per_s=0):
        """The whole body, not faster than that."""
        if self.headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = int(self.headers.get("content-length", 0))
        parts, got = [], 0
        while got < length:
            part = self.connection.recv(min(length - got, max(1, bytes_per_s // 20) if bytes_per_s else 1 << 16))
            if not part:
                raise ConnectionError("the agent went in the middle of a body")
            parts.append(part)
            got += len(part)
            if bytes_per_s:
                self.wait(len(part) / bytes_per_s)
        self.body = b"".join(parts)
        self.server.note(self.body)
        return self.body

    def wait(self, seconds):
        """Sleeps; ends the connection when the test ends."""
        if self.server.stopping.wait(seconds):
            raise ConnectionError("the test is over")

    def send(self, data):
        self.connection.sendall(data)

    def answer(self, status=200, body=b"", headers=(), reason="Answer"):
        names = {name.lower() for name, _ in headers}
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
        if not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def heads(self):
        return [uploads.Head(batch) for batch in uploads.batches(self.body)]

    def acknowledge(self, heads, **more):
        """Answers that these batches are stored."""
        stream = heads[0].stream if heads else self.heads()[0].stream
        self.answer(200, uploads.ack(stream, [(head.number, head.number) for head in heads], **more),
                    [("Content-Type", "application/x-protobuf")])


def honest(exchange):
    exchange.read_body()
    exchange.acknowledge(exchange.heads())


def taken(streams):
    """A behaviour: each batch of the first stream is refused, since another batch has its number. So the agent continues with another
    stream. Uploads of that stream wait for an answer. streams: each upload's stream is added to it."""
    def behave(exchange):
        exchange.read_body()
        heads = exchange.heads()
        streams.append(heads[0].stream)
        if heads[0].stream != streams[0]:
            exchange.wait(3600)
        exchange.answer(200, uploads.ack(heads[0].stream, refused=[(h.number, uploads.REFUSED_CONFLICT, "taken") for h in heads]),
                        [("Content-Type", "application/x-protobuf")])
    return behave


class Receiver:
    """The server; a thread a connection."""

    def __init__(self, certs, behave=honest, port=0, cert=None, key=None, tls=True, keep_uploads=4):
        """certs: the folder of `etwcollector ca`. tls False: whatever comes is answered as plain http."""
        self.behave, self.port = behave, port
        self.stopping = threading.Event()
        self.uploads = collections.deque(maxlen=keep_uploads)
        self.requests, self.connections, self.bytes, self.handshakes, self.resumed = 0, 0, 0, 0, 0
        self.failures = []  # of the behaviours themselves: bugs of the test
        self._lock = threading.Lock()
        self._open = set()
        self._context = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.minimum_version = ssl.TLSVersion.TLSv1_3
            self._context.load_cert_chain(cert or certs / "server.crt", key or certs / "server.key")
            self._context.load_verify_locations(certs / "ca.crt")
            self._context.verify_mode = ssl.CERT_REQUIRED

    def note(self, body):
        with self._lock:
            self.uploads.append(body)
            self.bytes += len(body)

    @property
    def url(self):
        return f"https://localhost:{self.port}"

    def __enter__(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(1024)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="receiver", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Closes all connections with a reset, so that no client waits for an answer. May be called twice."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self._lock:
            still = list(self._open)
        for connection in still:
            try:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while not self.stopping.is_set():
            try:
                plain = self._listener.accept()[0]
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(plain)
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain):
        connection = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context:
                plain.settimeout(30)
                connection = self._context.wrap_socket(plain, server_side=True)
                connection.settimeout(None)
                with self._lock:
                    self._open.discard(plain)
                    self._open.add(connection)
                    self.handshakes += 1
                    self.resumed += connection.session_reused
            rest = b""
            while not self.stopping.is_set():
                head, rest = self._read_head(connection, rest)
                if head is None:
                    return
                with self._lock:
                    self.requests += 1
                    number = self.requests
                exchange = Exchange(self, _Buffered(connection, rest), number, head)
                self.behave(exchange)
                rest = exchange.connection.rest
                if not exchange.keep_open:
                    return
        except (OSError, ConnectionError, uploads.Malformed):
            pass  # the agent went, or the test is over
        except Exception as error:
            self.failures.append(error)
        finally:
            with self._lock:
                self._open.discard(connection)
                self._open.discard(plain)
            connection.close()

    @staticmethod
    def _read_head(connection, rest):
        while b"\r\n\r\n" not in rest:
            part = connection.recv(1 << 16)
            if not part or len(rest) > MAX_HEAD_BYTES:
                return None, b""
            rest += part
        head, _, rest = rest.partition(b"\r\n\r\n")
        return head, rest


class _Buffered:
    """A connection with bytes that were read too early."""

    def __init__(self, connection, rest):
        self.connection, self.rest = connection, rest

    def recv(self, size):
        if self.rest:
            part, self.rest = self.rest[:size], self.rest[size:]
            return part
        return self.connection.recv(size)

    def sendall(self, data):
        self.connection.sendall(data)


def process_status(pid, name):
    """A number of bytes of /proc/PID/status: VmHWM (most memory ever), VmRSS (now); 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def sleep_until(condition, timeout, step=0.02):
    """Waits for a condition; its last value."""
    begun = time.monotonic()
    deadline = begun + timeout
    while not (value := condition()) and time.monotonic() < deadline:
        harness.pause(begun, step)
        begun = time.monotonic()
    return value
