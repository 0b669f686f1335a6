"""How agents get their certificates: a token of the CA, a key made on the machine, a name that the token allows; wrong,
expired, used-up and revoked tokens; hostile requests; an answer that got lost; renewal, once a certificate; the process that
signs; the revocation list; names in another case; and the agent that does all of it itself while it ships.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Connections and identities 6: A machine gets its certificate with a token, and renews it automatically. | renewals while it ships, with
#   the collector away for a while | 2026-11-23
# - Connections and identities 7: A wrong, expired, used-up or revoked token, a name that the token does not allow, and a malformed request
#   are refused. | each case | 2026-11-23
# - Connections and identities 8: A lost answer, or a collector that is killed at any step, costs neither a use of the token nor the name. |
#   each step | 2026-11-23
# - Connections and identities 9: A second renewal of one certificate is refused. | one incident | 2026-11-23
# - Connections and identities 10: The CA's key is never in the collector's memory. The signer process may be killed at any time. | memory
#   searched; signer killed and restarted | 2026-11-23
import glob
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import time

import harness
import injected
import traces


class World:
    """A collector with --enroll, and what it takes to ask it."""

    def __init__(self, env):
        self.env = env
        env.make_certificates(("elder", "Mixed-1"))
        (env.certs / "ca.crl").unlink()  # the collector writes this list and uses it, although --crl is not given
        self.collector = env.new_collector(extra=["--enroll", "127.0.0.1:0", "--ca-dir", env.certs, "--web", "127.0.0.1:0",
                                                  "--silent-after", "8s"])
        self.collector.crl = None
        self.collector.start()

    @property
    def url(self):
        return self.collector.enroll_url

    @property
    def port(self):
        return int(self.url.split(":")[-1])

    def ca(self, *words, check=True):
        return self.env.run([self.env.collector, "ca", words[0], "--dir", self.env.certs, *words[1:]], check=check)

    def token(self, name, *words):
        return self.ca("token", "--name", name, *words).stdout.strip()

    def tokens(self):
        return {t["id"]: t for t in json.loads(self.ca("tokens", "--json").stdout)["tokens"]}

    def issued(self, name):
        return [row for row in json.loads(self.ca("list", "--json").stdout) if row["name"] == name]

    def enroll(self, label, token, *words, check=False):
        cert, key = self.env.folder / f"{label}.crt", self.env.folder / f"{label}.key"
        how = ("--token", token) if token else ("--renew",)
        return self.env.run([self.env.agent, "enroll", "--collector", self.url, "--ca", self.env.certs / "ca.crt", *how,
                             "--cert", cert, "--key", key, *words], check=check)

    def connect(self, cert=None, key=None):
        context = ssl.create_default_context(cafile=str(self.env.certs / "ca.crt"))
        if cert:
            context.load_cert_chain(cert, key)
        return http.client.HTTPSConnection("localhost", self.port, context=context, timeout=30)

    def post(self, path, body, token=None, method="POST", **who):
        connection = self.connect(**who)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def csr(self, name, *algorithm):
        key, out = self.env.folder / "asked.key", self.env.folder / "asked.csr"
        subprocess.run(["openssl", "req", "-new", "-nodes", "-newkey", *(algorithm or ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")),
                        "-keyout", key, "-subj", f"/CN={name}", "-out", out], check=True, capture_output=True)
        return out.read_bytes()

    def metric(self, name):
        port = re.findall(r"dashboard on http://127\.0\.0\.1:(\d+)/", (self.env.folder / "collector.log").read_text())[-1]
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return float(re.search(rf"^etwcollector_{re.escape(name)} (\S+)$", text, re.M).group(1))

    def signer(self):
        """The id of the process that signs, or None when no such process runs."""
        broker = child_of(self.collector.process.pid, b"file-broker")
        return broker and child_of(broker, b"certificate-signer")

    def wait_log(self, text, seconds=60):
        harness.wait_until(lambda: text in self.collector.log(), f"'{text}' in the log", seconds, self.collector.log)

    def subject(self, label):
        return self.env.run(["openssl", "x509", "-in", self.env.folder / f"{label}.crt", "-noout", "-subject"]).stdout.split("CN")[1].strip(" =\n")

    def audit(self):
        return [json.loads(line) for line in (self.collector.store / "audit.jsonl").read_text().splitlines()]


def happy(checks, world):
    env, token = world.env, world.token("machine-1")
    done = world.enroll("one", token, check=True)
    checks.that("this machine is machine-1" in done.stdout, f"what enroll says: {done.stdout}")
    checks.equal(world.subject("one"), "machine-1", "the name is the token's")
    checks.equal(os.stat(env.folder / "one.key").st_mode & 0o777, 0o600, "the key's mode")
    checks.that(not list(env.folder.glob("one.*.new")), "files of the attempt are left")
    env.run(["openssl", "verify", "-CAfile", env.certs / "ca.crt", "-purpose", "sslclient", env.folder / "one.crt"])
    purpose = env.run(["openssl", "verify", "-CAfile", env.certs / "ca.crt", "-purpose", "sslserver", env.folder / "one.crt"], check=False)
    checks.that(purpose.returncode != 0, "an agent's certificate is good for a server")
    row = world.issued("machine-1")
    checks.that(len(row) == 1 and row[0]["role"] == "agent", f"what the CA has noted: {row}")
    kept = (env.certs / "enroll-tokens").read_text()
    checks.that(token.split("_")[2] not in kept and os.stat(env.certs / "enroll-tokens").st_mode & 0o077 == 0, "the CA keeps the token itself")
    checks.equal(world.tokens()[token.split("_")[1]]["uses_left"], 0, "uses that are left")
    said = [a for a in world.audit() if a.get("status") == 200]
    checks.that(len(said) == 1 and said[0]["token"] == token.split("_")[1] and "machine-1" in said[0]["note"] and row[0]["serial"] in said[0]["note"],
                f"the audit log: {said}")
    checks.that(token.split("_")[2] not in (world.collector.store / "audit.jsonl").read_text() + world.collector.log(), "the token is in a log")
    return token


def refusals(checks, world, used):
    fixed, some = world.token("fixed-name"), world.token("shop-*,till-*,bar", "--uses", "3")
    revoked, expired = world.token("gone"), world.token("late", "--expires", "1s")  # in this order: adding one drops those that expired
    world.ca("revoke-token", revoked.split("_")[1])
    checks.equal(world.ca("revoke-token", "00000000", check=False).returncode, 1, "exit code for a token that is not there")
    time.sleep(1.1)
    cases = ((used, (), "used up"), (expired, (), "has expired"), (revoked, (), "wrong, or was revoked"), (fixed[:-1] + ("0" if fixed[-1] != "0" else "1"), (), "wrong"),
             ("nonsense", (), "wrong"), (some, ("--name", "bank-1"), "not for bank-1"), (some, ("--name", "elder"), "not for elder"))
    for number, (token, words, said) in enumerate(cases):
        world.ca("revoke", "machine-1", check=False)  # so that the name is no reason
        done = world.enroll(f"refused{number}", token, *words)
        checks.that(done.returncode != 0 and said in done.stderr, f"case {number}, expected '{said}': {done.returncode} {done.stderr}")
        checks.that(not (world.env.folder / f"refused{number}.crt").exists(), f"case {number}: there is a certificate")
    checks.equal(world.enroll("shop", some, "--name", "shop-7").returncode, 0, "a name that the pattern allows")
    checks.equal(world.subject("shop"), "shop-7", "the name that was asked for")
    done = world.enroll("twin", some, "--name", "shop-7")
    checks.that(done.returncode != 0 and "valid already" in done.stderr, f"a second machine of one name: {done.stderr}")
    taken = world.token("elder")
    done = world.enroll("twin", taken)
    checks.that(done.returncode != 0 and "valid already" in done.stderr, f"the name of a machine with an issued certificate: {done.stderr}")
    world.ca("revoke", "elder")
    checks.equal(world.enroll("twin", taken).returncode, 0, "the name of a revoked certificate")
    done = world.enroll("asked", fixed, "--name", "another-name")
    checks.that(done.returncode == 0 and world.subject("asked") == "fixed-name", f"a request cannot choose: {done.stderr}")
    checks.equal(world.tokens()[some.split("_")[1]]["uses_left"], 2, "refused requests take uses")
    for words in (["--name", "a b"], ["--name", "x", "--uses", "0"], ["--name", "x" * 300], []):
        checks.equal(world.ca("token", *words, check=False).returncode, 2, f"exit code of ca token {words}")


def wrong_ports(checks, world):
    """The error has host, port and reason: of a port without a listener, and of the port for uploads, which closes a handshake without a certificate."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

        def ask(port):
            return world.env.run([world.env.agent, "enroll", "--collector", f"https://localhost:{port}", "--ca", world.env.certs / "ca.crt", "--token", "x" * 40,
                                  "--cert", world.env.folder / "wrong.crt", "--key", world.env.folder / "wrong.key"], check=False)

        done = ask(port)
        checks.that(done.returncode == 1 and f"Failed to connect to localhost port {port}: Connection refused" in done.stderr,
                    f"enrolment with a port without a listener: {done.stderr}")
    for _ in range(20):  # what libcurl notices first depends on the moment
        said = ask(world.collector.port).stderr
        reason = f"localhost port {world.collector.port} closed the connection " if "closed" in said else "certificate required"
        if not checks.that(reason in said and "getpeername" not in said, f"enrolment with the port for uploads: {said}"):
            break


