/* Field values and payloads. See encode.h. */
#include "proto/event/encode.h"
#include "proto/event/value.h"

#include <string.h>

/* ---- what types have in common ---- */

/* 1: text that ends with a NUL, has a count before it, or fills its array. */
static int encode_is_text(uint8_t type) {
    return (type >= EA_UTF16Z && type <= EA_UTF16_REST) || type == EA_UTF16_FIXED || type == EA_ANSI_FIXED ||
           (type >= EA_UTF8Z && type <= EA_UTF8_FIXED) || type == EA_CHAR8 || type == EA_CHAR16;
}

/* Such text takes all of its field, whatever the number of elements. */
static int is_text_of_array(const ea_field *f) {
    return f->type == EA_UTF16_FIXED || f->type == EA_ANSI_FIXED || f->type == EA_UTF8_FIXED ||
           ((f->type == EA_CHAR8 || f->type == EA_CHAR16) && (f->count != 1 || f->count_field >= 0));
}

/* Such an array up to the payload's end: it is as long as its text. */
static int fills_the_rest(const ea_field *f) {
    return is_text_of_array(f) && f->count_field < 0 && f->count == EA_COUNT_REST;
}

static int is_wide(uint8_t type) {
    return type == EA_UTF16Z || type == EA_UTF16_COUNTED || type == EA_UTF16_REST || type == EA_UTF16_FIXED ||
           type == EA_CHAR16;
}

static int is_bytes(uint8_t type) {
    return type == EA_GUID || type == EA_SYSTEMTIME || type == EA_IPV4 || type == EA_IPV6 || type == EA_SID ||
           type == EA_BYTES;
}

static int is_float(uint8_t type) {
    return type == EA_F32 || type == EA_F64;
}

static int encode_is_signed(uint8_t type) {
    return type == EA_I8 || type == EA_I16 || type == EA_I32 || type == EA_I64;
}

/* One value stands for the whole field. */
static int encode_is_single(const ea_field *f) {
    return (f->count == 1 && f->count_field < 0) || f->type == EA_BYTES || is_text_of_array(f);
}

/* ---- writing ---- */

typedef struct place {
    const ea_class *c;
    uint8_t *out;
    size_t capacity, used;
    uint64_t counts[EA_FIELDS_MAX]; /* what count fields hold */
} place;

static int encode_put(place *p, const void *data, size_t n) {
    if (n > p->capacity - p->used)
        return EA_ELIMIT;
    if (n)
        memcpy(p->out + p->used, data, n);
    p->used += n;
    return 0;
}

static int encode_put_zeros(place *p, size_t n) {
    if (n > p->capacity - p->used)
        return EA_ELIMIT;
    memset(p->out + p->used, 0, n);
    p->used += n;
    return 0;
}

/* EA_EINVAL when the number needs more than width bytes. */
static int encode_put_number(place *p, uint8_t type, unsigned width, uint64_t v) {
    uint8_t bytes[8];
    unsigned unused = 64 - 8 * width;
    if (width < 8 && v >> (8 * width) && !(encode_is_signed(type) && (uint64_t)((int64_t)(v << unused) >> unused) == v))
        return EA_EINVAL;
    ea_store64(bytes, v);
    if (type == EA_PORT) {
        uint8_t high = bytes[1];
        bytes[1] = bytes[0];
        bytes[0] = high;
    }
    return encode_put(p, bytes, width);
}

/* Windows-1252 of a UTF-8 text: what ea_text_ansi reads. EA_EINVAL for characters that it lacks. */
static int put_ansi(place *p, const char *text, size_t len_bytes) {
    for (size_t i = 0; i < len_bytes;) {
        uint8_t byte = (uint8_t)text[i];
        size_t n = 1;
        if (byte >= 0x80) { /* which byte reads as this? */
            ea_text one;
            int found = 0;
            ea_text_init(&one);
            for (unsigned b = 0x80; b < 0x100 && !found; b++) {
                byte = (uint8_t)b;
                ea_text_clear(&one);
                ea_text_ansi(&one, &byte, 1);
                found = !one.failed && one.len_bytes <= len_bytes - i && memcmp(one.data, text + i, one.len_bytes) == 0;
            }
            n = one.len_bytes;
            ea_text_deinit(&one);
            if (!found)
                return EA_EINVAL;
        }
        int rc = encode_put(p, &byte, 1);
        if (rc)
            return rc;
        i += n;
    }
    return 0;
}

