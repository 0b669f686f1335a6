#!/usr/bin/env python3
"""The verdict on a run of runbook.ps1 -Format JUnit in the Windows job: a failure that known.txt does not name ends it with 1, and so does a
line of known.txt whose promise holds now. Promises that were not checked are counted, and listed.

usage: verdict.py RESULTS.xml [--known known.txt] [--least N]      GITHUB_STEP_SUMMARY gets a table"""
import argparse
import os
import pathlib
import sys
import xml.etree.ElementTree


def read(path):
    """{promise: ("PASS", "FAIL" or "SKIP", the message)}"""
    results = {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        failure, skipped = case.find("failure"), case.find("skipped")
        name = case.get("name")
        if name in results:
            raise SystemExit(f"{path}: two results of '{name}'")
        if failure is not None:
            results[name] = ("FAIL", failure.get("message", ""))
        elif skipped is not None:
            results[name] = ("SKIP", skipped.get("message", ""))
        else:
            results[name] = ("PASS", "")
    return results


def known_of(path):
    """The promises that fail on this kind of machine, one a line; # begins a comment."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()] if path else []
    return {line for line in lines if line}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--known", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=50, help="so many promises at least have to hold (default %(default)s)")
    arguments = parser.parse_args()
    results, known = read(arguments.results), known_of(arguments.known)
    failed = {name for name, (result, _) in results.items() if result == "FAIL"}
    passed = sum(result == "PASS" for result, _ in results.values())
    wrong = [f"{name}: {results[name][1]}" for name in sorted(failed - known)]
    wrong += [f"{name}: known.txt names it, and it holds or is not there" for name in sorted(known - failed)]
    if passed < arguments.least:
        wrong.append(f"{passed} promises hold, expected {arguments.least} at least")
    lines = [f"{passed} of {len(results)} promises hold, {sum(result == 'SKIP' for result, _ in results.values())} not checked, {len(failed)} failed"]
    lines += [f"{result}  {name}{f' ({said})' if said else ''}" for name, (result, said) in results.items() if result != "PASS"]
    print("\n".join(lines + [f"WRONG: {line}" for line in wrong]))
    if "GITHUB_STEP_SUMMARY" in os.environ:
        with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as page:
            page.write("\n".join(["```", *lines, "```", ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
