/* Looks now and then whether a host fell silent or a ledger does not balance, and keeps that as incidents, with those
 * that other parts of the collector report. Called by: the command run. Calls: incidents.h, the index, the history's
 * tables. Thread: one of its own. */
#ifndef EC_STATE_WATCH_H
#define EC_STATE_WATCH_H

#include "collector/net/quota.h"
#include "proto/base/counters.h"
#include "proto/base/err.h"

#include <stdint.h>

typedef struct ec_watch ec_watch;

typedef struct ec_watch_options {
    int64_t silent_ns;                            /* a host is silent after this; and gone for good after a week */
    void (*on_note)(void *arg, const char *text); /* a line for a person; from the watch's thread; may be NULL */
    void *arg;
    ea_counters *counters; /* borrowed */
    ec_quota *quota;       /* borrowed; may be NULL: who is above it is an incident, and what is used is kept */
} ec_watch_options;

/* dir: the store's folder, copied. */
EA_MUST_CHECK int ec_watch_start(ec_watch **ret, const char *dir, const ec_watch_options *options, ea_err *err);
void ec_watch_stop(ec_watch *w); /* NULL is allowed */

#define EC_WATCH_COLLECTOR "(collector)" /* the host of an incident of the collector itself; no agent has this name */

/* Something that the caller noticed. It is an incident of this host and kind, which lasts until lasts_ns after its last
 * report. Texts are copied, cut to 64, 31 and 399 bytes. While 256 reports last, further ones are dropped and counted
 * as incidents_dropped. Thread: any. */
typedef struct ec_watch_report {
    const char *host, *kind, *text;
    int64_t lasts_ns;
} ec_watch_report;

void ec_watch_raise(ec_watch *w, const ec_watch_report *report);

#endif
