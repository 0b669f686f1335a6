#!/usr/bin/env python3
"""The shipped program as a service under Wine, from its MSI to its removal, beside a native collector: it starts without a
certificate and without the collector, logs each of these once, and ships every event of a real trace exactly as a native replay does.
Stop, kill, the end of the whole session and an upgrade in place lose nothing. A reload restarts only what differs. Removal
keeps the files that the manual names.

usage: tests/windows/test_service.py --build build/windows --native build/dev [--soak]"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import disk  # noqa: E402
import harness  # noqa: E402
import traces  # noqa: E402
import wine  # noqa: E402

ONE, TWO, LONG, LATE = "amsi-eventslost", "clr-32bit", "kernel-network-provider", "shutdown-win10"
BUILD_MSI = ROOT / "installer" / "windows" / "build_msi.py"
DATA, PROGRAMS = "C:\\ProgramData\\etwagent", "C:\\Program Files\\etwagent"
MESSAGE_FILE = "%SystemRoot%\\System32\\EventCreate.exe"
WAIT_S = 240


class Service:
    """The installed service, its configuration and what it says."""

    def __init__(self, env, session, collector, host):
        self.env, self.session, self.collector, self.host = env, session, collector, host
        self.data = session.path(DATA)
        self.exe = f"{PROGRAMS}\\etwagent.exe"

    def run(self, *words, check=True):
        done = self.session.run([self.exe, *words])
        if check and done.returncode:
            raise harness.Failure(f"etwagent {' '.join(words)} ended with {done.returncode}: {done.stderr}\n{self.log()}")
        return done

    def sc(self, *words):
        return self.session.run(["sc", *words])

    def state(self):
        said = self.sc("query", "etwagent").stdout
        return said.split("STATE")[1].split()[2] if "STATE" in said else "NONE"

    def log(self):
        try:
            return (self.data / "log.txt").read_text(errors="replace")[-6000:]
        except FileNotFoundError:
            return ""

    def wait(self, condition, what):
        harness.wait_until(condition, what, WAIT_S, lambda: f"; the service says:\n{self.log()}")

    def wait_said(self, words):
        self.wait(lambda: words in self.log(), f"'{words}' in the log")

    def status(self):
        done = self.run("status", "--json", check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def sources(self):
        return {source["name"]: source for source in self.status().get("sources", [])}

    def wait_shipped(self, *names):
        self.wait(lambda: all(self.sources().get(name, {}).get("state") == "shipped" for name in names), f"{names} to be shipped")

    def configure(self, sources, extra=()):
        lines = ["labels: {system: '${machine.os}', cpus: '${machine.cpus}'}", "service:", "  status-every: 200ms", "shipping:", f"  collector: {self.collector.url}",
                 *(f"  {name}: {json.dumps(DATA + chr(92) + file)}" for name, file in
                   (("cert", "agent.crt"), ("key", "agent.key"), ("ca", "ca.crt"))), "  retry-max: 500ms", "  on-metered: slow", *extra]
        lines += ["batching:", "  batch-events: 250"]
        if sources:
            lines.append("sources:")
        for name, (trace, speed) in sources.items():
            lines += [f"  - name: {name}", f"    speed: {speed}", "    files:"]
            lines += [f"      - {json.dumps(wine.windows_path(path))}" for path in traces.paths(trace, self.env.build)]
        (self.data / "etwagent.yaml").write_text("\n".join(lines) + "\n")

    def give_certificate(self):
        for kind in ("crt", "key"):
            shutil.copyfile(self.env.certs / f"{self.host}.{kind}", self.data / f"agent.{kind}")

    def kill(self):
        for process in self.session.processes("etwagent.exe"):
            os.kill(process, signal.SIGKILL)
        self.wait(lambda: not self.session.processes("etwagent.exe"), "the process to be gone")

    def begin_again(self):
        """The whole session ends at once and a new one begins, in which the service runs."""
        self.session.end()
        self.session.begin()
        if self.state() != "RUNNING":
            self.run("start")

    def wait_delivered(self, name, what):
        self.wait(lambda: self.sources().get(name, {}).get("events_delivered", 0) > 0, what)


def msi(session, what, package, **properties):
    done = session.run(["msiexec", what, wine.windows_path(package), "/qn", *(f"{name}={value}" for name, value in properties.items())])
    if done.returncode:
        raise harness.Failure(f"msiexec {what} {package.name} ended with {done.returncode}: {done.stdout}{done.stderr}")


def build_msi(env, build, version):
    package = env.folder / f"etwagent-{version}.msi"
    env.run([sys.executable, BUILD_MSI, "--exe", build / "service" / "app" / "etwagent.exe",
             "--version", version, "--output", package])
    return package


def check_tables(env, checks, build, package):
    """What the package has beside files."""
    def rows(table):
        return [line.rstrip("\r").split("\t") for line in env.run(["msiinfo", "export", package, table]).stdout.split("\n")[3:] if line.strip()]
    tables = env.run(["msiinfo", "tables", package]).stdout.split()
    checks.equal([t for t in tables if t.startswith("MsiServiceConfig")], [], "tables whose restart actions fail on Windows; etwagent install sets what they would")
    actions = {line.split("\t")[0]: line.split("\t")[3] for line in env.run(["msiinfo", "export", package, "CustomAction"]).stdout.splitlines()[3:] if line.strip()}
    checks.equal(actions["CompleteService"], "install", "the action that sets recovery, delayed start, SID and privileges")
    for version in ("256.0.0", "1.256.0", "1.2.65536", "1.2", "1.2.3.4"):
        refused = env.run([sys.executable, BUILD_MSI, "--exe", package, "--version", version, "--output", env.folder / "refused.msi"], check=False)
        checks.that(refused.returncode and "up to 255.255.65535" in refused.stderr, f"version {version}: {refused.returncode} {refused.stderr}")
    checks.equal(dict(row[:2] for row in rows("Property"))["MSIRESTARTMANAGERCONTROL"], "Disable", "the Restart Manager, which would stop other services")
    files = {row[2].split("|")[-1] for row in rows("File")}
    # what Windows Installer compares with the program on disk, before an upgrade removes that
    versions = {row[0]: tuple(map(int, row[4].split("."))) for row in rows("File") if row[4]}
    program = (build / "service" / "app" / "etwagent.exe").read_bytes()
    at = program.index(struct.pack("<II", 0xFEEF04BD, 0x10000))  # VS_FIXEDFILEINFO
    high, low = struct.unpack_from("<II", program, at + 8)
    on_disk = high >> 16, high & 0xffff, low >> 16, low & 0xffff
    checks.that(on_disk > (0, 0, 0, 0) and versions.get("EtwagentExe", ()) > on_disk, f"the program's version {on_disk}, in the package {versions}: an upgrade would leave it out")
    scripts = {path.name for path in (ROOT / "installer" / "windows").glob("runbook*.ps1")}
    checks.equal((len(scripts), scripts - files), (3, set()), "scripts of the runbook that the package lacks")
    message_files = [row[4] for row in rows("Registry") if row[3] == "EventMessageFile"]
    checks.equal(message_files, ["#%" + MESSAGE_FILE], "the message file, which no upgrade replaces")
    # No property of a user reaches the system's part of a repair, no property is on a command line, and a repair writes no configuration.
    secure = dict(row[:2] for row in rows("Property"))["SecureCustomProperties"].split(";")
    checks.equal(sorted(secure), ["WIX_DOWNGRADE_DETECTED", "WIX_UPGRADE_DETECTED"], "SecureCustomProperties")
    conditions = {row[0]: row[1] for row in rows("InstallExecuteSequence")}
    wanted = "NOT Installed AND (COLLECTORURL OR TOKEN)"
    checks.equal({name: conditions[name] for name in ("GiveConfiguration", "WriteConfiguration")},
                 {"GiveConfiguration": wanted, "WriteConfiguration": wanted}, "when a configuration is written")
    programs = {row[0]: row[3] for row in rows("CustomAction") if int(row[1]) & 0x3f not in (1, 51)}
    checks.that(len(programs) == 5 and not any("[" in words or '"' in words for words in programs.values()), f"command lines of actions: {programs}")


def raw(env, names):
    """The records of some traces, as lines."""
    lines = []
    for name in names:
        done = env.run([env.agent, "dump", "--format", "raw", *traces.paths(name, env.build)])
        lines += done.stdout.splitlines()
    return sorted(lines)


def stored(env, collector, host):
    done = env.run([env.collector, "export", "--store", collector.store, "--host", host, "--format", "raw"])
    return sorted(done.stdout.splitlines())


def check_stored(env, checks, service, names, what):
    expected, got = raw(env, names), stored(env, service.collector, service.host)
    checks.that(got == expected, f"{what}: {len(got)} records are stored, {len(expected)} are in the traces, or they differ")


def machine_state(collector, host):
    """Processes and modules of a host, without its name."""
    found = {}
    for command in ("ps", "modules"):
        done = collector.ask(command, "--host", host, "--json", check=False)
        found[command] = done.replace(host, "HOST")
    return found


INJECTIONS = (  # what a property tries to add, and why it is refused
    ({"TOKEN": "abc|profiles=C:\\Users\\me\\p", "PROFILE": "evil"}, "profiles is given twice"),
    ({"PROFILE": "none|collector=https://evil.example"}, "collector is given twice"),
    ({"TOKEN": "abc|config=C:\\evil.yaml"}, "found 'config'"),
)


def injections(checks, session, collector, package):
    """Properties that try to become options: the installation fails, says why, and leaves no configuration."""
    config = session.path(DATA) / "etwagent.yaml"
    for properties, says in INJECTIONS:
        log = session.path("C:\\msi.log")
        log.unlink(missing_ok=True)
        given = {"COLLECTORURL": collector.url, "PROFILE": "none", **properties}
        done = session.run(["msiexec", "/i", wine.windows_path(package), "/qn", "/l*v", "C:\\msi.log", *(f"{n}={v}" for n, v in given.items())])
        said = log.read_bytes().replace(b"\0", b"").decode("utf-8", "replace") if log.exists() else ""
        checks.that(done.returncode != 0 and says in said, f"{properties}: {done.returncode}, expected '{says}' in:\n{said[-3000:]}{done.stderr}")
        checks.that(not config.exists(), f"{properties} wrote {config}")
        session.run(["msiexec", "/x", wine.windows_path(package), "/qn"])


def split_line(checks, service):
    """The command line that a repair made of TOKEN=abc" --replace --profiles "C:\\Users\\me\\p and PROFILE=evil when values were still passed
    on a command line: Windows' own rules split it into these options."""
    before = (service.data / "etwagent.yaml").read_bytes()
    script = service.session.path("C:\\injected.bat")
    script.write_text(f'@"{service.exe}" configure --collector "https://evil.example" --ca "" --profile "evil" --profiles "{PROGRAMS}\\profiles\\." '
                      '--enroll "" --token "abc" --replace --profiles "C:\\Users\\me\\p"\r\n')
    done = service.session.run(["cmd", "/c", "C:\\injected.bat"])
    script.unlink()
    checks.that(done.returncode == 2 and "--profiles is given twice; expected it once" in done.stderr, f"the injected line: {done.returncode} {done.stderr}")
    checks.equal((service.data / "etwagent.yaml").read_bytes(), before, "the configuration after the injected line")


