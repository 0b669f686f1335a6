/* Sigma rules on what arrives: a thread of the daemon asks all rules about each stored batch, once the history has it,
 * and keeps the matches (collector/state/detections.h). Called by: cmd_run.c. Calls: rules_files.h, rules_store.h,
 * proto/rules, collector/query, collector/state. Thread: it has its own; the functions may be called by any.
 *
 * A batch is judged in one transaction with what was found in it, so that after a crash each match is there once. The
 * batch waits for EC_DETECTOR_HOLD_MS after its arrival, and until the history has what arrived meanwhile, since facts
 * about a process (its module, the facts of its file, its account) come after its start, and may be in a later batch. A
 * batch whose number is below what was judged is judged with all that came after it.
 *
 * Hosts take turns: a host with much to be judged, or with events that take long, does not keep the others waiting. In
 * a round the host comes first whose batches took least of late, each stream has a turn of EC_DETECTOR_TURN_MS, and
 * after EC_DETECTOR_ROUND_MS the next round begins. What a host takes is its agent's (on_used); while has_room is 0 its
 * batches wait, one turn in EC_DETECTOR_WAIT_S. SQLite's memory for the thread is limited (sqlite_memory.h): a batch
 * that needs more is skipped. */
#ifndef EC_DETECT_DETECTOR_H
#define EC_DETECT_DETECTOR_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

enum {
    EC_DETECTOR_HOLD_MS = 2000,
    EC_DETECTOR_RANGE_MAX = 64,         /* batches in one transaction */
    EC_DETECTOR_RANGE_MS = 1000,        /* of processor time, for them; beyond it they are judged one by one */
    EC_DETECTOR_LIMIT_MS = 4000,        /* likewise, for one batch; beyond it the batch is skipped */
    EC_DETECTOR_TURN_MS = 100,          /* likewise, of a stream; the range at hand is finished */
    EC_DETECTOR_ROUND_MS = 300,         /* likewise, of a round; the turn at hand is finished */
    EC_DETECTOR_WAIT_S = 10,            /* of a host that is above its quota */
    EC_DETECTOR_SQL_MAX = 64 << 20,     /* bytes of SQLite */
    EC_DETECTOR_CHAIN_MAX = 16,         /* processes in its chain */
    EC_DETECTOR_CHAIN_MAX_BYTES = 8192, /* of it, as JSON: further parents are left out */
    EC_DETECTOR_PROBLEMS_MAX = 20,      /* lines about rules that cannot be used */
};

typedef struct ec_detector ec_detector;

typedef struct ec_detector_options {
    const char *store, *rules; /* folders; copied */
    ea_counters *counters;     /* borrowed */
    /* Called with the processor time that judging a host's batches took. May be NULL. */
    void (*on_used)(void *arg, const char *host, int64_t cpu_ns);
    /* 0: the host has used up its processor time. May be NULL: it has not. */
    int (*has_room)(void *arg, const char *host);
    /* Called with a line for a person. May be NULL. */
    void (*on_note)(void *arg, const char *text);
    void *arg;
} ec_detector_options;

/* Rules that are wrong are reported with their line and column, the others run. Errors: no such folder, no rule file,
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_detector_start(ec_detector **ret, const ec_detector_options *options, ea_err *err);
/* Reads the rules again, soon; when that fails those at hand stay. Batches that were judged stay judged. */
void ec_detector_reload(ec_detector *d);
/* Ends the thread; a range of batches that it is at is judged at the next start. NULL is allowed. */
void ec_detector_stop(ec_detector *d);

#endif
