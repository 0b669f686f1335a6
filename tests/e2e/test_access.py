"""Access: without TLS and tokens only loopback is served. With them each scope reads the data that it is for and nothing else,
requests with wrong tokens are slowed down, and revoked tokens are refused immediately. The audit log has each request unchanged,
whatever text it contains.

usage: test_access.py --build DIR [--soak] [--keep]
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 11
# Under the sanitizers make soak alone runs it: the unit test of access, fuzz_web, fuzz_tokens and test_web.py run its code there in each run.
import base64
import hashlib
import http.client
import json
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import time
import urllib.parse

import harness
import test_dashboard
import test_tracegen
import traces
import uploads

TRACE = "clr-kernel-win8-x64"
MOST_CONNECTIONS = 20  # of one address, here


class Client:
    """Requests over TLS from an address of loopback that no other client uses."""

    def __init__(self, env, port):
        self.context = ssl.create_default_context(cafile=env.certs / "ca.crt")
        self.port = port

    def ask(self, path, token=None, header=None, method="GET", body=None, source="127.0.0.1", headers=None):
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.context,
                                                 source_address=(source, 0))
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if header:
            sent["Authorization"] = header
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer

    def status(self, path, *arguments, **named):
        return self.ask(path, *arguments, **named)[0]


def new_token(env, store, name, *more):
    token = env.run([env.collector, "token", "add", "--store", store, "--name", name, *more]).stdout.strip()
    if not re.fullmatch(r"ect_[0-9a-f]{8}_[0-9a-f]{64}", token):
        raise harness.Failure(f"a token: {token}")
    return token


# lists that take no host: a group's token gets what is its own of them
ALL_MACHINES = ("/api/v1/hosts", "/api/v1/fleet", "/api/v1/fleet/groups", "/api/v1/fleet/labels", "/api/v1/classes", "/api/v1/columns",
                "/api/v1/detections/{number}")


def routes():
    """The paths of the program, from its table."""
    text = (harness.ROOT / "collector/web/api.c").read_text()
    found = re.findall(r'\{EC_(GET|POST), "([^"]+)"', text)
    if len(found) < 20:
        raise harness.Failure(f"only {len(found)} routes found")
    return found


def check_scopes(checks, client, tokens):
    """Every path with every scope: who is let through, and who gets 401 or 403."""
    count = 0
    for method, route in routes():
        if route.endswith("/tail"):
            continue
        for host in ("alpha", "beta"):
            path = route.replace("{host}", host).replace("{stream}", "1").replace("{instance}", "1").replace("{name}", "process-starts").replace("{number}", "999")
            of_store = route.startswith("/api/v1/") and route not in ("/api/v1/openapi.json", "/api/v1/queries", "/api/v1/tokens")
            changes = method == "POST" and route != "/api/v1/sql"
            body = {"state": "open"} if changes else {"sql": "SELECT 1", "host": host} if method == "POST" else None
            if of_store and "{host}" not in route and route not in ALL_MACHINES and method == "GET":
                path += f"?host={host}" + ("&field=name" if route.endswith("/values") else "")
            for number, (scope, token) in enumerate(tokens.items()):
                if scope == "none":
                    allowed = {401}
                elif route == "/metrics":
                    allowed = {403} if scope == "group" else {200}
                elif scope == "metrics" or (route == "/api/v1/tokens" and scope != "admin") or (changes and scope in ("read", "group")) or (changes and route == "/api/v1/requests" and scope == "respond"):
                    allowed = {403}
                elif scope == "group" and host == "beta" and of_store and route not in ALL_MACHINES:
                    allowed = {403}
                else:
                    allowed = {200, 400, 404, 503} | ({403} if changes and route == "/api/v1/requests" else set())  # without a key of requests none is taken: test_request_queue.py. Else let through: whatever the answer is
                source = f"127.{number + 1}.{count // 100 + 1}.{1 if host == 'alpha' else 2}"
                status, text, _ = client.ask(path, token, method=method, body=body, source=source)
                count += 1
                for _ in range(40):  # a token's own rate is bounded: wait for it
                    if status != 429:
                        break
                    harness.time.sleep(0.1)
                    status, text, _ = client.ask(path, token, method=method, body=body, source=source)
                checks.that(status in allowed, f"{method} {path} with scope {scope}: {status}, expected one of {allowed}: {text[:200]}")
    return count


def check_group(checks, client, token):
    """A token of some hosts sees nothing of others, whatever it asks."""
    sql = "SELECT DISTINCT host FROM events UNION SELECT host FROM processes UNION SELECT host FROM hosts"
    status, text, _ = client.ask("/api/v1/sql", token, method="POST", body={"sql": sql, "host": "alpha"}, source="127.9.0.1")
    checks.equal((status, json.loads(text)["rows"] if status == 200 else text), (200, [["alpha"]]), "hosts that SQL shows to a group")
    for body in ({"sql": sql, "host": "beta"}, {"sql": sql, "host": "*"}):
        checks.equal(client.status("/api/v1/sql", token, method="POST", body=body, source="127.9.0.1"), 403, f"{body}")
    tables = re.findall(r'^    \{"(\w+)", (?:STORE|STATE|ALARMS|REQUESTS),', (harness.ROOT / "collector/query/sql/sql_tables.c").read_text(), re.M)
    checks.that(len(tables) >= 9, f"tables that name hosts: {tables}")
    for table in [*tables, "events"]:
        status, text, _ = client.ask("/api/v1/sql", token, method="POST", source="127.9.0.3",
                                     body={"sql": f'SELECT count(*) FILTER (WHERE host = \'beta\'), count(DISTINCT host), count(*) FROM "{table}"'})
        rows = json.loads(text)["rows"][0] if status == 200 else text
        checks.that(status == 200 and rows[0] == 0 and rows[1] <= 1, f"{table} of a group: {rows}")
    for path in ("/api/v1/hosts", "/api/v1/processes", "/api/v1/processes?host=", "/api/v1/modules", "/api/v1/events", "/api/v1/gaps",
                 "/api/v1/queries/process-starts", "/api/v1/events?format=jsonl&limit=2000", "/api/v1/hosts?format=csv", "/api/v1/events/counts"):
        status, text, _ = client.ask(path, token, source="127.9.0.4")
        checks.that(status == 200 and "beta" not in text, f"{path} of a group: {status} {text[:300]}")
    status, text, _ = client.ask("/api/v1/fleet", token, source="127.9.0.4")
    checks.equal((status, json.loads(text)["hosts"]), (200, 1), "machines of a group's fleet")
    status, text, _ = client.ask("/api/v1/profile?weight=samples", token, source="127.9.0.4")
    checks.equal((status, json.loads(text)["hosts"]), (200, ["alpha"]), "machines of a group's profile")
    status, text, _ = client.ask("/api/v1/events/counts", token, source="127.9.0.4")
    mine = json.loads(client.ask("/api/v1/hosts", token, source="127.9.0.4")[1])["items"][0]
    got = json.loads(text)["items"]
    checks.equal((status, sum(i["count"] for i in got), got[0]["begin"], got[-1]["end"]), (200, mine["events"], mine["begin"], mine["end"]), "a group's counts, and their range, are of its machines alone")
    for path, word in (("/api/v1/events/values?field=host", "count"), ("/api/v1/load?by=host&every=1h", "events")):
        got = json.loads(client.ask(path, token, source="127.9.0.4")[1])["items"]
        checks.equal((sum(i[word] for i in got), {i.get("value", i.get("group")) for i in got}), (mine["events"], {"alpha"}), f"{path} of a group is of its machines alone")
    for path in ("/api/v1/events?host=beta", "/api/v1/events?host=beta&host=alpha", "/api/v1/events/tail?host=beta", "/api/v1/events/counts?host=beta", "/api/v1/events/values?field=name&host=beta", "/api/v1/load?host=beta", "/api/v1/hosts/beta/processes",
                 "/api/v1/profile?host=alpha&host=beta"):
        status, text, _ = client.ask(path, token, source="127.9.0.2")
        checks.equal(status, 403, f"{path} of a group: {text[:300]}")


def check_detections(checks, env, client, collector, token):
    """The state of a detection is set by a token that may, under the token's name, of hosts that it sees; the audit log has it."""
    db = sqlite3.connect(collector.store / "alarms.db", timeout=60)
    with db:
        db.executemany("INSERT INTO detections(detection_id, host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, who, comment) "
                       "VALUES(?, ?, 's', 1, 0, 'r', 't', 'high', 'f:1', 1, 2, '{}', 'open', '', '')", [(1, "alpha"), (2, "beta")])
    db.close()
    responder = new_token(env, collector.store, "responder", "--scope", "respond", "--hosts", "al*")

    def ask(path, who=responder, body=None):
        status, text, _ = client.ask(path, who, method="POST" if body else "GET", body=body, source="127.9.0.6")
        return status, json.loads(text)
    for who in (responder, token):
        status, answer = ask("/api/v1/detections", who)
        checks.equal((status, [row["host"] for row in answer["items"]]), (200, ["alpha"]), "detections of a group")
        checks.equal((ask("/api/v1/detections/1", who)[0], ask("/api/v1/detections/2", who)[0]), (200, 404), "one detection of a group")
    closed = {"state": "closed", "comment": "ours \u00e9 \"'"}
    checks.equal(ask("/api/v1/detections/1", token, closed)[0], 403, "a token that only reads")
    checks.equal(ask("/api/v1/detections/2", body=closed)[0], 404, "the state of another's detection")
    checks.equal(ask("/api/v1/detections/99", body=closed)[0], 404, "the state of no detection")
    checks.equal(ask("/api/v1/detections/1", body=closed), (200, {"number": 1, "who": "responder", **closed}), "a state")
    row = ask("/api/v1/detections/1")[1]
    checks.equal((row["state"], row["who"], row["comment"]), ("closed", "responder", closed["comment"]), "who closed it")
    for wrong in ({"state": "odd"}, {"comment": "x"}, {"state": "open", "who": "another"}, {"state": "open", "comment": "x" * 5000}, {"state": 1}):
        checks.equal(ask("/api/v1/detections/1", body=wrong)[0], 400, f"a wrong body {str(wrong)[:60]}")
    checks.equal(ask("/api/v1/detections/x", body=closed)[0], 400, "a wrong number")
    lines = [json.loads(line) for line in (collector.store / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    notes = [(line["token"], line["note"]) for line in lines if line.get("path") == "/api/v1/detections/1" and line["method"] == "POST"]
    checks.equal(notes, [("responder", f"detection 1 of alpha: closed: {closed['comment']}")], "the audit log's line")


def check_classes(checks, client, reader, token):
    """A class that only others have sent is not even named to a token of some hosts."""
    def rows(sql, who):
        status, text, _ = client.ask("/api/v1/sql", who, method="POST", body={"sql": sql}, source="127.9.0.5")
        return [r[0] for r in json.loads(text)["rows"]] if status == 200 else text
    seen = set(rows("SELECT DISTINCT name FROM events WHERE host = 'alpha' AND name <> ''", reader))
    reported = {who: {c["name"] for c in json.loads(client.ask("/api/v1/classes?limit=10000", who, source="127.9.0.5")[1])["items"]} for who in (reader, token)}
    hidden = reported[reader] - seen
    checks.that(hidden and seen and reported[token] == reported[reader] - hidden, f"classes that a group sees: {len(hidden)} are only others'; seen of them: {reported[token] & hidden}")
    one = sorted(hidden)[0]
    sql = f'SELECT count(*) > 0 FROM "{one}"'  # a class's table is there for a statement that names it
    checks.equal(rows(sql, reader), [1], f"the table {one}, to a reader")
    refused = rows(sql, token)
    checks.that("no such table" in refused, f"the table {one}, to a group: {refused}")
    # what is refused says the same of it as of a name that nothing has, and suggests no other class of others
    answers = []
    for name in (one, "Nothing/Has-This-Name"):
        status, text, _ = client.ask(f"/api/v1/events?class={urllib.parse.quote(name)}", token, source="127.9.0.5")
        answers.append((status, json.loads(text).get("detail", "").split("; did you mean")[0].replace(name, "NAME")))
        checks.that(not any(f"'{other}'" in text for other in hidden - {one}), f"events of {name} to a group name a class of others: {text}")
    checks.that(answers[0][0] == 400 and answers[0] == answers[1], f"events of {one} to a group, and of a class that nothing has: {answers}")


def check_limits(checks, client, right):
    """Guessing ends soon, for the one who guesses alone; so does asking too often."""
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    seen = [client.status("/metrics", wrong, source="127.20.0.1") for _ in range(14)]
    checks.that(seen[:10] == [401] * 10 and set(seen[10:]) == {429}, f"guesses: {seen}")
    status, text, answer = client.ask("/metrics", wrong, source="127.20.0.1")
    checks.that(status == 429 and "too many wrong tokens from this address" in text and answer.getheader("Connection") == "close", f"a guess: {status} {text}")
    checks.equal(client.status("/metrics", right, source="127.20.0.1"), 200, "the right token of another client at that address")
    other = "ect_00000000" + wrong[12:]
    checks.equal(client.status("/metrics", other, source="127.20.0.1"), 401, "a wrong token of another id")
    checks.equal(client.status("/metrics", wrong, source="127.20.0.2"), 401, "a wrong token from another address")
    for header in ("Bearer", "Bearer ", "Basic !!!", "Basic " + base64.b64encode(b"no colon").decode(), "Digest x", "Bearer " + "a" * 5000,
                   "Basic " + base64.b64encode(b"u:" + wrong.encode()).decode()):
        checks.equal(client.status("/metrics", header=header, source="127.20.0.3"), 401, f"Authorization: {header[:40]}")
    checks.equal(client.status("/metrics", header="Basic " + base64.b64encode(b"me:" + right.encode()).decode(), source="127.20.0.4"), 200,
                 "the token as a password")


def broke_off(answer, seconds):
    """None when an answer that has no end breaks off within so many seconds; else what happened instead."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            if not answer.read1(4096):
                return "it ended as a whole one"
    except TimeoutError:
        return "nothing came"
    except (http.client.HTTPException, OSError):
        return None
    return f"it goes on after {seconds} s"


def check_revoked_stream(checks, env, collector, client):
    """A stream of events ends within seconds when its token is revoked, and its answer breaks off instead of ending as a whole one."""
    token = new_token(env, collector.store, "follower")
    connection = http.client.HTTPSConnection("localhost", client.port, timeout=30, context=client.context, source_address=("127.45.0.1", 0))
    connection.request("GET", "/api/v1/events/tail", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    checks.equal((answer.status, answer.readline()[:1]), (200, b":"), "the stream's head")
    harness.time.sleep(2.5)  # it is looked at twice, and stays
    checks.equal(client.status("/api/v1/hosts", token, source="127.45.0.2"), 200, "the token before it is revoked")
    env.run([env.collector, "token", "revoke", "--store", collector.store, "follower"])
    begin = harness.time.monotonic()
    checks.equal(broke_off(answer, 30), None, "the stream of a revoked token")
    took = harness.time.monotonic() - begin
    checks.that(took < 10, f"the stream of a revoked token ended after {took:.1f} s")
    connection.close()
    checks.equal(client.status("/api/v1/events/tail", token, source="127.45.0.3"), 401, "another stream with the revoked token")
    print(f"a stream ended {took:.1f} s after its token was revoked", flush=True)


def check_expired_stream(checks, env, collector, client):
    """The stream of a token that expires while it is open breaks off, too."""
    token = new_token(env, collector.store, "guest", "--expires", "4s")
    begin = time.monotonic()
    connection = http.client.HTTPSConnection("localhost", client.port, timeout=30, context=client.context, source_address=("127.45.0.4", 0))
    connection.request("GET", "/api/v1/events/tail", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    checks.equal((answer.status, answer.readline()[:1]), (200, b":"), "the head of the stream of a token that will expire")
    checks.equal(broke_off(answer, 30), None, "the stream of an expired token")
    took = time.monotonic() - begin
    connection.close()
    env.run([env.collector, "token", "revoke", "--store", collector.store, "guest"])  # an expired one stays in the list until then
    checks.that(2.5 < took < 14, f"the stream of a token of 4 s ended after {took:.1f} s")


def check_old_tls(checks, env, client, collector):
    """TLS 1.2 is refused by the dashboard and by the listener for agents; the same with TLS 1.3 is not."""
    for what, port, name in (("dashboard", client.port, None), ("listener for agents", collector.port, "alpha")):
        for version, wanted in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False)):
            context = ssl.create_default_context(cafile=env.certs / "ca.crt")
            context.maximum_version = version
            if name:
                context.load_cert_chain(env.certs / f"{name}.crt", env.certs / f"{name}.key")
            try:
                with context.wrap_socket(socket.create_connection(("localhost", port), timeout=30, source_address=("127.47.0.1", 0)),
                                         server_hostname="localhost"):
                    shaken = True
            except (ssl.SSLError, ConnectionError):
                shaken = False
            checks.equal(shaken, wanted, f"a handshake of {version.name} with the {what}")


def certificate(client, source):
    with client.context.wrap_socket(socket.create_connection(("localhost", client.port), timeout=30, source_address=(source, 0)),
                                    server_hostname="localhost") as tls:
        return tls.getpeercert()["serialNumber"]


class Machine(Client):
    """The agents' listener, as a machine sees it."""

    def __init__(self, env, port, name):
        super().__init__(env, port)
        self.context.load_cert_chain(env.certs / f"{name}.crt", env.certs / f"{name}.key")


def check_renewal(checks, env, client, collector):
    """A certificate that was replaced is used after a reload; one that cannot be read is not."""
    machine = Machine(env, collector.port, "alpha")
    before, reported = certificate(client, "127.60.0.1"), certificate(machine, "127.60.0.2")
    held = http.client.HTTPSConnection("localhost", collector.port, timeout=60, context=machine.context)
    held.connect()
    env.run([env.collector, "ca", "issue", "--dir", env.certs, "--server", "--name", "later", "--san", "DNS:localhost", "--san", "IP:127.0.0.1"])
    for kind in ("crt", "key"):
        (env.certs / f"later.{kind}").replace(env.certs / f"server.{kind}")
    checks.equal(certificate(client, "127.60.0.1"), before, "the certificate until a reload")
    collector.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: certificate(client, "127.60.0.1") != before, "the new certificate", 30)
    after = certificate(client, "127.60.0.1")
    harness.wait_until(lambda: certificate(machine, "127.60.0.2") == after != reported, "the new certificate for agents", 30)
    held.request("POST", uploads.UPLOAD_PATH, b"", {"Content-Type": "application/x-etwagent-batches"})
    checks.that(held.getresponse().status in (200, 400), "a connection of before goes on")
    held.close()
    later, _ = test_tracegen.generate(env.build, env.folder, "later", "--preset", "attack", "--duration-ms", "100")
    env.replay([later], collector, agent="alpha", spool=env.folder / "alpha-later")
    checks.equal(len(collector.ask_json("hosts", "--host", "alpha")["streams"]), 2, "runs of an agent that connects anew")
    whole = (env.certs / "server.crt").read_bytes()
    (env.certs / "server.crt").write_bytes(whole[:100])
    collector.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: "the dashboard's certificate stays as it was" in collector.log(), "the refusal of half a certificate", 30)
    checks.equal(certificate(client, "127.60.0.1"), after, "the certificate when the file is broken")
    (env.certs / "server.crt").write_bytes((env.certs / "alpha.crt").read_bytes())
    collector.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: "found one for a client, as agents have" in collector.log(), "the refusal of an agent's certificate", 30)
    checks.equal(certificate(client, "127.60.0.1"), after, "the certificate when the file has an agent's")
    (env.certs / "server.crt").write_bytes(whole)


