"""The line to the collector as a good citizen uses it: through an HTTP proxy when the options name one, or
say that the system does, and no faster than the bandwidth that they allow; every event arrives all the same.

# sanitizers: asan-ubsan
"""
import json
import os
import socket
import threading
import time

import harness
import traces

TRACE, SLOW_TRACE = "clr-32bit", "kernel-network-provider"


class ConnectProxy(threading.Thread):
    """An HTTP proxy on loopback that knows CONNECT alone."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked = []
        self.refuses = False

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(4096)
            if not part or len(head) > 65536:
                return client.close()
            head += part
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.asked.append((method, target))
        if self.refuses:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return client.close()
        host, port = target.rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

        def copy(a, b):
            try:
                while part := a.recv(65536):
                    b.sendall(part)
            except OSError:
                pass
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)


def lines(env, command):
    return sorted(env.run(command).stdout.splitlines())


def check_stored(env, checks, collector, agent, trace, what):
    expected = lines(env, [env.agent, "dump", "--format", "raw", *traces.paths(trace, env.build)])
    got = lines(env, [env.collector, "export", "--store", collector.store, "--host", agent, "--format", "raw"])
    checks.that(got == expected, f"{what}: {len(got)} records are stored, {len(expected)} are in the trace, or they differ")


def test(env, checks, arguments):
    env.make_certificates(("by-proxy", "slowly"))
    collector = env.new_collector().start()
    between = ConnectProxy()
    between.start()
    paths = traces.paths(TRACE, env.build)
    env.replay(paths, collector, agent="by-proxy", extra=["--proxy", f"http://127.0.0.1:{between.port}"])
    checks.that(between.asked and set(between.asked) == {("CONNECT", f"localhost:{collector.port}")}, f"the proxy was asked {between.asked}")
    check_stored(env, checks, collector, "by-proxy", TRACE, "through a proxy")
    between.refuses = True
    command = env.replay_command(paths, collector, agent="by-proxy", spool=env.folder / "other", extra=["--give-up", "1s", "--proxy",
                                                                                                       f"http://127.0.0.1:{between.port}"])
    done = env.run(command, check=False)
    checks.that(done.returncode == 1 and "407" in done.stderr, f"a proxy that refuses: {done.returncode} {done.stderr}")
    before = len(between.asked)
    plain = env.replay_command(paths, collector, agent="by-proxy", spool=env.folder / "direct")
    env.run(plain, env={**os.environ, "https_proxy": f"http://127.0.0.1:{between.port}"})
    checks.equal(len(between.asked), before, "requests to a proxy that only the environment names")
    between.refuses = False
    for spool, excluded, expected in (("excluded", "elsewhere.example,localhost", before), ("system", "elsewhere.example", before + 1)):
        env.run(env.replay_command(paths, collector, agent="by-proxy", spool=env.folder / spool, extra=["--proxy", "system"]),
                env={**os.environ, "https_proxy": f"http://127.0.0.1:{between.port}/", "no_proxy": excluded})
        checks.equal(len(between.asked), expected, f"connections through the system's proxy, without one for {excluded}")

    # a third a second of what goes over the line: three seconds, less what curl lets through at once
    def timed(spool, *extra):
        start = time.monotonic()
        done = env.replay(traces.paths(SLOW_TRACE, env.build), collector, agent="slowly", spool=env.folder / spool,
                          extra=["--json", "--request-bytes", "64KiB", *extra])
        return json.loads(done.stdout)["sent_bytes"], time.monotonic() - start

    sent_bytes, _ = timed("fast")
    again_bytes, seconds = timed("slow", "--bandwidth", str(sent_bytes // 3))
    checks.equal(again_bytes, sent_bytes, "bytes sent within a bandwidth")
    checks.that(seconds > 1.5, f"{sent_bytes} bytes with a bandwidth of a third of that took {seconds:.2f} s")
    check_stored(env, checks, collector, "slowly", SLOW_TRACE, "within a bandwidth")
    between.listener.close()


if __name__ == "__main__":
    harness.main(test, __doc__)
