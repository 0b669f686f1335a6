"""What a profile reports as missing. The test builds the records itself. Samples: the user half refers to a match id and never came, or it came
after its event had left the window; or the stack's key has no definition. Each case is counted under its cause, in each range and for each
process. Waits and ready times: they end long after the range; or their end is unknown, at the end of the stored events, where events, buffers or
batches were lost, or where a thread's number is reused: then they are in the sums, under a frame that names the cause. On the command line, as JSON and over HTTP; SQL's tables of threads give the same times.
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Stacks, profiles and symbols 4: A profile states what it lacks: missing, late and undefined user halves, each by cause. | on standard
#   error, as JSON, over HTTP | 2026-11-23
# - Stacks, profiles and symbols 5: A wait that ends after the range counts. A wait without a seen end has a frame of its own in the sums. | also in
#   the SQL tables `thread_times` and `waits` | 2026-11-23
# - Stacks, profiles and symbols 6: ... where events, buffers or a batch were lost, or where a thread id is used again. | each case |
#   2026-11-23
# - Stacks, profiles and symbols 7: Stored batches that the history lacks are counted in the answer. | each answer | 2026-11-23
import http.client
import json
import struct
import subprocess
import uuid

import harness
import kernel_records as kernel
import profile_formats
import test_ledger
import uploads
import test_profile
import test_single_records as single
import web_world

PERF_INFO, EVENT_TRACING = "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc", "b675ec37-bdb6-4648-bc92-f3fdc74d3ca2"
LOST_EVENT = "6a399ae0-4bc6-4de9-870b-3657f8947e7e"
CLASSIC, EXTENDED, WIDE = 0x100, 1, 0x40  # EVENT_HEADER_FLAG_
TRACE64, KEY64 = 6, 18  # EVENT_HEADER_EXT_TYPE_STACK_
PID, TID, HOME, DRIVER = 1234, 1235, 0x7FF640000000, 0xFFFFF80150000000
SECOND = 10_000_000
CAUSES = ["unanswered", "late", "undefined", "no_room"]
FAR = 70000  # a profile looks up now and then whether all has ended: after so many events it has


class Made:
    """Records in the order of their clock."""

    def __init__(self):
        self.clock, self.match_id = SECOND, 0
        self.records = [kernel.process(PID, "gaps.exe", self.clock), kernel.thread(PID, TID, self.clock),
                        kernel.image(PID, HOME, 0x100000, "gaps.exe", self.clock), kernel.image(0, DRIVER, 0x10000, "driver.sys", self.clock)]

    def add(self, *records):
        self.records += records
        self.clock += 10

    def event(self, guid, flags, code, payload, items, opcode=0, version=2):
        """An EVENT64 record with extended items with stacks: (type, match id, addresses or a key)."""
        data = b""
        for i, (kind, match_id, numbers) in enumerate(items):
            item = struct.pack(f"<Q{len(numbers)}Q", match_id, *numbers)
            data += struct.pack("<HHHH", 8 + len(item), kind, i + 1 < len(items), len(item)) + item
        body = struct.pack("<BBHHIIq", 19, 0xC0, flags | WIDE | EXTENDED, 0, TID, PID, self.clock) + uuid.UUID(guid).bytes_le + \
            struct.pack("<HBBBBHQII", code, version, 0, 0, opcode, 0, 0, 0, 0) + bytes(16) + data + payload
        self.add(struct.pack("<H", 2 + len(body)) + body)

    def sample(self, *items, payload=None):
        """A sample with what came of its stack inside its header."""
        self.event(PERF_INFO, CLASSIC, 0, struct.pack("<QIHH", DRIVER + 0x10, TID, 1, 0), items, opcode=46)

    def asks(self, kind=TRACE64, numbers=(DRIVER + 0x10,)):
        self.match_id += 1
        self.sample((kind, self.match_id, numbers))
        return self.match_id

    def answer(self, match_id):
        self.event(EVENT_TRACING, 0, 18, b"", [(TRACE64, match_id, (HOME + 0x30,))], version=0)

    def whole(self, count):
        for _ in range(count):
            self.add(*kernel.sample(PID, TID, [DRIVER + 0x10, HOME + 0x20], self.clock))

    def keyed(self, key):
        self.sample()
        self.add(single.system_record(24, 38, 2, struct.pack("<qIIQ", self.clock - 10, PID, TID, key), self.clock))

    def defines(self, key, *addresses):
        self.add(single.system_record(24, 36, 2, struct.pack(f"<Q{len(addresses)}Q", key, *addresses), self.clock))


def samples(made):
    """How many samples lack what: {cause: number}, in the window that there is, and in one of 64 KiB."""
    made.whole(3)
    for _ in range(2):
        made.asks()
    for _ in range(4):
        made.answer(made.asks())
    for i in range(5):
        made.keyed(0x1000 + i)
    for i in range(6):
        made.keyed(0x2000 + i)
    for _ in range(8):
        made.asks(KEY64, (0x3000,))  # neither an answer nor a definition: once
    late = [made.asks() for _ in range(7)]
    made.middle = made.clock
    made.whole(3000)
    made.asks()
    for match_id in late:
        made.answer(match_id)
    for i in range(6):
        made.defines(0x2000 + i, HOME + 0x40)
    return {"unanswered": 2 + 8 + 1, "late": 0, "undefined": 5, "no_room": 0}, {"unanswered": 11, "late": 7, "undefined": 5, "no_room": 0}


def time_of(clock):
    return test_profile.rfc3339((132000000000000000 - 116444736000000000 + clock - 1) * 100)


class Asked:
    def __init__(self, env, checks, collector):
        self.env, self.checks, self.store, self.port = env, checks, collector.store, web_world.Web(collector).port

    def run(self, *options):
        done = subprocess.run([str(part) for part in [self.env.collector, "profile", "--store", self.store, *options]], capture_output=True, text=True)
        if done.returncode:
            raise harness.Failure(f"profile {options}: {done.stderr}")
        return done

    def reported(self, *options, web=()):
        """The program's answer, which HTTP gives, too, when web has its parameters; and what it says beside it."""
        done = self.run("--format", "json", *options)
        if web:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            connection.request("GET", "/api/v1/profile?" + "&".join(web))
            self.checks.that(connection.getresponse().read().decode() == done.stdout, f"profile {options}: HTTP says something else")
            connection.close()
        return json.loads(done.stdout), done.stderr

    def folded(self, *options):
        return dict(profile_formats.folded(self.run("--format", "folded", *options).stdout))


