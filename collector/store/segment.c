/* Segment files. See segment.h. */
#include "collector/store/segment.h"

#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COPY_BYTES = 1 << 20 };

static const uint64_t SEGMENT_MAGIC = 0x0031474553575445u; /* "ETWSEG1\0" */
static const uint32_t RECORD_MAGIC = 0x54414245u;          /* "EBAT" */
static const uint32_t ERASED_MAGIC = 0x454e4f47u;          /* "GONE" */

static uint64_t padded(uint64_t n) {
    return (n + 7) & ~(uint64_t)7;
}

static int set_path(ec_segment *s, const char *dir, uint64_t number, ea_err *err) {
    memset(s, 0, sizeof *s);
    s->number = number;
    int n = snprintf(s->path, sizeof s->path, "%s/%016" PRIx64 ".seg", dir, number);
    if (n < 0 || (size_t)n >= sizeof s->path)
        return ea_fail(err, EA_EINVAL, "segment folder %s: the path is too long", dir);
    return 0;
}

int ec_segment_create(ec_segment *s, const char *dir, uint64_t number, ea_err *err) {
    uint8_t header[EC_SEGMENT_HEADER_BYTES] = {0};
    int rc = set_path(s, dir, number, err);
    if (rc)
        return rc;
    rc = ea_random_bytes(&s->seed, sizeof s->seed, err);
    if (rc)
        return rc;
    ea_store64(header, SEGMENT_MAGIC);
    ea_store32(header + 8, EC_SEGMENT_HEADER_BYTES);
    ea_store64(header + 16, number);
    ea_store64(header + 24, s->seed);
    ea_store64(header + 32, ea_hash64(header, 32, 0));
    rc = ea_file_open(&s->file, s->path, EA_OPEN_CREATE, err);
    if (rc)
        return rc;
    rc = ea_file_write_at(s->file, 0, header, sizeof header, err);
    if (!rc)
        rc = ea_file_sync(s->file, err);
    if (!rc)
        rc = ea_path_sync_dir(dir, err);
    if (rc) {
        ec_segment_close(s);
        return rc;
    }
    s->end = sizeof header;
    return 0;
}

