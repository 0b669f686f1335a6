"""Our decoding against what another program (Microsoft.Diagnostics.Tracing.TraceEvent) printed of the same traces:
traceevent-baseline.txt. For each of its event kinds in tests/golden/traceevent-names.tsv, the COUNT line agrees with our
count, and each event that it printed is found at the same time on the same CPU with the same payload length, all of its
printed fields agreeing. tests/golden/traceevent-fields.tsv says what it calls our fields, and how it makes a
value of its own out of one of ours (@ names a key of the event, not a field); differences that are known are in
tests/golden/traceevent-differences.tsv, one by one with the reason; a new one fails, and so does one that is gone.
"""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import traces

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
IRP_FLAGS = {"none": 0, "nocache": 1, "pagingio": 2, "mountcompletion": 2, "synchronousapi": 4, "associatedirp": 8,
             "bufferedio": 0x10, "deallocatebuffer": 0x20, "inputoperation": 0x40, "synchronouspagingio": 0x40,
             "create": 0x80, "read": 0x100, "write": 0x200, "close": 0x400}
PRIORITY = ["NotSet", "Verylow", "Low", "Normal", "High", "Critical"]  # bits 17 to 19 of an IRP's flags
CUT = 20  # it cuts longer texts to so many characters and adds "..."
EVENT = re.compile(r"EVENT ([\d,.]+): (.+?) PID=(-?\d+); TID=(-?\d+); PName=(.*?); ProceNum=(\d+); DataLen=(\d+); (.*)$")


