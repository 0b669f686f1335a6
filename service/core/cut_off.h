/* Closing batches of streams that an earlier process left without one: it was killed, or the machine lost its power.
 * Called by: shipping.c, when it has opened a spool. Calls: service/batch, service/spool. Thread: the opener's. */
#ifndef EA_CORE_CUT_OFF_H
#define EA_CORE_CUT_OFF_H

#include "service/spool/spool.h"

/* Appends a batch without events to each such stream. Its ledger has the stream's last known numbers, stream_ended and
 * stream_cut_off. root: the spools' folder, whose recorders have a recorded stream's events; keys: to read these, may
 * be NULL. */
EA_MUST_CHECK int ea_close_cut_off(ea_spool *spool, const char *root, const ea_spool_keys *keys, ea_err *err);

#endif
