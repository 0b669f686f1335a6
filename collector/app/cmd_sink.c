/* etwcollector sink status, replay, skip: how far sinks have got, and moving their places. Called by: main.c. Calls:
 * collector/sink (outbox.h), collector/state (sink_places.h). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/query/scan/archive.h"
#include "collector/sink/sink.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink_options {
    const char *store, *name, *time;
    int json, all;
} sink_options;

/* ---- status ---- */

typedef struct status {
    const sink_options *options;
    ec_outbox *outbox;
    ec_sinks *sinks;
    ec_sink_row row;
    ec_sink_apart *apart;
    size_t apart_count;
    ea_text out, streams, waiting;
    char waiting_host[256]; /* whose runs are summed up */
    int is_waiting_apart;
    uint64_t host_events, host_bytes;
    int64_t host_since_utc_ns;
    int is_running;
    uint64_t sink_count, stream_count;
    uint64_t counts[EC_SINK_FATE_COUNT], waiting_batches, waiting_events, waiting_bytes;
    int64_t waiting_since_utc_ns;
    ea_err *err;
} status;

/* An agent for which something waits, and whether it is sent apart from the others. */
static void status_end_host(status *t) {
    if (!t->host_events)
        return;
    if (t->options->json) {
        ea_text_str(&t->waiting, t->waiting.len_bytes ? ", {\"host\": " : "{\"host\": ");
        ea_text_json_str(&t->waiting, t->waiting_host);
        ea_text_printf(&t->waiting, ", \"apart\": %s, \"waiting_events\": %" PRIu64 ", \"waiting_bytes\": %" PRIu64,
                       t->is_waiting_apart ? "true" : "false", t->host_events, t->host_bytes);
        ec_json_time(&t->waiting, "waiting_since", t->host_since_utc_ns, 1);
        ea_text_char(&t->waiting, '}');
    } else if (t->is_waiting_apart) {
        ea_text_str(&t->waiting, "  apart: host ");
        ea_text_safe(&t->waiting, t->waiting_host, strlen(t->waiting_host));
        ea_text_printf(&t->waiting, ", %" PRIu64 " events wait, %" PRIu64 " bytes, since ", t->host_events,
                       t->host_bytes);
        ea_text_utc_ns(&t->waiting, t->host_since_utc_ns);
        ea_text_char(&t->waiting, '\n');
    }
    t->host_events = t->host_bytes = 0;
}

static void status_add_host(status *t, const ec_outbox_stream *s) {
    if (strcmp(t->waiting_host, s->host) != 0) {
        status_end_host(t);
        snprintf(t->waiting_host, sizeof t->waiting_host, "%s", s->host);
        t->host_since_utc_ns = INT64_MAX;
        t->is_waiting_apart = 0;
        for (size_t i = 0; i < t->apart_count; i++)
            t->is_waiting_apart |= strcmp(t->apart[i].host, s->host) == 0;
    }
    t->host_events += s->waiting_events;
    t->host_bytes += s->waiting_bytes;
    if (s->waiting_since_utc_ns < t->host_since_utc_ns)
        t->host_since_utc_ns = s->waiting_since_utc_ns;
}

static int status_on_waiting(const ec_outbox_stream *s, void *arg) {
    status *t = arg;
    status_add_host(t, s);
    t->waiting_batches += s->waiting_batches;
    t->waiting_events += s->waiting_events;
    t->waiting_bytes += s->waiting_bytes;
    if (s->waiting_since_utc_ns < t->waiting_since_utc_ns)
        t->waiting_since_utc_ns = s->waiting_since_utc_ns;
    return 0;
}

