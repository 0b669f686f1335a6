#!/usr/bin/env python3
"""Writes the seeds wrong-RULE of fuzz_batch into tests/fuzz/corpus/batch: hand-made batches, each with one change and, unless that is what is
wrong, the right checksum, and changed ones; each of them runs a line of the readers (tests/coverage.py) that no seed before it ran. Beside them
rare-N, sound batches in forms that are seldom. RULE is what the reader in Python says that the batch breaks. Needs the build that
tests/coverage.py made. Existing wrong-RULE and rare-N are replaced.

usage: tests/fuzz/seed_lines.py [--build build/coverage] [--changed N] [--keep]
"""
import argparse
import hashlib
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
import coverage  # noqa: E402
import test_wire_differential  # noqa: E402
import test_wire_python  # noqa: E402
import format_columns  # noqa: E402
import format_notation  # noqa: E402
import uploads  # noqa: E402
import wire_lies  # noqa: E402
from wire_lies import column, message  # noqa: E402

OUT = ROOT / "tests" / "fuzz" / "corpus" / "batch"
FROM = ("batch2", "batch3", "batch4", "context", "dictionary", "tombstone", "form8", "batch8")  # small first
WHOLE = ("form8", "batch8")  # without a context
MOST_BYTES, MOST_PACKED_BYTES, MOST_CHANGED_BYTES, LATE_S, POOL, GROUP = 300000, 20000, 8000, 6, 400, 32


LACKING = (StopIteration, IndexError, AttributeError, TimeoutError, TypeError, format_notation.Broken)


def late(*_):
    raise TimeoutError


def fits(data):
    """Small in the repository, where it is compressed."""
    return len(data) < MOST_BYTES and len(zlib.compress(data)) < MOST_PACKED_BYTES


def of_context(changed_bytes):
    """The batch's context is these bytes, and has their name."""
    def change(b):
        data = changed_bytes(b.batch.contexts[0])
        b.batch.contexts, b.batch.context = [data], hashlib.sha256(data).digest()[:8] + b.batch.context[8:]
    return change


def of_shape(changed_bytes):
    """The first shape of the context, likewise."""
    def change(b):
        context = format_notation.parse(b.batch.contexts[0], "Context")
        old = next(s for s in b.batch.shapes if hashlib.sha256(s).digest()[:8] == context.shapes[:8])
        new = changed_bytes(old)
        b.batch.shapes = [new if s == old else s for s in b.batch.shapes]
        context.shapes = hashlib.sha256(new).digest()[:8] + context.shapes[8:]
        test_wire_python.put_context(b.batch, context, b.batch.context[8:])
    return change


def shape_with(**members):
    def changed_bytes(data):
        shape = format_notation.parse(data, "Shape")
        vars(shape).update(members)
        return test_wire_python.encode(shape, "Shape")
    return of_shape(changed_bytes)


def in_context(**members):
    def change(b):
        context = format_notation.parse(b.batch.contexts[0], "Context")
        vars(context).update({name: value(context) for name, value in members.items()})
        test_wire_python.put_context(b.batch, context, b.batch.context[8:])
    return change


def of_batch(**members):
    return lambda b: vars(b.batch).update(members)


def tail(data):
    return lambda b: vars(b).update(tail=data)


def numbered(b):
    """The short directory says the number of its first event."""
    plain = test_wire_python.plain_directory(b.batch)
    b.directory = b"\0" + bytes([plain[0] | 0x40]) + uploads._varint(1000) + plain[1:]


def packed_directory(changed_bytes):
    """The directory as a zstd frame, which is changed then."""
    def change(b):
        raw = test_wire_python.encode(b.d, "Directory")
        vars(b).update(directory=changed_bytes(test_wire_python.compressed(raw)), tail=uploads._number(9, len(raw)))
    return change


def headed(**members):
    def change(b):
        b.d.groups[-1].header = b.d.groups[-1].header or message("Header")
        vars(b.d.groups[-1].header).update(members)
    return change


def without_context(change):
    """Of a batch that has none."""
    def checked(b):
        if b.batch.context:
            raise AttributeError
        change(b)
    return checked


def far_apart(b):
    """Its first and its last event are further apart than a clock can say."""
    n = b.batch.event_count
    b.batch.frames.append(message("Frame", data=(1 << 63).to_bytes(8, "little") + bytes(8 * (n - 2)) + ((1 << 63) - 1).to_bytes(8, "little")))
    old, b.d.time = b.d.time, column(encoding=format_columns.PLAIN, frame=len(b.batch.frames))
    if old.encoding != format_columns.CONSTANT or old.frame:
        raise AttributeError


