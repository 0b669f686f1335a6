/* The spool: what goes in comes out once, whatever happens in between; and the ledger, which balances all the time. */
#include "tests/unit/spool_kit.h"

/* A session ends and the next one reads the same source: each ledger counts its own, and balances. */
static void ledger_of_the_next_session(void **state) {
    (void)state;
    static ea_counters second_counters;
    ea_ledger *first = ledger, *second;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    ea_ledger_families families;
    ea_counters now;
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 4; n++)
        offer(s, n, 100);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 2); /* on its way while the session ends */
    ea_spool_stream_end(s, STREAM, 0);
    ea_spool_detach(s, first);
    memset(&second_counters, 0, sizeof second_counters);
    must(ea_ledger_create(&second, &second_counters, &err), &err);
    ledger = second;
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(offer_batch(s, STREAM, n, 10, 1, 100, &err), n == 1  ? EA_SPOOL_ACKNOWLEDGED
                                                                      : n < 5 ? EA_SPOOL_KEPT
                                                                              : EA_SPOOL_NEW);
    assert_int_equal(ea_counter_get(&second_counters, EA_COUNT_events_acknowledged), 10);
    assert_int_equal(ea_counter_get(&second_counters, EA_COUNT_events_unanswered), 10);
    assert_int_equal(ea_counter_get(&second_counters, EA_COUNT_events_spooled), 30);
    settle_one(s, &item, EA_SPOOL_DONE);
    while (take_one(s, &item))
        settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(ea_counter_get(&second_counters, EA_COUNT_events_acknowledged), 50);
    ea_ledger_snapshot(first, &now, &families);
    must(ea_ledger_check(&now, &families, &err), &err);
    assert_int_equal(ea_counter_get(&now, EA_COUNT_events_acknowledged), 10); /* as it was when that session ended */
    assert_int_equal(ea_counter_get(&now, EA_COUNT_events_unanswered), 10);
    close_spool(s);
    ea_ledger_destroy(second);
    ledger = first;
}

/* One stream is canceled. The other stream continues, and so does the spool. */
static void cancel_one_stream(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_err err;
    begin(s, STREAM, 1);
    begin(s, OTHER, 1);
    ea_spool_cancel(s, STREAM);
    assert_int_equal(offer_batch(s, STREAM, 1, 10, 1, 100, &err), EA_ECANCELED);
    must(offer_batch(s, OTHER, 1, 10, 1, 100, &err), &err);
    assert_int_equal(waiting(s), 1);
    ea_spool_stream_end(s, STREAM, 0);
    begin(s, STREAM, 1); /* taken up again: its batch is made again */
    must(offer_batch(s, STREAM, 2, 10, 1, 100, &err), &err);
    assert_int_equal(waiting(s), 2);
    close_spool(s);
}

static void in_order_out_in_order(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 5; n++)
        offer(s, n, 100 * n);
    assert_int_equal(counter(EA_COUNT_events_spooled), 50);
    assert_int_equal(counter(EA_COUNT_batches_closed), 5);
    for (uint64_t n = 1; n <= 5; n++) {
        assert_int_equal(take_one(s, &item), n);
        assert_int_equal(counter(EA_COUNT_events_unanswered), 10);
        assert_memory_equal(item.stream, STREAM, sizeof STREAM);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    assert_int_equal(take_one(s, &item), 0);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 50);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

static void what_goes_back_keeps_its_place(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item items[4], item;
    uint8_t outcomes[4] = {EA_SPOOL_AGAIN, EA_SPOOL_DONE, EA_SPOOL_REFUSED, EA_SPOOL_AGAIN};
    ea_err err;
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 6; n++)
        offer(s, n, 200);
    assert_int_equal(ea_spool_take(s, 4 * 204, items, 4), 4);
    must(ea_spool_settle(s, items, outcomes, 4, &err), &err);
    check_ledger();
    assert_int_equal(counter(EA_COUNT_events_evicted_refused), 10);
    arrived a = {0};
    deliver(s, &a, 1); /* the tombstone goes first */
    assert_true(a.gone_count == 1 && a.gone[0].first == 3 && a.gone[0].last == 3 && a.tombstone_events == 10);
    assert_int_equal(a.cause[0], ea_counter_row(EA_COUNT_events_evicted_refused)->number);
    static const uint64_t EXPECTED[] = {1, 4, 5, 6, 0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(take_one(s, &item), EXPECTED[i]);
    /* items are the spool's while they are taken: give them back */
    close_spool(s);
}

