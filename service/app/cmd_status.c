/* etwagent status: how the agent that runs here is, as its status file says. Called by: main.c. Input: the file that
 * the agent writes (agent.h); JSON, and so YAML. Thread: the main one. */
#include "config/config.h"
#include "proto/base/exposition.h"
#include "service/app/agent_commands.h"
#include "service/app/metrics_server.h"
#include "service/core/agent.h"
#include "service/core/agent_config.h"
#if defined(_WIN32)
#include "service/scm/pipe.h"
#endif
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/spool/spool.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_MAX = EA_CONFIG_MAX_BYTES };

enum { STOP_POLL_NS = 50 * 1000 * 1000 };

typedef struct options {
    const char *file, *output, *listen;
    int64_t every;
    int json, metrics, open_metrics;
} options;

/* Of a source that is an ETW session. */
typedef struct session {
    const char *name, *mode; /* NULL: it is none */
    uint64_t logger, buffer_bytes, min_buffers, max_buffers, buffers, free_buffers, flush_seconds, starts,
        ended_by_others;
    uint64_t grown, rundowns, rundown_events, events, written_buffers, lost_events, lost_buffers, dropped_events,
        refused_counters, refused_parts, ring_used_bytes;
    uint64_t images_asked, images_told, images_absent, images_refused, images_unreadable, images_other,
        images_left_full, images_left_end;
    int runs;
} session;

/* Of a session's recorder; limit_bytes 0: it has none. */
typedef struct recorder {
    uint64_t batches, events, disk_bytes, limit_bytes, first_utc_ns;
    uint64_t recorded, removed_size, removed_age, files_removed, earlier_removed, torn_bytes, bad_bytes;
    uint64_t fired, unfired, sent_events, unsent_batches, unsent_windows; /* of triggers */
} recorder;

typedef struct source {
    const char *name, *state, *stream, *error;
    uint64_t progress_permille, batches;
    uint64_t delivered, synthesised, acknowledged, pending, compressing, spooled, unanswered;
    uint64_t evicted_size, evicted_age, evicted_damage, evicted_refused, dropped_oversize, filtered, sampled_out,
        limited, repeated, aggregated, redacted, watch_skipped, watch_others, watch_dropped, watch_shipped,
        held_seconds, paced_seconds, unrecorded;
    uint64_t channels, records_missing; /* of the event log; channels 0: it is of files */
    int balanced;
    recorder recorder;
    session session;
} source;

typedef struct spool {
    uint64_t batches, disk_bytes, torn_bytes, bad_bytes, locked_events;
    const char *error;
} spool;

typedef struct shipping {
    uint64_t requests, failures, sent_bytes, batches_sent, batches_refused, moves, held_seconds;
    const char *collector, *error;
} shipping;

/* Requests of a collector, by what became of them. */
typedef struct remote {
    uint64_t accepted, malformed, key, signature, host, replayed, reordered, expired, policy, limits;
    const char *error;
    int accepts;
} remote;

typedef struct enrolment {
    const char *state, *error; /* state NULL: the agent does not see to its certificate */
    uint64_t until_utc_ns;     /* the end of the certificate; 0: there is none */
} enrolment;

typedef struct status {
    const char *state, *version, *config, *error;
    uint64_t pid, started_utc_ns, written_utc_ns, every_ns, reloads, reloads_refused;
    ea_tables sources;
    spool spool;
    shipping shipping;
    remote remote;
    enrolment enrolment;
    int balanced;
} status;

/* Of the file's mappings. An agent that is newer than this program may say more: its tables pass over what they do
 * not know. */
#define TEXT(table, key, member)                                                                                       \
    { .name = key, .type = EA_OPT_STRING, .offset = offsetof(table, member), .help = "" }
#define NUMBER(table, key, member)                                                                                     \
    { .name = key, .type = EA_OPT_U64, .offset = offsetof(table, member), .help = "" }
#define SWITCH(table, key, member)                                                                                     \
    { .name = key, .type = EA_OPT_FLAG, .offset = offsetof(table, member), .help = "" }

#define OLD_ERROR "trouble" /* of an agent before 0.2 */

static const ea_option SESSION_ROWS[] = {TEXT(session, "name", name),
                                         TEXT(session, "mode", mode),
                                         SWITCH(session, "runs", runs),
                                         NUMBER(session, "logger", logger),
                                         NUMBER(session, "buffer_bytes", buffer_bytes),
                                         NUMBER(session, "min_buffers", min_buffers),
                                         NUMBER(session, "max_buffers", max_buffers),
                                         NUMBER(session, "buffers", buffers),
                                         NUMBER(session, "free_buffers", free_buffers),
                                         NUMBER(session, "flush_seconds", flush_seconds),
                                         NUMBER(session, "starts", starts),
                                         NUMBER(session, "ended_by_others", ended_by_others),
                                         NUMBER(session, "grown", grown),
                                         NUMBER(session, "rundowns", rundowns),
                                         NUMBER(session, "rundown_events", rundown_events),
                                         NUMBER(session, "events", events),
                                         NUMBER(session, "written_buffers", written_buffers),
                                         NUMBER(session, "lost_events", lost_events),
                                         NUMBER(session, "lost_buffers", lost_buffers),
                                         NUMBER(session, "dropped_events", dropped_events),
                                         NUMBER(session, "refused_counters", refused_counters),
                                         NUMBER(session, "refused_parts", refused_parts),
                                         NUMBER(session, "ring_used_bytes", ring_used_bytes),
                                         NUMBER(session, "images_asked", images_asked),
                                         NUMBER(session, "images_told", images_told),
                                         NUMBER(session, "images_absent", images_absent),
                                         NUMBER(session, "images_refused", images_refused),
                                         NUMBER(session, "images_unreadable", images_unreadable),
                                         NUMBER(session, "images_other", images_other),
                                         NUMBER(session, "images_left_full", images_left_full),
                                         NUMBER(session, "images_left_end", images_left_end),
                                         {.name = NULL}};
