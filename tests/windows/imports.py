#!/usr/bin/env python3
"""Every .exe of the Windows build imports nothing but Windows' own DLLs: whoever installs it needs nothing beside it.

usage: tests/windows/imports.py BUILD
"""
import pathlib
import re
import subprocess
import sys

# DLLs that are part of every supported Windows, in lower case
WINDOWS = {"kernel32.dll", "ntdll.dll", "advapi32.dll", "user32.dll", "gdi32.dll", "ws2_32.dll", "crypt32.dll", "bcrypt.dll",
           "ncrypt.dll", "msvcrt.dll", "ole32.dll", "oleaut32.dll", "shell32.dll", "iphlpapi.dll", "tdh.dll", "secur32.dll",
           "wevtapi.dll", "winhttp.dll", "userenv.dll", "wtsapi32.dll", "psapi.dll", "dbghelp.dll", "sechost.dll", "rpcrt4.dll"}


def imports(program):
    listed = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", str(program)], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return {name.lower() for name in re.findall(r"DLL Name: (\S+)", listed)}


def main():
    programs = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*.exe") if not {"CMakeFiles", "wine"} & set(p.parts))
    failed = 0
    for program in programs:
        foreign = sorted(imports(program) - WINDOWS)
        if foreign:
            failed += 1
            print(f"{program.name} imports {', '.join(foreign)}")
    print(f"{len(programs) - failed} programs import only Windows' own DLLs, {failed} do not")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
