/* Programs of the query language on a stream of records that is read once: a live session, or a pipeline's records.
 *
 * Programs that use stacks see an event when its stack has come, or DELAY_NS later by the events' time; then all
 * records wait in a queue whose memory is bounded, in their order. Called by: "etwagent watch", pipeline.h. Calls:
 * proto/lang, proto/state, proto/stack. Thread: the source's. */
#ifndef EA_CORE_WATCHER_H
#define EA_CORE_WATCHER_H

#include "proto/lang/lang.h"

typedef struct ea_watcher ea_watcher;

/* limit_bytes: of the state of processes, of stacks and of records that wait for theirs, each; 0: 64 MiB. */
EA_MUST_CHECK int ea_watcher_create(ea_watcher **ret, size_t limit_bytes, ea_err *err);
void ea_watcher_destroy(ea_watcher *w); /* NULL is allowed */
/* Adds a program, before the first record; runs its `begin` clauses. how: machine, frames and resolver are set here.
 * The program is borrowed. *ret_run is the watcher's. */
EA_MUST_CHECK int ea_watcher_program(ea_watcher *w, const ea_lang_program *program, const ea_lang_run_options *how,
                                     ea_lang_run **ret_run, ea_err *err);
/* Processes whose Process/Start names a parent of the tree belong to it, once this was called. */
EA_MUST_CHECK int ea_watcher_tree(ea_watcher *w, uint32_t root_pid, ea_err *err);
/* For ea_lang_run_options.wants; arg: the watcher. */
int ea_watcher_is_of_tree(const void *watcher, int64_t pid);

/* The next record; c and clock live as long as the watcher. Returns 0, 1 when all programs have ended by exit(), or an
 * error. */
EA_MUST_CHECK int ea_watcher_add(ea_watcher *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                                 int64_t utc_ns, ea_err *err);
/* The records are of this machine, as they happen: ticks do not wait for the first one. Before the first record. */
void ea_watcher_live(ea_watcher *w);
/* No record has come for some milliseconds: ticks become due by the time that has passed since the last record; returns
 * as ea_watcher_add does. */
EA_MUST_CHECK int ea_watcher_idle(ea_watcher *w, ea_err *err);
/* The stream ends: records that wait are given to the programs; then each program ends. */
EA_MUST_CHECK int ea_watcher_end(ea_watcher *w, ea_err *err);

#endif
