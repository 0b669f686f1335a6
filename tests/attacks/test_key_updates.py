"""Connections that send TLS KeyUpdate messages as fast as they can. OpenSSL handles them inside one read, so that a client that sends
nothing else kept the network thread of a listener; a connection that sends more than 32 is closed. An agent does it to the listener for
agents, and a client without any credential to the dashboard.

usage: test_key_updates.py --build DIR [--soak] [--keep]
"""
import re
import subprocess

import world
import harness

CONNECTIONS, MOST_S = 8, 120


def attack(port, name):
    def run(w, stop, ready):
        files = [w.env.certs / f"{name}.crt", w.env.certs / f"{name}.key"] if name else ["-", "-"]
        program = w.env.build / "tests" / "e2e" / "key_updates"
        with subprocess.Popen([program, str(getattr(w, port)), *files, str(CONNECTIONS), str(MOST_S)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as flood:
            flood.stdout.readline()
            ready.set()
            stop.wait()
            printed, _ = flood.communicate(timeout=MOST_S + 30)
        return [int(number) for number in re.findall(r"\d+", printed)]
    return run


def test(env, checks, arguments):
    with world.World(env, checks, tokens=True) as w:
        for what, port, name in (("KeyUpdates of an agent", "port", "thief"), ("KeyUpdates to the dashboard", "web_port", None)):
            before = w.metrics()["etwcollector_net_key_updates_total"]
            opened, closed, updates = w.compare(what, attack(port, name)) or (0, 0, 0)
            counted = w.metrics()["etwcollector_net_key_updates_total"] - before
            print(f"{what}: {opened} connections, {closed} closed by the collector, {updates} KeyUpdates", flush=True)
            checks.that(closed >= CONNECTIONS and counted >= CONNECTIONS, f"{what}: {closed} of {opened} connections closed, {counted} counted")
        checks.that("it changed its TLS keys too often" in w.log(), "the log says why")


if __name__ == "__main__":
    harness.main(test, __doc__)
