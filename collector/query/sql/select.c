/* See select.h. Recursive descent; each level of precedence is a step of one loop. */
#include "collector/query/sql/select.h"

#include "collector/query/sql/sql_tokens.h"

#include <stdint.h>
#include <string.h>

typedef struct parser {
    ec_sql_lexer lexer;
    ea_arena *arena;
    int rc;
    int depth;
} parser;

/* Words that are no name of a column, a table or an alias here, though SQLite takes some of them for one. */
static const char *const RESERVED[] = {
    "ALL",          "AND",          "AS",
    "ASC",          "BETWEEN",      "BY",
    "CASE",         "CAST",         "COLLATE",
    "CROSS",        "CURRENT",      "DESC",
    "DISTINCT",     "ELSE",         "END",
    "ESCAPE",       "EXCEPT",       "EXISTS",
    "EXPLAIN",      "FILTER",       "FROM",
    "FULL",         "GLOB",         "GROUP",
    "GROUPS",       "HAVING",       "IN",
    "INDEXED",      "INNER",        "INTERSECT",
    "IS",           "ISNULL",       "JOIN",
    "LEFT",         "LIKE",         "LIMIT",
    "MATCH",        "MATERIALIZED", "NATURAL",
    "NOT",          "NOTNULL",      "NULL",
    "NULLS",        "OFFSET",       "ON",
    "OR",           "ORDER",        "OUTER",
    "OVER",         "PARTITION",    "RAISE",
    "RANGE",        "RECURSIVE",    "REGEXP",
    "RIGHT",        "ROWS",         "SELECT",
    "THEN",         "UNION",        "USING",
    "VALUES",       "WHEN",         "WHERE",
    "WINDOW",       "WITH",         "WITHIN",
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP",
};

const ec_expr *ec_expr_bare(const ec_expr *e) {
    while (e->kind == EC_EXPR_PARENS)
        e = e->arguments[0];
    return e;
}

static int select_refuse(parser *p, const char *why) {
    return ec_sql_lexer_refuse(&p->lexer, why);
}

static void select_next(parser *p) {
    ec_sql_lexer_next(&p->lexer);
}

static int is_keyword(const parser *p, const char *word) {
    return p->lexer.token.kind == EC_TOKEN_WORD && ec_sql_token_is(&p->lexer.token, word);
}

static int is_sign(const parser *p, const char *sign) {
    return p->lexer.token.kind == EC_TOKEN_SIGN && ec_sql_token_is(&p->lexer.token, sign);
}

static int accept_keyword(parser *p, const char *word) {
    int found = is_keyword(p, word);
    if (found)
        select_next(p);
    return found;
}

static int accept_sign(parser *p, const char *sign) {
    int found = is_sign(p, sign);
    if (found)
        select_next(p);
    return found;
}

static int expect_sign(parser *p, const char *sign) {
    return accept_sign(p, sign) || select_refuse(p, "something unexpected");
}

static int is_reserved(const ec_sql_token *t) {
    for (size_t i = 0; t->kind == EC_TOKEN_WORD && i < sizeof RESERVED / sizeof *RESERVED; i++)
        if (ec_sql_token_is(t, RESERVED[i]))
            return 1;
    return 0;
}

static int select_is_name(const parser *p) {
    return p->lexer.token.kind == EC_TOKEN_NAME ||
           (p->lexer.token.kind == EC_TOKEN_WORD && !is_reserved(&p->lexer.token));
}

/* The token as a name or a text's value, without quotes; NULL: there is no memory. */
static const char *select_value_of(parser *p) {
    const ec_sql_token *t = &p->lexer.token;
    char *out = ea_arena_alloc(p->arena, t->len_bytes + 1);
    if (!out) {
        p->rc = EA_ENOMEM;
        select_refuse(p, "memory");
        return NULL;
    }
    ec_sql_token_value(t, out);
    return out;
}

/* ---- expressions ---- */

static ec_expr *parse_expr(parser *p);

