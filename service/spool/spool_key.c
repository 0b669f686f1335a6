/* The spool's key file and the sealing of records. See spool_key.h. */
#include "service/spool/spool_key.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_SEED 0x7379656bu
static const char FIRST_WORDS[] = "etwagent spool keys ", FIRST_LINE[] = "etwagent spool keys 1\n";
static const char ID_LABEL[] = "etwagent spool key id";

enum { HASH_BYTES = 32, LABEL_MAX = 64, CONTEXT_MAX = 128, NONCE_BYTES = 12 };

static int mac(const uint8_t *key, const void *data, size_t len_bytes, uint8_t *out, ea_err *err) {
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), key, EA_SPOOL_KEY_BYTES, data, len_bytes, out, &n) || n != HASH_BYTES)
        return ea_fail(err, EA_ECRYPTO, "derive a key of the spool");
    return 0;
}

static int add_key(ea_spool_keys *k, const uint8_t *key, ea_err *err) {
    uint8_t id[HASH_BYTES];
    int rc = mac(key, ID_LABEL, sizeof ID_LABEL - 1, id, err);
    if (rc)
        return rc;
    memcpy(k->keys[k->count], key, EA_SPOOL_KEY_BYTES);
    memcpy(k->ids[k->count++], id, EA_SPOOL_KEY_ID_BYTES);
    return 0;
}

/* The first line is ours but for the number. */
static int is_of_another_version(const char *text, unsigned long *ret) {
    char *end;
    if (strncmp(text, FIRST_WORDS, sizeof FIRST_WORDS - 1) != 0)
        return 0;
    const char *digits = text + sizeof FIRST_WORDS - 1;
    *ret = strtoul(digits, &end, 10);
    return end != digits && *end == '\n' && *ret > 1;
}

int ea_spool_keys_parse(ea_spool_keys *k, const char *text, const char *path, ea_err *err) {
    enum { LINE = 2 * EA_SPOOL_KEY_BYTES };

    const char *at = text;
    uint8_t key[EA_SPOOL_KEY_BYTES] = {0}, said[8];
    char hex[LINE + 1] = {0};
    size_t n;
    unsigned long version;
    int good = strncmp(at, FIRST_LINE, sizeof FIRST_LINE - 1) == 0, rc = 0;
    if (good)
        at += sizeof FIRST_LINE - 1;
    while (good && !rc && strncmp(at, "end ", 4) != 0) {
        good = strlen(at) > LINE && at[LINE] == '\n' && k->count < EA_SPOOL_KEYS_MAX;
        if (!good)
            break;
        memcpy(hex, at, LINE);
        good = !ea_hex_parse(hex, key, sizeof key, &n) && n == sizeof key;
        if (good)
            rc = add_key(k, key, err);
        at += LINE + 1;
    }
    if (good && !rc) {
        uint64_t is = ea_hash64(text, (size_t)(at - text), KEYS_SEED), sum = 0;
        good = k->count && strlen(at) == 4 + 16 + 1 && at[20] == '\n';
        if (good) {
            memcpy(hex, at + 4, 16);
            hex[16] = 0;
            good = !ea_hex_parse(hex, said, sizeof said, &n) && n == sizeof said;
            for (size_t i = 0; i < sizeof said; i++)
                sum = sum << 8 | said[i];
            good = good && sum == is;
        }
    }
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(hex, sizeof hex);
    if (!rc && !good && is_of_another_version(text, &version))
        return ea_fail(err, EA_EUNSUPPORTED,
                       "read the spool's keys in %s: another format (version %lu, this program reads 1)", path,
                       version);
    if (!rc && !good)
        rc = ea_fail(err, EA_ECORRUPT,
                     "read the spool's keys in %s: the file is damaged; put back a copy, or move it away: then a new "
                     "key is made, and what waits under the old ones stays locked",
                     path);
    return rc;
}