def check_connections(checks, client):
    """An address has so many connections at a time, silent ones too; others are not concerned."""
    # their handshakes are finished: of unfinished ones an address may have fewer
    held = [client.context.wrap_socket(socket.create_connection(("localhost", client.port), timeout=30, source_address=("127.50.0.1", 0)),
                                       server_hostname="localhost") for _ in range(MOST_CONNECTIONS)]
    harness.time.sleep(0.5)  # they are accepted in this order, but by another thread
    try:
        status = client.status("/metrics", source="127.50.0.1")
        checks.that(False, f"one connection too many was answered: {status}")
    except (http.client.HTTPException, OSError):
        checks.that(True, "one too many")
    checks.equal(client.status("/metrics", source="127.50.0.2"), 401, "a connection of another address")
    for connection in held:
        connection.close()
    def is_free():
        try:
            return client.status("/metrics", source="127.50.0.1") == 401
        except (http.client.HTTPException, OSError):
            return False
    harness.wait_until(is_free, "a connection of that address when the others are gone", 60)


def check_browser(checks, env, client, token):
    """A token as a password in a real Chromium."""
    world = env.folder / "login.json"
    world.write_text(json.dumps({"url": f"https://localhost:{client.port}/", "chromium": test_dashboard.browser(), "token": token,
                                 "wrong": token[:-1] + ("0" if token[-1] != "0" else "1"), "seen": "alpha", "unseen": "beta"}))
    done = subprocess.run(["node", test_dashboard.BROWSER / "login.mjs", world], cwd=test_dashboard.packages(env), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300)
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    for word, _, what in lines:
        if word in ("ok", "FAILED"):
            checks.that(word == "ok", f"in a browser: {what}")
    checks.that(done.returncode == 0 and len(lines) >= 9, f"the browser's script: {done.stdout[-2000:]}")


