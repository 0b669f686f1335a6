"""One certificate that makes the work of the writer or of the history many: each upload names new streams, has batches of tombstones, batches
that bring classes or shapes again, or leaves a number out. Each leaves something in the store, so the quiet victims are those of a collector that is
not attacked. And what the tombstones leave: the list of machines takes no longer once an agent has 80,000 gaps.

usage: test_floods.py --build DIR [--soak] [--keep]
"""
import itertools
import json
import os
import pathlib
import threading

import world
import harness
import receiver
import test_quotas
import uploads

CONNECTIONS = 3
GAPS, QUESTIONS = 80000, 20


def flood(bodies):
    """An attack: each of bodies(w), an iterator, over one of CONNECTIONS connections; returns how often which status came."""
    def attack(w, stop, ready):
        source, lock, answers = bodies(w), threading.Lock(), {}

        def send():
            web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
            while not stop.is_set():
                with lock:
                    body = next(source)
                web.request("POST", uploads.UPLOAD_PATH, body, {"Content-Type": world.UPLOAD_TYPE})
                answer = web.getresponse()
                answer.read()
                with lock:
                    answers[answer.status] = answers.get(answer.status, 0) + 1
                    if sum(answers.values()) > CONNECTIONS:
                        ready.set()
            web.close()

        threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers
    return attack


def streams(w):
    """Each upload is the first of a stream."""
    while True:
        yield uploads.body([world.renumbered(w.batch, os.urandom(16), 1)])


def tombstones(count):
    """Each upload has 16 batches of so many tombstones, none beside another."""
    def bodies(w):
        stream = os.urandom(16)
        for number in itertools.count(1, 16):
            yield uploads.body([test_quotas.tombstones(stream, number + i, count) for i in range(16)])
    return bodies


def resent_tombstones(w):
    """One batch of as many tombstones as an agent puts into one, again and again: each row of it is known."""
    body = uploads.body([test_quotas.tombstones(os.urandom(16), 1, 4096)])
    while True:
        yield body


def known_classes(count):
    """Each upload has 8 batches that describe the same classes again."""
    def bodies(w):
        stream, described = os.urandom(16), test_quotas.classes(w.batch, 0, count)
        for number in itertools.count(1, 8):
            yield uploads.body([world.renumbered(w.batch, stream, number + i) + described for i in range(8)])
    return bodies


def known_shapes(count):
    """Each upload has 8 batches that bring the same shapes again, which no event uses."""
    def bodies(w):
        stream, shapes = os.urandom(16), b"".join(uploads._bytes(22, b"%08d" % i) for i in range(count))
        for number in itertools.count(1, 8):
            yield uploads.body([world.renumbered(w.batch, stream, number + i) + shapes for i in range(8)])
    return bodies


def missing_numbers(w):
    """Each upload has one batch, and the number before it never comes: the history waits for it."""
    stream = os.urandom(16)
    for number in itertools.count(2, 2):
        yield uploads.body([world.renumbered(w.batch, stream, number)])


def ask(w):
    """The attacker's row in the list of machines."""
    web = world.Web(w.web_port, world.VICTIM_READER, None)
    web.request("GET", world.QUESTION)
    answer = json.loads(web.getresponse().read())
    web.close()
    return next(item for item in answer["items"] if item["host"] == "thief")


def ask_about_gaps(w):
    """The named question about machines with gaps: the attacker's row, when it has gaps."""
    web = world.Web(w.web_port, world.VICTIM_READER, None)
    web.request("GET", "/api/v1/queries/hosts-with-gaps")
    answer = json.loads(web.getresponse().read())
    web.close()
    return next((item for item in answer["items"] if item["host"] == "thief"), None)


def processor_s(w, question):
    """Seconds of a processor that a question takes: of the processes that answer, so that it is the same on a busy machine."""
    def children():
        fields = pathlib.Path(f"/proc/{w.collector.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    begin = children()
    for _ in range(QUESTIONS):
        question(w)
    return (children() - begin) / QUESTIONS


def gaps(env, checks):
    with world.World(env, checks, name="gaps") as w:
        thief, stream = test_quotas.Thief(w), os.urandom(16)
        thief.post([world.renumbered(w.batch, stream, 1)])
        questions = {"the list of machines": ask, "hosts-with-gaps": ask_about_gaps}
        before = {name: processor_s(w, question) for name, question in questions.items()}
        refused = []
        for number in range(2, 2 + GAPS // 200, 16):
            status, _, said = thief.post([test_quotas.tombstones(stream, number + i, 200) for i in range(min(16, 2 + GAPS // 200 - number))])
            refused += [(status, str(said)[:200])] if status != 200 or said.refused else []
        checks.equal(refused[:1], [], "refused uploads of tombstones")
        receiver.sleep_until(lambda: ask(w)["gap_periods"] == GAPS, 120, 0.5)
        for name, question in questions.items():
            after = processor_s(w, question)
            print(f"{name}: {before[name] * 1e3:.0f} ms of a processor, with {GAPS} gaps of one of them {after * 1e3:.0f} ms", flush=True)
            checks.that(after < 2 * max(before[name], world.FLOOR_S), f"{name}: {after * 1e3:.0f} ms, without the gaps {before[name] * 1e3:.0f} ms")
        checks.equal(ask(w)["gap_periods"], GAPS, "gaps of the attacker")
        row = ask_about_gaps(w)
        checks.equal((row["periods"], row["batches"]), (GAPS, GAPS), "gaps and missing batches of the attacker")


def test(env, checks, _):
    attacks = [("new streams", streams), ("batches of 200 tombstones", tombstones(200)),
               ("a batch of 4,096 tombstones again", resent_tombstones), ("batches of 200 known classes", known_classes(200)),
               ("batches of 200 known shapes", known_shapes(200)), ("missing numbers", missing_numbers)]
    for what, bodies in attacks:
        name = what.replace(" ", "-").replace(",", "")
        with world.World(env, checks, name=name, twin=True) as w:
            answers = w.compare(what, flood(bodies))
            checks.that(answers and set(answers) <= {200, 429}, f"{what}: answers to the attacker: {answers}")
    gaps(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
