#!/usr/bin/env python3
"""Writes the seeds of fuzz_ingest into tests/fuzz/corpus/ingest: uploads of the seeds of fuzz_batch. To be run after those were changed;
test_wire_differential.py fails when their batches cannot be read. And into tests/fuzz/corpus/upload the seeds refused_NAME of fuzz_upload: answers
and bodies that break one rule each.

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
UPLOADS = ROOT / "tests" / "fuzz" / "corpus" / "upload"
MOST_BYTES = 20000


def answers():
    """{what is wrong about an answer to an upload: the answer}"""
    stream = uploads._bytes(1, b"stream of 16 byte")[:2] + b"stream of 16 byt"
    return {"refusal_of_none": stream + uploads._bytes(3, uploads._number(2, 1)),
            "no_message": stream + b"\x12\x7f",
            "short_hash": stream + uploads._bytes(8, bytes(15)),
            "long_stream": uploads._bytes(1, bytes(17)),
            "no_range": stream + uploads._bytes(2, uploads._number(1, 7) + uploads._number(2, 3)),
            "two_streams": stream + stream,
            "many_ranges": stream + uploads._bytes(2, b"") * 65537}


def numbered(data, number):
    draft = test_wire_python.Draft(data)
    draft.batch.stream, draft.batch.number = b"seeds of uploads", number
    return draft.bytes()


def main():
    batches = {path.name: path.read_bytes() for path in sorted(BATCHES.iterdir()) if not path.name.startswith(("wrong-", "rare-"))}
    found = {name: [data] for name, data in batches.items() if len(data) < MOST_BYTES}
    small = [data for name, data in batches.items() if len(data) < 2000 and name not in ("long-payload", "tombstone")]
    found["several"] = [numbered(data, number) for number, data in enumerate(small, 1)]
    found["one-number-twice"] = [numbered(data, 1) for data in small[:2]]
    found["number-beyond-all"] = [numbered(small[0], 2**64 - 1)]
    for path in OUT.iterdir():
        path.unlink()
    for name, parts in found.items():
        (OUT / name).write_bytes(uploads.body(parts))
    wrong = {"refused_" + name: b"\0" + data for name, data in answers().items()}
    wrong["refused_body_head"] = b"\1" + uploads.body([small[0]]) + b"\5\0\0"
    for path in UPLOADS.glob("refused_*"):
        path.unlink()
    for name, data in wrong.items():
        (UPLOADS / name).write_bytes(data)
    print(f"{len(found)} seeds in {OUT}, {len(wrong)} in {UPLOADS}")
    return 0 if len(found["several"]) > 2 else 1


if __name__ == "__main__":
    sys.exit(main())
