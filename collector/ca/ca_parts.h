/* What the files of collector/ca share: an open CA and how its certificates are made. Used by: ca.c, ca_init.c,
 * ca_key.c, ca_names.c, certificate.c, enrolment.c. Thread: one CA belongs to one at a time. */
#ifndef EC_CA_CA_PARTS_H
#define EC_CA_CA_PARTS_H

#include "collector/ca/ca.h"
#include "collector/ca/issuance.h"
#include "proto/base/platform.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

enum { EC_CA_SERIAL_BYTES = 16, EC_CA_CHAIN_MAX = 8, EC_CA_FILE_MAX = 1 << 20 };

struct ec_ca {
    char *dir;
    EVP_PKEY *key;
    STACK_OF(X509) * chain; /* of ca.crt: the CA's own certificate first, the root last */
    X509_STORE *trust;      /* whose certificates are renewed */
    ea_file *lock;          /* while an operation runs */
    ec_issuance *log;       /* NULL: it is read by the next operation */
};

/* ---- ca_names.c ---- */
/* DIR/NAMEENDING, malloc'd; NULL without memory. */
char *ec_ca_path(const char *dir, const char *name, const char *ending);

/* ---- ca.c ---- */
EA_MUST_CHECK int ec_ca_lock_folder(const char *dir, ea_file **ret, ea_err *err);

/* Takes the folder's lock and reads what others have written to the log. EA_EBUSY. */
EA_MUST_CHECK int ec_ca_lock(ec_ca *ca, ea_err *err);
void ec_ca_unlock(ec_ca *ca, int rc); /* rc: what the operation ended with */

static inline X509 *ec_ca_own(const ec_ca *ca) {
    return sk_X509_value(ca->chain, 0);
}

/* ---- enrolment.c ---- */
/* A request of a key that is accepted (EC P-256 or P-384), signed with it. EA_EINVAL. */
EA_MUST_CHECK int ec_ca_read_csr(const char *pem, size_t len_bytes, X509_REQ **ret, ea_err *err);

/* ---- ca_key.c ---- */
/* Loads the folder's key: the key that ca.uri names, else ca.key. */
EA_MUST_CHECK int ec_ca_key_load(const char *dir, EVP_PKEY **ret, ea_err *err);
/* The key of a URI (OSSL_STORE), by a provider of OpenSSL, which stays loaded; NULL: the default one's. */
EA_MUST_CHECK int ec_ca_key_open(const char *uri, const char *provider, EVP_PKEY **ret, ea_err *err);
/* Sign by SHA-256, by the provider that has the key. 0: OpenSSL's queue says why. */
int ec_ca_sign_cert(X509 *cert, EVP_PKEY *key);
int ec_ca_sign_crl(X509_CRL *crl, EVP_PKEY *key);
int ec_ca_sign_request(X509_REQ *request, EVP_PKEY *key);
EA_MUST_CHECK int ec_ca_key_note(const char *dir, const ec_ca_init_options *o, ea_err *err);

/* ---- certificate.c ---- */
/* All certificates of a PEM text, at least one and at most EC_CA_CHAIN_MAX. what: the file, for the error. */
EA_MUST_CHECK int ec_ca_read_chain(const char *pem, size_t len_bytes, const char *what, STACK_OF(X509) * *ret,
                                   ea_err *err);
EA_MUST_CHECK int ec_ca_write_bio(BIO *bio, const char *path, int is_private, ea_err *err);
EA_MUST_CHECK int ec_ca_write_key(EVP_PKEY *key, const char *path, ea_err *err);
/* A certificate's PEM, followed by what a verifier that has the root alone needs besides. */
EA_MUST_CHECK int ec_ca_put_chain(const ec_ca *ca, X509 *cert, int with_own, BIO *out, ea_err *err);
int ec_ca_add_extension(X509 *cert, X509 *issuer, int nid, const char *value);
int ec_ca_set_name(X509_NAME *name, const char *text);
int ec_ca_set_times(X509 *cert, int64_t life_s);
/* The life that ec_ca_set_times was given, out of the dates it made. */
int64_t ec_ca_life_of(int64_t not_before_s, int64_t not_after_s);
/* Random, positive; ret_hex: EC_CA_SERIAL_HEX + 1. */
EA_MUST_CHECK int ec_ca_set_serial(X509 *cert, char *ret_hex, ea_err *err);
EA_MUST_CHECK int ec_ca_check_days(uint64_t days, ea_err *err);
/* Fills and signs c for a key. *row: as it goes into the log, without renews. */
EA_MUST_CHECK int ec_ca_make_cert(const ec_ca *ca, const ec_ca_request *r, int64_t life_s, EVP_PKEY *key, X509 *c,
                                  ec_ca_row *row, ea_err *err);
/* The revocation list of an open CA, out of its log. */
EA_MUST_CHECK int ec_ca_write_crl(const ec_ca *ca, ea_err *err);

#endif
