/* A session of a source that saves its position: it is asked to save only when the spool has every event that it
 * returned, also at the end; when a save fails, the session goes on and the next one has all. What programs skip is in
 * the ledger although no event travels. */
#include "service/core/ingest_session.h"

#include "config/watches.h"
#include "proto/base/provider_guids.h"
#include "service/core/agent_log.h"
#include "tests/unit/scratch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { RECORDS = 1000, AT_ONCE = 130 };

/* Returns RECORDS records, AT_ONCE between two moments of nothing. */
typedef struct counting_source {
    ea_source base; /* first member */
    ea_wire_source row;
    ea_record record;
    uint64_t returned, saved, saves, refused_saves;
    int rested, is_refusing, is_aggregated;
    ea_ingest_session *session;
} counting_source;

static counting_source source;
static ea_spool *spool;

static int counting_next(ea_source *s, const ea_record **ret, ea_err *err) {
    counting_source *c = (counting_source *)s;
    (void)err;
    if (c->returned == RECORDS)
        return 0;
    if (c->returned % AT_ONCE == 0 && !c->rested) {
        c->rested = 1;
        return EA_SOURCE_NOTHING_YET;
    }
    c->rested = 0;
    c->record.position = c->returned++;
    c->record.time_raw++;
    *ret = &c->record;
    return 1;
}

static void counting_stop(ea_source *s) {
    (void)s;
}

static void counting_close(ea_source *s) {
    (void)s;
}

static size_t counting_count(const ea_source *s) {
    (void)s;
    return 1;
}

static const ea_wire_source *counting_row(const ea_source *s, size_t which) {
    (void)which;
    return &((const counting_source *)s)->row;
}

static double counting_progress(const ea_source *s) {
    (void)s;
    return 0;
}

static int counting_is_ahead(ea_source *s, int at_end) {
    const counting_source *c = (const counting_source *)s;
    return c->returned - c->saved >= (at_end ? 1 : AT_ONCE);
}

static int counting_stored(ea_source *s, ea_err *err) {
    counting_source *c = (counting_source *)s;
    ea_counters now;
    ea_ledger_snapshot(c->session->ledger, &now, NULL);
    assert_true(ea_counter_get(&now, EA_COUNT_watch_skipped) == (c->is_aggregated ? c->returned : 0));
    assert_true(ea_counter_get(&now, EA_COUNT_events_aggregated) == (c->is_aggregated ? c->returned : 0));
    assert_true(ea_counter_get(&now, EA_COUNT_events_spooled) == (c->is_aggregated ? 0 : c->returned));
    assert_true(ea_counter_get(&now, EA_COUNT_events_delivered) == c->returned);
    if (c->is_refusing && c->refused_saves < 2) {
        c->refused_saves++;
        return ea_fail(err, EA_EIO, "no room");
    }
    c->saved = c->returned;
    c->saves++;
    return 0;
}

static int begin(void **state) {
    int rc = scratch_make(state);
    ea_err err;
    if (!rc)
        rc = ea_spool_open(&spool, scratch_path("spool"), &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .live = 1},
                           &err);
    return rc ? rc : ea_log_open(&(ea_log_options){.quiet = 1, .path = scratch_path("log")}, &err);
}

static int end(void **state) {
    ea_err err;
    ea_log_close();
    assert_int_equal(ea_spool_close(spool, &err), 0);
    return scratch_clear(state);
}

/* watches: ea_watch_config of one program, which concerns all events; NULL: none. */
static void run(int is_refusing, const ea_tables *watches) {
    static const ea_source_ops OPS = {.next = counting_next,
                                      .stop = counting_stop,
                                      .close = counting_close,
                                      .count = counting_count,
                                      .row = counting_row,
                                      .progress = counting_progress,
                                      .is_ahead = counting_is_ahead,
                                      .stored = counting_stored};
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {1, 2, 3}, PAYLOAD[16] = {0};
    const ea_batching_options batching = {.batch_events = 50, .level = 1, .threads = 2};
    ea_counters counters = {0};
    ea_err err = {0};
    memset(&source, 0, sizeof source);
    source.base.ops = &OPS;
    source.is_refusing = is_refusing;
    source.is_aggregated = watches != NULL;
    source.row = (ea_wire_source){.name = "counting",
                                  .host = "pc",
                                  .clock = {.type = EA_CLOCK_SYSTEM_TIME, .frequency = 10000000},
                                  .pointer_size = 8,
                                  .cpu_count = 1};
    source.record = (ea_record){.provider = EA_PROVIDER_PERF_INFO,
                                .flags = EA_FLAG_CLASSIC_HEADER,
                                .opcode = 46,
                                .version = 2,
                                .pointer_size = 8,
                                .payload = PAYLOAD,
                                .payload_bytes = sizeof PAYLOAD};
    int rc = ea_ingest_session_open(&source.session,
                                    &(ea_ingest_session_options){.source = &source.base,
                                                                 .stream = STREAM,
                                                                 .delay_ns = 1,
                                                                 .live = 1,
                                                                 .batching = &batching,
                                                                 .watches = watches,
                                                                 .counters = &counters},
                                    &err);
    if (!rc)
        rc = ea_ingest_session_attach(source.session, spool, 0, &err);
    if (!rc)
        rc = ea_ingest_session_run(source.session, &err);
    if (rc)
        fail_msg("%s", err.message);
    assert_int_equal(source.returned, RECORDS);
    assert_int_equal(source.saved, RECORDS); /* the last ones at the end */
    ea_ingest_session_close(source.session);
}

static void positions_follow_the_spool(void **state) {
    (void)state;
    run(0, NULL);
    assert_in_range(source.saves, 2, RECORDS / AT_ONCE + 1);
}

static void a_failed_save_is_repeated(void **state) {
    char *log;
    size_t len_bytes;
    ea_err err;
    (void)state;
    run(1, NULL);
    assert_int_equal(source.refused_saves, 2);
    ea_log_close();
    assert_int_equal(ea_path_read_all(scratch_path("log"), 4096, &log, &len_bytes, &err), 0);
    const char *line = strstr(log, "the position of a source is not saved: no room");
    assert_non_null(line);
    assert_null(strstr(line + 1, "the position of a source")); /* once */
    free(log);
}

static void what_programs_skip_needs_no_batch(void **state) {
    ea_watch_config skips = {.name = "skips",
                             .program = "PerfInfo/SampleProf { @ = sum(1 / InstructionPointer); }",
                             .events = EA_WATCH_AGGREGATE,
                             .keys = 100,
                             .memory_bytes = 1 << 20};
    (void)state;
    run(0, &(ea_tables){.items = &skips, .count = 1});
    assert_in_range(source.saves, 2, RECORDS / AT_ONCE + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(positions_follow_the_spool, begin, end),
        cmocka_unit_test_setup_teardown(a_failed_save_is_repeated, begin, end),
        cmocka_unit_test_setup_teardown(what_programs_skip_needs_no_batch, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
