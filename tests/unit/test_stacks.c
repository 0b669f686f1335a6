/* The stack join: who gets which half, by every rule of proto/stack/stack_join.h; keys whose tables collide and whose
 * definitions come late; a window that is full; answers that come late or never; a table of stacks that is full. */
#include "proto/stack/stack_feed.h"
#include "service/decode/stack_meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ANY = EA_STACK_ANY_THREAD, EVENTS_MAX = 4096 };

#define KERNEL         EA_STACK_KERNEL
#define USER           EA_STACK_USER
#define KERNEL_ADDRESS 0xFFFFF80000000000u

typedef struct bench {
    ea_stacks *stacks;
    ea_stack_join *join;
    ea_stack_joined out[EVENTS_MAX];
    size_t count;
    uint64_t late[EVENTS_MAX]; /* tags */
    size_t late_count;
    ea_stack_missed missed[EVENTS_MAX];
    size_t missed_count;
} bench;

static int on_event(void *arg, const ea_stack_joined *e) {
    bench *b = arg;
    assert_true(b->count < EVENTS_MAX);
    b->out[b->count++] = *e;
    return 0;
}

static void on_late(void *arg, uint64_t tag) {
    bench *b = arg;
    assert_true(b->late_count < EVENTS_MAX);
    b->late[b->late_count++] = tag;
}

static void on_missed(void *arg, const ea_stack_missed *missed) {
    bench *b = arg;
    assert_true(b->missed_count < EVENTS_MAX);
    b->missed[b->missed_count++] = *missed;
}

static bench *new_bench(size_t window_bytes, size_t stacks_bytes) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(ea_stacks_create(&b->stacks, stacks_bytes, NULL), 0);
    const ea_stack_join_options options = {
        .limit_bytes = window_bytes, .on_event = on_event, .on_late = on_late, .on_missed = on_missed, .arg = b};
    assert_int_equal(ea_stack_join_create(&b->join, b->stacks, &options, NULL), 0);
    return b;
}

/* Each half that is counted as one without an event was reported once, with its reason. */
static void end(bench *b) {
    uint64_t tally[EA_STACK_OUTCOME_COUNT] = {0};
    assert_int_equal(ea_stack_join_end(b->join), 0);
    for (size_t i = 0; i < b->missed_count; i++)
        tally[b->missed[i].outcome]++;
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        if (i != EA_STACK_in_event && i != EA_STACK_joined && i != EA_STACK_ambiguous)
            assert_int_equal(tally[i], ea_stack_join_counts(b->join)[i]);
}

static void free_bench(bench *b) {
    ea_stack_join_destroy(b->join);
    ea_stacks_destroy(b->stacks);
    free(b);
}

static void event(bench *b, int64_t time, uint32_t tid, uint16_t cpu, uint64_t tag) {
    assert_int_equal(ea_stack_join_event(b->join, time, tid, cpu, tag), 0);
}

static uint32_t stack(bench *b, uint64_t address) {
    return ea_stacks_add(b->stacks, (const uint8_t *)&address, 1, 8);
}

static void walk(bench *b, int64_t time, uint32_t tid, uint16_t cpu, enum ea_stack_half half, uint32_t number) {
    assert_int_equal(ea_stack_join_walk(b->join, time, 9, tid, cpu, half, number), 0);
}

static uint64_t outcome(const bench *b, enum ea_stack_outcome o) {
    return ea_stack_join_counts(b->join)[o];
}

