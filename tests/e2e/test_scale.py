"""Many files and many CPUs: 64 files of 1,000 CPUs merged into one, in canonical order whatever the memory, within the memory
that the reader was given. Large files: a trace of 20 GB, most of it a hole, through stats and replay in under 200 MiB.
"""
import json
import os
import subprocess

import harness

FILES, CPUS, MIB = 64, 1000, 1 << 20
RECORDS = 1000000      # of a large file
LARGE_MEMORY = 200 * MIB
OTHERWISE = 24 * MIB   # the process itself, the lists of a thousand CPUs and the index


def read(env, paths, memory=None):
    options = ["--memory", memory] if memory else []
    return json.loads(env.run([env.build / "tests" / "e2e" / "scale_etl", "read", *options, *paths]).stdout)


SPARSE_BYTES = 20 * 10 ** 9 // (64 << 10) * (64 << 10)


def peak_bytes(env, command):
    """Runs a program to its end: the most memory that it had, and what it printed."""
    out, errors = env.folder / "output", env.folder / "errors"
    with open(out, "wb") as output, open(errors, "wb") as said:
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=output, stderr=said)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    text = out.read_text(errors="replace")
    if process.returncode:
        raise harness.Failure(f"{' '.join(map(str, command))}\nended with {process.returncode}: {errors.read_text()[-3000:]}")
    return usage.ru_maxrss * 1024, text


def make_sparse(env, name, compressed):
    """A trace cut in two, 20 GB apart: the bytes of the hole, and the path."""
    whole, sparse = env.folder / f"{name}-whole.etl", env.folder / f"{name}.etl"
    env.run([env.build / "tests" / "e2e" / "scale_etl", "write", "--cpus", 8, "--records", RECORDS, "--buffer", "64KiB", "--seed", 9,
             *(["--compressed"] if compressed else []), whole])
    length = whole.stat().st_size
    cut = length // 2 // (64 << 10) * (64 << 10)
    # piece by piece: a child's peak begins with what this process has
    with open(whole, "rb") as data, open(sparse, "wb") as out:
        if compressed:  # where a buffer ends
            half, cut = cut, 0
            while cut < half:
                data.seek(cut)
                cut += int.from_bytes(data.read(4), "little")
            data.seek(0)
        for at, end, to in ((0, cut, 0), (cut, length, SPARSE_BYTES - (length - cut))):
            out.seek(to)
            while at < end:
                at += out.write(data.read(min(1 << 20, end - at)))
    whole.unlink()
    return SPARSE_BYTES - length, sparse


def large_files(env, checks):
    env.make_certificates()
    collector = env.new_collector().start()
    for name, compressed in (("sparse", False), ("sparse-compressed", True)):
        hole, path = make_sparse(env, name, compressed)
        if path.stat().st_blocks * 512 > 1 << 30:
            raise harness.Failure(f"{path}: this file system keeps no holes; set TMPDIR to one that does")
        peak, text = peak_bytes(env, [env.agent, "stats", "--json", path])
        stats = json.loads(text)
        checks.equal((stats["events"], stats["bad_bytes"]), (RECORDS + 1, hole), f"{name}: events and skipped bytes")
        checks.that(peak < LARGE_MEMORY, f"{name}: stats took {peak / MIB:.1f} MiB")
        replay_peak, _ = peak_bytes(env, env.replay_command([path], collector, spool=env.folder / f"{name}-spool"))
        checks.that(replay_peak < LARGE_MEMORY, f"{name}: replay took {replay_peak / MIB:.1f} MiB")
        print(f"{name}: 20 GB with stats in {peak / MIB:.1f} MiB, with replay in {replay_peak / MIB:.1f} MiB at the most")
        path.unlink()
    checks.equal(sum(stream["events"] for stream in collector.ask_json("hosts")["streams"]), 2 * (RECORDS + 1), "events in the store")
    collector.stop()


def test(env, checks, arguments):
    large_files(env, checks)
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
