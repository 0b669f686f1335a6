#!/usr/bin/env python3
"""A program with a module format of its own under Wine. It loads two modules and announces them and functions by etwagent_announce.h, which
is compiled as C89 and as C++, for 64 and 32 bits. What it gives to ETW is read by this test and put into a trace, with samples inside of the
modules: `profile`, the dashboard's API, `modules` and a pulled trace name them, and without the announcements nothing does. An announcement that
no session listens to is fast; several threads announce while sessions come and go, and the rundown at the end has what is left.
"""
import collections
import json
import re
import shutil
import struct
import subprocess
import sys
import uuid

import emulated
import harness
import test_knobs as knobs
import wine

sys.path.insert(0, str(emulated.ROOT / "tests" / "e2e"))
import image_rules
import kernel_records as kernel
import naive_etl
import test_javascript as javascript
import test_single_records as single

HEADER = emulated.ROOT / "proto" / "announce"
OWN, JSCRIPT = "0c87d9d8", "57277741"
ANNOUNCE = uuid.UUID("0c87d9d8-75dd-5ffe-41f3-d32f3c1cd564")
PDB, SIZE = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10"), 0x8000
FIRST_PATH, SECOND_PATH = "\\Plug-ins\\größe.plug", "\\Device\\Mup\\files\\share\\other.plug"
LONGEST = "ä" * 511  # 1,023 bytes of UTF-8, cut before a character
NS_MAX = 1000  # of a call, on a machine that does other things as well; about 100 where it has a processor


def check_languages(env, checks):
    """The header alone, as each language and for each size of pointers."""
    source = env.folder / "alone.c"
    source.write_text('#define ETWAGENT_ANNOUNCE_IMPLEMENTATION\n#include "etwagent_announce.h"\n#include "etwagent_announce.h"\n'
                      "int main(void) { return (int)etwagent_announce_begin(0); }\n", encoding="ascii")
    gcc, clang = "x86_64-w64-mingw32-gcc", "clang"
    ways = [[gcc, "-std=c89"], [gcc, "-std=c11"]]
    if shutil.which(clang):
        ways += [[clang, f"--target={target}", *language] for target in ("x86_64-w64-mingw32", "i686-w64-mingw32")
                 for language in (["-std=c89"], ["-x", "c++", "-std=c++98", "-Wno-c++11-long-long"], ["-x", "c++", "-std=c++17"])]
    for way in ways:
        done = subprocess.run([*way, "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-O2", f"-I{HEADER}", "-isystem", "/usr/x86_64-w64-mingw32/include", "-fsyntax-only", source],
                              stderr=subprocess.PIPE, text=True, check=False)
        checks.that(done.returncode == 0, f"{' '.join(way)}: {done.stderr[:1000]}")


def texts(data):
    return [part.decode("utf-16-le") for part in re.findall(rb"((?:(?!\0\0)..)*)\0\0", data, re.S)]


def decoded(event):
    """(id, address, size, GUID or line, texts)"""
    data = b"".join(bytes.fromhex(part) for _, part in event["parts"])
    address, size = struct.unpack_from("<QQ", data)
    if event["id"] <= 3:
        return event["id"], address, size, (uuid.UUID(bytes_le=data[16:32]), *struct.unpack_from("<I", data, 32)), texts(data[36:])
    return event["id"], address, size, *struct.unpack_from("<I", data, 16), texts(data[20:])


