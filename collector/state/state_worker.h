/* The history of every machine: stored batches of each stream are folded, in the order of their numbers, through
 * proto/state, and the result is kept in the tables of DIR/state.db.
 * Called by: collector/app, collector/query. Calls: collector/store. Thread: an ec_state_worker belongs to one
 * thread; ec_state_worker_start makes a thread that owns one.
 *
 * The position up to which a stream is folded is stored in the same transaction as the result: after a crash the fold
 * continues from there, with the same result. When a number is missing and later batches exist, the fold waits for it;
 * a tombstone, or a limit of time or count, ends the waiting. When such a batch arrives after all, its stream is folded
 * again from the start.
 *
 * The daemon's thread folds in rounds. In a round each agent has one turn, which ends when its processor time is used
 * up; the rest of its batches is folded in later rounds. After each round the place in the store up to which the round
 * has looked is kept in the tables. So a question of one agent's streams, or of all, can wait for one round instead of
 * for an agent that sends more than can be folded, or whose stream waits for a missing batch. */
#ifndef EC_STATE_STATE_WORKER_H
#define EC_STATE_STATE_WORKER_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

#include <stdint.h>

typedef struct ec_state_worker ec_state_worker;

typedef struct ec_state_worker_options {
    uint32_t live_streams;                  /* machines kept in memory; others are read back when they go on; 0: 64 */
    uint32_t batches_per_commit;            /* 0: 16 */
    int is_scratch;                         /* of the store, see ec_store_options */
    int64_t hole_wait_ns;                   /* after the stream's last arrival; 0: 30 s; negative: do not wait */
    uint64_t hole_batches;                  /* batches after a hole that end the waiting; 0: 256 */
    size_t limit_state_bytes;               /* of each such machine, see machine.h; 0: 64 MiB */
    uint64_t limit_names, limit_operations; /* of each stream, see object_names_db.h; 0: 1,048,576 each */
    ea_counters *counters;                  /* borrowed; may be NULL */
    /* Asked after each batch: 0 ends the fold after a commit. May be NULL. */
    int (*keep_going)(void *arg);
    uint64_t cpu_percent; /* of the daemon's thread: see ingest/writer.h */
    int64_t turn_ns;      /* processor time of an agent in one round; 0: no limit, in the daemon's thread 50 ms */
    /* Called with the processor time of an agent's batches that were stored since the worker was opened. May be NULL.
     */
    void (*on_used)(void *arg, const char *host, int64_t cpu_ns);
    /* Called with a line for a person about what was skipped or begun again. May be NULL. */
    void (*on_note)(void *arg, const char *text);
    /* A stream's state lacks something that a keyframe would mend (gap 1), or has had a whole keyframe since (0). May
     * be NULL. */
    void (*on_gap)(void *arg, const char *host, const uint8_t *stream, int gap);
    void *arg;
} ec_state_worker_options;

/* Opens the tables of store folder dir for writing; EA_EBUSY when another process, or thread, folds already. */
EA_MUST_CHECK int ec_state_worker_open(ec_state_worker **ret, const char *dir, const ec_state_worker_options *options,
                                       ea_err *err);
void ec_state_worker_close(ec_state_worker *h); /* NULL is allowed */

/* Folds all that is stored now. *ret_batches (may be NULL) is how many batches were folded. A stream that fails is left
 * alone for ten seconds at least and holds up no other: its failure is returned when the others are done. When eight
 * fail in a row it is not theirs, and the fold ends. A stream that failed for lack of space waits as long, or until
 * ec_state_worker_has_space. */
EA_MUST_CHECK int ec_state_worker_fold(ec_state_worker *h, uint64_t *ret_batches, ea_err *err);
/* The disk that was full has space again: the next fold tries what it lacked space for. */
void ec_state_worker_has_space(ec_state_worker *h);

/* How long ec_state_worker_catch_up waits, at most for its wait_ns. */
enum ec_state_wait {
    EC_WAIT_FOLDED, /* until all is folded */
    EC_WAIT_ROUND,  /* until all is folded, or one of the daemon's rounds has looked at all that is stored now */
};

/* For queries: makes sure that what is stored now of host (NULL: of all) is folded, and that no tables of an older
 * version are left. Folds it itself when no other process or thread does, otherwise waits up to wait_ns for the folding
 * thread or process. *ret_backlog: batches that are stored and not folded yet. A folder without write permission is no
 * error: then nothing is folded. */
EA_MUST_CHECK int ec_state_worker_catch_up(const char *dir, const char *host, enum ec_state_wait wait, int64_t wait_ns,
                                           uint64_t *ret_backlog, ea_err *err);

/* 1 when all that is stored now of host (NULL: of all) is folded. A store that has nothing of the host: 0. */
int ec_state_worker_is_caught_up(const char *dir, const char *host);

/* The daemon's: a thread that folds what arrives, in rounds. keep_going and on_gap of the options are not used. */
typedef struct ec_state_worker_worker ec_state_worker_worker;
EA_MUST_CHECK int ec_state_worker_start(ec_state_worker_worker **ret, const char *dir,
                                        const ec_state_worker_options *options, ea_err *err);
/* Something was stored: fold soon. Any thread; cheap. */
void ec_state_worker_wake(ec_state_worker_worker *w);
/* The disk that was full has space again: what failed for that is tried now. Any thread; cheap. */
void ec_state_worker_retry(ec_state_worker_worker *w);
/* 1 when a keyframe should be asked for: this stream's state has had a gap since its last whole keyframe, or its
 * beginning was not seen; at most once in ten seconds. Of more than 1,024 such streams the first are forgotten, until
 * they have another gap. Any thread; cheap. */
int ec_state_worker_wants_keyframe(ec_state_worker_worker *w, const char *host, const uint8_t *stream);
/* Finishes the batch at hand, commits, ends the thread. NULL is allowed. */
void ec_state_worker_stop(ec_state_worker_worker *w);

#endif
