/* Fuzz target: an untrusted schema cache file, and a payload that is decoded with each event of the file. The checksum
 * is corrected first, so that the code after its check is reached. Input: u16 length of the payload, the payload, the
 * file. */
#include "proto/base/map.h"
#include "proto/event/schema/cache.h"
#include "tests/fuzz/decode_schemas.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t payload_bytes = size >= 2 ? ea_load16(data) : 0, events;
    ea_schemas *schemas;
    if (size < 2 || payload_bytes > size - 2 || ea_schemas_create(&schemas, 8 << 20, NULL))
        return 0;
    size_t file_bytes = size - 2 - payload_bytes;
    uint8_t *file = malloc(file_bytes + 1);
    if (!file)
        abort();
    memcpy(file, data + 2 + payload_bytes, file_bytes);
    if (file_bytes >= 40) {
        ea_store64(file + 24, file_bytes - 40);
        ea_store64(file + 32, ea_hash64(file + 40, file_bytes - 40, ea_load64(file + 12)));
    }
    if (!ea_schema_cache_read(schemas, "f", file, file_bytes, EA_SCHEMA_GIVEN, &events, NULL)) {
        ea_text out;
        ea_schemas *again;
        ea_text_init(&out);
        if (ea_schema_cache_write(schemas, EA_SCHEMA_GIVEN, &out, NULL) || ea_schemas_create(&again, 8 << 20, NULL) ||
            ea_schema_cache_read(again, "f", out.data, out.len_bytes, EA_SCHEMA_GIVEN, &events, NULL) ||
            ea_schemas_count(again) != ea_schemas_count(schemas))
            abort(); /* what was read can be written, and read again */
        ea_schemas_destroy(again);
        ea_text_deinit(&out);
    }
    decode_with_all(schemas, data + 2, (uint16_t)payload_bytes);
    free(file);
    ea_schemas_destroy(schemas);
    return 0;
}
