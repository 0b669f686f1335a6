"""The API has every path and field of openapi.json and no other; the pages of a list together are the whole list; data of an
attacker's machine is plain text in every answer; requests of other sites, wrong requests and expensive queries are refused or
limited; the live tail sends events as they are stored; and no query delays the ingestion.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 5: The API and the dashboard answer as documented. | the dashboard runs in a real Chromium | 2026-11-22
# sanitizers: asan-ubsan
import calendar
import csv
import http.client
import io
import json
import re
import select
import socket
import sqlite3
import time
import urllib.parse

import harness
import receiver
import test_ledger
import test_query_limits
import uploads
import web_world
from web_world import HOLED, HOSTILE, MACHINE

WEB = harness.ROOT / "collector" / "web"
JSON = {"Content-Type": "application/json"}
WAITING = 64  # calls of one address in a lane, beside those that are answered
OF_ONE = {"questions": 2, "followers": 4}  # that are answered at a time of one address
SLOW = "SELECT count(*) FROM events a, events b, events c WHERE a.cpu + b.cpu + c.cpu = -1"
# as a value of any parameter
INJECTIONS = ["' OR 1=1 --", "'; DROP TABLE hosts; --", "\" UNION SELECT 1 --", "%", "_", "\\", "../../etc/passwd", "$(id)",
              "<script>alert(1)</script>", "\x1b[31m", "0x", "-1", "99999999999999999999", "\u202e", "a" * 5000]


# ---- openapi.json against the server ----

def matches(schema, value, document, where):
    """None, or where the value is not what the schema says. Only what openapi.json uses is known here."""
    if "$ref" in schema:
        for part in schema["$ref"].split("/")[1:]:
            document = document[part]
        return matches(document, value, DOCUMENT, where)
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds] if kinds else []
    names = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    if kinds and not any(isinstance(value, names[k]) and not (k in ("integer", "number") and isinstance(value, bool)) for k in kinds):
        return f"{where}: {value!r:.100} is no {kinds}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if isinstance(value, dict) and "properties" in schema:
        missing = set(schema.get("required", ())) - set(value)
        more = set(value) - set(schema["properties"]) if schema.get("additionalProperties") is False else ()
        if missing or more:
            return f"{where}: missing {missing}, not described {more}"
        for name, part in value.items():
            wrong = matches(schema["properties"].get(name, {}), part, document, f"{where}.{name}")
            if wrong:
                return wrong
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            wrong = matches(schema["items"], part, document, f"{where}[{i}]")
            if wrong:
                return wrong
    return None


DOCUMENT = json.loads((WEB / "openapi.json").read_text(encoding="utf-8"))


def check_document(checks, web):
    """The paths of the program's table and those of the document are the same, and so are parameters of named queries."""
    checks.equal(json.loads(web.ask("/api/v1/openapi.json")[2]), DOCUMENT, "the document that is served")
    source = (WEB / "api.c").read_text(encoding="utf-8")
    table = source[source.index("const ec_route EC_ROUTES[]"):]
    routes = {(method.lower(), path) for method, path in re.findall(r'\{EC_(GET|POST|DELETE),\s*"(/api/v1/[^"]+)"', table)}
    queries = web.get("queries")["items"]
    listed = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    expected = routes - {("get", "/api/v1/queries/{name}")} | {("get", f"/api/v1/queries/{q['name']}") for q in queries}
    checks.equal(sorted(listed), sorted(expected), "paths of openapi.json, and of the program")
    shared = {"limit", "cursor", "sort", "descending", "format", "at"}
    for query in queries:
        described = {p["name"]: p["required"] for p in DOCUMENT["paths"][f"/api/v1/queries/{query['name']}"]["get"]["parameters"]}
        checks.equal({k: v for k, v in described.items() if k not in shared},
                     {p["name"]: p["required"] for p in query["parameters"]}, f"parameters of {query['name']}")


def check_files(checks, web):
    """The statement of "rare-modules" groups by hash where there is one. It runs here over a table that is made by hand."""
    statement, = (q["sql"] for q in web.get("queries")["items"] if q["name"] == "rare-modules")
    db = sqlite3.connect(":memory:")
    db.create_function("path_on_volume", 1, lambda path: path.lower().removeprefix("c:"))
    db.create_function("time_text", 1, str)
    db.execute("CREATE TABLE modules(host, begin, path, sha256)")
    db.executemany("INSERT INTO modules VALUES(?, ?, ?, ?)", [
        ("a", 1, "C:\\usual.dll", "aa"), ("b", 2, "\\Usual.dll", "aa"), ("c", 3, "C:\\usual.dll", ""),  # one whose hash is not known yet
        ("d", 4, "C:\\usual.dll", "bb"),  # another file under the usual path
        ("a", 5, "C:\\one.dll", "cc"), ("b", 6, "C:\\renamed.dll", "cc"),  # one file, two names
        ("a", 7, "C:\\alone.dll", ""), ("a", 8, "\\Alone.DLL", None), ("a", 9, "", "")])
    checks.equal(sorted(db.execute(statement, {"1": "", "2": 1}).fetchall()),
                 [("C:\\alone.dll", None, 1, "a", 2, "7"), ("C:\\usual.dll", "bb", 1, "d", 1, "4")], "files on one machine, by hash and by path")
    db.close()


def example(path, parameters, process):
    """A request for a path: (path, parameters that it needs)."""
    values = {"host": MACHINE, "stream": process["stream"], "instance": process["instance"], "since": "2020-01-01T00:00:00Z",
              "address": "0.0.0.0/0", "hosts": "1", "by": "labels.site", "field": "name", "text": "-1h", "number": process.get("number", 1)}
    needed = {}
    for p in parameters:
        if p["in"] == "path":
            path = path.replace("{" + p["name"] + "}", str(values[p["name"]]))
        elif p["required"]:
            needed[p["name"]] = values[p["name"]]
    return path, needed


DETECTION = {"title": "a <b>rule</b>", "level": "high", "rule": "r", "source": "r.yml:1", "fields": {"Image": "<i>x</i>.exe", "CommandLine": 'x "y" & z'},
             "tags": ["attack.t1059.001"], "text": "title: a <b>rule</b>\n",
             "chain": [{"stream": "00" * 16, "instance": 1, "pid": 4, "image_name": "<b>x</b>.exe", "command_line": 'x "y" & z', "account": None, "begin": None}]}


def add_detection(target):
    """A row as the collector's detector writes it, so that the answers about detections have one."""
    db = sqlite3.connect(target.store / "alarms.db", timeout=60)
    with db:
        d = DETECTION
        db.execute("INSERT INTO detections_rules(text_id, text) VALUES(1, ?)", (d["text"],))
        db.execute("INSERT INTO detections(host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, pid, process, fields, state, who, comment, tags, text_id, chain) "
                   "VALUES(?, ?, 1, 0, ?, ?, ?, ?, ?, 2, 4, 'x.exe', ?, 'open', '', '', ?, 1, ?)",
                   (MACHINE, "00" * 16, d["rule"], d["title"], d["level"], d["source"], 1714730400 * 10**9, json.dumps(d["fields"]), json.dumps(d["tags"]), json.dumps(d["chain"])))
    db.close()


def check_answers(checks, web, process):
    """Each path's answer is as described; fields that are described are there, in some machine's answer."""
    for path, methods in DOCUMENT["paths"].items():
        if "get" not in methods or path in ("/api/v1/events/tail", "/api/v1/openapi.json"):
            continue
        parameters = methods["get"].get("parameters", [])
        where, needed = example(path, parameters, process)
        answer = web.get(where[len("/api/v1/"):], **needed)
        schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        wrong = matches(schema, answer, DOCUMENT, path)
        checks.that(wrong is None, f"an answer that is not as described: {wrong}")
        for p in parameters:  # a parameter that is described is one that is read
            if p["name"] not in ("limit", "cursor") or p["in"] == "path":
                continue
            status, _, text = web.ask(where + f"?{p['name']}=wrong")
            checks.that(status == 400 and p["name"] in text, f"{path}?{p['name']}=wrong: {status} {text[:200]}")
    for path, host in (("alerts", HOLED), ("gaps", HOLED), (f"hosts/{HOLED}/gaps", None), ("connections", MACHINE)):
        answer = web.get(path, **({"host": host} if host else {}))
        name = "/api/v1/" + path.replace(HOLED, "{host}")
        wrong = matches(DOCUMENT["paths"][name]["get"]["responses"]["200"]["content"]["application/json"]["schema"], answer, DOCUMENT, name)
        checks.that(wrong is None and answer["items"], f"{name}: {wrong or 'nothing'}")


