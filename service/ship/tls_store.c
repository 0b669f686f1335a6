/* TLS out of certificate stores. See tls_store.h. */
#include "service/ship/tls_store.h"
#include "service/host/host.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

static int check_place(const char *text, int one, ea_err *err) {
    ea_store_place place;
    if (!ea_host_has_stores())
        return ea_fail(err, EA_EINVAL, "'%.128s': only Windows has certificate stores", text);
    return ea_store_place_read(&place, text, one, err);
}

int ea_tls_store_check(const char *cert, const char *key, const char *ca, const char **ret_key, ea_err *err) {
    int is_place = ea_store_is_place(cert), rc = 0;
    *ret_key = "cert";
    if (is_place)
        rc = check_place(cert, 1, err);
    if (rc)
        return rc;
    *ret_key = "key";
    if (is_place != (strcmp(key, EA_KEY_OF_STORE) == 0))
        return is_place ? ea_fail(err, EA_EINVAL,
                                  "'%.128s': expected " EA_KEY_OF_STORE ", as the certificate is in one", key)
                        : ea_fail(err, EA_EINVAL, "expected a file, as the certificate is in one");
    *ret_key = "ca";
    return ea_store_is_place(ca) ? check_place(ca, 0, err) : 0;
}

static int open_at(ea_identity **ret, const char *text, ea_err *err) {
    ea_store_place place;
    int rc = ea_store_place_read(&place, text, 1, err);
    return rc ? rc : ea_identity_open(ret, &place, err);
}

int ea_tls_store_certificate(const char *place, uint8_t **ret, size_t *ret_bytes, ea_err *err) {
    ea_identity *id;
    size_t n = 0;
    int rc = open_at(&id, place, err);
    if (rc)
        return rc;
    const uint8_t *der = ea_identity_certificate(id, 0, &n);
    uint8_t *copy = der ? malloc(n) : NULL;
    if (copy)
        memcpy(copy, der, n);
    ea_identity_close(id);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "read a certificate");
    *ret = copy;
    *ret_bytes = n;
    return 0;
}

/* Its certificates into the context; *ret_leaf borrowed from there. */
static int use_certificates(SSL_CTX *context, const ea_identity *id, X509 **ret_leaf, ea_err *err) {
    const uint8_t *der;
    size_t n;
    for (size_t i = 0; (der = ea_identity_certificate(id, i, &n)); i++) {
        X509 *x = d2i_X509(NULL, &der, (long)n);
        int good = x && (i ? SSL_CTX_add1_chain_cert(context, x) : SSL_CTX_use_certificate(context, x)) == 1;
        X509_free(x);
        if (!good)
            return ea_fail(err, EA_ETLS, "a certificate of the store cannot be used");
    }
    *ret_leaf = SSL_CTX_get0_certificate(context);
    return 0;
}

static int use_identity(SSL_CTX *context, ea_tls_keys *keys, const char *text, ea_err *err) {
    ea_identity *id;
    X509 *leaf = NULL;
    EVP_PKEY *key;
    int rc = open_at(&id, text, err);
    if (rc)
        return rc;
    rc = use_certificates(context, id, &leaf, err);
    if (rc || !leaf) {
        ea_identity_close(id);
        return rc ? rc : ea_fail(err, EA_ETLS, "a certificate of the store cannot be used");
    }
    ea_signer signer = {.arg = id, .sign = ea_identity_sign, .release = ea_identity_close};
    rc = ea_tls_key_create(&key, keys, X509_get0_pubkey(leaf), &signer, err);
    if (rc)
        return rc;
    int good = SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key); /* the context has it */
    return good ? 0 : ea_fail(err, EA_ETLS, "the key of a certificate of the store cannot be used");
}

typedef struct roots {
    X509_STORE *store;
    size_t count;
} roots;

/* What cannot be read is no root: a store of a machine may hold anything. */
static int add_root(void *arg, const uint8_t *der, size_t len_bytes) {
    roots *r = arg;
    X509 *x = d2i_X509(NULL, &der, (long)len_bytes);
    r->count += x && X509_STORE_add_cert(r->store, x) == 1;
    X509_free(x);
    return 0;
}

static int use_roots(SSL_CTX *context, const char *text, ea_err *err) {
    ea_store_place place;
    roots r = {.store = SSL_CTX_get_cert_store(context)};
    int rc = ea_store_place_read(&place, text, 0, err);
    if (!rc)
        rc = ea_store_each(&place, add_root, &r, err);
    if (!rc && !r.count)
        rc = ea_fail(err, EA_ENOTFOUND, "the certificate store %s is empty", place.store);
    return rc;
}

int ea_tls_store_apply(SSL_CTX *context, ea_tls_keys *keys, const char *cert, const char *ca, ea_err *err) {
    int rc = ea_store_is_place(cert) ? use_identity(context, keys, cert, err) : 0;
    if (!rc && ea_store_is_place(ca))
        rc = use_roots(context, ca, err);
    ERR_clear_error();
    return rc;
}
