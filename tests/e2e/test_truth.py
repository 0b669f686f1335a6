"""A machine whose truth is known: what the collector rebuilds from a generated trace equals what the generator says was so:
every process with its interval, who ran at random moments, modules, and what lay at random addresses.

# sanitizers: yes
"""
import datetime
import json
import random

import harness
import test_tracegen

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def to_ns(text):
    """RFC 3339 with seven digits, as the commands print it, to ns since 1970; None stays None."""
    if text is None:
        return None
    whole, fraction = text[:-1].split(".")
    seconds = int((datetime.datetime.fromisoformat(whole + "+00:00") - EPOCH).total_seconds())
    return seconds * 10**9 + int(fraction.ljust(9, "0")[:9])


def to_text(ns):
    moment = EPOCH + datetime.timedelta(seconds=ns // 10**9)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def is_alive(row, ns):
    return (row["begin_utc_ns"] is None or row["begin_utc_ns"] <= ns) and (row["end_utc_ns"] is None or ns < row["end_utc_ns"])


def check_seed(env, checks, seed, options, moments):
    name = f"seed {seed}"
    host = f"machine-{seed}"
    trace, truth_file = test_tracegen.generate(env.build, env.folder, name.replace(" ", "-"), "--seed", str(seed), *options)
    truth = test_tracegen.rows(truth_file)
    processes = [row for row in truth if row["type"] == "process"]
    modules = [row for row in truth if row["type"] == "module"]
    machine = next(row for row in truth if row["type"] == "machine")
    collector = env.new_collector(host).start()
    env.replay([trace], collector, agent=host, spool=env.folder / f"spool-{host}")
    ask = ["--host", host]

    told = collector.ask_json("ps", "--all", *ask)["processes"]
    got = sorted((p["pid"], to_ns(p["begin"]) or 0, to_ns(p["end"]) or 0, p["ppid"], p["name"], p["command_line"], p["sid"],
                  p["session"]) for p in told)
    expected = sorted((p["pid"], p["begin_utc_ns"] or 0, p["end_utc_ns"] or 0, p["parent_pid"], p["image"], p["command_line"],
                       p["sid"], p["session_id"]) for p in processes)
    checks.equal(len(got), len(expected), f"{name}: number of processes")
    for ours, true in zip(got, expected):
        if not checks.that(ours == true, f"{name}: a process is {ours}, the truth is {true}"):
            break

    rng = random.Random(seed)
    first, last = machine["start_utc_ns"] + 10**8, machine["end_utc_ns"]
    times = [rng.randrange(first, last) // 100 * 100 for _ in range(moments)]
    times += [p["begin_utc_ns"] for p in processes if p["begin_utc_ns"]][:20]  # an interval holds its beginning
    times += [p["end_utc_ns"] for p in processes if p["end_utc_ns"]][:20]      # and not its end
    asked = env.folder / f"{host}.times"
    asked.write_text("".join(to_text(ns) + "\n" for ns in times))
    answers = collector.ask("ps", "--at-file", asked, "--json", *ask).splitlines()
    checks.equal(len(answers), len(times), f"{name}: answers")
    for ns, line in zip(times, answers):
        ours = sorted((p["pid"], p["name"]) for p in json.loads(line)["processes"])
        true = sorted((p["pid"], p["image"]) for p in processes if is_alive(p, ns))
        if not checks.that(ours == true, f"{name}: at {to_text(ns)} {ours}, the truth is {true}"):
            break

    for ns in times[:10]:
        pid = rng.choice([p["pid"] for p in processes if is_alive(p, ns)])
        mine = [m for m in modules if m["pid"] == pid and is_alive(m, ns)]
        answer = env.run([collector.env.collector, "modules", "--store", collector.store, *ask, "--at", to_text(ns), "--pid", pid,
                          "--json"], check=False)
        listed = json.loads(answer.stdout)["modules"] if answer.returncode == 0 else []
        ours = sorted((int(str(m["base"]), 0), m["size"], m["path"], m["pdb"] and m["pdb"]["guid"]) for m in listed)
        true = sorted((int(m["base"], 0), m["size"], m["path"], m["pdb_guid"]) for m in mine)
        checks.equal(ours, true, f"{name}: modules of {pid} at {to_text(ns)}")
        if mine:
            module = rng.choice(mine)
            offset = rng.randrange(module["size"])
            said = collector.ask("where", *ask, "--at", to_text(ns), "--pid", str(pid), hex(int(module["base"], 0) + offset))
            file = module["path"].rsplit("\\", 1)[1]
            checks.equal(said.strip(), f"{file}+{hex(offset)}", f"{name}: an address of {pid} at {to_text(ns)}")
    collector.stop()


def test(env, checks, arguments):
    seeds = range(1, 13 if arguments.soak else 3)
    env.make_certificates(agents=[f"machine-{seed}" for seed in seeds])
    for seed in seeds:
        check_seed(env, checks, seed, ["--compress"] if seed % 2 else [], 1000 if arguments.soak else 200)


if __name__ == "__main__":
    harness.main(test, __doc__)
