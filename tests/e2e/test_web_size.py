"""The dashboard of a large fleet: the time until a page is painted, and until what one does is shown, as figures. The short form
has some hundred machines; --soak has 10,000 with 20 million stored events, then with 100 million.

Every machine sends a batch of its own, at a time of its own: one batch of a replay, whose stream and clock are changed. They come
by way of one certificate and get their names in the store's tables afterwards, so that ten thousand certificates are not made.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 7: The pages of a large fleet stay fast. | [sizing.md](../reference/sizing.md) has the times | 2026-11-22
import json
import re
import sqlite3
import struct
import subprocess
import time

import harness
import receiver
import test_dashboard
import test_ledger
import test_tracegen
import uploads
import web_world

SHORT = (300, 0, 10)  # machines, events at least, milliseconds of a machine's trace
SOAK = ((10_000, 20_000_000, 10), (10_000, 100_000_000, 340))
STEP_NS = 5_000_000  # between two machines' beginnings
# milliseconds that a page and an interaction may take on a machine that has other work, too; what was measured is printed
PAINT_MS, ACT_MS = 30_000, 30_000
STREAM_FIELD = 2
CLOCK_FIELD, SOURCE_FIXED_FIELDS, PAIR_UTC_FIELD = 5, (6, 9), 2


def one_batch(env, trace):
    """The one batch that a replay's events fit into, without the closing one."""
    kept = []

    def take(exchange):
        exchange.read_body()
        kept.extend(uploads.batches(exchange.body))
        exchange.acknowledge(exchange.heads())

    with receiver.Receiver(env.certs, take) as fake:
        env.replay([trace], fake, agent="first", spool=env.folder / "spool", extra=["--batch-events", 200_000])
    batches = {uploads.Head(batch).number: batch for batch in kept}
    if list(batches) != [1, 2]:
        raise harness.Failure(f"the replay made the batches {list(batches)}, expected one of events and the closing one")
    return batches[1]


def moved(batch, stream, by_ns):
    """The batch as another stream's, so much later."""
    def pair(number, value):
        return struct.pack("<q", struct.unpack("<q", value)[0] + by_ns) if number == PAIR_UTC_FIELD else value

    def source(number, value):
        return uploads.rewritten(value, pair, (1, 2)) if number == CLOCK_FIELD else value

    def whole(number, value):
        if number == STREAM_FIELD:
            return stream
        return uploads.rewritten(value, source, SOURCE_FIXED_FIELDS) if number == uploads.SOURCES else value
    return uploads.rewritten(batch, whole, uploads.BATCH_FIXED)


def folded(target):
    db = sqlite3.connect(f"file:{target.store / 'state.db'}?mode=ro", uri=True)
    try:
        return db.execute("SELECT count(DISTINCT stream) FROM processes").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet, or being made
        return 0
    finally:
        db.close()


def rename(folder):
    for name, column, stream in (("index.db", "agent", "stream"), ("state.db", "host", "id")):
        db = sqlite3.connect(folder / name)
        ids = [row[0] for row in db.execute(f"SELECT {stream} FROM streams")]
        db.executemany(f"UPDATE streams SET {column} = ? WHERE {stream} = ?", [(f"big-{struct.unpack('>QQ', i)[1]:05d}", i) for i in ids])
        db.commit()
        db.close()


def measure(env, checks, machines, wanted, milliseconds):
    name = f"{machines}-{wanted}"
    trace, _ = test_tracegen.generate(env.build, env.folder, f"small-{milliseconds}", "--preset", "office", "--duration-ms", str(milliseconds), "--seed", "5")
    batch = one_batch(env, trace)
    each = uploads.Head(batch).event_count
    machines = max(machines, -(-wanted // each))
    target = web_world.collector(env, name)
    begin = time.monotonic()
    copies = (moved(batch, struct.pack(">QQ", 1, i), STEP_NS * i) for i in range(machines))
    test_ledger.upload(env, target, "first", copies, at_once=1, timeout_s=120)
    harness.wait_until(lambda: folded(target) == machines, "the history", 1800, lambda: f": {folded(target)} of {machines}")
    print(f"    {machines} machines, {machines * each} events: {time.monotonic() - begin:.0f} s until they were stored and folded")
    target.stop()
    rename(target.store)
    target.start()
    web = web_world.Web(target)
    harness.wait_until(lambda: web.ask("/api/v1/fleet")[0] == 200, "the fleet", 120)
    fleet = web.get("fleet")
    checks.equal((fleet["hosts"], fleet["events"]), (machines, machines * each), "machines and events")
    last = f"big-{machines - 1:05d}"
    for path, params in (("fleet", {}), ("hosts", {"limit": 200}), ("hosts", {"q": "big-0012"}), ("hosts", {"sort": "events", "descending": 1, "limit": 200}),
                         ("classes", {"limit": 10000}), ("events", {}), ("events", {"class_": "Thread/CSwitch"}), ("events", {"host": "big-00077"})):
        begin = time.monotonic()
        answer = web.get(path, **params)
        print(f"    /api/v1/{path} {json.dumps(params)}: {1000 * (time.monotonic() - begin):.0f} ms")
        checks.that(path == "fleet" or answer["items"], f"{path} {params}: nothing")
        if path == "events":
            checks.equal(answer["items"][0]["host"], params.get("host", last), f"{path} {params}: whose event is the newest")
            checks.equal(len(answer["items"]), 100, f"{path} {params}: events")
    checks.equal([r["host"] for r in web.get("hosts", q="big-0012")["items"]], [f"big-{i:05d}" for i in range(120, 130)], "a search for machines")
    world = env.folder / "world.json"
    world.write_text(json.dumps({"url": web.address + "/", "chromium": test_dashboard.browser(), "first": "big-00001", "last": last, "some": "big-0012"}))
    done = subprocess.run(["node", test_dashboard.BROWSER / "size.mjs", world], cwd=test_dashboard.packages(env), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=900)
    figures = 0
    for kind, ms, what in re.findall(r"^(paint|act) (\d+) (.*)$", done.stdout, re.M):
        figures += 1
        print(f"    {what}: {ms} ms")
        checks.that(int(ms) < (PAINT_MS if kind == "paint" else ACT_MS), f"{what} took {ms} ms")
    checks.that(done.returncode == 0 and figures >= 12, f"the browser's script: {done.stdout[-2000:]}")
    target.stop()


def test(env, checks, arguments):
    env.make_certificates(["first"])
    is_long = arguments.soak and "san" not in env.build.name  # figures of a sanitized build say nothing
    for machines, wanted, milliseconds in SOAK if is_long else (SHORT,):
        measure(env, checks, machines, wanted, milliseconds)


if __name__ == "__main__":
    harness.main(test, __doc__)
