"""The archive: before retention deletes a segment, its events become Parquet files in a folder; DuckDB counts each event of the trace there once.
While the folder cannot be written, segments stay, and are archived when it can be again; a store that outgrows its size meanwhile deletes them,
and counts their events as missing in the archive.

usage: test_archive.py --build DIR [--soak] [--keep]
"""
import collections
import json

import foreign_readers
import harness
import test_delivery
import traces

WEB = ["--web", "127.0.0.1:0", "--segment-size", "64KiB", "--retain-interval", "50ms"]


def streams(collector):
    return collector.ask_json("hosts")["streams"]


def expired(collector):
    return sum(row["expired_events"] for row in streams(collector)), sum(row["events"] for row in streams(collector))


def feed(env, collector, paths, spool):
    env.replay(paths, collector, agent="one", spool=env.folder / spool, extra=["--batch-events", "500", "--request-bytes", "64KiB"])


def counted(collector):
    """Events that are archived, and that are missing there."""
    numbers = test_delivery.metrics(collector)
    return tuple(int(numbers[f"etwcollector_{name}_total"]) for name in ("archived_events", "archive_missed_events"))


def rows_of(env, folder):
    """Events of each class in the archive, as DuckDB counts them; and how many of them are there twice."""
    files = collections.defaultdict(list)
    for path in folder.rglob("*.parquet"):
        files[path.parent.name].append(str(path))
    found, twice = collections.Counter(), 0
    for answer in foreign_readers.answers(env, "duckdb_columns.mjs", list(files.values())) if files else []:
        names = [name for name, _ in answer["columns"]]
        at = [names.index(name) for name in ("stream", "batch", "position")]
        found[answer["rows"][0][names.index("class")]] += len(answer["rows"])
        twice += len(answer["rows"]) - len({tuple(row[i] for i in at) for row in answer["rows"]})
    return found, twice


def by_age(env, checks, paths, wanted):
    """Everything is archived once, then deleted; in the middle the folder cannot be written for a while."""
    folder = env.folder / "archive"
    collector = env.new_collector("age", [*WEB, "--retain-age", "2s", "--archive", str(folder)]).start()
    (folder / "segments").write_text("a file where a folder has to be")
    feed(env, collector, paths, "spool-age")
    harness.wait_until(lambda: "could not be archived, and is kept while there is room" in collector.log(), "a line of the log", 60, collector.log)
    checks.equal(counted(collector), (0, 0), "by age: nothing is counted while segments stay")
    gone, ever = expired(collector)
    checks.equal(gone, 0, "by age: events deleted while they cannot be archived")
    (folder / "segments").unlink()
    harness.wait_until(lambda: expired(collector)[0] == ever, "everything to be archived and deleted", 120, collector.log)
    checks.equal(counted(collector), (ever, 0), "by age: archived events, missing events")
    collector.stop()
    found, twice = rows_of(env, folder)
    checks.equal((found, twice), (wanted, 0), "by age: events of each class in the archive")
    marks = [json.loads(path.read_text())["events"] for path in (folder / "segments").glob("*.json")]
    checks.equal(sum(marks), ever, "by age: what the marks of the segments say")
    checks.equal([str(path) for path in folder.rglob(".*.partial")], [], "by age: temporary files")
    print(f"by age: {ever} events of {len(marks)} segments")
    other = env.new_collector("other", [*WEB, "--archive", str(folder)])
    try:
        other.start()
        checks.that(False, "the archive of another store is refused")
    except harness.Failure as failure:
        checks.that("is the archive of the store" in str(failure), f"the archive of another store: {failure}")


def pressed(env, checks, paths):
    """No archive, and a store that may not grow: what is deleted is counted."""
    folder = env.folder / "blocked"
    collector = env.new_collector("pressed", [*WEB, "--retain-size", "1MiB", "--archive", str(folder)]).start()
    (folder / "segments").write_text("a file where a folder has to be")
    feed(env, collector, paths, "spool-pressed")
    harness.wait_until(lambda: counted(collector)[1] > 0, "events that are missing in the archive to be counted", 60, collector.log)
    harness.wait_until(lambda: expired(collector)[0] == sum(counted(collector)), "what is deleted to be counted", 60, collector.log)
    checks.equal(counted(collector)[0], 0, "pressed: archived events")
    print(f"pressed: {counted(collector)[1]} events deleted that are in no archive")
    collector.stop()


def test(env, checks, arguments):
    name = next((name for name in ("clr-32bit",) if name in traces.names()), traces.names()[0])
    paths = traces.paths(name, env.build)
    env.make_certificates(("one",))
    env.run([env.collector, "ingest", *paths, "--store", env.folder / "whole"])
    done = env.run([env.collector, "query", "--store", env.folder / "whole", "--format", "jsonl", "--rows", 0,
                    "SELECT name, count(*) AS n FROM events GROUP BY name"])
    wanted = collections.Counter({row["name"] or "(unnamed)": row["n"] for row in map(json.loads, done.stdout.split("\n")[:-1])})
    by_age(env, checks, paths, wanted)
    pressed(env, checks, traces.paths("clr-kernel-win8-x64", env.build) if "clr-kernel-win8-x64" in traces.names() else paths)


if __name__ == "__main__":
    harness.main(test, __doc__)
