"""A naive reader of .etl files for tests: it counts what is in a file. It shares no code with the program under test, and is
slow and simple: whole file in memory, one loop over buffers, one over records.

parse(path) returns one dictionary:
    size, buffer_size, os, build, cpus, ptr, mode, buffers_written, events_lost, buffers_lost, mhz, perf_freq, clock, tz_bias,
    start, end (FILETIME), names: the header's fields; buffers, events, compression (0: none), cpu_index_seen
    headers   {header type: n}            ext      {type of an extended item: n}
    kernel    {(group, opcode, version): n}   classic  {(GUID, opcode, version): n}
    providers {GUID: n}                   manifests {GUID: n of event 65534}
    tl_items  events with TraceLogging metadata; channel11; evflags {flags: n}; bflags {flags: n}
    pmc, pebs, messages: records with counters, with a PEBS word, of WPP
    bad: [(buffer, offset, why)], warnings: [text]

Sources: the public descriptions of WMI_BUFFER_HEADER, TRACE_LOGFILE_HEADER and the trace headers; [MS-XCA] for compression.
"""
import collections
import struct
import uuid

SYSTEM, COMPACT, PERFINFO, FULL, INSTANCE, EVENT, MESSAGE = (1, 2), (3, 4), (16, 17), (10, 20), (11, 21), (18, 19), 15
NAMES = {1: "SYSTEM32", 2: "SYSTEM64", 3: "COMPACT32", 4: "COMPACT64", 10: "FULL32", 11: "INSTANCE32", 15: "MESSAGE", 16: "PERFINFO32",
         17: "PERFINFO64", 18: "EVENT32", 19: "EVENT64", 20: "FULL64", 21: "INSTANCE64"}  # of header types
BUFFER_HEADER = struct.Struct("<IIIIqqQIIIHH")  # BufferSize SavedOffset CurrentOffset ReferenceCount TimeStamp Sequence Clock Client State Offset Flags Type
BUFFER_BYTES = 72  # the fields above, and two times after them
FLAG_PROCESSOR_WORD, FLAG_COMPRESSED = 0x20, 0x40
LOGFILE_FIELDS = struct.Struct("<IIIIqIIIIIIII")
ITEM_TRACELOGGING, EVENT_FLAG_EXTENDED, CHANNEL_TRACELOGGING, MANIFEST_EVENT = 11, 1, 11, 0xFFFE


def copy_match(out, distance, length):
    if distance > len(out):
        raise ValueError(f"a match {distance} bytes back, after {len(out)}")
    while length > 0:  # a match may overlap what it makes
        piece = out[len(out) - distance:len(out) - distance + length]
        out += piece
        length -= len(piece)


def lznt1(source, wanted):
    out, at = bytearray(), 0
    while at + 2 <= len(source) and len(out) < wanted:
        head, = struct.unpack_from("<H", source, at)
        if not head:
            break
        chunk, at = source[at + 2:at + 3 + (head & 0xFFF)], at + 3 + (head & 0xFFF)
        if not head & 0x8000:
            out += chunk
            continue
        begin, i = len(out), 0
        while i < len(chunk):
            flags, i = chunk[i], i + 1
            for bit in range(8):
                if i >= len(chunk):
                    break
                if flags >> bit & 1:
                    pair = chunk[i] | chunk[i + 1] << 8
                    bits = max(4, (len(out) - begin - 1).bit_length())  # of the distance
                    copy_match(out, (pair >> (16 - bits)) + 1, (pair & ((1 << (16 - bits)) - 1)) + 3)
                    i += 2
                else:
                    out.append(chunk[i])
                    i += 1
    return bytes(out[:wanted])


def xpress(source, wanted):
    out, at, flags, left, half = bytearray(), 0, 0, 0, None
    end = len(source)
    while len(out) < wanted:
        if not left:
            if at + 4 > end:
                break
            flags, at, left = int.from_bytes(source[at:at + 4], "little"), at + 4, 32
        left -= 1
        if not flags >> left & 1:
            if at >= end:
                break
            out.append(source[at])
            at += 1
            continue
        if at + 2 > end:
            break
        pair, at = source[at] | source[at + 1] << 8, at + 2
        length = pair & 7
        if length == 7:
            if half is None:  # one byte holds the next four bits of two matches
                half, extra, at = at, source[at] & 15, at + 1
            else:
                extra, half = source[half] >> 4, None
            length += extra
            if extra == 15:
                extra, at = source[at], at + 1
                length += extra
                if extra == 255:
                    length, at = source[at] | source[at + 1] << 8, at + 2
                    if not length:
                        length, at = int.from_bytes(source[at:at + 4], "little"), at + 4
        copy_match(out, (pair >> 3) + 1, length + 3)
    return bytes(out[:wanted])


