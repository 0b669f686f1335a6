""".NET. Our class rows are compared with the runtime's own manifest (ClrEtwAll.man), row by row. Each event of each of its providers,
in each version, has a class with the name that the manifest's texts make, and the fields of its template in their order with their
types, structs, counts and maps. Where real records contradict the manifest, tests/golden/dotnet-differences.tsv has the difference and
the evidence. A difference that is not in that list fails the test; so does a line of the list that is no longer a difference.

Derived values are computed a second time from the events alone: how long each collection took, how long a runtime's threads were
suspended each time, and the size of the heap afterwards. Every .NET event of the real traces is decoded a second time, by a decoder in
this file that reads only the manifest and the payload's bytes. Each value agrees with the output of `dump`.
"""
import csv
import datetime
import json
import struct
import uuid
import xml.etree.ElementTree as xml

import harness
import traces

NS = "{http://schemas.microsoft.com/win/2004/08/events}"
GOLDEN = traces.pathlib.Path(__file__).resolve().parents[1] / "golden"
TYPES = {"win:UInt8": "U8", "win:UInt16": "U16", "win:UInt32": "U32", "win:Int32": "I32", "win:UInt64": "U64", "win:Double": "F64",
         "win:Pointer": "POINTER", "win:Boolean": "BOOL32", "win:GUID": "GUID", "win:UnicodeString": "UTF16Z", "win:AnsiString": "ANSIZ"}
HEX = {"U8": "HEX8", "U16": "HEX16", "U32": "HEX32", "U64": "HEX64", "POINTER": "POINTER"}
FORMATS = {"U8": "<B", "U16": "<H", "U32": "<I", "I32": "<i", "U64": "<Q", "F64": "<d", "BOOL32": "<I"}
RUNTIME = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"
TRACES = ["clr-gc-events", "clr-kernel-win8-x64", "diagsession-four-files", "tracelogging-win11-20cpu"]


class Manifest:
    def __init__(self, path):
        root = xml.parse(path).getroot()
        self.strings = {s.get("id"): s.get("value") for s in root.iter(NS + "string")}
        self.events = {}  # (provider, id, version) -> (name, fields)
        self.providers = {}
        for provider in root.iter(NS + "provider"):
            self.read(provider)

    def text(self, element):
        message = element.get("message") or ""
        return self.strings[message[len("$(string."):-1]] if message else None

    def field(self, data, maps):
        f = {"name": data.get("name"), "count": data.get("count") or "1", "map": maps.get(data.get("map"))}
        if data.tag == NS + "struct":
            return {**f, "type": "STRUCT", "fields": [self.field(d, maps) for d in data]}
        f["type"] = TYPES[data.get("inType")]
        out_type = data.get("outType") or ""
        f["hex"] = out_type.startswith("win:Hex") or bool(f["map"] and f["map"]["flags"])
        return f

    def read(self, provider):
        guid = str(uuid.UUID(provider.get("guid")))
        self.providers[guid] = provider.get("name")
        maps = {m.get("name"): {"name": m.get("name"), "flags": kind == "bitMap",
                                "entries": {int(e.get("value"), 0): self.text(e) for e in m.iter(NS + "map")}}
                for kind in ("valueMap", "bitMap") for m in provider.iter(NS + kind)}
        templates = {t.get("tid"): [self.field(d, maps) for d in t if d.tag in (NS + "data", NS + "struct")] for t in provider.iter(NS + "template")}
        common = {o.get("name"): self.text(o) for o in provider.findall(f"{NS}opcodes/{NS}opcode")}
        tasks = {t.get("name"): (self.text(t) or t.get("name"), {o.get("name"): self.text(o) for o in t.iter(NS + "opcode")}) for t in provider.iter(NS + "task")}
        taken = {}
        for event in sorted(provider.iter(NS + "event"), key=lambda e: int(e.get("value"))):
            task, opcodes = tasks[event.get("task")]
            opcode = event.get("opcode") or "win:Info"
            name = f"{task}/{opcodes.get(opcode) or common.get(opcode) or opcode.replace('win:', '')}"
            number = int(event.get("value"))
            if taken.setdefault(name, number) != number:
                name += str(number)
            self.events[(guid, number, int(event.get("version")))] = (name, templates.get(event.get("template"), []))


def shape(f):
    """A field of the manifest as `schema --json` says ours."""
    kinds = {f["type"]} if not f.get("hex") else {HEX[f["type"]]}
    if f.get("hex") and not f["map"]:
        kinds.add(f["type"])  # sizes are decimal here
    if f["type"] == "U32" and not f["map"]:
        kinds.add("HEX32")  # flags whose names the manifest does not have
    return kinds


