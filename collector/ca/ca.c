/* The certificate authority: its folder, what its commands do. See ca.h. */
#include "collector/ca/ca_parts.h"

#include "proto/base/array.h"
#include "proto/base/crypto_error.h"
#include "proto/base/pattern.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000, DAY_S = 86400;

/* ---- the folder ---- */

void ec_ca_close(ec_ca *ca) {
    if (!ca)
        return;
    EVP_PKEY_free(ca->key);
    sk_X509_pop_free(ca->chain, X509_free);
    X509_STORE_free(ca->trust);
    ec_issuance_close(ca->log);
    ea_file_close(ca->lock);
    free(ca->dir);
    free(ca);
}

int ec_ca_lock_folder(const char *dir, ea_file **ret, ea_err *err) {
    char *path = ec_ca_path(dir, "lock", "");
    int rc = path ? ec_lock_wait(ret, path, err) : ea_fail(err, EA_ENOMEM, "lock %s", dir);
    if (rc == EA_EBUSY)
        rc = ea_fail(err, EA_EBUSY, "the CA in %s is being changed by another process", dir);
    free(path);
    return rc;
}

int ec_ca_lock(ec_ca *ca, ea_err *err) {
    int rc = ec_ca_lock_folder(ca->dir, &ca->lock, err);
    if (rc)
        return rc;
    rc = ca->log ? ec_issuance_catch_up(ca->log, err) : ec_issuance_open(&ca->log, ca->dir, 1, err);
    if (!rc)
        rc = ec_issuance_compact(ca->log, ea_utc_ns(), err);
    if (rc)
        ec_ca_unlock(ca, rc);
    return rc;
}

void ec_ca_unlock(ec_ca *ca, int rc) {
    if (rc == EA_EIO || rc == EA_ECORRUPT || rc == EA_ENOMEM) { /* it is read anew by the next operation */
        ec_issuance_close(ca->log);
        ca->log = NULL;
    }
    ea_file_close(ca->lock);
    ca->lock = NULL;
}

static int read_own(ec_ca *ca, ea_err *err) {
    char *pem = NULL, *path = ec_ca_path(ca->dir, "ca.crt", "");
    size_t len_bytes = 0;
    int rc = path ? ea_path_read_all(path, EC_CA_FILE_MAX, &pem, &len_bytes, err)
                  : ea_fail(err, EA_ENOMEM, "read %s/ca.crt", ca->dir);
    if (rc == EA_ENOTFOUND)
        rc = ea_fail(err, rc, "there is no CA in %s (ca.crt is missing); 'etwcollector ca init --dir %s' makes one",
                     ca->dir, ca->dir);
    if (!rc)
        rc = ec_ca_read_chain(pem, len_bytes, path, &ca->chain, err);
    free(pem);
    free(path);
    return rc;
}

/* Whose certificates are renewed: those that the listener trusts, or the CA's own. */
static int read_trust(ec_ca *ca, const char *path, ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0;
    STACK_OF(X509) *roots = NULL;
    int rc = 0, good = (ca->trust = X509_STORE_new()) != NULL;
    if (path) {
        rc = ea_path_read_all(path, EC_CA_FILE_MAX, &pem, &len_bytes, err);
        if (!rc)
            rc = ec_ca_read_chain(pem, len_bytes, path, &roots, err);
        free(pem);
    }
    const STACK_OF(X509) *trusted = path ? roots : ca->chain;
    for (int i = 0; !rc && good && i < sk_X509_num(trusted); i++)
        good = X509_STORE_add_cert(ca->trust, sk_X509_value(trusted, i)) == 1;
    if (!rc && (!good || X509_STORE_set_purpose(ca->trust, X509_PURPOSE_SSL_CLIENT) != 1))
        rc = ea_fail_crypto(err, "read the CA's certificate");
    sk_X509_pop_free(roots, X509_free);
    return rc;
}

