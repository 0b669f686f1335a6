#!/usr/bin/env python3
"""The settings that the shipped program reads from Windows, under Wine, with a native collector: the proxy of a user, of the
machine, and the proxy that a script (PAC) returns; roots and a client certificate of Wine's certificate stores. The certificate's key
signs TLS 1.3 in an emulator of CNG (keyemul.c) that replaces ncrypt.dll.

usage: tests/windows/test_system.py --build build/windows --native build/dev [--soak]"""
import hashlib
import http.server
import json
import pathlib
import re
import shutil
import ssl
import struct
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
import emulated  # noqa: E402
import harness  # noqa: E402
import test_line  # noqa: E402
import traces  # noqa: E402
import wine  # noqa: E402

TRACE = "amsi-eventslost"
SETTINGS = "HKCU\\Software\\Microsoft\\Windows\\CurrentVersion\\Internet Settings\\Connections"
MACHINE = "HKLM\\" + SETTINGS[5:]
DIRECT, NAMED, SCRIPT = 1, 2, 4
MESSAGE_TABLE, VERSION_INFO = 11, 16  # RT_MESSAGETABLE, RT_VERSION


def settings(flags, proxy="", bypass="", script="", form=0x46):
    """DefaultConnectionSettings, or (form 0x18) WinHttpSettings, as Windows keeps them."""
    return (struct.pack("<III", form, 0, flags) +
            b"".join(struct.pack("<I", len(text)) + text.encode() for text in (proxy, bypass, script)) + bytes(32)).hex()


class ScriptServer(http.server.BaseHTTPRequestHandler):
    """Says which proxy to use."""
    says = "DIRECT"

    def do_GET(self):  # noqa: N802
        text = f'function FindProxyForURL(url, host) {{ return host == "localhost" ? "{ScriptServer.says}" : "DIRECT"; }}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ns-proxy-autoconfig")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Agent:
    def __init__(self, env, session, build, collector):
        self.env, self.session, self.collector = env, session, collector
        self.build, self.exe = build, build / "service" / "app" / "etwagent.exe"
        self.spools = 0

    def set(self, key, name, value):
        done = self.session.run(["reg", "add", key, "/v", name, "/t", "REG_BINARY", "/d", value, "/f"])
        if done.returncode:
            raise harness.Failure(f"reg add {key}: {done.stdout}{done.stderr}")

    def forget(self):
        for key, name in ((SETTINGS, "DefaultConnectionSettings"), (MACHINE, "WinHttpSettings")):
            self.session.run(["reg", "delete", key, "/v", name, "/f"])

    def replay(self, *extra, cert=None, key=None, ca=None):
        """A replay of a trace to the collector, from an empty spool."""
        self.spools += 1
        certs, path = self.env.certs, wine.windows_path
        return self.session.run([self.exe, "replay", "--collector", self.collector.url, "--cert", cert or path(certs / "by-proxy.crt"),
                                 "--key", key or path(certs / "by-proxy.key"), "--ca", ca or path(certs / "ca.crt"),
                                 "--spool", path(self.env.folder / f"wine-spool-{self.spools}"), "--give-up", "1s", *extra,
                                 *map(path, traces.paths(TRACE, self.env.build))], timeout=120)


def proxies(checks, agent, collector):
    between = test_line.ConnectProxy()
    between.start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ScriptServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxy, script = f"127.0.0.1:{between.port}", f"http://127.0.0.1:{server.server_port}/proxy.pac"
    agent.forget()
    cases = [
        ("a user's", SETTINGS, "DefaultConnectionSettings", settings(NAMED, f"http=127.0.0.1:1;https={proxy}"), "", True),
        ("a user's, not for this host", SETTINGS, "DefaultConnectionSettings", settings(NAMED, proxy, "*.example;<local>"), "", False),
        ("a script's", SETTINGS, "DefaultConnectionSettings", settings(SCRIPT, script=script), f"PROXY {proxy}; DIRECT", True),
        ("a script's, which says none", SETTINGS, "DefaultConnectionSettings", settings(SCRIPT, script=script), "DIRECT", False),
        ("the machine's", MACHINE, "WinHttpSettings", settings(NAMED, proxy, form=0x18), "", True),
    ]
    for what, key, name, value, says, expected in cases:
        agent.set(SETTINGS, "DefaultConnectionSettings", settings(DIRECT))
        agent.set(key, name, value)
        ScriptServer.says = says
        before = len(between.asked)
        done = agent.replay("--proxy", "system")
        checks.equal(done.returncode, 0, f"proxy of the system, {what}: exit code; {done.stderr}")
        checks.equal(len(between.asked) > before, expected, f"proxy of the system, {what}: whether it was asked")
    agent.forget()
    server.shutdown()
    between.listener.close()


