/* What a process that answers questions may still do: read one store. Before it: worker.c and collector/web's profile
 * worker, in the child. After it: sandbox.h. Thread: the process has one. */
#ifndef EC_QUERY_CONFINE_H
#define EC_QUERY_CONFINE_H

#include "err.h"

/* Enters a sandbox in which the segments and databases of the store in folder dir can be read and nothing else can be
 * reached: no other file (tokens, keys and the audit log of the store neither), no network, no other process, no
 * program. The one thing that can be written are the memory files (-shm) that readers of a SQLite log share; those are
 * made before, if need be. Errors: as ec_sandbox_enter, EA_ENOMEM. */
EA_MUST_CHECK int ec_query_confine(const char *dir, ea_err *err);

#endif