def hostile(checks, world):
    token = world.token("*", "--uses", "9")
    good = world.csr("honest")
    rsa = world.csr("big", "rsa:2048")
    forged = bytearray(good)
    forged[len(forged) // 2] ^= 1
    bodies = {"empty": b"", "noise": os.urandom(3000), "no request": (world.env.certs / "ca.crt").read_bytes(), "cut": good[:len(good) // 2],
              "forged": bytes(forged), "RSA": rsa, "no name": world.csr(" "), "a path": world.csr("..\\/..\\/x"),
              "NUL": good.replace(b"honest", b"hon\0st"), "many lines": b"-----BEGIN CERTIFICATE REQUEST-----\n" * 200}
    for what, body in bodies.items():
        status, said = world.post("/v1/enroll", body, token)
        checks.that(status == 400 if what != "NUL" else status in (200, 400), f"{what}: {status} {said[:200]}")
        checks.that(status != 400 or json.loads(said)["status"] == 400, f"{what}: no problem+json: {said[:200]}")
    world.enroll("ok", None)  # no certificate yet: refused by the agent itself
    checks.equal(world.post("/v1/enroll", b"x" * 9000, token)[0], 413, "a request that is too long")
    checks.equal(world.post("/v1/enroll", good)[0], 401, "no token")
    checks.equal(world.post("/v1/renew", good)[0], 401, "a renewal without a certificate")
    checks.equal(world.post("/v1/batches", good, token)[0], 404, "another path")
    checks.equal(world.post("/v1/enroll", None, token, "GET")[0], 405, "another method")
    left = [t for t in world.tokens().values() if t["names"] == "*"][0]["uses_left"]
    checks.that(left >= 8, f"hostile requests take uses: {left} of 9 are left")
    with socket.create_connection(("127.0.0.1", world.port)) as plain:
        plain.sendall(b"POST /v1/enroll HTTP/1.1\r\n\r\n")
        plain.settimeout(20)
        checks.that(b"200" not in plain.recv(100), "an answer without TLS")
    old = ssl.create_default_context(cafile=str(world.env.certs / "ca.crt"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        http.client.HTTPSConnection("localhost", world.port, context=old, timeout=20).request("GET", "/")
        checks.that(False, "TLS 1.2 is taken")
    except ssl.SSLError:
        checks.that(True, "")
    counters = world.env.run([world.env.collector, "ca", "list", "--dir", world.env.certs]).returncode
    checks.equal(counters, 0, "the CA's list after hostile requests")


def lost_answers(checks, world):
    """An answer that did not arrive, and a collector killed at any step, cost neither a use nor the name."""
    env, token = world.env, world.token("lost")
    csr = world.csr("lost")
    connection = world.connect()
    connection.request("POST", "/v1/enroll", csr, {"Authorization": f"Bearer {token}"})
    harness.wait_until(lambda: world.issued("lost"), "the certificate to be noted", 120)
    connection.close()  # the answer is not read
    world.collector.kill()
    world.collector.start()
    status, first = world.post("/v1/enroll", csr, token)
    checks.equal(status, 200, f"the same request again: {first[:200]}")
    checks.equal(world.post("/v1/enroll", csr, token), (200, first), "and again")
    checks.equal(len(world.issued("lost")), 1, "certificates of it")
    checks.equal(world.post("/v1/enroll", world.csr("lost"), token)[0], 409, "another key for the name")
    # killed between the use that was taken and the certificate: the files as they are then
    token = world.token("torn")
    files = {name: (env.certs / name).read_bytes() for name in ("issued.tsv",)}
    csr = world.csr("torn")
    checks.equal(world.post("/v1/enroll", csr, token)[0], 200, "before it is torn")
    world.collector.kill()
    for name, data in files.items():
        (env.certs / name).write_bytes(data)
    (env.certs / "enrolled" / "torn.crt").unlink()
    world.collector.start()
    checks.equal(world.tokens()[token.split("_")[1]]["uses_left"], 0, "the use is taken")
    status, second = world.post("/v1/enroll", csr, token)
    checks.that(status == 200 and len(world.issued("torn")) == 1, f"the same key after a crash: {status} {second[:200]}")
    checks.equal(world.post("/v1/enroll", world.csr("torn"), token)[0], 409, "another key after a crash")


def renewal(checks, world):
    env = world.env
    world.enroll("lasting", world.token("lasting", "--life", "1d"), check=True)
    done = world.enroll("lasting", None)
    checks.that(done.returncode != 0 and "half" in done.stderr, f"a renewal in the first half: {done.stderr}")
    world.enroll("brief", world.token("brief", "--life", "20s"), check=True)
    for kind in ("crt", "key"):
        shutil.copy(env.folder / f"brief.{kind}", env.folder / f"copied.{kind}")
    before = [(env.folder / f"brief.{kind}").read_bytes() for kind in ("crt", "key")]
    # once half of it is over; ten seconds are left for it then
    harness.wait_until(lambda: "half" not in world.enroll("brief", None).stderr, "a renewal that is not too early", 20)
    after = [(env.folder / f"brief.{kind}").read_bytes() for kind in ("crt", "key")]
    checks.that(before[0] != after[0] and before[1] != after[1], "a renewal has another key and certificate")
    checks.equal(world.subject("brief"), "brief", "the name after a renewal")
    rows = world.issued("brief")
    checks.that(len(rows) == 2 and rows[1]["not_after"] > rows[0]["not_after"], f"certificates of it: {rows}")
    renewed_once(checks, world)
    world.ca("revoke", "brief")
    time.sleep(0.1)
    done = world.enroll("brief", None)
    checks.that(done.returncode != 0, "a revoked certificate is renewed")


def renewed_once(checks, world):
    """The owner has renewed. A client with a copy of the older certificate and its key cannot renew, and its attempt is an incident."""
    env = world.env
    copy = {"cert": env.folder / "copied.crt", "key": env.folder / "copied.key"}
    status, said = world.post("/v1/renew", world.csr("brief"), **copy)
    checks.that(status == 409 and b"renewed before, with another key" in said, f"a second renewal of one certificate: {status} {said}")
    world.wait_log("incident: brief: the certificate")
    done = env.run([env.collector, "doctor", "--store", world.collector.store], check=False)
    checks.that(done.returncode == 4 and "brief: since" in done.stdout, f"what the doctor says: {done.returncode} {done.stdout}")
    checks.equal(world.metric("enroll_renewed_twice_total"), 1, "the counter of second renewals")
    renewals_of_a_name(checks, world)


def half_over(world, name, label):
    """A certificate of the CA for an agent, of which two thirds of 30 days are over; the words for World.post."""
    folder = world.env.folder / "half-over"
    folder.mkdir(exist_ok=True)
    key, request, cert = (folder / f"{label}.{kind}" for kind in ("key", "csr", "crt"))
    (folder / "index.txt").write_text("")
    (folder / "ca.cnf").write_text(f"""[ca]
default_ca = a
[a]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = p
x509_extensions = e
[p]
commonName = supplied
[e]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
""")
    subprocess.run(["openssl", "req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", key, "-subj", f"/CN={name}",
                    "-out", request], check=True, capture_output=True)
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400)) for days in (-20, 10))
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", folder / "ca.cnf", "-cert", world.env.certs / "ca.crt", "-keyfile",
                    world.env.certs / "ca.key", "-startdate", begin, "-enddate", end, "-in", request, "-out", cert], check=True, capture_output=True)
    return {"cert": cert, "key": key}


