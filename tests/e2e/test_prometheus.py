"""Monitoring, with the real thing: Prometheus scrapes the collector, a loss fires an alert, every query in the Grafana
dashboards returns data, and promtool finds nothing to say against metrics and rules.

usage: test_prometheus.py --build DIR [--soak] [--keep]
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 8: Prometheus reads the metrics; alerts fire; each dashboard query returns data. | Debian's Prometheus; 58 dashboard
#   queries; `promtool` accepts metrics and rules | 2026-11-22
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import harness
import traces

TRACE = "clr-kernel-win8-x64"
RULES = harness.ROOT / "config/prometheus"
GRAFANA = harness.ROOT / "config/grafana"
# promtool knows no bound on these words, but Prometheus' rules for names: no abbreviated units
ABBREVIATED = re.compile(r"_(ns|us|ms|sec|secs|min|mins|kb|mb|kib|mib|pct|msec)(_|$)")


def web_port(collector):
    return int(re.search(r"dashboard on http://127.0.0.1:(\d+)/", collector.log()).group(1))


def scrape(port, accept=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
    answer = connection.getresponse()
    return answer.getheader("Content-Type"), answer.read().decode()


def check_open_metrics(checks, text, what):
    """The rules of OpenMetrics 1.0 that a counter's and a gauge's text can break."""
    lines = text.split("\n")
    checks.that(lines[-2:] == ["# EOF", ""] and text.count("# EOF") == 1, f"{what}: the end is {lines[-3:]}")
    types, current, samples = {}, None, 0
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            checks.that(current not in types and not current.endswith("_total"), f"{what}: the family {current}")
            types[current] = kind
        elif not line.startswith("# HELP "):
            samples += 1
            name = re.match(r"[a-z_:A-Z0-9]+", line).group()
            wanted = current + ("_total" if types[current] == "counter" else "")
            checks.that(name == wanted, f"{what}: the sample {name} in the family {current}")
            checks.that(not ABBREVIATED.search(name), f"{what}: {name} abbreviates a unit")
    return samples


def promtool(checks, words, what, text=None, folder=None):
    done = subprocess.run(["promtool", *words], input=text, text=True, capture_output=True, timeout=120, cwd=folder)
    checks.that(done.returncode == 0 and not done.stderr.strip(), f"promtool {what}: {done.returncode} {done.stdout[-800:]}{done.stderr[-2000:]}")


class Prometheus:
    """A Prometheus of our own on loopback, with our rules evaluated each second."""

    def __init__(self, env, target, name="prometheus"):
        self.folder = env.folder / name
        self.folder.mkdir()
        rules = (RULES / "etwagent.rules.yml").read_text()
        (self.folder / "etwagent.rules.yml").write_text(rules.replace("interval: 15s", "interval: 1s"))
        config = (RULES / "prometheus.yml").read_text().replace("127.0.0.1:8453", f"127.0.0.1:{target}").replace(": 15s", ": 1s")
        (self.folder / "prometheus.yml").write_text(config)
        with socket.socket() as probe:  # it cannot be asked which port it took
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdout=self.log, stderr=self.log)

    def ask(self, path, **params):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        try:
            with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(params)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            return {"error": error.read().decode(), "result": []}
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {"error": "no answer", "result": [], "alerts": [], "activeTargets": []}

    def value(self, query):
        return [(r["metric"], float(r["value"][1])) for r in self.ask("query", query=query)["result"]]

    def firing(self):
        return {(a["labels"]["alertname"], a["labels"].get("host")) for a in self.ask("alerts")["alerts"] if a["state"] == "firing"}

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


def damaged_copy(env, path):
    """The trace with some unreadable buffers: the metrics must show this loss."""
    copy = env.folder / "damaged.etl"
    data = bytearray(path.read_bytes())
    for at in (len(data) // 4, len(data) // 2, 3 * len(data) // 4):
        data[at:at + 4096] = b"\xA5" * 4096
    copy.write_bytes(data)
    return copy


def check_dashboards(checks, prometheus):
    queries = 0
    for path in sorted((GRAFANA / "dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        checks.that(board["uid"] and board["title"] and board["panels"], f"{path.name}: a dashboard")
        for panel in board["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$__range", "1h").replace("$host", ".*")
                checks.that("$" not in query, f"{path.name}: a variable that is not known in {query}")
                found = []
                try:
                    harness.wait_until(lambda query=query, found=found: found.extend(prometheus.value(query)) or found, query, 30)
                except harness.Failure:
                    pass
                checks.that(found, f"{path.name}, {panel['title']}: no data of {query}: {prometheus.ask('query', query=query)}")
                queries += 1
    return queries


def test(env, checks, _):
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        raise harness.Failure("prometheus is missing; installer/deps/packages.sh installs it")
    promtool(checks, ["check", "rules", "etwagent.rules.yml"], "check rules", folder=RULES)
    promtool(checks, ["check", "config", "prometheus.yml"], "check config", folder=RULES)
    promtool(checks, ["test", "rules", "etwagent.test.yml"], "test rules", folder=RULES)
    made = subprocess.run([sys.executable, GRAFANA / "make_dashboards.py", "--check"], capture_output=True, text=True, timeout=60)
    checks.equal(made.returncode, 0, f"the dashboards are what is written for them: {made.stdout}")

    env.make_certificates(["whole", "damaged"])
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    port = web_port(collector)
    prometheus = Prometheus(env, port)
    try:
        harness.wait_until(lambda: [v for _, v in prometheus.value('up{job="etwcollector"}')] == [1.0], "the first scrape", 60,
                           lambda: (prometheus.folder / "log").read_text()[-1000:])
        paths = traces.paths(TRACE, env.build)
        env.replay(paths, collector, agent="whole")
        total = traces.event_count(TRACE)
        harness.wait_until(lambda: [v for _, v in prometheus.value('sum(etwcollector_stored_events_total{host="whole"})')] == [total],
                           "all events in Prometheus", 60)
        losses = {a for a in prometheus.firing() if a[0] in ("EtwEventsLost", "EtwLossesUnknown")}
        checks.equal(losses, set(), "alerts while nothing was lost")
        env.run(env.replay_command([damaged_copy(env, paths[0])], collector, agent="damaged", spool=env.folder / "spool-2"), check=False)
        harness.wait_until(lambda: {("EtwEventsLost", "damaged"), ("EtwLossesUnknown", "damaged")} & prometheus.firing(),
                           "an alert about the loss", 90, lambda: str(prometheus.ask("alerts")))
        checks.that(not any(host == "whole" for _, host in prometheus.firing()), f"alerts about who lost nothing: {prometheus.firing()}")
        count = check_dashboards(checks, prometheus)
        print(f"{count} queries of {len(list((GRAFANA / 'dashboards').glob('*.json')))} dashboards return data; "
              f"fired: {', '.join(sorted(name for name, host in prometheus.firing() if host == 'damaged'))}")
    finally:
        prometheus.stop()

    kind, text = scrape(port)
    checks.equal(kind, "text/plain; version=0.0.4; charset=utf-8", "the type for Prometheus")
    promtool(checks, ["check", "metrics"], "check metrics", text)
    kind, text = scrape(port, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    checks.equal(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8", "the type for OpenMetrics")
    checks.that(check_open_metrics(checks, text, "the collector") > 100, "samples of OpenMetrics")
    collector.stop()
    check_agent(env, checks)
    check_compose(checks)


def check_agent(env, checks):
    """The agent's own numbers, for the textfile collector of an exporter."""
    status = env.folder / "status.json"
    example = json.dumps({
        "state": "running", "version": "0", "pid": 1, "configuration": "x", "started_utc_ns": 10**18, "written_utc_ns": 10**18 + 1500000000,
        "every_ns": 10**9, "reloads": 2, "reloads_refused": 1, "ledger_balanced": True,
        "sources": [{"name": 'a"\\\n\u0007b', "state": "running", "events_delivered": 7, "events_evicted_age": 3, "ledger_balanced": True},
                    {"name": "logs", "state": "reading", "channels": 2, "source_parts_refused": 1, "ledger_balanced": True}],
        "spool": {"batches": 4, "disk_bytes": 4096}, "shipping": {"requests": 9, "failures": 1, "sent_bytes": 99, "collector": "c"}})
    status.write_text(example)
    text = env.run([env.agent, "status", "--file", status, "--metrics"], check=False).stdout
    promtool(checks, ["check", "metrics"], "check metrics of the agent", text)
    checks.that('etwagent_events_delivered_total{source="a\\"\\\\__b"} 7\n' in text, f"a source's name with everything in it: {text[-1500:]}")
    checks.that('etwagent_source_parts_refused_total{source="logs"} 1\n' in text, f"a channel that cannot be read: {text[-1500:]}")
    said = env.run([env.agent, "status", "--file", status], check=False).stdout
    checks.that("source logs: reading, 0 events, 0 acknowledged\n  failures to read a channel: 1; the log says which and why\n" in said, f"the same in words: {said}")
    checks.that("etwagent_start_time_seconds 1000000000.000\n" in text and "etwagent_spool_size_bytes 4096\n" in text, text[:900])
    text = env.run([env.agent, "status", "--file", status, "--open-metrics"], check=False).stdout
    checks.that(check_open_metrics(checks, text, "the agent") > 15, "samples of the agent")
    check_agent_scraped(env, checks, status, example)
    check_agent_file(env, checks, status, example)


