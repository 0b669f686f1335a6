"""Damaged traces, on real ones: zero-filled buffers, every NUL made a space, swapped and repeated buffers, random bytes. Every
record of a buffer that was not touched comes out. `stats` says where the damage is, as text and as JSON; `dump --strict` ends at
the first place; an empty file and a file that is no trace get one line and a non-zero exit. With --soak also 100 runs of 200
random bytes a trace, of which nearly all records have to come out bit for bit.

# sanitizers: asan-ubsan
"""
import collections
import json
import random
import struct

import harness
import traces

TRACES = ("kernel-process-provider", "clr-32bit", "shutdown-win10")   # buffers of 8 and 64 KiB, and compressed ones
SOAK = {"shutdown-win10": 950, "tracelogging-win11-20cpu": 950, "clr-kernel-win8-x64": 900}   # permille that have to come out


def buffers(data):
    """(offset, size) of each buffer; the first one holds the header event."""
    found, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        found.append((at, min(size, len(data) - at)))
        at += size
    return found


def identity(line):
    """A raw line without what decoding adds: a damaged manifest takes the names from events that are whole."""
    names, ids = line.index(',"provider_name":'), line.index(',"id":')
    return line[:names] + line[ids:line.index(',"fields":')] + line[line.rindex(',"flags":'):]


class Bench:
    def __init__(self, env, checks, name):
        self.env, self.checks, self.name = env, checks, name
        self.data = traces.paths(name, env.build)[0].read_bytes()
        self.buffers = buffers(self.data)
        self.path = env.folder / f"{name}.etl"

    def dump(self, data):
        self.path.write_bytes(data)
        return [identity(line) for line in self.env.run([self.env.agent, "dump", "--format", "raw", self.path]).stdout.splitlines()]

    def without(self, numbers):
        """What a file gives that these buffers were never in."""
        gone = set(numbers)
        return self.dump(b"".join(self.data[at:at + size] for i, (at, size) in enumerate(self.buffers) if i not in gone))

    def bent(self, number, change):
        at, size = self.buffers[number]
        new = change(self.data[at:at + size])
        return self.data[:at] + new + self.data[at + size:]

    def all_in(self, expected, got, what):
        missing = collections.Counter(expected) - collections.Counter(got)
        self.checks.that(not missing, f"{self.name}, {what}: {sum(missing.values())} records of untouched buffers are missing")

    def stats(self, data):
        self.path.write_bytes(data)
        return json.loads(self.env.run([self.env.agent, "stats", "--json", self.path]).stdout)


