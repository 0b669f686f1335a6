"""Many files and many CPUs: 64 files of 1,000 CPUs merged into one, in canonical order whatever the memory, within the memory
that the reader was given.
"""
import json

import harness

FILES, CPUS, MIB = 64, 1000, 1 << 20
OTHERWISE = 24 * MIB   # the process itself, the lists of a thousand CPUs and the index


def read(env, paths, memory=None):
    options = ["--memory", memory] if memory else []
    return json.loads(env.run([env.build / "tests" / "e2e" / "scale_etl", "read", *options, *paths]).stdout)


def test(env, checks, arguments):
    paths = []
    for i in range(FILES):
        paths.append(env.folder / f"file-{i:02}.etl")
        env.run([env.build / "tests" / "e2e" / "scale_etl", "write", "--cpus", CPUS, "--records", 3 * CPUS, "--buffer", "1KiB",
                 "--seed", i + 1, paths[-1]])
    expected = FILES * (3 * CPUS + 1)
    free = read(env, paths)
    checks.equal(free["records"], expected, "records of the merge")
    for memory, mib in (("32MiB", 32), ("8MiB", 8)):
        bound = read(env, paths, memory)
        checks.equal((bound["records"], bound["hash"]), (free["records"], free["hash"]), f"what came out with {memory}")
        checks.that(bound["peak_bytes"] <= mib * MIB + OTHERWISE,
                    f"with {memory} of decoded buffers the process took {bound['peak_bytes'] / MIB:.1f} MiB")
        print(f"{memory}: {bound['peak_bytes'] / MIB:.1f} MiB at the most")
    print(f"without a bound of its own: {free['peak_bytes'] / MIB:.1f} MiB at the most")
    checks.that(free["peak_bytes"] <= 256 * MIB + OTHERWISE, f"without a bound of its own the process took {free['peak_bytes'] / MIB:.1f} MiB")
    stats = json.loads(env.run([env.agent, "stats", "--json", *paths]).stdout)
    checks.equal((stats["events"], stats["bad_bytes"], len(stats["files"])), (expected, 0, FILES), "stats of the merge")
    # the order itself, of a part of them: by time, then file, then CPU
    lines = env.run([env.agent, "dump", "--format", "csv", "--fields", "time,cpu,tid", *paths[:4]]).stdout.splitlines()[1:]
    times = [line.split(",")[0] for line in lines]
    checks.equal(len(times), 4 * (3 * CPUS + 1), "lines of four files")
    checks.that(times == sorted(times), "the lines are not in the order of time")


if __name__ == "__main__":
    harness.main(test, __doc__)
