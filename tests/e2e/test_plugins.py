"""Decoders as plug-ins: `--plugins` with the example of tests/plugins, and with every way in which a plug-in can misbehave.

- The example's classes are known, with fields, names and messages, and the example causes no line in the log.
- The values of its decode function are the fields of its events, in `dump`, `stats` and, without the plug-in, in a collector's SQL and
  export; the payload is kept bit for bit. An event that the function cannot decode is kept raw and counted, and no other event is.
- A plug-in with a wrong version, a class that exists already (in our tables, in another plug-in), a crash when it is loaded or queried, a
  hang, output, a refusal, wrong fields, or a file that is no library: one line each, the plug-in is not used, and the program continues with
  the other plug-ins.
- The same holds for a decode function that, in its trial, crashes on an empty payload,
  does not end, puts too many or too few values, reads outside the
  payload, writes into it, or remembers. One that misbehaves later costs its event's decoding alone.
- A file that others may change is not loaded: its owner or mode, or those of its folder or of a parent folder, are not trusted, or it is a
  link. The loaded file is the file that was checked, also when another file takes its name meanwhile.

# sanitizers: asan-ubsan
"""
import json
import os
import random
import re
import shutil
import struct
import uuid

import harness
import test_single_records
import traces

PROVIDER = "7f0d5c1e-3a44-4b8e-9d15-0c2f6a7b8c9d"

SAYS = {1: "plug-in version 3, this program takes version 2", 2: "belongs to this program's own tables", 3: "belongs to another plug-in",
        4: r"it crashed \(signal or exception \d+\)", 5: "it did not answer within 5000 ms", 6: "plug-ins must not print",
        7: "it does not want to run", 8: "class 'Other/Three': a field takes its count or length from one", 9: "it decodes no class",
        10: r"it crashed \(signal or exception \d+\)", 11: "class 'Other/Four': provider is no GUID",
        12: r"it crashed \(signal or exception \d+\)", 13: "it did not answer within 5000 ms", 14: "'Other/Five': .*puts more than the class",
        15: "'Other/Five': .*puts fewer values than", 17: "'Other/Five': .*other values for the same payload",
        18: "'Other/Five': .*writes into the payload", 19: "'Other/Five': .*other values for the same payload"}
ACCEPTED = (16, 20)  # 16 puts values without end for some payloads, which are not decoded; 20 fails for a payload that the trial lacks


def folder(env, name, modules):
    path = env.folder / name
    path.mkdir()
    for module, target in modules.items():
        shutil.copy(env.build / "tests" / "plugins" / f"{module}.so", path / target)
    return path


def example(env, checks):
    plugins = folder(env, "good", {"plugin_example": "example.so"})
    (plugins / "README").write_text("no plug-in")
    done = env.run([env.agent, "schema", "show", "example-plugin-provider", "--json", "--plugins", plugins])
    checks.equal(done.stderr, "", "standard error for a good plug-in")
    provider, = json.loads(done.stdout)
    names = [(e["name"], e["id"], e["version"]) for e in provider["events"]]
    checks.equal(names, [("Painter/Start", 1, 0), ("Painter/Start", 1, 1), ("Painter/Draw", 2, 0), ("Painter/Stroke", 3, 0)], "classes of the example")
    start = provider["events"][0]
    checks.equal([(f["name"], f["type"], f["semantic"], f.get("values")) for f in start["fields"]],
                 [("ProcessId", "U32", "PID", None), ("Colour", "U8", "", {"0x1": "red", "0x2": "green"}), ("Name", "UTF16Z", "", None)], "fields")
    checks.equal(start["message"], "%3 of process %1 paints in %2", "message")
    draw = provider["events"][2]["fields"]
    checks.equal([(f["name"], f["type"], f["count"]) for f in draw], [("Count", "U16", 1), ("Points", "STRUCT", "Count"), ("X", "I32", 1), ("Y", "I32", 1)],
                 "a struct as often as another field says")
    checks.that("can be used" in env.run([env.agent, "plugin", "probe", plugins / "example.so"]).stdout, "plugin probe of the example")
    checks.that("example.so: it can be used" in env.run([env.agent, "plugin", "probe", "example.so"], cwd=plugins).stdout, "plugin probe in its own folder")
    missing = env.run([env.agent, "plugin", "probe", "libc.so.6"], cwd=plugins, check=False)
    checks.that(missing.returncode and "./libc.so.6: cannot open shared object file" in missing.stdout, f"a name of the library path alone: {missing}")


def number(value):
    low = bytes()
    while value > 0x7f:
        low, value = low + bytes([value & 0x7f | 0x80]), value >> 7
    return low + bytes([value])


def stroke(width, colour, steps):
    return bytes([width | colour << 4]) + b"".join(number(x) + number(y) for x, y in steps)


