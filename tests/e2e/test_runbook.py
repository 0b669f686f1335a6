#!/usr/bin/env python3
"""The PowerShell scripts for Windows, which do not run on this machine: the properties that a test without PowerShell can check.

- Each bracket and each quote is closed where it should be.
- Each session that runbook.ps1 writes into a configuration is one that "etwagent check" takes.
- Each command of etwagent that it calls exists, with each of its options; each name of a number that it reads is one that the agent writes.
- Each call of Windows in the table of docs/verification/windows.md belongs to one of its promises (PROMISES below); the table has all calls.

usage: test_runbook.py --build DIR"""
import re

import harness

FOLDER = harness.ROOT / "installer" / "windows"
PAIRS = {")": "(", "}": "{", "]": "["}
# of the runbook, as they are when it runs
VARIABLES = {"$PID": "4711", "$program": "powershell.exe", "$file": "C:\\\\Temp\\\\x.etl", "$state": "C:\\\\ProgramData\\\\etwagent", "$how": "adopt"}
FILTERS = ("stack-event-ids: [1]", "stack-event-names: [Wanted]", 'stack-level: warning, stack-any: "0x10"')  # that $filter stands for
# a call to Windows: words of the promise of the runbook that needs it
PROMISES = {
    "StartTraceW": "the kernel: samples", "ControlTraceW": "losses are detected", "OpenTraceW": "losses are detected", "ProcessTrace": "losses are detected",
    "CloseTrace": "no session of it is left", "QueryAllTracesW": "etwagent sessions and Windows say", "EnableTraceEx2": "keywords by name",
    "TraceSetInformation": "the kernel: samples", "TraceQueryInformation": "samples of a performance counter", "EnumerateTraceGuidsEx": "a provider that no program has",
    "TdhEnumerateProviders": "Windows says who there is", "TdhEnumerateProviderFieldInformation": "keywords, events and fields",
    "TdhEnumerateManifestProviderEvents": "keywords, events and fields", "TdhGetManifestEventInformation": "keywords, events and fields",
    "TdhCreatePayloadFilter": "a filter by payload", "TdhAggregatePayloadFilters": "a filter by payload", "TdhDeletePayloadFilter": "a filter by payload",
    "TdhCleanupPayloadEventFilterDescriptor": "a filter by payload", "TdhGetEventInformation": "only Windows knows", "TdhGetEventMapInformation": "only Windows knows",
    **dict.fromkeys(("EventRegister", "EventUnregister", "EventEnabled", "EventWrite"), "events and marks of our own"),
}


def strings_of(checks, name, text):
    """Walks over a script: its strings, each with whether it expands variables. Brackets and quotes have to close."""
    found, stack, at, line = [], [], 0, 1
    while at < len(text):
        c = text[at]
        line = text.count("\n", 0, at) + 1
        if c == "#" and (at == 0 or text[at - 1] in " \t\n({;"):
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif text.startswith("<#", at):
            end = text.find("#>", at)
            checks.that(end > 0, f"{name}:{line}: a comment that does not end")
            at = end + 2 if end > 0 else len(text)
        elif c == "`":
            at += 2
        elif c in "'\"":
            end, value = at + 1, ""
            while end < len(text) and not (text[end] == c and text[end + 1:end + 2] != c):
                step = 2 if (text[end] == c or (c == '"' and text[end] == "`")) else 1
                value += text[end + step - 1]
                end += step
            checks.that(end < len(text), f"{name}:{line}: a string that does not end: {text[at:at + 60]}")
            checks.that("\n" not in value or "`n" in text[at:end], f"{name}:{line}: a string over several lines: {text[at:at + 60]}")
            found.append((value, c == '"'))
            at = end + 1
        else:
            if c in PAIRS.values():
                stack.append((c, line))
            elif c in PAIRS:
                opened = stack.pop() if stack else ("nothing", line)
                checks.that(opened[0] == PAIRS[c], f"{name}:{line}: {c} closes {opened[0]} of line {opened[1]}")
            at += 1
    checks.equal(stack, [], f"{name}: brackets that are not closed")
    return found


def sessions(env, checks, strings):
    """Each session of the runbook, in a configuration."""
    texts = []
    for value, expands in strings:
        if not value.startswith("{name: runbook") and not value.startswith("sessions: [{name: runbook"):
            continue
        value = value.removeprefix("sessions: [").removesuffix("]") if value.startswith("sessions") else value
        for name, stands_for in VARIABLES.items() if expands else ():
            value = value.replace(name, stands_for.replace("\\\\", "\\"))
        texts += [value.replace("$filter", f) for f in FILTERS] if "$filter" in value else [value]
    checks.that(len(texts) > 30, f"{len(texts)} sessions in the runbook")
    for text in texts:
        checks.that("$" not in text, f"a variable that this test does not know: {text}")
        file = env.folder / "runbook.yaml"
        file.write_text(f"sessions:\n  - {text}\n")
        done = env.run([env.agent, "check", str(file)], check=False)
        checks.equal(done.returncode, 0, f"etwagent check of {text}: {done.stdout}{done.stderr}")


def refused(env, checks, script):
    """The session that the runbook wants to see refused is refused, with the words that it looks for."""
    text, words = re.search(r"-Value '(sessions: \[\{name: five[^']*)'", script)[1], re.search(r"-match '(at most \d)'", script)[1]
    file = env.folder / "five.yaml"
    file.write_text(text + "\n")
    done = env.run([env.agent, "check", str(file)], check=False)
    checks.that(done.returncode and words in done.stderr, f"five events with counters: {done.returncode} {done.stderr}")


