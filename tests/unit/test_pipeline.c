/* The pipeline: records go in, and the spool gets batches whose numbers have no hole; what was claimed by an earlier
 * run is not made again; nothing is lost when the spool is full or an encoder fails, and the ledger balances at each
 * step; a renewed stream begins with number 1 and goes on. */
#include "tests/unit/spool_kit.h"

#include "proto/wire/wire.h"
#include "service/core/pipeline.h"
#include "service/spool/recorder.h"
#include "tests/unit/batch_samples.h"

enum { BATCH_EVENTS = 100, EVENTS = 1050, NUMBERS_MAX = 2000 };

static const ea_wire_source SOURCES[2] = {{.name = "NT Kernel Logger",
                                           .host = "MACHINE",
                                           .clock = {.type = EA_CLOCK_QPC,
                                                     .frequency = 10000000,
                                                     .base_raw = 500,
                                                     .base_utc_ns = INT64_C(1600000000000000000)},
                                           .pointer_size = 8,
                                           .cpu_count = 4},
                                          {.name = "user",
                                           .host = "MACHINE",
                                           .clock = {.type = EA_CLOCK_SYSTEM_TIME,
                                                     .frequency = 10000000,
                                                     .base_raw = 2000000,
                                                     .base_utc_ns = INT64_C(1600000000300000000)},
                                           .pointer_size = 4}};

/* ---- an encoder that can fail ---- */

static atomic_int encodes_until_failure; /* 0: none fails */

int __real_ea_encoder_encode(ea_encoder *e, ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                             size_t *ret_len_bytes, ea_err *err);
int __wrap_ea_encoder_encode(ea_encoder *e, ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                             size_t *ret_len_bytes, ea_err *err);

int __wrap_ea_encoder_encode(ea_encoder *e, ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                             size_t *ret_len_bytes, ea_err *err) {
    if (atomic_load(&encodes_until_failure) && atomic_fetch_sub(&encodes_until_failure, 1) == 1)
        return ea_fail(err, EA_ENOMEM, "encode a batch: planned failure");
    return __real_ea_encoder_encode(e, o, stamp, ret_data, ret_len_bytes, err);
}

/* ---- one session ---- */

typedef struct rig {
    ea_spool *spool;
    ea_pipeline *pipeline;
    samples records;
} rig;

static void rig_open_with(rig *g, int live, unsigned encoders, const ea_spool_options *options) {
    ea_err err;
    g->spool = open_with(options);
    begin(g->spool, STREAM, !live);
    must(ea_pipeline_create(&g->pipeline,
                            &(ea_pipeline_options){.stream = STREAM,
                                                   .batch_events = BATCH_EVENTS,
                                                   .encoders = encoders,
                                                   .sources = SOURCES,
                                                   .source_count = 2,
                                                   .live = live,
                                                   .spool = g->spool,
                                                   .ledger = ledger},
                            &err),
         &err);
    samples_init(&g->records, 7, 2);
}

static void rig_open(rig *g, int live, unsigned encoders) {
    rig_open_with(g, live, encoders, &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER});
}

static void rig_close(rig *g) {
    ea_pipeline_destroy(g->pipeline);
    close_spool(g->spool);
}

static int add_some(rig *g, unsigned count, ea_err *err) {
    int rc = 0;
    for (unsigned i = 0; i < count && !rc; i++) {
        ea_record r;
        samples_next(&g->records, &r);
        rc = ea_pipeline_add(g->pipeline, &r, err);
        if (i % 37 == 0)
            check_ledger();
    }
    return rc;
}

static void add(rig *g, unsigned count) {
    ea_err err;
    must(add_some(g, count, &err), &err);
}

static void finish(rig *g) {
    ea_err err;
    must(ea_pipeline_finish(g->pipeline, &err), &err);
    check_ledger();
}

static ea_pipeline_status status_of(const rig *g) {
    ea_pipeline_status s;
    ea_pipeline_get_status(g->pipeline, &s);
    return s;
}

/* ---- what comes out ---- */

typedef struct seen {
    uint64_t ledger_delivered, ledger_synthesised; /* the last numbers of the session's ledger that travelled */
    unsigned times[NUMBERS_MAX];                   /* by number */
    uint64_t events, highest, empty;
    uint8_t stream[EA_STREAM_ID_BYTES];
} seen;

static int on_ledger(const ea_ledger_count *count, void *arg) {
    seen *s = arg;
    if (*count->family)
        return 0;
    if (count->counter == ea_counter_row(EA_COUNT_events_delivered)->number)
        s->ledger_delivered = count->value;
    if (count->counter == ea_counter_row(EA_COUNT_events_synthesised)->number)
        s->ledger_synthesised = count->value;
    return 0;
}

