"""complete.py finds answers without a judge. The test plants answers in the source texts that complete.py reads, one at a time and in
different spellings. complete.py must name each of them, and must find nothing in the unchanged sources.
"""
import complete

# what is planted: (file, a text that occurs in it once, the replacement, the begin of the problem's text)
PLANTED = {
    "a route": ("collector/web/api.c", '    {EC_GET, "/metrics",', '    {EC_GET,\n     "/api/v1/planted", EC_POOL_QUESTION, asset, NULL},\n    {EC_GET, "/metrics",', "route /api/v1/planted: no row"),
    "a query": ("collector/web/questions.c", '    {"ipc-by-machine",\n', '    {"planted", "on one line", "SELECT 1", NULL, {{0}}, FIXED_LIST},\n    {"ipc-by-machine",\n', "query planted: no row"),
    "a table": ("collector/query/sql/sql_tables.c", '    {"ledger_last", STATE,', '    {"planted",\n     STATE, "x", NULL, {{"host", EC_KIND_TEXT, "host"}}},\n    {"ledger_last", STATE,', "table planted: no row"),
    "a table over a time": ("collector/query/analysis/activity_tables.c", "    [EC_ACTIVITY_MISSED_STACKS] =", '    [EC_ACTIVITY_PLANTED] =\n        {.name = "planted"},\n    [EC_ACTIVITY_MISSED_STACKS] =',
                            "table planted: no row"),
    "a metric": ("collector/metrics/metrics.c", '"etwcollector_hosts_left_out"', '"etwcollector_http2_total", "etwcollector_hosts_left_out"', "metric etwcollector_http2_total: no row"),
    "a metric of another file": ("collector/web/result.c", '#include "collector/web/result.h"', '#include "collector/web/result.h"\nstatic const char NAME[] = "etwcollector_planted{kind=\\"x\\"}";', "metric etwcollector_planted: no row"),
    "a section": ("collector/web/ui/src/pages.tsx", '<Section title="Children"', '<Section address={address} title="Planted" /><Section title="Children"', "panel Process: Planted: no row"),
    "a table of a page": ("collector/web/ui/src/pages.tsx", '<Table label="Groups"', '<Table rows={[]} label={view.planted} /><Table label="Groups"', "panel Fleet: {view.planted}: no row"),
    "a heading": ("collector/web/ui/src/host.tsx", "<h2>Processes over time</h2>", "<h2>Processes over time</h2><h2>planted</h2>", "panel Host: planted: no row"),
    "a page": ("collector/web/ui/src/pages.tsx", "export function Ledger(", "export const Planted = ({ view }: { view: View }) => {\n  return <Facts rows={[]} />;\n};\n\nexport function Ledger(", "panel Planted: facts: no row"),
    "a tab": ("collector/web/ui/src/pages.tsx", "  starts: tab('Process starts'", "  planted: tab('Planted', 'queries/planted', [], []),\n  starts: tab('Process starts'", "panel Security: Planted: no row"),
    "a tab of counters": ("collector/web/ui/src/pages.tsx", "  machines: tab('Instructions", "  planted: tab('Planted', 'queries/planted', [], []),\n  machines: tab('Instructions", "panel Counters: Planted: no row"),
    "a row without a judge": ("tests/judges/answers.tsv", "table missed_stacks\tjudge_missed", "table missed_stacks\tjudge_planted", "table missed_stacks: there is no function judge_planted"),
    "a row without a reason": ("tests/judges/answers.tsv", "table missed_stacks\tjudge_missed", "table missed_stacks\t-\t", "table missed_stacks: has neither"),
    "a row that the page lacks": ("docs/verification/answers.md", "\n| table missed_stacks | judge_missed |", "\ntable missed_stacks", "table missed_stacks: docs/verification/answers.md has no row"),
    "a difference on the page": ("docs/verification/answers.md", "\n| doctor verify | judge_doctor | 2 | 2 | 0 |", "\n| doctor verify | judge_doctor | 2 | 2 | 1 |", "doctor verify: docs/verification/answers.md has 1 differences"),
}


def main():
    read, failures = complete.text_of, 0
    assert not list(complete.problems()), list(complete.problems())
    for what, (path, text, instead, problem) in PLANTED.items():
        assert read(path).count(text) == 1, f"{path} has {read(path).count(text)} times, not once: {text}"
        complete.text_of = lambda name, path=path, text=text, instead=instead: read(name).replace(text, instead) if name == path else read(name)
        found = [line for line in complete.problems() if line.startswith(problem)]
        failures += not found
        print(f"{'ok     ' if found else 'FAILED '} {what}")
    complete.text_of = read
    print(f"{len(PLANTED) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
