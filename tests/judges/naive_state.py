"""A machine's state, recomputed the simple way from the lines of `etwagent dump --format jsonl`, by the rules that
proto/state/machine.h states: a list of instances, searched. It shares no code with the program that it judges.

Times are whole units of 100 ns since 1970, as the lines print them; "the same time" means the same raw clock.

Run by itself it prints what lived when:  etwagent dump --format jsonl TRACE... | python3 naive_state.py
"""
import datetime
import functools
import json
import sys

PROCESS, THREAD = "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"
IMAGE, IMAGE_ID = "2cb15d1d-5fc1-11d2-abe1-00a0c911f518", "b3e675d7-2554-4f18-830b-2762732560de"
EVENT_TRACE = "68fdd900-4a3e-11d1-84f4-0000f80464e3"
NO_GUID = "00000000-0000-0000-0000-000000000000"
ANNOUNCE = "0c87d9d8-75dd-5ffe-41f3-d32f3c1cd564"
IMAGE_FILE = "7be2d0c4-91a3-4c5f-8e27-3d60b914fa58"
KERNEL_PROCESS, SECURITY = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", "54849625-5478-4994-a5ba-3e3b0328c30d"
PROVIDERS = (PROCESS, THREAD, IMAGE, IMAGE_ID, EVENT_TRACE, IMAGE_FILE, KERNEL_PROCESS, SECURITY)
DESCRIBED = {(KERNEL_PROCESS, 1), (KERNEL_PROCESS, 15), (SECURITY, 4688)}  # (provider, id): facts of a process
VERBS = {1: "start", 10: "start", 2: "end", 3: "rundown_start", 4: "rundown_end"}
FOREVER = 1 << 62
SECOND, MINUTE = 10_000_000, 60 * 10_000_000


@functools.lru_cache(4096)
def parse_seconds(text):
    return int(datetime.datetime.fromisoformat(text + "+00:00").timestamp()) * 10_000_000


def parse_time(text):
    """"2020-07-29T00:07:10.5988980Z" as units of 100 ns since 1970."""
    whole, fraction = text.rstrip("Z").split(".")
    return parse_seconds(whole) + int(fraction.ljust(7, "0")[:7])


@functools.lru_cache(4096)
def format_seconds(seconds):
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}"


def format_time(units):
    return f"{format_seconds(units // 10_000_000)}.{units % 10_000_000:07d}Z"


def number(value):
    """A field's number: plain, hex in a string, or beside its name."""
    if isinstance(value, dict):
        value = value["value"]
    return int(value, 0) if isinstance(value, str) else value


class Instance:
    """One process, thread or module from its beginning to its end."""

    def __init__(self, kind, key, time, clock, verb, earliest):
        self.kind, self.key = kind, key
        self.seen = time
        self.begin = time if verb == "start" else min(earliest, time)
        self.begin_clock = clock if verb == "start" else None
        self.known_by = verb
        self.end, self.ended_by = FOREVER, None
        self.end_clock = None
        self.values = {}

    def alive(self, time):
        return self.begin <= time < self.end

    def complete(self, values):
        for name, value in values.items():
            if value and not self.values.get(name):
                self.values[name] = value

    def get(self, name, default=0):
        return self.values.get(name, default)


