"""Single kernel records, byte for byte as Windows wrote them, with the field values that other projects' tests assert
(single-records-*.json). This puts each payload into a small .etl file of its own making and compares what `dump` says, and
has tests/unit/rewrite write each of them again: headers from what was read of them, payloads from their field values, byte for
byte.
"""
import argparse
import calendar
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import traces

PEBS_INDEX, PMC_COUNTERS = 7, 8  # EVENT_HEADER_EXT_TYPE_
IMAGE_ID, SYS_CONFIG_EX = "b3e675d7-2554-4f18-830b-2762732560de", "9b79ee91-b5fd-41c0-a243-4248e266e9d0"
# test of snail-server -> (kernel group or class GUID, opcode, version), name of ours
RECORDS = {
    "Kernel_EventTraceV2HeaderEventView": (0, 0, 2, "EventTrace/Header"),
    "Kernel_EventTraceV2HeaderPartitionInfoExtensionTypeGroup": (0, 80, 2, "EventTrace/PartitionInfoExtension"),
    "Kernel_EventTraceV2HeaderExtensionTypeGroup": (0, 5, 2, "EventTrace/Extension"),
    "Kernel_PerfinfoV2SampledProfileEventView": (15, 46, 2, "PerfInfo/SampleProf"),
    "Kernel_PerfinfoV2PmcCounterProfileEventView": (15, 47, 2, "PerfInfo/PmcCounterProf"),
    "Kernel_PerfinfoV2PmcCounterConfigEventView": (15, 48, 2, "PerfInfo/PmcCtrConfig"),
    "Kernel_PerfinfoV2SampledProfileIntervalEventView": (15, 73, 3, "PerfInfo/CollectionStart"),
    "Kernel_PerfinfoV2PmcCounterCorruptionEventView": (15, 49, 2, "PerfInfo/PmcCtrConrruption"),
    "Kernel_StackwalkV2StackEventView": (24, 32, 2, "StackWalk/Stack"),
    "Kernel_StackwalkV2KeyEventView": (24, 37, 2, "StackWalk/StackKeyKernel"),
    "Kernel_StackwalkV2TypeGroup1EventView": (24, 36, 2, "StackWalk/KeyRundown"),
    "Kernel_ImageV2LoadEventView": (3, 10, 3, "Image/Load"),
    "Kernel_ProcessV4TypeGroup1EventView": (3, 1, 4, "Process/Start"),
    "Kernel_ProcessV2TypeGroup2EventView": (3, 32, 2, "Process/PerfCtr"),
    "Kernel_ThreadV3TypeGroup1EventView": (5, 1, 3, "Thread/Start"),
    "Kernel_ThreadV4TypeGroup1EventView": (5, 1, 4, "Thread/Start"),
    "Kernel_ThreadV4ContextSwitchEventView": (5, 36, 4, "Thread/CSwitch"),
    "Kernel_ThreadV2SetNameEventView": (5, 72, 2, "Thread/SetName"),
    "Kernel_SystemConfigV3CpuEventView": (11, 10, 3, "SystemConfig/CPU"),
    "Kernel_SystemConfigV2PhysicalDiskEventView": (11, 11, 2, "SystemConfig/PhyDisk"),
    "Kernel_SystemConfigV2LogicalDiskEventView": (11, 12, 2, "SystemConfig/LogDisk"),
    "Kernel_SystemConfigV5PnpEventView": (11, 22, 5, "SystemConfig/PnP"),
    "Xperf_ImageIdV2InfoEventView": (IMAGE_ID, 0, 2, "ImageID/Info"),
    "Xperf_ImageIdV2DbgIdPdbInfoEventView": (IMAGE_ID, 36, 2, "ImageID/DbgID_RSDS"),
    "Xperf_SysConfigExV0BuildInfoEventView": (SYS_CONFIG_EX, 32, 0, "SysConfigEx/BuildInfo"),
    "Xperf_SysConfigExV0SysPathsEventView": (SYS_CONFIG_EX, 33, 0, "SysConfigEx/SystemPaths"),
    "Xperf_SysConfigExV0VolumeMappingEventView": (SYS_CONFIG_EX, 35, 0, "SysConfigEx/VolumeMapping"),
}
# Headers and events of other providers: they are no kernel records.
ELSEWHERE = re.compile(r"WmiBufferHeader|\w+TraceHeader\w*|VsDiagHub_|SnailProfiler_")
GROUPS = {"EVENT_TRACE_GROUP_HEADER": 0, "EVENT_TRACE_GROUP_PROCESS": 3, "EVENT_TRACE_GROUP_THREAD": 5, "EVENT_TRACE_GROUP_IMAGE": 20}
ALIASES = {  # what they call our fields, where it is not our name in another case
    "threadid": ("TThreadId", "StackThread"), "processid": ("StackProcess",), "flags": ("ThreadFlags",), "sessionname": ("SessionNameString",),
    "filename": ("LogFileNameString",), "partitionidguid": ("PartitionId",), "parentidguid": ("ParentId",),
    "driveletter": ("DriveLetterString",), "volumeextent": ("VolumeExt",), "guid": ("GuidSig",), "stackkey": ("key",),
    "imagefilename": ("FileName",),
}
# Getters that are parts of one of our fields, or no values.
PARTS = re.compile(r"dynamic_size|time_zone_information|os_version|sp_version|has_sid|user_sid|log_file_mode|stack_begin|stack_end|"
                   r"^\*iter|stack_size|counter_status\(0\)|drive_type")


