/* The ledger: moves of events between their states, so that the equations hold at every read, for the session as a
 * whole and for each family of classes (ea_event_family_of).
 *
 *     delivered             = batched + dropped_* + filtered + sampled_out + limited + repeated + aggregated + pending
 *     batched + synthesised = compressing + spooled + unanswered + acknowledged + evicted_* + recorded + removed_*
 *                             + unrecorded
 *
 * A move subtracts from one counter and adds to another under a lock that is never held during input or output, so that
 * a snapshot is exact.
 * Called by: the source's thread, which posts deliveries; the spool and the sender, which post the rest.
 * Thread: any. */
#ifndef EA_SPOOL_LEDGER_H
#define EA_SPOOL_LEDGER_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

#include <stddef.h>

typedef struct ea_ledger ea_ledger;

/* The counters that are kept for each family. */
#define EA_FAMILY_COUNTERS(X)                                                                                          \
    X(events_delivered)                                                                                                \
    X(events_batched)                                                                                                  \
    X(events_dropped_full)                                                                                             \
    X(events_dropped_oversize)                                                                                         \
    X(events_filtered)                                                                                                 \
    X(events_sampled_out)                                                                                              \
    X(events_limited)                                                                                                  \
    X(events_repeated)                                                                                                 \
    X(events_aggregated)                                                                                               \
    X(events_pending)                                                                                                  \
    X(events_synthesised)                                                                                              \
    X(events_compressing)                                                                                              \
    X(events_spooled)                                                                                                  \
    X(events_unanswered)                                                                                               \
    X(events_acknowledged)                                                                                             \
    X(events_evicted_size)                                                                                             \
    X(events_evicted_age)                                                                                              \
    X(events_evicted_damage)                                                                                           \
    X(events_evicted_refused)                                                                                          \
    X(events_recorded)                                                                                                 \
    X(events_removed_size)                                                                                             \
    X(events_removed_age)                                                                                              \
    X(events_unrecorded)

enum {
    EA_LEDGER_FAMILIES = 64, /* numbers 0 to 63 */

#define X(name) +1
    EA_LEDGER_FAMILY_COUNTERS = 0 EA_FAMILY_COUNTERS(X)
#undef X
};

/* How many of some events are of a family. */
typedef struct ea_family_count {
    uint32_t events;
    uint8_t family; /* below EA_LEDGER_FAMILIES */
} ea_family_count;

typedef struct ea_ledger_families {
    uint64_t values[EA_LEDGER_FAMILIES][EA_LEDGER_FAMILY_COUNTERS];
} ea_ledger_families;
/* The counter of a column of that table. */
enum ea_counter ea_ledger_family_counter(size_t column);

typedef struct ea_posting {
    enum ea_counter counter;
    int64_t events; /* added; negative: taken away */
} ea_posting;

/* counters is borrowed and any thread may read it at any time; the equations hold in snapshots. */
EA_MUST_CHECK int ea_ledger_create(ea_ledger **ret, ea_counters *counters, ea_err *err);
void ea_ledger_destroy(ea_ledger *l);
/* All postings of one call become visible to a snapshot atomically. families: the counts of the events' families (the
 * same in each posting of a counter that families have, in the posting's direction); NULL: none. */
void ea_ledger_post(ea_ledger *l, const ea_posting *postings, size_t count, const ea_family_count *families,
                    size_t family_count);
/* Takes both snapshots atomically; ret_families may be NULL. */
void ea_ledger_snapshot(ea_ledger *l, ea_counters *ret, ea_ledger_families *ret_families);

/* Checks both equations in a snapshot, for the session and (unless NULL) each family: 0, or EA_ECORRUPT with the
 * numbers in err. */
EA_MUST_CHECK int ea_ledger_check(const ea_counters *snapshot, const ea_ledger_families *families, ea_err *err);

#endif
