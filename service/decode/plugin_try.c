/* Trying a decode function on made-up payloads. See plugin_ask.h. Thread: the probe's. */
#include "proto/event/class.h"
#include "service/decode/plugin_ask.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = UINT16_MAX, MARGIN_BYTES = 64, RANDOM_PAYLOADS = 400, SHORT_BYTES = 160 };

typedef struct trial {
    const ea_class *c; /* what the function's class is when its records are unfolded */
    etwagent_decode decode;
    uint8_t payload[ROOM_BYTES];
    uint8_t given[ROOM_BYTES + 2 * MARGIN_BYTES]; /* the payload between bytes that mean nothing */
    uint8_t values[2][ROOM_BYTES];
    uint64_t dice;
    const char *wrong;
} trial;

static uint64_t roll(trial *t) {
    t->dice ^= t->dice << 13; /* xorshift64 */
    t->dice ^= t->dice >> 7;
    t->dice ^= t->dice << 17;
    return t->dice;
}

/* One call, with other bytes around the payload and at another address than before. */
static int plugin_try_call(trial *t, ea_record *r, int again, size_t *ret_bytes) {
    uint8_t *at = t->given + MARGIN_BYTES + again;
    memset(t->given, again ? 0xFF : 0, sizeof t->given);
    if (r->payload_bytes)
        memcpy(at, t->payload, r->payload_bytes);
    r->payload = at;
    int done = ea_plugin_decode(t->decode, t->c, r, t->values[again], ROOM_BYTES - (size_t)r->payload_bytes, ret_bytes);
    if (memcmp(at, t->payload, r->payload_bytes) != 0)
        t->wrong = "its decode function writes into the payload";
    return done;
}

/* The first n bytes of t->payload. */
static void try_payload(trial *t, size_t n) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t bytes, again, used, fields = t->c->top_count - 1u;
    ea_record r = {.provider = t->c->provider,
                   .version = t->c->version,
                   .pointer_size = 8,
                   .flags = t->c->classic ? EA_FLAG_CLASSIC_HEADER : 0,
                   .opcode = (uint8_t)(t->c->classic ? t->c->code : 0),
                   .id = t->c->classic ? 0 : t->c->code,
                   .payload_bytes = (uint16_t)n};
    if (t->wrong)
        return;
    int done = plugin_try_call(t, &r, 0, &bytes);
    if (done != plugin_try_call(t, &r, 1, &again) ||
        (done && (bytes != again || memcmp(t->values[0], t->values[1], bytes) != 0)))
        t->wrong = "its decode function gives other values for the same payload: it reads outside it, or remembers";
    if (!done || t->wrong)
        return;
    size_t whole = ea_class_split(t->c, t->values[0], bytes, slices, &used);
    size_t taken = whole > fields ? bytes - slices[fields].len_bytes : used;
    if (whole < fields)
        t->wrong = "its decode function puts fewer values than the class has fields";
    else if (taken != bytes)
        t->wrong = "its decode function puts more than the class has fields for";
}

static void try_bytes(trial *t, int byte) {
    static const uint16_t SIZES[] = {0, 1, 2, 3, 4, 7, 8, 12, 16, 31, 64, 255, 1024, 4096, 32767, 65535};
    memset(t->payload, byte, sizeof t->payload);
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        try_payload(t, SIZES[i]);
}

static void try_all(trial *t) {
    static const int BYTES[] = {0, 1, 0x41, 0x7F, 0x80, 0xFF};
    for (size_t i = 0; i < sizeof BYTES / sizeof BYTES[0]; i++)
        try_bytes(t, BYTES[i]);
    for (size_t i = 0; i < sizeof t->payload; i++)
        t->payload[i] = (uint8_t)roll(t);
    try_payload(t, sizeof t->payload);
    for (int k = 0; k < RANDOM_PAYLOADS; k++) {
        /* every second one of small numbers, as lengths and kinds are */
        for (size_t i = 0; i < SHORT_BYTES; i++)
            t->payload[i] = (uint8_t)(roll(t) & (k & 1 ? 0xFF : 7));
        try_payload(t, roll(t) % (SHORT_BYTES + 1));
    }
}

const char *ea_plugin_try(const uint8_t *description, size_t len_bytes, etwagent_decode decode) {
    ea_arena arena;
    ea_class *c;
    trial *t = calloc(1, sizeof *t);
    const char *wrong = "out of memory";
    ea_arena_init(&arena, 0);
    if (t && !ea_class_parse(&arena, description, len_bytes, &c, NULL)) {
        t->c = c;
        t->decode = decode;
        t->dice = 0x9E3779B97F4A7C15u;
        try_all(t);
        wrong = t->wrong;
    }
    ea_arena_deinit(&arena);
    free(t);
    return wrong;
}
