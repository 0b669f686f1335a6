"""Every number that the product tells of a store is compared with a naive computation: the tables of SQL, the routes of the API, named
queries, the pages of the dashboard, /metrics, and the sentences of `ledger` and `doctor`. answers.tsv names each answer's judge;
complete.py (part of lint) sees that none lacks one. docs/verification/answers.md is written here.

usage: test_answers.py --build DIR [--soak] [--keep] [--write] [--only JUDGE,...] [--machines NAME,...]
"""
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import harness  # noqa: E402
import complete  # noqa: E402
import judges  # noqa: E402
import world  # noqa: E402

DOCUMENT = harness.ROOT / "docs" / "verification" / "answers.md"
HEAD = """# Answers and their judges

Each row is an answer of the product: a table of SQL, a route of the API, a named query, a family of /metrics, a part of a page of the dashboard,
a part of what `etwcollector ledger` and `etwcollector doctor` print. Its judge works the same rows out with naive Python from exported records
and the stored batches (`tests/judges`), and `tests/judges/test_answers.py` compares them in each run of the tests. This page is written by
`tests/judges/test_answers.py --build build/dev --write`; a test compares its answers and judges, and the linter (`tests/judges/complete.py`) those with
the sources. A judge with a dot is a function of an end-to-end test in
`tests/e2e`, which compares the answer on machines of its own. An answer without a judge has its reason here.

The machines: real traces of `tests/traces.tsv` (`real-...`), generated ones of `tests/judges/machines` (`made-...`: numbers of processes and threads
that come again at once; losses in the middle; IPv6; DiskIo without FileIo; a clock that counts cycles), and a store in which two names have the
same trace in two runs each (`twin-...`).

| answer | judge | machines | rows compared | differences |
|---|---|---|---|---|
"""


def has_own_test(judge):
    """Whether end-to-end tests alone compare the answer."""
    return all("." in one for one in judge.split(", "))


def document(tables, counts):
    """The page: a row of each answer. counts: answer -> [machines, rows, differences]"""
    lines = []
    for answer, (judge, reason) in sorted(tables.items()):
        machines, rows, wrong = counts.get(answer, (set(), 0, 0))
        told = ("", "", "in its own test") if judge and has_own_test(judge) else (f"{len(machines)}", f"{rows}", f"{wrong}") if judge else ("", "", f"not judged: {reason}")
        lines.append(f"| {answer} | {judge or '–'} | {' | '.join(told)} |".replace("|  |", "| |"))
    return HEAD + "\n".join(lines) + "\n"


def check_judged(checks, arguments, tables, worlds):
    """Each answer that has a judge was compared, over some rows; the page names what is judged."""
    counts = {}
    for one in worlds:
        for answer, (machines, rows, wrong) in one.counts.items():
            into = counts.setdefault(next((a for a in tables if a == answer or a.endswith("*") and answer.startswith(a[:-1])), answer), [set(), 0, 0])
            into[0] |= machines
            into[1] += rows
            into[2] += wrong
    checks.equal(sorted(set(counts) - {a for a, (judge, _) in tables.items() if judge}), [], "answers that are judged and have no judge in answers.tsv")
    checks.equal([a for a, (judge, _) in tables.items() if judge and not has_own_test(judge) and not counts.get(a, (0, 0))[1]], [], "answers of which no row was compared")
    if arguments.write:
        DOCUMENT.write_text(document(tables, counts), encoding="utf-8")
    page = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    checks.equal(sorted(complete.named_by(page)), sorted(complete.named_by(document(tables, counts))), f"answers and judges that {DOCUMENT.name} names (--write writes it)")


def test(env, checks, arguments):
    worlds = world.make(env, checks, arguments.machines and arguments.machines.split(","))
    for judge in judges.ALL:
        if not arguments.only or judge.__name__ in arguments.only.split(","):
            began = time.monotonic()
            for one in worlds:
                judge(one)
            print(f"{judge.__name__}: {time.monotonic() - began:.1f} s", flush=True)
    for one in worlds:
        one.collector.stop()
    if not arguments.only and not arguments.machines:
        check_judged(checks, arguments, complete.rows(), worlds)
    print(f"{sum(told[1] for one in worlds for told in one.counts.values())} rows compared")


if __name__ == "__main__":
    harness.main(test, __doc__, {"write": ("write docs/verification/answers.md", {"action": "store_true"}), "only": ("these judges alone, with commas", {}),
                                "machines": ("these machines of the first store alone, with commas", {})})