static int put_characters(place *p, uint8_t type, const char *text, size_t len_bytes) {
    if (is_wide(type)) {
        size_t n = ea_utf8_to_utf16(text, len_bytes, NULL, 0);
        if (n > p->capacity - p->used)
            return EA_ELIMIT;
        ea_utf8_to_utf16(text, len_bytes, p->out + p->used, n);
        p->used += n;
        return 0;
    }
    return type >= EA_UTF8Z && type <= EA_UTF8_FIXED ? encode_put(p, text, len_bytes) : put_ansi(p, text, len_bytes);
}

/* field_bytes: of an array of characters, which is filled up with NULs; 0 otherwise. */
static int encode_put_text(place *p, const ea_field *f, size_t field_bytes, const char *text, size_t len_bytes) {
    size_t start = p->used, width = is_wide(f->type) ? 2 : 1;
    int counted = f->type == EA_UTF16_COUNTED || f->type == EA_ANSI_COUNTED || f->type == EA_UTF8_COUNTED;
    int rc = counted ? encode_put_zeros(p, 2) : 0;
    if (!rc)
        rc = put_characters(p, f->type, text, len_bytes);
    if (rc)
        return rc;
    size_t n = p->used - start;
    if (counted) {
        if (n - 2 > 0xFFFF)
            return EA_EINVAL;
        ea_store16(p->out + start, (uint16_t)(n - 2));
        return 0;
    }
    if (f->type == EA_UTF16_REST || fills_the_rest(f))
        return 0;
    if (f->width || is_text_of_array(f))
        return n <= field_bytes ? encode_put_zeros(p, field_bytes - n) : EA_EINVAL;
    return encode_put_zeros(p, width);
}

static int put_scope(place *p, size_t first, size_t end, const ea_event_value *values, size_t count, size_t *ret_at);

static int encode_put_element(place *p, size_t field, const ea_event_value *v) {
    const ea_field *f = &p->c->fields[field];
    size_t at;
    if (f->type == EA_STRUCT) {
        if (v->kind != EA_VALUE_LIST || v->count != f->child_count)
            return EA_EINVAL;
        return put_scope(p, field + 1, field + f->span, v->items, v->count, &at);
    }
    if (f->type == EA_WBEM_SID) {
        if (v->kind != EA_VALUE_LIST || (v->count != 0 && v->count != 3))
            return EA_EINVAL;
        if (!v->count)
            return encode_put_zeros(p, 4);
        int rc = 0;
        for (size_t i = 0; !rc && i < 2; i++)
            rc = v->items[i].kind == EA_VALUE_NUMBER
                     ? encode_put_number(p, EA_POINTER, p->c->pointer_size, v->items[i].number)
                     : EA_EINVAL;
        if (rc)
            return rc;
        return v->items[2].kind == EA_VALUE_BYTES ? encode_put(p, v->items[2].data, v->items[2].count) : EA_EINVAL;
    }
    if (encode_is_text(f->type)) {
        if (v->kind == EA_VALUE_TEXT)
            return encode_put_text(p, f, f->width, v->data, v->count);
        return v->kind == EA_VALUE_BYTES && (!f->width || v->count == f->width) ? encode_put(p, v->data, v->count)
                                                                                : EA_EINVAL;
    }
    if (is_bytes(f->type))
        return v->kind == EA_VALUE_BYTES && (!f->width || v->count == f->width) ? encode_put(p, v->data, v->count)
                                                                                : EA_EINVAL;
    return v->kind == EA_VALUE_NUMBER && f->width && f->width <= 8 ? encode_put_number(p, f->type, f->width, v->number)
                                                                   : EA_EINVAL;
}

/* How many elements there have to be; UINT64_MAX: any number. */
static uint64_t elements_of(const place *p, const ea_field *f) {
    return f->count_field >= 0 ? p->counts[f->count_field] : f->count == EA_COUNT_REST ? UINT64_MAX : f->count;
}

static int encode_put_field(place *p, size_t field, const ea_event_value *v) {
    const ea_field *f = &p->c->fields[field];
    uint64_t wanted = elements_of(p, f);
    int rc = 0;
    if (f->type == EA_BYTES)
        return v->kind == EA_VALUE_BYTES && (wanted == UINT64_MAX || wanted == v->count)
                   ? encode_put(p, v->data, v->count)
                   : EA_EINVAL;
    if (is_text_of_array(f)) {
        size_t width = is_wide(f->type) ? 2 : 1;
        if (v->kind == EA_VALUE_BYTES)
            return wanted == UINT64_MAX || wanted * width == v->count ? encode_put(p, v->data, v->count) : EA_EINVAL;
        if (v->kind != EA_VALUE_TEXT || (wanted != UINT64_MAX && wanted > p->capacity))
            return EA_EINVAL;
        return encode_put_text(p, f, wanted == UINT64_MAX ? 0 : (size_t)wanted * width, v->data, v->count);
    }
    if (encode_is_single(f)) {
        rc = encode_put_element(p, field, v);
        if (!rc && f->is_count)
            p->counts[field] = v->number;
        return rc;
    }
    if (v->kind != EA_VALUE_LIST || (wanted != UINT64_MAX && wanted != v->count))
        return EA_EINVAL;
    for (size_t i = 0; !rc && i < v->count; i++)
        rc = encode_put_element(p, field, &v->items[i]);
    return rc;
}

