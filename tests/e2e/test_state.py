"""The machine's state: what the collector rebuilt from a trace against a naive recomputation from the lines of `dump`.

- In the two kernel traces the state folded from the records before the first DCEnd equals the set that the DCEnd records
  then name: processes, threads, modules.
- Every instance in the state tables, of every trace with a kernel rundown, equals the naive one: interval and fields.
- `ps` gives the naive answer at 1,000 random moments, and so do `ps --at`, `modules` and `where` at some of them.
- kill -9 of the collector in mid-replay and in mid-fold changes nothing of it; the tables can be deleted.

# sanitizers: asan-ubsan
"""
import json
import random
import signal
import sqlite3
import subprocess
import time

import harness
import naive_accounts
import naive_state
import traces

TRACES = ["clr-kernel-win8-x64", "shutdown-win10", "tracelogging-win11-20cpu", "diagsession-four-files"]
KERNEL_RUNDOWNS = {"clr-kernel-win8-x64": {"process": 0, "thread": 0, "module": 0},
                   "shutdown-win10": {"process": 3, "thread": 11, "module": 120}}  # ends without a start
SANITIZED = ["shutdown-win10"]  # the others take too long under a sanitizer
MOMENTS = 1000


def dumped_lines(env, paths):
    """The lines of a dump as objects. Only those that matter are parsed; of the others the time is enough."""
    process = subprocess.Popen([str(env.agent), "dump", "--no-names", "--format", "jsonl", *map(str, paths)], stdout=subprocess.PIPE,
                               stdin=subprocess.DEVNULL)
    lines = 0
    for lines, text in enumerate(process.stdout, 1):
        last_is_out = lines == 1 or any(provider.encode() in text for provider in naive_state.PROVIDERS)
        if last_is_out:
            yield json.loads(text)
    process.stdout.close()
    if process.wait() != 0:
        raise harness.Failure(f"dump of {paths} ended with {process.returncode}")
    if lines and not last_is_out:
        yield json.loads(text)  # it says when the data ends


def naive_machine(env, paths):
    machine = naive_state.Machine()
    for line in dumped_lines(env, paths):
        machine.feed(line)
    return machine


# ---- the tables ----

def to_address(value):
    return (value & 0xFFFFFFFFFFFFFFFF) ^ 0x8000000000000000


def table_rows(path, host):
    """All instances as (kind, key, begin, end, known_by, ended_by, fields): the same form as naive_rows. Times in 100 ns."""
    known_by = ["start", "rundown_start", "rundown_end", "end"]
    ended_by = [None, "end", "replaced", "process_end", "evicted", "keyframe", "rundown"]
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
    db.row_factory = sqlite3.Row
    found = []
    for table in ("processes", "threads", "modules"):
        for r in db.execute(f"SELECT t.* FROM {table} t JOIN streams USING(stream) WHERE host = ?", (host,)):
            if table == "processes":
                kind, key = "process", r["pid"]
                fields = {"pid": r["pid"], "ppid": r["parent_pid"], "session": r["session_id"],
                          "unique_key": to_address(r["unique_key"]), "flags": r["flags"], "name": r["image_name"],
                          "directory_table_base": to_address(r["directory_table_base"]), "sid": r["sid"],
                          "command_line": r["command_line"], "package": r["package"], "application": r["application"], "mandatory_label": r["mandatory_label"],
                          "elevation_type": r["elevation_type"], "elevated": r["elevated"], "logon_id": to_address(r["logon_id"])}
                if ended_by[r["end_cause"]] == "end":
                    fields["exit_status"] = r["exit_status"]
            elif table == "threads":
                kind = "thread"
                fields = {"pid": r["pid"], "tid": r["tid"], "stack_base": to_address(r["stack_base"]), "name": r["name"],
                          "start_address": to_address(r["start_address"]), "teb": to_address(r["teb"]),
                          "win32_start_address": to_address(r["win32_start_address"])}
                key = (r["tid"], fields["stack_base"] if r["tid"] == 0 else 0)
                if r["tid"] == 0:
                    fields["cpu"] = r["cpu"]
            else:
                kind = "module"
                fields = {"pid": r["pid"], "base": to_address(r["base"]), "size": r["size_bytes"], "path": r["path"],
                          "default_base": to_address(r["default_base"]), "checksum": r["checksum"],
                          "timestamp": r["timestamp"], "original_name": r["original_name"], "kind": ("image", "announced")[r["kind"]]}
                key = (r["pid"], fields["base"])
                if r["pdb_guid"] is not None:
                    fields["pdb"] = (r["pdb_guid"], r["pdb_age"], r["pdb_path"])
            end = naive_state.FOREVER if r["end_utc_ns"] == (1 << 63) - 1 else r["end_utc_ns"] // 100
            found.append((kind, key, r["begin_utc_ns"] // 100, end, r["seen_utc_ns"] // 100, known_by[r["begin_cause"]],
                          ended_by[r["end_cause"]], {k: v for k, v in fields.items() if v}))
    db.close()
    return sorted(found, key=repr)


