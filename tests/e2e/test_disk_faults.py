"""Disks that are full, that fail to sync, that write less than they were asked to, that lose power: under the collector's store
and under the agent's spool. Whatever happens, when the disk works again every event is in the store once.

- full: a small file system (tmpfs) where this process may mount one, otherwise the preload library's ENOSPC;
- failing calls, and a kill in the middle of the n-th write, sync, ...: the preload library (faults.c);
- power cuts: what was never synced is undone after a kill -9, so an acknowledgement that came too early loses events.

The short form samples; --soak goes through every call's number and many seeds.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 4: A failing disk loses no event of a file and duplicates none. | 38 replays: failing syncs, short and failing writes, full
#   disks, power cuts | 2026-11-23
# - Delivery 5: A kill while a full disk defers tombstones loses no tombstone. | each evicted batch is named with its events | 2026-11-23
import collections
import concurrent.futures
import json
import random
import re
import socket
import ssl
import time

import disk
import faulted
import harness
import proxy
import receiver
import test_delivery
import test_ledger
import test_live
import traces
import uploads

TRACE, PACED = "shutdown-win10", "clr-kernel-win8-x64"
AT_A_TIME = 4

# Rules for the whole length of a replay, or until the calls that they name are over.
RULES = [
    "sync:EIO@2-4",
    "sync:EIO%20",
    "write:short%30",
    "write:ENOSPC@5-40",
    "write:ENOSPC%10",
    "write:EIO%5;sync:EIO%5;truncate:EIO%10",
    "create:ENOSPC%20;rename:EIO%20",
]
CALLS = ["write", "sync", "truncate", "create", "rename"]


class Case:
    """A replay of the trace with a collector, a store and a spool of its own."""

    def __init__(self, env, truth, paths, name):
        self.env, self.truth, self.paths, self.name = env, truth, paths, name
        self.collector = harness.Collector(env, name)
        env.collectors.append(self.collector)
        self.collector.store = env.folder / f"{name}-store" / "store"
        self.collector.store.parent.mkdir()
        self.spool = env.folder / f"{name}-spool" / "spool"
        self.spool.parent.mkdir()
        self.run = self.line = None

    def collector_up(self, faults=None):
        """Starts the collector, with or without faults. With faults it may end immediately. Then it is started again with another
        seed, so that the disk fails at other calls; 50 times at the most."""
        for attempt in range(50):
            self.collector.environment = faults.environment() if faults else None
            try:
                return self.collector.start()
            except harness.Failure:
                self.collector.kill()
                if not faults or attempt == 49:
                    raise
                faults.seed += 1000

    def agent_up(self, faults=None, slow=False):
        """Starts the replay; slow: over a line that makes it last a second and a half."""
        if slow and not self.line:
            self.line = proxy.Proxy(self.collector.port, lambda number: proxy.Plan(proxy.Fault(bytes_per_s=400_000))).__enter__()
        self.run = faulted.Replay(self.env, self.paths, self.line or self.collector, self.name, spool=self.spool,
                                  extra=faulted.HASTY, environment=faults.environment() if faults else None)
        return self.run.start()

    def close(self, checks, what):
        """Everything works again: the end must be good, and complete. A replay that gave up is taken up again."""
        if self.run.wait(120) != 0:
            self.agent_up()
        summary = self.run.finish(120)
        self.truth.check(checks, self.collector, self.name, what)
        faulted.check_summary(checks, summary, self.truth.lines, what)
        self.collector.stop()

    def abandon(self):
        if self.run:
            self.run.kill()
        if self.line:
            self.line.__exit__()
        self.collector.kill()


def full_store(case, checks, mounts):
    """The collector's disk is full in the middle of a replay, and has space again."""
    case.collector.extra += ["--web", "127.0.0.1:0"]
    if mounts:
        with disk.Small(case.collector.store.parent, 24) as small:
            case.collector_up()
            hog = small.fill(leave_bytes=60_000)
            case.agent_up()
            full_for_a_while(case, checks)
            # it is killed and comes back while there is no space: it may refuse to start, but loses nothing
            case.collector.kill()
            try:
                case.collector.start()
            except harness.Failure:
                case.collector.kill()
            time.sleep(0.5)
            hog.unlink()
            if not case.collector.process or case.collector.process.poll() is not None:
                case.collector_up()
            case.close(checks, case.name)
    else:
        faults = disk.Faults(case.env.build, case.collector.store, "write:ENOSPC@40-;create:ENOSPC@1-", begin=False)
        case.collector_up(faults)
        faults.begin()
        case.agent_up()
        full_for_a_while(case, checks)
        faults.end()
        case.close(checks, case.name)
        log = case.collector.log()
        checks.equal([log.count(line) for line in ("the disk of the store is full", "the disk of the store has space again")], [1, 1],
                     f"{case.name}: the log says once when it is full and when not any more")


