/* Out-of-memory tests of the readers of batches and answers. Each of their allocations fails once, in every batch of
 * the fuzz corpus. The failure must be reported, must not be reported as damage of the batch, and must not leak memory
 * (checked by the sanitizers' presets). */
#include "collector/store/store.h"
#include "proto/base/arena.h"
#include "proto/base/platform.h"
#include "proto/wire/ack.h"
#include "proto/wire/definitions.h"
#include "proto/wire/wire.h"
#include "tests/unit/scratch.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

/* ---- allocations, counted: the last one of `left` fails ---- */

static size_t left; /* 0: none fails (any more) */

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

typedef struct memory {
    uint8_t *data;
    size_t len_bytes;
} memory;

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

static int read_small(const memory *m, ea_text *out, ea_err *err) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "renamed";
    ea_batch_head head;
    int rc = ea_batch_read_head(m->data, m->len_bytes, &head, err);
    if (!rc)
        rc = ea_batch_each_description(m->data, m->len_bytes, on_description, NULL, err);
    if (!rc)
        rc = ea_batch_each_definition(m->data, m->len_bytes, on_definition, NULL, err);
    if (!rc)
        rc = ea_batch_each_tombstone(m->data, m->len_bytes, on_tombstone, NULL, err);
    if (!rc)
        rc = ea_batch_each_count(m->data, m->len_bytes, on_count, NULL, err);
    return rc ? rc : ea_batch_rename(m->data, m->len_bytes, STREAM, 7, out, err);
}

/* What a batch of few definitions needs besides: nothing is kept anywhere. */
static int complete(const memory *m, ea_text *out, ea_err *err) {
    int rc = ea_batch_complete(m->data, m->len_bytes, &(ea_definitions){.find = find_nothing}, out, err);
    return rc < 0 && rc != EA_ENOTFOUND ? rc : 0;
}

static int read_batch(const memory *m, ea_registry *registry, int columns_first, ea_err *err) {
    ea_batch_view *v = NULL;
    ea_text out;
    ea_text_init(&out);
    int rc = read_small(m, &out, err);
    if (!rc)
        rc = complete(m, &out, err);
    if (!rc)
        rc = ea_batch_open(&v, m->data, m->len_bytes, registry, err);
    if (!rc)
        rc = read_view(v, columns_first, err);
    if (!rc) {
        ea_text_clear(&out);
        rc = ea_batch_make_self_contained(v, "agent", "host", &out, err);
    }
    ea_batch_close(v);
    ea_text_deinit(&out);
    return rc;
}

/* ---- the corpus ---- */

/* What a collector answers with RETRY, and an agent sends again: never a code that says that the batch is bad. */
static int is_shortage(int rc) {
    return rc == EA_ENOMEM || rc == EA_ECRYPTO;
}

static size_t batches, failures;

