/* The facts of processes that rules compare equal those of SQL's tables and process_at: numbers that are used again,
 * several hosts, times before and after, processes that have ended, programs that were not seen loaded, a session
 * without processes of its own, and a cache that is emptied meanwhile. Processes, modules and questions are random. */
#include "collector/detect/rules_processes.h"
#include "collector/query/sql/sql.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define EPOCH_NS INT64_C(1700000000000000000)

enum { HOSTS = 2, PIDS = 12, STEPS = 400, QUESTIONS = 3000, PID_STEP = 4 };

static const char *const NAMES[] = {"explorer.exe", "winword.exe", "PowerShell.exe", "cmd.exe"};
static const char *const PATHS[] = {"\\Device\\HarddiskVolume3\\Office\\winword.exe",
                                    "\\Device\\HarddiskVolume3\\Windows\\EXPLORER.EXE",
                                    "\\Device\\HarddiskVolume3\\Windows\\notcmd.exe",
                                    "\\Device\\HarddiskVolume3\\Windows\\System32\\cmd.exe",
                                    "\\Device\\HarddiskVolume3\\Windows\\System32\\powershell.exe",
                                    "\\Device\\HarddiskVolume3\\Windows\\System32\\ntdll.dll"};
static const char *const HOST_NAMES[HOSTS] = {"pc-1", "pc-2"};

static uint64_t facts_generator = 0x9e3779b97f4a7c15u;

static uint32_t facts_below(uint32_t n) {
    facts_generator ^= facts_generator << 13;
    facts_generator ^= facts_generator >> 7;
    facts_generator ^= facts_generator << 17;
    return (uint32_t)((facts_generator >> 11) % n);
}

static void facts_must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* A random event of one of few processes. */
static const ea_record *facts_record(made_record *r, int64_t time) {
    uint32_t pid = PID_STEP * (1 + facts_below(PIDS)), parent = PID_STEP * (1 + facts_below(PIDS));
    uint32_t kind = facts_below(10);
    const char *name = NAMES[facts_below(sizeof NAMES / sizeof *NAMES)];
    char command[64];
    snprintf(command, sizeof command, "%s /%lld", name, (long long)time);
    if (kind < 3)
        return process_record(r, OP_START, time, pid, parent, 0x800 + pid, name, command);
    if (kind < 5)
        return process_record(r, OP_END, time, pid, parent, 0x800 + pid, name, command);
    return image_record(r, OP_LOAD, time, pid, 0x7ff700000000 + 0x10000 * (uint64_t)facts_below(8), 0x1000,
                        PATHS[facts_below(sizeof PATHS / sizeof *PATHS)]);
}

/* The stream's last byte; of the first host a second session of the same run has no process. */
static void facts_add_stream(ec_store *store, const char *host, uint8_t stream, uint8_t session, int has_processes) {
    ea_wire_source source = {.name = "test",
                             .host = "MACHINE",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 4};
    ea_encoder_options eo = {.all_descriptions = 0};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_err err = {0};
    made_record r;
    const uint8_t *data;
    size_t len;
    memset(eo.stream, stream, sizeof eo.stream);
    eo.stream[sizeof eo.stream - 1] = session;
    facts_must(ea_registry_create(&registry, 0, &err), &err);
    facts_must(ea_builder_create(&builder, &(ea_builder_options){.sources = &source, .source_count = 1}, &err), &err);
    facts_must(ea_encoder_create(&encoder, &eo, &err), &err);
    for (int64_t i = 1; i <= (has_processes ? STEPS : 1); i++) {
        const ea_record *record =
            has_processes ? facts_record(&r, 1000 * i) : thread_record(&r, OP_START, 1000 * i, 4, 5, 0x10000, 15);
        assert_int_equal(ea_builder_add(builder, record, ea_registry_find(registry, record)), 0);
    }
    ea_open_batch *open = ea_builder_take(builder);
    assert_non_null(open);
    facts_must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = 1}, &data, &len, &err), &err);
    ea_open_batch_release(open);
    assert_int_equal(ec_store_append(store, host, data, len, &err), EC_STORED);
    facts_must(ec_store_commit(store, &err), &err);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

static void facts_fold(void) {
    ec_state_worker *history = NULL;
    ea_err err = {0};
    facts_must(ec_state_worker_open(&history, scratch, &(ec_state_worker_options){.hole_wait_ns = -1}, &err), &err);
    facts_must(ec_state_worker_fold(history, NULL, &err), &err);
    ec_state_worker_close(history);
}

