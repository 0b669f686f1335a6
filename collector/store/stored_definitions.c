/* What batches name by hash, looked up among what streams defined. Called by: append.c and store_read.c, which give
 * batches that stand for themselves further. See store_parts.h. */
#include "collector/store/store_parts.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

int ec_store_note_missing(ec_store *s, const ea_hash_ref *ref, ea_err *err) {
    if (EA_GROW(s->notes.missing, s->missing_capacity, s->notes.missing_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "index a batch");
    s->notes.missing[s->notes.missing_count++] = *ref;
    return 0;
}

uint64_t ec_store_use_through(uint64_t number) {
    return number | (EC_USES_A_STEP - 1); /* numbers are below 2^63 - 1 */
}

int ec_store_use_definition(ec_store *s, int64_t stream_id, int64_t definition_id, uint64_t added_bytes, ea_err *err) {
    int64_t through = (int64_t)ec_store_use_through(s->head.number);
    int rc = ec_db_run(
        s, ec_db_bind(s, EC_ST_USE_DEFINITION, "iiii", stream_id, definition_id, through, (int64_t)added_bytes),
        "note a definition's use", err);
    if (!rc && added_bytes)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_STREAM_BYTES, "ii", stream_id, (int64_t)added_bytes),
                       "note a definition's size", err);
    return rc;
}

typedef struct cached {
    uint8_t key[8 + 1 + 1 + EA_CLASS_HASH_BYTES]; /* stream, kind, the reference */
    size_t len_bytes;
    uint8_t data[];
} cached;

void ec_store_empty_cache(ec_store *s) {
    size_t cursor = 0, key_bytes;
    const void *key;
    void *value;
    while (ea_bytes_map_next(&s->cache, &cursor, &key, &key_bytes, &value))
        free(value);
    ea_bytes_map_clear(&s->cache);
    s->cached_bytes = 0;
}

static void stored_definitions_remember(ec_store *s, const uint8_t *key, const void *data, size_t len_bytes) {
    enum { CACHE_BYTES = 16 << 20 };

    if (s->cache.count == EC_CACHED_DEFINITIONS || s->cached_bytes + len_bytes > CACHE_BYTES)
        ec_store_empty_cache(s);
    cached *c = malloc(sizeof *c + len_bytes);
    if (!c)
        return;
    memcpy(c->key, key, sizeof c->key);
    c->len_bytes = len_bytes;
    if (len_bytes)
        memcpy(c->data, data, len_bytes);
    if (ea_bytes_map_put(&s->cache, c->key, sizeof c->key, c))
        free(c);
    else
        s->cached_bytes += len_bytes;
}

typedef struct naming {
    ec_store *s;
    int64_t stream_id;
    ea_err *err;
    int rc;
} naming;

static int find_definition(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                           size_t *ret_len_bytes, ea_err *err) {
    const naming *n = arg;
    ec_store *s = n->s;
    uint8_t key[sizeof(((cached *)NULL)->key)], to[EA_CLASS_HASH_BYTES];
    ea_store64(key, (uint64_t)n->stream_id);
    key[8] = (uint8_t)kind;
    key[9] = ref->len_bytes;
    memcpy(key + 10, ref->bytes, sizeof ref->bytes);
    /* inside a group nothing is remembered: it may be taken back */
    const cached *c = s->in_group ? NULL : ea_bytes_map_get(&s->cache, key, sizeof key);
    if (c) {
        *ret_data = c->data;
        *ret_len_bytes = c->len_bytes;
        return 1;
    }
    memset(to, 0xFF, sizeof to);
    memcpy(to, ref->bytes, ref->len_bytes);
    sqlite3_stmt *st =
        ec_db_bind(s, s->in_group ? EC_ST_USED_DEFINITION : EC_ST_STREAM_DEFINITION, "ibbi", n->stream_id,
                   (const void *)ref->bytes, (size_t)ref->len_bytes, (const void *)to, sizeof to, (int64_t)kind);
    int64_t definition_id = 0;
    int rc = ec_db_row(s, st, "look a definition up", err), count = 0, is_noted = 1;
    for (; rc == 1; rc = ec_db_row(s, st, "look a definition up", err)) {
        const void *data = sqlite3_column_blob(st, 0);
        ea_text_clear(&s->definition);
        ea_text_add(&s->definition, data ? data : "", (size_t)sqlite3_column_bytes(st, 0));
        if (s->in_group) { /* the batch at hand is being stored */
            definition_id = sqlite3_column_int64(st, 1);
            is_noted =
                sqlite3_column_type(st, 2) != SQLITE_NULL && (uint64_t)sqlite3_column_int64(st, 2) >= s->head.number;
        }
        count++;
    }
    if (rc < 0 || count != 1) /* of two that begin alike neither is meant for sure */
        return rc;
    if (!is_noted && (rc = ec_store_use_definition(s, n->stream_id, definition_id, 0, err)) != 0)
        return rc;
    if (s->definition.failed)
        return ea_fail(err, EA_ENOMEM, "look a definition up");
    if (!s->in_group)
        stored_definitions_remember(s, key, s->definition.data, s->definition.len_bytes);
    *ret_data = (const uint8_t *)s->definition.data;
    *ret_len_bytes = s->definition.len_bytes;
    return 1;
}

static void on_missing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref) {
    naming *n = arg;
    (void)kind;
    if (!n->rc)
        n->rc = ec_store_note_missing(n->s, ref, n->err);
}

int ec_store_complete(ec_store *s, int64_t stream_id, const uint8_t **batch, size_t *len_bytes, ea_err *err) {
    naming n = {.s = s, .stream_id = stream_id, .err = err};
    ea_definitions known = {.arg = &n, .find = find_definition, .on_missing = on_missing};
    int rc = ea_batch_complete(*batch, *len_bytes, &known, &s->completed, err);
    if (n.rc)
        return n.rc;
    if (rc == 1) {
        *batch = (const uint8_t *)s->completed.data;
        *len_bytes = s->completed.len_bytes;
    }
    return rc < 0 ? rc : 0;
}

int ec_store_complete_batch(ec_store *s, int64_t stream_id, ea_err *err) {
    naming n = {.s = s, .stream_id = stream_id, .err = err};
    ea_definitions known = {.arg = &n, .find = find_definition, .on_missing = on_missing};
    int rc = ea_batch_complete_parsed(s->batch, &known, &s->completed, err);
    return n.rc ? n.rc : rc;
}
