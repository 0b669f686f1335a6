"""Wall clocks that jump, on the agent's machine and on the collector's (clock.c makes the jumps): no process hangs, no data expires because of
a jump, and no event is lost or stored twice.

- running: the clock is an hour fast, an hour slow, a day fast, and right again, during a session that continues and writes keyframes.
- delivery: during a Retry-After the clock goes an hour ahead and back: the pause is as long as the collector asked for. Then the clock is
  decades fast, so that the collector's certificate has expired, and then decades slow, so that the certificate is not valid yet. No connection
  succeeds, and all batches wait in a spool with a limit of age. They are sent when the clock is right. The spool is opened again and drained in between.
- collector: its own clock is set back by twenty minutes while a batch is missing: its state waits for the configured time and no longer. Then the clock
  goes ahead by two days: no machine is reported as silent.
- ages: a collector keeps batches for as long as it is configured to, even when the clock goes years ahead or back, while it runs and between runs.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 14: A clock that jumps changes no pause, age or wait, and raises no false alarm. | jumps by hours and decades at the agent, by
#   minutes and days at the collector | 2026-11-23
# - Delivery 15: ... and empties neither spool nor store. | 200 days or 30 years ahead, in a run or between two: none lost, none duplicated |
#   2026-11-23
# - Delivery 16: ... and what cannot be sent because a certificate is not valid waits, and is sent later. | each event once | 2026-11-23
import concurrent.futures
import json
import os
import struct
import time

import faulted
import harness
import proxy
import receiver
import test_ledger
import test_live
import test_retention
import traces

TRACE, SMALL = "clr-kernel-win8-x64", "shutdown-win10"
DECADES_S = 30 * 366 * 86400
DAYS_S = 200 * 86400  # certificates are still valid then
PAUSE_S = 3
SPEED = 8  # of the collector's clocks


def with_clock(env, **settings):
    return {**os.environ, "LD_PRELOAD": str(env.build / "tests" / "e2e" / "clock.so"), **settings}


class Hand:
    """Sets by how many seconds a program's wall clock is ahead."""

    def __init__(self, env, name, seconds=0):
        self.path = env.folder / f"{name}.ahead"
        self.path.write_bytes(struct.pack("<q", seconds))

    def set(self, seconds):
        with open(self.path, "r+b", buffering=0) as file:  # written in place, so that the process that maps the file sees the change
            file.write(struct.pack("<q", seconds))


def running(env, checks, collector):
    agent, paths = "running", traces.paths(TRACE, env.build)
    run = faulted.Replay(env, paths, collector, agent, extra=[*faulted.HASTY, "--live", "--speed", "1.5x", "--keyframe-every", "2s"],
                         environment=with_clock(env, EA_CLOCK_JUMPS="1:3600;2.5:-7200;4:90000;5.5:-86400"))
    with run:
        summary = run.finish(180)
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(TRACE), agent)
    stream, = test_ledger.ledger(collector, agent)["streams"]
    test_live.check_sound(checks, stream, agent)
    checks.equal((stream["stored_events"], stream["missing_batches"]), (summary["ledger"]["events_acknowledged"], 0),
                 "stored, and batches missing")
    times = [point["time"] for point in test_ledger.ledger(collector, agent, "--series")["streams"][0]["series"]]
    checks.that(times != sorted(times), "the agent's wall clock never went back")
    faulted.Truth(env, paths).check(checks, collector, agent, agent)


