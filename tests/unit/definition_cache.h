/* What a collector keeps of one stream's batches: their definitions, in memory. Input: batches from an encoder. Used
 * by: ea_batch_complete, in tests and benches. Thread: its owner's. */
#ifndef EA_TESTS_UNIT_DEFINITION_CACHE_H
#define EA_TESTS_UNIT_DEFINITION_CACHE_H

#include "proto/wire/wire.h"

#include <stdlib.h>

typedef struct kept_definition {
    enum ea_definition_kind kind;
    uint8_t hash[EA_CLASS_HASH_BYTES];
    uint8_t *data;
    size_t len_bytes;
} kept_definition;

typedef struct definition_cache {
    kept_definition *list;
    size_t count, missing;
    ea_text whole; /* the latest completed batch */
    /* called for each new one: as an acknowledgement would; may be NULL */
    void (*acknowledge)(void *arg, const uint8_t *hash);
    void *arg;
    ea_err *err;
} definition_cache;

static inline int definition_cache_take(enum ea_definition_kind kind, const uint8_t *data, size_t n, void *arg) {
    definition_cache *k = arg;
    kept_definition one = {.kind = kind, .data = malloc(n + !n), .len_bytes = n};
    if (!one.data || ea_definition_hash(data, n, one.hash, k->err))
        abort();
    memcpy(one.data, data, n);
    size_t i = 0;
    while (i < k->count && memcmp(k->list[i].hash, one.hash, sizeof one.hash) != 0)
        i++;
    if (i < k->count) {
        free(one.data);
    } else {
        kept_definition *grown = realloc(k->list, (k->count + 1) * sizeof *grown);
        if (!grown)
            abort();
        k->list = grown;
        k->list[k->count++] = one;
    }
    if (k->acknowledge)
        k->acknowledge(k->arg, one.hash);
    return 0;
}

static inline int definition_cache_find(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref,
                                        const uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    const definition_cache *k = arg;
    (void)err;
    for (size_t i = 0; i < k->count; i++)
        if (k->list[i].kind == kind && memcmp(k->list[i].hash, ref->bytes, ref->len_bytes) == 0) {
            *ret_data = k->list[i].data;
            *ret_len_bytes = k->list[i].len_bytes;
            return 1;
        }
    return 0;
}

static inline void definition_cache_missing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref) {
    (void)kind, (void)ref;
    ((definition_cache *)arg)->missing++;
}

/* The batch, complete; borrowed until the next call. */
static inline int definition_cache_complete(definition_cache *k, const uint8_t **data, size_t *n, ea_err *err) {
    ea_definitions known = {.arg = k, .find = definition_cache_find, .on_missing = definition_cache_missing};
    int rc = ea_batch_complete(*data, *n, &known, &k->whole, err);
    if (rc == 1) {
        *data = (const uint8_t *)k->whole.data;
        *n = k->whole.len_bytes;
    }
    return rc < 0 ? rc : 0;
}

/* Keeps what the batch defines, and completes it. */
static inline int definition_cache_receive(definition_cache *k, const uint8_t **data, size_t *n, ea_err *err) {
    k->err = err;
    int rc = definition_cache_complete(k, data, n, err);
    const uint8_t *whole = *data;
    return rc ? rc : ea_batch_each_definition(whole, *n, definition_cache_take, k, err);
}

static inline void definition_cache_deinit(definition_cache *k) {
    for (size_t i = 0; i < k->count; i++)
        free(k->list[i].data);
    free(k->list);
    ea_text_deinit(&k->whole);
}

#endif
