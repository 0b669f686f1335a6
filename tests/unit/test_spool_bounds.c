/* The spool at its limits: which stream waits, what is evicted, and the tombstones of the evicted batches. */

/* Promises (tests/promises.py --write puts them into docs/verification/promises.md):
 * - Delivery 19: Security data stays when the spool is full. | no collector, spool of 2 MiB: 56,265 of 105,595 bulk
 *   events evicted, none of 25,578 security events | 2026-11-23 */

#include "tests/unit/spool_kit.h"

/* ---- bounds ---- */

typedef struct appender {
    ea_spool *spool;
    uint64_t number;
    size_t len_bytes;
    int rc;
    ea_err err;
    atomic_int done;
} appender;

static void append_one(void *arg) {
    appender *a = arg;
    a->rc = offer_batch(a->spool, STREAM, a->number, 10, 1, a->len_bytes, &a->err);
    atomic_store(&a->done, 1);
}

static void a_full_spool_waits(void **state) {
    (void)state;
    ea_spool *s = open_with(&(ea_spool_options){.limit_bytes = 64 << 10, .sync = EA_SPOOL_SYNC_NEVER});
    ea_spool_item item;
    ea_thread *thread;
    ea_err err;
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 6; n++)
        offer(s, n, 10000);
    appender a = {.spool = s, .number = 7, .len_bytes = 10000};
    must(ea_thread_start(&thread, "append", append_one, &a, &err), &err);
    ea_sleep_ns(50000000);
    assert_int_equal(atomic_load(&a.done), 0);
    for (uint64_t n = 1; n <= 2; n++) { /* both of the first segment's */
        assert_int_equal(take_one(s, &item), n);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    ea_thread_join(thread);
    assert_int_equal(a.rc, 0);
    /* and again, until it is canceled */
    a = (appender){.spool = s, .number = 8, .len_bytes = 60000};
    must(ea_thread_start(&thread, "append", append_one, &a, &err), &err);
    ea_sleep_ns(20000000);
    assert_int_equal(atomic_load(&a.done), 0);
    ea_spool_cancel(s, NULL);
    ea_thread_join(thread);
    assert_int_equal(a.rc, EA_ECANCELED);
    close_spool(s);
}

static void a_batch_larger_than_the_spool_is_refused(void **state) {
    (void)state;
    ea_spool *s = open_with(&(ea_spool_options){.limit_bytes = 64 << 10, .sync = EA_SPOOL_SYNC_NEVER});
    ea_spool_item item;
    ea_err err;
    begin(s, STREAM, 1);
    assert_int_equal(offer_batch(s, STREAM, 1, 1, 1, 70000, &err), EA_ELIMIT);
    must(offer_batch(s, STREAM, 2, 1, 1, 60000, &err), &err); /* larger than a segment is meant to be */
    assert_int_equal(take_one(s, &item), 2);
    settle_one(s, &item, EA_SPOOL_DONE);
    must(offer_batch(s, STREAM, 3, 1, 1, 60000, &err), &err); /* the open segment is dropped */
    close_spool(s);
}

static void the_number_of_batches_is_bounded(void **state) {
    (void)state;
    ea_spool *s = open_with(&(ea_spool_options){.limit_batches = 3, .sync = EA_SPOOL_SYNC_NEVER});
    ea_spool_item item;
    ea_thread *thread;
    ea_err err;
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 100);
    appender a = {.spool = s, .number = 4, .len_bytes = 100};
    must(ea_thread_start(&thread, "append", append_one, &a, &err), &err);
    ea_sleep_ns(50000000);
    assert_int_equal(atomic_load(&a.done), 0);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    ea_thread_join(thread);
    assert_int_equal(a.rc, 0);
    close_spool(s);
}