/* Runs of which something did not arrive are listed. */
static int status_on_stream(const ec_sink_stream *s, void *arg) {
    static const enum ec_sink_fate LACKING[] = {EC_SINK_refused, EC_SINK_damaged, EC_SINK_skipped, EC_SINK_removed};

    status *t = arg;
    int is_listed = 0;
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        t->counts[i] += s->counts[i];
    for (size_t i = 0; i < sizeof LACKING / sizeof *LACKING; i++)
        is_listed |= s->counts[LACKING[i]] != 0;
    if (!is_listed)
        return 0;
    if (t->options->json) {
        ea_text_str(&t->streams, t->stream_count++ ? ", {\"host\": " : "{\"host\": ");
        ea_text_json_str(&t->streams, s->host);
        ea_text_str(&t->streams, ", \"stream\": ");
        ea_text_json_str(&t->streams, s->stream);
    } else {
        ea_text_str(&t->streams, "  of host ");
        ea_text_safe(&t->streams, s->host, strlen(s->host));
        ea_text_str(&t->streams, ", stream ");
        ea_text_safe(&t->streams, s->stream, strlen(s->stream));
    }
    for (size_t i = 0; i < sizeof LACKING / sizeof *LACKING; i++)
        if (t->options->json)
            ea_text_printf(&t->streams, ", \"%s\": %" PRIu64, ec_sink_fate_name(LACKING[i]), s->counts[LACKING[i]]);
        else if (s->counts[LACKING[i]])
            ea_text_printf(&t->streams, ", %" PRIu64 " %s", s->counts[LACKING[i]], ec_sink_fate_name(LACKING[i]));
    ea_text_char(&t->streams, t->options->json ? '}' : '\n');
    return 0;
}

static void status_add_json(status *t) {
    const ec_sink_row *r = &t->row;
    ea_text_str(&t->out, t->sink_count ? ",\n  {\"name\": " : "\n  {\"name\": ");
    ea_text_json_str(&t->out, r->name);
    ea_text_str(&t->out, ", \"kind\": ");
    ea_text_json_str(&t->out, r->kind);
    ea_text_str(&t->out, ", \"receiver\": ");
    ea_text_json_str(&t->out, r->receiver);
    ea_text_str(&t->out, t->is_running ? ", \"running\": true" : ", \"running\": false");
    ea_text_printf(&t->out,
                   ", \"place\": {\"segment\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"position\": %" PRIu64 "}",
                   r->place.segment, r->place.offset, r->place.position);
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        ea_text_printf(&t->out, ", \"%s\": %" PRIu64, ec_sink_fate_name(i), t->counts[i]);
    ea_text_printf(&t->out,
                   ", \"retried\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"redacted_values\": %" PRIu64
                   ", \"waiting_events\": %" PRIu64 ", \"waiting_batches\": %" PRIu64 ", \"waiting_bytes\": %" PRIu64,
                   r->retried_count, r->request_count, r->redacted_count, t->waiting_events, t->waiting_batches,
                   t->waiting_bytes);
    ec_json_time(&t->out, "waiting_since", t->waiting_since_utc_ns, t->waiting_batches > 0);
    ec_json_time(&t->out, "created", r->created_utc_ns, 1);
    ec_json_time(&t->out, "last_sent", r->sent_utc_ns, r->sent_utc_ns != 0);
    ec_json_time(&t->out, "last_error_time", r->error_utc_ns, r->error_utc_ns != 0);
    ea_text_str(&t->out, ", \"last_error\": ");
    ea_text_json_str(&t->out, *r->error ? r->error : NULL);
    ea_text_str(&t->out, ", \"last_refusal\": ");
    ea_text_json_str(&t->out, *r->refusal ? r->refusal : NULL);
    ea_text_str(&t->out, ", \"hosts\": [");
    ea_text_add(&t->out, t->waiting.len_bytes ? t->waiting.data : "", t->waiting.len_bytes);
    ea_text_str(&t->out, "], \"streams\": [");
    ea_text_add(&t->out, t->streams.len_bytes ? t->streams.data : "", t->streams.len_bytes);
    ea_text_str(&t->out, "]}");
}

