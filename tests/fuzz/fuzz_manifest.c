/* Fuzz target: an instrumentation manifest from outside, and a payload decoded by every event that it describes.
 * Input: u16 length of the payload, the payload, the manifest. */
#include "proto/event/schema/manifest.h"
#include "tests/fuzz/decode_schemas.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_problem(void *arg, unsigned long line, unsigned long column, const char *text) {
    if (!line || !column || !*text)
        abort();
    ++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t payload_bytes = size >= 2 ? ea_load16(data) : 0, problems = 0;
    ea_schemas *schemas;
    ea_manifest_result result;
    if (size < 2 || payload_bytes > size - 2 || ea_schemas_create(&schemas, 8 << 20, NULL))
        return 0;
    ea_manifest_options options = {.file = "f", .layer = EA_SCHEMA_GIVEN, .on_problem = on_problem, .arg = &problems};
    int rc = ea_manifest_read(schemas, data + 2 + payload_bytes, size - 2 - payload_bytes, &options, &result, NULL);
    if (!rc && result.problems != problems)
        abort();
    decode_with_all(schemas, data + 2, (uint16_t)payload_bytes);
    ea_schemas_destroy(schemas);
    return 0;
}
