"""`etwcollector rules test`: Sigma rules over a store. A machine's records are made by the test, so that each match and each field of it is known: process
starts with parents, command lines and paths, loads of images and drivers with facts of their files, threads in other processes, connections out and in,
registry values.
"""
# sanitizers: asan-ubsan
import json
import os
import re
import socket
import struct
import subprocess

import harness

import kernel_records as kernel
import registry_records
import test_single_records as single

DISK = "\\Device\\HarddiskVolume3\\"
BASE = 0x7FF700000000


def process(pid, parent, program, command, clock, sid="S-1-5-18"):
    return single.system_record(3, 1, 4, struct.pack("<QIIIiQI", 0xFFFFA00000001080 + pid * 4096, pid, parent, 1, 0, 0x1000, 0) + struct.pack("<QQ", 1, 0) +
                                kernel.sid_bytes(sid) + program.encode() + b"\0" + (command + "\0").encode("utf-16le") + bytes(4), clock)


def connection(opcode, pid, remote, remote_port, local, local_port, clock):
    payload = struct.pack("<II", pid, 0) + socket.inet_aton(remote) + socket.inet_aton(local) + struct.pack(">HH", remote_port, local_port) + \
        struct.pack("<HHHHIHHIQ", 1460, 0, 0, 0, 65536, 0, 0, 1, 0)
    return single.system_record(6, opcode, 2, payload, clock)


def facts(pid, base, path, clock, name, company="", sha256="ab" * 32, version=1):
    """ImageFile/Facts, as an agent writes it of a file."""
    more = (sha256[:32], sha256[:40], sha256[2:34], f"{name}'s work") if version else ()
    texts = (sha256, "1.2.3.4", company, "Product of " + company, name, "", *more, DISK + path)
    payload = struct.pack("<IQQIIQ16sI", pid, base, 0x1000, 0, 0, 4096, bytes(16), 0) + "".join(f"{text}\0" for text in texts).encode()
    return single.full_record("7be2d0c4-91a3-4c5f-8e27-3d60b914fa58", 1, version, payload, clock)


def registry(opcode, handle, name, clock):
    return single.system_record(9, opcode, 2, struct.pack("<qIIQ", clock, 0, 0, handle) + f"{name}\0".encode("utf-16le"), clock)


KEY = 0xFFFFC000001000
RECORDS = [
    process(100, 4, "explorer.exe", "C:\\Windows\\explorer.exe", 1000),
    kernel.image(100, BASE, 0x1000, "Windows\\explorer.exe", 1001),
    process(200, 100, "winword.exe", '"C:\\Office\\winword.exe" /n letter.doc', 2000),
    kernel.image(200, BASE, 0x1000, "Office\\winword.exe", 2001),
    process(300, 200, "powershell.exe", "powershell.exe -NoP -Enc SQBFAFgA", 3000),
    kernel.image(300, BASE, 0x1000, "Windows\\System32\\powershell.exe", 3001),
    kernel.image(300, BASE + 0x10000, 0x1000, "Users\\a\\Temp\\stage2.dll", 3002),
    facts(300, BASE, "Windows\\System32\\powershell.exe", 3002, "PowerShell.EXE", "Microsoft"),
    facts(300, BASE + 0x10000, "Users\\a\\Temp\\stage2.dll", 3002, "inject.dll", "Evil", "cd" * 32),
    kernel.image(300, BASE + 0x20000, 0x1000, "Users\\a\\Temp\\old.dll", 3002),
    facts(300, BASE + 0x20000, "Users\\a\\Temp\\old.dll", 3002, "old.dll", "Old", "ef" * 32, 0),
    registry(22, KEY, "\\REGISTRY\\MACHINE\\SOFTWARE\\Run", 3002),
    registry(14, KEY, "Updater", 3003),
    kernel.image(0, kernel.DRIVER, 0x1000, "Windows\\Temp\\bad.sys", 3003),
    kernel.thread(300, 299, 3003),  # the first one, which the parent begins
    kernel.thread(300, 301, 3004),  # by process 4: the record's head
    kernel.thread(4, 5, 3005),
    connection(12, 300, "203.0.113.66", 443, "10.0.0.5", 50000, 3006),
    connection(15, 100, "10.0.0.9", 50001, "10.0.0.5", 3389, 3007),
    registry_records.set_value("\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Control\\Lsa", "RunAsPPL", registry_records.DWORD, struct.pack("<I", 0), 3008),
    registry_records.set_value("\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Control\\Lsa", "Hidden", registry_records.DWORD, bytes(4), 3009, captured=False),
    process(400, 300, "cmd.exe", "cmd.exe /c whoami", 4000),
    kernel.image(400, BASE, 0x1000, "Windows\\System32\\cmd.exe", 4001),
]