def refused_before_the_body(case, checks):
    """An upload of 8 MiB of which 32 KiB come: the answer comes without the rest. In between, the collector tries an upload, and the
    client is one of those whose body it reads; so several connections may be needed."""
    context = ssl.create_default_context(cafile=str(case.env.certs / "ca.crt"))
    context.load_cert_chain(case.env.certs / f"{case.name}.crt", case.env.certs / f"{case.name}.key")
    answer = ""
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", case.collector.port), timeout=10) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(f"POST {uploads.UPLOAD_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-etwagent-batches\r\n"
                               f"Content-Length: {8 << 20}\r\n\r\n".encode() + bytes(32 << 10))
            connection.settimeout(0.7)
            try:
                while piece := connection.recv(4096):
                    answer += piece.decode()
            except TimeoutError:
                answer = ""
            except (ssl.SSLEOFError, ConnectionResetError):
                pass  # the collector closes without TLS's own end
        if answer:
            break
    checks.that(re.match(r"HTTP/1.1 503 .*\r\nRetry-After: [1-9]\d?\r\n.*\r\n\r\nthe disk of the store is full", answer, re.S),
                f"{case.name}: the answer to a part of a body: {answer!r}")
    counted = test_delivery.metrics(case.collector)
    checks.that(counted["etwcollector_ingest_refused_disk_full_total"] >= 1, f"{case.name}: refused uploads are counted")


def full_for_a_while(case, checks):
    time.sleep(3)
    checks.that(case.collector.process.poll() is None, f"{case.name}: the collector ended: {case.collector.log()}")
    checks.that(case.run.running(), f"{case.name}: the replay ended although the collector's disk is full: "
                f"{case.run.process.returncode} {case.run.messages()}")
    log = case.collector.log()
    checks.that("No space left on device" in log, f"{case.name}: the log has the reason: {log}")
    lines = log.count("the disk of the store is full (No space left on device)")
    checks.that(1 <= lines <= 2, f"{case.name}: lines of the log about it: {lines}, expected 1, or 2 when a small batch fitted: {log}")
    refused_before_the_body(case, checks)
    there = case.truth.stored(case.collector, case.name)[0]
    checks.that(there < case.truth.lines, f"{case.name}: the disk was never full: {there} events are stored")


