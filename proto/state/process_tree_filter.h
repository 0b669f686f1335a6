/* A process and those that it starts: whose events belong to a recording of it alone. Input: records in time order.
 * Used by: "etwagent trace". Thread: its owner's. */
#ifndef EA_STATE_PROCESS_TREE_FILTER_H
#define EA_STATE_PROCESS_TREE_FILTER_H

#include "proto/event/event.h"

typedef struct ea_process_tree_filter ea_process_tree_filter;

/* pid: of a process that there is before the first record, and that has no children by then. with_children 0: it
 * alone. */
EA_MUST_CHECK int ea_process_tree_filter_create(ea_process_tree_filter **ret, uint32_t pid, int with_children,
                                                ea_err *err);
void ea_process_tree_filter_destroy(ea_process_tree_filter *f); /* NULL is allowed */

/* Takes the facts of a record about processes and threads. 1: the record belongs to the recording: its header or one of
 * its fields names one of the processes or a thread of them, or it describes the machine, the session, a file's name or
 * an image of the kernel, without which the other records cannot be understood. 0: it does not. An id stays in the set
 * until another process or thread begins with the same id: records that Windows logs after a process's end still
 * belong. EA_ENOMEM, EA_ELIMIT (more than 1,048,576 processes or threads). */
EA_MUST_CHECK int ea_process_tree_filter_take(ea_process_tree_filter *f, const ea_record *r, const ea_class *c,
                                              ea_err *err);

/* Processes so far, the first one included. */
size_t ea_process_tree_filter_processes(const ea_process_tree_filter *f);

#endif
