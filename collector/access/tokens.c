/* Tokens. See tokens.h. */
#include "tokens.h"

#include "pattern.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 6, FILE_MAX_BYTES = 1 << 20 };
static const char PREFIX[] = "ect_";

static const char *const SCOPES[] = {"metrics", "read", "admin"};

const char *ec_scope_name(enum ec_scope scope) {
    return SCOPES[scope - EC_SCOPE_METRICS];
}

/* ---- the file ---- */

static int read_line(char *line, ec_token *ret) {
    char *fields[FIELDS];
    uint64_t created = 0;
    if (!ec_fields_split(line, fields, FIELDS))
        return 0;
    *ret = (ec_token){.scope = 0};
    for (int i = 0; i < 3; i++)
        if (strcmp(fields[2], SCOPES[i]) == 0)
            ret->scope = (enum ec_scope)(EC_SCOPE_METRICS + i);
    if (!ret->scope || !ec_secret_parse(fields[0], fields[1], &ret->secret) ||
        !ec_is_word(fields[4], "._-", sizeof ret->name, 0) || !ec_is_word(fields[5], "._-*,", sizeof ret->hosts, 1) ||
        ea_u64_parse(fields[3], &created) || created > INT64_MAX)
        return 0;
    ret->created_s = (int64_t)created;
    snprintf(ret->name, sizeof ret->name, "%s", fields[4]);
    snprintf(ret->hosts, sizeof ret->hosts, "%s", fields[5]);
    return 1;
}

static void path_of(const char *dir, char out[1024]) {
    snprintf(out, 1024, "%s/tokens", dir);
}

int ec_tokens_read(const char *dir, ec_token **ret, size_t *ret_count, ea_err *err) {
    char path[1024], *text = NULL;
    size_t len_bytes = 0, count = 0;
    ec_token *tokens = NULL;
    path_of(dir, path);
    if (ea_path_exists(path)) {
        int rc = ea_path_check_private(path, err);
        if (!rc)
            rc = ea_path_read_all(path, FILE_MAX_BYTES, &text, &len_bytes, err);
        if (rc)
            return rc;
    }
    if (len_bytes && !(tokens = calloc(EC_TOKENS_MAX, sizeof *tokens))) {
        free(text);
        return ea_fail(err, EA_ENOMEM, "read %s", path);
    }
    for (char *line = text, *next; tokens && line && *line && count < EC_TOKENS_MAX; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        count += (size_t)read_line(line, &tokens[count]);
    }
    free(text);
    *ret = tokens;
    *ret_count = count;
    return 0;
}

static int write_tokens(const char *dir, const ec_token *tokens, size_t count, ea_err *err) {
    char path[1024];
    ea_text t;
    path_of(dir, path);
    ea_text_init(&t);
    for (size_t i = 0; i < count; i++) {
        ea_text_printf(&t, "%s\t", tokens[i].secret.id);
        ea_text_hex(&t, tokens[i].secret.hash, sizeof tokens[i].secret.hash);
        ea_text_printf(&t, "\t%s\t%" PRId64 "\t%s\t%s\n", ec_scope_name(tokens[i].scope), tokens[i].created_s,
                       tokens[i].name, tokens[i].hosts);
    }
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path)
                      : ea_path_write_all(path, t.data ? t.data : "", t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc;
}

/* Two who change the file at a time do it one after the other. */
static int lock(const char *dir, ea_file **ret, ea_err *err) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tokens.lock", dir);
    return ec_lock_wait(ret, path, err);
}

int ec_tokens_add(const char *dir, const char *name, enum ec_scope scope, const char *hosts,
                  char ret_token[EC_SECRET_BYTES], ea_err *err) {
    ec_token *tokens = NULL, *bigger, made = {.scope = scope, .created_s = ea_utc_ns() / INT64_C(1000000000)};
    size_t count = 0;
    ea_file *file = NULL;
    if (!ec_is_word(name, "._-", sizeof made.name, 0))
        return ea_fail(err, EA_EUSAGE, "--name: letters, digits and . _ - are allowed, at most 63");
    if (!ec_is_word(hosts, "._-*,", sizeof made.hosts, 1) || (*hosts && scope != EC_SCOPE_READ))
        return ea_fail(err, EA_EUSAGE, "--hosts: names with * in them, separated by commas, of a token that reads");
    int rc = lock(dir, &file, err);
    if (!rc)
        rc = ec_tokens_read(dir, &tokens, &count, err);
    for (size_t i = 0; !rc && i < count; i++)
        if (strcmp(tokens[i].name, name) == 0)
            rc = ea_fail(err, EA_EUSAGE, "--name: there is a token '%s' already", name);
    if (!rc && count >= EC_TOKENS_MAX)
        rc = ea_fail(err, EA_ELIMIT, "there are %d tokens: revoke some", EC_TOKENS_MAX);
    if (!rc)
        rc = ec_secret_make(PREFIX, &made.secret, ret_token, err);
    if (!rc) {
        snprintf(made.name, sizeof made.name, "%s", name);
        snprintf(made.hosts, sizeof made.hosts, "%s", hosts);
        bigger = realloc(tokens, (count + 1) * sizeof *bigger);
        if (!bigger)
            rc = ea_fail(err, EA_ENOMEM, "make a token");
        tokens = bigger ? bigger : tokens;
        if (!rc)
            tokens[count++] = made;
    }
    if (!rc)
        rc = write_tokens(dir, tokens, count, err);
    free(tokens);
    ea_file_close(file);
    return rc;
}

int ec_tokens_revoke(const char *dir, const char *which, ea_err *err) {
    ec_token *tokens = NULL;
    size_t count = 0, kept = 0;
    ea_file *file = NULL;
    int rc = lock(dir, &file, err);
    if (!rc)
        rc = ec_tokens_read(dir, &tokens, &count, err);
    for (size_t i = 0; !rc && i < count; i++)
        if (strcmp(tokens[i].secret.id, which) != 0 && strcmp(tokens[i].name, which) != 0)
            tokens[kept++] = tokens[i];
    if (!rc && kept == count)
        rc = ea_fail(err, EA_ENOTFOUND, "revoke '%s': there is no such token", which);
    if (!rc)
        rc = write_tokens(dir, tokens, kept, err);
    free(tokens);
    ea_file_close(file);
    return rc;
}

/* ---- what a token is good for ---- */

const ec_token *ec_tokens_find(const ec_token *tokens, size_t count, const char *text) {
    static const ec_token NOBODY = {.scope = 0};
    const ec_token *found = &NOBODY;
    ec_secret given;
    if (!ec_secret_of(PREFIX, text, &given))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(tokens[i].secret.id, given.id) == 0) /* the id is no secret */
            found = &tokens[i];
    return ec_secret_equal(&given, &found->secret) && found != &NOBODY ? found : NULL;
}

int ec_token_sees(const ec_token *token, const char *host) {
    if (token->scope < EC_SCOPE_READ)
        return 0;
    return !*token->hosts || (host && ea_name_in(token->hosts, host));
}
