"""`etwagent stacks` joins every stack of a trace as an exhaustive offline join does that has the whole trace in memory
(naive_stacks.py): on every real trace with stacks, and on generated ones whose truth is known. Then generated traces against
that truth: each half that was logged is at its event, with all its addresses. A window that is too small loses only what it says.
"""
import bisect
import collections
import json
import subprocess

import harness
import naive_stacks
import test_tracegen
import traces

REAL = ["clr-kernel-win8-x64", "tracelogging-win11-20cpu", "diagsession-four-files"]
# preset -> ms
GENERATED = {"stacks": 700, "office": 700, "32-bit": 400, "web-server": 500, "wow64": 500, "late-halves": 2000, "late-lossy": 2000,
             "late-narrow": 2000, "late-keyed": 2000, "late-keyed-narrow": 2000, "reused": 4000}
# scenarios that are no presets: late halves with losses (a key whose definition is lost means another stack), and with 32-bit addresses
VARIANTS = {"late-lossy": "base: late-halves\nstacks: {keys: no}\nloss: {events_windows: 6, lasts_us: 40000}\n",
            "late-narrow": "base: 32-bit\nstacks: {of: {events: 100}, far_percent: 50, late_percent: 80, odd_percent: 8}\n",
            # long enough that threads' numbers come again, in other processes
            "reused": "base: stacks\nmachine: {cpus: 1}\nsession: {events: [process, thread, image, cswitch, readythread, "
                      "sample, pmc, config, stack]}\nstacks: {of: {syscalls: 0, files: 0, disk: 0, memory: 0}}\n",
            "late-keyed": "base: late-halves\nstacks: {keys: yes, header_keys: yes, key_cache: 48}\n",
            "late-keyed-narrow": "base: 32-bit\nstacks: {of: {events: 100}, far_percent: 50, late_percent: 80, odd_percent: 8, keys: yes, header_keys: yes}\n"}
LATE = [name for name in GENERATED if name.startswith("late")]
NOT_JOINED = ["no_event", "too_late", "other_thread", "taken", "no_match_id", "no_clr_event", "too_short", "no_room"]


class Listed:
    """What `etwagent stacks --list` prints."""

    def __init__(self, agent, paths):
        self.events, self.stacks = {}, {}
        text = subprocess.run([agent, "stacks", "--list", *paths], check=True, capture_output=True, text=True).stdout
        for line in text.splitlines():
            row = json.loads(line)
            if "event" in row:
                self.events[row["event"]] = row
            else:
                self.stacks[row["stack"]] = row["addresses"] and tuple(int(a, 16) for a in row["addresses"])

    def halves(self, ordinal):
        row = self.events.get(ordinal, {})
        return {half: (self.stacks[row[half]["stack"]], row[half]["how"]) for half in ("kernel", "user") if half in row}


