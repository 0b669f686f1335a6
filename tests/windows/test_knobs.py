#!/usr/bin/env python3
"""Every option of a provider reaches Windows and has its documented effect, with the emulator of ETW under Wine. "etwagent record" runs one
session per option over a real trace. Each file has exactly the events, extended items and stacks that the trace's own records demand.
Features that an older Windows lacks are reported, and the rest works. The check of the configuration refuses values that Windows
would not accept, with line and column, before anything starts.
"""
import collections
import json
import random
import subprocess

import emulated
import harness
import registry_records as registry
import test_faults
import test_runtime_counters
import test_single_records
import test_wpp
import traces
import wine

TRACE = "clr-kernel-win8-x64"
RUNTIME, FILES = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "edd08927-9cc4-4e65-b970-c2560fb5c289"
GROUP = "4f50731a-89cf-4782-b3e0-dce8c90476ba"
SMALL = {"buffer-size": "64KiB", "min-buffers": 8, "max-buffers": 64}
PACKAGE, APP, CONTAINER = "Contoso.Test_1.0.0.0_x64__8wekyb3d8bbwe", "App", "8d5e5bf4-4ff8-4cf7-9a9a-2b1a4b3f2c11"
SID, TERMINAL, STACK, PMC, PSM, EVENT_KEY, START_KEY = 2, 3, 6, 8, 9, 10, 13  # EVENT_HEADER_EXT_TYPE_*
THREAD, SWITCH = "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c", 36  # Thread/CSwitch


STATE_MOST = 4096  # events that the emulator logs for one request of state (STATES_MAX)
ASKED = 5  # times at least that the provider's state is asked for again and again
FREQUENT = (10, 82)  # nine of ten events; most questions leave them out, which takes time only


def ask(provider=RUNTIME, **knobs):
    named = {k.replace("_", "-"): v for k, v in knobs.items()}
    return {"provider": provider, **({} if "event-ids" in named else {"exclude-event-ids": [str(i) for i in FREQUENT]}), **named}


def fields(e):
    return {k: v["value"] if isinstance(v, dict) else v for k, v in e["fields"].items()}


# name: (what is asked for, which events of the trace that means); of a provider unless the question says more
FILTERS = {
    "level": (ask(level="warning"), lambda e: e["level"] <= 3),
    "any": (ask(any="0x30+0x8000"), lambda e: not e["keyword"] or e["keyword"] & 0x8030),
    "all": (ask(any="0x30", all="0x30"), lambda e: not e["keyword"] or e["keyword"] & 0x30 == 0x30),
    "all-alone": (ask(all="0x30"), lambda e: not e["keyword"] or e["keyword"] & 0x30 == 0x30),
    "all-unused": (ask(any="0", all="0x30"), lambda e: True),
    "ids": (ask(event_ids=["1-3", "80"]), lambda e: e["id"] in (1, 2, 3, 80)),
    "exclude": (ask(exclude_event_ids=["10", "80-90"]), lambda e: e["id"] not in (10, *range(80, 91))),
    "pids": (ask(pids=["3988", "4"]), lambda e: e["pid"] in (3988, 4)),
    "executable": (ask(executables=["perfview.exe", "other.exe"]), lambda e: e["pid"] == 3988),
    "package": (ask(packages=[PACKAGE]), lambda e: e["pid"] == 3676),
    "app": (ask(app_ids=["No", APP]), lambda e: e["pid"] == 3676),
    "container": (ask(containers=[CONTAINER]), lambda e: e["pid"] == 3988),
    "group": (ask(GROUP, groups=True), lambda e: e["provider"] in (RUNTIME, FILES)),
    "number": (ask(payload=[{"event": 1, "field": "Count", "compare": "between", "value": "100,200"},
                            {"event": 1, "field": "Depth", "compare": "equals", "value": "0"}]),
               lambda e: e["id"] != 1 or 100 <= fields(e)["Count"] <= 200 and fields(e)["Depth"] == 0),
    "text": (ask(payload=[{"event": 152, "field": "ModuleILPath", "compare": "contains", "value": "mscorlib"}]),
             lambda e: e["id"] != 152 or "mscorlib" in fields(e)["ModuleILPath"]),
    "no-keyword": (ask(properties=["ignore-keyword-0"]), lambda e: e["keyword"]),
}
# name: (what is asked for, which items which events then have)
ITEMS = {
    "sid": (ask(FILES, properties=["sid", "terminal-session"]), lambda e: {SID, TERMINAL}),
    "keys": (ask(FILES, properties=["psm-key", "process-start-key", "event-key"]), lambda e: {PSM, START_KEY, EVENT_KEY}),
    "stacks": (ask(FILES, stacks=True), lambda e: {STACK}),
    "stack-ids": (ask(event_ids=["1-10"], stack_event_ids=["2"]), lambda e: {STACK} if e["id"] == 2 else set()),
    "stack-level": (ask(event_ids=["1-10"], stack_level="information"), lambda e: {STACK} if e["level"] <= 4 else set()),
    "stack-any": (ask(event_ids=["1-23"], stack_level="verbose", stack_any="0x400000"), lambda e: {STACK} if e["keyword"] & 0x400000 else set()),
}
# what Windows would not take: (knob, value, words of the answer)
REFUSED = [
    ("event-ids", ["1-65"], "65 event ids: Windows filters by at most 64"),
    ("exclude-event-ids", ["0-64"], "65 event ids"),
    ("stack-event-ids", [str(i) for i in range(60)] + ["100-110"], "71 event ids"),
    ("event-names", ["x" * 2000, "y" * 2075], "4077 bytes with their ends: Windows takes at most 4076"),
    ("exclude-event-names", [""], "expected names of events"),
    ("stack-event-names", ["x" * 5000], "5001 bytes with their ends"),
    ("names-level", "error", "event-names or exclude-event-names say which names; they are missing"),
    ("names-any", "0x1", "event-names or exclude-event-names say which names; they are missing"),
    ("pids", [str(i) for i in range(9)], "9 process ids: Windows filters by at most 8"),
    ("pids", ["1-3"], "expected a process id"),
    ("executables", ["x" * 500, "y" * 20], "1044 bytes of UTF-16: Windows takes at most 1024"),
    ("packages", ["a;b"], "without a semicolon"),
    ("app-ids", ["x" * 512], "1026 bytes"),
    ("containers", [""], "expected a name"),
    ("arguments", ["EventCounterIntervalSec"], "expected NAME=VALUE"),
    ("arguments", ["=1"], "expected NAME=VALUE"),
    ("arguments", ["A=" + "x" * 1000, "B=" + "y" * 30], "1036 bytes with their ends: Windows takes at most 1024"),
    ("filter-data", "2", "expected u32:NUMBER, or hex:"),
    ("filter-data", "u32:0x100000000", "expected u32:NUMBER"),
    ("filter-data", "hex:", "expected u32:NUMBER"),
    ("filter-data", "hex:123", "expected u32:NUMBER"),
    ("filter-data", "hex:" + "00" * 1025, "at most 1024 bytes"),
    ("filter-data-type", 0x80000000, "filter-data says which data; it is missing"),
    ("registry-values", True, "only Microsoft-Windows-Kernel-Registry has values of the registry"),
    ("stack-any", "0x1", "stack-level is missing: expected the level"),
    ("stack-level", "loud", "expected critical"),
    ("payload", [{"event": 1, "field": f"F{i}", "value": "x"} for i in range(9)], "9 conditions on event 1: Windows takes at most 8"),
    ("payload", [{"event": i, "field": "F", "value": "x"} for i in range(17)], "conditions on 17 events"),
    ("payload", [{"event": 1, "field": "F", "compare": "between", "value": "7"}], "expected two numbers"),
]


