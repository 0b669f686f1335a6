"""Backup while the collector runs and agents send, restore, and what the doctor says of stores that are well and that are not.

usage: test_backup.py --build DIR [--soak] [--keep]
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Answers and pages 10: A backup of a growing store is whole, and a restored store goes on. | repeated copies, each read back; the last one
#   is restored | 2026-11-22
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import sqlite3
import ssl
import subprocess
import threading

import harness
import test_identity
import traces
import uploads

TRACE = "clr-kernel-win8-x64"


def exported(env, store, agent):
    return test_identity.digest([env.collector, "export", "--store", store, "--host", agent, "--format", "jsonl", "--raw", "--verify"])


def backup_meanwhile(env, checks, collector, paths):
    """Copies of a store that grows, and loses segments to retention, are each whole, and later ones hold more."""
    command = env.replay_command(paths, collector, agent="busy", spool=env.folder / "spool-busy",
                                 extra=["--batch-events", "300", "--request-bytes", "64KiB"])
    replay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events, copies = [], 0
    while True:
        ended = replay.poll() is not None
        to = env.folder / f"copy-{copies}"
        done = env.run([env.collector, "backup", "--store", collector.store, "--to", to, "--verify"], check=False)
        checks.equal(done.returncode, 0, f"backup {copies}: {done.stderr}")
        mark = json.loads((to / "backup.json").read_text())
        events.append(mark["events"])
        copies += 1
        if ended:
            break
    checks.equal(replay.returncode, 0, "the replay")
    checks.that(copies >= 2 and events == sorted(events), f"events in copies made one after the other: {events}")
    return env.folder / f"copy-{copies - 1}", copies


def private(env, checks, collector):
    """What is stored and copied is for its owner alone, whatever the folders' modes and the umask were."""
    env.run([env.collector, "token", "add", "--store", collector.store, "--name", "reader"])
    env.run([env.collector, "query", "--store", collector.store, "SELECT count(*) FROM processes"])
    copy = env.folder / "open-copy"
    copy.mkdir(mode=0o755)
    done = env.run([env.collector, "backup", "--store", collector.store, "--to", copy])
    checks.that(f"others could read {copy} (mode 755); now only its owner can" in done.stderr, f"a target that others can read: {done.stderr}")
    checks.equal(oct(copy.stat().st_mode & 0o777), oct(0o700), "mode of the target")
    for folder, names in ((collector.store, {"index.db", "state.db", "audit.jsonl", "audit.lock", "audit.jsonl.head", "tokens"}),
                          (copy, {"index.db", "state.db", "backup.json"})):
        files = [p for p in folder.rglob("*") if p.is_file()]
        checks.that(names <= {p.name for p in files} and any(p.suffix == ".seg" for p in files), f"files in {folder}: {sorted(p.name for p in files)}")
        open_ = [f"{p.name}: {p.stat().st_mode & 0o777:o}" for p in files if p.stat().st_mode & 0o77]
        checks.equal(open_, [], f"files of {folder} that others can read")
    # of a version that did not care
    collector.stop()
    for name in ("index.db", "state.db", "audit.jsonl"):
        (collector.store / name).chmod(0o644)
    collector.start()
    for name in ("index.db", "state.db", "audit.jsonl"):
        checks.that(f"others could read {collector.store / name} (mode 644); now only its owner can" in collector.log(), f"the log's line about {name}")
        checks.equal(oct((collector.store / name).stat().st_mode & 0o777), oct(0o600), f"mode of {name} after the start")
    env.run([env.collector, "token", "revoke", "--store", collector.store, "reader"])


