/* What Windows' TDH says of one event (TRACE_EVENT_INFO) and of the names of a field's values (EVENT_MAP_INFO), as it
 * stands in memory or, copied by tools, in a trace. Every offset is checked.
 * Before it: intrace.h, service/etw/tdh_schemas.h. After it: schemas.h. Thread: any. */
#ifndef EA_SCHEMA_EVENT_INFO_H
#define EA_SCHEMA_EVENT_INFO_H

#include "proto/base/arena.h"
#include "proto/event/schemas.h"

/* Who knows the maps that TRACE_EVENT_INFO only names. find: NULL when there is none of that name; what it returns
 * lasts until ea_event_info_read is done. */
typedef struct ea_event_maps {
    const ea_enum *(*find)(void *arg, const ea_guid *provider, const char *name);
    void *arg;
} ea_event_maps;

/* Reads one TRACE_EVENT_INFO into schemas. maps: NULL for none. EA_ECORRUPT, EA_EUNSUPPORTED, EA_ENOMEM, EA_ELIMIT. */
EA_MUST_CHECK int ea_event_info_read(ea_schemas *into, enum ea_schema_layer layer, const uint8_t *data,
                                     size_t len_bytes, const ea_event_maps *maps, int *ret_changed, ea_err *err);

/* Reads one EVENT_MAP_INFO; the map lives in the arena. EA_EUNSUPPORTED: its values are no numbers. EA_ECORRUPT, also
 * when the arena has no room. */
EA_MUST_CHECK int ea_event_map_read(ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_enum *ret, ea_err *err);

#endif
