/* TRACE_EVENT_INFO into a schema, EVENT_MAP_INFO into a map. See event_info.h. Source of the layouts: tdh.h,
 * TRACE_EVENT_INFO, EVENT_PROPERTY_INFO, EVENT_MAP_INFO and EVENT_MAP_ENTRY. */
#include "proto/event/schema/event_info.h"

#include "proto/event/class.h"
#include "proto/event/properties.h"
#include "proto/event/tdh_types.h"

enum {
    HEAD_BYTES = 112,
    PROPERTY_BYTES = 24,
    DECODING_XML = 0,
    DECODING_WBEM = 1,
    PROPERTY_STRUCT = 0x01,
    PROPERTY_PARAM_LENGTH = 0x02,
    PROPERTY_PARAM_COUNT = 0x04,
    PROPERTY_FIXED_LENGTH = 0x10,
    SCRATCH_BYTES = 1 << 20
};

enum { /* EVENT_MAP_INFO */
       MAP_HEAD_BYTES = 16,
       MAP_ENTRY_BYTES = 8,
       MAP_MANIFEST_BITS = 0x02,
       MAP_PATTERN = 0x04,
       MAP_WBEM_BITS = 0x10,
       MAP_WBEM_FLAG = 0x20,
       MAP_WBEM_NO_VALUES = 0x40 /* an entry's place is its value */
};

typedef struct info {
    const uint8_t *data;
    size_t len_bytes;
    ea_arena *arena;
    const ea_event_maps *maps; /* NULL: no maps are known */
} info;

/* UTF-16 up to its NUL. Its offset is the u32 at `at`. "" for offset 0; NULL when the offset is outside or there is no
 * memory. TDH writes a blank after names that message tables hold; it is removed. */
static const char *event_info_text_at(const info *in, size_t at) {
    size_t offset = ea_load32(in->data + at), n = 0;
    if (!offset)
        return "";
    if (offset >= in->len_bytes)
        return NULL;
    while (offset + n + 2 <= in->len_bytes && ea_load16(in->data + offset + n))
        n += 2;
    while (n && ea_load16(in->data + offset + n - 2) == ' ')
        n -= 2;
    ea_text t;
    ea_text_init(&t);
    ea_text_utf16(&t, in->data + offset, n);
    const char *own = t.failed ? NULL : ea_arena_strdup(in->arena, t.data ? t.data : "");
    ea_text_deinit(&t);
    return own;
}

/* Strings and bytes have a length of their own only where one is given; what has a width states it here as well. */
static int event_info_has_length(int in_type) {
    return in_type == EA_IN_UNICODE_STRING || in_type == EA_IN_ANSI_STRING || in_type == EA_IN_BINARY ||
           in_type == EA_IN_HEXDUMP;
}

static int read_property(const info *in, const ea_guid *provider, const uint8_t *p, ea_property *ret) {
    uint32_t flags = ea_load32(p);
    *ret =
        (ea_property){.name = event_info_text_at(in, (size_t)(p - in->data) + 4), .count_from = -1, .length_from = -1};
    if (!ret->name)
        return 0;
    if (flags & PROPERTY_STRUCT) {
        ret->is_struct = 1;
        ret->first_member = ea_load16(p + 8);
        ret->member_count = ea_load16(p + 10);
    } else {
        ret->in_type = ea_load16(p + 8);
        ret->out_type = ea_load16(p + 10);
        const char *map = in->maps ? event_info_text_at(in, (size_t)(p - in->data) + 12) : "";
        if (!map)
            return 0;
        if (*map)
            ret->map = in->maps->find(in->maps->arg, provider, map);
    }
    if (flags & PROPERTY_PARAM_COUNT)
        ret->count_from = ea_load16(p + 16);
    else
        ret->count = ea_load16(p + 16);
    if (ret->is_struct)
        return 1;
    if (flags & PROPERTY_PARAM_LENGTH)
        ret->length_from = ea_load16(p + 18);
    else if (flags & PROPERTY_FIXED_LENGTH || event_info_has_length(ret->in_type))
        ret->length = ea_load16(p + 18);
    return 1;
}

