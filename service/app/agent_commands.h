/* The commands of etwagent, one file each (cmd_<name>.c). A new one is a row here, a line in main.c's table and its
 * file in CMakeLists.txt. Called by: main.c. Calls: the command. Thread: the main one. */
#ifndef EA_APP_AGENT_COMMANDS_H
#define EA_APP_AGENT_COMMANDS_H

#include "proto/base/cli.h"

extern const ea_command ea_cmd_check;
extern const ea_command ea_cmd_configure;
extern const ea_command ea_cmd_enroll;
extern const ea_command ea_cmd_dictionary_train;
extern const ea_command ea_cmd_dump;
extern const ea_command ea_cmd_emit;
extern const ea_command ea_cmd_import;
extern const ea_command ea_cmd_mark;
extern const ea_command ea_cmd_open;
extern const ea_command ea_cmd_plugin_probe;
extern const ea_command ea_cmd_schema;
extern const ea_command ea_cmd_schema_check;
extern const ea_command ea_cmd_schema_compile;
extern const ea_command ea_cmd_schema_install;
extern const ea_command ea_cmd_schema_list;
extern const ea_command ea_cmd_schema_show;
extern const ea_command ea_cmd_schema_uninstall;
extern const ea_command ea_cmd_stacks;
extern const ea_command ea_cmd_sessions;
extern const ea_command ea_cmd_session_start;
extern const ea_command ea_cmd_session_stop;
extern const ea_command ea_cmd_session_show;
extern const ea_command ea_cmd_session_flush;
extern const ea_command ea_cmd_session_enable;
extern const ea_command ea_cmd_session_disable;
extern const ea_command ea_cmd_counters;
extern const ea_command ea_cmd_stats;
extern const ea_command ea_cmd_status;
extern const ea_command ea_cmd_trace;
extern const ea_command ea_cmd_watch;
extern const ea_command ea_cmd_providers;
extern const ea_command ea_cmd_record;
extern const ea_command ea_cmd_relog;
extern const ea_command ea_cmd_replay;
extern const ea_command ea_cmd_run;
extern const ea_command ea_cmd_recorder_list;
extern const ea_command ea_cmd_recorder_export;
extern const ea_command ea_cmd_recorder_keep;
extern const ea_command ea_cmd_spool_list;
extern const ea_command ea_cmd_spool_verify;
extern const ea_command ea_cmd_spool_drain;
extern const ea_command ea_cmd_spool_rotate_key;

/* On Windows only: cmd_service.c. */
extern const ea_command ea_cmd_flush;
extern const ea_command ea_cmd_harden;
extern const ea_command ea_cmd_install;
extern const ea_command ea_cmd_purge;
extern const ea_command ea_cmd_reload;
extern const ea_command ea_cmd_service;
extern const ea_command ea_cmd_start;
extern const ea_command ea_cmd_stop;
extern const ea_command ea_cmd_uninstall;
extern const ea_command ea_cmd_write_dump; /* cmd_write_dump.c */

#endif