def check_types(checks, web, process):
    """openapi.json describes the type of each format of an answer; an unknown parameter is refused, and the error lists the known ones."""
    for path, methods in DOCUMENT["paths"].items():
        if "get" not in methods:
            continue
        parameters = methods["get"].get("parameters", [])
        where, needed = example(path, parameters, process)
        given = "".join(f"&{name}={http_quote(value)}" for name, value in needed.items())
        forms = next((p["schema"]["enum"] for p in parameters if p["name"] == "format"), [])
        types = set()
        for form in forms:
            status, headers, text = web.ask(f"{where}?format={form}{given}")
            if status == 400 and "has no room for" in text:
                continue  # a form without differences
            checks.equal(status, 200, f"{path} as {form}: {text[:200]}")
            types.add(headers["Content-Type"].split(";")[0])
            if form in ("json", "csv", "jsonl") and path != "/api/v1/events/values":  # what a browser calls the file that it saves
                named = re.findall(r'^attachment; filename="\w+\.(\w+)"$', headers.get("Content-Disposition", ""))
                checks.equal(named, [form] * (form != "json"), f"the file of {path} as {form}")
        if forms:
            checks.equal(types, set(methods["get"]["responses"]["200"]["content"]), f"types of {path}")
        if path == "/api/v1/openapi.json":
            continue
        status, _, text = web.ask(f"{where}?nonsense=1{given}")
        named = json.loads(text).get("detail", "").rpartition("expected ")[2] if status == 400 else text
        known = [p["name"] for p in parameters if p["in"] == "query"]
        listed = [] if named == "none" else named.removeprefix("one of: ").split(" ")
        checks.equal((status, "'nonsense'" in text, sorted(listed)), (400, True, sorted(known)), f"{path}?nonsense=1")
    for form, kind in (("json", "application/json"), ("csv", "text/csv"), ("jsonl", "application/x-ndjson")):
        status, headers, text = web.ask("/api/v1/sql", "POST", json.dumps({"sql": "SELECT x FROM (SELECT 1 AS x UNION SELECT 2)", "format": form, "rows": 1}),
                                       {"Content-Type": "application/json"})
        checks.that(status == 200 and headers["Content-Type"].split(";")[0] == kind in DOCUMENT["paths"]["/api/v1/sql"]["post"]["responses"]["200"]["content"],
                    f"SQL as {form}: {status} {headers['Content-Type']}")
        checks.that('"ending":"rows"' in text or "# not whole: ending rows" in text, f"{form}: a part says that it is one: {text}")


def choices_of(schema):
    """The values that a parameter of a set takes, as a refusal has to name them; None: any value of its type."""
    if "enum" in schema:
        return [str(value) for value in schema["enum"]]
    found = re.fullmatch(r"\^\((.+)\)\$", schema.get("pattern", ""))
    return found and [choice.split("\\")[0].split(":")[0].split(".")[0] for choice in found[1].split("|")]


def check_choices(checks, web, process):
    """A parameter that takes one of a set refuses any other value and names the set; one that takes a number or a time refuses a text; a host
    or a process that is not stored is an error, not an empty list."""
    of_sets, of_numbers, unknown = 0, 0, 0
    for path, methods in DOCUMENT["paths"].items():
        if "get" not in methods:
            continue
        parameters = methods["get"].get("parameters", [])
        where, needed = example(path, parameters, process)
        for p in parameters:
            name, choices = p["name"], choices_of(p["schema"])
            given = "".join(f"&{other}={http_quote(value)}" for other, value in needed.items() if other != name)
            if p["in"] == "query" and (choices or p["schema"]["type"] == "integer" or p["description"].startswith(("RFC 3339", "A moment", "Of the range", "Width"))):
                for wrong in ("banana", "7 ", f"{choices[0]}x") if choices else ("banana", "7x"):
                    status, _, text = web.ask(f"{where}?{name}={http_quote(wrong)}{given}")
                    detail = json.loads(text).get("detail", "") if status == 400 else text
                    checks.that(status == 400 and (name.removeprefix("other_") in detail or wrong in detail), f"{path}?{name}={wrong}: {status} {detail[:200]}")
                    checks.that(all(choice in detail for choice in choices or ()), f"{path}?{name}={wrong} names {choices}: {detail[:200]}")
                of_sets += bool(choices)
                of_numbers += not choices
            elif name == "host":
                address = path.replace("{host}", "nosuch") if p["in"] == "path" else f"{where}?host=nosuch{given}"
                status, _, text = web.ask(re.sub(r"\{\w+\}", "1", address))
                checks.that(status == 404 and "nosuch" in text and "/api/v1/hosts lists" in text, f"{path} of host nosuch: {status} {text[:200]}")
                unknown += 1
            elif p["in"] == "path":
                other = example(path, parameters, {**process, name: "9999"})[0]
                status, _, text = web.ask(other)
                what = "detection" if p["name"] == "number" else "process"
                checks.that(status == 404 and f"there is no such {what}" in text, f"{other}: {status} {text[:200]}")
                unknown += 1
    checks.that(of_sets > 70 and of_numbers > 100 and unknown > 40, f"{of_sets} parameters of sets, {of_numbers} of numbers and times, {unknown} names of hosts and processes")
    status, _, text = web.ask("/api/v1/processes?at=2024-05-17T14:03:07Z&to=2024-05-17T14:03:08Z")
    checks.that(status == 400 and "at: expected without from and to" in text, f"a moment and a range: {status} {text[:200]}")
    sql = {"sql": "SELECT 1", "host": "nosuch"}
    status, _, text = web.ask("/api/v1/sql", "POST", json.dumps(sql), {"Content-Type": "application/json"})
    checks.that(status == 404 and "nosuch" in text, f"SQL of host nosuch: {status} {text[:200]}")
    for command in (["query", "SELECT 1"], ["ps", "--at", "end"], ["profile"], ["ledger"], ["hosts"], ["export"], ["forget", "--dry-run"]):
        done = web.collector.env.run([web.collector.env.collector, command[0], "--store", web.collector.store, "--host", "nosuch", *command[1:]], check=False)
        checks.that(done.returncode == 1 and "nothing is stored of host nosuch: expected a name that 'etwcollector hosts'" in done.stderr and not done.stdout.strip(' \n[]{}":streams,behind0'),
                    f"{command[0]} --host nosuch: {done.returncode} {done.stderr[:200]}{done.stdout[:100]}")


# ---- the content of answers ----

def check_truth(checks, web, truth):
    """The machine's processes, as the generator knows them; its tree at a moment; a connection's process."""
    listed = web.get(f"hosts/{MACHINE}/processes", limit=1000)["items"]
    true = sorted((p["pid"], p["image"], p["command_line"]) for p in truth if p["type"] == "process")
    checks.equal(sorted((p["pid"], p["image_name"], p["command_line"]) for p in listed), true, "processes")
    started = next(p for p in listed if p["begin_cause"] == "start")
    at = web.get(f"hosts/{MACHINE}/processes", at=started["begin"], limit=1000)["items"]
    before = web.get(f"hosts/{MACHINE}/processes", at=listed[0]["begin"], limit=1000)["items"]
    checks.that(started in at and started not in before, "a process is there from its beginning on")
    address = f"hosts/{MACHINE}/processes/{started['stream']}/{started['instance']}"
    checks.equal(web.get(address), {**started, "damaged": 0, "behind": 0}, "one process, of a whole history")
    parent = web.get(f"hosts/{MACHINE}/processes/{started['stream']}/{started['parent_instance']}/children")["items"]
    checks.that(started in parent, "a process among its parent's children")
    modules = web.get(address + "/modules")["items"]
    checks.that(any(m["path"].endswith("ntdll.dll") for m in modules), f"{len(modules)} modules of a process")
    flow = web.get("connections", host=MACHINE, limit=1000)["items"][0]
    peers = web.get("queries/who-talks-to", address=flow["remote"])["items"]
    checks.that(any(p["pid"] == flow["pid"] and p["host"] == MACHINE for p in peers), f"{flow['remote']} among {peers[:3]}")
    steps = [s for s in truth if s["type"] == "step"]
    checks.that(steps, "the attack has no steps")
    for query in ("process-starts", "modules-from-unusual-places", "autostart-keys", "rare-modules"):
        checks.that(web.get(f"queries/{query}", host=MACHINE)["items"], f"{query} of a machine that is broken into")
    wrote = web.sql("SELECT pid FROM events WHERE name = 'Registry/SetValue' LIMIT 1", host=MACHINE)["rows"][0][0]
    writer = next(p for p in listed if p["pid"] == wrote)
    keys = web.get(f"hosts/{MACHINE}/processes/{writer['stream']}/{writer['instance']}/registry")["items"]
    checks.that(any(k["name"] == "Registry/SetValue" and (k["key"] or "").startswith("\\REGISTRY\\") for k in keys), f"registry keys of a process: {keys[:2]}")
    named = web.sql("SELECT KeyHandle_name, registry_key_at(host, stream, KeyHandle, time), registry_key_at(host, stream, u64_text(KeyHandle), time), "
                    "registry_key_at(host, 'x', KeyHandle, time), registry_key_at(host, stream, 'none', time), registry_key_at(host, stream, NULL, time) "
                    "FROM \"Registry/SetValue\" WHERE KeyHandle_name IS NOT NULL LIMIT 20", host=MACHINE)["rows"]
    checks.that(named and all(row == [row[0], row[0], row[0], None, None, None] for row in named), f"registry_key_at: {named[:2]}")
    checks.that(web.get(f"hosts/{HOSTILE}/cpu")["items"], "samples by process")


