/* A file of batches. See batch_file.h. */
#include "proto/wire/batch_file.h"
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 8, FRAME_BYTES = 4, END_BYTES = 16 };

static const char FIRST[] = "EABATCH1";

static int batch_file_put(ea_batch_file_writer *w, const void *data, size_t len_bytes, ea_err *err) {
    int rc = ea_file_write_at(w->file, w->at, data, len_bytes, err);
    w->at += len_bytes;
    return rc;
}

int ea_batch_file_begin(ea_batch_file_writer *w, ea_file *file, ea_err *err) {
    *w = (ea_batch_file_writer){.file = file};
    return batch_file_put(w, FIRST, FIRST_BYTES, err);
}

int ea_batch_file_add(ea_batch_file_writer *w, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    uint8_t frame[FRAME_BYTES];
    if (!len_bytes || len_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_EINVAL, "write a batch of %zu bytes", len_bytes);
    ea_store32(frame, (uint32_t)len_bytes);
    int rc = batch_file_put(w, frame, sizeof frame, err);
    if (!rc)
        rc = batch_file_put(w, batch, len_bytes, err);
    w->count++;
    w->sum = ea_hash64(batch, len_bytes, w->sum);
    return rc;
}

int ea_batch_file_end(ea_batch_file_writer *w, ea_err *err) {
    uint8_t end[FRAME_BYTES + END_BYTES] = {0};
    ea_store64(end + FRAME_BYTES, w->count);
    ea_store64(end + FRAME_BYTES + 8, w->sum);
    int rc = batch_file_put(w, end, sizeof end, err);
    return rc ? rc : ea_file_sync(w->file, err);
}

int ea_path_is_batch_file(const char *path) {
    ea_file *file;
    uint8_t first[FIRST_BYTES];
    size_t got = 0;
    if (ea_file_open(&file, path, EA_OPEN_READ, NULL))
        return 0;
    int rc = ea_file_read_at(file, 0, first, sizeof first, &got, NULL);
    ea_file_close(file);
    return !rc && got == sizeof first && memcmp(first, FIRST, FIRST_BYTES) == 0;
}

typedef struct reader {
    const char *path;
    ea_file *file;
    uint64_t at;
    ea_err *err;
} reader;

static int batch_file_get(reader *r, void *out, size_t len_bytes) {
    size_t got = 0;
    int rc = ea_file_read_at(r->file, r->at, out, len_bytes, &got, r->err);
    if (!rc && got != len_bytes)
        rc = ea_fail(r->err, EA_ETRUNCATED, "read %s: it ends at offset %" PRIu64 ", in the middle", r->path,
                     r->at + got);
    r->at += got;
    return rc;
}

static int check_end(reader *r, uint64_t count, uint64_t sum) {
    uint8_t end[END_BYTES];
    int rc = batch_file_get(r, end, sizeof end);
    if (!rc && (ea_load64(end) != count || ea_load64(end + 8) != sum))
        rc = ea_fail(r->err, EA_ECORRUPT, "read %s: it was changed or damaged: its end does not fit its batches",
                     r->path);
    return rc;
}

/* The next batch, or 0 bytes at the end. */
static int batch_file_next(reader *r, uint8_t **buffer, size_t *capacity, uint32_t *ret_bytes) {
    uint8_t frame[FRAME_BYTES];
    int rc = batch_file_get(r, frame, sizeof frame);
    if (rc)
        return rc;
    uint32_t n = ea_load32(frame);
    if (n > EA_BATCH_MAX_BYTES)
        return ea_fail(r->err, EA_ECORRUPT, "read %s: a batch of %" PRIu32 " bytes at offset %" PRIu64, r->path, n,
                       r->at - FRAME_BYTES);
    uint64_t size = 0;
    rc = ea_file_size(r->file, &size, r->err); /* before the memory is taken */
    if (!rc && (size < r->at || size - r->at < n))
        rc = ea_fail(r->err, EA_ETRUNCATED, "read %s: it ends at offset %" PRIu64 ", in the middle", r->path, size);
    if (!rc && n > *capacity) {
        uint8_t *grown = realloc(*buffer, n);
        if (!grown)
            return ea_fail(r->err, EA_ENOMEM, "read %s", r->path);
        *buffer = grown;
        *capacity = n;
    }
    if (!rc && n)
        rc = batch_file_get(r, *buffer, n);
    if (!rc)
        *ret_bytes = n;
    return rc;
}

int ea_batch_file_each(const char *path, int (*fn)(const uint8_t *batch, size_t len_bytes, void *arg), void *arg,
                       ea_err *err) {
    reader r = {.path = path, .err = err};
    uint8_t first[FIRST_BYTES], *buffer = NULL;
    uint64_t count = 0, sum = 0;
    size_t capacity = 0;
    uint32_t n = 0;
    int rc = ea_file_open(&r.file, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = batch_file_get(&r, first, sizeof first);
    if (rc == EA_ETRUNCATED || (!rc && memcmp(first, FIRST, FIRST_BYTES) != 0))
        rc = ea_fail(err, EA_EFORMAT, "read %s: it is no file of batches of this version", path);
    while (!rc && !(rc = batch_file_next(&r, &buffer, &capacity, &n)) && n) {
        count++;
        sum = ea_hash64(buffer, n, sum);
        rc = fn(buffer, n, arg);
    }
    if (!rc)
        rc = check_end(&r, count, sum);
    free(buffer);
    ea_file_close(r.file);
    return rc;
}
