/* Class descriptions beside the spool. See descriptions.h. */
#include "descriptions.h"
#include "map.h"
#include "platform.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 12, LENGTH_MASK = 0xFFFFFF };
#define SEED 0x736c63u

typedef struct place {
    ea_class_hash hash;
    enum ea_definition_kind kind;
    uint64_t offset; /* of the bytes */
    uint32_t len_bytes;
} place;

struct ea_descriptions {
    ea_mutex *lock;
    ea_file *file;
    uint64_t end;         /* of the good part of the file */
    ea_bytes_map by_hash; /* ea_class_hash -> place */
    int unsynced;
};

static int remember(ea_descriptions *d, const ea_class_hash *hash, enum ea_definition_kind kind, uint64_t offset,
                    uint32_t len_bytes, ea_err *err) {
    place *p = malloc(sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "keep a definition");
    *p = (place){*hash, kind, offset, len_bytes};
    int rc = ea_bytes_map_put(&d->by_hash, p->hash.bytes, sizeof p->hash.bytes, p);
    if (rc) {
        free(p);
        return ea_fail(err, rc, "keep a definition");
    }
    return 0;
}

static int load(ea_descriptions *d, const char *path, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0, at = 0;
    int rc = ea_path_read_all(path, EA_DESCRIPTIONS_MAX_BYTES, &data, &len_bytes, err);
    while (!rc && len_bytes - at >= HEAD_BYTES) {
        const uint8_t *p = (const uint8_t *)data + at;
        uint32_t word = ea_load32(p), n = word & LENGTH_MASK;
        enum ea_definition_kind kind = word >> 24 ? (enum ea_definition_kind)(word >> 24) : EA_DEFINES_CLASS;
        ea_class_hash hash;
        if (n == 0 || n > len_bytes - at - HEAD_BYTES || ea_load64(p + 4) != ea_hash64(p + HEAD_BYTES, n, SEED))
            break;
        rc = ea_definition_hash(p + HEAD_BYTES, n, hash.bytes, err);
        if (!rc && !ea_bytes_map_get(&d->by_hash, hash.bytes, sizeof hash.bytes))
            rc = remember(d, &hash, kind, at + HEAD_BYTES, n, err);
        at += HEAD_BYTES + (size_t)n;
    }
    free(data);
    d->end = at;
    return rc;
}

int ea_descriptions_open(ea_descriptions **ret, const char *path, int empty, ea_err *err) {
    ea_descriptions *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    ea_bytes_map_init(&d->by_hash, EA_DESCRIPTIONS_MAX);
    int rc = ea_mutex_create(&d->lock, err);
    if (!rc)
        rc = ea_file_open(&d->file, path, empty ? EA_OPEN_CREATE : EA_OPEN_APPEND, err);
    if (!rc && !empty)
        rc = load(d, path, err);
    if (!rc)
        rc = ea_file_truncate(d->file, d->end, err);
    if (rc) {
        ea_descriptions_close(d);
        return rc;
    }
    *ret = d;
    return 0;
}

void ea_descriptions_close(ea_descriptions *d) {
    if (!d)
        return;
    size_t cursor = 0, len_bytes;
    const void *key;
    void *value;
    while (ea_bytes_map_next(&d->by_hash, &cursor, &key, &len_bytes, &value))
        free(value);
    ea_bytes_map_deinit(&d->by_hash);
    ea_file_close(d->file);
    ea_mutex_destroy(d->lock);
    free(d);
}

typedef struct adding {
    ea_descriptions *d;
    size_t added;
    ea_err *err;
} adding;

