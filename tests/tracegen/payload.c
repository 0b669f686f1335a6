/* Payloads from field values. See payload.h. */
#include "payload.h"

#include <string.h>

tg_value tg_number(const char *field, uint64_t v) {
    return (tg_value){.field = field, .kind = TG_NUMBER, .number = v};
}
tg_value tg_text(const char *field, const char *utf8) {
    return (tg_value){.field = field, .kind = TG_TEXT, .data = utf8 ? utf8 : "", .count = utf8 ? strlen(utf8) : 0};
}
tg_value tg_bytes(const char *field, const void *data, size_t len_bytes) {
    return (tg_value){.field = field, .kind = TG_BYTES, .data = data, .count = len_bytes};
}
tg_value tg_numbers(const char *field, const uint64_t *v, size_t count) {
    return (tg_value){.field = field, .kind = TG_NUMBERS, .data = v, .count = count};
}

typedef struct place {
    uint8_t *out;
    size_t capacity, used;
} place;

/* Room for n more zeroed bytes, or NULL. */
static uint8_t *take(place *p, size_t n) {
    if (n > p->capacity - p->used)
        return NULL;
    uint8_t *at = p->out + p->used;
    memset(at, 0, n);
    p->used += n;
    return at;
}

static int put_number(place *p, unsigned width, uint64_t v) {
    uint8_t *at = take(p, width);
    if (!at)
        return EA_ELIMIT;
    memcpy(at, &v, width); /* little-endian: the low bytes */
    return 0;
}

static int put_bytes(place *p, const void *data, size_t n) {
    uint8_t *at = take(p, n);
    if (!at)
        return EA_ELIMIT;
    if (n)
        memcpy(at, data, n);
    return 0;
}

static int put_utf16(place *p, const tg_value *v, unsigned terminator_bytes) {
    size_t n = v ? ea_utf8_to_utf16(v->data, v->count, NULL, 0) : 0;
    uint8_t *at = take(p, n + terminator_bytes);
    if (!at)
        return EA_ELIMIT;
    if (n)
        ea_utf8_to_utf16(v->data, v->count, at, n);
    return 0;
}

/* One field; EA_EINVAL when the value is of a kind that its type cannot hold. v NULL: none was given. */
static int put_field(place *p, const ea_class *c, const ea_field *f, const tg_value *v) {
    if (f->width && v && v->kind == TG_NUMBERS) {
        for (size_t i = 0; i < v->count; i++)
            if (put_number(p, f->width, ((const uint64_t *)v->data)[i]))
                return EA_ELIMIT;
        return f->count == EA_COUNT_REST || f->count_field >= 0 || v->count == f->count ? 0 : EA_EINVAL;
    }
    switch (f->type) {
    case EA_UTF16Z:
        return v && v->kind != TG_TEXT ? EA_EINVAL : put_utf16(p, v, 2);
    case EA_UTF16_REST:
        return v && v->kind != TG_TEXT ? EA_EINVAL : put_utf16(p, v, 0);
    case EA_ANSIZ:
    case EA_UTF8Z:
        if (v && v->kind != TG_TEXT)
            return EA_EINVAL;
        if (v && put_bytes(p, v->data, v->count))
            return EA_ELIMIT;
        return put_number(p, 1, 0);
    case EA_WBEM_SID: /* TOKEN_USER, whose pointer means nothing outside, and the SID */
        if (!v)
            return put_number(p, 4, 0);
        if (v->kind != TG_BYTES)
            return EA_EINVAL;
        if (put_number(p, c->pointer_size, 1) || put_number(p, c->pointer_size, 0))
            return EA_ELIMIT;
        return put_bytes(p, v->data, v->count);
    default:
        break;
    }
    if (v && v->kind == TG_BYTES) {
        size_t fixed = (size_t)f->width * f->count;
        int fits = f->type == EA_BYTES || f->count == EA_COUNT_REST
                       ? !f->count || f->count == EA_COUNT_REST || v->count == f->count
                       : fixed == v->count;
        return fits ? put_bytes(p, v->data, v->count) : EA_EINVAL;
    }
    if (f->count == EA_COUNT_REST && !v)
        return 0;
    if (!f->width || f->count_field >= 0)
        return EA_EINVAL;
    if (v && (v->kind != TG_NUMBER || f->count != 1 || f->width > 8))
        return EA_EINVAL;
    if (v)
        return put_number(p, f->width, v->number);
    return take(p, (size_t)f->width * f->count) ? 0 : EA_ELIMIT;
}

int tg_encode(const ea_class *c, const tg_value *values, size_t value_count, uint8_t *out, size_t capacity,
              size_t *ret_len_bytes, ea_err *err) {
    place p = {.out = out, .capacity = capacity};
    if (c->status != EA_CLASS_KNOWN)
        return ea_fail(err, EA_EINVAL, "encode %s, opcode %u, version %u: its layout is not known", c->name, c->code,
                       c->version);
    size_t used = 0;
    for (size_t i = 0; i < c->top_count; i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        const tg_value *v = NULL;
        for (size_t k = 0; k < value_count && !v; k++)
            if (strcmp(values[k].field, f->name) == 0)
                v = &values[k];
        used += v != NULL;
        int rc = put_field(&p, c, f, v);
        if (rc)
            return ea_fail(err, rc, "encode %s: field %s", c->name, f->name);
    }
    if (used != value_count)
        return ea_fail(err, EA_EINVAL, "encode %s version %u: it lacks a field that a value is given for", c->name,
                       c->version);
    *ret_len_bytes = p.used;
    return 0;
}
