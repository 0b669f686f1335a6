#!/usr/bin/env python3
"""Write access to the files that the service trusts, under Wine. Wine derives owners and access lists from this machine's owners and modes: a
file of another user belongs to S-1-5-7 there, and a file that others may write to has an entry for S-1-1-0. Needs root, to change owners.

- A folder for state that another user made before the installation is moved aside with its content. A folder that others may write to
  becomes private. A configuration of another user is refused by configure, by install, and by the starting and the running service.
- install refuses a program that others may change through its file, its folder or a parent folder, and a program on a drive that is not local.
- A plug-in and a spool's key that others may change are refused.
- The spool's keys can be decrypted only with the machine's entropy. Keys of an earlier version, which used no entropy, are rewritten when
  they are read.
- A pipe of the service's name that another process serves is not asked for the status. Commands do not wait for a service that hangs.

usage: tests/windows/test_trust.py --build build/windows [--soak]"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402
import wine  # noqa: E402
import xxh3  # noqa: E402

DATA, PROGRAMS = "C:\\ProgramData\\etwagent", "C:\\Program Files\\etwagent-test"
OTHER_USER = 65534
PROFILE = "batching: {batch-events: 100}\n"
CONFIG = "shipping: {collector: 'https://localhost:1', cert: a.crt, key: a.key, ca: ca.crt}\n"
PLANTED = CONFIG + "schemas: {plugins: 'C:\\evil'}\n"


class World:
    def __init__(self, checks, session, build):
        self.checks, self.session, self.build = checks, session, build
        self.data, self.programs = session.path(DATA), session.path(PROGRAMS)
        self.config = self.data / "etwagent.yaml"
        self.clean()
        self.programs.mkdir(parents=True)
        self.exe = self.programs / "etwagent.exe"
        shutil.copy(build / "service" / "app" / "etwagent.exe", self.exe)
        (self.programs / "default.yaml").write_text(PROFILE)

    def clean(self):
        for path in (self.programs, *self.data.parent.glob("etwagent*"), self.session.drive / "plugins"):
            shutil.rmtree(path, ignore_errors=True)

    def run(self, *words, exe=None, timeout=300):
        return self.session.run([exe or wine.windows_path(self.exe), *words], timeout=timeout)

    def configure(self, *more):
        return self.run("configure", "--collector", "https://localhost:1", "--profiles", PROGRAMS, *more)

    def refused(self, done, says, what):
        self.checks.that(done.returncode != 0 and says in done.stderr, f"{what}: expected '{says}': {done.returncode} {done.stdout}{done.stderr}")

    def state(self):
        said = self.session.run(["sc", "query", "etwagent"]).stdout
        return said.split("STATE")[1].split()[2] if "STATE" in said else "NONE"

    def log(self):
        path = self.data / "log.txt"
        return path.read_text(errors="replace") if path.exists() else ""


def state_folder(world):
    checks = world.checks
    world.data.mkdir()
    world.config.write_text(PLANTED)
    for path in (world.config, world.data):
        os.chown(path, OTHER_USER, -1)
    done = world.configure()
    aside = list(world.data.parent.glob("etwagent.untrusted-*"))
    checks.that(done.returncode == 0 and f"{DATA} belongs to S-1-5-7; expected SYSTEM or Administrators" in done.stderr and
                "and a new folder takes its place" in done.stderr, f"a planted folder: {done.returncode} {done.stderr}")
    checks.that(len(aside) == 1 and (aside[0] / "etwagent.yaml").read_text() == PLANTED, f"what was planted is aside: {aside}")
    checks.that("evil" not in world.config.read_text() and world.data.stat().st_uid == 0 and not world.data.stat().st_mode & 0o002,
                f"the new folder: {world.data.stat()} {world.config.read_text()}")
    shutil.rmtree(aside[0])

    world.data.chmod(0o777)
    done = world.configure()
    checks.that(done.returncode == 0 and f"{DATA} was open to others and is private now: S-1-1-0 may" in done.stderr, f"an open folder: {done.stderr}")
    checks.equal(world.data.stat().st_mode & 0o002, 0, "others may write to the folder afterwards")  # Wine keeps what they may read

    for change, undo, says in ((lambda: os.chown(world.config, OTHER_USER, -1), lambda: os.chown(world.config, 0, -1), "etwagent.yaml belongs to S-1-5-7; expected SYSTEM or Administrators (icacls"),
                               (lambda: world.config.chmod(0o666), lambda: world.config.chmod(0o600), "S-1-1-0 may write to C:\\ProgramData\\etwagent\\etwagent.yaml")):
        before = world.config.read_bytes()
        change()
        world.refused(world.configure("--replace"), says, "configure beside a configuration of another user")
        world.refused(world.run("install"), says, "install beside a configuration of another user")
        checks.equal(world.config.read_bytes(), before, "the configuration")
        undo()
    checks.equal(world.state(), "NONE", "a service after refused installations")


def program(world):
    checks = world.checks
    folders = (world.exe, world.programs)
    for path in folders:
        mode = path.stat().st_mode & 0o777
        path.chmod(mode | 0o002)
        world.refused(world.run("install"), f"S-1-1-0 may write to {wine.windows_path(path)}; expected", f"install with an open {path.name}")
        path.chmod(mode)
        os.chown(path, OTHER_USER, -1)
        world.refused(world.run("install"), f"{wine.windows_path(path)} belongs to S-1-5-7", f"install with {path.name} of another user")
        os.chown(path, 0, -1)
    above = world.programs / "above"
    (above / "folder").mkdir(parents=True)
    shutil.copy(world.exe, above / "folder" / "etwagent.exe")
    inner = wine.windows_path(above / "folder" / "etwagent.exe")
    above.chmod(0o777)
    world.refused(world.run("install", exe=inner), f"S-1-1-0 may write to {wine.windows_path(above)}; expected", "install below an open folder")
    above.chmod(0o755)
    checks.equal(world.state(), "NONE", "a service after refused installations")
    done = world.run("install", exe=inner)
    checks.equal(done.returncode, 0, f"install below a folder that is closed again: {done.stderr}")
    done = world.run("install")
    checks.equal(done.returncode, 0, f"install: {done.stderr}")
    shutil.rmtree(above)


def plugins(world):
    folder = world.session.drive / "plugins"
    folder.mkdir()
    file = folder / "some.dll"
    file.write_text("no library")
    trace = world.session.drive / "nothing.etl"

    def says():
        return world.run("schema", "list", "--plugins", "C:\\plugins").stderr
    for path, named in ((file, "C:\\plugins/some.dll"), (folder, "C:\\plugins")):
        mode = path.stat().st_mode & 0o777
        path.chmod(mode | 0o002)
        world.checks.that(f"plug-in some.dll is left out: S-1-1-0 may write to {named}" in says(), f"a plug-in with an open {path.name}: {says()}")
        path.chmod(mode)
        os.chown(path, OTHER_USER, -1)
        world.checks.that(f"{named} belongs to S-1-5-7" in says(), f"a plug-in with {path.name} of another user: {says()}")
        os.chown(path, 0, -1)
    world.checks.that("some.dll is left out: it is no library that can be loaded" in says(), f"a plug-in that is trusted: {says()}")
    shutil.rmtree(folder)
    trace.unlink(missing_ok=True)


def service(world):
    """The service starts with its own configuration. A reload and a start with a configuration of another user are refused."""
    checks = world.checks
    world.config.write_text(CONFIG)
    world.config.chmod(0o600)
    checks.equal(world.run("start").returncode, 0, "start")
    harness.wait_until(lambda: '"state"' in world.run("status", "--json").stdout, "a status", 60)
    os.chown(world.config, OTHER_USER, -1)
    world.run("reload")
    harness.wait_until(lambda: "etwagent.yaml belongs to S-1-5-7; expected SYSTEM or Administrators (icacls" in world.log(), "the refusal in the log", 60, lambda: world.log())
    world.run("stop")
    world.run("start")
    harness.wait_until(lambda: world.state() == "STOPPED", "the service to end", 60)
    os.chown(world.config, 0, -1)
    checks.equal(world.run("start").returncode, 0, "start with its own configuration again")


def secrets(world):
    """A spool's keys: made without entropy by an earlier version, read, and from then on of use with the machine's entropy alone."""
    checks, store = world.checks, world.build / "tests" / "windows" / "storectl.exe"
    lines = b"etwagent spool keys 1\n" + b"5a" * 32 + b"\n"
    plain, keys, entropy = world.programs / "plain", world.programs / "spool.keys", world.data / "dpapi-entropy"
    plain.write_bytes(lines + b"end %016x\n" % xxh3.xxh3(lines, 0x7379656b))
    (world.programs / "spool").mkdir()

    def read():
        return world.run("spool", "list", "--spool", f"{PROGRAMS}\\spool", "--spool-key", f"{PROGRAMS}\\spool.keys")

    def opens():
        return world.session.run([store, "opens", wine.windows_path(keys)]).stdout.strip()
    made = world.session.run([store, "protect", wine.windows_path(plain), wine.windows_path(keys)])
    checks.equal((made.returncode, opens(), entropy.exists()), (0, "yes", False), "keys of an earlier version")
    keys.chmod(0o604)
    world.refused(read(), "S-1-1-0 may read or write C:\\Program Files\\etwagent-test\\spool.keys", "keys that others may read")
    keys.chmod(0o600)
    done = read()
    checks.equal((done.returncode, opens()), (0, "no"), f"keys that were read once: {done.stderr}")
    checks.equal((len(entropy.read_bytes()), entropy.stat().st_mode & 0o007), (32, 0), "the machine's entropy")
    written, kept = keys.read_bytes(), entropy.read_bytes()
    checks.equal((read().returncode, keys.read_bytes()), (0, written), "read again: nothing is written")
    entropy.chmod(0o604)
    world.refused(read(), "S-1-1-0 may read or write C:\\ProgramData\\etwagent\\dpapi-entropy", "entropy that others may read")
    entropy.chmod(0o600)
    for other, says in ((bytes(32), "this machine did not make the file"), (kept[:31], "expected 32 bytes, found 31")):
        entropy.write_bytes(other)
        world.refused(read(), says, f"other entropy of {len(other)} bytes")
    entropy.unlink()
    world.refused(read(), "this machine did not make the file", "no entropy")
    checks.equal(entropy.exists(), False, "entropy that reading makes")
    entropy.write_bytes(kept)
    entropy.chmod(0o600)
    checks.equal((read().returncode, keys.read_bytes()), (0, written), "the right entropy again")


def pipe(world):
    """Status is asked of the service alone, and not for ever. The service runs when this begins."""
    checks = world.checks
    process, = world.session.processes("etwagent.exe")
    os.kill(process, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = world.run("status", "--json", timeout=60)
        took = time.monotonic() - began
        checks.that("expected an answer within 5000 ms; what follows is from the status file" in done.stderr and took < 20, f"a service that hangs: {took:.1f} s {done.stderr}")
    finally:
        os.kill(process, signal.SIGCONT)
    world.run("stop")
    squatter = subprocess.Popen(world.session.command([world.build / "tests" / "windows" / "faultctl.exe", "squat", "\\\\.\\pipe\\etwagent"]),
                                env=world.session.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        checks.equal(squatter.stdout.readline().strip(), b"ready", "the other server")
        for running in (False, True):
            if running:
                world.run("start")
            done = world.run("status", "--json")
            checks.that("forged" not in done.stdout, f"the other server is believed: {done.stdout}")
            checks.that("is served by process" in done.stderr and ("(0: it does not run)" in done.stderr) and
                        ("is process 0 " in done.stderr) != running, f"the other server is named, the service {'runs' if running else 'does not run'}: {done.stderr}")
    finally:
        world.session.run([world.build / "tests" / "windows" / "faultctl.exe", "end", "faultctl.exe", "0"])
        squatter.kill()
        squatter.wait()


def network_drive(world):
    """A drive letter that is another machine's."""
    world.session.run(["reg", "add", "HKLM\\Software\\Wine\\Drives", "/v", "z:", "/d", "network", "/f"])
    try:
        world.session.end()
        world.session.begin()
        copy = pathlib.Path(world.session.prefix) / "on-z.exe"
        shutil.copy(world.exe, copy)
        world.refused(world.run("install", exe="Z:" + str(copy).replace("/", "\\")), "on a drive of kind 4 (a network's, a removable one); expected a local, fixed drive", "install from a network's drive")
        copy.unlink()
    finally:
        world.session.run(["reg", "delete", "HKLM\\Software\\Wine\\Drives", "/v", "z:", "/f"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder of the preset windows")
    parser.add_argument("--native", type=pathlib.Path, help="accepted; not needed")
    parser.add_argument("--soak", action="store_true", help="accepted; there is one form")
    arguments = parser.parse_args()
    checks = harness.Checks()
    if os.geteuid() != 0:
        print("FAILED: this test gives files to another user: run it as root")
        sys.exit(1)
    try:
        with wine.Session(arguments.build.resolve()) as session:
            world = World(checks, session, arguments.build.resolve())
            try:
                for part in (state_folder, program, plugins, secrets, service, pipe, network_drive):
                    part(world)
            finally:
                session.run(["sc", "stop", "etwagent"])
                session.run(["sc", "delete", "etwagent"])
                world.clean()
    except (harness.Failure, subprocess.TimeoutExpired, TimeoutError) as failure:
        checks.that(False, str(failure))
    sys.exit(checks.finish())


if __name__ == "__main__":
    main()
