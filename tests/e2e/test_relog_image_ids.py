"""`etwagent relog --image-ids` from what a collector has stored and from a symbol server on loopback: a trace without ids gets those that the
same trace has with ids, as image_rules.py and the events' own fields say. A server is asked for each image once, by name, time stamp and size; its
files are kept and used again; a wrong image, an error, silence and a redirect to elsewhere give no id. A trace cannot choose where files go, or
what else is asked for. What cannot be read is refused with its reason, and leaves no output.
"""
import collections
import http.server
import json
import signal
import subprocess
import threading
import urllib.parse
import uuid

import harness
import image_rules
import made_image
from test_relog_modules import dump, judge, make, relog

COLUMNS = "path, size_bytes, timestamp, pdb_guid, pdb_age, pdb_path, original_name"
BARE = "base: office\nsession: {image_ids: no}\n"


class Server:
    """A symbol server. answers: path -> (status, bytes, location)."""

    def __init__(self):
        self.answers, self.asked, self.release = {}, [], threading.Event()
        self.fallback = (404, b"", None)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                path = urllib.parse.unquote(self.path)
                outer.asked.append((path, self.headers["User-Agent"]))
                status, body, location = outer.answers.get(path, outer.fallback)
                if status == 0:
                    outer.release.wait(60)
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(body)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/symbols"

    def close(self):
        self.release.set()
        self.http.shutdown()
        self.http.server_close()

    def take(self):
        asked, self.asked = self.asked, []
        return [path for path, _ in asked]


def images(env, path):
    """The Image events of a trace that name a file."""
    return [event for event in dump(env, path, "--class", "Image/*") if event["fields"].get("FileName")]


def ids(env, path):
    """Image event (time, process, base) -> its PDB: the DbgID_RSDS of its time, process and base."""
    return {(e["clock"], e["fields"]["ProcessId"], e["fields"]["ImageBase"]): (e["fields"]["GuidSig"], e["fields"]["Age"], e["fields"]["PdbFileName"])
            for e in dump(env, path, "--class", "ImageID/DbgID_RSDS")}


def number(value):
    return int(value, 0) if isinstance(value, str) else value


def what(event):
    """Name, time stamp and size of an Image event's module."""
    fields = event["fields"]
    stamp = fields["TimeDateStamp"]
    return fields["FileName"].rsplit("\\", 1)[-1].lower(), number(stamp) if not isinstance(stamp, str) or stamp.isdigit() or stamp.startswith("0x") else 0, number(fields["ImageSize"])


