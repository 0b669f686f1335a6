/* Compact context switches. See compact_cswitch.h. */
#include "proto/event/compact_cswitch.h"

#include "proto/base/map.h"
#include "proto/base/provider_guids.h"

#include <stdlib.h>
#include <string.h>

static const ea_guid THREAD = EA_PROVIDER_THREAD;

enum {
    OP_COMPACT = 37,
    SWITCH_ID = 0x525,
    TABLE_SIZE = 16,
    TIDS_AT = 8,
    PRIORITIES_AT = TIDS_AT + 4 * TABLE_SIZE,
    PACKETS_AT = PRIORITIES_AT + TABLE_SIZE,
    MAX_CPUS = 4096,
    /* the payload that is made: rows/thread.c compact_c_switch_fields */
    KNOWN_BYTES = 11,
    WHOLE_BYTES = KNOWN_BYTES + 4,
};

enum packet { IDLE_SHORT, IDLE, LITE, FULL };

/* A switch whose new thread is not known yet. */
typedef struct waiting {
    ea_record record;
    ea_clock clock;
    uint8_t payload[WHOLE_BYTES];
} waiting;

struct ea_cswitch_expander {
    ea_registry *registry;
    ea_u64_map by_cpu;              /* cpu -> index in items */
    waiting items[MAX_CPUS], spare; /* spare: for a CPU beyond */
    uint8_t is_waiting[MAX_CPUS];
    size_t count;
    ea_cswitch_expand_counts counts;
};