def renewals_of_a_name(checks, world):
    """Four renewals of a name in a day, then 429. A copy of an older certificate does not use them up: its requests make no certificate."""
    first = half_over(world, "lively", "first")
    checks.equal(world.post("/v1/renew", world.csr("lively"), **first)[0], 200, "the owner's first renewal")
    for _ in range(8):
        checks.equal(world.post("/v1/renew", world.csr("lively"), **first)[0], 409, "a renewal with a copy of the older certificate")
    answers = [world.post("/v1/renew", world.csr("lively"), **half_over(world, "lively", f"next{i}")) for i in range(4)]
    checks.equal([status for status, _ in answers], [200, 200, 200, 429], "the owner's further renewals of that day")
    checks.that(b"agent lively is above its quota of renewals: 4 renewals in 86400 s are allowed" in answers[-1][1], f"the refusal: {answers[-1]}")
    checks.equal(world.metric("quota_refused_renewals_total"), 1, "refused renewals are counted")
    checks.equal(len(world.issued("lively")), 4, "certificates that were issued")
    checks.equal(world.post("/v1/renew", world.csr("placid"), **half_over(world, "placid", "placid"))[0], 200, "a renewal of another name")


KEY_WORDS = re.compile(rb"priv:((?:\s+[0-9a-f:]+\n)+)")


