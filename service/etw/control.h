/* ETW sessions of any program, by their names in Windows, and the hardware counters of the machine. These functions do
 * not supervise a session: a started session runs until it is stopped or Windows ends.
 *
 * Called by: service/app/cmd_session.c, cmd_sessions.c. Configured by: config/sessions.h. Calls: Windows. Thread: any.
 * On systems other than Windows every function returns EA_EUNSUPPORTED.
 * Errors of all: EA_ENOTFOUND (no session of this name runs), EA_EREFUSED (Windows denies access). */
#ifndef EA_ETW_CONTROL_H
#define EA_ETW_CONTROL_H

#include "proto/base/bytes.h"
#include "service/etw/live.h"

/* A line of at most 511 bytes for a person: what Windows refused, or applied otherwise. */
typedef void (*ea_control_note)(void *arg, const char *text);

/* Lists the sessions that run: all, or those of the prefix EA_LIVE_PREFIX and the NT Kernel Logger, which may be
 * the agent's. fn returns non-zero to stop. *ret_more: 1 when more run than Windows lists at a time (64). */
EA_MUST_CHECK int ea_control_list(int all, int (*fn)(const ea_live_status *session, void *arg), void *arg,
                                  int *ret_more, ea_err *err);

/* Starts a session as its configuration says, under the name "etwagent-NAME", and leaves it running. It needs a file
 * (output file): without a consumer real-time buffers fill up. EA_EEXIST: a session of this name runs. */
EA_MUST_CHECK int ea_control_start(const ea_session_config *c, ea_control_note note, void *arg, ea_live_status *ret,
                                   ea_err *err);
/* *ret: its numbers; after a stop, its last ones. */
EA_MUST_CHECK int ea_control_query(const char *name, ea_live_status *ret, ea_err *err);
EA_MUST_CHECK int ea_control_stop(const char *name, ea_live_status *ret, ea_err *err);
EA_MUST_CHECK int ea_control_flush(const char *name, ea_live_status *ret, ea_err *err);

/* Enables a provider in a session that runs, or changes with what it is enabled. EA_EREFUSED: it is not enabled, and
 * the note said why. */
EA_MUST_CHECK int ea_control_enable(const char *name, const ea_provider_config *p, ea_control_note note, void *arg,
                                    ea_err *err);
/* provider: a name, *NAME or a GUID. */
EA_MUST_CHECK int ea_control_disable(const char *name, const char *provider, ea_err *err);

/* A provider that a session enabled, as Windows has it. */
typedef struct ea_control_provider {
    ea_guid guid;
    uint8_t level;
    uint64_t any, all;   /* keywords */
    uint32_t properties; /* EVENT_ENABLE_PROPERTY_* */
} ea_control_provider;

/* fn returns non-zero to stop. */
EA_MUST_CHECK int ea_control_providers(const ea_live_status *session,
                                       int (*fn)(const ea_control_provider *provider, void *arg), void *arg,
                                       ea_err *err);

/* What the machine can count or sample by (TraceProfileSourceListInfo). */
typedef struct ea_control_counter {
    char name[128];
    uint32_t source;                /* its number */
    uint32_t least, most, interval; /* events a sample: bounds, and as it is set now; 0: Windows does not say */
} ea_control_counter;

/* *ret_at_once: how many sources are counted at a time; 0: Windows does not say. fn returns non-zero to stop. */
EA_MUST_CHECK int ea_control_counters(int (*fn)(const ea_control_counter *counter, void *arg), void *arg,
                                      uint32_t *ret_at_once, ea_err *err);

#endif
