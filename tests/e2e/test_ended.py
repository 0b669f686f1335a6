"""A stream that ended in order is recorded as ended, and no event of it is counted as waiting afterwards.

- After replays whose last event is acknowledged, the last counters of each stream show that no event waits, that all events are
  acknowledged, and that the stream ended. The sums equal those that Python computes from the trace.
- A machine whose last run ended is not silent: it has no incident, and doctor counts it as ended. A machine whose agent was killed is silent.
- A replay that is killed before its closing batch, or whose collector never answers, writes the closing batch once, when it is resumed.
- A live stream whose spool is full, and whose collector never answers, writes its closing batch when its agent ends. The command that drains the
  spool later sends the batch. Then no event waits, and the tombstones name the evicted events.
- A live stream that was killed gets its closing batch when the agent starts next, or when its spool is drained: with the last numbers,
  and with stream_cut_off. Its equations hold, no event of it waits, and its machine is not silent. This also holds when all of its batches were
  acknowledged before the kill, so that its spool had none. The stream of the second run is not cut off. The third run closes nothing again.
- The web and SQL report the same: an ended machine is not silent, even when its last event is old; a killed replay, which the same
  command resumes, is silent.
- An agent that is stopped ends its session's stream; "etwagent run" ends a file's stream and continues to run.
"""
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import time

import faulted
import harness
import receiver
import test_ledger
import traces
import web_world

TRACE = "clr-gc-events"
WAITING = ("events_pending", "events_compressing", "events_spooled", "events_unanswered")
SILENT_S = 2
HOSTS = ["again", "cut", "ended", "full", "killed", "restarted", "service", "waits"]


def numbers(env, collector, host):
    """The last numbers of each of a machine's streams."""
    streams = {}
    for row in json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                                   f"SELECT stream, counter, value FROM ledger_last WHERE host = '{host}' AND family = ''"]).stdout)["rows"]:
        row = row if isinstance(row, dict) else dict(zip(("stream", "counter", "value"), row))
        streams.setdefault(row["stream"], {})[row["counter"]] = row["value"]
    return list(streams.values())


def stored(env, collector, host):
    return "1" in env.run([env.collector, "query", "--store", collector.store, f"SELECT count(*) > 0 FROM batches WHERE host = '{host}'"]).stdout


def check_end(checks, streams, events, what):
    if not checks.equal(len(streams), 1, f"{what}: streams"):
        return
    last = streams[0]
    checks.equal({name: last.get(name, 0) for name in WAITING}, dict.fromkeys(WAITING, 0), f"{what}: what waits at the end")
    checks.equal((last.get("stream_ended"), last.get("events_acknowledged"), last.get("events_delivered")), (1, events, events),
                 f"{what}: ended, acknowledged, delivered")


def incidents(env, collector):
    return json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                               "SELECT host, \"end\" IS NULL AS open FROM incidents WHERE kind = 'silent'"]).stdout)["rows"]


def never(exchange):
    """A collector that never acknowledges."""
    exchange.read_body()
    exchange.answer(503)


def metric(collector, name, host):
    text = test_ledger.web_get(collector, "/metrics")
    return [int(value) for value in re.findall(rf'^{name}\{{host="{host}",stream="\w+"\}} (\d+)$', text, re.M)]


def drain(env, collector, host, spool):
    env.run([env.agent, "spool", "drain", "--collector", collector.url, "--cert", env.certs / f"{host}.crt", "--key", env.certs / f"{host}.key",
             "--ca", env.certs / "ca.crt", "--spool", spool])


def check_cut_off(checks, stream, stored_events, what):
    """The numbers of the closing batch that the next start made: each event has its place, and the places add up."""
    gone = sum(stream.get(f"events_evicted_{cause}", 0) for cause in ("size", "age", "damage", "refused"))
    checks.equal((stream.get("stream_ended"), stream.get("stream_cut_off")), (1, 1), f"{what}: closed, and cut off")
    checks.equal([stream.get(f"events_{place}", 0) for place in ("pending", "compressing", "unanswered")], [0] * 3, f"{what}: events on their way")
    made = stream["events_batched"] + stream.get("events_synthesised", 0)
    checks.equal((stream["events_delivered"], made), (stream["events_batched"], stream.get("events_acknowledged", 0) + stream.get("events_spooled", 0) + gone),
                 f"{what}: both equations: {stream}")
    checks.equal(made - gone, stored_events, f"{what}: events that were not lost are stored")


def stored_events(env, collector, host):
    return int(env.run([env.collector, "query", "--store", collector.store, "--format", "csv", f"SELECT sum(events) FROM batches WHERE host = '{host}'"]).stdout.split()[-1])