def patched(program, to):
    """A copy of the program that takes the functions that sign from the emulator."""
    data = bytearray(program.read_bytes())
    for old, new, near in (("ncrypt.dll", "keyemu.dll", None), ("crypt32.dll", "keyemul.dll", "keyemu.dll")):
        text, places, at = (old + "\0").encode("utf-16-le"), [], -1
        while (at := data.find(text, at + 1)) >= 0:
            places.append(at)
        if near:  # other libraries have the same name elsewhere
            places = [at for at in places if abs(at - data.find(near.encode("utf-16-le"))) < emulated.NEAR]
        if len(places) != 1:
            raise harness.Failure(f"{program} names {old} {len(places)} times")
        data[places[0]:places[0] + 2 * len(new)] = new.encode("utf-16-le")
    to.write_bytes(data)


def rsa_certificate(env, name):
    """As the collector's CA issues them, but for its RSA key."""
    path = env.certs / name
    env.run(["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{path}.key", "-out", f"{path}.csr", "-subj", f"/CN={name}"])
    (env.certs / "client.ext").write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n")
    env.run(["openssl", "x509", "-req", "-in", f"{path}.csr", "-CA", env.certs / "ca.crt", "-CAkey", env.certs / "ca.key", "-days", "2",
             "-CAcreateserial", "-extfile", env.certs / "client.ext", "-out", f"{path}.crt"])


def der_of(path):
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT"):])


class Stores:
    """Wine's certificate stores and the emulated key."""

    def __init__(self, agent):
        self.agent, self.session = agent, agent.session
        self.key, self.log = self.session.drive / "keyemul.pem", self.session.drive / "keyemul.log"

    def run(self, *words):
        done = self.session.run([self.agent.build / "tests" / "windows" / "storectl.exe", *words])
        if done.returncode:
            raise harness.Failure(f"storectl {words}: {done.stderr}")

    def add(self, where, store, certificate, *key):
        der = self.agent.env.folder / "certificate.der"
        der.write_bytes(der_of(self.agent.env.certs / f"{certificate}.crt"))
        self.run("add", where, store, wine.windows_path(der), *key)
        return hashlib.sha1(der.read_bytes()).hexdigest()

    def holds(self, certificate):
        shutil.copyfile(self.agent.env.certs / f"{certificate}.key", self.key)
        self.log.unlink(missing_ok=True)

    def noted(self):
        return self.log.read_text().split("\n")[:-1] if self.log.exists() else []

    def clear(self):
        for where, store in (("machine", "My"), ("user", "My"), ("machine", "Root")):
            self.run("clear", where, store)
        for path in (self.key, self.log):
            path.unlink(missing_ok=True)


