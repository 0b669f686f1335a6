/* etwagent providers: the providers of this machine as Windows' TDH knows them, beside what this program knows itself.
 * TDH takes seconds for some: what it said is kept in files for a while. Called by: main.c. Calls:
 * service/etw/tdh_schemas.h, schema_show.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/event/schema/cache.h"
#include "service/app/agent_commands.h"
#include "service/app/schema_show.h"
#include "service/core/schema_options.h"
#include "service/etw/live.h"
#include "service/etw/tdh_schemas.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_MAX_BYTES = 64 << 20, PATH_BYTES = 4096 };

typedef struct options {
    ea_schema_options schemas;
    const char *folder; /* NULL: the default */
    int64_t max_age_ns;
    int json;
} options;

/* What is asked: all providers' names, or one provider. */
typedef struct question {
    const options *o;
    ea_tdh *tdh; /* NULL: not opened yet */
    const ea_guid *guid;
    const char *name; /* NULL: all */
} question;

static int make_path(const question *q, char *out, ea_err *err) {
    char state[PATH_BYTES];
    ea_text t;
    if (!q->o->folder) {
        int rc = ea_state_dir(state, sizeof state, err);
        if (rc)
            return rc;
    }
    ea_text_init(&t);
    ea_text_printf(&t, "%s/", q->o->folder ? q->o->folder : state);
    if (q->guid) {
        ea_text_str(&t, "provider-");
        ea_text_guid(&t, q->guid);
    } else {
        ea_text_str(&t, "providers");
    }
    ea_text_str(&t, ".schemas");
    int fits = !t.failed && t.len_bytes < PATH_BYTES;
    if (fits)
        memcpy(out, t.data, t.len_bytes + 1);
    ea_text_deinit(&t);
    return fits ? 0 : ea_fail(err, EA_ELIMIT, "keep TDH's answers: the path is too long");
}

/* Reads the file if it is young enough: 1, or 0. */
static int providers_read_file(const char *path, int64_t max_age_ns, ea_schemas *into) {
    char *data;
    size_t len_bytes, count;
    int64_t made_ns, now_ns = ea_utc_ns();
    if (ea_path_modified(path, &made_ns, NULL) || made_ns > now_ns || now_ns - made_ns > max_age_ns ||
        ea_path_read_all(path, CACHE_MAX_BYTES, &data, &len_bytes, NULL))
        return 0;
    int rc = ea_schema_cache_read(into, path, data, len_bytes, EA_SCHEMA_WINDOWS, &count, NULL);
    free(data);
    return !rc;
}

/* Asks TDH and saves the answer. A file that cannot be written is logged; this is no error. */
static int ask_tdh(question *q, const char *path, ea_schemas *into, ea_err *err) {
    ea_schemas *fresh = NULL;
    ea_err unwritten;
    int rc = q->tdh ? 0 : ea_tdh_open(&q->tdh, err);
    if (!rc)
        rc = ea_schemas_create(&fresh, 0, err);
    if (!rc)
        rc = q->guid ? ea_tdh_show(q->tdh, q->guid, q->name, fresh, err) : ea_tdh_list(q->tdh, fresh, err);
    if (!rc && q->guid && ea_tdh_lacks(q->tdh))
        fprintf(stderr, "etwagent: this Windows does not say what %s a provider has\n", ea_tdh_lacks(q->tdh));
    if (!rc) {
        ea_text t;
        ea_text_init(&t);
        (void)ea_schemas_merge(into, fresh);
        if (ea_schema_cache_write(fresh, EA_SCHEMA_WINDOWS, &t, &unwritten) || ea_path_make_parent(path, &unwritten) ||
            ea_path_write_all(path, t.data, t.len_bytes, 0, &unwritten))
            ea_err_print(stderr, "etwagent", &unwritten);
        ea_text_deinit(&t);
    }
    ea_schemas_destroy(fresh);
    return rc;
}

/* From the file, or TDH; when TDH fails, from a file of any age. */
static int providers_get(question *q, ea_schemas *into, ea_err *err) {
    char path[PATH_BYTES];
    int rc = make_path(q, path, err);
    if (rc || providers_read_file(path, q->o->max_age_ns, into))
        return rc;
    rc = ask_tdh(q, path, into, err);
    if (rc && providers_read_file(path, INT64_MAX, into)) {
        ea_err_print(stderr, "etwagent", err);
        fprintf(stderr, "etwagent: earlier answers of TDH are in %s\n", path);
        rc = 0;
    }
    return rc;
}

/* The provider of this name or GUID that Windows knows; NULL: none. */
static const ea_schema_provider *providers_find(const ea_schemas *schemas, const char *wanted) {
    ea_guid guid;
    int by_guid = !ea_guid_parse(wanted, &guid);
    for (size_t i = 0; i < ea_schemas_provider_count(schemas); i++) {
        const ea_schema_provider *p = ea_schemas_provider_at(schemas, i);
        if (p->layer == EA_SCHEMA_WINDOWS &&
            (by_guid ? ea_guid_equal(&p->guid, &guid) : ea_schema_is_name(p->name, wanted)))
            return p;
    }
    return NULL;
}

/* Adds what Windows says: an ea_schema_more. arg: the options. */
static int add_windows(const void *arg, const char *wanted, ea_schemas *into, ea_err *err) {
    question q = {.o = arg};
    int rc = providers_get(&q, into, err);
    const ea_schema_provider *p = !rc && wanted ? providers_find(into, wanted) : NULL;
    if (p) {
        ea_guid guid = p->guid;
        q.guid = &guid;
        q.name = p->name;
        rc = providers_get(&q, into, err);
    }
    ea_tdh_close(q.tdh);
    return rc;
}

static int providers_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    return ea_schema_print(&o->schemas, operand_count ? operands[0] : NULL, o->json,
                           ea_live_is_possible() ? add_windows : NULL, o);
}

const ea_command ea_cmd_providers = {
    .name = "providers",
    .operands = "[NAME]",
    .summary = "List the machine's ETW providers, or print one's keywords, levels, events and fields",
    .details =
        "What Windows says of them (TDH: manifests and MOF that are registered), and what this program knows itself, "
        "one line\n"
        "a provider and source: GUID, number of events that are described (each version counts), layer, name, source. "
        "With\n"
        "NAME, a name in any case or a GUID, each source is printed by itself. The layer windows is TDH's; the others "
        "are those\n"
        "of \"schema list\", and elsewhere than on Windows all there is. TDH takes seconds for some providers, so what "
        "it said\n"
        "is kept in files for --max-age; --max-age 0s asks again.\n"
        "Exit codes: 0 printed, 1 failed, or NAME is unknown.",
    .options =
        (const ea_option[]){
            EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
            {.name = "cache",
             .argument = "DIR",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, folder),
             .help = "folder for TDH's answers; default: the folder for state"},
            {.name = "max-age",
             .argument = "TIME",
             .type = EA_OPT_DURATION,
             .offset = offsetof(options, max_age_ns),
             .fallback = "24h",
             .max = INT64_C(31536000000000000),
             .help = "TDH's answers that are older than this are asked for again"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print a JSON array"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = providers_run,
    .max_operands = 1,
};
