/* Programs of the query language for commands. See programs.h. */
#include "service/app/programs.h"

#include "proto/base/map.h"
#include "proto/etl/etl.h"
#include "proto/event/schema/described.h"
#include "service/decode/decoder.h"

#include <stdlib.h>
#include <string.h>

/* Classes that are collected; they live as long as this. */
typedef struct collection {
    ea_schemas *schemas;
    ea_decoder *decoder;
    ea_registry *registry;
    ea_class_list classes;
} collection;

/* The classes of all events of the traces; damage is reported by the command's own reading. */
static int collect_classes(collection *k, const ea_program_classes *from, ea_err *err) {
    ea_etl_set *set = NULL;
    const ea_record *r;
    enum ea_counter outcome;
    ea_u64_map seen;
    ea_u64_map_init(&seen, 0);
    if (from->path_count < 1) /* a live session's are not known before */
        return 0;
    int rc = ea_etl_open(&set, (const char *const *)from->paths, (size_t)from->path_count, &(ea_etl_options){0}, err);
    while (!rc && (rc = ea_etl_next(set, &r, err)) > 0) {
        const ea_class *c = ea_decoder_find(k->decoder, &r, &outcome);
        rc = 0;
        if (ea_u64_map_get(&seen, (uintptr_t)c))
            continue;
        if (ea_u64_map_put(&seen, (uintptr_t)c, 1))
            rc = ea_fail(err, EA_ENOMEM, "collect event classes");
        else
            rc = ea_class_list_add(&k->classes, c, err);
    }
    ea_etl_close(set);
    ea_u64_map_deinit(&seen);
    return rc;
}

static int programs_collect(collection *k, const ea_program_classes *from, ea_err *err) {
    int rc = ea_schema_options_read(&k->schemas, from->schemas, err);
    if (!rc)
        rc = ea_described_classes(&k->classes, k->registry, k->schemas, err);
    if (!rc)
        rc = ea_decoder_create(&k->decoder, k->schemas, NULL, err);
    if (!rc)
        rc = collect_classes(k, from, err);
    return rc;
}

static void discard(collection *k) {
    ea_decoder_destroy(k->decoder);
    ea_registry_destroy(k->registry);
    ea_schemas_destroy(k->schemas);
    free(k->classes.items);
}

static void programs_print_problem(const ea_lang_problem *problem, const char *name, const char *text,
                                   size_t len_bytes) {
    ea_text t;
    ea_text_init(&t);
    ea_lang_problem_print(problem, name, text, len_bytes, &t);
    if (t.data)
        fwrite(t.data, 1, t.len_bytes, stderr);
    ea_text_deinit(&t);
}

/* The place as the user counts, who wrote the text between what is hidden. */
static void move_place(ea_lang_problem *p, const char *text, size_t len_bytes, size_t hidden_bytes) {
    if (p->line == 1)
        p->column = p->column > hidden_bytes ? p->column - (uint32_t)hidden_bytes : 1;
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < len_bytes; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (p->line > line || (p->line == line && p->column > column)) {
        p->line = line;
        p->column = column;
    }
}

int ea_program_compile(ea_lang_program **ret, const char *name, const ea_program_text *t,
                       const ea_program_classes *from, ea_err *err) {
    const char *text = t->text;
    size_t len_bytes = t->len_bytes;
    ea_lang_problem problem;
    collection k = {0};
    int rc = ea_registry_create(&k.registry, 0, err);
    if (rc)
        return rc;
    ea_lang_sources sources = {.registry = k.registry};
    if (t->args) {
        sources.args = t->args->items;
        sources.arg_count = t->args->count;
    }
    rc = ea_lang_compile(ret, text, len_bytes, &sources, &problem);
    if (rc && rc != EA_ENOMEM && problem.is_class) {
        rc = programs_collect(&k, from, err);
        if (rc) {
            discard(&k);
            return rc;
        }
        sources.classes = k.classes.items;
        sources.class_count = k.classes.count;
        rc = ea_lang_compile(ret, text, len_bytes, &sources, &problem);
    }
    if (rc == EA_ENOMEM) {
        rc = ea_fail(err, rc, "compile the program");
    } else if (rc) {
        size_t shown_bytes = len_bytes - t->before_bytes - t->after_bytes;
        move_place(&problem, text + t->before_bytes, shown_bytes, t->before_bytes);
        programs_print_problem(&problem, name, text + t->before_bytes, shown_bytes);
        rc = ea_fail(err, EA_EUSAGE, "compile the program: it has a mistake at line %u, column %u", problem.line,
                     problem.column);
    }
    discard(&k);
    return rc;
}

