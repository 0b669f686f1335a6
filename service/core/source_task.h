/* A source (files, or channels of the event log) or a session that the configuration names, on a thread of its own. An
 * attempt opens it and carries its records into the spool; an attempt that fails is repeated after a pause, until the
 * task is stopped.
 *
 *                     opened                      end of the source
 *     WAITING ──────────────────────▶ READING ───────────────────────▶ READ
 *        ▲  ◀───────────────────────────┘                               │ its thread has ended; its ledger goes on
 *     pause     failed                                                  ▼ until ea_source_task_stop
 *
 * A request to stop ends the thread in any state. What a stopped task has in the spool stays there.
 * Called by: agent.c. Calls: ingest_session.h, the readers of files and sessions. Thread: the main one, unless a
 * function says otherwise. */
#ifndef EA_CORE_SOURCE_TASK_H
#define EA_CORE_SOURCE_TASK_H

#include "proto/base/platform.h"
#include "service/core/config_snapshot.h"
#include "service/core/damage_log.h"
#include "service/core/ingest_session.h"
#include "service/core/sender_events.h"
#include "service/core/sticky_error.h"
#include "service/etw/tdh_schemas.h"

enum ea_source_state { EA_SOURCE_WAITING, EA_SOURCE_READING, EA_SOURCE_READ };

struct ea_source_task;

/* All tasks of an agent, with what they share. */
typedef struct ea_source_tasks {
    ea_mutex *lock; /* the list, the tasks' feeds and errors; held for moments */
    ea_cond *wake;  /* tasks that wait for their next attempt */
    ea_wake *owner; /* set when a task has read its source or has ended; NULL: none */
    struct ea_source_task *first;
    ea_spool *spool;                  /* borrowed; set before a task starts */
    ea_remote *remote;                /* likewise; NULL: nothing may be asked of the agent */
    int64_t retry_ns;                 /* the pause after an attempt that failed */
    uint8_t run[EA_STREAM_RUN_BYTES]; /* how the streams of this run's sessions begin */
    atomic_uint streams;              /* of sessions, so far */
} ea_source_tasks;

typedef struct ea_source_task {
    struct ea_source_task *next;
    ea_source_tasks *tasks;
    ea_config_snapshot *snapshot;
    ea_config_snapshot *labelled; /* whose labels it has: that one, or a later one that left it untouched; lock */
    const char *name;             /* the snapshot's, as are the next two, of which one is NULL */
    const ea_file_source_config *c;
    const ea_session_config *session;
    ea_thread *thread;
    atomic_int stop;
    atomic_int over; /* its thread is at its end */

    /* lock */
    ea_ingest_session *feed;
    ea_schemas *schemas; /* of the feed; its thread, and the thread that closes it */
    enum ea_source_state state;
    ea_sticky_error error;
    ea_counters *counters; /* of the feed */
    ea_source *live;       /* the feed's, of an ETW session */
    ea_spool *recorder;    /* the feed's; NULL: it has none */
    ea_tdh *tdh; /* of a session; its feed's resolver, and the thread that closes that; NULL: Windows has none */
    ea_schema_lookup ask; /* of it */

    ea_damage_log damage;    /* its thread */
    uint64_t starts_refused; /* of a session, since its ledger has them; its thread */
    int is_retired;          /* a boot session's file: it was shipped, and has another name; the main thread */
} ea_source_task;

EA_MUST_CHECK int ea_source_tasks_init(ea_source_tasks *tasks, int64_t retry_ns, ea_err *err);
/* Stops those that are left. All zero, or after a failed init: allowed. */
void ea_source_tasks_deinit(ea_source_tasks *tasks);

/* Starts a source or a session of the snapshot; the other one is NULL. */
EA_MUST_CHECK int ea_source_task_start(ea_source_tasks *tasks, ea_config_snapshot *snapshot,
                                       const ea_file_source_config *source, const ea_session_config *session,
                                       ea_err *err);
/* Asks its thread to end; does not wait; may be repeated. */
void ea_source_task_request_stop(ea_source_task *t);
/* Ends its thread. What it has in the spool is still its own. */
void ea_source_task_join(ea_source_task *t);
/* Ends it, takes it out of the list and frees it. */
void ea_source_task_stop(ea_source_task *t);

int ea_source_tasks_have(const ea_source_tasks *tasks, const char *name, int is_session);
/* Makes the closing batch of each stream whose source is at its end and whose events are all acknowledged; at_once: of
 * each session's stream without waiting for that, since no later run continues it. Returns how many streams still wait
 * for theirs. */
size_t ea_source_tasks_end_streams(ea_source_tasks *tasks, int at_once);
/* A task that goes on with a new configuration has that one's labels from its next batch on. */
void ea_source_task_relabel(ea_source_task *t, ea_config_snapshot *snapshot);
/* 1: its end was read, and all of it is in batches that the spool holds or a collector has. A task that was asked to
 * end may have stopped before that. */
int ea_source_task_is_in_spool(const ea_source_task *t);
/* For ea_sender_events.each_pipeline; Any thread. */
void ea_source_tasks_each_pipeline(void *source_tasks, ea_pipeline_visit visit, void *visit_arg);

#endif
