#!/usr/bin/env python3
"""What the shipped program takes from Windows' own settings, under Wine, beside a native collector: the proxy of a user, of the
machine, and the one that a script (PAC) says.

usage: tests/windows/test_system.py --build build/windows --native build/dev [--soak]"""
import http.server
import pathlib
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
        self.exe = build / "service" / "app" / "etwagent.exe"
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
                                 "--spool", path(self.env.folder / f"wine-spool-{self.spools}"), "--give-up", "3s", *extra,
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


def test(env, checks, session, build, arguments):
    env.make_certificates(("by-proxy",))
    collector = env.new_collector().start()
    agent = Agent(env, session, build, collector)
    proxies(checks, agent, collector)


if __name__ == "__main__":
    emulated.main(test, __doc__.split("\n")[0])
