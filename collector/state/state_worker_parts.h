/* Inside collector/state: what the files that implement state_worker.h share. state_fold.c folds a stream,
 * state_worker.c all streams in rounds; state_thread.c and state_catch_up.c run rounds, for the daemon and for queries.
 * Called by: these files. Thread: the worker's owner. */
#ifndef EC_STATE_STATE_WORKER_PARTS_H
#define EC_STATE_STATE_WORKER_PARTS_H

#include "collector/state/ledger_report.h"
#include "collector/state/object_names_db.h"
#include "collector/state/state_db.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/map.h"
#include "proto/state/machine.h"

enum { EC_STATE_FAILED_MAX = 1024 /* streams whose failure is remembered */ };

#define EC_MS_TO_NS(ms) ((int64_t)(ms)*1000000)

/* One stream whose machine is in memory. */
typedef struct ec_state_live {
    ec_state_worker *history;
    ec_state_fold fold;
    ea_machine *machine;
    ea_registry *registry;
    ec_ledger *ledger;
    ec_object_names_db *naming;
    uint64_t number;        /* of the batch at hand */
    uint64_t missing_count; /* before it */
    uint64_t stream_id;     /* the store's */
    uint64_t used;          /* the least recently used is evicted */
    ec_session_facts facts; /* with has_facts: of the last batch with events */
    int has_facts;
    int has_gap; /* since the last whole keyframe; -1: not reported yet */
    /* of a stream without the agent's numbers: whether a whole keyframe came in the part of a recording at hand, and
     * the times of its last batch that is no keyframe */
    int is_part_known;
    int64_t part_begin_utc_ns, part_end_utc_ns;
    int64_t again_ns; /* processor time of a fold from the start that is not done yet; 0: there is none */
    /* of a hole that is waited for: when the last batch had come, and that by the monotonic clock */
    int64_t hole_received_utc_ns, hole_since_ns;
} ec_state_live;

/* A stream that has something new. */
typedef struct ec_state_work {
    uint64_t stream_id, batch_count, event_count, highest_number;
    uint64_t expired_batch_count, expired_event_count;
    int64_t received_last_utc_ns;
    char host[256];
    uint8_t stream[EA_STREAM_ID_BYTES];
} ec_state_work;

struct ec_state_worker {
    ec_state_worker_options options;
    ec_store *store;
    ec_state_db *tables;
    ec_state_live **lives;
    size_t live_count;
    uint64_t use_count;
    uint64_t pruned_below; /* the tables hold nothing of segments below this number */
    ea_u64_map done;       /* the store's stream id -> batches + events that are folded */
    ea_u64_map again; /* the store's stream id -> monotonic time before which it is not folded from its start again */
    ea_u64_map
        failed; /* the store's stream id -> monotonic time before which it is not tried again; EC_STATE_FAILED_MAX */
    ea_u64_map lacked_space; /* likewise, of failures of a full disk */
    ec_state_work *works;
    size_t work_count, work_capacity;
    ec_store_place begin;     /* the end of the store when this worker was opened */
    ec_store_place looked;    /* what the tables have of the last round */
    uint64_t first_stream_id; /* the stream with which the next round begins; 0: the first one */
    ea_u64_map turns;         /* hash of the host -> processor time of its turn in this round */
    int64_t turn_ends_cpu_ns; /* of the thread: when the turn at hand is over */
    int64_t used_cpu_ns;      /* of new batches of the stream at hand */
    int is_left;              /* a turn ended before its streams were done */
    ea_err *err;              /* where the observers write an error; of the call at hand */
    uint64_t folded_count;
    int64_t alert_logged_ns; /* monotonic */
    uint64_t alerts_untold;
    int64_t failure_logged_ns; /* monotonic */
    uint64_t failures_untold;
    int stopping;
};

/* A place in the store before another one. */
static inline int ec_state_is_before(const ec_store_place *a, const ec_store_place *b) {
    return a->segment < b->segment || (a->segment == b->segment && a->offset < b->offset);
}

void ec_state_live_destroy(ec_state_live *l); /* NULL is allowed */
/* Forgets the machine of a stream: it is read back from the tables when the stream goes on. */
void ec_state_drop_live(ec_state_worker *h, const ec_state_live *l);
/* Folds what is new in one stream, as far as its agent's turn goes. A failure undoes the open transaction, and leaves
 * the stream alone for a while. */
EA_MUST_CHECK int ec_state_fold_stream(ec_state_worker *h, const ec_state_work *w, ea_err *err);
/* The streams of host; NULL: all. *ret_failed: the first failure of a stream, and err says it. */
EA_MUST_CHECK int ec_state_fold_round(ec_state_worker *h, const char *host, int *ret_failed, ea_err *err);

/* Folds what is stored of host (NULL: of all) for ec_state_worker_catch_up: 0 with *ret_rc, the end of the fold, whose
 * failure is in err; or why it cannot be done here (as ec_state_worker_open), in why. */
typedef int (*ec_state_folder)(const char *dir, const char *host, int *ret_rc, ea_err *why, ea_err *err);
EA_MUST_CHECK int ec_state_fold_here(const char *dir, const char *host, int *ret_rc, ea_err *why, ea_err *err);
/* What does it from now on. */
void ec_state_fold_with(ec_state_folder folder);

#endif
