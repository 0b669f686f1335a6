/* The collector's front door: HTTPS with client certificates, batches in, acknowledgements out. POST /v1/batches takes
 * uploads (proto/wire/FORMAT.md, "Upload"), /v1/requests polls ("Requests"); GET /healthz says whether the store takes
 * them. Clients: agents. Calls: collector/store. Thread: its own (one a base, the verifier's, one writer); start and
 * stop belong to the main one. */
#ifndef EC_INGEST_INGEST_H
#define EC_INGEST_INGEST_H

#include "collector/net/guard.h"
#include "collector/net/quota.h"
#include "collector/net/tls.h"
#include "collector/store/retention.h"
#include "collector/store/store.h"

typedef struct ec_ingest ec_ingest;

typedef struct ec_ingest_options {
    const char *listen;                         /* "127.0.0.1:8443", "[::]:8443"; port 0: any free one */
    const char *cert_path, *key_path, *ca_path; /* PEM */
    const char *crl_path;                       /* PEM; NULL: none */
    struct ec_broker *broker;                   /* opens these; borrowed; NULL: this process does */
    unsigned threads;                           /* 0: 1 */
    uint64_t max_body_bytes;                    /* of one upload; 0: the largest batch and its frame */
    uint64_t max_waiting_bytes;                 /* of all bodies in memory; 0: 256 MiB */
    ec_guard_limits limits; /* of connections, divided among threads (0: 16,384), and deadlines (idle_ns 0: 10 min) */
    uint32_t max_agent_connections; /* of one agent and thread; 0: 64 */
    uint32_t max_agent_requests;    /* of one agent and thread, unanswered; 0: 4 */
    ec_store *store;                /* borrowed from start to stop: the writer's thread uses it alone */
    int trusts_checksums;           /* as the store does */
    ea_counters *counters;          /* borrowed */
    ec_quota *quota;                /* borrowed; may be NULL */
    struct ec_log *log;             /* borrowed; may be NULL */
    void (*on_stored)(void *arg);   /* new batches are durable; the writer's thread, must not block */
    void (*on_space)(void *arg);    /* the disk was full and has space again; likewise, before on_stored; may be NULL */
    /* 1 when the state of this stream has a gap that a keyframe would mend; likewise. Both may be NULL. */
    int (*wants_keyframe)(void *arg, const char *agent, const uint8_t *stream);
    void *on_stored_arg; /* of these three */
    /* An agent's poll for requests: appends the answer. EA_ECORRUPT, EA_ELIMIT: the poll has no valid form. Threads of
     * the network; takes a moment. NULL: there are none. */
    int (*poll)(void *arg, const char *agent, const uint8_t *data, size_t len_bytes, ea_text *out, ea_err *err);
    void *poll_arg;
    ec_retention retention;
    int64_t retain_every_ns; /* 0: 1 min */
    uint64_t cpu_percent;    /* see writer.h */
} ec_ingest_options;

/* Listens and serves. Ticket keys are kept in the store's folder. The process must ignore SIGPIPE. */
EA_MUST_CHECK int ec_ingest_start(ec_ingest **ret, const ec_ingest_options *options, ea_err *err);
uint16_t ec_ingest_port(const ec_ingest *in);
/* Limits from now on. Any thread. */
void ec_ingest_set_retention(ec_ingest *in, const ec_retention *limits);
/* Reads the collector's certificate and key again, for connections from now on (ec_tls_renew). Any thread. */
EA_MUST_CHECK int ec_ingest_renew(ec_ingest *in, ea_err *err);
/* See ec_tls_crl_times. Thread: any. */
ec_crl_times ec_ingest_crl_times(ec_ingest *in);
/* See ec_tls_certificate_ends. Thread: any. */
ec_tls_ends ec_ingest_certificate_ends(ec_ingest *in);
/* Takes no more, stores and answers what has arrived, closes. NULL is allowed. */
void ec_ingest_stop(ec_ingest *in);

#endif
