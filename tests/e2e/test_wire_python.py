"""Batches read back by the Python reader that was written from FORMAT.md alone: every record's checksum agrees.

The program `batches` writes batches of real traces and has compared each record with the source's bit for bit; the
checksum in a batch is made from the source's records, so a reader that gets any bit of any record wrong fails here.

# sanitizers: yes
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
import harness  # noqa: E402
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


def check(name, events, program, build, checks):
    classes, total, definitions = {}, 0, wire_reader.Definitions()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--check", "--events", str(events), "--out", folder, *traces.paths(name, build)], check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(pathlib.Path(folder).glob("*.batch"))
        for file in files[:LIMIT_BATCHES]:
            batch = wire_reader.Batch(file.read_bytes(), classes, describe, definitions)
            records = list(batch.records())
            times = [r["time"] for r in records]
            total += len(records)
            what = f"{name}: {file.name}"
            checks.equal(len(records), batch.event_count, f"{what}: number of records")
            checks.equal(f"{wire_reader.checksum(records):016x}", f"{batch.checksum:016x}", f"{what}: checksum")
            checks.equal((min(times), max(times)), (batch.time_min, batch.time_max), f"{what}: times")
    if len(files) <= LIMIT_BATCHES:
        checks.equal(total, traces.event_count(name), f"{name}: records, against the independent parser's count")


def flipped(program, build, checks):
    """A reader that notices nothing proves nothing: one changed bit of a record must change the checksum."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--level", "none", "--out", folder, *traces.paths("tracelogging-primitive-types", build)],
                       check=True, stdout=subprocess.DEVNULL)
        batch = wire_reader.Batch(next(pathlib.Path(folder).glob("*.batch")).read_bytes(), {}, describe)
    records = list(batch.records())
    for name, value in list(records[-1].items()):
        changed = dict(records[-1])
        if isinstance(value, int):
            changed[name] = value ^ 1
        elif isinstance(value, bytes):
            changed[name] = value[:-1] + bytes([value[-1] ^ 1])
        else:
            changed[name] = [(t, linkage ^ 1, data) for t, linkage, data in value]
        checks.that(wire_reader.checksum(records[:-1] + [changed]) != batch.checksum, f"a changed {name} has the same checksum")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--soak", action="store_true", help="the same: there is no long form")
    build, checks = parser.parse_args().build, harness.Checks()
    program = build / "tests" / "bench" / "batches"
    for name, events in CASES:
        check(name, events, program, build, checks)
    flipped(program, build, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