def huffman_codes(lengths):
    """{(bits, code): symbol}, canonical: shorter codes first, then by symbol."""
    codes, code, before = {}, 0, 0
    for bits, symbol in sorted((bits, symbol) for symbol, bits in enumerate(lengths) if bits):
        code <<= bits - before
        before = bits
        codes[bits, code] = symbol
        code += 1
    return codes


def xpress_huffman(source, wanted):
    out, at = bytearray(), 0

    def word(position):
        return int.from_bytes(source[position:position + 2].ljust(2, b"\0"), "little")

    while len(out) < wanted:
        if at + 256 > len(source):
            raise ValueError("the table of a Huffman block is cut off")
        codes = huffman_codes([half for byte in source[at:at + 256] for half in (byte & 15, byte >> 4)])
        at += 256
        held, count = word(at) << 16 | word(at + 2), 32  # bits that were read and not used, the next one on top
        at += 4

        def take(bits):
            nonlocal held, count, at
            value = held >> (count - bits) if bits else 0
            count -= bits
            held &= (1 << count) - 1
            if count < 16:
                held, count, at = held << 16 | word(at), count + 16, at + 2
            return value

        stop = min(wanted, len(out) + 65536)
        while len(out) < stop:
            bits = 1
            while (bits, held >> (count - bits)) not in codes:
                bits += 1
                if bits > 15:
                    raise ValueError("no such Huffman code")
            symbol = codes[bits, take(bits)]
            if symbol < 256:
                out.append(symbol)
                continue
            length, distance_bits = symbol & 15, (symbol - 256) >> 4
            if length == 15:
                extra, at = source[at], at + 1
                length += extra
                if extra == 255:
                    length, at = word(at), at + 2
                    if not length:
                        length, at = int.from_bytes(source[at:at + 4], "little"), at + 4
            copy_match(out, (1 << distance_bits) + take(distance_bits), length + 3)
    return bytes(out[:wanted])


UNPACK = {2: lznt1, 3: xpress, 4: xpress_huffman}


def guid(data, at):
    return str(uuid.UUID(bytes_le=bytes(data[at:at + 16])))


class Counts:
    def __init__(self):
        self.headers, self.ext, self.kernel, self.classic = (collections.Counter() for _ in range(4))
        self.providers, self.manifests, self.evflags = (collections.Counter() for _ in range(3))
        self.events = self.pmc = self.pebs = self.messages = self.tl_items = self.channel11 = 0

    def record(self, data, at, end):
        """Counts the record at `at`; its length. Raises ValueError where no record can be."""
        first, second = struct.unpack_from("<II", data, at)
        kind = first >> 16 & 0xFF
        if not first & 0x80000000:
            raise ValueError(f"no record's marker: {first:08x}")
        if kind == MESSAGE:
            length = first & 0xFFFF
            self.messages += 1
        elif kind in SYSTEM or kind in COMPACT or kind in PERFINFO:
            length, version = second & 0xFFFF, first & 0xFFFF
            if kind in PERFINFO:
                self.pmc += version >> 8 & 7 != 0
                self.pebs += version >> 15
                version &= 0xFF
            self.kernel[second >> 24, second >> 16 & 0xFF, version] += 1
        elif kind in FULL or kind in INSTANCE:
            length = first & 0xFFFF
            self.classic[guid(data, at + 24), second & 0xFF, second >> 16] += 1
        elif kind in EVENT:
            length = first & 0xFFFF
            self.event(data, at, length, second & 0xFFFF)
        else:
            raise ValueError(f"header type {kind}")
        if length < 8 or at + length > end:
            raise ValueError(f"{length} bytes, {end - at} are left")
        self.headers[kind] += 1
        self.events += 1
        return length

    def event(self, data, at, length, flags):
        number, _, channel, _, opcode = struct.unpack_from("<HBBBB", data, at + 40)
        provider = guid(data, at + 24)
        self.providers[provider] += 1
        self.evflags[flags] += 1
        self.channel11 += channel == CHANNEL_TRACELOGGING
        if (number, opcode) == (MANIFEST_EVENT, 0xFE):
            self.manifests[provider] += 1
        item = at + 80
        while flags & EVENT_FLAG_EXTENDED and item + 8 <= at + length:
            size, kind, linkage, data_size = struct.unpack_from("<HHHH", data, item)
            self.ext[kind] += 1
            self.tl_items += kind == ITEM_TRACELOGGING
            item += size or (8 + data_size + 7 & ~7)
            if not linkage & 1:
                break