def naive_rows(machine):
    return sorted(((i.kind, i.key, i.begin, i.end, i.seen, i.known_by, i.ended_by, {
        k: v for k, v in i.values.items() if v and not (k == "exit_status" and i.ended_by != "end")})
        for i in machine.instances), key=repr)


def compare_tables(checks, name, collector, machine):
    got, expected = table_rows(collector.store / "state.db", host_of(name)), naive_rows(machine)
    checks.equal(len(got), len(expected), f"{name}: number of instances")
    for a, b in zip(got, expected):
        if a != b:
            checks.equal(a, b, f"{name}: first instance that differs")
            return
    checks.that(len(got) > 100, f"{name}: hardly anything to compare")


# ---- the commands ----

def host_of(name):
    return f"machine-{name}"


def naive_processes(machine, moment):
    """What ps must say of each process alive then, by pid."""
    return sorted((
        i.values["pid"], i.get("ppid"), i.get("session"), i.get("name", ""), i.get("command_line", ""), i.get("sid") or None,
        naive_accounts.name_of(i.get("sid")), i.get("package") or None, i.get("application") or None, i.get("unique_key"),
        naive_state.format_time(i.begin) if i.known_by == "start" else None, naive_state.format_time(i.begin),
        naive_state.format_time(i.seen), i.known_by, None if i.end == naive_state.FOREVER else naive_state.format_time(i.end),
        i.ended_by) for i in machine.alive("process", moment))


def answered_processes(answer):
    return sorted((p["pid"], p["ppid"], p["session"], p["name"], p["command_line"], p["sid"], p["account"], p["package"], p["application"],
                   int(p["unique_key"], 16), p["begin"], p["not_before"], p["not_after"], p["known_by"], p["end"],
                   p["ended_by"]) for p in answer["processes"])


def moments_of(machine, dice, count):
    """Random moments, half of them anywhere in the data and half close to something that happened. None is the printed time
    of such an event: a line shows whole 100 ns, the tables know the ns."""
    events = sorted({t for i in machine.instances if i.kind == "process" for t in (i.begin, i.end, i.seen)
                     if t != naive_state.FOREVER})
    chosen = []
    while len(chosen) < count:
        if dice.random() < 0.5:
            moment = dice.randrange(machine.first_time, machine.last_time + 10_000_000)
        else:
            moment = dice.choice(events) + dice.choice([-1, 1]) * dice.choice([1, 2, 10, 1000, 100_000, 10_000_000])
        if moment > machine.first_time and moment not in events:
            chosen.append(moment)
    return chosen


