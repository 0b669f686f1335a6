/* Properties: how Windows' own schemas say what is in a payload (EVENT_PROPERTY_INFO of tdh.h). Manifests, their
 * compiled form, TRACE_EVENT_INFO and TraceLogging metadata are all turned into these first, and these into fields.
 * Input: proto/event/schema, tracelogging.c. Used by: class.h (descriptions). Thread: any. */
#ifndef EA_EVENT_PROPERTIES_H
#define EA_EVENT_PROPERTIES_H

#include "proto/event/event.h"

typedef struct ea_property {
    const char *name;
    int in_type, out_type; /* tdh_types.h; not of a struct */
    int is_struct;         /* its members are properties [first_member, first_member + member_count) */
    unsigned first_member, member_count;
    unsigned count, length;      /* 0: none given */
    int count_from, length_from; /* number of the property that holds it, -1: none */
    int counts_itself;           /* an array whose u16 number of elements precedes it */
    const ea_enum *map;          /* may be NULL */
} ea_property;

/* Fills fields (room for EA_FIELDS_MAX) in the form of ea_class_describe_fields. Properties [0, top_count) are the
 * payload's; the following ones are members of structs. Returns the number of fields, or -1 with *ret_wrong (a
 * sentence's end) and the number of the property that it is about. Recursion is bounded. */
int ea_properties_to_fields(const ea_property *properties, size_t count, size_t top_count, ea_field *fields,
                            const char **ret_wrong, size_t *ret_property);

#endif
