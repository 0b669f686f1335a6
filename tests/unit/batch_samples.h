/* Records for tests of batches: a pseudo-random stream of every shape that a batch must carry, the same for the same
 * seed. Used by: test_builder.c, test_wire.c, fuzz_batch.c. Thread: its owner's. */
#ifndef EA_TESTS_UNIT_BATCH_SAMPLES_H
#define EA_TESTS_UNIT_BATCH_SAMPLES_H

#include "proto/base/record.h"

#include <string.h>

enum { SAMPLE_ITEMS = 5, SAMPLE_BYTES = 1 << 17 };

typedef struct samples {
    uint64_t state; /* of the generator */
    int64_t time;
    unsigned sources;
    ea_ext ext[SAMPLE_ITEMS];
    uint8_t data[SAMPLE_BYTES]; /* of items and payload of the latest record */
} samples;

static inline uint64_t samples_random(samples *s) {
    s->state ^= s->state << 13;
    s->state ^= s->state >> 7;
    s->state ^= s->state << 17;
    return s->state;
}

static inline uint64_t samples_below(samples *s, uint64_t n) {
    return samples_random(s) % n;
}

static inline void samples_init(samples *s, uint64_t seed, unsigned sources) {
    memset(s, 0, sizeof *s);
    s->state = seed * 0x9E3779B97F4A7C15u + 1;
    s->time = 1000000;
    s->sources = sources;
}

/* CPU samples: fixed fields. */
static inline size_t samples_profile(samples *s, ea_record *r, uint8_t *payload) {
    r->provider = (ea_guid)EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
    r->opcode = 46;
    r->version = 2;
    r->header_type = EA_HEADER_PERFINFO64;
    r->hook_id = 0x0F2E;
    r->header_word = 2;
    r->flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER;
    ea_store64(payload, 0xFFFFF80000000000u + samples_below(s, 40) * 16);
    ea_store32(payload + 8, r->tid);
    ea_store32(payload + 12, 1);
    return 16;
}

/* Stacks: a time that is the event's or nearly so, the header's ids, and an array up to the end. */
static inline size_t samples_stack(samples *s, ea_record *r, uint8_t *payload) {
    r->provider = (ea_guid)EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3);
    r->opcode = 32;
    r->version = 2;
    r->header_type = EA_HEADER_PERFINFO64;
    r->hook_id = 0x1820;
    r->header_word = 2;
    size_t n = samples_below(s, 12), base = samples_below(s, 4);
    ea_store64(payload, (uint64_t)(r->time_raw - (int64_t)samples_below(s, 3)));
    ea_store32(payload + 8, r->pid);
    ea_store32(payload + 12, r->tid);
    for (size_t i = 0; i < n; i++)
        ea_store64(payload + 16 + 8 * i, 0x7FF700000000u + base * 0x1000 + 64 * i);
    return 16 + 8 * n + samples_below(s, 8) / 7 * 3; /* now and then a torn last frame */
}

/* Names in UTF-16: variable, sometimes without its NUL, sometimes nothing at all. */
static inline size_t samples_name(samples *s, ea_record *r, uint8_t *payload) {
    r->provider = (ea_guid)EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
    r->opcode = 36;
    r->version = 2;
    r->header_type = EA_HEADER_SYSTEM64;
    r->hook_id = 0x0424;
    r->header_word = 2;
    r->kernel_time = (uint32_t)samples_below(s, 5);
    r->user_time = (uint32_t)samples_below(s, 2) * 100;
    ea_store64(payload, 0xFFFFA00000000000u + samples_below(s, 100000) * 8);
    size_t n = samples_below(s, 20), at = 8;
    for (size_t i = 0; i < n; i++, at += 2)
        ea_store16(payload + at, (uint16_t)("\\Device\\HarddiskVolume"[i] + samples_below(s, 2)));
    if (samples_below(s, 5)) {
        ea_store16(payload + at, 0);
        at += 2;
    }
    return samples_below(s, 30) ? at : samples_below(s, 8);
}

