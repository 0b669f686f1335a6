"""Retention: the store stays within its size and age, what is gone stays counted, and index, state and segments agree
whenever the collector is killed in the middle of it.

usage: test_retention.py --build DIR [--soak] [--keep]
"""
import contextlib
import json
import random
import sqlite3
import subprocess

import disk
import harness
import traces

TRACE = "clr-kernel-win8-x64"
LIMIT = 4 << 20
LIMITS = ["--segment-size", "64KiB", "--retain-size", str(LIMIT), "--retain-interval", "20ms"]
# where the collector is killed: calls on the files that a step of retention touches, by their number
KILLS = [("write", "index.db*", 40), ("rename", "kept.db*", 3), ("write", "kept.db*", 20), ("create", "kept.db*", 3),
         ("sync", "index.db*", 3), ("sync", "kept.db*", 3)]


def used(store):
    """Bytes that count: segments, and pages in use of both databases."""
    total = 0
    for file in (store / "segments").glob("*.seg"):
        with contextlib.suppress(FileNotFoundError):  # deleted just now
            total += file.stat().st_size
    for name in ("index.db", "state.db"):
        if (store / name).exists():
            db = sqlite3.connect(store / name)
            pages, free, size = (db.execute(f"PRAGMA {p}").fetchone()[0] for p in ("page_count", "freelist_count", "page_size"))
            total += (pages - free) * size
            db.close()
    return total


def streams(collector):
    return collector.ask_json("hosts")["streams"]


def check_whole(checks, collector, what):
    """Everything that the index names can be read; everything stored is there or counted as deleted."""
    rows = streams(collector)
    ever, gone = sum(r["events"] for r in rows), sum(r["expired_events"] for r in rows)
    checks.equal([r["missing"] for r in rows], [0] * len(rows), f"{what}: missing batches")
    left = sum(r["batches"] - r["expired_batches"] for r in rows)
    db = sqlite3.connect(collector.store / "index.db")
    stored, batches = db.execute("SELECT ifnull(sum(event_count), 0), count(*) FROM batches").fetchone()
    named = {row[0] for row in db.execute("SELECT DISTINCT segment FROM batches")}
    db.close()
    files = {int(f.stem, 16) for f in (collector.store / "segments").glob("*.seg")}
    checks.equal((stored, batches), (ever - gone, left), f"{what}: events and batches in the index")
    checks.that(named <= files, f"{what}: the index names segments {sorted(named - files)} that are deleted")
    read = 0
    for host in {r["host"] for r in rows if r["events"] > r["expired_events"]}:
        read += collector.ask("export", "--host", host, "--format", "jsonl", "--raw").count("\n")
    checks.equal(read, stored, f"{what}: events that can be read")
    return ever, gone


def feed(env, collector, agent, paths, spool):
    env.replay(paths, collector, agent=agent, spool=env.folder / spool, extra=["--batch-events", "500", "--request-bytes", "64KiB"])


def settled(collector):
    harness.wait_until(lambda: used(collector.store) <= LIMIT, "the store to become smaller than its limit", 60,
                       lambda: f": {used(collector.store)} of {LIMIT}, {collector.log()[-800:]}")


def by_size(env, checks, paths):
    collector = env.new_collector("size", LIMITS).start()
    feed(env, collector, "one", paths, "spool-1")
    settled(collector)
    collector.stop()
    ever, gone = check_whole(checks, collector, "by size")
    collector.start()
    checks.that(0 < gone < ever, f"by size: {gone} of {ever} events deleted")
    # the same again, from a fresh spool: known, although deleted
    feed(env, collector, "one", paths, "spool-2")
    settled(collector)
    collector.stop()
    checks.equal(check_whole(checks, collector, "sent again")[0], ever, "events ever stored after the same was sent again")
    balance = collector.ask_json("ledger")
    checks.equal([s["alerts"] for s in balance["streams"]], [[]], "alerts of the ledger after retention")
    kinds = [i["kind"] for i in balance["incidents"]]
    checks.equal(kinds.count("retention"), 1, f"incidents of retention, among {kinds}")
    # the machines' tables lose the rows that only deleted batches described, and no open row
    db = sqlite3.connect(collector.store / "state.db")
    collector.start()
    begin, = db.execute("SELECT begin_utc_ns FROM streams").fetchone()
    harness.wait_until(lambda: db.execute("SELECT count(*) FROM threads WHERE end_utc_ns < (SELECT begin_utc_ns FROM streams)"
                                          ).fetchone()[0] == 0, "the tables to lose what is too old", 60)
    collector.stop()
    open_rows, = db.execute("SELECT count(*) FROM processes WHERE end_utc_ns = 9223372036854775807").fetchone()
    db.close()
    checks.that(open_rows > 10, f"{open_rows} open processes are left, from {begin} on")
    checks.that("alone take" not in collector.log(), f"a limit above the databases: {collector.log()[-500:]}")
    print(f"by size: {gone} of {ever} events deleted, {used(collector.store)} of {LIMIT} bytes in use")

    # a lost index is built again, with the definitions of deleted segments; so is the state
    for name in ("index.db", "index.db-wal", "index.db-shm", "state.db"):
        (collector.store / name).unlink(missing_ok=True)
    collector.start()
    settled(collector)
    collector.stop()
    again = check_whole(checks, collector, "built again")
    checks.equal(again[0], ever, "events ever stored, with an index built again")
    ps = env.run([env.collector, "ps", "--store", collector.store, "--at", "end", "--json"])
    checks.that(len(json.loads(ps.stdout)["processes"]) > 10 and not ps.stderr, f"the state built again: {ps.stderr}")