static const ea_table SESSION = {.rows = SESSION_ROWS, .size = sizeof(session), .passes_unknown = 1};
static const ea_option RECORDER_ROWS[] = {NUMBER(recorder, "batches", batches),
                                          NUMBER(recorder, "events", events),
                                          NUMBER(recorder, "disk_bytes", disk_bytes),
                                          NUMBER(recorder, "limit_bytes", limit_bytes),
                                          NUMBER(recorder, "first_utc_ns", first_utc_ns),
                                          NUMBER(recorder, "events_recorded", recorded),
                                          NUMBER(recorder, "events_removed_size", removed_size),
                                          NUMBER(recorder, "events_removed_age", removed_age),
                                          NUMBER(recorder, "recorder_files_removed", files_removed),
                                          NUMBER(recorder, "recorder_earlier_removed", earlier_removed),
                                          NUMBER(recorder, "spool_torn_bytes", torn_bytes),
                                          NUMBER(recorder, "spool_bad_bytes", bad_bytes),
                                          NUMBER(recorder, "triggers_fired", fired),
                                          NUMBER(recorder, "triggers_limited", unfired),
                                          NUMBER(recorder, "events_triggered", sent_events),
                                          NUMBER(recorder, "batches_untriggered", unsent_batches),
                                          NUMBER(recorder, "windows_untriggered", unsent_windows),
                                          {.name = NULL}};
static const ea_table RECORDER = {.rows = RECORDER_ROWS, .size = sizeof(recorder), .passes_unknown = 1};
static const ea_option SOURCE_ROWS[] = {
    TEXT(source, "name", name),
    TEXT(source, "state", state),
    TEXT(source, "stream", stream),
    NUMBER(source, "progress_permille", progress_permille),
    NUMBER(source, "events_delivered", delivered),
    NUMBER(source, "events_synthesised", synthesised),
    NUMBER(source, "events_acknowledged", acknowledged),
    NUMBER(source, "events_pending", pending),
    NUMBER(source, "events_compressing", compressing),
    NUMBER(source, "events_spooled", spooled),
    NUMBER(source, "events_unanswered", unanswered),
    NUMBER(source, "events_evicted_size", evicted_size),
    NUMBER(source, "events_evicted_age", evicted_age),
    NUMBER(source, "events_evicted_damage", evicted_damage),
    NUMBER(source, "events_evicted_refused", evicted_refused),
    NUMBER(source, "events_dropped_oversize", dropped_oversize),
    NUMBER(source, "events_filtered", filtered),
    NUMBER(source, "events_sampled_out", sampled_out),
    NUMBER(source, "events_limited", limited),
    NUMBER(source, "events_repeated", repeated),
    NUMBER(source, "events_aggregated", aggregated),
    NUMBER(source, "events_redacted", redacted),
    NUMBER(source, "watch_skipped", watch_skipped),
    NUMBER(source, "watch_others", watch_others),
    NUMBER(source, "watch_dropped", watch_dropped),
    NUMBER(source, "watch_shipped", watch_shipped),
    NUMBER(source, "source_held_seconds", held_seconds),
    NUMBER(source, "source_paced_seconds", paced_seconds),
    NUMBER(source, "events_unrecorded", unrecorded),
    NUMBER(source, "channels", channels),
    NUMBER(source, "source_records_missing", records_missing),
    NUMBER(source, "source_parts_refused", session.refused_parts),
    NUMBER(source, "batches", batches),
    SWITCH(source, "ledger_balanced", balanced),
    TEXT(source, "error", error),
    TEXT(source, OLD_ERROR, error),
    {.name = "recorder", .type = EA_OPT_TABLE, .offset = offsetof(source, recorder), .table = &RECORDER, .help = ""},
    {.name = "session", .type = EA_OPT_TABLE, .offset = offsetof(source, session), .table = &SESSION, .help = ""},
    {.name = NULL}};
static const ea_table SOURCE = {.rows = SOURCE_ROWS, .size = sizeof(source), .passes_unknown = 1};
static const ea_option SPOOL_ROWS[] = {NUMBER(spool, "batches", batches),
                                       NUMBER(spool, "disk_bytes", disk_bytes),
                                       NUMBER(spool, "spool_torn_bytes", torn_bytes),
                                       NUMBER(spool, "spool_bad_bytes", bad_bytes),
                                       NUMBER(spool, "spool_locked_events", locked_events),
                                       TEXT(spool, "error", error),
                                       TEXT(spool, OLD_ERROR, error),
                                       {.name = NULL}};
