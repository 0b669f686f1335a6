/* Stacks and the events that they belong to: a streaming join in a window that memory bounds. Input: stacks.h; records
 * in the order of a stream (stack_feed.h), or columns. Used by: profiles. Thread: its owner's.
 *
 * Rules (tests/judges/naive_stacks.py has the same in Python over a whole trace at once, as a judge):
 * - A StackWalk event names its event's raw time and thread. Of the events of that time, those that have such a half
 *   already are out; of the others the best is taken: those of the same thread before those that name no thread
 *   (0xFFFFFFFF; a walk without a thread takes any), then those of the same CPU before others. Of several best ones it
 * is the first, and the join counts as ambiguous.
 *   ImageID events, which merging adds at the times of Image events, have no stacks.
 * - An extended item with a stack belongs to its own event. When it has a match id, the user's half is a later
 *   Kernel-EventTracing 18 with that id.
 * - A CLR stack (ClrStack/Walk) belongs to the last event before it of its provider and thread, once.
 * - A walk that came before its event waits for it in the window as well.
 * - The first addresses of a walk that are the kernel's are the kernel's half, the rest is the user's. */
#ifndef EA_STACK_STACK_JOIN_H
#define EA_STACK_STACK_JOIN_H

#include "proto/stack/stacks.h"

/* What became of walks: name, a sentence. A half is joined, or counted under one cause. */
#define EA_STACK_OUTCOMES(X)                                                                                           \
    X(in_event, "it came inside its event")                                                                            \
    X(joined, "one event was the best")                                                                                \
    X(ambiguous, "several events were equally good; the first one has it")                                             \
    X(no_event, "there is no event of its time: it was lost, or is not recorded")                                      \
    X(too_late, "its event, if there was one, has left the window")                                                    \
    X(other_thread, "the events of its time are of other threads")                                                     \
    X(taken, "the events that it fits have such a half already")                                                       \
    X(no_match_id, "no event that is known waits for its match id")                                                    \
    X(no_clr_event, "no event of the runtime on its thread is in the window that has none yet")                        \
    X(too_short, "the record holds no whole walk")                                                                     \
    X(no_room, "the table of stacks is full")

enum ea_stack_outcome {

#define X(name, text) EA_STACK_##name,
    EA_STACK_OUTCOMES(X)
#undef X
        EA_STACK_OUTCOME_COUNT
};
const char *ea_stack_outcome_name(enum ea_stack_outcome o);
const char *ea_stack_outcome_text(enum ea_stack_outcome o);

enum { EA_STACK_ANY_THREAD = -1 }; /* as uint32_t */

/* What is known to be missing from an event's stack: bits. */
enum {
    EA_STACK_LACKS_ANSWER = 1, /* it named a match id, and no user half had come by then */
    EA_STACK_LACKS_ROOM = 2,   /* a half of it came, and the table of stacks was full */
};

typedef struct ea_stack_joined {
    uint64_t tag;                     /* as it was given */
    int64_t time;                     /* raw */
    uint32_t tid;                     /* as it was given */
    uint32_t pid;                     /* as the last StackWalk event says; 0xFFFFFFFF: none came */
    uint32_t half[EA_STACK_HALVES];   /* numbers; 0: none */
    uint8_t outcome[EA_STACK_HALVES]; /* in_event, joined or ambiguous, of the halves that are there */
    uint8_t lacks;                    /* EA_STACK_LACKS_... */
} ea_stack_joined;

/* An event leaves the window: it will get no further half. In the order in which events came. Not 0: ends the call. */
typedef int (*ea_stack_joined_fn)(void *arg, const ea_stack_joined *event);
/* The answer to a match id came when its event had left the window; tag: the event's. */
typedef void (*ea_stack_late_fn)(void *arg, uint64_t tag);

/* The record that brings halves. */
typedef struct ea_stack_origin {
    uint64_t tag;
    int64_t time; /* raw: the record's own; of a half that names its event's time, that one */
    uint32_t pid, tid;
} ea_stack_origin;

