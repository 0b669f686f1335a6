"""`etwagent relog --split`: parts of a length of time are the cuts of these times, record for record; parts of a size have all events once,
by time, and about that size before compression. The parts, merged again, are the trace. A run that fails leaves no part.
"""
import collections
import json
import shutil
import struct

import harness
import naive_etl

STEP_MS, PARTS = 100, 4
SIZE, SLACK = 1 << 18, 1 << 17  # a buffer of each processor is not full


def raw(env, path):
    lines = env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()
    return collections.Counter(line for line in lines if '"name":"EventTrace/Header"' not in line)


def relog(env, path, out, *words):
    return json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", *words]).stdout)


def dumped(env, path):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", path]).stdout.splitlines()]


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("part"))


def check_times(env, checks, path):
    out, cut = env.folder / "part.etl", env.folder / "cut.etl"
    said = relog(env, path, out, "--split", f"{STEP_MS}ms")
    files = [env.folder / f"part.{i + 1:03}.etl" for i in range(len(said["parts"]))]
    checks.that(len(files) >= PARTS, f"parts: {said}")
    checks.equal(names(env.folder), [file.name for file in files], "the parts' names")
    checks.equal([str(file) for file in files], [part["output"] for part in said["parts"]], "names in the summary")
    checks.equal([part["bytes"] for part in said["parts"]], [file.stat().st_size for file in files], "bytes in the summary")
    checks.equal((said["written"], said["bytes"]), (sum(part["written"] for part in said["parts"]), sum(part["bytes"] for part in said["parts"])), "sums")
    checks.equal(said["written"], said["read"] - said["dropped"] + said["added"], "the summary")
    for i, file in enumerate(files):
        words = (["--from", f"start+{i * STEP_MS}ms"] if i else []) + (["--to", f"start+{(i + 1) * STEP_MS}ms"] if i + 1 < len(files) else [])
        relog(env, path, cut, *words)
        a, b = raw(env, file), raw(env, cut)
        checks.that(a and a == b, f"part {i + 1}: {sum((b - a).values())} of {sum(b.values())} records are missing, {sum((a - b).values())} are others")
    for file in files:
        file.unlink()
    # without what cuts add they are the trace
    said = relog(env, path, out, "--bare", "--split", f"{STEP_MS}ms")
    files = [env.folder / name for name in names(env.folder)]
    checks.equal((said["written"], said["dropped"], said["added"]), (said["read"], 0, 0), "--bare: the summary")
    merged = env.folder / "merged.etl"
    env.run([env.agent, "relog", *files, "-o", merged])
    checks.that(raw(env, merged) == raw(env, path), "--bare: the parts, merged again")
    # the number comes before the end of the name itself, after either system's last separator
    for name, first in (("part\\d.ot\\part", "part\\d.ot\\part.001"), ("part.x/part", "part.x/part.001"), ("part.x/.part", "part.x/.part.001"), ("part.x/part.etl.y", "part.x/part.etl.001.y")):
        (env.folder / "part.x").mkdir(exist_ok=True)
        said = relog(env, path, env.folder / name, "--bare", "--split", "1s")
        checks.equal([part["output"] for part in said["parts"]], [str(env.folder / first)], f"parts of {name}")
    shutil.rmtree(env.folder / "part.x")
    text = env.run([env.agent, "relog", path, "-o", out, "--bare", "--split", "1s"]).stdout
    checks.that("part.001.etl: " in text and " dropped" in text, f"the summary as text: {text}")
    for name in names(env.folder):
        (env.folder / name).unlink()


def check_sizes(env, checks, path):
    out = env.folder / "part.etl"
    said = relog(env, path, out, "--bare", "--compression", "none", "--buffer-size", "4KiB", "--split", "256KiB")
    files = [env.folder / name for name in names(env.folder)]
    whole = path.stat().st_size
    checks.that(len(files) > 2 and len(files) == len(said["parts"]), f"parts of {whole} bytes: {said['parts']}")
    for file in files:
        checks.that(file.stat().st_size <= SIZE + SLACK, f"{file.name} has {file.stat().st_size} bytes")
    parsed = [naive_etl.parse(file) for file in files]
    checks.equal(sum(p["events"] - 1 for p in parsed), said["read"], "events, by a naive reader")
    merged = env.folder / "merged.etl"
    env.run([env.agent, "relog", *files, "-o", merged])
    checks.that(raw(env, merged) == raw(env, path), "records of all parts")


