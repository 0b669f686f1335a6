/* The commands of etwcollector, one file each (cmd_<name>.c). A new one is a row here, a line in main.c's table and its
 * file in CMakeLists.txt. Called by: main.c. Calls: the command. Thread: the main one. */
#ifndef EC_APP_COLLECTOR_COMMANDS_H
#define EC_APP_COLLECTOR_COMMANDS_H

#include "proto/base/cli.h"

/* Row of an option table: member of the struct is the store's folder. */
#define EC_STORE_OPTION(options, member)                                                                               \
    {                                                                                                                  \
        .name = "store", .argument = "DIR", .type = EA_OPT_STRING, .offset = offsetof(options, member), .required = 1, \
        .help = "the collector's folder"                                                                               \
    }

/* The same of a command that reads: trace_operands.h puts a store in place of trace files. */
#define EC_TRACES_UNLESS "trace files (.etl) are named, which are first read into a temporary store"
#define EC_STORE_OR_TRACES_OPTION(options, member)                                                                     \
    {                                                                                                                  \
        .name = "store", .argument = "DIR", .type = EA_OPT_STRING, .offset = offsetof(options, member), .required = 1, \
        .unless = EC_TRACES_UNLESS, .help = "the collector's folder"                                                   \
    }
/* What --host, --from and --to have in common; each command says in .help what they choose. --from and --to are times
 * of ec_data_time. */
#define EC_HOST_OF(options, member)                                                                                    \
    .name = "host", .argument = "HOST", .type = EA_OPT_STRING, .offset = offsetof(options, member)
#define EC_FROM_OF(options, member)                                                                                    \
    .name = "from", .argument = "TIME", .type = EA_OPT_STRING, .offset = offsetof(options, member)
#define EC_TO_OF(options, member)                                                                                      \
    .name = "to", .argument = "TIME", .type = EA_OPT_STRING, .offset = offsetof(options, member)
/* Likewise of --wait: until what is stored is elsewhere, as .help says. */
#define EC_WAIT_OF(options, member)                                                                                    \
    .name = "wait", .argument = "TIME", .type = EA_OPT_DURATION, .offset = offsetof(options, member), .fallback = "10s"
#define EC_TRACES_OPERANDS "[TRACE.etl...]"

extern const ea_command ec_cmd_run;
extern const ea_command ec_cmd_open;
extern const ea_command ec_cmd_ingest;
extern const ea_command ec_cmd_hosts;
extern const ea_command ec_cmd_quota;
extern const ea_command ec_cmd_forget;
extern const ea_command ec_cmd_profile;
extern const ea_command ec_cmd_ps;
extern const ea_command ec_cmd_modules;
extern const ea_command ec_cmd_watch;
extern const ea_command ec_cmd_where;
extern const ea_command ec_cmd_symbols;
extern const ea_command ec_cmd_export;
extern const ea_command ec_cmd_pull;
extern const ea_command ec_cmd_query;
extern const ea_command ec_cmd_report;
extern const ea_command ec_cmd_request_window;
extern const ea_command ec_cmd_request_add;
extern const ea_command ec_cmd_request_list;
extern const ea_command ec_cmd_request_withdraw;
extern const ea_command ec_cmd_rules_check;
extern const ea_command ec_cmd_rules_test;
extern const ea_command ec_cmd_detections_list;
extern const ea_command ec_cmd_detections_send;
extern const ea_command ec_cmd_detections_set;
extern const ea_command ec_cmd_clickhouse_init;
extern const ea_command ec_cmd_sink_replay;
extern const ea_command ec_cmd_sink_run;
extern const ea_command ec_cmd_sink_skip;
extern const ea_command ec_cmd_sink_status;
extern const ea_command ec_cmd_ledger;
extern const ea_command ec_cmd_backup;
extern const ea_command ec_cmd_restore;
extern const ea_command ec_cmd_doctor;
extern const ea_command ec_cmd_token_add;
extern const ea_command ec_cmd_token_list;
extern const ea_command ec_cmd_token_revoke;
extern const ea_command ec_cmd_audit_verify;
extern const ea_command ec_cmd_ca_init;
extern const ea_command ec_cmd_ca_sign;
extern const ea_command ec_cmd_ca_import;
extern const ea_command ec_cmd_ca_issue;
extern const ea_command ec_cmd_ca_revoke;
extern const ea_command ec_cmd_ca_list;
extern const ea_command ec_cmd_ca_token;
extern const ea_command ec_cmd_ca_tokens;
extern const ea_command ec_cmd_ca_revoke_token;

#endif
