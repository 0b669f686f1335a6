"""`etwagent run`: several independent sources at the same time. It starts without its certificate, its collector and one of its
traces, logs each of them once, and ships everything when they exist; it reloads its configuration without interrupting sources
that did not change, and refuses a configuration with a mistake; the collector receives its labels and their changes; after a
kill and a restart, it ships every event once.

# sanitizers: tsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 3: Several sources of one agent deliver each event once. | no certificate, trace or collector at the start; reloads; three kills
#   | 2026-11-21
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
import traces

ONE, TWO, LATE = "amsi-eventslost", "clr-32bit", "kernel-network-provider"


def wait_until(condition, what, agent):
    def holds():
        if condition():
            return True
        if agent.process.poll() is not None:
            raise harness.Failure(f"the agent ended with {agent.process.returncode}, waiting for {what}:\n{agent.log()}")
        return False
    harness.wait_until(holds, what, 240, lambda: f":\n{agent.log()}")


class Agent:
    """An `etwagent run` with its configuration, status file and spool in one folder."""

    def __init__(self, env, collector, name="test-machine"):
        self.env, self.collector, self.name = env, collector, name
        self.config, self.status = env.folder / f"{name}.yaml", env.folder / f"{name}.status.json"
        self.output = env.folder / f"{name}.agent.log"
        self.process = None

    def configure(self, sources, batching="batch-events: 1000", certificate=None, service=(), labels=None):
        """sources: {name: (paths, speed)}"""
        lines = [f"labels: {json.dumps(labels or {}, ensure_ascii=False)}", "service:", f"  status: {json.dumps(str(self.status))}", "  status-every: 100ms", *(f"  {line}" for line in service),
                 "shipping:",
                 f"  collector: {self.collector.url}", f"  cert: {certificate or self.env.certs / (self.name + '.crt')}",
                 f"  key: {self.env.certs / (self.name + '.key')}", f"  ca: {self.env.certs / 'ca.crt'}",
                 f"  spool: {self.env.folder / (self.name + '-spool')}", "  retry-max: 500ms", "batching:", f"  {batching}", "sources:"]
        for name, (paths, speed) in sources.items():
            lines += [f"  - name: {name}", f"    speed: {speed}", "    files:"] + [f"      - {json.dumps(str(p))}" for p in paths]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def start(self):
        with open(self.output, "ab") as log:
            self.process = subprocess.Popen([str(self.env.agent), "run", "--config", str(self.config)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        return self

    def log(self):
        return self.output.read_text(errors="replace")[-4000:]

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def now(self):
        """The status of the process that runs, or {}."""
        try:
            status = json.loads(self.status.read_text())
        except FileNotFoundError:
            return {}
        return status if status["pid"] == self.process.pid else {}

    def sources(self):
        return {s["name"]: s for s in self.now().get("sources", [])}

    def state(self, name):
        return self.sources().get(name, {}).get("state")

    def wait_state(self, name, state):
        wait_until(lambda: self.state(name) == state, f"source {name} to be {state}", self)


def raw_lines(env, paths):
    done = env.run([env.agent, "dump", "--format", "raw", *paths])
    return sorted(done.stdout.splitlines())


def check_store(env, checks, collector, host, expected, what):
    done = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw"])
    checks.that(sorted(done.stdout.splitlines()) == expected,
                f"{what}: the store has {len(done.stdout.splitlines())} records, {len(expected)} were in the sources, or they differ")


def bad_start(env, checks, collector):
    """No certificate, no collector, and one trace is not there yet."""
    agent = Agent(env, collector, "late-machine")
    missing = env.folder / "late.etl"
    certificate, aside = env.certs / "late-machine.crt", env.folder / "aside.crt"
    os.rename(certificate, aside)
    collector.kill()
    sources = {"one": (traces.paths(ONE, env.build), 0), "late": ([missing], 0)}
    agent.configure(sources)
    try:
        agent.start()
        wait_until(lambda: "late-machine.crt" in agent.log(), "word of the missing certificate", agent)
        os.rename(aside, certificate)
        wait_until(lambda: "late.etl" in agent.log(), "word of the missing trace", agent)
        wait_until(lambda: (agent.now().get("shipping") or {}).get("error"), "word of the missing collector", agent)
        time.sleep(6)  # another round of attempts
        words = agent.log()
        for what in ("source late: ", "source one: "):
            checks.that(words.count(what) <= 3, f"{what}said again and again:\n{words}")
        status = env.run([env.agent, "status", "--file", agent.status])
        checks.that("  error: " in status.stdout and "source late: waiting" in status.stdout, f"status says {status.stdout}")
        collector.start()
        agent.wait_state("one", "shipped")
        os.symlink(traces.paths(LATE, env.build)[0], missing)
        agent.wait_state("late", "shipped")
        checks.that(agent.now()["ledger_balanced"], "the ledger does not balance")
        checks.equal(agent.sources()["one"]["events_acknowledged"], traces.event_count(ONE), "events acknowledged of source one")
        checks.equal(agent.stop(), 0, "exit code after SIGTERM")
        checks.equal(env.run([env.agent, "status", "--file", agent.status], check=False).returncode, 1, "status of a stopped agent: exit code")
    finally:
        agent.kill()
    everything = sorted(raw_lines(env, traces.paths(ONE, env.build)) + raw_lines(env, traces.paths(LATE, env.build)))
    check_store(env, checks, collector, "late-machine", everything, "a bad start")


def reloads(env, checks, collector):
    agent = Agent(env, collector, "test-machine")
    # the slow source takes as long as its recording, most of a minute, and is at its beginning all the time
    slow = (traces.paths(LATE, env.build), 1)
    agent.configure({"one": (traces.paths(ONE, env.build), 0), "slow": slow})
    try:
        agent.start()
        agent.wait_state("one", "shipped")
        agent.wait_state("slow", "reading")
        wait_until(lambda: agent.sources()["slow"]["events_delivered"] > 0 or agent.sources()["slow"]["batches"] > 0, "events of the slow source", agent)
        before = agent.sources()["slow"]
        agent.config.write_text(agent.config.read_text() + "surprise: 1\n")
        agent.reload()
        wait_until(lambda: agent.now().get("reloads_refused") == 1, "a refused reload", agent)
        checks.that("surprise" in agent.log() and "stays in force" in agent.log(), f"what a refusal says: {agent.log()}")
        checks.equal(sorted(agent.sources()), ["one", "slow"], "sources after a refused reload")
        agent.configure({"two": (traces.paths(TWO, env.build), 0), "slow": slow})
        agent.reload()
        agent.wait_state("two", "shipped")
        after = agent.sources()
        checks.equal(sorted(after), ["slow", "two"], "sources after a reload")
        checks.equal(after["slow"]["stream"], before["stream"], "the slow source's stream")
        checks.that(after["slow"]["events_delivered"] >= before["events_delivered"], "the slow source began anew")
        checks.that("1 source goes on, 1 ended, 1 begins" in agent.log(), f"what a reload says: {agent.log()}")
        agent.configure({"two": (traces.paths(TWO, env.build), 0)})
        agent.reload()
        wait_until(lambda: sorted(agent.sources()) == ["two"], "the end of the slow source", agent)
        checks.equal(agent.stop(), 0, "exit code after SIGTERM")
    finally:
        agent.kill()
    requests = json.loads(agent.status.read_text())["shipping"]["requests"]
    checks.that(requests > 0, "nothing was sent")
    # the next start reads the sources again and sends nothing of them again
    try:
        agent.start()
        agent.wait_state("two", "shipped")
        checks.equal(agent.now()["shipping"]["requests"], 0, "requests for what had been shipped before")
        checks.equal(agent.stop(), 0, "exit code")
    finally:
        agent.kill()


def killed(env, checks, collector):
    """kill -9 while two sources are read."""
    agent = Agent(env, collector, "killed-machine")
    names = ["tracelogging-win11-20cpu", "shutdown-win10"] if "san" not in env.build.name else [ONE, TWO]
    agent.configure({name: (traces.paths(name, env.build), 0) for name in names}, "batch-events: 2000")
    try:
        for round_number in range(3):
            agent.start()
            wait_until(lambda: any(s["events_delivered"] for s in agent.sources().values()), "the first events", agent)
            time.sleep(0.1 * round_number)
            agent.kill()
        agent.start()
        for name in names:
            agent.wait_state(name, "shipped")
        checks.that(agent.now()["ledger_balanced"], "the ledger does not balance")
        checks.equal(agent.stop(), 0, "exit code")
    finally:
        agent.kill()
    everything = sorted(line for name in names for line in raw_lines(env, traces.paths(name, env.build)))
    check_store(env, checks, collector, "killed-machine", everything, "killed three times")


def thread_niceness(process):
    """{name: niceness} of a process's threads."""
    found = {}
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        try:
            words = (task / "stat").read_text().rpartition(")")
            found[words[0].partition("(")[2]] = int(words[2].split()[16])
        except FileNotFoundError:
            continue
    return found


