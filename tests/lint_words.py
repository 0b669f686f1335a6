#!/usr/bin/env python3
"""Counts words of a private dialect in the sources and documents (docs/style.md has what to write instead). tests/words.tsv holds a count for
each file. A file that exceeds its count fails the lint; a file that is not in the list may have none.

usage: tests/lint_words.py            exit code 1 with a line for each file that exceeds its count; the last line has the total
       tests/lint_words.py --list     each place: path:line: word
       tests/lint_words.py --words    the number of places of each pattern
       tests/lint_words.py --lower    writes lower counts to tests/words.tsv; never a higher one
       tests/lint_words.py --rewrite  writes all counts anew, for files that were moved or merged
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BASELINE = SOURCE / "tests" / "words.tsv"
FILES = ("*.c", "*.h", "*.py", "*.md", "*.yaml", "*.yml", "*.jsx")
EXEMPT = {"docs/style.md", "tests/lint_words.py"}  # they quote the words

# Underscores are letters here, so that names of members and counters do not count. "Stands for" and "stands alone" are plain English.
PATTERNS = (
    "told", "tells?", "telling", "nobody", "somebody", "behind", "whoever",
    "(?:gives?|gave|given|giving) way",
    "(?:stands?|stood|standing)(?! for| alone)",
    "lets? go|letting go",
    "(?:is|are|was|were|be|been|being) said", "says? so",
    "(?:is|are|was|were|be) noticed", "(?:goes|go) before", "(?:comes?|came) behind",
    "what (?:has|is|was|were|are|comes|came) (?:no|not|there|already)", "what there (?:is|was)",
    "who (?:asks?|has|have|had|reads?|wants?|knows?|comes?|it is)",
    "the ones? that", "(?:is|are|was|were|be) done without", "goes without", "as many as (?:there are|it has)",
    "somebody else's", "once a (?:kind|time)", "asks? for nothing", "(?:has|have|had) nothing to say",
)
WORD = re.compile(r"(?<![\w-])(?:" + "|".join(PATTERNS) + r")(?![\w])", re.I)


def tracked():
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *FILES], cwd=SOURCE, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    return sorted(n for n in names if n and n not in EXEMPT and (SOURCE / n).is_file() and not os.path.islink(SOURCE / n))


def places(name):
    """(line number, the word). A phrase may go on in the next line, after the marks of a comment."""
    text = (SOURCE / name).read_text(encoding="utf-8", errors="replace")
    flat = re.sub(r"\n[ \t]*(?:\*|#|//|--)?[ \t]*", lambda m: " " * len(m[0]), text)
    flat = re.sub(r" {2,}", lambda m: " " + "\0" * (len(m[0]) - 1), flat)
    kept = [i for i, c in enumerate(flat) if c != "\0"]
    for match in WORD.finditer("".join(flat[i] for i in kept)):
        yield text.count("\n", 0, kept[match.start()]) + 1, " ".join(match[0].split())


def read_baseline():
    start, counts = None, {}
    for line in BASELINE.read_text(encoding="utf-8").splitlines() if BASELINE.exists() else ():
        name, _, count = line.partition("\t")
        if name == "start":
            start = int(count)
        elif not line.startswith("#"):
            counts[name] = int(count)
    return start, counts


def write_baseline(start, counts):
    lines = [f"{name}\t{count}" for name, count in sorted(counts.items()) if count]
    head = ["# Written by tests/lint_words.py: the most dialect words that a file may have. 'start' is the total when counting began.", f"start\t{start}"]
    BASELINE.write_text("\n".join(head + lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("list", "words", "lower", "rewrite"):
        parser.add_argument(f"--{option}", action="store_true")
    arguments = parser.parse_args()
    found = {name: list(places(name)) for name in tracked()}
    counts = {name: len(words) for name, words in found.items()}
    total = sum(counts.values())
    start, most = read_baseline()
    if arguments.list:
        print("\n".join(f"{name}:{line}: {word}" for name, words in found.items() for line, word in words))
    if arguments.words:
        by_word = collections.Counter(word.lower() for words in found.values() for _, word in words)
        print("\n".join(f"{count}\t{word}" for word, count in by_word.most_common()))
    if arguments.rewrite:
        write_baseline(start or total, counts)
        return 0
    wrong = [f"{name}: {counts[name]} dialect words, {most.get(name, 0)} allowed: {', '.join(f'{line} {word}' for line, word in found[name][:12])}"
             for name in counts if counts[name] > most.get(name, 0)]
    below = sum(counts.get(name, 0) < count for name, count in most.items())
    if arguments.lower:
        write_baseline(start, {name: min(count, counts.get(name, 0)) for name, count in most.items()})
    print("\n".join(wrong + [f"{total} dialect words in {sum(map(bool, counts.values()))} files; {start} when counting began"
                             + (f"; {below} files are below their count (--lower)" if below and not arguments.lower else "")]))
    if wrong:
        print("docs/style.md says what to write instead; tests/lint_words.py --list names the places")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
