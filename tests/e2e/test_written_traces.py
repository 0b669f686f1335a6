"""The files that the .etl writer's test makes (every header form, both pointer sizes, the clocks, all compressions, Windows 7 to
11, held-back buffers, losses), read by a parser that the project did not write: its counts equal what was written. And every
real trace read and written again: buffer headers, trace header, records, and payloads from their field values give the bytes
that stand in the files.
"""
import json
import subprocess
import sys

import harness
import traces

HEADERS = {1: "SYSTEM32", 2: "SYSTEM64", 3: "COMPACT32", 4: "COMPACT64", 10: "FULL32", 11: "INSTANCE32", 15: "MESSAGE", 16: "PERFINFO32",
           17: "PERFINFO64", 18: "EVENT32", 19: "EVENT64", 20: "FULL64", 21: "INSTANCE64"}
ITEMS = ("RELATED_ACTIVITYID SID TS_ID INSTANCE_INFO STACK_TRACE32 STACK_TRACE64 PEBS_INDEX PMC_COUNTERS PSM_KEY EVENT_KEY "
         "EVENT_SCHEMA_TL PROV_TRAITS PROCESS_START_KEY CONTROL_GUID QPC_DELTA CONTAINER_ID STACK_KEY32 STACK_KEY64").split()
COMPRESSIONS = {2: "LZNT1", 3: "XPRESS", 4: "XPRESS_HUFF"}


def item_name(number):
    return ITEMS[number - 1] if number <= len(ITEMS) else str(number)


def test(env, checks, arguments):
    tool = traces.folder().parent / "tools" / "etlinv.py"
    if not tool.is_file():
        raise harness.Failure(f"{tool} is missing")
    written = [json.loads(line) for line in env.run([env.build / "tests" / "unit" / "made_up", env.folder]).stdout.splitlines()]
    checks.that(len(written) >= 24, f"{len(written)} files")
    checks.equal({w["compression"] for w in written}, {0, 2, 3, 4}, "compressions")
    checks.equal({w["pointer_size"] for w in written}, {4, 8}, "pointer sizes")
    checks.equal({w["clock"] for w in written}, {1, 2, 3}, "clocks")
    checks.equal({w["header_records"] for w in written}, {1, 2, 3}, "records in the header's buffer")
    done = subprocess.run([sys.executable, tool, *(env.folder / w["file"] for w in written)], check=True, stdout=subprocess.PIPE)
    there = [json.loads(line) for line in done.stdout.splitlines()]
    checks.equal(len(there), len(written), "files that the independent parser read")
    for said, seen in zip(written, there):
        name = said["file"]
        checks.equal(seen["warnings"], [], f"{name}: warnings")
        checks.equal((seen["n_bad"], seen["bad_records"]), (0, []), f"{name}: bad records")
        checks.equal(seen["events"], said["events"], f"{name}: records")
        checks.equal(seen["buffers"], said["buffers"], f"{name}: buffers")
        checks.equal(seen["ptr"], said["pointer_size"], f"{name}: pointer size")
        checks.equal((seen["events_lost"], seen["buffers_lost"]), (said["events_lost"], said["buffers_lost"]), f"{name}: lost")
        checks.equal(seen["headers"], {HEADERS[int(k)]: n for k, n in said["headers"].items()}, f"{name}: header forms")
        checks.equal(seen["ext"], {item_name(int(k)): n for k, n in said["items"].items()}, f"{name}: extended items")
        checks.equal((seen["perfinfo_pmc_ext"], seen["perfinfo_pebs"]), (said["pmc"], said["pebs"]), f"{name}: PMC and PEBS")
        checks.equal(seen.get("compressed", {}).get("format"), COMPRESSIONS.get(said["compression"]), f"{name}: compression")
        flags = {int(flag, 16): n for flag, n in seen["bflags"].items()}
        checks.equal((sum(n for flag, n in flags.items() if flag & 2), sum(n for flag, n in flags.items() if flag & 4)), (4, 1),
                     f"{name}: buffers that tell of losses")
        # what our own reader counts agrees, too
        stats = json.loads(env.run([env.agent, "stats", "--json", env.folder / name]).stdout)
        checks.equal(stats["events"], said["events"], f"{name}: stats: events")
    for name in traces.names():
        again = json.loads(env.run([env.build / "tests" / "unit" / "rewrite", *traces.paths(name, env.build)]).stdout)
        checks.equal((again["records"], again["payloads"], again["raw_texts"]), (traces.event_count(name),) * 2 + (0,),
                     f"{name}: records and payloads that come back byte for byte, strings that are no text")


if __name__ == "__main__":
    harness.main(test, __doc__)
