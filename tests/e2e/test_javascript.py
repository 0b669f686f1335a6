"""JavaScript functions in profiles. Engines of JavaScript log the code that they make at run time: Microsoft-JScript (Internet Explorer, the old
Edge) by its manifest, V8 (Chromium, Edge, Node.js) with the same ids, as TraceLogging events of the provider V8.js. The test encodes such events
itself, and samples of that code, and folds them a second time: which function an address was in at a time. `etwcollector profile` and `where`
give the same names: the function, its script's address, line and column. Among the events: functions that were there before the session, that
are unloaded, replaced and overlapped (V8 does not log when code ends), of scripts that are logged later; numbers of scripts that another context
uses too; the tiers of V8's compilers; names that are too long; records that are wrong or cut.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 12: Code of JavaScript is named by function, script, line and column, in V8 and in Microsoft's old engine. | events
#   that the test encodes, folded a second time by it | 2026-11-27
import collections
import json
import random
import struct
import uuid

import harness
import kernel_records as kernel
import profile_formats
import test_profile
import test_single_records as single

JSCRIPT = uuid.UUID("57277741-3638-4A4B-BDBA-0AC6E45DA56C")
METHOD_DC_START, METHOD_DC_END, METHOD_LOAD, METHOD_UNLOAD, SOURCE_DC_START, SOURCE_LOAD = 5, 6, 9, 10, 39, 41
UNICODE, U16, U32, U64, HEX32, HEX64 = 1, 6, 8, 10, 20, 21  # TlgIn
UNKNOWN = 0xFFFFFFFF
FIRST = 1000  # the clock of the first record
NODE, EXPLORER, OLD = 3000, 4000, 5000
NAME_MAX, URL_MAX = 512, 512
TIERS = ("~", "^", "+", "*", "*'", "")


def wide(text):
    return text.encode("utf-16-le") + b"\0\0"


def record(pid, code, payload, clock, pointer=8, items=b""):
    body = struct.pack("<BBHHIIq", 19 if pointer == 8 else 18, 0xC0, (0x40 if pointer == 8 else 0x20) | bool(items), 0, pid + 1, pid, clock) + \
        JSCRIPT.bytes_le + struct.pack("<HBBBBHQII", code, 0, 11 if items else 0, 4, 10, 1, 1, 0, 0) + bytes(16) + items + payload
    return struct.pack("<H", 2 + len(body)) + body


def items(event, fields, provider="V8.js"):
    """Extended items: the event's metadata and the provider's traits."""
    text = b"\0" + event.encode() + b"\0" + b"".join(name.encode() + b"\0" + bytes((kind,)) for name, kind in fields)
    parts = []
    for kind, data in ((11, struct.pack("<H", 2 + len(text)) + text), (12, struct.pack("<H", 2 + len(provider) + 1) + provider.encode() + b"\0")):
        parts.append((kind, data))
    out = b""
    for i, (kind, data) in enumerate(parts):
        padded = data + bytes(-len(data) % 8)
        out += struct.pack("<HHHH", 8 + len(padded), kind, i + 1 < len(parts), len(data)) + padded
    return out


METHOD_FIELDS = [("ScriptContextID", HEX64), ("MethodStartAddress", HEX64), ("MethodSize", U64), ("MethodID", U32), ("MethodFlags", U16),
                 ("MethodAddressRangeID", U16), ("SourceID", U64), ("Line", U32), ("Column", U32), ("MethodName", UNICODE)]
SOURCE_FIELDS = [("SourceID", U64), ("ScriptContextID", HEX64), ("SourceFlags", U32), ("Url", UNICODE)]


def method_payload(context, start, size, source, line, column, name, pointer=8):
    p = "Q" if pointer == 8 else "I"
    return struct.pack(f"<{p}{p}QIHHQII", context, start, size, 0, 0, 0, source, line, column) + wide(name)


def source_payload(source, context, url, pointer=8):
    return struct.pack("<Q" + ("Q" if pointer == 8 else "I") + "I", source, context, 0) + wide(url)


class World:
    """Records in the order of their clock, and the functions that they load: the second fold."""

    def __init__(self):
        self.records, self.clock, self.functions = [], FIRST, []
        self.urls = {}  # (pid, context, source) -> url, at the end of the trace
        self.want = collections.Counter()

    def add(self, made):
        self.records += made if isinstance(made, list) else [made]
        self.clock += 10

    def script(self, pid, context, source, url, v8, code=SOURCE_LOAD, pointer=8):
        self.add(record(pid, code, source_payload(source, context, url, pointer), self.clock, pointer, items("SourceLoad", SOURCE_FIELDS) if v8 else b""))
        self.urls[pid, context, source] = url

    def function(self, pid, context, start, size, source, line, column, logged, v8, called, code=METHOD_LOAD, pointer=8):
        """called: the name without the script's place."""
        self.add(record(pid, code, method_payload(context, start, size, source, line, column, logged, pointer), self.clock, pointer,
                        items("MethodLoad", METHOD_FIELDS) if v8 else b""))
        clock = self.clock - 10
        before = next((f for f in reversed(self.functions) if (f["pid"], f["start"]) == (pid, start)), None)
        if before and before["end"] is None:
            if code not in (METHOD_LOAD, METHOD_UNLOAD):
                return
            before["end"] = clock
        if code == METHOD_UNLOAD and before:
            return
        known = self.urls.get((pid, context, source)) if source else None
        self.functions.append({"pid": pid, "start": start, "size": size, "begin": clock if code == METHOD_LOAD else before["end"] if before else None,
                               "end": clock if code == METHOD_UNLOAD else None, "called": called, "url": known, "key": (pid, context, source),
                               "line": line, "column": column})

    def name(self, f):
        url = f["url"] if f["url"] is not None else self.urls.get(f["key"])
        text = f["called"]
        if not url:
            return text
        data = url.encode()
        if len(data) > URL_MAX:
            url = data[:URL_MAX].decode(errors="ignore") + "..."
        text += f" {url}"
        if f["line"] not in (0, UNKNOWN):
            text += f":{f['line']}" + (f":{f['column']}" if f["column"] not in (0, UNKNOWN) else "")
        return text

    def at(self, pid, address, clock):
        found = [f for f in self.functions if f["pid"] == pid and f["start"] <= address < f["start"] + f["size"] and
                 (f["begin"] is None or f["begin"] <= clock) and (f["end"] is None or clock < f["end"])]
        return max(found, key=lambda f: -1 if f["begin"] is None else f["begin"], default=None)

    def sample(self, pid, address, outer):
        self.add(kernel.sample(pid, pid + 1, (address, outer), self.clock))


