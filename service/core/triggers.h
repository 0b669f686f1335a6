/* Windows of a recorder that triggers send: when a program's trigger() fires, the recorder's batches from so long
 * before it to so long after it go through the spool to the collector, each once, whatever windows overlap.
 *
 *     fired --saved--> window waits for its end --batches chosen, saved--> planned --in the spool, saved--> sent
 *
 * All of it is in the file "triggers" of the recorder's folder, which is replaced as a whole at each arrow, so that a
 * killed process's windows are sent by the next one. Batches of one recording travel under a stream of their own, which
 * the file names, numbered from 1 in the order in which they were planned; that stream is a resumable one of the spool,
 * since its batches can be made again while the recorder has them. Those that the recorder lost, before or meanwhile,
 * are tombstones.
 *
 * A window that a collector asked for (remote.h) goes the same way. Its request is the remote's to keep: the file does
 * not have it, and the next process is given it again, of which nothing is sent twice.
 * Called by: ingest_session.c, remote.c. Calls: service/spool. Thread: as each function says; it has one of its own. */
#ifndef EA_CORE_TRIGGERS_H
#define EA_CORE_TRIGGERS_H

#include "proto/lang/lang.h"
#include "service/spool/spool.h"

typedef struct ea_triggers ea_triggers;

/* A window that was asked for. serial: of the request, not 0. limit_bytes: of what is sent for it, as the recorder's
 * files have it. */
typedef struct ea_triggers_request {
    uint64_t serial;
    int64_t from_utc_ns, to_utc_ns; /* [from, to) */
    uint64_t limit_bytes;
} ea_triggers_request;

/* What the recorder had of it: batches from the keyframe before it on, those that were sent earlier, too. */
typedef struct ea_triggers_outcome {
    uint64_t batches, events, bytes;
    uint64_t withheld_batches; /* not among these: the limit was reached */
} ea_triggers_outcome;

typedef struct ea_triggers_options {
    const char *name; /* of the session, in messages */
    ea_spool *spool, *recorder;
    ea_ledger *ledger; /* of the session */
    uint32_t priority; /* of the batches in the spool */
    int64_t slack_ns;  /* so long after its end a window's events are in the recorder */
    /* All that is to be sent of a request's window is in the spool. Its own thread, without locks. NULL: no requests.
     */
    void (*on_requested)(void *arg, const char *name, uint64_t serial, const ea_triggers_outcome *outcome);
    void *arg;
} ea_triggers_options;

/* 1 when an earlier process left windows or limits in the recorder. */
int ea_triggers_left(const ea_spool *recorder);
/* Reads what an earlier process left, and starts the thread. What is borrowed is so until ea_triggers_destroy. */
EA_MUST_CHECK int ea_triggers_create(ea_triggers **ret, const ea_triggers_options *options, ea_err *err);
/* Calls fn for each firing that limits may still count. Before the first ea_triggers_fire. */
void ea_triggers_each_fired(const ea_triggers *t,
                            void (*fn)(void *arg, const char *program, const char *trigger, int64_t utc_ns), void *arg);
/* A trigger fired at utc_ns; its window reaches to row_utc_ns at least, the time of its record. The source's thread. */
void ea_triggers_fire(ea_triggers *t, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                      int64_t row_utc_ns);
/* Its window is sent when it is complete; on_requested follows, unless the triggers are stopped before. Any thread.
 * EA_ELIMIT: too many windows wait; EA_ENOMEM. */
EA_MUST_CHECK int ea_triggers_ask(ea_triggers *t, const ea_triggers_request *request, ea_err *err);
/* The recorder gets no further events: sends all windows, and returns when they are in the spool, or after
 * ea_triggers_stop. The source's thread. */
void ea_triggers_finish(ea_triggers *t);
/* The thread ends soon; windows that remain wait for the next process. Any thread. */
void ea_triggers_stop(ea_triggers *t);
/* Stops it, and saves what fired since. After the last ea_triggers_fire. NULL is allowed. */
void ea_triggers_destroy(ea_triggers *t);

#endif
