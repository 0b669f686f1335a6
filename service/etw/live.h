/* A live source: one ETW session that this program starts and keeps running while the source is open, and the events
 * that Windows delivers.
 *
 *     ProcessTrace's thread: callback ──ring.h──▶ ea_source_next, the source's thread
 *     the supervisor's thread: queries the session, counts its losses, flushes it, restarts it
 *
 * States of the session, as its supervisor sees them:
 *
 *                ea_live_open                  started or adopted
 *     STOPPED -----------------> STARTING -----------------------------> RUNNING
 *        ^                       |   | ^                                  |   |
 *        | the first start       |   | | the pause is over                |   | the session is gone:
 *        | failed: ea_live_open  |   | |                                  |   v another program ended it
 *        +- returns the error ---+   | |                                  |  ENDED
 *                 a restart failed   | |                                  |   |
 *                                    v |   its last events are delivered  |   |
 *                             WAITING TO RESTART <------------------------|---+
 *                                    |                                    |
 *                                    | stop requested                     | stop requested
 *                                    +------------> STOPPING <------------+
 *                                                      |
 *                                                      | the last events are delivered
 *                                                      v
 *                                                     OVER
 *
 *     STARTING: starts the session, or adopts an existing one of its name. Then opens it and starts ProcessTrace's
 *         thread, unless Windows only writes a file. A failed restart is counted in `source_starts_refused`, and logged
 *         if its error differs from the last one.
 *     RUNNING: every `look_ns` the supervisor queries the session, counts lost events and buffers, raises the number of
 *         buffers after a loss (up to the configuration's max_buffers) and checks the system's clock.
 *     ENDED: ProcessTrace returned, or Windows no longer has the session. Counted in `source_session_ends` and in the
 *         status (`steals`). ProcessTrace has 10 s for its last events; then the status has `runs` 0.
 *     WAITING TO RESTART: the pause is 0 at first, then 100 ms, then twice the last one, 30 s at the most. It starts
 *         at 0 again when the session had run for 30 s.
 *     STOPPING: ea_source_stop only sets a flag; the supervisor reads it after `look_ns` or the flush interval. Then it
 *         stops the session. ProcessTrace has 10 s for its last events.
 *     OVER: ea_source_next returns the records that are still in the ring, then 0.
 *
 * Called by: service/core/ingest_session.h. Calls: Windows. Configured by: config/sessions.h. Thread: as source.h says.
 * On systems other than Windows opening fails with EA_EUNSUPPORTED. */
#ifndef EA_ETW_LIVE_H
#define EA_ETW_LIVE_H

#include "config/sessions.h"
#include "service/source/source.h"

typedef struct ea_live_options {
    const ea_session_config *session; /* borrowed until it is closed */
    ea_counters *counters;            /* borrowed; source_* and sessions_* are counted here */
    int64_t look_ns;                  /* the supervisor's interval; 0: 250 ms */
    /* Called with a line for a person when the session's state changes. Any thread. */
    void (*on_note)(void *arg, const char *text);
    void *on_note_arg;
} ea_live_options;

/* Starts the session and its threads. EA_EREFUSED: access denied; EA_EFULL: Windows has no room for another session;
 * EA_EEXIST: its name is in use and cannot be taken over. */
EA_MUST_CHECK int ea_live_open(ea_source **ret, const ea_live_options *options, ea_err *err);

/* 1 where there are ETW sessions: on Windows. */
int ea_live_is_possible(void);

/* The session's properties as Windows applied them, and its state. */
typedef struct ea_live_status {
    char name[256];        /* in Windows */
    char file[1024];       /* that Windows writes; empty: none, or not asked; cut to this size */
    int runs;              /* 0: it ended, and will be restarted */
    uint32_t logger;       /* its number now */
    uint64_t buffer_bytes; /* as applied */
    uint32_t min_buffers, max_buffers, buffers, free_buffers;
    uint32_t mode, flush_seconds;
    uint32_t clock;    /* EA_CLOCK_*: performance counter, system time, processor cycles */
    uint32_t file_mib; /* limit of its file; 0: no file, or no limit */
    uint32_t masks[8]; /* of the kernel's flags, only in a list of Windows' sessions; 0: none, or unknown */
    /* since it was opened, over all restarts; losses include those of second sessions */
    uint64_t written_buffers, lost_events, lost_buffers;
    uint64_t starts, steals;            /* times that it was started, and ended by other programs */
    uint64_t grown;                     /* times that max_buffers was raised */
    uint64_t delivered;                 /* events that the callback received, those of rundowns included */
    uint64_t rundowns, rundown_records; /* second sessions for existing objects, and their records */
    size_t ring_used_bytes;
} ea_live_status;

void ea_live_get_status(const ea_source *s, ea_live_status *ret); /* any thread */

/* The name that a session has in Windows: "etwagent-NAME", or the NT Kernel Logger's. */
#define EA_LIVE_PREFIX "etwagent-"

#endif
