/* Issues certificates to callers that have an enrolment token or a certificate. See ca.h. */
#include "collector/ca/ca_parts.h"

#include "collector/ca/enroll_tokens.h"
#include "proto/base/crypto_error.h"
#include "proto/base/pattern.h"
#include "proto/base/text.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

/* What a caller requests. */
typedef struct cert_request {
    X509_REQ *csr;
    EVP_PKEY *key; /* the request's */
    uint8_t key_hash[EC_ENROLL_TOKEN_KEY_BYTES];
    char name[EC_CA_NAME_MAX + 1]; /* its common name; "": none that could be an agent's */
} cert_request;

static int hash_key(EVP_PKEY *key, uint8_t out[EC_ENROLL_TOKEN_KEY_BYTES]) {
    unsigned char *der = NULL;
    unsigned int n = 0;
    int len = i2d_PUBKEY(key, &der);
    int good =
        len > 0 && EVP_Digest(der, (size_t)len, out, &n, EVP_sha256(), NULL) == 1 && n == EC_ENROLL_TOKEN_KEY_BYTES;
    OPENSSL_free(der);
    return good;
}

/* Small keys of two curves: what it takes to look at one is bounded. */
static int key_is_good(EVP_PKEY *key) {
    char group[32];
    size_t n = 0;
    return key && EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof group, &n) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "secp384r1") == 0);
}

/* The common name, when it is one that an agent may have; else "". */
static void enrolment_read_name(const X509_NAME *subject, char out[EC_CA_NAME_MAX + 1]) {
    int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
    const ASN1_STRING *text = at >= 0 ? X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)) : NULL;
    int n = text ? ASN1_STRING_length(text) : 0;
    out[0] = 0;
    if (n < 1 || n > EC_CA_NAME_MAX)
        return;
    memcpy(out, ASN1_STRING_get0_data(text), (size_t)n);
    out[n] = 0;
    if (strlen(out) != (size_t)n || !ec_ca_name_is_good(out))
        out[0] = 0;
}

int ec_ca_read_csr(const char *pem, size_t len_bytes, X509_REQ **ret, ea_err *err) {
    /* of PEM that claims to be encrypted: no question for a password, which would read standard input */
    char none[] = "";
    BIO *bio = len_bytes <= EC_CA_CSR_MAX ? BIO_new_mem_buf(pem, (int)len_bytes) : NULL;
    X509_REQ *csr = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, none) : NULL;
    EVP_PKEY *key = csr ? X509_REQ_get0_pubkey(csr) : NULL;
    BIO_free(bio);
    int rc = 0;
    if (!csr)
        rc = ea_fail(err, EA_EINVAL, "the request is no PKCS#10 request, PEM, of at most %d bytes", EC_CA_CSR_MAX);
    else if (!key_is_good(key))
        rc = ea_fail(err, EA_EINVAL, "the request's key is none of EC P-256 or P-384");
    else if (X509_REQ_verify(csr, key) != 1)
        rc = ea_fail(err, EA_EINVAL, "the request is not signed with its own key");
    ERR_clear_error();
    if (rc)
        X509_REQ_free(csr);
    else
        *ret = csr;
    return rc;
}

static int enrolment_read_request(const char *pem, size_t len_bytes, cert_request *ret, ea_err *err) {
    int rc = ec_ca_read_csr(pem, len_bytes, &ret->csr, err);
    if (rc)
        return rc;
    ret->key = X509_REQ_get0_pubkey(ret->csr);
    if (!hash_key(ret->key, ret->key_hash))
        return ea_fail_crypto(err, "read the request's key");
    enrolment_read_name(X509_REQ_get_subject_name(ret->csr), ret->name);
    return 0;
}

/* The file of what a name got last. */
static char *enrolled_path(const ec_ca *ca, const char *name) {
    char folded[EC_CA_NAME_MAX + 1], *dir = ec_ca_path(ca->dir, "enrolled", "");
    snprintf(folded, sizeof folded, "%s", name);
    ea_name_to_lower(folded);
    char *path = dir ? ec_ca_path(dir, folded, ".crt") : NULL;
    free(dir);
    return path;
}

static int serial_of(const X509 *cert, char ret[EC_CA_SERIAL_HEX + 1]) {
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    int n = ASN1_STRING_length(serial);
    if (n < 1 || n > EC_CA_SERIAL_HEX / 2)
        return 0;
    for (int i = 0; i < n; i++)
        snprintf(ret + 2 * (size_t)i, 3, "%02x", ASN1_STRING_get0_data(serial)[i]);
    return 1;
}

