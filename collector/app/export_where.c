/* A condition on stored events. See export_where.h. */
#include "collector/app/export_where.h"

#include "proto/event/schema/described.h"
#include "proto/lang/lang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BEFORE[] = "* /(",
                  AFTER[] = "\n)/ { exit(); }"; /* the line's end ends a comment of the condition's */

struct ec_export_where {
    ea_registry *registry; /* of the classes that the program was compiled with */
    ea_class_list classes;
    ea_lang_program *program;
    ea_lang_run *run;
    ea_machine *machine;
};

/* The place as the user counts, who wrote the text between the two others. */
static int report_problem(ea_lang_problem *p, const char *condition, ea_err *err) {
    ea_text t;
    if (p->line == 1)
        p->column = p->column > sizeof BEFORE - 1 ? p->column - (uint32_t)(sizeof BEFORE - 1) : 1;
    ea_text_init(&t);
    ea_lang_problem_print(p, "--where", condition, strlen(condition), &t);
    if (t.data)
        fwrite(t.data, 1, t.len_bytes, stderr);
    ea_text_deinit(&t);
    return ea_fail(err, EA_EUSAGE, "compile the program: it has a mistake at line %u, column %u", p->line, p->column);
}

static int compile_condition(ec_export_where *w, const char *condition, ea_err *err) {
    ea_lang_problem problem = {0};
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "%s%s%s", BEFORE, condition, AFTER);
    if (t.failed) {
        ea_text_deinit(&t);
        return ea_fail(err, EA_ENOMEM, "compile --where");
    }
    ea_lang_sources sources = {.registry = w->registry, .classes = w->classes.items, .class_count = w->classes.count};
    int rc = ea_lang_compile(&w->program, t.data, t.len_bytes, &sources, &problem);
    ea_text_deinit(&t);
    if (rc == EA_ENOMEM)
        return ea_fail(err, rc, "compile --where");
    if (rc)
        return report_problem(&problem, condition, err);
    if (ea_lang_needs_stacks(w->program))
        return ea_fail(err, EA_EUSAGE, "--where: stacks of events are known to 'etwagent watch' only");
    return 0;
}

int ec_export_where_create(ec_export_where **ret, const char *condition, ea_err *err) {
    ec_export_where *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "compile --where");
    int rc = ea_registry_create(&w->registry, 0, err);
    if (!rc)
        rc = ea_described_classes(&w->classes, w->registry, NULL, err);
    if (!rc)
        rc = compile_condition(w, condition, err);
    if (rc) {
        ec_export_where_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_export_where_destroy(ec_export_where *w) {
    if (!w)
        return;
    ec_export_where_end(w);
    ea_lang_program_destroy(w->program);
    ea_registry_destroy(w->registry);
    free(w->classes.items);
    free(w);
}

int ec_export_where_begin(ec_export_where *w, ea_err *err) {
    ec_export_where_end(w);
    int rc = ea_machine_create(&w->machine, &(ea_machine_options){0}, err);
    return rc ? rc : ea_lang_run_create(&w->run, w->program, &(ea_lang_run_options){.machine = w->machine}, err);
}

void ec_export_where_end(ec_export_where *w) {
    ea_lang_run_destroy(w->run);
    ea_machine_destroy(w->machine);
    w->run = NULL;
    w->machine = NULL;
}

int ec_export_where_holds(ec_export_where *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                          ea_err *err) {
    ea_lang_event event = {
        .record = record, .c = c, .clock = clock, .utc_ns = ea_clock_to_utc_ns(clock, record->time_raw)};
    int rc = ea_machine_apply(w->machine, record, c, event.utc_ns, err);
    if (rc)
        return rc;
    rc = ea_lang_run_holds(w->run, &event);
    return rc < 0 ? ea_fail(err, rc, "evaluate --where") : rc;
}
