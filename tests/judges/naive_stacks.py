"""An offline join of stacks, kept simple on purpose: the whole trace in memory, every walk compared with every event of its time.
It is the judge of `etwagent stacks` and knows nothing of windows or columns; the rules are those of proto/stack/stack_join.h and
stacks.h. Its input is what `etwagent dump --format raw` prints.
"""
import collections

STACK_WALK = "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3"
EVENT_TRACING = "b675ec37-bdb6-4648-bc92-f3fdc74d3ca2"
IMAGE_ID = "b3e675d7-2554-4f18-830b-2762732560de"  # added when a trace is merged: never has a stack
CLR = {"e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "a669021c-c450-4609-a035-5af59af4df18", "cc2bcbba-16b6-4cf3-8990-d74c2e8af500",
       "763fd754-7086-4dfe-95eb-c01a46faf4ca"}
THREAD_FIELD = {"PerfInfo/SampleProf": "ThreadId", "PerfInfo/PmcCounterProf": "ThreadId", "Thread/CSwitch": "NewThreadId"}
ANY = 0xFFFFFFFF
KERNEL, USER = "kernel", "user"


def is_kernel(address, width):
    return bool(address >> (31 if width == 4 else 63))


def numbers(data, width):
    return tuple(int.from_bytes(data[i:i + width], "little") for i in range(0, len(data) - width + 1, width))


def whence(ordinal, record):
    return ordinal, record["clock"], record["pid"], record["tid"]


class Event:
    def __init__(self, ordinal, record):
        self.ordinal, self.clock, self.cpu = ordinal, record["clock"], record["cpu"]
        field = THREAD_FIELD.get(record["name"])
        self.tid = record["fields"].get(field, record["tid"]) if field else record["tid"]
        self.halves = {}  # half -> (addresses, or the use of a key; how)


class Keys:
    """All definitions of the trace; a use asks which one holds for it when everything has been read."""

    def __init__(self):
        self.lives = collections.defaultdict(list)  # (half, key) -> [[from, to, addresses]]

    def define(self, half, opcode, key, ordinal, addresses):
        lives = self.lives[half, key]
        if opcode == 34:
            lives.append([ordinal, None, addresses])
            return
        if not lives or lives[-1][1] is not None:
            lives.append([lives[-1][1] if lives else -1, None, addresses])
        if lives[-1][2] is None:
            lives[-1][2] = addresses
        if opcode == 35:
            lives[-1][1] = ordinal

    def find(self, half, key, ordinal):
        for begin, end, addresses in self.lives[half, key]:
            if begin <= ordinal and (end is None or ordinal < end):
                return addresses
        return None


