/* See stack_meter.h. */
#include "service/decode/stack_meter.h"

#include "proto/stack/stack_feed.h"

#include <stdlib.h>

static const size_t WINDOW_BYTES = 2200 << 10; /* three times what the farthest half that was measured needs */

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
    uint64_t taken[EA_STACK_OUTCOME_COUNT];
};

int ea_stack_meter_create(ea_stack_meter **ret, ea_err *err) {
    ea_stack_meter *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "count stacks");
    int rc = ea_stack_feed_create(&m->feed, NULL, err);
    if (rc) {
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
    free(m);
}

static int begin(ea_stack_meter *m, const ea_record *r) {
    int rc = ea_stack_join_create(
        &m->join, NULL, &(ea_stack_join_options){.limit_bytes = WINDOW_BYTES, .has_begin = 1, .begin = r->time_raw},
        NULL);
    if (!rc)
        ea_stack_feed_begin(m->feed, m->join);
    return rc;
}

int ea_stack_meter_add(ea_stack_meter *m, const ea_record *r, const ea_class *c) {
    if (!m->join) {
        int brings = ea_stack_feed_brings(m->feed, r, c), rc = brings > 0 ? begin(m, r) : 0;
        if (brings <= 0 || rc)
            return brings < 0 ? brings : rc;
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
