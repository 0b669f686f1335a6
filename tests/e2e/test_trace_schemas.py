"""Schemas that a trace brings along: TraceLogging metadata, and EventSource manifests in pieces.

- Every TraceLogging event of every trace against a decoder written here from the format's description, field by field; the
  baseline of tracelogging-primitive-types and the values of tracelogging-win11-20cpu's expected.txt on top.
- clr-32bit: every event of Microsoft-Build and PerfView against a decoder written here, which puts their manifests together
  from the pieces in the trace.
- Names of values by the maps that merged traces hold beside their events' information: every event of those kinds against a
  reader of both records written here; of a generated trace, which has value maps and bits, and numbers without a name, a
  collector prints the same.
- No TraceLogging or EventSource event of any trace is left unknown; with the manifests beside the traces nothing is that
  docs/reference/decoding.md does not list.

# sanitizers: asan-ubsan
"""
import collections
import json
import re
import struct
import uuid
import xml.etree.ElementTree as ET

import harness
import naive_etl
import test_manifest
import test_tracegen
import traces

TRACES = {"tracelogging-primitive-types": 5, "tracelogging-struct": 1, "tracelogging-ebpf": 13841, "lxcore-tracelogging": 2,
          "amsi-eventslost": 19, "tracelogging-win11-20cpu": 70, "diagsession-four-files": 256, "clr-32bit": 0}
