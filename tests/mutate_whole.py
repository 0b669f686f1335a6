#!/usr/bin/env python3
"""Every mutant of tests/mutate.py of a file, asked of the quick unit tests: a count where tests/mutate.py takes a sample.

The file is compiled once: each of its functions has, beside its own body, the body of each mutant, and the environment variable EA_MUTANT chooses one when
a program begins. Each unit test is linked once. Mutants outside of functions (SQL in tables) are compiled one at a time.

A mutant whose body the compiler refuses is left out, as tests/mutate.py leaves it out. What the unit tests catch is written to --state in the form of
tests/mutate.py: its run with the same --state asks the judges and the end-to-end tests about the others alone.

usage: tests/mutate_whole.py FILE... [--build DIR] [--folder DIR] [--state FILE] [--units NAME,...] [--again LINE,...]
"""
import argparse
import collections
import os
import pathlib
import re
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))
import mutate  # noqa: E402
import relink  # noqa: E402

# The head of a function, up to its brace, and its body.
FUNCTION = re.compile(r"^(?!struct|enum|union|typedef|#)([A-Za-z_][^;={}]*?\)) \{\n(.*?)^\}\n", re.M | re.S)
REFUSED = re.compile(r"(?:^| at )mutant-(\d+):\d+:\d+(?:: error|[:,]$)", re.M)
CHOICE = """
#include <stdlib.h>
__attribute__((constructor)) static void choose_mutant(void) {
    const char *chosen = getenv("EA_MUTANT");
    chosen_mutant = chosen ? atoi(chosen) : 0;
}
"""
TIMES_LONGER, LEAST_S = 10, 20


def inside(functions, mutant):
    """The function that has the mutant in its body, or None."""
    return next((f for f in functions if f.start(2) <= mutant.begin and mutant.end <= f.end(2)), None)


def own_labels(body, number):
    """A body whose labels have names of their own."""
    for label in set(re.findall(r"\bgoto (\w+);", body)):
        body = re.sub(rf"\b{label}\b(?=\s*[:;])", f"{label}_{number}", body)
    return body


def with_all(name, text, numbered):
    """The text of a file whose functions have the bodies of these mutants, {number: mutant}, beside their own."""
    of, functions = collections.defaultdict(list), list(FUNCTION.finditer(text))
    for number, mutant in numbered.items():
        of[inside(functions, mutant).start()].append((number, mutant))
    parts, at = ["static int chosen_mutant;\n", f'#line 1 "{name}"\n'], 0
    for function in functions:
        if function.start() not in of:
            continue
        begin, end = function.span(2)
        ends = "return;\n" if re.match(r"(static |inline )*void \w", function[1]) else ""
        parts.append(text[at:begin] + "switch (chosen_mutant) {\n")
        for number, mutant in of[function.start()]:
            body = own_labels(text[begin:mutant.begin] + mutant.instead + text[mutant.end:end], number)
            parts.append(f'#line 1 "mutant-{number}"\ncase {number}: {{\n{body}{ends}}}\n')
        line = text.count("\n", 0, begin) + 1
        parts.append(f'#line {line} "{name}"\ndefault: break;\n}}\n{{\n#line {line} "{name}"\n{text[begin:end]}}}\n')
        at = end
    return "".join(parts) + text[at:] + CHOICE


class CompilerLog:
    """A log that keeps what the compiler wrote last."""

    def __init__(self, log):
        self.log, self.last = log, ""

    def write(self, text):
        self.last = text
        self.log.write(text)
        self.log.flush()


class Tests:
    """Unit tests that link a file, with the seconds that each takes."""

    def __init__(self, made, units, log):
        self.made, self.log, self.seconds = made, log, {}
        self.units = [unit for unit in units if self.link(unit)]

    def link(self, unit):
        return self.made.link(f"tests/unit/test_{unit}", self.log)

    def path(self, unit):
        return self.made.folder / "tests" / "unit" / f"test_{unit}"

    def measure(self):
        """How long each takes with the unchanged functions; the fastest come first."""
        for unit in self.units:
            begun = time.monotonic()
            found = mutate.fails([self.path(unit)], self.made.folder, self.log, 600)
            if found:
                raise SystemExit(f"unit.{unit} fails without a mutant: {found}")
            self.seconds[unit] = time.monotonic() - begun
        self.units.sort(key=self.seconds.get)

    def catch(self, number, log):
        """The first that fails with a mutant, or None."""
        for unit in self.units:
            log.write(f"---- {unit} with mutant {number}\n")
            if mutate.fails(["env", f"EA_MUTANT={number}", self.path(unit)], self.made.folder, log, max(LEAST_S, TIMES_LONGER * self.seconds[unit])):
                return f"unit.{unit}"
        return None