int ec_ca_open(ec_ca **ret, const char *dir, const char *trust_path, ea_err *err) {
    ec_ca *ca = calloc(1, sizeof *ca);
    if (!ca || !(ca->dir = strdup(dir))) {
        free(ca);
        return ea_fail(err, EA_ENOMEM, "open the CA in %s", dir);
    }
    int rc = read_own(ca, err);
    if (!rc)
        rc = read_trust(ca, trust_path, err);
    if (!rc)
        rc = ec_ca_key_load(dir, &ca->key, err);
    if (!rc && X509_check_private_key(ec_ca_own(ca), ca->key) != 1)
        rc = ea_fail_crypto(err, "the CA's key does not belong to its certificate");
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc)
        ec_ca_unlock(ca, 0);
    if (rc) {
        ec_ca_close(ca);
        return rc;
    }
    *ret = ca;
    return 0;
}

int ec_ca_make_crl(ec_ca *ca, int only_missing, ea_err *err) {
    char *path = ec_ca_path(ca->dir, "ca.crl", "");
    int rc = path ? ec_ca_lock(ca, err) : ea_fail(err, EA_ENOMEM, "write %s/ca.crl", ca->dir);
    if (!rc) {
        if (!only_missing || !ea_path_exists(path))
            rc = ec_ca_write_crl(ca, err);
        ec_ca_unlock(ca, rc);
    }
    free(path);
    return rc;
}

/* ---- issue ---- */

static int check_request(const ec_ca_request *r, ea_err *err) {
    if (!ec_ca_name_is_good(r->name))
        return ea_fail(err, EA_EUSAGE,
                       "--name '%s': expected 1 to %d of letters, digits, . _ -, not beginning with . or -", r->name,
                       EC_CA_NAME_MAX);
    if (ea_name_equal(r->name, "ca"))
        return ea_fail(err, EA_EUSAGE, "--name ca: the CA's own files have this name");
    if (r->san_count > EC_CA_SAN_MAX)
        return ea_fail(err, EA_EUSAGE, "--san: at most %d names", EC_CA_SAN_MAX);
    return ec_ca_check_days(r->days, err);
}

/* What one request makes, on its way to its files. */
typedef struct issue {
    char *key_path, *cert_path;
    EVP_PKEY *key;
    X509 *cert;
} issue;

static int make_issue(const ec_ca *ca, const ec_ca_request *r, issue *i, ec_ca_row *row, ea_err *err) {
    const char *out = r->out_dir ? r->out_dir : ca->dir;
    i->key_path = ec_ca_path(out, r->name, ".key");
    i->cert_path = ec_ca_path(out, r->name, ".crt");
    int rc = i->key_path && i->cert_path ? ea_path_make_dirs(out, err) : ea_fail(err, EA_ENOMEM, "issue a certificate");
    if (rc)
        return rc;
    if (ea_path_exists(i->key_path) || ea_path_exists(i->cert_path))
        return ea_fail(err, EA_EEXIST,
                       "issue a certificate: %s or %s is there already; move it away or choose another --out or --name",
                       i->key_path, i->cert_path);
    i->key = EVP_EC_gen("P-256");
    i->cert = X509_new();
    return i->key && i->cert ? ec_ca_make_cert(ca, r, (int64_t)r->days * DAY_S, i->key, i->cert, row, err)
                             : ea_fail_crypto(err, "make a key");
}

static int write_issue(const ec_ca *ca, const issue *i, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    int rc = bio ? ec_ca_write_key(i->key, i->key_path, err) : ea_fail(err, EA_ENOMEM, "issue a certificate");
    if (!rc)
        rc = ec_ca_put_chain(ca, i->cert, 0, bio, err);
    if (!rc)
        rc = ec_ca_write_bio(bio, i->cert_path, 0, err);
    BIO_free(bio);
    return rc;
}

