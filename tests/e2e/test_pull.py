"""`etwcollector pull`: a time of a machine out of the store as one .etl. The stored records come back equal, counted by a naive reader,
also of two sessions that are merged again. Of tenths of generated traces events print as in the whole trace, names included, and have
the same call stacks; `ps` and `modules` answer as the history does. A condition and a limit choose events; a wrong question, another
start of the machine and a missing host leave no output.
"""
import collections
import contextlib
import json
import pathlib
import re
import subprocess

import harness
import image_rules
import naive_etl
import test_relog_cut as cut

PRESETS = (("office", 1500), ("build-server", 300))
TURNS = (1, 5, 8)
COUNTS = ("cpus", "ptr", "perf_freq", "clock", "start", "headers", "ext", "kernel", "classic", "providers", "manifests", "tl_items",
          "channel11", "evflags", "pmc", "pebs", "messages")
HISTORY_KEYS = ("pid", "ppid", "session", "name", "command_line", "sid", "unique_key", "directory_table_base", "package", "application")
MODULE_KEYS = ("base", "size", "path", "original_name", "pdb", "timestamp", "checksum", "default_base")


def pull(env, store, host, out, *words, check=True):
    done = env.run([env.collector, "pull", "--store", store, "--host", host, "-o", out, *words], check=check)
    return json.loads(done.stdout) if check and "--json" in words else done


def raw(env, path):
    return collections.Counter(line for line in env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()
                               if '"name":"EventTrace/Header"' not in line)


def check_whole(env, checks, store, host, path, what):
    out = env.folder / "whole.etl"
    said = pull(env, store, host, out, "--bare", "--compression", "none", "--json")
    wanted, got = raw(env, path), raw(env, out)
    checks.that(wanted and wanted == got, f"{what}: {sum((wanted - got).values())} of {sum(wanted.values())} records are missing, "
                f"{sum((got - wanted).values())} are others: {list(wanted - got)[:1]} {list(got - wanted)[:1]}")
    checks.equal((said["read"], said["written"], said["added"], said["dropped"]), (sum(wanted.values()), sum(wanted.values()), 0, 0),
                 f"{what}: the summary")
    checks.equal(said["bytes"], out.stat().st_size, f"{what}: bytes")
    before, after = naive_etl.parse(path), naive_etl.parse(out)
    checks.equal((after["warnings"], after["bad"]), ([], []), f"{what}: what the naive reader warns of")
    for key in COUNTS:
        checks.equal(after[key], before[key], f"{what}: {key}, by a naive reader")


def history(env, words, at, pids):
    """What the store, or a trace, says of a moment."""
    found = {"ps": sorted(json.dumps([p.get(key) for key in HISTORY_KEYS])
                          for p in json.loads(env.run([env.collector, "ps", "--json", "--at", at, *words]).stdout)["processes"])}
    for pid in pids:
        said = json.loads(env.run([env.collector, "modules", "--json", "--at", at, "--pid", pid, *words]).stdout)["modules"]
        found[f"modules of {pid}"] = sorted(json.dumps([m.get(key) for key in MODULE_KEYS]) for m in said)
    return found


