/* Little-endian loads and stores at any alignment, and 16-byte GUIDs as Windows lays them out. Used by: every parser.
 * Thread: any (pure functions). */
#ifndef EA_BASE_BYTES_H
#define EA_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a little-endian machine is expected; swap in these functions to port"
#endif

static inline uint16_t ea_load16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t ea_load32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t ea_load64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void ea_store16(void *p, uint16_t v) {
    memcpy(p, &v, sizeof v);
}

static inline void ea_store32(void *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}

static inline void ea_store64(void *p, uint64_t v) {
    memcpy(p, &v, sizeof v);
}

/* width 1, 2, 4 or 8 bytes, zero-extended; any other width reads 0. */
static inline uint64_t ea_load_uint(const void *p, unsigned width) {
    switch (width) {
    case 1:
        return *(const uint8_t *)p;
    case 2:
        return ea_load16(p);
    case 4:
        return ea_load32(p);
    case 8:
        return ea_load64(p);
    default:
        return 0;
    }
}

/* Copies len_bytes between places that do not overlap, and touches nothing beyond them. Most payloads are short, and a
 * call takes longer than they do: up to 64 bytes are copied here, in moves that may overlap each other. */
static inline void ea_copy_short(void *to, const void *from, size_t len_bytes) {
    uint8_t *p = to;
    const uint8_t *q = from;
    if (len_bytes > 64) {
        memcpy(p, q, len_bytes);
    } else if (len_bytes >= 16) {
        for (size_t at = 0; at + 16 < len_bytes; at += 16)
            memcpy(p + at, q + at, 16);
        memcpy(p + len_bytes - 16, q + len_bytes - 16, 16);
    } else if (len_bytes >= 8) {
        memcpy(p, q, 8);
        memcpy(p + len_bytes - 8, q + len_bytes - 8, 8);
    } else if (len_bytes >= 4) {
        memcpy(p, q, 4);
        memcpy(p + len_bytes - 4, q + len_bytes - 4, 4);
    } else if (len_bytes) {
        p[0] = q[0];
        p[len_bytes / 2] = q[len_bytes / 2];
        p[len_bytes - 1] = q[len_bytes - 1];
    }
}

/* A GUID in its binary form as Windows stores it: u32, u16, u16 little-endian, then eight bytes. */
typedef struct ea_guid {
    uint8_t bytes[16];
} ea_guid;

static inline int ea_guid_equal(const ea_guid *a, const ea_guid *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static inline int ea_guid_is_zero(const ea_guid *g) {
    return (ea_load64(g->bytes) | ea_load64(g->bytes + 8)) == 0;
}

/* The constant that a GUID's text form {a-b-c-d0 d1-d2 ... d7} stands for, for use as an initialiser. */
#define EA_GUID(a, b, c, d0, d1, d2, d3, d4, d5, d6, d7)                                                               \
    {                                                                                                                  \
        {                                                                                                              \
            (uint8_t)((a)&0xff), (uint8_t)(((a) >> 8) & 0xff), (uint8_t)(((a) >> 16) & 0xff),                          \
                (uint8_t)(((a) >> 24) & 0xff), (uint8_t)((b)&0xff), (uint8_t)(((b) >> 8) & 0xff), (uint8_t)((c)&0xff), \
                (uint8_t)(((c) >> 8) & 0xff), (d0), (d1), (d2), (d3), (d4), (d5), (d6), (d7)                           \
        }                                                                                                              \
    }

#endif
