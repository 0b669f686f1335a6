/* The sums of a stream's events by process and stack: a hash table whose places are fetched from memory before they are
 * needed. Called by: stack_query.c. Calls: none. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_STACK_SUMS_H
#define EC_QUERY_ANALYSIS_STACK_SUMS_H

#include "proto/base/err.h"
#include "proto/base/platform.h"

#include <stddef.h>
#include <stdint.h>

/* One sum of a stream. It fills a cache line, and is aligned to one. */
typedef struct ec_stack_pair {
    uint32_t process, epoch, kernel, user, code; /* process: index, or EC_NO_PROCESS; code: epoch of methods */
    uint32_t pid, tid;                           /* 0 in a profile: it separates programs, not threads */
    uint32_t name;                               /* in a profile: ec_thread_open's kind, 0 of an event */
    int64_t first_utc_ns, last_utc_ns;
    uint64_t weight, events;
} ec_stack_pair;

_Static_assert(sizeof(ec_stack_pair) == 64, "a cache line");

/* kernel, user: that half is known to be missing. No stack has this number. */
#define EC_STACK_HALF_IS_MISSING UINT32_MAX

/* So many pairs wait for their places in the table. */
enum { EC_STACK_SUMS_COMING = 16 };

typedef struct ec_stack_sums {
    ec_stack_pair *pairs;
    uint32_t *slots; /* hashes to pairs, index + 1 */
    size_t count, capacity, slot_mask;

    struct {
        ec_stack_pair add;
        size_t hash;
    } coming[EC_STACK_SUMS_COMING]; /* a ring */

    uint64_t coming_next, coming_first;
} ec_stack_sums; /* zeroed: empty */

void ec_stack_sums_deinit(ec_stack_sums *s);
/* The pair that came first is in the table. EA_ELIMIT: 16,777,216 pairs. EA_ENOMEM. */
EA_MUST_CHECK int ec_stack_sums_add_first(ec_stack_sums *s);
/* The index of the pair with the same key, after ec_stack_sums_flush; SIZE_MAX: there is none. */
size_t ec_stack_sums_find(const ec_stack_sums *s, const ec_stack_pair *p);
/* All pairs are in the table. */
EA_MUST_CHECK int ec_stack_sums_flush(ec_stack_sums *s);

static inline size_t ec_stack_pair_hash(const ec_stack_pair *p) {
    const uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b = UINT64_C(0xC2B2AE3D27D4EB4F), c = UINT64_C(0x165667B19E3779F9);
    uint64_t x = ((uint64_t)p->kernel << 32 | p->user) * a ^ ((uint64_t)p->process << 32 | p->epoch) * b;
    x = (x ^ x >> 29) * c ^ ((uint64_t)p->code << 32 | p->tid) * a ^ ((uint64_t)p->pid << 32 | p->name) * b;
    return (size_t)(x ^ x >> 32);
}

/* Adds a pair. Inlined: a pair that was just written in halves would stall its read as a whole. */
EA_MUST_CHECK static inline int ec_stack_sums_add(ec_stack_sums *s, ec_stack_pair add) {
    size_t hash = ec_stack_pair_hash(&add);
    int rc = s->coming_next - s->coming_first == EC_STACK_SUMS_COMING ? ec_stack_sums_add_first(s) : 0;
    size_t at = s->coming_next++ % EC_STACK_SUMS_COMING;
    s->coming[at].add = add;
    s->coming[at].hash = hash;
    if (s->slots) {
        EA_PREFETCH(&s->slots[hash & s->slot_mask]);
        size_t half_way = (s->coming_next + EC_STACK_SUMS_COMING / 2) % EC_STACK_SUMS_COMING;
        uint32_t number = s->slots[s->coming[half_way].hash & s->slot_mask];
        EA_PREFETCH(&s->pairs[number ? number - 1 : 0]);
    }
    return rc;
}

#endif
