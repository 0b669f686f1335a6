"""Compiled manifests: `--manifest` with a PE file (exe, dll, mui) in place of the manifest that it was compiled from.

The files are made here, by a compiler of the test's own (wevt_writer.py): PE32 and PE32+, texts in the file or in the language file
beside it.

- Every event of http-server-win7, kernel-process-provider and kernel-network-provider is the same, byte for byte, as with the .man.
- A manifest of every kind of field, count, map, keyword, level, channel: `schema show` prints the same of the DLL, of the .man, and of
  the cache file that `schema compile` makes of either.
- Texts of other languages: of manifests, of message tables, of language files (--language).
- A cache file is made again to the same bytes, decodes the same, and is refused when a bit of it is not right.
- `run` with a folder of schemas in its configuration: the collector, which has none of them, prints what dump prints.
- Files cut anywhere and with any byte changed: read as far as it goes, with a sentence, in bounded time and memory.

# sanitizers: asan-ubsan
"""
import json
import random

import harness
import test_manifest
import test_run
import traces
import wevt_writer

EVERYTHING = """<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="Every-Thing" guid="{11111111-2222-3333-4444-555555555555}" symbol="P" message="$(string.provider)">
   <channels><importChannel name="System" chid="SYS"/><channel name="Every-Thing/Debug" chid="DBG" type="Debug"/></channels>
   <levels><level name="Loud" value="16" message="$(string.loud)"/></levels>
   <tasks><task name="Work" value="3" message="$(string.work)"><opcodes><opcode name="Halt" value="20"/></opcodes></task>
    <task name="Play" value="4"/></tasks>
   <opcodes><opcode name="Jump" value="30" message="$(string.jump)"/></opcodes>
   <keywords><keyword name="Red" mask="0x1" message="$(string.red)"/><keyword name="Blue" mask="0x2"/></keywords>
   <maps><valueMap name="Colours"><map value="1" message="$(string.red)"/><map value="2" message="$(string.blue)"/></valueMap>
    <bitMap name="Sides"><map value="0x1" message="$(string.left)"/><map value="0x8" message="$(string.right)"/></bitMap></maps>
   <templates>
    <template tid="types">
     <data name="UnicodeString" inType="win:UnicodeString"/><data name="AnsiString" inType="win:AnsiString"/>
     <data name="Int8" inType="win:Int8"/><data name="UInt8" inType="win:UInt8"/><data name="Int16" inType="win:Int16"/>
     <data name="UInt16" inType="win:UInt16"/><data name="Int32" inType="win:Int32"/><data name="UInt32" inType="win:UInt32"/>
     <data name="Int64" inType="win:Int64"/><data name="UInt64" inType="win:UInt64"/><data name="Float" inType="win:Float"/>
     <data name="Double" inType="win:Double"/><data name="Boolean" inType="win:Boolean"/>
     <data name="Guid" inType="win:GUID"/><data name="Pointer" inType="win:Pointer"/><data name="FILETIME" inType="win:FILETIME"/>
     <data name="SYSTEMTIME" inType="win:SYSTEMTIME"/><data name="SID" inType="win:SID"/><data name="HexInt32" inType="win:HexInt32"/>
     <data name="HexInt64" inType="win:HexInt64"/>
     <data name="Pid" inType="win:UInt32" outType="win:PID"/><data name="Port" inType="win:UInt16" outType="win:Port"/>
     <data name="IPv4" inType="win:UInt32" outType="win:IPv4"/><data name="IPv6" inType="win:Binary" outType="win:IPv6" length="16"/>
     <data name="Status" inType="win:UInt32" outType="win:NTSTATUS"/><data name="Error" inType="win:UInt32" outType="win:Win32Error"/>
     <data name="Json" inType="win:AnsiString" outType="win:Json"/>
     <data name="Colour" inType="win:UInt32" map="Colours"/><data name="Side" inType="win:UInt8" map="Sides"/>
    </template>
    <template tid="counts">
     <data name="Size" inType="win:UInt16"/><data name="Blob" inType="win:Binary" length="Size"/>
     <data name="Fixed" inType="win:UnicodeString" length="4"/><data name="Three" inType="win:UInt16" count="3"/>
     <data name="Number" inType="win:UInt8"/><data name="Many" inType="win:UInt64" count="Number"/>
     <struct name="Pair" count="Number"><data name="Key" inType="win:UnicodeString"/><data name="Value" inType="win:UInt32" map="Colours"/></struct>
     <struct name="Two" count="2"><data name="Bytes" inType="win:UInt8"/><data name="Content" inType="win:Binary" length="Bytes"/></struct>
     <data name="Rest" inType="win:AnsiString" count="2"/>
    </template>
   </templates>
   <events>
    <event value="1" template="types" task="Work" opcode="win:Start" level="win:Error" keywords="Red" channel="SYS" message="$(string.m1)"/>
    <event value="2" version="1" template="counts" task="Work" opcode="Halt" level="Loud" keywords="Blue Red" channel="DBG"/>
    <event value="2" version="2" template="counts" task="Play" opcode="Jump" level="win:Verbose"/>
    <event value="65535" task="Play" message="$(string.m2)"/>
   </events>
  </provider>
 </events></instrumentation>
 <localization>%s</localization>
</instrumentationManifest>"""
TEXTS = {"provider": "One of everything", "loud": "Very loud", "work": "Working", "jump": "Jumped", "red": "Red colour", "blue": "Blue", "left": "Left",
         "right": "Right", "m1": "%1 did %6 of %%: %28!s! %n and %29.", "m2": "Nothing."}
