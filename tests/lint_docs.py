#!/usr/bin/env python3
"""Rules of the documents: each relative link and anchor of a Markdown file leads to a file of the repository and to a heading in it, each path
of the repository that a Markdown file names exists, README.md has at most 8,192 bytes, no cell of a table has more than 160 characters (but in
the list that `tracegen options` prints), each address of the dashboard in documents and configurations has the project's port, and
.github/CODEOWNERS has an owner of all files and names paths that exist.

usage: tests/lint_docs.py [FILE...]    exit code 1 with a line for each fault; without FILE all Markdown files of the repository
"""
import argparse
import pathlib
import re
import subprocess
import sys
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parent.parent
README_BYTES = 8192
CELL_CHARACTERS = 160
PRINTED = "tests/tracegen/README.md"  # its table is what `tracegen options` prints
WEB_PORT = "8453"  # not assigned by IANA; 0: any free one
WEB_ADDRESS = re.compile(r"(?:--web[ =]'?|^web: |targets: \[|`--web '|https?://127\.0\.0\.1:|dashboard on `?)(?:(?:\d+\.){3}\d+:)?(\d{2,5})\b", re.M)
OTHER_PORTS = ("9090", "3000")  # of Prometheus and Grafana
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.M)


def tracked():
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    files = {n for n in names if n and (SOURCE / n).exists()}
    folders = {str(p) for n in files for p in pathlib.PurePosixPath(n).parents}
    return files, folders


def without_code(text):
    """The text with its code replaced by blanks: fenced and indented blocks, and spans."""
    lines, fence, blank = [], None, True
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            fence = None if mark and mark[1].startswith(fence) else fence
            lines.append("")
            continue
        if mark:
            fence = mark[1]
            lines.append("")
            continue
        indented = line.startswith("    ") and (blank or lines and lines[-1] == "")
        blank = not line.strip()
        lines.append("" if indented else re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda m: "`" * len(m[0]), line))
    return "\n".join(lines)


def anchors(text, known={}):
    """GitHub's names of a text's headings, and explicit ones."""
    if text not in known:
        names, fenced = set(), False
        for line in text.split("\n"):
            fenced ^= bool(re.match(r" {0,3}(```|~~~)", line))
            heading = None if fenced else re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*$", line)
            if heading:
                title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
                name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
                unique, n = name, 0
                while unique in names:
                    n += 1
                    unique = f"{name}-{n}"
                names.add(unique)
        known[text] = names | set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text))
    return known[text]


def links(name, text, files, folders):
    plain = without_code(text)
    for match in LINK.finditer(plain):
        target = match[1] or match[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", target, re.I):
            continue
        line = plain.count("\n", 0, match.start()) + 1
        path, _, anchor = target.partition("#")
        path = urllib.parse.unquote(path)
        whole = name if not path else str(pathlib.PurePosixPath(path.lstrip("/")) if path.startswith("/")
                                          else (SOURCE / name).parent.joinpath(path).resolve().relative_to(SOURCE))
        if whole not in files and whole not in folders:
            yield line, f"there is no {target}"
        elif anchor and whole.endswith(".md") and anchor not in anchors((SOURCE / whole).read_text(encoding="utf-8")):
            yield line, f"{whole} has no heading #{anchor}"


def paths(text, files, folders):
    """Names of files and folders, in code and figures, too. A part in upper case without an extension in lower case stands for any name."""
    tops = {n.split("/")[0] for n in folders if n != "."} - {".git"}
    for number, line in enumerate(text.split("\n"), 1):
        for named in re.findall(r"(?<![\w./:-])[\w.-]+(?:/[\w.*-]+)+", line):
            named = named.rstrip(".")
            if named.split("/")[0] not in tops or "*" in named or re.search(r"\b[A-Z]+\.|_X\.", named.rsplit("/", 1)[-1].replace(".md", "")):
                continue
            if named not in files and named not in folders:
                yield number, f"there is no {named}"


def cells(text):
    for number, line in enumerate(without_code_lines(text), 1):
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                if len(cell.strip()) > CELL_CHARACTERS:
                    yield number, f"a table cell has {len(cell.strip())} characters, more than {CELL_CHARACTERS}: {cell.strip()[:60]}..."


def ports(text):
    """Addresses of the dashboard with another port than the project's."""
    for found in WEB_ADDRESS.finditer(text):
        if found[1] not in (WEB_PORT, "0", *OTHER_PORTS):
            yield text.count("\n", 0, found.start()) + 1, f"the dashboard's port is {WEB_PORT}, not {found[1]}"


def owners(text, files, folders):
    """Lines of CODEOWNERS: the first one owns all files, and each path exists."""
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip() and not line.startswith("#")]
    if not lines or lines[0][1][0] != "*" or len(lines[0][1]) < 2:
        yield 1, "no line gives all files an owner"
    for number, (path, *who) in lines:
        if path != "*" and path.strip("/") not in files and path.strip("/") not in folders:
            yield number, f"there is no {path}"
        for one in who:
            if not re.fullmatch(r"@[\w-]+(/[\w-]+)?", one):
                yield number, f"{one} is no owner: @USER or @ORGANIZATION/TEAM"


def without_code_lines(text):
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(re.match(r" {0,3}(```|~~~)", line))
        yield "" if fenced else line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="*", help="Markdown files, by their paths from the repository's root")
    arguments = parser.parse_args()
    files, folders = tracked()
    documents = sorted(arguments.file or (n for n in files if n.endswith(".md")))
    wrong = []
    for name in documents:
        text = (SOURCE / name).read_text(encoding="utf-8")
        wrong += [f"{name}:{line}: {what}" for line, what in links(name, text, files, folders)]
        wrong += [f"{name}:{line}: {what}" for line, what in paths(text, files, folders)]
        if name != PRINTED:
            wrong += [f"{name}:{line}: {what}" for line, what in cells(text)]
        if name == "README.md" and (size := len(text.encode())) > README_BYTES:
            wrong.append(f"README.md: {size} bytes, more than {README_BYTES}")
    if not arguments.file:
        for name in sorted(files):
            if name.startswith(("docs/", "config/", "installer/")) and name.endswith((".md", ".yaml", ".yml")) or name == "README.md":
                wrong += [f"{name}:{line}: {what}" for line, what in ports((SOURCE / name).read_text(encoding="utf-8"))]
        wrong += [f".github/CODEOWNERS:{line}: {what}" for line, what in owners((SOURCE / ".github/CODEOWNERS").read_text(encoding="utf-8"), files, folders)]
    print("\n".join(wrong) or f"{len(documents)} documents: links and paths lead somewhere, and tables are narrow")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
