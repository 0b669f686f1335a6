"""kill -9 of the collector and of the agent in the middle of a replay, again and again: in the end every event is in the
store exactly once, and the ledger balances to the event: by the agent's own account at its end, and by the collector's.

A live session's agent is killed again and again, too, while its spool is full and its connections are cut. What it had not written yet is
gone then; but each number that it gave out is stored or named by a tombstone, and the ledger of each run balances.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 1: Each event arrives once, whichever process is killed. The ledger balances to the event at the agent and at the collector. | 12
#   kills of the agent and 12 of the collector in mid-replay: none lost, none duplicated | 2026-11-21
# - Delivery 2: What a live session cannot read again is stored, or named by a tombstone. | 15 kills with a full spool and cut connections:
#   9,526 batches evicted; each batch number is stored or named | 2026-11-23
import json
import random
import signal
import subprocess
import time

import faulted
import harness
import proxy
import test_identity
import test_ledger
import traces

TRACE = "clr-kernel-win8-x64"
KILLS_PER_REPLAY = 4


class Replay:
    """One replay of the trace in small batches (about 360), which may be killed and taken up again."""

    def __init__(self, command):
        self.command, self.process = command, None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def running(self):
        return self.process.poll() is None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def finish(self):
        """Its summary."""
        try:
            output, errors = (text.decode(errors="replace") for text in self.process.communicate(timeout=300))
        except subprocess.TimeoutExpired:
            self.kill()
            raise harness.Failure("a replay did not end within 300 s after the last kill")
        if self.process.returncode != 0:
            raise harness.Failure(f"the last replay ended with {self.process.returncode}: {errors[-1000:]}")
        return json.loads(output)


def check_ledger(checks, collector, agent, events, kills):
    """All of the trace is stored, by numbers that add up in the last batch; and no batch before it said anything else."""
    stream, = test_ledger.ledger(collector, agent)["streams"]
    what = f"{agent}, {kills} kills"
    checks.equal((stream["stored_events"], stream["missing_batches"], stream["gaps"]), (events, 0, []),
                 f"{what}: events stored, batches missing, gaps")
    checks.equal(([e["name"] for e in stream["equations"] if e["holds"]], stream["unbalanced_families"], stream["alerts"]),
                 (["delivered", "batched", "stored"], [], []), f"{what}: equations that hold, families that do not add up, alerts")
    checks.equal(test_ledger.counters(stream)["events_delivered"], events, f"{what}: events delivered, says the last batch")


def one_replay(env, collector, victim, rng, agent, paths):
    """A replay with some kills of the victim in it; returns how many fell before its end, and the last run's summary."""
    replay = Replay(env.replay_command(paths, collector, agent=agent, spool=env.folder / f"spool-{agent}",
                                       extra=["--json", "--batch-events", "500"]))
    replay.start()
    kills = 0
    while kills < KILLS_PER_REPLAY:
        time.sleep(rng.uniform(0.01, 0.15))
        if not replay.running():
            break
        if victim == "agent":
            replay.kill()
            replay.start()
        else:
            collector.kill()
            time.sleep(rng.uniform(0, 0.05))
            collector.start()
        kills += 1
    return kills, replay.finish()


def live_kills(env, checks, collector, rng, wanted, paths):
    """So many kills of an agent whose events cannot be read again; then what is left in its spool goes."""
    agent, spool = "killed-live", env.folder / "spool-killed-live"
    with proxy.Proxy(collector.port) as line:
        for n in range(wanted):
            line.plan = lambda _, refuse=rng.random() < 0.5: proxy.Plan(refuse=refuse)
            line.reset_all()  # what was on its way has no answer
            with faulted.Replay(env, paths, line, agent, spool=spool, extra=[
                    "--live", "--batch-events", rng.choice([20, 100, 500]), "--spool-bytes", "1MiB", "--retry-max", "300ms", "--threads", "4",
                    "--spool-age", "500ms" if n % 3 == 0 else "0"]) as run:
                time.sleep(rng.uniform(0.05, 1.2))
                run.kill()
    drained = env.run([env.agent, "spool", "drain", "--spool", spool, "--collector", collector.url, "--cert", env.certs / f"{agent}.crt",
                       "--key", env.certs / f"{agent}.key", "--ca", env.certs / "ca.crt"])
    checks.that("0 are left" in drained.stdout, f"live: drain: {drained.stdout} {drained.stderr}")
    streams = test_ledger.ledger(collector, agent)["streams"]
    for stream in streams:
        checks.equal((stream["missing_batches"], stream["unbalanced_families"], [a for a in stream["alerts"] if a["kind"] != "keyframe"]),
                     (0, [], []), f"live: {stream['stream']}: numbers without batch and tombstone, families that do not add up, alerts")
    gone = sum(b["batches"] for stream in streams for b in stream["gaps"])
    checks.that(len(streams) >= wanted * 3 // 4 and gone > 1000, f"live: {len(streams)} streams, {gone} batches were evicted")
    print(f"{wanted} kills of a live agent with a full spool: {gone} batches were evicted, each named by a tombstone")


def test(env, checks, arguments):
    wanted = 100 if arguments.soak else 10
    paths = traces.paths(TRACE, env.build)
    dumped = test_identity.digest([env.agent, "dump", "--format", "jsonl", "--raw", *paths])
    rng = random.Random(7)
    env.make_certificates(agents=[f"killed-{victim}-{n}" for victim in ("agent", "collector") for n in range(wanted)] + ["killed-live"])
    for victim in ("agent", "collector"):
        collector = env.new_collector(f"collector-{victim}").start()
        kills = 0
        for n in range(wanted):
            agent = f"killed-{victim}-{n}"
            more, summary = one_replay(env, collector, victim, rng, agent, paths)
            kills += more
            exported = test_identity.digest([env.collector, "export", "--store", collector.store, "--host", agent,
                                             "--format", "jsonl", "--raw", "--verify"])
            checks.that(dumped == exported, f"{agent}, {kills} kills so far: {dumped[:2]} dumped, {exported[:2]} stored")
            faulted.check_summary(checks, summary, dumped[0], agent)
            check_ledger(checks, collector, agent, dumped[0], more)
            if kills >= wanted:
                break
        checks.that(kills >= wanted, f"only {kills} of {wanted} kills of the {victim} fell into a replay")
        print(f"{kills} kills of the {victim} in mid-replay; every event once in the store")
        if victim == "agent":
            live_kills(env, checks, collector, rng, wanted * 3 // 2, paths)
        collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
