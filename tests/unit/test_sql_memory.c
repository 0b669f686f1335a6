/* Out-of-memory tests of SQL over a small store: each allocation of each query fails once. The query returns the
 * correct answer or SQLITE_NOMEM. No valid batch is reported as damaged, and no memory leaks (checked by the
 * sanitizers' presets). */
#include "collector/query/sql/sql.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/arena.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <zstd.h>

#include <cmocka.h>

/* ---- allocations, counted: the last one of `left` fails ---- */

static size_t left; /* 0: none fails (any more) */

static int fails(void) {
    return left && --left == 0;
}

#define WRAPPED(type, name, parameters, arguments)                                                                     \
    __typeof__(name) __real_##name, __wrap_##name;                                                                     \
    type __wrap_##name parameters {                                                                                    \
        return fails() ? 0 : __real_##name arguments;                                                                  \
    }
WRAPPED(void *, malloc, (size_t n), (n))
WRAPPED(void *, calloc, (size_t count, size_t n), (count, n))
WRAPPED(void *, realloc, (void *p, size_t n), (p, n))
WRAPPED(ZSTD_DCtx *, ZSTD_createDCtx, (void), ())
/* An arena that finds no memory remembers it. Each allocation fails, not only those that need another block. */
#define WRAPPED_ARENA(name, parameters, arguments)                                                                     \
    __typeof__(name) __real_##name, __wrap_##name;                                                                     \
    void *__wrap_##name parameters {                                                                                   \
        if (!fails())                                                                                                  \
            return __real_##name arguments;                                                                            \
        a->is_out_of_memory = 1;                                                                                       \
        return NULL;                                                                                                   \
    }
WRAPPED_ARENA(ea_arena_alloc, (ea_arena * a, size_t n), (a, n))
WRAPPED_ARENA(ea_arena_zalloc, (ea_arena * a, size_t count, size_t n), (a, count, n))
WRAPPED_ARENA(ea_arena_copy, (ea_arena * a, const void *data, size_t n), (a, data, n))

/* ---- the store: two batches of a process with samples, of which some have stacks and some stacks have no event ----
 */

#define KERNEL UINT64_C(0xfffff80000001000)

static const ea_record *perf_record(made_record *r, ea_guid provider, uint8_t opcode, uint8_t version, int64_t time) {
    begin_record(r, 0x3d6fa8d0, opcode, version, time);
    r->record.provider = provider;
    return &r->record;
}

static const ea_record *sample_record(made_record *r, int64_t time, uint32_t tid) {
    (void)perf_record(r, (ea_guid)EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc),
                      46, 2, time);
    put64(r, KERNEL);
    put32(r, tid);
    put32(r, 1);
    return end_record(r);
}

static const ea_record *walk_record(made_record *r, int64_t time, int64_t of, uint32_t pid, uint32_t tid) {
    (void)perf_record(r, (ea_guid)EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3),
                      32, 2, time);
    put64(r, (uint64_t)of);
    put32(r, pid);
    put32(r, tid);
    put64(r, KERNEL);
    put64(r, KERNEL + 16);
    put64(r, 0x7ff600001000u + 16 * tid);
    return end_record(r);
}

static void add(ea_builder *b, ea_registry *registry, const ea_record *record) {
    assert_int_equal(ea_builder_add(b, record, ea_registry_find(registry, record)), 0);
}

static void fill(ec_store *store) {
    ea_wire_source source = {
        .name = "",
        .host = "MACHINE",
        .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = INT64_C(1700000000000000000)},
        .pointer_size = 8,
        .cpu_count = 1};
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    made_record r;
    ea_err err = {0};
    int64_t t = 1000;
    assert_int_equal(ea_registry_create(&registry, 0, &err), 0);
    assert_int_equal(ea_builder_create(&builder, &(ea_builder_options){.sources = &source, .source_count = 1}, &err),
                     0);
    assert_int_equal(ea_encoder_create(&encoder, &(ea_encoder_options){.all_descriptions = 1}, &err), 0);
    for (uint64_t number = 1; number <= 2; number++) {
        const uint8_t *data;
        size_t n;
        add(builder, registry, process_record(&r, OP_START, t++, 100, 4, 0x800, "a.exe", "a"));
        add(builder, registry, thread_record(&r, OP_START, t++, 100, 104, KERNEL, 1));
        add(builder, registry, image_record(&r, OP_LOAD, t++, 100, 0x7ff600000000u, 0x10000, "a.exe"));
        for (int i = 0; i < 3; i++) {
            add(builder, registry, sample_record(&r, t, 104));
            add(builder, registry, walk_record(&r, t + 1, i ? t : t + 500, 100, 104));
            t += 2;
        }
        ea_open_batch *open = ea_builder_take(builder);
        assert_non_null(open);
        assert_int_equal(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = number}, &data, &n, &err), 0);
        ea_open_batch_release(open);
        assert_int_equal(ec_store_append(store, "host", data, n, &err), EC_STORED);
    }
    assert_int_equal(ec_store_commit(store, &err), 0);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

