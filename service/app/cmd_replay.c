/* etwagent replay: ships traces to a collector, every event once, however often it is interrupted. Called by: main.c.
 * Calls: pipeline.h, service/ship. Threads: the main one reads the traces; encoders; the sender; one that shows
 * progress and passes a request to stop on to the others. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/app/agent_commands.h"
#include "service/core/agent_log.h"
#include "service/core/damage_log.h"
#include "service/core/ingest_session.h"
#include "service/core/remote.h"
#include "service/core/schema_options.h"
#include "service/core/shipping.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAM_BYTES = 16 << 20 };

typedef struct options {
    ea_shipping_options shipping;
    ea_schema_options schemas;
    const char *speed;
    ea_batching_options batching;
    uint64_t recorder_bytes;
    int64_t recorder_age_ns;
    const char *program;
    ea_remote_config remote;
    int json, live, follow;
} options;

typedef struct replay {
    const options *o;
    ea_damage_log damage;
    ea_counters counters;
    ea_ingest_session *feed;
    ea_schemas *schemas;
    ea_spool *spool, *recorder; /* recorder NULL: none */
    ea_watch_config program;    /* on what is recorded */
    ea_tables programs;
    ea_remote *remote; /* NULL: nothing may be asked of it */
    ea_sender_poll poll;
    ea_sender *sender;
    ea_sender_events events;
    int shows_progress;                 /* a progress line is on the terminal */
    uint8_t stream[EA_STREAM_ID_BYTES]; /* its name now */
    int64_t begin_ns, end_ns;
    atomic_int watching;
    atomic_int draining; /* the source is at its end */
} replay;

static const int64_t END_LOOK_NS = 2000000; /* how often it is looked whether all is acknowledged */

/* "max" or "Nx". */
static int parse_speed(const char *text, double *ret, ea_err *err) {
    char *end;
    if (strcmp(text, "max") == 0) {
        *ret = 0;
        return 0;
    }
    double speed = strtod(text, &end);
    if (end == text || strcmp(end, "x") != 0 || !(speed >= 0.001 && speed <= 1e6))
        return ea_fail(err, EA_EUSAGE, "--speed '%s': expected max or a number and x, such as 1x or 10x", text);
    *ret = speed;
    return 0;
}

/* ---- what the sender reports ---- */

static void visit_pipeline(void *arg, ea_pipeline_visit visit, void *visit_arg) {
    replay *r = arg;
    (void)visit(visit_arg, "", r->feed->pipeline);
}

/* The line of progress is wiped first. */
static void log_line(void *arg, const char *line) {
    replay *r = arg;
    if (r->shows_progress)
        fputs("\r\x1b[K", stderr);
    ea_log_info("%s", line);
}

/* ---- progress, and stopping ---- */

static void show_progress(replay *r) {
    ea_pipeline_status p;
    ea_spool_status s;
    ea_pipeline_get_status(r->feed->pipeline, &p);
    ea_spool_get_status(r->spool, &s);
    double seconds = (double)(ea_monotonic_ns() - r->begin_ns) / 1e9;
    unsigned permille = atomic_load(&r->draining) ? 1000 : atomic_load(&r->feed->progress_permille);
    fprintf(stderr, "\r\x1b[K%5.1f %%  %" PRIu64 " events, %.1f MB in batches, %.0f events/s, %zu batches wait",
            permille / 10.0, p.events, (double)p.encoded_bytes / 1e6, seconds > 0 ? (double)p.events / seconds : 0,
            s.waiting + s.taken);
    fflush(stderr);
}

static void replay_watch(void *arg) {
    replay *r = arg;
    int canceled = 0;
    int64_t shown_ns = 0;
    while (atomic_load(&r->watching)) {
        /* the sender ended with an error that waiting does not fix, or the user pressed Ctrl-C */
        int ended = ea_sender_wait(r->sender, 50000000), over = ended && !atomic_load(&r->draining);
        if (!canceled && (over || atomic_load(ea_stop_flag()))) {
            canceled = 1;
            ea_ingest_session_stop(r->feed);
            ea_spool_cancel(r->spool, NULL);
            ea_sender_stop(r->sender);
        }
        int64_t now = ea_monotonic_ns();
        if (r->shows_progress && now - shown_ns > 250000000) {
            shown_ns = now;
            show_progress(r);
        }
        if (ended) /* the wait above does not block any more */
            ea_sleep_ns(20000000);
    }
    if (r->shows_progress)
        fprintf(stderr, "\r\x1b[K");
}