# (title, category, searches, condition, {(the process of the match, fields)})
RULES = [
    ("office starts a shell", "process_creation", {"s": {"ParentImage|endswith": "\\winword.exe", "Image|endswith": "\\powershell.exe"}}, "s",
     [{"Image": DISK + "Windows\\System32\\powershell.exe", "ParentImage": DISK + "Office\\winword.exe"}]),
    ("encoded", "process_creation", {"s": {"CommandLine|contains|windash": " -enc "}}, "s", [{"CommandLine": "powershell.exe -NoP -Enc SQBFAFgA"}]),
    ("grandchild", "process_creation", {"s": {"GrandParentImage|endswith": "\\winword.exe"}, "t": {"ParentCommandLine|contains": "-NoP"}}, "s and t",
     [{"GrandParentImage": DISK + "Office\\winword.exe", "ParentCommandLine": "powershell.exe -NoP -Enc SQBFAFgA"}]),
    ("user", "process_creation", {"s": {"User|endswith": "\\SYSTEM", "Image|endswith": "\\cmd.exe"}}, "s", [{"User": "NT AUTHORITY\\SYSTEM"}]),
    ("filtered", "process_creation", {"s": {"Image|contains": "\\System32\\"}, "f": {"CommandLine|endswith": "whoami"}}, "s and not f",
     [{"Image": DISK + "Windows\\System32\\powershell.exe"}]),
    ("nothing", "process_creation", {"s": {"CommandLine|contains": "mimikatz"}}, "s", []),
    ("missing", "process_creation", {"s": {"IntegrityLevel": "High"}}, "s", []),
    ("loaded", "image_load", {"s": {"ImageLoaded|endswith": "\\stage2.dll", "Image|endswith": "\\powershell.exe"}}, "s",
     [{"ImageLoaded": DISK + "Users\\a\\Temp\\stage2.dll", "Image": DISK + "Windows\\System32\\powershell.exe"}]),
    ("original name", "process_creation", {"s": {"OriginalFileName": "powershell.exe", "Company": "Microsoft"}}, "s",
     [{"OriginalFileName": "PowerShell.EXE", "Company": "Microsoft", "CommandLine": "powershell.exe -NoP -Enc SQBFAFgA"}]),
    ("file of an image", "image_load", {"s": {"Hashes|contains": "SHA256=CDCD", "OriginalFileName": "inject.dll", "Product|endswith": "Evil"}}, "s",
     [{"Hashes": f"MD5={'CD' * 16},SHA1={'CD' * 20},SHA256={'CD' * 32},IMPHASH={'CD' * 16}", "ImageLoaded": DISK + "Users\\a\\Temp\\stage2.dll"}]),
    ("hashes by themselves", "image_load", {"s": {"md5": "cd" * 16, "sha1": "CD" * 20, "sha256": "cd" * 32, "Imphash": "cd" * 16}}, "s", [{"md5": "cd" * 16}]),
    ("an agent of before", "image_load", {"s": {"Hashes|contains": "SHA256=EF"}, "f": {"Hashes|contains": "IMPHASH"}}, "s and not f", [{"Hashes": "SHA256=" + "EF" * 32}]),
    ("description", "process_creation", {"s": {"Description|endswith": " work", "Hashes|contains": "IMPHASH=ABAB"}}, "s",
     [{"Description": "PowerShell.EXE's work", "Image": DISK + "Windows\\System32\\powershell.exe"}]),
    ("autostart", "registry_set", {"s": {"TargetObject|startswith": "HKLM\\SOFTWARE\\Run\\", "EventType": "SetValue"}}, "s",
     [{"TargetObject": "HKLM\\SOFTWARE\\Run\\Updater"}]),
    ("value", "registry_set", {"s": {"TargetObject|endswith": "\\Control\\Lsa\\RunAsPPL", "Details": "DWORD (0x00000000)", "Image|endswith": "\\explorer.exe"}}, "s",
     [{"TargetObject": "HKLM\\System\\CurrentControlSet\\Control\\Lsa\\RunAsPPL", "Details": "DWORD (0x00000000)"}]),
    ("value of any event", "registry_event", {"s": {"EventType": "SetValue", "Details|startswith": "DWORD"}}, "s", [{"Details": "DWORD (0x00000000)"}]),
    ("driver", "driver_load", {"s": {"ImageLoaded|contains": "\\"}}, "s", [{"ImageLoaded": DISK + "Windows\\Temp\\bad.sys"}]),
    ("remote thread", "create_remote_thread", {"s": {"TargetImage|endswith": "\\powershell.exe"}}, "s", [{"TargetImage": DISK + "Windows\\System32\\powershell.exe"}]),
    ("any remote thread", "create_remote_thread", {"s": {"StartAddress|contains": "0x"}}, "s", [{}]),
    ("out", "network_connection", {"s": {"Initiated": "true", "DestinationPort": 443, "DestinationIp|cidr": "203.0.113.0/24", "Image|endswith": "\\powershell.exe"}}, "s",
     [{"Initiated": "true", "DestinationIp": "203.0.113.66", "DestinationPort": "443"}]),
    ("in", "network_connection", {"s": {"Initiated": "false", "DestinationPort": 3389, "SourceIp|startswith": "10.0.0.9"}}, "s",
     [{"Initiated": "false", "SourceIp": "10.0.0.9", "DestinationPort": "3389"}]),
]