def check_restart(env, checks, collector, trace):
    """A live stream whose agent is killed twice, and then comes to its end: one closing batch for each."""
    live = ["--live", "--batch-events", "500"]
    for kills in (1, 2):
        with faulted.Replay(env, [trace], collector, "restarted", extra=[*live, "--speed", "1x"]) as run:
            receiver.sleep_until(lambda: not run.running() or len(numbers(env, collector, "restarted")) == kills, 20)
            time.sleep(1.5)
            checks.that(run.running(), f"it ended before it was killed: {run.messages()}")
            run.kill()
    faulted.Replay(env, [trace], collector, "restarted", extra=live).start().finish()
    streams = numbers(env, collector, "restarted")
    checks.equal(sorted((s.get("stream_ended", 0), s.get("stream_cut_off", 0)) for s in streams), [(1, 0), (1, 1), (1, 1)], "ends of three runs, two of them killed")
    per_stream = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                                     "SELECT stream, sum(events) AS events, sum(events = 0) AS empty FROM batches WHERE host = 'restarted' GROUP BY stream"]).stdout)["rows"]
    for row in per_stream:
        last = {c["counter"]: c["value"] for c in json.loads(env.run([
            env.collector, "query", "--store", collector.store, "--format", "json",
            f"SELECT counter, value FROM ledger_last WHERE stream = '{row['stream']}' AND family = ''"]).stdout)["rows"]}
        if last.get("stream_cut_off"):
            check_cut_off(checks, last, row["events"], "a killed run")
        checks.equal(row["empty"], 1, f"closing batches of {row}")
        families = json.loads(env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                                       f"SELECT counter, sum(value) AS n FROM ledger_last WHERE stream = '{row['stream']}' AND family <> '' GROUP BY 1"]).stdout)["rows"]
        families = {r["counter"]: r["n"] for r in families}
        checks.equal({c: families.get(c, 0) for c in ("events_acknowledged", "events_batched", *WAITING)},
                     {c: last.get(c, 0) for c in ("events_acknowledged", "events_batched", *WAITING)}, "the families' numbers add up to the session's")
    checks.equal(metric(collector, "etwcollector_waiting_events", "restarted"), [0] * 3, "what waits of three runs")


def check_live(env, checks, collector):
    """Live streams, which no later run continues: one whose spool is full all the time, one whose agent is killed."""
    trace = env.folder / "office.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--duration-ms", "4000", "--out", trace])
    live = ["--live", "--batch-events", "500", "--spool-bytes", "1MiB"]
    with receiver.Receiver(env.certs, never) as busy:
        with faulted.Replay(env, [trace], busy, "full", extra=[*live, "--give-up", "3s"]) as run:
            checks.equal(run.wait(60), 1, f"a live stream without acknowledgements: {run.messages()}")
        drain(env, collector, "full", run.spool)
        stream, = numbers(env, collector, "full")
        events = int(env.run([env.collector, "query", "--store", collector.store, "--format", "csv", "SELECT count(*) FROM events WHERE host = 'full'"]).stdout.split()[-1])
        checks.that(stream.get("events_evicted_size", 0) > 0, f"its spool was full: {stream}")
        checks.equal((stream.get("stream_ended"), stream.get("events_pending", 0), stream.get("events_compressing", 0)), (1, 0, 0), "the end of a live stream with a full spool")
        checks.equal(stream["events_delivered"], events + stream["events_evicted_size"], "delivered events are stored or evicted")
        checks.equal(metric(collector, "etwcollector_waiting_events", "full"), [0], "what waits of it once its spool is drained")
        with faulted.Replay(env, [trace], busy, "cut", extra=[*live, "--give-up", "0", "--speed", "1x"]) as run:
            receiver.sleep_until(lambda: not run.running() or waiting_batches(env, run.spool) > 5, 20)
            checks.that(run.running(), f"it ended before it was killed: {run.messages()}")
            run.kill()
        drain(env, collector, "cut", run.spool)
        stream, = numbers(env, collector, "cut")
        check_cut_off(checks, stream, stored_events(env, collector, "cut"), "a live stream that was cut off")
        text = env.run([env.collector, "ledger", "--store", collector.store, "--host", "cut"], check=False).stdout
        checks.that("agent ended without closing it" in text, f"the ledger says that the agent ended without closing the stream: {text}")
        checks.equal(metric(collector, "etwcollector_waiting_events", "cut"), [0], "what waits of it once its spool is drained")


def waiting_batches(env, spool):
    done = env.run([env.agent, "spool", "list", "--json", "--spool", spool], check=False)
    return sum(row["waiting"] for row in json.loads(done.stdout)) if not done.returncode and done.stdout.strip() else 0


def check_web(env, checks, collector):
    """Fleet, its groups and the machines' list of an hour later: the store's index says that all came an hour ago."""
    with contextlib.closing(sqlite3.connect(collector.store / "index.db")) as db, db:
        db.execute(f"UPDATE streams SET received_last_utc_ns = received_last_utc_ns - {3600 * 10**9}")
    ends = {}
    for host in HOSTS:
        rows = env.run([env.collector, "query", "--store", collector.store, "--format", "json",
                        f"SELECT time FROM ledger WHERE host = '{host}' AND counter = 'stream_ended' AND value = 1 ORDER BY time DESC LIMIT 1"]).stdout
        ends[host] = next((row["time"] for row in json.loads(rows)["rows"]), None)
    checks.equal([host for host in HOSTS if ends[host] is None], ["killed"], "machines without an end in the ledger")
    collector.start()
    web = web_world.Web(collector)
    checks.equal({row["host"]: row["ended"] for row in web.get("hosts")["items"]}, ends, "ends of machines, by the API")
    checks.equal(web.get("hosts/ended")["ended"], ends["ended"], "the end of one")
    checks.equal(web.get("fleet")["silent"], 1, "silent machines of the fleet")
    groups = {row["group"]: (row["hosts"], row["silent"]) for row in web.get("fleet/groups", by="health")["items"]}
    checks.equal(sum(n for group, (n, _) in groups.items() if group == "ended"), 6, f"machines that ended, and lost nothing: {groups}")
    checks.equal(sum(silent for _, silent in groups.values()), 1, f"silent machines in groups: {groups}")


