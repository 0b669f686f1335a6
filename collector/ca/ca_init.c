/* How a CA begins: as a root, alone or above others, or below a root that is kept elsewhere. See ca.h. */
#include "collector/ca/ca_parts.h"

#include "proto/base/clock.h"
#include "proto/base/crypto_error.h"
#include "proto/base/text.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000, DAY_S = 86400;
static const char CA_USAGE[] = "critical,keyCertSign,cRLSign";

/* ---- ca init ---- */

static int ca_init_make_key(const ec_ca_init_options *o, EVP_PKEY **ret, ea_err *err) {
    if (o->key_uri)
        return ec_ca_key_open(o->key_uri, o->provider, ret, err);
    *ret = EVP_EC_gen("P-256");
    return *ret ? 0 : ea_fail_crypto(err, "make the CA's key");
}

static int keep_key(const char *dir, const ec_ca_init_options *o, EVP_PKEY *key, ea_err *err) {
    if (o->key_uri)
        return ec_ca_key_note(dir, o, err);
    char *path = ec_ca_path(dir, "ca.key", "");
    int rc = path ? ec_ca_write_key(key, path, err) : ea_fail(err, EA_ENOMEM, "make the CA's key");
    free(path);
    return rc;
}

static int make_root(const ec_ca_init_options *o, EVP_PKEY *key, X509 **ret, ea_err *err) {
    char serial[EC_CA_SERIAL_HEX + 1];
    X509 *c = X509_new();
    int rc = c ? ec_ca_set_serial(c, serial, err) : ea_fail(err, EA_ENOMEM, "make the CA's certificate");
    if (!rc && !(X509_set_version(c, X509_VERSION_3) == 1 && ec_ca_set_times(c, (int64_t)o->days * DAY_S) &&
                 ec_ca_set_name(X509_get_subject_name(c), o->name) &&
                 X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 && X509_set_pubkey(c, key) == 1 &&
                 ec_ca_add_extension(c, c, NID_basic_constraints,
                                     o->is_root ? "critical,CA:TRUE,pathlen:1" : "critical,CA:TRUE,pathlen:0") &&
                 ec_ca_add_extension(c, c, NID_key_usage, CA_USAGE) &&
                 ec_ca_add_extension(c, c, NID_subject_key_identifier, "hash") &&
                 ec_ca_add_extension(c, c, NID_authority_key_identifier, "keyid:always") && ec_ca_sign_cert(c, key)))
        rc = ea_fail_crypto(err, "make the CA's certificate");
    if (rc)
        X509_free(c);
    else
        *ret = c;
    return rc;
}

static int write_request(const char *dir, const ec_ca_init_options *o, EVP_PKEY *key, ea_err *err) {
    X509_REQ *csr = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *path = ec_ca_path(dir, "ca.csr", "");
    int good = csr && bio && path && X509_REQ_set_version(csr, X509_REQ_VERSION_1) == 1 &&
               ec_ca_set_name(X509_REQ_get_subject_name(csr), o->name) && X509_REQ_set_pubkey(csr, key) == 1 &&
               ec_ca_sign_request(csr, key) && PEM_write_bio_X509_REQ(bio, csr) == 1;
    int rc = good ? ec_ca_write_bio(bio, path, 0, err) : ea_fail_crypto(err, "make the CA's request");
    free(path);
    BIO_free(bio);
    X509_REQ_free(csr);
    return rc;
}

/* The log, the list and at last the certificates: without them the folder holds no CA yet. Takes key and chain. */
static int ca_init_begin(const char *dir, EVP_PKEY *key, STACK_OF(X509) * chain, ea_err *err) {
    ec_ca ca = {.key = key, .chain = chain};
    char *log_path = ec_ca_path(dir, "issued.tsv", ""), *cert_path = ec_ca_path(dir, "ca.crt", "");
    BIO *bio = BIO_new(BIO_s_mem());
    int rc =
        log_path && cert_path && bio && (ca.dir = strdup(dir)) ? 0 : ea_fail(err, EA_ENOMEM, "make a CA in %s", dir);
    if (!rc && !ea_path_exists(log_path))
        rc = ea_path_write_all(log_path, "", 0, 0, err);
    if (!rc)
        rc = ec_issuance_open(&ca.log, dir, 1, err);
    if (!rc)
        rc = ec_ca_write_crl(&ca, err);
    for (int i = 0; !rc && i < sk_X509_num(chain); i++)
        if (PEM_write_bio_X509(bio, sk_X509_value(chain, i)) != 1)
            rc = ea_fail_crypto(err, "write the CA's certificate");
    if (!rc)
        rc = ec_ca_write_bio(bio, cert_path, 0, err);
    BIO_free(bio);
    free(log_path);
    free(cert_path);
    free(ca.dir);
    ec_issuance_close(ca.log);
    sk_X509_pop_free(chain, X509_free);
    EVP_PKEY_free(key);
    return rc;
}

