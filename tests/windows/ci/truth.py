#!/usr/bin/env python3
"""Compares what this project reads of a recording with what Windows' own tracerpt reads of it, for .github/workflows/windows.yml.

    truth.py events XML JSONL       tracerpt -o XML -of XML, and etwagent dump --format jsonl --no-names: of each class the number of
                                    events, of some events of each class the fields, and times to a microsecond
    truth.py summary TXT JSON       tracerpt -summary TXT, and etwagent stats --json: events, losses, and events of each GUID
    truth.py workload PIDS JSONL XML PROVIDER
                                    two sessions of the same time, etwagent's and logman's: events of the processes of PIDS (one id a line)

The exit code is 0 when all is equal. A class is (GUID, id, opcode, version). tracerpt names the GUID of a classic event's class in
ExtendedTracingInfo. It resolves SIDs to names and renders times, so only numbers, GUIDs and other texts are compared."""
import argparse
import collections
import json
import re
import sys
import xml.etree.ElementTree

EVENT, TRACE = "{http://schemas.microsoft.com/win/2004/08/events/event}", "{http://schemas.microsoft.com/win/2004/08/events/trace}"
COMPARED = 20  # events of each class and processor whose fields are compared
SHOWN = 40
NUMBER = re.compile(r"-?\d+|0x[0-9A-Fa-f]+")
GUID = re.compile(r"\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}?")
NOT_COMPARED = re.compile(r"S-1-|\d{4}-\d\d-\d\dT")  # a SID, a time
TIME = re.compile(r"T\d\d:\d\d:(\d\d)(?:\.(\d{1,9}))?")
CLOCK_ROOM = 10  # of 100 ns
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*(?:[0-8bcefBCEF]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2\d|3[01]));")
MINUTE = 60 * 10**7


class Event:
    def __init__(self, key, cpu, pid, time, fields):
        self.key, self.cpu, self.pid, self.time, self.fields = key, cpu, pid, time, fields


def of_minute(text):
    """100 ns since the last full minute, which no time zone changes."""
    found = TIME.search(text)
    return int(found[1]) * 10**7 + int((found[2] or "0").ljust(9, "0")[:7]) if found else None


def guid_of(text):
    found = GUID.fullmatch(text.strip())
    return found[1].lower() if found else text.strip().lower()


def number_of(text):
    """As 64 bits without a sign: tracerpt prints some numbers in hex, and some with a sign."""
    return int(text, 0) & (1 << 64) - 1 if NUMBER.fullmatch(text) and not re.fullmatch(r"0\d+", text) else None


