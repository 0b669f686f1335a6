"""What `etwagent dump` prints of a generated trace is what was so: CPU times, waits, switches, samples and counters of every
thread, worked out again from the context switches; both halves of every stack, those by key through the definition that holds
at that time; every flow's ends, times, packets and bytes; the name of every file object, file key and registry key at the time
of each event that mentions it; every handle; every loss.
"""
import collections
import json
import subprocess

import harness
import test_tracegen

# preset -> ms
PRESETS = {"office": 1500, "build-server": 400, "web-server": 900, "attack": 5500, "32-bit": 500}
READY, WAITING = 1, 5
KEY_KINDS = {"StackWalk/StackKeyKernel": "kernel", "StackWalk/StackKeyUser": "user"}
VOLUME, DRIVE = "\\Device\\HarddiskVolume3\\", "C:\\"
NAMED = {"FileIo": ("FileObject", "FileKey"), "DiskIo": ("FileObject",), "PageFault": ("FileObject",), "Registry": ("KeyHandle",)}


def number(value):
    """A field as dump prints it: a number, a hex text, or either with its name."""
    if isinstance(value, dict):
        value = value["value"]
    return int(value, 0) if isinstance(value, str) else value


def covers(row, raw):
    return (row["begin_raw"] is None or row["begin_raw"] <= raw) and (row["end_raw"] is None or raw <= row["end_raw"])


def counters_of(event):
    """The PMC counters of an event's header."""
    for item in event["extended"]:
        if item["type"] == 8:
            data = bytes.fromhex(item["data"])
            return [int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data), 8)]
    return None


class Threads:
    """Who ran, waited and was ready, out of context switches and wakes alone."""

    def __init__(self, rows, scale):
        self.scale = scale  # raw ticks of the trace's clock in one of the model's
        self.by_tid = collections.defaultdict(list)
        self.idle = [row for row in rows if row["tid"] == 0]
        for row in rows:
            if row["tid"]:
                self.by_tid[row["tid"]].append(row)
        self.sums = collections.defaultdict(collections.Counter)  # id(row) -> what
        self.running, self.since, self.counters, self.state = {}, {}, {}, {}

    def find(self, tid, raw):
        return next((row for row in self.by_tid[tid] if covers(row, raw)), None)

    def switch(self, event):
        fields, raw, cpu = event["fields"], event["clock"], event["cpu"]
        old, state = self.running.get(cpu), number(fields["OldThreadState"])
        counters = counters_of(event)
        if (old["tid"] if old else 0) != fields["OldThreadId"]:
            return f"{raw}: {fields['OldThreadId']} is switched out on {cpu}, where {old and old['tid']} ran"
        if old:
            sums = self.sums[id(old)]
            sums["cpu_ticks"] += (raw - self.since[cpu]) // self.scale
            sums["waits"] += state == WAITING
            if counters:
                for name, now, then in zip(("cycles", "instructions", "cache_misses"), counters, self.counters[cpu]):
                    sums[name] += now - then
            self.state[id(old)] = state, raw
        tid = fields["NewThreadId"]
        new = self.find(tid, raw) if tid else None
        if tid and not new:
            return f"{raw}: {tid} runs, and there is no such thread"
        if new:
            sums = self.sums[id(new)]
            sums["switches"] += 1
            was, then = self.state.get(id(new), (None, 0))
            if was == READY:
                sums["ready_ticks"] += (raw - then) // self.scale
        else:
            self.sums[id(self.idle[cpu])]["switches"] += 1
        self.running[cpu], self.since[cpu], self.counters[cpu] = new, raw, counters
        return None

    def wake(self, event):
        row = self.find(event["fields"]["TThreadId"], event["clock"])
        if not row:
            return f"{event['clock']}: {event['fields']['TThreadId']} is woken, and there is no such thread"
        was, then = self.state.get(id(row), (None, 0))
        if was == WAITING:
            self.sums[id(row)]["wait_ticks"] += (event["clock"] - then) // self.scale
        self.state[id(row)] = READY, event["clock"]
        return None


