/* The spool: what goes in comes out once, whatever happens in between; and the ledger, which balances all the time. */
#include "map.h"
#include "scratch.h"
#include "spool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every test that says so below runs twice: with a plain spool and with an encrypted one. */
static int sealed;

static ea_counters counters;
static ea_ledger *ledger;

static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {1, 2, 3}, OTHER[EA_STREAM_ID_BYTES] = {9};

/* Counts anew; no spool may be open. */
static void new_process(void) {
    ea_err err;
    ea_ledger_destroy(ledger);
    memset(&counters, 0, sizeof counters);
    if (ea_ledger_create(&ledger, &counters, &err))
        abort();
}

static int setup(void **state) {
    new_process();
    return scratch_make(state);
}

static int setup_sealed(void **state) {
    sealed = 1;
    return setup(state);
}

static size_t head_bytes(void) {
    return sealed ? EA_SPOOL_SEALED_HEAD_BYTES : EA_SPOOL_HEAD_BYTES;
}

/* On disk, of a record with a batch of so many bytes. */
static size_t record_bytes(size_t len_bytes) {
    return EA_SPOOL_RECORD_BYTES + len_bytes + (sealed ? EA_SPOOL_SEAL_BYTES : 0);
}

static int teardown(void **state) {
    sealed = 0;
    ea_ledger_destroy(ledger);
    ledger = NULL;
    return scratch_clear(state);
}

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static void check_ledger(void) {
    ea_ledger_families by_family;
    ea_counters now;
    ea_err err;
    ea_ledger_snapshot(ledger, &now, &by_family);
    must(ea_ledger_check(&now, &by_family, &err), &err);
    for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++) { /* every event here is of some family */
        uint64_t all = 0;
        for (size_t f = 0; f < EA_LEDGER_FAMILIES; f++)
            all += by_family.values[f][k];
        assert_int_equal(all, ea_counter_get(&now, ea_ledger_family_counter(k)));
    }
}

static uint64_t counter(enum ea_counter which) {
    return ea_counter_get(&counters, which);
}

static ea_spool *open_with(const ea_spool_options *options) {
    ea_spool_options o = *options;
    ea_spool *s;
    ea_err err;
    o.counters = &counters;
    if (sealed && !o.key_path)
        o.key_path = scratch_path("key");
    must(ea_spool_open(&s, scratch_path("spool"), &o, &err), &err);
    return s;
}

static ea_spool *open_spool(void) {
    return open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER});
}

static void close_spool(ea_spool *s) {
    ea_err err;
    must(ea_spool_close(s, &err), &err);
}