def check_agent_scraped(env, checks, status, example):
    """A real Prometheus scrapes the agent's numbers. The agent refuses every other request, and no connection delays another one."""
    process = subprocess.Popen([env.agent, "status", "--file", status, "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    port = int(re.fullmatch(r"metrics at http://127\.0\.0\.1:(\d+)/metrics\n", process.stdout.readline()).group(1))
    prometheus = Prometheus(env, port, "prometheus-agent")
    try:
        for accept, kind in ((None, "text/plain; version=0.0.4; charset=utf-8"),
                             ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text; version=1.0.0; charset=utf-8")):
            reported, text = scrape(port, accept)
            checks.equal(reported, kind, f"the agent's type for {accept}")
            if accept:
                checks.that(check_open_metrics(checks, text, "the agent, scraped") > 15, "samples of the agent")
            else:
                promtool(checks, ["check", "metrics"], "check metrics of the agent, scraped", text)
        held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(2)]  # which say nothing
        for request, expected in ((b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"), (b"GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
                                  (b"GET /metricsx HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"), (b"x\r\n\r\n", b"400"),
                                  (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", b"421"), (b"GET /metrics HTTP/1.1\r\n\r\n", b"421"),
                                  (b"GET /metrics HTTP/1.1\r\nhOsT: [::1]:1\r\n\r\n", b"200"), (b"GET /metrics?x HTTP/1.0\r\nHost: localhost:80\r\n\r\n", b"200"),
                                  (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n", None), (b"A" * 20000, None)):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
                try:
                    one.sendall(request)
                    reported = one.recv(12)
                except ConnectionError:
                    reported = b""
                checks.equal(reported[9:12] or None, expected, f"the answer to {request[:60]}")
        for one in held:
            one.close()
        harness.wait_until(lambda: [v for _, v in prometheus.value("etwagent_spool_size_bytes")] == [4096.0] and
                           [v for _, v in prometheus.value('etwagent_events_delivered_total{source=~"a.*"}')] == [7.0], "the agent's numbers in Prometheus", 60)
        status.unlink()
        harness.wait_until(lambda: [v for _, v in prometheus.value("etwagent_up")] == [0.0], "an agent that is gone", 30)
    finally:
        prometheus.stop()
        process.terminate()
        said = process.communicate(timeout=30)[0]
        status.write_text(example)
    checks.equal((process.returncode, said), (0, ""), "the end of status --listen")
    for more in (["--listen", "0.0.0.0:0"], ["--listen", "192.0.2.1:1"], ["--listen", "127.0.0.1"], ["--listen", "localhost:99999"],
                 ["--listen", "127.0.0.1:0", "--json"]):
        checks.equal(env.run([env.agent, "status", *more], check=False).returncode, 2, f"status {more}")


def check_agent_file(env, checks, status, example):
    """The file for the textfile collector: whole whenever it is read, new when the status is, and there without an agent."""
    output = env.folder / "textfile" / "etwagent.prom"
    output.parent.mkdir()
    status.unlink()
    checks.equal(env.run([env.agent, "status", "--every", "1s"], check=False).returncode, 2, "--every without --output")
    process = subprocess.Popen([env.agent, "status", "--file", status, "--metrics", "--output", output, "--every", "1s"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        harness.wait_until(lambda: output.exists() and output.read_text().endswith("etwagent_up 0\n"), "a file that says that no agent runs", 30)
        promtool(checks, ["check", "metrics"], "check metrics without an agent", output.read_text())
        status.write_text(example)
        seen = set()

        def has_numbers():
            seen.add(output.read_text())
            return "etwagent_spool_size_bytes 4096\n" in output.read_text()
        harness.wait_until(has_numbers, "the agent's numbers", 30)
        checks.that(all(text.endswith("\n") and text.startswith("# ") for text in seen), "a file that is not whole")
    finally:
        process.terminate()
        said = process.communicate(timeout=30)[0]
    checks.equal((process.returncode, said), (0, b""), "the end of status --every")
    checks.equal([f.name for f in output.parent.iterdir()], ["etwagent.prom"], "files that are left")


def check_compose(checks):
    """The files that the compose file mounts exist, and contain the files that Prometheus and Grafana are configured to read."""
    folder = harness.ROOT / "config/grafana"
    text = (folder / "compose.yaml").read_text()
    mounts = dict(re.findall(r"^ +- (\.[^:\s]+):([^:\s]+):ro$", text, re.M))
    checks.equal(set(mounts), {"../prometheus", "./provisioning", "./dashboards"}, "what is mounted from here")
    config = re.search(r"--config\.file=(\S+?)[,\]]", text).group(1)
    inside = {target: (folder / source).resolve() for source, target in mounts.items()}
    def here(path):
        return next((at / pathlib.PurePosixPath(path).relative_to(target) for target, at in inside.items() if path.startswith(target)), None)
    checks.that(here(config) and here(config).is_file(), f"Prometheus' configuration {config}")
    rules = re.search(r"rule_files:\n +- (\S+)", here(config).read_text()).group(1)
    checks.that((here(config).parent / rules).is_file(), f"Prometheus' rules {rules}")
    provider = (inside["/etc/grafana/provisioning"] / "dashboards/etwagent.yaml").read_text()
    checks.that(list(here(re.search(r"path: ([^}\s]+)", provider).group(1)).glob("*.json")), "Grafana's dashboards")
    images = re.findall(r"image: (\S+)", text)
    checks.that(len(images) == 2 and all(re.fullmatch(r"docker\.io/[\w/-]+:v?\d+\.\d+\.\d+", image) for image in images), f"images with a version: {images}")


if __name__ == "__main__":
    harness.main(test, __doc__)
