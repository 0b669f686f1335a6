"""Finding S7: 200 silent TCP connections against a collector that may open 128 descriptors. Without a guard, the accept loop
used a whole processor and wrote 20 MB/s of log. A soft limit that is lower than the hard one is raised to it.
"""
import resource
import time

import world
import harness

CONNECTIONS, DESCRIPTORS = 200, 128
MOST_CPU = 0.5      # of a processor, of an attacked second beyond a quiet one
MOST_LOG = 64 << 10  # bytes


def attack(w, stop, ready):
    """Opens connections, from 127.0.0.1, and says nothing on them."""
    held = [world.connect(w.port) for _ in range(CONNECTIONS)]
    ready.set()
    stop.wait()
    for connection in held:
        connection.close()
    return len(held)


def raised(env, checks):
    """A shell's soft limit is often a fraction of the hard one."""
    collector = env.new_collector("raised")
    collector.prefix = ["prlimit", f"--nofile={DESCRIPTORS}:{16 * DESCRIPTORS}"]
    collector.start()
    checks.equal(resource.prlimit(collector.process.pid, resource.RLIMIT_NOFILE), (16 * DESCRIPTORS, 16 * DESCRIPTORS), "the limit of descriptors")
    collector.stop()


def test(env, checks, _):
    with world.World(env, checks, prefix=["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]) as w:
        begin, cpu, log = time.monotonic(), w.cpu_s(), len(w.log())
        w.measure()
        quiet = (w.cpu_s() - cpu) / (time.monotonic() - begin)
        begin, cpu = time.monotonic(), w.cpu_s()
        w.compare("200 silent connections", attack)
        used = (w.cpu_s() - cpu) / (time.monotonic() - begin)
        checks.that(used < quiet + MOST_CPU, f"{used:.2f} of a processor under attack, {quiet:.2f} without it")
        grown = len(w.log()) - log
        checks.that(grown < MOST_LOG, f"the log grew by {grown} bytes, expected less than {MOST_LOG}")
        print(f"{used:.2f} of a processor under attack, {quiet:.2f} quiet; the log grew by {grown} bytes", flush=True)
    raised(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
