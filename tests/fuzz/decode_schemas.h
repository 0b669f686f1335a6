/* For fuzz targets of schemas: a payload decoded by each of the first 64 schemas that were read. */
#ifndef EA_TESTS_FUZZ_DECODE_SCHEMAS_H
#define EA_TESTS_FUZZ_DECODE_SCHEMAS_H

#include "proto/event/render.h"
#include "proto/event/schemas.h"

#include <stdlib.h>

static inline void decode_with_all(ea_schemas *schemas, const uint8_t *payload, uint16_t payload_bytes) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    ea_registry *registry;
    ea_schema schema;
    size_t cursor = 0;
    if (ea_registry_create(&registry, 0, NULL))
        return;
    ea_registry_set_schemas(registry, schemas);
    for (int i = 0; i < 64 && ea_schemas_next(schemas, &cursor, &schema); i++) {
        const ea_class *c;
        ea_text out;
        if (ea_registry_add_description(registry, schema.description, schema.len_bytes, &c, NULL))
            abort(); /* what was kept can be read */
        ea_record record = {.provider = c->provider,
                            .id = c->code,
                            .version = c->version,
                            .keyword = UINT64_MAX,
                            .pointer_size = 8,
                            .payload = payload,
                            .payload_bytes = payload_bytes};
        const ea_class *found = ea_registry_find(registry, &record);
        ea_text_init(&out);
        ea_render_json(&out, &record, found, &CLOCK, 1);
        ea_render_text(&out, &record, found, &CLOCK);
        ea_text_deinit(&out);
    }
    ea_registry_destroy(registry);
}

#endif
