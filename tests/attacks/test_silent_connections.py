"""Silent TCP connections to the listener for agents: 200 connections of one address, on which no byte is sent."""
import world
import harness

CONNECTIONS = 200


def attack(w, stop, ready):
    held = [world.connect(w.port) for _ in range(CONNECTIONS)]
    ready.set()
    stop.wait()
    for connection in held:
        connection.close()
    return len(held)


def test(env, checks, _):
    with world.World(env, checks) as w:
        checks.equal(w.compare("200 silent connections", attack), CONNECTIONS, "connections that the attacker opened")


if __name__ == "__main__":
    harness.main(test, __doc__)