def good_citizen(env, checks, collector):
    """Threads of bulk work have a lower priority than the others; the log file keeps its limits of bytes and of lines a minute."""
    agent = Agent(env, collector, "citizen")
    log = env.folder / "citizen.log"
    one = {"one": (traces.paths(LATE, env.build), 1)}  # at the trace's speed, so that its thread lives as long as this test needs it
    limits = [f"log: {json.dumps(str(log))}", "log-bytes: 4KiB", "log-lines: 20"]
    agent.configure(one, service=limits)
    try:
        agent.start()
        wait_until(lambda: {"encoder", "sender", "source"} <= set(thread_niceness(agent.process.pid)), "its threads", agent)
        names = ("encoder", "sender")
        wait_until(lambda: all(nice.get(name) == nice.get("source", 0) + 5 for nice in [thread_niceness(agent.process.pid)] for name in names),
                   "bulk threads that are nicer by 5 than their source's", agent)
        start = time.monotonic()
        for round_number in range(1, 61):
            agent.config.write_text(f"surprise{round_number}: 1\n")
            agent.reload()
            wait_until(lambda: agent.now().get("reloads_refused", 0) >= round_number, "a refusal", agent)
        agent.configure(one, service=limits)
        agent.reload()
        wait_until(lambda: agent.now().get("reloads") == 1, "the reload", agent)
        ended = time.monotonic()
        checks.equal(agent.stop(), 0, "exit code")
    finally:
        agent.kill()
    older = log.with_name(log.name + ".1")
    checks.that(log.stat().st_size <= 4096 and older.stat().st_size <= 4096, "a log file is larger than log-bytes")
    words = (env.folder / "citizen.agent.log").read_text()
    checks.equal(words.count("the running configuration stays in force"), 60, "refusals, which no rate holds back")
    allowed = 20 * (2 + int((ended - start) / 60))  # as many minutes may begin meanwhile
    checks.that(0 < words.count("surprise") <= allowed, f"{words.count('surprise')} lines about mistakes; {allowed} are allowed")
    checks.that(re.search(r"^\S+Z stopped$", log.read_text(), re.M), f"the last word is not in the log:\n{log.read_text()}")