def compare(where, theirs, ours, ours_all, found):
    """Field lists side by side; what differs goes into found."""
    names = [[f["name"] for f in side] for side in (theirs, ours)]
    if names[0] != names[1]:
        found.append((where, f"fields: {','.join(names[1]) or '-'} for {','.join(names[0]) or '-'}"))
        return
    for t, o in zip(theirs, ours):
        if o["type"] not in shape(t):
            found.append((where, f"{t['name']}: {o['type']} for {t['type']}"))
        elif o["type"] == t["type"] and t.get("hex") and o["type"] != "POINTER" and o["semantic"] != "BYTE_COUNT":
            found.append((where, f"{t['name']}: decimal, and no size"))
        count = str(o.get("count_field") or o["count"])
        if count != t["count"]:
            found.append((where, f"{t['name']}: {count} elements for {t['count']}"))
        if t["map"] and o.get("map") != t["map"]["name"]:
            found.append((where, f"{t['name']}: map {o.get('map')} for {t['map'] and t['map']['name']}"))
        if t["type"] == "STRUCT":
            compare(where, t["fields"], o["fields"], ours_all, found)


def nest(fields):
    """The flat list of `schema --json` as a tree, when it is flat."""
    out, at = [], 0
    while at < len(fields):
        f = dict(fields[at])
        at += 1
        members = f.get("members", 0)
        if isinstance(members, int) and members:
            f["fields"] = fields[at:at + members]
            at += members
        out.append(f)
    return out


def check_rows(env, checks, manifest):
    with open(GOLDEN / "dotnet-differences.tsv", encoding="utf-8", newline="") as lines:
        listed = {(r["provider"], int(r["id"]), int(r["version"]), r["difference"]): r["evidence"] for r in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)}
    seen = set()
    for size in (4, 8):
        printed = json.loads(env.run([env.agent, "schema", "--json", "--pointer-size", size]).stdout)
        ours = {(c["provider"], c["id"], c["version"]): c for c in printed if not c["classic"] and c["provider"] in manifest.providers}
        for key, (name, fields) in manifest.events.items():
            where = f"{manifest.providers[key[0]]} {key[1]} version {key[2]}"
            c = ours.get(key)
            if not checks.that(c and c["known"], f"{where}: no class"):
                continue
            checks.equal(c["name"], name, f"{where}: name")
            checks.equal(c["provider_name"], manifest.providers[key[0]], f"{where}: provider")
            found = []
            compare(where, fields, nest(c["fields"]), ours, found)
            for _, what in found:
                seen.add((*key, what))
                checks.that((*key, what) in listed, f"{where}: {what}")
        if size == 8:
            print(f"{len(manifest.events)} events and versions of {len(manifest.providers)} providers; {len(set(ours) - set(manifest.events))} beyond the manifest")
    for line in set(listed) - seen:
        checks.that(False, f"{line} is listed as a difference, and is none")
    print(f"{len(listed)} differences, each with its evidence")
    return {key[:3] for key in listed if key[3].startswith("fields:")}


# ---- the second decoder ----

class Cut(Exception):
    pass


def take(payload, at, n):
    if at + n > len(payload):
        raise Cut
    return payload[at:at + n], at + n


def one(f, payload, at, pointer_size):
    kind = f["type"]
    if kind == "STRUCT":
        return decode(f["fields"], payload, at, pointer_size)
    if kind in ("UTF16Z", "ANSIZ"):
        step = 2 if kind == "UTF16Z" else 1
        end = at
        while end + step <= len(payload) and payload[end:end + step] != bytes(step):
            end += step
        if end + step > len(payload):
            raise Cut
        return payload[at:end].decode("utf-16-le" if step == 2 else "cp1252", "replace"), end + step
    if kind == "GUID":
        raw, at = take(payload, at, 16)
        return str(uuid.UUID(bytes_le=raw)), at
    form = FORMATS.get(kind) or ("<Q" if pointer_size == 8 else "<I")
    raw, at = take(payload, at, struct.calcsize(form))
    return struct.unpack(form, raw)[0], at


def decode(fields, payload, at, pointer_size):
    values = {}
    for f in fields:
        count = f["count"]
        if count == "1":
            values[f["name"]], at = one(f, payload, at, pointer_size)
            continue
        n = int(count) if count.isdigit() else values[count]
        items = []
        for _ in range(n):
            item, at = one(f, payload, at, pointer_size)
            items.append(item)
        values[f["name"]] = items
    return values, at


def printed_as(f, value):
    """How `dump --raw` prints this value."""
    if isinstance(value, list):
        return [printed_as({**f, "count": "1"}, v) for v in value]
    if f["type"] == "STRUCT":
        return {m["name"]: printed_as(m, value[m["name"]]) for m in f["fields"]}
    if f["type"] == "BOOL32":
        return bool(value) if value <= 1 else value
    return value


