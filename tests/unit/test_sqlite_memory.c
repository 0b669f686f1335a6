/* SQLite's memory of one thread has a limit of its own: a statement beyond it ends, other threads and later statements
 * do not, and what was freed can be taken again. */
#include "collector/store/sqlite_memory.h"
#include "proto/base/platform.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LIMIT = 4 << 20, ROUNDS = 50 };

/* What a statement that needs so many bytes returns. */
static int run(uint64_t bytes) {
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT length(randomblob(?1))", -1, &st, NULL), SQLITE_OK);
    sqlite3_bind_int64(st, 1, (sqlite3_int64)bytes);
    int code = sqlite3_step(st);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return code;
}

static void run_elsewhere(void *arg) {
    *(int *)arg = run(2 * LIMIT);
}

static void a_thread_has_its_limit(void **state) {
    ea_thread *other = NULL;
    ea_err err = {0};
    int code = 0;
    (void)state;
    assert_int_equal(run(2 * LIMIT), SQLITE_ROW);
    ec_sqlite_memory_limit(LIMIT);
    assert_int_equal(ec_sqlite_memory_refused(), 0);
    assert_int_equal(run(2 * LIMIT), SQLITE_NOMEM);
    assert_int_equal(ec_sqlite_memory_refused(), 1);
    assert_int_equal(ec_sqlite_memory_refused(), 0);
    for (int i = 0; i < ROUNDS; i++) /* what was freed counts no more */
        assert_int_equal(run(LIMIT / 2), SQLITE_ROW);
    assert_int_equal(ec_sqlite_memory_refused(), 0);
    assert_int_equal(ea_thread_start(&other, "other", run_elsewhere, &code, &err), 0);
    ea_thread_join(other);
    assert_int_equal(code, SQLITE_ROW);
    ec_sqlite_memory_limit(0);
    assert_int_equal(run(2 * LIMIT), SQLITE_ROW);
}

/* A list that grows is taken again and again, each time larger. */
static void what_grows_counts(void **state) {
    (void)state;
    ec_sqlite_memory_limit(LIMIT);
    char *p = sqlite3_malloc64(LIMIT / 2);
    assert_non_null(p);
    assert_null(sqlite3_realloc64(p, 2 * LIMIT));
    assert_int_equal(ec_sqlite_memory_refused(), 1);
    char *more = sqlite3_realloc64(p, LIMIT / 4);
    assert_non_null(more);
    char *other = sqlite3_malloc64(LIMIT / 2);
    assert_non_null(other);
    sqlite3_free(other);
    sqlite3_free(more);
    ec_sqlite_memory_limit(0);
}

static void a_second_start_changes_nothing(void **state) {
    ea_err err = {0};
    (void)state;
    assert_int_equal(ec_sqlite_memory_start(&err), 0); /* it is in place already */
}

int main(void) {
    ea_err err = {0};
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thread_has_its_limit), cmocka_unit_test(what_grows_counts),
                                       cmocka_unit_test(a_second_start_changes_nothing)};
    return ec_sqlite_memory_start(&err) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
