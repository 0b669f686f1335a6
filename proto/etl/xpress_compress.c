/* XPRESS (plain LZ77), compressing: greedy matches from a hash table of the last place of each three bytes. Called by:
 * etl_writer.c. Output: compressed buffers. Thread: any. Source: [MS-XCA] 2.3. */
#include "proto/etl/etl_writer.h"

#include <string.h>

enum {
    WINDOW_BYTES = 8192, /* a match's distance has 13 bits */
    MIN_MATCH = 3,
    HASH_BITS = 13,
};

size_t ea_xpress_bound(size_t in_bytes) {
    return in_bytes + in_bytes / 8 +
           16; /* a flag a byte, in words of 32; matches are never longer than what they stand for */
}

static unsigned xpress_compress_hash3(const uint8_t *p) {
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (v * 0x9E3779B1u) >> (32 - HASH_BITS);
}

/* The flags of 32 symbols precede the symbols; the first flag is the highest bit. */
typedef struct flag_word {
    size_t at;
    uint32_t bits;
    unsigned count;
} flag_word;

static size_t add_flag(flag_word *f, unsigned bit, uint8_t *out, size_t used) {
    if (f->count == 32) {
        ea_store32(out + f->at, f->bits);
        f->at = used;
        f->count = 0;
        used += 4;
    }
    f->bits = f->bits << 1 | bit;
    f->count++;
    return used;
}

/* Writes a match; *nibble is 1 + the place of a byte whose high half is free, or 0. */
static size_t put_match(uint8_t *out, size_t used, size_t distance, size_t length, size_t *nibble) {
    size_t left = length - MIN_MATCH;
    ea_store16(out + used, (uint16_t)((distance - 1) << 3 | (left < 7 ? left : 7)));
    used += 2;
    if (left < 7)
        return used;
    left -= 7;
    uint8_t low = (uint8_t)(left < 15 ? left : 15);
    if (*nibble) {
        out[*nibble - 1] |= (uint8_t)(low << 4);
        *nibble = 0;
    } else {
        *nibble = used + 1;
        out[used++] = low;
    }
    if (left < 15)
        return used;
    left -= 15;
    if (left < 255) {
        out[used++] = (uint8_t)left;
        return used;
    }
    out[used++] = 255;
    left += 15 + 7; /* from here on the length less MIN_MATCH itself */
    if (left < 65536) {
        ea_store16(out + used, (uint16_t)left);
        return used + 2;
    }
    ea_store16(out + used, 0);
    ea_store32(out + used + 2, (uint32_t)left);
    return used + 6;
}

size_t ea_xpress_compress(const uint8_t *in, size_t in_bytes, uint8_t *out) {
    uint32_t last[1 << HASH_BITS]; /* 1 + the place, 0: none */
    memset(last, 0, sizeof last);
    flag_word flags = {0};
    size_t used = 4, at = 0, nibble = 0;
    while (at < in_bytes) {
        size_t length = 0, distance = 0;
        if (in_bytes - at >= MIN_MATCH) {
            unsigned h = xpress_compress_hash3(in + at);
            size_t candidate = last[h];
            last[h] = (uint32_t)at + 1;
            if (candidate && at - (candidate - 1) <= WINDOW_BYTES) {
                distance = at - (candidate - 1);
                while (at + length < in_bytes && in[at + length] == in[at + length - distance])
                    length++;
            }
        }
        if (length >= MIN_MATCH) {
            used = add_flag(&flags, 1, out, used);
            used = put_match(out, used, distance, length, &nibble);
            for (size_t k = 1; k < length && in_bytes - at - k >= MIN_MATCH; k++)
                last[xpress_compress_hash3(in + at + k)] = (uint32_t)(at + k) + 1;
            at += length;
        } else {
            used = add_flag(&flags, 0, out, used);
            out[used++] = in[at++];
        }
    }
    /* flags that no symbol uses are set */
    uint32_t unused = 32 - flags.count;
    uint64_t bits = (uint64_t)flags.bits << unused | (((uint64_t)1 << unused) - 1);
    ea_store32(out + flags.at, (uint32_t)bits);
    return used;
}
