#!/usr/bin/env python3
"""Plants what the structural lints must find, and checks that each finds it: a link cycle inside a library, an include that the
library does not name, an include without its folder, and two headers of one base name. Exits 1 when a lint misses one.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

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
    "two headers of one base name": ({"service/two/a.h": "int d(void);\n"}, "includes", "the base name is that of"),
}


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
            command = [sys.executable, TESTS / "lint_links.py", root]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.returncode, done.stdout


def main():
    failed = 0
    for which in ("links", "includes"):
        code, output = lint(which, {})
        if code:
            failed += 1
            print(f"FAILED: lint_{which}.py refuses a tree without a fault:\n{output}")
    for name, (changed, which, words) in PLANTED.items():
        code, output = lint(which, changed)
        if code != 1 or words not in output:
            failed += 1
            print(f"FAILED: {name}: lint_{which}.py ended with {code} and printed\n{output}")
    print(f"{len(PLANTED) + 2 - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
