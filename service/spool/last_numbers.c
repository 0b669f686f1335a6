/* The last known numbers of a stream. See last_numbers.h. */
#include "service/spool/last_numbers.h"
#include "proto/event/event.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void ea_last_numbers_take(ea_last_numbers *n, ea_ledger *ledger, const ea_last_numbers *base) {
    ea_counters now;
    ea_ledger_snapshot(ledger, &now, &n->families);
    for (int c = 0; c < EA_COUNTER_COUNT; c++)
        n->values[c] = ea_counter_get(&now, (enum ea_counter)c) - (base ? base->values[c] : 0);
    for (size_t f = 0; base && f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            n->families.values[f][k] -= base->families.values[f][k];
}

/* ---- names on the wire ---- */

/* EA_LEDGER_FAMILIES: none of this version. */
static unsigned last_numbers_family_of(const char *name, size_t len_bytes) {
    unsigned f = 0;
    for (; f < EA_LEDGER_FAMILIES; f++) {
        const char *known = ea_event_family_name((uint8_t)f);
        if (strlen(known) == len_bytes && memcmp(known, name, len_bytes) == 0)
            break;
    }
    return f;
}

/* The value of a counter; family "": the session's. NULL: this version has none. */
static uint64_t *last_numbers_value_of(ea_last_numbers *n, const char *family, size_t family_bytes, uint64_t number) {
    enum ea_counter c = ea_counter_of_number(number);
    if (c == EA_COUNTER_COUNT)
        return NULL;
    if (!family_bytes)
        return &n->values[c];
    unsigned f = last_numbers_family_of(family, family_bytes);
    for (size_t k = 0; f < EA_LEDGER_FAMILIES && k < EA_LEDGER_FAMILY_COUNTERS; k++)
        if (ea_ledger_family_counter(k) == c)
            return &n->families.values[f][k];
    return NULL;
}

/* ---- a batch's numbers ---- */

typedef struct taking {
    ea_last_numbers *numbers;
    int is_ended;
} taking;

static int last_numbers_take_count(const ea_ledger_count *count, void *arg) {
    taking *t = arg;
    enum ea_counter c = ea_counter_of_number(count->counter);
    if (count->incarnation != t->numbers->incarnation || c == EA_COUNTER_COUNT)
        return 0;
    t->is_ended |= c == EA_COUNT_stream_ended && count->value;
    uint64_t *value = last_numbers_value_of(t->numbers, count->family, strlen(count->family), count->counter);
    if (value && ea_counter_row(c)->type == EA_COUNTER && count->value > *value)
        *value = count->value;
    return 0;
}

int ea_last_numbers_take_batch(ea_last_numbers *n, const uint8_t *batch, size_t len_bytes, int *ret_ended,
                               ea_err *err) {
    taking t = {.numbers = n};
    int rc = ea_batch_each_count(batch, len_bytes, last_numbers_take_count, &t, err);
    if (!rc)
        *ret_ended = t.is_ended;
    return rc;
}

/* ---- the final places ---- */

/* values: one a counter. *kept becomes what is of these events at the most, in that place: the spool or a recorder.
 * Returns how many are lost then. */
static uint64_t last_numbers_settle(uint64_t *values, enum ea_counter place, uint64_t *kept) {
    static const enum ea_counter PLACES[] = {EA_COUNT_events_dropped_full, EA_COUNT_events_dropped_oversize,
                                             EA_COUNT_events_filtered,     EA_COUNT_events_sampled_out,
                                             EA_COUNT_events_limited,      EA_COUNT_events_repeated,
                                             EA_COUNT_events_aggregated};

    static const enum ea_counter GONE[] = {EA_COUNT_events_acknowledged,    EA_COUNT_events_evicted_size,
                                           EA_COUNT_events_evicted_age,     EA_COUNT_events_evicted_damage,
                                           EA_COUNT_events_evicted_refused, EA_COUNT_events_removed_size,
                                           EA_COUNT_events_removed_age,     EA_COUNT_events_unrecorded};

    uint64_t delivered = values[EA_COUNT_events_batched], gone = 0;
    uint64_t made = values[EA_COUNT_events_batched] + values[EA_COUNT_events_synthesised];
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        delivered += values[PLACES[i]];
    for (size_t i = 0; i < sizeof GONE / sizeof *GONE; i++)
        gone += values[GONE[i]];
    uint64_t rest = made > gone ? made - gone : 0, lost;
    if (*kept > rest)
        *kept = rest;
    lost = rest - *kept;
    values[EA_COUNT_events_delivered] = delivered; /* no event is pending: those of an open batch were in no ledger */
    values[EA_COUNT_events_pending] = values[EA_COUNT_events_compressing] = values[EA_COUNT_events_unanswered] = 0;
    values[EA_COUNT_events_spooled] = values[EA_COUNT_events_recorded] = 0;
    values[place] = *kept;
    values[EA_COUNT_events_evicted_damage] += lost;
    return lost;
}

