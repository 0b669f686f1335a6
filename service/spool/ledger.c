/* The ledger. See ledger.h. */
#include "service/spool/ledger.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct ea_ledger {
    ea_mutex *lock;
    ea_counters *counters;
    ea_ledger_families families; /* lock */
};

/* The table's columns, and the column of each counter, 0 for none, else from 1. */
static const enum ea_counter COLUMNS[] = {

#define X(name) EA_COUNT_##name,
    EA_FAMILY_COUNTERS(X)
#undef X
};

enum column {
    NONE,

#define X(name) COLUMN_##name,
    EA_FAMILY_COUNTERS(X)
#undef X
};
static const uint8_t COLUMN_OF[EA_COUNTER_COUNT] = {
#define X(name) [EA_COUNT_##name] = COLUMN_##name,
    EA_FAMILY_COUNTERS(X)
#undef X
};

enum ea_counter ea_ledger_family_counter(size_t column) {
    return COLUMNS[column];
}

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

void ea_ledger_post(ea_ledger *l, const ea_posting *postings, size_t count, const ea_family_count *families,
                    size_t family_count) {
    ea_mutex_lock(l->lock);
    for (size_t i = 0; i < count; i++) {
        uint8_t column = COLUMN_OF[postings[i].counter];
        ea_count(l->counters, postings[i].counter, (uint64_t)postings[i].events); /* modulo 2^64: takes away too */
        for (size_t k = 0; column && k < family_count; k++) {
            uint64_t *value = &l->families.values[families[k].family % EA_LEDGER_FAMILIES][column - 1];
            *value += postings[i].events < 0 ? 0 - (uint64_t)families[k].events : families[k].events;
        }
    }
    ea_mutex_unlock(l->lock);
}

void ea_ledger_snapshot(ea_ledger *l, ea_counters *ret, ea_ledger_families *ret_families) {
    ea_mutex_lock(l->lock);
    for (int i = 0; i < EA_COUNTER_COUNT; i++)
        atomic_init(&ret->values[i], ea_counter_get(l->counters, (enum ea_counter)i));
    if (ret_families)
        *ret_families = l->families;
    ea_mutex_unlock(l->lock);
}

static uint64_t ledger_sum(const ea_counters *c, const enum ea_counter *which, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += ea_counter_get(c, which[i]);
    return total;
}

#define SUM(c, ...)                                                                                                    \
    ledger_sum(c, (const enum ea_counter[]){__VA_ARGS__},                                                              \
               sizeof((enum ea_counter[]){__VA_ARGS__}) / sizeof(enum ea_counter))

static int ledger_check(const ea_counters *c, const char *whose, ea_err *err) {
    uint64_t delivered = ea_counter_get(c, EA_COUNT_events_delivered);
    uint64_t placed = SUM(c, EA_COUNT_events_batched, EA_COUNT_events_dropped_full, EA_COUNT_events_dropped_oversize,
                          EA_COUNT_events_filtered, EA_COUNT_events_sampled_out, EA_COUNT_events_limited,
                          EA_COUNT_events_repeated, EA_COUNT_events_aggregated, EA_COUNT_events_pending);
    if (delivered != placed)
        return ea_fail(err, EA_ECORRUPT,
                       "the ledger%s: %" PRIu64 " events were delivered, %" PRIu64 " are accounted for", whose,
                       delivered, placed);
    uint64_t made = SUM(c, EA_COUNT_events_batched, EA_COUNT_events_synthesised);
    uint64_t found = SUM(c, EA_COUNT_events_compressing, EA_COUNT_events_spooled, EA_COUNT_events_unanswered,
                         EA_COUNT_events_acknowledged, EA_COUNT_events_evicted_size, EA_COUNT_events_evicted_age,
                         EA_COUNT_events_evicted_damage, EA_COUNT_events_evicted_refused, EA_COUNT_events_recorded,
                         EA_COUNT_events_removed_size, EA_COUNT_events_removed_age, EA_COUNT_events_unrecorded);
    if (made != found)
        return ea_fail(err, EA_ECORRUPT,
                       "the ledger%s: %" PRIu64 " events went into batches, %" PRIu64 " are accounted for", whose, made,
                       found);
    return 0;
}

int ea_ledger_check(const ea_counters *snapshot, const ea_ledger_families *families, ea_err *err) {
    int rc = ledger_check(snapshot, "", err);
    for (int f = 0; !rc && families && f < EA_LEDGER_FAMILIES; f++) {
        ea_counters c = {0};
        char whose[32];
        for (int k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            ea_count(&c, COLUMNS[k], families->values[f][k]);
        snprintf(whose, sizeof whose, " of family %d", f);
        rc = ledger_check(&c, whose, err);
    }
    return rc;
}
