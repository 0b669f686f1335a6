#!/usr/bin/env python3
"""Sees that every answer of the product has a judge: what the sources name is compared with answers.tsv, and answers.tsv with the judges and
with docs/verification/answers.md. planted_answers.py plants answers that have none.

The table's columns are the answer, the judge (a function of the judges' files, or of an end-to-end test that compares the answer of its
own machines with independent arithmetic: `test_joins.check_ipc`; several with commas; `-`: none) and, where there is none or it does not
judge all, the reason. An answer that ends with `*` stands for all that begin so: its judge takes whatever the product names. Part of tests/lint.sh; prints what is missing, exits 1 when there is any.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]


def text_of(path):
    return (SOURCE / path).read_text(encoding="utf-8")


def below(folder, pattern):
    """The files of a folder that fit, by their paths from the source's root."""
    return [path.relative_to(SOURCE).as_posix() for path in sorted((SOURCE / folder).rglob(pattern))]


def initializers(path, table):
    """The rows of a table in C: the text of each initializer one level inside the table's braces, with its designator if it has one."""
    text = text_of(path)
    text = text[text.index(table):]
    depth, begin, found = 0, 0, []
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*|[{}]', text, re.S):
        if token[0] == "{":
            depth += 1
            if depth == 1:
                begin = token.end()
        elif token[0] == "}":
            depth -= 1
            if depth == 1:
                found.append(text[begin:token.end()].lstrip(", \n"))
                begin = token.end()
            if not depth:
                return found
    raise SystemExit(f"{path}: {table} has no end")


def first_text(row):
    """The first text of a row, or None."""
    found = re.search(r'"((?:\\.|[^"\\])*)"', re.sub(r"/\*.*?\*/", "", row, flags=re.S))
    return found and found[1]


def from_routes():
    """The paths of the web server's table, but for the dashboard's files."""
    paths = [first_text(row) for row in initializers("collector/web/api.c", "const ec_route EC_ROUTES[]")]
    return {f"route {path}" for path in paths if path and path.startswith(("/api/", "/metrics"))}


def from_queries():
    """Named queries."""
    names = [first_text(row) for row in initializers("collector/web/questions.c", "static const fixed QUERIES[]")]
    return {f"query {name}" for name in names if name}


def from_tables():
    """Tables of SQL: of machines and the store, of what happened over a time, and of events."""
    names = [first_text(row) for path, table in (("collector/query/sql/sql_tables.c", "static const spec SPECS[]"),
                                                 ("collector/query/analysis/activity_tables.c", "static const ec_activity_table TABLES[]"),
                                                 ("collector/query/sql/sql_views.c", "static const view VIEWS[]")) for row in initializers(path, table)]
    return {f"table {name}" for name in [*names, "events", "events_by", '"CLASS"', '"CLASS_by"'] if name}


def from_metrics():
    """Families of /metrics: those that the source names, and one for each counter."""
    text, counters = text_of("collector/metrics/metrics.c"), text_of("proto/base/counters.h")
    names = {name for path in below("collector", "*.c") for name in re.findall(r'"(etwcollector_[a-z0-9_]+)[ {"]', text_of(path))}
    names |= {f"etwagent_family_{name}_events_total" for name in re.findall(r'^        \{"([a-z]+)", "events of the family', text, re.M)}
    for name, part in re.findall(r"^    [XGS]\((\w+), \d+, EA_\w+,[\s\\]+EA_OF_(\w+),", counters, re.M):
        names.add(f"etwcollector_{name}_total" if part == "COLLECTOR" else f"etwagent_{name}")
    return {f"metric {name}" for name in names}


# Titles that a component gets from its caller or a table, which name them, and tables inside a section that has a title.
PASSED_ON = {("Chart", "title"), ("Section", "title"), ("Tabs", "title"), ("Top", "title"), ("Ledger", "`Run ${stream}`")}
PARTS = re.compile(r'<(Table|Flame|Timeline|Histogram|Section|Chart|Top|Facts)\b(?:<[\w\[\]]+>)?((?:[^<>"{}]|"[^"]*"|=>|\{(?:[^{}]|\{[^{}]*\})*\})*)|<(h2)[^>]*>([^<{]*)(\{[^}]*\})?|class="(tiles)"')


def title_of(part):
    """What a part of a page is called: its title, or in braces the expression that is."""
    component, attributes, heading, text, expression, tiles = part.groups()
    if component == "Facts" or tiles:
        return component.lower() if component else tiles
    if heading:
        return text.strip() or expression
    found = re.search(r'\b(?:label|title)=(?:"([^"]+)"|(\{.*?\})(?= |$|/))', attributes)
    return found and (found[1] or found[2])


