#!/usr/bin/env python3
"""Writes the seeds of fuzz_batch that seed_batch does not make into tests/fuzz/corpus/batch: real events in forms that the agent never writes
(test_wire_forms.py), a batch with a context, one with a zstd dictionary, a list whose lengths are rows of a shared dictionary, a constant payload that is
a lot of work for the columns that are cut from it.

usage: tests/fuzz/seed_forms.py --build build/dev
"""
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import format_notation  # noqa: E402
import format_reader  # noqa: E402
import harness  # noqa: E402
import test_bounds  # noqa: E402
import test_wire_forms  # noqa: E402
import test_wire_python  # noqa: E402
import wire_lies  # noqa: E402

OUT = ROOT / "tests" / "fuzz" / "corpus" / "batch"
MOST_BYTES = 8000
FORMS = 12


def shared_lengths(data):
    """Two payloads "aaa" and "aa" for turns of the events: their lengths are rows of 4 bytes of a shared dictionary."""
    draft = test_wire_python.Draft(data)
    wire_lies.lengths_of_shared(3, 5)(draft)
    n = draft.batch.event_count
    draft.d.dictionaries[0].values.width = 4
    draft.batch.frames[0].data = bytes(i % 2 for i in range(n))
    draft.batch.frames[1].data = (3).to_bytes(4, "little") + (2).to_bytes(4, "little")
    assert test_wire_python.sealed(draft)
    return draft.bytes()


def constant_payload():
    """4,096 events with one payload of 65,534 bytes, a string: small, and 256 MiB to go through to cut the string from each."""
    n = 4096
    group = wire_lies.message("Group", class_hash=test_bounds.hash_of(test_bounds.ONE_TEXT), count=n, payload=wire_lies.column(constant=b"x" * 65534))
    batch = format_notation.parse(test_bounds.batch_of([group], n, descriptions=[test_bounds.ONE_TEXT]), "Batch")
    batch.directory_bytes, batch.directory = len(batch.directory), test_wire_python.compressed(batch.directory)
    return test_wire_python.encode(batch, "Batch")


def test(env, checks, arguments):
    env.make_certificates()
    small = test_wire_python.captured(env, "clr-gc-events", ["--batch-events", 20])[0]
    found = {"context": small, "dictionary": test_wire_python.with_dictionary(small, b"dictionary here.")}
    whole = test_wire_python.captured(env, "kernel-process-provider", ["--batch-events", 200])[0]
    found["shared-lengths"] = shared_lengths(whole)
    forms = []
    for form in range(400):
        batch = test_wire_forms.whole(small, format_reader.Definitions())
        forms.append(test_wire_forms.formed(random.Random(form), batch, set())[0])
    fitting = [data for data in forms if len(data) < MOST_BYTES]
    found.update({f"form{k}": data for k, data in enumerate(fitting[:FORMS])})
    for name, data in found.items():
        broken = test_wire_python.judged(data)
        checks.that(broken is None, f"{name}: {broken}")
        (OUT / name).write_bytes(data)
    (OUT / "constant-payload").write_bytes(constant_payload())  # its records are more than a batch may hold: it is refused
    checks.equal(len(found), 3 + FORMS, "seeds")


if __name__ == "__main__":
    harness.main(test, __doc__.splitlines()[0])
