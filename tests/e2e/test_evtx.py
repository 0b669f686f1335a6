"""Event logs (.evtx): the XML and the fields that the agent reads equal those of a naive reader in Python; every record that the naive reader
still reads at its place in a damaged file is read; what is damaged is reported; a collector stores the events and returns the same.

# sanitizers: asan-ubsan
"""
import json
import random
import re
import struct

import harness

import evtx_writer
import naive_evtx

EMPTY = re.compile(r"<([^<>/ ]+)((?: [^<>]*)?)/>")
SYSTEM = ["EventRecordID", "Channel", "Provider_Name", "EventID", "Computer"]


def one_form(xml):
    """An element without content has two forms."""
    return EMPTY.sub(r"<\1\2></\1>", xml)


def naive(data):
    return {number: naive_evtx.xml_of(root) for _, _, number, _, root in naive_evtx.records(data)}


def readable(data, places, whole):
    """What is still in a damaged file: the records that the naive reader reads, at their places, as they were."""
    found = {}
    for offset, size, number in places:
        begin = 4096 + (offset - 4096) // evtx_writer.CHUNK * evtx_writer.CHUNK
        chunk = naive_evtx.Chunk(data[begin:begin + evtx_writer.CHUNK])
        at = offset - begin
        try:
            if (chunk.data[at:at + 4] == b"**\0\0" and chunk.dword(at + 4) == size == chunk.dword(at + size - 4)
                    and struct.unpack_from("<Q", chunk.data, at + 8)[0] == number):
                xml = naive_evtx.xml_of(chunk.root(at, size))
                if xml == whole[number]:
                    found[number] = xml
        except (naive_evtx.Bad, struct.error, IndexError, UnicodeDecodeError, RecursionError):
            pass
    return found


def dumped(env, path, *options, check=True):
    done = env.run([env.agent, "dump", *options, path], check=check)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def read_xml(env, path):
    done = env.run([env.agent, "dump", "--xml", path])
    lines = done.stdout.split("\n")
    assert lines[:2] == ['<?xml version="1.0" encoding="utf-8"?>', "<Events>"] and lines[-2:] == ["</Events>", ""], done.stdout[:200]
    return [one_form(line) for line in lines[2:-2]], done.stderr


def number_of(xml):
    found = re.search(r"<EventRecordID>(\d+)<", xml)
    return int(found.group(1)) if found else None


def fields_of(root):
    """EventData's fields by name, as text; absent ones are left out."""
    fields = {}
    for section in root[2]:
        for node in section[2] if section[0] == "EventData" else []:
            named = [value for name, value in node[1] if name == "Name"]
            name = "".join(map(naive_evtx.text_of, named[0])) if named else node[0]
            if node[2]:
                same = sum(key == name or key.startswith(name + "_") for key in fields)
                fields[f"{name}_{same + 1}" if same else name] = "".join(map(naive_evtx.text_of, node[2]))
    return fields


def as_text(value):
    if isinstance(value, dict):
        return value["value"]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(as_text, value))
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def whole(env, checks):
    events = evtx_writer.sample(900)
    data, places = evtx_writer.write(events, spare_chunks=1)
    path = env.folder / "whole.evtx"
    path.write_bytes(data)
    expected = naive(data)
    checks.equal(len(expected), 900, "the naive reader reads the generator's file")
    xml, said = read_xml(env, path)
    checks.equal(xml, list(expected.values()), "XML")
    checks.equal(said, "", "no damage")
    lines, said = dumped(env, path, "--format", "jsonl")
    checks.equal((len(lines), said), (900, ""), "events")
    for line, event, (_, _, number, time, root) in zip(lines, events, naive_evtx.records(data)):
        got = line["fields"]
        checks.equal([got[name] for name in SYSTEM], [number, event["channel"], event["provider"], event["id"], "desk-7"], f"System of {number}")
        checks.equal((line["name"], line["id"], line["level"], line["task"], line["opcode"], line["keyword"], line["pid"], line["tid"], line["clock"]),
                     (f"{event['channel']}/{event['id']}", event["id"], 4, event["task"], 1, hex(event["keywords"]), event["pid"], event["tid"], time),
                     f"header of {number}")
        checks.that(event["guid"] is None or line["provider"] == str(event["guid"]), f"provider of {number}: {line['provider']}")
        wanted = fields_of(root)
        checks.equal(sorted(set(got) - set(SYSTEM)), sorted(wanted), f"names of the fields of {number}")
        for name, text in wanted.items():
            value = as_text(got[name])
            if name in ("When", "Id", "Binary"):
                value, text = value.strip("{}").upper().rstrip("Z"), text.strip("{}").rstrip("Z")
            checks.equal(value, text, f"{name} of {number}")
    stats = json.loads(env.run([env.agent, "stats", "--json", path]).stdout)
    checks.equal((stats["events"], stats["decoded"], stats["partial"], stats["unknown"], stats["bad_bytes"]), (900, 900, 0, 0, 0), "stats")
    only, _ = dumped(env, path, "--format", "jsonl", "--class", "Security/100", "--where", "NewProcessId > 0x80000")
    checks.equal(len(only), sum(e["id"] == 100 and struct.unpack("<Q", e["data"][1][3])[0] > 0x80000 for e in events), "class and condition")
    return data, places, expected, path


