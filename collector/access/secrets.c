/* Tokens' texts and hashes. See secrets.h. */
#include "secrets.h"

#include "text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

enum { RANDOM_BYTES = 32, ID_BYTES = 4, LOCK_TRIES = 100 };
static const int64_t LOCK_PAUSE_NS = 20 * INT64_C(1000000);

int ec_fields_split(char *line, char **ret_fields, size_t count) {
    char *at = line;
    for (size_t i = 0; i < count; i++) {
        ret_fields[i] = at;
        if (!at)
            return 0;
        at = strchr(at, '\t');
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

static int hash_of(const char *secret, size_t len_bytes, uint8_t out[EC_SECRET_HASH_BYTES]) {
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
    if (t.failed || !hash_of(t.data + 2 * ID_BYTES, 2 * RANDOM_BYTES, made.hash)) {
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

int ec_secret_of(const char *prefix, const char *text, ec_secret *ret) {
    static const size_t HEAD = EC_SECRET_PREFIX_BYTES;
    if (strlen(text) != EC_SECRET_BYTES - 1 || memcmp(text, prefix, HEAD) != 0 || text[HEAD + 2 * ID_BYTES] != '_')
        return 0;
    snprintf(ret->id, sizeof ret->id, "%.*s", 2 * ID_BYTES, text + HEAD);
    const char *secret = text + HEAD + 2 * ID_BYTES + 1;
    return hash_of(secret, strlen(secret), ret->hash);
}

int ec_secret_parse(const char *id, const char *hash, ec_secret *ret) {
    size_t n = 0;
    if (strlen(id) != 2 * ID_BYTES || !ec_is_word(id, "", sizeof ret->id, 0) ||
        ea_hex_parse(hash, ret->hash, sizeof ret->hash, &n) || n != sizeof ret->hash)
        return 0;
    memcpy(ret->id, id, sizeof ret->id);
    return 1;
}

int ec_secret_equal(const ec_secret *a, const ec_secret *b) {
    return CRYPTO_memcmp(a->hash, b->hash, sizeof a->hash) == 0;
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
