/* This program again as a child: how questions are kept apart from who asks.
 * Before it: ask.c, collector/web. After it: worker.c and others, in the child. Thread: any. */
#ifndef EC_QUERY_CHILD_H
#define EC_QUERY_CHILD_H

#include "err.h"

#include <stdint.h>
#include <sys/types.h>

/* Starts it with name as its only argument; *ret_in and *ret_out are this side of its standard input and output. The
 * caller closes them, and waits for the child. */
EA_MUST_CHECK int ec_child_start(const char *name, pid_t *ret_pid, int *ret_in, int *ret_out, ea_err *err);

/* In the child: it ends with its parent (and at once when that has ended), leaves no core, and has so much processor
 * time and, beyond what it has already, so much memory (0: no bound; none under a sanitizer). */
void ec_child_limit(uint64_t parent, uint64_t cpu_s, uint64_t limit_bytes);

#endif
