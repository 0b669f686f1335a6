"""Checkers of the forms that `etwcollector profile` prints, each written from the form's own description: google/pprof
proto/profile.proto, speedscope's file-format-schema.json, "Trace Event Format" (stackFrames and samples), and the processed format
of firefox-devtools/profiler. Each returns what is in the file as {(label, ... from the root to the leaf): weight}, so that the
forms can be compared; what is wrong raises Wrong.
"""
import collections
import gzip
import json


class Wrong(Exception):
    """The file is not what its form says; the message says where."""


def need(condition, what):
    if not condition:
        raise Wrong(what)


# ---- pprof ----

def varint(data, at):
    value = shift = 0
    while True:
        need(at < len(data) and shift < 70, "a varint does not end")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value & (1 << 64) - 1, at


def message(data):
    """[(field, wire type, value)]"""
    at, fields = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            need(at + length <= len(data), "a field is longer than its message")
            value, at = data[at:at + length], at + length
        else:
            raise Wrong(f"wire type {key & 7}, which the .proto has nowhere")
        fields.append((key >> 3, key & 7, value))
    return fields


def typed(data, kinds, repeated=()):
    """A message by its .proto: kinds {field: "int" | "bytes"}; packed numbers of a repeated one become a list."""
    out = {field: [] for field in repeated}
    for field, wire, value in message(data):
        need(field in kinds, f"field {field}, which the message has not")
        if field in repeated:
            if kinds[field] == "int" and wire == 2:
                at = 0
                while at < len(value):
                    number, at = varint(value, at)
                    out[field].append(number)
            else:
                out[field].append(value)
        else:
            need(wire == (0 if kinds[field] == "int" else 2), f"field {field} has wire type {wire}")
            out[field] = value
    return out


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def pprof(data):
    names = {1: "bytes", 2: "bytes", 3: "bytes", 4: "bytes", 5: "bytes", 6: "bytes", 7: "int", 8: "int", 9: "int", 10: "int",
             11: "bytes", 12: "int", 13: "int", 14: "int"}
    top = typed(gzip.decompress(data), names, (1, 2, 3, 4, 5, 6, 13))
    strings = [s.decode("utf-8") for s in top[6]]
    need(strings and strings[0] == "", "string_table[0] must be empty")
    types = [typed(t, {1: "int", 2: "int"}) for t in top[1]]
    need(types and all(t.get(1, 0) < len(strings) and t.get(2, 0) < len(strings) for t in types), "a value type's names")
    mappings = {}
    for data_of in top[3]:
        m = typed(data_of, {k: "int" for k in range(1, 11)})
        need(m.get(1) and m[1] not in mappings and m[3] >= m[2] and m.get(5, 0) < len(strings), "a mapping")
        mappings[m[1]] = m
    functions = {}
    for data_of in top[5]:
        f = typed(data_of, {k: "int" for k in range(1, 6)})
        need(f.get(1) and f[1] not in functions and all(f.get(k, 0) < len(strings) for k in (2, 3, 4)), "a function")
        functions[f[1]] = strings[f[2]]
    locations = {}
    for data_of in top[4]:
        place = typed(data_of, {1: "int", 2: "int", 3: "int", 4: "bytes", 5: "int"}, (4,))
        need(place.get(1) and place[1] not in locations and place.get(2, 0) in {0, *mappings}, "a location")
        if place.get(2):
            need(mappings[place[2]][2] <= place[3] <= mappings[place[2]][3], "a location outside its mapping")
        lines = [typed(line, {1: "int", 2: "int", 3: "int"}) for line in place[4]]
        need(lines and all(line[1] in functions for line in lines), "a location's line")
        locations[place[1]] = functions[lines[0][1]]
    stacks = collections.Counter()
    for data_of in top[2]:
        sample = typed(data_of, {1: "int", 2: "int", 3: "bytes"}, (1, 2, 3))
        need(len(sample[2]) == len(types), "a sample has as many values as there are types")
        need(all(place in locations for place in sample[1]), "a sample's location")
        stacks[tuple(locations[place] for place in reversed(sample[1]))] += signed(sample[2][-1])
    return stacks


# ---- the others ----

def folded(text, columns=1):
    stacks = collections.Counter()
    for line in text.splitlines():
        parts = line.rsplit(" ", columns)
        need(len(parts) == columns + 1, f"no {columns} numbers at the end: {line[-60:]}")
        stacks[tuple(parts[0].split(";"))] += int(parts[-1])
    return stacks


def speedscope(text, which=0):
    file = json.loads(text)
    need(file["$schema"] == "https://www.speedscope.app/file-format-schema.json", "$schema")
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    need(all(set(f) <= {"name", "file", "line", "col"} for f in file["shared"]["frames"]), "a frame's members")
    for profile in file["profiles"]:
        need(set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, "a profile's members")
        need(profile["type"] == "sampled" and profile["unit"] in ("none", "nanoseconds"), "type and unit")
        need(len(profile["samples"]) == len(profile["weights"]), "as many samples as weights")
        need(sum(profile["weights"]) == profile["endValue"] - profile["startValue"], "the weights' sum")
    stacks = collections.Counter()
    profile = file["profiles"][which]
    for sample, weight in zip(profile["samples"], profile["weights"]):
        need(all(0 <= frame < len(frames) for frame in sample), "a frame's index")
        stacks[tuple(frames[frame] for frame in sample)] += weight
    return stacks