/* A batch's bytes: a protobuf message (field 10, bytes) that depends on its number. */
static size_t make_batch(uint64_t number, size_t len_bytes, uint8_t *out) {
    size_t body = len_bytes - 6;
    out[0] = 10 << 3 | 2;
    for (size_t i = 0; i < 5; i++)
        out[1 + i] = (uint8_t)((body >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
    for (size_t i = 0; i < body; i++)
        out[6 + i] = (uint8_t)(number * 31 + i);
    return len_bytes;
}

/* What the source's thread and the encoder do with a closed batch. */
static int offer_batch(ea_spool *s, const uint8_t *stream, uint64_t number, uint32_t events, uint32_t priority,
                       size_t len_bytes, ea_err *err) {
    const ea_family_count families[] = {{events - events / 3, (uint8_t)(number % 7)},
                                        {events / 3, EA_LEDGER_FAMILIES - 1}};
    ea_ledger_post(ledger, (ea_posting[]){{EA_COUNT_events_delivered, events}, {EA_COUNT_events_pending, events}}, 2,
                   families, 2);
    check_ledger();
    int rc = ea_spool_claim(s, stream, number, events, families, 2, err);
    check_ledger();
    if (rc)
        return rc;
    uint8_t *data = malloc(len_bytes);
    assert_non_null(data);
    make_batch(number, len_bytes, data);
    rc = ea_spool_append(s, &(ea_spool_batch){stream, number, priority, events, data, len_bytes, families, 2}, err);
    free(data);
    check_ledger();
    return rc;
}

static void offer(ea_spool *s, uint64_t number, size_t len_bytes) {
    ea_err err;
    must(offer_batch(s, STREAM, number, 10, 1, len_bytes, &err), &err);
}

static void begin(ea_spool *s, const uint8_t *stream, int resumable) {
    ea_err err;
    must(ea_spool_stream(s, stream, resumable, 77, ledger, &err), &err);
}

/* Takes one batch and checks its bytes. Returns its number, 0 when none waits. */
static uint64_t take_one(ea_spool *s, ea_spool_item *item) {
    ea_text body;
    ea_err err;
    if (ea_spool_take(s, 1, item, 1) == 0)
        return 0;
    check_ledger();
    ea_text_init(&body);
    must(ea_spool_read(s, item, &body, &err), &err);
    uint8_t *expected = malloc(item->len_bytes);
    assert_non_null(expected);
    assert_int_equal(body.len_bytes, make_batch(item->number, item->len_bytes, expected));
    assert_memory_equal(body.data, expected, body.len_bytes);
    free(expected);
    ea_text_deinit(&body);
    return item->number;
}

static void settle_one(ea_spool *s, const ea_spool_item *item, enum ea_spool_outcome outcome) {
    uint8_t o = (uint8_t)outcome;
    ea_err err;
    must(ea_spool_settle(s, item, &o, 1, &err), &err);
    check_ledger();
}

static size_t waiting(ea_spool *s) {
    ea_spool_status status;
    ea_spool_get_status(s, &status);
    return status.waiting;
}

static int count_segment(const char *name, int is_dir, void *arg) {
    (void)is_dir;
    *(size_t *)arg += strlen(name) == 20 && strcmp(name + 16, ".seg") == 0;
    return 0;
}

static size_t segments(void) {
    size_t n = 0;
    ea_err err;
    must(ea_path_list(scratch_path("spool"), count_segment, &n, &err), &err);
    return n;
}

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

/* One stream is told to end; the other goes on, and the spool too. */
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
    static const uint64_t EXPECTED[] = {1, 4, 5, 6, 0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(take_one(s, &item), EXPECTED[i]);
    /* items are the spool's while they are taken: give them back */
    close_spool(s);
}

typedef struct graves_seen {
    ea_range_set *numbers;
    uint64_t events;
} graves_seen;

static int see_grave(const ea_tombstone *t, void *arg) {
    graves_seen *g = arg;
    g->events += t->event_count;
    return ea_range_set_add(g->numbers, t->first, t->last);
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

static void offer_envelope(ea_spool *s, const uint8_t *stream, uint64_t number) {
    uint8_t data[128];
    ea_err err;
    const ea_family_count families[] = {{10, 3}};
    ea_ledger_post(ledger, (ea_posting[]){{EA_COUNT_events_delivered, 10}, {EA_COUNT_events_pending, 10}}, 2, families,
                   1);
    must(ea_spool_claim(s, stream, number, 10, families, 1, &err), &err);
    size_t n = make_envelope(stream, number, 10, data);
    must(ea_spool_append(s, &(ea_spool_batch){stream, number, 1, 10, data, n, families, 1}, &err), &err);
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
    /* while something is on its way nobody may do it */
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

/* What was evicted under the old name is told under the new one, with all its events. */
static void tombstones_of_a_renamed_stream(void **state) {
    (void)state;
    static const uint8_t SECOND[16] = {7};
    uint64_t count = 0, events = 0, numbers = 0;
    ea_err err;
    ea_spool *s = open_with(
        &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .evict = 1, .limit_bytes = 4096, .segment_bytes = 1024});
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
    s = open_with(
        &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .evict = 1, .limit_bytes = 4096, .segment_bytes = 1024});
    ea_range_set seen = {0};
    for (;;) {
        ea_spool_item item;
        ea_batch_head head;
        ea_text body;
        if (!ea_spool_take(s, 1, &item, 1))
            break;
        ea_text_init(&body);
        must(ea_spool_read(s, &item, &body, &err), &err);
        must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
        assert_memory_equal(head.stream, SECOND, 16);
        if (head.kind == EA_BATCH_TOMBSTONE) {
            graves_seen g = {&seen, 0};
            must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, see_grave, &g, &err), &err);
            events += g.events;
        } else {
            must(ea_range_set_add(&seen, head.number, head.number), &err);
        }
        numbers++;
        ea_text_deinit(&body);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    assert_true(numbers > 2);
    assert_int_equal(events, evicted);
    assert_int_equal(seen.count, 1); /* every number of the new stream, and no other */
    assert_int_equal(seen.ranges[0].first, 1);
    assert_int_equal(seen.ranges[0].last, count + 20);
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
    assert_int_equal(ea_spool_take(s, 100000, items, 8), 1); /* the other one, which waits behind all of the first's */
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

/* ---- damage ---- */

static void read_file(const char *path, char **data, size_t *len_bytes) {
    ea_err err;
    must(ea_path_read_all(path, 1 << 26, data, len_bytes, &err), &err);
}

static void write_file(const char *path, const void *data, size_t len_bytes) {
    ea_err err;
    must(ea_path_write_all(path, data, len_bytes, 1, &err), &err);
}

static const char *first_segment(void) {
    return scratch_path("spool/0000000000000001.seg");
}

static void torn_at_every_byte(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool *s = open_spool();
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 120);
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t last = len_bytes - record_bytes(120);
    for (size_t cut = 0; cut <= len_bytes; cut++) {
        ea_spool_item item;
        new_process();
        write_file(first_segment(), data, cut);
        s = open_spool();
        size_t whole = cut < head_bytes() ? 0 : (cut - head_bytes()) / record_bytes(120);
        assert_int_equal(waiting(s), whole);
        size_t kept = cut < head_bytes() ? 0 : head_bytes() + whole * record_bytes(120);
        assert_int_equal(counter(EA_COUNT_spool_torn_bytes), cut - kept);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 0);
        for (uint64_t n = 1; n <= whole; n++)
            assert_int_equal(take_one(s, &item), n);
        close_spool(s);
        /* cut off for good: a second opening finds nothing torn */
        new_process();
        s = open_spool();
        assert_int_equal(waiting(s), whole);
        assert_int_equal(counter(EA_COUNT_spool_torn_bytes), 0);
        close_spool(s);
    }
    assert_true(last > 0);
    free(data);
}

