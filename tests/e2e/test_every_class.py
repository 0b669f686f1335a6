"""Every class that we have a row for, in each of its versions, 32- and 64-bit, written with random values by
tests/unit/every_class.c, which reads the file back and compares each value. Here an independent parser
(tests/naive_etl.py) says what is in the file, and `stats` how much of it is understood.
"""
import collections
import json

import harness
import naive_etl


def test(env, checks, arguments):
    without_layout = {c["name"] for c in json.loads(env.run([env.agent, "schema", "--json"]).stdout) if not c["known"]}
    rounds = 50 if arguments.soak else 4
    for size in (4, 8):
        path = env.folder / f"every-{size}.etl"
        said = json.loads(env.run([env.build / "tests" / "unit" / "every_class", "write", "--pointer-size", size, "--rounds", rounds,
                                   "--seed", 20 + size, path]).stdout)
        checks.that(len(said["classes"]) > 900, f"{size * 8} bit: {len(said['classes'])} classes and versions")
        checks.equal(said["records"], rounds * len(said["classes"]), f"{size * 8} bit: records")
        there = naive_etl.parse(path)
        checks.equal(there["events"], said["records"] + 1, f"{size * 8} bit: records that the independent parser sees")
        checks.equal(there["bad"], [], f"{size * 8} bit: bad records")
        checks.equal(there["ptr"], size, "pointer size")
        kernel, headers, wide = collections.Counter(), there["headers"], size == 8
        for (group, opcode, _), n in there["kernel"].items():
            kernel[group, opcode] += n
        checks.equal(sum(kernel.values()), headers[naive_etl.SYSTEM[wide]] + headers[naive_etl.PERFINFO[wide]], f"{size * 8} bit: kernel events")
        checks.equal(sum(there["providers"].values()), rounds * sum(not classic for _, _, _, classic in said["classes"]),
                     f"{size * 8} bit: manifest events")
        checks.equal(sum(kernel.values()) - 1 + headers[naive_etl.FULL[wide]], rounds * sum(classic for _, _, _, classic in said["classes"]),
                     f"{size * 8} bit: classic events")
        for name, n in kernel.items():
            checks.equal((n - (name == (0, 0))) % rounds, 0, f"{size * 8} bit: {name}: {n} records in {rounds} rounds")
        stats = json.loads(env.run([env.agent, "stats", "--json", path]).stdout)
        wanted = collections.Counter({(p, code, version): rounds for p, code, version, _ in said["classes"]})
        wanted[("68fdd900-4a3e-11d1-84f4-0000f80464e3", 0, 2)] += 1
        got = collections.Counter()
        for c in stats["classes"]:
            got[(c["provider"], c.get("opcode", c.get("id")), c["version"])] += c["count"]
            checks.equal(c["partial"], 0, f"{size * 8} bit: {c['name']} version {c['version']} decoded in part")
            if c["unknown"]:
                checks.that(c["name"] in without_layout, f"{size * 8} bit: {c['name']} has no layout")
        checks.that(got == wanted, f"{size * 8} bit: counts differ: {list((got - wanted).items())[:3]} {list((wanted - got).items())[:3]}")
        print(f"{size * 8} bit: {said['records']} records of {len(said['classes'])} classes and versions, {said['values']} values agree")


if __name__ == "__main__":
    harness.main(test, __doc__)
