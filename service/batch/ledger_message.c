/* See ledger_message.h. */
#include "service/batch/ledger_message.h"

#include <string.h>

/* A message a family, whose counters and values are parts of two arrays for all. */
static int put_families(ea_arena *arena, const ea_batch_stamp *stamp, Etwagent__V1__Ledger *m) {
    size_t count = stamp->family_count_count;
    uint32_t *counters = ea_arena_alloc(arena, count * sizeof *counters);
    uint64_t *values = ea_arena_alloc(arena, count * sizeof *values);
    m->families = ea_arena_alloc(arena, count * sizeof *m->families);
    if (!counters || !values || !m->families)
        return 0;
    Etwagent__V1__LedgerFamily *family = NULL;
    for (size_t i = 0; i < count; i++) {
        const ea_ledger_count *c = &stamp->family_counts[i];
        if (!family || strcmp(family->family, c->family) != 0) {
            size_t len_bytes = strlen(c->family) + 1;
            family = ea_arena_alloc(arena, sizeof *family);
            char *name = ea_arena_alloc(arena, len_bytes);
            if (!family || !name)
                return 0;
            etwagent__v1__ledger_family__init(family);
            memcpy(name, c->family, len_bytes);
            family->family = name;
            family->counters = &counters[i];
            family->values = &values[i];
            m->families[m->n_families++] = family;
        }
        counters[i] = c->counter;
        values[i] = c->value;
        family->n_counters++;
        family->n_values++;
    }
    return 1;
}

Etwagent__V1__Ledger *ea_ledger_message(ea_arena *arena, const ea_batch_stamp *stamp) {
    Etwagent__V1__Ledger *m = ea_arena_alloc(arena, sizeof *m);
    uint32_t *counters = ea_arena_alloc(arena, EA_COUNTER_COUNT * sizeof *counters);
    uint64_t *values = ea_arena_alloc(arena, EA_COUNTER_COUNT * sizeof *values);
    if (!m || !counters || !values)
        return NULL;
    etwagent__v1__ledger__init(m);
    m->counters = counters;
    m->values = values;
    for (unsigned i = 0; i < EA_COUNTER_COUNT; i++) {
        uint64_t value = ea_counter_get(stamp->ledger, i);
        if (!value)
            continue;
        counters[m->n_counters++] = ea_counter_row(i)->number;
        values[m->n_values++] = value;
    }
    m->incarnation = stamp->incarnation;
    m->utc_ns = stamp->ledger_utc_ns;
    return stamp->family_count_count && !put_families(arena, stamp, m) ? NULL : m;
}