def check_moments(env, checks, name, collector, machine, count):
    """One run of ps that answers all moments, and single runs that must answer the same."""
    dice = random.Random(f"state of {name}")
    moments = moments_of(machine, dice, count)
    file = env.folder / "moments"
    file.write_text("".join(naive_state.format_time(m) + "\n" for m in moments))
    lines = collector.ask("ps", "--host", host_of(name), "--json", "--at-file", file).splitlines()
    checks.equal(len(lines), len(moments), f"{name}: answers of ps")
    right, sizes = 0, set()
    for moment, line in zip(moments, lines):
        got, expected = answered_processes(json.loads(line)), naive_processes(machine, moment)
        sizes.add(len(expected))
        if got == expected:
            right += 1
        elif right >= 0:
            checks.equal(got, expected, f"{name}: ps at {naive_state.format_time(moment)}")
            right = -1 << 30
    checks.equal(right, len(moments), f"{name}: moments at which ps agrees with the naive answer")
    checks.that(len(sizes) > 1, f"{name}: the processes never change, which proves nothing")
    for moment in dice.sample(moments, 5):
        answer = collector.ask_json("ps", "--host", host_of(name), "--at", naive_state.format_time(moment))
        checks.equal(answered_processes(answer), naive_processes(machine, moment),
                     f"{name}: ps --at {naive_state.format_time(moment)}")
        tree = collector.ask("ps", "--host", host_of(name), "--at", naive_state.format_time(moment), "--tree").splitlines()
        checks.equal(sorted(int(line.split()[0]) for line in tree[1:]), [p[0] for p in naive_processes(machine, moment)],
                     f"{name}: pids of the tree")
        user, after = tree[0].index("USER"), tree[0].index("NAME")
        checks.equal(sorted((int(line.split()[0]), line[user:after].strip()) for line in tree[1:]),
                     sorted((p[0], p[6] or p[5] or "-") for p in naive_processes(machine, moment)), f"{name}: users of the tree")
    for word, moment in (("start", machine.first_time), ("end", machine.last_time)):
        answer = collector.ask_json("ps", "--host", host_of(name), "--at", word)
        checks.equal(answered_processes(answer), naive_processes(machine, moment), f"{name}: ps --at {word}")
        checks.equal(naive_state.parse_time(answer["time"]), moment, f"{name}: time of {word}")
    everything = collector.ask_json("ps", "--host", host_of(name), "--all")["processes"]
    checks.equal(len(everything), sum(i.kind == "process" for i in machine.instances), f"{name}: ps --all")


def check_modules(env, checks, name, collector, machine, count):
    dice = random.Random(f"modules of {name}")
    moments = [m for m in moments_of(machine, dice, 50)]
    modules = [i for i in machine.instances if i.kind == "module"]
    for n in range(count):
        moment = dice.choice(moments)
        alive = [i for i in modules if i.alive(moment)]
        if not alive:
            continue
        pid = 0 if n == 0 else dice.choice(alive).values["pid"]
        theirs = [i for i in alive if i.values["pid"] == pid]
        at = naive_state.format_time(moment)
        answer = json.loads(collector.ask("modules", "--host", host_of(name), "--json", "--pid", str(pid), "--at", at,
                                          check=bool(theirs)))
        got = sorted((int(m["base"], 16), m["size"], m["path"], m["original_name"], m["timestamp"],
                      tuple(m["pdb"].values()) if m["pdb"] else None, m["begin"], m["not_before"]) for m in answer["modules"])
        expected = sorted((i.values["base"], i.get("size"), i.get("path", ""), i.get("original_name") or None,
                           i.get("timestamp"), i.get("pdb") or None,
                           naive_state.format_time(i.begin) if i.known_by == "start" else None,
                           naive_state.format_time(i.begin)) for i in theirs)
        checks.equal(got, expected, f"{name}: modules of {pid} at {at}")
        # an address inside a module, one of the kernel, and one that may be anywhere
        inside, kernel = dice.choice(theirs or alive), [i for i in alive if i.values["pid"] == 0]
        addresses = [inside.values["base"] + dice.randrange(inside.get("size") or 1), dice.randrange(1 << 47)]
        addresses += [i.values["base"] + i.get("size") - 1 for i in dice.sample(kernel, min(1, len(kernel)))]
        for address in addresses:
            expected = None
            for candidates in (theirs, kernel if address >> 63 else []):
                hits = [i for i in candidates if i.values["base"] <= address < i.values["base"] + i.get("size")]
                if hits and not expected:
                    hit = max(hits, key=lambda i: i.values["base"])
                    expected = (hit.get("path", "").replace("/", "\\").split("\\")[-1], hex(address - hit.values["base"]))
            done = env.run([env.collector, "where", "--store", collector.store, "--host", host_of(name), "--pid", pid,
                            "--at", at, hex(address)], check=False)
            if expected:
                checks.equal((done.returncode, done.stdout.strip()), (0, "+".join(expected)),
                             f"{name}: where {address:#x} of {pid} at {at}")
            else:
                checks.equal((done.returncode, done.stdout), (1, ""), f"{name}: where {address:#x} of {pid} at {at}")


