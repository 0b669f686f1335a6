/* Streams with parts of a recording, which triggers send, and which have no numbers of the agent: a keyframe raises an
 * alert where what came before it is here, and not where a part begins; they do not hide that a run has ended. */
#include "collector/state/ledger_report.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/state/keyframe.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EPOCH_NS INT64_C(1700000000000000000) /* UTC of raw time 0; the test's clock ticks in ns */
#define MS       INT64_C(1000000)

static const char HOST[] = "alpha";

/* A machine, and the stream at hand. */
typedef struct world {
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    ea_machine *machine;
    ec_store *store;
    uint64_t number;
    int64_t now_ns;
    made_record r;
} world;

static void check(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static int setup(void **state) {
    static const ea_wire_source SOURCE = {
        .name = "test",
        .host = "MACHINE",
        .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
        .pointer_size = 8,
        .cpu_count = 4};
    world *w = calloc(1, sizeof *w);
    ea_err err = {0};
    assert_non_null(w);
    check(scratch_make(state), &err);
    check(ea_registry_create(&w->registry, 0, &err), &err);
    check(ea_builder_create(&w->builder, &(ea_builder_options){.sources = &SOURCE, .source_count = 1}, &err), &err);
    check(ea_machine_create(&w->machine, &(ea_machine_options){0}, &err), &err);
    check(ec_store_open(&w->store, scratch_path("store"), &(ec_store_options){.writable = 1}, &err), &err);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    ec_store_close(w->store);
    ea_encoder_destroy(w->encoder);
    ea_machine_destroy(w->machine);
    ea_builder_destroy(w->builder);
    ea_registry_destroy(w->registry);
    free(w);
    return scratch_clear(state);
}

/* The stream whose batches follow, from this number on: one of a run. */
static void turn_to(world *w, uint8_t run, uint8_t last, uint64_t number) {
    ea_encoder_options options = {.zstd_level = 1};
    ea_err err = {0};
    memset(options.stream, run, sizeof options.stream);
    options.stream[EA_STREAM_ID_BYTES - 1] = last;
    ea_encoder_destroy(w->encoder);
    check(ea_encoder_create(&w->encoder, &options, &err), &err);
    w->number = number - 1;
}

/* Stores the open batch. ledger: NULL: it has no numbers. */
static void store_batch(world *w, const ea_counters *ledger) {
    ea_batch_stamp stamp = {
        .number = ++w->number, .ledger = ledger, .ledger_utc_ns = EPOCH_NS + w->now_ns, .incarnation = 1};
    ea_open_batch *open = ea_builder_take(w->builder);
    const uint8_t *data;
    size_t n;
    ea_err err = {0};
    assert_non_null(open);
    check(ea_encoder_encode(w->encoder, open, &stamp, &data, &n, &err), &err);
    ea_open_batch_release(open);
    assert_int_equal(ec_store_append(w->store, HOST, data, n, &err), EC_STORED);
    check(ec_store_commit(w->store, &err), &err);
}

static void fold(void) {
    ec_state_worker *h;
    ea_err err = {0};
    check(ec_state_worker_open(&h, scratch_path("store"), &(ec_state_worker_options){0}, &err), &err);
    check(ec_state_worker_fold(h, NULL, &err), &err);
    ec_state_worker_close(h);
}

static int add(void *arg, const ea_record *record) {
    world *w = arg;
    assert_int_equal(ea_builder_add(w->builder, record, ea_registry_find(w->registry, record)), 0);
    return 0;
}

/* A process begins, which the agent knows from then on; is_lost: the collector does not get it. */
static void start_process(world *w, int64_t at_ms, uint32_t pid, int is_lost) {
    ea_err err = {0};
    w->now_ns = at_ms * MS;
    const ea_record *r = process_record(&w->r, OP_START, at_ms * MS, pid, 4, 0x800, "p.exe", "p");
    check(ea_machine_apply(w->machine, r, ea_registry_find(w->registry, r), EPOCH_NS + at_ms * MS, &err), &err);
    if (!is_lost)
        (void)add(w, r);
}

static void put_keyframe(world *w, int64_t at_ms) {
    ea_err err = {0};
    check(ea_keyframe_write(w->machine, NULL, 1, &(ea_record){.time_raw = at_ms * MS}, add, w, &err), &err);
    store_batch(w, NULL);
}

static void keyframes_inside_a_part_raise_alerts(void **state) {
    world *w = *state;
    turn_to(w, 7, 1, 1);
    start_process(w, 500, 4, 1);
    start_process(w, 1000, 8, 0);
    store_batch(w, NULL);
    put_keyframe(w, 1000); /* 2: the first one */
    start_process(w, 1050, 16, 1);
    start_process(w, 1100, 12, 0);
    store_batch(w, NULL);
    put_keyframe(w, 1100); /* 4: of process 16 nothing came */
    start_process(w, 4000, 20, 1);
    put_keyframe(w, 5000); /* 5: a part begins */
    start_process(w, 5100, 24, 0);
    store_batch(w, NULL);
    put_keyframe(w, 5100); /* 7: nothing differs */
    start_process(w, 8000, 28, 1);
    start_process(w, 9000, 32, 0);
    store_batch(w, NULL);  /* 8: a part without a keyframe before it */
    put_keyframe(w, 9000); /* 9 */
    start_process(w, 9050, 36, 1);
    start_process(w, 9100, 40, 0);
    store_batch(w, NULL);
    put_keyframe(w, 9100); /* 11: of process 36 nothing came */
    fold();
    ec_state_db *t;
    sqlite3_stmt *s;
    ea_err err = {0};
    check(ec_state_db_open(&t, scratch_path("store"), 0, &err), &err);
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(t),
                                        "SELECT group_concat(number) FROM (SELECT number FROM alerts WHERE kind = ?1"
                                        " ORDER BY number)",
                                        -1, &s, NULL),
                     SQLITE_OK);
    sqlite3_bind_int(s, 1, EC_ALERT_KEYFRAME);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const char *numbers = (const char *)sqlite3_column_text(s, 0);
    assert_string_equal(numbers ? numbers : "", "4,11");
    sqlite3_finalize(s);
    ec_state_db_close(t);
}