static ec_expr *node(parser *p, enum ec_expr_kind kind, const char *begin) {
    ec_expr *e = ea_arena_zalloc(p->arena, 1, sizeof *e);
    if (!e) {
        p->rc = EA_ENOMEM;
        select_refuse(p, "memory");
        return NULL;
    }
    e->kind = kind;
    e->text = begin;
    return e;
}

/* Ends a node at the end of the token before the one at hand. */
static ec_expr *select_finish(parser *p, ec_expr *e) {
    if (p->lexer.why || !e)
        return NULL;
    e->len_bytes = (size_t)(p->lexer.last_end - e->text);
    return e;
}

static void add_argument(parser *p, ec_expr *to, ec_expr *argument) {
    if (p->lexer.why || !to || !argument)
        return;
    /* grows at each power of two */
    if ((to->argument_count & (to->argument_count - 1)) == 0) {
        size_t capacity = to->argument_count ? 2 * to->argument_count : 1;
        ec_expr **bigger = ea_arena_zalloc(p->arena, capacity, sizeof *bigger);
        if (!bigger) {
            p->rc = EA_ENOMEM;
            select_refuse(p, "memory");
            return;
        }
        if (to->argument_count)
            memcpy(bigger, to->arguments, to->argument_count * sizeof *bigger);
        to->arguments = bigger;
    }
    if (to->argument_count == EC_SELECT_ITEMS_MAX)
        select_refuse(p, "a long list");
    else
        to->arguments[to->argument_count++] = argument;
}

static ec_expr *parse_call(parser *p, const char *begin, const char *name) {
    ec_expr *e = node(p, EC_EXPR_CALL, begin);
    if (!e)
        return NULL;
    e->name = name;
    select_next(p); /* ( */
    if (accept_sign(p, "*")) {
        e->is_star = 1;
    } else if (!is_sign(p, ")")) {
        e->is_distinct = accept_keyword(p, "DISTINCT");
        do
            add_argument(p, e, parse_expr(p));
        while (!p->lexer.why && accept_sign(p, ","));
    }
    expect_sign(p, ")");
    if (is_keyword(p, "FILTER")) {
        select_next(p);
        expect_sign(p, "(");
        if (!accept_keyword(p, "WHERE"))
            select_refuse(p, "something unexpected");
        add_argument(p, e, parse_expr(p));
        expect_sign(p, ")");
        e->has_filter = 1;
    }
    if (is_keyword(p, "OVER") || is_keyword(p, "WITHIN"))
        select_refuse(p, "a window function");
    return select_finish(p, e);
}

static ec_expr *parse_case(parser *p) {
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->lexer.token.text);
    select_next(p);
    if (!e)
        return NULL;
    e->name = is_keyword(p, "WHEN") ? "CASE" : "CASE OF";
    if (!is_keyword(p, "WHEN"))
        add_argument(p, e, parse_expr(p));
    if (!is_keyword(p, "WHEN"))
        select_refuse(p, "something unexpected");
    while (accept_keyword(p, "WHEN")) {
        add_argument(p, e, parse_expr(p));
        if (!accept_keyword(p, "THEN"))
            select_refuse(p, "something unexpected");
        add_argument(p, e, parse_expr(p));
    }
    if (accept_keyword(p, "ELSE"))
        add_argument(p, e, parse_expr(p));
    if (!accept_keyword(p, "END"))
        select_refuse(p, "something unexpected");
    return select_finish(p, e);
}

static ec_expr *parse_cast(parser *p) {
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->lexer.token.text);
    select_next(p);
    if (!e)
        return NULL;
    e->name = "CAST";
    expect_sign(p, "(");
    add_argument(p, e, parse_expr(p));
    if (!accept_keyword(p, "AS") || !select_is_name(p))
        select_refuse(p, "something unexpected");
    while (select_is_name(p))
        select_next(p);
    expect_sign(p, ")");
    return select_finish(p, e);
}

static ec_expr *parse_simple(parser *p, enum ec_expr_kind kind) {
    ec_expr *e = node(p, kind, p->lexer.token.text);
    if (e && kind == EC_EXPR_STRING)
        e->name = select_value_of(p);
    select_next(p);
    return select_finish(p, e);
}

