/* From a configuration's filters to programs. See filter.h. */
#include "service/core/filter_parts.h"

#include "proto/base/platform.h"
#include "proto/lang/lang_where.h"

#include <stdlib.h>
#include <string.h>

static const size_t RUN_BYTES = (size_t)1 << 20; /* of texts; conditions keep none */

/* What programs may name, and where the first mistake is. */
typedef struct compiling {
    ea_event_filters *f;
    ea_lang_classes classes;
    ea_filter_problem *problem;
    ea_err *err;
} compiling;

/* ---- one program ---- */

static int filter_note_problem(compiling *k, const ea_lang_problem *p) {
    ea_filter_problem *to = k->problem;
    to->is_class = p->is_class;
    to->line = p->line;
    to->at = p->column;
    snprintf(to->message, sizeof to->message, "%s", p->message);
    return ea_fail(k->err, EA_EINVAL, "%s", p->message);
}

/* Programs whose run prints or ends for an event; the text is before, expression and after. */
static int compile_expression(compiling *k, filter_program *ret, const ea_strings *classes, const char *before,
                              const char *expression, const char *after) {
    ea_lang_problem problem;
    int rc =
        ea_lang_compile_expression(&ret->program, classes, before, expression, after, &k->classes, &problem, k->err);
    if (rc && problem.line)
        rc = filter_note_problem(k, &problem);
    if (!rc && ea_lang_needs_stacks(ret->program)) {
        snprintf(k->problem->message, sizeof k->problem->message,
                 "stacks of events are known to 'etwagent watch' only");
        rc = ea_fail(k->err, EA_EINVAL, "%s", k->problem->message);
    }
    return rc;
}

static int compile_condition(compiling *k, filter_program *ret, const ea_strings *classes, const char *condition) {
    return condition ? compile_expression(k, ret, classes, " /(", condition, "\n)/ { exit(); }") : 0;
}

static int compile_value(compiling *k, filter_program *ret, const ea_strings *classes, const char *expression) {
    return expression ? compile_expression(k, ret, classes, " { emit(k = (", expression, "\n)); }") : 0;
}

static int compile_classes(compiling *k, filter *r, const ea_strings *classes) {
    int rc = 0;
    for (size_t i = 0; i < classes->count && !rc; i++) { /* one by one, so that the mistake's place is known */
        filter_program one = {0};
        const ea_strings only = {.items = {classes->items[i]}, .count = 1};
        k->problem->item = i;
        rc = compile_expression(k, &one, &only, " { exit(); }", "", "");
        k->problem->line = 0;
        ea_lang_program_destroy(one.program);
    }
    if (!rc) {
        k->problem->item = 0;
        rc = compile_expression(k, &r->classes, classes, " { exit(); }", "", "");
    }
    ea_strings names = {.count = 0};
    for (size_t i = 0; i < classes->count; i++)
        if (!strpbrk(classes->items[i], "*?"))
            names.items[names.count++] = classes->items[i];
    if (!rc && names.count)
        rc = compile_expression(k, &r->explicit, &names, " { exit(); }", "", "");
    return rc;
}

/* ---- fields and keys ---- */

static int filter_compile_is_identifier(const char *s) {
    for (const char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || (p > s && *p >= '0' && *p <= '9')))
            return 0;
    return *s != 0;
}

