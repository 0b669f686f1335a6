"""Batches of few bytes that take long: a shared dictionary of 262,144 structs, named by one column of few events. Two
connections of one certificate send 250 of them in an upload, again and again; the writer yields to the others after each."""
import os
import threading
import time

import world
import harness
import test_wire_python
import uploads
import wire_lies

BATCHES, CONNECTIONS, MEMBERS = 250, 2, 3  # as many members as a batch may have work for


def upload(w):
    draft = test_wire_python.Draft(w.batch)
    wire_lies.rows_of_shared(262144, MEMBERS)(draft)
    stream, batch = os.urandom(16), draft.bytes()
    return uploads.body([world.renumbered(batch, stream, number) for number in range(1, BATCHES + 1)])


def attack(w, stop, ready):
    answers = []
    bodies = [upload(w) for _ in range(CONNECTIONS)]  # before the threads begin: the reader of batches is for one thread

    def send(body):
        while not stop.is_set():
            web = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief"))
            web.request("POST", uploads.UPLOAD_PATH, body, {"Content-Type": world.UPLOAD_TYPE})
            answer = web.getresponse()
            answer.read()
            answers.append(answer.status)
            web.close()

    threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    time.sleep(1)
    ready.set()
    stop.wait()
    for thread in threads:
        thread.join(60)
    return sorted(set(answers)), len(answers)


def test(env, checks, _):
    with world.World(env, checks) as w:
        report = w.compare(f"{CONNECTIONS} x {BATCHES} batches that take long", attack) or ([], 0)
        checks.that(report[1] > 0 and set(report[0]) <= {200, 429}, f"answers to the attacker: {report}")


if __name__ == "__main__":
    harness.main(test, __doc__)
