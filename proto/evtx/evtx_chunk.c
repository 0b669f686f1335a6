/* Chunks of an event log, and where their records are. See evtx.h. */
#include "proto/evtx/evtx.h"

#include <string.h>

enum {
    FREE_AT = 48,     /* in the chunk's header: where the used bytes end */
    DATA_CRC_AT = 52, /* of the records */
    HEADER_CRC_AT = 124,
    TABLES_AT = 128,
    RECORD_MAGIC = 0x00002a2a,
    RECORD_LEAST_BYTES = 32, /* header, an empty fragment, the size again */
};

static const char FILE_MAGIC[8] = "ElfFile", CHUNK_MAGIC[8] = "ElfChnk";

static uint32_t crc32_more(uint32_t crc, const uint8_t *data, size_t len_bytes) {
    static const uint32_t OF_NIBBLE[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                           0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                           0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < len_bytes; i++) {
        crc = OF_NIBBLE[(crc ^ data[i]) & 15] ^ (crc >> 4);
        crc = OF_NIBBLE[(crc ^ (uint32_t)(data[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}

static int all_zero(const uint8_t *data, size_t len_bytes) {
    return len_bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, len_bytes - 1) == 0);
}

int ea_evtx_is_log(const uint8_t *data, size_t len_bytes) {
    return (len_bytes >= EA_EVTX_FILE_HEADER_BYTES && memcmp(data, FILE_MAGIC, sizeof FILE_MAGIC) == 0) ||
           (len_bytes >= EA_EVTX_FILE_HEADER_BYTES + sizeof CHUNK_MAGIC &&
            memcmp(data + EA_EVTX_FILE_HEADER_BYTES, CHUNK_MAGIC, sizeof CHUNK_MAGIC) == 0);
}

/* Where the magic is in data[from, to); to when it is not there. */
static uint32_t find_magic(const uint8_t *data, uint32_t from, uint32_t to) {
    while (from < to) {
        const uint8_t *p = memchr(data + from, CHUNK_MAGIC[0], to - from);
        if (!p)
            break;
        from = (uint32_t)(p - data);
        if (to - from < sizeof CHUNK_MAGIC)
            break;
        if (memcmp(p, CHUNK_MAGIC, sizeof CHUNK_MAGIC) == 0)
            return from;
        from++;
    }
    return to;
}

int ea_evtx_find_chunk(ea_file *file, uint64_t file_bytes, uint64_t *at, uint8_t *data, uint32_t *ret_bytes,
                       ea_err *err) {
    uint64_t offset = *at < EA_EVTX_FILE_HEADER_BYTES ? EA_EVTX_FILE_HEADER_BYTES : *at;
    while (offset < file_bytes) {
        size_t got;
        uint64_t after_hole = ea_file_skip_hole(file, offset);
        if (after_hole - offset >= EA_EVTX_CHUNK_BYTES) {
            offset += (after_hole - offset) / EA_EVTX_CHUNK_BYTES * EA_EVTX_CHUNK_BYTES;
            continue;
        }
        int rc = ea_file_read_at(file, offset, data, EA_EVTX_CHUNK_BYTES, &got, err);
        if (rc)
            return rc;
        if (got == 0)
            break;
        uint32_t bytes = (uint32_t)got;
        int begins = bytes >= sizeof CHUNK_MAGIC && memcmp(data, CHUNK_MAGIC, sizeof CHUNK_MAGIC) == 0;
        /* A chunk that begins inside this one: bytes are missing from this one, or too many are before that one. Its
         * own text may have the magic's letters, so that only one whose header's first words are sound counts. */
        uint32_t next = find_magic(data, begins ? EA_EVTX_CHUNK_HEADER_BYTES : 1, bytes);
        while (next < bytes && (bytes - next < 44 || ea_load32(data + next + 40) != 128))
            next = find_magic(data, next + 1, bytes);
        if (!all_zero(data, next)) {
            *at = offset;
            *ret_bytes = next;
            return 1;
        }
        offset += next;
    }
    return 0;
}

/* The size of a record at this place, 0 when there is none. */
static uint32_t record_bytes(const ea_evtx_chunk *c, uint32_t at) {
    if (c->bytes - at < RECORD_LEAST_BYTES || ea_load32(c->data + at) != RECORD_MAGIC)
        return 0;
    uint32_t size = ea_load32(c->data + at + 4);
    if (size < RECORD_LEAST_BYTES || size > c->bytes - at || ea_load32(c->data + at + size - 4) != size)
        return 0;
    return size;
}

/* The next place from `at` on that has a record; bytes when there is none. */
static uint32_t find_record(const ea_evtx_chunk *c, uint32_t at) {
    while (at < c->bytes) {
        const uint8_t *p = memchr(c->data + at, RECORD_MAGIC & 0xff, c->bytes - at);
        if (!p)
            break;
        at = (uint32_t)(p - c->data);
        if (record_bytes(c, at))
            return at;
        at++;
    }
    return c->bytes;
}

/* Whether records without a gap end exactly there. */
static int records_end_at(const ea_evtx_chunk *c, uint32_t end) {
    uint32_t at = EA_EVTX_CHUNK_HEADER_BYTES, size = 1;
    for (; at < end && at < c->bytes && size; at += size)
        size = record_bytes(c, at);
    return at == end;
}

void ea_evtx_chunk_open(ea_evtx_chunk *c, const uint8_t *data, uint32_t bytes) {
    *c = (ea_evtx_chunk){
        .data = data, .bytes = bytes, .at = EA_EVTX_CHUNK_HEADER_BYTES, .work = EA_EVTX_WORK_PER_BYTE * bytes};
    if (bytes < EA_EVTX_CHUNK_HEADER_BYTES) {
        c->at = bytes;
        c->wrong = "the file ends inside a chunk's header";
        return;
    }
    uint32_t end = ea_load32(data + FREE_AT), crc = crc32_more(0, data, 120);
    uint32_t says_header = ea_load32(data + HEADER_CRC_AT), says_data = ea_load32(data + DATA_CRC_AT);
    crc = crc32_more(crc, data + TABLES_AT, EA_EVTX_CHUNK_HEADER_BYTES - TABLES_AT);
    int named = memcmp(data, CHUNK_MAGIC, sizeof CHUNK_MAGIC) == 0;
    int possible = end >= EA_EVTX_CHUNK_HEADER_BYTES && end <= EA_EVTX_CHUNK_BYTES;
    int without = !says_header && !says_data; /* some logs have no checksums */
    int trusted = named && possible && (crc == says_header || records_end_at(c, end));
    if (!named)
        c->wrong = "a chunk's header does not begin with ElfChnk";
    else if (crc != says_header && !without)
        c->wrong = "a chunk's header has another checksum than it says";
    else if (!possible)
        c->wrong = "a chunk's header says an impossible length";
    else if (end > bytes)
        c->wrong = "the file ends inside a chunk";
    else if (!without &&
             says_data != crc32_more(0, data + EA_EVTX_CHUNK_HEADER_BYTES, end - EA_EVTX_CHUNK_HEADER_BYTES))
        c->wrong = "a chunk's records have another checksum than its header says";
    if (trusted && end <= bytes)
        c->bytes = end; /* what comes after is what the memory held before */
}

int ea_evtx_chunk_next(ea_evtx_chunk *c, ea_evtx_place *ret) {
    uint32_t from = c->at, at = find_record(c, from);
    c->gap = 0;
    if (from < at && !all_zero(c->data + from, at - from)) {
        c->gap = at - from;
        c->gap_at = from;
    }
    c->at = at;
    if (at >= c->bytes)
        return 0;
    uint32_t size = record_bytes(c, at);
    *ret = (ea_evtx_place){at, size, ea_load64(c->data + at + 8), (int64_t)ea_load64(c->data + at + 16)};
    c->at += size;
    return 1;
}
