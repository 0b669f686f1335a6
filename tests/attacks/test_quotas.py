"""One agent's certificate against everybody else: floods of bytes, streams, classes and tombstones, and a store that is too small for them.

- A flood of sound batches beyond the store's size: the flooding agent's own history is deleted, no batch of the victim is.
- The same with definitions that no batch uses: the index is the flooding agent's, too, and is freed with its batches.
- A flood of sound batches: the latencies of the victims stay.
- What is younger than --retain-min-age stays: then the agent above its share is refused with 429, the victim is not.
- An agent above its quota of bytes gets 429 with Retry-After and a sentence, and is counted.
- The same for each other rate of agents: batches, events, streams, classes, tombstones; of an upload that is refused nothing is stored.
- Streams, classes, tombstones and definitions beyond their bounds are refused, each with its own sentence, and counted.
"""
import hashlib
import os
import re
import time

import world  # first: it knows where the others are
import format_description
import format_notation
import harness
import receiver
import uploads

FILLER = uploads._bytes(999, bytes(60000))  # of the 64 KiB of unknown fields that a batch may have
LIMIT = 24 << 20
FLOOD_BATCHES = 700  # of 60 kB each: twice the limit


class Thief:
    """A connection with the thief's certificate, or that of another name."""

    def __init__(self, w, name="thief"):
        self.web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, name))

    def post(self, batches):
        """Status, headers, and the Ack or the text."""
        self.web.request("POST", uploads.UPLOAD_PATH, uploads.body(batches), {"Content-Type": world.UPLOAD_TYPE})
        answer = self.web.getresponse()
        body = answer.read()
        return answer.status, answer.headers, format_notation.parse(body, "Ack") if answer.status == 200 else body.decode()

    def refusals(self, batches):
        """Sentences about refused batches, and how many were taken."""
        status, _, ack = self.post(batches)
        if status != 200:
            raise harness.Failure(f"expected 200, got {status}: {ack}")
        return [r.text for r in ack.refused], sum(r.last - r.first + 1 for r in ack.acknowledged)