def said(env, paths):
    """Events as the program prints them, with keywords as numbers."""
    events = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "jsonl", "--no-names", *map(str, paths)]).stdout.splitlines()]
    for e in events:
        e["keyword"] = int(e["keyword"], 0) if isinstance(e["keyword"], str) else e["keyword"]
    return events


def keys(events):
    return sorted((e["provider"], e["clock"], e["id"], e["cpu"], e["pid"], e["tid"]) for e in events if e["provider"] != emulated.EVENT_TRACE)


def record(env, session, machine, sessions, name, there=None, idle=(), until=None, held=None):
    """Lets the sessions write what the trace has for them, each a file: {session: path}, and what the agent said. there: gets the
    sessions as they were in the end; idle: sessions in which nothing may be enabled; until: what must be true of the sessions before
    they are stopped; held: what must be true of them before they play, where the script has "hold=0"."""
    machine.config.write_text(f"sessions: {json.dumps(sessions)}\n")
    file = machine.folder / f"{name}.etl"
    command = [machine.agent, "record", "--config", wine.windows_path(machine.config), wine.windows_path(file)]
    machine.log_file.unlink(missing_ok=True)
    with open(machine.log_file, "wb") as log:
        machine.process = subprocess.Popen(session.command(command), env=session.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    if held:
        machine.wait(lambda: len(s := machine.sessions()) == len(sessions) and held(s), "what is enabled before the sessions play")
        for s in sessions:
            machine.go(s["name"])
    machine.wait(lambda: len(s := machine.sessions()) == len(sessions) and all(x["over"] or n in idle for n, x in s.items()) and (not until or until(s)),
                 "the trace's end in every session")
    if there is not None:
        there.update(machine.sessions())
    code = machine.stop()
    if code:
        raise harness.Failure(f"record ended with {code}: {machine.log()}")
    one = len(sessions) == 1
    return {s["name"]: file if one else machine.folder / f"{name}-{s['name']}.etl" for s in sessions}, machine.log().replace("\r", "")


def filters(env, checks, session, windows, arguments):
    with emulated.Machine(env, session, windows, "filters") as machine:
        paths = traces.paths(TRACE, env.build)
        machine.plays(paths, f"process=3988 PerfView.exe - - {CONTAINER}", f"process=3676 Test.x64.exe {PACKAGE} {APP} -",
                      f"group={GROUP} {RUNTIME}", f"group={GROUP} {FILES}", "process=1632 MsMpEng.exe - - -", "items=asked", f"state={RUNTIME} 187")
        sessions = [{"name": n, "providers": [q], **SMALL} for n, (q, _) in {**FILTERS, **ITEMS}.items()]
        sessions.append({"name": "again", "providers": [ask(event_ids=["187"], capture_every="300ms")], **SMALL})
        files, words = record(env, session, machine, sessions, "out", until=lambda s: s["etwagent-again"]["captures"] >= ASKED)
        checks.equal([line for line in words.splitlines() if "left out" in line or "ignored" in line or "refuses" in line], [], "what could not be had")
        whole = [e for e in said(env, paths) if e["provider"] in (RUNTIME, FILES)]
        for name, (question, passes) in FILTERS.items():
            truth = [e for e in whole if (question.get("groups") or e["provider"] == question["provider"]) and passes(e) and
                     ("event-ids" in question or e["id"] not in FREQUENT)]
            found = keys(said(env, [files[name]]))
            checks.that(truth and len(truth) < len(whole), f"{name}: the test's own filter says {len(truth)} of {len(whole)}")
            checks.that(found == keys(truth), f"{name}: {len(found)} events, {len(truth)} are right")
        own, states = (sum(e["provider"] == RUNTIME and e["id"] == 187 for e in events) for events in (whole, said(env, [files["again"]])))
        checks.that(own and states > 2 * own and states % own == 0, f"the provider's state, asked for again and again beside the trace's own {own}: {states}")
        for name, (question, items) in ITEMS.items():
            lines = env.run([env.agent, "dump", "--format", "raw", str(files[name])]).stdout.splitlines()
            records = [r for r in map(json.loads, lines) if r["provider"] == question["provider"]]
            keyword = [int(r["keyword"], 0) if isinstance(r["keyword"], str) else r["keyword"] for r in records]
            wrong = [r for r, k in zip(records, keyword) if {x["type"] for x in r["extended"]} != items({**r, "keyword": k})]
            checks.that(records and not wrong, f"{name}: {len(wrong)} of {len(records)} have other items than asked for, such as {wrong[:1]}")
            some = {bool(items({**r, "keyword": k})) for r, k in zip(records, keyword)}
            checks.that(True in some, f"{name}: no event has what was asked for")


# two options that cannot be together: (knobs, line of the wrong one, words of the answer)
TOGETHER = [
    ({"arguments": ["A=1"], "filter-data": "u32:2"}, 6, "filter-data: arguments are a filter of type 0, too"),
    ({"filter-data": "u32:2", "filter-data-type": 0x80000200}, 6, "filter-data-type: expected 0, the provider's own, or 0x80000000"),
    ({"groups": True, "filter-data": "u32:2"}, 6, "filter-data: a provider group has no filter data"),
    ({"provider": "Microsoft-Windows-Kernel-Registry", "filter-data": "u32:2", "registry-values": True}, 6, "registry-values: registry-values sets the filter data itself"),
]


def refused(env, checks, session, windows, arguments):
    """Each limit, by line and column, of the native program: the same code."""
    file = env.folder / "refused.yaml"
    for knobs, line, words in TOGETHER:
        knobs = {"provider": RUNTIME, **knobs}
        file.write_text("sessions:\n- name: s\n  providers:\n  - " + "\n    ".join(f"{knob}: {json.dumps(value)}" for knob, value in knobs.items()) + "\n")
        done = env.run([env.agent, "check", str(file)], check=False)
        checks.that(done.returncode == 3 and words in done.stderr and f"{file}:{line}:" in done.stderr, f"{knobs}: {done.returncode} {done.stderr}")
    for knob, value, words in REFUSED:
        file.write_text(f"sessions:\n- name: s\n  providers:\n  - provider: {RUNTIME}\n    {knob}: {json.dumps(value)}\n")
        done = env.run([env.agent, "check", str(file)], check=False)
        column = 5 if not (knob == "payload" and "expected two" in words) else None
        place = f"{file}:5:" if column else f"{file}:5"
        checks.that(done.returncode == 3 and words in done.stderr and place in done.stderr, f"{knob}: {done.returncode} {done.stderr}")


def legacy(env, checks, session, windows, arguments):
    """A provider of WPP, to which no keyword means nothing: asked for without keywords, it logs all that it has."""
    trace = env.folder / "legacy.etl"
    messages = [test_wpp.message(test_wpp.SOURCE, number, number, 100 + number, b"\1\2\3\4") for number in range(1, 41)]
    trace.write_bytes(test_wpp.etl().trace(messages))
    with emulated.Machine(env, session, windows, "legacy") as machine:
        machine.plays([trace])
        sessions = [{"name": "all", "providers": [{"provider": test_wpp.SOURCE}], **SMALL},
                    {"name": "none", "providers": [{"provider": test_wpp.SOURCE, "any": "0"}], **SMALL}]
        files, _ = record(env, session, machine, sessions, "out")
        ids = {name: [e["id"] for e in said(env, [file]) if e["provider"] == test_wpp.SOURCE] for name, file in files.items()}
        checks.equal(ids, {"all": list(range(1, 41)), "none": []}, "messages of a provider without keywords")


STACKS = ("StackWalk/Stack", "StackWalk/StackKeyKernel", "StackWalk/StackKeyUser")
KERNEL_FLAGS = ["PROC_THREAD", "LOADER", "PROFILE", "PMC_PROFILE", "CSWITCH", "DISK_IO", "HARD_FAULTS"]


def walked(events, names):
    """Stacks whose event is of one of the classes, or is not there."""
    classes = {}
    for e in events:
        if e["name"] not in STACKS and e["provider_name"] == "Windows Kernel Trace":
            classes.setdefault(e["clock"], set()).add(e["name"])
    return [e for e in events if e["name"] in STACKS and (not (at := classes.get(fields(e)["EventTimeStamp"])) or at & set(names))]


def kernel(env, checks, session, windows, arguments):
    """Stacks of the classes that are named and of no other; counters on the events that are named; samples of counters with their flag."""
    made, scenario = env.folder / "counters.etl", env.folder / "counters.yaml"
    scenario.write_text("base: office\npmc: {on_switches: yes, samples_per_second: 200}\n")
    env.run([arguments.native / "tests" / "tracegen" / "tracegen", "make", "--preset", scenario, "--duration-ms", "1000", "--out", made])
    common = {"kind": "system", **SMALL}
    asked = {"samples": {"flags": KERNEL_FLAGS, "stacks": ["PerfInfo/SampleProf"]},
             "switches": {"flags": KERNEL_FLAGS, "stacks": ["Thread/CSwitch", "Process/Start"], "pmc-counters": ["TotalCycles"], "pmc-events": ["Thread/CSwitch"]},
             "other": {"flags": [f for f in KERNEL_FLAGS if f != "PMC_PROFILE"], "pmc-counters": ["TotalCycles"], "pmc-events": ["PerfInfo/SampleProf"]}}
    with emulated.Machine(env, session, windows, "kernel") as machine:
        machine.plays([made], "counter=19 1000 2147483647 TotalCycles")
        files, words = record(env, session, machine, [{"name": n, **q, **common} for n, q in asked.items()], "out")
        checks.equal([line for line in words.splitlines() if "left out" in line or "ignored" in line or "refuses" in line], [], "what could not be had")
        whole = said(env, [made])
        for name, question in asked.items():
            events = said(env, [files[name]])
            if "stacks" in question:
                truth, found = walked(whole, question["stacks"]), [e for e in events if e["name"] in STACKS]
                checks.that(truth and len(truth) < sum(e["name"] in STACKS for e in whole), f"{name}: the test's own filter says {len(truth)} stacks")
                checks.that(keys(found) == keys(truth), f"{name}: {len(found)} stacks, {len(truth)} are right")
            lines = [json.loads(line) for line in env.run([env.agent, "dump", "--format", "raw", "--no-names", files[name]]).stdout.splitlines()]
            switches = [{x["type"] for x in r["extended"]} for r in lines if (r["provider"], r["opcode"]) == (THREAD, SWITCH)]
            has = "pmc-counters" not in question or "Thread/CSwitch" in question["pmc-events"]
            checks.equal((len(switches) > 100, set(map(frozenset, switches))), (True, {frozenset({PMC} if has else ())}), f"{name}: items on context switches")
            samples = sum(e["name"] == "PerfInfo/PmcCounterProf" for e in events)
            checks.that((samples > 10) == ("PMC_PROFILE" in question["flags"]), f"{name}: {samples} samples of counters")


EBPF = "394f321c-5cf4-404c-aa34-4df1428a7f9c"


def traced(**knobs):
    return {"provider": EBPF, **{k.replace("_", "-"): v for k, v in knobs.items()}}


def named(*names, levels=5, keywords=None):
    return lambda e: e["name"] in names and e["level"] <= levels and (keywords is None or e["keyword"] & keywords != 0)


# of a TraceLogging provider, as FILTERS
NAMES = {
    "in": (traced(event_names=["EbpfReturn", "EbpfGenericError", "Absent"]), named("EbpfReturn", "EbpfGenericError")),
    "out": (traced(exclude_event_names=["EbpfGenericMessage", "EbpfSuccess"]), named("EbpfReturn", "EbpfGenericError")),
    "prefix": (traced(event_names=["Ebpf", "EbpfGenericErrors", "EbpfReturn"]), named("EbpfReturn")),
    "own-level": (traced(event_names=["EbpfGenericMessage"], names_level="error"), named("EbpfGenericMessage", levels=2)),
    "own-keywords": (traced(event_names=["EbpfGenericMessage"], names_any="0x80+0x10"), named("EbpfGenericMessage", keywords=0x90)),
    "out-of-level": (traced(exclude_event_names=["EbpfGenericMessage"], names_level="error", any="0x180"),
                     lambda e: e["keyword"] & 0x180 and not named("EbpfGenericMessage", levels=2)(e)),
    "with-level": (traced(level="error", any="0x180", exclude_event_names=["EbpfReturn"]), lambda e: e["level"] <= 2 and e["keyword"] & 0x180),
}
# name: (what is asked for, which events then have a stack)
NAMED_STACKS = {
    "walked": (traced(event_names=["EbpfReturn", "EbpfGenericError"], stack_event_names=["EbpfGenericError"]), named("EbpfGenericError")),
    "walked-of": (traced(event_names=["EbpfGenericMessage"], any="0x180", stack_event_names=["EbpfGenericMessage"], stack_level="error", stack_any="0x80"),
                  named("EbpfGenericMessage", levels=2, keywords=0x80)),
    "walked-any": (traced(any="0x182", event_names=["EbpfGenericMessage"], stack_event_names=["EbpfGenericMessage"], stack_any="0x100"),
                   named("EbpfGenericMessage", keywords=0x100)),
}


def names(env, checks, session, windows, arguments):
    """Filters by names of TraceLogging events, and stacks by them; and a Windows that refuses them."""
    with emulated.Machine(env, session, windows, "names") as machine:
        paths = traces.paths("tracelogging-ebpf", env.build)
        machine.plays(paths, "items=asked")
        sessions = [{"name": n, "providers": [q], **SMALL} for n, (q, _) in {**NAMES, **NAMED_STACKS}.items()]
        files, words = record(env, session, machine, sessions, "out")
        checks.equal([line for line in words.splitlines() if "left out" in line or "ignored" in line or "refuses" in line], [], "what could not be had")
        whole = [e for e in said(env, paths) if e["provider"] == EBPF]
        for name, (_, passes) in NAMES.items():
            truth = keys(e for e in whole if passes(e))
            found = keys(said(env, [files[name]]))
            checks.that(truth and len(truth) < len(whole) and found == truth, f"{name}: {len(found)} events, {len(truth)} of {len(whole)} are right")
        for name, (_, is_walked) in NAMED_STACKS.items():
            events = [e for e in said(env, [files[name]]) if e["provider"] == EBPF]
            wrong = [e for e in events if bool(e["stack"]) != bool(is_walked(e))]
            checks.equal((len(wrong), {bool(e["stack"]) for e in events}), (0, {True, False}), f"{name}: events whose stack is wrong, of {len(events)}")
    with emulated.Machine(env, session, windows, "no-names") as machine:
        machine.plays(paths, "fail=filters 1 9")
        files, words = record(env, session, machine, [{"name": "in", "providers": [NAMES["in"][0]], **SMALL}], "out")
        checks.that("Windows refuses it" in words and "it is enabled without filters" in words, f"an older Windows: {words}")
        checks.equal(keys(said(env, [files["in"]])), keys(whole), "an older Windows: all of the provider's events")


def event_source(env, checks, session, windows, arguments):
    """Counters of an EventSource, which it writes for a session that gave it an interval: with the argument, beside a filter, and without."""
    trace, source = env.folder / "counted.etl", str(test_runtime_counters.RUNTIME)
    trace.write_bytes(test_single_records.trace(test_runtime_counters.make(random.Random(3), 20)[0]))
    asked = {"counted": {"arguments": ["Other=x=y", "EventCounterIntervalSec=1"]}, "filtered": {"arguments": ["EventCounterIntervalSec=0.5"], "pids": ["100"]},
             "none": {"pids": ["100", "200"]}, "zero": {"arguments": ["EventCounterIntervalSec=0"]},
             "again": {"arguments": ["EventCounterIntervalSec=1"], "capture-every": "300ms", "event-ids": ["7"]}}
    there = {}
    with emulated.Machine(env, session, windows, "event-source") as machine:
        machine.plays([trace])
        files, words = record(env, session, machine, [{"name": n, "providers": [{"provider": source, **q}], **SMALL} for n, q in asked.items()], "out", there,
                              until=lambda s: s["etwagent-again"]["arguments_given"] >= ASKED)
        checks.equal({n: (there[f"etwagent-{n}"]["arguments_given"], there[f"etwagent-{n}"]["captures"]) for n in ("counted", "none")},
                     {"counted": (1, 0), "none": (0, 0)}, "how often arguments were given, and states asked for")
        checks.equal(there["etwagent-again"]["captures"], 0, "states asked for of the provider that is given its arguments again")
        checks.equal([line for line in words.splitlines() if "left out" in line or "ignored" in line or "refuses" in line], [], "what could not be had")
        whole = [e for e in said(env, [trace]) if e["provider"] == source]
        wanted = {"counted": whole, "filtered": [e for e in whole if e["pid"] == 100], "none": [], "zero": []}
        for name, truth in wanted.items():
            truth = truth + ([e for e in whole if e["name"] != "EventCounters"] if not truth else [])
            checks.equal(keys(e for e in said(env, [files[name]]) if e["provider"] == source), keys(truth), f"{name}: events")
        checks.that(len(wanted["counted"]) > len(wanted["filtered"]) > 10, "counters of two processes")


def registry_values(env, checks, session, windows, arguments):
    """Kernel-Registry gives the data of values only to a session whose filter asks for them; the other events are the same."""
    trace, provider = env.folder / "registry.etl", str(registry.PROVIDER)
    trace.write_bytes(test_single_records.trace(registry.records()))
    asked = {"values": {"registry-values": True}, "number": {"filter-data": "u32:0x3"}, "digits": {"filter-data": "hex:02000000"},
             "without": {}, "other": {"filter-data": "u32:4"}, "ids": {"registry-values": True, "event-ids": [str(registry.SET)]}}
    with emulated.Machine(env, session, windows, "registry-values") as machine:
        machine.plays([trace])
        files, words = record(env, session, machine, [{"name": n, "providers": [{"provider": provider, **q}], **SMALL} for n, q in asked.items()], "out")
        checks.equal([line for line in words.splitlines() if "left out" in line or "ignored" in line or "refuses" in line], [], "what could not be had")
        whole = [e for e in said(env, [trace]) if e["provider"] == provider]
        with_data = [(e["id"], e["clock"], fields(e)) for e in whole]
        bare = [(number, clock, {**f, "CapturedDataSize": 0, "CapturedData": "", "PreviousDataCapturedSize": 0, "PreviousData": ""} if number == registry.SET else f)
                for number, clock, f in with_data]
        checks.that(with_data != bare and len({number for number, _, _ in bare}) == 4, "the trace has data, and other events")
        for name in asked:
            truth = bare if name in ("without", "other") else [x for x in with_data if name != "ids" or x[0] == registry.SET]
            checks.equal([(e["id"], e["clock"], fields(e)) for e in said(env, [files[name]]) if e["provider"] == provider], truth, f"{name}: events")
    with emulated.Machine(env, session, windows, "registry-sizes") as machine:  # a size that the provider does not take, and a type
        machine.plays([trace])
        wrong = {"short": {"filter-data": "hex:0200"}, "schema": {"filter-data": "u32:2", "filter-data-type": 0x80000000}}
        files, words = record(env, session, machine, [{"name": n, "providers": [{"provider": provider, **q}], **SMALL} for n, q in wrong.items()], "out")
        checks.equal(words.count("it is enabled without filters"), 2, f"filters that Windows refuses: {words}")
        for name in wrong:
            checks.equal([(e["id"], e["clock"], fields(e)) for e in said(env, [files[name]]) if e["provider"] == provider], bare, f"{name}: events without data")


def not_there(env, checks, session, windows, arguments):
    """A condition on an event or a field that TDH does not know, and a TDH without such conditions: said, and the rest works."""
    with emulated.Machine(env, session, windows, "not-there") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        sessions = [{"name": "event", "providers": [ask(FILES, payload=[{"event": 4000, "field": "X", "value": "y"}])], **SMALL},
                    {"name": "field", "providers": [ask(FILES, payload=[{"event": 12, "field": "Absent", "value": "y"}])], **SMALL}]
        files, words = record(env, session, machine, sessions, "out")
        checks.that("payload filter of event 4000 ignored: this machine knows no such event" in words, f"word of the event: {words}")
        checks.that("payload filter of event 12 ignored" in words, f"word of the field: {words}")
        checks.that("refuses" not in words and "without filters" not in words, f"the other filters are kept: {words}")
        for name in ("event", "field"):
            checks.equal(len([e for e in said(env, [files[name]]) if e["provider"] == FILES]), 562, f"events of session {name}")


def system(env, checks, session, windows, arguments):
    """The kernel's providers by name: as such on a new Windows, by kernel flags on an older one; both log the same."""
    process, profile = "SystemProcessProvider", "{bfeb0324-1cee-496f-a409-2ac2b48a6322}"
    asked = {"name": "kernel", "kind": "system", "pool-tags": ["Ntfx", "Io"], "flags": ["POOL"], **SMALL,
             "providers": [ask(process, any="SYSTEM_PROCESS_KW_GENERAL+loader+0x800"), ask(profile, any="GENERAL")]}
    for p in asked["providers"]:
        del p["exclude-event-ids"]
    counts = {}
    key = r"HKLM\Software\Microsoft\Windows NT\CurrentVersion"  # what Wine answers about its version
    for build in ("22000", "18362"):
        is_new = build == "22000"
        session.run(["reg", "add", key, "/v", "CurrentBuildNumber", "/d", build, "/f"])
        with emulated.Machine(env, session, windows, f"build-{build}") as machine:
            machine.plays(traces.paths(TRACE, env.build))
            there = {}
            files, words = record(env, session, machine, [asked], "out", there)
            events = said(env, [files["kernel"]])
            counts[build] = collections.Counter(e["name"] for e in events if e["name"] != "EventTrace/Header")
        kernel = there["etwagent-kernel"]
        checks.equal((kernel["masks"][0] & 7, kernel["masks"][1]), (7, 0x42), f"{build}: kernel flags in the end")
        checks.equal((kernel["system_providers"], kernel["pool_tag"].to_bytes(4, "little")), (3, b"Ntfx") if is_new else (0, bytes(4)),
                     f"{build}: providers of the kernel's, and the first pool tag")
        checks.that(("has no SystemProcessProvider: kernel flags stand for it" in words) != is_new and
                    ("pool-tags: this Windows" in words) != is_new, f"{build}: {words}")
    checks.that(counts["22000"] == counts["18362"] and counts["22000"]["Process/Start"] == 1 and counts["22000"]["PerfInfo/SampleProf"] > 100,
                f"events by name: {counts}")
    for text, words in ((f"{{name: s, providers: [{{provider: {process}, any: GENERAL}}]}}", "need a session of kind: system"),
                        (f"{{name: s, kind: system, providers: [{{provider: {process}, any: LOADER+NOTHING}}]}}", "has no keyword 'NOTHING'"),
                        (f"{{name: s, kind: system, providers: [{{provider: {process}}}]}}", "expected keywords, such as GENERAL"),
                        (f"{{name: s, kind: system, providers: [{{provider: {process}, any: LOADER, pids: [4]}}]}}", "is the kernel's"),
                        ("{name: s, kind: system, flags: [POOL], pool-tags: [a, b, c, d, e]}", "5 tags: Windows filters by at most 4")):
        file = env.folder / "refused.yaml"
        file.write_text(f"sessions:\n- {text}\n")
        done = env.run([env.agent, "check", str(file)], check=False)
        checks.that(done.returncode == 3 and words in done.stderr and f"{file}:2:" in done.stderr, f"{text}: {done.stderr}")


def kinds(env, checks, session, windows, arguments):
    """The NT Kernel Logger, and clocks other than QPC."""
    with emulated.Machine(env, session, windows, "kinds") as machine:
        machine.plays(traces.paths(TRACE, env.build))
        sessions = [{"name": "logger", "kind": "kernel-logger", "flags": ["PROC_THREAD", "LOADER"], "clock": "system", **SMALL},
                    {"name": "cycles", "providers": [ask(event_ids=["187"])], "clock": "cycle", **SMALL}]
        there, listed = {}, []

        def look(_):
            listed[:] = sorted(s["name"] for s in json.loads(session.run([machine.agent, "sessions", "--json"]).stdout))
            return True
        files, words = record(env, session, machine, sessions, "out", there, until=look)
        checks.equal(listed, ["NT Kernel Logger", "etwagent-cycles"], "etwagent sessions")
        logger, cycles = there["NT Kernel Logger"], there["etwagent-cycles"]
        checks.equal((logger["clock"], cycles["clock"], logger["masks"][0]), (2, 3, 7), "clocks and flags as Windows has them")
        checks.equal((logger["mode"] & 0x0a000000, cycles["mode"] & 0x08000000), (0, 0x08000000), "neither system logger nor independent, but for the other")
        names = collections.Counter(e["name"] for e in said(env, [files["logger"]]))
        starts = sum(e["name"] == "Process/Start" for e in said(env, traces.paths(TRACE, env.build)))
        checks.that(names["Process/Start"] == starts and names["Process/DCEnd"], f"the kernel logger's events: {names.most_common(5)}")
        checks.equal([line for line in words.splitlines() if "refuses" in line], [], "refusals")


def adopted(env, checks, session, windows, arguments):
    """A session of the same name that is there: used as it is, when that is asked for, and stopped at the end. What it lost before is not
    counted as lost here."""
    env.make_certificates(["adopted"])
    collector = env.new_collector().start()
    with emulated.Machine(env, session, windows, "adopted") as machine:
        machine.plays(traces.paths(TRACE, env.build), "rate=20000")
        machine.control("start", "etwagent-mine")
        machine.control("lose", "etwagent-mine", "1000", "20", "30")
        before = machine.sessions()["etwagent-mine"]
        machine.configure(collector, [{"name": "mine", "stale": "adopt", "providers": [ask(FILES)], **SMALL}])
        machine.start()
        machine.wait(lambda: machine.sources().get("mine", {}).get("events_acknowledged", 0) >= 562, "the provider's events")
        after = machine.sessions()["etwagent-mine"]
        checks.that("a session of this name was there; it is used as it is" in machine.log(), machine.log())
        checks.equal([after[k] for k in ("id", "buffer_kib", "max", "mode")], [before[k] for k in ("id", "buffer_kib", "max", "mode")], "the session as it was")
        checks.equal((after["providers"], machine.sources()["mine"]["session"]["buffer_bytes"]), (1, before["buffer_kib"] * 1024), "its provider, and what the status says of it")
        checks.that("1000 events and 50 buffers that it had lost by then" in machine.log(), f"what it had lost before: {machine.log()}")
        machine.control("lose", "etwagent-mine", "7", "1", "1")
        machine.wait(lambda: machine.sources()["mine"]["session"]["lost_events"] == 7, "a loss after the adoption, alone")
        checks.equal((machine.stop(), machine.sessions()), (0, {}), "exit code, and sessions after it")
    ledger = test_faults.ledger_of(collector, "adopted")
    checks.equal((ledger["source_events_lost"], ledger["source_buffers_lost"]), (7, 2), "losses in the ledger: what came after the adoption")
    collector.stop()


def registered(env, checks, session, windows, arguments):
    """Whether a process has registered a provider, and which of the requested parameters Windows applies."""
    unregistered_text, other = "no program has it registered now", "Windows applies level 4 and keywords 0x30, 0x10 (5 and 0x30, 0x10 were asked for)"
    asked = [{"name": "there", "providers": [ask(any="0x30", all="0x10")], **SMALL}, {"name": "unregistered", "providers": [ask(FILES)], **SMALL}]
    for name, script, words in (("as-asked", [], {FILES: [unregistered_text]}), ("other", ["level-kept=4"], {RUNTIME: [other], FILES: [unregistered_text, "level 4"]}),
                                ("fails", ["level-kept=4", "fail=EnumerateTraceGuidsEx 5 99"], {})):
        with emulated.Machine(env, session, windows, f"registered-{name}") as machine:
            machine.plays(traces.paths(TRACE, env.build), f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime", *script)
            _, said_words = record(env, session, machine, asked, "out")
            for guid in (RUNTIME, FILES):
                lines = [line for line in said_words.splitlines() if f"provider {guid}:" in line]
                checks.that(len(lines) == len(words.get(guid, [])) and all(w in line for w, line in zip(words.get(guid, []), lines)), f"{name}: {said_words}")


def unknown_flags(env, checks, session, windows, arguments):
    """Kernel flags that this Windows does not know are reported by name, and the other flags are set."""
    asked = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "SPINLOCK", "OB_HANDLE", "SYSCFG_PNP"], **SMALL}
    for name, script, word in (("known", [], None), ("unknown", ["flags-unknown=1 0x10000", "flags-unknown=6 0x20"], "has: SPINLOCK, SYSCFG_PNP")):
        with emulated.Machine(env, session, windows, f"flags-{name}") as machine:
            machine.plays(traces.paths(TRACE, env.build), *script)
            there = {}
            _, words = record(env, session, machine, [asked], "out", there)
            checks.that(word in words if word else "flags" not in words, f"flags {name}: {words}")
            masks = there["etwagent-kernel"]["masks"]
            checks.equal((masks[0], masks[1], masks[4], masks[6]), (3, 0x10000 if not word else 0, 0x40, 0x20 if not word else 0), f"flags {name}: as Windows has them")


