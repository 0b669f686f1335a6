/* See described.h. */
#include "proto/event/schema/described.h"

#include "proto/base/array.h"
#include "proto/event/schema/catalogue.h"

int ea_class_list_add(ea_class_list *list, const ea_class *c, ea_err *err) {
    if (EA_GROW(list->items, list->capacity, list->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "collect event classes");
    list->items[list->count++] = c;
    return 0;
}

int ea_described_classes(ea_class_list *list, ea_registry *registry, const ea_schemas *schemas, ea_err *err) {
    ea_schemas *all = NULL;
    ea_schema schema;
    const ea_class *c;
    size_t cursor = 0;
    int rc = ea_schemas_create(&all, 0, err);
    if (!rc)
        rc = ea_catalogue_read(all, err);
    if (!rc && schemas)
        (void)ea_schemas_merge(all, schemas);
    while (!rc && ea_schemas_next(all, &cursor, &schema)) {
        rc = ea_registry_add_description(registry, schema.description, schema.len_bytes, &c, err);
        if (!rc)
            rc = ea_class_list_add(list, c, err);
    }
    ea_schemas_destroy(all);
    return rc;
}