/* The certificate that this key got before under the name, when it is valid: the caller frees it. */
static X509 *got_before(const ec_ca *ca, const char *name, const cert_request *w,
                        char ret_serial[EC_CA_SERIAL_HEX + 1]) {
    char *path = enrolled_path(ca, name), *pem = NULL;
    size_t len_bytes = 0;
    uint8_t hash[EC_ENROLL_TOKEN_KEY_BYTES];
    if (!path || !ea_path_exists(path) || ea_path_read_all(path, 1 << 16, &pem, &len_bytes, NULL)) {
        free(path);
        return NULL;
    }
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int good = cert && serial_of(cert, ret_serial) && hash_key(X509_get0_pubkey(cert), hash) &&
               memcmp(hash, w->key_hash, sizeof hash) == 0 && X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
    const ec_ca_row *row = good ? ec_issuance_find(ca->log, ret_serial) : NULL;
    if (!row || row->revoked_utc_ns) { /* without a row it was never handed out */
        X509_free(cert);
        cert = NULL;
    }
    BIO_free(bio);
    free(pem);
    free(path);
    ERR_clear_error();
    return cert;
}

/* 1 when a certificate of this name is valid: two machines of one name could not be distinguished. */
static int enrolment_is_taken(const ec_ca *ca, const char *name) {
    int64_t now = ea_utc_ns();
    const ec_ca_row *row = NULL;
    while ((row = ec_issuance_next_of_name(ca->log, name, row)))
        if (!row->revoked_utc_ns && row->not_after_utc_ns > now)
            return 1;
    return 0;
}

/* 1 when the certificate was renewed, and its successor is not revoked. */
static int is_renewed(const ec_ca *ca, const char *serial) {
    const ec_ca_row *row = NULL;
    while ((row = ec_issuance_next_successor(ca->log, serial, row)))
        if (!row->revoked_utc_ns)
            return 1;
    return 0;
}

static int put_pem(const ec_ca *ca, X509 *cert, ec_ca_enrolled *ret, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    int rc = bio ? ec_ca_put_chain(ca, cert, 1, bio, err) : ea_fail(err, EA_ENOMEM, "answer with a certificate");
    long n = rc ? 0 : BIO_get_mem_data(bio, &data);
    ret->pem = n > 0 ? malloc((size_t)n + 1) : NULL;
    if (!rc && !ret->pem)
        rc = ea_fail(err, EA_ENOMEM, "answer with a certificate");
    if (!rc) {
        memcpy(ret->pem, data, (size_t)n);
        ret->pem[n] = 0;
        ret->pem_bytes = (size_t)n;
    }
    BIO_free(bio);
    return rc;
}

/* Keeps the certificate for repeated requests, and logs it. */
static int enrolment_keep(ec_ca *ca, X509 *cert, const ec_ca_row *row, ea_err *err) {
    char *path = enrolled_path(ca, row->name);
    BIO *bio = BIO_new(BIO_s_mem());
    int rc = path && bio ? ea_path_make_parent(path, err) : ea_fail(err, EA_ENOMEM, "enroll %s", row->name);
    if (!rc && PEM_write_bio_X509(bio, cert) != 1)
        rc = ea_fail_crypto(err, "write a certificate");
    if (!rc)
        rc = ec_ca_write_bio(bio, path, 0, err);
    if (!rc)
        rc = ec_issuance_add(ca->log, row, 1, err);
    BIO_free(bio);
    free(path);
    return rc;
}

/* Signs the request for a name. renews: the serial number of the certificate that it follows, "": none. before is
 * called with the certificate made and before it is kept anywhere. */
static int enrolment_sign_request(ec_ca *ca, const cert_request *w, const char *name, const char *renews,
                                  int64_t life_s, int (*before)(void *arg, const X509 *cert, ea_err *err), void *arg,
                                  ec_ca_enrolled *ret, ea_err *err) {
    ec_ca_row row = {0};
    X509 *cert = X509_new();
    ec_ca_request r = {.name = name};
    int rc =
        cert ? ec_ca_make_cert(ca, &r, life_s, w->key, cert, &row, err) : ea_fail(err, EA_ENOMEM, "enroll %s", name);
    snprintf(row.renews, sizeof row.renews, "%s", renews);
    if (!rc)
        rc = before(arg, cert, err);
    if (!rc)
        rc = enrolment_keep(ca, cert, &row, err);
    if (!rc)
        rc = put_pem(ca, cert, ret, err);
    if (!rc)
        memcpy(ret->serial, row.serial, sizeof row.serial);
    X509_free(cert);
    return rc;
}

