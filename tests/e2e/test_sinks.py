"""`etwcollector sink ...`: stored events to a receiver by HTTP POST. The receiver is the test's own: it loses requests and answers, answers 429, 500, 413 and errors
of single rows, sends answers that are no answers, and is killed, as the sender is. Then each stored event is at the receiver exactly once, after dropping by `row`,
with what `export` prints of it, and the counts of `sink status` add up.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 23: A sink's receiver gets each stored event at least once, and each one once by its name, whatever fails between. | 10 kills of
#   the sender, 2 of the receiver; lost requests and answers, 429, 500, 413, errors of items; rows compared with `export` | 2026-11-28
# - Delivery 33: A sink's rows have pseudonyms where redaction is chosen, those of `etwagent relog --redact` with the same key. | fields of rows compared with relog's;
#   no name of a program or a file in what is sent | 2026-11-28
# sanitizers: asan-ubsan
import contextlib
import datetime
import http.server
import itertools
import json
import os
import random
import resource
import signal
import socketserver
import sqlite3
import ssl
import subprocess
import threading
import time

import harness

import kernel_records as kernel
import test_rules_test as one
import test_single_records as single

SECRET = "s3cr3t"
SECONDS = 60
KILLS = 10
EVENTS = 1200
NOISY, QUIET = 6000, 20  # events of an agent that sends much, and of one that does not
FEW, AWAY = 120, 60  # events of an agent that has no share of a request, beside its header, and requests of a receiver that is away
FATES = ["sent", "known", "refused", "left_out", "damaged", "skipped", "removed"]
MEMORY_MAX = 600 << 20
PROCESSES, PROCESS_EVENTS, PROCESSES_MAX_S = 20000, 2000, 4
DIRECT = {**os.environ, "no_proxy": "*", "NO_PROXY": "*"}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass  # connections that end early are part of the test


class Receiver:
    """Takes rows as `act` says of each request, which gets the handler and the rows: what it returns is the answer's status, or None when it answered itself. seen:
    the rows that were accepted, by id, with the number of times; of _bulk each once."""

    def __init__(self, is_bulk=False, context=None, port=0):
        self.is_bulk, self.context, self.port = is_bulk, context, port
        self.act = lambda handler, rows: 200
        self.poison = lambda row: False
        self.busy = lambda row: False
        self.lock = threading.Lock()
        self.seen, self.order, self.requests, self.heads = {}, [], 0, []
        self.start()

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                lines = body.decode().splitlines()
                rows = [json.loads(line) for line in (lines[1::2] if receiver.is_bulk else lines)]
                actions = [json.loads(line) for line in lines[::2]] if receiver.is_bulk else []
                with receiver.lock:
                    receiver.requests += 1
                    receiver.heads.append((self.path, dict(self.headers), actions[:1], time.monotonic()))
                    answer = receiver.act(self, rows)
                    if answer == 200:
                        self.answer(200, receiver.take(rows))
                    elif answer:
                        self.answer(answer, b"")

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

            def log_message(self, *words):
                pass

        self.server = Server(("127.0.0.1", self.port), Handler)
        if self.context:
            self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def take(self, rows):
        items = []
        for row in rows:
            name = row["row"]
            if self.poison(row):
                items.append({"create": {"_id": name, "status": 400, "error": {"type": "document_parsing_exception", "reason": "failed to parse \u001b[31m"}}})
            elif self.busy(row):
                items.append({"create": {"_id": name, "status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue is full"}}})
            elif self.is_bulk and name in self.seen:
                items.append({"create": {"_id": name, "status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "exists"}}})
            else:
                self.seen[name] = self.seen.get(name, 0) + 1
                self.order.append(row)
                items.append({"create": {"_id": name, "status": 201}})
        return json.dumps({"took": 1, "errors": False, "items": items}).encode() if self.is_bulk else b""

    def clear(self):
        with self.lock:
            self.seen, self.order, self.requests, self.heads = {}, [], 0, []


class World:
    def __init__(self, env, checks):
        self.env, self.checks, self.store = env, checks, env.folder / "store"

    def ingest(self, host, records):
        trace = self.env.folder / f"{host}.etl"
        trace.write_bytes(single.trace(records))
        self.env.run([self.env.collector, "ingest", "--store", self.store, "--host", host, trace])

    def command(self, name, receiver, *words, path="", scheme="http", host="127.0.0.1", retry=("2ms", "20ms")):
        return [str(word) for word in (self.env.collector, "sink", "run", "--store", self.store, "--name", name, "--kind", "bulk" if receiver.is_bulk else "ndjson",
                                       "--to", f"{scheme}://{host}:{receiver.port}/{SECRET}{path}", "--retry-min", retry[0], "--retry-max", retry[1], *words)]

    def run(self, name, receiver, *words, code=0, once=True, **more):
        done = self.env.run(self.command(name, receiver, *(["--once"] if once else []), *words, **more), check=False, env=DIRECT, timeout=SECONDS)
        self.checks.equal(done.returncode, code, f"{name} {words}: {done.stdout} {done.stderr[-2000:]}")
        self.checks.that(SECRET not in done.stdout + done.stderr, f"no part of the URL but its host: {done.stderr[-1000:]}")
        return done

    def sink(self, *words, code=0):
        done = self.env.run([self.env.collector, "sink", words[0], "--store", self.store, *words[1:]], check=False)
        self.checks.equal(done.returncode, code, f"sink {words}: {done.stdout} {done.stderr}")
        return done

    def status(self, name):
        return json.loads(self.env.run([self.env.collector, "sink", "status", "--store", self.store, "--name", name, "--json"]).stdout)["sinks"][0]

    def events(self):
        """Rows as export has them, by host."""
        hosts = sorted({s["host"] for s in self.streams()})
        return {host: [json.loads(line) for line in self.env.run([self.env.collector, "export", "--store", self.store, "--host", host, "--no-names"]).stdout.splitlines()]
                for host in hosts}

    def streams(self):
        return json.loads(self.env.run([self.env.collector, "hosts", "--store", self.store, "--json"]).stdout)["streams"]

    def stored(self):
        return sum(stream["events"] for stream in self.streams())

    def balanced(self, name, what):
        """All events are accounted for."""
        status = self.status(name)
        self.checks.equal(sum(status[fate] for fate in FATES) + status["waiting_events"], self.stored(), f"{what}: {status}")
        return status


def place(row):
    return row["host"], row["stream"], row["batch"], row["position"]


def plain(row):
    """A row without what a sink adds."""
    return {key: value for key, value in row.items() if key not in ("@timestamp", "row", "host", "stream", "batch", "position", "process")}


def whole(world, checks):
    """Everything arrives once, in order, as export has it; then what comes later."""
    receiver = Receiver()
    world.run("whole", receiver, "--all", "--rows", "100")
    got, expected = receiver.order, world.events()
    checks.equal(len(got), world.stored(), "all events")
    for host, rows in expected.items():
        checks.equal([plain(row) for row in sorted(got, key=place) if row["host"] == host], rows, f"rows of {host} are those of export")
    batches = {}
    for row in got:
        batches.setdefault(place(row)[:3], []).append(row["position"])
    checks.that(all(positions == sorted(positions) for positions in batches.values()), "events of a batch are in their order")
    checks.that(all(row["row"] == f"{row['host']}/{row['stream']}/{row['batch']}/{row['position']}" for row in got), "names of rows")
    checks.equal(len({row["row"] for row in got}), len(got), "which are different")
    system = [row["process"] for row in sorted(got, key=place) if row["host"] == "a" and row["pid"] == 4]
    checks.that(system[0] is None and system[-1] == "System" and set(system) == {None, "System"}, f"the process of an event, once it is known: {system[:3]} {system[-3:]}")
    checks.that(receiver.requests >= len(got) / 100 and receiver.heads[0][1]["Content-Type"] == "application/x-ndjson", "requests are bounded")
    status = world.balanced("whole", "all is sent")
    checks.equal((status["sent"], status["waiting_events"], status["requests"]), (len(got), 0, receiver.requests), "status")
    receiver.clear()
    world.run("whole", receiver)
    checks.equal(receiver.requests, 0, "nothing is sent twice")
    world.run("later", receiver)
    world.ingest("c", [one.process(90, 4, "late.exe", "late.exe", 1000)])
    for name in ("whole", "later"):
        receiver.clear()
        world.run(name, receiver)
        checks.equal({row["host"] for row in receiver.order}, {"c"}, f"{name}: what arrived since")
    receiver.stop()


def chaos(world, checks, is_bulk):
    """A receiver and a sender that fail, and are killed."""
    dice = random.Random(28 + is_bulk)
    receiver, name = Receiver(is_bulk), f"chaos-{is_bulk}"

    def act(handler, rows):
        kind = dice.randrange(10)
        if kind == 0:
            return handler.cut()  # nothing was taken
        if kind == 1:
            receiver.take(rows)
            return handler.cut()  # the answer is lost
        if kind == 2:
            return handler.answer(429, b"busy", Retry_After="0")
        if kind == 3:
            return 500
        if kind == 4 and len(rows) > 10:
            return 413
        if kind == 5:
            receiver.take(rows)
            return handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\"") and handler.cut()
        return 200

    receiver.act = act
    if is_bulk:
        receiver.busy = lambda row: dice.randrange(8) == 0
    for kill in range(KILLS):
        process = subprocess.Popen(world.command(name, receiver, "--all", "--rows", "40"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=DIRECT)
        more = receiver.requests + dice.randrange(1, 6)
        if kill % 4 == 3:  # the receiver, too
            receiver.stop()
            time.sleep(0.02)
            receiver.start()
        harness.wait_until(lambda more=more: receiver.requests >= more, "requests", SECONDS)
        process.kill()
        process.wait()
    answers = itertools.cycle((503, 503, 200))  # fewer in a row than end a run
    receiver.act = lambda handler, rows: next(answers)
    receiver.busy = lambda row: False
    world.run(name, receiver, "--all", "--rows", "100")
    checks.equal(len(receiver.seen), world.stored(), f"{name}: each event is there")
    if is_bulk:
        checks.that(all(count == 1 for count in receiver.seen.values()), "once, by _id")
        checks.that(all(row["@timestamp"] == row["time"] for row in receiver.order), "with the time that data streams need")
    unique, seen = [], set()
    for row in receiver.order:
        if row["row"] not in seen:
            seen.add(row["row"])
            unique.append(row)
    for host, rows in world.events().items():
        mine = sorted((row for row in unique if row["host"] == host), key=place)
        checks.equal([plain(row) for row in mine], rows, f"{name}: exactly once, after dropping by row: {host}")
    status = world.balanced(name, name)
    checks.equal((status["sent"] + status["known"], status["refused"], status["removed"], status["damaged"]), (world.stored(), 0, 0, 0), f"{name}: counts: {status}")
    checks.that(status["retried"] > 0 and status["last_error"], f"{name}: what was sent again is counted: {status}")
    receiver.stop()


def refusals(world, checks):
    """Rows that the receiver will not take are counted, with the reason; a receiver that takes nothing costs nothing."""
    for is_bulk in (False, True):
        receiver, name = Receiver(is_bulk), f"refusing-{is_bulk}"
        bad = {0, 1, 137, 1000}

        def is_bad(row, bad=bad):
            return row["host"] == "a" and row["position"] in bad and row["batch"] == 1

        if is_bulk:
            receiver.poison = is_bad
        else:
            receiver.act = lambda handler, rows: 400 if any(is_bad(row) for row in rows) else 200
        done = world.run(name, receiver, "--all", "--json")
        status = world.balanced(name, name)
        expected = sum(is_bad({"host": row["host"], "position": p, "batch": 1}) for row in [{"host": "a"}] for p in range(EVENTS))
        checks.equal((status["refused"], status["sent"]), (expected, world.stored() - expected), f"{name}: {status}")
        checks.equal(json.loads(done.stdout)["refused"], expected, "as the run says")
        checks.equal([(s["host"], s["refused"]) for s in status["streams"]], [("a", expected)], f"{name}: whose they are")
        checks.that(status["last_refusal"].startswith("a/") and "status 400" in status["last_refusal"], f"{name}: {status['last_refusal']}")
        if is_bulk:
            checks.that("\u001b" in status["last_refusal"] and "\u001b" not in world.sink("status", "--name", name).stdout, "a terminal gets no sequences")
        receiver.act, receiver.poison = (lambda handler, rows: 400), (lambda row: True)
        if is_bulk:
            receiver.act = lambda handler, rows: 200
        done = world.run(f"wrong-{is_bulk}", receiver, "--all", code=1)
        status = world.balanced(f"wrong-{is_bulk}", "a receiver that takes nothing")
        checks.equal((status["refused"], status["sent"], status["waiting_events"]), (0, 0, world.stored()), f"nothing is given up: {status}")
        checks.that("accepts nothing" in done.stderr and "accepts nothing" in status["last_error"], f"and it is reported: {done.stderr}")

        receiver.clear()  # it takes some requests, and then nothing
        full = threading.Event()

        def fill(handler, rows, receiver=receiver, full=full):
            if len(receiver.seen) >= 200:
                full.set()
            return 400 if full.is_set() and not receiver.is_bulk else 200

        receiver.act, receiver.poison = fill, lambda row, full=full: full.is_set()
        world.run(f"full-{is_bulk}", receiver, "--all", "--rows", "100", code=1)
        status = world.balanced(f"full-{is_bulk}", "a receiver that takes nothing any more")
        checks.that(200 <= status["sent"] < 300 and status["refused"] <= 16, f"at most 16 rows are given up: {status}")
        receiver.stop()


def long_history(env, checks):
    """What an event costs does not grow with the processes that its machine had: two pids, 10,000 processes of each."""
    (env.folder / "long").mkdir()
    world = World(env, checks)
    world.store = env.folder / "long" / "store"
    pids, system = (4000, 5024), "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c"  # both have one place of sink_process.c
    clock = itertools.count(1000)
    events = [single.full_record(system, 5, 0, bytes(4), next(clock), pid=pids[i % 2]) for i in range(PROCESS_EVENTS)]
    starts = [kernel.process(pid, "x.exe", next(clock), ends=ends) for _ in range(PROCESSES // 2) for pid in pids for ends in (False, True)]
    world.ingest("long", [*events, *starts, *(single.full_record(system, 5, 0, bytes(4), next(clock), pid=pids[i % 2]) for i in range(PROCESS_EVENTS))])
    receiver, begin = Receiver(), children_s()
    world.run("long", receiver, "--all")
    took = children_s() - begin
    print(f"{len(receiver.order)} events of a machine with {PROCESSES} processes: {took:.1f} s of a processor", flush=True)
    checks.equal(len(receiver.order), world.stored(), "events of a machine with many processes")
    checks.that(took < PROCESSES_MAX_S, f"{took:.1f} s of a processor, expected less than {PROCESSES_MAX_S}")
    receiver.stop()


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hostile(world, checks):
    """Answers that are huge, slow or none: bounded, and the rows wait."""
    receiver = Receiver(True)

    def huge(handler, rows):
        receiver.take(rows)
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        block = b"100000\r\n" + b"[" * 0x100000 + b"\r\n"
        for _ in range(64):
            handler.wfile.write(block)

    def slow(handler, rows):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"[")
            handler.wfile.flush()
            time.sleep(0.02)

    def text(body):
        return lambda handler, rows: handler.answer(200, body)

    def heads(handler, rows):
        handler.send_response(200)
        for i in range(100):
            handler.send_header(f"X-{i}", "x" * 20000)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    cases = {
        "huge": (huge, "too large"),
        "slow": (slow, "imeout"),
        "no JSON": (text(b"<html>"), "expected JSON"),
        "deep": (text(b'{"items":' + b"[" * 1000000), "expected JSON"),
        "too few": (text(b'{"items":[{"create":{"status":201}}]}'), "expected JSON"),
        "NUL": (text(b'{"items":[\0'), "expected JSON"),
        "heads": (heads, ""),
    }
    for what, (act, said) in cases.items():
        receiver.act = act
        done = world.run("hostile", receiver, "--all", "--rows", "50", "--timeout", "200ms" if what == "slow" else "30s", code=1)
        checks.that(said in done.stderr, f"{what}: {done.stderr[-500:]}")
        checks.equal(world.status("hostile")["sent"], 0, f"{what}: nothing counts as sent")
    checks.that(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < MEMORY_MAX, "memory is bounded")
    receiver.act = lambda handler, rows: 200
    world.run("hostile", receiver, "--all")
    status = world.balanced("hostile", "after hostile answers")
    checks.equal(len(receiver.seen), world.stored(), "all is there")
    checks.that(status["known"] > 0, f"rows whose answer was lost were known: {status}")
    receiver.stop()


def waits(world, checks):
    """Retry-After; a receiver that is away; SIGTERM while it waits."""
    receiver = Receiver()
    answers = [lambda handler: handler.answer(429, b"", Retry_After="1"), lambda handler: handler.answer(503, b"", Retry_After="nonsense")]
    receiver.act = lambda handler, rows: answers.pop(0)(handler) if answers else 200
    world.run("waits", receiver, "--all", "--rows", "100000", "--bytes", "64MiB")
    times = [head[3] for head in receiver.heads]
    checks.that(len(times) >= 3 and times[1] - times[0] >= 0.95, f"Retry-After: {times}")
    receiver.stop()
    done = world.run("away", receiver, "--all", code=1)
    checks.that("sink away: rows are sent again: send to 127.0.0.1" in done.stderr, f"a receiver that is away: {done.stderr}")
    process = subprocess.Popen(world.command("away", receiver, retry=("1h", "1h")), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=DIRECT)
    harness.wait_until(lambda: world.status("away")["requests"] > 5, "an attempt", SECONDS)
    world.sink("skip", "--name", "away", code=1)
    checks.that("is run by another process" in world.run("away", receiver, code=1).stderr, "one process at a time")
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=SECONDS)
    checks.equal((process.returncode, "sink away: 0 sent" in out[0]), (0, True), f"ends when it is asked to: {out}")


def chosen(world, checks):
    """Hosts, classes, conditions."""
    receiver = Receiver()
    events = [(host, row) for host, rows in world.events().items() for row in rows]

    def expect(name, words, fits):
        receiver.clear()
        world.run(name, receiver, "--all", *words)
        wanted = [row for host, row in events if fits(host, row)]
        checks.equal([plain(row) for row in sorted(receiver.order, key=place)], wanted, f"{words}: {len(wanted)}")
        checks.that(0 < len(wanted) < len(events), f"{words}: some")
        status = world.balanced(name, f"{words}")
        checks.equal((status["sent"], status["left_out"]), (len(wanted), len(events) - len(wanted)), f"{words}: {status}")

    expect("hosts", ["--host", "B", "--host", "z*"], lambda host, row: host == "b")
    expect("classes", ["--class", "image/*"], lambda host, row: row["name"].startswith("Image/"))
    expect("where", ["--class", "Process/Start", "--where", "ProcessId % 8 == 0"], lambda host, row: row["name"] == "Process/Start" and row["fields"]["ProcessId"] % 8 == 0)
    with contextlib.closing(sqlite3.connect(world.store / "index.db")) as index, index:
        index.execute("INSERT OR REPLACE INTO origins(stream_id, hash, agent_version, labels) SELECT stream_id, 0, '1', ? FROM streams WHERE agent = 'b'", (json.dumps({"site": "oslo", "n": 1}),))
    expect("labels", ["--label", "site=oslo", "--label", "n=1"], lambda host, row: host == "b")
    world.run("label", receiver, "--label", "site", code=2)
    done = world.run("typo", receiver, "--all", "--class", "Proces/Start")
    checks.that("Process/Start" in done.stderr and world.status("typo")["left_out"] == len(events), f"a class that no event has is reported: {done.stderr}")
    done = world.run("state", receiver, "--where", 'execname == "a.exe"', code=2)
    checks.that("a sink knows an event's own fields alone" in done.stderr, f"what needs other events is refused: {done.stderr}")
    world.run("state", receiver, "--where", "ProcessId ==", code=2)
    world.run("../x", receiver, code=2)
    world.run("index", receiver, "--index", "i", code=2)
    checks.that("is of kind ndjson" in world.run("hosts", Receiver(True), code=2).stderr, "another kind needs another name")
    receiver.stop()


def numbers(fields):
    """Names and times of numbers, of which a trace of one machine has more, are left out."""
    return {key: value["value"] if isinstance(value, dict) and "value" in value else value for key, value in fields.items()}


def redacted(world, checks):
    """Values are replaced before they leave, as `etwagent relog --redact` replaces them."""
    receiver, key = Receiver(), world.env.folder / "key"
    key.write_bytes(b"0123456789abcdef")
    expected = {}
    for host in ("a", "b"):
        trace = world.env.folder / f"{host}-redacted.jsonl"
        world.env.run([world.env.agent, "relog", world.env.folder / f"{host}.etl", "-o", trace, "--redact", "all", "--key", key])
        expected[host] = [(row["name"], numbers(row["fields"])) for row in map(json.loads, trace.read_text().splitlines()) if row["name"] != "EventTrace/Header"]
    done = world.run("redacted", receiver, "--all", "--redact", "all", "--redact-key", key, "--json")
    rows = sorted(receiver.order, key=place)
    for host, wanted in expected.items():
        got = [(row["name"], numbers(row["fields"])) for row in rows if row["host"] == host and row["name"] != "EventTrace/Header"]
        differs = [pair for pair in zip(sorted(map(json.dumps, got)), sorted(map(json.dumps, wanted))) if pair[0] != pair[1]]
        checks.equal((len(got), differs[:1]), (len(wanted), []), f"rows of {host} have relog's pseudonyms")
    sent = json.dumps([{k: v for k, v in row.items() if k not in ("row", "host")} for row in rows])
    secrets = ("shell.exe", "start.exe", "late.exe", "/n ")
    checks.that("shell.exe" in json.dumps(world.events()) and not any(secret in sent for secret in secrets), f"what is left: {[sent[sent.find(s) - 300:][:320] for s in secrets if s in sent]}")
    names = {row["fields"]["ImageFileName"] for row in rows if row["name"] == "Process/Start"}
    checks.that({row["process"] for row in rows} - {None, "System"} <= names, f"a process has the pseudonym of its program: {sorted({str(row['process']) for row in rows})[:5]}")
    counts = json.loads(done.stdout)
    checks.that(counts["redacted_values"] >= EVENTS and counts["sent"] == world.stored(), f"it is counted: {counts}")
    checks.equal(world.balanced("redacted", "redacted")["redacted_values"], counts["redacted_values"], "sink status has the count")
    world.ingest("e", [one.process(90, 4, "e.exe", "e.exe", 1000)])
    more = json.loads(world.run("redacted", receiver, "--redact", "all", "--redact-key", key, "--json").stdout)["redacted_values"]
    checks.equal(world.status("redacted")["redacted_values"], counts["redacted_values"] + more, "of all runs")
    checks.that(more and f"{counts['redacted_values'] + more} values redacted" in world.sink("status", "--name", "redacted").stdout, "in words")
    receiver.clear()
    world.run("commands", receiver, "--all", "--redact", "command", "--redact-key", key)
    sent = json.dumps([row["fields"] for row in receiver.order])
    checks.that("shell.exe" in sent and "/n " not in sent, "one kind")
    for words in (["--redact", "all"], ["--redact-key", key], ["--redact", "", "--redact-key", key], ["--redact", "users", "--redact-key", key]):
        world.run("typo", receiver, *words, code=2)
    key.write_bytes(b"short")
    for name in (key, world.env.folder / "none"):
        done = world.run("typo", receiver, "--redact", "all", "--redact-key", name, code=1)
        checks.that("key" in done.stderr or "none" in done.stderr, f"a file that is no key: {done.stderr}")
    receiver.stop()


def moved(world, checks):
    """Replay and skip."""
    receiver, all_of = Receiver(True), world.stored()
    world.sink("skip", "--name", "none", code=1)
    world.sink("replay", "--name", "none", "--all", code=1)
    world.run("moved", receiver, "--all", "--index", "events", path="/_bulk")
    path, heads, action, _ = receiver.heads[0]
    checks.equal((path, action[0]["create"]["_index"], heads["Content-Type"]), (f"/{SECRET}/_bulk", "events", "application/x-ndjson"), "the index")
    world.sink("replay", "--name", "moved", code=2)
    world.sink("replay", "--name", "moved", "--from", "soon", code=2)
    checks.equal(json.loads(world.sink("replay", "--name", "moved", "--all", "--json").stdout)["waiting_events"], all_of, "all waits again")
    world.run("moved", receiver)
    status = world.status("moved")
    checks.equal((status["sent"], status["known"], status["removed"], len(receiver.seen)), (all_of, all_of, 0, all_of), f"sent again, and known: {status}")
    world.sink("replay", "--name", "moved", "--from", "-1h")
    checks.equal(json.loads(world.sink("skip", "--name", "moved", "--to", "-1h", "--json").stdout), {"sink": "moved", "skipped": 0, "waiting_events": all_of}, "nothing is so old")
    checks.equal(json.loads(world.sink("skip", "--name", "moved", "--json").stdout), {"sink": "moved", "skipped": all_of, "waiting_events": 0}, "skipped")
    requests = receiver.requests
    world.run("moved", receiver)
    checks.equal((receiver.requests, world.status("moved")["skipped"]), (requests, all_of), "and counted so")
    receiver.stop()


def secure(world, checks):
    """TLS with an own CA and headers, from the sandbox; a place that is backed up; a host that is forgotten."""
    env = world.env
    env.make_certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(env.certs / "server.crt", env.certs / "server.key")
    receiver = Receiver(context=context)
    headers = env.folder / "headers"
    headers.write_text("Authorization: Bearer abc\n")
    world.run("secure", receiver, "--all", "--ca", env.certs / "ca.crt", "--headers", headers, scheme="https", host="localhost")
    checks.equal((len(receiver.seen), receiver.heads[0][1].get("Authorization")), (world.stored(), "Bearer abc"), "by TLS")
    done = world.run("unsafe", receiver, "--all", code=1, scheme="https", host="localhost")
    checks.that("sink unsafe: rows are sent again: send to localhost" in done.stderr, f"a certificate that the system does not trust: {done.stderr}")
    process = subprocess.Popen(world.command("secure", receiver, "--ca", str(env.certs / "ca.crt"), scheme="https", host="localhost"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=DIRECT)
    receiver.clear()
    world.ingest("d", [one.process(90, 4, "d.exe", "d.exe", 1000)])
    harness.wait_until(lambda: receiver.seen, "what arrives while it runs", SECONDS, lambda: world.status("secure"))
    with open(f"/proc/{process.pid}/status", encoding="ascii") as lines:
        confined = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
    refused = env.run([env.collector, "forget", "--store", world.store, "--host", "a"], check=False)
    checks.that(refused.returncode == 1 and "sink secure is run by another process" in refused.stderr, f"a sink that runs could send what is forgotten: {refused}")
    checks.that(any(s["host"] == "a" for s in world.streams()) and world.status("refusing-True")["last_refusal"], "and nothing is removed")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    checks.equal((process.returncode, confined["NoNewPrivs"]), (0, "1"), "it runs in a sandbox")
    receiver.stop()

    before = world.status("secure")
    backup, restored = env.folder / "backup", env.folder / "restored"
    env.run([env.collector, "backup", "--store", world.store, "--to", backup])
    env.run([env.collector, "restore", "--from", backup, "--store", restored])
    there = json.loads(env.run([env.collector, "sink", "status", "--store", restored, "--name", "secure", "--json"]).stdout)["sinks"][0]
    checks.equal(there, before, "a backup has the places")
    env.run([env.collector, "forget", "--store", world.store, "--host", "a"])
    checks.that(not any(s["host"] == "a" for s in world.status("refusing-True")["streams"]), "a host that is forgotten is forgotten here")
    checks.equal(world.status("refusing-True")["last_refusal"], None, "with its rows")
    checks.that("a/" not in json.dumps(world.status("wrong-True")), f"and its last failure, which named one: {world.status('wrong-True')}")


def removed(world, checks):
    """The index loses a batch while some of its rows are being sent, as to retention: the others are not sent, and are counted as removed, once."""
    receiver, first = Receiver(), {}

    def act(handler, rows):
        if not first:
            first.update(rows[0])
            key = (rows[0]["batch"], rows[0]["stream"])
            with contextlib.closing(sqlite3.connect(world.store / "index.db")) as index, index:
                where = "FROM batches WHERE number = ? AND stream_id = (SELECT stream_id FROM streams WHERE lower(hex(stream)) = ?)"
                first["events"] = index.execute(f"SELECT event_count {where}", key).fetchone()[0]
                index.execute(f"DELETE {where}", key)
        return 200

    receiver.act = act
    for _ in range(2):  # the second run looks for what was removed
        world.run("removed", receiver, "--all", "--rows", "100")
    sent = [row for row in receiver.order if place(row)[:3] == place(first)[:3]]
    status = world.balanced("removed", "a batch is removed while it is sent")
    checks.equal((len(sent), status["removed"], status["sent"]), (25, first["events"] - 25, len(receiver.order)), f"a share of a request: {status}")
    receiver.stop()


def shares(world, checks):
    """An agent that sends much, or rows that are refused or make requests fail, delays the rows of another one by a few requests."""
    def rows_of(receiver, host):
        return [row for row in receiver.order if row["host"] == host]

    def start(name, receiver, until):
        process = subprocess.Popen(world.command(name, receiver, "--all", "--rows", "200"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=DIRECT)
        try:
            harness.wait_until(until, f"{name}: what is waited for", 30)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)

    def found_waiting(name):
        sinks = json.loads(world.sink("status", "--json").stdout)["sinks"]
        return next((sink["hosts"] for sink in sinks if sink["name"] == name), [{"host": "none yet"}])

    def is_of(hosts):
        return lambda rows: any(row["host"] in hosts for row in rows)

    for host in ("noisy", "loud"):
        world.ingest(host, [one.process(4, 0, "System", "", 900)] + [one.process(100 + 4 * i, 4, "n.exe", f"n.exe {i}", 2000 + 10 * i) for i in range(NOISY)])
    time.sleep(0.01)
    between = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    world.ingest("quiet", [one.process(90, 4, "q.exe", "q.exe", 1000 + i) for i in range(QUIET)])
    receiver = Receiver()
    world.run("much", receiver, "--all", "--rows", "200")
    last = max(i for i, row in enumerate(receiver.order) if row["host"] == "quiet")
    checks.that(last < 3 * 256 + 200, f"rows of others before the last one of an agent that sends little: {last}")
    numbers = {host: [place(row) for row in rows_of(receiver, host)] for host in ("noisy", "loud", "quiet")}
    checks.that(all(found == sorted(found) and len(found) == len(set(found)) for found in numbers.values()), "each agent's rows are in their order, once")
    checks.equal(world.balanced("much", "all is sent")["waiting_events"], 0, "all is sent")
    receiver.stop()

    for name, status, hosts in (("refused", 400, {"noisy"}), ("failing", 500, {"noisy"}), ("all-failing", 500, {"noisy", "loud"})):
        receiver, refuses = Receiver(), is_of(hosts)
        at = []

        def act(handler, rows, refuses=refuses, status=status, receiver=receiver, at=at):
            at.extend([receiver.requests] if is_of({"quiet"})(rows) and not refuses(rows) else [])
            return status if refuses(rows) else 200

        receiver.act = act
        start(name, receiver, lambda name=name, hosts=hosts: {row["host"] for row in found_waiting(name)} <= hosts)
        checks.equal(len({place(row) for row in rows_of(receiver, "quiet")}), QUIET + 1, f"{name}: the rows of another agent are there")
        checks.that(at[0] < 120, f"{name}: requests before the rows of another agent: {at[0]}")
        found = world.balanced(name, name)
        apart = {row["host"] for row in found["hosts"] if row["apart"]}
        checks.that(apart >= hosts, f"{name}: sink status names who is apart: {found['hosts']}")
        if status == 500:
            checks.equal(found["refused"], 0, f"{name}: nothing is given up")
            receiver.act = lambda handler, rows: 200
            start(name, receiver, lambda receiver=receiver: len(receiver.seen) == world.stored())
            checks.equal(set(receiver.seen), {row["row"] for row in receiver.order}, f"{name}: each row is there when the receiver takes it")
            checks.equal(world.balanced(name, f"{name}, later")["waiting_events"], 0, f"{name}: all is sent")
        else:
            before = world.status(name)
            world.sink("replay", "--name", name, "--from", between)
            checks.equal(world.status(name)["waiting_events"], before["waiting_events"] + QUIET + 1, "an agent apart has what it had")
            before = world.status(name)
            skipped = json.loads(world.sink("skip", "--name", name, "--json").stdout)
            checks.equal((skipped["skipped"], skipped["waiting_events"]), (before["waiting_events"], 0), f"what an agent apart has not sent is skipped: {before}")
        receiver.stop()

    # a shared request that is given up, since no row of it was accepted, when agents had their shares of it; and one that is full in the midst of a batch whose
    # agent is taken out of it: no row is passed over
    for host in ("third", "fourth"):
        world.ingest(host, [one.process(100 + 4 * i, 4, "n.exe", f"n.exe {i}", 2000 + 10 * i) for i in range(FEW)])
    is_fourth = is_of({"fourth"})
    for name, act in (("given-up", lambda handler, rows: 503 if receiver.requests <= AWAY else 200), ("midst", lambda handler, rows: 400 if is_fourth(rows) else 200)):
        receiver = Receiver()
        receiver.act = act
        start(name, receiver, lambda name=name: {row["host"] for row in found_waiting(name)} <= {"fourth"})
        receiver.act = lambda handler, rows: 200
        start(name, receiver, lambda name=name: not found_waiting(name))
        found = world.balanced(name, name)
        checks.equal((found["removed"], found["sent"] + found["refused"]), (0, world.stored()), f"{name}: {found}")
        checks.that(len(receiver.seen) == found["sent"] and found["refused"] <= (FEW + 1) * (name == "midst"), f"{name}: {len(receiver.seen)} rows of {found}")
        receiver.stop()


def test(env, checks, arguments):
    world = World(env, checks)
    world.ingest("a", [one.process(4, 0, "System", "", 900), one.process(90, 4, "start.exe", "start.exe", 1000)] +
                 [one.process(100 + 4 * i, 90, "shell.exe", f"shell.exe /n {i} \u00e9\U0001f600", 2000 + 10 * i) if i % 3 else kernel.image(90, one.BASE + 0x1000 * i, 0x1000, f"x{i}.dll", 2000 + 10 * i)
                  for i in range(EVENTS)])
    world.ingest("b", one.RECORDS)
    whole(world, checks)
    chosen(world, checks)
    redacted(world, checks)
    chaos(world, checks, False)
    chaos(world, checks, True)
    refusals(world, checks)
    hostile(world, checks)
    waits(world, checks)
    moved(world, checks)
    secure(world, checks)
    world.store = env.folder / "restored"
    removed(world, checks)
    world.store = env.folder / "shares"
    shares(world, checks)
    long_history(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