def check_samples(env, checks, collector, asked):
    made = Made()
    want, want_small = samples(made)
    path = env.folder / "gaps.etl"
    path.write_bytes(single.trace(made.records))
    env.replay([path], collector, agent="gaps", spool=env.folder / "gaps-spool")
    base = ["--host", "gaps", "--weight", "samples"]
    reported, said = asked.reported(*base, web=["host=gaps", "weight=samples"])
    checks.equal((reported["events"], reported["incomplete"]), (3 + 2 + 4 + 5 + 6 + 8 + 7 + 3000 + 1, want), "samples, and what is missing from their stacks")
    for cause in CAUSES:
        lines = [line for line in said.splitlines() if f"({cause})" in line]
        checks.equal([int(line.split()[1]) for line in lines], [want[cause]] if want[cause] else [], f"the message about {cause}")
    checks.equal(reported["halves"]["no_match_id"], 0, "answers that no event waits for")
    paths = asked.folded(*base)
    frame = "driver.sys+0x10"
    checks.equal(paths, {("gaps.exe", "gaps.exe+0x20", frame): 3003, ("gaps.exe", "gaps.exe+0x30", frame): 4 + 7, ("gaps.exe", "gaps.exe+0x40"): 6,
                         ("gaps.exe", frame): 2 + 1, ("gaps.exe",): 5 + 8}, "the stacks")
    reported, _ = asked.reported(*base, "--window", "64KiB")
    checks.equal((reported["incomplete"], reported["halves"]["too_late"]), (want_small, 7), "what is missing with a small window")
    checks.equal(asked.folded(*base, "--window", "64KiB")["gaps.exe", frame], 2 + 1 + 7, "stacks without the halves that came too late")
    middle = time_of(made.middle)
    early, late = {**want, "unanswered": 10}, {**dict.fromkeys(CAUSES, 0), "unanswered": 1}
    reported, _ = asked.reported(*base, "--from", middle, "--diff-to", middle, web=["host=gaps", "weight=samples", f"from={middle}", f"other_to={middle}"])
    checks.equal((reported["incomplete"], reported["other"]["incomplete"], reported["other"]["events"]), (late, early, 35), "each range of a difference by itself")
    check_two_weights(checks, asked)
    reported, said = asked.reported(*base, "--pid", "4")
    checks.equal((reported["incomplete"], reported["events"], "not whole" in said), (dict.fromkeys(CAUSES, 0), 0, False), "what another process lacks")


