#!/usr/bin/env python3
"""The sources of the Windows programs, read by clang as for Microsoft's compiler and library (clang-cl of Visual Studio, docs in
installer/windows/README.md): __GNUC__ is not defined, an enumeration is an int, the library has no POSIX header and none of the functions of
POSIX that mingw's has. Warnings are errors, as in that build. The headers are mingw's: which declarations of Microsoft's SDK differ, and
whether the program links, only Windows shows.

usage: tests/windows/microsoft.py BUILD"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = "x86_64-pc-windows-msvc19.38.33130"
ABSENT = ("strings.h", "unistd.h", "dirent.h", "getopt.h", "libgen.h", "pthread.h", "sched.h", "semaphore.h", "sys/time.h", "sys/param.h")
FUNCTIONS = ("strcasecmp", "strncasecmp", "strtok_r", "gmtime_r", "localtime_r", "fseeko", "ftello", "fseeko64", "ftello64", "asprintf", "vasprintf", "usleep",
             "strndup", "mempcpy", "getopt", "nanosleep", "clock_gettime", "gettimeofday", "opendir", "readdir")
# as house.cmake has them for Microsoft's compiler
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wthread-safety", "-Wno-gcc-compat", "-Wno-sign-compare")
PLANTED = {"a header of POSIX": "#include <strings.h>\nint x;\n",
           "a function of POSIX": "#include <string.h>\nint x(const char *a, const char *b);\nint x(const char *a, const char *b) { return strcasecmp(a, b); }\n",
           "what only gcc defines": "#if !defined(__GNUC__)\n#error \"no gcc\"\n#endif\nint x;\n"}


def overlay(folder):
    """Headers in front of mingw's: those that Microsoft lacks, and mingw's own with what does not compile for Microsoft's compiler left out."""
    for name in ABSENT:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#error \"Microsoft's library has no <{name}>\"\n")
    (folder / "_mingw.h").write_text("#include_next <_mingw.h>\n#undef __attribute__\n"
                                     "unsigned __int64 _umul128(unsigned __int64, unsigned __int64, unsigned __int64 *);\n"
                                     "#undef __MINGW_ATTRIB_NORETURN\n#define __MINGW_ATTRIB_NORETURN\n#undef __MINGW_ATTRIB_DEPRECATED\n#define __MINGW_ATTRIB_DEPRECATED\n")
    for name in ("string.h", "stdio.h", "stdlib.h", "time.h"):
        (folder / name).write_text(f"#include_next <{name}>\n" + "".join(f"#define {f} {f}_of_posix\n" for f in FUNCTIONS))


def commands(build):
    """(file, definitions, include paths, whether its warnings are off), of each C file of a program that is shipped."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file, words = pathlib.Path(entry["file"]), shlex.split(entry["command"])
        if file.suffix != ".c" or ROOT / "tests" in file.parents or build / "tests" in file.parents:
            continue
        system = [words[i + 1] for i, word in enumerate(words) if word == "-isystem"]
        yield (file, [w for w in words if w.startswith("-D") and "MINGW" not in w], [w for w in words if w.startswith("-I")] + [w for s in system for w in ("-isystem", s)],
               "-w" in words)


def read(headers, mingw, file, definitions=(), includes=(), quiet=False):
    done = subprocess.run(["clang", f"--target={TARGET}", "-fsyntax-only", "-std=c11", "-nostdlibinc", "-Wno-ignored-attributes", *(["-w"] if quiet else WARNINGS),
                           "-isystem", headers, *definitions, *includes, "-isystem", mingw, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    mingw = subprocess.run(["x86_64-w64-mingw32-gcc", "-print-sysroot"], stdout=subprocess.PIPE, text=True).stdout.strip()
    mingw = next(p for p in (f"{mingw}/x86_64-w64-mingw32/include", "/usr/x86_64-w64-mingw32/include") if os.path.isdir(p))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        headers = pathlib.Path(folder) / "headers"
        headers.mkdir()
        overlay(headers)
        for what, text in PLANTED.items():
            planted = pathlib.Path(folder) / "planted.c"
            planted.write_text(text)
            if read(headers, mingw, planted)[0] == 0:
                failed += 1
                print(f"{what} is taken")
        files = list(commands(build))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (file, *_), (code, said) in zip(files, pool.map(lambda c: read(headers, mingw, *c), files)):
                if code:
                    failed += 1
                    print(file, *re.findall(r".*error: .*", said)[:5] or [said[:500]], sep="\n    ")
    print(f"{len(files)} files as for Microsoft's compiler, {failed} failures")
    return 1 if failed or len(files) < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
