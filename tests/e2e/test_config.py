#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""Configuration files: each file in tests/golden/wrong-configs is refused with exactly the lines beside it, the generated
example in config/ and the generated pages of docs/reference are current, and the example is valid.

usage: test_config.py --build DIR [--update]"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests/golden/wrong-configs"
PAGES = {"--example": ROOT / "config/etwagent.yaml"}


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

    def run(*words):
        return subprocess.run([agent, "check", *words], cwd=WRONG, capture_output=True, text=True, timeout=60)

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

    files = sorted(WRONG.glob("*.yaml"))
    check(len(files) >= 60, f"{len(files)} wrong files")
    for path in files:
        said = path.with_suffix(".said")
        result = run(path.name)
        if arguments.update:
            said.write_text(result.stderr)
        check(result.returncode == 3 and result.stderr == said.read_text() and not result.stdout,
              f"{path.name}: exit {result.returncode}, expected 3 and\n{said.read_text()}got\n{result.stderr}")
        told = json.loads(run("--json", path.name).stdout)
        check(told["valid"] is False and told["problems"] == result.stderr.splitlines(), f"{path.name}: --json")

    missing = run("no-such-file.yaml")
    check(missing.returncode == 1 and "no-such-file.yaml" in missing.stderr, f"a missing file: {missing.stderr}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
