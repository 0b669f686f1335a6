"""A live session (replay --live): cases that a plain replay does not have.

- The batch numbers are in use: the collector has other content under them, because the machine was reverted to a snapshot or
  cloned. The stream continues under a new name, from batch 1, with all batches that were not acknowledged. The collector stores
  every event once. The new stream's ledger balances for the session and each family, and the new stream has a keyframe. The same
  holds when the agent is killed after that.
- The collector does not answer and the spool is full: the agent evicts the oldest batches, counts every evicted event and names
  the batches in tombstones. The agent's memory and the spool stay under their limits.
- A collector that lacks definitions asks for a keyframe and gets one.

# sanitizers: tsan
"""
import json
import threading
import time

import faulted
import harness
import proxy
import receiver
import test_identity
import test_ledger
import traces
import uploads

TRACE, PACED, FOREIGN = "shutdown-win10", "clr-kernel-win8-x64", "clr-gc-events"
LIVE = [*faulted.HASTY, "--live"]
KEYFRAME_PAUSE_S = 10  # at least, between two keyframes that a collector requests
SPOOL_BYTES, SPOOL_SLACK_BYTES, MOST_MEMORY_BYTES = 256 << 10, 192 << 10, 64 << 20


def renamed(batch, stream, number):
    """The batch under another name."""
    out = b""
    for field, value in uploads.fields(batch):
        if field in (2, 3, 14):
            continue
        if isinstance(value, int):
            out += uploads._number(field, value)
        elif field in (6, 7, 18, 19):
            out += uploads._varint(field << 3 | 1) + value
        else:
            out += uploads._bytes(field, value)
    return out + uploads._bytes(2, stream) + uploads._number(3, number)


def streams_of(collector, agent):
    return test_ledger.ledger(collector, agent)["streams"]


def check_sound(checks, stream, what):
    checks.equal([e["name"] for e in stream["equations"] if e["holds"]], ["delivered", "batched", "stored"], f"{what}: equations")
    checks.equal(stream["unbalanced_families"], [], f"{what}: families")
    checks.equal([a for a in stream["alerts"] if a["kind"] != "keyframe"], [], f"{what}: alerts")


def conflict(env, checks, collector, foreign, agent, trace, extra=()):
    """The collector has other content under the first numbers. Paced, the agent is still at its source then."""
    paths = traces.paths(trace, env.build)
    names = []

    def listen(exchange):
        exchange.read_body()
        names.append(exchange.heads()[0].stream)
        exchange.wait(3600)

    with receiver.Receiver(env.certs, listen) as fake, proxy.Proxy(fake.port) as between:
        with faulted.Replay(env, paths, between, agent, extra=[*LIVE, *extra]) as run:
            checks.that(receiver.sleep_until(lambda: names, 120), "the agent never sent anything")
            old = names[0]
            test_ledger.upload(env, collector, agent, [renamed(batch, old, n + 1) for n, batch in enumerate(foreign)])
            between.target = collector.port
            fake.stop()
            between.reset_all()
            summary = run.finish(120)
            said = run.messages()
    checks.that("continues under a new name" in said, f"the agent logs it: {said}")
    checks.equal(summary["ledger"]["streams_renewed"], 1, "streams renewed")
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(trace), agent)
    found = {s["stream"]: s for s in streams_of(collector, agent)}
    checks.equal(set(found), {old.hex(), summary["stream"]}, "streams of the agent")
    checks.equal(found[old.hex()]["stored_events"], sum(uploads.Head(b).event_count for b in foreign), "events of the other machine")
    new = found[summary["stream"]]
    check_sound(checks, new, agent)
    checks.equal(new["missing_batches"], 0, "batches missing in the new stream")
    checks.that(summary["ledger"]["keyframes_written"] >= 1, "a keyframe after the renewal")
    checks.equal(test_ledger.counters(new)["events_delivered"], traces.event_count(trace), "delivered, by the new stream's ledger")
    truth = faulted.Truth(env, paths)
    stored = digest_of(env, collector, agent, summary["stream"])
    checks.equal(stored, (truth.lines, truth.digest), "events stored under the new name")


def digest_of(env, collector, agent, stream):
    return test_identity.digest([env.collector, "export", "--store", collector.store, "--host", agent, "--stream", stream,
                                 "--format", "jsonl", "--raw", "--verify"])[:2]


