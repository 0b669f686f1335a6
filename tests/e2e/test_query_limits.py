"""A query ends at its limits (time, memory, rows), at Ctrl-C and when its parent dies, and harms no other process. A collector
that ingests meanwhile loses nothing. Only the events of damaged batches are missing. Hostile SQL is refused or bounded.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 3: An answer that ended at a limit reports that, and calls nothing damaged. | 24,361,137 events, against the generator's
#   counts: right with 24 MiB to 2 GiB; ended at 12 and 16 MiB, and at 64 MiB of files | 2026-11-28
import collections
import fcntl
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time

import harness
import traces
import web_world

TRACE, OTHER = "shutdown-win10", "kernel-process-provider"
BOMB = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
CROSS = "SELECT count(*) FROM events a, events b, events c WHERE a.cpu + b.cpu + c.cpu = -1"
LIMIT, WRONG, DAMAGED = 4, 2, 3

# SQL, a word of the refusal
REFUSED = [
    ("ATTACH '{folder}/new.db' AS x", "not authorized"),
    ("ATTACH ':memory:' AS x", "not authorized"),
    ("VACUUM INTO '{folder}/new.db'", "one SELECT is expected"),
    ("DETACH main", "not authorized"),
    ("PRAGMA journal_mode = WAL", "not authorized"),
    ("PRAGMA temp_store_directory = '{folder}'", "not authorized"),
    ("PRAGMA writable_schema = 1", "not authorized"),
    ("PRAGMA hard_heap_limit = 0", "not authorized"),
    ("SELECT * FROM pragma_hard_heap_limit(0)", ""),
    ("SELECT load_extension('{folder}/x.so')", "not authorized"),
    ("SELECT writefile('{folder}/new.db', 'x')", "no such function"),
    ("SELECT readfile('/etc/passwd')", "no such function"),
    ("SELECT fts3_tokenizer('simple')", ""),
    ("CREATE TABLE t(x)", "not authorized"),
    ("CREATE TEMP TABLE t(x)", "not authorized"),
    ("CREATE VIRTUAL TABLE temp.t USING fts5(x)", ""),
    ("CREATE VIEW v AS SELECT 1", "not authorized"),
    ("INSERT INTO events(pid) VALUES (4)", ""),
    ("UPDATE hosts SET host = 'x'", ""),
    ("DELETE FROM processes", ""),
    ("DROP TABLE hosts", ""),
    ("BEGIN", "not authorized"),
    ("SAVEPOINT x", "not authorized"),
    ("ANALYZE", ""),
    ("SELECT 1; DROP TABLE hosts", "one SELECT is expected"),
    ("SELECT 1; SELECT 2", "one SELECT is expected"),
    ("", "one SELECT is expected"),
    (" -- nothing", "one SELECT is expected"),
    ("SELECT * FROM no_table", "no such table"),
    ("SELECT no_column FROM events", "no such column"),
    ("SELECT * FROM sqlite_dbpage", ""),
    ("SELECT length(zeroblob(1 << 30))", "too big"),
    ("SELECT printf('%.*c', 1000000000, 'x')", "too big"),
    ("SELECT format('%1000000000d', 1)", "too big"),
    ("SELECT length(replace(hex(zeroblob(4000000)), '0', 'aaaaaaaa'))", "too big"),
    ("SELECT " + "(" * 5000 + "1" + ")" * 5000, ""),
    ("SELECT " + "+".join(["1"] * 5000), "Expression tree"),
    ("SELECT u64('x')", "u64: expected"),
    ("SELECT * FROM events WHERE time > 'someday'", "a time cannot be compared with 'someday'"),
]


def ask(env, store, sql, *extra, **options):
    form = [] if "--format" in extra else ["--format", "jsonl"]
    return env.run([env.collector, "query", "--store", store, *form, *extra, sql], check=False, **options)


def counted(env, store, host):
    done = ask(env, store, f"SELECT count(*) AS n FROM events WHERE host = '{host}'")
    return json.loads(done.stdout)["n"] if done.returncode == 0 else done.stderr


def workers_of(pid):
    """Processes whose parent is this one, but for a collector's broker, which lives as long as it."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid and "file-broker" not in (path.parent / "cmdline").read_text():
                found.append(int(path.parent.name))
        except (OSError, IndexError, ValueError):
            pass  # it is gone
    return found


