"""`etwagent relog` with several outputs: FILE.jsonl and FILE.csv are what `dump` prints of the trace that is written, whether that is an output, too, or not;
FILE.pcapng has the packets of NDIS-PacketCapture and PktMon, by an independent reader. All outputs appear, or none.
"""
import collections
import csv
import io
import json
import struct
import uuid

import harness
import naive_etl
import naive_pcapng
import test_single_records as single

NDIS, PKTMON = uuid.UUID("2ed6006e-4729-4609-b423-3ee7bcd678ef"), uuid.UUID("4d4f80d9-c8bd-4d73-bb5b-19c90402c5ac")
BEGIN_NS = (132000000000000000 - 116444736000000000) * 100  # clock 1 of single.trace
FIRST, LAST, SENT, RECEIVED, WLAN, WWAN = 1 << 30, 1 << 31, 1 << 32, 1 << 33, 1 << 16, 1 << 9
ETHERNET, IP, DOT11 = 1, 101, 105


def event(provider, number, payload, clock, keyword=0, tid=8):
    body = struct.pack("<BBHHIIq", 19, 0xC0, 0x40, 0, tid, 4, clock) + provider.bytes_le + struct.pack("<HBBBBHQII", number, 0, 16, 4, 0, 0, keyword, 0, 0) + \
        bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body


def fragment(data, clock, keyword=FIRST | LAST, miniport=12, lower=12, **more):
    return event(NDIS, 1001, struct.pack("<III", miniport, lower, len(data)) + data + bytes(8), clock, keyword | 1, **more)


def text(*words):
    return b"".join((word + "\0").encode("utf-16le") for word in words)


def at_switch(data, clock, rest=b"\1\2\3\4"):
    destinations = struct.pack("<I", 2) + struct.pack("<I", 31) + text("p1", "n1", "t1") + struct.pack("<I", 32) + text("", "", "")
    return event(NDIS, 1003, struct.pack("<III", 5, 6, 77) + text("port", "größe-vm", "Synthetic") + destinations + struct.pack("<I", len(data)) + data +
                 struct.pack("<I", len(rest)) + rest, clock, FIRST | LAST | SENT)


def monitored(data, clock, original=0, number=160, kind=1, direction=3, component=44, edge=1, group=1 << 40, appearance=2, reason=0, size=None):
    return event(PKTMON, number, struct.pack("<QHHHHHHHIIHH", group, 3, appearance, direction, kind, component, edge, 9, reason, 0xE000451, original or len(data),
                                             len(data) if size is None else size) + data, clock)


def ipv4(length, room):
    return bytes(12) + b"\x08\0" + struct.pack(">BBH", 0x45, 0, length) + bytes(room - 18)


def packets_trace():
    """Records, and what is expected of them: (clock, interface, description, link, flags, comment, data, original length)."""
    frames = [bytes([i]) * (40 + i) for i in range(12)]
    here, other = "process 4, thread 8", "process 4, thread 9"
    seen = "packet 1099511627776.3, appearance 2, filter 9"
    parts = [frames[1][:10], frames[1][10:30], frames[1][30:]]
    decrypted = bytearray(b"\x08\x42" + frames[5])
    records = [
        fragment(frames[0], 100, FIRST | LAST | SENT), fragment(ipv4(1500, 100), 110, FIRST | LAST | RECEIVED),
        # two threads, each with a packet in parts; a packet whose end is missing; an end without its beginning
        fragment(parts[0], 120, FIRST), fragment(frames[2][:5], 121, FIRST, tid=9), fragment(parts[1], 122, 0), fragment(frames[2][5:], 123, LAST, tid=9),
        fragment(parts[2], 124, LAST), fragment(b"lost", 130, FIRST), fragment(frames[3], 131), fragment(b"", 132, 0), fragment(b"end", 133, LAST),
        fragment(frames[4], 140, miniport=3, lower=7), fragment(bytes(decrypted), 150, FIRST | LAST | WLAN | RECEIVED, miniport=9, lower=9),
        fragment(ipv4(600, 60)[14:], 160, FIRST | LAST | WWAN, miniport=10, lower=10), at_switch(frames[6], 170), at_switch(frames[6], 171)[:-1] + b"",
        event(NDIS, 1001, struct.pack("<III", 12, 12, 100) + bytes(99), 180, FIRST | LAST), event(NDIS, 1001, bytes(11), 181, FIRST | LAST),
        event(NDIS, 1002, bytes(20), 182), monitored(frames[7], 200, original=1000), monitored(frames[8], 201, number=170, direction=2, reason=6),
        monitored(frames[9], 202, kind=3, component=45, direction=0), monitored(frames[9], 203, kind=5), monitored(frames[9], 204, size=200),
        event(PKTMON, 20, struct.pack("<HH", 44, 2) + text("Größer Adapter", "description"), 210), event(PKTMON, 20, struct.pack("<HH", 45, 2), 211),
        fragment(b"never ends", 220, FIRST, tid=10),
    ]
    # a record that is cut by a byte keeps its own length right
    cut = next(i for i, record in enumerate(records) if len(record) != struct.unpack_from("<H", record)[0])
    records[cut] = struct.pack("<H", len(records[cut])) + records[cut][2:]
    decrypted[1] &= 0xBF
    expected = [
        (100, "interface 12", "", ETHERNET, 2, here, frames[0], 40), (110, "interface 12", "", ETHERNET, 1, here, ipv4(1500, 100), 1514),
        (123, "interface 12", "", ETHERNET, 0, other, frames[2], 42), (124, "interface 12", "", ETHERNET, 0, here, frames[1], 41),
        (131, "interface 12", "", ETHERNET, 0, here, frames[3], 43), (140, "interface 7", "filter over interface 3", ETHERNET, 0, here, frames[4], 44),
        (150, "interface 9", "", DOT11, 1, here, bytes(decrypted), 47), (160, "interface 10", "", IP, 0, here, ipv4(600, 60)[14:], 600),
        (170, "switch 6 port 77", "größe-vm", ETHERNET, 2, here, frames[6], 46), (200, "component 44 edge 1", "Größer Adapter", ETHERNET, 1, seen, frames[7], 1000),
        (201, "component 44 edge 1", "Größer Adapter", ETHERNET, 2, seen + ", dropped for reason 6 at 0xe000451", frames[8], 48),
        (202, "component 45 edge 1", "", IP, 0, seen, frames[9], 49),
    ]
    return single.trace(records), expected, {"incomplete": 3, "unknown": 5}


