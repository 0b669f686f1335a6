/* The thread of the rules over a store of several hosts, in a clock in which each range of batches takes longer than a
 * turn: hosts take turns, those that took least come first, what they take is charged, a batch that needs too much
 * memory costs itself alone, and a detection has a bound of bytes. */
#include "collector/detect/detector.h"
#include "collector/detect/matched_row.h"
#include "collector/detect/rules_row.h"
#include "collector/query/scan/archive.h"
#include "collector/query/scan/cell.h"
#include "collector/query/sql/sql.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "collector/state/state_worker.h"
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

static const char DNS_RULE[] = "title: dns\nid: dns\nlogsource: {product: windows, category: dns_query}\n"
                               "detection: {s: {QueryName: evil}, condition: s}\n";
static const char RULE[] = "title: shell\nid: shell\nlogsource: {product: windows, category: process_creation}\n"
                           "detection: {s: {CommandLine|contains: ' /n'}, condition: s}\n";

/* Each range of batches takes TURNS turns of processor time. */
static _Atomic int64_t passed_ns;
static atomic_int judged_count;
static void (*after_judged)(int count); /* in the rules' thread; NULL: nothing */
static int reads_long;                  /* to see that nothing of host a-busy can be judged takes longer than a round */
static int has_large_batch;             /* of host a-busy, batch 3 needs more memory than SQLite gets */
static atomic_int module_reads, module_searches; /* of the table, for a process; that an index finds */
static int has_refused_row;                      /* of host a-busy, SQLite refuses batch 3, position 1 */

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

