/* LZ77 + Huffman ("XPRESS_HUFF"), decompression. Input: a compressed buffer. Output: the buffer's records. Thread: any
 * (pure functions). Source: [MS-XCA] 2.1 (format), 2.2 (processing): blocks of 64 KiB of output, each with 256 bytes of
 * code lengths (4 bits for each of 512 symbols), then bits taken from 16-bit little-endian words, top bit first. A
 * symbol below 256 is a literal; above, it holds the length's low 4 bits and the number of distance bits that follow.
 */
#include "proto/etl/layout.h"

#include <string.h>

enum {
    SYMBOLS = 512,
    LONGEST_CODE = 15,
    TABLE_BYTES = SYMBOLS / 2,
    BLOCK_BYTES = 65536,
    END_SYMBOL = 256, /* at the end of the input; a length-3, distance-1 match elsewhere */
};

typedef struct bit_reader {
    const uint8_t *in;
    size_t in_bytes, at;
    uint32_t bits;  /* the next bit is the top one */
    int extra;      /* valid bits beyond the top 16 */
    size_t missing; /* bytes that were requested after the end */
} bit_reader;

static uint32_t xpress_huff_next_word(bit_reader *r) {
    uint32_t v = 0;
    if (r->in_bytes - r->at >= 2) {
        v = ea_load16(r->in + r->at);
        r->at += 2;
    } else {
        if (r->in_bytes - r->at == 1)
            v = r->in[r->at++];
        r->missing += 2;
    }
    return v;
}

static void take_bits(bit_reader *r, unsigned count) {
    r->bits <<= count;
    r->extra -= (int)count;
    if (r->extra < 0) {
        r->bits |= xpress_huff_next_word(r) << -r->extra;
        r->extra += 16;
    }
}

/* Whether bits were used that are in no byte of the input. Words may be prefetched after the end, but their bits may
 * not be used. */
static int beyond_end(const bit_reader *r) {
    return 8 * r->missing > (size_t)16 + (size_t)r->extra;
}

/* table[the next 15 bits] = symbol << 4 | length; 0 where there is no code. EA_ECORRUPT when the codes overlap. */
static int build_table(const uint8_t *lengths, uint16_t *table) {
    size_t filled = 0;
    for (unsigned length = 1; length <= LONGEST_CODE; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            unsigned l = symbol & 1 ? lengths[symbol / 2] >> 4 : lengths[symbol / 2] & 15;
            if (l != length)
                continue;
            size_t span = (size_t)1 << (LONGEST_CODE - length);
            if (span > ((size_t)1 << LONGEST_CODE) - filled)
                return EA_ECORRUPT;
            for (size_t i = 0; i < span; i++)
                table[filled++] = (uint16_t)(symbol << 4 | length);
        }
    memset(table + filled, 0, (((size_t)1 << LONGEST_CODE) - filled) * sizeof *table);
    return 0;
}

int ea_xpress_huff_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes) {
    uint16_t table[1 << LONGEST_CODE];
    size_t ip = 0, op = 0;
    int rc = 0;
    while (op < out_bytes) {
        if (in_bytes - ip < TABLE_BYTES) { /* no room for a block: the end, or a cut stream */
            rc = ip == in_bytes && op > 0 ? 0 : EA_ECORRUPT;
            break;
        }
        if ((rc = build_table(in + ip, table)))
            break;
        bit_reader r = {.in = in, .in_bytes = in_bytes, .at = ip + TABLE_BYTES};
        r.bits = xpress_huff_next_word(&r) << 16;
        r.bits |= xpress_huff_next_word(&r);
        r.extra = 16;
        size_t block_end = out_bytes - op > BLOCK_BYTES ? op + BLOCK_BYTES : out_bytes;
        while (op < block_end) {
            unsigned entry = table[r.bits >> (32 - LONGEST_CODE)];
            unsigned symbol = entry >> 4;
            take_bits(&r, entry & 15);
            if (!entry || beyond_end(&r)) {
                rc = EA_ECORRUPT;
                goto done;
            }
            if (symbol < 256) {
                out[op++] = (uint8_t)symbol;
                continue;
            }
            /* Where the room is larger than the stream, this is the end; a real match of 3 would fill the room. */
            if (symbol == END_SYMBOL && r.at == in_bytes && r.bits == 0 && out_bytes - op != 3)
                goto done;
            size_t length = symbol & 15;
            unsigned distance_bits = (symbol - 256) >> 4;
            if (length == 15) {
                if (r.at >= in_bytes) {
                    rc = EA_ECORRUPT;
                    goto done;
                }
                length = in[r.at++];
                if (length == 255) {
                    if (in_bytes - r.at < 2) {
                        rc = EA_ECORRUPT;
                        goto done;
                    }
                    length = ea_load16(in + r.at);
                    r.at += 2;
                    if (length == 0) {
                        if (in_bytes - r.at < 4) {
                            rc = EA_ECORRUPT;
                            goto done;
                        }
                        length = ea_load32(in + r.at);
                        r.at += 4;
                    }
                    if (length < 15) {
                        rc = EA_ECORRUPT;
                        goto done;
                    }
                    length -= 15;
                }
                length += 15;
            }
            length += 3;
            size_t distance = ((size_t)1 << distance_bits) + (distance_bits ? r.bits >> (32 - distance_bits) : 0);
            take_bits(&r, distance_bits);
            if (distance > op || beyond_end(&r)) {
                rc = EA_ECORRUPT;
                goto done;
            }
            /* A match may cross the block's end: the next block begins after it. */
            if (length > out_bytes - op)
                length = out_bytes - op;
            for (size_t i = 0; i < length; i++)
                out[op + i] = out[op + i - distance];
            op += length;
        }
        ip = r.at;
    }
done:
    *ret_bytes = op;
    return rc;
}
