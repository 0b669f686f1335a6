/* The watch: what parts of the collector report is an incident, once, for as long as it is reported; a bounded number.
 */
#include "collector/state/incidents.h"
#include "collector/state/watch.h"
#include "collector/store/store.h"
#include "proto/base/platform.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { REPORTS = 256, SECOND_MS = 1000 };

static const int64_t MS_NS = 1000000;

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* How many incidents there are of which this holds; -1 while there is no table. */
static int count(const char *where) {
    ec_incidents *a = NULL;
    sqlite3_stmt *st = NULL;
    ea_err err;
    char sql[200];
    int n = -1;
    must(ec_incidents_open(&a, scratch, 0, &err), &err);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM alarms WHERE %s", where);
    if (sqlite3_prepare_v2(ec_incidents_database(a), sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    ec_incidents_close(a);
    return n;
}

static void wait_for(const char *where, int wanted) {
    int n = -1;
    for (int i = 0; i < 600 && (n = count(where)) != wanted; i++)
        ea_sleep_ns(50 * MS_NS);
    if (n != wanted)
        fail_msg("%s: %d incidents, expected %d", where, n, wanted);
}

static void reports_are_incidents(void **state) {
    (void)state;
    ea_err err;
    ec_store *store = NULL;
    ec_watch *watch = NULL;
    ea_counters counters = {0};
    must(ec_store_open(&store, scratch, &(ec_store_options){.writable = 1}, &err), &err);
    ec_store_close(store);
    assert_true(ea_path_exists(scratch_path("index.db")));
    must(ec_watch_start(&watch, scratch, &(ec_watch_options){.silent_ns = 2 * SECOND_MS * MS_NS, .counters = &counters},
                        &err),
         &err);
    ec_watch_report r = {
        .host = "machine", .kind = "renewed-twice", .text = "first", .lasts_ns = 3600 * SECOND_MS * MS_NS};
    ec_watch_raise(watch, &r);
    wait_for("end_utc_ns IS NULL AND host = 'machine' AND text = 'first'", 1);
    r.text = "second";
    ec_watch_raise(watch, &r);
    wait_for("text = 'second'", 1);
    assert_int_equal(count("host = 'machine'"), 1);
    r = (ec_watch_report){.host = EC_WATCH_COLLECTOR, .kind = "crl-stale", .text = "late", .lasts_ns = 600 * MS_NS};
    ec_watch_raise(watch, &r);
    wait_for("end_utc_ns IS NOT NULL AND kind = 'crl-stale'", 1);
    for (int i = 0; i < REPORTS; i++) { /* one is there already */
        char name[20];
        snprintf(name, sizeof name, "machine-%d", i);
        ec_watch_raise(watch,
                       &(ec_watch_report){
                           .host = name, .kind = "renewed-twice", .text = "x", .lasts_ns = 3600 * SECOND_MS * MS_NS});
    }
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_incidents_dropped), 1);
    wait_for("end_utc_ns IS NULL", REPORTS);
    ec_watch_stop(watch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_are_incidents, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
