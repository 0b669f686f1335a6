"""The work of each parser is bounded by the bytes of its input.

Each case below is a worst known input of a parser, made in three sizes: a number of bytes, twice and four times that number. The entry
point of the parser's fuzz target (tests/fuzz) reads it. The driver (replay_main.c) measures the processor time, which is the least of
several runs, and the peak memory. A case fails
- when four times the bytes take more than GROWTH times the time (linear work takes 4 times as long, quadratic work 16 times),
- when they take more time or memory a byte than the case allows, or
- when they take hardly more time than the smallest input: then the input does not reach the parser that it is for.

A fuzz target reads an input in several ways and compares the results, so its time is a multiple of the parser's own time.
When a limit bounds the work of a case, and not only its bytes, the largest size of the case is at the limit.
"""
import hashlib
import struct
import subprocess
import zlib

import harness
import evtx_writer
import uploads
import wevt_writer
from format_columns import DICTIONARY, PLAIN
from test_wire_python import encode
from wire_lies import column, described, field, map_of, message

CORPUS = harness.ROOT / "tests" / "fuzz" / "corpus"
GROWTH, SLACK_NS = 8.0, 500_000  # caches and page faults make some linear work up to 7 times as long
REACHED = 1.5  # times the time of the smallest input that the largest one takes at the least
ATTEMPTS = 3   # the machine's other work slows a run down at times
CASES = []
UTF16Z, STRUCT_KIND, UTF8Z = 40, 48, 51       # types of a class's fields
SEGMENT_MAGIC = b"EBAT"            # of a record in the store


def case(name, target, sizes, ns=200, memory=20, flat=False):
    """A function that makes an input of one of these sizes. ns, memory: nanoseconds and bytes for each byte of the input, at the most.
    flat: the input is refused early, or its bytes are read once however often they count: the time need not grow."""
    def add(make):
        CASES.append((name, target, make, sizes, ns, memory, flat))
        return make
    return add


def doubled(n):
    return n, 2 * n, 4 * n


def payload_and(data, payload=b"\1\2\3\4\5\6\7\x08"):
    return struct.pack("<H", len(payload)) + payload + data


# ---- batches ----------------------------------------------------------------------------------------------------------------

STREAM = b"bounds" + bytes(10)
SOURCE = message("Source", name="kernel", clock_type=1, frequency=10**7, pointer_size=8)


def batch_of(groups=(), events=0, sources=(SOURCE,), group=None, pool=b"", directory=None, **members):
    d = message("Directory", groups=list(groups), group=group or column(), time=column(), cpu=column(), thread=column(), thread_count=1,
                thread_pids=column(), thread_tids=column(), pool=pool)
    vars(d).update(directory or {})
    b = message("Batch", format=1, stream=STREAM, number=1, event_count=events, checksum=1, sources=[encode(s, "Source") for s in sources])
    b.directory = encode(d, "Directory") if events else b""
    vars(b).update(members)
    return encode(b, "Batch")


def hash_of(description):
    return hashlib.sha256(description).digest()[:16]


ONE_FIELD = described(fields=(field(),))
ONE_TEXT = described(fields=(field(kind=UTF16Z),))


@case("batch: many groups", "batch", doubled(2048), 1000, 200)
def _(n):
    groups = [message("Group", class_hash=hash_of(ONE_FIELD), header=message("Header", keyword=k + 1)) for k in range(n)]
    return batch_of(groups, n, group=column(encoding=PLAIN), pool=b"".join(struct.pack("<I", k) for k in range(n)), descriptions=[ONE_FIELD])


@case("batch: many groups of many classes", "batch", (240, 480, 960), 1000, 200)
def _(n):
    classes = [described(code=k, name=b"c%d" % k) for k in range(n)]
    groups = [message("Group", class_hash=hash_of(c)) for c in reversed(classes)]
    return batch_of(groups, n, group=column(encoding=PLAIN), pool=b"".join(struct.pack("<I", k) for k in range(n)), descriptions=classes)


@case("batch: one description again and again, and groups", "batch", doubled(2048), 1000, 200)
def _(n):
    other = described(code=7)
    groups = [message("Group", class_hash=hash_of(ONE_FIELD), header=message("Header", keyword=k + 1)) for k in range(n)]
    return batch_of(groups, n, group=column(encoding=PLAIN), pool=b"".join(struct.pack("<I", k) for k in range(n)),
                    descriptions=[other] * n + [ONE_FIELD])


@case("batch: many events of one group", "batch", doubled(1 << 14), 1000, 200)
def _(n):
    values = bytes(i * 7 & 0xff for i in range(n))
    group = message("Group", class_hash=hash_of(ONE_FIELD), count=n, fields=[column(encoding=PLAIN, width=1)])
    return batch_of([group], n, descriptions=[described(fields=(field(kind=2),))] + [ONE_FIELD], pool=values)


@case("batch: a long constant payload of many events, cut into fields", "batch", doubled(16382), 300, 200, flat=True)
def _(n):
    group = message("Group", class_hash=hash_of(ONE_TEXT), count=8192, payload=column(constant=b"x" * n))
    return batch_of([group], 8192, descriptions=[ONE_TEXT])


