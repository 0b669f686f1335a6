/* Feeds. See ingest_session.h. */
#include "service/core/ingest_session.h"

#include "proto/base/cpu_throttle.h"
#include "proto/base/platform.h"
#include "service/core/agent_log.h"
#include "service/core/replay_stream.h"
#include "service/core/schema_options.h"
#include "service/spool/recorder.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH_BYTES = 4 << 20,
    PROGRESS_EVENTS = 4096,
    FLUSH_EVENTS = 64,
    PACE_EVENTS = 256,
    RECORDER_KEYFRAMES = 8,
};

static const int64_t TRIGGER_SLACK_NS = (int64_t)3 * 1000000000;     /* events wait for their stacks, and for a batch */
static const int64_t TRIGGER_KEYFRAME_NS = (int64_t)60 * 1000000000; /* a window begins with the keyframe before it */
static const int64_t RECORDER_KEYFRAME_NS = (int64_t)300 * 1000000000;

/* Filters and programs shape batches. */
static uint64_t shape_hash(const ea_ingest_session *f) {
    return ea_event_filters_hash(f->filters) ^ ea_watches_hash(f->watches) * UINT64_C(0x9E3779B97F4A7C15);
}

int ea_ingest_session_open(ea_ingest_session **ret, const ea_ingest_session_options *options, ea_err *err) {
    ea_ingest_session *f = calloc(1, sizeof *f);
    if (!f) {
        ea_source_close(options->source);
        return ea_fail(err, EA_ENOMEM, "open a source");
    }
    f->o = *options;
    f->batching = *options->batching;
    const ea_batching_options *b = &f->batching;
    ea_etl_options etl = {.counters = f->o.counters,
                          .on_damage = f->o.on_damage,
                          .on_damage_arg = f->o.on_damage_arg,
                          .follow = f->o.follow};
    ea_filter_problem problem;
    f->source = f->o.source;
    int rc = f->o.filters && f->o.filters->count
                 ? ea_event_filters_create(&f->filters, f->o.filters, f->o.schemas, 1, &problem, err)
                 : 0;
    ea_watch_problem mistake;
    if (!rc && f->o.watches && f->o.watches->count)
        rc = ea_watches_create(&f->watches, f->o.watches, f->o.recorder != NULL, f->o.schemas, &mistake, err);
    if (rc) {
        ea_ingest_session_close(f);
        return rc;
    }
    if (f->o.source) {
        memcpy(f->stream, f->o.stream, sizeof f->stream);
    } else {
        rc = ea_replay_stream_id(f->o.paths, f->o.path_count, (uint32_t)b->batch_events, BATCH_BYTES,
                                 b->keyframe_events, b->keyframe_ns, b->keyframe_bytes, f->o.follow,
                                 ea_schema_options_hash(f->o.schemas), shape_hash(f), f->stream, &f->trace_bytes, err);
        if (!rc && f->o.live)
            rc = ea_random_bytes(f->stream, sizeof f->stream, err);
        if (!rc)
            rc = ea_source_open_files(&f->source, f->o.paths, f->o.path_count, f->o.speed, &etl, err);
    }
    if (!rc)
        rc = ea_ledger_create(&f->ledger, f->o.counters, err);
    if (!rc)
        rc = ea_batching_dictionary(b, &f->dictionary, &f->dictionary_bytes, err);
    if (rc) {
        ea_ingest_session_close(f);
        return rc;
    }
    *ret = f;
    return 0;
}

static int open_recording(ea_ingest_session *f, ea_err *err) {
    ea_recorder_stream(f->stream, f->recording);
    return ea_spool_stream(f->o.recorder, f->recording, 0, 0, f->ledger, err);
}

/* stream: the session's name now, from which the recording's follows. */
static void close_recording(ea_ingest_session *f, const uint8_t *stream) {
    if (!f->o.recorder)
        return;
    ea_recorder_stream(stream, f->recording);
    ea_spool_stream_end(f->o.recorder, f->recording, 0);
    ea_spool_detach(f->o.recorder, f->ledger);
}

/* ---- triggers ---- */

static void session_trigger_fired(void *arg, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                                  int64_t row_utc_ns) {
    ea_ingest_session *f = arg;
    ea_triggers_fire(f->triggers, program, trigger, utc_ns, row_utc_ns);
}

static void session_note_fired(void *arg, const char *program, const char *trigger, int64_t utc_ns) {
    ea_ingest_session *f = arg;
    ea_watches_fired(f->watches, program, trigger, utc_ns);
}

static const char *session_name(const ea_ingest_session *f) {
    return f->o.name ? f->o.name : "replay";
}

