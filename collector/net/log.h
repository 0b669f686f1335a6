/* Lines for the operator: quiet (so many a minute, the rest counted), one line each, hostile bytes escaped.
 * Before it: everything in the daemon. After it: standard error. Thread: any. */
#ifndef EC_NET_LOG_H
#define EC_NET_LOG_H

#include "err.h"

typedef struct ec_log ec_log;

/* out is borrowed. lines_a_minute 0: 60. */
EA_MUST_CHECK int ec_log_create(ec_log **ret, FILE *out, unsigned lines_a_minute, ea_err *err);
void ec_log_destroy(ec_log *log);
/* Writes "2024-01-02T03:04:05.0000000Z TEXT" unless this minute has had its lines; log NULL: nothing. */
void ec_log_line(ec_log *log, const char *format, ...) EA_PRINTF(2, 3);

#endif
