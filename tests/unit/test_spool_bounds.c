/* The spool at its bounds: who waits, what gives way, and the tombstones that say so. */
#include "spool_kit.h"

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
    begin(s, STREAM, 0);
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
    /* and again, until it is told to stop */
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
    begin(s, STREAM, 0);
    assert_int_equal(offer_batch(s, STREAM, 1, 1, 1, 70000, &err), EA_ELIMIT);
    must(offer_batch(s, STREAM, 2, 1, 1, 60000, &err), &err); /* larger than a segment is meant to be */
    assert_int_equal(take_one(s, &item), 2);
    settle_one(s, &item, EA_SPOOL_DONE);
    must(offer_batch(s, STREAM, 3, 1, 1, 60000, &err), &err); /* the open segment gives way */
    close_spool(s);
}

static void the_number_of_batches_is_bounded(void **state) {
    (void)state;
    ea_spool *s = open_with(&(ea_spool_options){.limit_batches = 3, .sync = EA_SPOOL_SYNC_NEVER});
    ea_spool_item item;
    ea_thread *thread;
    ea_err err;
    begin(s, STREAM, 0);
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

/* ---- giving way ---- */

static const ea_spool_options SMALL = {
    .limit_bytes = 64 << 10, .segment_bytes = 16 << 10, .evict = 1, .sync = EA_SPOOL_SYNC_NEVER};

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
    for (int i = 0; i < 3000 && counter(EA_COUNT_events_evicted_age) < 20; i++) /* nobody asks for it */
        ea_sleep_ns(10000000);
    assert_int_equal(counter(EA_COUNT_events_evicted_age), 20);
    must(ea_spool_trouble(s, &err), &err);
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
        TWICE(segments_go_when_they_are_acknowledged),
        TWICE(the_oldest_gives_way),
        T(security_outlives_bulk),
        TWICE(what_is_on_its_way_does_not_give_way),
        TWICE(too_old_gives_way),
        TWICE(a_random_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