/* Before the programs begin. */
static int open_triggers(ea_ingest_session *f, ea_err *err) {
    int has_any = f->watches && ea_watches_have_triggers(f->watches);
    if (!f->o.recorder || (!has_any && !f->o.remote && !ea_triggers_left(f->o.recorder)))
        return 0;
    int rc = ea_triggers_create(&f->triggers,
                                &(ea_triggers_options){.name = session_name(f),
                                                       .spool = f->spool,
                                                       .recorder = f->o.recorder,
                                                       .ledger = f->ledger,
                                                       .priority = f->o.priority,
                                                       .slack_ns = f->o.delay_ns + TRIGGER_SLACK_NS,
                                                       .on_requested = ea_remote_on_requested,
                                                       .arg = f->o.remote},
                                err);
    if (!rc && f->o.remote)
        ea_remote_attach(f->o.remote, session_name(f), f->triggers);
    if (!rc && has_any)
        ea_watches_on_trigger(f->watches, session_trigger_fired, f);
    return rc;
}

/* A recorder keeps a keyframe before nearly all of what it has. */
static int64_t keyframe_interval(const ea_ingest_session *f) {
    int64_t given = f->batching.keyframe_ns ? f->batching.keyframe_ns : f->o.keyframe_ns, most = RECORDER_KEYFRAME_NS;
    if (!f->o.recorder)
        return given;
    if (f->watches && ea_watches_have_triggers(f->watches))
        most = TRIGGER_KEYFRAME_NS;
    if (f->o.recorder_age_ns && f->o.recorder_age_ns / RECORDER_KEYFRAMES < most)
        most = f->o.recorder_age_ns / RECORDER_KEYFRAMES;
    return given && given < most ? given : most;
}

int ea_ingest_session_attach(ea_ingest_session *f, ea_spool *spool, uint64_t target, ea_err *err) {
    f->spool = spool;
    size_t count = ea_source_count(f->source);
    ea_wire_source *rows = calloc(count + !count, sizeof *rows);
    if (!rows)
        return ea_fail(err, EA_ENOMEM, "open a source");
    for (size_t i = 0; i < count; i++) {
        rows[i] = *ea_source_row(f->source, i);
        rows[i].agent_version = EA_VERSION;
    }
    int rc = ea_spool_stream(spool, f->stream, !f->o.live, target, f->ledger, err);
    if (!rc && f->o.recorder && (rc = open_recording(f, err)))
        ea_spool_stream_end(spool, f->stream, 0);
    if (!rc && (rc = open_triggers(f, err))) {
        ea_spool_stream_end(spool, f->stream, 0);
        ea_spool_detach(spool, f->ledger);
        close_recording(f, f->stream);
    }
    if (!rc) {
        rc = ea_pipeline_create(&f->pipeline,
                                &(ea_pipeline_options){.stream = f->stream,
                                                       .batch_events = (uint32_t)f->batching.batch_events,
                                                       .batch_bytes = BATCH_BYTES,
                                                       .priority = f->o.priority,
                                                       .zstd_level = (int)f->batching.level,
                                                       .dictionary = f->dictionary,
                                                       .dictionary_bytes = f->dictionary_bytes,
                                                       .encoders = (unsigned)f->batching.threads,
                                                       .sources = rows,
                                                       .source_count = count,
                                                       .keyframe_events = f->batching.keyframe_events,
                                                       .keyframe_ns = keyframe_interval(f),
                                                       .keyframe_bytes = (size_t)f->batching.keyframe_bytes,
                                                       .live = f->o.live,
                                                       .is_numbered = f->o.source != NULL,
                                                       .schemas = f->o.schemas,
                                                       .ask = f->o.ask,
                                                       .filters = f->filters,
                                                       .watches = f->watches,
                                                       .spool = spool,
                                                       .recorder = f->o.recorder,
                                                       .recording = f->recording,
                                                       .ledger = f->ledger},
                                err);
        if (rc) {
            ea_spool_stream_end(spool, f->stream, 0);
            ea_spool_detach(spool, f->ledger);
            close_recording(f, f->stream);
        }
    }
    free(rows);
    if (!rc && f->triggers && f->watches)
        ea_triggers_each_fired(f->triggers, session_note_fired, f);
    return rc;
}

/* What the source had to drop, into the ledger. */
static void take_dropped(ea_ingest_session *f) {
    ea_dropped d;
    while (ea_source_dropped(f->source, &d))
        ea_pipeline_note_dropped(f->pipeline, &d.kind, d.count,
                                 d.is_oversize ? EA_COUNT_events_dropped_oversize : EA_COUNT_events_dropped_full);
}

static int follow_clock(ea_ingest_session *f, ea_err *err) {
    size_t source;
    ea_clock clock;
    return ea_source_clock(f->source, &source, &clock) ? ea_pipeline_set_clock(f->pipeline, source, &clock, err) : 0;
}

/* Of a live session: closes the open batch when it has waited long enough. Between two batches is the place for a
 * change of its clock. */
