#!/usr/bin/env python3
"""The files of images that a session loads, under Wine with the emulator of ETW: the shipped .exe looks at itself, at a DLL with a PDB and
at damaged, missing, forbidden and huge ones, by each way in which Windows names a file; the collector's modules have size, PDB, version
and SHA-256 as a naive reading of the files has them, and each file that gives nothing is counted. A session ends at once, however much
is left to look at; nothing waits for a disk that hangs.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Live sessions, on the emulator 24: Each module has the facts of its image file. | 15 modules by four kinds of paths; size, PDB, version
#   and SHA-256 of ten equal a naive reading | 2026-11-23
# - Live sessions, on the emulator 25: ... damaged, huge and absent files are counted by cause. | the other five modules | 2026-11-23
# - Live sessions, on the emulator 26: A session, and its end, never wait for reading image files. | two minutes of reading left; a disk that
#   hangs in a read or an open | 2026-11-23
import hashlib
import json
import shutil
import struct
import time
import uuid

import emulated
import harness
import kernel_records
import naive_pe
import test_faults
import test_single_records as single
import wine

PID, OTHER_PID = 1234, 1300
BASE = 0x7FF600000000
SESSION = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER"], "buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64,
           "flush": "100ms", "images": True, "image-rate": "1GiB", "image-hash-size": "64MiB"}
HUGE_BYTES = (64 << 20) + 1
UNNAMED, OWN = "S-1-5-21-9-9-9-1234", "S-1-5-21-0-0-0-1000"  # no account of this machine; the user's, as Wine has it
PDB = uuid.UUID("6f1b2c3d-1111-2222-3333-445566778899")
ENDS = ("images_told", "images_absent", "images_refused", "images_unreadable", "images_other", "images_left_full", "images_left_end")


def block(key, value=b"", children=b"", words=0):
    """A block of a version resource."""
    head = key.encode("utf-16le") + b"\0\0"
    body = head + bytes(-(6 + len(head)) % 4) + value
    body += bytes(-(6 + len(body)) % 4) + children if children else b""
    return struct.pack("<HHH", 6 + len(body), words or len(value), 1 if words else 0) + body


def version_resource(strings):
    texts = b""
    for key, text in strings.items():
        value = text.encode("utf-16le") + b"\0\0"
        texts += bytes(-len(texts) % 4) + block(key, value, words=len(value) // 2)
    fixed = struct.pack("<13I", 0xFEEF04BD, 0x10000, 5 << 16 | 6, 7 << 16 | 8, 0, 0, 0, 0, 4, 2, 0, 0, 0)
    return block("VS_VERSION_INFO", fixed, block("StringFileInfo", children=block("040904b0", children=texts)))


def image(timestamp, pdb_path="D:\\build\\thing.pdb"):
    """A DLL with one section: a debug directory with an RSDS entry, and a version resource. Names are ours, the layout is
    Microsoft's "PE Format"."""
    rsds = b"RSDS" + PDB.bytes_le + struct.pack("<I", 3) + pdb_path.encode() + b"\0"
    rva, at = 0x1000, 0x400
    debug = struct.pack("<IIHHIIII", 0, 0, 0, 0, 2, len(rsds), rva + 28, at + 28)
    section = debug + rsds
    section += bytes(-len(section) % 16)
    tree = len(section)
    version = version_resource({"CompanyName": "Größe & Co", "ProductName": "Thing", "OriginalFilename": "THING.DLL", "FileDescription": "A thing of Größe"})
    for level, number in enumerate((16, 1, 1033)):
        section += struct.pack("<IIHHHHII", 0, 0, 0, 0, 0, 1, number, 0x80000000 | 24 * (level + 1) if level < 2 else 72)
    section += struct.pack("<IIII", rva + tree + 88, len(version), 0, 0) + version
    section += bytes(-len(section) % 512)
    optional = struct.pack("<HBBIIIIIQIIHHHHHHIIIIHHQQQQII", 0x20B, 14, 0, 0, 0, 0, 0, 0, 0x180000000, 0x1000, 0x200, 10, 0, 0, 0, 10, 0, 0,
                           0x5000, 0x400, 0xBEEF, 2, 0, 1 << 20, 4096, 1 << 20, 4096, 0, 16)
    directories = [(0, 0)] * 16
    directories[2], directories[6] = (rva + tree, 88 + len(version)), (rva, 28)
    optional += b"".join(struct.pack("<II", *d) for d in directories)
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, timestamp, 0, 0, len(optional), 0x2022) + optional
    head += struct.pack("<8sIIIIIIHHI", b".rdata", len(section), rva, len(section), at, 0, 0, 0, 0, 0x40000040)
    return head + bytes(at - len(head)) + section


