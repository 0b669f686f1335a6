/* Inside collector/query/sql: what a statement hands down to the native grouping, and the table that gives its rows.
 * See sql_push.c, which makes it, and sql_groups.c. Thread: the connection's. */
#ifndef EC_QUERY_SQL_SQL_GROUPS_H
#define EC_QUERY_SQL_SQL_GROUPS_H

#include "collector/query/analysis/group_events.h"
#include "collector/query/sql/sql_filter.h"
#include "collector/query/sql/sql_parts.h"

enum {
    EC_SQL_CONDITIONS_MAX = 12, /* SQLite can leave the check of the first sixteen to a table */
    EC_SQL_MEASURES_MAX = EC_GROUPING_VALUES_MAX,
};

/* Names of this table and of its columns begin so; no table of a class does (sql_events.c). */
#define EC_SQL_GROUPS_PREFIX "(grouped "

enum ec_sql_measure_kind {
    EC_SQL_COUNT_ALL,
    EC_SQL_COUNT,
    EC_SQL_COUNT_DISTINCT,
    EC_SQL_SUM,
    EC_SQL_TOTAL,
    EC_SQL_AVG,
    EC_SQL_MIN,
    EC_SQL_MAX,
};

typedef struct ec_sql_measure {
    enum ec_sql_measure_kind kind;
    ec_grouping_key of; /* unused by EC_SQL_COUNT_ALL */
    size_t value;       /* index into values; likewise */
} ec_sql_measure;

/* Its columns: "(grouped key N)", then "(grouped value N)", then, hidden, "(grouped if N)" a column for each condition.
 */
typedef struct ec_sql_groups {
    ec_sql *sql;
    char *name;  /* of the table, malloc'd */
    char *table; /* whose events are grouped, malloc'd */
    ec_table_schema shape;
    ec_grouping_key keys[EC_GROUPING_KEYS_MAX];
    size_t key_count;
    ec_sql_measure measures[EC_SQL_MEASURES_MAX];
    size_t measure_count;
    ec_grouping_value values[EC_GROUPING_VALUES_MAX];
    size_t value_count;
    size_t compared[EC_SQL_CONDITIONS_MAX]; /* columns of the shape, one a condition */
    size_t condition_count;
    ec_filter filter;    /* of what the scan does not know */
    int is_rows;         /* rows of events by the keys' columns: sql_rows.c */
    size_t first_count;  /* likewise: how many of them; 0: all that the filter lets through, as the scan gives them */
    unsigned nulls_last; /* likewise: a bit a key */
    sqlite3_uint64 used; /* likewise: columns, by the last plan */
    int is_partial;      /* the statement adds rows up: in any order, several may have the same keys */
    size_t kept_count;   /* of the conditions that the table keeps, by the last plan */
} ec_sql_groups;

/* What the table gives: groups, or, with is_rows, rows (sql_rows.c). */
extern const sqlite3_module EC_SQL_GROUPS_MODULE, EC_SQL_ROWS_MODULE;
/* Adds the table to its connection, which frees it from then on, in an error, too. */
EA_MUST_CHECK int ec_sql_add_groups(ec_sql_groups *g, const sqlite3_module *module, ea_err *err);
/* ---- what both tables do ---- */

/* The hidden columns of the conditions. */
void ec_sql_groups_put_compared(ea_text *columns, const ec_sql_groups *g);
/* xBestIndex; first: the number of the first of these columns. */
int ec_sql_groups_plan(ec_sql_groups *g, sqlite3_index_info *info, size_t first);
/* The conditions of xFilter. */
EA_MUST_CHECK int ec_sql_groups_conditions(const ec_sql_groups *g, const char *plan, int argc, sqlite3_value **argv,
                                           ea_arena *arena, ec_condition **ret, ea_err *err);
/* FROM and WHERE of a plain statement, and its parameters: an SQLite code. */
void ec_sql_groups_put_from(ea_text *to, const ec_sql_groups *g, const ec_condition *conditions, size_t count);
int ec_sql_groups_bind(sqlite3_stmt *st, const ec_condition *conditions, size_t count);
void ec_sql_groups_destroy(void *groups); /* NULL is allowed */

#endif
