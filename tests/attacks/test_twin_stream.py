"""An agent sends rows under the id of another agent's stream: no answer mixes the two machines.

A stream's id is chosen by its agent, so a thief of one certificate may use an id that it has seen. Here it sends the victim's own batches
again, under the victim's stream id and batch numbers: each thread, process and batch has a twin then.

usage: test_twin_stream.py --build DIR [--soak] [--keep]
"""
import http.client
import json

import world  # noqa: F401  (the path of tests/e2e)
import harness
import test_ledger
import test_tracegen
import web_world

VICTIM, THIEF = web_world.MACHINE, web_world.HOSTILE


def by_host(rows, *columns):
    found = {}
    for row in rows:
        found.setdefault(row["host"], []).append(tuple(row[c] for c in columns))
    return {host: sorted(values) for host, values in found.items()}


def test(env, checks, _):
    env.make_certificates([VICTIM, THIEF])
    collector = web_world.collector(env)
    web = web_world.Web(collector)
    trace, _ = test_tracegen.generate(env.build, env.folder, "office", "--preset", "office", "--duration-ms", "1500", "--seed", "5")
    batches = web_world.captured(env, trace, VICTIM)
    test_ledger.upload(env, collector, VICTIM, batches)
    harness.wait_until(lambda: web.get(f"hosts/{VICTIM}/processes", limit=1)["items"] and web.get("queries/top-processes-by-cpu")["items"],
                       "the victim's processes", 60)
    samples = web.sql("SELECT count(*) FROM \"PerfInfo/SampleProf\" WHERE ThreadId <> 0")["rows"][0][0]

    def answers(**host):
        top = by_host(web.get("queries/top-processes-by-cpu", limit=1000, **host)["items"], "pid", "image_name", "samples")
        talks = by_host(web.get("queries/who-talks-to", address="0.0.0.0/0", limit=1000, **host)["items"], "pid", "image_name", "remote", "connections")
        return {"top-processes-by-cpu": top, "who-talks-to": talks}

    def settled():
        before = web.get(f"hosts/{VICTIM}/processes", limit=10000)["items"]
        return len(before) == len(web.get(f"hosts/{THIEF}/processes", limit=10000)["items"])

    alone = answers()
    cpu = web.get(f"hosts/{VICTIM}/cpu", limit=10000)["items"]
    checks.that(samples and alone["top-processes-by-cpu"][VICTIM], f"{samples} samples of the victim")

    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    connection.request("GET", "/api/v1/events/tail?columns=host,name")
    tail = connection.getresponse()
    tail.readline()
    test_ledger.upload(env, collector, THIEF, batches)
    seen = []
    while len(seen) < 400:
        line = tail.readline()
        if line.startswith(b"data: {") and len(line) > 12:
            seen.append(json.loads(line[6:])["host"])
    connection.close()
    checks.equal(set(seen), {THIEF}, "hosts of the events that a stream shows as new")

    harness.wait_until(settled, "the thief's processes", 60)
    both = answers()
    for query, rows in alone.items():
        checks.equal(both[query].get(VICTIM), rows.get(VICTIM), f"{query}: rows of the victim beside its twin")
        checks.equal(both[query].get(THIEF), rows.get(VICTIM), f"{query}: rows of the twin")
        checks.equal(answers(host=VICTIM)[query], rows, f"{query}: of the victim alone")
    checks.equal(web.get(f"hosts/{VICTIM}/cpu", limit=10000)["items"], cpu, "samples of the victim by time beside its twin")
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
