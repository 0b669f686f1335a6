/* What a batch's sources say of their session: when it began, and whether it runs or is a file; and how many records of
 * losses are kept of a stream. */
#include "collector/state/gaps.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEQUENTIAL = 0x1, CIRCULAR = 0x2, NEW_FILE = 0x8, REAL_TIME = 0x100, SOURCES_MAX = 4, FREQUENCY = 10000000 };

typedef struct source {
    int clock;
    int64_t base_utc_ns;
    uint32_t log_file_mode;
} source;

static void must(int rc, const ea_err *err) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* The facts of a batch of one event that has these sources. */
static ec_session_facts facts_of(const source *from, size_t count) {
    ea_wire_source sources[SOURCES_MAX];
    ea_err err = {0};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_batch_view *view = NULL;
    ec_session_facts facts;
    made_record r;
    const uint8_t *data;
    size_t n;
    assert_true(count <= SOURCES_MAX);
    for (size_t i = 0; i < count; i++)
        sources[i] = (ea_wire_source){
            .name = "",
            .host = "MACHINE",
            .clock = {.type = from[i].clock, .frequency = FREQUENCY, .base_utc_ns = from[i].base_utc_ns},
            .pointer_size = 8,
            .cpu_count = 4,
            .log_file_mode = from[i].log_file_mode};
    ea_builder_options bo = {.sources = sources, .source_count = (uint32_t)count};
    ea_encoder_options eo = {.all_descriptions = 1, .stream = {1}};
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &bo, &err), &err);
    must(ea_encoder_create(&encoder, &eo, &err), &err);
    const ea_record *record = process_record(&r, OP_START, 1000, 4, 0, 1, "a.exe", "");
    assert_true(ea_builder_add(builder, record, ea_registry_find(registry, record)) >= 0);
    ea_open_batch *open = ea_builder_take(builder);
    assert_non_null(open);
    must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = 1}, &data, &n, &err), &err);
    must(ea_batch_open(&view, data, n, registry, &err), &err);
    assert_int_equal(ea_batch_source_count(view), count);
    ec_session_facts_of(view, &facts);
    ea_batch_close(view);
    ea_open_batch_release(open);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    return facts;
}

#define FACTS(...) facts_of((const source[]){__VA_ARGS__}, sizeof((const source[]){__VA_ARGS__}) / sizeof(source))

/* The first of the clocks' beginnings. A time of 0 is none, and a clock of system time does not begin with its session.
 */
static void test_begin(void **state) {
    (void)state;
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_CPU_CYCLES, 1, 0}).begin_utc_ns, 1);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 0, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_QPC, -500, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_SYSTEM_TIME, 500, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 700, 0}, {EA_CLOCK_QPC, 500, 0}, {EA_CLOCK_QPC, 600, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}, {EA_CLOCK_QPC, 700, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 0, 0}, {EA_CLOCK_QPC, 700, 0}, {EA_CLOCK_SYSTEM_TIME, 1, 0}).begin_utc_ns,
                     700);
}

/* A session runs when it delivers its events, and writes them to no file. */
static void test_live(void **state) {
    (void)state;
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME}).is_live, 1);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | SEQUENTIAL}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | CIRCULAR}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | NEW_FILE}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, SEQUENTIAL}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, SEQUENTIAL}, {EA_CLOCK_QPC, 500, REAL_TIME}).is_live, 1);
    assert_int_equal(FACTS({EA_CLOCK_SYSTEM_TIME, 500, REAL_TIME}, {EA_CLOCK_QPC, 500, 0}).is_live, 1);
}

static int64_t ask(ec_state_db *t, const char *sql) {
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(t), sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t found = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return found;
}

