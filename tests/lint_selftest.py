#!/usr/bin/env python3
"""Plants what the structural lints must find, and checks that each finds it: a link cycle inside a library, an include that the
library does not name, an include without its folder, two headers or two C files of one base name, wrong include guards, an exported function that
nothing calls, a counter that no code writes, static functions of one name, mistakes with a mutex, which clang's -Wthread-safety finds by proto/base/thread_safety.h, a figure in a
comment that clang-format may change, and faults in the comments that promises.py reads. Exits 1 when one is missed.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import lint_rules
import promises

TESTS = pathlib.Path(__file__).resolve().parent
GOOD = {
    "proto/one/CMakeLists.txt": "ea_library(ea_one SOURCES a.c b.c)\n",
    "proto/one/a.h": "int a(void);\n",
    "proto/one/a.c": '#include "proto/one/a.h"\nint b(void);\nint a(void) { return b(); }\n',
    "proto/one/b.c": "int b(void);\nint b(void) { return 1; }\n",
    "service/two/CMakeLists.txt": "ea_library(ea_two SOURCES c.c NEEDS ea_one)\n",
    "service/two/c.h": "int c(void);\n",
    "service/two/c.c": '#include "service/two/c.h"\n#include "proto/one/a.h"\nint c(void) { return a(); }\n',
}
# what is planted: the files that change, the lint, and words of its message
PLANTED = {
    "link cycle": ({"proto/one/b.c": '#include "proto/one/a.h"\nint b(void);\nint b(void) { return a(); }\n'}, "links", "a cycle of a.o, b.o"),
    "include of a library that is not named": ({"service/two/CMakeLists.txt": "ea_library(ea_two SOURCES c.c)\n"}, "includes",
                                               "which ea_two does not name in NEEDS"),
    "header that includes a header that is not exported": ({"service/two/c.h": '#include "proto/one/a.h"\nint c(void);\n'}, "includes",
                                                  "which ea_two does not name in EXPORTS"),
    "include without its folder": ({"service/two/c.c": '#include "c.h"\n#include "proto/one/a.h"\nint c(void) { return a(); }\n'}, "includes",
                                   "no header has this path"),
    "exported function that nothing calls": ({"proto/one/b.c": "int b(void);\nint b(void) { return 1; }\nint ea_left(void) { return 2; }\n"}, "exports",
                                             "ea_left: exported, and only tests call it"),
    "static functions of one name": ({"proto/state/d.c": "static int find(void) { return 1; }\n", "proto/state/e.c": "static int find(void) { return 2; }\n"}, "exports",
                                     "find: a static function of proto/state/d.c, proto/state/e.c"),
    "counter that no code writes": ({"proto/base/counters.h": "#define EA_COUNTERS(X, G, S) \\\n    X(jobs_done, 1, EA_INFO, EA_OF_LEDGER, \"jobs\")\n",
                                    "service/spool/ledger.c": "int left = EA_COUNT_jobs_done;\n"}, "exports", "jobs_done: a counter that no code writes"),
    "two headers of one base name": ({"service/two/a.h": "int d(void);\n"}, "includes", "the base name is that of"),
    "two C files of one base name": ({"service/two/a.c": "int d(void);\nint d(void) { return 1; }\n"}, "includes", "the base name is that of"),
}


# a function that needs a mutex, and what its callers do wrong
LOCKED = """#include "proto/base/platform.h"

typedef struct store {{
    ea_mutex *lock;
    int value;
}} store;

static void change(store *s) EA_REQUIRES(s->lock) {{
    ea_mutex_assert_held(s->lock);
    s->value++;
}}

static void read_all(store *s) EA_EXCLUDES(s->lock) {{
    ea_mutex_lock(s->lock);
    change(s);
    ea_mutex_unlock(s->lock);
}}

void planted(store *s);

