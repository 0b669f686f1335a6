"""Delivery: which agents may connect, how often, to which collector, and in which order batches are sent.

- Two agents that use one certificate at the same time (a cloned machine) are detected: `ledger`, /metrics and the log report it,
  once. An agent that is killed and started again five times is not taken for two.
- An agent resumes its TLS session after its connections are cut and after its collector is restarted: the collector's
  counters measure it.
- An agent with two collectors uses one, changes to the other when the first one fails, and stays there when the first one is back.
- An agent that comes back with a full spool sends old and new events by turns: the new ones do not wait for the old ones.
- The agent obeys the collector's Retry-After, and no request is larger than the credit of the previous answer.
- 1 % of a live stream's batches are dropped on the way: the collector detects the gap and asks for a keyframe, the
  difference is counted, and then its state is correct again.

# sanitizers: tsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 17: Old events do not delay new ones. | 166 new batches were sent among 469 old ones, the first of them as number 16 | 2026-11-21
# - Delivery 18: A gap in a machine's state heals. | 17 of 1,923 batches discarded: a keyframe was requested, 126 differences were counted and
#   corrected | 2026-11-21
# - Connections and identities 1: Duplicate identities are detected: two agents with one certificate raise one incident that names both
#   addresses. | five restarts of one agent raise none | 2026-11-21
# - Connections and identities 2
import concurrent.futures
import http.client
import json
import random
import re
import ssl
import threading
import time

import faulted
import harness
import proxy
import receiver
import test_keyframes
import test_ledger
import traces
import uploads

TRACE, PACED = "shutdown-win10", "clr-kernel-win8-x64"
LIVE = [*faulted.HASTY, "--live"]
SPEEDS = ("2x", "0.5x", "0.1x")


def metrics(collector):
    """{name with labels: value} of /metrics."""
    port = int(re.findall(r"dashboard on http://127.0.0.1:(\d+)/", collector.log())[-1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] != "#"}


def incidents(collector, agent):
    return test_ledger.ledger(collector, agent)["incidents"]


def clones(env, checks, collector):
    paths = traces.paths(PACED, env.build)
    paced = [*LIVE, "--speed", "2x"]
    with faulted.Replay(env, paths, collector, "cloned", extra=paced) as first:
        with faulted.Replay(env, paths, collector, "cloned", spool=env.folder / "spool-clone", extra=paced) as second:
            both = [run.finish(180) for run in (first, second)]
    for summary in both:
        faulted.check_summary_but_keyframes(checks, summary, traces.event_count(PACED), "a clone")
    found = test_ledger.ledger(collector, "cloned")["notices"]
    checks.equal([i["kind"] for i in found], ["identity-twice"], "notices of two agents with one name")
    checks.equal(incidents(collector, "cloned"), found, "the old name of notices")
    after = test_ledger.as_text(test_ledger.utc_ns(found[0]["time"]) + 100)  # a time as it is printed is cut
    for options, count in ((["--from", found[0]["time"]], 1), (["--from", after], 0), (["--to", found[0]["time"]], 0), (["--to", after], 1)):
        checks.equal(len(test_ledger.ledger(collector, "cloned", *options)["notices"]), count, f"notices {options}")
    checks.that("two agents use this identity at a time" in found[0]["text"] and found[0]["text"].count("127.0.0.1") == 2,
                f"the incident: {found}")
    numbers = metrics(collector)
    checks.that(numbers["etwcollector_ingest_identities_twice_total"] >= 1, "uploads of both, in /metrics")
    checks.equal(numbers.get('etwcollector_incidents{host="cloned",kind="identity-twice"}'), 1.0, "incidents in /metrics")
    checks.equal(collector.log().count("two agents use this identity"), 1, "lines in the log")
    text = collector.ask("ledger", "--host", "cloned")
    checks.that("ALERT" in text and "identity-twice" in text, f"the text of ledger: {text[-500:]}")

    def streams():
        done = env.run([env.collector, "ledger", "--store", collector.store, "--host", "restarted", "--json"], check=False)
        return len(json.loads(done.stdout)["streams"]) if done.stdout else 0

    spool = env.folder / "spool-restarted"
    for n in range(1, 6):
        with faulted.Replay(env, paths, collector, "restarted", spool=spool, extra=paced) as run:
            checks.that(receiver.sleep_until(lambda: streams() >= n, 120, 0.3), f"run {n} has a stream of its own")
            run.kill()
    checks.equal(incidents(collector, "restarted"), [], "incidents of an agent that was started again")


def in_time(happens, *arguments):
    """What has to happen while a session goes on may take longer than it on a slow machine: happens(*arguments, speed) is false then, and
    the next session lasts longer."""
    for speed in SPEEDS:
        if happens(*arguments, speed):
            return
    raise harness.Failure(f"{happens.__name__}: at a speed of {speed}, too, the session was over before all had happened")


def resumption(env, checks, collector, speed):
    """Connections are cut many times, and the collector starts again in between."""
    agent, paths = f"resuming-{speed}", traces.paths(PACED, env.build)
    before = metrics(collector)
    with proxy.Proxy(collector.port) as between:
        with faulted.Replay(env, paths, between, agent, extra=[*LIVE, "--speed", speed]) as run:
            for _ in range(6):
                seen = metrics(collector)["etwcollector_ingest_requests_total"]
                receiver.sleep_until(lambda: metrics(collector)["etwcollector_ingest_requests_total"] > seen + 2 or not run.running(), 60, 0.05)
                between.reset_all()
            counted = metrics(collector)
            collector.stop()
            lasts = run.running()
            collector.start()
            summary = run.finish(180)
        after = metrics(collector)
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(PACED), agent)
    if not lasts:
        return False
    shook, resumed = (counted[f"etwcollector_ingest_{n}_total"] - before[f"etwcollector_ingest_{n}_total"]
                      for n in ("handshakes", "resumed"))
    checks.that(shook >= 5, f"{shook} handshakes")
    # not the first one, and perhaps not one whose connection was cut before its ticket had come
    checks.that(shook - 2 <= resumed < shook, f"handshakes that took the session up again: {resumed} of {shook}")
    checks.that(after["etwcollector_ingest_handshakes_total"] >= 1, "handshakes after the restart")
    checks.equal(after["etwcollector_ingest_resumed_total"], after["etwcollector_ingest_handshakes_total"],
                 "handshakes with the restarted collector that took the session up again: all")
    print(f"resumption: {int(resumed)} of {int(shook)} handshakes; after a restart {int(after['etwcollector_ingest_resumed_total'])} of "
          f"{int(after['etwcollector_ingest_handshakes_total'])}", flush=True)
    return True


def sticking(env, checks, first, second, speed):
    """Two collectors with forwarders before them."""
    agent, paths = f"choosing-{speed}", traces.paths(PACED, env.build)
    with proxy.Proxy(first.port) as to_first, proxy.Proxy(second.port) as to_second:
        came = {"first": 0, "second": 0}
        plans = {"first": proxy.Plan(), "second": proxy.Plan()}

        def plan(name):
            def choose(_):
                came[name] += 1
                return plans[name]
            return choose

        to_first.plan, to_second.plan = plan("first"), plan("second")
        second_url = f"https://localhost:{to_second.port}"
        with faulted.Replay(env, paths, to_first, agent, extra=[*LIVE, "--speed", speed, "--collector", second_url]) as run:
            def takes(collector, more, what):
                """Whether it takes more batches; an agent that goes on and sends it nothing is a failure."""
                had = metrics(collector)["etwcollector_ingest_batches_total"]
                came = receiver.sleep_until(lambda: metrics(collector)["etwcollector_ingest_batches_total"] > had + more or not run.running(), 60, 0.05)
                return checks.that(came, what) and run.running()

            if not takes(first, 20, "the first one is used"):
                return False
            checks.equal(came["second"], 0, "connections to the second collector while the first one works")
            plans["first"] = proxy.Plan(refuse=True)
            to_first.reset_all()
            if not takes(second, 10, "the second one is used"):
                return False
            plans["first"] = proxy.Plan()
            asked = came["first"]
            if not takes(second, 10, "the second one is used on"):
                return False
            checks.equal(came["first"], asked, "connections to the first collector once it is back: the agent stays")
            summary = run.finish(180)
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(PACED), agent)
    got = [test_ledger.ledger(c, agent)["streams"][0]["stored_events"] for c in (first, second)]
    checks.that(min(got) > 0, f"events at both collectors: {got}")
    checks.that(sum(got) >= traces.event_count(PACED), f"events at the two collectors: {got}")
    checks.that(summary["ledger"]["collector_moves"] >= 1, "moves, by the agent's ledger")
    checks.equal([a["kind"] for a in test_ledger.ledger(second, agent)["streams"][0]["alerts"] if a["kind"] != "keyframe"], [],
                 "alerts of a stream that moved")
    return True


def listed(env, spool):
    return json.loads(env.run([env.agent, "spool", "list", "--spool", spool, "--json"]).stdout)


def recovering(env, checks):
    """A spool full of an earlier run's events; a collector that takes little at a time."""
    agent, paths, seen, lock, spool = "recovering", traces.paths(PACED, env.build), [], threading.Lock(), env.folder / "spool-recovering"

    def silent(exchange):
        exchange.read_body()
        exchange.wait(3600)

    with receiver.Receiver(env.certs, silent) as fake:
        with faulted.Replay(env, paths, fake, agent, spool=spool, extra=LIVE) as run:
            receiver.sleep_until(lambda: run.spool_bytes() > 1 << 20, 60)
            run.kill()
    (old,) = listed(env, spool)
    left, begun = old["waiting"], threading.Event()

    def slow(exchange):
        exchange.read_body()
        begun.wait(60)
        with lock:
            seen.extend((time.monotonic(), h.stream, h.number) for h in exchange.heads())
        exchange.wait(0.005)
        exchange.acknowledge(exchange.heads(), credit_bytes=16 << 10)

    with receiver.Receiver(env.certs, slow) as fake:
        with faulted.Replay(env, paths, fake, agent, spool=spool, extra=[*LIVE, "--speed", "1x"]) as run:
            # a source that is slow to begin has nothing new that could wait
            checks.that(receiver.sleep_until(lambda: any(s["stream"] != old["stream"] and s["waiting"] for s in listed(env, spool)), 60),
                        f"nothing new came: {run.messages()}")
            begun.set()
            checks.that(receiver.sleep_until(lambda: sum(s.hex() == old["stream"] for _, s, _ in seen) >= left, 120),
                        f"the old stream was not drained: {run.messages()}")
            run.kill()
    order = [stream.hex() == old["stream"] for _, stream, _ in seen]
    last_old = max(i for i, is_old in enumerate(order) if is_old)
    news = [i for i, is_old in enumerate(order) if not is_old]
    checks.that(left > 100, f"{left} old batches")
    checks.that(news and news[0] < left // 4, f"the first new batch came as number {news[:1]}, before it only old ones")
    between = sum(1 for i in news if i < last_old)
    # all that the source had made until then may go; at the least a tenth of what went is new
    checks.that(between >= last_old // 20, f"{between} new batches among {last_old} until the old ones were gone")
    longest = max((b - a for a, b in zip([-1, *news], news) if b < last_old), default=last_old)
    checks.that(longest < left // 2, f"{longest} old batches went while new ones could wait")
    print(f"recovery: {between} new batches came among {left} old ones, the first as number {news[0]}", flush=True)


def restraint(env, checks):
    """What the collector says about when and how much."""
    times, sizes, lock = [], [], threading.Lock()
    credit = 20_000

    def modest(exchange):
        exchange.read_body()
        with lock:
            times.append(time.monotonic())
            sizes.append((len(exchange.body), len(exchange.heads())))
            number = len(times)
        if number == 2:
            exchange.answer(503, b"busy\n", [("Retry-After", "2")])
        else:
            exchange.acknowledge(exchange.heads(), credit_bytes=credit)

    with receiver.Receiver(env.certs, modest) as fake:
        with faulted.Replay(env, traces.paths(TRACE, env.build), fake, "modest",
                            extra=["--batch-events", "100", "--request-bytes", "1MiB"]) as run:
            summary = run.finish(120)
    faulted.check_summary(checks, summary, traces.event_count(TRACE), "modest")
    checks.that(times[2] - times[1] >= 2.0, f"Retry-After of 2 s was kept for {times[2] - times[1]:.2f} s")
    over = [size for size, batches in sizes[3:] if size > credit and batches > 1]
    checks.equal(over, [], f"requests of more than one batch beyond the credit of {credit} bytes")
    checks.that(len(sizes) > 5, f"only {len(sizes)} requests")


def healing(env, checks):
    """A live agent. A receiver between it and the collector loses 1 % of the batches, but acknowledges them."""
    agent, paths = "healing", traces.paths(PACED, env.build)
    collector = env.new_collector("healing", extra=["--hole-wait", "200ms"]).start()
    kept, gone, asked, lock, dice = [], [], [0], threading.Lock(), random.Random(7)
    context = ssl.create_default_context(cafile=str(env.certs / "ca.crt"))
    context.load_cert_chain(env.certs / f"{agent}.crt", env.certs / f"{agent}.key")

    def lossy(exchange):
        exchange.read_body()
        with lock:
            batches = uploads.batches(exchange.body)
            some = []
            for batch in batches:
                head = uploads.Head(batch)
                # some of the rundown at the beginning, and 1 % by chance; keyframes pass, and nothing goes at the end
                lose = head.kind == 0 and head.number < 1200 and (dice.random() < 0.01 or head.number in (20, 40, 60))
                kept.append(batch)
                (gone if lose else some).append(batch)
            wanted = False
            if some:
                connection = http.client.HTTPSConnection("localhost", collector.port, context=context, timeout=60)
                connection.request("POST", uploads.UPLOAD_PATH, uploads.body(some), {"Content-Type": "application/x-etwagent-batches"})
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                if answer.status != 200:
                    exchange.answer(503, b"later\n")
                    return
                wanted = any(number == 7 and value for number, value in uploads.fields(body))
            asked[0] += wanted
            # the collector lacks definitions of a batch that went: the agent never hears of that, since it is acknowledged
            exchange.acknowledge(exchange.heads(), keyframe=wanted)

    with receiver.Receiver(env.certs, lossy) as fake:
        with faulted.Replay(env, paths, fake, agent, extra=[*LIVE, "--keyframe-every", "3s", "--speed", "1x"]) as run:
            summary = run.finish(240)
    collector.stop()
    checks.that(len(gone) >= 3, f"only {len(gone)} batches went")
    checks.that(asked[0] >= 1, "the collector never asked for a keyframe")
    # The lost batches were acknowledged as stored, so the third equation does not hold. The ledger detects this as soon as
    # more events are acknowledged than were on their way.
    done = env.run([env.collector, "ledger", "--store", collector.store, "--host", agent, "--json"], check=False)
    checks.that(done.returncode in (0, 3), f"ledger ended with {done.returncode}: {done.stderr[-500:]}")
    stream, = json.loads(done.stdout)["streams"]
    checks.that({a["kind"] for a in stream["alerts"]} <= {"stored", "keyframe"}, f"alerts: {stream['alerts'][:3]}")
    numbers = {uploads.Head(b).number for b in gone}
    checks.equal(stream["missing_batches"], len(numbers), "batches that the collector misses")
    checks.equal(sum(b["events"] or 0 for b in stream["gaps"]), sum(uploads.Head(b).event_count for b in gone), "events in them")
    # the truth: the same stream, whole, in another collector
    whole, _ = test_keyframes.folded(env, checks, "healing-whole", agent, kept)
    last = max(uploads.Head(b).number for b in kept if uploads.Head(b).kind == 2)
    checks.that(max(numbers) < last, f"the last keyframe is batch {last}, after the last loss, {max(numbers)}")
    end = test_keyframes.last_keyframe_time(whole, agent, last)
    missing = test_keyframes.alive(whole, agent, end) ^ test_keyframes.alive(collector, agent, end)
    checks.equal(len(missing), 0, f"rows that differ after the last keyframe: {list(missing)[:2]}")
    differences = test_keyframes.compared(stream)
    checks.that(sum(a["left"] + a["right"] for a in differences) > 10, f"differences that keyframes mended: {differences}")
    print(f"healing: {len(gone)} of {len(kept)} batches lost, a keyframe asked for {asked[0]} times, "
          f"{summary['ledger']['keyframes_written']} written, {sum(a['left'] + a['right'] for a in differences)} differences mended", flush=True)


def test(env, checks, _):
    env.make_certificates(["cloned", "restarted", "recovering", "modest", "healing", *(f"{name}-{speed}" for name in ("resuming", "choosing") for speed in SPEEDS)])
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    other = env.new_collector("other", extra=["--web", "127.0.0.1:0"]).start()
    with concurrent.futures.ThreadPoolExecutor(1) as beside:  # these parts wait for most of their time, and have receivers and a collector of their own
        apart = beside.submit(lambda: (restraint(env, checks), healing(env, checks)))
        clones(env, checks, collector)
        in_time(resumption, env, checks, collector)
        collector.stop()
        collector.start()
        in_time(sticking, env, checks, collector, other)
        collector.stop()
        other.stop()
    apart.result()
    recovering(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
