"""The collector's own commands on a store: `hosts` counts; `export` prints the same as `dump` in every form and with every filter;
damage in the store costs the damaged batches and is reported; a closed pipe ends a command without a message; a lost index is rebuilt.

# sanitizers: asan-ubsan
"""
import json
import os
import random
import shutil
import signal
import subprocess

import harness
import traces

TRACES = {"machine-a": "kernel-process-provider", "machine-b": "clr-32bit"}
BATCH_EVENTS = 200


def lines(text):
    return text.splitlines()


def forms(env, checks, collector):
    """Each form and filter, dump against export."""
    for host, name in TRACES.items():
        paths = traces.paths(name, env.build)
        all_events = [json.loads(line) for line in lines(env.run([env.agent, "dump", "--format", "jsonl", *paths]).stdout)]
        middle, late = all_events[len(all_events) // 4]["time"], all_events[-1]["time"]
        for options in (["--format", "text"], ["--format", "csv"], ["--format", "raw"], ["--format", "jsonl"],
                        ["--format", "csv", "--fields", "time,pid,name,fields"], ["--format", "jsonl", "--class", "process/*"],
                        ["--format", "jsonl", "--pid", str(all_events[-1]["pid"])], ["--format", "jsonl", "--from", middle],
                        ["--format", "jsonl", "--from", middle, "--to", late], ["--format", "jsonl", "--to", middle]):
            dumped = env.run([env.agent, "dump", *options, *paths]).stdout
            exported = collector.ask("export", "--host", host, *options)
            checks.that(dumped == exported, f"{name} {' '.join(options)}: dump has {len(lines(dumped))} lines, "
                                            f"export {len(lines(exported))}, and they differ")
            checks.that(lines(dumped) or "--class" in options, f"{name} {' '.join(options)}: nothing was printed")


def hosts(checks, collector):
    rows = {row["host"]: row for row in collector.ask_json("hosts")["streams"]}
    checks.equal(sorted(rows), sorted(TRACES), "hosts")
    for host, name in TRACES.items():
        events = traces.event_count(name)
        checks.equal((rows[host]["events"], rows[host]["missing"]), (events, 0), f"{host}: events and missing batches")
        checks.equal(rows[host]["batches"], rows[host]["highest"], f"{host}: batches and the highest number")
        checks.that(rows[host]["begin"] < rows[host]["end"], f"{host}: times {rows[host]['begin']} {rows[host]['end']}")
    text = collector.ask("hosts", "--host", "machine-a")
    checks.that(rows["machine-a"]["stream"] in text and rows["machine-b"]["stream"] not in text, f"hosts as text: {text}")
    return rows


def wrong_questions(env, checks, collector, rows):
    other = rows["machine-b"]["stream"]
    for arguments, code in ((["export", "--host", "absent"], 1), (["export", "--host", "machine-a", "--stream", other], 1),
                            (["export", "--host", "machine-a", "--format", "csv", "--raw"], 2), (["export"], 2),
                            (["export", "--host", "machine-a", "--from", "someday"], 2)):
        done = env.run([env.collector, *arguments, "--store", collector.store], check=False)
        checks.equal((done.returncode, bool(done.stderr)), (code, True), " ".join(arguments))
    paths = traces.paths(TRACES["machine-a"], env.build)
    field = "ProcessID" if traces.real_folder() else "ProcessId"  # as the manifest of the real trace, or the generator, writes it
    for command in ([env.agent, "dump", *paths], [env.collector, "export", "--store", collector.store, "--host", "machine-a"]):
        for options, code, words in ((["--fields", "time,Nonsense"], 1, ["--fields 'Nonsense': none of the ", " events has this column"]),
                                     (["--fields", "time,ProcesID"], 1, ["--fields 'ProcesID': ", f"did you mean '{field}'?"]),
                                     (["--fields", f"time,{field},stack,fields"], 0, []), (["--class", "Nonsense/*"], 1, ["--class 'Nonsense/*': no event is of such a class"]),
                                     (["--class", "Proces/Start"], 1, ["did you mean 'Process/Start'?"]), (["--class", "DiskIo/Read"], 0, []),
                                     (["--class", "DiskIo/Read", "--fields", "Nonsense"], 0, [])):
            done = env.run([*command, "--format", "csv", *options], check=False)
            checks.that(done.returncode == code and all(word in done.stderr for word in words) and bool(done.stderr) == bool(code),
                        f"{command[1]} {' '.join(options)}: {done.returncode} {done.stderr}")
    one = collector.ask("export", "--host", "machine-b", "--stream", other)
    checks.equal(one, collector.ask("export", "--host", "machine-b"), "export of the one stream")
    done = env.run([env.collector, "hosts", "--store", env.folder / "no-store"], check=False)
    checks.equal(done.returncode, 1, "hosts of a folder that is no store")
    checks.that(not (env.folder / "no-store").exists(), "a question made a store")


def damage(env, checks, collector, seed):
    """Bytes of the segment changed, one at a time: all batches but the damaged one are printed, and the exit code says it."""
    segment = next((collector.store / "segments").glob("*.seg"))
    whole = segment.read_bytes()
    rng = random.Random(seed)
    expected = {host: lines(collector.ask("export", "--host", host, "--format", "raw")) for host in TRACES}
    hit = 0
    for _ in range(12):
        at = rng.randrange(len(whole) // 10, len(whole))
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1:])
        damaged = 0
        for host in TRACES:
            done = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw", "--verify"],
                           check=False)
            left = lines(done.stdout)
            gone = len(expected[host]) - len(left)
            if done.returncode == 0:
                checks.that(left == expected[host], f"byte {at}: {host} was exported without a complaint, but differs")
                continue
            damaged += 1
            checks.equal(done.returncode, 3, f"byte {at}: exit code")
            checks.that(0 < gone <= BATCH_EVENTS and "batch" in done.stderr, f"byte {at}: {gone} events of {host} are gone: {done.stderr}")
            rest = iter(expected[host])
            checks.that(all(line in rest for line in left), f"byte {at}: {host}: what was exported is not what was stored")
        checks.that(damaged <= 1, f"byte {at}: both hosts are damaged")
        hit += damaged
    checks.that(hit > 0, "no damage was detected")
    segment.write_bytes(whole)
    # the same damage again, met by recovery: the index is gone, too
    for index in collector.store.glob("index.db*"):
        index.unlink()
    at = len(whole) // 2
    segment.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    collector.start()
    collector.stop()
    rows = {row["host"]: row for row in collector.ask_json("hosts")["streams"]}
    checks.equal(sum(row["missing"] for row in rows.values()), 1, "batches that are missing after the recovery from damage")
    segment.write_bytes(whole)
    return expected


