/* etwcollector hosts: which machines have sent what. Called by: main.c. Calls: collector/store. Thread: the main one.
 */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/query/scan/archive.h"
#include "collector/store/store.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    const char *store, *host;
    int json;
} options;

typedef struct listing {
    const options *options;
    ea_text out;
    uint64_t count;
} listing;

static void hosts_add_json(ea_text *t, const ec_stream_row *r) {
    ea_text_str(t, "{\"host\": ");
    ea_text_json_str(t, r->host);
    ea_text_str(t, ", \"machine\": ");
    ea_text_json_str(t, r->source_host[0] ? r->source_host : NULL);
    ea_text_str(t, ", \"agent_version\": ");
    ea_text_json_str(t, r->agent_version[0] ? r->agent_version : NULL);
    ea_text_printf(t, ", \"labels\": %s", r->labels ? r->labels : "{}");
    ea_text_str(t, ", \"stream\": \"");
    ea_text_hex(t, r->stream, sizeof r->stream);
    ea_text_printf(t,
                   "\", \"batches\": %" PRIu64 ", \"highest\": %" PRIu64 ", \"missing\": %" PRIu64
                   ", \"events\": %" PRIu64 ", \"bytes\": %" PRIu64,
                   r->batch_count, r->highest_number, r->missing_count, r->event_count, r->byte_count);
    ea_text_printf(t, ", \"expired_batches\": %" PRIu64 ", \"expired_events\": %" PRIu64, r->expired_batch_count,
                   r->expired_event_count);
    ec_json_time(t, "begin", r->begin_utc_ns, r->event_count > 0);
    ec_json_time(t, "end", r->end_utc_ns, r->event_count > 0);
    ec_json_time(t, "received_first", r->received_first_utc_ns, 1);
    ec_json_time(t, "received_last", r->received_last_utc_ns, 1);
    ea_text_char(t, '}');
}

static void hosts_add_text(ea_text *t, const ec_stream_row *r) {
    ea_text_safe(t, r->host, strlen(r->host));
    if (r->source_host[0]) {
        ea_text_str(t, " (");
        ea_text_safe(t, r->source_host, strlen(r->source_host));
        ea_text_char(t, ')');
    }
    ea_text_str(t, "\n  stream ");
    ea_text_hex(t, r->stream, sizeof r->stream);
    if (r->agent_version[0]) {
        ea_text_str(t, "\n  agent ");
        ea_text_safe(t, r->agent_version, strlen(r->agent_version));
    }
    if (r->labels) {
        ea_text_str(t, "\n  labels ");
        ea_text_safe(t, r->labels, strlen(r->labels));
    }
    ea_text_printf(t, "\n  %" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes", r->event_count,
                   r->batch_count, r->byte_count);
    if (r->missing_count)
        ea_text_printf(t, "; %" PRIu64 " batches below number %" PRIu64 " are missing", r->missing_count,
                       r->highest_number);
    if (r->expired_batch_count)
        ea_text_printf(t, "\n  of these %" PRIu64 " events in %" PRIu64 " batches have been deleted by retention",
                       r->expired_event_count, r->expired_batch_count);
    if (r->event_count) {
        ea_text_str(t, "\n  from ");
        ea_text_utc_ns(t, r->begin_utc_ns);
        ea_text_str(t, " to ");
        ea_text_utc_ns(t, r->end_utc_ns);
    }
    ea_text_str(t, "\n  received from ");
    ea_text_utc_ns(t, r->received_first_utc_ns);
    ea_text_str(t, " to ");
    ea_text_utc_ns(t, r->received_last_utc_ns);
    ea_text_char(t, '\n');
}

static int hosts_on_stream(const ec_stream_row *r, void *arg) {
    listing *l = arg;
    if (l->options->json) {
        ea_text_str(&l->out, l->count ? ",\n  " : "\n  ");
        hosts_add_json(&l->out, r);
    } else {
        hosts_add_text(&l->out, r);
    }
    l->count++;
    return 0;
}

static int hosts_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_store *store = NULL;
    ea_err err = {0};
    listing l = {.options = o};
    (void)operand_count, (void)operands;
    ea_text_init(&l.out);
    int rc = ec_question_confine(o->store, &err);
    if (!rc)
        rc = ec_store_open(&store, o->store, &(ec_store_options){0}, &err);
    if (!rc) {
        if (o->json)
            ea_text_str(&l.out, "{\"streams\": [");
        rc = ec_store_each_stream(store, o->host, hosts_on_stream, &l, &err);
        if (o->json)
            ea_text_str(&l.out, "\n]}\n");
    }
    if (!rc)
        rc = ec_answer_write(&l.out, &err);
    if (!rc && o->host && !l.count)
        rc = ec_unknown_host(o->host, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_store_close(store);
    ea_text_deinit(&l.out);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {EC_HOST_OF(options, host), .help = "only this agent's streams"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_hosts = {
    .name = "hosts",
    .operands = EC_TRACES_OPERANDS,
    .summary = "List the hosts and their streams: events, batches, times, what is missing",
    .details =
        "A stream is one run of one agent; its batches are numbered from 1. A host is an agent's name, the "
        "common name of "
        "its\ncertificate; the machine's own name is beside it. The collector may be running meanwhile.\n"
        "--json: {\"streams\": [{host, machine, agent_version, labels, stream, batches, highest, missing, events,\n"
        "bytes, expired_batches, expired_events, begin, end, received_first, received_last}]}. Counts are of all that "
        "was ever stored;\nexpired: what retention has deleted of it since.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = hosts_run,
};
