/* Fuzz target: a trace message format file from outside, and a payload decoded by every message that it describes.
 * Input: u16 length of the payload, the payload, the file. */
#include "proto/event/render.h"
#include "proto/event/schema/tmf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    size_t payload_bytes = size >= 2 ? ea_load16(data) : 0, cursor = 0;
    ea_schemas *schemas;
    ea_registry *registry;
    ea_schema schema;
    ea_tmf_result result;
    if (size < 2 || payload_bytes > size - 2 || ea_schemas_create(&schemas, 8 << 20, NULL))
        return 0;
    int rc = ea_tmf_read(schemas, "f", data + 2 + payload_bytes, size - 2 - payload_bytes, &result, NULL);
    if (!rc && (result.messages < ea_schemas_count(schemas) || (result.problems && !result.first_line)))
        abort();
    if (!ea_registry_create(&registry, 0, NULL)) {
        ea_registry_set_schemas(registry, schemas);
        for (int i = 0; i < 64 && ea_schemas_next(schemas, &cursor, &schema); i++) {
            const ea_class *c;
            ea_text out;
            if (ea_registry_add_description(registry, schema.description, schema.len_bytes, &c, NULL))
                abort(); /* what was kept can be read */
            ea_record record = {.provider = c->provider,
                                .id = c->code,
                                .flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER,
                                .header_type = EA_HEADER_MESSAGE,
                                .pointer_size = i % 2 ? 4 : 8,
                                .payload = data + 2,
                                .payload_bytes = (uint16_t)payload_bytes};
            const ea_class *found = ea_registry_find(registry, &record);
            ea_text_init(&out);
            ea_render_json(&out, &record, found, &CLOCK, 1);
            ea_render_text(&out, &record, found, &CLOCK);
            ea_text_deinit(&out);
        }
        ea_registry_destroy(registry);
    }
    ea_schemas_destroy(schemas);
    return 0;
}
