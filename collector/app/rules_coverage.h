/* Which Sigma rules can fire: by the fields that the events of this program have, that an agent's configuration
 * records, or that the stored events of one host have. Called by: cmd_rules.c. Calls: proto/rules, config,
 * collector/query/scan. Thread: its owner's. docs/internals/rules.md has what the words mean. */
#ifndef EC_APP_RULES_COVERAGE_H
#define EC_APP_RULES_COVERAGE_H

#include "proto/rules/rules.h"
#include "proto/rules/sigma_fields.h"

enum ec_coverage_state {
    EC_COVERAGE_MISSING,
    EC_COVERAGE_PART, /* the value is not all that the rule's field is */
    EC_COVERAGE_THERE
};

enum ec_coverage_verdict { EC_COVERAGE_NEVER, EC_COVERAGE_PARTLY, EC_COVERAGE_FULL, EC_COVERAGE_VERDICTS };

extern const char *const ec_coverage_words[EC_COVERAGE_VERDICTS]; /* never, partly, full */

typedef struct ec_coverage ec_coverage;

/* config: an agent's configuration file or a profile, NULL: none. store and host: what that host has sent; NULL: none.
 * With neither all options count as set. Mistakes of the configuration go to standard error. */
EA_MUST_CHECK int ec_coverage_open(ec_coverage **ret, const char *config, const char *store, const char *host,
                                   ea_err *err);
void ec_coverage_close(ec_coverage *c); /* NULL is allowed */

/* The events that serve a rule; NULL: none. */
const ea_sigma_source *ec_coverage_source(const ec_coverage *c, const ea_rule_info *rule);
/* *ret_row: the row that has the field, or else the first one, which says what is missing; NULL: no row has it. */
enum ec_coverage_state ec_coverage_field(const ec_coverage *c, const ea_sigma_source *s, const char *field,
                                         const ea_sigma_row **ret_row);
/* The same of the log source as a whole: whether any of its events comes. */
enum ec_coverage_state ec_coverage_events(const ec_coverage *c, const ea_sigma_source *s, const ea_sigma_row **ret_row);
/* full: all fields of the rule are there; partly: its condition can hold without those that are missing or that are
 * there in part; never: neither. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ec_coverage_of_rule(const ec_coverage *c, const ea_rules *rules, uint32_t rule,
                                      enum ec_coverage_verdict *ret, ea_err *err);
/* 1 when a part of a row's option is missing. A policy never is: no configuration has it. */
int ec_coverage_lacks(const ec_coverage *c, const ea_sigma_row *row, enum ea_sigma_option kind, const char *value,
                      size_t value_len);

#endif