static char *filter_compile_copy_text(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = malloc(n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

/* A field that no class of the filter has is a mistake; one with a name that the language cannot say is believed. */
static int take_fields(compiling *k, filter *r, const ea_filter_config *c) {
    r->fields = calloc(c->redact.count + 1, sizeof *r->fields);
    if (!r->fields)
        return ea_fail(k->err, EA_ENOMEM, "compile a filter");
    for (size_t i = 0; i < c->redact.count; i++) {
        const char *name = c->redact.items[i];
        filter_program has = {0};
        k->problem->item = i;
        int rc = filter_compile_is_identifier(name)
                     ? compile_expression(k, &has, &c->classes, " /has(event.", name, "\n)/ { exit(); }")
                     : 0;
        ea_lang_program_destroy(has.program);
        if (rc) {
            k->problem->line = 0;
            return rc;
        }
        if (!(r->fields[i] = filter_compile_copy_text(name)))
            return ea_fail(k->err, EA_ENOMEM, "compile a filter");
        r->field_count++;
    }
    return 0;
}

static int take_key(compiling *k, filter *r, const char *path) {
    char *data;
    int rc = ea_path_read_all(path, FILTER_KEY_MAX_BYTES, &data, &r->key_bytes, k->err);
    if (rc)
        return rc;
    r->key = (uint8_t *)data;
    while (r->key_bytes && (data[r->key_bytes - 1] == '\n' || data[r->key_bytes - 1] == '\r'))
        r->key_bytes--;
    return r->key_bytes >= FILTER_KEY_MIN_BYTES
               ? 0
               : ea_fail(k->err, EA_EFORMAT, "%s: %zu bytes: a key for redact-key has %d at the least", path,
                         r->key_bytes, FILTER_KEY_MIN_BYTES);
}

/* ---- a filter ---- */

static int filter_compile_start(compiling *k, filter_program *p) {
    return p->program
               ? ea_lang_run_create(
                     &p->run, p->program,
                     &(ea_lang_run_options){.form = EA_LANG_TEXT, .machine = k->f->machine, .limit_bytes = RUN_BYTES},
                     k->err)
               : 0;
}

static void filter_compile_stop(filter_program *p) {
    ea_lang_run_destroy(p->run);
    p->run = NULL;
}

static int take_patterns(compiling *k, filter *r, const ea_strings *classes) {
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < classes->count; i++)
        ea_text_printf(&t, "%s%s", i ? ", " : "", classes->items[i]);
    r->patterns = t.failed ? NULL : filter_compile_copy_text(t.data ? t.data : "");
    ea_text_deinit(&t);
    return r->patterns ? 0 : ea_fail(k->err, EA_ENOMEM, "compile a filter");
}

static int take_filter(compiling *k, filter *r, const ea_filter_config *c, int with_keys) {
    const char *expression = NULL;
    ea_u64_map_init(&r->counts, 0);
    for (size_t i = 0; i < 2; i++)
        ea_u64_map_init(&r->kept[i], 0);
    r->period = INT64_MIN / 2;
    r->second = INT64_MIN / 2;
    k->problem->key = "classes";
    int rc = take_patterns(k, r, &c->classes);
    if (!rc)
        rc = compile_classes(k, r, &c->classes);
    if (!rc) {
        k->problem->key = "where";
        rc = compile_condition(k, &r->where, &c->classes, c->where);
    }
    if (!rc) {
        k->problem->key = "drop";
        rc = compile_condition(k, &r->drop, &c->classes, c->drop);
    }
    if (!rc && c->repeat) {
        k->problem->key = "repeat";
        rc = ea_filter_repeat_parse(c->repeat, &r->repeat_ns, &expression, k->err);
        if (!rc)
            rc = ea_random_bytes(&r->seed, sizeof r->seed, k->err);
        if (!rc && (rc = compile_value(k, &r->repeat, &c->classes, expression)) && k->problem->line == 1)
            k->problem->at += (uint32_t)(expression - c->repeat);
    }
    if (!rc && c->sample) {
        k->problem->key = "sample";
        rc = ea_filter_sample_parse(c->sample, &r->sample_n, &expression, k->err);
        if (!rc && (rc = compile_value(k, &r->sample, &c->classes, expression)) && k->problem->line == 1)
            k->problem->at += (uint32_t)(expression - c->sample);
    }
    if (!rc && c->limit) {
        k->problem->key = "limit";
        rc = ea_filter_limit_parse(c->limit, &r->limit_n, &expression, k->err);
        if (!rc)
            rc = ea_random_bytes(&r->seed, sizeof r->seed, k->err);
        if (!rc && (rc = compile_value(k, &r->limit, &c->classes, expression)) && k->problem->line == 1)
            k->problem->at += (uint32_t)(expression - c->limit);
    }
    if (!rc) {
        k->problem->key = "redact";
        rc = take_fields(k, r, c);
    }
    return !rc && c->redact_key && with_keys ? take_key(k, r, c->redact_key) : rc;
}

/* ---- all ---- */

static void add_hash(uint64_t *hash, const void *data, size_t len_bytes) {
    *hash = ea_hash64(data, len_bytes, *hash + len_bytes);
}

static void filter_compile_add_text(uint64_t *hash, const char *s) {
    add_hash(hash, s ? s : "", s ? strlen(s) + 1 : 0);
}

static void add_texts(uint64_t *hash, const ea_strings *s) {
    for (size_t i = 0; i < s->count; i++)
        filter_compile_add_text(hash, s->items[i]);
    add_hash(hash, "", 0);
}

static uint64_t filter_compile_hash_of(const ea_event_filters *f, const ea_filter_config *configs) {
    uint64_t hash = 1;
    for (size_t i = 0; i < f->count; i++) {
        const ea_filter_config *c = &configs[i];
        add_texts(&hash, &c->classes);
        filter_compile_add_text(&hash, c->where);
        filter_compile_add_text(&hash, c->drop);
        filter_compile_add_text(&hash, c->repeat);
        filter_compile_add_text(&hash, c->sample);
        filter_compile_add_text(&hash, c->limit);
        add_texts(&hash, &c->redact);
        add_hash(&hash, f->items[i].key ? (const void *)f->items[i].key : "", f->items[i].key_bytes);
    }
    return hash + !hash;
}

int ea_event_filters_create(ea_event_filters **ret, const ea_tables *configs, const ea_schemas *schemas, int with_keys,
                            ea_filter_problem *ret_problem, ea_err *err) {
    const ea_filter_config *c = configs->items;
    ea_event_filters *f = calloc(1, sizeof *f);
    *ret_problem = (ea_filter_problem){.key = "classes"};
    if (!f)
        return ea_fail(err, EA_ENOMEM, "compile filters");
    ea_u64_map_init(&f->classes, 0);
    compiling k = {.f = f, .problem = ret_problem, .err = err};
    f->items = calloc(configs->count + 1, sizeof *f->items);
    f->payload = malloc(UINT16_MAX + 1);
    int rc =
        f->items && f->payload ? ea_registry_create(&f->registry, 0, err) : ea_fail(err, EA_ENOMEM, "compile filters");
    k.classes = (ea_lang_classes){.registry = f->registry, .schemas = schemas};
    for (size_t i = 0; i < configs->count && !rc; i++) {
        ret_problem->filter = i;
        f->count++;
        rc = take_filter(&k, &f->items[i], &c[i], with_keys);
    }
    ea_lang_classes_deinit(&k.classes);
    if (!rc)
        f->hash = filter_compile_hash_of(f, c);
    if (rc) {
        ea_event_filters_destroy(f);
        return rc;
    }
    *ret = f;
    return 0;
}

int ea_event_filters_use_machine(ea_event_filters *f, const ea_machine *machine, ea_err *err) {
    compiling k = {.f = f, .err = err};
    int rc = machine ? 0 : ea_machine_create(&f->own, &(ea_machine_options){0}, err);
    f->machine = machine ? machine : f->own;
    for (size_t i = 0; i < f->count && !rc; i++) {
        filter_program *const ALL[] = {&f->items[i].where, &f->items[i].drop, &f->items[i].repeat, &f->items[i].sample,
                                       &f->items[i].limit};
        for (size_t n = 0; n < sizeof ALL / sizeof *ALL && !rc; n++) {
            filter_compile_stop(ALL[n]);
            rc = filter_compile_start(&k, ALL[n]);
        }
    }
    return rc;
}

void ea_event_filters_destroy(ea_event_filters *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++) {
        filter *r = &f->items[i];
        filter_program *const ALL[] = {&r->classes, &r->explicit, &r->where, &r->drop,
                                       &r->repeat,  &r->sample,   &r->limit};
        for (size_t n = 0; n < sizeof ALL / sizeof *ALL; n++) {
            filter_compile_stop(ALL[n]);
            ea_lang_program_destroy(ALL[n]->program);
        }
        ea_u64_map_deinit(&r->counts);
        for (size_t n = 0; n < 2; n++)
            ea_u64_map_deinit(&r->kept[n]);
        for (size_t n = 0; n < r->field_count; n++)
            free(r->fields[n]);
        free(r->fields);
        free(r->key);
        free(r->patterns);
    }
    for (size_t i = 0; i < f->known_count; i++)
        free(f->known[i]);
    free(f->known);
    ea_u64_map_deinit(&f->classes);
    ea_machine_destroy(f->own);
    ea_registry_destroy(f->registry);
    free(f->items);
    free(f->payload);
    free(f);
}

