#!/usr/bin/env python3
"""The portable unit tests as Windows programs: each test_*.exe of the cross build runs under Wine and passes.

usage: tests/windows/test_units.py --build build/windows --native build/dev [--soak] [NAME...]
Left out without --soak: SLOW, which the native run has and which take minutes here."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import wine

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import traces  # noqa: E402

SLOW = {"etl_scale"}
TIMEOUT_S = 600


def unpack(build):
    subprocess.run([sys.executable, ROOT / "tests" / "traces.py", "--build", build], check=True, stdout=subprocess.DEVNULL)
    return wine.windows_path(build / "traces").replace("\\", "/")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--native", type=pathlib.Path, help="build folder whose unpacked traces are used; default: --build")
    parser.add_argument("--soak", action="store_true", help="the slow ones too")
    parser.add_argument("names", nargs="*", help="only these, without test_")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    programs = sorted((build / "tests" / "unit").glob("test_*.exe"))
    if arguments.names:
        programs = [p for p in programs if p.stem[5:] in arguments.names]
    elif not arguments.soak:
        programs = [p for p in programs if p.stem[5:] not in SLOW]
    passed = failed = skipped = 0
    if not programs:
        print(f"FAILED: no test_*.exe in {build}")
        failed = 1
    unpacked = unpack((arguments.native or build).resolve())
    with wine.Session(build) as session, tempfile.TemporaryDirectory(dir=session.drive) as scratch:  # the build folder may be open to others

        def one(program):
            folder = pathlib.Path(scratch) / program.stem
            folder.mkdir()
            start = time.monotonic()
            try:
                done = session.run([program], timeout=TIMEOUT_S, cwd=folder, environment={"EA_UNPACKED": unpacked})
                return done.returncode, done.stdout + done.stderr, time.monotonic() - start
            except subprocess.TimeoutExpired as slow:
                return -1, f"ended after {TIMEOUT_S} s: {(slow.stderr or b'')[-2000:]}", time.monotonic() - start

        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or 2)) as pool:
            for program, (code, said, seconds) in zip(programs, pool.map(one, programs)):
                count = sum(int(n) for n in re.findall(r"PASSED  \] (\d+) test", said))
                parts = [line for line in said.splitlines() if line.startswith(traces.SKIPPED)]
                good = code == 0 and (count > 0 or parts)
                passed, failed = passed + (count > 0 and code == 0), failed + (not good)
                print(f"{'ok' if good else 'FAILED'} {program.stem}: {count} tests, {seconds:.1f} s", flush=True)
                skipped += len(parts)
                print("".join(f"{line}\n" for line in parts), end="")
                if not good:
                    print(f"exit code {code}\n{said[-4000:]}")
    print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
