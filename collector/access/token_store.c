/* Tokens' texts and hashes. See token_store.h. */
#include "collector/access/token_store.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_BYTES = 32, ID_BYTES = 4, LOCK_TRIES = 100, FIELDS_MAX = 8, FILE_MAX_BYTES = 4 << 20 };

static const int64_t LOCK_PAUSE_NS = 20 * INT64_C(1000000);

/* Splits a line at its tabs, in place: 1 when it has count fields, or up to later fewer: those are empty. */
static int token_store_split(char *line, char **ret_fields, size_t count, size_t later) {
    char *at = line, *end = line + strlen(line);
    for (size_t i = 0; i < count; i++) {
        ret_fields[i] = at ? at : end;
        if (!at && i + later < count)
            return 0;
        at = at ? strchr(at, '\t') : NULL;
        if (at)
            *at++ = 0;
    }
    return !at;
}

int ec_is_word(const char *s, const char *more, size_t room, int may_be_empty) {
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
              strchr(more, s[i])))
            return 0;
    return n < room && (n > 0 || may_be_empty);
}

static int token_store_hash_of(const char *secret, size_t len_bytes, uint8_t out[EC_SECRET_HASH_BYTES]) {
    unsigned int n = 0;
    return EVP_Digest(secret, len_bytes, out, &n, EVP_sha256(), NULL) == 1 && n == EC_SECRET_HASH_BYTES;
}

int ec_secret_make(const char *prefix, ec_secret *ret, char ret_text[EC_SECRET_BYTES], ea_err *err) {
    uint8_t random[ID_BYTES + RANDOM_BYTES];
    ec_secret made;
    ea_text t;
    int rc = ea_random_bytes(random, sizeof random, err);
    if (rc)
        return rc;
    ea_text_init(&t);
    ea_text_hex(&t, random, sizeof random);
    OPENSSL_cleanse(random, sizeof random);
    if (t.failed || !token_store_hash_of(t.data + 2 * ID_BYTES, 2 * RANDOM_BYTES, made.hash)) {
        rc = ea_fail(err, EA_ENOMEM, "make a token");
    } else {
        snprintf(made.id, sizeof made.id, "%.*s", 2 * ID_BYTES, t.data);
        snprintf(ret_text, EC_SECRET_BYTES, "%s%s_%s", prefix, made.id, t.data + (size_t)2 * ID_BYTES);
        *ret = made;
    }
    if (t.data)
        OPENSSL_cleanse(t.data, t.len_bytes);
    ea_text_deinit(&t);
    return rc;
}

/* The id and the hash of a text: 0 when it is no token of this prefix. */
static int secret_of(const char *prefix, const char *text, ec_secret *ret) {
    static const size_t HEAD = EC_SECRET_PREFIX_BYTES;
    if (strlen(text) != EC_SECRET_BYTES - 1 || memcmp(text, prefix, HEAD) != 0 || text[HEAD + 2 * ID_BYTES] != '_')
        return 0;
    snprintf(ret->id, sizeof ret->id, "%.*s", 2 * ID_BYTES, text + HEAD);
    const char *secret = text + HEAD + 2 * ID_BYTES + 1;
    return token_store_hash_of(secret, strlen(secret), ret->hash);
}

static int parse_secret(const char *id, const char *hash, ec_secret *ret) {
    size_t n = 0;
    if (strlen(id) != 2 * ID_BYTES || !ec_is_word(id, "", sizeof ret->id, 0) ||
        ea_hex_parse(hash, ret->hash, sizeof ret->hash, &n) || n != sizeof ret->hash)
        return 0;
    memcpy(ret->id, id, sizeof ret->id);
    return 1;
}

int ec_lock_wait(ea_file **ret, const char *path, ea_err *err) {
    ea_file *file;
    int rc = ea_file_open(&file, path, EA_OPEN_APPEND, err);
    if (rc)
        return rc;
    for (int i = 0; (rc = ea_file_try_lock(file, err)) == EA_EBUSY && i < LOCK_TRIES; i++)
        ea_sleep_ns(LOCK_PAUSE_NS);
    if (rc)
        ea_file_close(file);
    else
        *ret = file;
    return rc;
}

/* ---- files ---- */

static void token_store_path_of(const ec_secret_file *f, const char *dir, const char *ending, char out[1040]) {
    snprintf(out, 1040, "%.1000s/%s%s", dir, f->name, ending);
}

static int token_store_read_line(const ec_secret_file *f, char *line, void *ret) {
    char *fields[FIELDS_MAX];
    return f->fields > 2 && f->fields <= FIELDS_MAX && token_store_split(line, fields, f->fields, f->later_fields) &&
           parse_secret(fields[0], fields[1], ret) && f->parse(fields + 2, ret);
}

