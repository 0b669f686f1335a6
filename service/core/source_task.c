/* Sources and sessions at work. See source_task.h. */
#include "service/core/source_task.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/core/agent_log.h"
#include "service/etw/live.h"
#include "service/eventlog/channel_source.h"
#include "service/image/image_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t STOP_POLL_NS = 5000000, LOG_DELAY_NS = 500000000;

int ea_source_tasks_init(ea_source_tasks *tasks, int64_t retry_ns, ea_err *err) {
    *tasks = (ea_source_tasks){.retry_ns = retry_ns};
    int rc = ea_mutex_create(&tasks->lock, err);
    if (!rc)
        rc = ea_cond_create(&tasks->wake, err);
    return rc ? rc : ea_random_bytes(tasks->run, sizeof tasks->run, err);
}

void ea_source_tasks_deinit(ea_source_tasks *tasks) {
    for (ea_source_task *t = tasks->first, *next; t; t = next) {
        next = t->next;
        ea_source_task_stop(t);
    }
    ea_cond_destroy(tasks->wake);
    ea_mutex_destroy(tasks->lock);
}

/* ---- its thread ---- */

static void set_error(ea_source_task *t, int rc, const ea_err *err) {
    char whose[160];
    snprintf(whose, sizeof whose, "%s %.128s", t->c ? "source" : "session", t->name);
    ea_mutex_lock(t->tasks->lock);
    ea_sticky_error_set(&t->error, whose, rc, err);
    ea_mutex_unlock(t->tasks->lock);
}

static void log_session(void *arg, const char *text) {
    const ea_source_task *t = arg;
    ea_log_info("session %s: %s", t->name, text);
}

/* A worker looks at the files of the images that the session says are loaded, where the configuration wants it. */
static int task_add_images(const ea_source_task *t, ea_source **source, ea_err *err) {
    const ea_session_config *s = t->session;
    return s->images ? ea_image_source_open(source, *source,
                                            &(ea_images_options){.rate_bytes = s->image_rate_bytes,
                                                                 .hash_bytes = s->image_hash_bytes,
                                                                 .counters = t->counters},
                                            err)
                     : 0;
}

/* The next stream of this run. */
static void task_name_stream(ea_source_task *t, uint8_t *ret) {
    ea_source_tasks *tasks = t->tasks;
    memcpy(ret, tasks->run, sizeof tasks->run);
    ea_store32(ret + sizeof tasks->run, atomic_fetch_add(&tasks->streams, 1) + 1);
}

/* After its feed. */
static void task_close_recorder(ea_source_task *t) {
    ea_err err;
    ea_mutex_lock(t->tasks->lock);
    ea_spool *recorder = t->recorder;
    t->recorder = NULL;
    ea_mutex_unlock(t->tasks->lock);
    if (recorder && ea_spool_close(recorder, &err))
        ea_log_warning("session %.128s: %s", t->name, err.message);
}

static int task_open_recorder(ea_source_task *t, ea_err *err) {
    const ea_recorder_config *r = &t->session->recorder;
    ea_spool *recorder = NULL;
    int rc = r->size_bytes ? ea_shipping_open_recorder(&recorder, &t->snapshot->c.shipping, t->name, r->size_bytes,
                                                       r->age_ns, t->counters, err)
                           : 0;
    ea_mutex_lock(t->tasks->lock);
    t->recorder = recorder;
    ea_mutex_unlock(t->tasks->lock);
    return rc;
}