static void segments_go_when_they_are_acknowledged(void **state) {
    (void)state;
    ea_spool *s =
        open_with(&(ea_spool_options){.limit_bytes = 1 << 20, .segment_bytes = 20000, .sync = EA_SPOOL_SYNC_ALWAYS});
    ea_spool_item item;
    ea_spool_status status;
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 20; n++)
        offer(s, n, 4000);
    size_t at_most = segments();
    assert_in_range(at_most, 4, 6);
    for (uint64_t n = 1; n <= 20; n++) {
        assert_int_equal(take_one(s, &item), n);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    assert_int_equal(segments(), 1); /* the open one */
    ea_spool_get_status(s, &status);
    assert_true(status.disk_bytes <= 20000);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* ---- eviction ---- */

/* A source that can be read again, beside the live STREAM; what arrives of it counts from 1,001 on. */
static const uint8_t FILE_STREAM[EA_STREAM_ID_BYTES] = {[0] = 5, [15] = 1};

enum { FILE_BASE = 1000, FILE_BATCHES = 40 };

static const ea_spool_options SMALL = {.limit_bytes = 64 << 10, .segment_bytes = 16 << 10, .sync = EA_SPOOL_SYNC_NEVER};

static void the_oldest_gives_way(void **state) {
    (void)state;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_with(&SMALL);
    ea_spool_status status;
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 40; n++) {
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
        ea_spool_get_status(s, &status);
        assert_true(status.disk_bytes <= (64 << 10) + 1000); /* and tombstones */
    }
    uint64_t evicted = counter(EA_COUNT_events_evicted_size);
    assert_in_range(evicted, 280, 380);
    assert_int_equal(counter(EA_COUNT_events_spooled), 400 - evicted);
    deliver(s, &a, 1000);
    assert_int_equal(a.tombstone_events, evicted);
    assert_int_equal(a.batch_events, 400 - evicted);
    for (uint64_t n = 1; n <= 40; n++)
        assert_int_equal(a.batch[n] + a.tombstone[n], 1);
    assert_true(a.tombstone[1] && a.batch[40]);
    for (size_t i = 0; i < a.gone_count; i++)
        assert_int_equal(a.cause[i], ea_counter_row(EA_COUNT_events_evicted_size)->number);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

static void security_outlives_bulk(void **state) {
    (void)state;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_with(&SMALL);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 60; n++) /* one in ten is a security batch */
        must(offer_batch(s, STREAM, n, 1, n % 10 == 0 ? 2 : 0, 5000, &err), &err);
    deliver(s, &a, 1000);
    for (uint64_t n = 1; n <= 60; n++) {
        assert_int_equal(a.batch[n] + a.tombstone[n], 1);
        if (n % 10 == 0)
            assert_int_equal(a.batch[n], 1);
    }
    /* a spool full of security batches takes no bulk */
    for (uint64_t n = 61; n <= 72; n++)
        must(offer_batch(s, STREAM, n, 1, 2, 5000, &err), &err);
    uint64_t before = counter(EA_COUNT_events_evicted_size);
    must(offer_batch(s, STREAM, 73, 1, 0, 30000, &err), &err);
    assert_int_equal(counter(EA_COUNT_events_evicted_size), before + 1);
    deliver(s, &a, 1000);
    assert_int_equal(a.tombstone[73], 1);
    close_spool(s);
}

static void what_is_on_its_way_does_not_give_way(void **state) {
    (void)state;
    ea_err err;
    ea_spool *s = open_with(&SMALL);
    ea_spool_item item;
    begin(s, STREAM, 0);
    offer(s, 1, 5000);
    assert_int_equal(take_one(s, &item), 1);
    for (uint64_t n = 2; n <= 40; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 5000, &err), &err);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 10);
    close_spool(s);
}