def event(provider, code, payload, clock):
    """An EVENT64 record."""
    body = struct.pack("<BBHHIIq", 19, 0xc0, 0x40, 0, 8, 4, clock) + uuid.UUID(provider).bytes_le + \
        struct.pack("<HBBBBHQII", code, 0, 0, 4, 0, 0, 1, 0, 0) + bytes(16) + payload
    return struct.pack("<H", 2 + len(body)) + body


def wanted(width, colour, steps, payload):
    points, x, y = [], 0, 0
    for right, down in steps:
        x, y = x + right, y + down
        points.append({"X": x, "Y": y})
    names = {1: "red", 2: "green"}
    return {"Width": width, "Colour": {"value": colour, "name": names.get(colour)}, "Count": len(points), "Points": points, "RawPayload": payload.hex()}


def decoding(env, checks):
    """Strokes, some of them cut: `dump`, `stats`, a collector without the plug-in."""
    dice, records, expected = random.Random(7), [], []
    for i in range(300):
        width, colour = dice.randrange(16), dice.randrange(4)
        steps = [(dice.choice((3, 200, 70000)), dice.randrange(300)) for _ in range(dice.randrange(40) + (i % 3 > 0))]
        payload = stroke(width, colour, steps)
        fields = wanted(width, colour, steps, payload)
        if i % 10 == 9:
            payload = payload + b"\x80"  # a number without its end
            fields = {"_tail": payload.hex()}
        records.append(event(PROVIDER, 3, payload, 10 + i))
        expected.append((payload.hex(), fields))
    trace = env.folder / "strokes.etl"
    trace.write_bytes(test_single_records.trace(records))
    plugins = folder(env, "decoding", {"plugin_example": "example.so"})

    def strokes(text):
        return [e for e in map(json.loads, text.splitlines()) if e["provider"] == PROVIDER]
    dumped = strokes(env.run([env.agent, "dump", "--format", "raw", "--plugins", plugins, trace]).stdout)
    checks.equal([(e["payload"], e["fields"]) for e in dumped], expected, "values of a decode function, and payloads")
    checks.equal({e["name"] for e in dumped}, {"Painter/Stroke"}, "names")
    first = dumped[0]["fields"]
    checks.equal(dumped[0]["message"], f"{first['Count']} points in {first['Colour']['name'] or first['Colour']['value']}", "message")
    plain = strokes(env.run([env.agent, "dump", "--format", "raw", trace]).stdout)
    checks.equal([e["payload"] for e in plain], [p for p, _ in expected], "payloads without the plug-in")
    stats = json.loads(env.run([env.agent, "stats", "--json", "--plugins", plugins, trace]).stdout)
    rows = {(c["decoded"], c["unknown"]) for c in stats["classes"] if c["name"] == "Painter/Stroke"}
    checks.that(rows in ({(270, 30)}, {(270, 0), (0, 30)}), f"stats: {rows}")

    env.make_certificates()
    collector = env.new_collector()
    collector.start()
    env.replay([trace], collector, extra=["--plugins", plugins])
    collector.stop()
    exported = strokes(env.run([env.collector, "export", "--store", collector.store, "--host", "test-machine", "--format", "raw"]).stdout)
    checks.equal([(e["payload"], e["fields"]) for e in exported], expected, "export by a collector that has no plug-in")

    rows = collector.ask("query", "--format", "jsonl", "SELECT Width, Colour_name, Count, hex(payload) AS payload FROM \"Painter/Stroke\" WHERE Width IS NOT NULL ORDER BY time")
    checks.equal([(r["Width"], r["Colour_name"], r["Count"], r["payload"].lower()) for r in map(json.loads, rows.splitlines())],
                 [(f["Width"], f["Colour"]["name"], f["Count"], p) for p, f in expected if "Width" in f], "SQL")
    counted = json.loads(env.run([env.collector, "ledger", "--store", collector.store, "--json"]).stdout)
    counted = {c["name"]: c["value"] for c in counted["streams"][0]["counters"] if not c["family"]}
    checks.equal({name: counted[name] for name in ("decode_unknown", "decode_unread")}, {"decode_unknown": 30, "decode_unread": 30}, "counted")

    trace.write_bytes(test_single_records.trace([event("00000000-0000-0000-0000-000000000002", 5, p, 10 + i)
                                                 for i, p in enumerate((b"abcd", b"l??r", b"1234567", b"x", b""))]))
    for n, unread in zip(ACCEPTED, ("1234567", "l??r")):
        plugins = folder(env, f"accepted-{n}", {f"plugin_misbehaving_{n}": "one.so"})
        done = env.run([env.agent, "dump", "--format", "raw", "--plugins", plugins, trace])
        got = [e for e in map(json.loads, done.stdout.splitlines()) if e["name"] == "Other/Five"]
        checks.equal([(bytes.fromhex(e["payload"]).decode(), "One" in e["fields"]) for e in got],
                     [(p, p != unread) for p in ("abcd", "l??r", "1234567", "x", "")], f"plug-in {n} costs one event's decoding")


