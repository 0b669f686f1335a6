/* LZ77 + Huffman ("XPRESS_HUFF"), compressing: greedy matches from a hash table, one Huffman code a block of 64 KiB.
 * Each block is walked twice: to count its symbols, then to write them. Called by: etl_writer.c. Output: compressed
 * buffers. Thread: any (pure functions). Source: [MS-XCA] 2.1 and 2.2, as xpress_huff.c says. */
#include "proto/etl/etl_writer.h"

#include <stdlib.h>
#include <string.h>

enum {
    SYMBOLS = 512,
    LONGEST_CODE = 15,
    TABLE_BYTES = SYMBOLS / 2,
    BLOCK_BYTES = 65536,
    END_SYMBOL = 256,
    MIN_MATCH = 3,
    FARTHEST = 65535,
    HASH_BITS = 13,
};

size_t ea_xpress_huff_bound(size_t in_bytes) {
    /* a literal takes 15 bits at the most; a match less than the bytes that it stands for and its own extra bytes */
    return 2 * in_bytes + (in_bytes / BLOCK_BYTES + 1) * (TABLE_BYTES + 8) + 64;
}

static unsigned xpress_huff_compress_hash3(const uint8_t *p) {
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (v * 0x9E3779B1u) >> (32 - HASH_BITS);
}

typedef struct finder {
    uint32_t last[1 << HASH_BITS]; /* 1 + the place, 0: none */
} finder;

/* A match at `at` that ends in the block, or 0 for a literal. Enters all places that it covers. */
static size_t xpress_huff_compress_find(finder *f, const uint8_t *in, size_t at, size_t block_end,
                                        size_t *ret_distance) {
    size_t length = 0, distance = 0;
    if (block_end - at < MIN_MATCH)
        return 0;
    unsigned h = xpress_huff_compress_hash3(in + at);
    if (f->last[h] && at - (f->last[h] - 1) <= FARTHEST) {
        distance = at - (f->last[h] - 1);
        while (at + length < block_end && in[at + length] == in[at + length - distance])
            length++;
    }
    f->last[h] = (uint32_t)at + 1;
    if (length < MIN_MATCH)
        return 0;
    for (size_t k = 1; k < length && block_end - at - k >= MIN_MATCH; k++)
        f->last[xpress_huff_compress_hash3(in + at + k)] = (uint32_t)(at + k) + 1;
    *ret_distance = distance;
    return length;
}

static unsigned xpress_huff_compress_bits_of(size_t distance) {
    unsigned bits = 0;
    while (distance >> (bits + 1))
        bits++;
    return bits;
}

static unsigned match_symbol(size_t length, size_t distance) {
    size_t left = length - MIN_MATCH;
    return 256 | xpress_huff_compress_bits_of(distance) << 4 | (unsigned)(left < 15 ? left : 15);
}

/* ---- the code ---- */

typedef struct leaf {
    uint32_t weight;
    uint16_t symbol;
} leaf;

static int xpress_huff_compress_by_weight(const void *a, const void *b) {
    const leaf *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    return x->symbol < y->symbol ? -1 : x->symbol > y->symbol;
}

/* Huffman's code lengths of the leaves, which are sorted by weight. Returns the longest. */
static unsigned code_lengths(const leaf *leaves, size_t count, uint8_t *lengths) {
    uint32_t weights[2 * SYMBOLS] = {0}; /* leaves, then the nodes in the order of their making, which is by weight */
    uint16_t parents[2 * SYMBOLS];
    size_t leaf_at = 0, node_at = count, made = count;
    for (size_t i = 0; i < count; i++)
        weights[i] = leaves[i].weight;
    while (made < 2 * count - 1) {
        size_t pair[2];
        for (int k = 0; k < 2; k++)
            pair[k] =
                leaf_at < count && (node_at == made || weights[leaf_at] <= weights[node_at]) ? leaf_at++ : node_at++;
        parents[pair[0]] = parents[pair[1]] = (uint16_t)made;
        weights[made++] = weights[pair[0]] + weights[pair[1]];
    }
    uint8_t depths[2 * SYMBOLS];
    unsigned longest = 0;
    depths[made - 1] = count == 1; /* a single symbol has a bit, too */
    for (size_t i = made - 1; i-- > 0;)
        depths[i] = (uint8_t)(depths[parents[i]] + 1);
    for (size_t i = 0; i < count; i++) {
        lengths[leaves[i].symbol] = depths[i];
        longest = depths[i] > longest ? depths[i] : longest;
    }
    return longest;
}

