"""Batches read back by the Python reader that was written from FORMAT.md alone: every record's checksum agrees.

The program `batches` writes batches of real traces and has compared each record with the source's bit for bit; the
checksum in a batch is made from the source's records, so a reader that gets any bit of any record wrong fails here.
"""
import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import traces  # noqa: E402
import wire_reader  # noqa: E402

# name, events a batch: between them every encoding, stacks, 32-bit records, TraceLogging items, several files
CASES = [("small-32bit-xpress", 0), ("tracelogging-struct", 0), ("tracelogging-primitive-types", 0), ("amsi-eventslost", 5),
         ("lxcore-tracelogging", 0), ("clr-gc-events", 0), ("http-server-win7", 0), ("clr-32bit", 0), ("shutdown-win10", 0),
         ("kernel-process-provider", 20)]
LIMIT_BATCHES = 40


def describe(data):
    """A description's hash, and what the headers' prediction needs of it (DESCRIPTIONS.md, "Layout")."""
    if data[0] != 1:
        raise wire_reader.Corrupt("a description of another format")
    code, at = wire_reader.varint(data, 6)
    return hashlib.sha256(data).digest()[:16], wire_reader.ClassKey(
        provider=data[at:at + 16], code=code, version=data[5], classic=data[3] & 1, pointer_size=data[4])


def check(name, events, program, build):
    failures, classes, total = 0, {}, 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--check", "--events", str(events), "--out", folder, *traces.paths(name, build)], check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(pathlib.Path(folder).glob("*.batch"))
        for file in files[:LIMIT_BATCHES]:
            batch = wire_reader.Batch(file.read_bytes(), classes, describe)
            records = list(batch.records())
            total += len(records)
            if len(records) != batch.event_count:
                print(f"FAILED {name}: {file.name}: {len(records)} records, {batch.event_count} were said")
                failures += 1
            got = wire_reader.checksum(records)
            if got != batch.checksum:
                print(f"FAILED {name}: {file.name}: checksum {got:016x}, the batch says {batch.checksum:016x}")
                failures += 1
            times = [r["time"] for r in records]
            if batch.time_min != min(times) or batch.time_max != max(times):
                print(f"FAILED {name}: {file.name}: times {min(times)}..{max(times)}, the batch says "
                      f"{batch.time_min}..{batch.time_max}")
                failures += 1
        if len(files) <= LIMIT_BATCHES and total != traces.event_count(name):
            print(f"FAILED {name}: {total} records, the independent parser counts {traces.event_count(name)}")
            failures += 1
    print(f"{name}: {total} records in {min(len(files), LIMIT_BATCHES)} batches")
    return failures


def flipped(program, build):
    """A reader that notices nothing proves nothing: one changed byte of a payload must change the checksum."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--level", "none", "--out", folder, *traces.paths("tracelogging-primitive-types", build)],
                       check=True, stdout=subprocess.DEVNULL)
        batch = wire_reader.Batch(next(pathlib.Path(folder).glob("*.batch")).read_bytes(), {}, describe)
        records = list(batch.records())
        payload = bytearray(records[0]["payload"])
        payload[-1] ^= 1
        records[0]["payload"] = bytes(payload)
        return wire_reader.checksum(records) == batch.checksum


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    build = parser.parse_args().build
    program = build / "tests" / "bench" / "batches"
    failures = sum(check(name, events, program, build) for name, events in CASES)
    if flipped(program, build):
        print("FAILED: a changed payload has the same checksum")
        failures += 1
    print(f"{len(CASES) + 1 - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
