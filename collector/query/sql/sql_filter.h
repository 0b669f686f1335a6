/* Inside collector/query/sql: conditions that the scan does not know, as filters of its blocks. A filter is a tree of
 * AND, OR and NOT over leaves, each an expression of one column. SQLite evaluates a leaf once for each distinct value
 * that it meets, so that it means what SQL means; comparisons of numbers are loops. See sql_filter.c. Thread: the
 * connection's. */
#ifndef EC_QUERY_SQL_SQL_FILTER_H
#define EC_QUERY_SQL_SQL_FILTER_H

#include "collector/query/scan/scan.h"

#include <sqlite3.h>

enum { EC_FILTER_NODES_MAX = 32, EC_FILTER_ROOTS_MAX = 16 };

enum ec_filter_what {
    EC_FILTER_LEAF,
    EC_FILTER_NUMBER, /* a leaf, too: its column compared with a whole number */
    EC_FILTER_AND,
    EC_FILTER_OR,
    EC_FILTER_NOT,
};

enum ec_filter_op { EC_FILTER_EQ, EC_FILTER_NE, EC_FILTER_LT, EC_FILTER_LE, EC_FILTER_GT, EC_FILTER_GE };

typedef struct ec_filter_node {
    enum ec_filter_what what;
    size_t a, b;                 /* operands of AND, OR, NOT: nodes before this one */
    size_t column;               /* of a leaf, in the shape */
    char *text;                  /* of a leaf: the expression as it is written */
    char *table;                 /* of a leaf: the module that gives its column's value, and what it gives */
    struct ec_filter_slot *slot; /* the connection's */
    enum ec_filter_op op;
    int64_t number;
} ec_filter_node;

/* What a statement says: an event is kept when each of the roots is true. */
typedef struct ec_filter {
    ec_filter_node nodes[EC_FILTER_NODES_MAX];
    size_t node_count;
    size_t roots[EC_FILTER_ROOTS_MAX];
    char *texts[EC_FILTER_ROOTS_MAX]; /* of the roots */
    size_t root_count;
    char *alias; /* by which the texts call the table; NULL: by its name */
} ec_filter;

/* Takes away the nodes after the first `count`. */
void ec_filter_cut(ec_filter *f, size_t count);
void ec_filter_deinit(ec_filter *f); /* harmless on a zeroed one */
/* Adds the modules of the leaves to the connection. number: unique in it. EA_ENOMEM. */
EA_MUST_CHECK int ec_filter_add_modules(ec_filter *f, sqlite3 *db, const ec_table_schema *shape, unsigned number,
                                        ea_err *err);

/* Whether it reads columns of ec_scan_is_constant alone. */
int ec_filter_is_of_constants(const ec_filter *f, const ec_table_schema *shape);

typedef struct ec_filter_run ec_filter_run;

/* Compiles the leaves. f, shape: borrowed until close. table: the statement's. */
EA_MUST_CHECK int ec_filter_open(ec_filter_run **ret, const ec_filter *f, sqlite3 *db, const ec_table_schema *shape,
                                 const char *table, ea_err *err);
void ec_filter_close(ec_filter_run *r); /* NULL is allowed */
/* ec_row_filter's keep; arg: the run. EA_EUSAGE: SQLite cannot evaluate a leaf; EA_ECANCELED, EA_ENOMEM. */
EA_MUST_CHECK int ec_filter_keep(void *run, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count,
                                 ea_err *err);

#endif