static const ea_table SPOOL = {.rows = SPOOL_ROWS, .size = sizeof(spool), .passes_unknown = 1};
static const ea_option SHIPPING_ROWS[] = {NUMBER(shipping, "requests", requests),
                                          NUMBER(shipping, "failures", failures),
                                          NUMBER(shipping, "batches_sent", batches_sent),
                                          NUMBER(shipping, "batches_refused", batches_refused),
                                          NUMBER(shipping, "collector_moves", moves),
                                          NUMBER(shipping, "shipping_held_seconds", held_seconds),
                                          NUMBER(shipping, "sent_bytes", sent_bytes),
                                          TEXT(shipping, "collector", collector),
                                          TEXT(shipping, "error", error),
                                          TEXT(shipping, OLD_ERROR, error),
                                          {.name = NULL}};
static const ea_table SHIPPING = {.rows = SHIPPING_ROWS, .size = sizeof(shipping), .passes_unknown = 1};
static const ea_option REMOTE_ROWS[] = {SWITCH(remote, "accepts", accepts),
                                        NUMBER(remote, "requests_accepted", accepted),
                                        NUMBER(remote, "requests_refused_malformed", malformed),
                                        NUMBER(remote, "requests_refused_key", key),
                                        NUMBER(remote, "requests_refused_signature", signature),
                                        NUMBER(remote, "requests_refused_host", host),
                                        NUMBER(remote, "requests_refused_replayed", replayed),
                                        NUMBER(remote, "requests_refused_reordered", reordered),
                                        NUMBER(remote, "requests_refused_expired", expired),
                                        NUMBER(remote, "requests_refused_policy", policy),
                                        NUMBER(remote, "requests_refused_limits", limits),
                                        TEXT(remote, "error", error),
                                        {.name = NULL}};
static const ea_table REMOTE = {.rows = REMOTE_ROWS, .size = sizeof(remote), .passes_unknown = 1};
static const ea_option ENROLMENT_ROWS[] = {TEXT(enrolment, "state", state),
                                           TEXT(enrolment, "error", error),
                                           TEXT(enrolment, OLD_ERROR, error),
                                           NUMBER(enrolment, "until_utc_ns", until_utc_ns),
                                           {.name = NULL}};
static const ea_table ENROLMENT = {.rows = ENROLMENT_ROWS, .size = sizeof(enrolment), .passes_unknown = 1};
static const ea_option ROWS[] = {
    TEXT(status, "state", state),
    TEXT(status, "version", version),
    NUMBER(status, "pid", pid),
    TEXT(status, "configuration", config),
    TEXT(status, "error", error),
    TEXT(status, OLD_ERROR, error),
    NUMBER(status, "started_utc_ns", started_utc_ns),
    NUMBER(status, "written_utc_ns", written_utc_ns),
    NUMBER(status, "every_ns", every_ns),
    NUMBER(status, "reloads", reloads),
    NUMBER(status, "reloads_refused", reloads_refused),
    {.name = "sources", .type = EA_OPT_TABLES, .offset = offsetof(status, sources), .table = &SOURCE, .help = ""},
    {.name = "spool", .type = EA_OPT_TABLE, .offset = offsetof(status, spool), .table = &SPOOL, .help = ""},
    {.name = "shipping", .type = EA_OPT_TABLE, .offset = offsetof(status, shipping), .table = &SHIPPING, .help = ""},
    {.name = "remote", .type = EA_OPT_TABLE, .offset = offsetof(status, remote), .table = &REMOTE, .help = ""},
    {.name = "enrolment", .type = EA_OPT_TABLE, .offset = offsetof(status, enrolment), .table = &ENROLMENT, .help = ""},
    SWITCH(status, "ledger_balanced", balanced),
    {.name = NULL}};
static const ea_table STATUS = {.rows = ROWS, .size = sizeof(status), .passes_unknown = 1};

static void status_put_text(ea_text *t, const char *s) {
    ea_text_safe(t, s ? s : "", s ? strlen(s) : 0);
}

static void status_describe_session(const session *s, ea_text *t) {
    ea_text_str(t, "  in Windows ");
    status_put_text(t, s->name);
    ea_text_printf(t,
                   "%s: %" PRIu64 " to %" PRIu64 " buffers of %" PRIu64 " KiB, %" PRIu64 " written, started %" PRIu64
                   " times\n",
                   s->runs ? "" : ", which does not run now", s->min_buffers, s->max_buffers, s->buffer_bytes / 1024,
                   s->written_buffers, s->starts);
    if (s->lost_events || s->lost_buffers || s->dropped_events)
        ea_text_printf(t,
                       "  Windows lost %" PRIu64 " events and %" PRIu64 " buffers; %" PRIu64
                       " events were dropped since the ring was full\n",
                       s->lost_events, s->lost_buffers, s->dropped_events);
    if (s->refused_counters || s->refused_parts)
        ea_text_printf(t,
                       "  refused, and left out: %" PRIu64 " performance counters, %" PRIu64
                       " providers, filters, flags or stacks; the log says which and why\n",
                       s->refused_counters, s->refused_parts);
    uint64_t failed = s->images_absent + s->images_refused + s->images_unreadable + s->images_other,
             left = s->images_left_full + s->images_left_end, answered = s->images_told + failed + left;
    if (s->images_asked)
        ea_text_printf(t,
                       "  images of %" PRIu64 " modules: %" PRIu64 " recorded, %" PRIu64 " wait, %" PRIu64
                       " could not be read, %" PRIu64 " were left out\n",
                       s->images_asked, s->images_told, s->images_asked > answered ? s->images_asked - answered : 0,
                       failed, left);
}