static void whose_half_no_event_got(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    uint32_t k = stack(b, KERNEL_ADDRESS + 1), u = stack(b, 1);
    ea_stack_join_from(b->join, &(ea_stack_origin){.tag = 71, .time = 12, .pid = 4, .tid = 8});
    walk(b, 10, 5, 0, KERNEL, k); /* waits, and nothing comes */
    ea_stack_join_from(b->join, &(ea_stack_origin){.tag = 72, .time = 13, .pid = 4, .tid = 8});
    ea_stack_join_match(b->join, 99, u);
    ea_stack_join_from(b->join, &(ea_stack_origin){.tag = 73, .time = 14, .pid = 4, .tid = 8});
    ea_stack_join_unusable(b->join);
    assert_int_equal(b->missed_count, 2);
    end(b);
    assert_int_equal(b->missed_count, 3);
    const ea_stack_missed want[] = {
        {{72, 13, 4, 8}, USER, EA_STACK_no_match_id},
        {{73, 14, 4, 8}, EA_STACK_HALVES, EA_STACK_too_short},
        {{71, 10, 9, 5},
         KERNEL,
         EA_STACK_no_event}, /* its event's time, and the process and thread that the walk names */
    };
    for (size_t i = 0; i < 3; i++) {
        const ea_stack_missed *m = &b->missed[i];
        assert_int_equal(m->from.tag, want[i].from.tag);
        assert_int_equal(m->from.time, want[i].from.time);
        assert_int_equal(m->from.pid, want[i].from.pid);
        assert_int_equal(m->from.tid, want[i].from.tid);
        assert_int_equal(m->half, want[i].half);
        assert_int_equal(m->outcome, want[i].outcome);
    }
    free_bench(b);
}

static void best_event_of_a_time(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    uint32_t k = stack(b, KERNEL_ADDRESS + 1), u = stack(b, 1);
    event(b, 10, (uint32_t)ANY, 0, 0); /* names no thread */
    event(b, 10, 5, 1, 1);             /* the thread, on another CPU */
    event(b, 10, 5, 0, 2);             /* both */
    event(b, 10, 6, 0, 3);             /* another thread */
    event(b, 11, 5, 0, 4);
    walk(b, 10, 5, 0, KERNEL, k);
    walk(b, 10, 5, 7, USER, u); /* the halves of one stack may be logged on two CPUs: the first one of this thread */
    walk(b, 10, 7, 0, KERNEL, k);
    walk(b, 10, 7, 0, KERNEL, k);
    walk(b, 12, 7, 0, KERNEL, k);
    walk(b, 11, 7, 0, KERNEL, k);
    end(b);
    assert_int_equal(b->count, 5);
    assert_int_equal(b->out[2].half[KERNEL], k);
    assert_int_equal(b->out[2].outcome[KERNEL], EA_STACK_joined);
    assert_int_equal(b->out[2].pid, 9);
    assert_int_equal(b->out[1].half[USER], u);
    assert_int_equal(b->out[1].outcome[USER], EA_STACK_ambiguous);
    assert_int_equal(b->out[0].half[KERNEL], k); /* any thread */
    assert_int_equal(b->out[3].half[KERNEL], 0);
    assert_int_equal(outcome(b, EA_STACK_taken), 1);
    assert_int_equal(outcome(b, EA_STACK_no_event), 1);
    assert_int_equal(outcome(b, EA_STACK_other_thread), 1);
    free_bench(b);
}

/* Both halves at once: as one after the other, also where only one of them, or none, finds its event. */
static void both_halves_at_once(void **state) {
    (void)state;
    for (int together = 0; together < 2; together++) {
        bench *b = new_bench(0, 0);
        const uint32_t numbers[EA_STACK_HALVES] = {stack(b, KERNEL_ADDRESS + 1), stack(b, 1)};
        event(b, 10, 5, 0, 0);
        event(b, 10, 5, 0, 1);
        event(b, 11, 5, 0, 2);
        walk(b, 11, 5, 0, USER, numbers[USER]);
        static const int64_t TIMES[] = {10, 10, 10, 11, 12}; /* twice free, then full; half full; not there yet */
        for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
            if (together) {
                assert_int_equal(ea_stack_join_walks(b->join, TIMES[i], 9, 5, 0, numbers), 0);
            } else {
                walk(b, TIMES[i], 5, 0, KERNEL, numbers[KERNEL]);
                walk(b, TIMES[i], 5, 0, USER, numbers[USER]);
            }
        }
        event(b, 12, 5, 0, 3);
        end(b);
        assert_int_equal(b->count, 4);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(b->out[i].half[KERNEL], numbers[KERNEL]);
            assert_int_equal(b->out[i].half[USER], numbers[USER]);
            assert_int_equal(b->out[i].pid, 9);
        }
        assert_int_equal(outcome(b, EA_STACK_ambiguous), 2);
        assert_int_equal(outcome(b, EA_STACK_joined), 6);
        assert_int_equal(outcome(b, EA_STACK_taken), 3);
        free_bench(b);
    }
}

