/* A store that lasts as long as one command: in a folder of its own below $TMPDIR (else /tmp), which others cannot
 * read, and which is removed when the command has ended, however it ended. Called by: the commands that read trace
 * files. Calls: trace_ingest.h. Thread: the main one, before others begin.
 */
#ifndef EC_TRACES_TRACE_STORE_H
#define EC_TRACES_TRACE_STORE_H

#include "collector/traces/trace_ingest.h"

enum { EC_TRACE_STORE_BYTES = 1024 };

/* Makes the folder. */
EA_MUST_CHECK int ec_trace_store_make(char ret[EC_TRACE_STORE_BYTES], ea_err *err);
/* Removes it with all that is in it; errors go to standard error. */
void ec_trace_store_remove(const char *dir);
/* Runs fn in a process of its own and waits for it: *ret_code is what fn returns, or 128 and the signal that ended it.
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process end that one. */
EA_MUST_CHECK int ec_trace_store_apart(int (*fn)(void *arg), void *arg, int *ret_code, ea_err *err);

#endif
