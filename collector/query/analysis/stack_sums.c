/* See stack_sums.h. */
#include "collector/query/analysis/stack_sums.h"

#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 1 << 24, PAIR_KEY_BYTES = 8 * sizeof(uint32_t) };

void ec_stack_sums_deinit(ec_stack_sums *s) {
    ea_large_free(s->pairs, s->capacity * sizeof *s->pairs);
    free(s->slots);
}

static int sums_grow_slots(ec_stack_sums *s) {
    size_t mask = s->slot_mask ? s->slot_mask * 2 + 1 : 4095;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        size_t at = ec_stack_pair_hash(&s->pairs[i]) & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->slot_mask = mask;
    return 0;
}

static int grow_pairs(ec_stack_sums *s) {
    size_t capacity = s->capacity ? s->capacity * 2 : 4096;
    ec_stack_pair *grown = ea_large_alloc(capacity * sizeof *grown);
    if (!grown)
        return EA_ENOMEM;
    if (s->count)
        memcpy(grown, s->pairs, s->count * sizeof *grown);
    ea_large_free(s->pairs, s->capacity * sizeof *grown);
    s->pairs = grown;
    s->capacity = capacity;
    return 0;
}

static int add_pair(ec_stack_sums *s, const ec_stack_pair *add, size_t hash) {
    int rc = !s->slots || s->count >= s->slot_mask / 2 ? sums_grow_slots(s) : 0;
    if (rc)
        return rc;
    size_t at = hash & s->slot_mask;
    for (; s->slots[at]; at = (at + 1) & s->slot_mask) {
        ec_stack_pair *p = &s->pairs[s->slots[at] - 1];
        if (memcmp(p, add, PAIR_KEY_BYTES) == 0) {
            if (p->first_utc_ns > add->first_utc_ns)
                p->first_utc_ns = add->first_utc_ns;
            if (p->last_utc_ns < add->last_utc_ns)
                p->last_utc_ns = add->last_utc_ns;
            p->weight += add->weight;
            p->events += add->events;
            return 0;
        }
    }
    if (s->count == PAIRS_MAX)
        return EA_ELIMIT;
    if (s->count == s->capacity && (rc = grow_pairs(s)))
        return rc;
    s->pairs[s->count++] = *add;
    s->slots[at] = (uint32_t)s->count;
    return 0;
}

size_t ec_stack_sums_find(const ec_stack_sums *s, const ec_stack_pair *p) {
    for (size_t at = ec_stack_pair_hash(p) & s->slot_mask; s->slots && s->slots[at]; at = (at + 1) & s->slot_mask)
        if (memcmp(&s->pairs[s->slots[at] - 1], p, PAIR_KEY_BYTES) == 0)
            return s->slots[at] - 1;
    return SIZE_MAX;
}

int ec_stack_sums_add_first(ec_stack_sums *s) {
    size_t at = s->coming_first++ % EC_STACK_SUMS_COMING;
    return add_pair(s, &s->coming[at].add, s->coming[at].hash);
}

int ec_stack_sums_flush(ec_stack_sums *s) {
    int rc = 0;
    while (!rc && s->coming_first != s->coming_next)
        rc = ec_stack_sums_add_first(s);
    return rc;
}