def repair(checks, service, package):
    """With properties, as a user without rights can ask for it."""
    before = {path.name: path.read_bytes() for path in service.data.iterdir() if path.is_file() and path.suffix == ".yaml" or path.name == "token"}
    msi(service.session, "/i", package, REINSTALL="ALL", REINSTALLMODE="amus", COLLECTORURL="https://evil.example", TOKEN="ece_evil_evil", PROFILE="none")
    after = {path.name: path.read_bytes() for path in service.data.iterdir() if path.is_file() and path.suffix == ".yaml" or path.name == "token"}
    checks.equal(after, before, "configuration and token after a repair")
    if service.state() != "RUNNING":
        service.run("start")


def install(env, checks, session, collector, package):
    """Without a certificate, without the collector."""
    collector.kill()
    msi(session, "/i", package, COLLECTORURL=collector.url, CACERT=wine.windows_path(env.certs / "ca.crt"), PROFILE="none")
    service = Service(env, session, collector, "wine-machine")
    checks.equal(service.state(), "RUNNING", "state after the installation")
    first = (service.data / "etwagent.yaml").read_text()
    checks.that(collector.url in first, f"the first configuration:\n{first}")
    for profile, what in ((("--profile", "dotnet"), "Microsoft-Windows-DotNETRuntime"), ((), "priority: security")):
        service.run("configure", "--config", f"{DATA}\\other.yaml", "--collector", collector.url, *profile, "--profiles", f"{PROGRAMS}\\profiles")
        other = service.data / "other.yaml"
        checks.that(what in other.read_text(), f"a profile in the first configuration: {profile}")
        other.unlink()
    checks.equal((service.data / "ca.crt").read_text(), (env.certs / "ca.crt").read_text(), "the CA's certificate")
    path = session.run(["reg", "query", "HKLM\\System\\CurrentControlSet\\Services\\etwagent", "/v", "ImagePath"]).stdout
    checks.that(f'"{service.exe}" service --config "{DATA}\\etwagent.yaml"' in path, f"ImagePath: {path}")
    service.configure({"one": (ONE, 0)})
    service.run("reload")
    service.wait_said("agent.crt")
    time.sleep(6)  # another round of attempts
    checks.that(service.log().count("agent.crt") <= 3, f"a missing certificate is logged again and again:\n{service.log()}")
    service.give_certificate()
    service.wait(lambda: (service.status().get("shipping") or {}).get("error"), "word of the missing collector")
    checks.equal(service.run("status", check=False).returncode, 0, "exit code of status without a collector")
    service.wait_said("Failed to connect")
    time.sleep(3)  # some more attempts
    checks.that(service.log().count("Failed to connect") <= 3, f"a missing collector is logged again and again:\n{service.log()}")
    collector.start()
    service.wait_shipped("one")
    service.wait_said("works again")
    check_stored(env, checks, service, [ONE], "after the start without certificate and collector")
    env.run([env.agent, "replay", "--collector", collector.url, "--cert", env.certs / "native-machine.crt", "--key",
             env.certs / "native-machine.key", "--ca", env.certs / "ca.crt", "--spool", env.folder / "native-spool",
             "--batch-events", "250", *traces.paths(ONE, env.build)])
    checks.equal(stored(env, collector, "wine-machine"), stored(env, collector, "native-machine"), "records beside a native replay's")
    checks.equal(machine_state(collector, "wine-machine"), machine_state(collector, "native-machine"), "state beside a native replay's")
    return service