static void a_flipped_bit_costs_one_record(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool *s = open_spool();
    begin(s, STREAM, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 120);
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t record = record_bytes(120);
    for (size_t at = 0; at < record; at++) {
        char *copy = malloc(len_bytes);
        assert_non_null(copy);
        memcpy(copy, data, len_bytes);
        copy[head_bytes() + record + at] ^= (char)(1 << at % 8); /* in the middle one */
        write_file(first_segment(), copy, len_bytes);
        free(copy);
        new_process();
        ea_spool_item item;
        s = open_spool();
        assert_int_equal(waiting(s), 2);
        assert_int_equal(counter(EA_COUNT_spool_bad_bytes), record);
        assert_int_equal(take_one(s, &item), 1);
        assert_int_equal(take_one(s, &item), 3);
        close_spool(s);
    }
    free(data);
}

static void damage_while_it_is_open_is_noticed(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_spool_item item;
    ea_text body;
    ea_err err;
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    read_file(first_segment(), &data, &len_bytes);
    ea_file *f;
    must(ea_file_open(&f, first_segment(), EA_OPEN_APPEND, &err), &err);
    must(ea_file_write_at(f, len_bytes - 1, "\xff\xff", 1, &err), &err);
    ea_file_close(f);
    assert_int_equal(ea_spool_take(s, 1, &item, 1), 1);
    ea_text_init(&body);
    assert_int_equal(ea_spool_read(s, &item, &body, &err), EA_ECORRUPT);
    assert_int_equal(body.len_bytes, 0);
    settle_one(s, &item, EA_SPOOL_DAMAGED);
    assert_int_equal(counter(EA_COUNT_events_evicted_damage), 10);
    free(data);
    close_spool(s);
}

static void a_foreign_segment_is_set_aside(void **state) {
    (void)state;
    ea_spool *s = open_spool();
    ea_spool_item item;
    ea_err err;
    begin(s, STREAM, 0);
    offer(s, 1, 120);
    close_spool(s);
    write_file(scratch_path("spool/00000000000000aa.seg"), "this is no segment, but it is long enough to be one", 51);
    s = open_spool();
    assert_true(ea_path_exists(scratch_path("spool/00000000000000aa.seg.bad")));
    assert_int_equal(counter(EA_COUNT_spool_bad_bytes), 51);
    begin(s, OTHER, 0);
    must(offer_batch(s, OTHER, 2, 10, 1, 120, &err), &err);
    assert_true(ea_path_exists(scratch_path("spool/00000000000000ab.seg"))); /* a name is not used twice */
    assert_int_equal(take_one(s, &item), 1);
    assert_int_equal(take_one(s, &item), 2);
    close_spool(s);
}

static void a_lost_state_file_means_sending_again(void **state) {
    (void)state;
    ea_spool_item item;
    static const char *const BAD[] = {"", "etwagent spool state 1\n", "etwagent spool state 1\nend 0000000000000000\n",
                                      "\1\2\3"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        ea_spool *s = open_spool();
        begin(s, STREAM, 1);
        offer(s, 2 * i + 1, 300);
        offer(s, 2 * i + 2, 300);
        close_spool(s);
        write_file(scratch_path("spool/state"), BAD[i], strlen(BAD[i]));
        new_process();
        s = open_spool();
        assert_int_equal(waiting(s), 2);
        begin(s, STREAM, 1);
        for (uint64_t n = 1; n <= 2; n++) {
            assert_int_equal(take_one(s, &item), 2 * i + n);
            settle_one(s, &item, EA_SPOOL_DONE);
        }
        close_spool(s);
        new_process();
    }
}

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

/* What came out of the spool, as a collector would see it. */
typedef struct arrived {
    uint8_t batch[2001], tombstone[2001]; /* by number */
    uint64_t batch_events, tombstone_events;
    uint64_t base[64]; /* by the stream's last byte: its number 1 is base + 1 here */
    uint64_t base_now;
    ea_range gone[64];
    uint32_t cause[64];
    size_t gone_count;
} arrived;

static int on_tombstone(const ea_tombstone *t, void *arg) {
    arrived *a = arg;
    assert_true(t->first >= 1 && t->first <= t->last && a->base_now + t->last <= 2000);
    for (uint64_t n = t->first; n <= t->last; n++)
        a->tombstone[a->base_now + n]++;
    a->tombstone_events += t->event_count;
    if (a->gone_count < 64) {
        a->cause[a->gone_count] = t->cause;
        a->gone[a->gone_count++] = (ea_range){t->first, t->last};
    }
    return 0;
}