/* *ret_at: the field that failed. */
static int put_scope(place *p, size_t first, size_t end, const ea_event_value *values, size_t count, size_t *ret_at) {
    size_t field = first;
    for (size_t i = 0; i < count; i++, field += p->c->fields[field].span) {
        *ret_at = field;
        if (field >= end)
            return EA_EINVAL;
        int rc = encode_put_field(p, field, &values[i]);
        if (rc)
            return rc;
    }
    return 0;
}

int ea_event_write_values(const ea_class *c, const ea_event_value *values, size_t count, uint8_t *out, size_t capacity,
                          size_t *ret_bytes, ea_err *err) {
    place p = {.c = c, .out = out, .capacity = capacity};
    size_t at = 0;
    int rc = put_scope(&p, 0, c->field_count, values, count, &at);
    if (rc)
        return ea_fail(err, rc, "write %s version %u: %s", c->name, c->version,
                       at < c->field_count ? c->fields[at].name : "more values than fields");
    *ret_bytes = p.used;
    return 0;
}

/* Elements of a text in an array: characters of UTF-16, else bytes (of ANSI: one a character). */
static uint64_t encode_text_elements(const ea_field *f, const char *text, size_t len_bytes) {
    uint64_t characters = 0, wide = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        uint8_t b = (uint8_t)text[i];
        characters += (b & 0xC0) != 0x80;
        wide += b >= 0xF0; /* two units */
    }
    if (f->type == EA_UTF8_FIXED)
        return len_bytes;
    return is_wide(f->type) ? characters + wide : characters;
}

void ea_event_set_text(const ea_class *c, ea_event_value *values, size_t at, const char *text, size_t len_bytes) {
    const ea_field *f = &c->fields[ea_class_top_field(c, at)];
    values[at] = (ea_event_value){.kind = EA_VALUE_TEXT, .data = text, .count = len_bytes};
    for (size_t i = 0; i < at && f->count_field >= 0; i++)
        if (ea_class_top_field(c, i) == (size_t)f->count_field)
            values[i].number = encode_text_elements(f, text, len_bytes);
}

/* ---- reading ---- */

typedef struct reader {
    const ea_class *c;
    ea_arena *arena;
    ea_text text;
    int failed;
} reader;

/* Text when it leads back to these bytes, else the bytes. */
static ea_event_value read_text(reader *r, const ea_field *f, const ea_slice *s) {
    ea_event_value v = {.kind = EA_VALUE_BYTES, .data = s->data, .count = s->len_bytes};
    uint8_t *back = ea_arena_alloc(r->arena, s->len_bytes + 4u);
    place p = {.c = r->c, .out = back, .capacity = s->len_bytes + 4u};
    ea_text_clear(&r->text);
    if (!back || !ea_value_text(f, s, &r->text) || r->text.failed) {
        r->failed |= !back || r->text.failed;
        return v;
    }
    const char *text = r->text.data ? r->text.data : "";
    if (encode_put_text(&p, f, s->len_bytes, text, r->text.len_bytes) || p.used != s->len_bytes ||
        (s->len_bytes && memcmp(back, s->data, s->len_bytes) != 0))
        return v;
    v = (ea_event_value){.kind = EA_VALUE_TEXT, .count = r->text.len_bytes};
    v.data = ea_arena_copy(r->arena, text, r->text.len_bytes);
    r->failed |= !v.data;
    return v;
}

static ea_event_value read_field(reader *r, size_t field, const ea_slice *s);

/* Bytes of the element at the start of data; 0 when it is not whole. */
static size_t encode_element_bytes(const ea_class *c, const ea_field *f, const uint8_t *data, size_t left) {
    size_t n = 0, head = (size_t)2 * c->pointer_size;
    if (f->width)
        return f->width;
    switch (f->type) {
    case EA_UTF16Z:
        while (n + 2 <= left && ea_load16(data + n))
            n += 2;
        return n + 2 <= left ? n + 2 : n;
    case EA_ANSIZ:
    case EA_UTF8Z:
        while (n < left && data[n])
            n++;
        return n < left ? n + 1 : n;
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        return left >= 2 ? (size_t)2 + ea_load16(data) : 0;
    case EA_SID:
        return left >= 8 ? 8 + (size_t)4 * data[1] : 0;
    case EA_WBEM_SID:
        if (left >= 4 && !ea_load32(data))
            return 4; /* there is none */
        return left >= head + 8 ? head + 8 + (size_t)4 * data[head + 1] : 0;
    default:
        return left; /* of these there is one */
    }
}