MANIFESTS = "http-server-win7/HTTP_Server.man", "kernel-process-provider/SystemEvents.man"
BASELINE = "tracelogging-primitive-types/traceevent-baseline.txt"
MAPPED = {"clr-32bit": 4, "clr-kernel-win8-x64": 5}
SIZES = {3: "<b", 4: "<B", 5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<f", 12: "<d", 13: "<I", 17: "<Q", 20: "<I", 21: "<Q"}


class TraceLogging:
    """One event: its metadata, then its payload, read together."""

    def __init__(self, metadata, payload):
        self.meta, self.data = metadata[2:struct.unpack("<H", metadata[:2])[0]], payload
        self.tags()
        self.name = self.text()
        self.fields = []
        while self.meta:
            self.fields.append(self.field())

    def byte(self):
        value, self.meta = self.meta[0], self.meta[1:]
        return value

    def tags(self):
        while self.byte() & 0x80:
            pass

    def text(self):
        text, self.meta = self.meta.split(b"\0", 1)
        return text.decode()

    def take(self, size):
        assert size <= len(self.data), "the payload ends early"
        data, self.data = self.data[:size], self.data[size:]
        return data

    def field(self):
        name, kind = self.text(), self.byte()
        out = self.byte() if kind & 0x80 else 0
        if out & 0x80:
            self.tags()
        out &= 0x7f
        count = 1
        if kind & 0x60 == 0x20:
            count = self.byte() | self.byte() << 8
        elif kind & 0x60 == 0x40:
            count = struct.unpack("<H", self.take(2))[0]
        assert kind & 0x60 != 0x60, "no trace has types of its own"
        kind, array = kind & 0x1f, bool(kind & 0x60)
        if kind == 24:
            before, rows = self.meta, []
            for _ in range(count):
                self.meta = before
                rows.append(dict(self.field() for _ in range(out)))
            if not count:
                self.skip(out)
            return name, rows if array else rows[0]
        if array and out == 2 and kind in (3, 4, 6):
            return name, self.take(count * (2 if kind == 6 else 1)).decode("utf-16le" if kind == 6 else "cp1252").split("\0")[0]
        values = [self.value(kind, out) for _ in range(count)]
        return name, values if array else values[0]

    def skip(self, fields):
        data, self.data = self.data, bytes(1 << 16)
        for _ in range(fields):
            self.field()
        self.data = data

    def value(self, kind, out):
        if kind in (1, 2):
            width = 2 if kind == 1 else 1
            end = next((i for i in range(0, len(self.data), width) if not any(self.data[i:i + width])), len(self.data))
            text = self.take(end).decode("utf-16le" if kind == 1 else "utf-8" if out in (11, 12, 35) else "cp1252", "surrogatepass")
            self.data = self.data[width:]
            return text
        if kind in (22, 23):
            return self.take(struct.unpack("<H", self.take(2))[0]).decode("utf-16le" if kind == 22 else "utf-8" if out in (11, 12, 35) else "cp1252")
        if kind in (14, 25):
            return self.take(struct.unpack("<H", self.take(2))[0]).hex()
        if kind == 15:
            return str(uuid.UUID(bytes_le=self.take(16)))
        if kind == 18:
            t = struct.unpack("<8H", self.take(16))
            return "%04d-%02d-%02dT%02d:%02d:%02d.%03d" % (t[0], t[1], t[3], t[4], t[5], t[6], t[7])
        if kind == 19:
            head = self.take(8)
            subs = struct.unpack(f"<{head[1]}I", self.take(4 * head[1]))
            return "-".join(["S", "1", str(int.from_bytes(head[2:8], "big")), *map(str, subs)])
        value = struct.unpack(SIZES[kind], self.take(struct.calcsize(SIZES[kind])))[0]
        if kind == 17:
            return test_manifest.Manifest.shown(None, {"inType": "win:FILETIME"}, value, {})[0]
        if kind == 13 or (out == 3 and kind in (3, 4, 7)):
            return bool(value)
        if out == 2 and kind in (3, 4, 6):
            return chr(value)
        if kind in (20, 21) and not out or out in (4, 14, 15):
            return hex(value & (1 << 8 * struct.calcsize(SIZES[kind])) - 1)
        return value


def plain(value):
    """Ours without what it adds: names of numbers."""
    if isinstance(value, dict) and set(value) == {"value", "name"}:
        return value["value"]
    if isinstance(value, list):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def dump(env, name):
    text = env.run([env.agent, "dump", "--format", "raw", "--no-names", *traces.paths(name, env.build)]).stdout
    return [event for event in map(json.loads, text.splitlines()) if event["header"]["type"].startswith("EVENT")]


def tracelogging(env, checks, name, expected):
    count, wrong, kinds = 0, 0, collections.Counter()
    found = []
    for event in dump(env, name):
        metadata = [bytes.fromhex(x["data"]) for x in event["extended"] if x["type"] == 11]
        if not metadata:
            continue
        count += 1
        read = TraceLogging(metadata[0], bytes.fromhex(event["payload"]))
        kinds[read.name] += 1
        fields = dict(read.fields)
        found.append((event, fields))
        if (event["name"], plain(event["fields"]), read.data) != (read.name, fields, b""):
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {event['name']} {event['fields']}\nexpected {read.name} {fields}, left over {read.data!r}")
    checks.equal((count, wrong), (expected, 0), f"{name}: TraceLogging events, and those that differ from the independent decoder's")
    return found


def baseline(env, checks, found):
    """The program that made the baseline prints unsigned 64-bit numbers with a sign, times to a hundredth and cuts long values."""
    text = traces.document(BASELINE, env.build).read_text()
    rows = [dict(re.findall(r"(\w+_type)=(.*?); ", line)) for line in text.splitlines() if "PrimitiveTypesTest PID" in line]
    checks.equal(len(rows), len(found), "tracelogging-primitive-types: events in the baseline")
    wrong = 0
    for row, (_, fields) in zip(rows, found):
        wrong += set(row) != set(fields)
        for key, value in row.items():
            ours = fields[key]
            if key in ("file_time_type", "system_time_type"):
                same = ours[2:19].replace("-", "/").replace("T", " ") == value[:17]
            elif key == "guid_type":
                same = str(ours).startswith(value.rstrip("."))
            elif key == "char_type":
                same = ord(ours) == int(value)
            elif key == "int64_type":
                same = ours == int(value) % 2**64
            else:
                same = str(ours) == value
            wrong += not same
    checks.equal(wrong, 0, "tracelogging-primitive-types: values that differ from the baseline's")


def expected_values(checks, found):
    """expected.txt of tracelogging-win11-20cpu."""
    first = [fields for _, fields in found[:7]]
    checks.equal(first[0], {"input": "Hello, ETW!"}, "MarkString")
    checks.equal(first[1], {"input": "Hello, ETW with number", "number1": 42}, "MarkStringInteger")
    checks.equal(list(first[2].values()), [True, 0, "A", 3.14, -32768, 2147483647, 9223372036854775807, -128, 65535, 4294967295,
                                           18446744073709551615], "MarkBoolByteChar...")
    checks.equal([list(f.values())[0] for f in first[3:]], [[0, 2, 3, 4], "2000-01-01T00:00:00.0000000Z", 420000000,
                                                            "00000000-0000-0000-0000-000000000001"], "list, time, span, GUID")
    checks.equal(collections.Counter(e["provider_name"] for e, _ in found), {"CSharpTraceLoggingEventSource": 70}, "providers")
    checks.equal([e["name"] for e, _ in found], [e["name"] for e, _ in found[:7]] * 10, "seven kinds, ten times")


def event_sources(env, checks, name):
    """Manifests put together here, in a way of its own: all pieces of a process, in the order of their numbers."""
    pieces, manifests, wrong, count = {}, {}, 0, 0
    for event in dump(env, name):
        payload = bytes.fromhex(event["payload"])
        if event["id"] == 0xFFFE:
            key = event["provider"], event["pid"]
            total, number = struct.unpack("<HH", payload[4:8])
            pieces.setdefault(key, {})[number] = payload[8:]
            if len(pieces[key]) == total:
                text = b"".join(pieces.pop(key)[i] for i in range(total))
                path = env.folder / "manifest.xml"
                path.write_bytes(text)
                manifests[event["provider"]] = test_manifest.Manifest(path)
            checks.that(event["name"] == "ManifestData" and event["fields"]["Format"] == 1, "a piece of a manifest is shown as one")
            continue
        manifest = manifests.get(event["provider"])
        if not manifest or [x for x in event["extended"] if x["type"] == 11]:
            continue
        count += 1
        fields, rest, message = manifest.decode(event["provider"], event["id"], event["version"], payload, event["pointer_size"])
        expected = {field: value for field, value, _ in fields}
        got = dict(event["fields"])
        expected, got = plain(expected), plain(got)
        tail = bytes.fromhex(got.pop("_tail", ""))
        if (got, tail, event.get("message", "")) != (expected, rest, message) or rest:
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {event['fields']} {event.get('message')!r}\nexpected {expected} {message!r}, left {rest!r}")
    checks.equal(wrong, 0, f"{name}: EventSource events that differ from the independent decoder's")
    return count


def utf16(data, at):
    return data[at:].decode("utf-16le", "replace").split("\0")[0].rstrip(" ") if at else ""


def map_of(data):
    """EVENT_MAP_INFO: its name, 1 for bits, {value: name}."""
    name, flags, count, _ = struct.unpack_from("<4I", data)
    rows = [struct.unpack_from("<2I", data, 16 + 8 * i) for i in range(count)]
    return utf16(data, name), flags & 2, {value: utf16(data, at) for at, value in rows}


def maps_of_fields(data):
    """TRACE_EVENT_INFO: (provider, id, version), {field: map}."""
    names = {}
    for i in range(struct.unpack_from("<I", data, 100)[0]):
        flags, name, _, _, mapped = struct.unpack_from("<2I2HI", data, 112 + 24 * i)
        if not flags & 1 and mapped:
            names[utf16(data, name)] = utf16(data, mapped)
    return (str(uuid.UUID(bytes_le=data[:16])), struct.unpack_from("<H", data, 32)[0], data[34]), names


def mapped(env, checks, name, paths):
    """How many values have names out of maps in the trace, of events that no table of ours describes."""
    text = env.run([env.agent, "dump", "--format", "raw", "--no-names", *paths]).stdout
    maps, infos, count, wrong = {}, {}, 0, []
    for event in map(json.loads, text.splitlines()):
        if event["provider"] == "bbccf6c1-6cd1-48c4-80ff-839482e37671":
            payload = bytes.fromhex(event["payload"])
            if event["opcode"] == 33:
                called, bits, names = map_of(payload[16:])
                maps[str(uuid.UUID(bytes_le=payload[:16])), called] = bits, names
            elif event["opcode"] == 32:
                key, names = maps_of_fields(payload)
                infos[key] = names
            continue
        if event["provider_name"].startswith("Microsoft-Windows-DotNETRuntime"):
            continue
        for field, called in infos.get((event["provider"], event["id"], event["version"]), {}).items():
            bits, names = maps[event["provider"], called]
            value = plain(event["fields"][field])
            right = "|".join(names[b] for b in names if b & value == b and b) if bits else names.get(value)
            count += 1
            if event["fields"][field] != {"value": value, "name": right}:
                wrong.append((event["name"], field, event["fields"][field], right))
    checks.equal(wrong[:3], [], f"{name}: values whose names are not those of the trace's maps")
    return count


def generated(env, checks):
    scenario = env.folder / "printing.yaml"
    scenario.write_text("base: office\nduration_ms: 1500\nsession: {event_infos: yes}\n", encoding="utf-8")
    trace, truth = test_tracegen.generate(env.build, env.folder, "printing", "--preset", scenario)
    truth_rows = test_tracegen.rows(truth)
    test_tracegen.check_counts(checks, "printing", trace, truth_rows)
    jobs = {row["name"]: row["count"] for row in truth_rows if row["type"] == "provider_event" and row["name"].startswith("Job")}
    checks.that(len(jobs) == 2 and min(jobs.values()) >= 8, f"printing: the people print too little: {jobs}")
    checks.equal(mapped(env, checks, "printing", [trace]), jobs["JobQueued"] + 2 * jobs["JobPrinted"], "printing: values of mapped fields")
    env.make_certificates(["printing"])
    collector = env.new_collector().start()
    env.replay([trace], collector, agent="printing")
    collector.stop()
    chosen = ["--format", "jsonl", "--class", "Job*"]
    dumped = env.run([env.agent, "dump", *chosen, trace]).stdout
    names = {field["name"] for event in map(json.loads, dumped.splitlines()) for field in event["fields"].values() if isinstance(field, dict)}
    checks.equal(names, {"", "Duplex", "Color", "Duplex|Color", "Staple", "Duplex|Staple", "Color|Staple", "Duplex|Color|Staple",
                         "Done", "Cancelled", "Jammed", None}, "printing: names of values")
    checks.equal(collector.ask("export", "--host", "printing", *chosen), dumped, "printing: what the collector prints")


def nothing_unknown(env, checks, name):
    stats = json.loads(env.run([env.agent, "stats", "--json", *traces.paths(name, env.build)]).stdout)
    described = {e["provider"] for e in dump(env, name) if e["id"] == 0xFFFE or any(x["type"] == 11 for x in e["extended"])}
    unknown = {c["name"] or c["provider_name"]: c["unknown"] for c in stats["classes"] if c["unknown"] and c["provider"] in described}
    checks.equal(unknown, {}, f"{name}: unknown events of providers that describe themselves")


def listed(env, checks):
    manifests = [traces.document(manifest, env.build) for manifest in MANIFESTS]
    unknown = {}
    for name in traces.names():
        stats = env.run([env.agent, "stats", "--json", *[x for m in manifests for x in ("--manifest", m)], *traces.paths(name, env.build)])
        for c in json.loads(stats.stdout)["classes"]:
            if c["provider_name"].startswith("Microsoft-Windows-DotNETRuntime"):
                continue  # has tables of its own, and a test of them
            if c["unknown"] and not c["classic"]:
                unknown.setdefault(c["provider"], set()).add((c["id"], c["version"]))
    page = (harness.ROOT / "docs/reference/decoding.md").read_text()
    rows = {f"| {provider} | {'; '.join(f'{i}, version {v}' for i, v in sorted(ids))} |" for provider, ids in unknown.items()}
    table = set(re.findall(r"^\| [0-9a-f]{8}-[-0-9a-f]{27} \| \d+, version .*\|$", page, re.M))
    checks.equal(rows, table, "unknown events of the traces, and decoding.md's table of them")


def test(env, checks, arguments):
    real = checks.real("trace schemas: TraceLogging, EventSource and named values of real traces, and decoding.md's table of unknown events",
                       *MANIFESTS, BASELINE)
    for name in traces.among(TRACES):
        expected = TRACES[name] if real else sum(naive_etl.parse(path)["tl_items"] for path in traces.paths(name, env.build))
        found = tracelogging(env, checks, name, expected)
        if real and name == "tracelogging-primitive-types":
            baseline(env, checks, found)
        if real and name == "tracelogging-win11-20cpu":
            expected_values(checks, found)
        nothing_unknown(env, checks, name)
    generated(env, checks)
    count = event_sources(env, checks, "clr-32bit")
    checks.that(count == 5761 if real else count > 100, f"clr-32bit: {count} EventSource events")
    if real:
        listed(env, checks)
        checks.equal({name: mapped(env, checks, name, traces.paths(name, env.build)) for name in MAPPED}, MAPPED, "values that maps of the traces name")


if __name__ == "__main__":
    harness.main(test, __doc__)