static int check_init(const char *dir, const ec_ca_init_options *o, ea_err *err) {
    static const char *const FILES[] = {"ca.key", "ca.uri", "ca.crt"};
    if (!*o->name || strlen(o->name) > EC_CA_NAME_MAX)
        return ea_fail(err, EA_EUSAGE, "--name '%s': expected 1 to %d characters", o->name, EC_CA_NAME_MAX);
    int rc = ec_ca_check_days(o->days, err);
    for (size_t i = 0; !rc && i < sizeof FILES / sizeof *FILES; i++) {
        char *path = ec_ca_path(dir, FILES[i], "");
        if (!path)
            rc = ea_fail(err, EA_ENOMEM, "make a CA in %s", dir);
        else if (ea_path_exists(path))
            rc = ea_fail(err, EA_EEXIST, "make a CA in %s: there is one already, and it stays", dir);
        free(path);
    }
    return rc;
}

int ec_ca_init(const char *dir, const ec_ca_init_options *o, ea_err *err) {
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    ea_file *lock = NULL;
    STACK_OF(X509) *chain = NULL;
    int rc = check_init(dir, o, err);
    if (!rc)
        rc = ea_path_make_dirs(dir, err);
    if (!rc)
        rc = ec_ca_lock_folder(dir, &lock, err);
    if (!rc)
        rc = check_init(dir, o, err); /* another process may have made one meanwhile */
    if (!rc)
        rc = ca_init_make_key(o, &key, err);
    if (!rc && o->wants_request) {
        rc = write_request(dir, o, key, err);
        if (!rc)
            rc = keep_key(dir, o, key, err);
    } else if (!rc) {
        rc = make_root(o, key, &cert, err);
        if (!rc) /* only after it has signed: when a provider refuses the key, no CA remains */
            rc = keep_key(dir, o, key, err);
        chain = rc ? NULL : sk_X509_new_null();
        if (!rc && (!chain || !sk_X509_push(chain, cert)))
            rc = ea_fail(err, EA_ENOMEM, "make a CA in %s", dir);
        if (!rc) {
            rc = ca_init_begin(dir, key, chain, err);
            key = NULL;
            cert = NULL;
            chain = NULL;
        }
    }
    sk_X509_free(chain);
    X509_free(cert);
    EVP_PKEY_free(key);
    ea_file_close(lock);
    return rc;
}

/* ---- ca import ---- */

/* The way from the first certificate to a root that is among the others, in order. */
static int order_chain(const STACK_OF(X509) * given, STACK_OF(X509) * *ret, ea_err *err) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *own = sk_X509_value(given, 0);
    int roots = 0, rc = store && ctx ? 0 : ea_fail(err, EA_ENOMEM, "check the CA's certificate");
    for (int i = 1; !rc && i < sk_X509_num(given); i++)
        if (X509_get_extension_flags(sk_X509_value(given, i)) & EXFLAG_SS) {
            roots++;
            if (X509_STORE_add_cert(store, sk_X509_value(given, i)) != 1)
                rc = ea_fail_crypto(err, "check the CA's certificate");
        }
    if (!rc && !roots)
        rc = ea_fail(err, EA_EINVAL,
                     "the root's certificate is missing: give it with --under, or at the end of the file");
    if (!rc && X509_STORE_CTX_init(ctx, store, own, (STACK_OF(X509) *)(uintptr_t)given) != 1)
        rc = ea_fail_crypto(err, "check the CA's certificate");
    if (!rc && X509_verify_cert(ctx) != 1)
        rc = ea_fail(err, EA_EINVAL, "the certificate is not one of the root: %s",
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    if (!rc && !(*ret = X509_STORE_CTX_get1_chain(ctx)))
        rc = ea_fail(err, EA_ENOMEM, "check the CA's certificate");
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return rc;
}

