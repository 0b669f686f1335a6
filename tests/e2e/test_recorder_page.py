"""A machine's page in a real Chromium: how far its recorder reaches, and the way of a window: the command that the page shows is run as it is, with the
offline key; what it prints is handed in; the machine answers; the page has the counts, and the store each record of the window.

What was changed, signed with another key, or is for another machine is refused with its reason. A token that reads sees the requests and hands in
none.

usage: test_recorder_page.py --build DIR [--keep]
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 65: A window of a recorder is fetched from the dashboard, without a key on the collector. | the shown command is run, its output handed in, the records compared with the trace's | 2026-11-29
import base64
import json
import os
import pathlib
import re
import subprocess

from cryptography.hazmat.primitives.asymmetric import ed25519

import harness
import test_access
import test_dashboard
import test_requests
import test_trigger

HOST = "web-1"


def collector_with_keys(env, keys):
    """It, and the port of its dashboard."""
    collector = env.new_collector(extra=["--web", "0.0.0.0:0", "--web-tokens", "--request-key", keys.public]).start()
    return collector, int(re.search(r"dashboard on https://0.0.0.0:(\d+)/", collector.log()).group(1))


def check_table(env, checks, collector, trace, spool):
    """The row of the run that recorded, by the agent's own list and the trace; the oldest time of the list, without its parts of a second."""
    listed = env.run([env.agent, "recorder", "list", "--spool", spool]).stdout
    oldest = re.search(r"from (\S+?T\d\d:\d\d:\d\d)", listed).group(1)
    events = int(re.search(r"(\d+) events in", listed).group(1))
    rows = [json.loads(row) for row in collector.ask("query", "SELECT host, begin, events, ended FROM recorders", "--format", "jsonl").splitlines()]
    made = json.loads(collector.ask("query", "SELECT sum(value) AS n FROM ledger_last WHERE counter = 'events_synthesised' AND family = ''", "--format", "jsonl"))["n"]
    checks.that(events == len(trace.lines) and made > 0, f"events of the list: {events}; of keyframes: {made}")
    checks.equal(rows, [{"host": HOST, "begin": f"{oldest}.0000000Z", "events": events + made, "ended": 1}], "the table of recorders")
    checks.equal(oldest, trace.times[0][:19], "the oldest event of the recorder")
    return oldest


def test(env, checks, _):
    env.make_certificates([HOST])
    keys = test_requests.Keys(pathlib.Path(env.folder))
    collector, port = collector_with_keys(env, keys)
    trace = test_trigger.Trace(env)
    spool = test_requests.record(env, checks, trace, collector, HOST)
    begin, end = test_trigger.shifted(trace.times[0], 300), test_trigger.shifted(trace.times[0], 700)
    oldest = check_table(env, checks, collector, trace, spool)
    tokens = {scope: test_access.new_token(env, collector.store, scope, "--scope", scope, "--hosts", "web-*") for scope in ("read", "operate")}
    sign = lambda hosts, key=keys.key, **more: base64.b64encode(test_requests.signed(key, 5, hosts=hosts, **more)).decode()  # noqa: E731
    refusals = [(sign("db-1"), "hosts: the request is for db-1"), (sign(HOST, key=ed25519.Ed25519PrivateKey.generate()), "foreign key"),
                (sign(HOST, change=lambda r: r.replace(b"web-1", b"web-*")), "changed"), ("no base64: *", "base64 of a signed request")]
    with test_requests.agent_run(env, trace, keys, HOST, collector, spool, speed=test_requests.SLOW) as run:
        world = env.folder / "recorder.json"
        world.write_text(json.dumps({"url": f"https://localhost:{port}/", "chromium": test_dashboard.browser(), "host": HOST, "from": begin, "to": end,
                                     "reach": oldest.replace("T", " "), "operate": tokens["operate"], "read": tokens["read"], "folder": str(env.folder),
                                     "path": f"{pathlib.Path(env.collector).parent}:{os.environ['PATH']}", "refusals": refusals}))
        done = subprocess.run(["node", test_dashboard.BROWSER / "recorder.mjs", world], cwd=test_dashboard.packages(env), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300)
        lines = [line.partition(" ") for line in done.stdout.splitlines()]
        for word, _, what in lines:
            if word in ("ok", "FAILED"):
                checks.that(word == "ok", f"in a browser: {what}")
        checks.that(done.returncode == 0 and len(lines) >= 13, f"the browser's script: {done.stdout[-2000:]} {run.messages()}")
        answer = test_requests.answer_of(env, collector, HOST)
        row = next((json.loads(what) for word, _, what in lines if word == "row"), [""] * 4)
        checks.that(answer and f"in {answer['batches']} batches" in row[3], f"the page's counts and the list's: {row} {answer}")
        harness.wait_until(lambda: len(test_trigger.stored(env, collector, HOST)) > 1000, "the window's records", 60, run.messages)
        test_requests.check_stored(env, checks, collector, trace, HOST, begin, end)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