def waits_for_configuration(checks, service):
    """There is no configuration at the start: commands report this error until a configuration exists."""
    config, aside = service.data / "etwagent.yaml", service.data / "aside.yaml"
    service.run("stop")
    config.rename(aside)
    service.run("start")
    service.wait(lambda: service.status().get("state") == "waiting", "a status that says it waits")
    said = service.run("status", check=False)
    checks.that(said.returncode == 0 and "waits for its configuration" in said.stdout and "etwagent.yaml" in said.stdout,
                f"status without a configuration: {said.returncode} {said.stdout}")
    aside.rename(config)
    service.run("reload")
    service.wait(lambda: service.status().get("state") == "running", "the configuration to be read")


def labels(env, checks, service):
    stream = [s for s in service.collector.ask_json("hosts")["streams"] if s["host"] == service.host][-1]
    checks.equal(stream["labels"], {"system": "Windows", "cpus": str(os.cpu_count())}, "labels of a machine")


def reloads(env, checks, service):
    before = service.sources()["one"]["stream"]
    service.configure({"one": (ONE, 0), "two": (TWO, 0)})
    service.run("reload")
    service.wait_shipped("one", "two")
    checks.equal(service.sources()["one"]["stream"], before, "the stream of the source that a reload does not touch")
    checks.that("1 source goes on, 0 ended, 1 begins" in service.log(), f"the word about the reload:\n{service.log()}")
    (service.data / "etwagent.yaml").write_text("surprise: 1\n")
    service.run("reload")
    service.wait_said("etwagent.yaml:1:1: ")
    checks.equal(sorted(service.sources()), ["one", "two"], "sources after a configuration with a mistake")
    service.configure({"two": (TWO, 0)})
    service.run("reload")
    service.wait(lambda: sorted(service.sources()) == ["two"], "source one to end")
    check_stored(env, checks, service, [ONE, TWO], "after the reloads")
    service.run("flush")


