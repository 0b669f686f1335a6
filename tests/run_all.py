#!/usr/bin/env python3
"""Runs everything that the project is judged by, on a machine with the packages in: builds the presets, runs ctest in each
(unit tests, golden cases, replay of the fuzz corpora), the end-to-end scripts, the Windows cross build, and lint.

Every stage runs even when another failed. What failed is shown with the end of its output; whole logs are in build/logs.
A test that failed without a sanitizer's report runs once more at the end, alone on the machine. If it passes then, it is unsteady:
still a failure, unless tests/quarantine.tsv lists it with the cause that the first log has. The second run is for the diagnosis.
A lane of low priority builds one preset while the tests of the last one run, and lints while the scripts run. The scripts under Wine run
at the same time as the native ones. After the table of what ran come the ten slowest tests, each test that
failed or is unsteady with the lines of its log that say why, and the tests that were skipped. The last line is "N passed, N failed",
or "N passed, N failed, N skipped". Before `make test` calls this, installer/deps/packages.sh has run.

Without real traces (tests/traces.py) the tests that need one are skipped and listed; with EA_REQUIRE_TRACES=1 they fail.

An end-to-end script that says "# sanitizers: yes" in its first lines is run under asan-ubsan and tsan too, one that names
one of them there ("# sanitizers: asan-ubsan": nothing new in it has threads that meet; "# sanitizers: tsan") under that
alone. The long form runs all under both, and lint with clang-tidy's path analyzer, as `make lint` does.
"""
import argparse
import collections
import concurrent.futures
import csv
import fnmatch
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import traces

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = SOURCE / "build"
LOGS = BUILD / "logs"
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 2)
FUZZ_SECONDS = 1800  # of each target, in the long form
NATIVE = ["dev", "asan-ubsan", "tsan"]
LOW_PRIORITY = ["nice", "-n", "10"]  # of what runs beside tests: it takes the time in which they wait
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={SOURCE / 'tests' / 'tsan.supp'}",
}


CLOSING_LINES = 150  # the most lines of causes that are printed after the table, for any number of failed tests
CAUSE = re.compile(r"FAILED: | error: |\*\*\*(Failed|Timeout|Exception)|ended: it took more than|\[  (ERROR   |FAILED  )\]|ERROR: \w+Sanitizer"
                   r"|WARNING: ThreadSanitizer|runtime error: ")
UNEXPECTED = re.compile(r"^[\w.]+(Error|Exception|Expired|Interrupt)\b")  # the last line of Python's account of what called what
SLOWEST = 10
QUARANTINE = SOURCE / "tests" / "quarantine.tsv"
CLOSING = re.compile(r"^\d+ passed, \d+ failed|^\[  (FAILED|PASSED)  \] \d+ test")


def causes(text, most):
    """The lines that say why something failed, with some of those around them when there is room; without any, the last ones."""
    lines = [line for line in text.splitlines() if line.strip() and not CLOSING.search(line)]
    said = {at for at, line in enumerate(lines) if CAUSE.search(line) or UNEXPECTED.search(line)}
    around = {at + step for at in said for step in (range(-4, 1) if UNEXPECTED.search(lines[at]) else range(4))}
    found = [line for at, line in enumerate(lines) if at in (around if len(around) <= most else said)] or lines[-most:]
    left = len(found) - most
    return [short(line) for line in (found if left <= 0 else found[:most - 1])] + [f"... and {left + 1} more lines"] * (left > 0)


def short(line):
    return line if len(line) <= 400 else line[:400] + " ..."


