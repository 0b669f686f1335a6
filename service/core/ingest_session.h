/* A feed: one session's way from its source into the spool, with the ledger of its events: opening, running, ending.
 * Called by: "etwagent replay", the agent. Calls: service/source, pipeline.h. Thread: as each function says. */
#ifndef EA_CORE_INGEST_SESSION_H
#define EA_CORE_INGEST_SESSION_H

#include "proto/etl/etl.h"
#include "service/core/batching.h"
#include "service/core/pipeline.h"
#include "service/core/remote.h"
#include "service/core/triggers.h"
#include "service/source/source.h"

#include <stdatomic.h>

typedef struct ea_ingest_session_options {
    const char *const *paths; /* .etl files of one machine; borrowed until it is closed */
    size_t path_count;
    const char *name;      /* of the session, in messages; borrowed; NULL: a replay */
    ea_source *source;     /* in place of files: taken, whatever becomes of the feed */
    const uint8_t *stream; /* its stream's name, EA_STREAM_ID_BYTES; copied */
    int64_t delay_ns;      /* its batches are closed after so long at the latest */
    int64_t keyframe_ns;   /* where batching says none: a keyframe after so much of its events' time; 0: none */
    double speed;          /* times real time; 0: as fast as it goes */
    int follow;            /* the files are still being written */
    int live;              /* as ea_pipeline_options has it */
    int remember;          /* when all is shipped its record stays in the spool: the next time nothing is sent again */
    uint32_t priority;
    const ea_batching_options *batching; /* copied */
    const ea_tables *filters;            /* ea_filter_config; borrowed until it is attached; NULL: none */
    const ea_tables *watches;            /* ea_watch_config; borrowed; NULL: none */
    ea_spool *recorder;                  /* where its events go in place of the spool, a recorder; borrowed; NULL */
    int64_t recorder_age_ns;             /* how long that keeps them; 0: as its size allows */
    ea_remote *remote;                   /* whose requests the recorder answers; borrowed; NULL: none */
    ea_schemas *schemas;                 /* borrowed; NULL: those that the records bring along only */
    const ea_schema_lookup *ask;         /* as ea_pipeline_options has it; borrowed until it is attached */
    ea_counters *counters;               /* borrowed: of this session */
    void (*on_damage)(const ea_etl_damage *damage, void *arg);
    void *on_damage_arg;
} ea_ingest_session_options;

typedef struct ea_ingest_session {
    ea_source *source;
    ea_ledger *ledger;
    ea_pipeline *pipeline; /* once it is attached */
    ea_spool *spool;
    uint8_t recording[EA_STREAM_ID_BYTES]; /* the stream in the recorder, at the start as well */
    uint8_t stream[EA_STREAM_ID_BYTES];    /* its name at the start; ea_pipeline_stream has the one now */
    uint64_t trace_bytes;
    atomic_uint progress_permille; /* of the source; any thread */
    ea_ingest_session_options o;
    ea_batching_options batching;
    ea_event_filters *filters; /* NULL: none */
    ea_watches *watches;       /* NULL: none */
    ea_triggers *triggers;     /* NULL: none */
    uint8_t *dictionary;       /* NULL: none */
    size_t dictionary_bytes;
    int64_t flushed_ns;                        /* monotonic; the source's thread */
    char unsaved[sizeof((ea_err){0}).message]; /* why its position could not be saved last; the source's thread */
    int is_over;  /* the source came to its end; from then on of the thread that calls ea_ingest_session_end */
    int is_ended; /* the stream's closing batch is in the spool */
} ea_ingest_session;

/* Opens the files, or takes the source. On failure nothing is to be closed. */
EA_MUST_CHECK int ea_ingest_session_open(ea_ingest_session **ret, const ea_ingest_session_options *options,
                                         ea_err *err);
/* Opens its stream in the spool (see ea_spool_stream for target) and starts the encoders. The spool is borrowed. */
EA_MUST_CHECK int ea_ingest_session_attach(ea_ingest_session *f, ea_spool *spool, uint64_t target, ea_err *err);
/* Feeds until the source ends and all of it is in the spool. EA_ECANCELED after ea_ingest_session_stop. The source's
 * thread. */
EA_MUST_CHECK int ea_ingest_session_run(ea_ingest_session *f, ea_err *err);
/* After ea_ingest_session_run: makes the stream's closing batch (ea_pipeline_end) once all of its events are
 * acknowledged, or gone; at_once: does not wait for that. 1: they are in the spool, 0: not yet. One thread. */
EA_MUST_CHECK int ea_ingest_session_end(ea_ingest_session *f, int at_once, ea_err *err);
/* Ends ea_ingest_session_run soon; of files, what is in no batch yet is read again the next time. Any thread. */
void ea_ingest_session_stop(ea_ingest_session *f);
/* Ends the encoders, closes the stream and frees the session, before the spool is closed. NULL is allowed. */
void ea_ingest_session_close(ea_ingest_session *f);

#endif
