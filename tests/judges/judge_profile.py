"""Judges of profiles: samples by program and by module, and every event by its stack, out of the exhaustive join of naive_stacks and the modules
of each process, searched one by one."""
import collections
import functools
import json
import re

import naive_activity
import naive_stacks
from naive_state import number
import test_profile
from judge_activity import EVER, clock_of, compare, image, keys, spans, whole
from judge_store import records_of, utc


@functools.cache
def join_of(host):
    return naive_stacks.Join(host.records)


def ordinals(host):
    """(stream, batch, position) -> the place of the record in its trace"""
    return {(stream, batch.number, position): record["ordinal"] for stream, found in host.streams.items()
            for batch, records in records_of(host, found) for position, record in enumerate(records)}


@functools.cache
def joined(host):
    """(event, record, addresses) of each event that has a stack or is a sample"""
    join = join_of(host)
    found = []
    for event in join.events:
        addresses = tuple(a for half in ("kernel", "user") for a in event.halves.get(half, ((),))[0] or ())
        record = host.records[event.ordinal]
        if addresses or record["name"] == "PerfInfo/SampleProf":
            found.append((event, record, addresses))
    return found


@functools.cache
def sampled(host):
    """Samples by program, by the module that ran, and by the place in it. One whose stack is known by keys alone that were never defined has no place."""
    whose, modules = naive_activity.Whose(host.state), test_profile.NaiveModules(host.records)
    programs, ran, places = collections.Counter(), collections.Counter(), collections.Counter()
    for event, record, addresses in joined(host):
        if record["name"] != "PerfInfo/SampleProf":
            continue
        instance, pid = whose.thread(event.tid, record)
        programs["Idle" if pid == 0 else image(host, instance) or "?"] += record["fields"]["Count"]
        if event.halves and not addresses:
            continue
        address = addresses[0] if addresses else int(record["fields"]["InstructionPointer"], 0)
        name, method = modules.find(pid, address, event.clock)
        ran[name.lower()] += record["fields"]["Count"]
        module, is_unloaded = modules.at(pid, address, event.clock)
        places[f"{module.name}+{address - module.base:#x}" if module and not is_unloaded and not method else method or "?"] += record["fields"]["Count"]
    return programs, ran, places


@functools.cache
def stacked(host):
    """(program, places from the one that ran outwards, count) of each sample that has a stack."""
    whose, modules, found = naive_activity.Whose(host.state), test_profile.NaiveModules(host.records), []
    for event, record, addresses in joined(host):
        if record["name"] != "PerfInfo/SampleProf" or not addresses:
            continue
        instance, pid = whose.thread(event.tid, record)
        places = []
        for address in addresses:
            module, is_unloaded = modules.at(pid, address, event.clock)
            _, method = modules.find(pid, address, event.clock)
            places.append(f"{module.name}+{address - module.base:#x}" if module and not is_unloaded and not method else method or "?")
        found.append(("Idle" if pid == 0 else image(host, instance) or "?", places, record["fields"]["Count"]))
    return found


@functools.cache
def lacking(host):
    """How many samples lack a half: one that was asked for and never came, or else one whose key is not defined."""
    silent = {event for event, _, answered in join_of(host).asked if not answered and naive_stacks.USER not in event.halves}
    return collections.Counter("unanswered" if event in silent else "undefined" for event, record, _ in joined(host) if record["name"] == "PerfInfo/SampleProf" and
                               (event in silent or any(frames is None for frames, _ in event.halves.values())))


@functools.cache
def counted(host):
    """Each sample of a hardware counter: (instance, pid, program, number of the counter, its name, events a sample or None, module or None,
    offset in it, .NET method or None, address)"""
    whose, modules, intervals, found = naive_activity.Whose(host.state), test_profile.NaiveModules(host.records), {}, []
    for record in host.records:
        fields = record["fields"]
        if record["name"] in ("PerfInfo/SetInterval", "PerfInfo/CollectionStart"):
            intervals[number(fields["Source"])] = number(fields["NewInterval"]), fields.get("SourceName")
        elif record["name"] == "PerfInfo/PmcCounterProf":
            instance, pid = whose.thread(fields["ThreadId"], record)
            address, source = int(fields["InstructionPointer"], 0), number(fields["ProfileSource"])
            (module, is_unloaded), (interval, name) = modules.at(pid, address, record["clock"]), intervals.get(source, (None, None))
            found.append((instance, pid, image(host, instance), source, name, interval or None, module and f"[unloaded {module.name}]" if is_unloaded else module and module.name,
                          address - module.base if module else address,
                          None if address >> 63 else modules.method(pid, address, record["clock"]), address))
    return found