def check_audit(checks, env, client, collector):
    """A line each, as JSON, whatever is in a path. The token is a new one: of one token, so many refusals a minute are written."""
    token = new_token(env, collector.store, "asker")
    evil = "/api/v1/hosts/%0a%7b%22token%22:%22admin%22%7d%1b%5b31m%00%ff/processes"
    client.ask(evil, token, source="127.30.0.1")
    client.ask("/<script>'\"%0d%0a", token, source="127.30.0.1")
    sql = "SELECT 'it''s \u00e9', '" + "x" * 2000 + "'"
    client.ask("/api/v1/sql", token, method="POST", body={"sql": sql}, source="127.30.0.1")
    client.ask("/api/v1/hosts?q=%41lp&limit=7", token, source="127.30.0.1")
    granted, refused = (collector.store / name for name in ("audit.jsonl", "audit-refused.jsonl"))
    raw = granted.read_bytes() + refused.read_bytes()
    lines = [json.loads(line) for line in raw.decode().splitlines()]
    mine = [entry for entry in lines if entry.get("address") == "127.30.0.1"]
    checks.equal([entry["status"] >= 400 for entry in mine], [False, False, True, True], f"lines of four requests: {mine}")
    checks.that(all(entry["token"] == "asker" for entry in mine), f"{mine}")
    asked, listed = mine[:2]
    checks.equal((asked["path"], asked["sql"], asked["sql_bytes"], asked["sql_sha256"]),
                 ("/api/v1/sql", sql.encode()[:1024].decode(), len(sql.encode()), hashlib.sha256(sql.encode()).hexdigest()), "a statement in the audit log")
    checks.equal((listed["path"], listed["query"]), ("/api/v1/hosts", "q=%41lp&limit=7"), "a query string in the audit log")
    for file, is_refused in ((granted, False), (refused, True)):
        entries = [json.loads(line) for line in file.read_text().splitlines()]
        checks.that(all((entry.get("status", 0) >= 400) == is_refused for entry in entries if "first_kept" not in entry), f"what is in {file.name}")
        checks.equal(file.stat().st_mode & 0o777, 0o600, f"mode of {file.name}")
    checks.that(not any(entry.get("status") == 429 for entry in lines), "requests above a rate in the audit log")
    done = env.run([env.collector, "audit", "verify", "--store", collector.store])
    checks.that(re.search(r"^audit.jsonl: \d+ lines in 1 files, numbers 1 to \d+$", done.stdout, re.M), f"audit verify: {done.stdout}")
    checks.that(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw), "control characters in the audit log")
    checks.that(all("time" in entry and ("path" in entry or "note" in entry) for entry in lines), "what an entry has")
    secret = token.split("_")[2].encode()
    for file in collector.store.rglob("*"):
        if file.is_file():
            checks.that(secret not in file.read_bytes(), f"the token itself is in {file.name}")
    checks.equal((collector.store / "tokens").stat().st_mode & 0o77, 0, "who else may read the tokens' file")
    checks.that([e for e in lines if e.get("note") == "token added" and e.get("token") == "asker"], "the making of a token")


