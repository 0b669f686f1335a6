"""`etwcollector detections send`: new detections to a receiver by HTTP POST, by syslog (TLS, TCP, UDP) and by mail (SMTP, TLS, STARTTLS). The receiver is the test's own: it accepts, refuses,
fails, closes, and is killed for; each detection has to arrive, in order, with what `detections list` prints of it, and no secret of the URL in a message. Those
that are not wanted are passed over once. The process that talks to the receiver is confined.
"""
# sanitizers: asan-ubsan
import base64
import email
import email.policy
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


class MailServer:
    """Takes mails. context: of TLS, from the begin or by STARTTLS. Answers of commands can be given, once each."""

    def __init__(self, context=None, starts=False):
        self.got, self.context, self.starts, self.answers = [], context, starts, {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            if self.context and not self.starts:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.talk(connection, self.context and not self.starts)
        except OSError:
            pass

    def talk(self, connection, is_safe):
        said, lines = {"login": None, "rcpt": [], "is_safe": bool(is_safe)}, connection.makefile("rb")

        def answer(text):
            connection.sendall(text.encode() + b"\r\n")
        answer("220 test")
        while line := lines.readline():
            word = line[:4].decode().upper()
            if word in self.answers:
                answer(self.answers.pop(word))
            elif word == "EHLO":
                answer("250-test\r\n" + ("250-STARTTLS\r\n" if self.starts and not said["is_safe"] else "") + "250 AUTH PLAIN")
            elif word == "STAR":
                answer("220 go")
                connection = self.context.wrap_socket(connection, server_side=True)
                lines, said["is_safe"] = connection.makefile("rb"), True
            elif word == "AUTH":
                answer("334 ")
                said["login"] = base64.b64decode(lines.readline())
                answer("235 ok")
            elif word == "DATA":
                answer("354 go")
                data = b""
                while (line := lines.readline()) not in (b".\r\n", b""):
                    data += line
                if "END" in self.answers:
                    answer(self.answers.pop("END"))
                else:
                    self.got.append((said, data))
                    answer("250 taken")
            elif word == "QUIT":
                answer("221 bye")
                return
            else:
                said["rcpt"] += [line.decode().strip()] if word in ("MAIL", "RCPT") else []
                answer("250 ok")

    def take(self):
        got, self.got = self.got, []
        return [(said, data, email.message_from_bytes(data, policy=email.policy.default)) for said, data in got]


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
    for i in range(30):  # until it has sent enough before the sender looks
        process = subprocess.Popen(command("--receiver", f"flood-{i}", "--all", "--once", to=f"syslog+tcp://127.0.0.1:{flood.port}"), stderr=subprocess.PIPE, text=True)
        killer = threading.Timer(SECONDS, process.kill)
        killer.start()
        said = process.stderr.readline()
        killer.cancel()
        process.kill()
        process.communicate()
        if said:
            break
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


def test_mail(env, checks, store, command, send):
    """One mail for all that is new, to a server that has TLS unless it is this machine, and what the server says of it."""
    plain, mail = MailServer(), ("--mail-from", "etw@example.org", "--mail-to", "soc@example.org", "--mail-to", "duty@example.org")
    to = f"smtp://127.0.0.1:{plain.port}"
    said = send("--receiver", "mail", "--all", *mail, to=to).stdout
    db = sqlite3.connect(store / "alarms.db", timeout=60)
    count = db.execute("SELECT count(*) FROM detections").fetchone()[0]
    db.close()
    (talk, data, message), = plain.take()
    checks.equal((talk["rcpt"], talk["login"]), (["MAIL FROM:<etw@example.org>", "RCPT TO:<soc@example.org>", "RCPT TO:<duty@example.org>"], None), "who sends and gets it")
    checks.equal((message["From"], message["To"], message["Subject"]), ("etw@example.org", "soc@example.org, duty@example.org", f"etwcollector: {count} detections, highest level critical"), "the head")
    checks.that(message["Date"].datetime.tzinfo and message["Message-ID"].endswith(".etwcollector@example.org>") and f"{count} detections were sent" in said, f"{dict(message)}: {said}")
    checks.that(max(map(len, data.split(b"\r\n"))) <= 78 and data.isascii(), "lines of a mail")
    body = message.get_content()
    checks.that('1  2024-05-03T10:00:00.0000000Z  pc  high: a "title"\n    rule: r.yml:1\n    {"Image": "x"}\n\n' in body, f"a detection: {body[:400]}")
    checks.that(len(body) < 40000 and " ...\n" in body, "long fields are cut")
    send("--receiver", "mail", *mail, to=to)
    checks.equal(plain.take(), [], "nothing is sent twice")

    # many: a hundred are listed; what a title holds stays in the text
    db = sqlite3.connect(store / "alarms.db", timeout=60)
    with db:
        db.executemany("INSERT INTO detections(detection_id, host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, who, comment, pid, process) "
                       "VALUES(?, 'pc', 's', 1, ?, 'r', 'b\r\nBcc: all@example.org \u00e9', 'low', 'r.yml:1', 1714730400000000000, 2, '{}', 'open', '', '', 7, 'x.exe')", [(n, n) for n in range(1001, 1106)])
    db.close()
    plain.answers = {"RCPT": "451 later"}
    said = send("--receiver", "mail", *mail, to=to)
    (_, _, message), = plain.take()
    body = message.get_content()
    checks.equal((message["Subject"], message["Bcc"], body.count("r.yml:1"), "\n5 more are not listed.\n" in body), ("etwcollector: 105 detections, highest level low", None, 100, True), "many")
    checks.that("process: 7 x.exe" in body and "a mail with 105 detections up to 1105 is sent again: " in said.stderr and "451" in said.stderr and "105 detections were sent" in said.stdout, f"{said.stderr} {said.stdout}")
    add(store, 1200, "high")
    for where in ("RCPT", "DATA"):  # the server does not take it from this sender: it may later
        plain.answers = {where: "554 relay access denied"}
        said = send("--receiver", "mail", *mail, to=to)
        checks.that("detection 1200 is sent again: " in said.stderr and "last answer: 554" in said.stderr and len(plain.take()) == 1, f"554 for {where}: {said.stderr}")
        db = sqlite3.connect(store / "alarms.db", timeout=60)
        with db:
            db.execute("UPDATE detections_sent SET number = 1199 WHERE name = 'mail'")
        db.close()
    plain.answers = {"END": "554 never"}
    said = send("--receiver", "mail", *mail, to=to)
    checks.that("detection 1200 is skipped: " in said.stderr and not plain.take(), f"refused for good: {said.stderr}")

    # TLS: from the begin, by STARTTLS; required
    login = env.folder / "login"
    login.write_text("etw\npass word\n")
    env.run([env.collector, "ca", "issue", "--dir", env.certs, "--server", "--name", "mail", "--san", "DNS:mail.localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(env.certs / "mail.crt", env.certs / "mail.key")
    safe, starts = MailServer(context), MailServer(context, starts=True)
    for name, server, url in (("by-smtps", safe, f"smtps://mail.localhost:{safe.port}"), ("by-starttls", starts, f"smtp://mail.localhost:{starts.port}/")):
        send("--receiver", name, "--all", "--level", "critical", "--login", login, "--ca", env.certs / "ca.crt", *mail, to=url)
        checks.equal([(talk["login"], talk["is_safe"]) for talk, *_ in server.take()], [(b"\0etw\0pass word", True)], name)
    for name, port, why in (("no-tls", plain.port, "TLS"), ("unknown-ca", starts.port, "certificate")):
        process = subprocess.Popen(command("--receiver", name, "--all", "--once", "--login", login, *mail, to=f"smtp://mail.localhost:{port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = process.stderr.readline()
        process.kill()
        process.communicate()
        checks.that("is sent again: send to mail.localhost port" in said and not plain.got and not starts.got, f"{why}: {said}")

    # while it runs: what comes within the time is one mail
    process = subprocess.Popen(command("--receiver", "mail", "--digest", "3s", *mail, to=to), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for number in (1301, 1302):
        add(store, number, "high")
    harness.wait_until(lambda: plain.got, "a mail", SECONDS, lambda: "none")
    process.send_signal(signal.SIGTERM)
    checks.that("2 detections were sent" in process.communicate(timeout=SECONDS)[0] and len(plain.take()) == 1, "one mail for two")
    for words, said in ((("--mail-to", "a@b"), "expected --mail-from"), (("--mail-from", "a@b"), "expected --mail-to"), ((*mail[:2], "--mail-to", "a@b>\nx"), "expected --mail-to"),
                        ((*mail[:2], "--mail-to", "a b@c"), "expected --mail-to"), ((*mail, "--login", env.certs / "ca.crt"), "the login file: expected")):
        checks.that(said in (got := send(*words, to=to, code=2).stderr), f"{words}: {got}")
    for wrong in ("smtp://", "smtp://u:p@h", "smtps://h:0", "smtp://h/x"):
        checks.that("expected smtp://HOST:PORT" in (got := send(*mail, to=wrong, code=2).stderr), f"{wrong}: {got}")


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
    checks.that("another command sends to the receiver webhook" in send(code=1).stderr, "one place is one command's")
    process.send_signal(signal.SIGTERM)
    checks.that("1 detections were sent" in process.communicate(timeout=SECONDS)[0] and process.returncode == 0, "ends when it is asked to")
    checks.equal([number for _, number, *_ in receiver.take()], [8], "while it runs")

    # TLS
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
    test_mail(env, checks, store, command, send)
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
