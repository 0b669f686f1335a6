"""Finding S8: connections of one address that are renewed again and again, against a listener for agents with few connections.
Without a guard each of the victim's batches took 8 to 9 s: it waited in the kernel's queue until the handshakes of others timed out.
"""
import time

import world
import harness

CONNECTIONS, MOST = 900, 512
RENEWED_EVERY_S = 2.0
ATTACKER = "127.0.0.66"


def renew(w, sources, count, stop, ready):
    """Holds count silent connections of the sources, and opens each anew when it is closed, and after RENEWED_EVERY_S."""
    held, opened = [], 0
    while not stop.is_set():
        begin = time.monotonic()
        for connection in held:
            connection.close()
        held = []
        for i in range(count):
            try:
                held.append(world.connect(w.port, sources[i % len(sources)], timeout=0.2))
                opened += 1
            except OSError:
                pass  # the kernel's queue is full, or the connection was closed at once
            if stop.is_set():
                break
        ready.set()
        stop.wait(max(0.0, RENEWED_EVERY_S - (time.monotonic() - begin)))
    for connection in held:
        connection.close()
    return opened


def of_one_address(w, stop, ready):
    return renew(w, [ATTACKER], CONNECTIONS, stop, ready)


def of_many_addresses(w, stop, ready):
    """More addresses than the bounds of one address can hold off: the oldest silent connections are evicted."""
    return renew(w, [f"127.0.1.{n}" for n in range(1, 33)], CONNECTIONS, stop, ready)


def test(env, checks, _):
    with world.World(env, checks, extra=["--max-connections", MOST]) as w:
        for what, attack in (("churn of one address", of_one_address), ("churn of 32 addresses", of_many_addresses)):
            before = w.metrics()
            opened = w.compare(what, attack)
            after = w.metrics()
            counted = {name: after[f"etwcollector_net_{name}_total"] - before[f"etwcollector_net_{name}_total"]
                       for name in ("refused_handshakes", "evicted", "accept_pauses")}
            checks.that(opened >= CONNECTIONS, f"{what}: the attacker opened {opened} connections, expected at least {CONNECTIONS}")
            if attack is of_one_address:
                checks.that(counted["refused_handshakes"] > CONNECTIONS / 2, f"{what}: refusals for the address's handshakes: {counted}")
            else:
                checks.that(counted["evicted"] > 0, f"{what}: evicted connections: {counted}")
            print(f"{what}: {opened} connections, {counted}", flush=True)
        words = "its address has too many unfinished handshakes"
        checks.that(words in w.log(), f"the log has no line with '{words}'")


if __name__ == "__main__":
    harness.main(test, __doc__)