static ec_expr *parse_name(parser *p) {
    const char *begin = p->lexer.token.text, *name = select_value_of(p), *table = NULL;
    select_next(p);
    if (is_sign(p, "("))
        return parse_call(p, begin, name);
    if (accept_sign(p, ".")) {
        if (!select_is_name(p)) {
            select_refuse(p, "a qualified name");
            return NULL;
        }
        table = name;
        name = select_value_of(p);
        select_next(p);
        if (is_sign(p, ".") || is_sign(p, "(")) {
            select_refuse(p, "a qualified name");
            return NULL;
        }
    }
    ec_expr *e = node(p, EC_EXPR_COLUMN, begin);
    if (e) {
        e->name = name;
        e->table = table;
    }
    return select_finish(p, e);
}

static ec_expr *select_parse_primary(parser *p) {
    switch (p->lexer.token.kind) {
    case EC_TOKEN_NUMBER:
        return parse_simple(p, EC_EXPR_NUMBER);
    case EC_TOKEN_STRING:
        return parse_simple(p, EC_EXPR_STRING);
    case EC_TOKEN_BLOB:
        return parse_simple(p, EC_EXPR_CONSTANT);
    case EC_TOKEN_PARAMETER:
        return parse_simple(p, EC_EXPR_PARAMETER);
    default:
        break;
    }
    if (is_keyword(p, "NULL"))
        return parse_simple(p, EC_EXPR_CONSTANT);
    if (is_keyword(p, "CASE"))
        return parse_case(p);
    if (is_keyword(p, "CAST"))
        return parse_cast(p);
    if (is_keyword(p, "SELECT") || is_keyword(p, "EXISTS") || is_keyword(p, "WITH")) {
        select_refuse(p, "a subquery");
        return NULL;
    }
    if (is_sign(p, "(")) {
        ec_expr *e = node(p, EC_EXPR_PARENS, p->lexer.token.text);
        select_next(p);
        add_argument(p, e, parse_expr(p));
        if (is_sign(p, ","))
            select_refuse(p, "a row value");
        expect_sign(p, ")");
        return select_finish(p, e);
    }
    if (select_is_name(p))
        return parse_name(p);
    select_refuse(p, "an expression");
    return NULL;
}

/* SQLite's precedences, the loosest first. */
enum { OR_LEVEL = 1, AND_LEVEL, NOT_LEVEL, EQUAL_LEVEL, LESS_LEVEL, BIT_LEVEL, ADD_LEVEL, MULTIPLY_LEVEL, JOIN_LEVEL };

static const struct {
    const char *sign; /* of an operator between two operands */
    int level;
} BETWEEN_TWO[] = {
    {"=", EQUAL_LEVEL},    {"==", EQUAL_LEVEL},   {"<>", EQUAL_LEVEL}, {"!=", EQUAL_LEVEL}, {"<", LESS_LEVEL},
    {"<=", LESS_LEVEL},    {">", LESS_LEVEL},     {">=", LESS_LEVEL},  {"&", BIT_LEVEL},    {"|", BIT_LEVEL},
    {"<<", BIT_LEVEL},     {">>", BIT_LEVEL},     {"+", ADD_LEVEL},    {"-", ADD_LEVEL},    {"*", MULTIPLY_LEVEL},
    {"/", MULTIPLY_LEVEL}, {"%", MULTIPLY_LEVEL}, {"||", JOIN_LEVEL},  {"->", JOIN_LEVEL},  {"->>", JOIN_LEVEL},
};

static ec_expr *parse_level(parser *p, int level);

static ec_expr *parse_unary(parser *p) {
    static const char *const SIGNS[] = {"-", "+", "~"};
    for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++)
        if (is_sign(p, SIGNS[i])) {
            ec_expr *e = node(p, EC_EXPR_OPERATOR, p->lexer.token.text);
            select_next(p);
            if (++p->depth > EC_SELECT_DEPTH_MAX)
                select_refuse(p, "a deep expression");
            else
                add_argument(p, e, parse_unary(p));
            p->depth--;
            if (e)
                e->name = SIGNS[i];
            return select_finish(p, e);
        }
    ec_expr *e = select_parse_primary(p);
    if (is_keyword(p, "COLLATE"))
        select_refuse(p, "COLLATE");
    return e;
}