/* Chooses the name that the token gives to this request. */
static int choose_name(const ec_enroll_token *g, const cert_request *w, char out[EC_CA_NAME_MAX + 1], ea_err *err) {
    const char *name = ec_enroll_token_fixed_name(g);
    if (!name && !w->name[0])
        return ea_fail(err, EA_EINVAL,
                       "the request has no name: expected a common name of letters, digits, . _ -, and this token is "
                       "for %s",
                       g->names);
    if (!name && !ea_name_in(g->names, w->name))
        return ea_fail(err, EA_EREFUSED, "the token is for the names %s, not for %s", g->names, w->name);
    if (!name)
        name = w->name;
    if (!ec_ca_name_is_good(name))
        return ea_fail(err, EA_EREFUSED, "the token's name %s cannot be a certificate's", name);
    memcpy(out, name, strlen(name) + 1);
    return 0;
}

typedef struct taking {
    const char *dir;
    ec_enroll_token *grants, *grant;
    size_t count;
    const cert_request *w;
} taking;

/* Takes a use, unless the last one was for this key and came to nothing. */
static int take_use(void *arg, const X509 *cert, ea_err *err) {
    taking *t = arg;
    ec_enroll_token *g = t->grant;
    (void)cert;
    if (g->has_key && memcmp(g->key, t->w->key_hash, sizeof g->key) == 0)
        return 0;
    g->uses_left--;
    g->has_key = 1;
    memcpy(g->key, t->w->key_hash, sizeof g->key);
    return ec_enroll_tokens_write(t->dir, t->grants, t->count, err);
}

static int enroll_with(ec_ca *ca, taking *t, ec_ca_enrolled *ret, ea_err *err) {
    ec_enroll_token *g = t->grant;
    const cert_request *w = t->w;
    int rc = choose_name(g, w, ret->name, err);
    if (rc)
        return rc;
    X509 *before = got_before(ca, ret->name, w, ret->serial);
    ret->is_known = before != NULL;
    if (before) {
        rc = put_pem(ca, before, ret, err);
        X509_free(before);
        return rc;
    }
    if (enrolment_is_taken(ca, ret->name))
        return ea_fail(err, EA_EEXIST,
                       "a certificate of %s is valid already: 'etwcollector ca revoke --dir DIR %s' makes room for "
                       "another machine "
                       "of this name",
                       ret->name, ret->name);
    int interrupted = g->has_key && memcmp(g->key, w->key_hash, sizeof g->key) == 0;
    if (!g->uses_left && !interrupted)
        return ea_fail(err, EA_EREFUSED, "the token is used up");
    return enrolment_sign_request(ca, w, ret->name, "", g->life_s, take_use, t, ret, err);
}

int ec_ca_enroll(ec_ca *ca, const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret, ea_err *err) {
    cert_request w = {.csr = NULL};
    taking t = {.dir = ca->dir, .w = &w};
    ea_file *lock = NULL;
    *ret = (ec_ca_enrolled){.pem = NULL};
    int rc = ec_enroll_tokens_lock(ca->dir, &lock, err);
    if (!rc)
        rc = ec_enroll_tokens_read(ca->dir, &t.grants, &t.count, err);
    if (rc == EA_EREFUSED) /* the file's mode: not the caller's fault */
        rc = EA_EIO;
    if (!rc && !(t.grant = ec_enroll_tokens_find(t.grants, t.count, token)))
        rc = ea_fail(err, EA_EREFUSED, "the token is wrong, or was revoked, or expired long ago");
    if (!rc) {
        memcpy(ret->token, t.grant->secret.id, sizeof ret->token);
        if (t.grant->expires_s <= ea_utc_ns() / SECOND_NS)
            rc = ea_fail(err, EA_EREFUSED, "the token has expired");
    }
    if (!rc) /* a request is parsed only for a right token */
        rc = enrolment_read_request(csr, len_bytes, &w, err);
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc) {
        rc = enroll_with(ca, &t, ret, err);
        ec_ca_unlock(ca, rc);
    }
    X509_REQ_free(w.csr);
    free(t.grants);
    ea_file_close(lock);
    return rc;
}

/* ---- renewal ---- */

/* The certificate that is renewed. */
typedef struct holder {
    X509 *cert;
    char serial[EC_CA_SERIAL_HEX + 1];
    int64_t not_before_s, not_after_s; /* since 1970 */
} holder;

