/* Counters: the table of names. See counters.h. */
#include "proto/base/counters.h"

static const ea_counter_info ROWS[EA_COUNTER_COUNT] = {
#define X(name, number, severity, part, text) {#name, number, severity, part, EA_COUNTER, 0, text},
#define G(name, number, severity, part, text) {#name, number, severity, part, EA_GAUGE, 0, text},
#define S(name, number, severity, part, text) {#name, number, severity, part, EA_COUNTER, 1, text},
    EA_COUNTERS(X, G, S)
#undef X
#undef G
#undef S
};

const ea_counter_info *ea_counter_row(enum ea_counter which) {
    return &ROWS[which];
}

enum ea_counter ea_counter_of_number(uint64_t number) {
    int c = 0;
    while (c < EA_COUNTER_COUNT && ROWS[c].number != number)
        c++;
    return (enum ea_counter)c;
}
