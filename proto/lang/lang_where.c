/* See lang_where.h. */
#include "proto/lang/lang_where.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

struct ea_where {
    ea_lang_program *program;
    ea_lang_run *run;
    ea_machine *machine;
};

/* ---- compiling ---- */

static int where_collect(ea_lang_classes *c, ea_err *err) {
    int rc = ea_described_classes(&c->further, c->registry, c->schemas, err);
    if (!rc && c->collect)
        rc = c->collect(c->arg, &c->further, err);
    c->is_collected = !rc;
    return rc;
}

void ea_lang_classes_deinit(ea_lang_classes *c) {
    free(c->further.items);
    c->further = (ea_class_list){0};
    c->is_collected = 0;
}

int ea_lang_read_text(char **ret_text, size_t *ret_len_bytes, const char *path, ea_err *err) {
    ea_file *file = NULL;
    size_t room = EA_LANG_TEXT_MAX_BYTES + 1;
    *ret_text = NULL;
    *ret_len_bytes = 0;
    int rc = ea_file_open(&file, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    *ret_text = malloc(room);
    rc = *ret_text ? ea_file_read_at(file, 0, *ret_text, room, ret_len_bytes, err)
                   : ea_fail(err, EA_ENOMEM, "read %s", path);
    if (!rc && *ret_len_bytes == room)
        rc = ea_fail(err, EA_EUSAGE, "read %s: a program has %d bytes at the most", path, EA_LANG_TEXT_MAX_BYTES);
    ea_file_close(file);
    return rc;
}

static int where_try(ea_lang_program **ret, const char *text, size_t len_bytes, const ea_strings *args,
                     const ea_lang_classes *classes, ea_lang_problem *ret_problem) {
    ea_lang_sources sources = {
        .registry = classes->registry, .classes = classes->further.items, .class_count = classes->further.count};
    if (args) {
        sources.args = args->items;
        sources.arg_count = args->count;
    }
    return ea_lang_compile(ret, text, len_bytes, &sources, ret_problem);
}

int ea_lang_compile_text(ea_lang_program **ret, const char *text, size_t len_bytes, const ea_strings *args,
                         ea_lang_classes *classes, ea_lang_problem *ret_problem, ea_err *err) {
    int rc = where_try(ret, text, len_bytes, args, classes, ret_problem);
    if (rc == EA_EINVAL && ret_problem->is_class && !classes->is_collected) {
        rc = where_collect(classes, err);
        if (rc) {
            *ret_problem = (ea_lang_problem){0};
            return rc;
        }
        rc = where_try(ret, text, len_bytes, args, classes, ret_problem);
    }
    if (rc && rc != EA_EINVAL) {
        *ret_problem = (ea_lang_problem){0};
        return ea_fail(err, rc, "compile the program");
    }
    return rc;
}

/* The place in the user's text, of which the first line has so many bytes of another text before it. A place beyond its
 * end is its end. */
static void where_move_place(ea_lang_problem *p, const char *text, size_t before_bytes) {
    if (p->line == 1)
        p->column = p->column > before_bytes ? p->column - (uint32_t)before_bytes : 1;
    uint32_t line = 1, column = 1;
    for (; *text; text++) {
        column = *text == '\n' ? 1 : column + 1;
        line += *text == '\n';
    }
    if (p->line > line || (p->line == line && p->column > column)) {
        p->line = line;
        p->column = column;
    }
}

static void where_put_probes(ea_text *t, const ea_strings *patterns) {
    if (!patterns || !patterns->count)
        ea_text_char(t, '*');
    for (size_t i = 0; patterns && i < patterns->count; i++) {
        ea_text_str(t, i ? ",\"" : "\"");
        for (const char *s = patterns->items[i]; *s; s++)
            if (*s != '"' && *s != '\\' && *s != '\n')
                ea_text_char(t, *s);
        ea_text_char(t, '"');
    }
}

int ea_lang_compile_expression(ea_lang_program **ret, const ea_strings *patterns, const char *before,
                               const char *expression, const char *after, ea_lang_classes *classes,
                               ea_lang_problem *ret_problem, ea_err *err) {
    int rc = *expression ? ea_lang_check_expression(expression, strlen(expression), ret_problem) : 0;
    if (rc == EA_EINVAL) /* it could end the text before it, and go on with statements */
        return rc;
    ea_text t;
    ea_text_init(&t);
    where_put_probes(&t, patterns);
    ea_text_str(&t, before);
    size_t before_bytes = t.len_bytes;
    ea_text_str(&t, expression);
    ea_text_str(&t, after);
    if (rc || t.failed) {
        *ret_problem = (ea_lang_problem){0};
        rc = ea_fail(err, EA_ENOMEM, "compile the program");
    } else {
        rc = ea_lang_compile_text(ret, t.data, t.len_bytes, NULL, classes, ret_problem, err);
        if (rc && ret_problem->line)
            where_move_place(ret_problem, expression, before_bytes);
    }
    ea_text_deinit(&t);
    return rc;
}

int ea_lang_compile_condition(ea_lang_program **ret, const ea_strings *patterns, const char *condition,
                              ea_lang_classes *classes, ea_lang_problem *ret_problem, ea_err *err) {
    /* the line's end ends a comment of the condition's */
    return ea_lang_compile_expression(ret, patterns, " /(", condition, "\n)/ { exit(); }", classes, ret_problem, err);
}

int ea_lang_report_problem(const ea_lang_problem *p, const char *name, const char *text, size_t len_bytes,
                           ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ea_lang_problem_print(p, name, text, len_bytes, &t);
    if (t.data)
        fwrite(t.data, 1, t.len_bytes, stderr);
    ea_text_deinit(&t);
    return ea_fail(err, EA_EUSAGE, "compile the program: it has a mistake at line %u, column %u", p->line, p->column);
}

/* ---- --where ---- */

int ea_where_create(ea_where **ret, const char *condition, const ea_strings *patterns, ea_lang_classes *classes,
                    ea_err *err) {
    ea_lang_problem problem;
    ea_where *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "compile --where");
    int rc = ea_lang_compile_condition(&w->program, patterns, condition, classes, &problem, err);
    if (rc && problem.line)
        rc = ea_lang_report_problem(&problem, "--where", condition, strlen(condition), err);
    if (!rc && ea_lang_needs_stacks(w->program))
        rc = ea_fail(err, EA_EUSAGE, "--where: stacks of events are known to 'etwagent watch' only");
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
    ea_where_end(w);
    ea_lang_program_destroy(w->program);
    free(w);
}

