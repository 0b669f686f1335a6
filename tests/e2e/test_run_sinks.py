"""`sinks:` in the file of `etwcollector run --config`: the collector starts its sinks, each as a confined process of its own, and starts them again when they end. What
agents send arrives at all receivers, once by `row`, though sinks and the collector are killed; the list's mistakes are reported before anything starts.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 28: The sinks of a collector's configuration run with it, are started again when they end, and end with it. | 4 kills of sinks, one of the collector;
#   rows compared with what is stored | 2026-11-28
import json
import os
import pathlib
import signal
import time
import urllib.request

import harness
import test_rules_test as one
import test_single_records as single
from test_sinks import Receiver

SECONDS = 60
KILLS = 4


def children(collector):
    """The processes of sinks below the collector's broker, by the lock that they hold."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().split(b"\0")[1:2] != [b"sink-runner"]:
                continue
            links = [os.readlink(link) for link in (folder / "fd").iterdir()]
        except OSError:
            continue  # it has ended
        found.update({pathlib.Path(link).name[5:-5]: int(folder.name) for link in links if link.startswith(f"{collector.store}/sink-") and link.endswith(".lock")})
    return found


def configuration(env, *sinks, more=""):
    path = env.folder / "collector.yaml"
    path.write_text(f"web: 127.0.0.1:0\n{more}sinks:\n" + "".join(f"- {json.dumps(sink)}\n" for sink in sinks))
    return path


def mistakes(env, checks):
    """Each is reported with its place, before anything listens."""
    good = {"name": "a", "to": "http://127.0.0.1:1/"}
    cases = (([{"name": "a"}], "to is missing"), ([{**good, "kind": "kafkaesque"}], "expected one of"), ([{**good, "name": "../a"}], "collector.yaml:3:"),
             ([{**good, "index": "i"}], "--index is for --kind bulk"), ([good, good], "two have the name a"), ([{**good, "retry-min": "2h", "retry-max": "1s"}], "retry-min"),
             ([{**good, "redact": "user,adress", "redact-key": "k"}], "expected all, or of user, host"), ([{**good, "redact": "user"}], "go together"),
             ([{**good, "label": ["site"]}], "expected NAME=VALUE"), ([{**good, "once": True}], "has no option 'once'"), ([{**good, "host": ["x" * 40000]}], "use fewer"), ([{**good, "name": f"s{i}"} for i in range(17)], "17 items"))
    for sinks, said in cases:
        done = env.run([env.collector, "run", "--config", configuration(env, *sinks), "--store", env.folder / "none", "--listen", "127.0.0.1:0", "--cert",
                        env.certs / "server.crt", "--key", env.certs / "server.key", "--ca", env.certs / "ca.crt"], check=False, timeout=SECONDS)
        checks.that(done.returncode and said in done.stderr and "listening" not in done.stdout, f"{str(sinks)[:200]}: {done.stderr[-600:]}")
    done = env.run([env.collector, "run", "--sinks", "x"], check=False)
    checks.that(done.returncode == 2 and "in the file of --config" in done.stderr, f"no option of a command line: {done.stderr}")


def metrics(collector):
    port = (collector.env.folder / f"{collector.name}.log").read_text().split("dashboard on http://127.0.0.1:")[-1].split("/")[0]
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line and not line.startswith("#"))


