"""Every kernel event understood. In each real trace, no classic event and none of Microsoft-Windows-Kernel-EventTracing is
left unknown or is decoded only in part, save those of tests/golden/kernel-unknown.tsv, for which no public layout exists and
which docs/reference/decoding.md lists; one that is new fails, and so does one that is gone. And the names of diagsession-four-files, as an
independent program printed them (traceevent-names.txt), all of them in order.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import traces

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = SOURCE / "tests" / "golden"
CLR_MAPS = ("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", 190, "Method/MethodILToNativeMap")
EVENT_TRACING = "b675ec37-bdb6-4648-bc92-f3fdc74d3ca2"


def rows(name):
    with open(GOLDEN / name, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


NAMES = "diagsession-four-files/traceevent-names.txt"


def run(command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout


def check_unknown(agent, build, checks):
    listed = {(r["provider"], int(r["opcode"]), int(r["version"])): r for r in rows("kernel-unknown.tsv")}
    page = (SOURCE / "docs/reference/decoding.md").read_text(encoding="utf-8")
    found, kernel = {}, 0
    real = checks.real("kernel events: every kernel event of real traces has a layout, or is listed as unknown")
    for name in traces.names():
        stats = json.loads(run([agent, "stats", "--json", *traces.paths(name, build)]))
        for c in stats["classes"]:
            if not c["classic"] and c["provider"] != EVENT_TRACING:
                continue
            kernel += c["count"]
            what = f"{name}: {c['provider']} {c['name']} {c.get('opcode', c.get('id'))} version {c['version']}"
            if c["unknown"]:
                key = (c["provider"], c.get("opcode", c.get("id")), c["version"])
                found.setdefault(key, []).append(f"{c['unknown']} in {name}")
                checks.that(key in listed, f"{what}: {c['unknown']} events have no layout")
            checks.equal(c["partial"], 0, f"{what}: decoded in part")
    for key, row in listed.items():
        checks.that(not real or key in found, f"{row['name']} is listed as unknown, and no trace holds one")
        checks.that(row["name"] in page, f"{row['name']} is listed as unknown, and docs/reference/decoding.md lacks it")
        print(f"no public layout: {row['name']}: {', '.join(found.get(key, []))}")
    checks.that(kernel > (200_000 if real else 100_000), f"only {kernel} kernel events were looked at")
    print(f"{kernel} kernel events, all known but {len(found)} kinds")


def check_names(agent, build, checks):
    """Their names in order: kernel and .NET events by our names, those of other providers by their ids. What they leave
    out is exactly CLR event 190."""
    ours_of = {(r["provider"], r["name"]): r["traceevent"].split("/", 1)[1] for r in
               rows("traceevent-names.tsv") + rows("traceevent-more-names.tsv")}
    by_id = {(r["provider"], int(r["id"])): r["traceevent"] for r in rows("traceevent-ids.tsv")}
    if not checks.real("kernel events: the names of 95,506 events as TraceEvent gives them", NAMES):
        return
    theirs = traces.document(NAMES, build).read_text(encoding="utf-8-sig").split("\n")
    expected = [n.strip() for n in theirs if n.strip()]
    lines = run([agent, "dump", "--no-names", "--format", "jsonl", "--fields", "clock,provider,name,opcode,id",
                 *traces.paths("diagsession-four-files", build)]).splitlines()
    got, clocks, left, named = [], [], {}, 0
    for line in lines:
        event = json.loads(line)
        name = by_id.get((event["provider"], event["id"])) or ours_of.get((event["provider"], event["name"]))
        if name:
            got.append(name)
            clocks.append(event["clock"])
            named += (event["provider"], event["name"]) in ours_of
        else:
            key = (event["provider"], event["id"], event["name"])
            left[key] = left.get(key, 0) + 1
    checks.equal(left, {CLR_MAPS: 5247}, "diagsession-four-files: events without a name there")
    checks.equal((len(lines), len(expected)), (100_753, 95_506), "diagsession-four-files: records, and names there")
    if not checks.equal(len(got), len(expected), "diagsession-four-files: events"):
        return
    # the file events of one tick are in any order in that list, so the names of a tick are compared as a multiset
    at, ticks, turned = 0, 0, 0
    while at < len(got):
        end = at
        while end < len(got) and clocks[end] == clocks[at]:
            end += 1
        ticks += 1
        turned += got[at:end] != expected[at:end]
        if sorted(got[at:end]) != sorted(expected[at:end]):
            checks.that(False, f"diagsession-four-files: names from {at}: theirs {expected[at:end][:9]}, ours {got[at:end][:9]}")
            return
        at = end
    checks.that(ticks > 10_000, f"{ticks} different times are enough to call it an order")
    print(f"diagsession-four-files: {len(got)} names agree in the order of {ticks} times (in {turned} of them the files' events of "
          f"one tick are in another order there), {named} of them by our own names; {sum(left.values())} events, CLR's 190, have none there")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--soak", action="store_true")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    agent = build / "service" / "app" / "etwagent"
    checks = harness.Checks()
    check_unknown(agent, build, checks)
    check_names(agent, build, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
