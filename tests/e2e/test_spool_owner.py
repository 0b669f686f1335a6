"""A spool belongs to the name of a certificate: its batches are sent under that name and no other.

- Two replays of two machines to the same folder, the first without a collector: each machine's events are stored once, under its own
  name. `spool list`, `verify` and `drain` print the owner of the waiting batches. `drain` sends the batches of the certificate's own
  name; with --from, it sends those of another name.
- A renewed certificate of the name, also with other upper and lower case, has the same spool.
- A spool of an older version, without an owner, becomes that of the first certificate, with a line in the log.
- A kill between any two steps of a spool's creation loses nothing. A damaged owner file is reported, and no batch is sent under an
  unproved name.
- Names that no collector accepts are refused before anything is written; names that Windows reserves for devices work as folders.
- When a certificate of another name replaces the certificate of a running agent, the agent sends nothing.
"""
import json
import shutil
import subprocess

import faulted
import harness
import receiver
import traces

FIRST, SECOND = "clr-gc-events", "amsi-eventslost"
SMALL = ["--batch-events", "5"]


class NoCollector:
    url = "https://localhost:1"


def listed(env, spool):
    """Batches that wait, by the name that they are for."""
    waiting = {}
    for row in json.loads(env.run([env.agent, "spool", "list", "--json", "--spool", spool]).stdout):
        waiting[row["owner"]] = waiting.get(row["owner"], 0) + row["waiting"]
    return {owner: count for owner, count in waiting.items() if count}