def quota_of_store(case, checks):
    """The quota of the collector's user is reached: log, answer and agent name it. When there is room again, the history is folded soon
    (unit.state_worker: at once, also when it met the quota itself)."""
    faults = disk.Faults(case.env.build, case.collector.store, "write:EDQUOT@40-;create:EDQUOT@1-", begin=False)
    case.collector_up(faults)
    faults.begin()
    case.agent_up()
    reached = "the disk quota of the collector's user is reached"
    receiver.sleep_until(lambda: f"{reached} (Disk quota exceeded)" in case.collector.log(), 20)
    faults.end()
    again = "is below its disk quota again"
    receiver.sleep_until(lambda: again in case.collector.log(), 20)
    since = time.monotonic()
    case.env.run([case.env.collector, "ledger", "--store", case.collector.store, "--wait", "30s"], check=False)
    took = time.monotonic() - since
    checks.that(took < 5, f"{case.name}: the history was folded {took:.1f} s after there was room again")
    log = case.collector.log()
    checks.equal([log.count(line) for line in (f"{reached} (", again, "is full")], [1, 1, 0], f"{case.name}: lines of the log about the quota: {log}")
    checks.that(reached in case.run.messages(), f"{case.name}: the agent names the quota: {case.run.messages()[-600:]}")
    case.close(checks, case.name)
    return faults.happened()


def full_spool(case, checks, mounts):
    """The agent's disk is full, first in the middle of a replay, and has space again."""
    case.collector_up()
    if mounts:
        with disk.Small(case.spool.parent, 2) as small:
            hog = small.fill(leave_bytes=60_000)
            case.agent_up()
            time.sleep(2)
            hog.unlink()
            case.close(checks, case.name)
    else:
        faults = disk.Faults(case.env.build, case.spool, "write:ENOSPC@9-;create:ENOSPC@3-")
        case.agent_up(faults)
        time.sleep(2)
        checks.that(faults.happened(), f"{case.name}: no call failed")
        faults.end()
        case.close(checks, case.name)


def evicting_spool(case, checks):
    """A live session whose disk is full while no collector answers. The spool evicts whole segments, and the disk has no space even for
    their tombstones. The tombstones are written in the same run, as soon as the disk has space."""
    paths = traces.paths(PACED, case.env.build)
    faults = disk.Faults(case.env.build, case.spool, "write:ENOSPC@1-", begin=False)
    case.collector_up()
    with proxy.Proxy(case.collector.port, lambda _: proxy.Plan(refuse=True)) as line:
        case.run = faulted.Replay(case.env, paths, line, case.name, spool=case.spool, environment=faults.environment(),
                                  extra=[*faulted.HASTY, "--live", "--speed", "2x", "--spool-bytes", "1MiB"])
        with case.run as run:
            receiver.sleep_until(lambda: run.spool_bytes() > 600_000 or not run.running(), 30)
            faults.begin()
            receiver.sleep_until(lambda: run.spool_bytes() < 300_000 or not run.running(), 30)
            time.sleep(0.5)
            faults.end()
            line.plan = lambda _: proxy.Plan()
            run.wait(120)
    summary = json.loads(run.output)
    ledger, what = summary["ledger"], case.name
    checks.that(faults.happened()["write ENOSPC"] > 50 and ledger["events_evicted_size"] > 5000, f"{what}: nothing was evicted: {ledger}")
    checks.equal((ledger["events_acknowledged"] + ledger["events_evicted_size"], summary["ledger_balanced"]),
                 (ledger["events_batched"] + ledger["events_synthesised"], True), f"{what}: acknowledged and evicted are all, balanced")
    stream, = test_ledger.ledger(case.collector, case.name)["streams"]
    test_live.check_sound(checks, stream, what)
    checks.equal((stream["stored_events"], stream["missing_batches"], sum(b["events"] for b in stream["gaps"])),
                 (ledger["events_acknowledged"], 0, ledger["events_evicted_size"]), f"{what}: stored, batches missing, named by tombstones")
    case.collector.stop()
    return faults.happened()


