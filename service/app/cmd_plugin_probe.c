/* etwagent plugin probe: what one plug-in decodes. The agent asks each plug-in so, in a process of its own. Called by:
 * main.c, plugin.c. Calls: plugin_probe.c. Thread: the main one. */
#include "service/app/agent_commands.h"
#include "service/decode/plugin.h"

typedef struct options {
    int quiet;
} options;

static int plugin_probe_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_text answer;
    ea_err err = {0};
    (void)operand_count;
    ea_text_init(&answer);
    int rc = ea_plugin_probe(operands[0], &answer, &err);
    if (rc)
        printf("%s\n", err.message); /* the caller reads only standard output */
    else if (o->quiet && fwrite(answer.data, 1, answer.len_bytes, stdout) != answer.len_bytes)
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    else if (!o->quiet)
        printf("%s: it can be used\n", operands[0]);
    if (fflush(stdout) && !rc)
        rc = EA_EIO;
    ea_text_deinit(&answer);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "quiet",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, quiet),
     .help = "print what it decodes as a schema cache, for another program"},
    {.name = NULL},
};

const ea_command ea_cmd_plugin_probe = {
    .name = "plugin probe",
    .operands = "FILE",
    .summary = "Load a plug-in in this process and say whether it can be used",
    .details = "The agent asks each plug-in of --plugins like this, in a process of its own. \"etwagent schema list "
               "--plugins DIR\"\n"
               "prints what all of them decode. Exit codes: 0 it can be used; otherwise standard output says why not.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = plugin_probe_run,
    .min_operands = 1,
    .max_operands = 1,
};
