"""Finding S11: connections to the dashboard and to the listener for enrolment that send a byte now and then. Without deadlines of
its own a listener kept them for as long as they liked, since libevent's time-out begins anew at every byte, and refused others.

The short form has a listener of 128 connections; --soak has one of 2,048, as by default.
"""
import time

import world
import harness

BYTE_EVERY_S = 0.5
HEAD_S = 3


def hold(port, count, sources, finish_handshakes, context, stop, ready, report):
    """Keeps count connections, each of which sends a byte of a head now and then; those that are closed are opened again."""
    held, opened, closed = [], 0, 0
    while not stop.is_set():
        begin = time.monotonic()
        while len(held) < count and not stop.is_set():
            try:
                connection = world.connect(port, sources[opened % len(sources)], timeout=1)
                opened += 1
                if finish_handshakes:
                    connection = world.secure(context, connection)
                connection.setblocking(False)
                held.append((connection, time.monotonic()))
            except OSError:
                closed += 1
                if time.monotonic() - begin > 2:
                    break
        ready.set()
        still = []
        for connection, since in held:
            try:
                connection.send(b"\x16" if not finish_handshakes else b"x" if time.monotonic() - since > 0.2 else b"GET /")
                connection.recv(100)
                raise ConnectionError("closed")
            except (BlockingIOError, world.ssl.SSLWantReadError, world.ssl.SSLWantWriteError):
                still.append((connection, since))
                report["oldest"] = max(report["oldest"], time.monotonic() - since)
            except OSError:
                connection.close()
                closed += 1
        held = still
        stop.wait(max(0.0, BYTE_EVERY_S - (time.monotonic() - begin)))
    for connection, _ in held:
        connection.close()
    return {**report, "opened": opened, "closed": closed}


def attack(which, count, finish_handshakes):
    def run(w, stop, ready):
        sources = [f"127.0.2.{n}" for n in range(1, 17)]
        return hold(getattr(w, which), count, sources, finish_handshakes, world.tls(w.env.certs), stop, ready, {"oldest": 0.0})
    return run


def closing_time(port, context):
    """Seconds until a connection that sends a byte of a head now and then is closed."""
    connection = world.secure(context, world.connect(port))
    begin = time.monotonic()
    connection.settimeout(0.2)
    while time.monotonic() - begin < 60:
        try:
            connection.send(b"x")
            if not connection.recv(100):
                break
        except TimeoutError:
            pass
        except OSError:
            break
    connection.close()
    return time.monotonic() - begin


def test(env, checks, arguments):
    most = 2048 if arguments.soak else 128
    extra = ["--enroll", "127.0.0.1:0", "--ca-dir", env.certs, "--head-timeout", f"{HEAD_S}s", "--handshake-timeout", f"{HEAD_S}s",
             "--max-web-connections", most, "--max-web-address-connections", most // 8]
    with world.World(env, checks, extra=extra, tokens=True) as w:
        for port in (w.web_port, w.enroll_port, w.port):
            context = world.tls(env.certs, "thief") if port == w.port else world.tls(env.certs)
            seconds = closing_time(port, context)
            checks.that(HEAD_S - 0.5 < seconds < HEAD_S + 3, f"a head of a byte each 0.2 s was closed after {seconds:.1f} s, expected {HEAD_S} to {HEAD_S + 1}")
        counted = w.metrics()
        checks.that(counted["etwcollector_net_late_heads_total"] == 3, f"late heads: {counted['etwcollector_net_late_heads_total']}, expected 3")
        for what, which, finish in (("slow heads to the dashboard", "web_port", True), ("slow handshakes to the dashboard", "web_port", False),
                                    ("slow heads to the listener for enrolment", "enroll_port", True)):
            report = w.compare(what, attack(which, most, finish))
            checks.that(report["opened"] >= most, f"{what}: the attacker opened {report['opened']} connections, expected at least {most}")
            # the sweep's second, a turn of the attacker, and what a busy machine adds
            checks.that(report["oldest"] < HEAD_S + 4, f"{what}: a connection lived for {report['oldest']:.1f} s, expected at most {HEAD_S + 4}")
            print(f"{what}: {report}", flush=True)
        # an honest machine that asks for a certificate is answered, while the listener is full of slow ones
        stop, ready = world.processes.Event(), world.processes.Event()
        attacker = world.processes.Process(target=attack("enroll_port", most, True), args=(w, stop, ready), daemon=True)
        attacker.start()
        ready.wait(60)
        begin = time.monotonic()
        web = world.Web(w.enroll_port, "127.0.0.4", world.tls(env.certs))
        web.request("POST", "/v1/enroll", b"x")
        status = web.getresponse().status
        seconds = time.monotonic() - begin
        web.close()
        stop.set()
        attacker.join(30)
        checks.equal(status, 401, "the answer to an enrolment without a token")
        checks.that(seconds < 1, f"an enrolment beside slow heads was answered after {seconds:.2f} s")


if __name__ == "__main__":
    harness.main(test, __doc__)