def rare():
    """Sound batches; those that the reader in Python refuses are left out."""
    grave = [message("Tombstone", first=first, last=first + 2, cause=15, event_count=4, utc_min_ns=low, utc_max_ns=high)
             for first, low, high in ((1, 500, 600), (7, 400, 900), (11, 0, 0))]
    label = [message("Label", name=name, value="v") for name in ("one", "two")]
    yield of_context(lambda data: data + uploads._bytes(9, b"newer"))
    yield in_context(sources=lambda context: context.sources + context.sources[:8])
    yield numbered
    yield tail(uploads._bytes(26, bytes(99)))
    yield wire_lies.without_events(kind=1, tombstones=grave)
    yield wire_lies.source(labels=label)
    yield wire_lies.source(host="\u00e9" * 200)
    yield lambda b: wire_lies.without_events(kind=2, sources=b.batch.sources)(b)
    yield without_context(headed(provider=bytes(range(16))))
    yield without_context(headed(task=7, flags=3))


def more():
    """(what is wrong, whether the records' checksum is made anew, change): rules that wire_lies.py has no batch for."""
    yield "a context with a field of another type", True, of_context(lambda data: data + uploads._bytes(4, b"x"))
    yield "a context that ends inside a field", True, of_context(lambda data: data + b"\x0a\x05ab")
    yield "4,097 sources of a context", True, in_context(sources=lambda context: context.sources * 4097)
    yield "a dictionary that is not named", True, in_context(dictionary=lambda _: 0)
    yield "a damaged short directory", True, lambda b: vars(b).update(directory=b.batch.directory[:-3] + b"\xff\xff\xff")
    yield "a short directory of 200,000 bytes", True, lambda b: vars(b).update(directory=b"\2" + uploads._varint(200000) + b"block")
    yield "a shape that is no message", True, of_shape(lambda data: data + b"\x0a\x05ab")
    yield "a shape with 65 items", True, shape_with(items=[message("Item", type=1, data=column())] * 65)
    yield "a directory that is no zstd", True, tail(uploads._number(9, 100))
    yield "a directory of 65 MiB", True, tail(uploads._number(9, 65 << 20))
    yield "a damaged directory", True, packed_directory(lambda data: data[:-4] + b"\xff" * 4)
    yield "a directory that is shorter than it says", True, packed_directory(lambda data: test_wire_python.compressed(b"short"))
    yield "a span beyond all clocks", False, of_batch(time_span=1 << 63)
    yield "times beyond all clocks", False, of_batch(time_min=(1 << 63) - 1, time_span=5)
    yield "events too far apart", False, far_apart
    yield "a tombstone that is no message", True, tail(uploads._bytes(15, b"\x0a\x05ab"))
    yield "a ledger that is no message", True, of_batch(ledger=b"\x0a\x05ab")
    yield "a frame that is no message", True, tail(uploads._bytes(11, b"\x0a\x05ab"))
    yield "a source that is no message", True, without_context(tail(uploads._bytes(17, b"\x0a\x05ab")))
    yield "a relative dictionary", True, wire_lies.source_is(column(encoding=format_columns.DICTIONARY, relative_to=1, value_count=1, values=column()))
    yield "an empty dictionary", True, wire_lies.source_is(column(encoding=format_columns.DICTIONARY, values=column()))
    yield "an empty shared dictionary", True, wire_lies.source_is(
        column(encoding=format_columns.DICTIONARY, shared=1), shared=[message("Dictionary", values=column(width=2))])
    listed = {"lengths": column(constant=b"\1")}
    for name, made in (("a constant", column(constant=b"x", **listed)), ("indexes", column(encoding=4, value_count=1, values=column(constant=b"x"), **listed)),
                       ("a struct", column(encoding=5, children=[column(constant=b"x")], **listed))):
        yield f"{name} with data", True, wire_lies.payload_is(made)
        yield f"{name} with data of its own", True, lambda b, made=made: (
            wire_lies.payload_is(column(**{**vars(made), "bytes": 1, "frame": 1}))(b), b.batch.frames.append(message("Frame", data=b"x")))
        yield f"{name} too large", True, wire_lies.payload_is(column(**{**vars(made), "bytes": 65 << 20}))
    yield "numbers too large", True, wire_lies.payload_is(column(encoding=format_columns.VARINT, width=8, bytes=65 << 20))
    yield "plain elements too large", True, wire_lies.payload_is(column(encoding=format_columns.PLAIN, width=1 << 28))
    yield "a struct's member that does not fit", True, wire_lies.payload_is(
        column(encoding=5, children=[column(encoding=format_columns.PLAIN, width=1, frame=9)]))
    yield "a list with rows of a shared dictionary that are too large", False, wire_lies.lengths_of_shared(1 << 27, 1 << 27)
    yield "a dictionary whose values are a list", True, wire_lies.source_is(
        column(encoding=format_columns.DICTIONARY, value_count=1, values=column(constant=b"\0", **listed)))
    yield "a group with 513 fields", True, wire_lies.last_group(lambda g: vars(g).update(fields=[column()] * 513))


