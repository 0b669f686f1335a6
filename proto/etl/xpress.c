/* Plain LZ77 ("XPRESS"), decompression: most compressed .etl files. Input: a compressed buffer. Output: the buffer's
 * records. Used by: the reader, and repair.c, which begins in the middle of a stream. Thread: any (pure functions).
 * Source: [MS-XCA] 2.3 (format), 2.4 (processing). A stream is a run of 32-bit flag words, top bit first: 0 a literal
 * byte, 1 a match of 13 bits of distance and 3 of length; longer lengths go into a half byte that two matches share,
 * then a byte, then 16 and 32 bits. */
#include "proto/etl/layout.h"

#include <string.h>

static unsigned leading_zeros(uint32_t v) {
#if defined(__GNUC__) || defined(__clang__)
    return v ? (unsigned)__builtin_clz(v) : 32;
#else
    unsigned n = 0;
    while (n < 32 && !(v >> (31 - n)))
        n++;
    return n;
#endif
}

/* Copies length bytes within out from distance back. May write up to 15 bytes more: the caller has checked the room. */
static void copy_match_fast(uint8_t *to, size_t distance, size_t length) {
    const uint8_t *from = to - distance;
    uint8_t *end = to + length;
    if (distance >= 16) {
        do {
            memcpy(to, from, 16);
            to += 16;
            from += 16;
        } while (to < end);
    } else if (distance >= 8) {
        do {
            memcpy(to, from, 8);
            to += 8;
            from += 8;
        } while (to < end);
    } else {
        /* A short pattern: lay it out until a whole number of it spans 8 bytes, then copy from that far back. */
        size_t step = distance;
        while (step < 8)
            step += distance;
        uint8_t *laid = to + step;
        while (to < laid && to < end) {
            *to = *from++;
            to++;
        }
        from = to - step;
        while (to < end) {
            memcpy(to, from, 8);
            to += 8;
            from += 8;
        }
    }
}

int ea_xpress_run(ea_xpress_state *state, const uint8_t *in, size_t in_bytes, uint8_t *out, size_t stop_bytes,
                  size_t out_bytes) {
    size_t ip = state->in, op = state->out, nibble = state->nibble;
    uint32_t flags = state->flags;
    unsigned left = state->flag_count;
    int rc = 0;

    while (op < stop_bytes) {
        if (left == 0) {
            if (in_bytes - ip < 4) {
                rc = ip == in_bytes ? 0 : EA_ECORRUPT;
                break;
            }
            flags = ea_load32(in + ip);
            ip += 4;
            left = 32;
        }
        unsigned literals = leading_zeros(flags);
        if (literals) {
            if (literals > left)
                literals = left;
            if (in_bytes - ip >= 32 && out_bytes - op >= 32) {
                memcpy(out + op, in + ip, 32);
            } else {
                if (literals > out_bytes - op)
                    literals = (unsigned)(out_bytes - op);
                if (literals > in_bytes - ip) {
                    literals = (unsigned)(in_bytes - ip);
                    rc = EA_ECORRUPT;
                }
                memcpy(out + op, in + ip, literals);
            }
            ip += literals;
            op += literals;
            left -= literals;
            flags = literals < 32 ? flags << literals : 0;
            if (rc)
                break;
            if (left == 0 || op >= stop_bytes)
                continue;
        }
        /* a match: its parts are read from copies, so that a bad one leaves the state before it */
        if (in_bytes - ip < 2) {
            rc = ip == in_bytes ? 0 : EA_ECORRUPT; /* a one bit at the very end of the input ends the stream */
            break;
        }
        size_t at = ip, half = nibble;
        uint32_t token = ea_load16(in + at);
        at += 2;
        size_t distance = (token >> 3) + 1, length = token & 7;
        if (length == 7) {
            if (half) {
                length = in[half - 1] >> 4;
                half = 0;
            } else {
                if (at >= in_bytes) {
                    rc = EA_ECORRUPT;
                    break;
                }
                length = in[at] & 15;
                half = at + 1;
                at++;
            }
            if (length == 15) {
                if (at >= in_bytes) {
                    rc = EA_ECORRUPT;
                    break;
                }
                length = in[at++];
                if (length == 255) {
                    if (in_bytes - at < 2) {
                        rc = EA_ECORRUPT;
                        break;
                    }
                    length = ea_load16(in + at);
                    at += 2;
                    if (length == 0) {
                        if (in_bytes - at < 4) {
                            rc = EA_ECORRUPT;
                            break;
                        }
                        length = ea_load32(in + at);
                        at += 4;
                    }
                    if (length < 15 + 7) {
                        rc = EA_ECORRUPT;
                        break;
                    }
                    length -= 15 + 7;
                }
                length += 15;
            }
            length += 7;
        }
        length += 3;
        if (distance > op) {
            rc = EA_ECORRUPT;
            break;
        }
        if (length + 16 <= out_bytes - op) {
            copy_match_fast(out + op, distance, length);
        } else {
            if (length > out_bytes - op)
                length = out_bytes - op;
            for (size_t i = 0; i < length; i++)
                out[op + i] = out[op + i - distance];
        }
        ip = at;
        nibble = half;
        op += length;
        flags <<= 1;
        left--;
    }
    state->in = ip;
    state->out = op;
    state->nibble = nibble;
    state->flags = flags;
    state->flag_count = left;
    return rc;
}

int ea_xpress_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes) {
    ea_xpress_state state = {0};
    int rc = ea_xpress_run(&state, in, in_bytes, out, out_bytes, out_bytes);
    *ret_bytes = state.out;
    return rc;
}
