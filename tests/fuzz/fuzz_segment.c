/* Fuzz target: recovery of a segment file. When the first byte is even, the remaining bytes are edits to a file of
 * known records. Each record that recovery finds must be one of the known records, at its original offset. When the
 * first byte is odd, the remaining bytes are the file itself, after a valid header. */
#include "collector/store/segment.h"
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS = 4, MAX_INPUT = 1 << 14 };

static void must(int rc) {
    if (rc)
        abort();
}

/* Walks the whole file as recovery does; gives each sound record to the caller's list. */
static size_t walk(ec_segment *s, ec_record *found, uint8_t (*contents)[64], size_t room) {
    uint8_t *data = NULL;
    size_t capacity = 0, n = 0;
    uint64_t offset = EC_SEGMENT_HEADER_BYTES, size;
    ea_err err;
    must(ea_file_size(s->file, &size, &err));
    for (;;) {
        ec_record r;
        int rc = ec_segment_scan(s, offset, &r, &data, &capacity, &err);
        if (rc == EA_ETRUNCATED || rc == EA_ECORRUPT) {
            uint64_t next = 0;
            rc = ec_segment_resync(s, offset, &next, &data, &capacity, &err);
            if (rc == 1 && (next <= offset || next % 8))
                abort();
            offset = next;
            if (rc == 1)
                continue;
        }
        if (rc < 0)
            abort();
        if (rc == 0)
            break;
        if (r.offset != offset || r.next <= offset || r.next > size || r.data_offset + r.data_bytes > r.next)
            abort();
        must(ec_segment_read(s, r.offset, r.data_bytes, &data, &capacity, &err));
        if (n < room) {
            found[n] = r;
            memset(contents[n], 0, sizeof contents[n]);
            memcpy(contents[n], data, r.data_bytes < 64 ? (size_t)r.data_bytes : 64);
        }
        n++;
        offset = r.next;
    }
    free(data);
    return n;
}

static void edits(const uint8_t *data, size_t size) {
    ec_segment s;
    ec_record written[RECORDS], found[RECORDS * 2];
    uint8_t body[RECORDS][64], contents[RECORDS * 2][64];
    ea_err err;
    must(ec_segment_create(&s, folder, 1, &err));
    for (unsigned i = 0; i < RECORDS; i++) {
        memset(body[i], (int)(i + 1), sizeof body[i]);
        must(ec_segment_append(&s, i % 2 ? "beta" : "alpha", body[i], sizeof body[i] - i, 1000 + i, &written[i], &err));
        memset(body[i] + sizeof body[i] - i, 0, i);
    }
    uint64_t end = s.end;
    for (; size >= 3; data += 3, size -= 3) {
        uint64_t at = EC_SEGMENT_HEADER_BYTES + ea_load16(data) % (end - EC_SEGMENT_HEADER_BYTES);
        if (data[1] & 0x80)
            must(ec_segment_cut(&s, end = at, &err));
        else
            must(ea_file_write_at(s.file, at, data + 2, 1, &err));
        if (end == EC_SEGMENT_HEADER_BYTES)
            break;
    }
    size_t n = walk(&s, found, contents, RECORDS * 2);
    if (n > RECORDS)
        abort();
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < RECORDS && written[k].offset != found[i].offset)
            k++;
        if (k == RECORDS || memcmp(contents[i], body[k], sizeof body[k]) != 0 ||
            strcmp(found[i].agent, written[k].agent) != 0 || found[i].received_utc_ns != written[k].received_utc_ns)
            abort();
    }
    ec_segment_close(&s);
}

/* The attacker that knows the seed: any bytes, with the first record's hashes made right. */
static void whole_file(const uint8_t *data, size_t size) {
    uint8_t *file = calloc(1, MAX_INPUT + EC_SEGMENT_HEADER_BYTES);
    ec_segment s;
    ec_record found[4];
    uint8_t contents[4][64];
    ea_err err;
    if (!file)
        abort();
    must(ec_segment_create(&s, folder, 1, &err));
    size_t got;
    must(ea_file_read_at(s.file, 0, file, EC_SEGMENT_HEADER_BYTES, &got, &err));
    memcpy(file + EC_SEGMENT_HEADER_BYTES, data, size);
    uint8_t *r = file + EC_SEGMENT_HEADER_BYTES;
    if (size >= EC_RECORD_HEADER_BYTES) {
        uint64_t header_bytes = ea_load32(r + 4), data_bytes = ea_load64(r + 8);
        if (header_bytes >= EC_RECORD_HEADER_BYTES && header_bytes <= size && data_bytes <= size - header_bytes)
            ea_store64(r + 24, ea_hash64(r + header_bytes, (size_t)data_bytes, 0));
        if (header_bytes >= EC_RECORD_HEADER_BYTES && header_bytes <= size)
            ea_store64(r + 40, ea_hash64(r + EC_RECORD_HEADER_BYTES, (size_t)header_bytes - EC_RECORD_HEADER_BYTES,
                                         ea_hash64(r, 40, s.seed ^ EC_SEGMENT_HEADER_BYTES)));
    }
    must(ea_file_write_at(s.file, 0, file, size + EC_SEGMENT_HEADER_BYTES, &err));
    ec_segment_close(&s);
    must(ec_segment_open(&s, folder, 1, 1, &err));
    (void)walk(&s, found, contents, 4);
    ec_segment_close(&s);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > MAX_INPUT)
        return 0;
    if (!folder[0])
        folder_make("segment"); /* each input syncs */
    if (data[0] % 2)
        whole_file(data + 1, size - 1);
    else
        edits(data + 1, size - 1);
    return 0;
}