def lost_index(checks, collector, expected):
    for index in collector.store.glob("index.db*"):
        index.unlink()
    collector.start()
    collector.stop()
    for host in TRACES:
        checks.equal(lines(collector.ask("export", "--host", host, "--format", "raw", "--verify")), expected[host],
                     f"{host} after the index was made again")


def read_only(env, checks, collector, expected):
    """A copy that may not be written to, as a backup is."""
    copy = env.folder / "backup"
    shutil.copytree(collector.store, copy)
    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    command = [env.collector, "export", "--store", copy, "--host", "machine-a", "--format", "raw"]
    if os.geteuid() == 0:   # whom no mode stops
        program = env.folder / "etwcollector"
        shutil.copy(env.collector, program)
        env.folder.chmod(0o755)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, *command[1:]]
    try:
        checks.equal(lines(env.run(command).stdout), expected["machine-a"], "export of a read-only copy")
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o700)


def closed_pipe(env, checks, collector):
    """A reader that has enough ("| head -1") ends a command by SIGPIPE and without a word; a full disk is an error."""
    paths = traces.paths(TRACES["machine-a"], env.build)
    for command in ([env.agent, "dump", *paths, *paths, *paths], [env.collector, "export", "--store", collector.store, "--host", "machine-a"],
                    [env.collector, "query", "--store", collector.store, "--format", "jsonl", "SELECT a.time, b.time FROM events a, events b LIMIT 20000"]):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            checks.that(process.stdout.readline(), f"{command[1]}: a first line")
            process.stdout.close()
            said = process.stderr.read()
            checks.equal((process.wait(60), said), (-signal.SIGPIPE, b""), f"{command[1]} into a closed pipe")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, timeout=60)
        checks.that(done.returncode == 1 and b"write" in done.stderr, f"{command[1]} onto a full disk: {done.returncode} {done.stderr}")


def test(env, checks, arguments):
    env.make_certificates(agents=TRACES)
    collector = env.new_collector().start()
    for host, name in TRACES.items():
        env.replay(traces.paths(name, env.build), collector, agent=host, spool=env.folder / f"spool-{host}",
                   extra=["--batch-events", str(BATCH_EVENTS)])
    rows = hosts(checks, collector)   # while it runs
    collector.stop()
    closed_pipe(env, checks, collector)
    forms(env, checks, collector)
    wrong_questions(env, checks, collector, rows)
    expected = damage(env, checks, collector, seed=11)
    lost_index(checks, collector, expected)
    read_only(env, checks, collector, expected)


if __name__ == "__main__":
    harness.main(test, __doc__)
