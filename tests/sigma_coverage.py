#!/usr/bin/env python3
"""How many Sigma rules of a checkout can fire with which options: asks `etwcollector rules check` with the profile security.yaml, with options that are
added to it one after the other, and with all that the program can record.

usage: tests/sigma_coverage.py --build BUILD --rules CHECKOUT

CHECKOUT is a folder with rules/windows, as SigmaHQ/sigma has it (the folders for threat hunting and emerging threats count, too), or any folder
of rules. Rules for other products are left out. Prints tables in Markdown; nothing of the rules is kept.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SECURITY = SOURCE / "config" / "profiles" / "security.yaml"
STEPS = [  # (what is added, its text)
    ("the flag `REGISTRY`", "  - name: registry\n    kind: system\n    flags: [REGISTRY]\n"),
    ("the provider Kernel-Registry", "  - name: keys\n    providers:\n      - provider: Microsoft-Windows-Kernel-Registry\n"),
    ("its `registry-values`", "        registry-values: true\n"),
    ("the channels Security, System, Application and Windows PowerShell", "sources:\n  - name: logs\n    eventlog: [Security, System, Application, Windows PowerShell]\n"),
]
COUNTS = ("full", "partly", "never")


def asked(collector, folders, *words):
    done = subprocess.run([collector, "rules", "check", "--json", *words, *folders], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"rules check ended with {done.returncode}")
    answer = json.loads(done.stdout)
    answer["rules"] = [row for row in answer["rules"] if row["product"] == "windows"]
    return answer


def sums(answer):
    counted = collections.Counter(row["coverage"] for row in answer["rules"])
    return [counted[name] for name in COUNTS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rules", required=True, type=pathlib.Path)
    options = parser.parse_args()
    collector = options.build / "collector" / "app" / "etwcollector"
    parts = [options.rules / name for name in ("rules/windows", "rules-threat-hunting/windows", "rules-emerging-threats")]
    folders = [part for part in parts if part.is_dir()] or [options.rules]
    table, before = [], None
    with tempfile.TemporaryDirectory() as folder:
        path, text = pathlib.Path(folder) / "agent.yaml", SECURITY.read_text(encoding="utf-8")
        for name, added in [("`security.yaml` as it is", ""), *STEPS]:
            text += added
            path.write_text(text, encoding="utf-8")
            table.append((name, asked(collector, folders, "--agent-config", path)))
    whole = asked(collector, folders)
    table.append(("all providers and event logs", whole))
    total = len(whole["rules"])
    print(f"{total} rules for Windows; documents that are not supported: {whole['unsupported']}, with a mistake: {whole['mistakes']}\n")
    print("| with | full | gain | partly | never |\n|---|---|---|---|---|")
    for name, answer in table:
        full, partly, never = sums(answer)
        print(f"| {'+ ' if before is not None and answer is not whole else ''}{name} | {full} ({full * 100 / max(total, 1):.1f} %) | "
              f"{'' if before is None else f'+{full - before}'} | {partly} | {never} |")
        before = full
    sources = collections.defaultdict(collections.Counter)
    lacking = collections.Counter()
    for row in whole["rules"]:
        source = row["category"] or row["service"] or "(none)"
        sources[source][row["coverage"]] += 1
        for one in row["missing"]:
            lacking[f"{source}.{one['field'] or '*'}: {one['option'].split('none: ')[-1].split('part: ')[-1]}"] += 1
    print("\n| log source | rules | full | partly | never |\n|---|---|---|---|---|")
    for source, counted in sorted(sources.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        print(f"| {source} | {sum(counted.values())} | {' | '.join(str(counted[name]) for name in COUNTS)} |")
    print("\n| missing, with all options | rules |\n|---|---|")
    for what, count in lacking.most_common(25):
        print(f"| {what} | {count} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
