/* Stored batches in the order of their arrival, from a place on, and how many events are before and after a place. The
 * index is read a page at a time, and no transaction stays open, so that a sink that waits for its receiver holds up
 * neither ingest nor retention. Called by: sink.c, the commands sink .... Calls: collector/store. Thread: one ec_outbox
 * belongs to one thread. */
#ifndef EC_SINK_OUTBOX_H
#define EC_SINK_OUTBOX_H

#include "collector/state/sink_places.h"
#include "collector/store/store.h"

typedef struct ec_outbox ec_outbox;

typedef struct ec_outbox_batch {
    ec_batch_row row;
    uint32_t kind; /* enum ea_batch_kind */
    int64_t received_utc_ns;
    char host[256], stream[2 * EA_STREAM_ID_BYTES + 1];
    uint8_t stream_id[EA_STREAM_ID_BYTES];
} ec_outbox_batch;

/* Opens the store for reading. */
EA_MUST_CHECK int ec_outbox_open(ec_outbox **ret, const char *dir, ea_err *err);
void ec_outbox_close(ec_outbox *o); /* NULL is allowed */
ec_store *ec_outbox_store(ec_outbox *o);

/* The first batch at or after a place (position aside), of this host alone when it is not NULL: 1; 0 when there is none
 * now. */
EA_MUST_CHECK int ec_outbox_next(ec_outbox *o, const ec_sink_place *place, const char *host, ec_outbox_batch *ret,
                                 ea_err *err);
/* Whether a batch that was given is still in the store: 1, 0, or an error. */
EA_MUST_CHECK int ec_outbox_has(ec_outbox *o, const ec_outbox_batch *batch, ea_err *err);
/* The place after all that is stored. */
EA_MUST_CHECK int ec_outbox_end(ec_outbox *o, ec_sink_place *ret, ea_err *err);
/* The place of the first batch that was received at or after a time. */
EA_MUST_CHECK int ec_outbox_at(ec_outbox *o, int64_t received_utc_ns, ec_sink_place *ret, ea_err *err);

/* A run of an agent, as the store has it at one moment. */
typedef struct ec_outbox_stream {
    const char *host, *stream; /* borrowed for the call */
    uint64_t event_count;      /* ever stored */
    /* from the place on; of a batch that was begun what is left */
    uint64_t waiting_batches, waiting_events, waiting_bytes;
    int64_t waiting_since_utc_ns; /* received; INT64_MAX: nothing waits */
} ec_outbox_stream;

/* The place of all agents but those with one of their own. */
typedef struct ec_outbox_places {
    ec_sink_place place;
    const ec_sink_apart *apart; /* borrowed; NULL: none */
    size_t apart_count;
} ec_outbox_places;

/* Each run that the store has or had; fn returns non-zero to stop, which is returned. */
EA_MUST_CHECK int ec_outbox_measure(ec_outbox *o, const ec_outbox_places *places,
                                    int (*fn)(const ec_outbox_stream *s, void *arg), void *arg, ea_err *err);

/* Compares the counts of a sink with the store: events that are neither counted nor waiting were removed from the
 * store, or skipped, and are counted so. EC_SINK_FATE_COUNT: they become none of the sink's, as where
 * its place was moved back. Of a sink that is new that is so at any rate. on_removed: called for each run of which
 * events were removed since; may be NULL. The caller has begun a transaction of sinks. */
typedef struct ec_outbox_audit {
    ec_outbox *outbox;
    ec_sinks *sinks;
    const char *sink;
    ec_outbox_places places;
    enum ec_sink_fate fate;
    int is_new;
    void (*on_removed)(void *arg, const char *host, const char *stream, uint64_t events);
    void *arg;
} ec_outbox_audit;

EA_MUST_CHECK int ec_outbox_run_audit(const ec_outbox_audit *a, ea_err *err);

#endif
