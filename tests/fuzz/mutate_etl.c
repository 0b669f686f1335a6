/* fuzz_etl: one buffer of the trace is changed by its structure, and its sizes are made right again: a record is moved,
 * repeated, left out, given another header form, size or time, or has its payload changed; a field of a buffer's header
 * takes a value near or at a limit; buffers change places. What was compressed is taken apart before and packed again
 * after the change, so that most inputs reach the records. Some inputs are changed byte by byte all the same. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { BUFFERS = 64, RECORDS = 512, PLAIN_MAX_BYTES = 1 << 16, PACKED_MAX_BYTES = 2 * PLAIN_MAX_BYTES };

static unsigned next(unsigned *random) {
    *random = *random * 1103515245u + 12345u;
    return *random >> 8;
}

static uint64_t interesting(unsigned *random, uint64_t near) {
    static const uint64_t NUMBERS[] = {0,   1,    2,     7,     8,         0x47,       0x48,      0x49,
                                       255, 1024, 65535, 65536, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    unsigned what = next(random) % 32;
    return what < sizeof NUMBERS / sizeof *NUMBERS ? NUMBERS[what] : near + next(random) % 33 - 16;
}

/* Puts n bytes where [begin, end) is; size unchanged when there is no room. */
static size_t splice(uint8_t *data, size_t size, size_t max, size_t begin, size_t end, const uint8_t *bytes, size_t n) {
    if (size - (end - begin) + n > max)
        return size;
    memmove(data + begin + n, data + end, size - end);
    memcpy(data + begin, bytes, n);
    return size - (end - begin) + n;
}

typedef struct span {
    size_t begin, end;
} span;

static size_t buffers_of(const uint8_t *data, size_t size, span *at) {
    size_t n = 0;
    for (size_t begin = 0; n < BUFFERS && size - begin > EA_ETL_HEADER_BYTES;) {
        uint32_t bytes = ea_load32(data + begin);
        if (bytes < EA_ETL_HEADER_BYTES || bytes > size - begin)
            bytes = (uint32_t)(size - begin);
        at[n++] = (span){begin, begin + bytes};
        begin += bytes;
    }
    return n;
}

/* Finds the records, which are 8-byte aligned. Bytes that are no record are skipped. */
static size_t records_of(const uint8_t *data, size_t size, span *at) {
    size_t n = 0;
    for (size_t begin = 0; n < RECORDS && begin + 8 <= size;) {
        uint32_t bytes = ea_etl_record_bytes(data + begin, (uint32_t)(size - begin));
        size_t end = begin + (bytes + 7) / 8 * 8;
        if (bytes)
            at[n++] = (span){begin, end < size ? end : size};
        begin = bytes ? end : begin + 8;
    }
    return n;
}

static void set_size(uint8_t *record, uint16_t bytes) {
    unsigned shift =
        record[3] == EA_ETL_MARKER_EVENT ? ea_etl_header_forms[record[2] & (EA_ETL_TYPES - 1)].size_shift : 0;
    ea_store16(record + shift / 8, bytes);
}

/* Changes the records at data; returns their new size. */
static size_t change_records(uint8_t *data, size_t size, size_t max, unsigned *random) {
    static span at[RECORDS];
    static uint8_t copy[PLAIN_MAX_BYTES];
    size_t n = records_of(data, size, at);
    if (!n)
        return LLVMFuzzerMutate(data, size, max);
    span a = at[next(random) % n], b = at[next(random) % n];
    uint8_t *record = data + a.begin;
    uint32_t bytes = ea_etl_record_bytes(record, (uint32_t)(size - a.begin));
    const ea_etl_header_form *form = &ea_etl_header_forms[record[2] & (EA_ETL_TYPES - 1)];
    size_t header = record[3] == EA_ETL_MARKER_EVENT ? form->bytes : 8;
    switch (next(random) % 9) {
    case 0: /* left out */
        return splice(data, size, max, a.begin, a.end, copy, 0);
    case 1: /* repeated elsewhere */
        memcpy(copy, record, a.end - a.begin);
        return splice(data, size, max, b.begin, b.begin, copy, a.end - a.begin);
    case 2: /* in another's place */
        memcpy(copy, record, a.end - a.begin);
        return splice(data, size, max, b.begin, b.end, copy, a.end - a.begin);
    case 3: /* another header form */
        record[2] = (uint8_t)(next(random) % EA_ETL_TYPES);
        return size;
    case 4: /* another size, true or not */
        set_size(record, (uint16_t)interesting(random, bytes));
        return size;
    case 5: /* another time */
        if (record[3] == EA_ETL_MARKER_EVENT && form->time_at + 8u <= bytes) {
            uint64_t near = (uint64_t)ea_etl_record_time(data + b.begin, 0);
            ea_store64(record + form->time_at, interesting(random, near));
        }
        return size;
    case 6: /* one byte of the header */
        record[next(random) % (header < bytes ? header : bytes)] = (uint8_t)interesting(random, 0);
        return size;
    default: /* other extended items and payload, in a size that is right */
        if (header >= bytes)
            return size;
        memcpy(copy, record, bytes);
        {
            size_t room = header + 2 * (size_t)(bytes - header) + 64;
            room = room < sizeof copy - 8 ? room : sizeof copy - 8;
            size_t made = header + LLVMFuzzerMutate(copy + header, bytes - header, room - header);
            size_t padded = (made + 7) / 8 * 8;
            memset(copy + made, 0, padded - made);
            set_size(copy, (uint16_t)made);
            return splice(data, size, max, a.begin, a.end, copy, padded);
        }
    }
}

