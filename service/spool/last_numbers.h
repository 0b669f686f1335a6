/* The last known numbers of a live stream's ledger. The spool's state file has them for each stream that has no closing
 * batch yet, so that the process after a killed one can make it (spool_cut_off.c).
 * Called by: spool_file.c, spool.c, spool_core.c, spool_open.c, spool_cut_off.c. Thread: any (the caller's memory). */
#ifndef EA_SPOOL_LAST_NUMBERS_H
#define EA_SPOOL_LAST_NUMBERS_H

#include "proto/base/text.h"
#include "service/spool/ledger.h"

typedef struct ea_last_numbers {
    uint64_t incarnation;
    uint32_t priority; /* of the stream's batches */
    uint64_t values[EA_COUNTER_COUNT];
    ea_ledger_families families;
} ea_last_numbers;

/* Takes a snapshot of the ledger, minus base (what an earlier name of the stream counted; NULL: nothing). */
void ea_last_numbers_take(ea_last_numbers *n, ea_ledger *ledger, const ea_last_numbers *base);
/* Takes the larger of both values for each counter that only grows: of two snapshots of one ledger that is the later
 * one's. The counts are those of a batch. Sets *ret_ended when it is the stream's closing batch. EA_ECORRUPT. */
EA_MUST_CHECK int ea_last_numbers_take_batch(ea_last_numbers *n, const uint8_t *batch, size_t len_bytes, int *ret_ended,
                                             ea_err *err);
/* Gives every event its final place. kept: events in batches that are in the spool and are not counted as acknowledged
 * (place: events_spooled), or in a recorder (events_recorded). All other events on their way were lost with the
 * process: they count as events_evicted_damage. Returns 1 when the families' numbers are settled, too; 0 when some
 * events of a family may be in either place, and for a recorder, whose batches have no numbers of families. */
int ea_last_numbers_settle(ea_last_numbers *n, enum ea_counter place, uint64_t kept);

/* Writes a line of the state file, "ledger ..."; counters by their number on the wire, families by name. */
void ea_last_numbers_put(ea_text *out, const ea_last_numbers *n);
/* Parses such a line, of which the word "ledger " was read, and moves *at after it. NULL: it is wrong, or no memory. */
ea_last_numbers *ea_last_numbers_parse(const char **at);

#endif