class Machine:
    """feed() takes the lines in the order of the dump; instances is the result."""

    def __init__(self):
        self.instances = []
        self.newest = {}  # (kind, key) -> its newest instance
        self.first_time = None
        self.last_time = None
        self.waiting = {}  # (pid, base) -> what an image id said at waiting_clock
        self.waiting_clock = None
        self.facts = []  # [(pid, parent or 0, made at, record's time, values)] that wait for their process
        self.rundown = None  # (its beginning, the instances that were there and that it named, (kind, pid) that it named some of)

    # ---- looking ----

    def last_of(self, kind, key):
        return self.newest.get((kind, key))

    def open_of(self, kind, key):
        found = self.last_of(kind, key)
        return found if found and found.end == FOREVER else None

    def of_process(self, pid):
        """Open threads and modules under a pid."""
        return [i for i in self.newest.values() if i.kind != "process" and i.end == FOREVER and i.values["pid"] == pid]

    def alive(self, kind, time):
        return [i for i in self.instances if i.kind == kind and i.alive(time)]

    def at(self, kind, key, record):
        """The instance of a process or thread that was there when a record was logged; None when none is known."""
        clock = record["units"], record["clock"]
        if not hasattr(self, "known"):
            self.known = {}
            for i in self.instances:
                self.known.setdefault((i.kind, i.values["tid"] if i.kind == "thread" else i.key), []).append(i)
        there = [i for i in self.known.get((kind, key), ()) if i.from_key <= clock < i.to_key]
        return there[-1] if there else None

    def number(self):
        """Numbers the instances in the order in which they became known, as the collector does, and assigns a process to each. A
        process gets the parent that was known when the process was first seen. A thread or a module gets the process in which
        it lived, when that was known then or before the end of the thread or module."""
        by_pid, last = {}, {}
        for n, i in enumerate(self.instances, 1):
            i.number = n
            before = last.get((i.kind, i.key))
            i.from_key = i.begin_clock or (before.end_clock if before and before.end == i.begin else (i.begin, -FOREVER))
            i.to_key = i.end_clock or (FOREVER, FOREVER)
            last[i.kind, i.key] = i
            if i.kind == "process":
                by_pid.setdefault(i.key, []).append(i)
        for i in self.instances:
            pid = i.get("ppid") if i.kind == "process" else i.values["pid"]
            there = [p for p in by_pid.get(pid, ()) if p.begin <= i.seen < p.end and
                     (p.number < i.number or i.kind != "process" and p.seen < i.end)]
            i.owner = there[-1] if there else None

    # ---- changing ----

    def finish(self, instance, time, clock, cause):
        instance.end, instance.ended_by, instance.end_clock = time, cause, clock
        if instance.kind == "process":
            self.finish_within(instance.key, time, clock, cause)

    def finish_within(self, pid, time, clock, cause):
        """A process ended, or another one began under its pid: so do its threads and modules end."""
        for other in self.of_process(pid):
            if cause != "end" and other.begin_clock is None and other.seen > time:
                other.begin = max(other.begin, time)  # the next one's
            elif cause == "end" or other.begin_clock is None or other.begin_clock < clock:
                self.finish(other, time, clock, "process_end")

    def over(self, last, verb, time):
        """A rundown that comes late: what it names ended up to a minute later."""
        return last is not None and last.end != FOREVER and verb.startswith("rundown") and 0 < last.end - time < MINUTE

    def begin(self, kind, key, time, clock, verb):
        last = self.last_of(kind, key)
        instance = Instance(kind, key, time, clock, verb, last.end if last else self.first_time)
        self.instances.append(instance)
        self.newest[(kind, key)] = instance
        return instance

    def feed(self, line):
        time = parse_time(line["time"])
        if self.first_time is None:
            self.first_time = time
        self.last_time = max(time, self.last_time or time)
        provider, opcode, fields = line["provider"], line["opcode"], line["fields"]
        if (provider, line["id"]) in DESCRIBED:
            self.take_facts(provider, fields, time)
            return
        if provider == ANNOUNCE and line["id"] in (1, 2, 3):
            self.module(VERBS[line["id"]], {**fields, "ProcessId": line["pid"]}, time, (time, line["clock"]), line["pid"], kind="announced")
            return
        if line["id"] != 0 or provider not in PROVIDERS or provider in (KERNEL_PROCESS, SECURITY):
            return
        if provider == IMAGE_ID and opcode not in (0, 36) or provider == THREAD and opcode not in (1, 2, 3, 4, 72) or \
           provider == PROCESS and opcode not in (1, 2, 3, 4) or provider == IMAGE and opcode not in (2, 3, 4, 10) or \
           provider == EVENT_TRACE and opcode != 8 or provider == IMAGE_FILE and opcode != 1:
            return
        clock = time, line["clock"]  # files have clocks of their own
        if self.waiting and clock != self.waiting_clock:
            for (pid, base), values in self.waiting.items():
                module = self.last_of("module", (pid, base))
                if module:
                    module.complete(values)
            self.waiting = {}
        if provider == EVENT_TRACE:
            self.rundown_complete()
        elif provider == IMAGE_FILE:
            self.image_file(fields)
        elif provider == IMAGE_ID:
            self.image_id(opcode, fields, clock)
        elif provider == PROCESS:
            self.process(VERBS[opcode], fields, time, clock)
            self.use_facts(number(fields["ProcessId"]), time)
        elif provider == IMAGE:
            self.module(VERBS[opcode], fields, time, clock, line["pid"])
        elif opcode == 72:
            thread = self.open_of("thread", (number(fields["ThreadId"]), 0))
            if thread and number(fields["ThreadId"]):
                thread.values["name"] = fields["ThreadName"]
        else:
            self.thread(VERBS[opcode], fields, time, clock, line["cpu"])

    def rundown_complete(self):
        """(No line says of which session it is: the traces have one rundown at a time.)"""
        if not self.rundown:
            return
        (time, clock), named, within = self.rundown
        self.rundown = None
        for kind in ("module", "thread", "process"):
            for i in [i for i in self.newest.values() if i.kind == kind and i.end == FOREVER]:
                if i in named or i.get("kind") == "announced" or i.seen >= time or kind != "process" and (kind, i.values["pid"]) not in within:
                    continue
                self.finish(i, time, clock, "rundown")

    def fold(self, kind, key, verb, time, clock, values, same, announced=False):
        """The rules that all three kinds share. same(instance): whether the record can be about this instance."""
        last = self.last_of(kind, key)
        if verb == "rundown_start":
            if kind == "process" and key == 0:
                self.rundown = ((time, clock), set(), set())
            if self.rundown and not announced:
                self.rundown[1].add(last)
                self.rundown[2].add((kind, values.get("pid", key)))
        if verb == "start" and last is not None and last.begin_clock is None and time < last.seen and same(last):
            last.begin = last.seen = time  # the record came late: after younger records of its own instance
            last.begin_clock, last.known_by = clock, verb
            last.complete(values)
            return last
        if self.over(last, verb, time):
            if same(last):
                last.complete(values)
            return last
        is_open = last is not None and last.end == FOREVER
        if is_open and (verb == "start" or not same(last)):
            self.finish(last, time, clock, "replaced")
            is_open, last = False, None
        elif kind == "process" and verb == "start":
            self.finish_within(key, time, clock, "replaced")
        if is_open:
            last.complete(values)
            if verb == "end":
                self.finish(last, time, clock, "end")
            return last
        if verb == "end" and last is not None and last.ended_by in ("process_end", "rundown") and same(last):
            last.complete(values)
            last.end, last.ended_by, last.end_clock = time, "end", clock
            return last
        instance = self.begin(kind, key, time, clock, verb)
        instance.complete(values)
        process = self.last_of("process", values["pid"]) if kind != "process" else None
        if self.over(process, verb, time):
            self.finish(instance, process.end, clock, "process_end")
        if verb == "end":
            self.finish(instance, time, clock, "end")
        return instance

    def process(self, verb, fields, time, clock):
        pid, unique = number(fields["ProcessId"]), number(fields.get("UniqueProcessKey", 0))
        values = {
            "ppid": number(fields.get("ParentId", 0)), "session": number(fields.get("SessionId", 0)), "unique_key": unique,
            "directory_table_base": number(fields.get("DirectoryTableBase", fields.get("PageDirectoryBase", 0))),
            "flags": number(fields.get("Flags", 0)), "name": fields.get("ImageFileName"),
            "command_line": fields.get("CommandLine"), "sid": fields.get("UserSID"),
            "package": fields.get("PackageFullName"), "application": fields.get("ApplicationId"),
        }
        instance = self.fold("process", pid, verb, time, clock, values,
                             lambda other: not unique or not other.get("unique_key") or unique == other.get("unique_key"))
        instance.values["pid"] = pid
        if verb == "end":
            instance.values["exit_status"] = number(fields.get("ExitStatus", 0))

    def take_facts(self, provider, fields, time):
        """What another provider says of a process: label, elevation, logon session."""
        pid = number(fields["ProcessID" if provider == KERNEL_PROCESS else "NewProcessId"])
        values = {"mandatory_label": fields.get("MandatoryLabel")}
        if provider == KERNEL_PROCESS:
            parent, made = number(fields.get("ParentProcessID", 0)), parse_time(fields["CreateTime"])
            values["elevation_type"] = number(fields.get("ProcessTokenElevationType", 0))
            values["elevated"] = {None: None, 0: 1}.get(fields.get("ProcessTokenIsElevated"), 2)
        else:
            parent, made = 0, time
            values["elevation_type"] = {"%%1936": 1, "%%1937": 2, "%%1938": 3}.get(fields.get("TokenElevationType"), 0)
            values["elevated"] = {2: 2, 3: 1}.get(values["elevation_type"])
            if "TargetLogonId" in fields:
                values["logon_id"] = number(fields["TargetLogonId"]) or number(fields["SubjectLogonId"])
        if not any(values.get(name) for name in ("mandatory_label", "elevation_type", "logon_id")):
            return
        self.facts = self.facts[-63:] + [(pid, parent, made, time, values)]
        self.use_facts(pid, time)

    def use_facts(self, pid, now):
        process, kept = self.last_of("process", pid), []
        for facts in self.facts:
            of, parent, made, time, values = facts
            if of != pid or process is None:
                kept.append(facts)
            elif abs(now - time) > MINUTE:
                continue
            elif parent and process.get("ppid") and parent != process.get("ppid") or process.end < made or \
                    (abs(process.begin - made) > SECOND if process.known_by == "start" else made - process.seen > SECOND):
                kept.append(facts)
            else:
                process.complete(values)
        self.facts = kept

    def thread(self, verb, fields, time, clock, cpu):
        pid, tid = number(fields["ProcessId"]), number(fields["TThreadId"])
        stack = number(fields.get("StackBase", 0))
        values = {
            "stack_base": stack, "start_address": number(fields.get("StartAddr", 0)),
            "win32_start_address": number(fields.get("Win32StartAddr", 0)), "teb": number(fields.get("TebBase", 0)),
            "name": fields.get("ThreadName"), "pid": pid, "tid": tid,
        }
        if tid == 0:
            affinity = number(fields.get("Affinity", 0))
            values["cpu"] = affinity.bit_length() - 1 if affinity and affinity & (affinity - 1) == 0 else cpu
        instance = self.fold("thread", (tid, (stack or cpu) if tid == 0 else 0), verb, time, clock, values,
                             lambda other: other.values["pid"] == pid)
        instance.values.update(pid=pid, tid=tid)

    def module(self, verb, fields, time, clock, header_pid, kind="image"):
        base, size = number(fields.get("ImageBase", fields.get("BaseAddress"))), number(
            fields.get("ImageSize", fields.get("ModuleSize", 0)))
        pid = number(fields["ProcessId"]) if "ProcessId" in fields else header_pid
        values = {
            "size": size, "checksum": number(fields.get("ImageChecksum", 0)),
            "timestamp": number(fields.get("TimeDateStamp", 0)), "default_base": number(fields.get("DefaultBase", 0)),
            "path": fields.get("FileName", fields.get("ImageFileName")), "pid": pid, "base": base,
        }
        if fields.get("GuidSig", NO_GUID) != NO_GUID:
            values["pdb"] = fields["GuidSig"], number(fields["Age"]), fields["PdbFileName"]
        instance = self.fold("module", (pid, base), verb, time, clock, values,
                             lambda other: not size or not other.get("size") or size == other.get("size"), kind == "announced")
        instance.values.update(pid=pid, base=base)
        instance.values.setdefault("kind", kind)
        instance.complete(self.waiting.pop((pid, base), {}))

    def image_file(self, fields):
        """What the agent read in an image's file: of the module that has the path there now, or had it last."""
        module = self.last_of("module", (number(fields["ProcessId"]), number(fields["ImageBase"])))
        if module and module.get("path", "") == fields["FileName"]:
            module.complete({"file_bytes": number(fields["FileSize"]), "sha256": fields["Sha256"], "file_version": fields["FileVersion"], "company": fields["CompanyName"],
                             "product": fields["ProductName"], "size": number(fields["ImageSize"]), "checksum": number(fields["ImageChecksum"]),
                             "timestamp": number(fields["TimeDateStamp"]), "original_name": fields["OriginalFileName"],
                             **{name: fields.get(field, "") for name, field in (("description", "FileDescription"), ("md5", "Md5"), ("sha1", "Sha1"), ("imphash", "ImpHash"))}})

    def image_id(self, opcode, fields, clock):
        self.waiting_clock = clock
        values = self.waiting.setdefault((number(fields["ProcessId"]), number(fields["ImageBase"])), {})
        if opcode == 36:
            values.setdefault("pdb", (fields["GuidSig"], number(fields["Age"]), fields["PdbFileName"]))
        else:
            for name, value in (("size", number(fields["ImageSize"])), ("timestamp", number(fields["TimeDateStamp"])),
                                ("original_name", fields["OriginalFileName"])):
                if not values.get(name):
                    values[name] = value