static void describe_recorder(const recorder *r, ea_text *t) {
    ea_text_printf(t, "  recorder: %" PRIu64 " events, %.1f of %.1f MiB, ", r->events,
                   (double)r->disk_bytes / 1048576.0, (double)r->limit_bytes / 1048576.0);
    if (r->first_utc_ns) {
        ea_text_str(t, "from ");
        ea_text_utc_ns(t, (int64_t)r->first_utc_ns);
        ea_text_str(t, " to now");
    } else {
        ea_text_str(t, "empty");
    }
    ea_text_printf(t, "; removed: %" PRIu64 "\n", r->removed_size + r->removed_age + r->earlier_removed);
    if (r->fired || r->unfired || r->sent_events)
        ea_text_printf(
            t, "  triggers fired %" PRIu64 " times, %" PRIu64 " more at their limits; %" PRIu64 " events were sent\n",
            r->fired, r->unfired, r->sent_events);
    if (r->unsent_batches || r->unsent_windows)
        ea_text_printf(t, "  not sent: %" PRIu64 " windows, and %" PRIu64 " batches of others\n", r->unsent_windows,
                       r->unsent_batches);
}

static void describe_source(const source *s, ea_text *t) {
    int is_session = s->session.name && *s->session.name;
    ea_text_str(t, is_session ? "session " : "source ");
    status_put_text(t, s->name);
    ea_text_str(t, ": ");
    status_put_text(t, s->state);
    if (!is_session && !s->channels)
        ea_text_printf(t, " (%.1f %%)", (double)s->progress_permille / 10);
    ea_text_printf(t, ", %" PRIu64 " events, %" PRIu64 " acknowledged\n", s->delivered, s->acknowledged);
    if (is_session)
        status_describe_session(&s->session, t);
    else if (s->session.refused_parts)
        ea_text_printf(t, "  failures to read a channel: %" PRIu64 "; the log says which and why\n",
                       s->session.refused_parts);
    if (s->recorder.limit_bytes)
        describe_recorder(&s->recorder, t);
    uint64_t lost = s->evicted_size + s->evicted_age + s->evicted_damage + s->evicted_refused + s->dropped_oversize +
                    s->records_missing + s->unrecorded;
    if (lost)
        ea_text_printf(t, "  lost: %" PRIu64 " events\n", lost);
    if (s->error && *s->error) {
        ea_text_str(t, "  error: ");
        status_put_text(t, s->error);
        ea_text_char(t, '\n');
    }
}

static void describe_remote(const remote *r, ea_text *t) {
    uint64_t refused = r->malformed + r->key + r->signature + r->host + r->replayed + r->reordered + r->expired +
                       r->policy + r->limits;
    if (r->accepts)
        ea_text_printf(t, "requests of the collector: %" PRIu64 " accepted, %" PRIu64 " refused\n", r->accepted,
                       refused);
}

static void describe_enrolment(const enrolment *e, ea_text *t) {
    if (!e->state)
        return;
    if (strcmp(e->state, "waiting") == 0) {
        ea_text_str(t, "waits for enrolment: it has no certificate that is valid\n");
        return;
    }
    ea_text_str(t, "enrolled, until ");
    ea_text_utc_ns(t, (int64_t)e->until_utc_ns);
    ea_text_char(t, '\n');
}

static int is_waiting(const status *s) {
    return s->state && strcmp(s->state, "waiting") == 0;
}

static void status_describe(const status *s, int runs, ea_text *t) {
    if (runs && is_waiting(s)) {
        ea_text_printf(t, "etwagent waits for its configuration, process %" PRIu64 ": ", s->pid);
        status_put_text(t, s->error);
        ea_text_char(t, '\n');
        return;
    }
    if (runs)
        ea_text_printf(t, "etwagent runs, process %" PRIu64 ", since %.0f s\n", s->pid,
                       ((double)ea_utc_ns() - (double)s->started_utc_ns) / 1e9);
    else if (strcmp(s->state ? s->state : "", "stopped") == 0)
        ea_text_str(t, "etwagent was stopped\n");
    else
        ea_text_printf(t, "etwagent does not run: its last word is %.0f s old\n",
                       ((double)ea_utc_ns() - (double)s->written_utc_ns) / 1e9);
    for (size_t i = 0; i < s->sources.count; i++)
        describe_source((const source *)s->sources.items + i, t);
    ea_text_printf(t, "spool: %" PRIu64 " batches wait, %.1f MiB\n", s->spool.batches,
                   (double)s->spool.disk_bytes / 1048576.0);
    const char *collector = s->shipping.collector ? s->shipping.collector : "";
    ea_text_str(t, *collector ? "shipping to " : "shipping to no collector");
    status_put_text(t, collector);
    ea_text_printf(t, ": %" PRIu64 " requests, %" PRIu64 " failed\n", s->shipping.requests, s->shipping.failures);
    describe_remote(&s->remote, t);
    describe_enrolment(&s->enrolment, t);
    const char *const errors[] = {s->spool.error, s->shipping.error, s->remote.error, s->enrolment.error};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i] && *errors[i]) {
            ea_text_str(t, "  error: ");
            status_put_text(t, errors[i]);
            ea_text_char(t, '\n');
        }
    if (!s->balanced)
        ea_text_str(t, "the ledger does not balance\n");
}