static int ca_init_check_own(X509 *own, EVP_PKEY *key, ea_err *err) {
    if (X509_check_private_key(own, key) != 1) {
        ERR_clear_error();
        return ea_fail(
            err, EA_EINVAL,
            "the first certificate is not of this folder's key: expected the certificate that was made of ca.csr");
    }
    if (X509_check_ca(own) != 1 ||
        (X509_get_key_usage(own) & (KU_KEY_CERT_SIGN | KU_CRL_SIGN)) != (KU_KEY_CERT_SIGN | KU_CRL_SIGN))
        return ea_fail(err, EA_EINVAL,
                       "the certificate is none of a CA: expected CA:TRUE, and the key usages keyCertSign and cRLSign");
    return 0;
}

static int read_certificates(const char *path, STACK_OF(X509) * *ret, ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_read_all(path, EC_CA_FILE_MAX, &pem, &len_bytes, err);
    if (!rc)
        rc = ec_ca_read_chain(pem, len_bytes, path, ret, err);
    free(pem);
    return rc;
}

int ec_ca_import(const char *dir, const char *chain_path, const char *root_path, ea_err *err) {
    STACK_OF(X509) *given = NULL, *roots = NULL, *chain = NULL;
    EVP_PKEY *key = NULL;
    ea_file *lock = NULL;
    int rc = ec_ca_key_load(dir, &key, err);
    if (!rc)
        rc = read_certificates(chain_path, &given, err);
    if (!rc && root_path)
        rc = read_certificates(root_path, &roots, err);
    while (!rc && sk_X509_num(roots) > 0) {
        X509 *root = sk_X509_shift(roots);
        if (!sk_X509_push(given, root)) {
            X509_free(root);
            rc = ea_fail(err, EA_ENOMEM, "import a CA's certificate");
        }
    }
    if (!rc)
        rc = ca_init_check_own(sk_X509_value(given, 0), key, err);
    if (!rc)
        rc = order_chain(given, &chain, err);
    if (!rc)
        rc = ec_ca_lock_folder(dir, &lock, err);
    if (!rc) {
        rc = ca_init_begin(dir, key, chain, err);
        key = NULL;
    }
    sk_X509_pop_free(given, X509_free);
    sk_X509_pop_free(roots, X509_free);
    EVP_PKEY_free(key);
    ea_file_close(lock);
    return rc;
}

/* ---- ca sign ---- */

/* "permitted;DNS:a,permitted;IP:..." for X509V3_EXT_conf_nid; each constraint is a DNS name or an address with its
 * mask. */
static int add_constraints(X509 *c, X509 *issuer, const ea_strings *permitted, ea_err *err) {
    ea_text t;
    int rc = 0;
    ea_text_init(&t);
    for (size_t i = 0; !rc && i < permitted->count; i++) {
        const char *p = permitted->items[i];
        if ((strncmp(p, "DNS:", 4) != 0 && strncmp(p, "IP:", 3) != 0) || strpbrk(p, ",;\r\n@"))
            rc = ea_fail(err, EA_EUSAGE, "--permit '%s': expected DNS:domain or IP:address/mask", p);
        ea_text_printf(&t, "%spermitted;%s", i ? "," : "critical,", p);
    }
    if (!rc && t.failed)
        rc = ea_fail(err, EA_ENOMEM, "sign a CA's certificate");
    if (!rc && permitted->count && !ec_ca_add_extension(c, issuer, NID_name_constraints, t.data)) {
        ERR_clear_error();
        rc = ea_fail(err, EA_EUSAGE, "--permit: expected DNS:domain or IP:address/mask");
    }
    ea_text_deinit(&t);
    return rc;
}

