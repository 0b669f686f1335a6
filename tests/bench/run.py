#!/usr/bin/env python3
"""make bench: what reading and batches cost, each beside a reference measured in the same run.

Builds the release preset. The programs run in turn, N times, on one core; each figure is the median of the runs, and a ratio
is the median of the ratios of runs that stood side by side: on a shared machine a ratio holds and a figure drifts.
Prints a table, and writes the same as JSON to build/bench.json.

usage: tests/bench/run.py [--runs N] [--build DIR] [TRACE NAME...]
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests"))
import traces  # noqa: E402

HOT_GOAL_NS = 60
TRACES = ["clr-kernel-win8-x64", "tracelogging-win11-20cpu"]

# what, our figure (ns an event), the reference (ns an event), its name, our bytes an event, the reference's
ROWS = [
    ("bare walk of the buffers", lambda r: r["reference"]["walk_ns"], None, "", None, None),
    ("decompress + zstd -1 of raw buffers", lambda r: r["reference"]["zstd_ns"], None, "", lambda r: r["reference"]["zstd_bytes"], None),
    ("read + merge", lambda r: r["plain"]["read_ns"], lambda r: r["reference"]["walk_ns"], "bare walk", None, None),
    ("read + merge + columns, not compressed", lambda r: r["plain"]["read_add_ns"] + r["plain"]["encode_ns"],
     lambda r: r["reference"]["walk_ns"], "bare walk", lambda r: r["plain"]["bytes_per_event"], None),
    ("whole batches", lambda r: r["packed"]["read_add_ns"] + r["packed"]["encode_ns"], lambda r: r["reference"]["zstd_ns"],
     "zstd -1 of raw", lambda r: r["packed"]["bytes_per_event"], lambda r: r["reference"]["zstd_bytes"]),
    ("decode every record of the batches", lambda r: r["packed"]["open_ns"] + r["packed"]["decode_ns"], lambda r: r["reference"]["walk_ns"],
     "bare walk", None, None),
]


def on_one_core():
    return ["taskset", "-c", "0"] if shutil.which("taskset") else []


def measure(program, arguments):
    done = subprocess.run([*on_one_core(), program, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def bench(build, name, runs):
    """Runs side by side, and the rows of the table."""
    paths = [str(p) for p in traces.paths(name, build)]
    programs = build / "tests" / "bench"
    series = []
    for _ in range(runs + 1):
        series.append({"reference": measure(programs / "reference", ["measure", *paths]),
                       "plain": measure(programs / "batches", ["--level", "none", *paths]),
                       "packed": measure(programs / "batches", paths)})
    series = series[1:]  # the first one warmed the page cache
    expected = traces.event_count(name)
    for program, figures in series[0].items():
        if figures["events"] != expected:
            raise SystemExit(f"FAILED: {program} saw {figures['events']} events in {name}, there are {expected}")
    rows = []
    for what, ours, reference, reference_name, our_bytes, reference_bytes in ROWS:
        ns = statistics.median(ours(r) for r in series)
        row = {"what": what, "ns_per_event": round(ns, 2), "million_events_per_s": round(1000 / ns, 2)}
        if reference:
            row["reference"] = reference_name
            row["speed_ratio"] = round(statistics.median(reference(r) / ours(r) for r in series), 3)
        if our_bytes:
            row["bytes_per_event"] = round(statistics.median(our_bytes(r) for r in series), 2)
        if reference_bytes:
            row["size_ratio"] = round(statistics.median(our_bytes(r) / reference_bytes(r) for r in series), 3)
        rows.append(row)
    return rows


def show(name, rows, runs):
    print(f"\n{name}, medians of {runs} runs on one core")
    print(f"{'':40} {'ns/event':>9} {'M events/s':>11} {'B/event':>8}  speed beside (size beside)")
    for row in rows:
        beside = f"{row['speed_ratio']:.2f} x {row['reference']}" if "reference" in row else ""
        if "size_ratio" in row:
            beside += f" ({row['size_ratio']:.2f} x)"
        size = f"{row['bytes_per_event']:8.2f}" if "bytes_per_event" in row else " " * 8
        print(f"{row['what']:40} {row['ns_per_event']:9.1f} {row['million_events_per_s']:11.2f} {size}  {beside}")


def hot_classes(build, runs):
    """One fixed kernel class into columns, everything hot, beside a copy of the same records."""
    series = [[json.loads(line) for line in subprocess.run(
        [*on_one_core(), build / "tests" / "bench" / "hot_class", "measure"], check=True, stdout=subprocess.PIPE,
        text=True).stdout.splitlines()] for _ in range(runs)]
    rows = []
    for same in zip(*series):
        row = {"what": same[0]["class"], "events": same[0]["events"]}
        for figure in ("add_ns", "encode_ns", "columns_ns", "copy_ns", "ratio", "bytes_per_event"):
            row[figure] = round(statistics.median(r[figure] for r in same), 2)
        rows.append(row)
    print(f"\none fixed kernel class into columns, tables hot, not compressed; goal: at most {HOT_GOAL_NS} ns an event")
    print(f"{'':24} {'callback':>9} {'columns':>9} {'in all':>9}  beside a copy of the records")
    for row in rows:
        met = "" if row["columns_ns"] <= HOT_GOAL_NS else "  GOAL NOT MET"
        print(f"{row['what']:24} {row['add_ns']:9.1f} {row['encode_ns']:9.1f} {row['columns_ns']:9.1f}  "
              f"{row['copy_ns']:.1f} ns, {row['ratio']:.1f} x{met}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--build", help="a build folder that is ready; else the release preset is built")
    parser.add_argument("traces", nargs="*", default=TRACES)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build or SOURCE / "build" / "release").resolve()
    if not arguments.build:
        jobs = os.environ.get("JOBS") or str(os.cpu_count() or 2)
        for command in (["cmake", "--preset", "release"],
                        ["cmake", "--build", "--preset", "release", "-j", jobs, "--target", "batches", "reference", "hot_class"]):
            subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    result = {}
    for name in arguments.traces:
        result[name] = bench(build, name, max(arguments.runs, 1))
        show(name, result[name], max(arguments.runs, 1))
    result["hot classes"] = hot_classes(build, max(arguments.runs, 1))
    out = build.parent / "bench.json"
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nas JSON: {out}")


if __name__ == "__main__":
    main()
