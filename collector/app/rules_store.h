/* Stored events as a Sigma rule sees them: a statement of SQL for each class of events of a log source, whose columns
 * are the rules' fields. Called by: cmd_rules_test.c. Calls: proto/rules, collector/query/sql. Thread: any. */
#ifndef EC_APP_RULES_STORE_H
#define EC_APP_RULES_STORE_H

#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/sigma_fields.h"

enum { EC_RULES_HEAD_COLUMNS = 4, EC_RULES_COLUMNS_MAX = 64 }; /* time, host, process number, stream */

typedef struct ec_rules_statement {
    ea_text sql; /* with the parameters ?1 and ?2: the time range, ns since 1970 */
    /* After the head's columns, one for each of these: the field's number in the group (ea_rules_field). */
    uint32_t fields[EC_RULES_COLUMNS_MAX];
    const char *names[EC_RULES_COLUMNS_MAX];
    uint8_t is_path[EC_RULES_COLUMNS_MAX]; /* as the kernel logs it: \\Device\\... */
    size_t field_count;
} ec_rules_statement;

/* Classes of a source that have rows, each once: calls fn for each; stops at the first non-zero, which it returns. */
int ec_rules_each_class(const ea_sigma_source *s, int (*fn)(void *arg, const char *class_name, size_t len), void *arg);

/* The statement for one class. Those fields are columns that a rule of the group names and that the class has. *ret is
 * to be given to ec_rules_statement_deinit, also on failure. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_statement_make(ec_rules_statement *ret, const ea_rules *rules, uint32_t group,
                                          const ea_sigma_source *s, const char *class_name, size_t len);
void ec_rules_statement_deinit(ec_rules_statement *s);

#endif
