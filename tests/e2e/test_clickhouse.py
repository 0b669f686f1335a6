"""`etwcollector sink run --kind clickhouse`: stored events to a ClickHouse server (Debian's), started on loopback with a folder of its own. Sender and server are killed, the
table is missing and comes; then SELECT ... FINAL has each event once, with the columns and the JSON that `export` prints.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 30: A table of ClickHouse has each stored event, once with FINAL, whatever fails between. | 4 kills of the sender, 2 of the server; columns and JSON
#   compared with `export`, of a server of version 18.16 | 2026-11-28
import json
import random
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import harness
import kernel_records as kernel
import test_rules_test as one
import test_single_records as single
import test_sinks as sinks

SECONDS = 60
KILLS = 4
EVENTS = 800
COLUMNS = ("provider", "provider_name", "name", "id", "version", "level", "opcode", "task", "keyword", "cpu", "pid", "tid")
NO_PID = 0xFFFFFFFF

CONFIG = """<yandex><logger><level>fatal</level><console>1</console></logger><listen_host>127.0.0.1</listen_host><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>16777216</mark_cache_size></yandex>
"""
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password>s3cr3t</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default></users></yandex>
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    def __init__(self, env):
        self.folder = env.folder / "clickhouse"
        self.folder.mkdir()
        self.port, tcp = free_ports(2)
        (self.folder / "config.xml").write_text(CONFIG.format(http=self.port, tcp=tcp, folder=self.folder))
        (self.folder / "users.xml").write_text(USERS)
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([shutil.which("clickhouse-server"), f"--config-file={self.folder}/config.xml"], cwd=self.folder, stdout=log, stderr=log)
        harness.wait_until(self.answers, "a ClickHouse server", SECONDS, lambda: (self.folder / "log").read_text(errors="replace")[-2000:])

    def answers(self):
        try:
            return self.ask("SELECT 1") == "1\n"
        except (OSError, urllib.error.URLError):
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, statement):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", statement.encode(), {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "s3cr3t"})
        with self.opener.open(request, timeout=SECONDS) as answer:
            return answer.read().decode(errors="surrogateescape")

    def rows(self, table, final=True):
        """Numbers of 64 bits come as texts."""
        text = self.ask(f"SELECT * FROM {table} {'FINAL' if final else ''} FORMAT JSONEachRow")
        return [json.loads(line) for line in text.splitlines()]


class World(sinks.World):
    def __init__(self, env, checks, server):
        super().__init__(env, checks)
        self.server, self.headers = server, env.folder / "headers"
        self.headers.write_text("X-ClickHouse-User: default\nX-ClickHouse-Key: s3cr3t\n")

    def words(self, name, *words):
        return [str(word) for word in (self.env.collector, "sink", "run", "--store", self.store, "--name", name, "--kind", "clickhouse", "--to", f"http://127.0.0.1:{self.server.port}/",
                                       "--headers", self.headers, "--retry-min", "5ms", "--retry-max", "100ms", *words)]

    def send(self, name, *words, code=0):
        done = self.env.run(self.words(name, "--once", *words), check=False, timeout=SECONDS, env=sinks.DIRECT)
        self.checks.equal(done.returncode, code, f"{name} {words}: {done.stdout} {done.stderr[-2000:]}")
        return done

    def make_table(self, *words):
        self.server.ask(self.env.run([self.env.collector, "clickhouse", "init", *words]).stdout)

    def compare(self, table, rows):
        """Each event once, with all its columns."""
        self.checks.equal(len(rows), self.stored(), f"{table}: all events")
        for host, expected in self.events().items():
            mine = sorted((row for row in rows if row["host"] == host), key=lambda row: (row["stream"], int(row["batch"]), row["position"]))
            self.checks.equal([json.loads(row["event"]) for row in mine], expected, f"{table}: JSON of {host}")
            got = [{**{name: row[name] for name in COLUMNS}, "keyword": int(row["keyword"])} for row in mine]
            wanted = [{name: NO_PID if name in ("pid", "tid") and event[name] is None else event[name] or (event[name] if event[name] == 0 else "") for name in COLUMNS} for event in expected]
            self.checks.equal([{**row, "keyword": number(row["keyword"])} for row in wanted], got, f"{table}: columns of {host}")
            times = [f"{row['time'].replace(' ', 'T')}.{int(row['time_ns']) % 10**9 // 100:07}Z" for row in mine]
            self.checks.equal(times, [event["time"] for event in expected], f"{table}: times of {host}")


def number(value):
    return int(value, 16) if isinstance(value, str) else value


def definition(world, checks):
    text = world.env.run([world.env.collector, "clickhouse", "init", "--table", "db1.t_2", "--keep-days", "30"]).stdout
    checks.that(text.startswith("CREATE TABLE IF NOT EXISTS db1.t_2\n") and text.endswith("TTL received + INTERVAL 30 DAY\n"), text)
    for bad in ("", "a b", "1a", "a.b.c", "a;DROP TABLE x", "x" * 200, "a.", ".a"):
        done = world.env.run([world.env.collector, "clickhouse", "init", "--table", bad], check=False)
        checks.that(done.returncode == 2 and "expected TABLE or DATABASE.TABLE" in done.stderr, f"{bad}: {done.stderr}")
        done = world.send("bad", "--table", bad, code=2)


def whole(world, checks):
    """A table that is missing costs nothing; then all arrives, and again after a replay, once with FINAL."""
    done = world.send("whole", "--all", code=1)
    checks.that("status 404: Code: 60" in done.stderr and "etw" not in done.stderr.split("Code")[0].lower().replace("etwcollector", ""), f"the server's reason: {done.stderr}")
    status = world.balanced("whole", "no table")
    checks.equal((status["sent"], status["refused"]), (0, 0), f"{status}")
    world.make_table()
    world.send("whole", "--rows", "100")
    status = world.balanced("whole", "all is sent")
    checks.equal((status["sent"], status["kind"]), (world.stored(), "clickhouse"), f"{status}")
    rows = world.server.rows("events", final=False)
    world.compare("events", rows)
    names = {row["process"] for row in rows if row["host"] == "a" and row["pid"] == 4}
    checks.that(names <= {"", "System"} and "System" in names, f"processes: {names}")
    world.sink("replay", "--name", "whole", "--all")
    world.send("whole")
    checks.equal(int(world.server.ask("SELECT count() FROM events")) > world.stored(), True, "sent again")
    world.compare("events FINAL", world.server.rows("events"))
    world.server.ask("OPTIMIZE TABLE events FINAL")
    checks.equal(int(world.server.ask("SELECT count() FROM events")), world.stored(), "merged")


def chaos(world, checks):
    dice = random.Random(29)
    world.make_table("--table", "chaos")
    for kill in range(KILLS):
        process = subprocess.Popen(world.words("chaos", "--all", "--rows", "20", "--table", "chaos"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sinks.DIRECT)
        wanted = min(world.stored(), 60 * (kill + 1) + dice.randrange(60))
        harness.wait_until(lambda wanted=wanted: sent(world) >= wanted, "rows", SECONDS, lambda: world.sink("status").stdout)
        if kill % 2:
            world.server.kill()
            world.server.start()
        process.kill()
        process.wait()
    world.send("chaos", "--table", "chaos")
    world.compare("chaos", world.server.rows("chaos"))
    status = world.balanced("chaos", "chaos")
    checks.equal((status["sent"], status["refused"]), (world.stored(), 0), f"{status}")


def sent(world):
    found = json.loads(world.sink("status", "--json").stdout)["sinks"]
    return next((sink["sent"] for sink in found if sink["name"] == "chaos"), 0)


def test(env, checks, arguments):
    if not shutil.which("clickhouse-server"):
        print("clickhouse-server is missing (installer/deps/packages.sh): not tested")
        checks.skipped += 1
        return
    server = Server(env)
    try:
        world = World(env, checks, server)
        world.ingest("a", [one.process(4, 0, "System", "", 900)] + [one.process(100 + 4 * i, 4, "x.exe", f"x.exe /n {i} \u00e9\U0001f600", 2000 + i) if i % 3 else
                                                                   kernel.image(90, one.BASE + 0x1000 * i, 0x1000, f"x{i}.dll", 2000 + i) for i in range(EVENTS)])
        world.ingest("b", one.RECORDS)
        definition(world, checks)
        whole(world, checks)
        chaos(world, checks)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=SECONDS)
    finally:
        if server.process.poll() is None:
            server.kill()


if __name__ == "__main__":
    harness.main(test, __doc__)
