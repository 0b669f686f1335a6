"""Names of accounts that are the same on every machine: the part of Microsoft's page "Security identifiers" that processes run as, and groups."""
import re

AUTHORITY = {1: "DIALUP", 2: "NETWORK", 3: "BATCH", 4: "INTERACTIVE", 6: "SERVICE", 7: "ANONYMOUS LOGON", 11: "Authenticated Users", 17: "IUSR", 18: "SYSTEM",
             19: "LOCAL SERVICE", 20: "NETWORK SERVICE"}
BUILTIN = {544: "Administrators", 545: "Users", 546: "Guests", 547: "Power Users", 551: "Backup Operators", 555: "Remote Desktop Users"}
PATTERNS = [(r"S-1-5-(\d+)", lambda rid: AUTHORITY.get(rid) and "NT AUTHORITY\\" + AUTHORITY[rid]),
            (r"S-1-5-32-(\d+)", lambda rid: BUILTIN.get(rid) and "BUILTIN\\" + BUILTIN[rid]),
            (r"S-1-5-90-0-(\d+)", lambda session: f"Window Manager\\DWM-{session}"),
            (r"S-1-5-96-0-(\d+)", lambda session: f"Font Driver Host\\UMFD-{session}")]


def name_of(sid):
    """The account's name, or None."""
    for pattern, name in PATTERNS:
        found = re.fullmatch(pattern, sid or "")
        if found:
            return name(int(found[1]))
    return None