GERMAN = {"provider": "Von allem eines", "loud": "Sehr laut", "work": "Arbeit", "jump": "Gesprungen", "red": "Rot", "blue": "Blau", "left": "Links",
          "right": "Rechts", "m1": "%1 tat %6 von %%: %28!s! %n und %29 \u00fcberall.", "m2": "Nichts."}


def manifest(**languages):
    """EVERYTHING with the texts of those languages, in that order: en_US=TEXTS."""
    tables = "".join(f'<resources culture="{name.replace("_", "-")}"><stringTable>'
                     + "".join(f'<string id="{key}" value="{text}"/>' for key, text in texts.items())
                     + "</stringTable></resources>" for name, texts in languages.items())
    return (EVERYTHING % tables).encode()


def same_events(env, checks, name, source, **how):
    """dump with the .man and with a DLL that was made of it."""
    path = wevt_writer.write(source.read_bytes(), env.folder / f"{name}.dll", **how)
    checked = env.run([env.agent, "schema", "check", path]).stdout
    checks.that(checked.endswith(", 0 mistakes\n") and not checked.startswith(f"{path}: 0 "), f"{path}: {checked}")
    printed = [env.run([env.agent, "dump", "--format", "raw", "--manifest", given, *traces.paths(name, env.build)]).stdout for given in (source, path)]
    checks.that(printed[0] == printed[1] and len(printed[0]) > 10**6, f"{name}: the same events with {path.name}")


def shown(env, given, *options):
    """schema show of EVERYTHING, without where it is from and the names that only a manifest has."""
    printed = json.loads(env.run([env.agent, "schema", "show", "every-thing", "--json", "--manifest", given, *options]).stdout)
    found = [p for p in printed if p["layer"] == "file"]
    for provider in found:
        provider.pop("source")
        for event in provider["events"]:
            event.pop("source")
    return found


