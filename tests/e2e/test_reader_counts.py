#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""The reader (tests/unit/reader_counts.c) against the naive one (tests/naive_etl.py): for every trace, every count and every header
field. Of real traces the number of events is the one in tests/traces.tsv, too.

    python3 tests/e2e/test_reader_counts.py --build BUILD
"""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import naive_etl
import traces


def words(table):
    """{("guid", opcode, version): n} with the keys that the reader prints: "guid/opcode vVERSION"."""
    return {f"{kind}/{opcode} v{version}": n for (kind, opcode, version), n in table.items()}


def compare(file, ours, theirs):
    """Every difference, as text."""
    wrong = []

    def same(what, a, b):
        if a != b:
            wrong.append(f"{file}: {what}: the reader says {a!r}, the naive one {b!r}")

    for key in ("events", "size", "os", "build", "cpus", "ptr", "mode", "buffers_written", "buffers", "events_lost", "buffers_lost", "mhz", "perf_freq",
                "clock", "tz_bias", "buffer_size", "start", "end", "compression", "pmc", "pebs", "messages", "providers"):
        same(key, ours[key], theirs[key])
    names = [name for name in (ours["session_name"], ours["log_file_name"]) if name]
    same("names", names, theirs["names"][: len(names)] if names else theirs["names"])
    same("headers", ours["headers"], {str(k): n for k, n in theirs["headers"].items()})
    same("kernel events", ours["kernel"], words(theirs["kernel"]))
    same("classic events", ours["classic"], words(theirs["classic"]))
    same("extended items", ours["ext"], {str(k): n for k, n in theirs["ext"].items()})
    same("event flags", ours["evflags"], {f"0x{k:04X}": n for k, n in theirs["evflags"].items()})
    same("channel 11", ours["channels"].get("11", 0), theirs["channel11"])
    seen = sorted(int(c) for c in ours["cpus_seen"])
    if not set(seen) <= set(theirs["cpu_index_seen"]):
        wrong.append(f"{file}: CPUs {seen} are not among {theirs['cpu_index_seen']}")
    for what in ("disorder", "late", "bad_records", "bad_buffers"):
        same(what, ours[what], 0)
    same("bad records and warnings", [], theirs["bad"] + theirs["warnings"])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    build = pathlib.Path(parser.parse_args().build)
    program = build / "tests" / "unit" / "reader_counts"
    wrong, count = [], 0
    for name in traces.names():
        paths = traces.paths(name, build)
        output = subprocess.run([program, *paths], stdout=subprocess.PIPE, check=True, timeout=300).stdout
        rows = [json.loads(line) for line in output.splitlines()]
        theirs = [naive_etl.parse(path) for path in paths]
        for path, ours, other in zip(paths, rows, theirs, strict=True):
            wrong += compare(f"{name}/{path.name}", ours, other)
            count += 1
        if sum(row["events"] for row in theirs) != traces.event_count(name):
            wrong.append(f"{name}: the naive reader counts {sum(row['events'] for row in theirs)} events, expected {traces.event_count(name)}")
    for line in wrong:
        print(f"FAILED: {line}")
    print(f"{count} files compared\n{count - min(count, len(wrong))} passed, {len(wrong)} failed")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
