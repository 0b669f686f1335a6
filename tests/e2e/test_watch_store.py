"""`etwcollector watch`: a program over a store, by host, label and time, and over what arrives. Its answers are those of `etwagent watch` over the
files that were stored, for each program of config/watch and random clauses on generated and real traces; of several machines they are the
sums that Python makes of the files' answers, whatever the function.
"""
import collections
import contextlib
import json
import os
import pty
import random
import re
import signal
import sqlite3
import subprocess
import time

import harness
import test_ledger
import test_tracegen
import test_watch
import traces
import web_world

GENERATED = {"office": 700, "web-server": 300, "stacks": 300}
REAL = {"clr-kernel-win8-x64": "watch over a store: kernel and .NET events", "tracelogging-win11-20cpu": "watch over a store: TraceLogging"}
# values, names and stacks that come from other events than the one at hand
PROGRAMS = ["* { @[probe] = count(); @p[execname, pid] = count(); @t[tid, cpu] = count(); }", "* /stack()/ { @s[stack(3)] = count(); @[kstack()] = count(); } PerfInfo/SampleProf { @m[execname, module] = count(); }",
            "unmatched { @[provider] = count(); } Thread/CSwitch { @w = sum(NewThreadWaitTime); }",
            "* { @ = distinct(timestamp); @c[threadname, parent.execname, user, exepath, cmdline] = count(); @h[opcode, id, level] = sum(payload_bytes); }",
            "sched:::off-cpu { self.t = timestamp; } sched:::on-cpu /self.t/ { @[execname] = quantize(timestamp - self.t); self.t = 0; }",
            'DiskIo/ReadInit { delta(Irp); } DiskIo/Read { @ = quantize(delta(Irp)); } tick:100ms { print(@); clear(@); printf("%d", timestamp); }']
FILES = ["FileIo/* { @[FileObject_name] = count(); }", "Registry/* { @[KeyHandle_name] = count(); }"]
CLAUSES, SOAK_CLAUSES = 25, 1000


def in_store(env, store, program, *options, check=True, **more):
    done = subprocess.run([env.collector, "watch", "--store", store, *options, "-e", program], capture_output=True, text=True, timeout=300,
                          check=False, **more)
    if check and done.returncode:
        raise harness.Failure(f"etwcollector watch -e {program[:500]!r} ended with {done.returncode}: {done.stderr[-1000:]}")
    return done


def ingest(env, store, host, paths):
    subprocess.run([env.collector, "ingest", "--store", store, "--host", host, *paths], check=True, capture_output=True)


def check_same(env, checks, store, host, paths, programs):
    for program in programs:
        wanted = test_watch.watch(env, program, paths, "--json")
        got = in_store(env, store, program, "--json", "--host", host)
        checks.equal(got.stdout, wanted.stdout, f"{host}: {program}")
        checks.equal(got.stderr.replace("etwcollector", "etwagent"), "".join(
            line for line in wanted.stderr.splitlines(True) if "lost" not in line), f"{host}: {program}: standard error")


def check_random(env, checks, store, host, paths, count):
    dice, classes = random.Random(f"store {host}"), test_watch.Classes(test_watch.dump(env, paths))
    clauses = []
    while len(clauses) < count:
        try:
            clauses.append(test_watch.random_clause(dice, classes, len(clauses))[0])
        except test_watch.Missing:
            pass
    for begin in range(0, count, 50):
        check_same(env, checks, store, host, paths, ["\n".join(clauses[begin:begin + 50])])


MERGED = """sched:::on-cpu { @n[execname] = count(); @s[execname] = sum(NewThreadId); @lo[execname] = min(NewThreadId);
@hi[execname] = max(NewThreadId); @avg[execname] = avg(NewThreadId); @dev[execname] = stddev(NewThreadId);
@q[execname] = quantize(NewThreadId); @l[execname] = lquantize(NewThreadId, 0, 1000, 10); @ll[execname] = llquantize(NewThreadId, 10, 0, 6, 20);
@top[execname] = top(NewThreadId, 5); @d[execname] = distinct(NewThreadId); }"""


