/* Payloads from field values, by the same class rows that read them. Input: forms.h (which fields an event of the model
 * gives), trace_out.c. Output: the .etl writer. Thread: its owner's.
 *
 * A plan is compiled once for each event; encoding is then a walk over it, without a comparison of names. */
#ifndef EA_TESTS_TRACEGEN_PAYLOAD_H
#define EA_TESTS_TRACEGEN_PAYLOAD_H

#include "proto/event/event.h"

enum { TG_VALUES_MAX = 20, TG_OPERATIONS_MAX = 48 };

/* One value: a number (data NULL), or UTF-8 text, bytes, or an array of uint64_t of n bytes or elements, borrowed.
 * Which of them is meant says the field's type. */
typedef struct tg_v {
    uint64_t n;
    const void *data;
} tg_v;

static inline tg_v tg_n(uint64_t n) {
    return (tg_v){n, NULL};
}

tg_v tg_text(const char *utf8); /* NULL: "" */

static inline tg_v tg_bytes(const void *data, size_t len_bytes) {
    return (tg_v){len_bytes, data};
}

static inline tg_v tg_array(const uint64_t *v, size_t count) {
    return (tg_v){count, v};
}

typedef struct tg_operation {
    uint8_t kind;  /* of payload.c */
    uint8_t width; /* bytes of one element */
    int8_t value;  /* index of the value; -1: none was given, zero or empty */
    uint32_t zero_bytes;
} tg_operation;

typedef struct tg_plan {
    const ea_class *class;
    uint32_t fixed_bytes; /* 0: the payload's length varies */
    uint16_t operation_count;
    tg_operation operations[TG_OPERATIONS_MAX];
} tg_plan;

/* names: of the values, in their order, ends with NULL. A name that ends with ? may be missing in the class (an older
 * version's). EA_EINVAL for a class without a layout, a name that it lacks, a field that nothing here can write. */
EA_MUST_CHECK int tg_plan_make(tg_plan *ret, const ea_class *c, const char *const *names, ea_err *err);

/* values: as many as names. Returns the bytes written, or 0 with *ret_fits 0 when capacity is too small. */
size_t tg_plan_encode(const tg_plan *p, const tg_v *values, uint8_t *out, size_t capacity, int *ret_fits);

#endif