/* A batch as the wire has it: some of what a rename must keep, and what it must not. */
static size_t make_envelope(const uint8_t *stream, uint64_t number, uint32_t events, uint8_t *out) {
    size_t n = 0;
    const uint8_t head[] = {1 << 3, 1, 2 << 3 | 2, 16};
    memcpy(out, head, sizeof head);
    n += sizeof head;
    memcpy(out + n, stream, 16);
    n += 16;
    out[n++] = 3 << 3;
    out[n++] = (uint8_t)number; /* below 128 */
    out[n++] = 5 << 3;
    out[n++] = (uint8_t)events;
    out[n++] = 6 << 3 | 1; /* the checksum */
    for (int i = 0; i < 8; i++)
        out[n++] = (uint8_t)(number + (unsigned)i);
    const uint8_t directory[] = {10 << 3 | 2, 1, 0};
    memcpy(out + n, directory, sizeof directory);
    n += sizeof directory;
    const uint8_t counts[] = {14 << 3 | 2, 4, 1 << 3, 1, 2 << 3, 9};
    memcpy(out + n, counts, sizeof counts);
    n += sizeof counts;
    out[n++] = 0x8a; /* field 17: a source without anything in it */
    out[n++] = 0x01;
    out[n++] = 0;
    return n;
}

static void offer_envelope_as(ea_spool *s, const uint8_t *stream, uint64_t number, uint32_t priority) {
    uint8_t data[128];
    ea_err err;
    const ea_family_count families[] = {{10, 3}};
    ea_ledger_post(ledger, (ea_posting[]){{EA_COUNT_events_delivered, 10}, {EA_COUNT_events_pending, 10}}, 2, families,
                   1);
    must(ea_spool_claim(s, stream, number, 10, families, 1, &err), &err);
    size_t n = make_envelope(stream, number, 10, data);
    must(ea_spool_append(s, &(ea_spool_batch){stream, number, priority, 10, data, n, families, 1}, &err), &err);
}

static void offer_envelope(ea_spool *s, const uint8_t *stream, uint64_t number) {
    offer_envelope_as(s, stream, number, 1);
}

/* The next batch that is sent: whose, which, and the checksum that it was made with. */
static uint64_t sent_next(ea_spool *s, uint8_t *ret_stream, uint64_t *ret_made, int *ret_counts) {
    ea_spool_item item;
    ea_batch_head head;
    ea_text body;
    ea_err err;
    if (!ea_spool_take(s, 1, &item, 1))
        return 0;
    ea_text_init(&body);
    must(ea_spool_read(s, &item, &body, &err), &err);
    const uint8_t *data = (const uint8_t *)body.data;
    must(ea_batch_read_head(data, body.len_bytes, &head, &err), &err);
    assert_int_equal(head.number, item.number);
    assert_memory_equal(head.stream, item.stream, sizeof head.stream);
    memcpy(ret_stream, head.stream, sizeof head.stream);
    *ret_made = head.checksum & 0xff;
    *ret_counts = 0;
    for (size_t i = 0; i + 5 < body.len_bytes; i++)
        *ret_counts += memcmp(data + i, "\x72\x04\x08\x01\x10\x09", 6) == 0;
    ea_text_deinit(&body);
    settle_one(s, &item, EA_SPOOL_DONE);
    return item.number;
}