def wait_until(condition, what):
    harness.wait_until(condition, what, 120)


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def check_limits(env, checks, store):
    for sql in (BOMB.format("count(*)"), CROSS, BOMB.format("sum(x)") + " JOIN events"):
        done = ask(env, store, sql, "--time-limit", "1s")
        checks.equal((done.returncode, "time limit of 1 s" in done.stderr), (LIMIT, True), f"{sql}: {done.stderr}")
    for sql in (BOMB.format("json_group_array(x)"),
                "WITH t AS MATERIALIZED (SELECT a.fields || b.fields AS x FROM events a, events b) SELECT max(x) FROM t ORDER BY 1",
                BOMB.format("x") + " GROUP BY x ORDER BY random()"):
        done = ask(env, store, sql, "--memory", "48MiB", "--temp", "64MiB", "--time-limit", "300s")
        checks.that(done.returncode == LIMIT and ("memory limit of 48 MiB" in done.stderr or "temporary files: 64 MiB" in done.stderr) or "too big" in done.stderr,
                    f"{sql}: {done.returncode} {done.stderr}")
    done = ask(env, store, "SELECT name FROM events", "--rows", 1000)
    checks.equal((done.returncode, len(done.stdout.splitlines()), "limit of 1000 rows" in done.stderr), (LIMIT, 1001, True), "rows, and a mark")
    done = ask(env, store, "SELECT name FROM events LIMIT 1000", "--rows", 1000)
    checks.equal((done.returncode, len(done.stdout.splitlines())), (0, 1000), f"as many rows as allowed: {done.stderr}")
    done = ask(env, store, BOMB.format("x"), "--rows", 10, "--format", "json")
    answer = json.loads(done.stdout)
    checks.equal((done.returncode, answer["ended"], answer["row_count"]), (LIMIT, "rows", 10), "an endless answer")
    for sql in ("SELECT pid, tid FROM events_by('pid', 'tid')", CROSS.replace("events a", "events_by('pid') a")):
        done = ask(env, store, sql, "--time-limit", "1ms")
        checks.equal(done.returncode, LIMIT, f"{sql}: hardly any time: {done.stderr}")


def judged(done):
    """How a query ended, as it says in its answer, its exit code and its words."""
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return f"no answer, with {done.returncode}: {done.stderr}"
    ended = answer["ended"]
    word = {"whole": "", "memory": "memory limit", "temp": "limit of temporary files"}[ended]
    is_reported = word in done.stderr and done.returncode == (0 if ended == "whole" else LIMIT)
    return ended if is_reported and not answer["damaged_batches"] and "damaged" not in done.stderr else f"{ended} with {done.returncode}: {done.stderr}"


def store_firehose(env, name, duration_ms):
    """A store with the events of a generated trace, and how many of each name the generator wrote, by its own count."""
    trace, truth = env.folder / f"{name}.etl", env.folder / f"{name}.jsonl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "firehose", "--duration-ms", duration_ms, "--out", trace, "--truth", truth])
    names = collections.Counter({"EventTrace/Header": 1})  # of the file; the generator counts the events that its machine logs
    with truth.open(encoding="utf-8") as lines:
        for row in (json.loads(line) for line in lines if line.startswith('{"type":"class"')):
            names[row["name"]] += row["count"]
    truth.unlink()
    collector = env.new_collector(name).start()
    env.replay([trace], collector, agent=OTHER, spool=env.folder / f"spool-{name}")
    collector.stop()
    trace.unlink()
    return collector, names


GROUPED = "SELECT name, count(*) AS n FROM events GROUP BY name"  # is counted while columns are read
COUNTS = "SELECT name, count(*) AS n FROM (SELECT name FROM events LIMIT -1) GROUP BY 1"  # SQLite sorts its rows


