"""Processes that read what others sent are confined: while a question, a profile and a symbol worker run, /proc says that each has seccomp,
no_new_privs, a lower priority, a higher out-of-memory score, no capability beyond file modes, a fixed environment without a planted secret and no
descriptor but its own; /metrics and doctor say which parts this kernel has. Commands that read a store confine themselves, and what they bring up to date first is
read by a process that is confined.
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess

import harness
import traces
import web_world

TRACE = "clr-kernel-win8-x64"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
OTHER = "other"  # agent that sends the same trace
SECRET = "planted-secret-of-the-test"
NICE, OOM_SCORE, SECCOMP_FILTER = 5, 500, 2
SERVICE = 65534  # a user who is not root
FILE_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
PARTS = ("no_new_privs", "seccomp", "landlock_files", "landlock_tcp", "landlock_scope")


def children(pid, name):
    """Processes of this parent that were started under this name."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid and name in (path.parent / "cmdline").read_text():
                found.append(path.parent)
        except (OSError, IndexError, ValueError):
            pass  # it is gone
    return found


def status(process):
    return dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)


def descriptors(process):
    return sorted(int(entry.name) for entry in (process / "fd").iterdir())


def filters(process):
    """How many filters of system calls the process has: a child begins with those of its parent."""
    return int(status(process).get("Seccomp_filters", "0"))


