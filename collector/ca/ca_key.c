/* The CA's key: a file of the folder, or what a URI names, in a token or a TPM, by a provider of OpenSSL 3.
 *
 * DIR/ca.uri, readable by its owner only: the URI; on a second line the provider's name, empty for the default one; on
 * a third line the files and folders that the provider needs after the key is open, separated by colons. The last lines
 * may be missing. See ca_parts.h. */
#include "collector/ca/ca_parts.h"

#include "proto/base/crypto_error.h"
#include "proto/base/text.h"

#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/store.h>
#include <stdlib.h>
#include <string.h>

static int load_provider(const char *provider, ea_err *err) {
    /* a provider that is loaded by name keeps OpenSSL from loading its default one */
    if (!OSSL_PROVIDER_available(NULL, "default") && !OSSL_PROVIDER_load(NULL, "default"))
        return ea_fail_crypto(err, "load OpenSSL's default provider");
    if (provider && !OSSL_PROVIDER_available(NULL, provider) && !OSSL_PROVIDER_load(NULL, provider)) {
        char what[120];
        snprintf(what, sizeof what, "load OpenSSL's provider '%.64s'", provider);
        return ea_fail_crypto(err, what);
    }
    return 0;
}

int ec_ca_key_open(const char *uri, const char *provider, EVP_PKEY **ret, ea_err *err) {
    EVP_PKEY *key = NULL;
    int rc = load_provider(provider, err);
    if (rc)
        return rc;
    char prefer[80] = ""; /* without it OpenSSL's own reader takes a TPM's file for a public key */
    if (provider)
        snprintf(prefer, sizeof prefer, "?provider=%.64s", provider);
    OSSL_STORE_CTX *store = OSSL_STORE_open_ex(uri, NULL, provider ? prefer : NULL, NULL, NULL, NULL, NULL, NULL);
    if (store)
        (void)OSSL_STORE_expect(store, OSSL_STORE_INFO_PKEY);
    while (store && !key && !OSSL_STORE_eof(store)) {
        OSSL_STORE_INFO *info = OSSL_STORE_load(store);
        if (!info && OSSL_STORE_error(store))
            break;
        if (info && OSSL_STORE_INFO_get_type(info) == OSSL_STORE_INFO_PKEY)
            key = OSSL_STORE_INFO_get1_PKEY(info);
        OSSL_STORE_INFO_free(info);
    }
    OSSL_STORE_close(store);
    if (!key) /* the URI may hold a PIN: it is not repeated */
        return ea_fail_crypto(err, "open the CA's key by its URI");
    ERR_clear_error();
    *ret = key;
    return 0;
}

static EVP_MD_CTX *begin_signing(EVP_PKEY *key) {
    char prefer[80]; /* X509_sign would look for the first provider that knows the algorithm */
    const OSSL_PROVIDER *provider = EVP_PKEY_get0_provider(key);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    snprintf(prefer, sizeof prefer, "?provider=%.64s", provider ? OSSL_PROVIDER_get0_name(provider) : "default");
    if (ctx && EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, prefer, key, NULL) == 1)
        return ctx;
    EVP_MD_CTX_free(ctx);
    return NULL;
}

int ec_ca_sign_cert(X509 *cert, EVP_PKEY *key) {
    EVP_MD_CTX *ctx = begin_signing(key);
    int good = ctx && X509_sign_ctx(cert, ctx) > 0;
    EVP_MD_CTX_free(ctx);
    return good;
}

int ec_ca_sign_crl(X509_CRL *crl, EVP_PKEY *key) {
    EVP_MD_CTX *ctx = begin_signing(key);
    int good = ctx && X509_CRL_sign_ctx(crl, ctx) > 0;
    EVP_MD_CTX_free(ctx);
    return good;
}

int ec_ca_sign_request(X509_REQ *request, EVP_PKEY *key) {
    EVP_MD_CTX *ctx = begin_signing(key);
    int good = ctx && X509_REQ_sign_ctx(request, ctx) > 0;
    EVP_MD_CTX_free(ctx);
    return good;
}