/* Sends up to count batches. */
static size_t deliver(ea_spool *s, arrived *a, size_t count) {
    ea_spool_item item;
    ea_err err;
    size_t n = 0;
    for (; n < count && ea_spool_take(s, 1, &item, 1); n++) {
        ea_text body;
        ea_text_init(&body);
        must(ea_spool_read(s, &item, &body, &err), &err);
        ea_batch_head head;
        a->base_now = a->base[item.stream[15]];
        int is_tombstone = ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err) == 0;
        must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, on_tombstone, a, &err), &err);
        if (!is_tombstone) { /* the batches of these tests are no real ones */
            a->batch[a->base_now + item.number]++;
            a->batch_events += item.event_count;
        }
        ea_text_deinit(&body);
        settle_one(s, &item, EA_SPOOL_DONE);
    }
    return n;
}

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

static void a_hole_in_an_earlier_run_gets_a_tombstone(void **state) {
    (void)state;
    char *data;
    size_t len_bytes;
    ea_err err;
    arrived a = {0};
    ea_spool *s = open_spool();
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 6; n++)
        offer(s, n, 120);
    ea_spool_item item;
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    must(ea_spool_claim(s, STREAM, 7, 0, NULL, 0, &err), &err); /* was being compressed when the process ended */
    close_spool(s);
    read_file(first_segment(), &data, &len_bytes);
    size_t record = record_bytes(120);
    data[head_bytes() + 2 * record + 60] ^= 1; /* numbers 3 and 4 */
    data[head_bytes() + 3 * record + 60] ^= 1;
    write_file(first_segment(), data, len_bytes);
    free(data);
    for (int again = 0; again < 3; again++) { /* also when nothing was sent in between */
        s = open_spool();
        assert_int_equal(waiting(s), 4); /* 2, 5, 6, the tombstone */
        if (again < 2)
            close_spool(s);
    }
    deliver(s, &a, 10);
    assert_int_equal(a.gone_count, 2);
    assert_true(a.gone[0].first == 3 && a.gone[0].last == 4 && a.gone[1].first == 7 && a.gone[1].last == 7);
    assert_int_equal(a.cause[0], ea_counter_row(EA_COUNT_events_evicted_damage)->number);
    assert_true(a.batch[2] && a.batch[5] && a.batch[6]);
    close_spool(s);
    s = open_spool();
    assert_int_equal(waiting(s), 0);
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

/* ---- class descriptions ---- */

static void descriptions_are_kept(void **state) {
    (void)state;
    /* two batches with field 12 (a description) each, the second's with the first's as well */
    static const uint8_t FIRST[] = {12 << 3 | 2, 3, 'a', 'b', 'c'},
                         SECOND[] = {12 << 3 | 2, 3, 'a', 'b', 'c', 12 << 3 | 2, 2, 'x', 'y'};
    /* SHA-256 of "abc" (FIPS 180-2, appendix B.1), first half */
    static const ea_hash_ref ABC_REF = {
        {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23}, 16};
    ea_descriptions *d;
    ea_text batch;
    ea_err err;
    size_t added;
    const char *path = scratch_path("classes");
    ea_spool_keys read = {0}, *keys = sealed ? &read : NULL;
    if (sealed)
        must(ea_spool_keys_read(&read, scratch_path("key"), 1, &err), &err);
    ea_text_init(&batch);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    must(ea_descriptions_add_batch(d, FIRST, sizeof FIRST, &added, &err), &err);
    assert_int_equal(added, 1);
    must(ea_descriptions_add_batch(d, SECOND, sizeof SECOND, &added, &err), &err);
    assert_int_equal(added, 1);
    assert_int_equal(ea_descriptions_add_batch(d, (const uint8_t *)"\xff", 1, &added, &err), EA_ECORRUPT);
    ea_descriptions_close(d);
    char *bytes;
    size_t all;
    read_file(path, &bytes, &all);
    for (size_t i = 0; sealed && i + 3 <= all; i++)
        assert_memory_not_equal(bytes + i, "abc", 3);
    free(bytes);
    /* a torn tail does no harm */
    ea_file *f;
    uint64_t size;
    must(ea_file_open(&f, path, EA_OPEN_APPEND, &err), &err);
    must(ea_file_size(f, &size, &err), &err);
    must(ea_file_write_at(f, size, "\4\0\0\0half", 8, &err), &err);
    ea_file_close(f);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 1);
    assert_int_equal(batch.len_bytes, sizeof FIRST);
    assert_memory_equal(batch.data, FIRST, sizeof FIRST);
    assert_int_equal(ea_descriptions_append(d, &(ea_hash_ref){{1}, 16}, &batch, &err), 0);
    must(ea_descriptions_add_batch(d, (const uint8_t[]){12 << 3 | 2, 1, 'z'}, 3, &added, &err), &err);
    ea_descriptions_close(d);
    must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
    must(ea_descriptions_add_batch(d, (const uint8_t[]){12 << 3 | 2, 1, 'z'}, 3, &added, &err), &err);
    assert_int_equal(added, 0);
    ea_descriptions_close(d);
    if (sealed) { /* without the key they are not known, and those that came before the key are */
        must(ea_descriptions_open(&d, path, 0, NULL, &err), &err);
        assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 0);
        must(ea_descriptions_add_batch(d, FIRST, sizeof FIRST, &added, &err), &err);
        assert_int_equal(added, 1);
        ea_descriptions_close(d);
        must(ea_descriptions_open(&d, path, 0, keys, &err), &err);
        assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 1);
        ea_descriptions_close(d);
    }
    must(ea_descriptions_open(&d, path, 1, keys, &err), &err);
    assert_int_equal(ea_descriptions_append(d, &ABC_REF, &batch, &err), 0);
    ea_descriptions_close(d);
    ea_text_deinit(&batch);
}

