/* The agent's configuration file: where data goes, which files are read, which ETW sessions run. Input: config/. Used
 * by: "etwagent check" and "etwagent run". Thread: the main one. */
#ifndef EA_CORE_AGENT_CONFIG_H
#define EA_CORE_AGENT_CONFIG_H

#include "config/config.h"
#include "config/sessions.h"
#include "service/core/batching.h"
#include "service/core/remote.h"
#include "service/core/schema_options.h"
#include "service/core/shipping.h"

/* Files, or channels of the event log, that are shipped as one stream. */
typedef struct ea_file_source_config {
    const char *name;
    ea_strings files, channels; /* one of them is empty */
    const char *query;          /* of channels: XPath; NULL: all records */
    int begin;                  /* of channels: index into new, oldest */
    uint64_t speed;             /* times real time; 0: as fast as it goes */
    int priority;               /* index into security, bulk */
    ea_tables filters;          /* ea_filter_config */
    ea_tables watches;          /* ea_watch_config */
    /* what its file is called once the spool has its events; "": it is removed; NULL, as for all that users write: it
     * stays */
    const char *taken;
} ea_file_source_config;

/* The running program itself. */
typedef struct ea_service_config {
    const char *status; /* NULL: the default */
    int64_t status_every_ns;
    const char *log; /* NULL: the default */
    uint64_t log_bytes, log_lines;
    int64_t watchdog_ns;
    uint64_t memory_limit_bytes, cpu_limit_percent; /* 0: none */
    int priority;                                   /* index into normal, below-normal, idle */
    int bulk_priority;                              /* index into normal, low, background */
} ea_service_config;

typedef struct ea_agent_config {
    ea_service_config service;
    ea_shipping_options shipping; /* no collectors: the file has no such part */
    ea_batching_options batching;
    ea_remote_config remote; /* key NULL: none */
    ea_schema_options schemas;
    ea_labels labels;   /* as the file has them */
    ea_tables sources;  /* ea_file_source_config */
    ea_tables sessions; /* ea_session_config */
} ea_agent_config;

extern const ea_table ea_agent_table;
/* A spool's priority for an index into security, bulk. */
uint32_t ea_priority_of(int choice);
/* Rows of its parts, for comparing: sources[], shipping, batching. */
extern const ea_table ea_file_source_table, ea_shipping_table, ea_batching_table, ea_remote_table, ea_schemas_table;

/* Where a file of the agent's is: what the configuration says (NULL: nothing), or name in the folder for state. out
 * has room for EA_AGENT_PATH_BYTES. */
enum { EA_AGENT_PATH_BYTES = 4096 };

EA_MUST_CHECK int ea_agent_file_path(const char *given, const char *name, char *out, ea_err *err);

#endif
