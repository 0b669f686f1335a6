"""A collector that is slow, silent, busy, wrong or hostile: the agent's memory stays under its ceiling, its spool under its
bound, nothing counts as delivered that is not, and when an honest collector answers at the same address everything arrives.

Each behaviour has an agent, a false collector and a forwarder of its own; the forwarder is then pointed at the real one.
"""
import concurrent.futures
import os

import faulted
import harness
import proxy
import receiver
import traces
import uploads

TRACE, LONG_TRACE = "shutdown-win10", "clr-kernel-win8-x64"
AT_A_TIME = 6
SPOOL_BYTES = 256 << 10
# What the spool may hold beyond its limit: a segment's slack (a quarter), the state file and the class descriptions.
SPOOL_SLACK_BYTES = 192 << 10
MOST_MEMORY_BYTES = 64 << 20  # all of it, the code and its libraries included


def reads_slowly(exchange):
    exchange.read_body(bytes_per_s=20_000)
    exchange.acknowledge([])


def reads_nothing(exchange):
    exchange.wait(3600)


def never_answers(exchange):
    exchange.read_body()
    exchange.wait(3600)


def answers_by_drops(exchange):
    exchange.read_body()
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n":
        exchange.send(bytes([byte]))
        exchange.wait(0.05)
    while True:
        exchange.send(b"x")
        exchange.wait(0.05)


def status(code, *headers, body=b"no\n"):
    def behave(exchange):
        exchange.read_body()
        exchange.answer(code, body, headers)
    return behave


def raw(data, repeat=False):
    """Answers with these bytes. repeat: sends them again for as long as the agent reads them."""
    def behave(exchange):
        exchange.read_body()
        exchange.send(data)
        while repeat and not exchange.server.stopping.is_set():
            exchange.send(data)
        exchange.keep_open = False
    return behave


def early(exchange):
    """Answers before the body has come, and forgets it."""
    exchange.answer(200, b"")
    exchange.read_body()


def answer(make):
    """200 with a body made from the batches' heads."""
    def behave(exchange):
        exchange.read_body()
        heads = exchange.heads()
        exchange.answer(200, make(heads), [("Content-Type", "application/x-protobuf")])
    return behave


def other_stream(heads):
    return uploads.ack(os.urandom(16), [(1, 1 << 62)])


def never_sent(heads):
    last = max(head.number for head in heads)
    return uploads.ack(heads[0].stream, [(last + 100_000, last + 200_000), (1 << 63, (1 << 64) - 1)])


def backwards(heads):
    return uploads.ack(heads[0].stream, [(9, 3), (0, 0)])


def too_many_ranges(heads):
    return uploads.ack(heads[0].stream, [(10_000_000 + 2 * n, 10_000_000 + 2 * n) for n in range(90_000)])


def unknown_classes(heads):
    return uploads.ack(heads[0].stream, unknown=[os.urandom(16) for _ in range(5000)],
                       refused=[(head.number, uploads.REFUSED_RETRY, "x" * 5000) for head in heads[:50]])


def retry_all(heads):
    return uploads.ack(heads[0].stream, refused=[(head.number, uploads.REFUSED_RETRY, "later") for head in heads])


def refuse_last(heads):
    return uploads.ack(heads[0].stream, refused=[(heads[-1].number, uploads.REFUSED_MALFORMED, "no")])


def mean_credit(heads):
    return uploads.ack(heads[0].stream, credit_bytes=1, retry_after_ms=50, keyframe=True)


HUGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + bytes(1 << 20)
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

# name: (behaviour, may the agent end because of it?) A replay that a person waits for ends when waiting does not help.
CASES = {
    "reads-slowly": (reads_slowly, False),
    "reads-nothing": (reads_nothing, False),
    "never-answers": (never_answers, False),
    "answers-by-drops": (answers_by_drops, False),
    "busy": (status(503, ("Retry-After", "1")), False),
    "busy-nonsense": (status(503, ("Retry-After", "-7")), False),
    "busy-words": (status(429, ("Retry-After", "in a while")), False),
    "error": (status(500, body=os.urandom(500)), False),
    "redirect": (status(307, ("Location", "https://localhost:1/v1/batches")), True),
    "not-found": (status(404), True),
    "forbidden": (status(403), True),
    "no-content": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), False),
    "empty": (status(200, body=b""), False),
    "page": (status(200, ("Content-Type", "text/html"), body=b"<html>It works!</html>"), False),
    "noise": (status(200, body=os.urandom(4000)), False),
    "no-http": (raw(os.urandom(3000)), False),
    "gzip": (status(200, ("Content-Encoding", "gzip"), body=b"\x1f\x8b\x08" + bytes(300)), False),
    "huge-body": (raw(HUGE, repeat=True), False),
    "endless-chunks": (raw(CHUNKS + b"100000\r\n" + bytes(1 << 20) + b"\r\n", repeat=True), False),
    "endless-headers": (raw(b"HTTP/1.1 200 OK\r\n" + b"X-Header: " + b"y" * 60_000 + b"\r\n", repeat=True), False),
    "endless-continue": (raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, repeat=True), False),
    "early": (early, False),
    "other-stream": (answer(other_stream), False),
    "never-sent": (answer(never_sent), False),
    "backwards": (answer(backwards), False),
    "too-many-ranges": (answer(too_many_ranges), False),
    # a collector that lacks what no agent has: the batches are refused for good, and the replay sends them again
    "unknown-classes": (answer(unknown_classes), True),
    "retry-all": (answer(retry_all), False),
    "mean-refusal": (answer(refuse_last), True),
    "mean-credit": (answer(mean_credit), False),
}


