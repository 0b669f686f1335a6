"""`etwagent relog --part`: each part is the cut that `--where` with its condition makes, record for record, and the trace of `--output` is what it is without
parts; all in one pass. A run that fails leaves none of them.
"""
import collections
import json

import harness
import naive_etl


def records(env, path):
    lines = env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()
    return collections.Counter(line for line in lines if '"name":"EventTrace/Header"' not in line)


def relog(env, *words):
    return json.loads(env.run([env.agent, "relog", *words, "--json"]).stdout)


def names(env):
    return sorted(path.name for path in env.folder.iterdir())


def check_parts(env, checks, path, words):
    conditions = {"a": "pid == 4", "b": "cpu == 0 && opcode == 10", "none": "pid == 0xfffffff0"}
    parts = [word for name, condition in conditions.items() for word in ("--part", f"{env.folder / name}.etl: {condition}")]
    alone, whole, out, lines = (env.folder / name for name in ("alone.etl", "whole.etl", "out.etl", "out.jsonl"))
    relog(env, path, "-o", whole, *(words if "--from" in words else []))  # --bare goes with a choice
    said = relog(env, path, "-o", out, "-o", lines, *parts, *words)
    checks.equal([part["output"] for part in said["parts"]], [str(out), *(str(env.folder / f"{name}.etl") for name in conditions)], f"{words}: the summary's parts")
    checks.that(records(env, out) == records(env, whole), f"{words}: the trace of all events")
    checks.equal(len(lines.read_text(encoding="utf-8").splitlines()), naive_etl.parse(out)["events"], f"{words}: lines")
    for (name, condition), part in zip(conditions.items(), said["parts"][1:]):
        mine = records(env, env.folder / f"{name}.etl")
        relog(env, path, "-o", alone, "--where", condition, *words)
        checks.that(mine == records(env, alone), f"{words}: {condition}: {sum(mine.values())} records")
        checks.equal((part["written"], part["bytes"]), (sum(mine.values()), (env.folder / f"{name}.etl").stat().st_size), f"{words}: {condition}: the summary")
        checks.equal(naive_etl.parse(env.folder / f"{name}.etl")["warnings"], [], f"{words}: {condition}: a naive reader")
    checks.equal(said["written"], said["read"] - said["dropped"] + said["added"], f"{words}: the summary's sum")
    # without the trace of all events; what two parts have is in both
    before = names(env)
    said = relog(env, path, "--part", f"{env.folder / 'a.etl'}: pid == 4", "--part", f"{env.folder / 'b.etl'}: pid == 4", "--mark", "start=both", *words)
    checks.equal((said["output"], names(env), len(said["parts"])), (None, before, 2), f"{words}: parts alone")
    checks.that(records(env, env.folder / "a.etl") == records(env, env.folder / "b.etl"), f"{words}: two parts of one condition")
    # forms alone: the trace that they are made of is no part
    said = relog(env, path, "-o", lines, "--part", f"{env.folder / 'a.etl'}: pid == 4", *words)
    checks.equal(([part["output"] for part in said["parts"]], names(env)), ([str(env.folder / "a.etl")], before), f"{words}: forms and a part")
    for name in before:
        if name != path.name:
            (env.folder / name).unlink()


def test(env, checks, _):
    path = env.folder / "in.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", "26", "--duration-ms", "80", "--out", path])
    check_parts(env, checks, path, ["--from", "start+20ms", "--to", "start+60ms"])
    check_parts(env, checks, path, ["--bare"])
    part = f"{env.folder / 'a.etl'}: pid == 4"
    (env.folder / "blocked.etl").mkdir()
    before = names(env)
    for words, code, reason in ((["--part", part, "--part", f"{env.folder / 'blocked.etl'}: pid == 5"], 1, "expected a file, or a name"),
                                (["--part", "pid == 4"], 2, "expected FILE: CONDITION"), (["--part", f"{env.folder / 'a.etl'}: pid ==="], 2, "pid ==="),
                                (["--part", f"{env.folder / 'a.csv'}: pid == 4"], 2, "a part is a trace"), (["--part", part, "--split", "1s"], 2, "exclude each other"),
                                (["--part", part, "--part", part], 1, "another output of this one, writes it")):
        done = env.run([env.agent, "relog", path, *words], check=False)
        checks.that(done.returncode == code and reason in done.stderr, f"{words}: {done.returncode} {done.stderr}")
    checks.equal(names(env), before, "what runs leave that fail")


if __name__ == "__main__":
    harness.main(test, __doc__)