int ec_segment_open(ec_segment *s, const char *dir, uint64_t number, int writable, ea_err *err) {
    uint8_t header[EC_SEGMENT_HEADER_BYTES];
    size_t got = 0;
    int rc = set_path(s, dir, number, err);
    if (rc)
        return rc;
    if (writable && !ea_path_exists(s->path))
        return ea_fail(err, EA_ENOTFOUND, "open %s", s->path);
    rc = ea_file_open(&s->file, s->path, writable ? EA_OPEN_APPEND : EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_size(s->file, &s->end, err);
    if (!rc)
        rc = ea_file_read_at(s->file, 0, header, sizeof header, &got, err);
    if (!rc && got < sizeof header)
        rc = ea_fail(err, EA_ETRUNCATED, "segment %s: shorter than its header", s->path);
    else if (!rc && memcmp(header, "ETWSEG", 6) == 0 && header[6] > '1' && header[6] <= '9' &&
             ea_load64(header + 32) == ea_hash64(header, 32, 0))
        rc = ea_fail(err, EA_EUNSUPPORTED, "segment %s: another format (version %c, this program reads 1)", s->path,
                     header[6]);
    else if (!rc && (ea_load64(header) != SEGMENT_MAGIC || ea_load32(header + 8) != EC_SEGMENT_HEADER_BYTES ||
                     ea_load64(header + 16) != number || ea_load64(header + 32) != ea_hash64(header, 32, 0)))
        rc = ea_fail(err, EA_ECORRUPT, "segment %s: the header is damaged", s->path);
    if (rc) {
        ec_segment_close(s);
        return rc;
    }
    s->seed = ea_load64(header + 24);
    return 0;
}

void ec_segment_close(ec_segment *s) {
    ea_file_close(s->file);
    s->file = NULL;
}

static uint64_t header_hash(const ec_segment *s, uint64_t offset, const uint8_t *header, size_t header_bytes) {
    uint64_t h = ea_hash64(header, 40, s->seed ^ offset);
    return ea_hash64(header + EC_RECORD_HEADER_BYTES, header_bytes - EC_RECORD_HEADER_BYTES, h);
}

int ec_segment_append(ec_segment *s, const char *agent, const uint8_t *data, size_t data_bytes, int64_t received_utc_ns,
                      ec_record *ret, ea_err *err) {
    uint8_t header[EC_RECORD_HEADER_BYTES + EC_AGENT_BYTES + 1] = {0};
    static const uint8_t zeros[8];
    size_t agent_bytes = strlen(agent);
    if (agent_bytes == 0 || agent_bytes > EC_AGENT_BYTES)
        return ea_fail(err, EA_EINVAL, "append to %s: an agent's name has 1 to %d bytes", s->path, EC_AGENT_BYTES);
    if (data_bytes == 0 || data_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "append to %s: a batch of %zu bytes", s->path, data_bytes);
    size_t header_bytes = EC_RECORD_HEADER_BYTES + (size_t)padded(agent_bytes);
    uint64_t data_hash = ea_hash64(data, data_bytes, 0);
    ea_store32(header, RECORD_MAGIC);
    ea_store32(header + 4, (uint32_t)header_bytes);
    ea_store64(header + 8, data_bytes);
    ea_store64(header + 16, (uint64_t)received_utc_ns);
    ea_store64(header + 24, data_hash);
    ea_store32(header + 32, (uint32_t)agent_bytes);
    memcpy(header + EC_RECORD_HEADER_BYTES, agent, agent_bytes);
    ea_store64(header + 40, header_hash(s, s->end, header, header_bytes));

    EA_ASSERT(s->end >= EC_SEGMENT_HEADER_BYTES && s->end % 8 == 0); /* a record begins at a multiple of 8 */
    int rc = ea_file_write_at(s->file, s->end, header, header_bytes, err);
    if (!rc)
        rc = ea_file_write_at(s->file, s->end + header_bytes, data, data_bytes, err);
    size_t pad = (size_t)(padded(data_bytes) - data_bytes);
    if (!rc && pad)
        rc = ea_file_write_at(s->file, s->end + header_bytes + data_bytes, zeros, pad, err);
    if (rc)
        return rc;
    *ret = (ec_record){.offset = s->end,
                       .data_offset = s->end + header_bytes,
                       .data_bytes = data_bytes,
                       .next = s->end + header_bytes + padded(data_bytes),
                       .received_utc_ns = received_utc_ns,
                       .data_hash = data_hash};
    memcpy(ret->agent, agent, agent_bytes + 1);
    s->end = ret->next;
    return 0;
}

int ec_segment_sync(ec_segment *s, ea_err *err) {
    return ea_file_sync(s->file, err);
}

int ec_segment_cut(ec_segment *s, uint64_t offset, ea_err *err) {
    int rc = ea_file_truncate(s->file, offset, err);
    if (!rc)
        rc = ea_file_sync(s->file, err);
    if (!rc)
        s->end = offset;
    return rc;
}

/* Room for n bytes in *data. */
static int segment_reserve(uint8_t **data, size_t *capacity, size_t n, ea_err *err) {
    return EA_GROW(*data, *capacity, n, SIZE_MAX) ? ea_fail(err, EA_ENOMEM, "read a batch of %zu bytes", n) : 0;
}

/* Parses the header of the record at offset; checks everything but the data. */
static int segment_read_header(ec_segment *s, uint64_t offset, ec_record *ret, ea_err *err) {
    uint8_t header[EC_RECORD_HEADER_BYTES + EC_AGENT_BYTES + 1];
    size_t got = 0;
    int rc = ea_file_read_at(s->file, offset, header, sizeof header, &got, err);
    if (rc)
        return rc;
    if (got < EC_RECORD_HEADER_BYTES)
        return ea_fail(err, EA_ETRUNCATED, "segment %s at offset %" PRIu64 ": expected a record", s->path, offset);
    uint32_t header_bytes = ea_load32(header + 4), agent_bytes = ea_load32(header + 32);
    uint64_t data_bytes = ea_load64(header + 8);
    int is_erased = ea_load32(header) == ERASED_MAGIC && agent_bytes == 0 && header_bytes > EC_RECORD_HEADER_BYTES &&
                    header_bytes <= sizeof header && header_bytes % 8 == 0;
    int is_record = ea_load32(header) == RECORD_MAGIC && agent_bytes != 0 && agent_bytes <= EC_AGENT_BYTES &&
                    header_bytes == EC_RECORD_HEADER_BYTES + padded(agent_bytes);
    if ((!is_erased && !is_record) || data_bytes == 0 || data_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": expected a record", s->path, offset);
    if (got < header_bytes)
        return ea_fail(err, EA_ETRUNCATED, "segment %s at offset %" PRIu64 ": expected an agent's name", s->path,
                       offset);
    if (ea_load64(header + 40) != header_hash(s, offset, header, header_bytes) ||
        memchr(header + EC_RECORD_HEADER_BYTES, 0, agent_bytes))
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": the record's header is damaged", s->path,
                       offset);
    *ret = (ec_record){.offset = offset,
                       .data_offset = offset + header_bytes,
                       .data_bytes = data_bytes,
                       .next = offset + header_bytes + padded(data_bytes),
                       .received_utc_ns = (int64_t)ea_load64(header + 16),
                       .data_hash = ea_load64(header + 24)};
    memcpy(ret->agent, header + EC_RECORD_HEADER_BYTES, agent_bytes);
    return 0;
}