def everything(env, checks):
    man = env.folder / "everything.man"
    man.write_bytes(manifest(en_US=TEXTS, de_DE=GERMAN))
    expected = shown(env, man)
    checks.equal([(e["name"], e["version"]) for e in expected[0]["events"]], [("Work/Start", 0), ("Work/Halt", 1), ("Play/Jump", 2), ("Play", 0)],
                 "events of the manifest")
    types = {f["name"]: f for f in expected[0]["events"][0]["fields"]}
    checks.equal((len(types), types["Colour"]["values"], types["Side"]["flags"]),
                 (29, {"0x1": "Red colour", "0x2": "Blue"}, {"0x1": "Left", "0x8": "Right"}), "fields and maps of the manifest")
    german = shown(env, man, "--language", "de-DE")
    checks.that(german != expected and german[0]["events"][0]["message"] == GERMAN["m1"] and german[0]["keywords"] == expected[0]["keywords"],
                f"texts in German: {german[0]['events'][0]}")
    checks.equal(shown(env, man, "--language", "de-AT"), german, "texts of another country of that language")
    checks.equal(shown(env, man, "--language", "fr-FR"), expected, "texts of a language that there is not")
    for bits in (32, 64):
        inside = wevt_writer.write(man.read_bytes(), env.folder / f"inside{bits}.dll", bits)
        checks.equal(shown(env, inside), expected, f"{inside.name} says what the manifest says")
    beside = wevt_writer.write(man.read_bytes(), env.folder / "beside.dll", mui="en-US")
    wevt_writer.write(man.read_bytes(), env.folder / "beside.dll", mui="de-DE", language="de-DE")
    checks.equal((shown(env, beside), shown(env, beside, "--language", "de-DE")), (expected, german), "language files beside the DLL")
    checks.equal(shown(env, beside, "--language", "fr-FR"), expected, "a language file that there is not")
    compiler, other = wevt_writer.Compiler(man.read_bytes()), wevt_writer.Compiler(man.read_bytes(), "de-DE")
    both = env.folder / "both.dll"
    crim, _ = compiler.compile(), other.compile()
    both.write_bytes(wevt_writer.build_pe([("WEVT_TEMPLATE", 1, 0x409, crim), (11, 1, 0x407, wevt_writer.message_table(other.messages)),
                                           (11, 1, 0x409, wevt_writer.message_table(compiler.messages))]))
    checks.equal((shown(env, both), shown(env, both, "--language", "de-DE")), (expected, german), "message tables of two languages in one file")
    mui_only = env.folder / "empty.dll"
    mui_only.write_bytes(wevt_writer.build_pe([(16, 1, 0x409, b"version")]))
    (env.folder / "en-US" / "empty.dll.mui").write_bytes(inside.read_bytes())
    checks.equal(shown(env, mui_only), expected, "the language file has it all")
    cache(env, checks, [man, inside], expected)