/* ---- encryption ---- */

static void the_key_file(void **state) {
    (void)state;
    ea_spool_keys a, b;
    ea_err err;
    char *data;
    size_t len_bytes;
    const char *path = scratch_path("key");
    assert_int_equal(ea_spool_keys_read(&a, path, 0, &err), EA_ENOTFOUND);
    must(ea_spool_keys_read(&a, path, 1, &err), &err);
    must(ea_spool_keys_read(&b, path, 1, &err), &err);
    assert_int_equal(a.count, 1);
    assert_memory_equal(&a, &b, sizeof a);
    must(ea_path_check_private(path, &err), &err);
    for (size_t n = 2; n <= 40; n++) {
        a = b;
        must(ea_spool_keys_rotate(path, &err), &err);
        must(ea_spool_keys_read(&b, path, 0, &err), &err);
        assert_int_equal(b.count, n < EA_SPOOL_KEYS_MAX ? n : EA_SPOOL_KEYS_MAX);
        assert_memory_equal(b.keys[b.count - 2], a.keys[a.count - 1], EA_SPOOL_KEY_BYTES);
        assert_memory_not_equal(ea_spool_keys_newest(&b), ea_spool_keys_newest(&a), EA_SPOOL_KEY_ID_BYTES);
    }
    /* every byte of it counts */
    read_file(path, &data, &len_bytes);
    for (size_t at = 0; at < len_bytes; at += at % 7 + 1) {
        data[at] ^= 1;
        write_file(path, data, len_bytes);
        data[at] ^= 1;
        int rc = ea_spool_keys_read(&a, path, 1, &err);
#if defined(_WIN32)
        /* DPAPI's own check; what it does not look at of its wrapper changes no key */
        if (!rc)
            assert_memory_equal(ea_spool_keys_newest(&a), ea_spool_keys_newest(&b), EA_SPOOL_KEY_ID_BYTES);
        else
#endif
            assert_true(rc == EA_ECORRUPT || rc == EA_ECRYPTO);
    }
    for (size_t n = 0; n < len_bytes; n += 13) {
        write_file(path, data, n);
        int rc = ea_spool_keys_read(&a, path, 1, &err);
        assert_true(rc == EA_ECORRUPT || rc == EA_ECRYPTO);
    }
    ea_spool *s;
    write_file(path, data, len_bytes / 2);
    assert_true(ea_spool_open(&s, scratch_path("spool"), &(ea_spool_options){.key_path = path}, &err) < 0);
    assert_non_null(strstr(err.message, path)); /* a damaged key file is somebody's to look at, never overwritten */
#if !defined(_WIN32)
    must(ea_path_write_all(path, data, len_bytes, 0, &err), &err);
    assert_int_equal(ea_spool_keys_read(&a, path, 1, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "chmod 600"));
#endif
    free(data);
}

/* This is the algorithm that it says it is. */
static void sealing_is_aes_256_gcm(void **state) {
    (void)state;
    /* McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 and 14: key 0, nonce 0 */
    static const uint8_t TAG_13[] = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9,
                                     0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b};
    static const uint8_t CASE_14[] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5,
                                      0xd3, 0xba, 0xf3, 0x9d, 0x18, 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99,
                                      0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    static const ea_sealing_key ZERO = {{0}};
    uint8_t out[64] = {0}, back[64];
    ea_err err;
    must(ea_seal(&ZERO, 0, NULL, 0, out, 0, out, &err), &err);
    assert_memory_equal(out, TAG_13, sizeof TAG_13);
    must(ea_seal(&ZERO, 0, NULL, 0, ZERO.bytes, 16, out, &err), &err);
    assert_memory_equal(out, CASE_14, sizeof CASE_14);
    must(ea_unseal(&ZERO, 0, NULL, 0, out, 32, back, &err), &err);
    assert_memory_equal(back, ZERO.bytes, 16);
    assert_int_equal(ea_unseal(&ZERO, 1, NULL, 0, out, 32, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, "x", 1, out, 32, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, NULL, 0, out, 31, back, &err), EA_ECORRUPT);
    assert_int_equal(ea_unseal(&ZERO, 0, NULL, 0, out, 15, back, &err), EA_ECORRUPT);
}

