/* Payloads from field values. See payload.h. */
#include "tests/tracegen/payload.h"

#include <string.h>

enum { PUT_NUMBER, PUT_NUMBERS, PUT_BYTES, PUT_UTF16Z, PUT_UTF16_REST, PUT_UTF16_FIXED, PUT_ANSIZ, PUT_WBEM_SID };

tg_v tg_text(const char *utf8) {
    return utf8 ? (tg_v){strlen(utf8), utf8} : (tg_v){0, ""};
}

/* ---- making a plan ---- */

/* What to do for one field; 0 when nothing here can write it. */
static int operation_of(const ea_field *f, uint8_t pointer_size, int8_t value, tg_operation *ret) {
    tg_operation op = {.value = value, .width = f->width};
    switch (f->type) {
    case EA_UTF16Z: /* several of them come as the bytes that they are */
        op.kind = f->count_field >= 0 ? PUT_BYTES : PUT_UTF16Z;
        break;
    case EA_UTF16_REST:
        op.kind = PUT_UTF16_REST;
        break;
    case EA_UTF16_FIXED:
        op.kind = PUT_UTF16_FIXED;
        op.zero_bytes = 2u * f->count;
        break;
    case EA_ANSIZ:
    case EA_UTF8Z:
        op.kind = PUT_ANSIZ;
        break;
    case EA_WBEM_SID:
        op.kind = PUT_WBEM_SID;
        op.width = pointer_size;
        break;
    case EA_BYTES:
        op.kind = PUT_BYTES;
        op.zero_bytes = f->count == EA_COUNT_REST || f->count_field >= 0 ? 0 : f->count;
        break;
    case EA_GUID:
    case EA_IPV6:
        op.kind = PUT_BYTES;
        op.zero_bytes = 16;
        break;
    default:
        if (!f->width || f->type == EA_STRUCT)
            return 0;
        if (f->count == 1 && f->count_field < 0) {
            op.kind = PUT_NUMBER;
        } else {
            op.kind = PUT_NUMBERS;
            op.zero_bytes = f->count == EA_COUNT_REST || f->count_field >= 0 ? 0 : (uint32_t)f->width * f->count;
        }
    }
    *ret = op;
    return 1;
}

int tg_plan_make(tg_plan *ret, const ea_class *c, const char *const *names, ea_err *err) {
    tg_plan p = {.class = c};
    int used[TG_VALUES_MAX] = {0}, varies = 0;
    if (c->status != EA_CLASS_KNOWN)
        return ea_fail(err, EA_EINVAL, "encode %s, code %u, version %u: its layout is not known", c->name, c->code,
                       c->version);
    if (c->top_count > TG_OPERATIONS_MAX)
        return ea_fail(err, EA_EINVAL, "encode %s: more than %d fields", c->name, TG_OPERATIONS_MAX);
    for (size_t i = 0; i < c->top_count; i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        int8_t value = -1;
        size_t length = strlen(f->name);
        for (int k = 0; k < TG_VALUES_MAX && names[k] && value < 0; k++)
            if (strncmp(names[k], f->name, length) == 0 && (!names[k][length] || strcmp(names[k] + length, "?") == 0))
                value = (int8_t)k;
        if (value >= 0)
            used[value] = 1;
        tg_operation *op = &p.operations[p.operation_count++];
        if (!operation_of(f, c->pointer_size, value, op))
            return ea_fail(err, EA_EINVAL, "encode %s: nothing writes its field %s", c->name, f->name);
        varies |= op->kind != PUT_NUMBER;
        p.fixed_bytes += op->width;
    }
    for (int k = 0; k < TG_VALUES_MAX && names[k]; k++)
        if (!used[k] && !strchr(names[k], '?'))
            return ea_fail(err, EA_EINVAL, "encode %s version %u: it has no field %s", c->name, c->version, names[k]);
    if (varies)
        p.fixed_bytes = 0;
    *ret = p;
    return 0;
}

/* ---- encoding ---- */

