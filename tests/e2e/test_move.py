"""A collector moves to another machine, and its package is upgraded, as docs/guides/backup-upgrade.md says: agents keep their batches meanwhile and
send them afterwards, the store has each event once, and a configuration that was changed stays.

usage: test_move.py --build DIR
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 19: A collector that moves, or whose package is upgraded, loses and repeats no event of an agent that waits. | two runs, one of them
#   sent to the new collector | 2026-11-29
import json
import os
import re
import shutil
import subprocess

import harness

AGENT = "shop-1"


def digest(collector, host):
    """Each event of the store once, in the order of its run, without where it is stored."""
    return collector.ask("query", "--format", "csv", "--rows", "0", f"SELECT time, name, pid, tid, fields FROM events WHERE host = '{host}' ORDER BY stream, batch, position")


def waiting_replay(env, checks, path, collector, spool):
    """An agent that sends while no collector is there."""
    log = open(env.folder / f"{spool}.log", "w", encoding="utf-8")
    process = subprocess.Popen(env.replay_command([path], collector, agent=AGENT, spool=env.folder / spool, extra=["--batch-events", "2000"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    harness.wait_until(lambda: "trying again" in (env.folder / f"{spool}.log").read_text() or process.poll() is not None, "an agent that finds no collector", 60)
    checks.that(process.poll() is None, "an agent without a collector keeps its batches and goes on")
    return process


def move(env, checks, first, second):
    old = env.new_collector("old")
    old.start()
    env.replay([first], old, agent=AGENT, spool=env.folder / "spool-1")
    token = old.ask(["token", "add"], "--name", "anna").split()
    before, port = digest(old, AGENT), old.port
    old.stop()
    agent = waiting_replay(env, checks, second, old, "spool-2")

    # the new machine: a copy of the store, a certificate with both names of the same CA, the old name leads to it
    env.run([env.collector, "backup", "--store", old.store, "--to", env.folder / "carried", "--verify"])
    new = env.new_collector("new")
    env.run([env.collector, "restore", "--from", env.folder / "carried", "--store", new.store, "--with-tokens"])
    shutil.rmtree(old.store)
    env.run([env.collector, "ca", "issue", "--dir", env.certs, "--server", "--name", "server-new", "--san", "DNS:localhost", "--san", "DNS:collector-new", "--san", "IP:127.0.0.1"])
    names = env.run(["openssl", "x509", "-in", env.certs / "server-new.crt", "-noout", "-ext", "subjectAltName"]).stdout
    checks.that("DNS:localhost" in names and "DNS:collector-new" in names, f"the names of the new certificate: {names}")
    new.port, new.certificate = port, "server-new"
    new.start()
    checks.equal(agent.wait(timeout=120), 0, f"the agent that waited: {(env.folder / 'spool-2.log').read_text()[-500:]}")
    checks.equal(digest(new, AGENT)[:len(before)], before, "what the old collector had")
    streams = new.ask_json("hosts")["streams"]
    whole = [json.loads(env.run([env.agent, "stats", "--json", path]).stdout)["events"] for path in (first, second)]
    checks.equal(sorted(row["events"] for row in streams), sorted(whole), "events of both runs, each once")
    checks.equal(env.run([env.collector, "ledger", "--store", new.store], check=False).returncode, 0, "the ledgers balance after the move")
    checks.equal(new.ask("query", "--format", "csv", "SELECT count(*) FROM gaps").split()[-1], "0", "gaps after the move")
    checks.that(token and "anna" in new.ask(["token", "list"]), "the readers' tokens came along")
    new.stop()
    return new


class Machine:
    """A folder in which dpkg installs: its database, and scripts that find no systemd."""

    def __init__(self, env):
        self.env, self.root = env, env.folder / "machine"
        for name in ("updates", "info"):
            (self.root / "var/lib/dpkg" / name).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").touch()

    def install(self, package):
        return self.env.run(["dpkg", f"--root={self.root}", "--force-depends", "--force-script-chrootless", "--force-confdef", "--force-confold", "-i", package], check=False)


def upgrade(env, checks, first, second):
    if os.geteuid() != 0 or os.path.isdir("/run/systemd/system"):  # the scripts of the package would ask this machine's systemd
        print("the upgrade of the package was not tried: expected root, on a machine without systemd")
        checks.skipped += 1
        return
    machine, script = Machine(env), harness.ROOT / "installer" / "debian" / "build-deb.sh"
    env.run([script, env.build, "1.2.3", env.folder / "etwcollector_1.2.3.deb"])
    env.run(["dpkg-deb", "-R", env.folder / "etwcollector_1.2.3.deb", env.folder / "next"])
    control = env.folder / "next/DEBIAN/control"
    control.write_text(control.read_text().replace("Version: 1.2.3", "Version: 1.3.0"))
    env.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", env.folder / "next", env.folder / "etwcollector_1.3.0.deb"])
    done = machine.install(env.folder / "etwcollector_1.2.3.deb")
    checks.equal(done.returncode, 0, f"installing: {done.stderr[-500:]}")
    config, program = machine.root / "etc/etwcollector/collector.yaml", env.collector
    config.write_text(re.sub(r"(?m)^retain-age: .*$", "retain-age: 7d", config.read_text()))
    checks.that("retain-age: 7d" in config.read_text(), "a configuration that the operator changed")
    env.collector = machine.root / "usr/bin/etwcollector"
    try:
        collector = env.new_collector("packaged")
        collector.start()
        env.replay([first], collector, agent=AGENT, spool=env.folder / "spool-3")
        before = digest(collector, AGENT)
        done = machine.install(env.folder / "etwcollector_1.3.0.deb")
        checks.equal(done.returncode, 0, f"upgrading while it runs: {done.stderr[-500:]}")
        checks.that("Version: 1.3.0" in (machine.root / "var/lib/dpkg/status").read_text(), "dpkg has the new version")
        checks.that("retain-age: 7d" in config.read_text(), "the configuration that was changed is kept")
        checks.equal(digest(collector, AGENT), before, "the running collector answers after its program was replaced")
        collector.stop()  # what postinst does where systemd runs: try-restart
        agent = waiting_replay(env, checks, second, collector, "spool-4")
        collector.start()
        checks.equal(agent.wait(timeout=120), 0, f"the agent that waited: {(env.folder / 'spool-4.log').read_text()[-500:]}")
        checks.equal(digest(collector, AGENT)[:len(before)], before, "what was stored before the upgrade")
        whole = [json.loads(env.run([env.agent, "stats", "--json", path]).stdout)["events"] for path in (first, second)]
        checks.equal(sorted(row["events"] for row in collector.ask_json("hosts")["streams"]), sorted(whole), "events of both runs, each once")
        checks.equal(env.run([env.collector, "ledger", "--store", collector.store], check=False).returncode, 0, "the ledgers balance after the upgrade")
        collector.stop()
    finally:
        env.collector = program


def test(env, checks, arguments):
    env.make_certificates([AGENT])
    paths = [env.folder / f"{name}.etl" for name in ("first", "second")]
    for seed, path in enumerate(paths):
        env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", 40 + seed, "--duration-ms", 600, "--out", path])
    move(env, checks, *paths)
    upgrade(env, checks, *paths)


if __name__ == "__main__":
    harness.main(test, __doc__)
