/* Native aggregates through their own interface: limits, cancelling, ties, sums beyond 64 bits, and what is refused.
 * That their answers are right is what tests/e2e/test_aggregates.py and the fuzz target of queries compare with plain
 * SQL. */
#include "collector/query/analysis/aggregate.h"
#include "collector/store/store.h"
#include "tests/unit/batches.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EVENTS = 40, BATCHES = 3 };

static ec_archive *archive;
static ec_table_schema shape;

static int setup(void **state) {
    ec_store *store = NULL;
    test_maker maker;
    ea_err err = {0};
    if (scratch_make(state) || ec_store_open(&store, scratch_path("."), &(ec_store_options){.writable = 1}, &err))
        return -1;
    test_maker_init(&maker, 1);
    for (uint64_t i = 1; i <= BATCHES; i++) { /* one tick, 1 ms, an event; the last batch is late in 64-bit time */
        test_batch b;
        test_make(&maker, i, EVENTS, i == BATCHES ? INT64_MAX - EVENTS : (int64_t)i * 1000, &b);
        if (ec_store_append(store, "host", b.data, b.len_bytes, &err) != EC_STORED)
            return -1;
        free(b.data);
    }
    test_maker_deinit(&maker);
    int rc = ec_store_commit(store, &err);
    ec_store_close(store);
    if (!rc)
        rc = ec_archive_open(&archive, scratch_path("."), NULL, NULL, &err);
    return rc ? rc : ec_table_schema_init(&shape, NULL, &err);
}

static int teardown(void **state) {
    ec_table_schema_deinit(&shape);
    ec_archive_close(archive);
    return scratch_clear(state);
}

static int run(const ec_aggregate_options *o, ec_aggregate **ret) {
    ea_err err = {0};
    return ec_aggregate_run(ret, archive, &shape, o, &err);
}

static void test_group_limit(void **state) {
    ec_aggregate_options o = {
        .by = {ec_table_schema_find(&shape, "clock")}, .by_count = 1, .limit_groups = BATCHES * EVENTS};
    ec_aggregate *a = NULL;
    size_t n;
    (void)state;
    assert_int_equal(run(&o, &a), 0);
    const ec_group *g = ec_aggregate_groups(a, &n);
    assert_int_equal(n, BATCHES * EVENTS);
    for (size_t i = 0; i < n; i++)
        assert_true(g[i].count == 1 && g[i].value_count == 0 && g[i].least.type == EC_NULL);
    ec_aggregate_destroy(a);
    a = NULL;
    o.limit_groups--;
    assert_int_equal(run(&o, &a), EA_ELIMIT);
    assert_null(a);
}

static int never(void *arg) {
    ++*(int *)arg;
    return 0;
}

static void test_cancel(void **state) {
    ec_aggregate *a = NULL;
    int asked = 0;
    (void)state;
    ec_archive_on_batch(archive, never, &asked);
    assert_int_equal(run(&(ec_aggregate_options){0}, &a), EA_ECANCELED);
    ec_archive_on_batch(archive, NULL, NULL);
    assert_null(a);
    assert_int_equal(asked, 1);
}