static int issue_from(ec_ca *ca, const ec_ca_request *requests, size_t count, char *ret_serial, ea_err *err) {
    issue *issues = calloc(count, sizeof *issues);
    ec_ca_row *rows = calloc(count, sizeof *rows);
    int rc = issues && rows ? 0 : ea_fail(err, EA_ENOMEM, "issue certificates");
    for (size_t i = 0; !rc && i < count; i++)
        rc = make_issue(ca, &requests[i], &issues[i], &rows[i], err);
    /* logged before they are handed out: a certificate that is missing from the log cannot be revoked */
    if (!rc)
        rc = ec_issuance_add(ca->log, rows, count, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = write_issue(ca, &issues[i], err);
    if (!rc && ret_serial)
        memcpy(ret_serial, rows[count - 1].serial, sizeof rows->serial);
    for (size_t i = 0; issues && i < count; i++) {
        EVP_PKEY_free(issues[i].key);
        X509_free(issues[i].cert);
        free(issues[i].key_path);
        free(issues[i].cert_path);
    }
    free(issues);
    free(rows);
    return rc;
}

int ec_ca_issue(const char *dir, const ec_ca_request *requests, size_t count, char *ret_serial, ea_err *err) {
    ec_ca *ca = NULL;
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++)
        rc = check_request(&requests[i], err);
    if (rc || !count)
        return rc;
    rc = ec_ca_open(&ca, dir, NULL, err);
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc) {
        rc = issue_from(ca, requests, count, ret_serial, err);
        ec_ca_unlock(ca, rc);
    }
    ec_ca_close(ca);
    return rc;
}

/* ---- revoke ---- */

/* Appends the revoked rows of a name or serial number. */
static int revoke_rows(ec_ca *ca, const char *name_or_serial, size_t *ret_changed, ea_err *err) {
    const ec_ca_row *row = ec_issuance_find(ca->log, name_or_serial);
    ec_ca_row *rows = NULL;
    size_t found = row != NULL, changed = 0, capacity = 0;
    int64_t now = ea_utc_ns() / SECOND_NS * SECOND_NS;
    int rc = 0;
    if (!row)
        row = ec_issuance_next_of_name(ca->log, name_or_serial, NULL);
    for (int by_name = !found; !rc && row;
         row = by_name ? ec_issuance_next_of_name(ca->log, name_or_serial, row) : NULL) {
        found++;
        if (row->revoked_utc_ns)
            continue;
        if (EA_GROW(rows, capacity, changed + 1, SIZE_MAX)) {
            rc = ea_fail(err, EA_ENOMEM, "revoke '%s'", name_or_serial);
        } else {
            rows[changed] = *row;
            rows[changed++].revoked_utc_ns = now;
        }
    }
    if (!rc && !found)
        rc = ea_fail(err, EA_ENOTFOUND,
                     "revoke '%s': this CA issued no certificate of that name or serial number, or it expired long ago",
                     name_or_serial);
    if (!rc && changed)
        rc = ec_issuance_add(ca->log, rows, changed, err);
    free(rows);
    if (!rc)
        *ret_changed = changed;
    return rc;
}

int ec_ca_revoke(const char *dir, const char *name_or_serial, size_t *ret_count, ea_err *err) {
    ec_ca *ca = NULL;
    size_t changed = 0;
    int rc = ec_ca_open(&ca, dir, NULL, err);
    if (!rc)
        rc = ec_ca_lock(ca, err);
    if (!rc) {
        rc = revoke_rows(ca, name_or_serial, &changed, err);
        if (!rc) /* also when nothing changed: an earlier call may have been killed before it came to this */
            rc = ec_ca_write_crl(ca, err);
        ec_ca_unlock(ca, rc);
    }
    if (!rc && !changed)
        rc = ea_fail(err, EA_EEXIST, "revoke '%s': it is revoked already", name_or_serial);
    if (!rc)
        *ret_count = changed;
    ec_ca_close(ca);
    return rc;
}

int ec_ca_each(const char *dir, int (*fn)(const ec_ca_row *row, void *arg), void *arg, ea_err *err) {
    ec_issuance *log = NULL;
    int rc = ec_issuance_open(&log, dir, 0, err);
    if (rc == EA_ENOTFOUND)
        rc = ea_fail(err, rc, "there is no CA in %s; 'etwcollector ca init --dir %s' makes one", dir, dir);
    for (size_t i = 0; !rc && i < ec_issuance_count(log); i++)
        if ((rc = fn(ec_issuance_row(log, i), arg)) > 0)
            break;
    ec_issuance_close(log);
    return rc;
}