@case("batch: shared dictionaries of many values", "batch", doubled(1 << 11), 1000, 200)
def _(n):
    values = column(encoding=PLAIN, width=4)
    group = message("Group", class_hash=hash_of(ONE_FIELD), count=n, fields=[column(encoding=DICTIONARY, shared=64)])
    return batch_of([group], n, descriptions=[ONE_FIELD], pool=bytes(2 * n + 4 * n * 64),
                    directory={"dictionaries": [message("Dictionary", count=n, values=values)] * 64})


@case("batch: many sources", "batch", doubled(1024), 1000, 200)
def _(n):
    return batch_of([message("Group", class_hash=hash_of(ONE_FIELD))], 1, [message("Source", name="s%d" % k) for k in range(n)],
                    descriptions=[ONE_FIELD])


def in_context(names, sources, groups=1, directory=None, **members):
    """Events of groups of one class, in a batch with a context of those sources; its directory has the short form."""
    shape = encode(message("Shape", class_hash=hash_of(ONE_FIELD)), "Shape")
    context = encode(message("Context", sources=names, shapes=hashlib.sha256(shape).digest()[:8]), "Context")
    directory = directory or b"\0" + b"\0\1\1" + b"\0\0" * 6 + b"\1\0"
    b = message("Batch", format=1, stream=STREAM, number=1, event_count=groups, checksum=1, sources=sources, shapes=[shape], contexts=[context],
                context=hashlib.sha256(context).digest()[:8] + bytes(groups), directory=directory, descriptions=[ONE_FIELD])
    return encode(b, "Batch")


def name_of(definition):
    return hashlib.sha256(definition).digest()[:8]


@case("batch: one large source that a context names often", "batch", doubled(1024), 200, 100, flat=True)
def _(n):
    source = encode(message("Source", clock_pairs=[message("ClockPair", raw=k, utc_ns=k) for k in range(1000)]), "Source")
    return in_context(name_of(source) * n, [source])


@case("batch: a context of sources that are nowhere", "batch", doubled(1024), 1000, 200)
def _(n):
    return in_context(b"".join(struct.pack("<Q", k) for k in range(n)), [])


@case("batch: tombstones", "batch", doubled(1 << 14))
def _(n):
    tombstones = [message("Tombstone", first=2 * k + 1, last=2 * k + 1, cause=15, event_count=1) for k in range(n)]
    return batch_of(kind=1, sources=(), tombstones=tombstones)


@case("batch: a ledger of many families", "batch", doubled(1 << 12))
def _(n):
    families = [message("LedgerFamily", family="f%d" % k, counters=[1, 2], values=[k, k]) for k in range(n)]
    return batch_of(sources=(), ledger=message("Ledger", families=families, incarnation=1))


@case("batch: fields that are not known", "batch", (1 << 12, 1 << 13, 1 << 14))
def _(n):
    return batch_of(sources=()) + uploads._bytes(100, b"") * n


@case("short directory: columns inside columns", "batch", doubled(4096), 1500, 500)
def _(n):
    source, groups = encode(SOURCE, "Source"), n // 512
    directory = b"\0" + bytes([0, 1]) + uploads._varint(groups) + b"\0\0" * 6 + (b"\1" + uploads._varint(512 * 65 * 2) + b"\0\0" * 512) * groups
    return in_context(name_of(source), [source], groups, directory)


# ---- uploads and answers ----------------------------------------------------------------------------------------------------

@case("upload: many tiny batches", "upload", doubled(1 << 12))
def _(n):
    return b"\1" + uploads.body([batch_of(sources=())] * n)


@case("upload: frames of one byte", "upload", doubled(1 << 15))
def _(n):
    return b"\1" + uploads.body([b"x"] * n)


@case("answer: refusals, hashes", "upload", doubled(2048), memory=200)
def _(n):
    return b"\0" + uploads.ack(STREAM, [(4 * k + 1, 4 * k + 2) for k in range(16)], [(k + 1, 1, "no") for k in range(n)],
                               [struct.pack("<QQ", k, k) for k in range(n)], known=[struct.pack("<QQ", k, k) for k in range(n)])


@case("ledger: batches of tombstones and families", "ledger", doubled(256), 1000, 20)
def _(n):
    one = encode(message("Batch", tombstones=[message("Tombstone", first=1, last=1, cause=15, event_count=1)],
                         ledger=message("Ledger", counters=[1, 2, 3], values=[1, 2, 3], incarnation=1,
                                        families=[message("LedgerFamily", family="f%d" % k, counters=[1], values=[2]) for k in range(8)])), "Batch")
    return (bytes([1, 1, len(one)]) + one) * n


# ---- classes ----------------------------------------------------------------------------------------------------------------

def class_input(description, payload=bytes(range(256))):
    return struct.pack("<H", len(description)) + description + payload


@case("class: fields", "class", (128, 256, 512), 2000, 100)
def _(n):
    return class_input(described(fields=[field(b"f%d" % k, kind=2) for k in range(n)]))


@case("class: entries of maps", "class", doubled(2048), 200, 100)
def _(n):
    return class_input(described(maps=[map_of(entries=[(k, b"v%d" % k) for k in range(n)])], fields=(field(map_=1),)))


@case("class: structs of structs, and their elements", "class", doubled(1 << 13), 10000, 200)
def _(n):
    structs = [field(b"s", kind=STRUCT_KIND, count=65535, members=1) for _ in range(15)]
    return class_input(described(fields=[*structs, field(kind=2)]), b"\1" * n)


