/* A store in a folder of its own, and batches for it. Used by: test_store.c, test_store_files.c, test_batch_order.c.
 * Thread: the test's. */
#ifndef EA_TESTS_UNIT_STORE_RIG_H
#define EA_TESTS_UNIT_STORE_RIG_H

#include "collector/store/index_query.h"
#include "collector/store/private.h"
#include "collector/store/retention.h"
#include "collector/store/store.h"
#include "proto/base/platform.h"
#include "tests/unit/batches.h"

#include <inttypes.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    char dir[64];
    ea_err err;
    ea_counters counters;
    ec_store *store;
    uint64_t segment_bytes;
} fixture;

static inline int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/ec-store-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    *state = f;
    return 0;
}

static inline int teardown(void **state) {
    fixture *f = *state;
    char command[128];
    ec_store_close(f->store);
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    int rc = system(command);
    free(f);
    return rc;
}

static inline void open_store(fixture *f) {
    ec_store_options o = {.writable = 1, .segment_bytes = f->segment_bytes, .counters = &f->counters};
    memset(&f->counters, 0, sizeof f->counters);
    if (ec_store_open(&f->store, f->dir, &o, &f->err))
        fail_msg("open: %s", f->err.message);
}

static inline void close_store(fixture *f) {
    ec_store_close(f->store);
    f->store = NULL;
}

static inline int append(fixture *f, const char *agent, const test_batch *b) {
    return ec_store_append(f->store, agent, b->data, b->len_bytes, &f->err);
}

static inline void commit(fixture *f) {
    if (ec_store_commit(f->store, &f->err))
        fail_msg("commit: %s", f->err.message);
}

static inline int keep_first(const ec_stream_row *row, void *arg) {
    *(ec_stream_row *)arg = *row;
    return 1;
}

/* Number of batches of a stream that can be read back bit for bit; fails when one differs from what was sent. */
static inline uint64_t readable(fixture *f, ec_store *s, uint64_t stream_id, const test_batch *sent,
                                size_t sent_count) {
    ec_batch_row row = {0};
    uint64_t n = 0;
    int rc;
    while ((rc = ec_store_next_batch(s, stream_id, row.number, &row, &f->err)) == 1) {
        const uint8_t *data;
        size_t len_bytes;
        assert_true(row.number >= 1 && row.number <= sent_count);
        if (ec_store_read(s, &row, &data, &len_bytes, &f->err))
            fail_msg("batch %" PRIu64 ": %s", row.number, f->err.message);
        assert_int_equal(len_bytes, sent[row.number - 1].len_bytes);
        assert_memory_equal(data, sent[row.number - 1].data, len_bytes);
        n++;
    }
    assert_int_equal(rc, 0);
    return n;
}

enum { SENT = 5 };

static inline void make_all(test_batch *sent, size_t count) {
    test_maker m;
    test_maker_init(&m, 7);
    for (size_t i = 0; i < count; i++)
        test_make(&m, i + 1, 3 + i, 100 * i, &sent[i]);
    test_maker_deinit(&m);
}

static inline void free_all(test_batch *sent, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(sent[i].data);
}

static inline int64_t ask_index(fixture *f, const char *sql) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(ec_store_database(f->store), sql, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(ec_store_database(f->store)));
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static inline void retain_all(fixture *f, const ec_retention *limits) {
    int rc;
    while ((rc = ec_store_retain(f->store, limits, &f->err)) > 0)
        if (rc == EC_RETAIN_BUSY)
            ea_sleep_ns(1000000);
    if (rc)
        fail_msg("retain: %s", f->err.message);
}

#endif
