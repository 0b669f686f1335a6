"""`etwcollector detections send`: new detections to a receiver by HTTP POST and by syslog (TLS, TCP, UDP). The receiver is the test's own: it accepts, refuses,
fails, closes, and is killed for; each detection has to arrive, in order, with what `detections list` prints of it, and no secret of the URL in a message. Those
that are not wanted are passed over once. The process that talks to the receiver is confined.
"""
# sanitizers: asan-ubsan
import http.server
import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading

import harness

import test_rules_test as one
import test_sandbox as sandbox
import test_single_records as single

SECRET = "s3cr3t"
CHAIN = [{"stream": "00" * 16, "instance": 7, "pid": 4, "image_name": "x.exe", "command_line": "x é", "account": None, "begin": None}]
SECONDS = 60


class Receiver:
    """Answers with the statuses that are given, then with 204."""

    def __init__(self, context=None):
        receiver = self
        self.got, self.statuses = [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                receiver.got.append((status, body["number"], body, dict(self.headers), self.path))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        got, self.got = self.got, []
        return got


class SyslogReceiver:
    """Splits a stream into messages by their counts. Refuses connections until it listens."""

    def __init__(self, context=None, listens=True, floods=False):
        self.got, self.context, self.floods = [], context, floods
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        if listens:
            self.listen()

    def listen(self):
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        data = b""
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            while self.floods:
                connection.sendall(bytes(1 << 20))
            while more := connection.recv(1 << 16):
                data += more
                while match := re.match(rb"([1-9]\d*) ", data):
                    end = match.end() + int(match.group(1))
                    if len(data) < end:
                        break
                    self.got.append(data[match.end() : end])
                    data = data[end:]
        except OSError:
            pass

    def take(self, count):
        harness.wait_until(lambda: len(self.got) >= count, f"{count} messages", SECONDS, lambda: f"{len(self.got)}")
        got, self.got = self.got, []
        return got


RFC5424 = re.compile(rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\S+) (\S+) - (\S+) - (\{.*\})", re.S)


def parse(message):
    match = RFC5424.fullmatch(message)
    if not match or any(byte < 0x20 or byte > 0x7e for byte in message):
        raise harness.Failure(f"no message of RFC 5424 in ASCII: {message}")
    return int(match.group(1)), *(part.decode() for part in match.groups()[1:5]), json.loads(match.group(6))


def test_syslog(env, checks, store, command, send, listed):
    """The place is that of all receivers: what a killed or refused attempt leaves is sent again."""
    plain = SyslogReceiver()
    to = f"syslog+tcp://localhost:{plain.port}"
    send("--receiver", "siem", "--all", to=to)
    got = [parse(message) for message in plain.take(9)]
    checks.equal([body["number"] for *_, body in got], list(range(1, 10)), "by TCP, in order")
    checks.equal(got[0], (10 * 8 + 3, "2024-05-03T10:00:00.000000Z", "pc", "etwcollector", "detection", listed), "a message")
    checks.equal([priority - 80 for priority, *_ in got[:4]], [3, 5, 5, 2], "severities of high, low, none, critical")
    send("--receiver", "siem", to=to)
    checks.equal(plain.got, [], "all of it once")
    add(store, 10, "medium")
    later = SyslogReceiver(listens=False)
    process = subprocess.Popen(command("--receiver", "siem", "--facility", "16", to=f"syslog+tcp://127.0.0.1:{later.port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    later.listen()
    checks.equal([(priority, body["number"]) for priority, *_, body in map(parse, later.take(1))], [(16 * 8 + 4, 10)], "once it listens")
    process.send_signal(signal.SIGTERM)
    checks.that("detection 10 is sent again: send to 127.0.0.1 port" in said and "1 detections were sent" in process.communicate(timeout=SECONDS)[0], f"refused: {said}")

    flood = SyslogReceiver(floods=True)
    process = subprocess.Popen(command("--receiver", "flood", "--all", to=f"syslog+tcp://127.0.0.1:{flood.port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(SECONDS, process.kill)
    killer.start()
    said = process.stderr.readline()
    killer.cancel()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    checks.that("is sent again: " in said and "the receiver sends more than 64 KiB" in said, f"a receiver that does not stop sending holds nothing up: {said}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(env.certs / "server.crt", env.certs / "server.key")
    safe = SyslogReceiver(context)
    send("--receiver", "by-tls", "--all", "--level", "critical", "--ca", env.certs / "ca.crt", to=f"syslog+tls://localhost:{safe.port}")
    checks.equal([parse(message)[-1]["number"] for message in safe.take(2)], [3, 4], "by TLS")
    add(store, 11, "critical")
    process = subprocess.Popen(command("--receiver", "by-tls", to=f"syslog+tls://localhost:{safe.port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    process.kill()
    process.communicate()
    checks.that("detection 11 is sent again: send to localhost port" in said and not safe.got, f"a certificate that the system does not trust: {said}")

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.settimeout(SECONDS)
        send("--receiver", "by-udp", "--all", "--level", "critical", to=f"syslog+udp://127.0.0.1:{datagrams.getsockname()[1]}")
        checks.equal([parse(datagrams.recv(1 << 16))[-1]["number"] for _ in range(3)], [3, 4, 11], "by UDP")
        add(store, 12, "critical", 'x' * 66000)
        done = send("--receiver", "by-udp", to=f"syslog+udp://127.0.0.1:{datagrams.getsockname()[1]}")
        checks.that("detection 12 is skipped: " in done.stderr and "too long for UDP" in done.stderr, f"a message that UDP does not carry: {done.stderr}")

    for wrong in ("syslog+tcp://", "syslog+tcp://a:0", "syslog+tcp://a:70000", "syslog+tcp://a b", "syslog+tls://u@h", "syslog+udp://[::1", "syslog+udp://h/x", "syslog://h"):
        checks.that("expected syslog+tls://HOST:PORT" in (said := send(to=wrong, code=2).stderr) or "expected https://HOST/..." in said, f"{wrong}: {said}")


def test_unwanted(checks, store, send, receiver):
    """What the filters leave out is passed over once: its place is kept also when nothing is sent."""
    send("--receiver", "few", "--host", "absent", "--all")
    db = sqlite3.connect(store / "alarms.db", timeout=60)
    checks.equal(db.execute("SELECT number FROM detections_sent WHERE name = 'few'").fetchone(),
                 db.execute("SELECT max(detection_id) FROM detections").fetchone(), "the place after detections that are not wanted")
    db.close()
    checks.equal(receiver.got, [], "nothing of them is sent")


def test_confined(env, checks, store, command, direct):
    """While the receiver does not answer: the process that talks to it has no file of the store."""
    said = json.loads(env.run([env.collector, "doctor", "--store", store, "--json"], check=False).stdout)["checks"]
    is_whole = [c["verdict"] for c in said if c["check"] == "sandbox"] == ["ok"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = subprocess.Popen(command("--receiver", "silent", "--all", to=f"http://127.0.0.1:{silent.getsockname()[1]}/"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=direct)
        silent.settimeout(SECONDS)
        connection, _ = silent.accept()
        worker = sandbox.children(process.pid, "send-worker")[0]
        status = sandbox.status(worker)
        checks.equal((status["NoNewPrivs"], status["Seccomp"] == "2"), ("1", is_whole), "the process that sends: its sandbox")
        files = [os.readlink(entry) for entry in (worker / "fd").iterdir()]
        checks.that(not any(str(store) in name for name in files), f"the process that sends: {files}")
        process.send_signal(signal.SIGTERM)
        checks.that("0 detections were sent" in process.communicate(timeout=SECONDS)[0] and process.returncode == 0, "ends while it waits for an answer")
        connection.close()


def add(store, number, level, image="x"):
    db = sqlite3.connect(store / "alarms.db", timeout=60)
    with db:
        db.execute("INSERT INTO detections(detection_id, host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, who, comment, chain) "
                   "VALUES(?, 'pc', 's', 1, ?, 'r', 'a \"title\"', ?, 'r.yml:1', 1714730400000000000, 2, ?, 'open', '', '', ?)", (number, number, level, json.dumps({"Image": image}), json.dumps(CHAIN)))
    db.close()


def test(env, checks, arguments):
    store, trace = env.folder / "store", env.folder / "pc.etl"
    trace.write_bytes(single.trace(one.RECORDS))
    env.run([env.collector, "ingest", "--store", store, "--host", "pc", trace])
    env.make_certificates()
    receiver = Receiver()
    direct = {**os.environ, "no_proxy": "*", "NO_PROXY": "*"}

    def command(*words, to=f"http://127.0.0.1:{receiver.port}/{SECRET}"):
        return [str(word) for word in (env.collector, "detections", "send", "--store", store, "--to", to, *words)]

    def send(*words, code=0, **options):
        done = env.run(command("--once", *words, **options), check=False, env=direct)
        if done.returncode != code:
            raise harness.Failure(f"detections send {words} ended with {done.returncode}, not {code}: {done.stdout} {done.stderr}")
        checks.that(SECRET not in done.stderr + done.stdout, f"no part of the URL but its host: {done.stderr}")
        return done

    # what comes after the first run is sent, as detections list has it
    checks.that("0 detections were sent" in send().stdout, "nothing is there yet")
    for number, level in ((1, "high"), (2, "low"), (3, "")):
        add(store, number, level)
    headers = env.folder / "headers"
    headers.write_text("Authorization: Bearer abc\r\n\nX-From: us\n")
    checks.that("2 detections were sent, 0 were refused" in send("--level", "medium", "--headers", headers).stdout, "those of a level, and without one")
    got = receiver.take()
    checks.equal([number for _, number, *_ in got], [1, 3], "in order")
    listed = json.loads(env.run([env.collector, "detections", "list", "--store", store, "--json", "--number", "1"]).stdout)["detections"][0]
    checks.equal(listed.pop("rule_text"), None, "the rule's text is not sent")
    _, _, body, sent, path = got[0]
    checks.equal(body, listed, "as detections list")
    checks.equal((body["chain"], body["title"]), (CHAIN, 'a "title"'), "the process and the title")
    checks.equal((sent["Authorization"], sent["X-From"], sent["Content-Type"], path), ("Bearer abc", "us", "application/json", f"/{SECRET}"), "headers and path")
    send()
    checks.equal(receiver.take(), [], "nothing is sent twice")

    # failures
    add(store, 4, "critical")
    receiver.statuses = [503, 302]
    done = send()
    checks.equal([(status, number) for status, number, *_ in receiver.take()], [(503, 4), (302, 4), (204, 4)], "until it is accepted")
    checks.that("detection 4 is sent again: " in done.stderr and "status 503" in done.stderr, f"failures are reported: {done.stderr}")
    add(store, 5, "high")
    add(store, 6, "high")
    receiver.statuses = [422]
    done = send()
    checks.that("1 detections were sent, 1 were refused" in done.stdout and "detection 5 is skipped: " in done.stderr, f"one that is refused for good: {done.stdout} {done.stderr}")
    receiver.take()

    # a password whose / or @ ends it early is not shown as the host
    for to in (f"http://user:{SECRET}/x@127.0.0.1:1/", f"http://user:a@{SECRET}@127.0.0.1:1/", "http://:1/", "http://[::1/"):
        checks.that("expected https://HOST/..." in send(to=to, code=2).stderr, f"no host: {to}")

    # killed while it tries: the next run sends the same; another receiver has a place of its own
    add(store, 7, "high")
    receiver.statuses = [500] * 1000
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=direct)
    harness.wait_until(lambda: receiver.got, "an attempt", SECONDS, lambda: "none")
    process.kill()
    process.communicate()
    receiver.statuses = []
    receiver.take()
    send()
    checks.equal([number for _, number, *_ in receiver.take()], [7], "after a kill")
    send("--receiver", "other", "--all")
    checks.equal([number for _, number, *_ in receiver.take()], [1, 2, 3, 4, 5, 6, 7], "another receiver, with all that is there")
    send("--receiver", "other", "--all")
    checks.equal(receiver.take(), [], "all of it once")

    # new ones while it runs; it ends in order
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=direct)
    add(store, 8, "high")
    harness.wait_until(lambda: receiver.got, "a new detection", SECONDS, lambda: "none")
    process.send_signal(signal.SIGTERM)
    checks.that("1 detections were sent" in process.communicate(timeout=SECONDS)[0] and process.returncode == 0, "ends when it is asked to")
    checks.equal([number for _, number, *_ in receiver.take()], [8], "while it runs")

    # TLS
    flood = SyslogReceiver(floods=True)
    process = subprocess.Popen(command("--receiver", "flood", "--all", to=f"syslog+tcp://127.0.0.1:{flood.port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(SECONDS, process.kill)
    killer.start()
    said = process.stderr.readline()
    killer.cancel()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    checks.that("is sent again: " in said and "the receiver sends more than 64 KiB" in said, f"a receiver that does not stop sending holds nothing up: {said}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(env.certs / "server.crt", env.certs / "server.key")
    safe = Receiver(context)
    add(store, 9, "high")
    send("--receiver", "other", "--ca", env.certs / "ca.crt", to=f"https://localhost:{safe.port}/{SECRET}")
    checks.equal([number for _, number, *_ in safe.take()], [8, 9], "by TLS")
    process = subprocess.Popen(command("--receiver", "third", "--all", to=f"https://localhost:{safe.port}/{SECRET}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=direct)
    said = process.stderr.readline()
    process.kill()
    process.communicate()
    checks.that("detection 1 is sent again: send to localhost:" in said and not safe.take(), f"a certificate that the system does not trust: {said}")

    test_syslog(env, checks, store, command, send, listed)
    test_unwanted(checks, store, send, receiver)
    test_confined(env, checks, store, command, direct)

    # what cannot be used
    bad = env.folder / "bad"
    for text in ("no header\n", ": x\n", "A: b\rC: d\n"):
        bad.write_bytes(text.encode())
        send("--headers", bad, code=2)
    send(code=2, to="ftp://127.0.0.1/x")
    send("--level", "grave", code=2)


if __name__ == "__main__":
    harness.main(test, __doc__)
