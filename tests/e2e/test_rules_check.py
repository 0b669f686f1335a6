"""`etwcollector rules check`: which Sigma rules can fire. For generated rules over the fields of config/sigma the verdicts and the missing fields are those
of a naive computation (all assignments of a condition's searches), with all options, with agents' configurations, and with the events that one host has
sent. Mistakes are reported by file, line and column; exit codes; folders; what would bring more.
"""
# sanitizers: asan-ubsan
import csv
import itertools
import json
import pathlib
import random
import re
import sqlite3

import harness

import kernel_records as kernel
import test_single_records as single

TABLES = pathlib.Path(__file__).resolve().parents[2] / "config" / "sigma"
PROFILES = TABLES.parent / "profiles"
UNKNOWN = "NoSuchField"
KEYS, VALUES = "provider: Microsoft-Windows-Kernel-Registry", "registry-values: true"
STATES = ("missing", "part", "there")
BAD = {  # a file, and where its mistake is
    "bad/field.yml": ("title: b\nlogsource:\n  product: windows\n  category: process_creation\ndetection:\n  s:\n    Image|ends: x\n  condition: s\n", 7, 11, "mistake"),
    "bad/yaml.yaml": ("title: [\n", 2, 1, "mistake"),
    "bad/chain.yml": ("title: c\ncorrelation:\n  type: value_max\n", 3, 9, "unsupported"),
}


