/* See batch_shortage.h. */
#include "tests/unit/batch_shortage.h"

#include "proto/base/arena.h"
#include "proto/base/platform.h"
#include "proto/wire/definitions.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <zstd.h>

/* ---- allocations, counted: the last one of `left` fails ---- */

static size_t left; /* 0: none fails (any more) */

void shortage_begin(size_t number) {
    left = number;
}

size_t shortage_end(void) {
    size_t was = left;
    left = 0;
    return was;
}

int is_shortage(int rc) {
    return rc == EA_ENOMEM;
}

static int fails(void) {
    return left && --left == 0;
}

#define WRAPPED(type, name, parameters, arguments)                                                                     \
    __typeof__(name) __real_##name, __wrap_##name;                                                                     \
    type __wrap_##name parameters {                                                                                    \
        return fails() ? 0 : __real_##name arguments;                                                                  \
    }
WRAPPED(void *, malloc, (size_t n), (n))
WRAPPED(void *, calloc, (size_t count, size_t n), (count, n))
WRAPPED(void *, realloc, (void *p, size_t n), (p, n))
/* An arena that finds no memory remembers it. Each allocation fails, not only those that need another block. */
#define WRAPPED_ARENA(name, parameters, arguments)                                                                     \
    __typeof__(name) __real_##name, __wrap_##name;                                                                     \
    void *__wrap_##name parameters {                                                                                   \
        if (!fails())                                                                                                  \
            return __real_##name arguments;                                                                            \
        a->is_out_of_memory = 1;                                                                                       \
        return NULL;                                                                                                   \
    }
WRAPPED_ARENA(ea_arena_alloc, (ea_arena * a, size_t n), (a, n))
WRAPPED_ARENA(ea_arena_zalloc, (ea_arena * a, size_t count, size_t n), (a, count, n))
WRAPPED_ARENA(ea_arena_copy, (ea_arena * a, const void *data, size_t n), (a, data, n))
WRAPPED(ZSTD_DCtx *, ZSTD_createDCtx, (void), ())
WRAPPED(int, EVP_Digest,
        (const void *data, size_t n, unsigned char *out, unsigned *out_bytes, const EVP_MD *kind, ENGINE *engine),
        (data, n, out, out_bytes, kind, engine))

/* ---- reading, until something fails ---- */

static int on_description(const uint8_t *data, size_t len_bytes, void *arg) {
    (void)data, (void)len_bytes, (void)arg;
    return 0;
}

static int on_definition(enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes, void *arg) {
    (void)kind, (void)data, (void)len_bytes, (void)arg;
    return 0;
}

static int on_tombstone(const ea_tombstone *t, void *arg) {
    (void)t, (void)arg;
    return 0;
}

static int on_count(const ea_ledger_count *c, void *arg) {
    (void)c, (void)arg;
    return 0;
}

static int find_nothing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                        size_t *ret_len_bytes, ea_err *err) {
    (void)arg, (void)kind, (void)ref, (void)ret_data, (void)ret_len_bytes, (void)err;
    return 0;
}

static int read_group(ea_batch_view *v, size_t k, ea_err *err) {
    const uint32_t *rows;
    uint16_t type;
    ea_column column;
    const ea_class *c = ea_batch_group_class(v, k);
    int rc = ea_batch_group_rows(v, k, &rows, err);
    for (size_t i = 0; rc >= 0 && i < ea_batch_group_constants(v, k)->ext_count; i++)
        rc = ea_batch_item(v, k, i, &type, &column, err);
    if (rc >= 0)
        rc = ea_batch_activities(v, k, &column, err);
    for (size_t f = 0; rc >= 0 && f < c->top_count; f++)
        rc = ea_batch_dictionary(v, k, f, &column, &rows, err);
    for (size_t f = 0; rc >= 0 && f < c->top_count; f++)
        rc = ea_batch_column(v, k, f, &column, err);
    return rc >= 0 ? ea_batch_payloads(v, k, &column, err) : rc;
}

static int read_view(ea_batch_view *v, int columns_first, ea_err *err) {
    const ea_record *r;
    const ea_class *c;
    const uint32_t *pids;
    const uint64_t *numbers;
    uint64_t first;
    size_t count;
    const ea_batch_events *events;
    int rc = 0;
    for (int turn = 0; rc >= 0 && turn < 2; turn++) {
        if (turn == !columns_first) {
            rc = ea_batch_pids(v, &pids, &count, err);
            if (rc >= 0)
                rc = ea_batch_sequence(v, &numbers, &first, err);
            if (rc >= 0)
                rc = ea_batch_get_events(v, &events, err);
            for (size_t k = 0; rc >= 0 && k < ea_batch_group_count(v); k++)
                rc = read_group(v, k, err);
        } else {
            while ((rc = ea_batch_next(v, &r, &c, err)) > 0)
                ;
        }
    }
    return rc < 0 ? rc : ea_batch_verify(v, err);
}

static int read_small(const uint8_t *data, size_t len_bytes, ea_text *out, ea_err *err) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "renamed";
    ea_batch_head head;
    int rc = ea_batch_read_head(data, len_bytes, &head, err);
    if (!rc)
        rc = ea_batch_each_description(data, len_bytes, on_description, NULL, err);
    if (!rc)
        rc = ea_batch_each_definition(data, len_bytes, on_definition, NULL, err);
    if (!rc)
        rc = ea_batch_each_tombstone(data, len_bytes, on_tombstone, NULL, err);
    if (!rc)
        rc = ea_batch_each_count(data, len_bytes, on_count, NULL, err);
    return rc ? rc : ea_batch_rename(data, len_bytes, STREAM, 7, out, err);
}

/* What a batch of few definitions needs besides: nothing is kept anywhere. */
static int complete(const uint8_t *data, size_t len_bytes, ea_text *out, ea_err *err) {
    int rc = ea_batch_complete(data, len_bytes, &(ea_definitions){.find = find_nothing}, out, err);
    return rc < 0 && rc != EA_ENOTFOUND ? rc : 0;
}

int shortage_read_batch(const uint8_t *data, size_t len_bytes, ea_registry *registry, int columns_first, ea_err *err) {
    ea_batch_view *v = NULL;
    ea_text out;
    ea_text_init(&out);
    int rc = read_small(data, len_bytes, &out, err);
    if (!rc)
        rc = complete(data, len_bytes, &out, err);
    if (!rc)
        rc = ea_batch_open(&v, data, len_bytes, registry, err);
    if (!rc)
        rc = read_view(v, columns_first, err);
    ea_batch_close(v);
    ea_text_deinit(&out);
    return rc;
}