/* ---- conditions ---- */

struct ea_where {
    ea_lang_program *program;
    ea_lang_run *run;
    ea_machine *machine;
};

static void put_probe(ea_text *t, const char *first, const char *between, const char *second) {
    const char *const parts[] = {first, between, second};
    ea_text_str(t, t->len_bytes ? ",\"" : "\"");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (const char *s = parts[i]; *s; s++)
            if (*s != '"' && *s != '\\' && *s != '\n')
                ea_text_char(t, *s);
    ea_text_char(t, '"');
}

/* The classes whose fields the condition may name. */
static void put_probes(ea_text *t, const ea_class_choice *choice) {
    if (!choice->classes.count && !choice->providers.count && !choice->ids.count)
        ea_text_char(t, '*');
    for (size_t i = 0; i < choice->classes.count; i++)
        put_probe(t, choice->classes.items[i], "", "");
    for (size_t i = 0; !choice->classes.count && (i < choice->providers.count || (!i && choice->ids.count)); i++) {
        const char *provider = choice->providers.count ? choice->providers.items[i] : "*";
        for (size_t k = 0; k < choice->ids.count || (!k && !choice->ids.count); k++)
            put_probe(t, provider, ":", choice->ids.count ? choice->ids.items[k] : "*");
    }
}

/* A program that ends at the first event for which the condition holds. */
static ea_program_text put_program(ea_text *t, const char *condition, const ea_class_choice *choice) {
    static const char AFTER[] = "\n)/ { exit(); }"; /* the line's end ends a comment of the condition's */
    put_probes(t, choice);
    ea_text_str(t, " /(");
    size_t before_bytes = t->len_bytes;
    ea_text_str(t, condition);
    ea_text_str(t, AFTER);
    return (ea_program_text){t->data, t->len_bytes, before_bytes, sizeof AFTER - 1, NULL};
}

int ea_where_create(ea_where **ret, const char *condition, const ea_class_choice *choice,
                    const ea_program_classes *from, ea_err *err) {
    ea_text t;
    ea_lang_problem problem;
    int alone = ea_lang_check_expression(condition, strlen(condition), &problem);
    if (alone && alone != EA_ENOMEM) {
        programs_print_problem(&problem, "--where", condition, strlen(condition));
        return ea_fail(err, EA_EUSAGE, "compile the program: it has a mistake at line %u, column %u", problem.line,
                       problem.column);
    }
    ea_where *w = alone ? NULL : calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "compile --where");
    ea_text_init(&t);
    ea_program_text program = put_program(&t, condition, choice);
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "compile --where")
                      : ea_program_compile(&w->program, "--where", &program, from, err);
    ea_text_deinit(&t);
    if (!rc && ea_lang_needs_stacks(w->program))
        rc = ea_fail(err, EA_EUSAGE, "--where: stacks of events are known to 'etwagent watch' only");
    if (!rc)
        rc = ea_machine_create(&w->machine, &(ea_machine_options){0}, err);
    if (!rc)
        rc = ea_lang_run_create(&w->run, w->program, &(ea_lang_run_options){.machine = w->machine}, err);
    if (rc) {
        ea_where_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ea_where_destroy(ea_where *w) {
    if (!w)
        return;
    ea_lang_run_destroy(w->run);
    ea_lang_program_destroy(w->program);
    ea_machine_destroy(w->machine);
    free(w);
}

int ea_where_holds(ea_where *w, const ea_record *record, const ea_class *c, const ea_clock *clock, ea_err *err) {
    ea_lang_event event = {
        .record = record, .c = c, .clock = clock, .utc_ns = ea_clock_to_utc_ns(clock, record->time_raw)};
    int rc = ea_machine_apply(w->machine, record, c, event.utc_ns, err);
    if (rc)
        return rc;
    rc = ea_lang_run_holds(w->run, &event);
    return rc < 0 ? ea_fail(err, rc, "evaluate --where") : rc;
}