def naive(data):
    """Time, size in memory and version of an image, without a look at its directories."""
    pe = struct.unpack_from("<I", data, 60)[0]
    fixed = data.index(struct.pack("<II", 0xFEEF04BD, 0x10000))
    low = struct.unpack_from("<HHHH", data, fixed + 8)
    return struct.unpack_from("<I", data, pe + 8)[0], ".".join(str(low[i]) for i in (1, 0, 3, 2))


def load(index, path, timestamp, pid=PID):
    base = BASE + index * 0x1000000
    return single.system_record(3, 10, 2, struct.pack("<QQIIIIQIIII", base, 0x5000, pid, 0, timestamp, 0, base, 0, 0, 0, 0) +
                                (path + "\0").encode("utf-16le"), 1000 + index)


def start(pid, name, sid="S-1-5-18"):
    return single.system_record(3, 1, 4, struct.pack("<QIIIiQI", 0xFFFFA00000001080 + pid * 4096, pid, 4, 1, 0, 0x1000, 0) + struct.pack("<QQ", 1, 0) +
                                kernel_records.sid_bytes(sid) + name.encode() + b"\0" + (name + "\0").encode("utf-16le") + bytes(4), 900)


def volume(session, path):
    """The path as the kernel would name it: Wine calls its drives C and Z the volumes 1 and 2."""
    text = str(path)
    drive = str(session.drive)
    return "\\Device\\HarddiskVolume1" + text[len(drive):].replace("/", "\\") if text.startswith(drive) else \
        "\\Device\\HarddiskVolume2" + text.replace("/", "\\")


def hashes(data):
    return {"size": len(data), **{name: hashlib.new(name, data).hexdigest() for name in ("md5", "sha1", "sha256")}}


def play(machine, records):
    file = machine.folder / "loads.etl"
    file.write_bytes(single.trace([start(PID, "thing.exe"), start(OTHER_PID, "other.exe", UNNAMED), start(OTHER_PID + 1, "own.exe", OWN), *records]))
    machine.plays([file])


def image_counts(machine):
    return machine.sources().get("kernel", {}).get("session", {})


def wait_answered(machine, count):
    machine.wait(lambda: image_counts(machine).get("images_asked") == count and sum(image_counts(machine)[k] for k in ENDS) == count, f"answers about {count} modules")


def modules(collector, host, pid):
    return {m["base"]: m for m in collector.ask_json("modules", "--host", host, "--pid", pid, "--at", "end")["modules"]}


def check_accounts(checks, session, collector, ledger):
    """The machine has named the accounts of the processes, each once; that of the user is whatever Windows' own program says."""
    user = session.run(["cmd", "/c", "echo %USERDOMAIN%\\%USERNAME%"]).stdout.strip()
    rows = collector.ask_json("query", "--format", "json", "--host", "looks", "SELECT sid AS sid, account AS account FROM \"Account/Name\" ORDER BY 1")["rows"]
    said = {row["sid"]: row["account"] for row in rows}
    checks.equal((len(rows), said.get("S-1-5-18"), sorted(said)), (2, "NT AUTHORITY\\SYSTEM", ["S-1-5-18", OWN]), "accounts that the machine named")
    checks.equal(said.get(OWN, "").split("\\")[-1], user.split("\\")[-1], "the user's name")
    processes = collector.ask_json("query", "--format", "json", "--host", "looks", f"SELECT pid, account FROM processes WHERE pid IN ({PID}, {OTHER_PID}, {OTHER_PID + 1})")["rows"]
    checks.equal({p["pid"]: p["account"] for p in processes}, {PID: "NT AUTHORITY\\SYSTEM", OTHER_PID: None, OTHER_PID + 1: said.get(OWN)}, "processes and their accounts")
    checks.equal({k: v for k, v in ledger.items() if k.startswith("accounts_") and v}, {"accounts_asked": 3, "accounts_named": 2, "accounts_unnamed": 1}, "the ledger of accounts")


