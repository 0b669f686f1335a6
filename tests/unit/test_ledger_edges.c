/* What the ledger reports again and what it does not, how many events a hole held, and what may be stored elsewhere:
 * each number at and beside its edge. */
#include "tests/unit/ledger_kit.h"

/* An imbalance that persists is reported once, also after the ledger was read back, of the session as of a family; the
 * last family may have a single count, and a name that is cut. */
static void an_imbalance_persists(void **state) {
    static const char LONG[] = "z23456789012345678901234567890123456789012345678901234567890123456789";
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(60 + reopen));
        f.reopen = reopen;
        TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 9},
             {"a", C(events_delivered), 4}, {"a", C(events_batched), 4}, {"a", C(events_compressing), 2},
             {LONG, C(events_delivered), 3});
        one_alert(&f, EC_ALERT_BATCHED, "", 1, 10, 9);
        one_alert(&f, EC_ALERT_BATCHED, "a", 1, 4, 2);
        assert_int_equal(alerts(&f), 3);
        TAKE(&f, 2, 10, {"", C(events_delivered), 20}, {"", C(events_batched), 20}, {"", C(events_compressing), 19},
             {"a", C(events_delivered), 6}, {"a", C(events_batched), 6}, {"a", C(events_compressing), 4},
             {LONG, C(events_delivered), 3});
        assert_int_equal(alerts(&f), 3);
        assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_counts WHERE stream = ?1 AND family LIKE 'z%'"), 1);
        assert_int_equal(ask(&f, "SELECT max(length(family)) FROM ledger_counts WHERE stream = ?1"), 63);
        finish(&f);
    }
    ec_ledger_close(NULL);
}

/* What a hole held is what went into batches since the last ledger, without what came: nothing, some, or not known
 * when that is less than what came. */
static void events_of_holes(void **state) {
    static const char HELD[] =
        "SELECT event_count FROM gaps WHERE stream = ?1 AND first = (SELECT max(first) FROM gaps)";
    fixture f;
    size_t n;
    (void)state;
    start(&f, 62);
    TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
    TAKE(&f, 3, 10, {"", C(events_delivered), 20}, {"", C(events_batched), 20}, {"", C(events_compressing), 20});
    assert_int_equal(ask(&f, HELD), 0);
    TAKE(&f, 5, 0, {"", C(events_delivered), 20}, {"", C(events_batched), 20}, {"", C(events_compressing), 20});
    assert_int_equal(ask(&f, HELD), 0);
    TAKE(&f, 7, 10, {"", C(events_delivered), 25}, {"", C(events_batched), 25}, {"", C(events_compressing), 25});
    assert_int_equal(ask(&f, HELD), -1);
    uint8_t *no_ledger = pack(&f, NULL, 0, NULL, &n);
    take_bytes(&f, 8, 4, no_ledger, n);
    free(no_ledger);
    TAKE(&f, 10, 10, {"", C(events_delivered), 46}, {"", C(events_batched), 46}, {"", C(events_compressing), 46});
    assert_int_equal(ask(&f, HELD), 7); /* 21 were made, 4 and 10 came */
    finish(&f);
}

typedef struct last {
    uint64_t value;
    size_t count;
} last;

static int add_last(const char *family, uint32_t counter, uint64_t value, void *arg) {
    last *l = arg;
    assert_string_equal(family, "");
    assert_int_equal(counter, 30);
    l->value = value;
    l->count++;
    return 0;
}

/* What may be stored elsewhere is in missing batches up to one: in those before the first one that is here, or, of an
 * agent that changed its collector, in all. One whose events are not known makes it unknown. */
static void what_is_elsewhere(void **state) {
    static const char ROWS[] =
        "INSERT INTO gaps VALUES(1, 1, 1, 1000, 0, 1, 5, 5, 0, 0, 1, 2), (1, 2, 2, 1001, 0, 0, NULL,"
        " 0, 0, 1, 1, 2), (1, 3, 3, 24, 0, 1, 50, 50, 0, 0, 1, 2), (1, 4, 5, 1000, 0, 2, 7, 7, 0, 0,"
        " 1, 2), (1, 6, 6, 1000, 0, 1, NULL, 0, 0, 0, 1, 2), (2, 1, 1, 1000, 0, 1, 900, 900, 0, 0, 1,"
        " 2);"
        "INSERT INTO ledger_counts VALUES(1, '', 30, 5, 7), (1, '', 30, 6, 9), (2, '', 30, 5, 8)";

    static const struct {
        int64_t number;
        uint64_t moves, expected;
    } LIST[] = {{5, 0, 5}, {5, 1, 12}, {4, 1, 12}, {3, 1, 5}, {1, 0, 5}, {0, 1, 0}, {6, 0, 5}, {6, 1, UINT64_MAX}};

    static const struct {
        uint64_t stored, elsewhere, acknowledged;
        enum ec_verdict expected;
    } VERDICTS[] = {{10, 0, 10, EC_HOLDS},
                    {11, 0, 10, EC_HOLDS},
                    {9, 0, 10, EC_FAILS},
                    {9, 1, 10, EC_HOLDS},
                    {8, 1, 10, EC_FAILS},
                    {8, 3, 10, EC_HOLDS},
                    {9, UINT64_MAX, 10, EC_UNKNOWN},
                    {10, UINT64_MAX, 10, EC_HOLDS}};

    uint64_t values[EA_COUNTER_COUNT] = {0}, got;
    fixture f;
    (void)state;
    start(&f, 63);
    assert_int_equal(f.fold.stream_number, 1);
    run_sql(ec_state_db_database(f.tables), ROWS);
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        values[C(collector_moves)] = LIST[i].moves;
        must(ec_ledger_elsewhere(f.tables, 1, LIST[i].number, values, &got, &err));
        assert_true(got == LIST[i].expected);
    }
    for (size_t i = 0; i < sizeof VERDICTS / sizeof *VERDICTS; i++) {
        values[C(events_acknowledged)] = VERDICTS[i].acknowledged;
        assert_int_equal(ec_ledger_is_stored(VERDICTS[i].stored, VERDICTS[i].elsewhere, values), VERDICTS[i].expected);
    }
    for (int64_t number = 4; number <= 7; number++) {
        last l = {0};
        must(ec_ledger_each_last(f.tables, 1, number, add_last, &l, &err));
        assert_int_equal(l.count, number > 4);
        assert_int_equal(l.value, number == 4 ? 0 : number == 5 ? 7 : 9);
    }
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_imbalance_persists, make, scratch_clear),
        cmocka_unit_test_setup_teardown(events_of_holes, make, scratch_clear),
        cmocka_unit_test_setup_teardown(what_is_elsewhere, make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