static void status_add_text(status *t) {
    const ec_sink_row *r = &t->row;
    ea_text_printf(&t->out, "%s (%s) to ", r->name, r->kind);
    ea_text_safe(&t->out, r->receiver, strlen(r->receiver));
    ea_text_str(&t->out, t->is_running ? ", runs\n " : ", does not run\n ");
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        ea_text_printf(&t->out, "%s %" PRIu64 " %s", i ? "," : "", t->counts[i], ec_sink_fate_name(i));
    ea_text_printf(&t->out, "\n  %" PRIu64 " events in %" PRIu64 " batches wait, %" PRIu64 " bytes", t->waiting_events,
                   t->waiting_batches, t->waiting_bytes);
    if (t->waiting_batches) {
        ea_text_str(&t->out, ", since ");
        ea_text_utc_ns(&t->out, t->waiting_since_utc_ns);
    }
    ea_text_printf(&t->out, "\n  %" PRIu64 " requests, %" PRIu64 " rows sent again", r->request_count,
                   r->retried_count);
    if (r->redacted_count)
        ea_text_printf(&t->out, ", %" PRIu64 " values redacted", r->redacted_count);
    if (r->sent_utc_ns) {
        ea_text_str(&t->out, "\n  last accepted ");
        ea_text_utc_ns(&t->out, r->sent_utc_ns);
    }
    if (r->error_utc_ns) {
        ea_text_str(&t->out, "\n  last failure ");
        ea_text_utc_ns(&t->out, r->error_utc_ns);
        ea_text_str(&t->out, ": ");
        ea_text_safe(&t->out, r->error, strlen(r->error));
    }
    if (*r->refusal) {
        ea_text_str(&t->out, "\n  last refusal ");
        ea_text_safe(&t->out, r->refusal, strlen(r->refusal));
    }
    ea_text_char(&t->out, '\n');
    ea_text_add(&t->out, t->waiting.len_bytes ? t->waiting.data : "", t->waiting.len_bytes);
    ea_text_add(&t->out, t->streams.len_bytes ? t->streams.data : "", t->streams.len_bytes);
}

static int status_on_sink(const ec_sink_row *row, void *arg) {
    status *t = arg;
    if (t->options->name && strcmp(t->options->name, row->name) != 0)
        return 0;
    t->row = *row;
    memset(t->counts, 0, sizeof t->counts);
    t->waiting_batches = t->waiting_events = t->waiting_bytes = t->stream_count = 0;
    t->waiting_since_utc_ns = INT64_MAX;
    t->is_running = ec_sinks_is_locked(t->options->store, row->name);
    ea_text_clear(&t->streams);
    ea_text_clear(&t->waiting);
    *t->waiting_host = 0;
    free(t->apart);
    t->apart = NULL;
    int rc = ec_sinks_each_stream(t->sinks, row->name, status_on_stream, t, t->err);
    if (!rc)
        rc = ec_sinks_read_apart(t->sinks, row->name, &t->apart, &t->apart_count, t->err);
    if (!rc)
        rc = ec_outbox_measure(t->outbox, &(ec_outbox_places){row->place, t->apart, t->apart_count}, status_on_waiting,
                               t, t->err);
    status_end_host(t);
    if (rc)
        return rc;
    if (t->options->json)
        status_add_json(t);
    else
        status_add_text(t);
    t->sink_count++;
    return 0;
}

/* The files by whose locks sinks that run are known, which the confined process opens. */
typedef struct lock_files {
    const char *store;
    ec_sandbox_path *items;
    size_t count, capacity;
    ea_err *err;
} lock_files;

static int add_lock_file(const char *name, int is_dir, void *arg) {
    static const char BEGIN[] = "sink-", END[] = ".lock";
    lock_files *l = arg;
    ea_text path;
    size_t n = strlen(name);
    if (is_dir || n < sizeof BEGIN + sizeof END - 2 || strncmp(name, BEGIN, sizeof BEGIN - 1) != 0 ||
        strcmp(name + n - (sizeof END - 1), END) != 0)
        return 0;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/%s", l->store, name);
    if (path.failed || EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX)) {
        ea_text_deinit(&path);
        return ea_fail(l->err, EA_ENOMEM, "enter the sandbox");
    }
    l->items[l->count++] = (ec_sandbox_path){.path = path.data, .access = EC_SANDBOX_READ};
    return 0;
}

