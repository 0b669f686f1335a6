#!/usr/bin/env python3
"""The Windows job (.github/workflows/windows.yml), as far as it runs on Linux: what compares, judges and acknowledges there, with samples of what
Windows' tools write, and with planted differences, each of which is found.

- events, summary, workload: truth.py, with XML and summaries made from a generated trace in the form of Windows' event schema and of tracerpt.
- verdict: results of runbook.ps1 in JUnit XML.
- acknowledged: the agent ships to acknowledge.py, and what it sent names the machine of the trace.
- workflow: scripts, their parameters and Python options exist, results are uploaded, and brackets and quotes of the scripts close.

usage: test_windows_ci.py --build DIR"""
import importlib.util
import json
import re
import subprocess
import sys
import time
from xml.sax.saxutils import escape

import harness
import test_runbook

CI = harness.ROOT / "tests" / "windows" / "ci"
WORKFLOW = harness.ROOT / ".github" / "workflows" / "windows.yml"
SYSTEM_TRACE = "9e814aad-3204-11d2-9a82-006008a86939"
CLASSIC = 0x100  # EVENT_HEADER_FLAG_CLASSIC_HEADER
NAMESPACES = 'xmlns="http://schemas.microsoft.com/win/2004/08/events/event"', 'xmlns="http://schemas.microsoft.com/win/2004/08/events/trace"'


def truth(*words):
    done = subprocess.run([sys.executable, str(CI / "truth.py"), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


# ---- as tracerpt writes ----

def value_of(value):
    """Numbers in decimal, what we have in hex in capitals, accounts by name, times in another zone with nine digits."""
    if isinstance(value, dict):
        value = value["value"] if "value" in value else json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith("S-1-"):
        return "\\\\MACHINE\\guest"
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
        return "0x" + value[2:].upper()
    return " " + str(value) if isinstance(value, int) else str(value)


def event_of(e, is_classic):
    data = "".join(f'\t\t<Data Name="{escape(name)}">{escape(value_of(value))}</Data>\n' for name, value in e["fields"].items())
    hour = (int(e["time"][11:13]) + 17) % 24
    extended = f"\t<ExtendedTracingInfo {NAMESPACES[1]}>\n\t\t<EventGuid>{{{e['provider']}}}</EventGuid>\n\t</ExtendedTracingInfo>\n" if is_classic else ""
    return (f"<Event {NAMESPACES[0]}>\n\t<System>\n\t\t<Provider Guid=\"{{{SYSTEM_TRACE if is_classic else e['provider']}}}\" />\n\t\t<EventID>{e['id']}</EventID>\n"
            f"\t\t<Version>{e['version']}</Version>\n\t\t<Level>{e['level']}</Level>\n\t\t<Task>{e['task']}</Task>\n\t\t<Opcode>{e['opcode']}</Opcode>\n"
            f"\t\t<Keywords>{e['keyword']}</Keywords>\n\t\t<TimeCreated SystemTime=\"{e['time'][:11]}{hour:02}{e['time'][13:27]}00-07:00\" />\n"
            f"\t\t<Execution ProcessID=\"{e['pid']}\" ThreadID=\"{e['tid']}\" ProcessorID=\"{e['cpu']}\" KernelTime=\"0\" UserTime=\"0\" />\n"
            f"\t\t<Channel />\n\t\t<Computer />\n\t</System>\n\t<EventData>\n{data}\t</EventData>\n{extended}</Event>\n")


class Sample:
    """A generated trace, by the agent and as tracerpt would write it."""

    def __init__(self, env):
        self.folder, trace = env.folder, env.folder / "desk.etl"
        env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "desk", "--duration-ms", "3000", "--out", trace])
        self.trace, self.jsonl = trace, self.folder / "events.jsonl"
        text = env.run([env.agent, "dump", "--format", "jsonl", "--no-names", trace]).stdout
        self.jsonl.write_text(text)
        raw = env.run([env.agent, "dump", "--format", "raw", trace]).stdout.splitlines()
        self.events = [json.loads(line) for line in text.splitlines()]
        self.classic = [json.loads(line)["flags"] & CLASSIC != 0 for line in raw]
        self.stats = env.folder / "stats.json"
        self.stats.write_text(env.run([env.agent, "stats", "--json", trace]).stdout)

    def xml(self, change=lambda n, e: e):
        path = self.folder / "events.xml"
        changed = ((change(n, e), c) for n, (e, c) in enumerate(zip(self.events, self.classic)))
        path.write_text("<Events>\n" + "".join(event_of(e, c) for e, c in changed if e) + "</Events>\n")
        return path


