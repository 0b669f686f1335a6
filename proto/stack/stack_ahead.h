/* Halves of stacks that a second pass over a stream joined ahead of the first one: walks come after their events, so
 * the pass that needs an event's stack lets the other one read on until the join has settled it. Input:
 * ea_stack_join_options.on_event. Called by: what runs programs over traces and over stored events. Calls: none.
 * Thread: its owner's. */
#ifndef EA_STACK_STACK_AHEAD_H
#define EA_STACK_STACK_AHEAD_H

#include "proto/stack/stack_join.h"

typedef struct ea_stack_ahead_event {
    uint64_t number; /* of the event: the tag that the join had of it */
    uint32_t half[EA_STACK_HALVES];
    uint32_t pid; /* as the walk says; 0xFFFFFFFF: the event has its stack inside */
} ea_stack_ahead_event;

/* All 0 at the begin. */
typedef struct ea_stack_ahead {
    ea_stack_ahead_event *found; /* [first, count): events with a stack that were not asked for */
    size_t first, count, capacity;
    uint64_t settled; /* events before this number get no further half */
} ea_stack_ahead;

/* on_event of the join; arg: the ea_stack_ahead. EA_ENOMEM. */
EA_MUST_CHECK int ea_stack_ahead_take(void *arg, const ea_stack_joined *e);
/* The halves of an event, 0 of those that it lacks, and the process of its walk; numbers only rise from call to call.
 */
void ea_stack_ahead_find(ea_stack_ahead *a, uint64_t number, uint32_t ret_half[EA_STACK_HALVES], uint32_t *ret_pid);
void ea_stack_ahead_deinit(ea_stack_ahead *a);

#endif
