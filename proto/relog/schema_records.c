/* See schema_records.h. */
#include "proto/relog/schema_records.h"

#include "proto/base/provider_guids.h"
#include "proto/event/tdh_types.h"

#include <string.h>

enum {
    INFO_OPCODE = 32,
    MAP_OPCODE = 33,
    GUID_BYTES = 16,
    INFO_HEAD_BYTES = 112,
    PROPERTY_BYTES = 24,
    PROPERTIES_MAX = 128,
    MAP_HEAD_BYTES = 16,
    MAP_ENTRY_BYTES = 8,
    MAP_VALUES = 1,
    MAP_BITS = 2,
    PROPERTY_STRUCT = 0x01,
    PROPERTY_PARAM_LENGTH = 0x02,
    PROPERTY_PARAM_COUNT = 0x04,
    PROPERTY_FIXED_LENGTH = 0x10,
    PAYLOAD_MAX_BYTES = 65000, /* with any header it is a record */
};

static const ea_guid META_DATA = EA_PROVIDER_META_DATA;

/* How Windows calls a field's type. has_length: the elements of the field are those of one value. */
typedef struct schema_type {
    uint16_t in, out;
    int has_length;
} schema_type;

static uint16_t out_of_semantic(uint8_t semantic) {
    switch (semantic) {
    case EA_SEM_PID:
        return EA_OUT_PID;
    case EA_SEM_TID:
        return EA_OUT_TID;
    case EA_SEM_NTSTATUS:
        return EA_OUT_NTSTATUS;
    case EA_SEM_WIN32_ERROR:
        return EA_OUT_WIN32_ERROR;
    case EA_SEM_HRESULT:
        return EA_OUT_HRESULT;
    default:
        return EA_OUT_NULL;
    }
}

/* 1 and *ret, or 0: none does. */
static int schema_type_of(const ea_field *f, schema_type *ret) {
    static const struct {
        uint8_t type;
        schema_type is;
    } TYPES[] = {
        {EA_U8, {EA_IN_UINT8, 0, 0}},
        {EA_I8, {EA_IN_INT8, 0, 0}},
        {EA_U16, {EA_IN_UINT16, 0, 0}},
        {EA_I16, {EA_IN_INT16, 0, 0}},
        {EA_U32, {EA_IN_UINT32, 0, 0}},
        {EA_I32, {EA_IN_INT32, 0, 0}},
        {EA_U64, {EA_IN_UINT64, 0, 0}},
        {EA_I64, {EA_IN_INT64, 0, 0}},
        {EA_F32, {EA_IN_FLOAT, 0, 0}},
        {EA_F64, {EA_IN_DOUBLE, 0, 0}},
        {EA_BOOL8, {EA_IN_UINT8, EA_OUT_BOOLEAN, 0}},
        {EA_BOOL32, {EA_IN_BOOLEAN, 0, 0}},
        {EA_HEX8, {EA_IN_UINT8, EA_OUT_HEXINT8, 0}},
        {EA_HEX16, {EA_IN_UINT16, EA_OUT_HEXINT16, 0}},
        {EA_HEX32, {EA_IN_HEXINT32, 0, 0}},
        {EA_HEX64, {EA_IN_HEXINT64, 0, 0}},
        {EA_POINTER, {EA_IN_POINTER, 0, 0}},
        {EA_SIZE, {EA_IN_SIZET, 0, 0}},
        {EA_GUID, {EA_IN_GUID, 0, 0}},
        {EA_FILETIME, {EA_IN_FILETIME, 0, 0}},
        {EA_SYSTEMTIME, {EA_IN_SYSTEMTIME, 0, 0}},
        {EA_IPV4, {EA_IN_UINT32, EA_OUT_IPV4, 0}},
        {EA_IPV6, {EA_IN_BINARY, EA_OUT_IPV6, 0}},
        {EA_PORT, {EA_IN_UINT16, EA_OUT_PORT, 0}},
        {EA_CHAR8, {EA_IN_UINT8, EA_OUT_STRING, 0}},
        {EA_CHAR16, {EA_IN_UINT16, EA_OUT_STRING, 0}},
        {EA_UTF16Z, {EA_IN_UNICODE_STRING, 0, 0}},
        {EA_ANSIZ, {EA_IN_ANSI_STRING, 0, 0}},
        {EA_UTF8Z, {EA_IN_ANSI_STRING, EA_OUT_UTF8, 0}},
        {EA_UTF16_COUNTED, {EA_IN_COUNTED_UNICODE, 0, 0}},
        {EA_ANSI_COUNTED, {EA_IN_COUNTED_ANSI, 0, 0}},
        {EA_UTF8_COUNTED, {EA_IN_COUNTED_ANSI, EA_OUT_UTF8, 0}},
        {EA_UTF16_FIXED, {EA_IN_UNICODE_STRING, 0, 1}},
        {EA_ANSI_FIXED, {EA_IN_ANSI_STRING, 0, 1}},
        {EA_UTF8_FIXED, {EA_IN_ANSI_STRING, EA_OUT_UTF8, 1}},
        {EA_SID, {EA_IN_SID, 0, 0}},
        {EA_BYTES, {EA_IN_BINARY, 0, 1}},
    };

    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i].type == f->type) {
            *ret = TYPES[i].is;
            if (f->type == EA_BYTES && f->semantic == EA_SEM_SOCKET_ADDRESS)
                ret->out = EA_OUT_SOCKET_ADDRESS;
            if (f->type == EA_U32 || f->type == EA_HEX32)
                ret->out = out_of_semantic(f->semantic);
            return f->type != EA_BYTES || f->count_field >= 0 || f->count != EA_COUNT_REST;
        }
    return 0;
}