static int enrolment_seconds_of(const ASN1_TIME *t, int64_t *ret) {
    struct tm parts;
    if (ASN1_TIME_to_tm(t, &parts) != 1)
        return 0;
    *ret = (int64_t)timegm(&parts);
    return 1;
}

/* Checks that the certificate is valid now, is a client's, and was issued by a trusted CA. */
static int verify_holder(const ec_ca *ca, X509 *cert, ea_err *err) {
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    int rc = ctx && X509_STORE_CTX_init(ctx, ca->trust, cert, ca->chain) == 1
                 ? 0
                 : ea_fail(err, EA_ENOMEM, "check the certificate");
    if (!rc && X509_verify_cert(ctx) != 1)
        rc = ea_fail(err, EA_EREFUSED, "the certificate cannot be renewed: %s",
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    X509_STORE_CTX_free(ctx);
    ERR_clear_error();
    return rc;
}

static int enrolment_read_holder(const ec_ca *ca, const uint8_t *der, size_t len_bytes, holder *ret, char *ret_name,
                                 ea_err *err) {
    const unsigned char *at = der;
    ret->cert = len_bytes <= EC_CA_CERT_MAX ? d2i_X509(NULL, &at, (long)len_bytes) : NULL;
    ERR_clear_error();
    if (!ret->cert || at != der + len_bytes || !serial_of(ret->cert, ret->serial) ||
        !enrolment_seconds_of(X509_get0_notBefore(ret->cert), &ret->not_before_s) ||
        !enrolment_seconds_of(X509_get0_notAfter(ret->cert), &ret->not_after_s))
        return ea_fail(err, EA_EINVAL, "the certificate, its serial number or its dates cannot be read");
    int rc = verify_holder(ca, ret->cert, err);
    if (!rc)
        enrolment_read_name(X509_get_subject_name(ret->cert), ret_name);
    if (!rc && !*ret_name)
        rc = ea_fail(err, EA_EREFUSED, "the certificate's common name is not an agent's name");
    return rc;
}

/* A renewal that gives no more time is none. */
static int outlives(void *arg, const X509 *cert, ea_err *err) {
    const holder *h = arg;
    time_t end = (time_t)h->not_after_s;
    return X509_cmp_time(X509_get0_notAfter(cert), &end) > 0
               ? 0
               : ea_fail(err, EA_EREFUSED, "the CA itself ends with the certificate: it gives no longer one");
}

static int renew_with(ec_ca *ca, holder *h, const cert_request *w, ec_ca_enrolled *ret, ea_err *err) {
    const ec_ca_row *row = ec_issuance_find(ca->log, h->serial);
    int64_t now_s = ea_utc_ns() / SECOND_NS, life_s = ec_ca_life_of(h->not_before_s, h->not_after_s);
    if (row && row->revoked_utc_ns)
        return ea_fail(err, EA_EREFUSED, "the certificate is revoked");
    X509 *before = got_before(ca, ret->name, w, ret->serial);
    ret->is_known = before != NULL;
    if (before) {
        int rc = put_pem(ca, before, ret, err);
        X509_free(before);
        return rc;
    }
    if (is_renewed(ca, h->serial)) {
        ret->renewed_twice = 1;
        return ea_fail(err, EA_EEXIST,
                       "the certificate %s of %s was renewed before, with another key: two machines use it, or its key "
                       "was copied; 'etwcollector ca revoke --dir DIR %s' and a new token make room for the right one",
                       h->serial, ret->name, ret->name);
    }
    if (h->not_after_s - now_s > (h->not_after_s - h->not_before_s) / 2)
        return ea_fail(err, EA_ELIMIT, "more than half of the certificate's life is left: it is renewed later");
    if (life_s <= 0)
        return ea_fail(err, EA_EINVAL, "the certificate has no life");
    return enrolment_sign_request(ca, w, ret->name, h->serial, life_s, outlives, h, ret, err);
}

int ec_ca_renew(ec_ca *ca, const uint8_t *cert, size_t cert_bytes, const char *csr, size_t csr_bytes,
                ec_ca_enrolled *ret, ea_err *err) {
    cert_request w = {.csr = NULL};
    holder h = {.cert = NULL};
    *ret = (ec_ca_enrolled){.pem = NULL};
    int rc = enrolment_read_holder(ca, cert, cert_bytes, &h, ret->name, err);
    if (!rc)
        rc = enrolment_read_request(csr, csr_bytes, &w, err);
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc) {
        rc = renew_with(ca, &h, &w, ret, err);
        ec_ca_unlock(ca, rc);
    }
    X509_REQ_free(w.csr);
    X509_free(h.cert);
    return rc;
}