int ea_cswitch_expander_create(ea_cswitch_expander **ret, ea_err *err) {
    ea_cswitch_expander *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "expand compact context switches");
    ea_u64_map_init(&e->by_cpu, MAX_CPUS);
    int rc = ea_registry_create(&e->registry, 16, err);
    if (rc) {
        ea_cswitch_expander_destroy(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void ea_cswitch_expander_destroy(ea_cswitch_expander *e) {
    if (!e)
        return;
    ea_u64_map_deinit(&e->by_cpu);
    ea_registry_destroy(e->registry);
    free(e);
}

ea_cswitch_expand_counts ea_cswitch_expander_counts(const ea_cswitch_expander *e) {
    return e->counts;
}

int ea_is_compact_cswitch(const ea_class *c) {
    return c->classic && c->code == OP_COMPACT && ea_guid_equal(&c->provider, &THREAD);
}

/* What one packet says. */
typedef struct packet_view {
    uint8_t type, state, priority;
    uint32_t ticks, tid, wait_time;
    size_t bytes;
} packet_view;

/* 0 when the bytes end inside it. tables: a record's payload. */
static int read_packet(const uint8_t *tables, const uint8_t *at, size_t left, packet_view *ret) {
    static const uint8_t BYTES[] = {[IDLE_SHORT] = 2, [IDLE] = 4, [LITE] = 4, [FULL] = 8};
    if (left < 2)
        return 0;
    packet_view p = {.type = at[0] & 3};
    p.bytes = BYTES[p.type];
    if (left < p.bytes)
        return 0;
    uint32_t word = p.bytes == 2 ? ea_load16(at) : ea_load32(at), more = p.type == FULL ? ea_load32(at + 4) : 0;
    unsigned index = p.type == FULL ? more & 15 : word >> 2 & 15;
    switch ((enum packet)p.type) {
    case IDLE_SHORT:
    case IDLE:
        p.ticks = word >> 2;
        break;
    case LITE:
        p.state = (uint8_t)(word >> 9 & 63);
        p.priority = (uint8_t)(tables[PRIORITIES_AT + index] + (word >> 6 & 7));
        p.ticks = word >> 15;
        break;
    case FULL:
        p.ticks = word >> 2;
        p.state = (uint8_t)(more >> 4 & 63);
        p.priority = (uint8_t)(more >> 10 & 31);
        p.wait_time = more >> 15;
        break;
    }
    if (p.type >= LITE)
        p.tid = ea_load32(tables + TIDS_AT + 4 * index);
    *ret = p;
    return 1;
}

static void compact_cswitch_put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void make_switch(waiting *w, const ea_record *record, const ea_clock *clock, const packet_view *p,
                        int64_t time_raw) {
    *w = (waiting){.clock = *clock, .record = *record};
    w->payload[0] = p->type;
    compact_cswitch_put32(w->payload + 1, p->tid);
    w->payload[5] = p->priority;
    w->payload[6] = p->state;
    compact_cswitch_put32(w->payload + 7, p->wait_time);
    ea_record *r = &w->record;
    r->id = SWITCH_ID;
    r->opcode = 0;
    r->flags &= (uint16_t)~EA_FLAG_CLASSIC_HEADER;
    r->time_raw = time_raw;
    r->ext = NULL;
    r->ext_count = 0;
    r->payload_bytes = KNOWN_BYTES;
}

/* new_tid: NULL when it is unknown. */
static int compact_cswitch_emit(ea_cswitch_expander *e, waiting *w, const uint32_t *new_tid, ea_cswitch_expand_fn fn,
                                void *arg) {
    if (new_tid) {
        compact_cswitch_put32(w->payload + KNOWN_BYTES, *new_tid);
        w->record.payload_bytes = WHOLE_BYTES;
    }
    w->record.payload = w->payload;
    e->counts.switches++;
    return fn(arg, &w->record, ea_registry_find(e->registry, &w->record), &w->clock);
}

/* The index where the CPU's last switch waits; MAX_CPUS when there is no room for one more. */
static int compact_cswitch_place_of(ea_cswitch_expander *e, uint16_t cpu, size_t *ret, ea_err *err) {
    const uint64_t *known = ea_u64_map_get(&e->by_cpu, cpu);
    if (known || e->count == MAX_CPUS) {
        *ret = known ? (size_t)*known : MAX_CPUS;
        return 0;
    }
    int rc = ea_u64_map_put(&e->by_cpu, cpu, e->count);
    if (rc)
        return ea_fail(err, rc, "expand compact context switches");
    *ret = e->count++;
    return 0;
}

int ea_cswitch_expand(ea_cswitch_expander *e, const ea_record *record, const ea_class *c, const ea_clock *clock,
                      ea_cswitch_expand_fn fn, void *arg, ea_err *err) {
    size_t place, at = PACKETS_AT;
    if (!ea_is_compact_cswitch(c))
        return 0;
    e->counts.records++;
    if (record->payload_bytes < PACKETS_AT) {
        e->counts.short_records++;
        e->counts.bytes_left_over += record->payload_bytes;
        return 0;
    }
    int rc = compact_cswitch_place_of(e, record->cpu, &place, err);
    if (rc)
        return rc;
    int fits = place < MAX_CPUS, is_waiting = fits && e->is_waiting[place];
    waiting *last = fits ? &e->items[place] : &e->spare;
    int64_t time_raw = (int64_t)ea_load64(record->payload);
    packet_view p;
    while (!rc && read_packet(record->payload, record->payload + at, record->payload_bytes - at, &p)) {
        if (is_waiting)
            rc = compact_cswitch_emit(e, last, &p.tid, fn, arg);
        time_raw = time_raw > INT64_MAX - p.ticks ? INT64_MAX : time_raw + p.ticks;
        make_switch(last, record, clock, &p, time_raw);
        is_waiting = 1;
        at += p.bytes;
    }
    e->counts.bytes_left_over += rc ? 0 : record->payload_bytes - at;
    e->counts.short_records += !rc && at < record->payload_bytes;
    if (fits) {
        e->is_waiting[place] = (uint8_t)is_waiting;
    } else if (is_waiting && !rc) {
        e->counts.new_threads_left_out++;
        rc = compact_cswitch_emit(e, last, NULL, fn, arg);
    }
    return rc;
}

int ea_cswitch_expand_end(ea_cswitch_expander *e, ea_cswitch_expand_fn fn, void *arg) {
    int rc = 0;
    for (unsigned cpu = 0; cpu <= UINT16_MAX && !rc && e->count; cpu++) {
        const uint64_t *place = ea_u64_map_get(&e->by_cpu, cpu);
        if (place && e->is_waiting[*place])
            rc = compact_cswitch_emit(e, &e->items[*place], NULL, fn, arg);
    }
    ea_u64_map_clear(&e->by_cpu);
    memset(e->is_waiting, 0, sizeof e->is_waiting);
    e->count = 0;
    return rc;
}