def relog(env, path, *words):
    return json.loads(env.run([env.agent, "relog", path, "--json", *words]).stdout)


def check_packets(env, checks):
    path, out = env.folder / "packets.etl", env.folder / "out.pcapng"
    data, expected, counts = packets_trace()
    path.write_bytes(data)
    said = relog(env, path, "-o", out)
    section, interfaces, packets = naive_pcapng.read(out.read_bytes())
    checks.that(section[4][0].startswith(b"etwagent "), f"the writer's name: {section}")
    got = [((p.time_ns - BEGIN_NS) // 100 + 1, p.interface.name, p.interface.description, p.interface.link, p.flags, p.comment, p.data, p.original) for p in packets]
    for i, (mine, wanted) in enumerate(zip(got, expected)):
        checks.equal(mine, wanted, f"packet {i}")
    checks.equal(len(got), len(expected), "packets")
    checks.that(all(p.time_ns % 100 == 0 for p in packets) and len({(i.name, i.link) for i in interfaces}) == len(interfaces) - 1,
                f"interfaces: {interfaces}")  # captured and dropped packets of one component are two
    form = said["forms"][0]
    checks.equal({**form, "output": None}, {"output": None, "form": "pcapng", "packets": len(expected), **counts, "bytes": out.stat().st_size}, "the summary")
    checks.equal((said["output"], said["bytes"]), (None, out.stat().st_size), "a summary without a trace")
    # what a choice drops is in no form; packets of a redaction would be zeros
    relog(env, path, "-o", out, "--where", "id == 160")
    checks.equal(len(naive_pcapng.read(out.read_bytes())[2]), 2, "packets of a choice")
    key = env.folder / "key"
    key.write_bytes(b"k" * 32)
    redacted = env.folder / "redacted.pcapng"
    done = env.run([env.agent, "relog", path, "-o", env.folder / "redacted.etl", "-o", redacted, "--redact", "address", "--key", key], check=False)
    checks.that(done.returncode == 2 and "--redact zeroes packets" in done.stderr and not redacted.exists(), f"packets of a redacted trace: {done.returncode} {done.stderr}")
    text_said = env.run([env.agent, "relog", path, "-o", out]).stdout
    checks.that(f"{out}: {len(expected)} packets, 3 incomplete, 5 of no known form; " in text_said, f"the summary as text: {text_said}")


def check_bounds(env, checks):
    """More packets in parts than are held, and a packet that grows beyond all bounds."""
    path, out = env.folder / "many.etl", env.folder / "many.pcapng"
    records = [fragment(b"begin", 100 + i, FIRST, tid=i) for i in range(100)] + [fragment(b"end", 300 + i, LAST, tid=i) for i in range(100)]
    records += [fragment(bytes(32000), 500, FIRST, tid=7)] + [fragment(bytes(32000), 501 + i, 0, tid=7) for i in range(9)] + [fragment(b"end", 600, LAST, tid=7)]
    path.write_bytes(single.trace(records))
    form = relog(env, path, "-o", out)["forms"][0]
    packets = naive_pcapng.read(out.read_bytes())[2]
    checks.equal({p.data for p in packets}, {b"beginend"}, "what was written")
    checks.equal((form["packets"], len(packets)), (64, 64), "packets in parts: the youngest are held")
    checks.equal(form["incomplete"], 36 * 2 + 1, "parts of dropped ones, their ends, and the packet that is too large")


def tables(env, path):
    return {form: env.run([env.agent, "dump", "--format", form, path]).stdout for form in ("jsonl", "csv")}


def check_texts(env, checks, path):
    names = {form: env.folder / f"out.{form}" for form in ("etl", "jsonl", "csv", "pcapng")}
    for words in ([], ["--from", "start+20ms", "--to", "start+50ms"], ["--set", "Process/Start: CommandLine = \"x\"", "--shift", "2h"]):
        said = relog(env, path, *(word for name in names.values() for word in ("-o", name)), *words)
        wanted = tables(env, names["etl"])
        for form, table in wanted.items():
            checks.that(names[form].read_text(encoding="utf-8") == table, f"{words}: {form} is not what dump prints")
        checks.equal(names["csv"].read_bytes().count(b"\n"), names["csv"].read_bytes().count(b"\r\n"), f"{words}: ends of lines")
        checks.equal([(form["form"], form["bytes"]) for form in said["forms"]], [(form, names[form].stat().st_size) for form in ("jsonl", "csv", "pcapng")],
                     f"{words}: forms in the summary")
        checks.equal((said["output"], said["bytes"]), (str(names["etl"]), names["etl"].stat().st_size), f"{words}: the trace in the summary")
        # by readers that are not ours
        events = [json.loads(line) for line in names["jsonl"].read_text(encoding="utf-8").splitlines()]
        naive = naive_etl.parse(names["etl"])
        checks.equal((len(events), said["forms"][0]["events"], naive["warnings"]), (naive["events"], naive["events"] - 1, []), f"{words}: events by a naive reader")
        rows = list(csv.DictReader(io.StringIO(names["csv"].read_bytes().decode(), newline="")))
        checks.equal(collections.Counter(row["name"] for row in rows), collections.Counter(event["name"] for event in events), f"{words}: rows by name")
        checks.equal(naive_pcapng.read(names["pcapng"].read_bytes())[2], [], f"{words}: packets")
        if "--from" not in words:
            continue
        # the same without a trace, which leaves nothing
        alone = env.folder / "alone.JSONL"
        relog(env, path, "-o", alone, *words)
        checks.that(alone.read_bytes() == names["jsonl"].read_bytes(), f"{words}: without a trace")
        checks.equal(sorted(p.name for p in env.folder.iterdir() if p.name.startswith("alone")), ["alone.JSONL"], f"{words}: what is left")


def check_redacted(env, checks, path):
    """Names of files that only the end of a trace has are those of the redacted trace."""
    out, trace, key = env.folder / "redacted.jsonl", env.folder / "redacted.etl", env.folder / "key"
    key.write_bytes(b"k" * 32)
    import test_relog_redact as redacting  # which needs records of this file
    known = redacting.known_strings(redacting.dump(env, path))
    relog(env, path, "-o", trace, "-o", out, "--redact", "all", "--key", key)
    lines = out.read_text(encoding="utf-8")
    checks.equal(lines, tables(env, trace)["jsonl"], "redacted lines")
    left = [text for text in known if json.dumps(text)[1:-1] in lines.lower()]
    checks.that(len(known) > 50 and len(left) < 5, f"of {len(known)} known strings these are left: {left[:5]}")  # keys of JSON, drives of Windows' files


def check_parts(env, checks, path):
    out, lines = env.folder / "part.etl", env.folder / "part.jsonl"
    said = relog(env, path, "-o", out, "-o", lines, "--split", "50ms")
    parts = [env.folder / f"part.{i + 1:03}.etl" for i in range(len(said["parts"]))]
    checks.equal([form["output"] for form in said["forms"]], [str(part.with_suffix(".jsonl")) for part in parts], "forms of the parts")
    checks.that(len(parts) > 1, "too few parts")
    for part in parts:
        checks.that(part.with_suffix(".jsonl").read_text(encoding="utf-8") == tables(env, part)["jsonl"], f"{part.name}: lines")


def check_failures(env, checks, path):
    out, blocked = env.folder / "never.etl", env.folder / "never.csv"
    blocked.mkdir()
    done = env.run([env.agent, "relog", path, "-o", out, "-o", env.folder / "never.jsonl", "-o", blocked], check=False)
    checks.that(done.returncode == 1 and "expected a file, or a name" in done.stderr, f"a folder: {done.returncode} {done.stderr}")
    checks.equal([p.name for p in env.folder.iterdir() if p.name.startswith("never")], ["never.csv"], "what a failed run leaves")
    done = env.run([env.agent, "relog", path, "-o", out, "-o", env.folder / "second.etl"], check=False)
    checks.that(done.returncode == 2 and "one trace is enough" in done.stderr, f"two traces: {done.returncode} {done.stderr}")
    done = env.run([env.agent, "relog", path, "-o", env.folder / "twice.csv", "-o", env.folder / "twice.csv"], check=False)
    checks.that(done.returncode == 1 and "another output of this one, writes it" in done.stderr, f"one output twice: {done.returncode} {done.stderr}")


def test(env, checks, _):
    path = env.folder / "in.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", "26", "--duration-ms", "80", "--out", path])
    check_packets(env, checks)
    check_bounds(env, checks)
    check_texts(env, checks, path)
    check_redacted(env, checks, path)
    check_parts(env, checks, path)
    check_failures(env, checks, path)


if __name__ == "__main__":
    harness.main(test, __doc__)
