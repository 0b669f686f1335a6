"""WPP messages: a trace of them, made here, read without and with the .tmf file that describes them; the text that each makes,
and what a mistake in the file says.
"""
import importlib.util
import json
import pathlib
import struct
import uuid

import harness

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = "2158e7d3-9867-cde3-18b5-9713c628abdf"
OTHER = "0c8b3fef-1d11-4aa1-8a37-6a1d0f5b1b33"
TMF = f"""// PDB:  driver.pdb
{SOURCE} TEEDriver // SRC=Queue.c MJ= MN=
#typev Queue_c2319 207 "%0PowerDown = %10!x!, %11!s!" //   LEVEL=TRACE_LEVEL_VERBOSE FLAGS=TRACE_QUEUE FUNC=OnStop
{{
devExt->powerDown, ItemLong -- 10
status, ItemNTSTATUS -- 11
}}
#typev Queue_c20 10 "%0%!FUNC!: opened %10!s!" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=TRACE_QUEUE FUNC=OnOpen
{{
name, ItemPWString -- 10
}}
"""


def etl():
    spec = importlib.util.spec_from_file_location("single", HERE / "test_single_records.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message(guid, number, sequence, clock, payload):
    """A message with sequence number, GUID, time and thread, of a 64-bit machine."""
    options = 0x01 | 0x02 | 0x10 | 0x20 | 0x80
    body = struct.pack("<I", sequence) + uuid.UUID(guid).bytes_le + struct.pack("<qII", clock, 77, 4) + payload
    return struct.pack("<HBBHH", 8 + len(body), 15, 0x90, number, options) + body


def test(env, checks, arguments):
    writer = etl()
    name = "Überlauf".encode("utf-16-le")
    records = [message(SOURCE, 207, 1, 100, struct.pack("<iI", 31, 0xC0000022)),
               message(SOURCE, 10, 2, 101, struct.pack("<H", len(name)) + name),
               message(SOURCE, 11, 3, 102, b"of no known message"),
               message(OTHER, 10, 4, 103, b"\1\2\3"),
               message(SOURCE, 207, 5, 104, struct.pack("<i", 31))]  # cut
    trace, tmf, broken = env.folder / "wpp.etl", env.folder / "driver.tmf", env.folder / "broken.tmf"
    trace.write_bytes(writer.trace(records))
    tmf.write_text(TMF)
    broken.write_text(TMF + "#typev Queue_c21 99999 \"x\" //\n")

    def dump(*options):
        lines = env.run([env.agent, "dump", "--format", "jsonl", *options, trace]).stdout.splitlines()
        return [e for e in map(json.loads, lines) if e["name"] != "EventTrace/Header"]

    plain = dump("--raw")
    checks.equal([(e["provider"], e["id"], e["name"], e["pid"], e["tid"], e["header"]["type"]) for e in plain],
                 [(guid, number, f"WPP/{number}", 4, 77, "MESSAGE") for guid, number in
                  ((SOURCE, 207), (SOURCE, 10), (SOURCE, 11), (OTHER, 10), (SOURCE, 207))], "known by GUID and number")
    checks.equal([e["payload"] for e in plain], [r[8 + 4 + 16 + 16:].hex() for r in records], "payloads")
    checks.equal([e["fields"] for e in plain], [{"_tail": e["payload"]} for e in plain], "no fields")

    events = dump("--tmf", tmf)
    checks.equal([e.get("message") for e in events],
                 ["PowerDown = 0x1f, ACCESS_DENIED", "OnOpen: opened Überlauf", None, None, "PowerDown = 0x1f, "], "messages")
    checks.equal([e["name"] for e in events], ["Queue_c2319", "Queue_c20", "WPP/11", "WPP/10", "Queue_c2319"], "names")
    checks.equal([e["provider_name"] for e in events][:3], ["TEEDriver"] * 3, "the component")
    checks.equal(events[0]["fields"], {"devExt->powerDown": "0x1f", "status": {"value": "0xc0000022", "name": "ACCESS_DENIED"}}, "fields")
    checks.equal(events[0]["level_name"], "TRACE_LEVEL_VERBOSE", "level")
    done = env.run([env.agent, "schema", "compile", tmf, "-o", env.folder / "all.schemas"])
    checks.equal(dump("--manifest", env.folder / "all.schemas"), events, f"compiled into a schema cache: {done.stdout}")
    checked = env.run([env.agent, "schema", "check", broken], check=False)
    checks.that(checked.returncode == 3 and f"broken.tmf:{TMF.count(chr(10)) + 1}:" in checked.stdout, f"schema check: {checked.stdout} {checked.stderr}")
    stats = json.loads(env.run([env.agent, "stats", "--json", "--tmf", tmf, trace]).stdout)
    of = {c["name"]: (c["count"], c["unknown"], c["partial"]) for c in stats["classes"]}
    checks.equal((of["Queue_c2319"], of["Queue_c20"], of["WPP/11"]), ((2, 0, 1), (1, 0, 0), (1, 1, 0)), "what is understood")

    failed = env.run([env.agent, "dump", "--tmf", broken, trace], check=False)
    checks.that(failed.returncode in (1, 3) and f"broken.tmf:{TMF.count(chr(10)) + 1}: " in failed.stderr, f"a mistake has its line: {failed.stderr}")


if __name__ == "__main__":
    harness.main(test, __doc__)
