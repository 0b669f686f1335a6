"""Events of providers that only their instrumentation manifest describes: `--manifest`.

- http-server-win7: all 2,041 events against what Windows' own event log holds of them (evtx.xml), field by field, and every
  message against a renderer written here from the .man's own strings.
- kernel-process-provider, kernel-network-provider with SystemEvents.man: every field and message of every event against a
  decoder written here, which reads the manifest with Python's own XML reader and shares nothing with ours.
- The collector prints the same as the agent, without the manifest.
- Manifests with mistakes: file, line and column of each, and what was expected.
- A manifest that is made of a description (`schema compile --man`) says what the description says, by Python's own XML reader.

# sanitizers: asan-ubsan
"""
import base64
import datetime
import ipaddress
import json
import re
import struct
import uuid
import xml.etree.ElementTree as ET

import harness
import traces

EVENTS = "{http://schemas.microsoft.com/win/2004/08/events}"
EVENT_LOG = "http-server-win7/evtx.xml"
EVTX = "{http://schemas.microsoft.com/win/2004/08/events/event}"


# ---- a decoder of manifest events, for comparison ----

def local(tag):
    return tag.split("}")[-1]


class Manifest:
    def __init__(self, path):
        root = ET.parse(path).getroot()
        self.strings = {s.get("id"): s.get("value") for s in root.iter() if local(s.tag) == "string" and s.get("value") is not None}
        self.events = {}
        for provider in (p for p in root.iter() if local(p.tag) == "provider" and p.get("guid")):
            guid = provider.get("guid").strip("{}").lower()
            templates = {t.get("tid"): t for t in provider.iter() if local(t.tag) == "template"}
            maps = {m.get("name"): m for m in provider.iter() if local(m.tag) in ("valueMap", "bitMap")}
            for event in (e for e in provider.iter() if local(e.tag) == "event"):
                key = guid, int(event.get("value"), 0), int(event.get("version") or "0", 0)
                self.events[key] = event, templates.get(event.get("template")), maps

    def text(self, reference):
        found = re.fullmatch(r"\$\(string\.(.*)\)", reference or "")
        return self.strings[found.group(1)] if found else reference or ""

    def decode(self, guid, number, version, payload, pointer_size):
        """[(name, JSON value, text in a message)] of the fields, the bytes left over, and the rendered message."""
        event, template, maps = self.events[guid, number, version]
        values, fields = {}, []
        for data in (template if template is not None else []):
            if local(data.tag) != "data":
                continue
            value, payload = self.value(data, values, payload, pointer_size)
            values[data.get("name")] = value
            fields.append((data.get("name"), *self.shown(data, value, maps)))
        return fields, payload, render(self.text(event.get("message")), [text for _, _, text in fields])

    @staticmethod
    def value(data, values, payload, pointer_size):
        kind, length = data.get("inType"), data.get("length")
        count = None if length is None else int(length) if length.isdigit() else values[length]
        sizes = {"win:UInt8": "<B", "win:UInt16": "<H", "win:UInt32": "<I", "win:UInt64": "<Q", "win:Int32": "<i", "win:HexInt32": "<I",
                 "win:FILETIME": "<Q", "win:Boolean": "<I", "win:Pointer": "<Q" if pointer_size == 8 else "<I"}
        if kind in sizes:
            size = struct.calcsize(sizes[kind])
            return struct.unpack(sizes[kind], payload[:size])[0], payload[size:]
        if kind == "win:GUID":
            return uuid.UUID(bytes_le=payload[:16]), payload[16:]
        if kind == "win:Binary":
            return payload[:count], payload[count:]
        width = 2 if kind == "win:UnicodeString" else 1
        if count is None:
            ends = [i for i in range(0, len(payload), width) if not any(payload[i:i + width])]
            end = ends[0] if ends else len(payload)
            rest = payload[end + width:]
        else:
            end, rest = count * width, payload[count * width:]
        text = payload[:end].decode("utf-16le" if width == 2 else "cp1252").split("\0")[0]
        return text, rest

    def shown(self, data, value, maps):
        """(as JSON, as text in a message)"""
        kind, out = data.get("inType"), data.get("outType") or ""
        if isinstance(value, str):
            return value, value
        if kind == "win:GUID":
            return str(value), "{%s}" % value
        if out == "win:IPv6":
            text = str(ipaddress.IPv6Address(value))
            return text, text
        if out == "win:SocketAddress":
            family, port = struct.unpack("<H", value[:2])[0], struct.unpack(">H", value[2:4])[0]
            text = f"{ipaddress.IPv4Address(value[4:8])}:{port}" if family == 2 else f"[{ipaddress.IPv6Address(value[8:24])}]:{port}"
            return {"value": value.hex(), "name": text}, text
        if isinstance(value, bytes):
            return value.hex(), value.hex()
        if out == "win:IPv4":
            text = str(ipaddress.IPv4Address(struct.pack("<I", value)))
            return text, text
        if out == "win:Port":
            value = value >> 8 | (value & 255) << 8
            return value, str(value)
        if kind == "win:FILETIME":
            then = datetime.datetime(1601, 1, 1) + datetime.timedelta(microseconds=value // 10)
            text = then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value % 10**7:07d}Z"
            return text, text
        if kind == "win:Boolean":
            return bool(value), "true" if value else "false"
        number = hex(value) if kind in ("win:Pointer", "win:HexInt32") or out.lower().startswith(("win:hex", "xs:hex")) else value
        if data.get("map"):
            names = {int(m.get("value"), 0): self.text(m.get("message")) for m in maps[data.get("map")] if local(m.tag) == "map"}
            if local(maps[data.get("map")].tag) == "bitMap":
                known = [name for bit, name in names.items() if value & bit]
                left = value & ~sum(names)
                name = "|".join(known + ([hex(left)] if left else []))
            else:
                name = names.get(value)
            return {"value": number, "name": name}, name or str(number)
        return number, str(number)