static int sink_status_confine(const char *store, ea_err *err) {
    lock_files l = {.store = store, .err = err};
    int rc = ea_path_list(store, add_lock_file, &l, err);
    if (!rc)
        rc = ec_question_confine_with(store, &(ec_sandbox){.paths = l.items, .path_count = l.count}, err);
    for (size_t i = 0; i < l.count; i++)
        free((char *)(uintptr_t)l.items[i].path);
    free(l.items);
    return rc;
}

static int sink_unknown(const char *name, ea_err *err) {
    return ea_fail(err, EA_ENOTFOUND, "there is no sink %.64s: sink run makes one, sink status lists them", name);
}

static int sink_status_run(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    status t = {.options = arg, .err = &err};
    (void)operand_count, (void)operands;
    ea_text_init(&t.out);
    ea_text_init(&t.streams);
    ea_text_init(&t.waiting);
    int rc = ec_store_check_readable(t.options->store, &err);
    if (!rc)
        rc = ec_outbox_open(&t.outbox, t.options->store, &err);
    if (!rc)
        rc = ec_sinks_open(&t.sinks, t.options->store, 0, &err);
    if (!rc) /* a first sink may make its file at any time: from here on there is none, or it is open */
        rc = sink_status_confine(t.options->store, &err);
    if (!rc && t.options->json)
        ea_text_str(&t.out, "{\"sinks\": [");
    if (!rc)
        rc = ec_sinks_each(t.sinks, status_on_sink, &t, &err);
    if (!rc && t.options->name && !t.sink_count)
        rc = sink_unknown(t.options->name, &err);
    if (!rc && t.options->json)
        ea_text_str(&t.out, "\n]}\n");
    if (!rc)
        rc = ec_answer_write(&t.out, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_sinks_close(t.sinks);
    ec_outbox_close(t.outbox);
    ea_text_deinit(&t.out);
    ea_text_deinit(&t.streams);
    ea_text_deinit(&t.waiting);
    free(t.apart);
    return ea_exit_code(rc);
}

/* ---- replay and skip ---- */

typedef struct moving {
    const sink_options *options;
    int is_skip;
    ec_outbox *outbox;
    ec_sinks *sinks;
    ec_sink_row row;
    ec_sink_apart *apart;
    size_t apart_count;
    uint64_t waiting, skipped;
} moving;

static int move_on_waiting(const ec_outbox_stream *s, void *arg) {
    *(uint64_t *)arg += s->waiting_events;
    return 0;
}

static int move_on_stream(const ec_sink_stream *s, void *arg) {
    *(uint64_t *)arg += s->counts[EC_SINK_skipped];
    return 0;
}

static int move_is_before(const ec_sink_place *a, const ec_sink_place *b) {
    if (a->segment != b->segment)
        return a->segment < b->segment;
    return a->offset != b->offset ? a->offset < b->offset : a->position < b->position;
}

/* The place that the options name. */
static int move_find(moving *m, ec_sink_place *ret, ea_err *err) {
    const sink_options *o = m->options;
    int64_t utc_ns = 0;
    if (o->time && ea_time_parse(o->time, &(ea_time_reference){.now_utc_ns = ea_utc_ns()}, &utc_ns))
        return ea_fail(err, EA_EUSAGE, "\"%s\": expected " EA_TIME_FORMS, o->time);
    int rc = 0;
    if (o->time)
        rc = ec_outbox_at(m->outbox, utc_ns, ret, err);
    else if (m->is_skip)
        rc = ec_outbox_end(m->outbox, ret, err);
    else
        *ret = (ec_sink_place){0};
    if (!rc && !m->is_skip && move_is_before(&m->row.place, ret))
        rc = ea_fail(err, EA_EUSAGE, "sink %s has not got as far as --from: sink skip moves its place on", o->name);
    return rc;
}

/* Agents apart: skip moves their places on, replay leaves those that have more to send than the others. */
static int move_apart(moving *m, const ec_sink_place *before, ea_err *err) {
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < m->apart_count; i++) {
        ec_sink_apart *b = &m->apart[i];
        if (m->is_skip && move_is_before(&b->place, before))
            b->place = *before;
        int stays = move_is_before(&b->place, &m->row.place);
        rc = stays ? ec_sinks_put_apart(m->sinks, m->options->name, b, err)
                   : ec_sinks_drop_apart(m->sinks, m->options->name, b->host, err);
        if (stays)
            m->apart[kept++] = *b;
    }
    m->apart_count = kept;
    return rc;
}

