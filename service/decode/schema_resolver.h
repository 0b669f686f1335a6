/* Schemas that take time to get: a separate thread requests them, while their events continue whole and without names.
 *
 *     source's thread: decoder ──kind of an event──▶ resolver's thread: answer() ──schemas──▶ source's thread
 *
 * A kind (provider, code, version) is requested once; if its schema is unknown, again after a while. Called by:
 * decoder.h. Calls: the ea_schema_lookup of the options (service/etw/tdh_schemas.h). Thread: as each function says. */
#ifndef EA_DECODE_SCHEMA_RESOLVER_H
#define EA_DECODE_SCHEMA_RESOLVER_H

#include "proto/base/counters.h"
#include "proto/event/schemas.h"

typedef struct ea_schema_resolver ea_schema_resolver;

typedef struct ea_schema_lookup {
    /* Adds what it knows of the event: it has neither payload nor extended items. EA_ENOTFOUND: it knows nothing. May
     * take long; the resolver's thread. */
    int (*answer)(void *arg, const ea_record *event, ea_schemas *into, ea_err *err);
    void *arg;
    ea_counters *counters; /* borrowed; decode_asked and decode_unanswered are counted here */
    int64_t again_ns;      /* 0: ten minutes */
} ea_schema_lookup;

EA_MUST_CHECK int ea_schema_resolver_create(ea_schema_resolver **ret, const ea_schema_lookup *ask, ea_err *err);
/* Waits for an answer that is being made. NULL is allowed. */
void ea_schema_resolver_destroy(ea_schema_resolver *a);

/* Asks for the schema of this event, unless it was asked for. 1 when answers to earlier questions came, which are in
 * `into` now; else 0. Never waits for an answer. The source's thread. */
int ea_schema_resolver_request(ea_schema_resolver *a, const ea_record *event, ea_schemas *into);

#endif