def buffer(records, size, index, header):
    """One .etl buffer of that size."""
    body = b"".join(r + bytes(-len(r) % 8) for r in records)
    used = 0x48 + len(body)
    assert used <= size
    return struct.pack("<IIIIqqQIIIHH", size, used, used, 0, 0, index, 0, 0, 0, used, 0x21 if header else 0x20, 4 if header else 0) + \
        bytes(0x48 - 0x38) + body + b"\xff" * (size - used)


def system_record(group, opcode, version, payload, clock):
    return struct.pack("<HBBHBBIIqII", version, 2, 0xc0, 32 + len(payload), opcode, group, 8, 4, clock, 0, 0) + payload


def full_record(guid, opcode, version, payload, clock, pid=4):
    return struct.pack("<HBBBBHIIq", 48 + len(payload), 20, 0xc0, opcode, 0, version, 8, pid, clock) + uuid.UUID(guid).bytes_le + \
        bytes(8) + payload


# TraceLogging: what the single records leave out of a payload that is one byte many times -> how many
REPEATED = {"test_tracelogging_guid": 16, "test_array_uint8": 16, "test_array_uint16": 32, "test_extended_flag": 32}
TRACELOGGING = {"test_tracelogging_wstring", *REPEATED}


def tracelogging_record(metadata, payload, clock):
    """An EVENT64 record whose extended item describes its payload."""
    item = struct.pack("<HHHH", 8 + -(-len(metadata) // 8) * 8, 11, 0, len(metadata)) + metadata + bytes(-len(metadata) % 8)
    body = struct.pack("<BBHHIIq", 19, 0xc0, 0x41, 0, 8, 4, clock) + bytes(range(16)) + struct.pack("<HBBBBHQII", 0, 0, 11, 5, 0, 0, 1, 0, 0) + \
        bytes(16) + item + payload
    return struct.pack("<H", 2 + len(body)) + body


def trace(records, size=65536, begin=1):
    """An .etl file with these records, in as many buffers as they fill, after a header of its own. begin: its clock then; equal clocks of two files are equal
    times."""
    header = struct.pack("<IIIIQIIIIIIII", size, 0x0501000a, 19041, 1, 0, 156250, 0, 1, 2, 1, 8, 0, 3000) + bytes(16) + bytes(172) + \
        bytes(4) + struct.pack("<qqqII", 132000000000000000, 10000000, 132000000000000000 + begin - 1, 1, 0) + "x\0y\0".encode("utf-16le")
    parts, room = [[]], size - 0x48
    for record in records:
        room -= len(record) + -len(record) % 8
        if room < 0:
            parts.append([])
            room = size - 0x48 - len(record) - -len(record) % 8
        parts[-1].append(record)
    return buffer([system_record(0, 0, 2, header, begin)], size, 0, True) + b"".join(buffer(p, size, i, False) for i, p in enumerate(parts, 1))


def headers_trace(records):
    """A file made of the recorded headers themselves: the buffer header, whose only record is the trace header event under its
    header, then a buffer with the others, whose payloads are zeros. Returns it and the number of headers in it."""
    hexes = {record["test"]: [bytes.fromhex(b["hex"]) for b in record["buffers"]] for record in records}
    head = hexes["WmiBufferHeader"][0] + hexes["SystemTraceHeader"][0] + hexes["Kernel_EventTraceV2HeaderEventView"][0]
    size, used = struct.unpack_from("<I", head, 0)[0], struct.unpack_from("<I", head, 0x30)[0]
    assert len(head) <= used <= size
    others = []
    for name in ("PerfInfoTraceHeader", "PerfInfoTraceHeaderExtPmc", "PerfInfoTraceHeaderExtPebsExtPmc", "FullHeaderTraceHeader",
                 "EventHeaderTraceHeader"):
        for header in hexes[name][:1]:
            at = 4 if header[2] in (16, 17) else 0
            others.append(header + bytes(struct.unpack_from("<H", header, at)[0] - len(header)))
    return head + bytes(used - len(head)) + b"\xff" * (size - used) + buffer(others, size, 1, False), 2 + len(others)


def counters_trace(records):
    """A file with the recorded counter configuration, then a context switch under each recorded header with counters, whose size
    is made that of both. Returns it, the counters' names, [(header's test, expected values, expected PEBS address or None)], and the
    switch's payload."""
    by_test = {record["test"]: record for record in records}
    config, switch = (by_test[f"Kernel_{name}EventView"] for name in ("PerfinfoV2PmcCounterConfig", "ThreadV4ContextSwitch"))
    names = [cpp_string(e) for e in config["expect"] if e.startswith("event.counter_name(")]
    payload = bytes.fromhex(switch["buffers"][0]["hex"])
    made, wanted = [system_record(15, 48, 2, bytes.fromhex(config["buffers"][0]["hex"]), 2)], []
    for test in ("PerfInfoTraceHeaderExtPmc", "PerfInfoTraceHeaderExtPebsExtPmc"):
        expect = dict(e.split(", ", 1) for e in by_test[test]["expect"] if ", " in e)
        values = [number(expect[f"trace_header.ext_pmc({i})"]) for i in range(number(expect["trace_header.ext_pmc_count()"]))]
        header = bytearray.fromhex(by_test[test]["buffers"][0]["hex"])
        struct.pack_into("<H", header, 4, len(header) + len(payload))
        made.append(bytes(header) + payload)
        wanted.append((test, values, number(expect.get("trace_header.ext_pebs()", ""))))
    return trace(made), names, wanted, payload


def check_counters(checks, agent, folder, records):
    """Counters on context switches: names out of the configuration, values out of the header before the payload."""
    data, names, wanted, payload = counters_trace(records)
    path = folder / "counters.etl"
    path.write_bytes(data)
    lines = subprocess.run([agent, "dump", "--format", "raw", "--strict", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    _, config, *switches = map(json.loads, lines)
    checks.equal((config["name"], config["fields"]["CounterName"]), ("PerfInfo/PmcCtrConfig", names), "names of the counters")
    checks.equal(names, ["BranchInstructions", "LLCReference"], "names that are expected")
    checks.equal(len(switches), len(wanted), "context switches with counters")
    for (test, values, pebs), event in zip(wanted, switches):
        items = {item["type"]: bytes.fromhex(item["data"]) for item in event["extended"]}
        checks.equal((event["name"], event["payload"]), ("Thread/CSwitch", payload.hex()), test)
        checks.equal(dict(zip(names, struct.unpack("<2Q", items.pop(PMC_COUNTERS)), strict=True)), dict(zip(names, values, strict=True)), test)
        checks.equal(items, {} if pebs is None else {PEBS_INDEX: struct.pack("<Q", pebs)}, f"{test}: what else came before the payload")


def number(text):
    match = re.fullmatch(r"(0x[0-9a-fA-F']+|\d[\d']*)(?:ULL|U|LL)?", text.strip())
    return int(match.group(1).replace("'", ""), 0) if match else None


def cpp_string(text):
    match = re.search(r'"((?:[^"\\]|\\.)*)"', text)
    return match.group(1).replace("\\\\", "\\") if match else None


def value_of(fields, getter):
    """(found, our value) for a getter such as event.stack_address(3)."""
    name = re.match(r"\*?(?:event|mof|obj)\.(?:get_)?(\w+?)_?\((\d*)\)", getter)
    if not name:
        return False, None
    plain, index = name.group(1).replace("_", ""), name.group(2)
    by_name = {k.lower(): k for k in fields}
    if plain == "stackaddress":
        return True, fields["Stack" if "Stack" in fields else "StackFrame"][int(index)]
    for candidate in (by_name.get(plain), *ALIASES.get(plain, ())):
        if candidate in fields:
            return True, fields[candidate][int(index)] if index else fields[candidate]
    return False, None


def equal(ours, expected):
    if isinstance(ours, dict):
        ours = ours["value"]
    guid = re.search(r"guid\{([^{]*)\{([^}]*)\}", expected)
    if guid:
        parts = [int(p.strip().replace("'", ""), 16) for p in (guid.group(1) + guid.group(2)).split(",") if p.strip()]
        return ours == f"{parts[0]:08x}-{parts[1]:04x}-{parts[2]:04x}-{parts[3]:02x}{parts[4]:02x}-" + "".join(f"{p:02x}" for p in parts[5:])
    wanted = number(expected)
    if wanted is not None:
        if isinstance(ours, str) and ours.startswith("0x"):
            ours = int(ours, 16)
        elif isinstance(ours, str):  # a FILETIME
            seconds, ticks = re.match(r"(.*)\.(\d{7})Z", ours).groups()
            ours = (calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) + 11644473600) * 10**7 + int(ticks)
        return ours == wanted
    return ours == cpp_string(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    arguments = parser.parse_args()
    checks = harness.Checks()
    agent = pathlib.Path(arguments.build).resolve() / "service" / "app" / "etwagent"
    rewrite = pathlib.Path(arguments.build).resolve() / "tests" / "unit" / "rewrite"
    build, files = pathlib.Path(arguments.build).resolve(), ("single-records-kernel.json", "single-records-mof.json")
    if not checks.real("single records: single kernel and TraceLogging records with values that other programs' tests assert", *files):
        return checks.finish()
    described = []  # (what, TraceLogging metadata, payload)
    wanted = []  # (what, group or GUID, opcode, version, our name or None, payload, [(getter, expected)])
    with open(traces.document(files[0], build), encoding="utf-8") as file:
        kernel = json.load(file)["records"]
        for record in kernel:
            if record["test"] not in RECORDS:
                checks.that(ELSEWHERE.match(record["test"]), f"nothing is known about {record['test']}")
                continue
            expected = [e.split(", ", 1) for e in record["expect"] if ", " in e and not PARTS.search(e)]
            wanted.append((record["test"], *RECORDS[record["test"]], bytes.fromhex(record["buffers"][0]["hex"]), expected))
    with open(traces.document(files[1], build), encoding="utf-8") as file:
        for record in json.load(file)["records"]:
            if record["test"] in TRACELOGGING:
                first, *rest = map(bytes.fromhex, record["hex"])
                rest[-1] *= REPEATED.get(record["test"], 1)
                described.append((record["test"], first, b"".join(rest)))
            call = re.match(r"build_mof\(EventTraceGroup\.(\w+), (\d+), (\d+)", (record["call"] or [""])[0])
            if call:
                expected = [re.match(r"self\.assertEqual\((.*?\(\)), (.*)\)$", e).groups() for e in record["expect"]]
                expected = [(g, f'"{e[1:-1]}"' if e.startswith("'") else e) for g, e in expected]
                wanted.append((record["test"], GROUPS[call.group(1)], int(call.group(3)), int(call.group(2)), None,
                               bytes.fromhex(record["hex"][0]), expected))
    records = [(full_record if isinstance(where, str) else system_record)(where, opcode, version, payload, 2 + i)
               for i, (_, where, opcode, version, _, payload, _) in enumerate(wanted)]
    checks.equal({what for what, _, _ in described}, TRACELOGGING, "TraceLogging records")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "records.etl"
        path.write_bytes(trace(records))
        lines = subprocess.run([agent, "dump", "--no-names", "--format", "jsonl", "--strict", path], stdout=subprocess.PIPE, check=True).stdout
        stats = json.loads(subprocess.run([agent, "stats", "--json", path], stdout=subprocess.PIPE, check=True).stdout)
        again = json.loads(subprocess.run([rewrite, path], stdout=subprocess.PIPE, check=True).stdout)
        path.write_bytes(trace([tracelogging_record(metadata, payload, 2 + i) for i, (_, metadata, payload) in enumerate(described)]))
        dumped = subprocess.run([agent, "dump", "--format", "raw", "--strict", path], stdout=subprocess.PIPE, check=True).stdout
        named = json.loads(subprocess.run([rewrite, path], stdout=subprocess.PIPE, check=True).stdout)
        data, header_count = headers_trace(kernel)
        path.write_bytes(data)
        headers = json.loads(subprocess.run([rewrite, path], stdout=subprocess.PIPE, check=True).stdout)
        check_counters(checks, agent, pathlib.Path(folder), kernel)
    checks.equal((again["records"], again["whole"], again["raw_texts"]), (len(wanted) + 1,) * 2 + (0,), "payloads from their field values")
    checks.equal((named["records"], named["payloads"]), (len(described) + 1,) * 2, "TraceLogging records written again")
    for (what, metadata, payload), line in zip(described, dumped.splitlines()[1:], strict=True):
        event = json.loads(line)
        checks.equal((event["name"], event["payload"], [item["data"] for item in event["extended"]]), ("Test", payload.hex(), [metadata.hex()]), what)
    checks.equal((headers["buffers"], headers["records"] + 1), (2, header_count), "headers written again")
    events = [json.loads(line) for line in lines.splitlines()][1:]
    checks.equal(stats["decoded"], len(wanted) + 1, "records decoded whole")
    if checks.equal(len(events), len(wanted), "records read"):
        for (what, _, _, _, name, _, expected), event in zip(wanted, events):
            if name:
                checks.equal(event["name"], name, what)
            for getter, value in expected:
                found, ours = value_of(event["fields"], getter)
                checks.that(found and equal(ours, value), f"{what}: {getter} is {value}; ours: {ours!r}")
            if "Corruption" in what:
                checks.equal(event["fields"]["CounterStatus"], [{"ProfileSource": 10, "LastKnownGoodTimestamp": 0}], what)
    checks.that(checks.passed > 200, "enough values were compared")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