def commands(env, checks, script):
    calls = re.findall(r"Invoke-Agent (\w(?:[^|;)\n'\"]|'[^']*')+)", script) + [" ".join(re.findall(r"'([^']*)'", m)) for m in re.findall(r"Start-Process \$exe -ArgumentList (.*)", script)]
    checks.that(len(calls) >= 15, f"{len(calls)} calls of etwagent")
    for call in calls:
        words = re.findall(r"'[^']*'|\S+", call)
        helped = env.run([env.agent, words[0], "--help"], check=False)
        checks.equal(helped.returncode, 0, f"etwagent {words[0]}")
        for option in [w for w in words[1:] if w.startswith("-")]:
            checks.that(re.search(rf"(^|\s){re.escape(option)}\b", helped.stdout), f"etwagent {words[0]} has no {option}: {call}")


def names(checks, script):
    """Names of numbers in the status and in what commands print; words of Windows' own have no underscore."""
    sources = "".join(p.read_text() for folder in ("service/app", "proto/base", "proto/event") for p in sorted((harness.ROOT / folder).glob("*.[ch]")))
    read = set(re.findall(r"\.([a-z]+(?:_[a-z]+)+)", script))
    checks.that(len(read) > 10, f"{len(read)} names")
    for name in sorted(read):
        checks.that(re.search(rf"\b{name}\b", sources), f"no source writes {name}")


def calls_of_windows(checks, script):
    table = (harness.ROOT / "service" / "etw" / "etw_api.h").read_text()
    functions = re.findall(r"X\((?:ETW|TDH), (\w+),", table)
    page = (harness.ROOT / "docs" / "verification" / "windows.md").read_text()
    listed = page[page.index("## Windows' calls"):]
    checks.equal(sorted(functions), sorted(PROMISES), "the calls, and those that have a promise")
    promises = re.findall(r"Test-Promise '([^']*)'", script)
    for f in functions:
        checks.that(re.search(rf"\b{f.removesuffix('W')}W?\b", listed), f"windows.md's table lacks {f}")
        checks.that(any(PROMISES[f] in p for p in promises), f"no promise of the runbook is called: {PROMISES[f]}")


def plain(checks, path):
    """Windows PowerShell 5.1 reads a script without a mark as text of the machine's old code page. A PowerShell 7 that is set so makes an error,
    which "Stop" turns into an end, of a program's exit code: a script that looks at exit codes says that it is not to."""
    text = path.read_bytes()
    checks.that(text.isascii() and b"\r" not in text, f"{path.name} has other characters than those of ASCII")
    own = text.decode("ascii", "replace")
    ends = "$ErrorActionPreference = 'Stop'" in own and re.search(r"(?m)LASTEXITCODE|^(?!.*Start-Process).*\w\.exe ", own) and "runbook-shared.ps1'" not in own
    checks.that(not ends or "$PSNativeCommandUseErrorActionPreference = $false" in own, f"{path.name}: a program's exit code may end it")
    # a property of an expression that may be missing: the value is read by Get-RegistryValue
    checks.equal(re.findall(r"\(Get-ItemProperty \$key\)\.\w+", own), [], f"{path.name}: values that strict mode refuses when they are missing")


def shared(checks, path):
    """runbook-shared.ps1 is beside the scripts that read it; a function that it has is nowhere else, and the end of each script is its own."""
    text, common = path.read_text(), (FOLDER / "runbook-shared.ps1").read_text()
    if path.name == "runbook-shared.ps1" or "Test-Promise" not in text:
        return
    checks.that(text.count(". (Join-Path $PSScriptRoot 'runbook-shared.ps1')") == 1, f"{path.name} does not read runbook-shared.ps1 once")
    both = set(re.findall(r"(?m)^function ([\w-]+)", text)) & set(re.findall(r"(?m)^function ([\w-]+)", common))
    checks.equal(both, set(), f"functions of {path.name} that runbook-shared.ps1 has, too")
    known = set(re.findall(r"(?m)^function ([\w-]+)", text + common))
    used = set(re.findall(r"\b((?:Test|Wait|Get|Use|Invoke|Skip|Complete|Write|Add|Start)-(?:Promise|For|Agent|Status|SessionStatus|Session|Recording|Count|Ids|Mine|Runbook|Line|Reload|Something|Source|Access|Build|Printable|Flags|RegistryValue|PackageVersion))\b", text + common))
    checks.equal(used - known, set(), f"functions that {path.name} calls and no script has")
    for name in ("$Format", "$Out", "$Seconds"):
        checks.that(name in text[:text.index("Set-StrictMode")], f"{path.name} has no parameter {name}, which runbook-shared.ps1 reads")
    checks.that(re.search(r"Complete-Runbook '[\w-]+'\s*$", text), f"{path.name} does not end with Complete-Runbook")


def test(env, checks, arguments):
    for path in sorted(FOLDER.glob("*.ps1")):
        strings = strings_of(checks, path.name, path.read_text())
        plain(checks, path)
        shared(checks, path)
        if path.name == "runbook.ps1":
            script = re.sub(r"(?m)^\s*#.*$", "", path.read_text())
            sessions(env, checks, strings)
            refused(env, checks, script)
            commands(env, checks, script)
            names(checks, script)
            calls_of_windows(checks, script)


if __name__ == "__main__":
    harness.main(test, __doc__)
