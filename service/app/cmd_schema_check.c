/* etwagent schema check: every mistake of instrumentation manifests, compiled ones too, with its place. Called by:
 * main.c. Calls: proto/event/schema. Thread: the main one. */
#include "proto/event/schema/load.h"
#include "service/app/agent_commands.h"

#include <string.h>

typedef struct options {
    int quiet;
} options;

/* What a file holds goes to a terminal: nothing of it may steer that. */
static void schema_check_print_problem(void *arg, unsigned long line, unsigned long column, const char *text) {
    const char *file = arg;
    ea_text t;
    ea_text_init(&t);
    ea_text_safe(&t, file, strlen(file));
    if (line)
        ea_text_printf(&t, ":%lu:%lu", line, column);
    ea_text_str(&t, ": ");
    ea_text_safe(&t, text, strlen(text));
    ea_text_char(&t, '\n');
    if (!t.failed)
        fwrite(t.data, 1, t.len_bytes, stdout);
    ea_text_deinit(&t);
}

static int schema_check_check_file(char *path, ea_manifest_result *ret, ea_err *err) {
    ea_schemas *schemas = NULL;
    ea_manifest_options o = {
        .file = path, .layer = EA_SCHEMA_GIVEN, .on_problem = schema_check_print_problem, .arg = path};
    int rc = ea_schemas_create(&schemas, 0, err);
    if (!rc)
        rc = ea_schema_file_read(schemas, &o, ret, err);
    ea_schemas_destroy(schemas);
    return rc;
}

static int schema_check_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    int worst = 0;
    for (int i = 0; i < operand_count; i++) {
        ea_manifest_result result = {0};
        ea_err err = {0};
        int rc = schema_check_check_file(operands[i], &result, &err);
        if (rc)
            ea_err_print(stderr, "etwagent", &err);
        else if (!o->quiet)
            printf("%s: %zu providers, %zu events, %zu mistakes\n", operands[i], result.providers, result.events,
                   result.problems);
        int code = rc ? ea_exit_code(rc) : result.problems ? 3 : 0;
        worst = code > worst ? code : worst;
    }
    return worst;
}

static const ea_option OPTIONS[] = {
    {.name = "quiet", .type = EA_OPT_FLAG, .offset = offsetof(options, quiet), .help = "print mistakes only"},
    {.name = NULL},
};

const ea_command ea_cmd_schema_check = {
    .name = "schema check",
    .operands = "FILE...",
    .summary = "Print every mistake of instrumentation manifests, with file, line and column, and of compiled ones in "
               "PE files",
    .details = "Each mistake is a line FILE:LINE:COLUMN: what is wrong and what was expected; in a PE file (exe, dll, "
               "mui), which has\n"
               "no lines, the place is one in the resource. dump, stats and replay refuse a manifest with mistakes; "
               "elsewhere an\n"
               "event with a mistake is omitted.\n"
               "Exit codes: 0 no mistakes, 1 a file cannot be read, 2 usage, 3 mistakes.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_check_run,
    .min_operands = 1,
    .max_operands = -1,
};