@case("class: an array of structs of strings", "class", doubled(1 << 13), 10000, 200)
def _(n):
    members = [field(b"t%d" % k, kind=UTF16Z) for k in range(64)]
    return class_input(described(fields=[field(b"s", kind=STRUCT_KIND, count=65535, members=64), *members]), bytes(n))


def noted(text, **members):
    """A description with a message."""
    return described(2, rest=uploads._varint(len(text)) + text + bytes(5), **members)


@case("class: inserts of a message", "class", doubled(4000), 1000, 300, flat=True)
def _(n):
    return class_input(noted(b"%1" * n, fields=[field(kind=UTF8Z)]), b"a" * 32000)


@case("class: names of each element", "class", doubled(4000), 1000, 1000, flat=True)
def _(n):
    names = map_of(is_flags=1, entries=[(1, b"x" * 1000)] * 50)
    return class_input(described(maps=[names], fields=[field(kind=1, count=65535, map_=1)]), b"\1" * n)


@case("class: a map that is searched for each element", "class", doubled(4000), 1500, 300, flat=True)
def _(n):
    names = map_of(entries=[(2, b"")] * n)
    return class_input(described(maps=[names], fields=[field(kind=1, count=65535, map_=1)]), b"\1" * 32000)


@case("class: long names of members", "class", doubled(8000), 1000, 1000, flat=True)
def _(n):
    return class_input(described(fields=[field(kind=STRUCT_KIND, count=65535, members=1), field(b"m" * 1000)]), bytes(n))


# ---- traces -----------------------------------------------------------------------------------------------------------------

@case("etl: many buffers", "etl", doubled(14), 500, 50)
def _(n):
    trace = (CORPUS / "etl" / "plain").read_bytes()[:-1]
    return trace + trace[1024:2048] * n + b"\0"


@case("relog: many buffers", "relog", doubled(14), 2000, 200)
def _(n):
    trace = (CORPUS / "etl" / "plain").read_bytes()[:-1]
    return trace + trace[1024:2048] * n + b"\0"


@case("relog: many buffers, cut", "relog", doubled(14), 4000, 200)
def _(n):
    trace = (CORPUS / "etl" / "plain").read_bytes()[:-1]
    return trace + trace[1024:2048] * n + b"\1"


@case("own events: many", "own_events", doubled(1000), 600, 60)
def _(n):
    return b'{"time":1,"provider":"0d3a3e1c-3f0b-4f4c-9b0a-26c0ffee0026","name":"b","fields":{"a":1,"b":"x"}}\n' * n


@case("own events: one text", "own_events", doubled(3500), 400, 60)
def _(n):
    return b'{"time":1,"provider":"A","name":"b","fields":{"a":"' + b"\\u0041" * n + b'"}}'


@case("descriptions: many events", "description", doubled(500), 600, 300)
def _(n):
    return b'\1{"provider":"A"}\n' + b"".join(b'{"id":%d,"name":"Draw/Fill","message":"m","fields":{"a":"UInt32 PID","b":"UnicodeString"}}\n' % i for i in range(n))


def packet_parts(records):
    """Events of NDIS-PacketCapture as fuzz_packets.c reads them: (keyword's bits, thread, interface, data)."""
    parts = (struct.pack("<III", lower, lower, len(data)) + data for _, _, lower, data in records)
    return b"".join(struct.pack("<BBBH", 0, bits, thread, len(part)) + part for (bits, thread, _, _), part in zip(records, parts))


@case("packets: none ends", "packets", doubled(6000), 400, 60)
def _(n):
    return packet_parts([(1, i % 256, 1, b"x") for i in range(n)])


@case("packets: each of another interface", "packets", doubled(6000), 400, 60)
def _(n):
    return packet_parts([(3, 1, i, b"x") for i in range(n)])


@case("packets: many grow", "packets", doubled(6000), 200, 60)
def _(n):
    return packet_parts([(1, i, 1, b"x") for i in range(60)] + [(0, i % 60, 1, b"x") for i in range(n)])


def evtx_chunk(records):
    """A chunk without a header, of records whose XML is these bytes."""
    chunk = bytearray(512)
    for number, body in enumerate(records, 1):
        size = (len(body) + 28 + 7) // 8 * 8
        chunk += struct.pack("<4sIQQ", b"**\0\0", size, number, 131116874743460000) + body.ljust(size - 28, b"\0") + struct.pack("<I", size)
    return bytes(chunk)


