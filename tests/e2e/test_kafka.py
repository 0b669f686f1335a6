"""`etwcollector sink run --kind kafka`: stored events to brokers of Kafka, which are librdkafka's mock cluster in a process of its own; kcat, a program of others, reads the
topics. The brokers refuse, stop and lose requests, and the sink is killed: each event is there, once after dropping by `row`, with its host as the key.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 29: A topic of Kafka gets each stored event at least once, and once by its name, whatever fails between. | 4 kills of the sender, brokers that stop and
#   answer with errors; what kcat reads is compared with `export` | 2026-11-28
import json
import random
import shutil
import signal
import subprocess

import harness
import test_rules_test as one
import test_single_records as single
import test_sinks as sinks

SECONDS = 60
KILLS = 4
EVENTS = 600
NOT_LEADER, TOO_LARGE, NOT_AUTHORIZED, TIMED_OUT, NOT_ENOUGH = 6, 10, 29, 7, 19


class Brokers:
    def __init__(self, env, count):
        program = env.build / "tests" / "e2e" / "kafka_mock"
        self.process = subprocess.Popen([program, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.servers = self.process.stdout.readline().strip()

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise harness.Failure(f"kafka_mock: {words}: {answer}")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class World(sinks.World):
    def __init__(self, env, checks, brokers):
        super().__init__(env, checks)
        self.brokers = brokers

    def words(self, name, *words, servers=None, timeout="20s"):
        return [str(word) for word in (self.env.collector, "sink", "run", "--store", self.store, "--name", name, "--kind", "kafka", "--to",
                                       f"kafka://{servers or self.brokers.servers}/{name}", "--retry-min", "2ms", "--retry-max", "50ms", "--timeout", timeout, *words)]

    def send(self, name, *words, code=0, **more):
        done = self.env.run(self.words(name, "--once", *words, **more), check=False, timeout=SECONDS)
        self.checks.equal(done.returncode, code, f"{name} {words}: {done.stdout} {done.stderr[-2000:]}")
        return done

    def read(self, topic):
        """What kcat reads: keys, partitions and rows, in the order of each partition."""
        done = self.env.run(["kcat", "-b", self.brokers.servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J"], timeout=SECONDS)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        return [(message["key"], message["partition"], json.loads(message["payload"])) for message in messages]


def compare(world, checks, name, got):
    """Each event once, after dropping by row."""
    rows = {}
    for key, partition, row in got:
        rows.setdefault(row["row"], row)
    for host, expected in world.events().items():
        mine = sorted((row for row in rows.values() if row["host"] == host), key=sinks.place)
        checks.equal([sinks.plain(row) for row in mine], expected, f"{name}: rows of {host}")
    checks.equal(len(rows), world.stored(), f"{name}: all events")
    checks.equal([(key, row["host"]) for key, _, row in got if key != row["host"]], [], f"{name}: keys are hosts")


def whole(world, checks):
    world.brokers.do("topic", "whole", 4)
    world.send("whole", "--all", "--rows", 100)
    got = world.read("whole")
    compare(world, checks, "whole", got)
    checks.equal(len(got), world.stored(), "whole: each was sent once")
    checks.equal({host: len({partition for key, partition, _ in got if key == host}) for host in ("a", "b")}, {"a": 1, "b": 1}, "a host has one partition")
    status = world.balanced("whole", "all is sent")
    checks.equal((status["kind"], status["sent"], status["receiver"]), ("kafka", world.stored(), world.brokers.servers), f"{status}")
    world.send("whole")
    checks.equal(len(world.read("whole")), len(got), "nothing is sent twice")


def chaos(world, checks):
    """Errors that end, brokers that stop, kills."""
    dice = random.Random(28)
    world.brokers.do("topic", "chaos", 2)
    for kill in range(KILLS):
        world.brokers.do("errors", *(dice.choice((0, NOT_LEADER, TIMED_OUT, NOT_ENOUGH)) for _ in range(6)))
        world.brokers.do("down", 1 + kill % 3)
        process = subprocess.Popen(world.words("chaos", "--all", "--rows", 5, timeout="1s"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = status_of(world, "chaos")["requests"]
        harness.wait_until(lambda before=before: (now := status_of(world, "chaos"))["requests"] > before + 1 or now["sent"] == world.stored(), "requests", SECONDS,
                           lambda: world.sink("status").stdout)
        if kill % 2:
            world.brokers.do("up", 1 + kill % 3)  # it has led a partition: its rows go on
            wanted = min(world.stored(), (kill + 1) * 60)
            harness.wait_until(lambda wanted=wanted: status_of(world, "chaos")["sent"] >= wanted, "rows that are accepted", SECONDS, lambda: world.sink("status").stdout)
        process.kill()
        process.wait()
        world.brokers.do("up", 1 + kill % 3)
    world.send("chaos", "--rows", 50)
    compare(world, checks, "chaos", world.read("chaos"))
    status = world.balanced("chaos", "chaos")
    checks.equal((status["sent"], status["refused"], status["removed"]), (world.stored(), 0, 0), f"{status}")


def status_of(world, name):
    found = json.loads(world.sink("status", "--json").stdout)["sinks"]
    return next((sink for sink in found if sink["name"] == name), {"sent": 0, "requests": 0})


def refusals(world, checks):
    """A row that is too large is refused alone; a topic that may not be written to costs nothing."""
    world.brokers.do("topic", "large", 1)
    properties = world.env.folder / "properties"
    properties.write_text("# rows of 4 KiB at the most\nmessage.max.bytes=4096\nclient.id=test\n")
    world.send("large", "--all", "--properties", properties)
    status = world.balanced("large", "rows that are too large")
    checks.equal((status["refused"], status["sent"]), (1, world.stored() - 1), f"{status}")
    checks.that(status["last_refusal"].startswith("c/") and "too large" in status["last_refusal"], status["last_refusal"])
    world.brokers.do("topic", "closed", 1)
    world.brokers.do("fail", "closed", NOT_AUTHORIZED)
    done = world.send("closed", "--all", code=1, timeout="300ms")
    status = world.balanced("closed", "a topic that may not be written to")
    checks.equal((status["sent"], status["refused"]), (0, 0), f"nothing is given up: {status}")
    checks.that("sink closed: rows are sent again: send to 127.0.0.1" in done.stderr, f"and it is reported: {done.stderr}")
    world.brokers.do("fail", "closed", 0)
    world.brokers.do("errors", TOO_LARGE, TOO_LARGE)  # rows that are too large together
    world.send("closed")
    status = world.balanced("closed", "it may be written to again")
    checks.equal((status["sent"], status["refused"]), (world.stored(), 0), f"all is sent: {status}")
    checks.that(status["retried"] > 0, f"fewer at a time: {status}")


def away(world, checks):
    """No broker; an end while it waits; options that cannot be used."""
    done = world.send("away", "--all", code=1, servers="127.0.0.1:9", timeout="300ms")
    checks.that("send to 127.0.0.1:9" in done.stderr, f"brokers that are away: {done.stderr}")
    process = subprocess.Popen(world.words("away", servers="127.0.0.1:9"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    harness.wait_until(lambda: world.status("away")["running"], "a sink that waits", SECONDS)
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=SECONDS)
    checks.equal((process.returncode, "sink away: 0 sent" in out[0]), (0, True), f"ends when it is asked to: {out}")
    for to in ("http://127.0.0.1/x", "kafka://127.0.0.1:9", "kafka:///t", "kafka://a/t/u", "kafka://a/t t", "kafka://a@b/t"):
        done = world.env.run([world.env.collector, "sink", "run", "--store", world.store, "--name", "bad", "--kind", "kafka", "--to", to], check=False)
        checks.that(done.returncode == 2 and "expected kafka://" in done.stderr, f"{to}: {done.stderr}")
    properties = world.env.folder / "bad"
    for text, said in (("plugin.library.paths=/tmp/x.so", "cannot be set here"), ("enable.idempotence=false", "cannot be set here"), ("x", "expected lines NAME=VALUE"),
                       ("compression.codec=none\nmessage.max.bytes=lots", "message.max.bytes")):
        properties.write_text(text + "\n")
        done = world.send("bad", "--properties", properties, code=2)
        checks.that(said in done.stderr, f"{text}: {done.stderr}")
    world.send("bad", "--headers", properties, code=2)


def confined(world, checks):
    """What arrives while it runs, from its sandbox."""
    process = subprocess.Popen(world.words("whole"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    world.ingest("d", [one.process(90, 4, "d.exe", "d.exe", 1000)])
    harness.wait_until(lambda: world.status("whole")["sent"] == world.stored(), "what arrives", SECONDS, lambda: world.sink("status").stdout)
    with open(f"/proc/{process.pid}/status", encoding="ascii") as lines:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
    threads = {(task.name, dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)["Seccomp"])
               for task in world.env.folder.joinpath(f"/proc/{process.pid}/task").iterdir()}
    process.terminate()
    process.communicate(timeout=SECONDS)
    checks.equal((process.returncode, status["NoNewPrivs"]), (0, "1"), "it runs in a sandbox")
    checks.that(len(threads) > 2 and len({mode for _, mode in threads}) == 1 and "0" not in {mode for _, mode in threads} or status["Seccomp"] == "0", f"so do librdkafka's threads: {threads}")
    checks.that(any(row["host"] == "d" for _, _, row in world.read("whole")), "it is there")


def test(env, checks, arguments):
    if not shutil.which("kcat"):
        raise harness.Failure("kcat is missing: installer/deps/packages.sh installs it")
    brokers = Brokers(env, 3)
    world = World(env, checks, brokers)
    world.ingest("a", [one.process(4, 0, "System", "", 900)] + [one.process(100 + 4 * i, 4, "x.exe", f"x.exe /n {i} \u00e9\U0001f600", 2000 + i) for i in range(EVENTS)])
    world.ingest("b", one.RECORDS)
    whole(world, checks)
    chaos(world, checks)
    world.ingest("c", [one.process(90, 4, "c.exe", "c" * 6000, 1000), one.process(94, 4, "c.exe", "c.exe", 1001)])
    refusals(world, checks)
    away(world, checks)
    confined(world, checks)
    brokers.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
