/* Checks uploads before the writer gets them: their framing, their agent's quotas, and the records of each batch, which
 * takes most of an upload's processor time. The writer then only appends.
 *
 * Two lanes share the processors by need. The quick lane is for agents that used little processor time lately: its
 * threads have the same priority as the network's threads, and one agent has at most one of them. The slow lane is for
 * all other agents; its threads have a lower priority than others. A received byte counts as EC_BYTE_NS: batches that
 * are large and cheap to read keep the network's thread and the disk busy. When an agent has used EC_QUICK_NS more than
 * its share, its upload moves to the slow lane, between two batches. In each lane agents take turns; in the slow lane
 * an upload releases its thread after EC_SLOW_SLICE_NS when another agent waits. A single agent uses all free
 * processors.
 *
 * The processor time is charged to the agent (EC_QUOTA_processor) after each batch; above its quota the rest of the
 * upload is left to a later upload.
 * Called by: ingest_server.c. Its results go to writer.c by the owner's done(). Thread: its own; push any. */
#ifndef EC_INGEST_VERIFIER_H
#define EC_INGEST_VERIFIER_H

#include "collector/ingest/turns.h"
#include "collector/net/quota.h"

enum {
    EC_QUICK_THREADS = 2,
    EC_SLOW_THREADS_MAX = 8, /* half of the processors, at least one */
    EC_QUICK_SHARE = 5,      /* an agent's share of the processors is a fifth of one */
    EC_BYTE_NS = 2,          /* what a received byte counts beside: its decryption, its way to the disk */
};

static const int64_t EC_QUICK_NS = 50 * INT64_C(1000000), EC_SLOW_SLICE_NS = 10 * INT64_C(1000000);

typedef struct ec_verifier ec_verifier;

typedef struct ec_verifier_options {
    const char *folder; /* of the store; borrowed; NULL: records are not read */
    ea_counters *counters;
    ec_quota *quota;            /* may be NULL */
    struct ec_log *log;         /* may be NULL */
    uint64_t cpu_percent;       /* see writer.h */
    size_t max_waiting_uploads; /* 0: 4096 */
    /* It is looked at: with a status it has its answer, else it is to be stored. A thread of the verifier's. */
    void (*done)(void *arg, ec_upload *upload);
    void *done_arg;
} ec_verifier_options;

EA_MUST_CHECK int ec_verifier_start(ec_verifier **ret, const ec_verifier_options *options, ea_err *err);
/* Queues an upload: done() follows. EA_EFULL when too many wait, EA_ECANCELED when it is stopping: no done() then. */
EA_MUST_CHECK int ec_verifier_push(ec_verifier *v, ec_upload *upload);
/* An agent's upload took processor time elsewhere, which counts for its lane. Any thread. */
void ec_verifier_used(ec_verifier *v, const char *agent, int64_t cpu_ns);
/* Bytes of the uploads that wait. Any thread. */
uint64_t ec_verifier_waiting_bytes(ec_verifier *v);
/* Gives all that waits to done(), without reading further records, and ends the threads. */
void ec_verifier_stop(ec_verifier *v);
void ec_verifier_destroy(ec_verifier *v); /* NULL is allowed */

#endif
