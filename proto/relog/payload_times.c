/* See payload_times.h. */
#include "proto/relog/payload_times.h"

#include "proto/base/provider_guids.h"

#include <string.h>

enum {
    OP_STACK = 32, /* StackWalk's records that name their event by its time, which their payload begins with */
    OP_STACK_KEY_KERNEL = 37,
    OP_STACK_KEY_USER = 38,
};

static const ea_guid STACK_WALK = EA_PROVIDER_STACK_WALK;

static int names_time(const ea_record *r) {
    return r->payload_bytes >= 8 && ea_guid_equal(&r->provider, &STACK_WALK) &&
           (r->opcode == OP_STACK || r->opcode == OP_STACK_KEY_KERNEL || r->opcode == OP_STACK_KEY_USER);
}

static void convert_time(const ea_clock *from, const ea_clock *to, uint8_t *at) {
    int64_t raw = (int64_t)ea_load64(at);
    if (raw) /* 0: there is none */
        ea_store64(at, (uint64_t)ea_clock_convert(from, to, raw));
}

/* A number of ticks of clocks that both count from 0. */
static void convert_span(const ea_clock *from, const ea_clock *to, uint8_t *at) {
    const ea_clock a = {.type = from->type, .frequency = from->frequency},
                   b = {.type = to->type, .frequency = to->frequency};
    if (from->frequency != to->frequency)
        ea_store64(at, (uint64_t)ea_clock_from_utc_ns(&b, ea_clock_to_utc_ns(&a, (int64_t)ea_load64(at))));
}

void ea_payload_times_convert(const ea_clock *from, const ea_clock *to, const ea_record *r, const ea_class *c,
                              uint8_t *out) {
    if (r->payload_bytes)
        memcpy(out, r->payload, r->payload_bytes);
    for (size_t i = 0; i < c->fixed_fields; i++) {
        const ea_field *f = &c->fields[i];
        if (f->width != 8 || f->count != 1 || f->offset + 8u > r->payload_bytes)
            continue;
        if (f->semantic == EA_SEM_QPC)
            convert_time(from, to, out + f->offset);
        else if (f->semantic == EA_SEM_DURATION_QPC)
            convert_span(from, to, out + f->offset);
    }
    if (names_time(r) && !(c->fixed_fields && c->fields[0].semantic == EA_SEM_QPC))
        convert_time(from, to, out);
}