/* Starts the session and makes a feed of it, under a stream of this run. */
static int task_open_session(ea_source_task *t, ea_ingest_session **ret, ea_err *err) {
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_source *source = NULL;
    ea_err no_tdh;
    int rc = task_open_recorder(t, err);
    if (rc)
        return rc;
    rc = ea_live_open(
        &source,
        &(ea_live_options){.session = t->session, .counters = t->counters, .on_note = log_session, .on_note_arg = t},
        err);
    ea_source *live = source;
    t->starts_refused += rc != 0;
    if (!rc)
        rc = task_add_images(t, &source, err);
    if (rc)
        return rc;
    ea_tdh_close(t->tdh);
    t->tdh = NULL;
    if (ea_tdh_open(&t->tdh, &no_tdh)) /* then events without another schema have no names */
        log_session(t, no_tdh.message);
    t->ask = (ea_schema_lookup){.answer = ea_tdh_describe, .arg = t->tdh, .counters = t->counters};
    task_name_stream(t, stream);
    rc = ea_ingest_session_open(ret,
                                &(ea_ingest_session_options){.name = t->name,
                                                             .source = source,
                                                             .stream = stream,
                                                             .delay_ns = t->session->flush_ns,
                                                             .keyframe_ns = t->session->keyframe_ns,
                                                             .live = 1,
                                                             .priority = ea_priority_of(t->session->priority),
                                                             .batching = &t->snapshot->c.batching,
                                                             .filters = &t->session->filters,
                                                             .watches = &t->session->watches,
                                                             .recorder = t->recorder,
                                                             .recorder_age_ns = t->session->recorder.age_ns,
                                                             .remote = t->tasks->remote,
                                                             .schemas = t->schemas,
                                                             .ask = t->tdh ? &t->ask : NULL,
                                                             .counters = t->counters},
                                err);
    t->live = rc ? NULL : live;
    return rc;
}

static void log_source(void *arg, const char *text) {
    const ea_source_task *t = arg;
    ea_log_info("source %s: %s", t->name, text);
}

static int is_event_log(const ea_source_task *t) {
    return t->c && t->c->channels.count;
}

/* Opens channels of the event log as a feed, under a stream of this run. Their positions are in the spool's folder. */
static int task_open_log(ea_source_task *t, ea_ingest_session **ret, ea_err *err) {
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_source *source = NULL;
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/eventlog-%016" PRIx64 ".txt", ea_spool_folder(t->tasks->spool),
                   ea_hash64(t->name, strlen(t->name), 0));
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open source %s", t->name)
                         : ea_channel_source_open(&source,
                                                  &(ea_channel_options){.name = t->name,
                                                                        .channels = t->c->channels.items,
                                                                        .channel_count = t->c->channels.count,
                                                                        .query = t->c->query,
                                                                        .begins_with_oldest = t->c->begin,
                                                                        .positions_path = path.data,
                                                                        .counters = t->counters,
                                                                        .on_note = log_source,
                                                                        .on_note_arg = t},
                                                  err);
    ea_text_deinit(&path);
    if (rc)
        return rc;
    task_name_stream(t, stream);
    return ea_ingest_session_open(ret,
                                  &(ea_ingest_session_options){.source = source,
                                                               .stream = stream,
                                                               .delay_ns = LOG_DELAY_NS,
                                                               .live = 1,
                                                               .priority = ea_priority_of(t->c->priority),
                                                               .batching = &t->snapshot->c.batching,
                                                               .filters = &t->c->filters,
                                                               .watches = &t->c->watches,
                                                               .schemas = t->schemas,
                                                               .counters = t->counters},
                                  err);
}

/* They were lost before there was a ledger. */
static void count_lost_boot_files(ea_source_task *t) {
    ea_config_snapshot *s = t->snapshot;
    if (!t->session || !s->boot_files_lost)
        return;
    unsigned *lost = &s->boot_files_lost[t->session - (const ea_session_config *)s->c.sessions.items];
    ea_count(t->counters, EA_COUNT_source_boot_files_lost, *lost);
    *lost = 0;
}

