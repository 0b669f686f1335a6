"""One certificate that makes the writer's work many: each upload names new streams, batches of tombstones, batches that describe classes
again. Each leaves something in the store, so the quiet victims are those of a collector that is not attacked.

usage: test_floods.py --build DIR [--soak] [--keep]
"""
import itertools
import os
import threading

import world
import harness
import test_quotas
import uploads

CONNECTIONS = 3


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


def known_classes(count):
    """Each upload has 8 batches that describe the same classes again."""
    def bodies(w):
        stream, described = os.urandom(16), test_quotas.classes(w.batch, 0, count)
        for number in itertools.count(1, 8):
            yield uploads.body([world.renumbered(w.batch, stream, number + i) + described for i in range(8)])
    return bodies


def test(env, checks, arguments):
    attacks = [("new streams", streams), ("batches of 200 tombstones", tombstones(200))]
    if arguments.soak:  # an open finding (docs/verification/hardening.md): it does not hold
        attacks.append(("batches of 200 known classes", known_classes(200)))
    for what, bodies in attacks:
        name = what.replace(" ", "-")
        with world.World(env, checks, name=name, twin=True) as w:
            # a question about all machines counts each blind period, so that its time grows with an agent's tombstones (--agent-tombstones)
            answers = w.compare(what, flood(bodies), judged=("agent",) if "tombstones" in what else ("agent", "reader"))
            checks.that(answers and set(answers) <= {200, 429}, f"{what}: answers to the attacker: {answers}")


if __name__ == "__main__":
    harness.main(test, __doc__)
