#!/usr/bin/env python3
"""How many lines of the code that reads batches, uploads and answers are run by its corpus, its unit tests and the batches of test_wire_differential.py.
Builds the coverage preset (only what that takes), runs them, asks gcov, prints each file and the lines that were not run. It fails below the
percentage, also when the corpus alone does. fuzz_batch writes what it reads, and makes allocations fail, so that the corpus reaches the writers and
the answers to a lack of memory, too. What it does not reach: definitions whose hashes begin alike, batches above 16 MiB, some allocations.

usage: tests/coverage.py [--least 98] [--corpus-least 98] [--build DIR] [--jobs N]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import types

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import harness  # noqa: E402
import test_wire_differential  # noqa: E402
import test_wire_python  # noqa: E402
import wire_lies  # noqa: E402

FILES = ("ack.c", "column.c", "definitions.c", "envelope.c", "rename.c", "short_directory.c", "unpack.c", "view.c", "view_records.c")
UNIT_TESTS = ("test_wire", "test_builder", "test_builder_known", "test_store", "test_store_files", "test_no_memory")
TARGETS = ("fuzz_batch", "fuzz_upload", "fuzz_ingest", "batch_records", *UNIT_TESTS)
CORPORA = ("batch", "upload", "ingest")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], cwd=SOURCE, check=True, stdout=subprocess.PIPE, **options).stdout


def lines_of(build):
    """{file: {line: how often it was run}}"""
    found = {name: {} for name in FILES}
    for notes in sorted((build / "proto" / "wire" / "CMakeFiles" / "ea_wire.dir").glob("*.gcda")):
        for line in run("gcov", "--json-format", "--stdout", notes).splitlines():
            for one in json.loads(line)["files"]:
                path = pathlib.Path(one["file"])
                if path.name in found and path.parent.name == "wire":
                    for row in one["lines"]:
                        found[path.name][row["line_number"]] = found[path.name].get(row["line_number"], 0) + row["count"]
    return found


def share(found):
    """Percent of the lines that were run."""
    counts = [count for lines in found.values() for count in lines.values()]
    return 100 * sum(count > 0 for count in counts) / max(1, len(counts))


def tell_lies(build):
    """The C reader gets each hand-made wrong batch that can be made out of a seed."""
    reader, batch_count = test_wire_differential.Reader(types.SimpleNamespace(build=build)), 0
    for seed, lists in (("batch8", (test_wire_python.lies(), wire_lies.descriptions(), wire_lies.columns(), wire_lies.envelopes(test_wire_python.compressed))),
                        ("context", (wire_lies.small(),))):
        data = (SOURCE / "tests" / "fuzz" / "corpus" / "batch" / seed).read_bytes()
        for what, _, change in (lie for lies in lists for lie in lies):
            draft = test_wire_python.Draft(data)
            try:
                change(draft)
            except (StopIteration, IndexError, AttributeError):
                continue  # the seed lacks what the lie is about
            if what not in (*wire_lies.OF_THE_CHECKSUM, *wire_lies.TOO_LARGE):
                test_wire_python.sealed(draft)
            wrong = draft.bytes()
            if len(wrong) <= 16 << 20:
                reader.read(wrong)
                batch_count += 1
    reader.stop()
    print(f"{batch_count} hand-made wrong batches")


def main():
    parser = argparse.ArgumentParser(description="Line coverage of proto/wire's readers.")
    parser.add_argument("--least", type=float, default=98, help="percent of all lines")
    parser.add_argument("--corpus-least", type=float, default=98, help="percent of all lines, by the corpus alone")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "coverage")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count() or 2))
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    run("cmake", "--preset", "coverage", "-B", build)
    run("cmake", "--build", build, "-j", arguments.jobs, "--target", *TARGETS)
    for counts in build.rglob("*.gcda"):
        counts.unlink()
    for name in CORPORA:
        run(build / "tests" / "fuzz" / f"fuzz_{name}", SOURCE / "tests" / "fuzz" / "corpus" / name, stderr=subprocess.DEVNULL)
    by_corpus = share(lines_of(build))
    for name in UNIT_TESTS:
        run(build / "tests" / "unit" / name, stderr=subprocess.DEVNULL)
    tell_lies(build)
    checks = harness.Checks()
    test_wire_differential.test(types.SimpleNamespace(build=build), checks, types.SimpleNamespace(soak=False))
    if checks.failed:
        return 1
    found = lines_of(build)
    for name, lines in found.items():
        hit = sum(count > 0 for count in lines.values())
        missed = [line for line, count in sorted(lines.items()) if not count]
        print(f"{name:20} {100 * hit / max(1, len(lines)):6.2f} %  {len(lines):5} lines, not run: {' '.join(map(str, missed)) or '-'}")
    percent, whole = share(found), sum(map(len, found.values()))
    print(f"{'by the corpus alone':20} {by_corpus:6.2f} %  {whole:5} lines; at least {arguments.corpus_least} % are expected")
    print(f"{'in all':20} {percent:6.2f} %  {whole:5} lines; at least {arguments.least} % are expected")
    return 0 if whole and percent >= arguments.least and by_corpus >= arguments.corpus_least else 1


if __name__ == "__main__":
    sys.exit(main())
