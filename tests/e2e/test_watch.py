"""`etwagent watch` beside an independent evaluation in Python over `etwagent dump --format jsonl`: random programs (conditions, keys and
functions over the fields of the trace's classes) on generated and real traces; the time on a processor, names of processes, and stacks; each
program of config/watch and each example of docs/reference/language.md; forms of output, limits, and what is refused.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Query language 1: A program over a trace gives what its text says. | 1,000 random clauses over four traces equal an evaluation in Python |
#   2026-11-27
# - Query language 2: No value of an aggregation is lost at a limit. | values of keys beyond `--keys` are in `(others)`, and counted | 2026-11-27
# - Query language 4: A condition of `dump --where` and `stats --where` is one of the language. | four conditions: the same events as a filter in
#   Python | 2026-11-27
# - Query language 3: A wrong program is refused before an event is read, with its place and the nearest name. | 58 wrong programs |
#   2026-11-27
import collections
import csv
import io
import json
import math
import pathlib
import random
import re
import struct
import subprocess

import harness
import test_relog_forms
import test_single_records
import test_tracegen
import traces

GENERATED = {"office": 700, "web-server": 300}
REAL = {"clr-kernel-win8-x64": "random programs on kernel events and .NET events", "tracelogging-win11-20cpu": "random programs on TraceLogging"}
CLAUSES, SOAK_CLAUSES = 250, 5000


def watch(env, program, paths, *options, check=True):
    done = subprocess.run([env.agent, "watch", *options, "-e", program, *paths], capture_output=True, text=True, timeout=300, check=False)
    if check and done.returncode:
        raise harness.Failure(f"watch -e {program[:500]!r} ended with {done.returncode}: {done.stderr[-1000:]}")
    return done


def results(text):
    """{aggregation: {keys: value}} of JSON lines."""
    found = collections.defaultdict(dict)
    for line in text.splitlines():
        row = json.loads(line)
        if "aggregation" in row:
            keys = tuple(tuple(key) if isinstance(key, list) else key for key in row["keys"])
            value = [v for k, v in row.items() if k not in ("aggregation", "time", "keys", "others")][0]
            found[row["aggregation"]]["others" if row.get("others") else keys] = value
    return found


def dump(env, paths):
    text = subprocess.run([env.agent, "dump", "--format", "jsonl", *paths], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


# ---- random clauses ----

def number(value):
    """A JSON value as the language reads it, if it is a number without a form of its own; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
        return int(value, 16)
    if isinstance(value, dict) and set(value) == {"value", "name"} and isinstance(value["value"], int):
        return value["value"]
    return None


class Classes:
    """The classes of a trace by name, and of each the fields that are plain numbers (or plain texts) in all its events."""

    def __init__(self, events):
        self.events = collections.defaultdict(list)
        for event in events:
            if event["name"]:
                self.events[event["name"]].append(event)
        self.numbers, self.texts, self.named = {}, {}, {}
        for name, these in self.events.items():
            fields = collections.defaultdict(list)
            for event in these:
                for field, value in event["fields"].items():
                    fields[field].append(value)
            plain = re.compile(r"[A-Za-z_][A-Za-z_0-9]*$")
            fields = {field: values for field, values in fields.items() if plain.match(field) and field != "_tail"}
            self.numbers[name] = [f for f, values in fields.items() if all(number(v) is not None for v in values)]
            self.named[name] = [f for f, values in fields.items() if all(isinstance(v, dict) and set(v) == {"value", "name"} and v["name"] and
                                                                         v["name"].isprintable() for v in values)]
            self.texts[name] = [f for f, values in fields.items() if all(isinstance(v, str) and not v.startswith("0x") and "\\u" not in v and
                                                                         v.isprintable() for v in values)]
        self.usable = sorted(name for name in self.events if self.numbers[name] and '"' not in name)