def suffer(env, checks, truth, collector, name, paths, seconds):
    """One agent and one false collector for so long, then the real one."""
    behave, may_end = CASES[name]
    extra = [*faulted.HASTY, "--spool-bytes", str(SPOOL_BYTES)]
    with receiver.Receiver(env.certs, behave) as fake, proxy.Proxy(fake.port) as between:
        run = faulted.Replay(env, paths, between, name, extra=extra)
        with run, faulted.Watch(run) as watch:
            receiver.sleep_until(lambda: not run.running(), seconds)
            ended = not run.running()
            checks.that(not ended or may_end, f"{name}: the agent ended: {run.messages()}")
            asked = fake.requests
            between.target = collector.port
            fake.stop()
            between.reset_all()
            # one that may end may also do so later, when it knows that not all was taken
            if ended or may_end:
                code = run.wait(300)
                checks.that(may_end or code == 0, f"{name}: the agent ended with {code}: {run.messages()}")
                if code != 0:
                    run.start()
            summary = run.finish(300)
    checks.equal(fake.failures, [], f"{name}: the false collector's own failures")
    checks.that(asked > 0, f"{name}: the agent never asked the false collector")
    truth.check(checks, collector, name, name)
    faulted.check_summary(checks, summary, truth.lines, name)
    checks.that(0 < watch.spool_bytes <= SPOOL_BYTES + SPOOL_SLACK_BYTES,
                f"{name}: the spool had {watch.spool_bytes} bytes, its bound is {SPOOL_BYTES}")
    if "san" not in env.build.name:
        checks.that(0 < watch.memory_bytes <= MOST_MEMORY_BYTES,
                    f"{name}: the agent had {watch.memory_bytes} bytes of memory, its bound is {MOST_MEMORY_BYTES}")
    return name, asked, watch


def with_defaults(env, checks, collector, name, trace, seconds):
    """The default sizes, a trace that does not fit into the limit of memory, and a receiver that never answers."""
    paths = traces.paths(trace, env.build)
    with receiver.Receiver(env.certs, never_answers) as fake, proxy.Proxy(fake.port) as between:
        run = faulted.Replay(env, paths, between, name, extra=["--spool-bytes", "1MiB"])
        with run, faulted.Watch(run) as watch:
            receiver.sleep_until(lambda: not run.running(), seconds)
            checks.that(run.running(), f"{name}: the agent ended: {run.messages()}")
            between.target = collector.port
            fake.stop()
            between.reset_all()
            summary = run.finish(120)
    faulted.Truth(env, paths).check(checks, collector, name, name)
    faulted.check_summary(checks, summary, traces.event_count(trace), name)
    checks.that(0 < watch.memory_bytes <= MOST_MEMORY_BYTES or "san" in env.build.name,
                f"{name}: the agent had {watch.memory_bytes} bytes of memory, its bound is {MOST_MEMORY_BYTES}")
    print(f"{name}: {watch.memory_bytes >> 10} KiB of memory, {watch.spool_bytes >> 10} KiB of spool", flush=True)


def stranger(env, checks, paths):
    """A receiver with a certificate of another CA gets nothing: no request, no byte of a batch."""
    other = env.folder / "other"
    env.run([env.collector, "ca", "init", "--dir", other])
    env.run([env.collector, "ca", "issue", "--dir", other, "--server", "--name", "server", "--san", "DNS:localhost"])
    with receiver.Receiver(env.certs, cert=other / "server.crt", key=other / "server.key") as fake:
        with faulted.Replay(env, paths, fake, "stranger", extra=faulted.HASTY) as run:
            code = run.wait(60)
    checks.that(code != 0, "stranger: the agent ended well")
    checks.that("not to be trusted" in run.messages(), f"stranger: the agent does not say why: {run.messages()}")
    checks.equal((fake.requests, fake.bytes), (0, 0), "stranger: requests and bytes that it got")
    with receiver.Receiver(env.certs, tls=False) as fake:
        with faulted.Replay(env, paths, fake, "plain", extra=faulted.HASTY) as run:
            receiver.sleep_until(lambda: not run.running(), 3)
    checks.that(fake.connections > 0, "plain: the agent never came")
    checks.equal((fake.requests, fake.bytes), (0, 0), "plain: requests and bytes that a receiver without TLS got")


def test(env, checks, arguments):
    paths = traces.paths(LONG_TRACE if arguments.soak else TRACE, env.build)
    seconds = 120 if arguments.soak else 4
    defaults = {f"defaults-{trace}": trace for trace in ("clr-kernel-win8-x64", "tracelogging-win11-20cpu")}
    env.make_certificates(agents=[*CASES, *defaults, "stranger", "plain"])
    truth = faulted.Truth(env, paths)
    collector = env.new_collector().start()
    stranger(env, checks, paths)
    for name, trace in defaults.items():
        with_defaults(env, checks, collector, name, trace, seconds)
    most = 0
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(suffer, env, checks, truth, collector, name, paths, seconds) for name in CASES]
        for one in concurrent.futures.as_completed(running):
            try:
                name, asked, watch = one.result()
                most = max(most, watch.memory_bytes)
                print(f"{name}: {asked} requests, {watch.memory_bytes >> 10} KiB of memory, {watch.spool_bytes >> 10} KiB of spool",
                      flush=True)
            except harness.Failure as failure:
                checks.that(False, str(failure))
    collector.stop()
    print(f"{len(CASES)} false collectors; at most {most / (1 << 20):.1f} MiB of memory")


if __name__ == "__main__":
    harness.main(test, __doc__)