int ec_token_store_read(const ec_secret_file *f, const char *dir, void **ret, size_t *ret_count, ea_err *err) {
    char path[1040], *text = NULL;
    size_t len_bytes = 0, count = 0, number = 0;
    int rc = 0;
    token_store_path_of(f, dir, "", path);
    int64_t modified_ns;
    int found = ea_path_modified(path, &modified_ns, err); /* a folder that may not be read is not one without tokens */
    if (found == 0) {
        rc = ea_path_check_private(path, err);
        if (!rc)
            rc = ea_path_read_all(path, FILE_MAX_BYTES, &text, &len_bytes, err);
    } else if (found != EA_ENOTFOUND) {
        return found;
    }
    char *rows = rc ? NULL : calloc(f->rows_max, f->row_bytes);
    if (!rc && !rows)
        rc = ea_fail(err, EA_ENOMEM, "read %s", path);
    for (char *line = text, *next; !rc && line && *line; line = next) {
        next = strchr(line, '\n');
        int is_whole = next || f->skips_damage;
        if (next)
            *next++ = 0;
        else
            next = line + strlen(line);
        number++;
        if (is_whole && count < f->rows_max && token_store_read_line(f, line, rows + count * f->row_bytes))
            count++;
        else if (!f->skips_damage)
            rc = ea_fail(err, EA_ECORRUPT, "read %s: line %zu is damaged", path, number);
    }
    free(text);
    if (rc) {
        free(rows);
        return rc;
    }
    *ret = rows;
    *ret_count = count;
    return 0;
}

int ec_token_store_write(const ec_secret_file *f, const char *dir, const void *rows, size_t count, ea_err *err) {
    char path[1040];
    ea_text t;
    token_store_path_of(f, dir, "", path);
    ea_text_init(&t);
    for (size_t i = 0; i < count; i++) {
        const ec_secret *secret = (const void *)((const char *)rows + i * f->row_bytes);
        ea_text_printf(&t, "%s\t", secret->id);
        ea_text_hex(&t, secret->hash, sizeof secret->hash);
        ea_text_char(&t, '\t');
        f->print(secret, &t);
        ea_text_char(&t, '\n');
    }
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path)
                      : ea_path_write_all(path, t.data ? t.data : "", t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc;
}

int ec_token_store_lock(const ec_secret_file *f, const char *dir, ea_file **ret, ea_err *err) {
    char path[1040];
    token_store_path_of(f, dir, ".lock", path);
    return ec_lock_wait(ret, path, err);
}

int ec_token_store_change(const ec_secret_file *f, const char *dir,
                          int (*change)(void *arg, void *rows, size_t *count, ea_err *err), void *arg, ea_err *err) {
    void *rows = NULL;
    size_t count = 0;
    ea_file *file = NULL;
    int rc = ec_token_store_lock(f, dir, &file, err);
    if (!rc)
        rc = ec_token_store_read(f, dir, &rows, &count, err);
    if (!rc)
        rc = change(arg, rows, &count, err);
    if (!rc)
        rc = ec_token_store_write(f, dir, rows, count, err);
    free(rows);
    ea_file_close(file);
    return rc;
}

typedef struct revoking {
    const ec_secret_file *f;
    const char *which;
} revoking;

static int revoke(void *arg, void *rows, size_t *count, ea_err *err) {
    const revoking *r = arg;
    size_t kept = 0, row_bytes = r->f->row_bytes;
    for (size_t i = 0; i < *count; i++) {
        const char *row = (const char *)rows + i * row_bytes;
        if (strcmp(((const ec_secret *)(const void *)row)->id, r->which) != 0 &&
            (!r->f->name_at || strcmp(row + r->f->name_at, r->which) != 0))
            memmove((char *)rows + kept++ * row_bytes, row, row_bytes);
    }
    if (kept == *count)
        return ea_fail(err, EA_ENOTFOUND, "revoke '%s': there is no such %s", r->which, r->f->what);
    *count = kept;
    return 0;
}

int ec_token_store_revoke(const ec_secret_file *f, const char *dir, const char *which, ea_err *err) {
    revoking r = {f, which};
    return ec_token_store_change(f, dir, revoke, &r, err);
}

int ec_token_store_append(const ec_secret_file *f, void *rows, size_t *count, void *row, char ret_text[EC_SECRET_BYTES],
                          ea_err *err) {
    if (*count >= f->rows_max)
        return ea_fail(err, EA_ELIMIT, "there are %zu %ss: revoke some", f->rows_max, f->what);
    int rc = ec_secret_make(f->prefix, row, ret_text, err);
    if (!rc)
        memcpy((char *)rows + (*count)++ * f->row_bytes, row, f->row_bytes);
    return rc;
}

const void *ec_token_store_find(const ec_secret_file *f, const void *rows, size_t count, const char *text) {
    static const ec_secret NO_ROW = {.id = ""};
    const ec_secret *found = &NO_ROW;
    ec_secret given;
    if (!secret_of(f->prefix, text, &given))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const ec_secret *row = (const void *)((const char *)rows + i * f->row_bytes);
        if (strcmp(row->id, given.id) == 0) /* the id is no secret */
            found = row;
    }
    return CRYPTO_memcmp(given.hash, found->hash, sizeof given.hash) == 0 && found != &NO_ROW ? found : NULL;
}