def labelled(env, checks, collector):
    """The collector stores the labels of the configuration, and changes them when the configuration changes."""
    agent = Agent(env, collector, "labelled")
    one = {"one": (traces.paths(ONE, env.build), 0)}

    def stored():
        return [(s["labels"], s["agent_version"]) for s in collector.ask_json("hosts")["streams"] if s["host"] == agent.name]

    given = {"site": "north \U0001f332 \"$${x}\"", "owner": "${EA_TEST_OWNER}", "unset": "${EA_TEST_UNSET}", "host": "${machine.name}/${machine.cpus}",
             "long": "\u00e9" * 200}
    wanted = {"site": "north \U0001f332 \"${x}\"", "owner": "team 7", "host": f"{os.uname().nodename}/{os.cpu_count()}", "long": "\u00e9" * 128}
    version = env.run([env.agent, "--version"]).stdout.split()[-1]
    os.environ["EA_TEST_OWNER"] = "team 7"
    try:
        # batches of 20 name their source by hash, those of 1000 hold it
        for batching, labels, expected in (("batch-events: 20", given, wanted), ("batch-events: 1000", {"site": "south"}, {"site": "south"}),
                                           ("batch-events: 999", None, {})):
            agent.configure(one, batching, labels=labels)
            agent.start()
            agent.wait_state("one", "shipped")
            checks.equal(agent.stop(), 0, "exit code")
            checks.equal(stored()[-1], (expected, version), f"labels in the store, {batching}")
            row = json.loads(collector.ask("query", "--format", "jsonl", "SELECT labels, agent_version FROM hosts WHERE host = 'labelled'"))
            checks.equal((json.loads(row["labels"] or "{}"), row["agent_version"]), (expected, version), f"labels in SQL, {batching}")
        checks.that("label unset is left out: there is no environment variable EA_TEST_UNSET" in agent.log(), "a variable that is not set is not logged")
        # only a label changes: the source keeps its stream, and its next batch carries the new label; then the label changes back
        slow = {"one": (traces.paths(LATE, env.build), 1)}
        small = "batch-events: 20"
        agent.configure(slow, small, labels={"site": "east"})
        agent.start()
        agent.wait_state("one", "reading")
        stream = agent.sources()["one"]["stream"]
        for site in ("east", "west", "east"):
            agent.configure(slow, small, labels={"site": site})
            agent.reload()
            wait_until(lambda: stored()[-1] == ({"site": site}, version), f"the label {site} at the collector", agent)
            checks.equal((agent.sources()["one"]["stream"], agent.state("one")), (stream, "reading"), "the stream of a source with other labels")
        checks.equal(agent.log().count("1 source goes on, 0 ended, 0 begin; new labels go out with the next batches"), 2, f"what the reloads say:\n{agent.log()}")
        checks.equal(agent.stop(), 0, "exit code")
    finally:
        agent.kill()
        del os.environ["EA_TEST_OWNER"]


