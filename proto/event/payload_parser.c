/* The bounded walk: a payload into fields. Never reads outside the payload. See event.h.
 * Thread: any (pure functions on constant classes). */
#include "proto/event/event.h"

/* One walk over one payload or struct. counts[i] is the value of field i where another field's length depends on it. It
 * is written before it is read, because a count is a sibling that precedes its array. The counts among the leading
 * fixed fields are read in the payload. */
typedef struct walk {
    const ea_class *c;
    const uint8_t *payload; /* NULL in a struct */
    uint32_t counts[EA_FIELDS_MAX];
} walk;

enum { NOT_WHOLE = -1 };

/* Eight 16-bit units; compilers know such vectors on every machine. */
typedef uint16_t units __attribute__((vector_size(16)));

/* The offset of the first zero among the units of p's 16 bytes; 16 when there is none. */
static inline size_t zero_unit(const uint8_t *p) {
    units v;
    uint64_t is_zero[2]; /* all bits of a unit, or none */
    memcpy(&v, p, sizeof v);
    v = (units)(v == 0);
    memcpy(is_zero, &v, sizeof v);
    if (is_zero[0])
        return (size_t)__builtin_ctzll(is_zero[0]) / 8;
    return is_zero[1] ? 8 + (size_t)__builtin_ctzll(is_zero[1]) / 8 : 16;
}

/* Bytes of a NUL-terminated string at p, its NUL included; all (even) bytes when there is none. */
static int64_t utf16z_bytes(const uint8_t *p, size_t left) {
    size_t at = 0, zero;
    if (left < 2)
        return NOT_WHOLE;
    for (; left - at >= 16; at += 16)
        if ((zero = zero_unit(p + at)) < 16)
            return (int64_t)(at + zero + 2);
    for (; left - at >= 2; at += 2)
        if (ea_load16(p + at) == 0)
            return (int64_t)(at + 2);
    return (int64_t)at;
}

static int64_t ansiz_bytes(const uint8_t *p, size_t left) {
    if (left == 0)
        return NOT_WHOLE;
    const uint8_t *nul = memchr(p, 0, left);
    return nul ? nul - p + 1 : (int64_t)left;
}

static int64_t counted_bytes(const uint8_t *p, size_t left) {
    if (left < 2)
        return NOT_WHOLE;
    size_t bytes = (size_t)2 + ea_load16(p);
    return bytes <= left ? (int64_t)bytes : NOT_WHOLE;
}

/* Revision 1, at most 15 sub-authorities: winnt.h SID, SID_MAX_SUB_AUTHORITIES. */
static int64_t payload_parser_sid_bytes(const uint8_t *p, size_t left) {
    if (left < 8 || p[0] != 1 || p[1] > 15)
        return NOT_WHOLE;
    size_t bytes = 8 + (size_t)4 * p[1];
    return bytes <= left ? (int64_t)bytes : NOT_WHOLE;
}

/* Source: KernelTraceEventParser.cs (SkipSID): four zero bytes, or a TOKEN_USER and the SID. */
static int64_t wbem_sid_bytes(const uint8_t *p, size_t left, uint8_t pointer_size) {
    if (left < 4)
        return NOT_WHOLE;
    if (ea_load32(p) == 0)
        return 4;
    size_t head = (size_t)2 * pointer_size;
    int64_t sid = left > head ? payload_parser_sid_bytes(p + head, left - head) : NOT_WHOLE;
    return sid < 0 ? NOT_WHOLE : (int64_t)head + sid;
}

static int64_t struct_bytes(walk *w, size_t field, const uint8_t *p, size_t left);

