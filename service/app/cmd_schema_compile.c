/* etwagent schema compile: manifests, PE files and trace message format files into one schema cache file. Called by:
 * main.c. Calls: proto/event/schema. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/event/schema/cache.h"
#include "proto/event/schema/load.h"
#include "service/app/agent_commands.h"

#include <inttypes.h>

typedef struct options {
    const char *output, *language;
} options;

static int schema_compile_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_schemas *schemas = NULL;
    ea_err err = {0};
    ea_text out;
    ea_text_init(&out);
    int rc = ea_schemas_create(&schemas, 0, &err);
    for (int i = 0; i < operand_count && !rc; i++)
        rc = ea_schema_file_load(schemas, operands[i], o->language, &err);
    if (!rc)
        rc = ea_schema_cache_write(schemas, EA_SCHEMA_GIVEN, &out, &err);
    if (!rc)
        rc = ea_path_write_all(o->output, out.data, out.len_bytes, 0, &err);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else
        printf("%s: %zu providers, %zu events, %zu bytes\n", o->output, ea_schemas_provider_count(schemas),
               ea_schemas_count(schemas), out.len_bytes);
    ea_schemas_destroy(schemas);
    ea_text_deinit(&out);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, output),
     .required = 1,
     .help = "the cache file to write"},
    {.name = "language",
     .argument = "LANGUAGE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, language),
     .fallback = "en-US",
     .help = "of the texts, such as de-DE; what it lacks is in English, or else in any"},
    {.name = NULL},
};

const ea_command ea_cmd_schema_compile = {
    .name = "schema compile",
    .operands = "FILE...",
    .summary = "Compile manifests and trace message format files into one cache file that loads at once",
    .details =
        "FILE is a manifest (.man), a PE file (exe, dll, mui), a trace message format file (.tmf), or another cache\n"
        "file. Where two describe the same event, the later one holds. The cache file is used in their place: "
        "--manifest FILE. It\n"
        "carries a checksum; the same files in the same order make the same bytes.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_compile_run,
    .min_operands = 1,
    .max_operands = -1,
};
