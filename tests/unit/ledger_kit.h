/* What tests of the ledger and of the tables of the state share: a stream whose batches are handed to the collector's
 * ledger, and SQL about what it keeps. Each program includes it once. Thread: one. */
#ifndef EA_TESTS_UNIT_LEDGER_KIT_H
#define EA_TESTS_UNIT_LEDGER_KIT_H

#include "collector/state/ledger_report.h"
#include "proto/wire/batch.pb-c.h"
#include "tests/unit/scratch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define C(name) EA_COUNT_##name

enum { PAIRS_MAX = 3000 };

typedef struct pair {
    const char *family;
    enum ea_counter counter;
    uint64_t value;
} pair;

typedef struct fixture {
    ec_state_db *tables;
    ec_ledger *ledger;
    ec_state_fold fold;
    uint64_t incarnation;
    int reopen; /* before each batch */
    char alert_text[512];
    unsigned alert_count;
} fixture;

static ea_err err;

static inline void must(int rc) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err.message);
}

static inline void on_alert(void *arg, const char *text) {
    fixture *f = arg;
    snprintf(f->alert_text, sizeof f->alert_text, "%s", text);
    f->alert_count++;
}

static inline void start(fixture *f, uint8_t stream) {
    uint8_t id[EA_STREAM_ID_BYTES];
    memset(id, stream, sizeof id);
    *f = (fixture){.incarnation = 1};
    must(ec_state_db_open(&f->tables, scratch_path("store"), 1, &err));
    must(ec_state_db_begin(f->tables, &err));
    must(ec_state_db_get_fold(f->tables, "pc-1", id, &f->fold, &err));
    must(ec_ledger_open(&f->ledger, f->tables, &f->fold, &err));
}

/* The number that a query about this stream (?1) gives. */
static inline int64_t ask(const fixture *f, const char *sql) {
    sqlite3_stmt *s = NULL;
    sqlite3 *db = ec_state_db_database(f->tables);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_bind_int64(s, 1, f->fold.stream_number);
    int64_t v =
        sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_finalize(s);
    return v;
}

/* The sums of gaps and alerts are those of their rows. */
static inline void check_sums(const fixture *f) {
    static const char GAPS[] =
        "SELECT stream, cause, count(*), sum(record_count = 0), sum(batch_count), sum(least_count) FROM gaps"
        " GROUP BY stream, cause";
    static const char ALERTS[] = "SELECT stream, count(*) FROM alerts GROUP BY stream";
    const char *const sums[][2] = {{GAPS, "SELECT * FROM gap_sums"}, {ALERTS, "SELECT * FROM alert_sums"}};
    for (int i = 0; i < 2; i++)
        for (int turn = 0; turn < 2; turn++) {
            char sql[512];
            snprintf(sql, sizeof sql, "SELECT count(*) FROM (%s EXCEPT %s)", sums[i][turn], sums[i][!turn]);
            if (ask(f, sql) != 0)
                fail_msg("rows are left of: %s", sql);
        }
}

static inline void finish(fixture *f) {
    check_sums(f);
    ec_ledger_close(f->ledger);
    must(ec_state_db_set_fold(f->tables, &f->fold, &err));
    must(ec_state_db_commit(f->tables, &err));
    ec_state_db_close(f->tables);
}

static inline uint32_t number_of(enum ea_counter c) {
    return ea_counter_row(c)->number;
}

