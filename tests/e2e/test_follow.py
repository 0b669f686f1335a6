"""Traces that grow while they are read: `dump`, `stats` and `replay` with --follow end when the session does. Their results are
those of a reading of the finished file. Ctrl-C ends dump and stats, which print the results of the events up to then. A replay that
was interrupted continues where it ended.

# sanitizers: asan-ubsan
"""
import json
import signal
import subprocess

import harness

RECORDS, BATCH_EVENTS = 30000, 1000


class Writer:
    """A session that writes its file slowly, in about three seconds. It writes the second half only after finish() is called, so that it
    still runs while the test reads, however long that takes."""

    def __init__(self, env, name, *options):
        self.path = env.folder / name
        self.process = subprocess.Popen([str(c) for c in
                                         [env.build / "tests" / "e2e" / "scale_etl", "write", "--records", RECORDS, "--pause", "10ms",
                                          "--pause-every", "100", "--wait-at", RECORDS // 2, *options, self.path]], stdin=subprocess.PIPE)
        wait_until(lambda: self.path.exists() and self.path.stat().st_size > 0, "the trace's beginning")

    def finish(self):
        self.process.stdin.close()
        if self.process.wait(timeout=120) != 0:
            raise harness.Failure("the writer failed")

    def kill(self):
        self.process.kill()
        self.process.wait()


def wait_until(condition, what):
    harness.wait_until(condition, what, 60)


def start(command, output):
    with open(output, "wb") as out, open(f"{output}.err", "wb") as err:
        return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err)


def end(checks, process, output, what, code=0):
    checks.equal(process.wait(timeout=120), code, f"{what}: exit code; {open(f'{output}.err').read()[-1000:]}")
    return output.read_text()


def without_header(text):
    """The lines of a dump but the header event's, which comes when the session has ended."""
    lines = text.splitlines()
    left = [line for line in lines if json.loads(line)["name"] != "EventTrace/Header"]
    if len(left) != len(lines) - 1:
        raise harness.Failure(f"{len(lines) - len(left)} header events")
    return left


def finished(env, checks, options, name):
    """The session ends, and so do those who follow it."""
    writer = Writer(env, f"{name}.etl", *options)
    dump_out, stats_out = env.folder / f"{name}.dump", env.folder / f"{name}.stats"
    dump = start([env.agent, "dump", "--format", "raw", "--follow", writer.path], dump_out)
    stats = start([env.agent, "stats", "--json", "--follow", writer.path], stats_out)
    wait_until(lambda: dump_out.stat().st_size > 0, "the first lines")
    checks.that(writer.process.poll() is None, f"{name}: the first lines came when the session was over")
    writer.finish()
    followed = end(checks, dump, dump_out, f"{name}: dump --follow")
    counted = json.loads(end(checks, stats, stats_out, f"{name}: stats --follow"))
    plain = env.run([env.agent, "dump", "--format", "raw", writer.path]).stdout
    checks.equal(len(without_header(plain)), RECORDS, f"{name}: records in the file")
    # patience may let a buffer's records come late; none may be missing, none may come twice
    checks.that(sorted(followed.splitlines()) == sorted(plain.splitlines()), f"{name}: dump --follow prints other records")
    checks.equal((counted["events"], counted["bad_bytes"], counted["damage"]["places"]), (RECORDS + 1, 0, 0), f"{name}: stats --follow")
    checks.that(counted["files"][0]["end"] is not None, f"{name}: stats --follow has no end time")


def interrupted(env, checks):
    """The session never ends: Ctrl-C does."""
    writer = Writer(env, "endless.etl", "--unfinished")
    dump_out, stats_out = env.folder / "endless.dump", env.folder / "endless.stats"
    dump = start([env.agent, "dump", "--format", "raw", "--follow", writer.path], dump_out)
    stats = start([env.agent, "stats", "--json", "--follow", writer.path], stats_out)
    writer.finish()
    wait_until(lambda: dump_out.read_text().count("\n") == RECORDS, "all lines, though the session has not ended")
    for process in (dump, stats):
        checks.that(process.poll() is None, "it ended before the session and without Ctrl-C")
        process.send_signal(signal.SIGINT)
    end(checks, dump, dump_out, "dump after Ctrl-C")
    counted = json.loads(end(checks, stats, stats_out, "stats after Ctrl-C"))
    checks.equal((counted["events"], counted["files"][0]["end"]), (RECORDS, None), "stats after Ctrl-C")


def shipped(env, checks):
    """A replay follows the trace, is interrupted, and goes on twice: while the trace grows and when it is finished."""
    env.make_certificates(agents=["machine-a"])
    collector = env.new_collector().start()
    writer = Writer(env, "shipped.etl")
    command = env.replay_command([writer.path], collector, agent="machine-a",
                                 extra=["--follow", "--json", "--batch-events", str(BATCH_EVENTS)])

    def stored():
        rows = collector.ask_json("hosts")["streams"] if any((collector.store / "segments").glob("*.seg")) else []
        return sum(row["events"] for row in rows)

    output = env.folder / "replay.out"
    for batches in (2, 4):
        goal = stored() + batches * BATCH_EVENTS  # of this replay: one that stores has set its handler of Ctrl-C
        replay = start(command, output)
        wait_until(lambda: stored() >= goal, f"{goal} stored events")
        checks.that(writer.process.poll() is None, f"{goal} events came when the session was over")
        replay.send_signal(signal.SIGINT)
        end(checks, replay, output, "replay after Ctrl-C", code=1)
        checks.equal(stored() % BATCH_EVENTS, 0, "events after Ctrl-C: whole batches only")
    replay = start(command, output)
    writer.finish()
    summary = json.loads(end(checks, replay, output, "replay --follow"))
    checks.equal((summary["complete"], summary["events"], summary["damaged_places"]), (True, RECORDS + 1, 0), "replay --follow")
    checks.that(summary["batches_from_before"] >= 6, f"batches from before: {summary['batches_from_before']}")
    again = json.loads(env.run(command).stdout)
    checks.equal((again["stream"], again["batches"], again["complete"]), (summary["stream"], summary["batches"], True),
                 "the same command when all is over")
    checks.equal(stored(), RECORDS + 1, "stored events after it")
    collector.stop()
    checks.equal(len(collector.ask_json("hosts")["streams"]), 1, "streams")
    exported = collector.ask("export", "--host", "machine-a", "--format", "raw", "--verify")
    plain = env.run([env.agent, "dump", "--format", "raw", writer.path]).stdout
    checks.that(without_header(exported) == without_header(plain) and sorted(exported.splitlines()) == sorted(plain.splitlines()), "what the collector has is not what the finished trace has, in its order")


def refused(env, checks):
    missing = env.run([env.agent, "dump", "--follow", env.folder / "nothing.etl"], check=False)
    checks.equal((missing.returncode, missing.stderr.count("\n")), (1, 1), f"a file that is not there: {missing.stderr}")
    (env.folder / "empty.etl").write_bytes(b"")
    empty = env.run([env.agent, "dump", "--follow", env.folder / "empty.etl"], check=False)
    checks.equal((empty.returncode, empty.stderr.count("\n")), (3, 1), f"an empty file: {empty.stderr}")


def test(env, checks, arguments):
    finished(env, checks, [], "plain")
    finished(env, checks, ["--compressed", "--cpus", "2"], "compressed")
    interrupted(env, checks)
    shipped(env, checks)
    refused(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
