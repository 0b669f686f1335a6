/* Payloads of any class with random values, for the tests that write every class and read it back. Follows a class's
 * fields as DESCRIPTIONS.md says how they lie, not the split's code. One translation unit uses it; thread: any. */
#ifndef EA_TESTS_UNIT_RANDOM_PAYLOAD_H
#define EA_TESTS_UNIT_RANDOM_PAYLOAD_H

#include "proto/event/event.h"

#include <string.h>

enum { RANDOM_PAYLOAD_MAX = 16384, RANDOM_TEXT_MAX = 13, RANDOM_COUNT_MAX = 6 };

typedef struct random_payload {
    uint8_t bytes[RANDOM_PAYLOAD_MAX];
    size_t len_bytes;

    /* of each top-level field: where it lies, and how many elements it has */
    struct {
        size_t at, len_bytes;
        uint32_t element_count;
    } tops[EA_FIELDS_MAX];

    uint64_t state;
} random_payload;

static inline uint64_t random_next(random_payload *p) {
    p->state ^= p->state >> 12;
    p->state ^= p->state << 25;
    p->state ^= p->state >> 27;
    return p->state * 0x2545F4914F6CDD1Du;
}

static inline void random_put(random_payload *p, uint64_t v, size_t width) {
    for (size_t i = 0; i < width && p->len_bytes < RANDOM_PAYLOAD_MAX; i++)
        p->bytes[p->len_bytes++] = (uint8_t)(i < 8 ? v >> 8 * i : 0);
}

static inline void random_bytes(random_payload *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        random_put(p, random_next(p) >> 32, 1);
}

/* Printable text; least: of characters. */
static inline size_t random_letters(random_payload *p, size_t width, size_t least) {
    size_t n = least + random_next(p) % RANDOM_TEXT_MAX;
    for (size_t i = 0; i < n; i++)
        random_put(p, 'A' + random_next(p) % 58, width);
    return n;
}

static inline void random_sid(random_payload *p) {
    size_t n = random_next(p) % 6;
    random_put(p, 1, 1);
    random_put(p, n, 1);
    random_bytes(p, 6 + 4 * n);
}

static inline void random_fields(random_payload *p, const ea_class *c, size_t first, size_t end, int top);

static inline void random_element(random_payload *p, const ea_class *c, size_t field) {
    const ea_field *f = &c->fields[field];
    switch (f->type) {
    case EA_UTF16Z:
        random_letters(p, 2, 0);
        random_put(p, 0, 2);
        return;
    case EA_ANSIZ:
    case EA_UTF8Z:
        random_letters(p, 1, 0);
        random_put(p, 0, 1);
        return;
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED: {
        size_t at = p->len_bytes, width = f->type == EA_UTF16_COUNTED ? 2 : 1;
        random_put(p, 0, 2);
        p->bytes[at] = (uint8_t)(width * random_letters(p, width, 0));
        return;
    }
    case EA_UTF16_REST:
        random_letters(p, 2, 1);
        return;
    case EA_WBEM_SID:
        if (random_next(p) % 4 == 0) {
            random_put(p, 0, 4);
            return;
        }
        random_put(p, random_next(p) | 1, c->pointer_size);
        random_put(p, 0, c->pointer_size);
        random_sid(p);
        return;
    case EA_SID:
        random_sid(p);
        return;
    case EA_STRUCT:
        random_fields(p, c, field + 1, field + f->span, 0);
        return;
    case EA_BYTES:
        random_bytes(p, 1);
        return;
    default:
        if (f->is_count)
            random_put(p, random_next(p) % RANDOM_COUNT_MAX, f->width);
        else
            random_bytes(p, f->width);
    }
}

/* The fields [first, end) of one level, with their elements. */
static inline void random_fields(random_payload *p, const ea_class *c, size_t first, size_t end, int top) {
    uint64_t counts[EA_FIELDS_MAX]; /* values of this level's count fields */
    size_t index = 0;
    for (size_t i = first; i < end; i += c->fields[i].span, index++) {
        const ea_field *f = &c->fields[i];
        size_t at = p->len_bytes;
        uint64_t n = f->count_field >= 0         ? counts[f->count_field]
                     : f->count == EA_COUNT_REST ? 1 + random_next(p) % RANDOM_COUNT_MAX
                                                 : f->count;
        for (uint64_t k = 0; k < n; k++)
            random_element(p, c, i);
        if (f->is_count) {
            counts[i] = 0;
            memcpy(&counts[i], p->bytes + at, f->width);
        }
        if (top) {
            p->tops[index].at = at;
            p->tops[index].len_bytes = p->len_bytes - at;
            p->tops[index].element_count = (uint32_t)n;
        }
    }
}

/* A whole payload; p->state is the seed, not 0. */
static inline void random_payload_make(random_payload *p, const ea_class *c) {
    p->len_bytes = 0;
    random_fields(p, c, 0, c->field_count, 1);
}

#endif
