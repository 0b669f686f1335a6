"""Our class rows against Windows' own schema, row by row: names, order, types, pointer widths, array lengths and versions of
every event type in kernel-mof-fields.tsv, and event names against kernel-event-layouts.tsv. tests/golden/mof-differences.tsv
lists the known differences of Windows from its own schema, with the evidence. The test fails for a difference that is not in
that list, and for a line of the list that is no difference any more.
"""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import traces

ROOT = pathlib.Path(__file__).resolve().parents[2]

# MOF type and qualifiers -> what our row may say. The first is the plain one; the others show the same bytes better.
PLAIN = {"uint8": {"U8", "HEX8", "BOOL8"}, "uint16": {"U16", "HEX16"}, "uint32": {"U32", "HEX32", "BOOL32"},
         "uint64": {"U64", "HEX64", "FILETIME"}, "sint8": {"I8"}, "sint16": {"I16"}, "sint32": {"I32", "IPV4"},
         "sint64": {"I64"}, "boolean": {"BOOL8"}}
EXTENSION = {"GUID": {"GUID"}, "SizeT": {"SIZE"}, "Port": {"PORT"}, "IPAddr": {"IPV4"}, "IPAddrV4": {"IPV4"},
             "IPAddrV6": {"IPV6"}, "WmiTime": {"U64"}, "Sid": {"WBEM_SID"}}


def expected(mof_type, qualifiers):
    """(allowed types, element count or the name of the field that holds it)"""
    length = re.search(r"MAX\((\d+)\)", qualifiers)
    counted_by = re.search(r'WmiSizeIs\("(\w+)"\)', qualifiers)
    count = counted_by.group(1) if counted_by else int(length.group(1)) if length else 1
    extension = re.search(r'extension\("(\w+)"\)', qualifiers)
    if mof_type == "object":
        return (EXTENSION[extension.group(1)] if extension else {"an object of no class"}), count
    if mof_type == "string":
        return ({"UTF16Z"} if 'format("w")' in qualifiers else {"ANSIZ", "UTF8Z"}), count
    if mof_type == "char16":
        return {"UTF16_FIXED"}, count
    if "pointer" in qualifiers or "PointerType" in qualifiers:
        return {"POINTER", "SIZE"}, count
    if mof_type == "uint8" and length:
        return {"BYTES"}, count
    return PLAIN[mof_type], count


MOF, LAYOUTS = "kernel-mof-fields.tsv", "kernel-event-layouts.tsv"  # what Windows' own schema says, as tables


