#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""Sigma rules in the engine (proto/rules, by tests/unit/rules_judge.c) and in a naive evaluator (tests/sigma_naive.py): the same rules
hold for the same events. Rules are generated: every modifier, wildcards and escapes, lists, keywords, conditions; for each rule there
are events that fit one of its branches, and events that differ from such in one thing. Each event is judged by all rules.

    python3 tests/e2e/test_rules.py --build BUILD [--rules FOLDER] [--seed N]

With --rules the rules of a folder are judged instead, as a checkout of SigmaHQ/sigma: each event by its own rule, and some by all. It
needs PyYAML, and prints what was refused and how large the compiled rules are.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "bench")]
import sigma_naive as naive
import sigma_rules

FIELDS = ("Image", "CommandLine", "ParentImage", "User", "Size", "Address")
PIECES = ("a", "b", "ab", "A", "-a", "/b", " -ab", "\\", "\\x", ".exe", "é", " ", "\u2013a", "%", "1", "10", "'", '"', "[", "(")
EXPRESSIONS = (r"^a+b?$", r"\bab\b", r"(a|b){2,3}\.exe", r"[^a-z ]+", r"\\x.*-a", r"(?i)AB\d*", r"a.b", r"^$", r"\s-[ab]", r"(ab|é)+$", r"x?",
               r"[\w.]{3,}", r"(?:a(?:b(?:1)?)?)x", r"\x61\u0062", r"^[^\\]*\\", r"a*?b", r"\W\w\b", r"\Bb")
NETWORKS = ("10.0.0.0/8", "10.1.2.0/23", "192.168.1.7/32", "0.0.0.0/0", "fe80::/10", "::1", "2001:db8::/33")
ADDRESSES = ("10.1.2.3", "10.1.3.255", "192.168.1.7", "fe80::1", "febf::", "::1", "2001:db8:7fff::", "2001:db8:8000::", "010.1.2.3", "1.2.3", "::ffff:10.0.0.1",
             "nothing", "1.2.3.4.5", "::10.1.2.3", "1:2:3:4:5:6:7:8:9", "fe80::1%3")


def value(rng):
    text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.3:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(("*", "?", "\\*", "\\?", "\\\\*", "\\\\", "**", "\\\\\\", "\\\\\\*", "\\" * 4, "\\" * 4 + "?")) + text[at:]
    return text


def plain_value(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(3, 5))).replace("\\", "/")


def detection_item(rng):
    field = rng.choice(FIELDS)
    kind = rng.randrange(16)
    if kind < 6:
        modifiers = rng.choice(("", "|contains", "|startswith", "|endswith", "|contains|all", "|windash|contains", "|contains|windash", "|cased",
                                "|contains|cased", "|neq", "|startswith|neq"))
        values = [value(rng) for _ in range(rng.randint(1, 4))]
        if "|all" in modifiers or len(values) > 1 or rng.random() < 0.5:
            return field + modifiers, values
        return field + modifiers, values[0]
    if kind == 6:
        return field + rng.choice(("|base64|contains", "|base64offset|contains", "|wide|base64offset|contains", "|utf16le|contains", "|utf16be|contains",
                                   "|utf16", "|utf16|base64")), [plain_value(rng) for _ in range(rng.randint(1, 2))]
    if kind == 7:
        return field + rng.choice(("|re", "|re|i", "|re|s", "|re|m", "|re|i|s")), [rng.choice(EXPRESSIONS) for _ in range(rng.randint(1, 2))]
    if kind == 8:
        return "Address|cidr", [rng.choice(NETWORKS) for _ in range(rng.randint(1, 3))]
    if kind == 9:
        return "Size|" + rng.choice(("lt", "lte", "gt", "gte")), rng.choice(("0", "10", "11", "-3", "2.5", "0x10", "9223372036854775807"))
    if kind == 10:
        return field + "|" + rng.choice(("fieldref", "fieldref|endswith", "fieldref|startswith", "fieldref|cased")), rng.choice(FIELDS)
    if kind == 11:
        return field + "|exists", rng.choice(("true", "false"))
    if kind == 12:
        return field, rng.choice((None, "", "*", "?", "?*", [None, value(rng)], ["", "a"]))
    return field + "|contains", rng.choice(PIECES)