/* What the running service says of itself; 0: there is none, or not for this user. */
static int ask_service(char **ret_text, size_t *ret_len_bytes) {
#if defined(_WIN32)
    ea_text t;
    ea_err err = {0};
    ea_text_init(&t);
    int rc = ea_pipe_ask(EA_STATUS_PIPE, &t, &err);
    /* a service that does not run, or that this user may not ask, is no error: the status file is read instead */
    if (rc == EA_ETIMEOUT || (rc == EA_EREFUSED && !err.os_error))
        fprintf(stderr, "etwagent: %s; what follows is from the status file\n", err.message);
    if (!rc && (*ret_text = malloc(t.len_bytes + 1)) != NULL) {
        memcpy(*ret_text, t.data, t.len_bytes);
        (*ret_text)[t.len_bytes] = 0;
        *ret_len_bytes = t.len_bytes;
    }
    ea_text_deinit(&t);
#else
    (void)ret_len_bytes;
#endif
    return *ret_text != NULL;
}

/* ---- metrics ---- */

/* Since when each recorder has events; those that have none are left out. */
static void put_reach(const status *s, int open_metrics, ea_text *t) {
    static const char NAME[] = "etwagent_recorder_oldest_timestamp_seconds";
    int any = 0;
    for (size_t i = 0; i < s->sources.count; i++) {
        const source *at = (const source *)s->sources.items + i;
        if (!at->recorder.first_utc_ns)
            continue;
        if (!any++)
            ea_exposition_head(t, open_metrics, NAME, EA_GAUGE, "the time of the oldest event that a recorder has");
        ea_text_printf(t, "%s{source=\"", NAME);
        ea_exposition_label(t, at->name ? at->name : "");
        ea_text_printf(t, "\"} %.3f\n", (double)at->recorder.first_utc_ns / 1e9);
    }
}

