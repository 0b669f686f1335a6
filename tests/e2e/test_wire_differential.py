"""Two readers of batches agree: whatever the C reader (batch_records.c) accepts, the reader in Python (format_reader.py), which was written from the
text alone, accepts with the same records, and the other way round. Batches are changed at random, again and again: by the mutator of the fuzz
targets (tests/fuzz/batch_columns.c), which knows columns, and by the one of test_wire_python.py. A batch is read by itself, with what it holds.

# sanitizers: asan-ubsan
"""
import hashlib
import pathlib
import random
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import format_notation  # noqa: E402
import format_reader  # noqa: E402
import harness  # noqa: E402
import test_wire_python  # noqa: E402

SEEDS = harness.ROOT / "tests" / "fuzz" / "corpus" / "batch"
UPLOADS = harness.ROOT / "tests" / "fuzz" / "corpus" / "ingest"
WRONG_UPLOADS = {"long-payload", "number-beyond-all"}
RUNS, SOAK_SECONDS = 600, 1800
FOUND = harness.ROOT / "build" / "fuzz-findings" / "differential"
READ, MUTATE = 0, 1
POOL = 300     # changed batches that are changed again
EVENTS, SOAK_EVENTS = 3000, 30000  # the reader in Python takes 15 us for each
BYTES = 1 << 20  # of payloads and items that it is given
OWN = struct.Struct("<QQIIII16s16s17H")


class Reader:
    """The C reader, and the C mutator."""

    def __init__(self, env):
        self.process = subprocess.Popen([env.build / "tests" / "e2e" / "batch_records"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, what, argument, data):
        self.process.stdin.write(struct.pack("<III", what, argument, len(data)) + data)
        self.process.stdin.flush()
        head = self.process.stdout.read(8)
        if len(head) < 8:
            self.process.stdin.close()
            raise harness.Failure(f"the C reader ended with {self.process.wait()}; its input: {data[:4096].hex()}")
        code, size = struct.unpack("<II", head)
        return code, self.process.stdout.read(size)

    def read(self, data):
        """(None, records), or (the error's number, its sentence)"""
        code, answer = self.ask(READ, 0, data)
        return (code, answer.decode()) if code else (None, answer)

    def mutate(self, data, seed):
        return self.ask(MUTATE, seed, data)[1]

    def stop(self):
        self.process.stdin.close()
        return self.process.wait()


def as_bytes(batch):
    """What batch_records.c prints of a batch."""
    out = []
    for r in batch.records():
        out.append(OWN.pack(r["time_raw"] & format_notation.MASK64, r["keyword"], r["pid"], r["tid"], r["kernel_time"], r["user_time"], r["activity_id"],
                            r["provider"], r["cpu"], r["source"], r["id"], r["task"], r["logger"], r["flags"], r["property"], r["hook_id"],
                            r["header_word"], r["version"], r["channel"], r["level"], r["opcode"], r["pointer_size"], r["header_type"],
                            len(r["items"]), len(r["payload"])) + r["payload"])
        out += [struct.pack("<HHI", kind, linkage, len(data)) + data for kind, linkage, data in r["items"]]
    if batch.message.event_count:
        out += [struct.pack("<Q", number & format_notation.MASK64) for number in batch.sequence]
    return b"".join(out)


def read(data):
    """The same by the reader in Python: (None, records), or (the rule, its text)."""
    try:
        batch = format_reader.Batch(data)
        try:
            batch.verify()
        except format_notation.Broken as broken:
            if not broken.rule.startswith("fields of "):  # no reader has to look at that (wire_lies.KEPT)
                raise
        return None, as_bytes(batch)
    except format_notation.Broken as broken:
        return broken, str(broken)


def sizes(data):
    """(events, at least so many bytes of records) that a batch claims, before anything is read; it may claim anything."""
    try:
        message = format_notation.parse(data, "Batch")
    except format_notation.Broken:
        return 0, 0
    return message.event_count, len(data) + message.directory_bytes + sum(frame.raw_bytes for frame in message.frames)


def altered(data, rng):
    """The batch after the mutator in Python. Bytes that are no batch with events are returned unchanged."""
    if not sizes(data)[0]:
        return data
    try:
        draft = test_wire_python.Draft(data)
    except format_notation.Broken:
        return data
    test_wire_python.altered(draft, rng)
    changed = draft.bytes()
    try:
        draft.batch.checksum = format_reader.checksum(format_reader.Batch(changed).records())
    except format_notation.Broken:
        return changed
    return draft.bytes()


def saved(data):
    """Where the batch is, for the report of a difference."""
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return f" about {path}"


def compare(checks, reader, data, how):
    """Whether both read it."""
    code, records = reader.read(data)
    broken, own = read(data)
    if (code is None) != (broken is None):
        checks.that(False, f"{how}: the C reader says '{'good' if code is None else records}', the one in Python '{'good' if broken is None else own}'{saved(data)}")
    elif code is None:
        checks.that(records == own, f"{how}: other records{saved(data)}")
    return code is None and broken is None


def check_uploads(checks, reader):
    """The seeds of fuzz_ingest hold batches that can be read: seeds of an older format lead the fuzzer nowhere."""
    refused = set()
    for path in UPLOADS.iterdir():
        body, at = path.read_bytes(), 0
        while at < len(body):
            size, = struct.unpack_from("<I", body, at)
            code, _ = reader.read(body[at + 4:at + 4 + size])
            if code is not None:
                refused.add(path.name)
            at += 4 + size
    checks.equal(refused, WRONG_UPLOADS, "seeds of fuzz_ingest whose batches cannot be read")


def test(env, checks, arguments):
    reader = Reader(env)
    seeds = [path.read_bytes() for path in sorted(SEEDS.iterdir()) if not path.name.startswith("wrong-")]
    for path in sorted(SEEDS.iterdir()):
        compare(checks, reader, path.read_bytes(), f"seed {path.name}")
    check_uploads(checks, reader)
    begun = time.monotonic()
    chosen = random.SystemRandom().randrange(1 << 30) if arguments.soak else 1
    rng, pool, counts = random.Random(chosen), [], {"read": 0, "refused": 0, "too large": 0}
    run, most = 0, SOAK_EVENTS if arguments.soak else EVENTS
    print(f"seed {chosen}", flush=True)
    while time.monotonic() - begun < SOAK_SECONDS if arguments.soak else run < RUNS:
        run += 1
        data = rng.choice(pool) if pool and rng.randrange(3) else rng.choice(seeds)
        if rng.randrange(4):
            data, how = reader.mutate(data, rng.randrange(1 << 32)), "C"
        else:
            data, how = altered(data, rng), "Python"
        events, size = sizes(data)
        if events > most or size > BYTES:
            counts["too large"] += 1
            reader.read(data)  # for the sanitizers
            continue
        good = compare(checks, reader, data, f"seed {chosen}, run {run}, changed by the mutator in {how}")
        counts["read" if good else "refused"] += 1
        if good and len(data) < 20000:
            if len(pool) < POOL:
                pool.append(data)
            else:
                pool[rng.randrange(POOL)] = data
    print(f"{run} changed batches in {time.monotonic() - begun:.0f} s: {counts}")
    checks.that(min(counts["read"], counts["refused"]) > run // 20, f"hardly any changed batch was read, or refused: {counts}")
    checks.equal(reader.stop(), 0, "how the C reader ended")


if __name__ == "__main__":
    harness.main(test, __doc__.splitlines()[0])