def reference(name, build):
    with open(traces.document(name, build), encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def mof_classes(build):
    """{(provider, opcode, version): [(field, mof type, qualifiers)]}"""
    found = {}
    for row in reference(MOF, build):
        for opcode in row["event_types"].split(","):
            fields = found.setdefault((row["provider_guid"], int(opcode), int(row["version"])), [])
            if row["field"]:
                fields.append((row["field"], row["mof_type"], row["qualifiers"]))
    return found


def top_level(fields):
    """Top-level fields of one class; members of a struct belong to it (none of these structs nests)."""
    skip = 0
    for field in fields:
        if skip:
            skip -= 1
            continue
        skip = field.get("members", 0)
        yield field


def differences(ours, theirs):
    """Sentences, one a difference in the fields."""
    ours = list(top_level(ours))
    names, their_names = [f["name"] for f in ours], [f[0] for f in theirs]
    if names != their_names:
        yield f"fields: {','.join(n for n in names if n not in their_names) or '-'} for " \
              f"{','.join(n for n in their_names if n not in names) or '-'}"
    by_name = {f["name"]: f for f in ours}
    for name, mof_type, qualifiers in theirs:
        if name not in by_name:
            continue
        allowed, count = expected(mof_type, qualifiers)
        field = by_name[name]
        if field["type"] not in allowed:
            yield f"{name}: {field['type']} for {mof_type}"
        if field["count"] != count:
            yield f"{name}: {field['count']} elements for {count}"
        if field.get("optional"):
            yield f"{name}: optional"


def check_opcodes(ours, checks):
    """Every kernel event that a public header names has a class, with a layout where one is public."""
    with open(ROOT / "tests" / "golden" / "kernel-opcodes.tsv", encoding="utf-8", newline="") as lines:
        listed = list(csv.DictReader(lines, delimiter="\t"))
    known = {}
    for (provider, opcode, _), c in ours.items():
        known[provider, opcode] = known.get((provider, opcode), False) or c["known"]
    for row in listed:
        key = (row["provider"], int(row["opcode"]))
        if checks.that(key in known, f"no class for {row['name in ntwmi.h']} {key}"):
            checks.equal(known[key], row["layout"] == "yes", f"{row['name in ntwmi.h']} {key}: a layout")
    without = sum(row["layout"] != "yes" for row in listed)
    checks.that(len(listed) > 550, f"{len(listed)} event types in the list")
    print(f"{len(listed)} event types of public headers: {without} of them without a public layout have a name alone")


# A field of such a name stands for such a thing: one of these semantics, a map of names ("map"), or a type that says it.
KINDS = [
    (r"status", {"NTSTATUS", "WIN32_ERROR", "HRESULT", "map"}),
    (r"irp(ptr)?$", {"IRP"}),
    (r"wait_?(reason|mode)|threadstate$", {"map"}),
    (r"flags?\d?$|groupmask|logfilemode|log.*mode$", {"map"}),
    (r"threadid$|^ttid$|edtid$", {"TID"}),
    (r"^pid$|processid$|[a-z]pid$|parentid$", {"PID", "PARENT_PID"}),
    (r"fileobject|filekey", {"FILE_OBJECT", "FILE_KEY"}),
    (r"^kcb|keyhandle", {"KCB"}),
    (r"sid$", {"SID", "WBEM_SID"}),
    (r"^[sd]port$", {"PORT"}),
    (r"^[sd]addr$", {"IP"}),
    (r"path$|filename$|directory$", {"PATH", "REGISTRY_PATH"}),
    (r"^keyname$", {"REGISTRY_PATH"}),
    (r"time$|timestamp$", {"QPC", "DURATION_QPC", "UNIX_TIME", "FILETIME", "SYSTEMTIME"}),
    (r"address$|base$|routine|callback$", {"ADDRESS", "IMAGE_BASE"}),
    (r"bytes$|^size$|transfersize|iosize|(image|region|view|module)size", {"BYTE_COUNT"}),
    (r"(^|[a-z])cpu$|processor(index|number)$", {"CPU"}),
    (r"sessionid$", {"SESSION_ID"}),
    (r"(reason|action|type|level|state|infoclass|majorfunction)$", {"map"}),
]
NUMBERS = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "HEX8", "HEX16", "HEX32", "HEX64", "POINTER", "SIZE", "BOOL8", "BOOL32",
           "FILETIME", "IPV4", "IPV6", "PORT"}


def check_kinds(ours, checks):
    """Fields whose names suggest a kind have its semantic, names for their numbers, or a reason why not."""
    with open(ROOT / "tests" / "golden" / "fields-without-kind.tsv", encoding="utf-8", newline="") as lines:
        excused = {(row["field"], row["class"]): row["reason"] for row in csv.DictReader(lines, delimiter="\t")}
    checks.that(all(len(reason) > 15 for reason in excused.values()), "each exception has its reason")
    used, right = set(), 0
    for c in ours.values():
        for field in c["fields"]:
            name = field["name"]
            for pattern, kinds in KINDS:
                if not re.search(pattern, name, re.IGNORECASE):
                    continue
                has = {field.get("semantic"), field["type"], "map" if field.get("map") else None}
                if has & kinds:
                    right += 1
                elif field["type"] in NUMBERS or "PATH" in kinds or "REGISTRY_PATH" in kinds:
                    key = next((k for k in ((name, c["name"]), (name, c["name"].split("/")[0] + "/*"), (name, "*")) if k in excused), None)
                    used.add(key)
                    checks.that(key, f"no kind:\t{name}\t{c['name']}\t{field['type']}, expected {'/'.join(sorted(kinds))}")
                break
    for gone in sorted(set(excused) - used):
        checks.that(False, f"an exception that is none any more: {gone}")
    checks.that(right > 1500, f"{right} fields have the kind that their name suggests")
    print(f"{right} fields have the kind that their name suggests, {len(excused)} names are excused")