def check_threads(checks, name, events, truth_rows):
    machine = truth_rows["machine"][0]
    threads = Threads(truth_rows["thread"], machine["frequency"] // machine["ticks_per_second"])
    counted = ["cpu_ticks", "waits", "switches", "ready_ticks", "wait_ticks", "samples"]
    for event in events:
        wrong = None
        if event["name"] == "Thread/CSwitch":
            wrong = threads.switch(event)
            if event["extended"] and "cycles" not in counted:
                counted += ["cycles", "instructions", "cache_misses"]
        elif event["name"] == "Thread/ReadyThread":
            wrong = threads.wake(event)
        elif event["name"] == "PerfInfo/SampleProf":
            tid = event["fields"]["ThreadId"]
            row = threads.find(tid, event["clock"]) if tid else threads.idle[event["cpu"]]
            if row:
                threads.sums[id(row)]["samples"] += event["fields"]["Count"]
            else:
                wrong = f"{event['clock']}: a sample of {tid}, and there is no such thread"
        if wrong and not checks.that(False, f"{name}: {wrong}"):
            return
    busy = 0
    for row in truth_rows["thread"]:
        keys = counted if row["tid"] else ["switches", "samples"]
        ours = {key: threads.sums[id(row)][key] for key in keys}
        busy += row["cpu_ticks"] > 0 and row["tid"] != 0
        if not checks.that(ours == {key: row[key] for key in keys}, f"{name}: dump makes it {ours}, the truth is {row}"):
            return
    checks.that(busy > 20, f"{name}: {busy} threads ran")


def check_stacks(checks, name, events, truth_rows, high):
    frames = {row["id"]: tuple(row["addresses"]) for row in truth_rows["frames"]}
    true = collections.Counter((row["event_raw"], row["at_raw"], row["pid"], row["tid"], row["half"], frames[row["frames"]])
                               for row in truth_rows["stack"] if "lost" not in row and "in_header" not in row)

    def half_of(addresses):
        return "kernel" if int(addresses[0], 16) >= high else "user"

    defined = collections.defaultdict(list)
    for event in events:
        if event["name"] in ("StackWalk/KeyDelete", "StackWalk/KeyRundown"):
            addresses = tuple(event["fields"]["StackFrame"])
            defined[event["fields"]["key"], half_of(addresses)].append((event["clock"], addresses))
    ours, keyed = collections.Counter(), collections.defaultdict(set)
    for event in events:
        fields = event["fields"]
        if event["name"] == "StackWalk/Stack":
            addresses = tuple(fields["Stack"])
            half = half_of(addresses)
        elif event["name"] in KEY_KINDS:
            half = KEY_KINDS[event["name"]]
            key = fields["StackKey"], half
            addresses = next((there for at, there in defined[key] if at >= event["clock"]), None)
            keyed[key].add(addresses)
        else:
            continue
        ours[fields["EventTimeStamp"], event["clock"], fields["StackProcess"], fields["StackThread"], half, addresses] += 1
    missing, more = list((true - ours).elements()), list((ours - true).elements())
    checks.that(true and not missing and not more, f"{name}: {len(missing)} of {true.total()} halves of stacks are not there, "
                                                   f"{len(more)} are not so, as {missing[:1]} {more[:1]}")
    return keyed


def check_flows(checks, name, events, truth_rows):
    """Compares the sums of each flow. Consecutive UDP flows between the same ports are one flow here: their events have no id that separates them."""
    begun, ended, lived = collections.Counter(), collections.Counter(), collections.Counter()
    true = collections.defaultdict(collections.Counter)
    for row in truth_rows["flow"]:
        tcp = row["protocol"] == "tcp"
        key = (row["protocol"], row["ip"], row["pid"], row["local"], row["local_port"], row["remote"], row["remote_port"],
               row["id"] if tcp else 0)
        for what in ("sends", "sent_bytes", "receives", "received_bytes", "retransmits"):
            true[key][what] += row[what]
        lived[key] += 1
        if tcp:
            begun[key, row["accepted"], row["begin_raw"]] += 1
            if row["end_raw"] is not None:
                ended[key, row["end_raw"]] += 1
    ours = collections.defaultdict(collections.Counter)
    for event in events:
        family, _, what = event["name"].partition("/")
        if family not in ("TcpIp", "UdpIp"):
            continue
        fields = event["fields"]
        what, ip = what[:-4], int(what[-1])
        key = ("tcp" if family == "TcpIp" else "udp", ip, fields["PID"], fields["saddr"], fields["sport"], fields["daddr"],
               fields["dport"], number(fields["connid"]))
        if what == "Send":
            ours[key].update(sends=1, sent_bytes=fields["size"])
        elif what == "Recv":
            ours[key].update(receives=1, received_bytes=fields["size"])
        elif what == "Retransmit":
            ours[key].update(retransmits=1)
        elif what in ("Connect", "Accept"):
            begun[key, what == "Accept", event["clock"]] -= 1
        elif what == "Disconnect":
            ended[key, event["clock"]] -= 1
    wrong = [(key, dict(ours[key]), dict(+sums)) for key, sums in true.items() if +ours[key] != +sums]
    checks.that(true and not wrong, f"{name}: {len(wrong)} of {len(true)} flows differ, as {wrong[:1]}")
    checks.equal([key for key in ours if key not in true], [], f"{name}: flows that never were")
    checks.equal([(key, n) for key, n in begun.items() if n], [], f"{name}: beginnings of flows")
    checks.equal([(key, n) for key, n in ended.items() if n], [], f"{name}: ends of flows")


def check_names(checks, name, events, truth_rows):
    by_address = collections.defaultdict(list)
    for row in truth_rows["name"]:
        by_address[int(row["address"], 16)].append(row)
    seen = unnamed = 0
    wrong = []
    for event in events:
        for field in NAMED.get(event["name"].partition("/")[0], ()):
            value = event["fields"].get(field)
            if value is None or not number(value):
                continue
            rows = [row for row in by_address[number(value)] if covers(row, event["clock"])]
            said = value.get("name") if isinstance(value, dict) else None
            true = {row["name"].replace(VOLUME, DRIVE) for row in rows}
            seen += said is not None
            unnamed += said is None and bool(true)
            if said is not None and said not in true:
                wrong.append((event["clock"], event["name"], field, value, true))
    checks.that(seen > 100, f"{name}: {seen} names")
    checks.equal(wrong[:2], [], f"{name}: names that are not so, {len(wrong)} of {seen}")
    checks.equal(unnamed, 0, f"{name}: files and keys that dump has no name for, of {seen + unnamed}")


def check_handles(checks, name, events, truth_rows):
    opened, closed = ([(event["pid"], event["tid"], number(event["fields"]["Handle"]), number(event["fields"]["Object"]),
                        number(event["fields"]["ObjectType"]), event["clock"]) for event in events if event["name"] == f"Object/{what}Handle"]
                      for what in ("Create", "Close"))
    for ours, key in ((opened, "begin_raw"), (closed, "end_raw")):
        checks.equal(sorted(ours), sorted((row["pid"], row["tid"], row["handle"], int(row["object"], 16), row["object_type"], row[key])
                                          for row in truth_rows["handle"]), f"{name}: handles, {key}")


def check_losses(checks, name, events, truth_rows):
    """Each loss is in the truth with what was in it, and in the stream as a record at its end."""
    lost = [row for row in truth_rows["loss"] if row["events"]]
    for kind, is_kind in (("RTLostEvent", lambda row: not row["buffers"]), ("RTLostBuffer", lambda row: row["buffers"])):
        there = sorted((event["cpu"], event["clock"]) for event in events if event["name"].endswith("/" + kind))
        true = sorted((row["cpu"], row["end_raw"]) for row in lost if is_kind(row))
        checks.that(true, f"{name}: nothing is lost")
        checks.equal(there, true, f"{name}: {kind}")
    for row in lost:
        inside = [event for event in events if event["cpu"] == row["cpu"] and row["begin_raw"] < event["clock"] < row["end_raw"]]
        checks.equal(inside[:1], [], f"{name}: events of processor {row['cpu']} while it lost them")


def check_preset(env, checks, preset, milliseconds):
    trace, truth = test_tracegen.generate(env.build, env.folder, preset, "--preset", preset, "--duration-ms", str(milliseconds))
    truth_rows = collections.defaultdict(list)
    for row in test_tracegen.rows(truth):
        truth_rows[row["type"]].append(row)
    done = subprocess.run([env.agent, "dump", "--format", "jsonl", "--raw", trace], check=True, stdout=subprocess.PIPE)
    plain = [json.loads(line) for line in done.stdout.splitlines()]
    done = subprocess.run([env.agent, "dump", "--format", "jsonl", trace], check=True, stdout=subprocess.PIPE)
    named = [json.loads(line) for line in done.stdout.splitlines()]
    checks.equal(len(plain), truth_rows["totals"][0]["events"], f"{preset}: events printed")
    high = 1 << (31 if truth_rows["machine"][0]["pointer_bytes"] == 4 else 63)
    present = {event["name"] for event in plain}
    if truth_rows["loss"]:
        check_losses(checks, preset, plain, truth_rows)
        return
    if "Thread/CSwitch" in present:
        check_threads(checks, preset, plain, truth_rows)
    if truth_rows["stack"]:
        keyed = check_stacks(checks, preset, plain, truth_rows, high)
        if preset == "office":
            checks.that(any(len(stacks) > 1 for stacks in keyed.values()), "office: no key means two stacks in turn")
            both = {key for key, half in keyed if half == "user"} & {key for key, half in keyed if half == "kernel"}
            checks.that(both, "office: no key means a stack of each half")
    if truth_rows["flow"] and preset != "build-server":  # the session of build-server does not record the network
        check_flows(checks, preset, plain, truth_rows)
    if truth_rows["handle"]:
        check_handles(checks, preset, plain, truth_rows)
    if truth_rows["name"]:
        check_names(checks, preset, named, truth_rows)


def test(env, checks, arguments):
    for preset, milliseconds in PRESETS.items():
        check_preset(env, checks, preset, milliseconds * (5 if arguments.soak else 1))


if __name__ == "__main__":
    harness.main(test, __doc__)
