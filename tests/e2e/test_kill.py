"""kill -9 of the collector and of the agent in the middle of a replay, again and again: in the end every event is in the
store exactly once.
"""
import random
import signal
import subprocess
import time

import harness
import test_identity
import traces

TRACE = "clr-kernel-win8-x64"


def round_of_kills(env, checks, kills, victim, seed):
    """Replays with small batches; kills the victim at random moments, restarts it, lets the last attempt finish."""
    rng = random.Random(seed)
    paths = traces.paths(TRACE, env.build)
    agent = f"killed-{victim}"
    spool = env.folder / f"spool-{victim}"
    collector = env.new_collector(f"collector-{victim}").start()
    # about 360 batches, so that a kill falls between any two steps
    command = env.replay_command(paths, collector, agent=agent, spool=spool, extra=["--batch-events", "500"])

    def replay():
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    process = replay()
    done = 0
    for _ in range(kills):
        time.sleep(rng.uniform(0.01, 0.25))
        if process.poll() is not None:
            # finished before the kill: begin once more with another spool and the same store, as a cloned disk would
            process.stderr.close()
            if process.returncode != 0:
                raise harness.Failure(f"replay ended with {process.returncode}")
            process = replay()
            continue
        done += 1
        if victim == "agent":
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stderr.close()
            process = replay()
        else:
            collector.kill()
            time.sleep(rng.uniform(0, 0.1))
            collector.start()
    try:
        errors = process.communicate(timeout=300)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise harness.Failure(f"the replay did not end after the kills of the {victim}")
    checks.equal(process.returncode, 0, f"exit code of the last replay ({errors.decode(errors='replace')[-600:]})")
    checks.that(done > 0, f"no kill of the {victim} fell into a replay")
    dumped = test_identity.digest([env.agent, "dump", "--format", "jsonl", "--raw", *paths])
    exported = test_identity.digest([env.collector, "export", "--store", collector.store, "--host", agent,
                                     "--format", "jsonl", "--raw", "--verify"])
    checks.that(dumped == exported, f"after {done} kills of the {victim}: {dumped[:2]} dumped, {exported[:2]} stored")
    print(f"{done} kills of the {victim} in mid-replay, {exported[0]} events once in the store")
    collector.stop()


def test(env, checks, arguments):
    env.make_certificates(agents=["killed-agent", "killed-collector"])
    kills = 100 if arguments.soak else 12
    for victim in ("agent", "collector"):
        round_of_kills(env, checks, kills, victim, seed=7)


if __name__ == "__main__":
    harness.main(test, __doc__)
