"""A CA below a root that stays offline: its request, the root's signature, what is refused on the way, and a collector and an
agent that know the root alone. And CAs whose key is elsewhere: in a file that a URI names, and in a TPM (swtpm) and a PKCS#11 token (SoftHSM),
where OpenSSL's providers for them are installed.

# sanitizers: asan-ubsan
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Connections and identities 11: A CA below an offline root works with a key in a file or in a TPM. | a software TPM; collector and agents
#   know only the root | 2026-11-23
import os
import pathlib
import shutil
import socket
import subprocess
import time

import harness
import injected
import test_enroll
import traces


class Cas:
    def __init__(self, env):
        self.env, self.root = env, env.folder / "root"

    def ca(self, command, folder, *words, check=True):
        return self.env.run([self.env.collector, "ca", command, "--dir", folder, *words], check=check)

    def verify(self, cert, root=None, chain=None):
        return self.env.run(["openssl", "verify", "-x509_strict", "-CAfile", root or self.root / "ca.crt", "-untrusted", chain or cert, cert],
                            check=False)

    def text(self, cert, *words):
        return self.env.run(["openssl", "x509", "-in", cert, "-noout", *words]).stdout


def refused(checks, done, sentence):
    checks.that(done.returncode != 0 and sentence in done.stderr, f"expected '{sentence}': {done.returncode} {done.stderr}")


def make(checks, c):
    env, certs = c.env, c.env.certs
    made = env.folder / "issuing.crt"
    c.ca("init", c.root, "--root", "--name", "the root")
    c.ca("init", certs, "--csr", "--name", "the issuing CA")
    checks.that(not (certs / "ca.crt").exists() and os.stat(certs / "ca.key").st_mode & 0o777 == 0o600, "what ca init --csr leaves")
    refused(checks, c.ca("issue", certs, "--name", "early", check=False), "ca.crt is missing")
    refused(checks, c.ca("init", certs, "--csr", check=False), "there is one already")
    refused(checks, c.ca("init", env.folder / "both", "--csr", "--root", check=False), "one of them")
    c.ca("sign", c.root, "--csr", certs / "ca.csr", "--out", made, "--days", "400")
    # others of a root, of another key, an agent's, and one without its root
    other, alone = env.folder / "other", env.folder / "alone.crt"
    c.ca("init", other, "--csr")
    refused(checks, c.ca("import", other, made, check=False), "not of this folder's key")
    alone.write_text(made.read_text().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")
    refused(checks, c.ca("import", certs, alone, check=False), "the root's certificate is missing")
    c.ca("init", env.folder / "foreign", "--root")
    refused(checks, c.ca("import", certs, alone, "--under", env.folder / "foreign" / "ca.crt", check=False), "not one of the root")
    c.ca("import", certs, alone, "--under", c.root / "ca.crt")
    shown = c.text(certs / "ca.crt", "-ext", "basicConstraints,keyUsage")
    checks.that("CA:TRUE, pathlen:0" in shown and "Certificate Sign, CRL Sign" in shown, f"the issuing CA's certificate:\n{shown}")
    refused(checks, c.ca("sign", certs, "--csr", other / "ca.csr", "--out", env.folder / "deep.crt", check=False), "signs no other CA")
    checks.that(not (env.folder / "deep.crt").exists(), "a CA below the issuing CA")
    rows = c.ca("list", c.root).stdout
    checks.that("the-issuing-CA" in rows and rows.startswith("ca "), f"the root's log: {rows}")


def constraints(checks, c):
    """A CA that may sign names of one domain: a certificate of another domain is refused by who verifies it."""
    folder, made = c.env.folder / "narrow", c.env.folder / "narrow.crt"
    c.ca("init", folder, "--csr")
    refused(checks, c.ca("sign", c.root, "--csr", folder / "ca.csr", "--out", made, "--permit", "URI:x", check=False), "expected DNS:domain")
    c.ca("sign", c.root, "--csr", folder / "ca.csr", "--out", made, "--permit", "DNS:shops.example", "--permit", "IP:192.0.2.0/255.255.255.0")
    c.ca("import", folder, made)
    for name in ("till.shops.example", "till.banks.example"):
        c.ca("issue", folder, "--name", name)
    good, bad = (c.verify(folder / f"{name}.crt") for name in ("till.shops.example", "till.banks.example"))
    checks.that(good.returncode == 0, f"a name within the constraint: {good.stderr}")
    checks.that("permitted subtree violation" in bad.stderr, f"a name beyond the constraint: {bad.stderr}")


def serve(checks, c):
    """The collector and the agent have the root's certificate; each sends its own with the issuing CA's."""
    env, certs, root = c.env, c.env.certs, c.root / "ca.crt"
    c.ca("issue", certs, "--server", "--name", "server", "--san", "DNS:localhost", "--san", "IP:127.0.0.1")
    c.ca("issue", certs, "--name", "by-hand")
    collector = env.new_collector(extra=["--enroll", "127.0.0.1:0", "--ca-dir", certs])
    collector.ca, collector.crl = root, None
    collector.start()
    token = c.ca("token", certs, "--name", "below").stdout.strip()
    files = ["--cert", certs / "below.crt", "--key", certs / "below.key"]
    env.run([env.agent, "enroll", "--collector", collector.enroll_url, "--ca", root, "--token", token, *files])
    checks.equal((certs / "below.crt").read_text().count("BEGIN CERTIFICATE"), 2, "certificates of an answer: its own and the issuing CA's")
    checks.equal(c.verify(certs / "below.crt").returncode, 0, "the agent's certificate below the root")

    def ship(name, check=True):
        return env.run([env.agent, "replay", "--collector", collector.url, "--cert", certs / f"{name}.crt", "--key", certs / f"{name}.key",
                        "--ca", root, "--spool", env.folder / f"spool-{name}", "--give-up", "3s", *traces.paths("amsi-eventslost", env.build)],
                       check=check)
    ship("below")
    ship("by-hand")
    hosts = {s["host"] for s in collector.ask_json("hosts")["streams"]}
    checks.equal(hosts, {"below", "by-hand"}, "agents that shipped")
    # the signer checks the certificate that is renewed against the root, too
    done = env.run([env.agent, "enroll", "--collector", collector.enroll_url, "--ca", root, "--renew", *files], check=False)
    checks.that("half" in done.stderr, f"a renewal in the first half: {done.stderr}")
    # a list that the issuing CA signed counts, though the collector was given the root alone
    c.ca("revoke", certs, "by-hand")
    shutil.rmtree(env.folder / "spool-by-hand")
    done = ship("by-hand", check=False)
    checks.that(done.returncode != 0 and "certificate revoked" in collector.log(), f"a revoked certificate: {done.returncode}\n{collector.log()}")
    collector.stop()


def check_signer(checks, c, collector, what, has_paths):
    """The process that signs by a provider starts no program and reaches into no other process; with paths it opens no other files."""
    signer = test_enroll.child_of(test_enroll.child_of(collector.process.pid, b"file-broker"), b"certificate-signer")
    confined = ["Seccomp:\t2" in pathlib.Path(f"/proc/{pid}/status").read_text() for pid in (collector.process.pid, signer)]
    checks.equal(confined[1], confined[0], f"{what}: the signer has a filter of system calls, as the collector has")
    if not confined[0] or not injected.AVAILABLE:
        print(f"NOT TESTED: system calls of the signer, {what} (no seccomp in this build or kernel, or another processor)")
        return
    with injected.Process(signer) as process:
        checks.equal((process.error("ptrace", injected.PTRACE_ATTACH, os.getpid()), process.error("kill", os.getpid(), 0)), ("EPERM", "EPERM"),
                     f"{what}: the signer traces and signals others")
        checks.equal(process.error("execve", b"/bin/true", 0, 0), "EPERM", f"{what}: the signer starts a program")
        opened = {path: process.error("open", os.fsencode(path), os.O_RDONLY | os.O_CLOEXEC) for path in ("/etc/passwd", c.env.folder)}
    checks.equal(opened, dict.fromkeys(opened, "EACCES" if has_paths else ""), f"{what}: files that the provider does not need")


def key_elsewhere(checks, c, what, uri, *words):
    env, folder = c.env, c.env.folder / f"ca-{what}"
    c.ca("init", folder, "--key-uri", uri, *words)
    checks.that(not (folder / "ca.key").exists() and os.stat(folder / "ca.uri").st_mode & 0o777 == 0o600, f"{what}: what ca init --key-uri leaves")
    c.ca("issue", folder, "--server", "--name", "server", "--san", "DNS:localhost", "--san", "IP:127.0.0.1")
    c.ca("issue", folder, "--name", "agent")
    checks.equal(c.verify(folder / "agent.crt", folder / "ca.crt").returncode, 0, f"{what}: what it signs")
    collector = env.new_collector(f"collector-{what}", extra=["--enroll", "127.0.0.1:0", "--ca-dir", folder])
    certs, env.certs = env.certs, folder
    try:
        collector.ca, collector.crl = folder / "ca.crt", None
        collector.start()
        token = c.ca("token", folder, "--name", "enrolled").stdout.strip()
        env.run([env.agent, "enroll", "--collector", collector.enroll_url, "--ca", folder / "ca.crt", "--token", token,
                 "--cert", folder / "enrolled.crt", "--key", folder / "enrolled.key"])
        checks.equal(c.verify(folder / "enrolled.crt", folder / "ca.crt").returncode, 0, f"{what}: what its signer signs")
        check_signer(checks, c, collector, what, "--key-paths" in words)
        c.ca("revoke", folder, "enrolled")
        collector.stop()
    finally:
        env.certs = certs
    os.chmod(folder / "ca.uri", 0o644)
    refused(checks, c.ca("issue", folder, "--name", "more", check=False), "ca.uri")


def free_ports():
    """The first of two consecutive free ports: swtpm's clients expect the control channel at the port after the data channel's."""
    while True:
        with socket.socket() as a, socket.socket() as b:
            a.bind(("127.0.0.1", 0))
            try:
                b.bind(("127.0.0.1", a.getsockname()[1] + 1))
                return a.getsockname()[1]
            except (OSError, OverflowError):
                continue


def tpm(checks, c):
    modules = c.env.run(["openssl", "version", "-m"]).stdout.split('"')[1]
    if not shutil.which("swtpm") or not os.path.exists(f"{modules}/tpm2.so"):
        checks.skipped += 1
        print("SKIPPED: a CA's key in a TPM: expected swtpm and OpenSSL's provider tpm2 (Debian: swtpm, tpm2-openssl)")
        return
    folder, port = c.env.folder / "tpm", free_ports()
    folder.mkdir()
    process = subprocess.Popen(["swtpm", "socket", "--tpmstate", f"dir={folder}", "--tpm2", "--server", f"type=tcp,port={port},bindaddr=127.0.0.1",
                                "--ctrl", f"type=tcp,port={port + 1},bindaddr=127.0.0.1", "--flags", "not-need-init,startup-clear"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = {name: os.environ.get(name) for name in ("TPM2OPENSSL_TCTI", "ASAN_OPTIONS")}
    os.environ["TPM2OPENSSL_TCTI"] = f"swtpm:host=127.0.0.1,port={port}"
    os.environ["ASAN_OPTIONS"] = (kept["ASAN_OPTIONS"] or "") + ":detect_leaks=0"  # the provider does not free all that it allocates
    try:
        # one client at a time: without a resource manager the collector's signer and a command take turns
        time.sleep(0.5)
        c.env.run(["openssl", "genpkey", "-provider", "tpm2", "-provider", "default", "-algorithm", "EC", "-pkeyopt", "group:P-256", "-out", folder / "key"])
        checks.that("TSS2 PRIVATE KEY" in (folder / "key").read_text(), "the key is none of a TPM")
        made = c.env.folder / "ca-tpm"
        c.ca("init", made, "--key-uri", f"file:{folder}/key", "--provider", "tpm2")
        c.ca("issue", made, "--name", "agent")
        checks.equal(c.verify(made / "agent.crt", made / "ca.crt").returncode, 0, "what a TPM signed")
        c.ca("revoke", made, "agent")
        listed = c.env.run(["openssl", "crl", "-in", made / "ca.crl", "-CAfile", made / "ca.crt", "-noout"])
        checks.that("verify OK" in listed.stderr, f"the list that a TPM signed: {listed.stderr}")
        refused(checks, c.ca("init", c.env.folder / "none", "--key-uri", f"file:{folder}/key", "--provider", "no-such-provider", check=False), "provider 'no-such-provider'")
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        process.terminate()
        process.wait(timeout=30)


def token(checks, c):
    """A key in a PKCS#11 token (SoftHSM), from ca init to what the running signer signs."""
    modules = os.environ.get("OPENSSL_MODULES") or c.env.run(["openssl", "version", "-m"]).stdout.split('"')[1]
    module = next((path for path in ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so") if os.path.exists(path)), None)
    if not module or not shutil.which("softhsm2-util") or not os.path.exists(f"{modules}/pkcs11.so"):
        checks.skipped += 1
        print("SKIPPED: a CA's key in a PKCS#11 token: expected SoftHSM and OpenSSL's provider pkcs11 (Debian: softhsm2; pkcs11-provider, from 13 on)")
        return
    folder = c.env.folder / "token"
    (folder / "tokens").mkdir(parents=True)
    (folder / "conf").write_text(f"directories.tokendir = {folder}/tokens\n")
    wanted = {"SOFTHSM2_CONF": f"{folder}/conf", "PKCS11_PROVIDER_MODULE": module}
    kept = {name: os.environ.get(name) for name in (*wanted, "ASAN_OPTIONS")}
    os.environ.update(wanted)
    os.environ["ASAN_OPTIONS"] = (kept["ASAN_OPTIONS"] or "") + ":detect_leaks=0"  # the provider and the module do not free all that they allocate
    try:
        c.env.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", folder / "key.pem"])
        c.env.run(["softhsm2-util", "--init-token", "--free", "--label", "ca", "--pin", "1234", "--so-pin", "5678"])
        c.env.run(["softhsm2-util", "--import", folder / "key.pem", "--token", "ca", "--label", "key", "--id", "01", "--pin", "1234"])
        (folder / "key.pem").unlink()
        key_elsewhere(checks, c, "token", "pkcs11:token=ca;object=key;type=private?pin-value=1234", "--provider", "pkcs11",
                      "--key-paths", f"{folder}:{pathlib.Path(modules).resolve()}")
        refused(checks, c.ca("init", c.env.folder / "none", "--key-uri", "pkcs11:token=ca;object=another;type=private?pin-value=1234",
                             "--provider", "pkcs11", check=False), "open the CA's key by its URI")
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def test(env, checks, _):
    c = Cas(env)
    make(checks, c)
    constraints(checks, c)
    serve(checks, c)
    env.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", env.folder / "elsewhere.pem"])
    key_elsewhere(checks, c, "file", f"file:{env.folder}/elsewhere.pem")
    key_elsewhere(checks, c, "paths", f"file:{env.folder}/elsewhere.pem", "--key-paths", f"{env.folder}/elsewhere.pem:/nowhere")
    refused(checks, c.ca("init", env.folder / "none", "--key-paths", "/nowhere", check=False), "--key-paths: needs --key-uri")
    refused(checks, c.ca("init", env.folder / "none", "--key-uri", f"file:{env.folder}/nothing", check=False), "open the CA's key by its URI")
    tpm(checks, c)
    token(checks, c)


if __name__ == "__main__":
    harness.main(test, __doc__)