/* Events of no known class with extended items of all kinds. */
static inline size_t samples_items(samples *s, ea_record *r, uint8_t *payload, size_t *used) {
    static const uint16_t types[] = {
        EA_EXT_RELATED_ACTIVITY_ID, EA_EXT_STACK_TRACE64,     EA_EXT_SID, EA_EXT_PROV_TRAITS,
        EA_EXT_SCHEMA_TL,           EA_EXT_PROCESS_START_KEY, 999};
    r->provider.bytes[0] = 0x77;
    r->provider.bytes[15] = (uint8_t)samples_below(s, 3);
    r->id = (uint16_t)samples_below(s, 6);
    r->version = (uint8_t)samples_below(s, 2);
    r->level = 4;
    r->channel = 11;
    r->keyword = 0x8000000000000000u | samples_below(s, 3);
    r->task = (uint16_t)samples_below(s, 3);
    r->property = (uint16_t)samples_below(s, 2);
    r->header_type = EA_HEADER_EVENT64;
    r->flags = 0x240;
    if (samples_below(s, 2))
        for (unsigned i = 0; i < 16; i++)
            r->activity_id.bytes[i] = (uint8_t)(i + samples_below(s, 3) / 2 * i);
    r->ext_count = (uint8_t)samples_below(s, SAMPLE_ITEMS);
    r->ext = s->ext;
    size_t at = 0;
    for (unsigned i = 0; i < r->ext_count; i++) {
        uint16_t type = types[samples_below(s, sizeof types / sizeof *types)];
        size_t n = type == EA_EXT_RELATED_ACTIVITY_ID ? 16
                   : type == EA_EXT_STACK_TRACE64     ? 8 * (1 + samples_below(s, 9))
                   : type == EA_EXT_PROCESS_START_KEY ? 8
                   : type == EA_EXT_PROV_TRAITS       ? 20
                                                      : samples_below(s, 25);
        for (size_t k = 0; k < n; k++)
            s->data[at + k] = (uint8_t)(type * 3 + k / 3 + samples_below(s, 2) * (k % 5 == 0));
        if (type == EA_EXT_PROV_TRAITS || type == EA_EXT_SCHEMA_TL)
            memset(s->data + at, (int)(type + n % 2), n);
        s->ext[i] =
            (ea_ext){.type = type, .linkage = i + 1u < r->ext_count, .size_bytes = (uint32_t)n, .data = s->data + at};
        at += n;
    }
    *used = at;
    uint8_t *to = payload + at;
    size_t n = samples_below(s, 60);
    for (size_t k = 0; k < n; k++)
        to[k] = (uint8_t)(samples_below(s, 4) ? k : samples_random(s));
    return n;
}

/* The next record; borrowed until the next call. */
static inline void samples_next(samples *s, ea_record *r) {
    memset(r, 0, sizeof *r);
    s->time += (int64_t)samples_below(s, 100) - (samples_below(s, 50) == 0 ? 500 : 0);
    r->time_raw = s->time;
    r->cpu = (uint16_t)samples_below(s, 4);
    r->pid = (uint32_t)(4 * samples_below(s, 5));
    r->tid = r->pid + (uint32_t)(4 * samples_below(s, 3));
    if (samples_below(s, 20) == 0)
        r->pid = r->tid = 0xFFFFFFFF;
    r->source = (uint16_t)samples_below(s, s->sources);
    r->logger = 3;
    r->pointer_size = 8;
    size_t used = 0, n = 0;
    switch (samples_below(s, 8)) {
    case 0:
    case 1:
    case 2:
        n = samples_profile(s, r, s->data);
        break;
    case 3:
    case 4:
        n = samples_stack(s, r, s->data);
        break;
    case 5:
        n = samples_name(s, r, s->data);
        break;
    default:
        n = samples_items(s, r, s->data, &used);
        break;
    }
    r->payload = s->data + used;
    r->payload_bytes = (uint16_t)n;
}

#endif
