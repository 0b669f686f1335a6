"""Machines whose truth is known: what the collector rebuilds from a generated trace of every preset equals what the generator
says was so: every process, thread and module with its interval, who ran at random moments, and what lay at random addresses.
What the machine's session has lost may be missing, and nothing else. Detections in SQL find the steps of the attack, and who took
them.

# sanitizers: asan-ubsan
"""
import collections
import datetime
import json
import random
import sqlite3

import harness
import test_tracegen

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
OPEN = 2**63 - 1


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


def is_recorded(row):
    return "begin_lost" not in row and "end_lost" not in row


def unsigned(value):
    """What the state tables keep with the highest bit turned over."""
    return (value & 0xFFFFFFFFFFFFFFFF) ^ 0x8000000000000000


def compare(checks, name, ours, true, lost):
    """Two lists of tuples; with losses ours may have other rows, too."""
    ours, true = collections.Counter(ours), collections.Counter(true)
    missing = list((true - ours).elements())
    checks.that(not missing, f"{name}: {len(missing)} of {true.total()} are not there, as {sorted(missing, key=str)[:2]}")
    more = list((ours - true).elements())
    checks.that(lost or not more, f"{name}: {len(more)} more than are true, as {sorted(more, key=str)[:2]}")


def check_tables(checks, name, collector, truth, lost):
    """The whole state."""
    database = sqlite3.connect(f"file:{collector.store / 'state.db'}?mode=ro", uri=True)

    def life(begin_cause, begin, end_cause, end):
        return (begin if begin_cause == 0 else None, end if end_cause != 0 and end != OPEN else None)

    def true_life(row):
        return row["begin_utc_ns"], row["end_utc_ns"]

    ours = [(pid, ppid, image, command, sid, session, f"{unsigned(key):#x}", *life(*interval))
            for pid, ppid, image, command, sid, session, key, *interval in database.execute(
                "SELECT pid, parent_pid, image_name, command_line, sid, session_id, unique_key, begin_cause, begin_utc_ns, end_cause, "
                "end_utc_ns FROM processes")]
    compare(checks, f"{name}: processes", ours,
            [(p["pid"], p["parent_pid"], p["image"], p["command_line"], p["sid"], p["session_id"], p["unique_key"], *true_life(p))
             for p in truth["process"] if is_recorded(p)], lost)
    has_names = any(database.execute("SELECT 1 FROM threads WHERE name != ''"))
    ours = [(tid, pid, f"{unsigned(stack):#x}", f"{unsigned(start):#x}", text, *life(*interval))
            for tid, pid, stack, start, text, *interval in database.execute(
                "SELECT tid, pid, stack_base, win32_start_address, name, begin_cause, begin_utc_ns, end_cause, end_utc_ns FROM threads")]
    compare(checks, f"{name}: threads", ours,
            [(t["tid"], t["pid"], t["stack_base"], t["start"], t["name"] if has_names else "", *true_life(t))
             for t in truth["thread"] if is_recorded(t)], lost)
    has_pdbs = any(database.execute("SELECT 1 FROM modules WHERE pdb_age"))
    ours = [(pid, f"{unsigned(base):#x}", size, path, checksum, stamp, pdb or "", age if has_pdbs else 0, *life(*interval))
            for pid, base, size, path, checksum, stamp, pdb, age, *interval in database.execute(
                "SELECT pid, base, size_bytes, path, checksum, timestamp, pdb_path, pdb_age, begin_cause, begin_utc_ns, end_cause, "
                "end_utc_ns FROM modules")]
    compare(checks, f"{name}: modules", ours,
            [(m["pid"], m["base"], m["size"], m["path"], m["checksum"], m["timestamp"], m["pdb_name"] if has_pdbs else "",
              m["pdb_age"] if has_pdbs else 0, *true_life(m)) for m in truth["module"] if is_recorded(m)], lost)
    database.close()


# technique and kind of step -> who took it, in SQL
DETECTIONS = {
    ("T1566.001", "start"):
        "SELECT p.pid FROM processes c JOIN processes p ON p.process_key = c.parent_key "
        "WHERE p.image_name = 'winword.exe' AND c.image_name = 'powershell.exe'",
    ("T1218.011", "load"):
        "SELECT m.pid FROM modules m JOIN processes p ON p.process_key = m.process_key "
        "WHERE p.image_name = 'rundll32.exe' AND m.path LIKE '%\\Temp\\%'",
    ("T1055.001", "inject-thread"):
        "SELECT t.pid FROM \"Thread/Start\" t JOIN processes p ON p.host = t.host AND p.pid = t.ProcessId WHERE t.pid <> t.ProcessId "
        "AND t.pid <> p.parent_pid AND t.time >= p.begin AND (p.\"end\" IS NULL OR t.time < p.\"end\")",
    ("T1547.001", "set-value"): "SELECT pid FROM \"Registry/SetValue\" WHERE KeyName = 'OneDriveSync'",
    ("T1003.001", "start"): "SELECT parent_pid AS pid FROM processes WHERE command_line LIKE '%comsvcs.dll%MiniDump%'",
    ("T1041", "connect"): "SELECT PID_2 AS pid FROM \"TcpIp/SendIPV6\" GROUP BY PID_2, daddr HAVING sum(size) > 1000000",
}