def look(env, checks, session, windows, collector):
    folder = session.drive / "images"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    program = folder / "etwagent.exe"
    shutil.copy(windows / "service" / "app" / "etwagent.exe", program)
    shipped = program.read_bytes()
    shipped_time, shipped_version = naive(shipped)
    whole, hostile = image(0x5F112233), bytearray(image(0x5F112233))
    struct.pack_into("<I", hostile, 64 + 24 + 112 + 8 * 6, 0xFFFFFFF0)  # a debug directory that is nowhere
    looping = bytearray(whole)
    tree = whole.index(struct.pack("<IIHHHHI", 0, 0, 0, 0, 0, 1, 16))
    struct.pack_into("<I", looping, tree + 20, 0x80000000)  # the resources' first directory is its own child
    system = session.drive / "windows" / "of the system.dll"
    with emulated.Machine(env, session, windows, "looks") as machine:
        here = machine.folder / "Größe.dll"
        files = {here: whole, system: whole, folder / "cut.dll": shipped[:700], folder / "hostile.dll": bytes(hostile), folder / "looping.dll": bytes(looping),
                 folder / "text.dll": b"no image at all"}
        for path, data in files.items():
            path.write_bytes(data)
        with open(folder / "huge.dll", "wb") as f:
            f.write(whole)
            f.truncate(HUGE_BYTES)
        loads = [load(0, volume(session, program), shipped_time), load(1, "\\??\\" + wine.windows_path(here), 0x5F112233),
                 load(2, "\\SystemRoot\\of the system.dll", 0x5F112233), load(3, volume(session, here), 0x5F112233),
                 load(4, volume(session, folder / "cut.dll"), shipped_time), load(5, volume(session, folder / "hostile.dll"), 0x5F112233),
                 load(6, volume(session, folder / "looping.dll"), 0x5F112233), load(7, volume(session, folder / "text.dll"), 0),
                 load(8, volume(session, folder / "huge.dll"), 0x5F112233), load(9, volume(session, folder / "absent.dll"), 1),
                 load(10, "\\Device\\Mup\\server\\share\\far.dll", 1), load(11, volume(session, program), shipped_time + 1),
                 load(12, volume(session, folder), 1), load(13, "\\Device\\HarddiskVolume77\\nowhere.dll", 1),
                 load(14, volume(session, program), shipped_time, OTHER_PID)]
        play(machine, loads)
        machine.configure(collector, [SESSION])
        machine.start()
        wait_answered(machine, len(loads))
        machine.wait(lambda: (s := machine.sources()["kernel"])["events_acknowledged"] - s["events_synthesised"] == s["events_delivered"], "all of it at the collector")
        said = session.run([machine.agent, "status", "--file", wine.windows_path(machine.status_file)]).stdout
        checks.that("images of 15 modules: 10 recorded, 0 wait, 5 could not be read, 0 were left out" in said, f"etwagent status: {said}")
        checks.equal(machine.stop(), 0, "exit code")
        checks.that(machine.status()["ledger_balanced"], "the ledger balances")
    ledger = test_faults.ledger_of(collector, "looks")
    check_accounts(checks, session, collector, ledger)
    expected = {"images_asked": 15, "images_told": 10, "images_absent": 2, "images_refused": 2, "images_other": 1, "images_damaged": 3, "images_unhashed": 1,
                "images_read": 9}
    checks.equal({k: ledger.get(k, 0) for k in expected}, expected, "the ledger")
    checks.equal({k: v for k, v in ledger.items() if k.startswith("images_") and k not in (*expected, "images_cached")}, {}, "the ledger has no others")
    found = modules(collector, "looks", PID)
    checks.equal(len(found), 14, "modules")

    def about(index, of=found):
        return of[f"0x{BASE + index * 0x1000000:x}"]
    own = {**hashes(shipped), "version": shipped_version, "company": None, "product": "etwagent", "imphash": naive_pe.imphash(shipped, {}),
           "description": about(0)["file"]["description"]}
    checks.that(own["description"] and own["description"].encode("utf-16le") in shipped, f"the description of the shipped program: {own['description']}")
    thing = {**hashes(whole), "version": "5.6.7.8", "company": "Größe & Co", "product": "Thing", "imphash": None, "description": "A thing of Größe"}
    pdb = {"guid": str(PDB), "age": 3, "path": "D:\\build\\thing.pdb"}
    checks.equal((about(0)["file"], about(0)["original_name"], about(0)["timestamp"]), (own, "etwagent.exe", shipped_time), "the shipped program")
    checks.equal(about(14, modules(collector, "looks", OTHER_PID))["file"], own, "the shipped program in another process")
    for i, by in ((1, "a drive"), (2, "the system's folder"), (3, "a volume")):
        checks.equal((about(i)["file"], about(i)["pdb"], about(i)["original_name"]), (thing, pdb, "THING.DLL"), f"a DLL by {by}")
    for i, path in ((4, "cut.dll"), (5, "hostile.dll"), (6, "looping.dll"), (7, "text.dll")):
        data = (folder / path).read_bytes()
        checks.equal({k: about(i)["file"][k] for k in hashes(data)}, hashes(data), f"size and hashes of {path}")
    checks.equal((about(5)["file"]["version"], about(5)["pdb"]), ("5.6.7.8", None), "what a damaged image says all the same")
    checks.equal((about(6)["file"]["version"], about(6)["pdb"]), (None, pdb), "an image whose resources go round in a circle")
    checks.equal(about(8)["file"], {**thing, "size": HUGE_BYTES, "sha256": None, "sha1": None, "md5": None}, "a huge image")
    for i in (9, 10, 11, 12, 13):
        checks.equal((about(i)["file"], about(i)["pdb"]), (None, None), f"module {i}, of whose file nothing is known")
    rows = collector.ask("query", "--format", "csv", f"SELECT path, file_bytes, file_version FROM modules WHERE sha256 = '{own['sha256']}'").splitlines()
    checks.equal(len(rows), 1 + 2, f"modules of one hash in SQL: {rows}")
    made = [json.loads(line) for line in collector.ask("export", "--host", "looks", "--format", "jsonl", "--class", "ImageFile/Facts").splitlines()]
    checks.equal((len(made), made[0]["fields"]["FileName"]), (10, volume(session, program)), "records of the agent's own")


