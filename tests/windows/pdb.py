#!/usr/bin/env python3
"""The PDB of the preset windows-pdb: it belongs to its program, and names functions of ours with their files and lines.

usage: tests/windows/pdb.py BUILD-OF-WINDOWS-PDB NATIVE-BUILD
"""
import pathlib
import re
import subprocess
import sys

# functions far from each other, and the files where they are
FUNCTIONS = {"ea_agent_run": "agent.c", "ea_etl_open": "merge.c", "ea_sender_start": "sender.c", "ea_service_main": "scm.c"}


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"FAILED: {command[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def main():
    build, native = map(pathlib.Path, sys.argv[1:3])
    program, pdb = build / "service" / "app" / "etwagent.exe", build / "service" / "app" / "etwagent.pdb"
    dumped = run("llvm-pdbutil", "dump", "--publics", "--section-headers", pdb)
    bases = [int(base, 16) for base in re.findall(r"^ *([0-9A-F]+) virtual address$", dumped, re.M)]
    addresses = {name: bases[int(section) - 1] + int(offset)
                 for name, section, offset in re.findall(r"`(\w+)`\n.*addr = (\d+):(\d+)", dumped)}
    # 16 bytes after each function's first byte: the name must apply to the whole function, not only to its first byte
    asked = {name: addresses[name] + 16 for name in FUNCTIONS}
    lines = run(native / "collector" / "app" / "etwcollector", "symbols", "--lines", program, *map(hex, asked.values())).splitlines()
    last = {line.split()[0]: line for line in lines}  # where functions are inlined, the enclosing function comes last
    failed = 0
    for (name, rva), file in zip(asked.items(), FUNCTIONS.values()):
        line = last.get(hex(rva), "")
        if not re.search(rf" {name}\+0x10 .*{file}:\d+$", line):
            failed += 1
            print(f"FAILED: {name} at {rva:#x}: {line}")
    print(f"{len(FUNCTIONS) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
