/* Names in the state tables: the same answers as the ones in memory, whatever happens in between; bounds. */
#include "collector/state/object_names_db.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_guid FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
static const ea_guid REGISTRY = EA_GUID(0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1);
static const ea_guid SYS_CONFIG = EA_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0);
static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {1, 2, 3};

enum { EVENTS = 4000, ADDRESSES = 24, IRPS = 6 };

typedef struct fixture {
    ea_registry *registry;
    ec_state_db *tables;
    ec_state_fold fold;
    ec_object_names_db *naming;
    ec_object_names_db_options options;
    ea_counters counters;
    uint8_t payload[1024];
    size_t bytes;
    ea_record record;
} fixture;

static void check(int rc, const ea_err *err) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static void open_naming(fixture *f) {
    ea_err err = {0};
    f->options.counters = &f->counters;
    check(ec_state_db_open(&f->tables, scratch_path("."), 1, &err), &err);
    check(ec_state_db_begin(f->tables, &err), &err);
    check(ec_state_db_get_fold(f->tables, "host", STREAM, &f->fold, &err), &err);
    check(ec_object_names_db_open(&f->naming, f->tables, f->fold.stream_number, &f->options, &err), &err);
}

static void close_naming(fixture *f, int commit) {
    ea_err err = {0};
    if (commit)
        check(ec_object_names_db_flush(f->naming, &err), &err);
    if (commit)
        check(ec_state_db_commit(f->tables, &err), &err);
    else
        ec_state_db_rollback(f->tables);
    ec_object_names_db_close(f->naming);
    ec_state_db_close(f->tables);
}

static void setup(fixture *f) {
    memset(f, 0, sizeof *f);
    check(ea_registry_create(&f->registry, 0, NULL), NULL);
    open_naming(f);
}

static void teardown(fixture *f) {
    close_naming(f, 1);
    ea_registry_destroy(f->registry);
}

static void number(fixture *f, uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++)
        f->payload[f->bytes++] = i < sizeof v ? (uint8_t)(v >> 8 * i) : 0;
}

static void text(fixture *f, const char *s) {
    for (;; s++) {
        number(f, (uint8_t)*s, 2);
        if (!*s)
            return;
    }
}

static void begin(fixture *f, const ea_guid *provider, uint8_t opcode, uint8_t version) {
    f->record = (ea_record){.provider = *provider,
                            .opcode = opcode,
                            .version = version,
                            .pointer_size = 8,
                            .flags = EA_FLAG_CLASSIC_HEADER,
                            .payload = f->payload};
    f->bytes = 0;
}

static const ea_class *end(fixture *f) {
    f->record.payload_bytes = (uint16_t)f->bytes;
    return ea_registry_find(f->registry, &f->record);
}

static uint32_t seed = 7;

static uint32_t next(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint64_t address_of(uint32_t i) {
    return (i % 2 ? 0xfffff80000000000u : 0x7ff700000000u) + 64 * i;
}

static uint64_t irp_of(uint32_t i) {
    return 0xffff900000000000u + 64 * i;
}

static const ea_class *random_event(fixture *f) {
    static const uint8_t NAMES[] = {0, 32, 35, 36}, OPERATIONS[] = {65, 66, 73}, KEYS[] = {22, 23, 24, 25};
    char name[64];
    snprintf(name, sizeof name, "\\Device\\HarddiskVolume%u\\f%u", 1 + next(3), next(5));
    switch (next(8)) {
    case 0:
    case 1:
        begin(f, &FILE_IO, NAMES[next(4)], 2);
        number(f, address_of(next(ADDRESSES)), 8);
        text(f, name);
        break;
    case 2:
        begin(f, &FILE_IO, 64, 3);
        number(f, irp_of(next(IRPS)), 8);
        number(f, address_of(next(ADDRESSES)), 8);
        number(f, 77, 4);
        number(f, 0, 12);
        text(f, name);
        break;
    case 3:
        begin(f, &FILE_IO, OPERATIONS[next(3)], 3);
        number(f, irp_of(next(IRPS)), 8);
        number(f, address_of(next(ADDRESSES)), 8);
        number(f, 0, 8);
        number(f, 77, 4);
        break;
    case 4:
    case 5:
        begin(f, &FILE_IO, 76, 3);
        number(f, irp_of(next(IRPS)), 8);
        number(f, (uint64_t)next(100) << 40, 8);
        number(f, next(3) ? 0 : 0xC0000034u, 4);
        break;
    case 6:
        begin(f, &REGISTRY, KEYS[next(4)], 2);
        number(f, 0, 16);
        number(f, address_of(next(ADDRESSES)), 8);
        snprintf(name, sizeof name, "\\REGISTRY\\MACHINE\\k%u", next(4));
        text(f, name);
        break;
    default:
        begin(f, &SYS_CONFIG, 35, 0);
        snprintf(name, sizeof name, "\\Device\\HarddiskVolume%u", 1 + next(2));
        text(f, name);
        snprintf(name, sizeof name, "%c:", 'C' + (int)next(2));
        text(f, name);
    }
    return end(f);
}

/* The record prints the same with either resolver. */
static void expect_same(const fixture *f, const ea_class *c, const ea_resolver *a, const ea_resolver *b, int64_t time) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 1000000000};
    ea_text one, two;
    ea_record r = f->record;
    r.time_raw = time;
    ea_text_init(&one);
    ea_text_init(&two);
    ea_render(&one, &r, c, &(ea_rendering){.form = EA_RENDER_JSON, .clock = &CLOCK, .resolver = a});
    ea_render(&two, &r, c, &(ea_rendering){.form = EA_RENDER_JSON, .clock = &CLOCK, .resolver = b});
    assert_false(one.failed || two.failed);
    assert_string_equal(one.data, two.data);
    ea_text_deinit(&one);
    ea_text_deinit(&two);
}

