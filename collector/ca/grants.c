/* Enrolment tokens. See grants.h. */
#include "grants.h"

#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 8, FILE_MAX_BYTES = 4 << 20 };
static const int64_t SECOND_NS = 1000000000;
static const char PREFIX[] = "ece_";

static void path_of(const char *dir, const char *ending, char out[1040]) {
    snprintf(out, 1040, "%.1000s/enroll-tokens%s", dir, ending);
}

static int parse_number(const char *s, uint64_t max, uint64_t *ret) {
    return ea_u64_parse(s, ret) == 0 && *ret <= max;
}

/* One line without its end. */
static int parse_line(char *line, ec_grant *ret) {
    char *fields[FIELDS];
    uint64_t created, expires, life;
    size_t n = 0;
    if (!ec_fields_split(line, fields, FIELDS))
        return 0;
    *ret = (ec_grant){.has_key = strcmp(fields[7], "-") != 0};
    if (!ec_secret_parse(fields[0], fields[1], &ret->secret) || !parse_number(fields[2], INT64_MAX, &created) ||
        !parse_number(fields[3], INT64_MAX, &expires) || !parse_number(fields[4], INT64_MAX, &life) ||
        !parse_number(fields[5], EC_GRANT_USES_MAX, &ret->uses_left) ||
        !ec_is_word(fields[6], "._-*,", sizeof ret->names, 0) ||
        (ret->has_key && (ea_hex_parse(fields[7], ret->key, sizeof ret->key, &n) || n != sizeof ret->key)))
        return 0;
    ret->created_s = (int64_t)created;
    ret->expires_s = (int64_t)expires;
    ret->life_s = (int64_t)life;
    memcpy(ret->names, fields[6], strlen(fields[6]) + 1);
    return 1;
}

int ec_grants_read(const char *dir, ec_grant **ret, size_t *ret_count, ea_err *err) {
    char path[1040], *text = NULL;
    size_t len_bytes = 0, count = 0;
    path_of(dir, "", path);
    if (!ea_path_exists(path)) {
        *ret = NULL;
        *ret_count = 0;
        return 0;
    }
    int rc = ea_path_check_private(path, err);
    if (!rc)
        rc = ea_path_read_all(path, FILE_MAX_BYTES, &text, &len_bytes, err);
    if (rc)
        return rc;
    ec_grant *grants = calloc(EC_GRANTS_MAX, sizeof *grants);
    if (!grants)
        rc = ea_fail(err, EA_ENOMEM, "read %s", path);
    for (char *line = text, *next; !rc && *line; line = next, count++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (!next || count == EC_GRANTS_MAX || !parse_line(line, &grants[count])) {
            rc = ea_fail(err, EA_ECORRUPT, "read %s: line %zu is damaged", path, count + 1);
            break;
        }
    }
    free(text);
    if (rc) {
        free(grants);
        return rc;
    }
    *ret = grants;
    *ret_count = count;
    return 0;
}

int ec_grants_write(const char *dir, const ec_grant *grants, size_t count, ea_err *err) {
    char path[1040];
    ea_text t;
    path_of(dir, "", path);
    ea_text_init(&t);
    for (size_t i = 0; i < count; i++) {
        const ec_grant *g = &grants[i];
        ea_text_printf(&t, "%s\t", g->secret.id);
        ea_text_hex(&t, g->secret.hash, sizeof g->secret.hash);
        ea_text_printf(&t, "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%s\t", g->created_s, g->expires_s,
                       g->life_s, g->uses_left, g->names);
        if (g->has_key)
            ea_text_hex(&t, g->key, sizeof g->key);
        else
            ea_text_char(&t, '-');
        ea_text_char(&t, '\n');
    }
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path)
                      : ea_path_write_all(path, t.data ? t.data : "", t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc;
}

int ec_grants_lock(const char *dir, ea_file **ret, ea_err *err) {
    char path[1040];
    path_of(dir, ".lock", path);
    return ec_lock_wait(ret, path, err);
}

static size_t without_expired(ec_grant *grants, size_t count) {
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (grants[i].expires_s > now_s)
            grants[kept++] = grants[i];
    return kept;
}

int ec_grants_add(const char *dir, ec_grant *grant, char ret_token[EC_SECRET_BYTES], ea_err *err) {
    ec_grant *grants = NULL, *bigger;
    size_t count = 0;
    ea_file *file = NULL;
    if (!ec_is_word(grant->names, "._-*,", sizeof grant->names, 0))
        return ea_fail(err, EA_EUSAGE, "--name: an agent's name, or names with * in them, separated by commas");
    int rc = ec_grants_lock(dir, &file, err);
    if (!rc)
        rc = ec_grants_read(dir, &grants, &count, err);
    if (!rc)
        count = without_expired(grants, count);
    if (!rc && count >= EC_GRANTS_MAX)
        rc = ea_fail(err, EA_ELIMIT, "there are %d enrolment tokens: revoke some", EC_GRANTS_MAX);
    if (!rc && !(bigger = realloc(grants, (count + 1) * sizeof *grants)))
        rc = ea_fail(err, EA_ENOMEM, "make a token");
    if (!rc) {
        grants = bigger;
        grant->created_s = ea_utc_ns() / SECOND_NS;
        rc = ec_secret_make(PREFIX, &grant->secret, ret_token, err);
    }
    if (!rc) {
        grants[count++] = *grant;
        rc = ec_grants_write(dir, grants, count, err);
    }
    free(grants);
    ea_file_close(file);
    return rc;
}

int ec_grants_revoke(const char *dir, const char *id, ea_err *err) {
    ec_grant *grants = NULL;
    size_t count = 0, kept = 0;
    ea_file *file = NULL;
    int rc = ec_grants_lock(dir, &file, err);
    if (!rc)
        rc = ec_grants_read(dir, &grants, &count, err);
    for (size_t i = 0; !rc && i < count; i++)
        if (strcmp(grants[i].secret.id, id) != 0)
            grants[kept++] = grants[i];
    if (!rc && kept == count)
        rc = ea_fail(err, EA_ENOTFOUND, "revoke '%s': there is no such enrolment token", id);
    if (!rc)
        rc = ec_grants_write(dir, grants, kept, err);
    free(grants);
    ea_file_close(file);
    return rc;
}

ec_grant *ec_grants_find(ec_grant *grants, size_t count, const char *text) {
    static const ec_grant NOBODY = {.uses_left = 0};
    const ec_grant *compared = &NOBODY;
    ec_grant *found = NULL;
    ec_secret given;
    if (!ec_secret_of(PREFIX, text, &given))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(grants[i].secret.id, given.id) == 0) /* the id is no secret */
            compared = found = &grants[i];
    return ec_secret_equal(&given, &compared->secret) ? found : NULL;
}

const char *ec_grant_fixed_name(const ec_grant *g) {
    return strpbrk(g->names, "*,") ? NULL : g->names;
}
