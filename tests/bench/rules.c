/* Measures what Sigma rules cost an event: all rules of a folder on the process starts of a file, which
 * tests/bench/sigma_rules.py makes.
 *
 * usage: rules measure [--runs N] DIR
 * Prints, as one JSON object a run: ns per event, candidates, expressions and matches per event, and the bytes of the
 * compiled rules. The first run warms the caches and is not printed. Thread: one. */
#include "proto/rules/rules.h"
#include "proto/base/array.h"
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "tests/bench/cpu_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 1001, FILES_MAX = 100, FILE_MAX_BYTES = 256 << 20 };

typedef struct options {
    uint64_t runs;
} options;

typedef struct world {
    ea_rules *rules;
    uint32_t group;
    char *text; /* of the events */
    ea_rules_value *values;
    size_t value_count, value_capacity;
    size_t *begins; /* of each event in values, and the end */
    size_t event_count, event_capacity;
} world;

static void on_problem(void *arg, const ea_rules_problem *p) {
    (void)arg;
    fprintf(stderr, "%s:%" PRIu32 ": %s\n", p->file, p->line, p->message);
}

static int read_rules(world *w, const char *folder, ea_err *err) {
    ea_rules_builder *b = NULL;
    char path[1000];
    int rc = ea_rules_builder_create(&b) ? ea_fail(err, EA_ENOMEM, "read the rules") : 0;
    for (int i = 0; i < FILES_MAX && !rc; i++) {
        char *text = NULL;
        size_t n = 0;
        snprintf(path, sizeof path, "%s/rules-%02d.yml", folder, i);
        if (!ea_path_exists(path))
            break;
        rc = ea_path_read_all(path, EA_RULES_FILE_MAX_BYTES, &text, &n, err);
        if (!rc && ea_rules_add(b, path, text, n, on_problem, NULL))
            rc = ea_fail(err, EA_ENOMEM, "read the rules");
        free(text);
    }
    if (!rc && ea_rules_build(b, &w->rules, on_problem, NULL))
        rc = ea_fail(err, EA_ENOMEM, "compile the rules");
    ea_rules_builder_destroy(b);
    if (!rc && (w->group = ea_rules_group(w->rules, "windows", "process_creation", "")) == UINT32_MAX)
        rc = ea_fail(err, EA_ENOTFOUND, "no rule of process_creation in %s", folder);
    return rc;
}

static int add_line(world *w, char *line) {
    char *value = strchr(line, '\t');
    if (!value)
        return EA_EFORMAT;
    *value++ = 0;
    uint32_t field = ea_rules_field(w->rules, w->group, line);
    if (field == UINT32_MAX)
        return 0;
    if (EA_GROW(w->values, w->value_capacity, w->value_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    w->values[w->value_count++] = (ea_rules_value){.field = field, .text = value, .len_bytes = strlen(value)};
    return 0;
}

static int read_events(world *w, const char *folder, ea_err *err) {
    char path[1000];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/events.txt", folder);
    int rc = ea_path_read_all(path, FILE_MAX_BYTES, &w->text, &n, err);
    for (char *at = rc ? NULL : w->text, *end; !rc && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        if (end > at) {
            rc = add_line(w, at);
        } else if (EA_GROW(w->begins, w->event_capacity, w->event_count + 2, SIZE_MAX)) {
            rc = EA_ENOMEM;
        } else {
            w->begins[0] = 0;
            w->begins[++w->event_count] = w->value_count;
        }
        if (rc)
            rc = ea_fail(err, rc, "read the events of %s", path);
    }
    return !rc && !w->event_count ? ea_fail(err, EA_EFORMAT, "no events in %s", path) : rc;
}

static int measure_once(const world *w, ea_rules_run *r, int is_printed, ea_err *err) {
    ea_rules_stats before = ea_rules_run_stats(r);
    int64_t begun = cpu_ns();
    for (size_t i = 0; i < w->event_count; i++) {
        const uint32_t *found;
        size_t count;
        int rc =
            ea_rules_run_event(r, w->group, w->values + w->begins[i], w->begins[i + 1] - w->begins[i], &found, &count);
        if (rc)
            return ea_fail(err, rc, "run the rules");
    }
    double events = (double)w->event_count, ns = (double)(cpu_ns() - begun) / events;
    ea_rules_stats s = ea_rules_run_stats(r);
    if (is_printed)
        printf("{\"rules\": %zu, \"events\": %zu, \"ns\": %.1f, \"candidates\": %.3f, \"expressions\": %.3f, "
               "\"matches\": %.4f, \"bytes\": %zu}\n",
               ea_rules_count(w->rules), w->event_count, ns, (double)(s.candidates - before.candidates) / events,
               (double)(s.patterns - before.patterns) / events, (double)(s.matches - before.matches) / events,
               ea_rules_bytes(w->rules));
    return 0;
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    world w = {.group = 0};
    ea_rules_run *r = NULL;
    ea_err err = {0};
    (void)operand_count;
    int rc = read_rules(&w, operands[0], &err);
    if (!rc)
        rc = read_events(&w, operands[0], &err);
    if (!rc && ea_rules_run_create(&r, w.rules))
        rc = ea_fail(&err, EA_ENOMEM, "run the rules");
    for (uint64_t i = 0; i <= o->runs && !rc; i++)
        rc = measure_once(&w, r, i > 0, &err);
    if (rc)
        ea_err_print(stderr, "rules", &err);
    ea_rules_run_destroy(r);
    ea_rules_destroy(w.rules);
    free(w.text);
    free(w.values);
    free(w.begins);
    return ea_exit_code(rc);
}

int main(int argc, char **argv) {
    static const ea_option OPTIONS[] = {
        {.name = "runs",
         .argument = "N",
         .type = EA_OPT_U64,
         .offset = offsetof(options, runs),
         .fallback = "5",
         .min = 1,
         .max = RUNS_MAX - 1,
         .help = "how often"},
        {.name = NULL},
    };
    static const ea_command MEASURE = {.name = "measure",
                                       .operands = "DIR",
                                       .summary = "Measure the rules of a folder on its events",
                                       .options = OPTIONS,
                                       .options_size = sizeof(options),
                                       .run = run,
                                       .min_operands = 1,
                                       .max_operands = 1};
    const ea_command *const commands[] = {&MEASURE, NULL};
    return ea_cli_main("rules", "", "Measures Sigma rules.", commands, argc, argv);
}
