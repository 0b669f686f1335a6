/* Time that threads were ready, or waited, in a range: counted where the thread continues. Called by: stack_query.c.
 * Calls: sched_tracker.h. Thread: its owner's.
 *
 * The time of a wait ends when the thread becomes ready, and counts when the thread is switched in. A time without a
 * recorded end is counted as unfinished: at lost events, at the thread's end, at the stream's end. The time of a thread
 * that was made ready and was not switched in is unfinished, too: no stack says where it waited. */
#ifndef EC_QUERY_ANALYSIS_THREAD_TIME_H
#define EC_QUERY_ANALYSIS_THREAD_TIME_H

#include "collector/query/analysis/sched_tracker.h"
#include "proto/base/map.h"

/* Why no switch ended a time. */
enum ec_open_cause { EC_OPEN_AT_END, EC_OPEN_AT_LOSS, EC_OPEN_AT_THREAD_END, EC_OPEN_CAUSES };

/* A time without a recorded end. */
typedef struct ec_thread_open {
    uint32_t tid;
    int64_t begin_utc_ns;
    uint64_t ns;   /* of it in the range */
    unsigned kind; /* ec_thread_open_name */
} ec_thread_open;

typedef struct ec_thread_time {
    ec_sched *sched;
    enum ec_sched_state state; /* EC_SCHED_READY or EC_SCHED_WAITING: what counts */
    ea_u64_map waited_ns;      /* by thread: how long it waited until it was ready; it has not continued */
    ea_clock clock;
    int64_t raw_from, raw_to;                              /* the range in its ticks */
    int (*wants)(void *arg, uint32_t tid, int64_t utc_ns); /* whether unfinished time of a thread counts */
    void (*on_open)(void *arg, const ec_thread_open *o);   /* each that counts; NULL: none is reported */
    void *arg;
    uint64_t unfinished, unfinished_ns;
} ec_thread_time;

EA_MUST_CHECK int ec_thread_time_init(ec_thread_time *t, enum ec_sched_state state,
                                      int (*wants)(void *arg, uint32_t tid, int64_t utc_ns), void *arg, ea_err *err);
void ec_thread_time_deinit(ec_thread_time *t); /* a zeroed one, too */
/* Another clock is in force. */
void ec_thread_time_range(ec_thread_time *t, const ea_clock *clock, int64_t raw_from, int64_t raw_to);
/* EC_ROLE_SWITCH: the time that counts for the thread that is switched in. */
uint64_t ec_thread_time_switch(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e);
/* EC_ROLE_READY. */
void ec_thread_time_ready(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e);
/* EC_ROLE_THREAD_BEGIN, EC_ROLE_THREAD_END. */
void ec_thread_time_life(ec_thread_time *t, const ec_event_cursor *cursor, const ec_event_cursor_event *e,
                         enum ec_role role);
/* From raw_now on the state of all threads is unknown: events were lost, or none follows. */
void ec_thread_time_lost(ec_thread_time *t, int64_t raw_now, enum ec_open_cause cause);

/* The name of a time without a recorded end, for people. kind: from 1 to EC_THREAD_OPEN_KINDS. */
enum { EC_THREAD_OPEN_KINDS = 9 };

const char *ec_thread_open_name(unsigned kind);
/* Whether a thread is in the state, for some time in the range. */
int ec_thread_time_is_open(const ec_thread_time *t, int64_t raw_now);
/* There was no memory to follow a thread. */
int ec_thread_time_is_short(const ec_thread_time *t);

#endif
