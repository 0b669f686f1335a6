"""`etwagent relog` and clocks: a trace whose clock counts processor cycles is merged into one of the performance counter, with the same
times, spans inside payloads and stacks; without --clock convert that fails. --shift and --start-at move all times, of a clock that is the system
time too, and nothing else. Files that are called x.etl.001 and so on are merged as any others.
"""
import collections
import datetime
import json
import struct

import harness
import naive_etl

SECOND_QPC, SECOND_CYCLES = 10_000_000, 2_593_000_000
TOLERANCE = 2.5e-7  # seconds: a tick, at both ends of a span


def make(env, name, milliseconds, machine=""):
    path, scenario = env.folder / f"{name}.etl", env.folder / f"{name}.yaml"
    scenario.write_text(f"base: office\n{machine}", encoding="utf-8")
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--seed", "26", "--duration-ms", milliseconds, "--out", path])
    return path


def raw(env, path):
    lines = env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["name"] != "EventTrace/Header"]


def relog(env, paths, out, *words, check=True):
    return env.run([env.agent, "relog", *paths, "-o", out, "--json", *words], check=check)


def at(text):
    """Seconds."""
    whole, fraction = text.rstrip("Z").split(".")
    return datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp(), float("0." + fraction)


def apart(a, b):
    return (at(a)[0] - at(b)[0]) + (at(a)[1] - at(b)[1])


def stack_count(env, path):
    said = [json.loads(line) for line in env.run([env.agent, "stacks", "--list", path]).stdout.splitlines()]
    return collections.Counter(bool(event.get("kernel")) + 2 * bool(event.get("user")) for event in said if "event" in event)


def check_convert(env, checks):
    first = make(env, "first", 20)
    cycles = make(env, "cycles", 200, "machine: {clock: cpu-cycles, mhz: 2593}\n")
    out, alone = env.folder / "out.etl", env.folder / "alone.etl"
    done = relog(env, [first, cycles], out, check=False)
    checks.equal((done.returncode, out.exists(), "clock" in done.stderr), (1, False, True), f"two clocks without --clock: {done.stderr}")
    said = json.loads(relog(env, [first, cycles], out, "--clock", "convert").stdout)
    before, after = raw(env, cycles), raw(env, out)
    checks.equal((said["written"], len(after)), (said["read"], said["read"]), "events")
    naive = naive_etl.parse(out)
    checks.equal((naive["warnings"], naive["bad"], naive["clock"], naive["perf_freq"]), ([], [], 1, SECOND_QPC), "a naive reader")
    # what is of the other trace alone: the first one's events, once each, are taken away
    mine = collections.Counter((e["clock"], e["cpu"], e["name"], e["payload"]) for e in raw(env, first))
    converted = []
    for event in after:
        key = (event["clock"], event["cpu"], event["name"], event["payload"])
        if mine[key]:
            mine[key] -= 1
        else:
            converted.append(event)
    checks.equal((len(converted), sum(mine.values())), (len(before), 0), "events of each trace")
    # of one processor the order stays, so that they can be compared one by one
    by_cpu = [collections.defaultdict(list) for _ in range(2)]
    for events, place in ((before, by_cpu[0]), (converted, by_cpu[1])):
        for event in events:
            place[event["cpu"], event["name"]].append(event)
    checks.equal({key: len(v) for key, v in by_cpu[1].items()}, {key: len(v) for key, v in by_cpu[0].items()}, "events of each class and processor")
    spans = 0
    for key, events in by_cpu[0].items():
        for a, b in zip(events, by_cpu[1][key]):
            checks.that(abs(apart(a["time"], b["time"])) <= TOLERANCE, f"{key}: {a['time']} became {b['time']}")
            if key[1] in ("PerfInfo/DPC", "PerfInfo/ISR"):
                began = [struct.unpack_from("<q", bytes.fromhex(e["payload"]))[0] for e in (a, b)]
                wanted, got = (a["clock"] - began[0]) / SECOND_CYCLES, (b["clock"] - began[1]) / SECOND_QPC
                checks.that(abs(wanted - got) <= TOLERANCE, f"{key}: lasts {wanted} s, {got} s converted")
                spans += 1
    checks.that(spans > 10, f"{spans} spans were compared")
    relog(env, [first, cycles], alone, "--clock", "convert", "--bare", "--from", "end-60s")  # all of both
    wanted = stack_count(env, first) + stack_count(env, cycles)
    checks.that(wanted[3] and stack_count(env, out) == wanted, f"stacks: {wanted} of both, {stack_count(env, out)} of the output")
    checks.equal(len(raw(env, alone)), said["read"], "a cut of both")