static int event_info_read_info(const info *in, ea_schemas *into, enum ea_schema_layer layer, int *ret_changed,
                                ea_err *err) {
    const uint8_t *p = in->data;
    uint32_t source = in->len_bytes >= HEAD_BYTES ? ea_load32(p + 48) : 0, count, top;
    if (in->len_bytes < HEAD_BYTES)
        return ea_fail(err, EA_ECORRUPT, "event information: it ends inside its head");
    if (source != DECODING_XML && source != DECODING_WBEM)
        return ea_fail(err, EA_EUNSUPPORTED, "event information of a kind that needs none");
    count = ea_load32(p + 100);
    top = ea_load32(p + 104);
    if (count > EA_FIELDS_MAX || top > count || HEAD_BYTES + (size_t)count * PROPERTY_BYTES > in->len_bytes)
        return ea_fail(err, EA_ECORRUPT, "event information: it ends inside its properties");
    int classic = source == DECODING_WBEM;
    ea_class_head head = {.classic = (uint8_t)classic, .pointer_size = 8, .version = p[34]};
    memcpy(&head.provider, classic ? p + 16 : p, sizeof head.provider);
    head.code = classic ? p[37] : ea_load16(p + 32);
    head.provider_name = event_info_text_at(in, 52);
    const char *task = event_info_text_at(in, 68), *opcode = event_info_text_at(in, 72);
    ea_class_notes notes = {.level = event_info_text_at(in, 56),
                            .channel = event_info_text_at(in, 60),
                            .message = event_info_text_at(in, 76)};
    ea_property *properties = ea_arena_zalloc(in->arena, (size_t)count + 1, sizeof *properties);
    ea_field *fields = ea_arena_zalloc(in->arena, EA_FIELDS_MAX, sizeof *fields);
    if (!head.provider_name || !task || !opcode || !notes.level || !notes.channel || !notes.message || !properties ||
        !fields)
        return ea_fail(err, EA_ECORRUPT, "event information: a text is outside of it");
    notes.task = task;
    notes.opcode = opcode;
    for (uint32_t i = 0; i < count; i++)
        if (!read_property(in, &head.provider, p + HEAD_BYTES + (size_t)i * PROPERTY_BYTES, &properties[i]))
            return ea_fail(err, EA_ECORRUPT, "event information: a property's name is outside of it");
    const char *wrong;
    size_t which;
    int n = ea_properties_to_fields(properties, count, top, fields, &wrong, &which);
    if (n < 0)
        return ea_fail(err, EA_ECORRUPT, "event information: property %zu %s", which, wrong);
    ea_text name, description;
    ea_text_init(&name);
    ea_text_init(&description);
    ea_text_str(&name, task);
    if (*task && *opcode)
        ea_text_char(&name, '/');
    ea_text_str(&name, opcode);
    head.name = name.data ? name.data : "";
    ea_class_describe_fields(&description, &head, fields, (size_t)n, &notes);
    int rc = name.failed || description.failed ? ea_fail(err, EA_ENOMEM, "event information")
                                               : ea_schemas_add(into, layer, (const uint8_t *)description.data,
                                                                description.len_bytes, ret_changed, err);
    ea_text_deinit(&name);
    ea_text_deinit(&description);
    return rc;
}

int ea_event_info_read(ea_schemas *into, enum ea_schema_layer layer, const uint8_t *data, size_t len_bytes,
                       const ea_event_maps *maps, int *ret_changed, ea_err *err) {
    ea_arena arena;
    ea_arena_init(&arena, SCRATCH_BYTES);
    int rc = event_info_read_info(&(info){.data = data, .len_bytes = len_bytes, .arena = &arena, .maps = maps}, into,
                                  layer, ret_changed, err);
    ea_arena_deinit(&arena);
    return rc;
}

int ea_event_map_read(ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_enum *ret, ea_err *err) {
    info in = {.data = data, .len_bytes = len_bytes, .arena = arena};
    if (len_bytes < MAP_HEAD_BYTES)
        return ea_fail(err, EA_ECORRUPT, "map of an event: it ends inside its head");
    uint32_t flags = ea_load32(data + 4), count = ea_load32(data + 8);
    if (flags & MAP_PATTERN || (ea_load32(data + 12) && !(flags & MAP_WBEM_NO_VALUES)))
        return ea_fail(err, EA_EUNSUPPORTED, "map of an event: its values are texts");
    if (count > (len_bytes - MAP_HEAD_BYTES) / MAP_ENTRY_BYTES)
        return ea_fail(err, EA_ECORRUPT, "map of an event: it ends inside its entries");
    int is_flags = (flags & (MAP_MANIFEST_BITS | MAP_WBEM_BITS | MAP_WBEM_FLAG)) != 0;
    ea_enum map = {.name = event_info_text_at(&in, 0), .is_flags = is_flags, .count = count};
    ea_map_entry *entries = ea_arena_zalloc(arena, (size_t)count + 1, sizeof *entries);
    if (!map.name || !entries)
        return ea_fail(err, EA_ECORRUPT, "map of an event: its name is outside of it");
    for (uint32_t i = 0; i < count; i++) {
        size_t at = MAP_HEAD_BYTES + (size_t)i * MAP_ENTRY_BYTES;
        uint64_t place = !is_flags ? i : i < 64 ? UINT64_C(1) << i : 0;
        entries[i] =
            (ea_map_entry){flags & MAP_WBEM_NO_VALUES ? place : ea_load32(data + at + 4), event_info_text_at(&in, at)};
        if (!entries[i].name)
            return ea_fail(err, EA_ECORRUPT, "map of an event: a name is outside of it");
    }
    map.entries = entries;
    *ret = map;
    return 0;
}
