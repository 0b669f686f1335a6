"""Handshakes and accepting: one address, or one network of 64 bits in IPv6, that begins TLS handshakes as fast as it can is refused above
--address-handshake-rate, others are not; a listener that has no descriptors left pauses, and goes on when there are some.

usage: test_handshakes.py --build DIR [--soak] [--keep]
"""
import ctypes
import os
import re
import resource
import socket
import subprocess
import time

import world
import harness

ATTACKER, RATE, BURST_S = "127.0.0.66", 20, 10
CLONE_NEWNET = 0x40000000
NETWORKS = ("fd00:0:0:1::1", "fd00:0:0:1::2", "fd00:0:0:2::1")  # the first two are of one network


def shake(context, host, port, source):
    """One handshake: 1 when it is finished, 0 when the connection was closed."""
    try:
        with socket.create_connection((host, port), timeout=10, source_address=(source, 0)) as plain, world.secure(context, plain):
            return 1
    except OSError:
        return 0


def attack(w, stop, ready):
    context, done, begin = world.tls(w.env.certs, "thief"), [], time.monotonic()
    while not stop.is_set():
        done.append(shake(context, "127.0.0.1", w.port, ATTACKER))
        if len(done) > RATE * BURST_S + 20:
            ready.set()
    return len(done), sum(done), time.monotonic() - begin


def rates(env, checks):
    with world.World(env, checks, extra=["--address-handshake-rate", RATE]) as w:
        tried, finished, seconds = w.compare("handshakes of one address", attack) or (0, 0, 0)
        refused = w.metrics()["etwcollector_net_refused_rates_total"]
        checks.that(tried > finished and refused > 0, f"{refused} refusals of {tried} handshakes are counted")
        checks.that(finished <= RATE * (BURST_S + seconds) + 1, f"{finished} handshakes in {seconds:.1f} s, expected at most {RATE} a second and {RATE * BURST_S}")
        checks.that("its address began too many handshakes" in w.log(), "the log says why")
        print(f"{finished} of {tried} handshakes in {seconds:.1f} s", flush=True)


def networks(env, checks):
    """In a network namespace of its own, where the loopback has addresses of two networks. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    checks.equal((libc.unshare(CLONE_NEWNET), os.strerror(ctypes.get_errno())), (0, os.strerror(0)), "a network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in NETWORKS:
        subprocess.run(["ip", "-6", "address", "add", f"{address}/128", "dev", "lo", "nodad"], check=True)
    collector = env.new_collector("networks", extra=["--address-handshake-rate", 2])
    collector.address = "[::]"
    collector.start()
    context = world.tls(env.certs, "thief")
    first = [shake(context, NETWORKS[0], collector.port, NETWORKS[0]) for _ in range(15)]
    second = [shake(context, NETWORKS[1], collector.port, NETWORKS[1]) for _ in range(10)]
    other = [shake(context, NETWORKS[2], collector.port, NETWORKS[2]) for _ in range(10)]
    checks.that(all(first), f"a network's first handshakes: {first}")
    checks.that(0 in second, f"the network's further ones, from its other address: {second}")
    checks.that(all(other), f"those of another network: {other}")
    collector.stop()


def accepting(env, checks):
    with world.World(env, checks, name="accepting") as w:
        web = world.Web(w.web_port, world.VICTIM_READER, None)

        def errors():
            web.request("GET", "/metrics")
            text = web.getresponse().read().decode()
            return float(re.search(r"^etwcollector_net_accept_errors_total ([0-9.e+-]+)$", text, re.M).group(1))

        before, pid = errors(), w.collector.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
        waiting = world.connect(w.port)
        cpu, begin = w.cpu_s(), time.monotonic()
        time.sleep(1.5)
        used, passed = w.cpu_s() - cpu, time.monotonic() - begin
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        count = errors() - before
        checks.that(3 <= count <= passed * 10 * 2 + 2, f"{count} errors of accepting in {passed:.1f} s, expected about ten a second")
        checks.that(used < passed / 4, f"{used:.2f} s of a processor in {passed:.1f} s without descriptors")
        checks.that("could not accept a connection: Too many open files" in w.log(), "the log names the error")
        with world.secure(world.tls(env.certs, "thief"), waiting) as connection:  # it waited in the kernel's queue
            checks.equal(connection.version(), "TLSv1.3", "the connection that waited")
        web.close()
        print(f"{count:.0f} errors in {passed:.1f} s, {used:.2f} s of a processor", flush=True)


def test(env, checks, _):
    rates(env, checks)
    accepting(env, checks)
    networks(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
