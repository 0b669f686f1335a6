/* Values of fields. See render_values.h. */
#include "proto/event/render_values.h"

#include "proto/event/ntstatus.h"
#include "proto/event/value.h"

enum { RENDER_WORK = 1 << 22 };

ea_render_bound ea_render_bound_of(const ea_text *out) {
    return (ea_render_bound){.end_bytes = out->len_bytes + EA_RENDER_MAX_BYTES, .work = RENDER_WORK};
}

static int render_values_is_full(const ea_text *out, const ea_render_style *how) {
    return out->len_bytes >= how->bound->end_bytes;
}

/* Text that is ASCII and needs no escape in any style. */
static void put_symbol(ea_text *out, const ea_render_style *how, const char *s) {
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
    ea_text_str(out, s);
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
}

void ea_render_put_hex(ea_text *out, const ea_render_style *how, uint64_t v) {
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
    ea_text_hex64(out, v);
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
}

void ea_render_put_bytes(ea_text *out, const ea_render_style *how, const uint8_t *data, size_t len_bytes) {
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
    ea_text_hex(out, data, len_bytes);
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
}

/* UTF-8 from outside. */
void ea_render_put_text(ea_text *out, const ea_render_style *how, const char *s, size_t len_bytes) {
    if (how->form == EA_FORM_BARE || how->form == EA_FORM_MESSAGE) {
        ea_text_add(out, s, len_bytes);
        return;
    }
    ea_text_char(out, '"');
    if (how->form == EA_FORM_JSON)
        ea_text_json(out, s, len_bytes);
    else
        ea_text_safe(out, s, len_bytes);
    ea_text_char(out, '"');
}

void ea_render_put_name(ea_text *out, const ea_render_style *how, const char *s) {
    if (how->form == EA_FORM_JSON)
        ea_text_json_str(out, s);
    else if (how->form == EA_FORM_PLAIN)
        ea_text_safe(out, s, strlen(s));
    else
        ea_text_str(out, s);
}

/* Paths and names are nearly always printable ASCII: they go straight into a JSON string. Returns how many of
 * the bytes it took; the rest, from the first other character on, goes the long way. */
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
static int put_resolved_path(ea_text *out, const ea_render_style *how, const ea_field *f, const ea_slice *slice) {
    ea_text path, resolved;
    ea_text_init(&path);
    ea_text_init(&resolved);
    int known = ea_value_text(f, slice, &path) && path.len_bytes && path.data[0] == '\\' &&
                how->resolver->path(how->resolver->arg, path.data, path.len_bytes, &resolved) && resolved.len_bytes;
    if (known && how->form == EA_FORM_JSON) {
        ea_text_str(out, "{\"value\":");
        ea_render_put_text(out, how, path.data, path.len_bytes);
        ea_text_str(out, ",\"name\":");
    }
    if (known)
        ea_render_put_text(out, how, resolved.data, resolved.len_bytes);
    if (known && how->form == EA_FORM_JSON)
        ea_text_char(out, '}');
    out->failed |= path.failed | resolved.failed;
    ea_text_deinit(&path);
    ea_text_deinit(&resolved);
    return known;
}