def table(name):
    with open(GOLDEN / name, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_baseline(path):
    """{kind: count}, [(kind, milliseconds, cpu, payload length, {field: text})]"""
    counts, events = {}, []
    for line in open(path, encoding="utf-8-sig"):
        line = line.rstrip("\n")
        if line.startswith("COUNT "):
            kind, count = line[len("COUNT "):].rsplit(":", 1)
            counts[kind] = int(count)
        match = EVENT.match(line)
        if match:
            fields = dict(part.split("=", 1) for part in match.group(8).split("; ") if "=" in part)
            events.append((match.group(2), match.group(1).replace(",", ""), int(match.group(6)), int(match.group(7)), fields))
    return counts, events


class Ours:
    """Our events of the wanted kinds, and what compares a value of theirs with ours."""

    def __init__(self, agent, paths, names):
        self.by_kind, self.volumes = {}, []
        kinds = {(provider, name): kind for kind, provider, name in names}
        command = [agent, "dump", "--format", "jsonl", "--raw", *paths]
        first = None
        named_command = [c for c in command if c != "--raw"]  # the same lines, with what other events say about each
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE) as process, \
                subprocess.Popen([str(c) for c in named_command], stdout=subprocess.PIPE) as named:
            for line, named_line in zip(process.stdout, named.stdout):
                event = json.loads(line)
                first = event["clock"] if first is None else first
                kind = kinds.get((event["provider"], event["name"]))
                if event["name"] == "SysConfigEx/VolumeMapping" and event["fields"]["DosPath"]:
                    self.volumes.append((event["fields"]["NtPath"], event["fields"]["DosPath"]))
                if event["name"] == "SysConfigEx/SystemPaths":
                    self.volumes.append(("\\Windows\\", event["fields"]["SystemDirectory"][:2] + "\\Windows\\"))
                if kind:
                    file = json.loads(named_line)["fields"].get("FileObject") if b'"FileObject"' in named_line else None
                    event["file_name"] = file["name"] if isinstance(file, dict) else ""
                    event["ticks"] = event["clock"] - first
                    event.update(json.loads(named_line)["derived"] if b'"derived"' in named_line else {})
                    self.by_kind.setdefault(kind, []).append(event)
        if process.returncode or named.returncode:
            raise harness.Failure(f"{command} ended with {process.returncode}, without --raw with {named.returncode}")
        header = self.by_kind.get("Windows Kernel/EventTrace", [{}])[0].get("fields", {})
        self.frequency = header.get("PerfFreq") or 10_000_000
        self.places = {}
        for kind, events in self.by_kind.items():
            for event in events:
                # it rounds to microseconds in its own way: both neighbours will do
                microseconds = event["ticks"] * 1_000_000 // self.frequency
                for near in (microseconds, microseconds + 1):
                    self.places.setdefault((kind, near, event["cpu"], len(event["payload"]) // 2), []).append(event)

    def dos_path(self, path):
        for nt, dos in sorted(self.volumes, reverse=True):
            if path.lower().startswith(nt.lower()):
                return dos + path[len(nt):]
        return path

    def derived(self, how, value, event):
        """What it makes of one of our values (or of the event's header)."""
        if how == "path":
            return self.dos_path(value)
        if how == "seconds":
            return time.strftime("%y/%m/%d %H:%M:%S.000", time.gmtime(value))
        if how == "ticks":
            return f"{value * 1000 / self.frequency:.3f}"
        if how == "since":
            return f"{(event['clock'] - value) * 1000 / self.frequency:.3f}"
        if how == "priority":
            return PRIORITY[int(value["value"], 16) >> 17 & 7]
        if how.startswith("bits "):
            low, count = map(int, how.split()[1:])
            bits = value >> low & (1 << count) - 1
            return bool(bits) if count == 1 else bits
        if how == "file":
            return value.rsplit("\\", 1)[-1]
        if how == "bias":
            return int.from_bytes(bytes.fromhex(value[:8]), "little", signed=True)
        return value

    def agrees(self, theirs, ours, how):
        if how == "irp_flags":
            names = [n for n in re.split(r"[, ]+", theirs.lower().removesuffix("...")) if n]
            known = [IRP_FLAGS[n] for n in names if n in IRP_FLAGS]  # the last one may be cut
            bits = int(ours["value"], 16) & ~0xe0000
            return all(bits & b == b for b in known) and (theirs.endswith("...") or bits == sum(set(known)))
        if how in ("ticks", "since"):
            return abs(float(theirs.replace(",", "")) - float(ours)) < 0.0015
        if isinstance(ours, dict):  # a number with a name
            names = {n.lower() for n in re.split(r"[|, ]+", ours["name"] or "") if n}
            if theirs.endswith("...") and (ours["name"] or "").replace("|", ", ")[:CUT] == theirs[:-3]:
                return True
            value = ours["value"] if isinstance(ours["value"], int) else int(ours["value"], 16)
            return value == 0 if theirs == "None" else names == {n.lower() for n in re.split(r"[, ]+", theirs)} or \
                self.agrees(theirs, ours["value"], how)
        if isinstance(ours, bool):
            return theirs == str(ours)
        if isinstance(ours, str) and re.fullmatch(r"0x[0-9a-f]+", ours) and not theirs.startswith("\\"):
            ours = int(ours, 16)
        if isinstance(ours, int):
            number = theirs.replace(",", "")
            if re.fullmatch(r"0x[0-9a-f]+", number):
                return int(number, 16) == ours
            return bool(re.fullmatch(r"-?\d+", number)) and (int(number) - ours) % (1 << 32 if ours < 1 << 32 else 1 << 64) == 0
        if re.match(r"\d{4}-\d\d-\d\dT", ours):
            ours = ours.replace("-", "/").replace("T", " ")[2:]
        if theirs.endswith("...") and len(theirs) == CUT + 3:
            return ours[:CUT] == theirs[:-3]
        return ours == theirs


def compare(name, counts, events, ours, renamed, checks, found):
    """Adds (kind, what): example to found for each difference."""
    kinds = {kind for kind, _, _ in ours.names}
    for kind, count in counts.items():
        if kind not in kinds:
            continue
        got = len(ours.by_kind.get(kind, []))
        if got != count:
            found[(kind, "count")] = f"{name}: {count} there, {got} here"
        checks.passed += 1
    for kind, milliseconds, cpu, length, fields in events:
        if kind not in kinds:
            continue
        candidates = ours.places.get((kind, int(milliseconds.replace(".", "")), cpu, length), [])
        if not checks.that(candidates, f"{name}: no {kind} of {length} bytes at {milliseconds} ms on CPU {cpu}"):
            continue
        best = None
        for event in candidates:
            wrong = []
            for field, text in fields.items():
                our_field, how = renamed.get((kind, field)) or renamed.get(("*", field)) or (field, "")
                value = event[our_field[1:]] if our_field.startswith("@") else event["fields"].get(our_field)
                if value is None and not text:
                    continue  # it prints a name and nothing for what only other versions have
                if value is None:
                    wrong.append((field, f"{text!r}, no field {our_field}"))
                elif not ours.agrees(text, ours.derived(how, value, event), how):
                    wrong.append((field, f"{text!r} there, {value!r} here"))
            if best is None or len(wrong) < len(best):
                best = wrong
        for field, example in best:
            found.setdefault((kind, field), f"{name} at {milliseconds} ms: {example}")
        checks.passed += len(fields) - len(best)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with the programs")
    arguments = parser.parse_args()
    checks, found, used = harness.Checks(), {}, set()
    agent = pathlib.Path(arguments.build).resolve() / "service" / "app" / "etwagent"
    names = [(row["traceevent"], row["provider"], row["name"]) for row in table("traceevent-names.tsv")]
    renamed = {(row["traceevent"], row["field"]): (row["our_field"], row["how"]) for row in table("traceevent-fields.tsv")}
    known = {(row["traceevent"], row["what"]): row["reason"] for row in table("traceevent-differences.tsv")}
    checks.that(all(len(reason) > 15 for reason in known.values()), "each known difference has its reason")
    baselines = [f"{name}/traceevent-baseline.txt" for name in ("clr-gc-events", "clr-kernel-win8-x64", "tracelogging-primitive-types")]
    if not checks.real("baseline: names, fields and counts of three traces as TraceEvent prints them", *baselines):
        return checks.finish()
    for baseline in baselines:
        name = baseline.split("/")[0]
        counts, events = read_baseline(traces.document(baseline, arguments.build))
        ours = Ours(agent, traces.paths(name, arguments.build), names)
        ours.names = names
        used |= set(counts)
        compare(name, counts, events, ours, renamed, checks, found)
    for difference, example in sorted(found.items()):
        checks.that(difference in known, f"new difference: {chr(9).join(difference)}\t{example}")
    for gone in sorted(set(known) - set(found)):
        checks.that(False, f"no difference any more: {gone}")
    for kind, _, _ in names:
        checks.that(kind in used, f"{kind} is in no baseline")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