def check_commands(checks, env, collector, client, tokens):
    store = collector.store
    listed = json.loads(env.run([env.collector, "token", "list", "--store", store, "--json"]).stdout)["tokens"]
    checks.equal({(t["name"], t["scope"], t["hosts"]) for t in listed},
                 {("prometheus", "metrics", ""), ("group", "read", "al*,gamma"), ("reader", "read", ""), ("asker", "read", ""), ("boss", "admin", ""), ("analyst", "respond", ""), ("operator", "operate", ""), ("responder", "respond", "al*")}, "the tokens")
    reported = json.loads(client.ask("/api/v1/tokens", tokens["admin"], source="127.40.0.1")[1])["items"]
    checks.equal({t["expires_seconds"] for t in reported}, {None}, "when the tokens expire")
    checks.equal({t["id"] for t in reported}, {t["id"] for t in listed}, "tokens that an admin sees")
    checks.that(not any("hash" in json.dumps(t) for t in reported), "hashes that an admin sees")
    for name, more in (("reader", []), ("a b", []), ("x\n", []), ("m", ["--scope", "metrics", "--hosts", "a"]), ("y", ["--hosts", "a b"]), ("z" * 70, [])):
        done = env.run([env.collector, "token", "add", "--store", store, "--name", name, *more], check=False)
        checks.equal((done.returncode, done.stdout), (2, ""), f"a token {name!r} {more}")
    checks.equal(env.run([env.collector, "token", "revoke", "--store", store, "absent"], check=False).returncode, 1, "revoking an unknown token")
    env.run([env.collector, "token", "revoke", "--store", store, "reader"])
    short = new_token(env, store, "short", "--expires", "2s")
    expires = next(t["expires"] for t in json.loads(env.run([env.collector, "token", "list", "--store", store, "--json"]).stdout)["tokens"] if t["name"] == "short")
    checks.equal(client.status("/api/v1/hosts", short, source="127.40.0.4"), 200, "a token before it expires")
    time.sleep(2.1)
    status, text, _ = client.ask("/api/v1/hosts", short, source="127.40.0.4")
    checks.that(status == 401 and f"the token expired at {expires}" in text, f"an expired token: {status} {text}, expected that it expired at {expires}")
    checks.that("short, since" in (text := env.run([env.collector, "token", "list", "--store", store]).stdout) and f", expired {expires}" in text, f"the list: {text}")
    checks.equal(client.status("/api/v1/hosts", tokens["read"], source="127.40.0.2"), 401, "a revoked token, at once")
    (store / "tokens").chmod(0o644)
    checks.equal(client.status("/api/v1/hosts", tokens["admin"], source="127.40.0.3"), 503, "a tokens' file that others may read")
    (store / "tokens").chmod(0o600)


