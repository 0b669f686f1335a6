/* Plug-ins. See plugin.h. */
#include "service/decode/plugin.h"

#include "proto/base/platform.h"
#include "proto/base/trust.h"
#include "proto/event/schema/cache.h"
#include "service/decode/plugin_ask.h"

#include <stdarg.h>
#include <stdlib.h>

enum { ANSWER_MAX_BYTES = 64 << 20, LINE_BYTES = 800 };

static const int64_t TIMEOUT_NS = INT64_C(5000000000);

typedef struct loader {
    ea_schemas *into;
    ea_registry *tables; /* of our own classes alone */
    ea_plugin_functions *functions;
    const char *program, *folder;
    int64_t timeout_ns;
    ea_plugin_note on_note;
    void *arg;
    ea_err *err;
} loader;

EA_PRINTF(3, 4) static void leave_out(const loader *l, const char *name, const char *format, ...) {
    char line[LINE_BYTES];
    va_list args;
    int n = snprintf(line, sizeof line, "plug-in %.200s is left out: ", name);
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    l->on_note(l->arg, line);
}

/* The existing owner of a class that a plug-in requests; NULL: none. */
static const char *owner_of(const loader *l, const ea_class *c) {
    ea_record record = {.provider = c->provider,
                        .version = c->version,
                        .pointer_size = 8,
                        .flags = c->classic ? EA_FLAG_CLASSIC_HEADER : 0,
                        .opcode = (uint8_t)(c->classic ? c->code : 0),
                        .id = c->classic ? 0 : c->code};
    if (ea_registry_find(l->tables, &record)->status == EA_CLASS_KNOWN)
        return "this program's own tables";
    return ea_schemas_has(l->into, EA_SCHEMA_PLUGIN, &c->provider, c->code, c->version, c->classic) ? "another plug-in"
                                                                                                    : NULL;
}

/* Adds a plug-in's classes if all of them are free. *file: the plug-in, for its functions; NULL when they took it. */
static int plugin_take(loader *l, const char *name, ea_trusted_file **file, const ea_schemas *offered, ea_err *err) {
    size_t cursor = 0;
    ea_schema s;
    ea_err why;
    int rc = 0, unfolds = 0;
    while (ea_schemas_next(offered, &cursor, &s)) {
        const ea_class *c;
        rc = ea_registry_add_description(l->tables, s.description, s.len_bytes, &c, err);
        if (rc)
            return rc;
        unfolds |= c->unfolded;
        const char *owner = owner_of(l, c);
        if (owner) {
            leave_out(l, name, "its class %.80s (%s %u, version %u) belongs to %s", c->name,
                      c->classic ? "opcode" : "id", (unsigned)c->code, (unsigned)c->version, owner);
            return 0;
        }
    }
    if (unfolds && (rc = ea_plugin_functions_add(l->functions, file, &why)) != 0) {
        leave_out(l, name, "%s", why.message);
        return rc == EA_ENOMEM ? rc : 0;
    }
    for (size_t i = 0; !rc && i < ea_schemas_provider_count(offered); i++) {
        ea_schema_provider p = *ea_schemas_provider_at(offered, i);
        p.origin = name;
        rc = ea_schemas_add_provider(l->into, &p, err);
    }
    for (cursor = 0; !rc && ea_schemas_next(offered, &cursor, &s);)
        rc = ea_schemas_add(l->into, EA_SCHEMA_PLUGIN, s.description, s.len_bytes, NULL, err);
    return rc;
}

static int plugin_take_answer(loader *l, const char *name, ea_trusted_file **file, const ea_run_result *r,
                              ea_err *err) {
    ea_schemas *offered;
    ea_err why = {0};
    size_t events;
    int rc = ea_schemas_create(&offered, 0, err);
    if (rc)
        return rc;
    rc = ea_schema_cache_read(offered, name, r->output, r->output_bytes, EA_SCHEMA_PLUGIN, &events, &why);
    if (rc) {
        leave_out(l, name, "its process answered with something else than its classes (plug-ins must not print)");
        rc = 0;
    } else if (!events) {
        leave_out(l, name, "it decodes no class");
    } else {
        rc = plugin_take(l, name, file, offered, err);
    }
    ea_schemas_destroy(offered);
    return rc;
}

/* Asks the plug-in in another process, and takes it into this one: both by the file that was checked. */
static int decode_plugin_ask(loader *l, const char *name, ea_trusted_file **file) {
    const char *const argv[] = {l->program, "plugin", "probe", "--quiet", ea_trusted_path(*file), NULL};
    ea_err why = {0};
    ea_run_result r = {0};
    int rc = 0;
    if (ea_run(argv, l->timeout_ns, ANSWER_MAX_BYTES, &r, &why))
        leave_out(l, name, "%s", why.message);
    else if (r.timed_out)
        leave_out(l, name, "it did not answer within %lld ms", (long long)(l->timeout_ns / 1000000));
    else if (r.crashed)
        leave_out(l, name, "it crashed (signal or exception %d)", r.exit_code);
    else if (r.exit_code)
        leave_out(l, name, "%.*s", (int)strcspn(r.output, "\r\n"), r.output);
    else
        rc = plugin_take_answer(l, name, file, &r, l->err);
    free(r.output);
    return rc;
}

static int plugin_load(loader *l, const char *name) {
    ea_text path;
    ea_err why = {0};
    ea_trusted_file *file = NULL;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/%s", l->folder, name);
    int rc = path.failed ? ea_fail(l->err, EA_ENOMEM, "load plug-ins") : 0;
    if (!rc && ea_trusted_open(&file, path.data, &why))
        leave_out(l, name, "%s", why.message);
    else if (!rc)
        rc = decode_plugin_ask(l, name, &file);
    ea_trusted_close(file);
    ea_text_deinit(&path);
    return rc;
}

static int plugin_on_entry(const char *name, int is_dir, void *arg) {
#if defined(_WIN32)
    static const char END[] = ".dll";
#else
    static const char END[] = ".so";
#endif
    size_t n = strlen(name), m = sizeof END - 1;
    return is_dir || n <= m || strcmp(name + n - m, END) != 0 ? 0 : plugin_load(arg, name);
}

int ea_plugins_load(ea_schemas *into, const char *program, const char *folder, int64_t timeout_ns,
                    ea_plugin_note on_note, void *arg, ea_err *err) {
    loader l = {.into = into,
                .program = program,
                .folder = folder,
                .timeout_ns = timeout_ns ? timeout_ns : TIMEOUT_NS,
                .on_note = on_note,
                .arg = arg,
                .err = err};
    int rc = ea_registry_create(&l.tables, 0, err);
    if (!rc)
        rc = ea_plugin_functions_create(&l.functions, err);
    if (!rc)
        rc = ea_path_list(folder, plugin_on_entry, &l, err);
    if (!rc)
        ea_plugin_functions_give(l.functions, into);
    else
        ea_plugin_functions_destroy(l.functions);
    ea_registry_destroy(l.tables);
    return rc;
}
