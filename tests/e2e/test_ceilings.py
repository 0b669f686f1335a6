"""Limits (docs/reference/limits.md, eviction.md): a full queue, cache or table evicts or refuses in the documented order, counts it, and affects no other client.

- An agent that may use a hundredth of a processor reads its file later, counts the waiting, and sends all events.
- A collector that may use a twenty-fifth of a processor stores and folds later, counts the waiting, and has all events in the end.
- An agent whose table for keyframes is too small: all events arrive, the rows that the table lacks are counted, and the agent's
  keyframes close no row at the collector.
- A collector with a low limit of state for each machine: a machine that needs more loses its oldest rows, which are counted. Another
  machine that needs little has every row.
- A collector that keeps two machines in memory serves four, with the same rows.
- Names and operations beyond their limits are evicted and counted; the process table is the same.
- Six agents send more than a collector has room for, and one agent sends little: all events of all agents arrive once, and the
  collector's memory stays bounded.
- Queries that need too much time or memory are ended; the collector continues to take events meanwhile.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 21: What reaches a limit is evicted or refused as [limits.md](../reference/limits.md) says, and affects no other client. | 14,133
#   rows omitted from keyframes, 3,675 rows of one machine evicted, all counted; no row of the other machine | 2026-11-22
# - Delivery 22: ... and memory stays bounded under overload. | 46 MiB in a collector that six agents overload | 2026-11-22
import collections
import concurrent.futures
import json
import os
import pathlib
import resource
import sqlite3
import time

import faulted
import harness
import receiver
import test_delivery
import test_keyframes
import traces

SHARE = 0.04  # of a processor, for a collector that is paced
BIG, SMALL, NAMES, TINY = "clr-kernel-win8-x64", "shutdown-win10", "clr-kernel-win8-x64", "amsi-eventslost"


def replay(env, collector, trace, agent, extra=()):
    run = faulted.Replay(env, traces.paths(trace, env.build), collector, agent, spool=env.folder / f"spool-{agent}-{collector.name}", extra=extra)
    with run, faulted.Watch(run) as watch:
        summary = run.finish(240)
    return summary, watch


def folded(collector):
    """Waits until the collector's own thread has folded all that is stored; then its metrics."""
    def not_received():
        stored = collections.Counter()
        with sqlite3.connect(f"file:{collector.store}/index.db?mode=ro", uri=True) as index:
            stored.update({(a, bytes(s)): n for a, s, n in index.execute("SELECT agent, stream, event_count FROM streams")})
        try:
            with sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True) as state:
                have = {(h, bytes(s)): n for h, s, n in state.execute("SELECT host, id, event_count FROM streams")}
        except sqlite3.OperationalError:
            return True
        return any(have.get(s, 0) < n for s, n in stored.items())
    if not receiver.sleep_until(lambda: not not_received(), 120, 0.1):
        raise harness.Failure("the collector did not fold what it has")
    return test_delivery.metrics(collector)


def rows(collector, agent):
    return test_keyframes.lives(collector, agent)


def cpu_of_children():
    """Seconds of a processor that processes took that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def paced(env, checks):
    """A tenth of a second of work, which is several seconds at its share. It gets more of it until whole seconds of waiting are counted:
    on a faster machine it is less, and the machine's other work hides some of it. An agent that does not wait is beyond its share."""
    share = 0.02
    collector = env.new_collector("paced").start()
    # the work before the first event and after the last one is not paced; the replay of a tiny trace measures it
    start = cpu_of_children()
    env.replay(traces.paths(TINY, env.build), collector, spool=env.folder / "spool-tiny")
    unpaced = 3 * (cpu_of_children() - start) + 0.2
    for times in (1, 2, 4, 8):
        begun, before = time.monotonic(), cpu_of_children()
        done = json.loads(env.replay(traces.paths(BIG, env.build) * times, collector, spool=env.folder / f"spool-paced-{times}",
                                     extra=["--cpu-percent", f"{100 * share:.0f}", "--json"]).stdout)
        used, seconds = cpu_of_children() - before, time.monotonic() - begun
        checks.equal(done["ledger"]["events_acknowledged"], times * traces.event_count(BIG), "paced: all events")
        checks.that(used <= share * seconds + unpaced, f"paced: {used:.2f} s of a processor in {seconds:.1f} s, {unpaced:.2f} of them not paced")
        counted = done["ledger"]["source_paced_seconds"]
        if counted:
            break
    checks.that(0 < counted <= seconds, f"paced: {counted} s are counted, of {seconds:.1f} s in which it used {used:.2f} s of a processor")
    print(f"paced: {used:.2f} s of a processor in {seconds:.1f} s of an agent that may have {share}, {counted} s of waiting counted", flush=True)
    collector.stop()


