/* Certificates and revocation lists, as RFC 5280 has them. See ca_parts.h. */
#include "collector/ca/ca_parts.h"

#include "proto/base/clock.h"
#include "proto/base/crypto_error.h"

#include <inttypes.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { DAYS_MAX = 36500, SAN_TEXT_MAX = 255 };

static const int64_t SECOND_NS = 1000000000, DAY_S = 86400, SKEW_S = 300; /* clocks of a fleet differ a little */
static const int64_t SKEW_PARTS = 12; /* ... and no more than this part of a short life */

/* ---- files ---- */

int ec_ca_write_bio(BIO *bio, const char *path, int is_private, ea_err *err) {
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    return ea_path_write_all(path, data, (size_t)n, is_private, err);
}

int ec_ca_write_key(EVP_PKEY *key, const char *path, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_secmem());
    int rc = bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                 ? ec_ca_write_bio(bio, path, 1, err)
                 : ea_fail_crypto(err, "write a key");
    BIO_free(bio);
    return rc;
}

static int is_root(X509 *cert) {
    return (X509_get_extension_flags(cert) & EXFLAG_SS) != 0;
}

int ec_ca_put_chain(const ec_ca *ca, X509 *cert, int with_own, BIO *out, ea_err *err) {
    int good = PEM_write_bio_X509(out, cert) == 1;
    for (int i = 0; good && i < sk_X509_num(ca->chain); i++) {
        X509 *above = sk_X509_value(ca->chain, i);
        if (is_root(above) ? with_own && i == 0 : 1) /* a root comes along only where it is the CA itself */
            good = PEM_write_bio_X509(out, above) == 1;
    }
    return good ? 0 : ea_fail_crypto(err, "write a certificate");
}

int ec_ca_read_chain(const char *pem, size_t len_bytes, const char *what, STACK_OF(X509) * *ret, ea_err *err) {
    BIO *bio = len_bytes <= EC_CA_FILE_MAX ? BIO_new_mem_buf(pem, (int)len_bytes) : NULL;
    STACK_OF(X509) *list = sk_X509_new_null();
    int rc = bio && list ? 0 : ea_fail(err, EA_ENOMEM, "read %s", what);
    while (!rc) {
        X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (!cert) {
            if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE || sk_X509_num(list) == 0)
                rc = ea_fail(err, EA_EFORMAT, "read %s: expected certificates, PEM", what);
            ERR_clear_error();
            break;
        }
        if (sk_X509_num(list) == EC_CA_CHAIN_MAX)
            rc = ea_fail(err, EA_EFORMAT, "read %s: expected at most %d certificates", what, EC_CA_CHAIN_MAX);
        else if (!sk_X509_push(list, cert))
            rc = ea_fail(err, EA_ENOMEM, "read %s", what);
        if (rc)
            X509_free(cert);
    }
    BIO_free(bio);
    if (rc) {
        sk_X509_pop_free(list, X509_free);
        return rc;
    }
    *ret = list;
    return 0;
}

/* ---- certificates ---- */

int ec_ca_add_extension(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    int good = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

static int64_t skew_of(int64_t life_s) {
    return life_s / SKEW_PARTS < SKEW_S ? life_s / SKEW_PARTS : SKEW_S;
}

int ec_ca_set_times(X509 *cert, int64_t life_s) {
    return X509_gmtime_adj(X509_getm_notBefore(cert), -(long)skew_of(life_s)) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(cert), (int)(life_s / DAY_S), (long)(life_s % DAY_S), NULL) != NULL;
}

