/* Compressions that the project's writer does not have, for tests: LZNT1 and XPRESS_HUFF, simple and slow, and files of
 * plain buffers made into files of compressed ones. Source: [MS-XCA] 2.1 and 2.5. */
#ifndef EA_TESTS_UNIT_ETL_PACK_H
#define EA_TESTS_UNIT_ETL_PACK_H

#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <string.h>

/* out: room for in_bytes * 2 + 64. Both return the bytes written. */
static size_t lznt1_compress(const uint8_t *in, size_t in_bytes, uint8_t *out) {
    size_t made = 0;
    for (size_t base = 0; base < in_bytes; base += 4096) {
        size_t chunk = in_bytes - base < 4096 ? in_bytes - base : 4096, at = 0, header = made;
        made += 2;
        while (at < chunk) {
            size_t flags_at = made++;
            uint8_t flags = 0;
            for (unsigned bit = 0; bit < 8 && at < chunk; bit++) {
                unsigned length_bits = 12;
                for (size_t p = at ? at - 1 : 0; p >= 16; p >>= 1)
                    length_bits--;
                size_t best = 0, distance = 0;
                for (size_t d = 1; d <= at && d <= 200; d++) {
                    size_t len = 0, most = ((size_t)1 << length_bits) + 2;
                    while (at + len < chunk && len < most && in[base + at + len] == in[base + at + len - d])
                        len++;
                    if (len > best) {
                        best = len;
                        distance = d;
                    }
                }
                if (best >= 3) {
                    flags |= (uint8_t)(1u << bit);
                    ea_store16(out + made, (uint16_t)((distance - 1) << length_bits | (best - 3)));
                    made += 2;
                    at += best;
                } else {
                    out[made++] = in[base + at++];
                }
            }
            out[flags_at] = flags;
        }
        ea_store16(out + header, (uint16_t)(0xb000 | (made - header - 3)));
    }
    return made;
}

/* A Huffman writer. All 512 symbols have codes of 9 bits, which is simple and a complete code. Bits go into 16-bit
 * words. Two words are always reserved in advance; whole bytes are written after them ([MS-XCA] 2.1.4.3). */
typedef struct huff {
    uint8_t *out;
    size_t made, first, second;
    uint32_t bits;
    unsigned free_bits;
} huff;

static void huff_bits(huff *h, unsigned count, uint32_t value) {
    if (h->free_bits >= count) {
        h->free_bits -= count;
        h->bits = h->bits << count | value;
        return;
    }
    h->bits = h->bits << h->free_bits | value >> (count - h->free_bits);
    h->free_bits = count - h->free_bits;
    ea_store16(h->out + h->first, (uint16_t)h->bits);
    h->first = h->second;
    h->second = h->made;
    h->made += 2;
    h->bits = value & ((1u << h->free_bits) - 1);
    h->free_bits = 16 - h->free_bits;
}

static size_t huff_compress(const uint8_t *in, size_t in_bytes, uint8_t *out) {
    huff h = {.out = out};
    size_t at = 0;
    do {
        size_t block_end = in_bytes - at < 65536 ? in_bytes : at + 65536;
        memset(out + h.made, 0x99, 256);
        h.made += 256;
        h.first = h.made;
        h.second = h.made + 2;
        h.made += 4;
        h.bits = 0;
        h.free_bits = 16;
        while (at < block_end) {
            size_t best = 0, distance = 0;
            for (size_t d = 1; d <= at && d <= 300; d++) {
                size_t len = 0;
                while (at + len < block_end && in[at + len] == in[at + len - d])
                    len++;
                if (len > best) {
                    best = len;
                    distance = d;
                }
            }
            if (best < 3) {
                huff_bits(&h, 9, in[at++]);
                continue;
            }
            unsigned distance_bits = 0;
            while (distance >> (distance_bits + 1))
                distance_bits++;
            size_t length = best - 3;
            huff_bits(&h, 9, 256 | distance_bits << 4 | (uint32_t)(length < 15 ? length : 15));
            if (length >= 15) {
                if (length < 15 + 255) {
                    out[h.made++] = (uint8_t)(length - 15);
                } else {
                    out[h.made++] = 255;
                    if (length < 65536) {
                        ea_store16(out + h.made, (uint16_t)length);
                        h.made += 2;
                    } else {
                        ea_store16(out + h.made, 0);
                        ea_store32(out + h.made + 2, (uint32_t)length);
                        h.made += 6;
                    }
                }
            }
            huff_bits(&h, distance_bits, (uint32_t)(distance - ((size_t)1 << distance_bits)));
            at += best;
        }
        if (at == in_bytes)
            huff_bits(&h, 9, 256);
        ea_store16(out + h.first, (uint16_t)(h.bits << h.free_bits));
        ea_store16(out + h.second, 0);
    } while (at < in_bytes);
    return h.made;
}

/* A file of plain buffers as one whose buffers (but the first) are compressed. out: room for twice the file and 1 KiB a
 * buffer. Returns the bytes written. */
static size_t pack_file(const uint8_t *data, size_t len, uint16_t compression, uint8_t *out) {
    size_t made = 0;
    for (size_t at = 0; at < len;) {
        uint32_t size = ea_load32(data + at), used = ea_load32(data + at + 0x30);
        memcpy(out + made, data + at, 72);
        if (at == 0) {
            memcpy(out, data, size);
            ea_store32(out + 0x2c, compression);
            ea_store32(out + 136, ea_load32(out + 136) | EA_ETL_MODE_COMPRESSED);
            made += size;
        } else {
            size_t n = compression == EA_ETL_LZNT1    ? lznt1_compress(data + at + 72, used - 72, out + made + 72)
                       : compression == EA_ETL_XPRESS ? ea_xpress_compress(data + at + 72, used - 72, out + made + 72)
                                                      : huff_compress(data + at + 72, used - 72, out + made + 72);
            ea_store32(out + made, (uint32_t)(72 + n));
            ea_store16(out + made + 0x34, ea_load16(out + made + 0x34) | EA_ETL_BUFFER_COMPRESSED);
            made += 72 + n;
        }
        at += size;
    }
    return made;
}

#endif