static void too_old_gives_way(void **state) {
    (void)state;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_with(&(ea_spool_options){.limit_age_ns = 50000000, .sync = EA_SPOOL_SYNC_NEVER});
    begin(s, STREAM, 0);
    offer(s, 1, 500);
    offer(s, 2, 500);
    for (int i = 0; i < 3000 && counter(EA_COUNT_events_evicted_age) < 20; i++) /* no caller triggers it */
        ea_sleep_ns(10000000);
    assert_int_equal(counter(EA_COUNT_events_evicted_age), 20);
    must(ea_spool_error(s, &err), &err);
    close_spool(s);
    new_process();
    s = open_spool(); /* what comes now may wait */
    begin(s, OTHER, 0);
    must(offer_batch(s, OTHER, 3, 10, 1, 500, &err), &err);
    deliver(s, &a, 10);
    assert_int_equal(a.gone_count, 1);
    assert_int_equal(a.gone[0].first, 1);
    assert_int_equal(a.gone[0].last, 2);
    assert_int_equal(a.tombstone_events, 20);
    assert_int_equal(a.batch[3], 1);
    close_spool(s);
}

/* Killed after the state recorded the evicted batches as settled, and before their file was removed: the tombstone
 * names all of them. */
static void killed_before_the_file_goes(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    arrived a = {0};
    ea_spool *s = open_with(&(ea_spool_options){.limit_age_ns = 50000000, .sync = EA_SPOOL_SYNC_NEVER});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 3; n++)
        must(offer_batch(s, STREAM, n, 10, 1, 500, NULL), NULL);
    read_file(first_segment(), &data, &len_bytes);
    for (int i = 0; i < 3000 && ea_path_exists(first_segment()); i++)
        ea_sleep_ns(10000000);
    close_spool(s);
    assert_false(ea_path_exists(first_segment()));
    write_file(first_segment(), data, len_bytes);
    free(data);
    new_process();
    s = open_spool();
    deliver(s, &a, 10);
    for (uint64_t n = 1; n <= 3; n++)
        assert_int_equal(a.batch[n] + a.tombstone[n], 1);
    assert_int_equal(a.tombstone_events, 30);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* 1,024 streams that are open are all that a spool takes; of those that are done with the oldest is forgotten. */
static void streams_are_bounded(void **state) {
    enum { STREAMS = 1024 };

    (void)state;
    uint8_t id[EA_STREAM_ID_BYTES] = {0};
    ea_spool_status status;
    ea_err err;
    ea_spool *s = open_spool();
    for (uint32_t i = 0; i < STREAMS; i++) {
        memcpy(id, &i, sizeof i);
        id[15] = 1;
        begin(s, id, 1);
    }
    begin(s, id, 1); /* one of them */
    id[15] = 2;
    assert_int_equal(ea_spool_stream(s, id, 1, 77, ledger, &err), EA_ELIMIT);
    close_spool(s);
    new_process();
    s = open_spool();
    begin(s, id, 1);
    ea_spool_get_status(s, &status);
    assert_in_range(status.streams, 1, STREAMS);
    must(offer_batch(s, id, 1, 10, 1, 500, &err), &err);
    assert_int_equal(waiting(s), 1);
    close_spool(s);
}

/* A stream that is slow to fill a segment: no batch is evicted before it has waited for seven eighths of the limit. */
static void age_takes_nothing_young(void **state) {
    (void)state;

    enum { BATCHES = 60 };

    const int64_t age_ns = 400000000;
    int64_t came_ns[BATCHES + 1];
    uint64_t gone = 0;
    ea_spool *s = open_with(&(ea_spool_options){.limit_age_ns = age_ns, .sync = EA_SPOOL_SYNC_NEVER});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= BATCHES; n++) {
        came_ns[n] = ea_monotonic_ns();
        offer(s, n, 500);
        ea_sleep_ns(50000000);
        uint64_t now_gone = counter(EA_COUNT_events_evicted_age) / 10; /* the oldest first */
        if (now_gone > gone)
            assert_true(ea_monotonic_ns() - came_ns[now_gone] >= age_ns / 8 * 7);
        gone = now_gone;
    }
    assert_true(gone > 0);
    close_spool(s);
}

typedef struct reader {
    ea_spool *spool;
    int rc;
    ea_err err;
    atomic_int read, done;
} reader;

