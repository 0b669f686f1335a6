/* A parser of one SELECT over one table: what a statement asks, as a tree. It reads a subset of SQLite's grammar with
 * SQLite's tokens and precedences, and refuses what it does not fully understand: joins, subqueries, compound selects,
 * common table expressions, window functions, collations. A refused statement is not wrong; SQLite runs it as it is.
 * Called by: sql_push.c, with statements that SQLite has compiled. Calls: proto/base. Thread: any. */
#ifndef EC_QUERY_SQL_SELECT_H
#define EC_QUERY_SQL_SELECT_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stddef.h>

enum ec_expr_kind {
    EC_EXPR_COLUMN,    /* name, and table when it is qualified; a word such as true is one, too */
    EC_EXPR_NUMBER,    /* a number's literal */
    EC_EXPR_STRING,    /* 'text'; name: its value */
    EC_EXPR_CONSTANT,  /* NULL, X'00' */
    EC_EXPR_PARAMETER, /* ?, ?1, :name, @name, $name */
    EC_EXPR_CALL,      /* name(arguments) */
    EC_EXPR_OPERATOR,  /* name: in upper case; arguments: its operands in the order of the text; CASE OF: with one
                        * operand before WHEN */
    EC_EXPR_PARENS,    /* one argument */
};

/* A node. Its text is in the statement, from its first token to the end of its last one. */
typedef struct ec_expr {
    enum ec_expr_kind kind;
    const char *text;
    size_t len_bytes;
    const char *name;  /* see above; without quotes; NULL: none */
    const char *table; /* of a column; NULL: none */
    struct ec_expr **arguments;
    size_t argument_count;
    int is_star;     /* name(*) */
    int is_distinct; /* name(DISTINCT x) */
    int has_filter;  /* the last argument is the condition of FILTER (WHERE ...) */
} ec_expr;

typedef struct ec_select_column {
    const ec_expr *value;
    const char *alias; /* NULL: none */
} ec_select_column;

typedef struct ec_select_order {
    const ec_expr *value;
    const char *rest; /* DESC, NULLS LAST and so on, as it is written; may be empty */
    size_t rest_bytes;
} ec_select_order;

enum ec_select_explain { EC_EXPLAIN_NONE, EC_EXPLAIN_PROGRAM, EC_EXPLAIN_PLAN };

typedef struct ec_select {
    enum ec_select_explain explain;
    int is_distinct; /* SELECT DISTINCT */
    ec_select_column *columns;
    size_t column_count;
    int has_star;                    /* one of the columns is *: its value is NULL */
    const char *table, *table_alias; /* alias NULL: none */
    const ec_expr *where, *having;   /* NULL: none */
    const ec_expr **group_by;
    size_t group_by_count;
    ec_select_order *order_by;
    size_t order_by_count;
    const char *limit; /* LIMIT and what follows it, as it is written; NULL: none */
    size_t limit_bytes;
} ec_select;

enum { EC_SELECT_DEPTH_MAX = 100, EC_SELECT_ITEMS_MAX = 2000 };

/* Parses a statement of len_bytes. 1 and *ret, which lives in the arena and points into sql; 0: refused, *ret_why says
 * the reason in a few words. EA_ENOMEM. */
EA_MUST_CHECK int ec_select_parse(const char *sql, size_t len_bytes, ea_arena *arena, ec_select *ret,
                                  const char **ret_why);
/* The expression without the parentheses around it. */
const ec_expr *ec_expr_bare(const ec_expr *e);

#endif
