"""What the end-to-end tests share: the programs under test, certificates, a collector on loopback, and a tally of checks.

Every process is started here and ended here, by its own id. Everything lives in one temporary folder per test.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "judges")]
import traces  # noqa: E402

TURN_S, LONG_TURN_S = 0.02, 0.5  # between two looks at what is waited for: at least, and at most


class Failure(Exception):
    """A check that did not hold; the message says what was expected and what came."""


def pause(begun, least=TURN_S):
    """Sleeps between two looks at what is waited for, as long as the last look took, which began then. A look that starts a program would
    take the processor from the programs that it waits for."""
    time.sleep(max(least, min(time.monotonic() - begun, LONG_TURN_S)))


def wait_until(condition, what, seconds, details=lambda: ""):
    """Returns when condition() holds; fails with what was waited for, and the details then, after so many seconds."""
    begun = time.monotonic()
    deadline = begun + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s for {what}{details()}")
        pause(begun)
        begun = time.monotonic()


class Collector:
    """An etwcollector on loopback with its own store. start() may be called again after kill()."""

    def __init__(self, env, name="collector", extra=()):
        self.env, self.name, self.extra = env, name, list(extra)
        self.store = env.folder / f"{name}-store"
        self.process, self.port = None, 0
        self.environment = None  # of the process, when it is not ours
        self.ca, self.crl = env.certs / "ca.crt", env.certs / "ca.crl"  # crl None: the option is not given
        # for a collector on another machine (packets.py): the words before its command, its address, its certificate
        self.prefix, self.address, self.certificate = [], "127.0.0.1", "server"

    def start(self):
        port_file = self.env.folder / f"{self.name}.port"
        port_file.unlink(missing_ok=True)
        log = open(self.env.folder / f"{self.name}.log", "ab")
        command = [*self.prefix, self.env.collector, "run", "--store", self.store, "--listen", f"{self.address}:{self.port}",
                   "--port-file", port_file, "--cert", self.env.certs / f"{self.certificate}.crt", "--key",
                   self.env.certs / f"{self.certificate}.key", "--ca", self.ca, *(["--crl", self.crl] if self.crl else []), *self.extra]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env=self.environment)
        log.close()
        deadline = time.monotonic() + 60
        while not port_file.exists() or not port_file.read_text().strip():
            if self.process.poll() is not None:
                raise Failure(f"the collector ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise Failure(f"the collector was not ready within 60 s:\n{self.log()}")
            time.sleep(0.02)
        self.port = int(port_file.read_text())
        return self

    def log(self):
        return (self.env.folder / f"{self.name}.log").read_text(errors="replace")[-4000:]

    @property
    def url(self):
        return f"https://{'localhost' if self.address == '127.0.0.1' else self.address}:{self.port}"

    @property
    def enroll_url(self):
        """Where it gives certificates, if it was started with --enroll."""
        said = (self.env.folder / f"{self.name}.log").read_text(errors="replace")
        return f"https://localhost:{re.findall(r'enrolment on https://127.0.0.1:([0-9]+)', said)[-1]}"

    def kill(self):
        """As a power cut would: no clean-up."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def stop(self):
        """Asks it to end and checks that it does so cleanly."""
        if not self.process:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure("the collector did not stop within 60 s of SIGTERM")
        self.process = None
        if code != 0:
            raise Failure(f"the collector ended with {code}:\n{self.log()}")

    def ask(self, *arguments, check=True):
        """Runs an etwcollector command on this store; its standard output as text."""
        command = [arguments[0]] if isinstance(arguments[0], str) else list(arguments[0])
        return self.env.run([self.env.collector, *command, "--store", self.store, *arguments[1:]], check=check).stdout

    def ask_json(self, *arguments):
        return json.loads(self.ask(*arguments, "--json"))


PATIENCE = "120s"
NOTHING_STORED = 6  # exit code of query: no rows, and nothing is stored of a name in a condition
# Commands that wait until the history holds what is stored, as long as --wait says, and ask all the same then.
ASK_HISTORY = ("ps", "modules", "where", "query", "ledger")
# ... and those that have no such option
ASK_HISTORY_SHORTLY = ("profile", "export")