def check_events(checks, said, events):
    first, second = said["first"], said["second"]
    path = bytes.fromhex(said["drive"]).decode("utf-16-be") + FIRST_PATH
    pdb, none = ((PDB, 3), [path, "c:\\build\\größe.pdb"]), ((uuid.UUID(int=0), 0), [SECOND_PATH, ""])
    own = [decoded(event) for event in events if event["provider"] == OWN]
    draw, jit, long = (17, ["draw", "draw.src"]), (40, ["jit", "draw.src"]), (0, [LONGEST, ""])
    rundown = own[:2]
    checks.equal(sorted(rundown), [(3, first, SIZE, *pdb), (6, first + 0x1000, 0x1000, *draw)], "the rundown of what came before the session")
    checks.equal(own[2:7], [(1, second, SIZE, *none), (4, second + 0x2000, 0x800, *long), (4, first + 0x3000, 0x100, *jit), (5, first + 0x1000, 0x1000, *draw),
                            (2, first, SIZE, *pdb)], "loads and unloads")
    checks.equal(sorted(own[7:10]), [(3, second, SIZE, *none), (6, first + 0x3000, 0x100, *jit), (6, second + 0x2000, 0x800, *long)], "the rundown after the rush")
    checks.equal(own[10:], [(6, 0x2000, 0x100, 3, ["early", ""])], "what came before its program registered, while sessions listen")
    checks.equal({(event["level"], event["keyword"], event["channel"]) for event in events if event["provider"] == OWN}, {(4, 1, 0), (4, 2, 0)}, "levels, keywords, channels")
    return path


def jscript_record(event):
    """The events for WPA and PerfView: the first two parts are the provider's traits and the event's metadata."""
    (traits_type, traits), (metadata_type, metadata) = event["parts"][:2]
    assert (traits_type, metadata_type) == (2, 1)
    out, items = b"", [(12, bytes.fromhex(traits)), (11, bytes.fromhex(metadata))]
    for i, (kind, data) in enumerate(items):
        assert struct.unpack_from("<H", data)[0] == len(data), "a size in metadata"
        padded = data + bytes(-len(data) % 8)
        out += struct.pack("<HHHH", 8 + len(padded), kind, i + 1 < len(items), len(data)) + padded
    return javascript.record(event["pid"], event["id"], b"".join(bytes.fromhex(part) for _, part in event["parts"][2:]), event["clock"], items=out)


def own_record(event):
    data = b"".join(bytes.fromhex(part) for _, part in event["parts"])
    body = struct.pack("<BBHHIIq", 19, 0xC0, 0x40, 0, event["tid"], event["pid"], event["clock"]) + ANNOUNCE.bytes_le + \
        struct.pack("<HBBBBHQII", event["id"], 0, 0, 4, 0, 0, event["keyword"], 0, 0) + bytes(16) + data
    return struct.pack("<H", 2 + len(body)) + body


def make_trace(events, said, kept):
    """The program's process and threads, those of its announcements that are kept, and samples: of the first module before its function and it are unloaded, of the second one."""
    pid, tid, began = events[0]["pid"], events[0]["tid"], events[0]["clock"]
    unloaded, forgotten = (next(event["clock"] for event in events if event["provider"] == OWN and event["id"] == what) for what in (2, 5))
    records = [(began - 20, kernel.process(pid, "announcer.exe", began - 20)), (began - 19, kernel.thread(pid, tid, began - 19)),
               (began - 18, kernel.image(pid, 0x400000, 0x9000, "announcer.exe", began - 18))]
    records += [(event["clock"], own_record(event) if event["provider"] == OWN else jscript_record(event)) for event in kept]
    last = events[-1]["clock"]
    for i, (address, clock) in enumerate(((said["first"] + 0x1234, forgotten - 1), (said["first"] + 0x5000, unloaded - 1), (said["second"] + 0x2010, last + 1),
                                          (said["second"] + 0x7000, last + 2), (0x401000, last + 3))):
        records += [(clock, record) for record in kernel.sample(pid, tid, [address], clock)]
    return single.trace([record for _, record in sorted(records, key=lambda pair: pair[0])])


def profile(env, *words):
    found = collections.Counter()
    for line in env.run([env.collector, "profile", "--weight", "samples", "--format", "folded", *words]).stdout.splitlines():
        stack, count = line.rsplit(" ", 1)
        found[re.sub("ä{400,}", "long", stack.rsplit(";", 1)[-1])] += int(count)
    return found


