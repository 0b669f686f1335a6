"""Two events of one certificate whose texts would have gigabytes: the schema of one inserts a field into its message 32,000 times, that of the other one names each
byte of its payload with 250 names. A third one has structures in each other, as deep as a schema may have them. Sinks send these and another agent's events; events of all
agents are shown, counted and exported.

usage: test_event_texts.py --build DIR [--soak] [--keep]
"""
import json
import os
import resource

import world
import harness
import format_reader
import test_bounds
import test_sink_receivers
import test_sinks
import test_wire_python
import uploads
import web_world
import wire_lies

TEXT_MAX = 4 << 20  # of an event: EA_RENDER_MAX_BYTES, escaped, and fields, notes and numbers beside names
MEMORY_MAX = 1 << 30
SECONDS = 60


def batch_of(description, payload):
    """A batch with one event of that class."""
    group = wire_lies.message("Group", class_hash=test_bounds.hash_of(description), header=wire_lies.message("Header"),
                              payload=wire_lies.column(constant=payload))
    data = test_bounds.batch_of([group], 1, descriptions=[description], stream=os.urandom(16))
    draft = test_wire_python.Draft(data)
    draft.batch.checksum = format_reader.checksum(format_reader.Batch(data).records())
    return draft.bytes()


def large():
    names = wire_lies.map_of(is_flags=1, entries=[(0x41, b"x" * 1000)] * 250)
    return [batch_of(test_bounds.noted(b"%1" * 32000, name=b"Inserts", fields=[wire_lies.field(b"t", kind=test_bounds.UTF8Z)]), b"A" * 65535),
            batch_of(wire_lies.described(name=b"Deep", fields=[*[wire_lies.field(b"s", kind=test_bounds.STRUCT_KIND, count=65535, members=1)] * 15, wire_lies.field(b"t", kind=1)]), b"A"),
            batch_of(wire_lies.described(name=b"Names", maps=[names], fields=[wire_lies.field(b"t", kind=1, count=65535, map_=1)]), b"A" * 65535)]


def upload(w, batch):
    web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
    web.request("POST", uploads.UPLOAD_PATH, uploads.body([batch]), {"Content-Type": world.UPLOAD_TYPE})
    answer = web.getresponse()
    status, body = answer.status, answer.read()
    web.close()
    return status, [value for field, value in uploads.fields(body) if field == 3] if status == 200 else body


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


def command(w, checks, *words):
    done = w.env.run([w.env.collector, *words], check=False, timeout=SECONDS, preexec_fn=limited, env=test_sinks.DIRECT)
    checks.equal((done.returncode, done.stderr), (0, ""), f"{words}")
    return done.stdout


def otlp(w, checks, rows):
    """As records of OpenTelemetry: values that are too deep for readers of protobuf are texts of JSON."""
    receiver = test_sink_receivers.Otlp()
    command(w, checks, "sink", "run", "--store", w.collector.store, "--name", "otel", "--kind", "otlp", "--to", f"http://127.0.0.1:{receiver.port}/v1/logs", "--all", "--once")
    bodies = {record["log.record.uid"]: (record["event_name"], record["body"]) for record in receiver.order}
    receiver.stop()
    for row in rows:
        name, body = bodies[row["row"]]
        if name == "Deep":
            body, deep = json.loads(json.dumps(body).replace('\\"', '"').replace('"{', "{").replace('}"', "}").replace('"[', "[").replace(']"', "]")), body
            for _ in range(8):
                deep = deep["s"][0]
            checks.that(isinstance(deep["s"] if isinstance(deep, dict) else deep, str), f"a text at the end: {deep}")
        if body != row["fields"]:
            checks.equal(body, row["fields"], f"fields of {row['row']}")
    checks.equal(len(bodies), len(rows), "records")


def test(env, checks, _):
    with world.World(env, checks) as w:
        for batch in large():
            checks.equal(upload(w, batch), (200, []), "the event is stored")
        receiver = test_sinks.Receiver()
        command(w, checks, "sink", "run", "--store", w.collector.store, "--name", "all", "--to", f"http://127.0.0.1:{receiver.port}/", "--all", "--once")
        hosts = [row["host"] for row in receiver.order]
        checks.equal((hosts.count("thief"), hosts.count("victim")), (3, w.events_per_batch), "events that the sink's receiver has")
        message, names = ([row for row in receiver.order if row["name"] == name][0] for name in ("Inserts", "Names"))
        checks.that(message["message"].startswith("AAA") and message["message"].endswith("...") and len(message["message"]) < TEXT_MAX, "a message that ends")
        values = names["fields"]["t"]
        checks.that(values[0]["value"] == 0x41 and values[0]["name"] == "|".join(["x" * 1000] * 250), "names of the first elements")
        checks.equal(len(values) - 1 + len(values[-1]) // 2, 65535, "all elements, the rest of them in hex")
        receiver.stop()
        otlp(w, checks, receiver.order)
        for words in (("export", "--store", w.collector.store, "--host", "thief"),
                      ("query", "--store", w.collector.store, "--format", "csv", "SELECT fields FROM events WHERE host = 'thief'")):
            lines = command(w, checks, *words).splitlines()
            checks.that(len(lines) >= 2 and all(len(line) < TEXT_MAX for line in lines), f"{words[0]}: {len(lines)} lines, {[len(line) for line in lines]} bytes")
        shown = web_world.Web(w.collector).get("events", limit=50)
        checks.equal((shown["ending"], {item["host"] for item in shown["items"]}), ("whole", {"thief", "victim"}), "the page of events")


if __name__ == "__main__":
    harness.main(test, __doc__)
