/* See rules_tests.h. */
#include "proto/rules/rules_tests.h"

#include "proto/base/array.h"

#include <yaml.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1 << 20 /* visited of one document: an alias may be visited often */ };

typedef struct tests_reading {
    ea_rule_tests *tests;
    const char *file;
    yaml_document_t yaml;
    ea_rules_problem problem;
    uint32_t rule_line;
    size_t node_count;
    int code;
    jmp_buf failed;
} tests_reading;

static uint32_t tests_line(const yaml_node_t *n) {
    return (uint32_t)n->start_mark.line + 1;
}

static uint32_t tests_column(const yaml_node_t *n) {
    return (uint32_t)n->start_mark.column + 1;
}

_Noreturn static void tests_fail(tests_reading *r, const yaml_node_t *n, const char *format, ...) EA_PRINTF(3, 4);

_Noreturn static void tests_fail(tests_reading *r, const yaml_node_t *n, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->problem.message, sizeof r->problem.message, format, args);
    va_end(args);
    r->problem.line = tests_line(n);
    r->problem.column = tests_column(n);
    r->code = EA_EINVAL;
    longjmp(r->failed, 1);
}

static void *tests_take(tests_reading *r, size_t count, size_t size) {
    void *p = ea_arena_zalloc(&r->tests->arena, count ? count : 1, size);
    if (!p) {
        r->code = ea_arena_error(&r->tests->arena);
        longjmp(r->failed, 1);
    }
    return p;
}

static const yaml_node_t *tests_node(tests_reading *r, int number) {
    const yaml_node_t *n = yaml_document_get_node(&r->yaml, number);
    if (++r->node_count > NODES_MAX)
        tests_fail(r, n, "the tests have too many values: split the rule");
    return n;
}

static const char *tests_text(tests_reading *r, const yaml_node_t *n, const char *what, size_t *ret_len) {
    if (n->type != YAML_SCALAR_NODE)
        tests_fail(r, n, "expected %s, found a %s", what, n->type == YAML_SEQUENCE_NODE ? "list" : "mapping");
    char *copy = tests_take(r, n->data.scalar.length + 1, 1);
    memcpy(copy, n->data.scalar.value, n->data.scalar.length);
    *ret_len = n->data.scalar.length;
    return copy;
}

static int tests_is_key(const yaml_node_t *key, const char *name) {
    return key->type == YAML_SCALAR_NODE && key->data.scalar.length == strlen(name) &&
           memcmp(key->data.scalar.value, name, strlen(name)) == 0;
}

static const yaml_node_t *tests_find(tests_reading *r, const yaml_node_t *map, const char *name) {
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        if (tests_is_key(tests_node(r, p->key), name))
            return tests_node(r, p->value);
    return NULL;
}

/* As rules are read: the same words are null in both. */
static int tests_is_null(const yaml_node_t *n) {
    return n->type == YAML_SCALAR_NODE && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!n->data.scalar.length || tests_is_key(n, "~") || tests_is_key(n, "null") || tests_is_key(n, "Null") ||
            tests_is_key(n, "NULL"));
}

static void read_test_value(tests_reading *r, const char *field, const yaml_node_t *n, ea_rule_test_value *values,
                            size_t *count) {
    if (tests_is_null(n)) /* the event has no such field */
        return;
    if (*count == EA_RULE_TEST_FIELDS_MAX)
        tests_fail(r, n, "the event has more than %d values: leave out what rules do not look at",
                   EA_RULE_TEST_FIELDS_MAX);
    ea_rule_test_value *v = &values[(*count)++];
    v->field = field;
    v->text = tests_text(r, n, "a value or a list of values", &v->len_bytes);
}

static void read_test_fields(tests_reading *r, const yaml_node_t *n, ea_rule_test_event *ret) {
    if (!n || n->type != YAML_MAPPING_NODE)
        tests_fail(r, n ? n : yaml_document_get_root_node(&r->yaml), "expected an event: a mapping of fields");
    ea_rule_test_value *values = tests_take(r, EA_RULE_TEST_FIELDS_MAX, sizeof *values);
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = tests_node(r, p->key), *value = tests_node(r, p->value);
        size_t len;
        const char *field = tests_text(r, key, "the name of a field", &len);
        if (strlen(field) != len)
            tests_fail(r, key, "the name contains a NUL");
        if (value->type != YAML_SEQUENCE_NODE)
            read_test_value(r, field, value, values, &ret->count);
        else
            for (const int *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++)
                read_test_value(r, field, tests_node(r, *i), values, &ret->count);
    }
    ret->values = values;
}

static int64_t read_test_time(tests_reading *r, const yaml_node_t *n) {
    static const struct {
        const char *unit;
        int64_t ns;
    } UNITS[] = {{"ms", 1000000},
                 {"s", 1000000000},
                 {"m", INT64_C(60000000000)},
                 {"h", INT64_C(3600000000000)},
                 {"d", INT64_C(86400000000000)}};

    size_t len;
    const char *text = tests_text(r, n, "a time", &len);
    uint64_t count = 0;
    if (ea_digits_parse(&text, 10, &count))
        for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
            if (strcmp(UNITS[i].unit, text) == 0 && count <= (uint64_t)(INT64_MAX / 16 / UNITS[i].ns))
                return (int64_t)count * UNITS[i].ns;
    tests_fail(r, n, "expected the time after the begin, such as 500ms, 30s, 5m, 1h or 2d");
}