# an older Windows: (functions that it lacks, the session's configuration, parts of the messages)
OLDER = {
    "flags": (["TraceSetInformation"], {"kind": "system", "flags": ["PROC_THREAD"], "stacks": ["Process/Start"], "profile-interval": "1ms"},
              ["stacks: Windows refuses it (120", "flags: Windows refuses it (120", "profile-interval: this Windows has no performance counters for sessions"]),
    "counters": (["TraceQueryInformation"], {"kind": "system", "flags": ["CSWITCH"], "pmc-counters": ["CacheMisses"], "pmc-events": ["Thread/CSwitch"]},
                 ["pmc-samples and pmc-counters: this Windows has no performance counters for sessions"]),
    "names": (["TdhEnumerateProviders"], {"providers": [{"provider": "Microsoft-Windows-DotNETRuntime"}]},
              ["provider Microsoft-Windows-DotNETRuntime is left out: Microsoft-Windows-DotNETRuntime: this Windows cannot list providers"]),
    "keywords": (["TdhEnumerateProviderFieldInformation"], {"providers": [{"provider": RUNTIME, "any": "GC"}]},
                 [f"provider {RUNTIME} is left out: GC: this Windows does not know names of keywords"]),
    **{f"payload {lacks}": ([lacks], {"providers": [ask(FILES, payload=[{"event": 12, "field": "FileName", "value": "y"}])]},
                            ["payload filters ignored: this Windows cannot check them"])
       for lacks in ("TdhCreatePayloadFilter", "TdhAggregatePayloadFilters", "TdhDeletePayloadFilter", "TdhCleanupPayloadEventFilterDescriptor",
                     "TdhEnumerateManifestProviderEvents")},
    "registrations": (["EnumerateTraceGuidsEx"], {"providers": [ask(FILES)]}, []),
}
REQUIRED = ("StartTraceW", "ControlTraceW", "EnableTraceEx2", "OpenTraceW", "ProcessTrace", "CloseTrace")


