/* Windows of a recorder that triggers send: which batches come into the spool, each once, and tombstones for those that
 * are missing; limits of an earlier run; and the file of triggers, whatever is in it. */
#include "service/core/triggers.h"

#include "service/batch/builder.h"
#include "service/core/agent_log.h"
#include "tests/unit/spool_kit.h"

#include <inttypes.h>

#define SECOND   INT64_C(1000000000)
#define EPOCH_NS (INT64_C(1700000000) * SECOND) /* of raw time 0 */
#define HOUR_NS  (3600 * SECOND)

enum { FILE_SEED = 0x72676774, FIRED_MAX = 100, WINDOWS_MAX = 256 };

static const char FILE_NAME[] = "spool/recorder/x/triggers";

static ea_spool *spool, *recorder;
static ea_triggers *triggers;

static int begin_triggers(void **state) {
    ea_err err;
    int rc = setup(state);
    return rc ? rc : ea_log_open(&(ea_log_options){.quiet = 1, .path = scratch_path("log")}, &err);
}

static int end_triggers(void **state) {
    ea_log_close();
    return teardown(state);
}

/* ---- two spools, and triggers between them ---- */

static void open_both(void) {
    ea_err err;
    spool = open_spool();
    must(ea_spool_open(&recorder, scratch_path("spool/recorder/x"),
                       &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .live = 1, .is_recorder = 1}, &err),
         &err);
}

static void create(int64_t slack_ns) {
    ea_err err;
    must(ea_triggers_create(
             &triggers,
             &(ea_triggers_options){
                 .name = "x", .spool = spool, .recorder = recorder, .ledger = ledger, .slack_ns = slack_ns},
             &err),
         &err);
}

static void close_both(void) {
    ea_triggers_destroy(triggers);
    triggers = NULL;
    close_spool(recorder);
    close_spool(spool);
}

static void fire(const char *name, int64_t at_s, int64_t before_s, int64_t after_s) {
    ea_triggers_fire(triggers, "program",
                     &(ea_lang_trigger){.name = name, .before_ns = before_s * SECOND, .after_ns = after_s * SECOND},
                     EPOCH_NS + at_s * SECOND, EPOCH_NS + at_s * SECOND);
}

static void count_fired(void *arg, const char *program, const char *trigger, int64_t utc_ns) {
    assert_string_equal(program, "program");
    assert_true(*trigger && utc_ns >= EPOCH_NS);
    ++*(size_t *)arg;
}

static size_t fired(void) {
    size_t n = 0;
    ea_triggers_each_fired(triggers, count_fired, &n);
    return n;
}

/* Batches of one event a second, numbered by their seconds. */
static void record_seconds(const uint64_t *seconds, size_t count) {
    static const ea_wire_source SOURCE = {
        .name = "x",
        .host = "MACHINE",
        .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
        .pointer_size = 8,
        .cpu_count = 1};
    ea_encoder_options options = {.zstd_level = 1};
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    ea_err err = {0};
    memcpy(options.stream, STREAM, sizeof options.stream);
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &(ea_builder_options){.sources = &SOURCE, .source_count = 1}, &err), &err);
    must(ea_encoder_create(&encoder, &options, &err), &err);
    must(ea_spool_stream(recorder, STREAM, 0, 0, NULL, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *data, payload[4] = {0};
        size_t n;
        ea_record r = {.id = 5,
                       .pointer_size = 8,
                       .header_type = EA_HEADER_EVENT64,
                       .time_raw = (int64_t)seconds[i] * SECOND,
                       .payload = payload,
                       .payload_bytes = sizeof payload};
        assert_int_equal(ea_builder_add(builder, &r, ea_registry_find(registry, &r)), 0);
        ea_open_batch *open = ea_builder_take(builder);
        must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = seconds[i]}, &data, &n, &err), &err);
        ea_open_batch_release(open);
        must(ea_spool_claim(recorder, STREAM, seconds[i], 1, NULL, 0, &err), &err);
        must(
            ea_spool_append(recorder,
                            &(ea_spool_batch){
                                .stream = STREAM, .number = seconds[i], .event_count = 1, .data = data, .len_bytes = n},
                            &err),
            &err);
    }
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