def check_merged(env, checks, store, files):
    """All functions over two machines, out of the values of both."""
    values = collections.defaultdict(list)
    for path in files.values():
        state = test_watch.State()
        for event in test_watch.dump(env, [path]):
            state.see(event)
            if event["name"] == "Thread/CSwitch":
                values[state.name_of_thread(event["fields"]["NewThreadId"]),].append(event["fields"]["NewThreadId"])
    got = test_watch.results(in_store(env, store, MERGED, "--json", *(o for host in files for o in ("--host", host))).stdout)
    both = [key for key in values if all(key in test_watch.results(test_watch.watch(env, "sched:::on-cpu { @n[execname] = count(); }", [path], "--json").stdout)["@n"]
                                         for path in files.values())]
    checks.that(len(both) > 3, f"keys that both machines have: {both}")
    for name, function in (("@n", "count"), ("@s", "sum"), ("@lo", "min"), ("@hi", "max"), ("@avg", "avg"), ("@dev", "stddev"), ("@q", "quantize"), ("@d", "distinct")):
        checks.equal(got[name].keys(), values.keys(), f"two machines: keys of {function}")
        wrong = [key for key in values if not test_watch.same(function, got[name][key], test_watch.aggregate(function, values[key]))]
        checks.that(not wrong, f"two machines: {function}: {[(key, got[name][key]) for key in wrong[:3]]}")
    for key, these in values.items():
        for name in ("@l", "@ll"):
            wanted = [sum((b["from"] is None or v >= b["from"]) and (b["to"] is None or v < b["to"]) for v in these) for b in got[name][key]]
            checks.equal(([b["count"] for b in got[name][key]], sum(wanted)), (wanted, len(these)), f"two machines: {name} of {key}")
        counts = collections.Counter(these)
        most = sorted(counts.values(), reverse=True)
        top = got["@top"][key]
        checks.that(all(t["count"] - t["over"] <= counts[t["value"]] <= t["count"] for t in top), f"two machines: top of {key}: {top}")
        if len(counts) <= 256:
            checks.equal([t["count"] for t in top], most[:5], f"two machines: top of {key}")
    # each machine's threads and CPUs are its own, though the numbers are the same
    program = """sched:::off-cpu { self.t = timestamp; } sched:::on-cpu /self.t/ { @[host, tid] = sum(timestamp - self.t); self.t = 0; }
                 Thread/CSwitch { delta(cpu); } DiskIo/Read { @d[host, cpu] = sum(delta(cpu)); } * { @t[host, execname, tid] = count(); }"""
    whole = test_watch.results(in_store(env, store, program, "--json", *(o for host in files for o in ("--host", host))).stdout)
    apart = collections.defaultdict(dict)
    for host, path in files.items():
        one = test_watch.results(test_watch.watch(env, program, [path], "--json").stdout)
        for name, entries in one.items():
            apart[name] |= {(host, *key[1:]): value for key, value in entries.items()}
    checks.that(all(len(entries) > 5 for entries in apart.values()), f"entries of two machines: { {n: len(e) for n, e in apart.items()} }")
    checks.equal(whole, dict(apart), "two machines: what is a thread's or a CPU's is not mixed")
    lines = in_store(env, store, 'Thread/CSwitch { printf("%d %s", timestamp, host); }', "--json").stdout.splitlines()
    times = [int(json.loads(line)["printf"].split()[0]) for line in lines]
    checks.that(times == sorted(times) and {json.loads(line)["printf"].split()[1] for line in lines} >= set(files), "events of several machines are in order of time")


