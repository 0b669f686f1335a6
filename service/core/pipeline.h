/* Carries a session's records from its source to the spool.
 *
 *     source's thread: class look-up, open batch ──ring of closed batches──▶ encoder threads ──▶ spool ──▶ sender
 *
 * The source's thread numbers the batches, takes the ledger's snapshot of each, and blocks when all spare batches are
 * in use by the encoders, which block when the spool is full: a file loses no events. Called by: ingest_session.h.
 * Calls: service/batch, service/spool. Thread: as each function says. */
#ifndef EA_CORE_PIPELINE_H
#define EA_CORE_PIPELINE_H

#include "proto/base/record.h"
#include "proto/event/schemas.h"
#include "service/batch/builder.h"
#include "service/core/filter.h"
#include "service/core/watch_results.h"
#include "service/decode/schema_resolver.h"
#include "service/spool/spool.h"

typedef struct ea_pipeline ea_pipeline;

enum { EA_PIPELINE_ENCODERS_MAX = 16 };

#define EA_PIPELINE_NEWS_NS INT64_C(10000000000)

typedef struct ea_pipeline_options {
    const uint8_t *stream;              /* EA_STREAM_ID_BYTES, opened in the spool; copied; see ea_pipeline_renew */
    uint32_t batch_events, batch_bytes; /* 0: the builder's */
    uint32_t priority;
    int zstd_level;            /* 0: 1 */
    const uint8_t *dictionary; /* for small batches; borrowed; NULL: none */
    size_t dictionary_bytes;
    int is_numbered;               /* records' positions are their numbers of arrival, and travel */
    unsigned encoders;             /* threads; 0: 1 */
    const ea_wire_source *sources; /* copied */
    size_t source_count;
    uint64_t keyframe_events; /* a keyframe after so many events; 0: not by count */
    size_t keyframe_bytes;    /* limit of the memory for the tables of keyframes; 0: 64 MiB */
    int64_t keyframe_ns; /* and after this much event time, the first one a second after the first event (if live and
                            numbered: 15 s, when the rundown of existing objects is complete; and none while there is
                            nothing to state); 0: not by time */
    /* 1: a session that continues and cannot be read again: its stream gets a new name when a collector has its
     * numbers, keyframes are written on request, and the spool evicts its batches when it is full. 0: a replay, which
     * makes the same batches again whenever it is resumed. */
    int live;
    ea_schemas *schemas;         /* borrowed; NULL: those that the records bring along only */
    const ea_schema_lookup *ask; /* resolves schemas of other events; copied; NULL: none */
    ea_event_filters *filters;   /* borrowed; NULL: all events go on */
    ea_watches *watches;         /* borrowed; NULL: no programs run on the events */
    ea_spool *spool;             /* borrowed */
    /* Where batches with events go in place of the spool: a recorder; borrowed; NULL: into the spool. Live only. Then
     * the spool has the stream's numbers alone, in batches without events, at most one in EA_PIPELINE_NEWS_NS. */
    ea_spool *recorder;
    const uint8_t *recording; /* its stream, opened in the recorder; copied */
    ea_ledger *ledger;        /* borrowed */
} ea_pipeline_options;

/* Starts the encoder threads. */
EA_MUST_CHECK int ea_pipeline_create(ea_pipeline **ret, const ea_pipeline_options *options, ea_err *err);
/* Ends them; batches that are not in the spool by then are lost. NULL is allowed. */
void ea_pipeline_destroy(ea_pipeline *p);

/* Adds a record; may block. Fails when an encoder or the spool failed (EA_ECANCELED after ea_spool_cancel). The
 * source's thread. */
EA_MUST_CHECK int ea_pipeline_add(ea_pipeline *p, const ea_record *record, ea_err *err);
/* No record has come for some milliseconds. Live only. The source's thread. */
EA_MUST_CHECK int ea_pipeline_idle(ea_pipeline *p, ea_err *err);
/* Closes the open batch, if it holds anything, so that it does not wait for events that fill it; without it, what was
 * counted since the last one goes out in a batch that holds nothing else. Live only: a replay's
 * batches end where the events alone say. The source's thread. */
EA_MUST_CHECK int ea_pipeline_flush(ea_pipeline *p, ea_err *err);
/* Closes the open batch and waits until all batches are in the spool, or evicted there; events may be added after it.
 * Live only. The source's thread. */
EA_MUST_CHECK int ea_pipeline_store(ea_pipeline *p, ea_err *err);
/* Notes events that the source dropped before they came here. The source's thread. */
void ea_pipeline_note_dropped(ea_pipeline *p, const ea_record *kind, uint64_t count, enum ea_counter cause);
/* Closes the open batch (live: and one with the ledger if there are new counts) and waits until all are in the spool.
 * The source's thread; no event may be added after it. */
EA_MUST_CHECK int ea_pipeline_finish(ea_pipeline *p, ea_err *err);

/* Makes the stream's closing batch, after ea_pipeline_finish: a batch without events, whose ledger has the counter
 * stream_ended. Called when all of its events are acknowledged (or when that is not waited for any more), so that the
 * last numbers are final: the batch holds no event that they would have to count. Waits until it is in the spool. The
 * source's thread, or whose it was. */
EA_MUST_CHECK int ea_pipeline_end(ea_pipeline *p, ea_err *err);

/* What the machine is called, from the next batch on; copied. EA_ENOMEM: it stays as it is. Any thread. */
EA_MUST_CHECK int ea_pipeline_set_labels(ea_pipeline *p, const ea_labels *labels, ea_err *err);

/* How times of a source become UTC, from the next event on: closes the open batch, for a batch has one clock of each
 * source. Of a live source only: a replay must find the same batches again. The source's thread. EA_ENOMEM: it stays as
 * it is. */
EA_MUST_CHECK int ea_pipeline_set_clock(ea_pipeline *p, size_t source, const ea_clock *clock, ea_err *err);

/* What a collector said about a definition; nothing happens when it is about another stream. Any thread. */
void ea_pipeline_known(ea_pipeline *p, const uint8_t *stream, const uint8_t *hash);
void ea_pipeline_unknown(ea_pipeline *p, const uint8_t *stream, const ea_hash_ref *ref);

/* The collector has other content under the stream's numbers: the stream goes on under a new, random name, with all
 * that has not been acknowledged, a keyframe, and a ledger that begins anew. Live only; the sender's thread, while it
 * holds nothing of the spool. */
EA_MUST_CHECK int ea_pipeline_renew(ea_pipeline *p, ea_err *err);
/* The stream's name now. Any thread. */
void ea_pipeline_stream(const ea_pipeline *p, uint8_t *ret);
/* A collector wants a keyframe. A live pipeline writes one with the next event, at most one in ten seconds. Any thread.
 */
void ea_pipeline_want_keyframe(ea_pipeline *p);

typedef struct ea_pipeline_status {
    uint64_t events;  /* added */
    uint64_t batches; /* closed */
    uint64_t keyframes;
    uint64_t encoded_events, encoded_batches, encoded_bytes;
    uint64_t kept_batches; /* found in the spool or acknowledged since an earlier run: not encoded again */
} ea_pipeline_status;

void ea_pipeline_get_status(const ea_pipeline *p, ea_pipeline_status *ret); /* any thread */

#endif