/* Windows' record of a lost event in a batch of the fold's stream, whose gaps are opened for it. */
static void add_lost_event(ec_state_db *t, const ec_state_fold *fold, uint64_t number) {
    const ec_lost_record lost = {.cause = EC_GAP_LOST_EVENT, .count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    const ec_batch_row row = {.number = number, .event_count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    ec_gaps *gaps = NULL;
    ea_err err = {0};
    must(ec_gaps_open(&gaps, t, fold, &err), &err);
    must(ec_gaps_begin(gaps, fold, &row, NULL, &err), &err);
    must(ec_gaps_recorded(gaps, &lost, 1, &err), &err);
    ec_gaps_close(gaps);
}

/* 10,000 records of losses are kept of a stream, and those of another one do not count. */
static void test_recorded_limit(void **state) {
    enum { RECORDED_MAX = 10000 };

    static const char FULL[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
                               " INSERT INTO gaps SELECT 2, i, i, 1001 + i % 3, 0, 0, NULL, 0, 0, 1, 1, 2 FROM n";
    static const char OWN[] = "SELECT count(*) FROM gaps WHERE stream = 1",
                      OTHERS[] = "SELECT count(*) FROM gaps WHERE stream = 2";
    const uint8_t one[EA_STREAM_ID_BYTES] = {1}, two[EA_STREAM_ID_BYTES] = {2};
    ec_state_db *t = NULL;
    ec_state_fold own, others;
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(t, &err), &err);
    must(ec_state_db_get_fold(t, "pc-1", one, &own, &err), &err);
    must(ec_state_db_get_fold(t, "pc-2", two, &others, &err), &err);
    assert_int_equal(own.stream_number, 1);
    assert_int_equal(others.stream_number, 2);
    assert_int_equal(sqlite3_exec(ec_state_db_database(t), FULL, NULL, NULL, NULL), SQLITE_OK);
    add_lost_event(t, &own, 1);
    assert_int_equal(ask(t, OWN), 1);
    add_lost_event(t, &others, RECORDED_MAX + 1);
    assert_int_equal(ask(t, OTHERS), RECORDED_MAX);
    must(ec_state_db_commit(t, &err), &err);
    ec_state_db_close(t);
}

/* A tombstone may claim any cause: one that is another kind of gap, or none of batches, is not believed. */
static void test_tombstone_cause(void **state) {
    static const struct {
        uint32_t claimed, kept;
    } LIST[] = {{999, 999}, {EC_GAP_MISSING, 0}, {EC_GAP_LOST_EVENT, 0}, {EC_GAP_LOST_FILE, 0}, {1004, 0}};

    static const char CAUSE[] = "SELECT cause FROM gaps ORDER BY first DESC LIMIT 1";
    const uint8_t one[EA_STREAM_ID_BYTES] = {1};
    const ec_batch_row row = {.number = 100, .event_count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    ec_state_db *t = NULL;
    ec_state_fold fold;
    ec_gaps *gaps = NULL;
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(t, &err), &err);
    must(ec_state_db_get_fold(t, "pc-1", one, &fold, &err), &err);
    must(ec_gaps_open(&gaps, t, &fold, &err), &err);
    must(ec_gaps_begin(gaps, &fold, &row, NULL, &err), &err);
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        const ea_tombstone claim = {
            .first = i + 1, .last = i + 1, .cause = LIST[i].claimed, .utc_min_ns = 1000, .utc_max_ns = 2000};
        must(ec_gaps_tombstone(gaps, &claim, &err), &err);
        assert_int_equal(ask(t, CAUSE), LIST[i].kept);
    }
    ec_gaps_close(gaps);
    must(ec_state_db_commit(t, &err), &err);
    ec_state_db_close(t);
}

static void test_names(void **state) {
    static const struct {
        uint32_t cause;
        const char *name, *kind;
    } LIST[] = {{999, "other", "batches"},
                {EC_GAP_MISSING, "missing", "batches"},
                {EC_GAP_LOST_EVENT, "RTLostEvent", "recorded"},
                {EC_GAP_LOST_FILE, "RTLostFile", "recorded"},
                {1004, "other", "batches"}};

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        assert_string_equal(ec_gap_name(LIST[i].cause), LIST[i].name);
        assert_string_equal(ec_gap_kind(LIST[i].cause), LIST[i].kind);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begin), cmocka_unit_test(test_live), cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_tombstone_cause, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_recorded_limit, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
