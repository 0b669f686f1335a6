#!/usr/bin/env python3
"""Builds the agent's MSI on Linux: wixl for what it knows, then msibuild for the custom actions that write the first configuration
and bring the service to its full state: recovery actions, delayed start, service SID and privileges are set by `etwagent install`.
The tables MsiServiceConfig and MsiServiceConfigFailureActions are not used: their restart actions fail on Windows (error 1939).

usage: installer/windows/build_msi.py --exe etwagent.exe --version 1.2.3 --output etwagent.msi [--sign COMMAND]
--sign: a command that is run for the .exe, the setup DLL and then for the .msi, followed by the file's path, such as
    "osslsigncode-in-place cert.pem key.pem"; see README.md in this folder."""
import argparse
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "release"))
import sbom  # noqa: E402

PROFILES = HERE.parents[1] / "config" / "profiles"
LIBRARIES = pathlib.Path(os.environ.get("EA_DEPS_CACHE") or pathlib.Path.home() / ".cache" / "etwagent" / "windows-x64")
NAMESPACE = uuid.UUID("6f0f2d0e-5b8b-4a0a-9c53-0a5a3c4e7d11")

# custom action types: an .exe that the package installed (18), a DLL of the Binary table (1), a property's value (51);
# deferred (1024), as the system (2048), result ignored (64), its target kept out of the log (8192): a token may be in it
INSTALLED_EXE, BINARY_DLL, SET_PROPERTY, DEFERRED, AS_SYSTEM, GO_PAST, HIDDEN = 18, 1, 51, 1024, 2048, 64, 8192
INSTALLS, REMOVES_ALL = "NOT (REMOVE=\"ALL\")", "REMOVE=\"ALL\" AND NOT UPGRADINGPRODUCTCODE AND PURGE=1"
# Only the first installation of a version: a repair or a change, which a user may start, must not write a configuration.
# In an upgrade the new version is "NOT Installed"; the old one's removal has UPGRADINGPRODUCTCODE, and writes nothing.
WRITES = "NOT Installed AND (COLLECTORURL OR TOKEN)"
# What WriteConfiguration (setup.c) gets as CustomActionData: the program, then what the program reads on standard input.
# No value is on a command line. A value that contains '|' makes a duplicate or an unknown name, which is refused.
ANSWERS = ("[#EtwagentExe]|collector=[COLLECTORURL]|ca=[CACERT]|profile=[PROFILE]|profiles=[PROFILEDIR].|enroll=[ENROLLURL]|"
           "token=[TOKEN]")
ACTIONS = [
    # name, type, source, target, condition, sequence (between InstallServices 5800 and StartServices 5900)
    ("GiveConfiguration", SET_PROPERTY | HIDDEN, "WriteConfiguration", ANSWERS, WRITES, 5805),
    ("WriteConfiguration", BINARY_DLL | DEFERRED | AS_SYSTEM | HIDDEN, "EtwagentSetup", "WriteConfiguration", WRITES, 5810),
    *((name, INSTALLED_EXE | DEFERRED | AS_SYSTEM | bits, "EtwagentExe", words, condition, sequence)
      for name, words, bits, condition, sequence in [
    ("CompleteService", "install", 0, INSTALLS, 5830),
    # StopServices (1900) does not wait for the process, whose program could then not be replaced without a restart
    ("StopAndWait", "stop", GO_PAST, 'REMOVE="ALL" OR REINSTALL', 1890),
    # an upgrade's new service writes them again
    ("RemoveBootSessions", "uninstall --boot", GO_PAST, 'REMOVE="ALL" AND NOT UPGRADINGPRODUCTCODE', 2000),
    # not while another version takes this one's place: the token may still be needed
    ("ForgetToken", "purge --token", GO_PAST, 'REMOVE="ALL" AND NOT UPGRADINGPRODUCTCODE', 2005),
    # before the files go (RemoveFiles 3500), after the service has stopped (StopServices 1900)
    ("PurgeData", "purge --yes", GO_PAST, REMOVES_ALL, 2010),
      ]),
]
SECRETS = ("TOKEN", "WriteConfiguration")  # a deferred action's words are the value of a property of its name
MESSAGE_FILE = r"%SystemRoot%\System32\EventCreate.exe"  # as service/scm/eventlog.c has it
RUNBOOK = ("runbook.ps1", "runbook-after-boot.ps1", "runbook-shared.ps1")
VERSION_MAX = (255, 255, 65535)  # of the three numbers that Windows Installer compares
# Windows Installer decides which components it installs before an upgrade removes the old product. A key file on disk of a higher version than
# the File table's would keep the program out, which the removal deletes then; wixl writes no version, which is lower than any. So the table
# names one that no program has. Source: "Why Windows Installer removes files during a major upgrade if they go backwards in version numbers"
# (Microsoft's archive of blogs); electron-userland/electron-wix-msi #178.
FILE_VERSION = "65535.0.0.0"
FOUND = ("WIX_UPGRADE_DETECTED", "WIX_DOWNGRADE_DETECTED")  # what MajorUpgrade makes


def run(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout}")
    return done.stdout


def sql_text(value):
    return "'" + value.replace("'", "''") + "'"


