"""`etwagent relog --set`: of a generated trace, what rules name has its new value in the output, as a naive calculation has it, and all else
is equal: fields, texts that grow, members of headers, times. With a cut, what the cut adds is set, too. `--where` sees fields of ticks as
`dump --where` does. Wrong rules leave no output.
"""
import collections
import json

import harness


def dump(env, path, *words):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *words, path]).stdout.splitlines()]


def key(event):
    return json.dumps({name: value for name, value in event.items() if name != "session"}, sort_keys=True)


def relog(env, path, out, *words):
    return json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", *words]).stdout)


def change(event):
    """What the rules of the test do to an event."""
    fields = event["fields"]
    if event["name"] == "Process/DCStart":
        fields["CommandLine"] = "a command line that was replaced by a longer one: " * 4
        fields["ParentId"] = fields["ProcessId"] + 4
    elif event["name"] == "PerfInfo/SampleProf":
        event["tid"] = fields["ThreadId"]
    elif event["name"] == "Thread/CSwitch":
        event["cpu"] = 7
    return event


def check_values(env, checks, path, whole):
    out = env.folder / "set.etl"
    rules = ('Process/DCStart: CommandLine = "' + "a command line that was replaced by a longer one: " * 4 + '"', "Process/DCStart: ParentId = ProcessId + 4",
             "PerfInfo/SampleProf: tid = ThreadId", "Thread/CSwitch: cpu = 7")
    said = relog(env, path, out, *(word for rule in rules for word in ("--set", rule)))
    count = collections.Counter(event["name"] for event in whole)
    checks.that(count["Process/DCStart"] and count["PerfInfo/SampleProf"] and count["Thread/CSwitch"], f"events of the trace: {count}")
    checks.equal(said["set"], {"values": 2 * count["Process/DCStart"] + count["PerfInfo/SampleProf"] + count["Thread/CSwitch"], "absent": 0}, "the summary")
    wanted = collections.Counter(key(change(json.loads(json.dumps(event)))) for event in whole)
    got = collections.Counter(key(event) for event in dump(env, out) if event["name"] != "EventTrace/Header")
    checks.that(wanted == got, f"{sum((wanted - got).values())} events are missing: {list(wanted - got)[:1]} {list(got - wanted)[:1]}")
    text = env.run([env.agent, "relog", path, "-o", out, "--set", rules[0]]).stdout
    checks.that(f"set: {count['Process/DCStart']} values" in text, f"the summary as text: {text}")
    # times: a second later, so that all events of the class come after the others of their time
    said = relog(env, path, out, "--set", "PerfInfo/SampleProf: time = timestamp + 1000000000", "--buffer-size", "4KiB")
    later = [event["clock"] for event in dump(env, out, "--class", "PerfInfo/SampleProf")]
    second = said["set"]["values"] and later[0] - min(event["clock"] for event in whole if event["name"] == "PerfInfo/SampleProf")
    checks.equal((len(later), second, later == sorted(later)), (count["PerfInfo/SampleProf"], 10_000_000, True), "times: events, ticks of a second, order")
    # a provider of one's own
    relog(env, path, out, "--set", 'Thread/CSwitch: provider = "{01020304-0506-0708-090a-0b0c0d0e0f10}"', "--set", "Thread/CSwitch: opcode = 99")
    moved = dump(env, out, "--provider", "01020304-0506-0708-090a-0b0c0d0e0f10")
    checks.equal((len(moved), {event["opcode"] for event in moved}), (count["Thread/CSwitch"], {99}), "another provider")


def check_cut(env, checks, path):
    out = env.folder / "cut.etl"
    relog(env, path, out, "--from", "start+100ms", "--to", "start+200ms", "--set", "Process/DCStart: SessionId = 77")
    sessions = {event["fields"]["SessionId"] for event in dump(env, out, "--class", "Process/DCStart")}
    checks.equal(sessions, {77}, "the rundown of a cut")
    condition = "timestamp - InitialTime > 3000"
    relog(env, path, out, "--bare", "--class", "PerfInfo/DPC", "--where", condition)
    wanted = [event["clock"] for event in dump(env, path, "--class", "PerfInfo/DPC", "--where", condition)]
    every = len(dump(env, path, "--class", "PerfInfo/DPC"))
    got = [event["clock"] for event in dump(env, out, "--class", "PerfInfo/DPC")]
    checks.that(0 < len(wanted) < every and wanted == got, f"--where of ticks: {every} events, {len(wanted)} of dump, {len(got)} of relog")


def test(env, checks, arguments):
    tracegen = env.build / "tests" / "tracegen" / "tracegen"
    path, none = env.folder / "office.etl", env.folder / "none.etl"
    env.run([tracegen, "make", "--preset", "office", "--seed", "26", "--duration-ms", 300, "--out", path])
    check_values(env, checks, path, [event for event in dump(env, path) if event["name"] != "EventTrace/Header"])
    check_cut(env, checks, path)
    for rule, code in (("Process/DCStart", 2), ("Process/DCStart: NoSuch = 5", 1), ("Process/DCStart: ParentId = NoSuch", 2), ('Process/DCStart: ParentId = "x"', 2),
                       ("Process/DCStart: ParentId = 0x100000000", 1)):
        done = env.run([env.agent, "relog", path, "-o", none, "--set", rule], check=False)
        checks.equal((done.returncode, none.exists(), bool(done.stderr)), (code, False, True), f"--set {rule}: exit code, an output, a message: {done.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
