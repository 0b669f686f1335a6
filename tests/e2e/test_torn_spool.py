"""A spool that a crash left torn: cut at every byte of its last record, or ending in zeros or garbage there, as file systems
leave it. The replay is taken up again on it, and every event is in the store once.

A spool without a collector is filled first and its agent killed; each case then works on a copy, as another machine. The short
form samples the places, --soak takes every byte. The unit test torn_at_every_byte opens a spool at each of them.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Delivery 6: A spool that is torn at its end costs no event. | 34 torn spools: each event once; the long form takes every byte | 2026-11-29
import concurrent.futures
import os
import random
import shutil

import faulted
import harness
import receiver
import traces

TRACE = "clr-gc-events"
AT_A_TIME = 8  # a replay waits for most of its time
RECORD_MAGIC = b"EASR"  # service/spool/spool_file.h


def no_listener():
    """Something like a collector whose port refuses."""
    class NoCollector:
        url = "https://localhost:1"
    return NoCollector()


def fill(env, paths):
    """A spool with all batches of the trace, none of them sent; its agent was killed."""
    spool = env.folder / "filled"
    with faulted.Replay(env, paths, no_listener(), "filler", spool=spool,
                        extra=["--batch-events", "5", *faulted.HASTY[2:]]) as run:
        receiver.sleep_until(lambda: not run.running() or newest_segment(spool), 20)
        size = -1
        while run.running() and size != (size := run.spool_bytes()):
            receiver.sleep_until(lambda: not run.running(), 0.5)
        if not run.running():
            raise harness.Failure(f"the replay ended without a collector: {run.messages()}")
    return spool


def newest_segment(spool):
    segments = sorted(path for path in spool.glob("**/*.seg") if path.stat().st_size > 100)
    return segments[-1] if segments else None


def places(first, last, everything, rng):
    """The bytes at which the record is cut."""
    if everything:
        return list(range(first, last))
    near = {first, first + 1, first + 4, first + 8, first + 47, first + 48, first + 49, last - 1}
    while len(near) < min(20, last - first):
        near.add(rng.randrange(first, last))
    return sorted(near)


def test(env, checks, arguments):
    rng = random.Random(11)
    paths = traces.paths(TRACE, env.build)
    env.make_certificates(agents=["filler"])
    truth = faulted.Truth(env, paths)
    spool = fill(env, paths)
    segment = newest_segment(spool)
    data = segment.read_bytes()
    start = data.rindex(RECORD_MAGIC)
    checks.that(data.count(RECORD_MAGIC) >= 3, f"the spool's last segment has only {data.count(RECORD_MAGIC)} records")
    cases = [("cut", at) for at in places(start, len(data), arguments.soak, rng)]
    cases += [(kind, at) for kind in ("zeros", "garbage") for at in places(start, len(data), False, rng)[::1 if arguments.soak else 4]]
    # the other files of the spool, cut in their middle and empty
    others = [path for path in spool.glob("**/*") if path.is_file() and path != segment and path.stat().st_size]
    cases += [("cut-other", (path.relative_to(spool), size)) for path in others for size in (0, path.stat().st_size // 2)]
    collector = env.new_collector().start()

    def one(number, kind, at):
        agent = f"torn-{number}"
        copy = env.folder / f"spool-{agent}"
        shutil.copytree(spool, copy)
        if not (kind == "cut-other" and at[0].name == "owner"):
            (copy / "owner").unlink()  # an older version's spool: its first user becomes its owner
        if kind == "cut-other":
            os.truncate(copy / at[0], at[1])
        else:
            target = copy / segment.relative_to(spool)
            os.truncate(target, at)
            if kind != "cut":
                rest = len(data) - at
                with open(target, "ab") as file:
                    file.write(bytes(rest) if kind == "zeros" else random.Random(at).randbytes(rest))
        what = f"{kind} at {at}"
        summary = faulted.Replay(env, paths, collector, agent, spool=copy, extra=["--batch-events", "5"]).start().finish()
        truth.check(checks, collector, agent, what)
        faulted.check_summary(checks, summary, truth.lines, what)
        shutil.rmtree(copy)
        return summary["ledger"]["spool_torn_bytes"]

    for agent in ["whole", *(f"torn-{number}" for number in range(len(cases)))]:
        env.run([env.collector, "ca", "issue", "--dir", env.certs, "--name", agent])
    copied = shutil.copytree(spool, env.folder / "spool-whole", ignore=shutil.ignore_patterns("owner"))
    whole = faulted.Replay(env, paths, collector, "whole", spool=copied,
                           extra=["--batch-events", "5"]).start().finish()
    truth.check(checks, collector, "whole", "an untouched spool")
    checks.equal(whole["ledger"]["spool_torn_bytes"], 0, "torn bytes of an untouched spool")
    torn = 0
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(one, number, kind, at) for number, (kind, at) in enumerate(cases)]
        for (kind, at), result in zip(cases, running):
            try:
                bytes_cut = result.result()
                torn += bytes_cut > 0
                if kind == "cut" and at > start:
                    checks.equal(bytes_cut, at - start, f"torn bytes that were counted, cut at {at}")
            except harness.Failure as failure:
                checks.that(False, str(failure))
    checks.that(torn >= len(cases) // 3, f"only {torn} of {len(cases)} spools were found torn")
    collector.stop()
    print(f"{len(cases)} torn spools, {torn} of them found torn; every event once in the store")


if __name__ == "__main__":
    harness.main(test, __doc__)
