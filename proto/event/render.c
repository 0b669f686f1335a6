/* Rendering. See render.h. One writer for all three forms: a style says how strings are quoted and things are joined.
 * Everything that came from an event passes an escaping function on its way out. */
#include "render.h"

#include "ntstatus.h"
#include "tracelogging.h"
#include "value.h"

enum form {
    JSON,
    PLAIN /* text */,
    BARE,   /* text whose strings have no quotes: the caller escapes it */
    MESSAGE /* the same inside a sentence: names instead of numbers that have one */
};

/* How values look, and what is known beside the record; resolver and clock are NULL where values stay bare. */
typedef struct style {
    enum form form;
    const ea_resolver *resolver;
    const ea_clock *clock;
    const ea_record *record;
    int64_t utc_ns; /* of the record */
} style;

const char *ea_header_type_name(uint8_t header_type) {
    switch (header_type) {
    case EA_HEADER_NONE:
        return "NONE";
    case EA_HEADER_SYSTEM32:
        return "SYSTEM32";
    case EA_HEADER_SYSTEM64:
        return "SYSTEM64";
    case EA_HEADER_COMPACT32:
        return "COMPACT32";
    case EA_HEADER_COMPACT64:
        return "COMPACT64";
    case EA_HEADER_FULL32:
        return "FULL32";
    case EA_HEADER_INSTANCE32:
        return "INSTANCE32";
    case EA_HEADER_MESSAGE:
        return "MESSAGE";
    case EA_HEADER_PERFINFO32:
        return "PERFINFO32";
    case EA_HEADER_PERFINFO64:
        return "PERFINFO64";
    case EA_HEADER_EVENT32:
        return "EVENT32";
    case EA_HEADER_EVENT64:
        return "EVENT64";
    case EA_HEADER_FULL64:
        return "FULL64";
    case EA_HEADER_INSTANCE64:
        return "INSTANCE64";
    default:
        return "";
    }
}

const char *ea_ext_type_name(uint16_t type) {
    static const char *const names[] = {
        [EA_EXT_RELATED_ACTIVITY_ID] = "RELATED_ACTIVITY_ID",
        [EA_EXT_SID] = "SID",
        [EA_EXT_TS_ID] = "TS_ID",
        [EA_EXT_INSTANCE_INFO] = "INSTANCE_INFO",
        [EA_EXT_STACK_TRACE32] = "STACK_TRACE32",
        [EA_EXT_STACK_TRACE64] = "STACK_TRACE64",
        [EA_EXT_PEBS_INDEX] = "PEBS_INDEX",
        [EA_EXT_PMC_COUNTERS] = "PMC_COUNTERS",
        [EA_EXT_PSM_KEY] = "PSM_KEY",
        [EA_EXT_EVENT_KEY] = "EVENT_KEY",
        [EA_EXT_SCHEMA_TL] = "EVENT_SCHEMA_TL",
        [EA_EXT_PROV_TRAITS] = "PROV_TRAITS",
        [EA_EXT_PROCESS_START_KEY] = "PROCESS_START_KEY",
        [EA_EXT_CONTROL_GUID] = "CONTROL_GUID",
        [EA_EXT_QPC_DELTA] = "QPC_DELTA",
        [EA_EXT_CONTAINER_ID] = "CONTAINER_ID",
        [EA_EXT_STACK_KEY32] = "STACK_KEY32",
        [EA_EXT_STACK_KEY64] = "STACK_KEY64",
    };
    if (type == EA_EXT_WPP_SEQUENCE)
        return "WPP_SEQUENCE";
    if (type == EA_EXT_WPP_COMPONENT)
        return "WPP_COMPONENT";
    return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "";
}

/* ---- values ---- */

/* Text that is ASCII and needs no escape in any style. */
static void put_symbol(ea_text *out, const style *how, const char *s) {
    if (how->form == JSON)
        ea_text_char(out, '"');
    ea_text_str(out, s);
    if (how->form == JSON)
        ea_text_char(out, '"');
}

static void put_hex(ea_text *out, const style *how, uint64_t v) {
    if (how->form == JSON)
        ea_text_char(out, '"');
    ea_text_hex64(out, v);
    if (how->form == JSON)
        ea_text_char(out, '"');
}

static void put_bytes(ea_text *out, const style *how, const uint8_t *data, size_t len_bytes) {
    if (how->form == JSON)
        ea_text_char(out, '"');
    ea_text_hex(out, data, len_bytes);
    if (how->form == JSON)
        ea_text_char(out, '"');
}

/* UTF-8 from outside. */
static void put_text(ea_text *out, const style *how, const char *s, size_t len_bytes) {
    if (how->form == BARE || how->form == MESSAGE) {
        ea_text_add(out, s, len_bytes);
        return;
    }
    ea_text_char(out, '"');
    if (how->form == JSON)
        ea_text_json(out, s, len_bytes);
    else
        ea_text_safe(out, s, len_bytes);
    ea_text_char(out, '"');
}

static void put_name(ea_text *out, const style *how, const char *s) {
    if (how->form == JSON)
        ea_text_json_str(out, s);
    else if (how->form == PLAIN)
        ea_text_safe(out, s, strlen(s));
    else
        ea_text_str(out, s);
}

/* Paths and names are nearly always printable ASCII: they go straight into a JSON string. Returns how many of the bytes
 * it took; the rest, from the first other character on, goes the long way. */
static size_t put_ascii_utf16(ea_text *out, const uint8_t *p, size_t len_bytes) {
    char chunk[128];
    size_t at = 0, n = 0;
    for (; at + 2 <= len_bytes; at += 2) {
        uint16_t u = ea_load16(p + at);
        if (u < 0x20 || u > 0x7e)
            break;
        if (n + 2 > sizeof chunk) {
            ea_text_add(out, chunk, n);
            n = 0;
        }
        if (u == '"' || u == '\\')
            chunk[n++] = '\\';
        chunk[n++] = (char)u;
    }
    ea_text_add(out, chunk, n);
    return at;
}

