/* The ring between a callback and its source: what comes out is what went in, in order; what had no room is counted by
 * its kind, and the sum is right while two threads are at it. An event of Windows keeps all its members. */
#include "proto/base/platform.h"
#include "service/etw/event_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RING_BYTES = 1 << 20, RECORDS = 200000 };

static ea_ring *make(void) {
    ea_ring *r = NULL;
    ea_err err = {0};
    if (ea_ring_create(&r, RING_BYTES, &err))
        fail_msg("%s", err.message);
    return r;
}

/* Record number i: its payload and items are a function of i. */
static void make_record(uint64_t i, ea_record *ret, ea_ext *ext, uint8_t *bytes) {
    memset(ret, 0, sizeof *ret);
    ret->provider.bytes[0] = (uint8_t)(i % 7);
    ret->id = (uint16_t)(i % 7 * 11);
    ret->opcode = (uint8_t)(i % 7);
    ret->time_raw = (int64_t)i;
    ret->payload_bytes = (uint16_t)(i * 13 % 300);
    for (size_t k = 0; k < 300; k++)
        bytes[k] = (uint8_t)(i + k);
    ret->payload = bytes;
    ret->ext_count = (uint16_t)(i % 3);
    for (size_t k = 0; k < ret->ext_count; k++)
        ext[k] = (ea_ext){(uint16_t)(k + 1), (uint16_t)(k & 1), (uint32_t)(i % 50 + k), bytes + k};
    ret->ext = ext;
}

static void check(const ea_record *got, uint64_t i) {
    ea_record want;
    ea_ext ext[3];
    uint8_t bytes[300];
    make_record(i, &want, ext, bytes);
    if (!ea_record_equal(got, &want))
        fail_msg("record %llu differs", (unsigned long long)i);
}

static void in_and_out(void **state) {
    (void)state;
    ea_ring *r = make();
    const ea_record *got;
    uint64_t in = 0, out = 0;
    assert_int_equal(ea_ring_take(r, &got), 0);
    for (size_t round = 0; round < 3000; round++) { /* the ring goes round many times, at every alignment */
        for (size_t k = 0; k < round % 97; k++) {
            ea_record record;
            ea_ext ext[3];
            uint8_t bytes[300];
            make_record(in++, &record, ext, bytes);
            assert_int_equal(ea_ring_put(r, &record), 0);
        }
        while (ea_ring_take(r, &got)) {
            assert_int_equal(got->position, out);
            check(got, out++);
        }
    }
    assert_int_equal(in, out);
    assert_int_equal(ea_ring_used(r), 0);
    ea_dropped d;
    assert_int_equal(ea_ring_dropped(r, &d), 0);
    ea_ring_destroy(r);
}

static void full(void **state) {
    (void)state;
    ea_ring *r = make();
    uint64_t fit = 0, dropped[7] = {0}, returned[7] = {0};
    for (uint64_t i = 0; i < RECORDS; i++) {
        ea_record record;
        ea_ext ext[3];
        uint8_t bytes[300];
        make_record(i, &record, ext, bytes);
        int rc = ea_ring_put(r, &record);
        if (rc == 0) {
            fit++;
        } else {
            assert_int_equal(rc, EA_EFULL);
            dropped[i % 7]++;
        }
    }
    assert_true(fit > 1000 && fit < RECORDS);
    assert_true(ea_ring_used(r) <= RING_BYTES);
    static const uint8_t BIG[65535];
    ea_ext huge[8];
    for (size_t i = 0; i < 8; i++)
        huge[i] = (ea_ext){1, 0, sizeof BIG, BIG};
    ea_record big = {.ext = huge, .ext_count = 8, .id = 4711};
    assert_int_equal(ea_ring_put(r, &big), EA_ELIMIT);
    ea_dropped d;
    unsigned oversize = 0;
    while (ea_ring_dropped(r, &d))
        if (d.is_oversize) {
            oversize++;
            assert_int_equal(d.kind.id, 4711);
            assert_int_equal(d.count, 1);
        } else {
            assert_true(d.kind.provider.bytes[0] < 7);
            returned[d.kind.provider.bytes[0]] += d.count;
        }
    assert_int_equal(oversize, 1);
    assert_memory_equal(returned, dropped, sizeof returned);
    assert_int_equal(ea_ring_dropped(r, &d), 0); /* reported once */
    const ea_record *got;
    uint64_t out = 0;
    while (ea_ring_take(r, &got))
        check(got, (uint64_t)got->time_raw), out++;
    assert_int_equal(out, fit);
    ea_ring_destroy(r);
}

typedef struct other {
    ea_ring *ring;
    uint64_t put, dropped;
    atomic_int over;
} other;

static void put_all(void *arg) {
    other *o = arg;
    for (uint64_t i = 0; i < RECORDS; i++) {
        ea_record record;
        ea_ext ext[3];
        uint8_t bytes[300];
        make_record(i, &record, ext, bytes);
        if (ea_ring_put(o->ring, &record))
            o->dropped++;
        else
            o->put++;
    }
    atomic_store(&o->over, 1);
}

static void two_threads(void **state) {
    (void)state;
    other o = {.ring = make()};
    ea_thread *thread = NULL;
    ea_err err = {0};
    assert_int_equal(ea_thread_start(&thread, "callback", put_all, &o, &err), 0);
    const ea_record *got;
    uint64_t out = 0, returned = 0;
    int64_t last = -1;
    ea_dropped d;
    for (int over = 0; !over;) {
        over = atomic_load(&o.over);
        while (ea_ring_take(o.ring, &got)) {
            assert_true(got->time_raw > last);
            last = got->time_raw;
            check(got, (uint64_t)last);
            out++;
        }
        while (ea_ring_dropped(o.ring, &d))
            returned += d.count;
    }
    ea_thread_join(thread);
    assert_int_equal(out, o.put);
    assert_int_equal(returned, o.dropped);
    assert_int_equal(out + returned, RECORDS);
    ea_ring_destroy(o.ring);
}

