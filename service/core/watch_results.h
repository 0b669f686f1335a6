/* The programs of a session or of trace files (config/watches.h) at work: their results become records of classes of
 * their own, as TraceLogging events of the provider etwagent-watch that describe themselves.
 *
 * A class watch_NAME is of the aggregation @ of program NAME, watch_NAME_x of @x, watch_NAME_emit and watch_NAME_printf
 * of these. Its fields: tick (when, UTC), others (1: the sum of keys that had no room), the keys, and the value under
 * the function's name; of a distribution from, to and count, a record a bucket; of top value, count and over.
 * Called by: pipeline.c, agent_config.c. Calls: proto/lang, watcher.h. Thread: the source's. */
#ifndef EA_CORE_WATCH_RESULTS_H
#define EA_CORE_WATCH_RESULTS_H

#include "config/watches.h"
#include "proto/base/clock.h"
#include "proto/event/event.h"
#include "proto/event/schemas.h"
#include "proto/lang/lang.h"

/* Where a configuration's program has a mistake. */
typedef struct ea_watch_problem {
    size_t program;        /* its place in the list */
    uint32_t line, column; /* in its text, from 1 */
    int is_class;          /* a class or a field is not known: schemas from elsewhere may have it */
} ea_watch_problem;

typedef struct ea_watches ea_watches;

/* configs: ea_watch_config; borrowed. has_recorder: the events are recorded; programs may have triggers. schemas:
 * further classes that the programs may name, beside those of the tables and of the catalogue; borrowed during the
 * call; NULL: none. Errors: EA_EINVAL with *ret_problem filled in. */
EA_MUST_CHECK int ea_watches_create(ea_watches **ret, const ea_tables *configs, int has_recorder,
                                    const ea_schemas *schemas, ea_watch_problem *ret_problem, ea_err *err);
void ea_watches_destroy(ea_watches *w); /* NULL is allowed */
/* Of what shapes batches. 0: there are no programs. */
uint64_t ea_watches_hash(const ea_watches *w);

/* 1 when one of the programs has a trigger. */
int ea_watches_have_triggers(const ea_watches *w);
/* fn is called when one fires at utc_ns, after its record, whose time may be later: a program may wait for stacks.
 * Before the start. */
void ea_watches_on_trigger(ea_watches *w,
                           void (*fn)(void *arg, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                                      int64_t row_utc_ns),
                           void *arg);
/* A trigger fired in an earlier run, which counts for its limits. After the start. */
void ea_watches_fired(ea_watches *w, const char *name, const char *trigger, int64_t utc_ns);

/* Begins. on_row takes each record of a result; a result that it refuses ends the program's run with an error. */
EA_MUST_CHECK int ea_watches_start(ea_watches *w, int (*on_row)(void *arg, const ea_record *record), void *arg,
                                   ea_err *err);

enum { EA_WATCHES_AGGREGATED = 1, EA_WATCHES_SHIPPED };

/* The next event: EA_WATCHES_SHIPPED when a program raised it (ship()), EA_WATCHES_AGGREGATED when one that has not
 * ended aggregates it, 0, or an error. c and clock live as long as the programs. */
EA_MUST_CHECK int ea_watches_add(ea_watches *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                                 ea_err *err);
/* No event has come for a while: ticks that are due. Of a live session only. */
EA_MUST_CHECK int ea_watches_idle(ea_watches *w, ea_err *err);
/* What the programs could not do as they say, so far, of all together. Before the start all is 0. */
ea_lang_counts ea_watches_counts(const ea_watches *w);
/* The events are over: the programs' ends. */
EA_MUST_CHECK int ea_watches_end(ea_watches *w, ea_err *err);

#endif
