"""An hour without a working collector, in simulated time (clock.c makes the agent's clocks run faster).

For the hour the agent's only collector is slow, then unreachable, then never answers, then sends invalid answers, then takes one
batch of each request, while a session goes on. The agent's memory and the spool stay under their limits. Every evicted event is
counted, and tombstones name the evicted batches. When the collector has recovered, it has all other events, once.

Short form: 180 times as fast as real time. --soak: 20 times.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 12: An hour without a working collector costs exactly what is counted. | 123,600 of 179,474 events evicted or refused for good,
#   each counted and named by tombstones | 2026-11-23
# - Delivery 13: ... within the limits of memory and disk. | 21 MiB of memory; 615 KiB of spool (limit 512 KiB, a segment, 64 KiB for deferred
#   tombstones) | 2026-11-23
import itertools
import json
import threading

import faulted
import harness
import proxy
import receiver
import test_clock_jumps
import test_hostile_receiver as hostile
import test_ledger
import test_live
import traces
import uploads

TRACE, HOUR_S, TRACE_S = "clr-kernel-win8-x64", 3600, 10.07
SPOOL_BYTES, SPOOL_SLACK_BYTES, MOST_MEMORY_BYTES = 512 << 10, 256 << 10, 64 << 20
SPEED, SOAK_SPEED = 180, 20
NONSENSE = [hostile.answer(hostile.refuse_last), hostile.raw(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256)) * 8), hostile.raw(b"SSH-2.0-OpenSSH\r\n"), hostile.status(500),
            hostile.status(302, ("Location", "https://localhost:1/")), hostile.status(503, ("Retry-After", "in a while")),
            hostile.answer(lambda heads: b"\xff" * 3000), hostile.answer(hostile.other_stream), hostile.answer(hostile.never_sent),
            hostile.answer(hostile.backwards), hostile.answer(hostile.too_many_ranges), hostile.answer(hostile.retry_all)]


class Mood:
    """What the false collector does now; counts what it did."""

    def __init__(self):
        self.now, self.asked, self.taken, self.taking = None, {}, [], 0
        self._lock, self._nonsense = threading.Lock(), itertools.cycle(NONSENSE)

    def ends(self):
        """Nothing is taken any more, and what was being taken has been."""
        with self._lock:
            self.now = "over"
        if not receiver.sleep_until(lambda: not self.taking, 60):
            raise harness.Failure("the false collector does not end")

    def __call__(self, exchange):
        with self._lock:
            now = self.now
            self.asked[now] = self.asked.get(now, 0) + 1
            self.taking += now == "a little"
            nonsense = next(self._nonsense)
        if now == "slow":
            exchange.read_body(bytes_per_s=400_000)
            exchange.acknowledge([])
        elif now == "deaf":
            exchange.read_body()
            exchange.wait(3600)
        elif now == "nonsense":
            nonsense(exchange)
        elif now == "over":
            exchange.wait(3600)
        else:  # takes one batch of each request
            try:
                exchange.read_body()
                exchange.wait(0.2)
                with self._lock:
                    self.taken.append(uploads.batches(exchange.body)[0])
                exchange.acknowledge(exchange.heads()[:1])
            finally:
                with self._lock:
                    self.taking -= 1


def test(env, checks, arguments):
    env.make_certificates(["hour"])
    collector = env.new_collector().start()
    hour(env, checks, collector, SOAK_SPEED if arguments.soak else SPEED)
    collector.stop()


def hour(env, checks, collector, speed):
    agent = "hour"
    mood, paths = Mood(), traces.paths(TRACE, env.build)
    environment = test_clock_jumps.with_clock(env, EA_CLOCK_SPEED=str(speed))
    # what it says is seconds of the simulated time; a handshake takes its time in the world
    patience = [f"{name}={value}" for name, value in
                {"--connect-timeout": "10m", "--request-timeout": "10m", "--idle-timeout": "5m", "--give-up": "0s"}.items()]
    moods = ["slow", "gone", "deaf", "nonsense", "a little"]
    with receiver.Receiver(env.certs, mood) as fake, proxy.Proxy(fake.port) as between:
        between.plan = lambda _: proxy.Plan(refuse=mood.now == "gone")
        run = faulted.Replay(env, paths, between, agent, environment=environment,
                             extra=["--live", "--speed", f"{TRACE_S / HOUR_S:.5f}x", "--spool-bytes", str(SPOOL_BYTES),
                                    "--batch-events", "200", *patience])
        mood.now = moods[0]
        with run, faulted.Watch(run) as watch:
            for mood.now in moods:
                if mood.now == "gone":
                    between.reset_all()
                receiver.sleep_until(lambda: not run.running(), HOUR_S / len(moods) / speed)
                checks.that(run.running(), f"{mood.now}: the agent ended: {run.messages()}")
            # what it took is not lost: it hands it on
            mood.ends()
            test_ledger.upload(env, collector, agent, sorted(mood.taken, key=lambda b: uploads.Head(b).number))
            between.target = collector.port
            between.plan = lambda _: proxy.Plan()
            fake.stop()
            between.reset_all()
            run.wait(300)
    checks.equal(fake.failures, [], "the false collector's own failures")
    for name in moods:
        checks.that(name == "gone" or mood.asked.get(name, 0) > 0, f"the collector got no request while it was {name}: {mood.asked}")
    summary = json.loads(run.output)
    ledger = summary["ledger"]
    evicted = ledger["events_evicted_size"] + ledger["events_evicted_refused"]
    checks.that(ledger["events_evicted_size"] > 20_000, f"nothing was evicted: {ledger}")
    checks.that(ledger["events_evicted_refused"] > 0, f"nothing was refused: {ledger}")
    checks.equal((ledger["events_delivered"], summary["ledger_balanced"]), (traces.event_count(TRACE), True), "delivered, balanced")
    checks.equal(ledger["events_acknowledged"] + evicted, ledger["events_batched"] + ledger["events_synthesised"],
                 "acknowledged and evicted are all")
    stream, = test_ledger.ledger(collector, agent)["streams"]
    test_live.check_sound(checks, stream, agent)
    checks.equal((stream["stored_events"], stream["missing_batches"]), (ledger["events_acknowledged"], 0), "stored, and batches missing")
    named = sum(b["events"] for b in stream["gaps"] if b["cause"].startswith("events_evicted"))
    checks.equal(named, evicted, "events that tombstones name")
    checks.that(0 < watch.spool_bytes <= SPOOL_BYTES + SPOOL_SLACK_BYTES, f"the spool had {watch.spool_bytes} bytes")
    checks.that(0 < watch.memory_bytes <= MOST_MEMORY_BYTES, f"the agent had {watch.memory_bytes} bytes of memory")
    print(f"an hour at {speed} times the speed: {sum(mood.asked.values())} requests, {evicted} of {ledger['events_delivered']} events gave "
          f"way, {watch.memory_bytes >> 10} KiB of memory, {watch.spool_bytes >> 10} KiB of spool, {summary['requests']} requests in all")


if __name__ == "__main__":
    harness.main(test, __doc__)