class Join:
    def __init__(self, records):
        self.events, self.outcomes, self.keys = [], collections.Counter(), Keys()
        self.unanswered, self.late = 0, []  # late: (event, ordinal and record of its user half)
        self.missed = []  # (ordinal of the record, clock, pid, tid, half, why) of each half that no event got
        self.asked = []  # [event that named a match id, its pid, whether the answer came]
        walks, by_match, clr_last = [], {}, {}
        for ordinal, record in enumerate(records):
            width, data = record["pointer_size"], bytes.fromhex(record["payload"])
            provider = record["provider"]
            if provider == STACK_WALK:
                self.take_stack_walk(record, ordinal, data, width, walks)
                continue
            if provider == IMAGE_ID:
                continue
            if provider in CLR and record["name"] == "ClrStack/Walk":
                frames = numbers(data[8:8 + width * int.from_bytes(data[4:8], "little")], width)
                event = clr_last.pop((provider, record["tid"]), None)
                self.give(event, USER, frames, "joined", "no_clr_event", whence(ordinal, record))
                continue
            is_late = provider == EVENT_TRACING and record["id"] == 18
            event = None
            if not is_late:
                event = Event(ordinal, record)
                self.events.append(event)
                if provider in CLR:
                    clr_last[provider, record["tid"]] = event
            for item in record["extended"]:
                if item["type"] in (5, 6, 17, 18):
                    self.take_item(item, event, by_match, ordinal, record)
        self.join_walks(walks)
        for event in self.events:
            for half, (what, how) in list(event.halves.items()):
                if isinstance(what, tuple) and what and what[0] == "key":
                    event.halves[half] = self.keys.find(*what[1:]), how
        for event, pid in {event: pid for event, pid, answered in self.asked if not answered and USER not in event.halves}.items():
            self.missed.append((event.ordinal, event.clock, pid, event.tid, USER, "no_answer"))

    def miss(self, came_from, half, why):
        self.outcomes[why] += 1
        self.missed.append((*came_from, half, why))

    def give(self, event, half, what, how, missing, came_from):
        if event is None:
            self.miss(came_from, half, missing)
        elif half in event.halves:
            self.miss(came_from, half, "taken")
        else:
            event.halves[half] = what, how
            self.outcomes[how] += 1

    def take_stack_walk(self, record, ordinal, data, width, walks):
        opcode = record["opcode"]
        if opcode in (34, 35, 36):
            frames = numbers(data[width:], width)
            if frames:
                half = KERNEL if is_kernel(frames[0], width) else USER
                self.keys.define(half, opcode, numbers(data, width)[0], ordinal, frames)
            return
        time, pid, tid = (int.from_bytes(data[a:b], "little") for a, b in ((0, 8), (8, 12), (12, 16)))
        came_from = ordinal, time, pid, tid
        if opcode in (37, 38):
            half = KERNEL if opcode == 37 else USER
            walks.append((came_from, record["cpu"], half, ("key", half, numbers(data[16:], width)[0], ordinal)))
        elif opcode == 32:
            for half, frames in self.halves(numbers(data[16:], width), width):
                walks.append((came_from, record["cpu"], half, frames))

    @staticmethod
    def halves(frames, width):
        kernel = 0
        while kernel < len(frames) and is_kernel(frames[kernel], width):
            kernel += 1
        return [(half, part) for half, part in ((KERNEL, frames[:kernel]), (USER, frames[kernel:])) if part]

    def take_item(self, item, event, by_match, ordinal, record):
        data = bytes.fromhex(item["data"])
        width = 4 if item["type"] in (5, 17) else 8
        match_id = int.from_bytes(data[:8], "little")
        if item["type"] in (17, 18):
            half = KERNEL if match_id and event else USER
            parts = [(half, ("key", half, numbers(data[8:], width)[0], ordinal))]
        else:
            parts = self.halves(numbers(data[8:], width), width)
        if event is None:
            user = [what for half, what in parts if half == USER] or [what for half, what in parts]
            asked = by_match.pop(match_id, None)
            if asked:
                self.unanswered -= 1
                self.late.append((asked[0], ordinal, record))
                asked[2] = True
            self.give(asked and asked[0], USER, user[0], "joined", "no_match_id", whence(ordinal, record))
            return
        for half, what in parts:
            self.give(event, half, what, "in_event", "", whence(ordinal, record))
        if match_id and by_match.get(match_id, (None,))[0] is not event:
            by_match[match_id] = [event, record["pid"], False]
            self.asked.append(by_match[match_id])
            self.unanswered += 1

    def join_walks(self, walks):
        by_time = collections.defaultdict(list)
        for event in self.events:
            by_time[event.clock].append(event)
        for came_from, cpu, half, what in walks:
            _, time, _, tid = came_from
            of_time = by_time.get(time, [])
            fits = []
            for event in of_time:
                thread = 1 if ANY in (tid, event.tid) else 2 if tid == event.tid else 0
                if thread:
                    fits.append((thread, event.cpu == cpu, event))
            free = [fit for fit in fits if half not in fit[2].halves]
            if not free:
                self.miss(came_from, half, "taken" if fits else "other_thread" if of_time else "no_event")
                continue
            best = max(fit[:2] for fit in free)
            equals = [fit[2] for fit in free if fit[:2] == best]
            self.give(equals[0], half, what, "ambiguous" if len(equals) > 1 else "joined", "", came_from)
