/* Finds the classes that have to do with stacks, and the fields of their events that the join needs. The same plan
 * serves records (here) and stored columns (collector/query).
 * Input: a record and its class, in the order of a stream. Calls: stack_join.h. Thread: its owner's. */
#ifndef EA_STACK_STACK_FEED_H
#define EA_STACK_STACK_FEED_H

#include "proto/event/event.h"
#include "proto/stack/stack_join.h"

enum ea_stack_role {
    EA_STACK_IS_EVENT,      /* a stack may belong to it */
    EA_STACK_IS_WALK,       /* StackWalk/Stack */
    EA_STACK_IS_KEY_KERNEL, /* StackWalk/StackKeyKernel */
    EA_STACK_IS_KEY_USER,   /* StackWalk/StackKeyUser */
    EA_STACK_IS_DEFINITION, /* StackWalk/Key... */
    EA_STACK_IS_MATCH,      /* Kernel-EventTracing 18: its extended item belongs to an earlier event */
    EA_STACK_IS_CLR_WALK,
    EA_STACK_IS_NOTHING, /* no stack belongs to it: StackWalk events of unknown kinds, ImageID */
};

/* Indexes among the top-level fields; -1: there is none. */
typedef struct ea_stack_plan {
    uint8_t role;      /* enum ea_stack_role */
    uint8_t clr;       /* events of this provider may have a CLR stack: its number, from 1 */
    uint8_t opcode;    /* of a definition */
    int16_t time;      /* raw time of the event that a walk belongs to */
    int16_t pid, tid;  /* of a walk */
    int16_t thread;    /* an event's thread, where its header names none */
    int16_t key;       /* stack key */
    int16_t addresses; /* the walk itself */
} ea_stack_plan;

ea_stack_plan ea_stack_plan_of(const ea_class *c);

/* A walk of any kind that came as addresses, as its two halves' numbers. The kernel's half is the addresses of the
 * kernel at its begin, the user's half all that follow, though kernel addresses may be among them. Returns how many
 * addresses the kernel's half has. */
size_t ea_stack_halves(ea_stacks *stacks, const uint8_t *addresses, size_t count, unsigned pointer_size,
                       uint32_t ret_half[EA_STACK_HALVES]);
/* How many of a walk's addresses, the first ones, are its kernel half. */
size_t ea_stack_kernel_count(const uint8_t *addresses, size_t count, unsigned pointer_size);
/* What extended items say of the event that the join was given last (or of an earlier one: role EA_STACK_IS_MATCH). */
void ea_stack_feed_item(ea_stack_join *j, const ea_ext *item, enum ea_stack_role role);

typedef struct ea_stack_feed ea_stack_feed;
/* j: borrowed; NULL: ea_stack_feed_begin gives it, before the first record. */
EA_MUST_CHECK int ea_stack_feed_create(ea_stack_feed **ret, ea_stack_join *j, ea_err *err);
void ea_stack_feed_begin(ea_stack_feed *f, ea_stack_join *j);

/* What a record has to do with stacks: 0 nothing, so that a join need not have begun before it; EA_STACK_BRINGS_INSIDE:
 * it has one inside, or asks for one; EA_STACK_BRINGS_WALK: it is a walk, of an event before it. EA_ENOMEM. */
enum { EA_STACK_BRINGS_INSIDE = 1, EA_STACK_BRINGS_WALK = 2 };

EA_MUST_CHECK int ea_stack_feed_brings(ea_stack_feed *f, const ea_record *r, const ea_class *c);
/* 1 when a walk may name the record as its event: its thread. 0 otherwise. EA_ENOMEM. */
EA_MUST_CHECK int ea_stack_feed_thread(ea_stack_feed *f, const ea_record *r, const ea_class *c, uint32_t *ret_tid);
void ea_stack_feed_destroy(ea_stack_feed *f); /* NULL is allowed */
/* Hands a record to the join; tag: for what comes out of it. Returns 0, what the join's on_event returned, or
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_stack_feed_record(ea_stack_feed *f, const ea_record *r, const ea_class *c, uint64_t tag);

#endif