static void walk_before_its_event(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    uint32_t k = stack(b, KERNEL_ADDRESS + 1), u = stack(b, 1);
    walk(b, 10, 5, 0, USER, u);
    walk(b, 10, 5, 0, KERNEL, k);
    walk(b, 10, 6, 0, KERNEL, k);
    event(b, 10, 5, 0, 1);
    end(b);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->out[0].half[KERNEL], k);
    assert_int_equal(b->out[0].half[USER], u);
    assert_int_equal(outcome(b, EA_STACK_joined), 2);
    assert_int_equal(outcome(b, EA_STACK_no_event), 1); /* of the walk of thread 6 when it came */
    free_bench(b);
}

static void full_window(void **state) {
    (void)state;
    bench *b = new_bench(1, 0);
    uint32_t u = stack(b, 1);
    for (int i = 0; i < 2000; i++)
        event(b, i, 5, 0, (uint64_t)i);
    for (int i = 1400; i < 2000; i++)
        walk(b, i, 5, 0, USER, u);
    end(b);
    assert_int_equal(b->count, 2000);
    assert_true(outcome(b, EA_STACK_joined) > 100 && outcome(b, EA_STACK_too_late) > 10);
    assert_int_equal(outcome(b, EA_STACK_joined) + outcome(b, EA_STACK_too_late), 600);
    for (size_t i = 0; i < b->count; i++)
        assert_int_equal(b->out[i].tag, i);
    free_bench(b);
}

static void keys(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    uint64_t kernel[2] = {KERNEL_ADDRESS + 1, KERNEL_ADDRESS + 2}, user[1] = {0x1000}, other[1] = {0x2000};
    size_t n;
    uint32_t k = ea_stacks_use(b->stacks, EA_STACK_KERNEL, 0x40), u = ea_stacks_use(b->stacks, EA_STACK_USER, 0x40);
    assert_true(k && u && k != u);
    assert_int_equal(ea_stacks_use(b->stacks, EA_STACK_USER, 0x40), u);
    assert_true(ea_stacks_is_undefined(b->stacks, u));
    assert_null(ea_stacks_get(b->stacks, u, &n));
    assert_int_equal(n, 0);
    ea_stacks_define(b->stacks, 35, 0x40, (const uint8_t *)user, 1, 8);
    uint32_t later = ea_stacks_use(b->stacks, EA_STACK_USER, 0x40); /* the key was given again */
    assert_int_not_equal(later, u);
    ea_stacks_define(b->stacks, 36, 0x40, (const uint8_t *)kernel, 2, 8);
    ea_stacks_define(b->stacks, 36, 0x40, (const uint8_t *)other, 1, 8);
    ea_stacks_define(b->stacks, 36, 0x80, (const uint8_t *)other, 1, 8);
    assert_int_equal(ea_stacks_get(b->stacks, u, &n)[0], 0x1000);
    assert_int_equal(ea_stacks_get(b->stacks, later, &n)[0], 0x2000);
    assert_int_equal(ea_stacks_get(b->stacks, k, &n)[1], KERNEL_ADDRESS + 2);
    assert_int_equal(n, 2);
    /* the same addresses are the same stack, whether they came by key or not */
    assert_int_equal(ea_stacks_final(b->stacks, u), stack(b, 0x1000));
    assert_int_equal(ea_stacks_final(b->stacks, ea_stacks_use(b->stacks, EA_STACK_USER, 0x80)), stack(b, 0x2000));
    /* defined before its uses */
    ea_stacks_define(b->stacks, 34, 0xC0, (const uint8_t *)kernel, 2, 8);
    assert_int_equal(ea_stacks_final(b->stacks, ea_stacks_use(b->stacks, EA_STACK_KERNEL, 0xC0)),
                     ea_stacks_final(b->stacks, k));
    ea_stacks_counts c = ea_stacks_count(b->stacks);
    assert_int_equal(c.stacks, 3);
    assert_int_equal(c.undefined, 0);
    assert_int_equal(c.defined, 3);
    free_bench(b);
}

