"""Cuts of `etwagent relog --from --to`: of each tenth of generated traces the events print as in the whole trace, names of files and keys
included, and have the same call stacks; `ps`, `modules` and `profile` of the cut answer as for the whole trace. What was added has the
time of the cut's beginning or end. Tenths of two traces that Windows wrote, too: one of each, with --soak all of three. --bare adds nothing; --where keeps what the condition
names, and the stacks of these events.
"""
import collections
import json

import harness
import image_rules
import traces

TENTHS = 10
SECOND = 10000000  # ticks
PRESETS = (("office", 1500), ("build-server", 300), ("late-halves", 300))


def lines(env, path):
    """{clock: [lines]} of a trace's dump, with decoded names."""
    found = []
    for line in env.run([env.agent, "dump", "--format", "jsonl", path]).stdout.splitlines():
        event = json.loads(line)
        if "completes" in event or "completed" in event:  # the other end of an operation may be outside of a cut
            line = json.dumps({key: value for key, value in event.items() if key not in ("completes", "completed")}, ensure_ascii=False, separators=(",", ":"))
        found.append((event["clock"], event["cpu"], event["name"], line))
    return found


def is_walk(name):
    return name in ("StackWalk/Stack", "StackWalk/StackKeyKernel", "StackWalk/StackKeyUser", "StackTrace/UserModeStackTrace")


def stacks(env, path):
    """[(clock, kernel's addresses, user's addresses, number of the event)] of the events that have a stack."""
    events, addresses = [], {}
    for line in env.run([env.agent, "stacks", "--list", path]).stdout.splitlines():
        said = json.loads(line)
        if "event" in said:
            events.append((said["clock"], *((said.get(half) or {}).get("stack") for half in ("kernel", "user")), said["event"]))
        else:
            addresses[said["stack"]] = tuple(said["addresses"]) if said["addresses"] is not None else None
    return [(clock, addresses.get(kernel), addresses.get(user), number) for clock, kernel, user, number in events]


def inside(items, begin, end):
    return collections.Counter(item for item in items if begin <= item[0] < end)


def check_dump(checks, whole, cut, begin, end, what):
    wanted, got = inside(whole, begin, end), inside(cut, begin, end)
    missing = [item for item in wanted - got if not is_walk(item[2]) and item[2] != "EventTrace/Header"]
    checks.that(not missing, f"{what}: {len(missing)} events are missing or print otherwise: {missing[:1]}")
    extra = [item for item in got - wanted if (item[0], item[1]) != (begin, 0) and item[2] != "EventTrace/Header"]
    checks.that(not extra, f"{what}: {len(extra)} events that are not the trace's and not of its beginning: {extra[:1]}")
    outside = [item for item in cut if not begin <= item[0] < end and item[2] != "EventTrace/Header" and (item[0], item[1]) != (end, 0)]
    checks.that(not outside, f"{what}: {len(outside)} events outside: {outside[:1]}")


def answers(env, path, begin, end, pids):
    """What the collector says of the middle of a cut."""
    middle = (begin + end) // 2
    at = f"+{middle // 10}us"
    ps = json.loads(env.run([env.collector, "ps", "--json", "--at", at, path]).stdout)["processes"]
    keys = ("pid", "ppid", "session", "name", "command_line", "sid", "unique_key", "directory_table_base")
    found = {"ps": sorted(json.dumps([p[k] for k in keys]) for p in ps)}
    for pid in pids:
        modules = json.loads(env.run([env.collector, "modules", "--json", "--at", at, "--pid", pid, path]).stdout)["modules"]
        found[f"modules of {pid}"] = sorted(json.dumps([m.get(k) for k in ("base", "size", "path", "pdb", "pdb_guid", "pdb_age", "timestamp")]) for m in modules)
    found["profile"] = sorted(env.run([env.collector, "profile", "--weight", "samples", "--format", "folded", "--from", f"+{begin // 10}us",
                                       "--to", f"+{end // 10}us", path]).stdout.splitlines())
    return found


def check_real(env, checks, soak):
    """A tenth of each of two traces that Windows wrote, or all tenths of three."""
    if not checks.real("cuts of traces that Windows wrote"):
        return
    for name, turn in (("clr-kernel-win8-x64", 5), ("shutdown-win10", 7), *([("diagsession-four-files", 0)] if soak else [])):
        path = next(path for path in traces.paths(name, env.build) if path.name in ("trace.etl", "diaghub.kernel.1.etl"))
        check_tenths(env, checks, name, path, range(TENTHS) if soak else [turn])


