/* What lived on a machine at a moment, out of the history, as rundown records. Input: DIR/state.db. Called by: pull.c.
 * Calls: rundown_records.h. Thread: its owner's. */
#ifndef EC_PULL_HISTORY_RUNDOWN_H
#define EC_PULL_HISTORY_RUNDOWN_H

#include "collector/pull/rundown_records.h"
#include "collector/state/state_db.h"

/* Emits processes, threads, modules and names of files and registry keys that lived at utc_ns, as the stream's run
 * knows them; volumes: drive letters, too. stream_number: of a stream of the run. A session of the run has the rows of
 * each table: of those that have any, that which began last by then. Errors: EA_EDATABASE, those of w. */
EA_MUST_CHECK int ec_history_rundown(ec_state_db *tables, int64_t stream_number, int64_t utc_ns, int volumes,
                                     ec_rundown_records *w, ea_err *err);

#endif