/* A path with the drive letter of its volume: 1 when it was written. */
static int put_resolved_path(ea_text *out, const style *how, const ea_field *f, const ea_slice *slice) {
    ea_text path, resolved;
    ea_text_init(&path);
    ea_text_init(&resolved);
    int known = ea_value_text(f, slice, &path) && path.len_bytes && path.data[0] == '\\' &&
                how->resolver->path(how->resolver->arg, path.data, path.len_bytes, &resolved) && resolved.len_bytes;
    if (known && how->form == JSON) {
        ea_text_str(out, "{\"value\":");
        put_text(out, how, path.data, path.len_bytes);
        ea_text_str(out, ",\"name\":");
    }
    if (known)
        put_text(out, how, resolved.data, resolved.len_bytes);
    if (known && how->form == JSON)
        ea_text_char(out, '}');
    out->failed |= path.failed | resolved.failed;
    ea_text_deinit(&path);
    ea_text_deinit(&resolved);
    return known;
}

static void put_string_field(ea_text *out, const style *how, const ea_field *f, const ea_slice *slice) {
    ea_text scratch;
    ea_slice rest = *slice;
    if (how->resolver && f->semantic == EA_SEM_PATH && put_resolved_path(out, how, f, slice))
        return;
    if (how->form == JSON && (f->type == EA_UTF16Z || f->type == EA_UTF16_FIXED)) {
        ea_text_char(out, '"');
        size_t took = put_ascii_utf16(out, slice->data, slice->len_bytes);
        rest.data += took;
        rest.len_bytes -= (uint32_t)took;
        if (rest.len_bytes >= 2 && ea_load16(rest.data)) {
            ea_text_init(&scratch);
            ea_value_text(f, &rest, &scratch);
            ea_text_json(out, scratch.data, scratch.len_bytes);
            out->failed |= scratch.failed;
            ea_text_deinit(&scratch);
        }
        ea_text_char(out, '"');
        return;
    }
    ea_text_init(&scratch);
    ea_value_text(f, slice, &scratch);
    put_text(out, how, scratch.len_bytes ? scratch.data : "", scratch.len_bytes);
    out->failed |= scratch.failed;
    ea_text_deinit(&scratch);
}

static void put_flags(ea_text *out, const ea_enum *map, uint64_t v) {
    int first = 1;
    uint64_t left = v;
    for (size_t i = 0; i < map->count; i++) {
        uint64_t bit = map->entries[i].value;
        if (v == bit || (bit && (left & bit) == bit)) {
            if (!first)
                ea_text_char(out, '|');
            ea_text_str(out, map->entries[i].name);
            first = 0;
            left &= ~bit;
        }
    }
    if (left) {
        if (!first)
            ea_text_char(out, '|');
        ea_text_hex64(out, left);
    }
}

static int is_signed(uint8_t type) {
    return type == EA_I8 || type == EA_I16 || type == EA_I32 || type == EA_I64;
}

static void put_number(ea_text *out, const style *how, const ea_field *f, uint64_t v) {
    switch (f->type) {
    case EA_HEX8:
    case EA_HEX16:
    case EA_HEX32:
    case EA_HEX64:
    case EA_POINTER:
        put_hex(out, how, v);
        break;
    case EA_BOOL8:
    case EA_BOOL32:
        if (v <= 1)
            ea_text_str(out, v ? "true" : "false");
        else
            ea_text_u64(out, v);
        break;
    default:
        if (is_signed(f->type))
            ea_text_i64(out, (int64_t)v);
        else
            ea_text_u64(out, v);
    }
}

/* {"value": ..., "<key>": ...}, and for a person the name with the number behind it. name: NULL for none. */
static void put_named_number(ea_text *out, const style *how, const ea_field *f, uint64_t v, const char *name) {
    if (how->form == JSON) {
        ea_text_str(out, "{\"value\":");
        put_number(out, how, f, v);
        ea_text_str(out, ",\"name\":");
        ea_text_json_str(out, name);
        ea_text_char(out, '}');
    } else if (name && *name && how->form == MESSAGE) {
        ea_text_str(out, name);
    } else if (name && *name) {
        put_name(out, how, name);
        ea_text_char(out, '(');
        put_number(out, how, f, v);
        ea_text_char(out, ')');
    } else {
        put_number(out, how, f, v);
    }
}

/* Of a value map; NULL when the value has none. */
static const char *mapped_name(const ea_field *f, uint64_t v) {
    const ea_enum *map = f->map;
    for (size_t i = 0; i < map->count && !map->is_flags; i++)
        if (map->entries[i].value == v || (is_signed(f->type) && (int64_t)map->entries[i].value == (int64_t)v))
            return map->entries[i].name;
    return NULL;
}

static void put_mapped(ea_text *out, const style *how, const ea_field *f, uint64_t v) {
    const ea_enum *map = f->map;
    const char *name = mapped_name(f, v);
    ea_text flags;
    ea_text_init(&flags);
    if (map->is_flags) {
        put_flags(&flags, map, v);
        name = flags.len_bytes ? flags.data : "";
    }
    put_named_number(out, how, f, v, name);
    out->failed |= flags.failed;
    ea_text_deinit(&flags);
}

/* A time or a duration beside the number that Windows wrote. */
static void put_measured(ea_text *out, const style *how, const ea_field *f, uint64_t v) {
    if (how->form == JSON) {
        ea_text_str(out, "{\"value\":");
        put_number(out, how, f, v);
        ea_text_str(out, f->semantic == EA_SEM_DURATION_QPC ? ",\"ns\":" : ",\"time\":\"");
    }
    if (f->semantic == EA_SEM_DURATION_QPC) {
        int64_t zero = ea_clock_to_utc_ns(how->clock, how->clock->base_raw);
        int64_t ticks = v > INT64_MAX ? INT64_MAX : (int64_t)v;
        int64_t raw = ticks > INT64_MAX - how->clock->base_raw ? INT64_MAX : how->clock->base_raw + ticks;
        int64_t then = ea_clock_to_utc_ns(how->clock, raw);
        ea_text_u64(out, (uint64_t)then - (uint64_t)zero);
        if (how->form != JSON)
            ea_text_str(out, "ns");
    } else if (f->semantic == EA_SEM_UNIX_TIME) {
        ea_text_utc_ns(out, (int64_t)(uint32_t)v * 1000000000);
    } else {
        ea_text_utc_ns(out, ea_clock_to_utc_ns(how->clock, v > INT64_MAX ? INT64_MAX : (int64_t)v));
    }
    if (how->form == JSON) {
        ea_text_str(out, f->semantic == EA_SEM_DURATION_QPC ? "}" : "\"}");
    } else {
        ea_text_char(out, '(');
        put_number(out, how, f, v);
        ea_text_char(out, ')');
    }
}

