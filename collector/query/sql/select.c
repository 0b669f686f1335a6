/* See select.h. Recursive descent; each level of precedence is a step of one loop. */
#include "collector/query/sql/select.h"

#include <stdint.h>
#include <string.h>

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_BLOB,
    TOKEN_PARAMETER,
    TOKEN_SIGN
};

typedef struct token {
    enum token_kind kind;
    const char *text;
    size_t len_bytes;
} token;

typedef struct parser {
    const char *at, *end; /* after the token at hand */
    const char *last_end; /* of the token before it */
    token token;
    ea_arena *arena;
    const char *why; /* refused; NULL: not yet */
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

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

int ec_select_same_name(const char *a, const char *b) {
    for (; *a && upper(*a) == upper(*b); a++)
        b++;
    return upper(*a) == upper(*b);
}

const ec_expr *ec_expr_bare(const ec_expr *e) {
    while (e->kind == EC_EXPR_PARENS)
        e = e->arguments[0];
    return e;
}

/* ---- tokens ---- */

static int is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int is_word(char c) {
    return is_letter(c) || is_digit(c) || c == '$';
}

static int is_hex(char c) {
    return is_digit(c) || (upper(c) >= 'A' && upper(c) <= 'F');
}

static char peek(const parser *p, size_t offset) {
    return (size_t)(p->end - p->at) > offset ? p->at[offset] : 0;
}

static int select_refuse(parser *p, const char *why) {
    if (!p->why)
        p->why = why;
    p->token.kind = TOKEN_END;
    p->at = p->end;
    return 0;
}

static void skip_blanks(parser *p) {
    for (;;) {
        char c = peek(p, 0);
        if (c && strchr(" \t\r\n\f", c)) {
            p->at++;
        } else if (c == '-' && peek(p, 1) == '-') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (c == '/' && peek(p, 1) == '*') {
            for (p->at += 2; p->at < p->end && !(*p->at == '*' && peek(p, 1) == '/');)
                p->at++;
            p->at += p->at < p->end ? 2 : 0;
        } else {
            return;
        }
    }
}

/* After the quote that closes what *p->at opens; a doubled one is inside. */
static int skip_quoted(parser *p) {
    char close = *p->at == '[' ? ']' : *p->at;
    for (p->at++; p->at < p->end; p->at++)
        if (*p->at == close) {
            if (close == ']' || peek(p, 1) != close) {
                p->at++;
                return 1;
            }
            p->at++;
        }
    return select_refuse(p, "a quote that does not close");
}

static void skip_number(parser *p) {
    if (*p->at == '0' && upper(peek(p, 1)) == 'X' && is_hex(peek(p, 2))) {
        for (p->at += 2; is_hex(peek(p, 0));)
            p->at++;
    } else {
        while (is_digit(peek(p, 0)))
            p->at++;
        if (peek(p, 0) == '.')
            for (p->at++; is_digit(peek(p, 0));)
                p->at++;
        size_t sign = peek(p, 1) == '+' || peek(p, 1) == '-';
        if (upper(peek(p, 0)) == 'E' && is_digit(peek(p, 1 + sign)))
            for (p->at += 1 + sign; is_digit(peek(p, 0));)
                p->at++;
    }
    if (is_word(peek(p, 0)))
        select_refuse(p, "a number");
}

static void skip_sign(parser *p) {
    static const char *const LONG[] = {"->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "=="};
    for (size_t i = 0; i < sizeof LONG / sizeof *LONG; i++) {
        size_t n = strlen(LONG[i]);
        if ((size_t)(p->end - p->at) >= n && memcmp(p->at, LONG[i], n) == 0) {
            p->at += n;
            return;
        }
    }
    if (!strchr("(),.;+-*/%=<>&|~", *p->at))
        select_refuse(p, "a sign");
    else
        p->at++;
}

static void next(parser *p) {
    p->last_end = p->token.text ? p->token.text + p->token.len_bytes : p->at;
    skip_blanks(p);
    const char *begin = p->at;
    char c = peek(p, 0);
    if (p->why || p->at == p->end) {
        p->token = (token){.kind = TOKEN_END, .text = p->end};
        return;
    }
    enum token_kind kind = TOKEN_SIGN;
    if (c == '\'') {
        kind = TOKEN_STRING;
        skip_quoted(p);
    } else if (c == '"' || c == '`' || c == '[') {
        kind = TOKEN_NAME;
        skip_quoted(p);
    } else if (upper(c) == 'X' && peek(p, 1) == '\'') {
        kind = TOKEN_BLOB;
        p->at++;
        skip_quoted(p);
    } else if (is_letter(c)) {
        kind = TOKEN_WORD;
        while (is_word(peek(p, 0)))
            p->at++;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(p, 1)))) {
        kind = TOKEN_NUMBER;
        skip_number(p);
    } else if (c == '?' || ((c == ':' || c == '@' || c == '$') && is_word(peek(p, 1)))) {
        kind = TOKEN_PARAMETER;
        for (p->at++; is_word(peek(p, 0));)
            p->at++;
        if (peek(p, 0) == ':' || (c == '$' && peek(p, 0) == '('))
            select_refuse(p, "a parameter");
    } else if (c == 0) {
        select_refuse(p, "a NUL");
    } else {
        skip_sign(p);
    }
    if (p->why)
        return;
    p->token = (token){.kind = kind, .text = begin, .len_bytes = (size_t)(p->at - begin)};
}

