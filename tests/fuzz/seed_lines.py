#!/usr/bin/env python3
"""Writes the seeds wrong-N of fuzz_batch into tests/fuzz/corpus/batch: hand-made wrong batches and changed ones, each of which runs a line of the
readers (tests/coverage.py) that no seed before it ran. Needs the build that tests/coverage.py made. Existing wrong-N are replaced.

usage: tests/fuzz/seed_lines.py [--build build/coverage] [--changed N]
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
import coverage  # noqa: E402
import test_wire_differential  # noqa: E402
import test_wire_python  # noqa: E402
import wire_lies  # noqa: E402

OUT = ROOT / "tests" / "fuzz" / "corpus" / "batch"
FROM = ("batch2", "batch3", "batch4", "context", "form8", "batch8")  # small first
MOST_BYTES, MOST_CHANGED_BYTES, LATE_S, POOL, GROUP = 20000, 8000, 6, 400, 32


def late(*_):
    raise TimeoutError


def wrong(seeds):
    """Each hand-made wrong batch, out of the two smallest seeds that have what it is about."""
    signal.signal(signal.SIGALRM, late)
    for lists in (test_wire_python.lies(), wire_lies.descriptions(), wire_lies.columns(), wire_lies.envelopes(test_wire_python.compressed),
                  wire_lies.small()):
        for what, _, change in lists:
            made = 0
            for name in FROM if what not in wire_lies.TOO_LARGE else ():
                signal.alarm(LATE_S)
                try:
                    draft = test_wire_python.Draft(seeds[name])
                    change(draft)
                    if what not in wire_lies.OF_THE_CHECKSUM:
                        test_wire_python.sealed(draft)
                    data = draft.bytes()
                except (StopIteration, IndexError, AttributeError, TimeoutError):
                    continue  # the seed lacks what it is about
                finally:
                    signal.alarm(0)
                if len(data) < MOST_BYTES and made < 2:
                    made += 1
                    yield data


def changed(seeds, count, build):
    """By the mutator of the fuzz targets, again and again."""
    reader, rng, pool = test_wire_differential.Reader(types.SimpleNamespace(build=build)), random.Random(7), []
    for _ in range(count):
        data = reader.mutate(rng.choice(pool) if pool and rng.randrange(3) else rng.choice(list(seeds.values())), rng.randrange(1 << 32))
        if len(data) < MOST_CHANGED_BYTES:
            pool = [*pool, data][-POOL:]
            yield data
    reader.stop()


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
    parser.add_argument("--changed", type=int, default=2500, help="batches that are changed at random")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    for path in OUT.glob("wrong-*"):
        path.unlink()
    seeds = {path.name: path.read_bytes() for path in sorted(OUT.iterdir())}
    inputs = [*wrong(seeds), *changed(seeds, arguments.changed, build)]
    lines = Lines(build)
    for at in range(0, len(inputs), GROUP):
        lines.search(inputs[at:at + GROUP])
    for number, data in enumerate(lines.kept):
        (OUT / f"wrong-{number}").write_bytes(data)
    print(f"{len(lines.kept)} of {len(inputs)} batches, {sum(map(len, lines.kept))} bytes")


if __name__ == "__main__":
    main()