def with_field(e, name, value):
    return {**e, "fields": {**e["fields"], name: value}}


def events(checks, sample):
    checks.equal(len(sample.events), len(sample.classic), "events in both forms")
    code, said = truth("events", sample.xml(), sample.jsonl)
    checks.that(code == 0 and int(re.search(r"(\d+) fields compared", said)[1]) > 100, f"the same events: {code} {said}")
    other = sample.folder / "controls.xml"
    for encoding, mark in (("utf-8-sig", "\x01&#x1F;&#0;"), ("utf-16", "\x1b")):
        other.write_text(sample.xml().read_text().replace("<Channel />", f"<Channel>{mark}</Channel>"), encoding=encoding)
        code, said = truth("events", other, sample.jsonl)
        checks.that(code == 0, f"with control characters, {encoding}: {code} {said}")
    at, name = next((n, k) for n, e in enumerate(sample.events) for k, v in e["fields"].items() if isinstance(v, int) and not isinstance(v, bool) and n > 3)
    text_at, text = next((n, k) for n, e in enumerate(sample.events) for k, v in e["fields"].items() if k == "ImageFileName")
    pointer_at, pointer = next((n, k) for n, e in enumerate(sample.events) for k, v in e["fields"].items() if isinstance(v, str) and v.startswith("0x"))
    own = sample.events[at]["fields"][name]
    planted = {
        "an event less": (lambda n, e: None if n == at else e, r"events, and \d+ by tracerpt"),
        "a number": (lambda n, e: with_field(e, name, own + 1) if n == at else e, f"{name} is {own}, and {own + 1} by tracerpt"),
        "a name": (lambda n, e: with_field(e, text, "other.exe") if n == text_at else e, "other.exe by tracerpt"),
        "an address": (lambda n, e: with_field(e, pointer, "0xdead") if n == pointer_at else e, "0xDEAD by tracerpt"),
        "a time": (lambda n, e: {**e, "time": e["time"][:20] + f"{(int(e['time'][20:27]) + 500) % 10**7:07}Z"} if n == at else e, "us between the two times"),
        "another opcode": (lambda n, e: {**e, "opcode": 99} if n == at else e, "opcode 99"),
    }
    for what, (change, words) in planted.items():
        code, said = truth("events", sample.xml(change), sample.jsonl)
        checks.that(code == 1 and re.search(words, said), f"{what} differs: {code} {said}")
    ignored, said = truth("--ignore", sample.events[at]["provider"], "events", sample.xml(planted["an event less"][0]), sample.jsonl)
    checks.that(ignored == 0, f"an event less of a GUID whose number may differ: {said}")
    empty = sample.folder / "empty.xml"
    empty.write_text("<Events></Events>")
    nothing = sample.folder / "empty.jsonl"
    nothing.write_text("")
    checks.equal(truth("events", empty, nothing)[0], 1, "nothing compared with nothing")


def summary_of(stats, lost=0):
    rows = "".join(f"|{c['count']:>15}    {c['name'][:20]:<22} 0          {c.get('opcode', 0)}        {c['version']}  {{{c['provider']}}}|\n" for c in stats["classes"])
    return ("Files Processed:\n\tC:\\temp\\x.etl\nTotal Buffers Processed 5\n"
            f"Total Events  Processed {stats['events']}\nTotal Events  Lost      {stats['events_lost'] + lost}\nElapsed Time            3 sec\n\n"
            "+----+\n|    Event Count    Event Name    Task    Opcode    Version  Guid|\n+----+\n" + rows + "+----+\n")