static void a_stream_goes_on_under_a_new_name(void **state) {
    (void)state;
    static const uint8_t SECOND[16] = {7}, THIRD[16] = {8};
    uint8_t name[16];
    uint64_t made, count = 0;
    int counts;
    ea_err err;
    ea_spool_item item;
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 6; n++)
        offer_envelope(s, STREAM, n);
    assert_int_equal(sent_next(s, name, &made, &counts), 1);
    assert_memory_equal(name, STREAM, 16);
    assert_int_equal(counts, 1);
    /* while a batch is in flight the stream cannot be renamed */
    assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
    assert_int_equal(ea_spool_renew(s, STREAM, SECOND, &count, &err), EA_EBUSY);
    settle_one(s, &item, EA_SPOOL_AGAIN);
    assert_int_equal(ea_spool_renew(s, OTHER, SECOND, &count, &err), EA_ENOTFOUND);
    must(ea_spool_renew(s, STREAM, SECOND, &count, &err), &err);
    assert_int_equal(count, 5); /* 2 to 6 are 1 to 5 now */
    check_ledger();
    for (uint64_t n = 6; n <= 7; n++)
        offer_envelope(s, SECOND, n);
    assert_int_equal(sent_next(s, name, &made, &counts), 1);
    assert_memory_equal(name, SECOND, 16);
    assert_int_equal(made, 2);
    assert_int_equal(counts, 0); /* its ledger was the old stream's */
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 20);
    close_spool(s);
    new_process();
    s = open_spool(); /* the names on disk are the old ones */
    assert_int_equal(sent_next(s, name, &made, &counts), 2);
    assert_memory_equal(name, SECOND, 16);
    assert_int_equal(made, 3);
    /* once more: what had moved, and what came since */
    must(ea_spool_renew(s, SECOND, THIRD, &count, &err), &err);
    assert_int_equal(count, 5); /* made as 4, 5, 6 of the first and 6, 7 of the second */
    close_spool(s);
    new_process();
    s = open_spool();
    static const uint64_t MADE[] = {4, 5, 6, 6, 7};
    for (uint64_t n = 1; n <= 5; n++) {
        assert_int_equal(sent_next(s, name, &made, &counts), n);
        assert_memory_equal(name, THIRD, 16);
        assert_int_equal(made, MADE[n - 1]);
        assert_int_equal(counts, n == 6);
    }
    assert_int_equal(sent_next(s, name, &made, &counts), 0);
    close_spool(s);
    new_process();
    s = open_spool(); /* nothing comes back, and no hole is mended */
    assert_int_equal(sent_next(s, name, &made, &counts), 0);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* Takes all that waits, which is of the stream: the numbers that it stands for, and the events of its tombstones.
 * Returns how many batches there were. */
static uint64_t take_rest(ea_spool *s, const uint8_t *stream, ea_range_set *seen, uint64_t *events) {
    uint64_t batches = 0;
    ea_err err;
    for (ea_spool_item item; ea_spool_take(s, 1, &item, 1); batches++) {
        ea_batch_head head;
        ea_text body;
        ea_text_init(&body);
        must(ea_spool_read(s, &item, &body, &err), &err);
        must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
        assert_memory_equal(head.stream, stream, 16);
        if (head.kind == EA_BATCH_TOMBSTONE) {
            graves_seen g = {seen, 0};
            must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, see_grave, &g, &err), &err);
            *events += g.events;
        } else {
            must(ea_range_set_add(seen, head.number, head.number), &err);
        }
        ea_text_deinit(&body);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    return batches;
}

/* A refused batch and its tombstone have one number, and here one segment: its eviction must not read the batch for the
 * tombstone, and the numbers and events of both refused ones are reported. */
static void tombstones_beside_their_batches(void **state) {
    (void)state;
    uint64_t events = 0;
    ea_range_set seen = {0};
    ea_spool *s =
        open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .limit_bytes = 8192, .segment_bytes = 2048});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 4; n++)
        offer_envelope_as(s, STREAM, n, EA_SPOOL_PRIORITIES - 1);
    for (uint64_t n = 1; n <= 2; n++) {
        ea_spool_item item;
        assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
        assert_int_equal(item.number, n);
        settle_one(s, &item, EA_SPOOL_REFUSED);
    }
    assert_int_equal(segments(), 1);
    for (uint64_t n = 5; n <= 100; n++)
        offer_envelope_as(s, STREAM, n, EA_SPOOL_PRIORITIES - 1);
    uint64_t evicted = counter(EA_COUNT_events_evicted_size);
    assert_true(evicted > 100);
    (void)take_rest(s, STREAM, &seen, &events);
    assert_int_equal(events, evicted + 20);
    assert_true(seen.count == 1 && seen.ranges[0].first == 1 && seen.ranges[0].last == 100);
    free(seen.ranges);
    close_spool(s);
}

