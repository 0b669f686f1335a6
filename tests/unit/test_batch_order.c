/* collector/pull/batch_order.h: records of several streams come in the order of their times; a session of another start
 * of the machine, and one with pointers of another size, are refused. */
#include "collector/pull/batch_order.h"
#include "tests/unit/store_rig.h"

enum { BATCHES = 3, EVENTS = 4, STEP = 100, APART = 50 };

/* Batches of a stream, which begin every STEP ticks. */
static void append_stream(fixture *f, uint8_t stream, uint32_t pointer_size, int64_t begin) {
    test_maker m;
    test_maker_init(&m, stream);
    m.pointer_size = pointer_size;
    for (int i = 0; i < BATCHES; i++) {
        test_batch b;
        test_make(&m, (uint64_t)i + 1, EVENTS, begin + (int64_t)i * STEP, &b);
        assert_int_equal(append(f, TEST_HOST, &b), EC_STORED);
        free(b.data);
    }
    test_maker_deinit(&m);
}

/* Reads two streams; options has what the reader is to compare them with. The number of records, or an error. */
static int read_both(fixture *f, ec_batch_order_options options) {
    ec_archive *archive = NULL;
    const ec_archive_stream *all, *streams[2];
    size_t count;
    const ea_record *r;
    const ea_class *c;
    ec_batch_order *b = NULL;
    int64_t last = INT64_MIN;
    int rc, n = 0;
    assert_int_equal(ec_archive_open(&archive, f->dir, TEST_HOST, NULL, &f->err), 0);
    assert_int_equal(ec_archive_streams(archive, &all, &count, &f->err), 0);
    assert_int_equal(count, 2);
    streams[0] = &all[0];
    streams[1] = &all[1];
    options.archive = archive;
    options.streams = streams;
    options.stream_count = 2;
    assert_int_equal(ec_batch_order_open(&b, &options, INT64_MIN, INT64_MAX, &f->err), 0);
    while ((rc = ec_batch_order_next(b, &r, &c, &f->err)) == 1) {
        assert_true(r->time_raw >= last);
        last = r->time_raw;
        n++;
    }
    ec_batch_order_close(b);
    ec_archive_close(archive);
    return rc < 0 ? rc : n;
}

static const ea_clock CLOCK = {
    .type = EA_CLOCK_QPC, .frequency = 1000, .base_utc_ns = INT64_C(1600000000000000000)}; /* as in batches.h */

static void two_streams_are_merged(void **state) {
    fixture *f = *state;
    open_store(f);
    append_stream(f, 1, 8, 0);
    append_stream(f, 2, 8, APART);
    commit(f);
    assert_int_equal(read_both(f, (ec_batch_order_options){.clock = CLOCK, .pointer_size = 8}), 2 * BATCHES * EVENTS);
}

static void another_pointer_size_is_refused(void **state) {
    fixture *f = *state;
    open_store(f);
    append_stream(f, 1, 8, 0);
    append_stream(f, 2, 4, APART);
    commit(f);
    assert_int_equal(read_both(f, (ec_batch_order_options){.clock = CLOCK, .pointer_size = 8}), EA_EUNSUPPORTED);
    assert_non_null(strstr(f->err.message, "pointers of 4 bytes"));
    assert_int_equal(read_both(f, (ec_batch_order_options){.clock = CLOCK}), 2 * BATCHES * EVENTS);
}

static void another_start_is_refused(void **state) {
    enum { MINUTES_2 = 120 };

    fixture *f = *state;
    ea_clock later = CLOCK;
    later.base_utc_ns += MINUTES_2 * INT64_C(1000000000);
    open_store(f);
    append_stream(f, 1, 8, 0);
    append_stream(f, 2, 8, APART);
    commit(f);
    assert_int_equal(read_both(f, (ec_batch_order_options){.clock = later}), EA_EUNSUPPORTED);
    assert_non_null(strstr(f->err.message, "started again"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_streams_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(another_pointer_size_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(another_start_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
