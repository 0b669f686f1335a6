/* Which stored events a rule can hold for, while they are columns: a filter of the scan of a class, which leaves events
 * for which no rule holds by the event's own fields, whatever is known of its process. Each distinct value of a column
 * is looked at once (proto/rules/rules_screen.h); of an event that is left no row is made. Called by: rules_row.c.
 * Calls: collector/query/scan, proto/rules. Thread: that of the connection.
 *
 * Of a class of which nearly all events stay, others are not looked at: they would be judged twice. */
#ifndef EC_DETECT_RULES_COLUMNS_H
#define EC_DETECT_RULES_COLUMNS_H

#include "collector/detect/rules_store.h"
#include "collector/query/scan/scan.h"

typedef struct ec_rules_columns ec_rules_columns;

/* rules, run, statement: borrowed. *ret NULL: the filter would not know what the statement's conditions leave, or no
 * field that rules name is a column. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_columns_create(ec_rules_columns **ret, const ea_rules *rules, ea_rules_run *run,
                                          uint32_t group, const ec_rules_statement *statement);
void ec_rules_columns_destroy(ec_rules_columns *c); /* NULL is allowed */
/* Of a scan of the statement's table that begins: 1 and its filter; 0: it has none. archive: the scan's, borrowed; it
 * says when the time is over (ec_archive_goes_on). */
int ec_rules_columns_filter(ec_rules_columns *c, ec_archive *archive, const ec_table_schema *shape, ec_row_filter *ret);
/* How many events were left since the last call. */
uint64_t ec_rules_columns_take(ec_rules_columns *c);

#endif