def check_without_end(env, checks, path):
    """A session that was not stopped: the last event is the end, not the present. An end far in the future changes nothing."""
    end = naive_etl.parse(path)["end"]
    data, parts = bytearray(path.read_bytes()), {}
    where = data.index(struct.pack("<Q", end), 0, 512)
    for name, value in (("stopped", end), ("open", 0)):
        data[where:where + 8] = struct.pack("<Q", value)
        other = env.folder / f"{name}.etl"
        other.write_bytes(data)
        said = relog(env, other, env.folder / f"of-{name}.etl", "--bare", "--split", f"{STEP_MS}ms")
        parts[name] = [part["written"] for part in said["parts"]]
        checks.equal((said["written"], said["dropped"]), (said["read"], 0), f"{name}: the summary")
    # the session ended some time after its last event
    checks.equal([n for n in parts["open"] if n], [n for n in parts["stopped"] if n], "events of the parts")
    checks.that(2 < len(parts["open"]) <= len(parts["stopped"]), f"parts: {parts}")
    # as a time, too: the moment after the last event
    out, events = env.folder / "to-end.etl", [event for event in dumped(env, other) if event["name"] != "EventTrace/Header"]
    after = max(event["clock"] for event in events) + 1
    begin = after - naive_etl.parse(path)["perf_freq"] // 20
    for words, wanted in ((["--to", "end"], len(events)), (["--from", "end-50ms"], sum(event["clock"] >= begin for event in events))):
        said = relog(env, other, out, "--bare", *words)
        checks.equal((said["written"], 0 < wanted), (wanted, True), f"{words} of a session that was not stopped")
    lines = env.folder / "own.jsonl"
    lines.write_text('{"time": "end", "provider": "Test-Own", "name": "Listed"}\n', encoding="utf-8")
    relog(env, other, out, "--mark", "end=here", "--events", lines)
    checks.equal([(event["name"], event["clock"]) for event in dumped(env, out) if event["clock"] >= after], [("Listed", after), ("Mark", after)], "events at the end")
    pid = next(event["fields"]["ProcessId"] for event in reversed(events) if event["name"] == "Process/DCEnd")
    checks.that(relog(env, other, out, "--bare", "--process", f"{pid}@end-1us")["written"], "a process at the end")


def test(env, checks, arguments):
    tracegen = env.build / "tests" / "tracegen" / "tracegen"
    path = env.folder / "office.etl"
    env.run([tracegen, "make", "--preset", "office", "--seed", "26", "--duration-ms", STEP_MS * PARTS - 50, "--out", path])
    check_times(env, checks, path)
    check_sizes(env, checks, path)
    check_without_end(env, checks, path)
    before = names(env.folder)
    coarse = env.folder / "coarse.etl"  # a clock of one tick a second: many parts would begin at one tick
    data = bytearray(path.read_bytes())
    where = data.index(struct.pack("<Q", naive_etl.parse(path)["perf_freq"]), 0, 512)
    data[where:where + 8] = struct.pack("<Q", 1)
    coarse.write_bytes(data)
    done = env.run([env.agent, "relog", coarse, "-o", env.folder / "none.etl", "--split", "1ns"], check=False, timeout=20)
    checks.equal((done.returncode, "100 parts" in done.stderr), (1, True), f"a coarse clock: {done.stderr}")
    for words, code in ((["--split", "never"], 2), (["--split", "0"], 2), (["--split", "1B"], 2), (["--split", "1ms", "--where", "pid == 4"], 1),
                        (["--split", "1MiB", "--where", "pid == 4"], 2), (["--split", "100ms", "--set", "Process/DCStart: SessionId = 0x100000000"], 1)):
        done = env.run([env.agent, "relog", path, "-o", env.folder / "none.etl", *words], check=False)
        checks.equal((done.returncode, bool(done.stderr)), (code, True), f"{words}: exit code, a message: {done.stderr}")
    checks.equal(([path.name for path in env.folder.glob("none*")], names(env.folder)), ([], before), "outputs of runs that failed")


if __name__ == "__main__":
    harness.main(test, __doc__)
