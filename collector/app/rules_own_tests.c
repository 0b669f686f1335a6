/* See rules_own_tests.h. */
#include "collector/app/rules_own_tests.h"

#include "collector/detect/stored_correlations.h"

#include <inttypes.h>
#include <string.h>

typedef struct own_tests {
    const ea_rules *rules;
    ea_rules_run *run;
    int is_json;
    ea_text *out;
    ec_own_tests_sum *sum;
    ea_err *err;
    ea_text cells[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX]; /* of an event of a correlation's test */
    uint32_t correlation;                                        /* whose test runs */
    ea_text fields;                                              /* of its first detection, as JSON; empty: none */
} own_tests;

static const char OWN_DOING[] = "run the rules' own tests";

/* The rule of a test's document, or EA_RULES_CORRELATION and its correlation; UINT32_MAX: it has none. */
static uint32_t own_find_rule(const own_tests *o, const ea_rule_test *t) {
    for (uint32_t i = 0; i < ea_rules_count(o->rules); i++)
        if (ea_rules_info(o->rules, i)->line == t->rule_line && !strcmp(ea_rules_info(o->rules, i)->file, t->file))
            return i;
    for (uint32_t i = 0; i < ea_rules_correlation_count(o->rules); i++) {
        const ea_rule_info *info = &ea_rules_correlation(o->rules, i)->info;
        if (info->line == t->rule_line && !strcmp(info->file, t->file))
            return EA_RULES_CORRELATION | i;
    }
    return UINT32_MAX;
}

/* The log source of an event of a correlation's test; UINT32_MAX: no rule has the name. */
static uint32_t own_find_group(const own_tests *o, const ea_rule_test_event *e) {
    uint32_t rule = EA_RULES_CORRELATION | o->correlation;
    for (uint32_t i = 0; *e->rule && i < ea_rules_count(o->rules); i++) {
        const ea_rule_info *info = ea_rules_info(o->rules, i);
        if (!strcmp(info->id, e->rule) || !strcmp(info->name, e->rule) || !strcmp(info->title, e->rule))
            return info->group;
    }
    if (*e->rule)
        return UINT32_MAX;
    while (rule & EA_RULES_CORRELATION)
        rule = ea_rules_correlation(o->rules, rule & ~EA_RULES_CORRELATION)->rules[0];
    return ea_rules_info(o->rules, rule)->group;
}

static int own_run_event(own_tests *o, const ea_rule_test_event *e, uint32_t group, const uint32_t **ret,
                         size_t *ret_count) {
    ea_rules_value values[EA_RULE_TEST_FIELDS_MAX];
    for (size_t i = 0; i < e->count; i++)
        values[i] = (ea_rules_value){.field = ea_rules_field(o->rules, group, e->values[i].field),
                                     .text = e->values[i].text,
                                     .len_bytes = e->values[i].len_bytes};
    int rc = ea_rules_run_event(o->run, group, values, e->count, ret, ret_count);
    return rc ? ea_fail(o->err, rc, OWN_DOING) : 0;
}

/* Gives a correlation's event to the correlations, as a row of a store would be. */
static int own_take_event(own_tests *o, ec_stored_correlations *c, const ea_rule_test_event *e, uint32_t group,
                          size_t position) {
    const uint32_t *found = NULL;
    size_t found_count = 0;
    ec_rules_statement row = {.field_count = e->count};

    enum ec_look looks[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX] = {EC_LOOK_EMPTY};

    const ec_value head[EC_RULES_HEAD_COLUMNS] = {[EC_RULES_TIME] = {.type = EC_INT, .i = e->at_ns},
                                                  [EC_RULES_POSITION] = {.type = EC_INT, .i = (int64_t)position}};
    for (size_t i = 0; i < e->count; i++) {
        ea_text *cell = &o->cells[EC_RULES_HEAD_COLUMNS + i];
        row.names[i] = e->values[i].field;
        looks[EC_RULES_HEAD_COLUMNS + i] = EC_LOOK_WORD;
        ea_text_clear(cell);
        ea_text_add(cell, e->values[i].text, e->values[i].len_bytes);
        if (cell->failed)
            return ea_fail(o->err, EA_ENOMEM, OWN_DOING);
    }
    int rc = own_run_event(o, e, group, &found, &found_count);
    for (size_t i = 0; i < found_count && !rc; i++)
        rc = ec_stored_correlations_take(c, &row, o->cells, looks, head, found[i], o->err);
    return rc;
}

static void own_on_detection(void *arg, const ec_stored_detection *d) {
    own_tests *o = arg;
    if (d->correlation == o->correlation && !o->fields.len_bytes)
        ea_text_str(&o->fields, d->fields);
}