def check_windows(env, checks, store, host, path, milliseconds, what):
    whole, with_stack = cut.lines(env, path), cut.stacks(env, path)
    start = next(item[0] for item in whole if item[2] == "EventTrace/Header")
    began = json.loads(next(item[3] for item in whole if item[2] == "EventTrace/Header"))["time"]
    loaded = collections.Counter(json.loads(line)["fields"]["ProcessId"] for _, _, name, line in whole if name == "Image/DCStart")
    pids = [0, max((pid for pid in loaded if pid), key=loaded.get)]
    step, out = milliseconds * cut.SECOND // 1000 // cut.TENTHS, env.folder / "window.etl"
    for turn in TURNS:
        begin, end = start + turn * step, start + (turn + 1) * step
        this = f"{what}, tenth {turn}"
        times = [after(began, ticks - start) for ticks in (begin, end, (begin + end) // 2)]
        said = pull(env, store, host, out, "--from", times[0], "--to", times[1], "--json")
        checks.equal(said["written"], said["read"] - said["dropped"] + said["added"], f"{this}: the summary")
        checks.equal(said["added"], sum(said["added_kinds"].values()), f"{this}: what was added, by kind")
        checks.that(all(said["added_kinds"][kind] for kind in ("processes", "threads", "modules", "image_ids")), f"{this}: {said['added_kinds']}")
        checks.equal([said[key] for key in ("backlog", "missing_batches", "damaged_batches", "runs_inside", "runs_unknown", "altered")], [0] * 6,
                     f"{this}: what could not be added")
        cut.check_dump(checks, whole, cut.lines(env, out), begin, end, this)
        wanted = cut.inside([item[:3] for item in with_stack], begin, end)
        got = cut.inside([item[:3] for item in cut.stacks(env, out)], begin, end)
        checks.that(wanted and wanted == got, f"{this}: {sum((wanted - got).values())} of {sum(wanted.values())} stacks are missing, "
                    f"{sum((got - wanted).values())} are others: {list((wanted - got).items())[:1]} {list((got - wanted).items())[:1]}")
        a, b = history(env, ["--store", store, "--host", host], times[2], pids), history(env, [out], times[2], pids)
        for key in a:
            checks.that(a[key] and a[key] == b[key], f"{this}: {key}: {len(a[key])} and {len(b[key])} rows, "
                        f"{sorted(set(a[key]) - set(b[key]))[:2]} {sorted(set(b[key]) - set(a[key]))[:2]}")
        after_it = naive_etl.parse(out)
        checks.equal((after_it["warnings"], after_it["bad"], after_it["compression"]), ([], [], 3), f"{this}: a naive reader")
        checks.equal(after_it["events"], said["written"] + 1, f"{this}: events, by a naive reader")
        checks.equal(image_rules.without_generated(image_rules.check(out).broken)[:2], [], f"{this}: rules of image events")


def after(time, ticks):
    """A time of the form of dump, so many 100 ns later."""
    day, clock = time.rstrip("Z").split("T")
    hours, minutes, seconds = clock.split(":")
    whole, fraction = seconds.split(".")
    n = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * cut.SECOND + int(fraction.ljust(7, "0")) + ticks
    seconds, fraction = divmod(n, cut.SECOND)
    return f"{day}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:07}Z"


def check_system_time(env, checks, store):
    """A clock that counts from 1970 does not begin the trace then."""
    scenario, path, out = (env.folder / name for name in ("system.yaml", "system.etl", "system-pulled.etl"))
    scenario.write_text("base: office\nmachine: {clock: system-time}\n", encoding="utf-8")
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--seed", "26", "--duration-ms", "100", "--out", path])
    env.run([env.collector, "ingest", "--store", store, "--host", "system", path])
    pull(env, store, "system", out, "--bare")
    began = [next(json.loads(line)["time"] for line in env.run([env.agent, "dump", "--format", "raw", of]).stdout.splitlines()
                  if '"name":"EventTrace/Header"' in line) for of in (path, out)]
    checks.equal(began[1][:16], began[0][:16], "a clock of the system time: the beginning")
    checks.that(raw(env, path) == raw(env, out), "a clock of the system time: records")


def check_choices(env, checks, store, host, path):
    out = env.folder / "chosen.etl"
    count = collections.Counter(name for _, _, name, _ in cut.lines(env, path))
    pull(env, store, host, out, "--where", "InstructionPointer != 0")
    kept = collections.Counter(name for _, _, name, _ in cut.lines(env, out))
    checks.equal((kept["PerfInfo/SampleProf"], kept["Thread/CSwitch"]), (count["PerfInfo/SampleProf"], 0), "--where: events")
    checks.that(kept["Process/DCStart"], "--where: no rundown of processes")
    said = pull(env, store, host, out, "--limit", 500, "--bare", "--json")
    checks.that(said["limited"] and 500 <= said["written"] < 600, f"--limit 500: {said}")
    first = sorted(cut.lines(env, path))[:said["written"]]
    checks.equal(cut.lines(env, out)[-1][0], first[-1][0], "--limit 500: the last time")
    text = pull(env, store, host, out, "--limit", 500).stdout
    checks.that("events written" in text and "added: processes" in text and "--limit" in text, f"the summary as text: {text}")


def check_sandbox(env, checks, store, host):
    """It is confined while it reads: the kernel reports the mode of the running process."""
    said = json.loads(env.run([env.collector, "doctor", "--store", store, "--json"], check=False).stdout)["checks"]
    if [c["verdict"] for c in said if c["check"] == "sandbox"] != ["ok"]:
        return
    for _ in range(20):
        with subprocess.Popen([env.collector, "pull", "--store", store, "--host", host, "-o", env.folder / "confined.etl"],
                              stdout=subprocess.DEVNULL) as process:
            modes, limits = set(), set()
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    here = pathlib.Path(f"/proc/{process.pid}")
                    modes.update(re.findall(r"^Seccomp:\s*(\d)", (here / "status").read_text(encoding="ascii"), re.M))
                    limits.update(re.findall(r"^Max address space +(\w+)", (here / "limits").read_text(encoding="ascii"), re.M))
        if "2" in modes and len(limits) > 1:
            break
    checks.equal(("2" in modes, process.returncode), (True, 0), f"confined while it reads, exit code; modes {modes}")
    checks.that(any(limit.isdigit() and 8 << 30 <= int(limit) < 16 << 30 for limit in limits), f"its memory is bounded: {limits}")


def check_failures(env, checks, store, host, other):
    out = env.folder / "none.etl"
    for words, code in ((["--from", "end", "--to", "start"], 2), (["--from", "never"], 2), (["--where", "pid =="], 2),
                        (["--from", "start+1h"], 2), (["--from", "start-2h", "--to", "start-1h"], 1)):
        done = pull(env, store, host, out, *words, check=False)
        checks.equal((done.returncode, out.exists(), bool(done.stderr)), (code, False, True), f"{words}: exit code, an output, a message")
    for name, code in (("absent", 1), (other, 1)):
        done = pull(env, store, name, out, check=False)
        checks.equal((done.returncode, out.exists()), (code, False), f"host {name}: {done.stderr}")
    checks.that("started again" in done.stderr, f"another start of the machine: {done.stderr}")
    checks.equal([path.name for path in env.folder.glob("*.partial")], [], "partial outputs")
    out.mkdir()
    checks.equal(pull(env, store, host, out, check=False).returncode, 1, "a folder as output")


def test(env, checks, arguments):
    tracegen, store = env.build / "tests" / "tracegen" / "tracegen", env.folder / "store"
    for preset, milliseconds in PRESETS:
        path = env.folder / f"{preset}.etl"
        env.run([tracegen, "make", "--preset", preset, "--seed", "26", "--duration-ms", milliseconds, "--out", path])
        env.run([env.collector, "ingest", "--store", store, "--host", preset, path])
        check_whole(env, checks, store, preset, path, preset)
        check_windows(env, checks, store, preset, path, milliseconds, preset)
    # a machine that was started again: its clock counts from another time
    again = env.folder / "again.yaml"
    again.write_text("base: office\nmachine:\n  uptime_s: 500\n", encoding="utf-8")
    env.run([tracegen, "make", "--preset", again, "--seed", "26", "--duration-ms", "100", "--out", env.folder / "again.etl"])
    for start in (path, env.folder / "again.etl"):
        env.run([env.collector, "ingest", "--store", store, "--host", "two-starts", start])
    # two sessions: what is in the one is not in the other
    parts = [env.folder / "a.etl", env.folder / "b.etl"]
    names = collections.Counter()
    for part, words in ((parts[0], ["--class", "Thread/*", "--class", "Process/*"]), (parts[1], ["--class", "FileIo/*", "--class", "Image/*"])):
        env.run([env.agent, "relog", path, "-o", part, "--bare", *words])
        env.run([env.collector, "ingest", "--store", store, "--host", "two-sessions", part])
        names += raw(env, part)
    out = env.folder / "merged.etl"
    said = pull(env, store, "two-sessions", out, "--bare", "--json")
    checks.equal((said["sessions"], said["written"]), (2, sum(names.values())), "two sessions: the summary")
    checks.that(names and raw(env, out) == names, "two sessions: records")
    check_system_time(env, checks, store)
    check_choices(env, checks, store, "office", env.folder / "office.etl")
    check_sandbox(env, checks, store, "office")
    check_failures(env, checks, store, "office", "two-starts")


if __name__ == "__main__":
    harness.main(test, __doc__)