def check_groups(checks, web):
    """Groups of the whole fleet, by label, version and health; each with the machines that it counts."""
    labels = web.get("fleet/labels")["items"]
    checks.equal([(r["label"], r["hosts"], r["values"]) for r in labels], [("owner", 2, 1), ("site", 2, 2)], "names of labels")
    groups = {r["group"]: r for r in web.get("fleet/groups", by="labels.site")["items"]}
    checks.equal({k: r["hosts"] for k, r in groups.items()}, {"south": 1, "north": 1, "": 1}, "machines by site")
    checks.equal(sum(r["events"] for r in groups.values()), web.get("fleet")["events"], "events of all groups")
    for by in ("labels.site", "labels.owner", "agent_version", "health", "host"):
        for group in web.get("fleet/groups", by=by)["items"]:
            held = web.get("hosts", by=by, group=group["group"])["items"]
            checks.equal((len(held), sum(h["events"] for h in held)), (group["hosts"], group["events"]), f"machines of {by} {group['group']!r}")
    checks.equal([h["host"] for h in web.get("hosts", by="labels.site", group="north")["items"]], [HOLED], "a site's machine")
    checks.equal(web.get("fleet/groups", by="labels.site", q="19")["items"][0]["group"], "north", "groups of a search")
    checks.equal([r["group"] for r in web.get("fleet/groups", by="labels.nothing")["items"]], [""], "groups by an unknown label")
    status, _, text = web.ask("/api/v1/hosts?group=north")
    checks.that(status == 400 and "by" in text, f"group without by: {status} {text[:200]}")


