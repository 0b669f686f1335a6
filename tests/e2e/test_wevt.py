"""Compiled manifests: `--manifest` with a PE file (exe, dll, mui) in place of the manifest that it was compiled from.

The files are made here, by a compiler of the test's own (wevt_writer.py): PE32 and PE32+, texts in the file or in the language file
beside it.

- Every event of http-server-win7, kernel-process-provider and kernel-network-provider is the same, byte for byte, as with the .man.
- Files cut anywhere and with any byte changed: read as far as it goes, with a sentence, in bounded time and memory.

# sanitizers: asan-ubsan
"""
import random

import harness
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


def damaged(env, checks):
    """Every cut of the first KiB, 250 cuts behind it, 250 files with changed bytes: one run each of `schema check`."""
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
    told = sum(any(line.startswith(f"{path}: ") for line in done.stdout.splitlines()) or str(path) in done.stderr for path in files)
    checks.equal(told, len(files), "damaged files of which something is said")
    without = env.folder / "without.dll"
    without.write_bytes(wevt_writer.build_pe([(16, 1, 0x409, b"version")]))
    done = env.run([env.agent, "stats", "--manifest", without, *traces.paths("http-server-win7", env.build)], check=False)
    checks.that(done.returncode == 3 and "no WEVT_TEMPLATE resource is in it" in done.stderr, f"{done.returncode} {done.stderr}")


def test(env, checks, arguments):
    system = traces.document("kernel-process-provider", "SystemEvents.man", env.build)
    same_events(env, checks, "http-server-win7", traces.document("http-server-win7", "HTTP_Server.man", env.build))
    same_events(env, checks, "kernel-process-provider", system, bits=32, mui="en-US")
    same_events(env, checks, "kernel-network-provider", system, bits=64, mui="en-US")
    damaged(env, checks)


if __name__ == "__main__":
    harness.main(test, __doc__)
