"""Bit for bit: for every real trace, what `dump --raw` prints of the files equals what `export --raw` prints of the store
after agent -> TLS -> collector -> store, line by line.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Records 1: A stored record is the record that Windows logged, bit for bit: header, extended items and payload, known or unknown. | all
#   records of each trace compared | 2026-11-21
import hashlib
import subprocess

import harness
import traces

# Under a sanitizer, and in the short form, the two largest are left to the plain build.
SMALL = {"amsi-eventslost", "clr-32bit", "clr-gc-events", "http-server-win7", "lxcore-tracelogging", "shutdown-win10",
         "small-32bit-xpress", "tracelogging-primitive-types", "tracelogging-struct", "kernel-process-provider"}


def digest(command):
    """Number of lines a command prints, their common hash, and the first line."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    sha, lines, first = hashlib.sha256(), 0, b""
    for line in process.stdout:
        first = first or line
        sha.update(line)
        lines += 1
    errors = process.stderr.read().decode(errors="replace")
    process.stdout.close()
    process.stderr.close()
    if process.wait() != 0:
        raise harness.Failure(f"{' '.join(map(str, command))}\nended with {process.returncode}: {errors[-2000:]}")
    return lines, sha.hexdigest(), first


def test(env, checks, arguments):
    sanitized = "san" in env.build.name
    env.make_certificates(agents=[f"machine-{name}" for name in traces.names()])
    collector = env.new_collector().start()
    for name in traces.names():
        if sanitized and name not in SMALL:
            continue
        paths = traces.paths(name, env.build)
        dumped = digest([env.agent, "dump", "--format", "jsonl", "--raw", *paths])
        env.replay(paths, collector, agent=f"machine-{name}", spool=env.folder / f"spool-{name}")
        exported = digest([env.collector, "export", "--store", collector.store, "--host", f"machine-{name}",
                           "--format", "jsonl", "--raw", "--verify"])
        checks.that(dumped[0] > 0, f"{name}: dump printed nothing")
        checks.that(dumped == exported, f"{name}: dump and export differ: {dumped[:2]} and {exported[:2]}")
        expected = traces.event_count(name)
        checks.equal(exported[0], expected, f"{name}: number of events in the store against the independent parser's")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
