"""Every event of .NET's providers (runtime, rundown, stress log, private) up to .NET 10, in each version, has a class with its name and
fields. tests/golden/dotnet-events.tsv has them as facts: of the manifest of .NET Framework 4.5 (perfview's ClrEtwAll.man) and of .NET 10's
(dotnet/runtime, src/coreclr/vm/ClrEtwAll.man), with the paddings and counts that real records have and no manifest can express
(dotnet-differences.tsv). Notation of a field: `name:TYPE`, `name[count]:TYPE`, `name[count]{members}`; `/8`: with 64-bit pointers only.

- Each line is compared with `schema --json`, for both pointer sizes. A class beyond the facts fails, too.
- Each line is written as a record by an encoder in this file, with values of its own, and `dump` returns these values.
- With the manifest of .NET Framework at hand, each of its events is a line here.
- Real traces hold no .NET event that has no class.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Records 8: Each event of .NET's providers up to .NET 10, in each version, has its name, fields and types. | 450 events and versions, 32 and
#   64 bit, encoded and decoded again | 2026-11-27
import csv
import json
import random
import struct
import uuid

import harness
import test_dotnet
import test_single_records as single
import traces

FACTS = traces.pathlib.Path(__file__).resolve().parents[1] / "golden" / "dotnet-events.tsv"
KINDS = {"U8": {"U8", "HEX8"}, "U16": {"U16", "HEX16"}, "U32": {"U32", "HEX32"}, "U64": {"U64", "HEX64"}, "I32": {"I32", "HEX32"}, "POINTER": {"POINTER", "SIZE"}}
FORMS = {"U8": "<B", "U16": "<H", "U32": "<I", "I32": "<i", "U64": "<Q", "I64": "<q", "F64": "<d", "BOOL32": "<I"}
TEXTS = ("", "a", "System.String", "größer 日本", "C:\\Program Files\\dotnet\\x.dll")


def parse(text, at=0):
    """[(name, count or None, type or list of members, wide only)], and where the list ended."""
    fields = []
    while at < len(text) and text[at] != "}":
        if text[at] == " ":
            at += 1
            continue
        end = min(i for i in (text.find(c, at) for c in ":[{/") if i >= 0)
        name, count, wide = text[at:end], None, False
        if text[end] == "[":
            close = text.index("]", end)
            count, end = text[end + 1:close], close + 1
        if text[end:end + 2] == "/8":
            wide, end = True, end + 2
        if text[end] == "{":
            members, at = parse(text, end + 1)
            fields.append((name, count, members, wide))
            at += 1
        else:
            at = next((i for i in range(end, len(text)) if text[i] in " }"), len(text))
            fields.append((name, count, text[end + 1:at], wide))
    return fields, at


def facts():
    with open(FACTS, encoding="utf-8", newline="") as lines:
        for r in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield (r["provider"], int(r["id"]), int(r["version"])), r["name"], parse("" if r["fields"] == "-" else r["fields"])[0]


def compare(where, theirs, ours, size, checks):
    theirs = [f for f in theirs if size == 8 or not f[3]]
    if not checks.equal([f["name"] for f in ours], [f[0] for f in theirs], f"{where}: fields"):
        return
    for (name, count, kind, _), o in zip(theirs, ours):
        if isinstance(kind, list):
            checks.equal(o["type"], "STRUCT", f"{where}: {name}")
            compare(f"{where}: {name}", kind, o["fields"], size, checks)
        else:
            checks.that(o["type"] in KINDS.get(kind, {kind}), f"{where}: {name}: {o['type']} for {kind}")
        checks.equal(str(o.get("count_field") or o["count"]), count or "1", f"{where}: elements of {name}")


# ---- the encoder ----

def value(kind, size, dice):
    """(a value as `dump --raw` prints it, hexadecimal as a number, its bytes)"""
    if kind in ("UTF16Z", "ANSIZ"):
        text = dice.choice(TEXTS[:3] if kind == "ANSIZ" else TEXTS)
        return text, text.encode("ascii" if kind == "ANSIZ" else "utf-16-le") + bytes(1 if kind == "ANSIZ" else 2)
    if kind == "GUID":
        guid = uuid.UUID(int=dice.getrandbits(128))
        return str(guid), guid.bytes_le
    if kind == "F64":
        number = dice.randrange(1 << 20) / 64
        return number, struct.pack("<d", number)
    if kind == "BOOL32":
        number = dice.randrange(2)
        return bool(number), struct.pack("<I", number)
    form = FORMS.get(kind) or ("<Q" if size == 8 else "<I")
    raw = dice.getrandbits(8 * struct.calcsize(form)).to_bytes(struct.calcsize(form), "little")
    return struct.unpack(form, raw)[0], raw


def encode(fields, size, dice):
    counts = {f[1] for f in fields if f[1] and not f[1].isdigit()}
    values, payload = {}, b""
    for name, count, kind, wide in fields:
        if wide and size == 4:
            continue
        if name in counts:
            values[name] = dice.randrange(5)
            payload += struct.pack(FORMS[kind], values[name])
        elif kind == "BYTES":
            raw = dice.randbytes(values[count] if count in values else int(count))
            values[name], payload = raw.hex(), payload + raw
        elif count:
            items = []
            for _ in range(values[count] if count in values else int(count)):
                item, raw = encode(kind, size, dice) if isinstance(kind, list) else value(kind, size, dice)
                items.append(item)
                payload += raw
            values[name] = items
        else:
            values[name], raw = value(kind, size, dice)
            payload += raw
    return values, payload


def record(key, size, payload, clock):
    body = struct.pack("<BBHHIIq", 19 if size == 8 else 18, 0xC0, 0x40 if size == 8 else 0x20, 0, 8, 4, clock) + uuid.UUID(key[0]).bytes_le + \
        struct.pack("<HBBBBHQII", key[1], key[2], 0, 4, 0, 1, 1, 0, 0) + bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body


def unsigned(printed, expected):
    """Ours without names; numbers that are printed in hexadecimal, with the sign of theirs."""
    if isinstance(expected, dict):
        return {k: unsigned(printed[k], v) if k in printed else None for k, v in expected.items()} if isinstance(printed, dict) and set(printed) == set(expected) else printed
    if isinstance(expected, list):
        return [unsigned(p, e) for p, e in zip(printed, expected)] if isinstance(printed, list) and len(printed) == len(expected) else printed
    got = test_dotnet.plain(printed) if not isinstance(expected, str) else printed
    return got - (1 << 32) if isinstance(got, int) and isinstance(expected, int) and expected < 0 <= got else got


def check_records(env, checks, lines, size):
    dice = random.Random(10 + size)
    wanted, records = [], []
    for n in range(3):
        for key, name, fields in lines:
            if not size == 8 and any(f[3] for f in fields):
                continue  # the layout with 32-bit pointers is unknown
            values, payload = encode(fields, size, dice)
            wanted.append((key, name, values))
            records.append(record(key, size, payload, 1000 + len(records)))
    path = env.folder / f"dotnet-{size}.etl"
    path.write_bytes(single.trace(records))
    got = [json.loads(line) for line in env.run([env.agent, "dump", "--raw", "--format", "jsonl", path]).stdout.splitlines()]
    got = [e for e in got if e["clock"] >= 1000]
    checks.equal(len(got), len(wanted), f"{size * 8} bit: records")
    for event, (key, name, values) in zip(got, wanted):
        where = f"{size * 8} bit: {name} {key[1]} version {key[2]}"
        checks.equal((event["provider"], event["id"], event["version"], event["name"]), (*key, name), where)
        checks.equal({k: unsigned(event["fields"].get(k), v) for k, v in values.items()}, values, where)
        checks.equal(sorted(event["fields"]), sorted(values), f"{where}: fields and no rest")
    print(f"{size * 8} bit: {len(wanted)} records of {len(lines)} events and versions, each value agrees")


def test(env, checks, arguments):
    lines = list(facts())
    known = {key for key, _, _ in lines}
    for size in (4, 8):
        printed = json.loads(env.run([env.agent, "schema", "--json", "--pointer-size", size]).stdout)
        providers = {key[0] for key in known}
        ours = {(c["provider"], c["id"], c["version"]): c for c in printed if not c["classic"] and c["provider"] in providers}
        checks.equal(sorted(set(ours) - known), [], f"{size * 8} bit: classes that no manifest has")
        for key, name, fields in lines:
            where = f"{size * 8} bit: {name} {key[1]} version {key[2]} of {key[0]}"
            if checks.that(key in ours and ours[key]["known"], f"{where}: no class"):
                checks.equal(ours[key]["name"], name, f"{where}: name")
                compare(where, fields, test_dotnet.nest(ours[key]["fields"]), size, checks)
        check_records(env, checks, lines, size)
    if checks.real("dotnet events: each event of the .NET Framework's manifest is a fact", "ClrEtwAll.man"):
        manifest = test_dotnet.Manifest(traces.document("ClrEtwAll.man", env.build))
        checks.equal(sorted(set(manifest.events) - known), [], "events of the manifest without a fact")
    for trace in traces.names():
        for c in json.loads(env.run([env.agent, "stats", "--json", *traces.paths(trace, env.build)]).stdout)["classes"]:
            if not c["classic"] and c["provider"] in {key[0] for key in known}:
                checks.equal(c["unknown"], 0, f"{trace}: {c['name']} {c['id']} version {c['version']}: no class")


if __name__ == "__main__":
    harness.main(test, __doc__)