/* Random events into both; the tables are closed and opened again, and transactions lost and repeated, in between. */
static void test_as_in_memory(void **state) {
    fixture f;
    ea_object_names *names;
    size_t in_memory, ended, named = 0, completed = 0;
    uint64_t left_out;
    (void)state;
    setup(&f);
    check(ea_object_names_create(&names, &(ea_object_names_options){0}, NULL), NULL);
    for (int i = 0; i < EVENTS; i++) {
        ea_err err = {0};
        if (next(200) == 0) {
            uint32_t before = seed;
            close_naming(&f, 1);
            open_naming(&f);
            for (uint32_t k = next(20); k; k--) /* of a transaction that is lost */
                check(ec_object_names_db_apply(f.naming, &f.record, random_event(&f), 100 * i, &err), &err);
            close_naming(&f, 0);
            open_naming(&f);
            seed = before;
        }
        const ea_class *c = random_event(&f);
        assert_int_equal(c->status, EA_CLASS_KNOWN);
        check(ea_object_names_apply(names, &f.record, c, 100 * (i / 2), &err), &err);
        check(ec_object_names_db_apply(f.naming, &f.record, c, 100 * (i / 2), &err), &err);
    }
    ea_object_names_seal(names);
    ea_resolver memory = ea_object_names_resolver(names), tables = ec_object_names_db_resolver(f.naming);
    for (int i = 0; i < EVENTS; i++) {
        const ea_class *c = random_event(&f);
        ea_completion end;
        ea_text t;
        int64_t time = 50 * (int64_t)next(EVENTS + 10);
        expect_same(&f, c, &memory, &tables, time);
        ea_text_init(&t);
        named += (size_t)tables.number(tables.arg, EA_SEM_FILE_OBJECT, address_of(next(ADDRESSES)), time, &t);
        completed += (size_t)tables.completion(tables.arg, &f.record, c, time, &end);
        ea_text_deinit(&t);
    }
    ea_object_names_counts(names, &in_memory, &ended, &left_out);
    assert_true(in_memory > 500 && ended > 200 && named > EVENTS / 2 && completed > 20);
    assert_int_equal(left_out, 0);
    assert_null(ec_object_names_db_error(f.naming));
    ea_object_names_destroy(names);
    teardown(&f);
}