/* Evictions under the old name are reported under the new name, with all their events. */
static void tombstones_of_a_renamed_stream(void **state) {
    (void)state;
    static const uint8_t SECOND[16] = {7};
    uint64_t count = 0, events = 0, numbers;
    ea_err err;
    ea_spool *s =
        open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .limit_bytes = 4096, .segment_bytes = 1024});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 100; n++)
        offer_envelope(s, STREAM, n);
    uint64_t evicted = counter(EA_COUNT_events_evicted_size);
    assert_true(evicted > 300 && evicted % 10 == 0);
    must(ea_spool_renew(s, STREAM, SECOND, &count, &err), &err);
    for (uint64_t n = count + 1; n <= count + 20; n++) /* tombstones of moved batches, and moved tombstones */
        offer_envelope(s, SECOND, n);
    evicted = counter(EA_COUNT_events_evicted_size);
    close_spool(s);
    new_process();
    s = open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .limit_bytes = 4096, .segment_bytes = 1024});
    ea_range_set seen = {0};
    numbers = take_rest(s, SECOND, &seen, &events);
    assert_true(numbers > 2);
    assert_int_equal(events, evicted);
    assert_int_equal(seen.count, 1); /* every number of the new stream, and no other */
    assert_int_equal(seen.ranges[0].first, 1);
    assert_int_equal(seen.ranges[0].last, count + 20);
    free(seen.ranges);
    close_spool(s);
}

/* Owed tombstones (the spool was too full for them) continue under the new name as well. Each gets a number after the
 * numbers of the batches. */
static void owed_tombstones_of_a_renamed_stream(void **state) {
    (void)state;
    static const uint8_t SECOND[16] = {7};
    uint64_t count = 0, events = 0;
    ea_range_set seen = {0};
    ea_err err;
    ea_spool *s = open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .limit_batches = 8});
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 30; n++)
        offer_envelope_as(s, STREAM, n, n <= 8 ? 2 : 0); /* two tombstones are written, the others' is owed */
    must(ea_spool_renew(s, STREAM, SECOND, &count, &err), &err);
    assert_int_equal(count, 11);
    close_spool(s);
    new_process();
    s = open_spool();
    for (ea_spool_item item; ea_spool_take(s, 1, &item, 1);) {
        ea_batch_head head;
        ea_text body;
        ea_text_init(&body);
        must(ea_spool_read(s, &item, &body, &err), &err);
        must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
        assert_memory_equal(head.stream, SECOND, 16);
        graves_seen g = {&seen, 0};
        must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, see_grave, &g, &err), &err);
        events += g.events;
        must(ea_range_set_add(&seen, head.number, head.number), &err);
        ea_text_deinit(&body);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    assert_int_equal(events, 220);
    assert_true(seen.count == 1 && seen.ranges[0].first == 1 && seen.ranges[0].last == 11);
    free(seen.ranges);
    close_spool(s);
}

static void a_take_ends_at_its_bound_and_streams_take_turns(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item items[8];
    ea_err err;
    begin(s, STREAM, 0);
    begin(s, OTHER, 0);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 1000);
    must(offer_batch(s, OTHER, 1, 10, 1, 1000, &err), &err);
    offer(s, 4, 1000);
    offer(s, 5, 1000);
    assert_int_equal(ea_spool_take(s, 2 * 1004 + 1003, items, 8), 2);
    assert_int_equal(items[1].number, 2);
    assert_int_equal(ea_spool_take(s, 100000, items, 8), 1); /* the other stream's, after all of the first stream */
    assert_memory_equal(items[0].stream, OTHER, sizeof OTHER);
    assert_int_equal(ea_spool_take(s, 1, items, 8), 1); /* one at the least */
    assert_int_equal(items[0].number, 3);
    assert_int_equal(ea_spool_take(s, 100000, items, 8), 2);
    assert_int_equal(items[1].number, 5);
    assert_int_equal(ea_spool_take(s, 100000, items, 8), 0);
    close_spool(s);
}

static void security_before_bulk(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item items[4];
    ea_err err;
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 4; n++)
        must(offer_batch(s, STREAM, n, 1, n == 3 ? 2 : n == 2 ? 1 : 0, 100, &err), &err);
    assert_int_equal(ea_spool_take(s, 100000, items, 4), 4);
    static const uint64_t EXPECTED[] = {3, 2, 1, 4};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(items[i].number, EXPECTED[i]);
    close_spool(s);
    s = open_spool();
    assert_int_equal(ea_spool_take(s, 1, items, 1), 1);
    assert_int_equal(items[0].number, 3);
    close_spool(s);
}

