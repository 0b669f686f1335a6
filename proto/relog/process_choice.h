/* Which events are of some processes, by their lifetimes: a pid that was used again is another process. The first pass
 * over the records learns when processes and threads lived, also from the rundown at a trace's end; the second asks.
 * Input: records. Called by: `etwagent relog --process`. Calls: proto/state. Thread: its owner's. */
#ifndef EA_RELOG_PROCESS_CHOICE_H
#define EA_RELOG_PROCESS_CHOICE_H

#include "proto/base/record.h"
#include "proto/event/class_names.h"
#include "proto/event/event.h"

typedef struct ea_process_choice ea_process_choice;

EA_MUST_CHECK int ea_process_choice_create(ea_process_choice **ret, ea_err *err);
void ea_process_choice_destroy(ea_process_choice *p); /* NULL is allowed */

/* First pass. EA_ELIMIT: more than 1,048,576 processes, or 4,194,304 threads. */
EA_MUST_CHECK int ea_process_choice_learn(ea_process_choice *p, const ea_record *r, const ea_class *c, int64_t utc_ns,
                                          ea_err *err);

/* Between the passes: chooses the processes with this image name, in any case (NULL: any), and pid (when has_pid), that
 * lived at utc_ns (INT64_MIN: at any time). Returns how many these are. */
size_t ea_process_choice_add(ea_process_choice *p, const char *name, int has_pid, uint32_t pid, int64_t utc_ns);
/* The image name that is most like this one, of those that processes have: see ea_near. With or without its ending. */
ea_near ea_process_choice_near(const ea_process_choice *p, const char *name);
/* Chooses also the processes that chosen ones started, and so on. */
void ea_process_choice_add_children(ea_process_choice *p);
/* Then, once. */
void ea_process_choice_settle(ea_process_choice *p);

/* Second pass: 1 when the record's header, or a field of a classic event, names a chosen process or a thread of one. */
int ea_process_choice_wants(const ea_process_choice *p, const ea_record *r, const ea_class *c, int64_t utc_ns);

#endif
