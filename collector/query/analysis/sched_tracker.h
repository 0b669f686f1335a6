/* Tracks the states of threads between context switches: running, ready, waiting. One tracker is for one machine; it is
 * fed with CSwitch and ReadyThread events, in their order.
 * Called by: stack_query.c, activity_events.c. Calls: event_roles.h. Thread: its owner's.
 *
 * A thread that is switched out waits when its state is 5, has ended when its state is 4, and is ready otherwise (1
 * ready, 3 standby, 7 deferred ready, 2 running: preempted). A ReadyThread event ends a wait: from then on the thread
 * is ready. A thread that is switched in after a wait without such an event is ready from that moment. The state of a
 * thread before its first event is unknown and counts as nothing. */
#ifndef EC_QUERY_ANALYSIS_SCHED_TRACKER_H
#define EC_QUERY_ANALYSIS_SCHED_TRACKER_H

#include "collector/query/analysis/event_roles.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum ec_sched_state { EC_SCHED_UNKNOWN, EC_SCHED_RUNNING, EC_SCHED_READY, EC_SCHED_WAITING };

/* A time that one thread was in one state, in the unit that was fed. */
typedef struct ec_sched_slice {
    uint32_t tid;
    uint8_t state;  /* EC_SCHED_RUNNING, _READY, _WAITING */
    uint8_t reason; /* of a wait: OldThreadWaitReason */
    uint16_t cpu;   /* of a run */
    int64_t begin, end;
    uint32_t waker; /* of a wait: the thread that ended it; UINT32_MAX unknown */
} ec_sched_slice;

typedef struct ec_sched ec_sched;

/* limit_threads: 0: 1,048,576; those beyond are not followed. */
EA_MUST_CHECK int ec_sched_create(ec_sched **ret, size_t limit_threads, ea_err *err);
void ec_sched_destroy(ec_sched *s); /* NULL is allowed */

/* Each gives the slices that end with it: their number, in ret (room for 3). */
size_t ec_sched_switch(ec_sched *s, int64_t time, uint16_t cpu, uint32_t old_tid, uint8_t old_state, uint8_t old_reason,
                       uint32_t new_tid, ec_sched_slice ret[3]);
size_t ec_sched_ready(ec_sched *s, int64_t time, uint32_t tid, uint32_t waker, ec_sched_slice ret[3]);
/* The same of a stored event of EC_ROLE_SWITCH or EC_ROLE_READY; 0 when it lacks a field. The waker of a wake by an
 * interrupt or a DPC is the interrupted thread. */
size_t ec_sched_event(ec_sched *s, const ec_event_cursor *t, const ec_event_cursor_event *e, enum ec_role role,
                      ec_sched_slice ret[3]);
/* The thread that runs on a CPU as far as its last switch says; UINT32_MAX unknown. */
uint32_t ec_sched_running(const ec_sched *s, uint16_t cpu);
/* A thread begins: what is known under its number belongs to another thread. 1 and *ret, the last state of that other
 * thread, without a recorded end (`end` is INT64_MAX); else 0. */
int ec_sched_begin(ec_sched *s, uint32_t tid, ec_sched_slice *ret);
/* A thread ends. While it runs, its last switch ends that; else 1 and *ret as above, or 0. */
int ec_sched_end(ec_sched *s, uint32_t tid, ec_sched_slice *ret);
/* The same of a stored event of EC_ROLE_THREAD_BEGIN or EC_ROLE_THREAD_END. */
int ec_sched_life_event(ec_sched *s, const ec_event_cursor *t, const ec_event_cursor_event *e, enum ec_role role,
                        ec_sched_slice *ret);
/* 1 when there was no memory to follow a thread or a CPU: the returned slices are incomplete. */
int ec_sched_is_short(const ec_sched *s);
/* The slices that continue, in no order: start with *cursor = 0; 1 and a slice whose end is INT64_MAX, 0 after the
 * last. No event may be added meanwhile. */
int ec_sched_next_open(const ec_sched *s, size_t *cursor, ec_sched_slice *ret);
/* Events were lost: the state of all threads is unknown until their next event. */
void ec_sched_lost(ec_sched *s);

#endif