def killed_while_owing(case, checks):
    """The same disk, which is full for good; kill -9 while tombstones are owed, and a next run that finds it full as well and is killed,
    too. In the end each number is stored or named, with the events that it held."""
    paths = traces.paths(PACED, case.env.build)
    faults = disk.Faults(case.env.build, case.spool, "write:full@1-", begin=False)
    case.collector_up()
    with proxy.Proxy(case.collector.port, lambda _: proxy.Plan(refuse=True)) as line:
        for turn in range(2):
            case.run = faulted.Replay(case.env, paths, line, case.name, spool=case.spool, environment=faults.environment(),
                                      extra=[*faulted.HASTY, "--live", "--speed", "2x", "--spool-bytes", "1MiB"])
            with case.run as run:
                if not turn:
                    receiver.sleep_until(lambda: run.spool_bytes() > 600_000 or not run.running(), 30)
                    faults.begin()
                    receiver.sleep_until(lambda: run.spool_bytes() < 300_000 or not run.running(), 30)
                time.sleep(1.5)
                checks.that(run.running(), f"{case.name}: it ended before it could be killed: {run.messages()}")
                run.kill()
    faults.end()
    done = case.env.run([case.env.agent, "spool", "drain", "--spool", case.spool, "--collector", case.collector.url, "--cert",
                         case.env.certs / f"{case.name}.crt", "--key", case.env.certs / f"{case.name}.key", "--ca",
                         case.env.certs / "ca.crt"])
    checks.that("0 are left" in done.stdout, f"{case.name}: drain: {done.stdout} {done.stderr}")
    streams, owed = test_ledger.ledger(case.collector, case.name)["streams"], 0
    for stream in streams:
        gaps = stream["gaps"]
        checks.equal(stream["missing_batches"], 0, f"{case.name}: numbers without batch and tombstone")
        full = [b for b in gaps if b["cause"] == "events_evicted_size"]
        # the second run closes the first one's stream: its closing batch has no events, and may be dropped, too
        closings = sum(100 * b["batches"] - b["events"] for b in full)
        checks.that(closings in (0, 100), f"{case.name}: events that tombstones name: {full}")
        # the batches that were in the encoders when the agent was killed; no tombstone has their counts
        checks.that(sum(b["batches"] for b in gaps if b not in full) <= 8, f"{case.name}: holes without counts: {gaps}")
        owed += sum(b["batches"] for b in full)
    checks.that(len(streams) == 2 and owed > 100, f"{case.name}: {len(streams)} streams, {owed} batches were evicted")
    case.collector.stop()
    return faults.happened()


def failing_store(case, checks, rules, seed):
    faults = disk.Faults(case.env.build, case.collector.store, rules, seed, begin=False)
    case.collector_up(faults)
    faults.begin()
    case.agent_up(slow=True)
    deadline = time.monotonic() + 4
    while case.run.running() and time.monotonic() < deadline:
        if case.collector.process.poll() is not None:  # it may give up; then it is started again
            case.collector_up(faults)
        time.sleep(0.05)
    faults.end()
    if case.collector.process.poll() is not None:
        case.collector_up()
    case.close(checks, f"{case.name}: {rules} seed {seed}")
    return faults.happened()


def failing_spool(case, checks, rules, seed):
    faults = disk.Faults(case.env.build, case.spool, rules, seed)
    case.collector_up()
    case.agent_up(faults)
    receiver.sleep_until(lambda: not case.run.running(), 4)
    faults.end()
    case.close(checks, f"{case.name}: {rules} seed {seed}")
    return faults.happened()


def killed_store(case, checks, call, number):
    """The collector is killed at its n-th such call, a write half done; the next one goes on."""
    faults = disk.Faults(case.env.build, case.collector.store, f"{call}:kill@{number}", number)
    case.collector.environment = faults.environment()
    try:
        case.collector.start()
    except harness.Failure:  # so early
        case.collector.process = None
        case.collector_up()
    case.agent_up()
    receiver.sleep_until(lambda: case.collector.process.poll() is not None or not case.run.running(), 20)
    if case.collector.process.poll() is None:
        try:
            case.collector.stop()  # there are calls that it makes only now
        except harness.Failure:
            checks.that(faults.happened(), f"{case.name}: the collector did not stop: {case.collector.log()}")
    case.collector_up()
    case.close(checks, f"{case.name}: killed at {call} {number}")
    return faults.happened()


