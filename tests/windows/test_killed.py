#!/usr/bin/env python3
"""A live session's agent is ended in its middle. Its next start makes the closing batch out of the counts that the spool keeps on disk. The stream ends
with stream_cut_off, its equations hold, and its events are stored. A stream that ends in order has no such mark.
"""
import json
import os
import signal
import subprocess

import emulated
import receiver
import test_ended
import wine

HOST, BATCH_EVENTS, DURATION_MS = "ended-by-force", 500, 5000


def test(env, checks, session, windows, arguments):
    env.make_certificates([HOST])
    collector = env.new_collector().start()
    trace = env.folder / "office.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--duration-ms", DURATION_MS, "--out", trace])
    path = wine.windows_path
    replay = [windows / "service" / "app" / "etwagent.exe", "replay", "--live", "--batch-events", BATCH_EVENTS, "--collector", collector.url,
              "--cert", path(env.certs / f"{HOST}.crt"), "--key", path(env.certs / f"{HOST}.key"), "--ca", path(env.certs / "ca.crt"),
              "--spool", path(env.folder / "spool")]
    killed = subprocess.Popen(session.command([*replay, "--speed", "1x", path(trace)]), env=session.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    receiver.sleep_until(lambda: killed.poll() is not None or len(test_ended.numbers(env, collector, HOST)) == 1, 30)
    checks.that(killed.poll() is None, "the session ended before it was killed")
    agents = session.processes("etwagent.exe")
    checks.equal(len(agents), 1, "agents that run")
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    killed.wait(30)
    before = test_ended.numbers(env, collector, HOST)
    checks.equal([last.get("stream_ended", 0) for last in before], [0], "a killed session has no closing batch before the next start")
    done = session.run([*replay, path(trace)])
    checks.equal(done.returncode, 0, f"the next session: {done.stdout[-300:]} {done.stderr[-300:]}")
    streams = {bool(last.get("stream_cut_off", 0)): last for last in test_ended.numbers(env, collector, HOST)}
    if not checks.equal(sorted(streams), [False, True], f"a stream that was cut off, and one that ended in order: {streams}"):
        return
    events = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                                 "SELECT b.stream, sum(b.events) AS n, sum(b.events = 0) AS closing FROM batches b GROUP BY 1"]).stdout)["rows"]
    of_killed, = [row for row in events if row["n"] != streams[False]["events_delivered"]]
    test_ended.check_cut_off(checks, streams[True], of_killed["n"], "the killed session")
    checks.equal([row["closing"] for row in events], [1, 1], "closing batches")
    test_ended.check_end(checks, [streams[False]], streams[False]["events_delivered"], "the next session")
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__)