static void a_restart_goes_on(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 6; n++)
        offer(s, n, 300);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 2); /* sent, unanswered when the process ends */
    close_spool(s);

    new_process();
    s = open_spool();
    check_ledger();
    assert_int_equal(waiting(s), 5);
    assert_int_equal(counter(EA_COUNT_events_spooled), 0); /* not in this process's ledger until it is made again */
    begin(s, STREAM, 1);
    assert_int_equal(offer_batch(s, STREAM, 1, 10, 1, 300, &err), EA_SPOOL_ACKNOWLEDGED);
    assert_int_equal(offer_batch(s, STREAM, 2, 10, 1, 300, &err), EA_SPOOL_KEPT);
    assert_int_equal(take_one(s, &item), 2);
    assert_int_equal(offer_batch(s, STREAM, 3, 10, 1, 300, &err), EA_SPOOL_KEPT);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 10);
    assert_int_equal(counter(EA_COUNT_events_unanswered), 10);
    assert_int_equal(counter(EA_COUNT_events_spooled), 10);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 20);
    for (uint64_t n = 3; n <= 6; n++) {
        assert_int_equal(take_one(s, &item), n);
        if (n == 4) /* made again while it is on its way */
            assert_int_equal(offer_batch(s, STREAM, 4, 10, 1, 300, &err), EA_SPOOL_KEPT);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    for (uint64_t n = 5; n <= 6; n++)
        assert_int_equal(offer_batch(s, STREAM, n, 10, 1, 300, &err), EA_SPOOL_ACKNOWLEDGED);
    assert_int_equal(offer_batch(s, STREAM, 7, 10, 1, 300, &err), EA_SPOOL_NEW);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 60);
    assert_int_equal(counter(EA_COUNT_events_batched), 70);
    close_spool(s);
}

static void another_target_starts_over(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    begin(s, STREAM, 1);
    offer(s, 1, 300);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
    s = open_spool();
    must(ea_spool_stream(s, STREAM, 1, 78, ledger, &err), &err);
    assert_int_equal(offer_batch(s, STREAM, 1, 10, 1, 300, &err), EA_SPOOL_NEW);
    close_spool(s);
}

static void a_complete_stream_is_forgotten(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_spool_status status;
    ea_err err;
    begin(s, STREAM, 1);
    offer(s, 1, 300);
    ea_spool_stream_end(s, STREAM, 1);
    begin(s, STREAM, 1); /* taken up again while a batch of it is here */
    assert_int_equal(offer_batch(s, STREAM, 1, 10, 1, 300, &err), EA_SPOOL_KEPT);
    ea_spool_stream_end(s, STREAM, 1);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    begin(s, STREAM, 1); /* it was done: a replay of the same files is sent again as a whole */
    assert_int_equal(offer_batch(s, STREAM, 1, 10, 1, 300, &err), EA_SPOOL_NEW);
    ea_spool_stream_end(s, STREAM, 1);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
    s = open_spool();
    ea_spool_get_status(s, &status);
    assert_int_equal(status.streams, 0);
    close_spool(s);
}

static void other_content_under_a_number_is_a_conflict(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_err err;
    begin(s, STREAM, 1);
    offer(s, 1, 300);
    close_spool(s);
    new_process();
    s = open_spool();
    begin(s, STREAM, 1);
    assert_int_equal(ea_spool_claim(s, STREAM, 1, 11, NULL, 0, &err), EA_ECONFLICT);
    check_ledger();
    close_spool(s);
}

/* ---- streams without a closing batch ---- */

static int keep_cut_off(const ea_spool_cut_off *c, void *arg) {
    ea_spool_cut_off *ret = arg;
    assert_int_equal(ret->number, 0); /* one such stream */
    *ret = *c;
    return 0;
}

static void cut_off_streams(ea_spool *s, ea_spool_cut_off *ret) {
    ea_err err;
    memset(ret, 0, sizeof *ret);
    must(ea_spool_each_cut_off(s, NULL, keep_cut_off, ret, &err), &err);
}