class Expression:
    """A random expression over numbers of an event: its text, and its value."""

    def __init__(self, dice, fields, depth=0):
        kind = dice.randrange(7 if depth < 3 else 2)
        self.absent = False
        if kind == 0 or not fields:
            self.value = dice.choice([0, 1, 2, 3, 7, 100, 4096, 65535, 1 << 31, 1 << 40])
            self.text, self.evaluate = str(self.value), lambda event: self.value
        elif kind == 1:
            field = dice.choice(fields)
            self.text, self.evaluate = f"event.{field}", lambda event: number(event["fields"][field])
        else:
            a, b = Expression(dice, fields, depth + 1), Expression(dice, fields, depth + 1)
            op, work = dice.choice([("<", lambda x, y: int(x < y)), ("<=", lambda x, y: int(x <= y)), (">", lambda x, y: int(x > y)),
                                    (">=", lambda x, y: int(x >= y)), ("==", lambda x, y: int(x == y)), ("!=", lambda x, y: int(x != y)),
                                    ("&&", lambda x, y: int(bool(x and y))), ("||", lambda x, y: int(bool(x or y)))])
            self.text = f"({a.text} {op} {b.text})"
            self.evaluate = lambda event: work(a.evaluate(event), b.evaluate(event))


class Missing(Exception):
    pass


def bucket(value):
    """The bounds that quantize has for a value."""
    if value == 0:
        return 0, 1
    bits = abs(value).bit_length()
    low, high = 1 << (bits - 1), 1 << bits
    if value < 0:
        return 1 - high, 1 - low
    return low, high if high <= 1 << 63 else None


def aggregate(function, values):
    if function == "count":
        return len(values)
    if function == "sum":
        total = sum(values) & (1 << 64) - 1
        return total
    if function in ("min", "max"):
        return min(values) if function == "min" else max(values)
    if function == "avg":
        return sum(values) / len(values)
    if function == "stddev":
        mean = sum(values) / len(values)
        return math.sqrt(max(0, sum((v - mean) ** 2 for v in values) / len(values)))
    if function == "distinct":
        return len(set(values))
    return dict(collections.Counter(bucket(v) for v in values))


def same(function, got, expected):
    if function in ("quantize",):
        return {(b["from"], b["to"]): b["count"] for b in got} == expected
    if function == "distinct" and expected > 256:
        return abs(got - expected) < 0.08 * expected
    got = int(got, 16) if isinstance(got, str) else got
    if function in ("avg", "stddev"):
        return math.isclose(got, expected, rel_tol=2e-5, abs_tol=1e-3 if function == "avg" else max(1e-3, 1e-7 * abs(expected)))
    return got & (1 << 64) - 1 == expected & (1 << 64) - 1


def random_clause(dice, classes, number_of_clause):
    """(text, what it aggregates: {keys: result}, function)."""
    name = dice.choice(classes.usable)
    fields, texts, named = classes.numbers[name], classes.texts[name], classes.named[name]
    condition = Expression(dice, fields)
    keys = []
    for _ in range(dice.randrange(4)):
        kind = dice.randrange(5)
        if kind == 0 and texts:
            field = dice.choice(texts)
            keys.append((f"event.{field}", lambda event, field=field: event["fields"][field]))
        elif kind == 1 and named:
            field = dice.choice(named)
            keys.append((f"event.{field}_name", lambda event, field=field: event["fields"][field]["name"]))
        elif kind == 2:
            keys.append(("cpu", lambda event: event["cpu"]))
        elif kind == 3:
            field = dice.choice(fields)
            keys.append((f"event.{field} & 15", lambda event, field=field: number(event["fields"][field]) & 15))
        else:
            field = dice.choice(fields)
            keys.append((f"event.{field}", lambda event, field=field: number(event["fields"][field])))
    function = dice.choice(["count", "count", "sum", "min", "max", "avg", "quantize", "distinct"])
    field = dice.choice(fields)
    argument = "" if function == "count" else f"event.{field}"
    text = f'"{name}" /{condition.text}/ {{ @a{number_of_clause}' + (f"[{', '.join(k for k, _ in keys)}]" if keys else "") + \
        f" = {function}({argument}); }}"
    found = collections.defaultdict(list)
    for event in classes.events[name]:
        try:
            if condition.evaluate(event):
                found[tuple(key(event) for _, key in keys)].append(number(event["fields"][field]) if argument else 1)
        except KeyError:
            raise Missing from None
    return text, {key: aggregate(function, values) for key, values in found.items()}, function


def plain_key(key):
    return tuple(int(k, 16) if isinstance(k, str) and re.fullmatch("0x[0-9a-f]+", k) else k for k in key)


