"""Parts of the dashboard without a browser or a collector (tests/ui): times, ranges, numbers, links, filters, sums over time and over a flame graph;
tables, fields and filters in a small document; the ledger as a picture, whose flows have the sums of its equations; hostile text stays text; ESLint finds planted mistakes.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 5
import json
import os
import pathlib
import re
import subprocess

import harness
import npm_packages

UI = harness.ROOT / "tests" / "ui"
# one fault a line, with the rule that finds it
FAULTS = {
    "const Page = () => <p dangerouslySetInnerHTML={{ __html: location.search }} />; export { Page };": "no-restricted-syntax",
    "export const put = (e: Element, t: string) => { e.innerHTML = t; };": "no-restricted-syntax",
    "export const run = (t: string) => eval(t);": "no-eval",
    "export const f = () => { fetch('/api/v1/fleet'); };": "ts/no-floating-promises",
    "import { useState } from 'preact/hooks'; export const Odd = ({ a }: { a: boolean }) => { if (a) useState(0); return null; };": "hooks/rules-of-hooks",
    "export const same = (a: number, b: string) => a == Number(b);": "eqeqeq",
    "export const t = (o: object) => `${String(o)}`;": "ts/no-base-to-string",
    "export const loose = (a: any) => a;": "ts/no-explicit-any",
}


def test(env, checks, _):
    packages = npm_packages.installed(UI, env.build / "ui-tests")
    done = subprocess.run(["node", UI / "run.mjs", env.build / "collector" / "web" / "ui", packages], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=300, check=False)
    results = re.findall(r"^(not ok|ok) \d+ - (.*)$", done.stdout, re.M)
    for word, what in results:
        checks.that(word == "ok", what)
    checks.that(done.returncode == 0 and len(results) >= 19, f"the tests of parts end well: {done.stdout[-3000:] if done.returncode else len(results)}")
    # the picture of the ledger has every counter of the equations
    counted = set(re.findall(r"^    X\((events_\w+)\)", (harness.ROOT / "service/spool/ledger.h").read_text(encoding="utf-8"), re.M))
    drawn = set(re.findall(r"\['(events_\w+)', '", (harness.ROOT / "collector/web/ui/src/ledger.tsx").read_text(encoding="utf-8")))
    checks.equal(drawn, counted, "the picture of the ledger has the counters that an agent keeps for each family of classes")
    # in a folder of its own, with the compiler's options of the dashboard
    planted = env.folder / "planted"
    planted.mkdir()
    for i, fault in enumerate(FAULTS):
        (planted / f"fault{i}.tsx").write_text(fault + "\n", encoding="utf-8")
    (planted / "clean.tsx").write_text("export const sum = (a: number, b: number) => a + b;\n", encoding="utf-8")
    config = env.build / "collector" / "web" / "ui" / "tsconfig.json"
    (planted / "tsconfig.json").write_text(f'{{"extends": "{config}", "include": ["."]}}', encoding="utf-8")
    lint = subprocess.run(["node", packages / "node_modules" / "eslint" / "bin" / "eslint.js", "--config", UI / "eslint.config.mjs", "--format", "json", "."],
                          cwd=planted, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
                          env={**os.environ, "EA_PACKAGES": str(packages), "EA_TSCONFIG": str(planted / "tsconfig.json")})
    try:
        found = {pathlib.Path(one["filePath"]).name: {m["ruleId"] for m in one["messages"]} for one in json.loads(lint.stdout)}
    except ValueError as error:
        raise harness.Failure(f"ESLint: {lint.stdout[:2000]}") from error
    checks.equal(found.get("clean.tsx"), set(), "ESLint finds nothing in a file without a mistake")
    for i, (fault, rule) in enumerate(FAULTS.items()):
        checks.equal(found.get(f"fault{i}.tsx"), {rule}, f"ESLint finds {rule}: {fault}")


if __name__ == "__main__":
    harness.main(test, __doc__)
