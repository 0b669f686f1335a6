"""A naive reader (tests/naive_etl.py) reads the files of the .etl writer's test (every header form, both pointer sizes, the
clocks, all compressions, Windows 7 to 11, held-back buffers, losses): its counts equal the numbers of written records and
buffers. Every trace is read and written again: buffer headers, trace header, records, and payloads from their field values
give the bytes of the original files.
"""
import json

import harness
import naive_etl
import traces


def test(env, checks, arguments):
    written = [json.loads(line) for line in env.run([env.build / "tests" / "unit" / "made_up", env.folder]).stdout.splitlines()]
    checks.that(len(written) >= 24, f"{len(written)} files")
    checks.equal({w["compression"] for w in written}, {0, 2, 3, 4}, "compressions")
    checks.equal({w["pointer_size"] for w in written}, {4, 8}, "pointer sizes")
    checks.equal({w["clock"] for w in written}, {1, 2, 3}, "clocks")
    checks.equal({w["header_records"] for w in written}, {1, 2, 3}, "records in the header's buffer")
    for said in written:
        name = said["file"]
        seen = naive_etl.parse(env.folder / name)
        checks.equal((seen["warnings"], seen["bad"]), ([], []), f"{name}: warnings, bad records")
        checks.equal(seen["events"], said["events"], f"{name}: records")
        checks.equal(seen["buffers"], said["buffers"], f"{name}: buffers")
        checks.equal(seen["ptr"], said["pointer_size"], f"{name}: pointer size")
        checks.equal((seen["events_lost"], seen["buffers_lost"]), (said["events_lost"], said["buffers_lost"]), f"{name}: lost")
        checks.equal(seen["headers"], {int(k): n for k, n in said["headers"].items()}, f"{name}: header forms")
        checks.equal(seen["ext"], {int(k): n for k, n in said["items"].items()}, f"{name}: extended items")
        checks.equal((seen["pmc"], seen["pebs"]), (said["pmc"], said["pebs"]), f"{name}: PMC and PEBS")
        checks.equal(seen["compression"], said["compression"], f"{name}: compression")
        flags = seen["bflags"]
        checks.equal((sum(n for flag, n in flags.items() if flag & 2), sum(n for flag, n in flags.items() if flag & 4)), (4, 1),
                     f"{name}: buffers that report losses")
        # what our own reader counts agrees, too
        stats = json.loads(env.run([env.agent, "stats", "--json", env.folder / name]).stdout)
        checks.equal(stats["events"], said["events"], f"{name}: stats: events")
    for name in traces.names():
        again = json.loads(env.run([env.build / "tests" / "unit" / "rewrite", *traces.paths(name, env.build)]).stdout)
        checks.equal((again["records"], again["payloads"], again["raw_texts"]), (traces.event_count(name),) * 2 + (0,),
                     f"{name}: records and payloads that come back byte for byte, strings that are no text")


if __name__ == "__main__":
    harness.main(test, __doc__)
