/* The arithmetic of columns. See column.h. */
#include "proto/wire/column.h"
#include "proto/base/bytes.h"

void ea_planes_put(uint8_t *out, const uint64_t *values, size_t count, unsigned planes) {
    for (unsigned p = 0; p < planes; p++, out += count) {
        unsigned shift = 8 * p;
        for (size_t i = 0; i < count; i++)
            out[i] = (uint8_t)(values[i] >> shift);
    }
}

void ea_planes_get(uint64_t *out, const uint8_t *in, size_t count, unsigned planes) {
    for (size_t i = 0; i < count; i++)
        out[i] = in[i];
    for (unsigned p = 1; p < planes; p++) {
        unsigned shift = 8 * p;
        in += count;
        for (size_t i = 0; i < count; i++)
            out[i] |= (uint64_t)in[i] << shift;
    }
}

void ea_planes_get32(uint32_t *out, const uint8_t *in, size_t count, unsigned planes) {
    for (size_t i = 0; i < count; i++)
        out[i] = in[i];
    for (unsigned p = 1; p < planes; p++) {
        unsigned shift = 8 * p;
        in += count;
        for (size_t i = 0; i < count; i++)
            out[i] |= (uint32_t)in[i] << shift;
    }
}

void ea_planes_get16(uint16_t *out, const uint8_t *in, size_t count, unsigned planes) {
    for (size_t i = 0; i < count; i++)
        out[i] = planes == 2 ? (uint16_t)(in[i] | in[count + i] << 8) : in[i];
}

void ea_planes_join(uint8_t *out, const uint8_t *in, size_t count, size_t width) {
    if (width == 2) {
        const uint8_t *high = in + count;
        for (size_t i = 0; i < count; i++) {
            out[2 * i] = in[i];
            out[2 * i + 1] = high[i];
        }
        return;
    }
    for (size_t p = 0; p < width; p++, in += count)
        for (size_t i = 0; i < count; i++)
            out[i * width + p] = in[i];
}

void ea_bits_put(uint8_t *out, const uint64_t *values, size_t count, unsigned bits) {
    size_t at = 0;
    memset(out, 0, ea_bits_bytes(count, bits));
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < bits; k++, at++)
            out[at / 8] |= (uint8_t)((values[i] >> k & 1) << at % 8);
}

void ea_bits_get(uint64_t *out, const uint8_t *in, size_t count, unsigned bits) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = 0;
        for (unsigned k = 0; k < bits; k++, at++)
            out[i] |= (uint64_t)(in[at / 8] >> at % 8 & 1) << k;
    }
}

size_t ea_varint_put(uint8_t *out, const uint64_t *values, size_t count) {
    uint8_t *at = out;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = values[i];
        for (; v >= 0x80; v >>= 7)
            *at++ = (uint8_t)(v | 0x80);
        *at++ = (uint8_t)v;
    }
    return (size_t)(at - out);
}

size_t ea_varint_bytes(uint64_t value) {
    size_t n = 1;
    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

int ea_varint_next(const uint8_t **at, const uint8_t *end, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t b = *(*at)++;
        if (shift == 63 && b > 1)
            return EA_ECORRUPT;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = v;
            return 0;
        }
    }
    return EA_ECORRUPT;
}

int ea_varint_get(uint64_t *out, size_t count, const uint8_t *in, size_t len_bytes) {
    const uint8_t *end = in + len_bytes;
    for (size_t i = 0; i < count; i++)
        if (ea_varint_next(&in, end, &out[i]))
            return EA_ECORRUPT;
    return in == end ? 0 : EA_ECORRUPT;
}
