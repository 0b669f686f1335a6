#!/usr/bin/env python3
"""Finds functions that a library exports and that only tests call: the product has no use for them.

usage: tests/lint_exports.py BUILD_FOLDER [SOURCE_FOLDER]

An exported symbol of a library below BUILD_FOLDER is used when another object of the product needs it (nm), or when a C file of the
product names it besides its definition: in its own file, or in one that this build leaves out (Windows). FOR_TESTS lists the functions that
exist for tests, with the reason; a line there that no longer holds is a fault too. Prints each, exits 1 when there is any, 2 when no library
is found. Besides, a static function's name is the name of one function only, so that a debugger and a search find the one: files of one name
(both programs' command of that name, a file for Windows and one for POSIX) may share it. And each counter of proto/base/counters.h is written by code: a file apart from those that only
read counters names it.
"""
import collections
import pathlib
import re
import subprocess
import sys

LIBRARY = re.compile(r"lib(?:ea|ec)_\w+\.a")
PARTS = ("proto", "config", "service", "collector")
SYSTEM = re.compile(r"_(?:windows|posix)$")  # of these files a build has one
COUNTERS = "proto/base/counters.h"
COUNTER = re.compile(r"^ {4}[XGS]\((\w+), \d+,", re.M)
# files that add counters up, check them or explain them
READERS = ("collector/state/ledger_report.c", "collector/state/gaps.c", "collector/app/cmd_ledger.c", "service/spool/ledger.c", "service/spool/ledger.h",
           "service/spool/last_numbers.c", COUNTERS)
STATIC = re.compile(r"^static (?:inline )?[\w\s*]*?\b(?!_Atomic)(\w+)(?=\()", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STATE, ONE, WRITER, FORM = "a test looks at state that no output shows", "the smallest form for a test: the product calls the parts", \
    "tests write .etl files and records with it", "tests compare the form that the product makes in pieces"
PROGRAMS = "programs of others call it: proto/relog/relog.h"
FOR_TESTS = {
    "ea_batch_cost": STATE, "ea_batch_sequence": "numbers of arrival: tests compare them with the reader in Python", "ea_code_name": "failures name the code",
    "ea_etl_writer_buffers": WRITER, "ea_etl_writer_lose": WRITER,
    "ea_machine_begin_utc_ns": STATE, "ea_machine_bytes": STATE, "ea_object_names_counts": STATE,
    "ea_relog_event_name": PROGRAMS, "ea_relog_fields_create": PROGRAMS, "ea_relog_fields_learn": PROGRAMS, "ea_relog_fields_manifest": PROGRAMS,
    "ea_relog_get_number": PROGRAMS, "ea_relog_get_text": PROGRAMS, "ea_relog_set_number": PROGRAMS, "ea_relog_set_text": PROGRAMS,
    "ea_record_checksum": FORM,
    "ea_record_equal": "what docs/internals/records.md calls the same record", "ea_registry_overflow_count": STATE,
    "ea_render_message": FORM, "ea_render_text": FORM, "ea_trace_schemas_get": STATE, "ec_pdb_open_bytes": ONE,
    "ec_pdb_symbol_count": STATE,
    "ea_rules_bytes": STATE, "ea_rules_run_stats": STATE,
}


def symbols(path):
    """What nm says of an archive or object: (defined, needed by its objects)."""
    defined, needed = set(), set()
    printed = subprocess.run(["nm", "-g", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    for line in printed.splitlines():
        if line.strip() and not line.endswith(":"):
            kind, name = line.split()[-2:]
            (needed if kind in "Uw" else defined).add(name)
    return defined, needed


def unused(build, source):
    """Exported symbols that no product object needs and that C files name once at most; None: no library is there."""
    defined, needed = set(), set()
    for path in build.rglob("*.a"):
        if LIBRARY.fullmatch(path.name):
            more = symbols(path)
            defined |= more[0]
            needed |= more[1]
    for path in build.rglob("*.o"):
        if "tests" not in path.relative_to(build).parts:
            needed |= symbols(path)[1]
    words = collections.Counter()
    for part in PARTS:
        for path in sorted((source / part).rglob("*.c")):
            words.update(re.findall(r"\w+", COMMENT.sub("", path.read_text(encoding="utf-8"))))
    return {name for name in defined - needed if re.match(r"e[ac]_", name) and words[name] <= 1} if defined else None


def twice(source):
    """Static functions' names that files of several names have: {name: paths}."""
    where = collections.defaultdict(list)
    for part in PARTS:
        for path in sorted((source / part).rglob("*.c")):
            for name in set(STATIC.findall(COMMENT.sub("", path.read_text(encoding="utf-8")))):
                where[name].append(path.relative_to(source))
    return {name: list(map(str, paths)) for name, paths in where.items() if len({SYSTEM.sub("", path.stem) for path in paths}) > 1}


def unwritten(source):
    """Counters that no file of the product names, but for those that only read counters."""
    counters = source / COUNTERS
    names = COUNTER.findall(counters.read_text(encoding="utf-8")) if counters.exists() else []
    words, beginnings = set(), set()
    for part in PARTS:
        for path in sorted((source / part).rglob("*.[ch]")):
            if str(path.relative_to(source)) not in READERS:
                text = COMMENT.sub("", path.read_text(encoding="utf-8"))
                words |= set(re.findall(r"\bEA_COUNT_(\w+)", text))
                beginnings |= set(re.findall(r"\bEA_COUNT_(\w+)##", text))
    return [name for name in names if name not in words and not name.startswith(tuple(beginnings))]


def main():
    build = pathlib.Path(sys.argv[1])
    source = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent
    found, failed = unused(build, source), 0
    if found is None:
        print(f"no library below {build}")
        return 2
    known = FOR_TESTS if len(sys.argv) <= 2 else {}
    for name in sorted(found - set(known)):
        failed = 1
        print(f"{name}: exported, and only tests call it: delete it, or make it static")
    for name in sorted(set(known) - found):
        failed = 1
        print(f"{name}: FOR_TESTS of lint_exports.py lists it, but the product calls it, or it is gone")
    for name, paths in sorted(twice(source).items()):
        failed = 1
        print(f"{name}: a static function of {', '.join(paths)}: its name begins with its file's noun")
    for name in unwritten(source):
        failed = 1
        print(f"{name}: a counter that no code writes: delete it, and add it to EA_REMOVED_COUNTERS")
    if not failed:
        print(f"every exported function has a caller in the product, but for {len(known)} that tests need")
    return failed


if __name__ == "__main__":
    sys.exit(main())