static void put_number(uint8_t *at, unsigned width, uint64_t v) {
    switch (width) {
    case 1:
        *at = (uint8_t)v;
        break;
    case 2:
        ea_store16(at, (uint16_t)v);
        break;
    case 4:
        ea_store32(at, (uint32_t)v);
        break;
    default:
        ea_store64(at, v);
    }
}

/* Text of a plain kind goes byte by byte; anything else takes the way that knows UTF-8. Returns the bytes. */
static size_t put_utf16(uint8_t *at, size_t room, const char *text, size_t n) {
    size_t i = 0;
    for (; i < n && (uint8_t)text[i] < 0x80 && 2 * i + 2 <= room; i++) {
        at[2 * i] = (uint8_t)text[i];
        at[2 * i + 1] = 0;
    }
    return 2 * i + (i < n ? ea_utf8_to_utf16(text + i, n - i, at + 2 * i, room - 2 * i) : 0);
}

size_t tg_plan_encode(const tg_plan *p, const tg_v *values, uint8_t *out, size_t capacity, int *ret_fits) {
    static const tg_v nothing;
    size_t used = 0;
    *ret_fits = 0;
    if (p->fixed_bytes) {
        if (p->fixed_bytes > capacity)
            return 0;
        for (const tg_operation *op = p->operations, *end = op + p->operation_count; op < end; op++) {
            put_number(out + used, op->width, op->value < 0 ? 0 : values[op->value].n);
            used += op->width;
        }
        *ret_fits = 1;
        return used;
    }
    for (const tg_operation *op = p->operations, *end = op + p->operation_count; op < end; op++) {
        const tg_v *v = op->value < 0 ? &nothing : &values[op->value];
        size_t room = capacity - used, n = v->data ? (size_t)v->n : 0;
        uint8_t *at = out + used;
        switch (op->kind) {
        case PUT_NUMBER:
            if (op->width > room)
                return 0;
            put_number(at, op->width, v->n);
            used += op->width;
            break;
        case PUT_NUMBERS:
            if (n > room / op->width || op->zero_bytes > room)
                return 0;
            if (op->zero_bytes)
                memset(at, 0, op->zero_bytes);
            for (size_t i = 0; i < n; i++)
                put_number(at + i * op->width, op->width, ((const uint64_t *)v->data)[i]);
            used += op->zero_bytes ? op->zero_bytes : n * op->width;
            break;
        case PUT_BYTES:
            if (n > room || op->zero_bytes > room)
                return 0;
            if (op->zero_bytes)
                memset(at, 0, op->zero_bytes);
            if (n)
                memcpy(at, v->data, op->zero_bytes && n > op->zero_bytes ? op->zero_bytes : n);
            used += op->zero_bytes ? op->zero_bytes : n;
            break;
        case PUT_UTF16_FIXED:
            if (op->zero_bytes > room)
                return 0;
            memset(at, 0, op->zero_bytes);
            (void)put_utf16(at, op->zero_bytes - 2, v->data ? v->data : "", n < op->zero_bytes / 2 ? n : 0);
            used += op->zero_bytes;
            break;
        case PUT_ANSIZ:
            if (n + 1 > room)
                return 0;
            if (n)
                memcpy(at, v->data, n);
            at[n] = 0;
            used += n + 1;
            break;
        case PUT_WBEM_SID: /* TOKEN_USER, whose pointer means nothing outside, and the SID; or a zero */
            if (!n) {
                if (room < 4)
                    return 0;
                ea_store32(at, 0);
                used += 4;
                break;
            }
            if (2u * op->width + n > room)
                return 0;
            memset(at, 0, 2u * op->width);
            put_number(at, op->width, 1);
            memcpy(at + 2u * op->width, v->data, n);
            used += 2u * op->width + n;
            break;
        default: {
            size_t nul = op->kind == PUT_UTF16Z ? 2 : 0, written;
            if (2 * n + nul > room) /* UTF-16 takes at most two bytes for each byte of UTF-8 */
                return 0;
            written = n ? put_utf16(at, room - nul, v->data, n) : 0;
            memset(at + written, 0, nul);
            used += written + nul;
        }
        }
    }
    *ret_fits = 1;
    return used;
}