def interruptions(env, checks, service):
    """Stopped, killed, and the whole session ended in the middle of a trace; each time it goes on where it was."""
    service.configure({"two": (TWO, 0), "long": (LONG, 4)})
    service.run("reload")
    service.wait_delivered("long", "the first events")
    checks.equal(service.sc("stop", "etwagent").returncode, 0, "sc stop")
    service.wait(lambda: service.state() == "STOPPED", "the service to stop")
    checks.that(service.log().rstrip().endswith("stopped"), f"its last word:\n{service.log()}")
    checks.equal(service.run("status", check=False).returncode, 1, "exit code of status when it is stopped")
    checks.equal(service.sc("start", "etwagent").returncode, 0, "sc start")
    service.wait_delivered("long", "events after the stop")
    service.kill()
    service.begin_again()  # Wine's SCM does not notice that a service's process is gone
    service.wait_delivered("long", "events after the kill")
    service.configure({"two": (TWO, 0), "long": (LONG, 0)})
    service.begin_again()
    service.wait_shipped("long", "two")
    checks.that(service.status()["ledger_balanced"], "the ledger does not balance")
    check_stored(env, checks, service, [ONE, TWO, LONG], "after stop, kill and the end of the session")


def full_disk(env, checks, service):
    """The spool's disk has no room, from before a trace begins; then it grows."""
    if not disk.may_mount(env.folder):
        return
    folder = env.folder / "small"
    folder.mkdir()
    service.run("stop")
    with disk.Small(folder, 1) as small:
        hog = small.fill(leave_bytes=65536)
        service.configure({"full": (TWO, 0)}, extra=[f"  spool: {json.dumps(wine.windows_path(folder))}"])
        service.run("start")
        service.wait(lambda: any(word in json.dumps(service.status()) for word in ("disk", "room")), "word of the full disk")
        checks.equal(service.state(), "RUNNING", "state with a full disk")
        hog.unlink()
        small.grow(8)
        service.wait_shipped("full")
        check_stored(env, checks, service, [ONE, TWO, LONG], "after a full disk")  # the trace was stored before: nothing twice
        service.run("stop")
    service.configure({"two": (TWO, 0)})
    service.run("start")
    service.wait_shipped("two")


