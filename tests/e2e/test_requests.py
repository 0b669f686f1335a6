"""Requests: a collector asks for a time of a machine's recorder, and the machine sends it once, or refuses.

A trace is replayed into a recorder. While the next run of the agent goes on, requests are made, and the collector's records are compared
with the trace's, as `etwagent dump` prints them.

- A machine that is away: the request is made before the agent starts, waits, and is answered when it does. Each record of the window is there,
  once. A second window that overlaps sends only what is new.
- kill -9 at each place at which a file is replaced on the way: after the request was accepted, with the window planned, and with it in the spool.
  The next run sends the rest, and each record is there once.
- A limit of bytes: less is sent, and the report has the number of batches that were not. A request that was withdrawn, and one that has expired, are not offered.
- A request signed elsewhere, as a file. Its number has to grow. A key that others may read is refused.
- A collector in hostile hands, with valid TLS: what it makes up, changes, repeats, delays or directs to another machine is refused, each with its own
  reason, counted, in the audit log and reported; nothing is sent. What follows a genuine request is genuine again.
- Without the key of requests an agent asks for none.

# sanitizers: tsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 62: A requested window arrives whole and once. | an agent that was away, overlapping windows, kill -9 at three places, a limit | 2026-11-28
# - Delivery 63: An agent sends what its key signed, and nothing else. | a hostile collector with valid TLS: nine kinds of requests that are refused | 2026-11-28
import collections
import concurrent.futures
import contextlib
import datetime
import hashlib
import json
import pathlib
import sqlite3
import struct
import threading
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

import disk
import faulted
import harness
import receiver
import test_tracegen
import test_trigger
import uploads

WAIT_S, AT_A_TIME, POLL = 60, 4, ["--remote-poll", "100ms"]
SLOW = "0.02x"  # what such a run adds to the recorder comes before the windows: it plays a tenth of a second while the test looks
CONTEXT, POLL_PATH = b"etwagent request 1\n", "/v1/requests"
NS, DAY_S = 10**9, 86400
AGENTS = ("web-1", "accepted", "planned", "spooled", "limited", "hostile", "keyless")
MAKING = threading.Lock()
REASONS = ("malformed", "key", "signature", "host", "replayed", "reordered", "expired", "policy", "limits")


class Keys:
    def __init__(self, folder):
        self.private, self.public = folder / "requests.key", folder / "requests.pub"
        self.key = ed25519.Ed25519PrivateKey.generate()
        self.private.write_bytes(self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                                        serialization.NoEncryption()))
        self.private.chmod(0o600)
        self.public.write_bytes(self.key.public_key().public_bytes(serialization.Encoding.PEM,
                                                                   serialization.PublicFormat.SubjectPublicKeyInfo))


def field(number, value):
    if isinstance(value, bytes):
        return uploads._varint(number << 3 | 2) + uploads._varint(len(value)) + value
    return uploads._varint(number << 3) + uploads._varint(value)


def fixed(number, value):
    return uploads._varint(number << 3 | 1) + struct.pack("<q", value)


def signed(key, serial, hosts="hostile", kind=1, expires_s=DAY_S, window_s=600, change=lambda request: request):
    """A request by proto/wire/FORMAT.md, without the product's code. change: after it was signed."""
    now = time.time_ns()
    request = (field(1, kind) + field(2, serial) + field(3, hosts.encode()) + fixed(4, now - window_s * NS) + fixed(5, now)
               + field(6, 500 << 20) + fixed(7, now + expires_s * NS))
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return field(1, change(request)) + field(2, key.sign(CONTEXT + request)) + field(3, hashlib.sha256(raw).digest()[:8])


def agent_run(env, trace, keys, agent, url, spool, *extra, speed="max", environment=None):
    """One run of the agent, with a recorder."""
    return faulted.Replay(env, [trace.path], url, agent, spool=spool, environment=environment,
                          extra=["--live", "--batch-events", "200", "--recorder", "64MiB", "--speed", speed,
                                 *(["--remote-key", keys.public, *POLL] if keys else []), *extra])