static int token_is(const token *t, const char *text) {
    if (strlen(text) != t->len_bytes)
        return 0;
    for (size_t i = 0; i < t->len_bytes; i++)
        if (upper(t->text[i]) != upper(text[i]))
            return 0;
    return 1;
}

static int is_keyword(const parser *p, const char *word) {
    return p->token.kind == TOKEN_WORD && token_is(&p->token, word);
}

static int is_sign(const parser *p, const char *sign) {
    return p->token.kind == TOKEN_SIGN && token_is(&p->token, sign);
}

static int accept_keyword(parser *p, const char *word) {
    int found = is_keyword(p, word);
    if (found)
        next(p);
    return found;
}

static int accept_sign(parser *p, const char *sign) {
    int found = is_sign(p, sign);
    if (found)
        next(p);
    return found;
}

static int expect_sign(parser *p, const char *sign) {
    return accept_sign(p, sign) || select_refuse(p, "something unexpected");
}

static int is_reserved(const token *t) {
    for (size_t i = 0; t->kind == TOKEN_WORD && i < sizeof RESERVED / sizeof *RESERVED; i++)
        if (token_is(t, RESERVED[i]))
            return 1;
    return 0;
}

static int is_name(const parser *p) {
    return p->token.kind == TOKEN_NAME || (p->token.kind == TOKEN_WORD && !is_reserved(&p->token));
}

/* The token as a name or a text's value, without quotes; NULL: there is no memory. */
static const char *value_of(parser *p) {
    const token *t = &p->token;
    char *out = ea_arena_alloc(p->arena, t->len_bytes + 1);
    size_t n = 0;
    if (!out) {
        p->rc = EA_ENOMEM;
        select_refuse(p, "memory");
        return NULL;
    }
    if (t->kind == TOKEN_WORD) {
        memcpy(out, t->text, t->len_bytes);
        out[t->len_bytes] = 0;
        return out;
    }
    char close = *t->text == '[' ? ']' : *t->text;
    for (size_t i = 1; i + 1 < t->len_bytes; i++) {
        out[n++] = t->text[i];
        i += t->text[i] == close && close != ']';
    }
    out[n] = 0;
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
static ec_expr *finish(parser *p, ec_expr *e) {
    if (p->why || !e)
        return NULL;
    e->len_bytes = (size_t)(p->last_end - e->text);
    return e;
}

static void add_argument(parser *p, ec_expr *to, ec_expr *argument) {
    if (p->why || !to || !argument)
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
    next(p); /* ( */
    if (accept_sign(p, "*")) {
        e->is_star = 1;
    } else if (!is_sign(p, ")")) {
        e->is_distinct = accept_keyword(p, "DISTINCT");
        do
            add_argument(p, e, parse_expr(p));
        while (!p->why && accept_sign(p, ","));
    }
    expect_sign(p, ")");
    if (is_keyword(p, "FILTER")) {
        next(p);
        expect_sign(p, "(");
        if (!accept_keyword(p, "WHERE"))
            select_refuse(p, "something unexpected");
        add_argument(p, e, parse_expr(p));
        expect_sign(p, ")");
        e->has_filter = 1;
    }
    if (is_keyword(p, "OVER") || is_keyword(p, "WITHIN"))
        select_refuse(p, "a window function");
    return finish(p, e);
}

static ec_expr *parse_case(parser *p) {
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->token.text);
    next(p);
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
    return finish(p, e);
}

static ec_expr *parse_cast(parser *p) {
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->token.text);
    next(p);
    if (!e)
        return NULL;
    e->name = "CAST";
    expect_sign(p, "(");
    add_argument(p, e, parse_expr(p));
    if (!accept_keyword(p, "AS") || !is_name(p))
        select_refuse(p, "something unexpected");
    while (is_name(p))
        next(p);
    expect_sign(p, ")");
    return finish(p, e);
}

static ec_expr *parse_simple(parser *p, enum ec_expr_kind kind) {
    ec_expr *e = node(p, kind, p->token.text);
    if (e && kind == EC_EXPR_STRING)
        e->name = value_of(p);
    next(p);
    return finish(p, e);
}