def leave(env, checks, session, windows, collector):
    """8 MiB at 64 KiB a second take two minutes; the agent does not wait for them when it stops."""
    with emulated.Machine(env, session, windows, "leaves") as machine:
        play(machine, [load(0, volume(session, session.drive / "images" / "etwagent.exe"), 0), load(1, volume(session, session.drive / "images" / "cut.dll"), 0)])
        machine.configure(collector, [{**SESSION, "image-rate": "64KiB"}])
        machine.start()
        machine.wait(lambda: image_counts(machine).get("images_asked") == 2, "both modules")
        begun = time.monotonic()
        checks.equal(machine.stop(), 0, "exit code")
        checks.that(time.monotonic() - begun < 60, f"the end took {time.monotonic() - begun:.1f} s")
    ledger = test_faults.ledger_of(collector, "leaves")
    checks.equal([ledger.get(k, 0) for k in ("images_asked", "images_told", "images_left_end")], [2, 0, 2], "the ledger")


def hang(env, checks, session, windows, collector):
    """The disk hangs in the middle of a file, or when a file is opened. The session and the shipping of its events continue, and the stop does
    not wait for the disk. When the disk is only slow, every image is described."""
    folder = session.drive / "images"
    folder.mkdir(exist_ok=True)
    for name in ("hangs.dll", "fine.dll"):
        (folder / name).write_bytes(image(0x5F112233))
    processes = [start(2000 + 4 * i, f"p{i}.exe") for i in range(3000)]
    for name, slow in (("hangs", {"EA_SLOW_MS": "600000"}), ("opens", {"EA_SLOW_OPEN_MS": "600000"}), ("slow", {"EA_SLOW_MS": "300", "EA_SLOW_OPEN_MS": "300"})):
        with emulated.Machine(env, session, windows, name) as machine:
            play(machine, [load(0, volume(session, folder / "hangs.dll"), 0x5F112233), load(1, volume(session, folder / "fine.dll"), 0), *processes])
            machine.environment = {"LD_PRELOAD": str(env.build / "tests" / "e2e" / "slow_disk.so"), "EA_SLOW_FILE": "hangs.dll", **slow}
            machine.configure(collector, [SESSION])
            machine.start()
            if name != "slow":
                machine.wait(machine.delivered, "all of the session", 60)
                machine.wait(lambda: (s := machine.sources()["kernel"])["events_acknowledged"] == s["events_delivered"] and image_counts(machine)["images_asked"] == 2,
                             "what came of it at the collector, while the disk hangs", 60)
                time.sleep(1.5)  # what has a rate may go on
                checks.equal([image_counts(machine)[k] for k in ENDS], [0] * len(ENDS), "modules that were looked at: the worker hangs")
                begun = time.monotonic()
                checks.equal(machine.stop(), 0, "exit code")
                checks.that(time.monotonic() - begun < 15, f"the end took {time.monotonic() - begun:.1f} s, of 600 that the disk takes")
            else:
                wait_answered(machine, 2)
                machine.wait(lambda: (s := machine.sources()["kernel"])["events_acknowledged"] == s["events_delivered"], "all of it at the collector")
                checks.equal(machine.stop(), 0, "exit code")
            checks.that(machine.status()["ledger_balanced"], f"{name}: the ledger balances")
        ledger = test_faults.ledger_of(collector, name)
        checks.equal([ledger.get(k, 0) for k in ("images_asked", "images_told", "images_left_end", "events_dropped_full")],
                     [2, 2, 0, 0] if name == "slow" else [2, 0, 2, 0], f"{name}: the ledger")
        there = collector.ask_json("ps", "--host", name, "--all")["processes"]
        checks.equal(len([p for p in there if p["name"].startswith("p")]), len(processes), f"{name}: processes of the session")


