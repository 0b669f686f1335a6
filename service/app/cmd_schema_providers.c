/* etwagent schema list, schema show: which providers are known, from where, and what is known of one.
 * Before it: main.c. After it: proto/event, proto/event/schema. Thread: the main one. */
#include "catalogue.h"
#include "commands.h"
#include "schema_options.h"
#include "schema_print.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    ea_schema_options schemas;
    int json;
} options;

/* A provider as one source knows it. */
typedef struct known {
    ea_guid guid;
    const char *name, *source, *layer;
    const ea_schema_provider *schema; /* NULL: our own tables, this family */
    const ea_family *family;
    size_t events; /* and versions of events */
} known;

typedef struct output {
    const options *options;
    ea_schemas *schemas;
    ea_registry *registry;
    ea_text text;
    known *providers;
    size_t count;
    ea_schema *events; /* all schemas, in order */
    size_t event_count;
} output;

static const char *const LAYERS[EA_SCHEMA_LAYERS] = {"trace", "plug-in", "file", "catalogue", "windows"};

static int by_name(const void *a, const void *b) {
    const known *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    c = c ? c : memcmp(&x->guid, &y->guid, sizeof x->guid);
    return c ? c : strcmp(x->layer, y->layer);
}

/* Of a provider of one layer: its events' schemas are those whose description begins with its key. */
static int is_of(const ea_class *c, const known *k, const ea_schema *s) {
    return k->schema && s->layer == k->schema->layer && ea_guid_equal(&c->provider, &k->guid);
}

static int by_event(const void *a, const void *b) {
    const ea_class *x = *(const ea_class *const *)a, *y = *(const ea_class *const *)b;
    return x->code != y->code ? (x->code > y->code) - (x->code < y->code)
                              : (x->version > y->version) - (x->version < y->version);
}

/* The number of versions that the rows of a family describe, and that of the classes if they are wanted. */
static size_t family_events(output *o, const ea_family *family, const ea_class **ret) {
    size_t n = 0;
    for (size_t i = 0; i < family->row_count; i++)
        for (unsigned v = family->rows[i].since; v <= family->rows[i].until; v++) {
            ea_record record = {.provider = family->provider->guid,
                                .version = (uint8_t)v,
                                .pointer_size = 8,
                                .flags = family->provider->classic ? EA_FLAG_CLASSIC_HEADER : 0,
                                .opcode = (uint8_t)(family->provider->classic ? family->rows[i].code : 0),
                                .id = family->provider->classic ? 0 : family->rows[i].code};
            if (ret)
                ret[n] = ea_registry_find(o->registry, &record);
            n++;
        }
    return n;
}

static int collect(output *o, ea_err *err) {
    size_t family_count, cursor = 0;
    const ea_family *const *families = ea_event_families(&family_count);
    ea_schema s;
    o->providers = calloc(family_count + ea_schemas_provider_count(o->schemas) + 1, sizeof *o->providers);
    o->events = calloc(ea_schemas_count(o->schemas) + 1, sizeof *o->events);
    if (!o->providers || !o->events)
        return ea_fail(err, EA_ENOMEM, "list schemas");
    for (size_t i = 0; i < family_count; i++)
        o->providers[o->count++] = (known){.guid = families[i]->provider->guid,
                                           .name = families[i]->provider->name,
                                           .source = families[i]->source,
                                           .layer = "tables",
                                           .family = families[i],
                                           .events = family_events(o, families[i], NULL)};
    for (size_t i = 0; i < ea_schemas_provider_count(o->schemas); i++) {
        const ea_schema_provider *p = ea_schemas_provider_at(o->schemas, i);
        o->providers[o->count++] =
            (known){.guid = p->guid, .name = p->name, .source = p->origin, .layer = LAYERS[p->layer], .schema = p};
    }
    while (ea_schemas_next(o->schemas, &cursor, &s)) {
        const ea_class *c;
        int rc = ea_registry_add_description(o->registry, s.description, s.len_bytes, &c, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < o->count; i++)
            o->providers[i].events += (size_t)is_of(c, &o->providers[i], &s);
        o->events[o->event_count++] = s;
    }
    qsort(o->providers, o->count, sizeof *o->providers, by_name);
    return 0;
}

static void put_head_json(ea_text *t, const known *k) {
    ea_text_str(t, "{\"provider\":\"");
    ea_text_guid(t, &k->guid);
    ea_text_str(t, "\",\"name\":");
    ea_text_json_str(t, k->name);
    ea_text_printf(t, ",\"layer\":\"%s\",\"source\":", k->layer);
    ea_text_json_str(t, k->source);
    ea_text_printf(t, ",\"event_count\":%zu", k->events);
}

static void put_entries(ea_text *t, int json, const char *what, const ea_map_entry *entries, size_t count) {
    if (json)
        ea_text_printf(t, ",\"%s\":{", what);
    for (size_t i = 0; i < count; i++) {
        if (json) {
            ea_text_printf(t, "%s\"", i ? "," : "");
            ea_text_hex64(t, entries[i].value);
            ea_text_str(t, "\":");
            ea_text_json_str(t, entries[i].name);
        } else {
            ea_text_printf(t, "%-9s ", i ? "" : what);
            ea_text_hex64(t, entries[i].value);
            ea_text_char(t, ' ');
            ea_text_safe(t, entries[i].name, strlen(entries[i].name));
            ea_text_char(t, '\n');
        }
    }
    if (json)
        ea_text_char(t, '}');
}