/* Takes up to count batches as a sender does; each says its number and its stream itself. */
static void take_batches(rig *g, seen *s, size_t count) {
    ea_spool_item item;
    ea_err err;
    for (size_t i = 0; i < count && ea_spool_take(g->spool, 1, &item, 1); i++) {
        ea_text body;
        ea_batch_head head;
        ea_text_init(&body);
        must(ea_spool_read(g->spool, &item, &body, &err), &err);
        must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
        if (item.number > s->highest) /* encoders finish in any order */
            must(ea_batch_each_count((const uint8_t *)body.data, body.len_bytes, on_ledger, s, &err), &err);
        assert_in_range(item.number, 1, NUMBERS_MAX - 1);
        assert_int_equal(head.number, item.number);
        assert_memory_equal(head.stream, item.stream, sizeof item.stream);
        if (!item.is_tombstone) {
            s->times[item.number]++;
            s->events += item.event_count;
            s->empty += item.event_count == 0;
        }
        s->highest = item.number > s->highest ? item.number : s->highest;
        memcpy(s->stream, item.stream, sizeof s->stream);
        ea_text_deinit(&body);
        settle_one(g->spool, &item, EA_SPOOL_DONE);
    }
}

static void assert_no_hole(const seen *s, uint64_t first) {
    for (uint64_t n = first; n <= s->highest; n++)
        if (s->times[n] != 1)
            fail_msg("number %u of %u came %u times", (unsigned)n, (unsigned)s->highest, s->times[n]);
}

/* ---- tests ---- */

static void numbers_have_no_hole(void **state) {
    (void)state;
    rig g;
    seen s = {.events = 0};
    rig_open(&g, 0, 4);
    add(&g, EVENTS);
    finish(&g);
    take_batches(&g, &s, NUMBERS_MAX);
    assert_no_hole(&s, 1);
    assert_int_equal(s.highest, (EVENTS + BATCH_EVENTS - 1) / BATCH_EVENTS);
    assert_int_equal(s.events, EVENTS);
    assert_int_equal(s.empty, 0);
    ea_pipeline_status p = status_of(&g);
    assert_int_equal(p.events, EVENTS);
    assert_int_equal(p.batches, s.highest);
    assert_int_equal(p.encoded_batches, s.highest);
    assert_int_equal(p.encoded_events, EVENTS);
    assert_int_equal(p.kept_batches, 0);
    rig_close(&g);
}

/* Every event is delivered once, and is in one place: with no other thread at work the numbers are exact. */
static void the_ledger_counts_each_event_once(void **state) {
    (void)state;
    rig g;
    seen s = {.events = 0};
    rig_open(&g, 0, 2);
    add(&g, EVENTS);
    assert_int_equal(counter(EA_COUNT_events_delivered), EVENTS - EVENTS % BATCH_EVENTS);
    finish(&g);
    assert_int_equal(counter(EA_COUNT_events_delivered), EVENTS);
    assert_int_equal(counter(EA_COUNT_events_batched), EVENTS);
    assert_int_equal(counter(EA_COUNT_events_pending), 0);
    assert_int_equal(counter(EA_COUNT_events_spooled), EVENTS);
    assert_int_equal(
        counter(EA_COUNT_decode_whole) + counter(EA_COUNT_decode_partial) + counter(EA_COUNT_decode_unknown), EVENTS);
    take_batches(&g, &s, 3);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), s.events);
    assert_int_equal(counter(EA_COUNT_events_spooled), EVENTS - s.events);
    rig_close(&g);
}

/* The same records again, as after a kill: what the spool has, or had, is not made again. */
static void a_claimed_number_is_not_made_again(void **state) {
    (void)state;
    rig g;
    seen first = {.events = 0}, second = {.events = 0};
    rig_open(&g, 0, 2);
    add(&g, 5 * BATCH_EVENTS);
    finish(&g);
    take_batches(&g, &first, 2);
    rig_close(&g);

    new_process();
    rig_open(&g, 0, 2);
    add(&g, 8 * BATCH_EVENTS);
    finish(&g);
    ea_pipeline_status p = status_of(&g);
    assert_int_equal(p.kept_batches, 5);
    assert_int_equal(p.encoded_batches, 3);
    assert_int_equal(p.batches, 8);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 2 * BATCH_EVENTS);
    take_batches(&g, &second, NUMBERS_MAX);
    assert_int_equal(second.highest, 8);
    for (uint64_t n = 1; n <= 8; n++) /* encoders finish in any order: the first two need not be 1 and 2 */
        assert_int_equal(first.times[n] + second.times[n], 1);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 8 * BATCH_EVENTS);
    rig_close(&g);
}