def test(env, checks, arguments):
    env.make_certificates(("a", "b"))
    mistakes(env, checks)
    plain, bulk = Receiver(), Receiver(True)
    sinks = [{"name": "plain", "to": f"http://127.0.0.1:{plain.port}/x", "all": True, "retry-min": "5ms", "retry-max": "50ms", "rows": 50},
             {"name": "bulk", "kind": "bulk", "index": "etw", "to": f"http://127.0.0.1:{bulk.port}/_bulk", "host": ["b"], "class": "Process/*", "retry-min": "5ms",
              "retry-max": "50ms", "all": True},
             {"name": "wrong", "to": f"http://127.0.0.1:{plain.port}/", "where": "ProcessId =="}]
    collector = env.new_collector(extra=["--config", configuration(env, *sinks)])
    collector.environment = {**os.environ, "no_proxy": "*"}
    collector.start()

    def send(host, count):
        trace = env.folder / f"{host}-{count}.etl"
        trace.write_bytes(single.trace([one.process(4, 0, "System", "", 900)] + [one.process(100 + 4 * i, 4, "x.exe", f"x.exe /n {i}", 1000 + i) for i in range(count)]))
        env.replay([trace], collector, agent=host, spool=env.folder / f"spool-{host}-{count}")

    def stored(host=None):
        return sum(stream["events"] for stream in collector.ask_json("hosts")["streams"] if host in (None, stream["host"]))

    def arrived():
        return len(plain.seen) == stored() and len(bulk.seen) + status("bulk")["left_out"] == stored()

    def status(name):
        return next(sink for sink in collector.ask_json(("sink", "status"))["sinks"] if sink["name"] == name)

    harness.wait_until(lambda: set(children(collector)) == {"plain", "bulk"}, "sinks that run", SECONDS, collector.log)
    for kill in range(KILLS):
        send("ab"[kill % 2], 200 + kill)
        name = ("plain", "bulk")[kill % 2]
        pid = children(collector).get(name)
        if pid:
            os.kill(pid, signal.SIGKILL)
    harness.wait_until(arrived, "all rows", SECONDS, lambda: f"{len(plain.seen)} {len(bulk.seen)} of {stored()} {collector.log()}")
    checks.that({row["host"] for row in bulk.order} == {"b"} and all(row["name"].startswith("Process/") for row in bulk.order), "a sink's own choice")
    harness.wait_until(lambda: set(children(collector)) == {"plain", "bulk"}, "sinks that are started again", SECONDS, collector.log)
    pids = children(collector)
    for name, pid in pids.items():
        confined = pathlib.Path(f"/proc/{pid}/status").read_text()
        checks.that("NoNewPrivs:\t1" in confined and pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n", f"{name} is confined: {confined}")
        harness.wait_until(lambda pid=pid: not any("/segments/" in os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()), f"{name} holds no segment", SECONDS)
    numbers = metrics(collector)
    checks.that(status("plain")["running"] and status("bulk")["running"], "status says that they run")
    checks.equal((numbers['etwcollector_sink_running{sink="plain"}'], numbers['etwcollector_sink_running{sink="bulk"}']), ("1", "1"), "and metrics")
    checks.that(int(numbers["etwcollector_sinks_ended_total"]) >= 3, f"ends are counted: {numbers['etwcollector_sinks_ended_total']}")
    log = (env.folder / "collector.log").read_text()
    checks.that("sink plain ended: signal 9; it is started again in 1 s" in log and "sink wrong ended: exit code 2; it is started again in 300 s" in log, f"the log: {log[-3000:]}")

    collector.kill()  # its sinks end with it, and the next one goes on where they were
    harness.wait_until(lambda: not children(collector), "sinks end with a collector that is killed", SECONDS)
    checks.that(not status("plain")["running"], "status says that they do not run")
    plain.stop()
    collector.start()
    send("a", 300)
    time.sleep(0.1)
    plain.start()
    harness.wait_until(arrived, "all rows", SECONDS, lambda: f"{len(plain.seen)} {len(bulk.seen)} of {stored()} {collector.log()}")
    collector.stop()
    checks.that(not children(collector), "they end with the collector")
    checks.that("ended: signal" not in (env.folder / "collector.log").read_text().split("dashboard on")[-1], "because they are asked to")
    for name in ("plain", "bulk"):
        sink = status(name)
        checks.equal(sum(sink[fate] for fate in ("sent", "known", "refused", "left_out", "damaged", "skipped", "removed")) + sink["waiting_events"], stored(), f"{name}: {sink}")
    plain.stop()
    bulk.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
