"""`etwcollector sink run --kind splunk`: stored events to an HTTP Event Collector, a server of the test that answers as Splunk's documentation says. It loses requests
and answers, is busy, acknowledges late or never, and refuses single events; the sender is killed. Then each stored event is at the receiver once, after dropping by `row`, with
what `export` prints of it, and the counts of `sink status` add up.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 31: Rows for Splunk count as sent when its acknowledgement says that they are indexed. | acknowledgements that come late or never, 3 kills of the
#   sender; events compared with `export`; a server of the test, not Splunk | 2026-11-28
import http.server
import json
import random
import re
import signal
import subprocess
import threading
import time

import harness
import kernel_records as kernel
import test_rules_test as one
import test_single_records as single
import test_sinks as sinks

SECONDS = 60
EVENTS = 600
KILLS = 3
TOKEN = "7c0ffee0-0000-4000-8000-00000000beef"
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Receiver:
    """A server whose `post` answers; seen: accepted rows by name, each as often as it came."""

    kind, path = "", ""

    def __init__(self, context=None):
        self.lock = threading.Lock()
        self.act = lambda handler: None  # 1: it has answered itself
        self.clear()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    receiver.requests += 1
                    receiver.post(self, body)

            def answer(self, status, body, **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def cut(self):
                self.close_connection = True
                self.connection.close()
                return 1

            def log_message(self, *words):
                pass

        self.server = sinks.Server(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def clear(self):
        with self.lock:
            self.seen, self.order, self.requests = {}, [], 0

    def take(self, rows):
        for name, row in rows:
            self.seen[name] = self.seen.get(name, 0) + 1
            self.order.append(row)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Splunk(Receiver):
    """Source: Splunk Enterprise, Getting Data In, HTTP Event Collector: formats, error codes, acknowledgement. An acknowledgement is given once."""

    kind, path = "splunk", "/services/collector/event"

    def __init__(self, has_acks=False, context=None):
        self.has_acks, self.acks, self.delay, self.poison, self.channels = has_acks, {}, 0, lambda event: 0, {}
        self.never, self.polls, self.cookies = lambda: False, 0, []
        super().__init__(context)

    def post(self, handler, body):
        say = lambda status, code, text, **more: handler.answer(status, json.dumps({"text": text, "code": code, **{k.replace("_", "-"): v for k, v in more.items()}}).encode())
        words = handler.headers.get("Authorization", "").split()
        if not words:
            return say(401, 2, "Token is required")
        if words != ["Splunk", TOKEN]:
            return say(403, 4, "Invalid token")
        path, _, query = handler.path.partition("?")
        channel = handler.headers.get("X-Splunk-Request-Channel")
        if path == "/services/collector/ack":
            return self.acknowledge(handler, query, body)
        if self.has_acks and not channel:
            return say(400, 10, "Data channel is missing")
        if self.act(handler):
            return None
        events, at, text = [], 0, body.decode()
        while at < len(text):
            event, at = json.JSONDecoder().raw_decode(text, at)
            at += len(text[at:]) - len(text[at:].lstrip())
            code = self.wrong(event)
            if code:
                return say(400, code, "Incorrect index" if code == 7 else "Invalid data format \u001b[31m", invalid_event_number=len(events))
            events.append(event)
        if not events:
            return say(400, 5, "No data")
        ack = self.channels.setdefault(channel, 0)
        self.channels[channel] += 1
        if not self.never():
            self.acks[channel, ack] = time.monotonic() + self.delay
            self.take([(event["fields"]["row"], event) for event in events])
        answer = {"text": "Success", "code": 0, **({"ackId": ack} if self.has_acks else {})}
        return handler.answer(200, json.dumps(answer).encode(), Set_Cookie="server=1")

    def wrong(self, event):
        if "event" not in event:
            return 12
        if event["event"] in ("", None):
            return 13
        if not all(isinstance(value, str) and value for value in event.get("fields", {}).values()):
            return 15
        if event.get("index", "main") not in ("main", "etw"):
            return 7
        if not isinstance(event["time"], (int, float)) or not set(event) <= {"time", "host", "source", "sourcetype", "index", "fields", "event"}:
            return 6
        return self.poison(event)

    def acknowledge(self, handler, query, body):
        self.polls += 1
        self.cookies.append(handler.headers.get("Cookie"))
        channel, asked = query.removeprefix("channel="), json.loads(body)["acks"]
        is_indexed = {str(ack): self.acks.get((channel, ack), float("inf")) <= time.monotonic() for ack in asked}
        for ack in asked:
            if is_indexed[str(ack)]:
                del self.acks[channel, ack]
        return handler.answer(200, json.dumps({"acks": is_indexed}).encode())


class World(sinks.World):
    def command(self, name, receiver, *words, scheme="http", host="127.0.0.1", retry=("2ms", "20ms"), path=None):
        return [str(word) for word in (self.env.collector, "sink", "run", "--store", self.store, "--name", name, "--kind", receiver.kind,
                                       "--to", f"{scheme}://{host}:{receiver.port}{receiver.path if path is None else path}", "--retry-min", retry[0], "--retry-max", retry[1], *words)]

    def killed(self, name, receiver, *words):
        """The sender, KILLS times; then it runs to its end."""
        for _ in range(KILLS):
            before = receiver.requests
            process = subprocess.Popen(self.command(name, receiver, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sinks.DIRECT)
            harness.wait_until(lambda b=before: receiver.requests > b + 2, "requests", SECONDS)
            process.send_signal(signal.SIGKILL)
            process.wait()
        return self.run(name, receiver, *words)

    def matches(self, rows, what):
        """The rows of the other kinds are those of export."""
        for host, expected in self.events().items():
            self.checks.equal([sinks.plain(row) for row in sorted(rows, key=sinks.place) if row["host"] == host], expected, f"{what}: rows of {host} are those of export")


def splunk(world, checks, headers):
    receiver = Splunk()
    world.run("hec", receiver, "--all", "--headers", headers, "--index", "etw", "--rows", "100")
    world.matches([event["event"] for event in receiver.order], "splunk")
    for event in receiver.order:
        row = event["event"]
        wrong = (event["host"] != row["host"] or event["index"] != "etw" or event["sourcetype"] != "_json" or event["source"] != (row["provider_name"] or row["provider"]) or
                 event["fields"].get("row") != row["row"] or event["fields"].get("name", "") != row["name"] or event["fields"].get("process") != row["process"])
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(event["time"]))) + f".{round(event['time'] % 1 * 1000):03d}"
        if wrong or seconds != row["time"][:23]:
            checks.that(False, f"what is around an event: {seconds} {event}")
    status = world.balanced("hec", "all is sent")
    checks.equal((len(receiver.seen), max(receiver.seen.values()), receiver.polls, status["sent"]), (world.stored(), 1, 0, world.stored()), "each once; a token without acknowledgement")

    receiver.clear()
    receiver.poison = lambda event: 6 if event["event"]["position"] % 97 == 5 else 0
    world.run("poison", receiver, "--all", "--headers", headers)
    status = world.balanced("poison", "single events are refused")
    poisoned = world.stored() - len(receiver.seen)
    checks.that(0 < poisoned == status["refused"] and all(event["event"]["position"] % 97 != 5 for event in receiver.order), f"the refused ones alone: {status}")
    checks.that("Invalid data format" in status["last_refusal"] and "code" not in status["last_refusal"], f"with the reason: {status['last_refusal']}")
    receiver.poison = lambda event: 0
    for name, words, said in (("token", [], "Token is required"), ("index", ["--headers", headers, "--index", "secret"], "Incorrect index")):
        receiver.clear()
        done = world.run(name, receiver, "--all", *words, code=1)
        status = world.balanced(name, said)
        checks.that(said in done.stderr and (status["sent"], status["refused"]) == (0, 0), f"what is no event's fault refuses none: {status} {done.stderr}")
    for path in ("", "/", "/services/collector/raw", "/services/collectors", "/?/services/collector"):
        checks.that("/services/collector/event" in world.run("path", receiver, "--headers", headers, path=path, code=2).stderr, f"the path of the URL: {path}")
    receiver.stop()


def acknowledged(world, checks, headers):
    """A token with acknowledgement: rows count when they are indexed."""
    dice, receiver = random.Random(4), Splunk(True)

    def act(handler):
        kind = dice.randrange(8)
        if kind == 0:
            return handler.cut()
        if kind == 1:
            handler.answer(503, b'{"text":"Server is busy","code":9}')
        elif kind == 2:
            handler.answer(200, dice.choice([b"<html>", b'{"code":0', b'{"text":"Success"}', b'{"code":"0","ackId":1}']))
        elif kind == 3:
            handler.answer(429, b"", Retry_After="0")
        return 0 < kind < 4

    receiver.act, receiver.delay = act, 0.01
    receiver.never = lambda: dice.randrange(12) == 0  # what an indexer that fails had
    world.killed("ack", receiver, "--all", "--headers", headers, "--rows", "100", "--ack-timeout", "200ms")
    status = world.balanced("ack", "acknowledged")
    checks.equal((len(receiver.seen), status["sent"]), (world.stored(), world.stored()), f"all is indexed: {status}")
    checks.that(receiver.polls > len(receiver.acks) and "server=1" in receiver.cookies, "acknowledgements were asked for, with the balancer's cookies")
    checks.that(len(receiver.channels) > KILLS and all(GUID.fullmatch(channel) for channel in receiver.channels), f"each run has a channel: {receiver.channels}")
    world.matches(list({event["event"]["row"]: event["event"] for event in receiver.order}.values()), "after kills")

    receiver.clear()
    receiver.act, receiver.never = (lambda handler: None), (lambda: True)
    done = world.run("lost", receiver, "--all", "--headers", headers, "--ack-timeout", "100ms", code=1)
    checks.that("not acknowledged as indexed" in done.stderr and world.balanced("lost", "no acknowledgement")["sent"] == 0, f"nothing counts: {done.stderr}")
    for answer in (b'{"acks":{"0":"true"}}', b"{" * 60000):
        receiver.acknowledge = lambda handler, query, body, a=answer: handler.answer(200, a)
        world.run("lost", receiver, "--all", "--headers", headers, "--ack-timeout", "100ms", code=1)
        checks.equal(world.status("lost")["sent"], 0, f"no acknowledgement: {answer[:40]}")
    receiver.stop()


def test(env, checks, arguments):
    world = World(env, checks)
    world.ingest("a", [one.process(4, 0, "System", "", 900), one.process(90, 4, "start.exe", "start.exe", 1000)] +
                 [one.process(100 + 4 * i, 90, "shell.exe", f"shell.exe /n {i} \u00e9\U0001f600", 2000 + 10 * i) if i % 3 else kernel.image(90, one.BASE + 0x1000 * i, 0x1000, f"x{i}.dll", 2000 + 10 * i)
                  for i in range(EVENTS)])
    world.ingest("b", one.RECORDS)
    headers = env.folder / "hec.headers"
    headers.write_text(f"Authorization: Splunk {TOKEN}")
    splunk(world, checks, headers)
    acknowledged(world, checks, headers)


if __name__ == "__main__":
    harness.main(test, __doc__)
