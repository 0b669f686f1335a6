"""`etwagent relog` on every trace: each record comes back equal and in order, with every compression; a naive reader counts the same and
finds the buffers in the form of merged files. Several files become one. A run that is killed at any moment leaves the old output or the
complete new one. The installed library builds the example program of its header, static and shared.

# sanitizers: asan-ubsan
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import uuid

import harness
import naive_etl
import traces

COUNTS = ("cpus", "ptr", "events_lost", "buffers_lost", "perf_freq", "clock", "start", "end", "names", "headers", "ext", "kernel", "classic",
          "providers", "manifests", "tl_items", "channel11", "evflags", "pmc", "pebs", "messages")
COMPRESSIONS = {"none": 0, "lznt1": 2, "xpress": 3, "xpress-huffman": 4}


def digest(env, *paths):
    """Of the records of traces in canonical order, bit for bit, without header events."""
    done = subprocess.Popen([env.agent, "dump", "--format", "raw", *paths], stdout=subprocess.PIPE, text=True)
    said, n = hashlib.sha256(), 0
    for line in done.stdout:
        if '"name":"EventTrace/Header"' not in line:
            said.update(line.encode())
            n += 1
    if done.wait():
        raise harness.Failure(f"dump ended with {done.returncode}")
    return said.hexdigest(), n


def relog(env, *words):
    return json.loads(env.run([env.agent, "relog", *words, "--json"]).stdout)


def check_form(checks, path, name):
    """Buffers as Microsoft's relogger writes them: the header's own, FILETIME of flushes, valid lengths, the marked last buffer."""
    data, at, headers = path.read_bytes(), 0, []
    while at < len(data):
        headers.append(naive_etl.BUFFER_HEADER.unpack_from(data, at))
        at += headers[-1][0]
    first, rest = headers[0], headers[1:]
    # size, saved, current, references, time, sequence, clock, client, state, offset, flags, type
    checks.equal((first[2], first[4], first[10], first[11]), (0, 0, 1, 4), f"{name}: the first buffer's current offset, time, flags and type")
    checks.that(first[1] <= first[9], f"{name}: the header event ends at {first[1]}, the records at {first[9]}")
    year_1990, year_2200 = 122726448000000000, 188996544000000000
    checks.that(all(h[1] == h[9] and h[8] == 3 and h[11] == 0 and year_1990 < h[4] < year_2200 for h in rest), f"{name}: the other buffers")
    checks.equal([i for i, h in enumerate(rest) if h[10] & 1], [len(rest) - 1] if rest else [], f"{name}: buffers marked as the last")
    checks.equal(len({h[5] for h in headers}), len(headers), f"{name}: numbers of buffers")


def check_identity(env, checks, path, name, kind):
    out = env.folder / "out.etl"
    said = relog(env, path, "-o", out, *(["--compression", kind] if kind else []))
    checks.equal(digest(env, out), digest(env, path), f"{name}: records in order")
    check_form(checks, out, name)
    if kind is None and name.startswith(("tracelogging-win11", "clr-kernel", "clr-32bit")) and traces.real_folder():
        check_form(checks, path, f"{name} as Microsoft's relogger wrote it")
    if path.stat().st_size > 2 << 20:  # the naive reader is slow
        return
    before, after = naive_etl.parse(path), naive_etl.parse(out)
    checks.equal((after["warnings"], after["bad"]), ([], []), f"{name}: what the naive reader warns of")
    for key in COUNTS:
        checks.equal(after[key], before[key], f"{name}: {key}, by a naive reader")
    checks.equal((said["headers"], said["read"] + 1, said["written"] + 1, said["dropped"], said["added"]),
                 (1, before["events"], after["events"], 0, 0), f"{name}: the summary's counts")
    checks.equal((said["bytes"], after["buffers_written"]), (out.stat().st_size, after["buffers"]), f"{name}: bytes and buffers of the output")
    if kind:
        checks.equal((after["compression"], bool(int(after["mode"], 16) & 0x04000000)), (COMPRESSIONS[kind], kind != "none"), f"{name}: compression")


def check_several(env, checks):
    """Several files of one trace become one; records of their sessions get the number 0, as in merged files."""
    for name in traces.names():
        paths = traces.paths(name, env.build)
        if len(paths) < 2:
            continue
        out = env.folder / "merged.etl"
        said = relog(env, *paths, "-o", out)
        events = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", out]).stdout.splitlines()]
        events = [e for e in events if e["name"] != "EventTrace/Header"]
        ours = [(e["clock"], e["cpu"], e["payload"]) for e in events]
        theirs = [(e["clock"], e["cpu"], e["payload"]) for e in map(json.loads, env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines())
                  if e["name"] != "EventTrace/Header"]
        checks.equal((said["inputs"], said["headers"], said["read"]), (len(paths), len(paths), said["written"]), f"{name}: the summary")
        checks.equal(len(ours), said["written"], f"{name}: events of the merged file")
        # of one time and different files: the merged file has them by processor
        checks.that([e[0] for e in ours] == [e[0] for e in theirs] and sorted(ours) == sorted(theirs), f"{name}: the merged file has the same events")
        for cpu in {e[1] for e in ours}:
            checks.that([e for e in ours if e[1] == cpu] == [e for e in theirs if e[1] == cpu], f"{name}: order of the events of processor {cpu}")
        parts = sum((naive_etl.parse(path)["events"] for path in paths))
        checks.equal(naive_etl.parse(out)["events"], parts - len(paths) + 1, f"{name}: events by the naive reader")
        for key in ("headers", "ext"):
            total = {}
            for path in paths:
                for k, n in naive_etl.parse(path)[key].items():
                    total[k] = total.get(k, 0) + n
            if key == "headers":  # of header events one is left
                system = [k for k in total if k in naive_etl.SYSTEM]
                total[system[-1]] -= len(paths) - 1
            checks.equal(naive_etl.parse(out)[key], total, f"{name}: {key} by the naive reader")


def check_killed(env, checks, path):
    """Killed after any time, the output's name has what it had before, or all of the new file."""
    out, partial = env.folder / "killed.etl", env.folder / "killed.etl.partial"
    begun = time.monotonic()
    env.run([env.agent, "relog", path, "-o", out])
    takes, whole = time.monotonic() - begun, out.read_bytes()
    seen = set()
    for turn in range(12):
        out.write_bytes(b"before")
        process = subprocess.Popen([env.agent, "relog", path, "-o", out], stdout=subprocess.DEVNULL)
        time.sleep(takes * turn / 10)
        process.kill()
        process.wait()
        now = out.read_bytes()
        seen.add("before" if now == b"before" else "after" if now == whole else "half")
    checks.that(seen <= {"before", "after"} and "before" in seen, f"what a killed run leaves: {seen}")
    env.run([env.agent, "relog", path, "-o", out])  # what it left does not disturb the next run
    checks.equal((out.read_bytes() == whole, partial.exists()), (True, False), "the run after the killed ones")
    # a full disk, and inputs that are none
    done = env.run([env.agent, "relog", path, "-o", "/dev/full/x.etl"], check=False)
    checks.that(done.returncode == 1 and "x.etl" in done.stderr, f"an output that cannot be made: {done.returncode} {done.stderr}")
    text = env.folder / "text.etl"
    text.write_text("no trace\n" * 100)
    done = env.run([env.agent, "relog", text, "-o", env.folder / "none.etl"], check=False)
    checks.equal((done.returncode, (env.folder / "none.etl").exists()), (3, False), "an input that is no trace")
    done = env.run([env.agent, "relog", out, "-o", out], check=False)
    checks.equal((done.returncode, out.read_bytes() == whole), (1, True), "an output that is the input")


