/* The spool: streams whose process ended without closing them. See spool.h.
 * Called by: the pipeline (begin, end), the opener of the spool. Calls: spool_core.c, last_numbers.h. Thread: as
 * spool.h says of each function. */
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

int ea_spool_ledger_begin(ea_spool *s, const uint8_t *id, uint64_t incarnation, uint32_t priority,
                          const ea_last_numbers *base, ea_err *err) {
    ea_last_numbers *numbers = calloc(1, sizeof *numbers), *copy = base ? malloc(sizeof *copy) : NULL;
    if (!numbers || (base && !copy)) {
        free(numbers);
        free(copy);
        return ea_fail(err, EA_ENOMEM, "keep a ledger's numbers in the spool %s", s->dir);
    }
    numbers->incarnation = incarnation;
    numbers->priority = priority;
    if (copy)
        *copy = *base;
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, id);
    if (k && k->state.resumable == EA_SPOOL_LIVE) {
        free(k->state.numbers);
        free(k->base);
        k->state.numbers = numbers;
        k->base = copy;
        numbers = copy = NULL;
        s->dirty = 1;
    }
    ea_mutex_unlock(s->lock);
    free(numbers);
    free(copy);
    EA_IGNORE(ea_spool_reap(s, 1, NULL)); /* a state that cannot be saved stays dirty and is saved later */
    return 0;
}

void ea_spool_ledger_end(ea_spool *s, const uint8_t *id) {
    ea_mutex_lock(s->lock);
    stream *k = ea_spool_find_stream(s, id);
    if (k) {
        free(k->state.numbers);
        free(k->base);
        k->state.numbers = k->base = NULL;
        s->dirty = 1;
        ea_spool_unref_stream(s, k);
    }
    ea_mutex_unlock(s->lock);
}

/* Events of the stream's batches in the spool. */
static uint64_t spool_cut_off_waiting_events(const stream *k) {
    size_t cursor = 0;
    uint64_t number, e, n = 0;
    while (ea_u64_map_next(&k->entries, &cursor, &number, &e)) {
        const entry *here = (const entry *)(uintptr_t)e;
        n += here->tombstone ? 0 : here->event_count;
    }
    return n;
}

int ea_spool_each_cut_off(ea_spool *s, ea_spool_find_recorded *find, int (*fn)(const ea_spool_cut_off *c, void *arg),
                          void *arg, ea_err *err) {
    int rc = 0;
    ea_spool_cut_off *c = malloc(sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "look for unfinished streams in the spool %s", s->dir);
    for (stream *k = s->streams, *next; !rc && k; k = next) {
        next = k->next; /* fn may forget k */
        if (k->open || !k->state.numbers || k->state.resumable != EA_SPOOL_LIVE)
            continue;
        memcpy(c->stream, k->state.stream, sizeof c->stream);
        c->number = k->state.highest + 1;
        for (size_t i = 0; i < k->deferred_count; i++)
            if (k->deferred[i].last >= c->number)
                c->number = k->deferred[i].last + 1;
        c->numbers = *k->state.numbers;
        /* batches that were acknowledged after the state was saved are in the spool and are sent again */
        uint64_t here = spool_cut_off_waiting_events(k),
                 twice = c->numbers.values[EA_COUNT_events_acknowledged] - k->saved_acknowledged;
        enum ea_counter place = EA_COUNT_events_spooled;
        uint64_t kept = here > twice ? here - twice : 0;
        if (find && c->numbers.values[EA_COUNT_stream_recorded]) {
            place = EA_COUNT_events_recorded;
            rc = find(arg, c->stream, &c->numbers, &kept, err);
        }
        if (!rc) {
            c->are_families_settled = ea_last_numbers_settle(&c->numbers, place, kept);
            rc = fn(c, arg);
        }
    }
    free(c);
    return rc;
}
