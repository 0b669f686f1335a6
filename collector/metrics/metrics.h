/* What a monitoring system asks for: the collector's counters and the last numbers of the agents' ledgers, in the text
 * format of Prometheus or of OpenMetrics (exposition.h).
 *
 * Names are those of proto/base/counters.h: etwcollector_<name>_total for the collector's own; etwagent_<name>_total,
 * or etwagent_<name> for what goes up and down, with the labels host and stream. How many streams are named is bounded:
 * those whose numbers came last; etwcollector_ledger_streams_left_out says how many are not, and
 * etwcollector_hosts_left_out likewise. Input: collector/state. Used by: collector/web, which serves it as /metrics.
 * Thread: any. */
#ifndef EC_METRICS_METRICS_H
#define EC_METRICS_METRICS_H

#include "proto/base/counters.h"
#include "proto/base/text.h"

#include <stdatomic.h>
#include <stdint.h>

enum { EC_METRICS_STREAMS = 256, EC_METRICS_HOSTS = 16384 };

/* What goes up and down in the collector's own process. Written by cmd_run.c. */
typedef struct ec_gauges {
    _Atomic int64_t crl_made_s, crl_end_s;            /* as ec_crl_times */
    _Atomic int64_t own_end_s, ca_end_s, agent_end_s; /* as ec_tls_certificate_ends */
    atomic_int has_ca, ca_in_reach; /* there is a folder of a CA; this process can open it (confine_run.h) */
} ec_gauges;

/* Appends them, before ec_metrics_text. */
void ec_metrics_gauges(const ec_gauges *g, int open_metrics, ea_text *out);
/* Appends the whole answer. dir: the store's folder; while there are no state tables yet, the answer has only counters.
 */
EA_MUST_CHECK int ec_metrics_text(const char *dir, const ea_counters *counters, size_t max_streams, int open_metrics,
                                  ea_text *out, ea_err *err);

#endif