def check_facts(env, checks, full, bare):
    """What a store has of one trace gives another trace its ids."""
    store, out, facts, table = (env.folder / name for name in ("store", "facts.etl", "facts.jsonl", "facts.tsv"))
    env.run([env.collector, "ingest", "--store", store, "--host", "pc", full])
    rows = env.run([env.collector, "query", "--store", store, "--format", "jsonl", f"SELECT {COLUMNS} FROM modules"]).stdout
    facts.write_text(rows, encoding="utf-8")
    parsed = [json.loads(line) for line in rows.splitlines()]
    names = COLUMNS.split(", ")
    table.write_text("\t".join(names) + "\n" + "".join("\t".join("" if row[n] is None else str(row[n]) for n in names) + "\n" for row in parsed), encoding="utf-8")
    everything = env.run([env.collector, "query", "--store", store, "--format", "jsonl", "SELECT * FROM modules"]).stdout
    (env.folder / "all.jsonl").write_text(everything, encoding="utf-8")
    wanted, events = ids(env, full), images(env, bare)
    checks.that(len(wanted) > 500 and not ids(env, bare), f"ids of the stored trace, and of the other one: {len(wanted)} {len(ids(env, bare))}")
    for source in (facts, table, env.folder / "all.jsonl"):
        said = relog(env, bare, out, "--image-ids", source)
        checks.equal(ids(env, out), wanted, f"{source.name}: PDBs of all modules")
        checks.equal(said["image_ids"], {"added": len(wanted), "missing": len(events) - len(wanted)}, f"{source.name}: the summary")
        judge(checks, source.name, out)
    row = next(row for row in parsed if row["pdb_guid"])
    # what the files say of themselves comes once before the ids of the first module that is the file
    described = [{**r, "file_version": "1.2.3.4", "company": "Größe", "product": "Plan", "description": ""} for r in parsed]
    (env.folder / "versions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in described), encoding="utf-8")
    relog(env, bare, out, "--image-ids", env.folder / "versions.jsonl")
    events = dump(env, out, "--class", "ImageID/*")
    versions = [(i, e["fields"]) for i, e in enumerate(events) if e["name"] == "ImageID/FileVersion"]
    files = {(r["original_name"], r["timestamp"], r["size_bytes"]) for r in parsed if r["pdb_guid"]}
    checks.equal((len(versions), len({(f["OrigFileName"], str(f["TimeDateStamp"]), f["ImageSize"]) for _, f in versions})), (len(files), len(files)), "versions of files, one each")
    checks.equal({tuple(f[key] for key in ("FileDescription", "FileVersion", "BinFileVersion", "ProductName", "CompanyName", "FileId")) for _, f in versions}, {("", "1.2.3.4", "1.2.3.4", "Plan", "Größe", "")}, "their texts")
    follows = [(events[i + 1]["name"], events[i + 1]["clock"], events[i + 1]["cpu"], events[i + 1]["pid"]) == ("ImageID/Info", events[i]["clock"], events[i]["cpu"], events[i]["pid"]) for i, _ in versions]
    checks.that(all(follows), "a version that no Info of its module follows")
    checks.equal(ids(env, out), wanted, "PDBs beside versions")
    judge(checks, "with versions", out)
    for change, part in (({"pdb_guid": "x"}, "no GUID: x"), ({"size_bytes": None}, "size_bytes"), ({"timestamp": 1 << 32}, "timestamp"), ({"path": "C:\\"}, "ends with a file's name"), ({"pdb_age": None}, "pdb_age"),
                         ({"pdb_path": None}, "pdb_path")):
        (env.folder / "wrong.jsonl").write_text(json.dumps({**row, **change}) + "\n")
        refused(env, checks, bare, 1, "line 1: ", part, "--image-ids", env.folder / "wrong.jsonl")
    # two machines had two builds of one time stamp and size, so which one this is stays unknown
    twice = [row, {**row, "pdb_guid": str(uuid.UUID(int=5))}]
    (env.folder / "twice.jsonl").write_text("".join(json.dumps(r) + "\n" for r in twice))
    checks.equal(relog(env, bare, out, "--image-ids", env.folder / "twice.jsonl")["image_ids"]["added"], 0, "builds that do not differ in what a trace has of them")
    (env.folder / "twice.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (row, row, {**row, "pdb_guid": None})))
    checks.that(relog(env, bare, out, "--image-ids", env.folder / "twice.jsonl")["image_ids"]["added"] > 0, "a module that was loaded twice")


def refused(env, checks, trace, code, *words):
    """A run that fails: the words up to the first option are in its message."""
    at = next(i for i, word in enumerate(words) if str(word).startswith("--"))
    out = env.folder / "refused.etl"
    done = env.run([env.agent, "relog", trace, "-o", out, *words[at:]], check=False)
    checks.that(done.returncode == code and all(part in done.stderr for part in words[:at]), f"{words}: exit code {done.returncode}, {done.stderr}")
    checks.that(not out.exists() and not out.with_name("refused.etl.partial").exists(), f"{words}: an output")


def check_server(env, checks, bare):
    server, cache, out = Server(), env.folder / "cache", env.folder / "served.etl"
    words = ("--image-ids", server.url, "--image-cache", cache)
    try:
        events = images(env, bare)
        count = collections.Counter(what(event) for event in events)
        known = [item for item in count if item[1]]
        checks.that(len(known) > 8, f"modules with time stamps: {len(known)}")
        paths = {item: f"/symbols/{item[0]}/{item[1]:08X}{item[2]:x}/{item[0]}" for item in known}
        good, other, broken, moved, away = known[0], known[1], known[2], known[3], known[4]
        guids = {item: uuid.UUID(int=i + 1) for i, item in enumerate(known)}
        server.answers = {paths[good]: (200, made_image.image(good[1], good[2], guids[good]), None), paths[other]: (200, made_image.image(other[1] + 1, other[2], guids[other]), None),
                          paths[broken]: (403, b"no", None), paths[moved]: (302, b"", "/elsewhere"), "/elsewhere": (200, made_image.image(moved[1], moved[2], guids[moved]), None),
                          paths[away]: (302, b"", "http://localhost:1/file")}
        said = relog(env, bare, out, *words)
        found = count[good] + count[moved]
        checks.equal(said["image_ids"], {"added": found, "missing": len(events) - found,
                                         "server": {"asked": len(known), "fetched": 2, "failed": 3, "left_out": len(count) - len(known)}}, "the summary")
        checks.equal({agent for _, agent in server.asked}, {"etwagent"}, "what it calls itself")
        checks.equal(sorted(server.take()), sorted([*paths.values(), "/elsewhere"]), "what the server was asked for")
        by_key = {(e["clock"], e["fields"]["ProcessId"], e["fields"]["ImageBase"]): what(e) for e in events}
        got = ids(env, out)
        checks.equal(collections.Counter((by_key[key], pdb) for key, pdb in got.items()),
                     collections.Counter({(item, (str(guids[item]), 7, "found.pdb")): count[item] for item in (good, moved)}), "the ids")
        judge(checks, "with ids of a server", out)
        kept = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
        checks.equal(kept, sorted(paths[item].removeprefix("/symbols/") for item in (good, moved)), "what was kept")
        # again: what was kept is not asked for; a kept file that is another image is
        (cache / kept[0]).write_bytes(made_image.image(1, 2, guids[good]))
        said = relog(env, bare, out, *words)
        checks.equal((said["image_ids"]["added"], said["image_ids"]["server"]["fetched"]), (found, 1), "a second run")
        checks.equal(len(server.take()), len(known) - 1 + (kept[0] == paths[moved].removeprefix("/symbols/")), "requests of a second run")
        # the first source that has an image counts: the server is asked for the others alone
        relog(env, bare, out, "--image-ids", cache, "--image-ids", server.url, "--image-cache", env.folder / "second")
        checks.equal(sorted(server.take()), sorted(path for item, path in paths.items() if item not in (good, moved)), "a folder before the server")
        check_names(env, checks, server, bare, good)
        check_trouble(env, checks, server, bare)
    finally:
        server.close()
    refused(env, checks, bare, 1, server.url, *words[:2], "--image-cache", env.folder / "third")  # no server listens any more


def check_names(env, checks, server, bare, good):
    """Names out of a trace: none leads out of the cache, and none that no file has is asked for."""
    named, out, cache, beside = env.folder / "named.etl", env.folder / "named-out.etl", env.folder / "deep" / "cache", made_image.image(good[1], good[2], uuid.UUID(int=9))
    server.answers, server.fallback = {}, (200, beside, None)
    for name, is_asked in (("..", False), (".", False), ("nul", False), ("COM1.dll", False), ("a:b", False), ("a%2f..%2fb", True), ("x?y=1", False), ("a b&c.dll", True), ("..%5cx.dll", False), ("größe.dll", True), ("x.", False), ("n" * 200, False)):
        text = f"\\\\Device\\\\HarddiskVolume1\\\\{name}"
        relog(env, bare, named, "--bare", "--class", "Image/*", *(word for kind in ("Load", "DCStart", "DCEnd", "UnLoad") for word in ("--set", f'Image/{kind}: FileName = "{text}"', "--set", f"Image/{kind}: TimeDateStamp = {good[1]}",
                                                                                                                                 "--set", f"Image/{kind}: ImageSize = {good[2]}")))
        said = relog(env, named, out, "--image-ids", server.url, "--image-cache", cache)["image_ids"]
        asked, wanted = server.take(), f"/symbols/{name.lower()}/{good[1]:08X}{good[2]:x}/{name.lower()}"
        checks.equal((asked, said["server"]["left_out"] > 0, said["added"] > 0), ([wanted] * is_asked, not is_asked, is_asked), f"{name[:20]}: requests")
        stray = [path for path in env.folder.rglob("*") if path.is_file() and path.read_bytes()[:2] == b"MZ" and cache not in path.parents and path.parent.parent.parent.name not in ("cache", "second")]
        checks.equal(stray, [], f"{name[:20]}: files elsewhere")


def check_trouble(env, checks, server, bare):
    """Failures without an end, and silence, end the run; so do sources that are none."""
    cache = env.folder / "trouble"
    words = ("--image-ids", server.url, "--image-cache", cache)
    server.fallback = (403, b"", None)
    server.take()
    refused(env, checks, bare, 1, server.url, "403", *words)
    checks.equal(len(server.take()), 16, "requests until it gives up")
    server.fallback = (200, b"<html>please log in</html>", None)
    refused(env, checks, bare, 1, server.url, "no such image", *words)
    checks.equal([path for path in cache.rglob("*")], [], "what is kept of a server that has none of the images")
    server.fallback = (0, b"", None)
    server.take()
    out = env.folder / "stopped.etl"
    with subprocess.Popen([env.agent, "relog", bare, "-o", out, *words], stderr=subprocess.PIPE) as process:
        harness.wait_until(lambda: server.asked, "a request", 20)
        process.send_signal(signal.SIGINT)
        checks.equal((process.wait(timeout=10), out.exists(), [*cache.rglob("*")]), (1, False, []), "Ctrl-C while the server says nothing: exit code, output, cache")
    for code, *words in ((2, "--image-cache", "--image-ids", server.url), (2, "http: or https:", "--image-ids", "ftp://127.0.0.1/x", "--image-cache", cache), (2, "--image-cache goes with", "--image-cache", cache),
                         (1, "no-such", "--image-ids", env.folder / "no-such"), (1, "no-such.jsonl", "--image-ids", env.folder / "no-such.jsonl")):
        refused(env, checks, bare, code, *words)


def test(env, checks, arguments):
    full, bare = make(env, "full", 200, "base: office\n"), make(env, "bare", 200, BARE)
    check_facts(env, checks, full, bare)
    check_server(env, checks, make(env, "short", 60, BARE))


if __name__ == "__main__":
    harness.main(test, __doc__)
