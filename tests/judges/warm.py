#!/usr/bin/env python3
"""The judges for many collectors that differ little (tests/mutate.py): the machines are stored and what is naive is computed once; a fork of this
process judges each collector over copies of the stores, and ends at the first wrong answer.

usage: warm.py --build DIR --machines NAME,...
Prints "ready" when no judge finds a wrong answer of DIR's collector. Then each line of its input is a question, with tabs: a name, the path of a
collector, judges with commas, "fold" when that collector shall compute the history anew. The answer is a line: the name, and what is wrong or nothing.
"""
import collections
import contextlib
import gc
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import harness  # noqa: E402
import judges  # noqa: E402
import web_world  # noqa: E402
import world  # noqa: E402

# a browser for each collector takes too long, and the routes below the pages are judged; counters of a process are those of the process that stored
NOT_WARM = {"judge_pages", "judge_metrics"}
# What takes longer counts as caught: so many times what the unchanged collector took, and at least LEAST_S. A loaded machine takes long.
TIMES_LONGER, LEAST_S = 10, 60


class Wrong(Exception):
    """The first wrong answer."""


class First(harness.Checks):
    """Ends at the first failure."""

    def that(self, condition, message):
        if not condition:
            raise Wrong(message)
        return super().that(condition, message)


class Quiet(harness.Checks):
    """Says nothing: the answers' differences are in World.counts."""

    def that(self, condition, message):
        return bool(condition)


def late(*_):
    raise Wrong("not ended in time")


@contextlib.contextmanager
def asked(env, worlds, collector, checks, fold=False):
    """The worlds with another collector over copies of their stores. fold: whether it computes the history."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warm-", dir=env.folder))
    before, env.collector = env.collector, pathlib.Path(collector)
    kept = [(one, one.collector, one.web, one.checks, one.counts) for one in worlds]
    started = []
    try:
        for one in worlds:
            copy = harness.Collector(env, f"{folder.name}-{one.name}", one.collector.extra)
            copy.store = folder / one.name
            shutil.copytree(one.collector.store, copy.store)
            for path in copy.store.glob("state.db*") if fold else ():
                path.unlink()
            started.append(copy)
            copy.start()
            one.collector, one.web, one.checks, one.counts = copy, web_world.Web(copy), checks, collections.defaultdict(lambda: [set(), 0, 0])
        for one in worlds:
            one.ready()
        yield
    finally:
        for copy in started:
            copy.kill()
        env.collector = before
        for one, *parts in kept:
            one.collector, one.web, one.checks, one.counts = parts
        shutil.rmtree(folder, ignore_errors=True)


def run(worlds, wanted):
    for each in judges.ALL:
        for one in worlds if each.__name__ in wanted and each.__name__ not in NOT_WARM else ():
            each(one)


def wrong_answers(env, worlds, collector, wanted):
    """The names of the answers that judges find wrong."""
    with asked(env, worlds, collector, Quiet()):
        run(worlds, wanted)
        return sorted({answer for one in worlds for answer, (_, _, wrong) in one.counts.items() if wrong})


def judge(env, worlds, collector, wanted, fold):
    """What is wrong first of a collector's answers, or nothing. wanted: names of judges; fold: whether it computes the history."""
    try:
        with asked(env, worlds, collector, First(), fold):
            run(worlds, wanted)
        return ""
    except Exception as failure:  # whatever it is: the collector's answer was not what the judge reads
        return f"{type(failure).__name__}: {failure}" if not isinstance(failure, (Wrong, harness.Failure)) else str(failure) or "failed"


def forked(env, worlds, name, limit_s, *question):
    """Judges in a child, which prints the answer."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGALRM, late)
        signal.alarm(limit_s)
        found = judge(env, worlds, *question)
        os.write(1, f"{name}\t{' '.join(found.split())[:300]}\n".encode())
    except BaseException:
        traceback.print_exc()
        os.write(1, f"{name}\tthe judges ended\n".encode())
    finally:
        os._exit(0)


def test(env, checks, arguments):
    worlds = world.make(env, checks, arguments.machines.split(","))
    names = [one.__name__ for one in judges.ALL if one.__name__ not in NOT_WARM]
    took = {}
    for one in judges.ALL:
        began = time.monotonic()
        for each in worlds if one.__name__ in names else ():
            one(each)
        took[one.__name__] = time.monotonic() - began
    for one in worlds:
        one.collector.stop()
    if checks.failed:
        return
    gc.collect()
    gc.freeze()  # a fork does not write to what it reads
    print("ready", flush=True)
    children = set()
    for line in sys.stdin:
        name, collector, wanted, fold = line.rstrip("\n").split("\t")
        wanted = wanted.split(",") if wanted else names
        limit_s = int(LEAST_S + TIMES_LONGER * sum(took[one] for one in wanted))
        children.add(forked(env, worlds, name, limit_s, collector, wanted, fold == "fold"))
        while children:  # those that have ended
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            children.discard(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    harness.main(test, __doc__, {"machines": ("machines of the first store, with commas", {"required": True})})