def upgrade(env, checks, service, package):
    """While batches wait for a collector that is away."""
    service.collector.kill()
    service.configure({"late": (LATE, 0)})
    service.run("reload")
    service.wait(lambda: service.sources().get("late", {}).get("state") == "read", "the trace to be in the spool")
    waiting = service.status()["spool"]["batches"]
    kept = {name: (service.data / name).read_bytes() for name in ("etwagent.yaml", "agent.key", "agent.crt")}
    msi(service.session, "/i", package, COLLECTORURL="https://elsewhere.example", PROFILE="network")
    checks.equal(service.state(), "RUNNING", "state after the upgrade")
    checks.equal({name: (service.data / name).read_bytes() for name in kept}, kept, "configuration and identity after the upgrade")
    service.wait(lambda: service.status().get("spool", {}).get("batches", 0) >= waiting, "the spool that was there before")
    service.collector.start()
    service.wait_shipped("late")
    check_stored(env, checks, service, [ONE, TWO, LONG, LATE], "after an upgrade in place")


def enrolment(env, checks, session, collector, package):
    """A machine with nothing but the package and a token: it gets its certificate, ships under the token's name, and the
    token is in no file of it afterwards."""
    token = env.run([env.collector, "ca", "token", "--dir", env.certs, "--name", "enrolled-machine"]).stdout.strip()
    msi(session, "/i", package, COLLECTORURL=collector.url, CACERT=wine.windows_path(env.certs / "ca.crt"),
        PROFILE="none", ENROLLURL=collector.enroll_url, TOKEN=token)
    service = Service(env, session, collector, "enrolled-machine")
    service.wait(lambda: (service.data / "agent.crt").exists() and not (service.data / "token").exists(), "the service to enroll itself")
    with open(service.data / "etwagent.yaml", "a") as config:
        config.write("\n".join(["sources:", "  - name: one", "    files:",
                                *(f"      - {json.dumps(wine.windows_path(path))}" for path in traces.paths(ONE, env.build))]) + "\n")
    service.run("reload")
    service.wait_shipped("one")
    checks.equal(service.status()["enrolment"]["state"], "enrolled", "state of the enrolment")
    check_stored(env, checks, service, [ONE], "after an enrolment")
    secret = token.split("_")[2]
    left = [str(path) for path in service.data.rglob("*") if path.is_file() and secret.encode() in path.read_bytes().replace(b"\0", b"")]
    checks.equal(left, [], "files that hold the token")
    # Wine's installer shows in its log what these rows hide from that of Windows
    properties, actions = (env.run(["msiinfo", "export", package, table]).stdout for table in ("Property", "CustomAction"))
    checks.that("MsiHiddenProperties\tTOKEN;WriteConfiguration" in properties, f"properties that no log shows:\n{properties}")
    action = [line.split("\t") for line in actions.splitlines() if line.startswith("WriteConfiguration\t")]
    checks.that(len(action) == 1 and int(action[0][1]) & 8192, f"the action whose words no log shows:\n{action}")