static int has_bytes(const char *data, size_t len_bytes, const uint8_t *wanted, size_t n) {
    for (size_t i = 0; i + n <= len_bytes; i++)
        if (memcmp(data + i, wanted, n) == 0)
            return 1;
    return 0;
}

/* Nothing of a batch can be read on disk; what is changed there is noticed, even with a good checksum. */
static void what_is_sealed_stays_so(void **state) {
    (void)state;
    uint8_t batch[200];
    char *data;
    size_t len_bytes;
    ea_spool_item item;
    ea_text body;
    ea_err err;
    for (sealed = 0; sealed < 2; sealed++) {
        ea_spool *s = open_spool();
        begin(s, STREAM, 1);
        offer(s, 1, sizeof batch);
        offer(s, 2, sizeof batch);
        close_spool(s);
        read_file(first_segment(), &data, &len_bytes);
        make_batch(1, sizeof batch, batch);
        assert_int_equal(has_bytes(data, len_bytes, batch + 6, 16), !sealed);
        new_process();
        if (!sealed)
            assert_int_equal(scratch_remove_folder(scratch_path("spool")), 0);
        free(sealed ? NULL : data);
    }
    sealed = 1;
    /* the two records have nonces of their own */
    uint8_t *first = (uint8_t *)data + head_bytes(), *second = first + record_bytes(sizeof batch);
    assert_memory_not_equal(first + EA_SPOOL_RECORD_BYTES, second + EA_SPOOL_RECORD_BYTES, 8);
    static const size_t PLACES[] = {
        16, 32, 40, EA_SPOOL_RECORD_BYTES, EA_SPOOL_RECORD_BYTES + 8, EA_SPOOL_RECORD_BYTES + 100};
    for (size_t i = 0; i <= sizeof PLACES / sizeof *PLACES; i++) {
        ea_spool_record r;
        uint8_t *copy = malloc(len_bytes);
        assert_non_null(copy);
        memcpy(copy, data, len_bytes);
        uint8_t *at = copy + head_bytes();
        size_t place = i < sizeof PLACES / sizeof *PLACES ? PLACES[i] : record_bytes(sizeof batch) - 1;
        assert_int_equal(ea_spool_get_record(at, len_bytes - head_bytes(), 1, &r), 1);
        at[place] ^= 4;
        if (place < EA_SPOOL_RECORD_BYTES) { /* as a record: its members */
            memcpy(r.stream, at + 16, sizeof r.stream);
            r.number = ea_load64(at + 32);
            r.event_count = ea_load32(at + 40);
        }
        ea_spool_put_record(at, &r, 1);
        write_file(first_segment(), copy, len_bytes);
        free(copy);
        new_process();
        ea_spool *s = open_spool();
        assert_int_equal(waiting(s), 2);
        ea_text_init(&body);
        int good = 0, bad = 0;
        while (ea_spool_take(s, 1, &item, 1)) {
            int rc = ea_spool_read(s, &item, &body, &err);
            good += rc == 0;
            bad += rc == EA_ECORRUPT;
        }
        assert_int_equal(good, 1);
        assert_int_equal(bad, 1);
        ea_text_deinit(&body);
        close_spool(s);
    }
    free(data);
}

typedef struct told {
    char text[512];
    int times;
} told;

static void on_locked(void *arg, const char *text) {
    told *t = arg;
    snprintf(t->text, sizeof t->text, "%s", text);
    t->times++;
}

static ea_spool *open_told(const char *key, told *t, uint64_t limit_bytes) {
    *t = (told){.times = 0};
    return open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER,
                                         .evict = 1,
                                         .limit_bytes = limit_bytes,
                                         .segment_bytes = 2048,
                                         .key_path = scratch_path(key),
                                         .on_locked = on_locked,
                                         .arg = t});
}

static void a_lost_key_costs_its_records_only(void **state) {
    (void)state;
    ea_spool_item item;
    ea_spool_status status;
    ea_err err;
    told t;
    ea_spool *s = open_told("key", &t, 0);
    begin(s, STREAM, 0);
    begin(s, OTHER, 1);
    for (uint64_t n = 1; n <= 3; n++)
        offer(s, n, 300);
    must(offer_batch(s, OTHER, 1, 10, 1, 300, &err), &err);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
    for (int again = 0; again < 2; again++) { /* it does not pass away by opening */
        new_process();
        s = open_told("another", &t, 0);
        assert_int_equal(t.times, 1);
        assert_non_null(strstr(t.text, "2 batches with 20 events"));
        assert_non_null(strstr(t.text, "another"));
        assert_int_equal(counter(EA_COUNT_spool_locked_events), 20);
        ea_spool_get_status(s, &status);
        assert_int_equal(status.locked, 2);
        assert_int_equal(status.waiting, 0);
        if (!again)
            close_spool(s);
    }
    /* what is made anew goes on; a replay's batch is made again */
    begin(s, OTHER, 1);
    assert_int_equal(offer_batch(s, OTHER, 1, 10, 1, 300, &err), EA_SPOOL_NEW);
    static const uint8_t NEXT[EA_STREAM_ID_BYTES] = {77};
    begin(s, NEXT, 0);
    must(offer_batch(s, NEXT, 1, 10, 1, 300, &err), &err);
    while (take_one(s, &item))
        settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(counter(EA_COUNT_events_acknowledged), 20);
    close_spool(s);
    /* the key is found again */
    new_process();
    s = open_told("key", &t, 0);
    assert_int_equal(t.times, 0);
    assert_int_equal(counter(EA_COUNT_spool_locked_events), 0);
    assert_int_equal(take_one(s, &item), 2);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 3);
    settle_one(s, &item, EA_SPOOL_DONE);
    assert_int_equal(take_one(s, &item), 0);
    close_spool(s);
    assert_int_equal(segments(), 0);
}