def check_ranges(env, checks, store, host, path):
    """--from and --to are conditions on the time; the state before them is known."""
    program = "sched:::on-cpu %s { @[execname] = count(); @w[execname] = sum(NewThreadWaitTime); }"
    events = [e for e in test_watch.dump(env, [path]) if e["name"] == "Thread/CSwitch"]
    begin, end = (events[len(events) * k // 3]["time"] for k in (1, 2))
    ns = [int(test_watch.results(test_watch.watch(env, "* { @ = min(timestamp); }", [path], "--json").stdout)["@"][()])]
    day = ns[0] - ns[0] % (86400 * 10**9)
    first, last = (day + test_watch.ticks_of(t) * 100 for t in (begin, end))
    wanted = test_watch.watch(env, program % f"/timestamp >= {first} && timestamp < {last}/", [path], "--json")
    got = in_store(env, store, program % "", "--json", "--host", host, "--from", begin, "--to", end)
    checks.that(len(test_watch.results(got.stdout)["@"]) > 5, "entries of a range of time")
    strip = re.compile(r'"time":"[^"]*",')
    checks.equal(strip.sub("", got.stdout), strip.sub("", wanted.stdout), "a range of time")
    nothing = in_store(env, store, program % "", "--host", host, "--from", "2099-01-01")
    checks.equal(nothing.stdout, "", "a range without events")


def check_labels(env, checks, store, hosts):
    with sqlite3.connect(store / "index.db") as db:
        for host, label in zip(hosts, ("berlin", "oslo")):
            db.execute("INSERT OR REPLACE INTO origins(stream_id, hash, agent_version, labels) SELECT stream_id, 0, '1', ? FROM streams WHERE agent = ?",
                       (json.dumps({"site": label}), host))
    program = "* { @[host] = count(); }"
    checks.equal(list(test_watch.results(in_store(env, store, program, "--json", "--label", "site=oslo").stdout)["@"]), [(hosts[1],)], "--label")
    done = in_store(env, store, program, "--label", "site=nowhere", check=False)
    checks.that(done.returncode == 1 and "site=nowhere" in done.stderr, f"a label that no run had: {done.returncode} {done.stderr}")


def check_live(env, checks, files):
    """What arrives while the program runs, and only that; Ctrl-C prints, exit() ends."""
    store = env.folder / "live-store"
    (first, one), (second, two) = list(files.items())[:2]
    ingest(env, store, first, [one])
    program = 'tick:200ms { n++; } * { @[host] = count(); } /* ticks come without events */ end { printf("%d", n > 1); }'
    options = ["watch", "--store", store, "--live", "--json"]
    running = {name: subprocess.Popen([env.collector, *options, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name, more in {
        "count": ["-e", program], "exit": ["-e", "Thread/CSwitch { @ = count(); n++; } Thread/CSwitch /n == 100/ { exit(); }"],
        "since": ["--from", "2000-01-01", "-e", "* { @[host] = count(); }"], "stacks": ["-e", "* /stack()/ { @[stack()] = count(); }"],
        "state": ["--host", first, "-e", "* { @[execname] = count(); }"]}.items()}
    try:
        for process in running.values():
            process.stderr.readline()  # it waits for events
        ingest(env, store, second, [two])
        checks.equal(test_watch.results(running["exit"].communicate(timeout=60)[0])["@"], {(): 100}, "live: exit() ends")
        time.sleep(5)  # stacks are awaited for three seconds
        for name in ("count", "since", "stacks", "state"):
            running[name].send_signal(signal.SIGINT)
        out = {name: process.communicate(timeout=60)[0] for name, process in running.items() if name != "exit"}
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    counts = [test_watch.results(test_watch.watch(env, "* { @ = count(); }", [path], "--json").stdout)["@"][()] for path in (one, two)]
    checks.equal(test_watch.results(out["count"])["@"], {(second,): counts[1]}, "live: what arrived")
    checks.that(json.loads(out["count"].splitlines()[0])["printf"] == "1", "live: ticks are those of the clock")
    checks.equal(test_watch.results(out["since"])["@"], {(first,): counts[0], (second,): counts[1]}, "live: --from")
    wanted = test_watch.results(test_watch.watch(env, "* /stack()/ { @[stack()] = count(); }", [two], "--json").stdout)["@"]
    checks.that(wanted and test_watch.results(out["stacks"])["@"] == wanted, f"live: {len(wanted)} stacks")
    checks.equal(out["state"], "", "live: nothing arrived of another machine")


def check_idle(env, checks, path):
    """What is kept of a run that sends nothing for --idle is freed, and is there again when the run goes on."""
    env.make_certificates(["idle"])
    collector = env.new_collector("idle")
    collector.start()
    batches = web_world.captured(env, path, "idle")
    half = len(batches) // 2
    test_ledger.upload(env, collector, "idle", batches[:half])
    program = 'sched:::on-cpu { @[execname] = count(); printf("%d", cpu); }'
    out = env.folder / "idle.out"
    with open(out, "wb") as to:
        running = subprocess.Popen([env.collector, "watch", "--store", collector.store, "--live", "--idle", "500ms", "--from", "2000-01-01", "--json", "-e", program],
                                   stdout=to, stderr=subprocess.PIPE, text=True)
    try:
        running.stderr.readline()  # it waits for events
        harness.wait_until(lambda: out.stat().st_size > 0, "events of the first half", 60)
        time.sleep(2)
        test_ledger.upload(env, collector, "idle", batches[half:])
        size = -1
        while size != out.stat().st_size:
            size = out.stat().st_size
            time.sleep(1)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    collector.stop()
    freed = re.search(r"(\d+) times what is kept of a run was freed", said)
    checks.that(freed and int(freed[1]) >= 1, f"live: what was kept of an idle run: {said}")
    got, wanted = (test_watch.results(text) for text in (out.read_text(), test_watch.watch(env, program, [path], "--json").stdout))
    checks.that(len(wanted["@"]) > 5 and got["@"] == wanted["@"], f"live: a run that goes on has its state: {got} {wanted}")


def check_live_failure(env, checks, host, path):
    """The store fails while the program runs: what it has so far is printed, and the exit code is 1."""
    store = env.folder / "failing-store"
    ingest(env, store, host, [path])
    running = subprocess.Popen([env.collector, "watch", "--store", store, "--live", "--json", "--from", "2000-01-01", "-e",
                                '* { @[host] = count(); } tick:200ms { printf("a tick"); } end { printf("the end"); }'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        running.stderr.readline()  # it waits for events
        for _ in range(2):
            running.stdout.readline()  # the first ones were read
        with contextlib.closing(sqlite3.connect(store / "index.db")) as db:
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall():
                db.execute(f"DROP TABLE {name}")
            db.commit()
        out, said = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    checks.that(running.returncode == 1 and "etwcollector: " in said, f"live, a store that fails: {running.returncode} {said!r}")
    checks.that('"printf":"the end"' in out and test_watch.results(out)["@"].keys() == {(host,)}, f"live, a store that fails: its results: {out[-500:]!r}")


def check_live_ticks(env, checks, store):
    """Ticks come while a program works through what is stored, too: as many events as arrive may keep it busy for ever."""
    total = sum(test_watch.results(in_store(env, store, "* { @ = count(); }", "--json").stdout)["@"].values())
    slow = "".join(f"@a{i}[probe, execname, pid, tid, cpu, {i}] = quantize(timestamp); " for i in range(60))
    program = f"tick:1ms {{ ticks++; }} * {{ {slow} events++; }} * /events == {total}/ {{ exit(); }} end {{ printf(\"%d\", ticks); "
    program += "".join(f"clear(@a{i}); " for i in range(60)) + "}"
    done = in_store(env, store, program, "--json", "--live", "--from", "2000-01-01")
    ticks = int(json.loads(done.stdout.splitlines()[0])["printf"])
    checks.that(ticks > 0, f"live: {ticks} ticks during {total} stored events")


def check_terminal(env, store):
    """(what a terminal gets, what one that takes no control sequences gets) of tables that ticks print."""
    got = []
    for term in ("xterm", "dumb"):
        ours, theirs = pty.openpty()
        running = subprocess.Popen([env.collector, "watch", "--store", store, "--live", "--from", "2000-01-01", "-e",
                                    "Thread/CSwitch { @[host] = count(); } tick:200ms { print(@); print(@); }"], stdin=subprocess.DEVNULL, stdout=theirs,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "TERM": term})
        os.close(theirs)
        text, until = b"", time.monotonic() + 30
        while text.count(b"@ count") < 6 and time.monotonic() < until:
            text += os.read(ours, 65536)
        running.send_signal(signal.SIGINT)
        while True:  # it waits until the terminal takes the rest
            try:
                if not os.read(ours, 65536):
                    break
            except OSError:
                break
        running.wait(timeout=60)
        os.close(ours)
        got.append(text.decode())
    return got


def check_missing_segment(env, checks, files):
    """Batches whose segment is gone are counted, as by the other readers, and the others are read."""
    store, hosts = env.folder / "holed-store", list(files)[:2]
    ingest(env, store, hosts[0], [files[hosts[0]]])
    before = set((store / "segments").iterdir())
    ingest(env, store, hosts[1], [files[hosts[1]]])
    for path in before:
        path.unlink()
    done = in_store(env, store, "* { @[host] = count(); }", "--json", check=False)
    checks.that(done.returncode == 3 and "batches could not be read" in done.stderr and ".seg" in done.stderr, f"a segment is gone: {done.returncode} {done.stderr!r}")


def check_refusals(env, checks, store):
    for options, program, code, words in ((["--host", "nothing"], "* { }", 1, "nothing"), ([], "Thread/CSwich { }", 2, "did you mean Thread/CSwitch?"),
                                          (["--json", "--csv"], "* { }", 2, "exclude"), (["--live", "--to", "end"], "* { }", 2, "--to"),
                                          (["--label", "x"], "* { }", 2, "NAME=VALUE"), ([], "begin { host = 1; }", 2, "is a value of the event")):
        done = in_store(env, store, program, *options, check=False)
        checks.that(done.returncode == code and words in done.stderr and not done.stdout, f"{options} {program}: {done.returncode} {done.stderr!r}")
    none = subprocess.run([env.collector, "watch", "--store", store], capture_output=True, text=True, check=False)
    checks.that(none.returncode == 2 and "-e PROGRAM" in none.stderr, f"no program: {none.stderr!r}")


def test(env, checks, arguments):
    store, files = env.folder / "store", {}
    folder = harness.ROOT / "config" / "watch"
    shipped = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.watch")) if path.name != "packets.watch"]  # it needs a manifest
    for name, ms in GENERATED.items():
        files[name], _ = test_tracegen.generate(env.build, env.folder, name, "--preset", name, "--duration-ms", str(ms))
        ingest(env, store, name, [files[name]])
        check_same(env, checks, store, name, [files[name]], PROGRAMS + FILES + (shipped if name == "office" or arguments.soak else []))
        check_random(env, checks, store, name, [files[name]], SOAK_CLAUSES if arguments.soak else CLAUSES)
    two = {name: files[name] for name in ("office", "web-server")}
    check_merged(env, checks, store, two)
    check_ranges(env, checks, store, "office", files["office"])
    check_refusals(env, checks, store)
    check_labels(env, checks, store, list(two))
    check_live_ticks(env, checks, store)
    drawn, plain = check_terminal(env, store)
    checks.that(drawn.count("\x1b[H\x1b[2J@ count") >= 3 and abs(drawn.count("@ count") - 2 * drawn.count("\x1b[H")) <= 2,
                f"live, a terminal: each tick's tables replace the last ones: {drawn!r}")
    checks.that("\x1b" not in plain and plain.count("@ count") >= 6, f"live, a terminal without control sequences: {plain!r}")
    check_idle(env, checks, files["office"])
    check_live_failure(env, checks, "web-server", files["web-server"])
    check_missing_segment(env, checks, two)
    check_live(env, checks, {name: files[name] for name in ("web-server", "office")})
    trace = subprocess.run([env.collector, "watch", "--json", "-e", "* { @[probe] = count(); }", files["office"]], capture_output=True, text=True, check=True)
    checks.equal(trace.stdout, test_watch.watch(env, "* { @[probe] = count(); }", [files["office"]], "--json").stdout, "a trace in place of a store")
    for name, what in REAL.items():
        if checks.real(what) and (arguments.soak or name == "clr-kernel-win8-x64"):
            paths = traces.paths(name, env.build)
            ingest(env, store, name, paths)
            check_same(env, checks, store, name, paths, PROGRAMS[:4] + FILES)
            check_random(env, checks, store, name, paths, CLAUSES)


if __name__ == "__main__":
    harness.main(test, __doc__)