static int put_events(output *o, const known *k, ea_err *err) {
    size_t n = 0;
    const ea_class **classes = calloc(k->events + 1, sizeof *classes);
    if (!classes)
        return ea_fail(err, EA_ENOMEM, "show a provider");
    if (k->family)
        n = family_events(o, k->family, classes);
    for (size_t i = 0; k->schema && i < o->event_count; i++) {
        const ea_class *c;
        if (!ea_registry_add_description(o->registry, o->events[i].description, o->events[i].len_bytes, &c, NULL) &&
            is_of(c, k, &o->events[i]) && n < k->events)
            classes[n++] = c;
    }
    qsort(classes, n, sizeof *classes, by_event);
    for (size_t i = 0; i < n; i++) {
        if (o->options->json) {
            ea_text_str(&o->text, i ? ",\n" : "");
            ea_schema_print_json(&o->text, classes[i], k->source);
        } else {
            ea_text_char(&o->text, '\n');
            ea_schema_print_text(&o->text, classes[i]);
        }
    }
    free(classes);
    return 0;
}

static void put_line(ea_text *t, const known *k) {
    ea_text_guid(t, &k->guid);
    ea_text_printf(t, " %5zu events  %-9s ", k->events, k->layer);
    ea_text_safe(t, *k->name ? k->name : "-", *k->name ? strlen(k->name) : 1);
    ea_text_str(t, "  (");
    ea_text_safe(t, k->source, strlen(k->source));
    ea_text_str(t, ")\n");
}

static int list(output *o) {
    for (size_t i = 0; i < o->count; i++) {
        if (o->options->json) {
            ea_text_str(&o->text, i ? ",\n" : "[");
            put_head_json(&o->text, &o->providers[i]);
            ea_text_char(&o->text, '}');
        } else {
            put_line(&o->text, &o->providers[i]);
        }
    }
    if (o->options->json)
        ea_text_str(&o->text, o->count ? "]\n" : "[]\n");
    return 0;
}

static int same_letters(const char *a, const char *b) {
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++)
        b++;
    return *a == *b;
}

static int show(output *o, const char *wanted, ea_err *err) {
    ea_guid guid;
    int by_guid = !ea_guid_parse(wanted, &guid), rc = 0;
    size_t shown = 0;
    for (size_t i = 0; i < o->count && !rc; i++) {
        const known *k = &o->providers[i];
        if (by_guid ? !ea_guid_equal(&k->guid, &guid) : !same_letters(k->name, wanted))
            continue;
        if (o->options->json) {
            ea_text_str(&o->text, shown ? ",\n" : "[");
            put_head_json(&o->text, k);
        } else {
            put_line(&o->text, k);
        }
        if (k->schema) {
            put_entries(&o->text, o->options->json, "keywords", k->schema->keywords, k->schema->keyword_count);
            put_entries(&o->text, o->options->json, "levels", k->schema->levels, k->schema->level_count);
        }
        if (o->options->json)
            ea_text_str(&o->text, ",\"events\":[");
        rc = put_events(o, k, err);
        if (o->options->json)
            ea_text_str(&o->text, "]}");
        shown++;
    }
    if (!rc && !shown)
        return ea_fail(err, EA_ENOTFOUND, "find a provider '%s': \"etwagent schema list\" prints those that are known",
                       wanted);
    if (o->options->json)
        ea_text_str(&o->text, "]\n");
    return rc;
}

/* wanted: NULL to list. */
static int run(const options *given, const char *wanted) {
    output o = {.options = given};
    ea_err err = {0};
    ea_text_init(&o.text);
    int rc = ea_schema_options_read(&o.schemas, &given->schemas, &err);
    if (!rc)
        rc = ea_catalogue_read(o.schemas, &err);
    if (!rc)
        rc = ea_registry_create(&o.registry, 0, &err);
    if (!rc)
        rc = collect(&o, &err);
    if (!rc)
        rc = wanted ? show(&o, wanted, &err) : list(&o);
    if (!rc &&
        (o.text.failed || fwrite(o.text.data, 1, o.text.len_bytes, stdout) != o.text.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    ea_registry_destroy(o.registry);
    ea_schemas_destroy(o.schemas);
    free(o.providers);
    free(o.events);
    ea_text_deinit(&o.text);
    return ea_exit_code(rc);
}

static int run_list(const void *arg, int operand_count, char **operands) {
    (void)operand_count, (void)operands;
    return run(arg, NULL);
}

static int run_show(const void *arg, int operand_count, char **operands) {
    (void)operand_count;
    return run(arg, operands[0]);
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
    .run = run_list,
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
    .run = run_show,
    .min_operands = 1,
    .max_operands = 1,
};
