"""TLS messages without requests: a client changes its keys again and again (KeyUpdate) and sends no request. Each such message costs the
collector a key derivation. The message is no part of a request, so that no limit of body rates and no deadline applies to it. One read of
OpenSSL processed all received messages: another agent's p99 was 4 s. The attacker needs a certificate at the agents' listener, and nothing
at the dashboard's listener.

usage: test_key_updates.py --build DIR [--soak] [--keep]
"""
import ctypes
import os
import socket

import world
import harness

CONNECTIONS = 8
UPDATES_A_ROUND = 200
MOST = 16  # EC_GUARD_MESSAGES
ROUND_S = 0.2  # then closed connections are opened again: handshakes have a bound of their own (test_handshakes.py)
REQUESTED = 1  # SSL_KEY_UPDATE_REQUESTED
WANT = (2, 3)  # SSL_ERROR_WANT_READ, _WRITE
FILETYPE_PEM = 1
REQUEST = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"

tls = ctypes.CDLL("libssl.so.3")
tls.TLS_client_method.restype = tls.SSL_CTX_new.restype = tls.SSL_new.restype = ctypes.c_void_p


class Client:
    """A TLS connection by OpenSSL itself: Python's ssl cannot change keys."""

    def __init__(self, port, certs=None, name=None):
        self.socket = world.connect(port)
        self.context = ctypes.c_void_p(tls.SSL_CTX_new(ctypes.c_void_p(tls.TLS_client_method())))
        if name:
            for load, kind in ((tls.SSL_CTX_use_certificate_file, "crt"), (tls.SSL_CTX_use_PrivateKey_file, "key")):
                if load(self.context, os.fsencode(certs / f"{name}.{kind}"), FILETYPE_PEM) != 1:
                    raise harness.Failure(f"the client's {kind} cannot be read")
        self.ssl = ctypes.c_void_p(tls.SSL_new(self.context))
        self.socket.setblocking(True)
        if tls.SSL_set_fd(self.ssl, self.socket.fileno()) != 1 or tls.SSL_connect(self.ssl) != 1:
            raise harness.Failure("the handshake failed")

    def update(self):
        """One KeyUpdate that wants another one in return: 1 when it was sent, 0 when it has to wait, -1 when the connection is closed."""
        tls.SSL_key_update(self.ssl, REQUESTED)
        done = tls.SSL_do_handshake(self.ssl)
        return 1 if done == 1 else 0 if tls.SSL_get_error(self.ssl, done) in WANT else -1

    def ask(self, path):
        """A request, and its answer; what came of it when the connection is closed."""
        text, piece, answer = REQUEST % path, ctypes.create_string_buffer(4096), b""
        length = tls.SSL_write(self.ssl, text, len(text))
        while length > 0 and not answer.endswith(b"\r\n\r\nok\n"):
            length = tls.SSL_read(self.ssl, piece, len(piece))
            answer += piece.raw[:max(0, length)]
        return answer

    def close(self):
        tls.SSL_free(self.ssl)
        tls.SSL_CTX_free(self.context)
        self.socket.close()


def flood(port_of, name):
    def attack(w, stop, ready):
        clients, opened, sent = [], 0, 0
        while not stop.is_set():
            while len(clients) < CONNECTIONS:
                clients.append(Client(port_of(w), w.env.certs, name))
                clients[-1].socket.setblocking(False)
                opened += 1
            for client in list(clients):
                for _ in range(UPDATES_A_ROUND):
                    result = client.update()
                    sent += result == 1
                    if result != 1:
                        break
                if result < 0:
                    client.close()
                    clients.remove(client)
            ready.set()
            if len(clients) < CONNECTIONS:
                stop.wait(ROUND_S)
        for client in clients:
            client.close()
        return opened, sent
    return attack


def few(w, checks):
    """A client that changes its keys now and then is served."""
    client = Client(w.port, w.env.certs, "thief")
    for number in range(3):
        updated = [client.update() for _ in range(MOST)]
        answer = client.ask(b"/healthz")
        checks.that(updated == [1] * MOST and answer.startswith(b"HTTP/1.1 200"), f"request {number} after {MOST} key updates: {updated}, {answer!r}")
    client.close()


def many(w, checks):
    client = Client(w.port, w.env.certs, "thief")
    client.socket.settimeout(None)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (5).to_bytes(8, "little") + bytes(8))
    for _ in range(MOST + 1):
        client.update()
    answer = client.ask(b"/healthz")
    checks.equal(answer, b"", f"the answer after {MOST + 1} key updates")
    client.close()


def test(env, checks, _):
    with world.World(env, checks, tokens=True) as w:
        few(w, checks)
        many(w, checks)
        for what, port_of, name in (("key updates of an agent", lambda w: w.port, "thief"), ("key updates of a stranger", lambda w: w.web_port, None)):
            before = w.metrics()["etwcollector_net_refused_messages_total"]
            opened, sent = w.compare(what, flood(port_of, name)) or (0, 0)
            closed = w.metrics()["etwcollector_net_refused_messages_total"] - before
            checks.that(opened > CONNECTIONS and closed > 0, f"{what}: {opened} connections, {closed} closed, {sent} key updates")
            print(f"{what}: {opened} connections, {closed:.0f} closed, {sent} key updates", flush=True)
        words = "too many TLS messages without a request"
        checks.that(words in w.log(), f"the log has no line with '{words}'")


if __name__ == "__main__":
    harness.main(test, __doc__)