/* One batch is acknowledged, two are in the spool, and one was in an encoder when the process ended. */
static void a_stream_that_was_not_closed(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    ea_spool_cut_off *c = malloc(sizeof *c);
    assert_non_null(c);
    begin(s, STREAM, 0);
    must(ea_spool_ledger_begin(s, STREAM, 4711, 2, NULL, &err), &err);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 300);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    const ea_family_count family = {10, 3};
    ea_ledger_post(ledger, (ea_posting[]){{EA_COUNT_events_delivered, 10}, {EA_COUNT_events_pending, 10}}, 2, &family,
                   1);
    assert_int_equal(ea_spool_claim(s, STREAM, 4, 10, &family, 1, &err), EA_SPOOL_NEW);
    cut_off_streams(s, c);
    assert_int_equal(c->number, 0); /* it is open */
    close_spool(s);
    new_process();
    for (int round = 0; round < 2; round++) { /* the second opening finds the same: nothing was closed */
        s = open_spool();
        cut_off_streams(s, c);
        assert_memory_equal(c->stream, STREAM, sizeof c->stream);
        assert_int_equal(c->number, 5);
        assert_int_equal(c->numbers.incarnation, 4711);
        assert_int_equal(c->numbers.priority, 2);
        assert_int_equal(c->numbers.values[EA_COUNT_events_delivered], 40);
        assert_int_equal(c->numbers.values[EA_COUNT_events_batched], 40);
        assert_int_equal(c->numbers.values[EA_COUNT_events_acknowledged], 10);
        assert_int_equal(c->numbers.values[EA_COUNT_events_spooled], 20);
        assert_int_equal(c->numbers.values[EA_COUNT_events_evicted_damage], 10);
        assert_int_equal(c->numbers.values[EA_COUNT_events_compressing], 0);
        assert_int_equal(c->are_families_settled, 0); /* a family's events may be lost or in the spool */
        close_spool(s);
    }
    s = open_spool();
    ea_spool_ledger_end(s, STREAM);
    cut_off_streams(s, c);
    assert_int_equal(c->number, 0);
    close_spool(s);
    s = open_spool();
    cut_off_streams(s, c);
    assert_int_equal(c->number, 0);
    close_spool(s);
    free(c);
}

/* All is acknowledged, so that the spool has no batch: the stream's numbers are kept, by family, too. */
static void an_acknowledged_stream_that_was_not_closed(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    ea_spool_cut_off *c = malloc(sizeof *c);
    assert_non_null(c);
    begin(s, STREAM, 0);
    must(ea_spool_ledger_begin(s, STREAM, 4711, 1, NULL, &err), &err);
    offer(s, 1, 300);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    ea_spool_stream_end(s, STREAM, 0); /* without a closing batch: its session failed */
    ea_spool_detach(s, ledger);
    close_spool(s);
    assert_int_equal(segments(), 0);
    new_process();
    s = open_spool();
    cut_off_streams(s, c);
    assert_int_equal(c->number, 2);
    assert_int_equal(c->numbers.values[EA_COUNT_events_acknowledged], 10);
    assert_int_equal(c->numbers.values[EA_COUNT_events_evicted_damage], 0);
    assert_int_equal(c->are_families_settled, 1);
    uint64_t all = 0;
    for (size_t f = 0; f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            all += ea_ledger_family_counter(k) == EA_COUNT_events_acknowledged ? c->numbers.families.values[f][k] : 0;
    assert_int_equal(all, 10);
    close_spool(s);
    free(c);
}

static void one_process_at_a_time(void **state) {
    (void)state;
    ea_spool *s = open_spool(), *t;
    ea_err err;
    assert_int_equal(ea_spool_open(&t, scratch_path("spool"), &(ea_spool_options){.counters = &counters}, &err),
                     EA_EBUSY);
    assert_non_null(strstr(err.message, "another process"));
    close_spool(s);
    close_spool(open_spool());
}

/* A spool that belongs to an agent name cannot be opened or taken over under another name. Its batches are delivered
 * under no other name. */
static void other_names_are_refused(void **state) {
    (void)state;
    ea_spool *s = open_spool(), *t;
    ea_err err;
    begin(s, STREAM, 0);
    offer(s, 1, 40);
    assert_string_equal(ea_spool_owner(s), "");
    must(ea_spool_own(s, "first", &err), &err);
    must(ea_spool_own(s, "First", &err), &err); /* the same name */
    assert_int_equal(ea_spool_own(s, "second", &err), EA_ECONFLICT);
    assert_non_null(strstr(err.message, "its batches are those of 'first', and this certificate is of 'second'"));
    assert_string_equal(ea_spool_owner(s), "first");
    close_spool(s);
    assert_int_equal(
        ea_spool_open(&t, scratch_path("spool"), &(ea_spool_options){.counters = &counters, .owner = "second"}, &err),
        EA_ECONFLICT);
    assert_non_null(strstr(err.message, "its batches are those of 'first', and this certificate is of 'second'"));
    s = open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .owner = "first"});
    assert_int_equal(waiting(s), 1);
    close_spool(s);
}

