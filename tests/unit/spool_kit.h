/* What the tests of the spool share: a source, an encoder and a collector in a few lines each, and the ledger, which is
 * checked at every step. */
#ifndef EA_TESTS_UNIT_SPOOL_KIT_H
#define EA_TESTS_UNIT_SPOOL_KIT_H

#include "proto/base/map.h"
#include "service/spool/spool.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

/* 1 while a test runs with an encrypted spool. Some tests run twice: with a plain and with an encrypted spool. */
static int sealed;

static ea_counters counters;
static ea_ledger *ledger;

static const uint8_t STREAM[EA_STREAM_ID_BYTES] = {1, 2, 3}, OTHER[EA_STREAM_ID_BYTES] = {9};

/* Counts anew; no spool may be open. */
static inline void new_process(void) {
    ea_err err;
    ea_ledger_destroy(ledger);
    memset(&counters, 0, sizeof counters);
    if (ea_ledger_create(&ledger, &counters, &err))
        abort();
}

static inline int setup(void **state) {
    new_process();
    return scratch_make(state);
}

static inline int setup_sealed(void **state) {
    sealed = 1;
    return setup(state);
}

static inline size_t head_bytes(void) {
    return sealed ? EA_SPOOL_SEALED_HEAD_BYTES : EA_SPOOL_HEAD_BYTES;
}

/* On disk, of a record with a batch of so many bytes. */
static inline size_t record_bytes(size_t len_bytes) {
    return EA_SPOOL_RECORD_BYTES + len_bytes + (sealed ? EA_SPOOL_SEAL_BYTES : 0);
}

static inline int teardown(void **state) {
    sealed = 0;
    ea_ledger_destroy(ledger);
    ledger = NULL;
    return scratch_clear(state);
}

static inline void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static inline void check_ledger(void) {
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

static inline uint64_t counter(enum ea_counter which) {
    return ea_counter_get(&counters, which);
}

static inline ea_spool *open_with(const ea_spool_options *options) {
    ea_spool_options o = *options;
    ea_spool *s;
    ea_err err;
    o.counters = &counters;
    if (sealed && !o.key_path)
        o.key_path = scratch_path("key");
    must(ea_spool_open(&s, scratch_path("spool"), &o, &err), &err);
    return s;
}

static inline ea_spool *open_spool(void) {
    return open_with(&(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER});
}

static inline void close_spool(ea_spool *s) {
    ea_err err;
    must(ea_spool_close(s, &err), &err);
}

/* A batch's bytes: a protobuf message (field 10, bytes) that depends on its number. */
static inline size_t make_batch(uint64_t number, size_t len_bytes, uint8_t *out) {
    size_t body = len_bytes - 6;
    out[0] = 10 << 3 | 2;
    for (size_t i = 0; i < 5; i++)
        out[1 + i] = (uint8_t)((body >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
    for (size_t i = 0; i < body; i++)
        out[6 + i] = (uint8_t)(number * 31 + i);
    return len_bytes;
}

/* What the source's thread and the encoder do with a closed batch. */
static inline int offer_batch(ea_spool *s, const uint8_t *stream, uint64_t number, uint32_t events, uint32_t priority,
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

static inline void offer(ea_spool *s, uint64_t number, size_t len_bytes) {
    ea_err err;
    must(offer_batch(s, STREAM, number, 10, 1, len_bytes, &err), &err);
}

static inline void begin(ea_spool *s, const uint8_t *stream, int resumable) {
    ea_err err;
    must(ea_spool_stream(s, stream, resumable, 77, ledger, &err), &err);
}

/* Takes one batch and checks its bytes. Returns its number, 0 when none waits. */
static inline uint64_t take_one(ea_spool *s, ea_spool_item *item) {
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

static inline void settle_one(ea_spool *s, const ea_spool_item *item, enum ea_spool_outcome outcome) {
    uint8_t o = (uint8_t)outcome;
    ea_err err;
    must(ea_spool_settle(s, item, &o, 1, &err), &err);
    check_ledger();
}

static inline size_t waiting(ea_spool *s) {
    ea_spool_status status;
    ea_spool_get_status(s, &status);
    return status.waiting;
}

static inline int count_segment(const char *name, int is_dir, void *arg) {
    (void)is_dir;
    *(size_t *)arg += strlen(name) == 20 && strcmp(name + 16, ".seg") == 0;
    return 0;
}

static inline size_t segments(void) {
    size_t n = 0;
    ea_err err;
    must(ea_path_list(scratch_path("spool"), count_segment, &n, &err), &err);
    return n;
}

static inline void read_file(const char *path, char **data, size_t *len_bytes) {
    ea_err err;
    must(ea_path_read_all(path, 1 << 26, data, len_bytes, &err), &err);
}

static inline void write_file(const char *path, const void *data, size_t len_bytes) {
    ea_err err;
    must(ea_path_write_all(path, data, len_bytes, 1, &err), &err);
}

static inline const char *first_segment(void) {
    return scratch_path("spool/0000000000000001.seg");
}

typedef struct graves_seen {
    ea_range_set *numbers;
    uint64_t events;
} graves_seen;

static inline int see_grave(const ea_tombstone *t, void *arg) {
    graves_seen *g = arg;
    g->events += t->event_count;
    return ea_range_set_add(g->numbers, t->first, t->last);
}

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

static inline int on_tombstone(const ea_tombstone *t, void *arg) {
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
static inline size_t deliver(ea_spool *s, arrived *a, size_t count) {
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

#define T(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define S(name)     cmocka_unit_test_setup_teardown(name, setup_sealed, teardown)
#define TWICE(name) T(name), S(name)

#endif