static ec_expr *parse_name(parser *p) {
    const char *begin = p->token.text, *name = value_of(p), *table = NULL;
    next(p);
    if (is_sign(p, "("))
        return parse_call(p, begin, name);
    if (accept_sign(p, ".")) {
        if (!is_name(p)) {
            select_refuse(p, "a qualified name");
            return NULL;
        }
        table = name;
        name = value_of(p);
        next(p);
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
    return finish(p, e);
}

static ec_expr *parse_primary(parser *p) {
    switch (p->token.kind) {
    case TOKEN_NUMBER:
        return parse_simple(p, EC_EXPR_NUMBER);
    case TOKEN_STRING:
        return parse_simple(p, EC_EXPR_STRING);
    case TOKEN_BLOB:
        return parse_simple(p, EC_EXPR_CONSTANT);
    case TOKEN_PARAMETER:
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
        ec_expr *e = node(p, EC_EXPR_PARENS, p->token.text);
        next(p);
        add_argument(p, e, parse_expr(p));
        if (is_sign(p, ","))
            select_refuse(p, "a row value");
        expect_sign(p, ")");
        return finish(p, e);
    }
    if (is_name(p))
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
            ec_expr *e = node(p, EC_EXPR_OPERATOR, p->token.text);
            next(p);
            if (++p->depth > EC_SELECT_DEPTH_MAX)
                select_refuse(p, "a deep expression");
            else
                add_argument(p, e, parse_unary(p));
            p->depth--;
            if (e)
                e->name = SIGNS[i];
            return finish(p, e);
        }
    ec_expr *e = parse_primary(p);
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

static ec_expr *parse_list(parser *p, ec_expr *e) {
    expect_sign(p, "(");
    if (is_keyword(p, "SELECT") || is_keyword(p, "WITH") || is_keyword(p, "VALUES"))
        select_refuse(p, "a subquery");
    if (is_sign(p, ")"))
        select_refuse(p, "an empty list");
    do
        add_argument(p, e, parse_expr(p));
    while (!p->why && accept_sign(p, ","));
    expect_sign(p, ")");
    return finish(p, e);
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
        next(p);
        return finish(p, e);
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
        return finish(p, e);
    }
    int is_not = accept_keyword(p, "NOT");
    if (is_not && accept_keyword(p, "NULL"))
        return finish(p, with_left(p, left, "NOTNULL"));
    if (accept_keyword(p, "IN")) {
        ec_expr *e = with_left(p, left, is_not ? "NOT IN" : "IN");
        if (!is_sign(p, "("))
            select_refuse(p, "a subquery");
        return parse_list(p, e);
    }
    if (accept_keyword(p, "BETWEEN")) {
        ec_expr *e = with_left(p, left, is_not ? "NOT BETWEEN" : "BETWEEN");
        add_argument(p, e, parse_level(p, LESS_LEVEL));
        if (!accept_keyword(p, "AND"))
            select_refuse(p, "something unexpected");
        add_argument(p, e, parse_level(p, LESS_LEVEL));
        return finish(p, e);
    }
    for (size_t i = 0; i < sizeof MATCHES / sizeof *MATCHES; i++)
        if (accept_keyword(p, MATCHES[i].word)) {
            ec_expr *e = with_left(p, left, is_not ? MATCHES[i].negated : MATCHES[i].name);
            add_argument(p, e, parse_level(p, LESS_LEVEL));
            if (accept_keyword(p, "ESCAPE"))
                add_argument(p, e, parse_level(p, LESS_LEVEL));
            return finish(p, e);
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

static ec_expr *parse_not(parser *p) {
    if (!is_keyword(p, "NOT"))
        return parse_level(p, EQUAL_LEVEL);
    ec_expr *e = node(p, EC_EXPR_OPERATOR, p->token.text);
    next(p);
    if (is_keyword(p, "EXISTS"))
        select_refuse(p, "a subquery");
    if (++p->depth > EC_SELECT_DEPTH_MAX)
        select_refuse(p, "a deep expression");
    else
        add_argument(p, e, parse_not(p));
    p->depth--;
    if (e)
        e->name = "NOT";
    return finish(p, e);
}

/* Operators of a level and of all tighter ones. */
static ec_expr *parse_level(parser *p, int level) {
    if (level == NOT_LEVEL)
        return parse_not(p);
    if (level > JOIN_LEVEL)
        return parse_unary(p);
    ec_expr *left = parse_level(p, level + 1);
    while (!p->why && left) {
        const char *name = operator_of(p, level);
        if (name) {
            ec_expr *e = with_left(p, left, name);
            next(p);
            add_argument(p, e, parse_level(p, level + 1));
            left = finish(p, e);
            continue;
        }
        ec_expr *word = level == EQUAL_LEVEL ? parse_word_operator(p, left) : left;
        if (word == left)
            break;
        left = word;
    }
    return p->why ? NULL : left;
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
static void *grow(parser *p, void *items, size_t count, size_t element_bytes) {
    if (count == EC_SELECT_ITEMS_MAX)
        select_refuse(p, "a long list");
    if ((count & (count - 1)) != 0 || p->why)
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

static void parse_columns(parser *p, ec_select *s) {
    do {
        int is_star = accept_sign(p, "*");
        ec_select_column c = {.value = is_star ? NULL : parse_expr(p)};
        int has_as = !is_star && accept_keyword(p, "AS");
        s->has_star |= is_star;
        if (!is_star && (is_name(p) || (has_as && p->token.kind == TOKEN_STRING))) {
            c.alias = value_of(p);
            next(p);
        } else if (has_as) {
            select_refuse(p, "an alias");
        }
        s->columns = grow(p, s->columns, s->column_count, sizeof *s->columns);
        if (p->why)
            return;
        s->columns[s->column_count++] = c;
    } while (accept_sign(p, ","));
}

static void parse_table(parser *p, ec_select *s) {
    if (!accept_keyword(p, "FROM") || !is_name(p)) {
        select_refuse(p, "the table");
        return;
    }
    s->table = value_of(p);
    next(p);
    if (is_sign(p, ".") || is_sign(p, "(") || is_sign(p, ","))
        select_refuse(p, "several tables, or one with arguments");
    int has_as = accept_keyword(p, "AS");
    if (is_name(p)) {
        s->table_alias = value_of(p);
        next(p);
    } else if (has_as) {
        select_refuse(p, "an alias");
    }
}

static void parse_group(parser *p, ec_select *s) {
    if (!accept_keyword(p, "BY"))
        select_refuse(p, "something unexpected");
    do {
        const ec_expr *e = parse_expr(p);
        s->group_by = grow(p, s->group_by, s->group_by_count, sizeof *s->group_by);
        if (p->why)
            return;
        s->group_by[s->group_by_count++] = e;
    } while (accept_sign(p, ","));
}

static void parse_order(parser *p, ec_select *s) {
    if (!accept_keyword(p, "BY"))
        select_refuse(p, "something unexpected");
    do {
        ec_select_order o = {.value = parse_expr(p)};
        const char *begin = p->token.text;
        o.rest = begin;
        if (accept_keyword(p, "ASC") || accept_keyword(p, "DESC"))
            o.rest_bytes = (size_t)(p->last_end - begin);
        if (accept_keyword(p, "NULLS")) {
            if (!is_keyword(p, "FIRST") && !is_keyword(p, "LAST"))
                select_refuse(p, "something unexpected");
            next(p);
            o.rest_bytes = (size_t)(p->last_end - begin);
        }
        s->order_by = grow(p, s->order_by, s->order_by_count, sizeof *s->order_by);
        if (p->why)
            return;
        s->order_by[s->order_by_count++] = o;
    } while (accept_sign(p, ","));
}

/* A number of rows that no column says. */
static void parse_count(parser *p) {
    accept_sign(p, "-");
    if (p->token.kind != TOKEN_NUMBER && p->token.kind != TOKEN_PARAMETER)
        select_refuse(p, "a limit that is computed");
    next(p);
}

static void parse_limit(parser *p, ec_select *s) {
    s->limit = p->token.text;
    next(p);
    parse_count(p);
    if (accept_keyword(p, "OFFSET") || accept_sign(p, ","))
        parse_count(p);
    s->limit_bytes = (size_t)(p->last_end - s->limit);
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
    parse_columns(p, s);
    parse_table(p, s);
    if (accept_keyword(p, "WHERE"))
        s->where = parse_expr(p);
    if (accept_keyword(p, "GROUP"))
        parse_group(p, s);
    if (accept_keyword(p, "HAVING"))
        s->having = parse_expr(p);
    if (accept_keyword(p, "ORDER"))
        parse_order(p, s);
    if (is_keyword(p, "LIMIT"))
        parse_limit(p, s);
    while (accept_sign(p, ";"))
        ;
    if (p->token.kind != TOKEN_END)
        select_refuse(p, "a join, a compound SELECT, or another clause");
}

int ec_select_parse(const char *sql, size_t len_bytes, ea_arena *arena, ec_select *ret, const char **ret_why) {
    parser p = {.at = sql, .end = sql + len_bytes, .arena = arena};
    ec_select s = {0};
    next(&p);
    parse_select(&p, &s);
    *ret_why = p.why;
    if (p.rc)
        return p.rc;
    if (p.why)
        return 0;
    *ret = s;
    return 1;
}