def logfile_header(data):
    """The fields of TRACE_LOGFILE_HEADER, which is the payload of the first record."""
    at = BUFFER_BYTES + 32
    buffer_size, version, build, cpus, end, _, _, mode, written, _, pointer, lost, mhz = LOGFILE_FIELDS.unpack_from(data, at)
    # two pointers, TIME_ZONE_INFORMATION (172 bytes), then times aligned to 8 from the structure's begin
    zone = at + LOGFILE_FIELDS.size + 2 * pointer
    bias, = struct.unpack_from("<i", data, zone)
    times = zone + 172
    times += -(times - at) % 8
    _, frequency, start, clock, buffers_lost = struct.unpack_from("<qqqII", data, times)
    record_end = BUFFER_BYTES + struct.unpack_from("<H", data, BUFFER_BYTES + 4)[0]
    names = [text for text in bytes(data[times + 32:record_end]).decode("utf-16le", "replace").split("\0") if text][:2]
    octets = version & 255, version >> 8 & 255, version >> 16 & 255, version >> 24
    return {"buffer_size": buffer_size, "os": "%d.%d sub %d.%d" % octets, "build": build, "cpus": cpus, "ptr": pointer, "mode": f"0x{mode:08X}",
            "buffers_written": written, "events_lost": lost, "buffers_lost": buffers_lost, "mhz": mhz, "perf_freq": frequency, "clock": clock,
            "tz_bias": bias, "start": start, "end": end, "names": names}


def parse(path):
    with open(path, "rb") as file:
        data = file.read()
    seen, warnings, bad, cpus, flags_seen = Counts(), [], [], set(), collections.Counter()
    summary = {"size": len(data), **logfile_header(data)}
    method = struct.unpack_from("<I", data, 0x2C)[0] & 0xFFFF
    at = buffers = packed = 0
    while at + BUFFER_BYTES <= len(data):
        size, _, _, _, _, _, _, client, _, used, flags, _ = BUFFER_HEADER.unpack_from(data, at)
        if size < BUFFER_BYTES or at + size > len(data):
            warnings.append(f"buffer {buffers} at {at:#x}: {size} bytes, {len(data) - at} are left")
            break
        flags_seen[flags] += 1
        cpus.add(client & (0xFFFF if flags & FLAG_PROCESSOR_WORD else 0xFF))
        body = data[at + BUFFER_BYTES:at + size]
        end = max(0, used - BUFFER_BYTES)
        if flags & FLAG_COMPRESSED:
            packed = 1
            body = UNPACK[method](body, end)
        if len(body) < end:
            warnings.append(f"buffer {buffers} at {at:#x}: {end} bytes of records, {len(body)} are there")
            end = len(body)
        here = 0
        while here + 8 <= end:
            if body[here:here + 4] in (b"\0\0\0\0", b"\xff\xff\xff\xff") and here + 8 == end:
                break
            try:
                here += seen.record(body, here, end)
            except (ValueError, struct.error) as why:
                bad.append((buffers, here, str(why)))
                break
            here = here + 7 & ~7
        buffers, at = buffers + 1, at + size
    if at < len(data) and not warnings:
        warnings.append(f"{len(data) - at} bytes after the last buffer")
    if buffers != summary["buffers_written"]:
        warnings.append(f"the header counts {summary['buffers_written']} buffers, there are {buffers}")
    summary.update(vars(seen), buffers=buffers, compression=method if packed else 0, cpu_index_seen=sorted(cpus), bflags=flags_seen,
                bad=bad, warnings=warnings)
    return summary