static void full_table(void **state) {
    (void)state;
    bench *b = new_bench(0, 1 << 16);
    uint64_t frames[16] = {0};
    uint32_t kept = 0;
    for (uint64_t i = 1; i <= 10000; i++) {
        frames[0] = i;
        kept += ea_stacks_add(b->stacks, (const uint8_t *)frames, 16, 8) != 0;
    }
    ea_stacks_counts c = ea_stacks_count(b->stacks);
    assert_true(kept > 50 && kept < 10000);
    assert_int_equal(c.stacks, kept);
    assert_int_equal(c.left_out, 10000 - kept);
    assert_true(c.bytes <= 1 << 16);
    event(b, 1, 1, 0, 0);
    walk(b, 1, 1, 0, USER, 0);
    event(b, 2, 1, 0, 1);
    ea_stack_join_inside(b->join, KERNEL, 0, 0);
    event(b, 3, 1, 0, 2);
    ea_stack_join_inside(b->join, KERNEL, 1, 7);
    ea_stack_join_match(b->join, 7, 0);
    event(b, 4, 1, 0, 3);
    ea_stack_join_clr_event(b->join, 5);
    ea_stack_join_clr_walk(b->join, 5, 0);
    event(b, 5, 1, 0, 4);
    walk(b, 6, 1, 0, USER, 0); /* of no event */
    end(b);
    assert_int_equal(outcome(b, EA_STACK_no_room), 5);
    for (size_t i = 0; i < b->count; i++)
        assert_int_equal(b->out[i].lacks, i < 4 ? EA_STACK_LACKS_ROOM : 0);
    free_bench(b);
}

/* An event with its kernel half, whose user half is to come by a match id. */
static void add_pending(bench *b, uint64_t match_id, uint64_t tag) {
    event(b, (int64_t)tag, 1, 0, tag);
    ea_stack_join_inside(b->join, KERNEL, stack(b, KERNEL_ADDRESS), match_id);
}

/* A window of 512 events, and as many match ids: each answer goes to its event, comes too late for it, or to one that
 * is forgotten; the oldest are forgotten first. */
static void answers(void **state) {
    (void)state;

    enum { WINDOW = 512, PENDING = 1300, FORGOTTEN = PENDING - WINDOW };

    bench *b = new_bench(1, 0);
    uint32_t u = stack(b, 1);
    add_pending(b, 5000, 0);
    ea_stack_join_match(b->join, 5000, u); /* in time: it takes no room from others */
    for (uint64_t i = 1; i <= PENDING; i++)
        add_pending(b, i, i);
    assert_int_equal(ea_stack_join_unanswered(b->join), PENDING);
    assert_int_equal(b->count, PENDING + 1 - WINDOW);
    for (size_t i = 0; i < b->count; i++)
        assert_int_equal(b->out[i].lacks, i ? EA_STACK_LACKS_ANSWER : 0);
    ea_stack_join_match(b->join, FORGOTTEN, u);
    assert_int_equal(outcome(b, EA_STACK_no_match_id), 1);
    ea_stack_join_match(b->join, FORGOTTEN + 1, u);
    ea_stack_join_match(b->join, PENDING, u);
    ea_stack_join_match(b->join, PENDING, u); /* has had its own */
    assert_int_equal(outcome(b, EA_STACK_no_match_id), 2);
    assert_int_equal(outcome(b, EA_STACK_joined), 3);
    for (uint64_t i = PENDING + 1; i <= PENDING + WINDOW; i++) /* all of them leave */
        event(b, (int64_t)i, 1, 0, i);
    assert_int_equal(b->late_count, 0);
    ea_stack_join_match(b->join, PENDING - 1, u);
    assert_int_equal(outcome(b, EA_STACK_too_late), 1);
    assert_int_equal(b->late_count, 1);
    assert_int_equal(b->late[0], PENDING - 1);
    assert_int_equal(ea_stack_join_unanswered(b->join), PENDING - 3);
    /* an id that is used again is the last one's; both events name it */
    add_pending(b, 77, 1);
    add_pending(b, 77, 2);
    ea_stack_join_match(b->join, 77, u);
    end(b);
    assert_int_equal(b->out[b->count - 2].lacks, EA_STACK_LACKS_ANSWER);
    assert_int_equal(b->out[b->count - 1].lacks, 0);
    assert_int_equal(b->out[b->count - 1].half[USER], u);
    assert_int_equal(ea_stack_join_unanswered(b->join), PENDING - 2);
    free_bench(b);
}