/* ---- the run ---- */

/* Everything but opening: source to spool to collector. */
static int replay_transfer(replay *r, ea_err *err) {
    ea_thread *watcher;
    r->events = (ea_sender_events){.spool = r->spool,
                                   .each_pipeline = visit_pipeline,
                                   .pipelines = r,
                                   .log = log_line,
                                   .arg = r,
                                   .refused_lines = EA_REFUSED_LINES};
    ea_sender_options so = ea_shipping_sender(&r->o->shipping, &r->counters, &r->events);
    so.name = ea_spool_owner(r->spool);
    if (r->remote) {
        r->poll = (ea_sender_poll){.arg = r->remote, .ask = ea_remote_ask, .answer = ea_remote_answer};
        so.poll = &r->poll;
        ea_remote_set_name(r->remote, so.name);
    }
    if (r->o->live) {
        so.renew = ea_sender_events_renew;
        so.renew_all = 1; /* of those that can be taken up again only what an earlier run left */
        so.fail_fast = 0;
    } else {
        so.on_keyframe_wanted = NULL;
    }
    int rc = ea_sender_start(&r->sender, r->spool, &so, err);
    if (rc)
        return rc;
    atomic_store(&r->watching, 1);
    rc = ea_thread_start(&watcher, "progress", replay_watch, r, err);
    if (rc)
        return rc;
    rc = ea_ingest_session_run(r->feed, err);
    if (!rc) {
        atomic_store(&r->draining, 1);
        while (!rc && !ea_sender_wait(r->sender, END_LOOK_NS)) /* the watcher stops the sender when it is asked to */
            rc = ea_ingest_session_end(r->feed, 0, err);
        if (!rc && r->o->live) /* no later run continues it: its numbers say what waits */
            rc = ea_ingest_session_end(r->feed, 1, err);
        if (rc > 0)
            rc = 0;
        ea_sender_drain(r->sender);
        while (!ea_sender_wait(r->sender, 1000000000))
            ;
        if (!rc)
            rc = ea_sender_result(r->sender, err);
    } else if (rc == EA_ECANCELED && !atomic_load(ea_stop_flag()) &&
               ea_sender_wait(r->sender, (int64_t)10 * 1000000000)) {
        ea_err why; /* it was not asked to stop: the sender ended, and this is the reason */
        int ended = ea_sender_result(r->sender, &why);
        if (ended && ended != EA_ECANCELED) {
            *err = why;
            rc = ended;
        }
    }
    ea_pipeline_stream(r->feed->pipeline, r->stream); /* it may have been renewed */
    r->end_ns = ea_monotonic_ns();
    atomic_store(&r->watching, 0);
    ea_thread_join(watcher);
    return rc;
}

static int replay_take_requests(replay *r, ea_err *err) {
    ea_remote_config c = r->o->remote;
    c.allow = (ea_strings){.items = {"window"}, .count = 1};
    return ea_remote_create(
        &r->remote, &(ea_remote_options){.config = &c, .folder = ea_spool_folder(r->spool), .counters = &r->counters},
        err);
}