/* ---- texts ---- */

static void schema_records_put_zeros(ea_text *t, size_t n) {
    for (size_t i = 0; i < n; i++)
        ea_text_char(t, 0);
}

/* Appends UTF-16 with its NUL; its offset goes to where ("" has the offset 0). base: where offsets count from. */
static void schema_records_put_name(ea_text *t, size_t base, size_t where, const char *text) {
    size_t len_bytes = strlen(text), at = t->len_bytes, n = ea_utf8_to_utf16(text, len_bytes, NULL, 0);
    if (!n)
        return;
    schema_records_put_zeros(t, n + 2);
    if (t->failed)
        return;
    ea_utf8_to_utf16(text, len_bytes, t->data + at, n);
    ea_store32(t->data + where, (uint32_t)(at - base));
}

/* ---- maps ---- */

static void put_map(ea_text *t, const ea_class *c, const ea_enum *map) {
    ea_text_add(t, c->provider.bytes, GUID_BYTES);
    schema_records_put_zeros(t, MAP_HEAD_BYTES + map->count * MAP_ENTRY_BYTES);
    if (t->failed)
        return;
    char *head = t->data + GUID_BYTES;
    ea_store32(head + 4, map->is_flags ? MAP_BITS : MAP_VALUES);
    ea_store32(head + 8, (uint32_t)map->count);
    for (size_t i = 0; i < map->count && !t->failed; i++) {
        size_t at = GUID_BYTES + MAP_HEAD_BYTES + i * MAP_ENTRY_BYTES;
        ea_store32(t->data + at + 4, (uint32_t)map->entries[i].value);
        schema_records_put_name(t, GUID_BYTES, at, map->entries[i].name);
    }
    if (!t->failed)
        schema_records_put_name(t, GUID_BYTES, GUID_BYTES, map->name);
}

/* A map has 32 bits, a name of its own and names of values. */
static int is_map(const ea_enum *map) {
    if (!map || !map->name || !*map->name || map->count > PAYLOAD_MAX_BYTES / MAP_ENTRY_BYTES)
        return 0;
    for (size_t i = 0; i < map->count; i++)
        if (map->entries[i].value > UINT32_MAX || !*map->entries[i].name)
            return 0;
    return 1;
}

/* The first field of its map: of several, the map is written once. */
static int brings_map(const ea_class *c, size_t field) {
    const ea_enum *map = c->fields[field].map;
    for (size_t i = 0; i < field; i++)
        if (c->fields[i].map == map)
            return 0;
    return is_map(map);
}

/* ---- an event's information ---- */

/* Top-level fields come first, then the members of each structure; both ways. */
typedef struct property_order {
    uint16_t fields[PROPERTIES_MAX]; /* of properties */
    uint16_t places[EA_FIELDS_MAX];  /* of fields */
    size_t count;
} property_order;

static void add_in_order(property_order *o, const ea_class *c, size_t first, size_t end) {
    for (size_t at = first; at < end; at += c->fields[at].span) {
        o->places[at] = (uint16_t)o->count;
        o->fields[o->count++] = (uint16_t)at;
    }
}

static int can_describe(const ea_class *c) {
    if (c->classic || c->unfolded || c->kind != EA_KIND_EVENT || c->status != EA_CLASS_KNOWN ||
        c->field_count > PROPERTIES_MAX)
        return 0;
    for (size_t i = 0; i < c->field_count; i++) {
        const ea_field *f = &c->fields[i];
        schema_type type;
        if (f->hidden || f->optional || !*f->name || (f->type != EA_STRUCT && !schema_type_of(f, &type)) ||
            (f->count_field < 0 && f->count == EA_COUNT_REST))
            return 0;
    }
    return 1;
}