def check_many(env, checks):
    """24 million events, which no memory limit here holds: GROUP BY is right, or ended with its true reason."""
    collector, names = store_firehose(env, "many", 1400)
    checks.that(sum(names.values()) > 24e6, f"only {sum(names.values())} events")
    endings = collections.Counter()
    for options in (["--memory", "12MiB"], *(["--memory", f"{n}MiB"] for n in (16, 24, 48, 128, 512, 1024, 2048)), ["--memory", "64MiB", "--temp", "64MiB"]):
        begin = time.monotonic()
        done = ask(env, collector.store, COUNTS, *options, "--time-limit", "600s", "--format", "json")
        ending = judged(done)
        print(f"{sum(names.values())} events, {' '.join(options)}: {ending}, {time.monotonic() - begin:.1f} s", flush=True)
        endings[ending] += 1
        got = {row["name"]: row["n"] for row in json.loads(done.stdout)["rows"]}
        checks.that(got == names if ending == "whole" else ending in ("memory", "temp") and not got, f"{options}: {ending}: {got} of {dict(names)}")
    checks.that(endings["whole"] >= 4 and endings["temp"] == 1, f"most are right: {endings}")


def check_memory(env, checks):
    """Whatever the memory: an answer is right, or it ended and says why. Sound batches are never called damaged."""
    collector, names = store_firehose(env, "memory", 12)
    check_web_memory(env, checks, collector, names)
    order = "SELECT count(*) AS n FROM (SELECT name, row_number() OVER (ORDER BY clock, name) AS r FROM events) WHERE r > 0"
    endings = collections.Counter()
    for memory in ("4MiB", "14MiB", "17MiB", "20MiB", "24MiB", "32MiB", "1GiB"):
        done = ask(env, collector.store, COUNTS, "--memory", memory, "--format", "json")
        endings[judged(done)] += 1
        got = {row["name"]: row["n"] for row in json.loads(done.stdout)["rows"]}
        checks.that(judged(done) == "memory" and not got or got == names, f"{memory}: {judged(done)}: {got} of {dict(names)}")
        done = ask(env, collector.store, order, "--memory", memory, "--format", "json")
        endings[judged(done)] += 1
        checks.that(judged(done) == "memory" or json.loads(done.stdout)["rows"] == [{"n": sum(names.values())}], f"order, {memory}: {done.stdout}")
    bounded = "san" not in env.build.name  # a process has no bound of memory under a sanitizer: child.h
    checks.that(set(endings) == {"whole", "memory"} and min(endings.values()) >= 2 if bounded else endings["whole"] >= 2,
                f"some are right and some end: {endings}")
    done = ask(env, collector.store, COUNTS, "--memory", "24MiB", "--format", "json")
    checks.equal(judged(done), "whole", "more rows than memory holds are sorted in files")
    done = ask(env, collector.store, COUNTS, "--memory", "24MiB", "--temp", "1MiB", "--format", "json")
    checks.equal(judged(done), "temp", "files that are too small for the sort")
    done = ask(env, collector.store, GROUPED, "--memory", "24MiB", "--temp", "1MiB", "--format", "json")
    checks.equal((judged(done), {row["name"]: row["n"] for row in json.loads(done.stdout)["rows"]}), ("whole", names), "a native GROUP BY sorts no rows")
    checks.equal(list((collector.store / "temp").iterdir()), [], "temporary files that have a name")
    for form, mark in (("jsonl", '{"ended":"rows","damaged_batches":0,"behind_batches":0}'), ("csv", "# not whole: ended rows"),
                       ("table", "# not whole: ended rows")):
        done = ask(env, collector.store, "SELECT cpu FROM events", "--rows", 3, "--format", form)
        checks.that(done.returncode == LIMIT and done.stdout.splitlines()[-1].startswith(mark), f"{form}: a part says that it is one: {done.stdout}")
        done = ask(env, collector.store, "SELECT cpu FROM events LIMIT 3", "--format", form)
        checks.that(done.returncode == 0 and mark[:8] not in done.stdout, f"{form}: a whole answer has no mark: {done.stdout}")


