/* Out-of-memory tests of the readers of batches and answers. Each of their allocations fails once, in every batch of
 * the fuzz corpus. The failure must be reported, must not be reported as damage of the batch, and must not leak memory
 * (checked by the sanitizers' presets). */
#include "collector/store/store.h"
#include "proto/base/arena.h"
#include "proto/base/platform.h"
#include "proto/wire/ack.h"
#include "proto/wire/definitions.h"
#include "proto/wire/wire.h"
#include "tests/unit/batch_shortage.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the corpus ---- */

enum { MOST_BYTES = 1 << 15 }; /* a batch has more allocations then, and is read once for each of them */

static size_t batches, failures;

static int on_file(const char *name, int is_dir, void *arg) {
    char path[4096], *data;
    size_t len_bytes;
    ea_err err;
    ea_registry *registry, *fresh;
    if (is_dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    assert_int_equal(ea_path_read_all(path, 1 << 20, &data, &len_bytes, &err), 0);
    if (len_bytes > MOST_BYTES) {
        free(data);
        return 0;
    }
    assert_int_equal(ea_registry_create(&registry, 1000, &err), 0);
    for (int columns_first = 0; columns_first < 2; columns_first++) {
        int whole = shortage_read_batch((const uint8_t *)data, len_bytes, registry, columns_first, &err);
        for (size_t k = 1;; k++) {
            fresh = registry;
            if (!columns_first) /* this one learns the batch's classes */
                assert_int_equal(ea_registry_create(&fresh, 1000, &err), 0);
            shortage_begin(k);
            int rc = shortage_read_batch((const uint8_t *)data, len_bytes, fresh, columns_first, &err);
            int is_over = shortage_end() > 0;
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
            break;         /* the corpus has some that are no batches */
        shortage_begin(k); /* the first time none: is it a batch that can be stored? */
        rc = ec_store_append(all->store, "agent", (const uint8_t *)batch.data, batch.len_bytes, &err);
        is_over = shortage_end() > 0;
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
        shortage_begin(++k);
        int rc = read_parts(&answer, &source, &out, &err);
        is_over = shortage_end() > 0;
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