def check_rundown(env, checks, name, collector, paths, unstarted_ends):
    """What is open by the records before the first DCEnd against what the DCEnd records name: naively, and in the tables,
    where an instance that only a DCEnd made known would be known_by rundown_end."""
    still_open, named, missed, first = naive_state.rundown_answer(dumped_lines(env, paths))
    rows = table_rows(collector.store / "state.db", host_of(name))
    for kind, keys in named.items():
        checks.that(len(keys) > 10, f"{name}: hardly any DCEnd of a {kind}")
        checks.equal(still_open[kind], keys, f"{name}: {kind} set before the first DCEnd against the DCEnd records")
        alive = sorted(r[1] for r in rows if r[0] == kind and r[2] < first <= r[3])
        checks.equal(alive, keys, f"{name}: {kind} rows alive before the first DCEnd against the DCEnd records")
        unstarted = sum(r[0] == kind and r[5] == "end" and r[3] < first for r in rows)
        checks.equal(unstarted, unstarted_ends[kind], f"{name}: {kind} ends without a start in the tables")
    checks.equal(missed, unstarted_ends, f"{name}: ends without a start before the first DCEnd")
    checks.equal(sum(r[5] == "rundown_end" for r in rows), 0, f"{name}: instances that only a DCEnd made known")


def check_absence(env, checks, collector):
    """Two machines' traces as one: the second one's rundown names hardly anything that the first one left open, and closes it."""
    paths = traces.paths("shutdown-win10", env.build) + traces.paths("clr-kernel-win8-x64", env.build)
    machine = naive_machine(env, paths)
    env.replay(paths, collector, agent="absent", spool=env.folder / "spool-absent")
    collector.ask_json("ps", "--host", "absent", "--wait", "60s")
    rows = table_rows(collector.store / "state.db", "absent")
    checks.that(rows == naive_rows(machine), "absent: the tables differ from the naive ones")
    begun = min(i.seen for i in machine.instances if i.kind == "process" and i.key == 0 and i.known_by == "rundown_start" and i.begin != machine.first_time)
    closed = {kind: sum(r[0] == kind and r[6] in ("rundown", "process_end") and r[3] == begun for r in rows) for kind in ("process", "thread", "module")}
    checks.that(closed["process"] > 30 and closed["thread"] > 150 and closed["module"] > 1500, f"absent: closed by the second rundown: {closed}")
    left = [r[:7] for r in rows if r[3] == naive_state.FOREVER and r[4] < begun]
    checks.that(len(left) < 20, f"absent: rows of the first machine that are open in the end: {left}")
    print(f"absence: the second rundown closed {closed}, and took {len(left)} for its own")


# ---- faults ----