static void test_totals(void **state) {
    ec_aggregate_options o = {.has_value = 1, .value = ec_table_schema_find(&shape, "position")};
    ec_aggregate *a = NULL;
    size_t n;
    (void)state;
    assert_int_equal(run(&o, &a), 0);
    const ec_group *g = ec_aggregate_groups(a, &n);
    assert_int_equal(n, 1);
    assert_int_equal(g->count, BATCHES * EVENTS);
    assert_int_equal(g->value_count, BATCHES * EVENTS);
    assert_int_equal(g->sum, BATCHES * (EVENTS * (EVENTS - 1) / 2));
    assert_false(g->is_overflow || g->is_real);
    assert_int_equal(g->least.i, 0);
    assert_int_equal(g->greatest.i, EVENTS - 1);
    ec_aggregate_destroy(a);

    o.value = ec_table_schema_find(&shape, "clock"); /* 40 times nearly 2^63 */
    assert_int_equal(run(&o, &a), 0);
    g = ec_aggregate_groups(a, &n);
    assert_true(g->is_overflow);
    assert_int_equal(g->least.i, 1000);
    assert_true(g->greatest.i == INT64_MAX - 1);
    ec_aggregate_destroy(a);

    /* of several groups the one beyond 64 bits is the greatest: that is compared by the sum of doubles */
    o.by[0] = ec_table_schema_find(&shape, "batch");
    o.by_count = 1;
    assert_int_equal(run(&o, &a), 0);
    g = ec_aggregate_groups(a, &n);
    assert_int_equal(n, BATCHES);
    for (size_t i = 0; i < n; i++)
        if (g[i].key[0].i == BATCHES)
            assert_true(g[i].is_overflow && g[i].sum_real > EVENTS * 9e18 && g[i].sum_real < EVENTS * 9.3e18);
        else
            assert_true(!g[i].is_overflow && g[i].sum_real == (double)g[i].sum);
    ec_aggregate_destroy(a);
    o.top = 1;
    assert_int_equal(run(&o, &a), 0);
    g = ec_aggregate_groups(a, &n);
    assert_int_equal(n, 1);
    assert_int_equal(g->key[0].i, BATCHES);
    ec_aggregate_destroy(a);
}

static void test_buckets_and_top(void **state) {
    /* the last batch is after the year 2262, where times are clamped */
    ec_aggregate_options o = {.by = {ec_table_schema_find(&shape, "batch")},
                              .by_count = 1,
                              .every_ns = 10000000,
                              .has_value = 1,
                              .value = ec_table_schema_find(&shape, "position"),
                              .top = 2};
    ec_aggregate *a = NULL;
    size_t n;
    (void)state;
    assert_int_equal(run(&o, &a), 0);
    const ec_group *g = ec_aggregate_groups(a, &n);
    assert_int_equal(n, 8); /* all batches have the same sum: the first two by their numbers, four buckets each */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(g[i].key[0].i, 1 + i / 4);
        assert_int_equal(g[i].count, 10);
        assert_int_equal(g[i].sum, 45 + 100 * (i % 4));
        assert_true(g[i].bucket_utc_ns % o.every_ns == 0);
        assert_true(i == 0 || g[i].bucket_utc_ns > g[i - 1].bucket_utc_ns);
    }
    ec_aggregate_destroy(a);
}

static void test_refused(void **state) {
    const ec_value five = {.type = EC_INT, .i = 5}, text = {.type = EC_TEXT, .data = "host", .len_bytes = 4};
    const ec_condition bad[] = {{ec_table_schema_find(&shape, "host"), EC_OP_EQ, &five, 1},
                                {ec_table_schema_find(&shape, "host"), EC_OP_LT, &text, 1},
                                {ec_table_schema_find(&shape, "fields"), EC_OP_EQ, &text, 1}};
    const ec_condition good = {ec_table_schema_find(&shape, "host"), EC_OP_EQ, &text, 1};
    ec_aggregate *a = NULL;
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ec_aggregate_options o = {.conditions = &bad[i], .condition_count = 1};
        assert_int_equal(run(&o, &a), EA_EUSAGE);
    }
    ec_aggregate_options o = {.has_value = 1, .value = ec_table_schema_find(&shape, "name")};
    assert_int_equal(run(&o, &a), EA_EUSAGE);
    assert_null(a);
    o = (ec_aggregate_options){.conditions = &good, .condition_count = 1};
    assert_int_equal(run(&o, &a), 0);
    assert_int_equal(ec_aggregate_groups(a, &n)->count, BATCHES * EVENTS);
    ec_aggregate_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group_limit),     cmocka_unit_test(test_cancel),  cmocka_unit_test(test_totals),
        cmocka_unit_test(test_buckets_and_top), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
