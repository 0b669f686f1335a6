/* Trace files into a store, without a network: what "etwagent replay" and the collector do, in one process.
 *
 * The process is this program again, started with EC_TRACE_WORKER_NAME as its only argument (main() calls
 * ec_trace_worker_main then): it reads files that others wrote, so it gives up everything but those files and the store
 * first (sandbox.h). In it a trace becomes batches by the agent's own pipeline (service/core/ingest_session.h), which
 * puts them in a spool; a thread takes them from there and appends them with ec_store_append, which checks each as one
 * that came over the network, and another folds them into the history. The spool is a folder of the store and is
 * removed at the end.
 *
 * A trace has the stream that a replay of it has, so the same trace is stored once. Called by: the commands open and
 * ingest, trace_store.h. Calls: trace_worker.c in the child. Thread: any. */
#ifndef EC_TRACES_TRACE_INGEST_H
#define EC_TRACES_TRACE_INGEST_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdatomic.h>

#define EC_TRACE_WORKER_NAME "trace-worker"

enum { EC_TRACE_PATHS_MAX = 64, EC_TRACE_HOST_BYTES = 256 };

typedef struct ec_trace_order {
    const char *store, *host;     /* host: a name as an agent's */
    const char *const *paths;     /* .etl files of one machine, which are read as one */
    size_t path_count;            /* at most EC_TRACE_PATHS_MAX */
    const char *const *manifests; /* as --manifest of "etwagent replay" */
    size_t manifest_count;        /* likewise */
    int shows_progress;           /* a line on standard error */
    int is_scratch;               /* the store is removed after its use: nothing is made durable */
} ec_trace_order;

typedef struct ec_trace_report {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t events, trace_bytes;
    uint64_t stored, repeated, refused; /* batches; repeated: stored before */
    uint64_t lost_events;               /* that Windows lost before they were in the file */
    uint64_t damaged_places;            /* of the files */
    char damage[512], refusal[512];     /* about the first one */
} ec_trace_report;

/* Reads the traces into the store, which is made when there is none. stop: looked at now and then. EA_EBUSY: another
 * process writes to the store. EA_ECANCELED: stopped; the same call goes on later. Batches that the store refuses are
 * an error: EA_EREFUSED. The errors of opening and reading the files, and of the store. */
EA_MUST_CHECK int ec_trace_ingest(const ec_trace_order *order, atomic_int *stop, ec_trace_report *ret, ea_err *err);

/* A host's name made of a file's: its letters, digits, '_' and '-' in lower case, others as '-', without its ending. */
void ec_trace_host(const char *path, char ret[EC_TRACE_HOST_BYTES]);

/* The child's main(): returns its exit code. */
int ec_trace_worker_main(void);

#endif