def chrome(text):
    file = json.loads(text)
    need(set(file) == {"displayTimeUnit", "traceEvents", "stackFrames", "samples"}, "members")
    for event in file["traceEvents"]:
        need({"name", "ph", "pid", "tid", "ts"} <= set(event) and event["ph"] == "M", "a metadata event")
    named = [event["tid"] for event in file["traceEvents"] if event["name"] == "thread_name"]
    of = {(event["pid"], event["tid"]) for event in file["traceEvents"] if event["name"] == "thread_name"}
    need(len(set(named)) == len(named) and {(sample["pid"], sample["tid"]) for sample in file["samples"]} == of, "each thread has a number of its own, and samples")
    frames = file["stackFrames"]
    for frame in frames.values():
        need({"name", "category"} <= set(frame) and frame.get("parent", next(iter(frames))) in frames, "a frame's parent")
    stacks, last = collections.Counter(), -1
    for sample in file["samples"]:
        need({"cpu", "pid", "tid", "ts", "name", "sf", "weight"} == set(sample) and sample["sf"] in frames, "a sample")
        need(sample["ts"] >= last, "samples are in the order of time")
        last, at, path = sample["ts"], sample["sf"], []
        while at is not None:
            path.append(frames[at]["name"])
            need(len(path) < 10000, "frames in a circle")
            at = frames[at].get("parent")
        stacks[tuple(reversed(path))] += sample["weight"]
    return stacks


def firefox_thread(thread, categories):
    """The stacks of a thread, and [(time in ms, weight)] of its samples."""
    columns = {"frameTable": {"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
                              "implementation", "line", "column"},
               "funcTable": {"name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"},
               "resourceTable": {"lib", "name", "host", "type"}, "stackTable": {"prefix", "frame", "category", "subcategory"},
               "nativeSymbols": {"libIndex", "address", "name", "functionSize"},
               "markers": {"category", "data", "endTime", "name", "phase", "startTime"}, "samples": {"stack", "time", "weight"}}
    for name, has in columns.items():
        table = thread[name]
        need(has <= set(table), f"{name}: {sorted(has - set(table))} are missing")
        need(all(len(table[column]) == table["length"] for column in has), f"{name}: columns of its length")
    strings, stack_table, frame_table, functions = (thread[k] for k in ("stringArray", "stackTable", "frameTable", "funcTable"))
    need(all(0 <= name < len(strings) for name in functions["name"] + thread["resourceTable"]["name"]), "names")
    need(all(-1 <= r < thread["resourceTable"]["length"] for r in functions["resource"]), "resources")
    need(all(0 <= f < functions["length"] for f in frame_table["func"]), "functions")
    need(all(0 <= c < categories for c in frame_table["category"] + stack_table["category"]), "categories")
    need(all(0 <= f < frame_table["length"] for f in stack_table["frame"]), "frames")
    need(all(p is None or 0 <= p < i for i, p in enumerate(stack_table["prefix"])), "a stack is after its prefix")
    samples = thread["samples"]
    need(samples["length"] and samples["weightType"] in ("samples", "tracing-ms") and samples["time"] == sorted(samples["time"]), "samples")
    scale = 1000000 if samples["weightType"] == "tracing-ms" else 1
    stacks = collections.Counter()
    for at, weight in zip(samples["stack"], samples["weight"]):
        path = []
        while at is not None:
            path.append(strings[functions["name"][frame_table["func"][stack_table["frame"][at]]]])
            at = stack_table["prefix"][at]
        stacks[tuple(reversed(path))] += round(weight * scale)
    return stacks


def firefox(text):
    file = json.loads(text)
    need({"meta", "libs", "threads"} <= set(file), "members")
    need(file["meta"]["preprocessedProfileVersion"] == 47 and file["meta"]["categories"], "meta")
    need(len({thread["tid"] for thread in file["threads"]}) == len(file["threads"]), "each thread has a number of its own")
    mains = collections.Counter(thread["pid"] for thread in file["threads"] if thread["isMainThread"])
    need(mains == collections.Counter({thread["pid"] for thread in file["threads"]}), "one main thread a process")
    stacks = collections.Counter()
    for thread in file["threads"]:
        stacks += firefox_thread(thread, len(file["meta"]["categories"]))
    return stacks


def tree(text, column=3):
    """The JSON for flame graphs: nodes whose totals are their own and their children's. column: of the total."""
    file = json.loads(text)
    nodes, stacks = file["nodes"], collections.Counter()
    sums = [node[column - 1] for node in nodes]
    for i in range(len(nodes) - 1, -1, -1):
        need(-1 <= nodes[i][0] < i, "a node is after its parent")
        need(sums[i] == nodes[i][column], f"node {i}: the total is the sum of what is below")
        if nodes[i][0] >= 0:
            sums[nodes[i][0]] += sums[i]
    for node in nodes:
        path, at = [], node
        while True:
            need(-len(file["processes"]) <= at[1] < len(file["frames"]), "a node's frame")
            path.append(file["processes"][-1 - at[1]] if at[1] < 0 else file["frames"][at[1]]["label"])
            if at[0] < 0:
                break
            at = nodes[at[0]]
        if node[column - 1]:
            stacks[tuple(reversed(path))] += node[column - 1]
    need(all(frame["module"] < len(file["modules"]) for frame in file["frames"]), "a frame's module")
    return stacks
