/* The options of a sink: those of "etwcollector sink run", and of an item of the list sinks in the file of
 * "etwcollector run --config". Used by: cmd_sink_run.c, run_sinks.c, cmd_run.c. Uses: collector/sink. Thread: the main
 * one. */
#ifndef EC_APP_SINK_OPTIONS_H
#define EC_APP_SINK_OPTIONS_H

#include "collector/sink/sink.h"
#include "proto/base/cli.h"
#include "proto/relog/redact.h"

typedef struct ec_sink_choice {
    const char *name, *to, *headers, *ca, *index, *table, *properties, *where, *redact, *redact_key;
    ea_strings hosts, labels;
    ea_class_choice choice;
    uint64_t rows, bytes;
    int64_t retry_min_ns, retry_max_ns, answer_ns, ack_ns;
    int kind, all;
} ec_sink_choice;

/* What rows cannot say: EA_EUSAGE. *ret_key: the option; NULL: not wanted. */
EA_MUST_CHECK int ec_sink_choice_check(const ec_sink_choice *c, const char **ret_key, ea_err *err);

/* Rows of the option table; member is the ec_sink_choice in owner. */
// clang-format off
#define EC_SINK_OPTIONS(owner, member)                                                                                 \
    {.name = "name",                                                                                                   \
     .argument = "NAME",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.name),                                                                           \
     .required = 1,                                                                                                    \
     .help = "the sink: under which name the store keeps how far the receiver has got"},                               \
    {.name = "to",                                                                                                     \
     .argument = "URL",                                                                                                \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.to),                                                                             \
     .required = 1,                                                                                                    \
     .help = "where rows are sent to: https://HOST/..., or http; with kafka kafka://SERVER:PORT[,SERVER:PORT...]/TOPIC"},\
    {.name = "kind",                                                                                                   \
     .argument = "KIND",                                                                                               \
     .type = EA_OPT_CHOICE,                                                                                            \
     .offset = offsetof(owner, member.kind),                                                                           \
     .fallback = "ndjson",                                                                                             \
     .choices = EC_SINK_KIND_NAMES,                                                                                    \
     .help = "ndjson: a row a line by HTTP; bulk: _bulk of Elasticsearch and OpenSearch; kafka: a row a message; clickhouse: rows of a table; splunk: HTTP Event Collector; otlp: OTLP/HTTP, protobuf"},\
    {.name = "index",                                                                                                  \
     .argument = "NAME",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.index),                                                                          \
     .help = "with bulk, splunk: the index or data stream; default: that of the URL, of the token"},                   \
    {.name = "table",                                                                                                  \
     .argument = "NAME",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.table),                                                                          \
     .help = "with clickhouse: the table, made as clickhouse init says; default: events"},                             \
    {.name = "headers",                                                                                                \
     .argument = "FILE",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.headers),                                                                        \
     .help = "lines NAME: VALUE that each request has, such as Authorization: ApiKey TOKEN"},                          \
    {.name = "properties",                                                                                             \
     .argument = "FILE",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.properties),                                                                     \
     .help = "with kafka: lines NAME=VALUE of librdkafka, such as sasl.username=etw"},                                 \
    {.name = "ca",                                                                                                     \
     .argument = "FILE",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.ca),                                                                             \
     .help = "certificates (PEM) that prove the receiver; default: the system's"},                                     \
    {.name = "host",                                                                                                   \
     .argument = "HOST",                                                                                               \
     .type = EA_OPT_STRINGS,                                                                                           \
     .offset = offsetof(owner, member.hosts),                                                                          \
     .help = "only events of this agent; * is any text; may be repeated"},                                             \
    {.name = "label",                                                                                                  \
     .argument = "NAME=VALUE",                                                                                         \
     .type = EA_OPT_STRINGS,                                                                                           \
     .offset = offsetof(owner, member.labels),                                                                         \
     .help = "only runs of agents that had this label; may be repeated: all of them"},                                 \
    EA_CLASS_OPTIONS(owner, member.choice),                                                                            \
    {.name = "where",                                                                                                  \
     .argument = "CONDITION",                                                                                          \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.where),                                                                          \
     .help = "only events for which an expression of the query language holds, of the event's own fields"},            \
    {.name = "redact",                                                                                                 \
     .argument = "KINDS",                                                                                              \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.redact),                                                                         \
     .help = "replace values by pseudonyms: all (but text), or of " EA_REDACT_KIND_LIST ", with commas between"},                 \
    {.name = "redact-key",                                                                                             \
     .argument = "FILE",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(owner, member.redact_key),                                                                     \
     .help = "with --redact: a file of 16 to 4096 bytes, the key of the pseudonyms, as etwagent relog has it"},        \
    {.name = "rows",                                                                                                   \
     .argument = "N",                                                                                                  \
     .type = EA_OPT_U64,                                                                                               \
     .offset = offsetof(owner, member.rows),                                                                           \
     .fallback = "2000",                                                                                               \
     .min = 1,                                                                                                         \
     .max = 100000,                                                                                                    \
     .help = "rows of a request at the most"},                                                                         \
    {.name = "bytes",                                                                                                  \
     .argument = "SIZE",                                                                                               \
     .type = EA_OPT_SIZE,                                                                                              \
     .offset = offsetof(owner, member.bytes),                                                                          \
     .fallback = "4MiB",                                                                                               \
     .min = 1024,                                                                                                      \
     .max = 64 << 20,                                                                                                  \
     .help = "a request has no further row once its rows have so many bytes"},                                         \
    {.name = "retry-min",                                                                                              \
     .argument = "TIME",                                                                                               \
     .type = EA_OPT_DURATION,                                                                                          \
     .offset = offsetof(owner, member.retry_min_ns),                                                                   \
     .fallback = "1s",                                                                                                 \
     .min = 1000000,                                                                                                   \
     .max = (uint64_t)3600 * 1000000000,                                                                               \
     .help = "wait after a first failure; it doubles with each further one"},                                          \
    {.name = "retry-max",                                                                                              \
     .argument = "TIME",                                                                                               \
     .type = EA_OPT_DURATION,                                                                                          \
     .offset = offsetof(owner, member.retry_max_ns),                                                                   \
     .fallback = "5m",                                                                                                 \
     .min = 1000000,                                                                                                   \
     .max = (uint64_t)3600 * 1000000000,                                                                               \
     .help = "longest wait after a failure; Retry-After can ask for more, up to 1 h"},                                 \
    {.name = "timeout",                                                                                                \
     .argument = "TIME",                                                                                               \
     .type = EA_OPT_DURATION,                                                                                          \
     .offset = offsetof(owner, member.answer_ns),                                                                      \
     .fallback = "30s",                                                                                                \
     .min = 100000000,                                                                                                 \
     .max = (uint64_t)3600 * 1000000000,                                                                               \
     .help = "how long a request may take, with its answer"},                                                          \
    {.name = "ack-timeout",                                                                                            \
     .argument = "TIME",                                                                                               \
     .type = EA_OPT_DURATION,                                                                                          \
     .offset = offsetof(owner, member.ack_ns),                                                                         \
     .fallback = "5m",                                                                                                 \
     .min = 100000000,                                                                                                 \
     .max = (uint64_t)3600 * 1000000000,                                                                               \
     .help = "with splunk: how long rows may wait to be acknowledged as indexed, before they are sent again"},         \
    {.name = "all",                                                                                                    \
     .type = EA_OPT_FLAG,                                                                                              \
     .offset = offsetof(owner, member.all),                                                                            \
     .help = "at the first run of a sink, send what is stored already, too"}
// clang-format on

#endif
