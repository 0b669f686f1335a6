"""What an agent sends is read by a reader in another language that was written from the text alone (format_reader.py):

- batches of every real trace, as they travel (definitions only until they are acknowledged, shapes, a trained dictionary,
  keyframes between them): each record equals its line of `etwagent dump --format raw`, each checksum its records;
- damage: whatever a batch breaks is named by the section of the text that forbids it, and a collector refuses the same; each rule
  that the reader knows is broken by some batch (wire_lies.py).
"""
# Promises (tests/promises.py --write puts them into docs/verification/promises.md):
# - Records 2: The reader of the wire format needs only the text of its specification. A Python reader was written from the text. | each
#   record of twelve real traces and of the first batch of three large ones; the long form reads all of these three | 2026-11-23
# - Records 4: Each rule of the format is checked. The collector refuses what the Python reader refuses. | each known rule is broken by at
#   least one batch | 2026-11-23
import ast
import contextlib
import copy
import ctypes
import datetime
import hashlib
import http.client
import json
import pathlib
import random
import ssl
import struct
import subprocess
import sys
import threading
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import format_columns  # noqa: E402
import format_description  # noqa: E402
import format_notation  # noqa: E402
import format_reader  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402
import traces  # noqa: E402
import uploads  # noqa: E402
import wire_lies  # noqa: E402

# events a batch where it is not the agent's own number: small batches have shapes and payloads in one column
SMALL = {"amsi-eventslost": 5, "clr-32bit": 300, "clr-gc-events": 10, "kernel-process-provider": 20, "shutdown-win10": 50}
# the long ones are read whole in the long form only
LARGE = ("clr-kernel-win8-x64", "diagsession-four-files", "tracelogging-win11-20cpu")
LARGE_BATCHES = 1
DAMAGED = "http-server-win7"
CONFLICT, MALFORMED, RETRY = range(3)
READER = (format_notation, format_description, format_columns, format_reader)
SMALL_DAMAGED = (DAMAGED, ["--batch-events", 20])  # in batches with contexts


# ---- messages written ---------------------------------------------------------------------------------------------------

def number_bytes(kind, value):
    wire = format_notation.wire_type(kind)
    if wire:
        return (value & format_notation.MASK64).to_bytes(8 if wire == 1 else 4, "little")
    if kind == "sint32":
        value = (value << 1 ^ value >> 31) & 0xffffffff
    if kind == "sint64":
        value = (value << 1 ^ value >> 63) & format_notation.MASK64
    return uploads._varint(int(value))


def encode(message, name):
    """A message as bytes, from what format_notation.parse gives."""
    out = b""
    for number, (field, kind, repeated) in sorted(format_notation.MESSAGES[name].items()):
        value, wire = getattr(message, field), format_notation.wire_type(kind)
        if wire == 2:
            for one in value if repeated else [value] if value or isinstance(value, types.SimpleNamespace) else []:
                one = format_notation.as_utf8(one) if kind == "string" else encode(one, kind) if isinstance(one, types.SimpleNamespace) else one
                out += uploads._bytes(number, one)
        elif repeated and value:
            out += uploads._bytes(number, b"".join(number_bytes(kind, one) for one in value))
        elif not repeated and value:
            out += uploads._varint(number << 3 | wire) + number_bytes(kind, value)
    return out


def put_context(message, context, indexes):
    """A batch names a context that it carries."""
    data = encode(context, "Context")
    message.contexts, message.context = [data], hashlib.sha256(data).digest()[:8] + indexes