def records(agent, paths):
    text = subprocess.run([agent, "dump", "--format", "raw", *paths], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def summary(agent, paths, *options):
    return json.loads(subprocess.run([agent, "stacks", "--json", *options, *paths], check=True, capture_output=True, text=True).stdout)


def check_join(env, checks, name, paths):
    judge = naive_stacks.Join(records(env.agent, paths))
    listed, summary_row = Listed(env.agent, paths), summary(env.agent, paths)
    wrong = [event.ordinal for event in judge.events if event.halves != listed.halves(event.ordinal)]
    checks.that(not wrong, f"{name}: {len(wrong)} events have other stacks than the exhaustive join gives them, first {wrong[:1]}")
    checks.equal(summary_row["unanswered"], judge.unanswered, f"{name}: events whose user half never came")
    outcomes = {key: summary_row[key] for key in ["in_event", "joined", "ambiguous", *NOT_JOINED] if summary_row[key]}
    checks.equal(outcomes, dict(judge.outcomes), f"{name}: what became of each half")
    matched, orphaned, every = summary_row["in_event"] + summary_row["joined"], sum(summary_row[key] for key in NOT_JOINED), max(summary_row["halves"], 1)
    print(f"{name}: {summary_row['halves']} halves, {summary_row['stacks']} distinct: matched {100 * matched / every:.3f} %, ambiguous "
          f"{100 * summary_row['ambiguous'] / every:.3f} %, orphaned {100 * orphaned / every:.3f} %; {summary_row['keys_undefined']} keys undefined, "
          f"{summary_row['unanswered']} unanswered")
    return judge, listed, summary_row


def check_truth(checks, name, judge, listed, summary_row, rows):
    """Each half that the generator logged is at an event of its time and thread, whole, and nothing else is."""
    frames = {row["id"]: tuple(int(a, 16) for a in row["addresses"]) for row in rows if row["type"] == "frames"}
    want = collections.Counter((row["event_raw"], row["half"], frames[row["frames"]], row.get("in_header", False)) for row in rows
                               if row["type"] == "stack" and not row.get("lost") and not row.get("again"))
    got = collections.Counter((event.clock, half, addresses, how == "in_event") for event in judge.events
                              for half, (addresses, how) in listed.halves(event.ordinal).items())
    missing, more = sum((want - got).values()), sum((got - want).values())
    if any(row["type"] == "loss" for row in rows):
        orphaned = sum(summary_row[key] for key in NOT_JOINED)
        checks.that(missing <= orphaned and not more, f"{name}: {missing} halves are missing, {orphaned} are counted as orphaned, {more} "
                    "are not in the truth")
    else:
        checks.that(not missing and not more, f"{name}: of {sum(want.values())} halves {missing} are missing, {more} are not in the truth")
    checks.equal(sum(got.values()), summary_row["in_event"] + summary_row["joined"] + summary_row["ambiguous"], f"{name}: halves listed and counted")


def check_match_ids(checks, name, summary_row, rows):
    """Kernel halves without a user half, and user halves for which no event waits (or waits any longer), are counted exactly."""
    logged = [row for row in rows if row["type"] == "stack" and "match_id" in row and not row.get("lost")]
    asked = {row["match_id"] for row in logged if row["half"] == "kernel"}
    answers = collections.Counter(row["match_id"] for row in logged if row["half"] == "user")
    unasked = sum(n - (match_id in asked) for match_id, n in answers.items())
    checks.equal(summary_row["unanswered"], len(asked - set(answers)), f"{name}: kernel halves whose user half never came")
    checks.equal(summary_row["no_match_id"], unasked, f"{name}: user halves that no event waits for")


def check_late(checks, name, judge, summary_row, rows):
    """The preset "late-halves" contains all the difficult cases of its description."""
    again = sum(row.get("again", False) and not row.get("lost") for row in rows)
    ordinals = sorted(ordinal for _, ordinal, _ in judge.late)
    between = sum(bisect.bisect_left(ordinals, ordinal) > bisect.bisect_right(ordinals, event.ordinal) for event, ordinal, _ in judge.late)
    far = max((ordinal - event.ordinal for event, ordinal, _ in judge.late), default=0)
    moved = sum(event.cpu != record["cpu"] for event, _, record in judge.late)
    print(f"{name}: {len(ordinals)} late halves: {moved} on another processor, {between} after other answers, the farthest {far} events after "
          f"its event; {again} came twice, {summary_row['unanswered']} never")
    checks.that(min(moved, between, again, summary_row["unanswered"]) > 0 and far > 2048, f"{name}: not all kinds of late halves are in it")
    keyed = sum("match_id" in row and "key" in row for row in rows)
    checks.equal(keyed > 0, "keyed" in name, f"{name}: {keyed} halves with match ids are by key")
    if any(row["type"] == "loss" for row in rows):
        checks.that(summary_row["no_match_id"] > again, f"{name}: no late half's event is lost")


def check_hard(checks, judge, summary_row, rows):
    """The preset "stacks" contains all the difficult cases of its description."""
    checks.that(summary_row["stacks"] >= 10000, f"the preset stacks has only {summary_row['stacks']} distinct stacks")
    checks.that(max(len(row["addresses"]) for row in rows if row["type"] == "frames") == 192, "no stack has 192 frames")
    keys = collections.defaultdict(set)
    for half, key in judge.keys.lives:
        keys[half].add(key)
    checks.that(keys["kernel"] & keys["user"], "no key means a stack of each half")
    checks.that(any(len(lives) > 2 for lives in judge.keys.lives.values()), "no key means several stacks in turn")


def check_reused(checks, rows):
    """Threads of several processes had the same number in turn, and stacks of both are in it."""
    processes = collections.defaultdict(set)
    for row in rows:
        if row["type"] == "stack" and row["tid"]:
            processes[row["tid"]].add(row["pid"])
    again = [tid for tid, pids in processes.items() if len(pids) > 1]
    checks.that(len(again) > 3, f"hardly a thread's number comes again: {again}")


def check_window(env, checks, trace):
    whole, small = summary(env.agent, [trace]), summary(env.agent, [trace], "--window", "64KiB")
    joined = ["in_event", "joined", "ambiguous"]
    gone = sum(whole[key] for key in joined) - sum(small[key] for key in joined)
    checks.equal(small["halves"], whole["halves"], "halves counted with a small window")
    checks.equal([small[key] - whole[key] for key in ("unanswered", "no_match_id")], [0, 0], "late halves whose event has left the window are no unknown ones")
    checks.that(0 < gone == sum(small[key] - whole[key] for key in NOT_JOINED), f"a small window: {gone} halves less, counted {small}")


def test(env, checks, arguments):
    if checks.real("stacks: every stack of real traces as an exhaustive join has them"):
        for name in REAL:
            check_join(env, checks, name, traces.paths(name, env.build))
        # no stack-bearing trace is left out
        for name in sorted(set(traces.names()) - set(REAL)):
            checks.equal(summary(env.agent, traces.paths(name, env.build))["halves"], 0, f"{name}: halves of stacks")
    for name, scenario in VARIANTS.items():
        (env.folder / f"{name}.yaml").write_text(scenario, encoding="utf-8")
    for name, milliseconds in GENERATED.items():
        milliseconds *= 5 if arguments.soak else 1
        preset = env.folder / f"{name}.yaml" if name in VARIANTS else name
        trace, truth = test_tracegen.generate(env.build, env.folder, name, "--preset", preset, "--duration-ms", str(milliseconds))
        judge, listed, summary_row = check_join(env, checks, name, [trace])
        rows = test_tracegen.rows(truth)
        check_truth(checks, name, judge, listed, summary_row, rows)
        check_match_ids(checks, name, summary_row, rows)
        if name in LATE:
            check_late(checks, name, judge, summary_row, rows)
        if name == "stacks":
            check_hard(checks, judge, summary_row, rows)
        if name == "reused":
            check_reused(checks, rows)
        if name in ("stacks", "late-halves"):
            check_window(env, checks, trace)


if __name__ == "__main__":
    harness.main(test, __doc__)