int ea_last_numbers_settle(ea_last_numbers *n, enum ea_counter place, uint64_t kept) {
    uint64_t values[EA_COUNTER_COUNT], lost = last_numbers_settle(n->values, place, &kept);
    if ((lost && kept) || place != EA_COUNT_events_spooled)
        return 0;
    for (size_t f = 0; f < EA_LEDGER_FAMILIES; f++) {
        uint64_t all = lost ? 0 : UINT64_MAX;
        memset(values, 0, sizeof values);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            values[ea_ledger_family_counter(k)] = n->families.values[f][k];
        (void)last_numbers_settle(values, place, &all);
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            n->families.values[f][k] = values[ea_ledger_family_counter(k)];
    }
    return 1;
}

/* ---- the line ---- */

static void last_numbers_put_values(ea_text *out, const char *name, const ea_last_numbers *n, size_t family) {
    int any = 0;
    size_t count = family < EA_LEDGER_FAMILIES ? EA_LEDGER_FAMILY_COUNTERS : EA_COUNTER_COUNT;
    for (size_t k = 0; k < count; k++) {
        int is_family = family < EA_LEDGER_FAMILIES;
        enum ea_counter c = is_family ? ea_ledger_family_counter(k) : (enum ea_counter)k;
        uint64_t value = is_family ? n->families.values[family][k] : n->values[k];
        if (!value)
            continue;
        if (any++)
            ea_text_printf(out, ",%" PRIu32 "=%" PRIu64, ea_counter_row(c)->number, value);
        else
            ea_text_printf(out, " %s:%" PRIu32 "=%" PRIu64, name, ea_counter_row(c)->number, value);
    }
}

void ea_last_numbers_put(ea_text *out, const ea_last_numbers *n) {
    ea_text_printf(out, "ledger %" PRIu64 " %" PRIu32, n->incarnation, n->priority);
    last_numbers_put_values(out, "", n, EA_LEDGER_FAMILIES);
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        last_numbers_put_values(out, ea_event_family_name((uint8_t)f), n, f);
    ea_text_str(out, "\n");
}

static int parse_values(const char **at, ea_last_numbers *n) {
    const char *name = *at;
    size_t name_bytes = strcspn(name, ": \n");
    *at += name_bytes;
    do {
        uint64_t which, value, *to;
        ++*at; /* the ':' or the ',' */
        if (!ea_digits_parse(at, 10, &which) || **at != '=' || (++*at, !ea_digits_parse(at, 10, &value)))
            return 0;
        if ((to = last_numbers_value_of(n, name, name_bytes, which)) != NULL)
            *to = value;
    } while (**at == ',');
    return 1;
}

ea_last_numbers *ea_last_numbers_parse(const char **at) {
    uint64_t priority = 0;
    ea_last_numbers *n = calloc(1, sizeof *n);
    int good = n && ea_digits_parse(at, 10, &n->incarnation) && *(*at)++ == ' ' && ea_digits_parse(at, 10, &priority) &&
               priority <= UINT8_MAX;
    while (good && **at == ' ') {
        ++*at;
        good = (*at)[strcspn(*at, ": \n")] == ':' && parse_values(at, n);
    }
    if (!good || *(*at)++ != '\n') {
        free(n);
        return NULL;
    }
    n->priority = (uint32_t)priority;
    return n;
}
