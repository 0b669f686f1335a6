/* How many of a session's call stacks find their events, and why the others do not: what the join of proto/stack says
 * becomes the ledger's counters stacks_... . Records go on as they are, and no address is kept. Input: decoder.h. Used
 * by: service/core/pipeline.c. Thread: the source's. */
#ifndef EA_DECODE_STACK_METER_H
#define EA_DECODE_STACK_METER_H

#include "proto/base/counters.h"
#include "proto/event/event.h"
#include "proto/stack/stack_join.h"

typedef struct ea_stack_meter ea_stack_meter;

EA_MUST_CHECK int ea_stack_meter_create(ea_stack_meter **ret, ea_err *err);
void ea_stack_meter_destroy(ea_stack_meter *m); /* NULL is allowed */
/* A record, in the order of its session. The first one that brings a stack begins the join, which has a window of
 * 32,768 events (2 MiB) and begins with the 256 events before it: the first stack's own event is among them. Halves of
 * earlier events are too late. EA_ENOMEM. */
EA_MUST_CHECK int ea_stack_meter_add(ea_stack_meter *m, const ea_record *r, const ea_class *c);
/* No record comes any more: halves that wait for their events are counted. */
void ea_stack_meter_end(ea_stack_meter *m);
/* Halves that were counted since the last call, by outcome. */
void ea_stack_meter_take(ea_stack_meter *m, uint64_t ret[EA_STACK_OUTCOME_COUNT]);
/* What an outcome is counted as. */
enum ea_counter ea_stack_meter_counter(enum ea_stack_outcome o);

#endif
