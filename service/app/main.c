/* etwagent: its command table. See agent_commands.h. Called by: the operating system. Calls: one command. Thread: the
 * main one. */
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"
#if defined(_WIN32)
#include "service/host/win/wide.h"
#endif

#include <stdio.h>
#include <string.h>

/* A command of the collector's that reads traces, which a person with a trace may try here. */
static int is_of_collector(const char *word) {
    static const char *const WORDS[] = {"export", "modules", "profile", "ps", "query", "report", "where"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(word, WORDS[i]) == 0)
            return 1;
    return 0;
}

static int main_run(int argc, char **argv) {
    static const ea_command *const COMMANDS[] = {
        &ea_cmd_check,
        &ea_cmd_configure,
        &ea_cmd_enroll,
        &ea_cmd_import,
        &ea_cmd_open,
        &ea_cmd_stats,
        &ea_cmd_stacks,
        &ea_cmd_dump,
        &ea_cmd_watch,
        &ea_cmd_relog,
        &ea_cmd_schema_list,
        &ea_cmd_schema_show,
        &ea_cmd_schema_check,
        &ea_cmd_schema_compile,
        &ea_cmd_schema_install,
        &ea_cmd_schema_uninstall,
        &ea_cmd_schema,
        &ea_cmd_plugin_probe,
        &ea_cmd_run,
        &ea_cmd_status,
        &ea_cmd_sessions,
        &ea_cmd_session_start,
        &ea_cmd_session_stop,
        &ea_cmd_session_show,
        &ea_cmd_session_flush,
        &ea_cmd_session_enable,
        &ea_cmd_session_disable,
        &ea_cmd_counters,
        &ea_cmd_providers,
        &ea_cmd_record,
        &ea_cmd_trace,
        &ea_cmd_emit,
        &ea_cmd_mark,
#if defined(_WIN32)
        &ea_cmd_install,
        &ea_cmd_uninstall,
        &ea_cmd_harden,
        &ea_cmd_purge,
        &ea_cmd_start,
        &ea_cmd_stop,
        &ea_cmd_reload,
        &ea_cmd_flush,
        &ea_cmd_service,
        &ea_cmd_write_dump,
#endif
        &ea_cmd_replay,
        &ea_cmd_recorder_list,
        &ea_cmd_recorder_export,
        &ea_cmd_recorder_keep,
        &ea_cmd_spool_list,
        &ea_cmd_spool_verify,
        &ea_cmd_spool_drain,
        &ea_cmd_spool_rotate_key,
        &ea_cmd_dictionary_train,
        NULL,
    };
    ea_stdio_init();
    if (argc > 1 && is_of_collector(argv[1])) {
        fprintf(stderr,
                "etwagent: '%s' is a command of etwcollector, which is built for Linux and reads trace files there: "
                "\"etwcollector %s --help\"; etwagent has open, stats, dump, stacks, watch and relog for traces\n",
                argv[1], argv[1]);
        return ea_exit_code(EA_EUSAGE);
    }
    return ea_cli_main("etwagent", EA_VERSION, "etwagent reads, decodes and ships Event Tracing for Windows.", COMMANDS,
                       argc, argv);
}

#if defined(_WIN32)
/* Windows keeps arguments as UTF-16. main's would be in the code page of the machine, which is UTF-8 since Windows 10
 * 1903 only, by the manifest. */
int wmain(int argc, wchar_t **wide);

int wmain(int argc, wchar_t **wide) {
    char **argv = ea_narrow_all(argc, wide);
    if (argv)
        return main_run(argc, argv);
    fputs("etwagent: an argument is not valid UTF-16, or out of memory\n", stderr);
    return ea_exit_code(EA_EUSAGE);
}
#else
int main(int argc, char **argv) {
    return main_run(argc, argv);
}
#endif
