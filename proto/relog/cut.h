/* A cut out of traces that a reader understands as it understands the whole: the events of [from, to), and what their
 * readers need of the rest. Input: records in canonical order. Called by: `etwagent relog`, `etwcollector pull`. Calls:
 * proto/event (fields of state records), the caller's function for what is added. Thread: its owner's.
 *
 * Rules:
 * - What is open at from (processes, threads and their names, modules with their image ids, names of files and registry
 *   keys, definitions of stack keys) is written at from as a rundown: the records that opened it, with the opcode of a
 *   rundown. What is open at to is written at to as the rundown of an end. A thing that only a record after to names (a
 *   rundown at the trace's end, an end without a start) was open, unless a record after to opens it first.
 * - Configuration, schemas, settings of the profiler, methods that runtimes loaded, and versions of image files are
 *   written at from when they came before it, and at to when they came after it. Of methods after to these are the
 *   unloaded ones and those of a rundown.
 * - Call stacks that are records of their own belong to an event that they name. They are kept when that event is kept,
 *   however late they come; late ones are written at to. Those of other events are dropped.
 * - All that is written at from and to is on processor 0, in the order of the trace. */
#ifndef EA_RELOG_CUT_H
#define EA_RELOG_CUT_H

#include "proto/base/record.h"
#include "proto/event/event.h"
#include "proto/relog/relog.h"

typedef struct ea_cut ea_cut;

typedef struct ea_cut_options {
    int64_t from_raw, to_raw; /* ticks; INT64_MIN and INT64_MAX: no bound */
    int bare;                 /* 1: nothing is added, and stacks are kept by their own times */
    int is_filtered;          /* some events are not wanted: stacks of these are dropped */
    size_t limit_bytes;       /* of records that are held; 0: 1 GiB. Beyond it the cut fails */
    /* Writes what the cut adds; the event is borrowed. A negative number ends the call that led to it, which returns
     * it. */
    int (*emit)(void *arg, const ea_relog_event *event);
    void *emit_arg;
} ea_cut_options;

/* What was added, by kind. */
#define EA_CUT_KINDS(X)                                                                                                \
    X(processes)                                                                                                       \
    X(threads)                                                                                                         \
    X(modules)                                                                                                         \
    X(image_ids)                                                                                                       \
    X(file_names)                                                                                                      \
    X(key_names)                                                                                                       \
    X(stack_keys)                                                                                                      \
    X(definitions)                                                                                                     \
    X(methods)                                                                                                         \
    X(late_stacks)

typedef struct ea_cut_counts {

#define X(name) uint64_t name;
    EA_CUT_KINDS(X)
#undef X
} ea_cut_counts;

EA_MUST_CHECK int ea_cut_create(ea_cut **ret, const ea_cut_options *options, ea_err *err);
void ea_cut_destroy(ea_cut *cut); /* NULL is allowed */

/* Takes the next record; c: its class. wanted: the caller's own filter. Returns EA_RELOG_KEEP, EA_RELOG_DROP or an
 * error. */
EA_MUST_CHECK int ea_cut_take(ea_cut *cut, const ea_record *r, const ea_class *c, int wanted, ea_err *err);
/* After the last record: writes what belongs at to. */
EA_MUST_CHECK int ea_cut_finish(ea_cut *cut);
/* The cut ends at an earlier time than the options say, which no record that it took has reached. */
void ea_cut_end(ea_cut *cut, int64_t to_raw);

/* What a cut takes of a class besides the things that are open: records of all times before it or after it, or of the
 * time soon after it, in which stacks come late. For a reader that need not read the others. */
enum { EA_CUT_NEEDS_BEFORE = 1, EA_CUT_NEEDS_AFTER = 2, EA_CUT_NEEDS_SOON = 4 };

unsigned ea_cut_needs(const ea_class *c);

const ea_cut_counts *ea_cut_count(const ea_cut *cut);

#endif
