"""What the spool's options promise, and the dictionary's.

- spool-sync always: no batch counts as kept before it is on the disk, so a power cut loses no listed batch; interval: a new
  batch is on the disk soon, also while the sender waits for a collector that never answers; never: nothing is synced.
- spool-age: while the collector does not answer, batches over the age limit are evicted, and every event of them is counted.
- spool-key: only its owner may read the key file. Without the key, batches are reported as locked, and a replay makes its batches
  again. The batches of a live stream wait: they are not sent with another key, and are sent when the key is back. A torn or changed
  record loses only itself.
- spool list and verify: a spool whose stream continues under another name has no errors; a damaged state file is reported, and the
  rest of the spool is checked nevertheless.
- dictionary train and --dictionary: smaller batches, the same events.

# sanitizers: tsan
"""
import json
import stat

import disk
import faulted
import harness
import receiver
import traces

TRACE, SMALL = "shutdown-win10", "clr-gc-events"
WAIT_S = 60


class NoCollector:
    url = "https://localhost:1"


def unsynced(faults):
    """How many writes to segments were not followed by a sync, as it is now."""
    segments = {path.stat().st_ino for path in faults.folder.glob("**/*.seg")}
    waiting = {}
    for kind, inode, *_ in faults._undo_records():
        if kind in "SD":
            waiting.pop(inode, None)
        elif inode in segments:
            waiting[inode] = waiting.get(inode, 0) + 1
    return sum(waiting.values())


def listed(env, spool, *extra):
    rows = json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", spool, *extra]).stdout)
    return {key: sum(row[key] for row in rows) for key in ("waiting", "locked", "events")}