def record(env, checks, trace, collector, agent):
    """A run that leaves the trace in the recorder; its spool."""
    spool = env.folder / agent / "spool"
    spool.mkdir(parents=True, mode=0o700)
    with agent_run(env, trace, None, agent, collector, spool) as run:
        checks.equal(run.wait(WAIT_S), 0, f"{agent}: the recording: {run.messages()}")
    return spool


def ask(env, collector, keys, hosts, begin, end, *extra, check=True):
    with MAKING:  # so that each one's number is larger than those before
        return env.run([env.collector, "request", "window", "--store", collector.store, "--key", keys.private, "--host", hosts, "--from", begin,
                        "--to", end, *extra], check=check)


def listed(env, collector):
    return json.loads(env.run([env.collector, "request", "list", "--store", collector.store, "--json"]).stdout)["requests"]


def answer_of(env, collector, agent, index=0):
    """What the agent reported of its newest request but index; {}: nothing yet."""
    mine = [r for r in listed(env, collector) if agent in [a["host"] for a in r["agents"]] or r["hosts"] == agent]
    return next((a for a in mine[index]["agents"] if a["host"] == agent), {}) if len(mine) > index else {}


def wait_sent(env, collector, agent, run, index=0):
    harness.wait_until(lambda: answer_of(env, collector, agent, index).get("state") == "sent", f"{agent}'s window", WAIT_S,
                       lambda: f"{listed(env, collector)} {run.messages()}")
    return answer_of(env, collector, agent, index)


def check_stored(env, checks, collector, trace, agent, begin, end, whole=True):
    """Each record of the window is in the store once, and none that is not the trace's; how many are stored."""
    got = collections.Counter(test_trigger.stored(env, collector, agent))
    wanted = trace.between(begin, end)
    checks.that(len(wanted) > 1000, f"{agent}: {len(wanted)} records in the window")
    if whole:
        checks.that(not wanted - got, f"{agent}: {(wanted - got).total()} of {wanted.total()} records of a window are missing")
    more = got - collections.Counter(trace.lines)
    checks.that(not more, f"{agent}: {more.total()} records are there twice or are not the trace's")
    return got.total()


def audit_of(spool):
    return (spool / "requests.log").read_text()