def stores(checks, agent, collector):
    env, stores = agent.env, Stores(agent)
    rsa_certificate(env, "rsa-key")
    stores.clear()
    for dll in ("keyemu.dll", "keyemul.dll"):
        shutil.copyfile(agent.build / "tests" / "windows" / "keyemul.dll", agent.session.drive / "windows" / "system32" / dll)
    shipped, agent.exe = agent.exe, env.folder / "etwagent.exe"
    patched(shipped, agent.exe)
    roots = {"ca": "store:machine/Root"}

    def is_stored(host):
        done = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw"], check=False)
        return len(done.stdout.splitlines()) == traces.event_count(TRACE)

    own = {kind: wine.windows_path(env.certs / f"by-root.{file}") for kind, file in (("cert", "crt"), ("key", "key"))}
    done = agent.replay(**own, **roots)
    checks.that(done.returncode == 1 and "not to be trusted" in done.stderr and not is_stored("by-root"), f"a root that is not in the store: {done.stderr}")
    stores.add("machine", "Root", "ca")
    done = agent.replay(**own, **roots)
    checks.that(done.returncode == 0 and is_stored("by-root"), f"roots of the machine's store: {done.returncode} {done.stderr}")
    for name, where, how, by in (("ec-key", "machine", "thumbprint", "ECDSA"), ("rsa-key", "user", "name", "RSA")):
        thumbprint = stores.add(where, "My", name, "key")
        stores.holds(name)
        which = thumbprint if how == "thumbprint" else name.upper()
        done = agent.replay(cert=f"store:{where}/My/{which}", key="store", **roots)
        checks.that(done.returncode == 0 and is_stored(name), f"a key of a store, {name}: {done.returncode} {done.stderr}")
        noted = stores.noted()
        checks.that(f"signed by {by}" in noted and noted.count("opened") == noted.count("closed") > 0, f"what the key was asked for: {noted}")
    stores.holds("ec-key")  # another key than the certificate's
    done = agent.replay(cert="store:user/My/rsa-key", key="store", **roots)
    checks.that(done.returncode == 1, f"a key that is not the certificate's: {done.returncode} {done.stderr}")
    stores.key.unlink()
    done = agent.replay(cert="store:user/My/rsa-key", key="store", **roots)
    checks.that(done.returncode == 1 and "use the key of the certificate rsa-key" in done.stderr, f"a key that is gone: {done.stderr}")
    done = agent.replay(cert="store:machine/My/rsa-key", key="store", **roots)
    checks.that(done.returncode == 1 and "the store My of the machine has no certificate rsa-key" in done.stderr, f"a certificate in another store: {done.stderr}")
    stores.clear()
    agent.exe = shipped


def wrong_places(checks, agent):
    """What only Windows can say of a configuration."""
    path = agent.env.folder / "wrong.yaml"
    for lines, said in (
            (("cert: store:machine/My/x", "key: store", "ca: store:machine/Root"), None),
            (("cert: store:machine/My", "key: store", "ca: c"),
             "3:9: cert: 'store:machine/My': expected store:machine/My/WHICH, a thumbprint or a common name, or store:user/My/WHICH"),
            (("cert: store:everybody/My/x", "key: store", "ca: c"),
             "3:9: cert: 'store:everybody/My/x': expected store:machine/My/WHICH, a thumbprint or a common name, or store:user/My/WHICH"),
            (("cert: store:machine/My/x", "key: k.pem", "ca: c"), "4:8: key: 'k.pem': expected store, as the certificate is in one"),
            (("cert: c", "key: store", "ca: c"), "4:8: key: expected a file, as the certificate is in one"),
            (("cert: c", "key: k", "ca: store:machine/Root/x"), "5:7: ca: 'store:machine/Root/x': expected store:machine/Root or store:user/Root")):
        path.write_text("shipping:\n  collector: https://c.example\n" + "".join(f"  {line}\n" for line in lines))
        done = agent.session.run([agent.exe, "check", "--json", wine.windows_path(path)])
        problems = [problem.split("wrong.yaml:")[1] for problem in json.loads(done.stdout)["problems"]]
        checks.equal(problems, [said] if said else [], f"check of {lines}")


def resources(checks, agent):
    """Version and manifest are in the program, and no table of messages, for which the event log's service would hold it."""
    data = agent.exe.read_bytes()
    listed = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", str(agent.exe)], check=True, text=True, stdout=subprocess.PIPE).stdout
    types = [int(n, 16) for n in re.findall(r"(?m)^[0-9a-f]{3,}   Entry: ID: 0x([0-9a-f]+),", listed[listed.index("The .rsrc Resource Directory"):])]
    checks.that(VERSION_INFO in types and MESSAGE_TABLE not in types, f"types of resources: {types}")
    for text in ["VS_VERSION_INFO", "OriginalFilename"]:
        checks.that(text.encode("utf-16-le") in data, f"'{text}' is not in the program")
    checks.that(b"<activeCodePage" in data and b"asInvoker" in data, "the manifest is not in the program")


def test(env, checks, session, build, arguments):
    env.make_certificates(("by-proxy", "by-root", "ec-key"))
    collector = env.new_collector().start()
    agent = Agent(env, session, build, collector)
    proxies(checks, agent, collector)
    stores(checks, agent, collector)
    wrong_places(checks, agent)
    resources(checks, agent)


if __name__ == "__main__":
    emulated.main(test, __doc__.split("\n")[0])
