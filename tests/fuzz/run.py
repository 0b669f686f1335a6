#!/usr/bin/env python3
"""Builds the fuzz preset and runs every fuzz target for a limited time, from its seeds in tests/fuzz/corpus/<name> and from
the inputs that earlier runs found (build/fuzz-corpus/<name>). A finding is stored in build/fuzz-findings/ and fails the run, as does a target
that is not built, or that read no input.
With another build folder DIR, both folders are next to it: DIR-corpus and DIR-findings.

usage: tests/fuzz/run.py [--seconds N] [--only NAME]... [--jobs N] [--build DIR]
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def targets():
    """Each target of the tree has a source file of its own."""
    return sorted(path.stem[len("fuzz_"):] for path in pathlib.Path(__file__).parent.glob("fuzz_*.c"))


def fuzz(program, seconds, build):
    name = program.name[len("fuzz_"):]
    found = build.parent / f"{build.name}-corpus" / name
    findings = build.parent / f"{build.name}-findings" / name
    seeds = SOURCE / "tests" / "fuzz" / "corpus" / name
    for folder in (found, findings):
        folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1",
               f"-artifact_prefix={findings}/", found]
    if seeds.is_dir():
        command.append(seeds)
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace")
    guard = threading.Timer(seconds + 600, process.kill)
    guard.start()
    begun, lines, coverage = time.monotonic(), [], []
    for line in process.stdout:
        lines.append(line)
        seen = re.search(r"cov: (\d+)", line)
        if seen:
            coverage.append((time.monotonic() - begun, seen.group(1)))
    code = process.wait()
    guard.cancel()
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", "".join(lines))
    if code == 0 and (not executed or int(executed.group(1)) == 0):
        code = 1
    half = [c for t, c in coverage if t <= (time.monotonic() - begun) / 2]
    print(f"{name}: {'ok' if code == 0 else 'FAILED'}, {executed.group(1) if executed else '?'} inputs in {seconds} s, coverage "
          f"{half[0] if half else '?'} at first, {half[-1] if half else '?'} half way, {coverage[-1][1] if coverage else '?'} at the end",
          flush=True)
    if code != 0:
        print("".join(lines)[-6000:], flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(description="Fuzzes for a while.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", action="append", help="one target; may be given several times")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count() or 2), help="at a time")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "fuzz", help="folder of the fuzz preset")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    for command in (["cmake", "--preset", "fuzz", "-B", build], ["cmake", "--build", build, "-j", str(arguments.jobs)]):
        subprocess.run([str(c) for c in command], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    wanted = arguments.only or targets()
    programs = [build / "tests" / "fuzz" / f"fuzz_{name}" for name in wanted]
    missing = [p.name for p in programs if not os.access(p, os.X_OK)]
    if missing:
        sys.exit(f"run.py: not built: {' '.join(missing)}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failed = sum(code != 0 for code in pool.map(lambda p: fuzz(p, arguments.seconds, build), programs))
    print(f"{len(programs) - failed} passed, {failed} failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