static const char SQL[] =
    "SELECT p.process_key, p.parent_key, p.pid, p.image_name, p.parent_pid, p.command_line, p.account,"
    " p.integrity_level, p.logon_id, coalesce((SELECT m.path FROM modules m WHERE m.process_key = p.process_key AND"
    " lower(substr(m.path, -length(p.image_name) - 1)) = '\\' || lower(p.image_name) ORDER BY m.begin, m.instance LIMIT"
    " 1), p.image_name) FROM processes p WHERE p.process_key = process_at(?1, ?2, ?3, ?4)";

static void facts_compare_text(sqlite3_stmt *st, int column, const ec_process *p, enum ec_fact fact) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    if (!text != !p->facts[fact].text)
        fail_msg("fact %d is known once: %s", (int)fact, text ? text : p->facts[fact].text);
    if (text)
        assert_string_equal(text, p->facts[fact].text);
}

/* Compares the answers to one question; whether there is a process. */
static int facts_compare(ec_process_facts *facts, sqlite3_stmt *st, const char *host, const char *stream, uint32_t pid,
                         int64_t utc_ns) {
    const ec_process *p = NULL, *parent = NULL;
    ea_err err = {0};
    facts_must(ec_process_facts_at(facts, host, stream, pid, utc_ns, 1, &p, &err), &err);
    sqlite3_bind_text(st, 1, host, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, stream, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, pid);
    sqlite3_bind_int64(st, 4, utc_ns);
    int is_there = sqlite3_step(st) == SQLITE_ROW;
    assert_int_equal(is_there, p != NULL);
    if (p) {
        assert_int_equal(sqlite3_column_int64(st, 0), p->key);
        assert_int_equal(sqlite3_column_int64(st, 1), p->parent_key);
        for (int i = EC_FACT_ID; i <= EC_FACT_PATH; i++)
            facts_compare_text(st, 2 + i, p, (enum ec_fact)i);
        facts_must(ec_process_facts_find(facts, p->parent_key, 0, &parent, &err), &err);
        assert_int_equal(p->parent_key != 0, parent != NULL);
        assert_true(!parent || parent->key == p->parent_key);
    }
    sqlite3_reset(st);
    return is_there;
}

static void facts_are_those_of_sql(void **state) {
    static const char *const STREAMS[] = {"01010101010101010101010101010101", "02020202020202020202020202020202",
                                          "01010101010101010101010101010109"};
    ec_store *store = NULL;
    ec_sql *sql = NULL;
    ec_process_facts *facts = NULL;
    sqlite3_stmt *st = NULL;
    const char *tail;
    ea_err err = {0};
    uint64_t known = 0;
    (void)state;
    facts_must(ec_store_open(&store, scratch, &(ec_store_options){.writable = 1}, &err), &err);
    for (int i = 0; i < HOSTS; i++)
        facts_add_stream(store, HOST_NAMES[i], (uint8_t)(i + 1), (uint8_t)(i + 1), 1);
    facts_add_stream(store, HOST_NAMES[0], 1, 9, 0);
    ec_store_close(store);
    facts_fold();
    assert_true(ea_path_exists(scratch_path("state.db")));
    facts_must(ec_sql_open(&sql, scratch, &(ec_sql_options){.arg = NULL}, &err), &err);
    if (ec_sql_prepare(sql, SQL, &st, &tail, &err) != SQLITE_OK)
        fail_msg("%s %s", err.message, sqlite3_errmsg(ec_sql_database(sql)));
    facts_must(ec_process_facts_create(&facts, sql, &err), &err);
    for (int i = 0; i < EC_FACT_COUNT; i++)
        ec_process_facts_need(facts, (enum ec_fact)i);
    for (int i = 0; i < QUESTIONS; i++) {
        uint32_t stream = facts_below(16) ? facts_below(HOSTS) : HOSTS;
        ec_process_facts_begin(facts, NULL);
        if (!facts_below(200))
            ec_process_facts_clear(facts);
        known += (uint64_t)facts_compare(facts, st, HOST_NAMES[stream % HOSTS], STREAMS[stream],
                                         PID_STEP * facts_below(PIDS + 3),
                                         EPOCH_NS - 5000 + (int64_t)facts_below(1000 * STEPS + 20000));
    }
    assert_true(known > QUESTIONS / 4 && known < QUESTIONS); /* else the test would say nothing */
    sqlite3_finalize(st);
    ec_process_facts_destroy(facts);
    ec_sql_close(sql);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_are_those_of_sql, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