def check_profile(checks, web):
    """The tree adds up; a difference has both sides; other tools get files."""
    profile = web.get("profile", host=HOSTILE, weight="samples")
    schema = DOCUMENT["paths"]["/api/v1/profile"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    span = web.get(f"hosts/{HOSTILE}")
    middle = web.sql(f"SELECT time_text((begin + \"end\") / 2) FROM hosts WHERE host = '{HOSTILE}'")["rows"][0][0]
    both = web.get("profile", host=HOSTILE, weight="samples", from_=middle, to="2100-01-01T00:00:00Z", other_from=span["begin"], other_to=middle)
    for answer in (profile, both):
        wrong = matches(schema, answer, DOCUMENT, "profile")
        checks.that(wrong is None, f"an answer that is not as described: {wrong}")
    samples = web.sql('SELECT count(*) FROM "PerfInfo/SampleProf"', host=HOSTILE)["rows"][0][0]
    checks.equal((profile["total"], sum(n[2] for n in profile["nodes"])), (samples, samples), "samples, and the tree's own weights")
    checks.equal(sum(n[3] for n in profile["nodes"] if n[0] < 0), samples, "the tree's roots")
    checks.equal(both["total"] + both["other"]["total"], samples, "both ranges of a difference")
    folded = web.ask(f"/api/v1/profile?host={HOSTILE}&weight=samples&format=folded")[2].splitlines()
    checks.equal(sum(int(line.rsplit(" ", 1)[1]) for line in folded), samples, "folded stacks")


def check_times(checks, web):
    """Times as people write them, against times that are computed here."""
    def read(text, **more):
        return web.get("time", text=text, **more)["time"]

    for text, expected in (("2024-05-17T14:03:07.25Z", "2024-05-17T14:03:07.2500000Z"), ("2024-05-17T14:03:07+02:00", "2024-05-17T12:03:07.0000000Z"),
                           ("2024-05-17T14:03:07", "2024-05-17T14:03:07.0000000Z"), ("2024-05-17 14:03", "2024-05-17T14:03:00.0000000Z"),
                           ("2024-05-17", "2024-05-17T00:00:00.0000000Z"), ("1000000000000000000", "2001-09-09T01:46:40.0000000Z")):
        checks.equal(read(text), expected, f"the time {text!r}")
    day = 86400
    for text, expected, within in (("now", 0, 60), ("-1h", -3600, 60), ("now-90s", -90, 60), ("today", -(time.time() % day), 60),
                                   ("yesterday", -(time.time() % day) - day, 60)):
        off = calendar.timegm(time.strptime(read(text)[:19], "%Y-%m-%dT%H:%M:%S")) - time.time() - expected
        checks.that(abs(off) < within, f"the time {text!r} is {off:.0f} s beside the expected one")
    for host in (MACHINE, HOLED):
        (first, last), = web.sql("SELECT time_text(min(time)), time_text(max(time)) FROM events", host=host)["rows"]
        checks.equal(read("start", host=host), first, f"the first event of {host}")
        checks.that(last <= read("end", host=host), f"the end of {host} is after its last event")
        checks.that(read("end-1s", host=host) < last, f"a second before the end of {host}")
    for text in ("yesterdy", "2024-13-01", "1h", "--1h", "-1 fortnight", "24h", "0x10", "+1714730400000000000", " 1714730400000000000"):
        status, _, answer = web.ask("/api/v1/time?text=" + http_quote(text))
        checks.that(status == 400 and text in answer and "expected a time such as" in answer, f"the time {text!r}: {status} {answer[:200]}")
    status, _, answer = web.ask("/api/v1/time?text=start&host=nosuch")
    checks.that(status == 404 and "nothing is stored" in answer, f"the first event of an unknown machine: {status} {answer}")


def check_edges(checks, web):
    """Whether the end of a range is in it, and that the document says so."""
    sampled = {"host": HOSTILE, "class": "PerfInfo/SampleProf", "limit": 10000}
    times = [e["time"] for e in web.get("events", **sampled)["items"]]
    edge = times[len(times) // 2]
    before, upto = sum(time < edge for time in times), sum(time <= edge for time in times)
    found = {"/api/v1/events": len(web.get("events", to=edge, **sampled)["items"]),
             "/api/v1/profile": sum(n[2] for n in web.get("profile", host=HOSTILE, weight="samples", to=edge)["nodes"])}
    for path, methods in DOCUMENT["paths"].items():
        said = {p["name"]: p["description"].split("; ")[-1] for p in methods.get("get", {}).get("parameters", []) if p["name"] in ("from", "to")}
        last = "not included" if path == "/api/v1/profile" else "included"
        if said:
            checks.equal(said, {"from": "included", "to": last}, f"what the document says of a range's edges: {path}")
        if path in found:
            checks.equal(found[path], before if last == "not included" else upto, f"samples up to {edge}: {path}")


def check_written(checks, web):
    """What a parameter chooses, and what it refuses: no answer is empty because of how its question was written."""
    host = web.get("hosts")["items"][0]["host"]
    for query, wanted in (({"pid": 4}, {4}), ({"pid": 4, "q": "no such text"}, {4}), ({"pid": 4294967000}, set())):
        checks.equal({p["pid"] for p in web.get(f"hosts/{host}/processes", **query)["items"]}, wanted, f"processes of {query}")
    for path, said in (("connections?remote=abc", "an IP address is expected"), ("connections?remote=10.0.0.0/33", "an IP address is expected"),
                       ("queries/who-talks-to?address=300.1.1.1", "an IP address is expected"), ("processes?from=1714730000", "would be in 1970"),
                       (f"hosts/{host}/cpu?to=2024", "would be in 1970"), ("hosts?limit=0", "limit: a number from 1 to 10000 is expected"), ("events/values?field=name&limit=0", "limit: a number from 1"),
                       ("events/values?field=name&stream=nosuch", "nothing is stored of a stream 'nosuch'"), ("events/counts?stream=nosuch", "nothing is stored of a stream 'nosuch'"),
                       ("time", "text is missing"), ("time?text=", "text is missing"), ("load?every=0s", "every: a duration is expected"), ("fleet/groups?by=labels.", "labels.NAME is expected"),
                       ("hosts?by=&group=north", "group: expected together with by"), ("hosts?sort=" + 64 * "x", "sort: the name of a column"), ("hosts?sort=" + 63 * "x", "no such column"),
                       ("connections?remote=fe80::1/129", "an IP address is expected"), ("processes?at=2024-05-17&from=2024-05-17", "at: expected without from and to"),
                       ("detections?level=hihg", "did you mean 'high'?"), ("queries/watch-results?program=nosuch", "nothing is stored of a program 'nosuch'")):
        status, _, text = web.ask(f"/api/v1/{path}")
        checks.that(status == 400 and said in json.loads(text)["detail"], f"{path}: {status} {text[:200]}")
    stream = web.get(f"hosts/{host}/streams")["items"][0]["stream"]
    status, _, text = web.ask(f"/api/v1/events?stream={stream[:-1]}{'1' if stream[-1] == '0' else '0'}")
    checks.that(status == 400 and f"did you mean '{stream}'?" in json.loads(text)["detail"], f"a stream with another letter: {status} {text[:200]}")
    for path, query in (("detections", {"level": "critical"}), ("events", {"stream": stream, "from_": "2030-01-01"}), ("events/values", {"field": "name", "stream": stream, "from_": "2030-01-01"})):
        checks.equal(web.get(path, **query)["items"], [], f"{path} of {query}: known, and without rows")
    status, _, text = web.ask("/api/v1/columns?class=Proces/Start")
    checks.that(status == 404 and "/api/v1/classes" in json.loads(text)["detail"], f"columns of an unknown class: {status} {text[:200]}")
    peers = web.get("connections", limit=10000)["items"]
    remote = peers[0]["remote"]
    same = [p for p in peers if p["remote"] == remote]
    checks.that("items" in web.get("connections", remote="fe80::1/128"), "connections to one address as a network")
    for other in (remote, remote + ("/128" if ":" in remote else "/32"), remote.upper()):
        checks.equal(web.get("connections", limit=10000, remote=other)["items"], same, f"connections to {other}")


def check_nothing_found(checks, web):
    """An empty list says what range was asked for, from when to when the events are that SQL finds, and a name that is like an unknown one."""
    def span(host):
        (first, last), = web.sql("SELECT time_text(min(time)), time_text(max(time)) FROM events", host=host)["rows"]
        return {"from": first, "to": last}

    whole, of_machine, empty = span(None), span(MACHINE), 0
    for path, methods in DOCUMENT["paths"].items():
        parameters = {p["name"]: p["in"] for p in methods.get("get", {}).get("parameters", [])}
        answer_schema = methods["get"]["responses"]["200"]["content"].get("application/json", {}).get("schema", {}) if "get" in methods else {}
        if "stored" not in answer_schema.get("properties", {}) or parameters.get("from") != "query" or "host" in parameters and parameters["host"] == "path":
            continue
        needed = {"address": "0.0.0.0/0", "field": "name", "by": "health"}
        answer = web.get(path[len("/api/v1/"):], from_="2040-01-01", to="2040-01-02", **{name: value for name, value in needed.items() if name in parameters})
        if path == "/api/v1/events/counts":
            checks.equal(sum(item["count"] for item in answer["items"]), 0, "counts of a range without events")
        elif answer["items"]:  # processes that have not ended, and sums of none
            continue
        empty += 1
        said = f"nothing was found from 2040-01-01T00:00:00.0000000Z to 2040-01-02T00:00:00.0000000Z; events are stored from {whole['from']} to {whole['to']}"
        checks.equal((answer["notice"], answer["stored"]), (said, whole), f"what {path} without rows says")
        wrong = matches(answer_schema, answer, DOCUMENT, path)
        checks.that(wrong is None, f"an empty answer that is not as described: {wrong}")
    checks.that(empty >= 20, f"{empty} empty lists")
    answer = web.get(f"hosts/{MACHINE}/processes", to="2001-01-01")
    checks.equal((answer["notice"], answer["stored"]), (f"nothing was found to 2001-01-01T00:00:00.0000000Z; events of host {MACHINE} are stored from {of_machine['from']} to {of_machine['to']}", of_machine),
                 "an empty list of one machine")
    checks.that(not {"notice", "stored"} & set(web.get("processes")), "a list with rows says nothing of this")
    answer = web.sql("SELECT pid FROM processes WHERE pid = -1")
    checks.equal((answer["notice"], answer["stored"]), (f"nothing was found; events are stored from {whole['from']} to {whole['to']}", whole), "SQL without rows")
    image, parent = web.sql("SELECT image_name, parent_image_name FROM processes WHERE begin_cause = 'start' AND length(parent_image_name) > 8 AND length(image_name) > 8 LIMIT 1")["rows"][0]
    file = web.sql("SELECT path FROM modules WHERE path LIKE '%\\ntdll.dll' LIMIT 1")["rows"][0][0].rpartition("\\")[2]
    for path, query, said in (("queries/process-starts", {"parent": parent[:3] + parent[4:]}, f"; no stored process has a parent whose name contains '{parent[:3] + parent[4:]}'; did you mean '{parent}'?"),
                              ("queries/process-starts", {"q": image[:3] + image[4:]}, f"; no stored process has a program whose name contains '{image[:3] + image[4:]}'; did you mean '{image}'?"),
                              ("processes", {"q": "qqqqqqqqqq"}, "; no stored process has a program whose name contains 'qqqqqqqqqq'"),
                              ("modules", {"q": "ntdl.dll"}, f"; no stored module has a file whose name contains 'ntdl.dll'; did you mean '{file}'?")):
        checks.that(web.get(path, **query)["notice"].endswith(said), f"{path} of {query}: {web.get(path, **query)['notice']}, expected {said}")
    known = web.get("queries/process-starts", parent=parent.upper(), from_="2040-01-01")
    checks.equal((known["items"], "no stored process" in known["notice"]), ([], False), "a parent that is known, in another case")


def check_pages(checks, web):
    whole = web.get("processes", limit=1000)["items"]
    pages, cursor = [], None
    while True:
        page = web.get("processes", limit=17, cursor=cursor)
        pages += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    checks.equal(pages, whole, "pages of processes")
    sorted_ = web.get("processes", limit=1000, sort="pid", descending=1)["items"]
    checks.equal([p["pid"] for p in sorted_], sorted((p["pid"] for p in whole), reverse=True), "processes by id")
    for wrong in ("true", "2"):
        status, _, text = web.ask(f"/api/v1/processes?sort=pid&descending={wrong}")
        checks.equal((status, json.loads(text).get("detail")), (400, "descending: 0 or 1 is expected"), f"descending={wrong}")
    for form, mark in (("csv", "# not whole: ending rows; damaged 0; behind 0"), ("jsonl", '{"ending":"rows","damaged":0,"behind":0}')):
        lines = web.ask(f"/api/v1/processes?limit=17&format={form}")[2].splitlines()
        checks.equal((len(lines), lines[-1]), (17 + 1 + (form == "csv"), mark), f"{form}: the first 17 of {len(whole)} processes are marked as a part")
        lines = web.ask(f"/api/v1/processes?limit={len(whole)}&format={form}")[2].splitlines()
        checks.that(mark not in lines, f"{form}: all {len(whole)} processes have no mark")
    got, cursor, count = [], None, 0
    while True:
        page = web.get("events", class_="Thread/Start", limit=3, cursor=cursor)
        got += page["items"]
        cursor, count = page["next"], count + 1
        if cursor is None or count > 2000:
            break
    total = web.sql('SELECT count(*) FROM "Thread/Start"')["rows"][0][0]
    checks.equal(len({(e["stream"], e["batch"], e["position"]) for e in got}), total, "events of all pages, each once")
    checks.equal([e["time"] for e in got], sorted((e["time"] for e in got), reverse=True), "newest first")
    oldest = web.get("events", class_="Thread/Start", order="oldest", limit=10000)["items"]
    checks.equal([e["time"] for e in oldest], sorted(e["time"] for e in got), "oldest first")
    tid = got[0]["TThreadId"]
    found = web.get("events", class_="Thread/Start", where=f"TThreadId={tid}")["items"]
    checks.that(found and all(e["TThreadId"] == tid for e in found), "a condition on a field")
    some = web.get("events", class_="Thread/Start", columns="time,TThreadId", limit=2)["items"]
    checks.that(all(list(e) == ["time", "TThreadId"] for e in some), f"columns: {some}")
    contained = web.get("events", class_="FileIo/Create", where="OpenPath~Windows", host=MACHINE)["items"]
    checks.that(contained and all("Windows" in e["OpenPath"] for e in contained), "a field that contains a text")
    checks.equal(web.get("events", class_="Process/Defunct")["items"], [], "events of a class that was never stored")
    for given, text in (("class=No/Such", "no such table"), ("class=Process/Strat", 'did you mean "Process/Start"?'), ("class=Process/Strat&format=csv", 'did you mean "Process/Start"?'),
                        ("class=Process/Strat&order=oldest", 'did you mean "Process/Start"?'), ("class=DiskIo/Read&where=TransferSize%3Dabc", "a number is compared with the text 'abc'"),
                        ("class=DiskIo/Read&where=TransferSize%3Ea%27b", "a number is compared with the text 'a'b'"), ("class=DiskIo/Read&where=Nope%3D3", "no such column"),
                        ("provider_name=Windows%20Kernl%20Trace", "did you mean 'Windows Kernel Trace'?"), ("provider_name=Nothing-At-All-1", "nothing is stored of a provider 'Nothing-At-All-1'"),
                        ("provider_name=Nothing-At-All-1&format=csv", "nothing is stored of a provider 'Nothing-At-All-1'"), ("stream=nosuch", "nothing is stored of a stream 'nosuch'"),
                        ("stream=nosuch&order=oldest", "nothing is stored of a stream 'nosuch'"), ("limit=0", "limit: a number from 1 to 10000 is expected"), ("limit=0&format=csv", "limit: a number from 1"),
                        ("limit=10001", "limit: a number from 1 to 10000"), ("columns=" + "time," * 65, "columns: at most 64 names"), ("columns=" + "x" * 128, "of at most 127 bytes"),
                        ("from=2025-01-01&to=2024-01-01", "the range begins after its end"), ("from=2025-01-01&to=2024-01-01&format=jsonl", "the range begins after its end")):
        status, _, answer = web.ask("/api/v1/events?" + given)
        checks.that(status == 400 and text in json.loads(answer)["detail"], f"events?{given}: {status} {answer[:300]}")
    checks.equal(web.get("events", provider_name="Windows Kernel Trace", from_="2030-01-01")["items"], [], "events of a known provider in a range without any")
    status, _, answer = web.ask(f"/api/v1/connections?host={MACHINE}&from=2025-01-01&to=2024-01-01")
    checks.that(status == 400 and "the range begins after its end" in answer, f"connections of such a range: {status} {answer[:300]}")


def check_counts(checks, web):
    """Counts of events over time: each bucket has as many as a search in it, the buckets are the whole range; wrong parameters are refused."""
    for filters in ({}, {"class_": "Thread/Start"}, {"pid": 4}, {"q": "explorer"}, {"class_": "DiskIo/Read", "where": "TransferSize>4096"}, {"class_": "Process/Defunct"}):
        name, where = {"class_": "class"}, {"host": MACHINE, **filters}
        items = web.get("events/counts", buckets=25, **where)["items"]
        begins, ends = [test_ledger.utc_ns(i["begin"]) for i in items], [test_ledger.utc_ns(i["end"]) for i in items]
        checks.that(2 <= len(items) <= 25 and all(b == e + 1 for b, e in zip(begins[1:], ends)), f"buckets without a gap between them, of {filters}: {items[:3]}")
        asked = urllib.parse.urlencode({name.get(k, k): v for k, v in where.items()} | {"columns": "time", "format": "jsonl"})
        every = [json.loads(line)["time"] for line in web.ask("/api/v1/events?" + asked)[2].splitlines()]
        checks.equal(sum(i["count"] for i in items), len(every), f"events of all buckets, of {filters}")
        most = max(items, key=lambda i: i["count"])
        checks.equal(sum(test_ledger.utc_ns(most["begin"]) <= test_ledger.utc_ns(t) <= test_ledger.utc_ns(most["end"]) for t in every), most["count"], f"events of the fullest bucket, of {filters}")
        again = web.get("events/counts", from_=most["begin"], to=most["end"], buckets=25, **where)["items"]
        checks.equal((sum(i["count"] for i in again), again[0]["begin"], again[-1]["end"]), (most["count"], most["begin"], most["end"]), f"a bucket as a range, of {filters}")
    checks.equal(web.get("events/counts", from_="2030-01-01")["items"], [], "counts after everything that is stored")
    checks.that(10 < len(web.get("events/counts", host=MACHINE, buckets=1000)["items"]) <= 1000, "as many buckets as an answer has at most")
    far = web.get("events/counts", from_=-(2**63) + 2, to=2**63 - 3, buckets=10)["items"]
    checks.equal((len(far) <= 10, sum(i["count"] for i in far)), (True, web.sql("SELECT count(*) FROM events")["rows"][0][0]), "counts of all times that there are")
    one = web.get("events/counts", host=MACHINE, from_="2024-05-03T10:00:00Z", to="2024-05-03T10:00:00Z")["items"]
    checks.equal([(i["begin"], i["end"]) for i in one], [("2024-05-03T10:00:00.0000000Z",) * 2], "a range of one moment")
    for given, text in (("class=No/Such", "no such table"), ("class=Process/Strat", 'did you mean "Process/Start"?'), ("class=DiskIo/Read&where=Nope%3D3", "no such column"), ("buckets=9", "buckets: a number from 10 to 1000"),
                        ("buckets=1001", "buckets: a number up to 1000"), ("buckets=x", "buckets: a number up to 1000"), ("provider_name=Windows%20Kernl%20Trace", "did you mean 'Windows Kernel Trace'?"),
                        ("from=2025-01-01&to=2024-01-01", "the range begins after its end"), ("from=soon", "from 'soon': expected a time such as"), ("limit=3", "'limit'"), ("columns=time", "'columns'"), ("format=csv", "'format'")):
        status, _, answer = web.ask("/api/v1/events/counts?" + given)
        checks.that(status == 400 and text in json.loads(answer)["detail"], f"events/counts?{given}: {status} {answer[:300]}")


def check_hostile(checks, web):
    """Names out of a trace that an attacker wrote: the same text in JSON, harmless in CSV and on a terminal."""
    process = web.get(f"hosts/{HOSTILE}/processes", q=web_world.HOSTILE_NAME)["items"][0]
    checks.equal(process["image_name"], web_world.HOSTILE_NAME, "a name with markup in JSON")
    line = next(p["command_line"] for p in web.get(f"hosts/{HOSTILE}/processes", q="=cmd|")["items"])
    checks.that(line.startswith(web_world.HOSTILE_LINE), f"a command line in JSON: {line!r}")
    _, headers, text = web.ask(f"/api/v1/hosts/{HOSTILE}/processes?q=%3Dcmd&format=csv")
    checks.that("\x1b" in text and headers["Content-Type"].startswith("text/csv"), "the CSV has the bytes")
    rows = list(csv.DictReader(io.StringIO(text)))
    checks.that(rows and all(r["command_line"].startswith("'=cmd") for r in rows), "a formula in CSV is text")
    checks.that("\x1b" not in web.ask(f"/api/v1/hosts/{HOSTILE}/processes?q=%3Dcmd")[2], "JSON has no control characters")
    shown = web.collector.ask("ps", "--host", HOSTILE, "--at", "end")
    checks.that(web_world.HOSTILE_NAME in shown and "\x1b" not in shown and "\x07" not in shown, "ps on a terminal")
    table = web.collector.ask("query", "SELECT command_line FROM processes WHERE command_line LIKE '=cmd%' LIMIT 1")
    checks.that("\\x1b[31m" in table and "\x1b" not in table, f"query on a terminal: {table[:300]!r}")


def check_injections(checks, web):
    """Whatever a parameter holds, it is a value: no answer is a failure of ours, and nothing is changed."""
    before = web.sql("SELECT count(*) FROM processes")["rows"]
    for path, methods in DOCUMENT["paths"].items():
        if "get" not in methods or path.endswith(("tail", "openapi.json")):
            continue
        parameters = methods["get"].get("parameters", [])
        for i, p in enumerate(parameters):
            value = INJECTIONS[(i * 7 + len(path)) % len(INJECTIONS)]
            for text in {value, INJECTIONS[1]}:
                where = re.sub(r"\{\w+\}", http_quote(text), path) if p["in"] == "path" else re.sub(r"\{\w+\}", "1", path)
                query = "" if p["in"] == "path" else f"?{p['name']}={http_quote(text)}"
                status, headers, body = web.ask(where + query)
                checks.that(status in (200, 400, 404), f"{path} with {p['name']}={text[:40]!r}: {status} {body[:200]}")
                checks.that(status == 200 or headers["Content-Type"] == "application/problem+json", f"{path}: the refusal's type")
    checks.equal(web.sql("SELECT count(*) FROM processes")["rows"], before, "processes after all that")
    for path in ("/api/v1/hosts/..%2f..%2fetc%2fpasswd", "/../../../../etc/passwd", "/..%2f..%2fetc/passwd", "/app.js/..", "/%00"):
        status, _, body = web.ask(path)
        checks.that(status in (400, 404) and "root:" not in body, f"{path}: {status}")


def http_quote(text):
    return "".join(chr(b) if 48 <= b < 58 or 65 <= b < 91 or 97 <= b < 123 else f"%{b:02x}" for b in text.encode())


# ---- who may ask ----

def check_size(checks, web):
    """What a browser loads for the dashboard, compressed."""
    total = 0
    for path in ("/", "/app.js", "/app.css", "/icon.svg"):
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        checks.equal((answer.status, answer.getheader("Content-Encoding"), body[:2]), (200, "gzip", b"\x1f\x8b"), path)
        total += len(body)
    checks.that(20_000 < total < 100_000, f"bytes of the dashboard, compressed: {total}")


def check_strangers(checks, web, log):
    own = f"127.0.0.1:{web.port}"
    for host, expected in (("evil.example", 421), (f"localhost:{web.port}", 200), ("[::1]:1", 200), ("127.0.0.1.evil.example", 421), ("", 421),
                           ("[::1]", 200), ("[::1].evil.example", 421), ("[::1].evil.example:80", 421), ("[::1]:80.evil.example", 421),
                           ("[::1", 421), ("[127.0.0.1]", 421), ("::1", 421), ("127.0.0.1:80.evil.example", 421), ("localhost:evil", 421)):
        status, _, text = web.ask("/api/v1/hosts", headers={"Host": host})
        checks.equal((status, "the Host header names another machine" in text), (expected, expected == 421), f"Host: {host}")
    for name in ("X-Forwarded-For", "x-forwarded-for", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"):
        status, _, text = web.ask("/api/v1/hosts", headers={name: "192.0.2.1"})
        checks.that(status == 403 and f"the request has the header {name}, so a proxy passes on".lower() in text.lower() and "--web-tokens" in text,
                    f"a proxy's header {name}: {status} {text[:200]}")
    checks.that("the dashboard has no tokens: every user and program of this machine can read all that is stored" in log, f"the log: {log}")
    checks.that("Strict-Transport-Security" not in web.ask("/")[1], "HSTS without TLS")
    post = json.dumps({"sql": "SELECT 1"})
    for headers, expected in (({**JSON, "Origin": "http://evil.example"}, 403), ({**JSON, "Origin": f"http://{own}"}, 200),
                              ({**JSON, "Origin": "null"}, 403), ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
                              ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415), ({}, 415)):
        checks.equal(web.ask("/api/v1/sql", "POST", post, headers)[0], expected, f"POST with {headers}")
    checks.equal(web.ask("/api/v1/hosts", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0], 403, "another site's image")
    checks.equal(web.ask("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0], 200, "a link on another site")
    for path in ("/", "/app.js", "/api/v1/hosts", "/nowhere"):
        _, headers, _ = web.ask(path, headers={"Origin": f"http://{own}"})
        checks.that("Access-Control-Allow-Origin" not in headers, f"{path}: no other site may read it")
        policy = headers.get("Content-Security-Policy", "")
        checks.that("default-src 'none'" in policy and "unsafe" not in policy, f"{path}: {policy}")
        checks.equal(headers.get("X-Content-Type-Options"), "nosniff", f"{path}: type")
    _, headers, page = web.ask("/")
    checks.that(not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=|https?://", page), "the page has nothing inline or from outside")
    status, _, body = web.ask("/", headers={"If-None-Match": headers["ETag"]})
    checks.equal((status, body), (304, ""), "a page that a browser has")
    for method, path, body, expected in (("POST", "/api/v1/hosts", "{}", 405), ("GET", "/api/v1/sql", None, 405), ("GET", "/api/v1/nothing", None, 404),
                                         ("POST", "/api/v1/sql", "[1]", 400), ("POST", "/api/v1/sql", '{"sql":"DROP TABLE x"}', 400),
                                         ("POST", "/api/v1/sql", '{"sql":"SELECT 1","other":1}', 400), ("POST", "/api/v1/sql", "x" * 100, 400),
                                         ("GET", "/api/v1/hosts/absent", None, 404), ("GET", "/api/v1/queries/none", None, 404)):
        status, headers, text = web.ask(path, method, body, JSON)
        problem = json.loads(text)
        checks.equal((status, headers["Content-Type"], problem["status"], sorted(problem)),
                     (expected, "application/problem+json", expected, ["detail", "status", "title", "type"]), f"{method} {path} {str(body)[:30]}")


# ---- while things arrive ----

def check_tail(env, checks, web, trace):
    """Events come as they are stored."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=120)
    connection.request("GET", "/api/v1/events/tail?class=Process/DCStart&columns=host,time,ImageFileName")
    answer = connection.getresponse()
    checks.equal((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"), "the tail's head")
    checks.equal(answer.readline()[:1], b":", "the first line")
    env.replay([trace], web.collector, agent="late", spool=env.folder / "spool-late")
    seen = []
    while len(seen) < 20:
        line = answer.readline()
        if not line:
            break
        if line.startswith(b"data: {") and len(line) > 12:
            seen.append(json.loads(line[6:]))
    connection.close()
    checks.that(len(seen) == 20 and all(list(e) == ["host", "time", "ImageFileName"] and e["host"] == "late" for e in seen), f"the tail: {seen[:2]}")


def ask_slowly(web, source="127.0.0.1", sql=SLOW):
    """A connection whose question takes long."""
    body = json.dumps({"sql": sql}).encode()
    s = socket.create_connection(("127.0.0.1", web.port), source_address=(source, 0))
    s.sendall(b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return s


def check_load(env, checks, web, trace):
    """Dear questions on all threads: uploads are taken meanwhile; who goes away ends the question; what is pipelined waits."""
    pid = web.collector.process.pid
    slow = [ask_slowly(web) for _ in range(6)]
    harness.wait_until(lambda: test_query_limits.workers_of(pid), "a question's process", 60)
    slow[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    env.replay([trace], web.collector, agent="busy", spool=env.folder / "spool-busy")
    checks.that(web.collector.process.poll() is None, "the collector goes on")
    for s in slow:
        s.close()
    harness.wait_until(lambda: not test_query_limits.workers_of(pid), "the end of questions whose client left", 60)
    checks.that(any(h["host"] == "busy" for h in web.get("hosts")["items"]), "what came meanwhile is stored")


def is_answered(s):
    """Whether something of an answer is there to be read."""
    return bool(select.select([s], [], [], 0)[0])


def refusals(web):
    return re.search(r"^etwcollector_web_refused_total (\d+)", web.ask("/metrics")[2], re.M).group(1)


def check_lane(checks, web, ask, served, is_served, what):
    """More requests than the limits of running and waiting requests of a lane: each further request is refused immediately with
    503 and Retry-After. Returns the connections, the refused ones included."""
    first = [ask(web) for _ in range(served)]
    harness.wait_until(lambda: is_served(first), f"{what}: {served} that are answered", 60)
    more = [ask(web) for _ in range(WAITING + 5)]
    harness.wait_until(lambda: sum(map(is_answered, more)) >= 5, f"{what}: the first that are refused", 60)
    time.sleep(0.2)  # for a sixth
    refused = [s for s in more if is_answered(s)]
    answers = {s.recv(4096).decode() for s in refused}
    checks.equal(len(refused), 5, f"{what}: refused of {served} that are answered, {WAITING} that wait and 5 more")
    checks.that(all(a.startswith("HTTP/1.1 503 ") and "\r\nRetry-After: 1\r\n" in a for a in answers), f"{what}: {answers}")
    return first + more


def follow_slowly(web, source="127.0.0.1"):
    s = socket.create_connection(("127.0.0.1", web.port), source_address=(source, 0))
    s.sendall(b"GET /api/v1/events/tail HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s


def ask_quickly(web, source):
    s = socket.create_connection(("127.0.0.1", web.port), source_address=(source, 0))
    s.sendall(b"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s


def status_of(web, request):
    """The status with which the answer to these bytes begins; a request that is refused is not waited for."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as s:
        s.sendall(request)
        return s.recv(4096).decode().split(" ")[1]


def check_ceilings(checks, web):
    """The limits of --web in docs/reference/limits.md, each refusal counted."""
    pid, before = web.collector.process.pid, int(refusals(web))
    asked = check_lane(checks, web, ask_slowly, OF_ONE["questions"], lambda _: len(test_query_limits.workers_of(pid)) == OF_ONE["questions"], "questions")
    # followers have a lane of their own: it is free while questions fill theirs
    asked += check_lane(checks, web, follow_slowly, OF_ONE["followers"], lambda first: all(map(is_answered, first)), "followers")
    # another address has its turn in both lanes, although one waits with 64 calls in each
    for ask, what in ((ask_quickly, "question"), (follow_slowly, "stream")):
        with ask(web, "127.0.0.9") as s:
            harness.wait_until(lambda: is_answered(s), f"the {what} of another address beside a full queue", 10)
            checks.equal(s.recv(4096).decode().split(" ")[1], "200", f"the {what} of another address")
    # two addresses have all four places; a third waits for the next one that is free and has it before those that waited longer
    asked += [ask_slowly(web, "127.0.0.8") for _ in range(8)]
    harness.wait_until(lambda: len(test_query_limits.workers_of(pid)) == 4, "questions of two addresses", 60)
    with ask_quickly(web, "127.0.0.9") as s:
        time.sleep(0.3)
        checks.that(not is_answered(s), "a fifth question at a time")
        asked[0].close()
        harness.wait_until(lambda: is_answered(s), "the turn of the third address", 10)
    for s in asked:
        s.close()
    harness.wait_until(lambda: not test_query_limits.workers_of(pid), "the end of questions whose client left", 60)
    checks.equal(int(refusals(web)) - before, 10, "refusals that were counted")
    # what is too large is refused before it is a request: it is not counted
    query = json.dumps({"sql": "SELECT 1"}).encode()
    for size, expected in ((2 << 20, "200"), ((2 << 20) + 1, "413")):
        head = b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size
        checks.equal(status_of(web, head + query.ljust(size) if expected == "200" else head), expected, f"a body of {size} bytes")
    for size, expected in ((15 << 10, "200"), (17 << 10, "400")):
        checks.equal(status_of(web, b"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\nX-More: %s\r\n\r\n" % (b"x" * size)), expected,
                     f"headers of {size} bytes")


def check_unsent(checks, web):
    """A chunked answer of 96 MiB whose client does not read: the query blocks, and the collector's memory stays small. When the client
    reads, it gets the whole answer."""
    def memory():
        return receiver.process_status(web.collector.process.pid, "VmRSS")
    rows, size = 1536, 65536
    sql = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT i, printf('%.*c', {size}, 'x') AS x FROM n"
    body = json.dumps({"sql": sql, "format": "jsonl"}).encode()
    before = memory()
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.connect(("127.0.0.1", web.port))
        s.sendall(b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        harness.wait_until(lambda: is_answered(s), "the answer's beginning", 60)
        time.sleep(0.5)
        held = memory() - before
        answer = http.client.HTTPResponse(s)
        answer.begin()
        lines = answer.read().decode().splitlines()
    checks.equal((answer.status, len(lines)), (200, rows), "an answer of 96 MiB")
    checks.that(all(json.loads(line).get("x") == "x" * size for line in lines), "what came of the answer")
    checks.that(held < 16 << 20 or "san" in web.collector.env.build.name, f"{held} bytes of an answer that is not read")


def check_export(checks, web):
    """A long chunked answer is complete, also for a slow client."""
    expected = web.sql("SELECT count(*) FROM events WHERE host = ?1".replace("?1", f"'{MACHINE}'"))["rows"][0][0]
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=120)
    connection.request("GET", f"/api/v1/events?host={MACHINE}&format=jsonl")
    answer = connection.getresponse()
    first = answer.read(1000)
    time.sleep(0.3)
    rows = (first + answer.read()).decode().splitlines()
    connection.close()
    checks.equal(len(rows), expected, "exported events")
    checks.that(all(json.loads(r)["host"] == MACHINE for r in rows[:: max(1, len(rows) // 50)]), "exported rows")


def check_newest(checks, web):
    """An export has all rows, unless a limit is asked for; with order=newest a limit leaves the oldest out."""
    times = lambda **more: [json.loads(line) for line in web.ask("/api/v1/events?" + urllib.parse.urlencode({"host": MACHINE, "columns": "time", "format": "jsonl", **more}))[2].splitlines()]  # noqa: E731
    every = sorted(row["time"] for row in times())
    part = times(order="newest", limit=50)
    checks.equal(([row["time"] for row in part[:-1]], part[-1]["ending"]), (every[::-1][:50], "rows"), "the newest 50 events of an export")
    checks.equal([row["time"] for row in times(order="oldest", limit=50)[:-1]], every[:50], "the oldest 50 events")
    many = 10_001  # more than an answer in JSON has without a number of rows
    for form in ("csv", "jsonl"):
        text = web.ask("/api/v1/sql", "POST", json.dumps({"sql": f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {many}) SELECT x FROM n", "format": form}),
                       {"Content-Type": "application/json"})[2]
        checks.equal((len(text.splitlines()), "ending" in text), (many + (form == "csv"), False), f"SQL as {form}: all rows, since no number was asked for")
    newest = [row["time"] for row in web.get("connections", host=MACHINE, limit=1000)["items"]]
    checks.that(len(newest) > 1 and newest == sorted(newest, reverse=True), f"connections, the newest first: {newest[:3]}")


def check_far_numbers(env, checks, target, web):
    """An agent whose numbers no machine has, beyond 64 bits in all: everybody else's pages, metrics and state go on (check_incidents)."""
    before = web.get("fleet")["missing_batches"]

    def empty(stream, number, fields):
        return uploads._number(1, 1) + uploads._bytes(2, stream) + uploads._number(3, number) + fields

    def ledger(counts):
        return uploads._bytes(test_ledger.LEDGER_FIELD, uploads._bytes(1, b"".join(map(uploads._varint, counts))) +
                              uploads._bytes(2, b"".join(map(uploads._varint, counts.values()))) + uploads._number(3, 1))

    most, moves = 3 << 61, 29  # collector_moves: other collectors may have what is missing
    test_ledger.upload(env, target, "far", [empty(b"far-away-stream0", 2 * i, ledger({test_ledger.EVENTS_BATCHED: i * most, moves: 1,
                                                                                      test_ledger.EVENTS_ACKNOWLEDGED: 2**64 - 1})) for i in (1, 2)])
    for stream in (b"far-away-stream1", b"far-away-stream2"):
        graves = uploads._bytes(15, uploads._number(1, 1) + uploads._number(2, 2**63 - 2) + uploads._number(3, 15) + uploads._number(4, 2**64 - 1))
        test_ledger.upload(env, target, "far", [empty(stream, 1, uploads._number(4, 1) + graves)])
    test_ledger.upload(env, target, "far", [empty(b"far-away-stream3", number, ledger({moves: 1})) for number in (5, 2**40 + 5)])
    harness.wait_until(lambda: len(web.get("gaps", host="far")["items"]) == 6, "the gaps of an agent far away", 60)
    missing = 3 * (2**40 - 1) + 6  # a gap counts at most 2^40 - 1 batches: two tombstones and one gap exceed this limit; and the small gaps
    checks.equal(int(web.get("fleet")["missing_batches"]), missing + before, "batches that are missing in all")
    checks.that(0 < before < 1000, f"{before} before")
    for statement, expected in (("SELECT sum(batches) AS n FROM gaps", missing + before), ("SELECT count(*) AS n FROM batches WHERE batch = 5 AND host = 'far'"
                                 " OR batch = 1099511627781 AND host = 'far'", 2), ("SELECT sum(missing) >= 0 AS n FROM streams", 1)):
        row, = json.loads(env.run([env.collector, "query", "--store", target.store, "--format", "json", statement]).stdout)["rows"]
        checks.equal(row["n"], expected, statement)
    hosts = {h["host"]: int(h["missing_batches"]) for h in web.get("hosts")["items"]}
    checks.that(hosts["far"] == missing and hosts[HOLED] == before, f"missing batches by machine: {hosts}")
    checks.that(sum(g["hosts"] for g in web.get("fleet/groups", by="health")["items"]) == len(hosts), "machines in groups")
    gaps = web.get("queries/hosts-with-gaps")["items"]
    checks.equal({r["host"] for r in gaps}, {"far", HOLED}, "machines with gaps")
    by_row = """SELECT host, count(CASE WHEN kind <> 'counted' OR records = 0 THEN 1 END) AS periods, CAST(total(batches) AS INTEGER) AS batches,
        CAST(total(CASE kind WHEN 'counted' THEN at_least END) AS INTEGER) AS lost_events, time_text(max("end")) AS last FROM gaps GROUP BY host"""
    rows = json.loads(env.run([env.collector, "query", "--store", target.store, "--format", "json", by_row]).stdout)["rows"]
    checks.equal(sorted(tuple(str(v) for v in r.values()) for r in gaps), sorted(tuple(str(v) for v in r.values()) for r in rows), "sums of gaps, and their rows")
    checks.equal(web.ask("/metrics")[0], 200, "/metrics beside them")


def check_incidents(env, checks, target):
    """Incidents of a silent host and of an unbalanced ledger are stored with begin, numbers and end, and survive restarts. `doctor` lists
    the open incidents."""
    batches = web_world.captured(env, env.folder / "office.etl", "wrong")

    def more_delivered(counts):
        counts[test_ledger.EVENTS_DELIVERED] += 7

    def found(web, kind, host, is_open):
        return [i for i in web.get("incidents", host=host, limit=1000)["items"] if i["kind"] == kind and (i["end"] is None) == is_open]

    batches[2] = test_ledger.with_ledger(batches[2], more_delivered)
    target.extra += ["--silent-after", "2s"]
    target.start()
    web = web_world.Web(target)
    test_ledger.upload(env, target, "wrong", batches[:3])
    # its replay ended in order, and it is not silent for that: a stream that is cut off
    test_ledger.upload(env, target, MACHINE, test_ledger.captured(env, test_ledger.TRACE, "wrong")[:1])
    harness.wait_until(lambda: found(web, "silent", MACHINE, True) and found(web, "delivered", "wrong", True), "two incidents", 60)
    silent, wrong = found(web, "silent", MACHINE, True)[0], found(web, "delivered", "wrong", True)[0]
    heard = web.get(f"hosts/{MACHINE}")["received_last"]
    checks.that(silent["begin"] == heard and silent["left"] >= silent["right"] == 2, f"a silence since {heard}: {silent}")
    checks.equal(wrong["left"] - wrong["right"], 7, f"sides of the equation: {wrong}")
    over = found(web, "delivered", HOLED, False)
    checks.that(over and over[0]["left"] - over[0]["right"] == 7, f"a ledger that did not balance for a while: {over}")
    lasting = lambda: len(web.get("incidents", open=1, limit=1000)["items"])  # noqa: E731
    before, fleet, after = lasting(), web.get("fleet"), lasting()
    while before != after:  # another host fell silent in between
        before, fleet, after = after, web.get("fleet"), lasting()
    checks.equal(fleet["incidents"], after, "incidents that last")
    checks.that(next(h for h in web.get("hosts")["items"] if h["host"] == MACHINE)["incidents"] >= 1, "incidents of a machine")
    troubled = {h["host"] for h in web.get("hosts", by="health", group="alerts, incidents or gaps", limit=1000)["items"]}
    alone = [h["host"] for h in web.get("hosts", limit=1000)["items"] if h["incidents"] and not h["alerts"] and not h["missing_batches"]]
    checks.that(alone and set(alone) <= troubled, f"machines that have incidents alone are in the group of those in trouble: {alone}, {troubled}")
    check_detections(checks, target, web)
    listed = json.loads(env.run([env.collector, "doctor", "--store", target.store, "--json"], check=False).stdout)["checks"]
    listed = [c for c in listed if c["check"] == "incident"]
    checks.that(any(c["verdict"] == "warning" and MACHINE in c["text"] for c in listed) and any(c["verdict"] == "wrong" and "wrong: since" in c["text"] for c in listed),
                f"what doctor reports: {listed}")
    target.stop()
    target.start()
    web = web_world.Web(target)
    test_ledger.upload(env, target, "wrong", batches[3:])
    env.replay([env.folder / "office.etl"], target, agent=MACHINE, spool=env.folder / "spool-again")
    harness.wait_until(lambda: not found(web, "delivered", "wrong", True) and [i for i in found(web, "silent", MACHINE, False) if i["begin"] == heard],
                       "the end of both", 60)
    ended = found(web, "delivered", "wrong", False)
    checks.that([i["begin"] for i in ended] == [wrong["begin"]] and ended[0]["end"] > ended[0]["begin"], f"the same incident, ended: {ended}")
    checks.equal(len([i for i in found(web, "silent", MACHINE, False) if i["begin"] == heard]), 1, "the silence is kept once")


def check_detections(checks, target, web):
    """Detections are listed by machine and time."""
    db = sqlite3.connect(target.store / "alarms.db", timeout=60)
    with db:
        db.executemany("INSERT INTO detections(host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, who, comment) "
                       "VALUES(?, 's', 1, ?, 'r', 't', 'high', 'f:1', ?, 2, '{}', 'open', '', '')", [(MACHINE, 1, 10**18), (HOLED, 2, 10**18), (MACHINE, 3, 2 * 10**18)])
    db.close()
    for asked, expected in (({}, [MACHINE, MACHINE, HOLED]), ({"host": MACHINE}, [MACHINE, MACHINE]), ({"host": HOLED}, [HOLED]), ({"host": HOSTILE}, []),
                            ({"host": MACHINE, "to": "2010-01-01T00:00:00Z"}, [MACHINE]), ({"from_": "2010-01-01T00:00:00Z"}, [MACHINE])):
        checks.equal(sorted(d["host"] for d in web.get("detections", **asked)["items"] if d["title"] == "t"), sorted(expected), f"detections of {asked}")


def test(env, checks, _):
    env.make_certificates([MACHINE, HOSTILE, HOLED, "late", "busy", "wrong", "far"])
    target = web_world.collector(env)
    web = web_world.Web(target)
    harness.wait_until(lambda: web.ask("/api/v1/fleet")[0] == 200, "tables of machines", 60)
    empty = web.get("hosts")
    checks.equal((empty["items"], web.get("fleet")["hosts"]), ([], 0), "an empty fleet")
    truth = web_world.fill(env, target)
    web_world.settled(web)
    process = web.get(f"hosts/{MACHINE}/processes", q="explorer.exe")["items"][0]
    add_detection(target)
    check_document(checks, web)
    check_files(checks, web)
    check_answers(checks, web, process)
    check_types(checks, web, process)
    check_choices(checks, web, process)
    check_truth(checks, web, truth)
    check_groups(checks, web)
    check_profile(checks, web)
    check_times(checks, web)
    check_edges(checks, web)
    check_pages(checks, web)
    check_written(checks, web)
    check_nothing_found(checks, web)
    check_hostile(checks, web)
    check_injections(checks, web)
    check_size(checks, web)
    check_strangers(checks, web, target.log())
    check_export(checks, web)
    check_newest(checks, web)
    check_counts(checks, web)
    check_tail(env, checks, web, env.folder / "office.etl")
    check_load(env, checks, web, env.folder / "office.etl")
    check_ceilings(checks, web)
    check_unsent(checks, web)
    check_far_numbers(env, checks, target, web)
    target.stop()
    check_incidents(env, checks, target)
    target.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