def child_of(parent, name):
    for path in glob.glob(f"/proc/{parent}/task/*/children"):
        for pid in open(path).read().split():
            if name in open(f"/proc/{pid}/cmdline", "rb").read():
                return int(pid)
    return None


def memory_has(pid, wanted):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights = line.split()[:2]
            begin, end = (int(x, 16) for x in where.split("-"))
            if "w" not in rights or end - begin > 1 << 28:
                continue
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except OSError:
                continue
            if any(w in data for w in wanted):
                return True
    return False


def separation(checks, world):
    """The CA's key is in the memory of the process that signs and nowhere else. Without that process nothing is signed, and it
    comes back."""
    env = world.env
    text = subprocess.run(["openssl", "pkey", "-in", env.certs / "ca.key", "-text", "-noout"], check=True, capture_output=True).stdout
    number = bytes.fromhex(re.sub(rb"[\s:]", b"", KEY_WORDS.search(text).group(1)).decode())[-32:]
    wanted = [number, number[::-1], (env.certs / "ca.key").read_bytes().splitlines()[1]]
    signer = world.signer()
    checks.that(memory_has(signer, wanted), "the signer's memory has no key: this test finds none anywhere")
    checks.that(not memory_has(world.collector.process.pid, wanted), "the CA's key is in the collector's memory")
    said = open(f"/proc/{signer}/status").read()
    checks.that("NoNewPrivs:\t1" in said, f"the signer may gain privileges:\n{said}")
    checks.equal(os.stat(f"/proc/{signer}/mem").st_uid, 0, "owner of the signer's memory (it is not dumpable)")
    token, csr, status, before = world.token("phoenix"), world.csr("phoenix"), 0, world.metric("signer_ended_total")
    ended = 0
    while status != 503 and ended < 5:
        os.kill(world.signer(), signal.SIGKILL)
        ended += 1
        connection = world.connect()
        connection.request("POST", "/v1/enroll", csr, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        status, waits = answer.status, answer.headers["Retry-After"]
        answer.read()
        connection.close()
        harness.wait_until(world.signer, "the signer to be started again", 60)
    checks.equal((status, waits), (503, "5"), "an enrolment without a signer")
    harness.wait_until(lambda: world.post("/v1/enroll", csr, token)[0] == 200, "an enrolment by the next signer", 60)
    checks.equal(world.metric("signer_ended_total") - before, ended, "the counter of signers that ended")
    checks.that("the process that signs certificates ended: " in world.collector.log(), f"the log:\n{world.collector.log()}")


def upload_status(world, name):
    try:
        context = ssl.create_default_context(cafile=str(world.env.certs / "ca.crt"))
        context.load_cert_chain(world.env.certs / f"{name}.crt", world.env.certs / f"{name}.key")
        connection = http.client.HTTPSConnection("localhost", world.collector.port, context=context, timeout=30)
        connection.request("GET", "/")
        return connection.getresponse().status
    except ssl.SSLError as error:
        return str(error)


def confined(checks, world):
    """Code in the collector's main process cannot open the CA's folder, nor reach into the processes beside it: the test makes the process
    do those system calls. What it needs still works."""
    env, main = world.env, world.collector.process.pid
    is_active = world.metric('sandbox_active{part="landlock_files"}') == 1
    checks.equal(world.metric("ca_key_in_reach"), 0 if is_active else 1, "the gauge of a CA's key in reach")
    checks.that(0 <= world.metric("crl_age_seconds") < 3600, f"the age of the revocation list: {world.metric('crl_age_seconds')}")
    checks.that(world.metric("crl_left_seconds") > 0, f"its time left: {world.metric('crl_left_seconds')}")
    if not is_active or not injected.AVAILABLE:
        print("NOT TESTED: system calls of the confined process (no Landlock in this build or kernel, or another processor)")
        return
    for task in pathlib.Path(f"/proc/{main}/task").iterdir():
        status = (task / "status").read_text()
        checks.that("Seccomp:\t2" in status and "NoNewPrivs:\t1" in status, f"thread {task.name} of the collector is not confined")
    broker = child_of(main, b"file-broker")
    signer = child_of(broker, b"certificate-signer")
    tokens, token = env.certs / "enroll-tokens", world.token("confined")
    checks.that(tokens.exists() and (env.certs / "ca.key").exists(), "there is a key and a file of tokens")
    wanted = {}
    with injected.Process(main) as process:
        for path in (env.certs / "ca.key", tokens, env.certs, env.certs / "ca.crl", env.certs / "server.key", f"/proc/{signer}/mem",
                     f"/proc/{broker}/mem", "/etc/passwd", world.env.folder):
            wanted[f"open {path}"] = (process.error("open", os.fsencode(path), os.O_RDONLY | os.O_CLOEXEC), "EACCES")
        wanted["make a file beside the key"] = (process.error("open", os.fsencode(env.certs / "new"), os.O_WRONLY | os.O_CREAT, 0o600), "EACCES")
        wanted["open the store"] = (process.error("open", os.fsencode(world.collector.store), os.O_RDONLY), "")
        for name, pid in (("signer", signer), ("broker", broker), ("test", os.getpid())):
            wanted[f"trace the {name}"] = (process.error("ptrace", injected.PTRACE_ATTACH, pid), "EPERM")
            wanted[f"signal the {name}"] = (process.error("kill", pid, 0), "EPERM")
            wanted[f"read the memory of the {name}"] = (process.error("process_vm_readv", pid, 0, 0, 0, 0, 0), "EPERM")
        wanted["mount"] = (process.error("mount", b"/", b"/mnt", b"none", 4096), "EPERM")
        wanted["signal itself"] = (process.error("kill", main, 0), "")
    for what, (got, expected) in wanted.items():
        checks.equal(got, expected, f"the confined collector: {what}")
    checks.equal(world.post("/v1/enroll", world.csr("confined"), token)[0], 200, "an enrolment afterwards")
    secret = token.split("_")[2].encode()
    with_token = [path for folder in (env.certs, world.collector.store) for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]
    checks.equal((len(secret), with_token), (64, []), "files with the text of an enrolment token of 256 bits")


def ca_in_the_store(checks, world):
    """A CA's folder in the store cannot be isolated from the collector: the log and a gauge report it."""
    env = world.env
    beside = env.new_collector("store-with-ca")
    beside.extra = ["--enroll", "127.0.0.1:0", "--ca-dir", beside.store / "ca", "--web", "127.0.0.1:0"]
    shutil.copytree(env.certs, beside.store / "ca")
    beside.start()
    asking = http.client.HTTPConnection("127.0.0.1", re.search(r"dashboard on http://127.0.0.1:(\d+)/", beside.log()).group(1))
    asking.request("GET", "/metrics")
    checks.that(b"\netwcollector_ca_key_in_reach 1\n" in asking.getresponse().read(), "the gauge of a CA in the store")
    log = beside.log()
    reason = "since it is in the store's folder: move it out of" if world.metric('sandbox_active{part="landlock_files"}') == 1 else "this build"
    checks.that("can open the CA's key in " in log and reason in log, f"the log: {log}")
    beside.stop()


def without_broker(checks, world):
    """A collector whose broker has ended stops, and says why: its service starts it again."""
    beside = world.env.new_collector("no-broker").start()
    time.sleep(1)  # the broker has written the port's file, and now answers that it did
    os.kill(child_of(beside.process.pid, b"file-broker"), signal.SIGKILL)
    checks.equal(beside.process.wait(timeout=60), 1, "the exit code of a collector without its broker")
    checks.that("the process file-broker, which opens files for this one, has ended" in beside.log(), f"the log: {beside.log()}")


def default_list(checks, world):
    """Without --crl the list of --ca-dir is made and looked at; one that should have been replaced is an incident."""
    env = world.env
    checks.that((env.certs / "ca.crl").exists(), "no list was made")
    checks.equal(upload_status(world, "Mixed-1"), 404, "a certificate that is valid")
    checks.that(upload_status(world, "elder") != 404, "a revoked certificate is accepted")
    world.wait_log("/CN=elder: certificate revoked")
    kept = (env.certs / "ca.crl").read_bytes()
    folder = env.folder / "list"
    folder.mkdir()
    (folder / "index").write_text("")
    (folder / "number").write_text("01")
    (folder / "cnf").write_text(f"[ca]\ndefault_ca = a\n[a]\ndatabase = {folder}/index\ncrlnumber = {folder}/number\ndefault_md = sha256\n")
    subprocess.run(["openssl", "ca", "-gencrl", "-config", folder / "cnf", "-keyfile", env.certs / "ca.key", "-cert", env.certs / "ca.crt",
                    "-crlsec", "1", "-out", folder / "crl"], check=True, capture_output=True)
    time.sleep(1.1)
    os.replace(folder / "crl", env.certs / "ca.crl")
    world.collector.stop()
    world.collector.start()
    world.wait_log("incident: (collector): the revocation list was to be replaced")
    (env.certs / "ca.crl").write_bytes(kept)
    checks.that(upload_status(world, "elder") != 404, "a revoked certificate is accepted after its list was replaced")
    plain = env.new_collector("without")
    plain.crl = None
    plain.start()
    checks.that("--crl is not given: revoked certificates are accepted" in plain.log(), f"a collector without a list:\n{plain.log()}")
    plain.stop()


def names_in_another_case(checks, world):
    """An agent is known in lower case; a store that has it under another spelling goes on with that."""
    env, collector = world.env, world.collector
    trace = traces.paths("amsi-eventslost", env.build)
    env.replay(trace, collector, agent="Mixed-1", spool=env.folder / "mixed")
    names = lambda: sorted({s["host"] for s in collector.ask_json("hosts")["streams"] if s["host"].lower() == "mixed-1"})
    checks.equal(names(), ["mixed-1"], "the agent's name")
    collector.stop()
    db = sqlite3.connect(collector.store / "index.db")
    db.execute("UPDATE streams SET agent = 'MIXED-1' WHERE agent = 'mixed-1'")
    db.commit()
    db.close()
    collector.start()
    env.replay(trace, collector, agent="Mixed-1", spool=env.folder / "mixed-again")
    checks.equal(names(), ["MIXED-1"], "the agent's name in a store that has another spelling")
    checks.equal(len([s for s in collector.ask_json("hosts")["streams"] if s["host"] == "MIXED-1"]), 1, "its stream, which goes on")


class Service:
    """An agent that sees to its certificate itself."""

    def __init__(self, world, label, *shipping):
        self.world, self.env = world, world.env
        self.folder = world.env.folder / label
        self.folder.mkdir()
        self.config, self.status_file, self.token_file = (self.folder / name for name in ("etwagent.yaml", "status.json", "token"))
        self.process = None
        trace = traces.paths("amsi-eventslost", world.env.build)
        self.config.write_text("\n".join([
            "service:", f"  status: {self.status_file}", "  status-every: 200ms", "shipping:", f"  collector: {world.collector.url}",
            f"  cert: {self.folder}/agent.crt", f"  key: {self.folder}/agent.key", f"  ca: {world.env.certs}/ca.crt", f"  spool: {self.folder}/spool",
            f"  enroll: {world.url}", f"  token-file: {self.token_file}", "  retry-max: 500ms", *(f"  {line}" for line in shipping),
            "sources:", "  - name: one", "    files:", *(f"      - {path}" for path in trace)]) + "\n")

    def start(self):
        self.process = subprocess.Popen([str(self.env.agent), "run", "--config", str(self.config)], stdin=subprocess.DEVNULL,
                                        stderr=open(self.folder / "said", "ab"))
        return self

    def said(self):
        return (self.folder / "said").read_text()

    def status(self):
        try:
            return json.loads(self.status_file.read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def enrolment(self):
        return self.status().get("enrolment", {})

    def wait(self, condition, what, seconds=120):
        harness.wait_until(condition, what, seconds, lambda: f"; it says:\n{self.said()}\n{self.status()}")

    def wait_shipped(self):
        self.wait(lambda: any(s["state"] == "shipped" for s in self.status().get("sources", [])), "the trace to be shipped")

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.process = None
        return code


def service(checks, world):
    """It starts with nothing: no collector, no token; then it ships under the name that the token gives."""
    env, collector = world.env, world.collector
    agent = Service(world, "service")
    port = world.port
    collector.extra[1] = f"127.0.0.1:{port}"
    collector.kill()
    agent.start()
    agent.wait(lambda: "no token" in agent.enrolment().get("error", ""), "word of the missing token")
    said = env.run([env.agent, "status", "--file", agent.status_file]).stdout
    checks.that("waits for enrolment" in said and "no token" in said, f"status of one that waits:\n{said}")
    collector.start()
    token = world.token("service-machine")
    collector.kill()
    agent.token_file.write_text(token + "\n")
    agent.wait(lambda: "onnect" in agent.enrolment().get("error", ""), "word of the missing collector")
    time.sleep(4)
    checks.that(agent.said().count("Failed to connect") == 1 and agent.said().count("no token") == 1, f"the error is logged again and again:\n{agent.said()}")
    collector.start()
    agent.wait_shipped()
    checks.equal(agent.enrolment()["state"], "enrolled", "state of the enrolment")
    checks.that(not agent.token_file.exists() and not list(agent.folder.glob("*.new")), "the token or files of the attempt are left")
    checks.equal(os.stat(agent.folder / "agent.key").st_mode & 0o777, 0o600, "the key's mode")
    said = env.run([env.agent, "status", "--file", agent.status_file]).stdout
    checks.that("enrolled, until 20" in said, f"status of one that is enrolled:\n{said}")
    metrics = env.run([env.agent, "status", "--metrics", "--file", agent.status_file]).stdout
    checks.that(re.search(r"^etwagent_certificate_end_timestamp_seconds \d{10}$", metrics, re.M), "the end of the certificate as a metric")
    hosts = [s["host"] for s in collector.ask_json("hosts")["streams"]]
    checks.that("service-machine" in hosts, f"the name that the data is under: {hosts}")
    agent.token_file.write_text(world.token("service-machine"))
    agent.wait(lambda: not agent.token_file.exists(), "a token that is not needed to go")
    checks.that("is not needed" in agent.said() and agent.enrolment()["state"] == "enrolled", f"a token that is not needed:\n{agent.said()}")
    checks.equal(agent.stop(), 0, "exit code")
    checks.that(token.split("_")[2] not in agent.said(), "the token is in what the agent says")


def service_renews(checks, world):
    """Short-lived certificates, one after the other, while a collector that is away for a while costs nothing; a crash
    between two files is mended."""
    env, collector = world.env, world.collector
    agent = Service(world, "renews", "enroll-name: renewed")
    agent.token_file.write_text(world.token("ren*", "--life", "24s"))
    agent.start()
    agent.wait_shipped()
    first = (agent.folder / "agent.crt").read_bytes()
    collector.kill()
    agent.wait(lambda: agent.enrolment().get("error"), "word of a renewal that fails")
    checks.equal(agent.enrolment()["state"], "enrolled", "state while a renewal fails")
    checks.equal((agent.folder / "agent.crt").read_bytes(), first, "the certificate while a renewal fails")
    collector.start()
    agent.wait(lambda: (agent.folder / "agent.crt").read_bytes() != first, "the renewal after that")
    agent.wait(lambda: not agent.enrolment().get("error"), "the error to be over")
    checks.that({row["name"] for row in world.issued("renewed")} == {"renewed"}, "the name after renewals")
    agent.stop(signal.SIGKILL)
    files = {name: (agent.folder / name).read_bytes() for name in ("agent.crt", "agent.key")}
    (agent.folder / "agent.crt.new").write_bytes(files["agent.crt"])  # as if killed between two renames
    (agent.folder / "agent.crt").write_bytes(first)
    agent.start()
    agent.wait(lambda: (agent.folder / "agent.crt").read_bytes() != first, "the two files to belong together")
    agent.wait_shipped()
    checks.equal(agent.stop(), 0, "exit code")
    runs = {s["stream"] for s in collector.ask_json("hosts")["streams"] if s["host"] == "renewed"}
    checks.equal(len(runs), 1, "streams of one trace under several certificates of one name")


def limits(checks, world):
    """Wrong tokens of an address are refused for a minute, right ones and renewals of the same address are not. Last: wrong ones
    have to wait for a minute after it."""
    token, lasting = world.token("after-the-storm"), {"cert": world.env.folder / "lasting.crt", "key": world.env.folder / "lasting.key"}
    wrong = f"ece_{token.split('_')[1]}_{'0' * 64}"  # its id with another secret
    answers = [world.post("/v1/enroll", b"x", f"ece_{n:08x}_{'0' * 64}") for n in range(12)] + [world.post("/v1/enroll", b"x", wrong) for _ in range(3)]
    statuses = [status for status, _ in answers]
    checks.that(statuses[0] == 403 and set(statuses[10:]) == {429} and statuses.count(403) <= 10, f"wrong tokens: {statuses}")
    closed = "too many wrong tokens from this address: wait a minute"
    checks.equal(json.loads(answers[-1][1])["detail"], closed, "what the last wrong token is answered")
    for n in range(12):
        status, said = world.post("/v1/renew", world.csr("lasting") if n == 0 else b"x", **lasting)
        checks.that(status != 429 and b"too many" not in said, f"renewal {n} with a valid certificate from that address: {status} {said}")
    status, said = world.post("/v1/renew", world.csr("lasting"), **lasting)
    checks.that(status != 429 and b"half" in said, f"a renewal that is too early, after others: {status} {said}")
    status, said = world.post("/v1/enroll", world.csr("x"), token)
    checks.equal(status, 200, f"a right token from that address: {said[:200]}")
    status, said = world.post("/v1/enroll", b"x", wrong)
    checks.equal((status, json.loads(said)["detail"]), (429, closed), "a wrong token after a right one")


def test(env, checks, arguments):
    world = World(env)
    used = happy(checks, world)
    refusals(checks, world, used)
    wrong_ports(checks, world)
    hostile(checks, world)
    renewal(checks, world)
    separation(checks, world)
    confined(checks, world)
    ca_in_the_store(checks, world)
    without_broker(checks, world)
    default_list(checks, world)
    names_in_another_case(checks, world)
    lost_answers(checks, world)
    service(checks, world)
    service_renews(checks, world)
    limits(checks, world)
    world.collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