def tested(env, *words, code=0):
    done = env.run([env.collector, "rules", "test", "--store", env.folder / "store", *words], check=False)
    if done.returncode != code:
        raise harness.Failure(f"rules test {words} ended with {done.returncode}, not {code}: {done.stdout[-500:]} {done.stderr}")
    return done


def test_correlations(env, checks, folder):
    """Correlations are judged over all matches, of whatever class and in whatever order they are read; one over the other; filters except matches of theirs, too."""
    image = DISK + "Windows\\System32\\powershell.exe"
    own = env.folder / "correlations.yml"
    wanted = {  # title: (the correlation, its detections' fields)
        "all of it": ({"type": "temporal", "rules": ["encoded", "out"], "group-by": ["Image"]}, [{"Image": image, "matches": "2"}]),
        "in order": ({"type": "temporal_ordered", "rules": ["office starts a shell", "out"], "group-by": ["Image"]}, [{"Image": image, "matches": "2"}]),
        "not in order": ({"type": "temporal_ordered", "rules": ["out", "encoded"], "group-by": ["Image"]}, []),
        "not of one program": ({"type": "temporal", "rules": ["encoded", "user"], "group-by": ["Image"]}, []),
        "several": ({"type": "event_count", "rules": ["filtered", "user"], "condition": {"gte": 2}}, [{"matches": "2"}]),
        "of two programs": ({"type": "value_count", "rules": ["filtered", "user"], "condition": {"gte": 2, "field": "Image"}}, [{"values": "2"}]),
        "one over the other": ({"type": "temporal", "rules": ["in order", "user"]}, [{"matches": "2"}]),
        "too far apart": ({"type": "temporal", "rules": ["encoded", "user"], "timespan": "1s"}, [{"matches": "2"}]),
    }
    own.write_text("\n---\n".join(json.dumps({"title": title, "level": "high", "correlation": {"timespan": "10m", **made}}) for title, (made, _) in wanted.items()))
    answer = json.loads(tested(env, "--json", "--matches", "1000", folder, own).stdout)
    alone = json.loads(tested(env, "--json", "--matches", "1000", folder).stdout)
    count = len(alone["matches"])
    named = {"in order"}  # by another one, so that it makes no detection of its own
    checks.equal(answer["matches"][:count], alone["matches"], "matches of rules are as without correlations")
    checks.equal({title: [row["fields"] for row in answer["matches"][count:] if row["title"] == title] for title in wanted},
                 {title: [] if title in named else fields for title, (_, fields) in wanted.items()}, "detections of correlations")
    pids = {row["pid"] for row in alone["matches"]}
    checks.equal({(row["host"], row["pid"] in pids, row["level"], row["file"]) for row in answer["matches"][count:]}, {("pc", True, "high", str(own))}, "host, process, level and file of them")
    checks.equal([row["matches"] for row in answer["rules"][len(RULES) + 1:]], [0 if title in named else len(fields) for title, (_, fields) in wanted.items()], "how many of each")
    checks.equal((answer["left_out"], answer["match_count"]), (0, len(answer["matches"])), "sums")
    few = tested(env, "--matches", "0", folder, own).stdout
    checks.that(f"1 times {own}:" in few, f"as text: {few}")
    whole = tested(env, "--matches", "1000", folder, own).stdout
    checks.that('high: several\n    {"matches": "2"}\n' in whole, f"a detection as text: {whole[-2000:]}")
    own.write_text(own.read_text() + "\n---\n" + json.dumps({"title": "filter", "logsource": {"product": "windows", "category": "process_creation"}, "filter": {
        "rules": ["user"], "s": {"User|endswith": "SYSTEM"}, "condition": "not s"}}))
    filtered = json.loads(tested(env, "--json", "--matches", "1000", folder, own).stdout)
    checks.equal(sorted(row["title"] for row in filtered["matches"] if row["file"] == str(own)), ["all of it"], "a filter excepts their matches, too")


