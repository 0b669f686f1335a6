/* Making and freeing a pipeline. See pipeline.h. */
#include "service/core/pipeline_parts.h"

#include <stdlib.h>
#include <string.h>

enum { KEYFRAME_BYTES = 64 << 20 }; /* of the tables of keyframes */

int ea_pipeline_make_encoder(ea_pipeline *p, ea_pipeline_worker *w, ea_err *err) {
    ea_encoder *fresh;
    ea_encoder_options e = {.zstd_level = p->o.zstd_level,
                            .dictionary = p->o.dictionary,
                            .dictionary_bytes = p->o.dictionary_bytes,
                            .is_numbered = p->o.is_numbered};
    memcpy(e.stream, p->stream, sizeof e.stream);
    int rc = ea_encoder_create(&fresh, &e, err);
    if (rc)
        return rc;
    ea_encoder_destroy(w->encoder);
    w->encoder = fresh;
    return 0;
}

/* In a recorder no definition is acknowledged: its batches are complete, and have no dictionary, which is not in each.
 */
int ea_pipeline_make_recording(ea_pipeline *p, ea_pipeline_worker *w, ea_err *err) {
    ea_encoder *fresh;
    ea_encoder_options e = {.zstd_level = p->o.zstd_level, .is_numbered = p->o.is_numbered};
    if (!p->o.recorder)
        return 0;
    memcpy(e.stream, p->recording, sizeof e.stream);
    int rc = ea_encoder_create(&fresh, &e, err);
    if (rc)
        return rc;
    ea_encoder_destroy(w->recording);
    w->recording = fresh;
    return 0;
}

/* What keyframes are made from. A quarter of the memory is for names. */
static int pipeline_make_tables(ea_pipeline *p, size_t limit_bytes, ea_err *err) {
    if (!limit_bytes)
        limit_bytes = KEYFRAME_BYTES;
    int rc = ea_machine_create(
        &p->machine, &(ea_machine_options){.limit_bytes = limit_bytes - limit_bytes / 4, .counters = &p->state}, err);
    return rc ? rc : ea_open_object_names_create(&p->names, limit_bytes / 4, &p->state, err);
}

int ea_pipeline_create(ea_pipeline **ret, const ea_pipeline_options *options, ea_err *err) {
    ea_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "make a pipeline");
    p->o = *options;
    memcpy(p->stream, options->stream, sizeof p->stream);
    if (options->recorder)
        memcpy(p->recording, options->recording, sizeof p->recording);
    p->incarnation = (uint64_t)ea_utc_ns();
    ea_u64_map_init(&p->states, 0);
    while (strcmp(ea_event_family_name(p->lost_family), "lost_event") != 0)
        p->lost_family++;
    unsigned n = options->encoders ? options->encoders : 1;
    if (n > EA_PIPELINE_ENCODERS_MAX)
        n = EA_PIPELINE_ENCODERS_MAX;
    p->ring_size = 2 * (size_t)n; /* each has one at hand and one that waits */
    p->ring = calloc(p->ring_size, sizeof *p->ring);
    int rc = p->ring ? ea_mutex_create(&p->lock, err) : ea_fail(err, EA_ENOMEM, "make a pipeline");
    if (!rc)
        rc = ea_cond_create(&p->changed, err);
    if (!rc)
        rc = ea_mutex_create(&p->turn, err);
    if (!rc)
        rc = ea_decoder_create(&p->decoder, options->schemas, options->ask, err);
    if (!rc)
        rc = ea_stack_meter_create(&p->stacks, err);
    if (!rc)
        rc = ea_builder_create(&p->builder,
                               &(ea_builder_options){.max_events = options->batch_events,
                                                     .max_bytes = options->batch_bytes,
                                                     .spare_batches = (uint32_t)p->ring_size,
                                                     .sources = options->sources,
                                                     .source_count = options->source_count},
                               err);
    p->keyframe_due_ns = INT64_MAX;
    if (!rc && (options->keyframe_events || options->keyframe_ns || options->live))
        rc = pipeline_make_tables(p, options->keyframe_bytes, err);
    if (!rc && p->o.filters)
        rc = ea_event_filters_use_machine(p->o.filters, p->machine, err);
    if (!rc && (p->machine || p->o.filters || p->o.watches)) {
        p->clocks = calloc(options->source_count, sizeof *p->clocks);
        if (!p->clocks)
            rc = ea_fail(err, EA_ENOMEM, "make a pipeline");
        for (size_t i = 0; !rc && i < options->source_count; i++)
            p->clocks[i] = options->sources[i].clock;
    }
    for (unsigned i = 0; !rc && i < n; i++) {
        ea_pipeline_worker *w = &p->workers[i];
        w->pipeline = p;
        rc = ea_pipeline_make_encoder(p, w, err);
        if (!rc && (rc = ea_pipeline_make_recording(p, w, err)))
            ea_encoder_destroy(w->encoder);
        if (!rc) {
            p->worker_count++;
            rc = ea_thread_start(&w->thread, "encoder", ea_pipeline_worker_main, w, err);
        }
    }
    if (!rc && p->o.watches)
        rc = ea_pipeline_start_watches(p, err);
    if (!rc && options->recorder)
        ea_ledger_post(p->o.ledger, &(ea_posting){EA_COUNT_stream_recorded, 1}, 1, NULL, 0);
    if (!rc && options->live)
        rc = ea_spool_ledger_begin(p->o.spool, p->stream, p->incarnation, p->o.priority, NULL, err);
    if (rc) {
        ea_pipeline_destroy(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ea_pipeline_destroy(ea_pipeline *p) {
    if (!p)
        return;
    if (p->changed) {
        ea_mutex_lock(p->lock);
        p->closing = 1;
        atomic_store(&p->failed, 1);
        ea_cond_broadcast(p->changed);
        ea_mutex_unlock(p->lock);
    }
    for (unsigned i = 0; i < p->worker_count; i++) {
        ea_thread_join(p->workers[i].thread);
        ea_encoder_destroy(p->workers[i].encoder);
        ea_encoder_destroy(p->workers[i].recording);
    }
    ea_machine_destroy(p->machine);
    ea_open_object_names_destroy(p->names);
    free(p->clocks);
    ea_u64_map_deinit(&p->states);
    ea_builder_destroy(p->builder);
    ea_stack_meter_destroy(p->stacks);
    ea_decoder_destroy(p->decoder);
    ea_cond_destroy(p->changed);
    ea_mutex_destroy(p->turn);
    ea_mutex_destroy(p->lock);
    free(p->ring);
    free(p);
}