def generated_rule(rng):
    searches = {}
    for i in range(rng.randint(1, 4)):
        name = rng.choice(("selection", "filter", "_hidden")) + (f"_{i}" if i else "")
        kind = rng.random()
        if kind < 0.08:
            searches[name] = [value(rng) for _ in range(rng.randint(1, 3))]
        elif kind < 0.12:
            searches[name] = {"|all": [value(rng) for _ in range(2)]}
        elif kind < 0.35:
            searches[name] = [dict(detection_item(rng) for _ in range(rng.randint(1, 2))) for _ in range(rng.randint(2, 3))]
        else:
            searches[name] = dict(detection_item(rng) for _ in range(rng.randint(1, 3)))
    names = list(searches)
    them = [] if all(name.startswith("_") for name in names) else ["1 of them", "all of them"]
    terms = [*names, *them, *(f"{word} of {name[:3]}*" for name in names for word in ("1", "all", "any"))]

    def condition(depth):
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return rng.choice(terms)
        if kind < 0.45:
            return "not " + rng.choice(terms)
        if kind < 0.6:
            return f"({condition(depth - 1)})"
        return f"{condition(depth - 1)} {rng.choice(('and', 'or', 'and not'))} {condition(depth - 1)}"

    conditions = condition(2) if rng.random() < 0.9 else [condition(1), condition(1)]
    return {"title": "generated", "logsource": {"product": "windows", "category": "test"}, "detection": {**searches, "condition": conditions}}