def test(env, checks, arguments):
    trace, folder = env.folder / "pc.etl", env.folder / "rules"
    trace.write_bytes(single.trace(RECORDS))
    env.run([env.collector, "ingest", "--store", env.folder / "store", "--host", "pc", trace])
    folder.mkdir()
    for i, (title, category, searches, condition, _) in enumerate(RULES):
        rule = {"title": title, "level": "high", "logsource": {"product": "windows", "category": category}, "detection": {**searches, "condition": condition}}
        (folder / f"{i:02}.yml").write_text(json.dumps(rule))
    (folder / "service.yml").write_text(json.dumps({"title": "service", "logsource": {"product": "windows", "service": "system"},
                                                    "detection": {"s": {"EventID": 7045}, "condition": "s"}}))
    answer = json.loads(tested(env, "--json", folder).stdout)
    for title, _, _, _, expected in RULES:
        got = [row for row in answer["matches"] if row["title"] == title]
        if checks.equal(len(got), len(expected), f"{title}: matches"):
            for row, fields in zip(got, expected):
                checks.equal({name: row["fields"].get(name) for name in fields}, fields, f"{title}: fields")
                checks.equal((row["host"], row["level"]), ("pc", "high"), f"{title}: host and level")
    total = sum(len(expected) for *_, expected in RULES)
    checks.equal({row["title"]: row["matches"] for row in answer["rules"]}, {**{rule[0]: len(rule[4]) for rule in RULES}, "service": 0}, "matches of each rule")
    checks.equal((answer["match_count"], answer["tested"], answer["fired"], answer["ended"]), (total, len(RULES), sum(bool(rule[4]) for rule in RULES), "whole"), "sums")
    checks.equal([row["title"] for row in answer["rules"] if not row["tested"]], ["service"], "rules that are not tested")
    few = json.loads(tested(env, "--json", "--matches", "2", folder).stdout)
    checks.equal((len(few["matches"]), few["match_count"]), (2, total), "at most two are printed, all are counted")
    start = json.loads(env.run([env.collector, "query", "--store", env.folder / "store", "--format", "json",
                                "SELECT time FROM \"Process/Start\" WHERE ProcessId = 300"]).stdout)["rows"][0]["time"]
    later = json.loads(tested(env, "--json", "--from", start, folder / "00.yml", folder / "03.yml").stdout)
    checks.equal([row["title"] for row in later["matches"]], ["office starts a shell", "user"], "from a time on")
    checks.equal(json.loads(tested(env, "--json", "--to", start, folder).stdout)["match_count"], 0, "before a time")
    test_correlations(env, checks, folder)
    own = env.folder / "filters.yml"
    own.write_text("\n---\n".join(json.dumps({"title": title, "logsource": {"product": "windows", "category": "process_creation"}, **more, "filter": {
        "rules": rules, "s": {"User|endswith": "SYSTEM"}, "condition": "not s"}}) for title, rules, more in (
            ("by title", ["user", "filtered"], {}), ("another host's", "any", {"hosts": ["other"]}), ("expired", "any", {"expires": "2001-01-01"}))))
    with_filters = json.loads(tested(env, "--json", folder, own).stdout)
    checks.equal({row["title"]: row["matches"] for row in with_filters["rules"] if row["suppressed"]}, {"user": 0, "filtered": 0}, "rules with exceptions")
    checks.equal((with_filters["suppressed"], with_filters["match_count"]), (2, total - 2), "sums with filters")
    checks.that("0 times (1 suppressed) " in tested(env, folder, own).stdout, "suppressed matches, printed")
    own.write_text(own.read_text().replace("filtered", "unknown"))
    checks.that('title is \\"unknown\\"' in tested(env, "--json", folder, own, code=3).stdout, "a filter that names no rule")
    checks.equal(tested(env, "--json", "--matches", "7", folder).stdout, tested(env, "--json", "--matches", "7", folder).stdout, "statements that run at once are printed in their order")
    ours, theirs = os.openpty()
    with subprocess.Popen([env.collector, "rules", "test", "--store", env.folder / "store", folder], stdout=subprocess.DEVNULL, stderr=theirs) as asked:
        os.close(theirs)
        shown = b""
        while b"\r\x1b[K" not in shown[8:]:
            shown += os.read(ours, 4096)
    os.close(ours)
    checks.that(asked.returncode == 0 and re.search(rb"\d+ of \d+ classes of events, \d+ events", shown), f"progress on a terminal: {shown}")
    text = tested(env, folder / "01.yml").stdout
    checks.that("high: encoded\n    CommandLine: powershell.exe -NoP -Enc SQBFAFgA\n" in text and "1 times " in text, f"as text: {text}")
    (folder / "bad.yml").write_text("title: [\n")
    checks.that("mistake" in tested(env, folder, code=3).stdout, "a mistake is reported, the other rules run")
    for words, code in ((("--host", "other", folder), 1), ((), 2), (("--from", "never", folder), 2)):
        done = env.run([env.collector, "rules", "test", "--store", env.folder / "store", *words], check=False)
        checks.that(done.returncode == code and done.stderr, f"{words}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
