"""Sigma rules on what arrives: `etwcollector run --rules`. What is detected is compared with what the records say and with `rules test` over the same store; the rules
are read again without loss; a storm of matches is bounded and counted; a collector that is killed again and again has each match once.
"""
# sanitizers: asan-ubsan
import json
import random
import signal
import time
import urllib.request

import harness

import kernel_records as kernel
import test_rules_test as one
import test_single_records as single
import test_web
import web_world

AN_HOUR = 100
SECONDS = 60
TAGS = ["attack.t1059.001", "attack.execution"]


def listed(collector, *words):
    return json.loads(collector.ask(["detections", "list"], "--state", "all", "--json", *words))


def wait_for(collector, count, what, left_out=0):
    def is_there():
        answer = listed(collector)
        return len(answer["detections"]) >= count and answer["left_out"] >= left_out
    harness.wait_until(is_there, what, SECONDS, lambda: f"{len(listed(collector)['detections'])} of {count}: {collector.log()}")
    return listed(collector)


def write_rule(folder, name, title, category, searches, condition, **more):
    rule = {"title": title, "level": "high", "logsource": {"product": "windows", "category": category}, "detection": {**searches, "condition": condition}, "tags": TAGS, **more}
    (folder / name).write_text(json.dumps(rule))


def shells(env, name, first, count):
    """A trace of a machine on which a program starts shells."""
    trace = env.folder / name
    records = [one.process(90, 4, "start.exe", "start.exe", 1000), kernel.image(90, one.BASE, 0x1000, "Tools\\start.exe", 1001)]
    for i in range(count):
        records += [one.process(first + 4 * i, 90, "shell.exe", f"shell.exe /n {i}", 2000 + 10 * i),
                    kernel.image(first + 4 * i, one.BASE, 0x1000, "Tools\\shell.exe", 2001 + 10 * i)]
    trace.write_bytes(single.trace(records))
    return trace