int ec_segment_header(ec_segment *s, uint64_t offset, ec_record *ret, ea_err *err) {
    ec_record r;
    uint64_t size;
    int rc = ea_file_size(s->file, &size, err);
    if (rc || offset == size)
        return rc;
    rc = segment_read_header(s, offset, &r, err);
    if (!rc && r.next > size)
        rc = ea_fail(err, EA_ETRUNCATED, "segment %s at offset %" PRIu64 ": the record ends after the file's end",
                     s->path, offset);
    if (rc)
        return rc;
    *ret = r;
    return 1;
}

int ec_segment_erase(ec_segment *s, uint64_t offset, ea_err *err) {
    ec_record r;
    uint8_t header[EC_RECORD_HEADER_BYTES + EC_AGENT_BYTES + 1] = {0};
    int rc = ec_segment_header(s, offset, &r, err);
    if (rc != 1)
        return rc ? rc
                  : ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": expected a record", s->path, offset);
    size_t header_bytes = (size_t)(r.data_offset - r.offset);
    ea_store32(header, ERASED_MAGIC);
    ea_store32(header + 4, (uint32_t)header_bytes);
    ea_store64(header + 8, r.data_bytes);
    ea_store64(header + 40, header_hash(s, offset, header, header_bytes));
    rc = ea_file_write_at(s->file, offset, header, header_bytes, err);
    return rc ? rc : ea_file_clear(s->file, r.data_offset, r.next - r.data_offset, err);
}

int ec_segment_has_rest(ec_segment *s, const ec_record *r, ea_err *err) {
    uint8_t window[1 << 14];
    uint64_t at = r->agent[0] ? r->next : ea_file_skip_hole(s->file, r->data_offset);
    while (at < r->next) {
        uint64_t left = r->next - at;
        size_t got = 0;
        int rc = ea_file_read_at(s->file, at, window, left < sizeof window ? (size_t)left : sizeof window, &got, err);
        if (rc || !got)
            return rc;
        for (size_t i = 0; i < got; i++)
            if (window[i])
                return 1;
        at = ea_file_skip_hole(s->file, at + got);
    }
    return 0;
}

/* A copy in the place of a file that has other links. */
static int make_own(const char *dir, const char *path, ea_err *err) {
    char made[sizeof((ec_segment *)NULL)->path + 8];
    ea_file *in = NULL, *out = NULL;
    uint8_t *buffer = malloc(COPY_BYTES);
    uint64_t at = 0;
    size_t got = 1;
    snprintf(made, sizeof made, "%s.tmp", path);
    int rc = buffer ? ea_file_open(&in, path, EA_OPEN_READ, err) : ea_fail(err, EA_ENOMEM, "copy %s", path);
    if (!rc)
        rc = ea_file_open(&out, made, EA_OPEN_CREATE, err);
    for (; !rc && got; at += got) {
        rc = ea_file_read_at(in, at, buffer, COPY_BYTES, &got, err);
        if (!rc && got)
            rc = ea_file_write_at(out, at, buffer, got, err);
    }
    if (!rc)
        rc = ea_file_sync(out, err);
    ea_file_close(in);
    ea_file_close(out);
    free(buffer);
    if (!rc)
        rc = ea_path_rename(made, path, err);
    return rc ? rc : ea_path_sync_dir(dir, err);
}

int ec_segment_open_own(ec_segment *s, const char *dir, uint64_t number, ea_err *err) {
    struct stat st;
    int rc = set_path(s, dir, number, err);
    if (!rc && stat(s->path, &st) == 0 && st.st_nlink > 1)
        rc = make_own(dir, s->path, err);
    return rc ? rc : ec_segment_open(s, dir, number, 1, err);
}

