/* The ledger. See ledger.h. */
#include "ledger.h"
#include "platform.h"

#include <inttypes.h>
#include <stdlib.h>

struct ea_ledger {
    ea_mutex *lock;
    ea_counters *counters;
};

int ea_ledger_create(ea_ledger **ret, ea_counters *counters, ea_err *err) {
    ea_ledger *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "create a ledger");
    int rc = ea_mutex_create(&l->lock, err);
    if (rc) {
        free(l);
        return rc;
    }
    l->counters = counters;
    *ret = l;
    return 0;
}

void ea_ledger_destroy(ea_ledger *l) {
    if (!l)
        return;
    ea_mutex_destroy(l->lock);
    free(l);
}

void ea_ledger_post(ea_ledger *l, const ea_posting *postings, size_t count) {
    ea_mutex_lock(l->lock);
    for (size_t i = 0; i < count; i++)
        ea_count(l->counters, postings[i].counter, (uint64_t)postings[i].events); /* modulo 2^64: takes away too */
    ea_mutex_unlock(l->lock);
}

void ea_ledger_snapshot(ea_ledger *l, ea_counters *ret) {
    ea_mutex_lock(l->lock);
    for (int i = 0; i < EA_COUNTER_COUNT; i++)
        atomic_init(&ret->values[i], ea_counter_get(l->counters, (enum ea_counter)i));
    ea_mutex_unlock(l->lock);
}

static uint64_t sum(const ea_counters *c, const enum ea_counter *which, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += ea_counter_get(c, which[i]);
    return total;
}
#define SUM(c, ...)                                                                                                    \
    sum(c, (const enum ea_counter[]){__VA_ARGS__}, sizeof((enum ea_counter[]){__VA_ARGS__}) / sizeof(enum ea_counter))

int ea_ledger_check(const ea_counters *c, ea_err *err) {
    uint64_t delivered = ea_counter_get(c, EA_COUNT_events_delivered);
    uint64_t placed = SUM(c, EA_COUNT_events_batched, EA_COUNT_events_filtered, EA_COUNT_events_sampled_out,
                          EA_COUNT_events_aggregated, EA_COUNT_events_dropped_full, EA_COUNT_events_dropped_oversize,
                          EA_COUNT_events_dropped_memory, EA_COUNT_events_pending);
    if (delivered != placed)
        return ea_fail(err, EA_ECORRUPT, "the ledger: %" PRIu64 " events were delivered, %" PRIu64 " are accounted for",
                       delivered, placed);
    uint64_t made = SUM(c, EA_COUNT_events_batched, EA_COUNT_events_synthesised);
    uint64_t found = SUM(c, EA_COUNT_events_compressing, EA_COUNT_events_spooled, EA_COUNT_events_unanswered,
                         EA_COUNT_events_acknowledged, EA_COUNT_events_evicted_size, EA_COUNT_events_evicted_age,
                         EA_COUNT_events_evicted_damage, EA_COUNT_events_evicted_refused);
    if (made != found)
        return ea_fail(err, EA_ECORRUPT,
                       "the ledger: %" PRIu64 " events went into batches, %" PRIu64 " are accounted for", made, found);
    return 0;
}
