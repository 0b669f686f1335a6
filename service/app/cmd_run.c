/* etwagent run: runs the sources and sessions of a configuration until it is asked to stop.
 * Called by: main.c. Calls: agent.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/app/agent_commands.h"
#include "service/core/agent.h"

#include <stddef.h>

typedef struct options {
    const char *config;
} options;

static ea_agent_control control; /* any thread's signal handler sets them */

static void ask_to_reload(void) {
    ea_agent_request(&control, &control.reload);
}

static int run_command(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    int rc = ea_wake_create(&control.wake, &err);
    ea_stop_flag_use(&control.stop, control.wake); /* both live as long as the process */
    ea_on_reload(ask_to_reload);
    if (!rc)
        rc = ea_agent_run(&(ea_agent_options){.config_path = o->config, .control = &control}, &err);
    if (rc && rc != EA_EFORMAT) /* mistakes were already reported, each with its place */
        ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_run = {
    .name = "run",
    .operands = "",
    .summary = "Run the sources and sessions of a configuration file until a request to stop",
    .details =
        "Reads the sources of the configuration and ships their events, each once, however often it is stopped and\n"
        "started: unacknowledged batches wait in the spool. A part that cannot run now (a missing\n"
        "certificate or trace, a full disk, no collector) is logged once and tried again every five seconds.\n"
        "SIGHUP reads the configuration again: changed sources are restarted, the others continue; a file with a\n"
        "mistake changes nothing. Ctrl-C or SIGTERM stops it. \"etwagent status\" prints its state; \"etwagent "
        "check\"\n"
        "prints what a configuration does.\n"
        "Exit codes: 0 stopped on request, 3 the configuration has mistakes, 2 it has no sources or sessions, 1 "
        "failed.",
    .options = (const ea_option[]){{.name = "config",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, config),
                                    .required = 1,
                                    .help = "the configuration, YAML; \"etwagent check --example\" prints one"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_command,
};
