"""`etwagent relog --redact`: none of the known strings of a trace (names of users and machines, SIDs, addresses, paths, command lines,
names of the registry) is left in the output, in UTF-8 or UTF-16 and any case; what was counted stays: events by class, profiles by sums,
stacks. The same key gives the same pseudonyms in two traces, another key others. Bytes without a known layout are zeroed or dropped.
"""
import collections
import hashlib
import json
import re
import struct
import uuid

import harness
import kernel_records as kernel
import test_relog_forms as forms
import test_single_records as single

KEPT = {name.strip() for name in """device ?? globalroot systemroot windows system32 syswow64 winsxs drivers users public default program files
 (x86) programdata appdata local locallow roaming temp registry machine user software system sam security currentcontrolset controlset001 control
 services microsoft nt currentversion classes wow6432node policies mup namedpipe fonts assembly microsoft.net framework framework64 explorer.exe
 svchost.exe ntdll.dll kernel32.dll kernelbase.dll ntoskrnl.exe hal.dll user32.dll gdi32.dll msvcrt.dll ntkrnlmp.exe""".split()}
KEPT |= {"program files", "program files (x86)", "windows nt"}
PATHS = ("FileName", "ImageFileName", "OpenPath", "PdbFileName", "OriginalFileName", "OrigFileName", "KeyName", "CommandLine", "UserSID")
WORD = re.compile(rb"(?:[\x20-\x7e]\x00){4,}|[\x20-\x7e]{4,}")


def dump(env, path):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", path]).stdout.splitlines()]


def known_strings(events):
    """What a reader of the trace learns: whole texts, and the parts of their paths."""
    found = set()
    for event in events:
        for key, value in event["fields"].items():
            if key not in PATHS or not isinstance(value, str):
                continue
            parts = [value] if key in ("CommandLine", "UserSID") else re.split(r"[\\/]", value)
            found.update(part.lower() for part in parts if len(part) >= 5 and part.lower() not in KEPT and not re.match(r"(?i)harddiskvolume\d+$", part))
    code = " ".join(str(v) for e in events for k, v in e["fields"].items() if k.startswith("Method") or e["name"] in ("ManifestData", "PerfInfo/PmcCtrConfig"))
    code = (code + " ".join({e["name"] for e in events})).lower()  # names of code and of events are not hidden
    return {text for text in found if text not in code and not any(text in name for name in KEPT) and not re.match(r"s-1-5-(18|19|20)$|s-1-16", text)}


def texts_of(path):
    """Every readable run of a file, in lower case, once, joined."""
    runs = {run.lower().replace(b"\0", b"") if run[1:2] == b"\0" else run.lower() for run in WORD.findall(path.read_bytes())}
    return b"\n".join(sorted(runs))


def redact(env, path, out, key, *words):
    return json.loads(env.run([env.agent, "relog", path, "-o", out, "--compression", "none", "--redact", "all", "--key", key, "--json", *words]).stdout)


def shape(events):
    return collections.Counter((e["name"], e["clock"], e["cpu"], e["pid"], e["tid"]) for e in events if e["name"] != "EventTrace/Header")


def sums(env, path):
    folded = env.run([env.collector, "profile", "--weight", "samples", "--format", "folded", path]).stdout.splitlines()
    counts = [int(line.rsplit(" ", 1)[1]) for line in folded]
    return sum(counts), len(counts)


MANIFEST = """<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
<provider name="Late" guid="{%s}" resourceFileName="Late" messageFileName="Late" symbol="Late"><events><event value="1" version="0" symbol="One" template="OneArgs"/></events>
<templates><template tid="OneArgs"><data name="UserName" inType="win:UnicodeString"/></template></templates></provider></events></instrumentation></instrumentationManifest>"""


