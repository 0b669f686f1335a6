/* Fuzz target: an instrumentation manifest from outside, and a payload decoded by every event that it describes.
 * Input: u16 length of the payload, the payload, the manifest. */
#include "manifest.h"
#include "render.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_problem(void *arg, unsigned long line, unsigned long column, const char *text) {
    if (!line || !column || !*text)
        abort();
    ++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    size_t payload_bytes = size >= 2 ? ea_load16(data) : 0, problems = 0, cursor = 0;
    ea_schemas *schemas;
    ea_registry *registry;
    ea_schema schema;
    ea_manifest_result result;
    if (size < 2 || payload_bytes > size - 2 || ea_schemas_create(&schemas, 8 << 20, NULL))
        return 0;
    ea_manifest_options options = {.file = "f", .layer = EA_SCHEMA_GIVEN, .on_problem = on_problem, .arg = &problems};
    int rc = ea_manifest_read(schemas, data + 2 + payload_bytes, size - 2 - payload_bytes, &options, &result, NULL);
    if (!rc && result.problems != problems)
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
                                .version = c->version,
                                .keyword = UINT64_MAX,
                                .pointer_size = 8,
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