static int write_keys(const ea_spool_keys *k, const char *path, ea_err *err) {
    ea_text text;
    uint8_t *data = NULL;
    size_t len_bytes = 0;
    ea_text_init(&text);
    ea_text_str(&text, FIRST_LINE);
    for (size_t i = 0; i < k->count; i++) {
        ea_text_hex(&text, k->keys[i], sizeof k->keys[i]);
        ea_text_char(&text, '\n');
    }
    if (!text.failed)
        ea_text_printf(&text, "end %016llx\n", (unsigned long long)ea_hash64(text.data, text.len_bytes, KEYS_SEED));
    int rc = text.failed ? ea_fail(err, EA_ENOMEM, "write the spool's keys to %s", path)
                         : ea_protect(text.data, text.len_bytes, &data, &len_bytes, err);
    if (!rc) {
        rc = ea_path_write_all(path, data, len_bytes, 1, err);
        OPENSSL_cleanse(data, len_bytes);
        free(data);
    }
    if (text.data)
        OPENSSL_cleanse(text.data, text.len_bytes);
    ea_text_deinit(&text);
    return rc;
}

static int add_random(ea_spool_keys *k, ea_err *err) {
    uint8_t key[EA_SPOOL_KEY_BYTES];
    int rc = ea_random_bytes(key, sizeof key, err);
    if (!rc)
        rc = add_key(k, key, err);
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

static int read_keys(ea_spool_keys *k, const char *path, ea_err *err) {
    char *raw = NULL, *text;
    uint8_t *plain = NULL;
    size_t raw_bytes = 0, len_bytes = 0;
    ea_err why;
    int is_old = 0, rc = ea_path_check_private(path, err);
    if (!rc)
        rc = ea_path_read_all(path, EA_SPOOL_KEY_FILE_MAX, &raw, &raw_bytes, err);
    if (rc)
        return rc;
    rc = ea_unprotect(raw, raw_bytes, &plain, &len_bytes, &is_old, &why);
    OPENSSL_cleanse(raw, raw_bytes);
    free(raw);
    if (rc == EA_ECRYPTO)
        return ea_fail_os(err, rc, why.os_error, "read the spool's keys in %s: this machine did not make the file",
                          path);
    if (rc)
        return ea_fail(err, rc, "read the spool's keys in %s: %s", path, why.message);
    text = realloc(plain, len_bytes + 1);
    if (!text) {
        OPENSSL_cleanse(plain, len_bytes);
        free(plain);
        return ea_fail(err, EA_ENOMEM, "read the spool's keys in %s", path);
    }
    text[len_bytes] = 0;
    rc = ea_spool_keys_parse(k, text, path, err);
    OPENSSL_cleanse(text, len_bytes);
    free(text);
    if (!rc && is_old && write_keys(k, path, &why))
        return 0; /* the old form can still be read, and is written anew the next time */
    return rc;
}

int ea_spool_keys_read(ea_spool_keys *ret, const char *path, int make, ea_err *err) {
    ea_spool_keys k = {0};
    int rc = read_keys(&k, path, err);
    if (rc == EA_ENOTFOUND && make) {
        rc = add_random(&k, err);
        if (!rc)
            rc = write_keys(&k, path, err);
    }
    if (!rc)
        *ret = k;
    ea_spool_keys_clear(&k);
    return rc;
}

int ea_spool_keys_rotate(const char *path, ea_err *err) {
    ea_spool_keys k = {0};
    int rc = read_keys(&k, path, err);
    if (!rc && k.count == EA_SPOOL_KEYS_MAX) {
        k.count--;
        memmove(k.keys[0], k.keys[1], sizeof k.keys - sizeof k.keys[0]);
        memmove(k.ids[0], k.ids[1], sizeof k.ids - sizeof k.ids[0]);
    }
    if (!rc)
        rc = add_random(&k, err);
    if (!rc)
        rc = write_keys(&k, path, err);
    ea_spool_keys_clear(&k);
    return rc;
}

void ea_spool_keys_clear(ea_spool_keys *k) {
    OPENSSL_cleanse(k, sizeof *k);
}

const uint8_t *ea_spool_keys_newest(const ea_spool_keys *k) {
    return k->ids[k->count - 1];
}

int ea_sealing_key_derive(ea_sealing_key *ret, const ea_spool_keys *k, const uint8_t *id, const char *label,
                          const void *context, size_t context_bytes, ea_err *err) {
    uint8_t message[LABEL_MAX + CONTEXT_MAX];
    size_t label_bytes = strlen(label);
    if (label_bytes > LABEL_MAX || context_bytes > CONTEXT_MAX)
        return ea_fail(err, EA_EINVAL, "derive a key of the spool");
    memcpy(message, label, label_bytes);
    memcpy(message + label_bytes, context, context_bytes);
    for (size_t i = 0; k && i < k->count; i++)
        if (memcmp(k->ids[i], id, EA_SPOOL_KEY_ID_BYTES) == 0)
            return mac(k->keys[i], message, label_bytes + context_bytes, ret->bytes, err);
    return ea_fail(err, EA_ENOTFOUND, "open what is sealed in the spool: its key %016llx is not in the key file",
                   (unsigned long long)ea_load64(id));
}

/* EVP's calls have this in common for both directions. */
static EVP_CIPHER_CTX *spool_key_begin(const ea_sealing_key *key, uint64_t number, const void *with, size_t with_bytes,
                                       int is_sealing) {
    uint8_t nonce[NONCE_BYTES] = {0};
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0;
    ea_store64(nonce, number);
    if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key->bytes, nonce, is_sealing) == 1 &&
        EVP_CipherUpdate(c, NULL, &n, with, (int)with_bytes) == 1)
        return c;
    EVP_CIPHER_CTX_free(c);
    return NULL;
}

