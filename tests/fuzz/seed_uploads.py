#!/usr/bin/env python3
"""Writes the seeds of fuzz_ingest into tests/fuzz/corpus/ingest: uploads of the seeds of fuzz_batch. To be run after those were changed;
test_wire_differential.py fails when their batches cannot be read.

usage: tests/fuzz/seed_uploads.py
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import test_wire_python  # noqa: E402
import uploads  # noqa: E402

BATCHES = ROOT / "tests" / "fuzz" / "corpus" / "batch"
OUT = ROOT / "tests" / "fuzz" / "corpus" / "ingest"
MOST_BYTES = 20000


def numbered(data, number):
    draft = test_wire_python.Draft(data)
    draft.batch.stream, draft.batch.number = b"seeds of uploads", number
    return draft.bytes()


def main():
    batches = {path.name: path.read_bytes() for path in sorted(BATCHES.iterdir()) if not path.name.startswith("wrong-")}
    found = {name: [data] for name, data in batches.items() if len(data) < MOST_BYTES}
    small = [data for name, data in batches.items() if len(data) < 2000 and name not in ("long-payload", "tombstone")]
    found["several"] = [numbered(data, number) for number, data in enumerate(small, 1)]
    found["one-number-twice"] = [numbered(data, 1) for data in small[:2]]
    found["number-beyond-all"] = [numbered(small[0], 2**64 - 1)]
    for path in OUT.iterdir():
        path.unlink()
    for name, parts in found.items():
        (OUT / name).write_bytes(uploads.body(parts))
    print(f"{len(found)} seeds in {OUT}")
    return 0 if len(found["several"]) > 2 else 1


if __name__ == "__main__":
    sys.exit(main())