def store_tombstone(env, checks, collector):
    """A batch whose tombstone says that the numbers 5 and 6 of its stream are gone."""
    stream = os.urandom(16)
    grave = uploads._bytes(15, uploads._number(1, 5) + uploads._number(2, 6) + uploads._number(3, 15) + uploads._number(4, 1))
    batch = uploads._number(1, 1) + uploads._bytes(2, stream) + uploads._number(3, 7) + uploads._number(4, 1) + grave
    context = ssl.create_default_context(cafile=str(env.certs / "ca.crt"))
    context.load_cert_chain(env.certs / "buried.crt", env.certs / "buried.key")
    connection = http.client.HTTPSConnection("localhost", collector.port, context=context, timeout=30)
    connection.request("POST", uploads.UPLOAD_PATH, uploads.body([batch]), {"Content-Type": "application/x-etwagent-batches"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    checks.equal((answer.status, [n for n, _ in uploads.fields(body) if n == 3]), (200, []), f"a tombstone: {body}")


def graves(store):
    db = sqlite3.connect(store / "index.db")
    found = db.execute("SELECT first, last FROM tombstones").fetchall()
    db.close()
    return found


def null_column(env, checks, copy):
    """A NULL that is there is damage, in a table about which SQLite 3.40.1 gives false alarms."""
    nulls = env.folder / "nulls"
    shutil.copytree(copy, nulls)
    db = sqlite3.connect(nulls / "index.db")
    declared, = db.execute("SELECT sql FROM sqlite_master WHERE name = 'tombstones'").fetchone()
    for sql in (declared.replace("cause INTEGER NOT NULL", "cause INTEGER"), declared):
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'tombstones'", (sql,))
        db.commit()
        db.close()
        db = sqlite3.connect(nulls / "index.db")
        if sql != declared:
            db.execute("UPDATE tombstones SET cause = NULL")
            db.commit()
    db.close()
    done = env.run([env.collector, "restore", "--from", nulls, "--store", env.folder / "r"], check=False)
    checks.that(done.returncode == 3 and "NULL value in tombstones.cause" in done.stderr, f"a NULL in a tombstone: {done.returncode} {done.stderr}")
    shutil.rmtree(nulls)


def incidents(env, store):
    return env.run([env.collector, "query", "--store", store, "--format", "jsonl", "SELECT * FROM incidents ORDER BY begin"]).stdout


def restore(env, checks, collector, copy):
    store = env.folder / "restored-store"
    env.run([env.collector, "restore", "--from", copy, "--store", store])
    checks.equal((graves(copy), graves(store)), ([(5, 6)], [(5, 6)]), "tombstones in backup and restored store")
    null_column(env, checks, copy)
    checks.equal(incidents(env, store), incidents(env, copy), "incidents in backup and restored store")
    checks.that('"kind":"delivered"' in incidents(env, store), f"an incident from before the backup: {incidents(env, store)}")
    for agent in ("whole", "busy"):
        checks.equal(exported(env, store, agent), exported(env, copy, agent), f"{agent}: events in backup and restored store")
    for name in sorted(p.name for p in (store / "segments").iterdir()):
        checks.that((store / "segments" / name).stat().st_nlink == 1, f"{name} is the restored store's own")
    collector.stop()
    checks.equal(exported(env, store, "whole"), exported(env, collector.store, "whole"), "events of the store and of the restored one")
    # it goes on where the backup was made: what comes again is known, what is new is stored
    again = env.new_collector("restored")
    checks.equal(again.store, store, "where the restored collector is")
    again.start()
    env.replay(traces.paths(TRACE, env.build), again, agent="whole", spool=env.folder / "spool-again")
    rows = {r["host"]: r for r in again.ask_json("hosts")["streams"]}
    checks.equal(rows["whole"]["events"], traces.event_count(TRACE), "events of an agent that sends all again")
    again.stop()
    checks.equal(env.run([env.collector, "restore", "--from", copy, "--store", store], check=False).returncode, 2, "restore over a store")
    return store


def tokens(env, checks, collector):
    """A token that is revoked after the backup does not come back, unless that is asked for."""
    add = lambda name: env.run([env.collector, "token", "add", "--store", collector.store, "--name", name]).stdout
    add("stays")
    add("goes")
    copy = env.folder / "copy-with-tokens"
    env.run([env.collector, "backup", "--store", collector.store, "--to", copy])
    env.run([env.collector, "token", "revoke", "--store", collector.store, "goes"])
    checks.that((copy / "tokens").exists(), "the backup has no tokens: this test shows nothing")
    for words, has, said in (((), False, True), (("--with-tokens",), True, False)):
        store = env.folder / f"tokens-restored{len(words)}"
        done = env.run([env.collector, "restore", "--from", copy, "--store", store, *words])
        checks.equal((store / "tokens").exists(), has, f"tokens of a store restored with {words}")
        checks.equal("tokens of readers were left out" in done.stdout, said, f"what restore {words} says: {done.stdout}")
        shutil.rmtree(store)


def interrupted(env, checks, store, copy):
    """A backup that was interrupted does not block the next one into its folder. Files of others in it stay."""
    rest = env.folder / "rest"
    shutil.copytree(copy, rest)
    (rest / "backup.json").unlink()
    (rest / "backup.unfinished").touch()
    for name in ("index.db-journal", "kept.db.tmp", "backup.json.tmp"):
        (rest / name).write_bytes(b"half")
    segment = min((rest / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:100])
    (rest / "letter.txt").touch()
    command = [env.collector, "backup", "--store", store, "--to", rest, "--verify"]
    with open(rest / "backup.unfinished") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = env.run(command, check=False)
        checks.that(done.returncode == 1 and "another backup is being made in" in done.stderr, f"a backup beside another one: {done.returncode} {done.stderr}")
        checks.that((rest / "index.db").exists(), "the other one's files stay")
    done = env.run(command, check=False)
    checks.that(done.returncode == 2 and "it has 'letter.txt'" in done.stderr, f"a folder with another file: {done.returncode} {done.stderr}")
    checks.that((rest / "index.db").exists() and segment.exists(), "nothing of a folder with another file is removed")
    (rest / "letter.txt").unlink()
    rest.chmod(0o770)
    done = env.run(command, check=False)
    checks.that(done.returncode == 2 and "others can write" in done.stderr, f"a folder of others: {done.returncode} {done.stderr}")
    checks.that((rest / "index.db").exists() and segment.exists(), "nothing of a folder in which others can write is removed")
    rest.chmod(0o700)
    planted = env.folder / "planted"
    planted.mkdir(mode=0o700)
    (planted / "backup.unfinished").touch()
    (planted / "segments").symlink_to(store / "segments")
    kept = sorted((store / "segments").iterdir())
    done = env.run([env.collector, "backup", "--store", store, "--to", planted], check=False)
    checks.that(done.returncode == 2 and "a link in place of its segments" in done.stderr, f"a link to a store: {done.returncode} {done.stderr}")
    checks.equal(sorted((store / "segments").iterdir()), kept, "segments of a store to which a folder links")
    whole = env.folder / "whole"  # killed after it had ended
    shutil.copytree(copy, whole)
    files = sorted(whole.rglob("*"))
    (whole / "backup.unfinished").touch()
    done = env.run([env.collector, "backup", "--store", store, "--to", whole], check=False)
    checks.that(done.returncode == 2 and "it has 'backup.json'" in done.stderr, f"a whole backup: {done.returncode} {done.stderr}")
    checks.equal(sorted(whole.rglob("*")), files, "files of a whole backup")
    done = env.run(command, check=False)
    checks.equal(done.returncode, 0, f"a backup into what an interrupted one left: {done.stderr}")
    checks.that(not (rest / "backup.unfinished").exists() and (rest / "backup.json").exists(), "the mark of an unfinished backup is removed at the end")
    checks.equal(env.run([env.collector, "backup", "--store", store, "--to", env.folder / "again", "--verify"], check=False).returncode, 0, "the store is as it was")


def refuse(env, checks, store, copy):
    for to in (copy, store):
        checks.equal(env.run([env.collector, "backup", "--store", store, "--to", to], check=False).returncode, 2, f"backup to {to.name}")
    checks.equal(env.run([env.collector, "backup", "--store", env.folder / "nowhere", "--to", env.folder / "n"], check=False).returncode, 1,
                 "backup of nothing")
    half = env.folder / "half"
    shutil.copytree(copy, half)
    (half / "backup.json").unlink()
    checks.equal(env.run([env.collector, "restore", "--from", half, "--store", env.folder / "r"], check=False).returncode, 2, "a half backup")
    damaged = env.folder / "damaged"
    shutil.copytree(copy, damaged)
    segment = max((damaged / "segments").iterdir(), key=lambda f: f.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    done = env.run([env.collector, "restore", "--from", damaged, "--store", env.folder / "r"], check=False)
    checks.that(done.returncode not in (0, 2) and "cannot be read" in done.stderr and not (env.folder / "r").exists(), f"a damaged backup: {done.stderr}")
    return damaged


def hostile(env, checks, copy):
    """A backup that another user made: links and pipes in place of files, which a restore by root would read, and triggers."""
    secret = env.folder / "secret"
    secret.write_text("what a restore must not read")

    def link(path):
        path.unlink(missing_ok=True)
        path.symlink_to(secret)

    def pipe(path):
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def trigger(path):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TRIGGER hidden AFTER INSERT ON batches BEGIN DELETE FROM batches; END")
            db.commit()

    def changed_trigger(path):  # the name is one of the history's own
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("DROP TRIGGER alert_added")
            db.execute("CREATE TRIGGER alert_added AFTER INSERT ON alerts BEGIN DELETE FROM processes; END")
            db.commit()

    def view(path):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("CREATE VIEW hidden AS SELECT * FROM processes")
            db.commit()

    for what, name, change, reason in (("a link beside the segments", "segments/00000000ffffffff.seg", link, "is a link, expected a file"),
                                       ("a pipe beside the segments", "segments/00000000ffffffff.seg", pipe, "is no file"),
                                       ("a link in place of the tokens", "tokens", link, "is a link, expected a file"),
                                       ("a pipe in place of the index", "index.db", pipe, "is no file"),
                                       ("a trigger", "index.db", trigger, "has triggers or views"),
                                       ("a trigger of the history", "state.db", changed_trigger, "has triggers or views"),
                                       ("a view of the history", "state.db", view, "has triggers or views")):
        made, to = env.folder / "hostile", env.folder / "hostile-store"
        shutil.copytree(copy, made)
        change(made / name)
        done = env.run([env.collector, "restore", "--from", made, "--store", to, "--with-tokens"], check=False, timeout=60)
        checks.that(done.returncode and reason in done.stderr and not to.exists(), f"{what}: {done.returncode} {done.stderr}")
        shutil.rmtree(made)
        shutil.rmtree(f"{to}.restoring", ignore_errors=True)


def damage_table(path, table):
    """Damages the first page of a table in a database that no program has open."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (size,), (page,) = db.execute("PRAGMA page_size").fetchone(), db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size:(page - 1) * size + 8] = bytes([255]) * 8
    path.write_bytes(data)


def doctor(env, checks, store, damaged):
    certs = [word for name in ("ca.crt", "server.crt", "ca.crl") for word in ("--certificate", env.certs / name)]

    def ask(where, *more):
        done = env.run([env.collector, "doctor", "--store", where, "--json", *more], check=False)
        answer = json.loads(done.stdout)
        found = {}
        for check in answer["checks"]:
            found.setdefault(check["check"], []).append((check["verdict"], check["text"]))
        return done.returncode, answer["verdict"], found

    def verdicts(found, check):
        return {verdict for verdict, _ in found.get(check, [])}

    running = env.new_collector("restored").start()
    code, verdict, found = ask(store, "--verify", "--expire-within", "1s", "--least-free", "1MiB", *certs)
    checks.equal((code, verdict, [check for check in found if verdicts(found, check) != {"ok"}]), (3, "warning", ["gaps", "blindness"]),
                 f"a store that is well, and in which batches of the host buried are missing: {found}")
    checks.equal(len(found["certificate"]), 3, "certificates that were looked at")
    running.stop()
    db = sqlite3.connect(store / "alarms.db", isolation_level=None, check_same_thread=False)
    db.execute("BEGIN EXCLUSIVE")  # a collector that writes just now: the doctor waits for it
    waiting = threading.Timer(1.0, lambda: db.execute("COMMIT"))
    waiting.start()
    _, _, found = ask(store, "--verify")
    waiting.join()
    db.close()
    checks.equal(verdicts(found, "verify"), {"ok"}, f"a database that was locked for a second: {found.get('verify')}")
    code, verdict, found = ask(store, "--least-free", "1MiB")
    checks.equal((code, verdict, verdicts(found, "collector")), (3, "warning", {"warning"}), "no collector")
    code, verdict, found = ask(store, "--expire-within", "36500d", *certs)
    checks.equal((code, verdicts(found, "certificate")), (3, {"warning"}), "certificates that expire some time")
    code, _, found = ask(store, "--least-free", "1000000GiB")
    checks.equal((code, verdicts(found, "disk")), (4, {"wrong"}), "a full disk")
    code, _, found = ask(damaged, "--verify")
    checks.equal((code, verdicts(found, "verify")), (4, {"wrong"}), "a damaged store")
    checks.equal(ask(env.folder / "nowhere")[:2], (4, "wrong"), "no store")
    code, _, found = ask(store, "--certificate", env.certs / "server.key")
    checks.equal((code, verdicts(found, "certificate")), (4, {"wrong"}), "a file that is not a certificate")
    for name, table, check in (("index.db", "streams", "hosts"), ("state.db", "alerts", "ledger")):
        copy = env.folder / f"without-{table}"
        shutil.copytree(store, copy)
        damage_table(copy / name, table)
        code, _, found = ask(copy)
        checks.that(code == 4 and [verdict for verdict, text in found[check] if "malformed" in text] == ["wrong"] and "ok" not in verdicts(found, check),
                    f"{name} whose table {table} cannot be read: {found}")
        shutil.rmtree(copy)
    # hosts that fell silent, a clock that went back, a name that would write on the terminal
    db = sqlite3.connect(store / "index.db")
    db.execute("UPDATE streams SET received_last_utc_ns = received_last_utc_ns - 3600000000000, agent = ? WHERE agent = 'busy'",
               ("bu\x1b[31msy\n",))
    db.execute("UPDATE streams SET received_last_utc_ns = received_last_utc_ns + 36000000000000 WHERE agent = 'whole'")
    db.commit()
    db.close()
    code, _, found = ask(store, "--least-free", "1MiB")
    checks.equal((code, verdicts(found, "silent")), (4, {"warning"}), f"a silent host: {found}")
    checks.that("wrong" in verdicts(found, "clock"), f"a clock that went back: {found.get('clock')}")
    text = env.run([env.collector, "doctor", "--store", store], check=False).stdout
    checks.that("\x1b" not in text and "bu\\x1b[31msy" in text, f"an escape in a host's name: {text}")


def test(env, checks, _):
    env.make_certificates(["whole", "busy", "buried"])
    paths = traces.paths(TRACE, env.build)
    os.umask(0o022)  # as in most shells
    collector = env.new_collector("source", ["--segment-size", "64KiB", "--web", "127.0.0.1:0", "--web-tokens"])
    collector.store.mkdir(mode=0o755)
    collector.start()
    env.replay(paths, collector, agent="whole", extra=["--request-bytes", "64KiB"])
    store_tombstone(env, checks, collector)
    db = sqlite3.connect(collector.store / "alarms.db")  # one that is over: the collector leaves it as it is
    db.execute("INSERT INTO alarms VALUES(NULL, 'whole', '', 'delivered', '', 1, 2, 7, 0, 'seven more', 0)")
    db.commit()
    db.close()
    private(env, checks, collector)
    copy, copies = backup_meanwhile(env, checks, collector, paths)
    tokens(env, checks, collector)
    store = restore(env, checks, collector, copy)
    interrupted(env, checks, store, copy)
    hostile(env, checks, copy)
    damaged = refuse(env, checks, store, copy)
    doctor(env, checks, store, damaged)
    print(f"{copies} backups of a store that grew, each read back whole; the last one restored and gone on with")


if __name__ == "__main__":
    harness.main(test, __doc__)