/* What another event called this number: 1 when it was appended. */
static int resolve(ea_text *name, const style *how, const ea_class *c, const ea_field *f, uint64_t v) {
    uint64_t key;
    int known = v && how->resolver->number(how->resolver->arg, f->semantic, v, how->utc_ns, name);
    if (!known && f->semantic == EA_SEM_FILE_OBJECT && ea_event_u64(c, how->record, "FileKey", &key) && key)
        known = how->resolver->number(how->resolver->arg, EA_SEM_FILE_KEY, key, how->utc_ns, name);
    return known;
}

/* The same beside the number: 1 when it was written. */
static int put_resolved(ea_text *out, const style *how, const ea_class *c, const ea_field *f, uint64_t v) {
    ea_text name;
    ea_text_init(&name);
    int known = resolve(&name, how, c, f, v);
    if (known && name.len_bytes)
        put_named_number(out, how, f, v, name.data);
    else
        known = 0;
    out->failed |= name.failed;
    ea_text_deinit(&name);
    return known;
}

static void put_integer(ea_text *out, const style *how, const ea_class *c, const ea_field *f, uint64_t v) {
    if (f->map) {
        put_mapped(out, how, f, v);
        return;
    }
    if (f->semantic == EA_SEM_NTSTATUS) {
        put_named_number(out, how, f, v, ea_ntstatus_name((uint32_t)v));
        return;
    }
    if (how->resolver) {
        switch (f->semantic) {
        case EA_SEM_FILE_OBJECT:
        case EA_SEM_FILE_KEY:
        case EA_SEM_KCB:
            if (put_resolved(out, how, c, f, v))
                return;
            break;
        case EA_SEM_QPC:
        case EA_SEM_DURATION_QPC:
        case EA_SEM_UNIX_TIME:
            put_measured(out, how, f, v);
            return;
        default:
            break;
        }
    }
    put_number(out, how, f, v);
}

static void put_float(ea_text *out, const style *how, double v, int digits) {
    if (v != v)
        put_symbol(out, how, "NaN");
    else if (v - v != 0)
        put_symbol(out, how, v > 0 ? "Infinity" : "-Infinity");
    else
        ea_text_printf(out, "%.*g", digits, v);
}

/* RFC 5952: lower case, the longest run of zero groups as "::". */
static void put_ipv6(ea_text *out, const uint8_t *p) {
    int best = -1, best_len = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (i + n < 8 && p[2 * (i + n)] == 0 && p[2 * (i + n) + 1] == 0)
            n++;
        if (n > best_len) {
            best = i;
            best_len = n;
        }
    }
    for (int i = 0; i < 8; i++) {
        if (i == best) {
            ea_text_str(out, "::");
            i += best_len - 1;
            continue;
        }
        if (i && i != best + best_len)
            ea_text_char(out, ':');
        ea_text_printf(out, "%x", (unsigned)(p[2 * i] << 8 | p[2 * i + 1]));
    }
}

static void put_struct(ea_text *out, const style *how, const ea_class *c, size_t field, const uint8_t *p, size_t len,
                       size_t *ret_used);

/* One element; p has as many bytes as its type has, or len bytes when that varies. */
static void put_element(ea_text *out, const style *how, const ea_class *c, size_t field, const uint8_t *p, size_t len,
                        size_t *ret_used) {
    const ea_field *f = &c->fields[field];
    uint64_t v;
    *ret_used = f->width;
    switch (f->type) {
    case EA_F32: {
        float x;
        memcpy(&x, p, sizeof x);
        put_float(out, how, (double)x, 9);
        return;
    }
    case EA_F64: {
        double x;
        memcpy(&x, p, sizeof x);
        put_float(out, how, x, 17);
        return;
    }
    case EA_GUID: {
        char text[37];
        ea_guid g;
        memcpy(&g, p, sizeof g);
        ea_guid_format(&g, text);
        if (how->form == MESSAGE)
            ea_text_printf(out, "{%s}", text);
        else
            put_symbol(out, how, text);
        return;
    }
    case EA_FILETIME:
        if (how->form == JSON)
            ea_text_char(out, '"');
        ea_text_utc_ns(out, ea_filetime_to_utc_ns((int64_t)ea_load64(p)));
        if (how->form == JSON)
            ea_text_char(out, '"');
        return;
    case EA_SYSTEMTIME: { /* year, month, day of week, day, hour, minute, second, millisecond; no time zone */
        char text[64];
        snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%03u", ea_load16(p), ea_load16(p + 2),
                 ea_load16(p + 6), ea_load16(p + 8), ea_load16(p + 10), ea_load16(p + 12), ea_load16(p + 14));
        put_symbol(out, how, text);
        return;
    }
    case EA_IPV4:
    case EA_IPV6:
        if (how->form == JSON)
            ea_text_char(out, '"');
        if (f->type == EA_IPV6)
            put_ipv6(out, p);
        else
            ea_text_printf(out, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
        if (how->form == JSON)
            ea_text_char(out, '"');
        return;
    case EA_STRUCT:
        put_struct(out, how, c, field, p, len, ret_used);
        return;
    default:
        if (ea_value_u64(f, p, &v))
            put_integer(out, how, c, f, v);
        else
            put_bytes(out, how, p, f->width);
    }
}

