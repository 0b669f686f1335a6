"""Keyframes: a state that lost events is correct again after the next keyframe.

- A replay with keyframes stores the same events as a replay without. Keyframes do not change a complete state: they find no
  difference, and the tables are the same.
- 1 % of the batches that hold events of the state are dropped on purpose: the state differs, and the following keyframes report the
  differences. After the last keyframe the open rows equal those of the complete state. Rows that were only in lost events
  (processes that began and ended between two keyframes) stay lost.
- A collector that gets the stream from the middle on is correct after one keyframe; so is the state that `export --where` reads.
- The same replay makes the same batches.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 18
import json
import random
import sqlite3

import harness
import test_ledger
import traces
import uploads

TRACES = ["shutdown-win10", "clr-kernel-win8-x64"]
FOREVER = (1 << 63) - 1
SHARE = 0.01
DRAWS = 4
OPEN = {
    "processes": "pid, parent_pid, session_id, unique_key, directory_table_base, flags, image_name, command_line, sid, package,"
                 " application, mandatory_label, elevation_type, elevated, logon_id, begin_utc_ns, begin_cause",
    "threads": "tid, pid, cpu, stack_base, start_address, win32_start_address, teb, name, begin_utc_ns, begin_cause",
    "modules": "pid, base, size_bytes, default_base, checksum, timestamp, path, pdb_guid, pdb_age, pdb_path, original_name,"
               " file_bytes, sha256, file_version, company, product, description, md5, sha1, imphash, kind, begin_utc_ns, begin_cause",
}


def alive(collector, agent, end):
    """The rows that are open at the end: {(table, columns...)}. A begin time without an event is only a bound, so it is left out."""
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)
    db.text_factory = bytes
    rows = set()
    for table, columns in OPEN.items():
        for row in db.execute(f"SELECT {columns} FROM {table} JOIN streams s USING(stream) WHERE s.host = ? AND"
                              f" {table}.begin_utc_ns <= ? AND {table}.end_utc_ns > ?".replace(
                                  " begin_utc_ns, begin_cause FROM", f" {table}.begin_utc_ns, begin_cause FROM"), (agent, end, end)):
            rows.add((table, *row[:-2], row[-2] if row[-1] == 0 else None, row[-1]))
    db.close()
    return rows


def lives(collector, agent):
    """Every instance with its whole interval."""
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)
    db.text_factory = bytes
    rows = sorted((table, *row) for table in OPEN for row in db.execute(
        f"SELECT t.* FROM {table} t JOIN streams s USING(stream) WHERE s.host = ? ORDER BY t.instance", (agent,)))
    db.close()
    return [(row[0], *row[2:]) for row in rows]  # without the stream's number, which is another in each database


def compared(stream):
    return [a for a in stream["alerts"] if a["kind"] == "keyframe"]


def folded(env, checks, name, agent, batches):
    """A collector with those batches of the agent, stopped, its history made; and the ledger's view of the stream."""
    collector = env.new_collector(name).start()
    test_ledger.upload(env, collector, agent, batches)
    collector.stop()
    done = env.run([env.collector, "ledger", "--store", collector.store, "--host", agent, "--json"], check=False)
    checks.that(done.returncode in (0, 3), f"{name}: ledger ended with {done.returncode}: {done.stderr[-500:]}")
    stream, = json.loads(done.stdout)["streams"]
    return collector, stream