def render(message, inserts):
    """As FormatMessage does it."""
    def one(found):
        code = found.group(1)
        if code[0].isdigit() and code != "0":
            n = int(code.split("!")[0])
            return inserts[n - 1] if n <= len(inserts) else ""
        return {"n": "\n", "t": "\t", "r": "\r", "b": " ", "0": ""}.get(code, code)
    return re.sub(r"%([1-9][0-9]?(?:![^!]*!)?|.)", one, message, flags=re.DOTALL)


# ---- the tests ----

def dump(env, name, manifest, *extra):
    text = env.run([env.agent, "dump", "--format", "raw", "--manifest", manifest, *extra, *traces.paths(name, env.build)]).stdout
    return [event for event in map(json.loads, text.splitlines()) if event["header"]["type"].startswith("EVENT")]


def embedded(env, name):
    """A file with the manifest that an EventSource of the trace wrote into it, in pieces."""
    pieces = {}
    for event in map(json.loads, env.run([env.agent, "dump", "--format", "raw", "--no-names", *traces.paths(name, env.build)]).stdout.splitlines()):
        if event["id"] == 0xFFFE:
            payload = bytes.fromhex(event["payload"])
            pieces.setdefault((event["provider"], event["pid"]), {})[struct.unpack_from("<H", payload, 6)] = payload[8:]
    _, first = min(pieces.items())
    path = env.folder / "embedded.man"
    path.write_bytes(b"".join(first[number] for number in sorted(first)))
    return path


def against_decoder(env, checks, name, manifest, left_over):
    """Every event's fields and message; left_over: the number of bytes after the last field of the manifest."""
    decoder = Manifest(manifest)
    described = {provider for provider, _, _ in decoder.events}
    events = [event for event in dump(env, name, manifest) if event["provider"] in described and event["id"] != 0xFFFE]
    wrong = 0
    for number, event in enumerate(events):
        fields, rest, message = decoder.decode(event["provider"], event["id"], event["version"], bytes.fromhex(event["payload"]),
                                               event["pointer_size"])
        expected = {field: value for field, value, _ in fields}
        got = dict(event["fields"])
        tail = bytes.fromhex(got.pop("_tail", ""))
        if (got, tail, event.get("message", "")) != (expected, rest, message) or len(rest) != left_over:
            wrong += 1
            if wrong <= 3:
                print(f"{name} event {number}: {event['fields']} {event['message']!r}\nexpected {expected} {message!r}, left {rest!r}")
    checks.equal(wrong, 0, f"{name}: events that differ from the independent decoder's")
    return events


