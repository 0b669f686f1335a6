"""The table and the route of requests, and requests that are handed in over the API.

Agents are played: their polls are written here, by proto/wire/FORMAT.md. What SQL, the API and `request list` say of each request and machine is
compared with what was asked and reported.

- Each state: a machine that has not answered waits, until the request expires or is withdrawn; accepted, sent with its counts, refused with the
  agent's reason, expired by the agent. A request that fits no known machine has a row without one.
- A token of some hosts sees the rows of these alone, and no pattern that may name others.
- A token of scope operate hands in what was signed elsewhere, for its hosts alone; metrics, read and respond do not. Each refusal has its reason, in
  the answer and in the audit log, and is counted: another key, a change, another's host, a number that is not larger, an expiry that is over, no base64, no request.
- A refused request changes nothing: the next one with the same number is taken, and offered to its agents.
- Without --request-key nothing is taken over the API.
- A report of a machine that has one replaces it, however many there are; beyond the limit there is no new one.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Connections and identities 64: Over the network a machine is asked with a token of its group and a signature of the offline key, never with one of the two. | scopes, hosts, keys, changed and repeated requests, the audit log and the counter | 2026-11-29
import base64
import http.client
import json
import pathlib
import re
import sqlite3
import ssl
import time

from cryptography.hazmat.primitives.asymmetric import ed25519

import harness
import test_access
import test_requests
import test_tracegen
from test_requests import field, fixed

NS, ACCEPTED, REFUSED, SENT, EXPIRED = 10**9, 1, 2, 3, 4
ROUTE = "/api/v1/requests"
COLUMNS = ("host", "request", "kind", "state", "begin", "end", "limit_bytes", "added", "expires", "time", "batches", "events", "bytes", "text", "hosts")
AGENTS = ("web-1", "web-2", "db-1")
REPORTS_MAX = 1000000


def report(serial, state, batches=0, events=0, size=0, text=""):
    return field(1, serial) + field(2, state) + fixed(3, time.time_ns()) + field(4, batches) + field(5, events) + field(6, size) + field(7, text.encode())


def poll(env, collector, agent, *reports, serial=0):
    """An agent's poll; the requests that it is offered."""
    context = ssl.create_default_context(cafile=str(env.certs / "ca.crt"))
    context.load_cert_chain(env.certs / f"{agent}.crt", env.certs / f"{agent}.key")
    connection = http.client.HTTPSConnection("localhost", collector.port, context=context, timeout=60)
    connection.request("POST", test_requests.POLL_PATH, field(1, serial) + b"".join(field(2, r) for r in reports), {"Content-Type": "application/x-etwagent-poll"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise harness.Failure(f"a poll was answered with {answer.status}: {body[:200]!r}")
    return [bytes(value) for number, value in test_requests.uploads.fields(body) if number == 1]


def rows_of_sql(collector, where=""):
    done = collector.ask("query", f"SELECT {', '.join(json.dumps(c) for c in COLUMNS)} FROM requests {where} ORDER BY request DESC, host", "--format", "jsonl")
    return [json.loads(line) for line in done.splitlines()]


def states(rows):
    return {(r["request"], r["host"]): r["state"] for r in rows}


def check_states(env, checks, collector, client, keys, tokens):
    """Requests with one machine in each state."""
    ask = lambda hosts, serial, *more: env.run([env.collector, "request", "window", "--store", collector.store, "--key", keys.private, "--host", hosts,  # noqa: E731
                                                "--from", "2024-05-03T10:00:00Z", "--to", "2024-05-03T10:01:00Z", "--serial", str(serial), "--limit", "1MiB", *more])
    ask("web-*,db-1", 100)
    ask("web-1", 101, "--expires", "1s")
    ask("web-2", 102)
    ask("nosuch-*", 103)
    ask("web-*", 104)
    env.run([env.collector, "request", "withdraw", "--store", collector.store, "102"])
    poll(env, collector, "web-1", report(100, ACCEPTED), report(104, EXPIRED, text="no recorder sent it before it expired"))
    poll(env, collector, "web-1", report(100, SENT, 3, 4000, 55555, "the limit was reached"))
    poll(env, collector, "web-2", report(100, REFUSED, text="forbidden: the local policy does not allow its kind"), report(104, ACCEPTED))
    poll(env, collector, "web-2", report(104, REFUSED, text="replayed: it came before"), report(999, SENT, 1, 1, 1))
    time.sleep(1)
    expected = {(104, "web-1"): "expired", (104, "web-2"): "accepted", (103, None): "waiting", (102, "web-2"): "withdrawn", (101, "web-1"): "expired",
                (100, "web-1"): "sent", (100, "web-2"): "refused", (100, "db-1"): "waiting"}
    rows = rows_of_sql(collector)
    checks.equal(states(rows), expected, "SQL: what became of each request")
    checks.equal(len(rows), len(expected), "SQL: rows")
    sent = next(r for r in rows if r["state"] == "sent")
    checks.equal([sent[c] for c in ("kind", "begin", "end", "limit_bytes", "batches", "events", "bytes", "text", "hosts")],
                 ["window", "2024-05-03T10:00:00.0000000Z", "2024-05-03T10:01:00.0000000Z", 1 << 20, 3, 4000, 55555, "the limit was reached", "web-*,db-1"], "SQL: a request that was answered")
    waiting = next(r for r in rows if r["host"] == "db-1")
    checks.equal([waiting[c] for c in ("time", "batches", "events", "bytes", "text")], [None] * 5, "SQL: one that was not")
    refused = next(r for r in rows if r["state"] == "refused")
    checks.equal(refused["text"], "forbidden: the local policy does not allow its kind", "SQL: a reason")
    listed = {(r["request"], a["host"]): (a["state"], a["events"], a["text"]) for r in test_requests.listed(env, collector) for a in r["agents"]}
    checks.equal({k: (r["state"], r["events"], r["text"] or "") for r in rows if r["time"] for k in [(r["request"], r["host"])]}, listed, "SQL and request list")
    status, text, _ = client.ask(ROUTE + "?limit=100", tokens["read"], source="127.20.0.1")
    checks.equal((status, [[r[c] for c in COLUMNS] for r in json.loads(text)["items"]]), (200, [[r[c] for c in COLUMNS] for r in rows]), "the API and SQL")
    for query, keep in (("host=web-1", lambda r: r["host"] == "web-1"), ("state=waiting", lambda r: r["state"] == "waiting"), ("request=100&state=sent", lambda r: r["state"] == "sent")):
        got = json.loads(client.ask(f"{ROUTE}?{query}", tokens["read"], source="127.20.0.1")[1])["items"]
        checks.equal(states(got), states(filter(keep, rows)), f"the API: {query}")
    status, text, _ = client.ask(f"{ROUTE}?state=sended", tokens["read"], source="127.20.0.1")
    checks.that(status == 400 and "waiting, accepted, sent, refused, expired or withdrawn" in text, f"a state that is none: {status} {text}")


def check_group(checks, client, tokens):
    """A token of some hosts: their rows, and no pattern."""
    for who in ("group", "operate"):
        status, text, _ = client.ask(ROUTE + "?limit=100", tokens[who], source="127.20.0.2")
        got = json.loads(text)["items"]
        checks.equal((status, {r["host"] for r in got}, {r["hosts"] for r in got}), (200, {"web-1", "web-2"}, {None}), f"requests that {who} sees")
        checks.that("db-1" not in text and "nosuch" not in text, f"other machines in the answer to {who}: {text[:500]}")
        checks.equal(client.status(ROUTE + "?host=db-1", tokens[who], source="127.20.0.2"), 403, f"{who}: another machine's requests")
    status, text, _ = client.ask("/api/v1/sql", tokens["group"], method="POST", body={"sql": "SELECT count(*), count(DISTINCT host), count(hosts) FROM requests"}, source="127.20.0.2")
    checks.equal((status, json.loads(text)["rows"]), (200, [[6, 2, 0]]), "SQL of a group")


def unqueued(client, tokens):
    text = client.ask("/metrics", tokens["metrics"], source="127.20.0.9")[1]
    return int(re.search(r"^etwcollector_web_unqueued_total (\d+)", text, re.M).group(1))


def check_handed_in(env, checks, collector, client, keys, tokens):
    """Signed elsewhere, handed in with a token; each refusal with its reason."""
    made = env.folder / "made.request"
    env.run([env.collector, "request", "window", "-o", made, "--key", keys.private, "--host", "web-1,WEB-2*", "--from", "-10m", "--serial", "200"])
    good = base64.encodebytes(made.read_bytes()).decode()  # in lines, as base64 writes it
    sign = lambda serial, hosts="web-1", key=keys.key, **more: base64.b64encode(test_requests.signed(key, serial, hosts=hosts, **more)).decode()  # noqa: E731
    hand_in = lambda text, who="operate": client.ask(ROUTE, tokens[who], method="POST", body={"signed": text}, source="127.20.0.3")  # noqa: E731
    before, known = unqueued(client, tokens), states(rows_of_sql(collector))
    for who in ("none", "metrics", "read", "group", "respond"):
        checks.equal(hand_in(good, who)[0], 401 if who == "none" else 403, f"handed in by {who}")
    checks.equal(unqueued(client, tokens), before, "refused by their scope: they are no requests yet")
    foreign = ed25519.Ed25519PrivateKey.generate()
    refusals = [
        (403, "foreign key: ", sign(201, key=foreign)),
        (403, "changed: ", sign(201, change=lambda r: r.replace(b"web-1", b"web-2"))),
        (403, "hosts: the request is for db-1", sign(201, hosts="db-1")),
        (403, "hosts: ", sign(201, hosts="web-1,db-1")),
        (403, "hosts: ", sign(201, hosts="*")),
        (403, "hosts: ", sign(201, hosts="w*")),
        (400, "unknown kind: 7", sign(201, kind=7)),
        (400, "a request with the serial 104 is kept", sign(104)),
        (400, "has expired", sign(201, expires_s=-1)),
        (400, "malformed: ", base64.b64encode(b"no request").decode()),
        (400, "malformed: ", sign(201)[:-8]),
        (400, "base64 of a signed request is expected", "*" * 40),
        (400, "base64 of a signed request is expected", ""),
        (400, "at most 4096 bytes", "A" * 4097),
    ]
    for wanted, why, text in refusals:
        status, answer, _ = hand_in(text)
        checks.that(status == wanted and why in json.loads(answer)["detail"], f"{why}: {status} {answer}, expected {wanted}")
    for body in ({}, {"signed": 1}, {"signed": good, "who": "x"}):
        status, answer, _ = client.ask(ROUTE, tokens["operate"], method="POST", body=body, source="127.20.0.3")
        checks.equal(status, 400, f"a body {str(body)[:40]}: {answer}")
    checks.equal(unqueued(client, tokens) - before, len(refusals) + 3, "refusals that are counted")
    checks.equal(states(rows_of_sql(collector)), known, "requests after these refusals")
    status, answer, _ = hand_in(good)
    checks.equal((status, json.loads(answer)), (200, {"request": 200, "hosts": "web-1,WEB-2*", "state": "waiting"}), "what was taken")
    checks.equal(hand_in(sign(201, hosts="db-*"), "admin")[0], 200, "one of an admin, for any machine")
    checks.equal(poll(env, collector, "web-1", serial=104), [made.read_bytes()], "what web-1 is offered: the bytes that were signed")
    checks.equal([len(poll(env, collector, agent, serial=104)) for agent in ("web-2", "db-1")], [1, 1], "requests that the others are offered")
    lines = [json.loads(line) for name in ("audit.jsonl", "audit-refused.jsonl") for line in (collector.store / name).read_text().splitlines()]
    notes = [(line["token"], line["status"], line["note"]) for line in lines if line.get("path") == ROUTE and line.get("method") == "POST" and line.get("token") == "operator" and line.get("note")]
    checks.equal(len(notes), len(refusals) + 4, f"lines of the audit log: {notes}")
    for wanted, why, _ in refusals:
        checks.that([n for n in notes if n[1] == wanted and n[2].startswith("request refused: ") and why in n[2]], f"the audit log's line of {why}")
    checks.equal([n[2].split(", window")[0] for n in notes if n[1] == 200], ["request 200 added: hosts web-1,WEB-2*"], "the audit log's line of the request")


def check_limit(env, checks, collector):
    """A machine that has reported goes on to, however many reports there are; a new one is not kept beyond the limit."""
    db = sqlite3.connect(collector.store / "requests.db", timeout=60)
    with db:
        count, = db.execute("SELECT count(*) FROM reports").fetchone()
        db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO reports SELECT 1, printf('m%07d', i), 1, 0, 0, 0, 0, '' FROM n", (REPORTS_MAX - count,))
    began = time.monotonic()
    for i in range(20):
        poll(env, collector, "web-2", report(104, SENT, 1, i, 1), report(200, ACCEPTED), serial=200)
    took = time.monotonic() - began
    got = dict(db.execute("SELECT serial, events FROM reports WHERE host = 'web-2' AND serial IN (104, 200)").fetchall())
    checks.equal(got, {104: 19}, "reports of a machine when the table is full")
    with db:
        db.execute("DELETE FROM reports WHERE serial = 1")
    db.close()
    poll(env, collector, "web-2", report(200, ACCEPTED), serial=200)
    checks.equal(states(rows_of_sql(collector))[(200, "web-2")], "accepted", "a report when there is room again")
    print(f"20 polls with a table of {REPORTS_MAX} reports: {took:.2f} s")


def test(env, checks, _):
    env.make_certificates(AGENTS)
    keys = test_requests.Keys(pathlib.Path(env.folder))
    collector = env.new_collector(extra=["--web", "0.0.0.0:0", "--web-tokens", "--audit-refusals", "100", "--request-key", keys.public]).start()
    client = test_access.Client(env, int(re.search(r"dashboard on https://0.0.0.0:(\d+)/", collector.log()).group(1)))
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "100")
    for agent in AGENTS:
        env.replay([trace], collector, agent=agent, spool=env.folder / agent)
    checks.equal(rows_of_sql(collector), [], "requests of a store without any")
    new = lambda name, *more: test_access.new_token(env, collector.store, name, *more)  # noqa: E731
    tokens = {"none": None, "metrics": new("prometheus", "--scope", "metrics"), "read": new("reader"), "group": new("group", "--hosts", "web-*"),
              "respond": new("analyst", "--scope", "respond"), "operate": new("operator", "--scope", "operate", "--hosts", "web-*"), "admin": new("boss", "--scope", "admin")}
    check_states(env, checks, collector, client, keys, tokens)
    check_group(checks, client, tokens)
    check_handed_in(env, checks, collector, client, keys, tokens)
    check_limit(env, checks, collector)
    collector.stop()
    collector = env.new_collector("keyless", extra=["--web", "0.0.0.0:0", "--web-tokens"]).start()
    client = test_access.Client(env, int(re.search(r"dashboard on https://0.0.0.0:(\d+)/", collector.log()).group(1)))
    status, text, _ = client.ask(ROUTE, test_access.new_token(env, collector.store, "boss", "--scope", "admin"), method="POST", body={"signed": "AA=="})
    checks.that(status == 403 and "--request-key" in text, f"without a key: {status} {text}")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
