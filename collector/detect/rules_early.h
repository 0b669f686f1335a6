/* Leaves events for which no rule can hold before SQL looks up what further joins bring: processes, modules, parents. A
 * statement of EC_RULES_OF_BATCHES asks the function rules_early(number, columns of the stages so far) after each stage
 * (enum ec_rules_stage) but the last; where it is 0 SQL goes on with the next event, and the rules are not asked again.
 * Called by: detector.c. Calls: proto/rules, rules_store.h. Thread: that of the connection.
 *
 * Of a class for which half of the events are not left the function answers 1 soon: looking twice would cost more. */
#ifndef EC_DETECT_RULES_EARLY_H
#define EC_DETECT_RULES_EARLY_H

#include "collector/detect/rules_store.h"

typedef struct ec_rules_early ec_rules_early;

/* Borrowed. */
typedef struct ec_rules_early_options {
    const ea_rules *rules;
    ea_rules_run *run;
    void (*name_drive)(void *arg, ea_text *path); /* as ec_rules_name_drive */
    void *arg;
} ec_rules_early_options;

/* The function of SQL belongs to the connection. */
EA_MUST_CHECK int ec_rules_early_create(ec_rules_early **ret, sqlite3 *db, const ec_rules_early_options *options,
                                        ea_err *err);
void ec_rules_early_destroy(ec_rules_early *e); /* before its connection is closed; NULL is allowed */
/* The number of the next statement's first stage, for ec_rules_statement_make. */
uint32_t ec_rules_early_next(const ec_rules_early *e);
/* Adds that statement after it was prepared; types: declared types of its columns, copied. Until it is added the
 * function is 1. */
EA_MUST_CHECK int ec_rules_early_add(ec_rules_early *e, uint32_t group, const ec_rules_statement *statement,
                                     const char *const *types);
/* How many events were left since the last call. */
uint64_t ec_rules_early_take(ec_rules_early *e);

#endif