def wrong(seeds):
    """Each hand-made wrong batch, out of the two smallest seeds that have what it is about, and one without a context."""
    signal.signal(signal.SIGALRM, late)
    own = ((what, is_sealed, change) for what, is_sealed, change in more())
    theirs = ((what, what not in (*wire_lies.OF_THE_CHECKSUM, *wire_lies.TOO_LARGE), change)
              for lists in (test_wire_python.lies(), wire_lies.descriptions(), wire_lies.columns(),
                            wire_lies.envelopes(test_wire_python.compressed), wire_lies.small()) for what, _, change in lists)
    for lists in (theirs, own):
        for what, is_sealed, change in lists:
            made = dict.fromkeys((False, True), 0)
            for name in FROM:
                if made[name in WHOLE] == 2 - (name in WHOLE):
                    continue
                signal.alarm(LATE_S)
                try:
                    draft = test_wire_python.Draft(seeds[name])
                    change(draft)
                    if is_sealed:
                        test_wire_python.sealed(draft)
                    data = draft.bytes()
                except LACKING:
                    continue  # the seed lacks what it is about
                finally:
                    signal.alarm(0)
                if fits(data):
                    made[name in WHOLE] += 1
                    yield data


def sound(seeds):
    """Each rare form, out of the smallest seed that has what it is about and remains a sound batch."""
    for change in rare():
        for name in FROM:
            try:
                draft = test_wire_python.Draft(seeds[name])
                change(draft)
                test_wire_python.sealed(draft)
                data = draft.bytes()
            except LACKING:
                continue
            if fits(data) and test_wire_python.judged(data) is None:
                yield data
                break


def changed(seeds, count, build):
    """By the mutator of the fuzz targets, again and again."""
    reader, rng, pool = test_wire_differential.Reader(types.SimpleNamespace(build=build)), random.Random(7), []
    for _ in range(count):
        data = reader.mutate(rng.choice(pool) if pool and rng.randrange(3) else rng.choice(list(seeds.values())), rng.randrange(1 << 32))
        if len(data) < MOST_CHANGED_BYTES:
            pool = [*pool, data][-POOL:]
            yield data
    reader.stop()


def name_of(data):
    """A free name of a seed: the rule that it breaks, with a number when other seeds break it too."""
    broken = str(test_wire_python.judged(data) or "by no rule")
    words = re.sub(r"[0-9a-f]{16,}", "", broken.lower()).replace("\u2264", "at most")
    name = "wrong-" + re.sub(r"[^a-z0-9_]+", "-", words).strip("-")[:72].strip("-")
    numbers = [name, *(f"{name}-{number}" for number in range(2, 1000))]
    return next(one for one in numbers if not (OUT / one).exists())


class Lines:
    """How many lines were run so far."""

    def __init__(self, build):
        self.build, self.kept = build, []
        for counts in build.rglob("*.gcda"):
            counts.unlink()
        for name in coverage.CORPORA:
            coverage.run(build / "tests" / "fuzz" / f"fuzz_{name}", ROOT / "tests" / "fuzz" / "corpus" / name, stderr=subprocess.DEVNULL)
        self.count = self.now()

    def now(self):
        return sum(count > 0 for lines in coverage.lines_of(self.build).values() for count in lines.values())

    def search(self, inputs):
        """Keeps those that run further lines; halves of what runs none are not looked at."""
        before = {path: path.read_bytes() for path in self.build.rglob("*.gcda")}
        with tempfile.TemporaryDirectory() as folder:
            for number, data in enumerate(inputs):
                (pathlib.Path(folder) / str(number)).write_bytes(data)
            subprocess.run([self.build / "tests" / "fuzz" / "fuzz_batch", folder], check=True, stdout=subprocess.DEVNULL)
        count = self.now()
        if count == self.count:
            return
        if len(inputs) == 1:
            self.count = count
            self.kept += inputs
            return
        for path, data in before.items():
            path.write_bytes(data)
        half = len(inputs) // 2
        self.search(inputs[:half])
        self.search(inputs[half:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "coverage")
    parser.add_argument("--keep", action="store_true", help="add to the wrong-RULE that are there")
    parser.add_argument("--changed", type=int, default=2500, help="batches that are changed at random")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    for path in OUT.glob("rare-*") if arguments.keep else (*OUT.glob("wrong-*"), *OUT.glob("rare-*")):
        path.unlink()
    seeds = {path.name: path.read_bytes() for path in sorted(OUT.iterdir()) if not path.name.startswith("wrong-")}
    forms = list(sound(seeds))
    for number, data in enumerate(forms):
        (OUT / f"rare-{number}").write_bytes(data)
    inputs = [*wrong(seeds), *changed(seeds, arguments.changed, build)]
    lines = Lines(build)
    for at in range(0, len(inputs), GROUP):
        lines.search(inputs[at:at + GROUP])
    for data in lines.kept:
        (OUT / name_of(data)).write_bytes(data)
    print(f"{len(forms)} of {len(list(rare()))} rare forms; {len(lines.kept)} of {len(inputs)} batches, {sum(map(len, lines.kept))} bytes")


if __name__ == "__main__":
    main()