def random_event(rng):
    event = []
    for field in FIELDS:
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            event.append((field, rng.choice(ADDRESSES) if field == "Address" else rng.choice(("9", "10", "+11", "0x0F", "-4", "2.50", "x1", "1e3")) if field == "Size"
                          else "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 5)))))
    return event


def hexed(text):
    return naive.as_bytes(text).hex()


def asked(source, event):
    words = [source.get(key) or "-" for key in ("product", "category", "service")]
    return "\n".join([f"E {' '.join(words)}", *(f"F {hexed(name)} {hexed(text)}" for name, text in event), ".\n"])


def judge(program, files, questions, folder):
    """The problems, the rules as {number: (file, line)}, and of each question the numbers of rules."""
    listed = folder / "files"
    listed.write_text("".join(f"{file}\n" for file in files))
    output = subprocess.run([program, f"@{listed}"], input="".join(questions).encode(), stdout=subprocess.PIPE, check=True, timeout=600).stdout.decode()
    problems, rules, answers, facts = [], {}, [], {}
    for line in output.split("\n")[:-1]:
        word, *rest = line.split("\t")
        if word == "problem":
            problems.append(rest)
        elif word == "rule":
            rules[int(rest[0])] = (rest[1], int(rest[2]), int(rest[3]))
        elif word in ("bytes", "stats", "cost"):
            facts[word] = rest
        else:
            answers.append({int(n) for n in word.split()})
            facts.setdefault("may", []).append(int(rest[0]) if rest else None)
    return problems, rules, answers, facts


def generated(program, seed, folder):
    rng = random.Random(seed)
    rules, trees, files = [], [], []
    for i in range(150):
        rule = {**generated_rule(rng), "id": f"rule-{i}"}
        path = folder / f"{i:04}.yml"
        documents, tree = [rule], naive.tree_of(rule)
        if i % 2:  # a filter: its condition has to hold, too
            made = generated_rule(rng)["detection"]
            documents.append({"title": "filter", "logsource": rule["logsource"], "filter": {"rules": [f"rule-{i}"], **made}})
            tree = ("and", [tree, naive.tree_of({"detection": made})])
        path.write_text("\n---\n".join(json.dumps(document, ensure_ascii=False) for document in documents), encoding="utf-8")  # JSON is YAML
        files.append(path)
        rules.append(rule)
        trees.append(tree)
    events = [random_event(rng) for _ in range(200)]
    for i, tree in enumerate(trees):
        events += naive.events_of(tree, 4, seed + i)
    source = rules[0]["logsource"]
    looks_at_characters = ["?" in file.read_text(encoding="utf-8") or "|re" in file.read_text(encoding="utf-8") for file in files]
    problems, known, answers, _ = judge(program, files, [asked(source, event) for event in events], folder)
    wrong = [f"refused: {problem}" for problem in problems]
    fitting, judged = collections.Counter(), 0
    for event, numbers in zip(events, answers, strict=True):
        ours = {int(pathlib.Path(known[n][0]).stem) for n in numbers}
        is_utf8 = all(0xdc80 > ord(c) or ord(c) > 0xdcff for _, text in event for c in text)
        for i, tree in enumerate(trees):
            if not is_utf8 and looks_at_characters[i]:
                continue  # what is a character there differs
            expected = naive.fits(tree, event)
            judged += 1
            fitting[i] += expected
            if expected != (i in ours):
                wrong.append(f"rule {files[i].read_text(encoding='utf-8')} on {event!r}: the engine says {i in ours}, the naive evaluator {expected}")
    print(f"{judged} judgements of {len(trees)} rules on {len(events)} events; {sum(1 for n in fitting.values() if n)} rules fit an event, "
          f"{sum(1 for n in fitting.values() if n < len(events))} do not fit one")
    if sum(1 for n in fitting.values() if 0 < n < len(events)) < len(trees) * 0.6:
        wrong.append("less than 60 % of the rules have both outcomes")
    return wrong


def known_in_part(program, seed, folder):
    """A rule and events of which some fields are not known at first: where the engine says that no rule holds, none does with the event's own values, nor
    with those of other events."""
    rng, wrong, judged, left = random.Random(seed), [], 0, 0
    for turn in range(100):
        rules = [generated_rule(rng)]
        trees = [naive.tree_of(rule) for rule in rules]
        path = folder / "part.yml"
        path.write_text("\n---\n".join(map(json.dumps, rules)), encoding="utf-8")
        events = [random_event(rng) for _ in range(20)] + [event for tree in trees for event in naive.events_of(tree, 4, seed + turn)]
        unknown = [rng.sample(FIELDS, rng.randint(1, 2)) for _ in events]
        questions = [asked(rules[0]["logsource"], event)[:-2] + "".join(f"U {name}\n" for name in names) + ".\n" for event, names in zip(events, unknown)]
        _, _, answers, facts = judge(program, [path], questions, folder)
        for i, (numbers, may) in enumerate(zip(answers, facts["may"], strict=True)):
            if may is None:
                continue  # no rule names one of the unknown fields
            others = [] if may else [random_event(rng) for _ in range(10)] + rng.sample(events, 5)
            made = [[pair for pair in events[i] if pair[0] not in unknown[i]] + [pair for pair in other if pair[0] in unknown[i]] for other in others]
            judged, left = judged + 1, left + (not may)
            if not may and (numbers or any(naive.fits(tree, event) for tree in trees for event in made)):
                wrong.append(f"rules {rules} on {events[i]!r} without {unknown[i]}: the engine says that none can hold")
    print(f"{judged} events of which fields were not known; for {left} no rule could hold")
    if left < judged / 10:
        wrong.append("the engine says of less than a tenth of the events that no rule can hold")
    return wrong


def of_the_benchmark(program, seed, folder):
    """Rules of many literals on process starts: the same programs, parents and names again and again."""
    words = sigma_rules.Words(seed)
    rules = [sigma_rules.rule(words, i) for i in range(150)]
    trees = [naive.tree_of(rule) for rule in rules]
    path = folder / "rules.yml"
    path.write_text("\n---\n".join(map(json.dumps, rules)), encoding="utf-8")
    events = [list(event.items()) for event in sigma_rules.events(words, 600)]
    for i, tree in enumerate(trees):
        events += naive.events_of(tree, 2, seed + i)
    rng = random.Random(seed)
    rng.shuffle(events)
    problems, known, answers, _ = judge(program, [path], [asked(rules[0]["logsource"], event) for event in events * 2], folder)
    line_of = {known[number][1]: number for number in known}
    number_of = [line_of[1 + 2 * i] for i in range(len(rules))]  # a line each, and one between them
    wrong, fitting = [f"refused: {problem}" for problem in problems], set()
    if answers[:len(events)] != answers[len(events):]:
        wrong.append("events that come again are judged differently")
    for event, numbers in zip(events, answers):
        for i, tree in enumerate(trees):
            expected = naive.fits(tree, event)
            fitting |= {i} if expected else set()
            if expected != (number_of[i] in numbers):
                wrong.append(f"rule {rules[i]} on {event!r}: the engine says {number_of[i] in numbers}, the naive evaluator {expected}")
    print(f"{len(rules)} rules of the benchmark on {len(events)} events, twice; {len(fitting)} fit an event")
    if len(fitting) < len(rules) * 0.9:
        wrong.append("less than 90 % of the benchmark's rules fit an event")
    return wrong


def folder_of_rules(program, root, seed, folder):
    files = sorted(path for path in root.rglob("*.yml") if path.is_file())
    trees, unusable = {}, collections.Counter()
    for path in files:
        try:
            documents = naive.load_rules(path.read_text(encoding="utf-8"))
            if len(documents) == 1 and "detection" in documents[0]:
                trees[str(path)] = (documents[0].get("logsource", {}), naive.tree_of(documents[0]))
        except naive.Unusable as error:
            unusable[str(error)] += 1
    questions, own = [], []
    for i, (path, (source, tree)) in enumerate(trees.items()):
        for event in naive.events_of(tree, 12, seed + i):
            if all(len(text) < 100000 for _, text in event):
                questions.append(asked(source, event))
                own.append((path, event))
    problems, rules, answers, facts = judge(program, files, questions, folder)
    wrong, fitting, differing, groups = [], set(), set(), collections.defaultdict(list)
    for number, (path, _, group) in rules.items():
        groups[group].append(number)
    compiled = {path for path, _, _ in rules.values()}
    number_of = {path: (number, group) for number, (path, _, group) in rules.items()}
    everything = random.Random(seed).sample(range(len(own)), min(len(own), 300))
    for i, ((path, event), numbers) in enumerate(zip(own, answers, strict=True)):
        if path not in compiled:
            continue
        number, group = number_of[path]
        judged = [number]
        if i in everything:
            judged = [n for n in groups[group] if rules[n][0] in trees]
        for n in judged:
            expected = naive.fits(trees[rules[n][0]][1], event)
            if n == number:
                (fitting if expected else differing).add(path)
            if expected != (n in numbers):
                wrong.append(f"{rules[n][0]} on {event!r}: the engine says {n in numbers}, the naive evaluator {expected}")
    print(f"{len(files)} files, {len(rules)} rules compiled, {facts['bytes'][0]} bytes, {len(own)} events; {len(fitting)} rules with an event that "
          f"fits, {len(differing)} with one that does not; the naive evaluator does not read {sum(unusable.values())}: {dict(unusable)}")
    kinds = collections.Counter(problem[4] for problem in problems)
    for text, count in kinds.most_common():
        print(f"refused {count}: {text} (as {next(p for p in problems if p[4] == text)[:3]})")
    if int(facts["bytes"][0]) > 64 << 20:
        wrong.append("the compiled rules take more than 64 MiB")
    if len(fitting) < len(compiled) * 0.95:
        wrong.append(f"of {len(compiled)} rules {len(fitting)} have an event that fits")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rules", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program = options.build / "tests" / "unit" / "rules_judge"
    with tempfile.TemporaryDirectory() as folder:
        check = (lambda: folder_of_rules(program, options.rules, options.seed, pathlib.Path(folder))) if options.rules else (
            lambda: generated(program, options.seed, pathlib.Path(folder)) + known_in_part(program, options.seed, pathlib.Path(folder)) + of_the_benchmark(program, options.seed, pathlib.Path(folder)))
        wrong = check()
    for line in wrong[:20]:
        print(f"FAILED: {line}")
    print(f"{0 if wrong else 1} passed, {1 if wrong else 0} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
