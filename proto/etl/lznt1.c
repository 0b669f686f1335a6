/* LZNT1, decompression. Input: a compressed buffer. Output: the buffer's records. Thread: any (pure functions). Source:
 * [MS-XCA] 2.5 (format), 2.6 (processing): chunks of up to 4096 bytes of output, each with a 16-bit header (size - 1 in
 * 12 bits, signature 3, top bit: compressed). In a chunk, flag bytes, low bit first: 0 a literal, 1 a 16-bit word whose
 * split into distance and length depends on how much of the chunk has come out. */
#include "proto/etl/layout.h"

#include <string.h>

enum { CHUNK_BYTES = 4096 };

/* One compressed chunk; returns 0, or EA_ECORRUPT with what came out before. */
static int decompress_chunk(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes) {
    size_t ip = 0, op = 0;
    int rc = 0;
    if (out_bytes > CHUNK_BYTES)
        out_bytes = CHUNK_BYTES;
    while (ip < in_bytes && op < out_bytes) {
        unsigned flags = in[ip++];
        for (unsigned bit = 0; bit < 8 && ip < in_bytes && op < out_bytes; bit++, flags >>= 1) {
            if (!(flags & 1)) {
                out[op++] = in[ip++];
                continue;
            }
            if (in_bytes - ip < 2 || op == 0) {
                rc = EA_ECORRUPT;
                goto done;
            }
            unsigned token = ea_load16(in + ip), length_bits = 12;
            for (size_t p = op - 1; p >= 16; p >>= 1)
                length_bits--;
            size_t distance = (token >> length_bits) + 1, length = (token & ((1u << length_bits) - 1)) + 3;
            if (distance > op) {
                rc = EA_ECORRUPT;
                goto done;
            }
            ip += 2;
            if (length > out_bytes - op)
                length = out_bytes - op;
            for (size_t i = 0; i < length; i++)
                out[op + i] = out[op + i - distance];
            op += length;
        }
    }
done:
    *ret_bytes = op;
    return rc;
}

/* A damaged chunk does not end the stream: the next chunk is independent of it and begins 4096 bytes further in the
 * output. The missing bytes of the damaged chunk are filled with zeros, and the result is EA_ECORRUPT at the end. */
int ea_lznt1_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes) {
    size_t ip = 0, op = 0;
    int rc = 0;
    while (in_bytes - ip >= 2 && op < out_bytes) {
        unsigned header = ea_load16(in + ip);
        if (header == 0)
            break;
        ip += 2;
        size_t size = (header & 0xfff) + 1, made = 0;
        int chunk_rc = 0;
        if (size > in_bytes - ip) {
            size = in_bytes - ip;
            chunk_rc = EA_ECORRUPT;
        }
        if (header & 0x8000) {
            int r = decompress_chunk(in + ip, size, out + op, out_bytes - op, &made);
            if (r)
                chunk_rc = r;
        } else {
            made = size < out_bytes - op ? size : out_bytes - op;
            memcpy(out + op, in + ip, made);
        }
        ip += size;
        op += made;
        if (chunk_rc) {
            rc = chunk_rc;
            if (in_bytes - ip < 2)
                break;
            size_t fill = CHUNK_BYTES - made;
            if (fill > out_bytes - op)
                fill = out_bytes - op;
            memset(out + op, 0, fill);
            op += fill;
        }
    }
    *ret_bytes = op;
    return rc;
}