static int move_place(moving *m, ea_err *err) {
    const sink_options *o = m->options;
    uint64_t before = 0;
    ec_sink_place wanted = {0};
    ec_outbox_audit audit = {.outbox = m->outbox, .sinks = m->sinks, .sink = o->name, .fate = EC_SINK_removed};
    int rc = ec_sinks_begin(m->sinks, err);
    if (!rc)
        rc = ec_sinks_read_apart(m->sinks, o->name, &m->apart, &m->apart_count, err);
    audit.places = (ec_outbox_places){m->row.place, m->apart, m->apart_count};
    if (!rc)
        rc = ec_outbox_run_audit(&audit, err);
    if (!rc)
        rc = move_find(m, &wanted, err);
    if (!rc && !(m->is_skip && move_is_before(&wanted, &m->row.place)))
        m->row.place = wanted;
    if (!rc)
        rc = move_apart(m, &wanted, err);
    if (!rc)
        rc = ec_sinks_each_stream(m->sinks, o->name, move_on_stream, &before, err);
    audit.places = (ec_outbox_places){m->row.place, m->apart, m->apart_count};
    audit.fate = m->is_skip ? EC_SINK_skipped : EC_SINK_FATE_COUNT;
    if (!rc)
        rc = ec_outbox_run_audit(&audit, err);
    if (!rc)
        rc = ec_sinks_put(m->sinks, &m->row, err);
    if (!rc)
        rc = ec_sinks_each_stream(m->sinks, o->name, move_on_stream, &m->skipped, err);
    if (!rc)
        rc = ec_sinks_commit(m->sinks, err);
    if (rc)
        ec_sinks_undo(m->sinks);
    m->skipped -= rc ? m->skipped : before;
    return rc ? rc : ec_outbox_measure(m->outbox, &audit.places, move_on_waiting, &m->waiting, err);
}