def older(env, checks, session, windows, arguments):
    """A Windows that lacks functions: each lack in words, and what does not need it works. Nothing works without six of them."""
    paths = traces.paths("tracelogging-ebpf", env.build)
    for name, (lacks, asked, words) in OLDER.items():
        with emulated.Machine(env, session, windows, f"older-{name.split()[-1]}", lacks) as machine:
            machine.plays(paths)
            files, printed = record(env, session, machine, [{"name": "one", **asked, **SMALL}, {"name": "two", "providers": [traced(event_ids=["0"])], **SMALL}], "out",
                                 idle=["etwagent-one"])
            checks.that(all(w in printed for w in words), f"without {lacks}: {printed}")
            checks.equal(len([e for e in said(env, [files["two"]]) if e["provider"] == EBPF]), 13599, f"without {lacks}: events of the other session")
            if not words:
                checks.that("registered now" not in printed and "left out" not in printed, f"without {lacks}: {printed}")
    commands = {"QueryAllTracesW": (["sessions"], 1, "this Windows cannot list its sessions"),
                "TdhGetEventInformation": (["providers", RUNTIME], 0, "this Windows knows no schemas"),
                "TdhGetEventMapInformation": (["providers", RUNTIME], 0, "this Windows knows no schemas"),
                "TdhEnumerateProviders": (["providers"], 0, "this Windows cannot list providers"),
                "TdhEnumerateManifestProviderEvents": (["providers", RUNTIME], 0, "this Windows does not say what events a provider has"),
                "TdhGetManifestEventInformation": (["providers", RUNTIME], 0, "this Windows does not say what events a provider has"),
                "TdhEnumerateProviderFieldInformation": (["providers", RUNTIME], 0, "this Windows does not say what keywords and levels a provider has")}
    for lacks, (words, code, text) in commands.items():
        with emulated.Machine(env, session, windows, f"command-{lacks}", [lacks]) as machine:
            machine.plays([], f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime", f"keyword={RUNTIME} 0x1 GCKeyword")
            cache = ["--cache", wine.windows_path(machine.folder / "cache")] if words[0] == "providers" else []
            done = session.run([machine.agent, *words, *cache])
            checks.that(done.returncode == code and text in done.stderr, f"{words} without {lacks}: {done.returncode} {done.stderr}")
    for lacks in REQUIRED:
        with emulated.Machine(env, session, windows, f"required-{lacks}", [lacks]) as machine:
            machine.plays([])
            machine.config.write_text(f"sessions: {json.dumps([{'name': 'one', 'providers': [ask(FILES)], **SMALL}])}\n")
            done = session.run([machine.agent, "record", "--config", wine.windows_path(machine.config), wine.windows_path(machine.folder / "out.etl")])
            checks.that(done.returncode == 1 and f"this Windows has no function {lacks[:-1]}" in done.stderr, f"without {lacks}: {done.returncode} {done.stderr}")


def counters(env, checks, session, windows, arguments):
    """Performance counters that cannot be had: each reason in words, and the session runs."""
    named = ("counter=19 1000 2147483647 TotalIssues", "counter=10 4096 1000000 CacheMisses", "counter=11 4096 1000000 BranchMispredictions")
    asked = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "CSWITCH"], "pmc-events": ["Thread/CSwitch"],
             "pmc-counters": ["TotalIssues", "CacheMisses", "BranchMispredictions"], **SMALL}
    cases = {"few": ([*named, "counters=2"], {}, (2, 1), "pmc-counters: 3 are asked for, and this machine counts 2 at a time; the first are taken"),
             "taken": ([*named, "fail=counters 1450 9"], {}, (0, 0), "pmc-counters: another profiler or the hypervisor holds the machine's counters (error 1450); it is left out"),
             "held": ([*named, "owner=VTSS 19", "owner=0x7 -", "owner=- -"], {}, (0, 0),
                      "pmc-counters: another profiler or the hypervisor holds the machine's counters (error 1450); 3 of 4 are held: TotalIssues by 'VTSS', "
                      "one by 0x00000007, one by an owner without a name; it is left out"),
             "fewer": ([*named, "applied=19 11"], {}, (3, 1), "pmc-counters: TotalIssues, CacheMisses, BranchMispredictions were taken, and Windows counts "
                       "TotalIssues, BranchMispredictions"),
             "order": ([*named, "applied=10 19 11"], {}, (3, 1), "and Windows counts CacheMisses, TotalIssues, BranchMispredictions"),
             "nothing": ([*named, "applied=none"], {}, (3, 1), "and Windows counts none"),
             "none": ([], {}, (0, 0), "this machine shows no performance counters, as under many hypervisors"),
             "rights": ([*named, "profile-privilege=0"], {}, (0, 0), "this account may not profile the system (error 1314)"),
             "as-set": ([*named, "applied=as-set"], {}, (3, 1), None),
             "interval": ([*named, "interval-step=1500"], {"flags": ["PROC_THREAD", "CSWITCH", "PMC_PROFILE"], "profile-interval": "1ms",
                                                       "pmc-samples": [{"source": "CacheMisses", "interval": 5000}]}, (3, 1),
                          "profile-interval: a sample each 1.0000 ms is asked for, Windows takes one each 0.9000 ms")}
    for name, (script, more, counts, word) in cases.items():
        with emulated.Machine(env, session, windows, f"counters-{name}") as machine:
            machine.plays([], *script)
            there = {}
            _, words = record(env, session, machine, [{**asked, **more}], "out", there)
            kernel = there["etwagent-kernel"]
            checks.that(word in words if word else "pmc" not in words, f"{name}: {words}")
            checks.equal((len(kernel["counters"]), kernel["pmc_events"], kernel["masks"][1]), (*counts, 0x404 if "flags" in more else 4),
                         f"{name}: counters, events that carry them, flags")