def check_late_schema(env, checks, key):
    """A name that only an event has whose schema comes last in the trace is hidden in texts of other events, too, in whatever case."""
    provider, path, out = uuid.UUID("0d3a3e1c-3f0b-4f4c-9b0a-26c0ffee0026"), env.folder / "late.etl", env.folder / "late-redacted.etl"
    manifest = (MANIFEST % provider).encode()
    metadata = struct.pack("<HB", 18, 0) + b"Note\0" + b"Message\0\1"
    metadata = struct.pack("<H", len(metadata)) + metadata[2:]
    path.write_bytes(single.trace([
        forms.event(provider, 1, "Carölina\0".encode("utf-16le"), 100), single.tracelogging_record(metadata, "by CARÖLINA, at noon\0".encode("utf-16le"), 110),
        forms.event(provider, 0xFFFE, struct.pack("<BBBBHH", 1, 1, 0, 0x5B, 1, 0) + manifest, 120)]))
    before = dump(env, path)
    checks.that(any("CARÖLINA" in str(event["fields"]) for event in before), f"the trace has no such text: {before}")
    redact(env, path, out, key)
    after = [event["fields"] for event in dump(env, out)]
    checks.that(not re.search("(?i)carölina", str(after)), f"a name is left: {after}")
    message = next(fields["Message"] for fields in after if "Message" in fields)
    checks.that(re.fullmatch(r"by x[0-9a-z]+, at noon", message), f"the rest of the text: {message}")


PLANTED = re.compile(rb"q\0?(?:[0-9a-f]\0?){12}z|9\0?3\0?(?:\.\0?(?:[0-9]\0?){1,3}){3}|s\0?-\0?1\0?-\0?5\0?-\0?2\0?1\0?(?:-\0?(?:[0-9]\0?){1,10}){4}")
BINARY_SID = re.compile(b"\1\5\0\0\0\0\0\5\x15\0\0\0(.{16})", re.S)
MANY = 3000  # of each of nine kinds


def planted(path):
    """The planted strings that a file has, in UTF-8 or UTF-16 and any case, and of SIDs in their binary form."""
    data = path.read_bytes()
    return {found.replace(b"\0", b"").decode() for found in PLANTED.findall(data.lower())} | \
        {"s-1-5-21-" + "-".join(map(str, struct.unpack("<4I", found))) for found in BINARY_SID.findall(data)}


def check_many(env, checks, key):
    """27,000 known strings in paths, command lines, SIDs and free texts, many of them in several cases and forms: none is left, also in JSON lines.
    Addresses are of no network that pseudonyms are of."""
    metadata = struct.pack("<HB", 0, 0) + b"Note\0" + b"Message\0\1" + b"Narrow\0\2"
    metadata = struct.pack("<H", len(metadata)) + metadata[2:]
    known, records = set(), []
    for i in range(MANY):
        token = lambda kind: f"q{hashlib.md5(f'{kind} {i}'.encode()).hexdigest()[:12]}z"  # noqa: E731
        user, folder, file, program, word, document, page = names = [token(kind) for kind in range(7)]
        sid, address, clock = f"S-1-5-21-{7 * i + 1}-{i + 5}-{2**31 + i}-{i + 1001}", f"93.{i % 250}.{i // 250}.{i % 199 + 2}", 10 * i + 10
        known |= {*names, sid.lower(), address}
        note = f"{user.upper()} read C:\\Users\\{user}\\{document}.TXT"
        other = f"by {sid} from {address}, https://{page.title()}.example/{page}"
        records += [kernel.image(8, 0x10000 * i, 0x1000, f"Users\\{user}\\{folder.title()}\\{file}.dll", clock), kernel.process(100 + 4 * i, f"{program}.exe", clock + 1, sid=sid),
                    kernel.process(100 + 4 * i, f"{program}.exe /{word.upper()}", clock + 2, ends=True, sid=sid),
                    single.tracelogging_record(metadata, (note + "\0").encode("utf-16le") + (other + "\0").encode(), clock + 3)]
    path, out, lines = env.folder / "many.etl", env.folder / "many-redacted.etl", env.folder / "many-redacted.jsonl"
    path.write_bytes(single.trace(records))
    checks.equal((len(known), known - planted(path)), (9 * MANY, set()), "known strings, and those of them that the search does not find in the trace")
    said = redact(env, path, out, key, "-o", lines)
    checks.equal(said["written"], said["read"], "events")
    for file in (out, lines):
        left = known & planted(file)
        checks.that(not left, f"{file.name}: {len(left)} of {len(known)} known strings are left: {sorted(left)[:5]}")