def check_random(env, checks, name, paths, events, count):
    dice, classes = random.Random(f"watch {name}"), Classes(events)
    for begin in range(0, count, 50):
        clauses = []
        while len(clauses) < 50:
            try:
                clauses.append(random_clause(dice, classes, len(clauses)))
            except Missing:  # the class has versions without the field: what is skipped has a test of its own
                pass
        got = results(watch(env, "\n".join(text for text, _, _ in clauses), paths, "--json", "--keys", "1000000").stdout)
        for i, (text, expected, function) in enumerate(clauses):
            ours = {plain_key(key): value for key, value in got.get(f"@a{i}", {}).items()}
            wrong = [key for key in expected.keys() | ours.keys() if key not in ours or key not in expected or
                     not same(function, ours[key], expected[key])]
            checks.that(not wrong, f"{name}, clause {begin + i}: {text}: " +
                        "; ".join(f"{key}: expected {expected.get(key)}, got {ours.get(key)}" for key in wrong[:3]))


# ---- threads, processes, times ----

class State:
    """Threads and processes in the order of the events: what execname, pid and tid are."""

    def __init__(self):
        self.process_of, self.name_of, self.running = {0: 0}, {}, {}

    def see(self, event):
        name, fields = event["name"], event["fields"]
        if name in ("Thread/Start", "Thread/DCStart"):
            self.process_of[fields["TThreadId"]] = fields["ProcessId"]
        if name in ("Process/Start", "Process/DCStart"):
            self.name_of[fields["ProcessId"]] = fields["ImageFileName"]
        if name == "Thread/CSwitch":
            self.running[event["cpu"]] = fields["NewThreadId"]

    def name_of_thread(self, tid):
        return self.name_of.get(0 if tid == 0 else self.process_of.get(tid, -1), "")


def check_state(env, checks, name, paths, events):
    state, switches, waits, since, samples = State(), collections.Counter(), collections.Counter(), {}, collections.Counter()
    for event in events:
        state.see(event)
        fields = event["fields"]
        if event["name"] == "Thread/CSwitch":
            switches[state.name_of_thread(fields["NewThreadId"]),] += 1
            since[fields["OldThreadId"]] = event["time"]
            if fields["NewThreadId"] in since:
                waits[state.name_of_thread(fields["NewThreadId"]),] += 1
        if event["name"] == "PerfInfo/SampleProf":
            samples[state.name_of_thread(fields["ThreadId"]),] += 1
    got = results(watch(env, "sched:::on-cpu { @[execname] = count(); }", paths, "--json").stdout)
    checks.equal(got["@"], dict(switches), f"{name}: switches by process, as pasted")
    got = results(watch(env, "sched:::off-cpu { self->ts = timestamp; } sched:::on-cpu /self->ts/ { @[execname] = count(); }"
                             "profile:::profile-997 { @s[execname] = count(); }", paths, "--json").stdout)
    checks.equal(got["@s"], dict(samples), f"{name}: samples by process")
    checks.that(got["@"].keys() <= waits.keys() and all(got["@"][key] <= waits[key] for key in got["@"]), f"{name}: waits by process")
    checks.that(sum(got["@"].values()) > 0.9 * sum(waits.values()), f"{name}: nearly all waits have a beginning")


def check_times(env, checks, name, paths):
    """CPU time of threads, out of the switches in the dump."""
    program = """sched:::on-cpu { self.ts = timestamp; } sched:::off-cpu /self.ts/ { @ns[tid] = sum(timestamp - self.ts); self.ts = 0; }
                 Thread/CSwitch { delta(cpu); n++; } Thread/CSwitch { @between[cpu] = sum(delta(cpu)); } end { printf("%d", n); }"""
    done = watch(env, program, paths, "--json")
    got = results(done.stdout)
    events = [e for e in dump(env, paths) if e["name"] == "Thread/CSwitch"]
    on, total = {}, collections.Counter()
    clock = [(e["clock"], e["time"]) for e in events]
    # ticks of 100 ns are the unit of "time"; the clock's own are finer, so compare within a tick an event
    for event, (_, time) in zip(events, clock):
        at = ticks_of(time)
        old, new = event["fields"]["OldThreadId"], event["fields"]["NewThreadId"]
        # both clauses see one event: the new thread's begins before the old one's ends
        on[new] = at
        if old in on:
            total[old] += at - on.pop(old)
    for tid, ns in total.items():
        mine = got["@ns"].get((tid,), 0)
        if not checks.that(abs(mine - ns * 100) <= 200 * len(events), f"{name}: thread {tid}: expected {ns * 100} ns, got {mine}"):
            break
    checks.equal(json.loads(done.stdout.splitlines()[0])["printf"], str(len(events)), f"{name}: context switches")