/* Bytes of one string or SID in an array of them: the split has found it whole, so its end is inside len. */
static size_t varying_bytes(const ea_class *c, size_t field, const uint8_t *p, size_t len) {
    const ea_field *f = &c->fields[field];
    size_t n = 0;
    switch (f->type) {
    case EA_UTF16Z:
        while (n + 2 <= len && ea_load16(p + n))
            n += 2;
        return n + 2 <= len ? n + 2 : n;
    case EA_ANSIZ:
    case EA_UTF8Z:
        while (n < len && p[n])
            n++;
        return n < len ? n + 1 : n;
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        return len >= 2 && (size_t)2 + ea_load16(p) <= len ? (size_t)2 + ea_load16(p) : len;
    case EA_WBEM_SID:
        if (len >= 4 && ea_load32(p) == 0)
            return 4;
        n = (size_t)2 * c->pointer_size;
        break;
    default:
        break;
    }
    n = n + 8 <= len ? n + 8 + (size_t)4 * p[n + 1] : len;
    return n <= len ? n : len;
}

static void put_varying(ea_text *out, const style *how, const ea_class *c, size_t field, const ea_slice *slice) {
    const ea_field *f = &c->fields[field];
    if (f->type == EA_SID || f->type == EA_WBEM_SID) {
        if (how->form == JSON)
            ea_text_char(out, '"');
        size_t before = out->len_bytes;
        if (ea_value_sid(f, c->pointer_size, slice, out)) {
            if (how->form == JSON)
                ea_text_char(out, '"');
        } else if (!out->failed) {
            out->len_bytes = before - (how->form == JSON);
            ea_text_str(out, how->form == JSON ? "null" : "");
        }
    } else {
        put_string_field(out, how, f, slice);
    }
}

/* SOCKADDR_IN and SOCKADDR_IN6 of Windows: family (little-endian), port and address in network byte order; IPv6 has
 * four bytes of flow between them. Source: ws2def.h, ws2ipdef.h. 1 when it was one. */
static int put_socket_address(ea_text *out, const uint8_t *p, size_t len) {
    enum { AF_INET_WINDOWS = 2, AF_INET6_WINDOWS = 23 };
    unsigned port = len >= 4 ? (unsigned)(p[2] << 8 | p[3]) : 0;
    if (len >= 8 && ea_load16(p) == AF_INET_WINDOWS) {
        ea_text_printf(out, "%u.%u.%u.%u:%u", p[4], p[5], p[6], p[7], port);
        return 1;
    }
    if (len >= 24 && ea_load16(p) == AF_INET6_WINDOWS) {
        ea_text_char(out, '[');
        put_ipv6(out, p + 8);
        if (len >= 28 && ea_load32(p + 24))
            ea_text_printf(out, "%%%lu", (unsigned long)ea_load32(p + 24));
        ea_text_printf(out, "]:%u", port);
        return 1;
    }
    return 0;
}

static void put_address_or_bytes(ea_text *out, const style *how, const ea_slice *slice) {
    ea_text name;
    ea_text_init(&name);
    int known = put_socket_address(&name, slice->data, slice->len_bytes);
    if (known && how->form == JSON) {
        ea_text_str(out, "{\"value\":");
        put_bytes(out, how, slice->data, slice->len_bytes);
        ea_text_str(out, ",\"name\":");
    }
    if (known)
        put_symbol(out, how, name.data);
    else
        put_bytes(out, how, slice->data, slice->len_bytes);
    if (known && how->form == JSON)
        ea_text_char(out, '}');
    out->failed |= name.failed;
    ea_text_deinit(&name);
}

static void put_value(ea_text *out, const style *how, const ea_class *c, size_t field, const ea_slice *slice) {
    const ea_field *f = &c->fields[field];
    size_t used;
    if (f->type == EA_BYTES && f->semantic == EA_SEM_IP && (slice->len_bytes == 4 || slice->len_bytes == 16)) {
        ea_text address;
        ea_text_init(&address);
        if (slice->len_bytes == 16)
            put_ipv6(&address, slice->data);
        else
            ea_text_printf(&address, "%u.%u.%u.%u", slice->data[0], slice->data[1], slice->data[2], slice->data[3]);
        put_symbol(out, how, address.data ? address.data : "");
        out->failed |= address.failed;
        ea_text_deinit(&address);
        return;
    }
    if (f->type == EA_BYTES && f->semantic == EA_SEM_SOCKET_ADDRESS) {
        put_address_or_bytes(out, how, slice);
        return;
    }
    if (f->type == EA_BYTES) {
        put_bytes(out, how, slice->data, slice->len_bytes);
        return;
    }
    int text = f->type == EA_UTF16_FIXED || f->type == EA_ANSI_FIXED || f->type == EA_UTF8_FIXED ||
               f->type == EA_CHAR16 || f->type == EA_CHAR8;
    if (text) {
        put_string_field(out, how, f, slice);
        return;
    }
    int array = f->count_field >= 0 || f->count != 1;
    if (!array) {
        if (f->width || f->type == EA_STRUCT)
            put_element(out, how, c, field, slice->data, slice->len_bytes, &used);
        else
            put_varying(out, how, c, field, slice);
        return;
    }
    ea_text_char(out, '[');
    const uint8_t *p = slice->data;
    size_t left = slice->len_bytes;
    for (uint32_t i = 0; i < slice->element_count; i++) {
        if (i)
            ea_text_char(out, how->form == JSON ? ',' : ' ');
        if (f->width || f->type == EA_STRUCT) {
            put_element(out, how, c, field, p, left, &used);
        } else {
            used = varying_bytes(c, field, p, left);
            put_varying(out, how, c, field, &(ea_slice){p, (uint32_t)used, 1});
        }
        p += used;
        left -= used;
    }
    ea_text_char(out, ']');
}

static void put_struct(ea_text *out, const style *how, const ea_class *c, size_t field, const uint8_t *p, size_t len,
                       size_t *ret_used) {
    ea_slice members[255];
    size_t whole = ea_class_split_element(c, field, p, len, members, ret_used), at = field + 1;
    int first = 1;
    ea_text_char(out, '{');
    for (size_t i = 0; i < whole; i++, at += c->fields[at].span) {
        if (c->fields[at].hidden)
            continue;
        if (!first)
            ea_text_char(out, how->form == JSON ? ',' : ' ');
        first = 0;
        put_name(out, how, c->fields[at].name);
        ea_text_char(out, how->form == JSON ? ':' : '=');
        put_value(out, how, c, at, &members[i]);
    }
    ea_text_char(out, '}');
}