/* The envelope of a batch with a ledger and tombstones. */
static inline uint8_t *pack(const fixture *f, const pair *pairs, size_t count, const ea_tombstone *t, size_t *ret_len) {
    Etwagent__V1__Batch b = ETWAGENT__V1__BATCH__INIT;
    Etwagent__V1__Ledger ledger = ETWAGENT__V1__LEDGER__INIT;
    static Etwagent__V1__LedgerFamily *families[PAIRS_MAX];
    Etwagent__V1__Tombstone grave = ETWAGENT__V1__TOMBSTONE__INIT, *graves[] = {&grave};
    static uint32_t counters[PAIRS_MAX];
    static uint64_t values[PAIRS_MAX];
    size_t at = 0;
    assert_true(count <= PAIRS_MAX);
    for (size_t i = 0; i < count; i++) {
        counters[i] = pairs[i].counter < EA_COUNTER_COUNT ? number_of(pairs[i].counter) : (uint32_t)pairs[i].counter;
        values[i] = pairs[i].value;
    }
    while (at < count && !*pairs[at].family)
        at++;
    ledger.n_counters = ledger.n_values = at;
    ledger.counters = counters;
    ledger.values = values;
    ledger.incarnation = f->incarnation;
    ledger.utc_ns = (int64_t)(1000 * f->fold.position + 1);
    ledger.families = families;
    while (at < count) {
        Etwagent__V1__LedgerFamily *m = malloc(sizeof *m);
        size_t first = at;
        assert_non_null(m);
        etwagent__v1__ledger_family__init(m);
        while (at < count && strcmp(pairs[at].family, pairs[first].family) == 0)
            at++;
        m->family = (char *)(uintptr_t)pairs[first].family;
        m->counters = counters + first;
        m->values = values + first;
        m->n_counters = m->n_values = at - first;
        families[ledger.n_families++] = m;
    }
    if (count)
        b.ledger = &ledger;
    if (t) {
        grave.first = t->first;
        grave.last = t->last;
        grave.cause = t->cause;
        grave.event_count = t->event_count;
        grave.utc_min_ns = t->utc_min_ns;
        grave.utc_max_ns = t->utc_max_ns;
        b.n_tombstones = 1;
        b.tombstones = graves;
    }
    *ret_len = etwagent__v1__batch__get_packed_size(&b);
    uint8_t *data = malloc(*ret_len + 1);
    assert_non_null(data);
    etwagent__v1__batch__pack(&b, data);
    for (size_t i = 0; i < ledger.n_families; i++)
        free(families[i]);
    return data;
}

static inline void take_bytes(fixture *f, uint64_t number, uint32_t events, const uint8_t *data, size_t len_bytes) {
    ec_batch_row row = {.number = number,
                        .event_count = events,
                        .begin_utc_ns = (int64_t)number * 100,
                        .end_utc_ns = (int64_t)number * 100 + 99};
    if (f->reopen) {
        ec_ledger_close(f->ledger);
        must(ec_ledger_open(&f->ledger, f->tables, &f->fold, &err));
    }
    must(ec_ledger_take(f->ledger, &f->fold, &row, data, len_bytes, number - f->fold.position - 1, NULL, on_alert, f,
                        &err));
    f->fold.position = number;
    f->fold.batch_count++;
    f->fold.event_count += events;
    if (events)
        f->fold.end_utc_ns = row.end_utc_ns;
}

#define TAKE(f, number, events, ...)                                                                                   \
    do {                                                                                                               \
        const pair pairs_[] = {__VA_ARGS__};                                                                           \
        size_t n_;                                                                                                     \
        uint8_t *data_ = pack(f, pairs_, sizeof pairs_ / sizeof *pairs_, NULL, &n_);                                   \
        take_bytes(f, number, events, data_, n_);                                                                      \
        free(data_);                                                                                                   \
    } while (0)

static inline int64_t alerts(const fixture *f) {
    return ask(f, "SELECT count(*) FROM alerts WHERE stream = ?1");
}

/* The sides of the only alert of a kind. */
static inline void one_alert(const fixture *f, enum ec_alert_kind kind, const char *family, uint64_t batch,
                             uint64_t left, uint64_t right) {
    char sql[256];
    const char *const COLUMNS[] = {"count(*)", "number", "left_count", "right_count"};
    const uint64_t EXPECTED[] = {1, batch, left, right};
    for (int i = 0; i < 4; i++) {
        snprintf(sql, sizeof sql, "SELECT %s FROM alerts WHERE stream = ?1 AND kind = %d AND family = '%s'", COLUMNS[i],
                 kind, family);
        assert_int_equal(ask(f, sql), EXPECTED[i]);
    }
}

static inline void run_sql(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static inline int make(void **state) {
    int rc = scratch_make(state);
    return rc ? rc : ea_path_make_dirs(scratch_path("store"), &err);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, scratch_clear)

#endif