def summaries(checks, sample):
    stats, txt = json.loads(sample.stats.read_text()), sample.folder / "summary.txt"
    for encoding in ("utf-8-sig", "utf-16"):
        txt.write_text(summary_of(stats), encoding=encoding)
        checks.equal(truth("summary", txt, sample.stats)[0], 0, f"the same summary, {encoding}")
    more = {**stats, "classes": [{**c, "count": c["count"] + (i == 1)} for i, c in enumerate(stats["classes"])]}
    for what, text, words in (("one event more", summary_of(more), f"{stats['classes'][1]['provider']}: "), ("a lost event", summary_of(stats, 1), "events lost: 0, and 1"),
                              ("no table", summary_of(stats).split("+----+")[0], "the summary names no GUID")):
        txt.write_text(text)
        code, said = truth("summary", txt, sample.stats)
        checks.that(code == 1 and words in said, f"{what}: {code} {said}")


def workloads(checks, sample):
    starts = [e for e in sample.events if e["name"] == "Process/Start"] or [e for e in sample.events if e["name"] == "Process/DCStart"]
    provider, pids = starts[0]["provider"], {int(str(e["fields"]["ProcessId"]), 0) for e in starts}
    file = sample.folder / "pids.txt"
    file.write_text("".join(f"{pid}\r\n" for pid in sorted(pids)))
    code, said = truth("workload", file, sample.jsonl, sample.xml(), provider)
    checks.that(code == 0, f"two sessions with the same processes: {code} {said}")
    gone = sample.events.index(starts[0])
    code, said = truth("workload", file, sample.jsonl, sample.xml(lambda n, e: None if n == gone else e), provider)
    checks.that(code == 1 and "in logman's" in said, f"a process that one session lacks: {code} {said}")
    file.write_text("1000000001\n")
    checks.equal(truth("workload", file, sample.jsonl, sample.xml(), provider)[0], 1, "no event of the workload in either session")