/* One element, which is all of the slice but for structs, whose bytes it takes off the slice's front. */
static ea_event_value encode_read_element(reader *r, size_t field, ea_slice *s) {
    const ea_field *f = &r->c->fields[field];
    ea_event_value v = {.kind = EA_VALUE_BYTES, .data = s->data, .count = s->len_bytes};
    if (f->type == EA_STRUCT) {
        ea_slice members[EA_FIELDS_MAX];
        size_t used, whole = ea_class_split_element(r->c, field, s->data, s->len_bytes, members, &used);
        ea_event_value *items = ea_arena_zalloc(r->arena, f->child_count, sizeof *items);
        r->failed |= !items || whole != f->child_count;
        for (size_t i = 0, at = field + 1; !r->failed && i < whole; at += r->c->fields[at].span, i++)
            items[i] = read_field(r, at, &members[i]);
        s->data += used;
        s->len_bytes -= (uint32_t)used;
        return (ea_event_value){.kind = EA_VALUE_LIST, .items = items, .count = f->child_count};
    }
    if (f->type == EA_WBEM_SID) {
        unsigned width = r->c->pointer_size;
        if (s->len_bytes <= 2 * width)
            return (ea_event_value){.kind = EA_VALUE_LIST};
        ea_event_value *items = ea_arena_zalloc(r->arena, 3, sizeof *items);
        r->failed |= !items;
        if (!items)
            return v;
        for (unsigned i = 0; i < 2; i++)
            items[i].number = ea_load_uint(s->data + (size_t)i * width, width);
        items[2] = (ea_event_value){
            .kind = EA_VALUE_BYTES, .data = s->data + (size_t)2 * width, .count = s->len_bytes - (size_t)2 * width};
        return (ea_event_value){.kind = EA_VALUE_LIST, .items = items, .count = 3};
    }
    if (encode_is_text(f->type))
        return read_text(r, f, s);
    if (is_bytes(f->type))
        return v;
    v = (ea_event_value){.kind = EA_VALUE_NUMBER};
    if (is_float(f->type))
        v.number = ea_load_uint(s->data, f->width);
    else if (!ea_value_u64(f, s->data, &v.number))
        r->failed = 1;
    return v;
}

static ea_event_value read_field(reader *r, size_t field, const ea_slice *s) {
    const ea_field *f = &r->c->fields[field];
    ea_slice rest = *s;
    if (f->type == EA_BYTES)
        return (ea_event_value){.kind = EA_VALUE_BYTES, .data = s->data, .count = s->len_bytes};
    if (is_text_of_array(f))
        return read_text(r, f, s);
    if (encode_is_single(f))
        return encode_read_element(r, field, &rest);
    ea_event_value *items = ea_arena_zalloc(r->arena, s->element_count + (size_t)1, sizeof *items);
    r->failed |= !items;
    for (uint32_t i = 0; !r->failed && i < s->element_count; i++) {
        if (f->type == EA_STRUCT) {
            items[i] = encode_read_element(r, field, &rest);
            continue;
        }
        ea_slice one = {rest.data, (uint32_t)encode_element_bytes(r->c, f, rest.data, rest.len_bytes), 1};
        items[i] = encode_read_element(r, field, &one);
        rest.data += one.len_bytes;
        rest.len_bytes -= one.len_bytes;
    }
    return (ea_event_value){.kind = EA_VALUE_LIST, .items = items, .count = s->element_count};
}

int ea_event_read_values(const ea_class *c, const uint8_t *payload, size_t payload_bytes, ea_arena *arena,
                         const ea_event_value **ret_values, size_t *ret_count, size_t *ret_used, ea_err *err) {
    reader r = {.c = c, .arena = arena};
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, payload, payload_bytes, slices, &used), field = 0;
    ea_event_value *values = ea_arena_zalloc(arena, whole + 1, sizeof *values);
    ea_text_init(&r.text);
    r.failed = !values;
    for (size_t i = 0; !r.failed && i < whole; field += c->fields[field].span, i++)
        values[i] = read_field(&r, field, &slices[i]);
    ea_text_deinit(&r.text);
    if (r.failed)
        return ea_fail(err, EA_ENOMEM, "read the values of %s", c->name);
    *ret_values = values;
    *ret_count = whole;
    *ret_used = used;
    return 0;
}
