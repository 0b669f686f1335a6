/* Printing schemas. See schema_show.h. */
#include "service/app/schema_show.h"

#include "proto/event/class_names.h"
#include "proto/event/schema/catalogue.h"
#include "service/app/schema_print.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A provider as one source knows it. */
typedef struct known {
    ea_guid guid;
    const char *name, *source, *layer;
    const ea_schema_provider *schema; /* NULL: our own tables, this family */
    const ea_family *family;
    size_t events; /* and versions of events */
} known;

typedef struct output {
    int json;
    ea_schemas *schemas;
    ea_registry *registry;
    ea_text text;
    known *providers;
    size_t count;
    ea_schema *events; /* all schemas, in order */
    size_t event_count;
} output;

static const char *const LAYERS[EA_SCHEMA_LAYERS] = {"trace", "plug-in", "file", "catalogue", "windows"};

static int schema_show_by_name(const void *a, const void *b) {
    const known *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    c = c ? c : memcmp(&x->guid, &y->guid, sizeof x->guid);
    return c ? c : strcmp(x->layer, y->layer);
}

/* Of a provider of one layer: its events' schemas are those whose description begins with its key. */
static int schema_show_is_of(const ea_class *c, const known *k, const ea_schema *s) {
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

static int schema_show_collect(output *o, ea_err *err) {
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
            o->providers[i].events += (size_t)schema_show_is_of(c, &o->providers[i], &s);
        o->events[o->event_count++] = s;
    }
    qsort(o->providers, o->count, sizeof *o->providers, schema_show_by_name);
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
            schema_show_is_of(c, k, &o->events[i]) && n < k->events)
            classes[n++] = c;
    }
    qsort(classes, n, sizeof *classes, by_event);
    for (size_t i = 0; i < n; i++) {
        if (o->json) {
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

static int schema_show_list(output *o) {
    for (size_t i = 0; i < o->count; i++) {
        if (o->json) {
            ea_text_str(&o->text, i ? ",\n" : "[");
            put_head_json(&o->text, &o->providers[i]);
            ea_text_char(&o->text, '}');
        } else {
            put_line(&o->text, &o->providers[i]);
        }
    }
    if (o->json)
        ea_text_str(&o->text, o->count ? "]\n" : "[]\n");
    return 0;
}

int ea_schema_is_name(const char *a, const char *b) {
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++)
        b++;
    return *a == *b;
}

static int schema_show_show(output *o, const char *wanted, ea_err *err) {
    ea_guid guid;
    int by_guid = !ea_guid_parse(wanted, &guid), rc = 0;
    size_t shown = 0;
    ea_near near = {0};
    for (size_t i = 0; i < o->count && !rc; i++) {
        const known *k = &o->providers[i];
        if (!by_guid && k->name)
            ea_near_note(&near, wanted, k->name);
        if (by_guid ? !ea_guid_equal(&k->guid, &guid) : !ea_schema_is_name(k->name, wanted))
            continue;
        if (o->json) {
            ea_text_str(&o->text, shown ? ",\n" : "[");
            put_head_json(&o->text, k);
        } else {
            put_line(&o->text, k);
        }
        if (k->schema) {
            put_entries(&o->text, o->json, "keywords", k->schema->keywords, k->schema->keyword_count);
            put_entries(&o->text, o->json, "levels", k->schema->levels, k->schema->level_count);
        }
        if (o->json)
            ea_text_str(&o->text, ",\"events\":[");
        rc = put_events(o, k, err);
        if (o->json)
            ea_text_str(&o->text, "]}");
        shown++;
    }
    if (!rc && !shown)
        return ea_fail(err, EA_ENOTFOUND,
                       "find a provider '%.80s': \"etwagent schema list\" prints the known ones%s%s%s", wanted,
                       *near.name ? "; did you mean '" : "", near.name, *near.name ? "'?" : "");
    if (o->json)
        ea_text_str(&o->text, "]\n");
    return rc;
}

/* EA_ENOTFOUND: the wanted schema is unknown. */
static int print_schemas(ea_schemas *schemas, const char *wanted, int json, ea_err *err) {
    output o = {.json = json, .schemas = schemas};
    ea_text_init(&o.text);
    int rc = ea_registry_create(&o.registry, 0, err);
    if (!rc)
        rc = schema_show_collect(&o, err);
    if (!rc)
        rc = wanted ? schema_show_show(&o, wanted, err) : schema_show_list(&o);
    if (!rc &&
        (o.text.failed || fwrite(o.text.data, 1, o.text.len_bytes, stdout) != o.text.len_bytes || fflush(stdout)))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    ea_registry_destroy(o.registry);
    free(o.providers);
    free(o.events);
    ea_text_deinit(&o.text);
    return rc;
}

int ea_schema_print(const ea_schema_options *options, const char *wanted, int json, ea_schema_more more,
                    const void *arg) {
    ea_schemas *schemas = NULL;
    ea_err err = {0};
    int rc = ea_schema_options_read(&schemas, options, &err);
    if (!rc)
        rc = ea_catalogue_read(schemas, &err);
    if (!rc && more && more(arg, wanted, schemas, &err))
        ea_err_print(stderr, "etwagent", &err);
    if (!rc)
        rc = print_schemas(schemas, wanted, json, &err);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    ea_schemas_destroy(schemas);
    return ea_exit_code(rc);
}
