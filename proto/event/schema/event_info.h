/* The information of Windows' TDH about one event (TRACE_EVENT_INFO) and about the names of a field's values
 * (EVENT_MAP_INFO), in its form in memory. Tools copy the same bytes into traces. Every offset is checked.
 * Called by: intrace.h, service/etw/tdh_schemas.h. Calls: schemas.h. Thread: any. */
#ifndef EA_EVENT_SCHEMA_EVENT_INFO_H
#define EA_EVENT_SCHEMA_EVENT_INFO_H

#include "proto/base/arena.h"
#include "proto/event/schemas.h"

/* The source of the maps that TRACE_EVENT_INFO only names. find returns NULL when there is no map of that name; the map
 * that it returns stays valid until ea_event_info_read returns. */
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