def check_shift(env, checks):
    plain = make(env, "plain", 50)
    system = make(env, "system", 50, "machine: {clock: system-time}\n")
    out = env.folder / "shifted.etl"
    for path, ticks in ((plain, 0), (system, 20_000_000)):
        before = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()]
        for words, seconds in ((("--shift", "2s"), 2), (("--shift=-2s",), -2)):
            relog(env, [path], out, *words)
            after = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", out]).stdout.splitlines()]
            checks.equal(len(after), len(before), f"{path.name} {words}: events")
            wrong = [(a["time"], b["time"]) for a, b in zip(before, after) if abs(apart(b["time"], a["time"]) - seconds) > 1e-7]
            checks.equal(wrong[:3], [], f"{path.name} {words}: times")
            sign = 1 if seconds > 0 else -1
            wrong = [(a["clock"], b["clock"]) for a, b in zip(before, after) if b["clock"] - a["clock"] != sign * ticks and a["name"] != "EventTrace/Header"]
            checks.equal(wrong[:3], [], f"{path.name} {words}: ticks")
            checks.that(all(a["payload"] == b["payload"] for a, b in zip(before, after) if a["name"] != "EventTrace/Header"), f"{path.name} {words}: payloads")
            checks.equal(naive_etl.parse(out)["warnings"], [], f"{path.name} {words}: a naive reader")
    key = env.folder / "key"
    key.write_bytes(bytes(range(32)))
    relog(env, [system], out, "--shift", "2s", "--redact", "host", "--key", key)
    headers = [next(json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", of]).stdout.splitlines() if '"EventTrace/Header"' in line)
               for of in (system, out)]
    checks.equal(headers[1]["clock"] - headers[0]["clock"], 20_000_000, "--shift with --redact: ticks of the header event")
    relog(env, [plain], out, "--start-at", "2020-02-03T04:05:06Z")
    header = next(json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", out]).stdout.splitlines() if '"EventTrace/Header"' in line)
    checks.equal(header["time"], "2020-02-03T04:05:06.0000000Z", "--start-at")
    for words in (("--shift", "soon"), ("--shift", "1ns"), ("--start-at", "never"), ("--shift", "1s", "--start-at", "now"), ("--start-at", "start")):
        done = relog(env, [plain], env.folder / "none.etl", *words, check=False)
        checks.equal((done.returncode, (env.folder / "none.etl").exists()), (2, False), f"{words}: {done.stderr}")
    return plain


def test(env, checks, arguments):
    check_convert(env, checks)
    plain = check_shift(env, checks)
    env.run([env.agent, "relog", plain, "-o", env.folder / "x.etl", "--bare", "--split", "10ms"])
    rolls = []
    for number, part in enumerate(sorted(env.folder.glob("x.0*.etl")), 1):
        rolls.append(env.folder / f"x.etl.{number:03}")
        part.rename(rolls[-1])
    merged = env.folder / "merged.etl"
    relog(env, rolls, merged)
    keys = [collections.Counter(json.dumps(e, sort_keys=True) for e in raw(env, path)) for path in (plain, merged)]
    checks.that(len(rolls) > 3 and keys[0] == keys[1], f"{len(rolls)} files x.etl.001 and on, merged")


if __name__ == "__main__":
    harness.main(test, __doc__)