/* One event names more match ids than the limit: the oldest ids are dropped, and the event is marked as lacking an
 * answer. */
static void many_ids_of_one_event(void **state) {
    (void)state;
    bench *b = new_bench(1, 0);
    add_pending(b, 1, 9);
    for (uint64_t id = 2; id <= 1000; id++)
        ea_stack_join_inside(b->join, KERNEL, 1, id);
    ea_stack_join_match(b->join, 1, stack(b, 1));
    assert_int_equal(outcome(b, EA_STACK_no_match_id), 1);
    assert_int_equal(ea_stack_join_unanswered(b->join), 1000);
    end(b);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->out[0].lacks, EA_STACK_LACKS_ANSWER);
    ea_stack_join_match(b->join, 1000, stack(b, 1));
    assert_int_equal(outcome(b, EA_STACK_too_late), 1);
    assert_int_equal(ea_stack_join_unanswered(b->join), 999);
    free_bench(b);
}

/* More than the largest block of frames, and than the first slots. */
static void many_stacks(void **state) {
    (void)state;

    enum { MANY = 40000, FRAMES = 16 };

    bench *b = new_bench(0, 0);
    uint64_t frames[FRAMES];
    for (uint64_t pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < MANY; i++) {
            for (uint64_t k = 0; k < FRAMES; k++)
                frames[k] = 0x10000 * k + i;
            assert_int_equal(ea_stacks_add(b->stacks, (const uint8_t *)frames, 1 + i % FRAMES, 8), i + 1);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        size_t n = 0;
        const uint64_t *got = ea_stacks_get(b->stacks, i + 1, &n);
        assert_int_equal(n, 1 + i % FRAMES);
        assert_int_equal(got[0], i);
        assert_int_equal(got[n - 1], 0x10000 * (n - 1) + i);
    }
    assert_int_equal(ea_stacks_count(b->stacks).stacks, MANY);
    free_bench(b);
}

/* ---- records ---- */

static const ea_guid RUNTIME = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
static const ea_guid EVENT_TRACING =
    EA_GUID(0xb675ec37, 0xbdb6, 0x4648, 0xbc, 0x92, 0xf3, 0xfd, 0xc7, 0x4d, 0x3c, 0xa2);

static const ea_guid STACK_WALK = EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3);

static void feed_one(ea_stack_feed *f, ea_registry *registry, ea_record r, uint64_t tag) {
    assert_int_equal(ea_stack_feed_record(f, &r, ea_registry_find(registry, &r), tag), 0);
}

/* Windows 7 logs walks of kernel, user and again kernel addresses: what follows the kernel's half is the user's half,
 * inside an event and in a walk of its own. */
static void kernel_addresses_after_user_ones(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    ea_registry *registry = NULL;
    ea_stack_feed *f = NULL;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_stack_feed_create(&f, b->join, NULL), 0);
    uint64_t inside[4] = {0, KERNEL_ADDRESS, 0x1000, KERNEL_ADDRESS + 8};
    ea_ext item = {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)inside, .size_bytes = sizeof inside};
    ea_record event = {.provider = RUNTIME, .id = 80, .pointer_size = 8, .tid = 5, .ext = &item, .ext_count = 1};
    feed_one(f, registry, event, 0);
    event.ext_count = 0;
    event.time_raw = 7;
    feed_one(f, registry, event, 1);
    uint8_t payload[16 + 24] = {7};
    ea_store32(payload + 12, 5);
    memcpy(payload + 16, inside + 1, 24);
    ea_record walked = {.provider = STACK_WALK,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 32,
                        .version = 2,
                        .pointer_size = 8,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    feed_one(f, registry, walked, 2);
    end(b);
    assert_int_equal(b->count, 2);
    for (size_t i = 0, n; i < 2; i++) {
        assert_int_equal(ea_stacks_get(b->stacks, b->out[i].half[KERNEL], &n)[0], KERNEL_ADDRESS);
        assert_int_equal(n, 1);
        assert_int_equal(ea_stacks_get(b->stacks, b->out[i].half[USER], &n)[1], KERNEL_ADDRESS + 8);
        assert_int_equal(n, 2);
    }
    ea_stack_feed_destroy(f);
    ea_registry_destroy(registry);
    free_bench(b);
}

