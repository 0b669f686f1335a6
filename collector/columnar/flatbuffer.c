/* See flatbuffer.h. */
#include "collector/columnar/flatbuffer.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 1024, CAPACITY_MAX = 1 << 30, ALIGNMENT = 8 };

void ec_flatbuffer_init(ec_flatbuffer *f) {
    *f = (ec_flatbuffer){.data = NULL};
}

void ec_flatbuffer_deinit(ec_flatbuffer *f) {
    free(f->data);
    *f = (ec_flatbuffer){.data = NULL};
}

void ec_flatbuffer_clear(ec_flatbuffer *f) {
    f->len_bytes = 0;
    f->failed = 0;
}

/* Room for n bytes in front of the bytes written so far; NULL: the buffer cannot grow. */
static uint8_t *grow_down(ec_flatbuffer *f, size_t n) {
    if (f->failed || n > CAPACITY_MAX - f->len_bytes) {
        f->failed = 1;
        return NULL;
    }
    if (f->len_bytes + n > f->capacity) {
        size_t capacity = f->capacity ? f->capacity : CAPACITY_FIRST;
        while (capacity < f->len_bytes + n)
            capacity *= 2;
        uint8_t *data = malloc(capacity);
        if (!data) {
            f->failed = 1;
            return NULL;
        }
        if (f->len_bytes)
            memcpy(data + capacity - f->len_bytes, f->data + f->capacity - f->len_bytes, f->len_bytes);
        free(f->data);
        f->data = data;
        f->capacity = capacity;
    }
    f->len_bytes += n;
    return f->data + f->capacity - f->len_bytes;
}

/* Fills up, so that what is written after `more` further bytes is aligned. */
static void align_for(ec_flatbuffer *f, size_t bytes, size_t more) {
    size_t n = (~(f->len_bytes + more) + 1) & (bytes - 1);
    uint8_t *at = n ? grow_down(f, n) : NULL;
    if (at)
        memset(at, 0, n);
}

static void flatbuffer_put_number(ec_flatbuffer *f, uint64_t v, unsigned bytes) {
    align_for(f, bytes, 0);
    uint8_t *at = grow_down(f, bytes);
    for (unsigned i = 0; at && i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void flatbuffer_put_place(ec_flatbuffer *f, uint32_t place) {
    align_for(f, 4, 0);
    flatbuffer_put_number(f, f->len_bytes + 4 - place, 4);
}

uint32_t ec_flatbuffer_string(ec_flatbuffer *f, const char *s) {
    size_t n = strlen(s);
    align_for(f, 4, n + 1);
    uint8_t *at = grow_down(f, n + 1);
    if (at)
        memcpy(at, s, n + 1);
    flatbuffer_put_number(f, n, 4);
    return (uint32_t)f->len_bytes;
}

uint32_t ec_flatbuffer_places(ec_flatbuffer *f, const uint32_t *places, size_t count) {
    align_for(f, 4, 4 * count);
    for (size_t i = count; i-- > 0;)
        flatbuffer_put_place(f, places[i]);
    flatbuffer_put_number(f, count, 4);
    return (uint32_t)f->len_bytes;
}

uint32_t ec_flatbuffer_structs(ec_flatbuffer *f, const int64_t *numbers, size_t count, unsigned width) {
    align_for(f, 8, 8 * count * width); /* the first number is aligned; the count is before it */
    for (size_t i = count * width; i-- > 0;)
        flatbuffer_put_number(f, (uint64_t)numbers[i], 8);
    flatbuffer_put_number(f, count, 4);
    return (uint32_t)f->len_bytes;
}

void ec_flatbuffer_table(ec_flatbuffer *f) {
    memset(f->slots, 0, sizeof f->slots);
    f->table = (uint32_t)f->len_bytes;
}

void ec_flatbuffer_number(ec_flatbuffer *f, unsigned slot, uint64_t v, unsigned bytes) {
    flatbuffer_put_number(f, v, bytes);
    f->slots[slot] = (uint32_t)f->len_bytes;
}

void ec_flatbuffer_place(ec_flatbuffer *f, unsigned slot, uint32_t place) {
    flatbuffer_put_place(f, place);
    f->slots[slot] = (uint32_t)f->len_bytes;
}

uint32_t ec_flatbuffer_end(ec_flatbuffer *f) {
    unsigned count = EC_FLATBUFFER_SLOTS;
    flatbuffer_put_number(f, 0, 4); /* how far its table of slots is before it */
    uint32_t table = (uint32_t)f->len_bytes;
    while (count && !f->slots[count - 1])
        count--;
    for (unsigned i = count; i-- > 0;)
        flatbuffer_put_number(f, f->slots[i] ? table - f->slots[i] : 0, 2);
    flatbuffer_put_number(f, table - f->table, 2);
    flatbuffer_put_number(f, 2 * ((uint64_t)count + 2), 2);
    uint32_t distance = (uint32_t)f->len_bytes - table;
    for (unsigned i = 0; !f->failed && i < 4; i++)
        f->data[f->capacity - table + i] = (uint8_t)(distance >> 8 * i);
    return table;
}

const uint8_t *ec_flatbuffer_finish(ec_flatbuffer *f, uint32_t root, size_t *ret_len_bytes) {
    align_for(f, ALIGNMENT, 4);
    flatbuffer_put_place(f, root);
    *ret_len_bytes = f->len_bytes;
    return f->failed ? NULL : f->data + f->capacity - f->len_bytes;
}