void ea_render_field_json(ea_text *out, const ea_class *c, size_t field, const ea_slice *slice) {
    static const style BARE_VALUES = {.form = JSON};
    put_value(out, &BARE_VALUES, c, field, slice);
}

/* ---- the parts of a record ---- */

static void put_time(ea_text *out, const style *how, const ea_record *r, const ea_clock *clock) {
    if (how->form == JSON)
        ea_text_char(out, '"');
    ea_text_utc_ns(out, ea_clock_to_utc_ns(clock, r->time_raw));
    if (how->form == JSON)
        ea_text_char(out, '"');
}

static void put_guid(ea_text *out, const style *how, const ea_guid *g) {
    if (how->form == JSON)
        ea_text_char(out, '"');
    ea_text_guid(out, g);
    if (how->form == JSON)
        ea_text_char(out, '"');
}

static void put_none(ea_text *out, const style *how) {
    if (how->form == JSON)
        ea_text_str(out, "null");
}

static void put_related(ea_text *out, const style *how, const ea_record *r) {
    const ea_ext *item = r->ext_count ? ea_record_ext(r, EA_EXT_RELATED_ACTIVITY_ID) : NULL;
    if (item && item->size_bytes == sizeof(ea_guid)) {
        ea_guid g;
        memcpy(&g, item->data, sizeof g);
        put_guid(out, how, &g);
    } else {
        put_none(out, how);
    }
}

/* The return addresses of the in-header stacks: a match id (8 bytes), then addresses. Source: evntcons.h
 * EVENT_EXTENDED_ITEM_STACK_TRACE32 and 64. */
static void put_stack(ea_text *out, const style *how, const ea_record *r) {
    size_t n = 0;
    ea_text_char(out, '[');
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *item = &r->ext[i];
        unsigned width = item->type == EA_EXT_STACK_TRACE64 ? 8 : item->type == EA_EXT_STACK_TRACE32 ? 4 : 0;
        for (size_t at = 8; width && at + width <= item->size_bytes; at += width) {
            if (n++)
                ea_text_char(out, how->form == JSON ? ',' : ' ');
            put_hex(out, how, ea_load_uint(item->data + at, width));
        }
    }
    ea_text_char(out, ']');
}

/* how: a style of form JSON */
static void put_fields_json(ea_text *out, const style *how, const ea_record *r, const ea_class *c) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used), field = 0;
    int first = 1;
    ea_text_char(out, '{');
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden)
            continue;
        if (!first)
            ea_text_char(out, ',');
        first = 0;
        ea_text_json_str(out, c->fields[field].name);
        ea_text_char(out, ':');
        put_value(out, how, c, field, &slices[i]);
    }
    if (used < r->payload_bytes) {
        ea_text_str(out, first ? "\"_tail\":" : ",\"_tail\":");
        put_bytes(out, how, r->payload + used, r->payload_bytes - used);
    }
    ea_text_char(out, '}');
}

/* ---- what the schema says in words ---- */

/* The n-th shown top-level field of the event, from 1. */
static void put_insert(ea_text *out, const style *how, const ea_class *c, const ea_slice *slices, size_t whole,
                       unsigned n) {
    size_t field = 0;
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden || --n)
            continue;
        put_value(out, how, c, field, &slices[i]);
        return;
    }
}

/* Source: FormatMessage's escape sequences, Windows SDK documentation. */
static void put_message(ea_text *out, const style *outer, const ea_class *c) {
    style how = *outer;
    how.form = MESSAGE;
    how.resolver = NULL;
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, how.record->payload, how.record->payload_bytes, slices, &used);
    for (const char *p = c->notes->message; *p; p++) {
        if (*p != '%') {
            ea_text_char(out, *p);
            continue;
        }
        p++;
        if (*p >= '1' && *p <= '9') {
            unsigned n = (unsigned)(*p - '0');
            if (p[1] >= '0' && p[1] <= '9')
                n = n * 10 + (unsigned)(*++p - '0');
            const char *close = p[1] == '!' ? strchr(p + 2, '!') : NULL;
            if (close) /* printf's format of the value: ours is the same for all */
                p = close;
            put_insert(out, &how, c, slices, whole, n);
        } else if (*p == '0' || !*p) {
            return;
        } else if (*p == 'n') {
            ea_text_char(out, '\n');
        } else if (*p == 'r') {
            ea_text_char(out, '\r');
        } else if (*p == 't') {
            ea_text_char(out, '\t');
        } else {
            ea_text_char(out, *p == 'b' ? ' ' : *p);
        }
    }
}

static void put_keyword_names(ea_text *out, const style *how, const ea_class *c) {
    int first = 1;
    if (how->form == JSON)
        ea_text_char(out, '[');
    for (size_t i = 0; i < c->notes->keyword_count; i++) {
        if (!(how->record->keyword & c->notes->keywords[i].value))
            continue;
        if (!first)
            ea_text_char(out, how->form == JSON ? ',' : '|');
        first = 0;
        put_name(out, how, c->notes->keywords[i].name);
    }
    if (how->form == JSON)
        ea_text_char(out, ']');
}

enum note { NOTE_LEVEL, NOTE_CHANNEL, NOTE_TASK, NOTE_OPCODE, NOTE_KEYWORDS, NOTE_MESSAGE, NOTE_COUNT };
static const char *const NOTE_NAMES[NOTE_COUNT] = {"level_name",  "channel_name",  "task_name",
                                                   "opcode_name", "keyword_names", "message"};

