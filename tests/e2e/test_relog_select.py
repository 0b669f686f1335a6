"""Choices of `etwagent relog`: --process by name, by id and by id at a time, in a trace in which ids are used again; --tree; --class;
--cpu. A naive reading of the whole trace's dump says which events belong to which processes. The stacks of what is kept are kept, the
machine's processes stay known, and a process that is not there fails without an output.
"""
import bisect
import collections
import json

import harness

PID_FIELDS = ("ProcessId", "PID")
TID_FIELDS = ("ThreadId", "TThreadId", "NewThreadId", "OldThreadId", "IssuingThreadId")
NO_ONE = (None, 0xFFFFFFFF)
# these are kept for all processes, because readers need them, or belong to other events
STATE = ("Process/", "Thread/Start", "Thread/End", "Thread/DC", "Thread/SetName", "Image/", "ImageID/", "StackWalk/", "FileIo/FileCreate", "FileIo/FileDelete",
         "FileIo/FileRundown", "FileIo/Name", "EventTrace/", "SysConfig", "SystemConfig/", "DotNet/Method", "DotNet/Module", "DotNet/Assembly", "DotNet/DomainModule", "PerfInfo/Collection",
         "PerfInfo/PmcCtrConfig", "Registry/Kcb", "MetaData", "DotNetRundown", "StackTrace/")


def events(env, path):
    found = []
    for line in env.run([env.agent, "dump", "--format", "jsonl", path]).stdout.splitlines():
        event = json.loads(line)
        event.pop("completes", None)
        event.pop("completed", None)
        found.append(event)
    return found


def is_state(event):
    return event["name"].startswith(STATE)


def as_key(event):
    return event["clock"], event["cpu"], event["name"], json.dumps(event["fields"], sort_keys=True)


class Lives:
    """[[begin, end, facts]] of each id, in order."""

    def __init__(self):
        self.of = collections.defaultdict(list)

    def take(self, verb, key, clock, facts):
        lives = self.of[key]
        is_open = bool(lives) and lives[-1][1] is None
        if verb == "Start":
            if is_open:
                lives[-1][1] = clock
            lives.append([clock, None, facts])
        elif verb == "End":
            if is_open:
                lives[-1][1] = clock
            else:
                lives.append([lives[-1][1] if lives else 0, clock, facts])
        elif not is_open:  # a rundown
            lives.append([lives[-1][1] if lives else 0, None, facts])

    def at(self, key, clock):
        lives = self.of.get(key, [])
        place = bisect.bisect_right([life[0] for life in lives], clock) - 1
        if place < 0 or (lives[place][1] is not None and clock > lives[place][1]):
            return None
        return lives[place]


def read_lives(whole):
    processes, threads = Lives(), Lives()
    for event in whole:
        family, _, verb = event["name"].partition("/")
        if verb not in ("Start", "End", "DCStart", "DCEnd") or family not in ("Process", "Thread"):
            continue
        fields = event["fields"]
        if family == "Process":
            parent = processes.at(fields["ParentId"], event["clock"])
            processes.take(verb, fields["ProcessId"], event["clock"],
                           {"name": fields["ImageFileName"], "pid": fields["ProcessId"], "parent": id(parent) if parent else None})
        elif fields["TThreadId"]:
            threads.take(verb, fields["TThreadId"], event["clock"], {"pid": fields["ProcessId"]})
    return processes, threads


def owners(event, processes, threads):
    """Identities of the lives that the event is of."""
    found, clock, fields = [], event["clock"], event["fields"]

    def thread(tid):
        life = threads.at(tid, clock)
        return life and processes.at(life[2]["pid"], clock if life[0] == 0 else max(life[0], min(clock, life[1] or clock)))

    if event["pid"] not in NO_ONE:
        found.append(processes.at(event["pid"], clock))
    elif event["tid"] not in NO_ONE:
        found.append(thread(event["tid"]))
    found += [processes.at(fields[name], clock) for name in PID_FIELDS if isinstance(fields.get(name), int)]
    found += [thread(fields[name]) for name in TID_FIELDS if isinstance(fields.get(name), int)]
    return {id(life) for life in found if life}


