/* Enrolment tokens. See enroll_tokens.h. */
#include "collector/ca/enroll_tokens.h"

#include <inttypes.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

static int parse_number(const char *s, uint64_t max, uint64_t *ret) {
    return ea_u64_parse(s, ret) == 0 && *ret <= max;
}

enum { CREATED, EXPIRES, LIFE, USES, NAMES, KEY, OWN_FIELDS };

static int parse_enroll_token(char *const *fields, void *arg) {
    ec_enroll_token *ret = arg;
    uint64_t created, expires, life;
    size_t n = 0;
    ret->has_key = strcmp(fields[KEY], "-") != 0;
    if (!parse_number(fields[CREATED], INT64_MAX, &created) || !parse_number(fields[EXPIRES], INT64_MAX, &expires) ||
        !parse_number(fields[LIFE], INT64_MAX, &life) ||
        !parse_number(fields[USES], EC_ENROLL_TOKEN_USES_MAX, &ret->uses_left) ||
        !ec_is_word(fields[NAMES], "._-*,", sizeof ret->names, 0) ||
        (ret->has_key && (ea_hex_parse(fields[KEY], ret->key, sizeof ret->key, &n) || n != sizeof ret->key)))
        return 0;
    ret->created_s = (int64_t)created;
    ret->expires_s = (int64_t)expires;
    ret->life_s = (int64_t)life;
    memcpy(ret->names, fields[NAMES], strlen(fields[NAMES]) + 1);
    return 1;
}

static void print_enroll_token(const void *row, ea_text *t) {
    const ec_enroll_token *g = row;
    ea_text_printf(t, "%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%s\t", g->created_s, g->expires_s, g->life_s,
                   g->uses_left, g->names);
    if (g->has_key)
        ea_text_hex(t, g->key, sizeof g->key);
    else
        ea_text_char(t, '-');
}

static const ec_secret_file ENROLL_TOKENS = {
    .name = "enroll-tokens",
    .prefix = "ece_",
    .what = "enrolment token",
    .row_bytes = sizeof(ec_enroll_token),
    .rows_max = EC_ENROLL_TOKENS_MAX,
    .fields = 2 + OWN_FIELDS,
    .parse = parse_enroll_token,
    .print = print_enroll_token,
};

int ec_enroll_tokens_read(const char *dir, ec_enroll_token **ret, size_t *ret_count, ea_err *err) {
    void *rows = NULL;
    int rc = ec_token_store_read(&ENROLL_TOKENS, dir, &rows, ret_count, err);
    if (!rc)
        *ret = rows;
    return rc;
}

int ec_enroll_tokens_write(const char *dir, const ec_enroll_token *tokens, size_t count, ea_err *err) {
    return ec_token_store_write(&ENROLL_TOKENS, dir, tokens, count, err);
}

int ec_enroll_tokens_lock(const char *dir, ea_file **ret, ea_err *err) {
    return ec_token_store_lock(&ENROLL_TOKENS, dir, ret, err);
}

typedef struct adding {
    ec_enroll_token *token;
    char *ret_token;
} adding;

static int enroll_tokens_add(void *arg, void *rows, size_t *count, ea_err *err) {
    const adding *a = arg;
    ec_enroll_token *tokens = rows;
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (tokens[i].expires_s > now_s)
            tokens[kept++] = tokens[i];
    *count = kept;
    a->token->created_s = now_s;
    return ec_token_store_append(&ENROLL_TOKENS, rows, count, a->token, a->ret_token, err);
}

int ec_enroll_tokens_add(const char *dir, ec_enroll_token *token, char ret_token[EC_SECRET_BYTES], ea_err *err) {
    adding a = {token, ret_token};
    if (!ec_is_word(token->names, "._-*,", sizeof token->names, 0))
        return ea_fail(err, EA_EUSAGE, "--name: an agent's name, or names with * in them, separated by commas");
    return ec_token_store_change(&ENROLL_TOKENS, dir, enroll_tokens_add, &a, err);
}

int ec_enroll_tokens_revoke(const char *dir, const char *id, ea_err *err) {
    return ec_token_store_revoke(&ENROLL_TOKENS, dir, id, err);
}

ec_enroll_token *ec_enroll_tokens_find(ec_enroll_token *tokens, size_t count, const char *text) {
    const ec_enroll_token *found = ec_token_store_find(&ENROLL_TOKENS, tokens, count, text);
    return found ? tokens + (found - tokens) : NULL;
}

const char *ec_enroll_token_fixed_name(const ec_enroll_token *g) {
    return strpbrk(g->names, "*,") ? NULL : g->names;
}
