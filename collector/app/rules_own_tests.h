/* Runs the own tests of Sigma rules (proto/rules/rules_tests.h) without a store. Called by: cmd_rules_test.c. Calls:
 * proto/rules, collector/detect. Thread: the main one. */
#ifndef EC_APP_RULES_OWN_TESTS_H
#define EC_APP_RULES_OWN_TESTS_H

#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/rules_tests.h"

typedef struct ec_own_tests_sum {
    uint64_t tested;        /* rules and correlations that have tests */
    uint64_t tests, failed; /* failed: among tests */
    uint64_t left_out;      /* of documents that are no rules, or are refused */
} ec_own_tests_sum;

/* Adds a line for each test that fails or, as JSON, a member of a list for each test. A filter excepts nothing here.
 * Errors: EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_own_tests_run(const ea_rules *rules, const ea_rule_tests *tests, int is_json, ea_text *out,
                                   ec_own_tests_sum *ret, ea_err *err);

#endif
