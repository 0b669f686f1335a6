/* The definitions in the spool's folder. See descriptions.h. */
#include "service/spool/descriptions.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD_BYTES = 12,
    LENGTH_MASK = 0xFFFFFF,
    SEALED = 0x80, /* with the kind */
    BEFORE_BYTES = EA_SPOOL_KEY_ID_BYTES + EA_SPOOL_SALT_BYTES,
    SEAL_BYTES = BEFORE_BYTES + EA_SPOOL_TAG_BYTES,
};

#define SEED 0x736c63u

typedef struct place {
    ea_class_hash hash;
    enum ea_definition_kind kind;
    uint64_t offset; /* of the bytes on disk */
    uint32_t len_bytes;
    uint32_t word; /* before them */
} place;

struct ea_descriptions {
    ea_mutex *lock;
    ea_file *file;
    const ea_spool_keys *keys;
    uint64_t end;         /* of the good part of the file */
    ea_bytes_map by_hash; /* ea_class_hash -> place */
    int unsynced;
};

static uint32_t stored_bytes(uint32_t word) {
    return word & LENGTH_MASK;
}

static int is_sealed(uint32_t word) {
    return (word >> 24 & SEALED) != 0;
}

static enum ea_definition_kind descriptions_kind_of(uint32_t word) {
    uint32_t kind = word >> 24 & ~(uint32_t)SEALED;
    return kind ? (enum ea_definition_kind)kind : EA_DEFINES_CLASS;
}

static int sealing_key(ea_sealing_key *ret, const ea_spool_keys *keys, const uint8_t *before, ea_err *err) {
    return ea_sealing_key_derive(ret, keys, before, "etwagent spool definition", before + EA_SPOOL_KEY_ID_BYTES,
                                 EA_SPOOL_SALT_BYTES, err);
}

/* Decrypts a stored definition: data is the record's content on disk, word its length and kind. The caller frees *ret.
 * EA_ENOTFOUND without its key, EA_ECORRUPT. */
static int open_stored(const ea_descriptions *d, uint32_t word, const uint8_t *data, uint8_t **ret,
                       size_t *ret_len_bytes, ea_err *err) {
    size_t n = stored_bytes(word);
    uint8_t *out = malloc(n), bytes[4];
    ea_sealing_key key;
    int rc = out ? 0 : ea_fail(err, EA_ENOMEM, "read a definition");
    if (!rc && !is_sealed(word)) {
        memcpy(out, data, n);
    } else if (!rc) {
        ea_store32(bytes, word);
        rc = n > SEAL_BYTES ? sealing_key(&key, d->keys, data, err) : ea_fail(err, EA_ECORRUPT, "read a definition");
        if (!rc)
            rc = ea_unseal(&key, 0, bytes, sizeof bytes, data + BEFORE_BYTES, n - BEFORE_BYTES, out, err);
        n -= SEAL_BYTES;
    }
    if (rc) {
        free(out);
        return rc;
    }
    *ret = out;
    *ret_len_bytes = n;
    return 0;
}

static int descriptions_remember(ea_descriptions *d, const ea_class_hash *hash, uint32_t word, uint64_t offset,
                                 ea_err *err) {
    place *p = malloc(sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "keep a definition");
    *p = (place){*hash, descriptions_kind_of(word), offset, stored_bytes(word), word};
    int rc = ea_bytes_map_put(&d->by_hash, p->hash.bytes, sizeof p->hash.bytes, p);
    if (rc) {
        free(p);
        return ea_fail(err, rc, "keep a definition");
    }
    return 0;
}

static int descriptions_load(ea_descriptions *d, const char *path, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0, at = 0;
    int rc = ea_path_read_all(path, EA_DESCRIPTIONS_MAX_BYTES, &data, &len_bytes, err);
    while (!rc && len_bytes - at >= HEAD_BYTES) {
        const uint8_t *p = (const uint8_t *)data + at;
        uint32_t word = ea_load32(p), n = stored_bytes(word);
        ea_class_hash hash;
        uint8_t *plain = NULL;
        size_t plain_bytes = 0;
        if (n == 0 || n > len_bytes - at - HEAD_BYTES || ea_load64(p + 4) != ea_hash64(p + HEAD_BYTES, n, SEED))
            break;
        rc = open_stored(d, word, p + HEAD_BYTES, &plain, &plain_bytes, err);
        if (rc == EA_ENOTFOUND || rc == EA_ECORRUPT) {
            rc = 0; /* as if it were not here */
        } else if (!rc) {
            rc = ea_definition_hash(plain, plain_bytes, hash.bytes, err);
            if (!rc && !ea_bytes_map_get(&d->by_hash, hash.bytes, sizeof hash.bytes))
                rc = descriptions_remember(d, &hash, word, at + HEAD_BYTES, err);
            free(plain);
        }
        at += HEAD_BYTES + (size_t)n;
    }
    free(data);
    d->end = at;
    return rc;
}