def start_processes(world):
    for pid, program, home in ((NODE, "node.exe", 0x7FF600000000), (EXPLORER, "iexplore.exe", 0x7FF650000000), (OLD, "wscript.exe", 0x400000)):
        world.add(kernel.process(pid, program, world.clock))
        world.add(kernel.thread(pid, pid + 1, world.clock))
        world.add(kernel.image(pid, home, 0x10000, program, world.clock))


def work(world, dice, rounds):
    """A random life: scripts, functions and samples of three processes."""
    state = {}
    for pid, v8, pointer, base in ((NODE, True, 8, 0x1A000000000), (EXPLORER, False, 8, 0x2B000000000), (OLD, False, 4, 0x06000000)):
        state[pid] = {"v8": v8, "pointer": pointer, "base": base, "live": [], "sources": [], "contexts": [0x1000 * (k + 1) for k in range(3)]}
        s = state[pid]
        if not v8:  # there before the session
            world.script(pid, s["contexts"][0], 900, "https://old.example/early.js", v8, SOURCE_DC_START, pointer)
            world.function(pid, s["contexts"][0], base, 0x80, 900, 1, 1, "early", v8, "early", METHOD_DC_START, pointer)
            s["live"].append((base, 0x80))
    for n in range(rounds):
        pid = dice.choice(list(state))
        s, kind = state[pid], dice.randrange(10)
        if kind == 0 or not s["sources"]:
            source, context = dice.randrange(1, 9), dice.choice(s["contexts"])
            s["sources"].append((source, context))
            if dice.randrange(5):
                world.script(pid, context, source, dice.choice((f"file:///C:/srv/app{n}.js", f"https://shop.example/bundle-{n}.js?v={n}", f"internal/größe{n}")),
                             s["v8"], pointer=s["pointer"])
        elif kind < 4:
            source, context = dice.choice(s["sources"])
            start, size = s["base"] + 0x40 * dice.randrange(600), 0x20 * dice.randrange(1, 9)
            name, line, column = dice.choice(("add", "Cart.total", "", "größe")), dice.choice((0, 1, 12, UNKNOWN)), dice.choice((0, 7, 3021))
            url = world.urls.get((pid, context, source))
            logged = f"JS:{dice.choice(TIERS)}{name}" + (f" {url}:{line}:{column}" if url else "") if s["v8"] else name
            world.function(pid, context, start, size, source, line, column, logged, s["v8"], name or "(anonymous)", pointer=s["pointer"])
            s["live"].append((start, size))
        elif kind == 4 and s["live"] and not s["v8"]:
            start, size = s["live"].pop(dice.randrange(len(s["live"])))
            world.function(pid, s["contexts"][0], start, size, 900, 1, 1, "gone", False, "gone", METHOD_UNLOAD, s["pointer"])
        elif s["live"]:
            start, size = dice.choice(s["live"])
            world.sample(pid, start + dice.randrange(size), {NODE: 0x7FF600000100, EXPLORER: 0x7FF650000100, OLD: 0x400100}[pid])


