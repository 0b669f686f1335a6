/* The thread of the rules over a store of two hosts, in a clock in which each range of batches takes longer than a
 * turn: hosts take turns, and a detection has a bound of bytes. */
#include "collector/detect/detector.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "collector/state/state_worker.h"
#include "collector/store/sqlite.h"
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define EPOCH_NS INT64_C(1700000000000000000)

enum { MANY = 7, FEW = 2, LONG = 6000, WAIT_ROUNDS = 3000, LIMIT_S = 120 };

static const char RULE[] = "title: shell\nid: shell\nlogsource: {product: windows, category: process_creation}\n"
                           "detection: {s: {CommandLine|contains: ' /n'}, condition: s}\n";

/* Each range of batches takes a turn and a half. */
static _Atomic int64_t passed_ns;

int64_t __real_ea_monotonic_ns(void);
int64_t __wrap_ea_monotonic_ns(void);
int __real_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err);
int __wrap_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err);

int64_t __wrap_ea_monotonic_ns(void) {
    return __real_ea_monotonic_ns() + atomic_load(&passed_ns);
}

int __wrap_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err) {
    atomic_fetch_add(&passed_ns, INT64_C(1500000) * EC_DETECTOR_TURN_MS);
    return __real_ec_detections_judged(d, s, next, is_all, err);
}

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* The start of a process with this command line. */
static const ea_record *start_record(made_record *r, uint8_t *payload, size_t capacity, int64_t time, uint32_t pid,
                                     const char *command_line) {
    (void)process_record(r, OP_START, time, pid, 4, 0x800 + pid, "shell.exe", "");
    size_t head = r->len - 6, len = head; /* three empty texts at the end */
    memcpy(payload, r->payload, head);
    for (const char *at = command_line;; at++) {
        assert_true(len + 6 <= capacity);
        payload[len++] = (uint8_t)*at;
        payload[len++] = 0;
        if (!*at)
            break;
    }
    memset(payload + len, 0, 4);
    r->record.payload = payload;
    r->record.payload_bytes = (uint16_t)(len + 4);
    return &r->record;
}

/* Batches of one event each. */
static void add_batches(ec_store *store, const char *host, uint8_t stream, uint64_t count, const char *command_line) {
    static uint8_t payload[UINT16_MAX];
    ea_wire_source source = {.name = "test",
                             .host = "MACHINE",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 4};
    ea_encoder_options eo = {.all_descriptions = 0};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    made_record r;
    ea_err err = {0};
    memset(eo.stream, stream, sizeof eo.stream);
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &(ea_builder_options){.sources = &source, .source_count = 1}, &err), &err);
    must(ea_encoder_create(&encoder, &eo, &err), &err);
    for (uint64_t i = 1; i <= count; i++) {
        const uint8_t *data;
        size_t len;
        const ea_record *record =
            start_record(&r, payload, sizeof payload, (int64_t)i * 1000, (uint32_t)(4 * i), command_line);
        assert_int_equal(ea_builder_add(builder, record, ea_registry_find(registry, record)), 0);
        ea_open_batch *open = ea_builder_take(builder);
        assert_non_null(open);
        must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = i}, &data, &len, &err), &err);
        ea_open_batch_release(open);
        assert_int_equal(ec_store_append(store, host, data, len, &err), EC_STORED);
    }
    must(ec_store_commit(store, &err), &err);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

/* A store that has been seen while it was empty, so that what comes then is to be judged. */
static ec_store *open_seen(void) {
    ec_store *store = NULL;
    ec_detections *d = NULL;
    uint64_t count = 0;
    ea_err err = {0};
    must(ec_store_open(&store, scratch, &(ec_store_options){.writable = 1}, &err), &err);
    must(ec_detections_open(&d, scratch, &err), &err);
    must(ec_detections_notice(d, store, 1, &count, &err), &err);
    ec_detections_close(d);
    return store;
}

static int64_t ask(const char *sql) {
    ec_incidents *file = NULL;
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    must(ec_incidents_open(&file, scratch, 0, &err), &err);
    must(ec_sqlite_prepare(ec_incidents_database(file), &st, sql, "ask", &err), &err);
    assert_int_equal(ec_sqlite_step(st, "ask", &err), 1);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    ec_incidents_close(file);
    return n;
}

/* Runs the rules until so many are kept. */
static void judge(ec_store *store, int64_t count) {
    ec_state_worker *history = NULL;
    ec_detector *detector = NULL;
    ea_err err = {0};
    ec_store_close(store);
    must(ec_state_worker_open(&history, scratch, &(ec_state_worker_options){.hole_wait_ns = -1}, &err), &err);
    must(ec_state_worker_fold(history, NULL, &err), &err);
    ec_state_worker_close(history);
    must(ea_path_make_dirs(scratch_path("rules"), &err), &err);
    FILE *f = fopen(scratch_path("rules/shell.yml"), "w");
    assert_non_null(f);
    assert_true(fputs(RULE, f) >= 0);
    fclose(f);
    assert_int_equal(mkfifo(scratch_path("rules/pipe.yml"), 0600), 0); /* never written to */
    alarm(LIMIT_S);
    const ec_detector_options options = {
        .store = scratch, .rules = scratch_path("rules"), .counters = calloc(1, sizeof(ea_counters))};
    assert_non_null(options.counters);
    must(ec_detector_start(&detector, &options, &err), &err);
    for (int i = 0; i < WAIT_ROUNDS && ask("SELECT count(*) FROM detections") < count; i++)
        ea_sleep_ns(10000000);
    ec_detector_stop(detector);
    free(options.counters);
    assert_int_equal(ask("SELECT count(*) FROM detections"), count);
}

static void hosts_take_turns(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "a-busy", 1, MANY, "shell.exe /n");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    judge(store, MANY + FEW);
    /* of its first batch, which was there while the busy one had six that were not judged */
    assert_int_equal(ask("SELECT min(detection_id) FROM detections WHERE host = 'b-quiet'"), 2);
    assert_int_equal(ask("SELECT count(DISTINCT batch) FROM detections WHERE host = 'a-busy'"), MANY);
}

static void a_detection_is_bounded(void **state) {
    (void)state;
    static char text[LONG + 16];
    ec_store *store = open_seen();
    memset(text, 1, LONG);
    memcpy(text, "shell.exe /n", sizeof "shell.exe /n" - 1);
    add_batches(store, "pc", 1, 1, text); /* each of its characters takes six bytes of JSON */
    judge(store, 1);
    assert_true(ask("SELECT max(length(fields)) FROM detections") <= EC_DETECTOR_FIELD_MAX + 1000);
    assert_int_equal(ask("SELECT json_valid(chain) AND length(chain) <= 8192 AND json_array_length(chain) > 0 AND"
                         " json_extract(chain, '$[0].image_name') = 'shell.exe' FROM detections"),
                     1);
    assert_int_equal(ask("SELECT json_extract(fields, '$.CommandLine') LIKE 'shell.exe /n%' FROM detections"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_take_turns, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_detection_is_bounded, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
