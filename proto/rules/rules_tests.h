/* The own tests of Sigma rules: events that a rule's document says it matches, or does not match, in its member
 *
 *     tests:
 *       positive: [{Image: 'C:\a.exe', CommandLine: [a, b]}]
 *       negative: [{Image: 'C:\b.exe'}]
 *
 * A test of a correlation is a list of events: {at: 30s, rule: NAME, event: {…}}. They are read apart from the rules
 * (rules.h), so that a program which runs rules keeps none of them. Calls: proto/base, libyaml. Called by: the command
 * rules test. Thread: the owner's. */
#ifndef EA_RULES_RULES_TESTS_H
#define EA_RULES_RULES_TESTS_H

#include "proto/base/arena.h"
#include "proto/rules/rules.h"

enum {
    EA_RULE_TEST_FIELDS_MAX = 48,    /* values of one event */
    EA_RULE_TEST_EVENTS_MAX = 10000, /* of one test of a correlation */
    EA_RULE_TESTS_MAX_BYTES = 256 << 20,
};

typedef struct ea_rule_test_value {
    const char *field, *text;
    size_t len_bytes;
} ea_rule_test_value;

typedef struct ea_rule_test_event {
    const ea_rule_test_value *values; /* a field with several comes several times */
    size_t count;
    const char *rule; /* whose log source it has, by id, name or title; "": the first that the correlation names */
    int64_t at_ns;    /* after the first one's time; 0: not given */
} ea_rule_test_event;

typedef struct ea_rule_test {
    const char *file;
    uint32_t rule_line; /* where the document begins, as in ea_rule_info */
    uint32_t line, column;
    int is_positive;
    const ea_rule_test_event *events;
    size_t event_count; /* of a rule: 1 */
} ea_rule_test;

/* Tests of several files, in their order. */
typedef struct ea_rule_tests {
    ea_arena arena; /* of all of it */
    ea_rule_test *tests;
    size_t count, capacity;
} ea_rule_tests;

void ea_rule_tests_init(ea_rule_tests *t);
void ea_rule_tests_deinit(ea_rule_tests *t);
/* Adds those of a file. on_problem is called for each document whose tests have a mistake, none of which is added; text
 * that is no YAML is left to ea_rules_add. Errors: EA_ENOMEM, EA_ELIMIT. */
EA_MUST_CHECK int ea_rule_tests_read(ea_rule_tests *t, const char *file, const char *text, size_t len_bytes,
                                     void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg);

#endif