def check_library(env, checks, path):
    """cmake --install --component relog; the example, by pkg-config, against the shared library and against the archive."""
    sanitizers = re.search(r"^EA_SANITIZE:\w+=(.*)$", (env.build / "CMakeCache.txt").read_text(), re.M)
    if not shutil.which("pkg-config") or (sanitizers and sanitizers[1]):
        return  # the library of a sanitized build needs the sanitizers' runtimes
    root = env.folder / "sdk"
    env.run(["cmake", "--install", env.build, "--prefix", root, "--component", "relog"])
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() or p.is_symlink())
    checks.that("include/etwagent/relog.h" in files and any(f.endswith("libea_relog.a") for f in files), f"installed: {files}")
    pc = next(root.rglob("ea_relog.pc")).parent
    flags = {mode: subprocess.run(["pkg-config", *words, "--cflags", "--libs", "ea_relog"], check=True, text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "PKG_CONFIG_PATH": str(pc)}).stdout.split()
             for mode, words in (("shared", []), ("static", ["--static"]))}
    library = pc.parent
    flags["static"] = [word if word != "-lea_relog" else "-l:libea_relog.a" for word in flags["static"]]
    seen = naive_etl.parse(path)
    provider = max(seen["providers"], key=seen["providers"].get)
    there = {k: n for k, n in seen["providers"].items() if k != provider}
    names = [n.lower() for n in subprocess.run(["nm", "-D", "--defined-only", next(library.glob("libea_relog.so"))], check=True, text=True,
                                               stdout=subprocess.PIPE).stdout.split() if n.startswith("e")]
    checks.that(names and all(n.startswith("ea_relog_") for n in names), f"what the shared library exports: {names}")
    for mode, words in flags.items():
        program, out = env.folder / f"copy-{mode}", env.folder / f"copy-{mode}.etl"
        env.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", harness.ROOT / "tests/plugins/relog_copy.c", "-o", program, *words])
        fresh = "0102030405060708090a0b0c0d0e0f10"
        guid = uuid.UUID(provider).bytes_le
        done = env.run([program, path, out, guid.hex(), fresh], env={**os.environ, "LD_LIBRARY_PATH": str(library)})
        after = naive_etl.parse(out)
        checks.equal(int(done.stdout.split()[0]), seen["providers"][provider], f"{mode}: events that the example changed")
        checks.equal({k: n for k, n in after["providers"].items() if k in there}, there, f"{mode}: the other providers")
        checks.equal((provider in after["providers"], sum(after["providers"].values()), after["events"]),
                     (False, sum(seen["providers"].values()), seen["events"]), f"{mode}: what the example wrote")
        check_fields(env, checks, mode, words, library)