def against_event_log(env, checks, events):
    log = ET.parse(traces.document(EVENT_LOG, env.build)).getroot()
    rows = log.findall(f"{EVTX}Event")
    checks.equal((len(events), len(rows)), (2041, 2041), "http-server-win7: events, here and in the event log")
    wrong, values, payloads = 0, 0, 0
    for event, row in zip(events, rows):
        system = row.find(f"{EVTX}System")
        numbers = {tag: system.findtext(f"{EVTX}{tag}") for tag in ("EventID", "Version", "Level", "Task", "Opcode", "Keywords")}
        head = {"EventID": str(event["id"]), "Version": str(event["version"]), "Level": str(event["level"]),
                "Task": str(event["task"]), "Opcode": str(event["opcode"]), "Keywords": event["keyword"]}
        wrong += head != numbers
        payload = row.find(f".//{EVTX}EventPayload")
        if payload is not None:  # a string without its NUL, which that reader gave up on: it kept the bytes
            payloads += 1
            wrong += base64.b64decode(payload.text) != bytes.fromhex(event["payload"])
            wrong += "_tail" in event["fields"] or not event["fields"]["Url"].startswith("http://")
            continue
        data = row.findall(f".//{EVTX}Data")
        wrong += [d.get("Name") for d in data] != list(event["fields"])
        for item in data:
            values += 1
            wrong += not same_value(item.text or "", event["fields"].get(item.get("Name")))
    checks.equal(wrong, 0, "http-server-win7: values that differ from the event log's")
    checks.that(values > 5000 and payloads == 291, f"only {values} values and {payloads} payloads were compared")


def same_value(text, value):
    if isinstance(value, dict) and re.fullmatch(r"([0-9a-f]{2})*", str(value["value"])):
        return base64.b64decode(text).hex() == value["value"]
    if isinstance(value, dict):
        value = value["value"]
    if isinstance(value, str) and value.startswith("0x"):
        return int(text, 0) == int(value, 16)
    return text == str(value)


def collector_reads_it(env, checks, manifest):
    """What travels explains itself: the collector has no manifest."""
    env.make_certificates(("http",))
    collector = env.new_collector().start()
    paths = traces.paths("http-server-win7", env.build)
    env.replay(paths, collector, agent="http", extra=["--manifest", manifest])
    collector.stop()
    for extra in (["--format", "raw"], ["--format", "text"], ["--format", "csv", "--fields", "time,message,keyword_names,Url"]):
        dumped = env.run([env.agent, "dump", *extra, "--manifest", manifest, *paths]).stdout
        checks.that(dumped == collector.ask("export", "--host", "http", *extra), f"dump and export differ: {' '.join(extra)}")
        checks.that("http://georgis2" in dumped, f"{' '.join(extra)}: no URL was printed")


HEAD = """<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="P" guid="{11111111-2222-3333-4444-555555555555}" symbol="P">
"""
TAIL = """
  </provider>
 </events></instrumentation>
 <localization><resources culture="en-US"><stringTable><string id="a" value="A %1"/></stringTable></resources></localization>
</instrumentationManifest>"""

# the content of the provider element, the place of the mistake in it (line, column), and a part of the error message
MISTAKES = [
    ('<events><event value="1" template="none"/></events>', (1, 9), "template 'none': expected one that is defined"),
    ('<events>\n<event value="70000"/></events>', (2, 1), "value '70000': expected a number from 0 to 65535"),
    ('<events><event/></events>', (1, 9), "expected an attribute 'value'"),
    ('<events><event value="1"/>\n  <event value="1"/></events>', (2, 3), "defined twice; the first is in line 4"),
    ('<events><event value="1" keywords="a b"/></events>', (1, 9), "keyword 'a': expected one that is defined"),
    ('<events><event value="1" message="$(string.b)"/></events>', (1, 9), "expected a string of that id in a stringTable"),
    ('<templates><template tid="t">\n<data name="x" inType="win:Uint32"/></template></templates>', (2, 1), "inType 'win:Uint32': expected"),
    ('<templates><template tid="t"><data name="x" inType="win:UInt32" outType="xs:none"/></template></templates>', (1, 30), "outType 'xs:none'"),
    ('<templates><template tid="t"><data name="x" inType="win:Binary" length="y"/><data name="y" inType="win:UInt32"/></template></templates>',
     (1, 30), "length 'y': expected a number, or the name of a field before it"),
    ('<templates><template tid="t"><data name="x" inType="win:Binary" length="0"/></template></templates>', (1, 30), "expected at least 1"),
    ('<templates><template tid="t"><data name="x" inType="win:UInt32" map="m"/></template></templates>', (1, 30), "map 'm': expected one"),
    ('<templates><template tid="t"><struct name="s"/></template></templates>', (1, 30), "is a struct whose members do not follow it"),
    ('<templates><template tid="t"><data name="n" inType="win:UInt32"/><data name="x" inType="win:AnsiString" count="2" length="n"/>'
     '</template></templates>', (1, 66), "array of values whose length another field gives"),
    ('<maps><valueMap name="m"><map value="4294967296"/></valueMap></maps>', (1, 26), "value '4294967296': expected a number"),
    ('<tasks><task name="t" value="1"/><task name="t" value="2"/></tasks>', (1, 34), "task 't' is defined twice"),
    ('<events><event value="1"', (2, 3), "expected XML: not well-formed"),
    ('</provider><provider name="Q" guid="nonsense">', (1, 12), "expected {XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX}"),
]