def built(name, text, numbered, made, log):
    """The mutants that the compiler takes; the file with all of them is compiled."""
    output = CompilerLog(log)
    while not made.change(name, with_all(name, text, numbered), output):
        refused = {int(number) for number in REFUSED.findall(output.last)} & set(numbered)
        if not refused:
            raise SystemExit(f"{name} does not compile with its mutants: see the log")
        numbered = {number: mutant for number, mutant in numbered.items() if number not in refused}
    return numbered


def outcomes(name, made, options, log):
    """(mutant, outcome as in tests/mutate.py) of each mutant of a file."""
    text = (SOURCE / name).read_text(encoding="utf-8")
    before, functions = mutate.remembered(options.state), list(FUNCTION.finditer(text))
    every = [m for m in mutate.mutants(name) if not options.again or str(m.line) in options.again.split(",")]
    yield from ((m, before[m.key]) for m in every if m.key in before)
    waiting = [m for m in every if m.key not in before]
    numbered = {number: m for number, m in enumerate(waiting, 1) if inside(functions, m)}
    kept = built(name, text, numbered, made, log)
    yield from ((m, ("did not build", "", None)) for number, m in numbered.items() if number not in kept)
    units = options.units.split(",") if options.units else mutate.below(mutate.UNITS_OF, name, []) + mutate.below(mutate.SLOW_UNITS, name, [])
    tests = Tests(made, units, log)
    tests.measure()
    print(f"{name}: {len(every)} mutants, {len(kept)} of them in one object;", ", ".join(f"unit.{u} {tests.seconds[u]:.1f} s" for u in tests.units), flush=True)
    for number, mutant in kept.items():
        by = tests.catch(number, log)
        yield mutant, ("caught", by, None) if by else ("survived", "", False)
    for mutant in waiting:
        if not inside(functions, mutant):
            yield mutant, by_itself(mutant, text, made, tests, log)


def by_itself(mutant, text, made, tests, log):
    if not made.change(mutant.name, text[:mutant.begin] + mutant.instead + text[mutant.end:], log):
        return "did not build", "", None
    for unit in tests.units:
        tests.link(unit)
    by = tests.catch(0, log)
    return ("caught", by, None) if by else ("survived", "", False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="files of tests/mutate.py")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "dev", help="a build of the unchanged sources; default build/dev")
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build" / "mutants" / "whole", help="where the programs are; default build/mutants/whole")
    parser.add_argument("--state", type=pathlib.Path, help="a file of outcomes: those that it has are taken from it, those that are caught are added")
    parser.add_argument("--units", default="", help="these unit tests alone, with commas; default those that tests/mutate.py names")
    parser.add_argument("--again", default="", help="the mutants of these lines alone, with commas")
    options = parser.parse_args()
    known, targets = mutate.equivalents(), [f"tests/unit/test_{unit}" for unit in mutate.UNITS]
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("EA_MUTANT", None)
    with open(options.folder / "whole.log", "w", encoding="utf-8") as log:
        for name in options.files:
            made, found = relink.Relinked(options.build, options.folder / name.replace("/", "-"), targets), collections.Counter()
            before = mutate.remembered(options.state)
            for mutant, outcome in outcomes(name, made, options, log):
                reason = known.get((mutant.name, mutant.of, mutant.was.strip(), mutant.instead.strip()))
                how = "equivalent" if outcome[0] == "survived" and reason else outcome[0]
                found[how] += 1
                if outcome[0] != "survived" and mutant.key not in before:
                    mutate.remember(options.state, mutant, outcome)
                print(f"{how:13} {mutant} [{outcome[1] or reason or ''}]", flush=True)
            counted = found["caught"] + found["survived"]
            print(f"{name}: {found['caught']} caught, {found['survived']} survived, {found['equivalent']} change no answer, {found['did not build']} did not build:"
                  f" {100 * found['caught'] / max(counted, 1):.1f} % of {counted} are caught", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
