"""The own tests of Sigma rules (`etwcollector rules test RULES` without a store): those that fail are printed with file, line and column, mistakes in them
are reported, and correlations of all types are judged as a naive evaluator (tests/sigma_naive.py) judges them.
"""
# sanitizers: asan-ubsan
import json
import random

import harness

import sigma_naive as naive

SOURCE = {"product": "windows", "category": "process_creation"}
RULE = """title: a shell
logsource: {product: windows, category: process_creation}
detection: {s: {Image|endswith: '\\cmd.exe', CommandLine|contains|all: [a, b]}, keys: [secret], condition: s or keys}
tests:
  positive:
    - {Image: 'C:\\cmd.exe', CommandLine: 'a b'}
    - {Image: ['C:\\x.exe', 'C:\\CMD.EXE'], CommandLine: ba}
    - {Other: 'a Secret text'}
  negative:
    - {Image: 'C:\\cmd.exe', CommandLine: null}
    - {Image: 'C:\\cmd.exe', CommandLine: a}
"""
MISTAKES = (("tests: []\n", "expected tests: {positive"), ("tests: {positives: []}\n", "expected positive or negative"), ("tests: {positive: {A: b}}\n", "expected a list of events"),
            ("tests: {positive: [a]}\n", "expected an event: a mapping"), ("tests: {positive: [{A: {b: c}}]}\n", "expected a value or a list of values, found a mapping"))
KINDS = ("event_count", "value_count", "value_sum", "value_avg", "value_percentile", "temporal", "temporal_ordered")


def ran(env, *words, code=0):
    done = env.run([env.collector, "rules", "test", *words], check=False)
    if done.returncode != code:
        raise AssertionError(f"{words}: exit code {done.returncode}, not {code}: {done.stdout[-1000:]} {done.stderr}")
    return done


def generated(rng, number):
    """A correlation and, as its tests, matches of which some are too far apart."""
    kind = KINDS[number % len(KINDS)]
    made = {"type": kind, "rules": [f"r{i}" for i in range(3 if kind.startswith("temporal") else rng.randint(1, 2))], "timespan": "10s",
            "group-by": rng.choice(([], ["User"], ["User", "Host"]))}
    if not kind.startswith("temporal"):
        made["condition"] = {rng.choice(("gte", "gt")): rng.choice((1, 2, 3, 4, 60) if kind.endswith("count") else (1, 20, 50, 100, 1 << 33))}
    if kind.startswith("value"):
        made["condition"]["field"] = "Size"
    if kind == "value_percentile":
        made["condition"]["percentile"] = rng.choice((1, 25, 50, 75, 90, 99, 100))
    tests, expected = {"positive": [], "negative": []}, []
    for _ in range(5):
        time, matches = 0, []
        for _ in range(rng.randint(1, 25)):
            time += rng.choice((0, 1, 500, 2000, 4000, 9999, 10000))
            fields = {"User": rng.choice(("a", "A", "b")), "Host": rng.choice(("x", "y")), "Size": rng.choice(("1", "7", "0x10", "-9", "+30", "64", "2.5", "no", "", "99",
                      "18446744073709551615", "18446744073709551616", "-18446744073709551615"))}
            if rng.random() < 0.2:
                del fields[rng.choice(("User", "Host", "Size"))]
            matches.append((time, f"r{rng.randrange(3)}", fields))
        found = naive.correlate(made, matches, 10000)
        tests["positive" if found else "negative"].append([{"at": f"{at}ms", "rule": rule, "event": {"Kind": rule, **fields}} for at, rule, fields in matches])
    for kind_of_test in ("positive", "negative"):
        for events in tests[kind_of_test]:
            found = naive.correlate(made, [(int(e["at"][:-2]), e["rule"], {k: v for k, v in e["event"].items() if k != "Kind"}) for e in events], 10000)
            expected.append([fields for time, fields in found if time == found[0][0]] if found else [None])  # groups may have one at the same time
    return {"title": f"c{number}", "correlation": made, "tests": tests}, expected


