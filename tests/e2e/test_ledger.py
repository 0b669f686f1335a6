"""The ledger: every batch accounts for every event of a replay, and the ledger gives numbers for missing events.

- A replay's ledger balances in each batch; its series ends where the store ends; /metrics has the same numbers.
- The test captures the batches of a replay and uploads them to another collector without one batch: the ledger shows the gap
  with exactly the events of that batch. The test changes a number of the ledger: the collector raises an alert with both sides,
  `ledger` exits with code 3, and the log has one line.
- /metrics follows the rules of the Prometheus text format.

# sanitizers: asan-ubsan
"""
import calendar
import collections
import http.client
import itertools
import json
import re
import ssl
import threading
import time

import harness
import receiver
import test_tracegen
import traces
import uploads

TRACE = "shutdown-win10"
BATCH_EVENTS = 1000
LEDGER_FIELD, EVENTS_DELIVERED, EVENTS_BATCHED, EVENTS_ACKNOWLEDGED, SPOOL_BAD_BYTES, SOURCE_BUFFERS_LOST = 14, 1, 2, 14, 23, 31


def varints(data):
    found, at = [], 0
    while at < len(data):
        value, at = uploads.varint(data, at)
        found.append(value)
    return found


def with_ledger(batch, change):
    """The batch with its ledger's {counter: value} changed by a function."""
    out = b""
    for number, value in uploads.fields(batch):
        if number == LEDGER_FIELD:
            counts, rest = {}, b""
            parts = {n: v for n, v in uploads.fields(value)}
            counts = dict(zip(varints(parts[1]), varints(parts[2])))
            change(counts)
            rest = uploads._bytes(1, b"".join(uploads._varint(k) for k in counts))
            rest += uploads._bytes(2, b"".join(uploads._varint(v) for v in counts.values()))
            rest += uploads._number(3, parts[3]) + uploads._varint(4 << 3 | 1) + parts[4]
            value = rest
        if isinstance(value, int):
            out += uploads._number(number, value)
        elif number in (6, 7, 18, 19):
            out += uploads._varint(number << 3 | 1) + value
        else:
            out += uploads._bytes(number, value)
    return out


def with_family(batch, name, change):
    """The batch with {counter: value} of one family in its ledger changed by a function."""
    def changed(family):
        parts = {n: v for n, v in uploads.fields(family)}
        if parts[1] != name.encode():
            return family
        counts = dict(zip(varints(parts[2]), varints(parts[3])))
        change(counts)
        return uploads._bytes(1, parts[1]) + uploads._bytes(2, b"".join(map(uploads._varint, counts))) + uploads._bytes(3, b"".join(map(uploads._varint, counts.values())))

    def rewritten(message, part):
        out = b""
        for number, value in uploads.fields(message):
            value = part(number, value)
            if isinstance(value, int):
                out += uploads._number(number, value)
            elif (number in (6, 7, 18, 19)) if message is batch else number == 4:
                out += uploads._varint(number << 3 | 1) + value
            else:
                out += uploads._bytes(number, value)
        return out

    def of_ledger(value):
        return rewritten(value, lambda number, inner: changed(inner) if number == 5 else inner)
    return rewritten(batch, lambda number, value: of_ledger(value) if number == LEDGER_FIELD else value)


