"""What the tests of the web's side ask about: a collector with a dashboard, a machine that is broken into, one that is called
what an attacker would call things, and one with a hole in what came and a ledger that does not add up.
"""
import http.client
import json
import re
import urllib.parse

import harness
import receiver
import test_ledger
import test_tracegen
import uploads

# each replacement has the length of the original text in the trace
NAME, HOSTILE_NAME = "browser_tab.exe", "<b id=pwn>x</b>"
LINE = '"C:\\Program Files\\Browser\\browser_tab.exe" --type=renderer --lang=en-US'
HOSTILE_LINE = '=cmd|" /C calc"!A0\x1b[31m\x1b]0;x\x07<script>alert(1)</script>\',--;DROP'.ljust(len(LINE), "x")
MACHINE, HOSTILE, HOLED = "desk-17", "desk-18", "desk-19"
LABELS = {HOSTILE: {"site": "south", "owner": "<i>ops</i>"}, HOLED: {"site": "north", "owner": "<i>ops</i>"}}


class Web:
    """Requests to a collector's dashboard and API."""

    def __init__(self, collector):
        self.collector = collector
        self.port = int(re.findall(r"dashboard on http://127.0.0.1:(\d+)/", collector.log())[-1])
        self.address = f"http://127.0.0.1:{self.port}"

    def ask(self, path, method="GET", body=None, headers=None, timeout=120):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def get(self, path, **params):
        query = urllib.parse.urlencode([(k.rstrip("_"), v) for k, v in params.items() if v is not None], doseq=True)
        status, _, text = self.ask(f"/api/v1/{path}" + ("?" + query if query else ""))
        if status != 200:
            raise harness.Failure(f"{path}?{query}: {status} {text[:500]}")
        return json.loads(text)

    def sql(self, sql, **more):
        status, _, text = self.ask("/api/v1/sql", "POST", json.dumps({"sql": sql, **more}), {"Content-Type": "application/json"})
        if status != 200:
            raise harness.Failure(f"{sql}: {status} {text[:500]}")
        return json.loads(text)


def collector(env, name="collector"):
    """One that waits for a missing batch hardly at all, so that a hole is seen soon."""
    return env.new_collector(name, extra=["--web", "127.0.0.1:0", "--hole-wait", "100ms"]).start()


def hostile_trace(env, trace):
    """The trace with a process's name and command line that are meant to do harm where they are shown."""
    data = trace.read_bytes()
    for old, new in ((LINE, HOSTILE_LINE), (NAME, HOSTILE_NAME)):
        for coding in ("utf-16-le", "latin-1"):
            data = data.replace(old.encode(coding), new.encode(coding))
    if HOSTILE_LINE.encode("utf-16-le") not in data or HOSTILE_NAME.encode("latin-1") not in data:
        raise harness.Failure("the trace has no such process to rename")
    changed = env.folder / "hostile.etl"
    changed.write_bytes(data)
    return changed


def captured(env, trace, agent):
    """The batches of a replay, by number, taken by a collector that keeps none."""
    kept = {}

    def take(exchange):
        exchange.read_body()
        for batch in uploads.batches(exchange.body):
            kept[uploads.Head(batch).number] = batch
        exchange.acknowledge(exchange.heads())

    with receiver.Receiver(env.certs, take) as fake:
        env.replay([trace], fake, agent=agent, spool=env.folder / f"spool-{agent}", extra=["--batch-events", 1000])
    return [kept[number] for number in sorted(kept)]


def fill(env, target, milliseconds=3000):
    """Three machines; returns the truth about MACHINE, as tracegen knows it."""
    trace, truth = test_tracegen.generate(env.build, env.folder, "attack", "--preset", "attack", "--duration-ms", str(milliseconds))
    env.replay([trace], target, agent=MACHINE, spool=env.folder / "spool-machine")
    other, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "1500", "--seed", "5")
    test_ledger.upload(env, target, HOSTILE, [uploads.labelled(b, LABELS[HOSTILE]) for b in captured(env, hostile_trace(env, other), HOSTILE)])
    batches = [uploads.labelled(b, LABELS[HOLED]) for b in captured(env, other, HOLED)]
    middle = len(batches) // 2

    def more_delivered(counts):
        counts[test_ledger.EVENTS_DELIVERED] += 7

    batches[2] = test_ledger.with_ledger(batches[2], more_delivered)
    test_ledger.upload(env, target, HOLED, batches[:middle] + batches[middle + 2:])
    return [json.loads(line) for line in truth.read_text(encoding="utf-8").splitlines()]


def settled(web):
    """Waits until the tables of machines hold all that is stored."""
    def done():
        held = {r["host"]: r["alerts"] for r in web.get("hosts")["items"]}
        gaps = web.get("gaps", host=HOLED)["items"]
        return held.get(HOLED) and gaps and all(
            web.get(f"hosts/{host}/processes", limit=1)["items"] for host in (MACHINE, HOSTILE, HOLED))
    harness.wait_until(done, "the history of three machines", 120)
