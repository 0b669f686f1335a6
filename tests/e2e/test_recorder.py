"""The recorder: a session's events stay on the agent's disk, and a time of them becomes a file.

What a recorder has is counted without the product's code: the file of batches is read by format_reader.py, and its records are
compared with the trace's, as `etwagent dump` prints them.

- Whole: each record of the trace is in the export, once, and none travels; the collector's ledger counts each as recorded.
- A full ring: what is exported are the trace's last records; those before are counted as removed.
- Kept: a copy of the ring's newest part has the same records, and no older ones where it has no keyframe; copies are bounded in number
  and bytes.
- Encrypted: no batch can be read without the key; with it all of them.
- kill -9: what is exported is a beginning of the trace, and the next start's closing batch counts exactly that as recorded. The
  next run's events follow in the same ring.
- A full disk: what found no room is counted as unrecorded, and what is exported is the rest. One that stays full costs the recorder, not the session.
- A damaged file costs the batches that it hits: they are a gap in the list and in the export.
- An export that was cut or changed is read as far as it goes, and the reason is reported; a part of a recording has its window.

# sanitizers: tsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 60: What a recorder exports is what its session read, less what it removed. | a ring of 128 KiB, a kill, a full disk and a damaged file: each event exported, or counted | 2026-11-28
import collections
import concurrent.futures
import json
import pathlib
import struct
import subprocess
import time

import disk
import faulted
import format_notation
import format_reader
import harness
import test_identity
import test_ledger
import test_tracegen
import traces
import uploads

TRACE, SMALL = "shutdown-win10", "clr-32bit"
FIRST, KEYFRAME = b"EABATCH1", 2
WAIT_S, AT_A_TIME, SEGMENT_HEAD_BYTES = 60, 3, 40
EARLY_2020_S = 1577836800


def read_export(path):
    """The batches of an exported file, in their order, by proto/wire/FORMAT.md."""
    data = path.read_bytes()
    assert data[:8] == FIRST, data[:8]
    found, at = [], 8
    while True:
        length, = struct.unpack_from("<I", data, at)
        at += 4
        if not length:
            break
        found.append(data[at:at + length])
        at += length
    count, _sum = struct.unpack_from("<QQ", data, at)
    assert (count, at + 16) == (len(found), len(data)), (count, at, len(data))
    return found


class Recorded:
    """What an export has, by an independent reader: events in all and by stream, keyframes' rows, tombstones."""

    def __init__(self, path, verify=8):
        self.batches = read_export(path)
        self.events, self.keyframe_rows, self.numbers = collections.Counter(), 0, collections.defaultdict(set)
        self.gone = 0
        step = max(1, len(self.batches) // verify)
        for i, data in enumerate(self.batches):
            m = format_notation.parse(data, "Batch", raw=("sources", "ledger"))
            self.gone += sum(t.last - t.first + 1 for t in m.tombstones)
            assert not m.ledger, "an exported batch has a ledger"
            if m.tombstones:
                continue
            self.numbers[m.stream].add(m.number)
            if m.kind == KEYFRAME:
                self.keyframe_rows += m.event_count
            else:
                self.events[m.stream] += m.event_count
            if i % step == 0:
                format_reader.Batch(data).verify()  # it stands for itself

    @property
    def total(self):
        return sum(self.events.values())


def replay(env, checks, collector, agent, trace, *extra, spool=None, environment=None, finish=True):
    paths = [trace] if isinstance(trace, pathlib.Path) else traces.paths(trace, env.build)
    run = faulted.Replay(env, paths, collector, agent, spool=spool, environment=environment,
                         extra=["--live", "--batch-events", "200", *extra])
    if not finish:
        return run
    with run:
        code = run.wait(WAIT_S)
    checks.that(run.output, f"{agent}: no summary: {run.messages()}")
    summary = json.loads(run.output)
    run.code, run.summary, run.ledger = code, summary, summary["ledger"]
    checks.that(summary["ledger_balanced"], f"{agent}: the ledger: {summary['ledger']}")
    return run


def export(env, run, *extra, check=True, name="export"):
    path = env.folder / f"{run.agent}-{name}.etwb"
    done = env.run([env.agent, "recorder", "export", "--spool", run.spool, "-o", path, "--json", *extra], check=check)
    return path, json.loads(done.stdout) if done.returncode == 0 else done


def listed(env, run, *extra):
    return json.loads(env.run([env.agent, "recorder", "list", "--spool", run.spool, "--json", *extra]).stdout)


def lines_of(env, command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True).stdout.splitlines()


def dumped(env, trace):
    return lines_of(env, [env.agent, "dump", "--format", "jsonl", "--raw", *traces.paths(trace, env.build)])


def shown(env, path):
    """The export's records as the collector prints them, when it has read the file."""
    return lines_of(env, [env.collector, "export", path, "--format", "jsonl", "--raw", "--verify"])


def at_the_collector(checks, collector, agent, index=0):
    stream = test_ledger.ledger(collector, agent)["streams"][index]
    checks.equal(stream["stored_events"], 0, f"{agent}: events that travelled")
    checks.equal([e["name"] for e in stream["equations"] if e["holds"]], ["delivered", "batched", "stored"], f"{agent}: equations")
    checks.equal((stream["unbalanced_families"], stream["alerts"]), ([], []), f"{agent}: families and alerts")
    return test_ledger.counters(stream)


def whole(env, checks, collector, truth):
    run = replay(env, checks, collector, "whole", TRACE, "--recorder", "64MiB")
    checks.equal((run.code, run.summary["complete"]), (0, True), "whole: the end")
    path, said = export(env, run)
    found = Recorded(path)
    checks.equal((found.total, said["events"], said["missing_batches"]), (len(truth), len(truth), 0), "whole: events exported")
    counts = at_the_collector(checks, collector, "whole")
    checks.equal((counts["events_delivered"], counts["events_recorded"], counts["stream_recorded"]),
                 (len(truth), found.total + found.keyframe_rows, 1), "whole: at the collector")
    checks.equal(shown(env, path), truth, "whole: records of the export")
    row, = listed(env, run)
    checks.equal((row["name"], row["events"], row["gaps"], row["bad_bytes"]), ("replay", len(truth), [], 0), "whole: the list")
    checks.that(run.spool.joinpath("recorder/replay").stat().st_mode & 0o77 == 0, "others can look into the recorder's folder")
    # the same export again is the same stream
    again, _ = export(env, run, name="again")
    checks.equal(again.read_bytes(), path.read_bytes(), "whole: exported twice")
    window(env, checks, run, truth)
    broken(env, checks, path)


def window(env, checks, run, truth):
    """The middle third of the trace's events, by their times."""
    times = sorted(json.loads(line)["time"] for line in truth)
    begin, end = times[len(times) // 3], times[2 * len(times) // 3]
    path, said = export(env, run, "--from", begin, "--to", end, name="window")
    inside = [line for line in truth if begin <= json.loads(line)["time"] < end]
    got = shown(env, path)
    checks.equal([line for line in got if begin <= json.loads(line)["time"] < end], inside, "window: its records")
    checks.that(said["events"] == len(got) and said["batches"] <= len(read_export(path)), f"window: {said} and {len(got)} records")
    empty = env.run([env.agent, "recorder", "export", "--spool", run.spool, "-o", path, "--from", "2001-01-01", "--to", "2001-01-02"],
                    check=False)
    checks.that(empty.returncode == 1 and "no events of that time" in empty.stderr, f"window: an empty one: {empty}")
    checks.equal(Recorded(path, 1).total, said["events"], "window: the file of before stays")


def broken(env, checks, path):
    data = path.read_bytes()
    total = Recorded(path, 1).total
    cut = env.folder / "cut.etwb"
    cut.write_bytes(data[:len(data) // 2])
    done = env.run([env.collector, "open", cut, "--json"], check=False)
    checks.that(done.returncode == 0 and "in the middle" in done.stderr, f"cut: {done}")
    checks.that(0 < json.loads(done.stdout)["events"] < total, f"cut: {done.stdout}")
    changed = env.folder / "changed.etwb"
    half = len(data) // 2
    changed.write_bytes(data[:half] + bytes(b ^ 0x55 for b in data[half:half + 64]) + data[half + 64:])
    done = env.run([env.collector, "open", changed, "--json"], check=False)
    checks.that(done.returncode != 0 and ("are not stored" in done.stderr or "damaged" in done.stderr), f"changed: {done}")
    both = env.run([env.collector, "open", path, *traces.paths(SMALL, env.build)], check=False)
    checks.that(both.returncode == 2 and "found both" in both.stderr, f"a trace beside it: {both}")


def full_ring(env, checks, collector, truth):
    run = replay(env, checks, collector, "ring", TRACE, "--recorder", "128KiB")
    ledger = run.ledger
    path, said = export(env, run)
    found = Recorded(path)
    checks.that(ledger["events_removed_size"] > 1000 and ledger["recorder_files_removed"] > 1, f"ring: {ledger}")
    checks.equal(found.total + found.keyframe_rows, ledger["events_recorded"], "ring: exported and recorded")
    checks.equal(ledger["events_delivered"] + ledger["events_synthesised"],
                 found.total + found.keyframe_rows + ledger["events_removed_size"], "ring: exported and removed")
    checks.equal(shown(env, path), truth[len(truth) - found.total:], "ring: the last records")
    checks.that(listed(env, run)[0]["bytes"] <= (128 << 10) + (32 << 10), "ring: bytes on disk")
    counts = at_the_collector(checks, collector, "ring")
    checks.equal((counts["events_recorded"], counts["events_removed_size"]), (ledger["events_recorded"], ledger["events_removed_size"]),
                 "ring: at the collector")
    kept(env, checks, run, truth)


def kept(env, checks, run, truth):
    """Copies of the ring's newest part: bounded, and read as the ring is. The trace's times are long past."""
    def keep(*extra):
        return env.run([env.agent, "recorder", "keep", "--spool", run.spool, *extra], check=False)

    before = len(read_export(export(env, run, name="before")[0]))
    done = keep("--last", "1h")
    checks.that(done.returncode == 1 and "no events of that time" in done.stderr, f"kept: nothing is so new: {done}")
    done = keep("--last", "0", "--bytes", "1KiB")
    checks.that(done.returncode == 1 and "--bytes allows 1024" in done.stderr, f"kept: too large: {done}")
    names = []
    unfinished = run.spool / "recorder/@unfinished"  # a killed run left it
    unfinished.mkdir()
    unfinished.joinpath("0000000000000001.seg").write_bytes(b"half")
    checks.equal([row["name"] for row in listed(env, run)], ["replay"], "kept: an unfinished copy is none")
    for _ in range(3):
        done = keep("--last", "0", "--copies", "2")
        checks.equal(done.returncode, 0, f"kept: {done}")
        names.append(done.stdout.splitlines()[-1].split(":")[0])
    checks.that(f"removed {names[0]}" in done.stdout, f"kept: the oldest copy is removed: {done.stdout}")
    checks.equal([row["name"] for row in listed(env, run)], ["replay", *names[1:]], "kept: the list")
    checks.that(not unfinished.exists(), "kept: the unfinished copy is gone")
    faults = disk.Faults(env.build, run.spool / "recorder", "write:ENOSPC@1-", files="*.seg*")
    done = env.run([env.agent, "recorder", "keep", "--spool", run.spool, "--last", "0", "--copies", "1"], check=False,
                   env=faults.environment())
    checks.equal((done.returncode, [row["name"] for row in listed(env, run)]), (1, ["replay", *names[1:]]),
                 f"kept: what cannot be copied removes nothing: {done}")
    path, said = export(env, run, "--name", names[2], name="kept")
    checks.equal(len(read_export(path)), before, "kept: batches of a copy")
    checks.equal(shown(env, path), truth[len(truth) - said["events"]:], "kept: records of a copy")
    # the newest file has no events, as one that was made a moment ago: those before it are still found
    files = sorted((run.spool / "recorder/replay").glob("*.seg"))
    files[-1].write_bytes(files[-1].read_bytes()[:SEGMENT_HEAD_BYTES])
    done = keep("--last", "36000d")
    checks.that(done.returncode == 0 and f"{len(files)} files" in done.stdout, f"kept: before a file without events: {done}")


def kept_without_keyframes(env, checks, collector):
    """Two traces that end before their first keyframe is due, one of 2016 and one of 2024: of the second alone a copy is wanted."""
    if not checks.real("a copy of a ring without keyframes", "small-32bit-xpress/trace.etl"):
        return
    later, _ = test_tracegen.generate(env.build, env.folder, "later", "--preset", "office", "--duration-ms", "300")
    run = replay(env, checks, collector, "stateless", "small-32bit-xpress", "--recorder", "64MiB")
    replay(env, checks, collector, "stateless", later, "--recorder", "64MiB")
    row, = listed(env, run)
    checks.equal((row["files"], row["keyframe_batches"]), (2, 0), "stateless: the ring")
    since = int(time.time()) - EARLY_2020_S
    done = env.run([env.agent, "recorder", "keep", "--spool", run.spool, "--last", f"{since}s"], check=False)
    checks.that(done.returncode == 0 and " 1 files" in done.stdout, f"stateless: the copy: {done}")


def encrypted(env, checks, collector):
    key = env.folder / "recorder.key"
    run = replay(env, checks, collector, "sealed", SMALL, "--recorder", "64MiB", "--spool-key", key)
    without = listed(env, run)[0]
    checks.equal((without["locked"], without["from"]), (without["batches"], None), "sealed: without its key")
    _, failed = export(env, run, check=False)
    checks.that(failed.returncode == 1 and "no events of that time" in failed.stderr, f"sealed: {failed}")
    path, said = export(env, run, "--spool-key", key)
    checks.equal(Recorded(path).total, traces.event_count(SMALL), "sealed: with its key")


def killed(env, checks, collector, truth):
    """By a kill in the middle of a write to the recorder, which leaves a torn batch."""
    spool = env.folder / "kill" / "spool"
    spool.mkdir(parents=True, mode=0o700)
    faults = disk.Faults(env.build, spool / "recorder", "write:kill@60", files="*.seg")
    run = replay(env, checks, collector, "killed", TRACE, "--recorder", "64MiB", spool=spool, finish=False,
                 environment=faults.environment())
    with run:
        checks.equal(run.wait(WAIT_S), -9, "killed: how it ended")
    first, _ = export(env, run, name="first")
    found = Recorded(first)
    checks.that(1000 < found.total < len(truth), f"killed: {found.total} events are recorded")
    after = replay(env, checks, collector, "killed", SMALL, "--recorder", "64MiB", spool=spool)
    checks.that(after.ledger["spool_torn_bytes"] > 0, f"killed: the torn batch: {after.ledger}")
    streams = test_ledger.ledger(collector, "killed")["streams"]
    cut = [s for s in streams if test_ledger.counters(s).get("stream_cut_off")]
    checks.equal((len(streams), len(cut)), (2, 1), "killed: streams, and those that were cut off")
    for stream in cut:
        counts = collections.Counter(test_ledger.counters(stream))
        checks.equal(counts["events_recorded"], found.total + found.keyframe_rows, "killed: recorded, says the closing batch")
        checks.equal(counts["events_batched"] + counts["events_synthesised"],
                     counts["events_recorded"] + counts["events_evicted_damage"], "killed: the closing batch")
        checks.equal([e["name"] for e in stream["equations"] if e["holds"]], ["delivered", "batched", "stored"], "killed: equations")
    if not found.gone:  # encoders that finish out of turn may have left a gap
        checks.equal(shown(env, first), truth[:found.total], "killed: a beginning of the trace")
    path, _ = export(env, after, name="second")
    checks.equal(Recorded(path).total, found.total + traces.event_count(SMALL), "killed: both runs in one ring")


def full_disk(env, checks, collector):
    spool = env.folder / "disk" / "spool"
    spool.mkdir(parents=True, mode=0o700)
    faults = disk.Faults(env.build, spool / "recorder", "write:ENOSPC@60-90", files="*.seg")
    run = replay(env, checks, collector, "disk", TRACE, "--recorder", "64MiB", spool=spool, environment=faults.environment())
    ledger = run.ledger
    path, said = export(env, run, check=False)
    found = Recorded(path)
    checks.that(ledger["events_unrecorded"] > 200 and ledger["events_removed_size"] > 200, f"disk: {ledger}")
    checks.equal(found.total + found.keyframe_rows, ledger["events_recorded"], "disk: exported and recorded")
    checks.equal(ledger["events_delivered"] + ledger["events_synthesised"], found.total + found.keyframe_rows +
                 ledger["events_unrecorded"] + ledger["events_removed_size"], "disk: each event is counted")
    at_the_collector(checks, collector, "disk")
    gaps = test_ledger.ledger(collector, "disk")["streams"][0]["gaps"]
    checks.equal(sum(g["counted"] for g in gaps if g["cause"] == "events_unrecorded"), ledger["events_unrecorded"], f"disk: the gap: {gaps}")


def full_for_good(env, checks, collector):
    """The disk stays full: the recorder loses all that it has, and the session goes on to its end, with its numbers."""
    spool = env.folder / "full" / "spool"
    spool.mkdir(parents=True, mode=0o700)
    faults = disk.Faults(env.build, spool / "recorder", "write:ENOSPC@60-", files="*.seg")
    run = replay(env, checks, collector, "full", TRACE, "--recorder", "64MiB", spool=spool, environment=faults.environment())
    ledger = run.ledger
    checks.that(ledger["events_delivered"] == traces.event_count(TRACE) and ledger["events_unrecorded"] > 1000, f"full: {ledger}")
    checks.equal(ledger["events_delivered"] + ledger["events_synthesised"], ledger["events_recorded"] + ledger["events_unrecorded"] + ledger["events_removed_size"], "full: each event is counted")
    counts = at_the_collector(checks, collector, "full")
    checks.equal((counts["events_delivered"], counts["events_unrecorded"]), (ledger["events_delivered"], ledger["events_unrecorded"]), "full: the numbers that travelled")


def damaged(env, checks, collector, truth):
    run = replay(env, checks, collector, "damaged", TRACE, "--recorder", "64MiB")
    segment, = (run.spool / "recorder/replay").glob("*.seg")
    data = bytearray(segment.read_bytes())
    middle = len(data) // 2
    data[middle:middle + 16] = bytes(b ^ 0xff for b in data[middle:middle + 16])
    segment.write_bytes(data)
    path, said = export(env, run)
    found = Recorded(path)
    row, = listed(env, run)
    lost = run.summary["events"] - found.total
    checks.that(0 < lost <= 400 and row["bad_bytes"] > 0, f"damaged: {lost} events lost, {row}")
    checks.equal((len(row["gaps"]), said["missing_batches"], found.gone), (1, row["gaps"][0]["batches"], said["missing_batches"]), "damaged: the gap")
    got = shown(env, path)
    checks.equal((len(got), (collections.Counter(truth) - collections.Counter(got)).total()), (found.total, lost), "damaged: records")
    again = replay(env, checks, collector, "damaged", SMALL, "--recorder", "64MiB")  # reads no file that was closed
    checks.equal(again.ledger.get("spool_bad_bytes", 0), 0, "damaged: the next run")
    checks.equal(Recorded(export(env, again, name="both")[0]).total, found.total + traces.event_count(SMALL), "damaged: both runs")


def refusals(env, checks, collector):
    done = env.run(env.replay_command(traces.paths(SMALL, env.build), collector, agent="refused", spool=env.folder / "none",
                                      extra=["--recorder", "1MiB"]), check=False)
    checks.that(done.returncode == 2 and "needs --live" in done.stderr, f"without --live: {done}")
    done = env.run([env.agent, "recorder", "list", "--spool", env.folder / "none"])
    checks.equal(done.stdout, "there is no recorder\n", "no recorder")
    done = env.run([env.agent, "recorder", "export", "--spool", env.folder / "none", "-o", env.folder / "none.etwb"], check=False)
    checks.that(done.returncode == 1 and "there is no recorder" in done.stderr, f"no recorder: {done}")


def test(env, checks, arguments):
    env.make_certificates(("whole", "ring", "sealed", "killed", "disk", "full", "damaged", "refused", "stateless"))
    collector = env.new_collector().start()
    truth = dumped(env, TRACE)
    cases = [(whole, truth), (full_ring, truth), (encrypted,), (killed, truth), (full_disk,), (full_for_good,), (damaged, truth), (refusals,),
             (kept_without_keyframes,)]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in [pool.submit(case, env, checks, collector, *more) for case, *more in cases]:
            done.result()
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
