/* Times as people write them (ea_time_parse), about what is stored: +10s is ten seconds after the first event. Called
 * by: commands, the API. Calls: collector/store, which is opened when a time refers to data. Thread: any. */
#ifndef EC_QUERY_SCAN_DATA_TIMES_H
#define EC_QUERY_SCAN_DATA_TIMES_H

#include "proto/base/err.h"

#include <stdint.h>

/* A bound of a range. what: names it in a message ("--from"). dir: the store's folder. host: whose events start and end
 * mean; NULL: those of all hosts that may be seen. shown: patterns of these; NULL: all. A range ends before its upper
 * bound: `end` is just after the last event. EA_EUSAGE; EA_ENOTFOUND: nothing is stored; the errors of the store. */
EA_MUST_CHECK int ec_data_time(const char *what, const char *text, const char *dir, const char *host, const char *shown,
                               int64_t *ret_utc_ns, ea_err *err);
/* When the events of host (NULL: of all that may be seen) begin and end: 1; 0: nothing is stored. */
EA_MUST_CHECK int ec_data_span(const char *dir, const char *host, const char *shown, int64_t *ret_begin_utc_ns,
                               int64_t *ret_end_utc_ns, ea_err *err);
/* EA_EUSAGE for a number of ns since 1970 that can only be meant as seconds, ms or a year: it is of the first months of
 * 1970. */
EA_MUST_CHECK int ec_data_check_ns(double ns, ea_err *err);

#endif