def misbehaving(env, checks):
    modules = {"plugin_example": "a-example.so", **{f"plugin_misbehaving_{n}": f"b{n:02}.so" for n in SAYS}}
    plugins = folder(env, "bad", modules)
    (plugins / "c-text.so").write_text("this is no library")
    name = "amsi-eventslost"
    plain = env.run([env.agent, "dump", *traces.paths(name, env.build)])
    done = env.run([env.agent, "dump", "--plugins", plugins, *traces.paths(name, env.build)])
    lines = done.stderr.splitlines()
    checks.that(done.stdout == plain.stdout and done.stdout, "the program goes on")
    for number, says in SAYS.items():
        said = [line for line in lines if f"b{number:02}.so is left out: " in line]
        checks.that(len(said) == 1 and re.search(says, said[0]), f"plug-in {number}: {said}; expected {says}")
    checks.that(any("c-text.so is left out: it is no library that can be loaded" in line for line in lines), f"a text: {lines}")
    checks.equal(len(lines), len(SAYS) + 1, "lines in all")
    listed = json.loads(env.run([env.agent, "schema", "show", "Example-Plugin-Provider", "--json", "--plugins", folder(env, "two", {
        "plugin_example": "a.so", "plugin_misbehaving_3": "b.so"})]).stdout)
    checks.equal([len(p["events"]) for p in listed], [4], "the other plug-in took nothing")
    done = env.run([env.agent, "dump", "--plugins", env.folder / "nowhere", *traces.paths(name, env.build)], check=False)
    checks.that(done.returncode == 1 and "nowhere" in done.stderr, f"a folder that is not there: {done.returncode} {done.stderr}")


def untrusted(env, checks):
    """Each reason alone; then the same folder is trusted again, and the plug-in is loaded."""
    above = env.folder / "above"
    above.mkdir()
    plugins = above / "plugins"
    plugins.mkdir()
    file = plugins / "example.so"
    shutil.copy(env.build / "tests" / "plugins" / "plugin_example.so", file)
    real = env.folder / "elsewhere.so"
    shutil.copy(file, real)

    def said():
        done = env.run([env.agent, "schema", "show", "Example-Plugin-Provider", "--json", "--plugins", plugins], check=False)
        return done.stderr, done.stdout

    def refused(what, says):
        stderr, stdout = said()
        checks.that(stderr.startswith(f"etwagent: plug-in example.so is left out: {says}") or f"plug-in example.so is left out: {says}" in stderr, f"{what}: expected '{says}': {stderr}")
        checks.that("Painter" not in stdout, f"{what}: its classes are used: {stdout[:300]}")

    def used(what):
        stderr, stdout = said()
        checks.that("Painter/Start" in stdout and not stderr, f"{what}: {stderr}")
    modes = {path: path.stat().st_mode & 0o7777 for path in (file, plugins, above)}
    for path in (file, plugins, above):
        for bit in (0o020, 0o002):
            path.chmod(modes[path] | bit)
            slash = "" if path == file else "/"
            refused(f"{path.name} with mode {modes[path] | bit:o}", f"others may write to {path.resolve()}{slash}: its mode is {modes[path] | bit:o} (chmod go-w)")
            path.chmod(modes[path])
    above.chmod(0o1777)  # a sticky folder above, as /tmp: others cannot rename what is ours
    used("below a sticky folder")
    above.chmod(modes[above])
    plugins.chmod(0o1777)  # but not the folder itself, into which others could put plug-ins
    refused("in a sticky folder", f"others may write to {plugins.resolve()}/: its mode is 1777")
    plugins.chmod(modes[plugins])
    if os.geteuid() == 0:
        for path in (file, plugins, above):
            os.chown(path, 65534, -1)
            refused(f"{path.name} of another user", f"{path.resolve()}{'' if path == file else '/'} belongs to user 65534; expected root or user 0")
            os.chown(path, 0, -1)
    file.unlink()
    file.symlink_to(real)
    refused("a link", f"{file.parent.resolve()}/example.so is a symbolic link")
    file.unlink()
    shutil.copy(real, file)
    used("trusted again")
    (env.folder / "by-link").symlink_to(plugins)  # a folder may be named by a link: what counts is where it is
    checks.that("Painter/Start" in env.run([env.agent, "schema", "show", "Example-Plugin-Provider", "--json", "--plugins", env.folder / "by-link"]).stdout,
                "a folder that is named by a link")


def test(env, checks, arguments):
    example(env, checks)
    untrusted(env, checks)
    decoding(env, checks)
    misbehaving(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