def harmed(data, places, dice):
    """(what, the damaged bytes, places or None when they moved)."""
    for round_ in range(6):
        made = bytearray(data)
        for _ in range(1 + 4 * round_):
            at, count = dice.randrange(4096 + 512, len(made) - 70000), dice.choice([1, 2, 8, 300, 5000])
            made[at:at + count] = dice.randbytes(len(made[at:at + count]))
        yield f"bytes overwritten, {round_}", bytes(made), places
    made = bytearray(data)
    made[:4096] = bytes(4096)
    yield "no file header", bytes(made), places
    made = bytearray(data)
    made[4096 + 65536:4096 + 65536 + 512] = dice.randbytes(512)
    yield "no chunk header", bytes(made), places
    made = bytearray(data)
    struct.pack_into("<I", made, 4096 + 48, 700)
    yield "a chunk's length is wrong", bytes(made), places
    cut = places[len(places) // 2][0] + 50
    yield "cut", data[:cut], places
    at = 4096 + 65536
    yield "bytes inserted between chunks", data[:at] + dice.randbytes(777) + data[at:], None
    last = max(place for place, _, _ in places if place < at)
    yield "bytes missing at a chunk's end", data[:last + 40] + data[at:], None


def damage(env, checks, data, places, expected):
    dice, path = random.Random(7), env.folder / "damaged.evtx"
    for what, made, where in harmed(data, places, dice):
        path.write_bytes(made)
        wanted = readable(made, where, expected) if where else expected
        xml, said = read_xml(env, path)
        got = {number_of(line): line for line in xml}
        lost = [number for number, text in wanted.items() if got.get(number) != text]
        checks.that(where is not None or len(lost) <= 1, f"{what}: {len(lost)} records are lost, one at the most was harmed")
        checks.that(where is None or not lost, f"{what}: {len(lost)} of {len(wanted)} intact records are not read: {lost[:5]}")
        checks.that(said or what == "no file header", f"{what}: nothing is reported")
        lines, said = dumped(env, path, "--format", "jsonl")
        numbers = {line["fields"]["EventRecordID"] for line in lines}
        checks.that(set(wanted) - set(lost) <= numbers, f"{what}: dump lacks {sorted(set(wanted) - numbers)[:5]}")
        strict = env.run([env.agent, "dump", "--strict", path], check=False)
        checks.equal(strict.returncode, 0 if what == "no file header" else 3, f"{what}: --strict: {strict.stderr[:200]}")
    stale = bytearray(evtx_writer.write(evtx_writer.sample(200, seed=9))[0][4096:4096 + 65536])
    short, _ = evtx_writer.write(evtx_writer.sample(20), stale=bytes(stale))
    path.write_bytes(short)
    xml, said = read_xml(env, path)
    checks.equal((len(xml), said), (20, ""), "remnants after a chunk's end are no records")


def wrong_questions(env, checks, path):
    trace = env.folder / "no.etl"
    trace.write_bytes(b"ElfFile" + bytes(10))
    for arguments, code in ((["dump", "--xml", trace], 3), (["dump", trace], 3), (["dump", "--xml", "--where", "pid = 1", path], 2),
                            *((["dump", "--xml", *words, path], 2) for words in (["--class", "Security/100"], ["--id", "100"], ["--pid", "4"],
                                                                                 ["--from", "start+1s"], ["--fields", "Id"], ["--format", "csv"])),
                            (["dump", "--follow", path], 1)):
        done = env.run([env.agent, *arguments], check=False)
        checks.equal((done.returncode, bool(done.stderr)), (code, True), f"{arguments[:2]}: {done.stderr[:200]}")


def stored(env, checks, path):
    env.make_certificates()
    collector = harness.Collector(env).start()
    env.replay([path], collector)
    for options in (["--format", "jsonl"], ["--format", "raw"], ["--format", "text", "--class", "security/*"]):
        own = env.run([env.agent, "dump", *options, path]).stdout
        checks.that(own == collector.ask("export", "--host", "test-machine", *options), f"export {options} differs from dump")
    rows = collector.ask("query", "--format", "csv", "SELECT count(*) AS n FROM events WHERE name = 'Security/100'").split()
    own = env.run([env.agent, "dump", "--class", "Security/100", path]).stdout.count("\n")
    checks.equal(rows[-1], str(own), "SQL")
    collector.stop()


def test(env, checks, arguments):
    data, places, expected, path = whole(env, checks)
    damage(env, checks, data, places, expected)
    wrong_questions(env, checks, path)
    stored(env, checks, path)


if __name__ == "__main__":
    harness.main(test, __doc__)