def compressed(data):
    """One zstd frame."""
    zstd = format_notation.ZSTD
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    zstd.ZSTD_compress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    out = ctypes.create_string_buffer(len(data) + len(data) // 128 + 1000)
    size = zstd.ZSTD_compress(out, len(out), data, len(data), 3)
    return out.raw[:size]


class Draft:
    """A batch taken apart, to be changed and put together again. d: its directory; frames are not compressed."""

    def __init__(self, data):
        batch = format_reader.Batch(data)
        self.batch = copy.deepcopy(batch.message)
        self.d = copy.deepcopy(batch.directory)
        for frame in self.batch.frames:
            if frame.raw_bytes:
                frame.data = format_notation.decompress(frame.data, frame.raw_bytes, b"", "")
                frame.raw_bytes = 0
        self.groups, self.tail = batch.groups, b""
        self.directory, self.directory_tail = None, b""  # bytes that replace the encoded d, and bytes that follow it

    def bytes(self):
        self.batch.directory = encode(self.d, "Directory") + self.directory_tail if self.directory is None else self.directory
        self.batch.directory_bytes = 0
        return encode(self.batch, "Batch") + self.tail


# ---- what agents send -----------------------------------------------------------------------------------------------------

def definitions_of(batch):
    """What the batch carries for later ones: hashes of all, as Ack.known has them."""
    return [key for kept in batch.own.kept.values() for key in kept]


def captured(env, name, extra):
    """The batches of a replay in the order of their numbers; what they define is acknowledged, and travels once."""
    kept, lock = {}, threading.Lock()

    def take(exchange):
        exchange.read_body()
        known = []
        with lock:
            for batch in uploads.batches(exchange.body):
                kept[uploads.Head(batch).number] = batch
                message = format_notation.parse(batch, "Batch")
                known += [*message.descriptions, *message.shapes, *message.dictionaries, *message.contexts]
                known += format_notation.parse(batch, "Batch", raw=("sources",)).sources if message.context else []
        exchange.acknowledge(exchange.heads(), known=[hashlib.sha256(data).digest()[:16] for data in known])

    with receiver.Receiver(env.certs, take) as fake:
        env.replay(traces.paths(name, env.build), fake, spool=env.folder / f"spool-{name}", extra=extra)
    return [kept[number] for number in sorted(kept)]


def expected(line):
    """What of a line of `dump --format raw` a record gives."""
    j = json.loads(line)
    header = j["header"] or {"type": None, "hook_id": 0, "word": 0, "source": 0}
    return {"name": j["name"], "provider_name": j["provider_name"] or "", "utc": j["time"], "time_raw": j["clock"],
            "provider": j["provider"], "keyword": int(j["keyword"], 16), "activity_id": j["activity_id"], "payload": j["payload"],
            "items": [(e["type"], e["linkage"], e["data"]) for e in j["extended"]], "hook_id": header["hook_id"],
            "header_word": header["word"], "source": header["source"], "form": header["type"] is not None,
            **{key: j[key] for key in ("id", "version", "channel", "level", "opcode", "task", "cpu", "pid", "tid", "flags", "property",
                                       "kernel_time", "user_time", "logger", "pointer_size")}}


def got(batch, i, record):
    """The same of a record."""
    description, utc_ns = batch.groups[batch.group[i]].description, batch.utc_ns(i)
    seconds = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=utc_ns // 10**9)
    own = {key: value for key, value in record.items() if key != "header_type"}
    return {**own, "name": description.name, "provider_name": description.provider_name, "form": record["header_type"] != 0,
            "utc": f"{seconds:%Y-%m-%dT%H:%M:%S}.{utc_ns % 10**9 // 100:07}Z", "provider": format_reader.guid(record["provider"]),
            "activity_id": None if record["activity_id"] == bytes(16) else format_reader.guid(record["activity_id"]),
            "payload": record["payload"].hex(), "items": [(kind, linkage, data.hex()) for kind, linkage, data in record["items"]]}


def read_trace(env, checks, name, soak):
    """All batches of a trace, record by record. Returns what of the format they used."""
    large = name in LARGE
    extra = ["--keyframe-events", 5000] if name in (*LARGE, "shutdown-win10") else []
    if name in SMALL:
        extra += ["--batch-events", SMALL[name]]
    batches = captured(env, name, extra)
    dump = subprocess.Popen([env.agent, "dump", "--format", "raw", *traces.paths(name, env.build)], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL if large and not soak else None, text=True)
    definitions, used, records, differing, sequence = format_reader.Definitions(), set(), 0, [], 0
    for number, data in enumerate(batches[:LARGE_BATCHES if large and not soak else None], 1):
        try:
            batch = format_reader.Batch(data, definitions)
            batch.verify()
            batch.check_ledger()
        except format_notation.Broken as broken:
            checks.that(False, f"{name}: batch {number}: {broken}")
            break
        message = batch.message
        checks.equal((message.number, message.sources != [] or number > 1), (number, True), f"{name}: batch {number}: number, sources")
        used |= {field for field in ("context", "ledger") if getattr(message, field)}
        used.add(f"kind {message.kind}")
        if message.kind:
            checks.that(all(g.description.kind == 1 for g in batch.groups), f"{name}: a keyframe holds other events")
            continue
        if not message.event_count:
            used.add("no events")  # the stream's closing batch
            continue
        used |= {"payload" for _ in [0] if batch.columns["payload"]}
        for i, record in enumerate(batch.records()):
            line = dump.stdout.readline()
            records += 1
            want = expected(line) if line else {}
            have = got(batch, i, record)
            if have != want and len(differing) < 3:
                differing.append((number, i, {key: (want.get(key), have.get(key)) for key in {*want, *have} if want.get(key) != have.get(key)}))
    rest = dump.stdout.readline() if not large or soak else ""
    dump.stdout.close()
    if dump.wait() and (not large or soak):
        checks.that(False, f"{name}: dump ended with {dump.returncode}")
    checks.equal(differing, [], f"{name}: records that differ")
    checks.equal(rest, "", f"{name}: a record that no batch has")
    if not large or soak:
        checks.equal(records, traces.event_count(name), f"{name}: records, against the independent parser's count")
    return used


# ---- damage ---------------------------------------------------------------------------------------------------------------

def lies():
    """(what is changed, the section that forbids it, change(draft))"""
    def column(name, **members):
        return lambda b: vars(getattr(b.d, name)).update(members)

    def batch(**members):
        return lambda b: vars(b.batch).update(members)

    def group(change):
        return lambda b: change(b.d.groups[-1])

    def setting(get, **members):
        return lambda b: vars(get(b)).update(members)

    def payload_as_field(b):
        """All of a payload as the first field of a class that has several."""
        group = next(g for g, of in zip(b.d.groups, b.groups) if len(of.description.top) > 1 and g.payload and not g.fields)
        group.fields, group.payload = [group.payload], None

    def header(b):
        b.d.groups[0].header = b.d.groups[0].header or format_notation.parse(b"", "Header")
        return b.d.groups[0].header

    def in_context(indexes=b"", **members):
        """A context of the batch's own source, with that changed."""
        def change(b):
            source = encode(b.batch.sources[0], "Source")
            context = format_notation.parse(b"", "Context")
            vars(context).update({"sources": hashlib.sha256(source).digest()[:8], **members})
            put_context(b.batch, context, indexes)
        return change

    def swapped(b):
        b.d.groups[0], b.d.groups[-1] = b.d.groups[-1], b.d.groups[0]

    def empty_column(**members):
        return types.SimpleNamespace(**{**vars(format_notation.parse(b"", "Column")), **members})

    deep = b""
    for _ in range(20):
        deep = uploads._bytes(10, deep)
    yield "a checksum of other records", "Checksum", lambda b: vars(b.batch).update(checksum=b.batch.checksum ^ 1)
    yield "a checksum of 0", "Checksum", batch(checksum=0)
    yield "another format", "The batch", batch(format=2)
    yield "another kind", "Growth", batch(kind=3)
    yield "no number", "The batch", batch(number=0)
    yield "a number beyond all", "Bounds", batch(number=(1 << 63) - 1)
    yield "a short stream name", "The batch", batch(stream=bytes(15))
    yield "more events than are allowed", "Bounds", batch(event_count=262145)
    yield "one event more", "Bounds", lambda b: vars(b.batch).update(event_count=b.batch.event_count + 1)
    yield "one event less", "Bounds", lambda b: vars(b.batch).update(event_count=b.batch.event_count - 1)
    yield "a priority of 256", "Bounds", batch(priority=256)
    yield "a tombstone with events", "Tombstones", batch(kind=1)
    yield "no source", "The batch", batch(sources=[])
    yield "a context that does not exist", "Definitions", batch(context=bytes(8))
    yield "a source that does not exist", "Definitions", in_context(sources=bytes(8))
    yield "no descriptions", "Definitions", batch(descriptions=[])
    yield "too many sources", "Bounds", in_context(sources=bytes(8 * 4097))
    yield "a longer time", "The batch", lambda b: vars(b.batch).update(time_span=b.batch.time_span + 1)
    yield "a byte after the columns", "Frames and the pool", lambda b: vars(b.d).update(pool=b.d.pool + b"\0")
    yield "a byte less of the columns", "Frames and the pool", lambda b: vars(b.d).update(pool=b.d.pool[:-1])
    yield "a frame that no column uses", "Frames and the pool", \
        lambda b: b.batch.frames.append(types.SimpleNamespace(data=b"x", raw_bytes=0))
    yield "a frame that is no zstd", "Frames and the pool", \
        lambda b: b.batch.frames.append(types.SimpleNamespace(data=b"xxxxxxxxxxxxxx", raw_bytes=9))
    yield "a column in no frame", "Columns", column("group", frame=77)
    yield "an unknown encoding", "Growth", column("cpu", encoding=7, planes=0)
    yield "an unknown base", "Growth", column("cpu", relative_to=5)
    yield "PLAIN that is relative", "Columns", column("cpu", encoding=1, planes=0, relative_to=1)
    yield "another width than the place's", "Columns", column("cpu", width=4)
    yield "relative to the time outside groups", "Columns", lambda b: vars(b.d).update(sequence=empty_column(relative_to=2))
    yield "`bytes` where the rows say it", "Columns", column("cpu", encoding=1, planes=0, relative_to=0, bytes=1)
    yield "`planes` beyond the width", "Columns", column("cpu", encoding=2, planes=3)
    yield "no bits", "Columns", column("cpu", encoding=6, planes=0, relative_to=0)
    yield "a constant beyond its width", "Columns", column("cpu", encoding=0, planes=0, relative_to=0, constant=b"123")
    yield "a shared dictionary that is not there", "Columns", column("cpu", encoding=4, relative_to=0, shared=1, planes=0)
    yield "a dictionary without values", "Columns", column("cpu", encoding=4, relative_to=0, value_count=2, values=None, planes=0)
    yield "a dictionary of too many values", "Bounds", \
        lambda b: vars(b.d).update(sequence=empty_column(encoding=4, value_count=1 << 20, values=empty_column()))
    yield "no group column", "The directory", lambda b: vars(b.d).update(group=None)
    yield "no thread column", "The directory", lambda b: vars(b.d).update(thread=None)
    yield "a source beyond the table", "Bounds", lambda b: vars(b.d).update(source=empty_column(constant=b"\x09"))
    yield "more threads than events", "Bounds", lambda b: vars(b.d).update(thread_count=b.batch.event_count + 1)
    yield "groups in another order", "Groups", swapped
    yield "groups that do not follow their first events", "Groups", wire_lies.reordered
    yield "a group of one more", "Bounds", group(lambda g: vars(g).update(count=(g.count or 1) + 1))
    yield "a class by a short hash", "Groups", group(lambda g: vars(g).update(class_hash=bytes(15)))
    yield "a class without a description", "Definitions", group(lambda g: vars(g).update(class_hash=bytes(16)))
    yield "more fields than the class has", "Groups", lambda b: b.d.groups[-1].fields.extend([empty_column()] * (len(b.groups[-1].description.top) + 1 - len(b.d.groups[-1].fields)))
    yield "65 items", "Bounds", group(lambda g: g.items.extend([types.SimpleNamespace(type=1, linkage=0, data=empty_column())] * 65))
    yield "an item's type of 17 bits", "Groups", \
        group(lambda g: g.items.append(types.SimpleNamespace(type=65536, linkage=0, data=empty_column())))
    yield "a version of 9 bits", "Headers", setting(header, version=256)
    yield "a provider of 15 bytes", "Headers", setting(header, provider=bytes(15))
    yield "a short name of a context", "Contexts", batch(context=bytes(7))
    yield "shapes for none", "Contexts", in_context()
    yield "a shape that does not exist", "Definitions", in_context(shapes=bytes(8), indexes=b"\0")
    yield "a shape beyond the context", "Contexts", in_context(shapes=bytes(8), indexes=b"\1")
    yield "a context without sources", "Bounds", in_context(sources=b"")
    yield "half a name of a shape", "Contexts", in_context(shapes=bytes(12))
    yield "a priority of 256 in a context", "Bounds", in_context(priority=256)
    yield "a dictionary without a context", "Short directories", lambda b: vars(b).update(directory=b"\2xxxx")
    yield "a payload too long", "Bounds", wire_lies.payload_is(empty_column(constant=bytes(65536)))
    yield wire_lies.KEPT[0], "Groups", payload_as_field
    yield "a tombstone that ends before it begins", "Tombstones", \
        lambda b: b.batch.tombstones.append(types.SimpleNamespace(first=2, last=1, cause=15, event_count=0, utc_min_ns=0, utc_max_ns=0))
    yield "a tombstone beyond all numbers", "Tombstones", \
        lambda b: b.batch.tombstones.append(types.SimpleNamespace(first=1, last=(1 << 63) - 1, cause=15, event_count=0, utc_min_ns=0, utc_max_ns=0))
    yield wire_lies.KEPT[1], "Ledger", \
        batch(ledger=types.SimpleNamespace(counters=[1, 2], values=[1], incarnation=1, utc_ns=1, families=[]))
    yield wire_lies.KEPT[2], "Ledger", \
        batch(ledger=types.SimpleNamespace(counters=[1, 2], values=[2, 1], incarnation=1, utc_ns=1, families=[]))
    yield "too many shared dictionaries", "Bounds", \
        lambda b: b.d.dictionaries.extend([types.SimpleNamespace(count=0, values=None)] * 65)
    yield "messages 20 deep", "Bounds", \
        lambda b: vars(b.d.cpu).update(values=format_notation.parse(deep, "Column"))
    yield "a message that ends inside a field", "The batch", lambda b: vars(b).update(tail=b"\x0a\x05ab")
    yield "a number of 65 bits", "The batch", lambda b: vars(b).update(tail=b"\x08" + b"\xff" * 9 + b"\x02")


def replace_need(check):
    """All parts of the reader call this function where they need something of a batch."""
    for part in READER:
        part.need = check


def watched_rules():
    """The places in the reader's parts, as (module, line), where a batch was found to break a rule; the set grows while batches are read."""
    broken, need = set(), format_notation.need

    def watching(condition, section, rule):
        if not condition:
            caller = sys._getframe(1)
            broken.add((caller.f_globals["__name__"], caller.f_lineno))
        need(condition, section, rule)
    replace_need(watching)
    return broken


def check_rules(checks, broken):
    """Each rule of the reader was broken by some batch: what it has to refuse was shown to it."""
    for part in READER:
        text = pathlib.Path(part.__file__).read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "need":
                checks.that((part.__name__, call.lineno) in broken,
                            f"no batch breaks the rule of {part.__name__}.py:{call.lineno}: {ast.get_source_segment(text, call)}")


class Poster:
    """Uploads single batches to a collector, each under a number of its own, and says what became of them."""

    def __init__(self, env, collector):
        context = ssl.create_default_context(cafile=str(env.certs / "ca.crt"))
        context.load_cert_chain(env.certs / "test-machine.crt", env.certs / "test-machine.key")
        self.connection = http.client.HTTPSConnection("localhost", collector.port, context=context, timeout=120)

    def cause(self, data):
        """None: it is stored. Otherwise why not: MALFORMED, RETRY, or the HTTP status of an upload that is refused whole."""
        return self.refusal(data)[0]

    def refusal(self, data):
        """The cause, and the collector's sentence about it."""
        self.connection.request("POST", uploads.UPLOAD_PATH, uploads.body([data]), {"Content-Type": "application/x-etwagent-batches"})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            return answer.status, body.decode()
        ack = format_notation.parse(body, "Ack")
        if len(ack.acknowledged) + len(ack.refused) != 1:
            raise harness.Failure(f"an answer to one batch that is not about it: {ack}")
        return (ack.refused[0].cause, ack.refused[0].text) if ack.refused else (None, "")


def judged(data):
    """What the reader says of a batch: the rule that it breaks, or None."""
    try:
        batch = format_reader.Batch(data)
        batch.verify()
        batch.check_ledger()
    except format_notation.Broken as broken:
        return broken
    return None


@contextlib.contextmanager
def believing():
    """The reader takes whatever a batch says."""
    need = format_notation.need
    replace_need(lambda condition, section, rule: None)
    try:
        yield
    finally:
        replace_need(need)


def sealed(draft):
    """The batch with the checksum and the times of the records that it would give, were no rule broken; whether it gives any."""
    try:
        with believing():
            batch = format_reader.Batch(draft.bytes())
            records = list(batch.records())
            times = [batch.converted(i) for i in range(len(records))]
            first = max(min(times), max(times) - (1 << 63) + 1)
            # numbers that go on from the first time go on from another one then: it is the same difference for all
            draft.batch.time_min += first - batch.time_min() if batch.directory.time.relative_to == 0 else 0
            draft.batch.time_span = max(times) - first
            draft.batch.checksum = format_reader.checksum(records)
    except (format_notation.Broken, AttributeError, IndexError, KeyError, MemoryError, OverflowError, StopIteration, TypeError, ValueError, struct.error):
        return False
    return True


def damage(env, checks, poster, real):
    """The reader reports each lie under its section. The collector refuses each lie for its own reason, and not for a wrong checksum."""
    whole = captured(env, DAMAGED, [])[0]
    again = Draft(whole).bytes()
    checks.that(judged(again) is None, f"a batch that is put together again is not the same: {judged(again)}")
    checks.equal(poster.cause(again), None, "the collector about a batch that is put together again")
    small = captured(env, *SMALL_DAMAGED)[0]
    all_lies = [(whole, lie) for lies_of in (lies(), wire_lies.descriptions(), wire_lies.columns(), wire_lies.envelopes(compressed)) for lie in lies_of]
    all_lies += [(small, lie) for lie in wire_lies.small()]
    for number, (sound, (what, section, change)) in enumerate(all_lies):
        draft = Draft(sound)
        draft.batch.stream = number.to_bytes(16, "big")  # where nothing was defined before
        before = draft.d.pool
        change(draft)
        if not real and what == "a byte less of the columns" and draft.d.pool == before:
            continue  # a generated batch whose pool is empty
        can_read = what not in wire_lies.OF_THE_CHECKSUM and what not in wire_lies.TOO_LARGE and sealed(draft)
        data = draft.bytes()
        broken = judged(data)
        checks.that(broken is not None and broken.section.startswith(section), f"{what}: expected a rule of '{section}', got '{broken}'")
        if what in wire_lies.KEPT:
            continue
        cause, said = poster.refusal(data)
        unknown = isinstance(broken, format_notation.Unknown)
        checks.that(what in wire_lies.REASONS and wire_lies.REASONS[what] in said, f"{what}: the collector names another reason: '{said}'")
        named = what in (*wire_lies.OF_THE_CHECKSUM, *wire_lies.TOO_LARGE, *wire_lies.WITHOUT_RECORDS)
        checks.that(can_read != named or not real, f"{what}: whether it has the checksum of the records that it would give")
        checks.that(cause == RETRY if unknown else cause in (MALFORMED, 400, 413),
                    f"{what}: the reader says '{broken}', the collector {'stored it' if cause is None else f'refused it with {cause}'}")
    for end in sorted({*range(0, 64), *range(64, len(whole), max(1, len(whole) // 100)), len(whole) - 1}):
        broken, cause = judged(whole[:end]), poster.cause(whole[:end]) if end else MALFORMED
        checks.equal(broken is None, cause in (None, CONFLICT), f"a batch cut after {end} of {len(whole)} bytes: read ('{broken}', {cause})")
    records = list(format_reader.Batch(whole).records())
    right, last = format_reader.checksum(records), max(i for i, r in enumerate(records) if r["items"])
    for name, value in list(records[last].items()):
        changed = value ^ 1 if isinstance(value, int) else value[:-1] + bytes([value[-1] ^ 1]) if isinstance(value, bytes) else \
            [(kind, linkage ^ 1, data) for kind, linkage, data in value]
        checks.that(format_reader.checksum([*records[:last], {**records[last], name: changed}, *records[last + 1:]]) != right, f"a changed {name} has the same checksum")


def plain_directory(message):
    """The short directory of a small batch, as it is before compression."""
    size, at = format_notation.varint(message.directory, 1)
    return format_notation.decompress(format_reader.short_frame(size, message.directory[at:]), size, b"", "")


def name_dictionary(message, dictionary):
    """A batch carries that dictionary, and a context that names it."""
    context = format_notation.parse(message.contexts[0], "Context")
    context.dictionary = int.from_bytes(hashlib.sha256(dictionary).digest()[:8], "little")
    message.dictionaries = [dictionary]
    put_context(message, context, message.context[8:])


def with_dictionary(data, stream):
    """A small batch with its directory compressed with a zstd dictionary, which it carries."""
    message = format_notation.parse(data, "Batch")
    directory = plain_directory(message)
    dictionary = random.Random(stream).randbytes(200) + directory[:3000]
    zstd = format_notation.ZSTD
    zstd.ZSTD_compress_usingDict.restype = ctypes.c_size_t
    zstd.ZSTD_compress_usingDict.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
                                             ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
    out = ctypes.create_string_buffer(len(directory) + 1000)
    size = zstd.ZSTD_compress_usingDict(zstd.ZSTD_createCCtx(), out, len(out), directory, len(directory), dictionary, len(dictionary), 3)
    head = 5 + (1, 2, 4, 8)[out.raw[4] >> 6] + 3  # one segment, one block
    assert out.raw[4] & 0x3f == 0x20 and out.raw[head - 3] & 7 == 5, "the frame of a short directory"
    message.directory, message.stream = b"\2" + uploads._varint(len(directory)) + out.raw[head:size], stream
    name_dictionary(message, dictionary)
    return encode(message, "Batch")


def dictionaries(env, checks, poster):
    """A zstd dictionary travels once; the batch that names it is read by both, by none without it or with another one."""
    whole = captured(env, "clr-gc-events", ["--batch-events", 20])[0]
    first, kept = with_dictionary(whole, b"dictionary here."), format_reader.Definitions()
    records = list(format_reader.Batch(whole).records())
    checks.equal(list(format_reader.Batch(first, kept).records()), records, "records of a batch that was compressed with a dictionary")
    checks.equal(poster.cause(first), None, "the collector about a batch with a zstd dictionary")
    second = format_notation.parse(first, "Batch")
    second.dictionaries, second.contexts, second.number = [], [], 2
    data = encode(second, "Batch")
    checks.equal(list(format_reader.Batch(data, kept).records()), records, "records of a batch whose dictionary came before")
    checks.that(isinstance(judged(data), format_notation.Unknown), f"a batch without its dictionary: {judged(data)}")
    checks.equal(poster.cause(data), None, "the collector about a batch whose dictionary came before")
    second.stream = b"not known there."
    checks.equal(poster.cause(encode(second, "Batch")), RETRY, "the collector about a batch whose dictionary it lacks")
    wrong = random.Random(3).randbytes(1000)
    second.contexts = format_notation.parse(first, "Batch").contexts
    name_dictionary(second, wrong)
    data = encode(second, "Batch")
    checks.that(judged(data) is not None, "a batch with another dictionary than it was compressed with is read")
    checks.that(poster.cause(data) == MALFORMED, "the collector takes a batch with another dictionary than it was compressed with")


def named(env, checks, poster):
    """Sources that a batch names and does not hold have at most 16 MiB together: 260 of 60 kB are read, 300 are refused."""
    small, kept = captured(env, *SMALL_DAMAGED)[0], format_reader.Definitions()
    whole = format_notation.parse(small, "Batch", raw=("sources",))
    own, fillers = list(whole.sources), [uploads._bytes(1, b"%060000d" % k) for k in range(300)]
    for number, count in enumerate((0, 150, 300, 260, 300), 1):
        batch, context = copy.deepcopy(whole), format_notation.parse(whole.contexts[0], "Context")
        batch.stream, batch.number, batch.checksum = b"sixteen MiB of it", number, whole.checksum
        batch.stream = batch.stream[:16]
        batch.sources = (own if number == 1 else []) + (fillers[count - 150:count] if number in (2, 3) else [])
        if number > 3:
            context.sources = hashlib.sha256(own[0]).digest()[:8] + b"".join(hashlib.sha256(f).digest()[:8] for f in fillers[:count])
        put_context(batch, context, whole.context[8:])
        data = encode(batch, "Batch")
        try:
            broken = None
            format_reader.Batch(data, kept).verify()
        except format_notation.Broken as rule:
            broken = rule
        cause, said = poster.refusal(data)
        checks.equal((str(broken) if broken else None, cause), (None, None) if number < 5 else (str(broken), MALFORMED), f"a batch that names {count} sources: {said}")
    checks.that(broken and broken.section == "Bounds" and "16 MiB" in broken.rule, f"300 sources of 60 kB: the reader says '{broken}'")
    checks.that("the sources and shapes that it names have more than 16777216 bytes" in said, f"300 sources of 60 kB: the collector says '{said}'")


def costs(env, checks, poster):
    """What reading a batch costs is bounded by its bytes; padding pays for it."""
    whole = captured(env, DAMAGED, [])[0]
    for what, members, padding, expected in (("3 members", 3, 0, None), ("15 members", 15, 0, MALFORMED), ("15 members and padding", 15, 4096, None)):
        draft = Draft(whole)
        wire_lies.rows_of_shared(262144, members)(draft)
        draft.batch.stream, draft.batch.padding = hashlib.sha256(what.encode()).digest()[:16], bytes(padding)
        sealed(draft)
        data = draft.bytes()
        broken, (cause, said) = judged(data), poster.refusal(data)
        checks.equal((broken.section if broken else None, cause), ("Bounds" if expected else None, expected), f"a dictionary of lists of {what}: '{broken}', '{said}'")
        checks.that(not expected or "it asks for more work than its" in said, f"the collector about lists of {what}: '{said}'")


def columns_of(message, found):
    """Every Column of a message, and what is inside it."""
    for value in vars(message).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, types.SimpleNamespace):
                if hasattr(one, "encoding"):
                    found.append(one)
                columns_of(one, found)
    return found


def altered(draft, rng):
    """Changes one thing somewhere in a batch's directory or column data."""
    column = rng.choice(columns_of(draft.d, []))
    what = rng.randrange(7)
    if what == 0:
        data = bytearray(draft.d.pool)
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        draft.d.pool = bytes(data)
    elif what == 1:
        name = rng.choice(("encoding", "width", "planes", "relative_to", "frame", "bytes", "value_count", "shared"))
        vars(column)[name] = rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 16, getattr(column, name) + 1))
    elif what == 2:
        other = rng.choice(columns_of(draft.d, []))
        vars(column).update(copy.deepcopy(vars(other)))
    elif what == 3:
        column.constant = rng.choice((b"", b"\1", bytes(2), bytes(8), bytes(9), b"\xff" * 4, column.constant[:-1], column.constant + b"\0"))
    elif what == 4:
        column.lengths = rng.choice((None, types.SimpleNamespace(**{**vars(format_notation.parse(b"", "Column")), "constant": rng.choice((b"", b"\1", b"\4"))})))
    elif what == 5:
        group = rng.choice(draft.d.groups)
        vars(group)[rng.choice(("kernel_time", "user_time", "activity", "payload"))] = rng.choice((None, copy.deepcopy(column)))
    else:
        name = rng.choice(("group", "time", "cpu", "thread", "source", "sequence", "thread_pids", "thread_tids", "kernel_time", "user_time",
                           "activity", "payload"))
        vars(draft.d)[name] = rng.choice((None, copy.deepcopy(column)))


def altered_short(data, rng):
    """A batch with one or two bytes of its short directory changed, which is not compressed any more."""
    message = format_notation.parse(data, "Batch")
    plain = bytearray(plain_directory(message))
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(min(len(plain), 120))  # where the columns are listed
        plain[at] = rng.choice((plain[at] ^ 1 << rng.randrange(8), plain[at] + 1 & 255, rng.randrange(256)))
    if rng.randrange(8) == 0:
        del plain[rng.randrange(len(plain)):]
    message.directory, message.stream = b"\0" + plain, rng.randbytes(16)
    return encode(message, "Batch")


def agreement(env, checks, poster, seed, runs):
    """Batches changed at random: the reader finds a rule that is broken exactly when the collector refuses."""
    rng, read, refused = random.Random(seed), 0, 0
    whole = [captured(env, name, extra)[0] for name, extra in (("tracelogging-primitive-types", []), ("clr-gc-events", []), ("clr-gc-events", ["--batch-events", 20]))]
    for run in range(runs // 2):
        data = altered_short(whole[-1], rng)
        broken, cause = judged(data), poster.cause(data)
        read, refused = read + (broken is None), refused + (broken is not None)
        checks.that((cause is None) == (broken is None), f"short directory, seed {seed}, run {run}: the reader says '{broken}', the "
                                                         f"collector {'stored it' if cause is None else f'refused it with {cause}'}")
    for run in range(runs):
        draft = Draft(rng.choice(whole))
        draft.batch.stream = random.Random(f"{seed}.{run}").randbytes(16)
        for _ in range(rng.choice((1, 1, 2))):
            altered(draft, rng)
        data = draft.bytes()
        broken = judged(data)
        if broken and broken.section == "Checksum":
            draft.batch.checksum = format_reader.checksum(format_reader.Batch(data).records())
            data = draft.bytes()
            broken = judged(data)
        cause = poster.cause(data)
        read, refused = read + (broken is None), refused + (broken is not None)
        if (cause is None) != (broken is None):
            checks.that(False, f"seed {seed}, run {run}: the reader says '{broken}', the collector "
                               f"{'stored it' if cause is None else f'refused it with {cause}'}")
    checks.that(read and refused, f"of {runs} changed batches {read} could be read: that shows nothing")
    print(f"{runs + runs // 2} changed batches: {read} read by both, {refused} refused by both")


def test(env, checks, arguments):
    env.make_certificates()
    used, broken = set(), watched_rules()
    for name in traces.names():
        used |= read_trace(env, checks, name, arguments.soak)
    wanted = {"context", "payload", "kind 0", "kind 2", "ledger"}
    checks.equal(wanted - used, set(), "parts of the format that no batch used")
    collector = env.new_collector().start()
    poster = Poster(env, collector)
    real = checks.real("wire python: each rule of the format's reader is broken by some batch")
    damage(env, checks, poster, real)
    dictionaries(env, checks, poster)
    costs(env, checks, poster)
    named(env, checks, poster)
    agreement(env, checks, poster, 1, 3000 if arguments.soak else 200)
    if real:
        check_rules(checks, broken)
    collector.stop()


if __name__ == "__main__":
    harness.main(test, __doc__.splitlines()[0])
