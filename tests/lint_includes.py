#!/usr/bin/env python3
"""Checks that a file includes only headers of its own library and of the libraries that its library names.

usage: tests/lint_includes.py [ROOT]      ROOT: of another checkout

A library is an `ea_library(NAME SOURCES ... NEEDS ... EXPORTS ...)` of a CMakeLists.txt. A header belongs to the library of its
folder. Where several libraries share a folder, it belongs to the library that has a source of the same name (x_parts.h: that has x.c), else
to each of them.
Rules:
- each quoted include is a path from the repository's root (the path of a generated header starts at the build folder);
- a library's file includes headers of its own, of the libraries in NEEDS and EXPORTS, and of the libraries that those export;
- a library's header includes only what the library exports: headers of its own and of the libraries in EXPORTS;
- no two headers of the product have the same base name, and no two C files, so that a name in a text, an editor or a debugger identifies
  one file. Apart are main.c, the files of commands (cmd_run.c), of which each program has its own, and those of proto/event/classes, which are
  called as their families of events.
Prints FILE:LINE: sentence, exits 1 when there is any.
"""
import collections
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
WORDS = ("SOURCES", "NEEDS", "EXPORTS")
SHARED_NAME = re.compile(r"/(?:main|cmd_\w+)\.c$|^proto/event/classes/\w+\.c$")  # files whose base name another file may have


class Library:
    def __init__(self, name, folder, words):
        self.name, self.folder = name, folder
        self.sources = {source for source in words["SOURCES"] if "$" not in source}
        self.needs, self.exports = words["NEEDS"], words["EXPORTS"]


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE,
                            stdout=subprocess.PIPE, check=True).stdout.decode()
    return sorted(path for path in listed.split("\0") if path and (SOURCE / path).is_file())


def libraries_of(files):
    found = collections.OrderedDict()
    for path in files:
        if not path.endswith("CMakeLists.txt"):
            continue
        text = re.sub(r"#[^\n]*", "", (SOURCE / path).read_text(encoding="utf-8"))
        for body in re.findall(r"\bea_library\(([^)]*)\)", text):
            name, *rest = body.split()
            words, key = {word: [] for word in WORDS}, None
            for word in rest:
                if word in WORDS:
                    key = word
                else:
                    words[key].append(word)
            folder = path.rsplit("/", 1)[0]
            if name in found:  # one form for Windows, one for elsewhere
                for key in WORDS:
                    words[key] = list(dict.fromkeys([*getattr(found[name], key.lower()), *words[key]]))
            found[name] = Library(name, folder, words)
    return found


def owner_of(libraries, path):
    """The libraries that a file may belong to: those of the nearest folder above it that has any."""
    folder, name = path.rsplit("/", 1)
    while True:
        here = [library for library in libraries.values() if library.folder == folder]
        if here:
            break
        if "/" not in folder:
            return []
        name = f"{folder.rsplit('/', 1)[1]}/{name}"
        folder = folder.rsplit("/", 1)[0]
    stem, whole = re.sub(r"\.[ch]$", ".c", name), re.sub(r"_parts\.h$", ".c", name)
    named = [library for library in here if {stem, whole, name} & library.sources]
    return named or here


def exported(libraries, name, seen=None):
    """A library and what it exports, and what those export."""
    seen = set() if seen is None else seen
    if name in seen or name not in libraries:
        return seen
    seen.add(name)
    for other in libraries[name].exports:
        exported(libraries, other, seen)
    return seen


def main():
    problems = []
    files = tracked()
    libraries = libraries_of(files)
    headers = {path for path in files if path.endswith(".h")}
    generated = {"proto/wire/batch.pb-c.h"}
    bases = {}
    for path in files:
        name = path.rsplit("/", 1)[-1]
        if not name.endswith((".c", ".h")) or path.startswith(("tests/", "installer/")) or SHARED_NAME.search(path):
            continue
        other = bases.setdefault(name, path)
        if other != path:
            problems.append(f"{path}:1: the base name is that of {other}: files of the product have different base names")
    for path in files:
        if not path.endswith((".c", ".h")) or path.startswith("tests/plugins/"):
            continue
        own = owner_of(libraries, path) if not path.startswith(("tests/", "installer/")) else []
        for number, line in enumerate((SOURCE / path).read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1)
            if name not in headers and name not in generated:
                problems.append(f"{path}:{number}: include {name}: no header has this path from the repository's root")
                continue
            if not own or name in generated:
                continue
            theirs = owner_of(libraries, name)
            for library in own:
                if library in theirs:
                    continue
                direct = library.exports if path.endswith(".h") else [*library.needs, *library.exports]
                seen = set()
                for other in direct:
                    exported(libraries, other, seen)
                found = [other.name for other in theirs if other.name in seen]
                if not found:
                    word = "EXPORTS" if path.endswith(".h") else "NEEDS"
                    names = " or ".join(other.name for other in theirs) or "no library"
                    problems.append(f"{path}:{number}: include {name}: it is of {names}, which {library.name} does not name in {word}")
    print("\n".join(problems) if problems else f"{len(libraries)} libraries include what they name")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