def check_command(env, checks, good):
    """Every mistake of a file, not only the first."""
    done = env.run([env.agent, "schema", "check", good])
    checks.equal(done.stdout, f"{good}: 1 providers, {len(Manifest(good).events)} events, 0 mistakes\n", "schema check of a manifest without mistakes")
    path = env.folder / "two.man"
    path.write_text(HEAD + '<events><event value="1" task="a"/>\n<event value="2"/>\n<event value="3" opcode="b"/></events>' + TAIL)
    done = env.run([env.agent, "schema", "check", "--quiet", path], check=False)
    checks.equal((done.returncode, done.stdout.splitlines()), (3, [
        f"{path}:4:9: event 1: task 'a': expected one that is defined in this provider",
        f"{path}:6:1: event 3: opcode 'b': expected one that is defined in this provider"]), "schema check of two mistakes")
    done = env.run([env.agent, "schema", "check", env.folder / "nothing.man"], check=False)
    checks.equal((done.returncode, bool(done.stderr)), (1, True), "schema check of a file that is not there")


def mistakes(env, checks, name):
    path = env.folder / "wrong.man"
    trace = traces.paths(name, env.build)
    for inside, (line, column), what in MISTAKES:
        path.write_text(HEAD + inside + TAIL)
        done = env.run([env.agent, "stats", "--manifest", path, *trace], check=False)
        place = f"{path}:{line + HEAD.count(chr(10))}:{column}: "
        checks.that(done.returncode == 3 and place in done.stderr and what in done.stderr and not done.stdout,
                    f"{inside!r}: exit code {done.returncode}, {done.stderr!r}; expected {place}{what}")
    for content, what in ((b"", "expected XML"), (b"\x00\x01", "expected XML"), (b"<a/>", "expected an instrumentationManifest"),
                          (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "document type"), (b"<a>" * 5000, "64 deep")):
        path.write_bytes(content)
        done = env.run([env.agent, "stats", "--manifest", path, *trace], check=False)
        checks.that(done.returncode == 3 and what in done.stderr, f"{content[:40]!r}: {done.returncode} {done.stderr!r}")


DESCRIPTION = [
    {"provider": "Contoso-Paint"},
    {"id": 1, "name": "Draw/Start", "level": 3, "keyword": "0x5", "message": 'drew %1 <ü> & "%2"', "fields": {"Title": "UnicodeString", "Owner": "UInt32 PID", "Note": "AnsiString Utf8"}},
    {"id": 1, "version": 1, "name": "Draw/Fill", "fields": {"Mask": "UInt64 HexInt64", "Ok": "Boolean", "Key": "GUID", "Ratio": "Double"}},
    {"id": 65535, "name": "3D Idle", "level": 0}]
NOT_A_DESCRIPTION = {  # lines: part of the message
    "": "a line of a provider", '{"provider": "A"}': "lines of events", '{"id": 1, "name": "x"}': ":1: no key of a provider", '{"provider": "A"}\n{"id": 1}': ":2: expected id and name",
    '{"provider": "A"}\n\n{"id": 1, "name": "x", "fields": {"a": "UInt33"}}': ":3: expected a type", '{"provider": "A"}\n{"id": 1, "name": "x", "fields": {"a": "UInt32 Color"}}': "UInt32 Color",
    '{"provider": "A"}\n{"id": 1, "name": "x"}\n{"id": 1, "name": "y"}': ":3: this id and version", '{"provider": "A", "guid": "1"}': ":1: expected a GUID",
    '{"provider": "A"}\n{"id": 1, "name": "x/y/z"}': "a task and an opcode", '{"provider": "A"}\n{"id": 1, "name": "x", "level": 6}': "no such number",
    '{"provider": "A"}\n{"id": 1, "name": "x\\u0001"}': "control character", '{"provider": "A"}\n{"id": 65536, "name": "x"}': "no such number", '{"provider": "A"} 1': "nothing after",
    '{"provider": "A"}\n{"id": 1, "name": "\xff"}': "a manifest cannot have one of its texts",
    '{"provider": "A"}\n{"id": 1, "name": "x", "fields": {"a": "Binary"}}': "expected CountedBinary", '{"provider": "A"}\n{"id": 1, "name": "Draw/win:Fill"}': "Windows' own",
    '{"provider": "A"}\n{"id": 1, "name": "win:None"}': "Windows' own"}