def tables():
    """{(category, service): [(field, events, options)]}"""
    found = {}
    for path in sorted(TABLES.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
        if path.stem == "services":
            found.update({("", row[0]): [("*", f"{row[2]}/*@{row[1]}", row[3].split(" + "))] for row in rows})
        else:
            found[path.stem, ""] = [(row[0], row[1], row[3].split(" + ")) for row in rows]
    return found


def state_of(rows, field, is_set, classes):
    """How much of a field is there: 0, 1, 2."""
    best = 0
    for name, events, options in rows:
        if name not in (field, "*") or any(not is_set(option, events) for option in options):
            continue
        if classes is not None and not any(all(one in classes for one in alternative.split("+")) for alternative in events.split(",")):
            continue
        best = max(best, 1 if any(option.startswith("part: ") for option in options) else 2)
    return best


def verdict_of(rule, rows, is_set, classes):
    """full, partly or never; and {field: state} of the fields that are missing or there in part."""
    if rows is None:
        return "never", {None: "missing"}
    states = {field: state_of(rows, field, is_set, classes) for field in rule["fields"].values()}
    missing = {field: STATES[state] for field, state in states.items() if state < 2}
    if not any(state_of(rows, name if name != "*" else "x", is_set, classes) for name, _, _ in rows):
        return "never", missing
    if not missing:
        return "full", {}
    free = [name for name, field in rule["fields"].items() if states[field]]
    absent = dict.fromkeys(set(rule["fields"]) - set(free), False)
    holds = any(eval(rule["condition"], {}, {**absent, **dict(zip(free, values))}) for values in itertools.product((False, True), repeat=len(free)))
    return "partly" if holds else "never", missing


def generated(rng, source, fields):
    names = [f"s{i}" for i in range(rng.randint(1, 4))]
    chosen = {name: rng.choice(fields) for name in names}

    def condition(rest):
        if len(rest) == 1:
            return f"{rng.choice(('', '', 'not '))}{rest[0]}"
        at = rng.randint(1, len(rest) - 1)
        return f"{rng.choice(('', 'not '))}({condition(rest[:at])} {rng.choice(('and', 'or', 'and'))} {condition(rest[at:])})"

    return {"source": source, "fields": chosen, "condition": condition(names)}


def as_yaml(number, rule):
    category, service = rule["source"]
    searches = "".join(f"  {name}:\n    {field}: value{number}-{name}\n" for name, field in rule["fields"].items())
    return f"title: rule {number}\nlogsource:\n  product: windows\n" + (f"  category: {category}\n" if category else f"  service: {service}\n") + \
        f"detection:\n{searches}  condition: {rule['condition']}\n"


def configuration(rng, options, services):
    """A configuration with some of the options, and which options it has: is_set(option, events)."""
    chosen = {option for option in options if rng.random() < 0.6}
    if "flags: LOADER" not in chosen:
        chosen.discard("images: true")
    if KEYS not in chosen:
        chosen.discard(VALUES)
    flags = sorted(option[7:] for option in chosen if option.startswith("flags: "))
    channels = {option[5:] for option in chosen if option.startswith("log: ")} | set(rng.sample(sorted(services), len(services) // 3))
    queried = rng.sample(sorted(services - channels), 3)
    filtered, lines = set(), ["sources:", f"  - {{name: logs, eventlog: {json.dumps(sorted(channels))}}}",
                              f"  - {{name: some, eventlog: {json.dumps(queried)}, query: '*[System[(EventID=1)]]'}}", "  - {name: file, files: a.etl}", "sessions:"]
    if flags:
        lines += ["  - name: kernel", "    kind: system", f"    flags: [{', '.join(flags)}]", *(["    images: true"] if "images: true" in chosen else [])]
    providers = sorted(option[10:] for option in chosen if option.startswith("provider: "))
    lines += ["  - name: providers", "    providers:", "      - provider: Microsoft-Windows-Nothing"]
    for provider in providers:
        lines.append(f"      - provider: {provider if rng.random() < 0.5 else provider.lower()}")
        if f"provider: {provider}" == KEYS and VALUES in chosen:
            lines.append("        registry-values: true")
        if rng.random() < 0.3:
            filtered.add(f"provider: {provider}")
            lines.append("        event-ids: [3008, 5, 30-40]")

    def is_set(option, events):
        kind = option.split(": ")[0]
        if kind in ("policy", "part"):
            return True
        if kind == "none":
            return False
        if kind == "log" or events.partition("@")[2] in channels:
            return kind != "log" or option[5:] in channels
        if option in filtered:
            number = events.split("/")[1].split("+")[0].split(",")[0]
            return not number.isdigit() or number in ("3008", "5") or 30 <= int(number) <= 40
        return option in chosen
    return "\n".join(lines) + "\n", is_set


def checked(env, *words, code=0):
    done = env.run([env.collector, "rules", "check", *words], check=False)
    if done.returncode != code:
        raise harness.Failure(f"rules check {words} ended with {done.returncode}, not {code}: {done.stderr}")
    return done


def compare(checks, env, folder, rules, known, is_set, classes, what, *words):
    answer = json.loads(checked(env, "--json", *words, folder).stdout)
    counts = dict.fromkeys(("full", "partly", "never"), 0)
    wrong, outcomes = [], set()
    for row in answer["rules"]:
        rule = rules[int(pathlib.Path(row["file"]).stem)]
        verdict, missing = verdict_of(rule, known.get(rule["source"]), is_set, classes)
        counts[verdict] += 1
        outcomes.add(verdict)
        got = row["coverage"], {one["field"]: one["state"] for one in row["missing"]}
        if got != (verdict, missing):
            wrong.append((rule, (verdict, missing), got))
    checks.equal(wrong[:3], [], f"{what}: {len(wrong)} rules differ: (rule, naive, got)")
    checks.equal(len(answer["rules"]), len(rules), f"{what}: rules")
    checks.equal({name: answer[name] for name in counts}, counts, f"{what}: sums")
    checks.that(len(outcomes) == 3, f"{what}: verdicts {outcomes}")
    return answer


def check_gains(checks, env, folder, answer, options, path):
    """The configuration with the options of the greatest gain has so many more full rules."""
    gain = answer["gains"][0]
    checks.equal(answer["gains"], sorted(answer["gains"], key=lambda one: (-one["rules"], one["options"])), "gains: the greatest is first")
    more = [option for option in gain["options"].split(" + ") if not option.startswith("log: ")]
    if len(more) < gain["options"].count(" + ") + 1:
        return
    text = path.read_text()
    flags = [option[7:] for option in more if option.startswith("flags: ")]
    providers = [option[10:] + ("\n        registry-values: true" if option == KEYS and VALUES in more else "") for option in more if option.startswith("provider: ")]
    if VALUES in more and KEYS not in more:
        providers.append(KEYS[10:] + "\n        registry-values: true")
    text += f"  - name: more\n    kind: system\n    flags: [{', '.join([*flags, 'LOADER'])}]\n" + ("    images: true\n" if "images: true" in more else "") if flags or "images: true" in more else ""
    text += "  - name: more-providers\n    providers:\n" + "".join(f"      - provider: {one}\n" for one in providers) if providers else ""
    path.write_text(text)
    after = json.loads(checked(env, "--json", "--agent-config", path, folder).stdout)
    checks.that(after["full"] >= answer["full"] + gain["rules"], f"with {gain}: {answer['full']} full rules became {after['full']}")


def mistakes(checks, env):
    folder = env.folder / "mistakes"
    for name, (text, *_) in BAD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "good.yml").write_text(as_yaml(0, {"source": ("process_creation", ""), "fields": {"s": "Image"}, "condition": "s"}))
    (folder / "linux.yml").write_text("title: other\nlogsource:\n  product: linux\n  category: process_creation\ndetection:\n  s:\n    Image: x\n  condition: s\n")
    (folder / "words.yml").write_text("title: words\nlogsource:\n  product: windows\n  service: system\ndetection:\n  k:\n    - mimikatz\n  condition: k\n")
    (folder / "notes.txt").write_text("no rule\n")
    (folder / ".hidden.yml").write_text("no rule\n")
    answer = json.loads(checked(env, "--json", folder, code=3).stdout)
    got = {(pathlib.Path(one["file"]).relative_to(folder).as_posix(), one["line"], one["column"], one["kind"]) for one in answer["problems"]}
    checks.equal(got, {(name, line, column, kind) for name, (_, line, column, kind) in BAD.items()}, "mistakes by file, line and column")
    checks.equal((answer["files"], answer["rule_count"], answer["mistakes"], answer["unsupported"]), (6, 3, 2, 1), "numbers of files, rules, mistakes")
    checks.equal({one["title"]: one["coverage"] for one in answer["rules"]}, {"rule 0": "full", "other": "never", "words": "full"}, "verdicts beside mistakes")
    done = checked(env, folder, code=3)
    checks.that(f"{folder}/bad/field.yml:7:11: mistake: unknown modifier" in done.stdout, f"a mistake as text: {done.stdout}")
    checks.that(f"full    {folder}/good.yml:1: rule 0\n" in done.stdout, f"a rule as text: {done.stdout}")
    checks.that("all fields: none: no event of this program serves this log source" in done.stdout, f"another product: {done.stdout}")
    checks.that("6 files, 3 rules: 2 full, 0 partly, 1 never; documents with a mistake: 2, not supported: 1; filters: 0, correlations: 0\n" in done.stdout, f"the sum as text: {done.stdout}")
    checks.equal(checked(env, folder / "good.yml", folder / "bad" / "chain.yml").stderr, "", "a document that is not supported is no mistake")
    for words, code in (((), 2), (("--host", "pc", folder), 2), (("--store", folder, folder), 2), ((folder / "missing.yml",), 1), ((env.folder / "nothing",), 1)):
        (env.folder / "nothing").mkdir(exist_ok=True)
        done = env.run([env.collector, "rules", "check", *words], check=False)
        checks.that(done.returncode == code and done.stderr, f"rules check {words}: {done.returncode}, {done.stderr}")
    (env.folder / "wrong.yaml").write_text("sessions:\n  - name: a\n    flags: [NOTHING]\n")
    done = env.run([env.collector, "rules", "check", "--agent-config", env.folder / "wrong.yaml", folder], check=False)
    checks.that(done.returncode == 3 and "wrong.yaml:3:" in done.stderr, f"a configuration with a mistake: {done.returncode}, {done.stderr}")


def linked_folders(checks, env):
    """Folders of which each has two links to the next one: 30 of them have a thousand million paths."""
    top = env.folder / "links"
    for i in range(31):
        (top / f"d{i}").mkdir(parents=True)
        for name in ("a", "b") if i < 30 else ():
            (top / f"d{i}" / name).symlink_to(f"../d{i + 1}")
    done = env.run([env.collector, "rules", "check", top / "d0"], check=False, timeout=30)
    checks.that(done.returncode == 1 and "there are more than 10000 folders" in done.stderr, f"links that multiply: {done.returncode}, {done.stderr[-300:]}")


# The properties of LAYERFORMATv4_5.md: (type, required)
LAYER = {"name": (str, True), "versions": (dict, False), "domain": (str, True), "description": (str, False), "filters": (dict, False), "techniques": (list, False),
         "gradient": (dict, False), "legendItems": (list, False)}
VERSIONS = {"layer": (str, True), "navigator": (str, True), "attack": (str, False)}
TECHNIQUE = {"techniqueID": (str, True), "tactic": (str, False), "comment": (str, False), "enabled": (bool, False), "score": (int, False), "color": (str, False)}
GRADIENT = {"colors": (list, True), "minValue": (int, True), "maxValue": (int, True)}
LEGEND = {"label": (str, True), "color": (str, True)}


def read_layer(checks, text):
    """{technique: (score, comment)} of a layer of ATT&CK Navigator, read as its format describes it."""
    def properties(what, found, known):
        checks.equal([name for name in found if name not in known], [], f"properties of {what} that the format lacks")
        wrong = [name for name, (kind, needed) in known.items() if (name not in found and needed) or (name in found and type(found[name]) is not kind)]
        checks.equal(wrong, [], f"properties of {what} that are missing or of another type")
    layer = json.loads(text)
    properties("a layer", layer, LAYER)
    properties("its versions", layer["versions"], VERSIONS)
    properties("its gradient", layer["gradient"], GRADIENT)
    checks.that(layer["versions"]["layer"] == "4.5" and tuple(int(n) for n in layer["versions"]["navigator"].split(".")) >= (4, 9, 0), f"versions: {layer['versions']}")
    checks.equal((layer["domain"], layer["filters"]), ("enterprise-attack", {"platforms": ["Windows"]}), "domain and platforms of a layer")
    colors = layer["gradient"]["colors"]
    checks.that(len(colors) >= 2 and all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors), f"colors of a gradient: {colors}")
    checks.equal({one["label"]: one["color"] for one in layer["legendItems"]}, dict(zip(("blind", "partly", "covered"), colors)), "the legend")
    for one in layer["legendItems"]:
        properties("a legend", one, LEGEND)
    for one in layer["techniques"]:
        properties("a technique", one, TECHNIQUE)
        checks.that(re.fullmatch(r"T\d{4}(\.\d{3})?", one["techniqueID"]), f"the id of a technique: {one}")
    ids = [one["techniqueID"] for one in layer["techniques"]]
    checks.equal(ids, sorted(set(ids)), "each technique of a layer is there once")
    return {one["techniqueID"]: (one["score"], one["comment"]) for one in layer["techniques"]}


def attack(checks, env, folder, rules, store):
    """The techniques that tags name, each as the best of its rules, with their detections; tags that name none are left aside."""
    rng = random.Random(3)
    named = {}
    profile = ["--agent-config", harness.ROOT / "config/profiles/security.yaml"]
    verdicts = {int(pathlib.Path(row["file"]).stem): row for row in json.loads(checked(env, "--json", *profile, folder).stdout)["rules"]}
    only = {"ATTACK.t1105": ["partly"], "attack.t1003": ["partly", "never"], "attack.T1003.001": ["never"]}
    tags = {"attack.t1003": "T1003", "attack.T1003.001": "T1003.001", "ATTACK.t1105": "T1105", "attack.t1059.001": "T1059.001", "attack.execution": None, "attack.t105": None,
            "attack.t1059.1": None, "attack.t1059.001x": None, "car.2013-05-002": None, "cve.2021-44228": None, "attack.s0002": None}
    for i, rule in enumerate(rules):
        chosen = [tag for tag in rng.sample(sorted(tags), rng.randrange(4)) if verdicts[i]["coverage"] in only.get(tag, ["full", "partly", "never"])]
        named[i] = {tags[tag] for tag in chosen} - {None}
        (folder / f"{i}.yml").write_text(as_yaml(i, rule) + ("tags:\n" + "".join(f"  - {tag}\n" for tag in [*chosen, *chosen[:1]]) if chosen else ""))
    env.run([env.collector, "detections", "set", "--store", store, "--state", "open", "1"], check=False)  # makes the file
    found = {}
    db = sqlite3.connect(store / "alarms.db")
    with db:
        for i, host in [(rng.randrange(len(rules)), rng.choice(["pc", "other"])) for _ in range(400)]:
            key = verdicts[i]["id"] or verdicts[i]["title"]
            db.execute("INSERT INTO detections(host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, who, comment) "
                       "VALUES(?, 's', 1, ?, ?, '', '', '', 1, 2, '{}', 'open', '', '')", (host, sum(found.values()), key))
            found[key, host] = found.get((key, host), 0) + 1
    db.close()
    wanted = {}
    for i, techniques in named.items():
        for technique in techniques:
            row = wanted.setdefault(technique, {"technique": technique, "full": 0, "partly": 0, "never": 0, "detections": 0})
            row[verdicts[i]["coverage"]] += 1
            row["detections"] += sum(n for (key, _), n in found.items() if key == (verdicts[i]["id"] or verdicts[i]["title"]))
    for row in wanted.values():
        row["state"] = "covered" if row["full"] else "partly" if row["partly"] else "blind"
    answer = json.loads(checked(env, "--attack", "--json", *profile, "--store", store, folder).stdout)
    checks.equal((answer["techniques"], answer["rules_without"]), ([wanted[technique] for technique in sorted(wanted)], sum(not one for one in named.values())), "techniques")
    checks.equal(sorted({row["state"] for row in wanted.values()}), ["blind", "covered", "partly"], "the states that are tested")
    checks.that(len(wanted) == 4 and all(row["detections"] for row in wanted.values()), f"the techniques that are tested: {wanted}")
    bare = json.loads(checked(env, "--attack", "--json", *profile, folder).stdout)["techniques"]
    checks.equal(bare, [{**wanted[technique], "detections": None} for technique in sorted(wanted)], "techniques without a store")
    of_host = json.loads(checked(env, "--attack", "--json", "--store", store, "--host", "pc", folder).stdout)["techniques"]
    checks.equal(sum(row["detections"] for row in of_host), sum(n * len(named[i]) for i in named for (key, host), n in found.items()
                                                                 if host == "pc" and key == (verdicts[i]["id"] or verdicts[i]["title"])), "detections of one host")
    layer = read_layer(checks, checked(env, "--navigator", *profile, "--store", store, folder).stdout)
    checks.equal(layer, {name: ({"covered": 100, "partly": 50, "blind": 0}[row["state"]],
                                f"rules: {row['full']} full, {row['partly']} partly, {row['never']} never; detections: {row['detections']}")
                         for name, row in wanted.items()}, "a layer")
    one = env.folder / "blind.yml"
    one.write_text(as_yaml(0, {"source": ("no_such_category", ""), "fields": {"s": "Image"}, "condition": "s"}) + "tags: [attack.t1003]\n")
    checks.equal(checked(env, "--attack", one).stdout, "blind   T1003     rules: 0 full, 0 partly, 1 never\n1 techniques: 0 covered, 0 partly, 1 blind; rules without a technique: 0\n", "as text")
    done = env.run([env.collector, "rules", "check", "--attack", "--host", "pc", folder], check=False)
    checks.that(done.returncode == 2 and "--store" in done.stderr, f"a host without a store: {done.returncode} {done.stderr}")


def profiles(checks, env, folder):
    """security.yaml looks at images; without that, rules check says what it would bring."""
    more = json.loads(checked(env, "--json", "--agent-config", PROFILES / "security.yaml", folder).stdout)
    without = env.folder / "images.yaml"
    text = (PROFILES / "security.yaml").read_text(encoding="utf-8")
    without.write_text(text.replace("    images: true\n", ""), encoding="utf-8")
    less = json.loads(checked(env, "--json", "--agent-config", without, folder).stdout)
    checks.that(more["full"] > less["full"] > 0, f"security.yaml: {more['full']} full rules, without images {less['full']}")
    checks.that(any(one["options"] == "images: true" for one in less["gains"]), f"what images would bring: {less['gains'][:5]}")
    checks.that(not any("images: true" in one["options"] for one in more["gains"]), "images are set")


def test(env, checks, arguments):
    rng = random.Random(25)
    known = tables()
    folder = env.folder / "rules"
    folder.mkdir()
    rules = []
    for source, rows in known.items():
        fields = sorted({row[0] for row in rows if row[0][0] != "@"})
        fields = ["EventID", "Anything"] if fields == ["*"] else [*fields, UNKNOWN]
        rules += [generated(rng, source, fields) for _ in range(3 if source[1] else 12)]
    rules += [generated(rng, source, ["Image"]) for source in (("no_such_category", ""), ("", "no-such-service"))]
    for i, rule in enumerate(rules):
        (folder / f"{i}.yml").write_text(as_yaml(i, rule))
    services = {events.partition("@")[2] for rows in known.values() for _, events, _ in rows if "@" in events}
    options = sorted({option for rows in known.values() for _, _, row_options in rows for option in row_options})
    compare(checks, env, folder, rules, known, lambda option, _: not option.startswith("none: "), None, "all options")
    for i in range(4):
        path = env.folder / f"config{i}.yaml"
        text, is_set = configuration(rng, options, services)
        path.write_text(text)
        answer = compare(checks, env, folder, rules, known, is_set, None, f"configuration {i}", "--agent-config", path)
        check_gains(checks, env, folder, answer, options, path)
    trace, store = env.folder / "pc.etl", env.folder / "store"
    trace.write_bytes(single.trace([kernel.process(100, "a.exe", 1000), kernel.thread(100, 200, 1001), kernel.image(100, 0x7FF700000000, 4096, "a.exe", 1002)]))
    env.run([env.collector, "ingest", "--store", store, "--host", "pc", trace])
    classes = {row["name"] for row in json.loads(env.run([env.collector, "query", "--store", store, "--format", "json", "SELECT name FROM classes"]).stdout)["rows"]}
    checks.that({"Process/Start", "Image/Load", "Thread/Start"} <= classes, f"classes of the host: {classes}")
    answer = compare(checks, env, folder, rules, known, lambda option, _: not option.startswith("none: "), classes, "a host", "--store", store, "--host", "pc")
    checks.equal(answer["gains"], [], "of a host, events are missing, not options")
    done = env.run([env.collector, "rules", "check", "--store", store, "--host", "other", folder], check=False)
    checks.that(done.returncode == 1 and "nothing is stored of host other" in done.stderr, f"an unknown host: {done.returncode}, {done.stderr}")
    profiles(checks, env, folder)
    attack(checks, env, folder, rules, store)
    mistakes(checks, env)
    linked_folders(checks, env)


if __name__ == "__main__":
    harness.main(test, __doc__)