def test(env, checks, arguments):
    tracegen = env.build / "tests" / "tracegen" / "tracegen"
    keys = [env.folder / "key", env.folder / "other-key"]
    for i, key in enumerate(keys):
        key.write_bytes(bytes(range(i, i + 32)))
    for preset, milliseconds in (("office", 1500), ("build-server", 300)):
        path, out = env.folder / f"{preset}.etl", env.folder / f"{preset}-redacted.etl"
        env.run([tracegen, "make", "--preset", preset, "--seed", "26", "--duration-ms", milliseconds, "--out", path])
        before = dump(env, path)
        known = known_strings(before)
        said = redact(env, path, out, keys[0])
        after = dump(env, out)
        text, original = texts_of(out), texts_of(path)
        left = sorted(s for s in known if s.encode("utf-8", "surrogateescape") in text)
        there = sum(s.encode("utf-8", "surrogateescape") in original for s in known)
        checks.that(len(known) > 50 and there > len(known) // 2, f"{preset}: {len(known)} known strings, {there} of them in the trace's bytes")
        checks.that(not left, f"{preset}: {len(left)} of {len(known)} known strings are left: {left[:5]}")
        checks.that(shape(after) == shape(before), f"{preset}: events differ in name, time, processor, process or thread")
        checks.equal(sums(env, out), sums(env, path), f"{preset}: the profile's sum and number of stacks")
        checks.that(said["redacted"]["path"] and said["redacted"]["command"], f"{preset}: {said['redacted']}")
        header = next(e["fields"] for e in after if e["name"] == "EventTrace/Header")
        checks.equal((header["SessionNameString"], header["LogFileNameString"]), ("", ""), f"{preset}: names in the header event")
        dry = json.loads(env.run([env.agent, "relog", path, "--redact", "all", "--key", keys[0], "--dry-run", "--json"]).stdout)
        checks.equal(dry["redacted"], said["redacted"], f"{preset}: --dry-run counts")
        # consistent: by name, in another trace, with another key
        names = [{(b["fields"]["ImageFileName"], a["fields"]["ImageFileName"]) for b, a in zip(before, pair) if "ImageFileName" in b["fields"]}
                 for pair in (after, dump_again(env, path, keys[0]), dump_again(env, path, keys[1]))]
        checks.that(names[0] and len(dict(names[0])) == len(names[0]), f"{preset}: a name has several pseudonyms: {sorted(names[0])[:4]}")
        checks.equal(names[1], names[0], f"{preset}: the same key in another run")
        changed = [b for b, a in names[0] if a != b]
        checks.that(changed and all(dict(names[2])[b] != dict(names[0])[b] for b in changed), f"{preset}: another key")
    check_late_schema(env, checks, keys[0])
    check_many(env, checks, keys[0])
    check_usage(env, checks, path, keys[0])


def dump_again(env, path, key):
    out = env.folder / "again.etl"
    redact(env, path, out, key)
    return dump(env, out)


def check_usage(env, checks, path, key):
    out, short = env.folder / "none.etl", env.folder / "short"
    short.write_bytes(b"123")
    for words, code in ((["--redact", "all"], 2), (["--redact", "names", "--key", key], 2), (["--redact", "path", "--key", env.folder / "absent"], 1),
                        (["--key", key], 2), (["--dry-run"], 2), (["--redact", "path", "--key", short], 1)):
        done = env.run([env.agent, "relog", path, "-o", out, *words], check=False)
        checks.equal((done.returncode, out.exists()), (code, False), f"{words}: exit code, an output; {done.stderr}")
    checks.equal(env.run([env.agent, "relog", path], check=False).returncode, 2, "no output named")


if __name__ == "__main__":
    harness.main(test, __doc__)