/* An event whose members have a different value in each byte, so that no two can be mixed up. */
static ea_event_record made_up_event(uint16_t payload_bytes, const uint8_t *payload, uint16_t flags) {
    ea_event_record e;
    uint8_t *bytes = (uint8_t *)&e;
    for (size_t i = 0; i < sizeof e; i++)
        bytes[i] = (uint8_t)(i * 7 + 129);
    e.flags = flags;
    e.ext_count = 0;
    e.ext = NULL;
    e.payload_bytes = payload_bytes;
    e.payload = payload;
    return e;
}

static void check_event(const ea_record *got, const ea_event_record *e) {
    ea_record want = {.provider = e->provider,
                      .keyword = e->keyword,
                      .id = e->id,
                      .task = e->task,
                      .version = e->version,
                      .channel = e->channel,
                      .level = e->level,
                      .opcode = e->opcode,
                      .logger = e->logger,
                      .flags = e->flags,
                      .property = e->property,
                      .pointer_size = e->flags & EA_FLAG_32_BIT_HEADER ? 4 : 8,
                      .time_raw = e->time,
                      .pid = e->pid,
                      .tid = e->tid,
                      .kernel_time = e->kernel_time,
                      .user_time = e->user_time,
                      .activity_id = e->activity_id,
                      .cpu = e->flags & EA_FLAG_PROCESSOR_INDEX ? e->cpu : (uint16_t)(e->cpu & 0xff),
                      .ext_count = got->ext_count,
                      .payload_bytes = e->payload_bytes,
                      .ext = got->ext,
                      .payload = e->payload};
    assert_true(ea_record_equal(got, &want));
    assert_int_equal(got->unused, 0);
    assert_int_equal(got->ext_count, e->ext_count);
    for (size_t i = 0; i < e->ext_count; i++) {
        assert_int_equal(got->ext[i].type, e->ext[i].type);
        assert_int_equal(got->ext[i].linkage, e->ext[i].linkage);
        assert_int_equal(got->ext[i].size_bytes, e->ext[i].size_bytes);
        assert_memory_equal(got->ext[i].data, (const uint8_t *)(uintptr_t)e->ext[i].data, e->ext[i].size_bytes);
    }
}

static void events_of_windows(void **state) {
    (void)state;
    static const uint16_t FLAGS[] = {EA_FLAG_64_BIT_HEADER, EA_FLAG_32_BIT_HEADER | EA_FLAG_CLASSIC_HEADER,
                                     EA_FLAG_PROCESSOR_INDEX};

    enum { SIZES = 200 };

    uint8_t bytes[SIZES];
    ea_ring *r = make();
    const ea_record *got;
    uint64_t number = 0;
    for (size_t i = 0; i < SIZES; i++)
        bytes[i] = (uint8_t)(i + 1);
    const ea_event_ext items[] = {{0, 7, 1, 5, (uintptr_t)bytes}, {0, 9, 0, 16, (uintptr_t)bytes + 3}};
    for (uint16_t size = 0; size < SIZES; size++)
        for (uint16_t k = 0; k < 9; k++) {
            ea_event_record e = made_up_event(size, bytes, FLAGS[k % 3]);
            e.ext_count = k / 3;
            e.ext = items;
            assert_int_equal(ea_event_put(r, &e), 0);
            assert_int_equal(ea_ring_take(r, &got), 1);
            assert_int_equal(got->position, number++);
            check_event(got, &e);
        }
    ea_ring_destroy(r);
}

/* What has no room is dropped, has a number, and is counted by its kind. */
static void events_without_room(void **state) {
    (void)state;
    static uint8_t bytes[40000];
    ea_ring *r = make();
    ea_event_record e = made_up_event(sizeof bytes, bytes, EA_FLAG_64_BIT_HEADER);
    const ea_record *got;
    ea_dropped d;
    uint64_t fit = 0;
    int rc;
    while ((rc = ea_event_put(r, &e)) == 0)
        fit++;
    assert_int_equal(rc, EA_EFULL);
    assert_int_equal(fit, RING_BYTES / sizeof bytes);
    assert_int_equal(ea_ring_dropped(r, &d), 1);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.is_oversize, 0);
    assert_int_equal(d.kind.id, e.id);
    assert_memory_equal(&d.kind.provider, &e.provider, sizeof e.provider);
    for (uint64_t i = 0; i < fit; i++) {
        assert_int_equal(ea_ring_take(r, &got), 1);
        check_event(got, &e);
    }
    assert_int_equal(ea_ring_take(r, &got), 0); /* its entry is free only now */
    assert_int_equal(ea_event_put(r, &e), 0);
    assert_int_equal(ea_ring_take(r, &got), 1);
    assert_int_equal(got->position, fit + 1);
    e.ext_count = EA_EXT_MAX + 1;
    ea_event_ext items[EA_EXT_MAX] = {{0}};
    e.ext = items;
    assert_int_equal(ea_event_put(r, &e), EA_ELIMIT);
    ea_ring_destroy(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_and_out),          cmocka_unit_test(full),
        cmocka_unit_test(two_threads),         cmocka_unit_test(events_of_windows),
        cmocka_unit_test(events_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