int ea_descriptions_open(ea_descriptions **ret, const char *path, int empty, const ea_spool_keys *keys, ea_err *err) {
    ea_descriptions *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    d->keys = keys;
    ea_bytes_map_init(&d->by_hash, EA_DESCRIPTIONS_MAX);
    int rc = ea_mutex_create(&d->lock, err);
    if (!rc)
        rc = ea_file_open(&d->file, path, empty ? EA_OPEN_CREATE : EA_OPEN_APPEND, err);
    if (!rc && !empty)
        rc = descriptions_load(d, path, err);
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

/* The bytes that go to disk, in memory that the caller frees. */
static int descriptions_seal(const ea_descriptions *d, uint32_t word, const uint8_t *data, size_t len_bytes,
                             uint8_t **ret, ea_err *err) {
    uint8_t bytes[4], *out = malloc(len_bytes + SEAL_BYTES);
    ea_sealing_key key;
    if (!out)
        return ea_fail(err, EA_ENOMEM, "keep a definition");
    ea_store32(bytes, word);
    memcpy(out, ea_spool_keys_newest(d->keys), EA_SPOOL_KEY_ID_BYTES);
    int rc = ea_random_bytes(out + EA_SPOOL_KEY_ID_BYTES, EA_SPOOL_SALT_BYTES, err);
    if (!rc)
        rc = sealing_key(&key, d->keys, out, err);
    if (!rc)
        rc = ea_seal(&key, 0, bytes, sizeof bytes, data, len_bytes, out + BEFORE_BYTES, err);
    if (rc) {
        free(out);
        return rc;
    }
    *ret = out;
    return 0;
}

static int add_one(enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes, void *arg) {
    adding *a = arg;
    ea_descriptions *d = a->d;
    ea_class_hash hash;
    uint8_t head[HEAD_BYTES], *sealed = NULL;
    size_t n = len_bytes + (d->keys ? SEAL_BYTES : 0);
    int rc = ea_definition_hash(data, len_bytes, hash.bytes, a->err);
    if (rc || ea_bytes_map_get(&d->by_hash, hash.bytes, sizeof hash.bytes))
        return rc;
    if (len_bytes == 0 || n > LENGTH_MASK || d->by_hash.count >= EA_DESCRIPTIONS_MAX ||
        n + HEAD_BYTES > EA_DESCRIPTIONS_MAX_BYTES - d->end)
        return 0;
    uint32_t word =
        (uint32_t)n | (kind == EA_DEFINES_CLASS ? 0 : (uint32_t)kind << 24) | (d->keys ? (uint32_t)SEALED << 24 : 0);
    if (d->keys) {
        rc = descriptions_seal(d, word, data, len_bytes, &sealed, a->err);
        data = sealed;
    }
    if (rc)
        return rc;
    ea_store32(head, word);
    ea_store64(head + 4, ea_hash64(data, n, SEED));
    rc = ea_file_write_at(d->file, d->end, head, sizeof head, a->err);
    if (!rc)
        rc = ea_file_write_at(d->file, d->end + HEAD_BYTES, data, n, a->err);
    if (!rc)
        rc = descriptions_remember(d, &hash, word, d->end + HEAD_BYTES, a->err);
    if (!rc) {
        d->end += HEAD_BYTES + n;
        d->unsynced = 1;
        a->added++;
    }
    free(sealed);
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

/* Finds the next place after *cursor whose hash begins with ref: 1 and a copy of it. */
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

/* The definition at a place; the caller frees it. */
static int descriptions_read_place(ea_descriptions *d, const place *p, uint8_t **ret, size_t *ret_len_bytes,
                                   ea_err *err) {
    size_t got = 0;
    uint8_t *data = malloc(p->len_bytes);
    if (!data)
        return ea_fail(err, EA_ENOMEM, "read a definition");
    int rc = ea_file_read_at(d->file, p->offset, data, p->len_bytes, &got, err);
    if (!rc && got != p->len_bytes)
        rc = ea_fail(err, EA_ETRUNCATED, "read a definition");
    if (!rc)
        rc = open_stored(d, p->word, data, ret, ret_len_bytes, err);
    free(data);
    return rc;
}

int ea_descriptions_append(ea_descriptions *d, const ea_hash_ref *ref, ea_text *batch, ea_err *err) {
    size_t cursor = 0;
    place p;
    int found = 0;
    while (next_place(d, ref, &cursor, &p)) {
        uint8_t *data;
        size_t n;
        int rc = descriptions_read_place(d, &p, &data, &n, err);
        if (rc)
            return rc;
        ea_batch_add_definition(batch, p.kind, data, n);
        free(data);
        found = 1;
    }
    return found;
}
