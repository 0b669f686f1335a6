"""The shipped agent under Wine with the emulator of ETW in the place of advapi32.dll and tdh.dll, an emulator of wevtapi.dll, and a native
collector.

The agent takes their functions by name from DLLs of System32 (service/etw/etw_api.c, service/eventlog/channel_api.c). A copy of the .exe in which
the DLLs' names are others, of the same length, takes them from the emulator, and nothing else is different.
"""
import collections
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import wine

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
import harness  # noqa: E402
import traces  # noqa: E402, F401

ETW, TDH, WEVT = ("advapi32.dll", "etwemul8.dll"), ("tdh.dll", "emu.dll"), ("wevtapi.dll", "wevtemu.dll")
NEAR = 256
EVENT_TRACE = "68fdd900-4a3e-11d1-84f4-0000f80464e3"
# a record's identity, but for its logger, which is the session's own; names and fields need schemas of other sessions
IDENTITY = ("clock", "provider", "id", "version", "channel", "level", "opcode", "task", "keyword", "cpu", "pid", "tid", "activity_id",
            "flags", "property", "kernel_time", "user_time", "pointer_size", "payload", "extended")


def patched(program, to, lacks=()):
    """A copy of the program that uses the emulator as its ETW. lacks: functions that are missing there, since the copy looks them up by unknown names."""
    data = bytearray(program.read_bytes())

    def places(name):
        text, at, found = (name + "\0").encode("utf-16-le"), -1, []
        while (at := data.find(text, at + 1)) >= 0:
            found.append(at)
        return found

    tdh = places(TDH[0])
    if len(tdh) != 1:
        raise harness.Failure(f"{program} names {TDH[0]} {len(tdh)} times")
    etw = [at for at in places(ETW[0]) if abs(at - tdh[0]) < NEAR]  # the C library has the same name elsewhere
    if len(etw) != 1:
        raise harness.Failure(f"{program} names {ETW[0]} {len(etw)} times near {TDH[0]}")
    wevt = places(WEVT[0])
    if len(wevt) != 1:
        raise harness.Failure(f"{program} names {WEVT[0]} {len(wevt)} times")
    for at, (old, new) in ((tdh[0], TDH), (etw[0], ETW), (wevt[0], WEVT)):
        assert len(old) == len(new)
        data[at:at + 2 * len(new)] = new.encode("utf-16-le")
    for name in lacks:
        text = b"\0" + name.encode() + b"\0"
        if data.count(text) != 1:
            raise harness.Failure(f"{program} names {name} {data.count(text)} times")
        at = data.find(text) + len(name)
        data[at:at + 1] = b"?"
    to.write_bytes(data)