int ea_where_needs_state(const ea_where *w) {
    return ea_lang_needs_processes(w->program) || ea_lang_needs_modules(w->program) || ea_lang_needs_names(w->program);
}

int ea_where_begin(ea_where *w, ea_err *err) {
    ea_where_end(w);
    int rc = ea_machine_create(&w->machine, &(ea_machine_options){0}, err);
    return rc ? rc : ea_lang_run_create(&w->run, w->program, &(ea_lang_run_options){.machine = w->machine}, err);
}

void ea_where_end(ea_where *w) {
    ea_lang_run_destroy(w->run);
    ea_machine_destroy(w->machine);
    w->run = NULL;
    w->machine = NULL;
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

/* ---- watch ---- */

int ea_lang_options_read(const ea_lang_options *o, const char *path, const char **ret_name, char **ret_text,
                         size_t *ret_len_bytes, ea_err *err) {
    *ret_text = NULL;
    *ret_name = o->program ? "program" : path;
    if (o->json && o->csv)
        return ea_fail(err, EA_EUSAGE, "--json and --csv exclude each other");
    if (!o->program)
        return path ? ea_lang_read_text(ret_text, ret_len_bytes, path, err)
                    : ea_fail(err, EA_EUSAGE, "expected -e PROGRAM, or a file with a program");
    size_t n = strlen(o->program);
    *ret_len_bytes = n;
    *ret_text = malloc(n + 1);
    if (!*ret_text)
        return ea_fail(err, EA_ENOMEM, "read the program");
    memcpy(*ret_text, o->program, n + 1);
    return 0;
}

ea_lang_run_options ea_lang_options_run(const ea_lang_options *o) {
    return (ea_lang_run_options){.form = o->json  ? EA_LANG_JSON
                                         : o->csv ? EA_LANG_CSV
                                                  : EA_LANG_TEXT,
                                 .is_terminal = ea_is_terminal(stdout),
                                 .is_plain_stacks = o->addresses,
                                 .pid = o->pid,
                                 .exe = o->exe,
                                 .limit_entries = (size_t)o->keys,
                                 .limit_bytes = (size_t)o->memory};
}

void ea_lang_report_counts(const ea_lang_run *run, const char *command) {
    ea_lang_counts c = ea_lang_run_counts(run);
    ea_text t;
    ea_text_init(&t);
    ea_lang_counts_print(&c, command, &t);
    if (t.len_bytes && !t.failed)
        fputs(t.data, stderr);
    ea_text_deinit(&t);
}
