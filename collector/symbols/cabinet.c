/* Cabinets. See cabinet.h. */
#include "collector/symbols/cabinet.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* inputs stay unchanged */
#include <zlib.h>

enum {
    HEADER_BYTES = 36,
    FOLDER_BYTES = 8,
    FILE_BYTES = 16,
    BLOCK_HEAD_BYTES = 8,
    BLOCK_MAX = 32768,     /* of a block, uncompressed */
    CABINET_MAX = 1 << 30, /* a compressed file that is read at once */
    HAS_PREVIOUS = 1,
    HAS_NEXT = 2,
    HAS_RESERVE = 4,
};

enum { STORED = 0, MSZIP = 1, QUANTUM = 2, LZX = 3 };

typedef struct cabinet {
    const char *name;
    const uint8_t *data;
    size_t len_bytes;
    size_t reserve_block_bytes; /* in each block's head */
    uint32_t blocks_at;
    uint16_t block_count, method;
    uint32_t file_bytes;
} cabinet;

int ec_cabinet_begins(const void *data, size_t len_bytes) {
    return len_bytes >= 4 && memcmp(data, "MSCF", 4) == 0;
}

static int cabinet_cut(const cabinet *c, ea_err *err) {
    return ea_fail(err, EA_ETRUNCATED, "the cabinet %s is cut, or contradicts itself", c->name);
}

static int read_heads(cabinet *c, ea_err *err) {
    static const char *const METHODS[] = {"stored", "MSZIP", "Quantum", "LZX"};
    const uint8_t *d = c->data;
    if (!ec_cabinet_begins(d, c->len_bytes))
        return ea_fail(err, EA_EFORMAT, "%s is no cabinet", c->name);
    if (c->len_bytes < HEADER_BYTES)
        return cabinet_cut(c, err);
    uint16_t flags = ea_load16(d + 30);
    size_t at = HEADER_BYTES, reserve_folder = 0, file_at = ea_load32(d + 16);
    if (flags & HAS_RESERVE) {
        if (c->len_bytes - at < 4)
            return cabinet_cut(c, err);
        reserve_folder = d[at + 2];
        c->reserve_block_bytes = d[at + 3];
        at += 4 + (size_t)ea_load16(d + at);
    }
    if (flags & (HAS_PREVIOUS | HAS_NEXT))
        return ea_fail(err, EA_EUNSUPPORTED, "the cabinet %s is one of several", c->name);
    if (!ea_load16(d + 26) || !ea_load16(d + 28))
        return ea_fail(err, EA_EFORMAT, "the cabinet %s is empty", c->name);
    if (at > c->len_bytes || c->len_bytes - at < FOLDER_BYTES + reserve_folder)
        return cabinet_cut(c, err);
    c->blocks_at = ea_load32(d + at);
    c->block_count = ea_load16(d + at + 4);
    c->method = ea_load16(d + at + 6) & 15;
    if (file_at > c->len_bytes || c->len_bytes - file_at < FILE_BYTES)
        return cabinet_cut(c, err);
    c->file_bytes = ea_load32(d + file_at);
    if (ea_load32(d + file_at + 4) || ea_load16(d + file_at + 8))
        return ea_fail(err, EA_EUNSUPPORTED, "the cabinet %s does not begin with its first file", c->name);
    if (c->method > MSZIP)
        return ea_fail(err, EA_EUNSUPPORTED, "the cabinet %s is compressed as %s; what is read is MSZIP", c->name,
                       c->method <= LZX ? METHODS[c->method] : "something unknown");
    return 0;
}