static void halves_inside_and_later(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    ea_registry *registry = NULL;
    ea_stack_feed *f = NULL;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_stack_feed_create(&f, b->join, NULL), 0);
    uint64_t whole[4] = {0, KERNEL_ADDRESS, 0x1000, 0x2000}, kernel[3] = {77, KERNEL_ADDRESS, KERNEL_ADDRESS + 8},
             late[2] = {77, 0x3000}, key[2] = {0, 0x40};
    uint32_t narrow[4] = {0, 0, 0x401000, 0x402000};
    ea_ext items[] = {
        {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)whole, .size_bytes = sizeof whole},
        {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)kernel, .size_bytes = sizeof kernel},
        {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)late, .size_bytes = sizeof late},
        {.type = EA_EXT_STACK_TRACE32, .data = (const uint8_t *)narrow, .size_bytes = sizeof narrow},
        {.type = EA_EXT_STACK_KEY64, .data = (const uint8_t *)key, .size_bytes = sizeof key},
        {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)key, .size_bytes = 8}, /* no address */
    };
    ea_record r = {.provider = RUNTIME, .id = 80, .pointer_size = 8, .tid = 5, .ext_count = 1};
    for (uint64_t i = 0; i < 2; i++) {
        r.ext = &items[i];
        r.time_raw = (int64_t)i;
        feed_one(f, registry, r, i);
    }
    ea_record match = {.provider = EVENT_TRACING, .id = 18, .pointer_size = 8, .ext = &items[2], .ext_count = 1};
    feed_one(f, registry, match, 99);
    feed_one(f, registry, match, 99); /* no event waits for it any more */
    r.ext = &items[3];
    feed_one(f, registry, r, 3);
    r.ext = &items[4];
    feed_one(f, registry, r, 4);
    r.ext = &items[5];
    feed_one(f, registry, r, 5);
    end(b);
    size_t n;
    assert_int_equal(b->count, 5);
    assert_int_equal(ea_stacks_get(b->stacks, b->out[0].half[KERNEL], &n)[0], KERNEL_ADDRESS);
    assert_int_equal(n, 1);
    assert_int_equal(ea_stacks_get(b->stacks, b->out[0].half[USER], &n)[1], 0x2000);
    assert_int_equal(n, 2);
    assert_int_equal(ea_stacks_get(b->stacks, b->out[1].half[USER], &n)[0], 0x3000);
    assert_int_equal(ea_stacks_get(b->stacks, b->out[2].half[USER], &n)[1], 0x402000);
    assert_true(ea_stacks_is_undefined(b->stacks, b->out[3].half[USER]));
    assert_int_equal(outcome(b, EA_STACK_no_match_id), 1);
    assert_int_equal(outcome(b, EA_STACK_too_short), 1);
    assert_int_equal(outcome(b, EA_STACK_in_event), 5);
    assert_int_equal(ea_stack_join_unanswered(b->join), 0);
    ea_stack_feed_destroy(f);
    ea_registry_destroy(registry);
    free_bench(b);
}