@case("evtx: records", "evtx", doubled(1 << 8), 3000, 4000)
def _(n):
    events, _ = evtx_writer.write(evtx_writer.sample(n // 8))
    return events[4096:4096 + struct.unpack_from("<I", events, 4096 + 48)[0]]


@case("evtx: templates that unfold to thirty of the next one, six deep", "evtx", doubled(1 << 8), 5000, 2000)
def _(n):
    head, tail = b"\x0f\x01\x01\x00", b"\0"
    bodies, at = [], 512 + 24 + len(head)
    sizes = [len(head) + 14 * 30 + 1] * 6
    places = [at + k * (24 + sizes[0]) for k in range(7)]
    for k in range(6):
        token = b"\x0c\x01" + bytes(4) + struct.pack("<I", places[k + 1]) + bytes(4)
        bodies.append(bytes(20) + struct.pack("<I", sizes[k]) + head + token * 30 + tail)
    bodies.append(bytes(20) + struct.pack("<I", len(head) + 1) + head + tail)
    instance = b"\x0c\x01" + bytes(4) + struct.pack("<I", places[0]) + bytes(4)
    return evtx_chunk([head + b"".join(bodies)] + [head + instance + tail] * n)


@case("evtx: no record, only their magic", "evtx", (1 << 13, 1 << 14, 1 << 15))
def _(n):
    return bytes(512) + b"**\0\0" * (n // 4)


@case("etl: many buffers, of which most are damaged", "etl", doubled(14), 500, 50)
def _(n):
    trace = (CORPUS / "etl" / "plain").read_bytes()[:-1]
    return trace + (b"\xff" * 32 + trace[1056:2048]) * n + b"\0"


@case("lznt1: literals", "xpress", (16, 32, 63), 100, 10)
def _(n):
    chunks = [struct.pack("<H", 0xB000 | (9 * 455 - 1)) + (b"\0" + bytes(range(8))) * 455 for _ in range(n * 1117 // 3640)]
    return bytes([n << 2]) + b"".join(chunks)


@case("xpress: literals", "xpress", (16, 32, 63), 100, 10)
def _(n):
    return bytes([n << 2 | 2]) + (bytes(4) + bytes(range(32))) * (n * 1117 // 32)


@case("xpress with Huffman codes: literals", "xpress", (16, 32, 63), 100, 10)
def _(n):
    return bytes([n << 2 | 1]) + b"\x88" * 128 + bytes(128) + bytes(i & 0xff for i in range(n * 1117))


# ---- schemas ----------------------------------------------------------------------------------------------------------------

@case("TraceLogging: fields", "trace_schemas", (128, 256, 500), 1000, 200)
def _(n):
    body = b"\0" + b"Event\0" + b"".join(b"f%d\0\x08" % k for k in range(n))
    schema = struct.pack("<H", len(body) + 2) + body
    return b"\0" + struct.pack("<H", len(schema)) + schema + bytes(4 * n)


@case("pieces of a manifest", "trace_schemas", doubled(120), 3000, 50)
def _(n):
    piece = b"\1\1\0\x5b" + struct.pack("<HH", 60000, 0)
    pieces = b"".join(bytes([k & 0xff, 12]) + piece[:6] + struct.pack("<H", k) + b"abcd" for k in range(n))
    return b"\2" + struct.pack("<H", len(pieces)) + pieces


def manifest(n, same):
    name = (lambda k: 0) if same else (lambda k: k)
    events = "".join(f'<event value="{k}" version="{name(k) % 256}" template="t{name(k)}" task="k{name(k)}" message="$(string.s{name(k)})"/>' for k in range(n))
    templates = "".join(f'<template tid="t{name(k)}"><data name="a" inType="win:UInt32" map="m{name(k)}"/></template>' for k in range(n))
    maps = "".join(f'<valueMap name="m{name(k)}"><map value="1" message="$(string.s{name(k)})"/></valueMap>' for k in range(n))
    tasks = "".join(f'<task name="k{name(k)}" value="{k + 1}"/>' for k in range(n))
    strings = "".join(f'<string id="s{name(k)}" value="text"/>' for k in range(n))
    return ('<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>'
            '<provider name="P" guid="{11111111-2222-3333-4444-555555555555}" symbol="P" resourceFileName="x" messageFileName="x">'
            f'<events>{events}</events><tasks>{tasks}</tasks><maps>{maps}</maps><templates>{templates}</templates></provider>'
            f'</events></instrumentation><localization><resources culture="en-US"><stringTable>{strings}</stringTable></resources></localization>'
            '</instrumentationManifest>').encode()


@case("manifest: many of everything", "manifest", doubled(512), 500, 200)
def _(n):
    return payload_and(manifest(n, False))


@case("manifest: everything of one name", "manifest", doubled(512), 500, 200)
def _(n):
    return payload_and(manifest(n, True))


@case("manifest: elements inside elements", "manifest", doubled(1 << 14), 100, 20, flat=True)
def _(n):
    return payload_and(b"<a>" * n)


@case("manifest: attributes of one element", "manifest", doubled(1 << 12), 1000, 200)
def _(n):
    return payload_and(b"<a" + b"".join(b' b%d="c"' % k for k in range(n)) + b"/>")


@case("WEVT template", "wevt", doubled(256), 2000, 200)
def _(n):
    compiler = wevt_writer.Compiler(manifest(n, False))
    crim = compiler.compile()
    return payload_and(wevt_writer.build_pe([("WEVT_TEMPLATE", 1, 0x409, crim), (11, 1, 0x409, wevt_writer.message_table(compiler.messages))]))


@case("PE: resources", "wevt", doubled(1024), 2000, 200)
def _(n):
    return payload_and(wevt_writer.build_pe([("R%d" % k, 1, 0x409, b"") for k in range(n)]))


def block(key, value=b"", kind=1):
    """A block of a version resource."""
    body = bytes(6) + key.encode("utf-16le") + bytes(2)
    body += bytes(-len(body) % 4) + value
    return struct.pack("<HHH", len(body), 0, kind) + body[6:]


@case("PE: strings of a version", "pe", (4000, 8000, 16000), 2000, 200)
def _(n):
    strings = b"".join(block("CompanyName", "x\0".encode("utf-16le") + bytes(-4 % 4)) for _ in range(n // 36))
    info = block("StringFileInfo", block("040904B0", strings))
    fixed = struct.pack("<HHH", 92 + len(info), 52, 0) + "VS_VERSION_INFO\0".encode("utf-16le") + bytes(2) + struct.pack("<I", 0xFEEF04BD) + bytes(48)
    return wevt_writer.build_pe([(16, 1, 0x409, fixed + info)])


TMF_HEAD = b"2158e7d3-9867-cde3-18b5-9713c628abdf Driver // SRC=a.c MJ= MN=\n"


@case("TMF: messages", "tmf", doubled(512), 2000, 200)
def _(n):
    return payload_and(TMF_HEAD + b"".join(b'#typev a_c%d %d "%%0%%10!s! %%11!d!" // LEVEL=L\n{\na, ItemString -- 10\nb, ItemLong -- 11\n}\n' % (k, k + 10)
                                           for k in range(n)))


@case("TMF: messages of one number", "tmf", doubled(512), 2000, 200)
def _(n):
    return payload_and(TMF_HEAD + b'#typev a_c1 10 "%0%10!s!" // LEVEL=L\n{\na, ItemString -- 10\n}\n' * n)


@case("TMF: parameters of one message", "tmf", doubled(1 << 12), 2000, 200)
def _(n):
    return payload_and(TMF_HEAD + b'#typev a_c1 10 "' + b"%10!s!" * 100 + b'" // LEVEL=L\n{\n' + b"".join(b"a, ItemLong -- %d\n" % (k + 10) for k in range(n)) + b"}\n")


@case("TMF: a long line", "tmf", doubled(1 << 16), 2000, 200)
def _(n):
    return payload_and(TMF_HEAD + b'#typev a_c1 10 "' + b"%10!s!" * (n // 6) + b'" // LEVEL=L\n{\na, ItemLong -- 10\n}\n')


# ---- symbols ----------------------------------------------------------------------------------------------------------------

def pdb_streams(data):
    """The streams of a PDB, which is an MSF file in blocks."""
    block, _, _, directory_bytes, _, at = struct.unpack_from("<6I", data, 32)

    def joined(blocks, size):
        return b"".join(data[b * block:(b + 1) * block] for b in blocks)[:size]

    def blocks_of(size):
        return (size + block - 1) // block
    directory = joined(struct.unpack_from(f"<{blocks_of(directory_bytes)}I", data, at * block), directory_bytes)
    count, = struct.unpack_from("<I", directory)
    streams, place = [], 4 + 4 * count
    for size in struct.unpack_from(f"<{count}I", directory, 4):
        streams.append(joined(struct.unpack_from(f"<{blocks_of(size)}I", directory, place), size))
        place += 4 * blocks_of(size)
    return streams


def pdb_of(streams, block=512):
    blocks, lists = [], b""
    for stream in streams:
        for at in range(0, len(stream), block):
            lists += struct.pack("<I", 3 + len(blocks))
            blocks.append(stream[at:at + block].ljust(block, b"\0"))
    directory = struct.pack(f"<{len(streams) + 1}I", len(streams), *map(len, streams)) + lists
    numbers = b""
    for at in range(0, len(directory), block):
        numbers += struct.pack("<I", 3 + len(blocks))
        blocks.append(directory[at:at + block].ljust(block, b"\0"))
    at = 3 + len(blocks)
    blocks += [numbers[k:k + block].ljust(block, b"\0") for k in range(0, len(numbers), block)]
    head = b"Microsoft C/C++ MSF 7.00\r\n\x1a\x44\x53\0\0\0" + struct.pack("<6I", block, 1, 3 + len(blocks), len(directory), 0, at)
    return head.ljust(3 * block, b"\0") + b"".join(blocks)


def pdb_with_publics(n, offset):
    """The corpus' PDB with n more public symbols, at such offsets."""
    streams = pdb_streams((CORPUS / "pdb" / "plain").read_bytes()[1:])
    public = struct.pack("<H", 0x110e)
    which, = (k for k, stream in enumerate(streams) if stream[2:4] == public)
    for k in range(n):
        body = public + struct.pack("<IIH", 2, offset(k), 1) + b"p%d\0" % k
        body += bytes(-(len(body) + 2) % 4)
        streams[which] += struct.pack("<H", len(body)) + body
    return b"\0" + pdb_of(streams)


@case("PDB: public symbols", "pdb", doubled(2048), 1000, 100)
def _(n):
    return pdb_with_publics(n, lambda k: (n - k) * 16 % 4096)


@case("PDB: public symbols of one address", "pdb", doubled(2048), 1000, 100)
def _(n):
    return pdb_with_publics(n, lambda k: 64)


@case("symbolizer's answer: frames", "pdb", doubled(512), 1000, 100)
def _(n):
    frame = b'{"Column":0,"FileName":"a","FunctionName":"f","Line":7}'
    return b"\2" + b'{"Address":"0x1","ModuleName":"m","Symbol":[' + b",".join([frame] * n) + b"]}\n"


@case("symbol path: elements", "pdb", (16, 32, 64), 1000, 200)
def _(n):
    return b"\3" + b";".join(b"srv*/c%d*https://x/%d" % (k, k) for k in range(n))


# ---- configuration, SQL -----------------------------------------------------------------------------------------------------

@case("configuration: sessions of providers", "config", doubled(4), 3000, 1000)
def _(n):
    return b"sessions:\n" + b"".join(b"- name: s%d\n  providers:\n" % k + b"".join(
        b"  - provider: 11111111-2222-3333-4444-%012d\n    event-ids: [1, 2]\n" % p for p in range(50)) for k in range(n))


@case("configuration: lists inside lists", "config", doubled(1 << 12), 2000, 500, flat=True)
def _(n):
    return b"sessions: " + b"[" * n


@case("configuration: one key again and again", "config", doubled(1 << 12), 2000, 500)
def _(n):
    return b"".join(b"k%d: 1\n" % k for k in range(n))


@case("configuration: aliases of one list", "config", doubled(64), 2000, 1000)
def _(n):
    ids = ", ".join(str(k) for k in range(n))
    return (f"sessions:\n- name: s\n  providers:\n  - provider: 11111111-2222-3333-4444-{0:012}\n    event-ids: &a [{ids}]\n" + "".join(
        f"  - provider: 11111111-2222-3333-4444-{p + 1:012}\n    event-ids: *a\n" for p in range(n))).encode()


@case("SQL: terms", "query", doubled(250), 3000, 1000)
def _(n):
    return b"\3SELECT " + b"+".join([b"1"] * n)


@case("SQL: a list", "query", doubled(4096), 1500, 300)
def _(n):
    return b"\3SELECT 1 IN (" + b",".join(b"%d" % k for k in range(n)) + b")"


# ---- what is folded, and the message of a profile worker; the targets' tables are small, so that each event drops another row ----

def records(*heads, payload=60):
    """A maker of n bytes of records: each of these heads, the payload's length and the payload, in turns."""
    def make(n):
        one = b"".join(bytes([*head, payload]) + bytes((i * 7 + at) % 251 for at in range(payload)) for i, head in enumerate(heads))
        return (one * (n // len(one) + 1))[:n]
    return make


case("state: processes, threads and modules", "machine", doubled(1 << 16), 100, 10)(
    records((0, 1, 4, 1), (1, 1, 4, 1), (2, 10, 3, 1), (0, 2, 4, 1), (2, 2, 3, 1)))
case("state: a restart before each record", "machine", doubled(1 << 15), 400, 10)(records((0x80, 1, 4, 1), (0x81, 1, 4, 1), (0x82, 10, 3, 1)))
case("names: files, keys and volumes", "object_names", doubled(1 << 15), 600, 10)(records((0, 2, 1), (36, 2, 2), (128 + 22, 2, 3), (192 + 15, 2, 4)))
case("stacks: halves and keys without their events", "stacks", doubled(1 << 15), 100, 20)(
    records((0, 0, 1, 1), (4, 0, 2, 2), (1, 0x40, 3, 1), (2, 0x50, 4, 1), (8, 0, 5, 3)))


@case("profile worker's message: lists of names", "profile_order", doubled(1024), 50, 20)
def _(n):
    def text(value):
        return struct.pack("<I", len(value)) + value + b"\0"
    side = struct.pack("<II", 0, 0) + text(b"") + struct.pack("<QQ", 0, 0) + 2 * (struct.pack("<I", n) + n * text(b"host"))
    return struct.pack("<4QII", 1, 1, 1, 1, 0, 0) + text(b"s") + struct.pack("<I", 0) + text(b"") + struct.pack("<I", 0) + 2 * side + struct.pack("<QI", 1, 0)


# ---- files of ours ----------------------------------------------------------------------------------------------------------

@case("segment: heads of records that are none", "segment", (4000, 8000, 16000), 1000, 20)
def _(n):
    return b"\1" + (SEGMENT_MAGIC + struct.pack("<IQ", 56, n // 2)) * (n // 16)


@case("spool segment: many tiny records", "spool", doubled(1 << 12))
def _(n):
    return b"\2" + b"".join(b"EASR" + struct.pack("<IQ16sQIHH", 1, 0, STREAM, k + 1, 1, 1, 0) + b"x" for k in range(n))


@case("spool segment: heads of records that are none", "spool", doubled(1 << 12))
def _(n):
    return b"\1" + (b"EASR" + struct.pack("<I", 1000)) * n


@case("spool state: streams", "spool", doubled(256), 2000, 400)
def _(n):
    return b"\0etwagent spool state 1\n" + b"".join(b"stream %032x 1 00000000000000ff 12 1-5,7-7,9-12\n" % (k + 1) for k in range(n))


@case("spool state: ranges of one stream", "spool", doubled(2048), 1000, 100)
def _(n):
    return b"\0etwagent spool state 1\nstream %032x 1 00000000000000ff 99999999 " % 1 + b",".join(b"%d-%d" % (3 * k + 1, 3 * k + 1) for k in range(n)) + b"\n"


@case("spool folder: streams and descriptions", "spool_folder", (100, 200, 400), 500, 50)
def _(n):
    state = b"etwagent spool state 1\n" + b"".join(b"stream %032x 1 00000000000000ff 12 1-5\n" % (k + 1) for k in range(n))
    classes = b"".join(struct.pack("<IQ", 1 | 1 << 24, 0) + b"%c" % (k & 0xff) for k in range(4 * n))
    return struct.pack("<HH", len(state), len(classes)) + state + classes


@case("schema cache: bytes of no event", "schema_cache", doubled(1 << 14), 1000, 100)
def _(n):
    return payload_and(b"x" * n)


# ---- the CA -----------------------------------------------------------------------------------------------------------------

@case("issuance log: certificates of one name", "issuance", doubled(2048), 1000, 100)
def _(n):
    return b"".join(b"%x\tagent\t2100-01-01T00:00:00Z\t-\tone\t%s\n" % (k + 1, b"%x" % k if k else b"-") for k in range(n))


@case("issuance log: one certificate again and again", "issuance", doubled(2048), 1000, 100)
def _(n):
    return b"a1\tagent\t2100-01-01T00:00:00Z\t-\tone\n" * n


@case("signer's message: a certificate and a request", "signer", (4000, 8000, 16000))
def _(n):
    return b"R" + struct.pack("<I", n // 2) + b"x" * (n // 2) + b"\0" + struct.pack("<I", n // 2) + b"x" * (n // 2) + b"\0"


HASH = b"ab" * 32


@case("tokens of readers", "tokens", (256, 512, 1024), 1000, 100)
def _(n):
    return b"\0" + b"".join(b"%08x\t%s\tread\t1700000000\tname-%d\tpc-*,shop-*\t1800000000\n" % (k, HASH, k) for k in range(n))


@case("tokens of readers: lines that are none", "tokens", doubled(1 << 14))
def _(n):
    return b"\0" + b"\t\t\n" * n


@case("enrolment tokens", "tokens", doubled(1024), 1000, 100)
def _(n):
    return b"\1" + b"".join(b"%08x\t%s\t1700000000\t1800000000\t86400\t3\tpc-*\t-\n" % (k, HASH) for k in range(n))


# ---- symbols' cabinets, recording profiles ------------------------------------------------------------------------------------

def cabinet(blocks, method):
    """One file of blocks (packed bytes, unpacked size)."""
    data = b"".join(struct.pack("<IHH", 0, len(packed), size) + packed for packed, size in blocks)
    head, name = 36 + 8, struct.pack("<IIHHHH", sum(size for _, size in blocks), 0, 0, 0, 0, 0) + b"a.pdb\0"
    return (b"MSCF" + struct.pack("<IIIIIBBHHHHH", 0, head + len(name) + len(data), 0, head, 0, 3, 1, 1, 1, 0, 0, 0)
            + struct.pack("<IHH", head + len(name), len(blocks), method) + name + data)


@case("cabinet: stored blocks of one byte", "pdb", (16000, 32000, 64000), 100, 10)
def _(n):
    return b"\1" + cabinet([(b"x", 1)] * n, 0)


@case("cabinet: blocks that decompress to much", "pdb", (8, 16, 32), 5000, 200)  # 1 MiB, the target's limit
def _(n):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = b"CK" + deflate.compress(bytes(32768)) + deflate.flush()
    return b"\1" + cabinet([(block, 32768)] * n, 1)


def recording(definitions, collectors, more=b""):
    return (b'<WindowsPerformanceRecorder Version="1.0"><Profiles><EventCollector Id="C" Name="c"><BufferSize Value="64"/><Buffers Value="8"/>'
            b"</EventCollector>" + definitions + b'<Profile Id="P.Verbose.File" Name="P" LoggingMode="File" DetailLevel="Verbose" Description="p">'
            b"<Collectors>" + collectors + b"</Collectors></Profile>" + more + b"</Profiles></WindowsPerformanceRecorder>")


@case("WPR: providers, and a collector that names all", "import", (64, 128, 256), 2000, 500)
def _(n):
    return recording(b"".join(b'<EventProvider Id="E%d" Name="11111111-2222-3333-4444-%012d"/>' % (k, k) for k in range(n)),
                     b'<EventCollectorId Value="C"><EventProviders>' + b"".join(b'<EventProviderId Value="E%d"/>' % k for k in reversed(range(n)))
                     + b"</EventProviders></EventCollectorId>")


@case("WPR: profiles", "import", doubled(1024), 1000, 200)
def _(n):
    return recording(b"", b"", b"".join(b'<Profile Id="Q%d" Name="Q%d"/>' % (k, k) for k in range(n)))


@case("WPR: keywords of one provider", "import", doubled(1024), 1000, 200)
def _(n):
    return recording(b'<EventProvider Id="E" Name="11111111-2222-3333-4444-555555555555"><Keywords>' + b'<Keyword Value="0x1"/>' * n
                     + b"</Keywords></EventProvider>", b'<EventCollectorId Value="C"><EventProviders><EventProviderId Value="E"/></EventProviders>'
                     b"</EventCollectorId>")


# ---- the query language ----

@case("language: clauses with an aggregation each", "lang", (64, 128, 256), 1000, 2000)
def _(n):
    return b"".join(b"Thread/CSwitch { @a%d[pid] = count(); }\n" % k for k in range(n))


@case("language: a sum", "lang", (256, 512, 1024), 1000, 1000, flat=True)
def _(n):
    return b"Thread/CSwitch { print(" + b"+".join(b"pid" for _ in range(n)) + b"); }"


@case("language: patterns of classes", "lang", (64, 128, 256), 10000, 1000, flat=True)  # each is compared with each class
def _(n):
    return b", ".join(b"*a*b*c*d*%d" % k for k in range(n)) + b" { @ = count(); }"


# ---- Sigma rules ----

RULE = b"title: t\nlogsource:\n  product: windows\n  category: process_creation\ndetection:\n"


@case("rules: documents", "rules", (64, 128, 256), 1000, 1000)
def _(n):
    return b"---\n".join(RULE + b"  s:\n    A|contains: text%d\n  condition: s\n" % k for k in range(n))


@case("rules: values of one field", "rules", (1000, 2000, 4000), 1000, 1000)
def _(n):
    return RULE + b"  s:\n    A|contains:\n" + b"".join(b"      - w%d*x?y\n" % k for k in range(n)) + b"  condition: s\n"


@case("rules: a long text in events", "rules", (4000, 8000, 16000), 1000, 1000, flat=True)
def _(n):
    event = b"\x01\x00\xff" + b"ab" * 127 + b"a"
    return RULE + b"  s:\n    A|re: (a|b)*a(a|b)(a|b)(a|b)c\n  condition: s\n\0" + event * (n // 258)


# ---- lists of modules ---------------------------------------------------------------------------------------------------------

@case("modules: lines of a table", "module_list", (1000, 2000, 4000), 200, 40)
def _(n):
    return b"pid\tbase\tsize\tpath\n" + b"".join(b"1\t0x%x0000\t1\t\\a\n" % (k + 1) for k in range(n))


@case("modules: objects", "module_list", (1000, 2000, 4000), 200, 40)
def _(n):
    return b"".join(b'{"pid":1,"base":"0x%x0000","size":1,"path":"\\\\a"}\n' % (k + 1) for k in range(n))


# ---- the HTTP ends: a listener, a connection and its handshake are part of each input ---------------------------------------------

@case("HTTP: fields of a head", "web", (256, 512, 1024), 1000, 200, flat=True)
def _(n):
    return b"\4\0GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + b"a:b\r\n" * n + b"\r\n"


@case("HTTP: parameters of a question", "web", (256, 512, 1024), 1000, 200, flat=True)
def _(n):
    return b"\4\0GET /api/v1/hosts?" + b"a=b&" * n + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@case("HTTP of agents: a body in chunks of one byte", "front", doubled(1024), 1000, 100, flat=True)
def _(n):
    return (b"\1POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-etwagent-batches\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n" + b"1\r\nx\r\n" * n + b"0\r\n\r\n")


# ---- the measurement --------------------------------------------------------------------------------------------------------

def measured(env, target, files):
    program = env.build / "tests" / "fuzz" / f"fuzz_{target}"
    done = subprocess.run([program, "--measure", *files], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise harness.Failure(f"{program.name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines() if line[:1].isdigit()]


def wrong(rows, ns, memory, flat):
    """What of the measured rows (bytes, nanoseconds, bytes of memory) is not as it has to be; None: nothing."""
    (first_bytes, first_ns, first_memory), _, (last_bytes, last_ns, last_memory) = rows
    times = last_bytes / first_bytes
    if last_ns > GROWTH / 4 * times * first_ns + SLACK_NS:
        return f"{times:.1f} times the bytes take {last_ns / first_ns:.1f} times the time"
    if last_ns > ns * last_bytes:
        return f"{last_ns / last_bytes:.0f} ns a byte, expected at most {ns}"
    if last_memory > memory * last_bytes:
        return f"{last_memory / last_bytes:.0f} bytes of memory a byte, expected at most {memory}"
    if last_memory > GROWTH / 4 * times * first_memory + 65536:
        return f"{times:.1f} times the bytes take {last_memory / first_memory:.1f} times the memory"
    if last_ns < REACHED * first_ns and not flat:
        return f"{times:.1f} times the bytes take {last_ns / first_ns:.2f} times the time: the input does not reach the parser"
    return None


# fuzz targets without a case here, and why
ELSEWHERE = {"ingest": "it has a collector's threads: its parsers are those of the targets front, upload, batch and segment"}


def test(env, checks, _):
    targets = {path.stem[len("fuzz_"):] for path in (harness.ROOT / "tests" / "fuzz").glob("fuzz_*.c")}
    checks.equal(targets - {target for _, target, *_ in CASES}, set(ELSEWHERE), "fuzz targets whose parser is not measured")
    print(f"{'parser: worst input':58}{'bytes':>10}{'ms':>9}{'growth':>8}{'ns/byte':>9}{'memory/byte':>13}")
    for at, (name, target, make, sizes, ns, memory, flat) in enumerate(CASES):
        files = []
        for size in sizes:
            path = env.folder / f"{at}-{size}"
            path.write_bytes(make(size))
            files.append(path)
        for _ in range(ATTEMPTS):
            rows = measured(env, target, files)
            fault = wrong(rows, ns, memory, flat)
            if not fault:
                break
        n, t, m = rows[-1]
        print(f"{name:58}{n:10}{t / 1e6:9.2f}{t / rows[0][1]:8.1f}{t / n:9.0f}{m / n:13.1f}", flush=True)
        checks.that(not fault, f"{name}: {fault}")


if __name__ == "__main__":
    harness.main(test, __doc__)