/* ---- a full spool ---- */

typedef struct feeder {
    rig *g;
    ea_err err;
    int rc;
    atomic_int over;
} feeder;

static void feed_all(void *arg) {
    feeder *f = arg;
    for (unsigned i = 0; i < EVENTS && !f->rc; i++) {
        ea_record r;
        samples_next(&f->g->records, &r);
        f->rc = ea_pipeline_add(f->g->pipeline, &r, &f->err);
    }
    if (!f->rc)
        f->rc = ea_pipeline_finish(f->g->pipeline, &f->err);
    atomic_store(&f->over, 1);
}

static const ea_spool_options TWO_BATCHES = {.sync = EA_SPOOL_SYNC_NEVER, .limit_batches = 2};

static void a_replay_waits_for_room(void **state) {
    (void)state;
    rig g;
    seen s = {.events = 0};
    ea_thread *thread;
    ea_err err;
    rig_open_with(&g, 0, 2, &TWO_BATCHES);
    feeder f = {.g = &g};
    must(ea_thread_start(&thread, "feeder", feed_all, &f, &err), &err);
    ea_sleep_ns(100000000);
    assert_int_equal(atomic_load(&f.over), 0); /* it waits */
    check_ledger();
    while (!atomic_load(&f.over) || waiting(g.spool)) {
        take_batches(&g, &s, 1);
        ea_sleep_ns(1000000);
    }
    ea_thread_join(thread);
    must(f.rc, &f.err);
    assert_no_hole(&s, 1);
    assert_int_equal(s.events, EVENTS);
    assert_int_equal(counter(EA_COUNT_events_evicted_size), 0);
    rig_close(&g);
}

static void a_canceled_spool_ends_the_waiting(void **state) {
    (void)state;
    rig g;
    ea_thread *thread;
    ea_err err;
    rig_open_with(&g, 0, 2, &TWO_BATCHES);
    feeder f = {.g = &g};
    must(ea_thread_start(&thread, "feeder", feed_all, &f, &err), &err);
    ea_sleep_ns(50000000);
    ea_spool_cancel(g.spool, STREAM);
    ea_thread_join(thread);
    assert_int_equal(f.rc, EA_ECANCELED);
    rig_close(&g);
}

/* A live session's source never blocks: when the spool is full, batches are evicted and counted. */
static void a_live_session_evicts(void **state) {
    (void)state;
    rig g;
    ea_spool_options o = TWO_BATCHES;
    o.live = 1;
    rig_open_with(&g, 1, 2, &o);
    add(&g, EVENTS);
    finish(&g);
    assert_int_equal(counter(EA_COUNT_events_delivered), EVENTS);
    assert_true(counter(EA_COUNT_events_evicted_size) >= EVENTS - 3 * BATCH_EVENTS);
    assert_int_equal(counter(EA_COUNT_events_evicted_size) + counter(EA_COUNT_events_spooled), EVENTS);
    rig_close(&g);
}

/* ---- failures ---- */

static void an_encoder_that_fails_ends_it(void **state) {
    (void)state;
    rig g;
    ea_err err = {0};
    rig_open(&g, 0, 2);
    atomic_store(&encodes_until_failure, 3);
    int rc = add_some(&g, 50 * BATCH_EVENTS, &err); /* it is not blocked by batches that are never encoded */
    if (!rc)
        rc = ea_pipeline_finish(g.pipeline, &err);
    assert_int_equal(rc, EA_ENOMEM);
    assert_non_null(strstr(err.message, "planned failure"));
    assert_int_equal(ea_pipeline_flush(g.pipeline, &err), EA_ENOMEM);
    check_ledger(); /* what is lost stays in "compressing" */
    assert_int_equal(counter(EA_COUNT_events_batched),
                     counter(EA_COUNT_events_spooled) + counter(EA_COUNT_events_compressing));
    rig_close(&g);
    atomic_store(&encodes_until_failure, 0);
}

/* ---- numbers that go out without events ---- */

static void flush(rig *g) {
    ea_err err;
    must(ea_pipeline_flush(g->pipeline, &err), &err);
    check_ledger();
}

