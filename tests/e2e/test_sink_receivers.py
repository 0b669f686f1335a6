"""`etwcollector sink run` of the kinds splunk and otlp: stored events to servers of the test, which answer as Splunk's documentation and the specification of OTLP say. They
lose requests and answers, are busy, acknowledge late or never, and refuse single events; the sender is killed. Then each stored event is at the receiver once, after dropping by
`row`, with what `export` prints of it, and the counts of `sink status` add up. Protobuf is read by a reader of the test's own, by the numbers of opentelemetry-proto.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 31: Rows for Splunk count as sent when its acknowledgement says that they are indexed. | acknowledgements that come late or never, 3 kills of the
#   sender; events compared with `export`; a server of the test, not Splunk | 2026-11-28
# - Delivery 32: A record of OpenTelemetry has all that `export` prints of an event, under the receiver's answers once by its `log.record.uid`. | rows made of
#   records compared with `export`; lost answers, 429, 503, partial success, 3 kills of the sender; a server of the test | 2026-11-28
import http.server
import json
import random
import re
import signal
import struct
import subprocess
import threading
import time

import harness
import kernel_records as kernel
import test_rules_test as one
import test_single_records as single
import test_sinks as sinks

SECONDS = 60
EVENTS = 400
KILLS = 3
TOKEN = "7c0ffee0-0000-4000-8000-00000000beef"
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Dice:
    """What goes wrong with a request: a number below `kinds`; None: nothing, also after three failures in a row, since a run that ends fails after five."""

    def __init__(self, seed, kinds):
        self.random, self.kinds, self.failures = random.Random(seed), kinds, 0

    def throw(self):
        kind = self.random.randrange(2 * self.kinds)
        is_failure = kind < self.kinds and self.failures < 3
        self.failures = self.failures + 1 if is_failure else 0
        return kind if is_failure else None


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
        self.is_lost, self.polls, self.cookies = False, 0, []
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
        if not self.is_lost:
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


def members(data):
    """The members of a message of protobuf: number and value, of which texts and messages are bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            value, at = data[at:at + size], at + size
            assert len(value) == size and tag & 7 in (1, 2, 5), "a message ends in a member"
        yield tag >> 3, value


def many(data, number):
    return [value for found, value in members(data) if found == number]


def any_value(data):
    """AnyValue of opentelemetry-proto, common/v1/common.proto."""
    found = list(members(data))
    assert len(found) <= 1, "one of"
    if not found:
        return None
    number, value = found[0]
    if number == 3:
        return value - (1 << 64 if value >> 63 else 0)
    read = {1: bytes.decode, 2: bool, 4: lambda v: struct.unpack("<d", v)[0], 5: lambda v: [any_value(item) for item in many(v, 1)], 6: lambda v: pairs(many(v, 1))}
    return read[number](value)


def pairs(items):
    """KeyValues."""
    found = [(many(item, 1)[0].decode(), any_value((many(item, 2) or [b""])[0])) for item in items]
    assert len(dict(found)) == len(found), "a name twice"
    return dict(found)


