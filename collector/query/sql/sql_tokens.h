/* The tokens of a statement, as SQLite takes it apart. Used by: select.c, sql_events.c, sql_unknown.c. Thread: any. */
#ifndef EC_QUERY_SQL_SQL_TOKENS_H
#define EC_QUERY_SQL_SQL_TOKENS_H

#include <stddef.h>

enum ec_token_kind {
    EC_TOKEN_END,
    EC_TOKEN_WORD,
    EC_TOKEN_NAME, /* in quotes: "a", `a`, [a] */
    EC_TOKEN_NUMBER,
    EC_TOKEN_STRING, /* 'a' */
    EC_TOKEN_BLOB,
    EC_TOKEN_PARAMETER,
    EC_TOKEN_SIGN,
};

typedef struct ec_sql_token {
    enum ec_token_kind kind;
    const char *text; /* in the statement, with its quotes */
    size_t len_bytes;
} ec_sql_token;

/* Begins with at and end alone; ec_sql_lexer_next gives the first token. */
typedef struct ec_sql_lexer {
    const char *at, *end; /* after the token at hand */
    const char *last_end; /* of the token before it */
    ec_sql_token token;
    const char *why; /* the statement is refused; NULL: not yet */
} ec_sql_lexer;

/* Goes to the next token. After the last one, and after a refusal, it is EC_TOKEN_END. */
void ec_sql_lexer_next(ec_sql_lexer *l);
/* Refuses the statement, unless it is refused: why, in a few words, a constant. Returns 0. */
int ec_sql_lexer_refuse(ec_sql_lexer *l, const char *why);
/* 1 when the token is this text, in any case. */
int ec_sql_token_is(const ec_sql_token *t, const char *text);
/* The value of a word, a name or a string, without quotes, into to, which has room for len_bytes + 1 bytes of it. */
void ec_sql_token_value(const ec_sql_token *t, char *to);

#endif
