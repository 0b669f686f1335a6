"""`etwagent relog --events` and `--mark`: events of a list, and marks, are in the output as TraceLogging events, which a decoder written from the format's
description reads; a choice of events keeps them, a cut those of its time; they are redacted and changed as others. A wrong line is named.
"""
import hashlib
import json
import uuid

import harness
import naive_etl
import test_trace_schemas as schemas

SECOND = 10_000_000  # ticks


def raw(env, path):
    return [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", path]).stdout.splitlines()]


def added(env, path, providers):
    """Events of these providers as the decoder of the tests reads them: (provider's name, event, header, fields)."""
    found = []
    for event in raw(env, path):
        if uuid.UUID(event["provider"]) not in providers:
            continue
        items = {item["type"]: bytes.fromhex(item["data"]) for item in event["extended"]}
        read = schemas.TraceLogging(items[11], bytes.fromhex(event["payload"]))
        name = items[12][2:].split(b"\0")[0].decode() if 12 in items else ""
        if 12 in items and int.from_bytes(items[12][:2], "little") != len(items[12]):
            raise harness.Failure(f"traits of another size: {items[12]}")
        found.append((name, read.name, {key: event[key] for key in ("clock", "pid", "tid", "cpu", "level", "opcode", "keyword")}, dict(read.fields), read.data))
    return found


def guid_of(name):
    """RFC 4122 version 5 over the name, as EventSource makes it."""
    digest = bytearray(hashlib.sha1(uuid.UUID("482c2db2-c390-47c8-87f8-1a15bfc130fb").bytes + name.upper().encode("utf-16be")).digest()[:16])
    digest[7] = digest[7] & 0x0F | 0x50
    return uuid.UUID(bytes_le=bytes(digest))


def relog(env, path, out, *words):
    return json.loads(env.run([env.agent, "relog", path, "-o", out, "--json", *words]).stdout)


def check_list(env, checks, path):
    out, listed = env.folder / "out.etl", env.folder / "events.jsonl"
    own, named = uuid.UUID("0d3a3e1c-3f0b-4f4c-9b0a-26c0ffee0026"), "Contoso-Build"
    begin = next(event["clock"] for event in raw(env, path))
    values = {"text": "größe \u2603 \"quoted\" \\ tab\t", "empty": "", "small": -5, "least": -(1 << 63), "most": (1 << 64) - 1, "half": 0.5, "large": 1e300,
              "yes": True, "no": False}
    lines = [{"time": begin + 5 * SECOND // 100, "provider": str(own), "name": "Ticks", "cpu": 1},
             {"time": "start+20ms", "provider": named, "name": "Step größe", "pid": 4711, "tid": 12, "level": 2, "opcode": 1, "keyword": "0x8000000000000001",
              "fields": values},
             {"time": "start+10ms", "provider": "{%s}" % own, "name": "Early", "fields": {"n": 1, "m": 2}}]
    listed.write_text("\ufeff" + "\r\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    said = relog(env, path, out, "--events", listed, "--mark", "start+15ms=build = begun", "--mark", f"{begin}=first")
    checks.equal((said["events_added"], said["added"], said["written"]), (5, 5, said["read"] + 5), "the summary")
    providers = {own, guid_of(named), guid_of("Etwagent-Marks")}
    none = {"pid": 0xFFFFFFFF, "tid": 0xFFFFFFFF, "cpu": 0, "level": 4, "opcode": 0, "keyword": "0x0"}
    at = [event[2]["clock"] - begin for event in added(env, out, providers)]
    checks.that(at[0] == 0 and all(abs(t - want * SECOND // 1000) < SECOND // 1000 for t, want in zip(at, (0, 10, 15, 20, 50))), f"times: {at}")
    got = [(provider, name, {k: v for k, v in header.items() if k != "clock"}, fields, left) for provider, name, header, fields, left in added(env, out, providers)]
    wanted = [("Etwagent-Marks", "Mark", none, {"Text": "first"}, b""), ("", "Early", none, {"n": 1, "m": 2}, b""),
              ("Etwagent-Marks", "Mark", none, {"Text": "build = begun"}, b""),
              (named, "Step größe", {"pid": 4711, "tid": 12, "cpu": 0, "level": 2, "opcode": 1, "keyword": "0x8000000000000001"}, values, b""),
              ("", "Ticks", {**none, "cpu": 1}, {}, b"")]
    for mine, want in zip(got, wanted):
        checks.equal(mine, want, f"event {want[1]}")
    checks.equal(len(got), len(wanted), "events")
    naive = naive_etl.parse(out)
    checks.equal((naive["warnings"], naive["events"]), ([], said["written"] + 1), "a naive reader")
    # choices keep them, times do not; each part has those of its time
    for words, names in ((["--where", "pid == 0xfffffff0"], ["Mark", "Early", "Mark", "Step größe", "Ticks"]), (["--from", "start+12ms", "--to", "start+30ms"], ["Mark", "Step größe"]),
                         (["--bare", "--cpu", "1"], ["Mark", "Early", "Mark", "Step größe", "Ticks"])):
        said = relog(env, path, out, "--events", listed, "--mark", "start+15ms=build", "--mark", f"{begin}=first", *words)
        checks.equal(([event[1] for event in added(env, out, providers)], said["events_added"]), (names, len(names)), f"{words}: events")
        checks.equal(said["written"], said["read"] - said["dropped"] + said["added"], f"{words}: the summary")
    said = relog(env, path, out, "--bare", "--split", "30ms", "--events", listed)
    parts = [[event[1] for event in added(env, part["output"], providers)] for part in said["parts"]]
    checks.equal((parts[:2], said["events_added"]), ([["Early", "Step größe"], ["Ticks"]], 3), "parts")
    # added events are changed and redacted as events that were read
    key = env.folder / "key"
    key.write_bytes(b"k" * 32)
    relog(env, path, out, "--mark", "start=open C:\\Users\\carolina\\plan.doc", "--redact", "all", "--key", key)
    text = added(env, out, providers)[0][3]["Text"]
    checks.that(text.startswith("open C:\\Users\\x") and "carolina" not in text and "plan" not in text, f"a redacted mark: {text}")
    # a name that occurs only in what is added is hidden everywhere
    listed.write_text(json.dumps({"time": "start+40ms", "provider": "Contoso-Build", "name": "By", "fields": {"UserName": "zebulon"}}), encoding="utf-8")
    modules = env.folder / "modules.tsv"
    modules.write_text("pid\tbase\tsize\tpath\n4\t0x10000000\t4096\t\\Device\\HarddiskVolume3\\Users\\Wilhelmina\\plug.dll\n", encoding="utf-8")
    words = ("--mark", "start=for Zebulon and wilhelmina", "--events", listed, "--modules", modules)
    said = relog(env, path, out, *words, "--redact", "user", "--key", key)
    lines = env.run([env.agent, "dump", "--format", "jsonl", out]).stdout
    checks.equal((said["events_added"], said["injected"]), (2, 1), "what was added to a redacted trace")
    checks.that("plug.dll" in lines and "zebulon" not in lines.lower() and "wilhelmina" not in lines.lower(), "names of what was added are left")


def check_wrong(env, checks, path):
    out, listed = env.folder / "none.etl", env.folder / "wrong.jsonl"
    good = {"time": "start", "provider": "A", "name": "B"}

    def line(**more):
        return json.dumps({**good, **more})
    for text, reason in (("[]", "expected an object"), ("{}", "expected time, provider and name"), (line() + "x", "nothing after the object"),
                         (line(color=1), "no key is called color"), (line(pid=1 << 32), "no such number can be pid"), (line(pid="5\0"), "no such number can be pid"),
                         (line(time="soon"), "expected ticks of the trace"), (line(time=1 << 63), "no such number can be time"), (line(time="0" * 300), "1 to 256 bytes"),
                         (line(fields=[1]), "expected an object of fields"), (line(fields={"a": None}), "expected a text, a number, true or false, not null"),
                         (line(fields={"a": {}}), "expected a text, a number, true or false for the field a"), (line(fields={"a": -(1 << 63) - 1}), "no 64 bits hold the number"),
                         (line(fields={"a": 1 << 64}), "no 64 bits hold the number 18446744073709551616"), (line(fields={"": 1}), "a field without a name"),
                         (line(fields={"a": "x\0y"}), "a NUL in the field a"), (line(fields={"a": "x" * 20000}), "more than 32 KiB"),
                         (line(fields={"n" * 9000: 1}), "more than 8 KiB"),
                         (line(fields={f"n{i}": i for i in range(129)}), "more than 128 fields"), (line(provider="p" * 257), "1 to 256 bytes for provider"),
                         (json.dumps({"fields": {}, **good}), "expected name before fields"), ('{"time":"start","name":"a","name":"b"}', "it has twice the key name"),
                         (line(fields={"a": 1}).replace("1}", "1e999}"), "expected a text, a number, true or false, not 1e999"), (line(cpu=1024), "no such number can be cpu")):
        listed.write_text(line() + "\n" + text + "\n", encoding="utf-8")
        done = env.run([env.agent, "relog", path, "-o", out, "--events", listed], check=False)
        checks.that(done.returncode in (1, 2) and "line 2: " in done.stderr and reason in done.stderr and not out.exists(), f"{text[:60]}: {done.returncode} {done.stderr}")
    for mark in ("begun", "=begun", "soon=begun"):
        done = env.run([env.agent, "relog", path, "-o", out, "--mark", mark], check=False)
        checks.that(done.returncode == 2 and "--mark " in done.stderr and not out.exists(), f"--mark {mark}: {done.returncode} {done.stderr}")


def test(env, checks, _):
    path = env.folder / "in.etl"
    env.run([env.build / "tests" / "tracegen" / "tracegen", "make", "--preset", "office", "--seed", "26", "--duration-ms", "80", "--out", path])
    check_list(env, checks, path)
    check_wrong(env, checks, path)


if __name__ == "__main__":
    harness.main(test, __doc__)
