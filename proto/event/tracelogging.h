/* TraceLogging: events that carry their own schema in an extended item. See registry.c. Input: a record's extended
 * items. Used by: class.h (descriptions), render.c. Thread: any. Source of the layouts: TraceLoggingProvider.h (_tlg
 * macros) and microsoft/go-winio pkg/etw/eventmetadata.go and fieldopt.go. */
#ifndef EA_EVENT_TRACELOGGING_H
#define EA_EVENT_TRACELOGGING_H

#include "proto/base/arena.h"
#include "proto/event/event.h"

typedef struct ea_tracelogging {
    const char *name; /* of the event */
    uint32_t tag;     /* 28 bits */
    size_t field_count;
    const ea_field *fields; /* as ea_class_describe_fields wants them */
    const char *wrong;      /* NULL, or why the fields cannot be read: a sentence; there are none then */
} ea_tracelogging;

/* Reads the data of an EVENT_SCHEMA_TL item; everything lives in the arena, whose limit bounds it. EA_ENOMEM. */
EA_MUST_CHECK int ea_tracelogging_read(ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_tracelogging *ret);

/* The event's tag, 0 for none. */
uint32_t ea_tracelogging_tag(const uint8_t *data, size_t len_bytes);
/* Of the data of a PROV_TRAITS item: the provider's name, up to its NUL; "" when there is none. */
const char *ea_traits_name(const uint8_t *data, size_t len_bytes, size_t *ret_len);
/* The provider's group: 1 and *ret, or 0. */
int ea_traits_group(const uint8_t *data, size_t len_bytes, ea_guid *ret);

#endif
