"""A field of one record is altered in the store, one field at a time, and all data about it is made consistent again: the hashes of
the segment, the batch's envelope, the index. With the batch's original checksum, no collector accepts the batch, and `export --verify`
names the batch when another program wrote it to the store directly. With a new checksum, the comparison that test_identity.py makes
(`dump --raw` of the trace against `export --raw` of the store) finds the record.

# sanitizers: asan-ubsan
"""
import json
import itertools

import harness
import test_identity
import traces

TRACES = ("amsi-eventslost", "clr-32bit")   # together: two sources, two header forms, extended items
BATCH_EVENTS = 400
HOST = "machine-a"
# the design's list of a record's identity, and what only a file knows
FIELDS = ["provider", "id", "version", "channel", "level", "opcode", "task", "keyword", "time", "pid", "tid", "cpu", "logger",
          "flags", "property", "kernel-time", "user-time", "activity-id", "pointer-size", "item-type", "item-linkage",
          "item-data", "item-lost", "payload", "payload-cut", "header-type", "hook-id", "header-word", "source"]


def export(env, store, *options):
    return [env.collector, "export", "--store", store, "--host", HOST, "--format", "jsonl", "--raw", *options]


def test(env, checks, arguments):
    env.make_certificates(agents=[HOST])
    collector = env.new_collector().start()
    paths = [path for name in TRACES for path in traces.paths(name, env.build)]
    env.replay(paths, collector, agent=HOST, extra=["--batch-events", str(BATCH_EVENTS)])
    collector.stop()
    dump = [env.agent, "dump", "--format", "jsonl", "--raw", *paths]
    dumped, original = env.run(dump).stdout.splitlines(), test_identity.digest(dump)
    checks.equal(len(dumped), sum(traces.event_count(name) for name in TRACES), "events in the dump")
    checks.equal(test_identity.digest(export(env, collector.store, "--verify")), original, "the store as it was")

    program = env.build / "tests" / "e2e" / "alter_store"
    for seed in range(1, 9 if arguments.soak else 2):
        folder = env.folder / f"altered-{seed}"
        folder.mkdir()
        rows = [json.loads(line) for line in
                env.run([program, "copy", "--seed", str(seed), collector.store, folder]).stdout.splitlines()]
        checks.equal(sorted((row["field"], row["checksum"]) for row in rows),
                     sorted([("none", "made"), *itertools.product(FIELDS, ("kept", "made"))]), "the copies that were made")
        for row in rows:
            judge(env, checks, row, dumped, original, f"seed {seed}, {row['field']}, checksum {row['checksum']}")


def judge(env, checks, row, dumped, original, what):
    verified = env.run(export(env, row["store"], "--verify"), check=False)
    if row["field"] == "none":
        checks.equal((verified.returncode, verified.stderr), (0, ""), f"{what}: export --verify")
        checks.equal(test_identity.digest(export(env, row["store"])), original, f"{what}: the comparison")
        return
    if row["checksum"] == "kept":
        checks.equal(verified.returncode, 3, f"{what}: exit code of export --verify")
        checks.that(f"batch {row['batch']}:" in verified.stderr and "checksum" in verified.stderr,
                    f"{what}: export --verify does not name batch {row['batch']}: {verified.stderr}")
    else:
        checks.equal((verified.returncode, verified.stderr), (0, ""), f"{what}: export --verify")
    # without --verify everything is printed, and differs from the dump in the one record
    checks.that(test_identity.digest(export(env, row["store"])) != original, f"{what}: the comparison saw no difference")
    lines = env.run(export(env, row["store"])).stdout.splitlines()
    differ = [i for i, (a, b) in enumerate(itertools.zip_longest(dumped, lines)) if a != b]
    checks.equal(differ, [row["event"]], f"{what}: records that differ")


if __name__ == "__main__":
    harness.main(test, __doc__)