def run(env, checks, trace, dice):
    agent = f"machine-{trace}"
    total = traces.event_count(trace)
    every = max(2000, total // 12)
    spare = ["--keyframe-events", every]
    batches = test_ledger.captured(env, trace, agent, spare)
    heads = [uploads.Head(batch) for batch in batches]
    keyframes = [i for i, head in enumerate(heads) if head.kind == 2]
    checks.that(len(keyframes) >= 5, f"{trace}: only {len(keyframes)} batches of keyframes")
    checks.equal(sum(h.event_count for h in heads if h.kind == 0), total, f"{trace}: events in batches of events")

    # the same again, from another run: the same records in the same batches
    (env.folder / f"spool-{agent}").rename(env.folder / f"spool-{agent}-1")
    again = [uploads.Head(batch) for batch in test_ledger.captured(env, trace, agent, spare)]
    checks.equal([(h.stream, h.number, h.kind, h.event_count) for h in again],
                 [(h.stream, h.number, h.kind, h.event_count) for h in heads], f"{trace}: the batches of a second run")
    checksum = lambda batch: [v for n, v in uploads.fields(batch) if n == 6]  # noqa: E731
    checks.that(all(checksum(batch) for batch in batches if uploads.Head(batch).event_count), f"{trace}: a batch without a checksum")

    whole, stream = folded(env, checks, f"whole-{trace}", agent, batches)
    checks.equal(compared(stream), [], f"{trace}: differences in a state that lacks nothing")
    checks.equal([e["name"] for e in stream["equations"] if e["holds"]], ["delivered", "batched", "stored"], f"{trace}: equations")
    checks.equal(test_ledger.counters(stream)["events_synthesised"], sum(heads[i].event_count for i in keyframes),
                 f"{trace}: events of keyframes in the ledger")
    plain = env.new_collector(f"plain-{trace}").start()
    env.replay(traces.paths(trace, env.build), plain, agent=agent, spool=env.folder / f"spool-plain-{trace}")
    plain.stop()
    plain.ask("ledger")
    checks.that(lives(plain, agent) == lives(whole, agent), f"{trace}: keyframes changed the tables")
    checks.that(whole.ask("export", "--host", agent) == plain.ask("export", "--host", agent),
                f"{trace}: export differs without --keyframes")
    made = whole.ask("export", "--host", agent, "--keyframes").count("Keyframe/")
    checks.equal(made, sum(heads[i].event_count for i in keyframes), f"{trace}: records of keyframes in export --keyframes")

    end = last_keyframe_time(whole, agent, heads[keyframes[-1]].number)
    candidates = [i for i, head in enumerate(heads) if head.kind == 0 and i < keyframes[-2]]
    last_of = [i for i in keyframes if i + 1 not in keyframes]  # a keyframe may take several batches
    differing = 0
    for draw in range(DRAWS):
        gone = set(dice.sample(candidates, max(3, int(SHARE * len(candidates)))))
        lossy, stream = folded(env, checks, f"lossy-{draw}-{trace}", agent, [b for i, b in enumerate(batches) if i not in gone])
        found = compared(stream)
        differing += sum(a["left"] + a["right"] for a in found)
        healing = {heads[min(k for k in last_of if k > i)].number for i in gone}
        checks.that({a["batch"] for a in found} <= healing,
                    f"{trace}: differences at {[a['batch'] for a in found]}, expected them at the next keyframes only, {healing}")
        missing = alive(whole, agent, end) ^ alive(lossy, agent, end)
        checks.equal(len(missing), 0, f"{trace}: rows that differ after the last keyframe, {gone} gone: {list(missing)[:2]}")
        checks.equal(sum(b["batches"] for b in stream["gaps"]), len(gone), f"{trace}: batches missed")
        checks.equal(sum(b["events"] for b in stream["gaps"]), sum(heads[i].event_count for i in gone),
                     f"{trace}: events missed")
    checks.that(differing > 0, f"{trace}: nothing of what was thrown away was missed by a keyframe")
    print(f"{trace}: {len(batches)} batches, {len(keyframes)} of keyframes; {DRAWS} times {len(gone)} thrown away: keyframes "
          f"found {differing} differences")

    # without a rundown the first keyframe reports every open row
    first = keyframes[0]
    blind, stream = folded(env, checks, f"blind-{trace}", agent, batches[len(batches) // 3:])
    joined = compared(stream)
    checks.that(joined and joined[0]["left"] > 50, f"{trace}: what the first keyframe adds when joining in the middle: {joined[:1]}")
    checks.equal(len(joined), 1, f"{trace}: keyframes that differ after that one: {[a['text'] for a in joined[1:]]}")
    # what the rundown at the begin named is known from a keyframe, or from the rundown at the end: the cause of its bound differs
    bounded = lambda rows: {(*row[:-1], row[-1] == 0) for row in rows}  # noqa: E731
    missing = bounded(alive(whole, agent, end)) ^ bounded(alive(blind, agent, end))
    checks.equal(len(missing), 0, f"{trace}: rows that differ when joining in the middle: {list(missing)[:2]}")
    stated = [json.loads(row)["clock"] for row in blind.ask("export", "--host", agent, "--format", "jsonl", "--keyframes").splitlines() if '"Keyframe/' in row]
    names, found = (named_later(c, agent, sorted(stated)[len(stated) // 2]) for c in (whole, blind))
    checks.that(len(names) > 100 and len(names - found) * 50 < len(names), f"{trace}: export --where finds {len(found)} of {len(names)} events by a process's name")
    # and without any keyframe the same loss stays
    never = [b for i, b in enumerate(batches) if heads[i].kind == 0 and i >= first]
    without, _ = folded(env, checks, f"without-{trace}", agent, never)
    missing = alive(whole, agent, end) ^ alive(without, agent, end)
    checks.that(len(missing) > 50, f"{trace}: the same without keyframes differs in {len(missing)} rows only")


def named_later(collector, agent, after):
    """Events after a time whose process has a name, by export --where: {(clock, CPU, name)}."""
    return {(row["clock"], row["cpu"], row["name"]) for row in
            map(json.loads, collector.ask("export", "--host", agent, "--format", "jsonl", "--where", 'execname =~ "*.*"').splitlines()) if row["clock"] > after}


def last_keyframe_time(collector, agent, number):
    db = sqlite3.connect(f"file:{collector.store}/state.db?mode=ro", uri=True)
    (end,), = db.execute("SELECT b.end_utc_ns FROM ledger_batches b JOIN streams s USING(stream) WHERE host = ? AND number = ?",
                         (agent, number))
    db.close()
    return end


def test(env, checks, _):
    env.make_certificates([f"machine-{trace}" for trace in TRACES])
    dice = random.Random(4)
    for trace in TRACES:
        run(env, checks, trace, dice)


if __name__ == "__main__":
    harness.main(test, __doc__)