static void put_sources(const status *s, int open_metrics, ea_text *t) {
    static const struct {
        const char *name, *help;
        enum ea_metric_type type;
        size_t offset;
    } NUMBERS[] = {
        {"etwagent_events_delivered_total", "events that the source handed over", EA_COUNTER,
         offsetof(source, delivered)},
        {"etwagent_events_synthesised_total", "events that the agent made itself: keyframes", EA_COUNTER,
         offsetof(source, synthesised)},
        {"etwagent_events_acknowledged_total", "events in batches that a collector has acknowledged", EA_COUNTER,
         offsetof(source, acknowledged)},
        {"etwagent_events_pending", "events parked or in the open batch", EA_GAUGE, offsetof(source, pending)},
        {"etwagent_events_compressing", "events in batches that are being compressed", EA_GAUGE,
         offsetof(source, compressing)},
        {"etwagent_events_spooled", "events in batches that wait in the spool, not sent yet", EA_GAUGE,
         offsetof(source, spooled)},
        {"etwagent_events_unanswered", "events in batches sent and not answered yet", EA_GAUGE,
         offsetof(source, unanswered)},
        {"etwagent_events_evicted_size_total", "events in batches evicted because the spool was full", EA_COUNTER,
         offsetof(source, evicted_size)},
        {"etwagent_events_evicted_age_total", "events in batches evicted because they were too old", EA_COUNTER,
         offsetof(source, evicted_age)},
        {"etwagent_events_evicted_damage_total", "events in batches that the spool could not read back", EA_COUNTER,
         offsetof(source, evicted_damage)},
        {"etwagent_events_evicted_refused_total", "events in batches that a collector refused for good", EA_COUNTER,
         offsetof(source, evicted_refused)},
        {"etwagent_events_dropped_oversize_total", "events dropped because they exceed the format's limits", EA_COUNTER,
         offsetof(source, dropped_oversize)},
        {"etwagent_events_filtered_total", "events dropped by the conditions of a filter in the configuration",
         EA_COUNTER, offsetof(source, filtered)},
        {"etwagent_events_sampled_out_total", "events dropped by a filter's sampling", EA_COUNTER,
         offsetof(source, sampled_out)},
        {"etwagent_events_limited_total", "events dropped because a filter's limit of a second was reached", EA_COUNTER,
         offsetof(source, limited)},
        {"etwagent_events_repeated_total", "events dropped because a filter's repeat had kept an equal one", EA_COUNTER,
         offsetof(source, repeated)},
        {"etwagent_events_aggregated_total",
         "events that do not travel because a program in the configuration aggregated them", EA_COUNTER,
         offsetof(source, aggregated)},
        {"etwagent_events_redacted_total", "events of which a filter replaced fields", EA_COUNTER,
         offsetof(source, redacted)},
        {"etwagent_watch_skipped_total",
         "statements of programs that were skipped: their events lack a value, or they divide by zero", EA_COUNTER,
         offsetof(source, watch_skipped)},
        {"etwagent_watch_others_total",
         "values that programs counted under others: the limit of keys or of memory was reached", EA_COUNTER,
         offsetof(source, watch_others)},
        {"etwagent_watch_dropped_total", "variables, texts and prints of programs that were dropped at a limit",
         EA_COUNTER, offsetof(source, watch_dropped)},
        {"etwagent_watch_shipped_total", "events that a program raised to the priority security: ship()", EA_COUNTER,
         offsetof(source, watch_shipped)},
        {"etwagent_source_counters_refused_total",
         "performance counters and sampled sources that a session's start asked for and could not have", EA_COUNTER,
         offsetof(source, session.refused_counters)},
        {"etwagent_source_parts_refused_total",
         "providers, filters, flags and stacks that Windows refused a session, and channels of the event log",
         EA_COUNTER, offsetof(source, session.refused_parts)},
        {"etwagent_source_held_seconds_total",
         "seconds that the source waited for its encoders, or for room in the spool", EA_COUNTER,
         offsetof(source, held_seconds)},
        {"etwagent_source_paced_seconds_total", "seconds that a file was left alone to keep to cpu-percent", EA_COUNTER,
         offsetof(source, paced_seconds)},
        {"etwagent_source_records_missing_total",
         "records that a channel of the event log no longer had when it was read, by their numbers", EA_COUNTER,
         offsetof(source, records_missing)},
        {"etwagent_source_batches_total", "batches of the source", EA_COUNTER, offsetof(source, batches)},
        {"etwagent_events_recorded", "events of this run in batches that a recorder keeps on this machine", EA_GAUGE,
         offsetof(source, recorder.recorded)},
        {"etwagent_events_removed_size_total", "events in batches that a full recorder removed", EA_COUNTER,
         offsetof(source, recorder.removed_size)},
        {"etwagent_events_removed_age_total", "events in batches that a recorder removed as too old", EA_COUNTER,
         offsetof(source, recorder.removed_age)},
        {"etwagent_events_unrecorded_total", "events in batches for which a recorder found no room on the disk",
         EA_COUNTER, offsetof(source, unrecorded)},
        {"etwagent_recorder_files_removed_total", "files that a recorder removed: it was full, or they were too old",
         EA_COUNTER, offsetof(source, recorder.files_removed)},
        {"etwagent_recorder_earlier_removed_total",
         "events of earlier runs that a recorder removed: their own ledgers have ended", EA_COUNTER,
         offsetof(source, recorder.earlier_removed)},
        {"etwagent_triggers_fired_total", "times a trigger fired, whose window of the recorder is sent", EA_COUNTER,
         offsetof(source, recorder.fired)},
        {"etwagent_triggers_limited_total", "times a trigger did not fire: its limit or its cooldown", EA_COUNTER,
         offsetof(source, recorder.unfired)},
        {"etwagent_events_triggered_total", "events of a recorder that triggers sent, beside those that it keeps",
         EA_COUNTER, offsetof(source, recorder.sent_events)},
        {"etwagent_batches_untriggered_total", "batches of a trigger's window that the recorder did not have",
         EA_COUNTER, offsetof(source, recorder.unsent_batches)},
        {"etwagent_windows_untriggered_total",
         "windows of triggers that were not sent: the recorder had nothing of them, or too many waited", EA_COUNTER,
         offsetof(source, recorder.unsent_windows)},
        {"etwagent_recorder_events", "events that the recorder has, of earlier runs too", EA_GAUGE,
         offsetof(source, recorder.events)},
        {"etwagent_recorder_size_bytes", "bytes of the recorder on disk", EA_GAUGE,
         offsetof(source, recorder.disk_bytes)},
    };

    for (size_t k = 0; k < sizeof NUMBERS / sizeof *NUMBERS && s->sources.count; k++) {
        ea_exposition_head(t, open_metrics, NUMBERS[k].name, NUMBERS[k].type, NUMBERS[k].help);
        for (size_t i = 0; i < s->sources.count; i++) {
            const source *at = (const source *)s->sources.items + i;
            uint64_t value;
            memcpy(&value, (const char *)at + NUMBERS[k].offset, sizeof value);
            ea_text_printf(t, "%s{source=\"", NUMBERS[k].name);
            ea_exposition_label(t, at->name ? at->name : "");
            ea_text_printf(t, "\"} %" PRIu64 "\n", value);
        }
    }
    put_reach(s, open_metrics, t);
}