class Tally:
    """What ran and how it went."""

    def __init__(self):
        self.rows = []  # (stage, passed, failed, skipped, seconds)
        self.messages = []  # (message about a test, text that has its cause)
        self.times = []  # (seconds, test)
        self.skipped = []  # tests that were skipped, since they need real traces
        with open(QUARANTINE, encoding="utf-8", newline="") as lines:
            self.quarantine = list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))

    def add(self, stage, passed, failed, skipped, seconds):
        self.rows.append((stage, passed, failed, skipped, seconds))
        word = "ok" if not failed else "FAILED"
        print(f"[{time.monotonic() - START:5.0f} s] {word:6} {stage}: {passed} passed, {failed} failed, {seconds:.0f} s", flush=True)

    def failed(self, stage, log, text=None):
        """text: the test's own part of the log; None: all of it."""
        self.messages.append((f"FAILED: {stage}; {log.relative_to(SOURCE)} says:", log.read_text(errors="replace") if text is None else text))

    def unsteady(self, test, log, text=None):
        """A test that failed among others and passed alone. Returns whether that is a pass: the quarantine has it, and its cause."""
        text = log.read_text(errors="replace") if text is None else text
        reason = next((row["reason"] for row in self.quarantine
                       if fnmatch.fnmatchcase(test, row["test"]) and re.search(row["cause"], text)), None)
        self.messages.append((f"{'QUARANTINED' if reason else 'UNSTEADY, which is a failure'}: {test} failed among others and passed alone"
                          f"{f' ({reason})' if reason else ''}; the first run is in {log.relative_to(SOURCE)}:", text))
        return reason is not None

    def skips(self, text):
        """Keeps what the text says was skipped; how much that is."""
        found = [line.split(traces.SKIPPED, 1)[1] for line in text.splitlines() if line.startswith(traces.SKIPPED)]
        self.skipped += found
        return len(found)

    def finish(self):
        passed, failed, skipped = (sum(row[i] for row in self.rows) for i in (1, 2, 3))
        print("\n{:44} {:>7} {:>7} {:>7} {:>8}".format("what ran", "passed", "failed", "skipped", "seconds"))
        for stage, good, bad, left, seconds in self.rows:
            print(f"{stage:44} {good:7} {bad:7} {left:7} {seconds:8.1f}")
        print(f"{'in all':44} {passed:7} {failed:7} {skipped:7} {time.monotonic() - START:8.1f}\n")
        print(f"the {SLOWEST} slowest tests:")
        for seconds, test in sorted(self.times, reverse=True)[:SLOWEST]:
            print(f"{seconds:8.1f} s  {test}")
        print()
        each = CLOSING_LINES // max(1, len(self.messages)) - 1
        for what, text in self.messages:
            print("\n".join([what, *("    " + line for line in (causes(text, min(each, 20)) if each > 0 else []))]))
        if not passed and not failed:
            print("nothing ran")
        if self.skipped:
            for what, count in sorted(collections.Counter(self.skipped).items()):
                print(f"skipped: {what}" + f" ({count} times)" * (count > 1))
            print(f"{len(self.skipped)} tests of real traces skipped: run `make traces`")
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed or not passed else 0


START = time.monotonic()


