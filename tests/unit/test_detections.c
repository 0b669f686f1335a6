/* Detections: which batches are to be judged, also those that arrive late; an event and a rule are one row; bounds. */
#include "collector/sqlite/sqlite.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "proto/base/platform.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char STREAM[] = "0102030405060708090a0b0c0d0e0f10";
static const int64_t HOUR_NS = INT64_C(3600000000000);

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static void run_sql(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* The store's index as it is when this batch has been appended at a place. */
static void add_batch(ec_store *store, int number, int offset) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "INSERT INTO batches VALUES(1, %d, 1, 0, 1, 0, 0, 0, 1, %d, 10, x'', x'');"
             "INSERT OR REPLACE INTO position VALUES(1, 1, %d)",
             number, offset, offset + 10);
    run_sql(ec_store_database(store), sql);
}

static ec_store *open_store(void) {
    ec_store *store = NULL;
    ea_err err;
    char sql[300];
    must(ec_store_open(&store, scratch, &(ec_store_options){.writable = 1}, &err), &err);
    snprintf(sql, sizeof sql, "INSERT INTO streams VALUES(1, 'pc', x'%s', '', 0, 0, 0, 0, 0, 0, 0)", STREAM);
    run_sql(ec_store_database(store), sql);
    return store;
}

static int take(const ec_detections_stream *s, void *arg) {
    *(ec_detections_stream *)arg = *s;
    return 0;
}

/* The first batch that is to be judged; 0: none. */
static uint64_t next_of(ec_detections *d, ec_detections_stream *ret) {
    ea_err err;
    *ret = (ec_detections_stream){.next = 0};
    must(ec_detections_each(d, NULL, take, ret, &err), &err);
    return ret->next;
}

static uint64_t notice_at(ec_detections *d, ec_store *store, int64_t now_ns) {
    ea_err err;
    uint64_t count = 0;
    must(ec_detections_notice(d, store, now_ns, &count, &err), &err);
    return count;
}

static uint64_t notice(ec_detections *d, ec_store *store) {
    return notice_at(d, store, 5);
}

static void judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all) {
    ea_err err;
    must(ec_detections_begin(d, &err), &err);
    must(ec_detections_judged(d, s, next, is_all, &err), &err);
}

static int count_rows(ec_detections *d, const char *from) {
    ec_incidents *file = NULL;
    sqlite3_stmt *st = NULL;
    ea_err err;
    char sql[200];
    (void)d;
    must(ec_incidents_open(&file, scratch, 0, &err), &err);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", from);
    must(ec_sqlite_prepare(ec_incidents_database(file), &st, sql, NULL, &err), &err);
    assert_int_equal(ec_sqlite_step(st, "count", &err), 1);
    int n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    ec_incidents_close(file);
    return n;
}

static void arrivals_are_noticed_once(void **state) {
    (void)state;
    ea_err err;
    ec_store *store = open_store();
    ec_detections *d = NULL;
    ec_detections_stream s;
    add_batch(store, 1, 0);
    must(ec_detections_open(&d, scratch, &err), &err);
    assert_true(ea_path_exists(scratch_path("alarms.db")));
    assert_int_equal(notice(d, store), 0); /* from before the first run with rules */
    assert_int_equal(next_of(d, &s), 0);
    add_batch(store, 2, 10);
    add_batch(store, 3, 20);
    add_batch(store, 6, 30);
    assert_int_equal(notice(d, store), 3);
    assert_int_equal(notice(d, store), 0);
    assert_int_equal(next_of(d, &s), 2);
    assert_string_equal(s.host, "pc");
    assert_string_equal(s.stream, STREAM);
    assert_int_equal(s.id[15], 0x10);
    assert_false(s.is_late);
    judged(d, &s, 4, 0); /* part of it */
    ec_detections_close(d);
    must(ec_detections_open(&d, scratch, &err), &err);
    assert_int_equal(next_of(d, &s), 4);
    judged(d, &s, 7, 1);
    assert_int_equal(next_of(d, &s), 0);
    add_batch(store, 7, 40);
    assert_int_equal(notice(d, store), 1);
    assert_int_equal(next_of(d, &s), 7);
    assert_false(s.is_late);
    add_batch(store, 4, 50); /* late: what came after it was judged without it */
    assert_int_equal(notice(d, store), 1);
    assert_int_equal(next_of(d, &s), 4);
    assert_true(s.is_late);
    judged(d, &s, 8, 1);
    add_batch(store, 5, 60);
    assert_int_equal(notice(d, store), 1);
    assert_int_equal(next_of(d, &s), 5);
    assert_true(s.is_late);
    judged(d, &s, 0, 1); /* the stream is gone */
    assert_int_equal(count_rows(d, "detections_next"), 0);
    ec_detections_close(d);
    ec_store_close(store);
}

