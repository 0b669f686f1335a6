/* Unfolding. See plugin_decode.h. */
#include "service/decode/plugin_decode.h"

#include "proto/base/map.h"
#include "proto/event/class.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_MAX_BYTES = UINT16_MAX };

struct ea_plugin_decoder {
    ea_registry *registry;
    ea_schemas *schemas;
    const ea_payload_decoder *unfolder; /* NULL: nothing to do */
    ea_u64_map classes;                 /* class as the registry gives it -> unfolded class, 0: there is none */
    uint64_t failures;
    ea_record record;
    uint8_t payload[RECORD_MAX_BYTES];
};

int ea_plugin_decoder_create(ea_plugin_decoder **ret, ea_registry *registry, ea_schemas *schemas, ea_err *err) {
    ea_plugin_decoder *u = calloc(1, sizeof *u);
    if (!u)
        return ea_fail(err, EA_ENOMEM, "make a decoder");
    u->registry = registry;
    u->schemas = schemas;
    u->unfolder = ea_schemas_payload_decoder(schemas);
    ea_u64_map_init(&u->classes, 0);
    *ret = u;
    return 0;
}

void ea_plugin_decoder_destroy(ea_plugin_decoder *u) {
    if (!u)
        return;
    ea_u64_map_deinit(&u->classes);
    free(u);
}

uint64_t ea_plugin_decoder_failures(const ea_plugin_decoder *u) {
    return u->failures;
}

/* The unfolded class of these records, with their pointers' size; NULL: there is none. */
static const ea_class *plugin_decode_find_class(const ea_plugin_decoder *u, const ea_class *c) {
    enum { POINTER_SIZE_AT = 4 }; /* DESCRIPTIONS.md, "Layout" */

    ea_schema s;
    int newer;
    const ea_class *unfolded = NULL;
    if (!ea_schemas_find(u->schemas, &c->provider, c->code, c->version, c->classic, &s, &newer) || newer ||
        !ea_class_describes_decoded(s.description))
        return NULL;
    uint8_t *description = malloc(s.len_bytes);
    if (!description)
        return NULL;
    memcpy(description, s.description, s.len_bytes);
    description[POINTER_SIZE_AT] = c->pointer_size;
    if (ea_registry_add_description(u->registry, description, s.len_bytes, &unfolded, NULL))
        unfolded = NULL;
    free(description);
    return unfolded;
}

static const ea_class *plugin_decode_class_of(ea_plugin_decoder *u, const ea_class *c) {
    if (c->status != EA_CLASS_UNKNOWN || !u->unfolder)
        return NULL;
    const uint64_t *known = ea_u64_map_get(&u->classes, (uintptr_t)c);
    if (known)
        return (const ea_class *)(uintptr_t)*known;
    const ea_class *unfolded = plugin_decode_find_class(u, c);
    return ea_u64_map_put(&u->classes, (uintptr_t)c, (uintptr_t)unfolded) ? NULL : unfolded;
}

int ea_plugin_decodes(ea_plugin_decoder *u, const ea_class *c) {
    return plugin_decode_class_of(u, c) != NULL;
}

/* 1 when the values and the payload after them are split as they were joined. */
static int plugin_decode_fits(const ea_class *c, const ea_record *r, size_t payload_bytes) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    return whole == c->top_count && used == r->payload_bytes && slices[whole - 1].len_bytes == payload_bytes;
}

const ea_class *ea_plugin_decoder_run(ea_plugin_decoder *u, const ea_record **record, const ea_class *c) {
    const ea_record *from = *record;
    const ea_class *unfolded = plugin_decode_class_of(u, c);
    if (!unfolded)
        return c;
    size_t room = RECORD_MAX_BYTES - from->payload_bytes, used = 0;
    int done = u->unfolder->unfold(u->unfolder->arg, unfolded, from, u->payload, room, &used);
    if (done && used <= room) {
        if (from->payload_bytes)
            memcpy(u->payload + used, from->payload, from->payload_bytes);
        u->record = *from;
        u->record.payload = u->payload;
        u->record.payload_bytes = (uint16_t)(used + from->payload_bytes);
        if (plugin_decode_fits(unfolded, &u->record, from->payload_bytes)) {
            *record = &u->record;
            return unfolded;
        }
    }
    u->failures++;
    return c;
}
