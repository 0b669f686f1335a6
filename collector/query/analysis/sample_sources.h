/* Tracks the sources of samples (the timer, hardware counters): the interval of each, and its name. One tracker is for
 * one stream. Called by: activity_events.c, stack_query.c. Calls: event_roles.h. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_SAMPLE_SOURCES_H
#define EC_QUERY_ANALYSIS_SAMPLE_SOURCES_H

#include "collector/query/scan/event_cursor.h"
#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/base/text.h"

enum { EC_SOURCE_TIMER = 0 }; /* of EC_ROLE_CPU_SAMPLE */

typedef struct ec_sample_sources {
    ea_u64_map intervals; /* source -> events for a sample */
    ea_u64_map names;     /* source -> text */
    ea_bytes_map texts;   /* each once */
    uint64_t timer;       /* the interval of EC_SOURCE_TIMER, which each CPU sample needs; 0: unknown */
    ea_arena arena;
    ea_text scratch;
} ec_sample_sources;

void ec_sample_sources_init(ec_sample_sources *s);
void ec_sample_sources_deinit(ec_sample_sources *s);
void ec_sample_sources_clear(ec_sample_sources *s);
/* An event of EC_ROLE_SAMPLE_INTERVAL; sources after the first 65,536 are ignored. EA_ENOMEM. */
EA_MUST_CHECK int ec_sample_sources_add(ec_sample_sources *s, const ec_event_cursor *t, const ec_event_cursor_event *e);
/* Events for a sample; 0: unknown. */
uint64_t ec_sample_interval(const ec_sample_sources *s, uint64_t source);
/* As the last event names it; else as the class of its samples does; NULL: it has no name. Valid until clear. */
const char *ec_sample_source_name(const ec_sample_sources *s, uint64_t source, const ea_class *sample_class);
/* The source of a counter, by its name in any case as events have named it, by its number, or by the name that the
 * class of samples has for it: 1 and *ret, or 0. sample_class: NULL when no sample has come. */
int ec_sample_source_find(const ec_sample_sources *s, const char *counter, const ea_class *sample_class, uint64_t *ret);

#endif