/* {at, rule, event} */
static void read_test_step(tests_reading *r, const yaml_node_t *n, ea_rule_test_event *ret) {
    size_t len;
    ret->rule = "";
    if (n->type != YAML_MAPPING_NODE)
        tests_fail(r, n, "expected {at: 30s, event: {…}}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = tests_node(r, p->key);
        if (tests_is_key(key, "at"))
            ret->at_ns = read_test_time(r, tests_node(r, p->value));
        else if (tests_is_key(key, "rule"))
            ret->rule = tests_text(r, tests_node(r, p->value), "a rule (id, name or title)", &len);
        else if (!tests_is_key(key, "event"))
            tests_fail(r, key, "expected at, rule or event");
    }
    const yaml_node_t *event = tests_find(r, n, "event");
    if (!event)
        tests_fail(r, n, "expected {at: 30s, event: {…}}");
    read_test_fields(r, event, ret);
}

static void read_test(tests_reading *r, const yaml_node_t *n, int is_positive, int is_correlation) {
    ea_rule_test t = {.file = r->file,
                      .rule_line = r->rule_line,
                      .line = tests_line(n),
                      .column = tests_column(n),
                      .is_positive = is_positive,
                      .event_count = 1};
    if (is_correlation && n->type != YAML_SEQUENCE_NODE)
        tests_fail(r, n, "expected the events of a test of a correlation: a list of {at: 30s, event: {…}}");
    if (is_correlation)
        t.event_count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
    if (!t.event_count || t.event_count > EA_RULE_TEST_EVENTS_MAX)
        tests_fail(r, n, "expected 1 to %d events", EA_RULE_TEST_EVENTS_MAX);
    ea_rule_test_event *events = tests_take(r, t.event_count, sizeof *events);
    for (size_t i = 0; is_correlation && i < t.event_count; i++)
        read_test_step(r, tests_node(r, n->data.sequence.items.start[i]), &events[i]);
    if (!is_correlation)
        read_test_fields(r, n, events);
    t.events = events;
    if (EA_GROW(r->tests->tests, r->tests->capacity, r->tests->count + 1, SIZE_MAX)) {
        r->code = EA_ENOMEM;
        longjmp(r->failed, 1);
    }
    r->tests->tests[r->tests->count++] = t;
}

static void read_tests(tests_reading *r, const yaml_node_t *n, int is_correlation) {
    if (n->type != YAML_MAPPING_NODE)
        tests_fail(r, n, "expected tests: {positive: […], negative: […]}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = tests_node(r, p->key), *list = tests_node(r, p->value);
        int is_positive = tests_is_key(key, "positive");
        if (!is_positive && !tests_is_key(key, "negative"))
            tests_fail(r, key, "expected positive or negative");
        if (list->type != YAML_SEQUENCE_NODE)
            tests_fail(r, list, "expected a list of events");
        for (const int *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++)
            read_test(r, tests_node(r, *i), is_positive, is_correlation);
    }
}

static int read_tests_document(tests_reading *r) {
    size_t before = r->tests->count;
    if (setjmp(r->failed)) {
        r->tests->count = before;
        return r->code;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&r->yaml);
    r->rule_line = tests_line(root);
    const yaml_node_t *tests = root->type == YAML_MAPPING_NODE ? tests_find(r, root, "tests") : NULL;
    if (tests)
        read_tests(r, tests, tests_find(r, root, "correlation") != NULL);
    return 0;
}

void ea_rule_tests_init(ea_rule_tests *t) {
    *t = (ea_rule_tests){.count = 0};
    ea_arena_init(&t->arena, EA_RULE_TESTS_MAX_BYTES);
}

void ea_rule_tests_deinit(ea_rule_tests *t) {
    ea_arena_deinit(&t->arena);
    free(t->tests);
}

int ea_rule_tests_read(ea_rule_tests *t, const char *file, const char *text, size_t len_bytes,
                       void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg) {
    yaml_parser_t parser;
    int rc = 0, is_end = 0;
    const char *name = ea_arena_strdup(&t->arena, file);
    tests_reading *r = calloc(1, sizeof *r);
    if (!r || !name || !yaml_parser_initialize(&parser)) {
        free(r);
        return EA_ENOMEM;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len_bytes);
    while (!rc && !is_end && yaml_parser_load(&parser, &r->yaml)) {
        r->tests = t;
        r->file = name;
        r->node_count = 0;
        r->code = 0;
        r->problem = (ea_rules_problem){.file = name};
        is_end = yaml_document_get_root_node(&r->yaml) == NULL;
        rc = is_end ? 0 : read_tests_document(r);
        yaml_document_delete(&r->yaml);
        if (rc == EA_EINVAL) {
            on_problem(arg, &r->problem);
            rc = 0;
        }
    }
    if (!rc && parser.error == YAML_MEMORY_ERROR)
        rc = EA_ENOMEM;
    yaml_parser_delete(&parser);
    free(r);
    return rc;
}