def no_randomization():
    """The sanitizers of clang 14 do not always find room under a new kernel's address randomization: where it may be
    turned off for a child, it is."""
    command = ["setarch", "-R"]
    try:
        done = subprocess.run([*command, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return command if done.returncode == 0 else []
    except FileNotFoundError:
        return []


def run(name, command, timeout, environment=None):
    """Runs a command with its output in a log; (exit code, seconds, log). A command that takes too long is ended."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / (re.sub(r"[^A-Za-z0-9.-]+", "-", name) + ".log")
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen([str(c) for c in command], cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        try:
            code = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            # as Ctrl-C does: a script says where it was, and ends what it started
            for word in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                process.send_signal(word)
                try:
                    process.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    continue
            output.write(f"\nended: it took more than {timeout} s\n".encode())
            code = -1
    return code, time.monotonic() - start, log


def show(log, lines=60):
    text = log.read_text(errors="replace").splitlines()
    print(f"--- {log.relative_to(SOURCE)}, the last of {len(text)} lines")
    print("\n".join(map(short, text[-lines:])))
    print("---", flush=True)


def step(tally, stage, command, timeout):
    """One command that passes or fails as a whole; true when it passed."""
    code, seconds, log = run(stage, command, timeout)
    if code != 0:
        show(log)
        tally.failed(stage, log)
    tally.add(stage, int(code == 0), int(code != 0), 0, seconds)
    if not stage.endswith(": build"):
        tally.times.append((seconds, stage))
    return code == 0


def build(tally, preset):
    return step(tally, f"{preset}: build", [*LOW_PRIORITY, "bash", "-c", f"cmake --preset {preset} && cmake --build --preset {preset} -j {JOBS}"], 3600)


def build_windows(tally):
    """Whether there are programs for the scripts under Wine."""
    if not step(tally, "windows: libraries", [*LOW_PRIORITY, "installer/deps/build-windows-deps.sh"], 1800) or not build(tally, "windows"):
        return False
    step(tally, "windows: imports", [sys.executable, "tests/windows/imports.py", BUILD / "windows"], 120)
    step(tally, "windows: as for Microsoft's compiler", [*LOW_PRIORITY, sys.executable, "tests/windows/microsoft.py", BUILD / "windows"], 600)
    return True


SANITIZER_REPORT = re.compile(r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error: ")


def may_repeat(log):
    """Whether what failed there deserves a second run: a sanitizer's report is a finding, whatever a second run says."""
    return not SANITIZER_REPORT.search(log.read_text(errors="replace"))


def cases(report):
    """(number that passed, {name of a failed one: what it printed}, what those that did not fail printed, [(seconds, name)]) out of
    ctest's JUnit file. A test that is skipped whole is no pass; it prints what it needs."""
    passed, failed, printed, times = 0, {}, [], []
    if report.is_file():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            skipped = case.find("skipped")
            output = case.findtext("system-out") or ""
            times.append((float(case.get("time") or 0), case.get("name")))
            if case.get("status") == "run":
                passed += 1
                printed.append(output)
            elif skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE"):
                printed.append(output)
            else:
                failed[case.get("name")] = output
    return passed, failed, "\n".join(printed), times


def ctest(tally, preset, prefix, timeout, match):
    """The ctest tests of a preset whose names match, counted from its JUnit file."""
    report = LOGS / f"{preset}.xml"
    again = LOGS / f"{preset}-again.xml"
    report.unlink(missing_ok=True)
    again.unlink(missing_ok=True)
    stage = f"{preset}: unit, golden and fuzz replay (ctest)"
    command = [*prefix, "ctest", "--test-dir", BUILD / preset, "--output-on-failure", *(["--no-tests=ignore", "-R", match] if match else ["--no-tests=error"]), "--label-exclude", "^(e2e|wine)$",
               "--test-output-size-passed", "100000"]
    # unit tests wait for half of their time
    code, seconds, log = run(f"{preset}: ctest", [*command, "-j", 2 * JOBS, "--output-junit", report], timeout, SANITIZER_OPTIONS)
    passed, failed, printed, times = cases(report)
    skipped, count = tally.skips(printed), 0
    tally.times += [(spent, f"{preset}: {name}") for spent, name in times]
    if failed:
        for name, how in re.findall(r"Test +#\d+: (\S+) \.+ *(\*\*\*.*)", log.read_text(errors="replace")):
            if name in failed:  # a timeout prints nothing else
                failed[name] += "\n" + how
        print(f"failed under {preset}: {', '.join(failed)}", flush=True)
        show(log, 120)
        if may_repeat(log):
            _, more, _ = run(f"{preset}: ctest again", [*command, "--rerun-failed", "--output-junit", again], timeout, SANITIZER_OPTIONS)
            first, failed = failed, {name: text for name, text in failed.items() if not again.is_file() or name in cases(again)[1]}
            for name in sorted(first.keys() - failed.keys()):
                if tally.unsteady(f"{preset}: {name}", log, first[name]):
                    passed += 1
                else:
                    count += 1
            seconds += more
        for name, text in failed.items():
            tally.failed(f"{preset}: {name}", log, text)
    elif code != 0:
        show(log, 120)
        tally.failed(stage, log)
        failed = {"ctest": ""}
    tally.add(stage, passed, len(failed) + count, skipped, seconds)


def end_to_end_scripts():
    return [script for folder in ("judges", "e2e", "attacks") for script in sorted((SOURCE / "tests" / folder).glob("test_*.py"))]


def wants(script, preset):
    line = re.search(r"^# sanitizers: (.+)$", script.read_text(encoding="utf-8")[:2000], re.M)
    return bool(line) and (line[1] == "yes" or preset in line[1].split(", "))


def closing_checks(log):
    """How many checks a script passed, and how many it skipped, by its last line; zeros when it did not come so far."""
    closing = re.findall(r"^(\d+) passed, \d+ failed(?:, (\d+) skipped)?$", log.read_text(errors="replace"), re.M)
    return (int(closing[-1][0]), int(closing[-1][1] or 0)) if closing else (0, 0)


class Script:
    """A test that is a script of its own; whatever the number of checks in it, it is one test."""

    def __init__(self, what, name, command, timeout):
        self.what, self.name, self.command, self.timeout = what, name, command, timeout

    def run(self):
        """(its line in the tally, whether it passed, seconds, log)"""
        code, seconds, log = run(self.name, self.command, self.timeout, SANITIZER_OPTIONS)
        checks, skipped = closing_checks(log)
        return self.what + f" ({checks} checks)" * bool(checks), code == 0 and checks + skipped > 0, seconds, log


def native_scripts(presets, prefix, soak, match):
    """tests/e2e/test_*.py and tests/attacks/test_*.py, as often as there are presets that want them; the sanitized ones take longest: first."""
    scripts = []
    for script in end_to_end_scripts():
        for preset in presets:
            if re.search(match, f"{script.parent.name} {script.stem[5:]}") and (preset == "dev" or soak or wants(script, preset)):
                command = [*(prefix if preset != "dev" else []), sys.executable, script, "--build", BUILD / preset] + ["--soak"] * soak
                scripts.append(Script(f"{preset}: {script.parent.name} {script.stem[5:]}", f"{preset}: {script.parent.name} {script.stem}", command, 7200 if soak else 900))
    return sorted(scripts, key=lambda script: script.what.startswith("dev"))


def wine_scripts(soak):
    """tests/windows/test_*.py"""
    return [Script(f"windows: {script.stem[5:]} under Wine", f"windows: {script.stem}",
                   [sys.executable, script, "--build", BUILD / "windows", "--native", BUILD / "dev"] + ["--soak"] * soak, 3600 if soak else 1800)
            for script in sorted((SOURCE / "tests" / "windows").glob("test_*.py"))]


def end_to_end(tally, native, wine):
    """The native scripts, several at once. A further lane runs those under Wine, one after another since they have one Wine prefix, and then
    takes native ones, too: scripts wait more than they work."""
    again = []

    def judge(script):
        what, good, seconds, log = script.run()
        tally.times.append((seconds, script.what))
        if not good:
            show(log)
        if good or not may_repeat(log):
            # what is skipped whole is no pass
            tally.add(what, int(good and closing_checks(log)[0] > 0), int(not good), tally.skips(log.read_text(errors="replace")), seconds)
            if not good:
                tally.failed(what, log)
        else:
            again.append((script, log.rename(log.with_suffix(".first.log"))))
            print(f"{what} failed; it runs once more at the end", flush=True)

    queue, lock = collections.deque(native), threading.Lock()

    def lane(first=(), may_take=lambda script: True):
        """Runs the scripts of its own, then those of the queue until it is empty or its next one is not for this lane."""
        for script in first:
            judge(script)
        while True:
            with lock:
                if not queue or not may_take(queue[0]):
                    return
                script = queue.popleft()
            judge(script)

    # attacks, which are last, measure latencies: one lane less
    with concurrent.futures.ThreadPoolExecutor(JOBS + 1) as lanes:
        running = [lanes.submit(lane) for _ in range(JOBS)] + [lanes.submit(lane, wine, lambda script: ": attacks " not in script.what)]
    for done in running:
        done.result()
    for script, first in again:
        what, good, seconds, log = script.run()
        if good:
            good = tally.unsteady(script.what, first)
        else:
            show(log)
            tally.failed(what, log)
        tally.add(what, int(good), int(not good), tally.skips(log.read_text(errors="replace")), seconds)


def main():
    parser = argparse.ArgumentParser(description="Builds and runs all tests.")
    parser.add_argument("--only", choices=NATIVE, help="one preset, without the Windows build and lint")
    parser.add_argument("--soak", action="store_true", help="the long form")
    parser.add_argument("--match", default="", metavar="REGEX", help="with --only: the tests of ctest, and scripts such as \"e2e ledger\", whose names match")
    arguments = parser.parse_args()
    if arguments.match and not arguments.only:
        parser.error("--match needs --only")
    tally = Tally()
    print(f"traces: {traces.real_folder() or 'generated; no real ones'}", flush=True)
    for row in tally.quarantine:
        print(f"quarantined: {row['test']}: {row['reason']}", flush=True)
    presets = [arguments.only] if arguments.only else NATIVE
    prefix = no_randomization()

    built, windows = [], None
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        builds = {preset: beside.submit(build, tally, preset) for preset in presets}
        if not arguments.only:
            windows = beside.submit(build_windows, tally)
            beside.submit(step, tally, "lint", [*LOW_PRIORITY, "tests/lint.sh"] + ["--quick"] * (not arguments.soak), 7200 if arguments.soak else 3600)
        for preset, done in builds.items():
            if done.result():
                built.append(preset)
                ctest(tally, preset, prefix if preset != "dev" else [], 3600 if arguments.soak else 900, arguments.match)
        wine = wine_scripts(arguments.soak) if windows and windows.result() else []
        end_to_end(tally, native_scripts(built, prefix, arguments.soak, arguments.match), wine)
        if "dev" in built and re.search(arguments.match, "demo"):
            step(tally, "dev: demo", ["env", "DEMO_SECONDS=3", "tests/demo.sh", BUILD / "dev"], 300)
    if arguments.soak and not arguments.only and build(tally, "windows-pdb"):
        step(tally, "windows: PDB", [sys.executable, "tests/windows/pdb.py", BUILD / "windows-pdb", BUILD / "dev"], 300)
    if arguments.soak and not arguments.only:
        step(tally, "two builds of a release have the same bytes", ["installer/release/reproducible.sh", "--libraries"], 10800)
    if arguments.soak:
        step(tally, "mutants of queries and ledgers", [sys.executable, "tests/mutate.py"], 36000)
        rounds = -(-len(list((SOURCE / "tests" / "fuzz").glob("fuzz_*.c"))) // JOBS)
        step(tally, "fuzz", [sys.executable, "tests/fuzz/run.py", "--seconds", FUZZ_SECONDS, "--jobs", JOBS], 3600 + rounds * (FUZZ_SECONDS + 600))
        step(tally, "coverage of the readers of batches", [sys.executable, "tests/coverage.py"], 3600)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
