"""Judges of profiles: samples by program and by module, and every event by its stack, out of the exhaustive join of naive_stacks and the modules
of each process, searched one by one."""
import collections
import functools
import json

import naive_activity
import naive_stacks
import test_profile
from judge_activity import image, whole


@functools.cache
def joined(host):
    """(the join of all stacks, (record, addresses) of each event that has one or is a sample)"""
    join = naive_stacks.Join(host.records)
    found = []
    for event in join.events:
        addresses = tuple(a for half in ("kernel", "user") for a in event.halves.get(half, ((),))[0] or ())
        record = host.records[event.ordinal]
        if addresses or record["name"] == "PerfInfo/SampleProf":
            found.append((event, record, addresses))
    return found


@functools.cache
def sampled(host):
    """Samples by program, by the module that ran, and by the place in it."""
    whose, modules = naive_activity.Whose(host.state), test_profile.NaiveModules(host.records)
    programs, ran, places = collections.Counter(), collections.Counter(), collections.Counter()
    for event, record, addresses in joined(host):
        if record["name"] != "PerfInfo/SampleProf":
            continue
        instance, pid = whose.thread(event.tid, record)
        programs["Idle" if pid == 0 else image(host, instance) or "?"] += record["fields"]["Count"]
        address = addresses[0] if addresses else int(record["fields"]["InstructionPointer"], 0)
        name, method = modules.find(pid, address, event.clock)
        ran[name.lower()] += record["fields"]["Count"]
        there = [row for row in modules.rows[0 if address >> 63 else pid] if row[0] <= address < row[0] + row[1] and (row[2] or 0) <= event.clock and (row[3] is None or event.clock < row[3])]
        places[f"{there[0][4]}+{address - there[0][0]:#x}" if there and not method else method or "?"] += record["fields"]["Count"]
    return programs, ran, places


def times(counter, n):
    return {key: value * n for key, value in counter.items()}


def judge_profiles(world):
    """The route of profiles, and the table stacks."""
    for name, host in world.hosts.items():
        if not whole(host) or not joined(host):
            continue
        runs = len(host.streams)
        want = collections.Counter((record["name"] or "?", naive_stacks.ANY if event.tid is None else event.tid, addresses) for event, record, addresses in joined(host) if addresses)
        got = collections.Counter()
        for row in world.sql(f"SELECT name, tid, count, frames FROM stacks WHERE host = '{name}'"):
            got[row["name"], naive_stacks.ANY if row["tid"] is None else row["tid"], tuple(int(f["address"], 16) for f in json.loads(row["frames"]))] += row["count"]
        world.same("table stacks", name, got, times(want, runs))
        programs, ran, _ = sampled(host)
        if not programs:
            continue
        told = world.web.get("profile", host=name, weight="samples")
        got = collections.Counter()
        for parent, frame, _, total in told["nodes"]:
            if parent < 0:
                got[told["processes"][-1 - frame]] += total
        world.same("route /api/v1/profile", name, got, times(programs, runs))
        got = collections.Counter()
        for row in told["top_modules"]:
            if row["self"]:
                got[told["modules"][row["module"]]["name"].lower()] += row["self"]
        world.same("route /api/v1/profile", name, got, times(ran, runs))
