/* What Ctrl-C, SIGTERM or their like do to a command: they set a flag, which the command looks at.
 * Called by: the commands of agent and collector. Calls: ea_on_stop. Thread: the main one; flags may be read by any. */
#ifndef EA_BASE_STOP_FLAG_H
#define EA_BASE_STOP_FLAG_H

#include "proto/base/platform.h"

#include <stdatomic.h>

/* A flag that is 0 until the process is asked to stop. From the first call on the process does not end by itself. */
atomic_int *ea_stop_flag(void);
/* The same with a flag of the caller, of static storage, in place of that one. wake: set with the flag; NULL: none. */
void ea_stop_flag_use(atomic_int *flag, ea_wake *wake);

#endif