def delivery(env, checks, collector):
    agent, paths, asked = "delivery", traces.paths(TRACE, env.build), []

    def busy(exchange):
        exchange.read_body()
        asked.append(time.monotonic())
        exchange.keep_open = False
        exchange.answer(503, b"", [("Retry-After", str(PAUSE_S)), ("Connection", "close")])
    hand = Hand(env, agent)
    with receiver.Receiver(env.certs, busy) as fake, proxy.Proxy(fake.port) as between:
        with faulted.Replay(env, paths, between, agent, environment=with_clock(env, EA_CLOCK_FILE=str(hand.path)),
                            extra=[*faulted.HASTY, "--live", "--speed", "1x", "--spool-age", "5m", "--give-up", "0"]) as run:
            checks.that(receiver.sleep_until(lambda: asked, 60), f"the agent never asked: {run.messages()}")
            hand.set(3600)
            time.sleep(PAUSE_S / 3)
            hand.set(600)
            checks.that(receiver.sleep_until(lambda: len(asked) > 1, 60), f"the agent never asked again: {run.messages()}")
            between.target = collector.port
            for words, ahead in (("expired", DECADES_S), ("not yet valid", -DECADES_S)):
                hand.set(ahead)

                def refused():
                    between.reset_all()  # a new connection verifies the certificate
                    return words in run.messages()
                checks.that(receiver.sleep_until(refused, 60), f"no certificate was {words}: {run.messages()}")

            def waiting():
                return sum(s["waiting"] for s in json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", run.spool]).stdout))
            checks.that(receiver.sleep_until(lambda: waiting() > 50, 60), f"what waits when the certificate is not valid: {waiting()}")
            hand.set(0)
            summary = run.finish(120)
    # it would end at once by a clock that goes ahead, and only after an hour by one that goes back
    checks.that(PAUSE_S - 0.2 < asked[1] - asked[0], f"the pause between two requests: {asked[1] - asked[0]:.1f} s")
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(TRACE), agent)
    stream, = test_ledger.ledger(collector, agent)["streams"]
    test_live.check_sound(checks, stream, agent)
    checks.equal((stream["stored_events"], stream["missing_batches"]), (summary["ledger"]["events_acknowledged"], 0), "stored, and batches missing")
    faulted.Truth(env, paths).check(checks, collector, agent, agent)