static void put_string_field(ea_text *out, const ea_render_style *how, const ea_field *f, const ea_slice *slice) {
    ea_text scratch;
    ea_slice rest = *slice;
    if (how->resolver && f->semantic == EA_SEM_PATH && put_resolved_path(out, how, f, slice))
        return;
    if (how->form == EA_FORM_JSON && (f->type == EA_UTF16Z || f->type == EA_UTF16_FIXED)) {
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
    ea_render_put_text(out, how, scratch.len_bytes ? scratch.data : "", scratch.len_bytes);
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

static int render_values_is_signed(uint8_t type) {
    return type == EA_I8 || type == EA_I16 || type == EA_I32 || type == EA_I64;
}

static void render_values_put_number(ea_text *out, const ea_render_style *how, const ea_field *f, uint64_t v) {
    switch (f->type) {
    case EA_HEX8:
    case EA_HEX16:
    case EA_HEX32:
    case EA_HEX64:
    case EA_POINTER:
        ea_render_put_hex(out, how, v);
        break;
    case EA_BOOL8:
    case EA_BOOL32:
        if (v <= 1)
            ea_text_str(out, v ? "true" : "false");
        else
            ea_text_u64(out, v);
        break;
    default:
        if (render_values_is_signed(f->type))
            ea_text_i64(out, (int64_t)v);
        else
            ea_text_u64(out, v);
    }
}

/* JSON: {"value": ..., "<key>": ...}; a message: the name; other text: the name and, in parentheses, the number. name:
 * NULL for none. */
static void put_named_number(ea_text *out, const ea_render_style *how, const ea_field *f, uint64_t v,
                             const char *name) {
    if (how->form == EA_FORM_JSON) {
        ea_text_str(out, "{\"value\":");
        render_values_put_number(out, how, f, v);
        ea_text_str(out, ",\"name\":");
        ea_text_json_str(out, name);
        ea_text_char(out, '}');
    } else if (name && *name && how->form == EA_FORM_MESSAGE) {
        ea_text_str(out, name);
    } else if (name && *name) {
        ea_render_put_name(out, how, name);
        ea_text_char(out, '(');
        render_values_put_number(out, how, f, v);
        ea_text_char(out, ')');
    } else {
        render_values_put_number(out, how, f, v);
    }
}

/* Of a value map; NULL when the value has none. */
static const char *mapped_name(const ea_field *f, uint64_t v) {
    const ea_enum *map = f->map;
    for (size_t i = 0; i < map->count && !map->is_flags; i++)
        if (map->entries[i].value == v ||
            (render_values_is_signed(f->type) && (int64_t)map->entries[i].value == (int64_t)v))
            return map->entries[i].name;
    return NULL;
}

static void put_mapped(ea_text *out, const ea_render_style *how, const ea_field *f, uint64_t v) {
    const ea_enum *map = f->map;
    if (render_values_is_full(out, how) || how->bound->work < map->count) {
        put_named_number(out, how, f, v, NULL);
        return;
    }
    how->bound->work -= map->count;
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
static void put_measured(ea_text *out, const ea_render_style *how, const ea_field *f, uint64_t v) {
    if (how->form == EA_FORM_JSON) {
        ea_text_str(out, "{\"value\":");
        render_values_put_number(out, how, f, v);
        ea_text_str(out, f->semantic == EA_SEM_DURATION_QPC ? ",\"ns\":" : ",\"time\":\"");
    }
    if (f->semantic == EA_SEM_DURATION_QPC) {
        int64_t zero = ea_clock_to_utc_ns(how->clock, how->clock->base_raw);
        int64_t ticks = v > INT64_MAX ? INT64_MAX : (int64_t)v;
        int64_t raw = ticks > INT64_MAX - how->clock->base_raw ? INT64_MAX : how->clock->base_raw + ticks;
        int64_t then = ea_clock_to_utc_ns(how->clock, raw);
        ea_text_u64(out, (uint64_t)then - (uint64_t)zero);
        if (how->form != EA_FORM_JSON)
            ea_text_str(out, "ns");
    } else if (f->semantic == EA_SEM_UNIX_TIME) {
        ea_text_utc_ns(out, (int64_t)(uint32_t)v * 1000000000);
    } else {
        ea_text_utc_ns(out, ea_clock_to_utc_ns(how->clock, v > INT64_MAX ? INT64_MAX : (int64_t)v));
    }
    if (how->form == EA_FORM_JSON) {
        ea_text_str(out, f->semantic == EA_SEM_DURATION_QPC ? "}" : "\"}");
    } else {
        ea_text_char(out, '(');
        render_values_put_number(out, how, f, v);
        ea_text_char(out, ')');
    }
}

/* What another event called this number: 1 when it was appended. */
static int render_values_resolve(ea_text *name, const ea_render_style *how, const ea_class *c, const ea_field *f,
                                 uint64_t v) {
    uint64_t key;
    int known = v && how->resolver->number(how->resolver->arg, f->semantic, v, how->utc_ns, name);
    if (!known && f->semantic == EA_SEM_FILE_OBJECT && ea_event_u64(c, how->record, "FileKey", &key) && key)
        known = how->resolver->number(how->resolver->arg, EA_SEM_FILE_KEY, key, how->utc_ns, name);
    return known;
}

/* The same beside the number: 1 when it was written. */
static int put_resolved(ea_text *out, const ea_render_style *how, const ea_class *c, const ea_field *f, uint64_t v) {
    ea_text name;
    if (render_values_is_full(out, how))
        return 0;
    ea_text_init(&name);
    int known = render_values_resolve(&name, how, c, f, v);
    if (known && name.len_bytes)
        put_named_number(out, how, f, v, name.data);
    else
        known = 0;
    out->failed |= name.failed;
    ea_text_deinit(&name);
    return known;
}

void ea_render_put_integer(ea_text *out, const ea_render_style *how, const ea_class *c, const ea_field *f, uint64_t v) {
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
    render_values_put_number(out, how, f, v);
}

static void render_values_put_float(ea_text *out, const ea_render_style *how, double v, int digits) {
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

static void put_struct(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field, const uint8_t *p,
                       size_t len, size_t *ret_used);

/* One element; p has as many bytes as its type has, or len bytes when that varies. */
static void render_values_put_element(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field,
                                      const uint8_t *p, size_t len, size_t *ret_used) {
    const ea_field *f = &c->fields[field];
    uint64_t v;
    *ret_used = f->width;
    switch (f->type) {
    case EA_F32: {
        float x;
        memcpy(&x, p, sizeof x);
        render_values_put_float(out, how, (double)x, 9);
        return;
    }
    case EA_F64: {
        double x;
        memcpy(&x, p, sizeof x);
        render_values_put_float(out, how, x, 17);
        return;
    }
    case EA_GUID: {
        char text[37];
        ea_guid g;
        memcpy(&g, p, sizeof g);
        ea_guid_format(&g, text);
        if (how->form == EA_FORM_MESSAGE)
            ea_text_printf(out, "{%s}", text);
        else
            put_symbol(out, how, text);
        return;
    }
    case EA_FILETIME:
        if (how->form == EA_FORM_JSON)
            ea_text_char(out, '"');
        ea_text_utc_ns(out, ea_filetime_to_utc_ns((int64_t)ea_load64(p)));
        if (how->form == EA_FORM_JSON)
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
        if (how->form == EA_FORM_JSON)
            ea_text_char(out, '"');
        if (f->type == EA_IPV6)
            put_ipv6(out, p);
        else
            ea_text_printf(out, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
        if (how->form == EA_FORM_JSON)
            ea_text_char(out, '"');
        return;
    case EA_STRUCT:
        put_struct(out, how, c, field, p, len, ret_used);
        return;
    default:
        if (ea_value_u64(f, p, &v))
            ea_render_put_integer(out, how, c, f, v);
        else
            ea_render_put_bytes(out, how, p, f->width);
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

static void put_varying(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field,
                        const ea_slice *slice) {
    const ea_field *f = &c->fields[field];
    if (f->type == EA_SID || f->type == EA_WBEM_SID) {
        if (how->form == EA_FORM_JSON)
            ea_text_char(out, '"');
        size_t before = out->len_bytes;
        if (ea_value_sid(f, c->pointer_size, slice, out)) {
            if (how->form == EA_FORM_JSON)
                ea_text_char(out, '"');
        } else if (!out->failed) {
            out->len_bytes = before - (how->form == EA_FORM_JSON);
            ea_text_str(out, how->form == EA_FORM_JSON ? "null" : "");
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

static void put_address_or_bytes(ea_text *out, const ea_render_style *how, const ea_slice *slice) {
    ea_text name;
    ea_text_init(&name);
    int known = put_socket_address(&name, slice->data, slice->len_bytes);
    if (known && how->form == EA_FORM_JSON) {
        ea_text_str(out, "{\"value\":");
        ea_render_put_bytes(out, how, slice->data, slice->len_bytes);
        ea_text_str(out, ",\"name\":");
    }
    if (known)
        put_symbol(out, how, name.data);
    else
        ea_render_put_bytes(out, how, slice->data, slice->len_bytes);
    if (known && how->form == EA_FORM_JSON)
        ea_text_char(out, '}');
    out->failed |= name.failed;
    ea_text_deinit(&name);
}

void ea_render_put_value(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field,
                         const ea_slice *slice) {
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
        ea_render_put_bytes(out, how, slice->data, slice->len_bytes);
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
            render_values_put_element(out, how, c, field, slice->data, slice->len_bytes, &used);
        else
            put_varying(out, how, c, field, slice);
        return;
    }
    ea_text_char(out, '[');
    const uint8_t *p = slice->data;
    size_t left = slice->len_bytes;
    for (uint32_t i = 0; i < slice->element_count; i++) {
        if (i)
            ea_text_char(out, how->form == EA_FORM_JSON ? ',' : ' ');
        if (render_values_is_full(out, how)) {
            size_t at = (size_t)(p - slice->data);
            ea_render_put_bytes(out, how, p, at < slice->len_bytes ? slice->len_bytes - at : 0);
            break;
        }
        if (f->width || f->type == EA_STRUCT) {
            render_values_put_element(out, how, c, field, p, left, &used);
        } else {
            used = varying_bytes(c, field, p, left);
            put_varying(out, how, c, field, &(ea_slice){p, (uint32_t)used, 1});
        }
        p += used;
        left -= used;
    }
    ea_text_char(out, ']');
}

static void put_struct(ea_text *out, const ea_render_style *how, const ea_class *c, size_t field, const uint8_t *p,
                       size_t len, size_t *ret_used) {
    ea_slice members[255];
    size_t whole = ea_class_split_element(c, field, p, len, members, ret_used), at = field + 1;
    int first = 1;
    ea_text_char(out, '{');
    for (size_t i = 0; i < whole; i++, at += c->fields[at].span) {
        if (c->fields[at].hidden)
            continue;
        if (!first)
            ea_text_char(out, how->form == EA_FORM_JSON ? ',' : ' ');
        first = 0;
        ea_render_put_name(out, how, c->fields[at].name);
        ea_text_char(out, how->form == EA_FORM_JSON ? ':' : '=');
        ea_render_put_value(out, how, c, at, &members[i]);
    }
    ea_text_char(out, '}');
}

void ea_render_field_json(ea_text *out, const ea_class *c, size_t field, const ea_slice *slice) {
    ea_render_bound bound = ea_render_bound_of(out);
    ea_render_put_value(out, &(ea_render_style){.form = EA_FORM_JSON, .bound = &bound}, c, field, slice);
}

/* ---- names beside values ---- */

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
    ea_render_bound bound = ea_render_bound_of(out);
    ea_render_style how = {
        .form = EA_FORM_BARE, .resolver = r->resolver, .clock = r->clock, .record = record, .bound = &bound};
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
        (void)render_values_resolve(out, &how, c, f, v);
    if (name)
        ea_text_str(out, name);
    return out->len_bytes > before;
}
