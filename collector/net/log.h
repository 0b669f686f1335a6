/* Lines for the operator on standard error: one line each, hostile bytes escaped, a bounded number of each kind a
 * minute. Called by: every part of the daemon. Output: standard error, through proto/base/line_log.h. Thread: any. */
#ifndef EC_NET_LOG_H
#define EC_NET_LOG_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

typedef struct ec_log ec_log;

/* Who causes a line. Each kind has lines of its own, so that failed handshakes of strangers cannot suppress "commit
 * failed". kind, what the line about suppressed ones calls it. */
#define EC_LOG_KINDS(X)                                                                                                \
    X(COLLECTOR, "the collector itself")                                                                               \
    X(STATE, "the state of machines")                                                                                  \
    X(WATCH, "incidents of machines")                                                                                  \
    X(AGENT, "agents")                                                                                                 \
    X(READER, "requests to the dashboard")                                                                             \
    X(STRANGER, "connections without a valid certificate or token")                                                    \
    X(LIBRARY, "messages of libevent")

enum ec_log_kind {

#define X(kind, text) EC_LOG_##kind,
    EC_LOG_KINDS(X)
#undef X
        EC_LOG_KIND_COUNT
};

/* out and counters are borrowed; counters may be NULL. lines_a_minute: of each kind; 0: 60. */
EA_MUST_CHECK int ec_log_create(ec_log **ret, FILE *out, unsigned lines_a_minute, ea_counters *counters, ea_err *err);
void ec_log_destroy(ec_log *log);
/* Writes "2024-01-02T03:04:05.0000000Z TEXT" unless the kind's lines of this minute are used up; those are counted as
 * log_suppressed. log NULL: nothing. */
void ec_log_about(ec_log *log, enum ec_log_kind kind, const char *format, ...) EA_PRINTF(3, 4);
/* The same about the collector itself. */
void ec_log_line(ec_log *log, const char *format, ...) EA_PRINTF(2, 3);
/* Renews the lines of kinds whose minute is over, and logs how many were suppressed; to be called now and then. */
void ec_log_renew(ec_log *log);

#endif