static int add_one(enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes, void *arg) {
    adding *a = arg;
    ea_descriptions *d = a->d;
    ea_class_hash hash;
    uint8_t head[HEAD_BYTES];
    int rc = ea_definition_hash(data, len_bytes, hash.bytes, a->err);
    if (rc || ea_bytes_map_get(&d->by_hash, hash.bytes, sizeof hash.bytes))
        return rc;
    if (len_bytes == 0 || len_bytes > LENGTH_MASK || d->by_hash.count >= EA_DESCRIPTIONS_MAX ||
        len_bytes + HEAD_BYTES > EA_DESCRIPTIONS_MAX_BYTES - d->end)
        return 0;
    ea_store32(head, (uint32_t)len_bytes | (kind == EA_DEFINES_CLASS ? 0 : (uint32_t)kind << 24));
    ea_store64(head + 4, ea_hash64(data, len_bytes, SEED));
    rc = ea_file_write_at(d->file, d->end, head, sizeof head, a->err);
    if (!rc)
        rc = ea_file_write_at(d->file, d->end + HEAD_BYTES, data, len_bytes, a->err);
    if (!rc)
        rc = remember(d, &hash, kind, d->end + HEAD_BYTES, (uint32_t)len_bytes, a->err);
    if (!rc) {
        d->end += HEAD_BYTES + len_bytes;
        d->unsynced = 1;
        a->added++;
    }
    return rc;
}

int ea_descriptions_add_batch(ea_descriptions *d, const uint8_t *batch, size_t len_bytes, size_t *ret_added,
                              ea_err *err) {
    adding a = {d, 0, err};
    ea_mutex_lock(d->lock);
    int rc = ea_batch_each_definition(batch, len_bytes, add_one, &a, err);
    ea_mutex_unlock(d->lock);
    if (!rc)
        *ret_added = a.added;
    return rc;
}

int ea_descriptions_sync(ea_descriptions *d, ea_err *err) {
    ea_mutex_lock(d->lock);
    int needed = d->unsynced;
    d->unsynced = 0;
    ea_mutex_unlock(d->lock);
    return needed ? ea_file_sync(d->file, err) : 0;
}

/* The next place whose hash begins so, behind *cursor: 1 and a copy of it. */
static int next_place(ea_descriptions *d, const ea_hash_ref *ref, size_t *cursor, place *ret) {
    const void *key;
    size_t key_bytes;
    void *value;
    int found = 0;
    ea_mutex_lock(d->lock);
    while (!found && ea_bytes_map_next(&d->by_hash, cursor, &key, &key_bytes, &value))
        found = memcmp(key, ref->bytes, ref->len_bytes) == 0;
    if (found)
        *ret = *(const place *)value;
    ea_mutex_unlock(d->lock);
    return found;
}

/* The bytes at a place; the caller frees them. */
static int read_place(ea_descriptions *d, const place *p, uint8_t **ret, ea_err *err) {
    size_t got = 0;
    uint8_t *data = malloc(p->len_bytes);
    if (!data)
        return ea_fail(err, EA_ENOMEM, "read a definition");
    int rc = ea_file_read_at(d->file, p->offset, data, p->len_bytes, &got, err);
    if (!rc && got != p->len_bytes)
        rc = ea_fail(err, EA_ETRUNCATED, "read a definition");
    if (rc) {
        free(data);
        return rc;
    }
    *ret = data;
    return 0;
}

int ea_descriptions_append(ea_descriptions *d, const ea_hash_ref *ref, ea_text *batch, ea_err *err) {
    size_t cursor = 0;
    place p;
    int found = 0;
    while (next_place(d, ref, &cursor, &p)) {
        uint8_t *data;
        int rc = read_place(d, &p, &data, err);
        if (rc)
            return rc;
        ea_batch_add_definition(batch, p.kind, data, p.len_bytes);
        free(data);
        found = 1;
    }
    return found;
}

typedef struct finding {
    ea_descriptions *d;
    uint8_t *data; /* of the latest */
} finding;

static int find(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                size_t *ret_len_bytes, ea_err *err) {
    finding *f = arg;
    size_t cursor = 0;
    place p;
    while (next_place(f->d, ref, &cursor, &p)) {
        if (p.kind != kind)
            continue;
        free(f->data);
        f->data = NULL;
        int rc = read_place(f->d, &p, &f->data, err);
        if (rc)
            return rc;
        *ret_data = f->data;
        *ret_len_bytes = p.len_bytes;
        return 1;
    }
    return 0;
}

int ea_descriptions_complete(ea_descriptions *d, const uint8_t *batch, size_t len_bytes, ea_text *out, ea_err *err) {
    finding f = {.d = d};
    ea_definitions known = {.arg = &f, .find = find};
    int rc = ea_batch_complete(batch, len_bytes, &known, out, err);
    free(f.data);
    return rc;
}