static ec_expr *with_left(parser *p, ec_expr *left, const char *name) {
    ec_expr *e = left ? node(p, EC_EXPR_OPERATOR, left->text) : NULL;
    if (e)
        e->name = name;
    add_argument(p, e, left);
    return e;
}

static ec_expr *select_parse_list(parser *p, ec_expr *e) {
    expect_sign(p, "(");
    if (is_keyword(p, "SELECT") || is_keyword(p, "WITH") || is_keyword(p, "VALUES"))
        select_refuse(p, "a subquery");
    if (is_sign(p, ")"))
        select_refuse(p, "an empty list");
    do
        add_argument(p, e, parse_expr(p));
    while (!p->lexer.why && accept_sign(p, ","));
    expect_sign(p, ")");
    return select_finish(p, e);
}

/* Operators of EQUAL_LEVEL that are words, after their left operand; the same expression when there is none. */
static ec_expr *parse_word_operator(parser *p, ec_expr *left) {
    static const struct {
        const char *word, *name, *negated;
    } MATCHES[] = {{"LIKE", "LIKE", "NOT LIKE"},
                   {"GLOB", "GLOB", "NOT GLOB"},
                   {"REGEXP", "REGEXP", "NOT REGEXP"},
                   {"MATCH", "MATCH", "NOT MATCH"}};

    if (is_keyword(p, "ISNULL") || is_keyword(p, "NOTNULL")) {
        ec_expr *e = with_left(p, left, is_keyword(p, "ISNULL") ? "ISNULL" : "NOTNULL");
        select_next(p);
        return select_finish(p, e);
    }
    if (accept_keyword(p, "IS")) {
        int is_not = accept_keyword(p, "NOT");
        if (accept_keyword(p, "DISTINCT")) {
            is_not = !is_not;
            if (!accept_keyword(p, "FROM"))
                select_refuse(p, "something unexpected");
        }
        ec_expr *e = with_left(p, left, is_not ? "IS NOT" : "IS");
        add_argument(p, e, parse_level(p, LESS_LEVEL));
        return select_finish(p, e);
    }
    int is_not = accept_keyword(p, "NOT");
    if (is_not && accept_keyword(p, "NULL"))
        return select_finish(p, with_left(p, left, "NOTNULL"));
    if (accept_keyword(p, "IN")) {
        ec_expr *e = with_left(p, left, is_not ? "NOT IN" : "IN");
        if (!is_sign(p, "("))
            select_refuse(p, "a subquery");
        return select_parse_list(p, e);
    }
    if (accept_keyword(p, "BETWEEN")) {
        ec_expr *e = with_left(p, left, is_not ? "NOT BETWEEN" : "BETWEEN");
        add_argument(p, e, parse_level(p, LESS_LEVEL));
        if (!accept_keyword(p, "AND"))
            select_refuse(p, "something unexpected");
        add_argument(p, e, parse_level(p, LESS_LEVEL));
        return select_finish(p, e);
    }
    for (size_t i = 0; i < sizeof MATCHES / sizeof *MATCHES; i++)
        if (accept_keyword(p, MATCHES[i].word)) {
            ec_expr *e = with_left(p, left, is_not ? MATCHES[i].negated : MATCHES[i].name);
            add_argument(p, e, parse_level(p, LESS_LEVEL));
            if (accept_keyword(p, "ESCAPE"))
                add_argument(p, e, parse_level(p, LESS_LEVEL));
            return select_finish(p, e);
        }
    if (is_not)
        select_refuse(p, "something unexpected");
    return left;
}

