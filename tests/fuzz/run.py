#!/usr/bin/env python3
"""Builds the fuzz preset and runs every fuzz target for a while, from its seeds in tests/fuzz/corpus/<name> and from what
earlier runs found (build/fuzz-corpus/<name>). A finding is kept in build/fuzz-findings/ and fails the run.

usage: tests/fuzz/run.py [--seconds N] [--only NAME]
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = SOURCE / "build" / "fuzz"
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 2)


def fuzz(program, seconds):
    name = program.name[len("fuzz_"):]
    found = SOURCE / "build" / "fuzz-corpus" / name
    findings = SOURCE / "build" / "fuzz-findings" / name
    seeds = SOURCE / "tests" / "fuzz" / "corpus" / name
    for folder in (found, findings):
        folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
               f"-artifact_prefix={findings}/", found]
    if seeds.is_dir():
        command.append(seeds)
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=seconds + 600)
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    coverage = re.findall(r"cov: (\d+)", done.stdout)
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}, {executed.group(1) if executed else '?'} inputs, "
          f"coverage {coverage[-1] if coverage else '?'}", flush=True)
    if done.returncode != 0:
        print(done.stdout[-6000:], flush=True)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description="Fuzzes for a while.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", help="one target")
    arguments = parser.parse_args()
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz", "-j", str(JOBS)]):
        subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    programs = sorted(p for p in (BUILD / "tests" / "fuzz").glob("fuzz_*") if p.is_file() and os.access(p, os.X_OK))
    if arguments.only:
        programs = [p for p in programs if p.name == f"fuzz_{arguments.only}"]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        failed = sum(code != 0 for code in pool.map(lambda p: fuzz(p, arguments.seconds), programs))
    print(f"{len(programs) - failed} passed, {failed} failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
