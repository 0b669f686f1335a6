"""Finding S12 and the listener for enrolment under load: requests with wrong tokens from many addresses, requests that are too long or no
request at all, and one certificate that renews again and again. An agent and a reader are served as before; a machine with a right
token gets its certificate meanwhile; and the CA has issued no certificate but that one.

usage: test_enrolment_floods.py --build DIR [--soak] [--keep]
"""
import json
import os
import subprocess
import threading

import world
import harness

ADDRESSES = 24
HONEST = "127.0.0.5"


def request_of(folder, name):
    """A key's request for a certificate."""
    out = folder / f"{name}.csr"
    subprocess.run(["openssl", "req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", folder / f"{name}.csr.key",
                    "-subj", f"/CN={name}", "-out", out], check=True, capture_output=True)
    return out.read_bytes()


def post(w, path, body, source, token=None, name=None):
    web = world.Web(w.enroll_port, source, world.tls(w.env.certs, name))
    try:
        web.request("POST", path, body, {"Authorization": f"Bearer {token}"} if token else {})
        answer = web.getresponse()
        answer.read()
        return answer.status
    finally:
        web.close()


def attack(w, stop, ready):
    """Threads that send each of these again and again; returns how often which status came."""
    csr, lock, answers = w.csr, threading.Lock(), {}

    def send(what):
        number = 0
        while not stop.is_set():
            number += 1
            source = f"127.0.5.{number % ADDRESSES + 1}"
            try:
                if what == "token":
                    status = post(w, "/v1/enroll", csr, source, f"ece_{os.urandom(4).hex()}_{os.urandom(32).hex()}")
                elif what == "form":
                    status = post(w, "/v1/enroll", (b"x" * 9000, os.urandom(3000), b"")[number % 3], source)
                else:
                    status = post(w, "/v1/renew", csr, "127.0.0.66", name="thief")
            except OSError:
                status = 0  # the connection was closed
            with lock:
                answers[what, status] = answers.get((what, status), 0) + 1
                if sum(answers.values()) > 30:
                    ready.set()

    threads = [threading.Thread(target=send, args=(what,)) for what in ("token", "form", "renewal")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test(env, checks, _):
    extra = ["--enroll", "127.0.0.1:0", "--ca-dir", env.certs]
    with world.World(env, checks, extra=extra, tokens=True) as w:
        w.csr = request_of(env.folder, "thief")
        before = json.loads(env.run([env.collector, "ca", "list", "--dir", env.certs, "--json"]).stdout)
        token = env.run([env.collector, "ca", "token", "--dir", env.certs, "--name", "honest"]).stdout.strip()
        answers = w.compare("enrolments and renewals of an attacker", attack) or {}
        checks.that({what for what, _ in answers} == {"token", "form", "renewal"}, f"answers: {answers}")
        checks.that(all(status in (0, 400, 401, 403, 413, 422, 429) for _, status in answers), f"answers to the attacker: {answers}")
        stop, ready, statuses = world.processes.Event(), world.processes.Event(), []
        attacker = world.processes.Process(target=attack, args=(w, stop, ready), daemon=True)
        attacker.start()
        ready.wait(60)
        begin = world.time.monotonic()
        statuses.append(post(w, "/v1/enroll", request_of(env.folder, "honest"), HONEST, token))
        took = world.time.monotonic() - begin
        stop.set()
        attacker.join(60)
        checks.equal(statuses, [200], "an enrolment with a right token meanwhile")
        checks.that(took < 5, f"an enrolment with a right token took {took:.1f} s")
        after = json.loads(env.run([env.collector, "ca", "list", "--dir", env.certs, "--json"]).stdout)
        checks.equal([row["name"] for row in after[len(before):]], ["honest"], "certificates that were issued meanwhile")
        print(f"{answers}; an enrolment with a right token took {took:.2f} s", flush=True)


if __name__ == "__main__":
    harness.main(test, __doc__)