def reopened(env, checks, collector):
    """The clock is an hour slow when batches are written to the spool. It is two hours slow, right, two hours fast, decades fast and decades slow
    when later processes open the spool. No batch expires."""
    agent, spool = "reopened", env.folder / "reopened-spool"
    paths = traces.paths(SMALL, env.build)
    with proxy.Proxy(collector.port, lambda _: proxy.Plan(refuse=True)) as dead_proxy:
        run = faulted.Replay(env, paths, dead_proxy, agent, spool=spool, environment=with_clock(env, EA_CLOCK_JUMPS="0:-3600"),
                             extra=[*faulted.HASTY, "--live", "--give-up", "1s", "--spool-age", "2h"])
        with run:
            run.wait(60)
    lost = {name: value for name, value in json.loads(run.output)["ledger"].items() if value and name.startswith(("events_dropped", "events_evicted"))}
    checks.equal(lost, {}, "events that were lost while the spool was filled")

    def spooled():
        return sum(r["events"] for r in json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", spool]).stdout))
    filled = spooled()
    checks.that(filled > 1000, f"events in the spool: {filled}")
    for jump, age, expected in (("0:-7200", "1m", 0), ("0:0", "2h", 0), ("0:7200", "4h", 0), (f"0:{DECADES_S}", "1h", 0), (f"0:-{DECADES_S}", "1m", 0)):
        with proxy.Proxy(collector.port, lambda _: proxy.Plan(refuse=True)) as dead_proxy:
            done = env.run([env.agent, "spool", "drain", "--collector", dead_proxy.url, "--cert", env.certs / f"{agent}.crt", "--key",
                            env.certs / f"{agent}.key", "--ca", env.certs / "ca.crt", "--spool", spool, "--spool-age", age, "--give-up", "2s"],
                           check=False, env=with_clock(env, EA_CLOCK_JUMPS=jump))
        checks.equal(filled - spooled(), expected, f"clock {jump}, age {age}: events that were evicted; {done.stderr}")


def of_the_collector(env, checks):
    agent, hand = "held", Hand(env, "jumping", 7200)
    batches = test_ledger.captured(env, SMALL, agent)
    collector = env.new_collector("jumping", ["--hole-wait", "40s", "--silent-after", "400s"])
    collector.environment = with_clock(env, EA_CLOCK_SPEED=str(SPEED), EA_CLOCK_FILE=str(hand.path))
    collector.start()
    began = time.monotonic()
    test_ledger.upload(env, collector, agent, [batches[0], *batches[2:6]])
    hand.set(6000)
    # 120 s of the world are less of its time than it was set back by
    checks.that(receiver.sleep_until(lambda: "the state goes on without them" in collector.log(), 120),
                f"the state waits for a batch that does not come: {collector.log()}")
    went_on = time.monotonic() - began
    checks.that(36 < went_on * SPEED, f"the state waited {went_on * SPEED:.0f} of 40 s, while the clock was set back by twenty minutes")
    test_ledger.upload(env, collector, agent, [batches[1], batches[1], *batches[2:-2]])
    for ahead in (6000, 6000 + 172800):  # it looks for silence every ten seconds
        hand.set(ahead)
        time.sleep(25 / SPEED)
        test_ledger.upload(env, collector, agent, batches[-2:-1] if ahead == 6000 else batches[-1:])
    time.sleep(25 / SPEED)
    stream, = test_ledger.ledger(collector, agent)["streams"]
    checks.equal((stream["stored_events"], stream["missing_batches"], [a for a in stream["alerts"] if a["kind"] != "keyframe"]),
                 (traces.event_count(SMALL), 0, []), "stored, batches missing, alerts")
    incidents = env.run([env.collector, "query", "--store", collector.store, "--format", "jsonl", "SELECT host, kind, text FROM incidents"]).stdout
    checks.equal(incidents, "", "incidents")
    collector.stop()


def kept(env, checks):
    """What a collector keeps for so long: its clock goes 200 days ahead while it runs, it is started again with a clock that is right, then
    with one that is thirty years ahead. Each time everything is there as long as it should be, and then goes."""
    agent, age_s = "kept", 64
    batches = test_ledger.captured(env, SMALL, agent)
    collector = env.new_collector("keeping", ["--segment-size", "64KiB", "--retain-age", f"{age_s}s", "--retain-interval", "800ms"])

    def there():
        return sum(s["batches"] - s["expired_batches"] for s in test_retention.streams(collector))

    def run(jumps, uploads, second, expected, what):
        """Uploads such a batch at such a second, and looks how many are there at a later one."""
        collector.environment = with_clock(env, EA_CLOCK_SPEED=str(SPEED), EA_CLOCK_JUMPS=jumps)
        collector.start()
        began = time.monotonic()
        for number, at in uploads.items():
            receiver.sleep_until(lambda: False, max(0.0, at / SPEED - (time.monotonic() - began)))
            test_ledger.upload(env, collector, agent, batches[number:number + 1])
        receiver.sleep_until(lambda: False, max(0.0, second / SPEED - (time.monotonic() - began)))
        checks.equal(there(), expected, f"{what}: batches that are there after {second} of {age_s} s")

    run(f"16:{DAYS_S}", {0: 0, 1: 8, 2: 24}, 44, 3, "days ahead")
    checks.that(receiver.sleep_until(lambda: there() == 0, 60), f"days ahead: {there()} are still there")
    test_ledger.upload(env, collector, agent, batches[3:6])
    collector.kill()
    run("0:0", {6: 0}, 32, 4, "right again")
    collector.kill()
    run(f"0:{DECADES_S}", {}, 12, 4, "thirty years ahead")
    checks.that(receiver.sleep_until(lambda: there() == 0, 60), f"thirty years ahead: {there()} are still there")
    collector.stop()


def test(env, checks, _):
    env.make_certificates(["running", "delivery", "reopened", "held", "kept"])
    collector = env.new_collector().start()
    with concurrent.futures.ThreadPoolExecutor(1) as beside:  # these parts wait for most of their time, and have collectors of their own
        apart = beside.submit(lambda: (of_the_collector(env, checks), kept(env, checks)))
        running(env, checks, collector)
        delivery(env, checks, collector)
        reopened(env, checks, collector)
    apart.result()
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
