/* Schemas that a trace contains: EventSource manifests, which come as events in pieces from every process that has the
 * provider, and TRACE_EVENT_INFO and EVENT_MAP_INFO records, which tools write for facts that only the traced machine
 * had. They apply to the events that follow them. An event's information is used at once; it is used again, with the
 * names of its fields' values, when a map that it names comes later. Called by: the readers of a source's records.
 * Calls: schemas.h. Thread: its owner's. */
#ifndef EA_EVENT_SCHEMA_INTRACE_H
#define EA_EVENT_SCHEMA_INTRACE_H

#include "proto/event/schemas.h"

typedef struct ea_trace_schemas ea_trace_schemas;

/* into: borrowed; gets them in the layer EA_SCHEMA_TRACE. */
EA_MUST_CHECK int ea_trace_schemas_create(ea_trace_schemas **ret, ea_schemas *into, ea_err *err);
void ea_trace_schemas_destroy(ea_trace_schemas *t); /* NULL is allowed */

/* 1 when this record may bring a schema: cheap enough for every record. */
int ea_trace_schemas_concerns(const ea_record *record);
/* Takes what the record brings. 1 when schemas changed (ea_registry_schemas_changed), else 0: a piece of a manifest,
 * one that is known, or nothing that can be read. */
int ea_trace_schemas_feed(ea_trace_schemas *t, const ea_record *record);

typedef struct ea_trace_schemas_counts {
    uint64_t pieces, manifests, event_infos, map_infos;
    uint64_t unreadable; /* manifests, event infos and maps that are none, or have no names of numbers */
    uint64_t given_up;   /* manifests whose pieces did not all come, event infos whose maps did not, or too many */
} ea_trace_schemas_counts;

ea_trace_schemas_counts ea_trace_schemas_get(const ea_trace_schemas *t);

#endif