/* ---- windows ---- */

static void a_window_is_sent_once_with_what_is_missing(void **state) {
    static const uint64_t SECONDS[] = {1, 2, 3, 4, 5, 7, 8, 9, 10};

    (void)state;
    open_both();
    record_seconds(SECONDS, sizeof SECONDS / sizeof *SECONDS);
    create(0);
    fire("a", 5, 2, 3); /* 3 to 8, without 6 */
    ea_triggers_finish(triggers);
    assert_int_equal(waiting(spool), 6);
    assert_int_equal(counter(EA_COUNT_events_triggered), 5);
    assert_int_equal(counter(EA_COUNT_batches_untriggered), 1);
    fire("a", 4, 2, 1); /* 2 to 5, of which 2 is new; another process sends it */
    ea_triggers_destroy(triggers);
    create(HOUR_NS);
    assert_int_equal(fired(), 2);
    ea_triggers_finish(triggers);
    assert_int_equal(waiting(spool), 7);
    fire("a", 100, 1, 1); /* nothing */
    ea_triggers_destroy(triggers);
    create(0);
    ea_triggers_finish(triggers);
    assert_int_equal(waiting(spool), 7);
    assert_int_equal(counter(EA_COUNT_windows_untriggered), 1);
    assert_int_equal(counter(EA_COUNT_triggers_fired), 3);
    close_both();
}

/* A later file, after the first one was lost, gives no number of a sent stream twice. */
static void a_lost_file_begins_another_stream(void **state) {
    static const uint64_t SECONDS[] = {1, 2, 3};

    (void)state;
    static const uint8_t DONE[8] = {EA_SPOOL_DONE, EA_SPOOL_DONE, EA_SPOOL_DONE};
    ea_err err;
    ea_spool_item items[8];
    uint8_t streams[2][EA_STREAM_ID_BYTES];
    open_both();
    record_seconds(SECONDS, 3);
    for (int i = 0; i < 2; i++) {
        create(0);
        fire("a", 2, 1, 1);
        ea_triggers_finish(triggers);
        ea_triggers_destroy(triggers);
        must(ea_path_remove(scratch_path(FILE_NAME), &err), &err);
    }
    triggers = NULL;
    assert_int_equal(waiting(spool), 6);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ea_spool_take(spool, 1 << 20, items, 8), 3);
        memcpy(streams[i], items[0].stream, sizeof streams[i]);
        assert_memory_equal(streams[i], STREAM, EA_STREAM_RUN_BYTES);
        must(ea_spool_settle(spool, items, DONE, 3, &err), &err);
    }
    assert_memory_not_equal(streams[0], streams[1], EA_STREAM_ID_BYTES);
    close_both();
}

static void many_firings_are_bounded(void **state) {
    enum { FIRINGS = 300 };

    (void)state;
    open_both();
    create(HOUR_NS);
    for (int i = 0; i < FIRINGS; i++)
        fire(i % 3 ? "often" : "seldom", i, 1, 1);
    assert_int_equal(counter(EA_COUNT_triggers_fired), FIRINGS);
    assert_int_equal(counter(EA_COUNT_windows_untriggered), FIRINGS - WINDOWS_MAX);
    assert_int_equal(fired(), 2 * FIRED_MAX);
    fire("seldom", 86400 + FIRINGS - 1, 1, 1); /* those before are a day old */
    assert_int_equal(fired(), 1);
    close_both();
}

/* ---- the file ---- */

