"""Findings S1 and S2, and all other wrong batches that the tests know: one certificate sends them again and again, over several connections. The
collector refuses each, goes on running, and serves the other agent and a reader as before.

usage: test_wrong_batches.py --build DIR [--soak] [--keep]
"""
import os
import threading

import world
import harness
import format_notation
import format_reader
import test_wire_python
import uploads
import wire_lies

CONNECTIONS, MOST_BYTES = 3, 1 << 20
SEED = harness.ROOT / "tests" / "fuzz" / "corpus" / "batch" / "batch8"


def is_wrong(batch):
    """Whether the reader in Python finds a broken rule; an agent's ledger may be wrong, and is kept."""
    try:
        format_reader.Batch(batch).verify()
    except format_notation.Broken:
        return True
    return False


def wrong_batches():
    """Batches that break one rule each, and whose checksum is that of their records where they have one."""
    data, made = SEED.read_bytes(), []
    for what, _, change in (*test_wire_python.lies(), *wire_lies.descriptions(), *wire_lies.columns(), *wire_lies.envelopes(test_wire_python.compressed)):
        draft = test_wire_python.Draft(data)
        try:
            change(draft)
        except (StopIteration, IndexError, AttributeError):
            continue  # the seed lacks what the lie is about
        if len(draft.batch.stream) == 16:
            draft.batch.stream = os.urandom(16)
        if what not in (*wire_lies.OF_THE_CHECKSUM, *wire_lies.TOO_LARGE):
            test_wire_python.sealed(draft)
        batch = draft.bytes()
        if len(batch) < MOST_BYTES and is_wrong(batch):  # some lies need another batch to be wrong
            made.append((what, batch))
    return made


LIES = []


def attack(w, stop, ready):
    lies, lock, answers, stored = LIES, threading.Lock(), {}, set()

    def send(first):
        web, at = world.Web(w.port, "127.0.0.1", world.tls(w.env.certs, "thief")), first
        while not stop.is_set():
            what, batch = lies[at % len(lies)]
            web.request("POST", uploads.UPLOAD_PATH, uploads.body([batch]), {"Content-Type": world.UPLOAD_TYPE})
            answer = web.getresponse()
            text, at = answer.read(), at + CONNECTIONS
            with lock:
                answers[answer.status] = answers.get(answer.status, 0) + 1
                if answer.status == 200 and not format_notation.parse(text, "Ack").refused:
                    stored.add(what)
                if sum(answers.values()) > len(lies):  # each of them once
                    ready.set()
            if answer.getheader("Connection") == "close":
                web.close()
        web.close()

    threads = [threading.Thread(target=send, args=(first,)) for first in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(lies), answers, sorted(stored)


def test(env, checks, _):
    LIES.extend(wrong_batches())
    with world.World(env, checks) as w:
        pid = w.collector.process.pid
        count, answers, stored = w.compare("wrong batches", attack) or (0, {}, [])
        checks.that(count > 100, f"wrong batches: {count}")
        checks.equal(stored, [], "wrong batches that were stored")
        checks.that(answers and set(answers) <= {200, 400, 429}, f"answers to the attacker: {answers}")
        checks.that(w.collector.process.poll() is None and w.collector.process.pid == pid, "the collector runs")
        print(f"{count} kinds of wrong batches, answers {answers}", flush=True)


if __name__ == "__main__":
    harness.main(test, __doc__)