def away(env, checks, collector, trace, keys):
    """The request is there before the agent is."""
    spool = record(env, checks, trace, collector, "web-1")
    times = [test_trigger.shifted(trace.times[0], ms) for ms in (300, 600, 900)]
    ask(env, collector, keys, "web-1,web-9*", times[0], times[1])
    checks.equal(answer_of(env, collector, "web-1"), {}, "away: what is known")
    with agent_run(env, trace, keys, "web-1", collector, spool, speed=SLOW) as run:
        first = wait_sent(env, collector, "web-1", run)
        checks.that(first["events"] > 1000 and first["text"] == "", f"away: {first}")
        harness.wait_until(lambda: len(test_trigger.stored(env, collector, "web-1")) > 1000, "its records", WAIT_S)
        count = check_stored(env, checks, collector, trace, "web-1", times[0], times[1])
        checks.that(count < len(trace.lines) // 2, f"away: {count} records for a window")
        ask(env, collector, keys, "web-*", times[1], times[2])
        wait_sent(env, collector, "web-1", run)
        harness.wait_until(lambda: len(test_trigger.stored(env, collector, "web-1")) > count, "the second window's records", WAIT_S)
        check_stored(env, checks, collector, trace, "web-1", times[0], times[2])
    audit = audit_of(spool)
    checks.equal((audit.count(" accepted\n"), audit.count("is in the spool"), audit.count("refused")), (2, 2, 0), f"away: the audit log: {audit}")


def killed(env, checks, collector, trace, keys, agent, files, place):
    """kill -9 when one of these files is replaced for the place-th time."""
    spool = record(env, checks, trace, collector, agent)
    begin, end = test_trigger.shifted(trace.times[0], 300), test_trigger.shifted(trace.times[0], 700)
    ask(env, collector, keys, agent, begin, end)
    faults = disk.Faults(env.build, spool, f"rename:kill@{place}", files=files)
    with agent_run(env, trace, keys, agent, collector, spool, speed=SLOW, environment=faults.environment()) as run:
        checks.equal(run.wait(WAIT_S), -9, f"{agent}: how it ended: {run.messages()}")
    with agent_run(env, trace, keys, agent, collector, spool, speed=SLOW) as run:
        wait_sent(env, collector, agent, run)
        harness.wait_until(lambda: not trace.between(begin, end) - collections.Counter(test_trigger.stored(env, collector, agent)),
                           f"{agent}'s records", WAIT_S)
    check_stored(env, checks, collector, trace, agent, begin, end)


def limited(env, checks, collector, trace, keys):
    spool = record(env, checks, trace, collector, "limited")
    begin, end = trace.times[0], trace.times[-1]
    done = ask(env, collector, keys, "limited", begin, end)
    env.run([env.collector, "request", "withdraw", "--store", collector.store, done.stdout.split()[1]])
    ask(env, collector, keys, "limited", begin, end, "--expires", "1s")
    made = env.folder / "made.request"
    serial = time.time_ns() // 1000000 + 5000  # after those of the other cases
    env.run([env.collector, "request", "window", "-o", made, "--key", keys.private, "--host", "limited", "--from", begin, "--to", end,
             "--limit", "200KiB", "--serial", str(serial)])
    time.sleep(1)
    env.run([env.collector, "request", "add", "--store", collector.store, made])
    again = env.run([env.collector, "request", "add", "--store", collector.store, made], check=False)
    checks.that(again.returncode != 0 and "agents refuse smaller ones" in again.stderr, f"limited: added twice: {again}")
    with agent_run(env, trace, keys, "limited", collector, spool, speed=SLOW) as run:
        answer = wait_sent(env, collector, "limited", run)
    checks.that(0 < answer["bytes"] <= 200 << 10 and "the limit was reached" in answer["text"], f"limited: {answer}")
    states = [(r["state"], len(r["agents"])) for r in listed(env, collector) if r["hosts"] == "limited"]
    checks.equal(states, [("open", 1), ("expired", 0), ("withdrawn", 0)], "limited: all requests")
    keys.private.chmod(0o644)
    done = ask(env, collector, keys, "limited", begin, end, check=False)
    keys.private.chmod(0o600)
    checks.that(done.returncode != 0 and "requests.key" in done.stderr, f"a key that all may read: {done}")


def hostile(env, checks, collector, trace, keys):
    spool = record(env, checks, trace, collector, "hostile")
    foreign = ed25519.Ed25519PrivateKey.generate()
    genuine = signed(keys.key, 1000)
    offers = [
        ("accepted", genuine),
        ("replayed", genuine),
        ("reordered", signed(keys.key, 999)),
        ("key", signed(foreign, 1001)),
        ("signature", signed(keys.key, 1001, change=lambda r: r.replace(b"hostile", b"hostil*"))),
        ("signature", signed(keys.key, 1001)[:-12] + b"\0\0" + signed(keys.key, 1001)[-10:]),
        ("host", signed(keys.key, 1001, hosts="web-*")),
        ("expired", signed(keys.key, 1001, expires_s=-1)),
        ("replayed", signed(keys.key, 1001)),
        ("policy", signed(keys.key, 1002, kind=2)),
        ("limits", signed(keys.key, 1003, window_s=8 * DAY_S)),
        ("limits", signed(keys.key, 1004, expires_s=32 * DAY_S)),
        ("malformed", genuine[:-1]),
        ("malformed", signed(keys.key, 1005) + field(4, 1)),
        ("malformed", b"\xff" * 40),
    ]
    polls = []

    def behave(exchange):
        if exchange.path != POLL_PATH:
            receiver.honest(exchange)
            return
        polls.append(exchange.read_body())
        rest = offers if len(polls) == 1 else []
        exchange.answer(200, b"".join(field(1, bytes(request)) for _, request in rest), [("Content-Type", "application/x-protobuf")])

    with receiver.Receiver(env.certs, behave) as fake, agent_run(env, trace, keys, "hostile", fake, spool, speed="0.4x") as run:
        harness.wait_until(lambda: len(polls) >= 2, "a second poll", WAIT_S, run.messages)
        summary = run.finish(WAIT_S)
        checks.equal(fake.failures, [], "hostile: the double")
    expected = collections.Counter(name for name, _ in offers)
    got = {name: summary["ledger"][f"requests_refused_{name}"] for name in REASONS}
    checks.equal(got, {name: expected[name] for name in REASONS}, "hostile: refusals by reason")
    checks.equal(summary["ledger"]["requests_accepted"], 1, "hostile: accepted")
    audit = audit_of(spool)
    checks.equal(audit.count(" refused: "), len(offers) - 1, f"hostile: the audit log: {audit}")
    reports = [dict(uploads.fields(bytes(value))) for number, value in uploads.fields(polls[1]) if number == 2]
    checks.equal([r.get(2) for r in reports], [1] + [2] * (len(offers) - 1), f"hostile: reported: {reports}")
    # the genuine one is of the last ten minutes, of which the recorder has nothing: no event is sent
    checks.equal(summary["ledger"]["events_triggered"], 0, "hostile: events that were sent")


def keyless(env, checks, collector, trace, keys):
    """Without its key nothing is asked for; a command without a recorder is refused."""
    paths = []

    def behave(exchange):
        paths.append(exchange.path)
        receiver.honest(exchange)

    spool = env.folder / "keyless" / "spool"
    spool.mkdir(parents=True, mode=0o700)
    with receiver.Receiver(env.certs, behave) as fake, agent_run(env, trace, None, "keyless", fake, spool) as run:
        run.finish(WAIT_S)
    checks.that(paths and POLL_PATH not in paths, f"keyless: what it asked for: {set(paths)}")
    done = env.run(env.replay_command([trace.path], collector, agent="keyless", spool=spool, extra=["--live", "--remote-key", keys.public]),
                   check=False)
    checks.that(done.returncode == 2 and "needs --recorder" in done.stderr, f"without a recorder: {done}")


def test(env, checks, arguments):
    env.make_certificates(AGENTS)
    trace = test_trigger.Trace(env)
    keys = Keys(pathlib.Path(env.folder))
    cases = [(killed, "accepted", "requests*", 1), (killed, "planned", "triggers*", 1), (killed, "spooled", "triggers*", 2), (away,), (hostile,),
             (limited,), (keyless,)]
    collector = env.new_collector().start()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in [pool.submit(case, env, checks, collector, trace, keys, *more) for case, *more in cases]:
            done.result()
    collector.stop()
    with contextlib.closing(sqlite3.connect(collector.store / "requests.db")) as db, db:
        changed = db.execute("UPDATE OR IGNORE reports SET host = host || char(27) || '[31m'").rowcount
    listed = env.run([env.collector, "request", "list", "--store", collector.store]).stdout
    ask = [env.collector, "request", "window", "--store", env.folder / "largest", "--key", keys.private, "--host", "x", "--from", "-10m"]
    (env.folder / "largest").mkdir()
    env.run([*ask, "--serial", str(2**63 - 1)])
    refused = env.run(ask, check=False)
    checks.that(refused.returncode == 1 and "a request with the largest serial, 9223372036854775807" in refused.stderr, f"no serial is left: {refused}")
    checks.that(changed and "\x1b" not in listed and "\\x1b[31m" in listed, f"a name of a machine does not steer the terminal: {changed}, {listed[:300]}")


if __name__ == "__main__":
    harness.main(test, __doc__)
