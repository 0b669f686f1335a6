/* Payloads from field values, by the same class rows that read them.
 * Before it: the model, which knows names and values. After it: trace_out.c. Thread: any (pure functions). */
#ifndef EA_TRACEGEN_PAYLOAD_H
#define EA_TRACEGEN_PAYLOAD_H

#include "event.h"

typedef struct tg_value {
    const char *field;
    enum { TG_NUMBER, TG_TEXT, TG_BYTES, TG_NUMBERS } kind;
    uint64_t number;
    const void *data; /* borrowed: UTF-8 text, bytes, or uint64_t numbers */
    size_t count;     /* bytes of text and bytes; numbers */
} tg_value;

tg_value tg_number(const char *field, uint64_t v);
tg_value tg_text(const char *field, const char *utf8); /* NULL: "" */
tg_value tg_bytes(const char *field, const void *data, size_t len_bytes);
tg_value tg_numbers(const char *field, const uint64_t *v, size_t count);

/* Writes the payload of class c. A field without a value is zero or empty. EA_EINVAL for a value whose field the class
 * lacks or cannot hold, EA_ELIMIT when capacity is too small. */
EA_MUST_CHECK int tg_encode(const ea_class *c, const tg_value *values, size_t value_count, uint8_t *out,
                            size_t capacity, size_t *ret_len_bytes, ea_err *err);

#endif
