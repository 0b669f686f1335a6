/* The ledger: moves of events between their states, so that the equations hold whenever somebody looks.
 *
 *     delivered             = batched + filtered + sampled_out + aggregated + dropped_* + pending
 *     batched + synthesised = compressing + spooled + unanswered + acknowledged + evicted_*
 *
 * A move takes from one counter and adds to another under a lock that is never held during input or output, so that a
 * snapshot is exact.
 * Before it: the source's thread, which posts deliveries. After it: the spool and the sender, which post the rest.
 * Thread: any. */
#ifndef EA_SHIP_LEDGER_H
#define EA_SHIP_LEDGER_H

#include "counters.h"
#include "err.h"

#include <stddef.h>

typedef struct ea_ledger ea_ledger;

typedef struct ea_posting {
    enum ea_counter counter;
    int64_t events; /* added; negative: taken away */
} ea_posting;

/* counters is borrowed and may be read by others at any time; the equations hold in snapshots. */
EA_MUST_CHECK int ea_ledger_create(ea_ledger **ret, ea_counters *counters, ea_err *err);
void ea_ledger_destroy(ea_ledger *l);
/* All postings of one call become visible to a snapshot at once. */
void ea_ledger_post(ea_ledger *l, const ea_posting *postings, size_t count);
void ea_ledger_snapshot(ea_ledger *l, ea_counters *ret);

/* Checks both equations in a snapshot: 0, or EA_ECORRUPT with the numbers in err. */
EA_MUST_CHECK int ea_ledger_check(const ea_counters *snapshot, ea_err *err);

#endif