static void own_report(own_tests *o, const ea_rule_info *info, const ea_rule_test *t, int holds, const char *why) {
    int has_failed = why || holds != t->is_positive;
    ea_text *out = o->out;
    if (o->is_json) {
        ea_text_str(out, o->sum->tests ? ",\n  {\"file\": " : "\n  {\"file\": ");
        ea_text_json_str(out, t->file);
        ea_text_printf(out, ", \"line\": %" PRIu32 ", \"title\": ", t->line);
        ea_text_json_str(out, info->title);
        ea_text_printf(out, ", \"expected\": %s, \"matches\": %s, \"fields\": %s, \"mistake\": ",
                       t->is_positive ? "true" : "false", holds ? "true" : "false",
                       o->fields.len_bytes ? o->fields.data : "null");
        ea_text_json_str(out, why);
        ea_text_char(out, '}');
    } else if (has_failed) {
        ea_text_safe(out, t->file, strlen(t->file));
        ea_text_printf(out, ":%" PRIu32 ":%" PRIu32 ": failed: ", t->line, t->column);
        ea_text_safe(out, info->title, strlen(info->title));
        ea_text_str(out, why ? ": " : holds ? " matches, and should not" : " does not match, and should");
        ea_text_safe(out, why ? why : "", why ? strlen(why) : 0);
        ea_text_char(out, '\n');
    }
    o->sum->tests++;
    o->sum->failed += (uint64_t)has_failed;
}

static int own_test_correlation(own_tests *o, const ea_rule_test *t) {
    const ea_rule_info *info = &ea_rules_correlation(o->rules, o->correlation)->info;
    ec_stored_correlations *c = NULL;
    uint64_t left_out = 0;
    const char *why = info->is_part ? "it makes no detections of its own: test the correlation that names it" : NULL;
    int rc = ec_stored_correlations_create(&c, o->rules, o->err);
    for (size_t i = 0; i < t->event_count && !rc && !why; i++) {
        uint32_t group = own_find_group(o, &t->events[i]);
        if (group == UINT32_MAX)
            why = "an event is of a rule that is not there: no id, name or title is so";
        else
            rc = own_take_event(o, c, &t->events[i], group, i);
    }
    if (!rc && !why)
        rc = ec_stored_correlations_judge(c, own_on_detection, o, &left_out, o->err);
    ec_stored_correlations_destroy(c);
    if (!rc)
        own_report(o, info, t, o->fields.len_bytes > 0, why);
    return rc;
}

static int own_test_rule(own_tests *o, const ea_rule_test *t, uint32_t rule) {
    const ea_rule_info *info = ea_rules_info(o->rules, rule);
    const uint32_t *found = NULL;
    size_t count = 0;
    int holds = 0, rc = own_run_event(o, t->events, info->group, &found, &count);
    for (size_t i = 0; i < count; i++)
        holds |= found[i] == rule;
    if (!rc)
        own_report(o, info, t, holds, NULL);
    return rc;
}

int ec_own_tests_run(const ea_rules *rules, const ea_rule_tests *tests, int is_json, ea_text *out,
                     ec_own_tests_sum *ret, ea_err *err) {
    own_tests o = {.rules = rules, .is_json = is_json, .out = out, .sum = ret, .err = err};
    *ret = (ec_own_tests_sum){.tested = 0};
    ea_text_init(&o.fields);
    for (size_t i = 0; i < sizeof o.cells / sizeof *o.cells; i++)
        ea_text_init(&o.cells[i]);
    int rc = ea_rules_run_create(&o.run, rules) ? ea_fail(err, EA_ENOMEM, OWN_DOING) : 0;
    ea_text_str(&o.cells[EC_RULES_HOST], "test");
    ea_text_str(&o.cells[EC_RULES_STREAM], "00");
    for (size_t i = 0; i < tests->count && !rc; i++) {
        const ea_rule_test *t = &tests->tests[i];
        uint32_t rule = own_find_rule(&o, t);
        int is_first = !i || t[-1].rule_line != t->rule_line || strcmp(t[-1].file, t->file) != 0;
        ea_text_clear(&o.fields);
        o.correlation = rule & ~EA_RULES_CORRELATION;
        if (rule == UINT32_MAX) {
            ret->left_out++;
            continue;
        }
        ret->tested += (uint64_t)is_first;
        rc = rule & EA_RULES_CORRELATION ? own_test_correlation(&o, t) : own_test_rule(&o, t, rule);
    }
    if (!rc && out->failed)
        rc = ea_fail(err, EA_ENOMEM, OWN_DOING);
    ea_rules_run_destroy(o.run);
    ea_text_deinit(&o.fields);
    for (size_t i = 0; i < sizeof o.cells / sizeof *o.cells; i++)
        ea_text_deinit(&o.cells[i]);
    return rc;
}