static void read_all(void *arg) {
    reader *r = arg;
    for (uint64_t n = 1; n <= FILE_BATCHES && !r->rc; n++) {
        r->rc = offer_batch(r->spool, FILE_STREAM, n, 10, 2, 5000, &r->err);
        atomic_fetch_add(&r->read, 1);
    }
    atomic_store(&r->done, 1);
}

/* No collector answers, and a file's source was first: it blocks while half of the spool is free. The live stream's
 * low-priority batches are evicted in favour of its security batches, which are all kept. No batch of the file is
 * evicted, whatever its priority. */
static void a_file_waits_and_live_streams_give_way(void **state) {
    (void)state;
    ea_err err;
    ea_thread *thread;
    ea_spool_status status;
    arrived a = {.base[1] = FILE_BASE};
    ea_spool_options o = SMALL;
    o.live = 1;
    ea_spool *s = open_with(&o);
    reader r = {.spool = s};
    begin(s, FILE_STREAM, 1);
    begin(s, STREAM, 0);
    must(ea_thread_start(&thread, "file", read_all, &r, &err), &err);
    for (int i = 0; i < 1000 && atomic_load(&r.read) < 6; i++)
        ea_sleep_ns(10000000);
    ea_sleep_ns(50000000);
    assert_int_equal(atomic_load(&r.read), 6);
    ea_spool_get_status(s, &status);
    assert_in_range(status.disk_bytes, 6 * 5000, 32 << 10);
    for (uint64_t n = 1; n <= 120; n++) {
        must(offer_batch(s, STREAM, n, 10, n % 24 == 0 ? 2 : 0, 5000, &err), &err);
        ea_spool_get_status(s, &status);
        assert_true(status.disk_bytes <= (64 << 10) + 4000); /* and tombstones */
    }
    assert_int_equal(atomic_load(&r.read), 6);
    for (int i = 0; i < 1000 && !atomic_load(&r.done); i++) {
        deliver(s, &a, 1000);
        ea_sleep_ns(10000000);
    }
    ea_thread_join(thread);
    must(r.rc, &r.err);
    deliver(s, &a, 1000);
    for (size_t n = 1; n <= FILE_BATCHES; n++)
        assert_true(a.batch[FILE_BASE + n] == 1 && !a.tombstone[FILE_BASE + n]);
    for (size_t n = 1; n <= 120; n++)
        assert_true(n % 24 == 0 ? a.batch[n] == 1 && !a.tombstone[n] : a.batch[n] + a.tombstone[n] == 1);
    assert_true(a.tombstone_events > 500);
    assert_int_equal(counter(EA_COUNT_events_evicted_size), a.tombstone_events);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* An earlier version wrote batches of all streams into one file. As long as it has some of a source that can be read
 * again, it stays. */
static void a_segment_of_both_kinds_stays(void **state) {
    (void)state;
    uint8_t data[4096], batch[200];
    ea_err err;
    arrived a = {.base[1] = FILE_BASE};
    size_t n = ea_spool_put_head(data, 1, &(ea_spool_head){.priority = 0});
    make_batch(1, sizeof batch, batch);
    for (int i = 0; i < 2; i++) {
        ea_spool_record r = {.number = 1,
                             .event_count = 10,
                             .flags = i ? EA_SPOOL_RESUMABLE : 0,
                             .batch = batch,
                             .len_bytes = sizeof batch};
        memcpy(r.stream, i ? FILE_STREAM : STREAM, sizeof r.stream);
        ea_spool_put_record(data + n, &r, 1);
        memcpy(data + n + EA_SPOOL_RECORD_BYTES, batch, sizeof batch);
        n += EA_SPOOL_RECORD_BYTES + sizeof batch;
    }
    must(ea_path_make_dirs(scratch_path("spool"), &err), &err);
    write_file(first_segment(), data, n);
    ea_spool_options o = SMALL;
    o.live = 1;
    ea_spool *s = open_with(&o);
    assert_int_equal(waiting(s), 2);
    begin(s, OTHER, 0);
    for (uint64_t number = 2; number <= 40; number++)
        must(offer_batch(s, OTHER, number, 10, 2, 5000, &err), &err);
    assert_true(counter(EA_COUNT_events_evicted_size) > 200);
    deliver(s, &a, 1000);
    assert_true(a.batch[1] == 1 && a.batch[FILE_BASE + 1] == 1);
    close_spool(s);
}

/* Age takes what is live, too; a file's batches wait. */
static void age_takes_nothing_of_a_file(void **state) {
    (void)state;
    ea_err err;
    arrived a = {.base[1] = FILE_BASE};
    ea_spool *s = open_with(&(ea_spool_options){.live = 1, .limit_age_ns = 30000000, .sync = EA_SPOOL_SYNC_NEVER});
    begin(s, FILE_STREAM, 1);
    begin(s, STREAM, 0);
    must(offer_batch(s, FILE_STREAM, 1, 10, 1, 500, &err), &err);
    offer(s, 1, 500);
    for (int i = 0; i < 3000 && counter(EA_COUNT_events_evicted_age) < 10; i++)
        ea_sleep_ns(10000000);
    ea_sleep_ns(1200000000); /* another look at the ages */
    assert_int_equal(counter(EA_COUNT_events_evicted_age), 10);
    deliver(s, &a, 10);
    assert_int_equal(a.batch[FILE_BASE + 1], 1);
    assert_int_equal(a.tombstone_events, 10);
    close_spool(s);
}

typedef struct covered_numbers {
    ea_range_set numbers;
    uint64_t events;
    size_t rows;
} covered_numbers;

static int count_tombstone(const ea_tombstone *t, void *arg) {
    covered_numbers *c = arg;
    c->rows++;
    c->events += t->event_count;
    return ea_range_set_add(&c->numbers, t->first, t->last);
}

/* Reads all that waits: batches of tombstones with at most EA_WRITER_TOMBSTONES each. settles: and settles it.
 * Returns how many such batches there were. */
static size_t read_tombstones(ea_spool *s, int settles, covered_numbers *c) {
    static ea_spool_item items[3 * EA_WRITER_TOMBSTONES];
    static uint8_t outcomes[3 * EA_WRITER_TOMBSTONES];
    size_t count = ea_spool_take(s, SIZE_MAX / 2, items, 3 * EA_WRITER_TOMBSTONES), found = 0;
    ea_text body;
    ea_err err;
    ea_text_init(&body);
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = settles ? EA_SPOOL_DONE : EA_SPOOL_AGAIN;
        if (!items[i].is_tombstone)
            continue;
        size_t before = c->rows;
        ea_text_clear(&body);
        must(ea_spool_read(s, &items[i], &body, &err), &err);
        must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, count_tombstone, c, &err), &err);
        assert_in_range(c->rows - before, 1, EA_WRITER_TOMBSTONES);
        found++;
    }
    must(ea_spool_settle(s, items, outcomes, count, &err), &err);
    ea_text_deinit(&body);
    return found;
}

