"""What comes in and is no whole request, or waits: pipelined requests and chunked bodies of an agent, bodies of strangers to the dashboard,
long questions of one reader. Each of them went around the bounds of memory: one certificate had 934 MiB of chunked bodies in the collector's
memory, pipelined requests grew without end, the dashboard took 2 MiB of each stranger's connection before it looked at a token, and one token
had 64 bodies of 2 MiB, each twice, while its questions waited.

usage: test_received.py --build DIR [--soak] [--keep]
"""
import json

import world
import harness
import receiver

MOST_MIB = 300
QUESTIONS, QUESTIONS_MIB, HELD = 60, 60, 5
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"
CHUNK = b"1f40\r\n" + b"x" * 8000 + b"\r\n"
CHUNKED, CHUNKS_MIB = 32, 16
STRANGERS, STRANGER_BYTES = 4 * 100, 1_900_000
PIPELINED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400


def memory_mib(w):
    return receiver.process_status(w.collector.process.pid, "VmRSS") >> 20


def send(connection, pieces):
    """Bytes that the collector took before it stopped reading or closed the connection."""
    sent = 0
    connection.settimeout(0.5)
    try:
        for piece in pieces:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def chunked(w, checks):
    held, sent = [], 0
    for _ in range(CHUNKED):
        held.append(world.secure(world.tls(w.env.certs, "thief"), world.connect(w.port)))
        sent += send(held[-1], [HEAD % (b"/v1/batches", world.UPLOAD_TYPE.encode()) + b"tRANSFER-eNCODING: chunked\r\n\r\n"] +
                     [CHUNK] * ((CHUNKS_MIB << 20) // len(CHUNK)))
    refused = w.metrics()["etwcollector_quota_refused_uploads_total"]
    checks.that(memory_mib(w) < MOST_MIB and refused > 0, f"{memory_mib(w)} MiB with {sent >> 20} MiB of chunked bodies, {refused:.0f} refusals")
    print(f"{memory_mib(w)} MiB of memory with {CHUNKED} chunked bodies of which {sent >> 20} MiB were taken", flush=True)
    for connection in held:
        connection.close()


def strangers(w, checks):
    held = []
    for number in range(STRANGERS):
        try:
            held.append(world.secure(world.tls(w.env.certs), world.connect(w.web_port, f"127.0.5.{number // 100 + 1}")))
        except OSError:
            continue
        send(held[-1], [HEAD % (b"/api/v1/sql", b"application/json") + b"Content-Length: 2000000\r\n\r\n" + b"x" * STRANGER_BYTES])
    refused = w.metrics()["etwcollector_net_refused_bodies_total"]
    checks.that(memory_mib(w) < MOST_MIB and refused > STRANGERS / 2, f"{memory_mib(w)} MiB with {STRANGERS} bodies of strangers, {refused:.0f} closed")
    web = world.Web(w.web_port, world.VICTIM_READER, w.reader.context)
    web.request("POST", "/api/v1/sql", '{"sql": "SELECT 1 AS one --%s"}' % ("y" * 200_000), {**w.reader.headers, "Content-Type": "application/json"})
    checks.equal(web.getresponse().status, 200, "a long statement of a reader beside them")
    web.close()
    print(f"{memory_mib(w)} MiB of memory with {STRANGERS} bodies of strangers, {refused:.0f} connections closed", flush=True)
    for connection in held:
        connection.close()


def waiting(w, checks):
    """Long questions of one token, of which two are answered at a time: the bodies of those that wait are bounded."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    body = json.dumps({"sql": endless}).encode() + b" " * STRANGER_BYTES
    head = HEAD % (b"/api/v1/sql", b"application/json") + b"Authorization: " + w.reader.headers["Authorization"].encode() + b"\r\n"
    held, refused, before = [], 0, memory_mib(w)
    for _ in range(QUESTIONS):
        held.append(world.secure(w.reader.context, world.connect(w.web_port, "127.0.0.9")))
        held[-1].settimeout(30)
        held[-1].sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        held[-1].settimeout(2)
        try:
            refused += held[-1].recv(100).startswith(b"HTTP/1.1 503")
        except OSError:  # it waits, or is answered
            pass
    grown = memory_mib(w) - before
    checks.that(QUESTIONS - HELD <= refused < QUESTIONS, f"{refused} of {QUESTIONS} long questions of one token are refused")
    checks.that(grown < QUESTIONS_MIB, f"{grown} MiB of memory for {QUESTIONS} long questions of one token")
    print(f"{grown} MiB more memory with {QUESTIONS} long questions of one token, {refused} refused", flush=True)
    for connection in held:
        connection.close()


def pipelined(w, checks):
    sent, texts = 0, b""
    for _ in range(8):
        with world.secure(world.tls(w.env.certs, "thief"), world.connect(w.port)) as connection:
            sent += send(connection, [PIPELINED] * 2000)
            try:
                while part := connection.recv(1 << 20):
                    texts = (texts + part)[-4000:]
            except OSError:
                pass
    checks.that(memory_mib(w) < MOST_MIB and sent < 8 * 1000 * len(PIPELINED), f"{memory_mib(w)} MiB with {sent >> 20} MiB of pipelined requests")
    print(f"{memory_mib(w)} MiB of memory; {sent >> 10} KiB of pipelined requests were taken", flush=True)


def quota(env, checks):
    """Above --quota-received requests of any kind are refused; another agent's are served."""
    with world.World(env, checks, name="received", extra=["--quota-received", "64KiB"]) as w:
        web = world.Web(w.port, "127.0.0.66", world.tls(env.certs, "thief"))
        statuses = []
        for _ in range(12):  # 64 KiB each, of 512 KiB at once
            web.request("GET", "/healthz")
            answer = web.getresponse()
            statuses.append(answer.status)
            text = answer.read()
            web.close()
        checks.that(statuses[0] == 200 and statuses[-1] == 429 and b"--quota-received" in text, f"answers to 12 requests: {statuses}, {text}")
        refused = w.metrics()["etwcollector_quota_refused_received_total"]
        checks.that(refused >= 1, f"{refused} refusals are counted")
        first = world.Web(w.port, world.VICTIM_AGENT, w.agent.context)
        w.agent.request(first, 0)
        first.close()


def test(env, checks, _):
    with world.World(env, checks, tokens=True) as w:
        chunked(w, checks)
        strangers(w, checks)
        waiting(w, checks)
        pipelined(w, checks)
    quota(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
