/* Compact context switches: packets made here by the layout's own words, expanded, compared with what they were made
 * of; cut at every length; and printed. */
#include "proto/event/compact_cswitch.h"
#include "proto/event/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);

enum { MAX_SWITCHES = 8192, HEAD = 88, IDLE_SHORT = 0, IDLE, LITE, FULL };

typedef struct context_switch {
    int64_t time;
    uint32_t old_tid, new_tid, wait_time;
    uint16_t cpu;
    uint8_t type, state;
    int8_t priority;
    int knows_new;
} context_switch;

static uint32_t seed = 1;

static uint32_t next(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

typedef struct batch {
    uint8_t bytes[4096];
    size_t len_bytes;
    ea_record record;
} batch;

static void put(batch *b, uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++)
        b->bytes[b->len_bytes++] = (uint8_t)(v >> 8 * i);
}

static uint32_t tid_of(unsigned index) {
    return 1000 + 4 * index;
}

static int8_t base_priority(unsigned index) {
    return (int8_t)(index * 2 - 3);
}

static void begin(batch *b, uint16_t cpu, int64_t first_time) {
    memset(b, 0, sizeof *b);
    b->record = (ea_record){.provider = THREAD,
                            .opcode = 37,
                            .version = 2,
                            .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                            .pointer_size = 8,
                            .pid = UINT32_MAX,
                            .tid = UINT32_MAX,
                            .cpu = cpu,
                            .time_raw = first_time,
                            .payload = b->bytes};
    put(b, (uint64_t)first_time, 8);
    for (unsigned i = 0; i < 16; i++)
        put(b, tid_of(i), 4);
    for (unsigned i = 0; i < 16; i++)
        put(b, (uint8_t)base_priority(i), 1);
}

/* One random packet; its switch, of which time and cpu are the caller's. Returns the ticks since the last one. */
static uint32_t add_packet(batch *b, unsigned type, context_switch *ret) {
    unsigned index = next() % 16, above = next() % 8, state = next() % 64, priority = next() % 32;
    uint32_t ticks = next() % (type == IDLE_SHORT ? 1u << 14 : type == LITE ? 1u << 17 : 1u << 22);
    *ret = (context_switch){.type = (uint8_t)type};
    switch (type) {
    case IDLE_SHORT:
        put(b, type | ticks << 2, 2);
        break;
    case IDLE:
        put(b, type | ticks << 2, 4);
        break;
    case LITE:
        put(b, type | index << 2 | above << 6 | state << 9 | ticks << 15, 4);
        ret->old_tid = tid_of(index);
        ret->priority = (int8_t)(base_priority(index) + (int)above);
        ret->state = (uint8_t)state;
        break;
    default:
        ret->wait_time = next() % (1u << 17);
        put(b,
            type | (uint64_t)ticks << 2 | (uint64_t)index << 32 | (uint64_t)state << 36 | (uint64_t)priority << 42 |
                (uint64_t)ret->wait_time << 47,
            8);
        ret->old_tid = tid_of(index);
        ret->priority = (int8_t)priority;
        ret->state = (uint8_t)state;
    }
    return ticks;
}

typedef struct seen {
    context_switch items[MAX_SWITCHES];
    size_t count;
    int fail_at; /* of fn's calls, from 1; 0: never */
} seen;

static int on_switch(void *arg, const ea_record *r, const ea_class *c, const ea_clock *clock) {
    seen *s = arg;
    uint64_t type = 0, old_tid = 0, priority = 0, state = 0, wait_time = 0, new_tid = 0;
    assert_true(s->count < MAX_SWITCHES);
    assert_string_equal(c->name, "Thread/CompactCSwitch");
    assert_int_equal(clock->frequency, CLOCK.frequency);
    assert_true(ea_event_u64(c, r, "Packet", &type) && ea_event_u64(c, r, "OldThreadId", &old_tid) &&
                ea_event_u64(c, r, "OldThreadPriority", &priority) && ea_event_u64(c, r, "OldThreadStateWr", &state) &&
                ea_event_u64(c, r, "NewThreadWaitTime", &wait_time));
    int knows_new = ea_event_u64(c, r, "NewThreadId", &new_tid);
    s->items[s->count++] = (context_switch){.time = r->time_raw,
                                            .old_tid = (uint32_t)old_tid,
                                            .new_tid = (uint32_t)new_tid,
                                            .wait_time = (uint32_t)wait_time,
                                            .cpu = r->cpu,
                                            .type = (uint8_t)type,
                                            .state = (uint8_t)state,
                                            .priority = (int8_t)priority,
                                            .knows_new = knows_new};
    return s->fail_at && s->count == (size_t)s->fail_at ? -77 : 0;
}