def special(world):
    """Names that the random life does not have; each is sampled at its own address."""
    base, context, outer = 0x1C000000000, 0x9000, 0x7FF600000100
    world.script(NODE, context, 1, "https://x.example/a;b.js", True)
    world.script(NODE, context, 2, "data:text/javascript," + "x" * 2000, True)
    world.script(NODE, context, 3, "", True)
    cases = [("Builtin:ArrayMap", 0, "Builtin:ArrayMap"), ("RegExp:a b", 0, "RegExp:a b"), ("Script:~ https://x.example/a;b.js:1:1", 1, "(program)"),
             ("Eval:* https://x.example/a;b.js:2:1", 1, "(eval)"), ("LazyCompile:*get value https://x.example/a;b.js:3:9", 1, "get value"),
             ("JS:^f data:text/javascript," + "x" * 2000 + ":4:9", 2, "f"), ("JS:~g", 3, "g"), ("", 1, "(anonymous)"),
             ("Function:~" + "n" * 3000, 3, "n" * NAME_MAX + "...")]
    for k, (logged, source, called) in enumerate(cases):
        world.function(NODE, context, base + 0x1000 * k, 0x100, source, k + 1, 9, logged, True, called)
        world.sample(NODE, base + 0x1000 * k + 0x10, outer)
    # each isolate of V8 logs the engine's own code anew
    for n in range(300):
        world.function(NODE, context, base + 0x22000, 0x100, 0, 0, 0, "Builtin:ArrayFilter", True, "Builtin:ArrayFilter")
        if n % 100 == 0:
            world.sample(NODE, base + 0x22010, outer)
    world.function(NODE, context, base + 0x20000, 0x100, 77, 5, 2, "JS:*late https://late.example/l.js:5:2", True, "late")
    world.script(NODE, context, 77, "https://late.example/l.js", True)
    world.sample(NODE, base + 0x20010, outer)
    world.function(NODE, context, base + 0x21000, 0x100, 78, 6, 2, "JS:* https://lost.example/l.js:6:2", True, "(anonymous) https://lost.example/l.js:6:2")
    world.sample(NODE, base + 0x21010, outer)


