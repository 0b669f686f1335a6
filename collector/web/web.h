/* The one listener for people and for monitoring: the dashboard, the JSON API under /api/v1, and /metrics. Input:
 * collector/query, collector/metrics. Clients: browsers, scripts, Prometheus. Thread: start and stop belong to the main
 * one; server.c says which others there are.
 *
 * Questions never hold up ingest: each is asked in a process of its own with limits (ask.h), by one of a few threads
 * that wait for it, and ends when who asked goes away. */
#ifndef EC_WEB_WEB_H
#define EC_WEB_WEB_H

#include "collector/access/access.h"
#include "collector/access/audit.h"
#include "collector/access/visit.h"
#include "collector/net/guard.h"
#include "collector/net/log.h"
#include "collector/net/quota.h"
#include "collector/sandbox/broker.h"
#include "proto/base/counters.h"

typedef struct ec_web ec_web;

typedef struct ec_web_options {
    const char *listen;    /* "127.0.0.1:8453", "[::1]:0" (any free port), "0.0.0.0:8453" with tls and access */
    const char *store;     /* the store's folder */
    ea_counters *counters; /* the collector's own; borrowed */
    ec_quota *quota;       /* borrowed; may be NULL */
    const struct ec_gauges *gauges;           /* borrowed; NULL: /metrics has none of them */
    struct ec_tls *tls;                       /* borrowed; NULL: plain HTTP */
    ec_access *access;                        /* tokens; borrowed; NULL: everybody who reaches it may ask */
    ec_visit *visit;                          /* without tokens: the one visitor, for whom there is a ticket; borrowed;
                                                 NULL: everybody who reaches it */
    const struct ea_request_key *request_key; /* of requests that tokens hand in; borrowed; NULL: none may */
    ec_audit *audit;                          /* borrowed; may be NULL */
    ec_log *log;                              /* borrowed; may be NULL */
    ec_broker *broker;                        /* of a confined process; borrowed; NULL: this one is not confined */
    const struct ec_symbols_options *symbols; /* borrowed; NULL: places in profiles stay places */
    int64_t limit_ns;                         /* of one question; 0: 30 s */
    uint64_t limit_bytes;                     /* memory of one question; 0: 512 MiB */
    uint64_t limit_temp_bytes;                /* temporary files of one question; 0: none */
    uint64_t limit_all_bytes;                 /* memory of all questions at a time; 0: four times that of one */
    uint64_t questions_of_one; /* that are answered at a time of one caller (a token, else an address); 0: 2 */
    int64_t unread_ns; /* an answer of which its reader takes less than 16 KiB a second for so long ends; 0: 10 s */
    int64_t tail_ns;   /* longest life of a stream of events; 0: unlimited */
    ec_guard_limits limits; /* of connections; zeros: guard.h's */
} ec_web_options;

/* options: copied, its texts too. EA_EUSAGE when listen is no loopback address, and there are not
 * both TLS and tokens. */
EA_MUST_CHECK int ec_web_start(ec_web **ret, const ec_web_options *options, ea_err *err);
uint16_t ec_web_port(const ec_web *w);
/* Ends the questions that are being asked, and then the listener. NULL is allowed. */
void ec_web_stop(ec_web *w);

#endif