/* Whether SQLite finds the modules of a statement by the numbers of their processes. */
static int is_searched_by_pid(sqlite3_stmt *st) {
    char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sqlite3_sql(st));
    sqlite3_stmt *plan = NULL;
    int is_searched = 0;
    assert_int_equal(sqlite3_prepare_v2(sqlite3_db_handle(st), sql, -1, &plan, NULL), SQLITE_OK);
    while (__real_sqlite3_step(plan) == SQLITE_ROW)
        is_searched |= strstr((const char *)sqlite3_column_text(plan, 3), "modules_pid (stream=? AND pid=?") != NULL;
    sqlite3_finalize(plan);
    sqlite3_free(sql);
    return is_searched;
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
    if (has_refused_row && sql && strstr(sql, "\"Process/Start\" AS e")) {
        char *bound = sqlite3_expanded_sql(st);
        const char *at = bound && strstr(bound, "e.host = 'a-busy'") ? strstr(bound, "e.batch >= ") : NULL;
        int range[4] = {0}, is_refused = 0;
        if (at && sscanf(at, "e.batch >= %d AND e.batch <= %d AND e.position >= %d AND e.position <= %d", range,
                         range + 1, range + 2, range + 3) == 4)
            is_refused = range[0] <= 3 && range[1] >= 3 && range[2] <= 1 && range[3] >= 1;
        sqlite3_free(bound);
        if (is_refused)
            return SQLITE_ERROR;
    }
    if (sql && strncmp(sql, "SELECT", 6) == 0 && strstr(sql, "FROM modules t") && strstr(sql, "t.pid = ")) {
        atomic_fetch_add(&module_reads, 1);
        atomic_fetch_add(&module_searches, is_searched_by_pid(st));
    }
    if (reads_long && sql && strstr(sql, "s.received_last_utc_ns")) {
        char *bound = sqlite3_expanded_sql(st);
        if (bound && strstr(bound, "s.agent = 'a-busy'"))
            atomic_fetch_add(&passed_ns, INT64_C(1000000) * (EC_DETECTOR_ROUND_MS + 1));
        sqlite3_free(bound);
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

/* Where records become batches of one event each. */
typedef struct sender {
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
} sender;

static sender open_sender(uint8_t stream) {
    ea_wire_source source = {.name = "test",
                             .host = "MACHINE",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 4};
    ea_encoder_options eo = {.all_descriptions = 0};
    sender s = {.registry = NULL};
    ea_err err = {0};
    memset(eo.stream, stream, sizeof eo.stream);
    must(ea_registry_create(&s.registry, 0, &err), &err);
    must(ea_builder_create(&s.builder, &(ea_builder_options){.sources = &source, .source_count = 1}, &err), &err);
    must(ea_encoder_create(&s.encoder, &eo, &err), &err);
    return s;
}

static void add_record(sender *s, const ea_record *record) {
    assert_int_equal(ea_builder_add(s->builder, record, ea_registry_find(s->registry, record)), 0);
}

static void send_record(sender *s, ec_store *store, const char *host, uint64_t number, const ea_record *record) {
    const uint8_t *data;
    size_t len;
    ea_err err = {0};
    add_record(s, record);
    ea_open_batch *open = ea_builder_take(s->builder);
    assert_non_null(open);
    must(ea_encoder_encode(s->encoder, open, &(ea_batch_stamp){.number = number}, &data, &len, &err), &err);
    ea_open_batch_release(open);
    int stored = ec_store_append(store, host, data, len, &err);
    assert_true(stored == EC_STORED || stored == EC_DUPLICATE);
}

static void close_sender(sender *s, ec_store *store) {
    ea_err err = {0};
    must(ec_store_commit(store, &err), &err);
    ea_encoder_destroy(s->encoder);
    ea_builder_destroy(s->builder);
    ea_registry_destroy(s->registry);
}

static void add_batches(ec_store *store, const char *host, uint8_t stream, uint64_t count, const char *command_line) {
    static uint8_t payload[UINT16_MAX];
    made_record r;
    sender s = open_sender(stream);
    for (uint64_t i = 1; i <= count; i++)
        send_record(&s, store, host, i,
                    start_record(&r, payload, sizeof payload, (int64_t)i * 1000, (uint32_t)(4 * i), command_line));
    close_sender(&s, store);
}

/* A batch of one event that describes itself, as any process of a machine can write one: called name, with this field
 * if it has one. */
static void add_own_event(ec_store *store, const char *host, uint8_t stream, uint16_t id, const char *provider,
                          const char *name, const char *field, const char *value) {
    uint8_t traits[100] = {0}, metadata[100] = {0};
    uint16_t traits_bytes = (uint16_t)(2 + strlen(provider) + 1), bytes = 3;
    memcpy(traits, &traits_bytes, 2);
    memcpy(traits + 2, provider, strlen(provider));
    memcpy(metadata + bytes, name, strlen(name));
    bytes = (uint16_t)(bytes + strlen(name) + 1);
    if (field) {
        memcpy(metadata + bytes, field, strlen(field));
        bytes = (uint16_t)(bytes + strlen(field) + 1);
        metadata[bytes++] = 2; /* ANSI, up to a NUL */
    }
    memcpy(metadata, &bytes, 2);
    ea_ext ext[2] = {{.type = EA_EXT_PROV_TRAITS, .data = traits, .size_bytes = traits_bytes},
                     {.type = EA_EXT_SCHEMA_TL, .data = metadata, .size_bytes = bytes}};
    const ea_record record = {.provider = {{stream}},
                              .id = id,
                              .pointer_size = 8,
                              .flags = EA_FLAG_64_BIT_HEADER,
                              .time_raw = 1000,
                              .pid = 4,
                              .tid = 8,
                              .ext = ext,
                              .ext_count = 2,
                              .payload = (const uint8_t *)value,
                              .payload_bytes = (uint16_t)(field ? strlen(value) + 1 : 0)};
    sender s = open_sender(stream);
    send_record(&s, store, host, 1, &record);
    close_sender(&s, store);
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

/* What is looked at without being judged counts, too: a host of which nothing is judged would come first for ever. */
static void looking_at_a_host_is_charged(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    fold();
    add_batches(store, "a-busy", 1, MANY, "shell.exe /n"); /* the history does not have it */
    ec_store_close(store);
    atomic_store(&busy_ns, 0);
    reads_long = 1;
    ec_detector_options options = {.on_used = on_used};
    ec_detector *detector = start(&options);
    wait_for(FEW);
    ec_detector_stop(detector);
    reads_long = 0;
    free(options.counters);
    assert_true(atomic_load(&busy_ns) > 0);
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

static char notes[4000];

static void on_note(void *arg, const char *text) {
    (void)arg;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", text);
}

static void add_rule(const char *name, const char *text) {
    ea_err err = {0};
    must(ea_path_make_dirs(scratch_path("rules"), &err), &err);
    FILE *f = fopen(scratch_path(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* An agent's event without the fields of what it is called costs the others nothing. */
static void a_class_without_the_fields_is_left(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_own_event(store, "a-thief", 1, 7, "Any", "DNS-Client/3008", NULL, "");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    add_rule("rules/dns.yml", DNS_RULE);
    *notes = 0;
    assert_int_equal(judge_as(store, (ec_detector_options){.on_note = on_note}, FEW, EA_COUNT_rules_skipped, 0), 0);
    const char *left = strstr(notes, "not run on events of DNS-Client/3008");
    assert_non_null(left);
    assert_null(strstr(left + 1, "not run on events of")); /* once */
}

/* ... and hides no other one's that is called so by its provider and id. */
static void a_class_hides_no_other(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_own_event(store, "a-thief", 1, 7, "Any", "DNS-Client/3008", NULL, "");
    add_own_event(store, "b-quiet", 2, 3008, "Microsoft-Windows-DNS-Client", "Query", "QueryName", "evil");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    add_rule("rules/dns.yml", DNS_RULE);
    judge(store, 1);
    assert_int_equal(ask("SELECT host = 'b-quiet' AND rule = 'dns' FROM detections"), 1);
}

/* Events of other types that are called as the system's are take no column of theirs: neither a head's, nor a field's.
 */
static void a_class_changes_no_columns(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_own_event(store, "a-thief", 1, 7, "Any", "Process/Start", "batch", "x");
    add_own_event(store, "a-thief", 3, 7, "Other", "Process/Start", "commandline", "shell.exe /n");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    judge(store, FEW + 1);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE host = 'b-quiet' AND batch > 0"), FEW);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE host = 'a-thief'"), 1); /* its own is judged, too */
}

/* ... of which there are bounded numbers, and the system's own, which more hosts have sent, is among them. */
static void twins_are_bounded(void **state) {
    char field[8];
    (void)state;
    ec_store *store = open_seen();
    for (unsigned i = 0; i < EC_CLASS_PARTS_MAX + 8; i++) {
        snprintf(field, sizeof field, "pid%u", i); /* the first takes the name of no column, but differs in a kind */
        add_own_event(store, "a-thief", (uint8_t)(10 + i), 7, field, "Process/Start", i ? field : "ProcessId", "x");
    }
    add_own_event(store, "a-thief", 9, 7, "Any", "Process/Start", "batch", "x");
    add_batches(store, "b-quiet", 2, FEW, "shell.exe /n");
    add_batches(store, "c-quiet", 3, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    *notes = 0;
    assert_int_equal(judge_as(store, (ec_detector_options){.on_note = on_note}, 2 * FEW, EA_COUNT_rules_refused, 0), 0);
    assert_non_null(strstr(notes, "it has more than 32 kinds of columns; 10 are left out"));
}

/* Events of the same batch, and later batches, are judged; the one is counted, with the reason. */
static void a_row_that_sql_refuses_is_skipped(void **state) {
    static uint8_t payload[UINT16_MAX];
    made_record r;
    (void)state;
    ec_store *store = open_seen();
    sender s = open_sender(1);
    for (uint64_t i = 1; i <= MANY; i++) {
        for (uint32_t k = 0; k < 2; k++)
            add_record(&s, start_record(&r, payload, sizeof payload, (int64_t)i * 1000 + k, (uint32_t)(12 * i + 4 * k),
                                        "shell.exe /n"));
        send_record(
            &s, store, "a-busy", i,
            start_record(&r, payload, sizeof payload, (int64_t)i * 1000 + 2, (uint32_t)(12 * i + 8), "shell.exe /n"));
    }
    close_sender(&s, store);
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    has_refused_row = 1;
    *notes = 0;
    uint64_t refused =
        judge_as(store, (ec_detector_options){.on_note = on_note}, 3 * MANY - 1, EA_COUNT_rules_refused, 1);
    has_refused_row = 0;
    assert_int_equal(refused, 1);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE batch = 3 AND position <> 1"), 2);
    assert_non_null(strstr(notes, "event of Process/Start, host a-busy, stream"));
    assert_non_null(strstr(notes, "batch 3, position 1: run the rules: "));
}

/* What is kept of one is not taken for the other's. */
static void rules_of_one_title_are_two(void **state) {
    static const char TEXT[] = "title: one\nlogsource: {product: windows, category: process_creation}\n"
                               "detection: {s: {CommandLine|contains: ' /n'}, condition: s}\n";
    char text[3 * sizeof TEXT + 100];
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "pc", 1, 1, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    /* the third has the title of the rule with the id "shell" */
    snprintf(text, sizeof text, "%s---\n%s---\ntitle: shell\n%s", TEXT, TEXT, strchr(TEXT, '\n') + 1);
    add_rule("rules/ones.yml", text);
    judge(store, 4);
    assert_int_equal(ask("SELECT count(DISTINCT rule) FROM detections"), 4);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE rule = 'one' AND source LIKE '%ones.yml:1'"), 1);
    assert_int_equal(ask("SELECT count(*) FROM detections WHERE rule = source AND (source LIKE '%ones.yml:5' OR source"
                         " LIKE '%ones.yml:9')"),
                     2);
}

/* Without an index each process would cost all modules of its stream. */
static void modules_of_a_process_are_found(void **state) {
    (void)state;
    ec_store *store = open_seen();
    add_batches(store, "pc", 1, FEW, "shell.exe /n");
    arrive(store, OLD_MS, MANY, ea_utc_ns());
    add_rule("rules/image.yml", "title: image\nid: image\nlogsource: {product: windows, category: process_creation}\n"
                                "detection: {s: {Image|endswith: shell.exe}, condition: s}\n");
    judge(store, 2 * FEW);
    assert_true(atomic_load(&module_reads) >= FEW);
    assert_int_equal(atomic_load(&module_searches), atomic_load(&module_reads));
}

/* A rule of a service is read, and would silently never match. */
static void rules_that_are_not_run_are_counted(void **state) {
    (void)state;
    ec_store_close(open_seen());
    add_rule("rules/others.yml",
             "title: a\nlogsource: {product: windows, service: security}\ndetection: {s: {A: b}, condition: s}\n"
             "---\ntitle: b\nlogsource: {product: linux, category: process_creation}\n"
             "detection: {s: {A: b}, condition: s}\n");
    ec_detector_options options = {.on_note = on_note};
    ec_detector *detector = start(&options);
    ec_detector_stop(detector);
    free(options.counters);
    assert_non_null(strstr(notes, "3 Sigma rules, "));
    assert_non_null(strstr(notes, "2 of these rules are not run: "));
}

static void a_detection_is_bounded(void **state) {
    (void)state;
    static char text[LONG + 16];
    ec_store *store = open_seen();
    memset(text, 1, LONG);
    memcpy(text, "shell.exe /n", sizeof "shell.exe /n" - 1);
    add_batches(store, "pc", 1, 1, text); /* each of its characters takes six bytes of JSON */
    judge(store, 1);
    assert_true(ask("SELECT max(length(fields)) FROM detections") <= EC_MATCHED_FIELD_MAX + 1000);
    assert_int_equal(ask("SELECT json_valid(chain) AND length(chain) <= 8192 AND json_array_length(chain) > 0 AND"
                         " json_extract(chain, '$[0].image_name') = 'shell.exe' FROM detections"),
                     1);
    assert_int_equal(ask("SELECT json_extract(fields, '$.CommandLine') LIKE 'shell.exe /n%' FROM detections"), 1);
}

/* ---- rules that are asked before SQL looks up processes ---- */

/* A class of events of a log source, and fields that the event, its process and others bring. */
typedef struct early_class {
    const char *category, *name;
    const char *fields[6];
} early_class;

enum { EARLY_RULES = 120, EARLY_FIELDS = 6 };

static const early_class EARLY_CLASSES[] = {
    {"process_creation",
     "Process/Start",
     {"CommandLine", "ParentProcessId", "Image", "User", "ParentImage", "GrandParentImage"}},
    {"image_load", "Image/Load", {"ImageLoaded", "Image", "CommandLine", "User", "ParentImage", "ParentProcessId"}},
    {"create_remote_thread",
     "Thread/Start",
     {"StartAddress", "SourceImage", "SourceUser", "TargetImage", "TargetCommandLine", "SourceParentImage"}},
};

static uint64_t early_generator = 1;

static const char *early_pick(const char *const *texts, size_t count) {
    early_generator ^= early_generator << 13;
    early_generator ^= early_generator >> 7;
    early_generator ^= early_generator << 17;
    return texts[(early_generator >> 11) % count];
}

#define EARLY_PICK(texts) early_pick(texts, sizeof(texts) / sizeof *(texts))

static void add_early_search(ea_text *t, const char *name, const char *field, const char *second) {
    static const char *const FORMS[] = {"|contains: ",   "|contains: ",      "|endswith: ",
                                        "|startswith: ", "|contains|neq: ",  ": '*' #",
                                        ": null #",      "|exists: false #", ": '' #"}; /* #: without a text */
    static const char *const PIECES[] = {"explorer", "winword.exe", "\\powershell.exe", "cmd.exe", "-enc", "SYSTEM",
                                         "evil",     ".dll",        "System32",         "0x7ff",   "zzz",  "1"};
    const char *const fields[] = {field, second};
    ea_text_printf(t, "  %s: {", name);
    for (size_t i = 0; i < 2; i++) {
        const char *form = EARLY_PICK(FORMS);
        if (i && !second)
            break;
        ea_text_printf(t, "%s%s", i ? ", " : "", fields[i]);
        if (strchr(form, '#'))
            ea_text_add(t, form, strlen(form) - 2);
        else
            ea_text_printf(t, "%s'%s'", form, EARLY_PICK(PIECES));
    }
    ea_text_str(t, "}\n");
}

static void make_early_rule(ea_text *t, const early_class *c) {
    static const char *const CONDITIONS[] = {"s",           "not s",          "s and t",    "s and not t",
                                             "not s and t", "s or t",         "1 of them",  "not (s or t)",
                                             "s and keys",  "t and not keys", "all of them"};
    const char *a = EARLY_PICK(c->fields), *b = EARLY_PICK(c->fields), *second = EARLY_PICK(c->fields);
    ea_text_clear(t);
    ea_text_printf(t, "title: r\nlogsource: {product: windows, category: %s}\ndetection:\n  keys: [evil, '-enc']\n",
                   c->category);
    add_early_search(t, "s", a, NULL);
    add_early_search(t, "t", b, strcmp(b, second) ? second : NULL);
    ea_text_printf(t, "  condition: %s\n", EARLY_PICK(CONDITIONS));
    assert_false(t->failed);
}

static void on_early_problem(void *arg, const ea_rules_problem *p) {
    fail_msg("line %u: %s: %s", p->line, p->message, (const char *)arg);
}

/* The rows on which the rule holds, as a text. */
static void judge_early_rows(ec_rules_row *row, ec_rules_class *c, ea_text *ret) {
    ea_err err = {0};
    ea_text_clear(ret);
    ec_rules_row_begin(row, c);
    while (sqlite3_step(c->prepared) == SQLITE_ROW) {
        const uint32_t *found = NULL;
        size_t found_count = 0;
        must(ec_rules_row_judge(row, 0, &found, &found_count, &err), &err);
        if (found_count)
            ea_text_printf(ret, "%lld ", sqlite3_column_int64(c->prepared, EC_RULES_POSITION));
    }
    ec_rules_row_begin(row, NULL);
}

/* Runs a rule on the batch, asked early or not. *ret_left: events that were left. */
static void run_early_rule(ec_sql *sql, const ea_sigma_tables *tables, const early_class *of, const ea_rules *rules,
                           int is_early, ea_text *ret, uint64_t *ret_left) {
    const ea_sigma_source *source = ea_sigma_source_find(tables, "windows", of->category, "");
    uint32_t group = ea_rules_group(rules, "windows", of->category, "");
    ec_process_facts *facts = NULL;
    ea_rules_run *run = NULL;
    ec_rules_class c = {.group = group};
    ec_rules_row row;
    ea_err err = {0};
    int code;
    ec_rules_row_init(&row);
    assert_int_equal(ea_rules_run_create(&run, rules), 0);
    must(ec_process_facts_create(&facts, sql, &err), &err);
    assert_int_equal(ec_rules_statement_make(&c.statement, rules, group, source, of->name, strlen(of->name), of->name,
                                             EC_RULES_OF_BATCHES),
                     0);
    must(ec_rules_class_prepare(&c, sql, rules, run, group, is_early, facts, &code, &err), &err);
    row.sql = sql;
    row.facts = facts;
    row.run = run;
    row.host = "pc";
    row.stream = "01010101010101010101010101010101";
    sqlite3_bind_text(c.prepared, 1, row.host, -1, SQLITE_STATIC);
    sqlite3_bind_text(c.prepared, 2, row.stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(c.prepared, 3, 1);
    sqlite3_bind_int64(c.prepared, 4, 1);
    sqlite3_bind_int64(c.prepared, 5, 0);
    sqlite3_bind_int64(c.prepared, 6, EA_BATCH_MAX_EVENTS);
    judge_early_rows(&row, &c, ret);
    *ret_left = c.own_seen - c.own_stayed + (c.columns ? ec_rules_columns_take(c.columns) : 0);
    ec_rules_class_deinit(&c);
    ec_process_facts_destroy(facts);
    ec_rules_row_deinit(&row);
    ea_rules_run_destroy(run);
}

/* Processes that start one another, what they load, and threads that they begin in each other. */
static void add_machine(ec_store *store) {
    static const char *const NAMES[] = {"explorer.exe", "winword.exe", "powershell.exe", "cmd.exe"};
    static const char *const COMMANDS[] = {"C:\\explorer.exe", "winword.exe /n", "powershell.exe -enc 1",
                                           "cmd.exe /c evil"};
    static const char *const FOLDERS[] = {"Windows", "Office", "Windows\\System32", "Windows\\System32"};
    made_record r;
    char path[100];
    sender s = open_sender(1);
    for (uint32_t i = 0; i < 4; i++) {
        int64_t time = 1000 * (int64_t)(i + 1);
        uint32_t pid = 100 * (i + 1);
        add_record(&s, process_record(&r, OP_START, time, pid, i ? pid - 100 : 4, 0x800 + pid, NAMES[i], COMMANDS[i]));
        snprintf(path, sizeof path, "\\Device\\HarddiskVolume3\\%s\\%s", FOLDERS[i], NAMES[i]);
        add_record(&s, image_record(&r, OP_LOAD, time + 1, pid, 0x7ff700000000, 0x1000, path));
        snprintf(path, sizeof path, "\\Device\\HarddiskVolume3\\Temp\\%s%u.dll", i % 2 ? "evil" : "good", i);
        add_record(&s, image_record(&r, OP_LOAD, time + 2, pid, 0x7ff710000000, 0x1000, path));
        for (uint32_t k = 0; k < 2; k++) {
            (void)thread_record(&r, OP_START, time + 3 + k, pid, pid + 1 + k, 0x10000, 15);
            r.record.pid = k && i ? pid - 100 : pid;
            add_record(&s, &r.record);
        }
    }
    (void)thread_record(&r, OP_START, 5000, 200, 205, 0x10000, 15);
    r.record.pid = 400;
    add_record(&s, &r.record);
    /* of a process that the history does not know */
    send_record(&s, store, "pc", 1,
                image_record(&r, OP_LOAD, 5001, 9000, 0x7ff720000000, 0x1000, "\\Device\\HarddiskVolume3\\evil.dll"));
    close_sender(&s, store);
}

/* Rules by chance hold on the same events, asked before the joins or after all of them. */
static void what_is_asked_early_misses_nothing(void **state) {
    ea_sigma_tables *tables = NULL;
    ec_sql *sql = NULL;
    ea_text text, ours, theirs;
    uint64_t left = 0, held = 0, none;
    ea_err err = {0};
    (void)state;
    ec_store *store = open_seen();
    add_machine(store);
    ec_store_close(store);
    fold();
    ea_text_init(&text);
    ea_text_init(&ours);
    ea_text_init(&theirs);
    must(ea_sigma_tables_create(&tables, ea_sigma_files, &err), &err);
    must(ec_sql_open(&sql, scratch, &(ec_sql_options){.arg = NULL}, &err), &err);
    for (size_t i = 0; i < EARLY_RULES; i++) {
        const early_class *c = &EARLY_CLASSES[i % (sizeof EARLY_CLASSES / sizeof *EARLY_CLASSES)];
        ea_rules_builder *b = NULL;
        ea_rules *rules = NULL;
        uint64_t left_here = 0;
        make_early_rule(&text, c);
        assert_int_equal(ea_rules_builder_create(&b), 0);
        assert_int_equal(ea_rules_add(b, "r.yml", text.data, text.len_bytes, on_early_problem, text.data), 0);
        assert_int_equal(ea_rules_build(b, &rules, on_early_problem, text.data), 0);
        ea_rules_builder_destroy(b);
        run_early_rule(sql, tables, c, rules, 1, &ours, &left_here);
        run_early_rule(sql, tables, c, rules, 0, &theirs, &none);
        if (ours.len_bytes != theirs.len_bytes || (ours.len_bytes && strcmp(ours.data, theirs.data) != 0))
            fail_msg("asked early the rule holds at \"%s\", else at \"%s\":\n%s", ours.len_bytes ? ours.data : "",
                     theirs.len_bytes ? theirs.data : "", text.data);
        left += left_here;
        held += theirs.len_bytes > 0;
        assert_int_equal(none, 0);
        ea_rules_destroy(rules);
    }
    assert_true(left > EARLY_RULES / 2 && held > EARLY_RULES / 10); /* else the test would say nothing */
    ec_sql_close(sql);
    ea_sigma_tables_destroy(tables);
    ea_text_deinit(&text);
    ea_text_deinit(&ours);
    ea_text_deinit(&theirs);
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
        cmocka_unit_test_setup_teardown(looking_at_a_host_is_charged, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(rules_that_are_not_run_are_counted, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_class_without_the_fields_is_left, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_class_hides_no_other, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_class_changes_no_columns, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(rules_of_one_title_are_two, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(modules_of_a_process_are_found, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(twins_are_bounded, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_row_that_sql_refuses_is_skipped, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_large_batch_costs_itself, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(what_is_asked_early_misses_nothing, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(a_detection_is_bounded, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
