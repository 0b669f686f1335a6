/* The thread of the rules over a store of several hosts, in a clock in which each range of batches takes longer than a
 * turn: hosts take turns, those that took least come first, what they take is charged, a batch that needs too much
 * memory costs itself alone, and a detection has a bound of bytes. */
#include "collector/detect/detector.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "collector/state/state_worker.h"
#include "collector/store/sqlite.h"
#include "collector/store/sqlite_memory.h"
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
#define RANGE_NS (INT64_C(1000000) * TURNS * EC_DETECTOR_TURN_MS)

enum { MANY = 7, FEW = 2, BUSY_HOSTS = 12, TURNS = 10, LONG = 6000, WAIT_ROUNDS = 3000, LIMIT_S = 120 };

static const char RULE[] = "title: shell\nid: shell\nlogsource: {product: windows, category: process_creation}\n"
                           "detection: {s: {CommandLine|contains: ' /n'}, condition: s}\n";

/* Each range of batches takes TURNS turns of processor time. */
static _Atomic int64_t passed_ns;
static atomic_int judged_count;
static void (*after_judged)(int count); /* in the rules' thread; NULL: nothing */
static int has_large_batch;             /* of host a-busy, batch 3 needs more memory than SQLite gets */

int64_t __real_ea_thread_cpu_ns(void);
int64_t __wrap_ea_thread_cpu_ns(void);
int __real_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err);
int __wrap_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err);
int __real_sqlite3_step(sqlite3_stmt *st);
int __wrap_sqlite3_step(sqlite3_stmt *st);

int64_t __wrap_ea_thread_cpu_ns(void) {
    return __real_ea_thread_cpu_ns() + atomic_load(&passed_ns);
}

int __wrap_ec_detections_judged(ec_detections *d, const ec_detections_stream *s, uint64_t next, int is_all,
                                ea_err *err) {
    atomic_fetch_add(&passed_ns, RANGE_NS);
    int rc = __real_ec_detections_judged(d, s, next, is_all, err);
    int count = atomic_fetch_add(&judged_count, 1) + 1;
    if (!rc && after_judged)
        after_judged(count);
    return rc;
}

int __wrap_sqlite3_step(sqlite3_stmt *st) {
    const char *sql = sqlite3_sql(st);
    if (has_large_batch && sql && strstr(sql, "\"Process/Start\" AS e")) {
        char *bound = sqlite3_expanded_sql(st);
        int is_large = bound && strstr(bound, "e.host = 'a-busy'") && strstr(bound, "e.batch >= 3 ");
        sqlite3_free(bound);
        if (is_large) {
            assert_null(sqlite3_malloc64(EC_DETECTOR_SQL_MAX + 1));
            return SQLITE_NOMEM;
        }
    }
    return __real_sqlite3_step(st);
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
        int stored = ec_store_append(store, host, data, len, &err);
        assert_true(stored == EC_STORED || stored == EC_DUPLICATE);
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

static void fold(void) {
    ec_state_worker *history = NULL;
    ea_err err = {0};
    must(ec_state_worker_open(&history, scratch, &(ec_state_worker_options){.hole_wait_ns = -1}, &err), &err);
    must(ec_state_worker_fold(history, NULL, &err), &err);
    ec_state_worker_close(history);
}

/* With these rules, and the store's folder. */
static ec_detector *start(ec_detector_options *options) {
    ec_detector *detector = NULL;
    ea_err err = {0};
    must(ea_path_make_dirs(scratch_path("rules"), &err), &err);
    FILE *f = fopen(scratch_path("rules/shell.yml"), "w");
    assert_non_null(f);
    assert_true(fputs(RULE, f) >= 0);
    fclose(f);
    assert_int_equal(mkfifo(scratch_path("rules/pipe.yml"), 0600), 0); /* never written to */
    alarm(LIMIT_S);
    options->store = scratch;
    options->rules = scratch_path("rules");
    options->counters = calloc(1, sizeof(ea_counters));
    assert_non_null(options->counters);
    atomic_store(&judged_count, 0);
    must(ec_detector_start(&detector, options, &err), &err);
    return detector;
}

static void wait_for(int64_t count) {
    for (int i = 0; i < WAIT_ROUNDS && ask("SELECT count(*) FROM detections") < count; i++)
        ea_sleep_ns(10000000);
    assert_int_equal(ask("SELECT count(*) FROM detections"), count);
}

/* Runs the rules until so many are kept and a counter is at least so much, and returns the counter. */
static uint64_t judge_as(ec_store *store, ec_detector_options options, int64_t count, enum ea_counter counter,
                         uint64_t least) {
    ec_store_close(store);
    fold();
    ec_detector *detector = start(&options);
    for (int i = 0; i < WAIT_ROUNDS && (ask("SELECT count(*) FROM detections") < count ||
                                        ea_counter_get(options.counters, counter) < least);
         i++)
        ea_sleep_ns(10000000);
    ec_detector_stop(detector);
    uint64_t counted = ea_counter_get(options.counters, counter);
    free(options.counters);
    assert_int_equal(ask("SELECT count(*) FROM detections"), count);
    return counted;
}

static void judge(ec_store *store, int64_t count) {
    assert_int_equal(judge_as(store, (ec_detector_options){.arg = NULL}, count, EA_COUNT_rules_skipped, 0), 0);
}

/* As if the batches had arrived so long ago. */
static void arrive(ec_store *store, const int64_t *ages_ms, size_t count, int64_t now_ns) {
    char sql[300];
    for (size_t i = 0; i < count; i++) {
        int64_t ns = now_ns - ages_ms[i] * 1000000;
        snprintf(sql, sizeof sql,
                 "UPDATE batches SET received_utc_ns = %lld WHERE number = %zu;"
                 "UPDATE streams SET received_last_utc_ns = %lld",
                 (long long)ns, i + 1, (long long)ns);
        assert_int_equal(sqlite3_exec(ec_store_database(store), sql, NULL, NULL, NULL), SQLITE_OK);
    }
}

static const int64_t OLD_MS[MANY] = {60000, 60000, 60000, 60000, 60000, 60000, 60000};

static void hosts_take_turns(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "a-busy", 1, MANY, "shell.exe /n");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    judge(store, MANY + FEW);
    /* of its first batch, which was there while the busy one had six that were not judged */
    assert_int_equal(ask("SELECT min(detection_id) FROM detections WHERE host = 'b-quiet'"), 2);
    assert_int_equal(ask("SELECT count(DISTINCT batch) FROM detections WHERE host = 'a-busy'"), MANY);
}

