/* What a process that answers questions may still do: read one store. Called by: worker.c and collector/web's profile
 * worker, in the child. Calls: sandbox.h. Thread: the process has one. */
#ifndef EC_QUERY_SQL_CONFINE_H
#define EC_QUERY_SQL_CONFINE_H

#include "collector/sandbox/sandbox.h"
#include "proto/base/err.h"

#include <stdint.h>

/* Enters a sandbox in which the segments and databases of the store in folder dir can be read and nothing else can be
 * reached: no other file (tokens, keys and the audit log of the store neither), no network, no other process, no
 * program. What can be written are the memory files (-shm) that readers of a SQLite log share; those are
 * made before, if need be, and stay as long as this process runs; and SQLite's temporary files (temp_files.h), which
 * take at most limit_temp_bytes: in the folder temp of the store when this user may write there, else in /var/tmp or
 * /tmp. Errors: as ec_sandbox_enter, EA_ENOMEM. */
EA_MUST_CHECK int ec_query_confine(const char *dir, uint64_t limit_temp_bytes, ea_err *err);
/* The same, and what `more` lists and allows beside the store; NULL: nothing. */
EA_MUST_CHECK int ec_query_confine_with(const char *dir, uint64_t limit_temp_bytes, const ec_sandbox *more,
                                        ea_err *err);

#endif