def whole_buffers(bench, rng):
    checks, name, last = bench.checks, bench.name, len(bench.buffers) - 1
    straight = bench.dump(bench.data)
    checks.equal(len(straight), traces.event_count(name), f"{name}: records of the undamaged file")
    checks.equal(bench.stats(bench.data)["damage"], {"places": 0, "bytes": 0, "incomplete": False, "reasons": [], "files": [], "first": []},
                 f"{name}: damage of the undamaged file")
    for number in rng.sample(range(1, last), 3):
        at, size = bench.buffers[number]
        rest = bench.without([number])
        checks.that(len(rest) < len(straight), f"{name}: buffer {number} has no records")

        zeroed = bench.bent(number, lambda b: bytes(len(b)))
        checks.that(bench.dump(zeroed) == rest, f"{name}: with buffer {number} zeroed something else comes out than without it")
        damage = bench.stats(zeroed)["damage"]
        checks.that(damage["places"] >= 1 and damage["first"][0]["offset"] == at and size - 72 <= damage["bytes"] <= size
                    and sum(damage["files"][0]["marks"]) == damage["places"] and damage["files"][0]["path"] == str(bench.path)
                    and damage["files"][0]["marks"][at // damage["files"][0]["mark_bytes"]] >= 1,
                    f"{name}: buffer {number} at {at} zeroed, stats says {damage}")

        spaced = bench.bent(number, lambda b: b.replace(b"\0", b" "))
        bench.all_in(rest, bench.dump(spaced), f"NULs of buffer {number} made spaces")
        checks.that(bench.stats(spaced)["damage"]["places"] >= 1, f"{name}: NULs made spaces in buffer {number} and no damage is reported")

        half = bench.bent(number, lambda b: b[:len(b) // 2] + bytes(len(b) - len(b) // 2))
        bench.all_in(rest, bench.dump(half), f"half of buffer {number} zeroed")

    first, second = sorted(rng.sample(range(1, last), 2))
    pieces = [bench.data[at:at + size] for at, size in bench.buffers]
    pieces[first], pieces[second] = pieces[second], pieces[first]
    swapped = b"".join(pieces)
    checks.that(bench.dump(swapped) == straight, f"{name}: buffers {first} and {second} swapped change what comes out")
    checks.equal(bench.stats(swapped)["damage"]["places"], 0, f"{name}: damage of swapped buffers")
    pieces = [bench.data[at:at + size] for at, size in bench.buffers]
    pieces[second] = pieces[first]
    rest = bench.without([second])
    repeated = bench.dump(b"".join(pieces))
    checks.equal(set(repeated), set(rest), f"{name}: buffer {first} repeated in the place of {second}")
    checks.equal(len(repeated) - len(rest), len(straight) - len(bench.without([first])), f"{name}: records of the repeated buffer")


def flips(bench, rng, runs):
    for run in range(runs):
        bent, touched = bytearray(bench.data), set()
        for _ in range(20):
            at = rng.randrange(bench.buffers[1][0], len(bent))
            bent[at] ^= 1 + rng.randrange(255)
            touched.add(max(i for i, (start, _) in enumerate(bench.buffers) if start <= at))
        expected = bench.without(touched)
        got = bench.dump(bytes(bent))
        bench.all_in(expected, got, f"20 random bytes, run {run}")
        bench.checks.that(len(got) <= traces.event_count(bench.name) * 1.001 + 2, f"{bench.name}: {len(got)} records came out of 20 random bytes")
        if run == 0:
            relogged(bench, got)


def relogged(bench, read):
    """relog of a damaged trace writes what a reader of it reads. Its output has no damage but inside of records: extended items that were
    not readable are in the record's payload, and stay as they are."""
    out, damaged = bench.env.folder / f"{bench.name}.relogged.etl", bench.path.read_bytes()
    said = json.loads(bench.env.run([bench.env.agent, "relog", "--json", "-o", out, bench.path]).stdout)
    bench.checks.equal((said["written"], said["dropped"], said["added"]), (said["read"], 0, 0), f"{bench.name}: what relog of a damaged trace counts")
    lines = bench.dump(out.read_bytes())
    bench.checks.equal(len(lines) - 1, said["written"], f"{bench.name}: records that relog of a damaged trace wrote")
    bench.checks.equal(len(lines), len(read), f"{bench.name}: records in the output of relog, beside those of the damaged trace")
    inside = [reason for reason in bench.stats(damaged)["damage"]["reasons"] if "extended items" in reason["reason"]]
    bench.checks.equal(bench.stats(out.read_bytes())["damage"]["reasons"], inside, f"{bench.name}: damage in the output of relog")


def strict(env, checks, bench):
    """dump --strict ends at the first damage, with one line that names it; without it the rest is printed."""
    number = len(bench.buffers) // 2
    bench.path.write_bytes(bench.bent(number, lambda b: b[:72] + bytes(192) + b[264:]))
    loose = env.run([env.agent, "dump", "--format", "raw", bench.path], check=False)
    tight = env.run([env.agent, "dump", "--strict", "--format", "raw", bench.path], check=False)
    checks.equal((loose.returncode, tight.returncode), (0, 3), f"{bench.name}: exit codes of dump without and with --strict")
    checks.that(tight.stderr.count("\n") == 1 and f"offset {bench.buffers[number][0]}" in tight.stderr and str(bench.path) in tight.stderr,
                f"{bench.name}: dump --strict says {tight.stderr}")
    printed, everything = tight.stdout.splitlines(), loose.stdout.splitlines()
    checks.that(0 < len(printed) < len(everything) and everything[:len(printed)] == printed,
                f"{bench.name}: dump --strict printed {len(printed)} of {len(everything)} records")
    whole = traces.paths(bench.name, env.build)[0]
    checks.equal(env.run([env.agent, "dump", "--strict", "--format", "raw", whole]).returncode, 0, f"{bench.name}: dump --strict of the undamaged file")
    checks.equal(env.run([env.agent, "stats", "--strict", bench.path], check=False).returncode, 3, f"{bench.name}: stats --strict")
    text = env.run([env.agent, "stats", bench.path]).stdout
    checks.that("damaged: " in text and "bytes skipped" in text and f"buffer at offset {bench.buffers[number][0]}" in text and "\n  [" in text,
                f"{bench.name}: stats as text has no damage map:\n{text[:1500]}")
    checks.that("damaged: " not in env.run([env.agent, "stats", whole]).stdout, f"{bench.name}: stats reports damage of the undamaged file")


def no_traces(env, checks):
    """A file that is not a trace gives one line on standard error and a non-zero exit code."""
    rng = random.Random(5)
    files = {"empty.etl": b"", "short.etl": b"\1" * 100, "zeros.etl": bytes(100000), "text.etl": b"this is no trace\n" * 5000,
             "noise.etl": rng.randbytes(100000)}
    for name, content in files.items():
        path = env.folder / name
        path.write_bytes(content)
        for command in (["stats"], ["stats", "--json"], ["dump"], ["dump", "--strict", "--format", "jsonl"], ["dump", "--follow"]):
            done = env.run([env.agent, *command, path], check=False)
            checks.that(done.returncode == 3 and done.stderr.count("\n") == 1 and str(path) in done.stderr and "expected" in done.stderr
                        and not done.stdout, f"{' '.join(command)} {name}: exit code {done.returncode}, {done.stderr!r}, {done.stdout[:200]!r}")
        checks.that("empty" in done.stderr or content, f"{name}: {done.stderr}")
    missing = env.run([env.agent, "stats", env.folder / "nowhere.etl"], check=False)
    checks.equal((missing.returncode, missing.stderr.count("\n")), (1, 1), f"a file that is not there: {missing.stderr}")


def soak(env, checks):
    for name, permille in SOAK.items():
        done = env.run([env.build / "tests" / "unit" / "damage_etl", traces.paths(name, env.build)[0], env.folder / "soak.etl", 100, 200, 7, permille],
                       check=False, timeout=7000)
        print(done.stdout.strip(), flush=True)
        checks.equal(done.returncode, 0, f"{name}: 100 runs of 200 random bytes: {done.stdout} {done.stderr[-1000:]}")


def test(env, checks, arguments):
    rng = random.Random(3)
    no_traces(env, checks)
    for name in TRACES:
        bench = Bench(env, checks, name)
        whole_buffers(bench, rng)
        flips(bench, rng, 20 if arguments.soak else 2)
        strict(env, checks, bench)
    if arguments.soak:
        soak(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