def hostile(world):
    """Records that name nothing: none is a function, and none harms."""
    start = 0x1D000000000
    meta = items("MethodLoad", METHOD_FIELDS)
    for payload in (method_payload(1, start, 0, 1, 1, 1, "no size"), method_payload(1, start, (1 << 64) - 1, 1, 1, 1, "around the end"),
                    method_payload(1, (1 << 64) - 8, 64, 1, 1, 1, "past the end"), method_payload(1, start, 64, 1, 1, 1, "cut")[:30], b"", b"\xff" * 9):
        world.add(record(NODE, METHOD_LOAD, payload, world.clock, 8, meta))
        world.add(record(EXPLORER, METHOD_LOAD, payload, world.clock))
    wrong = items("MethodLoad", [("MethodStartAddress", UNICODE), ("MethodSize", UNICODE), ("MethodName", U32), ("SourceID", UNICODE)])
    world.add(record(NODE, METHOD_LOAD, wide("abcdefghijklmnop") + wide("b") + struct.pack("<I", 7) + wide(""), world.clock, 8, wrong))
    world.add(record(NODE, SOURCE_LOAD, b"", world.clock, 8, items("SourceLoad", SOURCE_FIELDS)))
    world.add(record(NODE, SOURCE_LOAD, source_payload(0, 1, "no number"), world.clock, 8, items("SourceLoad", SOURCE_FIELDS)))
    world.add(record(NODE, SOURCE_LOAD, source_payload(5, 1, "cut")[:-3], world.clock, 8, items("SourceLoad", [])))


def check_decoded(env, checks, path):
    got = collections.Counter()
    for line in env.run([env.agent, "dump", "--format", "jsonl", path]).stdout.splitlines():
        event = json.loads(line)
        if event["provider"] == str(JSCRIPT):
            got[event["provider_name"], event["name"]] += 1
            checks.that("_tail" not in event["fields"] or event["clock"] >= 1 << 40, f"decoded in part: {event}")
    for name in (("V8.js", "MethodLoad"), ("V8.js", "SourceLoad"), ("Microsoft-JScript", "MethodRuntime/MethodLoad"),
                 ("Microsoft-JScript", "MethodRuntime/MethodUnload"), ("Microsoft-JScript", "ScriptContextRundown/SourceDCStart"),
                 ("Microsoft-JScript", "MethodRundown/MethodDCStart"), ("Microsoft-JScript", "ScriptContextRuntime/SourceLoad")):
        checks.that(got[name] > 0, f"no event {name}: {got}")


def want_of(world):
    """What each sample's stack is called, the outermost first."""
    programs = {NODE: "node.exe", EXPLORER: "iexplore.exe", OLD: "wscript.exe"}
    want, named = collections.Counter(), 0
    for pid, address, clock in world.samples:
        f = world.at(pid, address, clock)
        named += f is not None
        label = f"[JIT]!{world.name(f)}".replace(";", ":") if f else f"{address:#x}"
        want[programs[pid], f"{programs[pid]}+0x100", label] += 1
    return want, named


def check_repeated(env, checks, collector, asked):
    """A rundown that names one script more often than scripts are kept: it takes the place of one."""
    path, again = env.folder / "repeated.etl", record(EXPLORER, SOURCE_DC_START, source_payload(1, 1, "https://x.example/a.js"), FIRST)
    path.write_bytes(single.trace([kernel.process(EXPLORER, "iexplore.exe", FIRST - 10), kernel.thread(EXPLORER, EXPLORER + 1, FIRST - 9), *[again] * 270_000,
                                   record(EXPLORER, SOURCE_LOAD, source_payload(2, 1, "https://x.example/b.js"), FIRST + 1),
                                   record(EXPLORER, METHOD_LOAD, method_payload(1, 0x1000, 16, 2, 3, 4, "last"), FIRST + 2),
                                   *kernel.sample(EXPLORER, EXPLORER + 1, (0x1008, 0x2008), FIRST + 5000)]))
    env.replay([path], collector, agent="repeated", spool=env.folder / "repeated")
    checks.equal(profile_formats.folded(asked.text("--host", "repeated", "--weight", "samples", "--format", "folded")),
                 {("iexplore.exe", "0x2008", "[JIT]!last https://x.example/b.js:3:4"): 1}, "a function after 270,000 times the same script")