/* 16 random bytes, positive and not zero; ret_hex as in issued.tsv. */
int ec_ca_set_serial(X509 *cert, char *ret_hex, ea_err *err) {
    uint8_t bytes[EC_CA_SERIAL_BYTES];
    int rc = ea_random_bytes(bytes, sizeof bytes, err);
    if (rc)
        return rc;
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40);
    BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
    int good = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;
    BN_free(n);
    if (!good)
        return ea_fail_crypto(err, "make a serial number");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int ec_ca_set_name(X509_NAME *name, const char *text) {
    return name && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

/* The subject's alternative names as structures (a text form would let a name smuggle in others). */
static int add_sans(X509 *cert, const ec_ca_request *r, ea_err *err) {
    GENERAL_NAMES *list = GENERAL_NAMES_new();
    int rc = list ? 0 : ea_fail(err, EA_ENOMEM, "issue a certificate");
    char fallback[EC_CA_NAME_MAX + 5];
    snprintf(fallback, sizeof fallback, "DNS:%s", r->name);
    size_t n = r->san_count ? r->san_count : 1;
    for (size_t i = 0; !rc && i < n; i++) {
        const char *san = r->san_count ? r->sans[i] : fallback;
        int is_dns = strncmp(san, "DNS:", 4) == 0, is_ip = strncmp(san, "IP:", 3) == 0;
        const char *value = san + (is_dns ? 4 : 3);
        if ((!is_dns && !is_ip) || !*value || strlen(value) > SAN_TEXT_MAX ||
            (is_dns &&
             strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-*") != strlen(value))) {
            rc = ea_fail(err, EA_EUSAGE, "--san '%s': expected DNS:name or IP:address", san);
            break;
        }
        GENERAL_NAME *name = a2i_GENERAL_NAME(NULL, NULL, NULL, is_dns ? GEN_DNS : GEN_IPADD, value, 0);
        if (!name || !sk_GENERAL_NAME_push(list, name)) {
            GENERAL_NAME_free(name);
            ERR_clear_error();
            rc = ea_fail(err, EA_EUSAGE, "--san '%s': expected DNS:name or IP:address", san);
        }
    }
    if (!rc && X509_add1_ext_i2d(cert, NID_subject_alt_name, list, 0, X509V3_ADD_DEFAULT) != 1)
        rc = ea_fail_crypto(err, "issue a certificate");
    GENERAL_NAMES_free(list);
    return rc;
}

int64_t ec_ca_life_of(int64_t not_before_s, int64_t not_after_s) {
    int64_t whole_s = not_after_s - not_before_s;
    return whole_s - SKEW_S >= SKEW_S * SKEW_PARTS ? whole_s - SKEW_S : whole_s - whole_s / (SKEW_PARTS + 1);
}

int ec_ca_check_days(uint64_t days, ea_err *err) {
    return days >= 1 && days <= DAYS_MAX
               ? 0
               : ea_fail(err, EA_EUSAGE, "--days %" PRIu64 ": expected 1 to %d", days, DAYS_MAX);
}

int ec_ca_make_cert(const ec_ca *ca, const ec_ca_request *r, int64_t life_s, EVP_PKEY *key, X509 *c, ec_ca_row *row,
                    ea_err *err) {
    int rc = ec_ca_set_serial(c, row->serial, err);
    if (rc)
        return rc;
    int good = X509_set_version(c, X509_VERSION_3) == 1 && ec_ca_set_times(c, life_s) &&
               ec_ca_set_name(X509_get_subject_name(c), r->name) &&
               X509_set_issuer_name(c, X509_get_subject_name(ec_ca_own(ca))) == 1 && X509_set_pubkey(c, key) == 1;
    /* no longer than the CA itself */
    if (good && ASN1_TIME_compare(X509_get0_notAfter(c), X509_get0_notAfter(ec_ca_own(ca))) > 0)
        good = X509_set1_notAfter(c, X509_get0_notAfter(ec_ca_own(ca))) == 1;
    good = good && ec_ca_add_extension(c, ec_ca_own(ca), NID_basic_constraints, "critical,CA:FALSE") &&
           ec_ca_add_extension(c, ec_ca_own(ca), NID_key_usage, "critical,digitalSignature") &&
           ec_ca_add_extension(c, ec_ca_own(ca), NID_ext_key_usage, r->server ? "serverAuth" : "clientAuth") &&
           ec_ca_add_extension(c, ec_ca_own(ca), NID_subject_key_identifier, "hash") &&
           ec_ca_add_extension(c, ec_ca_own(ca), NID_authority_key_identifier, "keyid:always");
    if (!good)
        return ea_fail_crypto(err, "issue a certificate");
    if ((rc = add_sans(c, r, err)))
        return rc;
    int days, seconds;
    if (!ec_ca_sign_cert(c, ca->key) || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(c)) != 1)
        return ea_fail_crypto(err, "issue a certificate");
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    row->not_after_utc_ns = (now_s + days * DAY_S + seconds) * SECOND_NS;
    row->role = r->server ? EC_CA_SERVER : EC_CA_AGENT;
    memcpy(row->name, r->name, strlen(r->name) + 1);
    return 0;
}

/* ---- the revocation list ---- */

/* The list is valid as long as the CA: a program that enforces the date of an expired list would refuse all agents, and
 * a collector reads the list again whenever it changes. */
int ec_ca_write_crl(const ec_ca *ca, ea_err *err) {
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, -(long)SKEW_S);
    ASN1_INTEGER *crl_number = ASN1_INTEGER_new();
    /* later lists have larger numbers (RFC 5280, 5.2.3) */
    int good = crl && now && crl_number &&
               ASN1_INTEGER_set_uint64(crl_number, (uint64_t)(ea_utc_ns() / 1000000)) == 1 &&
               X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1 &&
               X509_CRL_set_issuer_name(crl, X509_get_subject_name(ec_ca_own(ca))) == 1 &&
               X509_CRL_set1_lastUpdate(crl, now) == 1 &&
               X509_CRL_set1_nextUpdate(crl, X509_get0_notAfter(ec_ca_own(ca))) == 1;
    for (size_t i = 0; good && i < ec_issuance_count(ca->log); i++) {
        const ec_ca_row *row = ec_issuance_row(ca->log, i);
        if (!row->revoked_utc_ns)
            continue;
        X509_REVOKED *revoked = X509_REVOKED_new();
        BIGNUM *n = NULL;
        ASN1_INTEGER *serial = BN_hex2bn(&n, row->serial) ? BN_to_ASN1_INTEGER(n, NULL) : NULL;
        ASN1_TIME *at = ASN1_TIME_set(NULL, (time_t)(row->revoked_utc_ns / SECOND_NS));
        good = revoked && serial && at && X509_REVOKED_set_serialNumber(revoked, serial) == 1 &&
               X509_REVOKED_set_revocationDate(revoked, at) == 1 && X509_CRL_add0_revoked(crl, revoked) == 1;
        if (!good)
            X509_REVOKED_free(revoked);
        BN_free(n);
        ASN1_INTEGER_free(serial);
        ASN1_TIME_free(at);
    }
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, ec_ca_own(ca), NULL, NULL, crl, 0);
    X509_EXTENSION *aki =
        good ? X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid:always") : NULL;
    good = good && aki && X509_CRL_add_ext(crl, aki, -1) == 1 &&
           X509_CRL_add1_ext_i2d(crl, NID_crl_number, crl_number, 0, X509V3_ADD_DEFAULT) == 1 &&
           X509_CRL_sort(crl) == 1 && ec_ca_sign_crl(crl, ca->key);
    BIO *bio = BIO_new(BIO_s_mem());
    char *path = ec_ca_path(ca->dir, "ca.crl", "");
    int rc = good && bio && path && PEM_write_bio_X509_CRL(bio, crl) == 1
                 ? ec_ca_write_bio(bio, path, 0, err)
                 : ea_fail_crypto(err, "make the revocation list");
    free(path);
    BIO_free(bio);
    X509_EXTENSION_free(aki);
    X509_CRL_free(crl);
    ASN1_TIME_free(now);
    ASN1_INTEGER_free(crl_number);
    return rc;
}
