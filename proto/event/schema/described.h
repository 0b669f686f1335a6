/* Classes that programs and conditions may name before an event of them comes. Input: catalogue.h, schemas.h. Output: a
 * registry. Used by: what compiles programs of the query language. Thread: that of the registry. */
#ifndef EA_EVENT_SCHEMA_DESCRIBED_H
#define EA_EVENT_SCHEMA_DESCRIBED_H

#include "proto/event/event.h"
#include "proto/event/schemas.h"

/* Grows by EA_GROW; the caller frees items. The classes are the registry's. */
typedef struct ea_class_list {
    const ea_class **items;
    size_t count, capacity;
} ea_class_list;

/* Adds the classes that the catalogue and the given schemas (NULL: none) describe to the registry and the list.
 * EA_ENOMEM, EA_ELIMIT. */
EA_MUST_CHECK int ea_described_classes(ea_class_list *list, ea_registry *registry, const ea_schemas *schemas,
                                       ea_err *err);
EA_MUST_CHECK int ea_class_list_add(ea_class_list *list, const ea_class *c, ea_err *err);

#endif