class Otlp(Receiver):
    """Source: OTLP specification 1.9, OTLP/HTTP; opentelemetry-proto, collector/logs/v1/logs_service.proto."""

    kind, path = "otlp", "/v1/logs"

    def __init__(self):
        self.rejects = lambda record: False
        super().__init__()

    def post(self, handler, body):
        assert (handler.path, handler.headers["Content-Type"]) == ("/v1/logs", "application/x-protobuf")
        if self.act(handler):
            return
        records = []
        for of_host in many(body, 1):
            resource = pairs(many(many(of_host, 1)[0], 1))
            for of_scope in many(of_host, 2):
                assert many(many(of_scope, 1)[0], 1) == [b"etwcollector"]
                records += [self.record(resource, record) for record in many(of_scope, 2)]
        taken = [record for record in records if not self.rejects(record)]
        self.take([(record["log.record.uid"], record) for record in taken])
        partial = b""
        if len(taken) < len(records):
            why = b"too old \x1b[31m"
            partial = bytes([8]) + varint(len(records) - len(taken)) + bytes([18, len(why)]) + why
            partial = bytes([10, len(partial)]) + partial
        handler.answer(200, partial)

    @staticmethod
    def record(resource, data):
        of = dict(found for found in members(data) if found[0] != 6)
        return {**resource, **pairs(many(data, 6)), "time_ns": struct.unpack("<Q", of[1])[0], "observed": struct.unpack("<Q", of[11])[0], "severity": of.get(2, 0),
                "event_name": of[12].decode(), "body": any_value(of[5])}


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def row_of(record):
    """The row of the other kinds that a record is made of."""
    row = {key.removeprefix("etw."): value for key, value in record.items() if key.startswith("etw.")}
    host, stream, batch, position = record["log.record.uid"].rsplit("/", 3)
    assert host == record["host.name"] and record["service.name"] == "etwagent"
    seconds, ns = divmod(record["time_ns"], 10**9)
    row.update(time=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ns // 100:07d}Z", name=record["event_name"], fields=record["body"],
               pid=record.get("process.pid", 0xFFFFFFFF), tid=record.get("thread.id", 0xFFFFFFFF), process=record.get("process.executable.name"),
               row=record["log.record.uid"], host=host, stream=stream, batch=int(batch), position=int(position))
    return row


def without_null(row):
    """Of a row, what a record says of it."""
    large = lambda v: ({k: large(x) for k, x in v.items()} if isinstance(v, dict) else [large(x) for x in v] if isinstance(v, list) else
                       str(v) if isinstance(v, int) and v >= 1 << 63 else v)
    return {key: large(value) for key, value in row.items() if value is not None}


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

    def matches(self, rows, what, change=lambda row: row):
        """The rows of the other kinds are those of export."""
        for host, expected in self.events().items():
            got = [change(sinks.plain(row)) for row in sorted(rows, key=sinks.place) if row["host"] == host]
            self.checks.equal(got, [change(row) for row in expected], f"{what}: rows of {host} are those of export")


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
        checks.that(said in done.stderr and (status["sent"], status["refused"]) == (0, 0), f"mistakes of the request refuse no event: {status} {done.stderr}")
    for path in ("", "/", "/services/collector/raw", "/services/collectors", "/?/services/collector"):
        checks.that("/services/collector/event" in world.run("path", receiver, "--headers", headers, path=path, code=2).stderr, f"the path of the URL: {path}")
    receiver.stop()


def acknowledged(world, checks, headers):
    """A token with acknowledgement: rows count when they are indexed."""
    dice, receiver = Dice(4, 5), Splunk(True)

    def act(handler):
        kind = dice.throw()
        if kind == 0:
            return handler.cut()
        if kind == 1:
            handler.answer(503, b'{"text":"Server is busy","code":9}')
        elif kind == 2:
            handler.answer(200, dice.random.choice([b"<html>", b'{"code":0', b'{"text":"Success"}', b'{"code":"0","ackId":1}']))
        elif kind == 3:
            handler.answer(429, b"", Retry_After="0")
        receiver.is_lost = kind == 4  # what an indexer that fails had
        receiver.delay = dice.random.choice([0, 0, 0.01])
        return 0 < (kind or 0) < 4

    receiver.act = act
    world.killed("ack", receiver, "--all", "--headers", headers, "--rows", "100", "--ack-timeout", "100ms")
    status = world.balanced("ack", "acknowledged")
    checks.equal((len(receiver.seen), status["sent"]), (world.stored(), world.stored()), f"all is indexed: {status}")
    checks.that(receiver.polls > len(receiver.acks) and "server=1" in receiver.cookies, "acknowledgements were asked for, with the balancer's cookies")
    checks.that(len(receiver.channels) > KILLS and all(GUID.fullmatch(channel) for channel in receiver.channels), f"each run has a channel: {receiver.channels}")
    world.matches(list({event["event"]["row"]: event["event"] for event in receiver.order}.values()), "after kills")

    receiver.clear()
    receiver.act, receiver.is_lost = (lambda handler: None), True
    for answer, said in ((b'{"acks":{"0":false}}', "not acknowledged as indexed"), (b'{"acks":{"0":"true"}}', "not acknowledged"), (b"{" * 60000, "expected JSON")):
        receiver.acknowledge = lambda handler, query, body, a=answer: handler.answer(200, a)
        done = world.run("lost", receiver, "--all", "--headers", headers, "--ack-timeout", "100ms", code=1)
        checks.that(said in done.stderr and world.balanced("lost", "no acknowledgement")["sent"] == 0, f"nothing counts: {answer[:40]}: {done.stderr}")
    receiver.stop()


