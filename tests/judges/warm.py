#!/usr/bin/env python3
"""The judges for many collectors that differ little (tests/mutate.py): the machines are stored and judged once; a fork of this process asks each
collector, over copies of the stores, and ends at the first wrong answer.

What the judges ask DIR's collector is recorded, with its answers. Another collector is asked the same; a judge computes only when an answer is another
one, since it found those of DIR's collector right. A judge whose answers change from run to run, or that asks other collectors than those of the two
worlds, is always asked in full.

usage: warm.py --build DIR --machines NAME,... [--fold]
Prints what it recorded, and "ready" when no judge finds a wrong answer of DIR's collector. Then each line of its input is a question, with tabs: a name,
the path of a collector, judges with commas that are asked first, "fold" when that collector shall compute the history anew (only with --fold). The answer
is a line: the name, and what is wrong or nothing.
"""
import collections
import contextlib
import gc
import hashlib
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
# What takes longer counts as caught: a question LEAST_S, all of them that and so many times what the unchanged collector took. A loaded machine takes long.
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
            env.collectors.append(copy)
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
            env.collectors.remove(copy)
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


class Answers:
    """What the judges ask the collectors of the worlds. Each question is a key: a command or a request, without the paths of program and store."""

    def __init__(self, env, worlds):
        self.env, self.worlds, self.judge, self.ask_web = env, worlds, None, web_world.Web.ask
        self.run_command = env.run
        self.recorded = collections.defaultdict(dict)  # (judge, world) -> {key: the answer's hash}
        self.in_full = {False: set(), True: set()}  # whether the history is computed anew -> judges
        self.unsteady = {False: set(), True: set()}  # keys whose answers change from run to run
        self.fetched, self.same, self.folds = {}, set(), None  # of one collector: answers, keys whose answers equal the recorded ones
        env.run = self.run
        web_world.Web.ask = lambda web, *request: self.ask(web, *request)

    def run(self, command, check=True, **options):
        """In place of Env.run."""
        words = [str(word) for word in command]
        world = next((one for one in self.worlds if str(one.collector.store) in words), None)
        if not self.judge or words[0] != str(self.env.collector):
            return self.run_command(command, check, **options)
        if not world or options:
            self.in_full[False].add(self.judge)
            self.in_full[True].add(self.judge)
            return self.run_command(command, check, **options)
        done = self.known(("run", world.name, tuple(None if word == str(world.collector.store) else word for word in words[1:])))
        if check and done.returncode:
            raise harness.Failure(f"{' '.join(words)}\nended with {done.returncode}: {(done.stderr or '')[-3000:]}")
        return done

    def ask(self, web, path, method="GET", body=None, headers=None):
        """In place of Web.ask."""
        world = next((one for one in self.worlds if one.collector is web.collector), None)
        if not self.judge or not world:
            return self.ask_web(web, path, method, body, headers)
        return self.known(("ask", world.name, path, method, body, tuple((headers or {}).items())))

    def known(self, key):
        if self.folds is None:
            answer = self.fetch(key)
            found = self.recorded[self.judge, key[1]].setdefault(key, self.digest(key, answer))
            if found != self.digest(key, answer):
                self.unsteady[False].add(key)
                self.unsteady[True].add(key)
            return answer
        if key in self.unsteady[self.folds] or key not in self.recorded[self.judge, key[1]]:
            return self.fetch(key)
        if key not in self.fetched:
            self.fetched[key] = self.fetch(key)
        return self.fetched[key]

    def fetch(self, key):
        world = next(one for one in self.worlds if one.name == key[1])
        if key[0] == "ask":
            return self.ask_web(world.web, *key[2:5], dict(key[5]), LEAST_S)
        return self.run_command([self.env.collector, *(world.collector.store if word is None else word for word in key[2])], False, LEAST_S)

    def digest(self, key, answer):
        """Of an answer, without its headers, and with other words for the store's path."""
        store = next(str(one.collector.store) for one in self.worlds if one.name == key[1])
        texts = (answer[0], answer[2]) if key[0] == "ask" else (answer.returncode, answer.stdout, answer.stderr)
        return hashlib.sha256(repr(texts).replace(store, "STORE").encode()).digest()

    def differ(self, name, one, every=False):
        """The questions of a judge about a world that are answered otherwise than recorded: the first one, or every one."""
        self.fetched.clear()
        found = []
        for key, was in self.recorded[name, one.name].items():
            if key in self.same or key in self.unsteady[self.folds] and not every:
                continue
            answer = self.fetched[key] = self.fetch(key)
            if self.digest(key, answer) == was:
                self.same.add(key)
            else:
                found.append(key)
                if not every:
                    break
        return found

    def in_turn(self, first):
        """The names of the judges: those that are asked first, then those that compare answers, then those that are asked in full."""
        names = [one.__name__ for one in judges.ALL if one.__name__ not in NOT_WARM]
        return sorted(names, key=lambda name: (name not in first, name in self.in_full[self.folds]))

    def compare(self, first):
        """Asks all judges' questions, and a judge where an answer is another one; it raises Wrong then."""
        of_name = {one.__name__: one for one in judges.ALL}
        for name in self.in_turn(first):
            for one in self.worlds:
                if name in self.in_full[self.folds] or self.differ(name, one):
                    self.judge = name
                    of_name[name](one)
                    self.judge = None

    def learn(self, folds):
        """Asks the unchanged collector again, over copies of the stores: what it answers otherwise this time changes from run to run. Raises Wrong when a
        judge finds such an answer wrong."""
        self.begin(folds)
        with asked(self.env, self.worlds, self.env.collector, First(), folds):
            for name in self.in_turn(()):
                changed = [key for one in self.worlds for key in self.differ(name, one, True)]
                self.unsteady[folds].update(changed)
                self.in_full[folds] |= {name} if changed else set()
            self.compare(())

    def begin(self, folds):
        """Another collector is asked from now on."""
        self.folds = folds
        self.fetched.clear()
        self.same.clear()


