"""Modules and functions that programs announce (etwagent_announce.h), of a generated machine whose plug-ins are no images to Windows. Profiles and
`where` name samples inside them, `modules` and SQL list them as announced while they are loaded; without the announcements none is named. The
history is that of a naive fold of the dump. `relog --announce` and `pull` write image events in their place, by the rules that an independent
reader checks, with the same modules and profile; a cut without it keeps them. Announcements that are cut short harm nothing.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 13: Samples inside of modules of a format of its own, which a program announces, are named by module and function. |
#   a generated machine whose plug-ins are no images, with and without their announcements | 2026-11-28
import collections
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "judges"))
import harness
import image_rules
import naive_etl
import naive_state
import test_pull

PLUGIN = re.compile(r"(?:plugin|narrow)\d\.dll[^; ]*")
SCENARIO = "base: wow64\nsession: {announced: yes}\n"
LIMIT = 20_000  # events of a pull: some of them announcements
KEYS = ("base", "size", "path", "pdb")


def dump(env, path, *words):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", *words, path]).stdout.splitlines()]


def stored(env, path):
    """The words that name a trace once it is stored: it is read once, for all questions."""
    store = env.folder / f"{path.stem}-{len(list(env.folder.iterdir()))}.store"
    env.run([env.collector, "ingest", "--store", store, "--host", "of", path])
    return "--store", store, "--host", "of"


def frames(env, *words):
    """Frames of plug-ins in a profile, with their samples."""
    found = collections.Counter()
    for line in env.run([env.collector, "profile", "--weight", "samples", "--format", "folded", *words]).stdout.splitlines():
        stack, count = line.rsplit(" ", 1)
        for frame in PLUGIN.findall(stack):
            found[frame] += int(count)
    return found


def lists(env, times, pids, *words):
    """Modules that are plug-ins, and their kinds, at times."""
    found, kinds = {}, set()
    for at in times:
        for pid in pids:
            said = json.loads(env.run([env.collector, "modules", "--json", "--at", at, "--pid", pid, *words]).stdout)["modules"]
            plugins = [m for m in said if "\\Plugins\\" in m["path"]]
            found[at, pid] = [tuple(json.dumps(m[key]) for key in KEYS) for m in plugins]
            kinds |= {m["kind"] for m in plugins}
            assert all(m["kind"] == "image" for m in said if m not in plugins)
    return found, kinds


def check_history(env, checks, path, store):
    """The table of the history against a naive fold of the dump."""
    naive = naive_state.Machine()
    for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", path]).stdout.splitlines():
        naive.feed(json.loads(line))
    wanted = collections.Counter((i.values["pid"], i.values["base"], i.get("size"), i.get("path"), (i.get("pdb", None) or (None,))[0], i.get("kind"), i.end == naive_state.FOREVER)
                                 for i in naive.instances if i.kind == "module")
    said = env.run([env.collector, "query", "--store", store, "--format", "jsonl",
                    'SELECT pid, base, size_bytes, path, pdb_guid, kind, "end" IS NULL AS open FROM modules']).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    got = collections.Counter((row["pid"], int(row["base"], 0), row["size_bytes"], row["path"], row["pdb_guid"], row["kind"], bool(row["open"])) for row in rows)
    checks.that(wanted == got and any(key[5] == "announced" for key in got), f"modules: {list((wanted - got).items())[:2]} {list((got - wanted).items())[:2]}")


def check_relog(env, checks, path, loads, lists_of, times, pids, named):
    out, cut = env.folder / "images.etl", env.folder / "cut.etl"
    said = json.loads(env.run([env.agent, "relog", path, "-o", out, "--announce", "--json"]).stdout)
    checks.equal((said["announced"], said["dropped"], said["added"], said["written"]),
                 ({"made": loads, "left": 0}, loads, 3 * loads, said["read"] + 2 * loads), "relog: the summary")
    checks.equal(image_rules.without_generated(image_rules.check(out).broken)[:3], [], "relog: rules of image events")
    checks.equal(naive_etl.parse(out)["warnings"], [], "relog: a naive reader")
    checks.that(out.stat().st_size < 1.2 * path.stat().st_size, f"relog: {out.stat().st_size} bytes of {path.stat().st_size}")
    checks.equal({event["name"] for event in dump(env, out, "--provider", "Etwagent-Announce")}, {"Announce/FunctionLoad", "Announce/FunctionUnload"}, "relog: announcements that stay")
    words = stored(env, out)
    checks.equal(lists(env, times, pids, *words), (lists_of, {"image"}), "relog: modules")
    checks.equal(frames(env, *words), named, "relog: the profile")
    # a cut keeps what was announced before
    for words, kind in (((), "announced"), (("--announce",), "image")):
        env.run([env.agent, "relog", path, "-o", cut, "--from", "start+700ms", *words])
        checks.equal(image_rules.without_generated(image_rules.check(cut).broken)[:3], [], f"a cut, {kind}: rules of image events")
        later = times[2:]
        checks.equal(lists(env, later, pids, *stored(env, cut)), ({(at, pid): lists_of[at, pid] for at in later for pid in pids}, {kind}), f"a cut, {kind}: modules")


def check_pull(env, checks, store, times, pids, named):
    out, bare = env.folder / "pulled.etl", env.folder / "bare.etl"
    said = json.loads(env.run([env.collector, "pull", "--store", store, "--host", "plugins", "-o", out, "--json"]).stdout)
    checks.that(said["announced"] and said["written"] == said["read"] - said["dropped"] + said["added"], f"pull: {said}")
    checks.equal(image_rules.without_generated(image_rules.check(out).broken)[:3], [], "pull: rules of image events")
    words = stored(env, out)
    checks.equal(lists(env, times, pids, *words), (lists(env, times, pids, "--store", store, "--host", "plugins")[0], {"image"}), "pull: modules")
    checks.equal(frames(env, *words), named, "pull: the profile")
    env.run([env.collector, "pull", "--store", store, "--host", "plugins", "-o", bare, "--bare"])
    checks.that(any(event["name"] == "Announce/ModuleLoad" for event in dump(env, bare, "--provider", "Etwagent-Announce")), "pull --bare: the stored records")
    # an announcement is one event of a limit
    said = json.loads(env.run([env.collector, "pull", "--store", store, "--host", "plugins", "-o", out, "--json", "--from", times[1], "--limit", LIMIT]).stdout)
    checks.equal((said["limited"], said["read"] - said["dropped"] + said["announced"], said["announced"] > 0), (True, LIMIT, True), "a limit")
    # a window that begins while plug-ins are loaded: they come out of the history
    env.run([env.collector, "pull", "--store", store, "--host", "plugins", "-o", out, "--from", times[2]])
    checks.equal(lists(env, times[2:], pids, *stored(env, out)), (lists(env, times[2:], pids, "--store", store, "--host", "plugins")[0], {"image"}), "a window: modules")


def check_wrong(env, checks, path):
    """Announcements that are cut: nothing is named by them, and relog leaves them."""
    out, again = env.folder / "wrong.etl", env.folder / "again.etl"
    env.run([env.agent, "relog", path, "-o", out, "--set", "Announce/ModuleLoad: version = 7"])
    said = json.loads(env.run([env.agent, "relog", out, "-o", again, "--announce", "--json"]).stdout)
    checks.that(said["announced"]["made"] and said["written"] == said["read"] - said["dropped"] + said["added"], f"another version: {said['announced']}")
    checks.equal([event["name"] for event in dump(env, again, "--provider", "Etwagent-Announce", "--id", "2")], [], "unloads of them")


def test(env, checks, arguments):
    path, truth, scenario, store = (env.folder / name for name in ("plugins.etl", "plugins.jsonl", "plugins.yaml", "store"))
    scenario.write_text(SCENARIO, encoding="utf-8")
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--seed", "3", "--duration-ms", "1200", "--out", path, "--truth", truth])
    env.run([env.collector, "ingest", "--store", store, "--host", "plugins", path])
    announced = dump(env, path, "--provider", "Etwagent-Announce")
    loads = sum(event["name"].startswith("Announce/Module") for event in announced)
    pids = sorted({event["pid"] for event in announced})
    checks.that(loads > 20 and len(pids) > 1, f"{loads} announcements of {pids}")
    began = next(event["time"] for event in dump(env, path) if event["name"] == "EventTrace/Header")
    times = [test_pull.after(began, ms * 10_000) for ms in (150, 450, 750, 1050)]
    lists_of, kinds = lists(env, times, pids, "--store", store, "--host", "plugins")
    checks.that(sum(map(len, lists_of.values())) > 3, f"modules: {lists_of}")
    checks.equal(kinds, {"announced"}, "kinds of plug-ins")
    check_history(env, checks, path, store)
    # samples inside of them are named by module and function; without the announcements by none
    named = frames(env, "--store", store, "--host", "plugins")
    checks.that(sum(named.values()) > 100 and all(re.fullmatch(r"(\w+)\.dll(?:!\1_render|\+0x\w+)", frame) for frame in named), f"frames: {named}")
    checks.that(sum("!" in frame for frame in named) > 5, f"functions: {named}")
    without = env.folder / "without.etl"
    env.run([env.agent, "relog", path, "-o", without, "--where", 'provider != "Etwagent-Announce"', "--bare"])
    checks.equal(frames(env, without), collections.Counter(), "frames without announcements")
    load = next(event for event in announced if event["name"] == "Announce/FunctionLoad")
    said = env.run([env.collector, "where", "--store", store, "--host", "plugins", "--at", load["time"], "--pid", load["pid"], hex(int(load["fields"]["MethodStartAddress"], 0) + 64)]).stdout
    checks.that(load["fields"]["MethodName"] in said or ".dll+0x1040" in said, f"where: {said}")
    text = env.run([env.collector, "modules", "--store", store, "--host", "plugins", "--at", load["time"], "--pid", load["pid"]]).stdout
    checks.that("(announced)" in text, "modules: the text says that it was announced")
    check_relog(env, checks, path, loads, lists_of, times, pids, named)
    check_pull(env, checks, store, times, pids, named)
    check_wrong(env, checks, path)


if __name__ == "__main__":
    harness.main(test, __doc__)
