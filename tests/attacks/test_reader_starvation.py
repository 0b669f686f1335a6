"""Readers that ask much and read nothing: answers in pieces and whole ones that are left unread, more questions than there are places, streams without end.
Another reader's and an agent's latency stay what they are; unread answers are cut off, and counted.

usage: test_reader_starvation.py --build DIR [--soak] [--keep]
"""
import json
import time

import world
import harness
import receiver
import test_query_limits
import test_web
import web_world

UNREAD_S = 2
# 64 MiB of csv: far more than socket buffers hold
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1024) SELECT i, printf('%.*c', 65536, 'x') AS x FROM n"
# 48 MB of json, which is sent whole
WHOLE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 48) SELECT printf('%.*c', 1000000, 'x') AS x FROM n"
WHOLE_COUNT, WHOLE_RSS_MIB = 24, 600
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def ask(w, token, request, body=b""):
    """A request whose answer is not read: the connection."""
    connection = world.secure(w.reader.context, world.connect(w.web_port))
    connection.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def unread(w, token):
    return ask(w, token, "POST /api/v1/sql", json.dumps({"sql": ENDLESS, "format": "csv"}).encode())


def attack(w, stop, ready):
    """As soon as an answer is cut off, the next one is asked for."""
    held = [unread(w, w.thief) for _ in range(6)] + [ask(w, w.thief, "GET /api/v1/events/tail") for _ in range(12)]
    time.sleep(0.5)
    ready.set()
    asked = len(held)
    while not stop.wait(0.5):
        held.append(unread(w, w.thief))
        asked += 1
    for connection in held:
        connection.close()
    return asked


def cut_off(env, checks, w):
    """Two tokens hold all four places with answers that they do not read: a third waits no longer than an answer may be unread."""
    before = w.metrics()["etwcollector_web_unread_total"]
    held = [unread(w, token) for token in (w.thief, w.accomplice) for _ in range(2)]
    time.sleep(0.5)
    begin = time.monotonic()
    third = world.Web(w.web_port, world.VICTIM_READER, w.reader.context)
    third.request("GET", world.QUESTION, headers=w.reader.headers)
    status = third.getresponse().status
    took = time.monotonic() - begin
    third.close()
    checks.that(status == 200 and 0.5 < took < 2 * UNREAD_S + 2, f"a third reader beside four unread answers: {status} after {took:.1f} s")
    harness.wait_until(lambda: w.metrics()["etwcollector_web_unread_total"] >= before + 4, "four unread answers that are cut off and counted", 30)
    for connection in held:  # what is left in the buffers, and then an end without the last chunk
        connection.settimeout(30)
        data = b""
        try:
            while part := connection.recv(1 << 20):
                data = data[-16:] + part
        except OSError:
            pass
        checks.that(not data.endswith(b"0\r\n\r\n"), "an answer that was cut off ends as a whole one")
        connection.close()
    print(f"a third reader waited {took:.1f} s beside four unread answers; {before:.0f} answers were cut off in the attack", flush=True)


def whole(env, checks, w):
    """Answers that are sent whole and not read: those of one reader that the collector keeps are no more than are answered at a time."""
    before = w.metrics()["etwcollector_web_unread_total"]
    held = [ask(w, w.thief, "POST /api/v1/sql", json.dumps({"sql": WHOLE}).encode()) for _ in range(WHOLE_COUNT)]
    most, end = 0, time.monotonic() + 6 * UNREAD_S
    while time.monotonic() < end:
        most = max(most, receiver.process_status(w.collector.process.pid, "VmRSS") >> 20)
        time.sleep(0.1)
    checks.that(most < WHOLE_RSS_MIB, f"{most} MiB of memory with {WHOLE_COUNT} unread answers of 48 MB, expected less than {WHOLE_RSS_MIB}")
    cut = w.metrics()["etwcollector_web_unread_total"] - before
    checks.that(cut >= 2, f"{cut:.0f} whole answers were cut off since they were not read")
    for connection in held:
        connection.close()
    web = world.Web(w.web_port, world.VICTIM_READER, w.reader.context)
    web.request("POST", "/api/v1/sql", json.dumps({"sql": WHOLE}), {**w.reader.headers, "Content-Type": "application/json"})
    answer = web.getresponse()
    text = answer.read()
    checks.equal((answer.status, json.loads(text)["ending"], len(text) > 48_000_000), (200, "whole", True), "the same answer to a client that reads it")
    web.close()
    print(f"{most} MiB of memory with {WHOLE_COUNT} unread answers of 48 MB, {cut:.0f} were cut off", flush=True)