def test(env, checks, _):
    env.make_certificates(["alpha", "beta"])
    collector = env.new_collector(extra=["--web", "0.0.0.0:0", "--web-tokens", "--max-web-address-connections", MOST_CONNECTIONS]).start()
    port = int(re.search(r"dashboard on https://0.0.0.0:(\d+)/", collector.log()).group(1))
    client = Client(env, port)
    for agent in ("alpha", "beta"):
        env.replay(traces.paths(TRACE, env.build), collector, agent=agent, spool=env.folder / agent)
    other, _ = test_tracegen.generate(env.build, env.folder, "attack", "--preset", "attack", "--duration-ms", "300")
    env.replay([other], collector, agent="beta", spool=env.folder / "beta-other")
    collector.ask("ps", "--host", "beta", "--at", "end")  # the history is there then
    tokens = {"none": None, "metrics": new_token(env, collector.store, "prometheus", "--scope", "metrics"),
              "group": new_token(env, collector.store, "group", "--hosts", "al*,gamma"),
              "read": new_token(env, collector.store, "reader"), "respond": new_token(env, collector.store, "analyst", "--scope", "respond"),
              "operate": new_token(env, collector.store, "operator", "--scope", "operate"),
              "admin": new_token(env, collector.store, "boss", "--scope", "admin")}
    count = check_scopes(checks, client, tokens)
    check_group(checks, client, tokens["group"])
    check_detections(checks, env, client, collector, tokens["group"])
    check_classes(checks, client, tokens["read"], tokens["group"])
    check_limits(checks, client, tokens["admin"])
    check_audit(checks, env, client, collector)
    check_revoked_stream(checks, env, collector, client)
    check_expired_stream(checks, env, collector, client)
    check_old_tls(checks, env, client, collector)
    checks.equal(client.ask("/", tokens["read"], source="127.46.0.1")[2].getheader("Strict-Transport-Security"), "max-age=31536000", "HSTS with TLS")
    check_browser(checks, env, client, tokens["group"])
    check_connections(checks, client)
    check_renewal(checks, env, client, collector)
    check_commands(checks, env, collector, client, tokens)
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        plain.request("GET", "/metrics", headers={"Authorization": f"Bearer {tokens['admin']}"})
        checks.that(plain.getresponse().status not in (200, 401), "an answer without TLS")
    except (http.client.HTTPException, OSError):
        checks.that(True, "no answer without TLS")
    collector.stop()
    for more in (["--web", "0.0.0.0:0"], ["--web", "[::]:0"], ["--web", "192.0.2.1:0"]):
        refused = env.run([env.collector, "run", "--store", env.folder / "other", "--listen", "127.0.0.1:0", "--cert", env.certs / "server.crt",
                           "--key", env.certs / "server.key", "--ca", env.certs / "ca.crt", *more], check=False)
        checks.equal(refused.returncode, 2, f"everybody, without tokens: {more}")
    print(f"{count} requests of 7 kinds of askers to {len(routes())} paths: each got what its scope is for")


if __name__ == "__main__":
    harness.main(test, __doc__)
