/* The filters of a session or of trace files at work: which events go on, and with which fields.
 *
 *     filter_compile.c  from the configuration to programs (proto/lang) and their classes
 *     filter.c          the way of an event: keep or drop, sample, limit
 *     filter_redact.c          fields that are replaced
 *
 * Rules. The filters of an event are those that name its class, in the order of the list; the first that drops it
 * decides. Classes of the machine's state are dropped only by filters that name the class without a pattern: see
 * ea_filter_is_state. All of it depends on the events alone, so that a replay that is resumed makes the same batches.
 * Called by: pipeline.c, agent_config.c, "etwagent check". Calls: proto/lang, proto/state. Thread: the source's. */
#ifndef EA_CORE_FILTER_H
#define EA_CORE_FILTER_H

#include "config/event_filters.h"
#include "proto/base/clock.h"
#include "proto/event/schemas.h"
#include "proto/state/machine.h"

/* Where a configuration's filter has a mistake. */
typedef struct ea_filter_problem {
    size_t filter;     /* its place in the list */
    const char *key;   /* the option */
    size_t item;       /* of a list of texts: which one */
    uint32_t line, at; /* in the text, from 1; 0: the text as a whole */
    int is_class;      /* a class or a field is not known: schemas from elsewhere may have it */
    char message[400];
} ea_filter_problem;

typedef struct ea_event_filters ea_event_filters;

/* configs: ea_filter_config, borrowed during the call. schemas: further classes that the expressions may name, beside
 * those of the tables and of the catalogue; borrowed during the call; NULL: none. With keys the files of redact-key are
 * read; without, the result is only for a check. Errors: EA_EINVAL with *ret_problem filled in; those of the files. */
EA_MUST_CHECK int ea_event_filters_create(ea_event_filters **ret, const ea_tables *configs, const ea_schemas *schemas,
                                          int with_keys, ea_filter_problem *ret_problem, ea_err *err);
void ea_event_filters_destroy(ea_event_filters *f); /* NULL is allowed */
/* Of what shapes batches: the texts, and the keys. 0: there are no filters. */
uint64_t ea_event_filters_hash(const ea_event_filters *f);
/* Calls on_note(arg, text) for each filter that can drop events of a class of the state, and for each that passes over
 * such classes although its pattern fits them. */
void ea_event_filters_each_note(const ea_event_filters *f, void (*on_note)(void *arg, const char *text), void *arg);

/* The way of an event, in this order. First ea_event_filters_redact: 1 when *in_out became a record with other fields,
 * which lives until the next call; 0; or EA_ENOMEM. Then the caller applies that record to machine, if it keeps one
 * (ea_event_filters_use_machine). Then ea_event_filters_judge, of the record as it came: EA_COUNT_events_batched: the
 * event goes on, or the counter of its place. */
EA_MUST_CHECK int ea_event_filters_redact(ea_event_filters *f, const ea_record **in_out, const ea_class *c);
EA_MUST_CHECK int ea_event_filters_judge(ea_event_filters *f, const ea_record *record, const ea_record *redacted,
                                         const ea_class *c, const ea_clock *clock, enum ea_counter *ret_place,
                                         ea_err *err);
/* The machine's state that expressions read, which the caller keeps; before the first event. Without it the filters
 * keep one. Borrowed. */
EA_MUST_CHECK int ea_event_filters_use_machine(ea_event_filters *f, const ea_machine *machine, ea_err *err);

/* 1 for classes from which agent and collector know the machine's state: processes, threads, images, names of files
 * and registry keys; what the trace says of itself and of losses; and clock, counters and schemas of other events. */
int ea_filter_is_state(const ea_class *c);

#endif
