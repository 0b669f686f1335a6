/* A small generator of random numbers (splitmix64): the same seed gives the same numbers on every compiler. Input: a
 * seed. Used by: the model. Thread: its owner's. */
#ifndef EA_TESTS_TRACEGEN_DICE_H
#define EA_TESTS_TRACEGEN_DICE_H

#include <stdint.h>

typedef struct tg_dice {
    uint64_t state;
} tg_dice;

static inline uint64_t tg_roll(tg_dice *d) {
    uint64_t z = d->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* 0 to n - 1; n > 0. */
static inline uint64_t tg_below(tg_dice *d, uint64_t n) {
    return tg_roll(d) % n;
}

/* low to high, both included. */
static inline int64_t tg_between(tg_dice *d, int64_t low, int64_t high) {
    return low + (int64_t)tg_below(d, (uint64_t)(high - low) + 1);
}

/* 1 in percent of all cases. */
static inline int tg_chance(tg_dice *d, unsigned percent) {
    return tg_below(d, 100) < percent;
}

#endif