static size_t unpack(unsigned compression, const uint8_t *in, size_t in_bytes, uint8_t *out) {
    size_t made = 0;
    int rc = compression == EA_ETL_LZNT1         ? ea_lznt1_decompress(in, in_bytes, out, PLAIN_MAX_BYTES, &made)
             : compression == EA_ETL_NONE        ? EA_ECORRUPT
             : compression == EA_ETL_XPRESS_HUFF ? ea_xpress_huff_decompress(in, in_bytes, out, PLAIN_MAX_BYTES, &made)
                                                 : ea_xpress_decompress(in, in_bytes, out, PLAIN_MAX_BYTES, &made);
    return rc ? 0 : made;
}

static size_t pack(unsigned compression, const uint8_t *in, size_t in_bytes, uint8_t *out) {
    return compression == EA_ETL_LZNT1         ? ea_lznt1_compress(in, in_bytes, out)
           : compression == EA_ETL_XPRESS_HUFF ? ea_xpress_huff_compress(in, in_bytes, out)
                                               : ea_xpress_compress(in, in_bytes, out);
}

static size_t change_buffer(uint8_t *data, size_t size, size_t max, span b, unsigned *random) {
    static uint8_t plain[PLAIN_MAX_BYTES], packed[PACKED_MAX_BYTES];
    ea_etl_buffer_header h;
    ea_etl_parse_buffer_header(data + b.begin, &h);
    unsigned compression = ea_load16(data + 0x2c);
    const uint8_t *in = data + b.begin + EA_ETL_HEADER_BYTES;
    size_t in_bytes = b.end - b.begin - EA_ETL_HEADER_BYTES, records = 0, n;
    int compressed = b.begin && (h.flags & EA_ETL_BUFFER_COMPRESSED) != 0;
    if (in_bytes > sizeof plain / 2)
        return LLVMFuzzerMutate(data, size, max);
    if (compressed)
        records = unpack(compression, in, in_bytes, plain);
    if (!compressed || !records) { /* a stream that is damaged already is changed as it is */
        memcpy(plain, in, records = in_bytes);
        compressed = 0;
    }
    for (unsigned turns = 1 + next(random) % 3; turns; turns--)
        records = change_records(plain, records, sizeof plain / 2, random);
    h.used_bytes = (uint32_t)(EA_ETL_HEADER_BYTES + records);
    if (compressed)
        n = pack(compression, plain, records, packed); /* each bound is below three times half of plain */
    else
        memcpy(packed, plain, n = records);
    h.size_bytes = (uint32_t)(EA_ETL_HEADER_BYTES + n);
    size_t made = splice(data, size, max, b.begin + EA_ETL_HEADER_BYTES, b.end, packed, n);
    if (made != size || n == in_bytes)
        ea_etl_put_buffer_header(data + b.begin, &h);
    return made;
}

static void change_header(uint8_t *header, unsigned *random) {
    static const uint8_t FIELDS[][2] = {{0x00, 4}, {0x04, 4}, {0x08, 4}, {0x10, 8}, {0x18, 8}, {0x28, 2},
                                        {0x2a, 2}, {0x2c, 2}, {0x30, 4}, {0x34, 2}, {0x36, 2}};
    const uint8_t *f = FIELDS[next(random) % (sizeof FIELDS / sizeof *FIELDS)];
    uint64_t old = 0;
    memcpy(&old, header + f[0], f[1]);
    old = interesting(random, old);
    memcpy(header + f[0], &old, f[1]);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static span at[BUFFERS];
    static uint8_t copy[PLAIN_MAX_BYTES];
    unsigned random = seed;
    size_t trace = size ? size - 1 : 0, n = buffers_of(data, trace, at), made = trace;
    if (!n || next(&random) % 8 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    uint8_t choice = data[trace]; /* the last byte is no part of the trace: see fuzz_etl.c */
    span a = at[next(&random) % n], b = at[next(&random) % n];
    size_t bytes = a.end - a.begin;
    switch (next(&random) % 8) {
    case 0:
        change_header(data + a.begin, &random);
        break;
    case 1: /* repeated, or in another's place */
        if (bytes <= sizeof copy) {
            memcpy(copy, data + a.begin, bytes);
            made = splice(data, trace, max_size - 1, b.begin, next(&random) % 2 ? b.end : b.begin, copy, bytes);
        }
        break;
    case 2:
        made = splice(data, trace, max_size - 1, a.begin, a.end, copy, 0);
        break;
    default:
        made = change_buffer(data, trace, max_size - 1, a, &random);
        break;
    }
    /* mending (bit 0) takes a thousand times as long as the rest: rarely */
    if (next(&random) % 16 == 0)
        choice = (uint8_t)next(&random);
    data[made] = next(&random) % 16 ? choice & 0xfe : choice;
    return made + 1;
}
