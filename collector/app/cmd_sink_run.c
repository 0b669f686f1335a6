/* etwcollector sink run: stored events to a receiver, each until it is accepted. Called by: main.c. Calls:
 * collector/sink. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/sink_options.h"
#include "collector/app/text_file.h"
#include "collector/sandbox/system_paths.h"
#include "collector/sink/clickhouse.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX_BYTES = 64 << 10 /* of a file of options */, DATABASE_FILES = 3 };

typedef struct sink_run_options {
    const char *store;
    ec_sink_choice sink;
    int once, json;
} sink_run_options;

static void sink_run_note(void *arg, const char *text) {
    ea_text t;
    ea_text_init(&t);
    ea_text_safe(&t, text, strlen(text));
    fprintf(stderr, "etwcollector: sink %s: %s\n", (const char *)arg, t.data ? t.data : "");
    ea_text_deinit(&t);
}

/* From here on the process reads the store, writes its place, and connects. */
static int sink_run_confine(const sink_run_options *o, ea_err *err) {
    static const char *const ENDINGS[DATABASE_FILES] = {"", "-wal", "-shm"};
    ec_sandbox_path paths[EC_CONNECTION_PATHS + DATABASE_FILES];
    ea_text files[DATABASE_FILES];
    size_t count = ec_connection_paths(o->sink.ca, paths);
    int rc = 0;
    for (int i = 0; i < DATABASE_FILES; i++) {
        ea_text_init(&files[i]);
        ea_text_printf(&files[i], "%s/sinks.db%s", o->store, ENDINGS[i]);
        if (files[i].failed)
            rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
        paths[count++] = (ec_sandbox_path){.path = files[i].data, .access = EC_SANDBOX_SHARE};
    }
    if (!rc)
        rc = ec_question_confine_with(
            o->store,
            &(ec_sandbox){.rights = EC_SANDBOX_NETWORK | EC_SANDBOX_LIBRARIES |
                                    (EC_SINK_KINDS[o->sink.kind]->has_threads ? EC_SANDBOX_THREADS : 0),
                          .paths = paths,
                          .path_count = count},
            err);
    for (int i = 0; i < DATABASE_FILES; i++)
        ea_text_deinit(&files[i]);
    return rc;
}

static void print_counts(const sink_run_options *o, const ec_sink *sink) {
    const uint64_t *counts = ec_sink_counts(sink);
    printf(o->json ? "{\"sink\": \"%s\"" : "sink %s:", o->sink.name);
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        if (o->json)
            printf(", \"%s\": %" PRIu64, ec_sink_fate_name(i), counts[i]);
        else
            printf("%s %" PRIu64 " %s", i ? "," : "", counts[i], ec_sink_fate_name(i));
    if (o->sink.redact)
        printf(o->json ? ", \"redacted_values\": %" PRIu64 : ", %" PRIu64 " values redacted",
               ec_sink_redacted_count(sink));
    printf(o->json ? "}\n" : "\n");
}

static int sink_run_run(const void *arg, int operand_count, char **operands) {
    const sink_run_options *o = arg;
    ec_sink *sink = NULL;
    char *headers = NULL, *properties = NULL;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    const ec_sink_choice *c = &o->sink;
    int rc = ec_sink_choice_check(c, NULL, &err);
    if (!rc && c->headers)
        rc = ec_text_file_read(c->headers, LINES_MAX_BYTES, "lines NAME: VALUE", &headers, &err);
    if (!rc && c->properties)
        rc = ec_text_file_read(c->properties, LINES_MAX_BYTES, "lines NAME=VALUE", &properties, &err);
    const ec_sink_options options = {.store = o->store,
                                     .name = c->name,
                                     .to = c->to,
                                     .kind = EC_SINK_KINDS[c->kind],
                                     .headers = headers,
                                     .ca = c->ca,
                                     .index = c->index,
                                     .table = c->table ? c->table : EC_CLICKHOUSE_TABLE,
                                     .properties = properties,
                                     .where = c->where,
                                     .redact = c->redact,
                                     .redact_key = c->redact_key,
                                     .hosts = &c->hosts,
                                     .labels = &c->labels,
                                     .choice = &c->choice,
                                     .rows_max = c->rows,
                                     .bytes_max = c->bytes,
                                     .retry_min_ns = c->retry_min_ns,
                                     .retry_max_ns = c->retry_max_ns,
                                     .answer_ns = c->answer_ns,
                                     .ack_ns = c->ack_ns,
                                     .ends = o->once,
                                     .is_all = c->all,
                                     .stop = ea_stop_flag(),
                                     .on_note = sink_run_note,
                                     .arg = (void *)(uintptr_t)c->name};
    if (!rc)
        rc = ec_sink_open(&sink, &options, &err);
    if (!rc)
        rc = sink_run_confine(o, &err);
    if (!rc)
        rc = ec_sink_run(sink, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    if (sink)
        print_counts(o, sink);
    ec_sink_close(sink);
    free(headers);
    free(properties);
    return ea_exit_code(rc);
}

static const ea_option SINK_RUN_OPTIONS[] = {
    EC_STORE_OPTION(sink_run_options, store),
    EC_SINK_OPTIONS(sink_run_options, sink),
    {.name = "once",
     .type = EA_OPT_FLAG,
     .offset = offsetof(sink_run_options, once),
     .help = "end when all that is stored now is sent; fail after 5 failures in a row"},
    {.name = "json",
     .type = EA_OPT_FLAG,
     .offset = offsetof(sink_run_options, json),
     .help = "print the counts at the end as JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_sink_run = {
    .name = "sink run",
    .operands = "",
    .summary =
        "Send stored events to a receiver (NDJSON by HTTP, Elasticsearch, OpenSearch, Kafka, ClickHouse, Splunk, "
        "OpenTelemetry), each until it is accepted",
    .details =
        "Runs beside the collector until it is stopped, by a user who may write to the store's folder. Batches are "
        "sent in\nthe order of their arrival, the events of each in the order in which the agent saw them. A row is a "
        "JSON object: "
        "row (HOST/STREAM/\nBATCH/POSITION, which names the event for good), host, stream, batch, position, process, "
        "and what export --no-names\nprints. The store keeps the place of each sink. It moves when the receiver has "
        "settled all rows of a request: a kill\nrepeats them, so that the receiver gets each row at least once; row, "
        "and _id with bulk, says which it has.\n\n"
        "With kafka a row is a message, whose key is the host; it counts when the brokers have stored it.\n"
        "With splunk rows count when its acknowledgement says that they are indexed, if the token has one.\n"
        "With bulk each item of the answer counts: 200 and 201 accept, 409 was there already, 400, 413 and 422 refuse, "
        "and all\nelse is sent again. A whole request is halved after 400, 413 and 422, until the row that is refused "
        "is known.\nA row is given up as refused only while the receiver accepts others. Anything else is sent "
        "again, after 1 s, 2 s, ...\n5 min, or as Retry-After asks.\n\n"
        "  etwcollector sink run --store /var/lib/etwcollector --name es --kind bulk --index etw --to "
        "https://es.example:9200/_bulk\n\n"
        "  etwcollector sink run --store /var/lib/etwcollector --name k --kind kafka --to "
        "kafka://k1.example:9092/etw\n\n"
        "Exit codes: 0 sent, or stopped; 1 failed; 2 usage.",
    .options = SINK_RUN_OPTIONS,
    .options_size = sizeof(sink_run_options),
    .run = sink_run_run,
};
