/* The metrics of sinks, by their names: what became of events, requests, how long the next batch has waited. Input:
 * DIR/sinks.db (sink_places.h), the store's index. Called by: metrics.c. Thread: any. */
#ifndef EC_METRICS_SINK_METRICS_H
#define EC_METRICS_SINK_METRICS_H

#include "proto/base/text.h"

#include <sqlite3.h>

/* Appends them; nothing when there is no sink. index: of the store. */
EA_MUST_CHECK int ec_metrics_sinks(const char *dir, sqlite3 *index, int open_metrics, ea_text *out, ea_err *err);

#endif
