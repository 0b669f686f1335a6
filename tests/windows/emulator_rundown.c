/* The emulator's rundown: the existing processes, threads, images and registry keys, derived from the trace's own
 * events. A session that starts or stops in the middle of a trace logs them as a Windows session does. See
 * emulator_stream.h.
 *
 * A begin record (Start, Load, DCStart, KCBCreate, KCBRundownBegin) is kept unchanged. Its payload is also the payload
 * of the class's rundown records at the start and at the end. An object that the trace's own rundown at its end logs is
 * removed here, so that it is logged only once.
 * Source: Windows' MOF classes Process, Thread, Image, Registry. */
#include "tests/windows/emulator_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    START = 1,
    END = 2,
    DC_START = 3,
    DC_END = 4,
    LOAD = 10,
    KCB_CREATE = 22,
    KCB_DELETE = 23,
    KCB_RUNDOWN_BEGIN = 24,
    KCB_RUNDOWN_END = 25,
    PROCESS = 0x3d6fa8d0,
    THREAD = 0x3d6fa8d1,
    IMAGE = 0x2cb15d1d
};

static const uint32_t REGISTRY = 0xae53722e;

typedef struct item {
    uint64_t a, b; /* which one it is of its class */
    ea_record record;
    uint8_t *payload;
} item;

struct emul_rundown {
    item *items;
    size_t count, capacity;
};

emul_rundown *emul_rundown_create(void) {
    return calloc(1, sizeof(emul_rundown));
}

void emul_rundown_destroy(emul_rundown *d) {
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++)
        free(d->items[i].payload);
    free(d->items);
    free(d);
}

static uint64_t stack_base(const ea_record *r) {
    return r->pointer_size == 8 ? ea_load64(r->payload + 8) : ea_load32(r->payload + 8);
}

/* Which process, thread, image or key (its KCB); 0: none of them, or too short. */
static int name_of(const ea_record *r, uint64_t *a, uint64_t *b) {
    size_t p = r->pointer_size;
    uint32_t class = ea_load32(r->provider.bytes);
    *a = class;
    if (!(r->flags & EA_FLAG_CLASSIC_HEADER) || r->version < 2 || r->payload_bytes < 2 * p + 4)
        return 0;
    if (class == PROCESS)
        *b = ea_load32(r->payload + p);
    else if (class == THREAD)
        *b = ea_load32(r->payload + 4) ? ea_load32(r->payload + 4) : stack_base(r); /* each processor has a thread 0 */
    else if (class == IMAGE) {
        *a = (uint64_t)ea_load32(r->payload + 2 * p) << 32 | class;
        *b = p == 8 ? ea_load64(r->payload) : ea_load32(r->payload);

    } else if (class == REGISTRY && r->payload_bytes >= 16 + p) {
        *b = p == 8 ? ea_load64(r->payload + 16) : ea_load32(r->payload + 16);
    } else

        return 0;
    return 1;
}

/* 1: the record's object exists from now on; -1: the object ended, or the trace's end rundown logged it; 0: neither. */
static int change_of(const ea_record *r) {
    if (ea_load32(r->provider.bytes) == REGISTRY)
        return r->opcode == KCB_CREATE || r->opcode == KCB_RUNDOWN_BEGIN ? 1
               : r->opcode == KCB_DELETE || r->opcode == KCB_RUNDOWN_END ? -1
                                                                         : 0;
    return r->opcode == START || r->opcode == DC_START || r->opcode == LOAD ? 1
           : r->opcode == END || r->opcode == DC_END                        ? -1
                                                                            : 0;
}

void emul_rundown_see(emul_rundown *d, const ea_record *r) {
    uint64_t a, b;
    size_t i = 0;
    int change = change_of(r);
    if (!change || !name_of(r, &a, &b))
        return;
    while (i < d->count && (d->items[i].a != a || d->items[i].b != b))
        i++;
    if (i < d->count) {
        free(d->items[i].payload);
        d->items[i] = d->items[--d->count];
    }
    if (change < 0)
        return;
    if (d->count == d->capacity) {
        d->capacity = d->capacity ? 2 * d->capacity : 1024;
        d->items = realloc(d->items, d->capacity * sizeof *d->items);
    }
    uint8_t *payload = malloc(r->payload_bytes);
    if (!d->items || !payload)
        emul_fail("no memory for the rundown's objects");
    memcpy(payload, r->payload, r->payload_bytes);
    d->items[d->count++] = (item){a, b, *r, payload};
}

void emul_rundown_each(const emul_rundown *d, int at_end, int64_t time_raw, emul_sink sink, void *arg) {
    for (size_t i = 0; i < d->count; i++) {
        ea_record r = d->items[i].record;
        if (d->items[i].a == REGISTRY)
            r.opcode = at_end ? KCB_RUNDOWN_END : KCB_RUNDOWN_BEGIN;
        else
            r.opcode = at_end ? DC_END : DC_START;
        r.time_raw = time_raw;
        r.cpu = 0; /* logged by the thread that starts or stops the session */
        r.payload = d->items[i].payload;
        r.ext_count = 0;
        if (r.hook_id) /* images' own group, also when the beginning was logged as one of processes */
            r.hook_id = (uint16_t)(((uint32_t)d->items[i].a == IMAGE ? 0x1400 : r.hook_id & 0xff00) | r.opcode);
        sink(arg, &r);
    }
}