def check_tenths(env, checks, name, path, turns):
    out, whole, with_stack = env.folder / "cut.etl", lines(env, path), stacks(env, path)
    start = next(item[0] for item in whole if item[2] == "EventTrace/Header")
    step = (max(item[0] for item in whole) - start) // TENTHS // 10 * 10
    for turn in turns:
        begin, end, what = start + turn * step, start + (turn + 1) * step, f"{name}, tenth {turn}"
        env.run([env.agent, "relog", path, "-o", out, "--from", f"start+{turn * step // 10}us", "--to", f"start+{(turn + 1) * step // 10}us"])
        check_dump(checks, whole, lines(env, out), begin, end, what)
        # what was added at the beginning may have a stack of its own
        wanted, got = (inside([item[:3] for item in found if item[0] != begin], begin, end) for found in (with_stack, stacks(env, out)))
        checks.that(wanted == got, f"{what}: {sum((wanted - got).values())} of {sum(wanted.values())} stacks are missing, {sum((got - wanted).values())} are others")
        loaded = collections.Counter(json.loads(line)["fields"]["ProcessId"] for _, _, kind, line in whole if kind in ("Image/DCStart", "Image/DCEnd"))
        a, b = (answers(env, p, begin - start, end - start, [0, max((pid for pid in loaded if pid), key=loaded.get, default=4)]) for p in (path, out))
        for key in a:
            checks.that(a[key] == b[key], f"{what}: {key}: {sorted(set(a[key]) - set(b[key]))[:2]} {sorted(set(b[key]) - set(a[key]))[:2]}")


def test(env, checks, arguments):
    tracegen = env.build / "tests" / "tracegen" / "tracegen"
    for preset, milliseconds in PRESETS:
        path, out = env.folder / f"{preset}.etl", env.folder / "cut.etl"
        env.run([tracegen, "make", "--preset", preset, "--seed", "26", "--duration-ms", milliseconds, "--out", path])
        whole, with_stack = lines(env, path), stacks(env, path)
        start = next(item[0] for item in whole if item[2] == "EventTrace/Header")
        step = milliseconds * SECOND // 1000 // TENTHS
        for turn in range(TENTHS):
            begin, end = start + turn * step, start + (turn + 1) * step
            what = f"{preset}, tenth {turn}"
            said = json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", "--from", f"start+{turn * step // 10}us",
                                       "--to", f"start+{(turn + 1) * step // 10}us"]).stdout)
            checks.equal((said["written"], said["added"]), (said["read"] - said["dropped"] + said["added"], sum(said["added_kinds"].values())),
                         f"{what}: the summary")
            checks.that(all(said["added_kinds"][kind] for kind in ("processes", "threads", "modules", "image_ids")), f"{what}: {said['added_kinds']}")
            check_dump(checks, whole, lines(env, out), begin, end, what)
            checks.equal(image_rules.without_generated(image_rules.check(out).broken)[:2], [], f"{what}: rules of image events")
            wanted = inside([item[:3] for item in with_stack], begin, end)
            got = inside([item[:3] for item in stacks(env, out)], begin, end)
            checks.that(wanted and wanted == got, f"{what}: {sum((wanted - got).values())} of {sum(wanted.values())} stacks are missing, "
                        f"{sum((got - wanted).values())} are others: {list((wanted - got).items())[:1]} {list((got - wanted).items())[:1]}")
            if arguments.soak or turn in (1, 6):
                loaded = collections.Counter(json.loads(line)["fields"]["ProcessId"] for _, _, name, line in whole if name == "Image/DCStart")
                pids = [0, max((pid for pid in loaded if pid), key=loaded.get)]
                a, b = (answers(env, p, begin - start, end - start, pids) for p in (path, out))
                for key in a:
                    checks.that(a[key] and a[key] == b[key], f"{what}: {key}: {len(a[key])} and {len(b[key])} rows, "
                                f"{sorted(set(a[key]) - set(b[key]))[:2]} {sorted(set(b[key]) - set(a[key]))[:2]}")
        bare = json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", "--bare", "--from", "start+100ms", "--to", "start+200ms"]).stdout)
        count = sum(1 for clock, _, name, _ in whole if start + SECOND // 10 <= clock < start + SECOND // 5 and name != "EventTrace/Header")
        checks.equal((bare["written"], bare["added"]), (count, 0), f"{preset}: --bare")
    for words in (["--from", "start+2s", "--to", "start+1s"], ["--bare"], ["--from", "never"], ["--where", "pid =="]):
        (env.folder / "none.etl").unlink(missing_ok=True)
        done = env.run([env.agent, "relog", path, "-o", env.folder / "none.etl", *words], check=False)
        checks.equal((done.returncode, (env.folder / "none.etl").exists()), (2, False), f"{words}: exit code, an output; {done.stderr}")
    # a condition: the events of it, stacks of these alone, and what describes the machine
    out = env.folder / "samples.etl"
    env.run([env.agent, "relog", path, "-o", out, "--where", "InstructionPointer != 0"])
    count = collections.Counter(name for _, _, name, _ in whole)
    kept = collections.Counter(name for _, _, name, _ in lines(env, out))
    checks.equal((kept["PerfInfo/SampleProf"], kept["Thread/CSwitch"], kept["Process/DCStart"]),
                 (count["PerfInfo/SampleProf"], 0, count["Process/DCStart"]), "--where: events")
    wanted = collections.Counter(item[:3] for item in with_stack if whole[item[3]][2] == "PerfInfo/SampleProf")
    got = collections.Counter(item[:3] for item in stacks(env, out))
    checks.that(wanted and not wanted - got, f"--where: {sum((wanted - got).values())} of {sum(wanted.values())} stacks of samples are missing")
    check_real(env, checks, arguments.soak)


if __name__ == "__main__":
    harness.main(test, __doc__)