def removal(checks, service, older, newer):
    session = service.session
    (service.data / "token").write_text("ece_waits")  # a token that has not served goes, whatever else stays
    msi(session, "/x", newer)
    checks.equal(service.state(), "NONE", "the service after the removal")
    checks.that(not session.path(PROGRAMS).exists(), "the program's folder is still there")
    left = sorted(entry.name for entry in service.data.iterdir())
    named = {"agent.crt", "agent.key", "ca.crt", "dumps", "etwagent.yaml", "log.txt", "log.txt.1", "spool", "status.json"}
    checks.that("spool" in left and set(left) <= named, f"the manual does not name all of {left}")
    source = session.run(["reg", "query", "HKLM\\System\\CurrentControlSet\\Services\\EventLog\\Application\\etwagent"])
    checks.that(source.returncode != 0, f"the event log's source is still there: {source.stdout}")
    shutil.rmtree(service.data)
    enrolment(service.env, checks, session, service.collector, older)
    checks.equal(service.state(), "RUNNING", "state after another installation")
    msi(session, "/x", older, PURGE=1)
    checks.that(not service.data.exists(), f"PURGE=1 leaves {service.data}")


def test(env, checks, build):
    env.make_certificates(("wine-machine", "native-machine"))
    older, newer = (build_msi(env, build, version) for version in ("0.1.0", "0.1.1"))
    check_tables(env, checks, build, newer)
    collector = env.new_collector(extra=["--enroll", "127.0.0.1:0", "--ca-dir", env.certs]).start()
    if (build / "wine" / "drive_c" / "Program Files" / "etwagent").exists():
        shutil.rmtree(build / "wine")  # a test that was broken off left its installation there
    with wine.Session(build) as session:
        try:
            injections(checks, session, collector, older)
            service = install(env, checks, session, collector, older)
            repair(checks, service, older)
            split_line(checks, service)
            labels(env, checks, service)
            waits_for_configuration(checks, service)
            reloads(env, checks, service)
            interruptions(env, checks, service)
            full_disk(env, checks, service)
            upgrade(env, checks, service, newer)
            removal(checks, service, older, newer)
        finally:
            session.run(["sc", "stop", "etwagent"])
            session.run(["sc", "delete", "etwagent"])
            shutil.rmtree(session.path(DATA), ignore_errors=True)
            for package in (older, newer):
                session.run(["msiexec", "/x", wine.windows_path(package), "/qn"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder of the preset windows")
    parser.add_argument("--native", type=pathlib.Path, required=True, help="build folder of this machine's programs")
    parser.add_argument("--soak", action="store_true", help="accepted; there is one form")
    arguments = parser.parse_args()
    checks = harness.Checks()
    try:
        with harness.Environment(arguments.native) as env:
            test(env, checks, arguments.build.resolve())
    except (harness.Failure, subprocess.TimeoutExpired) as failure:
        checks.that(False, str(failure))
    sys.exit(checks.finish())


if __name__ == "__main__":
    main()