/* The sign or word at hand as an operator of this level; NULL: it is none. */
static const char *operator_of(const parser *p, int level) {
    if (level == OR_LEVEL)
        return is_keyword(p, "OR") ? "OR" : NULL;
    if (level == AND_LEVEL)
        return is_keyword(p, "AND") ? "AND" : NULL;
    for (size_t i = 0; i < sizeof BETWEEN_TWO / sizeof *BETWEEN_TWO; i++)
        if (BETWEEN_TWO[i].level == level && is_sign(p, BETWEEN_TWO[i].sign))
            return BETWEEN_TWO[i].sign;
    return NULL;
}

static ec_expr *select_parse_not(parser *p) {
    if (!is_keyword(p, "NOT"))
        return parse_level(p, EQUAL_LEVEL);
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->lexer.token.text);
    select_next(p);
    if (is_keyword(p, "EXISTS"))
        select_refuse(p, "a subquery");
    if (++p->depth > EC_SELECT_DEPTH_MAX)
        select_refuse(p, "a deep expression");
    else
        add_argument(p, e, select_parse_not(p));
    p->depth--;
    if (e)
        e->name = "NOT";
    return select_finish(p, e);
}

/* Operators of a level and of all tighter ones. */
static ec_expr *parse_level(parser *p, int level) {
    if (level == NOT_LEVEL)
        return select_parse_not(p);
    if (level > JOIN_LEVEL)
        return parse_unary(p);
    ec_expr *left = parse_level(p, level + 1);
    while (!p->lexer.why && left) {
        const char *name = operator_of(p, level);
        if (name) {
            ec_expr *e = with_left(p, left, name);
            select_next(p);
            add_argument(p, e, parse_level(p, level + 1));
            left = select_finish(p, e);
            continue;
        }
        ec_expr *word = level == EQUAL_LEVEL ? parse_word_operator(p, left) : left;
        if (word == left)
            break;
        left = word;
    }
    return p->lexer.why ? NULL : left;
}

static ec_expr *parse_expr(parser *p) {
    ec_expr *e = NULL;
    if (++p->depth > EC_SELECT_DEPTH_MAX)
        select_refuse(p, "a deep expression");
    else
        e = parse_level(p, OR_LEVEL);
    p->depth--;
    return e;
}

/* ---- the statement ---- */

/* Makes room for one more element of a list in the arena; the old one, when there is none to be had. */
static void *select_grow(parser *p, void *items, size_t count, size_t element_bytes) {
    if (count == EC_SELECT_ITEMS_MAX)
        select_refuse(p, "a long list");
    if ((count & (count - 1)) != 0 || p->lexer.why)
        return items;
    void *bigger = ea_arena_zalloc(p->arena, count ? 2 * count : 1, element_bytes);
    if (!bigger) {
        p->rc = EA_ENOMEM;
        select_refuse(p, "memory");
        return items;
    }
    if (count)
        memcpy(bigger, items, count * element_bytes);
    return bigger;
}

static void select_parse_columns(parser *p, ec_select *s) {
    do {
        int is_star = accept_sign(p, "*");
        ec_select_column c = {.value = is_star ? NULL : parse_expr(p)};
        int has_as = !is_star && accept_keyword(p, "AS");
        s->has_star |= is_star;
        if (!is_star && (select_is_name(p) || (has_as && p->lexer.token.kind == EC_TOKEN_STRING))) {
            c.alias = select_value_of(p);
            select_next(p);
        } else if (has_as) {
            select_refuse(p, "an alias");
        }
        s->columns = select_grow(p, s->columns, s->column_count, sizeof *s->columns);
        if (p->lexer.why)
            return;
        s->columns[s->column_count++] = c;
    } while (accept_sign(p, ","));
}

static void parse_table(parser *p, ec_select *s) {
    if (!accept_keyword(p, "FROM") || !select_is_name(p)) {
        select_refuse(p, "the table");
        return;
    }
    s->table = select_value_of(p);
    select_next(p);
    if (is_sign(p, ".") || is_sign(p, "(") || is_sign(p, ","))
        select_refuse(p, "several tables, or one with arguments");
    int has_as = accept_keyword(p, "AS");
    if (select_is_name(p)) {
        s->table_alias = select_value_of(p);
        select_next(p);
    } else if (has_as) {
        select_refuse(p, "an alias");
    }
}