static int replay_open_all(replay *r, char **paths, int count, ea_err *err) {
    const options *o = r->o;
    double speed = 0;
    uint64_t target = 0;
    char name[EA_CERTIFICATE_NAME_BYTES];
    int rc = parse_speed(o->speed, &speed, err);
    if (!rc && o->recorder_bytes && !o->live)
        rc = ea_fail(err, EA_EUSAGE, "--recorder: needs --live: a replay that is not live ships each event");
    if (!rc && o->program && !o->recorder_bytes)
        rc = ea_fail(err, EA_EUSAGE, "--program: needs --recorder, a window of which its triggers send");
    if (!rc && o->remote.key && !o->recorder_bytes)
        rc = ea_fail(err, EA_EUSAGE, "--remote-key: needs --recorder, windows of which can be asked for");
    if (o->program) {
        r->program = (ea_watch_config){.name = "replay",
                                       .program = o->program,
                                       .events = EA_WATCH_SHIP,
                                       .keys = EA_LANG_ENTRIES,
                                       .memory_bytes = PROGRAM_BYTES};
        r->programs = (ea_tables){.items = &r->program, .count = 1};
    }
    if (!rc && o->recorder_bytes)
        rc = ea_shipping_open_recorder(&r->recorder, &o->shipping, "replay", o->recorder_bytes, o->recorder_age_ns,
                                       &r->counters, err);
    if (!rc)
        rc = ea_shipping_target(&o->shipping, &target, err);
    if (!rc)
        rc = ea_schema_options_read(&r->schemas, &o->schemas, err);
    if (!rc)
        rc = ea_shipping_name(&o->shipping, name, err);
    if (!rc)
        rc = ea_shipping_open_spool(&r->spool, &o->shipping, name, o->live, &r->counters, err);
    if (!rc && o->remote.key)
        rc = replay_take_requests(r, err);
    if (!rc)
        rc = ea_ingest_session_open(&r->feed,
                                    &(ea_ingest_session_options){.paths = (const char *const *)paths,
                                                                 .path_count = (size_t)count,
                                                                 .speed = speed,
                                                                 .follow = o->follow,
                                                                 .live = o->live,
                                                                 .priority = 1,
                                                                 .batching = &o->batching,
                                                                 .watches = &r->programs,
                                                                 .recorder = r->recorder,
                                                                 .recorder_age_ns = o->recorder_age_ns,
                                                                 .remote = r->remote,
                                                                 .schemas = r->schemas,
                                                                 .counters = &r->counters,
                                                                 .on_damage = ea_damage_log_add,
                                                                 .on_damage_arg = &r->damage},
                                    err);
    if (!rc)
        rc = ea_ingest_session_attach(r->feed, r->spool, target, err);
    return rc;
}

/* ---- the summary ---- */

typedef struct summary {
    ea_counters c;
    ea_pipeline_status p;
    ea_sender_status s;
    int balanced, complete;
    double seconds;
} summary;

static uint64_t replay_get(const summary *m, enum ea_counter which) {
    return ea_counter_get(&m->c, which);
}

static void replay_print_json(const replay *r, const summary *m) {
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t, "{\"stream\": \"");
    ea_text_hex(&t, r->stream, sizeof r->stream);
    ea_text_printf(
        &t,
        "\", \"complete\": %s, \"events\": %" PRIu64 ", \"acknowledged\": %" PRIu64 ", \"refused\": %" PRIu64
        ", \"batches\": %" PRIu64 ", \"batches_from_before\": %" PRIu64 ", \"trace_bytes\": %" PRIu64
        ", \"encoded_events\": %" PRIu64 ", \"encoded_bytes\": %" PRIu64 ", \"bytes_per_event\": %.3f"
        ", \"sent_bytes\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"failures\": %" PRIu64
        ", \"seconds\": %.3f, \"events_per_second\": %.0f, \"damaged_places\": %" PRIu64 ", \"ledger_balanced\": %s"
        ", \"ledger\": {",
        m->complete ? "true" : "false", m->p.events, replay_get(m, EA_COUNT_events_acknowledged),
        replay_get(m, EA_COUNT_events_evicted_refused), m->p.batches, m->p.kept_batches, r->feed->trace_bytes,
        m->p.encoded_events, m->p.encoded_bytes,
        m->p.encoded_events ? (double)m->p.encoded_bytes / (double)m->p.encoded_events : 0.0, m->s.sent_bytes,
        m->s.requests, m->s.failures, m->seconds, m->seconds > 0 ? (double)m->p.events / m->seconds : 0.0,
        r->damage.map.places, m->balanced ? "true" : "false");
    int first = 1;
    for (int i = 0; i < EA_COUNTER_COUNT; i++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)i);
        if (row->part != EA_OF_LEDGER)
            continue;
        ea_text_printf(&t, "%s\"%s\": %" PRIu64, first ? "" : ", ", row->name, replay_get(m, (enum ea_counter)i));
        first = 0;
    }
    ea_text_str(&t, "}}\n");
    if (!t.failed)
        fwrite(t.data, 1, t.len_bytes, stdout);
    ea_text_deinit(&t);
}