def add_rows(msi):
    """The rows of custom actions, and properties."""
    statements = []
    # What a user without rights gives to msiexec reaches the part that runs as the system only when it is named here: nothing of
    # ours is. Who installs with properties does so as an administrator, whose properties all arrive.
    statements.append("UPDATE `Property` SET `Value` = '" + ";".join(FOUND) + "' WHERE `Property` = 'SecureCustomProperties'")
    statements.append(f"INSERT INTO `Property` (`Property`, `Value`) VALUES ('MsiHiddenProperties', '{';'.join(SECRETS)}')")
    statements.append(f"UPDATE `File` SET `Version` = {sql_text(FILE_VERSION)} WHERE `File` = 'EtwagentExe'")
    # wixl writes an expandable text without the prefix that makes it one
    statements.append(f"UPDATE `Registry` SET `Value` = {sql_text('#%' + MESSAGE_FILE)} WHERE `Name` = 'EventMessageFile'")
    tables = run(["msiinfo", "tables", msi]).split()
    if "CustomAction" not in tables:
        statements.append("CREATE TABLE `CustomAction` (`Action` CHAR(72) NOT NULL, `Type` SHORT NOT NULL, `Source` CHAR(72), "
                          "`Target` CHAR(255), `ExtendedType` LONG PRIMARY KEY `Action`)")
    for name, kind, source, target, condition, sequence in ACTIONS:
        statements.append("INSERT INTO `CustomAction` (`Action`, `Type`, `Source`, `Target`) "
                          f"VALUES ('{name}', {kind}, '{source}', {sql_text(target)})")
        statements.append("INSERT INTO `InstallExecuteSequence` (`Action`, `Condition`, `Sequence`) "
                          f"VALUES ('{name}', {sql_text(condition)}, {sequence})")
    for statement in statements:
        run(["msibuild", msi, "-q", statement])


def filetime(seconds):
    return int((seconds + 11644473600) * 10_000_000)


def settle(msi, begin, package_code):
    """Replaces the two creation times that wixl writes by the source's time, and the random package code, which wixl does not let the caller
    set, by the given one."""
    data = bytearray(msi.read_bytes())
    random = re.search(r"\{([0-9A-F-]{36})\}", run(["msiinfo", "suminfo", msi]))[1].encode()
    if data.count(random) != 1:
        sys.exit(f"build_msi.py: {msi} has its code {data.count(random)} times, expected once")
    data[:] = data.replace(random, package_code.encode())
    low, high, count = filetime(begin - 2), filetime(time.time() + 2), 0
    for found in re.finditer(rb"(?s)\x40\0\0\0(?=(.{8}))", bytes(data)):  # VT_FILETIME of the summary information
        if low <= int.from_bytes(found[1], "little") <= high:
            data[found.end():found.end() + 8] = filetime(sbom.epoch()).to_bytes(8, "little")
            count += 1
    if count != 2:
        sys.exit(f"build_msi.py: {msi} has {count} times of its making, expected 2 (created, last saved)")
    msi.write_bytes(data)


def is_version(text):
    """Windows Installer keeps a version in 8, 8 and 16 bits. Source: the win32 page ProductVersion."""
    return bool(re.fullmatch(r"\d+\.\d+\.\d+", text)) and all(int(n) <= most for n, most in zip(text.split("."), VERSION_MAX))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--exe", type=pathlib.Path, required=True, help="etwagent.exe; etwagent-setup.dll is beside it")
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, default=LIBRARIES, help="what build-windows-deps.sh wrote (default: %(default)s)")
    parser.add_argument("--sign", help="command that signs a file in place")
    arguments = parser.parse_args()
    if not is_version(arguments.version):
        sys.exit(f"--version {arguments.version}: Windows Installer compares three numbers, up to {'.'.join(map(str, VERSION_MAX))}")
    for needed in (arguments.exe, arguments.exe.parent / "etwagent-setup.dll"):
        if not needed.is_file():
            sys.exit(f"{needed} is missing; 'cmake --build --preset windows' makes it")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        exe = folder / "etwagent.exe"
        shutil.copyfile(arguments.exe, exe)
        run(["x86_64-w64-mingw32-strip", exe])
        setup = folder / "etwagent-setup.dll"
        shutil.copyfile(arguments.exe.parent / setup.name, setup)
        run(["x86_64-w64-mingw32-strip", setup])
        if arguments.sign:
            run([*shlex.split(arguments.sign), exe])
            run([*shlex.split(arguments.sign), setup])
        sbom.write("agent", exe, arguments.libraries, arguments.version, folder / "etwagent.cdx.json", folder / "LICENSES.txt")
        components, references = "", ""
        for profile in sorted(PROFILES.glob("*.yaml")):
            key = "Profile_" + profile.stem.replace("-", "_")
            components += (f'            <Component Id="{key}" Guid="{uuid.uuid5(NAMESPACE, key)}" Win64="yes">'
                           f'<File Id="{key}_file" Name="{profile.name}" Source="{profile.name}" KeyPath="yes"/></Component>\n')
            shutil.copyfile(profile, folder / profile.name)
            references += f'      <ComponentRef Id="{key}"/>\n'
        for script in RUNBOOK:
            shutil.copyfile(HERE / script, folder / script)
        source = folder / "etwagent.wxs"
        source.write_text((HERE / "etwagent.wxs").read_text().replace("@PROFILES@", components).replace("@REFERENCES@", references))
        made = folder / "etwagent.msi"
        for file in folder.iterdir():  # the cabinet holds their times
            os.utime(file, (sbom.epoch(), sbom.epoch()))
        # the same package for the same content: Windows Installer identifies packages and products by these codes
        content = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in sorted(folder.iterdir()))).hexdigest()
        codes = {name: str(uuid.uuid5(NAMESPACE, f"{name} {arguments.version} {content}")).upper() for name in ("ProductCode", "PackageCode")}
        begin = time.time()
        run(["wixl", "-a", "x64", "-D", f"Version={arguments.version}", "-D", f"ProductCode={codes['ProductCode']}", "-o", made, source])
        add_rows(made)
        settle(made, begin, codes["PackageCode"])
        if arguments.sign:
            run([*shlex.split(arguments.sign), made])
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, arguments.output)
    print(arguments.output)


if __name__ == "__main__":
    main()