static int flush_if_due(ea_ingest_session *f, ea_err *err) {
    int64_t now = ea_monotonic_ns();
    if (!f->o.source || now - f->flushed_ns < f->o.delay_ns)
        return 0;
    f->flushed_ns = now;
    take_dropped(f);
    int rc = f->o.recorder ? ea_spool_error(f->o.recorder, err) : 0;
    if (!rc)
        rc = ea_pipeline_flush(f->pipeline, err);
    return rc ? rc : follow_clock(f, err);
}

/* Of a source that saves its position: makes all that it returned durable, and has it save that. When that fails, the
 * session goes on, and the next save has the position: until then a restart reads the same events again. */
static int store_if_ahead(ea_ingest_session *f, int at_end, ea_err *err) {
    ea_err why = {0};
    if (!ea_source_is_ahead(f->source, at_end))
        return 0;
    int rc = at_end ? 0 : ea_pipeline_store(f->pipeline, err); /* at the end all of it is in the spool */
    if (rc)
        return rc;
    if (ea_spool_sync(f->spool, &why) || ea_source_stored(f->source, &why)) {
        if (strcmp(f->unsaved, why.message) != 0)
            ea_log_warning("the position of a source is not saved: %s", why.message);
        memcpy(f->unsaved, why.message, sizeof f->unsaved);
    } else {
        f->unsaved[0] = 0;
    }
    return 0;
}

int ea_ingest_session_run(ea_ingest_session *f, ea_err *err) {
    const ea_record *record;
    unsigned n = 0;
    ea_cpu_throttle pace = {.percent =
                                f->o.source ? 0 : f->batching.cpu_percent}; /* of files: a session does not wait */
    int rc;
    while ((rc = ea_source_next(f->source, &record, err)) > 0) {
        if (n % PACE_EVENTS == 0)
            (void)ea_cpu_throttle_wait(&pace, f->o.counters, EA_COUNT_source_paced_seconds);
        int is_record = rc != EA_SOURCE_NOTHING_YET;
        if (is_record && (rc = ea_pipeline_add(f->pipeline, record, err)))
            break;
        if (!is_record && (rc = ea_pipeline_idle(f->pipeline, err)))
            break;
        n += (unsigned)is_record;
        if ((!is_record || n % FLUSH_EVENTS == 0) && ((rc = flush_if_due(f, err)) || (rc = store_if_ahead(f, 0, err))))
            break;
        if (is_record && n % PROGRESS_EVENTS == 0)
            atomic_store(&f->progress_permille, (unsigned)(ea_source_progress(f->source) * 1000));
    }
    if (!rc) {
        take_dropped(f);
        rc = ea_pipeline_finish(f->pipeline, err);
    }
    if (!rc)
        rc = store_if_ahead(f, 1, err);
    if (!rc && f->triggers && !f->o.source) /* of a session the next run adds what comes after this one */
        ea_triggers_finish(f->triggers);
    if (!rc) {
        atomic_store(&f->progress_permille, 1000);
        f->is_over = 1;
    }
    return rc;
}

int ea_ingest_session_end(ea_ingest_session *f, int at_once, ea_err *err) {
    ea_counters now;
    if (!f->is_over || f->is_ended)
        return f->is_ended;
    ea_ledger_snapshot(f->ledger, &now, NULL);
    if (!at_once && ea_counter_get(&now, EA_COUNT_events_compressing) + ea_counter_get(&now, EA_COUNT_events_spooled) +
                        ea_counter_get(&now, EA_COUNT_events_unanswered))
        return 0;
    f->is_ended = 1; /* one attempt, even if it fails: another one would take another number */
    int rc = ea_pipeline_end(f->pipeline, err);
    return rc ? rc : 1;
}

void ea_ingest_session_stop(ea_ingest_session *f) {
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_source_stop(f->source);
    if (f->triggers)
        ea_triggers_stop(f->triggers);
    if (f->o.source) /* it ends without help: its events go into the spool, which does not block a live stream */
        return;
    ea_pipeline_stream(f->pipeline, stream);
    ea_spool_cancel(f->spool, stream);
}

void ea_ingest_session_close(ea_ingest_session *f) {
    uint8_t stream[EA_STREAM_ID_BYTES];
    if (!f)
        return;
    if (f->triggers && f->o.remote)
        ea_remote_detach(f->o.remote, session_name(f));
    ea_triggers_destroy(f->triggers);
    if (f->pipeline) {
        ea_pipeline_stream(f->pipeline, stream);
        ea_pipeline_destroy(f->pipeline);
        ea_spool_stream_end(f->spool, stream, f->is_over && !f->o.remember);
        ea_spool_detach(f->spool, f->ledger);
        close_recording(f, stream);
    }
    ea_event_filters_destroy(f->filters);
    ea_watches_destroy(f->watches);
    ea_source_close(f->source);
    ea_ledger_destroy(f->ledger);
    free(f->dictionary);
    free(f);
}