def held(env, checks):
    """A collector asks for pauses, and the spool is small: the agent's waiting is counted, that of its sender and that of its source."""
    asked, seconds = [], 1

    def busy(exchange):
        exchange.read_body()
        if len(asked) < 4:
            asked.append(time.monotonic())
            return exchange.answer(503, b"", [("Retry-After", str(seconds))])
        return exchange.acknowledge(exchange.heads())
    begun = time.monotonic()
    with receiver.Receiver(env.certs, busy) as fake:
        run = faulted.Replay(env, traces.paths(BIG, env.build), fake, "held", extra=["--batch-events", "500", "--spool-bytes", "128KiB"])
        with run:
            done = run.finish(240)
    took, ledger = time.monotonic() - begun, done["ledger"]
    checks.equal((ledger["events_acknowledged"], done["ledger_balanced"]), (traces.event_count(BIG), True), "held: all events")
    checks.that(len(asked) * seconds <= ledger["shipping_held_seconds"] <= took, f"held: {ledger['shipping_held_seconds']} s of pauses counted, of {took:.1f} s")
    checks.that(2 <= ledger["source_held_seconds"] <= took, f"held: {ledger['source_held_seconds']} s of the source's waiting counted, of {took:.1f} s")


def paced_collector(env, checks, reference):
    """A few tenths of a second of work, which are many seconds at its share: it gets more of it until it has counted a wait. How
    much of that the machine's other work hides does not matter then; a collector that does not wait is beyond its share."""
    collector = env.new_collector("paced-collector", extra=["--web", "127.0.0.1:0", "--cpu-percent", f"{100 * SHARE:.0f}"]).start()

    def used():
        fields = pathlib.Path(f"/proc/{collector.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    begun, before, counted = time.monotonic(), used(), 0
    for agent in ("small", *(f"many-{n}" for n in range(4))):
        summary, _ = replay(env, collector, SMALL, agent, ["--batch-events", "500", "--request-bytes", "16KiB"])
        checks.equal(summary["ledger"]["events_acknowledged"], traces.event_count(SMALL), f"a paced collector: all events of {agent}")
        counted = folded(collector)["etwcollector_ingest_paced_seconds_total"]
        if counted:
            break
    seconds, cpu = time.monotonic() - begun, used() - before
    # two threads count their waits: one stores, the other one folds
    checks.that(0 < counted <= 2 * seconds, f"a paced collector: {counted} s are counted, of {seconds:.1f} s in which it used {cpu:.2f} s")
    # the work after the last wait is not paced: the last answer, the last batch, /metrics; on a slow machine it is a larger share of the total
    checks.that(cpu <= SHARE * seconds + max(0.2, cpu / 3), f"a paced collector: {cpu:.2f} s of a processor in {seconds:.1f} s")
    checks.that(rows(collector, "small") == rows(reference, "small"), "the rows of a paced collector differ")
    collector.stop()
    return seconds, cpu


def small_keyframes(env, checks, reference):
    collector = env.new_collector("keyframes", extra=["--web", "127.0.0.1:0"]).start()
    summary, _ = replay(env, collector, BIG, "big", ["--keyframe-every", "2s", "--keyframe-bytes", "64KiB"])
    faulted.check_summary_but_keyframes(checks, summary, traces.event_count(BIG), "small keyframes")
    checks.that(summary["ledger"]["keyframe_rows_given_up"] > 500, f"rows given up: {summary['ledger']}")
    checks.that(summary["ledger"]["keyframes_written"] >= 4, "keyframes")
    numbers = folded(collector)
    checks.equal((numbers["etwcollector_state_keyframe_closed_total"], numbers["etwcollector_state_keyframes_total"]), (0.0, 0.0),
                 "what incomplete keyframes closed, and keyframes that passed for whole")
    checks.that(numbers["etwcollector_state_keyframes_partial_total"] >= 4, "keyframes that say that they are not whole")
    checks.that(rows(collector, "big") == rows(reference, "big"), "the rows of the state differ by incomplete keyframes")
    collector.stop()
    return summary["ledger"]["keyframe_rows_given_up"]


def small_state(env, checks, reference):
    """The long trace is of the machine that has little open, the short one of a machine with many modules."""
    collector = env.new_collector("state", extra=["--web", "127.0.0.1:0", "--state-bytes", "3MiB"]).start()
    replay(env, collector, BIG, "big")
    before = folded(collector)["etwcollector_state_evicted_total"]
    replay(env, collector, SMALL, "small")
    after = folded(collector)["etwcollector_state_evicted_total"]
    checks.equal(before, 0.0, "rows that the machine with few modules lost")
    checks.that(after > 1000, f"rows that the machine with many modules lost: {after}")
    checks.that(rows(collector, "big") == rows(reference, "big"), "the rows of the machine with few modules")
    with sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True) as db:
        given_up = sum(n for table in test_keyframes.OPEN for n, in db.execute(f"SELECT count(*) FROM {table} WHERE end_cause = 4"))
    checks.that(0 < given_up <= after, f"rows that say that they were given up: {given_up}, counted {after}")
    done = collector.ask("ps", "--host", "small", "--at", "end")
    checks.that(len(done) > 100, f"ps of the machine with many modules: {done[:200]}")
    collector.stop()
    return after


