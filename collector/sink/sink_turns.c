/* See sink_turns.h. */
#include "collector/sink/sink_turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t TURN_LONG_NS = INT64_C(1000000000);

int ec_sink_turns_init(ec_sink_turns *t, uint64_t rows_max, int64_t wait_ns, ea_err *err) {
    *t = (ec_sink_turns){.all = {.rows_max = rows_max, .limit = (size_t)rows_max, .wait_ns = wait_ns}};
    t->apart = calloc(EC_TURNS_MAX, sizeof *t->apart);
    t->now = &t->all;
    return t->apart ? 0 : ea_fail(err, EA_ENOMEM, "open a sink");
}

void ec_sink_turns_deinit(ec_sink_turns *t) {
    free(t->apart);
}

ec_sink_turn *ec_sink_turns_find(const ec_sink_turns *t, const char *host) {
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->apart[i].own.host, host) == 0)
            return &t->apart[i];
    return NULL;
}

ec_sink_turn *ec_sink_turns_add(ec_sink_turns *t, const char *host, const ec_sink_place *place) {
    if (t->count == EC_TURNS_MAX)
        return NULL;
    ec_sink_turn *turn = &t->apart[t->count++];
    *turn = (ec_sink_turn){.own.place = *place,
                           .rows_max = t->all.rows_max < EC_TURN_ROWS_FIRST ? t->all.rows_max : EC_TURN_ROWS_FIRST,
                           .limit = (size_t)t->all.rows_max,
                           .wait_ns = t->all.wait_ns,
                           .used_ns = t->all.used_ns,
                           .is_changed = 1};
    snprintf(turn->own.host, sizeof turn->own.host, "%s", host);
    return turn;
}

void ec_sink_turns_remove(ec_sink_turns *t, ec_sink_turn *turn) {
    *turn = t->apart[--t->count];
    t->now = &t->all;
}

ec_sink_turn *ec_sink_turns_choose(ec_sink_turns *t, int64_t now_ns) {
    ec_sink_turn *best = NULL;
    for (size_t i = 0; i < t->count; i++)
        if (t->apart[i].not_before_ns <= now_ns && (!best || t->apart[i].used_ns < best->used_ns))
            best = &t->apart[i];
    if (!t->is_quiet && (!best || t->all.used_ns <= best->used_ns))
        best = &t->all;
    if (best != &t->all)
        t->is_quiet = 0;               /* they are asked again after this turn */
    if (best && best->not_before_ns) { /* it waited: time that was not wanted is lost */
        best->used_ns = best->used_ns < t->begun_ns ? t->begun_ns : best->used_ns;
        best->not_before_ns = 0;
    }
    if (best && best->used_ns > t->begun_ns)
        t->begun_ns = best->used_ns;
    return best;
}

void ec_sink_turns_charge(ec_sink_turns *t, int64_t took_ns, size_t host_count) {
    ec_sink_turn *turn = t->now;
    turn->used_ns += took_ns / (int64_t)(host_count ? host_count : 1);
    if (turn == &t->all)
        return;
    turn->rows_max = took_ns > TURN_LONG_NS ? turn->rows_max / 2 : turn->rows_max * 2;
    if (turn->rows_max < EC_TURN_ROWS_LEAST)
        turn->rows_max = EC_TURN_ROWS_LEAST;
    if (turn->rows_max > t->all.rows_max)
        turn->rows_max = t->all.rows_max;
}

void ec_sink_turns_quiet(ec_sink_turns *t) {
    int64_t least_ns = INT64_MAX;
    t->is_quiet = 1;
    for (size_t i = 0; i < t->count; i++)
        least_ns = t->apart[i].used_ns < least_ns ? t->apart[i].used_ns : least_ns;
    if (t->count && t->all.used_ns < least_ns) /* time that was not wanted is lost */
        t->all.used_ns = least_ns;
}