/* What a late batch waits for has an end, also while its agent goes on sending. */
static void a_late_batch_does_not_become_younger(void **state) {
    (void)state;
    ea_err err;
    ec_store *store = open_store();
    ec_detections *d = NULL;
    ec_detections_stream s;
    add_batch(store, 1, 0);
    must(ec_detections_open(&d, scratch, &err), &err);
    assert_int_equal(notice(d, store), 0);
    add_batch(store, 5, 10);
    assert_int_equal(notice_at(d, store, 10), 1);
    assert_int_equal(next_of(d, &s), 5);
    judged(d, &s, 6, 1);
    add_batch(store, 3, 20);
    assert_int_equal(notice_at(d, store, 20), 1);
    add_batch(store, 6, 30);
    assert_int_equal(notice_at(d, store, 30), 1);
    assert_int_equal(next_of(d, &s), 3);
    assert_true(s.is_late);
    assert_int_equal(s.noticed_utc_ns, 20);
    add_batch(store, 2, 40); /* the history begins again, with this one */
    assert_int_equal(notice_at(d, store, 40), 1);
    assert_int_equal(next_of(d, &s), 2);
    assert_int_equal(s.noticed_utc_ns, 40);
    judged(d, &s, 7, 1);
    add_batch(store, 7, 50);
    assert_int_equal(notice_at(d, store, 50), 1);
    assert_int_equal(next_of(d, &s), 7);
    assert_int_equal(s.noticed_utc_ns, 50);
    ec_detections_close(d);
    ec_store_close(store);
}

static int add(ec_detections *d, const ec_detections_stream *s, uint64_t batch, uint64_t position, const char *rule,
               int64_t utc_ns) {
    ea_err err;
    int kept = 0;
    const ec_detection row = {.batch = batch,
                              .position = position,
                              .rule = rule,
                              .title = "t",
                              .level = "high",
                              .source = "f:1",
                              .utc_ns = utc_ns,
                              .fields = "{}"};
    must(ec_detections_add(d, s, &row, 9, &kept, &err), &err);
    return kept;
}

