"""Names of accounts: the part of Microsoft's page "Security identifiers" that processes run as, and groups, which is the same on every machine; services,
whose SIDs are hashes of their names ([MS-DTYP] 2.4.2.4); and what a trace says of its machine."""
import hashlib
import re
import struct

AUTHORITY = {1: "DIALUP", 2: "NETWORK", 3: "BATCH", 4: "INTERACTIVE", 6: "SERVICE", 7: "ANONYMOUS LOGON", 11: "Authenticated Users", 17: "IUSR", 18: "SYSTEM",
             19: "LOCAL SERVICE", 20: "NETWORK SERVICE"}
BUILTIN = {544: "Administrators", 545: "Users", 546: "Guests", 547: "Power Users", 551: "Backup Operators", 555: "Remote Desktop Users"}
PATTERNS = [(r"S-1-5-(\d+)", lambda rid: AUTHORITY.get(rid) and "NT AUTHORITY\\" + AUTHORITY[rid]),
            (r"S-1-5-32-(\d+)", lambda rid: BUILTIN.get(rid) and "BUILTIN\\" + BUILTIN[rid]),
            (r"S-1-5-90-0-(\d+)", lambda session: f"Window Manager\\DWM-{session}"),
            (r"S-1-5-96-0-(\d+)", lambda session: f"Font Driver Host\\UMFD-{session}")]


KNOWN_SERVICES = ["TrustedInstaller", "Dhcp", "EventLog", "WinDefend", "MSSQLSERVER", "SQLSERVERAGENT", "Dnscache", "BFE", "mpssvc", "DPS", "WdiServiceHost"]


def service_sid(name):
    return "S-1-5-80-" + "-".join(map(str, struct.unpack("<5I", hashlib.sha1(name.upper().encode("utf-16le")).digest())))


def said(records):
    """{SID: name} of the accounts that a machine's agent has named and of the services that its events name; the last name counts."""
    names = {}
    for record in records:
        fields = record["fields"]
        if record["name"] == "SystemConfig/Services" and fields.get("ServiceName"):
            names[service_sid(fields["ServiceName"])] = f"NT SERVICE\\{fields['ServiceName']}"
        elif record["name"] == "Account/Name":
            names[fields["Sid"]] = fields["Account"]
    return names


def name_of(sid, of_machine=None):
    """The account's name, or None. of_machine: what said() has of the machine."""
    for pattern, name in PATTERNS:
        found = re.fullmatch(pattern, sid or "")
        if found:
            return name(int(found[1]))
    return {service_sid(name): f"NT SERVICE\\{name}" for name in KNOWN_SERVICES}.get(sid) or (of_machine or {}).get(sid)