/* 1 when the class says something of that kind; it is written then. */
static int put_note(ea_text *out, const style *how, const ea_class *c, enum note note, const char *before) {
    const ea_class_notes *n = c->notes;
    const char *text[NOTE_COUNT] = {n->level, n->channel, n->task, n->opcode, "", n->message};
    if (note == NOTE_KEYWORDS ? !n->keyword_count : !*text[note])
        return 0;
    ea_text_str(out, before);
    if (note == NOTE_KEYWORDS) {
        put_keyword_names(out, how, c);
    } else if (note == NOTE_MESSAGE) {
        ea_text message;
        ea_text_init(&message);
        put_message(&message, how, c);
        put_text(out, how, message.data ? message.data : "", message.len_bytes);
        out->failed |= message.failed;
        ea_text_deinit(&message);
    } else {
        put_name(out, how, text[note]);
    }
    return 1;
}

/* What a TraceLogging event carries beside its fields. */
static void put_metadata_json(ea_text *out, const style *how) {
    const ea_ext *metadata = ea_record_ext(how->record, EA_EXT_SCHEMA_TL),
                 *traits = ea_record_ext(how->record, EA_EXT_PROV_TRAITS);
    uint32_t tag = metadata ? ea_tracelogging_tag(metadata->data, metadata->size_bytes) : 0;
    ea_guid group;
    if (tag) {
        ea_text_str(out, ",\"tag\":");
        put_hex(out, how, tag);
    }
    if (traits && ea_traits_group(traits->data, traits->size_bytes, &group)) {
        ea_text_str(out, ",\"provider_group\":\"");
        ea_text_guid(out, &group);
        ea_text_char(out, '"');
    }
}

static void put_notes_json(ea_text *out, const style *how, const ea_class *c) {
    char key[32];
    for (int i = 0; i < NOTE_COUNT; i++) {
        snprintf(key, sizeof key, ",\"%s\":", NOTE_NAMES[i]);
        put_note(out, how, c, (enum note)i, key);
    }
}

/* The columns that every record has, in the order of the JSON keys. */
enum column {
    COLUMN_TIME,
    COLUMN_CLOCK,
    COLUMN_PROVIDER,
    COLUMN_PROVIDER_NAME,
    COLUMN_NAME,
    COLUMN_ID,
    COLUMN_VERSION,
    COLUMN_CHANNEL,
    COLUMN_LEVEL,
    COLUMN_OPCODE,
    COLUMN_TASK,
    COLUMN_KEYWORD,
    COLUMN_CPU,
    COLUMN_PID,
    COLUMN_TID,
    COLUMN_ACTIVITY_ID,
    COLUMN_RELATED_ACTIVITY_ID,
    COLUMN_COUNT,
};
static const char *const COLUMN_NAMES[COLUMN_COUNT] = {"time",
                                                       "clock",
                                                       "provider",
                                                       "provider_name",
                                                       "name",
                                                       "id",
                                                       "version",
                                                       "channel",
                                                       "level",
                                                       "opcode",
                                                       "task",
                                                       "keyword",
                                                       "cpu",
                                                       "pid",
                                                       "tid",
                                                       "activity_id",
                                                       "related_activity_id"};

static void put_column(ea_text *out, const style *how, const ea_record *r, const ea_class *c, const ea_clock *clock,
                       enum column column) {
    switch (column) {
    case COLUMN_TIME:
        put_time(out, how, r, clock);
        break;
    case COLUMN_CLOCK:
        ea_text_i64(out, r->time_raw);
        break;
    case COLUMN_PROVIDER:
        put_guid(out, how, &r->provider);
        break;
    case COLUMN_PROVIDER_NAME:
        put_name(out, how, c->provider_name);
        break;
    case COLUMN_NAME:
        put_name(out, how, c->name);
        break;
    case COLUMN_ID:
        ea_text_u64(out, r->id);
        break;
    case COLUMN_VERSION:
        ea_text_u64(out, r->version);
        break;
    case COLUMN_CHANNEL:
        ea_text_u64(out, r->channel);
        break;
    case COLUMN_LEVEL:
        ea_text_u64(out, r->level);
        break;
    case COLUMN_OPCODE:
        ea_text_u64(out, r->opcode);
        break;
    case COLUMN_TASK:
        ea_text_u64(out, r->task);
        break;
    case COLUMN_KEYWORD:
        put_hex(out, how, r->keyword);
        break;
    case COLUMN_CPU:
        ea_text_u64(out, r->cpu);
        break;
    case COLUMN_PID:
        ea_text_u64(out, r->pid);
        break;
    case COLUMN_TID:
        ea_text_u64(out, r->tid);
        break;
    case COLUMN_ACTIVITY_ID:
        if (ea_guid_is_zero(&r->activity_id))
            put_none(out, how);
        else
            put_guid(out, how, &r->activity_id);
        break;
    case COLUMN_RELATED_ACTIVITY_ID:
        put_related(out, how, r);
        break;
    case COLUMN_COUNT:
        break;
    }
}

static void put_raw(ea_text *out, const ea_record *r, const ea_class *c) {
    ea_slice payload = ea_class_logged(c, r->payload, r->payload_bytes);
    ea_text_str(out, ",\"flags\":");
    ea_text_u64(out, r->flags);
    ea_text_str(out, ",\"property\":");
    ea_text_u64(out, r->property);
    ea_text_str(out, ",\"kernel_time\":");
    ea_text_u64(out, r->kernel_time);
    ea_text_str(out, ",\"user_time\":");
    ea_text_u64(out, r->user_time);
    ea_text_str(out, ",\"logger\":");
    ea_text_u64(out, r->logger);
    ea_text_str(out, ",\"pointer_size\":");
    ea_text_u64(out, r->pointer_size);
    ea_text_str(out, ",\"header\":{\"type\":");
    ea_text_json_str(out, ea_header_type_name(r->header_type));
    ea_text_str(out, ",\"hook_id\":");
    ea_text_u64(out, r->hook_id);
    ea_text_str(out, ",\"word\":");
    ea_text_u64(out, r->header_word);
    ea_text_str(out, ",\"source\":");
    ea_text_u64(out, r->source);
    ea_text_str(out, "},\"payload\":\"");
    ea_text_hex(out, payload.data, payload.len_bytes);
    ea_text_str(out, "\",\"extended\":[");
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *item = &r->ext[i];
        ea_text_str(out, i ? ",{\"type\":" : "{\"type\":");
        ea_text_u64(out, item->type);
        ea_text_str(out, ",\"name\":");
        ea_text_json_str(out, ea_ext_type_name(item->type));
        ea_text_str(out, ",\"linkage\":");
        ea_text_u64(out, item->linkage);
        ea_text_str(out, ",\"data\":\"");
        ea_text_hex(out, item->data, item->size_bytes);
        ea_text_str(out, "\"}");
    }
    ea_text_char(out, ']');
}

