/* A window of a machine out of the store as one .etl trace, which readers understand as they understand the trace of a
 * session that ran for that time: the stored records of all its sessions, and around them what cut.h adds. What was
 * open at the beginning comes out of the history; configuration, schemas, methods of runtimes and stack keys come out
 * of the batches before and after. Input: a store. Called by: `etwcollector pull`. Calls: collector/query/scan,
 * collector/state, proto/relog/cut.h, proto/etl. Thread: its owner's.
 *
 * The process gives up all other files before it reads what agents sent: see ec_query_confine. */
#ifndef EC_PULL_PULL_H
#define EC_PULL_PULL_H

#include "proto/relog/cut.h"

typedef struct ec_pull_options {
    const char *store, *host, *output;
    int64_t from_utc_ns, to_utc_ns;
    const char *where;    /* NULL: all events of the window */
    uint64_t limit;       /* events of the window; 0: no bound. The trace ends with the time of the last one */
    int bare;             /* 1: nothing is added */
    uint16_t compression; /* as ea_etl_writer_options.info has it */
    uint32_t buffer_bytes;
    int64_t wait_ns;              /* for the history */
    int (*keep_going)(void *arg); /* 0 ends it with EA_ECANCELED */
    void *arg;
} ec_pull_options;

typedef struct ec_pull_result {
    uint64_t sessions; /* streams with events in the window */
    uint64_t read;     /* events of the window */
    uint64_t dropped, added, written, bytes;
    uint64_t announced; /* loads and unloads that programs announced: image events are in their place */
    ea_cut_counts added_kinds;
    int64_t end_utc_ns; /* where it ends */
    int is_limited;     /* by limit */
    /* What could not be added, and why. */
    uint64_t backlog;         /* batches that the history lacks */
    uint64_t missing_batches; /* of these sessions, that never came or were deleted */
    uint64_t damaged_batches;
    uint64_t runs_inside;  /* of the agent, that begin in the window: their own rundowns describe them */
    uint64_t runs_unknown; /* of which the history has nothing */
    uint64_t altered;      /* texts that a record could not hold: rundown_records.h */
    char damage[512];      /* the first damage */
} ec_pull_result;

/* EA_ENOTFOUND: nothing is stored of the host in the window; EA_EUNSUPPORTED: the machine was started again in it;
 * EA_EUSAGE: the condition. After a failure there is no output. */
EA_MUST_CHECK int ec_pull(const ec_pull_options *options, ec_pull_result *ret, ea_err *err);

#endif