def check_web_memory(env, checks, collector, names):
    """The same over HTTP: the daemon's questions sort in files, too, and their limit is an ending of its own in each form."""
    for temp, ending in (("64MiB", "whole"), ("1MiB", "temp")):
        collector.extra = ["--web", "127.0.0.1:0", "--web-memory", "24MiB", "--web-temp", temp]
        collector.start()
        web = web_world.Web(collector)
        for form in ("json", "jsonl", "csv"):
            status, _, text = web.ask("/api/v1/sql", "POST", json.dumps({"sql": COUNTS, "format": form}), {"Content-Type": "application/json"})
            what = f"{form}, temporary files of {temp}: {status} {text[-300:]}"
            if form == "json":
                answer = json.loads(text)
                checks.equal((status, answer["ending"], answer["damaged"], dict(answer["rows"])), (200, ending, 0, dict(names) if ending == "whole" else {}), what)
            elif ending == "whole":
                checks.that(status == 200 and len(text.splitlines()) == len(names) + (form == "csv") and "ending" not in text, what)
            else:
                checks.that(status == 200 and text.splitlines()[-1].startswith({"jsonl": '{"ending":"temp",', "csv": "# not whole: ending temp;"}[form]), what)
        collector.stop()


# statements that read the history: each by its table or column alone
OF_HISTORY = [
    "SELECT pid, image_name, begin FROM processes ORDER BY 1, 3",
    "SELECT image, count(*) AS n FROM thread_times GROUP BY 1 ORDER BY 1",
    "SELECT image, file, sum(count) AS n FROM disk_times GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT image, file, sum(count) AS n FROM file_times GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT module, sum(count) AS n FROM interrupt_times GROUP BY 1 ORDER BY 1",
    "SELECT image, name, sum(count) AS n FROM stacks GROUP BY 1, 2 ORDER BY 1, 2",
    'SELECT FileObject_name AS x, count(*) AS n FROM "DiskIo/Read" GROUP BY 1 ORDER BY 1',
    'SELECT hex(stack_hash) AS x, count(*) AS n FROM "PerfInfo/SampleProf" GROUP BY 1 ORDER BY 1',
    "SELECT process_at(host, stream, pid, time) AS x, count(*) AS n FROM events GROUP BY 1 ORDER BY 1",
    "SELECT thread_at(host, stream, tid, time) AS x, count(*) AS n FROM events GROUP BY 1 ORDER BY 1",
    "SELECT FileObject_name AS x, count AS n FROM \"DiskIo/Read_by\"('FileObject_name') ORDER BY 1",
]


def forget_history(store):
    for path in store.glob("state.db*"):
        path.unlink()