class Environment:
    """The programs of one build and a temporary folder; use it in a with statement."""

    def __init__(self, build, keep=False):
        self.build = pathlib.Path(build).resolve()
        self.agent = self.build / "service" / "app" / "etwagent"
        self.collector = self.build / "collector" / "app" / "etwcollector"
        for program in (self.agent, self.collector):
            if not program.exists():
                raise Failure(f"{program} is missing; build it first")
        self.keep = keep
        self.folder = None
        self.collectors = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="etwagent-test-"))
        self.certs = self.folder / "certs"
        return self

    def __exit__(self, *_):
        for collector in self.collectors:
            collector.kill()
        if self.keep:
            print(f"kept {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command, check=True, timeout=600, **options):
        """Runs a program to its end; output is captured as text unless options say otherwise."""
        command = self.patient([str(c) for c in command])
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(command, text=True, errors="surrogateescape", timeout=timeout, **options)
        # a question about a host may be asked before anything is stored of it: no rows
        is_early = done.returncode == NOTHING_STORED and command[:2] == [str(self.collector), "query"]
        if check and done.returncode != 0 and not is_early:
            raise Failure(f"{' '.join(command)}\nended with {done.returncode}: {(done.stderr or '')[-3000:]}")
        return done

    def patient(self, command):
        """A question to a collector that runs waits until what is stored can be asked for, however busy the machine is."""
        if command[0] != str(self.collector) or "--wait" in command or not any(collector.process for collector in self.collectors):
            return command
        if command[1] in ASK_HISTORY:
            return [*command[:2], "--wait", PATIENCE, *command[2:]]
        if command[1] in ASK_HISTORY_SHORTLY and "--store" in command:
            store = command[command.index("--store") + 1]
            subprocess.run([command[0], "query", "--wait", PATIENCE, "--store", store, "SELECT count(*) FROM processes"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return command

    def make_certificates(self, agents=("test-machine",)):
        """A CA, a server certificate for localhost, one client certificate an agent."""
        self.run([self.collector, "ca", "init", "--dir", self.certs])
        self.run([self.collector, "ca", "issue", "--dir", self.certs, "--server", "--name", "server",
                  "--san", "DNS:localhost", "--san", "IP:127.0.0.1"])
        for agent in agents:
            self.run([self.collector, "ca", "issue", "--dir", self.certs, "--name", agent])

    def new_collector(self, name="collector", extra=()):
        collector = Collector(self, name, extra)
        self.collectors.append(collector)
        return collector

    def replay_command(self, traces, collector, agent="test-machine", spool=None, extra=()):
        return [str(c) for c in
                [self.agent, "replay", "--collector", collector.url, "--cert", self.certs / f"{agent}.crt",
                 "--key", self.certs / f"{agent}.key", "--ca", self.certs / "ca.crt",
                 "--spool", spool or self.folder / "spool", *extra, *traces]]

    def replay(self, traces, collector, **options):
        return self.run(self.replay_command(traces, collector, **options))


class Checks:
    """Counts checks; prints each failure and, at the end, a line that the runner reads."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def real(self, what, *files):
        """traces.real(), counted."""
        here = traces.real(what, *files)
        self.skipped += not here
        return here

    def that(self, condition, message):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {message}", flush=True)
        return bool(condition)

    def equal(self, got, expected, what):
        return self.that(got == expected, f"{what}: expected {repr(expected)[:2000]}, got {repr(got)[:2000]}")

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed" + f", {self.skipped} skipped" * bool(self.skipped))
        return 1 if self.failed or not self.passed + self.skipped else 0


def main(test, description, more=None):
    """Runs test(env, checks, arguments) with the arguments that every end-to-end test takes, and more: {option: (help, its options of argparse)}."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    parser.add_argument("--soak", action="store_true", help="the long form")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    for name, (text, options) in (more or {}).items():
        parser.add_argument(f"--{name}", help=text, **options)
    arguments = parser.parse_args()
    checks = Checks()
    try:
        with Environment(arguments.build, arguments.keep) as env:
            test(env, checks, arguments)
    except Failure as failure:
        checks.that(False, str(failure))
    sys.exit(checks.finish())
