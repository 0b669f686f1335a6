"""What the fault tests share: a replay that runs in the background and is watched, and the proof that everything arrived
once.
"""
import json
import pathlib
import subprocess
import threading

import harness
import receiver
import test_identity

# Many small batches and requests; a silent peer is given up soon, so that a test need not wait as long as a service would.
HASTY = ["--batch-events", "100", "--request-bytes", "16KiB", "--connect-timeout", "2s", "--request-timeout", "4s",
         "--idle-timeout", "2s", "--retry-max", "1s"]


class Replay:
    """One `etwagent replay` in the background. Its standard output is kept for the summary, its messages in a file."""

    def __init__(self, env, paths, collector, agent, spool=None, extra=(), environment=None, prefix=()):
        self.env, self.agent = env, agent
        self.spool = pathlib.Path(spool or env.folder / f"spool-{agent}")
        self.command = [*prefix] + env.replay_command(paths, collector, agent=agent, spool=self.spool, extra=["--json", *extra])
        self.environment = environment
        self.log = env.folder / f"{agent}.replay.log"
        self.process = None
        self.output = b""

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=self.environment)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()

    def running(self):
        return self.process.poll() is None

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process and not self.process.stdout.closed:
            self.process.communicate()

    def wait(self, timeout):
        """Its exit code; may be asked again."""
        if self.process.stdout.closed:
            return self.process.returncode
        try:
            self.output = self.process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            self.kill()
            raise harness.Failure(f"{self.agent}: the replay did not end within {timeout} s; it said:\n{self.messages()}")
        return self.process.returncode

    def finish(self, timeout=120):
        """Waits for a good end; its summary."""
        code = self.wait(timeout)
        if code != 0:
            raise harness.Failure(f"{self.agent}: the replay ended with {code}; it said:\n{self.messages()}")
        return json.loads(self.output)

    def messages(self):
        return self.log.read_text(errors="replace")[-3000:]

    def most_memory(self):
        return receiver.process_status(self.process.pid, "VmHWM")

    def spool_bytes(self):
        total = 0
        for path in self.spool.glob("**/*"):
            try:
                if path.is_file():
                    total += path.stat().st_size
            except FileNotFoundError:
                pass
        return total


class Watch:
    """Looks at a running replay many times a second: the most memory and the most spool that it ever had."""

    def __init__(self, replay):
        self.replay = replay
        self.memory_bytes = self.spool_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def _run(self):
        while not self._over.wait(0.05):
            self.memory_bytes = max(self.memory_bytes, self.replay.most_memory())
            self.spool_bytes = max(self.spool_bytes, self.replay.spool_bytes())

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Truth:
    """What a trace's replay must have brought to the store, and the check that it did."""

    def __init__(self, env, paths):
        self.env = env
        self.lines, self.digest, _ = test_identity.digest([env.agent, "dump", "--format", "jsonl", "--raw", *paths])

    def stored(self, collector, agent):
        """(number of events, their digest) in a collector's store."""
        try:
            return test_identity.digest([self.env.collector, "export", "--store", collector.store, "--host", agent, "--format",
                                         "jsonl", "--raw", "--verify"])[:2]
        except harness.Failure as failure:
            if "nothing is stored of host" in str(failure):
                return 0, ""
            raise

    def check(self, checks, collector, agent, what):
        """Nothing lost, nothing doubled, nothing changed."""
        got = self.stored(collector, agent)
        return checks.that(got == (self.lines, self.digest),
                           f"{what}: {self.lines} events {self.digest[:12]} were read, {got[0]} {got[1][:12]} are stored")


def check_summary(checks, summary, events, what):
    """The replay's own account: all delivered, none lost on the way, and the ledger balances to the event."""
    checks.equal(summary["ledger"]["events_synthesised"], 0, f"{what}: events without a delivery")
    check_summary_but_keyframes(checks, summary, events, what)


def check_summary_but_keyframes(checks, summary, events, what):
    """The same where there may be keyframes."""
    ledger = summary["ledger"]
    lost = {name: value for name, value in ledger.items() if value and name.startswith(("events_dropped", "events_evicted"))}
    checks.equal(lost, {}, f"{what}: events lost by the agent's own account")
    checks.equal((ledger["events_delivered"], ledger["events_acknowledged"] - ledger["events_synthesised"], summary["complete"],
                  summary["ledger_balanced"]), (events, events, True, True),
                 f"{what}: events read and acknowledged, complete, balanced, by the agent's account")