def ticks_of(time):
    hours, minutes, seconds = re.search(r"T(\d+):(\d+):([\d.]+)Z", time).groups()
    whole, part = seconds.split(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10_000_000 + int(part)


def text_of(value):
    """A text, of which the dump may know another form."""
    return value["value"] if isinstance(value, dict) else value


class Modules:
    """The modules that are open, by the events so far: lists, searched."""

    def __init__(self):
        self.open, self.number = collections.defaultdict(dict), 0  # pid -> base -> (number, size, name)

    def see(self, event):
        name, fields = event["name"], event["fields"]
        if name in ("Image/Load", "Image/DCStart", "Image/DCEnd", "Image/UnLoad"):
            mine, base = self.open[fields["ProcessId"]], number(fields["ImageBase"])
            if name == "Image/UnLoad":
                mine.pop(base, None)
            elif name == "Image/Load" or base not in mine:
                self.number += 1
                mine[base] = self.number, number(fields["ImageSize"]), text_of(fields["FileName"]).replace("/", "\\").rsplit("\\", 1)[-1]
        elif name in ("Process/End", "Process/Start"):
            self.open.pop(fields["ProcessId"], None)

    def find(self, pid, address):
        for of in (() if address >> 63 else (pid,)) + (0,):
            there = [(number, name, base) for base, (number, size, name) in self.open[of].items() if base <= address < base + size]
            if there:
                return max(there)[1:]
        return None, 0

    def frame(self, pid, address):
        name, base = self.find(pid, int(address, 16))
        return f"{name}+{hex(int(address, 16) - base)}" if name else address


def check_stacks(env, checks, name, paths, dumped):
    """Stacks are those of `etwagent stacks`, which has judges of its own, by module and offset, and with --addresses as they are there."""
    events, stacks, modules = {}, {}, Modules()
    for line in subprocess.run([env.agent, "stacks", "--list", *paths], check=True, capture_output=True, text=True).stdout.splitlines():
        row = json.loads(line)
        if "event" in row:
            events[row["event"]] = row
        else:
            stacks[row["stack"]] = tuple(row["addresses"] or ())
    walks, threads = collections.defaultdict(dict), {}
    for event in dumped:
        if (event["name"] or "").startswith("StackWalk/Stack"):
            walks[event["fields"]["EventTimeStamp"]["value"]][event["fields"]["StackThread"]] = event["fields"]["StackProcess"]
    expected, plain, places = [collections.Counter() for _ in range(3)], collections.Counter(), collections.Counter()
    for i, event in enumerate(dumped):
        modules.see(event)
        address = event["fields"].get("InstructionPointer")
        if event["name"] in ("Thread/Start", "Thread/DCStart"):
            threads[event["fields"]["TThreadId"]] = event["fields"]["ProcessId"]
        if event["name"] == "PerfInfo/SampleProf":
            places[modules.find(threads.get(event["fields"]["ThreadId"], 0), int(address, 16))[0] or ""] += 1
        if i not in events:
            continue
        k, u = (stacks[events[i][half]["stack"]] if half in events[i] else () for half in ("kernel", "user"))
        plain[k + u] += 1
        at = walks.get(event["clock"], {})
        thread = event["fields"].get("NewThreadId", event["fields"].get("ThreadId", event["tid"]))
        pid = at.get(thread, next(iter(at.values()))) if at else event["pid"]
        named_k, named_u = (tuple(modules.frame(pid, address) for address in half) for half in (k, u))
        for to, key in zip(expected, (named_k + named_u, named_k, (named_k + named_u)[:2])):
            to[key] += 1
    program = "* /stack()/ { @s[stack()] = count(); @k[kstack()] = count(); @f[stack(2)] = count(); } PerfInfo/SampleProf { @m[module] = count(); }"
    got = results(watch(env, program, paths, "--json", "--keys", "1000000").stdout)
    bare = results(watch(env, program, paths, "--json", "--keys", "1000000", "--addresses").stdout)
    for which, found, want in (("@s", got, expected[0]), ("@k", got, expected[1]), ("@f", got, expected[2]), ("@s", bare, plain)):
        want.pop((), None)
        mine = {tuple(key[0]): count for key, count in found[which].items() if key[0] and key[0] != ()}
        checks.that(len(want) > 10 and mine == dict(want), f"{name}: stacks {which}: {len(mine)} of {len(want)}, "
                    f"{sum(mine.values())} of {sum(want.values())} events; {list((mine.items() ^ want.items()))[:4]}")
    mine = {key[0]: count for key, count in got["@m"].items()}
    checks.equal(mine, dict(places), f"{name}: samples by module")
    named = sum("+0x" in frame for stack in expected[0] for frame in stack)
    checks.that(named > sum(map(len, expected[0])) / 2, f"{name}: frames with a module: {named}")


def check_counters(env, checks, name, paths):
    """Counters that come with context switches, by their names."""
    text = subprocess.run([env.agent, "dump", "--format", "raw", *paths], check=True, capture_output=True, text=True).stdout
    places, sums, count = {}, collections.Counter(), 0
    for line in text.splitlines():
        event = json.loads(line)
        if event["name"] == "PerfInfo/PmcCtrConfig":
            places = {counter: i for i, counter in enumerate(event["fields"]["CounterName"])}
        items = [bytes.fromhex(item["data"]) for item in event["extended"] if item["name"] == "PMC_COUNTERS"]
        if event["name"] == "Thread/CSwitch" and items:
            count += 1
            for counter, i in places.items():
                sums[counter] += int.from_bytes(items[0][8 * i:8 * i + 8], "little")
    checks.that(count > 100 and len(places) > 1, f"{name}: {count} switches with counters {places}")
    program = "".join(f"Thread/CSwitch {{ @{i} = sum(pmc.{counter}); }}" for counter, i in places.items() for i in [f"c{i}"])
    got = results(watch(env, program, paths, "--json").stdout)
    checks.equal({counter: got[f"@c{i}"][()] for counter, i in places.items()}, {counter: n & (1 << 64) - 1 for counter, n in sums.items()},
                 f"{name}: sums of counters")


# ---- programs, forms, limits ----

def check_programs(env, checks, paths):
    folder = harness.ROOT / "config" / "watch"
    programs = sorted(folder.glob("*.watch"))
    checks.that(len(programs) >= 25, f"config/watch has {len(programs)} programs")
    page = (folder / "README.md").read_text(encoding="utf-8")
    checks.equal([path.name for path in programs if f"({path.name})" not in page], [], "config/watch/README.md names each program")
    quiet = {"system-calls.watch", "powershell.watch", "ui-delay.watch", "dxgkrnl.watch", "counters.watch", "packets.watch"}  # the trace has no such events
    for path in programs:
        for form in ([], ["--json"], ["--csv"]):
            manifest = path.with_suffix(".man")
            fields = ["--manifest", manifest] if manifest.exists() else []
            done = subprocess.run([env.agent, "watch", *fields, *form, path, *paths], capture_output=True, text=True, timeout=120, check=False)
            checks.equal(done.returncode, 0, f"{path.name} {form}: exit code ({done.stderr[-300:]})")
            if path.name not in quiet:
                checks.that(done.stdout.strip(), f"{path.name} {form}: it prints something")
            if form == ["--json"]:
                checks.that(all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines()), f"{path.name}: JSON lines")