def counters_of(host):
    return {row[4] for row in counted(host)} if whole(host) else set()


def counted_places(host):
    """(program, where it was as a profile calls it, counter, events) of each sample of a counter: at the top of its stack, if it has one."""
    modules, found = test_profile.NaiveModules(host.records), []
    stacks = {event.ordinal: addresses for event, _, addresses in joined(host)}
    ordinals = [ordinal for ordinal, record in enumerate(host.records) if record["name"] == "PerfInfo/PmcCounterProf"]
    for ordinal, (_, pid, program, _, counter, interval, *_, address) in zip(ordinals, counted(host)):
        address, clock = (stacks.get(ordinal) or (address,))[0], host.records[ordinal]["clock"]
        name, method = modules.find(pid, address, clock)
        module, is_unloaded = modules.at(pid, address, clock)
        found.append((program, method or (f"{name}+{address - module.base:#x}" if module and not is_unloaded else f"{address:#x}"), counter, interval or 1))
    return found


def times(counter, n):
    return {key: value * n for key, value in counter.items()}


def judge_missed(world):
    """The table missed_stacks: halves that no event got, and events without their answer."""
    known = keys(world)
    for name, host in world.hosts.items():
        if not whole(host):
            continue
        whose, clock, want = naive_activity.Whose(host.state), clock_of(host), collections.Counter()
        for ordinal, raw, pid, tid, half, why in join_of(host).missed:
            moment = {"units": clock.ns(raw) // 100, "clock": raw}
            instance, pid = whose.thread(tid, moment) if pid == naive_stacks.ANY else whose.process(pid, moment)
            want[ordinal, clock.ns(raw), instance, pid, "Idle" if pid == 0 else image(host, instance) or "?", tid, half, why] += 1
        places = ordinals(host)
        for where, low, high in spans(host, True):
            got = []
            for row in world.sql(f"SELECT * FROM missed_stacks{where} WHERE host = '{name}'"):
                key, place = known.get(row["process_key"], (None,) * 3), (row["stream"], row["batch"], row["position"])
                pid, tid = (naive_stacks.ANY if row[number] is None else row[number] for number in ("pid", "tid"))
                got.append((row["stream"], places[place], row["time"], key[2], pid, row["image"], tid, row["half"], row["outcome"], row["halves"]))
            rows = [(stream, ordinal, utc(ns), *rest, n) for (ordinal, ns, *rest), n in want.items() if low <= ns < high for stream in host.streams]
            world.same("table missed_stacks", name, got, rows)


def judge_profiles(world):
    """The route of profiles, and the table stacks."""
    for name, host in world.hosts.items():
        if not whole(host) or not joined(host):
            continue
        runs = len(host.streams)
        want = collections.Counter((record["name"] or "?", naive_stacks.ANY if event.tid is None else event.tid, addresses) for event, record, addresses in joined(host) if addresses)
        got, of_hash = collections.Counter(), {}
        listed = world.sql(f"SELECT stream, name, tid, hash, count, frames FROM stacks WHERE host = '{name}'")
        for row in listed:
            addresses = tuple(int(f["address"], 16) for f in json.loads(row["frames"]))
            got[row["name"], naive_stacks.ANY if row["tid"] is None else row["tid"], addresses] += row["count"]
            of_hash[row["stream"], row["hash"]] = addresses
        world.same("table stacks", name, got, times(want, runs))
        for at in range(0, len(listed), 1 + len(listed) // 4):  # those of one hash are found in an order of their own
            one = world.sql(f"SELECT stream, name, tid, hash, count, frames FROM stacks WHERE host = '{name}' AND hash = (SELECT hash FROM stacks WHERE host = '{name}' LIMIT 1 OFFSET {at})")
            world.same("table stacks", f"{name}, of one hash", [tuple(row.values()) for row in one], [tuple(row.values()) for row in listed if row["hash"] == listed[at]["hash"]])
        places = ordinals(host)
        got = [(row["stream"], places[row["stream"], row["batch"], row["position"]], of_hash.get((row["stream"], row["stack_hash"])))
               for row in world.sql(f"SELECT stream, batch, position, stack_hash FROM events WHERE host = '{name}' AND stack_hash IS NOT NULL")]
        world.same("table events", f"{name}, hashes of stacks", got, [(stream, event.ordinal, addresses) for stream in host.streams for event, _, addresses in joined(host) if addresses])
        programs, ran, _ = sampled(host)
        if not programs:
            continue
        intervals = world.web.get("profile", host=name, weight="samples")
        world.same("route /api/v1/profile", f"{name}, what its stacks lack", [[intervals["incomplete"][why] for why in ("unanswered", "undefined")]],
                   [[lacking(host)[why] * runs for why in ("unanswered", "undefined")]])
        got = collections.Counter()
        for parent, frame, _, total in intervals["nodes"]:
            if parent < 0:
                got[intervals["processes"][-1 - frame]] += total
        world.same("route /api/v1/profile", name, got, times(programs, runs))
        got = collections.Counter()
        for row in intervals["top_modules"]:
            if row["self"]:
                got[intervals["modules"][row["module"]]["name"].lower()] += row["self"]
        world.same("route /api/v1/profile", name, got, times(ran, runs))


def judge_waits(world):
    """Profiles of ready and waiting time: by program all of it, whether or not a switch ended it."""
    for name, host in world.hosts.items():
        if not whole(host):
            continue
        sums, _, _ = naive_activity.thread_tables(host.records, naive_activity.Whose(host.state), clock_of(host).ns, *EVER)
        for weight, what in (("ready", "ready_ns"), ("wait", "waiting_ns")):
            want = collections.Counter()
            for (instance, _, _), row in sums.items():
                want[image(host, instance) or "?"] += row[what] + row[f"unfinished_{what}"]
            got, profile = collections.Counter(), world.web.get("profile", host=name, weight=weight)
            for parent, frame, _, total in profile["nodes"]:
                if parent < 0:
                    got[profile["processes"][-1 - frame]] += total
            open_ns = sum(row["self"] for row in profile["top_modules"] if profile["modules"][row["module"]]["name"] == "[no recorded end]")
            runs = len(host.streams)
            world.same("route /api/v1/profile", f"{name}, {weight}", [(profile["total"], profile["unfinished_ns"]), *got.items()],
                       [(sum(want.values()) * runs, open_ns), *times(+want, runs).items()])


FAULTS = {f"PageFault/{name}" for name in ("TransitionFault", "DemandZeroFault", "CopyOnWrite", "GuardPageFault", "HardPageFault", "AccessViolation")}


def requested(host):
    """What the disk took for programs, of requests whose begin was logged, by the begin's process; faults by program."""
    whose, clock, begun, disk, faults = naive_activity.Whose(host.state), clock_of(host), {}, collections.Counter(), collections.Counter()

    def program(record):
        instance, pid = whose.process(record["pid"], record) if record["pid"] != naive_stacks.ANY else whose.thread(record["tid"], record)
        return "Idle" if pid == 0 else image(host, instance) or "?"

    for record in host.records:
        if record["name"] in ("DiskIo/ReadInit", "DiskIo/WriteInit", "DiskIo/FlushInit"):
            begun[record["fields"]["Irp"]] = record
        elif record["name"] in naive_activity.DISK:
            first = begun.pop(record["fields"].get("Irp"), None)
            took = clock.ns(record["clock"]) - clock.ns(record["clock"] - number(record["fields"]["HighResResponseTime"]))
            if first and took > 0:
                disk[program(first)] += took
        elif record["name"] in FAULTS:
            faults[program(record)] += 1
    return {"disk": disk, "faults": faults}


def judge_requests(world):
    """Profiles of disk requests and of page faults, by program."""
    for name, host in world.hosts.items():
        for weight, want in (requested(host).items() if whole(host) else ()):
            if want:
                got, profile = collections.Counter(), world.web.get("profile", host=name, weight=weight)
                for parent, frame, _, total in profile["nodes"]:
                    if parent < 0:
                        got[profile["processes"][-1 - frame]] += total
                world.same("route /api/v1/profile", f"{name}, {weight}", got, times(want, len(host.streams)))


def labelled(module, offset, method):
    """(module, function) of a place without symbols: as the frames of a profile are named."""
    if method:
        module = "[JIT]" if module is None or module.startswith("[unloaded") else module
        return module, f"{module}!{method}"
    return module, f"{module}+{offset:#x}" if module else f"{offset:#x}"


def rates(world):
    """{query: {key: {counter: events}}}: instructions and cycles by machine, by program and by function, of the machines whose times are whole."""
    machines, programs, functions = {}, {}, {}

    def add(name, program, kind, counter, events, function=None):
        for sums, key in ((machines, (name, kind)), (programs, (name, program, kind)), (functions, function)):
            if key and counter in ("InstructionRetired", "TotalCycles"):
                row = sums.setdefault(key, {})
                row[counter] = events if row.get(counter) is None else row[counter] + (events or 0)

    for name, host in world.hosts.items():
        if not whole(host):
            continue
        for _, pid, program, _, counter, interval, module, offset, method, _ in counted(host):
            if pid:
                add(name, program, "samples", counter, interval and interval * len(host.streams), tuple(text and text.lower() for text in labelled(module, offset, method)))
        for (instance, _, tid, counter, _), (value, _) in naive_activity.counted(host.records, naive_activity.Whose(host.state)).items():
            if tid:
                add(name, image(host, instance), "switches", counter, value * len(host.streams))
    return {"ipc-by-machine": machines, "ipc-by-program": programs, "ipc-by-function": functions}


def rate(row):
    """Instructions, cycles and their ratio."""
    instructions, cycles = row.get("InstructionRetired"), row.get("TotalCycles") or None
    return instructions, cycles, instructions / cycles if instructions is not None and cycles else None


def judge_counted(world):
    """The tables module_counters, code_counters and function_counters; instructions per cycle by machine, by program and by function."""
    known = keys(world)
    for host in filter(whole, world.hosts.values()):
        of_module, of_code, of_function = (collections.defaultdict(collections.Counter) for _ in range(3))
        for instance, pid, _, source, _, interval, module, offset, method, _ in counted(host):
            for sums, place in ((of_module, (module,)), (of_code, (module, f"{offset:#x}", method)), (of_function, labelled(module, offset, method))):
                sums[(instance, pid, *place, source)].update(samples=1, events=interval or 0)
        compare(world, host, "module_counters", "", known, ["module", "source"], ["samples", "events"], of_module)
        compare(world, host, "code_counters", "", known, ["module", "offset", "method", "source"], ["samples", "events"], of_code)
        compare(world, host, "function_counters", "", known, ["module", "function", "source"], ["samples", "events"], of_function)
        sources = {row[3] for row in counted(host)}
        if sources:  # of a counter that no sample is of, the profile says which ones there are
            note = world.web.get("profile", host=host.name, weight="pmc:NoSuchCounter")["notes"]
            world.same("route /api/v1/profile", f"{host.name}, other counters", sorted(map(int, re.findall(r"\d+", note.partition(" of the sources ")[2]))), sorted(sources))
    columns = {"ipc-by-machine": ("host", "source"), "ipc-by-program": ("host", "image", "source"), "ipc-by-function": ("module", "function")}
    for query, sums in rates(world).items():
        got = [(*(row[name] if query != "ipc-by-function" else row[name] and row[name].lower() for name in columns[query]), row["instructions"], row["cycles"], row["ipc"])
               for row in world.get(f"queries/{query}", limit=10000)]
        world.same(f"query {query}", "all", got, [(*key, *rate(row)) for key, row in sums.items()])
