"""Finding S9: 18 uploads of one agent that stop in their middle. Without a share for each agent they took the memory for uploads of
all, so that every other agent's upload above 16 KiB waited until its own time-out; without a rate they stayed for 18 minutes, since
each 16 KiB that had come were a second of credit.
"""
import time

import world
import harness
import receiver
import uploads

UPLOADS, BODY, SENT = 18, 17 << 20, (33 << 20) // 2
WINDOW_S, RATE = 4, 64 << 10
# what the collector may hold of the agent, 32 MiB and an upload, its own 16 KiB of each connection, and caches
MOST_GROWTH = 80 << 20


class Large(world.Agent):
    """The victim's uploads are above what every connection may buffer, so they need room."""

    def body(self, number):
        padding = uploads._bytes(1000, bytes(24 << 10))  # a field that the format does not know
        return uploads.body([world.renumbered(self.batch, self.stream, number) + padding])


def attack(w, stop, ready):
    """Heads of 18 large uploads, most of their bodies as far as they are read within 3 s, then silence."""
    context = world.tls(w.env.certs, "thief")
    head = f"POST {uploads.UPLOAD_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {world.UPLOAD_TYPE}\r\nContent-Length: {BODY}\r\n\r\n".encode()
    held, piece, sent = [world.secure(context, world.connect(w.port)) for _ in range(UPLOADS)], bytes(256 << 10), [0] * UPLOADS
    for connection in held:
        connection.sendall(head)
        connection.setblocking(False)
    until = time.monotonic() + 3
    while time.monotonic() < until and not stop.is_set() and any(n < SENT for n in sent):
        for i, connection in enumerate(held):
            try:
                if sent[i] < SENT:
                    sent[i] += connection.send(piece)
            except OSError:
                pass  # the collector does not read it now
        time.sleep(0.005)
    ready.set()
    stop.wait()
    for connection in held:
        connection.close()
    return sum(sent)


def test(env, checks, _):
    extra = ["--request-timeout", f"{WINDOW_S}s", "--min-rate", RATE]
    with world.World(env, checks, extra=extra, agent=Large) as w:
        before = receiver.process_status(w.collector.process.pid, "VmRSS")
        sent = w.compare("18 uploads that stall", attack)
        grown = receiver.process_status(w.collector.process.pid, "VmHWM") - before
        checks.that(sent > 32 << 20, f"the attacker sent {sent} bytes, expected more than an agent's share")
        checks.that(grown < MOST_GROWTH or "san" in env.build.name, f"the collector grew by {grown} bytes, expected less than {MOST_GROWTH}")
        counted = w.metrics()
        checks.that(counted["etwcollector_ingest_upload_waits_total"] >= UPLOADS // 2, f"waits: {counted['etwcollector_ingest_upload_waits_total']}")
        checks.that(counted["etwcollector_quota_refused_uploads_total"] >= 1, "the agent reached its share of the memory for uploads, which is counted")
        print(f"the attacker sent {sent >> 20} MiB, the collector grew by {grown >> 20} MiB", flush=True)

        def hold(w, stop, ready):
            """Says when the collector closes an upload whose body stopped."""
            connection = world.secure(world.tls(w.env.certs, "thief"), world.connect(w.port))
            connection.sendall(f"POST {uploads.UPLOAD_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {world.UPLOAD_TYPE}\r\n"
                               f"Content-Length: {BODY}\r\n\r\n".encode() + bytes(8 << 20))
            begin = time.monotonic()
            connection.settimeout(60)
            try:
                while connection.recv(4096):
                    pass
            except OSError:
                pass
            return time.monotonic() - begin
        seconds = hold(w, None, None)
        checks.that(WINDOW_S - 1 < seconds < 2 * WINDOW_S + 3, f"a stalled body of 8 MiB was closed after {seconds:.1f} s, expected {WINDOW_S} to {2 * WINDOW_S}")
        checks.that(w.metrics()["etwcollector_net_slow_bodies_total"] >= 1, "slow bodies are counted")
        checks.that("the body of its request came too slowly" in w.log(), "the log says why")


if __name__ == "__main__":
    harness.main(test, __doc__)