static void what_was_counted_goes_out_once(void **state) {
    (void)state;
    rig g;
    ea_record kind;
    rig_open(&g, 1, 1);
    add(&g, 10);
    flush(&g);
    assert_int_equal(status_of(&g).batches, 1);
    flush(&g); /* nothing new */
    assert_int_equal(status_of(&g).batches, 1);
    samples_next(&g.records, &kind);
    ea_pipeline_note_dropped(g.pipeline, &kind, 5, EA_COUNT_events_dropped_full);
    flush(&g);
    assert_int_equal(status_of(&g).batches, 2);
    assert_int_equal(counter(EA_COUNT_events_delivered), 15);
    assert_int_equal(counter(EA_COUNT_events_dropped_full), 5);
    flush(&g);
    assert_int_equal(status_of(&g).batches, 2);
    rig_close(&g);
}

/* Counters of the source are news; where batches are, and what was waited for, is none. */
static void only_the_source_makes_news(void **state) {
    (void)state;

    static const enum ea_counter NEWS[] = {EA_COUNT_source_events_lost,    EA_COUNT_source_lost_records,
                                           EA_COUNT_source_bad_bytes,      EA_COUNT_source_paced_seconds,
                                           EA_COUNT_source_stale_sessions, EA_COUNT_decode_asked,
                                           EA_COUNT_images_asked,          EA_COUNT_images_left_end,
                                           EA_COUNT_stacks_joined,         EA_COUNT_stacks_too_short};

    static const enum ea_counter NONE[] = {
        EA_COUNT_source_held_seconds, EA_COUNT_shipping_held_seconds, EA_COUNT_batches_closed,  EA_COUNT_batches_sent,
        EA_COUNT_keyframes_written,   EA_COUNT_spool_torn_bytes,      EA_COUNT_collector_moves, EA_COUNT_stream_ended,
        EA_COUNT_ingest_requests,     EA_COUNT_state_failures};

    rig g;
    uint64_t batches = 1;
    rig_open(&g, 1, 1);
    add(&g, 10);
    flush(&g);
    for (size_t i = 0; i < sizeof NEWS / sizeof *NEWS; i++) {
        ea_count(&counters, NEWS[i], 1);
        flush(&g);
        if (status_of(&g).batches != ++batches)
            fail_msg("%s is news", ea_counter_row(NEWS[i])->name);
    }
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        ea_count(&counters, NONE[i], 1);
        flush(&g);
        if (status_of(&g).batches != batches)
            fail_msg("%s is no news", ea_counter_row(NONE[i])->name);
    }
    rig_close(&g);
}

static void a_stream_has_one_closing_batch(void **state) {
    (void)state;
    rig g;
    seen s = {.events = 0};
    ea_err err;
    rig_open(&g, 0, 2);
    add(&g, 250);
    finish(&g);
    take_batches(&g, &s, 3);
    must(ea_pipeline_end(g.pipeline, &err), &err);
    check_ledger();
    take_batches(&g, &s, NUMBERS_MAX);
    assert_int_equal(s.highest, 4);
    assert_no_hole(&s, 1);
    assert_int_equal(s.empty, 1);
    assert_int_equal(s.events, 250);
    rig_close(&g);
}

/* What a replay's source counts after its last event travels with the closing batch alone. */
static void a_replay_ends_with_one_empty_batch(void **state) {
    (void)state;
    rig g;
    seen s = {.events = 0};
    ea_err err;
    rig_open(&g, 0, 1);
    add(&g, 150);
    ea_count(&counters, EA_COUNT_source_bad_bytes, 77);
    finish(&g);
    must(ea_pipeline_end(g.pipeline, &err), &err);
    take_batches(&g, &s, NUMBERS_MAX);
    assert_int_equal(s.highest, 3);
    assert_int_equal(s.empty, 1);
    rig_close(&g);
}

/* ---- another name ---- */

static void a_renewed_stream_begins_with_1(void **state) {
    (void)state;
    rig g;
    seen old = {.events = 0}, fresh = {.events = 0};
    uint8_t name[EA_STREAM_ID_BYTES];
    ea_err err;
    rig_open(&g, 1, 3);
    add(&g, 10 * BATCH_EVENTS);
    while (waiting(g.spool) < 10) /* its encoders are at work */
        ea_sleep_ns(1000000);
    take_batches(&g, &old, 3);
    assert_memory_equal(old.stream, STREAM, sizeof STREAM);
    must(ea_pipeline_renew(g.pipeline, &err), &err);
    check_ledger();
    ea_pipeline_stream(g.pipeline, name);
    assert_memory_not_equal(name, STREAM, sizeof STREAM);
    assert_int_equal(status_of(&g).batches, 7);
    assert_int_equal(counter(EA_COUNT_streams_renewed), 1);
    add(&g, 5 * BATCH_EVENTS);
    finish(&g);
    assert_int_equal(status_of(&g).keyframes, 1); /* with the first event under the new name */
    take_batches(&g, &fresh, NUMBERS_MAX);
    assert_memory_equal(fresh.stream, name, sizeof name);
    assert_no_hole(&fresh, 1);
    assert_int_equal(fresh.highest, status_of(&g).batches);
    assert_int_equal(fresh.events, 12 * BATCH_EVENTS + counter(EA_COUNT_events_synthesised));
    assert_int_equal(fresh.ledger_delivered, 12 * BATCH_EVENTS); /* its ledger does not count what the old name had */
    assert_int_equal(fresh.ledger_synthesised, counter(EA_COUNT_events_synthesised));
    assert_int_equal(counter(EA_COUNT_events_acknowledged),
                     15 * BATCH_EVENTS + counter(EA_COUNT_events_synthesised)); /* each one once, under either name */
    rig_close(&g);
}