/* A half that joined no event: every one that is counted under an outcome other than in_event, joined and ambiguous. */
typedef struct ea_stack_missed {
    ea_stack_origin from;
    enum ea_stack_half half; /* EA_STACK_HALVES: the record could not be read */
    enum ea_stack_outcome outcome;
} ea_stack_missed;

typedef void (*ea_stack_missed_fn)(void *arg, const ea_stack_missed *missed);

/* At most 256 entries are looked at for a walk: those of its time, and others whose times hash alike. */
typedef struct ea_stack_join_options {
    size_t limit_bytes; /* of the window; 0: 128 MiB, some 2 million events. Never below 512 events */
    int has_begin;      /* the join began in mid-stream: walks of events before begin are too late */
    int64_t begin;      /* raw */
    ea_stack_joined_fn on_event;
    ea_stack_late_fn on_late;     /* may be NULL */
    ea_stack_missed_fn on_missed; /* may be NULL */
    void *arg;
} ea_stack_join_options;

typedef struct ea_stack_join ea_stack_join;

/* stacks: borrowed; NULL: only the outcomes matter (stacks.h). */
EA_MUST_CHECK int ea_stack_join_create(ea_stack_join **ret, ea_stacks *stacks, const ea_stack_join_options *options,
                                       ea_err *err);
void ea_stack_join_destroy(ea_stack_join *j); /* NULL is allowed */
ea_stacks *ea_stack_join_stacks(ea_stack_join *j);

/* An event that a stack may belong to. Returns 0 or what on_event returned. */
EA_MUST_CHECK int ea_stack_join_event(ea_stack_join *j, int64_t time, uint32_t tid, uint16_t cpu, uint64_t tag);
/* What brings the halves that are given from now on: for on_missed alone, and needed only with it. */
void ea_stack_join_from(ea_stack_join *j, const ea_stack_origin *from);
/* A half that came inside the event that was given last. match_id 0: none. */
void ea_stack_join_inside(ea_stack_join *j, enum ea_stack_half half, uint32_t number, uint64_t match_id);
/* The event given last is one that a CLR stack may follow; thread: of its provider, process and thread. */
void ea_stack_join_clr_event(ea_stack_join *j, uint64_t thread);

/* A half by time and thread, by match id, by a CLR thread. Returns 0 or what on_event returned. */
EA_MUST_CHECK int ea_stack_join_walk(ea_stack_join *j, int64_t time, uint32_t pid, uint32_t tid, uint16_t cpu,
                                     enum ea_stack_half half, uint32_t number);
/* Both halves of one walk, as if the kernel's had been given before the user's. */
EA_MUST_CHECK int ea_stack_join_walks(ea_stack_join *j, int64_t time, uint32_t pid, uint32_t tid, uint16_t cpu,
                                      const uint32_t numbers[EA_STACK_HALVES]);
void ea_stack_join_match(ea_stack_join *j, uint64_t match_id, uint32_t number);
void ea_stack_join_clr_walk(ea_stack_join *j, uint64_t thread, uint32_t number);
/* A walk that could not be read. */
void ea_stack_join_unusable(ea_stack_join *j);

/* Events whose time is before this one (raw) get no further half: they leave the window, up to the first entry that is
 * not older. Returns 0 or what on_event returned. */
EA_MUST_CHECK int ea_stack_join_settle(ea_stack_join *j, int64_t before);
/* The stream ends: all that is in the window leaves it. */
EA_MUST_CHECK int ea_stack_join_end(ea_stack_join *j);

/* Halves by outcome: EA_STACK_OUTCOME_COUNT numbers. Those that wait in the window are in none until it ends. */
const uint64_t *ea_stack_join_counts(const ea_stack_join *j);
/* Events that named a match id of which no half has come so far. An id is remembered after its event has left the
 * window. The limit of remembered ids is the number of events for which the window has room. At the limit the oldest id
 * is dropped, and an answer to it counts as no_match_id. */
uint64_t ea_stack_join_unanswered(const ea_stack_join *j);

#endif
