/* What is wrong with one thing now, logged once for each change.
 * Called by: the agent's parts. Calls: agent_log.h. Thread: the caller's; one that is shared needs its owner's lock. */
#ifndef EA_CORE_STICKY_ERROR_H
#define EA_CORE_STICKY_ERROR_H

#include "proto/base/err.h"

typedef struct ea_sticky_error {
    char text[sizeof((ea_err){0}).message]; /* "": nothing */
} ea_sticky_error;

/* Keeps what is wrong now (rc 0: nothing) and logs it when that is another error than before. whose: the thing's name,
 * which the line begins with; "": none. */
void ea_sticky_error_set(ea_sticky_error *e, const char *whose, int rc, const ea_err *err);

#endif