/* One attempt. The feed stays when it came to its end, so that its ledger goes on. */
static int task_attempt(ea_source_task *t, ea_err *err) {
    ea_source_tasks *tasks = t->tasks;
    const ea_agent_config *c = &t->snapshot->c;
    ea_ingest_session *feed = NULL;
    uint64_t target = 0;
    memset(t->counters, 0, sizeof *t->counters);
    ea_damage_log_deinit(&t->damage);
    ea_schemas_destroy(t->schemas);
    t->schemas = NULL;
    /* a session or an event log is recorded from the first moment on, whatever the machine's name will be */
    int is_live = t->session || is_event_log(t), rc = is_live ? 0 : ea_shipping_target(&c->shipping, &target, err);
    if (!rc)
        rc = ea_schema_options_read(&t->schemas, &c->schemas, err);
    if (!rc && t->session)
        rc = task_open_session(t, &feed, err);
    else if (!rc && is_live)
        rc = task_open_log(t, &feed, err);
    else if (!rc)
        rc = ea_ingest_session_open(&feed,
                                    &(ea_ingest_session_options){.paths = t->c->files.items,
                                                                 .path_count = t->c->files.count,
                                                                 .speed = (double)t->c->speed,
                                                                 .remember = 1,
                                                                 .priority = ea_priority_of(t->c->priority),
                                                                 .batching = &c->batching,
                                                                 .filters = &t->c->filters,
                                                                 .watches = &t->c->watches,
                                                                 .schemas = t->schemas,
                                                                 .counters = t->counters,
                                                                 .on_damage = ea_damage_log_add,
                                                                 .on_damage_arg = &t->damage},
                                    err);
    if (rc) {
        task_close_recorder(t);
        return rc;
    }
    rc = ea_ingest_session_attach(feed, tasks->spool, target, err);
    if (!rc) {
        ea_mutex_lock(tasks->lock);
        rc = ea_pipeline_set_labels(feed->pipeline, &t->labelled->labels, err);
        t->feed = rc ? NULL : feed;
        t->state = rc ? EA_SOURCE_WAITING : EA_SOURCE_READING;
        ea_mutex_unlock(tasks->lock);
    }
    if (!rc) {
        set_error(t, 0, NULL);
        count_lost_boot_files(t);
        ea_count(t->counters, EA_COUNT_source_starts_refused, t->starts_refused);
        t->starts_refused = 0;
        rc = ea_ingest_session_run(feed, err);
    }
    ea_mutex_lock(tasks->lock);
    if (rc)
        t->feed = NULL;
    t->state = rc ? EA_SOURCE_WAITING : EA_SOURCE_READ;
    ea_mutex_unlock(tasks->lock);
    ea_wake_set(tasks->owner);
    if (rc) {
        ea_ingest_session_close(feed);
        task_close_recorder(t);
    }
    return rc;
}

static void task_main(void *arg) {
    ea_source_task *t = arg;
    ea_source_tasks *tasks = t->tasks;
    while (!atomic_load(&t->stop)) {
        ea_err err = {0};
        int rc = task_attempt(t, &err);
        if (!rc || atomic_load(&t->stop))
            break;
        set_error(t, rc, &err);
        int64_t until = ea_monotonic_ns() + tasks->retry_ns;
        ea_mutex_lock(tasks->lock);
        while (!atomic_load(&t->stop) && ea_monotonic_ns() < until)
            ea_cond_wait_for(tasks->wake, tasks->lock, until - ea_monotonic_ns());
        ea_mutex_unlock(tasks->lock);
    }
    atomic_store(&t->over, 1);
}

/* ---- starting and stopping ---- */

int ea_source_task_start(ea_source_tasks *tasks, ea_config_snapshot *snapshot, const ea_file_source_config *source,
                         const ea_session_config *session, ea_err *err) {
    const char *name = source ? source->name : session->name;
    ea_source_task *t = calloc(1, sizeof *t);
    if (t)
        t->counters = calloc(1, sizeof *t->counters);
    if (!t || !t->counters) {
        free(t);
        return ea_fail(err, EA_ENOMEM, "start %.128s", name);
    }
    t->tasks = tasks;
    t->snapshot = t->labelled = snapshot;
    snapshot->users += 2;
    t->name = name;
    t->c = source;
    t->session = session;
    int rc = ea_thread_start(&t->thread, "source", task_main, t, err);
    if (rc) {
        snapshot->users -= 2;
        free(t->counters);
        free(t);
        return rc;
    }
    ea_mutex_lock(tasks->lock);
    t->next = tasks->first;
    tasks->first = t;
    ea_mutex_unlock(tasks->lock);
    return 0;
}

void ea_source_task_request_stop(ea_source_task *t) {
    ea_source_tasks *tasks = t->tasks;
    ea_mutex_lock(tasks->lock);
    atomic_store(&t->stop, 1);
    if (t->feed && t->state == EA_SOURCE_READING)
        ea_ingest_session_stop(t->feed);
    ea_cond_broadcast(tasks->wake);
    ea_mutex_unlock(tasks->lock);
}