/* Locked batches give way like all else, and the tombstones know how many events they had. */
static void locked_batches_give_way(void **state) {
    (void)state;
    ea_err err;
    told t;
    uint64_t events = 0;
    ea_range_set seen = {0};
    ea_spool *s = open_told("key", &t, 16 << 10);
    begin(s, STREAM, 0);
    for (uint64_t n = 1; n <= 20; n++)
        offer(s, n, 400);
    close_spool(s);
    new_process();
    s = open_told("another", &t, 16 << 10);
    assert_int_equal(counter(EA_COUNT_spool_locked_events), 200);
    begin(s, OTHER, 0);
    for (uint64_t n = 1; n <= 200; n++) {
        ea_spool_item item;
        ea_text body;
        ea_batch_head head;
        must(offer_batch(s, OTHER, n, 10, 1, 400, &err), &err);
        if (n < 100)
            continue; /* nothing leaves */
        while (ea_spool_take(s, 1, &item, 1)) {
            ea_text_init(&body);
            must(ea_spool_read(s, &item, &body, &err), &err);
            if (memcmp(item.stream, STREAM, sizeof STREAM) == 0) {
                must(ea_batch_read_head((const uint8_t *)body.data, body.len_bytes, &head, &err), &err);
                assert_int_equal(head.kind, EA_BATCH_TOMBSTONE);
                graves_seen g = {&seen, 0};
                must(ea_batch_each_tombstone((const uint8_t *)body.data, body.len_bytes, see_grave, &g, &err), &err);
                events += g.events;
            }
            ea_text_deinit(&body);
            settle_one(s, &item, EA_SPOOL_DONE);
        }
    }
    assert_int_equal(events, 200);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.ranges[0].first, 1);
    assert_int_equal(seen.ranges[0].last, 20);
    free(seen.ranges);
    check_ledger();
    close_spool(s);
}

static void keys_rotate(void **state) {
    (void)state;
    ea_spool_item item;
    ea_err err;
    told t;
    ea_spool *s;
    for (uint64_t n = 1; n <= 5; n++) {
        new_process();
        s = open_told("key", &t, 0);
        begin(s, STREAM, 1);
        must(offer_batch(s, STREAM, n, 10, 1, 300, &err), &err);
        close_spool(s);
        must(ea_spool_keys_rotate(scratch_path("key"), &err), &err);
    }
    new_process();
    s = open_told("key", &t, 0);
    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(take_one(s, &item), n);
    close_spool(s);
    /* encryption that begins with batches here, and ends with batches here */
    new_process();
    sealed = 0;
    s = open_spool();
    assert_int_equal(waiting(s), 0); /* of a replay: made again */
    begin(s, STREAM, 1);
    offer(s, 1, 300);
    close_spool(s);
    new_process();
    s = open_told("key", &t, 0);
    assert_int_equal(take_one(s, &item), 1);
    settle_one(s, &item, EA_SPOOL_DONE);
    close_spool(s);
}

/* ---- the formats ---- */

