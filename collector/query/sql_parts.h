/* Inside collector/query: what the parts of SQL share. See sql.h. */
#ifndef EC_QUERY_SQL_PARTS_H
#define EC_QUERY_SQL_PARTS_H

#include "scan.h"
#include "sql.h"
#include "tables.h"

struct ec_sql {
    ec_sql_options options;
    char *dir;
    ec_archive *archive;
    sqlite3 *db;
    ec_tables *state;         /* opened when a table of it is first used */
    struct ec_alarms *alarms; /* likewise */
    sqlite3 *memory;          /* the table of classes, filled when it is first used */
};

/* Each registers its part with the connection: 0, or EA_EDATABASE, EA_ENOMEM. */
EA_MUST_CHECK int ec_sql_add_functions(sqlite3 *db, ea_err *err);
EA_MUST_CHECK int ec_sql_add_events(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_tables(ec_sql *s, ea_err *err);
EA_MUST_CHECK int ec_sql_add_activity(ec_sql *s, ea_err *err);
/* Adds NAME_by over the table NAME; set NULL: over events. */
EA_MUST_CHECK int ec_sql_add_aggregate(ec_sql *s, const char *name, const ec_class_set *set, ea_err *err);

/* A failure of ours as SQLite's code, with its message in the table's zErrMsg. */
int ec_sql_fail(sqlite3_vtab *table, const ea_err *err);
/* The value of a condition: what SQLite compares a column of that kind with. Texts are copied into the arena. kind: of
 * the column. EA_ENOMEM; EA_EUSAGE for a text where a time is meant. */
EA_MUST_CHECK int ec_sql_value(sqlite3_value *from, enum ec_kind kind, ea_arena *arena, ec_value *ret, ea_err *err);
void ec_sql_result(sqlite3_context *context, const ec_value *v);
/* An operator of sqlite3_index_info as ours: 1, 0 when there is none. */
int ec_sql_op(int op, enum ec_op *ret);
/* 1 when the condition compares as bytes do. */
int ec_sql_is_binary(sqlite3_index_info *info, int i);

/* Conditions on way from xBestIndex to xFilter: each is "column,operator,in " in a plan. */
void ec_sql_plan_condition(ea_text *plan, sqlite3_index_info *info, int i, int column, enum ec_op op);
/* One number of a plan. */
size_t ec_sql_plan_number(const char **plan);
/* What is behind the column's number in the plan, with its argument: values live in the arena. */
EA_MUST_CHECK int ec_sql_condition(const char **plan, sqlite3_value *from, const ec_shape *shape, size_t column,
                                   ea_arena *arena, ec_condition *ret, ea_err *err);
/* Takes away what a condition may leave of the rows that come out, and of those that are decoded. */
void ec_sql_share(const ec_column *c, enum ec_op op, double *rows, double *decoded);

#endif