def plain(value):
    """Ours without what is added for people."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return plain(value["value"]) if set(value) == {"value", "name"} else {k: plain(v) for k, v in value.items()}
    if isinstance(value, str) and value.startswith("0x"):
        return int(value, 16)
    return value


def check_flags(f, value, printed, checks, where):
    if isinstance(value, list):
        return
    entries = f["map"]["entries"]
    if f["map"]["flags"]:
        known = {n for bits, n in entries.items() if bits and value & bits == bits}
        got = set(filter(None, (printed["name"] or "").split("|")))
        checks.that(known <= got or value in entries, f"{where}: {f['name']} {printed} has the bits {known}")
    else:
        if value in entries:
            checks.equal(printed["name"], entries[value], f"{where}: {f['name']}")


def check_traces(env, checks, manifest, other_fields):
    fixes = {82: "FrameCount"}  # dotnet-differences.tsv: the stack of id 82 has as many frames as it says
    for name in TRACES:
        events = values = beyond = 0
        kinds = set()
        lines = env.run([env.agent, "dump", "--raw", "--format", "jsonl", *traces.paths(name, env.build)]).stdout.splitlines()
        for line in lines:
            if b"DotNETRuntime" not in line if isinstance(line, bytes) else "DotNETRuntime" not in line:
                continue
            event = json.loads(line)
            key = (event["provider"], event["id"], event["version"])
            if event["provider"] not in manifest.providers:
                continue
            if key not in manifest.events or key in other_fields:
                beyond += 1
                continue
            event_name, fields = manifest.events[key]
            if event["id"] in fixes and event_name == "ClrStack/Walk":
                fields = [{**f, "count": fixes[event["id"]]} if f["name"] == "Stack" else f for f in fields]
            payload = bytes.fromhex(event["payload"])
            where = f"{name}: {event_name} at {event['clock']}"
            try:
                theirs, used = decode(fields, payload, 0, event["pointer_size"])
            except Cut:
                checks.that("_tail" in event["fields"], f"{where}: cut for the manifest, whole for us")
                continue
            expected = {f["name"]: printed_as(f, theirs[f["name"]]) for f in fields}
            if used < len(payload):
                expected["_tail"] = payload[used:].hex()
            got = {k: plain(v) for k, v in event["fields"].items()}
            if got != expected:
                checks.equal(got, expected, where)
            for f in fields:
                if f["map"]:
                    check_flags(f, theirs[f["name"]], event["fields"][f["name"]], checks, where)
            checks.equal(event["name"], event_name, where)
            events += 1
            values += len(fields)
            kinds.add(key)
        print(f"{name}: {events} events of {len(kinds)} kinds, {values} fields agree; {beyond} events are not in the manifest or have other fields")
        checks.that(events > 0 or beyond > 0, f"{name}: no .NET event")


def nanoseconds(event):
    whole, ticks = event["time"].rstrip("Z").split(".")
    return int(datetime.datetime.fromisoformat(whole + "+00:00").timestamp()) * 10 ** 9 + int(ticks) * 100


def check_derived(env, checks):
    """Pairs of begin and end by process, runtime and number; the last begin before an end is its own."""
    begins = {"GC/Start": "GC/Stop", "GC/SuspendEEStart": "GC/RestartEEStop"}
    ends = {end: begin for begin, end in begins.items()}
    for name in traces.among(TRACES):
        running, pauses, heaps = {}, 0, 0
        expected, got = {}, {}
        command = [env.agent, "dump", "--format", "jsonl", "--class", "GC/*", *traces.paths(name, env.build)]
        for line in env.run(command).stdout.splitlines():
            event = json.loads(line)
            if event["provider"] != RUNTIME:
                continue
            fields, number = event["fields"], len(expected)
            key = (event["pid"], fields.get("ClrInstanceID", 0), event["name"] in ("GC/Start", "GC/Stop") and fields["Count"])
            expected[number], got[number] = {}, {k: event[k] for k in ("completed", "completes", "derived") if k in event}
            if event["name"] in begins:
                running[begins[event["name"]], key] = (number, nanoseconds(event))
            elif event["name"] in ends and (event["name"], key) in running:
                begin, then = running.pop((event["name"], key))
                expected[begin]["completed"] = {"latency_ns": nanoseconds(event) - then}
                expected[number]["completes"] = {"operation": ends[event["name"]], "latency_ns": nanoseconds(event) - then}
                pauses += event["name"] == "GC/RestartEEStop"
            elif event["name"] == "GC/HeapStats":
                expected[number]["derived"] = {f"{what}_bytes": sum(v for k, v in fields.items() if k[:-1] == prefix)
                                               for what, prefix in (("heap", "GenerationSize"), ("promoted", "TotalPromotedSize"))}
                heaps += 1
        wrong = [(n, expected[n], got[n]) for n in expected if not same(expected[n], got[n])]
        checks.that(not wrong, f"{name}: derived values: {wrong[:3]}")
        print(f"{name}: {pauses} pauses and {heaps} heap sizes agree")
        checks.that(name not in ("clr-gc-events", "clr-kernel-win8-x64") or pauses and heaps, f"{name}: no pause")


def same(expected, got):
    """Durations within 100 ns: `dump` prints times in 100 ns, and durations are of unrounded ones."""
    if expected.keys() != got.keys():
        return False
    return all(abs(v - got[k][f]) <= 100 if f == "latency_ns" else v == got[k][f] for k in expected for f, v in expected[k].items())


def test(env, checks, arguments):
    if checks.real("dotnet: every .NET event of four traces as the runtime's manifest decodes it", "ClrEtwAll.man"):
        manifest = Manifest(traces.document("ClrEtwAll.man", env.build))
        other_fields = check_rows(env, checks, manifest)
        check_traces(env, checks, manifest, other_fields)
    check_derived(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