/* Facts of what it contains may be in the batches that come meanwhile. */
static void each_batch_is_held(void **state) {
    static const int64_t AGES_MS[] = {60000, 500, 100};
    const int64_t now_ns = ea_utc_ns();
    char sql[200];
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "pc", 1, 3, "shell.exe /n");
    arrive(store, AGES_MS, 3, now_ns);
    judge(store, 3);
    for (int i = 1; i < 3; i++) {
        snprintf(sql, sizeof sql, "SELECT found_utc_ns >= %lld FROM detections WHERE batch = %d",
                 (long long)(now_ns + (EC_DETECTOR_HOLD_MS - AGES_MS[i]) * 1000000), i + 1);
        assert_int_equal(ask(sql), 1);
    }
}

static void the_history_has_what_came_meanwhile(void **state) {
    static const int64_t AGES_MS[] = {60000, 31000, 30000};
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "pc", 1, 2, "shell.exe /n");
    fold();
    add_batches(store, "pc", 1, 3, "shell.exe /n"); /* the first two are known */
    arrive(store, AGES_MS, 3, ea_utc_ns());
    ec_store_close(store);
    ec_detector_options options = {.arg = NULL};
    ec_detector *detector = start(&options);
    wait_for(1);
    ea_sleep_ns(1500000000);
    wait_for(1); /* not the second batch: what came within 2 s of it is not in the history */
    fold();
    wait_for(3);
    ec_detector_stop(detector);
    free(options.counters);
}

/* Once all hosts have taken a turn, and each has more, another one's batches arrive. */
static void add_another(int count) {
    ec_store *store = NULL;
    ea_err err = {0};
    if (count != BUSY_HOSTS + 1)
        return;
    must(ec_store_open(&store, scratch, &(ec_store_options){.writable = 1}, &err), &err);
    add_batches(store, "z-other", 99, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    ec_store_close(store);
    fold();
}

static void busy_hosts_wait_for_the_others(void **state) {
    (void)state;
    ec_store *store = open_seen();
    for (int i = 0; i < BUSY_HOSTS; i++) {
        char host[8];
        snprintf(host, sizeof host, "h%02d", i);
        add_batches(store, host, (uint8_t)(i + 1), 4, "shell.exe /n");
    }
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    after_judged = add_another;
    judge(store, 4 * BUSY_HOSTS + FEW);
    after_judged = NULL;
    /* not after a turn of each, but after the round in which they arrived */
    int64_t first = ask("SELECT min(detection_id) FROM detections WHERE host = 'z-other'");
    assert_in_range(first, BUSY_HOSTS + 2, BUSY_HOSTS + 3);
}

static _Atomic int64_t busy_ns, quiet_ns;

static void on_used(void *arg, const char *host, int64_t cpu_ns) {
    (void)arg;
    atomic_fetch_add(strcmp(host, "a-busy") == 0 ? &busy_ns : &quiet_ns, cpu_ns);
}

static int has_room(void *arg, const char *host) {
    (void)arg;
    return strcmp(host, "a-busy") != 0;
}

/* A host above its quota has one range in a while; what its range took, and what the others take, is charged. */
static void judging_is_charged(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "a-busy", 1, MANY, "shell.exe /n");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    uint64_t waited = judge_as(store, (ec_detector_options){.on_used = on_used, .has_room = has_room}, 1 + FEW,
                               EA_COUNT_rules_waited, 1);
    assert_true(waited > 0);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE host = 'a-busy'"), 1);
    assert_in_range(atomic_load(&busy_ns), RANGE_NS, 2 * RANGE_NS - 1);
    assert_in_range(atomic_load(&quiet_ns), FEW * RANGE_NS, (FEW + 1) * RANGE_NS - 1);
}

static void a_large_batch_costs_itself(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "a-busy", 1, MANY, "shell.exe /n");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    has_large_batch = 1;
    uint64_t skipped = judge_as(store, (ec_detector_options){.arg = NULL}, MANY + FEW - 1, EA_COUNT_rules_skipped, 1);
    has_large_batch = 0;
    assert_int_equal(skipped, 1);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE host = 'a-busy' AND batch = 3"), 0);
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
    ea_err err = {0};
    must(ec_sqlite_memory_start(&err), &err);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_take_turns, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(each_batch_is_held, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(the_history_has_what_came_meanwhile, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(busy_hosts_wait_for_the_others, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(judging_is_charged, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_large_batch_costs_itself, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_detection_is_bounded, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