def refuse(env, checks, session, windows, collector):
    """Where it makes no sense."""
    with emulated.Machine(env, session, windows, "refuses") as machine:
        file = wine.windows_path(machine.folder / "own.etl")
        for sessions, place, word in (([{**SESSION, "output": "file", "file": file}], "images", "expected output realtime or both"),
                                      ([{**SESSION, "flags": ["PROC_THREAD"]}], "images", "expected the flag LOADER"),
                                      ([{"name": "user", "providers": [{"provider": "A"}], "images": True}], "images", "this is a user session"),
                                      ([{**SESSION, "image-rate": "1KiB"}], "image-rate", "expected"),
                                      ([{**SESSION, "images": "perhaps"}], "images", "expected")):
            machine.configure(collector, sessions)
            done = session.run([machine.agent, "check", wine.windows_path(machine.config)])
            text = machine.config.read_text().splitlines()
            line = next(i for i, t in enumerate(text, 1) if t.startswith("sessions"))
            column = text[line - 1].index(f'"{place}": ') + len(place) + 5  # of the value
            checks.that(done.returncode and word in done.stdout + done.stderr and f":{line}:{column}: " in done.stdout + done.stderr,
                        f"exit code {done.returncode} of {sessions} at {line}:{column}: {done.stdout}{done.stderr}")
        machine.configure(collector, [SESSION])
        done = session.run([machine.agent, "check", wine.windows_path(machine.config)])
        checks.that(done.returncode == 0 and "SHA-256 up to 64 MiB" in done.stdout, f"etwagent check: {done.stdout}{done.stderr}")


def test(env, checks, session, windows, arguments):
    env.make_certificates(["looks", "leaves", "hangs", "opens", "slow", "refuses"])
    collector = env.new_collector().start()
    for part in (look, leave, hang, refuse):
        if arguments.only in ("", part.__name__):
            part(env, checks, session, windows, collector)
    collector.stop()


if __name__ == "__main__":
    emulated.main(test, __doc__.split("\n")[0])
