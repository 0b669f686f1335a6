#!/usr/bin/env python3
"""Which test covers which promise: reads the tables of the documents below, whose last columns name tests.
The tables of promises.md are made of comments in the tests: a test names the promises that it breaks. A comment after the head of a test's file
has a line for each: "- SECTION NUMBER: promise | figure | date"; another test of the same promise has "- SECTION NUMBER" alone. The number
orders the rows of a section.
It fails when a row of a document's promises names no test, or a test that does not exist. A row with "read only" was checked by reading
alone: no test covers it. Tests that the prose of SECURITY.md names have to exist, too, and each finding of the security review has a row in hardening.md.

usage: tests/promises.py          quiet; exit code 1 with a line for each row that is wrong, and when promises.md is not what the tests say
       tests/promises.py --write  writes the tables of promises.md
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


HEAD = "Promises (tests/promises.py --write puts them into docs/verification/promises.md):"
KEY = re.compile(r"- ([A-Z][\w ,]*?) (\d+)(?:: (.*))?$", re.S)
TABLE = re.compile(r"^\| promise \|.*\n\|[-|]+\n(?:\|.*\n)*", re.M)
SECTION = re.compile(r"^## (.+)$", re.M)


def shown(path):
    """A test's name as documents have it."""
    relative = path.relative_to(SOURCE / "tests")
    if relative.parts[0] == "unit":
        return "unit." + relative.stem.removeprefix("test_")
    return relative.name if relative.parts[0] == "e2e" else f"tests/{relative}"


def stated(path):
    """The promises that a test's comment names: (section, number, text or None)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for first, line in enumerate(lines):
        if line.lstrip("/*# ").startswith(HEAD):
            break
    else:
        return
    mark, entries = ("# ", []) if path.suffix == ".py" else (" * ", [])
    for line in lines[first + 1:]:
        if not line.startswith(mark):
            break
        text = line[len(mark):]
        if text.startswith("- "):
            entries.append(text)
        elif entries and text.startswith("  "):
            entries[-1] += " " + text.strip()
        else:
            break
    for entry in entries:
        found = KEY.fullmatch(entry.removesuffix("*/").strip())
        if not found:
            raise SystemExit(f"{path.relative_to(SOURCE)}: no promise: {entry}")
        yield found.group(1), int(found.group(2)), found.group(3)


def tables():
    """What is wrong, and each section's table as the tests have it: ([sentence], {section: text})."""
    texts, tests, wrong = {}, {}, []
    for path in sorted((SOURCE / "tests").rglob("*.[cp]*")):
        if path.suffix not in (".c", ".py") or path.name == "promises.py":
            continue
        for section, number, text in stated(path):
            key = (section, number)
            if text is None:
                tests.setdefault(key, []).append(shown(path))
            elif key in texts:
                wrong.append(f"{path.relative_to(SOURCE)}: {section} {number} is a promise of another test too")
            else:
                texts[key] = text
                tests.setdefault(key, []).insert(0, shown(path))
    made = {}
    for key in sorted(tests):
        if key not in texts:
            wrong.append(f"{', '.join(tests[key])}: no test has the text of {key[0]} {key[1]}")
            continue
        promise, figure, date = (part.strip() for part in texts[key].split(" | "))
        names = ", ".join(f"`{name}`" for name in tests[key])
        made.setdefault(key[0], ["| promise | test | figure | date |", "|---|---|---|---|"]).append(f"| {promise} | {names} | {figure} | {date} |")
    return wrong, {section: "\n".join(lines) + "\n" for section, lines in made.items()}


def with_tables(text, made):
    """The document with the tables that the tests have: (what is wrong, text)."""
    wrong, parts = [], SECTION.split(text)  # the text before, then title and text of each section
    for i in range(1, len(parts), 2):
        title = parts[i]
        if not TABLE.search(parts[i + 1]):
            continue
        if title not in made:
            wrong.append(f"{PROMISES}: no test names a promise of the section {title}")
            continue
        parts[i + 1] = TABLE.sub(lambda _, t=title: made[t], parts[i + 1], count=1)
    wrong += [f"{PROMISES}: it has no section {title} with a table" for title in made if title not in parts[1::2]]
    joined = parts[0] + "".join(f"## {parts[i]}{parts[i + 1]}" for i in range(1, len(parts), 2))
    return wrong, joined


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
    parser.add_argument("--write", action="store_true", help="writes the tables of promises.md")
    arguments = parser.parse_args()
    promises, count = {}, 0
    wrong, made = tables()
    document = (SOURCE / PROMISES).read_text(encoding="utf-8")
    more, written = with_tables(document, made)
    wrong += more
    if arguments.write:
        (SOURCE / PROMISES).write_text(written, encoding="utf-8")
    elif written != document:
        wrong.append(f"{PROMISES}: its tables are not what the tests say: tests/promises.py --write")
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
