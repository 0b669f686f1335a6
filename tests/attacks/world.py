"""What the attack tests share: a collector, a victim agent, a victim reader, and the comparison of both with and without an attack.

    def attack(world, stop, ready):     # runs in a process of its own at the lowest priority: the attacker is another machine
        ... open connections ...
        ready.set()                     # from here on the victims are measured
        stop.wait()
        return {"connections": 200}     # any picklable report

    with world.World(env, checks, extra=["--max-connections", "64"]) as w:
        report = w.compare("silent connections", attack)

compare() measures the victims in turns without the attack and with it, ROUNDS times, and checks for each victim that of all its requests
    attacked p99 < max(2 x quiet p99, FLOOR_S)
and that each request of a victim is answered. Where that does not hold it measures further rounds, and judges the requests of all rounds
together: more requests, not the best of several tries. On a busy machine two rounds have some dozens of requests, whose p99 is their
longest; so it looks again after each of LOOKS rounds, of which the last has some hundreds of requests; the last round begins within COMPARE_MAX_S.
World's end checks that the store has each event that the
victim sent, once. FLOOR_S is there because a thread that wakes up waits for its processor for a few of the scheduler's slices (3 ms)
when others want it, and for the disk's queue.

An attack that leaves something in the store (streams, classes) has no quiet turn after its first: World(twin=True) has a second
collector, which is not attacked, and whose victims are the quiet ones.

Each victim runs in a process of its own, so that no interpreter lock is between them and the attacker. The victims have addresses of
their own (VICTIM_AGENT, VICTIM_READER), the attacker has others (127.0.0.1, or those that the attack binds).
"""
import http.client
import math
import multiprocessing
import os
import pathlib
import re
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402
import test_connections  # noqa: E402
import uploads  # noqa: E402

FLOOR_S = 0.020
ROUNDS, LOOKS = 2, (2, 3, 4, 6, 12, 24)
SOAK_ROUNDS, SOAK_S = 4, 8.0
COMPARE_MAX_S = 150  # no further round begins later: a loop with a bound in time, however busy the machine is
VICTIM_AGENT, VICTIM_READER = "127.0.0.2", "127.0.0.3"
AGENT_EVERY_S, READER_EVERY_S = 0.01, 0.02
NEW_CONNECTION_EVERY = 5  # requests: so the measured times include TCP connects and TLS handshakes
UPLOAD_TYPE = "application/x-etwagent-batches"
QUESTION = "/api/v1/hosts"
processes = multiprocessing.get_context("fork")


def percentile(times, share):
    return sorted(times)[max(0, math.ceil(len(times) * share) - 1)]


def tls(certs, name=None):
    """A client's TLS context; name: of the client certificate."""
    context = ssl.create_default_context(cafile=str(certs / "ca.crt"))
    if name:
        context.load_cert_chain(certs / f"{name}.crt", certs / f"{name}.key")
    return context


def connect(port, source="127.0.0.1", timeout=30):
    """A TCP connection to a listener of the collector."""
    return socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))


def secure(context, connection):
    return context.wrap_socket(connection, server_hostname="localhost")