/* How an operation ended, or what its end ended. */
static void put_completion(ea_text *out, const style *how, const ea_class *c) {
    static const ea_field STATUS = {.name = "status", .type = EA_HEX32, .semantic = EA_SEM_NTSTATUS, .width = 4};
    ea_completion end;
    if (!how->resolver || !how->resolver->completion(how->resolver->arg, how->record, c, how->utc_ns, &end))
        return;
    int json = how->form == JSON;
    if (end.operation) {
        ea_text_str(out, json ? ",\"completes\":{\"operation\":" : " completes={operation=");
        put_name(out, how, end.operation);
    } else if (end.has_status) {
        ea_text_str(out, json ? ",\"completed\":{\"status\":" : " completed={status=");
        put_integer(out, how, c, &STATUS, end.status);
        ea_text_str(out, json ? ",\"size\":" : " size=");
        ea_text_u64(out, end.information);
    } else {
        ea_text_str(out, json ? ",\"completed\":{" : " completed={");
    }
    int first = !end.operation && !end.has_status;
    if (!first)
        ea_text_char(out, json ? ',' : ' ');
    ea_text_str(out, json ? "\"latency_ns\":" : "latency_ns=");
    ea_text_i64(out, end.latency_ns);
    ea_text_char(out, '}');
}

/* What a collection left: sums over the generations of GC/HeapStats, as many of them as its version has. */
static void put_derived(ea_text *out, const style *how, const ea_class *c) {
    static const ea_guid DOTNET = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
    static const char *const SIZES[] = {"GenerationSize0", "GenerationSize1", "GenerationSize2", "GenerationSize3",
                                        "GenerationSize4"};
    static const char *const PROMOTED[] = {"TotalPromotedSize0", "TotalPromotedSize1", "TotalPromotedSize2",
                                           "TotalPromotedSize3", "TotalPromotedSize4"};
    enum { ID_HEAP_STATS = 4, GENERATIONS = sizeof SIZES / sizeof *SIZES };
    if (!how->resolver || c->classic || c->code != ID_HEAP_STATS || !ea_guid_equal(&c->provider, &DOTNET))
        return;
    uint64_t heap = 0, promoted = 0;
    for (unsigned i = 0; i < GENERATIONS; i++) {
        uint64_t size, moved;
        if (!ea_event_u64(c, how->record, SIZES[i], &size) || !ea_event_u64(c, how->record, PROMOTED[i], &moved)) {
            if (i == 0)
                return;
            break;
        }
        heap += size;
        promoted += moved;
    }
    int json = how->form == JSON;
    ea_text_str(out, json ? ",\"derived\":{\"heap_bytes\":" : " derived={heap_bytes=");
    ea_text_u64(out, heap);
    ea_text_str(out, json ? ",\"promoted_bytes\":" : " promoted_bytes=");
    ea_text_u64(out, promoted);
    ea_text_char(out, '}');
}

static void render_json(ea_text *out, const style *how, const ea_class *c, int raw) {
    const ea_record *r = how->record;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        ea_text_str(out, i ? ",\"" : "{\"");
        ea_text_str(out, COLUMN_NAMES[i]);
        ea_text_str(out, "\":");
        put_column(out, how, r, c, how->clock, (enum column)i);
    }
    ea_text_str(out, ",\"fields\":");
    put_fields_json(out, how, r, c);
    ea_text_str(out, ",\"stack\":");
    put_stack(out, how, r);
    if (c->notes)
        put_notes_json(out, how, c);
    if (r->ext_count)
        put_metadata_json(out, how);
    put_completion(out, how, c);
    put_derived(out, how, c);
    if (raw)
        put_raw(out, r, c);
    ea_text_char(out, '}');
}

static void render_text(ea_text *out, const style *how, const ea_class *c) {
    const ea_record *record = how->record;
    const ea_clock *clock = how->clock;
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, record->payload, record->payload_bytes, slices, &used), field = 0;
    put_time(out, how, record, clock);
    ea_text_str(out, " cpu=");
    ea_text_u64(out, record->cpu);
    ea_text_str(out, " pid=");
    ea_text_i64(out, (int32_t)record->pid);
    ea_text_str(out, " tid=");
    ea_text_i64(out, (int32_t)record->tid);
    ea_text_char(out, ' ');
    if (*c->provider_name)
        put_name(out, how, c->provider_name);
    else
        ea_text_guid(out, &record->provider);
    ea_text_char(out, '/');
    if (*c->name)
        put_name(out, how, c->name);
    else
        ea_text_printf(out, "%s(%u)", c->classic ? "opcode" : "id", c->classic ? record->opcode : record->id);
    ea_text_char(out, ':');
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden)
            continue;
        ea_text_char(out, ' ');
        put_name(out, how, c->fields[field].name);
        ea_text_char(out, '=');
        put_value(out, how, c, field, &slices[i]);
    }
    if (used < record->payload_bytes) {
        ea_text_str(out, " _tail=");
        ea_text_hex(out, record->payload + used, record->payload_bytes - used);
    }
    if (record->ext_count) {
        if (ea_record_ext(record, EA_EXT_STACK_TRACE64) || ea_record_ext(record, EA_EXT_STACK_TRACE32)) {
            ea_text_str(out, " stack=");
            put_stack(out, how, record);
        }
    }
    if (c->notes)
        put_note(out, how, c, NOTE_MESSAGE, " message=");
    put_completion(out, how, c);
    put_derived(out, how, c);
}

/* ---- chosen columns ---- */

