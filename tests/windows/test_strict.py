#!/usr/bin/env python3
"""The emulator refuses the calls that Windows refuses: wrong structures, exceeded limits, stale handles. strictctl.c makes the calls
directly, since the agent makes none of them, and holds the expected results; EMULATOR.md has the rules.
"""
import emulated

RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"


def test(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "strict") as machine:
        machine.plays([], "counter=19 1000 2147483647 TotalIssues", "counter=10 4096 1000000 CacheMisses", "counters=1",
                      f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
        def run(build, *words):
            session.run(["reg", "add", r"HKLM\Software\Microsoft\Windows NT\CurrentVersion", "/v", "CurrentBuildNumber", "/d", build, "/f"])
            return session.run([windows / "tests" / "windows" / "strictctl.exe", *words])
        older = run("18362", "older")
        checks.equal((older.returncode, older.stdout.splitlines()[:-1]), (0, []), "calls that an older Windows answers otherwise")
        done = run("22000")
        lines = done.stdout.splitlines()
        checks.equal((done.returncode, lines[:-1]), (0, []), "calls that were answered otherwise than documented")
        checks.that(lines and int(lines[-1].split()[0]) > 180, f"calls made: {lines[-1:]} {done.stderr}")
        checks.equal(machine.sessions(), {}, "sessions that are left over")


if __name__ == "__main__":
    emulated.main(test, __doc__)