def from_pages():
    """What the dashboard shows: every tile, list of facts, table, section, chart and heading; of one whose title is an expression that."""
    found = set()
    for path in below("collector/web/ui/src", "*.tsx"):
        text = re.sub(r"//[^\n]*", "", text_of(path))
        bodies = re.findall(r"^(?:export )?(?:function (\w+)(?:<[^\n>]*>)?\([^\n]*|const (\w+) = [^\n]*=> )\{\n(.*?)^\}", text, re.M | re.S)
        bodies = [(function or constant, body) for function, constant, body in bodies]
        rest = text
        for _, body in bodies:
            rest = rest.replace(body, "")
        for page, body in [*bodies, (pathlib.PurePath(path).stem, rest)]:
            titles = {title_of(part) for part in PARTS.finditer(body)} - {None}
            found |= {f"panel {page}: {title}" for title in titles if (page, title[1:-1]) not in PASSED_ON}
        for name, page in (("TABS", "Security"), ("IPC_TABS", "Counters")):
            tabs = re.search(rf"^const {name}\b[^\n]* = \{{\n(.*?)^\}};", text, re.M | re.S)
            found |= {f"panel {page}: {title}" for title in re.findall(r"^  \w+: tab\('([^']+)'", tabs.group(1), re.M)} if tabs else set()
    return found


def from_commands():
    """Parts of what `etwcollector ledger` prints, by their names in JSON, and the checks of `doctor`."""
    ledger, doctor = text_of("collector/app/cmd_ledger.c"), text_of("collector/app/cmd_doctor.c")
    parts = set(re.findall(r'open_list\(l, "(\w+)"\)', ledger)) | set(re.findall(r'\\"(unbalanced_families|unobserved|notices|incidents)\\": \[', ledger))
    equations = re.findall(r'add_equation\(l, "(\w+)"', ledger)
    return {f"ledger {part}" for part in parts} | {f"ledger equation {name}" for name in equations} | \
        {f"doctor {name}" for name in re.findall(r'add_(?:finding|failure)\(&?r, [^;]*?"(\w+)", (?:"|&err)', doctor)} | \
        {f"doctor {name}" for name in re.findall(r'"(\w+)" : NULL; /\* the old name', doctor)}


def rows():
    """{answer: (judge or None, reason)}"""
    found = {}
    for line in text_of("tests/judges/answers.tsv").splitlines()[1:]:
        answer, judge, reason = (line.split("\t") + ["", ""])[:3]
        if answer in found:
            raise SystemExit(f"answers.tsv: {answer} is there twice")
        found[answer] = (None if judge == "-" else judge, reason)
    return found


def named_by(page):
    """The answers and judges that docs/verification/answers.md names; the judge of those in its second table is "–"."""
    found = set()
    for part, has_judge in zip(page.split("## Answers without a judge"), (True, False)):
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("| ") and " | " in line]
        found |= {(row[0], row[1] if has_judge else "–") for row in cells if row[0] != "answer"}
    return found


def differences(page):
    """The answers of docs/verification/answers.md that differ from their judges: the run that wrote the page failed."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.split("## Answers without a judge")[0].splitlines() if line.startswith("| ")]
    return [(row[0], row[4]) for row in cells if len(row) == 5 and row[0] != "answer" and row[4] not in ("0", "")]


def named():
    return from_routes() | from_queries() | from_tables() | from_metrics() | from_pages() | from_commands()


def judges():
    """The functions judge_... of the judges' files."""
    return {name for path in FOLDER.glob("judge_*.py") for name in re.findall(r"^def (judge_\w+)\(", path.read_text(encoding="utf-8"), re.M)}


def is_check(judge):
    """Whether it is a function of an end-to-end test."""
    name, _, function = judge.partition(".")
    path = SOURCE / "tests" / "e2e" / f"{name}.py"
    return bool(function) and path.exists() and f"\ndef {function}(" in path.read_text(encoding="utf-8")


def problems():
    table, answers, known = rows(), named(), judges()
    families = [answer[:-1] for answer in table if answer.endswith("*")]
    for answer in sorted(answers - set(table)):
        if not answer.startswith(tuple(families)):
            yield f"{answer}: no row in tests/judges/answers.tsv: write a judge and add the row"
    for answer in sorted(set(table) - answers):
        if not answer.endswith("*") or not any(name.startswith(answer[:-1]) for name in answers):
            yield f"{answer}: the row in tests/judges/answers.tsv is about nothing that the sources name"
    for answer, (judge, reason) in table.items():
        for one in filter(None, (judge or "").split(", ")):
            if one in known or is_check(one):
                continue
            yield f"{answer}: there is no function {one} in tests/judges/judge_*.py, nor in tests/e2e"
        if not judge and not reason:
            yield f"{answer}: has neither a judge nor a reason"
    for judge in sorted(known - {one for judge, _ in table.values() for one in (judge or "").split(", ")}):
        yield f"{judge}: judges no answer of tests/judges/answers.tsv"
    page, wanted = named_by(text_of("docs/verification/answers.md")), {(answer, judge or "–") for answer, (judge, _) in table.items()}
    for answer, judge in sorted(wanted - page):
        yield f"{answer}: docs/verification/answers.md has no row with the judge {judge}: tests/judges/test_answers.py --write writes it"
    for answer, judge in sorted(page - wanted):
        yield f"{answer}: the row with the judge {judge} in docs/verification/answers.md is not in tests/judges/answers.tsv"
    for answer, count in differences(text_of("docs/verification/answers.md")):
        yield f"{answer}: docs/verification/answers.md has {count} differences: mend the answer or its judge, then write the page again"


def main():
    found = list(problems())
    print("\n".join(found) if found else f"{len(rows())} answers have a judge or a reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