void ea_source_task_join(ea_source_task *t) {
    while (!atomic_load(&t->over)) {
        ea_source_task_request_stop(t);
        ea_sleep_ns(STOP_POLL_NS);
    }
    ea_thread_join(t->thread);
    t->thread = NULL;
}

/* The closing batch of one stream. 1 when it still waits for it. */
static int task_end_stream(ea_source_task *t, int at_once) {
    ea_err err;
    ea_mutex_lock(t->tasks->lock);
    ea_ingest_session *feed = t->state == EA_SOURCE_READ ? t->feed : NULL;
    ea_mutex_unlock(t->tasks->lock);
    int rc = feed ? ea_ingest_session_end(feed, at_once && (t->session || is_event_log(t)), &err) : 1;
    if (rc < 0)
        ea_log_warning("the end of %.128s: %s", t->name, err.message);
    return rc == 0;
}

size_t ea_source_tasks_end_streams(ea_source_tasks *tasks, int at_once) {
    size_t left = 0;
    for (ea_source_task *t = tasks->first; t; t = t->next)
        left += (size_t)task_end_stream(t, at_once);
    return left;
}

void ea_source_task_stop(ea_source_task *t) {
    ea_source_tasks *tasks = t->tasks;
    ea_source_task_join(t);
    (void)task_end_stream(t, 1);
    ea_mutex_lock(tasks->lock);
    for (ea_source_task **p = &tasks->first; *p; p = &(*p)->next)
        if (*p == t) {
            *p = t->next;
            break;
        }
    ea_ingest_session *feed = t->feed;
    t->feed = NULL;
    ea_mutex_unlock(tasks->lock);
    ea_ingest_session_close(feed);
    task_close_recorder(t);
    ea_tdh_close(t->tdh);
    ea_schemas_destroy(t->schemas);
    ea_damage_log_deinit(&t->damage);
    ea_config_snapshot_release(t->snapshot);
    ea_config_snapshot_release(t->labelled);
    free(t->counters);
    free(t);
}

/* ---- what others ask of them ---- */

int ea_source_tasks_have(const ea_source_tasks *tasks, const char *name, int is_session) {
    for (const ea_source_task *t = tasks->first; t; t = t->next)
        if (strcmp(t->name, name) == 0 && !!t->session == is_session)
            return 1;
    return 0;
}

void ea_source_task_relabel(ea_source_task *t, ea_config_snapshot *snapshot) {
    ea_source_tasks *tasks = t->tasks;
    ea_err err;
    ea_mutex_lock(tasks->lock);
    ea_config_snapshot *before = t->labelled;
    t->labelled = snapshot;
    snapshot->users++;
    int rc = t->feed ? ea_pipeline_set_labels(t->feed->pipeline, &snapshot->labels, &err) : 0;
    ea_mutex_unlock(tasks->lock);
    ea_config_snapshot_release(before);
    if (rc)
        ea_log_warning("%s %.128s: %s", t->c ? "source" : "session", t->name, err.message);
}

int ea_source_task_is_in_spool(const ea_source_task *t) {
    ea_counters c = {0};
    ea_ledger_families families;
    ea_mutex_lock(t->tasks->lock);
    int is_read = t->feed && t->state == EA_SOURCE_READ && !atomic_load(&t->stop);
    if (is_read)
        ea_ledger_snapshot(t->feed->ledger, &c, &families);
    ea_mutex_unlock(t->tasks->lock);
    return is_read &&
           ea_counter_get(&c, EA_COUNT_events_pending) + ea_counter_get(&c, EA_COUNT_events_compressing) == 0;
}

void ea_source_tasks_each_pipeline(void *source_tasks, ea_pipeline_visit visit, void *visit_arg) {
    ea_source_tasks *tasks = source_tasks;
    char name[EA_SESSION_NAME_MAX + 16];
    ea_mutex_lock(tasks->lock); /* until a renewed stream's next batches have the new name: a moment of encoding */
    int found = 0;
    for (ea_source_task *t = tasks->first; t && !found; t = t->next) {
        snprintf(name, sizeof name, "%s %.*s", t->c ? "source" : "session", EA_SESSION_NAME_MAX, t->name);
        found = t->feed && visit(visit_arg, name, t->feed->pipeline);
    }
    ea_mutex_unlock(tasks->lock);
}
