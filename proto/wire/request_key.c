/* See request_key.h. */
#include "proto/wire/request_key.h"

#include "proto/base/crypto_error.h"
#include "proto/base/platform.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FILE_MAX = 64 << 10, KEY_BYTES = 32 };

struct ea_request_key {
    EVP_PKEY *key;
    uint8_t name[EA_REQUEST_KEY_BYTES];
};

int ea_request_key_read(ea_request_key **ret, const char *path, ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0, raw_bytes = KEY_BYTES;
    uint8_t raw[KEY_BYTES], digest[EVP_MAX_MD_SIZE];
    int rc = ea_path_read_all(path, KEY_FILE_MAX, &pem, &len_bytes, err);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    free(pem);
    if (!key || !EVP_PKEY_is_a(key, "ED25519") || EVP_PKEY_get_raw_public_key(key, raw, &raw_bytes) != 1 ||
        raw_bytes != sizeof raw) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return ea_fail(err, EA_EINVAL, "%s: expected a public Ed25519 key in PEM", path);
    }
    ea_request_key *k = calloc(1, sizeof *k);
    if (!k || EVP_Digest(raw, sizeof raw, digest, NULL, EVP_sha256(), NULL) != 1) {
        EVP_PKEY_free(key);
        free(k);
        return ea_fail_crypto(err, "read the key of requests");
    }
    k->key = key;
    memcpy(k->name, digest, sizeof k->name);
    *ret = k;
    return 0;
}

void ea_request_key_destroy(ea_request_key *k) {
    if (k)
        EVP_PKEY_free(k->key);
    free(k);
}

enum ea_request_signer ea_request_key_check(const ea_request_key *k, const ea_signed_request *s) {
    ea_text text;
    if (memcmp(s->key, k->name, sizeof k->name) != 0)
        return EA_REQUEST_FOREIGN;
    ea_text_init(&text);
    ea_request_put_signed(s->request, s->request_bytes, &text);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int good = context && !text.failed && EVP_DigestVerifyInit(context, NULL, NULL, NULL, k->key) == 1 &&
               EVP_DigestVerify(context, s->signature, EA_REQUEST_SIGNATURE_BYTES, (const uint8_t *)text.data,
                                text.len_bytes) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    ea_text_deinit(&text);
    return good ? EA_REQUEST_SIGNED : EA_REQUEST_CHANGED;
}