/* A segment with more gaps than a batch of tombstones may have: several batches have them, each under a number that it
 * names, also after a restart. */
static void many_gaps_are_several_batches(void **state) {
    (void)state;

    enum { GAPS = EA_WRITER_TOMBSTONES + 500 };

    ea_err err;
    ea_spool *s = open_with(&(ea_spool_options){
        .limit_bytes = 256 << 20, .segment_bytes = 16 << 20, .limit_batches = 2 * GAPS, .sync = EA_SPOOL_SYNC_NEVER});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 2 * GAPS; n++)
        must(offer_batch(s, STREAM, n, 1, n % 2 ? 0 : 2, 40, &err), &err);
    must(offer_batch(s, STREAM, 2 * GAPS + 1, 1, 2, 40, &err), &err); /* evicts the segment of all odd numbers */
    assert_int_equal(counter(EA_COUNT_events_evicted_size), GAPS);
    covered_numbers c = {0};
    assert_int_equal(read_tombstones(s, 0, &c), 2);
    assert_int_equal(c.rows, GAPS);
    assert_int_equal(c.events, GAPS);
    assert_int_equal(c.numbers.count, GAPS);
    free(c.numbers.ranges);
    close_spool(s);
    new_process();
    s = open_spool();
    c = (covered_numbers){0};
    assert_int_equal(read_tombstones(s, 1, &c), 2);
    assert_int_equal(c.numbers.count, GAPS);
    free(c.numbers.ranges);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* A tombstone of an earlier agent has more rows than one has now: it is evicted into one that has all of them. */