/* Lengths of at most LONGEST_CODE bits: weights are flattened until they fit. */
static void make_code(const uint32_t *counts, uint8_t *lengths, uint16_t *codes) {
    leaf leaves[SYMBOLS];
    size_t count = 0;
    for (unsigned s = 0; s < SYMBOLS; s++)
        if (counts[s])
            leaves[count++] = (leaf){counts[s], (uint16_t)s};
    qsort(leaves, count, sizeof *leaves, xpress_huff_compress_by_weight);
    memset(lengths, 0, SYMBOLS);
    while (code_lengths(leaves, count, lengths) > LONGEST_CODE)
        for (size_t i = 0; i < count; i++)
            leaves[i].weight = leaves[i].weight >> 1 | 1; /* keeps their order */
    unsigned code = 0;
    for (unsigned length = 1; length <= LONGEST_CODE; length++) {
        for (unsigned s = 0; s < SYMBOLS; s++)
            if (lengths[s] == length)
                codes[s] = (uint16_t)code++;
        code <<= 1;
    }
}

/* ---- bits: two 16-bit words are always kept open; whole bytes follow them ([MS-XCA] 2.1.4.3) ---- */

typedef struct bit_writer {
    uint8_t *out;
    size_t used, first, second;
    uint32_t bits;
    unsigned free_bits;
} bit_writer;

static void begin_bits(bit_writer *w) {
    w->first = w->used;
    w->second = w->used + 2;
    w->used += 4;
    w->bits = 0;
    w->free_bits = 16;
}

static void xpress_huff_compress_put_bits(bit_writer *w, unsigned count, uint32_t value) {
    if (w->free_bits >= count) {
        w->free_bits -= count;
        w->bits = w->bits << count | value;
        return;
    }
    w->bits = w->bits << w->free_bits | value >> (count - w->free_bits);
    w->free_bits = count - w->free_bits;
    ea_store16(w->out + w->first, (uint16_t)w->bits);
    w->first = w->second;
    w->second = w->used;
    w->used += 2;
    w->bits = value & ((1u << w->free_bits) - 1);
    w->free_bits = 16 - w->free_bits;
}

static void end_bits(bit_writer *w) {
    ea_store16(w->out + w->first, (uint16_t)(w->bits << w->free_bits));
    ea_store16(w->out + w->second, 0);
}

static void put_length(bit_writer *w, size_t left) {
    if (left < 15)
        return;
    if (left < 15 + 255) {
        w->out[w->used++] = (uint8_t)(left - 15);
        return;
    }
    w->out[w->used++] = 255; /* a match ends in its block, so that 16 bits hold every length */
    ea_store16(w->out + w->used, (uint16_t)left);
    w->used += 2;
}

size_t ea_xpress_huff_compress(const uint8_t *in, size_t in_bytes, uint8_t *out) {
    finder f, before;
    bit_writer w = {.out = out};
    size_t at = 0;
    memset(&f, 0, sizeof f);
    do {
        size_t block_end = in_bytes - at < BLOCK_BYTES ? in_bytes : at + BLOCK_BYTES, distance = 0, length;
        uint32_t counts[SYMBOLS] = {0};
        uint8_t lengths[SYMBOLS];
        uint16_t codes[SYMBOLS];
        before = f;
        for (size_t p = at; p < block_end; p += length ? length : 1) {
            length = xpress_huff_compress_find(&f, in, p, block_end, &distance);
            counts[length ? match_symbol(length, distance) : in[p]]++;
        }
        counts[END_SYMBOL] += block_end == in_bytes;
        make_code(counts, lengths, codes);
        for (unsigned i = 0; i < TABLE_BYTES; i++)
            out[w.used++] = (uint8_t)(lengths[2 * i] | lengths[2 * i + 1] << 4);
        begin_bits(&w);
        f = before;
        while (at < block_end) {
            length = xpress_huff_compress_find(&f, in, at, block_end, &distance);
            unsigned symbol = length ? match_symbol(length, distance) : in[at], bits;
            xpress_huff_compress_put_bits(&w, lengths[symbol], codes[symbol]);
            if (length) {
                put_length(&w, length - MIN_MATCH);
                bits = xpress_huff_compress_bits_of(distance);
                xpress_huff_compress_put_bits(&w, bits, (uint32_t)(distance - ((size_t)1 << bits)));
            }
            at += length ? length : 1;
        }
        if (at == in_bytes)
            xpress_huff_compress_put_bits(&w, lengths[END_SYMBOL], codes[END_SYMBOL]);
        end_bits(&w);
    } while (at < in_bytes);
    return w.used;
}