static void select_parse_group(parser *p, ec_select *s) {
    if (!accept_keyword(p, "BY"))
        select_refuse(p, "something unexpected");
    do {
        const ec_expr *e = parse_expr(p);
        s->group_by = select_grow(p, s->group_by, s->group_by_count, sizeof *s->group_by);
        if (p->lexer.why)
            return;
        s->group_by[s->group_by_count++] = e;
    } while (accept_sign(p, ","));
}

static void parse_order(parser *p, ec_select *s) {
    if (!accept_keyword(p, "BY"))
        select_refuse(p, "something unexpected");
    do {
        ec_select_order o = {.value = parse_expr(p)};
        const char *begin = p->lexer.token.text;
        o.rest = begin;
        if (accept_keyword(p, "ASC") || accept_keyword(p, "DESC"))
            o.rest_bytes = (size_t)(p->lexer.last_end - begin);
        if (accept_keyword(p, "NULLS")) {
            if (!is_keyword(p, "FIRST") && !is_keyword(p, "LAST"))
                select_refuse(p, "something unexpected");
            select_next(p);
            o.rest_bytes = (size_t)(p->lexer.last_end - begin);
        }
        s->order_by = select_grow(p, s->order_by, s->order_by_count, sizeof *s->order_by);
        if (p->lexer.why)
            return;
        s->order_by[s->order_by_count++] = o;
    } while (accept_sign(p, ","));
}

/* A number of rows that no column says. */
static void parse_count(parser *p) {
    accept_sign(p, "-");
    if (p->lexer.token.kind != EC_TOKEN_NUMBER && p->lexer.token.kind != EC_TOKEN_PARAMETER)
        select_refuse(p, "a limit that is computed");
    select_next(p);
}

static void parse_limit(parser *p, ec_select *s) {
    s->limit = p->lexer.token.text;
    select_next(p);
    parse_count(p);
    if (accept_keyword(p, "OFFSET") || accept_sign(p, ","))
        parse_count(p);
    s->limit_bytes = (size_t)(p->lexer.last_end - s->limit);
}

static void parse_select(parser *p, ec_select *s) {
    if (accept_keyword(p, "EXPLAIN")) {
        s->explain = EC_EXPLAIN_PROGRAM;
        if (accept_keyword(p, "QUERY")) {
            s->explain = EC_EXPLAIN_PLAN;
            if (!accept_keyword(p, "PLAN"))
                select_refuse(p, "something unexpected");
        }
    }
    if (!accept_keyword(p, "SELECT")) {
        select_refuse(p, "a statement that is not one SELECT");
        return;
    }
    s->is_distinct = accept_keyword(p, "DISTINCT");
    if (!s->is_distinct)
        (void)accept_keyword(p, "ALL");
    select_parse_columns(p, s);
    parse_table(p, s);
    if (accept_keyword(p, "WHERE"))
        s->where = parse_expr(p);
    if (accept_keyword(p, "GROUP"))
        select_parse_group(p, s);
    if (accept_keyword(p, "HAVING"))
        s->having = parse_expr(p);
    if (accept_keyword(p, "ORDER"))
        parse_order(p, s);
    if (is_keyword(p, "LIMIT"))
        parse_limit(p, s);
    while (accept_sign(p, ";"))
        ;
    if (p->lexer.token.kind != EC_TOKEN_END)
        select_refuse(p, "a join, a compound SELECT, or another clause");
}

int ec_select_parse(const char *sql, size_t len_bytes, ea_arena *arena, ec_select *ret, const char **ret_why) {
    parser p = {.lexer = {.at = sql, .end = sql + len_bytes}, .arena = arena};
    ec_select s = {0};
    select_next(&p);
    parse_select(&p, &s);
    *ret_why = p.lexer.why;
    if (p.rc)
        return p.rc;
    if (p.lexer.why)
        return 0;
    *ret = s;
    return 1;
}
