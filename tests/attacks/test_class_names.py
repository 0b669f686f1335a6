"""15,000 class names of one certificate: a question that names none of them takes as long as before, and the dashboard answers whole. Names
that tables of the product or of SQLite have change nothing about those."""
import json
import resource

import world
import harness
import test_wire_python
import uploads
import wire_lies

CLASSES = 15000
TAKEN = ("hosts", "Processes", "events", "EVENTS_BY", "json_each", "sqlite_master", "pragma_module_list", "temp.hosts", "main")  # names of tables
MOST_S = 3.0  # of a processor, for a question that names no class; searching all names for each name took 35 s


def attack(w, stop, ready):
    """Sends the class names, then waits."""
    draft = test_wire_python.Draft(w.batch)
    draft.batch.stream, draft.batch.number = b"class names here", 1
    draft.batch.descriptions += [wire_lies.described(name=b"Name%d" % i) for i in range(CLASSES)]
    draft.batch.descriptions += [wire_lies.described(name=name.encode()) for name in TAKEN]
    web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
    web.request("POST", uploads.UPLOAD_PATH, uploads.body([draft.bytes()]), {"Content-Type": world.UPLOAD_TYPE})
    answer = web.getresponse()
    status, body = answer.status, answer.read()
    refused = b"".join(value for field, value in uploads.fields(body) if field == 3)
    ready.set()
    stop.wait()
    web.close()
    return status, refused


def table_rows(w):
    """What tables answer whose names are those of classes, alone and beside a class that the victim has."""
    questions = ("SELECT host, count(*) AS n FROM streams WHERE host = 'victim' GROUP BY 1", "SELECT host FROM hosts WHERE host = 'victim'",
                 "SELECT count(*) AS n FROM processes WHERE host = 'victim'", "SELECT name FROM events WHERE host = 'victim' AND batch = 1 ORDER BY 1",
                 "SELECT name, count FROM events_by('name', 'batch') WHERE batch = 1 AND host = 'victim'", "SELECT value AS v FROM json_each('[1, 2]')")
    known, = json.loads(w.env.run([w.env.collector, "query", "--store", w.collector.store, "--format", "json",
                                   "SELECT name FROM events WHERE host = 'victim' LIMIT 1"]).stdout)["rows"]
    name = known["name"] if isinstance(known, dict) else known[0]
    # the class's table is added for such a statement, and whatever else it names is looked for among the classes, too
    questions += tuple(f"SELECT v.*, (SELECT count(*) FROM \"{name}\" WHERE host = 'victim' AND batch = 1) AS n FROM ({sql}) v" for sql in questions)
    return [w.env.run([w.env.collector, "query", "--store", w.collector.store, "--format", "jsonl", sql], check=False).stdout for sql in questions]


def test(env, checks, _):
    with world.World(env, checks) as w:
        before = table_rows(w)
        checks.that(all(before), f"rows of each table before: {before}")
        checks.equal(w.compare(f"{CLASSES} class names", attack), (200, b""), "the upload of the class names")
        names = w.collector.ask_json("query", "SELECT count(*) AS n FROM classes WHERE name LIKE 'Name%'")
        checks.that(str(CLASSES) in str(names), f"the store has the class names: {str(names)[:200]}")
        checks.equal(table_rows(w), before, "rows of tables whose names are those of classes")
        begin = children_s()
        w.collector.ask_json("query", "SELECT 1 AS one")
        took = children_s() - begin
        checks.that(took < MOST_S, f"a question among {CLASSES} classes took {took:.2f} s of a processor, expected less than {MOST_S} s")
        for name in ("Name77", "name77_BY('pid')", '"Name77"'):
            checks.that("error" not in str(w.collector.ask_json("query", f"SELECT count(*) AS n FROM {name}")), f"the table {name}")


def children_s():
    """Seconds of a processor that ended children used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    harness.main(test, __doc__)