def few_machines(env, checks, reference):
    """Streams by turns, so that each is read back again and again."""
    collector = env.new_collector("few", extra=["--web", "127.0.0.1:0", "--state-streams", "2"]).start()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: replay(env, collector, SMALL, f"many-{n}", ["--batch-events", "500", "--request-bytes", "16KiB"]), range(4)))
    folded(collector)
    truth = rows(reference, "small")
    for n in range(4):
        checks.that(rows(collector, f"many-{n}") == truth, f"rows of machine {n} of 4, two of which are kept in memory")
    collector.stop()


def few_names(env, checks, reference):
    collector = env.new_collector("names", extra=["--web", "127.0.0.1:0", "--state-names", "500", "--state-operations", "64"]).start()
    replay(env, collector, NAMES, "big")
    numbers = folded(collector)
    checks.that(numbers["etwcollector_state_evicted_total"] > 0, "names that were evicted")
    with sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True) as db:
        (names,), = db.execute("SELECT count(*) FROM names")
    checks.that(0 < names <= 500, f"{names} names are kept")
    checks.that(rows(collector, "big") == rows(reference, "big"), "processes, threads and modules beside full names")
    collector.stop()
    return names


def overload(env, checks):
    """Six agents want more than the collector has room for; a seventh sends little."""
    collector = env.new_collector("overload", extra=["--web", "127.0.0.1:0", "--max-body", "1MiB", "--max-waiting", "2MiB"]).start()
    busy = [f"busy-{n}" for n in range(6)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(replay, env, collector, BIG, agent, ["--request-bytes", "768KiB"]) for agent in busy]
        quiet = pool.submit(replay, env, collector, SMALL, "quiet", ["--batch-events", "200", "--request-bytes", "32KiB"])
        quiet.result()
        summaries = [r.result()[0] for r in running]
    for agent, summary in zip(busy, summaries):
        faulted.check_summary(checks, summary, traces.event_count(BIG), agent)
    truth = faulted.Truth(env, traces.paths(SMALL, env.build))
    truth.check(checks, collector, "quiet", "the quiet agent beside six that overload the collector")
    faulted.Truth(env, traces.paths(BIG, env.build)).check(checks, collector, busy[0], "an agent that overloads the collector")
    memory = receiver.process_status(collector.process.pid, "VmHWM")
    # 64 MiB of one machine's state, the uploads, the folding of batches of 4 MiB, caches
    checks.that(0 < memory <= 160 << 20 or "san" in env.build.name, f"the collector had {memory} bytes of memory")
    print(f"overload: {memory >> 20} MiB of memory in the collector", flush=True)
    collector.stop()


def greedy_queries(env, checks, collector):
    """collector runs and has the reference; its queries are separate processes with bounds of their own."""
    wide = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
            "SELECT group_concat(hex(zeroblob(1000000)), '') FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
            " i < 100000) SELECT i FROM n)")
    start = test_delivery.metrics(collector)["etwcollector_ingest_batches_total"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(env.run, [env.collector, "query", "--store", collector.store, "--time-limit", "3s", "--memory", "64MiB", sql],
                             check=False) for sql in wide * 2]
        summary, _ = replay(env, collector, SMALL, "beside", ["--batch-events", "200"])
        codes = [a.result().returncode for a in asked]
    faulted.check_summary(checks, summary, traces.event_count(SMALL), "an agent beside greedy queries")
    checks.equal(codes, [4] * 4, "exit codes of queries that want too much")
    checks.that(test_delivery.metrics(collector)["etwcollector_ingest_batches_total"] > start, "batches taken meanwhile")


def test(env, checks, _):
    env.make_certificates(["test-machine", "held", "big", "small", "quiet", "beside", *(f"many-{n}" for n in range(4)), *(f"busy-{n}" for n in range(6))])
    reference = env.new_collector("reference", extra=["--web", "127.0.0.1:0"]).start()
    for trace, agent in ((BIG, "big"), (SMALL, "small")):
        replay(env, reference, trace, agent)
    folded(reference)
    paced(env, checks)
    held(env, checks)
    seconds, cpu = paced_collector(env, checks, reference)
    print(f"paced: {cpu:.2f} s of a processor in {seconds:.1f} s of a collector that may have {SHARE}", flush=True)
    began = time.monotonic()
    given_up = small_keyframes(env, checks, reference)
    evicted = small_state(env, checks, reference)
    few_machines(env, checks, reference)
    names = few_names(env, checks, reference)
    print(f"bounds: {given_up} rows left out of keyframes, {int(evicted)} rows of a machine given up, {names} names kept; "
          f"{time.monotonic() - began:.0f} s", flush=True)
    overload(env, checks)
    greedy_queries(env, checks, reference)
    reference.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