/* A walk and a definition of each length: all addresses that are whole count, and without one they are too short. */
static void records_of_every_length(void **state) {
    (void)state;

    enum { BYTES_MAX = 64 };

    for (uint8_t width = 4; width <= 8; width += 4) {
        for (uint32_t bytes = 0; bytes <= BYTES_MAX; bytes++) {
            bench *b = new_bench(1, 0);
            ea_registry *registry = NULL;
            ea_stack_feed *f = NULL;
            uint8_t payload[BYTES_MAX] = {0};
            assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
            assert_int_equal(ea_stack_feed_create(&f, b->join, NULL), 0);
            ea_record r = {.provider = STACK_WALK,
                           .opcode = 32,
                           .version = 2,
                           .flags = EA_FLAG_CLASSIC_HEADER,
                           .pointer_size = width,
                           .payload = payload,
                           .payload_bytes = (uint16_t)bytes};
            event(b, 0x1234, 7, 0, 0);
            ea_store64(payload, 0x1234);
            ea_store32(payload + 8, 5);
            ea_store32(payload + 12, 7);
            for (unsigned at = 16; at < BYTES_MAX; at++)
                payload[at] = (uint8_t)(at % width ? 0 : at); /* users' addresses: 16, 24, ... or 16, 20, ... */
            feed_one(f, registry, r, 1);
            size_t frames = bytes < 16 ? 0 : (bytes - 16u) / width, n;
            const uint64_t *got = ea_stacks_get(b->stacks, 1, &n);
            assert_int_equal(n, frames);
            assert_int_equal(outcome(b, EA_STACK_joined), frames != 0);
            assert_int_equal(outcome(b, EA_STACK_too_short), frames == 0);
            if (frames)
                assert_int_equal(got[frames - 1], 16 + (frames - 1) * width);

            uint32_t used = ea_stacks_use(b->stacks, USER, 0x1234);
            r.opcode = 36; /* KeyRundown */
            feed_one(f, registry, r, 1);
            frames = bytes < width ? 0 : (bytes - width) / width; /* after a key of the width of an address */
            assert_int_equal(ea_stacks_is_undefined(b->stacks, used), frames == 0);
            ea_stacks_get(b->stacks, used, &n);
            assert_int_equal(n, frames);
            end(b);
            assert_int_equal(b->count, 1);
            assert_int_equal(b->out[0].pid, bytes >= 16u + width ? 5 : UINT32_MAX);
            ea_stack_feed_destroy(f);
            ea_registry_destroy(registry);
            free_bench(b);
        }
    }
}

static void stacks_of_the_runtime(void **state) {
    (void)state;
    bench *b = new_bench(0, 0);
    ea_registry *registry = NULL;
    ea_stack_feed *f = NULL;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_stack_feed_create(&f, b->join, NULL), 0);
    uint8_t payload[24] = {0};
    ea_store32(payload + 4, 2);
    ea_store64(payload + 8, 0x7000);
    ea_store64(payload + 16, 0x8000);
    ea_record r = {.provider = RUNTIME, .id = 80, .pointer_size = 8, .tid = 5};
    ea_record own = {
        .provider = RUNTIME, .id = 82, .pointer_size = 8, .tid = 5, .payload = payload, .payload_bytes = 24};
    feed_one(f, registry, r, 0);
    r.tid = 6;
    feed_one(f, registry, r, 1);
    feed_one(f, registry, own, 2);
    feed_one(f, registry, own, 3); /* its event has one */
    own.payload_bytes = 7;
    feed_one(f, registry, own, 4);
    end(b);
    size_t n;
    assert_int_equal(b->count, 2);
    assert_int_equal(ea_stacks_get(b->stacks, b->out[0].half[USER], &n)[1], 0x8000);
    assert_int_equal(b->out[1].half[USER], 0);
    assert_int_equal(outcome(b, EA_STACK_no_clr_event), 1);
    assert_int_equal(outcome(b, EA_STACK_too_short), 1);
    ea_stack_feed_destroy(f);
    ea_registry_destroy(registry);
    free_bench(b);
}

static void measure(ea_stack_meter *m, ea_registry *registry, ea_record r) {
    assert_int_equal(ea_stack_meter_add(m, &r, ea_registry_find(registry, &r)), 0);
}

