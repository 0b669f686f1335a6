#!/usr/bin/env python3
"""Every .exe of the Windows build imports only Windows' own DLLs: an installation needs no other files. Shipped programs import only
KnownDLLs: a file in the program's folder cannot replace a KnownDLL. No program imports a function of ETW or TDH: the agent
resolves those by name from System32 (service/etw/etw_api.c). The agent writes no events but those of its commands emit and mark.

usage: tests/windows/imports.py BUILD
"""
import pathlib
import re
import subprocess
import sys

# DLLs that are part of every supported Windows, in lower case: what a program for tests may import
WINDOWS = {"kernel32.dll", "ntdll.dll", "advapi32.dll", "user32.dll", "gdi32.dll", "ws2_32.dll", "crypt32.dll", "bcrypt.dll",
           "ncrypt.dll", "msvcrt.dll", "ole32.dll", "oleaut32.dll", "shell32.dll", "iphlpapi.dll", "tdh.dll", "secur32.dll",
           "wevtapi.dll", "winhttp.dll", "userenv.dll", "wtsapi32.dll", "psapi.dll", "dbghelp.dll", "sechost.dll", "rpcrt4.dll"}

# What is shipped may import only these: Windows maps KnownDLLs from a section that it made of System32 at boot, so that no file beside the
# program is looked for. Source: the values of HKLM\\SYSTEM\\CurrentControlSet\\Control\\Session Manager\\KnownDLLs as they are known of Windows 10
# and 11, written down here from memory and not read on a machine; DLLs that only one of the two has are not in it. ntdll.dll is in each process
# before any search.
KNOWN_DLLS = {"ntdll.dll", "advapi32.dll", "clbcatq.dll", "combase.dll", "comdlg32.dll", "coml2.dll", "difxapi.dll", "gdi32.dll", "gdiplus.dll",
              "imagehlp.dll", "imm32.dll", "kernel32.dll", "msctf.dll", "msvcrt.dll", "normaliz.dll", "nsi.dll", "ole32.dll", "oleaut32.dll", "psapi.dll",
              "rpcrt4.dll", "sechost.dll", "setupapi.dll", "shcore.dll", "shell32.dll", "shlwapi.dll", "user32.dll", "wldap32.dll", "ws2_32.dll"}
# msi.dll: Windows Installer, which calls this DLL, has it already
SHIPPED = {"etwagent.exe": KNOWN_DLLS, "etwagent-setup.dll": KNOWN_DLLS | {"msi.dll"}}
LATE = {"bcrypt.dll", "crypt32.dll"}  # what etwagent.exe loads at its first use, from System32: proto/base/delay_windows.c

RELOCATIONS = re.compile(r"^Entry 5 [0-9a-f]+ (?!0+ )[0-9a-f]{8} Base Relocation", re.M)
OWNER_RIGHTS = "S-1-3-4"


# functions of evntrace.h, evntprov.h, evntcons.h, tdh.h
ETW = re.compile(r"(Start|Stop|Query|Update|Flush|Control|Open|Process|Close|EnumerateTrace|Enable)Trace|QueryAllTraces|Trace(Set|Query)Information|Trace(Event|Message)|"
                 r"RegisterTraceGuids|UnregisterTraceGuids|EnumerateTraceGuids|GetTrace|Event(Register|Unregister|Write|Enabled|ProviderEnabled|SetInformation|Access|ActivityId)|Tdh")


def imports(program):
    """The imported DLLs and functions. objdump prints the name of a function after an address and a number."""
    listed = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", str(program)], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    functions = re.findall(r"^\t[0-9a-f]+\s+\d+\s+(\w+)$", listed, re.M)
    return {name.lower() for name in re.findall(r"DLL Name: (\S+)", listed)}, functions, listed


def main():
    programs = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if (p.suffix == ".exe" or p.name in SHIPPED) and not {"CMakeFiles", "wine"} & set(p.parts))
    failed = 0
    for name in sorted(SHIPPED.keys() - {p.name for p in programs}):
        failed += 1
        print(f"{name} is missing in {sys.argv[1]}")
    for program in programs:
        dlls, functions, head = imports(program)
        foreign = sorted(dlls - SHIPPED.get(program.name, WINDOWS)) + [name for name in functions if ETW.match(name)]
        if foreign or "LoadLibraryExW" not in functions and program.name == "etwagent.exe":
            failed += 1
            print(f"{program.name} imports {', '.join(foreign) or 'no LoadLibraryExW: what it imports was not read'}")
        if program.name in SHIPPED:
            missing = [f"{flag} among its DLL characteristics" for flag in ("DYNAMIC_BASE", "HIGH_ENTROPY_VA", "NX_COMPAT") if flag not in head] + \
                ([] if RELOCATIONS.search(head) else ["relocations"])  # without them Windows ignores DYNAMIC_BASE
            failed += bool(missing)
            print(f"{program.name} has no {', '.join(missing)}\n" if missing else "", end="")
        if program.name == "etwagent.exe" and OWNER_RIGHTS.encode("utf-16-le") in program.read_bytes():
            failed += 1
            print(f"{program.name} names {OWNER_RIGHTS} in an access list: each later owner of the file would have full access")
        late = {name for name in LATE if name.encode() in program.read_bytes()}
        if program.name == "etwagent.exe" and late != LATE:
            failed += 1
            print(f"{program.name} loads no {', '.join(sorted(LATE - late))}: expected them as imports of the first use")
    print(f"{len(programs) - failed} programs import only Windows' own DLLs and nothing of ETW, {failed} do not")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