def check_kills(env, checks, name, paths, machine, kills):
    """kill -9 of the collector while it receives and folds; then the same tables."""
    collector = env.new_collector("killed").start()
    command = env.replay_command(paths, collector, agent=host_of(name), spool=env.folder / "spool-killed",
                                 extra=["--batch-events", "20"])
    dice = random.Random("kills")
    agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        amid = 0
        for _ in range(kills):
            time.sleep(dice.uniform(0.02, 0.2))
            amid += agent.poll() is None
            collector.kill()
            collector.start()
        if agent.wait(timeout=300) != 0:
            raise harness.Failure(f"the replay ended with {agent.returncode}")
    finally:
        if agent.poll() is None:
            agent.send_signal(signal.SIGKILL)
            agent.wait()
    checks.that(amid > 0, f"{name}: no kill fell into the replay")
    # ps waits until the collector has folded what is stored
    answer = collector.ask_json("ps", "--host", host_of(name), "--wait", "60s")
    checks.equal(answer["behind"], 0, f"{name}: batches that are not folded after the kills")
    got, expected = table_rows(collector.store / "state.db", host_of(name)), naive_rows(machine)
    checks.that(got == expected, f"{name}: after {kills} kills the tables differ from the naive ones")
    collector.kill()
    (collector.store / "state.db").unlink()
    for part in ("-wal", "-shm"):
        (collector.store / f"state.db{part}").unlink(missing_ok=True)
    collector.ask("ps", "--host", host_of(name))  # no collector runs: the command folds the batches itself
    checks.that(table_rows(collector.store / "state.db", host_of(name)) == expected,
                f"{name}: rebuilt after they were deleted, the tables differ")


def check_refusals(env, checks, collector, several):
    def exit_code(*arguments):
        done = env.run([env.collector, *arguments, "--store", collector.store], check=False)
        checks.that(done.returncode == 0 or done.stderr.strip(), f"{arguments}: no word about what failed")
        return done.returncode

    host = host_of(SANITIZED[0])
    checks.equal(exit_code("ps", "--host", "unknown"), 1, "ps of an unknown host")
    checks.equal(exit_code("hosts", "--host", "unknown"), 1, "hosts of an unknown host")
    checks.equal(exit_code("query", "--host", "unknown", "SELECT count(*) FROM events"), 1, "a query of an unknown host")
    checks.equal(exit_code("ps", "--host", host, "--at", "someday"), 2, "ps at no time")
    checks.equal(exit_code("ps", "--host", host, "--at", "1999-01-01T00:00:00Z"), 1, "ps before the data")
    checks.equal(exit_code("modules", "--host", host, "--pid", "4294967296"), 2, "modules of no pid")
    checks.equal(exit_code("modules", "--host", host, "--pid", "77777"), 1, "modules of an unknown pid")
    checks.equal(exit_code("where", "--host", host, "--pid", "4", "here"), 2, "where of no address")
    if several:
        checks.equal(exit_code("ps"), 2, "ps without a host, of several")


def test(env, checks, arguments):
    sanitized = "san" in env.build.name
    names = SANITIZED if sanitized else traces.among(TRACES)
    real = checks.real("state: ends without a start in two real traces, and a second machine's rundown that closes what the first one left open")
    env.make_certificates(agents=["absent", *(host_of(name) for name in names)])
    collector = env.new_collector().start()
    for name in names:
        paths = traces.paths(name, env.build)
        machine = naive_machine(env, paths)
        env.replay(paths, collector, agent=host_of(name), spool=env.folder / f"spool-{name}")
        check_moments(env, checks, name, collector, machine, 100 if sanitized else MOMENTS)
        check_modules(env, checks, name, collector, machine, 5 if sanitized else 30)
        compare_tables(checks, name, collector, machine)
        if name in KERNEL_RUNDOWNS:
            check_rundown(env, checks, name, collector, paths, KERNEL_RUNDOWNS[name] if real else dict.fromkeys(KERNEL_RUNDOWNS[name], 0))
        if name == names[0]:
            check_kills(env, checks, name, paths, machine, 100 if arguments.soak else 5)
    if real:
        check_absence(env, checks, collector)
    check_refusals(env, checks, collector, len(names) > 1)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
