"""`etwagent relog --modules` and `--image-ids`: modules of a list, and ids of image files, come into a trace as Windows' merging tools write
them. The rules are checked by image_rules.py, an independent reader, which also judges traces that Windows merged. The collector lists
the modules while they are loaded, with their PDBs, and names samples inside them. A list of JSON lines is that of TSV; a cut has the rundown.
"""
import collections
import json
import os
import uuid

import harness
import image_rules
import made_image
import naive_etl
import traces

MERGED = {"clr-kernel-win8-x64": 3590, "tracelogging-win11-20cpu": 23402, "diagsession-four-files": 15423}  # by Windows' own tools: Image events with ids
BASE, SIZE, PLUGIN = 0x7FF000000000, 0x20000, "\\Device\\HarddiskVolume3\\Plugins\\größe.plug"
PDB = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
SECOND = 10_000_000  # ticks
COLUMNS = ("load", "unload", "pid", "base", "size", "path", "guid", "age", "pdb", "timestamp", "checksum", "name")


def make(env, name, milliseconds, more=""):
    path, scenario = env.folder / f"{name}.etl", env.folder / f"{name}.yaml"
    scenario.write_text(more, encoding="utf-8")
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--seed", "26", "--duration-ms", milliseconds, "--out", path])
    return path


def dump(env, path, *words):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *words, path]).stdout.splitlines()]


def relog(env, path, out, *words):
    return json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", *words]).stdout)


def judge(checks, what, *paths):
    found = image_rules.check(*paths)
    checks.equal(image_rules.without_generated(found.broken)[:3], [], f"{what}: rules of image events")
    return found


def write_lists(env, rows):
    tsv, lines = env.folder / "modules.tsv", env.folder / "modules.jsonl"
    tsv.write_text("\t".join(COLUMNS) + "\n" + "".join("\t".join(str(row.get(name, "")) for name in COLUMNS) + "\n" for row in rows), encoding="utf-8")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")  # with \u escapes
    return tsv, lines


