/* Schemas for a command. See schema_options.h. */
#include "schema_options.h"

#include "load.h"
#include "map.h"
#include "tmf.h"

int ea_schema_options_read(ea_schemas **ret, const ea_schema_options *options, ea_err *err) {
    ea_schemas *schemas;
    int rc = ea_schemas_create(&schemas, 0, err);
    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < options->manifests.count; i++)
        rc = ea_schema_file_load(schemas, options->manifests.items[i], options->language, err);
    for (size_t i = 0; !rc && i < options->tmfs.count; i++)
        rc = ea_tmf_load(schemas, options->tmfs.items[i], err);
    if (rc) {
        ea_schemas_destroy(schemas);
        return rc;
    }
    *ret = schemas;
    return 0;
}

uint64_t ea_schema_options_hash(const ea_schemas *schemas) {
    uint64_t hash = 0;
    size_t cursor = 0;
    ea_schema schema;
    while (schemas && ea_schemas_next(schemas, &cursor, &schema))
        if (schema.layer == EA_SCHEMA_GIVEN)
            hash += ea_hash64(schema.description, schema.len_bytes, 0);
    return hash;
}