def flood(w, stop, ready, ready_after=FLOOD_BATCHES // 2):
    """Batches of 60 kB for as long as the victims are measured, and at least FLOOD_BATCHES."""
    thief, stream, sent, refused = Thief(w), os.urandom(16), 0, []
    while sent < FLOOD_BATCHES or not stop.is_set():
        status, _, said = thief.post([world.renumbered(w.batch, stream, sent + i + 1) + FILLER for i in range(16)])
        if status == 200 and all(r.cause == uploads.REFUSED_RETRY for r in said.refused):
            sent += sum(r.last - r.first + 1 for r in said.acknowledged)  # the rest is sent again
        else:
            refused.append((status, str(said)[:200]))
            if len(refused) > 20:
                break
        if sent >= ready_after:
            ready.set()
    return sent, refused[:1]


def rows(w, host):
    return [s for s in w.collector.ask_json("hosts")["streams"] if s["host"] == host]


def share(env, checks):
    extra = ["--segment-size", "4MiB", "--retain-size", str(LIMIT), "--retain-interval", "100ms"]
    with world.World(env, checks, extra=extra, name="share") as w:
        first = world.Web(w.port, world.VICTIM_AGENT, w.agent.context)
        for _ in range(50):
            w.agent.request(first, 0)
        never = world.processes.Event()
        never.set()
        sent, refused = flood(w, never, world.processes.Event())
        for _ in range(10):
            w.agent.request(first, 0)
        receiver.sleep_until(lambda: w.metrics()["etwcollector_store_segment_size_bytes"] < LIMIT, 20, 0.2)
        checks.that(sent >= FLOOD_BATCHES and not refused, f"the thief's {sent} batches are taken: {refused}")
        checks.equal(sum(s["expired_batches"] for s in rows(w, "victim")), 0, "batches of the victim that were deleted")
        gone = sum(s["expired_batches"] for s in rows(w, "thief"))
        checks.that(gone * 60000 > sent * 60000 - LIMIT, f"{gone} of the thief's {sent} batches were deleted")
        numbers = w.metrics()
        size = numbers["etwcollector_store_segment_size_bytes"] + numbers["etwcollector_store_index_size_bytes"]
        checks.that(size < LIMIT * 1.25, f"the store has {size:.0f} bytes, of {LIMIT}")
        checks.that(numbers["etwcollector_store_erased_bytes_total"] >= gone * 60000, "bytes erased are counted")
        reported = [i for i in w.collector.ask_json("ledger")["incidents"] if i["kind"] == "share"]
        checks.that(reported and all(i["host"] == "thief" and "furthest above its share" in i["text"] for i in reported), f"incidents: {reported}")
        kept = sum(s["events"] for s in rows(w, "victim"))
        found = env.run([env.collector, "query", "--store", w.collector.store, "--format", "json",
                         "SELECT sum(events) AS n FROM streams WHERE host = 'victim'"]).stdout
        checks.that(f'"n": {kept}' in found or f'"n":{kept}' in found, f"the victim's events can be read: {kept}, {found[:200]}")
    print(f"a flood of {sent} batches: {gone} deleted, {size / (1 << 20):.1f} MiB left of {LIMIT >> 20}", flush=True)


def definitions(env, checks):
    extra = ["--segment-size", "1MiB", "--retain-size", str(LIMIT // 2), "--retain-interval", "50ms"]
    with world.World(env, checks, extra=extra, name="definitions") as w:
        first = world.Web(w.port, world.VICTIM_AGENT, w.agent.context)
        for _ in range(30):
            w.agent.request(first, 0)
        thief, stream, refused = Thief(w), os.urandom(16), []
        for number in range(1, 601):  # 36 MB of shapes, three times the limit; the numbers are those of an agent that sends much
            status, _, said = thief.post([world.renumbered(w.batch, stream, 1024 * number) + uploads._bytes(22, os.urandom(60000))])
            refused += [(status, str(said)[:200])] if status != 200 or said.refused else []
        for _ in range(10):
            w.agent.request(first, 0)

        def index():
            return w.metrics()["etwcollector_store_index_size_bytes"]
        receiver.sleep_until(lambda: index() < LIMIT // 2, 20, 0.2)
        checks.equal(refused, [], "the thief's shapes are taken: those that are freed make room below --agent-definitions")
        checks.that(index() < LIMIT // 2, f"the index has {index():.0f} bytes, the store may have {LIMIT // 2}")
        checks.equal([s["expired_batches"] for s in rows(w, "victim") if s["expired_batches"]], [], "batches of the victim that were deleted")
        gone = sum(s["expired_batches"] for s in rows(w, "thief"))
        checks.that(gone > 300, f"{gone} of the thief's 600 batches were deleted, so that their shapes go")
        reported = [i for i in w.collector.ask_json("ledger")["incidents"] if i["kind"] == "share"]
        checks.that(reported and all(i["host"] == "thief" for i in reported), f"incidents: {reported}")
        print(f"36 MB of definitions: {gone} of the thief's 600 batches deleted, the index has {index() / (1 << 20):.1f} MiB", flush=True)


def noisy(env, checks):
    with world.World(env, checks, name="noisy") as w:
        sent, refused = w.compare("a flood of batches", flood)
        checks.that(sent >= FLOOD_BATCHES and not refused, f"the thief's {sent} batches are taken: {refused}")


def flood_of_a_full_store(w, stop, ready):
    """The same, measured from when the store is full, so that each batch makes retention erase one. Returns how much was erased meanwhile, too."""
    class Full:
        @staticmethod
        def set():
            if not ready.is_set():
                Full.erased = w.metrics()["etwcollector_store_erased_bytes_total"]
                ready.set()
    sent, refused = flood(w, stop, Full, FLOOD_BATCHES)
    return sent, refused, w.metrics()["etwcollector_store_erased_bytes_total"] - Full.erased


def erasing(env, checks):
    extra = ["--segment-size", "4MiB", "--retain-size", str(LIMIT), "--retain-interval", "100ms"]
    with world.World(env, checks, extra=extra, name="erasing") as w:
        sent, refused, erased = w.compare("a flood of batches while retention erases", flood_of_a_full_store)
        checks.that(sent >= FLOOD_BATCHES and not refused, f"the thief's {sent} batches are taken: {refused}")
        checks.that(erased > LIMIT / 8, f"{erased:.0f} bytes were erased while the victims were measured")
        print(f"{erased / (1 << 20):.1f} MiB were erased while the victims were measured", flush=True)


def young(env, checks):
    extra = ["--segment-size", "1MiB", "--retain-size", "4MiB", "--retain-min-age", "1h", "--retain-interval", "50ms"]
    with world.World(env, checks, extra=extra, name="young") as w:
        thief, stream, said, status = Thief(w), os.urandom(16), "", 200
        for number in range(1, 400):
            status, headers, said = thief.post([world.renumbered(w.batch, stream, number) + FILLER])
            if status != 200:
                break
        checks.equal((status, headers["Retry-After"]), (429, "60"), f"the thief, whose share is used up, after {number} batches")
        checks.that("the store is full of what is younger than --retain-min-age" in said, f"the agent logs the reason: {said}")
        first = world.Web(w.port, world.VICTIM_AGENT, w.agent.context)
        for _ in range(20):
            w.agent.request(first, 0)
        checks.equal([s["expired_batches"] for s in rows(w, "thief") + rows(w, "victim") if s["expired_batches"]], [], "nothing was deleted")
        checks.that(w.metrics()["etwcollector_store_refused_full_total"] >= 1, "refused uploads are counted")


def limited(env, checks):
    with world.World(env, checks, extra=["--quota-bytes", "64KiB", "--silent-after", "2s"], name="limited") as w:
        thief, stream, status = Thief(w), os.urandom(16), 200
        for number in range(1, 40):
            status, headers, said = thief.post([world.renumbered(w.batch, stream, number) + FILLER])
            if status != 200:
                break
        checks.that(status == 429 and 1 <= int(headers["Retry-After"]) <= 10, f"status {status} after {number} batches")
        checks.equal(said.strip(), "agent thief is above its quota of bytes: 65536 bytes in 1 s are allowed (--quota-bytes)", "the sentence")
        checks.that(16 <= number <= 25, f"a burst of 16 s of it is allowed: {number} batches of 60 kB")
        checks.equal(w.metrics()["etwcollector_quota_refused_bytes_total"], 1, "refused uploads are counted")

        def listed():
            rows = w.collector.ask_json("quota", "--above")["uses"]
            return [(r["who"], r["name"], r["resource"], r["limit"], r["period_s"], r["refused"]) for r in rows if r["above_since"]]
        checks.that(receiver.sleep_until(listed, 20, 0.2), "the collector's watch writes what is used")
        checks.equal(listed(), [("agent", "thief", "bytes", 65536, 1, 1)], "etwcollector quota --above")
        reported = env.run([env.collector, "query", "--store", w.collector.store, "--format", "json",
                        "SELECT host, kind, family, text FROM incidents WHERE kind = 'quota' AND end IS NULL"]).stdout
        checks.that("agent thief is above its quota of bytes (65536 bytes a second): 1 refused" in reported, f"an incident that goes on: {reported}")
        kept_by = {r["host"]: r for r in w.collector.ask_json("quota")["kept"]}
        checks.that(kept_by["thief"]["bytes"] > 900000 and (kept_by["thief"]["streams"], kept_by["thief"]["batches"]) == (1, number - 1),
                    f"what is kept of the thief: {kept_by}")
        w.agent.request(world.Web(w.port, world.VICTIM_AGENT, w.agent.context), 0)


def each_rate(env, checks):
    """An agent for each resource, which sends uploads until one is refused. Amounts: what a period gives, and the bucket's periods."""
    limits = {"streams": (2, 4, 1), "classes": (300, 1, 50), "tombstones": (50, 4, 30)}
    extra = [word for name, (limit, *_) in limits.items() for word in (f"--quota-{name}", limit)]
    for name in limits:
        env.run([env.collector, "ca", "issue", "--dir", env.certs, "--name", name])
    with world.World(env, checks, extra=extra, name="rates") as w:
        for name, (limit, burst, each) in limits.items():
            thief, stream, taken = Thief(w, name), os.urandom(16), 0
            for number in range(1, 100):
                batch = {"streams": lambda: world.renumbered(w.batch, os.urandom(16), 1),
                         "classes": lambda: world.renumbered(w.batch, stream, number) + classes(w.batch, 50 * number, 50),
                         "tombstones": lambda: tombstones(stream, number, 30)}[name]()
                status, headers, said = thief.post([batch])
                if status != 200:
                    break
                taken += each
            check_rate(checks, w, name, limit, status, headers, said)
            checks.that(limit * burst <= taken <= limit * burst + each, f"{taken} {name} were taken, {limit} and a burst of {burst} times it are allowed")
            batches = sum(s["batches"] for s in rows(w, name))
            checks.equal(batches, number - 1, f"stored batches of the agent above its quota of {name}")
        w.agent.request(world.Web(w.port, world.VICTIM_AGENT, w.agent.context), 0)
    with world.World(env, checks, extra=["--quota-batches", "2"], name="batches") as w:
        check_rate_at_once(checks, w, "batches", 2, 16, 1)
    with world.World(env, checks, extra=["--quota-events", w.events_per_batch], name="events") as w:
        check_rate_at_once(checks, w, "events", w.events_per_batch, 16, w.events_per_batch)


def check_rate_at_once(checks, w, name, limit, burst, each):
    """Uploads of one batch, which counts as `each`, until one is refused."""
    thief, stream, begin, status = Thief(w), os.urandom(16), time.monotonic(), 200
    for number in range(1, 2000):
        status, headers, said = thief.post([world.renumbered(w.batch, stream, number)])
        if status != 200:
            break
    passed = time.monotonic() - begin
    check_rate(checks, w, name, limit, status, headers, said)
    taken = (number - 1) * each
    checks.that(limit * burst <= taken + each and taken <= limit * (burst + passed) + each, f"{taken} {name} were taken in {passed:.1f} s, {limit} a second and "
                f"a burst of {burst} s are allowed")
    checks.equal(sum(s["batches"] for s in rows(w, "thief")), number - 1, f"stored batches of the agent above its quota of {name}")


def check_rate(checks, w, name, limit, status, headers, said):
    checks.that(status == 429 and int(headers["Retry-After"]) >= 1 and f"is above its quota of {name}: {limit} {name} in" in str(said),
                f"{name}: {status} {str(said)[:300]}")
    checks.equal(w.metrics()[f"etwcollector_quota_refused_{name}_total"], 1, f"refused uploads are counted, for {name}")


def tombstones(stream, number, count):
    """A batch of tombstones, each for one number from 1,000,000 on, none beside another."""
    graves = b"".join(uploads._bytes(15, uploads._number(1, at) + uploads._number(2, at) + uploads._number(3, 15) + uploads._number(4, 1))
                      for at in range(1000000 * number, 1000000 * number + 2 * count, 2))
    return uploads._number(1, 1) + uploads._bytes(2, stream) + uploads._number(3, number) + uploads._number(4, 1) + graves


def classes(batch, first, count):
    """Descriptions of classes that differ by their names."""
    description = bytes(next(value for field, value in uploads.fields(batch) if field == 12))
    name = format_description.Description(description).name.encode()
    if len(name) < 6:
        raise harness.Failure(f"expected a class with a longer name, got {name}")
    made = [description.replace(name, name[:-6] + b"%06d" % (first + i)) for i in range(count)]
    if len({hashlib.sha256(d).digest() for d in made}) != count:
        raise harness.Failure("the classes are the same")
    return b"".join(uploads._bytes(12, d) for d in made)


def kept(env, checks):
    extra = ["--agent-streams", "12", "--agent-classes", "200", "--agent-tombstones", "300", "--agent-definitions", "1MiB"]
    with world.World(env, checks, extra=extra, name="kept") as w:
        thief = Thief(w)
        streams = [os.urandom(16) for _ in range(13)]
        for stream in streams[:12]:
            checks.equal(thief.refusals([world.renumbered(w.batch, stream, 1)]), ([], 1), "a stream within the bound")
        said, _ = thief.refusals([world.renumbered(w.batch, streams[12], 1)])
        checks.equal(said, ["batch 1: 12 streams of thief are kept, at most 12 are allowed (--agent-streams)"], "one stream too many")
        checks.equal(thief.refusals([world.renumbered(w.batch, streams[0], 2)]), ([], 1), "a stream that is kept goes on")

        checks.equal(thief.refusals([world.renumbered(w.batch, streams[0], 3) + classes(w.batch, 0, 150)]), ([], 1), "150 classes")
        said, _ = thief.refusals([world.renumbered(w.batch, streams[0], 4) + classes(w.batch, 1000, 150)])
        checks.that(len(said) == 1 and re.fullmatch(r"batch 4: 150 classes of thief are kept, at most 200 are allowed, and it has more \(--agent-classes\)", said[0]),
                    f"too many classes: {said}")
        checks.equal(thief.refusals([world.renumbered(w.batch, streams[0], 4) + classes(w.batch, 0, 150)]), ([], 1), "classes that are known")

        checks.equal(thief.refusals([tombstones(streams[1], 2, 250)]), ([], 1), "250 tombstones")
        said, _ = thief.refusals([tombstones(streams[1], 3, 250)])
        checks.equal(said, ["batch 3: 250 tombstones of thief are kept, with this batch 500, at most 300 are allowed (--agent-tombstones)"], "too many tombstones")
        checks.equal(thief.refusals([tombstones(streams[1], 4, 50)]), ([], 1), "what was refused left nothing: 50 more are within the bound")

        shapes, taken, said = [os.urandom(60000) for _ in range(30)], 0, []
        while taken < len(shapes):
            said, _ = thief.refusals([world.renumbered(w.batch, streams[2], 2 + taken) + uploads._bytes(22, shapes[taken])])
            if said:
                break
            taken += 1
        checks.that(16 <= taken <= 18 and len(said) == 1 and re.fullmatch(
            rf"batch {2 + taken}: 1\d{{6}} bytes of definitions of thief are kept, at most 1048576 are allowed, and it has more \(--agent-definitions\)", said[0]),
            f"after {taken} shapes of 60 kB: {said}")
        checks.equal(thief.refusals([world.renumbered(w.batch, streams[2], 2 + taken) + uploads._bytes(22, shapes[0])]), ([], 1), "a shape that is known")

        listed = {r["host"]: r for r in w.collector.ask_json("quota")["kept"]}["thief"]
        checks.equal((listed["streams"], listed["tombstones"], listed["classes"]), (12, 300, 150), f"etwcollector quota: {listed}")
        checks.that(60000 * taken <= listed["definition_bytes"] < 60000 * (taken + 2), f"etwcollector quota, after {taken} shapes of 60 kB: {listed}")
        numbers = w.metrics()
        checks.equal([numbers[f"etwcollector_store_refused_{what}_total"] for what in ("streams", "classes", "tombstones", "definitions")],
                     [1, 1, 1, 1], "counted")
        reported = [i["text"] for i in w.collector.ask_json("ledger")["incidents"] if i["kind"] == "kept" and i["host"] == "thief"]
        checks.that(reported and "streams" in reported[0], f"an incident of the agent: {reported}")
        w.agent.request(world.Web(w.port, world.VICTIM_AGENT, w.agent.context), 0)


def test(env, checks, _):
    kept(env, checks)
    limited(env, checks)
    each_rate(env, checks)
    young(env, checks)
    share(env, checks)
    definitions(env, checks)
    noisy(env, checks)
    erasing(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