def leave(env, agent, spool, trace=FIRST):
    """A replay without a collector; how many batches it left."""
    with faulted.Replay(env, traces.paths(trace, env.build), NoCollector(), agent, spool=spool, extra=[*SMALL, "--give-up", "0"]) as run:
        wanted = -(-traces.event_count(trace) // 5)
        full = receiver.sleep_until(lambda: (spool / "owner").exists() and listed(env, spool).get(agent.lower(), 0) >= wanted
                                    or not run.running(), 30)
        if not full or not run.running():
            raise harness.Failure(f"{agent} left {listed(env, spool)} of {wanted} batches: {run.messages()}")
    return wanted


def drain(env, collector, agent, spool, *extra):
    return env.run([env.agent, "spool", "drain", "--collector", collector.url, "--cert", env.certs / f"{agent}.crt", "--key",
                    env.certs / f"{agent}.key", "--ca", env.certs / "ca.crt", "--spool", spool, *extra], check=False)


def two_names(env, checks, collector, first, second):
    spool = env.folder / "shared"
    left = leave(env, "alpha", spool)
    run = faulted.Replay(env, traces.paths(SECOND, env.build), collector, "beta", spool=spool, extra=SMALL).start()
    summary = run.finish()
    faulted.check_summary(checks, summary, second.lines, "the second name's replay")
    checks.that(f"the spool {spool} is that of 'alpha'; batches of 'beta' are kept in {spool}/of-beta.spool" in run.messages(),
                f"the second name's place: {run.messages()}")
    second.check(checks, collector, "beta", "the second name's replay")
    checks.equal(first.stored(collector, "alpha")[0], 0, "events of the first name while its certificate was not used")
    checks.equal(listed(env, spool), {"alpha": left}, "what waits, by name")
    shown = env.run([env.agent, "spool", "list", "--spool", spool]).stdout
    checks.that(" of 'alpha'" in shown, f"spool list's text: {shown}")
    verified = env.run([env.agent, "spool", "verify", "--spool", spool]).stdout
    checks.that(f"{spool}, of 'alpha':" in verified and f"{spool}/of-beta.spool, of 'beta':" in verified, f"spool verify's text: {verified}")
    drained = drain(env, collector, "beta", spool)
    checks.that(drained.returncode == 0 and drained.stdout.startswith("0 batches were sent") and
                f"{left} batches in {spool} are those of 'alpha', and were not sent" in drained.stderr, f"another name's drain: {drained}")
    none = drain(env, collector, "gamma", spool)
    checks.that(none.returncode == 1 and "it is that of 'alpha', and there is none of 'gamma' in it" in none.stderr, f"a third name's drain: {none}")
    env.run([env.collector, "ca", "issue", "--dir", env.certs, "--name", "alpha", "--force"], check=False)  # renewed
    drained = drain(env, collector, "alpha", spool)
    checks.that(drained.returncode == 0 and drained.stdout.startswith(f"{left} batches were sent"), f"its own name's drain: {drained}")
    first.check(checks, collector, "alpha", "the first name's spool")
    checks.equal(listed(env, spool).get("alpha", 0), 0, "left after its own name's drain")


def renamed(env, checks, collector, first):
    spool = env.folder / "renamed"
    left = leave(env, "before", spool)
    wrong = drain(env, collector, "after", spool, "--from", "absent")
    checks.that(wrong.returncode == 1 and "there is none of 'absent' in it" in wrong.stderr, f"a name without a spool: {wrong}")
    refused = drain(env, collector, "after", spool)
    checks.that(refused.returncode == 1 and "--from before" in refused.stderr, f"a renamed machine is helped: {refused}")
    drained = drain(env, collector, "after", spool, "--from", "before")
    checks.that(drained.returncode == 0 and drained.stdout.startswith(f"{left} batches were sent"), f"a renamed machine's drain: {drained}")
    first.check(checks, collector, "after", "a renamed machine's spool")
    checks.equal(first.stored(collector, "before")[0], 0, "events under the name before")


def adopted(env, checks, collector, first):
    spool = env.folder / "older"
    left = leave(env, "alpha", spool)
    (spool / "owner").unlink()
    drained = drain(env, collector, "older", spool)
    checks.that(drained.returncode == 0 and f"its {left} batches are sent as those of 'older'" in drained.stderr, f"an older version's spool: {drained}")
    first.check(checks, collector, "older", "an older version's spool")
    checks.equal((spool / "owner").read_text().splitlines()[:2], ["etwagent spool owner 1", "name older"], "its owner then")


def creation(env, checks, collector, second):
    """What a kill leaves between two steps: the folder, its lock, half of the owner's file, the owner without a state."""
    owner = (env.folder / "shared" / "owner").read_bytes()
    steps = {"folder": {}, "lock": {"lock": b""}, "torn": {"lock": b"", "owner.tmp": owner[:20]}, "owned": {"lock": b"", "owner": owner}}
    for step, files in steps.items():
        spool = env.folder / f"step-{step}"
        spool.mkdir()
        for name, data in files.items():
            (spool / name).write_bytes(data)
        agent = f"step-{step}"
        faulted.Replay(env, traces.paths(SECOND, env.build), collector, agent, spool=spool, extra=SMALL).start().finish()
        second.check(checks, collector, agent, f"a spool whose creation was killed: {step}")
        place = spool / f"of-{agent}.spool" if step == "owned" else spool
        checks.that(f"name {agent}\n" in (place / "owner").read_text() and not (spool / "owner.tmp").exists(), f"{step}: {list(spool.glob('**/*'))}")


def damaged(env, checks, collector, second):
    spool = env.folder / "damaged"
    left = leave(env, "alpha", spool)
    owner = (spool / "owner").read_text()
    (spool / "owner").write_text(owner.replace("alpha", "gamma"))
    run = faulted.Replay(env, traces.paths(SECOND, env.build), collector, "gamma", spool=spool, extra=SMALL).start()
    run.finish()
    checks.that("read the spool's owner in" in run.messages() and "the file is damaged" in run.messages(), f"a damaged owner: {run.messages()}")
    second.check(checks, collector, "gamma", "beside a spool with a damaged owner")
    checks.equal(listed(env, spool), {"": left}, "what waits for an unknown name")
    verified = env.run([env.agent, "spool", "verify", "--spool", spool], check=False)
    checks.that(verified.returncode == 3 and "the file is damaged" in verified.stderr, f"verify of a damaged owner: {verified}")


def names(env, checks, collector, first):
    for number, name in enumerate(["..\\/evil", "a b", ".hidden", "caf\u00e9", "x" * 64 + "/OU=y"]):
        cert, key = env.certs / f"hostile-{number}.crt", env.certs / f"hostile-{number}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                        "-utf8", "-subj", f"/CN={name}"], check=True, capture_output=True)
        spool = env.folder / f"hostile-{number}"
        done = env.run(env.replay_command(traces.paths(SECOND, env.build), NoCollector(), agent=f"hostile-{number}", spool=spool,
                                          extra=["--give-up", "100ms"]), check=False)
        if len(name) > 60:  # it is a good name
            checks.that(done.returncode == 1 and (spool / "owner").exists(), f"{name!r}: {done}")
        else:
            checks.that(done.returncode == 1 and "found one that no collector accepts" in done.stderr and not spool.exists(), f"{name!r}: {done}")
    checks.that(not list(env.folder.parent.glob("evil*")), "a name is no path")
    # another case is the same name; CON is a device on Windows, and its folder is not called that
    spool = env.folder / "case"
    left = leave(env, "alpha", spool)
    checks.equal(leave(env, "CON", spool), left, "batches of CON")
    checks.equal(listed(env, spool), {"alpha": left, "con": left}, "what waits, by name")
    checks.that((spool / "of-con.spool" / "owner").exists(), f"{list(spool.iterdir())}")
    drained = drain(env, collector, "CON", spool)
    checks.that(drained.stdout.startswith(f"{left} batches were sent"), f"CON's drain: {drained}")
    first.check(checks, collector, "con", "a name in capitals")


def replaced(env, checks, collector, second):
    """The certificate's file becomes another name's while its agent runs."""
    for end in ("crt", "key"):
        shutil.copy(env.certs / f"swap-one.{end}", env.certs / f"swapped.{end}")

    def busy_once(exchange):  # each request needs a new connection
        exchange.read_body()
        exchange.answer(503, headers=[("Connection", "close")])
        exchange.keep_open = False

    with receiver.Receiver(env.certs, busy_once) as busy, faulted.Replay(env, traces.paths(SECOND, env.build), busy, "swapped", spool=env.folder / "swapped",
                                      extra=[*SMALL, "--give-up", "1m", "--retry-max", "300ms"]) as run:
        receiver.sleep_until(lambda: "trying again" in run.messages() or not run.running(), 20)
        for end in ("crt", "key"):
            shutil.copy(env.certs / f"swap-two.{end}", env.certs / f"swapped.{end}")
        checks.that(run.wait(30) == 1 and "is of 'swap-two' now, and the spool's batches are those of 'swap-one'" in run.messages(),
                    f"a certificate of another name: {run.messages()}")


def test(env, checks, arguments):
    env.make_certificates(agents=["alpha", "beta", "gamma", "before", "after", "older", "CON", "swap-one", "swap-two",
                                  *(f"step-{step}" for step in ("folder", "lock", "torn", "owned"))])
    first, second = (faulted.Truth(env, traces.paths(trace, env.build)) for trace in (FIRST, SECOND))
    collector = env.new_collector().start()
    two_names(env, checks, collector, first, second)
    renamed(env, checks, collector, first)
    adopted(env, checks, collector, first)
    creation(env, checks, collector, second)
    other = env.new_collector("names").start()  # names that the first one has
    damaged(env, checks, other, second)
    names(env, checks, other, first)
    replaced(env, checks, other, second)
    collector.stop()
    other.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
