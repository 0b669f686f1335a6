/* A live source: one ETW session of ours, kept alive while it is open, and the events that Windows delivers.
 *
 *     ProcessTrace's thread: callback ──ring.h──▶ ea_source_next, the source's thread
 *     keeper's thread: looks after the session (gone, stolen, losing events), flushes it, starts it again
 *
 * Before it: Windows, config/sessions.h. After it: service/core/ingest_session.h. Thread: as source.h says. On other
 * systems than Windows opening fails with EA_EUNSUPPORTED. */
#ifndef EA_ETW_LIVE_H
#define EA_ETW_LIVE_H

#include "config/sessions.h"
#include "service/source/source.h"

typedef struct ea_live_options {
    const ea_session_config *session; /* borrowed until it is closed */
    ea_counters *counters;            /* borrowed; source_* and sessions_* are counted here */
    int64_t look_ns;                  /* how often the keeper looks; 0: 250 ms */
    /* Told, in a line for a person, what happened to the session. Any thread. */
    void (*on_note)(void *arg, const char *text);
    void *on_note_arg;
} ea_live_options;

/* Starts the session and its threads. EA_EREFUSED: no right to; EA_EFULL: Windows has no room for another session;
 * EA_EEXIST: its name is taken and cannot be had. */
EA_MUST_CHECK int ea_live_open(ea_source **ret, const ea_live_options *options, ea_err *err);

/* 1 where there are ETW sessions: on Windows. */
int ea_live_is_possible(void);

/* What Windows made of the session, and how it goes. */
typedef struct ea_live_status {
    char name[256];        /* in Windows */
    char file[1024];       /* that Windows writes; empty: none, or not asked. What is longer is cut */
    int runs;              /* 0: it ended, and is started again soon */
    uint32_t logger;       /* its number now */
    uint64_t buffer_bytes; /* as applied */
    uint32_t min_buffers, max_buffers, buffers, free_buffers;
    uint32_t mode, flush_seconds;
    uint32_t clock;    /* EA_CLOCK_*: performance counter, system time, processor cycles */
    uint32_t file_mib; /* how large its file may become; 0: there is none, or no bound */
    uint32_t masks[8]; /* of the kernel's flags, in a list of what Windows has; 0: none, or it does not say */
    /* since it was opened, over all restarts; what was lost of second sessions, too */
    uint64_t written_buffers, lost_events, lost_buffers;
    uint64_t starts, steals;            /* times that it was started, and ended by others */
    uint64_t grown;                     /* times that max_buffers was raised */
    uint64_t delivered;                 /* events that the callback got, those of rundowns too */
    uint64_t rundowns, rundown_records; /* second sessions for what was there before, and what they told */
    size_t ring_used_bytes;
} ea_live_status;

void ea_live_get_status(const ea_source *s, ea_live_status *ret); /* any thread */

/* The name that a session has in Windows: "etwagent-NAME", or the NT Kernel Logger's. */
#define EA_LIVE_PREFIX "etwagent-"

#endif
