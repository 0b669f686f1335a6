/* Group commit: one thread appends the batches of all uploads that wait, makes them durable with one fdatasync, and
 * only then has them answered. Called by: verifier.c, whose threads push what they have verified. Calls:
 * collector/store. Thread: its own; ec_writer_push any. */
#ifndef EC_INGEST_WRITER_H
#define EC_INGEST_WRITER_H

#include "collector/ingest/turns.h"
#include "collector/net/quota.h"
#include "collector/store/retention.h"

typedef struct ec_writer ec_writer;

typedef struct ec_writer_options {
    ec_store *store; /* borrowed; used by the writer's thread alone from start to stop */
    ea_counters *counters;
    ec_quota *quota;                     /* may be NULL */
    struct ec_log *log;                  /* may be NULL */
    size_t max_waiting_uploads;          /* 0: 4096 */
    uint64_t max_waiting_bytes;          /* 0: 256 MiB; what an answer's credit is cut from */
    uint64_t max_body_bytes;             /* most that one upload holds: an answer's credit never goes above it */
    uint64_t (*also_waiting)(void *arg); /* bytes that wait elsewhere, for the credit; any thread; may be NULL */
    void (*on_used)(void *arg, const char *agent, int64_t cpu_ns); /* what a batch took; may be NULL */
    void (*done)(void *arg, ec_upload *upload); /* called on the writer's thread when the answer is ready */
    void *done_arg;                             /* of both */
    void (*on_stored)(void *arg); /* new batches are durable; writer's thread, must not block; may be NULL */
    void (*on_space)(void *arg);  /* the disk was full and has space again; likewise, before on_stored */
    /* 1 when the state of this stream has a gap that a keyframe would mend; any thread, must not block; may be NULL */
    int (*wants_keyframe)(void *arg, const char *agent, const uint8_t *stream);
    void *on_stored_arg; /* of these three */
    ec_retention retention;
    int64_t retain_every_ns; /* how often the store is looked at; 0: 1 min */
    uint64_t cpu_percent;    /* of one processor, for the process: beyond it uploads wait; 0: no bound */
} ec_writer_options;

EA_MUST_CHECK int ec_writer_start(ec_writer **ret, const ec_writer_options *options, ea_err *err);
/* Queues an upload that ec_upload_check_next passed: done() follows. EA_EFULL when too much waits, EA_ECANCELED when
 * the writer is stopping: no done() then. */
EA_MUST_CHECK int ec_writer_push(ec_writer *w, ec_upload *upload);
/* 1 while the last commit failed. Any thread. */
int ec_writer_is_failing(ec_writer *w);
/* While the disk of the store is full: the seconds after which an agent may send again; else 0. Any thread. */
unsigned ec_writer_refuses_s(ec_writer *w);
/* Why, for the agent. Any thread. */
const char *ec_writer_refusal(const ec_writer *w);
/* Limits from now on. Any thread. */
void ec_writer_set_retention(ec_writer *w, const ec_retention *limits);
/* Stores and answers what waits, then ends the thread; pushes are refused from then on. */
void ec_writer_stop(ec_writer *w);
void ec_writer_destroy(ec_writer *w); /* NULL is allowed */

#endif