int ea_seal(const ea_sealing_key *key, uint64_t nonce, const void *with, size_t with_bytes, const uint8_t *data,
            size_t len_bytes, uint8_t *out, ea_err *err) {
    int n = 0, rest = 0, good = 0;
    EVP_CIPHER_CTX *c =
        len_bytes <= INT_MAX && with_bytes <= INT_MAX ? spool_key_begin(key, nonce, with, with_bytes, 1) : NULL;
    if (c)
        good = EVP_EncryptUpdate(c, out, &n, data, (int)len_bytes) == 1 && (size_t)n == len_bytes &&
               EVP_EncryptFinal_ex(c, out + n, &rest) == 1 && rest == 0 &&
               EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, EA_SPOOL_TAG_BYTES, out + n) == 1;
    EVP_CIPHER_CTX_free(c);
    return good ? 0 : ea_fail(err, EA_ECRYPTO, "encrypt a record of the spool");
}

int ea_unseal(const ea_sealing_key *key, uint64_t nonce, const void *with, size_t with_bytes, const uint8_t *data,
              size_t len_bytes, uint8_t *out, ea_err *err) {
    uint8_t tag[EA_SPOOL_TAG_BYTES];
    int n = 0, rest = 0, good = 0;
    if (len_bytes < sizeof tag || len_bytes > INT_MAX || with_bytes > INT_MAX)
        return ea_fail(err, EA_ECORRUPT, "decrypt a record of the spool: it is too short or too long");
    size_t plain_bytes = len_bytes - sizeof tag;
    memcpy(tag, data + plain_bytes, sizeof tag);
    EVP_CIPHER_CTX *c = spool_key_begin(key, nonce, with, with_bytes, 0);
    if (!c)
        return ea_fail(err, EA_ECRYPTO, "decrypt a record of the spool");
    good = EVP_DecryptUpdate(c, out, &n, data, (int)plain_bytes) == 1 && (size_t)n == plain_bytes &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, sizeof tag, tag) == 1 &&
           EVP_DecryptFinal_ex(c, out + n, &rest) == 1 && rest == 0;
    EVP_CIPHER_CTX_free(c);
    if (!good)
        OPENSSL_cleanse(out, plain_bytes);
    return good ? 0 : ea_fail(err, EA_ECORRUPT, "decrypt a record of the spool: it was changed");
}
