/* Runs compiled Sigma rules on events, for tests/sigma_naive.py, which judges the same ones.
 * usage: rules_judge [--repeat N] @LIST     LIST: the rule files, a line each
 * Standard input, a line each: "E PRODUCT CATEGORY SERVICE" begins an event ("-": not given), "F NAME VALUE" in hex
 * adds a field, "U NAME" says that a field is not known when the event is first looked at, "." ends it. Standard
 * output: "problem FILE LINE COLUMN UNSUPPORTED MESSAGE" and "rule NUMBER FILE LINE GROUP", then for each event the
 * numbers of the rules that it fits and that no filter excepts and, with U, 1 or 0: what ea_rules_run_may says without
 * these fields. With --repeat the events are kept and run N times, and "cost NS" says what one took. */
#include "proto/base/platform.h"
#include "proto/rules/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 256, LINE_MAX_BYTES = 4 << 20 };

typedef struct event {
    uint32_t group;
    ea_rules_value values[FIELDS_MAX];
    size_t count;
    uint32_t unknown[FIELDS_MAX];
    size_t unknown_count;
} event;

static void on_problem(void *arg, const ea_rules_problem *p) {
    (void)arg;
    printf("problem\t%s\t%u\t%u\t%d\t%s\n", p->file, p->line, p->column, p->is_unsupported, p->message);
}

static char *unhex(const char *text, size_t *ret_len) {
    size_t n = strlen(text) / 2;
    char *out = malloc(n + 1);
    if (!out || (n && ea_hex_parse(text, out, n, ret_len)))
        exit(2);
    out[n] = 0;
    *ret_len = n;
    return out;
}

static int may_hold(const ea_rules *rules, ea_rules_run *r, const event *e) {
    ea_rules_prospect *p = NULL;
    ea_rules_value known[FIELDS_MAX];
    size_t count = 0;
    int may = 0;
    if (e->group == UINT32_MAX)
        return 0;
    for (size_t i = 0; i < e->count; i++) {
        int is_known = 1;
        for (size_t k = 0; k < e->unknown_count; k++)
            is_known &= e->unknown[k] != e->values[i].field;
        if (is_known)
            known[count++] = e->values[i];
    }
    if (ea_rules_prospect_create(&p, rules, e->group, e->unknown, e->unknown_count) ||
        ea_rules_run_may(r, p, known, count, &may))
        exit(2);
    ea_rules_prospect_destroy(p);
    return may;
}

static void run(const ea_rules *rules, ea_rules_run *r, const event *e, int is_printed) {
    const uint32_t *found = NULL;
    size_t count = 0;
    if (e->group != UINT32_MAX && ea_rules_run_event(r, e->group, e->values, e->count, &found, &count))
        exit(2);
    for (size_t i = 0, printed = 0; i < count && is_printed; i++)
        if (ea_rules_run_excepted(r, found[i], "pc", 0) == UINT32_MAX)
            printf("%s%u", printed++ ? " " : "", found[i]);
    if (is_printed && e->unknown_count)
        printf("\t%d", may_hold(rules, r, e));
    if (is_printed)
        printf("\n");
}

static void add_unknown(const ea_rules *rules, event *e, const char *name) {
    uint32_t field = e->group == UINT32_MAX ? UINT32_MAX : ea_rules_field(rules, e->group, name);
    if (field != UINT32_MAX && e->unknown_count < FIELDS_MAX)
        e->unknown[e->unknown_count++] = field;
}

static void add_field(const ea_rules *rules, event *e, char *line) {
    size_t n;
    char *value = strchr(line, ' ');
    if (!value || e->count == FIELDS_MAX)
        exit(2);
    *value++ = 0;
    char *name = unhex(line, &n);
    ea_rules_value *v = &e->values[e->count++];
    v->field = e->group == UINT32_MAX ? UINT32_MAX : ea_rules_field(rules, e->group, name);
    v->text = unhex(value, &v->len_bytes);
    free(name);
}