static int setup(void **state) {
    ec_store *store = NULL;
    ea_err err = {0};
    uint64_t backlog;
    if (scratch_make(state) || ec_store_open(&store, scratch_path("."), &(ec_store_options){.writable = 1}, &err))
        return -1;
    fill(store);
    ec_store_close(store);
    return ec_state_worker_catch_up(scratch_path("."), NULL, EC_WAIT_FOLDED, 0, &backlog, &err) || backlog ? -1 : 0;
}

/* ---- questions ---- */

static void add_cell(ea_text *out, sqlite3_stmt *st, int i) {
    const unsigned char *text = sqlite3_column_text(st, i);
    if (text)
        ea_text_printf(out, "%s|", (const char *)text);
    else if (sqlite3_column_type(st, i) == SQLITE_NULL)
        ea_text_str(out, "NULL|");
    else
        out->failed = 1; /* the text found no memory */
}

/* All rows as text: SQLITE_DONE, SQLITE_NOMEM, or what else it ended with; *ret_damaged: batches that it says are
 * damaged. */
static int ask(const char *question, ea_text *out, uint64_t *ret_damaged) {
    ec_sql *sql = NULL;
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    const char *first;
    *ret_damaged = 0;
    int rc = ec_sql_open(&sql, scratch_path("."), &(ec_sql_options){0}, &err);
    if (rc)
        return rc == EA_ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
    int code = ec_sql_prepare(sql, question, &st, NULL, &err);
    if (code == SQLITE_IOERR && err.code == EA_ENOMEM)
        code = SQLITE_NOMEM;
    if (code == SQLITE_OK) {
        while ((code = sqlite3_step(st)) == SQLITE_ROW)
            for (int i = 0; i < sqlite3_column_count(st); i++)
                add_cell(out, st, i);
    }
    sqlite3_finalize(st);
    *ret_damaged = ec_archive_damage(ec_sql_archive(sql), &first);
    ec_sql_close(sql);
    return out->failed ? SQLITE_NOMEM : code & 0xff;
}

static void check(const char *question, const char *expected) {
    ea_text whole, out;
    uint64_t damaged;
    size_t failures = 0;
    ea_text_init(&whole);
    ea_text_init(&out);
    assert_int_equal(ask(question, &whole, &damaged), SQLITE_DONE);
    assert_int_equal(damaged, 0);
    if (strcmp(whole.data ? whole.data : "", expected) != 0)
        fail_msg("%s gives %s, not %s", question, whole.data ? whole.data : "nothing", expected);
    for (size_t k = 1;; k++) {
        ea_text_deinit(&out);
        ea_text_init(&out);
        left = k;
        int code = ask(question, &out, &damaged);
        int is_over = left > 0;
        left = 0;
        if (is_over)
            break;
        if (damaged)
            fail_msg("%s: without allocation %zu a batch is called damaged", question, k);
        if (code == SQLITE_DONE && strcmp(out.data ? out.data : "", expected) != 0)
            fail_msg("%s: without allocation %zu it gives %s, not %s", question, k, out.data ? out.data : "nothing",
                     expected);
        if (code != SQLITE_DONE && code != SQLITE_NOMEM)
            fail_msg("%s: without allocation %zu it ends with %d", question, k, code);
        failures += code == SQLITE_NOMEM;
    }
    assert_true(failures > 10);
    ea_text_deinit(&whole);
    ea_text_deinit(&out);
}

static void test_events(void **state) {
    (void)state;
    check("SELECT name, count(*) FROM events GROUP BY name ORDER BY 1",
          "Image/Load|2|PerfInfo/SampleProf|6|Process/Start|2|StackWalk/Stack|6|Thread/Start|2|");
    check("SELECT name, count FROM events_by('name') ORDER BY 1",
          "Image/Load|2|PerfInfo/SampleProf|6|Process/Start|2|StackWalk/Stack|6|Thread/Start|2|");
    check("SELECT count(*), sum(ThreadId) FROM \"PerfInfo/SampleProf\"", "6|624|");
    check("SELECT decoded, count(*) FROM events GROUP BY 1", "whole|18|");
}

static void test_over_time(void **state) {
    (void)state;
    check("SELECT image, sum(samples) FROM cpu_usage GROUP BY 1", "a.exe|6|");
    check("SELECT image, name, sum(count), depth FROM stacks GROUP BY 1, 2 ORDER BY 2",
          "a.exe|PerfInfo/SampleProf|4|3|");
    check("SELECT image, tid, half, outcome, sum(halves) FROM missed_stacks GROUP BY 1, 2, 3, 4 ORDER BY 3",
          "a.exe|104|kernel|no_event|2|a.exe|104|user|no_event|2|");
}

static void test_machines(void **state) {
    (void)state;
    check("SELECT image_name, account FROM processes WHERE image_name <> '' ORDER BY begin",
          "a.exe|NT AUTHORITY\\SYSTEM|a.exe|NT AUTHORITY\\SYSTEM|");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_events), cmocka_unit_test(test_over_time),
                                       cmocka_unit_test(test_machines)};
    return cmocka_run_group_tests(tests, setup, scratch_clear);
}
