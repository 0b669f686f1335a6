/* The agent's configuration file: where data goes, which files are read, which ETW sessions run.
 * Before it: config/. After it: "etwagent check" and "etwagent run". Thread: the main one. */
#ifndef EA_APP_AGENT_CONFIG_H
#define EA_APP_AGENT_CONFIG_H

#include "batching.h"
#include "config.h"
#include "sessions.h"
#include "shipping.h"

/* .etl files that are shipped as one stream. */
typedef struct ea_file_source_config {
    const char *name;
    ea_strings files;
    uint64_t speed; /* times real time; 0: as fast as it goes */
    int priority;   /* index into security, bulk */
} ea_file_source_config;

typedef struct ea_agent_config {
    ea_shipping_options shipping; /* no collectors: the file has no such part */
    ea_batching_options batching;
    ea_tables sources;  /* ea_file_source_config */
    ea_tables sessions; /* ea_session_config */
} ea_agent_config;

extern const ea_table ea_agent_table;

#endif
