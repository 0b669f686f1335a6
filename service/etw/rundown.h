/* The state before a session began, as far as the session does not log it itself: a short-lived second kernel session,
 * whose rundown is added to the first session's stream.
 *
 * A system session logs at its start the existing processes, threads and images, as its flags say. Windows logs the
 * names of open files only when a session stops, and those of registry keys at both ends. If a configuration's
 * "rundown" needs more than its own flags log, a session NAME-rundown is started with the missing flags and stopped as
 * soon as it is seen to run. Of its events only the rundown is put into its own ring.
 *
 * It uses one of the eight system sessions of Windows, for some hundred milliseconds. A failure is logged and counted,
 * and the rundown is skipped. Called by: live.c; the source's thread, which takes from the ring. Thread: the
 * supervisor's, except Windows' callback, which has its own thread. */
#ifndef EA_ETW_RUNDOWN_H
#define EA_ETW_RUNDOWN_H

#include "service/etw/session.h"
#include "service/source/ring.h"

/* The capacity of its ring. */
enum { EA_RUNDOWN_RING_BYTES = 4 << 20 };

typedef struct ea_rundown ea_rundown;

typedef struct ea_rundown_options {
    const ea_session_config *session; /* borrowed: the first session */
    int clock;                        /* enum ea_session_clock, as that session has it */
    ea_ring *ring;                    /* borrowed; the callback waits for room in it until its deadline */
    ea_counters *counters;            /* borrowed; source_rundown* are counted */
    ea_session_note note;
    void *note_arg;
} ea_rundown_options;

/* 1 when the configuration needs a rundown that its own session does not log. */
int ea_rundown_is_wanted(const ea_session_config *session);
/* Starts it. *ret NULL: it could not be started, which is logged and counted. */
void ea_rundown_begin(ea_rundown **ret, const ea_rundown_options *options);
/* Continues it; called periodically. 1: it is over, and no more records are put into the ring. */
int ea_rundown_look(ea_rundown *r);
/* Ends it in any state, and returns the number of records for the ring, dropped ones included. */
uint64_t ea_rundown_end(ea_rundown *r);

#endif
