/* Results of programs of the query language (watch: of agents' configurations) as metrics.
 *
 * etwagent_watch_result has the newest results of each machine's table of the last 15 minutes, with the labels host,
 * table, of (the function) and key_NAME for each key; others="1" where keys had no room. Of a table there are the first
 * 100 results, which are the largest, and of all tables 4,096; etwcollector_watch_results_left_out counts the others.
 * Called by: api.c. Calls: ask.h. Thread: the handler's. */
#ifndef EC_WEB_WATCH_METRICS_H
#define EC_WEB_WATCH_METRICS_H

#include "collector/web/call.h"

/* Appends them to the call's answer. A question that fails or ends at a limit is a 0 of
 * etwcollector_watch_results_whole, and is no error. EA_ENOMEM, EA_ECANCELED. */
EA_MUST_CHECK int ec_watch_metrics(ec_call *c, ea_err *err);

#endif