static void tombstones_of_an_earlier_agent_stay(void **state) {
    (void)state;

    enum { GAPS = EA_WRITER_TOMBSTONES + 900 };

    static ea_tombstone rows[GAPS];
    uint8_t bytes[EA_SPOOL_SEALED_HEAD_BYTES + EA_SPOOL_RECORD_BYTES], outcome = EA_SPOOL_DONE;
    ea_spool_record r = {.number = 1, .priority = EA_SPOOL_PRIORITIES - 1, .flags = EA_SPOOL_TOMBSTONE};
    covered_numbers c = {0};
    ea_spool_item item;
    ea_text batch, file;
    ea_err err;
    for (uint64_t i = 0; i < GAPS; i++)
        rows[i] = (ea_tombstone){.first = i + 1, .last = i + 1, .cause = 15, .event_count = 1};
    ea_text_init(&batch);
    ea_text_init(&file);
    must(ea_batch_make_tombstone(STREAM, 1, rows, GAPS, &batch, &err), &err);
    memcpy(r.stream, STREAM, sizeof r.stream);
    r.batch = (const uint8_t *)batch.data;
    r.len_bytes = (uint32_t)batch.len_bytes;
    size_t n = ea_spool_put_head(bytes, 1, &(ea_spool_head){.priority = r.priority, .created_utc_ns = ea_utc_ns()});
    ea_spool_put_record(bytes + n, &r, 1);
    ea_text_add(&file, bytes, n + EA_SPOOL_RECORD_BYTES);
    ea_text_add(&file, batch.data, batch.len_bytes);
    must(ea_path_make_dirs(scratch_path("spool"), &err), &err);
    write_file(first_segment(), file.data, file.len_bytes);
    ea_spool *s = open_with(&(ea_spool_options){.limit_age_ns = 500000000, .sync = EA_SPOOL_SYNC_NEVER});
    assert_int_equal(waiting(s), 1);
    for (int i = 0; i < 3000 && ea_path_exists(first_segment()); i++)
        ea_sleep_ns(10000000);
    must(ea_spool_error(s, &err), &err);
    assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
    ea_text_clear(&batch);
    must(ea_spool_read(s, &item, &batch, &err), &err);
    must(ea_batch_each_tombstone((const uint8_t *)batch.data, batch.len_bytes, count_tombstone, &c, &err), &err);
    assert_int_equal(c.rows, GAPS);
    assert_int_equal(c.events, GAPS);
    must(ea_spool_settle(s, &item, &outcome, 1, &err), &err);
    close_spool(s);
    free(c.numbers.ranges);
    ea_text_deinit(&batch);
    ea_text_deinit(&file);
}

/* A spool so full of what matters more that not even tombstones find a place: they follow when there is some, with the
 * next batch, by the maintenance thread, or when the spool is closed; one for all that lie together. */