def check_list(env, checks, path):
    out, again, cut = env.folder / "out.etl", env.folder / "again.etl", env.folder / "cut.etl"
    before = judge(checks, "the generated trace", path)
    process_of = {event["fields"]["TThreadId"]: event["fields"]["ProcessId"] for event in dump(env, path, "--class", "Thread/DCStart")}
    samples = dump(env, path, "--class", "PerfInfo/SampleProf")
    middle = range(samples[0]["clock"] + SECOND // 10, samples[0]["clock"] + SECOND // 5)
    busy = collections.Counter(process_of.get(event["fields"]["ThreadId"], 0) for event in samples if event["clock"] in middle)
    pids = [pid for pid, _ in busy.most_common() if pid > 4]
    owner = pids[0]
    rows = [{"load": "start+100ms", "unload": "start+200ms", "pid": owner, "base": hex(BASE), "size": SIZE, "path": PLUGIN, "guid": f"{{{PDB}}}", "age": 3,
             "pdb": "c:\\build\\größe.pdb", "timestamp": 77, "checksum": 5, "name": "GRÖSSE.PLUG"},
            {"pid": pids[1], "base": hex(BASE + SIZE), "size": hex(SIZE), "path": "\\??\\C:\\other.plug"}]
    tsv, lines = write_lists(env, rows)
    said = relog(env, path, out, "--modules", tsv)
    checks.equal((said["injected"], said["added"], said["written"]), (3, 9, said["read"] + 9), "the summary")
    relog(env, path, again, "--modules", lines)
    checks.that(out.read_bytes() == again.read_bytes(), "JSON lines are another list than TSV")
    found = judge(checks, "with modules", out)
    checks.equal((found.images, found.with_ids), (before.images + 3, before.with_ids + 3), "Image events, those with ids")
    checks.equal(naive_etl.parse(out)["warnings"], [], "a naive reader")
    mine = [event for event in dump(env, out, "--class", "Image/*", "--class", "ImageID/*") if event["fields"].get("ImageBase") in (hex(BASE), hex(BASE + SIZE))]
    names = [event["name"] for event in mine]
    ids = ["ImageID/Info", "ImageID/DbgID_RSDS"]
    checks.equal(names, ["ImageID/Info", "ImageID/None", "Image/DCStart", *ids, "Image/Load", *ids, "Image/UnLoad"], "the events")
    load = mine[5]
    checks.equal((load["pid"], load["fields"]["ProcessId"], load["fields"]["FileName"], load["fields"]["DefaultBase"], mine[4]["fields"]["PdbFileName"], mine[3]["fields"]["OriginalFileName"]),
                 (owner, owner, PLUGIN, hex(BASE), "c:\\build\\größe.pdb", "GRÖSSE.PLUG"), "the load")
    for at, wanted in (("+50ms", 0), ("+150ms", 1), ("+250ms", 0)):
        modules = json.loads(env.run([env.collector, "modules", "--json", "--at", at, "--pid", owner, out]).stdout)["modules"]
        mine = [m for m in modules if m["path"] == PLUGIN]
        checks.equal([m["pdb"] for m in mine], [{"guid": str(PDB), "age": 3, "path": "c:\\build\\größe.pdb"}] * wanted, f"modules at {at}")
    # samples inside of it have its name, and without the list they have none
    rule, classes = f"PerfInfo/SampleProf: InstructionPointer = {BASE + 0x1234}", ("PerfInfo/SampleProf", "Thread/*", "Process/*", "Image/*", "ImageID/*")
    for words, wanted in ((("--modules", tsv), True), ((), False)):
        relog(env, path, again, "--bare", "--set", rule, *words, *(word for name in classes for word in ("--class", name)))
        samples = env.run([env.collector, "profile", "--weight", "samples", "--format", "folded", again]).stdout
        checks.equal("größe.plug" in samples, wanted, f"{words}: the module in a profile")
    # a cut while it is loaded begins with its rundown
    relog(env, path, cut, "--from", "start+150ms", "--modules", tsv)
    judge(checks, "a cut", cut)
    events = [(event["name"], event["fields"]["FileName"]) for event in dump(env, cut, "--class", "Image/*") if event["fields"].get("ImageBase") == hex(BASE)]
    checks.equal(events, [("Image/DCStart", PLUGIN), ("Image/UnLoad", PLUGIN)], "events of the module in a cut")
    relog(env, path, cut, "--from", "start+120ms", "--to", "start+180ms", "--split", "30ms", "--modules", tsv)
    for number in (1, 2):
        part = env.folder / f"cut.{number:03}.etl"
        events = [event["name"] for event in dump(env, part, "--class", "Image/*") if event["fields"].get("ImageBase") == hex(BASE)]
        checks.equal(events, ["Image/DCStart", "Image/DCEnd"], f"part {number}")
    return rows


def check_mistakes(env, checks, path, rows):
    whole = rows[0]
    for change, why in (({"pid": "x"}, "pid"), ({"base": None}, "base"), ({"path": "C:\\x"}, "NT path"), ({"guid": "x"}, "GUID"), ({"age": None}, "together"),
                        ({"size": 1 << 64}, "size"), ({"load": "never"}, "never"), ({"unload": "start"}, "before"), ({"colour": "red"}, "colour")):
        file = env.folder / "wrong.jsonl"
        file.write_text(json.dumps({**whole, **change}) + "\n", encoding="utf-8")
        done = env.run([env.agent, "relog", path, "-o", env.folder / "none.etl", "--modules", file], check=False)
        checks.that(done.returncode and why in done.stderr and "line 1" in done.stderr, f"{change}: exit code {done.returncode}, {done.stderr}")
    checks.that(not (env.folder / "none.etl").exists(), "an output of a wrong list")


def check_ids(env, checks):
    bare = make(env, "bare", 100, "base: office\nsession: {image_ids: no}\n")
    out, folder = env.folder / "ids.etl", env.folder / "images"
    events = [event["fields"] for event in dump(env, bare, "--class", "Image/*") if "FileName" in event["fields"]]
    checks.equal(sum(judge(checks, "without ids", bare).ids.values()), 0, "ids of the trace without")
    (folder / "deep").mkdir(parents=True)
    count, wanted = collections.Counter((f["FileName"].split("\\")[-1].lower(), f["TimeDateStamp"], f["ImageSize"]) for f in events), 0
    for number, ((name, stamp, size), n) in enumerate(count.most_common(4)):
        stamp = stamp if isinstance(stamp, int) else 0
        # one is in an inner folder, in capitals; one is another build, beside which the right one is
        if number == 1:
            (folder / name).write_bytes(made_image.image(stamp + 1, size, PDB))
        (folder / ("deep" if number < 2 else "") / (name.upper() if number == 0 else name)).write_bytes(made_image.image(stamp, size, PDB))
        wanted += n
    (folder / "ntdll.dll").write_bytes(b"no image")
    for name in ("again", "more"):  # links that lead back
        (folder / "deep" / name).symlink_to(folder)
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "ntdll.dll")
    said = relog(env, bare, out, "--image-ids", folder)
    checks.equal(said["image_ids"], {"added": wanted, "missing": len(events) - wanted}, "the summary")
    found = judge(checks, "with ids", out)
    checks.equal((found.with_ids, found.ids[36], found.images), (wanted, wanted, len(events)), "Image events with ids")
    pdbs = {(event["fields"]["PdbFileName"], event["fields"]["Age"]) for event in dump(env, out, "--class", "ImageID/DbgID_RSDS")}
    checks.equal(pdbs, {("found.pdb", 7)}, "PDBs")
    said = relog(env, out, bare, "--image-ids", folder)
    checks.equal(said["image_ids"]["added"], 0, "ids are added once")


def check_real(env, checks):
    """Traces that Windows merged follow the rules, before and after they are relogged."""
    if not checks.real("the rules of image events hold in traces that Windows merged"):
        return
    for name, least in MERGED.items():
        paths, out = traces.paths(name, env.build), env.folder / "relogged.etl"
        before = image_rules.check(*paths)
        checks.equal(before.broken[:3], [], f"{name}: rules of image events")
        checks.that(before.with_ids >= least and before.images - before.with_ids < 20, f"{name}: {before.images} image events, {before.with_ids} with ids")
        if name == "tracelogging-win11-20cpu":  # one of the large ones is enough
            continue
        env.run([env.agent, "relog", *paths, "-o", out])
        checks.equal(image_rules.check(out), before, f"{name}: what is found in the relogged trace")


def test(env, checks, arguments):
    path = make(env, "office", 300, "base: office\n")
    rows = check_list(env, checks, path)
    check_mistakes(env, checks, path, rows)
    old = make(env, "old", 100, "base: 32-bit\n")
    tsv, _ = write_lists(env, [{**rows[0], "load": "start+10ms", "unload": "", "base": "0x70000000"}])
    relog(env, old, env.folder / "out.etl", "--modules", tsv)
    checks.that(judge(checks, "32 bits", env.folder / "out.etl").ids[36] > 0, "32 bits: ids")
    checks.equal([event["fields"]["FileName"] for event in dump(env, env.folder / "out.etl", "--class", "Image/Load") if event["fields"]["ImageBase"] == "0x70000000"], [PLUGIN], "32 bits")
    check_ids(env, checks)
    check_real(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