int ec_ca_key_note(const char *dir, const ec_ca_init_options *o, ea_err *err) {
    const char *const lines[] = {o->key_uri, o->provider ? o->provider : "", o->key_paths ? o->key_paths : ""};
    char *path = ec_ca_path(dir, "ca.uri", "");
    int rc = 0;
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strpbrk(lines[i], "\r\n"))
            rc = ea_fail(err, EA_EUSAGE, "--key-uri, --provider, --key-paths: expected one line");
        ea_text_printf(&t, "%s\n", lines[i]);
    }
    if (!rc && (!path || t.failed))
        rc = ea_fail(err, EA_ENOMEM, "write %s/ca.uri", dir);
    if (!rc)
        rc = ea_path_write_all(path, t.data, t.len_bytes, 1, err);
    ea_text_deinit(&t);
    free(path);
    return rc;
}

/* What ca.uri has. Strings of text, which the caller wipes and frees. */
typedef struct key_place {
    char *text;
    size_t len_bytes;
    const char *uri, *provider, *paths; /* "" when the line is missing */
} key_place;

static int ca_key_read_place(const char *path, key_place *ret, ea_err *err) {
    static char none[] = "";
    key_place p = {.text = NULL};
    int rc = ea_path_check_private(path, err);
    if (!rc)
        rc = ea_path_read_all(path, 1 << 14, &p.text, &p.len_bytes, err);
    if (rc)
        return rc;
    char *line[3] = {p.text, none, none};
    for (size_t i = 0; i < 3; i++) {
        char *end = strchr(line[i], '\n');
        if (end && i < 2)
            line[i + 1] = end + 1;
        if (end)
            *end = 0;
    }
    p.uri = line[0];
    p.provider = line[1];
    p.paths = line[2];
    *ret = p;
    return 0;
}

static void wipe_place(key_place *p) { /* a PIN may be in it */
    OPENSSL_cleanse(p->text, p->len_bytes);
    free(p->text);
}

static int load_uri(const char *path, EVP_PKEY **ret, ea_err *err) {
    key_place p;
    int rc = ca_key_read_place(path, &p, err);
    if (rc)
        return rc;
    rc = ec_ca_key_open(p.uri, *p.provider ? p.provider : NULL, ret, err);
    wipe_place(&p);
    return rc;
}

int ec_ca_key_paths(const ec_ca *ca, ea_text *ret, ea_err *err) {
    key_place p;
    char *path = ec_ca_path(ca->dir, "ca.uri", "");
    int rc = path ? ca_key_read_place(path, &p, err) : ea_fail(err, EA_ENOMEM, "read the CA's key");
    free(path);
    if (rc)
        return rc;
    ea_text_str(ret, p.paths);
    wipe_place(&p);
    return ret->failed ? ea_fail(err, EA_ENOMEM, "read the CA's key") : 0;
}

static int load_file(const char *dir, const char *path, EVP_PKEY **ret, ea_err *err) {
    char *pem = NULL, none[] = "";
    size_t len_bytes = 0;
    int rc = ea_path_read_all(path, EC_CA_FILE_MAX, &pem, &len_bytes, err);
    if (rc == EA_ENOTFOUND)
        return ea_fail(err, rc, "there is no CA in %s (ca.key is missing); 'etwcollector ca init --dir %s' makes one",
                       dir, dir);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, none) : NULL;
    BIO_free(bio);
    OPENSSL_cleanse(pem, len_bytes);
    free(pem);
    if (!key)
        return ea_fail_crypto(err, "read the CA's key");
    *ret = key;
    return 0;
}

int ec_ca_key_load(const char *dir, EVP_PKEY **ret, ea_err *err) {
    char *uri_path = ec_ca_path(dir, "ca.uri", ""), *key_path = ec_ca_path(dir, "ca.key", "");
    int rc = !uri_path || !key_path     ? ea_fail(err, EA_ENOMEM, "read the CA's key")
             : ea_path_exists(uri_path) ? load_uri(uri_path, ret, err)
                                        : load_file(dir, key_path, ret, err);
    free(uri_path);
    free(key_path);
    return rc;
}

int ec_ca_key_is_elsewhere(const ec_ca *ca) {
    char *path = ec_ca_path(ca->dir, "ca.uri", "");
    int is = !path || ea_path_exists(path);
    free(path);
    return is;
}