/* What the log calls it: a name of the characters that it takes. */
static void log_name(const X509_NAME *subject, char out[EC_CA_NAME_MAX + 1]) {
    if (X509_NAME_get_text_by_NID((X509_NAME *)(uintptr_t)subject, NID_commonName, out, EC_CA_NAME_MAX + 1) < 1)
        snprintf(out, EC_CA_NAME_MAX + 1, "ca");
    for (char *at = out; *at; at++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._", *at))
            *at = at == out ? '_' : '-';
    if (*out == '.')
        *out = '_';
}

static int make_below(const ec_ca *ca, X509_REQ *csr, uint64_t days, const ea_strings *permitted, X509 *c,
                      ec_ca_row *row, ea_err *err) {
    X509 *own = ec_ca_own(ca);
    int days_left, seconds_left, rc = ec_ca_set_serial(c, row->serial, err);
    if (rc)
        return rc;
    int good = X509_set_version(c, X509_VERSION_3) == 1 && ec_ca_set_times(c, (int64_t)days * DAY_S) &&
               X509_set_subject_name(c, X509_REQ_get_subject_name(csr)) == 1 &&
               X509_set_issuer_name(c, X509_get_subject_name(own)) == 1 &&
               X509_set_pubkey(c, X509_REQ_get0_pubkey(csr)) == 1;
    if (good && ASN1_TIME_compare(X509_get0_notAfter(c), X509_get0_notAfter(own)) > 0)
        good = X509_set1_notAfter(c, X509_get0_notAfter(own)) == 1;
    good = good && ec_ca_add_extension(c, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           ec_ca_add_extension(c, own, NID_key_usage, CA_USAGE) &&
           ec_ca_add_extension(c, own, NID_subject_key_identifier, "hash") &&
           ec_ca_add_extension(c, own, NID_authority_key_identifier, "keyid:always");
    if (!good)
        return ea_fail_crypto(err, "sign a CA's certificate");
    if ((rc = add_constraints(c, own, permitted, err)))
        return rc;
    if (!ec_ca_sign_cert(c, ca->key) || ASN1_TIME_diff(&days_left, &seconds_left, NULL, X509_get0_notAfter(c)) != 1)
        return ea_fail_crypto(err, "sign a CA's certificate");
    row->role = EC_CA_AUTHORITY;
    row->not_after_utc_ns = (ea_utc_ns() / SECOND_NS + days_left * DAY_S + seconds_left) * SECOND_NS;
    log_name(X509_get_subject_name(c), row->name);
    return 0;
}

static int sign_below(ec_ca *ca, X509_REQ *csr, uint64_t days, const ea_strings *permitted, const char *out_path,
                      ea_err *err) {
    ec_ca_row row = {0};
    X509 *c = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());
    int rc = c && bio ? make_below(ca, csr, days, permitted, c, &row, err) : ea_fail(err, EA_ENOMEM, "sign a CA");
    if (!rc)
        rc = ec_issuance_add(ca->log, &row, 1, err);
    if (!rc && PEM_write_bio_X509(bio, c) != 1)
        rc = ea_fail_crypto(err, "write a certificate");
    for (int i = 0; !rc && i < sk_X509_num(ca->chain); i++)
        if (PEM_write_bio_X509(bio, sk_X509_value(ca->chain, i)) != 1)
            rc = ea_fail_crypto(err, "write a certificate");
    if (!rc)
        rc = ec_ca_write_bio(bio, out_path, 0, err);
    BIO_free(bio);
    X509_free(c);
    return rc;
}

int ec_ca_sign(const char *dir, const char *csr_path, uint64_t days, const ea_strings *permitted, const char *out_path,
               ea_err *err) {
    ec_ca *ca = NULL;
    X509_REQ *csr = NULL;
    char *pem = NULL;
    size_t len_bytes = 0;
    int rc = ec_ca_check_days(days, err);
    if (!rc)
        rc = ec_ca_open(&ca, dir, NULL, err);
    if (!rc && X509_get_pathlen(ec_ca_own(ca)) == 0)
        rc = ea_fail(err, EA_EREFUSED,
                     "the CA in %s has pathlen 0 and signs no other CA: a root for that is made by 'ca init --root'",
                     dir);
    if (!rc)
        rc = ea_path_read_all(csr_path, EC_CA_CSR_MAX, &pem, &len_bytes, err);
    if (!rc)
        rc = ec_ca_read_csr(pem, len_bytes, &csr, err);
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc) {
        rc = sign_below(ca, csr, days, permitted, out_path, err);
        ec_ca_unlock(ca, rc);
    }
    free(pem);
    X509_REQ_free(csr);
    ec_ca_close(ca);
    return rc;
}
