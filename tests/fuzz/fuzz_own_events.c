/* A list of events of one's own, as relog --events reads it: any bytes. What is taken has what a record needs, and its
 * schema can be read. */
#include "proto/event/tracelogging.h"
#include "proto/relog/own_events.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ea_own_events *list = NULL;
    size_t count = 0;
    ea_err err = {0};
    if (ea_own_events_create(&list, 0, &err))
        abort();
    if (ea_own_events_read(list, "list", (const char *)data, size, &err) && !*err.message)
        abort();
    const ea_own_event *items = ea_own_events_items(list, &count);
    for (size_t i = 0; i < count; i++) {
        const ea_record *r = &items[i].record;
        ea_tracelogging schema;
        ea_arena arena;
        ea_arena_init(&arena, 0);
        if (!items[i].time || !*items[i].time || !items[i].line || r->payload_bytes > EA_OWN_PAYLOAD_MAX_BYTES ||
            ea_tracelogging_read(&arena, r->ext[0].data, r->ext[0].size_bytes, &schema) || schema.wrong)
            abort();
        ea_arena_deinit(&arena);
    }
    ea_own_events_destroy(list);
    return 0;
}