def test(env, checks, arguments):
    dice, world = random.Random(22), World()
    world.samples = []
    sample = world.sample

    def noted(pid, address, outer):
        world.samples.append((pid, address, world.clock))
        sample(pid, address, outer)

    world.sample = noted
    start_processes(world)
    work(world, dice, 20000 if arguments.soak else 4000)
    special(world)
    path = env.folder / "javascript.etl"
    path.write_bytes(single.trace(world.records))
    check_decoded(env, checks, path)
    hostile(world)
    world.sample(NODE, 0x1D000000010, 0x7FF600000100)
    path.write_bytes(single.trace(world.records))
    env.make_certificates(("js", "forms", "repeated"))
    collector = env.new_collector().start()
    env.replay([path], collector, agent="js")
    asked = test_profile.Asked(env, collector.store)
    want, named = want_of(world)
    got = profile_formats.folded(asked.text("--host", "js", "--weight", "samples", "--format", "folded"))
    checks.that(named > 1000 and len({w[2] for w in want}) > 100, f"{named} samples of {len(want)} stacks")
    for stack in sorted(set(want) | set(got), key=str):
        checks.equal(got[stack], want[stack], f"samples of {stack}")
    asked_for = 0
    for f in [f for f in world.functions if f["end"] is None][::max(1, len(world.functions) // 12)]:
        address = f["start"] + f["size"] // 2
        now = world.at(f["pid"], address, world.clock)
        done = json.loads(env.run([env.collector, "where", "--store", collector.store, "--host", "js", "--json", "--at", "end", "--pid", f["pid"], hex(address)]).stdout)
        checks.equal((done["name"], int(done["offset"], 16)), (world.name(now), address - now["start"]), f"where {f['pid']} {address:#x}")
        asked_for += 1
    notes = asked.json("--host", "js", "--weight", "samples")["notes"]
    checks.that("2 methods or scripts, whose events are cut or which are more than a profile can name" in notes, f"notes: {notes!r}")
    if arguments.soak:
        check_repeated(env, checks, collector, asked)
    # one event in very many forms, as no engine logs it: none hides what others say
    forms = [record(NODE, METHOD_LOAD, method_payload(1, 0x1000 * (n + 1), 16, 0, 1, 1, f"f{n}"), FIRST + n, 8, items("MethodLoad", METHOD_FIELDS, f"V8-{n}"))
             for n in range(1500)]
    path.write_bytes(single.trace([kernel.process(NODE, "node.exe", FIRST - 10), kernel.thread(NODE, NODE + 1, FIRST - 9), *forms,
                                   *kernel.sample(NODE, NODE + 1, (0x1008, 0x5DC008), FIRST + 5000)]))
    env.replay([path], collector, agent="forms", spool=env.folder / "forms")
    checks.equal(profile_formats.folded(asked.text("--host", "forms", "--weight", "samples", "--format", "folded")),
                 {("node.exe", "[JIT]!f1499", "[JIT]!f0"): 1}, "functions of 1,500 forms of one event")
    checks.equal(profile_formats.folded(asked.text("--host", "js", "--weight", "samples", "--format", "folded")), got, "the other machine's profile")
    print(f"{len(world.functions)} functions, {named} of {len(world.samples)} samples in them, {asked_for} addresses looked up")


if __name__ == "__main__":
    harness.main(test, __doc__)