def driver(env, checks, session, windows, arguments):
    """A driver's provider logs nothing under filters by process: these are left out of such a provider, and of no other one."""
    paths = traces.paths(TRACE, env.build)
    every = [e for e in said(env, paths) if e["provider"] == RUNTIME]
    pid = every[0]["pid"]
    asked = {"pids": {"pids": [str(pid + 1)]}, "program": {"executables": ["absent.exe"]}, "package": {"packages": ["Absent"]}}
    for registered, wanted in (("driver", len(every)), ("program", 0)):
        with emulated.Machine(env, session, windows, f"registered-{registered}") as machine:
            machine.plays(paths, f"driver={RUNTIME}" if registered == "driver" else f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
            files, words = record(env, session, machine, [{"name": name, **SMALL, "providers": [{"provider": RUNTIME, **filters}]} for name, filters in asked.items()], "out")
            for name in asked:
                found = sum(e["provider"] == RUNTIME for e in said(env, [files[name]]))
                checks.equal(found, wanted, f"{name}, registered by a {registered}: events")
            checks.equal(words.count("a driver has it registered"), 3 if wanted else 0, f"registered by a {registered}: {words}")


def state(env, checks, session, windows, arguments):
    """A provider chooses by the keywords of a request for its state what it logs: it gets those that it was enabled with, or all."""
    paths = traces.paths(TRACE, env.build)
    every = [e for e in said(env, paths) if e["provider"] == RUNTIME]
    times = collections.Counter(e["id"] for e in every)
    one = next(e for e in every if e["keyword"] and times[e["id"]] <= STATE_MOST)
    bit = one["keyword"] & -one["keyword"]
    asked = {"all": {}, "one": {"any": hex(bit)}, "other": {"any": hex(1 << 47)}}
    with emulated.Machine(env, session, windows, "state") as machine:
        machine.plays(paths, f"state={RUNTIME} {one['id']}")
        files, _ = record(env, session, machine, [{"name": name, **SMALL, "providers": [ask(capture_state=True, **more)]} for name, more in asked.items()], "out")
        own = sum(e["id"] == one["id"] for e in every)
        found = {name: sum(e["provider"] == RUNTIME and e["id"] == one["id"] for e in said(env, [file])) for name, file in files.items()}
        checks.equal(found, {"all": 2 * own, "one": 2 * own, "other": 0}, "the provider's state beside the trace's own events")


def five(env, checks, session, windows, arguments):
    """Windows takes four counters and four events with counters; the configuration's check refuses more, of more the recording would have none."""
    events = ["Thread/CSwitch", "Process/Start", "Process/End", "Thread/Start", "Thread/End"]
    names = [f"Counter{i}" for i in range(5)]
    asked = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "CSWITCH"]}
    script = [f"counter={10 + i} 1000 2147483647 {name}" for i, name in enumerate(names)] + ["counters=8"]
    with emulated.Machine(env, session, windows, "five") as machine:
        machine.plays([], *script)
        there = {}
        _, words = record(env, session, machine, [{**asked, "pmc-counters": names[:4], "pmc-events": events[:4]}], "out", there)
        kernel = there["etwagent-kernel"]
        checks.equal((len(kernel["counters"]), kernel["pmc_events"]), (4, 4), f"four of each: {words}")
        for key, more in (("pmc-counters", {"pmc-counters": names, "pmc-events": events[:1]}), ("pmc-events", {"pmc-counters": names[:1], "pmc-events": events})):
            machine.config.write_text(f"sessions: {json.dumps([{**asked, **more}])}\n")
            done = session.run([machine.agent, "check", wine.windows_path(machine.config)])
            checks.that(done.returncode == 3 and f"{key}: 5 " in done.stderr and "at most 4" in done.stderr, f"five {key}: {done.returncode} {done.stderr}")