static int sink_move(const sink_options *o, int is_skip) {
    moving m = {.options = o, .is_skip = is_skip};
    struct ea_file *lock = NULL;
    ea_err err = {0};
    int rc = ec_store_check_readable(o->store, &err);
    if (!rc && !is_skip && !o->time == !o->all)
        rc = ea_fail(&err, EA_EUSAGE, "expected --from TIME or --all");
    if (!rc)
        rc = ec_sinks_check_name(o->name, &err);
    if (!rc)
        rc = ec_sinks_open(&m.sinks, o->store, 0, &err);
    if (!rc && (rc = ec_sinks_find(m.sinks, o->name, &m.row, &err)) >= 0)
        rc = rc ? 0 : sink_unknown(o->name, &err);
    ec_sinks_close(m.sinks);
    m.sinks = NULL;
    if (!rc)
        rc = ec_sinks_lock(&lock, o->store, o->name, &err);
    if (!rc)
        rc = ec_outbox_open(&m.outbox, o->store, &err);
    if (!rc)
        rc = ec_sinks_open(&m.sinks, o->store, 1, &err);
    if (!rc && (rc = ec_sinks_find(m.sinks, o->name, &m.row, &err)) >= 0)
        rc = rc ? move_place(&m, &err) : sink_unknown(o->name, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    else if (o->json)
        printf("{\"sink\": \"%s\", \"skipped\": %" PRIu64 ", \"waiting_events\": %" PRIu64 "}\n", o->name, m.skipped,
               m.waiting);
    else
        printf("sink %s: %" PRIu64 " events are skipped, %" PRIu64 " wait\n", o->name, m.skipped, m.waiting);
    free(m.apart);
    ec_sinks_close(m.sinks);
    ec_outbox_close(m.outbox);
    ea_file_close(lock);
    return ea_exit_code(rc);
}

static int sink_replay_run(const void *arg, int operand_count, char **operands) {
    (void)operand_count, (void)operands;
    return sink_move(arg, 0);
}

static int sink_skip_run(const void *arg, int operand_count, char **operands) {
    (void)operand_count, (void)operands;
    return sink_move(arg, 1);
}

#define SINK_JSON                                                                                                      \
    { .name = "json", .type = EA_OPT_FLAG, .offset = offsetof(sink_options, json), .help = "print JSON" }
#define SINK_NAME .name = "name", .argument = "NAME", .type = EA_OPT_STRING, .offset = offsetof(sink_options, name)

static const ea_option SINK_STATUS_OPTIONS[] = {
    EC_STORE_OPTION(sink_options, store),
    {SINK_NAME, .help = "only this sink"},
    SINK_JSON,
    {.name = NULL},
};

static const ea_option SINK_REPLAY_OPTIONS[] = {
    EC_STORE_OPTION(sink_options, store),
    {SINK_NAME, .required = 1, .help = "the sink"},
    {.name = "from",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(sink_options, time),
     .help = "send again what was received at or after this time: RFC 3339, a date, now, or -1h"},
    {.name = "all",
     .type = EA_OPT_FLAG,
     .offset = offsetof(sink_options, all),
     .help = "send again all that is stored"},
    SINK_JSON,
    {.name = NULL},
};

static const ea_option SINK_SKIP_OPTIONS[] = {
    EC_STORE_OPTION(sink_options, store),
    {SINK_NAME, .required = 1, .help = "the sink"},
    {.name = "to",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(sink_options, time),
     .help = "skip what was received before this time: RFC 3339, a date, now, or -1h; default: all that is stored"},
    SINK_JSON,
    {.name = NULL},
};

const ea_command ec_cmd_sink_status = {
    .name = "sink status",
    .operands = "",
    .summary = "Show how far each sink has got: what was sent, what waits, what did not arrive",
    .details =
        "Events before a sink's place: sent (accepted by the receiver), known (the receiver had them already), "
        "refused (it will\nnot take them), left_out (not chosen, or the records of keyframes), damaged (could not be "
        "read), skipped (by sink skip),\nremoved (from the store, before they were sent). With those that wait they "
        "are all events that were stored since the\nsink was made; after sink replay those that are sent again are "
        "counted again.\n"
        "--json: {\"sinks\": [{name, kind, receiver, running, place, sent, known, refused, left_out, damaged, skipped, "
        "removed, "
        "retried,\nrequests, redacted_values, waiting_events, waiting_batches, waiting_bytes, waiting_since, created, "
        "last_sent,\nlast_error_time, last_error, last_refusal, hosts: [{host, apart, waiting_events, waiting_bytes, "
        "waiting_since}],\nstreams: [{host, stream, refused, damaged, skipped, removed}]}]}. streams has those of "
        "which "
        "something did not arrive.\n"
        "Exit codes: 0 answered, 1 failed, or no such sink, 2 usage.",
    .options = SINK_STATUS_OPTIONS,
    .options_size = sizeof(sink_options),
    .run = sink_status_run,
};

const ea_command ec_cmd_sink_replay = {
    .name = "sink replay",
    .operands = "",
    .summary = "Move a sink's place back, so that stored events are sent again",
    .details = "Rows have the names that they had, so that a receiver can drop what it has. The sink must not run "
               "meanwhile.\nExit codes: 0 moved, 1 failed, 2 usage.",
    .options = SINK_REPLAY_OPTIONS,
    .options_size = sizeof(sink_options),
    .run = sink_replay_run,
};

const ea_command ec_cmd_sink_skip = {
    .name = "sink skip",
    .operands = "",
    .summary = "Move a sink's place on, past events that are not to be sent",
    .details = "What is passed over is counted as skipped. The sink must not run meanwhile.\n"
               "Exit codes: 0 moved, 1 failed, 2 usage.",
    .options = SINK_SKIP_OPTIONS,
    .options_size = sizeof(sink_options),
    .run = sink_skip_run,
};