static void owed_tombstones_follow(void **state) {
    (void)state;

    enum { BY_APPEND, BY_MAINTENANCE, BY_CLOSE, WAYS };

    for (int way = 0; way < WAYS; way++) {
        ea_err err;
        arrived a = {0};
        new_process();
        ea_spool *s =
            open_with(&(ea_spool_options){.limit_batches = 8,
                                          .sync = way == BY_MAINTENANCE ? EA_SPOOL_SYNC_INTERVAL : EA_SPOOL_SYNC_NEVER,
                                          .sync_interval_ns = 5000000});
        begin(s, STREAM, 0);
        for (uint64_t n = 1; n <= 8; n++)
            must(offer_batch(s, STREAM, n, 10, 2, 100, &err), &err);
        for (uint64_t n = 9; n <= 40; n++)
            must(offer_batch(s, STREAM, n, 10, 0, 100, &err), &err);
        assert_int_equal(waiting(s), 10); /* two tombstones beyond the bound */
        assert_int_equal(counter(EA_COUNT_events_evicted_size), 320);
        deliver(s, &a, 6);
        uint64_t last = 40;
        if (way == BY_APPEND)
            must(offer_batch(s, STREAM, ++last, 10, 0, 100, &err), &err);
        for (int i = 0; way == BY_MAINTENANCE && i < 1000 && waiting(s) < 5; i++)
            ea_sleep_ns(5000000);
        if (way == BY_CLOSE) {
            close_spool(s);
            new_process();
            s = open_spool();
        }
        assert_int_equal(waiting(s), way == BY_APPEND ? 6 : 5);
        deliver(s, &a, 100);
        for (uint64_t n = 1; n <= last; n++)
            assert_int_equal(a.batch[n] + a.tombstone[n], 1);
        assert_int_equal(a.tombstone_events, 320);
        assert_int_equal(a.gone_count, 3);
        close_spool(s);
        s = open_spool(); /* no hole is left that the spool would report */
        assert_int_equal(waiting(s), 0);
        close_spool(s);
        assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
    }
}

/* A random life of a live agent: batches of all priorities and sizes, a collector that comes and goes, restarts, each
 * with a stream of its own. In the end each number of each stream has arrived once, as a batch or in a tombstone, and
 * the events agree with what was offered. */
static void a_random_life(void **state) {
    (void)state;
    ea_err err;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        arrived a = {0};
        uint8_t stream[EA_STREAM_ID_BYTES] = {1};
        uint64_t random = seed * 0x9E3779B97F4A7C15u, number = 0, events = 0, here = 0;
        new_process();
        ea_spool *s = open_with(&SMALL);
        begin(s, stream, 0);
        for (int step = 0; step < 700; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t dice = random >> 57, size = 50 + (random >> 20) % (dice & 1 ? 300 : 9000);
            if (dice < 100) {
                events += ++number % 5;
                must(offer_batch(s, stream, number - a.base[stream[15]], (uint32_t)(number % 5),
                                 (uint32_t)(random >> 40) % 3, size, &err),
                     &err);
            } else if (dice < 126) {
                here += deliver(s, &a, (random >> 40) % 4);
            } else if (stream[15] < 63) {
                close_spool(s);
                s = open_with(&SMALL);
                a.base[++stream[15]] = number;
                begin(s, stream, 0);
            }
        }
        here += deliver(s, &a, 100000);
        for (uint64_t n = 1; n <= number; n++)
            if (a.batch[n] + a.tombstone[n] != 1)
                fail_msg("seed %llu: number %llu of %llu: %d batches, %d tombstones", (unsigned long long)seed,
                         (unsigned long long)n, (unsigned long long)number, a.batch[n], a.tombstone[n]);
        assert_int_equal(a.batch_events + a.tombstone_events, events);
        assert_true(here > 100 && a.tombstone_events > 100 && stream[15] > 5);
        close_spool(s);
        assert_int_equal(segments(), 0);
        assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_full_spool_waits),
        T(a_batch_larger_than_the_spool_is_refused),
        T(the_number_of_batches_is_bounded),
        T(streams_are_bounded),
        TWICE(segments_go_when_they_are_acknowledged),
        TWICE(the_oldest_gives_way),
        T(security_outlives_bulk),
        T(a_file_waits_and_live_streams_give_way),
        T(a_segment_of_both_kinds_stays),
        T(age_takes_nothing_of_a_file),
        T(many_gaps_are_several_batches),
        T(tombstones_of_an_earlier_agent_stay),
        T(owed_tombstones_follow),
        TWICE(what_is_on_its_way_does_not_give_way),
        TWICE(too_old_gives_way),
        T(age_takes_nothing_young),
        TWICE(killed_before_the_file_goes),
        TWICE(a_random_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