def judge(env, worlds, answers, collector, first, folds):
    """What is wrong first of a collector's answers, or nothing. first: names of judges; folds: whether it computes the history."""
    try:
        answers.begin(folds)
        with asked(env, worlds, collector, First(), folds):
            answers.compare(first)
        return ""
    except Exception as failure:  # whatever it is: the collector's answer was not what the judge reads
        return f"{type(failure).__name__}: {failure}" if not isinstance(failure, (Wrong, harness.Failure)) else str(failure) or "failed"


def forked(name, limit_s, *question):
    """Judges in a child, which prints the answer."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGALRM, late)
        signal.alarm(limit_s)
        found = judge(*question)
        os.write(1, f"{name}\t{' '.join(found.split())[:300]}\n".encode())
    except BaseException:
        traceback.print_exc()
        os.write(1, f"{name}\tthe judges ended\n".encode())
    finally:
        os._exit(0)


def test(env, checks, arguments):
    worlds = world.make(env, checks, arguments.machines.split(","))
    answers, began = Answers(env, worlds), time.monotonic()
    for one in judges.ALL:
        answers.judge = one.__name__
        for each in worlds if one.__name__ not in NOT_WARM else ():
            one(each)
    answers.judge = None
    for one in worlds:
        one.collector.stop()
    try:
        for folds in () if checks.failed else (False, True) if arguments.fold else (False,):
            answers.learn(folds)
    except Wrong as wrong:
        checks.that(False, f"over a copy of the store: {wrong}")
    took = time.monotonic() - began
    if checks.failed:
        return
    questions = {key for of in answers.recorded.values() for key in of}
    print(f"the judges ask {len(questions)} questions; asked in full: {', '.join(sorted(answers.in_full[False]))}"
          + (f"; with a new history: {', '.join(sorted(answers.in_full[True]))}" if arguments.fold else ""), flush=True)
    gc.collect()
    gc.freeze()  # a fork does not write to what it reads
    print("ready", flush=True)
    children = set()
    for line in sys.stdin:
        name, collector, first, fold = line.rstrip("\n").split("\t")
        children.add(forked(name, int(LEAST_S + TIMES_LONGER * took), env, worlds, answers, collector, first.split(","), fold == "fold"))
        while children:  # those that have ended
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            children.discard(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    harness.main(test, __doc__, {"machines": ("machines of the first store, with commas", {"required": True}),
                                 "fold": ("there will be questions with \"fold\"", {"action": "store_true"})})
