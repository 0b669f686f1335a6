/* What there was before a session began and it does not tell itself: a short-lived second session of the kernel, whose
 * rundown goes into the first one's stream.
 *
 * A system session tells at its start which processes, threads and images there are, as its flags say. The names of
 * open files Windows tells only when a session stops, those of registry keys at both ends. So where a configuration's
 * "rundown" wants what its own flags do not bring, a session NAME-rundown is started with those flags, stopped as soon
 * as it is seen to run, and of what it logged the rundown alone is put into a ring of its own.
 *
 * It takes one of the eight places for system sessions, for some hundred milliseconds; what goes wrong is told, counted
 * and done without. Before it: live.c. After it: the source's thread, which takes from the ring. Thread: the keeper's,
 * but for Windows' callback, which is a thread of its own. */
#ifndef EA_ETW_RUNDOWN_H
#define EA_ETW_RUNDOWN_H

#include "service/etw/session.h"
#include "service/source/ring.h"

/* Of its ring: what waits for the source. */
enum { EA_RUNDOWN_RING_BYTES = 4 << 20 };

typedef struct ea_rundown ea_rundown;

typedef struct ea_rundown_options {
    const ea_session_config *session; /* borrowed: whose rundown it is */
    int clock;                        /* enum ea_session_clock, as that session has it */
    ea_ring *ring;                    /* borrowed; it waits for room in it, as far as its time allows */
    ea_counters *counters;            /* borrowed; source_rundown* are counted */
    ea_session_note note;
    void *note_arg;
} ea_rundown_options;

/* Whether the configuration wants something that its own session does not tell. */
int ea_rundown_is_wanted(const ea_session_config *session);
/* Starts it. *ret NULL: it could not be had, which is told and counted. */
void ea_rundown_begin(ea_rundown **ret, const ea_rundown_options *options);
/* Goes on with it: to be called every now and then. 1: it is over, and nothing more is put into the ring. */
int ea_rundown_look(ea_rundown *r);
/* Ends it, wherever it is, and returns how many records were for the ring, those that it dropped included. */
uint64_t ea_rundown_end(ea_rundown *r);

#endif