class Machine:
    """A Windows with the emulator, and the agent on it."""

    def __init__(self, env, session, windows_build, name="machine", lacks=()):
        self.env, self.session, self.name = env, session, name
        self.folder = session.drive / "machines" / name  # on C:, as /tmp is a folder in which others may write
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.agent = self.folder / "etwagent.exe"
        self.emulctl = windows_build / "tests" / "windows" / "emulctl.exe"
        patched(windows_build / "service" / "app" / "etwagent.exe", self.agent, lacks)
        for dll in (ETW[1], TDH[1]):
            shutil.copy(windows_build / "tests" / "windows" / ETW[1], session.drive / "windows" / "system32" / dll)
        shutil.copy(windows_build / "tests" / "windows" / WEVT[1], session.drive / "windows" / "system32" / WEVT[1])
        (session.drive / "etwemul.table").unlink(missing_ok=True)  # no session runs on a machine that has just begun
        self.script, self.config = session.drive / "etwemul.txt", self.folder / "agent.yaml"
        self.status_file, self.log_file = self.folder / "status.json", self.folder / "agent.log"
        self.spool = self.folder / "spool"
        self.process = self.collector = self.lister = self.listed = None
        self.environment = {}  # beside the session's

    def plays(self, paths=(), *lines):
        """What the emulator plays and how."""
        self.script.write_text("\n".join([*(f"trace={wine.windows_path(p)}" for p in paths), *lines]) + "\n")

    def configure(self, collector, sessions, batching="batch-events: 4096", sources=(), **shipping):
        """sessions, sources: [{key: value or list}] as in the configuration; shipping: more of that part."""
        path = wine.windows_path
        certs = self.env.certs
        self.collector = collector
        document = {"service": {"status": path(self.status_file), "status-every": "100ms"},
                    "shipping": {"collector": collector.url, "cert": path(certs / f"{self.name}.crt"),
                                 "key": path(certs / f"{self.name}.key"), "ca": path(certs / "ca.crt"),
                                 "spool": path(self.spool), "retry-max": "500ms", **{k.replace("_", "-"): v for k, v in shipping.items()}}}
        lines = [f"{part}:\n" + "".join(f"  {k}: {json.dumps(v)}\n" for k, v in values.items()) for part, values in document.items()]
        self.config.write_text("".join(lines) + f"batching:\n  {batching}\n" +
                               (f"sessions: {json.dumps(sessions)}\n" if sessions else "") + (f"sources: {json.dumps(sources)}\n" if sources else ""))

    def control(self, *words, check=True):
        done = self.session.run([self.emulctl, *words])
        if check and done.returncode:
            raise harness.Failure(f"emulctl {words}: {done.returncode} {done.stderr}")
        return done

    def go(self, name):
        """Past the next "hold=" of what is played."""
        self.control("go", f"etwagent-{name}")

    def wait_held(self, name, record):
        """Waits until the session pauses after that record of the trace, as "hold=" demands."""
        self.wait(lambda: self.sessions()[f"etwagent-{name}"]["played"] == record, f"session {name} after record {record}")

    def sessions(self):
        """The emulated sessions by name. One program lists them each time: a test asks many times, and the start of a program under Wine takes
        more processor time than the list. A program that ended with Wine's session, or has the table of an earlier boot, is started again."""
        if self.lister and self.table() != self.listed:
            self.end_lister()
        for _ in range(2):
            self.lister = self.lister or subprocess.Popen(self.session.command([self.emulctl, "lists"]), env=self.session.environment, text=True,
                                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            lines = self.next_list()
            if lines is not None:
                self.listed = self.table()
                return {s["name"]: s for s in map(json.loads, lines)}
            self.end_lister()
        raise harness.Failure("emulctl lists no sessions")

    def table(self):
        """Which file has the emulated sessions: a boot removes it, and the next program makes another. None: there is none."""
        try:
            return (self.session.drive / "etwemul.table").stat().st_ino
        except FileNotFoundError:
            return None

    def next_list(self):
        """The lines of the lister's next list; None when it has ended."""
        try:
            print(file=self.lister.stdin, flush=True)
        except BrokenPipeError:
            return None
        lines = []
        while (line := self.lister.stdout.readline()) != "\n":
            if not line:
                return None
            lines.append(line)
        return lines

    def end_lister(self):
        if self.lister:
            self.lister.kill()
            self.lister.communicate()
            self.lister = None

    def start(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.session.command([self.agent, "run", "--config", wine.windows_path(self.config)]),
                                            env={**self.session.environment, **self.environment}, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        return self

    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def status(self):
        try:
            return json.loads(self.status_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def sources(self):
        return {s["name"]: s for s in self.status().get("sources", [])}

    def wait(self, condition, what, seconds=240):
        def holds():
            if condition():
                return True
            if self.process and self.process.poll() is not None:
                raise harness.Failure(f"the agent ended with {self.process.returncode}, waiting for {what}:\n{self.log()}")
            return False
        harness.wait_until(holds, what, seconds, lambda: f":\n{self.log()[-4000:]}\n{json.dumps(self.status())[:4000]}")

    def wait_shipped(self, events):
        """Until so many events came from the emulator, and the collector has all that were not dropped."""
        def done():
            s = self.sources().values()
            return (sum(x["session"]["events"] for x in s) >= events and
                    all(x["events_acknowledged"] - x["events_synthesised"] + x["session"]["dropped_events"] >= x["session"]["events"] for x in s))
        self.wait(done, f"{events} events at the collector")

    def delivered(self):
        """Whether each session's trace is over, what Windows lost of it is in the status, and each other event, and the header, came. The status
        file may be older than what the emulator says: so its numbers are held against that."""
        sources = self.sources()

        def is_delivered(name, e):
            s = sources.get(name.removeprefix("etwagent-"), {})
            kept = s.get("session", {})
            here = e["logged"] - e["lost"] + 1 + kept.get("rundown_events", 0)
            made = kept.get("accounts_named", 0) + kept.get("images_told", 0)  # of the agent's own
            return e["over"] and kept.get("lost_events") == e["lost"] and here == s["events_delivered"] - made == kept["events"]
        sessions = self.sessions()
        return bool(sessions) and all(is_delivered(name, e) for name, e in sessions.items())

    def settled(self):
        """Whether what each session delivered is on its way no more: acknowledged, or counted."""
        if not self.delivered():
            return False
        sources = self.sources()
        return not any(sources[name.removeprefix("etwagent-")][f"events_{where}"] for name in self.sessions()
                       for where in ("pending", "compressing", "spooled", "unanswered"))

    def stop(self):
        """Ctrl-C, as Wine passes it on."""
        for pid in self.session.processes("etwagent.exe"):
            os.kill(pid, signal.SIGINT)
        try:
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired as slow:
            self.kill()
            raise harness.Failure(f"the agent did not stop:\n{self.log()[-4000:]}") from slow
        if isinstance(self.collector, harness.Collector):
            self.drain()
        return self.process.returncode

    def drain(self):
        """Who stops waits some seconds for the collector, and sends the rest after the next start: on a slow machine there is a rest."""
        certs = self.env.certs / self.name
        self.env.run([self.env.agent, "spool", "drain", "--collector", self.collector.url, "--cert", f"{certs}.crt", "--key", f"{certs}.key",
                      "--ca", self.env.certs / "ca.crt", "--spool", self.spool])

    def kill(self):
        for pid in self.session.processes("etwagent.exe"):
            os.kill(pid, signal.SIGKILL)
        if self.process:
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_lister()
        if self.process and self.process.poll() is None:
            self.kill()


def compared(lines):
    """Counts the records; compares only the members that are the same in a file and in a session."""
    bag = collections.Counter()
    for line in lines:
        record = json.loads(line)
        if record["provider"] == EVENT_TRACE and record["opcode"] == 0:
            continue  # each session has a header event of its own
        record["flags"] |= 0x20 if record["pointer_size"] == 4 else 0x40  # in a file, the header's type alone may show the pointer size
        bag[json.dumps([record[key] for key in IDENTITY])] += 1
    return bag


def utc(text):
    """Seconds of an RFC 3339 time of seven digits."""
    return datetime.datetime.fromisoformat(text[:26] + "+00:00").timestamp() + int(text[26]) * 1e-7 if len(text) == 28 else \
        datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def frequency_of(env, paths):
    """Ticks a second, out of two records."""
    lines = env.run([env.agent, "dump", "--format", "raw", *paths]).stdout.splitlines()
    a, b = json.loads(lines[0]), json.loads(lines[-1])
    return (b["clock"] - a["clock"]) / (utc(b["time"]) - utc(a["time"]))


def parts(checks, arguments, every, real=()):
    """Yields the parts of a test that run, one after another: the part that --only names, or all parts. The parts in `real` need the real traces."""
    name = pathlib.Path(sys.argv[0]).stem.removeprefix("test_")
    for part in every:
        if arguments.only in ("", part.__name__) and (part not in real or checks.real(f"windows: {name}: {part.__name__}")):
            begun = time.monotonic()
            yield part
            print(f"{part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


def main(test, description):
    """Runs test(env, checks, session, windows_build, arguments) with what every test of the emulator takes."""
    import argparse
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build folder of the preset windows")
    parser.add_argument("--native", type=pathlib.Path, default=ROOT / "build" / "dev", help="build folder with the native collector")
    parser.add_argument("--soak", action="store_true", help="the long form")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    parser.add_argument("--only", default="", help="only the part of that name")
    arguments = parser.parse_args()
    checks = harness.Checks()
    try:
        with wine.Session(arguments.build) as session, harness.Environment(arguments.native, arguments.keep) as env:
            test(env, checks, session, arguments.build.resolve(), arguments)
    except (harness.Failure, TimeoutError) as failure:
        checks.that(False, str(failure))
    sys.exit(checks.finish())