def check_names(env, checks, said, events, drive):
    path, pulled, relogged = env.folder / "announced.etl", env.folder / "pulled.etl", env.folder / "relogged.etl"
    path.write_bytes(make_trace(events, said, [event for event in events if event["provider"] == OWN]))
    pid = events[0]["pid"]
    wanted = collections.Counter({"größe.plug!draw": 1, "größe.plug+0x5000": 1, "other.plug!long": 1, "other.plug+0x7000": 1, "announcer.exe+0x1000": 1})
    named = profile(env, path)
    checks.equal(named, wanted, "names in a profile")
    store = env.folder / "announce-store"
    env.run([env.collector, "ingest", "--store", store, "--host", "plug", path])
    listed = json.loads(env.run([env.collector, "modules", "--store", store, "--json", "--at", "end", "--pid", pid]).stdout)["modules"]
    checks.equal([(m["path"], m["kind"]) for m in listed if m["kind"] != "image"], [(SECOND_PATH, "announced")], "modules at the end")
    env.run([env.collector, "pull", "--store", store, "--host", "plug", "-o", pulled])
    env.run([env.agent, "relog", path, "-o", relogged, "--announce"])
    for what, of in (("pulled", pulled), ("relogged", relogged)):
        checks.equal(image_rules.check(of).broken[:3], [], f"{what}: rules of image events")
        checks.equal(naive_etl.parse(of)["warnings"], [], f"{what}: a naive reader")
        checks.equal(profile(env, of), wanted, f"{what}: names")
        found = {line["fields"]["FileName"] for line in map(json.loads, env.run([env.agent, "dump", "--format", "jsonl", "--no-names", "--class", "Image/*", of]).stdout.splitlines())}
        checks.that({drive, SECOND_PATH} <= found, f"{what}: image events of {found}")
    # without them, nothing names these samples
    path = env.folder / "others.etl"
    path.write_bytes(make_trace(events, said, []))
    checks.equal([name for name in profile(env, path) if "plug" in name or "draw" in name], [], "names without announcements")
    # V8's form of the functions alone
    path.write_bytes(make_trace(events, said, [event for event in events if event["provider"] == JSCRIPT]))
    checks.that(any("draw" in name for name in profile(env, path)), f"names by Microsoft-JScript's events alone: {profile(env, path)}")


def check_session(env, checks, session, build, events):
    """A session with the option has the announcements, and asks programs once for what is loaded; one without it has none."""
    own = collections.Counter(event["id"] for event in events if event["provider"] == OWN)
    with emulated.Machine(env, session, build, "announced") as machine:
        machine.plays([env.folder / "announced.etl"], f"state={ANNOUNCE} 3", "hold=0")  # a system session plays at once, before it has a provider
        asked = [{"name": name, "kind": "system", "flags": ["PROCESS", "THREAD", "LOADER"], "announced-modules": name == "with", **knobs.SMALL} for name in ("with", "without")]
        files, _ = knobs.record(env, session, machine, asked, "out", held=lambda s: s["etwagent-with"]["captures"])
        found = {name: collections.Counter(event["id"] for event in knobs.said(env, [file]) if event["provider"] == str(ANNOUNCE)) for name, file in files.items()}
    checks.equal(found, {"with": own + collections.Counter({3: own[3]}), "without": collections.Counter()}, "announcements in a session")


def test(env, checks, session, build, arguments):
    check_languages(env, checks)
    out = env.folder / "events.jsonl"
    done = session.run([build / "tests" / "windows" / "announcer.exe", wine.windows_path(out)])
    checks.equal((done.returncode, done.stderr), (0, ""), "the program")
    said = json.loads(done.stdout)
    events = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    print(f"an announcement while no session listens: {said['ns']:.0f} ns, {said['ns_again']:.0f} ns where it gets memory that was used before; an empty call: {said['ns_empty']:.0f} ns")
    checks.equal(said["kept"], 8, "announcements that were kept")
    checks.that(said["ns"] < NS_MAX, f"an announcement takes {said['ns']} ns")
    drive = check_events(checks, said, events)
    checks.equal([event["id"] for event in events if event["provider"] == JSCRIPT].count(9), 4, "functions for WPA")
    check_names(env, checks, said, events, drive)
    check_session(env, checks, session, build, events)


if __name__ == "__main__":
    emulated.main(test, __doc__)
