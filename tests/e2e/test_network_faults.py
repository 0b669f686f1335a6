"""A bad network between agent and collector: bytes come late, slowly, cut, reset, truncated, corrupted, not at all, or after
their sender gave up. Through each of them a real trace is replayed: nothing is lost, nothing is doubled.

The short form has every kind of fault once or twice and some random schedules; --soak has 200 random ones, and in every eighth case a
larger trace.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 10: A failing network loses no event and duplicates none. | delay, reordering, cuts, resets, half-open connections, changed bytes
#   | 2026-11-21
import concurrent.futures
import time

import faulted
import harness
import packets
import proxy
import receiver
import traces
from packets import Weather
from proxy import Fault, Plan

TRACE, LONG_TRACE = "shutdown-win10", "clr-kernel-win8-x64"
AT_A_TIME, LONG_EVERY = 12, 8


def first(count, plan):
    """The plan for the first connections; what follows is calm."""
    return lambda number: plan if number < count else Plan()


def each(plan):
    return lambda number: plan


# name: (plan, {fault: how often it must have happened, at least}). The handshake takes 1,300 bytes up and 2,000 down (less when a
# session is resumed). After it, a request has some 16,000 bytes up, an answer some 300 down, and a replay has about 45 requests.
CASES = {
    "delay": (each(Plan(Fault(delay_s=0.03), Fault(delay_s=0.03))), {"delay": 50}),
    "bandwidth": (each(Plan(Fault(bytes_per_s=200_000), Fault(bytes_per_s=20_000))), {"slow": 50}),
    "drip-down": (each(Plan(down=Fault(drip=(40, 0.002)))), {"slow": 200}),
    "drip-up": (first(1, Plan(Fault(drip=(300, 0.002)))), {"slow": 500}),
    "cut-hello": (first(3, Plan(Fault(cut_at=100))), {"cut": 3}),
    "cut-body": (first(3, Plan(Fault(cut_at=30_000))), {"cut": 3}),
    "cut-answer": (first(3, Plan(down=Fault(cut_at=2_500))), {"cut": 3}),
    "reset-body": (first(3, Plan(Fault(reset_at=50_000))), {"reset": 3}),
    "reset-answer": (first(3, Plan(down=Fault(reset_at=2_500))), {"reset": 3}),
    "truncate-body": (first(2, Plan(Fault(truncate_at=20_000))), {"truncate": 2}),
    "truncate-answer": (first(2, Plan(down=Fault(truncate_at=2_600))), {"truncate": 2}),
    "half-open-up": (first(2, Plan(Fault(swallow_at=20_000))), {"swallow": 2}),
    "half-open-down": (first(2, Plan(down=Fault(swallow_at=2_500))), {"swallow": 2}),
    "half-open-both": (first(2, Plan(Fault(swallow_at=40_000), Fault(swallow_at=2_500))), {"swallow": 2}),
    "corrupt-hello": (first(2, Plan(Fault(corrupt_at=120))), {"corrupt": 2}),
    "corrupt-body": (first(3, Plan(Fault(corrupt_at=25_000))), {"corrupt": 3}),
    "corrupt-hello-back": (first(2, Plan(down=Fault(corrupt_at=60))), {"corrupt": 2}),
    "corrupt-answer": (first(3, Plan(down=Fault(corrupt_at=2_500))), {"corrupt": 3}),
    "refused": (first(4, Plan(refuse=True)), {"refuse": 4}),
    "deaf": (first(2, Plan(deaf=True)), {"deaf": 2}),
    # the rest of a body reaches the collector after the agent has given up and sent it again on another connection
    "late-body": (first(2, Plan(Fault(hold_at=20_000, hold_s=6))), {"hold": 2}),
    "late-answer": (first(2, Plan(down=Fault(hold_at=2_500, hold_s=6))), {"hold": 2}),
}
# A line between two machines, where this process may make one: loss, reordering, doubling, damage below TCP.
WEATHERS = {
    "packets-lost": Weather(loss=0.05, delay_s=0.005),
    "packets-reordered": Weather(delay_s=0.002, jitter_s=0.02, doubled=0.05),
    "packets-damaged": Weather(damaged=0.05, loss=0.02, doubled=0.02, jitter_s=0.005),
}


def replay(env, checks, truth, collector, name, paths, plan, wanted):
    """One trace through one bad network; a line about what happened."""
    with proxy.Proxy(collector.port, plan) as between:
        with faulted.Replay(env, paths, between, name, extra=faulted.HASTY) as run:
            summary = run.finish(300)
        # the bytes that the proxy holds back arrive after the end of the replay
        receiver.sleep_until(lambda: not between.fired["hold"] or not between.busy(), 10)
    for fault, least in wanted.items():
        checks.that(between.fired[fault] >= least,
                    f"{name}: {fault} was to happen {least} times or more, it happened {between.fired[fault]} times")
    truth.check(checks, collector, name, name)
    faulted.check_summary(checks, summary, truth.lines, name)
    return f"{name}: {between.connections} connections, {dict(between.fired)}"


def over_a_line(env, checks, truth, paths, line, name):
    """One trace from one machine to another, over a line that loses, doubles, damages and cuts."""
    line.weather = WEATHERS[name]
    line.passed.clear()
    collector = env.new_collector(name)
    collector.prefix, collector.address, collector.certificate = line.left.prefix, line.left.address, "line"
    collector.start()
    with faulted.Replay(env, paths, collector, name, extra=faulted.HASTY, prefix=line.right.prefix) as run:
        time.sleep(0.3)
        calm, line.weather = line.weather, Weather(cut=True)
        time.sleep(1)
        line.weather = calm
        summary = run.finish(300)
    collector.stop()
    for kind, share in (("lost", calm.loss), ("doubled", calm.doubled), ("damaged", calm.damaged)):
        checks.that(line.passed[kind] > 3 or not share, f"{name}: no packet was {kind}: {dict(line.passed)}")
    truth.check(checks, collector, name, name)
    faulted.check_summary(checks, summary, truth.lines, name)
    return f"{name}: {dict(line.passed)}"


def cut_now_and_then(env, checks, truth, collector, name, paths):
    """All connections reset, the listener gone for a while, again and again while a slow replay runs."""
    interruptions = 0
    with proxy.Proxy(collector.port, each(Plan(Fault(bytes_per_s=150_000)))) as between:
        with faulted.Replay(env, paths, between, name, extra=faulted.HASTY) as run:
            while run.running() and interruptions < 10:
                time.sleep(0.3)
                between.refuse()
                between.reset_all() if interruptions % 2 else between.cut_all()
                time.sleep(0.2)
                between.listen()
                interruptions += 1
            summary = run.finish(300)
    checks.that(interruptions >= 3, f"{name}: only {interruptions} interruptions fell into the replay")
    truth.check(checks, collector, name, name)
    faulted.check_summary(checks, summary, truth.lines, name)
    return f"{name}: {interruptions} interruptions, {between.connections} connections"


def test(env, checks, arguments):
    paths = traces.paths(TRACE, env.build)
    seeds = range(200 if arguments.soak else 10)
    names = [*CASES, *(f"random-{seed}" for seed in seeds), "interrupted", *WEATHERS]
    env.make_certificates(agents=names)
    truth = faulted.Truth(env, paths)
    usual, long = (truth, paths), None
    if arguments.soak:
        long_paths = traces.paths(LONG_TRACE, env.build)
        long = faulted.Truth(env, long_paths), long_paths
    if packets.may():
        env.run([env.collector, "ca", "issue", "--dir", env.certs, "--server", "--name", "line", "--san", "IP:10.77.0.1"])
        with packets.Line(Weather(), seed=5) as line:
            for name in WEATHERS:
                print(over_a_line(env, checks, truth, paths, line, name), flush=True)
    else:
        print("no line between two machines: this process may not make network namespaces")
    collector = env.new_collector(extra=["--request-timeout", "10s"]).start()
    tasks = {name: (replay, plan, wanted) for name, (plan, wanted) in CASES.items()}
    for seed in seeds:
        bad = proxy.random_plans(seed, 60_000, calm=0)
        tasks[f"random-{seed}"] = (replay, lambda number, bad=bad: bad(number) if number < 8 else Plan(), {})
    tasks["interrupted"] = (cut_now_and_then,)
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = []
        for number, (name, (function, *rest)) in enumerate(tasks.items()):
            its_truth, its_paths = long if long and number % LONG_EVERY == 0 else usual
            running.append(pool.submit(function, env, checks, its_truth, collector, name, its_paths, *rest))
        for one in concurrent.futures.as_completed(running):
            try:
                print(one.result(), flush=True)
            except harness.Failure as failure:
                checks.that(False, str(failure))
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