def metrics(web):
    with urllib.request.urlopen(web + "/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("etwcollector_rules_"))}


def test(env, checks, arguments):
    env.make_certificates()
    folder = env.folder / "rules"
    folder.mkdir()
    for i, (title, category, searches, condition, _) in enumerate(one.RULES):
        write_rule(folder, f"{i:02}.yml", title, category, searches, condition, id=f"rule-{i}")
    (folder / "bad.yml").write_text("title: wrong\ndetection:\n  s: [\n")
    collector = env.new_collector(extra=["--rules", folder, "--web", "127.0.0.1:0"]).start()
    web = collector.log().split("dashboard on ")[1].split("/\n")[0]
    checks.that("rule is not used: " in collector.log() and "bad.yml:" in collector.log() and "1 are not used" in collector.log(), f"a wrong rule: {collector.log()}")

    # the same matches, with the same fields, as the records say
    trace = env.folder / "pc.etl"
    trace.write_bytes(single.trace(one.RECORDS))
    env.replay([trace], collector)
    total = sum(len(expected) for *_, expected in one.RULES)
    answer = wait_for(collector, total, "detections of the first trace")
    checks.equal((len(answer["detections"]), answer["left_out"]), (total, 0), "detections")
    for title, _, _, _, expected in one.RULES:
        got = [row for row in answer["detections"] if row["title"] == title]
        if checks.equal(len(got), len(expected), f"{title}: detections"):
            for row, fields in zip(got, expected):
                checks.equal({name: row["fields"].get(name) for name in fields}, fields, f"{title}: fields")
                checks.equal((row["host"], row["level"], row["state"]), ("test-machine", "high", "open"), f"{title}: host, level, state")
    encoded = [row for row in answer["detections"] if row["title"] == "encoded"][0]
    checks.equal((encoded["rule"], encoded["pid"], encoded["process"]), ("rule-1", 300, "powershell.exe"), "rule and process")
    event = collector.ask_json("query", f"SELECT CommandLine FROM \"Process/Start\" WHERE stream = '{encoded['stream']}' AND batch = {encoded['batch']} AND position = {encoded['position']}")
    checks.equal(event["rows"], [{"CommandLine": "powershell.exe -NoP -Enc SQBFAFgA"}], "the event of a detection")
    rows = collector.ask_json("query", "SELECT level, title, state, pid FROM detections ORDER BY number")["rows"]
    checks.equal(sorted(row["title"] for row in rows), sorted(row["title"] for row in answer["detections"]), "table detections")
    counted = metrics(web)
    checks.equal((counted["etwcollector_rules_matched_total"], counted["etwcollector_rules_skipped_total"]), (total, 0), "metrics")
    checks.that(counted["etwcollector_rules_events_total"] >= total, "events in the metrics")

    # over the API: the same rows, and the rule as it was
    get = web_world.Web(collector).get
    items = get("detections", limit=1000)["items"]
    checks.equal(sorted(row["number"] for row in items), sorted(row["number"] for row in answer["detections"]), "detections over the API")
    checks.equal({row["tags"] for row in items}, {json.dumps(TAGS)}, "tags over the API")
    checks.equal([row["number"] for row in get("detections", rule="rule-1", state="open", level="high", host="test-machine")["items"]],
                 [row["number"] for row in answer["detections"] if row["rule"] == "rule-1"], "detections of one rule")
    for nothing in ({"rule": "rule"}, {"state": "closed"}, {"level": "low"}, {"to": "2001-01-01"}):
        checks.equal(get("detections", **nothing)["items"], [], f"detections with {nothing}")
    detail = get(f"detections/{encoded['number']}")
    chain = json.loads(detail["chain"])
    checks.equal([(row["pid"], row["image_name"], row["command_line"]) for row in chain],
                 [(300, "powershell.exe", "powershell.exe -NoP -Enc SQBFAFgA"), (200, "winword.exe", '"C:\\Office\\winword.exe" /n letter.doc'),
                  (100, "explorer.exe", "C:\\Windows\\explorer.exe")], "the process and its parents")
    wanted = collector.ask_json("query", "SELECT stream, instance, begin, account FROM processes WHERE pid IN (100, 200, 300) ORDER BY pid DESC")["rows"]
    checks.equal([{name: row[name] for name in ("stream", "instance", "begin", "account")} for row in chain], wanted, "their instances, starts and accounts")
    checks.equal((json.loads(detail["fields"]), detail["rule_text"]), (encoded["fields"], (folder / "01.yml").read_text()), "fields and the rule's text")
    for path, answered in (("detections", get("detections")), ("detections/{number}", detail)):
        schema = test_web.DOCUMENT["paths"]["/api/v1/" + path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        checks.equal(test_web.matches(schema, answered, test_web.DOCUMENT, path), None, f"{path} as described")
    status, _, text = web_world.Web(collector).ask(f"/api/v1/detections/{encoded['number']}", "POST", '{"state": "closed"}', {"Content-Type": "application/json"})
    checks.that(status == 403 and "scope respond" in text, f"a state without a token: {status} {text}")
    long = listed(collector, "--number", str(encoded["number"]))["detections"][0]
    checks.equal((long["tags"], long["rule_text"], long["chain"]), (TAGS, detail["rule_text"], chain), "tags, the rule's text and the processes of detections list")
    printed = collector.ask(["detections", "list"], "--number", str(encoded["number"]))
    checks.that("\n    process: powershell.exe (300), " in printed and '\n    started by: winword.exe (200), ' in printed, f"the processes, printed: {printed}")
    checks.that("the rule as it was:\n        {" in collector.ask(["detections", "list"], "--number", str(encoded["number"])), "the rule's text, printed")

    # people
    collector.ask(["detections", "set"], "--state", "closed", "--who", "anna", "--comment", "a test of ours", str(encoded["number"]))
    row = listed(collector, "--number", str(encoded["number"]))["detections"][0]
    checks.equal((row["state"], row["who"], row["comment"]), ("closed", "anna", "a test of ours"), "a closed detection")
    checks.equal(len(json.loads(collector.ask(["detections", "list"], "--json"))["detections"]), total - 1, "open ones")
    for words, code in ((["--state", "closed", "99999"], 1), (["--state", "closed", "x"], 2), (["--state", "odd", "1"], 2)):
        done = env.run([env.collector, "detections", "set", "--store", collector.store, *words], check=False)
        checks.equal(done.returncode, code, f"set {words}: {done.stderr}")

    # rules that are read again: without loss, and the wrong one is mended
    write_rule(folder, "bad.yml", "shell", "process_creation", {"s": {"Image|endswith": "\\shell.exe", "ParentImage|endswith": "\\start.exe"}}, "s", id="shell")
    filters = [{"title": title, "hosts": [host], "logsource": {"product": "windows", "category": "process_creation"},
                "filter": {"rules": ["shell"], "s": {"CommandLine|endswith": end}, "condition": "not s"}} for title, host, end in (
                    ("our deployment", "TEST-*", "/n 1"), ("another host's", "other", "/n 2"))]
    correlation = {"title": "many shells", "level": "critical", "correlation": {"type": "event_count", "rules": ["shell"], "group-by": ["ParentImage"], "timespan": "1h",
                                                                                 "condition": {"gte": 2}, "generate": True}}
    (folder / "filters.yml").write_text("\n---\n".join(json.dumps(row) for row in [*filters, correlation]))
    collector.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: f"{len(one.RULES) + 1} Sigma rules, 2 filters and 1 correlations" in collector.log(), "the new rules", SECONDS, collector.log)
    env.replay([shells(env, "few.etl", 1000, 3)], collector)
    answer = wait_for(collector, total + 3, "detections by the new rule and its correlation")
    checks.equal([(row["title"], row["level"], row["fields"], row["process"]) for row in answer["detections"] if row["rule"] == "many shells"],
                 [("many shells", "critical", {"ParentImage": one.DISK + "Tools\\start.exe", "matches": "2"}, "shell.exe")], "a correlation")
    checks.equal(answer["suppressed"], [{"rule": "shell", "filter": "our deployment", "count": 1}], "a match that a filter excepts")
    checks.equal(sorted(row["fields"]["CommandLine"] for row in answer["detections"] if row["rule"] == "shell"), ["shell.exe /n 0", "shell.exe /n 2"], "the others")
    checks.that("1 matches of shell were suppressed by the filter our deployment\n" in collector.ask(["detections", "list"]), "what is suppressed, printed")
    (folder / "bad.yml").unlink()
    (folder / "filters.yml").unlink()
    for path in folder.iterdir():
        path.rename(path.with_suffix(".off"))
    collector.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: "the rules stay as they were" in collector.log(), "a folder without rules", SECONDS, collector.log)
    for path in folder.iterdir():
        path.rename(path.with_suffix(".yml"))

    # a storm: the rule that runs still is bounded
    env.replay([shells(env, "storm.etl", 1000, AN_HOUR + 50)], collector)
    answer = wait_for(collector, total + AN_HOUR + 1, "detections of a storm", left_out=51)
    checks.equal(sum(row["rule"] == "many shells" for row in answer["detections"]), 1, "one of a correlation in its timespan")
    checks.equal((len([row for row in answer["detections"] if row["title"] == "shell"]), answer["left_out"]), (AN_HOUR, 51), "a storm")
    checks.equal([row["count"] for row in answer["suppressed"]], [2], "suppressed matches of a storm")
    rows = collector.ask_json("query", "SELECT host, rule, filter, sum(matches) AS n, count(DISTINCT batch) > 0 AS b FROM unkept_matches GROUP BY 1, 2, 3 ORDER BY 2, 3")["rows"]
    checks.equal([(row["host"], row["filter"], row["n"]) for row in rows if row["rule"] == "shell"], [("test-machine", None, 51), ("test-machine", "our deployment", 2)], "table unkept_matches")
    counted = metrics(web)
    checks.equal((counted["etwcollector_rules_left_out_total"], counted["etwcollector_rules_suppressed_total"]), (51, 2), "a storm in the metrics")
    collector.stop()
    said = json.loads(env.run([env.collector, "forget", "--store", collector.store, "--host", "test-machine", "--json"]).stdout)
    checks.equal((said["host"], listed(collector)), ("test-machine", {"detections": [], "left_out": 0, "suppressed": []}), "a host that is removed")

    # killed anywhere: each once, as rules test has them
    killed = env.new_collector("killed", extra=["--rules", folder]).start()
    random.seed(3)
    kills = 0
    for i in range(5):
        copy = env.folder / f"copy{i}.etl"
        copy.write_bytes(single.trace(one.RECORDS + [one.process(5000 + i, 4, "other.exe", "other.exe", 6000)]))
        env.replay([copy], killed, spool=env.folder / f"spool{i}")
        for _ in range(2):
            time.sleep(random.uniform(0.0, 1.2))
            killed.kill()
            kills += 1
            killed.start()
    wait_for(killed, 5 * total, "detections after kills")
    killed.kill()
    killed.start()
    time.sleep(1)
    answer = listed(killed)
    by_rule = {title: sum(row["title"] == title for row in answer["detections"]) for title, *_ in one.RULES}
    tested = json.loads(killed.ask(["rules", "test"], "--json", str(folder)))
    checks.equal(by_rule, {row["title"]: row["matches"] for row in tested["rules"]}, "after kills as rules test")
    checks.equal(len({(row["stream"], row["batch"], row["position"], row["rule"]) for row in answer["detections"]}), 5 * total, "each event once")
    killed.stop()
    print(f"{total} matches of {len(one.RULES)} rules, {kills} kills", flush=True)


if __name__ == "__main__":
    harness.main(test, __doc__)
