/* What others say to a pipeline while it works. See pipeline.h. */
#include "service/core/pipeline_parts.h"
#include "service/spool/recorder.h"

#include <string.h>

int ea_pipeline_set_labels(ea_pipeline *p, const ea_labels *labels, ea_err *err) {
    return ea_builder_set_labels(p->builder, labels, err);
}

static int pipeline_has_stream(ea_pipeline *p, const uint8_t *stream) {
    return memcmp(p->stream, stream, sizeof p->stream) == 0;
}

void ea_pipeline_known(ea_pipeline *p, const uint8_t *stream, const uint8_t *hash) {
    ea_mutex_lock(p->lock);
    for (unsigned i = 0; pipeline_has_stream(p, stream) && i < p->worker_count; i++)
        ea_encoder_known(p->workers[i].encoder, hash);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_unknown(ea_pipeline *p, const uint8_t *stream, const ea_hash_ref *ref) {
    ea_mutex_lock(p->lock);
    for (unsigned i = 0; pipeline_has_stream(p, stream) && i < p->worker_count; i++)
        ea_encoder_unknown(p->workers[i].encoder, ref);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_stream(const ea_pipeline *p, uint8_t *ret) {
    ea_mutex_lock(p->lock);
    memcpy(ret, p->stream, sizeof p->stream);
    ea_mutex_unlock(p->lock);
}

void ea_pipeline_want_keyframe(ea_pipeline *p) {
    atomic_store(&p->keyframe_wanted, 1);
}

/* What is recorded goes on under the name that follows from the stream's new one: a later process finds it by that.
 * With turn, and no batch in an encoder's hands. */
static int pipeline_renew_recording(ea_pipeline *p, ea_err *err) {
    uint8_t fresh[EA_STREAM_ID_BYTES];
    ea_mutex_assert_held(p->turn);
    if (!p->o.recorder)
        return 0;
    ea_recorder_stream(p->stream, fresh);
    int rc = ea_spool_renew(p->o.recorder, p->recording, fresh, &p->recorded_number, err);
    if (rc)
        return rc;
    memcpy(p->recording, fresh, sizeof p->recording);
    atomic_store(&p->batches, p->number + p->recorded_number);
    for (unsigned i = 0; !rc && i < p->worker_count; i++)
        rc = ea_pipeline_make_recording(p, &p->workers[i], err);
    return rc;
}

int ea_pipeline_renew(ea_pipeline *p, ea_err *err) {
    uint8_t fresh[EA_STREAM_ID_BYTES];
    uint64_t count = 0;
    if (!p->o.live)
        return ea_fail(err, EA_ECONFLICT, "a replay's stream keeps its name");
    int rc = ea_random_bytes(fresh, sizeof fresh, err);
    if (rc)
        return rc;
    ea_mutex_lock(p->turn); /* no batch is closed meanwhile; those that are come into the spool, which never waits */
    ea_mutex_lock(p->lock);
    while (p->count || p->busy)
        ea_cond_wait(p->changed, p->lock);
    rc = ea_spool_renew(p->o.spool, p->stream, fresh, &count, err);
    if (!rc) {
        memcpy(p->stream, fresh, sizeof p->stream);
        p->number = count;
        p->incarnation = (uint64_t)ea_utc_ns();
        ea_pipeline_rebase(p);
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_streams_renewed, 1}, 1, NULL, 0);
        atomic_store(&p->keyframe_wanted, 1);
        atomic_store(&p->batches, count + p->recorded_number);
        if (!p->ended)
            rc = ea_pipeline_save_ledger(p, err);
    }
    for (unsigned i = 0; !rc && i < p->worker_count; i++)
        rc = ea_pipeline_make_encoder(p, &p->workers[i], err);
    if (!rc)
        rc = pipeline_renew_recording(p, err);
    int finished = p->finished;
    ea_mutex_unlock(p->lock);
    ea_mutex_unlock(p->turn);
    return !rc && finished && p->events_since_keyframe ? ea_pipeline_write_keyframe(p, err)
                                                       : rc; /* no event will bring it along */
}

void ea_pipeline_get_status(const ea_pipeline *p, ea_pipeline_status *ret) {
    *ret = (ea_pipeline_status){.events = atomic_load(&p->events),
                                .batches = atomic_load(&p->batches),
                                .keyframes = atomic_load(&p->keyframes),
                                .encoded_events = atomic_load(&p->encoded_events),
                                .encoded_batches = atomic_load(&p->encoded_batches),
                                .encoded_bytes = atomic_load(&p->encoded_bytes),
                                .kept_batches = atomic_load(&p->kept_batches)};
}
