#!/usr/bin/env python3
"""Which test covers which promise: reads the tables of the documents below, whose last columns name tests.
It fails when a row of a document's promises names no test, or a test that does not exist. A row with "read only" was checked by reading
alone: no test covers it. Tests that the prose of SECURITY.md names have to exist, too, and each finding of the security review has a row in hardening.md.

usage: tests/promises.py          quiet; exit code 1 with a line for each row that is wrong
       tests/promises.py --list   each test with the promises that name it
"""
import argparse
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PROMISES, WINDOWS = "docs/verification/promises.md", "docs/verification/windows.md"
DOCUMENTS = ("docs/security/threat-model.md", "docs/verification/hardening.md", "docs/reference/limits.md", PROMISES, WINDOWS)
STRICT = ("docs/security/threat-model.md", "docs/verification/hardening.md", PROMISES)  # each row of a table with a column "test" names one
PROSE = ("SECURITY.md", "docs/security/README.md", "docs/reference/eviction.md", "docs/reference/sizing.md")  # each test that its text names has to exist
FINDINGS = ("docs/verification/hardening.md", {f"S{number}" for number in range(1, 36)})  # each has a row
NAME = re.compile(r"`((?:unit|fuzz|golden)\.[\w*]+|(?:[\w./-]*/)?(?:test_\w+|imports)\.(?:py|c)|tests/[\w/.-]+)`")


def exists(name):
    tests = SOURCE / "tests"
    kind, _, rest = name.partition(".")
    if kind == "unit":
        return any((tests / folder / f"test_{rest}.c").is_file() for folder in ("unit",))
    if kind == "fuzz":
        return rest == "*" or (tests / "fuzz" / f"fuzz_{rest}.c").is_file()
    if kind == "golden":
        return True
    if name.startswith("tests/"):
        return (SOURCE / name).exists()
    return any((tests / folder / name).is_file() for folder in ("", "judges", "e2e", "windows", "attacks", "unit"))


def rows():
    """(document, line number, the row's cells, the titles of its table)"""
    for document in DOCUMENTS:
        titles = None
        for number, line in enumerate((SOURCE / document).read_text(encoding="utf-8").splitlines(), 1):
            if not line.startswith("|"):
                titles = None
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if titles is None:
                titles = cells
            elif not set("".join(cells)) <= set("-: "):
                yield document, number, cells, titles


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="prints each test with the promises that name it")
    arguments = parser.parse_args()
    wrong, promises, count = [], {}, 0
    for document, number, cells, titles in rows():
        names = [name for cell in cells[1:] for name in NAME.findall(cell)]
        count += bool(names)
        wrong += [f"{document}:{number}: there is no test {name}" for name in names if not exists(name)]
        if document in STRICT and "test" in titles and not names and "read only" not in cells[-1]:
            wrong.append(f"{document}:{number}: the promise names no test: {cells[0]}")
        for name in names:
            promises.setdefault(name, []).append(f"{document}: {cells[0]}")
    for document in PROSE:
        for number, line in enumerate((SOURCE / document).read_text(encoding="utf-8").splitlines(), 1):
            for name in NAME.findall(line):
                count += 1
                wrong += [] if exists(name) else [f"{document}:{number}: there is no test {name}"]
                promises.setdefault(name, []).append(f"{document}:{number}")
    found = {name for document, _, cells, _ in rows() if document == FINDINGS[0] for name in re.findall(r"\bS\d+\b", cells[0])}
    wrong += [f"{FINDINGS[0]}: the finding {name} has no row" for name in sorted(FINDINGS[1] - found)]
    if arguments.list:
        for name in sorted(promises):
            print("\n    ".join([name, *promises[name]]))
    print("\n".join(wrong) or f"{count} promises name tests that exist")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