typedef struct closings {
    uint64_t recorded, lost;
    unsigned count;
} closings;

static int see_closing(const ea_spool_cut_off *c, void *arg) {
    closings *all = arg;
    all->recorded = c->numbers.values[EA_COUNT_events_recorded];
    all->lost = c->numbers.values[EA_COUNT_events_evicted_damage];
    all->count++;
    return 0;
}

static int find_recorded(void *arg, const uint8_t *stream, ea_last_numbers *numbers, uint64_t *ret_events,
                         ea_err *err) {
    (void)arg;
    return ea_recorder_find(scratch_path("spool"), NULL, stream, numbers, ret_events, err);
}

/* What a recorder has of a stream under both of its names counts as recorded, not as lost, when its process ends
 * without closing it. */
static void a_renewed_recording_is_found(void **state) {
    (void)state;
    rig g;
    ea_spool *recorder;
    closings all = {.count = 0};
    uint8_t recording[EA_STREAM_ID_BYTES];
    ea_err err;
    g.spool = open_spool();
    begin(g.spool, STREAM, 0);
    must(ea_spool_open(
             &recorder, scratch_path("spool/recorder/x"),
             &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .live = 1, .is_recorder = 1, .counters = &counters},
             &err),
         &err);
    ea_recorder_stream(STREAM, recording);
    begin(recorder, recording, 0);
    must(ea_pipeline_create(&g.pipeline,
                            &(ea_pipeline_options){.stream = STREAM,
                                                   .batch_events = BATCH_EVENTS,
                                                   .encoders = 2,
                                                   .sources = SOURCES,
                                                   .source_count = 2,
                                                   .live = 1,
                                                   .spool = g.spool,
                                                   .recorder = recorder,
                                                   .recording = recording,
                                                   .ledger = ledger},
                            &err),
         &err);
    samples_init(&g.records, 7, 2);
    add(&g, 5 * BATCH_EVENTS);
    must(ea_pipeline_renew(g.pipeline, &err), &err);
    check_ledger();
    add(&g, 3 * BATCH_EVENTS);
    must(ea_pipeline_store(g.pipeline, &err), &err);
    uint64_t recorded = counter(EA_COUNT_events_recorded);
    assert_int_equal(recorded, 8 * BATCH_EVENTS + counter(EA_COUNT_events_synthesised));
    rig_close(&g); /* without its closing batch */
    close_spool(recorder);
    new_process();
    g.spool = open_spool();
    must(ea_spool_each_cut_off(g.spool, find_recorded, see_closing, &all, &err), &err);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.recorded, recorded);
    assert_int_equal(all.lost, 0);
    close_spool(g.spool);
}

static void a_replay_keeps_its_name(void **state) {
    (void)state;
    rig g;
    uint8_t name[EA_STREAM_ID_BYTES];
    ea_err err;
    rig_open(&g, 0, 1);
    add(&g, BATCH_EVENTS);
    assert_int_equal(ea_pipeline_renew(g.pipeline, &err), EA_ECONFLICT);
    ea_pipeline_stream(g.pipeline, name);
    assert_memory_equal(name, STREAM, sizeof STREAM);
    finish(&g);
    rig_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(numbers_have_no_hole),
        T(the_ledger_counts_each_event_once),
        T(a_claimed_number_is_not_made_again),
        T(a_replay_waits_for_room),
        T(a_canceled_spool_ends_the_waiting),
        T(a_live_session_evicts),
        T(an_encoder_that_fails_ends_it),
        T(what_was_counted_goes_out_once),
        T(only_the_source_makes_news),
        T(a_stream_has_one_closing_batch),
        T(a_replay_ends_with_one_empty_batch),
        T(a_renewed_stream_begins_with_1),
        T(a_renewed_recording_is_found),
        T(a_replay_keeps_its_name),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