static int on_file(const char *name, int is_dir, void *arg) {
    char path[4096], *data;
    memory m;
    ea_err err;
    ea_registry *registry, *fresh;
    if (is_dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    assert_int_equal(ea_path_read_all(path, 1 << 20, &data, &m.len_bytes, &err), 0);
    m.data = (uint8_t *)data;
    assert_int_equal(ea_registry_create(&registry, 1000, &err), 0);
    for (int columns_first = 0; columns_first < 2; columns_first++) {
        int whole = read_batch(&m, registry, columns_first, &err);
        for (size_t k = 1;; k++) {
            fresh = registry;
            if (!columns_first) /* this one learns the batch's classes */
                assert_int_equal(ea_registry_create(&fresh, 1000, &err), 0);
            left = k;
            int rc = read_batch(&m, fresh, columns_first, &err);
            int is_over = left > 0;
            left = 0;
            if (fresh != registry)
                ea_registry_destroy(fresh);
            if (is_over) {
                assert_int_equal(rc, whole);
                break;
            }
            if (rc != whole && !is_shortage(rc))
                fail_msg("%s: allocation %zu fails with the wrong message: %s", name, k, err.message);
            failures += rc != whole;
        }
    }
    batches++;
    ea_registry_destroy(registry);
    free(data);
    return 0;
}

static void test_batches(void **state) {
    (void)state;
    ea_err err;
    assert_int_equal(ea_path_list(EA_CORPUS "/batch", on_file, (void *)(uintptr_t)(EA_CORPUS "/batch"), &err), 0);
    assert_true(batches > 20 && failures > 1000);
    print_message("%zu batches, %zu failures\n", batches, failures);
}

/* ---- a store ---- */

enum { SMALL_BYTES = 6400 }; /* each of thousands of appends has the index's work, too */

typedef struct appended {
    ec_store *store;
    uint64_t number; /* of the last batch */
    size_t batches, failures;
} appended;

/* Each allocation of an append fails once: the batch is never refused for good, and is stored in the end. */
static int append_file(const char *name, int is_dir, void *arg) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "appended";
    appended *all = arg;
    char path[4096], *data;
    size_t len_bytes;
    ea_text batch;
    ea_err err;
    if (is_dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", EA_CORPUS "/batch", name);
    assert_int_equal(ea_path_read_all(path, 1 << 20, &data, &len_bytes, &err), 0);
    ea_text_init(&batch);
    size_t k = 0;
    if (len_bytes > SMALL_BYTES) {
        free(data);
        return 0;
    }
    for (int is_over = 0, rc = EC_STORED; !is_over && rc == EC_STORED; k++) {
        ea_text_clear(&batch);
        if (ea_batch_rename((const uint8_t *)data, len_bytes, STREAM, ++all->number, &batch, &err))
            break; /* the corpus has some that are no batches */
        left = k;  /* the first time none: is it a batch that can be stored? */
        rc = ec_store_append(all->store, "agent", (const uint8_t *)batch.data, batch.len_bytes, &err);
        is_over = k && left > 0;
        left = 0;
        if (k && rc != EC_STORED) {
            if (!is_shortage(rc))
                fail_msg("%s: allocation %zu of an append fails with the wrong message: %s", name, k, err.message);
            rc = EC_STORED;                           /* the last turn appends it */
            (void)!ec_store_commit(all->store, &err); /* a group that failed is taken back */
        }
        all->failures += k && !is_over;
        all->batches += !k && rc == EC_STORED;
        if (is_over)
            assert_int_equal(rc, EC_STORED);
    }
    assert_int_equal(ec_store_commit(all->store, &err), 0);
    ea_text_deinit(&batch);
    free(data);
    return 0;
}

static void test_store(void **state) {
    (void)state;
    appended all = {0};
    ea_err err;
    assert_int_equal(ec_store_open(&all.store, scratch_path("store"), &(ec_store_options){.writable = 1}, &err), 0);
    assert_int_equal(ea_path_list(EA_CORPUS "/batch", append_file, &all, &err), 0);
    ec_store_close(all.store);
    print_message("%zu batches, %zu failures\n", all.batches, all.failures);
    assert_true(all.batches > 4 && all.failures > 1000);
}

/* An answer, a tombstone and a source. */
static int read_parts(const ea_text *answer, const ea_text *source, ea_text *out, ea_err *err) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "stream";
    static const ea_tombstone GONE[] = {{.first = 3, .last = 9, .cause = 15, .event_count = 4},
                                        {.first = 11, .last = 11}};
    ea_arena arena;
    ea_ack ack;
    ea_text version, labels;
    ea_arena_init(&arena, 1 << 20);
    ea_text_init(&version);
    ea_text_init(&labels);
    ea_text_clear(out);
    int rc = ea_ack_decode(&ack, &arena, (const uint8_t *)answer->data, answer->len_bytes, err);
    if (!rc)
        rc = ea_source_origin((const uint8_t *)source->data, source->len_bytes, &version, &labels, err);
    if (!rc)
        rc = ea_batch_make_tombstone(STREAM, 9, GONE, 2, out, err);
    ea_arena_deinit(&arena);
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    return rc;
}

static void test_parts(void **state) {
    (void)state;
    const ea_refusal refused = {9, EA_REFUSED_RETRY, "text"};
    const ea_range range = {1, 3};
    const ea_ack sent = {.acknowledged = &range, .acknowledged_count = 1, .refused = &refused, .refused_count = 1};
    ea_text answer, source, out;
    ea_err err;
    size_t k = 0;
    ea_text_init(&answer);
    ea_text_init(&source);
    ea_ack_encode(&sent, &answer);
    ea_pb_put_bytes(&source, 1, "agent", 5);
    for (int is_over = 0; !is_over;) {
        ea_text_init(&out);
        left = ++k;
        int rc = read_parts(&answer, &source, &out, &err);
        is_over = left > 0;
        left = 0;
        if (is_over ? rc : !is_shortage(rc))
            fail_msg("allocation %zu fails with the wrong message: %s", k, err.message);
        ea_text_deinit(&out);
    }
    assert_true(k > 8);
    ea_text_deinit(&answer);
    ea_text_deinit(&source);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches), cmocka_unit_test(test_parts),
                                       cmocka_unit_test_setup_teardown(test_store, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