def processor(env, checks):
    """A reader whose questions took more of a processor than --quota-answers gives is refused for a while; another address is answered."""
    collector = env.new_collector("processor", extra=["--web", "127.0.0.1:0", "--quota-answers", "1ms"]).start()
    web = web_world.Web(collector)
    count = json.dumps({"sql": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT count(*) AS c FROM n"})
    status, _, text = web.ask("/api/v1/sql", "POST", count, test_web.JSON)
    checks.equal((status, json.loads(text)["ending"]), (200, "whole"), "a question within the quota's burst")
    status, headers, text = web.ask("/api/v1/sql", "POST", count, test_web.JSON)
    checks.that(status == 429 and "--quota-answers" in text and int(headers["Retry-After"]) >= 1, f"the next question: {status} {text}")
    other = test_web.ask_slowly(web, "127.0.0.8", "SELECT 1 AS one")
    checks.that(b" 200 " in other.recv(1 << 16).split(b"\r\n")[0], "a question of another address")
    other.close()
    harness.wait_until(lambda: any(row["refused"] for row in collector.ask_json("quota")["uses"]), "the refusal in the numbers that are written every 10 s", 30)
    rows = [row for row in collector.ask_json("quota")["uses"] if row["resource"] == "answers" and row["refused"]]
    checks.equal([(row["name"], row["refused"]) for row in rows], [("127.0.0.1", 1)], "refusals that the command quota lists")
    collector.stop()


def downloads(env, checks):
    """A reader that took more bytes of answers than --quota-downloads gives waits as long as Retry-After says; another address is answered."""
    collector = env.new_collector("downloads", extra=["--web", "127.0.0.1:0", "--quota-downloads", "10000", "--silent-after", "2s"]).start()
    web, wide = web_world.Web(collector), json.dumps({"sql": "SELECT printf('%.*c', 650000, 'x') AS x"})
    for number in range(2):  # 1.2 MB at once; the second answer is above it
        status, _, text = web.ask("/api/v1/sql", "POST", wide, test_web.JSON)
        checks.that(status == 200 and len(text) > 650000, f"answer {number} of 650 kB: {status} {text[:200]}")
    status, headers, text = web.ask("/api/v1/hosts")
    checks.that(status == 429 and "above its quota of downloads: 10000 bytes in 1 s are allowed (--quota-downloads)" in text, f"the next request: {status} {text}")
    checks.that(5 <= int(headers["Retry-After"]) <= 30, f"100 kB too many at 10 kB a second: Retry-After {headers['Retry-After']}")
    other = test_web.ask_slowly(web, "127.0.0.8", "SELECT 1 AS one")
    checks.that(b" 200 " in other.recv(1 << 16).split(b"\r\n")[0], "a question of another address")
    other.close()
    listed = [["reader", "127.0.0.1", "downloads", 10000, 1]]

    def above():
        return [[row[k] for k in ("who", "name", "resource", "limit", "refused")] for row in collector.ask_json("quota", "--above")["uses"]]
    harness.wait_until(lambda: above() == listed, "etwcollector quota --above to list it", 30, lambda: f"; it lists {above()}")
    reported = str(collector.ask_json("query", "SELECT text FROM incidents WHERE kind = 'quota'"))
    checks.that("reader 127.0.0.1 is above its quota of downloads (10000 bytes a second): 1 refused" in reported, f"incidents: {reported}")
    collector.stop()


def memory(env, checks):
    """A question ends at --web-memory; of --web-memory-all two questions that have it do not fit, so one waits for the other."""
    collector = env.new_collector("memory", extra=["--web", "127.0.0.1:0", "--web-memory", "64MiB", "--web-memory-all", "100MiB"]).start()
    web = web_world.Web(collector)
    wide = "SELECT group_concat(hex(zeroblob(1000000)), '') FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n)"
    status, _, text = web.ask("/api/v1/sql", "POST", json.dumps({"sql": wide}), test_web.JSON)
    checks.that((status, json.loads(text).get("ending")) == (200, "memory") or "too big" in text, f"a question that needs more than 64 MiB: {status} {text[-200:]}")
    held = [test_web.ask_slowly(web, source, FOREVER) for source in ("127.0.0.8", "127.0.0.9")]
    harness.wait_until(lambda: test_query_limits.workers_of(collector.process.pid), "a question", 30)
    time.sleep(0.5)
    checks.equal(len(test_query_limits.workers_of(collector.process.pid)), 1, "questions of 64 MiB at a time, of 100 MiB for all")
    for connection in held:
        connection.close()
    collector.stop()
    refused = env.run([env.collector, "run", "--store", env.folder / "none", "--cert", env.certs / "server.crt", "--key", env.certs / "server.key", "--ca",
                       env.certs / "ca.crt", "--web-memory", "64MiB", "--web-memory-all", "32MiB"], check=False)
    checks.that(refused.returncode == 2 and "--web-memory-all: at least --web-memory" in refused.stderr, f"less for all than for one: {refused.stderr}")


def test(env, checks, _):
    with world.World(env, checks, tokens=True, extra=["--web-unread", f"{UNREAD_S}s", "--web-tail", "2s"]) as w:
        for name in ("thief", "accomplice"):
            token = env.run([env.collector, "token", "add", "--store", w.collector.store, "--name", name]).stdout.strip()
            setattr(w, name, token)
        asked = w.compare("unread answers and streams of one token", attack)
        checks.that((asked or 0) > 18, f"requests of the attacker: {asked}")
        cut_off(env, checks, w)
        whole(env, checks, w)
        # a stream ends at its longest life, as a whole answer
        stream = world.Web(w.web_port, world.VICTIM_READER, w.reader.context)
        stream.request("GET", "/api/v1/events/tail?class=nothing", headers=w.reader.headers)
        begin = time.monotonic()
        text = stream.getresponse().read()
        took = time.monotonic() - begin
        checks.that(b"reached its longest life" in text[-100:] and 1 < took < 15, f"a stream with a longest life of 2 s ended after {took:.1f} s: {text[-100:]}")
        stream.close()
    memory(env, checks)
    processor(env, checks)
    downloads(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
