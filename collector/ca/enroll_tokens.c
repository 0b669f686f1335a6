/* Enrolment tokens. See enroll_tokens.h. */
#include "collector/ca/enroll_tokens.h"

#include <inttypes.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

static int parse_number(const char *s, uint64_t max, uint64_t *ret) {
    return ea_u64_parse(s, ret) == 0 && *ret <= max;
}

enum { CREATED, EXPIRES, LIFE, USES, NAMES, KEY, OWN_FIELDS };

static int parse_grant(char *const *fields, void *arg) {
    ec_grant *ret = arg;
    uint64_t created, expires, life;
    size_t n = 0;
    ret->has_key = strcmp(fields[KEY], "-") != 0;
    if (!parse_number(fields[CREATED], INT64_MAX, &created) || !parse_number(fields[EXPIRES], INT64_MAX, &expires) ||
        !parse_number(fields[LIFE], INT64_MAX, &life) ||
        !parse_number(fields[USES], EC_GRANT_USES_MAX, &ret->uses_left) ||
        !ec_is_word(fields[NAMES], "._-*,", sizeof ret->names, 0) ||
        (ret->has_key && (ea_hex_parse(fields[KEY], ret->key, sizeof ret->key, &n) || n != sizeof ret->key)))
        return 0;
    ret->created_s = (int64_t)created;
    ret->expires_s = (int64_t)expires;
    ret->life_s = (int64_t)life;
    memcpy(ret->names, fields[NAMES], strlen(fields[NAMES]) + 1);
    return 1;
}

static void print_grant(const void *row, ea_text *t) {
    const ec_grant *g = row;
    ea_text_printf(t, "%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%s\t", g->created_s, g->expires_s, g->life_s,
                   g->uses_left, g->names);
    if (g->has_key)
        ea_text_hex(t, g->key, sizeof g->key);
    else
        ea_text_char(t, '-');
}

static const ec_secret_file GRANTS = {
    .name = "enroll-tokens",
    .prefix = "ece_",
    .what = "enrolment token",
    .row_bytes = sizeof(ec_grant),
    .rows_max = EC_GRANTS_MAX,
    .fields = 2 + OWN_FIELDS,
    .parse = parse_grant,
    .print = print_grant,
};

int ec_enroll_tokens_read(const char *dir, ec_grant **ret, size_t *ret_count, ea_err *err) {
    void *rows = NULL;
    int rc = ec_token_store_read(&GRANTS, dir, &rows, ret_count, err);
    if (!rc)
        *ret = rows;
    return rc;
}

int ec_enroll_tokens_write(const char *dir, const ec_grant *grants, size_t count, ea_err *err) {
    return ec_token_store_write(&GRANTS, dir, grants, count, err);
}

int ec_enroll_tokens_lock(const char *dir, ea_file **ret, ea_err *err) {
    return ec_token_store_lock(&GRANTS, dir, ret, err);
}

typedef struct adding {
    ec_grant *grant;
    char *ret_token;
} adding;

static int add(void *arg, void *rows, size_t *count, ea_err *err) {
    const adding *a = arg;
    ec_grant *grants = rows;
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (grants[i].expires_s > now_s)
            grants[kept++] = grants[i];
    *count = kept;
    a->grant->created_s = now_s;
    return ec_token_store_append(&GRANTS, rows, count, a->grant, a->ret_token, err);
}

int ec_enroll_tokens_add(const char *dir, ec_grant *grant, char ret_token[EC_SECRET_BYTES], ea_err *err) {
    adding a = {grant, ret_token};
    if (!ec_is_word(grant->names, "._-*,", sizeof grant->names, 0))
        return ea_fail(err, EA_EUSAGE, "--name: an agent's name, or names with * in them, separated by commas");
    return ec_token_store_change(&GRANTS, dir, add, &a, err);
}

int ec_enroll_tokens_revoke(const char *dir, const char *id, ea_err *err) {
    return ec_token_store_revoke(&GRANTS, dir, id, err);
}

ec_grant *ec_enroll_tokens_find(ec_grant *grants, size_t count, const char *text) {
    const ec_grant *found = ec_token_store_find(&GRANTS, grants, count, text);
    return found ? grants + (found - grants) : NULL;
}

const char *ec_grant_fixed_name(const ec_grant *g) {
    return strpbrk(g->names, "*,") ? NULL : g->names;
}