def check_child(checks, parent, name, active, nice=NICE, files=()):
    def entered():
        found = children(parent, name)
        return found and (not active["seccomp"] or filters(found[0]) > filters(pathlib.Path(f"/proc/{parent}")))

    harness.wait_until(entered, f"a {name} in its sandbox", 60)
    process = children(parent, name)[0]
    said = status(process)
    checks.equal(said["NoNewPrivs"], "1", f"{name}: no_new_privs")
    checks.equal(said["Seccomp"], str(SECCOMP_FILTER) if active["seccomp"] else "0", f"{name}: seccomp")
    if active["seccomp"]:
        checks.equal(int(said["CapEff"], 16) & ~FILE_MODES, 0, f"{name}: capabilities {said['CapEff']}")
    checks.equal((process / "oom_score_adj").read_text().strip(), str(OOM_SCORE), f"{name}: out-of-memory score")
    own = os.getpriority(os.PRIO_PROCESS, parent)
    checks.equal(os.getpriority(os.PRIO_PROCESS, int(process.name)), min(19, own + nice), f"{name}: nice, of a parent at {own}")
    environment = (process / "environ").read_bytes()
    checks.that(SECRET.encode() not in environment and b"LC_ALL=C\0" in environment, f"{name}: environment {environment}")
    names = {entry.split(b"=")[0].decode() for entry in environment.split(b"\0") if entry}
    checks.equal(names - {"LC_ALL", "TZ", "PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}, set(), f"{name}: variables")
    others = [os.readlink(process / "fd" / str(fd)) for fd in descriptors(process) if fd > 2]
    checks.that(all(any(word in target for word in files) for target in others), f"{name}: descriptors of {others}")
    checks.that(not any("tokens" in target or ".key" in target or "socket:" in target for target in others), f"{name}: {others}")
    return process


def parts_of(web):
    _, _, text = web.ask("/metrics")
    return {name: int(value) for name, value in re.findall(r'etwcollector_sandbox_active\{part="(\w+)"\} (\d)', text)}


def check_profile(checks, collector, web, silent, active):
    """A profile with names: its process, and the process that queries the symbol server, which never answers."""
    asking = http.client.HTTPConnection("127.0.0.1", web.port, timeout=120)
    asking.request("GET", "/api/v1/profile?weight=samples")
    silent.settimeout(30)
    try:
        connection, _ = silent.accept()
    except OSError as problem:
        raise harness.Failure(f"the symbol worker does not connect: {problem}") from problem
    check_child(checks, collector.process.pid, "profile-worker", active, files=("/segments/", ".db", "pipe:"))
    worker = children(collector.process.pid, "symbol-worker")[0]
    checks.equal((status(worker)["NoNewPrivs"], SECRET.encode() in (worker / "environ").read_bytes(), (worker / "oom_score_adj").read_text().strip()),
                 ("1", False, str(OOM_SCORE)), "the symbol worker")
    checks.equal(status(worker)["Seccomp"], str(SECCOMP_FILTER) if active["seccomp"] else "0", "the symbol worker: seccomp")
    asking.close()
    connection.close()


def check_command(checks, env, words, active, said="", is_task=False):
    """A command whose answer is not taken: it waits with its first bytes, in its sandbox; is_task: a process of its own does."""
    out, full = os.pipe()
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(full, True)
    running = subprocess.Popen([str(env.collector), *map(str, words)], stdout=full, stderr=subprocess.PIPE)
    wanted = ("1", str(SECCOMP_FILTER) if active["seccomp"] else "0")

    def is_confined():
        processes = children(running.pid, "") if is_task else [pathlib.Path(f"/proc/{running.pid}")]
        said = status(processes[0]) if processes else {}
        return (said.get("NoNewPrivs"), said.get("Seccomp")) == wanted

    try:
        harness.wait_until(lambda: is_confined() or running.poll() is not None, f"{words[0]} in its sandbox", 60)
        checks.that(running.poll() is None and is_confined(), f"{words}: not confined, or ended early")
        os.close(full)
        full = -1
        while os.read(out, 1 << 20):
            pass
        code, errors = running.wait(60), running.stderr.read().decode()
        checks.that(code == 0 and said in errors and bool(said) == bool(errors), f"{words[0]} in its sandbox: {code}, {errors!r}, expected {said!r}")
    finally:
        if full >= 0:
            os.close(full)
        os.close(out)
        running.kill()
        running.wait()
        running.stderr.close()


def check_commands(checks, env, collector, active):
    place = ("--store", str(collector.store), "--host", TRACE)
    modules = json.loads(env.run([env.collector, "modules", *place, "--pid", "0", "--json"]).stdout)["modules"]
    rule = env.folder / "rule.yml"
    rule.write_text("title: shell\nlogsource: {product: windows, category: process_creation}\ndetection: {s: {CommandLine|contains: x}, condition: s}\n")
    program = ("watch", "--store", str(collector.store), "-e", '"Process/*" { @ = count(); }')
    where = ("where", *place, "--pid", "0", modules[0]["base"])
    for words in (("ps", *place), program, ("rules", "check", *place, str(rule)), ("rules", "test", *place, str(rule)), ("modules", *place, "--pid", "0"),
                  ("export", *place), ("pull", *place, "-o", env.folder / "pulled.etl"), where, ("hosts", "--store", str(collector.store)), ("ledger", *place), ("profile", *place)):
        check_command(checks, env, words, active, "events with weight" if words[0] == "profile" else "")
    check_command(checks, env, ("quota", "--store", str(collector.store)), active)
    for words in (("backup", "--verify", "--to", env.folder / "backup"), ("forget", "--dry-run", "--host", TRACE), ("token", "add", "--name", "reader"),
                  ("token", "list")):
        at = len(words) if words[0] != "token" else 2
        check_command(checks, env, (*words[:at], "--store", str(collector.store), *words[at:]), active, is_task=True)
    check_command(checks, env, ("restore", "--from", env.folder / "backup", "--store", env.folder / "restored"), active, is_task=True)
    check_command(checks, env, (*where, "--lines", "--symbol-cache", str(env.folder / "symbols")), active, "without symbols: ")
    check_command(checks, env, (*program, "--symbol-cache", str(env.folder / "symbols")), active)


def check_fold(checks, env, collector, active):
    """A command that reads what the history lacks, with no collector: the process that folds waits for the tables, which the test has locked."""
    tables, before = collector.store / "state.db", env.folder / "state.before"
    shutil.copyfile(tables, before)
    collector.start()
    env.replay(traces.paths(TRACE, env.build), collector, agent=OTHER, spool=env.folder / "more")
    collector.stop()
    for path in collector.store.glob("state.db*"):
        path.unlink()
    shutil.copyfile(before, tables)
    lock = sqlite3.connect(tables, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    running = subprocess.Popen([str(env.collector), "ps", "--store", str(collector.store), "--host", OTHER], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        check_child(checks, running.pid, "fold-worker", active, files=("/segments/", ".db", "state.lock"))
        checks.that(running.poll() is None, "ps waits for it")
        lock.execute("ROLLBACK")
        lock.close()
        shown, errors = running.communicate(timeout=60)
        checks.equal((running.returncode, bool(shown), errors), (0, True, b""), "ps after the fold")
    finally:
        lock.close()
        running.kill()
        running.wait()
    if os.geteuid() == 0:
        check_owner(checks, env, collector.store)


def check_owner(checks, env, store):
    """What root's command makes in the store of a service is the service's, though a confined process may give nothing away."""
    for path in store.glob("state.*"):
        path.unlink()
    for path in (store, *store.rglob("*")):
        os.chown(path, SERVICE, SERVICE)
    env.run([env.collector, "ps", "--store", store, "--host", OTHER])
    env.run([env.collector, "token", "add", "--store", store, "--name", "of-root"])
    env.run([env.collector, "forget", "--store", store, "--host", TRACE])
    owners = {path.name: path.stat().st_uid for path in store.rglob("*")}
    checks.that((store / "state.db").exists() and set(owners.values()) == {SERVICE}, f"owners after root's ps: {owners}")


def test(env, checks, arguments):
    os.environ["EA_TEST_SECRET"] = SECRET
    env.make_certificates(agents=[TRACE, OTHER])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        collector = env.new_collector(extra=["--web", "127.0.0.1:0", "--symbols", f"srv*http://127.0.0.1:{silent.getsockname()[1]}/silent"]).start()
        checks.that(SECRET.encode() in pathlib.Path(f"/proc/{collector.process.pid}/environ").read_bytes(), "the collector has the planted secret")
        env.replay(traces.paths(TRACE, env.build), collector, agent=TRACE, spool=env.folder / "spool")
        web = web_world.Web(collector)
        active = parts_of(web)
        checks.equal(set(active), set(PARTS), "parts in /metrics")
        checks.equal(active["no_new_privs"], 1, "no_new_privs is always there")
        doctor = json.loads(env.run([env.collector, "doctor", "--store", collector.store, "--json"], check=False).stdout)
        said = [c for c in doctor["checks"] if c["check"] == "sandbox"]
        is_whole = active["seccomp"] and active["landlock_files"]
        checks.equal([c["verdict"] for c in said], ["ok" if is_whole else "warning"], f"doctor: {said}")
        checks.that(all(part in said[0]["text"] for part in PARTS), f"doctor names each part: {said}")
        checks.equal("missing" in said[0]["text"], 0 in active.values(), f"doctor: what is missing: {said}, {active}")
        print(f"parts of the sandbox here: {active}")
        # a question
        asking = http.client.HTTPConnection("127.0.0.1", web.port, timeout=120)
        asking.request("POST", "/api/v1/sql", json.dumps({"sql": ENDLESS}), {"Content-Type": "application/json"})
        check_child(checks, collector.process.pid, "query-worker", active, files=("/segments/", ".db", "pipe:"))
        asking.close()
        harness.wait_until(lambda: not children(collector.process.pid, "query-worker"), "the end of the question", 60)
        if traces.real("the sandboxes of a profile with names"):
            check_profile(checks, collector, web, silent, active)
        harness.wait_until(lambda: len(children(collector.process.pid, "")) == len(children(collector.process.pid, "file-broker")) == 1,
                           "the end of all children but the broker", 60)
        check_commands(checks, env, collector, active)
        collector.stop()
        check_fold(checks, env, collector, active)


if __name__ == "__main__":
    harness.main(test, __doc__)