def verdict(env, checks):
    path, known = env.folder / "runbook.xml", env.folder / "known.txt"

    def judge(failed=(), names="", count=60):
        cases = "".join(f'<testcase classname="runbook" name="promise {n}" time="0.1">' + ('<failure message="said &lt;why&gt;" />' if n in failed else "") +
                        ('<skipped message="not checked here: x" />' if n == 7 else "") + "</testcase>" for n in range(count))
        path.write_text(f'<testsuite name="runbook" tests="{count}">{cases}</testsuite>')
        known.write_text("# comment\n" + names)
        done = subprocess.run([sys.executable, str(CI / "verdict.py"), str(path), "--known", str(known)], stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"})
        return done.returncode, done.stdout
    checks.equal(judge()[0], 0, "all promises hold")
    code, said = judge(failed=(3,))
    checks.that(code == 1 and "WRONG: promise 3: said <why>" in said and "SKIP  promise 7 (not checked here: x)" in said, f"a failure: {code} {said}")
    checks.equal(judge(failed=(3,), names="promise 3  # this machine\n")[0], 0, "a failure that is known")
    checks.equal(judge(names="promise 3\n")[0], 1, "a known failure that holds now")
    checks.equal(judge(count=20)[0], 1, "a run that ended early")


def acknowledged(env, checks, sample):
    env.make_certificates(["machine"])
    uploads, port_file = env.folder / "uploads", env.folder / "acknowledge.txt"
    with open(port_file, "wb") as out:
        stub = subprocess.Popen([sys.executable, str(CI / "acknowledge.py"), "serve", str(env.certs), str(uploads), "--port", "0"], stdout=out, stderr=out)
    try:
        harness.wait_until(lambda: "acknowledges at" in port_file.read_text(), "the address of acknowledge.py", 30, port_file.read_text)
        url = re.search(r"https://\S+", port_file.read_text())[0]
        certs = env.certs / "machine"
        done = env.run([env.agent, "replay", "--collector", url, "--cert", f"{certs}.crt", "--key", f"{certs}.key", "--ca", env.certs / "ca.crt", sample.trace], check=False)
        checks.equal(done.returncode, 0, f"a replay to acknowledge.py: {done.stderr}")
    finally:
        stub.kill()
        stub.wait()
    described = json.loads(sample.stats.read_text())["files"][0]
    spec = importlib.util.spec_from_file_location("acknowledge", CI / "acknowledge.py")
    acknowledge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(acknowledge)
    found = acknowledge.facts_of(uploads)
    checks.equal([(f["pointer_size"], f["processors"], f["build"]) for f in found], [(described["pointer_size"], described["cpus"], described["os_build"])], "the machine of the trace")
    booted, machine = found[0]["booted_unix_s"], env.folder / "machine.json"
    checks.that(0 < booted <= time.time(), f"booted at {booted}")
    for change, code in (({}, 0), ({"pointer_size": 4}, 1), ({"processors": 1}, 1), ({"build": 1}, 1), ({"booted_unix_s": booted + 90}, 1)):
        machine.write_text(json.dumps({**found[0], **change}), encoding="utf-8-sig")
        done = subprocess.run([sys.executable, str(CI / "acknowledge.py"), "facts", str(uploads), str(machine)], stdout=subprocess.PIPE, text=True)
        checks.equal(done.returncode, code, f"facts with {change}: {done.stdout}")


def run_by_cmd(argument):
    """What cmd.exe runs of /c and an argument of PowerShell's: that puts quotes around an argument with a space outside of quotes, and cmd.exe takes
    the first and the last quote of a line that begins with one. Source: NeedQuotes of PowerShell's NativeCommandParameterBinder.cs; cmd /?"""
    line = f'"{argument}"' if re.search(r"\s", "".join(argument.split('"')[::2])) else argument
    last = line.rindex('"') if line.startswith('"') else None
    return line[1:last] + line[last + 1:] if last else line


def lines_of_cmd(checks, path):
    """Lines that a script hands to cmd.exe: the program is found, and what it prints goes into the file."""
    program, found = "C:\\Program Files\\etwagent\\etwagent.exe", re.findall(r'cmd\.exe /c "((?:`.|[^"`])*)"', path.read_text())
    for argument in found:
        line = run_by_cmd(argument.replace('`"', '"').replace("$exe", program))
        first = re.match(r'"([^"]+)" |(\S+)', line)
        checks.equal(first[1] or first[2], program, f"{path.name}: the program of {line}")
        checks.that(line.count('"') % 2 == 0 and ">" in "".join(line.split('"')[::2]), f"{path.name}: quotes of {line}")
    return len(found)


def presets_of(checks, text):
    """The packages of each preset are installed before it is configured: those that the Makefile installs for it."""
    recipes = dict(re.findall(r"(?m)^(\w+):.*\n((?:\t.*\n)+)", (harness.ROOT / "Makefile").read_text()))
    groups_of = {name: set(" ".join(re.findall(r"packages\.sh ([\w ]+)", recipe)).split()) for name, recipe in recipes.items()}
    needed = {preset: groups_of[name] for name, recipe in recipes.items() for preset in re.findall(r"cmake --preset (\w+)", recipe)}
    installed, configured = set(), []
    for target, groups, preset in re.findall(r"make (\w+)\n|packages\.sh ([\w ]+)\n|cmake --preset (\w+)\n", text):
        installed |= groups_of[target] if target else set(groups.split())
        if preset:
            configured.append(preset)
            checks.equal(needed[preset] - installed, set(), f"packages that preset {preset} lacks")
    checks.that(configured, "no preset is configured")


def containers(checks):
    """git refuses a work tree that another user owns, which a container's root finds: each job in one names the folder first. Source:
    actions/checkout #1048."""
    found = 0
    for path in sorted(WORKFLOW.parent.glob("*.yml")):
        for name, job in re.findall(r"(?m)^  ([\w-]+):\n((?:    .*\n|\n|  *#.*\n)+)", path.read_text().partition("\njobs:\n")[2]):
            if re.search(r"(?m)^    container:", job):
                found += 1
                checks.that("git config --system --add safe.directory" in job.partition("actions/checkout@")[0], f"{path.name}, {name}: git refuses the work tree")
    checks.that(found >= 2, f"{found} jobs in containers")


def parameters(path):
    """Names of a script's parameters."""
    text = path.read_text()
    block = re.search(r"(?ms)^param\((.*?)\)\s*$", text)
    return set(re.findall(r"\$(\w+)", block[1])) if block else set()


def workflow(env, checks):
    text = WORKFLOW.read_text()
    try:
        import yaml
        checks.equal(list(yaml.safe_load(text)["jobs"]), ["build", "windows", "sent", "clang-cl"], "jobs")
    except ImportError:
        print("workflow: no PyYAML here; its form was not parsed")
    for path in sorted(CI.glob("*.ps1")):
        test_runbook.strings_of(checks, path.name, path.read_text())
        test_runbook.plain(checks, path)
    calls = re.findall(r"(\./[\w/-]+\.ps1)((?: -\w+| [^\n|;]+?)*)$", text, re.M)
    checks.that(len(calls) >= 7, f"{len(calls)} calls of scripts")
    for script, words in calls:
        path = harness.ROOT / script
        checks.that(path.exists(), f"{script} does not exist")
        used = set(re.findall(r"(?<=\s)-([A-Z]\w+)", words))
        checks.equal(used - parameters(path), set(), f"parameters that {script} lacks")
        needed = {name for name in parameters(path) if re.search(rf"\[Parameter\(Mandatory\)\]\[string\]\${name}\b", path.read_text())}
        checks.equal(needed - used, set(), f"parameters that the call of {script} lacks")
    for script, words in re.findall(r"python3? (\S+\.py)([^\n]*)", text):
        path = harness.ROOT / script
        checks.that(path.exists(), f"{script} does not exist")
        helped = subprocess.run([sys.executable, str(path), *re.findall(r"^ (serve|facts|events)\b", words), "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if path.name != "imports.py":  # it has no options
            checks.equal(helped.returncode, 0, f"{script} --help")
        for option in re.findall(r"\s(--[a-z-]+)", words):
            checks.that(option in helped.stdout, f"{script} has no {option}")
    made = {name.replace("-${{ matrix.os }}-${{ matrix.shell }}", "") for name in re.findall(r"upload-artifact.*?name: (.*?)$", text, re.S | re.M)}
    taken = {name.replace("-${{ matrix.os }}-${{ matrix.shell }}", "") for name in re.findall(r"download-artifact.*?name: (.*?)$", text, re.S | re.M)}
    checks.equal((made, taken), ({"built", "results"}, {"built", "results"}), "artifacts that jobs hand over")
    presets_of(checks, text)
    looked_for = (CI / "left.ps1").read_text()
    for removed in ("$env:ProgramFiles", *(["$env:ProgramData"] if "PURGE=1" in text else [])):
        checks.that(f"(Join-Path {removed} 'etwagent')" in looked_for, f"left.ps1 does not look for {removed}")
    checks.equal(lines_of_cmd(checks, CI / "truth.ps1"), 2, "lines for cmd.exe")
    called = (CI / "truth.ps1").read_text()
    for command in re.findall(r"Compare-Truth (\w+)", called):
        checks.equal(truth(command, "--help")[0], 0, f"truth.py {command}")
    for session in re.findall(r"Use-Recording ['\"](\{[^\n]*?\})['\"] \(", called):
        file = env.folder / "truth.yaml"
        file.write_text(f"sessions: [{session.replace('$provider', 'Microsoft-Windows-Kernel-Process')}]\n")
        done = env.run([env.agent, "check", str(file)], check=False)
        checks.equal(done.returncode, 0, f"etwagent check of {session}: {done.stdout}{done.stderr}")
    for call in re.findall(r"(?:\"`\"\$exe`\"\"?|\$exe`\") (dump|stats) ([^`]*)", called) + re.findall(r"-ArgumentList '(record)', (.*)", called):
        helped = env.run([env.agent, call[0], "--help"]).stdout
        for option in re.findall(r"--[a-z-]+", call[1]):
            checks.that(re.search(rf"{option}\b", helped), f"etwagent {call[0]} has no {option}")


def test(env, checks, arguments):
    sample = Sample(env)
    events(checks, sample)
    summaries(checks, sample)
    workloads(checks, sample)
    verdict(env, checks)
    acknowledged(env, checks, sample)
    workflow(env, checks)
    containers(checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
