"""The most memory that `etwagent relog` takes does not grow with the file: a trace four times as large takes as much, and less than 64 MiB, but for
24 bytes of the index for each buffer of the trace. The same with a limit of the kernel, under which a trace that is larger than the limit is copied.
"""
import os
import resource

import harness

LIMIT_MIB, INDEX_BYTES, BUFFER_BYTES = 64, 48, 64 << 10  # the index grows by doubling; a buffer has so many bytes at the least
SHORT_MS, TIMES = 80, 4


def peak(command, limit_bytes=None):
    """Runs a command; the most memory that it had, in bytes."""
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        os.execv(command[0], list(map(str, command)))
    _, status, used = os.wait4(pid, 0)
    return status, used.ru_maxrss * 1024


def test(env, checks, arguments):
    tracegen, out = env.build / "tests" / "tracegen" / "tracegen", env.folder / "out.etl"
    peaks, sizes = [], []
    for milliseconds in (SHORT_MS, SHORT_MS * TIMES):
        path = env.folder / f"{milliseconds}.etl"
        env.run([tracegen, "make", "--preset", "firehose", "--seed", "26", "--duration-ms", milliseconds, "--out", path])
        status, used = peak([env.agent, "relog", path, "-o", out])
        checks.equal(status, 0, f"relog of {milliseconds} ms")
        sizes.append(path.stat().st_size)
        peaks.append(used)
    size = sizes[1]
    checks.that(size > 2 * (LIMIT_MIB << 20), f"the large trace has {size >> 20} MiB")
    checks.that(peaks[1] <= LIMIT_MIB << 20, f"{size >> 20} MiB take {peaks[1] >> 20} MiB of memory")
    grown, allowed = peaks[1] - peaks[0], INDEX_BYTES * (sizes[1] - sizes[0]) // BUFFER_BYTES + (2 << 20)
    checks.that(grown <= allowed, f"a trace {TIMES} times as large takes {grown} bytes more, expected {allowed} at the most")
    out.unlink()
    # all of its address space, libraries and stacks included
    status, _ = peak([env.agent, "relog", path, "-o", out], (LIMIT_MIB + 64) << 20)
    checks.equal((status, out.exists()), (0, True), f"relog of {size >> 20} MiB with {LIMIT_MIB + 64} MiB of address space")


if __name__ == "__main__":
    harness.main(test, __doc__)
