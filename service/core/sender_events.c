/* A sender's callbacks. See sender_events.h. */
#include "service/core/sender_events.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "service/core/agent_log.h"

#include <inttypes.h>
#include <string.h>

static void each_pipeline(const ea_sender_events *e, ea_pipeline_visit visit, void *visit_arg) {
    if (e->each_pipeline)
        e->each_pipeline(e->pipelines, visit, visit_arg);
}

static void sender_events_log_line(const ea_sender_events *e, const char *head, const char *text) {
    ea_text line;
    ea_text_init(&line);
    ea_text_str(&line, head);
    ea_text_str(&line, text);
    if (!line.failed && e->log)
        e->log(e->arg, line.data);
    else if (!line.failed)
        ea_log_info("%s", line.data);
    ea_text_deinit(&line);
}

static int has_stream(const ea_pipeline *pipeline, const uint8_t *stream) {
    uint8_t now[EA_STREAM_ID_BYTES];
    ea_pipeline_stream(pipeline, now);
    return memcmp(stream, now, sizeof now) == 0;
}

/* ---- definitions ---- */

typedef struct definition {
    const uint8_t *stream;
    const ea_class_hash *hash; /* known */
    const ea_hash_ref *ref;    /* unknown */
} definition;

static int visit_known(void *arg, const char *name, ea_pipeline *pipeline) {
    const definition *d = arg;
    (void)name;
    ea_pipeline_known(pipeline, d->stream, d->hash->bytes);
    return 0;
}

static void on_known(void *arg, const uint8_t *stream, const ea_class_hash *hash) {
    each_pipeline(arg, visit_known, &(definition){.stream = stream, .hash = hash});
}

static int visit_unknown(void *arg, const char *name, ea_pipeline *pipeline) {
    const definition *d = arg;
    (void)name;
    ea_pipeline_unknown(pipeline, d->stream, d->ref);
    return 0;
}

static void on_unknown(void *arg, const uint8_t *stream, const ea_hash_ref *ref) {
    each_pipeline(arg, visit_unknown, &(definition){.stream = stream, .ref = ref});
}

/* ---- keyframes ---- */

static int visit_keyframe(void *arg, const char *name, ea_pipeline *pipeline) {
    (void)name;
    if (!has_stream(pipeline, arg))
        return 0;
    ea_pipeline_want_keyframe(pipeline);
    return 1;
}

static void on_keyframe_wanted(void *arg, const uint8_t *stream) {
    uint8_t wanted[EA_STREAM_ID_BYTES];
    memcpy(wanted, stream, sizeof wanted);
    each_pipeline(arg, visit_keyframe, wanted);
}

/* ---- conflicts ---- */

typedef struct renewal {
    const ea_sender_events *events;
    const uint8_t *stream;
    ea_err *err;
    int found, rc;
} renewal;

static void log_renewal(const ea_sender_events *e, const char *name) {
    char head[160];
    snprintf(head, sizeof head, "%.150s%s", name, *name ? ": " : "");
    sender_events_log_line(e, head,
                           "another machine has used this stream's numbers; the stream continues under a new name");
}

static int visit_renew(void *arg, const char *name, ea_pipeline *pipeline) {
    renewal *r = arg;
    if (!has_stream(pipeline, r->stream))
        return 0;
    log_renewal(r->events, name);
    r->found = 1;
    r->rc = ea_pipeline_renew(pipeline, r->err);
    return 1;
}

int ea_sender_events_renew(void *events, const uint8_t *stream, ea_err *err) {
    const ea_sender_events *e = events;
    uint8_t fresh[EA_STREAM_ID_BYTES];
    uint64_t count;
    renewal r = {.events = e, .stream = stream, .err = err};
    each_pipeline(e, visit_renew, &r);
    if (r.found)
        return r.rc;
    log_renewal(e, "a stream of an earlier run");
    int rc = ea_random_bytes(fresh, sizeof fresh, err);
    return rc ? rc : ea_spool_renew(e->spool, stream, fresh, &count, err);
}

/* ---- refusals and failures ---- */

static void on_refused(void *arg, const ea_spool_item *item, const ea_refusal *refusal) {
    ea_sender_events *e = arg;
    char head[96];
    if (e->refused_count++ >= e->refused_lines && e->refused_lines)
        return;
    snprintf(head, sizeof head, "batch %" PRIu64 " with %" PRIu32 " events was refused: ", item->number,
             item->event_count);
    sender_events_log_line(e, head, refusal->text);
}

static void sender_events_on_error(void *arg, const ea_err *err) {
    const ea_sender_events *e = arg;
    if (e->on_error)
        e->on_error(e->arg, err);
    else if (err->code)
        sender_events_log_line(e, "trying again: ", err->message);
    else
        sender_events_log_line(e, "the collector answers again", "");
}

void ea_sender_events_set(ea_sender_options *options, ea_sender_events *events) {
    options->arg = events;
    options->on_known = on_known;
    options->on_unknown = on_unknown;
    options->on_keyframe_wanted = on_keyframe_wanted;
    options->on_refused = on_refused;
    options->on_error = sender_events_on_error;
}