def check_detections(checks, collector, steps):
    for (technique, kind), statement in DETECTIONS.items():
        true = sorted({step["pid"] for step in steps if step["technique"].startswith(technique) and step["does"] == kind})
        found = [json.loads(line)["pid"] for line in collector.ask("query", "--format", "jsonl", statement).splitlines()]
        checks.that(true and sorted(set(found)) == true, f"attack: {technique} {kind} is found at {found}, the truth is {true}")


def check_preset(env, checks, preset, arguments):
    name = host = f"machine-{preset}"
    options = ["--compress"] if preset in ("office", "idle", "32-bit") else []
    trace, truth_file = test_tracegen.generate(env.build, env.folder, preset, *options,
                                               *test_tracegen.short_form(preset, 5 if arguments.soak else 1))
    truth = collections.defaultdict(list)
    for row in test_tracegen.rows(truth_file):
        truth[row["type"]].append(row)
    processes, modules, machine = truth["process"], truth["module"], truth["machine"][0]
    lost = bool(truth["loss"])
    collector = env.new_collector(host).start()
    env.replay([trace], collector, agent=host, spool=env.folder / f"spool-{host}")
    ask = ["--host", host]

    collector.ask_json("ps", "--all", *ask)  # waits until the state is there
    check_tables(checks, name, collector, truth, lost)

    if preset == "attack":
        check_detections(checks, collector, truth["step"])
    rng = random.Random(preset)
    first, last = machine["start_utc_ns"] + 10**6, machine["end_utc_ns"]
    times = [rng.randrange(first, last) // 100 * 100 for _ in range(1000 if arguments.soak else 60)]
    times += [p["begin_utc_ns"] for p in processes if p["begin_utc_ns"]][:20]  # an interval holds its beginning
    times += [p["end_utc_ns"] for p in processes if p["end_utc_ns"]][:20]      # and not its end
    asked = env.folder / f"{host}.times"
    asked.write_text("".join(to_text(ns) + "\n" for ns in times))
    answers = collector.ask("ps", "--at-file", asked, "--json", *ask).splitlines()
    checks.equal(len(answers), len(times), f"{name}: answers")
    for ns, line in zip(times, answers):
        ours = {(p["pid"], p["name"]) for p in json.loads(line)["processes"]}
        true = {(p["pid"], p["image"]) for p in processes if is_recorded(p) and is_alive(p, ns)}
        if not checks.that(ours == true or (lost and ours >= true), f"{name}: at {to_text(ns)} {ours}, the truth is {true}"):
            break

    for ns in times[:10 if not lost else 0]:
        pid = rng.choice([p["pid"] for p in processes if is_alive(p, ns)])
        mine = [m for m in modules if m["pid"] == pid and is_alive(m, ns)]
        answer = env.run([env.collector, "modules", "--store", collector.store, *ask, "--at", to_text(ns), "--pid", pid,
                          "--json"], check=False)
        listed = json.loads(answer.stdout)["modules"] if answer.returncode == 0 else []
        ours = sorted((int(str(m["base"]), 0), m["size"], m["path"]) for m in listed)
        true = sorted((int(m["base"], 0), m["size"], m["path"]) for m in mine)
        checks.equal(ours, true, f"{name}: modules of {pid} at {to_text(ns)}")
        if mine:
            module = rng.choice(mine)
            offset = rng.randrange(module["size"])
            said = collector.ask("where", *ask, "--at", to_text(ns), "--pid", str(pid), hex(int(module["base"], 0) + offset))
            file = module["path"].rsplit("\\", 1)[1]
            checks.equal(said.strip(), f"{file}+{hex(offset)}", f"{name}: an address of {pid} at {to_text(ns)}")
    collector.stop()


def test(env, checks, arguments):
    env.make_certificates(agents=[f"machine-{preset}" for preset in test_tracegen.PRESETS])
    for preset in test_tracegen.PRESETS:
        check_preset(env, checks, preset, arguments)


if __name__ == "__main__":
    harness.main(test, __doc__)
