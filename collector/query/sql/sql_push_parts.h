/* Inside collector/query/sql: a statement on its way to the native grouping, and what sql_push.c and sql_partial.c
 * share of it. Thread: the connection's. */
#ifndef EC_QUERY_SQL_SQL_PUSH_PARTS_H
#define EC_QUERY_SQL_SQL_PUSH_PARTS_H

#include "collector/query/sql/select.h"
#include "collector/query/sql/sql_groups.h"

typedef struct ec_push {
    const ec_select *select;
    ec_sql_groups *groups;
    const ec_expr *keys[EC_GROUPING_KEYS_MAX];    /* without parentheses; of partial groups: unused */
    const ec_expr *grouped[EC_GROUPING_KEYS_MAX]; /* of partial groups: what the statement groups by */
    size_t grouped_count;
    ea_text columns, where, group, having, order; /* of the new statement */
    int is_having;
    int is_checked_again; /* filters stay conditions of the statement, too */
    const char *why;      /* not handed down; NULL: so far it is */
} ec_push;

void ec_push_refuse(ec_push *p, const char *why);
int ec_push_is_listed(const char *name, const char *const *list);
/* Functions of one row whose result depends on their arguments alone; ends with NULL. */
extern const char *const EC_PUSH_SCALARS[];

/* A whole number above 0 as it is written: 1. */
int ec_push_whole_number(const ec_expr *e, int64_t *ret);
/* The column of the table that an expression is: 1, 0 when it is none. */
int ec_push_column(const ec_push *p, const ec_expr *e, size_t *ret);
/* The result column that an expression names by its alias; NULL: none. */
const ec_select_column *ec_push_alias(const ec_push *p, const ec_expr *e);
int ec_push_is_same(const ec_push *p, const ec_expr *a, const ec_expr *b);
/* What a term of GROUP BY stands for: an ordinal, a column, an alias or an expression; NULL: nothing. */
const ec_expr *ec_push_grouped_by(const ec_push *p, const ec_expr *e);
/* time_bucket(column, width), or whole numbers of columns and constants: 1 and the key, 0 when it is neither. */
int ec_push_computed(const ec_push *p, const ec_expr *e, ec_grouping_key *ret);
/* Whether a name is an aggregate's: 1 and which. */
int ec_push_aggregate(const ec_expr *e, enum ec_sql_measure_kind *ret);
/* Whether the native grouping has an aggregate of this column. */
int ec_push_takes(const ec_push *p, enum ec_sql_measure_kind kind, size_t column);
/* Puts a measure's column. of: NULL with EC_SQL_COUNT_ALL. */
void ec_push_measure(ec_push *p, ea_text *to, enum ec_sql_measure_kind kind, const ec_grouping_key *of);
/* Tries to hand one condition to the scan: refuses when it cannot. */
void ec_push_condition(ec_push *p, const ec_expr *e);
/* Comparisons in which a table of events reads the other side in its own way. */
int ec_push_is_read_otherwise(const ec_push *p, const ec_expr *e);
/* Hands one condition down as a filter of blocks: 1; 0 when it cannot, or when memory is missing (where.failed). */
int ec_push_filter(ec_push *p, const ec_expr *e);
/* After that: hands down what follows from the filter for the columns that the store's index knows. */
void ec_push_implied(ec_push *p, const ec_expr *e);
/* Hands one condition down, to the scan or as a filter: refuses when it cannot. */
void ec_push_kept(ec_push *p, const ec_expr *e);

/* ---- rows: sql_push_rows.c ---- */

/* Plans the first rows of an ORDER BY with a LIMIT. */
void ec_rows_plan(ec_push *p);
/* Plans rows that a filter lets through, in the order of the scan. */
void ec_rows_plan_filtered(ec_push *p);

/* ---- partial groups: sql_partial.c ---- */

/* What the statement groups by, and its GROUP BY. */
void ec_partial_begin(ec_push *p);
/* Puts one of the expressions that the statement groups by: 1; 0 when it is none of them. */
int ec_partial_put_grouped(ec_push *p, ea_text *to, const ec_expr *e);
/* Puts an aggregate over partial groups: 1; 0 when it is no aggregate. */
int ec_partial_put_aggregate(ec_push *p, ea_text *to, const ec_expr *e);
/* Puts WHERE: what the scan keeps, and the rest as a condition on the groups. */
void ec_partial_put_where(ec_push *p, const ec_expr *e);

#endif
