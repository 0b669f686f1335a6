/* Files with schemas. See load.h. */
#include "proto/event/schema/load.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/event/schema/cache.h"
#include "proto/event/schema/tmf.h"
#include "proto/event/schema/wevt.h"

#include <ctype.h>
#include <stdlib.h>

/* Like EA_MANIFEST_MAX_BYTES, for PE files: the largest of Windows' own have some 100 MB. */
enum { FILE_MAX_BYTES = 256 << 20 };

/* "dir/x.dll" and "de-DE" as "dir/de-DE/x.dll.mui". */
static void mui_path(ea_text *out, const char *path, const char *language) {
    size_t folder = strlen(path);
    while (folder && path[folder - 1] != '/' && path[folder - 1] != '\\')
        folder--;
    ea_text_add(out, path, folder);
    ea_text_str(out, language);
    ea_text_char(out, '/');
    ea_text_str(out, path + folder);
    ea_text_str(out, ".mui");
}

/* The language file of a PE file, the wanted language's or the English one; *ret_data NULL: there is none. */
static int read_mui(const ea_manifest_options *o, char **ret_data, size_t *ret_bytes, ea_err *err) {
    const char *languages[] = {o->language ? o->language : "en-US", "en-US"};
    ea_text path;
    int rc = 0, found = 0;
    ea_text_init(&path);
    for (size_t i = 0; i < 2 && !rc && !found; i++) {
        ea_text_clear(&path);
        mui_path(&path, o->file, languages[i]);
        if (path.failed)
            rc = ea_fail(err, EA_ENOMEM, "read %s", o->file);
        else if (ea_path_exists(path.data)) {
            rc = ea_path_read_all(path.data, FILE_MAX_BYTES, ret_data, ret_bytes, err);
            found = !rc;
        }
    }
    ea_text_deinit(&path);
    return rc;
}

static int read_pe(ea_schemas *into, const void *data, size_t len_bytes, const ea_manifest_options *options,
                   ea_manifest_result *ret, ea_err *err) {
    char *mui = NULL;
    size_t mui_bytes = 0;
    int rc = read_mui(options, &mui, &mui_bytes, err);
    if (!rc)
        rc = ea_wevt_read(into, data, len_bytes, mui, mui_bytes, options, ret, err);
    free(mui);
    return rc;
}

/* A trace message format file begins like nothing in particular: its name says what it is. */
static int is_tmf(const char *path) {
    static const char END[] = ".tmf";
    size_t n = strlen(path), end = sizeof END - 1;
    for (size_t i = 0; i < end; i++)
        if (n < end || tolower((unsigned char)path[n - end + i]) != END[i])
            return 0;
    return 1;
}

static int read_tmf(ea_schemas *into, const void *data, size_t len_bytes, const ea_manifest_options *options,
                    ea_manifest_result *ret, ea_err *err) {
    size_t providers = ea_schemas_provider_count(into);
    ea_tmf_result result;
    int rc = ea_tmf_read(into, options->file, data, len_bytes, &result, err);
    if (rc)
        return rc;
    if (result.problems && options->on_problem)
        options->on_problem(options->arg, result.first_line, 1, result.first_problem);
    *ret = (ea_manifest_result){.providers = ea_schemas_provider_count(into) - providers,
                                .events = result.messages,
                                .problems = result.problems,
                                .changed = 1};
    return 0;
}

int ea_schema_file_read(ea_schemas *into, const ea_manifest_options *options, ea_manifest_result *ret, ea_err *err) {
    char *data;
    size_t len_bytes;
    int rc = ea_path_read_all(options->file, FILE_MAX_BYTES, &data, &len_bytes, err);
    if (rc)
        return rc;
    if (len_bytes >= 2 && memcmp(data, "MZ", 2) == 0)
        rc = read_pe(into, data, len_bytes, options, ret, err);
    else if (ea_schema_cache_is(data, len_bytes)) {
        size_t providers = ea_schemas_provider_count(into);
        *ret = (ea_manifest_result){.changed = 1};
        rc = ea_schema_cache_read(into, options->file, data, len_bytes, options->layer, &ret->events, err);
        ret->providers = ea_schemas_provider_count(into) - providers;
    } else if (is_tmf(options->file))
        rc = read_tmf(into, data, len_bytes, options, ret, err);
    else if (len_bytes > EA_MANIFEST_MAX_BYTES)
        rc = ea_fail(err, EA_ELIMIT, "read %s: a manifest has at most %d bytes", options->file, EA_MANIFEST_MAX_BYTES);
    else
        rc = ea_manifest_read(into, data, len_bytes, options, ret, err);
    free(data);
    return rc;
}

typedef struct first_problem {
    const char *file;
    ea_err *err;
    int found;
} first_problem;

static void load_keep_first(void *arg, unsigned long line, unsigned long column, const char *text) {
    first_problem *p = arg;
    if (p->found++)
        return;
    if (line)
        (void)ea_fail(p->err, EA_EFORMAT, "%s:%lu:%lu: %s", p->file, line, column, text);
    else
        (void)ea_fail(p->err, EA_EFORMAT, "%s: %s", p->file, text);
}

int ea_schema_file_load(ea_schemas *into, const char *path, const char *language, ea_err *err) {
    first_problem problems = {.file = path, .err = err};
    ea_manifest_options options = {
        .file = path, .language = language, .layer = EA_SCHEMA_GIVEN, .on_problem = load_keep_first, .arg = &problems};
    ea_manifest_result result;
    int rc = ea_schema_file_read(into, &options, &result, err);
    return rc ? rc : problems.found ? EA_EFORMAT : 0;
}
