"""`etwagent relog --metadata`: a trace of a provider whose manifest only this run knows decodes without it afterwards: each event, each field, names of numbers. The
records are read by a reader of TRACE_EVENT_INFO of the tests. A cut has the schemas of its events; what has its schema with it gets none.
"""
import json
import struct
import uuid

import harness
import naive_etl
import test_relog_forms as forms
import test_single_records as single
import test_trace_schemas as schemas

PROVIDER, META_DATA = uuid.UUID("0d3a3e1c-3f0b-4f4c-9b0a-26c0ffee0027"), "bbccf6c1-6cd1-48c4-80ff-839482e37671"
MANIFEST = """<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
<provider name="Contoso-Paint" guid="{%s}" resourceFileName="x" messageFileName="x" symbol="x">
<maps><valueMap name="Color"><map value="1" message="$(string.red)"/><map value="7" message="$(string.blue)"/></valueMap>
<bitMap name="Style"><map value="0x1" message="$(string.bold)"/><map value="0x4" message="$(string.wide)"/></bitMap></maps>
<tasks><task name="Draw" value="3" symbol="d"/></tasks>
<events><event value="1" version="2" symbol="One" task="Draw" opcode="win:Start" level="win:Warning" template="T1" message="$(string.text)"/>
<event value="2" version="0" symbol="Two" template="T2"/><event value="3" version="0" symbol="Three"/><event value="4" version="0" symbol="Four" template="T4"/></events>
<templates><template tid="T1"><data name="Color" inType="win:UInt32" map="Color"/><data name="Style" inType="win:UInt32" map="Style"/><data name="Title" inType="win:UnicodeString"/>
<data name="Owner" inType="win:UInt32" outType="win:PID"/><data name="Status" inType="win:UInt32" outType="win:NTSTATUS"/><data name="Ratio" inType="win:Double"/>
<data name="Ok" inType="win:Boolean"/><data name="Id" inType="win:GUID"/><data name="Mask" inType="win:HexInt64"/><data name="At" inType="win:Pointer"/>
<data name="Note" inType="win:AnsiString"/><data name="Shade" inType="win:UInt32" map="Color"/></template>
<template tid="T2"><data name="Count" inType="win:UInt16"/><data name="Sizes" inType="win:UInt32" count="Count"/><data name="Length" inType="win:UInt32"/>
<data name="Blob" inType="win:Binary" length="Length"/><struct name="Points" count="Count"><data name="X" inType="win:Int32"/><data name="Name" inType="win:UnicodeString"/></struct>
<data name="Fixed" inType="win:UnicodeString" length="4"/><data name="User" inType="win:SID"/><data name="Last" inType="win:Int8"/></template>
<template tid="T4"><data name="Address" inType="win:UInt32" outType="win:IPv4"/><data name="Port" inType="win:UInt16" outType="win:Port"/>
<data name="When" inType="win:FILETIME"/><data name="Pair" inType="win:UInt16" count="2"/><data name="Six" inType="win:Binary" outType="win:IPv6" length="16"/></template></templates></provider></events></instrumentation>
<localization><resources culture="en-US"><stringTable><string id="red" value="rot"/><string id="blue" value="größer blau"/><string id="bold" value="Bold"/><string id="wide" value="Wide"/>
<string id="text" value="drew %%3 in %%1, long LONG"/></stringTable></resources></localization></instrumentationManifest>"""


def wide(text):
    return (text + "\0").encode("utf-16le")


def event(number, version, payload, clock):
    record = bytearray(forms.event(PROVIDER, number, payload, clock))
    record[42] = version
    return bytes(record)


def make():
    one = struct.pack("<II", 7, 5) + wide("größe") + struct.pack("<IIdI", 4711, 0xC0000022, 0.25, 1) + uuid.UUID(int=77).bytes_le + struct.pack("<QQ", 1 << 63, 0x7FF0) + b"ansi\0" + \
        struct.pack("<I", 7)
    two = struct.pack("<HIIIB", 2, 10, 20, 3, 1) + b"\2\3" + struct.pack("<i", -1) + wide("a") + struct.pack("<i", 5) + wide("bc") + "wxyz".encode("utf-16le") + \
        bytes([1, 2, 0, 0, 0, 0, 0, 5]) + struct.pack("<II", 21, 1001) + b"\xff"
    four = bytes([10, 1, 2, 3]) + struct.pack(">H", 443) + struct.pack("<QHH", 132000000000000000, 8, 9) + bytes(15) + b"\1"
    records = [event(1, 2, one, 100), event(2, 0, two, 110), event(3, 0, b"", 120), event(1, 2, one, 130), event(4, 0, four, 140), event(9, 0, b"unknown", 150)]
    return single.trace(records)


def events(env, path, *words):
    """Without the names of tasks: an event that has none gets its own as that. The name of a provider comes with a schema."""
    lines = env.run([env.agent, "dump", "--format", "jsonl", path, *words]).stdout.splitlines()
    found = [event for event in map(json.loads, lines) if event["name"] != "EventTrace/Header" and event["provider"] != META_DATA]
    return [{key: value for key, value in event.items() if key != "task_name" and (event["name"] or key != "provider_name")} for event in found]


