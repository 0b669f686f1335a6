#!/usr/bin/env python3
"""Checks the house rules that compilers do not check. Prints FILE:LINE: sentence, exits 1 when there is any.

- an include is a path from the repository's root without "../" (lint_includes.py has the rules of libraries);
- windows.h and its kin only in proto/base's *_windows.c, service/etw/, service/eventlog/channel_api.c, service/scm/, service/host/win/, installer/windows/,
  proto/announce/ (for programs of others) and tests/windows/,
  sockets in metrics_server.c;
- data flows one way: proto/ includes from no other folder, service/ not from collector/, collector/ not from service/;
- the product writes a GUID once: a second file takes it from proto/base/provider_guids.h;
- functions that take no buffer size, that keep global state or that have unexpected results are banned;
- a C file opens with a comment that says what it is for;
- a header's include guard follows from its path: EC_ below collector/, else EA_, then the path without its first folder (tests/
  keeps it); --mend rewrites those that differ;
- a path of a source file that a text names exists;
- no path of a developer's machine, no tab in C, no space at a line's end, a newline at the end of a file;
- no conflict markers of git;
- a workflow names a third-party action by its commit, never by a tag that can move.
"""
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BANNED = {
    "strcpy": "memcpy with a known length, or ea_text", "strcat": "ea_text", "strncpy": "memcpy or snprintf",
    "strncat": "ea_text", "sprintf": "snprintf or ea_text_printf", "vsprintf": "vsnprintf", "gets": "fgets",
    "strtok": "a loop with strcspn", "atoi": "ea_u64_parse", "atol": "ea_u64_parse", "atoll": "ea_u64_parse",
    "atof": "a parser that reports errors", "alloca": "an arena", "rand": "ea_random_bytes, or an own seeded generator",
    "srand": "an own seeded generator", "random": "ea_random_bytes", "system": "a library call", "popen": "a library call",
    "mktemp": "ea_random_bytes and EA_OPEN_CREATE", "tmpnam": "ea_random_bytes and EA_OPEN_CREATE",
    "scanf": "a parser that reports errors", "sscanf": "a parser that reports errors", "fscanf": "a parser that reports errors",
    "localtime": "ea_text_utc_ns", "gmtime": "ea_text_utc_ns", "asctime": "ea_text_utc_ns", "ctime": "ea_text_utc_ns",
    "strerror": "ea_os_error_text", "readdir": "ea_path_list", "getpwuid": "nothing", "gethostbyname": "getaddrinfo", "setlocale": "nothing: the C locale is relied on",
}
# what a test may use all the same: it parses its own arguments and runs other programs
TESTS_MAY = {"atoi", "atol", "atoll", "atof", "sscanf", "system", "popen"}
BANNED_CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
WINDOWS_HEADERS = {"windows.h", "winsock2.h", "evntrace.h", "evntcons.h", "evntprov.h", "tdh.h", "winternl.h"}
WINDOWS_FILES = ("proto/base/delay_windows.c", "proto/base/platform_windows.c", "proto/base/platform_windows_files.c",
                 "proto/base/trust_windows.c")
WINDOWS_FOLDERS = ("service/etw/", "service/eventlog/channel_api.c", "service/scm/", "service/host/win/", "installer/windows/", "proto/announce/", "tests/windows/")
SOCKETS = ("service/app/metrics_server.c", "winsock2.h")  # the same calls on both sides
PARTS = ("proto", "config", "service", "collector")
# It makes batches of a trace as the agent does, by the agent\'s own code; nothing else of the collector knows the agent.
READS_TRACES = "collector/traces/"
MAY_INCLUDE = {"proto": {"proto"}, "config": {"proto", "config"}, "service": {"proto", "config", "service"},
               "collector": {"proto", "config", "collector"}}
GENERATED = {"proto/wire/batch.pb-c.h"}
CONFLICT = re.compile(r"(?:<{7}|>{7}|\|{7}) ")
SOURCE_PATH = re.compile(r"(?<![\w./-])(?:service|collector|proto|config)/[a-z_/]+/[a-z_0-9]+\.(?:c|h|md|mc)\b")
MACHINE_PATH = re.compile(r"(?<![\w./~$}])/(?:work|home|root|Users)/")


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE,
                            stdout=subprocess.PIPE, check=True).stdout.decode()
    return [pathlib.PurePosixPath(p) for p in listed.split("\0") if p and (SOURCE / p).is_file()]