def test_correlations(env, checks):
    rng, documents, expected = random.Random(1), [], []
    for i in range(3):
        documents.append({"title": f"r{i}", "logsource": SOURCE, "detection": {"s": {"Kind": f"r{i}"}, "condition": "s"}})
    for i in range(8 * len(KINDS)):
        document, said = generated(rng, i)
        documents.append(document)
        expected += said
    folder = env.folder / "correlations"
    folder.mkdir()
    for begin in range(0, len(documents), 50):
        (folder / f"{begin:03}.yml").write_text("\n---\n".join(map(json.dumps, documents[begin:begin + 50])))
    done = env.run([env.collector, "rules", "test", "--json", folder], check=False)
    answer = json.loads(done.stdout)
    checks.equal((answer["problems"], answer["test_count"], len(answer["tests"])), ([], len(expected), len(expected)), "tests of correlations")
    wrong = [f"{row['title']}: {row['fields']}, and {fields} by the naive evaluator" for row, fields in zip(answer["tests"], expected) if row["fields"] not in fields]
    checks.equal((wrong[:5], answer["failed"]), ([], 0), "correlations are judged as by the naive evaluator")
    for kind in range(len(KINDS)):
        outcomes = {row["matches"] for row in answer["tests"] if int(row["title"][1:]) % len(KINDS) == kind}
        checks.equal(outcomes, {True, False}, f"{KINDS[kind]}: both outcomes")


def test(env, checks, arguments):
    path = env.folder / "rule.yml"
    path.write_text(RULE)
    text = ran(env, path).stdout
    checks.equal(text, "1 rules and correlations, 1 with tests; 5 tests, 0 failed, 0 of documents that are no rules\n", "tests that pass")
    path.write_text(RULE.replace("CommandLine: ba", "CommandLine: c").replace("CommandLine: null", "CommandLine: ab"))
    text = ran(env, path, code=1).stdout
    checks.equal(text.splitlines()[:-1], [f"{path}:7:7: failed: a shell does not match, and should", f"{path}:10:7: failed: a shell matches, and should not"], "tests that fail")
    rows = json.loads(ran(env, "--json", path, code=1).stdout)["tests"]
    checks.equal([(row["line"], row["expected"], row["matches"]) for row in rows],
                 [(6, True, True), (7, True, False), (8, True, True), (10, False, True), (11, False, False)], "tests as JSON")
    for added, message in MISTAKES:
        path.write_text(RULE[:RULE.index("tests:")] + added)
        text = ran(env, path, code=3).stdout
        checks.that(f"{path}:4:" in text and message in text, f"{added}: {text}")
    path.write_text("correlation: {type: event_count, rules: [a], timespan: 5m, condition: {gte: 2}}\ntitle: two\ntests: {positive: [[{at: 1x, event: {A: b}}]]}\n---\n"
                    "title: a\nlogsource: {category: c}\ndetection: {s: {A: b}, condition: s}\n")
    checks.that(f"{path}:3:26: mistake: expected the time" in ran(env, path, code=3).stdout, "a time that is none")
    path.write_text(path.read_text().replace("at: 1x", "rule: unknown"))
    checks.that("of a rule that is not there" in ran(env, path, code=1).stdout, "an event of an unknown rule")
    path.write_text(path.read_text().replace("rule: unknown, event", "event").replace("condition: {gte: 2}", "condition: {gte: 1}"))
    checks.that(" 1 tests, 0 failed" in ran(env, path).stdout, "an event of the first rule")
    path.write_text("title: n\nlogsource: {category: c}\ndetection: {s: {A: null}, condition: s}\ntests: {positive: [{A: null}, {A: Null}, {A: NULL}, {A: ~}, {A: }]}\n")
    checks.that(" 5 tests, 0 failed" in ran(env, path).stdout, "null in an event is no value, as in a rule")
    ran(env, "--host", "pc", path, code=2)
    answer = json.loads(ran(env, "--json", harness.ROOT / "config" / "rules").stdout)
    checks.equal((answer["failed"], answer["problems"], answer["tested"]), (0, [], answer["rules"]), "each of the program's own rules has tests, and passes them")
    test_correlations(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