class Web(http.client.HTTPConnection):
    """An HTTP connection from an address of its own, with TLS when there is a context."""

    def __init__(self, port, source, context):
        super().__init__("localhost", port, timeout=60)
        self.source, self.context = source, context

    def connect(self):
        self.sock = connect(self.port, self.source, self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            self.sock = secure(self.context, self.sock)


class Victim:
    """A client that repeats one request and notes the seconds until its answer. Subclasses: request(connection, number)."""

    def __init__(self, port, source, context, every_s):
        self.port, self.source, self.context, self.every_s = port, source, context, every_s

    def run(self, until, pipe):
        times, failures, number = [], [], 0
        connection = None
        while not until.is_set():
            begin = time.monotonic()
            try:
                if number % NEW_CONNECTION_EVERY == 0:
                    if connection:
                        connection.close()
                    connection = Web(self.port, self.source, self.context)
                self.request(connection, number)
            except (OSError, http.client.HTTPException, harness.Failure) as error:
                failures.append(f"{type(error).__name__}: {error}")
                number -= number % NEW_CONNECTION_EVERY  # the next request has a new connection
                if connection:
                    connection.close()
                connection = Web(self.port, self.source, self.context)
            took = time.monotonic() - begin
            times.append(took)
            number += 1
            until.wait(max(0.0, self.every_s - took))
        if connection:
            connection.close()
        pipe.send((times, failures))

    def request(self, connection, number):
        raise NotImplementedError


class Agent(Victim):
    """Sends a batch of a few events again and again, each time under the next number of one stream."""

    def __init__(self, port, certs, name, batch):
        super().__init__(port, VICTIM_AGENT, tls(certs, name), AGENT_EVERY_S)
        self.batch, self.stream, self.sent = batch, os.urandom(16), processes.Value("Q", 0)

    def body(self, number):
        return uploads.body([renumbered(self.batch, self.stream, number)])

    def request(self, connection, number):
        next_number = self.sent.value + 1
        connection.request("POST", uploads.UPLOAD_PATH, self.body(next_number), {"Content-Type": UPLOAD_TYPE})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise harness.Failure(f"status {answer.status}: {text[:200]!r}")
        # ranges that are stored (field 2 of an Ack; fields 1 and 2 of a range)
        ranges = [dict(uploads.fields(value)) for field, value in uploads.fields(text) if field == 2]
        if not any(r.get(1, 0) <= next_number <= r.get(2, 0) for r in ranges):
            raise harness.Failure(f"batch {next_number} is not acknowledged: {text!r}")
        self.sent.value = next_number


class Reader(Victim):
    """Asks one question of the dashboard's API again and again."""

    def __init__(self, port, context, token):
        super().__init__(port, VICTIM_READER, context, READER_EVERY_S)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def request(self, connection, number):
        connection.request("GET", QUESTION, headers=self.headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise harness.Failure(f"status {answer.status}: {text[:200]!r}")
        if b"victim" not in text:
            raise harness.Failure(f"the victim is missing in the answer: {text[:200]!r}")


def renumbered(batch, stream, number):
    """The batch as number of stream; a batch's checksum does not cover both."""
    return uploads.rewritten(batch, lambda field, value: {2: stream, 3: number}.get(field, value), uploads.BATCH_FIXED)


def _attack(attack, world, stop, ready, pipe):
    os.nice(19)
    try:
        pipe.send((attack(world, stop, ready), None))
    except Exception as error:  # the test's own process reports it
        pipe.send((None, f"{type(error).__name__}: {error}"))
    finally:
        ready.set()


class World:
    """A collector with a dashboard, and the two victims. agents: names that the attacker has certificates of."""

    def __init__(self, env, checks, extra=(), agents=("thief",), tokens=False, prefix=(), seconds=1.5, agent=Agent, name="collector",
                 twin=False):
        """extra: options of the collector. tokens: the dashboard has TLS and tokens. prefix: words before the collector's command.
        seconds: of each measurement. agent: the victim's class. name: of the collector, when a test has several worlds. twin: see above."""
        self.env, self.checks, self.tokens, self.agent_class = env, checks, tokens, agent
        is_long = "--soak" in sys.argv
        self.seconds, self.rounds = (SOAK_S, SOAK_ROUNDS) if is_long else (seconds, ROUNDS)
        self.twin = World(env, checks, extra, agents, tokens, prefix, seconds, agent, f"{name}-twin") if twin else None
        if not (env.certs / "victim.crt").exists():  # a test may have several worlds, one after the other, with the same agents
            env.make_certificates(["test-machine", "victim", *agents])
        path, self.events_per_batch = test_connections.make_batch(env)
        self.batch = path.read_bytes()
        self.collector = env.new_collector(name, extra=["--web", "127.0.0.1:0", *["--web-tokens"] * tokens, *extra])
        self.collector.prefix = list(prefix)

    def __enter__(self):
        if self.twin:
            self.twin.__enter__()
        self.collector.start()
        log = self.log()
        self.port = self.collector.port
        self.web_port = int(re.search(r"dashboard on https?://127\.0\.0\.1:(\d+)/", log).group(1))
        enroll = re.search(r"enrolment on https://127\.0\.0\.1:(\d+)", log)
        self.enroll_port = int(enroll.group(1)) if enroll else 0
        token = None
        if self.tokens:
            token = self.env.run([self.env.collector, "token", "add", "--store", self.collector.store, "--name", "reader"]).stdout.strip()
            self.admin = self.env.run([self.env.collector, "token", "add", "--store", self.collector.store, "--name", "monitor",
                                       "--scope", "metrics"]).stdout.strip()
        self.agent = self.agent_class(self.port, self.env.certs, "victim", self.batch)
        self.reader = Reader(self.web_port, tls(self.env.certs) if self.tokens else None, token)
        # the first batch brings its classes, the first question opens the archive: neither is measured
        first = Web(self.port, VICTIM_AGENT, self.agent.context)
        self.agent.request(first, 0)
        first.close()
        return self

    def __exit__(self, kind, *_):
        if self.twin:
            self.twin.__exit__(kind)
        if kind:
            return
        sent = self.agent.sent.value
        streams = [s for s in self.collector.ask_json("hosts")["streams"] if s["host"] == "victim"]
        self.checks.equal((sum(s["batches"] for s in streams), sum(s["events"] for s in streams)), (sent, sent * self.events_per_batch),
                          "the victim's batches and events in the store")
        self.collector.stop()

    def log(self):
        """All that the collector wrote."""
        return (self.env.folder / f"{self.collector.name}.log").read_text(errors="replace")

    def cpu_s(self):
        """Seconds of a processor that the collector has used, without its children."""
        fields = pathlib.Path(f"/proc/{self.collector.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.collector.process.pid}/fd"))

    def metrics(self):
        """/metrics: name -> value, of those without labels."""
        web = Web(self.web_port, VICTIM_READER, self.reader.context)
        web.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.admin}"} if self.tokens else {})
        text = web.getresponse().read().decode()
        web.close()
        return {name: float(value) for name, value in re.findall(r"^(\w+) ([0-9.e+-]+)$", text, re.M)}

    def measure(self):
        """Runs both victims for the world's seconds: name -> (seconds of each request, failures)."""
        until, running = processes.Event(), []
        for name, victim in (("agent", self.agent), ("reader", self.reader)):
            mine, theirs = processes.Pipe()
            process = processes.Process(target=victim.run, args=(until, theirs), daemon=True)
            process.start()
            running.append((name, mine, process))
        time.sleep(self.seconds)
        until.set()
        measured = {}
        for name, pipe, process in running:
            if not pipe.poll(120):
                process.kill()
                raise harness.Failure(f"the victim {name} had no answer within 120 s")
            measured[name] = pipe.recv()
            process.join()
        return measured

    def compare(self, what, attack, ready_s=60, judged=("agent", "reader")):
        """Measures the victims without and with the attack and checks the difference; returns what the last attack returned. judged: the
        victims whose latency is compared; that each request is answered is checked of both."""
        quiet, attacked, report = {}, {}, None

        def add(to, measured):
            for victim, (times, failures) in measured.items():
                to.setdefault(victim, ([], []))[0].extend(times)
                to[victim][1].extend(failures)

        def p99(measured, victim):
            return percentile(measured[victim][0], 0.99)

        def limit(victim):
            return max(2 * p99(quiet, victim), FLOOR_S)

        begin = time.monotonic()
        for number in range(1, LOOKS[-1] + 1):
            add(quiet, (self.twin or self).measure())
            report, measured = self._measure_attacked(what, attack, ready_s)
            add(attacked, measured)
            if number >= self.rounds and number in LOOKS and all(p99(attacked, victim) < limit(victim) for victim in judged):
                break
            if number >= self.rounds and time.monotonic() - begin > COMPARE_MAX_S:
                break
        for victim in quiet:
            shown = ", ".join(f"p50 {percentile(m[victim][0], 0.5) * 1e3:.1f} p99 {p99(m, victim) * 1e3:.1f} ms {name} ({len(m[victim][0])} requests)"
                              for name, m in (("quiet", quiet), ("attacked", attacked)))
            print(f"{what}: {victim} {shown}, {number} rounds", flush=True)
            self.checks.equal((quiet[victim][1][:3], attacked[victim][1][:3]), ([], []), f"{what}: failed requests of the {victim}, quiet and attacked")
            self.checks.that(victim not in judged or p99(attacked, victim) < limit(victim), f"{what}: p99 of the {victim} is {p99(attacked, victim) * 1e3:.1f} ms, "
                             f"expected less than {limit(victim) * 1e3:.1f} ms")
        return report

    def _measure_attacked(self, what, attack, ready_s):
        stop, ready = processes.Event(), processes.Event()
        mine, theirs = processes.Pipe()
        attacker = processes.Process(target=_attack, args=(attack, self, stop, ready, theirs), daemon=True)
        attacker.start()
        try:
            if not ready.wait(ready_s):
                raise harness.Failure(f"{what}: the attack was not ready within {ready_s} s")
            attacked = self.measure()
        finally:
            stop.set()
            report, failure = mine.recv() if mine.poll(60) else (None, "the attacker did not end within 60 s")
            attacker.join(10)
            if attacker.is_alive():
                attacker.kill()
        self.checks.equal(failure, None, f"{what}: failure of the attack itself")
        return report, attacked