def check_full_table(env, checks, collector, asked):
    """The table of stacks is full: each sample without room is counted once, the others keep their stacks."""
    made, count, depth = Made(), 4000, 64
    for i in range(count):
        made.add(*kernel.sample(PID, TID, [DRIVER + 0x10, *(DRIVER + 0x100 + i for _ in range(depth - 1))], made.clock))
    path = env.folder / "full.etl"
    path.write_bytes(single.trace(made.records))
    env.replay([path], collector, agent="full", spool=env.folder / "full-spool")
    base = ["--host", "full", "--weight", "samples"]
    whole, _ = asked.reported(*base)
    checks.equal((whole["events"], whole["incomplete"], whole["halves"]["no_room"]), (count, dict.fromkeys(CAUSES, 0), 0), "a table with room")
    cut, said = asked.reported(*base, "--stacks", "1MiB")
    no_room = cut["incomplete"]["no_room"]
    checks.that(0 < no_room < count - (1 << 20) // (8 * depth) // 2, f"1 MiB of {count} stacks of {depth} frames: {no_room} without room")
    checks.equal((cut["events"], cut["incomplete"], cut["halves"]["no_room"]), (count, {**dict.fromkeys(CAUSES, 0), "no_room": no_room}, no_room), "a table that is full")
    checks.that(f" {no_room} " in next((line for line in said.splitlines() if "(no_room)" in line), ""), f"the message about a full table: {said}")
    paths = asked.folded(*base, "--stacks", "1MiB")
    # without its stack a sample has the process of its own header, number 4, which nothing describes
    checks.equal((paths["?",], len(paths) - 1), (no_room, count - no_room), "samples without and with their stacks")


def check_two_weights(checks, asked):
    """Both sides of two weights are of the same records, of which nothing is counted twice: each side lacks what its profile alone lacks."""
    lacks = ("events", "without_stack", "incomplete", "halves", "keys_undefined", "unfinished", "unfinished_ns", "unbegun", "unbegun_ns")
    alone = {weight: asked.reported("--host", "gaps", "--weight", weight) for weight in ("samples", "cpu")}
    both, said = asked.reported("--host", "gaps", "--weight", "samples", "--other-weight", "cpu", web=["host=gaps", "weight=samples", "other_weight=cpu"])
    for side, weight, name in ((both, "samples", "first"), (both["other"], "cpu", "other")):
        one, words = alone[weight]
        checks.that(one["halves"]["joined"] and one["keys_undefined"], f"{weight}: nothing to count twice: {one['halves']}")
        checks.equal({key: side[key] for key in lacks}, {key: one[key] for key in lacks}, f"two weights: what {weight} lacks")
        mine = [line.replace(f"{name} side: ", "") for line in said.splitlines() if f"{name} side: " in line]
        checks.equal(mine, [line for line in words.splitlines() if "interval is not known" not in line], f"two weights: the messages about {weight}")


# ---- waits ----

class Scheduled(Made):
    """Context switches on one CPU, at seconds."""
    WAITS = 5

    def switch(self, at, old, new, frames=(), key=None):
        clock = SECOND + int(at * SECOND)
        self.records.append(single.system_record(5, 36, 2, struct.pack("<IIbbBbbbbbII", new, old, 8, 8, 0, 0, 6, 0, self.WAITS, 0, 0, 0), clock))
        if frames:
            self.records.append(single.system_record(24, 32, 2, struct.pack(f"<qII{len(frames)}Q", clock, PID, new, *frames), clock))
        if key:
            self.records.append(single.system_record(24, 38, 2, struct.pack("<qIIQ", clock, PID, new, key), clock))

    def runs(self, at, tid, **stack):
        """It goes on, with a stack, and waits again a tenth of a second later."""
        self.switch(at, 0, tid, **stack)
        self.switch(at + 0.1, tid, 0)

    def waits(self, at, tid):
        """It is there, and waits from then on."""
        self.switch(at - 0.01, 0, tid)
        self.switch(at, tid, 0)

    def ready(self, at, tid):
        self.records.append(single.system_record(5, 50, 2, struct.pack("<Ibbbb", tid, 1, 0, 0, 0), SECOND + int(at * SECOND)))

    def lost(self, at, what=32):
        """32: events, 33: buffers, 34: of a file."""
        self.records.append(single.full_record(LOST_EVENT, what, 1, b"", SECOND + int(at * SECOND)))

    def life(self, at, tid, ends):
        self.records.append(kernel.thread(PID, tid, SECOND + int(at * SECOND), ends=ends))

    def much(self, at):
        """Samples of another thread, each with a stack."""
        for i in range(FAR):
            self.records += kernel.sample(PID, TID, [HOME + 0x50], SECOND + int(at * SECOND) + i)


def clock_of(record):
    return struct.unpack_from("<q", record, 16)[0]


def written(env, made, host):
    made.records.sort(key=clock_of)
    path = env.folder / f"{host}.etl"
    path.write_bytes(single.trace(made.records))
    return path


def stored(env, collector, made, host):
    path = written(env, made, host)
    env.replay([path], collector, agent=host, spool=env.folder / f"{host}-spool")
    return path


def threads(env, collector, host, span=""):
    """tid -> milliseconds (running, ready, waiting, and the part of each whose end is unknown), of SQL's tables, which agree on waits."""
    def rows(sql):
        return map(json.loads, collector.ask("query", "--format", "jsonl", sql).splitlines())
    names = ["running_ns", "ready_ns", "waiting_ns", "unfinished_running_ns", "unfinished_ready_ns", "unfinished_waiting_ns"]
    times = {row["tid"]: tuple(row[name] // 10**6 for name in names) for row in rows(f"SELECT * FROM thread_times{span} WHERE host = '{host}' AND tid <> 0")}
    waits = {row["tid"]: (row["ns"] // 10**6, row["open"] // 10**6)
             for row in rows(f"SELECT tid, sum(ns) AS ns, sum(unfinished_ns) AS open FROM waits{span} WHERE host = '{host}' GROUP BY tid")}
    if waits != {tid: (t[2], t[5]) for tid, t in times.items() if t[2] or t[5]} | {tid: (0, 0) for tid, t in waits.items() if t == (0, 0)}:
        raise harness.Failure(f"{host}: waits and thread_times differ: {waits} {times}")
    return times


STILL, WAS_LOST, HAD_ENDED = "[still waiting at the end of the data]", "[waiting when events were lost]", "[waiting when the thread ended]"
WOKEN, STILL_READY = "[woken, without a processor until the end of the data]", "[still ready at the end of the data]"


def ms(stacks):
    """A time without a recorded end is of the thread's process, which no event names here; the others' process is in their stacks."""
    return {("?" if path[-1].startswith("[") else "gaps.exe", *path): n * 10**6 for path, n in stacks.items()}


def check_waits(env, checks, collector, asked):
    made = Scheduled()
    made.waits(1, 100)
    made.waits(2, 101)
    made.waits(3, 102)  # for good
    made.waits(4, 103)
    made.ready(5, 101)
    made.ready(6, 103)  # it never gets a processor
    made.waits(12, 104)  # after the range
    made.runs(20, 104, frames=(HOME + 0x60,))
    made.runs(120, 101, frames=(HOME + 0x70,))
    made.runs(200, 100, frames=(HOME + 0x80,))
    stored(env, collector, made, "waits")
    end = ["--host", "waits", "--to", time_of(11 * SECOND)]
    web = ["host=waits", f"to={time_of(11 * SECOND)}"]
    wants = {"wait": (ms({("gaps.exe+0x80",): 9000, ("gaps.exe+0x70",): 3000, (STILL,): 7000, (WOKEN,): 2000}), 2, 9.0),
             "ready": (ms({("gaps.exe+0x70",): 5000, (STILL_READY,): 4000}), 1, 4.0)}
    for weight, (stacks, open_count, open_seconds) in wants.items():
        reported, said = asked.reported(*end, "--weight", weight, web=[*web, f"weight={weight}"])
        checks.equal(asked.folded(*end, "--weight", weight), stacks, f"{weight}: waits that ended after the range")
        checks.equal((reported["unfinished"], reported["unfinished_ns"]), (open_count, int(open_seconds * 1e9)), f"{weight}: intervals without a recorded end")
        checks.equal((reported["total"], reported["events"], reported["without_stack"]), (sum(stacks.values()), len(stacks), open_count), f"{weight}: the total has them")
        pseudo = [row["self"] for row in reported["top_modules"] if reported["modules"][row["module"]]["name"] == "[no recorded end]"]
        checks.equal(pseudo, [int(open_seconds * 1e9)], f"{weight}: the pseudo-module of intervals without a recorded end")
        checks.that(f" {open_count} intervals have no recorded end" in said and f"{open_seconds * 1000:.3f} ms" in said, f"{weight}: {said}")
    # without --to, the range is everything that is stored: up to the last event
    reported, _ = asked.reported("--host", "waits", "--weight", "wait")
    last = 200.1
    checks.equal((reported["unfinished"], reported["unfinished_ns"]), (4, round((last - 3 + 2 + last - 20.1 + last - 120.1) * 1e9)), "waits that were open at the last event")
    checks.equal(asked.folded("--host", "waits", "--weight", "wait"),
                 ms({("gaps.exe+0x80",): 199000, ("gaps.exe+0x70",): 3000, ("gaps.exe+0x60",): 8000, (STILL,): 197100 + 180000 + 80000, (WOKEN,): 2000}), "waits of all of the data")
    # the same in SQL: the unfinished time at the last event is counted in every state
    checks.equal(threads(env, collector, "waits"), {100: (110, 0, 199000, 0, 0, 0), 101: (110, 115000, 3000, 0, 0, 80000), 102: (10, 0, 0, 0, 0, 197100),
                 103: (10, 0, 2000, 0, 194100, 0), 104: (110, 0, 8000, 0, 0, 180000)}, "thread_times: what was open at the last event")
    span = f"(NULL, '{time_of(11 * SECOND)}')"
    checks.equal(threads(env, collector, "waits", span), {100: (10, 0, 9000, 0, 0, 0), 101: (10, 5000, 3000, 0, 0, 0), 102: (10, 0, 0, 0, 0, 7000),
                 103: (10, 0, 2000, 0, 4000, 0)}, "thread_times: of a range")
    # only the part inside the range counts
    reported, _ = asked.reported("--host", "waits", "--weight", "wait", "--from", time_of(9 * SECOND), "--to", time_of(11 * SECOND))
    checks.equal((reported["total"], reported["unfinished"], reported["unfinished_ns"]), (4 * 10**9, 1, 2 * 10**9), "a range inside of waits")


def check_lost(env, checks, collector, asked):
    for what in (32, 33, 34):
        host = f"lost-{what}"
        made = Scheduled()
        made.waits(1, 100)
        made.waits(2, 101)
        made.runs(5, 101, frames=(HOME + 0x70,))
        made.lost(6, what)
        made.runs(7, 100, frames=(HOME + 0x80,))
        stored(env, collector, made, host)
        reported, _ = asked.reported("--host", host, "--weight", "wait", "--to", time_of(11 * SECOND))
        checks.equal(asked.folded("--host", host, "--weight", "wait", "--to", time_of(11 * SECOND)), ms({("gaps.exe+0x70",): 3000, (WAS_LOST,): 5900}),
                     f"{host}: waits that ended before events were lost")
        # 100 and 101 until events were lost, 100 once more to the last event, at which it begins to wait
        checks.equal((reported["unfinished"], reported["unfinished_ns"]), (2, round((5 + 0.9) * 1e9)), f"{host}: waits that were open when events were lost")
        checks.equal(threads(env, collector, host), {100: (110, 0, 0, 0, 0, 5000), 101: (110, 0, 3000, 0, 0, 900)}, f"{host}: thread_times")


def check_life(env, checks, collector, asked):
    """A thread begins under the number of another thread whose end event is missing; a thread ends, by the stored events, during a wait."""
    made = Scheduled()
    made.waits(1, 100)
    made.waits(2, 101)
    made.life(5, 100, ends=False)
    made.life(6, 101, ends=True)
    made.runs(7, 100, frames=(HOME + 0x80,))
    made.runs(8, 102)
    stored(env, collector, made, "anew")
    reported, _ = asked.reported("--host", "anew", "--weight", "wait")
    checks.equal((reported["total"], reported["unfinished"], reported["unfinished_ns"]), (9 * 10**9, 3, 9 * 10**9), "waits of threads whose number begins anew, and of one that ended")
    checks.equal(asked.folded("--host", "anew", "--weight", "wait"), {("gaps.exe", HAD_ENDED): 8 * 10**9, ("gaps.exe", STILL): 10**9}, "their frames")
    checks.equal(threads(env, collector, "anew"), {100: (110, 0, 0, 0, 0, 5000), 101: (10, 0, 0, 0, 0, 4000), 102: (100, 0, 0, 0, 0, 0)}, "thread_times: numbers that begin anew")


def check_hole(env, checks, collector, asked):
    """A batch never came: the time of a thread in this gap counts neither as a wait nor as any other state."""
    made = Scheduled()
    made.waits(1, 100)
    made.waits(4, 101)
    made.runs(5, 100, frames=(HOME + 0x70,))  # this record is in the batch that never comes
    made.runs(9, 100, frames=(HOME + 0x80,))
    made.runs(11, 102)
    path = written(env, made, "hole")
    batches = test_ledger.captured_paths(env, [path], len(made.records), "hole", ["--batch-events", "1"])
    gone = [i for i, record in enumerate(made.records) if SECOND + 4.5 * SECOND < clock_of(record) < SECOND + 6 * SECOND]
    # the trace's own records come first, batches without events at the end
    own = sum(uploads.Head(batch).event_count > 0 for batch in batches) - len(made.records)
    stored_ones = [batch for i, batch in enumerate(batches) if i - own not in gone]
    test_ledger.upload(env, collector, "hole", stored_ones)
    checks.equal(len(gone), 3, "records that never come")
    reported, _ = asked.reported("--host", "hole", "--weight", "wait")
    # thread 100: until the last event before the gap, and from 9.1 s to the last event
    checks.equal((reported["total"], reported["unfinished"], reported["unfinished_ns"]), (5 * 10**9, 2, 5 * 10**9), "waits around a batch that never came")
    checks.equal(threads(env, collector, "hole"), {100: (110, 0, 0, 0, 0, 5000), 101: (10, 0, 0, 0, 0, 0), 102: (100, 0, 0, 0, 0, 0)}, "thread_times around a batch that never came")

    # while the history still waits for that batch, the following batches are stored and not in the history: the profile reports their number
    patient = env.new_collector("patient", extra=["--hole-wait", "1h"]).start()
    test_ledger.upload(env, patient, "hole", stored_ones)
    # not env.run, which waits for the history
    done = subprocess.run([env.collector, "profile", "--store", patient.store, "--weight", "wait", "--format", "json"], capture_output=True, text=True, check=True)
    left = len(stored_ones) - gone[0] - own
    checks.equal(json.loads(done.stdout)["behind"], left, "stored batches that are not in the history yet")
    checks.that(f"{left} stored batches are not in the history yet" in done.stderr, f"the message about them: {done.stderr}")
    patient.stop()


def check_named(env, checks, collector, asked):
    """A machine's own counter, whose name is in its events: the API lists it under that name, and a request selects it by that name."""
    made = Made()
    made.add(single.system_record(15, 73, 3, struct.pack("<III", 40, 65536, 0) + "L3 <Misses>\0".encode("utf-16le"), made.clock))
    for _ in range(3):
        made.add(single.system_record(15, 47, 2, struct.pack("<QIHH", HOME + 0x10, TID, 40, 0), made.clock))
    made.add(single.system_record(15, 47, 2, struct.pack("<QIHH", HOME + 0x10, TID, 41, 0), made.clock))  # a counter without a name event
    stored(env, collector, made, "named")
    items = web_world.Web(collector).get("counters", host="named")["items"]
    checks.equal(items, [{"counter": "L3 <Misses>", "samples": 3, "hosts": 1}, {"counter": "41", "samples": 1, "hosts": 1}], "counters that the data names")
    for item, weight in zip(items, (3 * 65536, 1)):
        reported, _ = asked.reported("--host", "named", "--weight", f"pmc:{item['counter']}")
        checks.equal((reported["events"], reported["total"]), (item["samples"], weight), f"samples of {item['counter']}")


def check_disk(env, checks, collector, asked):
    """Disk requests that end without a stored begin: in no sum, and counted, with their time, in the range in which they began."""
    made = Made()

    def issued(irp):
        made.add(single.system_record(1, 12, 3, struct.pack("<QI", irp, TID), made.clock))

    def ended(irp, ticks):
        made.add(single.system_record(1, 10, 3, struct.pack("<IIIIQQQQI", 0, 0, 4096, 0, 0, 0, irp, ticks, TID), made.clock))

    issued(1)
    made.clock += 100
    ended(1, 110)
    made.clock += SECOND
    ended(2, 3000)  # its begin was lost
    middle = made.clock
    made.clock += 1000
    ended(3, 5000)  # this one's, too: before the middle
    issued(4)  # does not end
    made.clock += SECOND
    ended(5, 20)
    stored(env, collector, made, "disk")
    for options, events, total, unfinished, unbegun in (((), 1, 110, 1, (3, 8020)), (("--to", time_of(middle)), 1, 110, 0, (2, 8000)), (("--from", time_of(middle)), 0, 0, 1, (1, 20))):
        reported, words = asked.reported("--host", "disk", "--weight", "disk", *options)
        checks.equal((reported["events"], reported["total"], reported["unfinished"], reported["unbegun"], reported["unbegun_ns"]),
                     (events, total * 100, unfinished, unbegun[0], unbegun[1] * 100), f"disk requests {options}")
        checks.that(f"{unbegun[0]} disk requests have no recorded begin and count nothing: {unbegun[1] / 10000:.3f} ms" in words, f"the message about them: {words}")
    reported, words = asked.reported("--host", "disk", "--weight", "cpu")
    checks.equal((reported["unbegun"], "recorded begin" in words), (0, False), "processor time has no requests")


def check_over(env, checks, collector, asked):
    """When all waits of the range have ended, no more is read but definitions of keys that are still wanted."""
    halves = {}
    for host, stack in (("over-plain", {"frames": (HOME + 0x80,)}), ("over-keys", {"key": 0x5000})):
        made = Scheduled()
        made.waits(1, 100)
        made.runs(100, 100, **stack)
        made.switch(100.2, 0, 100)  # it does not wait at the end
        made.much(200)
        made.much(300)
        made.clock = SECOND + 400 * SECOND
        made.defines(0x5000, HOME + 0x80)
        stored(env, collector, made, host)
        options = ["--host", host, "--weight", "wait", "--to", time_of(11 * SECOND)]
        reported, _ = asked.reported(*options)
        checks.equal(asked.folded(*options), {("gaps.exe", "gaps.exe+0x80"): 9 * 10**9}, f"{host}: the wait")
        checks.equal((reported["unfinished"], reported["keys_undefined"], reported["incomplete"]), (0, 0, dict.fromkeys(CAUSES, 0)), f"{host}: what is missing")
        halves[host] = sum(reported["halves"].values())
    checks.that(all(0 < n < 2 * FAR for n in halves.values()), f"all was read though all waits had ended: {halves} halves")


def test(env, checks, arguments):
    env.make_certificates(("gaps", "full", "waits", "lost-32", "lost-33", "lost-34", "anew", "hole", "named", "over-plain", "over-keys", "disk"))
    collector = env.new_collector(extra=["--web", "127.0.0.1:0", "--hole-wait", "1s"]).start()
    asked = Asked(env, checks, collector)
    check_samples(env, checks, collector, asked)
    check_full_table(env, checks, collector, asked)
    check_waits(env, checks, collector, asked)
    check_lost(env, checks, collector, asked)
    check_life(env, checks, collector, asked)
    check_hole(env, checks, collector, asked)
    check_disk(env, checks, collector, asked)
    check_over(env, checks, collector, asked)
    check_named(env, checks, collector, asked)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__)