/* One block of MSZIP: "CK", deflate, with what the block before gave as the dictionary. */
static int inflate_block(z_stream *z, const cabinet *c, const uint8_t *data, size_t len_bytes, uint8_t *out,
                         size_t out_bytes, size_t dictionary_bytes, ea_err *err) {
    uint8_t dictionary[BLOCK_MAX];
    if (len_bytes < 2 || memcmp(data, "CK", 2) != 0)
        return ea_fail(err, EA_ECORRUPT, "the cabinet %s: a block that is no MSZIP", c->name);
    memcpy(dictionary, out, dictionary_bytes);
    if (inflateReset(z) != Z_OK ||
        (dictionary_bytes && inflateSetDictionary(z, dictionary, (uInt)dictionary_bytes) != Z_OK))
        return ea_fail(err, EA_ENOMEM, "read the cabinet %s", c->name);
    z->next_in = data + 2;
    z->avail_in = (uInt)(len_bytes - 2);
    z->next_out = out;
    z->avail_out = (uInt)out_bytes;
    int code = inflate(z, Z_FINISH);
    if (code != Z_STREAM_END || z->avail_out)
        return ea_fail(err, EA_ECORRUPT, "the cabinet %s: a block that does not decompress", c->name);
    return 0;
}

static int extract(z_stream *z, const cabinet *c, int (*put)(void *, const void *, size_t), void *arg, ea_err *err) {
    uint8_t out[BLOCK_MAX];
    size_t at = c->blocks_at, last_bytes = 0;
    uint32_t left = c->file_bytes;
    for (unsigned i = 0; i < c->block_count && left; i++) {
        if (at > c->len_bytes || c->len_bytes - at < BLOCK_HEAD_BYTES + c->reserve_block_bytes)
            return cabinet_cut(c, err);
        size_t packed = ea_load16(c->data + at + 4), plain = ea_load16(c->data + at + 6);
        at += BLOCK_HEAD_BYTES + c->reserve_block_bytes;
        if (packed > c->len_bytes - at || plain > BLOCK_MAX || !plain || (c->method == STORED && plain != packed))
            return cabinet_cut(c, err);
        int rc = 0;
        if (c->method == MSZIP)
            rc = inflate_block(z, c, c->data + at, packed, out, plain, last_bytes, err);
        else
            memcpy(out, c->data + at, plain);
        last_bytes = plain;
        if (plain > left)
            plain = left;
        if (!rc)
            rc = put(arg, out, plain);
        if (rc)
            return rc;
        left -= (uint32_t)plain;
        at += packed;
    }
    return left ? cabinet_cut(c, err) : 0;
}

int ec_cabinet_extract_bytes(const char *name, const uint8_t *data, size_t len_bytes, uint64_t max_bytes,
                             int (*put)(void *arg, const void *data, size_t len_bytes), void *arg, ea_err *err) {
    cabinet c = {.name = name, .data = data, .len_bytes = len_bytes};
    z_stream z = {0};
    int rc = read_heads(&c, err);
    if (rc)
        return rc;
    if (c.file_bytes > max_bytes)
        return ea_fail(err, EA_ELIMIT, "the cabinet %s holds %" PRIu32 " bytes; at most %" PRIu64 " are kept", name,
                       c.file_bytes, max_bytes);
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return ea_fail(err, EA_ENOMEM, "read the cabinet %s", name);
    rc = extract(&z, &c, put, arg, err);
    inflateEnd(&z);
    return rc;
}

typedef struct target {
    ea_file *file;
    uint64_t at;
    ea_err *err;
} target;

static int cabinet_put_file(void *arg, const void *data, size_t len_bytes) {
    target *t = arg;
    int rc = ea_file_write_at(t->file, t->at, data, len_bytes, t->err);
    t->at += len_bytes;
    return rc;
}

int ec_cabinet_extract(const char *path, const char *to, uint64_t max_bytes, ea_err *err) {
    char *data;
    size_t n;
    target t = {.err = err};
    int rc = ea_path_read_all(path, CABINET_MAX, &data, &n, err);
    if (rc)
        return rc;
    rc = ea_file_open(&t.file, to, EA_OPEN_CREATE, err);
    if (!rc)
        rc = ec_cabinet_extract_bytes(path, (const uint8_t *)data, n, max_bytes, cabinet_put_file, &t, err);
    ea_file_close(t.file);
    free(data);
    return rc;
}
