"""How many instructions the hot loops take, by callgrind, beside what tests/golden/instructions.tsv says: a function that takes
more than 5 % more fails. Counted are instructions of our own functions by themselves (libraries choose their loops by processor),
on inputs that are made here and never change, with the same random bytes in each run (the seeds of hash tables), so that the counts
are the same on every machine with the same compiler: the file names it. When a change is meant to cost that, or a compiler is new, write the file anew and commit it with the change:

    python3 tests/e2e/test_instructions.py --build build/dev --update
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

import harness

GOLDEN = harness.ROOT / "tests" / "golden" / "instructions.tsv"
MORE_PERCENT = 5
KEEP_SHARE = 0.01   # functions that take at least so much of a run are kept
ALL = "all of our functions"


def runs(env):
    """What is measured: (name, program and arguments). One more row is one more line here, and --update."""
    tests = env.build / "tests"
    trace = env.folder / "fixed.etl"
    env.run([tests / "e2e" / "scale_etl", "write", "--cpus", 4, "--records", 20000, "--buffer", "64KiB", "--seed", 1, "--compressed", trace])
    plain = env.folder / "plain.etl"
    env.run([tests / "e2e" / "scale_etl", "write", "--cpus", 16, "--records", 20000, "--buffer", "8KiB", "--seed", 2, plain])
    return [
        ("read, batches, back, XPRESS", [tests / "bench" / "batches", "--level", "none", "--runs", 1, trace]),
        ("read, batches, back", [tests / "bench" / "batches", "--runs", 1, plain]),
        ("one kernel class into columns", [tests / "bench" / "hot_class", "measure", "--runs", 1]),
        ("stats", [env.agent, "stats", "--json", trace]),
        ("dump", [env.agent, "dump", "--format", "jsonl", plain]),
    ]


def count(env, command):
    """Instructions of each function of the program itself, without what it calls: {name: count}."""
    out = env.folder / "callgrind.out"
    out.unlink(missing_ok=True)
    env.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no", "--compress-pos=no",
             "--dump-line=no", *command], env={**os.environ, "LD_PRELOAD": str(env.build / "tests" / "e2e" / "fixed_random.so")})
    counts, ours, name, skip = collections.Counter(), False, None, False
    with open(out, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("ob="):
                ours = pathlib.Path(line[3:].strip()).name == pathlib.Path(command[0]).name
            elif line.startswith("fn="):
                name = re.sub(r"'\d+$", "", line[3:].strip())   # recursion
            elif line.startswith("calls="):
                skip = True   # the next line is what the called one took
            elif line[0].isdigit() or line[0] in "+-*":
                if not skip and ours:
                    counts[name] += int(line.split()[1])
                skip = False
    return counts


def compiler(env):
    """Compiler and kind of the build."""
    found = {}
    for line in (env.build / "CMakeCache.txt").read_text().splitlines():
        key, _, value = line.partition("=")
        found[key.partition(":")[0]] = value
    text = next(env.build.glob("CMakeFiles/*/CMakeCCompiler.cmake")).read_text()
    name, version = (re.search(rf'set\(CMAKE_C_COMPILER_{what} "([^"]*)"\)', text).group(1) for what in ("ID", "VERSION"))
    return " ".join(filter(None, [name, version, found["CMAKE_BUILD_TYPE"], found.get("CMAKE_C_FLAGS"), found.get("EA_SANITIZE")]))


def measure(env):
    rows = {}
    for name, command in runs(env):
        counts = count(env, [str(c) for c in command])
        total = sum(counts.values())
        rows[name, ALL] = total
        for function, n in counts.items():
            if n >= KEEP_SHARE * total:
                rows[name, function] = n
        rows.update({(name, function, "any"): n for function, n in counts.items()})
    return rows


def write(env):
    rows = {key: n for key, n in measure(env).items() if len(key) == 2}
    with open(GOLDEN, "w", encoding="utf-8") as out:
        out.write(f"# Instructions of hot functions; tests/e2e/test_instructions.py checks and writes this.\n# compiler: {compiler(env)}\n")
        order = [name for name, function in rows if function == ALL]
        for (name, function), n in sorted(rows.items(), key=lambda row: (order.index(row[0][0]), -row[1], row[0])):
            out.write(f"{name}\t{function}\t{n}\n")
    print(f"{GOLDEN}: {len(rows)} counts")


def test(env, checks, _):
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    made_with = lines[1].partition(": ")[2]
    if not checks.equal(compiler(env), made_with, "compiler of the kept counts (another one needs counts of its own: --update)"):
        return
    now = measure(env)
    kept = [line.split("\t") for line in lines[2:]]
    checks.that(len(kept) > 20, f"only {len(kept)} counts are kept")
    checks.equal({row[0] for row in kept}, {key[0] for key in now}, "what is measured")
    for name, function, before in kept:
        before, after = int(before), now.get((name, ALL) if function == ALL else (name, function, "any"), 0)
        if not checks.that(after, f"{name}: {function} is not there any more: --update"):
            continue
        checks.that(after * 100 <= before * (100 + MORE_PERCENT),
                    f"{name}: {function}: {before} instructions before, {after} now: {100 * after / before - 100:+.1f} %")


def main():
    if "--update" not in sys.argv:
        harness.main(test, __doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--update", action="store_true")
    with harness.Environment(parser.parse_args().build) as env:
        write(env)


if __name__ == "__main__":
    main()
