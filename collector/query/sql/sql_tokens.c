/* See sql_tokens.h. */
#include "collector/query/sql/sql_tokens.h"

#include "proto/base/pattern.h"

#include <string.h>

static int sql_tokens_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int sql_tokens_is_word(char c) {
    return sql_tokens_is_letter(c) || is_digit(c) || c == '$';
}

static int sql_tokens_is_hex(char c) {
    return is_digit(c) || (ea_ascii_lower(c) >= 'a' && ea_ascii_lower(c) <= 'f');
}

static char peek(const ec_sql_lexer *l, size_t offset) {
    return (size_t)(l->end - l->at) > offset ? l->at[offset] : 0;
}

int ec_sql_lexer_refuse(ec_sql_lexer *l, const char *why) {
    if (!l->why)
        l->why = why;
    l->token.kind = EC_TOKEN_END;
    l->at = l->end;
    return 0;
}

static void skip_blanks(ec_sql_lexer *l) {
    for (;;) {
        char c = peek(l, 0);
        if (c && strchr(" \t\r\n\f", c)) {
            l->at++;
        } else if (c == '-' && peek(l, 1) == '-') {
            while (l->at < l->end && *l->at != '\n')
                l->at++;
        } else if (c == '/' && peek(l, 1) == '*') {
            for (l->at += 2; l->at < l->end && !(*l->at == '*' && peek(l, 1) == '/');)
                l->at++;
            l->at += l->at < l->end ? 2 : 0;
        } else {
            return;
        }
    }
}

/* After the quote that closes what *l->at opens; a doubled one is inside. */
static int skip_quoted(ec_sql_lexer *l) {
    char close = *l->at == '[' ? ']' : *l->at;
    for (l->at++; l->at < l->end; l->at++)
        if (*l->at == close) {
            if (close == ']' || peek(l, 1) != close) {
                l->at++;
                return 1;
            }
            l->at++;
        }
    return ec_sql_lexer_refuse(l, "a quote that does not close");
}

static void skip_number(ec_sql_lexer *l) {
    if (*l->at == '0' && ea_ascii_lower(peek(l, 1)) == 'x' && sql_tokens_is_hex(peek(l, 2))) {
        for (l->at += 2; sql_tokens_is_hex(peek(l, 0));)
            l->at++;
    } else {
        while (is_digit(peek(l, 0)))
            l->at++;
        if (peek(l, 0) == '.')
            for (l->at++; is_digit(peek(l, 0));)
                l->at++;
        size_t sign = peek(l, 1) == '+' || peek(l, 1) == '-';
        if (ea_ascii_lower(peek(l, 0)) == 'e' && is_digit(peek(l, 1 + sign)))
            for (l->at += 1 + sign; is_digit(peek(l, 0));)
                l->at++;
    }
    if (sql_tokens_is_word(peek(l, 0)))
        ec_sql_lexer_refuse(l, "a number");
}

static void skip_sign(ec_sql_lexer *l) {
    static const char *const LONG[] = {"->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "=="};
    for (size_t i = 0; i < sizeof LONG / sizeof *LONG; i++) {
        size_t n = strlen(LONG[i]);
        if ((size_t)(l->end - l->at) >= n && memcmp(l->at, LONG[i], n) == 0) {
            l->at += n;
            return;
        }
    }
    if (!strchr("(),.;+-*/%=<>&|~", *l->at))
        ec_sql_lexer_refuse(l, "a sign");
    else
        l->at++;
}

void ec_sql_lexer_next(ec_sql_lexer *l) {
    l->last_end = l->token.text ? l->token.text + l->token.len_bytes : l->at;
    skip_blanks(l);
    const char *begin = l->at;
    char c = peek(l, 0);
    if (l->why || l->at == l->end) {
        l->token = (ec_sql_token){.kind = EC_TOKEN_END, .text = l->end};
        return;
    }
    enum ec_token_kind kind = EC_TOKEN_SIGN;
    if (c == '\'') {
        kind = EC_TOKEN_STRING;
        skip_quoted(l);
    } else if (c == '"' || c == '`' || c == '[') {
        kind = EC_TOKEN_NAME;
        skip_quoted(l);
    } else if (ea_ascii_lower(c) == 'x' && peek(l, 1) == '\'') {
        kind = EC_TOKEN_BLOB;
        l->at++;
        skip_quoted(l);
    } else if (sql_tokens_is_letter(c)) {
        kind = EC_TOKEN_WORD;
        while (sql_tokens_is_word(peek(l, 0)))
            l->at++;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(l, 1)))) {
        kind = EC_TOKEN_NUMBER;
        skip_number(l);
    } else if (c == '?' || ((c == ':' || c == '@' || c == '$') && sql_tokens_is_word(peek(l, 1)))) {
        kind = EC_TOKEN_PARAMETER;
        for (l->at++; sql_tokens_is_word(peek(l, 0));)
            l->at++;
        if (peek(l, 0) == ':' || (c == '$' && peek(l, 0) == '('))
            ec_sql_lexer_refuse(l, "a parameter");
    } else if (c == 0) {
        ec_sql_lexer_refuse(l, "a NUL");
    } else {
        skip_sign(l);
    }
    if (l->why)
        return;
    l->token = (ec_sql_token){.kind = kind, .text = begin, .len_bytes = (size_t)(l->at - begin)};
}

int ec_sql_token_is(const ec_sql_token *t, const char *text) {
    if (strlen(text) != t->len_bytes)
        return 0;
    for (size_t i = 0; i < t->len_bytes; i++)
        if (ea_ascii_lower(t->text[i]) != ea_ascii_lower(text[i]))
            return 0;
    return 1;
}

void ec_sql_token_value(const ec_sql_token *t, char *to) {
    size_t n = 0;
    if (t->kind == EC_TOKEN_WORD) {
        memcpy(to, t->text, t->len_bytes);
        to[t->len_bytes] = 0;
        return;
    }
    char close = *t->text == '[' ? ']' : *t->text;
    for (size_t i = 1; i + 1 < t->len_bytes; i++) {
        to[n++] = t->text[i];
        i += t->text[i] == close && close != ']';
    }
    to[n] = 0;
}