void planted(store *s) {{
{body}
}}
"""
MUTEX = {
    "": "    ea_mutex_lock(s->lock);\n    change(s);\n    ea_mutex_unlock(s->lock);\n    read_all(s);",
    "calling function 'change' requires holding mutex": "    change(s);\n    read_all(s);",
    "still held at the end of function": "    read_all(s);\n    ea_mutex_lock(s->lock);\n    change(s);",
    "cannot call function 'read_all' while mutex": "    ea_mutex_lock(s->lock);\n    read_all(s);\n    ea_mutex_unlock(s->lock);",
}


def mutex(body):
    """Compiles a function with the clang options that the build has: (exit code, output)."""
    cmake = (TESTS.parent / "installer" / "cmake" / "house.cmake").read_text(encoding="utf-8")
    options = re.search(r'if\(CMAKE_C_COMPILER_ID STREQUAL "Clang"\)\s*add_compile_options\(([^)]*)\)', cmake).group(1).split()
    done = subprocess.run(["clang", "-std=c11", "-Werror", "-DEA_ASSERTIONS", *options, "-I", TESTS.parent, "-fsyntax-only", "-x", "c", "-"],
                          input=LOCKED.format(body=body), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


# include guards of collector/query/sql/ask.h: (text, whether lint_rules.py takes it)
GUARDS = [("#ifndef EC_QUERY_SQL_ASK_H\n#define EC_QUERY_SQL_ASK_H\n", True), ("#ifndef EC_QUERY_ASK_H\n#define EC_QUERY_ASK_H\n", False),
          ("#ifndef EC_QUERY_SQL_ASK_H\n#define EC_QUERY_ASK_H\n", False), ("#pragma once\n", False)]


GUID = "EA_GUID(0x70eb4f03, 0xc1de, 0x4f73, 0xa0, 0x51, 0x33, 0xd1, 0x3d, 0x54, 0x13, 0xbd)"
# texts of two files of the product, and whether lint_rules.py takes them
GUIDS = [((f"{{{GUID}}}, {{{GUID}}}", "EA_PROVIDER_KERNEL_REGISTRY"), True), ((GUID, GUID.replace(", ", ",\n  ")), False)]


def guids_are_good(texts):
    problems = []
    lint_rules.check_guids(zip(("proto/one/a.c", "service/b.c"), texts), lambda *problem: problems.append(problem))
    return not problems


def guard_is_good(text):
    problems = []
    lint_rules.check_guard(pathlib.PurePosixPath("collector/query/sql/ask.h"), text, lambda *problem: problems.append(problem))
    return not problems


LONG = "A sentence that is longer than the limit of a line, so that clang-format moves its last words to the next one, which is a figure:"
# a comment with a figure, and whether the lint takes it and clang-format keeps it
FIGURES = [(f"/* {LONG}\n *     (none) ----> OPEN\n *       |\n *       +--------> DEAD. */\nint a(void);\n", True),
           (f"/* {LONG}\n * (none) ----> OPEN\n * DEAD <-- all. */\nint a(void);\n", False)]


def figure_is_safe(text):
    """Both: the lint takes it; clang-format keeps each of its lines."""
    problems = []
    lint_rules.check_figures(pathlib.PurePosixPath("proto/one/a.h"), text, lambda *problem: problems.append(problem))
    form = (TESTS.parent / ".clang-format").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="etwagent-lint-") as root:
        (pathlib.Path(root) / ".clang-format").write_text(form, encoding="utf-8")
        made = subprocess.run(["clang-format", "--style=file", f"--assume-filename={root}/a.h"], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    return not problems, all(line in made.split("\n") for line in text.split("\n")[1:])


def lint(which, changed):
    """Runs one lint over the good tree with the changed files: (exit code, output)."""
    with tempfile.TemporaryDirectory(prefix="etwagent-lint-") as root:
        root = pathlib.Path(root)
        for name, text in {**GOOD, **changed}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if which == "includes":
            subprocess.run(["git", "init", "-q", root], check=True)
            command = [sys.executable, TESTS / "lint_includes.py", root]
        else:
            objects = []
            for name in ("a", "b"):
                objects.append(root / f"{name}.o")
                subprocess.run([os.environ.get("CC", "cc"), "-I", root, "-c", root / f"proto/one/{name}.c", "-o", objects[-1]], check=True)
            subprocess.run(["ar", "rcs", root / "libea_one.a", *objects], check=True)
            command = [sys.executable, TESTS / f"lint_{which}.py", root, *([root] if which == "exports" else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.returncode, done.stdout


# tests whose comments name promises, and what promises.py has to say of them
PROMISE = "# - Delivery 2: Each event arrives once. | 12 kills | 2026-11-21\n"
DOCUMENT = "# Promises\n\n## Delivery\n\n| promise | test | figure | date |\n|---|---|---|---|\n| an old row | `test_b.py` | | |\n"
NAMED = {
    "a promise of two tests": ({"e2e/test_a.py": PROMISE, "unit/test_c.c": "/* HEAD\n * - Delivery 2 */\n"},
                               "| Each event arrives once. | `test_a.py`, `unit.c` | 12 kills | 2026-11-21 |"),
    "a promise that two tests state": ({"e2e/test_a.py": PROMISE, "e2e/test_b.py": PROMISE}, "Delivery 2 is a promise of another test too"),
    "a promise without a text": ({"e2e/test_a.py": "# - Delivery 2\n"}, "no test has the text of Delivery 2"),
    "a section that the document lacks": ({"e2e/test_a.py": PROMISE + PROMISE.replace("Delivery 2", "Answers 1")}, "no section Answers with a table"),
}


def promises_of(tests):
    """The document and the sentences that promises.py makes of these tests."""
    with tempfile.TemporaryDirectory(prefix="etwagent-lint-") as root:
        promises.SOURCE = pathlib.Path(root)
        for name, text in tests.items():
            path = promises.SOURCE / "tests" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("HEAD", promises.HEAD) if name.endswith(".c") else f"# {promises.HEAD}\n{text}", encoding="utf-8")
        wrong, made = promises.tables()
        more, written = promises.with_tables(DOCUMENT, made)
        return "\n".join(wrong + more + [written])


def main():
    failed = 0
    for name, (tests, words) in NAMED.items():
        said = promises_of(tests)
        if words not in said or "an old row" in said and name == "a promise of two tests":
            failed += 1
            print(f"FAILED: {name}: promises.py made\n{said}")
    for which in ("links", "includes", "exports"):
        code, output = lint(which, {})
        if code:
            failed += 1
            print(f"FAILED: lint_{which}.py refuses a tree without a fault:\n{output}")
    for name, (changed, which, words) in PLANTED.items():
        code, output = lint(which, changed)
        if code != 1 or words not in output:
            failed += 1
            print(f"FAILED: {name}: lint_{which}.py ended with {code} and printed\n{output}")
    for text, is_good in GUARDS:
        if guard_is_good(text) != is_good:
            failed += 1
            print(f"FAILED: the include guard {text!r} is {'refused' if is_good else 'taken'}")
    for texts, is_good in GUIDS:
        if guids_are_good(texts) != is_good:
            failed += 1
            print(f"FAILED: the GUIDs of {texts} are {'refused' if is_good else 'taken'}")
    for text, is_good in FIGURES:
        if figure_is_safe(text) != (is_good, is_good):
            failed += 1
            print(f"FAILED: a figure: the lint takes it, clang-format keeps it: {figure_is_safe(text)}:\n{text}")
    for words, body in MUTEX.items():
        code, output = mutex(body)
        if bool(code) != bool(words) or words not in output:
            failed += 1
            print(f"FAILED: a mutex, '{words}': clang ended with {code} and printed\n{output}")
    print(f"{len(PLANTED) + len(MUTEX) + len(GUARDS) + len(FIGURES) + len(NAMED) + 3 - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