def test(env, checks, arguments):
    tracegen = env.build / "tests" / "tracegen" / "tracegen"
    path, out, scenario = env.folder / "whole.etl", env.folder / "out.etl", env.folder / "reuse.yaml"
    scenario.write_text("base: build-server\nmachine: {id_rest_ms: 0}\n")
    env.run([tracegen, "make", "--preset", scenario, "--seed", "26", "--duration-ms", 650, "--out", path])
    whole = events(env, path)
    start = next(event["clock"] for event in whole if event["name"] == "EventTrace/Header")
    processes, threads = read_lives(whole)
    lives = [life for of in processes.of.values() for life in of]
    of_event = [owners(event, processes, threads) for event in whole]

    def relog(*words):
        return json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", *words]).stdout)

    def check_kept(what, chosen, *words):
        said = relog(*words)
        got = events(env, out)
        wanted = collections.Counter(as_key(e) for e, of in zip(whole, of_event) if of & chosen and not is_state(e))
        kept = collections.Counter(as_key(e) for e in got if not is_state(e))
        checks.that(sum(wanted.values()) > 20 and wanted == kept, f"{what}: {sum(wanted.values())} events wanted, {sum((wanted - kept).values())} are missing: "
                    f"{list(wanted - kept)[:2]}, {sum((kept - wanted).values())} are too many: {list(kept - wanted)[:2]}")
        checks.equal(said["written"], said["read"] - said["dropped"] + said["added"], f"{what}: the summary")
        count = [sum(e["name"] in ("Process/Start", "Process/DCStart") for e in events) for events in (whole, got)]
        checks.equal(count[0], count[1], f"{what}: processes that are known")
        walks = collections.Counter((e["fields"]["EventTimeStamp"]["value"], e["fields"]["StackThread"]) for e in got if e["name"] == "StackWalk/Stack")
        all_walks = collections.Counter((e["fields"]["EventTimeStamp"]["value"], e["fields"]["StackThread"]) for e in whole if e["name"] == "StackWalk/Stack")
        times = {e["clock"] for e in got if not e["name"].startswith("StackWalk/")}
        checks.that(walks and walks == collections.Counter({key: n for key, n in all_walks.items() if key[0] in times}), f"{what}: stacks of the kept events, and these alone")

    reused = max((pid for pid, of in processes.of.items() if sum(life[2]["name"] == "cc1.exe" for life in of) > 1), key=lambda pid: len(processes.of[pid]))
    for life in processes.of[reused]:
        middle = ((life[0] or start) + (life[1] or whole[-1]["clock"])) // 2
        check_kept(f"process {reused} from {life[0] - start}", {id(life)}, "--process", f"{reused}@start+{(middle - start) // 10}us")
    check_kept(f"all processes {reused}", {id(life) for life in processes.of[reused]}, "--process", str(reused))
    check_kept("cc1.exe", {id(life) for life in lives if life[2]["name"] == "cc1.exe"}, "--process", "CC1.exe")

    parent = next(life for life in lives if life[2]["name"] == "make.exe")
    chosen, more = {id(parent)}, True
    while more:
        more = {id(life) for life in lives if life[2]["parent"] in chosen} - chosen
        chosen |= more
    checks.that(len(chosen) > 3, f"a tree of {len(chosen)} processes")
    check_kept("a tree", chosen, "--process", f"{parent[2]['pid']}@start+{((parent[0] or start) - start) // 10 + 1}us", "--tree")

    relog("--class", "PerfInfo/SampleProf", "--cpu", "1-2", "--cpu", "0")
    kept = [e for e in events(env, out) if not is_state(e)]
    checks.equal(collections.Counter(map(as_key, kept)), collections.Counter(as_key(e) for e in whole if e["name"] == "PerfInfo/SampleProf" and e["cpu"] in (0, 1, 2)),
                 "--class and --cpu")

    # a trace whose only state is the rundown at its end: who is named there lived from the beginning on
    late = env.folder / "late.etl"
    relog("--bare", "--class", "PerfInfo/SampleProf", "--class", "Process/DCEnd", "--class", "Thread/DCEnd")
    out.rename(late)
    ends = [(e["name"], e["fields"]) for e in events(env, late) if e["name"].endswith("/DCEnd")]
    process_of = {f["TThreadId"]: f["ProcessId"] for name, f in ends if name == "Thread/DCEnd" and f["TThreadId"]}
    samples = collections.Counter(process_of.get(e["fields"]["ThreadId"]) for e in events(env, late) if e["name"] == "PerfInfo/SampleProf")
    resident = max((f["ProcessId"] for name, f in ends if name == "Process/DCEnd" and f["ProcessId"]), key=lambda pid: samples[pid])
    its = {tid for tid, pid in process_of.items() if pid == resident}
    env.run([env.agent, "relog", late, "-o", out, "--bare", "--process", str(resident)])
    kept = collections.Counter(as_key(e) for e in events(env, out) if e["name"] == "PerfInfo/SampleProf")
    wanted = collections.Counter(as_key(e) for e in events(env, late) if e["name"] == "PerfInfo/SampleProf" and (e["fields"]["ThreadId"] in its or e["pid"] == resident))
    checks.that(wanted and wanted == kept, f"process {resident} of a rundown at the end: {sum(wanted.values())} samples wanted, {sum(kept.values())} kept")

    out.unlink()
    for words, code in ((("--process", "nothing.exe"), 1), (("--process", f"{reused}@start"), 1), (("--tree",), 2), (("--cpu", "2-1"), 2), (("--cpu", "65536"), 2), (("--process", "4@never"), 2),
                        (("--class", "No/Such"), 1)):
        done = env.run([env.agent, "relog", path, "-o", out, *words], check=False)
        checks.equal((done.returncode, out.exists(), (env.folder / "out.etl.partial").exists()), (code, False, False), f"{words}: exit code, outputs; {done.stderr}")
    for name, said in (("cc2.exe", "have no such process; did you mean 'cc1.exe'?"), ("CC2", "have no such process; did you mean 'cc1.exe'?"), ("cc2.exe@end", "at that time; did you mean 'cc1.exe'?"),
                       ("cc1.exe@start-1h", "have no such process at that time (not found)"), ("qqqqqqqqqqqq", "have no such process (not found)")):
        done = env.run([env.agent, "relog", path, "-o", out, "--process", name], check=False)
        checks.that(done.returncode == 1 and said in done.stderr, f"--process {name}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
