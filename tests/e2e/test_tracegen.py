"""What tracegen writes is what an independent parser reads, for every preset: the counts of every class, provider, extended
item and loss equal the truth, and so do those of `etwagent stats`. The same seed gives the same bytes on every compiler: their
hashes are in tests/tracegen/digests.tsv (--update writes the file again when the model has changed).

# sanitizers: asan-ubsan
"""
import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import harness
import naive_etl

# preset -> ms: short forms, 10,000 to 100,000 events each
PRESETS = {"office": 1500, "build-server": 500, "web-server": 900, "firehose": 4, "attack": 9000, "idle": 8000,
           "256-cpus": 100, "32-bit": 700, "wow64": 700,
           "late-halves": 700}
LATE_HALF = "StackTrace/UserModeStackTrace"


DIGESTS = pathlib.Path(__file__).resolve().parents[1] / "tracegen" / "digests.tsv"


def generate(build, folder, name, *arguments):
    """Paths of a new trace and its truth."""
    trace, truth = folder / f"{name}.etl", folder / f"{name}.jsonl"
    subprocess.run([build / "tests" / "tracegen" / "tracegen", "make", "--out", trace, "--truth", truth, *arguments],
                   check=True, stdout=subprocess.DEVNULL)
    return trace, truth


def short_form(preset, factor=1):
    return ["--preset", preset, "--duration-ms", str(PRESETS[preset] * factor)]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows(truth):
    with open(truth, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def check_counts(checks, name, trace, truth_rows):
    seen = naive_etl.parse(trace)
    totals = next(row for row in truth_rows if row["type"] == "totals")
    machine = next(row for row in truth_rows if row["type"] == "machine")
    checks.equal((seen["warnings"], seen["bad"]), ([], []), f"{name}: warnings of the independent parser, bad records")
    checks.equal(seen["events"], totals["events"], f"{name}: events")
    checks.equal((seen["events_lost"], seen["buffers_lost"]), (totals["events_lost"], totals["buffers_lost"]), f"{name}: lost")
    checks.equal((seen["cpus"], seen["ptr"]), (machine["cpus"], machine["pointer_bytes"]), f"{name}: the machine")
    kernel, classic = collections.Counter(), collections.Counter()
    for row in truth_rows:
        if row["type"] == "class" and "hook_id" in row:
            kernel[row["hook_id"] >> 8, row["hook_id"] & 255, row["version"]] += row["count"]
        elif row["type"] == "class":
            classic[row["provider"], row["opcode"], row["version"]] += row["count"]
    checks.equal({key: n for key, n in seen["kernel"].items() if key[:2] != (0, 0)}, dict(kernel), f"{name}: kernel events")
    checks.equal(seen["classic"], dict(classic), f"{name}: events with FULL headers")
    providers, manifests, items = collections.Counter(), collections.Counter(), 0
    for row in truth_rows:
        if row["type"] == "provider_event":
            providers[row["provider"]] += row["count"]
            if row["id"] == 0xFFFE:
                manifests[row["provider"]] += row["count"]
            items += row["count"] if row["id"] == 0 else 0
    checks.equal(seen["providers"], dict(providers), f"{name}: events of providers")
    checks.equal(seen["manifests"], dict(manifests), f"{name}: parts of manifests")
    checks.equal(seen["tl_items"], items, f"{name}: events with TraceLogging metadata")
    lost = [row for row in truth_rows if row["type"] == "loss"]
    flags = seen["bflags"]
    for bit, is_kind in ((2, lambda row: row["events"] and not row["buffers"]), (4, lambda row: row["buffers"])):
        checks.equal(any(flag & bit for flag in flags), any(map(is_kind, lost)), f"{name}: buffers with flag {bit}")
    checks.equal(sum(row["buffers"] for row in lost), totals["buffers_lost"], f"{name}: buffers lost")
    checks.equal(sum(row["events"] for row in lost if not row["buffers"]), totals["events_lost"], f"{name}: events lost")
    return seen


def check_stats(checks, build, name, trace, truth_rows):
    """`etwagent stats` counts the same, and understands every kernel event whole."""
    done = subprocess.run([build / "service" / "app" / "etwagent", "stats", "--json", trace], check=True, stdout=subprocess.PIPE)
    seen = json.loads(done.stdout)
    totals = next(row for row in truth_rows if row["type"] == "totals")
    checks.equal((seen["events"], seen["bad_records"], seen["bad_buffers"], seen["bad_bytes"]), (totals["events"], 0, 0, 0),
                 f"{name}: stats: events, nothing bad")
    checks.equal((seen["events_lost"], seen["buffers_lost"]), (totals["events_lost"], totals["buffers_lost"]), f"{name}: stats: lost")
    classes = {(row["provider"], row["name"], row["version"]): row["count"] for row in truth_rows if row["type"] == "class"}
    counted = {(c["provider"], c["name"], c["version"]): c["count"] for c in seen["classes"]
               if c["classic"] and c["name"] != "EventTrace/Header"}
    checks.equal(counted, classes, f"{name}: stats: kernel events of each class")
    checks.equal([c["name"] for c in seen["classes"] if c["classic"] and c["decoded"] != c["count"]], [],
                 f"{name}: stats: kernel events that are not whole")
    provided = collections.Counter()
    for row in truth_rows:
        if row["type"] == "provider_event":
            provided[row["provider"]] += row["count"]
    by_provider = collections.Counter()
    for c in seen["classes"]:
        if not c["classic"]:
            by_provider[c["provider"]] += c["count"]
    checks.equal(dict(by_provider), dict(provided), f"{name}: stats: events of providers")


def check_truth(checks, name, truth_rows):
    """The truth agrees with itself: what began and ended is what was logged of it, but for what was lost."""
    counts = collections.Counter()
    for row in truth_rows:
        if row["type"] == "class":
            counts[row["name"]] += row["count"]
    for kind, start, end, first, last in (("process", "Process/Start", "Process/End", "Process/DCStart", "Process/DCEnd"),
                                          ("thread", "Thread/Start", "Thread/End", "Thread/DCStart", "Thread/DCEnd"),
                                          ("module", "Image/Load", "Image/UnLoad", "Image/DCStart", "Image/DCEnd")):
        mine = [row for row in truth_rows if row["type"] == kind]
        begun = sum(row["begin_raw"] is not None and "begin_lost" not in row for row in mine)
        ended = sum(row["end_raw"] is not None and "end_lost" not in row for row in mine)
        checks.equal(begun, counts[start], f"{name}: {kind} begun")
        checks.equal(ended, counts[end], f"{name}: {kind} ended")
        checks.equal(sum(row["begin_raw"] is None for row in mine), counts[first], f"{name}: {kind} there at the start")
        checks.equal(sum(row["end_raw"] is None for row in mine), counts[last], f"{name}: {kind} there at the end")
        checks.that(all((row["begin_raw"] or 0) < (row["end_raw"] or sys.maxsize) for row in mine), f"{name}: a {kind} ends first")
    stacks = [row for row in truth_rows if row["type"] == "stack" and not row.get("lost") and not row.get("in_header")]
    late = sum(row["count"] for row in truth_rows if row["type"] == "provider_event" and row["name"] == LATE_HALF)
    checks.equal(len(stacks), late + sum(counts[c] for c in ("StackWalk/Stack", "StackWalk/StackKeyKernel", "StackWalk/StackKeyUser")),
                 f"{name}: halves of stacks")
    flows = [row for row in truth_rows if row["type"] == "flow"]
    if counts["TcpIp/SendIPV4"] and not any(row["type"] == "loss" for row in truth_rows):
        for ip, protocol in ((4, "tcp"), (6, "tcp"), (4, "udp"), (6, "udp")):
            mine = [row for row in flows if (row["ip"], row["protocol"]) == (ip, protocol)]
            family = "TcpIp" if protocol == "tcp" else "UdpIp"
            checks.equal(sum(row["sends"] for row in mine), counts[f"{family}/SendIPV{ip}"], f"{name}: {protocol} {ip} sends")
            checks.equal(sum(row["receives"] for row in mine), counts[f"{family}/RecvIPV{ip}"], f"{name}: {protocol} {ip} receives")


def check_contents(checks, truth_of):
    """What the presets are there for is in them."""
    def has(preset, test, what):
        checks.that(any(test(row) for row in truth_of[preset]), f"{preset}: {what}")

    def is_class(*names):
        return lambda row: row["type"] == "class" and row["name"] in names

    has("office", is_class("StackWalk/StackKeyUser"), "no stack by key")
    has("office", is_class("StackWalk/KeyDelete"), "no key is given up")
    has("build-server", is_class("PerfInfo/PmcCtrConfig"), "no counters are named")
    has("build-server", is_class("PerfInfo/PmcCounterProf"), "no counter interrupt")
    has("web-server", is_class("TcpIp/AcceptIPV4"), "no connection")
    has("web-server", lambda row: row["type"] == "loss" and row["buffers"], "no buffer is lost")
    has("web-server", lambda row: row["type"] == "loss" and not row["buffers"] and row["events"], "no event is lost")
    has("web-server", lambda row: row["type"] == "provider_event" and row["name"] == "GC/Start", "no garbage collection")
    has("firehose", is_class("PerfInfo/SysClExit"), "no system calls")
    has("attack", lambda row: row["type"] == "step" and row["technique"].startswith("T1003"), "no read of lsass")
    has("attack", is_class("Object/CreateHandle"), "no handle is opened")
    has("256-cpus", lambda row: row["type"] == "machine" and row["cpus"] == 256, "too few processors")
    has("32-bit", lambda row: row["type"] == "machine" and row["pointer_bytes"] == 4, "no 32-bit kernel")
    has("wow64", lambda row: row["type"] == "stack" and row.get("in_header"), "no stack in an event")
    has("wow64", lambda row: row["type"] == "module" and int(row["base"], 16) < 1 << 32, "no module of a 32-bit program")
    has("wow64", lambda row: row["type"] == "frames" and len({int(a, 16) >> 32 == 0 for a in row["addresses"]}) == 2, "no stack goes through wow64")
    has("late-halves", lambda row: row["type"] == "provider_event" and row["name"] == LATE_HALF and row["count"], "no late half")
    office = truth_of["office"]
    deepest = max(len(row["addresses"]) for row in office if row["type"] == "frames")
    checks.equal(deepest, 192, "office: frames of the deepest stack")
    keys = collections.defaultdict(set)
    for row in office:
        if row["type"] == "stack" and "key" in row:
            keys[row["key"]].add(row["half"])
    checks.that(any(len(halves) == 2 for halves in keys.values()), "office: no key means a stack of the kernel and one of the user")
    far = [row for row in office if row["type"] == "stack" and row["half"] == "user" and row["at_raw"] - row["event_raw"] > 10000]
    checks.that(far, "office: no half comes late")


def check_reuse(checks, truth_rows):
    ids = collections.Counter(row["pid"] for row in truth_rows if row["type"] == "process")
    ids.update(row["tid"] for row in truth_rows if row["type"] == "thread")
    checks.that(max(n for key, n in ids.items() if key) > 1, "no id is used again")
    at = collections.defaultdict(set)
    for row in truth_rows:
        if row["type"] == "module":
            at[row["pid"], row["base"]].add(row["path"])
    checks.that(max(len(paths) for paths in at.values()) > 1, "no address is used by two modules in turn")
    for kind in ("file_object", "registry_key", "file_key"):
        names = collections.defaultdict(set)
        for row in truth_rows:
            if row["type"] == "name" and row["kind"] == kind:
                names[row["address"]].add(row["name"])
        checks.that(max(map(len, names.values())) > 1, f"no address of a {kind} is used again")


def check_firehose(checks, build, folder, milliseconds):
    """17.4 million events in each second: 17,400 in each millisecond of the timestamps."""
    trace, truth = generate(build, folder, "firehose", "--preset", "firehose", "--duration-ms", str(milliseconds))
    machine = next(row for row in rows(truth) if row["type"] == "machine")
    dump = subprocess.Popen([build / "service" / "app" / "etwagent", "dump", "--no-names", "--format", "csv", "--fields", "clock", trace],
                            stdout=subprocess.PIPE)
    step, windows = machine["frequency"] // 1000, collections.Counter()
    next(dump.stdout)
    for line in dump.stdout:
        windows[(int(line) - machine["start_raw"]) // step] += 1
    checks.equal(dump.wait(), 0, "firehose: dump's exit code")
    # during the rundowns at both ends, the simulated machine does no other work for a moment
    whole = [windows[i] for i in range(2, milliseconds - 1)]
    print(f"firehose: {sum(whole) / len(whole) / 1000:.2f} million events in a second; in one millisecond {min(whole)} to {max(whole)}")
    checks.that(sum(whole) >= 17400 * len(whole) * 0.999 and min(whole) >= 17400 * 0.97, f"firehose: events in each millisecond: {whole}")


def check_cycles(checks, build, folder):
    """A clock of cycles runs as fast as the trace's header says, whatever the processor's speed is."""
    path = folder / "odd.yaml"
    path.write_text("base: office\nduration_ms: 1000\nmachine: {clock: cpu-cycles, mhz: 2593}\n", encoding="utf-8")
    _, truth = generate(build, folder, "odd", "--preset", path)
    machine = next(row for row in rows(truth) if row["type"] == "machine")
    lasted = machine["end_utc_ns"] - machine["start_utc_ns"]
    checks.that(machine["frequency"] == 2593000000 and 1000000000 <= lasted < 1002000000, f"2593 MHz: a second lasts {lasted} ns at {machine['frequency']} Hz")


def check_errors(checks, build, folder):
    """The error of a wrong scenario names its line and column."""
    tracegen = build / "tests" / "tracegen" / "tracegen"
    good = "base: office\nduration_ms: 50\n"
    for text, place in ((good + "machine: {cpus: 4, cpu: 3}\n", "3:20: there is no option cpu"),
                        (good + "machine:\n  cpus: many\n", "4:9: cpus: expected a number from 1 to 1024"),
                        (good + "session: {events: [process, wishes]}\n", "3:29: not one of the names for events"),
                        (good + "programs:\n  - {path: a}\n", "4:5: lacks name"),
                        (good + "pmc: {on_switches: maybe}\n", "3:20: expected yes or no for on_switches"),
                        (good + "logons: {every_ms: [9, 3]}\n", "3:20: the low end is above the high one in every_ms"),
                        (good + "duration_ms: 5\n", "3:1: is here twice: duration_ms"),
                        ("base: nowhere\n", "1:7: expected the name of a preset for base"),
                        ("a: [1,\n", "2:1:"), ("", "1:1: the file is empty")):
        path = folder / "wrong.yaml"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([tracegen, "make", "--preset", path], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        checks.that(done.returncode == 3 and f"wrong.yaml:{place}" in done.stderr, f"{text!r}: exit {done.returncode}, {done.stderr!r}")
    path.write_text(good, encoding="utf-8")
    subprocess.run([tracegen, "make", "--preset", path], check=True, stdout=subprocess.DEVNULL)
    options = subprocess.run([tracegen, "options"], check=True, stdout=subprocess.PIPE, text=True).stdout
    readme = DIGESTS.with_name("README.md").read_text(encoding="utf-8")
    checks.that(options in readme, "README.md of tests/tracegen does not have the table that `tracegen options` prints")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--update", action="store_true", help="write tests/tracegen/digests.tsv")
    arguments = parser.parse_args()
    build, checks, truth_rows, digests = pathlib.Path(arguments.build).resolve(), harness.Checks(), {}, []
    with tempfile.TemporaryDirectory(prefix="etwagent-test-") as temporary:
        folder = pathlib.Path(temporary)
        for preset in PRESETS:
            digests += [f"{preset}\t{what}\t{digest(path)}\n" for what, path in
                        zip(("trace", "truth"), generate(build, folder, "digest", "--compress", *short_form(preset)))]
            for seed in range(1, 4 if arguments.soak else 2):
                options = short_form(preset, 5 if arguments.soak else 1)
                name = f"{preset}, seed {seed}"
                trace, truth = generate(build, folder, "trace", "--seed", str(seed), *options)
                truth_rows[preset] = rows(truth)
                check_counts(checks, name, trace, truth_rows[preset])
                check_stats(checks, build, name, trace, truth_rows[preset])
                check_truth(checks, name, truth_rows[preset])
            again, _ = generate(build, folder, "again", "--seed", str(seed), *options)
            checks.equal(digest(again), digest(trace), f"{name}: once more")
            # another compiler's build beside this one, when there is one (dev is gcc, the sanitizers are clang)
            for other in ("dev", "clang", "asan-ubsan", "tsan"):
                other = build.parent / other
                if other != build and (other / "tests" / "tracegen" / "tracegen").is_file():
                    twin, _ = generate(other, folder, "twin", "--seed", str(seed), *options)
                    checks.equal(digest(twin), digest(trace), f"{name}: under {other.name}")
        if arguments.update:
            DIGESTS.write_text("".join(digests), encoding="utf-8")
        checks.equal(digests, DIGESTS.read_text(encoding="utf-8").splitlines(keepends=True),
                     "hashes of traces and truths, seed 1, compressed (if the model has changed: --update)")
        check_contents(checks, truth_rows)
        plain, plain_truth = generate(build, folder, "plain", *short_form("office"))
        packed, packed_truth = generate(build, folder, "packed", "--compress", *short_form("office"))
        checks.equal(packed_truth.read_bytes(), plain_truth.read_bytes(), "truth with and without compression")
        seen = check_counts(checks, "office compressed", packed, rows(packed_truth))
        checks.equal(seen["compression"], 3, "office compressed: XPRESS")
        checks.that(packed.stat().st_size < plain.stat().st_size, "compression saves nothing")
        other, _ = generate(build, folder, "other", "--seed", "2", *short_form("office"))
        checks.that(digest(other) != digest(plain), "another seed gave the same trace")
        _, longer = generate(build, folder, "longer", "--preset", "office", "--duration-ms", "6000")
        check_reuse(checks, rows(longer))
        check_firehose(checks, build, folder, 1000 if arguments.soak else 30)
        check_cycles(checks, build, folder)
        check_errors(checks, build, folder)
    sys.exit(checks.finish())


if __name__ == "__main__":
    main()