def check_packets(env, checks):
    """Bytes of a field: captured packets by kind, protocol, and receiver, beside a reading in Python."""
    dice, records, want = random.Random(4), [], {name: collections.Counter() for name in ("@kinds", "@protocols", "@to")}
    for i in range(300):
        kind, words, protocol = dice.choice([0x0800, 0x0800, 0x86DD, 0x0806]), dice.randrange(5, 9), dice.choice([6, 17, 1])
        address, port, size = (10, 0, dice.randrange(3), dice.randrange(3)), dice.choice([53, 443, 8080]), dice.randrange(40, 1500)
        packet = bytes(12) + struct.pack(">HBBH", kind, 0x40 | words, 0, size) + bytes(5) + bytes([protocol]) + bytes(6) + bytes(address) + \
            bytes(4 * words - 20) + struct.pack(">HH", 1000, port) + bytes(8)
        packet = packet[:dice.choice([len(packet)] * 5 + [10, 24, 14 + 4 * words])]  # cut packets lack what is beyond their end
        records.append(test_relog_forms.fragment(packet, 100 + i))
        if len(packet) >= 14:
            want["@kinds"][(kind,)] += 1
            if kind == 0x0800 and len(packet) >= 24:
                want["@protocols"][(protocol,)] += 1
                if protocol != 1 and len(packet) >= 18 + 4 * words:
                    want["@to"][(*address, protocol, port)] += size
    trace = env.folder / "packets.etl"
    trace.write_bytes(test_single_records.trace(records))
    folder = harness.ROOT / "config" / "watch"
    got = results(env.run([env.agent, "watch", "--json", "--manifest", folder / "packets.man", folder / "packets.watch", trace]).stdout)
    for name, entries in want.items():
        checks.that(len(entries) >= 3 and got[name] == dict(entries), f"{name}: {got.get(name)}, expected {dict(entries)}")
    places = "\"NDIS-PacketCapture/1001\" { @in = sum(bytes(Fragment, FragmentSize - 1, 1)); @out[1] = sum(bytes(Fragment, FragmentSize, 1)); @below[1] = sum(bytes(Fragment, -1, 1)); }"
    done = env.run([env.agent, "watch", "--json", "--manifest", folder / "packets.man", "-e", places, trace])
    checks.that(set(results(done.stdout)) == {"@in"} and "600 statements were skipped" in done.stderr, f"places beyond the end: {done.stdout} {done.stderr}")


