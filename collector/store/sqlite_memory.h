/* How much memory SQLite may take for one thread. SQLite's own limit is of the process: it would end a thread that
 * stores for what another one, which evaluates an agent's events, has taken. Called by: collector/detect, cmd_run.c.
 * Thread: any; each has its own limit. */
#ifndef EC_STORE_SQLITE_MEMORY_H
#define EC_STORE_SQLITE_MEMORY_H

#include "proto/base/err.h"

#include <stdint.h>

/* Puts the limits in place, once a process, before anything of SQLite is used. Errors: EA_EBUSY when SQLite is in use
 * already. */
EA_MUST_CHECK int ec_sqlite_memory_start(ea_err *err);
/* From now on the calling thread takes at most limit_bytes (0: no limit) beside what it has. Beyond it SQLite ends a
 * statement with SQLITE_NOMEM. What the thread frees counts for it, whichever thread took it. */
void ec_sqlite_memory_limit(uint64_t limit_bytes);
/* Whether something was refused to the calling thread since the last call. */
int ec_sqlite_memory_refused(void);

#endif