def check_history(env, checks):
    """A query of any table of the history waits for the history. Each format reports the number of batches that the history lacks."""
    trace = env.folder / "history.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "stacks", "--duration-ms", 200, "--out", trace])
    collector = env.new_collector("history").start()
    env.replay([trace], collector, agent=OTHER, spool=env.folder / "spool-history")
    collector.stop()
    store = collector.store
    whole = {sql: ask(env, store, sql) for sql in OF_HISTORY}
    checks.that(all(done.returncode == 0 for done in whole.values()), f"questions of the history: {[d.stderr for d in whole.values()]}")
    named = sum(row.get("image", row.get("x")) not in (None, "") for done in whole.values() for row in map(json.loads, done.stdout.splitlines()))
    checks.that(named > 10, f"only {named} rows with a name out of the history")
    for sql, want in whole.items():
        forget_history(store)
        done = ask(env, store, sql)
        checks.equal((done.returncode, done.stderr, done.stdout), (0, "", want.stdout), f"{sql}: on a store without a history")
    forget_history(store)
    done = ask(env, store, "SELECT count(*) AS n FROM events")
    checks.that(done.returncode == 0 and not list(store.glob("state.db")), "events alone need no history")
    ask(env, store, OF_HISTORY[0])
    with sqlite3.connect(store / "state.db") as db:
        db.execute("DELETE FROM processes")
        db.execute("UPDATE streams SET position = 1, batch_count = 0")
    with open(store / "state.lock", "r+b") as lock:  # another process folds
        fcntl.flock(lock, fcntl.LOCK_EX)
        for form, mark in (("json", '"behind_batches": '), ("jsonl", '{"ended":"whole","damaged_batches":0,"behind_batches":'),
                           ("csv", "# not whole: ended whole; damaged batches 0; batches that the history lacks "),
                           ("table", "# not whole: ended whole; damaged batches 0; batches that the history lacks ")):
            done = ask(env, store, OF_HISTORY[1], "--wait", "0s", "--format", form)
            last = done.stdout.splitlines()[-1]
            number = int(re.match(r"\d+", last.partition(mark)[2] or "0").group())
            checks.that(done.returncode == 0 and number > 0 and f"{number} stored batches are not in the history yet" in done.stderr,
                        f"{form}: a history that is not complete: {last} {done.stderr}")
        done = ask(env, store, "SELECT count(*) AS n FROM events", "--wait", "0s")
        checks.equal(done.stderr, "", "what does not read the history hears nothing of it")
        collector.extra = ["--web", "127.0.0.1:0"]
        collector.start()
        web = web_world.Web(collector)
        answer, other = web.sql(OF_HISTORY[1]), web.sql("SELECT count(*) FROM events")
        checks.that(answer["behind"] > 0 and answer["ending"] == "whole" and other["behind"] == 0, f"a history that is not complete, over HTTP: {answer} {other}")
        for path in (f"hosts/{OTHER}", "fleet"):
            one = web.get(path)
            checks.equal((one.get("damaged"), one.get("behind")), (0, answer["behind"]), f"{path}: a history that is not complete")
        for form, mark in (("jsonl", '{"ending":"whole","damaged":0,"behind":'), ("csv", "# not whole: ending whole; damaged 0; behind ")):
            _, _, text = web.ask("/api/v1/sql", "POST", json.dumps({"sql": OF_HISTORY[1], "format": form}), {"Content-Type": "application/json"})
            checks.that(text.splitlines()[-1].startswith(f"{mark}{answer['behind']}"), f"{form}: a history that is not complete, over HTTP: {text[-300:]}")
    harness.wait_until(lambda: web.sql(OF_HISTORY[1])["behind"] == 0, "the history", 60)
    checks.equal(web.sql(OF_HISTORY[1])["rows"], [[row["image"], row["n"]] for row in map(json.loads, whole[OF_HISTORY[1]].stdout.splitlines())], "the history again")
    collector.stop()


def check_hostile(env, checks, store):
    before = sorted(p.name for p in env.folder.iterdir())
    for sql, word in REFUSED:
        sql = sql.replace("{folder}", str(env.folder))
        done = ask(env, store, sql, "--time-limit", "60s")
        checks.that(done.returncode == WRONG and word in done.stderr, f"{sql[:100]}: {done.returncode} {done.stderr} {done.stdout[:200]}")
    done = env.run([env.collector, "query", "--store", store, "-"], check=False, stdin=None, input="SELECT 1" + " " * (1 << 20))
    checks.that(done.returncode != 0 and "at most" in done.stderr, f"a huge statement: {done.returncode} {done.stderr}")
    checks.equal(sorted(p.name for p in env.folder.iterdir()), before, "files after hostile SQL")
    done = ask(env, store, "SELECT 0xFFFFF80000000000 > 0x7FF700000000 AS bare, u64(0xFFFFF80000000000) > u64(0x7FF700000000) AS mapped")
    checks.equal(json.loads(done.stdout), {"bare": 0, "mapped": 1}, "SQLite's own literals are signed; u64() keeps the order")