def check_examples(env, checks, paths):
    text = (harness.ROOT / "docs" / "reference" / "language.md").read_text(encoding="utf-8")
    blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", text, flags=re.M)]
    is_config = re.compile(r"(sessions|filters):\n")
    programs = [block for block in blocks if not block.startswith("program:") and not is_config.match(block)]
    for block in filter(is_config.match, blocks):
        path = env.folder / "example.yaml"
        path.write_text("sources:\n- name: one\n  files: a.etl\n  " + block.replace("\n", "\n  ") + "\n" if block.startswith("filters:") else block)
        done = env.run([env.agent, "check", path], check=False)
        checks.equal(done.returncode, 0, f"example {block!r}: {done.stderr}")
    checks.that(len(programs) >= 2, f"examples of the reference: {len(programs)}")
    for program in programs:
        checks.equal(watch(env, program, paths, check=False).returncode, 0, f"example {program!r}")
    refused = [block for block in blocks if block.startswith("program:")]
    for block in refused:
        done = watch(env, block.splitlines()[1].strip(), paths, check=False)
        checks.equal(done.stderr.startswith(block), True, f"the refused example: {done.stderr!r}")
        checks.equal((done.returncode, done.stdout), (2, ""), "the refused example: exit code and output")


def check_forms(env, checks, paths):
    program = 'Thread/CSwitch { @[execname, cpu] = count(); } Thread/Start { emit(pid = ProcessId, name = execname); } end { printf("a,\\"b\\"\\n"); }'
    by_json = results(watch(env, program, paths, "--json").stdout)["@"]
    rows = list(csv.reader(io.StringIO(watch(env, program, paths, "--csv").stdout)))
    begin = rows.index(["aggregation", "execname", "cpu", "count"])
    checks.equal({(row[1], int(row[2])): int(row[3]) for row in rows[begin + 1:]}, by_json, "CSV and JSON have the same entries")
    checks.that(["pid", "name"] in rows and ["printf", 'a,"b"'] in rows, "CSV of emit and printf")
    text = watch(env, program, paths).stdout
    found = {(m[0], int(m[1])): int(m[2]) for m in re.findall(r"^(\S+) +(\d+) +(\d+)$", text, re.M)}
    checks.that(found.items() <= by_json.items() and len(found) > 5, "text has the same entries")
    pids = results(watch(env, "sched:::on-cpu { @[execname, pid] = count(); }", paths, "--json").stdout)["@"]
    for (name, pid), count in list(pids.items())[:5]:
        if pid > 0:
            got = results(watch(env, "sched:::on-cpu { @[execname, pid] = count(); }", paths, "--json", "--pid", str(pid)).stdout)["@"]
            checks.equal(got, {(name, pid): count}, f"--pid {pid}")
    got = results(watch(env, "sched:::on-cpu { @[execname, pid] = count(); }", paths, "--json", "--exe", "WIN*.exe").stdout)["@"]
    checks.equal(got, {key: count for key, count in pids.items() if key[0].startswith("win") and key[0].endswith(".exe")}, "--exe")
    order = [int(row[3]) for row in rows[begin + 1:]]
    checks.equal(order, sorted(order, reverse=True), "the largest first")


