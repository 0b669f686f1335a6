#!/usr/bin/env python3
"""What an event takes in a store, by the size of batches: the same trace is sent with batches of three sizes to a collector each.

usage: tests/bench/batch_sizes.py --build BUILD [--sizes 20,200,16384] [--preset attack] [--duration-ms 5000]

Prints the table of docs/reference/sizing.md. tests/e2e/test_guides.py runs it with small numbers.
"""
import datetime
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402


def bytes_of(store, *patterns):
    return sum(path.stat().st_size for pattern in patterns for path in store.glob(pattern))


def measure(env, trace, size):
    """(events, batches, bytes of segments, of index.db, of state.db) after a collector has stored the trace, and has ended."""
    collector = env.new_collector(f"batches-of-{size}").start()
    env.replay([trace], collector, spool=env.folder / f"spool-{size}", extra=["--batch-events", size])
    rows = collector.ask("query", "--format", "csv", "SELECT sum(events), sum(batches) FROM hosts").split()[-1].split(",")
    collector.stop()
    return (*map(int, rows), bytes_of(collector.store, "segments/**/*.seg"), bytes_of(collector.store, "index.db*"), bytes_of(collector.store, "state.db*"))


def table(env, sizes, preset, milliseconds):
    """The lines of the table, and {size: bytes of an event in all}."""
    trace = env.folder / "trace.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", preset, "--duration-ms", milliseconds, "--out", trace])
    lines, total = ["| events a batch | events | batches | segments | index.db | state.db | all |", "|---|---|---|---|---|---|---|"], {}
    for size in sizes:
        events, batches, *parts = measure(env, trace, size)
        total[size] = sum(parts) / events
        lines.append(f"| {size:,} | {events:,} | {batches:,} | " + " | ".join(f"{part / events:.1f}" for part in (*parts, sum(parts))) + " |")
    return lines, total


def test(env, checks, arguments):
    env.make_certificates()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    lines, total = table(env, sizes, arguments.preset, arguments.duration_ms)
    print(f"{datetime.date.today()}, {len(os.sched_getaffinity(0))} processors; bytes an event\n" + "\n".join(lines))
    checks.that(total[min(sizes)] > total[max(sizes)] > 0, f"small batches take more: {total}")


if __name__ == "__main__":
    harness.main(test, __doc__, {"sizes": ("events in a batch, with commas", {"default": "20,200,16384"}), "preset": ("a scenario of tracegen", {"default": "attack"}),
                                 "duration-ms": ("length of the trace", {"default": 5000})})