def start(env, store, sql):
    return subprocess.Popen([str(x) for x in (env.collector, "query", "--store", store, "--time-limit", "1h", sql)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_cancel(env, checks, store):
    for what in (signal.SIGINT, signal.SIGTERM):
        asking = start(env, store, CROSS)
        wait_until(lambda: workers_of(asking.pid), "a query's process")
        worker = workers_of(asking.pid)[0]
        asking.send_signal(what)
        _, errors = asking.communicate(timeout=120)
        checks.equal((asking.returncode, "stopped on request" in errors), (1, True), f"{what.name}: {errors}")
        wait_until(lambda: is_gone(worker), "the end of the query's process")
    asking = start(env, store, CROSS)
    wait_until(lambda: workers_of(asking.pid), "a query's process")
    worker = workers_of(asking.pid)[0]
    asking.kill()
    asking.communicate()
    wait_until(lambda: is_gone(worker), "the end of an orphan")
    checks.that(True, "")
    asking = start(env, store, CROSS)
    wait_until(lambda: workers_of(asking.pid), "a query's process")
    os.kill(workers_of(asking.pid)[0], signal.SIGKILL)
    _, errors = asking.communicate(timeout=120)
    checks.equal((asking.returncode, "ended early" in errors), (1, True), f"a killed process of a query: {errors}")


def check_harmless(env, checks, collector):
    """Runaway queries while the collector takes in another trace."""
    asking = [start(env, collector.store, sql) for sql in (CROSS, BOMB.format("group_concat(x)"))]
    wait_until(lambda: all(workers_of(a.pid) for a in asking), "the queries' processes")
    env.replay(traces.paths(OTHER, env.build), collector, agent=OTHER, spool=env.folder / f"spool-{OTHER}")
    checks.that(asking[0].poll() is None, "the query runs on while events come in")
    checks.equal(counted(env, collector.store, OTHER), traces.event_count(OTHER), "events that came in beside runaway queries")
    for a in asking:
        a.send_signal(signal.SIGINT)
        a.communicate(timeout=120)
    checks.that(collector.process.poll() is None, "the collector lives")


def check_damage(env, checks, collector):
    """A byte of one batch is another."""
    rows = [json.loads(line) for line in ask(
        env, collector.store, f'SELECT batch, events, bytes, segment, "offset" FROM batches WHERE host = \'{TRACE}\' AND events > 0'
                              " ORDER BY batch").stdout.splitlines()]
    victim = rows[len(rows) // 2]
    path = sorted((collector.store / "segments").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[victim["offset"] + victim["bytes"] // 2] ^= 0x10
    path.write_bytes(data)
    whole = sum(row["events"] for row in rows)
    for sql in ("SELECT count(*) AS n FROM events", "SELECT count AS n FROM events_by(NULL)"):
        done = ask(env, collector.store, sql, "--host", TRACE, "--format", "json")
        answer = json.loads(done.stdout)
        checks.equal((done.returncode, answer["rows"][0]["n"], answer["damaged_batches"]), (DAMAGED, whole - victim["events"], 1),
                     f"{sql}: one of {len(rows)} batches is damaged: {done.stderr}")
        checks.that(f"batch {victim['batch']}" in done.stderr, f"the damaged batch is named: {done.stderr}")
    done = ask(env, collector.store, f"SELECT count(*) AS n FROM events WHERE batch <> {victim['batch']}", "--host", TRACE)
    row, mark = map(json.loads, done.stdout.splitlines())
    checks.equal((done.returncode, row["n"], mark["damaged_batches"]), (3, whole - victim["events"], 1), "the others, and a mark")
    done = ask(env, collector.store, f"SELECT count(*) AS n FROM events WHERE batch < {victim['batch']}", "--host", TRACE)
    checks.equal((done.returncode, json.loads(done.stdout)["n"]), (0, sum(r["events"] for r in rows if r["batch"] < victim["batch"])),
                 f"who does not touch it hears nothing of it: {done.stderr}")


def test(env, checks, arguments):
    env.make_certificates(agents=[TRACE, OTHER])
    collector = env.new_collector().start()
    env.replay(traces.paths(TRACE, env.build), collector, agent=TRACE, spool=env.folder / f"spool-{TRACE}")
    check_limits(env, checks, collector.store)
    check_memory(env, checks)
    if arguments.soak:
        check_many(env, checks)
    check_hostile(env, checks, collector.store)
    check_cancel(env, checks, collector.store)
    check_harmless(env, checks, collector)
    collector.stop()
    check_history(env, checks)
    check_damage(env, checks, collector)


if __name__ == "__main__":
    harness.main(test, __doc__)
