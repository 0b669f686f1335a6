/* Flatbuffers, writing: the form of an Arrow file's metadata. A buffer grows from its end to its begin, as children
 * come before what refers to them. Source: the specification "FlatBuffers internals". Called by: arrow.c. Thread: its
 * owner's.
 *
 * A place is what a call returned: the bytes from there to the end of the buffer. Errors stick (failed). */
#ifndef EC_COLUMNAR_FLATBUFFER_H
#define EC_COLUMNAR_FLATBUFFER_H

#include <stddef.h>
#include <stdint.h>

enum { EC_FLATBUFFER_SLOTS = 8 };

typedef struct ec_flatbuffer {
    uint8_t *data; /* the last len_bytes of capacity are in use */
    size_t capacity, len_bytes;
    int failed;
    uint32_t slots[EC_FLATBUFFER_SLOTS], table; /* of the table that is open */
} ec_flatbuffer;

void ec_flatbuffer_init(ec_flatbuffer *f);
void ec_flatbuffer_deinit(ec_flatbuffer *f);
void ec_flatbuffer_clear(ec_flatbuffer *f);

uint32_t ec_flatbuffer_string(ec_flatbuffer *f, const char *s);
/* A vector of places of tables or strings. */
uint32_t ec_flatbuffer_places(ec_flatbuffer *f, const uint32_t *places, size_t count);
/* A vector of structs that consist of `width` numbers of 64 bits each. */
uint32_t ec_flatbuffer_structs(ec_flatbuffer *f, const int64_t *numbers, size_t count, unsigned width);

/* A table: begin, fields in any order, end. */
void ec_flatbuffer_table(ec_flatbuffer *f);
void ec_flatbuffer_number(ec_flatbuffer *f, unsigned slot, uint64_t v, unsigned bytes);
void ec_flatbuffer_place(ec_flatbuffer *f, unsigned slot, uint32_t place);
uint32_t ec_flatbuffer_end(ec_flatbuffer *f);

/* The whole buffer, once its root is known. */
const uint8_t *ec_flatbuffer_finish(ec_flatbuffer *f, uint32_t root, size_t *ret_len_bytes);

#endif