def check_limits(env, checks, paths):
    free = results(watch(env, "FileIo/Create { @[OpenPath] = count(); }", paths, "--json").stdout)["@"]
    done = watch(env, "FileIo/Create { @[OpenPath] = count(); m[OpenPath] = 1; }", paths, "--json", "--keys", "10")
    few = results(done.stdout)["@"]
    others = few.pop("others")
    checks.equal(len(few), 10, "--keys 10")
    checks.equal(sum(few.values()) + others, sum(free.values()), "no value is lost at --keys")
    checks.that(f"{others} values are counted under (others)" in done.stderr, f"the number of such values: {done.stderr!r}")
    checks.that("values of variables were dropped" in done.stderr, "variables without room are counted")
    checks.equal(watch(env, "begin { }", paths, "--keys", "0", check=False).returncode, 2, "--keys 0")


def check_where(env, checks, paths, events):
    """dump --where and stats --where: the same expressions."""
    for condition, holds in (("TransferSize > 16KiB", lambda e: e["fields"].get("TransferSize", 0) > 16384),
                             ("NewThreadId == 0 || OldThreadId == 0 # idle", lambda e: e["name"] == "Thread/CSwitch" and 0 in (e["fields"]["NewThreadId"], e["fields"]["OldThreadId"])),
                             ('probe =~ "thread/*" && cpu == 1', lambda e: e["name"].startswith("Thread/") and e["cpu"] == 1),
                             ('QueryName =~ "*.EXAMPLE"', lambda e: e["fields"].get("QueryName", "").endswith(".example"))):
        expected = [event for event in events if holds(event)]
        text = subprocess.run([env.agent, "dump", "--format", "jsonl", "--where", condition, *paths], check=True, capture_output=True, text=True).stdout
        checks.that(expected, f"--where {condition}: no such event")
        checks.equal([json.loads(line) for line in text.splitlines()], expected, f"dump --where {condition}")
        got = json.loads(subprocess.run([env.agent, "stats", "--json", "--where", condition, *paths], check=True, capture_output=True, text=True).stdout)
        checks.equal(got["events"], len(expected), f"stats --where {condition}")
    of_none = [env.agent, "dump", "--from", "start", "--pid", str(next(e["pid"] for e in events if e["pid"] > 4)), "--where", "pid == 4000000001", *paths]
    done = subprocess.run(of_none, capture_output=True, text=True, check=False)
    checks.equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "no event holds, of a time and a process that have some")
    for command in ("dump", "stats"):
        done = subprocess.run([env.agent, command, "--where", "TransferSiz > 1", *paths], capture_output=True, text=True, check=False)
        checks.that(done.returncode == 2 and done.stderr.startswith("--where:1:1: ") and "did you mean TransferSize?" in done.stderr,
                    f"{command} --where with a mistake: {done.stderr!r}")
        done = subprocess.run([env.agent, command, "--where", "1 +", *paths], capture_output=True, text=True, check=False)
        checks.that(done.stderr.startswith("--where:1:4: the text ends inside an expression\n  1 +\n     ^"), f"{command} --where that ends too early: {done.stderr!r}")
        done = subprocess.run([env.agent, command, "--where", "ustack()", *paths], capture_output=True, text=True, check=False)
        checks.that(done.returncode == 2 and "stacks" in done.stderr, f"{command} --where with stacks: {done.stderr!r}")
    done = subprocess.run([env.agent, "dump", "--class", "DiskIo/*", "--where", "NewThreadId == 0", *paths], capture_output=True, text=True, check=False)
    checks.that(done.returncode == 2 and "unknown field NewThreadId" in done.stderr, f"--class names the classes of --where: {done.stderr!r}")
    for condition in ("pid == 4)/ { printf(\"x\"); } * /(1", "1)/ { exit(); } end /(1", "pid == 4 # {", "pid == 4; exit()", "(pid == 4"):
        done = subprocess.run([env.agent, "dump", "--where", condition, *paths], capture_output=True, text=True, check=False)
        is_good = condition.endswith("# {")  # a comment is none of the condition
        checks.that(done.returncode == (0 if is_good else 2) and (is_good or not done.stdout), f"--where {condition}: {done.returncode} {done.stderr[:300]}")