def killed_spool(case, checks, call, number):
    faults = disk.Faults(case.env.build, case.spool, f"{call}:kill@{number}", number)
    case.collector_up()
    case.agent_up(faults)
    receiver.sleep_until(lambda: not case.run.running(), 20)
    case.close(checks, f"{case.name}: killed at {call} {number}")
    return faults.happened()


def cut_store(case, checks, seed):
    """The collector's machine loses power while batches come in; then again."""
    rng, undone = random.Random(seed), 0
    faults = disk.Faults(case.env.build, case.collector.store, undo=True)
    case.collector_up(faults)
    case.agent_up(slow=True)
    for turn in range(3):
        time.sleep(rng.uniform(0.1, 0.4))
        case.collector.kill()
        undone += faults.power_cut(rng if turn % 2 else None)
        for shared in case.collector.store.glob("**/*-shm"):  # memory, not disk
            shared.unlink()
        case.collector_up(faults)
    case.close(checks, f"{case.name}: power cut, seed {seed}")
    return {"write undone": undone}


def cut_spool(case, checks, seed):
    """The agent's machine loses power; the replay is taken up again."""
    rng, undone = random.Random(seed), 0
    faults = disk.Faults(case.env.build, case.spool, undo=True)
    case.collector_up()
    for turn in range(3):
        case.agent_up(faults, slow=True)
        receiver.sleep_until(lambda: not case.run.running(), rng.uniform(0.05, 0.4))
        case.run.kill()
        undone += faults.power_cut(rng if turn % 2 else None)
    case.agent_up()
    case.close(checks, f"{case.name}: power cut, seed {seed}")
    return {"write undone": undone}


def test(env, checks, arguments):
    soak = arguments.soak
    paths = traces.paths(TRACE, env.build)
    mounts = disk.may_mount(env.folder)
    tasks = {}
    for kind in ([True, False] if mounts else [False]):
        name = "mounted" if kind else "preload"
        tasks |= {f"full-store-{name}": (full_store, kind), f"full-spool-{name}": (full_spool, kind)}
    tasks |= {"quota-store": (quota_of_store,), "evicting-spool": (evicting_spool,), "killed-while-owing": (killed_while_owing,)}
    for n, rules in enumerate(RULES):
        for seed in range(20 if soak else 1):
            tasks[f"failing-store-{n}-{seed}"] = (failing_store, rules, seed)
            tasks[f"failing-spool-{n}-{seed}"] = (failing_spool, rules, seed)
    for call in CALLS:
        for number in (range(1, 60) if soak else (2, 7) if call in ("write", "sync") else (1,)):
            tasks[f"killed-store-{call}-{number}"] = (killed_store, call, number)
            tasks[f"killed-spool-{call}-{number}"] = (killed_spool, call, number)
    for seed in range(40 if soak else 2):
        tasks[f"cut-store-{seed}"] = (cut_store, seed)
        tasks[f"cut-spool-{seed}"] = (cut_spool, seed)
    env.make_certificates(agents=tasks)
    truth = faulted.Truth(env, paths)

    def one(name):
        function, *rest = tasks[name]
        case = Case(env, truth, paths, name)
        try:
            return function(case, checks, *rest)
        finally:
            case.abandon()

    happened = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = {pool.submit(one, name): name for name in tasks}
        for done in concurrent.futures.as_completed(running):
            try:
                happened.update(done.result() or {})
            except (harness.Failure, OSError) as failure:
                checks.that(False, f"{running[done]}: {failure}")
    for kind in ("sync EIO", "write short", "write ENOSPC", "write EDQUOT", "write kill", "sync kill", "write undone"):
        checks.that(happened[kind], f"{kind} never happened")
    print(f"{len(tasks)} replays on bad disks ({'with' if mounts else 'without'} small file systems): {dict(happened)}")


if __name__ == "__main__":
    harness.main(test, __doc__)