static void put_property(ea_text *t, const ea_class *c, const property_order *o, size_t place) {
    const ea_field *f = &c->fields[o->fields[place]];
    size_t at = INFO_HEAD_BYTES + place * PROPERTY_BYTES;
    schema_type type = {0, 0, 0};
    uint32_t flags = 0;
    uint16_t count = 1, length = f->width;
    if (f->type == EA_STRUCT)
        flags = PROPERTY_STRUCT;
    else
        (void)schema_type_of(f, &type);
    uint16_t elements = f->count_field >= 0 ? o->places[f->count_field] : f->count;
    if (type.has_length) {
        length = elements;
        flags |= f->count_field >= 0 ? PROPERTY_PARAM_LENGTH : PROPERTY_FIXED_LENGTH;
    } else {
        count = elements;
        flags |= f->count_field >= 0 ? PROPERTY_PARAM_COUNT : 0;
        flags |= f->type == EA_IPV6 ? PROPERTY_FIXED_LENGTH : 0;
    }
    char *p = t->data + at;
    ea_store32(p, flags);
    ea_store16(p + 8, f->type == EA_STRUCT ? o->places[o->fields[place] + 1] : type.in);
    ea_store16(p + 10, f->type == EA_STRUCT ? f->child_count : type.out);
    ea_store16(p + 16, count);
    ea_store16(p + 18, f->type == EA_STRUCT ? 0 : length);
    schema_records_put_name(t, 0, at + 4, f->name);
    if (!t->failed && is_map(f->map))
        schema_records_put_name(t, 0, at + 12, f->map->name);
}

static void put_info(ea_text *t, const ea_class *c, const ea_record *r, const property_order *o) {
    const ea_class_notes *n = c->notes;
    const char *slash = strchr(c->name, '/');
    size_t task_bytes = slash ? (size_t)(slash - c->name) : strlen(c->name);
    char task[256];
    schema_records_put_zeros(t, INFO_HEAD_BYTES + o->count * PROPERTY_BYTES);
    if (t->failed)
        return;
    char *p = t->data;
    memcpy(p, c->provider.bytes, GUID_BYTES);
    ea_store16(p + 32, c->code);
    p[34] = (char)c->version;
    p[35] = (char)r->channel;
    p[36] = (char)r->level;
    p[37] = (char)r->opcode;
    ea_store16(p + 38, r->task);
    ea_store64(p + 40, r->keyword);
    ea_store32(p + 100, (uint32_t)o->count);
    ea_store32(p + 104, c->top_count);
    task_bytes = task_bytes < sizeof task ? task_bytes : sizeof task - 1;
    memcpy(task, c->name, task_bytes);
    task[task_bytes] = 0;

    const struct {
        size_t at;
        const char *text;
    } texts[] = {{52, c->provider_name},       {56, n ? n->level : ""},  {60, n ? n->channel : ""}, {68, task},
                 {72, slash ? slash + 1 : ""}, {76, n ? n->message : ""}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts && !t->failed; i++)
        schema_records_put_name(t, 0, texts[i].at, texts[i].text);
    for (size_t i = 0; i < o->count && !t->failed; i++)
        put_property(t, c, o, i);
}

/* ---- records ---- */

/* 0 when it is too large. */
static int give_record(const ea_text *t, const ea_record *r, uint8_t opcode,
                       int (*write)(void *arg, const ea_record *record), void *arg) {
    const ea_record record = {.provider = META_DATA,
                              .opcode = opcode,
                              .flags = EA_FLAG_CLASSIC_HEADER |
                                       (r->pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER),
                              .header_type = r->pointer_size == 4 ? EA_HEADER_FULL32 : EA_HEADER_FULL64,
                              .pointer_size = r->pointer_size,
                              .time_raw = r->time_raw,
                              .pid = UINT32_MAX,
                              .tid = UINT32_MAX,
                              .cpu = r->cpu,
                              .payload = (const uint8_t *)t->data,
                              .payload_bytes = (uint16_t)t->len_bytes};
    return write(arg, &record);
}

int ea_schema_records(const ea_class *c, const ea_record *r, int (*write)(void *arg, const ea_record *record),
                      void *arg, int *ret_written, ea_err *err) {
    property_order order = {.count = 0};
    ea_text info, map;
    int rc = 0;
    *ret_written = 0;
    if (!can_describe(c))
        return 0;
    add_in_order(&order, c, 0, c->field_count);
    for (size_t i = 0; i < order.count; i++) /* it grows meanwhile */
        if (c->fields[order.fields[i]].type == EA_STRUCT)
            add_in_order(&order, c, order.fields[i] + 1u, (size_t)order.fields[i] + c->fields[order.fields[i]].span);
    ea_text_init(&info);
    ea_text_init(&map);
    put_info(&info, c, r, &order);
    int fits = info.len_bytes <= PAYLOAD_MAX_BYTES;
    for (size_t i = 0; !rc && !info.failed && fits && i < c->field_count; i++) {
        if (!brings_map(c, i))
            continue;
        ea_text_clear(&map);
        put_map(&map, c, c->fields[i].map);
        rc = map.failed                           ? ea_fail(err, EA_ENOMEM, "schemas")
             : map.len_bytes <= PAYLOAD_MAX_BYTES ? give_record(&map, r, MAP_OPCODE, write, arg)
                                                  : 0;
    }
    if (!rc && info.failed)
        rc = ea_fail(err, EA_ENOMEM, "schemas");
    if (!rc && fits) {
        rc = give_record(&info, r, INFO_OPCODE, write, arg);
        *ret_written = !rc;
    }
    ea_text_deinit(&info);
    ea_text_deinit(&map);
    return rc;
}