int ec_segment_scan(ec_segment *s, uint64_t offset, ec_record *ret, uint8_t **data, size_t *capacity, ea_err *err) {
    ec_record r;
    uint64_t size;
    size_t got = 0;
    int rc = ea_file_size(s->file, &size, err);
    if (rc)
        return rc;
    if (offset == size)
        return 0;
    rc = segment_read_header(s, offset, &r, err);
    if (rc)
        return rc;
    if (r.next > size)
        return ea_fail(err, EA_ETRUNCATED, "segment %s at offset %" PRIu64 ": the record ends after the file's end",
                       s->path, offset);
    if (!r.agent[0]) {
        *ret = r;
        return 1;
    }
    rc = segment_reserve(data, capacity, (size_t)r.data_bytes, err);
    if (!rc)
        rc = ea_file_read_at(s->file, r.data_offset, *data, (size_t)r.data_bytes, &got, err);
    if (rc)
        return rc;
    if (got < r.data_bytes)
        return ea_fail(err, EA_ETRUNCATED, "segment %s at offset %" PRIu64 ": the data ends early", s->path, offset);
    if (ea_hash64(*data, got, 0) != r.data_hash)
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": the data is damaged", s->path, offset);
    *ret = r;
    return 1;
}

int ec_segment_resync(ec_segment *s, uint64_t offset, uint64_t *ret_offset, uint8_t **data, size_t *capacity,
                      ea_err *err) {
    uint8_t window[1 << 16];
    uint64_t at = padded(offset + 1);
    for (;;) {
        size_t got = 0;
        int rc = ea_file_read_at(s->file, at, window, sizeof window, &got, err);
        if (rc)
            return rc;
        if (got < EC_RECORD_HEADER_BYTES)
            return 0;
        for (size_t i = 0; i + 8 <= got; i += 8) {
            ec_record r;
            if (ea_load32(window + i) != RECORD_MAGIC && ea_load32(window + i) != ERASED_MAGIC)
                continue;
            rc = ec_segment_scan(s, at + i, &r, data, capacity, err);
            if (rc == 1) {
                *ret_offset = at + i;
                return 1;
            }
            if (rc != EA_ETRUNCATED && rc != EA_ECORRUPT && rc != 0)
                return rc;
        }
        at += got & ~(size_t)7;
        if (got < sizeof window)
            return 0;
    }
}

int ec_segment_read(ec_segment *s, uint64_t offset, uint64_t data_bytes, uint8_t **data, size_t *capacity,
                    ea_err *err) {
    uint8_t header[EC_RECORD_HEADER_BYTES];
    size_t got = 0;
    if (data_bytes == 0 || data_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": the index names %" PRIu64 " bytes", s->path,
                       offset, data_bytes);
    int rc = ea_file_read_at(s->file, offset, header, sizeof header, &got, err);
    if (rc)
        return rc;
    uint32_t header_bytes = got < sizeof header ? 0 : ea_load32(header + 4);
    if (header_bytes && ea_load32(header) == ERASED_MAGIC)
        return ea_fail(err, EA_ENOTFOUND, "segment %s at offset %" PRIu64 ": the batch was deleted", s->path, offset);
    if (got < sizeof header || ea_load32(header) != RECORD_MAGIC || header_bytes < EC_RECORD_HEADER_BYTES ||
        header_bytes > EC_RECORD_HEADER_BYTES + EC_AGENT_BYTES + 1 || ea_load64(header + 8) != data_bytes)
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": expected a record", s->path, offset);
    rc = segment_reserve(data, capacity, (size_t)data_bytes, err);
    if (!rc)
        rc = ea_file_read_at(s->file, offset + header_bytes, *data, (size_t)data_bytes, &got, err);
    if (rc)
        return rc;
    if (got < data_bytes || ea_hash64(*data, got, 0) != ea_load64(header + 24))
        return ea_fail(err, EA_ECORRUPT, "segment %s at offset %" PRIu64 ": the data is damaged", s->path, offset);
    return 0;
}

typedef struct {
    int (*fn)(uint64_t number, void *arg);
    void *arg;
} each;

static int each_name(const char *name, int is_dir, void *arg) {
    each *e = arg;
    uint8_t number[8];
    size_t n;
    char hex[17];
    if (is_dir || strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
        return 0;
    memcpy(hex, name, 16);
    hex[16] = 0;
    if (ea_hex_parse(hex, number, sizeof number, &n) || n != 8)
        return 0;
    uint64_t v = 0;
    for (size_t i = 0; i < 8; i++)
        v = v << 8 | number[i];
    return e->fn(v, e->arg);
}

int ec_segment_each(const char *dir, int (*fn)(uint64_t number, void *arg), void *arg, ea_err *err) {
    each e = {fn, arg};
    return ea_path_list(dir, each_name, &e, err);
}