static void expect_equal(const context_switch *got, const context_switch *wanted) {
    assert_true(got->time == wanted->time);
    assert_int_equal(got->old_tid, wanted->old_tid);
    assert_int_equal(got->new_tid, wanted->new_tid);
    assert_int_equal(got->wait_time, wanted->wait_time);
    assert_int_equal(got->cpu, wanted->cpu);
    assert_int_equal(got->type, wanted->type);
    assert_int_equal(got->state, wanted->state);
    assert_int_equal(got->priority, wanted->priority);
    assert_int_equal(got->knows_new, wanted->knows_new);
}

/* Three CPUs take turns; each one's switches come out in their order, linked across records. */
static void test_switches(void **state) {
    enum { CPUS = 3, BATCHES = 60 };

    (void)state;
    ea_registry *registry;
    ea_cswitch_expander *e;
    static seen s;
    static context_switch wanted[CPUS][MAX_SWITCHES];
    size_t count[CPUS] = {0}, got[CPUS] = {0};
    s = (seen){.count = 0};
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_cswitch_expander_create(&e, NULL), 0);
    for (int i = 0; i < BATCHES; i++) {
        batch b;
        uint16_t cpu = (uint16_t)(next() % CPUS);
        int64_t time = 1000000 * (i + 1);
        begin(&b, cpu, time);
        for (unsigned n = next() % 100; n; n--) {
            context_switch *w = &wanted[cpu][count[cpu]++];
            time += add_packet(&b, next() % 4, w);
            w->time = time;
            w->cpu = cpu;
            if (count[cpu] > 1) {
                w[-1].new_tid = w->old_tid;
                w[-1].knows_new = 1;
            }
        }
        b.record.payload_bytes = (uint16_t)b.len_bytes;
        const ea_class *c = ea_registry_find(registry, &b.record);
        assert_true(ea_is_compact_cswitch(c));
        assert_int_equal(ea_cswitch_expand(e, &b.record, c, &CLOCK, on_switch, &s, NULL), 0);
    }
    assert_int_equal(ea_cswitch_expand_end(e, on_switch, &s), 0);
    for (size_t i = 0; i < s.count; i++) {
        assert_true(s.items[i].cpu < CPUS);
        expect_equal(&s.items[i], &wanted[s.items[i].cpu][got[s.items[i].cpu]++]);
    }
    for (int cpu = 0; cpu < CPUS; cpu++)
        assert_int_equal(got[cpu], count[cpu]);
    ea_cswitch_expand_counts n = ea_cswitch_expander_counts(e);
    assert_int_equal(n.records, BATCHES);
    assert_int_equal(n.switches, s.count);
    assert_int_equal(n.bytes_left_over + n.short_records + n.new_threads_left_out, 0);
    /* nothing waits any more */
    assert_int_equal(ea_cswitch_expand_end(e, on_switch, &s), 0);
    assert_int_equal(ea_cswitch_expander_counts(e).switches, n.switches);
    ea_cswitch_expander_destroy(e);
    ea_registry_destroy(registry);
}

/* Cut at every length, in memory of exactly that size: the whole packets before the cut, and the rest counted. */
static void test_cut(void **state) {
    (void)state;
    ea_registry *registry;
    batch b;
    size_t ends[64], packets = 0;
    static seen s;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    begin(&b, 7, INT64_MAX - 1000); /* times saturate */
    for (unsigned i = 0; i < 40; i++) {
        context_switch ignored;
        add_packet(&b, i % 4, &ignored);
        ends[packets++] = b.len_bytes;
    }
    const ea_class *c = ea_registry_find(registry, &b.record);
    for (size_t n = 0; n <= b.len_bytes; n++) {
        ea_cswitch_expander *e;
        uint8_t *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, b.bytes, n);
        b.record.payload = exact;
        b.record.payload_bytes = (uint16_t)n;
        size_t whole = 0;
        while (whole < packets && ends[whole] <= n)
            whole++;
        size_t used = n < HEAD ? 0 : whole ? ends[whole - 1] : HEAD;
        assert_int_equal(ea_cswitch_expander_create(&e, NULL), 0);
        s.count = 0;
        assert_int_equal(ea_cswitch_expand(e, &b.record, c, &CLOCK, on_switch, &s, NULL), 0);
        assert_int_equal(ea_cswitch_expand_end(e, on_switch, &s), 0);
        ea_cswitch_expand_counts counts = ea_cswitch_expander_counts(e);
        assert_int_equal(s.count, whole);
        assert_int_equal(counts.bytes_left_over, n - used);
        assert_int_equal(counts.short_records, n < HEAD || n != used);
        for (size_t i = 0; i < s.count; i++)
            assert_true(s.items[i].time >= INT64_MAX - 1000);
        ea_cswitch_expander_destroy(e);
        free(exact);
    }
    ea_registry_destroy(registry);
}

