/* Schemas for a command. See schema_options.h. */
#include "service/core/schema_options.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/event/schema/catalogue.h"
#include "proto/event/schema/load.h"
#include "proto/event/schema/tmf.h"
#include "service/core/agent_log.h"
#include "service/decode/plugin.h"

#include <ctype.h>
#include <string.h>

/* ---- a folder's files ---- */

typedef struct folder {
    ea_schemas *schemas;
    const ea_schema_options *options;
    ea_text path;
    ea_err *err;
} folder;

static int ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    if (n <= m)
        return 0;
    for (size_t i = 0; i < m; i++)
        if (tolower((unsigned char)name[n - m + i]) != end[i])
            return 0;
    return 1;
}

static int schema_options_on_entry(const char *name, int is_dir, void *arg) {
    static const char *const ENDS[] = {".man", ".dll", ".exe", ".sys", ".schemas", ".tmf"};
    folder *f = arg;
    int wanted = 0;
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        wanted |= ends_in(name, ENDS[i]);
    if (is_dir || !wanted)
        return 0;
    ea_text_clear(&f->path);
    ea_text_printf(&f->path, "%s/%s", f->options->folder, name);
    if (f->path.failed)
        return ea_fail(f->err, EA_ENOMEM, "read the schemas in %s", f->options->folder);
    return ea_schema_file_load(f->schemas, f->path.data, f->options->language, f->err);
}

static int read_folder(ea_schemas *schemas, const ea_schema_options *options, ea_err *err) {
    folder f = {.schemas = schemas, .options = options, .err = err};
    ea_text_init(&f.path);
    int rc = ea_path_list(options->folder, schema_options_on_entry, &f, err);
    ea_text_deinit(&f.path);
    return rc;
}

static void schema_options_log_note(void *arg, const char *line) {
    (void)arg;
    ea_log_warning("%s", line);
}

static int read_plugins(ea_schemas *schemas, const char *plugins, ea_err *err) {
    char program[4096];
    int rc = ea_program_path(program, sizeof program, err);
    return rc ? rc : ea_plugins_load(schemas, program, plugins, 0, schema_options_log_note, NULL, err);
}

int ea_schema_options_read(ea_schemas **ret, const ea_schema_options *options, ea_err *err) {
    ea_schemas *schemas;
    int rc = ea_schemas_create(&schemas, 0, err);
    if (rc)
        return rc;
    if (options->folder)
        rc = read_folder(schemas, options, err);
    for (size_t i = 0; !rc && i < options->manifests.count; i++)
        rc = ea_schema_file_load(schemas, options->manifests.items[i], options->language, err);
    for (size_t i = 0; !rc && i < options->tmfs.count; i++)
        rc = ea_tmf_load(schemas, options->tmfs.items[i], err);
    if (!rc && options->plugins)
        rc = read_plugins(schemas, options->plugins, err);
    if (rc) {
        ea_schemas_destroy(schemas);
        return rc;
    }
    ea_catalogue_use(schemas);
    *ret = schemas;
    return 0;
}

uint64_t ea_schema_options_hash(const ea_schemas *schemas) {
    uint64_t hash = 0;
    size_t cursor = 0;
    ea_schema schema;
    while (schemas && ea_schemas_next(schemas, &cursor, &schema))
        if (schema.layer == EA_SCHEMA_GIVEN || schema.layer == EA_SCHEMA_PLUGIN)
            hash += ea_hash64(schema.description, schema.len_bytes, 0);
    const ea_payload_decoder *unfolder = schemas ? ea_schemas_payload_decoder(schemas) : NULL;
    return unfolder ? hash + unfolder->hash : hash;
}
