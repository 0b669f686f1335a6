/* LZNT1, compressing: greedy matches from a hash table of the last place of each three bytes, chunk by chunk. Called
 * by: etl_writer.c. Output: compressed buffers. Thread: any (pure functions). Source: [MS-XCA] 2.5. */
#include "proto/etl/etl_writer.h"

#include <string.h>

enum {
    CHUNK_BYTES = 4096,
    MIN_MATCH = 3,
    HASH_BITS = 11,
    CHUNK_RAW = 0x3000, /* the signature; the low 12 bits are the bytes that follow, less one */
    CHUNK_COMPRESSED = 0xb000,
};

size_t ea_lznt1_bound(size_t in_bytes) {
    /* a chunk that grows is stored; while it is tried it takes a flag byte for eight more */
    return in_bytes + 2 * (in_bytes / CHUNK_BYTES + 1) + CHUNK_BYTES / 8 + 64;
}

static unsigned lznt1_compress_hash3(const uint8_t *p) {
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (v * 0x9E3779B1u) >> (32 - HASH_BITS);
}

/* Bits of a match's length at this place of its chunk: distances grow with the place. */
static unsigned length_bits_at(size_t at) {
    unsigned bits = 12;
    for (size_t p = at - 1; p >= 16; p >>= 1)
        bits--;
    return bits;
}

/* One chunk without its header. Returns the bytes made. */
static size_t compress_chunk(const uint8_t *in, size_t n, uint8_t *out) {
    uint16_t last[1 << HASH_BITS]; /* 1 + the place, 0: none */
    size_t made = 0, at = 0;
    memset(last, 0, sizeof last);
    while (at < n) {
        size_t flags_at = made++;
        uint8_t flags = 0;
        for (unsigned bit = 0; bit < 8 && at < n; bit++) {
            size_t length = 0, distance = 0;
            if (n - at >= MIN_MATCH) {
                unsigned h = lznt1_compress_hash3(in + at);
                if (last[h]) {
                    unsigned bits = length_bits_at(at);
                    size_t most = ((size_t)1 << bits) + MIN_MATCH - 1;
                    distance = at - (last[h] - 1u);
                    if (distance <= (size_t)1 << (16 - bits))
                        while (length < most && at + length < n && in[at + length] == in[at + length - distance])
                            length++;
                }
                last[h] = (uint16_t)(at + 1);
            }
            if (length < MIN_MATCH) {
                out[made++] = in[at++];
                continue;
            }
            flags |= (uint8_t)(1u << bit);
            ea_store16(out + made, (uint16_t)((distance - 1) << length_bits_at(at) | (length - MIN_MATCH)));
            made += 2;
            for (size_t k = 1; k < length && n - at - k >= MIN_MATCH; k++)
                last[lznt1_compress_hash3(in + at + k)] = (uint16_t)(at + k + 1);
            at += length;
        }
        out[flags_at] = flags;
    }
    return made;
}

size_t ea_lznt1_compress(const uint8_t *in, size_t in_bytes, uint8_t *out) {
    size_t used = 0;
    for (size_t base = 0; base < in_bytes; base += CHUNK_BYTES) {
        size_t n = in_bytes - base < CHUNK_BYTES ? in_bytes - base : CHUNK_BYTES;
        size_t made = compress_chunk(in + base, n, out + used + 2);
        unsigned kind = CHUNK_COMPRESSED;
        if (made >= n) {
            kind = CHUNK_RAW;
            made = n;
            memcpy(out + used + 2, in + base, n);
        }
        ea_store16(out + used, (uint16_t)(kind | (made - 1)));
        used += 2 + made;
    }
    return used;
}
