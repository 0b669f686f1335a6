"""Triggers: when a program's trigger() fires, its window of the recorder is sent, each record once, whatever happens in between.

A trace is replayed into a recorder with a program on it. The collector's records are compared with the trace's, as `etwagent dump`
prints them: the window of each firing is whole, no record is there twice, and none that is not the trace's, beside the firings.

- Two windows that overlap; a third firing is over its limit. The same trace again: limits count what an earlier run fired.
- kill -9 at each place at which the recorder's file of triggers is replaced: before the window was planned, and when it is in the spool and the
  file has it as planned. The next run, which has no program, sends it.
- A program that waits for stacks: the record of the firing comes a second after the window's end, and is sent.
- A ring that has removed the window: it is counted. A damaged file of triggers is reported, and the run goes on.
- Encrypted: the window is sent with the key.
- A program with a trigger on events that no recorder has is refused, with its place.

# sanitizers: tsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 61: A trigger's window arrives whole and once. | overlapping windows, kill -9 before and after they are sent, a ring that has lost one | 2026-11-28
import collections
import concurrent.futures
import datetime
import json
import subprocess

import disk
import faulted
import harness
import test_ledger
import test_tracegen
import traces

WAIT_S, AT_A_TIME = 60, 3
OTHER = "clr-32bit"  # of another time
BEFORE_MS, AFTER_MS = 200, 100
PROGRAM = f'Thread/Start {{ trigger("started", before {BEFORE_MS}ms, after {AFTER_MS}ms, at most 2/d, cooldown 150ms); }}'
ROW = '"watch_replay_trigger"'
AGENTS = ("overlap", "before", "after", "late", "small", "sealed", "refused")


class Trace:
    def __init__(self, env):
        self.path, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--seed", "5", "--duration-ms", "1500")
        done = subprocess.run([str(env.agent), "dump", "--format", "jsonl", "--raw", str(self.path)], check=True, capture_output=True, text=True)
        self.lines = done.stdout.splitlines()
        self.times = [json.loads(line)["time"] for line in self.lines]

    def between(self, begin, end):
        return collections.Counter(line for line, time in zip(self.lines, self.times) if begin <= time <= end)


def shifted(time, ms):
    """A time as text, with its seven digits, so many milliseconds away."""
    whole, part = time.rstrip("Z").split(".")
    at = datetime.datetime.fromisoformat(whole) + datetime.timedelta(microseconds=int(part[:6]) + ms * 1000)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + part[6:] + "Z"


def replay(env, checks, collector, agent, trace, *extra, program=PROGRAM, size="64MiB", spool=None, environment=None, killed=False):
    paths = traces.paths(trace, env.build) if isinstance(trace, str) else [trace.path]
    run = faulted.Replay(env, paths, collector, agent, spool=spool, environment=environment,
                         extra=["--live", "--batch-events", "200", "--recorder", size,
                                *(["--program", program] if program else []), *extra])
    with run:
        code = run.wait(WAIT_S)
    if killed:
        checks.equal(code, -9, f"{agent}: how it ended")
        return run
    checks.equal(code, 0, f"{agent}: the end: {run.messages()}")
    summary = json.loads(run.output)
    checks.that(summary["ledger_balanced"], f"{agent}: the ledger: {summary['ledger']}")
    run.ledger = summary["ledger"]
    return run


def stored(env, collector, agent):
    done = env.run([env.collector, "export", "--store", collector.store, "--host", agent, "--format", "jsonl", "--raw", "--verify"])
    return done.stdout.splitlines()


def check_windows(env, checks, collector, trace, agent, firings):
    """The windows of so many firings, by the rows that arrived; returns the times of these."""
    lines = stored(env, collector, agent)
    rows = [json.loads(line) for line in lines if ROW in line]
    got = collections.Counter(line for line in lines if ROW not in line)
    checks.equal(len(rows), firings, f"{agent}: firings that are in the store")
    for row in rows:
        wanted = trace.between(shifted(row["time"], -BEFORE_MS), shifted(row["time"], AFTER_MS))
        checks.that(len(wanted) > 1000 and not wanted - got, f"{agent}: {(wanted - got).total()} of {wanted.total()} records of a window are missing")
    more = got - collections.Counter(trace.lines)
    checks.that(not more, f"{agent}: {more.total()} records are there twice or are not the trace's")
    checks.that(got.total() < len(trace.lines), f"{agent}: all of the trace was sent")
    streams = test_ledger.ledger(collector, agent)["streams"]
    checks.equal([a for s in streams for a in s["alerts"]], [], f"{agent}: alerts")
    checks.equal([e["name"] for s in streams for e in s["equations"] if not e["holds"]], [], f"{agent}: equations")
    return [row["time"] for row in rows], got


def overlap(env, checks, collector, trace):
    run = replay(env, checks, collector, "overlap", trace)
    times, got = check_windows(env, checks, collector, trace, "overlap", 2)
    checks.that(shifted(times[0], AFTER_MS) > shifted(times[1], -BEFORE_MS), f"overlap: the windows of {times} do not overlap")
    ledger = run.ledger
    checks.equal((ledger["triggers_fired"], ledger["windows_untriggered"], ledger["batches_untriggered"]), (2, 0, 0), "overlap: counters")
    checks.that(ledger["triggers_limited"] > 0 and ledger["events_triggered"] >= got.total(), f"overlap: {ledger}")
    counts = test_ledger.counters(next(s for s in test_ledger.ledger(collector, "overlap")["streams"] if test_ledger.counters(s)))
    checks.equal((counts["triggers_fired"], counts["triggers_limited"]), (2, ledger["triggers_limited"]), "overlap: at the collector")
    done = env.run([env.collector, "query", "--store", collector.store, "SELECT host FROM hosts WHERE host = 'overlap' AND ended IS NOT NULL"])
    checks.that("overlap" in done.stdout, "overlap: the run has ended, whatever was sent beside it")
    again = replay(env, checks, collector, "overlap", trace, spool=run.spool).ledger
    checks.equal((again["triggers_fired"], again["triggers_limited"] - ledger["triggers_limited"]), (0, 2), "overlap: limits of an earlier run")
    check_windows(env, checks, collector, trace, "overlap", 2)


def killed(env, checks, collector, trace, agent, place):
    """At which replacement of the file: the first one has the firings, the next one the plan, the third one that it is in the spool."""
    spool = env.folder / agent / "spool"
    spool.mkdir(parents=True, mode=0o700)
    faults = disk.Faults(env.build, spool / "recorder", f"rename:kill@{place}", files="triggers*")
    once = PROGRAM.replace("at most 2/d", "at most 1/d")
    replay(env, checks, collector, agent, trace, program=once, spool=spool, environment=faults.environment(), killed=True)
    left = (spool / "recorder/replay/triggers").read_text()
    checks.equal(("window " in left, "planned " in left), (place == 2, place == 3), f"{agent}: what is left: {left}")
    after = replay(env, checks, collector, agent, OTHER, program=None, spool=spool)
    checks.that(after.ledger["events_triggered"] > 0, f"{agent}: sent by the next run: {after.ledger}")
    check_windows(env, checks, collector, trace, agent, 1)


def late(env, checks, collector, trace):
    replay(env, checks, collector, "late", trace,
           program='Thread/Start { @[kstack()] = count(); trigger("late", before 100ms, after 0s, at most 1/d); }')
    rows = [json.loads(line) for line in stored(env, collector, "late") if ROW in line]
    checks.equal(len(rows), 1, "late: firings that are in the store")


def small_ring(env, checks, collector, trace):
    """The first event's window, of which a ring of this size has nothing at the end."""
    run = replay(env, checks, collector, "small", trace, size="256KiB",
                 program='Process/* { trigger("first", before 1s, after 0s, at most 1/d); }')
    ledger = run.ledger
    checks.equal((ledger["triggers_fired"], ledger["windows_untriggered"], ledger["events_triggered"]), (1, 1, 0), "small: counters")
    kept = run.spool / "recorder/replay/triggers"
    kept.write_bytes(kept.read_bytes()[:-20])
    again = replay(env, checks, collector, "small", OTHER, size="256KiB", program=None, spool=run.spool)
    checks.that("is damaged: windows" in again.messages() and again.ledger["events_triggered"] == 0, f"small: a damaged file: {again.messages()}")


def sealed(env, checks, collector, trace):
    run = replay(env, checks, collector, "sealed", trace, "--spool-key", env.folder / "trigger.key")
    check_windows(env, checks, collector, trace, "sealed", 2)
    checks.that(run.ledger["batches_untriggered"] == 0, f"sealed: {run.ledger}")


def refusals(env, checks, collector, trace):
    def refused(*extra):
        return env.run(env.replay_command([trace.path], collector, agent="refused", spool=env.folder / "none", extra=extra), check=False)

    done = refused("--live", "--program", PROGRAM)
    checks.that(done.returncode == 2 and "needs --recorder" in done.stderr, f"without a recorder: {done}")
    done = refused("--live", "--recorder", "1MiB", "--program", "Process/Start { trigger(started); }")
    checks.that(done.returncode != 0 and "line 1, column 25 of the program" in done.stderr, f"no name: {done}")


def test(env, checks, arguments):
    env.make_certificates(AGENTS)
    collector = env.new_collector().start()
    trace = Trace(env)
    cases = [(overlap,), (killed, "before", 2), (killed, "after", 3), (late,), (small_ring,), (sealed,), (refusals,)]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in [pool.submit(case, env, checks, collector, trace, *more) for case, *more in cases]:
            done.result()
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