def check_arguments(env, checks, paths):
    """$1 and $2 are what --arg gives: numbers and texts."""
    program = '* /pid == $1 && probe =~ $2/ { @ = count(); }'
    wanted = results(watch(env, program.replace("$1", "4").replace("$2", '"*"'), paths, "--json").stdout)
    for first in ("4", "0x4"):
        checks.equal(results(watch(env, program, paths, "--json", "--arg", first, "--arg", "*").stdout), wanted, f"$1 is {first}")
    checks.that(sum(wanted["@"].values()) > 0, f"events of process 4: {wanted}")
    one = watch(env, program, paths, "--arg", "4", check=False)
    checks.that(one.returncode == 2 and "there is no argument $2; 1 were given" in one.stderr, f"one argument too few: {one.returncode} {one.stderr}")
    text = watch(env, 'begin { printf("%s", $1); }', paths, "--arg", '"} exit(); {', check=False)
    checks.equal((text.returncode, text.stdout), (0, '"} exit(); {'), "a text stays a text")


def check_refusals(env, checks, paths):
    for program, place, words in (("Thread/CSwich { }", "1:1", "did you mean Thread/CSwitch?"), ("Nothing-Like-This:7 { }", "1:1", "is known"),
                                  ("Thread/CSwitch { @[a] = count(); }", "1:20", "unknown field a")):
        done = watch(env, program, paths, check=False)
        checks.that(done.returncode == 2 and done.stderr.startswith(f"program:{place}: ") and words in done.stderr and "^\n" in done.stderr,
                    f"{program}: {done.returncode} {done.stderr!r}")
        checks.equal(done.stdout, "", f"{program}: nothing is printed")
    path = env.folder / "wrong.watch"
    path.write_text("begin { }\n\nend { x }\n", encoding="utf-8")
    done = subprocess.run([env.agent, "watch", path, *paths], capture_output=True, text=True, check=False)
    checks.that(done.returncode == 2 and f"{path}:3:7: " in done.stderr, f"a file's name is in the message: {done.stderr!r}")
    path.write_bytes(b" " * 70000)
    done = subprocess.run([env.agent, "watch", path, *paths], capture_output=True, text=True, check=False)
    checks.that(done.returncode == 2 and "65536 bytes" in done.stderr, f"a program that is too long: {done.stderr!r}")
    checks.equal(subprocess.run([env.agent, "watch", path], capture_output=True, check=False).returncode, 2, "no trace")
    checks.equal(watch(env, "begin { }", [pathlib.Path(__file__)], check=False).returncode, 3, "not a trace")
    checks.equal(watch(env, "begin { }", paths, "--json", "--csv", check=False).returncode, 2, "--json and --csv")


def test(env, checks, arguments):
    count = SOAK_CLAUSES if arguments.soak else CLAUSES
    for name, ms in GENERATED.items():
        trace, _ = test_tracegen.generate(env.build, env.folder, name, "--preset", name, "--duration-ms", str(ms))
        events = dump(env, [trace])
        check_random(env, checks, name, [trace], events, count)
        check_state(env, checks, name, [trace], events)
        check_stacks(env, checks, name, [trace], events)
        if name == "office":
            check_times(env, checks, name, [trace])
            longer, _ = test_tracegen.generate(env.build, env.folder, "longer", "--preset", name, "--duration-ms", "3000")
            check_programs(env, checks, [longer])
            check_packets(env, checks)
            check_examples(env, checks, [trace])
            check_forms(env, checks, [longer])
            check_limits(env, checks, [trace])
            check_refusals(env, checks, [trace])
            check_where(env, checks, [trace], events)
            check_arguments(env, checks, [trace])
    trace, _ = test_tracegen.generate(env.build, env.folder, "stacks", "--preset", "stacks", "--duration-ms", "300")
    check_counters(env, checks, "stacks", [trace])
    for name, what in REAL.items():
        if checks.real(f"watch: {what}"):
            paths = traces.paths(name, env.build)
            check_random(env, checks, name, paths, dump(env, paths), count)


if __name__ == "__main__":
    harness.main(test, __doc__)
