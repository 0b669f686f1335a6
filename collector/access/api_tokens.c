/* Tokens. See api_tokens.h. */
#include "collector/access/api_tokens.h"

#include "proto/base/pattern.h"

#include <inttypes.h>
#include <string.h>

static const char *const SCOPES[] = {"metrics", "read", "respond", "operate", "admin"};

const char *ec_scope_name(enum ec_scope scope) {
    return SCOPES[scope - EC_SCOPE_METRICS];
}

/* ---- the file ---- */

enum { SCOPE, CREATED, NAME, HOSTS, EXPIRES, OWN_FIELDS };

static int api_tokens_parse_token(char *const *fields, void *arg) {
    ec_token *ret = arg;
    uint64_t created = 0, expires = 0;
    ret->scope = (enum ec_scope)0;
    for (size_t i = 0; i < sizeof SCOPES / sizeof *SCOPES; i++)
        if (strcmp(fields[SCOPE], SCOPES[i]) == 0)
            ret->scope = (enum ec_scope)(EC_SCOPE_METRICS + i);
    if (!ret->scope || !ec_is_word(fields[NAME], "._-", sizeof ret->name, 0) ||
        !ec_is_word(fields[HOSTS], "._-*,", sizeof ret->hosts, 1) || ea_u64_parse(fields[CREATED], &created) ||
        created > INT64_MAX || (*fields[EXPIRES] && ea_u64_parse(fields[EXPIRES], &expires)) || expires > INT64_MAX)
        return 0;
    ret->created_s = (int64_t)created;
    ret->expires_s = (int64_t)expires;
    snprintf(ret->name, sizeof ret->name, "%s", fields[NAME]);
    snprintf(ret->hosts, sizeof ret->hosts, "%s", fields[HOSTS]);
    return 1;
}

static void print_token(const void *row, ea_text *t) {
    const ec_token *k = row;
    ea_text_printf(t, "%s\t%" PRId64 "\t%s\t%s\t%" PRId64, ec_scope_name(k->scope), k->created_s, k->name, k->hosts,
                   k->expires_s);
}

static const ec_secret_file TOKENS = {
    .name = "tokens",
    .prefix = "ect_",
    .what = "token",
    .row_bytes = sizeof(ec_token),
    .rows_max = EC_TOKENS_MAX,
    .fields = 2 + OWN_FIELDS,
    .later_fields = 1,
    .name_at = offsetof(ec_token, name),
    .skips_damage = 1,
    .parse = api_tokens_parse_token,
    .print = print_token,
};

int ec_api_tokens_read(const char *dir, ec_token **ret, size_t *ret_count, ea_err *err) {
    void *rows = NULL;
    int rc = ec_token_store_read(&TOKENS, dir, &rows, ret_count, err);
    if (!rc)
        *ret = rows;
    return rc;
}

typedef struct adding {
    ec_token made;
    char *ret_token;
} adding;

static int api_tokens_add(void *arg, void *rows, size_t *count, ea_err *err) {
    adding *a = arg;
    ec_token *tokens = rows;
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        int is_same = strcmp(tokens[i].name, a->made.name) == 0;
        if (is_same && !ec_token_is_expired(&tokens[i], a->made.created_s))
            return ea_fail(err, EA_EUSAGE, "--name: there is a token '%s' already", a->made.name);
        if (!is_same)
            tokens[kept++] = tokens[i];
    }
    *count = kept;
    return ec_token_store_append(&TOKENS, rows, count, &a->made, a->ret_token, err);
}

int ec_api_tokens_add(const char *dir, const char *name, enum ec_scope scope, const char *hosts, int64_t life_s,
                      char ret_token[EC_SECRET_BYTES], ea_err *err) {
    adding a = {.made = {.scope = scope, .created_s = ea_utc_ns() / INT64_C(1000000000)}, .ret_token = ret_token};
    if (!ec_is_word(name, "._-", sizeof a.made.name, 0))
        return ea_fail(err, EA_EUSAGE, "--name: letters, digits and . _ - are allowed, at most 63");
    if (!ec_is_word(hosts, "._-*,", sizeof a.made.hosts, 1) ||
        (*hosts && (scope < EC_SCOPE_READ || scope > EC_SCOPE_OPERATE)))
        return ea_fail(err, EA_EUSAGE, "--hosts: names with * in them, separated by commas, of a token that reads");
    if (life_s < 0 || life_s > INT64_MAX - a.made.created_s)
        return ea_fail(err, EA_EUSAGE, "--expires: too long");
    a.made.expires_s = life_s ? a.made.created_s + life_s : 0;
    snprintf(a.made.name, sizeof a.made.name, "%s", name);
    snprintf(a.made.hosts, sizeof a.made.hosts, "%s", hosts);
    return ec_token_store_change(&TOKENS, dir, api_tokens_add, &a, err);
}

int ec_api_tokens_revoke(const char *dir, const char *which, ea_err *err) {
    return ec_token_store_revoke(&TOKENS, dir, which, err);
}

/* ---- what a token is good for ---- */

const ec_token *ec_api_tokens_find(const ec_token *tokens, size_t count, const char *text) {
    return ec_token_store_find(&TOKENS, tokens, count, text);
}

int ec_token_is_expired(const ec_token *token, int64_t utc_s) {
    return token->expires_s && utc_s >= token->expires_s;
}

int ec_token_sees(const ec_token *token, const char *host) {
    if (token->scope < EC_SCOPE_READ)
        return 0;
    return !*token->hosts || (host && ea_name_in(token->hosts, host));
}
