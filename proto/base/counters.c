/* Counters: the table of names. See counters.h. */
#include "counters.h"

static const ea_counter_info ROWS[EA_COUNTER_COUNT] = {
#define X(name, number, severity, text) {#name, number, severity, text},
    EA_COUNTERS(X)
#undef X
};

const ea_counter_info *ea_counter_row(enum ea_counter which) {
    return &ROWS[which];
}