static void ranges_against_a_bitmap(void **state) {
    (void)state;
    ea_range_set s = {0};
    uint8_t bitmap[400] = {0};
    uint64_t random = 7;
    for (int i = 0; i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t first = 1 + (random >> 33) % 300, last = first + (random >> 50) % 4;
        assert_int_equal(ea_range_set_add(&s, first, last), 0);
        memset(bitmap + first, 1, last - first + 1);
        for (uint64_t n = 0; n < 400; n++)
            assert_int_equal(ea_range_set_has(&s, n), bitmap[n]);
        for (size_t k = 1; k < s.count; k++)
            assert_true(s.ranges[k].first > s.ranges[k - 1].last + 1);
        if (i % 100 == 99) {
            memset(bitmap, 0, sizeof bitmap);
            s.count = 0;
        }
    }
    s.count = 0;
    assert_int_equal(ea_range_set_add(&s, UINT64_MAX, UINT64_MAX), 0);
    assert_int_equal(ea_range_set_add(&s, 1, UINT64_MAX - 1), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(ea_range_set_add(&s, 5, UINT64_MAX), 0);
    assert_int_equal(s.count, 1);
    free(s.ranges);
}

static int compare_state(ea_spool_stream_state *s, void *arg) {
    const ea_spool_stream_state **expected = arg;
    assert_memory_equal(s->stream, (*expected)->stream, sizeof s->stream);
    assert_int_equal(s->resumable, (*expected)->resumable);
    assert_int_equal(s->target, (*expected)->target);
    assert_int_equal(s->highest, (*expected)->highest);
    assert_int_equal(s->acknowledged.count, (*expected)->acknowledged.count);
    for (size_t i = 0; i < s->acknowledged.count; i++) {
        assert_int_equal(s->acknowledged.ranges[i].first, (*expected)->acknowledged.ranges[i].first);
        assert_int_equal(s->acknowledged.ranges[i].last, (*expected)->acknowledged.ranges[i].last);
    }
    free(s->acknowledged.ranges);
    ++*expected;
    return 0;
}

static void state_comes_back(void **state) {
    (void)state;
    ea_range ranges[] = {{1, 5}, {7, 7}, {1000000, UINT64_MAX}};
    ea_spool_stream_state states[] = {{.stream = {0xab, 0xcd},
                                       .resumable = 1,
                                       .target = UINT64_MAX,
                                       .highest = UINT64_MAX,
                                       .acknowledged = {ranges, 3, 3}},
                                      {.stream = {1}, .highest = 12}};
    ea_text t;
    ea_err err;
    ea_text_init(&t);
    ea_spool_state_begin(&t);
    for (size_t i = 0; i < 2; i++)
        ea_spool_state_stream(&t, &states[i]);
    ea_spool_state_end(&t);
    const ea_spool_stream_state *expected = states;
    must(ea_spool_state_parse(t.data, t.len_bytes, compare_state, &expected, &err), &err);
    assert_ptr_equal(expected, states + 2);
    for (size_t i = 0; i < t.len_bytes; i++) {
        t.data[i] ^= 1;
        expected = states;
        assert_int_equal(ea_spool_state_parse(t.data, t.len_bytes, compare_state, &expected, &err), EA_ECORRUPT);
        t.data[i] ^= 1;
    }
    ea_text_deinit(&t);
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
    begin(s, STREAM, 0);
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
        must(ea_spool_trouble(s, &err), &err);
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
/* Shared with the process that is killed. A batch is noted as settled before that is said to the spool. */
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

static int find_record(const ea_spool_record *r, int acknowledged, int opened, void *arg) {
    found *f = arg;
    assert_in_range(r->number, 1, KILLED_MAX);
    f->here[r->number]++;
    assert_true(acknowledged == f->acknowledged[r->number]);
    assert_int_equal(opened, f->keys ? 1 : !sealed);
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
                fail_msg("round %d: batch %llu was never acknowledged, but the state says so", round,
                         (unsigned long long)n);
        }
    }
    assert_true(kills > 10);
    free(f);
    munmap(k, sizeof *k);
}
#endif

int main(void) {
#define T(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define S(name)     cmocka_unit_test_setup_teardown(name, setup_sealed, teardown)
#define TWICE(name) T(name), S(name)
    const struct CMUnitTest tests[] = {
        TWICE(in_order_out_in_order),
        T(ledger_of_the_next_session),
        T(cancel_one_stream),
        T(what_goes_back_keeps_its_place),
        TWICE(a_stream_goes_on_under_a_new_name),
        TWICE(tombstones_of_a_renamed_stream),
        T(a_take_ends_at_its_bound_and_streams_take_turns),
        TWICE(security_before_bulk),
        TWICE(a_restart_goes_on),
        T(another_target_starts_over),
        TWICE(a_complete_stream_is_forgotten),
        T(other_content_under_a_number_is_a_conflict),
        T(one_process_at_a_time),
        TWICE(torn_at_every_byte),
        TWICE(a_flipped_bit_costs_one_record),
        TWICE(damage_while_it_is_open_is_noticed),
        T(a_foreign_segment_is_set_aside),
        TWICE(a_lost_state_file_means_sending_again),
        T(a_full_spool_waits),
        T(a_batch_larger_than_the_spool_is_refused),
        T(the_number_of_batches_is_bounded),
        TWICE(segments_go_when_they_are_acknowledged),
        TWICE(the_oldest_gives_way),
        T(security_outlives_bulk),
        TWICE(what_is_on_its_way_does_not_give_way),
        TWICE(too_old_gives_way),
        TWICE(a_hole_in_an_earlier_run_gets_a_tombstone),
        TWICE(a_random_life),
        TWICE(descriptions_are_kept),
        T(the_key_file),
        T(sealing_is_aes_256_gcm),
        T(what_is_sealed_stays_so),
        S(a_lost_key_costs_its_records_only),
        S(locked_batches_give_way),
        S(keys_rotate),
        T(ranges_against_a_bitmap),
        T(state_comes_back),
        TWICE(everybody_at_once),
#if !defined(_WIN32)
        TWICE(killed_at_any_moment),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
