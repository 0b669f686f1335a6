/* etwagent schema compile: manifests, PE files and trace message format files into one schema cache file, or a
 * description into a manifest. Called by: main.c. Calls: proto/event/schema. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/event/schema/cache.h"
#include "proto/event/schema/load.h"
#include "proto/event/schema/manifest_write.h"
#include "service/app/agent_commands.h"

#include <inttypes.h>
#include <stdlib.h>

enum { DESCRIPTION_MAX_BYTES = 16 << 20 };

typedef struct options {
    const char *output, *language, *resources;
    int man;
} options;

/* Writes a manifest; what our own reader refuses is not written. */
static int schema_compile_manifest(const options *o, const char *path) {
    char *text = NULL;
    size_t len_bytes;
    ea_manifest_result result = {0};
    const ea_manifest_options read = {.file = path, .layer = EA_SCHEMA_GIVEN};
    ea_err err = {0};
    ea_text out;
    ea_text_init(&out);
    int rc = ea_path_read_all(path, DESCRIPTION_MAX_BYTES, &text, &len_bytes, &err);
    if (!rc)
        rc = ea_manifest_write(path, text, len_bytes, o->resources, &out, &err);
    if (!rc)
        rc = ea_manifest_read(NULL, out.data, out.len_bytes, &read, &result, &err);
    if (rc == EA_EFORMAT ? out.len_bytes : !rc && result.problems) /* bytes that are no UTF-8 */
        rc = ea_fail(&err, EA_EFORMAT, "%s: a manifest cannot have one of its texts", path);
    if (!rc)
        rc = ea_path_write_all(o->output, out.data, out.len_bytes, 0, &err);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    else
        printf("%s: %zu providers, %zu events, %zu bytes\n", o->output, result.providers, result.events, out.len_bytes);
    free(text);
    ea_text_deinit(&out);
    return ea_exit_code(rc);
}

static int schema_compile_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_schemas *schemas = NULL;
    ea_err err = {0};
    ea_text out;
    if (o->man ? operand_count != 1 : o->resources != NULL) {
        EA_IGNORE(ea_fail(&err, EA_EUSAGE, "--man takes one description; --resources goes with --man"));
        ea_err_print(stderr, "etwagent", &err);
        return ea_exit_code(EA_EUSAGE);
    }
    if (o->man)
        return schema_compile_manifest(o, operands[0]);
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
     .help = "the cache file, or with --man the manifest, to write"},
    {.name = "man",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, man),
     .help = "write a manifest of the description FILE"},
    {.name = "resources",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, resources),
     .help = "with --man: the program or library that will have the compiled manifest; default: the provider's name "
             "and .dll"},
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
        "carries a checksum; the same files in the same order make the same bytes.\n"
        "With --man, FILE is a description of one provider in JSON lines: the first has provider and, as wanted, guid; "
        "each further one\n"
        "is an event with id, name (Task or Task/Opcode) and, as wanted, version, level, keyword, message, fields: "
        "{\"Title\": \"UnicodeString\",\n"
        "\"Owner\": \"UInt32 PID\"}. Tasks get numbers from 1 on, opcodes from 10 on, in the order in which they "
        "come.\n"
        "Exit codes: 0 written, 1 failed, 2 usage, 3 a FILE has a mistake.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_compile_run,
    .min_operands = 1,
    .max_operands = -1,
};
