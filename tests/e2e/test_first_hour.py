"""The first hour: what a new user types, and what each command must say. docs/verification/first-hour.md lists the frictions that were
found, with what became of each; a check here has the number of its row.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "day.etl"
SERVICE = 65534  # a user id that has no rights


class World:
    def __init__(self, env, checks):
        self.env, self.checks, self.store = env, checks, env.folder / "store"

    def collector(self, *command, store=True):
        return self.env.run([self.env.collector, command[0], *(["--store", self.store] if store else []), *command[1:]], check=False, cwd=self.env.folder)

    def agent(self, *command):
        return self.env.run([self.env.agent, *command], check=False, cwd=self.env.folder)

    def says(self, number, done, code, *texts):
        said = done.stdout + done.stderr
        self.checks.equal(done.returncode, code, f"({number}) {' '.join(str(a) for a in done.args[1:])}: exit code; {said[:300]}")
        for text in texts:
            self.checks.that(text in said, f"({number}) {' '.join(str(a) for a in done.args[1:])}: expected {text!r}, got {said[:400]!r}")

    def value(self, sql):
        done = self.collector("query", "--format", "csv", sql)
        if done.returncode:
            raise harness.Failure(f"{sql}: {done.stderr}")
        return done.stdout.split()[-1]


def check_groups(w):  # 1: tables of groups refuse what their class's table refuses
    by_process, by_thread = "SELECT count(*) FROM \"Image/DCStart_by\"('ProcessId') WHERE ", "SELECT count(*) FROM \"Thread/CSwitch_by\" WHERE by1 = 'NewThreadId' AND every = '1s' AND "
    for condition, text in (("ImageBase = 5", "write u64('5')"), ("ImageBase <> 0x10", "write u64('16')"), ("ImageBase IN (5, 6)", "write u64('6')"), ("ImageBase IN (u64('5'), 7)", "write u64('7')"),
                            ("ProcessId = 'abc'", "a number is compared with the text"), ("count > 'abc'", "a number is compared with the text")):
        w.says(1, w.collector("query", by_process + condition), 2, text)
    for condition, text in (("bucket > 'someday'", "cannot be compared with 'someday'"), ("bucket > '2024-05-03'", "write time_ns('2024-05-03')"), ("bucket > 1714730000", "would be in 1970"),
                            ("time > 'someday'", "cannot be compared with 'someday'")):
        w.says(1, w.collector("query", by_thread + condition), 2, text)
    for condition in ("pid IN (4, 5) OR ProcessId > 0", "ProcessId > 0 AND ImageBase > u64('0x10')", "ProcessId IN (SELECT pid FROM processes) AND time >= '2024-05-03' AND count > 0"):
        w.checks.that(int(w.value(by_process.replace("('ProcessId')", "('ProcessId', 'pid')") + condition)) > 0, f"(1) groups where {condition}")
    w.checks.that(int(w.value(by_thread + "bucket > time_ns('2024-05-03')")) > 0, "(1) groups since a day")
    some = w.value("SELECT group_concat('u64(''' || u64_text(a) || ''')') FROM (SELECT DISTINCT ImageBase AS a FROM \"Image/DCStart\" LIMIT 3)").strip('"')
    w.checks.equal(w.value(f"SELECT count(*) FROM \"Image/DCStart_by\"('ImageBase') WHERE ImageBase IN ({some})"), "3", "(1) a list of addresses of groups")
    for sql, code, text in (("SELECT * FROM \"Thread/CSwitch_by\"('NewThrdId')", 2, "did you mean 'NewThreadId'?"), ("SELECT * FROM \"Thread/CSwich_by\"('pid')", 2, 'did you mean "Thread/CSwitch_by"?'),
                            ("SELECT * FROM \"Process/Defunct_by\"('pid')", 1, "no event of this class is stored")):
        w.says(12, w.collector("query", sql), code, text)


def check_texts_of_times(w):  # 1
    all_of_them = w.value("SELECT count(*) FROM processes")
    for after in ("'2020-11-22T00:00:00Z'", "'2020-11-22'", "'2020-11-22 10:00'", "time_ns('2020-11-22')"):
        w.checks.equal(w.value(f"SELECT count(*) FROM processes WHERE begin > {after}"), all_of_them, f"(1) processes since {after}")
        w.checks.that(int(w.value(f"SELECT count(*) FROM batches WHERE received > {after}")) > 0, f"(1) batches since {after}")
    for since in ("ago('24h')", "'yesterday'", "'-24h'", "datetime('now', '-1 day')"):
        w.checks.equal(w.value(f"SELECT count(*) FROM batches WHERE received > {since}"), w.value("SELECT count(*) FROM batches"), f"(1) received since {since}")
    w.says(1, w.collector("query", "SELECT count(*) FROM processes WHERE begin > 'someday'"), 2, "cannot be compared with 'someday'", "ago('24h')")
    w.says(1, w.collector("query", "SELECT count(*) FROM hosts WHERE received_last > '2020-11-22T00:00:00Z'"), 2, "write time_ns('2020-11-22T00:00:00Z')")
    w.says(1, w.collector("query", "SELECT count(*) FROM modules WHERE base = '0x7ffa555e0000'"), 2, "write u64('0x7ffa555e0000')")
    for sql in ("SELECT count(*) FROM processes WHERE pid = 'abc'", "SELECT count(*) FROM events WHERE pid > 'x'", "SELECT count(*) FROM \"DiskIo/Read\" WHERE TransferSize = '4 KiB'",
                "SELECT count(*) FROM processes p JOIN threads t ON t.pid = p.pid WHERE t.tid <> '0x10'"):
        w.says(1, w.collector("query", sql), 2, "a number is compared with the text")
    for sql, text in (("coalesce(\"end\", now()) > 'yesterday'", "write time_ns('yesterday')"), ("coalesce(\"end\", begin) > '2024-01-01'", "write time_ns('2024-01-01')"),
                      ("begin + 0 > '2024-01-01'", "write time_ns('2024-01-01')"), ("begin > 1714730000", "would be in 1970"), ("begin < unixepoch('now')", "would be in 1970"),
                      ("begin > '2024'", "would be in 1970"), ("unique_key = 0x7ffa555e0000", "write u64('0x7ffa555e0000')"), ("unique_key > 16", "write u64('16')")):
        w.says(1, w.collector("query", f"SELECT count(*) FROM processes WHERE {sql}"), 2, text)
    for sql, text in (("SELECT count(*) FROM events WHERE time_bucket(time, '1s') > '2024-01-01'", "write time_ns('2024-01-01')"),
                      ("SELECT count(*) FROM events WHERE time > julianday('now')", "would be in 1970"), ('SELECT count(*) FROM "Image/DCStart" WHERE ImageBase = 0x10', "write u64('16')"),
                      ("SELECT count(*) FROM cpu_usage(1714730000)", "would be in 1970"), ("SELECT count(*) FROM cpu_usage(now(), ago('1h'))", "the range ends before it begins")):
        w.says(1, w.collector("query", sql), 2, text)
    for right in ("coalesce(image_name, '') > '2024-01-01'", "CASE WHEN pid = 4 THEN image_name ELSE 0 END = 'System'", "time_text(begin) > '2024-01-01'", "begin > 0",
                  "unique_key <> u64('0x10')", "unique_key NOT IN (u64('1'), u64('2'), u64('3'))", "coalesce(image_name, command_line) > '2024-01-01'"):
        w.checks.that(int(w.value(f"SELECT count(*) FROM processes WHERE {right}")) > 0, f"(1) {right} has rows")
    for table, column in (("modules", "base"), ('"Image/DCStart"', "ImageBase")):
        for numbers in ("(0)", "(9)", "(5)", "(5, 6)", "(5, 6, 0x7ffa555e0000)", "(u64('1'), u64('2'), 7)"):
            w.says(1, w.collector("query", f"SELECT count(*) FROM {table} WHERE {column} IN {numbers}"), 2, "write u64('")
        w.says(1, w.collector("query", f"SELECT count(*) FROM {table} WHERE CASE WHEN {column} = 5 THEN 1 ELSE 0 END"), 2, "write u64('5')")
        some = w.value(f"SELECT group_concat('u64(''' || u64_text(a) || ''')') FROM (SELECT DISTINCT {column} AS a FROM {table} LIMIT 3)").strip('"')
        w.checks.equal(w.value(f"SELECT count(DISTINCT {column}) FROM {table} WHERE {column} IN ({some})"), "3", f"(1) a list of {column}")
    check_groups(w)
    for sql, same in (("SELECT count(*) FROM events WHERE time < '+1s'", "SELECT count(*) FROM events WHERE time < (SELECT min(time) + 1000000000 FROM events)"),
                      ("SELECT count(*) FROM events WHERE time >= time_ns('start') AND time < 'end'", "SELECT count(*) FROM events"),
                      ("SELECT sum(samples) FROM cpu_usage('+1s', 'end-1s')", "SELECT sum(samples) FROM cpu_usage(time_ns('start') + 1000000000, time_ns('end') - 1000000000)")):
        w.checks.equal(w.value(sql), w.value(same), f"(1) {sql}")
    for sql, same in (("SELECT count(*) FROM processes WHERE pid = ' 4'", "SELECT count(*) FROM processes WHERE pid = 4"),
                      ("SELECT count(*) FROM events WHERE pid >= '1e2'", "SELECT count(*) FROM events WHERE pid >= 100")):
        w.checks.equal(w.value(sql), w.value(same), f"(1) {sql}")
    w.checks.that(int(w.value("SELECT count(*) FROM \"Image/DCStart\" WHERE ImageBase >= '0x10'")) > 0, "(1) an address of a class compares with its text")


def check_owner(w):  # 2
    if os.geteuid() != 0:
        return
    theirs = w.env.folder / "theirs"
    shutil.copytree(w.store, theirs)
    for path in [theirs, *theirs.rglob("*")]:
        os.chown(path, SERVICE, SERVICE)
    for path in theirs.glob("state.*"):
        path.unlink()
    key = w.env.folder / "request.key"
    w.env.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key])
    key.chmod(0o600)
    made = set()
    for command, code in ((["ps"], 0), (["token", "add", "--name", "anna"], 0), (["ingest", "--host", "two", w.env.folder / FILE], 0), (["query", "SELECT count(*) FROM processes"], 0),
                          (["sink", "run", "--name", "s", "--to", "http://127.0.0.1:1/", "--once", "--all", "--retry-min", "1ms", "--retry-max", "1ms"], 1), (["sink", "skip", "--name", "s"], 0),
                          (["request", "window", "--key", key, "--host", "two", "--from", "-10m"], 0), (["ledger"], 0), (["doctor"], None), (["quota"], 0), (["audit", "verify"], None),
                          (["token", "revoke", "anna"], 0), (["detections", "list"], 0), (["forget", "--host", "two"], 0), (["report", "gc"], 0), (["profile", "--format", "folded"], 0),
                          (["backup", "--to", w.env.folder / "of-theirs"], 0)):
        words = 2 if command[0] in ("token", "sink", "request", "audit", "detections") else 1
        done = w.env.run([w.env.collector, *command[:words], "--store", theirs, *command[words:]], check=False)
        w.says(2, done, done.returncode if code is None else code)
        others = [str(path.relative_to(theirs)) for path in theirs.rglob("*") if path.stat().st_uid != SERVICE or path.stat().st_gid != SERVICE]
        w.checks.equal(others, [], f"(2) files of root in the store of a service after {' '.join(map(str, command[:words]))}")
        made |= {path.name for path in theirs.iterdir()}
    w.checks.that({"tokens", "state.db", "audit.jsonl"} <= made and any(name.startswith("sink") for name in made) and any(name.startswith("request") for name in made),
                  f"(2) the commands made these files: {sorted(made)}")


def check_names(w):  # 7: the same trace under two names
    w.says(7, w.collector("ingest", "--host", "twin", FILE), 0)
    counts = [w.value(f"SELECT count(*) FROM processes c JOIN processes p ON p.host = c.host AND p.stream = c.stream AND p.instance = c.parent_instance WHERE c.host = '{host}'")
              for host in ("day", "twin")]
    w.checks.equal(counts[0], counts[1], "(7) children with their parents")
    profiles = [w.collector("profile", "--host", host, "--format", "folded").stdout for host in ("day", "twin")]
    w.checks.that(profiles[0] and profiles[0] == profiles[1], "(7) profiles of the two")


def check_open(w):  # 9
    for command in (["open", FILE], ["profile", FILE], ["ps", FILE], ["query", FILE, "SELECT count(*) FROM processes"]):
        w.says(9, w.collector(*command, store=False), 0)
    w.says(9, w.agent("import", FILE), 2, "etwcollector open FILE")
    w.says(9, w.agent("open", FILE), 0, "@samples count", "etwcollector open --web")
    w.says(9, w.agent("profile", FILE), 2, "'profile' is a command of etwcollector, which is built for Linux")


def check_page(w):  # 9: a flame graph and tables where the collector does not run
    """The page's samples and pauses are those of the collector's profile and of its table of pauses."""
    page = w.env.folder / "page.html"
    w.says(9, w.agent("open", "--html", page, FILE), 0, f"the page is {page}")
    text = page.read_text()
    samples, without = re.search(r"<p>(\d+) samples, (\d+) of them without a call stack", text).groups()
    said = w.collector("profile", FILE, "--format", "folded", store=False).stderr
    w.checks.that(f"{samples} events with weight, {without} of them without a stack" in said, f"(9) samples of the page: {samples}, {without}; the profile: {said}")
    programs = [json.loads(line) for line in w.agent("open", "--json", FILE).stdout.splitlines()[1:]]
    most = next(row for row in programs if row["aggregation"] == "@samples")
    w.checks.that(re.search(rf'title="{re.escape(most["keys"][0])}: {most["count"]} samples, [0-9.]+ %;', text), f"(9) the widest program of the page: {most}")
    w.checks.that("<h2>Bytes of disk requests by file</h2>" in text and text.count("<div") == text.count("</div>") > 100, "(9) tables of the page, and its tree")
    w.checks.that("<script" not in text and "http://" not in text and "https://" not in text and "default-src 'none'" in text, "(9) the page has no script and refers to nothing")
    w.says(9, w.agent("open", "--html", page, FILE), 1, "is there already")
    w.says(9, w.agent("open", "--html", page, "--json", FILE), 2, "expected --json or --html")
    w.checks.equal(page.read_text(), text, "(9) a file that is there stays")
    link, elsewhere = w.env.folder / "link.html", w.env.folder / "elsewhere.html"
    link.symlink_to(elsewhere)
    w.says(9, w.agent("open", "--html", link, FILE), 0)
    w.checks.equal((elsewhere.exists(), link.is_symlink(), link.stat().st_mode & 0o777, link.read_text() == text), (False, False, 0o600, True), "(9) a link that leads nowhere is replaced, not followed")
    w.env.run([w.env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "web-server", "--seed", "7", "--duration-ms", "500", "--out", w.env.folder / "web.etl"])
    rows = [json.loads(line) for line in w.agent("open", "--json", "web.etl").stdout.splitlines()[1:]]
    pauses = {row["keys"][0]: row["count"] for row in rows if row["aggregation"] == "@pauses"}
    longest = {row["keys"][0]: row["max"] for row in rows if row["aggregation"] == "@longest_pause_us"}
    stored = w.collector("query", "web.etl", "--format", "csv", "SELECT image, count(*), max(pause_ns) / 1000 FROM gc_pauses WHERE pause_ns > 0 GROUP BY 1", store=False).stdout.splitlines()[1:]
    w.checks.that(pauses, "(9) pauses in the trace")
    w.checks.equal(sorted(f"{name},{count},{longest[name]}" for name, count in pauses.items()), sorted(stored), "(9) pauses of open, and of gc_pauses")


def check_tables_of_open(w):  # 9: what threads waited for, and what .NET compiled, where the collector does not run
    def tables(path):
        rows = [json.loads(line) for line in w.agent("open", "--json", path).stdout.splitlines()[1:]]
        return lambda name, value: {tuple(row["keys"]): row[value] for row in rows if row["aggregation"] == f"@{name}"}

    lives = {}  # numbers of threads are used again
    for line in w.collector("query", FILE, "--format", "csv", "SELECT tid, time_text(t.begin), image_name FROM threads t JOIN processes p ON p.host = t.host AND p.stream = t.stream "
                            "AND p.instance = t.process_instance ORDER BY t.begin", store=False).stdout.splitlines()[1:]:
        lives.setdefault(line.split(",")[0], []).append(line.split(",")[1:])

    def image(tid, time):
        return ([name for begin, name in lives.get(str(tid), []) if begin <= time] or [None])[-1]

    left, waited = {}, {}
    for line in w.agent("dump", "--class", "Thread/CSwitch", "--format", "jsonl", FILE).stdout.splitlines():
        event = json.loads(line)
        fields, second, fraction = event["fields"], *re.match(r".*:(\d+)\.(\d{7})Z", event["time"]).groups()
        ticks = int(second) * 10**7 + int(fraction)
        if fields["OldThreadId"]:
            left[fields["OldThreadId"]] = ticks, fields["OldThreadWaitReason"]["name"]
        began = left.pop(fields["NewThreadId"], None)
        if began:
            key = image(fields["NewThreadId"], event["time"]), began[1]
            waited[key] = waited.get(key, 0) + (ticks - began[0]) // 10
    shown = tables(FILE)("off_cpu_us", "sum")
    w.checks.that(len(shown) == 10 and min(shown.values()) > 0, f"(9) times off the processor: {shown}")
    stays = set(w.collector("query", FILE, "--format", "csv", "SELECT image_name FROM processes GROUP BY 1 HAVING max(begin_cause = 'start' OR \"end\" IS NOT NULL) = 0",
                            store=False).stdout.splitlines()[1:])  # a reader from the first event on knows only these as the history does
    known = {key: value for key, value in shown.items() if key[0] in stays}
    w.checks.equal(known, {key: waited.get(key) for key in known}, "(9) times off the processor, and those of the trace's switches")
    w.checks.that(len(known) >= 5, f"(9) programs that ran all the time: {known}")

    scenario = w.env.folder / "compiled.yaml"
    scenario.write_text("summary: a web server that loses nothing\nbase: web-server\nloss: {events_windows: 0, buffers_windows: 0}\n")
    w.env.run([w.env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--seed", "7", "--duration-ms", "400", "--out", w.env.folder / "compiled.etl"])
    of_trace = tables("compiled.etl")
    stored = w.collector("query", "compiled.etl", "--format", "csv", "SELECT image, count(*), sum(ns / 1000) FROM jit_methods() GROUP BY 1", store=False).stdout.splitlines()[1:]
    methods, times = of_trace("compiled_methods", "count"), of_trace("compilation_us", "sum")
    w.checks.that(methods and sum(methods.values()) > 50, f"(9) methods that were compiled: {methods}")
    w.checks.equal(sorted(f"{name[0]},{methods[name]},{times[name]}" for name in methods), sorted(stored), "(9) compilations of open, and of jit_methods")


def check_typing_errors(w):  # 12
    w.says(12, w.agent("dump", "--class", "Nope", FILE), 1, "no event is of such a class")
    w.says(12, w.agent("dump", "--class", "Process/Strat", FILE), 1, "did you mean 'Process/Start'?")
    w.says(12, w.agent("dump", "--pid", "999999", FILE), 1, "no event in the range is of or about this process")
    w.says(12, w.agent("dump", "--from", "2025-01-01", "--to", "2024-01-01", FILE), 2, "is not before")
    w.says(12, w.agent("dump", "--from", "2030-01-01", FILE), 1, "the events are of 2024-05-03T10:00:00")
    w.says(12, w.agent("dump", "--fields", "Nope", FILE), 1, "has this column")
    w.says(12, w.collector("export", "--host", "day", "--from", "2030-01-01"), 1, "the events are of 2024-05-03T10:00:00")
    w.says(12, w.collector("export", "--host", "day", "--pid", "999999"), 1, "no event in the range is of or about this process")
    for command in (["hosts"], ["ps"], ["profile"], ["ledger"], ["query", "SELECT 1"]):
        w.says(12, w.collector(command[0], "--host", "nosuch", *command[1:]), 1, "nosuch")
    w.says(12, w.collector("query", 'SELECT * FROM "Process/Strat"'), 2, 'did you mean "Process/Start"?')
    for sql, code, words in (("SELECT pid FROM processes AS p WHERE p.host = 'nosuch'", 6, "nothing is stored of host nosuch"),
                             ("SELECT pid FROM processes WHERE host IN ('day', 'nosuch') LIMIT 1", 0, "nothing is stored of host nosuch"),
                             ("SELECT count(*) FROM events WHERE provider_name = 'Windows kernel Trac'", 0, "provider 'Windows kernel Trac'; did you mean 'Windows Kernel Trace'?"),
                             ("SELECT pid FROM events WHERE name = 'process/start'", 6, "class 'process/start'; did you mean 'Process/Start'?"),
                             ("SELECT pid FROM events WHERE \"NAME\" == 'Process/Startt'", 6, "class 'Process/Startt'; did you mean 'Process/Start'?")):
        w.says(12, w.collector("query", sql), code, words)
    for known in ("host = 'day'", "/* host = 'a' */ host <> 'nosuch'", "name = 'Process/Start' AND provider_name = 'windows kernel trace'", "name IN ('Process/Start')", "host NOT IN ('nosuch')"):
        w.checks.equal(w.collector("query", f"SELECT count(*) FROM events WHERE {known}").stderr, "", f"(12) nothing is unknown in {known}")
    w.says(12, w.collector("query", "--json", "SELECT pid FROM processes WHERE host = 'no\"such'"), 6, '"notice": "nothing is stored of host no\\"such')
    w.says(18, w.collector("query", 'SELECT * FROM "Process/Defunct"'), 1, "no event of this class is stored")


def check_similar(w):  # 12: what does not exist is answered with what does
    for sql, text in (("SELECT pid FROM proceses", 'did you mean "processes"?'), ("SELECT begn FROM processes", 'did you mean "begin"?'), ("SELECT p.imagename FROM processes p", 'did you mean "image_name"?'),
                      ('SELECT * FROM "Process/St"', 'did you mean "Process/'), ("SELECT * FROM tsk_03006", 'did you mean "task_03006"?'), ("SELECT nwo()", "no such function: nwo; did you mean"),
                      ('SELECT PProcesId FROM "Process/Start"', "no such column: PProcesId"), ('SELECT TransferSiz FROM "DiskIo/Read"', 'did you mean "TransferSize"?'),
                      ('SELECT pid FROM processes WHERE host = "day"', "a text is written in single quotes")):
        w.says(12, w.collector("query", sql), 2, text)
    w.checks.that("did you mean" not in w.collector("query", "SELECT qz(1)").stderr, "(12) a function with a name of two letters is like none")
    w.says(12, w.collector("query", "SELECT pid FROM processes WHERE host = 'DAY'"), 6, "did you mean 'day'?")
    name = w.value("SELECT min(image_name) FROM processes WHERE image_name LIKE '%.exe'")
    path = w.value("SELECT min(path) FROM modules WHERE path LIKE '%.dll' AND path NOT LIKE '% %'")
    for column, table, stored in (("image_name", "processes", name), ("path", "modules", path)):
        other = stored.swapcase()
        w.says(12, w.collector("query", f"SELECT pid FROM {table} WHERE {column} = '{other}'"), 6, f"'{other}' compares the case of letters, and '{stored}' is stored", "COLLATE NOCASE")
        w.says(12, w.collector("query", f"SELECT count(*) FROM {table} WHERE {column} IN ('{other}')"), 0, f"'{stored}' is stored")
        for known in (f"{column} = '{stored}' AND pid = -1", f"{column} = '{other}' COLLATE NOCASE AND pid = -1", f"{column} = 'nosuch.exe'"):
            w.checks.equal(w.collector("query", f"SELECT pid FROM {table} WHERE {known}").stderr, "", f"(12) nothing is in another case: {known}")
    w.says(12, w.collector("query", "SELECT tme_ns('now')"), 2, 'no such function: tme_ns; did you mean "time_ns"?')
    w.says(12, w.collector("pull", "--host", "nosuch", "-o", "x.etl"), 1, "nothing is stored of host nosuch")
    w.says(12, w.env.run([w.env.collector, "detections", "list", "--store", w.store, "--host", "day"], check=False), 0)
    w.says(12, w.env.run([w.env.collector, "detections", "list", "--store", w.store, "--host", "nosuch"], check=False), 1, "nothing is stored of host nosuch")
    w.says(12, w.agent("schema", "show", "Microsoft-Windows-PowerShel"), 1, "did you mean 'Microsoft-Windows-PowerShell'?")
    w.says(12, w.agent("relog", "-o", "none.etl", "--from", "2030-01-01", FILE), 0, "no event fits the choice of times")
    stored = "events are stored from 2024-05-03T10:00:00.0000000Z to 2024-05-03T10:00:0"
    for options in ([], ["--from", "start"]):
        done = w.collector("export", "--host", "day", "--where", "pid == 999999", *options)
        w.says(12, done, 0, f"no event in the range fits --where; {stored}")
        w.checks.equal(done.stdout, "", "(12) no event fits")
    w.says(12, w.collector("export", "--host", "day", "--where", "pid == 4", "--from", "2030-01-01"), 1, "no event is in the range of --from and --to")
    program = "Process/Start { @ = count(); }"
    w.says(12, w.collector("watch", "--from", "2030-01-01", "-e", program), 0, f"no event is in the range; {stored}")
    w.says(12, w.collector("watch", "-e", program.replace("Start", "Defunct")), 0, "no clause is of any of the")
    w.checks.equal(w.collector("watch", "-e", program).stderr, "", "(12) a program with events")


def check_nothing_found(w):  # 12: an empty table on a terminal says from when to when events are stored; a script's standard error stays empty
    command = ["query", "SELECT pid FROM processes WHERE begin > '2030-01-01'"]
    screen, other = os.openpty()
    done = subprocess.run([w.env.collector, command[0], "--store", w.store, command[1]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=other, text=True, check=False)
    os.close(other)
    shown = os.read(screen, 4096).decode()
    os.close(screen)
    w.checks.that(done.returncode == 0 and shown.startswith("etwcollector: no rows; events are stored from 2024-05-03T10:00:00.0000000Z to 2024-05-03T10:00:0"), f"(12) an empty answer: {shown!r}")
    w.checks.equal(w.collector(*command).stderr, "", "(12) the same without a terminal")


def check_reasons(w):  # 18
    if os.geteuid() == 0:
        denied = w.env.run(["setpriv", f"--reuid={SERVICE}", "--clear-groups", w.env.collector, "hosts", "--store", w.store], check=False)
        w.says(18, denied, 1, "Permission denied")
    w.says(18, w.env.run([w.env.collector, "hosts", "--store", w.env.folder / "nosuch"], check=False), 1, "there is no store")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        w.says(18, w.collector("open", "--web", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", FILE, store=False), 1, "Address already in use")
    certs = w.env.certs
    w.env.make_certificates()
    own = [word for option in ("cert", "key") for word in (f"--{option}", certs / f"test-machine.{option.replace('cert', 'crt')}")]
    w.says(18, w.env.run([w.env.collector, "run", "--store", w.env.folder / "none", "--listen", "127.0.0.1:0", "--ca", certs / "ca.crt", *own], check=False), 1,
           "test-machine.crt: expected a server's certificate, found one for a client, as agents have", "etwcollector ca issue --server --name NAME --san DNS:HOST")


def check_configuration(w):  # 13
    path = w.env.folder / "names.yaml"
    path.write_text("sessions:\n  - name: a\n    providers:\n      - provider: Microsoft-Windows-PowerShel\n      - provider: Microsoft-Windows-PowerShell\n"
                    "        any: NoSuchKeyword+0x10\n        event-ids: [4104, 9999]\n      - provider: Vendor-Thing\n")
    done = w.agent("check", path)
    w.says(13, done, 0, "no provider Microsoft-Windows-PowerShel is known here; did you mean 'Microsoft-Windows-PowerShell'?",
           "Microsoft-Windows-PowerShell has no keyword NoSuchKeyword", "no event 9999 of Microsoft-Windows-PowerShell is known here")
    w.checks.equal(done.stdout.count("note:"), 3, f"(13) notes: {done.stdout}")
    for profile in sorted((ROOT / "config" / "profiles").glob("*.yaml")):
        w.checks.that("is known here" not in w.agent("check", profile).stdout, f"(13) {profile.name} names what the catalogue has")


def check_stats(w):  # 26
    cut = w.env.folder / "cut.etl"
    cut.write_bytes((w.env.folder / FILE).read_bytes()[:700_000])
    last = max(line[9:37] for line in w.agent("dump", "--format", "jsonl", "--no-names", cut).stdout.splitlines())
    w.says(26, w.agent("stats", cut), 0, f"the last one of {last}")
    w.says(26, w.agent("stats", "--json", cut), 0, f'"last_event":"{last}"')


def check_times(w):  # 23
    w.says(23, w.collector("ps", "--host", "day", "--at", "+2s"), 0, "System")
    for at in ("start", "end", "now", "2024-05-03 10:00:01", "2024-05-04", "-1h"):
        w.says(23, w.collector("ps", "--host", "day", "--at", at), 0, "System")
    for bounds in (["--from", "+1s"], ["--from", "start", "--to", "end"], ["--from", "end-1s"], ["--from", "2024-05-03", "--to", "2024-05-04"], ["--from", "2024-05-03T10:00:01"]):
        w.says(23, w.collector("profile", "--host", "day", "--format", "folded", *bounds), 0, ";")
    w.says(23, w.agent("dump", "--class", "Process/*", "--from", "+100ms", FILE), 0, "Process/Start")
    whole, half = (w.agent("dump", "--from", first, FILE).stdout.count("\n") for first in ("start", "+1s"))
    w.checks.that(0 < half < whole, f"(23) {half} of {whole} events from the first second on")
    w.says(23, w.collector("profile", "--from", "24h"), 2, "-1h", "2024-05-17")
    w.says(23, w.collector("ps", "--host", "day", "--at", "end-1s"), 0, "System")
    w.says(23, w.collector("ps", "--host", "day", "--at", "end-1h"), 1, "the first event is of 2024-05-03T10:00:00")
    w.says(23, w.collector("ps", "--host", "day", "--at", "+soon"), 2, "+10s")
    w.says(23, w.collector("report", "cpu", "--from", "2025-01-01", "--to", "2024-01-01"), 2, "is not before")
    for bounds in (["--from", "end-200ms"], ["--from", "end-2s", "--to", "end-1s"], ["--to", "end"]):  # a cut file ends before its header's end
        lines = [w.agent("dump", "--format", "jsonl", "--no-names", *bounds, FILE).stdout.count("\n"), w.collector("export", "--host", "day", "--no-names", *bounds).stdout.count("\n")]
        w.checks.that(lines[0] > 0 and lines[0] == lines[1], f"(23) dump and export of {bounds}: {lines} events")
    cut = w.env.folder / "cut.etl"
    last = max(line[9:37] for line in w.agent("dump", "--format", "jsonl", "--no-names", cut).stdout.splitlines())
    w.checks.that(last in w.agent("dump", "--format", "jsonl", "--no-names", "--from", "end-1ms", cut).stdout, "(23) the end of a cut file is its last event")


def check_empty_profile(w):  # 24
    w.says(24, w.collector("profile", "--from", "2030-01-01"), 0, "no stored event of these hosts in this range has this weight")
    w.says(24, w.collector("profile", "--weight", "pmc:Nope"), 0, "no sample of the counter Nope")


def check_reports(w):  # 21, 22
    w.says(21, w.collector("report", "gc"), 0, "Garbage collections of .NET", "pause ms")
    w.checks.that(int(w.value("SELECT count(*) FROM gc_pauses WHERE pause_ns > 0")) > 0, "(21) pauses of collections")
    w.says(21, w.collector("report", "gc", "--to", "2001-01-01"), 0, "no rows: the report needs events of Microsoft-Windows-DotNETRuntime")
    pauses = [json.loads(line)["completed"]["latency_ns"] for line in w.agent("dump", "--class", "GC/SuspendEEStart", "--format", "jsonl", "web.etl").stdout.splitlines()]
    columns = w.agent("dump", "--class", "GC/SuspendEEStart", "--fields", "name,completed_latency_ns", "web.etl")
    w.checks.equal(columns.stdout.splitlines(), [f"GC/SuspendEEStart\t{ns}" for ns in pauses], "(21) what `completed` has, as a column")
    w.checks.that(len(pauses) >= 3, f"(21) pauses in the trace: {len(pauses)}")
    ends = w.agent("dump", "--class", "GC/Stop", "--fields", "completes_operation,completes_latency_ns,completed_latency_ns", "--format", "csv", "web.etl").stdout.split()[1:]
    w.checks.that(ends and all(line.startswith("GC/Start,") and line.split(",")[1].isdigit() and line.endswith(",") for line in ends), f"(21) ends of collections: {ends[:3]}")
    files = w.agent("dump", "--class", "FileIo/Read", "--fields", "completed_status,completed_size", FILE).stdout
    w.checks.that("SUCCESS(0x0)\t" in files, f"(21) status and size of a read: {files[:200]}")
    times = [sample["ts"] for sample in json.loads(w.collector("profile", "--host", "day", "--format", "chrome").stdout)["samples"]]
    w.checks.that(times[0] == 0 and 1e6 < times[-1] < 1e8, f"(22) the time axis is that of the recording: {times[:1]} to {times[-1:]} us")


def check_parents(w):  # 15: powershell that winword started
    w.env.run([w.env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "attack", "--seed", "3", "--out", w.env.folder / "attack.etl"])
    done = w.collector("query", "attack.etl", "--format", "csv", "SELECT command_line FROM processes WHERE begin_cause = 'start' AND image_name LIKE 'powershell.exe' AND "
                       "parent_image_name LIKE 'winword.exe' AND parent_command_line LIKE '%.doc%'", store=False)
    w.says(15, done, 0, "-Enc ")
    w.checks.equal(len(done.stdout.splitlines()), 2, f"(15) powershell by winword is one process: {done.stdout[:300]}")


def check_profile(w):  # 6: the profile says what it has, and which places stay empty
    text = (ROOT / "config" / "profiles" / "security.yaml").read_text()
    w.checks.equal((text.count("\n  - name: "), "# Four sessions." in text), (4, True), "(6) sessions of the profile, and its own number of them")
    w.checks.that("\n    images: true\n" in text, "(6) the profile looks at the files of images")
    for word in ("Autostart keys", "REGISTRY"):
        w.checks.that(word in text.split("sessions:")[0], f"(6) the profile's head names {word}")


def check_found(w):  # 3: what a timer needs
    found = "SELECT image_name FROM processes WHERE image_name LIKE 'powershell.exe'"
    w.says(3, w.collector("query", "attack.etl", "--fail-if-rows", found, store=False), 5, "powershell")
    w.says(3, w.collector("query", "attack.etl", "--fail-if-rows", "--rows", "1", "SELECT pid FROM processes", store=False), 5, "there are more")
    w.says(3, w.collector("query", "attack.etl", found, store=False), 0)
    w.says(3, w.collector("query", "attack.etl", "--fail-if-rows", "SELECT pid FROM processes WHERE pid = 1", store=False), 0)
    w.says(3, w.collector("query", "attack.etl", "--fail-if-rows", "SELECT nosuch FROM processes", store=False), 2)


def check_event_names(w):  # 19: provider and id name a class in every place
    def lines(done):
        w.says(19, done, 0)
        return done.stdout.splitlines()

    by_name = lines(w.agent("dump", "--class", "task_03006", "attack.etl"))
    w.checks.that(len(by_name) > 10, f"(19) the trace has queries of names: {len(by_name)}")
    for choice in (["--class", "DNS-Client/3006"], ["--class", "microsoft-windows-dns-client/3006"], ["--class", "DNS-Client/*"], ["--provider", "dns-client"],
                   ["--provider", "1c95126e-7eea-49a9-a3fe-a378b03ddb4d", "--id", "3006"], ["--id", "3006"]):
        w.checks.equal(lines(w.agent("dump", *choice, "attack.etl")), by_name, f"(19) dump {choice}")
        w.checks.equal(json.loads(w.agent("stats", "--json", *choice, "attack.etl").stdout)["events"], len(by_name), f"(19) stats {choice}")
        w.checks.equal(len(lines(w.collector("export", *choice, "attack.etl", store=False))), len(by_name), f"(19) export {choice}")
    w.checks.equal(len(lines(w.agent("dump", "--provider", "DNS-Client", "--where", "QueryType == 28", "attack.etl"))),
                   sum('"QueryType":28,' in line or " QueryType=28" in line for line in lines(w.agent("dump", "--id", "3006", "--format", "jsonl", "attack.etl"))), "(19) --where with --provider")
    w.says(19, w.agent("dump", "--id", "3007", "attack.etl"), 1, "no event has this id")
    w.says(19, w.agent("dump", "--id", "x", "attack.etl"), 2, "whole number")
    w.says(19, w.agent("stats", "--provider", "dns-clint", "attack.etl"), 1, "did you mean 'DNS-Client'?")
    for probe in ("DNS-Client/3006", "DNS-Client:3006", '"Microsoft-Windows-DNS-Client/3006"'):
        w.checks.equal(w.agent("watch", "--csv", "-e", probe + " { @ = count(); }", "attack.etl").stdout.split()[-1].split(",")[-1], str(len(by_name)), f"(19) watch {probe}")
    stored = w.value("SELECT count(*) FROM events WHERE name = 'task_03006'")
    w.checks.that(int(stored) > 10, "(19) the store has queries of names, too")
    for sql in ('SELECT count(*) FROM "DNS-Client/3006"', "SELECT count(*) FROM events WHERE name = 'DNS-Client/3006'", "SELECT count(*) FROM events WHERE name IN ('DNS-Client/3006', 'No/1')",
                "SELECT count(*) FROM events WHERE provider_name = 'DNS-Client' AND id = 3006", "SELECT sum(count) FROM \"DNS-Client/3006_by\"('pid')"):
        w.checks.equal(w.value(sql), stored, f"(19) {sql}")
    w.says(19, w.collector("query", 'SELECT * FROM "PowerShell/4104"'), 1, "no event of this class is stored")
    w.says(19, w.collector("query", 'SELECT * FROM "PowerShell/4"'), 2, "no such table")
    page = (ROOT / "docs" / "reference" / "profiles.md").read_text()
    for one in ("`PowerShell/4104`", "`DNS-Client/3008`", "`Image/Load`", "ScriptBlockText"):
        w.checks.that(one in page, f"(19) profiles.md names {one}")


def check_second_replay(w):  # 25
    stream = w.value("SELECT DISTINCT stream FROM batches WHERE host = 'twin'")
    w.says(25, w.collector("forget", "--host", "twin", "--run", stream[:8]), 0, "removed twin")
    w.checks.equal(w.value("SELECT count(*) FROM hosts WHERE host = 'twin'"), "0", "(25) the run is removed")


def check_small(w):  # 30
    w.says(30, w.env.run(["python3", ROOT / "installer" / "windows" / "build_msi.py", "--exe", "nosuch.exe", "--version", "1.2.3", "--output", w.env.folder / "x.msi"], check=False), 1,
           "nosuch.exe is missing")
    done = w.collector("doctor")
    shown = re.search(r"state.db [0-9.]+ MiB \(its files: ([0-9.]+) MiB\)", done.stdout)
    there = sum(path.stat().st_size for path in (w.store / "state.db", w.store / "state.db-wal") if path.exists()) / 2**20
    w.checks.that(shown and abs(float(shown[1]) - there) < 0.1, f"(30) doctor has what the files of state.db take, {there:.1f} MiB: {done.stdout[:300]}")
    w.checks.equal(w.collector("query", "--format", "csv", "SELECT 1 AS a").stdout, "a\n1\n", "(30) lines of CSV of a query")


def check_package(w):  # 10
    text = (ROOT / "installer" / "debian" / "collector.yaml").read_text()
    w.checks.that("\nretain-age: " in text and "\nretain-size: " in text, "(10) the package's configuration limits what is kept")


def check_table(w):
    """Each friction has a row in the document, and each check here is named there."""
    text = (ROOT / "docs" / "verification" / "first-hour.md").read_text()
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ") and line.split("|")[1].strip().isdigit()]
    w.checks.equal(rows, [str(n) for n in range(1, 31)], "rows of first-hour.md")


def test(env, checks, arguments):
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", "32", "--duration-ms", "4000", "--out", env.folder / FILE])
    w = World(env, checks)
    w.says(9, w.collector("ingest", FILE), 0)
    for check in (check_texts_of_times, check_owner, check_names, check_open, check_page, check_tables_of_open, check_typing_errors, check_similar, check_configuration, check_stats, check_nothing_found, check_reasons, check_times, check_empty_profile,
                  check_reports, check_parents, check_profile, check_found, check_event_names, check_second_replay, check_small, check_package, check_table):
        check(w)


if __name__ == "__main__":
    harness.main(test, __doc__)