uint64_t ea_event_filters_hash(const ea_event_filters *f) {
    return f ? f->hash : 0;
}

/* ---- notes ---- */

/* Whether a filter can drop a class of the tables that is state, by its name or by a pattern. */
static const char *filter_compile_state_of(const filter_program *p) {
    size_t count;
    const ea_family *const *families = ea_event_families(&count);
    for (size_t i = 0; i < count && p->program; i++)
        for (size_t r = 0; r < families[i]->row_count; r++) {
            const ea_class_row *row = &families[i]->rows[r];
            const ea_provider_row *of = families[i]->provider;
            ea_class c = {.provider = of->guid,
                          .provider_name = of->name,
                          .name = row->name,
                          .code = row->code,
                          .classic = (uint8_t)of->classic,
                          .kind = of->kind,
                          .family = ea_event_family_of(&of->guid, of->classic)};
            if (ea_lang_concerns(p->program, &c) && ea_filter_is_state(&c))
                return row->name;
        }
    return NULL;
}

void ea_event_filters_each_note(const ea_event_filters *f, void (*on_note)(void *arg, const char *text), void *arg) {
    char text[512];
    for (size_t i = 0; i < f->count; i++) {
        const filter *r = &f->items[i];
        if (!r->where.program && !r->drop.program && !r->repeat_ns && !r->sample_n && !r->limit_n)
            continue;
        const char *named = filter_compile_state_of(&r->explicit),
                   *fits = named ? NULL : filter_compile_state_of(&r->classes);
        if (named)
            snprintf(text, sizeof text,
                     "a filter names %.100s: the collector knows processes, modules or names by such events, and lacks "
                     "what is dropped until the next keyframe",
                     named);
        else if (fits)
            snprintf(text, sizeof text,
                     "the filter of %.200s passes over %.100s and other classes of the machine's state; only a filter "
                     "that names them without * and ? drops them",
                     r->patterns, fits);
        if (named || fits)
            on_note(arg, text);
    }
}
