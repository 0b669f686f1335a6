"""A store that this user may not read: each command gives the operating system's reason, and none says that there is no store or that
something in it is damaged. A store that is not there is not made by a command that only reads or removes.

As root the commands run as another user, as permissions do not bind root.
"""
import os
import shutil

import harness
import traces

HOST, TRACE, OTHER = "closed-host", "amsi-eventslost", 65534
REASON, MISSING = "Permission denied", "there is no store"


def commands(store, target, agent):
    """Each command that reads a store."""
    of_host = ["--store", store, "--host", HOST]
    return [["hosts", "--store", store], ["query", "--store", store, "SELECT count(*) FROM hosts"], ["query", *of_host, "SELECT 1"],
            ["ps", *of_host, "--at", "end"], ["modules", *of_host, "--pid", "4"], ["where", *of_host, "--pid", "4", "0x1000"],
            ["profile", "--store", store], ["ledger", "--store", store], ["export", *of_host], ["doctor", "--store", store],
            ["forget", *of_host, "--dry-run"], ["forget", *of_host], ["quota", "--store", store], ["backup", "--store", store, "--to", target],
            ["restore", "--from", store, "--store", target], ["audit", "verify", "--store", store],
            ["token", "list", "--store", store], ["token", "revoke", "--store", store, agent]]


def test(env, checks, _):
    env.make_certificates([HOST])
    collector = env.new_collector("collector", ["--web", "127.0.0.1:0"]).start()
    env.replay(traces.paths(TRACE, env.build), collector, agent=HOST, spool=env.folder / "spool")
    env.run([env.collector, "token", "add", "--store", collector.store, "--name", "reader"])
    collector.stop()
    backup = env.folder / "backup"
    env.run([env.collector, "backup", "--store", collector.store, "--to", backup])
    program, target = env.folder / "program" / "etwcollector", env.folder / "open" / "target"
    program.parent.mkdir()
    target.parent.mkdir()
    shutil.copy(env.collector, program)
    os.chmod(program.parent, 0o755)
    os.chmod(target.parent, 0o777)
    os.chmod(env.folder, 0o711)
    user = {"user": OTHER, "group": OTHER, "extra_groups": []} if os.geteuid() == 0 else {}
    closed = [("a folder", [collector.store]), ("files", [path for path in collector.store.iterdir() if path.is_file()])]
    for what, paths in closed:
        modes = [(path, path.stat().st_mode) for path in [collector.store, backup, *paths]]
        for path, _ in modes:
            os.chmod(path, 0o755 if path.is_dir() and path not in paths and path != backup else 0)
        for command in commands(collector.store, target, "reader"):
            if command[0] == "restore":
                command = ["restore", "--from", backup, "--store", target]
            done = env.run([program, *command], check=False, **user)
            said = done.stdout + done.stderr
            checks.that(done.returncode != 0 and REASON in said and MISSING not in said and "damaged" not in said and "no whole backup" not in said,
                        f"{what}: {' '.join(map(str, command[:2]))}: {done.returncode} {said[:300]}")
        for path, mode in modes:
            os.chmod(path, mode)
    done = env.run([env.collector, "query", "--store", collector.store, "SELECT count(*) FROM hosts"], check=False)
    checks.equal(done.returncode, 0, f"the store afterwards: {done.stderr}")
    absent = env.folder / "absent"
    for command in commands(absent, target, "reader"):
        if command[0] in ("audit", "restore", "token"):
            continue
        done = env.run([env.collector, *command], check=False)
        checks.that(done.returncode != 0 and MISSING in done.stdout + done.stderr, f"no store: {command[0]}: {done.returncode} {done.stderr[:300]}")
        checks.that(not absent.exists(), f"{command[0]} makes no store")


if __name__ == "__main__":
    harness.main(test, __doc__)
