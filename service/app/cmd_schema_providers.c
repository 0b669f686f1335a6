/* etwagent schema list, schema show: which providers are known, from where, and what is known of one. Called by:
 * main.c. Calls: proto/event/schema, schema_show.h. Thread: the main one. */
#include "service/app/agent_commands.h"
#include "service/app/schema_show.h"
#include "service/core/schema_options.h"

#include <stddef.h>

typedef struct options {
    ea_schema_options schemas;
    int json;
} options;

static int schema_providers_run_list(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    (void)operand_count, (void)operands;
    return ea_schema_print(&o->schemas, NULL, o->json, NULL, NULL);
}

static int schema_providers_run_show(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    (void)operand_count;
    return ea_schema_print(&o->schemas, operands[0], o->json, NULL, NULL);
}

static const ea_option OPTIONS[] = {
    EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print a JSON array"},
    {.name = NULL},
};

const ea_command ea_cmd_schema_list = {
    .name = "schema list",
    .operands = "",
    .summary = "List the providers whose events can be decoded, with where their descriptions are from",
    .details = "One line a provider and source: GUID, number of events (each version counts), layer, name, source. A "
               "provider\n"
               "that several sources describe has several lines. Layers: tables are this program's own, file is what "
               "--manifest\n"
               "and --tmf name, plug-in those of --plugins, catalogue is what ships with it (config/schemas).",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_providers_run_list,
    .min_operands = 0,
    .max_operands = 0,
};

const ea_command ea_cmd_schema_show = {
    .name = "schema show",
    .operands = "PROVIDER",
    .summary = "Print what is known of a provider: keywords, levels, and its events field by field",
    .details = "PROVIDER is a name as \"schema list\" prints it, in any case, or a GUID. Each source that knows it is "
               "printed\n"
               "by itself.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_providers_run_show,
    .min_operands = 1,
    .max_operands = 1,
};