/* Writes the named column or field; 0 when this event has none of that name. */
static int put_named(ea_text *out, const style *how, const ea_class *c, const char *name) {
    const ea_record *r = how->record;
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (strcmp(COLUMN_NAMES[i], name) == 0) {
            put_column(out, how, r, c, how->clock, (enum column)i);
            return 1;
        }
    if (strcmp(name, "stack") == 0) {
        put_stack(out, how, r);
        return 1;
    }
    if (strcmp(name, "fields") == 0) {
        ea_text fields;
        ea_text_init(&fields);
        style json = *how;
        json.form = JSON;
        put_fields_json(how->form == JSON ? out : &fields, &json, r, c);
        if (how->form == PLAIN)
            ea_text_safe(out, fields.data, fields.len_bytes);
        else if (how->form == BARE)
            ea_text_add(out, fields.data, fields.len_bytes);
        out->failed |= fields.failed;
        ea_text_deinit(&fields);
        return 1;
    }
    for (int i = 0; c->notes && i < NOTE_COUNT; i++)
        if (strcmp(NOTE_NAMES[i], name) == 0)
            return put_note(out, how, c, (enum note)i, "");
    size_t field = *name ? ea_field_index(c, name) : c->field_count;
    ea_slice slice;
    if (field == c->field_count || !ea_field_slice(c, field, r->payload, r->payload_bytes, &slice))
        return 0;
    put_value(out, how, c, field, &slice);
    return 1;
}

static void render_csv(ea_text *out, const style *how, const ea_class *c, const char *const *columns,
                       size_t column_count) {
    ea_text value;
    ea_text_init(&value);
    for (size_t i = 0; i < column_count; i++) {
        if (i)
            ea_text_char(out, ',');
        ea_text_clear(&value);
        if (put_named(&value, how, c, columns[i]) && value.len_bytes)
            ea_text_csv(out, value.data, value.len_bytes);
    }
    out->failed |= value.failed;
    ea_text_deinit(&value);
}

static void render_columns(ea_text *out, const style *how, const ea_class *c, const char *const *columns,
                           size_t column_count) {
    int json = how->form == JSON;
    if (json)
        ea_text_char(out, '{');
    for (size_t i = 0; i < column_count; i++) {
        if (i)
            ea_text_char(out, json ? ',' : '\t');
        if (json) {
            ea_text_json_str(out, columns[i]);
            ea_text_char(out, ':');
        }
        if (!put_named(out, how, c, columns[i]) && json)
            ea_text_str(out, "null");
    }
    if (json)
        ea_text_char(out, '}');
}

/* ---- the whole ---- */

void ea_render(ea_text *out, const ea_record *record, const ea_class *c, const ea_rendering *r) {
    style how = {.form = r->form == EA_RENDER_JSON  ? JSON
                         : r->form == EA_RENDER_CSV ? BARE
                                                    : PLAIN,
                 .resolver = r->resolver,
                 .clock = r->clock,
                 .record = record};
    if (r->resolver)
        how.utc_ns = ea_clock_to_utc_ns(r->clock, record->time_raw);
    if (r->form == EA_RENDER_CSV)
        render_csv(out, &how, c, r->columns, r->column_count);
    else if (r->column_count)
        render_columns(out, &how, c, r->columns, r->column_count);
    else if (r->form == EA_RENDER_JSON)
        render_json(out, &how, c, r->raw);
    else
        render_text(out, &how, c);
}

int ea_field_has_names(const ea_field *f) {
    if (f->count != 1 || f->count_field >= 0 || f->type == EA_STRUCT)
        return 0;
    switch (f->semantic) {
    case EA_SEM_PATH:
    case EA_SEM_NTSTATUS:
    case EA_SEM_FILE_OBJECT:
    case EA_SEM_FILE_KEY:
    case EA_SEM_KCB:
        return 1;
    default:
        return f->map != NULL;
    }
}

int ea_render_name(ea_text *out, const ea_record *record, const ea_class *c, const ea_field *f, const ea_slice *slice,
                   const ea_rendering *r) {
    style how = {.form = BARE, .resolver = r->resolver, .clock = r->clock, .record = record};
    uint64_t v;
    const char *name = NULL;
    size_t before = out->len_bytes;
    if (r->resolver)
        how.utc_ns = ea_clock_to_utc_ns(r->clock, record->time_raw);
    if (f->semantic == EA_SEM_PATH)
        return r->resolver && put_resolved_path(out, &how, f, slice);
    if (!ea_field_has_names(f) || !f->width || slice->len_bytes < f->width || !ea_value_u64(f, slice->data, &v))
        return 0;
    if (f->map && f->map->is_flags)
        put_flags(out, f->map, v);
    else if (f->map)
        name = mapped_name(f, v);
    else if (f->semantic == EA_SEM_NTSTATUS)
        name = ea_ntstatus_name((uint32_t)v);
    else if (r->resolver)
        (void)resolve(out, &how, c, f, v);
    if (name)
        ea_text_str(out, name);
    return out->len_bytes > before;
}

void ea_render_message(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    style how = {.form = MESSAGE, .clock = clock, .record = record};
    if (c->notes)
        put_message(out, &how, c);
}

void ea_render_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock, int raw) {
    ea_render(out, record, c, &(ea_rendering){.form = EA_RENDER_JSON, .clock = clock, .raw = raw});
}

void ea_render_text(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    ea_render(out, record, c, &(ea_rendering){.form = EA_RENDER_TEXT, .clock = clock});
}

void ea_render_csv(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                   const char *const *columns, size_t column_count) {
    ea_render(out, record, c,
              &(ea_rendering){.form = EA_RENDER_CSV, .clock = clock, .columns = columns, .column_count = column_count});
}

void ea_render_columns_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                            const char *const *columns, size_t column_count) {
    ea_render(
        out, record, c,
        &(ea_rendering){.form = EA_RENDER_JSON, .clock = clock, .columns = columns, .column_count = column_count});
}

void ea_render_columns_text(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                            const char *const *columns, size_t column_count) {
    ea_render(
        out, record, c,
        &(ea_rendering){.form = EA_RENDER_TEXT, .clock = clock, .columns = columns, .column_count = column_count});
}
