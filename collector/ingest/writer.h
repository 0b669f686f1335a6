/* Group commit: one thread appends the batches of all uploads that wait, makes them durable with one fdatasync, and
 * only then has them answered. Before it: server.c, whose threads push uploads. After it: collector/store. Thread: its
 * own; ec_writer_push any. */
#ifndef EC_INGEST_WRITER_H
#define EC_INGEST_WRITER_H

#include "quota.h"
#include "retain.h"
#include "store.h"

typedef struct ec_writer ec_writer;

/* One request's batches on their way to the store. The one who pushes it owns it; the writer only fills in the answer.
 */
typedef struct ec_upload {
    struct ec_upload *next; /* the writer's, then whoever's list it is in */
    char agent[256];
    char run[33], peer[64]; /* what the agent calls its run ("": nothing), its address */
    uint64_t connection;    /* a number of its own for each */
    const uint8_t *data;    /* the body; its framing was checked by ec_upload_check */
    size_t len_bytes;
    uint8_t stream[EA_STREAM_ID_BYTES];
    size_t batch_count;
    uint64_t event_count; /* that its batches claim */
    uint64_t turn;        /* the writer's: uploads of one agent have one turn after the other */

    int status; /* HTTP status of the answer; 200 with an Ack in answer, else a sentence */
    ea_text answer;
    unsigned retry_after_s; /* 0: no such header */
} ec_upload;

typedef struct ec_writer_options {
    ec_store *store; /* borrowed; used by the writer's thread alone from start to stop */
    ea_counters *counters;
    ec_quota *quota;                            /* may be NULL */
    struct ec_log *log;                         /* may be NULL */
    size_t max_waiting_uploads;                 /* 0: 4096 */
    uint64_t max_waiting_bytes;                 /* 0: 256 MiB; what an answer's credit is cut from */
    uint64_t max_body_bytes;                    /* most that one upload holds: an answer's credit never goes above it */
    void (*done)(void *arg, ec_upload *upload); /* called on the writer's thread when the answer is ready */
    void *done_arg;
    void (*on_stored)(void *arg); /* new batches are durable; writer's thread, must not block; may be NULL */
    /* 1 when the state of this stream has a gap that a keyframe would mend; any thread, must not block; may be NULL */
    int (*wants_keyframe)(void *arg, const char *agent, const uint8_t *stream);
    void *on_stored_arg; /* of both */
    ec_retention retention;
    int64_t retain_every_ns; /* how often the store is looked at; 0: 1 min */
    uint64_t cpu_percent;    /* of one processor, for the process: beyond it uploads wait; 0: no bound */
} ec_writer_options;

/* Walks a body: every frame must hold a batch whose envelope reads, all of one stream. Fills stream, batch_count
 * and event_count.
 * EA_ECORRUPT, EA_EFORMAT, EA_ELIMIT; EA_ENOMEM and EA_ECRYPTO say nothing of the body. Any thread. */
EA_MUST_CHECK int ec_upload_check(ec_upload *upload, ea_err *err);

EA_MUST_CHECK int ec_writer_start(ec_writer **ret, const ec_writer_options *options, ea_err *err);
/* Queues it: done() follows. EA_EFULL when too much waits, EA_ECANCELED when the writer is stopping: no done() then. */
EA_MUST_CHECK int ec_writer_push(ec_writer *w, ec_upload *upload);
/* 1 while the last commit failed. Any thread. */
int ec_writer_is_failing(ec_writer *w);
/* Limits from now on. Any thread. */
void ec_writer_set_retention(ec_writer *w, const ec_retention *limits);
/* Stores and answers what waits, then ends the thread; pushes are refused from then on. */
void ec_writer_stop(ec_writer *w);
void ec_writer_destroy(ec_writer *w); /* NULL is allowed */

#endif