/* ---- all at once ---- */

enum { APPENDERS = 2, PER_APPENDER = 400 };

typedef struct crowd {
    ea_spool *spool;
    atomic_int left;
    atomic_int next_number;
} crowd;

static void crowd_append(void *arg) {
    crowd *c = arg;
    ea_err err;
    for (;;) {
        uint64_t n = (uint64_t)atomic_fetch_add(&c->next_number, 1);
        if (n > APPENDERS * PER_APPENDER)
            break;
        if (offer_batch(c->spool, STREAM, n, (uint32_t)(n % 7), (uint32_t)(n % 3), 50 + n % 1000, &err))
            abort();
    }
    atomic_fetch_sub(&c->left, 1);
}

static void crowd_watch(void *arg) {
    const crowd *c = arg;
    while (atomic_load(&c->left)) {
        check_ledger();
        ea_sleep_ns(100000);
    }
}

static void everybody_at_once(void **state) {
    (void)state;
    ea_spool *s = open_with(
        &(ea_spool_options){.limit_bytes = 64 << 10, .sync = EA_SPOOL_SYNC_INTERVAL, .sync_interval_ns = 3000000});
    crowd c = {.spool = s, .left = APPENDERS, .next_number = 1};
    ea_thread *threads[APPENDERS + 1];
    ea_err err;
    begin(s, STREAM, 1);
    for (size_t i = 0; i < APPENDERS; i++)
        must(ea_thread_start(&threads[i], "append", crowd_append, &c, &err), &err);
    must(ea_thread_start(&threads[APPENDERS], "watch", crowd_watch, &c, &err), &err);
    static uint8_t seen[APPENDERS * PER_APPENDER + 1];
    memset(seen, 0, sizeof seen);
    size_t settled = 0;
    uint64_t random = 3;
    while (settled < APPENDERS * PER_APPENDER) {
        ea_spool_item items[16];
        uint8_t outcomes[16];
        if (!ea_spool_wait(s, 5000000000))
            fail_msg("nothing came for five seconds; %zu of %d are settled", settled, APPENDERS * PER_APPENDER);
        size_t n = ea_spool_take(s, 5000, items, 16);
        for (size_t i = 0; i < n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            outcomes[i] = random >> 62 ? EA_SPOOL_DONE : EA_SPOOL_AGAIN;
            ea_text body;
            ea_text_init(&body);
            must(ea_spool_read(s, &items[i], &body, &err), &err);
            assert_int_equal(body.len_bytes, 50 + items[i].number % 1000);
            ea_text_deinit(&body);
            if (outcomes[i] == EA_SPOOL_DONE) {
                assert_int_equal(seen[items[i].number]++, 0);
                settled++;
            }
        }
        must(ea_spool_settle(s, items, outcomes, n, &err), &err);
        must(ea_spool_error(s, &err), &err);
    }
    for (size_t i = 0; i <= APPENDERS; i++)
        ea_thread_join(threads[i]);
    check_ledger();
    assert_int_equal(counter(EA_COUNT_events_acknowledged), counter(EA_COUNT_events_delivered));
    close_spool(s);
    assert_int_equal(segments(), 0);
}

#if !defined(_WIN32)
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED_MAX = 20000 };

/* Shared with the process that is killed. A batch is recorded as settled here before it is settled in the spool. */
typedef struct killed {
    _Atomic uint64_t appended;
    _Atomic uint8_t settled[KILLED_MAX + 1];
} killed;

static void child(killed *k) {
    ea_err err;
    ea_spool *s = open_with(
        &(ea_spool_options){.limit_bytes = 256 << 10, .segment_bytes = 16 << 10, .sync = EA_SPOOL_SYNC_NEVER});
    uint64_t random = (uint64_t)ea_monotonic_ns() | 1;
    if (ea_spool_stream(s, STREAM, 1, 77, NULL, &err))
        _exit(1);
    for (uint64_t n = 1; n <= KILLED_MAX; n++) {
        ea_spool_item item;
        uint8_t data[700];
        int rc = ea_spool_claim(s, STREAM, n, 10, NULL, 0, &err);
        if (rc < 0)
            _exit(2);
        size_t len_bytes = make_batch(n, 100 + n * 7 % 600, data);
        if (rc == EA_SPOOL_NEW &&
            ea_spool_append(s, &(ea_spool_batch){STREAM, n, 1, 10, data, len_bytes, NULL, 0}, &err))
            _exit(3);
        if (atomic_load(&k->appended) < n)
            atomic_store(&k->appended, n);
        random = random * 6364136223846793005u + 1442695040888963407u;
        for (uint64_t i = n % 200 == 0 ? 250 : random >> 63; i; i--) {
            if (!ea_spool_take(s, 1, &item, 1))
                break;
            uint8_t done = random >> 60 & 3 ? EA_SPOOL_DONE : EA_SPOOL_AGAIN;
            if (done == EA_SPOOL_DONE)
                atomic_store(&k->settled[item.number], 1);
            if (ea_spool_settle(s, &item, &done, 1, &err))
                _exit(4);
        }
    }
    _exit(0);
}