static void put_metrics(const status *s, int runs, int open_metrics, ea_text *t) {
    const struct {
        const char *name, *help;
        enum ea_metric_type type;
        uint64_t value;
    } numbers[] = {
        {"etwagent_up", "1 while the agent runs", EA_GAUGE, (uint64_t)runs},
        {"etwagent_ledger_balanced", "1 while the equations hold", EA_GAUGE, (uint64_t)(s->balanced != 0)},
        {"etwagent_sources", "sources that the configuration names", EA_GAUGE, s->sources.count},
        {"etwagent_spool_batches", "batches that wait in the spool", EA_GAUGE, s->spool.batches},
        {"etwagent_spool_size_bytes", "bytes of the spool on disk", EA_GAUGE, s->spool.disk_bytes},
        {"etwagent_spool_torn_bytes_total", "bytes of half-written batches cut off the spool after a crash", EA_COUNTER,
         s->spool.torn_bytes},
        {"etwagent_spool_bad_bytes_total", "bytes inside the spool that could not be read back", EA_COUNTER,
         s->spool.bad_bytes},
        {"etwagent_spool_locked_events_total", "events in the spool when it was opened that none of its keys opens",
         EA_COUNTER, s->spool.locked_events},
        {"etwagent_batches_sent_total", "batches sent, repeats included", EA_COUNTER, s->shipping.batches_sent},
        {"etwagent_batches_refused_total", "batches that a collector refused for good", EA_COUNTER,
         s->shipping.batches_refused},
        {"etwagent_collector_moves_total", "times that the agent switched to another collector", EA_COUNTER,
         s->shipping.moves},
        {"etwagent_shipping_held_seconds_total",
         "seconds that nothing was sent since a collector had asked for a pause", EA_COUNTER, s->shipping.held_seconds},
        {"etwagent_requests_total", "upload requests sent", EA_COUNTER, s->shipping.requests},
        {"etwagent_requests_failed_total", "upload requests that failed", EA_COUNTER, s->shipping.failures},
        {"etwagent_sent_bytes_total", "bytes of upload requests", EA_COUNTER, s->shipping.sent_bytes},
        {"etwagent_remote_requests_accepted_total", "requests of a collector that were accepted", EA_COUNTER,
         s->remote.accepted},
        {"etwagent_remote_requests_refused_malformed_total", "requests of a collector that were refused: no valid form",
         EA_COUNTER, s->remote.malformed},
        {"etwagent_remote_requests_refused_key_total",
         "requests of a collector that were refused: signed by another key", EA_COUNTER, s->remote.key},
        {"etwagent_remote_requests_refused_signature_total",
         "requests of a collector that were refused: a wrong signature", EA_COUNTER, s->remote.signature},
        {"etwagent_remote_requests_refused_host_total", "requests of a collector that were refused: of other hosts",
         EA_COUNTER, s->remote.host},
        {"etwagent_remote_requests_refused_replayed_total",
         "requests of a collector that were refused: they came before", EA_COUNTER, s->remote.replayed},
        {"etwagent_remote_requests_refused_reordered_total",
         "requests of a collector that were refused: a later one came before", EA_COUNTER, s->remote.reordered},
        {"etwagent_remote_requests_refused_expired_total", "requests of a collector that were refused: expired",
         EA_COUNTER, s->remote.expired},
        {"etwagent_remote_requests_refused_policy_total", "requests of a collector that were refused: not allowed",
         EA_COUNTER, s->remote.policy},
        {"etwagent_remote_requests_refused_limits_total", "requests of a collector that were refused: beyond limits",
         EA_COUNTER, s->remote.limits},
        {"etwagent_reloads_total", "times that the configuration was read again", EA_COUNTER, s->reloads},
        {"etwagent_reloads_refused_total", "times that it could not be used", EA_COUNTER, s->reloads_refused},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ea_exposition_head(t, open_metrics, numbers[i].name, numbers[i].type, numbers[i].help);
        ea_text_printf(t, "%s %" PRIu64 "\n", numbers[i].name, numbers[i].value);
    }
    ea_exposition_head(t, open_metrics, "etwagent_start_time_seconds", EA_GAUGE, "when the agent was started");
    ea_text_printf(t, "etwagent_start_time_seconds %.3f\n", (double)s->started_utc_ns / 1e9);
    ea_exposition_head(t, open_metrics, "etwagent_status_timestamp_seconds", EA_GAUGE, "when these numbers were taken");
    ea_text_printf(t, "etwagent_status_timestamp_seconds %.3f\n", (double)s->written_utc_ns / 1e9);
    if (s->enrolment.until_utc_ns) {
        ea_exposition_head(t, open_metrics, "etwagent_certificate_end_timestamp_seconds", EA_GAUGE,
                           "when the agent's certificate ends, where the agent renews it");
        ea_text_printf(t, "etwagent_certificate_end_timestamp_seconds %.0f\n", (double)s->enrolment.until_utc_ns / 1e9);
    }
    put_sources(s, open_metrics, t);
    ea_exposition_end(t, open_metrics);
}

/* *ret_runs: it has written the file when it should have. */
static int status_look(const options *o, ea_text *t, int *ret_runs, ea_err *err) {
    char path[EA_AGENT_PATH_BYTES], *text = NULL;
    size_t len_bytes = 0;
    ea_config *memory;
    status s = {0};
    int rc = ea_agent_file_path(o->file, "status.json", path, err);
    int asked = !rc && !o->file && ask_service(&text, &len_bytes);
    if (!rc && !asked)
        rc = ea_path_read_all(path, STATUS_MAX, &text, &len_bytes, err);
    if (rc)
        return rc;
    rc = ea_config_parse(&memory, path, text, len_bytes, &STATUS, &s, NULL, NULL, err);
    if (!rc) {
        uint64_t now = (uint64_t)ea_utc_ns(), patience_ns = 3 * s.every_ns + (uint64_t)1000000000;
        *ret_runs =
            s.state && (strcmp(s.state, "running") == 0 || is_waiting(&s)) && now - s.written_utc_ns < patience_ns;
        if (o->json)
            ea_text_add(t, text, len_bytes);
        else if (o->metrics || o->open_metrics)
            put_metrics(&s, *ret_runs, o->open_metrics, t);
        else
            status_describe(&s, *ret_runs, t);
        ea_config_destroy(memory);
    }
    free(text);
    return rc;
}