/* A batch of a stream, folded; ended: 1: with numbers that have its end, 0: with others, -1: of a recording. */
static void come(world *w, uint8_t run, uint8_t last, uint64_t number, int64_t at_ms, int ended) {
    ea_counters ledger = {0};
    turn_to(w, run, last, number);
    start_process(w, at_ms, 8, 0);
    ea_count(&ledger, EA_COUNT_keyframes_written, 1);
    if (ended > 0)
        ea_count(&ledger, EA_COUNT_stream_ended, 1);
    store_batch(w, ended < 0 ? NULL : &ledger);
    fold();
}

/* Whether the machine's newest run has ended, and then at which second. */
static int64_t ended_at(const world *w) {
    ec_state_db *t;
    ec_ends *ends;
    int64_t utc_ns = 0;
    ea_err err = {0};
    check(ec_state_db_open(&t, scratch_path("store"), 0, &err), &err);
    check(ec_ends_open(&ends, t, ec_store_database(w->store), &err), &err);
    int rc = ec_ends_of(ends, HOST, &utc_ns, &err);
    check(rc, &err);
    ec_ends_close(ends);
    ec_state_db_close(t);
    return rc ? (utc_ns - EPOCH_NS) / (1000 * MS) : -1;
}

static void parts_do_not_hide_an_end(void **state) {
    world *w = *state;
    come(w, 5, 1, 1, 1000, 1);
    assert_int_equal(ended_at(w), 1);
    come(w, 7, 1, 1, 2000, 0);
    assert_int_equal(ended_at(w), -1);
    come(w, 5, 2, 1, 1000, -1); /* of the earlier run's recording */
    assert_int_equal(ended_at(w), -1);
    come(w, 7, 1, 2, 3000, 1);
    assert_int_equal(ended_at(w), 3);
    come(w, 7, 2, 1, 2500, -1);
    assert_int_equal(ended_at(w), 3);
    come(w, 5, 2, 2, 1000, -1);
    assert_int_equal(ended_at(w), 3);
    come(w, 7, 3, 1, 3000, 0); /* another session of the run */
    assert_int_equal(ended_at(w), -1);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(keyframes_inside_a_part_raise_alerts),
        T(parts_do_not_hide_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
