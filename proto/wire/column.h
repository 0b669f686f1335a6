/* The arithmetic of columns, both ways: byte planes, LEB128, zigzag. FORMAT.md, "Columns". Input: rows of numbers. Used
 * by: the encoder (service/batch) and unpack.c. Thread: any. */
#ifndef EA_WIRE_COLUMN_H
#define EA_WIRE_COLUMN_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* What travels of a difference: small for small ones of either sign. All arithmetic is modulo 2^64. */
static inline uint64_t ea_zigzag(uint64_t difference) {
    return (difference << 1) ^ (0 - (difference >> 63));
}

static inline uint64_t ea_unzigzag(uint64_t v) {
    return (v >> 1) ^ (0 - (v & 1));
}

/* value modulo 2^(8 * width), and the same with its sign carried up to bit 63. width 1 to 8. */
static inline uint64_t ea_cut(uint64_t value, unsigned width) {
    return width >= 8 ? value : value & ((1ull << (8 * width)) - 1);
}

static inline uint64_t ea_extend(uint64_t value, unsigned width) {
    unsigned shift = 64 - 8 * width;
    return (uint64_t)((int64_t)(value << shift) >> shift);
}

/* Bytes that hold value: 0 to 8. */
static inline unsigned ea_bytes_of(uint64_t value) {
#if defined(__GNUC__) || defined(__clang__)
    return value ? (71 - (unsigned)__builtin_clzll(value)) / 8 : 0;
#else
    unsigned n = 0;
    for (; value; value >>= 8)
        n++;
    return n;
#endif
}

/* Writes the low `planes` bytes (1 to 8) of count values as planes: out has room for planes * count. */
void ea_planes_put(uint8_t *out, const uint64_t *values, size_t count, unsigned planes);
/* The way back; in holds planes * count bytes. */
void ea_planes_get(uint64_t *out, const uint8_t *in, size_t count, unsigned planes);
/* The same into narrower numbers; planes 1 to 4, 1 or 2. */
void ea_planes_get32(uint32_t *out, const uint8_t *in, size_t count, unsigned planes);
void ea_planes_get16(uint16_t *out, const uint8_t *in, size_t count, unsigned planes);
/* Elements of any width out of their byte planes, in -> out, count * width bytes. */
void ea_planes_join(uint8_t *out, const uint8_t *in, size_t count, size_t width);

/* The low `bits` bits (1 to 64) of each value, one after another from the lowest bit of the first byte on: out has room
 * for ea_bits_bytes. in holds as many. */
static inline size_t ea_bits_bytes(size_t count, unsigned bits) {
    return (count * bits + 7) / 8;
}

void ea_bits_put(uint8_t *out, const uint64_t *values, size_t count, unsigned bits);
void ea_bits_get(uint64_t *out, const uint8_t *in, size_t count, unsigned bits);

/* LEB128: out has room for 10 * count; returns the bytes written. */
size_t ea_varint_put(uint8_t *out, const uint64_t *values, size_t count);
size_t ea_varint_bytes(uint64_t value);
/* Reads the value at *at and moves *at after it: 0, or EA_ECORRUPT when no value ends before end or the value exceeds
 * 64 bits. */
EA_MUST_CHECK int ea_varint_next(const uint8_t **at, const uint8_t *end, uint64_t *ret);
/* Reads exactly count values that take exactly len_bytes: 0, or EA_ECORRUPT. */
EA_MUST_CHECK int ea_varint_get(uint64_t *out, size_t count, const uint8_t *in, size_t len_bytes);

#endif