static void replay_print_text(const replay *r, const summary *m) {
    ea_text t;
    ea_text_init(&t);
    ea_text_hex(&t, r->stream, sizeof r->stream);
    printf("%" PRIu64 " events in %" PRIu64 " batches of stream %s\n", m->p.events, m->p.batches,
           t.failed ? "?" : t.data);
    if (m->p.kept_batches)
        printf("%" PRIu64 " batches are from an earlier run\n", m->p.kept_batches);
    if (m->p.encoded_events)
        printf("%" PRIu64 " bytes in batches made now, %.2f an event\n", m->p.encoded_bytes,
               (double)m->p.encoded_bytes / (double)m->p.encoded_events);
    printf("%.2f s, %.0f events/s, %" PRIu64 " requests with %" PRIu64 " bytes, %" PRIu64 " failures\n", m->seconds,
           m->seconds > 0 ? (double)m->p.events / m->seconds : 0.0, m->s.requests, m->s.sent_bytes, m->s.failures);
    printf("acknowledged: %" PRIu64 " events%s\n", replay_get(m, EA_COUNT_events_acknowledged),
           m->complete ? ", which is all" : "");

    static const enum ea_counter ELSEWHERE[] = {
        EA_COUNT_events_recorded,       EA_COUNT_events_removed_size,     EA_COUNT_events_removed_age,
        EA_COUNT_events_unrecorded,     EA_COUNT_events_spooled,          EA_COUNT_events_unanswered,
        EA_COUNT_events_compressing,    EA_COUNT_events_pending,          EA_COUNT_events_evicted_refused,
        EA_COUNT_events_evicted_damage, EA_COUNT_events_dropped_oversize, EA_COUNT_source_bad_records};

    for (size_t i = 0; i < sizeof ELSEWHERE / sizeof *ELSEWHERE; i++)
        if (replay_get(m, ELSEWHERE[i]))
            printf("%s: %" PRIu64 "\n", ea_counter_row(ELSEWHERE[i])->text, replay_get(m, ELSEWHERE[i]));
    ea_text_deinit(&t);
}

static int summarise(replay *r, int rc, ea_err *err) {
    summary m = {.seconds = (double)(r->end_ns - r->begin_ns) / 1e9};
    ea_err unbalanced;
    ea_ledger_families families;
    ea_ledger_snapshot(r->feed->ledger, &m.c, &families);
    ea_pipeline_get_status(r->feed->pipeline, &m.p);
    ea_sender_get_status(r->sender, &m.s);
    m.balanced = ea_ledger_check(&m.c, &families, &unbalanced) == 0;
    uint64_t sound = replay_get(&m, EA_COUNT_events_acknowledged) + replay_get(&m, EA_COUNT_events_recorded) +
                     replay_get(&m, EA_COUNT_events_removed_size) + replay_get(&m, EA_COUNT_events_removed_age);
    uint64_t all = m.p.events + replay_get(&m, EA_COUNT_events_synthesised);
    m.complete = !rc && m.balanced && sound == all;
    if (r->o->json)
        replay_print_json(r, &m);
    else
        replay_print_text(r, &m);
    if (!m.balanced)
        ea_err_print(stderr, "etwagent", &unbalanced);
    if (!rc && !m.complete)
        rc = ea_fail(err, EA_EREFUSED, "%" PRIu64 " of %" PRIu64 " events are not acknowledged", all - sound, all);
    return rc;
}

