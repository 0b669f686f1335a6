/* See stack_meter.h. */
#include "service/decode/stack_meter.h"

#include "proto/stack/stack_feed.h"

#include <stdlib.h>

static const size_t WINDOW_BYTES = 2200 << 10; /* three times what the farthest half that was measured needs */

enum { RECENT = 256 }; /* between an event and its walk come those of other processors */

/* What a walk may name, before there is a join. */
typedef struct recent {
    int64_t time;
    uint32_t tid;
    uint16_t cpu;
} recent;

/* Two outcomes are one counter: a half that came inside its event has found it. */
static const enum ea_counter COUNTERS[] = {
    [EA_STACK_in_event] = EA_COUNT_stacks_joined,
    [EA_STACK_joined] = EA_COUNT_stacks_joined,
    [EA_STACK_ambiguous] = EA_COUNT_stacks_ambiguous,
    [EA_STACK_no_event] = EA_COUNT_stacks_no_event,
    [EA_STACK_too_late] = EA_COUNT_stacks_too_late,
    [EA_STACK_other_thread] = EA_COUNT_stacks_other_thread,
    [EA_STACK_taken] = EA_COUNT_stacks_taken,
    [EA_STACK_no_match_id] = EA_COUNT_stacks_no_match_id,
    [EA_STACK_no_clr_event] = EA_COUNT_stacks_no_clr_event,
    [EA_STACK_too_short] = EA_COUNT_stacks_too_short,
    [EA_STACK_no_room] = EA_COUNT_stacks_too_short, /* there is no table here that could be full */
};

_Static_assert(sizeof COUNTERS / sizeof *COUNTERS == EA_STACK_OUTCOME_COUNT, "each outcome has a counter");

struct ea_stack_meter {
    ea_stack_join *join; /* NULL: no stack has come */
    ea_stack_feed *feed;
    recent *recent;      /* RECENT of them; NULL once there is a join */
    uint64_t remembered; /* how many there were; the last ones are in recent, each at its number modulo RECENT */
    uint64_t taken[EA_STACK_OUTCOME_COUNT];
};

int ea_stack_meter_create(ea_stack_meter **ret, ea_err *err) {
    ea_stack_meter *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "count stacks");
    m->recent = calloc(RECENT, sizeof *m->recent);
    int rc = m->recent ? ea_stack_feed_create(&m->feed, NULL, err) : ea_fail(err, EA_ENOMEM, "count stacks");
    if (rc) {
        free(m->recent);
        free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void ea_stack_meter_destroy(ea_stack_meter *m) {
    if (!m)
        return;
    ea_stack_feed_destroy(m->feed);
    ea_stack_join_destroy(m->join);
    free(m->recent);
    free(m);
}

static int stack_meter_begin(ea_stack_meter *m) {
    ea_stack_join_options options = {.limit_bytes = WINDOW_BYTES};
    uint64_t first = m->remembered > RECENT ? m->remembered - RECENT : 0;
    if (first) { /* there were earlier events, which are not known any more */
        options.has_begin = 1;
        options.begin = m->recent[first % RECENT].time;
    }
    int rc = ea_stack_join_create(&m->join, NULL, &options, NULL);
    if (rc)
        return rc;
    ea_stack_feed_begin(m->feed, m->join);
    for (uint64_t i = first; !rc && i < m->remembered; i++) {
        const recent *e = &m->recent[i % RECENT];
        rc = ea_stack_join_event(m->join, e->time, e->tid, e->cpu, 0);
    }
    free(m->recent);
    m->recent = NULL;
    return rc;
}

static int stack_meter_remember(ea_stack_meter *m, const ea_record *r, const ea_class *c) {
    uint32_t tid = 0;
    int named = ea_stack_feed_thread(m->feed, r, c, &tid);
    if (named > 0)
        m->recent[m->remembered++ % RECENT] = (recent){r->time_raw, tid, r->cpu};
    return named < 0 ? named : 0;
}

int ea_stack_meter_add(ea_stack_meter *m, const ea_record *r, const ea_class *c) {
    if (!m->join) {
        int brings = ea_stack_feed_brings(m->feed, r, c);
        if (brings < 0)
            return brings;
        int rc = brings ? stack_meter_begin(m) : stack_meter_remember(m, r, c);
        if (!brings || rc)
            return rc;
    }
    return ea_stack_feed_record(m->feed, r, c, 0);
}

void ea_stack_meter_end(ea_stack_meter *m) {
    int rc = m->join ? ea_stack_join_end(m->join) : 0;
    (void)rc; /* there is no callback that could stop it */
}

void ea_stack_meter_take(ea_stack_meter *m, uint64_t ret[EA_STACK_OUTCOME_COUNT]) {
    const uint64_t *counts = m->join ? ea_stack_join_counts(m->join) : m->taken;
    for (size_t i = 0; i < EA_STACK_OUTCOME_COUNT; i++) {
        ret[i] = counts[i] - m->taken[i];
        m->taken[i] = counts[i];
    }
}

enum ea_counter ea_stack_meter_counter(enum ea_stack_outcome o) {
    return COUNTERS[o];
}
