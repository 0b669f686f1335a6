/* Single values out of payloads. See event.h and value.h. */
#include "proto/event/value.h"

int ea_field_slice(const ea_class *c, size_t field, const uint8_t *payload, size_t payload_bytes, ea_slice *ret) {
    const ea_field *f = &c->fields[field];
    size_t bytes = (size_t)f->width * f->count, used, top = 0;
    ea_slice slices[EA_FIELDS_MAX];
    if (f->offset != EA_OFFSET_NONE) {
        if (f->offset + bytes > payload_bytes)
            return 0;
        *ret = (ea_slice){payload + f->offset, (uint32_t)bytes, f->count};
        return 1;
    }
    size_t whole = ea_class_split(c, payload, payload_bytes, slices, &used);
    for (size_t at = 0; at != field; at += c->fields[at].span)
        top++;
    if (top >= whole)
        return 0;
    *ret = slices[top];
    return 1;
}

size_t ea_field_index(const ea_class *c, const char *name) {
    size_t i = 0;
    while (i < c->field_count && strcmp(c->fields[i].name, name) != 0)
        i += c->fields[i].span;
    return i < c->field_count ? i : c->field_count;
}

int ea_value_u64(const ea_field *f, const uint8_t *data, uint64_t *ret) {
    switch (f->type) {
    case EA_I8:
        *ret = (uint64_t)(int64_t)(int8_t)data[0];
        return 1;
    case EA_I16:
        *ret = (uint64_t)(int64_t)(int16_t)ea_load16(data);
        return 1;
    case EA_I32:
        *ret = (uint64_t)(int64_t)(int32_t)ea_load32(data);
        return 1;
    case EA_PORT:
        *ret = (uint64_t)data[0] << 8 | data[1];
        return 1;
    case EA_U8:
    case EA_U16:
    case EA_U32:
    case EA_U64:
    case EA_I64:
    case EA_BOOL8:
    case EA_BOOL32:
    case EA_HEX8:
    case EA_HEX16:
    case EA_HEX32:
    case EA_HEX64:
    case EA_POINTER:
    case EA_SIZE:
    case EA_FILETIME:
    case EA_CHAR8:
    case EA_CHAR16:
        *ret = ea_load_uint(data, f->width);
        return 1;
    default:
        return 0;
    }
}

int ea_value_text(const ea_field *f, const ea_slice *slice, ea_text *out) {
    const uint8_t *p = slice->data;
    size_t len = slice->len_bytes;
    int wide = f->type == EA_UTF16Z || f->type == EA_UTF16_COUNTED || f->type == EA_UTF16_REST ||
               f->type == EA_UTF16_FIXED || f->type == EA_CHAR16;
    switch (f->type) {
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        if (slice->element_count != 1 || len < 2) /* an array of them is no text */
            return 0;
        p += 2;
        len -= 2;
        break;
    case EA_UTF16_REST:
        break;
    case EA_UTF16Z:
    case EA_UTF16_FIXED:
    case EA_CHAR16: {
        size_t n = 0;
        while (n + 2 <= len && ea_load16(p + n))
            n += 2;
        len = n;
        break;
    }
    case EA_ANSIZ:
    case EA_UTF8Z:
    case EA_ANSI_FIXED:
    case EA_UTF8_FIXED:
    case EA_CHAR8: {
        const uint8_t *nul = len ? memchr(p, 0, len) : NULL;
        len = nul ? (size_t)(nul - p) : len;
        break;
    }
    default:
        return 0;
    }
    if (f->type == EA_UTF8Z || f->type == EA_UTF8_COUNTED || f->type == EA_UTF8_FIXED)
        ea_text_add(out, p, len);
    else if (wide)
        ea_text_utf16(out, p, len);
    else
        ea_text_ansi(out, p, len);
    return 1;
}

int ea_value_sid(const ea_field *f, uint8_t pointer_size, const ea_slice *slice, ea_text *out) {
    const uint8_t *p = slice->data;
    size_t len = slice->len_bytes, head = f->type == EA_WBEM_SID ? (size_t)2 * pointer_size : 0;
    return len >= head && ea_text_sid(out, p + head, len - head);
}

static int named_slice(const ea_class *c, const ea_record *record, const char *name, const ea_field **ret_field,
                       ea_slice *ret) {
    size_t i = ea_field_index(c, name);
    if (i == c->field_count || !ea_field_slice(c, i, record->payload, record->payload_bytes, ret))
        return 0;
    *ret_field = &c->fields[i];
    return 1;
}

int ea_event_u64(const ea_class *c, const ea_record *record, const char *field, uint64_t *ret) {
    const ea_field *f;
    ea_slice s;
    return named_slice(c, record, field, &f, &s) && s.element_count == 1 && ea_value_u64(f, s.data, ret);
}

int ea_event_text(const ea_class *c, const ea_record *record, const char *field, ea_text *out) {
    const ea_field *f;
    ea_slice s;
    return named_slice(c, record, field, &f, &s) && ea_value_text(f, &s, out);
}