/* Bytes of one element of a field whose width varies. */
static int64_t payload_parser_element_bytes(walk *w, size_t field, const uint8_t *p, size_t left) {
    switch (w->c->fields[field].type) {
    case EA_UTF16Z:
        return utf16z_bytes(p, left);
    case EA_ANSIZ:
    case EA_UTF8Z:
        return ansiz_bytes(p, left);
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        return counted_bytes(p, left);
    case EA_UTF16_REST:
        return (int64_t)(left & ~(size_t)1);
    case EA_SID:
        return payload_parser_sid_bytes(p, left);
    case EA_WBEM_SID:
        return wbem_sid_bytes(p, left, w->c->pointer_size);
    case EA_STRUCT:
        return struct_bytes(w, field, p, left);
    default:
        return NOT_WHOLE;
    }
}

static uint32_t saturated(uint64_t count) {
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* The number that field i holds. Field i is whole, because it precedes a field that is being parsed. */
static uint32_t count_in(const walk *w, size_t i) {
    if (i >= w->c->fixed_fields || !w->payload)
        return w->counts[i];
    const ea_field *f = &w->c->fields[i];
    return saturated(ea_load_uint(w->payload + f->offset, f->width));
}

/* Bytes of a field of EA_LENGTH_ANY with all its elements, or NOT_WHOLE. */
EA_APART static int64_t field_bytes(walk *w, size_t field, const uint8_t *p, size_t left, uint32_t *ret_elements) {
    const ea_field *f = &w->c->fields[field];
    int rest = f->count_field < 0 && f->count == EA_COUNT_REST;
    uint32_t count = f->count_field >= 0 ? count_in(w, (size_t)f->count_field) : f->count;
    if (f->width) {
        if (rest)
            count = (uint32_t)(f->width == 8 ? left >> 3 : left / f->width); /* addresses: no division */
        else if ((uint64_t)count * f->width > left)                          /* 32 bits times 8 */
            return NOT_WHOLE;
        *ret_elements = count;
        if (f->is_count)
            w->counts[field] = saturated(ea_load_uint(p, f->width));
        return (int64_t)count * f->width;
    }
    size_t at = 0;
    uint32_t n = 0;
    for (; rest || n < count; n++) {
        int64_t bytes = payload_parser_element_bytes(w, field, p + at, left - at);
        /* An element without bytes in an array would let a few bytes claim four billion of them. */
        if (bytes < 0 || (bytes == 0 && (rest || count > 1))) {
            if (rest)
                break;
            return NOT_WHOLE;
        }
        at += (size_t)bytes;
    }
    *ret_elements = n;
    return (int64_t)at;
}

/* Walks the members first..end. Returns the bytes of those that are whole; *ret_whole is their number. slices, places
 * (in the payload): of these; either may be NULL, and is where this is inlined. */
static inline int64_t scope_bytes(walk *w, size_t first, size_t end, const uint8_t *p, size_t left, ea_slice *slices,
                                  uint16_t *places, size_t *ret_whole) {
    const ea_field *fields = w->c->fields;
    size_t at = 0, n = 0;
    for (size_t field = first; field < end; n++) {
        const ea_field *f = &fields[field];
        uint32_t elements = 1;
        int64_t bytes;
        switch ((enum ea_field_length)f->length) {
        case EA_LENGTH_FIXED:
            bytes = f->width <= left - at ? f->width : NOT_WHOLE;
            break;
        case EA_LENGTH_UTF16Z:
            bytes = utf16z_bytes(p + at, left - at);
            break;
        case EA_LENGTH_BYTEZ:
            bytes = ansiz_bytes(p + at, left - at);
            break;
        case EA_LENGTH_COUNTED:
            bytes = counted_bytes(p + at, left - at);
            break;
        case EA_LENGTH_ANY:
        default:
            bytes = field_bytes(w, field, p + at, left - at, &elements);
            field += f->span - 1u;
        }
        if (bytes < 0)
            break;
        if (slices)
            slices[n] = (ea_slice){p + at, (uint32_t)bytes, elements};
        if (places)
            places[n] = (uint16_t)(p + at - w->payload);
        at += (size_t)bytes;
        field++;
    }
    *ret_whole = n;
    return (int64_t)at;
}

/* Bytes of one element of a struct, or NOT_WHOLE. */
static int64_t struct_bytes(walk *w, size_t field, const uint8_t *p, size_t left) {
    const ea_field *f = &w->c->fields[field];
    size_t whole;
    int64_t used = scope_bytes(w, field + 1, field + f->span, p, left, NULL, NULL, &whole);
    return whole == f->child_count ? used : NOT_WHOLE;
}

/* The leading fixed fields that a payload holds, and their bytes. One that lacks some of them ends where the walk does,
 * for no field of a fixed length is empty. */
static inline size_t fixed_part(const ea_class *c, size_t payload_bytes, size_t *ret_used) {
    size_t whole = c->fixed_fields;
    *ret_used = c->fixed_bytes;
    if (payload_bytes < c->fixed_bytes) {
        while (c->fields[--whole].offset > payload_bytes) {
        }
        *ret_used = c->fields[whole].offset;
    }
    return whole;
}

size_t ea_class_places(const ea_class *c, const uint8_t *payload, size_t payload_bytes, uint16_t *places,
                       size_t *ret_used) {
    walk w;
    size_t used, whole = fixed_part(c, payload_bytes, &used), more = 0;
    if (whole == c->fixed_fields && whole < c->field_count) {
        w.c = c;
        w.payload = payload_bytes ? payload : (const uint8_t *)""; /* a valid pointer to add 0 to */
        const uint8_t *rest = w.payload + used;
        used +=
            (size_t)(places ? scope_bytes(&w, whole, c->field_count, rest, payload_bytes - used, NULL, places, &more)
                            : scope_bytes(&w, whole, c->field_count, rest, payload_bytes - used, NULL, NULL, &more));
    }
    *ret_used = used;
    return whole + more;
}

size_t ea_class_split(const ea_class *c, const uint8_t *payload, size_t payload_bytes, ea_slice *slices,
                      size_t *ret_used) {
    walk w;
    size_t used, whole = fixed_part(c, payload_bytes, &used), more = 0;
    if (payload_bytes == 0)
        payload = (const uint8_t *)"";
    for (size_t i = 0; i < whole; i++) {
        const ea_field *f = &c->fields[i];
        slices[i] = (ea_slice){payload + f->offset, (uint32_t)f->width * f->count, f->count};
    }
    if (whole == c->fixed_fields && whole < c->field_count) {
        w.c = c;
        w.payload = payload;
        used += (size_t)scope_bytes(&w, whole, c->field_count, payload + used, payload_bytes - used, slices + whole,
                                    NULL, &more);
    }
    *ret_used = used;
    return whole + more;
}

size_t ea_class_split_element(const ea_class *c, size_t field, const uint8_t *bytes, size_t len_bytes, ea_slice *slices,
                              size_t *ret_used) {
    walk w;
    size_t whole;
    w.c = c;
    w.payload = NULL;
    *ret_used =
        (size_t)scope_bytes(&w, field + 1, field + c->fields[field].span, bytes, len_bytes, slices, NULL, &whole);
    return whole;
}

int ea_class_is_whole(const ea_class *c, size_t whole, size_t used, size_t payload_bytes) {
    return c->status == EA_CLASS_KNOWN && whole >= c->required_count && used == payload_bytes;
}

ea_slice ea_class_logged(const ea_class *c, const uint8_t *payload, size_t payload_bytes) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    if (c->unfolded && ea_class_split(c, payload, payload_bytes, slices, &used) == c->top_count)
        return slices[c->top_count - 1];
    return (ea_slice){payload, (uint32_t)payload_bytes, 1};
}

size_t ea_class_top_count(const ea_class *c) {
    return c->top_count;
}

size_t ea_class_top_field(const ea_class *c, size_t i) {
    size_t field = 0;
    if (i < c->fixed_fields || c->top_count == c->field_count) /* no structs before it, or none at all */
        return i < c->field_count ? i : c->field_count;
    while (i-- && field < c->field_count)
        field += c->fields[field].span;
    return field;
}