def encoding_of(path):
    with open(path, "rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def elements(path):
    """The events' elements, one by one: the file may be large. Control characters of payloads, which XML has no form for, are left out."""
    parser = xml.etree.ElementTree.XMLPullParser(("start", "end"))
    root = None
    with open(path, encoding=encoding_of(path), errors="replace", newline="") as lines:
        for line in lines:
            parser.feed(CONTROL.sub("", line))
            for kind, element in parser.read_events():
                root = element if root is None else root
                if kind == "end" and element.tag == EVENT + "Event":
                    yield element
                    root.clear()
    parser.close()


def of_tracerpt(path):
    for element in elements(path):
        system = element.find(EVENT + "System")

        def text(name, default="0"):
            found = system.find(EVENT + name)
            return found.text.strip() if found is not None and found.text else default
        classic = element.find(f"{TRACE}ExtendedTracingInfo/{TRACE}EventGuid")
        guid = classic.text if classic is not None else system.find(EVENT + "Provider").get("Guid", "")
        execution = system.find(EVENT + "Execution")
        fields = [(data.get("Name", ""), (data.text or "").strip()) for data in element.findall(f"{EVENT}EventData/{EVENT}Data")]
        yield Event((guid_of(guid), int(text("EventID")), int(text("Opcode")), int(text("Version"))),
                    int(execution.get("ProcessorID", 0)), int(execution.get("ProcessID", 0)),
                    of_minute(system.find(EVENT + "TimeCreated").get("SystemTime", "")), fields)


def of_etwagent(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            e = json.loads(line)
            yield Event((e["provider"], e["id"], e["opcode"], e["version"]), e["cpu"], e["pid"], of_minute(e["time"]), list(e["fields"].items()))


def plain(value):
    """A value as text; None for those that are not compared."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) and not NOT_COMPARED.match(value) else None


def same(ours, theirs):
    """1: equal, 0: they differ, None: the two forms cannot be compared."""
    if ours is None:
        return None
    theirs = {"true": "1", "false": "0"}.get(theirs.strip().lower(), theirs.strip())
    a, b = number_of(ours), number_of(theirs)
    if a is not None and b is not None:
        return int(a == b or a & 0xffffffff == b & 0xffffffff and -1 << 31 <= int(ours, 0) < 0)
    if (a is None) != (b is None):
        return None
    if GUID.fullmatch(ours) and GUID.fullmatch(theirs):
        return int(guid_of(ours) == guid_of(theirs))
    return int(ours.strip() == theirs)


def name_of(key):
    return f"{key[0]} id {key[1]} opcode {key[2]} version {key[3]}"


def sampled(events):
    """The number of events of each class, and the first COMPARED of each class and processor in their order."""
    counts, samples = collections.Counter(), collections.defaultdict(list)
    for e in events:
        counts[e.key] += 1
        if len(samples[e.key, e.cpu]) < COMPARED:
            samples[e.key, e.cpu].append(e)
    return counts, samples


def compare_fields(ours, theirs):
    """(differences, fields that were compared). Fields are paired by their names; one without a name has no pair."""
    wrong, compared = [], 0
    names = dict(theirs.fields)
    for name, value in ours.fields:
        if name not in names:
            continue
        equal = same(plain(value), names[name])
        compared += equal is not None
        if equal == 0:
            wrong.append(f"{name_of(ours.key)}: {name} is {plain(value)}, and {names[name].strip()} by tracerpt")
    if ours.time is not None and theirs.time is not None:
        apart = (ours.time - theirs.time) % MINUTE
        if min(apart, MINUTE - apart) > CLOCK_ROOM:
            wrong.append(f"{name_of(ours.key)}: {min(apart, MINUTE - apart) / 10:.1f} us between the two times")
    return wrong, compared


def events(arguments):
    ours, our_samples = sampled(of_etwagent(arguments.jsonl))
    theirs, their_samples = sampled(of_tracerpt(arguments.xml))
    wrong = [f"{name_of(key)}: {ours[key]} events, and {theirs[key]} by tracerpt" for key in sorted(ours | theirs)
             if ours[key] != theirs[key] and key[0] not in arguments.ignore]
    compared = 0
    for key in sorted(our_samples.keys() & their_samples.keys()):
        if ours[key[0]] != theirs[key[0]]:
            continue  # then no event has a sure pair
        for a, b in zip(our_samples[key], their_samples[key]):
            differences, fields = compare_fields(a, b)
            wrong += differences
            compared += fields
    if not compared:
        wrong.append("no field was compared")
    print(f"{sum(ours.values())} events of {len(ours)} classes, {sum(theirs.values())} by tracerpt; {compared} fields compared")
    return wrong


def summary(arguments):
    with open(arguments.json, encoding="utf-8-sig") as file:
        stats = json.load(file)
    with open(arguments.txt, encoding=encoding_of(arguments.txt), errors="replace") as file:
        text = file.read()
    totals = {name: int(found[1]) if (found := re.search(rf"Total Events\s+{name}\s+(\d+)", text)) else None for name in ("Processed", "Lost")}
    theirs = collections.Counter()
    for count, guid in re.findall(r"^\|\s*(\d+)\s.*?\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}?\s*\|", text, re.M):
        theirs[guid.lower()] += int(count)
    ours = collections.Counter()
    for c in stats["classes"]:
        ours[c["provider"]] += c["count"]
    wrong = [f"{guid}: {ours[guid]} events, and {theirs[guid]} by tracerpt" for guid in sorted(ours | theirs)
             if ours[guid] != theirs[guid] and guid not in arguments.ignore]
    if not theirs:
        wrong.append("the summary names no GUID")
    for name, own in (("Processed", stats["events"]), ("Lost", stats["events_lost"])):
        if totals[name] != own:
            wrong.append(f"events {name.lower()}: {own}, and {totals[name]} by tracerpt")
    print(f"{stats['events']} events of {len(ours)} GUIDs")
    return wrong


def pid_of(e):
    """The process that the event is about: by its field, or else of its header."""
    for name, value in e.fields:
        if name.lower() == "processid" and (n := number_of(plain(value) or "")) is not None:
            return n
    return e.pid


def workload(arguments):
    with open(arguments.pids, encoding="utf-8-sig") as file:
        pids = {int(line) for line in file.read().split()}
    ours, theirs = (collections.Counter(e.key[1] for e in side if e.key[0] == arguments.provider and pid_of(e) in pids)
                    for side in (of_etwagent(arguments.jsonl), of_tracerpt(arguments.xml)))
    print(f"{len(pids)} processes: {dict(sorted(ours.items()))}, by logman {dict(sorted(theirs.items()))}")
    wrong = [f"id {key}: {ours[key]} events in etwagent's session, {theirs[key]} in logman's" for key in sorted(ours | theirs) if ours[key] != theirs[key]]
    return wrong or ([] if sum(ours.values()) >= len(pids) else [f"{sum(ours.values())} events of {len(pids)} processes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ignore", action="append", default=[], type=guid_of, help="a GUID whose number of events may differ; may be repeated")
    commands = parser.add_subparsers(dest="command", required=True)
    for function, words in ((events, ("xml", "jsonl")), (summary, ("txt", "json")), (workload, ("pids", "jsonl", "xml", "provider"))):
        command = commands.add_parser(function.__name__)
        for word in words:
            command.add_argument(word, type=guid_of if word == "provider" else str)
        command.set_defaults(run=function)
    arguments = parser.parse_args()
    wrong = arguments.run(arguments)
    for line in wrong[:SHOWN]:
        print(f"DIFFERS: {line}")
    print(f"{len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
