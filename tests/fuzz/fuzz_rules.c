/* Sigma rules and events: the text of rule files, a zero byte, then events: u8 count of fields, for each u8 field
 * number, u8 length, the text. What compiles has to run; a rule that holds for an event must be one that can hold with
 * the event's fields; the same event gives the same rules again, and the same filters except them. */
#include "proto/rules/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS_MAX = 16, EVENTS_MAX = 32 };

static const char *const FIELDS[] = {"A", "B", "Image", "CommandLine", "User", "Size", "Address", "Other"};

static void on_problem(void *arg, const ea_rules_problem *p) {
    if (!p->line || !p->column || !*p->message || !p->file)
        abort();
    ++*(int *)arg;
}

typedef struct event {
    ea_rules_value values[FIELDS_MAX];
    uint8_t fields[FIELDS_MAX];
    size_t count;
} event;

static int has(void *arg, const char *field) {
    const event *e = arg;
    for (size_t i = 0; i < e->count; i++)
        if (strcmp(FIELDS[e->fields[i]], field) == 0)
            return 1;
    return 0;
}

static void run_event(const ea_rules *rules, ea_rules_run *run, uint32_t group, event *e) {
    uint32_t first[64], filters[64];
    const uint32_t *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++)
        e->values[i].field = ea_rules_field(rules, group, FIELDS[e->fields[i]]);
    if (ea_rules_run_event(run, group, e->values, e->count, &found, &count))
        abort();
    size_t kept = count < 64 ? count : 64;
    if (kept)
        memcpy(first, found, kept * sizeof *first);
    for (size_t i = 0; i < kept; i++) {
        int can_hold = 0;
        if (ea_rules_can_hold(rules, first[i], has, e, &can_hold) || !can_hold)
            abort();
        filters[i] = ea_rules_run_excepted(run, first[i], "pc", 1);
        if (filters[i] != UINT32_MAX && filters[i] >= ea_rules_filter_count(rules))
            abort();
    }
    if (ea_rules_run_event(run, group, e->values, e->count, &found, &count) || count < kept ||
        (kept && memcmp(first, found, kept * sizeof *first) != 0))
        abort();
    for (size_t i = 0; i < kept; i++)
        if (ea_rules_run_excepted(run, first[i], "pc", 1) != filters[i])
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL, *end = data + size;
    size_t len = zero ? (size_t)(zero - data) : size;
    const uint8_t *p = zero ? zero + 1 : end;
    ea_rules_builder *b = NULL;
    ea_rules *rules = NULL;
    ea_rules_run *run = NULL;
    int count = 0;
    if (ea_rules_builder_create(&b) || ea_rules_add(b, "fuzz", (const char *)data, len, on_problem, &count) ||
        ea_rules_build(b, &rules, on_problem, &count) || ea_rules_run_create(&run, rules))
        abort();
    ea_rules_builder_destroy(b);
    for (int n = 0; n < EVENTS_MAX && p < end && ea_rules_group_count(rules); n++) {
        event e = {.count = 0};
        size_t fields = *p++ % (FIELDS_MAX + 1);
        for (; e.count < fields && end - p >= 2; e.count++) {
            size_t bytes = p[1] <= end - p - 2 ? p[1] : (size_t)(end - p - 2);
            e.fields[e.count] = p[0] & 7;
            e.values[e.count].text = (const char *)p + 2;
            e.values[e.count].len_bytes = bytes;
            p += 2 + bytes;
        }
        run_event(rules, run, (uint32_t)n % (uint32_t)ea_rules_group_count(rules), &e);
    }
    ea_rules_run_destroy(run);
    ea_rules_destroy(rules);
    return 0;
}
