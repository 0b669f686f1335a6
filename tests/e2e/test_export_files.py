"""Stored events as files of columns (export --format parquet and arrow), judged by foreign readers: DuckDB reads every class of generated traces (every
class there is a row for, in both pointer sizes) and of a real one, and each value of each column is what SQL's `fields` and header columns say.
Names of folders are escaped and give the values back. A file that is not whole never has its name; what exists is not replaced; an unknown class
or column, and options that files do not have, are refused with their reason.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 17: each value of each class in an exported Parquet file is what SQL says, as DuckDB reads it | 13,032 values of 976 classes | 2026-11-29
# - Answers and pages 18: an export to files that is killed leaves no file that is not whole | 3 kills | 2026-11-29
import datetime
import json
import pathlib
import signal
import subprocess
import time
import urllib.parse

import foreign_readers
import harness
import traces

HEADER = ("stream", "batch", "position", "cpu", "pid", "tid", "provider", "id", "version", "channel", "level", "opcode", "task", "activity_id",
          "related_activity_id", "stack", "counters")
SQL = f"""SELECT {','.join(HEADER)}, name, "time" + 0 AS utc_ns, u64_text(keyword) AS keyword, hex(payload) AS payload, fields FROM events
          ORDER BY stream, batch, position"""
FOLDERS = {"day", "host", "class"}


def asked(env, store, sql):
    done = env.run([env.collector, "query", "--store", store, "--format", "jsonl", "--rows", 0, sql])
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def exported(env, store, folder, *extra, check=True):
    """The JSON that the command prints."""
    done = env.run([env.collector, "export", "--store", store, "--format", "parquet", "--out", folder, "--json", *extra], check=check)
    return json.loads(done.stdout) if check else done


def repaired(text):
    """A lone surrogate is no UTF-8: U+FFFD has its place in a file."""
    return "".join("�" if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def us_of(text):
    """us since 1970 of a time as JSON has it."""
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = (datetime.datetime.fromisoformat(whole) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
    return seconds * 10**6 + int(rest[:6])


def number_of(value):
    if isinstance(value, str):
        return int(value, 16) if value.startswith("0x") else int(value)
    return int(value)


def agrees(type_, read, wanted):
    """Whether a value that DuckDB read is what `fields` says."""
    if isinstance(wanted, dict) and set(wanted) == {"value", "name"}:
        wanted = wanted["value"]
    if read is None and type_ == "TIMESTAMP WITH TIME ZONE" and str(wanted).startswith("2262-04-11T23:47:16"):
        return True   # the latest time there is: infinity for DuckDB
    if read is None or wanted is None:
        return read is None and wanted is None or isinstance(wanted, float)
    if type_ == "VARCHAR":
        return json.loads(read) == wanted if isinstance(wanted, (list, dict)) else read == repaired(wanted)
    if type_ == "BLOB":
        return read.lower() == wanted
    if type_ == "DOUBLE":
        return float(read) == float(wanted) or (float(read) != float(read) and float(wanted) != float(wanted))
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return int(read) - us_of(wanted) in ((0, 1) if int(read) < 0 else (0,))   # DuckDB rounds to zero
    return int(read) == number_of(wanted)


def column_names(keys, columns):
    """The column of each field of a class: its name, or NAME_2 and so on where that is taken."""
    taken, found = {"host", "time", "cpu", "pid", "tid", "day", "class"}, {}
    for key in keys:
        names = [key, *(f"{key}_{k}" for k in range(2, 5))]
        found[key] = next((name for name in names if name in columns and name.lower() not in taken), None)
        taken.add(str(found[key]).lower())
    return found


def compare(checks, what, answer, wanted):
    """All values of a class. Returns how many agree."""
    names = [name for name, _ in answer["columns"]]
    types = dict(answer["columns"])
    agreed, wrong = 0, []
    for read, row in zip(answer["rows"], wanted):
        read = dict(zip(names, read))
        fields = json.loads(row["fields"], object_pairs_hook=lambda pairs: pairs)
        fields = [(key, plain(value)) for key, value in fields]
        for key in HEADER:
            value = read[f"event_{key}" if f"event_{key}" in read else key]
            if (value if value is None or isinstance(row[key], str) else int(value)) != row[key]:
                wrong.append((key, value, row[key]))
        for key, value in (("keyword", number_of(row["keyword"])), ("time", row["utc_ns"] // 1000)):
            if int(read[f"event_{key}" if f"event_{key}" in read else key]) != value:
                wrong.append((key, read[key], value))
        if "payload" in types and types["payload"] == "BLOB" and len(fields) == 0 and read["payload"] != row["payload"]:
            wrong.append(("payload", read["payload"], row["payload"]))
        columns = column_names([key for key, _ in fields], names)
        for key, value in fields:
            column = columns[key]
            if column is None or not agrees(types[column], read[column], value):
                wrong.append((key, column, column and (types[column], read[column]), value))
            else:
                agreed += 1
        if wrong:
            break
    checks.that(not wrong, f"{what}: {wrong[:2]}")
    return agreed


def plain(value):
    """Pairs of an inner object as a dict again."""
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return {key: plain(inner) for key, inner in value}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def judge(env, checks, trace, name):
    """Everything that a trace becomes, value by value."""
    store, folder = env.folder / f"{name}-store", env.folder / f"{name}-files"
    env.run([env.collector, "ingest", trace, "--store", store])
    said = exported(env, store, folder)
    by_class = {}
    for row in asked(env, store, SQL):
        by_class.setdefault(row["name"] or "(unnamed)", []).append(row)
    checks.equal(said["events"], sum(map(len, by_class.values())), f"{name}: events")
    checks.equal(said["events"], sum(file["events"] for file in said["files"]), f"{name}: sum of the files")
    files = {}
    for file in said["files"]:
        files.setdefault(file["class"], []).append(file["path"])
        checks.equal(pathlib.Path(file["path"]).stat().st_size, file["bytes"], f"{name}: bytes of {file['path']}")
    checks.equal(set(files), set(by_class), f"{name}: classes")
    checks.equal({str(path) for path in folder.rglob("*") if path.is_file()}, {file["path"] for file in said["files"]}, f"{name}: files in the folder")
    for file in said["files"]:
        day, host, class_ = (urllib.parse.unquote(part.partition("=")[2]) for part in pathlib.Path(file["path"]).parts[-4:-1])
        checks.equal((day, host, class_), (file["day"], file["host"], file["class"]), f"{name}: folders of {file['path']}")
    agreed, by_duckdb = 0, {}
    for (class_, _), answer in zip(files.items(), foreign_readers.answers(env, "duckdb_columns.mjs", list(files.values()))):
        if not checks.that("rows" in answer, f"{name}: {class_}: DuckDB says {answer.get('error')}"):
            continue
        wanted = by_class[class_]
        checks.equal(len(answer["rows"]), len(wanted), f"{name}: rows of {class_}")
        at = [column for column, _ in answer["columns"]].index("class")
        checks.equal({row[at] for row in answer["rows"]}, {class_}, f"{name}: the folder's class of {class_}")
        agreed += compare(checks, f"{name}: {class_}", answer, wanted)
        by_duckdb[class_] = answer
    judge_arrow(env, checks, store, name, by_duckdb)
    print(f"{name}: {said['events']} events of {len(files)} classes, {agreed} values of fields agree")
    checks.that(agreed > 0, f"{name}: values were compared")
    return store


def judge_arrow(env, checks, store, name, by_duckdb):
    """An Arrow file has the rows of the Parquet file, and each time whole."""
    folder = env.folder / f"{name}-arrow"
    done = env.run([env.collector, "export", "--store", store, "--format", "arrow", "--out", folder, "--json"])
    files = {file["class"]: file["path"] for file in json.loads(done.stdout)["files"]}
    checks.equal(set(files), set(by_duckdb), f"{name}: classes of Arrow files")
    for class_, answer in zip(files, foreign_readers.answers(env, "arrow_columns.mjs", [[path] for path in files.values()])):
        if not checks.that("rows" in answer, f"{name}: {class_}: Arrow says {answer.get('error')}"):
            continue
        wanted = by_duckdb[class_]
        columns = [name for name, _, _ in answer["columns"]]
        checks.equal(columns, [name for name, _ in wanted["columns"] if name not in FOLDERS], f"{name}: columns of {class_} in Arrow")
        at = ["stream", "batch", "position"]
        rows = sorted(answer["rows"], key=lambda row: [int(row[columns.index(key)]) if key != "stream" else row[columns.index(key)] for key in at])
        wrong = []
        for row, other in zip(rows, wanted["rows"]):
            for (key, type_), read in zip(wanted["columns"], other):
                if key in FOLDERS:
                    continue
                mine = row[columns.index(key)]
                if type_ == "TIMESTAMP WITH TIME ZONE" and mine is not None:
                    mine = mine if read is None else int(int(mine) / 1000) if abs(int(mine)) < 2**52 else int(mine[:-3])
                if type_ == "DOUBLE" and read is not None and float(read) == float(mine):
                    continue
                if str(mine).lower() != str(read).lower() and not (type_ == "TIMESTAMP WITH TIME ZONE" and read is None):
                    wrong.append((key, type_, mine, read))
        checks.that(len(rows) == len(wanted["rows"]) and not wrong, f"{name}: {class_} in Arrow: {len(rows)} rows, {wrong[:2]}")


def refused(env, checks, store):
    folder = env.folder / "refused"
    for extra, reason in ((("--where", "pid == 4"), "--where: not with --format parquet"), (("--class", "Proces/Start"), "Process/Start"),
                          (("--fields", "NoSuchColumn"), "no class of the events has a column NoSuchColumn"),
                          (("--host", "no-such-host"), "nothing is stored of host no-such-host"), (("--from", "+10s", "--to", "+1s"), "before --to")):
        done = exported(env, store, folder, *extra, check=False)
        checks.that(done.returncode and reason in done.stderr, f"{extra}: {done.stderr}")
        checks.equal([str(path) for path in folder.rglob("*") if path.is_file()] if folder.exists() else [], [], f"{extra}: files")
    done = env.run([env.collector, "export", "--store", store, "--format", "parquet"], check=False)
    checks.that(done.returncode == 2 and "--out DIR is required" in done.stderr, f"without --out: {done.stderr}")
    done = env.run([env.collector, "export", "--store", store], check=False)
    checks.that(done.returncode == 2 and "--host HOST is required" in done.stderr, f"printed without a host: {done.stderr}")


def chosen(env, checks, store):
    """Columns and classes of choice; a second export into the same folder is refused and changes nothing."""
    folder = env.folder / "chosen"
    said = exported(env, store, folder, "--class", "Process/*", "--fields", "time,pid,ImageFileName")
    checks.that(said["files"] and all(file["class"].startswith("Process/") for file in said["files"]), "files of the chosen classes")
    starts = [file["path"] for file in said["files"] if file["class"] == "Process/Start"]
    answer = foreign_readers.answers(env, "duckdb_columns.mjs", [starts])[0]
    checks.equal([name for name, _ in answer["columns"] if name not in FOLDERS], ["time", "pid", "ImageFileName"], "chosen columns")
    wanted = sorted(str(row["x"]) for row in asked(env, store, 'SELECT ImageFileName AS x FROM "Process/Start"'))
    at = [name for name, _ in answer["columns"]].index("ImageFileName")
    checks.equal(sorted(str(row[at]) for row in answer["rows"]), [repaired(x) for x in wanted], "values of a chosen column")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = exported(env, store, folder, "--class", "Process/*", check=False)
    checks.that(done.returncode == 1 and "expected a name that is not taken" in done.stderr, f"again: {done.stderr}")
    checks.equal({path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}, before, "files after a refused export")


def killed(env, checks, store):
    """Ended at any moment, no file has its name unless all are whole; what is left has temporary names, and is no obstacle."""
    for signal_, delays in ((signal.SIGKILL, (0.05, 0.2)), (signal.SIGINT, (0.1,))):
        for delay in delays:
            folder = env.folder / f"killed-{signal_}-{delay}"
            with subprocess.Popen([env.collector, "export", "--store", store, "--format", "parquet", "--out", folder], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(delay)
                process.send_signal(signal_)
                process.wait()
            whole = [path for path in folder.rglob("*.parquet")] if folder.exists() else []
            bad = [path for path in whole if path.read_bytes()[-4:] != b"PAR1"]
            checks.equal(bad, [], f"{signal_.name} after {delay} s: files that are not whole")
            if signal_ == signal.SIGINT:
                left = [path for path in folder.rglob(".*") if path.is_file()] if folder.exists() else []
                checks.equal(left, [], f"{signal_.name} after {delay} s: temporary files")
            if not whole:
                checks.that(exported(env, store, folder)["events"] > 0, f"{signal_.name} after {delay} s: exported again")


def test(env, checks, arguments):
    stores = []
    for size in (4, 8) if arguments.soak else (8,):
        path = env.folder / f"every-{size}.etl"
        env.run([env.build / "tests" / "unit" / "every_class", "write", "--pointer-size", size, "--rounds", 20 if arguments.soak else 2,
                 "--seed", 28 + size, path])
        stores.append(judge(env, checks, path, f"every-{size}"))
    for name in traces.names() if arguments.soak else traces.names()[:1]:
        if len(traces.paths(name, env.build)) == 1:
            judge(env, checks, traces.paths(name, env.build)[0], name)
    refused(env, checks, stores[0])
    chosen(env, checks, stores[0])
    killed(env, checks, stores[0])


if __name__ == "__main__":
    harness.main(test, __doc__)
