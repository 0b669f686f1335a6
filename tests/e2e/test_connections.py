"""Thousands of agents on one collector process: what an idle connection costs in memory, how long an acknowledgement takes
at a batch a minute each, and that all come back after a restart, with their TLS sessions.

The short form has 300 connections and sends their minute's batches within a few seconds; --soak has 10,000 and whole minutes.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Connections and identities 2: A reconnecting agent resumes its TLS session. | 300 of 300 after a restart of the collector; 5 of 6 after
#   cut connections | 2026-11-21
# - Connections and identities 3: One collector serves many agents. | 300 connections: 25.0 KiB each while idle; 99 % of acknowledgements
#   within 29 ms | 2026-11-22
# - Connections and identities 4: ... the long form. | 10,000 connections up in 13.8 s; 25.2 KiB each idle, 27.6 KiB after sending (2 cores,
#   otherwise idle) | 2026-11-22
# - Connections and identities 5: ... the long form, acknowledgements and restart. | 99 % within 10, 10 and 10 ms in three rounds; all resumed
#   9.7 s after a restart (2 cores, otherwise idle) | 2026-11-22
import json
import resource
import subprocess
import time

import harness
import receiver
import traces
import uploads

TRACE = "clr-gc-events"
MOST_BYTES = 32_000      # a connection, at the most
STORE_BYTES = 12 << 20   # what the caches of the store and the history, and the writer's names of classes (4 MiB), may grow by meanwhile, however
                         # many connections there are
MOST_P99_MS = 1000       # of 10,000, with --soak, on a machine that has nothing else to do; the short form prints what it was


class Client:
    """The load client (connections.c)."""

    def __init__(self, env, port, count, batch):
        command = [env.build / "tests" / "e2e" / "connections", "--port", port, "--ca", env.certs / "ca.crt", "--ca-key",
                   env.certs / "ca.key", "--count", count, "--batch", batch]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        self.begin(command)
        return self.result()

    def begin(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def result(self):
        line = self.process.stdout.readline()
        if not line:
            raise harness.Failure(f"the load client ended with {self.process.wait()}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def make_batch(env):
    """A batch as the agent makes it, its class descriptions in it: sent to a false collector, and kept."""
    with receiver.Receiver(env.certs) as fake:
        env.run(env.replay_command(traces.paths(TRACE, env.build), fake, extra=["--batch-events", "20"]), timeout=120)
        heads = [(uploads.Head(batch), batch) for body in fake.uploads for batch in uploads.batches(body)]
    head, batch = min(heads, key=lambda pair: pair[0].number)
    if head.event_count != 20:
        raise harness.Failure(f"expected a batch of 20 events, got {head.event_count}")
    file = env.folder / "batch"
    file.write_bytes(batch)
    return file, head.event_count


def raise_file_limit(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = count + 1000
    if soft < want:
        # root may raise the hard limit, too; without root this raises an error
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, max(hard, want)))


def settled_memory(collector):
    """Resident memory once the collector has nothing to do: when it has not changed for half a second."""
    seen = []

    def still():
        seen.append(receiver.process_status(collector.process.pid, "VmRSS"))
        return len(seen) > 5 and len(set(seen[-6:])) == 1
    receiver.sleep_until(still, 60, 0.1)
    return seen[-1]


def stored(collector):
    """Hosts, batches and events in the store."""
    streams = collector.ask_json("hosts")["streams"]
    return (len({stream["host"] for stream in streams}), sum(stream["batches"] for stream in streams),
            sum(stream["events"] for stream in streams))


def test(env, checks, arguments):
    count, period, rounds = (10_000, 60, 3) if arguments.soak else (300, 3, 2)
    seconds = 900 if arguments.soak else 60
    raise_file_limit(count)
    env.make_certificates()
    batch, events = make_batch(env)
    collector = env.new_collector(extra=["--max-connections", count + 100]).start()
    with Client(env, collector.port, 20, batch) as warm_up:
        checks.equal(warm_up.ask("connect 20")["up"], 20, "connections before the measurement")
        checks.equal(warm_up.ask("send 1")["acknowledged"], 20, "acknowledgements before the measurement")
    before = settled_memory(collector)
    with Client(env, collector.port, count, batch) as client:
        first = client.ask(f"connect {seconds}")
        checks.equal(first["up"], count, f"connections ({first})")
        idle = (settled_memory(collector) - before) / count
        checks.that(idle <= MOST_BYTES, f"an idle connection takes {idle:.0f} bytes, at most {MOST_BYTES} are allowed")
        late = []
        for _ in range(rounds):
            sent = client.ask(f"send {period}")
            late.append(sent["p99_ms"])
            checks.equal(sent["acknowledged"], count, f"acknowledged batches ({sent})")
            checks.that(sent["p99_ms"] <= MOST_P99_MS or not arguments.soak, f"99 of 100 acknowledgements within {sent['p99_ms']} ms ({sent})")
        busy = (settled_memory(collector) - before - STORE_BYTES) / count
        checks.that(busy <= MOST_BYTES, f"a connection that has sent takes {busy:.0f} bytes, at most {MOST_BYTES} are allowed")
        collector.kill()
        checks.equal(client.ask("down 20")["up"], 0, "connections left after the collector was killed")
        client.begin(f"connect {seconds}")  # they try before it is back, as agents do
        time.sleep(1)
        collector.start()
        back = client.result()
        checks.equal(back["up"], count, f"connections after the restart ({back})")
        checks.equal(back["resumed"], count, f"resumed sessions after the restart ({back})")
        sent = client.ask(f"send {period}")
        checks.equal(sent["acknowledged"], count, f"acknowledged batches after the restart ({sent})")
    collector.stop()
    # once each: 20 of the warm-up are agents of the many, with streams of their own
    checks.equal(stored(collector), (count, 20 + (rounds + 1) * count, (20 + (rounds + 1) * count) * events),
                 "hosts, batches and events in the store")
    print(f"{count} connections in {first['seconds']:.1f} s; idle {idle / 1024:.1f} KiB each, after sending {busy / 1024:.1f} KiB without the store's caches; "
          f"p99 of acknowledgements {', '.join(f'{ms:.0f}' for ms in late)} ms; back in {back['seconds']:.1f} s, "
          f"{back['resumed']} resumed")


if __name__ == "__main__":
    harness.main(test, __doc__)