def otlp(world, checks):
    receiver = Otlp()
    world.run("otlp", receiver, "--all", "--rows", "100")
    world.matches([row_of(record) for record in receiver.order], "otlp", without_null)
    checks.equal({record.get("process.executable.name") for record in receiver.order if record.get("process.pid") == 4 and record["host.name"] == "a"}, {None, "System"}, "processes")
    severities = {1: 21, 2: 17, 3: 13, 4: 9, 5: 5}
    checks.that(all(record["severity"] == severities.get(record["etw.level"], 0) for record in receiver.order) and len({r["severity"] for r in receiver.order}) > 1, "levels")
    now_ns = time.time_ns()
    checks.that(all(now_ns - 600 * 10**9 < record["observed"] < now_ns for record in receiver.order), "when they came to the collector")
    checks.equal((max(receiver.seen.values()), world.balanced("otlp", "all is sent")["sent"]), (1, world.stored()), "each once")

    receiver.clear()  # a part of a request is rejected: it is counted, and not sent again
    receiver.rejects = lambda record: record["body"].get("ProcessId", 1) % 28 == 0
    world.run("partial", receiver, "--all", "--rows", "100")
    status = world.balanced("partial", "partial success")
    checks.that(0 < status["refused"] == world.stored() - len(receiver.seen) and status["sent"] == len(receiver.seen) and max(receiver.seen.values()) == 1, f"the number: {status}")
    checks.that("rows were rejected: too old" in status["last_refusal"], f"the reason: {status['last_refusal']}")
    receiver.clear()
    receiver.rejects = lambda record: True
    done = world.run("none", receiver, "--all", code=1)
    checks.that(world.balanced("none", "all is rejected")["sent"] == 0 and "accepts nothing" in done.stderr, f"a receiver that takes nothing: {done.stderr}")

    receiver.clear()
    dice, receiver.rejects = Dice(7, 4), lambda record: False

    def act(handler):
        kind = dice.throw()
        if kind == 0:
            return handler.cut()
        if kind:
            handler.answer((429, 502, 503)[kind - 1], b"\x12\x04busy", Retry_After="0")
        return kind

    receiver.act = act
    world.killed("chaos", receiver, "--all", "--rows", "60")
    status = world.balanced("chaos", "after kills")
    checks.equal((len(receiver.seen), status["sent"], status["waiting_events"]), (world.stored(), world.stored(), 0), f"all is there: {status}")
    world.matches([row_of(record) for record in {record["log.record.uid"]: record for record in receiver.order}.values()], "after kills", without_null)

    for status, body, said in ((503, b"\x08\x0e\x12\x08try\x1blate", "try"), (401, b"<html>", "status 401"), (200, b"\x0a\x05\x08", "ExportLogsServiceResponse"), (200, b"\x07" * 99, "ExportLogs"),
                               (200, b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01", "ExportLogs"), (200, b"\0" * 70000, "too large")):
        receiver.act = lambda handler, s=status, b=body: handler.answer(s, b) or 1
        done = world.run("hostile", receiver, "--all", "--rows", "1000", code=1)
        checks.that(said in done.stderr and "\x1b" not in done.stderr and world.status("hostile")["sent"] == 0, f"{status} {body[:20]}: {done.stderr[-400:]}")
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
    otlp(world, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
