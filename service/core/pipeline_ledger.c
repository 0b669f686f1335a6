/* Which numbers of the ledger travel. See pipeline_parts.h. */
#include "service/core/pipeline_parts.h"

#include <stdlib.h>
#include <string.h>

enum { ALL_FAMILIES_BATCHES = 64 }; /* how often all families' numbers travel, changed or not */

void ea_pipeline_take_base(const ea_pipeline *p, ea_pipeline_job *j) {
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        ea_uncount(&j->ledger, (enum ea_counter)c, ea_counter_get(&p->base, (enum ea_counter)c));
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            j->families.values[f][k] -= p->family_base.values[f][k];
}

uint64_t ea_pipeline_note_changes(ea_pipeline *p, uint64_t number, const ea_ledger_families *now) {
    ea_mutex_assert_held(p->turn);
    uint64_t changed = 0;
    int all = number - p->sent_number >= ALL_FAMILIES_BATCHES;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        if (all || memcmp(p->sent_families.values[f], now->values[f], sizeof now->values[f]) != 0)
            changed |= (uint64_t)1 << f;
    if (all)
        p->sent_number = number;
    p->sent_families = *now;
    return changed;
}

size_t ea_pipeline_list_families(ea_pipeline_worker *w, const ea_pipeline_job *j) {
    size_t n = 0;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; (j->changed >> f & 1) && k < EA_LEDGER_FAMILY_COUNTERS; k++)
            if (j->families.values[f][k])
                w->counts[n++] = (ea_ledger_count){.counter = ea_counter_row(ea_ledger_family_counter(k))->number,
                                                   .value = j->families.values[f][k],
                                                   .family = ea_event_family_name((uint8_t)f)};
    return n;
}

int ea_pipeline_has_news(ea_pipeline *p) {
    ea_mutex_assert_held(p->turn);
    ea_counters now;
    ea_ledger_snapshot(p->o.ledger, &now, NULL);
    for (enum ea_counter c = 0; c < EA_COUNTER_COUNT; c++)
        if (ea_counter_row(c)->is_news && ea_counter_get(&now, c) != ea_counter_get(&p->sent_counters, c))
            return 1;
    return 0;
}

/* The base of a ledger that begins anew: what is in no batch yet, or in one that goes on (recorded ones, too), counts
 * in the new stream; what was acknowledged, evicted, filtered ... does not. All that goes on is in the spool now. made:
 * the counter of what goes on and was made by us, synthesised; else it was delivered and batched. */
static void pipeline_ledger_rebase(const uint64_t *now, uint64_t *base, uint64_t going_on_made) {
    uint64_t going_on = now[EA_COUNT_events_spooled] + now[EA_COUNT_events_recorded] - going_on_made;
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        base[c] = now[c];

    static const enum ea_counter LEVELS[] = {EA_COUNT_events_pending,  EA_COUNT_events_compressing,
                                             EA_COUNT_events_spooled,  EA_COUNT_events_unanswered,
                                             EA_COUNT_events_recorded, EA_COUNT_stream_recorded};

    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        base[LEVELS[i]] = 0;
    base[EA_COUNT_events_synthesised] -= going_on_made;
    base[EA_COUNT_events_batched] -= going_on;
    base[EA_COUNT_events_delivered] -= going_on + now[EA_COUNT_events_pending];
}

void ea_pipeline_rebase(ea_pipeline *p) {
    ea_mutex_assert_held(p->turn);
    ea_counters now;
    ea_ledger_families families;
    uint64_t values[EA_COUNTER_COUNT], base[EA_COUNTER_COUNT], made = 0;
    ea_ledger_snapshot(p->o.ledger, &now, &families);
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++) {
        memset(values, 0, sizeof values);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            values[ea_ledger_family_counter(k)] = families.values[f][k];
        int is_made = values[EA_COUNT_events_synthesised] != 0; /* keyframes' families have no others */
        uint64_t going_on_made = is_made ? values[EA_COUNT_events_spooled] + values[EA_COUNT_events_recorded] : 0;
        made += going_on_made;
        pipeline_ledger_rebase(values, base, going_on_made);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            p->family_base.values[f][k] = base[ea_ledger_family_counter(k)];
    }
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        values[c] = ea_counter_get(&now, (enum ea_counter)c);
    pipeline_ledger_rebase(values, base, made);
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        atomic_init(&p->base.values[c], base[c]);
    memset(&p->sent_families, 0, sizeof p->sent_families);
    p->sent_number = 0;
}

int ea_pipeline_save_ledger(const ea_pipeline *p, ea_err *err) {
    ea_last_numbers *base = calloc(1, sizeof *base);
    if (!base)
        return ea_fail(err, EA_ENOMEM, "keep the numbers of a ledger");
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        base->values[c] = ea_counter_get(&p->base, (enum ea_counter)c);
    base->families = p->family_base;
    int rc = ea_spool_ledger_begin(p->o.spool, p->stream, p->incarnation, p->o.priority, base, err);
    free(base);
    return rc;
}