def sync_policy(env, checks, policy, hanging):
    spool = env.folder / f"sync-{policy}" / "spool"
    spool.parent.mkdir()
    faults = disk.Faults(env.build, spool, undo=True)
    extra = ["--batch-events", "100", "--spool-sync", policy, "--spool-sync-interval", "20ms", "--request-timeout", "10m",
             "--idle-timeout", "10m", "--give-up", "0"]
    with faulted.Replay(env, traces.paths(TRACE, env.build), hanging, "filler", spool=spool, extra=extra,
                        environment=faults.environment()) as run:
        most = 0
        wanted = -(-traces.event_count(TRACE) // 100)

        def filled():
            nonlocal most
            if policy == "always":
                most = max(most, unsynced(faults))
            return spool.exists() and listed(env, spool)["waiting"] >= wanted or not run.running()

        receiver.sleep_until(filled, WAIT_S)
        checks.that(run.running(), f"{policy}: the replay ended: {run.messages()}")
        if policy == "interval":
            checks.that(receiver.sleep_until(lambda: unsynced(faults) == 0, WAIT_S),
                        f"interval: {unsynced(faults)} writes are never synced while the sender hangs")
        elif policy == "always":
            # the last one is listed as soon as it is written
            checks.that(receiver.sleep_until(lambda: unsynced(faults) == 0, WAIT_S), "always: writes are never synced")
            # a new segment's head, a record's head and its batch
            checks.that(most <= 3, f"always: {most} writes were unsynced at once")
        else:
            checks.that(unsynced(faults) > 100, f"never: only {unsynced(faults)} writes are unsynced")
        run.kill()
    before = listed(env, spool)
    faults.power_cut()
    after = listed(env, spool)
    checks.that(before["waiting"] > 100, f"{policy}: {before['waiting']} batches were in the spool")
    checks.equal(after["waiting"], 0 if policy == "never" else before["waiting"], f"{policy}: batches after a power cut")


def age(env, checks):
    """A live session whose collector never answers."""
    run = faulted.Replay(env, traces.paths(TRACE, env.build), NoCollector(), "filler", spool=env.folder / "aged",
                         extra=["--live", "--batch-events", "100", "--spool-age", "1s", "--give-up", "0", "--retry-max", "1s"])
    spool = run.spool
    with run:
        # everything is evicted when only tombstones are left, whose events the spool does not count
        def only_tombstones():
            rows = listed(env, spool) if (spool / "state").exists() else None
            return rows and rows["events"] == 0 and rows["waiting"] > 0

        gone = receiver.sleep_until(only_tombstones, WAIT_S)
        checks.that(gone, f"age: {listed(env, spool)} are in the spool: {run.messages()}")
        run.process.terminate()
        run.wait(WAIT_S)
    summary = json.loads(run.output)
    checks.equal(summary["ledger"]["events_evicted_age"], summary["events"], "events that were too old")
    checks.that(summary["ledger_balanced"], "age: the ledger")


def looking(env, checks):
    """A live session whose batch numbers a collector has with other content; then no collector answers, and the session is killed."""
    asked = []
    with receiver.Receiver(env.certs, receiver.taken(asked)) as fake:
        with faulted.Replay(env, traces.paths(TRACE, env.build), fake, "filler", spool=env.folder / "renewed", extra=[
                "--live", "--batch-events", "100", "--request-bytes", "16KiB", "--give-up", "0", "--request-timeout", "10m"]) as run:
            checks.that(receiver.sleep_until(lambda: len(set(asked)) > 1 or not run.running(), WAIT_S) and run.running(),
                        f"no new name: {run.messages()}")
            run.kill()
    checks.equal(fake.failures, [], "the false collector's own failures")
    look = ["--spool", run.spool, "--json"]
    verified = env.run([env.agent, "spool", "verify", *look], check=False)
    answer = json.loads(verified.stdout)
    checks.equal((verified.returncode, answer["good"], answer["wrong_batches"], verified.stderr), (0, True, 0, ""), "a renamed stream's batches")
    rows = {row["stream"]: row["waiting"] for row in json.loads(env.run([env.agent, "spool", "list", *look]).stdout)}
    checks.equal(rows.get(asked[-1].hex()), answer["records"], f"batches under the new name, of {rows}")
    nowhere = env.folder / "no-such-spool"
    drained = env.run([env.agent, "spool", "drain", "--spool", nowhere, "--collector", "https://localhost:1", "--cert", env.certs / "filler.crt",
                       "--key", env.certs / "filler.key", "--ca", env.certs / "ca.crt"], check=False)
    checks.that(drained.returncode == 1 and "there is none" in drained.stderr and not nowhere.exists(), f"a spool that is not there: {drained}")
    state = run.spool / "state"
    state.write_bytes(state.read_bytes()[:-20])
    verified = env.run([env.agent, "spool", "verify", *look], check=False)
    answer = json.loads(verified.stdout)
    checks.equal((verified.returncode, answer["good"], answer["unreadable"], answer["wrong_batches"]), (3, False, 1, 0), "a torn state file")
    torn = env.run([env.agent, "spool", "list", *look], check=False)
    checks.that(torn.returncode == 0 and "state" in torn.stderr and sum(row["waiting"] for row in json.loads(torn.stdout)) >= answer["records"],
                f"a list without the state: {torn}")


def fill(env, agent, key, spool, extra=()):
    """A spool with all of the trace under that key; the replay is killed."""
    with faulted.Replay(env, traces.paths(SMALL, env.build), NoCollector(), agent, spool=spool,
                        extra=["--batch-events", "5", "--spool-key", key, "--give-up", "0", *extra]) as run:
        wanted = -(-traces.event_count(SMALL) // 5)
        receiver.sleep_until(lambda: spool.exists() and listed(env, spool)["waiting"] >= wanted or not run.running(), WAIT_S)
        checks_running = run.running()
        said = run.messages()
    if not checks_running:
        raise harness.Failure(f"the replay ended without a collector: {said}")


def encryption(env, checks, collector):
    paths = traces.paths(SMALL, env.build)
    truth = faulted.Truth(env, paths)
    key, other = env.folder / "spool.key", env.folder / "other.key"
    spool = env.folder / "replayed"
    fill(env, "lost-key", key, spool)
    checks.equal(stat.S_IMODE(key.stat().st_mode), 0o600, "mode of the key file")
    batches = listed(env, spool, "--spool-key", key)
    checks.equal(batches["locked"], 0, "locked batches with the key")
    checks.equal(listed(env, spool)["locked"], batches["waiting"], "locked batches without a key")
    verified = env.run([env.agent, "spool", "verify", "--json", "--spool", spool, "--spool-key", key])
    checks.equal(json.loads(verified.stdout)["wrong_batches"], 0, "batches that contradict their records")
    key.chmod(0o644)
    refused = env.run([env.agent, "spool", "list", "--spool", spool, "--spool-key", key], check=False)
    checks.that(refused.returncode and "chmod 600" in refused.stderr, f"a key that all may read: {refused}")
    key.chmod(0o600)
    # the key is lost: the replay makes its batches again
    summary = faulted.Replay(env, paths, collector, "lost-key", spool=spool,
                             extra=["--batch-events", "5", "--spool-key", other]).start().finish()
    truth.check(checks, collector, "lost-key", "a replay whose key was lost")
    faulted.check_summary(checks, summary, truth.lines, "a replay whose key was lost")
    # a live stream cannot: it waits for its key
    spool = env.folder / "lived"
    fill(env, "live", key, spool, ["--live"])
    batches = listed(env, spool, "--spool-key", key)
    shipping = ["--collector", collector.url, "--cert", env.certs / "live.crt", "--key", env.certs / "live.key",
                "--ca", env.certs / "ca.crt", "--spool", spool]
    drained = env.run([env.agent, "spool", "drain", *shipping, "--spool-key", other], check=False)
    checks.that(drained.returncode == 1 and "which is not in" in drained.stderr and
                f"{batches['waiting']} of them locked" in drained.stdout, f"drained with another key: {drained}")
    env.run([env.agent, "spool", "rotate-key", "--spool-key", key])
    env.run([env.agent, "spool", "drain", *shipping, "--spool-key", key])
    checks.equal(listed(env, spool)["waiting"], 0, "batches left after draining with the key")
    stored = truth.stored(collector, "live")[0]
    checks.that(stored >= batches["events"] > 0, f"{stored} events of {batches['events']} are stored")


def dictionary(env, checks, collector):
    paths = traces.paths(TRACE, env.build)
    file = env.folder / "dictionary"
    made = json.loads(env.run([env.agent, "dictionary", "train", "--json", "--out", file, *paths]).stdout)
    checks.equal(made["dictionary_bytes"], file.stat().st_size, "bytes of the dictionary")
    checks.equal(stat.S_IMODE(file.stat().st_mode), 0o600, "mode of the dictionary")
    checks.that(made["bytes_with"] < made["bytes_without"] * 0.8, f"the dictionary's use: {made}")
    few = env.run([env.agent, "dictionary", "train", "--out", file.with_suffix(".none"), *traces.paths("amsi-eventslost", env.build)],
                  check=False)
    checks.that(few.returncode == 1 and not file.with_suffix(".none").exists(), f"a dictionary of nothing: {few}")
    truth = faulted.Truth(env, paths)
    summaries = {}
    for agent, extra in (("plain", []), ("trained", ["--dictionary", file])):
        summaries[agent] = faulted.Replay(env, paths, collector, agent, extra=[
            "--batch-events", "20", "--request-bytes", "64KiB", *extra]).start().finish()
        truth.check(checks, collector, agent, f"{agent}: 20 events a batch")
    plain, trained = (summaries[agent]["encoded_bytes"] for agent in ("plain", "trained"))
    return plain, trained


def test(env, checks, arguments):
    env.make_certificates(agents=["filler", "lost-key", "live", "plain", "trained"])
    with receiver.Receiver(env.certs, lambda exchange: (exchange.read_body(), exchange.wait(3600))) as hanging:
        for policy in ("always", "interval", "never"):
            sync_policy(env, checks, policy, hanging)
        hanging.stop()
    age(env, checks)
    looking(env, checks)
    collector = env.new_collector().start()
    encryption(env, checks, collector)
    plain, trained = dictionary(env, checks, collector)
    collector.stop()
    print(f"20 events a batch: {plain} bytes without a dictionary, {trained} with one that arrived on the way")


if __name__ == "__main__":
    harness.main(test, __doc__)