def check_fields(env, checks, mode, words, library):
    """The example that sets a field by name: a text that grows, and all else as it was."""
    path, program, out, text = env.folder / "fields.etl", env.folder / f"fields-{mode}", env.folder / f"fields-{mode}.etl", "größer als zuvor " * 20
    if not path.exists():
        env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--duration-ms", "200", "--out", path])
    env.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", harness.ROOT / "tests/plugins/relog_fields.c", "-o", program, *words])
    done = env.run([program, path, out, "Process/DCStart", "CommandLine", text], env={**os.environ, "LD_LIBRARY_PATH": str(library)})
    before, after = ([json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", p]).stdout.splitlines()][1:] for p in (path, out))
    lines = [event["fields"]["CommandLine"] for event in before if event["name"] == "Process/DCStart"]
    checks.that(len(lines) > 5, f"{mode}: processes")
    checks.equal(done.stdout.splitlines(), lines, f"{mode}: what the fields were")
    for event in before:
        if event["name"] == "Process/DCStart":
            event["fields"]["CommandLine"] = text
    checks.that(before == after, f"{mode}: a set field: {next(((b, a) for b, a in zip(before, after) if b != a), '')}")


def test(env, checks, arguments):
    kinds = [None, *COMPRESSIONS]
    turn = 0
    for name in traces.names():
        for path in traces.paths(name, env.build):
            check_identity(env, checks, path, f"{name}/{path.name}", kinds[turn % len(kinds)])
            turn += 1
    check_several(env, checks)
    check_killed(env, checks, traces.paths("shutdown-win10", env.build)[0])
    with_providers = [path for name in traces.among(["kernel-process-provider", "clr-32bit", "tracelogging-win11-20cpu"])
                      for path in traces.paths(name, env.build) if naive_etl.parse(path)["providers"]]
    check_library(env, checks, with_providers[0])


if __name__ == "__main__":
    harness.main(test, __doc__)