def killed_after(env, checks, collector):
    """A false collector has everything; the stream is renewed, and the agent killed. What the spool has goes out later."""
    agent, seen = "killed", []
    with receiver.Receiver(env.certs, receiver.taken(seen)) as fake:
        with faulted.Replay(env, traces.paths(TRACE, env.build), fake, agent, extra=LIVE) as run:
            checks.that(receiver.sleep_until(lambda: len(set(seen)) > 1, 120), f"the stream was not renewed: {run.messages()}")

            def waiting():
                return json.loads(env.run([env.agent, "spool", "list", "--spool", run.spool, "--json"]).stdout)
            receiver.sleep_until(lambda: not run.running() or sum(s["events"] for s in waiting()) > 1000, 60)
            run.kill()
    events = sum(s["events"] for s in waiting())
    checks.that(events > 1000, f"events in the spool: {waiting()}")
    done = env.run([env.agent, "spool", "drain", "--spool", run.spool, "--collector", collector.url, "--cert",
                    env.certs / f"{agent}.crt", "--key", env.certs / f"{agent}.key", "--ca", env.certs / "ca.crt"])
    checks.that("0 are left" in done.stdout, f"drain: {done.stdout} {done.stderr}")
    stream, = streams_of(collector, agent)
    checks.that(stream["stream"] not in {s.hex() for s in seen[:1]}, "it came under the old name")
    checks.equal((stream["stored_events"], stream["missing_batches"]), (events, 0), "events that were in the spool, and holes")


def evicting(env, checks, collector):
    """The collector does not answer for the whole trace; then a second collector answers."""
    agent, paths = "full", traces.paths(TRACE, env.build)

    def silent(exchange):
        exchange.read_body()
        exchange.wait(3600)

    with receiver.Receiver(env.certs, silent) as fake, proxy.Proxy(fake.port) as between:
        run = faulted.Replay(env, paths, between, agent, extra=[*LIVE, "--spool-bytes", str(SPOOL_BYTES)])
        with run, faulted.Watch(run) as watch:
            receiver.sleep_until(lambda: watch.spool_bytes > SPOOL_BYTES * 3 // 4, 60)
            receiver.sleep_until(lambda: not run.running(), 5)
            between.target = collector.port
            fake.stop()
            between.reset_all()
            run.wait(120)
    summary = json.loads(run.output)
    ledger = summary["ledger"]
    checks.that(ledger["events_evicted_size"] > 5000, f"nothing was evicted: {ledger}")
    checks.equal((ledger["events_delivered"], summary["ledger_balanced"]), (traces.event_count(TRACE), True), "delivered, balanced")
    checks.equal(ledger["events_acknowledged"] + ledger["events_evicted_size"], ledger["events_batched"] + ledger["events_synthesised"],
                 "acknowledged and evicted are all")
    stream, = streams_of(collector, agent)
    check_sound(checks, stream, agent)
    checks.equal(stream["stored_events"], ledger["events_acknowledged"], "events stored")
    checks.equal(sum(b["events"] for b in stream["gaps"]), ledger["events_evicted_size"], "events that tombstones name")
    checks.equal({b["cause"] for b in stream["gaps"]}, {"events_evicted_size"}, "their cause")
    checks.equal(stream["missing_batches"], 0, "batches that are missing without a record")
    checks.that(0 < watch.spool_bytes <= SPOOL_BYTES + SPOOL_SLACK_BYTES, f"the spool had {watch.spool_bytes} bytes")
    if "san" not in env.build.name:
        checks.that(0 < watch.memory_bytes <= MOST_MEMORY_BYTES, f"the agent had {watch.memory_bytes} bytes of memory")
    print(f"full spool: {ledger['events_evicted_size']} of {ledger['events_delivered']} events were evicted, {watch.memory_bytes >> 10} KiB "
          f"of memory, {watch.spool_bytes >> 10} KiB of spool", flush=True)


def asked(env, checks):
    """A collector that asks for a keyframe with every answer gets one soon, and not one an answer."""
    agent, kinds, lock = "asked", [], threading.Lock()

    def asking(exchange):
        exchange.read_body()
        with lock:
            kinds.extend((h.number, h.kind) for h in exchange.heads())
        exchange.acknowledge(exchange.heads(), keyframe=True)

    begun = time.monotonic()
    with receiver.Receiver(env.certs, asking) as fake:
        with faulted.Replay(env, traces.paths(PACED, env.build), fake, agent, extra=[*LIVE, "--speed", "2x"]) as run:
            summary = run.finish(120)
    seconds, written = time.monotonic() - begun, summary["ledger"]["keyframes_written"]
    checks.that(1 <= written <= 2 + seconds / KEYFRAME_PAUSE_S, f"{written} keyframes in {seconds:.0f} seconds")
    checks.that(any(kind == 2 for _, kind in kinds), "no batch of a keyframe came")
    checks.equal(sorted(n for n, _ in kinds), list(range(1, len(kinds) + 1)), "numbers")


def test(env, checks, _):
    env.make_certificates(["reverted", "reverted-early", "killed", "full", "asked", "foreign"])
    foreign = test_ledger.captured(env, FOREIGN, "foreign", ["--batch-events", "10"])
    collector = env.new_collector().start()
    conflict(env, checks, collector, foreign, "reverted", TRACE)
    conflict(env, checks, collector, foreign, "reverted-early", PACED, ["--speed", "4x"])
    killed_after(env, checks, collector)
    evicting(env, checks, collector)
    asked(env, checks)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