def upload(env, collector, agent, batches, at_once=16, timeout_s=60):
    """Sends batches (any iterable of them) as that agent; every one must be acknowledged."""
    context = ssl.create_default_context(cafile=str(env.certs / "ca.crt"))
    context.load_cert_chain(env.certs / f"{agent}.crt", env.certs / f"{agent}.key")
    connection = http.client.HTTPSConnection("localhost", collector.port, context=context, timeout=timeout_s)
    left = iter(batches)
    while some := list(itertools.islice(left, at_once)):
        connection.request("POST", uploads.UPLOAD_PATH, uploads.body(some), {"Content-Type": "application/x-etwagent-batches"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or any(number == 3 for number, _ in uploads.fields(body)):
            raise harness.Failure(f"an upload was answered with {answer.status}: {body[:200]!r}")
    connection.close()


def captured(env, trace, agent, extra=()):
    """The batches of a replay of that trace, by number."""
    return captured_paths(env, traces.paths(trace, env.build), traces.event_count(trace), agent, extra)


def captured_paths(env, paths, event_count, agent, extra=()):
    """The batches of a replay of those files, by number, taken by a collector that keeps none. It answers when all are made: none of them knows
    of one before it that it was acknowledged, so that it may be left out, however fast the agent is."""
    kept, lock, spool = {}, threading.Lock(), env.folder / f"spool-{agent}"

    def made():
        rows = json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", spool]).stdout)
        return sum(row["events"] for row in rows) >= event_count

    def take(exchange):
        exchange.read_body()
        with lock:
            if not kept and not receiver.sleep_until(made, 60, 0.1):
                raise harness.Failure(f"not all batches of {paths} are made")
            for batch in uploads.batches(exchange.body):
                kept[uploads.Head(batch).number] = batch
        exchange.acknowledge(exchange.heads())

    with receiver.Receiver(env.certs, take) as fake:
        env.replay(paths, fake, agent=agent, spool=spool, extra=extra if "--batch-events" in extra else ["--batch-events", BATCH_EVENTS, *extra])
    if fake.failures:
        raise fake.failures[0]
    return [kept[number] for number in sorted(kept)]


def ledger(collector, agent, *more, code=0):
    done = collector.env.run([collector.env.collector, "ledger", "--store", collector.store, "--host", agent, "--json", *more],
                             check=False)
    if done.returncode != code:
        raise harness.Failure(f"ledger ended with {done.returncode}, expected {code}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def counters(stream):
    return {c["name"]: c["value"] for c in stream["counters"] if not c["family"]}


def check_families(checks, collector, stream, values):
    """Each family balances in the last batch that has its counters. The sums over all families are the session's numbers of the last batch."""
    totals, families = collections.Counter(), collections.defaultdict(dict)
    for name, value in values.items():
        family, _, counter = name.rpartition(":")
        if family:
            families[family][counter] = value
            totals[counter] += value
    checks.that({"process", "thread", "image", "event_trace"} <= set(families), f"families: {sorted(families)}")
    checks.equal(stream["unbalanced_families"], [], "families that do not add up")
    for counter in ("events_delivered", "events_batched"):
        checks.equal(totals[counter], values[counter], f"{counter} of all families")
    listed = collector.ask("export", "--host", "whole", "--format", "jsonl", "--class", "Process/*", "--no-names").count("\n")
    checks.equal(families["process"]["events_delivered"], listed, "records of the family process")


def check_balanced(checks, collector, total):
    answer = ledger(collector, "whole", "--series")
    stream, = answer["streams"]
    have = counters(stream)
    checks.equal(stream["stored_events"], total, "events stored")
    checks.equal(have["events_delivered"], total, "events delivered, says the last batch")
    checks.equal([e["name"] for e in stream["equations"] if e["holds"]], ["delivered", "batched", "stored"], "equations")
    checks.equal(stream["alerts"], [], "alerts of a sound replay")
    checks.equal(stream["gaps"], [], "gaps of a sound replay")
    checks.equal(len(stream["series"]), stream["stored_batches"], "points of the series")
    values, wrong = collections.Counter(), 0
    for point in stream["series"]:
        values.update({name: 0 for name in point["changes"]})
        values = {**values, **point["changes"]}
        evicted = sum(v for n, v in values.items() if n.startswith("events_evicted_"))
        dropped = sum(v for n, v in values.items() if n.startswith("events_dropped_") or n in ("events_filtered", "events_sampled_out", "events_limited", "events_repeated", "events_aggregated"))
        get = lambda name: values.get(name, 0)  # noqa: E731
        wrong += get("events_delivered") != get("events_batched") + dropped + get("events_pending")
        wrong += get("events_batched") != evicted + sum(
            get(f"events_{n}") for n in ("compressing", "spooled", "unanswered", "acknowledged"))
        wrong += point["stored"] < get("events_acknowledged")
    checks.equal(wrong, 0, "points of the series that do not add up")
    check_families(checks, collector, stream, values)
    text = collector.ask("ledger", "--host", "whole")
    checks.that("events that the source handed over" in text and text.count(": holds") == 3, f"the text: {text}")
    middle = stream["series"][(len(stream["series"]) - 1) // 2]  # the last one is the stream's end
    early = ledger(collector, "whole", "--to", middle["to"])["streams"][0]
    checks.that(0 < counters(early)["events_delivered"] < total, "--to shows the numbers of that time")
    for end in ("from", "to"):
        refused = collector.env.run([collector.env.collector, "ledger", "--store", collector.store, "--from", middle["to"], "--to", middle[end]], check=False)
        checks.that(refused.returncode == 2 and "is not before" in refused.stderr, f"--from not before --to: {refused}")
    checks.that(ledger(collector, "whole", "--series", "--from", middle["from"])["streams"][0]["series"][0]["batch"] > 1,
                "--from leaves out what was before")


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.eE+]+)$')


WAITING = [f"etwagent_events_{where}" for where in ("pending", "compressing", "spooled", "unanswered")]


def check_metrics(checks, collector, total):
    port = int(re.search(r"dashboard on http://127.0.0.1:(\d+)/", collector.log()).group(1))

    def get(path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    checks.equal(get("/else")[0], 404, "another path")
    status, kind, text = get("/metrics")
    checks.equal((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"), "the answer's head")
    checks.that(text.endswith("\n"), "the last line ends")
    types, seen, finished, current, samples = {}, set(), set(), None, {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            checks.that(word in ("HELP", "TYPE") and rest, f"a comment: {line}")
            if name != current:
                checks.that(name not in finished, f"{name} is in two places")
                finished.add(current)
                current = name
            if word == "TYPE":
                checks.that(name not in types and rest in ("counter", "gauge"), f"the type of {name}: {rest}")
                types[name] = rest
            continue
        match = SAMPLE.match(line)
        if not checks.that(match and match.group(1) == current, f"a sample: {line!r} under {current}"):
            continue
        key = (match.group(1), match.group(2) or "")
        checks.that(key not in seen, f"{key} twice")
        seen.add(key)
        samples[key] = float(match.group(4))
        checks.equal(key[0].endswith("_total"), types.get(key[0]) == "counter", f"the name of {key[0]}")
    stored = [v for (name, labels), v in samples.items() if name == "etwcollector_stored_events_total" and 'host="whole"' in labels]
    checks.equal(stored, [float(total)], "stored events in /metrics")
    checks.equal(samples.get(("etwcollector_store_events_total", "")), float(total), "the collector's own count")
    waiting = [v for (name, labels), v in samples.items() if name == "etwcollector_waiting_events"]
    checks.equal(waiting, [0.0], "events that wait, when all are stored")
    balanced = [v for (name, labels), v in samples.items() if name == "etwcollector_ledger_balanced"]
    checks.equal(balanced, [1.0] * 3, "equations in /metrics")
    checks.that(len(samples) > 50, f"only {len(samples)} samples")


NUMBERS = re.compile(r"^    [XGS]\((\w+), (\d+), ", re.M)


def last_ledger(batches):
    """The numbers of the last ledger that batches carry, by name: read from their bytes. A number that is not there is 0."""
    names = {int(number): name for name, number in NUMBERS.findall((harness.ROOT / "proto/base/counters.h").read_text())}
    parts = {n: v for number, ledgers in uploads.fields(batches[-1]) if number == LEDGER_FIELD for n, v in uploads.fields(ledgers)}
    return {names[k]: v for k, v in zip(varints(parts[1]), varints(parts[2]))}


def peaks(batches):
    """The greatest value of each number in any ledger."""
    most = collections.Counter()
    for at in range(len(batches)):
        most |= collections.Counter(last_ledger(batches[:at + 1]))
    return most


def web_get(collector, path):
    port = int(re.search(r"dashboard on http://127.0.0.1:(\d+)/", collector.log()).group(1))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise harness.Failure(f"{path}: {answer.status} {text[:500]}")
    return text


def check_last_values(env, checks, collector, batches):
    """The last numbers of a stream, by the command, SQL, the API and /metrics: those of the last batch's bytes. Gauges fell from their peaks."""
    expected = last_ledger(batches)
    waits = [f"events_{n}" for n in ("pending", "compressing", "spooled", "unanswered")]
    gauges = [*waits, "events_recorded", "recorder_oldest_seconds", "stream_ended", "stream_cut_off", "stream_recorded"]
    most = peaks(batches)
    checks.that(sum(most[n] for n in waits) > sum(expected.get(n, 0) for n in waits), f"no gauge fell: {most} and {expected}")
    upload(env, collector, "last", batches)
    checks.that(receiver.sleep_until(lambda: len(json.loads(web_get(collector, "/api/v1/hosts/last/streams"))["items"]) == 1, 30), "no stream")
    stream, = ledger(collector, "last")["streams"]
    rows = json.loads(web_get(collector, "/api/v1/hosts/last/ledger?limit=1000"))["items"]
    sql = json.loads(collector.ask("query", "--format", "json",
                                   "SELECT counter, type, value FROM ledger_last WHERE host = 'last' AND family = ''"))["rows"]
    metrics = re.findall(r'^etwagent_(\w+?)(_total)?\{host="last",stream="\w+"\} (\d+)$', web_get(collector, "/metrics"), re.M)
    for what, found in (("ledger", counters(stream)), ("the API", {r["counter"]: r["value"] for r in rows}),
                        ("SQL", {r["counter"]: r["value"] for r in sql}), ("/metrics", {name: int(value) for name, _, value in metrics})):
        checks.equal({k: v for k, v in found.items() if v}, expected, f"the last numbers, by {what}")
    for what, types in (("the API", {r["counter"]: r["type"] for r in rows}), ("SQL", {r["counter"]: r["type"] for r in sql}),
                        ("/metrics", {name: "counter" if total else "gauge" for name, total, _ in metrics})):
        checks.equal({k for k, v in types.items() if v == "gauge"} - set(gauges), set(), f"gauges, by {what}")
        checks.equal({v for k, v in types.items() if k not in gauges}, {"counter"}, f"the other types, by {what}")
    have = {r["counter"]: r["value"] for r in rows}
    checks.equal(sum(have.get(n, 0) for n in [*waits, "events_acknowledged"]), have["events_batched"], "each event is in one state, by the API")
    checks.equal({r["stored"] for r in rows}, {sum(uploads.Head(b).event_count for b in batches)}, "events stored, by the API")


LOST = {32: "RTLostEvent", 33: "RTLostBuffer", 34: "RTLostFile"}
LOST_PROVIDER = "6a399ae0-4bc6-4de9-870b-3657f8947e7e"


def utc_ns(text):
    """ns since 1970 of RFC 3339; NULL is NULL."""
    if text is None:
        return None
    whole, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))


def as_text(ns):
    """RFC 3339 of ns since 1970."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9)) + f".{ns % 10**9:09d}Z"


def naive_losses(collector, agent):
    """Of each record RTLost... in what is stored: its name, the time of the last event of its CPU before it, its own time. From exported records."""
    last, found = {}, []
    for line in collector.ask("export", "--host", agent, "--format", "jsonl", "--no-names", "--raw").splitlines():
        record = json.loads(line)
        now, cpu = utc_ns(record["time"]), record["cpu"]
        if record["provider"] == LOST_PROVIDER and record["opcode"] in LOST:
            found.append((LOST[record["opcode"]], last.get(cpu), now))
        last[cpu] = max(now, last.get(cpu, now))
    return found


def naive_header(path):
    """EventsLost and BuffersLost of a file's header: the payload of its first record (a TRACE_LOGFILE_HEADER), read from the bytes."""
    with open(path, "rb") as f:
        data = f.read(72 + 32 + 280)
    fields = data[72 + 32:]  # after the buffer's header and the record's header
    return int.from_bytes(fields[48:52], "little"), int.from_bytes(fields[276:280], "little")


def naive_start(path):
    """When the session began, in ns since 1970: StartTime of the same header, 100 ns since 1601."""
    with open(path, "rb") as f:
        return (int.from_bytes(f.read(72 + 32 + 272)[-8:], "little") - 116444736 * 10**9) * 100


def shown(row):
    """A gap as the command and the API show it, in one form."""
    return (row["kind"], row["cause"], row["batches"], None if row["events"] == "unknown" else row["events"], row["at_least"], row["counted"], row["records"],
            utc_ns(row.get("from", row.get("begin"))), utc_ns(row.get("to", row.get("end"))))


def check_losses(env, checks, collector):
    """Events and buffers that Windows lost in the middle of a trace: the records of lost events, the header's numbers, and the generator's truth."""
    trace, truth = test_tracegen.generate(env.build, env.folder, "lossy", "--preset", "web-server", "--duration-ms", "2500")
    env.replay([trace], collector, agent="lossy", extra=["--batch-events", 20_000])
    stream, = ledger(collector, "lossy")["streams"]
    records, (events, buffers) = naive_losses(collector, "lossy"), naive_header(trace)
    said = [row for row in map(json.loads, truth.read_text(encoding="utf-8").splitlines()) if row["type"] == "loss" and row["events"]]
    checks.that(len(records) >= 3 and events and buffers, f"losses in the trace: {records}, {events}, {buffers}")
    checks.equal((sum(row["events"] for row in said if not row["buffers"]), sum(row["buffers"] for row in said)), (events, buffers),
                 "the header's losses, by the generator")
    for (cause, begin, end), row in zip(sorted(records, key=lambda r: r[2]), sorted(said, key=lambda row: row["end_utc_ns"])):
        checks.that(begin <= row["begin_utc_ns"] and abs(end - row["end_utc_ns"]) < 200, f"{cause} from {begin} to {end}, by the generator {row}")
    expected = collections.Counter(("recorded", cause, 0, None, 0, 0, 1, begin, end) for cause, begin, end in records)
    for cause, counter, count, at_least in (("RTLostEvent", "source_events_lost", events, events), ("RTLostBuffer", "source_buffers_lost", buffers, 0)):
        of = [r for r in records if r[0] == cause]
        expected[("counted", counter, 0, None, at_least, count, len(of), min(r[1] for r in of), max(r[2] for r in of))] += 1
    api = json.loads(web_get(collector, "/api/v1/hosts/lossy/gaps?limit=1000"))["items"]
    everywhere = json.loads(web_get(collector, "/api/v1/gaps?host=lossy&limit=1000"))["items"]
    sql = json.loads(collector.ask("query", "--format", "json", "--host", "lossy", "SELECT * FROM gaps"))["rows"]
    for what, rows in (("ledger", stream["gaps"]), ("a machine's API", api), ("the API", everywhere), ("SQL", sql)):
        checks.equal(collections.Counter(map(shown, rows)), expected, f"gaps, by {what}")
    losses = {(row["name"], row["count"], utc_ns(row["from"]), utc_ns(row["to"])) for row in stream["losses"]}
    checks.equal(losses, {(row[1], row[5], row[7], row[8]) for row in expected if row[0] == "counted"}, "losses, by ledger")
    text = collector.ask("ledger", "--host", "lossy")
    for sentence in (f"  lost: {events} events that Windows says it lost (EventsLost) (at the least; which ones is unknown), at ",
                     f"  lost: {buffers} buffers that Windows says it lost (LogBuffersLost, RealTimeBuffersLost) (events: unknown), at ",
                     f", events: at least {events}, which ones is unknown\n"):
        checks.that(sentence in text, f"the ledger's sentence {sentence!r} in {text[-3000:]}")
    for path in ("/api/v1/hosts?q=lossy", "/api/v1/hosts/lossy"):
        row = json.loads(web_get(collector, path))
        row = row["items"][0] if "items" in row else row
        checks.equal((row["gap_periods"], row["missing_batches"], row["lost_events"]), (len(records), 0, events), path)
    numbers = dict(re.findall(r'^(etwcollector_gap_\w+\{host="lossy",stream="\w+",kind="\w+")\} (\d+)$', web_get(collector, "/metrics"), re.M))
    checks.equal(sorted((name.rpartition("kind=")[2], "events" in name.split("{")[0], int(value)) for name, value in numbers.items()),
                 sorted([('"batches"', False, 0), ('"recorded"', False, len(records)), ('"counted"', False, 2),
                         ('"batches"', True, 0), ('"recorded"', True, 0), ('"counted"', True, events)]), "gaps, by /metrics")
    doctor = env.run([env.collector, "doctor", "--store", collector.store], check=False).stdout
    checks.that(f"lossy: 0 batches are missing, with 0 events and 0 times an unknown number; at least {events} further events were lost, and 1 times an unknown number" in doctor,
                f"doctor: {doctor}")
    return trace, stream["stored_events"]


def check_cut_losses(env, checks, collector, trace, event_count):
    """The last batches of such a trace do not come, and the closing one comes when another process computes the history: what was lost may have been in them."""
    batches = captured_paths(env, [trace], event_count, "lossy-cut", ["--batch-events", 20_000])
    last = max(at for at, batch in enumerate(batches) if uploads.Head(batch).event_count)
    upload(env, collector, "lossy-cut", batches[:last - 1])
    collector.stop()
    ledger(collector, "lossy-cut")
    collector.start()
    upload(env, collector, "lossy-cut", batches[last + 1:])
    collector.stop()
    stream, = ledger(collector, "lossy-cut", code=3)["streams"]  # what is acknowledged is not stored
    records, want = naive_losses(collector, "lossy-cut"), []
    for cause, counter in (("RTLostEvent", "source_events_lost"), ("RTLostBuffer", "source_buffers_lost")):
        of = [r for r in records if r[0] == cause]
        want += [(counter, len(of), min(r[1] for r in of), None)] if of else []
    checks.that(want, "records of losses in what came")
    checks.equal([(row["cause"], row["records"], utc_ns(row["from"]), row["to"]) for row in stream["gaps"] if row["kind"] == "counted" and row["records"]], want,
                 "losses of a stream whose last batches are missing")


def check_hole(env, checks, collector, batches):
    batches = [b for b in batches if uploads.Head(b).event_count]  # not the stream's end, where all is acknowledged
    left_out = len(batches) // 2
    gone = uploads.Head(batches[left_out]).event_count
    upload(env, collector, "holed", batches[:left_out] + batches[left_out + 1:])
    collector.stop()  # while it runs it waits for the batch
    stream, = ledger(collector, "holed")["streams"]
    checks.equal(stream["missing_batches"], 1, "batches missing")
    checks.equal([(b["cause"], b["first"], b["last"], b["events"]) for b in stream["gaps"]],
                 [("missing", left_out + 1, left_out + 1, gone)], "what the hole held")
    collector.start()
    upload(env, collector, "holed", batches[left_out:left_out + 1])
    collector.stop()
    stream, = ledger(collector, "holed")["streams"]
    checks.equal((stream["missing_batches"], stream["gaps"]), (0, []), "the hole after the batch came")


def check_headless(env, checks, collector, batches):
    """A stream whose first batches never come has a gap from its session's begin, as the trace's header has it, to the first event that is there."""
    missing = 3
    upload(env, collector, "headless", batches[missing:])
    collector.stop()
    header = naive_start(traces.paths(TRACE, env.build)[0])
    first = min(utc_ns(json.loads(line)["time"]) for line in collector.ask("export", "--host", "headless", "--format", "jsonl", "--no-names", "--raw").splitlines())
    stream, = ledger(collector, "headless")["streams"]
    row, = stream["gaps"]
    checks.equal((row["first"], row["last"], row["batches"], utc_ns(row["from"]), utc_ns(row["to"])), (1, missing, missing, header, first), "a gap at the begin")
    checks.that(header < first, f"it has a length: {header} to {first}")
    here, gone = (sum(uploads.Head(batch).event_count for batch in part) for part in (batches[missing:], batches[:missing]))
    acknowledged = last_ledger(batches)["events_acknowledged"]
    checks.equal((row["events"], stream["stored_events"], stream["missing_batches"]), (gone, here, missing), "events and batches that have not come")
    checks.that(here < acknowledged <= here + gone, f"the equation holds by the events of the hole alone: {here}, {gone}, {acknowledged}")
    checks.equal([(e["left"], e["right"], e["holds"]) for e in stream["equations"] if e["name"] == "stored"], [(here + gone, acknowledged, True)],
                 "what is stored here or may be elsewhere, and what is acknowledged")
    text = env.run([env.collector, "ledger", "--store", collector.store, "--host", "headless"], check=False).stdout
    checks.that(f"another collector >= acknowledged: {here + gone} and {acknowledged}: holds" in text and
                f"gap from {row['from']} to {row['to']}: {missing} batches of 1..{missing} (they have not come), events: {gone}\n" in text, f"the ledger's words: {text[-1500:]}")
    doctor = env.run([env.collector, "doctor", "--store", collector.store], check=False).stdout
    checks.that(re.search(rf"^info +gaps +headless: {missing} batches are missing, with {gone} events and 0 times an unknown number; .*; the first began at "
                          rf"{row['from']}, the last ended at {row['to']}: ", doctor, re.M), f"doctor: {doctor}")
    # buffers of which the file's header alone says that they are lost, and nothing says when: they may have been before the first batch that is there
    collector.start()
    upload(env, collector, "headless-lost", [with_ledger(batch, lambda counts: counts.update({SOURCE_BUFFERS_LOST: 2})) for batch in batches[missing:]])
    collector.stop()
    stream, = ledger(collector, "headless-lost")["streams"]
    last = max(utc_ns(json.loads(line)["time"]) for line in collector.ask("export", "--host", "headless-lost", "--format", "jsonl", "--no-names", "--raw").splitlines())
    checks.equal([(row["cause"], row["counted"], utc_ns(row["from"]), utc_ns(row["to"])) for row in stream["gaps"]],
                 [("missing", 0, header, first), ("source_buffers_lost", 2, header, last)], "gaps of a stream whose first batches and buffers are lost")
    checks.equal([(row["name"], row["count"], utc_ns(row["from"]), utc_ns(row["to"])) for row in stream["losses"]], [("source_buffers_lost", 2, header, last)],
                 "losses of that stream")
    # the same where the last batches of events do not come, and the closing one does: what was lost may have been after the last event that is there
    collector.start()
    upload(env, collector, "tailless-lost", [with_ledger(batch, lambda counts: counts.update({SOURCE_BUFFERS_LOST: 2})) for batch in batches[:missing] + batches[-1:]])
    ends = json.loads(collector.ask("query", "--format", "json", "SELECT time_text(last_gap_end) AS last FROM host_totals WHERE host = 'tailless-lost'"))["rows"]
    collector.stop()
    stream, = ledger(collector, "tailless-lost", code=3)["streams"]  # what is acknowledged is not stored
    first, last = (pick(utc_ns(json.loads(line)["time"]) for line in collector.ask("export", "--host", "tailless-lost", "--format", "jsonl", "--no-names", "--raw").splitlines())
                   for pick in (min, max))
    checks.equal([(row["cause"], row["counted"], utc_ns(row["from"]), row["to"]) for row in stream["gaps"]],
                 [("source_buffers_lost", 2, first, None), ("missing", 0, last, None)], "gaps of a stream whose last batches and buffers are lost")
    checks.equal(ends, [{"last": None}], "the end of its last gap")
    text = env.run([env.collector, "ledger", "--store", collector.store, "--host", "tailless-lost"], check=False).stdout
    checks.equal(text.count("to an unknown time (no event followed): 2 buffers"), 1, "the ledger's words about it")
    # the first batch that comes has no events: the gap ends with the first event after it
    head = [batch for batch in batches if uploads.Head(batch).event_count]
    collector.start()
    upload(env, collector, "headless-late", batches[-1:])
    collector.stop()
    row, = ledger(collector, "headless-late")["streams"][0]["gaps"]
    checks.equal((row["first"], row["last"], row["batches"], row["events"]), (1, len(head), len(head), sum(uploads.Head(batch).event_count for batch in head)),
                 "a gap of all batches but the closing one")


def check_imbalance(env, checks, collector, batches):
    at = len(batches) // 2

    def more_delivered(counts):
        counts[EVENTS_DELIVERED] += 7

    def all_acknowledged(counts):  # everything else stays: more is acknowledged than is stored
        counts[EVENTS_ACKNOWLEDGED] = counts[EVENTS_BATCHED] + 5

    changed = list(batches)
    changed[at] = with_ledger(batches[at], more_delivered)
    changed[at + 2] = with_ledger(batches[at + 2], all_acknowledged)
    upload(env, collector, "wrong", changed)
    stream, = ledger(collector, "wrong")["streams"]
    found = {(a["kind"], a["batch"]): (a["left"], a["right"]) for a in stream["alerts"]}
    left, right = found.get(("delivered", at + 1), (0, 0))
    checks.equal((left - right, right), (7, sum(uploads.Head(b).event_count for b in batches[:at + 1])),
                 f"the alert of what was delivered, of {found}")
    before = sum(uploads.Head(b).event_count for b in batches[:at + 2])
    checks.equal(found.get(("stored", at + 3)), (before, before + BATCH_EVENTS + 5), f"the alert of what is stored, of {found}")
    checks.that(("batched", at + 3) in found, f"the alert of what was batched, of {found}")
    checks.that(receiver.sleep_until(lambda: "are accounted for" in collector.log(), 30), "the log has no line about it")
    changed[-1] = with_ledger(batches[-1], more_delivered)
    upload(env, collector, "late", changed[-1:])
    collector.stop()
    answer = ledger(collector, "late", code=3)["streams"][0]
    checks.equal([e["name"] for e in answer["equations"] if not e["holds"]], ["delivered"],
                 "equations that fail; another collector may have what came before")


def check_family(env, checks, collector, batches):
    """A family whose numbers do not add up, while the session's do: named by the ledger, an alert, and in /metrics."""
    def more_batched(counts):
        counts[EVENTS_BATCHED] += 3
    at = max(i for i, batch in enumerate(batches) if b"\x0a\x06thread" in batch)  # the last one that names it
    upload(env, collector, "family", [with_family(batch, "thread", more_batched) if i == at else batch for i, batch in enumerate(batches)])
    stream, = ledger(collector, "family", code=3)["streams"]
    n = next(c["value"] for c in stream["counters"] if c["family"] == "thread" and c["number"] == EVENTS_DELIVERED)
    checks.equal(([e["name"] for e in stream["equations"] if not e["holds"]], stream["unbalanced_families"]), ([], [{"family": "thread", "name": "delivered", "left": n, "right": n + 3}, {"family": "thread", "name": "batched", "left": n + 3, "right": n}]),
                 "equations that fail, and families that do not add up")
    checks.equal({(a["family"], a["kind"], a["right"] - a["left"]) for a in stream["alerts"]}, {("thread", "delivered", 3), ("thread", "batched", -3)}, "alerts of the family")
    listed = re.findall(r'^etwcollector_ledger_unbalanced_families\{host="family",stream="\w+"\} (\d+)$', web_get(collector, "/metrics"), re.M)
    checks.equal(listed, ["1"], "unbalanced families in /metrics")
    text = env.run([env.collector, "ledger", "--store", collector.store, "--host", "family"], check=False).stdout
    listed = re.findall(r"^  family thread: .*\n((?:    .*\n)+)", text, re.M)
    checks.that(len(listed) == 1 and listed[0].count("DOES NOT HOLD") == 2, f"the ledger's words: {text[-1500:]}")


def check_damaged_spool(env, checks, collector, batches):
    """Batches of a second run, which found its spool damaged, between those of the first: the damage is reported once, and not as a loss of events."""
    def damaged(counts):
        counts[SPOOL_BAD_BYTES] = 682673

    whole = [b for b in batches if uploads.Head(b).event_count]  # an agent that was killed makes no closing batch
    upload(env, collector, "again", [with_ledger(b, damaged) if i % 3 == 1 else b for i, b in enumerate(whole)])
    stream, = ledger(collector, "again", "--series")["streams"]
    checks.equal([(row["name"], row["count"], row["events"]) for row in stream["losses"]], [("spool_bad_bytes", 682673, "unknown")], "losses of a damaged spool")
    points = {point["batch"]: point for point in stream["series"]}
    checks.equal([(row["batch"], row["from"], row["to"]) for row in stream["losses"]], [(2, points[1]["to"], points[2]["to"])],
                 "a loss without a blind period is from the last event of the batch before to that of its own")
    checks.equal(stream["gaps"], [], "gaps when every batch is here")
    samples = re.findall(r'^(\w+)\{host="again",stream="\w+"\} (\d+)$', web_get(collector, "/metrics"), re.M)
    checks.that(sum(int(value) for name, value in samples if name in WAITING) > 0, "the agent's last numbers, of its last batch of events, say that it waits")
    checks.equal([int(value) for name, value in samples if name == "etwcollector_waiting_events"], [0], "events that wait when every batch is here")
    text = collector.ask("ledger", "--host", "again")
    checks.equal(re.findall("^  .*682673 bytes inside the spool.*$", text, re.M),
                 ["  damaged: 682673 bytes inside the spool that could not be read back: their batches were made again, or are missing"], "the ledger's sentence about a damaged spool")


def check_unobserved(env, checks):
    """The time between two recordings of a machine, beside one that begins and ends inside another; --from and --to, by its edges."""
    store, whole, part = env.folder / "paused", env.folder / "paused.etl", env.folder / "part.etl"
    test_tracegen.generate(env.build, env.folder, "paused", "--preset", "office", "--duration-ms", "3000")
    env.run([env.agent, "relog", "-o", part, "--from", "+1s", "--to", "+2s", whole])
    for path in (whole, part, *traces.paths(TRACE, env.build)):
        env.run([env.collector, "ingest", "--store", store, "--host", "paused", path])
    env.run([env.collector, "ingest", "--store", store, "--host", "whole", whole])

    def asked(*options):
        return env.run([env.collector, "ledger", "--store", store, *options], check=False)

    rows = json.loads(env.run([env.collector, "query", "--store", store, "--host", "paused", "--format", "json",
                               'SELECT begin + 0 AS begin, "end" + 0 AS "end" FROM streams WHERE events > 0 ORDER BY 1']).stdout)["rows"]
    covered, want = rows[0]["end"], []
    for row in rows[1:]:
        want += [(covered, row["begin"])] * (row["begin"] > covered)
        covered = max(covered, row["end"])
    checks.equal((len(rows), len(want)), (3, 1), f"recordings, and pauses between them: {rows}")
    (last, following), = want
    for options, hidden in (((), False), (("--from", as_text(following)), False), (("--from", as_text(following + 1)), True), (("--to", as_text(last + 1)), False), (("--to", as_text(last)), True)):
        found = json.loads(asked("--json", *options).stdout)["unobserved"]
        visible = [{"host": "paused", "from": as_text(last)[:-3] + "Z", "to": as_text(following)[:-3] + "Z"}]
        checks.equal(found, [] if hidden else visible, f"times that no recording covers, of {options}")
        said = f"paused: no stream covers the time from {visible[0]['from']} to {visible[0]['to']}" in asked(*options).stdout
        checks.equal(said, not hidden, f"the same as text, of {options}")
    for options, words in ((("--stream", "x"), "has no stream that begins with x"), (("--host", "paused", "--stream", "x"), "has no stream of paused that begins with x")):
        done = asked(*options)
        checks.that(done.returncode == 1 and words in done.stderr, f"ledger {options}: {done}")


def test(env, checks, _):
    agents = ["again", "family", "headless", "headless-late", "headless-lost", "tailless-lost", "whole", "holed", "wrong", "late", "last", "lossy", "lossy-cut"]
    env.make_certificates(agents)
    collector = env.new_collector(extra=["--web", "127.0.0.1:0"]).start()
    total = traces.event_count(TRACE)
    env.replay(traces.paths(TRACE, env.build), collector, agent="whole", extra=["--batch-events", BATCH_EVENTS])
    check_balanced(checks, collector, total)
    check_metrics(checks, collector, total)
    batches = captured(env, TRACE, "holed")
    check_last_values(env, checks, collector, batches)
    check_family(env, checks, collector, batches)
    check_headless(env, checks, env.new_collector("headless").start(), batches)
    check_cut_losses(env, checks, env.new_collector("cut").start(), *check_losses(env, checks, collector))
    check_damaged_spool(env, checks, collector, batches)
    check_imbalance(env, checks, collector, batches)
    check_hole(env, checks, env.new_collector("second").start(), batches)
    check_unobserved(env, checks)
    refused = env.run([env.collector, "run", "--store", env.folder / "other", "--cert", env.certs / "server.crt", "--key",
                       env.certs / "server.key", "--ca", env.certs / "ca.crt", "--listen", "127.0.0.1:0", "--web", "0.0.0.0:0"],
                      check=False)
    checks.equal(refused.returncode, 2, "metrics for everybody")


if __name__ == "__main__":
    harness.main(test, __doc__)