typedef struct found {
    uint8_t here[KILLED_MAX + 1], acknowledged[KILLED_MAX + 1];
    const ea_spool_keys *keys;
} found;

static int find_record(const ea_spool_seen *seen, void *arg) {
    found *f = arg;
    assert_in_range(seen->number, 1, KILLED_MAX);
    f->here[seen->number]++;
    assert_true(seen->acknowledged == f->acknowledged[seen->number]);
    assert_int_equal(seen->opened, f->keys ? 1 : !sealed);
    return 0;
}

static int find_acknowledged(ea_spool_stream_state *s, void *arg) {
    found *f = arg;
    for (uint64_t n = 1; n <= KILLED_MAX; n++)
        f->acknowledged[n] = (uint8_t)ea_range_set_has(&s->acknowledged, n);
    return 0;
}

/* Whatever moment the kill falls into: a batch that was appended is in the spool until it was acknowledged, and once.
 */
static void killed_at_any_moment(void **state) {
    (void)state;
    ea_err err;
    killed *k = mmap(NULL, sizeof *k, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    found *f = malloc(sizeof *f);
    assert_true(k != MAP_FAILED && f);
    uint64_t random = 5;
    int kills = 0;
    for (int round = 0; round < 40; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child(k);
        random = random * 6364136223846793005u + 1442695040888963407u;
        ea_sleep_ns((int64_t)(2000000 + (random >> 40) % 30000000));
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        kills += WIFSIGNALED(status) != 0;
        memset(f, 0, sizeof *f);
        if (!ea_path_exists(scratch_path("spool")))
            continue;
        ea_spool_keys keys = {0};
        int have_keys = sealed && round % 2 && ea_spool_keys_read(&keys, scratch_path("key"), 0, &err) == 0;
        f->keys = have_keys ? &keys : NULL;
        must(ea_spool_visit(scratch_path("spool"),
                            &(ea_spool_visitor){
                                .on_stream = find_acknowledged, .on_record = find_record, .keys = f->keys, .arg = f},
                            &err),
             &err);
        uint64_t appended = atomic_load(&k->appended);
        for (uint64_t n = 1; n <= appended; n++) {
            assert_in_range(f->here[n], 0, 1);
            if (!f->here[n] && !atomic_load(&k->settled[n]))
                fail_msg("round %d: batch %llu of %llu is lost", round, (unsigned long long)n,
                         (unsigned long long)appended);
            if (f->acknowledged[n] && !atomic_load(&k->settled[n]))
                fail_msg("round %d: batch %llu was never acknowledged, but is so in the state", round,
                         (unsigned long long)n);
        }
    }
    assert_true(kills > 10);
    free(f);
    munmap(k, sizeof *k);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        TWICE(in_order_out_in_order),
        T(ledger_of_the_next_session),
        T(cancel_one_stream),
        T(what_goes_back_keeps_its_place),
        TWICE(a_stream_goes_on_under_a_new_name),
        TWICE(tombstones_beside_their_batches),
        TWICE(tombstones_of_a_renamed_stream),
        TWICE(owed_tombstones_of_a_renamed_stream),
        T(a_take_ends_at_its_bound_and_streams_take_turns),
        TWICE(security_before_bulk),
        TWICE(a_restart_goes_on),
        T(another_target_starts_over),
        TWICE(a_complete_stream_is_forgotten),
        T(other_content_under_a_number_is_a_conflict),
        TWICE(a_stream_that_was_not_closed),
        TWICE(an_acknowledged_stream_that_was_not_closed),
        T(one_process_at_a_time),
        T(other_names_are_refused),
        TWICE(everybody_at_once),
#if !defined(_WIN32)
        TWICE(killed_at_any_moment),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