def by_age(env, checks, paths):
    collector = env.new_collector("age", ["--segment-size", "64KiB", "--retain-age", "3s", "--retain-interval", "50ms"]).start()
    feed(env, collector, "two", paths, "spool-3")
    harness.wait_until(lambda: "retention deleted " in collector.log(), "a line of the log on what was deleted", 120, collector.log)
    harness.wait_until(lambda: all(r["expired_batches"] == r["batches"] for r in streams(collector)),
                       "all that is old to be deleted, the segment that was open included", 60)
    collector.stop()
    check_whole(checks, collector, "by age")
    checks.equal(len(list((collector.store / "segments").glob("*.seg"))), 1, "segments that are left")


def too_small(env, checks, paths):
    """A limit that the databases alone exceed: the log has a line on it beside what was deleted."""
    collector = env.new_collector("small", ["--segment-size", "64KiB", "--retain-size", "100KiB", "--retain-interval", "50ms"]).start()
    feed(env, collector, "five", paths, "spool-5")
    said = "index.db and state.db alone take "
    harness.wait_until(lambda: said in collector.log(), "a line of the log on the databases", 60, collector.log)
    collector.stop()
    check_whole(checks, collector, "a limit below the databases")


def reload(env, checks, paths):
    config = env.folder / "collector.yaml"
    config.write_text("retain-interval: 50ms\nsegment-size: 64KiB\n")
    collector = env.new_collector("reload", ["--config", config]).start()
    feed(env, collector, "three", paths, "spool-4")
    checks.equal([r["expired_batches"] for r in streams(collector)], [0], "deleted without a limit")
    config.write_text("retain-interval: 50ms\nsegment-size: 128KiB\nretain-size: 600KiB\n")
    collector.process.send_signal(1)
    harness.wait_until(lambda: streams(collector)[0]["expired_batches"] > 0, "the limit to be read again at SIGHUP", 60, collector.log)
    harness.wait_until(lambda: "segment-size" in collector.log(), "a word on what needs a restart", 60, collector.log)
    config.write_text("retain-size: [\n")
    collector.process.send_signal(1)
    harness.wait_until(lambda: "collector.yaml" in collector.log(), "a word on the file that cannot be read", 60, collector.log)
    collector.stop()
    check_whole(checks, collector, "after reloads")


def kills(env, checks, paths, rounds):
    rng = random.Random(11)
    killed = 0
    for n in range(rounds):
        collector = env.new_collector(f"kills-{n}", LIMITS)
        call, files, most = KILLS[n % len(KILLS)]
        agent = f"killed-{n}"
        faults = disk.Faults(env.build, collector.store, f"{call}:kill@{rng.randint(1, most)}",
                             seed=n, files=files, begin=False)
        collector.environment = faults.environment()
        collector.start()
        faults.begin()
        command = env.replay_command(paths, collector, agent=agent, spool=env.folder / f"spool-{agent}", extra=["--batch-events", "500", "--request-bytes", "64KiB"])
        replay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            collector.process.wait(timeout=60)
            killed += 1
        except subprocess.TimeoutExpired:
            checks.that(False, f"round {n}: {call} on {files} killed nothing")
        collector.kill()
        collector.environment = None
        collector.start()
        checks.equal(replay.wait(timeout=300), 0, f"round {n}: the replay")
        settled(collector)
        collector.stop()
        check_whole(checks, collector, f"killed at {call} of {files}")
    print(f"{killed} kills in the middle of retention; index, segments and counts agreed after each")


def test(env, checks, arguments):
    paths = traces.paths(TRACE, env.build)
    rounds = 48 if arguments.soak else 3
    env.make_certificates(agents=["one", "two", "three", "five", *(f"killed-{n}" for n in range(rounds))])
    by_size(env, checks, paths)
    by_age(env, checks, paths)
    too_small(env, checks, paths)
    reload(env, checks, paths)
    kills(env, checks, paths, rounds)


if __name__ == "__main__":
    harness.main(test, __doc__)