def test(env, checks, _):
    path, manifest, out = env.folder / "in.etl", env.folder / "paint.man", env.folder / "out.etl"
    path.write_bytes(make())
    manifest.write_text((MANIFEST % PROVIDER).replace("LONG", "long " * 250 + "end"), encoding="utf-8")
    said = json.loads(env.run([env.agent, "relog", path, "-o", out, "-m", manifest, "--metadata", "--json"]).stdout)
    checks.equal((said["schemas"], said["added"]), ({"added": 4, "missing": 0}, 6), "the summary: four events, two maps, of which one is that of two fields")
    before, bare, after = events(env, path, "-m", manifest), events(env, path), events(env, out)
    checks.equal(len(before), 6, "events")
    checks.equal([event["name"] for event in after], ["Draw/Start", "Two", "Three", "Draw/Start", "Four", ""], "names")
    checks.that(all("_tail" in e["fields"] or not e["fields"] for e in bare) and "rot" not in str(before) and "größer blau" in str(before), "the manifest is not needed")
    for mine, wanted in zip(after, before):
        checks.equal(mine, wanted, f"event {wanted['id']} at {wanted['clock']}")
    checks.equal(naive_etl.parse(out)["warnings"], [], "a naive reader")
    # by a reader of these records that is not ours
    infos, maps = {}, {}
    for line in env.run([env.agent, "dump", "--format", "raw", out]).stdout.splitlines():
        record = json.loads(line)
        if record["provider"] != META_DATA:
            continue
        payload = bytes.fromhex(record["payload"])
        if record["opcode"] == 32:
            key, fields = schemas.maps_of_fields(payload)
            infos[key[1:]] = fields
        else:
            name, bits, values = schemas.map_of(payload[16:])
            maps[name] = (bool(bits), values)
    checks.equal(sorted(infos), [(1, 2), (2, 0), (3, 0), (4, 0)], "events' information by the tests' reader")
    checks.equal({name: found for name, found in infos[1, 2].items() if found}, {"Color": "Color", "Style": "Style", "Shade": "Color"}, "maps of fields")
    checks.equal(maps, {"Color": (False, {1: "rot", 7: "größer blau"}), "Style": (True, {1: "Bold", 4: "Wide"})}, "maps")
    # once; a cut has those of its events; events with a schema of their own get none
    again = json.loads(env.run([env.agent, "relog", out, "-o", env.folder / "again.etl", "--mark", "start=x", "--metadata", "--json"]).stdout)
    checks.equal((again["schemas"], again["added"]), ({"added": 0, "missing": 0}, 1), "with marks: the trace has its schemas")
    checks.equal([e for e in events(env, env.folder / "again.etl") if e["provider"] == str(PROVIDER)], after, "with marks: events")
    env.run([env.agent, "relog", path, "-o", out, "-m", manifest, "--metadata", "--where", "id == 4"])
    checks.equal([e for e in events(env, out)], [before[4]], "a choice of events")
    # a bare cut has them, too: also where the trace's own, or the class's first event, came before it, and in each part
    described, second = env.folder / "described.etl", env.folder / "second.etl"
    env.run([env.agent, "relog", path, "-o", described, "-m", manifest, "--metadata"])
    start = next(event for event in map(json.loads, env.run([env.agent, "dump", "--format", "jsonl", described]).stdout.splitlines()) if event["clock"] == 130)["time"]
    for source, words, added in ((path, ["-m", manifest], 2), (described, [], 1)):  # the cut of the second has one of the trace's own
        said = json.loads(env.run([env.agent, "relog", source, "-o", out, *words, "--metadata", "--bare", "--from", start, "--json"]).stdout)
        checks.equal((events(env, out), said["schemas"]["added"]), (before[3:], added), f"a bare cut of {source.name}")
        said = json.loads(env.run([env.agent, "relog", source, "-o", out, *words, "--metadata", "--bare", "--part", f"{second}: id == 4", "--json"]).stdout)
        checks.equal(events(env, second), [before[4]], f"a bare part of {source.name}")
        checks.equal(events(env, out), before, f"beside a bare part of {source.name}")
        checks.that(said["written"] == said["read"] - said["dropped"] + said["added"], f"counts with a bare part: {said}")
    # what such a cut keeps of the trace's own is not written again
    said = json.loads(env.run([env.agent, "relog", described, "-o", out, "--metadata", "--bare", "--from", "start", "--json"]).stdout)
    checks.equal((said["schemas"], events(env, out)), ({"added": 0, "missing": 0}, before), "a bare cut of all")
    text = env.run([env.agent, "relog", path, "-o", out, "-m", manifest, "--metadata"]).stdout
    checks.that("schemas: of 4 classes added; 0 have none" in text, f"the summary as text: {text}")


if __name__ == "__main__":
    harness.main(test, __doc__)