def translated(env, checks, session, windows, arguments):
    """A Windows that returns some flags as EnableFlags has them has the flags all the same: no word, and their names in the list."""
    flags = ["PROCESS", "CSWITCH", "DPC", "INTERRUPT", "SYSCALL", "DISPATCHER", "VIRT_ALLOC", "DRIVERS", "PROFILE"]
    with emulated.Machine(env, session, windows, "translated") as machine:
        machine.plays([], "flags-form=enable-flags")
        listed = []

        def look(_):
            listed[:] = json.loads(session.run([machine.agent, "sessions", "--json"]).stdout)
            return True
        _, words = record(env, session, machine, [{"name": "kernel", "kind": "system", "flags": flags}], "out", until=look)
        checks.that("not among" not in words, f"word of flags: {words}")
        checks.equal(sorted(listed[0]["flags"]), sorted(flags), "etwagent sessions")


def intervals(env, checks, session, windows, arguments):
    """Profile intervals are the machine's: they are as before after a recording, and after one that was killed and the next one."""
    asked = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "PROFILE", "PMC_PROFILE"], "profile-interval": "500us",
             "pmc-samples": [{"source": "CacheMisses", "interval": 5000}]}
    script = ["counter=0 1221 1000000 Timer", "counter=10 1000 2147483647 CacheMisses"]

    def applied(machine):
        return {c["name"]: c["interval"] for c in json.loads(session.run([machine.agent, "counters", "--json"]).stdout)}
    with emulated.Machine(env, session, windows, "intervals") as machine:
        machine.plays([], *script)
        before, meanwhile = applied(machine), {}

        def look(_):
            meanwhile.update(applied(machine))
            return True
        record(env, session, machine, [asked], "out", until=look)
        checks.equal((before, meanwhile), ({"Timer": 10000, "CacheMisses": 65536}, {"Timer": 5000, "CacheMisses": 5000}), "intervals before and during a recording")
        checks.equal(applied(machine), before, "intervals after the recording")

        def kill(_):
            machine.kill()
            return True
        try:
            record(env, session, machine, [asked], "killed", until=kill)
        except harness.Failure:
            pass
        checks.equal(applied(machine), meanwhile, "intervals after a recording that was killed")
        for left in machine.sessions():
            machine.control("stop", left)
        record(env, session, machine, [{"name": "other", "kind": "system", "flags": ["PROC_THREAD"]}], "next")
        checks.equal(applied(machine), before, "intervals after the next recording")


