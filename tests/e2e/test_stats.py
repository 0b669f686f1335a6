"""`etwagent stats --json` of every trace, file by file and merged, against what a naive reader (tests/naive_etl.py) counts: events, record header types, kernel events by group and opcode with their versions, classic and manifest events by
provider, lost events and buffers. Every event is decoded, decoded in part, or of an unknown class; which kernel and classic
classes are not decoded whole is listed here.

# sanitizers: asan-ubsan
"""
import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import naive_etl
import traces

# The class GUID of each kernel group that the traces have (ntwmi.h EVENT_TRACE_GROUP_*).
GROUP_GUIDS = {0: "68fdd900-4a3e-11d1-84f4-0000f80464e3", 1: "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c",
               2: "3d6fa8d3-fe05-11d0-9dda-00c04fd7ba7c", 3: "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c",
               4: "90cbdc39-4a3e-11d1-84f4-0000f80464e3", 5: "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
               6: "9a280ac0-c8e0-11d1-84e2-00c04fb998a2", 8: "bf3a50c5-a9c9-4988-a005-2df0b7c80f80", 9: "ae53722e-c863-11d2-8659-00c04fa321a1",
               11: "01853a65-418f-4f36-aefc-dc0f1d2fd235", 15: "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc",
               20: "2cb15d1d-5fc1-11d2-abe1-00a0c911f518", 24: "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3"}
IMAGE_LOAD = (3, 10)  # belongs to the process group
UNKNOWN_LAYOUT = {("9b79ee91-b5fd-41c0-a243-4248e266e9d0", 37), ("01853a65-418f-4f36-aefc-dc0f1d2fd235", 19)}


def expected_classes(row):
    """{(provider, opcode): count} and {(provider, opcode): its versions} of kernel and classic events."""
    opcodes, versions = collections.Counter(), collections.defaultdict(set)
    for (group, opcode, version), count in row["kernel"].items():
        key = GROUP_GUIDS[20 if (group, opcode) == IMAGE_LOAD else group], opcode
        opcodes[key] += count
        versions[key].add(version)
    for (guid, opcode, version), count in row["classic"].items():
        opcodes[guid, opcode] += count
        versions[guid, opcode].add(version)
    return opcodes, versions


def check(name, got, rows, checks):
    """got: stats of the files of rows, merged."""
    headers, opcodes, versions, providers = collections.Counter(), collections.Counter(), {}, collections.Counter()
    for row in rows:
        headers.update({naive_etl.NAMES[kind]: count for kind, count in row["headers"].items()})
        more, their_versions = expected_classes(row)
        opcodes.update(more)
        providers.update(row["providers"])
        for key, found in their_versions.items():
            versions.setdefault(key, set()).update(found)
    checks.equal(got["events"], sum(row["events"] for row in rows), f"{name}: events")
    checks.equal(got["headers"], dict(headers), f"{name}: record headers")
    checks.equal(got["events_lost"], sum(row["events_lost"] for row in rows), f"{name}: events lost")
    checks.equal(got["buffers_lost"], sum(row["buffers_lost"] for row in rows), f"{name}: buffers lost")
    checks.equal(got["bad_records"], sum(len(row["bad"]) for row in rows), f"{name}: bad records")
    checks.equal(got["bad_bytes"], 0, f"{name}: bad bytes")
    ours, our_versions, our_providers = collections.Counter(), {}, collections.Counter()
    for c in got["classes"]:
        if c["classic"]:
            ours[(c["provider"], c["opcode"])] += c["count"]
            our_versions.setdefault((c["provider"], c["opcode"]), set()).add(c["version"])
        else:
            our_providers[c["provider"]] += c["count"]
        checks.equal(c["decoded"] + c["partial"] + c["unknown"], c["count"], f"{name}: {c}")
        if c["classic"] and (c["provider"], c["opcode"]) not in UNKNOWN_LAYOUT:
            checks.equal(c["decoded"], c["count"], f"{name}: events of {c['name'] or c} decoded whole")
            checks.that(c["name"] and c["provider_name"], f"{name}: no name for {c}")
    checks.equal(dict(ours), dict(opcodes), f"{name}: kernel and classic events by class and opcode")
    checks.equal(our_versions, versions, f"{name}: their versions")
    checks.equal(dict(our_providers), dict(providers), f"{name}: manifest and TraceLogging events by provider")
    checks.equal(sum(c["count"] for c in got["classes"]), got["events"], f"{name}: sum of the classes")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    arguments = parser.parse_args()
    checks = harness.Checks()
    agent = pathlib.Path(arguments.build).resolve() / "service" / "app" / "etwagent"

    def stats(paths):
        return json.loads(subprocess.run([agent, "stats", "--json", "--strict", *paths], stdout=subprocess.PIPE, check=True).stdout)

    for name in traces.names():
        paths, rows = traces.paths(name, arguments.build), []
        for file, path in zip(traces.files(name), paths):
            row = naive_etl.parse(path)
            rows.append(row)
            got = stats([path])
            check(f"{name}/{file}", got, [row], checks)
            info = got["files"][0]
            checks.equal([info["os_build"], info["cpus"], info["pointer_size"], info["clock_type"], info["clock_frequency"],
                          info["buffers"]], [row["build"], row["cpus"], row["ptr"], row["clock"], row["perf_freq"],
                                             row["buffers"]], f"{name}/{file}: the file's header")
            start = datetime.datetime(1601, 1, 1) + datetime.timedelta(microseconds=row["start"] // 10)
            checks.equal(info["start"][:26], start.isoformat(timespec="microseconds"), f"{name}/{file}: start")
        if len(paths) > 1:
            check(name, stats(paths), rows, checks)
    text = subprocess.run([agent, "stats", *traces.paths("shutdown-win10", arguments.build)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    count = traces.event_count("shutdown-win10")
    checks.that(f"{count} events: {count} decoded, 0 partly, 0 of unknown classes" in text, "the text form of the counts")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