/* What was counted since the last time, as the ledger's counters. */
static void expect_counted(ea_stack_meter *m, uint64_t joined, uint64_t no_event, uint64_t too_late) {
    uint64_t counts[EA_STACK_OUTCOME_COUNT], got[EA_COUNTER_COUNT] = {0}, all = 0;
    ea_stack_meter_take(m, counts);
    for (unsigned i = 0; i < EA_STACK_OUTCOME_COUNT; i++) {
        got[ea_stack_meter_counter((enum ea_stack_outcome)i)] += counts[i];
        all += counts[i];
    }
    assert_int_equal(got[EA_COUNT_stacks_joined], joined);
    assert_int_equal(got[EA_COUNT_stacks_no_event], no_event);
    assert_int_equal(got[EA_COUNT_stacks_too_late], too_late);
    assert_int_equal(all, joined + no_event + too_late);
}

/* An agent's count: begins with the first stack and the 256 events before it, halves of events before those are too
 * late, and so is what comes after 32,768 events. */
static void counted_on_the_way(void **state) {
    (void)state;

    enum { WINDOW = 32768, RECENT = 256 };

    ea_registry *registry = NULL;
    ea_stack_meter *m = NULL;
    uint8_t payload[32] = {0};
    uint64_t inside[3] = {0, KERNEL_ADDRESS, 0x1000};
    ea_ext item = {.type = EA_EXT_STACK_TRACE64, .data = (const uint8_t *)inside, .size_bytes = sizeof inside};
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_stack_meter_create(&m, NULL), 0);
    ea_record plain = {.provider = RUNTIME, .id = 80, .pointer_size = 8, .tid = 7};
    ea_record walked = {.provider = STACK_WALK,
                        .opcode = 32,
                        .version = 2,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .pointer_size = 8,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    ea_store32(payload + 12, 7);
    ea_store64(payload + 16, KERNEL_ADDRESS);
    ea_store64(payload + 24, 0x2000);
    for (int i = 0; i <= RECENT; i++) {
        plain.time_raw = i;
        measure(m, registry, plain);
    }
    ea_store64(payload, RECENT);
    walked.time_raw = RECENT + 1;
    measure(m, registry, walked); /* the first stack: its event came just before it */
    expect_counted(m, 2, 0, 0);
    ea_store64(payload, 1);
    measure(m, registry, walked); /* two halves of the oldest event that is known */
    expect_counted(m, 2, 0, 0);
    ea_store64(payload, 0);
    measure(m, registry, walked); /* ... and of the one before it, twice */
    measure(m, registry, walked);
    expect_counted(m, 0, 0, 4);
    plain.time_raw = 1021;
    measure(m, registry, plain);
    ea_store64(payload, 1021);
    measure(m, registry, walked);
    plain.time_raw = 1022;
    plain.ext = &item;
    plain.ext_count = 1;
    measure(m, registry, plain);
    expect_counted(m, 4, 0, 0);
    ea_store64(payload, 1023); /* of no event, or of an event that comes later */
    measure(m, registry, walked);
    expect_counted(m, 0, 0, 0);
    plain.ext_count = 0;
    for (int i = 0; i < WINDOW; i++) {
        plain.time_raw = 1024 + i;
        measure(m, registry, plain);
    }
    expect_counted(m, 0, 2, 0);
    ea_store64(payload, 1022);
    measure(m, registry, walked);
    expect_counted(m, 0, 0, 2);
    ea_store64(payload, 1024 + WINDOW - 1);
    measure(m, registry, walked);
    expect_counted(m, 2, 0, 0);
    ea_store64(payload, 1024 + WINDOW);
    measure(m, registry, walked);
    ea_stack_meter_end(m);
    expect_counted(m, 0, 2, 0);
    ea_stack_meter_destroy(m);
    ea_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_on_the_way),
        cmocka_unit_test(whose_half_no_event_got),
        cmocka_unit_test(best_event_of_a_time),
        cmocka_unit_test(both_halves_at_once),
        cmocka_unit_test(walk_before_its_event),
        cmocka_unit_test(full_window),
        cmocka_unit_test(keys),
        cmocka_unit_test(full_table),
        cmocka_unit_test(answers),
        cmocka_unit_test(many_ids_of_one_event),
        cmocka_unit_test(many_stacks),
        cmocka_unit_test(halves_inside_and_later),
        cmocka_unit_test(kernel_addresses_after_user_ones),
        cmocka_unit_test(records_of_every_length),
        cmocka_unit_test(stacks_of_the_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
