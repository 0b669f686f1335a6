"""etwcollector forget: a host and all it sent leave the store; others keep all they have.

The bytes of each file of the store are searched for the host's name, and for pieces of each batch of the host as it was stored
(batches are compressed, so their text cannot be searched for). What can be read of the other host is the same as before.
Killed in the middle, the same command or the next start of the collector finishes the work. A backup keeps what it has.
"""
import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import harness
import traces

GONE, STAYS = "forgotten-host", "other-host"
TRACE, OTHER = "shutdown-win10", "amsi-eventslost"


def fill(env, name):
    env.make_certificates(["test-machine", GONE, STAYS])
    collector = env.new_collector(name, ["--segment-size", "64KiB", "--web", "127.0.0.1:0"]).start()
    for agent, trace in ((GONE, TRACE), (STAYS, TRACE), (GONE, OTHER)):
        env.run(env.replay_command(traces.paths(trace, env.build), collector, agent=agent, spool=env.folder / f"spool-{name}-{agent}-{trace}",
                                   extra=["--batch-events", "500"]), timeout=120)
    return collector


def forget(env, store, *extra, check=True):
    return env.run([env.collector, "forget", "--store", store, "--host", GONE, *extra], check=check)


def kill(process, store):
    """The command, and with it its child, which has the output, too. The locks of the child are free shortly after its output has ended."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(store / "lock", "rb") as lock:
        def is_free():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True
        harness.wait_until(is_free, "the lock of a process that was killed", 60)


def finish(env, checks, store):
    done = forget(env, store, check=False)
    checks.that(done.returncode == 0 or "nothing is stored of host" in done.stderr, f"a removal that was interrupted is finished: {done.returncode} {done.stderr}")


def holding(store, text):
    """Files of the store in whose bytes the text is."""
    return [str(path.relative_to(store)) for path in sorted(store.rglob("*")) if path.is_file() and text.encode() in path.read_bytes()]


def streams(env, store, host):
    return [s for s in json.loads(env.run([env.collector, "hosts", "--store", store, "--json"]).stdout)["streams"] if s["host"] == host]


def exported(env, store, host):
    return env.run([env.collector, "export", "--store", store, "--host", host], check=False).stdout


def records(store, host):
    """The batches of the host, as they are in the segments: each file, where its bytes begin there, and they."""
    index = sqlite3.connect(f"file:{store}/index.db?mode=ro", uri=True)
    found = index.execute("SELECT segment, offset, len_bytes FROM batches JOIN streams USING(stream_id) WHERE agent = ?", (host,)).fetchall()
    index.close()
    batches = []
    for segment, offset, len_bytes in found:
        path = store / "segments" / f"{segment:016x}.seg"
        data = path.read_bytes()
        begin = offset + struct.unpack_from("<I", data, offset + 4)[0]  # after the record's header
        batches.append((path, begin, data[begin:begin + len_bytes]))
    return batches


def stored(store, host):
    return [data for _, _, data in records(store, host)]


def pieces(batches, others):
    """Up to eight pieces of 24 bytes of each batch that are in no batch of the others; both replay a trace that is the same."""
    rest = b"".join(others)
    found = [[p for p in (b[i:i + 24] for i in range(0, len(b) - 23, 8)) if p not in rest] for b in batches]
    if not all(found):
        raise harness.Failure(f"{sum(not f for f in found)} of {len(found)} batches have no piece of their own: {[len(b) for b in batches]}")
    return [p for f in found for p in f[::max(1, len(f) // 8)][:8]]


def found_pieces(store, wanted):
    """How many of the pieces are in some file of the store."""
    files = [path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()]
    return sum(any(p in data for data in files) for p in wanted)


def check_gone(env, checks, store, before, payload, what):
    checks.equal(found_pieces(store, payload), 0, f"{what}: pieces of the host's batches in the store's files, of {len(payload)}")
    checks.equal(holding(store, GONE), [], f"{what}: files with the host's name")
    checks.equal(streams(env, store, GONE), [], f"{what}: streams of the host")
    checks.equal(exported(env, store, STAYS), before, f"{what}: what can be read of the other host")
    checks.that(before.count("\n") > 10, f"{what}: the other host has events")


def test(env, checks, _):
    collector = fill(env, "plain")
    store = collector.store
    running = forget(env, store, check=False)
    checks.that(running.returncode != 0 and "in use" in running.stderr, f"refused while the collector runs: {running.returncode} {running.stderr}")
    reported = json.loads(forget(env, store, "--dry-run", "--json").stdout)
    collector.stop()
    before, found = exported(env, store, STAYS), streams(env, store, GONE)
    checks.equal((reported["streams"], reported["batches"], reported["events"], reported["dry_run"]),
                 (len(found), sum(s["batches"] for s in found), sum(s["events"] for s in found), True), "what a dry run says")
    checks.that(any(f.startswith("segments/") for f in holding(store, GONE)) and "index.db" in holding(store, GONE), f"the host is there: {holding(store, GONE)}")
    places = records(store, GONE)
    batches = [data for _, _, data in places]
    payload = pieces(batches, stored(store, STAYS))
    checks.equal((len(batches), found_pieces(store, payload)), (reported["batches"], len(payload)), "the host's batches are in the segments")
    backup = env.folder / "backup"
    env.run([env.collector, "backup", "--store", store, "--to", backup])
    copy = env.folder / "copy"
    subprocess.run(["cp", "-a", str(store), str(copy)], check=True)
    done = json.loads(forget(env, store, "--json").stdout)
    checks.equal((done["streams"], done["batches"], done["events"], done["damaged_bytes"], done["dry_run"]),
                 (reported["streams"], reported["batches"], reported["events"], 0, False), "what was removed")
    checks.that(all(word in done["remains"] for word in ("audit", "requests that name", "backups")), f"what remains: {done['remains']}")
    check_gone(env, checks, store, before, payload, "forgotten")
    again = forget(env, store, check=False)
    checks.that(again.returncode != 0 and "nothing is stored of host forgotten-host" in again.stderr, f"a second time: {again.stderr}")
    checks.equal(len(streams(env, backup, GONE)), len(found), "a backup that shares segment files keeps the host")
    checks.equal(found_pieces(backup, payload), len(payload), "a backup keeps the host's batches")
    checks.that(exported(env, backup, GONE).count("\n") > 10, "the backup's events can be read")
    # killed between the header of a record, which is erased first, and the end of its data
    with contextlib.closing(sqlite3.connect(store / "index.db")) as index, index:
        index.execute("CREATE TABLE forgetting(agent TEXT PRIMARY KEY)")
        index.execute("CREATE TABLE forgetting_runs(agent TEXT NOT NULL, stream BLOB NOT NULL)")
        index.execute("INSERT INTO forgetting VALUES(?)", (GONE,))
    path, begin, data = max(places, key=lambda place: len(place[2]))
    with open(path, "r+b") as segment:
        segment.seek(begin + len(data) // 2)
        segment.write(data[len(data) // 2:])
    checks.that(found_pieces(store, payload) > 0, "half a batch is left")
    finished = json.loads(forget(env, store, "--json").stdout)
    checks.equal((finished["batches"], finished["damaged_bytes"]), (0, 0), "what the removal says that was interrupted there")
    check_gone(env, checks, store, before, payload, "killed in a record")

    # an index made anew from the segments has nothing of it
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (store / name).unlink(missing_ok=True)
    collector.start()
    collector.stop()
    check_gone(env, checks, store, before, payload, "the index made anew")

    # one run of the host, also when the removal is interrupted: the other run of the same host keeps all it has
    for number in range(4):
        subprocess.run(["rm", "-rf", str(store)], check=True)
        subprocess.run(["cp", "-a", str(copy), str(store)], check=True)
        leaves, remains = streams(env, store, GONE)
        if number:
            process = subprocess.Popen([env.collector, "forget", "--store", store, "--host", GONE, "--run", leaves["stream"][:8]],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(0.01 * number)
            kill(process, store)
            collector.start()
            collector.stop()
        if len(streams(env, store, GONE)) == 2:
            said = json.loads(forget(env, store, "--run", leaves["stream"][:8], "--json").stdout)
            checks.equal((said["streams"], said["batches"], said["events"]), (1, leaves["batches"], leaves["events"]), "what the removal of a run says")
        checks.equal([(s["stream"], s["events"]) for s in streams(env, store, GONE)], [(remains["stream"], remains["events"])], f"run {number}: the other run stays")
        asked = env.run([env.collector, "query", "--store", store, "--format", "csv", "SELECT count(*) FROM events WHERE host = '" + GONE + "'"])
        checks.equal(int(asked.stdout.split()[-1]), remains["events"], f"run {number}: events that are left")
        checks.equal(exported(env, store, STAYS), before, f"run {number}: the other host")
    none = forget(env, store, "--run", "ffff", check=False)
    checks.that(none.returncode == 1 and "0 runs of" in none.stderr, f"a run that is not there: {none.stderr}")

    # interrupted when the mark was made, and when only the mark was left: the same command says that it has finished the work
    for name, extra, values in (("forgetting", [], f"'{GONE}'"), ("forgetting_runs", ["--run", leaves["stream"][:8]], f"'{GONE}', x'{leaves['stream']}'")):
        subprocess.run(["rm", "-rf", str(store)], check=True)
        subprocess.run(["cp", "-a", str(copy), str(store)], check=True)
        for streams_left in (1 if extra else len(found), 0):
            index = sqlite3.connect(store / "index.db")
            index.execute("CREATE TABLE IF NOT EXISTS forgetting(agent TEXT PRIMARY KEY)")
            index.execute("CREATE TABLE IF NOT EXISTS forgetting_runs(agent TEXT NOT NULL, stream BLOB NOT NULL)")
            index.execute(f"INSERT INTO {name} VALUES({values})")
            index.commit()
            index.close()
            said = forget(env, store, "--json", *extra, check=False)
            checks.equal((said.returncode, json.loads(said.stdout or "{}").get("streams")), (0, streams_left), f"{name}: finished by the command: {said.stderr}")
        checks.equal(len(streams(env, store, GONE)), len(found) - 1 if extra else 0, f"{name}: what is left of the host")
        checks.equal(exported(env, store, STAYS), before, f"{name}: the other host")

    # a collector that starts does not finish it while a sink runs, which would send what it has at hand
    subprocess.run(["rm", "-rf", str(store)], check=True)
    subprocess.run(["cp", "-a", str(copy), str(store)], check=True)
    with contextlib.closing(sqlite3.connect(store / "index.db")) as index, index:
        index.execute("CREATE TABLE forgetting(agent TEXT PRIMARY KEY)")
        index.execute("CREATE TABLE forgetting_runs(agent TEXT NOT NULL, stream BLOB NOT NULL)")
        index.execute("INSERT INTO forgetting VALUES(?)", (GONE,))
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        sink = subprocess.Popen([env.collector, "sink", "run", "--store", store, "--name", "s", "--all", "--to", f"http://127.0.0.1:{silent.getsockname()[1]}/"],
                                stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: json.loads(env.run([env.collector, "sink", "status", "--store", store, "--json"]).stdout)["sinks"], "a sink that runs", 60)
        try:
            collector.start()
            refused = ""
        except harness.Failure as failure:
            refused = str(failure)
        checks.that("sink s is run by another process: end it first" in refused, f"it does not start beside a sink: {refused[-600:]}")
        checks.that(any(s["host"] == GONE for s in json.loads(env.run([env.collector, "hosts", "--store", store, "--json"]).stdout)["streams"]), "and removes nothing")
        sink.terminate()
        sink.wait()
    collector.start()
    collector.stop()
    checks.equal(streams(env, store, GONE), [], "then it does")

    # killed in the middle, anywhere: finished by the command, or by the collector's start
    random.seed(1)
    begun = 0
    for number in range(8):
        subprocess.run(["rm", "-rf", str(store)], check=True)
        subprocess.run(["cp", "-a", str(copy), str(store)], check=True)
        process = subprocess.Popen([env.collector, "forget", "--store", store, "--host", GONE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.005, 0.12))
        kill(process, store)
        killed = process.returncode == -signal.SIGKILL
        begun += killed
        if number % 2 or not holding(store, GONE):
            finish(env, checks, store)
        else:
            collector.start()
            collector.stop()
            if streams(env, store, GONE):  # killed before the mark was made
                finish(env, checks, store)
        check_gone(env, checks, store, before, payload, f"kill {number}")
    checks.that(begun >= 2, f"{begun} of 8 were killed in the middle")
    print(f"{reported['batches']} batches of {reported['events']} events removed, {begun} kills; {len(payload)} pieces of batches searched for", flush=True)
    os.sync()


if __name__ == "__main__":
    harness.main(test, __doc__)
