/* Halves of stacks that joined no event, and events whose user half never came. Called by: stack_query.c. Calls:
 * address_space.h. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_STACK_MISSED_H
#define EC_QUERY_ANALYSIS_STACK_MISSED_H

#include "collector/query/analysis/stack_query.h"
#include "proto/base/map.h"

typedef struct ec_stack_missed {
    int (*fn)(void *arg, const ec_missed_half *m);
    void *arg;
    int64_t from_utc_ns, to_utc_ns; /* of the range; the join begins with the stream */
    int rc;                         /* what fn returned, EA_ENOMEM */
    ec_address_space *space;        /* borrowed; of the stream */

    struct ec_clock_since {
        uint64_t place; /* of the first record that has this clock */
        ea_clock clock;
    } * clocks;

    size_t clock_count, clock_capacity;
    ec_missed_half *awaited; /* events whose user half has not come */
    size_t awaited_count, awaited_capacity;
    ea_u64_map by_tag; /* of an event -> index of awaited */
} ec_stack_missed;

void ec_stack_missed_init(ec_stack_missed *m, int (*fn)(void *arg, const ec_missed_half *m), void *arg,
                          int64_t from_utc_ns, int64_t to_utc_ns);
void ec_stack_missed_deinit(ec_stack_missed *m);
/* The records from place on have this clock. */
void ec_stack_missed_clock(ec_stack_missed *m, uint64_t place, const ea_clock *clock);
/* A half joined no event. */
void ec_stack_missed_add(ec_stack_missed *m, const ea_stack_missed *half);
/* An event has left the window without its user half: place, utc_ns, pid and tid of event are read. */
EA_MUST_CHECK int ec_stack_missed_await(ec_stack_missed *m, uint64_t tag, const ec_missed_half *event);
/* The user half of such an event came, too late to be joined. */
void ec_stack_missed_answer(ec_stack_missed *m, uint64_t tag);
/* The stream ends: events without an answer are reported. What fn returned, EA_ENOMEM, or 0. */
EA_MUST_CHECK int ec_stack_missed_end(ec_stack_missed *m);

#endif