/* The metrics of an agent that has no status: they say that it does not run, so that an alert can be raised. */
static int put_absence(const options *o, ea_text *t) {
    if (!o->metrics && !o->open_metrics)
        return 0;
    ea_text_clear(t);
    ea_exposition_head(t, o->open_metrics, "etwagent_up", EA_GAUGE, "1 while the agent runs");
    ea_text_str(t, "etwagent_up 0\n");
    ea_exposition_end(t, o->open_metrics);
    return 1;
}

static int put_out(const options *o, const ea_text *t, ea_err *err) {
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "print");
    if (o->output)
        return ea_path_write_all(o->output, t->data, t->len_bytes, 0, err);
    if (fwrite(t->data, 1, t->len_bytes, stdout) != t->len_bytes || fflush(stdout))
        return ea_fail(err, EA_EIO, "write to standard output");
    return 0;
}

static int print_status(const options *o, int *ret_runs, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    int rc = status_look(o, &t, ret_runs, err);
    if (rc && o->every && put_absence(o, &t))
        rc = 0;
    if (!rc)
        rc = put_out(o, &t, err);
    ea_text_deinit(&t);
    return rc;
}

/* What a scraper gets; arg: the options. */
static void put_scrape(void *arg, int open_metrics, ea_text *t) {
    options o = *(const options *)arg;
    int runs = 0;
    ea_err ignored;
    o.json = 0;
    o.metrics = !open_metrics;
    o.open_metrics = open_metrics;
    if (status_look(&o, t, &runs, &ignored))
        (void)put_absence(&o, t);
}

static int status_serve(const options *o, ea_err *err) {
    ea_metrics_server *server = NULL;
    options copy = *o;
    if (o->output || o->every || o->json)
        return ea_fail(err, EA_EUSAGE, "--listen: expected without --output, --every and --json");
    int rc = ea_metrics_server_open(&server, o->listen, err);
    if (rc)
        return rc;
    const atomic_int *stop = ea_stop_flag();
    printf("metrics at %s\n", ea_metrics_server_url(server));
    fflush(stdout);
    while (!atomic_load(stop))
        ea_metrics_server_serve(server, STOP_POLL_NS, put_scrape, &copy);
    ea_metrics_server_close(server);
    return 0;
}

static int status_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    int runs = 0, rc = 0;
    (void)operand_count;
    (void)operands;
    if (o->listen) {
        rc = status_serve(o, &err);
        if (rc)
            ea_err_print(stderr, "etwagent", &err);
        return rc ? ea_exit_code(rc) : 0;
    }
    if (o->every && !o->output)
        rc = ea_fail(&err, EA_EUSAGE, "--every: needs --output");
    if (o->every)
        (void)ea_stop_flag();
    if (!rc)
        rc = print_status(o, &runs, &err);
    for (int64_t next = ea_monotonic_ns() + o->every; !rc && o->every && !atomic_load(ea_stop_flag());) {
        ea_sleep_ns(STOP_POLL_NS);
        if (ea_monotonic_ns() < next)
            continue;
        next += o->every;
        rc = print_status(o, &runs, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    return rc ? ea_exit_code(rc) : !runs && !o->every;
}

const ea_command ea_cmd_status = {
    .name = "status",
    .operands = "",
    .summary = "Print the state of the agent that runs on this machine",
    .details = "Prints what the agent has written into its status file; on Windows a running service is asked first, "
               "by a named pipe,\n"
               "unless --file is given. Exit code 0: an agent runs, or waits for its configuration (the reason is "
               "printed); 1: none runs, or its status is too old.\n"
               "For node_exporter or windows_exporter, whose textfile collector reads files in a folder:\n"
               "\n"
               "  etwagent status --metrics --output FOLDER/etwagent.prom --every 15s\n"
               "\n"
               "replaces the file as a whole until Ctrl-C; without a status the file has etwagent_up 0. For a "
               "Prometheus on this machine\n"
               "\n"
               "  etwagent status --listen 127.0.0.1:9464\n"
               "\n"
               "serves the same at /metrics, as Prometheus' text or as OpenMetrics, as the request asks. The agent "
               "itself opens no port.\n"
               "\n" EA_AGENT_STATUS_TEXT,
    .options = (const ea_option[]){{.name = "file",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, file),
                                    .help = "the status file; default: status.json in the folder for state"},
                                   {.name = "json",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, json),
                                    .help = "print the file as it is, one JSON object"},
                                   {.name = "metrics",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, metrics),
                                    .help = "print metrics in the text format of Prometheus"},
                                   {.name = "open-metrics",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, open_metrics),
                                    .help = "print metrics in the text format of OpenMetrics"},
                                   {.name = "output",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, output),
                                    .help = "write the metrics to this file, which is replaced as a whole"},
                                   {.name = "every",
                                    .argument = "TIME",
                                    .type = EA_OPT_DURATION,
                                    .offset = offsetof(options, every),
                                    .min = 1000000000,
                                    .help = "write the file again at this interval, until Ctrl-C"},
                                   {.name = "listen",
                                    .argument = "ADDRESS",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, listen),
                                    .help = "serve /metrics at this address on loopback until Ctrl-C"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = status_run,
};