def rundown_answer(lines):
    """The acceptance test that a rundown makes possible: what is open after the records before the first DCEnd, and what
    the DCEnd records then name. Returns ({kind: keys}, {kind: keys}, ends without a start by kind, time of the first DCEnd)."""
    machine, named, first = Machine(), {"process": [], "thread": [], "module": []}, None
    for line in lines:
        is_dc_end = line["provider"] in (PROCESS, THREAD, IMAGE) and line["opcode"] == 4 and line["id"] == 0
        if is_dc_end and first is None:
            first = parse_time(line["time"])
        if first is None:
            machine.feed(line)
        elif is_dc_end:
            f = line["fields"]
            if line["provider"] == PROCESS:
                named["process"].append(number(f["ProcessId"]))
            elif line["provider"] == THREAD:
                tid = number(f["TThreadId"])
                named["thread"].append((tid, number(f["StackBase"]) if tid == 0 else 0))
            else:
                named["module"].append((number(f["ProcessId"]), number(f["ImageBase"])))
    still_open = {kind: sorted(i.key for i in machine.instances if i.kind == kind and i.end == FOREVER) for kind in named}
    missed = {kind: sum(i.kind == kind and i.known_by == "end" for i in machine.instances) for kind in named}
    return still_open, {kind: sorted(keys) for kind, keys in named.items()}, missed, first


if __name__ == "__main__":
    state = Machine()
    for text in sys.stdin:
        state.feed(json.loads(text))
    for found in state.instances:
        end = "-" if found.end == FOREVER else format_time(found.end)
        print(found.kind, found.key, format_time(found.begin), found.known_by, end, found.ended_by, found.values)