def cache(env, checks, sources, expected):
    made = []
    for i, source in enumerate([*sources, sources[0]]):
        made.append(env.folder / f"cache{i}")
        env.run([env.agent, "schema", "compile", source, "-o", made[-1]])
        checks.equal(shown(env, made[-1]), expected, f"a cache file of {source.name}")
    checks.that(made[0].read_bytes() == made[2].read_bytes(), "the same files make the same cache file")
    again = env.folder / "again"
    env.run([env.agent, "schema", "compile", made[0], "-o", again])
    checks.that(again.read_bytes() == made[0].read_bytes(), "a cache file of a cache file")
    whole, trace = made[0].read_bytes(), traces.paths("amsi-eventslost", env.build)
    wrong = env.folder / "wrong"
    for what, data in [("is damaged", whole[:-1]), ("is damaged", whole + b"x"), ("expected a schema cache", whole[:20]),
                       ("of version 2", whole[:8] + b"\2" + whole[9:]), *(("is damaged", whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
                                                                          for at in (12, 16, 24, 32, 40, len(whole) // 2, len(whole) - 1))]:
        wrong.write_bytes(data)
        done = env.run([env.agent, "stats", "--manifest", wrong, *trace], check=False)
        checks.that(done.returncode in (1, 3) and what in done.stderr and str(wrong) in done.stderr, f"{what}: {done.returncode} {done.stderr}")


def large_cache(env, checks, source):
    """One of 450 events."""
    path = env.folder / "system.cache"
    env.run([env.agent, "schema", "compile", source, "-o", path])
    name = "kernel-process-provider"
    printed = [env.run([env.agent, "dump", "--format", "raw", "--manifest", given, *traces.paths(name, env.build)]).stdout for given in (source, path)]
    checks.that(printed[0] == printed[1], f"{name}: the same events with a cache file")


def folder_of_run(env, checks, name, source):
    """`run` with a configuration that names a folder of schemas; the collector, which has none of them, prints the same."""
    schemas = env.folder / "schemas"
    schemas.mkdir()
    (schemas / "notes.txt").write_text("not a schema")
    env.run([env.agent, "schema", "compile", wevt_writer.write(source.read_bytes(), env.folder / "http.dll"), "-o", schemas / "http.schemas"])
    paths = traces.paths(name, env.build)
    dumped = env.run([env.agent, "dump", "--format", "raw", "--manifest-folder", schemas, *paths]).stdout
    checks.that(dumped == env.run([env.agent, "dump", "--format", "raw", "--manifest", source, *paths]).stdout, "a folder of schemas")
    env.make_certificates(("http",))
    collector = env.new_collector().start()
    agent = test_run.Agent(env, collector, "http")
    agent.configure({"http": (paths, 0)}, f"batch-events: 1000\nschemas:\n  manifest-folder: {json.dumps(str(schemas))}")
    agent.start()
    agent.wait_state("http", "shipped")
    agent.stop()
    collector.stop()
    checks.that(collector.ask("export", "--host", "http", "--format", "raw") == dumped, "run with a folder of schemas: the collector prints the same")


def damaged(env, checks):
    """Files cut at every seventh byte of the first KiB, 250 files cut after it, 250 files with changed bytes: one run of `schema check` with all."""
    whole = wevt_writer.write(manifest(en_US=TEXTS), env.folder / "whole.dll").read_bytes()
    dice = random.Random(7)
    folder = env.folder / "damaged"
    folder.mkdir()
    files = []
    for i, cut in enumerate([*range(0, 1024, 7), *(dice.randrange(1024, len(whole)) for _ in range(250))]):
        files.append(folder / f"cut{i}.dll")
        files[-1].write_bytes(whole[:cut])
    for i in range(250):
        changed = bytearray(whole)
        for _ in range(dice.randrange(1, 9)):
            changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        files.append(folder / f"changed{i}.dll")
        files[-1].write_bytes(changed)
    done = env.run([env.agent, "schema", "check", *files], check=False)
    checks.equal(done.returncode, 3, "exit code of damaged files")
    reported = sum(any(line.startswith(f"{path}: ") for line in done.stdout.splitlines()) or str(path) in done.stderr for path in files)
    checks.equal(reported, len(files), "damaged files with a message")
    without = env.folder / "without.dll"
    without.write_bytes(wevt_writer.build_pe([(16, 1, 0x409, b"version")]))
    done = env.run([env.agent, "stats", "--manifest", without, *traces.paths("http-server-win7", env.build)], check=False)
    checks.that(done.returncode == 3 and "no WEVT_TEMPLATE resource is in it" in done.stderr, f"{done.returncode} {done.stderr}")


def test(env, checks, arguments):
    everything(env, checks)
    manifests = "http-server-win7/HTTP_Server.man", "kernel-process-provider/SystemEvents.man"
    if checks.real("wevt: events of three providers by DLLs and cache files made of their manifests", *manifests):
        http, system = (traces.document(manifest, env.build) for manifest in manifests)
        same_events(env, checks, "http-server-win7", http)
        same_events(env, checks, "kernel-process-provider", system, bits=32, mui="en-US")
        same_events(env, checks, "kernel-network-provider", system, bits=64, mui="en-US")
        large_cache(env, checks, system)
        folder_of_run(env, checks, "http-server-win7", http)
    else:
        folder_of_run(env, checks, "clr-32bit", test_manifest.embedded(env, "clr-32bit"))
    damaged(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