/* What fn returns ends the call; another class calls nothing; more CPUs than wait are counted. */
static void test_edges(void **state) {
    (void)state;
    ea_registry *registry;
    ea_cswitch_expander *e;
    batch b;
    static seen s;
    context_switch ignored;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_int_equal(ea_cswitch_expander_create(&e, NULL), 0);
    begin(&b, 0, 1);
    for (int i = 0; i < 5; i++)
        add_packet(&b, LITE, &ignored);
    b.record.payload_bytes = (uint16_t)b.len_bytes;
    const ea_class *c = ea_registry_find(registry, &b.record);
    s = (seen){.fail_at = 2};
    assert_int_equal(ea_cswitch_expand(e, &b.record, c, &CLOCK, on_switch, &s, NULL), -77);
    assert_int_equal(s.count, 2);
    ea_record other = b.record;
    other.opcode = 36;
    s = (seen){.count = 0};
    assert_int_equal(ea_cswitch_expand(e, &other, ea_registry_find(registry, &other), &CLOCK, on_switch, &s, NULL), 0);
    assert_int_equal(s.count, 0);
    ea_cswitch_expander_destroy(e);
    assert_int_equal(ea_cswitch_expander_create(&e, NULL), 0);
    for (unsigned cpu = 0; cpu < 4100; cpu++) {
        b.record.cpu = (uint16_t)cpu;
        s.count = 0;
        assert_int_equal(ea_cswitch_expand(e, &b.record, c, &CLOCK, on_switch, &s, NULL), 0);
        assert_int_equal(s.count, cpu < 4096 ? 4 : 5);
    }
    assert_int_equal(ea_cswitch_expander_counts(e).new_threads_left_out, 4);
    s.count = 0;
    assert_int_equal(ea_cswitch_expand_end(e, on_switch, &s), 0);
    assert_int_equal(s.count, 4096);
    ea_cswitch_expander_destroy(e);
    ea_registry_destroy(registry);
}

static size_t lines_with(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* A printer shows the switches; with --no-names the record itself. */
static void test_printed(void **state) {
    (void)state;
    for (int no_names = 0; no_names < 2; no_names++) {
        ea_registry *registry;
        ea_printer *p;
        batch b;
        char text[16384] = {0};
        FILE *file = tmpfile();
        ea_print_options options = {.format = EA_PRINT_JSONL, .no_names = no_names};
        assert_non_null(file);
        assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
        assert_int_equal(ea_printer_create(&p, &options, file, NULL), 0);
        begin(&b, 2, 500);
        for (int i = 0; i < 4; i++) {
            context_switch ignored;
            add_packet(&b, (unsigned)i, &ignored);
        }
        b.record.payload_bytes = (uint16_t)b.len_bytes;
        assert_int_equal(ea_printer_event(p, &b.record, ea_registry_find(registry, &b.record), &CLOCK, NULL), 0);
        assert_int_equal(ea_printer_end(p, NULL), 0);
        assert_int_equal(ea_printer_flush(p, NULL), 0);
        rewind(file);
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        assert_int_equal(lines_with(text, "\"name\":\"Thread/CompactCSwitch\""), no_names ? 0 : 4);
        assert_int_equal(lines_with(text, "\"name\":\"Thread/CompCS\""), no_names ? 1 : 0);
        assert_int_equal(lines_with(text, "\"NewThreadId\""), no_names ? 0 : 3);
        assert_int_equal(lines_with(text, "\"Packet\":{\"value\":3,\"name\":\"Full\"}"), no_names ? 0 : 1);
        ea_printer_destroy(p);
        ea_registry_destroy(registry);
        fclose(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