def check_providers(agent, checks):
    """Without TDH "providers" is what this program knows itself, in the order and form of "schema list" and "schema show"."""
    def said(*words):
        done = subprocess.run([agent, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout
    name = "microsoft-windows-dotnetruntime"
    checks.equal(said("providers", "--json"), said("schema", "list", "--json"), "all providers")
    checks.equal(said("providers", name), said("schema", "show", name), "one provider")
    checks.that("GC/Start" in said("providers", name)[1], "its events are printed")
    checks.equal(said("providers", "no-such-provider")[0], 1, "exit code for an unknown provider")


def check_layouts(ours, build, checks):
    """Every event type of Windows' own schema: its fields are ours but for differences that are known, with their evidence."""
    names = {(row["category"].strip("{}"), int(row["event_id"]), int(row["version"])):
             row["event(fields)"].split("_")[0] + "/" + row["event_type"] for row in reference(LAYOUTS, build)}
    with open(ROOT / "tests" / "golden" / "mof-differences.tsv", encoding="utf-8", newline="") as lines:
        allowed = {(row["provider"], int(row["opcode"]), int(row["version"]), row["difference"]): row["evidence"]
                   for row in csv.DictReader(lines, delimiter="\t")}
    checks.that(all(len(evidence) > 20 for evidence in allowed.values()), "each known difference names its evidence")
    seen, agreeing, types = set(), 0, mof_classes(build)
    checks.equal(len(types), 512, "event types in the reference")
    for key, fields in sorted(types.items()):
        if not checks.that(key in ours["8"], f"no row for {key} {names.get(key)}"):
            continue
        ours_8, ours_4 = ours["8"][key], ours["4"][key]
        found = list(differences(ours_8["fields"], fields))
        if key in names and ours_8["name"] != names[key]:
            found.append(f"name: {ours_8['name']} for {names[key]}")
        strip = lambda c: [{k: v for k, v in f.items() if k != "offset"} for f in c["fields"]]
        checks.equal(strip(ours_4), strip(ours_8), f"{key}: fields at both pointer sizes")
        agreeing += not found
        for difference in found:
            seen.add(key + (difference,))
            checks.that(key + (difference,) in allowed, f"new difference: {chr(9).join(map(str, key))}\t{difference}\t")
    for gone in sorted(set(allowed) - seen):
        checks.that(False, f"no difference any more: {gone}")
    print(f"{len(types)} event types: {agreeing} exactly as in the schema, {len(types) - agreeing} with known differences; "
          f"{len(ours['8']) - len(types)} beyond it")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    arguments = parser.parse_args()
    checks, build = harness.Checks(), pathlib.Path(arguments.build).resolve()
    agent = build / "service" / "app" / "etwagent"
    ours = {}
    for pointer_size in ("8", "4"):
        printed = subprocess.run([agent, "schema", "--json", "--pointer-size", pointer_size], stdout=subprocess.PIPE, check=True)
        ours[pointer_size] = {(c["provider"], c["opcode"], c["version"]): c for c in json.loads(printed.stdout) if c["classic"]}
    if checks.real("schema: the layouts of 512 event types as Windows' own schema has them", MOF, LAYOUTS):
        check_layouts(ours, build, checks)
    check_opcodes(ours["8"], checks)
    check_kinds(ours["8"], checks)
    check_providers(agent, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