static int replay_run(const void *opts, int operand_count, char **operands) {
    ea_err err = {0}, later;
    replay *r = calloc(1, sizeof *r);
    if (!r)
        return 1;
    r->o = opts;
    r->shows_progress = ea_is_terminal(stderr);
    r->begin_ns = ea_monotonic_ns();
    (void)ea_stop_flag();
    int rc = replay_open_all(r, operands, operand_count, &err);
    if (!rc) {
        rc = replay_transfer(r, &err);
        if (r->sender && r->end_ns)
            rc = summarise(r, rc, &err);
    }
    int ran = r->end_ns != 0;
    int refused = ran && r->sender && ea_sender_result(r->sender, &later) == EA_ECONFLICT;
    ea_sender_destroy(r->sender);
    ea_ingest_session_close(r->feed);
    ea_schemas_destroy(r->schemas);
    ea_remote_destroy(r->remote);
    int closed = ea_spool_close(r->recorder, &later);
    if (!rc && closed) {
        rc = closed;
        err = later;
    }
    closed = ea_spool_close(r->spool, &later);
    if (!rc && closed) {
        rc = closed;
        err = later;
    }
    ea_damage_log_deinit(&r->damage);
    if (rc == EA_ECANCELED)
        fprintf(stderr, "etwagent: stopped; the same command goes on where this one ended\n");
    else if (rc)
        ea_err_print(stderr, "etwagent", &err);
    if (refused)
        fprintf(stderr,
                "etwagent: the collector holds another replay of these files; --batch-events with another number "
                "sends them as a stream of their own\n");
    else if (rc && rc != EA_ECANCELED && rc != EA_ECONFLICT && ran)
        fprintf(stderr, "etwagent: unacknowledged batches wait in the spool; the same command goes on from there\n");
    free(r);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_replay = {
    .name = "replay",
    .operands = "TRACE...",
    .summary = "Ship traces to a collector",
    .details =
        "Reads the traces as one, in the order of time, packs their events into batches and sends those over TLS with "
        "this\n"
        "agent's certificate. Unacknowledged batches are in the spool; when the command ends early (Ctrl-C, a "
        "crash, no\n"
        "collector), the same command goes on where it ended, and the collector has every event once.\n"
        "Exit code 0: every event is acknowledged.\n"
        "With --follow the traces are still being written: events go out as their buffers reach the files, in the "
        "order "
        "of time\n"
        "as far as two buffers a CPU reach, whole batches only until the sessions end. Ctrl-C and the same command "
        "again "
        "go on\n"
        "where it ended, whether the traces have grown meanwhile or are finished.\n\n" EA_SPOOL_FOLDER_TEXT "\n\n"
        "JSON keys: stream, complete, events, acknowledged, refused, batches, batches_from_before, trace_bytes, "
        "encoded_events,\n"
        "encoded_bytes, bytes_per_event, sent_bytes, requests, failures, seconds, events_per_second, damaged_places,\n"
        "ledger_balanced, ledger {counter: events}.",
    .options =
        (const ea_option[]){
            EA_SHIPPING_OPTIONS(offsetof(options, shipping)),
            EA_GIVE_UP_OPTION(offsetof(options, shipping)),
            EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
            EA_SPOOL_OPTIONS(offsetof(options, shipping)),
            {.name = "speed",
             .argument = "SPEED",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, speed),
             .fallback = "max",
             .help = "speed of the replay: max, or a multiple of the recording's speed such as 1x, 10x"},
            EA_BATCHING_OPTIONS(offsetof(options, batching)),
            {.name = "live",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, live),
             .help = "behave like a real-time session: a new stream that cannot be continued, eviction of the oldest "
                     "batches from a full spool, keyframes when the collector asks"},
            {.name = "recorder",
             .argument = "SIZE",
             .type = EA_OPT_SIZE,
             .offset = offsetof(options, recorder_bytes),
             .fallback = "0",
             .help = "with --live: keep the events in the recorder \"replay\" of the spool's folder, of at most this "
                     "size, and send their numbers alone; 0: send the events"},
            {.name = "recorder-age",
             .argument = "TIME",
             .type = EA_OPT_DURATION,
             .offset = offsetof(options, recorder_age_ns),
             .fallback = "0",
             .help = "remove events from the recorder after this time; 0: when there is no room"},
            {.name = "program",
             .argument = "TEXT",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, program),
             .help = "with --recorder: a program of the query language on these events, whose trigger() sends windows "
                     "of the recorder"},
            {.name = "remote-key",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, remote) + offsetof(ea_remote_config, key),
             .help = EA_REMOTE_KEY_TEXT},
            {.name = "remote-poll",
             .argument = "TIME",
             .type = EA_OPT_DURATION,
             .offset = offsetof(options, remote) + offsetof(ea_remote_config, poll_ns),
             .fallback = "10s",
             .min = 100000000,
             .max = INT64_C(3600000000000),
             .help = EA_REMOTE_POLL_TEXT},
            {.name = "follow",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, follow),
             .help = "continue to read while the files grow, until their sessions end"},
            {.name = "json",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, json),
             .help = "print the summary as one JSON object"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = replay_run,
    .min_operands = 1,
    .max_operands = -1,
};