static void an_event_and_a_rule_are_one_row(void **state) {
    (void)state;
    ea_err err;
    ec_store *store = open_store();
    ec_detections *d = NULL;
    ec_detections_stream s = {.host = "pc", .next = 1};
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add(d, &s, 1, 0, "a", 5), 1);
    ec_detections_undo(d); /* as a crash before the end */
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add(d, &s, 1, 0, "a", 5), 1);
    assert_int_equal(add(d, &s, 1, 0, "a", 5), 0);
    assert_int_equal(add(d, &s, 1, 0, "b", 5), 1);
    assert_int_equal(add(d, &s, 1, 1, "a", 5), 1);
    for (uint64_t i = 2; i < EC_DETECTIONS_AN_HOUR; i++)
        assert_int_equal(add(d, &s, 1, i, "a", HOUR_NS - 1), 1);
    assert_int_equal(add(d, &s, 1, EC_DETECTIONS_AN_HOUR, "a", 5), 2); /* one too many in its hour */
    assert_int_equal(add(d, &s, 1, EC_DETECTIONS_AN_HOUR, "a", HOUR_NS), 1);
    assert_int_equal(add(d, &s, 1, 0, "a", 5), 0); /* known, whatever is full */
    must(ec_detections_leave_out(d, &s, 1, "a", 7, &err), &err);
    must(ec_detections_judged(d, &s, 2, 1, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    must(ec_detections_leave_out(d, &s, 1, "a", 7, &err), &err); /* judged again: counted once */
    must(ec_detections_judged(d, &s, 2, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections"), EC_DETECTIONS_AN_HOUR + 2);
    assert_int_equal(count_rows(d, "detections_left_out WHERE count = 7"), 1);
    must(ec_detections_set(d, 1, EC_DETECTION_CLOSED, "anna", "why", 11, &err), &err);
    assert_int_equal(count_rows(d, "detections WHERE state = 'closed' AND who = 'anna' AND comment = 'why'"), 1);
    assert_int_equal(ec_detections_set(d, 100000, EC_DETECTION_OPEN, "", "", 11, &err), EA_ENOTFOUND);
    ec_detections_close(d);
    ec_store_close(store);
}

/* Columns of detections that have no default. */
#define SHORT                                                                                                          \
    "detection_id, host, stream, batch, position, rule, title, level, source, utc_ns, found_utc_ns, fields, state, "   \
    "who,"                                                                                                             \
    " comment"

static void old_rows_are_deleted_closed_ones_first(void **state) {
    (void)state;
    ea_err err;
    ec_store *store = open_store();
    ec_detections *d = NULL;
    ec_incidents *file = NULL;
    ec_detections_stream s = {.host = "pc", .next = 1};
    char sql[600];
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO detections(" SHORT
        ") SELECT i, 'pc', 's', 1, i, 'a', '', '', '', 0, 0, '{}', iif(i = 500, 'closed', 'open'), '', '' FROM n",
        EC_DETECTIONS_KEPT);
    run_sql(ec_incidents_database(file), sql);
    ec_incidents_close(file);
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add(d, &s, 2, 0, "new", 5), 1);
    assert_int_equal(add(d, &s, 2, 1, "new", 5), 1);
    must(ec_detections_judged(d, &s, 3, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections"), EC_DETECTIONS_KEPT);
    assert_int_equal(count_rows(d, "detections WHERE detection_id IN (1, 500)"), 0);
    assert_int_equal(count_rows(d, "detections WHERE rule = 'new'"), 2);
    ec_detections_close(d);
    ec_store_close(store);
}

/* A file of version 0.1 as that version made it. */
static void make_old_file(void) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(scratch_path("alarms.db"), &db), SQLITE_OK);
    run_sql(db,
            "CREATE TABLE detections(detection_id INTEGER PRIMARY KEY, host TEXT NOT NULL, stream TEXT NOT NULL, batch"
            " INTEGER NOT NULL, position INTEGER NOT NULL, rule TEXT NOT NULL, title TEXT NOT NULL, level TEXT NOT"
            " NULL, source TEXT NOT NULL, utc_ns INTEGER NOT NULL, found_utc_ns INTEGER NOT NULL, pid INTEGER,"
            " process TEXT, fields TEXT NOT NULL, state TEXT NOT NULL, who TEXT NOT NULL, comment TEXT NOT NULL,"
            " state_utc_ns INTEGER, UNIQUE(host, stream, batch, position, rule));"
            "INSERT INTO detections VALUES(3, 'pc', 's', 1, 0, 'a', 't', 'high', 'f:1', 5, 9, NULL, NULL, '{}',"
            " 'open', '', '', NULL)");
    sqlite3_close(db);
}

static void a_file_of_an_older_version_serves(void **state) {
    (void)state;
    ea_err err;
    ec_detections *d = NULL;
    ec_detections_stream s = {.host = "pc", .next = 1};
    make_old_file();
    for (int i = 0; i < 2; i++) /* read as it is, and after a writer has added what it lacks */
        for (int k = 0; k < 2; k++) {
            assert_int_equal(
                count_rows(d, "detections WHERE detection_id = 3 AND tags = '[]' AND text_id IS NULL AND chain = '[]'"),
                1);
            assert_int_equal(count_rows(d, "detections_rules"), 0);
            if (i || k)
                continue;
            must(ec_detections_open(&d, scratch, &err), &err);
            ec_detections_close(d);
        }
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add(d, &s, 2, 0, "a", 5), 1);
    must(ec_detections_judged(d, &s, 3, 1, &err), &err);
    ec_detections_close(d);
    assert_int_equal(count_rows(d, "detections"), 2);
}

static int add_text(ec_detections *d, const ec_detections_stream *s, uint64_t position, const char *text) {
    ea_err err;
    int kept = 0;
    const ec_detection row = {.position = position,
                              .rule = "a",
                              .title = "t",
                              .level = "high",
                              .source = "f:1",
                              .fields = "{}",
                              .tags = "[\"x\"]",
                              .text = text};
    must(ec_detections_add(d, s, &row, 9, &kept, &err), &err);
    return kept;
}

static void a_rules_text_is_kept_once_while_it_is_used(void **state) {
    (void)state;
    ea_err err;
    ec_detections *d = NULL;
    ec_incidents *file = NULL;
    char host[256];
    ec_detections_stream s = {.host = "pc", .next = 1};
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add_text(d, &s, 1, "old"), 1);
    assert_int_equal(add_text(d, &s, 2, "old"), 1);
    assert_int_equal(add_text(d, &s, 3, "new"), 1);
    must(ec_detections_judged(d, &s, 2, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections_rules"), 2);
    assert_int_equal(count_rows(d,
                                "detections d JOIN detections_rules r ON r.text_id = d.text_id AND r.text = 'old' WHERE"
                                " d.tags = '[\"x\"]'"),
                     2);
    must(ec_detections_host(d, 1, host, sizeof host, &err), &err);
    assert_string_equal(host, "pc");
    assert_int_equal(ec_detections_host(d, 9, host, sizeof host, &err), EA_ENOTFOUND);
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    run_sql(ec_incidents_database(file), "DELETE FROM detections WHERE position < 3");
    ec_incidents_close(file);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add_text(d, &s, 4, "new"), 1);
    must(ec_detections_judged(d, &s, 2, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections_rules"), 1);
    ec_detections_close(d);
}

/* Judged twice, a batch counts once; a host loses its own rows beyond the bound. */
static void suppressed_matches_are_counted_once(void **state) {
    (void)state;
    ea_err err;
    ec_incidents *file = NULL;
    ec_detections *d = NULL;
    ec_detections_stream s = {.host = "loud", .next = 1}, quiet = {.host = "pc", .next = 1};
    char sql[500];
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_detections_open(&d, scratch, &err), &err);
    for (int i = 0; i < 2; i++) {
        must(ec_detections_begin(d, &err), &err);
        must(ec_detections_suppress(d, &s, 1, "a", "f", 3, &err), &err);
        must(ec_detections_suppress(d, &s, 2, "a", "f", 4, &err), &err);
        must(ec_detections_suppress(d, &s, 2, "a", "g", 5, &err), &err);
        must(ec_detections_suppress(d, &quiet, 1, "a", "f", 6, &err), &err);
        must(ec_detections_judged(d, &s, 3, 1, &err), &err);
    }
    assert_int_equal(count_rows(d, "detections_suppressed"), 4);
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
             " detections_suppressed SELECT 'loud', 's', i + 9, 'a', 'f', 1 FROM n",
             EC_LEFT_OUT_KEPT);
    run_sql(ec_incidents_database(file), sql);
    ec_incidents_close(file);
    must(ec_detections_begin(d, &err), &err);
    must(ec_detections_suppress(d, &s, EC_LEFT_OUT_KEPT + 10, "a", "f", 1, &err), &err);
    must(ec_detections_judged(d, &s, 4, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections_suppressed"), EC_LEFT_OUT_KEPT);
    assert_int_equal(count_rows(d, "detections_suppressed WHERE host = 'pc'"), 1);
    assert_int_equal(count_rows(d, "detections_suppressed WHERE host = 'loud' AND batch < 3"), 0);
    ec_detections_close(d);
}

static void numbers_are_not_used_twice(void **state) {
    (void)state;
    ea_err err;
    uint64_t number = 9;
    ec_incidents *file = NULL;
    ec_detections *d = NULL;
    ec_detections_stream s = {.host = "pc", .next = 1};
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_detections_open(&d, scratch, &err), &err);
    assert_int_equal(ec_detections_sent(d, "x", &number, &err), 0);
    assert_int_equal(number, 0);
    must(ec_detections_begin(d, &err), &err);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(add(d, &s, 1, i, "a", 5), 1);
    must(ec_detections_judged(d, &s, 2, 1, &err), &err);
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    run_sql(ec_incidents_database(file), EC_DETECTIONS_KEEP_LAST "; DELETE FROM detections WHERE detection_id > 1");
    run_sql(ec_incidents_database(file), EC_DETECTIONS_KEEP_LAST "; DELETE FROM detections");
    ec_incidents_close(file);
    assert_int_equal(ec_detections_sent(d, "x", &number, &err), 0);
    assert_int_equal(number, 3);
    must(ec_detections_begin(d, &err), &err);
    assert_int_equal(add(d, &s, 2, 0, "a", 5), 1);
    must(ec_detections_judged(d, &s, 3, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections WHERE detection_id = 4"), 1);
    must(ec_detections_set_sent(d, "x", 2, &err), &err);
    must(ec_detections_set_sent(d, "x", 3, &err), &err);
    assert_int_equal(ec_detections_sent(d, "x", &number, &err), 1);
    assert_int_equal(number, 3);
    assert_int_equal(ec_detections_sent(d, "y", &number, &err), 0);
    assert_int_equal(number, 4);
    ec_detections_close(d);
}

static int take_first(const ec_detections_stream *s, void *arg) {
    *(ec_detections_stream *)arg = *s;
    return 1;
}

/* Also when there are more streams than a round takes. */
static void each_stream_has_its_turn(void **state) {
    (void)state;
    static const char *const WANTED[] = {"a", "b", "b", "c"};
    ea_err err;
    ec_incidents *file = NULL;
    ec_detections *d = NULL;
    ec_detections_stream s = {.next = 0};
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "INSERT INTO detections_next VALUES('%s', '%032zx', 1, 1, 0, %zu)", WANTED[i], i,
                 9 - i);
        run_sql(ec_incidents_database(file), sql);
    }
    ec_incidents_close(file);
    must(ec_detections_open(&d, scratch, &err), &err);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        const ec_detections_stream after = s;
        assert_int_equal(ec_detections_each(d, i ? &after : NULL, take_first, &s, &err), 1);
        assert_string_equal(s.host, WANTED[i]);
        assert_int_equal(s.id[15], i);
    }
    assert_int_equal(ec_detections_each(d, &s, take_first, &s, &err), 0);
    ec_detections_close(d);
}

/* A host that has few keeps them, whatever another host is given. */
static void a_host_deletes_its_own(void **state) {
    (void)state;

    enum { FEW = 100 };

    ea_err err;
    ec_store *store = open_store();
    ec_detections *d = NULL;
    ec_incidents *file = NULL;
    ec_detections_stream s = {.host = "loud", .next = 1};
    char sql[1200];
    snprintf(s.stream, sizeof s.stream, "%s", STREAM);
    must(ec_incidents_open(&file, scratch, 1, &err), &err);
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO detections(" SHORT
        ") SELECT i, iif(i <= %d, 'pc', 'loud'), 's', 1, i, 'a', '', '', '', 0, 0, '{}', iif(i < 9, 'closed',"
        " 'open'), '', '' FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO"
        " detections_left_out SELECT iif(i <= %d, 'pc', 'loud'), 's', i, 'a', 1 FROM n",
        EC_DETECTIONS_KEPT, FEW, EC_LEFT_OUT_KEPT, FEW);
    run_sql(ec_incidents_database(file), sql);
    ec_incidents_close(file);
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_begin(d, &err), &err);
    for (uint64_t i = 0; i < FEW; i++)
        assert_int_equal(add(d, &s, 2, i, "new", (int64_t)i * HOUR_NS), 1);
    must(ec_detections_leave_out(d, &s, 2, "new", 1, &err), &err);
    must(ec_detections_judged(d, &s, 3, 1, &err), &err);
    assert_int_equal(count_rows(d, "detections"), EC_DETECTIONS_KEPT);
    assert_int_equal(count_rows(d, "detections WHERE host = 'pc'"), FEW);
    assert_int_equal(count_rows(d, "detections WHERE rule = 'new'"), FEW);
    assert_int_equal(count_rows(d, "detections_left_out"), EC_LEFT_OUT_KEPT);
    assert_int_equal(count_rows(d, "detections_left_out WHERE host = 'pc'"), FEW);
    ec_detections_close(d);
    ec_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arrivals_are_noticed_once, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_late_batch_does_not_become_younger, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(an_event_and_a_rule_are_one_row, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(old_rows_are_deleted_closed_ones_first, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_file_of_an_older_version_serves, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_rules_text_is_kept_once_while_it_is_used, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(suppressed_matches_are_counted_once, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(numbers_are_not_used_twice, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(each_stream_has_its_turn, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_host_deletes_its_own, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