static int64_t count(const fixture *f, const char *sql) {
    sqlite3_stmt *s = NULL;
    ea_err err = {0};
    check(ec_object_names_db_flush(f->naming, &err), &err);
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(f->tables), sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

/* A full table gives up the names that ended first and the oldest operations, and counts them. */
static void test_bounds(void **state) {
    fixture f;
    ea_text t;
    (void)state;
    memset(&f, 0, sizeof f);
    check(ea_registry_create(&f.registry, 0, NULL), NULL);
    f.options = (ec_object_names_db_options){.limit_names = 64, .limit_name_bytes = 2000, .limit_operations = 32};
    open_naming(&f);
    ea_text_init(&t);
    /* one that stays open, then many that begin and end */
    for (uint32_t i = 0; i < 1000; i++) {
        ea_err err = {0};
        char name[32];
        snprintf(name, sizeof name, "\\Device\\x\\file%04u", i);
        begin(&f, &FILE_IO, 64, 3);
        number(&f, irp_of(i), 8);
        number(&f, 0x1000 + i, 8);
        number(&f, 77, 4);
        number(&f, 0, 12);
        text(&f, name);
        check(ec_object_names_db_apply(f.naming, &f.record, end(&f), 10 * i, &err), &err);
        if (i) {
            begin(&f, &FILE_IO, 35, 2);
            number(&f, 0x1000 + i, 8);
            text(&f, name);
            check(ec_object_names_db_apply(f.naming, &f.record, end(&f), 10 * i + 5, &err), &err);
        }
        if (i == 500) { /* the counts come back */
            close_naming(&f, 1);
            open_naming(&f);
        }
        assert_true(count(&f, "SELECT count(*) FROM names") <= 64);
        assert_true(count(&f, "SELECT sum(length(name)) FROM names") <= 2000);
        assert_true(count(&f, "SELECT count(*) FROM operations") <= 32);
    }
    assert_true(count(&f, "SELECT count(*) FROM names") > 32 && count(&f, "SELECT count(*) FROM operations") > 16);
    assert_int_equal(ea_counter_get(&f.counters, EA_COUNT_state_evicted),
                     2000 - count(&f, "SELECT count(*) FROM names") - count(&f, "SELECT count(*) FROM operations"));
    assert_int_equal(ec_object_names_db_find(f.naming, EA_NAME_FILE, 0x1000, 9999, &t, NULL), 1);
    assert_string_equal(t.data, "\\Device\\x\\file0000");
    ea_text_clear(&t);
    assert_int_equal(ec_object_names_db_find(f.naming, EA_NAME_FILE, 0x1000 + 999, 9990, &t, NULL), 1);
    assert_string_equal(t.data, "\\Device\\x\\file0999");
    assert_int_equal(ec_object_names_db_find(f.naming, EA_NAME_FILE, 0x1000 + 1, 12, &t, NULL), 0);
    ea_text_deinit(&t);
    teardown(&f);
}

static void operation(fixture *f, uint8_t opcode, int64_t utc_ns) {
    ea_err err = {0};
    begin(f, &FILE_IO, opcode, 3);
    number(f, irp_of(1), 8);
    number(f, 0, opcode == 76 ? 12 : 60);
    check(ec_object_names_db_apply(f->naming, &f->record, end(f), utc_ns, &err), &err);
}

/* An end is of the operation of its IRP that began last, whether that is written already or kept in memory. */
static void test_written_and_not(void **state) {
    static const char ENDED[] = "SELECT group_concat(begin_utc_ns || '-' || max(end_utc_ns, 0), ' ') FROM (SELECT *"
                                " FROM operations ORDER BY begin_utc_ns)";

    static const struct { int written, reopened; } WAYS[] = {{0, 0}, {1, 0}, {1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        for (int earlier = 0; earlier < 2; earlier++) {
            fixture f;
            ea_err err = {0};
            sqlite3_stmt *s = NULL;
            setup(&f);
            operation(&f, 65, 100);
            if (WAYS[i].written)
                assert_int_equal(count(&f, "SELECT count(*) FROM operations"), 1);
            if (WAYS[i].reopened) {
                close_naming(&f, 1);
                open_naming(&f);
            }
            operation(&f, 66, earlier ? 50 : 150);
            operation(&f, 76, 200);
            assert_int_equal(count(&f, "SELECT count(*) FROM operations"), 2);
            assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(f.tables), ENDED, -1, &s, NULL), SQLITE_OK);
            assert_int_equal(sqlite3_step(s), SQLITE_ROW);
            assert_string_equal((const char *)sqlite3_column_text(s, 0), earlier ? "50-0 100-200" : "100-0 150-200");
            sqlite3_finalize(s);
            check(ec_state_db_reset_fold(f.tables, &f.fold, &err), &err);
            teardown(&f);
        }
}

/* Nothing of a stream stays when it is folded again. */
static void test_reset(void **state) {
    fixture f;
    ea_err err = {0};
    (void)state;
    setup(&f);
    for (int i = 0; i < 200; i++)
        check(ec_object_names_db_apply(f.naming, &f.record, random_event(&f), i, &err), &err);
    assert_true(count(&f, "SELECT count(*) FROM names") && count(&f, "SELECT count(*) FROM operations") &&
                count(&f, "SELECT count(*) FROM volumes"));
    check(ec_state_db_reset_fold(f.tables, &f.fold, &err), &err);
    assert_int_equal(count(&f, "SELECT count(*) FROM names"), 0);
    assert_int_equal(count(&f, "SELECT count(*) FROM operations"), 0);
    assert_int_equal(count(&f, "SELECT count(*) FROM volumes"), 0);
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_in_memory, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_bounds, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_reset, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_written_and_not, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
