/* The rows of the agent's configuration file. See agent_config.h. */
#include "agent_config.h"

#include <string.h>

enum { SOURCES_MAX = 64 };

static const ea_option SERVICE_ROWS[] = {
    {.name = "status",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_service_config, status),
     .help = "file that says how the agent is, for \"etwagent status\"; default: status.json in the folder for state"},
    {.name = "status-every",
     .type = EA_OPT_DURATION,
     .offset = offsetof(ea_service_config, status_every_ns),
     .fallback = "5s",
     .min = 100000000,
     .max = INT64_C(3600000000000),
     .help = "how often it is written anew"},
    {.name = NULL},
};
static const ea_table SERVICE = {
    .summary = "The running program.", .rows = SERVICE_ROWS, .size = sizeof(ea_service_config)};

static int check_shipping(const void *table, const char **ret_key, ea_err *err) {
    const ea_shipping_options *o = table;
    *ret_key = "collector";
    for (size_t i = 0; i < o->collectors.count; i++)
        if (strncmp(o->collectors.items[i], "https://", 8) != 0 || !o->collectors.items[i][8])
            return ea_fail(err, EA_EINVAL, "'%.128s': expected https://HOST[:PORT]", o->collectors.items[i]);
    return 0;
}

static const ea_option SHIPPING_ROWS[] = {EA_SHIPPING_OPTIONS(0), EA_SPOOL_OPTIONS(0), {.name = NULL}};
const ea_table ea_shipping_table = {
    .summary = "Where batches go, and where they wait. " EA_SPOOL_FOLDER_TEXT,
    .rows = SHIPPING_ROWS,
    .size = sizeof(ea_shipping_options),
    .check = check_shipping,
};

static const ea_option BATCHING_ROWS[] = {EA_BATCHING_OPTIONS(0), {.name = NULL}};
const ea_table ea_batching_table = {
    .summary = "How events become batches.", .rows = BATCHING_ROWS, .size = sizeof(ea_batching_options)};

static const char *const PRIORITIES[] = {"security", "bulk", NULL};

uint32_t ea_priority_of(int choice) {
    return choice == 0 ? 1 : 0;
}

static const ea_option SOURCE_ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_file_source_config, name),
     .required = 1,
     .example = "boot",
     .help = "its name in messages and in the status"},
    {.name = "files",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(ea_file_source_config, files),
     .required = 1,
     .example = "boot.etl",
     .help = ".etl files of one machine; several are merged by time"},
    {.name = "speed",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_file_source_config, speed),
     .fallback = "0",
     .max = 1000000,
     .help = "times real time; 0: as fast as it goes"},
    {.name = "priority",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(ea_file_source_config, priority),
     .fallback = "bulk",
     .choices = PRIORITIES,
     .help = "what is sent first"},
    {.name = NULL},
};
const ea_table ea_file_source_table = {
    .summary = "Trace files that are shipped, each event once, however often the agent is started.",
    .rows = SOURCE_ROWS,
    .size = sizeof(ea_file_source_config)};

static int check_agent(const void *table, const char **ret_key, ea_err *err) {
    const ea_agent_config *c = table;
    const ea_file_source_config *sources = c->sources.items;
    *ret_key = "sources";
    for (size_t i = 0; i < c->sources.count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(sources[i].name, sources[k].name) == 0)
                return ea_fail(err, EA_EINVAL, "two sources are called %s", sources[i].name);
    *ret_key = "sessions";
    return ea_sessions_check(&c->sessions, err);
}

static const ea_option ROWS[] = {
    {.name = "service",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, service),
     .table = &SERVICE,
     .help = "the running program"},
    {.name = "shipping",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, shipping),
     .table = &ea_shipping_table,
     .help = "where data goes, and where it waits"},
    {.name = "batching",
     .type = EA_OPT_TABLE,
     .offset = offsetof(ea_agent_config, batching),
     .table = &ea_batching_table,
     .help = "how events become batches"},
    {.name = "sources",
     .type = EA_OPT_TABLES,
     .offset = offsetof(ea_agent_config, sources),
     .table = &ea_file_source_table,
     .min = 1,
     .max = SOURCES_MAX,
     .example = "",
     .help = "trace files that are shipped"},
    {.name = "sessions",
     .type = EA_OPT_TABLES,
     .offset = offsetof(ea_agent_config, sessions),
     .table = &ea_session_table,
     .min = 1,
     .max = EA_SESSIONS_MAX,
     .example = "",
     .help = "ETW sessions that run while the agent runs"},
    {.name = NULL},
};
const ea_table ea_agent_table = {
    .summary = "The agent's configuration.", .rows = ROWS, .size = sizeof(ea_agent_config), .check = check_agent};
