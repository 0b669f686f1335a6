/* Fuzz target: schemas that a trace brings along, and a payload decoded by them.
 * Input: a byte (0 TraceLogging metadata, 1 TRACE_EVENT_INFO, 2 pieces of a manifest, 3 records of information and of
 * maps), u16 length of the schema, the schema, the payload. Pieces: each u8 process, u8 length, its bytes; records:
 * each u8 opcode 32 or 33, u16 length, its bytes. */
#include "proto/event/render.h"
#include "proto/event/schema/event_info.h"
#include "proto/event/schema/intrace.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(ea_registry *registry, const ea_record *r) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    ea_text out;
    const ea_class *c = ea_registry_find(registry, r), *again;
    size_t whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    if (whole > c->top_count || used > r->payload_bytes)
        abort();
    if (ea_registry_add_description(registry, c->description, c->description_bytes, &again, NULL) || again != c)
        abort();
    ea_text_init(&out);
    ea_render_json(&out, r, c, &CLOCK, 1);
    ea_render_text(&out, r, c, &CLOCK);
    ea_text_deinit(&out);
}

static void feed(ea_trace_schemas *t, ea_registry *registry, const ea_record *r) {
    if (ea_trace_schemas_concerns(r) && ea_trace_schemas_feed(t, r))
        ea_registry_schemas_changed(registry);
}

static void pieces(ea_trace_schemas *t, ea_registry *registry, const uint8_t *p, size_t left) {
    while (left >= 2 && p[1] <= left - 2) {
        ea_record r = {.id = 0xFFFE, .pid = p[0], .pointer_size = 8, .payload = p + 2, .payload_bytes = p[1]};
        feed(t, registry, &r);
        use(registry, &r);
        left -= 2 + (size_t)p[1];
        p += 2 + p[1];
    }
}

/* The event that the first schema describes, with this payload. */
static void use_first(ea_schemas *schemas, ea_registry *registry, ea_record *r) {
    ea_schema found;
    size_t cursor = 0;
    const ea_class *c;
    ea_registry_schemas_changed(registry);
    if (!ea_schemas_next(schemas, &cursor, &found))
        return;
    if (ea_registry_add_description(registry, found.description, found.len_bytes, &c, NULL))
        abort();
    r->provider = c->provider;
    r->id = c->code;
    r->opcode = (uint8_t)c->code;
    r->version = c->version;
    r->flags = c->classic ? EA_FLAG_CLASSIC_HEADER : 0;
    use(registry, r);
}

static void records(ea_trace_schemas *t, ea_registry *registry, const uint8_t *p, size_t left) {
    static const ea_guid METADATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);
    while (left >= 3 && ea_load16(p + 1) <= left - 3) {
        size_t n = ea_load16(p + 1);
        ea_record r = {.provider = METADATA,
                       .opcode = p[0],
                       .flags = EA_FLAG_CLASSIC_HEADER,
                       .pointer_size = 8,
                       .payload = p + 3,
                       .payload_bytes = (uint16_t)n};
        feed(t, registry, &r);
        use(registry, &r);
        left -= 3 + n;
        p += 3 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ea_schemas *schemas;
    ea_registry *registry;
    ea_trace_schemas *t;
    size_t schema_bytes = size >= 3 ? ea_load16(data + 1) : 0;
    if (size < 3 || schema_bytes > size - 3 || size - 3 - schema_bytes > UINT16_MAX)
        return 0;
    if (ea_schemas_create(&schemas, 4 << 20, NULL) || ea_registry_create(&registry, 64, NULL) ||
        ea_trace_schemas_create(&t, schemas, NULL))
        abort();
    ea_registry_set_schemas(registry, schemas);
    const uint8_t *schema = data + 3;
    ea_record r = {.pointer_size = data[0] & 0x80 ? 4 : 8,
                   .payload = schema + schema_bytes,
                   .payload_bytes = (uint16_t)(size - 3 - schema_bytes)};
    ea_ext items[] = {{.type = EA_EXT_SCHEMA_TL, .size_bytes = (uint32_t)schema_bytes, .data = schema},
                      {.type = EA_EXT_PROV_TRAITS, .size_bytes = (uint32_t)schema_bytes, .data = schema}};
    switch (data[0] & 3) {
    case 0:
        r.ext = items;
        r.ext_count = 2;
        use(registry, &r);
        break;
    case 1: {
        int changed = 0;
        ea_enum map;
        ea_arena arena;
        ea_arena_init(&arena, 1 << 20);
        (void)!ea_event_map_read(&arena, schema, schema_bytes, &map, NULL);
        ea_arena_deinit(&arena);
        (void)!ea_event_info_read(schemas, EA_SCHEMA_TRACE, schema, schema_bytes, NULL, &changed, NULL);
        use_first(schemas, registry, &r);
        break;
    }
    case 3:
        records(t, registry, schema, schema_bytes);
        use_first(schemas, registry, &r);
        break;
    default:
        pieces(t, registry, schema, schema_bytes);
    }
    ea_trace_schemas_destroy(t);
    ea_registry_destroy(registry);
    ea_schemas_destroy(schemas);
    return 0;
}
