#!/usr/bin/env python3
# sanitizers: asan-ubsan
"""etwagent import: each command line in tests/golden/import and each recording profile of WPR becomes exactly the configuration
beside it, which check accepts; command lines that are wrong are refused with a reason; the profiles in config/profiles are valid.

usage: test_import.py --build DIR"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = {
    "": "expected a command line of xperf, logman or PerfView",
    "tcpdump -i any": "'tcpdump': expected a command line that begins with",
    "xperf": "expected -on with kernel flags, or -start NAME -on with providers",
    "xperf -BufferSize 64": "-BufferSize: expected -on or -start first",
    "xperf -on": "-on needs a name after it",
    "xperf -on PROFIL": "there is no kernel flag 'PROFIL'; did you mean PROFILE?",
    "xperf -on PROFILE -BufferSize big": "-BufferSize 'big': expected 1 to",
    "xperf -start a -on :0x1": "a provider's name is missing",
    "logman query": "expected logman create, start or update",
    "logman start a": "expected -p with a provider",
    "logman start a -p {9e814aad-3204-11d2-9a82-006008a86939} (everything)": "logman has no kernel flag 'everything'",
    'logman start "NT Kernel Logger" -p Microsoft-Windows-DNS-Client': "the NT Kernel Logger takes no providers",
    "PerfView collect /Providers=Some-Provider:0x1:loud": "expected critical, error",
    "logman start a\x1b[2J -p Some-Provider": "control characters, or is not UTF-8",
    "PerfView view a.etl": "'view': expected collect, start or run",
    "PerfView collect /ClrEvents=Nothing": "the .NET runtime has no keyword 'Nothing'",
    "PerfView collect /KernelEvents=None /ClrEvents=None": "nothing would be recorded",
    "PerfView collect /CpuSampleMSec:5000": "expected milliseconds",
}


def recording(inside):
    return f"<WindowsPerformanceRecorder><Profiles>{inside}</Profiles></WindowsPerformanceRecorder>"


LOOP = "".join(f'<Profile Id="{i}" Base="{(i + 1) % 2}"/>' for i in range(2))
WRONG_PROFILES = [
    ("<Profiles>", 3, "wrong.wprp:1:"),
    ("<instrumentationManifest/>", 3, "expected a recording profile"),
    (recording(""), 2, "the file has no profile"),
    (recording('<Profile Id="a"/>'), 2, "nothing of the profile 'a' has a counterpart"),
    (recording('<Profile Id="a&#10;b"/>'), 3, "control characters"),
    (recording(LOOP), 3, "build on each other"),
    (recording('<Profile Id="a"><Collectors><EventCollectorId Value="x"/></Collectors></Profile>'), 2,
     "there is no collector with the Id 'x'"),
    (recording('<EventCollector Id="c" Name="c"/><EventProvider Id="p" Name="P"><Keywords><Keyword Value="all"/></Keywords></EventProvider>'
               '<Profile Id="a"><Collectors><EventCollectorId Value="c"><EventProviders><EventProviderId Value="p"/></EventProviders>'
               "</EventCollectorId></Collectors></Profile>"), 2, "keyword 'all' of P: expected a number"),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    agent = parser.parse_args().build.resolve() / "service/app/etwagent"
    passed = failed = 0

    def check(ok, what):
        nonlocal passed, failed
        passed, failed = passed + bool(ok), failed + (not ok)
        if not ok:
            print(f"FAILED: {what}")

    def run(*words):
        return subprocess.run([agent, *words], capture_output=True, text=True, timeout=60)

    cases = sorted((ROOT / "tests/golden/import").glob("*.txt"))
    check(len(cases) >= 14, f"{len(cases)} command lines")
    for path in cases:
        expected = path.with_suffix(".yaml")
        result = run("import", path.read_text().strip())
        check(result.returncode == 0 and result.stdout == expected.read_text(),
              f"{path.name}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        valid = run("check", expected)
        check(valid.returncode == 0, f"{expected.name} is refused: {valid.stderr}")
    files = sorted((ROOT / "tests/golden/import").glob("*.wprp"))
    check(len(files) >= 10, f"{len(files)} recording profiles")
    for path in files:
        expected = path.with_suffix(".yaml")
        result = run("import", "--wpr", path)
        check(result.returncode == 0 and result.stdout == expected.read_text(),
              f"{path.name}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        valid = run("check", expected)
        check(valid.returncode == 0 and "ETW session" in valid.stdout, f"{expected.name} is refused: {valid.stderr}")
    nested = ROOT / "tests/golden/import/wpr-nested.wprp"
    other = run("import", "--wpr", nested, "--profile", "Other")
    check("any: 0x10\n" in other.stdout and "any: 0x8001" not in other.stdout, f"a profile that sets: {other.stdout}{other.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        wrong = pathlib.Path(folder) / "wrong.wprp"
        for text, code, reason in WRONG_PROFILES:
            wrong.write_text(text)
            result = run("import", "--wpr", wrong)
            check(result.returncode == code and reason in result.stderr and not result.stdout,
                  f"{text}: exit {result.returncode}, expected {code} '{reason}', got {result.stdout}{result.stderr}")
    result = run("import", "--wpr", nested, "--profile", "Absent")
    check(result.returncode == 2 and "there is no profile 'Absent'" in result.stderr, f"--profile: {result.stderr}")
    for line, reason in WRONG.items():
        result = run("import", line)
        check(result.returncode != 0 and reason in result.stderr and not result.stdout,
              f"'{line}': exit {result.returncode}, expected '{reason}', got {result.stdout}{result.stderr}")
    words = run("import", "--", "logman", "start", "dns", "-p", "Microsoft-Windows-DNS-Client")
    check(words.returncode == 0 and "Microsoft-Windows-DNS-Client" in words.stdout, f"words: {words.stderr}")
    providers = run("import", "--providers", "Microsoft-Windows-DotNETRuntime:GC+Jit:Verbose:@StacksEnabled=true")
    check("any: 0x11" in providers.stdout and "stacks: true" in providers.stdout, f"--providers: {providers.stderr}")
    profiles = sorted((ROOT / "config/profiles").glob("*.yaml"))
    check(len(profiles) >= 6, f"{len(profiles)} profiles")
    for path in profiles:
        result = run("check", path)
        check(result.returncode == 0 and "ETW session" in result.stdout, f"{path.name} is refused: {result.stderr}")
    # what no profile is named for: security classes soon and in small buffers, the rest beside them
    sessions = re.findall(r'"etwagent-(\S+)", priority (\w+), shipped\n +\d+ to \d+ buffers of (\d+) KiB .*delivered after ([\d.]+) s', run("check", ROOT / "config/profiles/default.yaml").stdout)
    by = {which: [(int(kib), float(s)) for _, priority, kib, s in sessions if priority == which] for which in ("security", "bulk")}
    check(len(by["security"]) == 2 and len(by["bulk"]) == 2 and max(by["security"])[0] < min(by["bulk"])[0] and
          max(s for _, s in by["security"]) <= 0.1 < min(s for _, s in by["bulk"]), f"the default profile: {sessions}")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "knobs.yaml"
        path.write_text("sessions:\n- {name: s, kind: system, flags: [POOL], pool-tags: [Ntfx, Io], rundown: [process], providers: [{provider: X, event-names: [A, B], "
                        "names-level: error, names-any: 0x3, stack-event-names: [C]}, {provider: Y, exclude-event-names: [D]}]}\n")
        printed = run("check", path).stdout
        for words in ("pool tags Ntfx, Io\n", "rundown of existing objects: process\n",
                      "provider X, level verbose, only events named A, B up to level error of 0x3, with stacks of events named C\n",
                      "provider Y, level verbose, without events named D\n"):
            check(words in printed, f"'{words}' is not among {printed}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