def refused(env, checks):
    bad = env.folder / "bad.yaml"
    bad.write_text("surprise: 1\n")
    done = env.run([env.agent, "run", "--config", bad], check=False)
    checks.equal(done.returncode, 3, "a configuration with a mistake: exit code")
    checks.that(f"{bad}:1:1: " in done.stderr, f"a configuration with a mistake: {done.stderr}")
    bad.write_text("service:\n  status-every: 1s\n")
    done = env.run([env.agent, "run", "--config", bad], check=False)
    checks.equal(done.returncode, 2, "a configuration without sources: exit code")
    checks.that("no sources or sessions configured" in done.stderr, f"a configuration without sources: {done.stderr}")
    done = env.run([env.agent, "run", "--config", env.folder / "nowhere.yaml"], check=False)
    checks.equal(done.returncode, 1, "no configuration: exit code")
    done = env.run([env.agent, "status", "--file", env.folder / "nowhere.json"], check=False)
    checks.that(done.returncode == 1 and "nowhere.json" in done.stderr, f"no status file: {done.returncode} {done.stderr}")
    newer = env.folder / "newer.json"
    known = {"state": "stopped", "ledger_balanced": True}
    for more in ({"pid": 7, "surprise": {"of": ["later"]}}, {"spool": {"batches": 3, "surprise": 1}}, {"sources": [{"name": "one", "surprise": "", "session": {"surprise": 2}}]}):
        newer.write_text(json.dumps({**known, **more}))
        done = env.run([env.agent, "status", "--file", newer], check=False)
        checks.that(done.returncode == 1 and not done.stderr and "etwagent was stopped" in done.stdout, f"a newer agent's status: {done.returncode} {done.stderr}")
    parts = {"sources": [{"name": "one", "trouble": "old 1"}], "spool": {"trouble": "old 2"}, "shipping": {"trouble": "old 3"}}
    newer.write_text(json.dumps({**known, **parts}))
    said = env.run([env.agent, "status", "--file", newer], check=False).stdout
    checks.equal([said.count(f"  error: old {n}\n") for n in (1, 2, 3)], [1, 1, 1], f"the name of errors in the status of an older agent: {said}")
    for key, wrong in (("pid", {"pid": "many"}), ("spool", {"spool": []}), ("batches", {"sources": [{"batches": -1}]})):
        newer.write_text(json.dumps({**known, **wrong}))
        done = env.run([env.agent, "status", "--file", newer], check=False)
        checks.that(done.returncode == 3 and f"{key}: " in done.stderr, f"{wrong} in a status file: {done.returncode} {done.stderr}")


def switches(pid):
    """How often the threads of a process have waited for something, so far."""
    count = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        count += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M).group(1))
    return count


def idle(env, checks, collector):
    """With nothing to do agent and collector hardly wake, and requests are served at once all the same."""
    agent = Agent(env, collector, "late-machine")
    agent.configure({"one": (traces.paths(ONE, env.build), 0)})
    agent.config.write_text(agent.config.read_text().replace("status-every: 100ms", "status-every: 5s"), encoding="utf-8")
    try:
        agent.start()
        agent.wait_state("one", "shipped")
        time.sleep(1)
        pids, seconds = {"agent": agent.process.pid, "collector": collector.process.pid}, 4
        before = {what: switches(pid) for what, pid in pids.items()}
        time.sleep(seconds)
        for what, pid in pids.items():
            a_second = (switches(pid) - before[what]) / seconds
            checks.that(a_second <= 12, f"the idle {what} waited {a_second} times a second")  # 5 and 4 where it was measured; 29 and 24 with rounds of 50 ms
        begun = time.monotonic()
        agent.reload()
        wait_until(lambda: "configuration read again" in agent.log(), "the reload of an idle agent", agent)
        checks.that(time.monotonic() - begun < 0.9, f"a reload of an idle agent took {time.monotonic() - begun:.2f} s")
    finally:
        agent.kill()


def test(env, checks, arguments):
    env.make_certificates(("test-machine", "late-machine", "killed-machine", "citizen", "labelled"))
    collector = env.new_collector().start()
    refused(env, checks)
    bad_start(env, checks, collector)
    if "san" not in env.build.name:  # a sanitizer has a thread of its own, and delivers a signal when a wait ends
        idle(env, checks, collector)
    reloads(env, checks, collector)
    labelled(env, checks, collector)
    killed(env, checks, collector)
    good_citizen(env, checks, collector)


if __name__ == "__main__":
    harness.main(test, __doc__)
