/* service/source: the description of files by the file source, its pace, and its immediate end on request. */
#include "service/source/source.h"

#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "tests/unit/scratch.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { START_RAW = 1000000 };

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* count records, step_raw ticks of 100 ns from each other. */
static void make_file(const char *name, unsigned count, int64_t step_raw) {
    static char session[] = "s", file[] = "f";
    ea_err err;
    ea_etl_writer *w;
    ea_etl_info info = {.buffer_size_bytes = 4096,
                        .os_version = 0x0501000a,
                        .os_build = 19045,
                        .cpu_count = 2,
                        .log_file_mode = 1,
                        .pointer_size = 8,
                        .cpu_mhz = 3000,
                        .bias_minutes = 60,
                        .boot_filetime = 133000000000000000,
                        .perf_frequency = 10000000,
                        .start_filetime = 133000001000000000,
                        .clock_type = EA_CLOCK_QPC,
                        .session_name = session,
                        .log_file_name = file,
                        .logger = 9};
    ea_etl_writer_options options = {.info = &info, .start_raw = START_RAW};
    ea_etl_writer_end end = {0};
    must(ea_etl_writer_create(&w, scratch_path(name), &options, &err), &err);
    for (unsigned i = 0; i < count; i++) {
        ea_record r = {.header_type = EA_HEADER_SYSTEM64,
                       .hook_id = 0x0501,
                       .header_word = 3,
                       .version = 3,
                       .opcode = 1,
                       .provider = *ea_etl_group_of(0x0501),
                       .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                       .pointer_size = 8,
                       .time_raw = START_RAW + (int64_t)(i + 1) * step_raw,
                       .pid = i,
                       .logger = 9};
        must(ea_etl_writer_add(w, &r, &err), &err);
    }
    must(ea_etl_writer_finish(w, &end, &err), &err);
    ea_etl_writer_destroy(w);
}

static ea_source *open_one(const char *name, double speed) {
    const char *path = scratch_path(name);
    ea_source *s;
    ea_err err;
    must(ea_source_open_files(&s, &path, 1, speed, NULL, &err), &err);
    return s;
}

/* Milliseconds that reading everything takes. */
static double read_all(ea_source *s, unsigned want) {
    const ea_record *r;
    ea_err err;
    unsigned count = 0;
    int rc;
    int64_t start = ea_monotonic_ns();
    while ((rc = ea_source_next(s, &r, &err)) > 0)
        count++;
    must(rc, &err);
    assert_int_equal(count, want);
    return (double)(ea_monotonic_ns() - start) / 1e6;
}

static void rows(void **state) {
    (void)state;
    make_file("a.etl", 10, 1000);
    make_file("b.etl", 5, 1500);
    char a[600], b[600];
    snprintf(a, sizeof a, "%s", scratch_path("a.etl"));
    snprintf(b, sizeof b, "%s", scratch_path("b.etl"));
    const char *paths[] = {a, b};
    ea_source *s;
    ea_err err;
    must(ea_source_open_files(&s, paths, 2, 0, NULL, &err), &err);
    assert_int_equal(ea_source_count(s), 2);
    assert_string_equal(ea_source_row(s, 0)->name, "a.etl");
    assert_string_equal(ea_source_row(s, 1)->name, "b.etl");
    assert_null(ea_source_row(s, 2));
    const ea_wire_source *row = ea_source_row(s, 1);
    assert_string_equal(row->host, "");
    assert_int_equal(row->clock.frequency, 10000000);
    assert_int_equal(row->clock.base_raw, START_RAW);
    assert_int_equal(row->boot_filetime, 133000000000000000);
    assert_int_equal(row->pointer_size, 8);
    assert_int_equal(row->cpu_count, 2);
    assert_int_equal(row->os_version, 0x0501000a);
    assert_int_equal(row->os_build, 19045);
    assert_int_equal(row->log_file_mode, 1);
    assert_int_equal(row->logger, 9);
    assert_int_equal(row->bias_minutes, 60);
    assert_true(ea_source_progress(s) < 1);
    read_all(s, 17); /* the header events too */
    assert_true(ea_source_progress(s) >= 1);
    ea_source_close(s);
    ea_source_close(NULL);
}

static void pace(void **state) {
    (void)state;
    make_file("slow.etl", 21, 500000); /* 1,050 ms */
    ea_source *s = open_one("slow.etl", 0);
    double free_ms = read_all(s, 22);
    ea_source_close(s);
    s = open_one("slow.etl", 1);
    double real_ms = read_all(s, 22);
    ea_source_close(s);
    double thrice_ms = real_ms;
    for (int tries = 0; tries < 10 && thrice_ms >= real_ms; tries++) { /* a busy machine may be late, never early */
        s = open_one("slow.etl", 3);
        thrice_ms = read_all(s, 22);
        ea_source_close(s);
        assert_true(thrice_ms >= 349);
    }
    assert_true(real_ms >= 1049);
    assert_true(free_ms < real_ms);
    assert_true(thrice_ms < real_ms);
}

static void stop_soon(void *arg) {
    ea_sleep_ns(50000000);
    ea_source_stop(arg);
}

static void stops(void **state) {
    (void)state;
    make_file("long.etl", 3, INT64_C(36000000000)); /* an hour between records */
    ea_source *s = open_one("long.etl", 1);
    const ea_record *r;
    ea_err err;
    ea_thread *t;
    assert_int_equal(ea_source_next(s, &r, &err), 1);
    must(ea_thread_start(&t, "stopper", stop_soon, s, &err), &err);
    int64_t start = ea_monotonic_ns();
    assert_int_equal(ea_source_next(s, &r, &err), EA_ECANCELED);
    assert_true(ea_monotonic_ns() - start < INT64_C(20000000000));
    assert_int_equal(ea_source_next(s, &r, &err), EA_ECANCELED);
    ea_thread_join(t);
    ea_source_close(s);
}

static void refused(void **state) {
    (void)state;
    make_file("a.etl", 1, 1000);
    const char *path = scratch_path("a.etl"), *missing = scratch_path("missing.etl");
    ea_source *s;
    ea_err err;

    assert_int_equal(ea_source_open_files(&s, &path, 1, -1, NULL, &err), EA_EINVAL);
    assert_int_equal(ea_source_open_files(&s, &path, 1, INFINITY, NULL, &err), EA_EINVAL);
    assert_int_equal(ea_source_open_files(&s, &path, 1, NAN, NULL, &err), EA_EINVAL);
    assert_true(ea_source_open_files(&s, &missing, 1, 0, NULL, &err) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(pace, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(stops, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(refused, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
