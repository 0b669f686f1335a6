#!/usr/bin/env python3
"""Runs a command under the system call filter of a systemd unit: what SystemCallFilter of the unit's file names, in the groups of this
machine's systemd, is allowed, and every other call ends with SystemCallErrorNumber. The command has no capabilities, which the unit takes
away, too (CapabilityBoundingSet). Needs systemd-analyze and libseccomp.

usage: unit_filter.py UNIT COMMAND...
"""
import ctypes
import ctypes.util
import errno
import os
import re
import subprocess
import sys

ALLOW, ERROR = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO
NO_NEW_PRIVILEGES, DROP = 38, 24  # PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP
UNKNOWN = -1                      # __NR_SCMP_ERROR


def groups():
    """{"@name": its system calls and groups} of this machine's systemd."""
    found, name = {}, None
    for line in subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True).stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            name = word
            found[name] = set()
        elif name and word and not word.startswith("#"):
            found[name].add(word)
    return found


def members(word, known):
    return set().union(*(members(one, known) for one in known[word])) if word.startswith("@") else {word}


def allowed(unit):
    """(system calls that a unit's text allows, the error of the others). systemd's rule: the lines count in their order, the first one
    makes the list one of allowed calls."""
    known, calls = groups(), set()
    for negated, words in re.findall(r"^SystemCallFilter=(~?)(.*)$", unit, re.M):
        for word in words.split():
            calls = calls - members(word, known) if negated else calls | members(word, known)
    number, = re.findall(r"^SystemCallErrorNumber=(\w+)$", unit, re.M)
    return calls | members("@default", known), getattr(errno, number)


def enter(calls, number):
    """This process, and what it starts, has the filter from now on."""
    library, libc = ctypes.CDLL("libseccomp.so.2", use_errno=True), ctypes.CDLL(None, use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    capability = 0
    while libc.prctl(DROP, capability, 0, 0, 0) == 0:
        capability += 1
    filters = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ERROR | number)))
    for call in sorted(calls):
        at = library.seccomp_syscall_resolve_name(call.encode())
        if at != UNKNOWN:
            library.seccomp_rule_add(filters, ctypes.c_uint32(ALLOW), at, 0)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.seccomp_load(filters):
        sys.exit("unit_filter.py: the filter cannot be loaded")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as unit:
        enter(*allowed(unit.read()))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