def bare_code(text):
    """C without comments, strings and character constants; lines stay where they are."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: "\n" * m.group().count("\n") if m.group()[0] == "/" else '""', text)


def check_c(path, text, report):
    if not text.startswith("/*"):
        report(path, 1, "the file does not open with a comment that says what it is for")
    if "\t" in text:
        report(path, text[:text.index("\t")].count("\n") + 1, "a tab")
    part = path.parts[0]
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if not match:
            continue
        name = match.group(2)
        if ".." in name:
            report(path, number, f"include {name}: headers are named, not walked to")
        if name.lower() in WINDOWS_HEADERS and str(path) not in WINDOWS_FILES and (str(path), name) != SOCKETS and not str(path).startswith(WINDOWS_FOLDERS):
            report(path, number, f"include {name}: only {', '.join(WINDOWS_FILES + WINDOWS_FOLDERS)} may")
        their = name.split("/")[0]
        if match.group(1) == '"' and their in PARTS and part in MAY_INCLUDE and their not in MAY_INCLUDE[part] and not (their == "service" and str(path).startswith(READS_TRACES)):
            report(path, number, f"include {name}: {part}/ may not include from {their}/")
    for number, line in enumerate(bare_code(text).splitlines(), 1):
        for match in BANNED_CALL.finditer(line):
            if part == "tests" and match.group(1) in TESTS_MAY:
                continue
            report(path, number, f"{match.group(1)} is banned: use {BANNED[match.group(1)]}")


FIGURE = re.compile(r"[\u2500-\u257f\u25b2\u25b6\u25bc\u25c0]|-{2,}>|<-{2,}|\+-{2,}|-{2,}\+")
FIGURE_COLUMNS = 120


def check_figures(path, text, report):
    """clang-format joins the lines of a comment that are indented by less than four (CommentPragmas of .clang-format): a figure is not."""
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*\*(?P<indent> *)(?P<text>[^/].*)", line)
        if comment and FIGURE.search(comment["text"]):
            if len(comment["indent"]) < 4:
                report(path, number, "a line of a figure is indented by less than four: clang-format may join it with others")
            if len(line) > FIGURE_COLUMNS:
                report(path, number, f"a line of a figure has {len(line)} columns, more than {FIGURE_COLUMNS}")


def guard_of(path):
    """The include guard of a header: EC_QUERY_SQL_ASK_H of collector/query/sql/ask.h. Programs of others include the header for announcements."""
    if path.parts[:2] == ("proto", "announce"):
        return re.sub(r"\W", "_", path.name).upper()
    folders = path.parts if path.parts[0] == "tests" else path.parts[1:]
    return re.sub(r"\W", "_", "_".join(["EC" if path.parts[0] == "collector" else "EA", *folders])).upper()


GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)\n", re.M)


def check_guard(path, text, report):
    found = GUARD.search(text)
    if not found or found.groups() != (guard_of(path),) * 2:
        report(path, 1, f"the include guard is not {guard_of(path)}: tests/lint_rules.py --mend")


GUID = re.compile(r"EA_GUID\(\s*(0x[0-9a-fA-Fx,\s]+?)\)")


def check_guids(texts, report):
    """texts: (path, text) of C files. A GUID that two of them write."""
    first = {}
    for path, text in texts:
        for match in GUID.finditer(text):
            guid = re.sub(r"\s", "", match.group(1)).lower()
            if first.setdefault(guid, path) != path:
                report(path, text.count("\n", 0, match.start()) + 1, f"the GUID {guid[:10]}... is in {first[guid]}, too: proto/base/provider_guids.h")


def mend_guards():
    """Gives each header the guard that its path asks for."""
    for path in tracked():
        if path.suffix != ".h":
            continue
        text = (SOURCE / path).read_text(encoding="utf-8")
        found = GUARD.search(text)
        if found and found.group(1) == found.group(2):
            mended = re.sub(rf"\b{found.group(1)}\b", guard_of(path), text)
            if mended != text:
                (SOURCE / path).write_text(mended, encoding="utf-8")


def main():
    if sys.argv[1:] == ["--mend"]:
        mend_guards()
    problems = []

    def report(path, line, sentence):
        problems.append(f"{path}:{line}: {sentence}")

    files = tracked()
    checked, product = 0, []
    for path in files:
        try:
            text = (SOURCE / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary file: a picture, a fuzz seed
        checked += 1
        if "corpus" in path.parts or path.name == "LICENSE":
            continue
        if path.suffix in (".c", ".h"):
            check_c(path, text, report)
            check_figures(path, text, report)
            if path.parts[0] in PARTS:
                product.append((path, text))
        if path.suffix == ".h":
            check_guard(path, text, report)
        if path.parts[:2] == (".github", "workflows"):
            for number, line in enumerate(text.split("\n"), 1):
                action = re.match(r"\s*-?\s*uses:\s*(\S+)", line)
                if action and not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action.group(1)) and not action.group(1).startswith("./"):
                    report(path, number, f"the action {action.group(1)} is not named by its commit")
        for number, line in enumerate(text.split("\n"), 1):
            if MACHINE_PATH.search(line) and path != pathlib.PurePosixPath("tests/lint_rules.py"):
                report(path, number, "a path of a developer's machine")
            if path.suffix in (".c", ".h", ".md", ".py", ".tsv", ".txt") and path != pathlib.PurePosixPath("tests/lint_selftest.py"):
                for found in SOURCE_PATH.findall(line):
                    if not (SOURCE / found).exists() and found not in GENERATED:
                        report(path, number, f"{found} does not exist")
            if CONFLICT.match(line):
                report(path, number, "an unresolved conflict")
            if line != line.rstrip() and path.suffix in (".c", ".h", ".py", ".sh", ".cmake", ".md", ".yml", ".txt", ".proto"):
                report(path, number, "space at the end of a line")
        if text and not text.endswith("\n"):
            report(path, text.count("\n") + 1, "no newline at the end of the file")
    check_guids(product, report)
    print("\n".join(problems) if problems else f"{checked} files keep the house rules")
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
