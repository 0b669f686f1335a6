#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""Configuration files: each case of tests/golden/wrong-configs.txt is refused with exactly its lines, the generated
example in config/ and the generated pages of docs/reference are current, and the example is valid.

usage: test_config.py --build DIR [--update]"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests/golden/wrong-configs.txt"
PAGES = {"--example": ROOT / "config/etwagent.yaml"}


def read_cases():
    """The comment that opens the table, and its cases: {name: (configuration, lines on standard error)}."""
    head, *parts = re.split(r"^=== ", WRONG.read_text(encoding="utf-8"), flags=re.M)
    cases = {}
    for part in parts:
        name, text = part.split("\n", 1)
        cases[name] = tuple(re.split(r"^--- refused with\n", text, maxsplit=1, flags=re.M))
    return head, cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--update", action="store_true", help="write the pages and the expected lines anew")
    arguments = parser.parse_args()
    agent = arguments.build.resolve() / "service/app/etwagent"
    passed = failed = 0

    def check(ok, what):
        nonlocal passed, failed
        passed, failed = passed + bool(ok), failed + (not ok)
        if not ok:
            print(f"FAILED: {what}")

    scratch = tempfile.TemporaryDirectory(prefix="etwagent-test-")

    def run(*words):
        return subprocess.run([agent, "check", *words], cwd=scratch.name, capture_output=True, text=True, timeout=60)

    for option, page in PAGES.items():
        made = run(option)
        if arguments.update:
            page.write_text(made.stdout)
        check(made.returncode == 0 and page.exists() and page.read_text() == made.stdout,
              f"{page.relative_to(ROOT)} is not what 'etwagent check {option}' prints; run make pages")
    generate = [sys.executable, ROOT / "tests/generate_reference.py", "--build", arguments.build]
    made = subprocess.run(generate + ([] if arguments.update else ["--check"]), capture_output=True, text=True, timeout=300)
    check(made.returncode == 0, made.stdout + made.stderr)
    example = run(PAGES["--example"])
    check(example.returncode == 0, f"the example is refused: {example.stderr}")
    for words in ("ships to https://collector.example:8443\nkeeps at most 1024 MiB of batches", "labels this machine site: north\n",
                  "reads source boot: boot.etl as fast as it goes\n", 'user session "etwagent-security"', "64 to 256 buffers of 256 KiB",
                  "provider Microsoft-Windows-DNS-Client, level verbose\n", "note: key machine.key cannot be read now\n"):
        check(words in example.stdout, f"'{words}' is not among what the example would enable:\n{example.stdout}")
    check("have waited" not in example.stdout, "the example has no spool-age")
    check(json.loads(run("--json", PAGES["--example"]).stdout)["valid"] is True, "--json of the example")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as aged:
        aged.write(PAGES["--example"].read_text().replace("spool-age: 0\n", "spool-age: 90m\n"))
        aged.flush()
        check("drops batches of sessions that have waited there for 5400 s; batches of file sources wait however old they are\n"
              in run(aged.name).stdout, "spool-age is not explained")

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as both:
        both.write("sessions: [{name: a, output: both, file: a.etl, providers: [{provider: Microsoft-Windows-DNS-Client}]}, {name: b, providers: [{provider: Microsoft-Windows-DNS-Client}]}]\n")
        both.flush()
        check(run(both.name).stdout.count("warning: with real time beside a file") == 1, "real time beside a file gets a warning")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as sampled:
        sampled.write("sessions: [{name: a, kind: system, flags: [PMC_PROFILE], pmc-samples: [{source: TotalCycles, interval: 1000000}]}, {name: b, kind: system, flags: [PMC_PROFILE]}]\n")
        sampled.flush()
        check(run(sampled.name).stdout.count("warning: the list of sampled counters is the machine's") == 1, "a list of sampled counters gets a warning")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as logs:
        logs.write("sources: [{name: all, eventlog: [Security, Microsoft-Windows-Sysmon/Operational], begin: oldest}, "
                   "{name: some, eventlog: System, query: '*[System[(EventID=7045)]]'}]\n")
        logs.flush()
        read = run(logs.name).stdout
        check("reads source all: event log Security, Microsoft-Windows-Sysmon/Operational; after the last record that was read before, at first from the oldest "
              "one on\nreads source some: event log System; query *[System[(EventID=7045)]]; after the last record that was read before, at first from the next "
              "one on\n" in read, f"channels of the event log: {read}")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as six:
        six.write("sessions:\n" + "".join(f"  - {{name: k{i}, kind: system, flags: [PROC_THREAD], rundown: [process]}}\n" for i in range(6)))
        six.flush()
        check(run(six.name).returncode == 0, "six sessions that log their rundown themselves")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as filtered:
        filtered.write("sessions: [{name: a, providers: [{provider: Microsoft-Windows-Kernel-File, pids: ['4']}, {provider: Microsoft-Windows-DNS-Client, pids: ['4']}]}]\n")
        filtered.flush()
        check(run(filtered.name).stdout.count("warning: drivers log no events under a filter by process") == 1, "a filter by process at a provider of the kernel gets a warning")

    head, cases = read_cases()
    check(len(cases) >= 95, f"{len(cases)} wrong configurations")
    for name, (text, expected) in cases.items():
        pathlib.Path(scratch.name, f"{name}.yaml").write_text(text, encoding="utf-8")
        result = run(f"{name}.yaml")
        if arguments.update:
            cases[name] = (text, result.stderr)
            expected = result.stderr
        check(result.returncode == 3 and result.stderr == expected and not result.stdout,
              f"{name}: exit {result.returncode}, expected 3 and\n{expected}got\n{result.stderr}")
        printed = json.loads(run("--json", f"{name}.yaml").stdout)
        check(printed["valid"] is False and printed["problems"] == result.stderr.splitlines(), f"{name}: --json")
    if arguments.update:
        WRONG.write_text(head + "".join(f"=== {name}\n{text}--- refused with\n{lines}" for name, (text, lines) in cases.items()),
                         encoding="utf-8")

    missing = run("no-such-file.yaml")
    check(missing.returncode == 1 and "no-such-file.yaml" in missing.stderr, f"a missing file: {missing.stderr}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