def test(env, checks, arguments):
    env.make_certificates(agents=HOSTS)
    paths = traces.paths(TRACE, env.build)
    events = traces.event_count(TRACE)
    collector = env.new_collector(extra=["--silent-after", f"{SILENT_S}s", "--web", "127.0.0.1:0"]).start()
    # a replay that was acknowledged
    env.replay(paths, collector, agent="ended", spool=env.folder / "ended", extra=["--batch-events", "5"])
    check_end(checks, numbers(env, collector, "ended"), events, "a replay")
    before = env.run([env.collector, "query", "--store", collector.store, "SELECT batch FROM batches WHERE host = 'ended'"]).stdout
    env.replay(paths, collector, agent="ended", spool=env.folder / "ended", extra=["--batch-events", "5"])
    checks.equal(env.run([env.collector, "query", "--store", collector.store, "SELECT batch FROM batches WHERE host = 'ended'"]).stdout, before,
                 "batches after the same replay again")
    # killed in the middle: not ended, until the same command comes to its end
    for agent in ("killed", "again"):
        with faulted.Replay(env, paths, collector, agent, extra=["--batch-events", "1", "--speed", "0.01x"]) as run:
            receiver.sleep_until(lambda: not run.running() or stored(env, collector, agent), 20)
            checks.that(run.running(), f"{agent}: it ended before it was killed: {run.messages()}")
            run.kill()
    faulted.Replay(env, paths, collector, "again", extra=["--batch-events", "1"]).start().finish()
    check_end(checks, numbers(env, collector, "again"), events, "a replay that was taken up again")
    checks.equal([s.get("stream_ended", 0) for s in numbers(env, collector, "killed")], [0], "a killed replay's end")

    # a collector that never acknowledges: no closing batch
    with receiver.Receiver(env.certs, never) as busy, faulted.Replay(env, paths, busy, "waits", extra=["--give-up", "1s", "--batch-events", "5"]) as run:
        checks.equal(run.wait(60), 1, f"a replay without acknowledgements: {run.messages()}")
    waiting = sum(row["waiting"] for row in json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", run.spool]).stdout))
    checks.equal(waiting, -(-events // 5), "batches in its spool: those of events alone")
    faulted.Replay(env, paths, collector, "waits", extra=["--batch-events", "5"]).start().finish()
    check_end(checks, numbers(env, collector, "waits"), events, "a replay that was acknowledged late")

    check_live(env, checks, collector)
    check_restart(env, checks, collector, env.folder / "office.etl")

    # an agent with a file's source, which goes on
    config = env.folder / "agent.yaml"
    config.write_text("\n".join([
        "service:", f"  status: {env.folder}/status.json", "shipping:", f"  collector: {collector.url}", f"  cert: {env.certs}/service.crt",
        f"  key: {env.certs}/service.key", f"  ca: {env.certs}/ca.crt", f"  spool: {env.folder}/service-spool", "batching:",
        "  batch-events: 5", "sources:", "  - name: file", "    files:", *(f"      - {path}" for path in paths)]) + "\n")
    agent = subprocess.Popen([env.agent, "run", "--config", config], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        receiver.sleep_until(lambda: any(s.get("stream_ended") for s in numbers(env, collector, "service")) or agent.poll() is not None, 20)
        check_end(checks, numbers(env, collector, "service"), events, "a file's source of an agent that goes on")
    finally:
        agent.send_signal(signal.SIGTERM)
        said = agent.communicate(timeout=30)[0]
    checks.equal(agent.returncode, 0, f"the agent's end: {said}")

    # who is silent: the killed replay alone, which the same command resumes
    receiver.sleep_until(lambda: len(incidents(env, collector)) == 1, 30)
    time.sleep(SILENT_S)
    silent = [row["host"] if isinstance(row, dict) else row[0] for row in incidents(env, collector)]
    checks.equal(sorted(silent), ["killed"], "machines with an incident 'silent'")
    doctor = env.run([env.collector, "doctor", "--store", collector.store, "--silent-after", "1s"], check=False).stdout
    checks.that("8 agents, 7 of them ended, 1 silent" in doctor and "killed: nothing has come" in doctor and
                "ended: nothing has come" not in doctor, f"doctor: {doctor}")
    collector.stop()
    check_web(env, checks, collector)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