def described(env, checks):
    """A manifest out of a description: read by Python, and by our own commands."""
    path, made = env.folder / "paint.jsonl", env.folder / "paint.man"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in DESCRIPTION), encoding="utf-8-sig")  # as Windows' editors write it
    env.run([env.agent, "schema", "compile", "--man", "-o", made, path, "--resources", "C:\\a & b\\paint.dll"])
    checked = env.run([env.agent, "schema", "check", made]).stdout
    checks.that("1 providers, 3 events, 0 mistakes" in checked, f"schema check of what was made: {checked}")
    tree = ET.parse(made)
    of = {kind: [node for node in tree.iter() if local(node.tag) == kind] for kind in ("provider", "event", "template", "string", "task", "opcode", "keyword")}
    provider = of["provider"][0].attrib
    checks.equal((provider["name"], provider["guid"], provider["resourceFileName"], provider["messageFileName"]),
                 ("Contoso-Paint", "{1d641d2c-a4e9-5146-9a7c-4084c6249d47}", "C:\\a & b\\paint.dll", "C:\\a & b\\paint.dll"), "the provider")
    texts = {f"$(string.{node.attrib['id']})": node.attrib["value"] for node in of["string"]}
    templates = {t.attrib["tid"]: [(d.attrib["name"], d.attrib["inType"], d.attrib.get("outType", "")) for d in t] for t in of["template"]}
    got = [(int(e["value"]), int(e["version"]), e["level"], e["task"], e.get("opcode"), e.get("keywords"), texts.get(e.get("message")), templates.get(e.get("template"), []))
           for e in (node.attrib for node in of["event"] if "value" in node.attrib)]
    checks.equal(got, [(1, 0, "win:Warning", "Draw", "win:Start", "Keyword0 Keyword2", DESCRIPTION[1]["message"],
                        [("Title", "win:UnicodeString", ""), ("Owner", "win:UInt32", "win:PID"), ("Note", "win:AnsiString", "win:Utf8")]),
                       (1, 1, "win:Informational", "Draw", "Fill", None, None, [("Mask", "win:UInt64", "win:HexInt64"), ("Ok", "win:Boolean", ""), ("Key", "win:GUID", ""), ("Ratio", "win:Double", "")]),
                       (65535, 0, "win:LogAlways", "3D Idle", None, None, None, [])], "the events")
    checks.equal([[(n.attrib["name"], n.attrib.get("value") or n.attrib["mask"]) for n in of[kind]] for kind in ("task", "opcode", "keyword")],
                 [[("Draw", "1"), ("3D Idle", "2")], [("Fill", "10")], [("Keyword0", "0x1"), ("Keyword2", "0x4")]], "numbers of names")
    symbols = {e.attrib["symbol"] for e in of["event"] + of["provider"]}
    checks.that(len(symbols) == 4 and all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", s) for s in symbols), f"symbols are different, and names of C: {symbols}")
    for text, part in NOT_A_DESCRIPTION.items():
        path.write_bytes(text.encode("latin-1"))
        done = env.run([env.agent, "schema", "compile", "--man", "-o", env.folder / "none.man", path], check=False)
        checks.that(done.returncode == 3 and part in done.stderr and not (env.folder / "none.man").exists(), f"{text!r}: {done.returncode} {done.stderr!r}")
    for words in (("--man", path, path), ("--resources", "x", made)):
        checks.equal(env.run([env.agent, "schema", "compile", "-o", env.folder / "none.man", *words], check=False).returncode, 2, f"{words}")


def test(env, checks, arguments):
    described(env, checks)
    manifests = "http-server-win7/HTTP_Server.man", "kernel-process-provider/SystemEvents.man"
    if checks.real("manifest: every event of three providers as their manifests decode it", *manifests):
        http, system = (traces.document(manifest, env.build) for manifest in manifests)
        events = against_decoder(env, checks, "http-server-win7", http, 0)
        if checks.real("manifest: every value as Windows' event log has it", EVENT_LOG):
            against_event_log(env, checks, events)
        checks.equal(len(against_decoder(env, checks, "kernel-process-provider", system, 0)), 10343, "kernel-process-provider: events")
        # the manifest gives connid four bytes, Windows 7 writes eight
        checks.equal(len(against_decoder(env, checks, "kernel-network-provider", system, 4)), 8923, "kernel-network-provider: events")
        collector_reads_it(env, checks, http)
        check_command(env, checks, http)
    else:
        made = embedded(env, "clr-32bit")
        checks.that(len(against_decoder(env, checks, "clr-32bit", made, 0)) > 100, "clr-32bit: too few events of its EventSource")
        check_command(env, checks, made)
    mistakes(env, checks, "amsi-eventslost")


if __name__ == "__main__":
    harness.main(test, __doc__)