def unprivileged(env, checks, session, windows, arguments):
    """Flags of samples need a privilege that an administrator's token has, disabled. Without it the other flags are set all the same."""
    asked = {"name": "kernel", "kind": "system", "flags": ["PROC_THREAD", "LOADER", "PROFILE", "PMC_PROFILE", "CSWITCH"]}
    for name, script, word, second in (("disabled", [], None, 0x406), ("none", ["profile-privilege=0"], "flag PMC_PROFILE: this account may not profile the system", 0x4)):
        with emulated.Machine(env, session, windows, f"unprivileged-{name}") as machine:
            machine.plays([], *script)
            there = {}
            _, words = record(env, session, machine, [asked], "out", there)
            checks.equal(there["etwagent-kernel"]["masks"][:2], [0x7, second], f"{name}: flags")
            checks.that(word in words and "flag PROFILE: " in words if word else "profile" not in words, f"{name}: {words}")


def test(env, checks, session, windows, arguments):
    every = filters, legacy, kernel, names, event_source, registry_values, not_there, refused, system, kinds, adopted, registered, unknown_flags, older, counters, unprivileged, driver, state, five, translated, intervals
    for part in emulated.parts(checks, arguments, every, real=(filters, legacy, names, not_there, system, adopted, older)):
        part(env, checks, session, windows, arguments)


if __name__ == "__main__":
    emulated.main(test, __doc__)