/* With its first line and its checksum. */
static void put_file(const char *text) {
    char whole[1024];
    int n = snprintf(whole, sizeof whole, "etwagent triggers 1\n%s", text);
    n += snprintf(whole + n, sizeof whole - (size_t)n, "end %016" PRIx64 "\n", ea_hash64(whole, (size_t)n, FILE_SEED));
    write_file(scratch_path(FILE_NAME), whole, (size_t)n);
}

/* Returns the firings that such a file has. */
static size_t open_file(const char *text) {
    put_file(text);
    create(HOUR_NS);
    size_t found = fired();
    ea_triggers_destroy(triggers);
    triggers = NULL;
    return found;
}

#define FIRED     "fired program a 1700000000000000000\n"
#define RECORDING "01020300000000000000000000000000 "
#define SENT      "01020300000000000000000012345678 "

static void wrong_files_are_begun_anew(void **state) {
    static const char *const WRONG[] = {
        "fired program a 9223372036854775808\n",
        "fired program a -1\n",
        "fired program 1\n",
        "fired  a 1\n",
        "fired program a 1",
        "fired aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa a 1\n",
        FIRED "window 1\n",
        FIRED "window 1 9223372036854775808\n",
        FIRED "planned " RECORDING SENT "0 1-2\n",
        FIRED "planned " RECORDING SENT "1 -\n",
        FIRED "planned " RECORDING SENT "1 2-1\n",
        FIRED "planned " RECORDING "1 1-2\n",
        FIRED "planned 0102 " SENT "1 1-2\n",
        FIRED "sent " RECORDING SENT "1 0-2\n",
        FIRED "sent " RECORDING SENT "1 1-2\nwindow 1 2\n",
        FIRED "sent " RECORDING SENT "18446744073709551616 1-2\n",
        FIRED "else\n",
    };

    (void)state;
    open_both();
    assert_int_equal(open_file(""), 0);
    assert_int_equal(
        open_file(FIRED FIRED "window 1 2\nsent " RECORDING SENT "7 1-2,4-8\nsent " SENT RECORDING "0 -\n"), 2);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        if (open_file(WRONG[i]))
            fail_msg("accepted: %s", WRONG[i]);
    close_both();
}

/* The plan of a recording that is gone: tombstones take its numbers. */
static void a_plan_is_carried_out(void **state) {
    (void)state;
    open_both();
    put_file("planned " RECORDING SENT "4 1-2,9-9\nsent " RECORDING SENT "6 1-2,9-9\n");
    create(HOUR_NS);
    ea_triggers_finish(triggers);
    assert_int_equal(waiting(spool), 3);
    assert_int_equal(counter(EA_COUNT_batches_untriggered), 3);
    close_both();
}

static void no_byte_of_the_file_is_trusted(void **state) {
    (void)state;
    char *data;
    size_t n;
    open_both();
    create(HOUR_NS);
    fire("a", 1, 1, 1);
    ea_triggers_destroy(triggers);
    read_file(scratch_path(FILE_NAME), &data, &n);
    for (size_t i = 0; i < 2 * n; i++) { /* a wrong byte, or an earlier end */
        char was = data[i / 2];
        data[i / 2] ^= 0x55;
        write_file(scratch_path(FILE_NAME), data, i % 2 ? i / 2 : n);
        data[i / 2] = was;
        create(HOUR_NS);
        assert_int_equal(fired(), 0);
        ea_triggers_destroy(triggers);
    }
    write_file(scratch_path(FILE_NAME), data, n);
    create(HOUR_NS);
    assert_int_equal(fired(), 1);
    free(data);
    close_both();
}

int main(void) {
#define LOGGED(name) cmocka_unit_test_setup_teardown(name, begin_triggers, end_triggers)
    const struct CMUnitTest tests[] = {
        LOGGED(a_window_is_sent_once_with_what_is_missing),
        LOGGED(a_lost_file_begins_another_stream),
        LOGGED(many_firings_are_bounded),
        LOGGED(wrong_files_are_begun_anew),
        LOGGED(a_plan_is_carried_out),
        LOGGED(no_byte_of_the_file_is_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
