#!/usr/bin/env python3
"""Finds link cycles between the object files of a library: A calls a function of B, and B, through others or directly, one of A.

usage: tests/lint_links.py BUILD_FOLDER

Reads the symbols of each static library below BUILD_FOLDER with nm. An edge from one object to another is an undefined symbol of the first
that only the second defines. Prints each cycle with the symbols that tie it, one per edge; exits 1 when there is a cycle, 2 when no library is found.
"""
import collections
import pathlib
import re
import subprocess
import sys

LIBRARY = re.compile(r"lib(?:ea|ec)_\w+\.a")


def objects(archive):
    """What each object file of an archive defines, and what it asks of others: {object: (set, set)}."""
    found, current = {}, None
    printed = subprocess.run(["nm", "-g", str(archive)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    for line in printed.splitlines():
        if line.endswith(":"):
            name = line[:-1]
            while name in found:  # two folders of one library may have a file of the same name
                name += "'"
            current = found[name] = (set(), set())
        elif line.strip():
            kind, name = line.split()[-2:]
            current[kind in "Uw"].add(name)
    return found


def edges_of(found):
    """For each object the others of its archive that it needs, with one symbol for each: {object: {object: symbol}}."""
    owners = collections.defaultdict(set)
    for name, (defined, _) in found.items():
        for symbol in defined:
            owners[symbol].add(name)
    edges = {name: {} for name in found}
    for name, (_, needed) in found.items():
        for symbol in sorted(needed):
            for other in owners.get(symbol, ()):
                if other != name:
                    edges[name].setdefault(other, symbol)
    return edges


def reachable(edges, start):
    seen, waiting = set(), [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def cycles(edges):
    """Sets of objects that reach each other."""
    reach = {name: reachable(edges, name) for name in edges}
    done = set()
    for name in sorted(edges):
        if name in done or name not in reach[name]:
            continue
        members = {other for other in reach[name] if name in reach[other]}
        done |= members
        yield members


def main():
    build = pathlib.Path(sys.argv[1])
    plan = build / "build.ninja"  # an archive that it does not name is of an earlier state of the tree
    planned = plan.read_text(encoding="utf-8") if plan.exists() else None
    libraries = sorted(path for path in build.rglob("*.a")
                       if LIBRARY.fullmatch(path.name) and (planned is None or f"build {path.relative_to(build)}:" in planned))
    if not libraries:
        print(f"no library below {sys.argv[1]}")
        return 2
    failed = False
    for library in libraries:
        edges = edges_of(objects(library))
        for members in cycles(edges):
            failed = True
            print(f"{library.name}: a cycle of {', '.join(sorted(members))}")
            for name in sorted(members):
                for other, symbol in sorted(edges[name].items()):
                    if other in members:
                        print(f"    {name} -> {other}: {symbol}")
    if not failed:
        print(f"{len(libraries)} libraries, no link cycle")
    return failed


if __name__ == "__main__":
    sys.exit(main())