static uint32_t group_of(const ea_rules *rules, char *line) {
    const char *parts[3] = {"", "", ""};
    char *at = line;
    for (int i = 0; i < 3 && at; i++) {
        char *end = strchr(at, ' ');
        if (end)
            *end++ = 0;
        parts[i] = strcmp(at, "-") == 0 ? "" : at;
        at = end;
    }
    return ea_rules_group(rules, parts[0], parts[1], parts[2]);
}

static int add_files(ea_rules_builder *b, const char *list) {
    char *names = NULL;
    size_t n = 0;
    int rc = ea_path_read_all(list, 64 << 20, &names, &n, NULL);
    for (char *at = names; !rc && *at;) {
        char *text = NULL, *end = strchr(at, '\n');
        if (!end)
            break;
        *end = 0;
        rc = ea_path_read_all(at, 64 << 20, &text, &n, NULL);
        if (!rc)
            rc = ea_rules_add(b, at, text, n, on_problem, NULL);
        free(text);
        at = end + 1;
    }
    free(names);
    return rc;
}

int main(int argc, char **argv) {
    ea_rules_builder *b = NULL;
    ea_rules *rules = NULL;
    ea_rules_run *r = NULL;
    event *events = NULL, *e = calloc(1, sizeof *e);
    size_t event_count = 0, capacity = 0;
    long repeat = 0;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--repeat") == 0) {
        repeat = atol(argv[2]);
        first = 3;
    }
    if (!e || ea_rules_builder_create(&b))
        return 2;
    if (first + 1 != argc || argv[first][0] != '@' || add_files(b, argv[first] + 1))
        return 2;
    if (ea_rules_build(b, &rules, on_problem, NULL) || ea_rules_run_create(&r, rules))
        return 2;
    ea_rules_builder_destroy(b);
    for (uint32_t i = 0; i < ea_rules_count(rules); i++)
        printf("rule\t%u\t%s\t%u\t%u\n", i, ea_rules_info(rules, i)->file, ea_rules_info(rules, i)->line,
               ea_rules_info(rules, i)->group);
    printf("bytes\t%zu\n", ea_rules_bytes(rules));
    char *line = malloc(LINE_MAX_BYTES);
    while (line && fgets(line, LINE_MAX_BYTES, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 'E') {
            memset(e, 0, sizeof *e);
            e->group = group_of(rules, line + 2);
        } else if (line[0] == 'F') {
            add_field(rules, e, line + 2);
        } else if (line[0] == 'U') {
            add_unknown(rules, e, line + 2);
        } else if (repeat) {
            if (event_count == capacity) {
                capacity = capacity ? capacity * 2 : 64;
                events = realloc(events, capacity * sizeof *events);
                if (!events)
                    return 2;
            }
            events[event_count++] = *e;
        } else {
            run(rules, r, e, 1);
            for (size_t i = 0; i < e->count; i++)
                free((void *)(uintptr_t)e->values[i].text);
        }
    }
    int64_t begin = ea_process_cpu_ns();
    for (long k = 0; k < repeat; k++)
        for (size_t i = 0; i < event_count; i++)
            run(rules, r, &events[i], 0);
    ea_rules_stats s = ea_rules_run_stats(r);
    if (s.events)
        printf("stats\t%llu\t%llu\t%llu\t%llu\n", (unsigned long long)s.events, (unsigned long long)s.candidates,
               (unsigned long long)s.matches, (unsigned long long)s.patterns);
    if (repeat && event_count)
        printf("cost\t%.1f\n", (double)(ea_process_cpu_ns() - begin) / (double)repeat / (double)event_count);
    for (size_t i = 0; i < event_count; i++)
        for (size_t k = 0; k < events[i].count; k++)
            free((void *)(uintptr_t)events[i].values[k].text);
    free(events);
    free(e);
    free(line);
    ea_rules_run_destroy(r);
    ea_rules_destroy(rules);
    return 0;
}
