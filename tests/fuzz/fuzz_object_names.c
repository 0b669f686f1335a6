/* Fuzz target: the name tables. Records of the classes that carry names, with untrusted payloads, are folded. Then each
 * record is rendered with the names in the tables. Input, repeated: u8 class, u8 version and pointer size, u8 time, u8
 * length, the payload. */
#include "proto/state/object_names.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ea_guid FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
static const ea_guid REGISTRY = EA_GUID(0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1);
static const ea_guid SYS_CONFIG = EA_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0);

/* The next record of the input; 0 at its end. */
static int next_record(const uint8_t **at, const uint8_t *end, ea_record *r) {
    if (end - *at < 4)
        return 0;
    const uint8_t *p = *at;
    size_t n = p[3] <= end - p - 4 ? p[3] : (size_t)(end - p - 4);
    *r = (ea_record){.provider = p[0] < 128   ? FILE_IO
                                 : p[0] < 192 ? REGISTRY
                                              : SYS_CONFIG,
                     .opcode = p[0] < 128   ? p[0]
                               : p[0] < 192 ? (uint8_t)(p[0] - 128)
                                            : (uint8_t)(p[0] - 192),
                     .version = p[1] & 7,
                     .pointer_size = p[1] & 8 ? 4 : 8,
                     .flags = EA_FLAG_CLASSIC_HEADER,
                     .time_raw = p[2],
                     .payload = p + 4,
                     .payload_bytes = (uint16_t)n};
    *at = p + 4 + n;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    ea_registry *registry = NULL;
    ea_object_names *names = NULL;
    ea_record r;
    ea_text out;
    if (ea_registry_create(&registry, 256, NULL) ||
        ea_object_names_create(
            &names, &(ea_object_names_options){.limit_names = 64, .limit_operations = 32, .limit_text_bytes = 4096},
            NULL))
        abort();
    for (const uint8_t *at = data; next_record(&at, data + size, &r);)
        if (ea_object_names_apply(names, &r, ea_registry_find(registry, &r), ea_clock_to_utc_ns(&CLOCK, r.time_raw),
                                  NULL))
            abort();
    ea_object_names_seal(names);
    ea_resolver resolver = ea_object_names_resolver(names);
    ea_text_init(&out);
    for (const uint8_t *at = data; next_record(&at, data + size, &r);)
        for (enum ea_render_form form = EA_RENDER_TEXT; form <= EA_RENDER_JSON; form++) {
            ea_text_clear(&out);
            ea_render(&out, &r, ea_registry_find(registry, &r),
                      &(ea_rendering){.form = form, .clock = &CLOCK, .resolver = &resolver});
            for (size_t i = 0; i < out.len_bytes; i++)
                if ((uint8_t)out.data[i] < 0x20 || (uint8_t)out.data[i] == 0x7f)
                    abort(); /* one line, whatever a name holds */
        }
    ea_text_deinit(&out);
    ea_object_names_destroy(names);
    ea_registry_destroy(registry);
    return 0;
}
