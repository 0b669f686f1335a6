/* The certificate authority. See ca.h. Certificates follow RFC 5280. */
#include "ca.h"
#include "clock.h"
#include "crypto_error.h"
#include "grants.h"
#include "pattern.h"
#include "platform.h"
#include "text.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { SERIAL_BYTES = 16, FILE_MAX = 16 << 20, DAYS_MAX = 36500, SAN_TEXT_MAX = 255 };
static const int64_t SECOND_NS = 1000000000, DAY_S = 86400, SKEW_S = 300; /* clocks of a fleet differ a little */
static const int64_t SKEW_PARTS = 12; /* ... and no more than this part of a short life */

static char *join(const char *dir, const char *name, const char *ending) {
    size_t n = strlen(dir) + strlen(name) + strlen(ending) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s%s", dir, name, ending);
    return path;
}

static int name_is_good(const char *name) {
    size_t n = strlen(name);
    return n >= 1 && n <= EC_CA_NAME_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

/* ---- the folder ---- */

typedef struct folder {
    const char *dir;
    ea_file *lock;
    EVP_PKEY *key; /* the CA's, when it was loaded */
    X509 *cert;
    ec_ca_row *rows; /* issued.tsv */
    size_t row_count;
} folder;

static void close_folder(folder *f) {
    EVP_PKEY_free(f->key);
    X509_free(f->cert);
    free(f->rows);
    ea_file_close(f->lock);
}

static int lock_folder(folder *f, ea_err *err) {
    char *path = join(f->dir, "lock", "");
    int rc = path ? ec_lock_wait(&f->lock, path, err) : ea_fail(err, EA_ENOMEM, "lock %s", f->dir);
    if (rc == EA_EBUSY)
        rc = ea_fail(err, EA_EBUSY, "the CA in %s is being changed by another process", f->dir);
    free(path);
    return rc;
}

/* One line of issued.tsv (without its end). */
static int parse_row(char *line, ec_ca_row *ret) {
    ec_ca_row row = {0};
    char *at = line, *fields[5];
    for (size_t i = 0; i < 5; i++) {
        fields[i] = at;
        at = i < 4 ? strchr(at, '\t') : NULL;
        if (i < 4 && !at)
            return 0;
        if (at)
            *at++ = 0;
    }
    size_t serial = strlen(fields[0]);
    if (serial == 0 || serial > EC_CA_SERIAL_HEX || strspn(fields[0], "0123456789abcdef") != serial ||
        !name_is_good(fields[4]))
        return 0;
    memcpy(row.serial, fields[0], serial + 1);
    row.server = strcmp(fields[1], "server") == 0;
    if ((!row.server && strcmp(fields[1], "agent") != 0) || ea_utc_ns_parse(fields[2], &row.not_after_utc_ns) ||
        (strcmp(fields[3], "-") != 0 && ea_utc_ns_parse(fields[3], &row.revoked_utc_ns)))
        return 0;
    memcpy(row.name, fields[4], strlen(fields[4]) + 1);
    *ret = row;
    return 1;
}

static int add_row(folder *f, const ec_ca_row *row, ea_err *err) {
    ec_ca_row *grown = realloc(f->rows, (f->row_count + 1) * sizeof *grown);
    if (!grown)
        return ea_fail(err, EA_ENOMEM, "read %s/issued.tsv", f->dir);
    f->rows = grown;
    f->rows[f->row_count++] = *row;
    return 0;
}

static int load_rows(folder *f, ea_err *err) {
    char *data = NULL, *path = join(f->dir, "issued.tsv", "");
    size_t len_bytes;
    if (!path)
        return ea_fail(err, EA_ENOMEM, "read %s/issued.tsv", f->dir);
    int rc = ea_path_read_all(path, FILE_MAX, &data, &len_bytes, err);
    size_t number = 0;
    for (char *line = data, *end; !rc && *line; line = end) {
        end = strchr(line, '\n');
        ec_ca_row row;
        number++;
        if (end)
            *end++ = 0;
        if (!end || !parse_row(line, &row))
            rc = ea_fail(err, EA_ECORRUPT, "read %s: line %zu is damaged", path, number);
        else
            rc = add_row(f, &row, err);
    }
    free(data);
    free(path);
    return rc;
}

static int save_rows(const folder *f, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; i < f->row_count; i++) {
        const ec_ca_row *row = &f->rows[i];
        ea_text_printf(&t, "%s\t%s\t", row->serial, row->server ? "server" : "agent");
        ea_text_utc_ns(&t, row->not_after_utc_ns);
        ea_text_char(&t, '\t');
        if (row->revoked_utc_ns)
            ea_text_utc_ns(&t, row->revoked_utc_ns);
        else
            ea_text_char(&t, '-');
        ea_text_printf(&t, "\t%s\n", row->name);
    }
    char *path = join(f->dir, "issued.tsv", "");
    int rc = t.failed || !path ? ea_fail(err, EA_ENOMEM, "write %s/issued.tsv", f->dir)
                               : ea_path_write_all(path, t.data ? t.data : "", t.len_bytes, 0, err);
    free(path);
    ea_text_deinit(&t);
    return rc;
}

/* The whole content of a file as a memory BIO; *ret_data is what it reads from. */
static int open_pem(const char *dir, const char *name, BIO **ret, char **ret_data, ea_err *err) {
    char *data = NULL, *path = join(dir, name, "");
    size_t len_bytes = 0;
    int rc = path ? ea_path_read_all(path, 1 << 20, &data, &len_bytes, err)
                  : ea_fail(err, EA_ENOMEM, "read %s/%s", dir, name);
    free(path);
    if (rc == EA_ENOTFOUND)
        return ea_fail(err, rc, "there is no CA in %s (%s is missing); 'etwcollector ca init --dir %s' makes one", dir,
                       name, dir);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(data, (int)len_bytes);
    if (!bio) {
        free(data);
        return ea_fail(err, EA_ENOMEM, "read %s/%s", dir, name);
    }
    *ret = bio;
    *ret_data = data;
    return 0;
}

static int open_folder(folder *f, const char *dir, ea_err *err) {
    BIO *bio;
    char *data;
    *f = (folder){.dir = dir};
    int rc = open_pem(dir, "ca.crt", &bio, &data, err);
    if (rc)
        return rc;
    f->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    free(data);
    if (!f->cert)
        return ea_fail_crypto(err, "read the CA's certificate");
    rc = open_pem(dir, "ca.key", &bio, &data, err);
    if (!rc) {
        f->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
        BIO_free(bio);
        OPENSSL_cleanse(data, strlen(data));
        free(data);
        if (!f->key || X509_check_private_key(f->cert, f->key) != 1)
            rc = ea_fail_crypto(err, "read the CA's key");
    }
    if (!rc)
        rc = lock_folder(f, err);
    if (!rc)
        rc = load_rows(f, err);
    return rc;
}

/* ---- certificates ---- */

static int write_bio(BIO *bio, const char *path, int private, ea_err *err) {
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    return ea_path_write_all(path, data, (size_t)n, private, err);
}

static int write_key(EVP_PKEY *key, const char *path, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_secmem());
    int rc = bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                 ? write_bio(bio, path, 1, err)
                 : ea_fail_crypto(err, "write a key");
    BIO_free(bio);
    return rc;
}

static int write_cert(X509 *cert, const char *path, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    int rc = bio && PEM_write_bio_X509(bio, cert) == 1 ? write_bio(bio, path, 0, err)
                                                       : ea_fail_crypto(err, "write a certificate");
    BIO_free(bio);
    return rc;
}

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value) {
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

static int set_times(X509 *cert, int64_t life_s) {
    return X509_gmtime_adj(X509_getm_notBefore(cert), -(long)skew_of(life_s)) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(cert), (int)(life_s / DAY_S), (long)(life_s % DAY_S), NULL) != NULL;
}

/* 16 random bytes, positive and not zero; ret_hex as in issued.tsv. */
static int set_serial(X509 *cert, char *ret_hex, ea_err *err) {
    uint8_t bytes[SERIAL_BYTES];
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

static int set_name(X509_NAME *name, const char *text) {
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

/* The CA's revocation list from issued.tsv's revoked rows. Valid as long as the CA: a list that expired would shut
 * everybody out, and a collector reads it again whenever it changes. */
static int write_crl(const folder *f, ea_err *err) {
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, -(long)SKEW_S);
    ASN1_INTEGER *crl_number = ASN1_INTEGER_new();
    /* later lists have larger numbers (RFC 5280, 5.2.3) */
    int good =
        crl && now && crl_number && ASN1_INTEGER_set_uint64(crl_number, (uint64_t)(ea_utc_ns() / 1000000)) == 1 &&
        X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1 &&
        X509_CRL_set_issuer_name(crl, X509_get_subject_name(f->cert)) == 1 && X509_CRL_set1_lastUpdate(crl, now) == 1 &&
        X509_CRL_set1_nextUpdate(crl, X509_get0_notAfter(f->cert)) == 1;
    for (size_t i = 0; good && i < f->row_count; i++) {
        const ec_ca_row *row = &f->rows[i];
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
    X509V3_set_ctx(&context, f->cert, NULL, NULL, crl, 0);
    X509_EXTENSION *aki =
        good ? X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid:always") : NULL;
    good = good && aki && X509_CRL_add_ext(crl, aki, -1) == 1 &&
           X509_CRL_add1_ext_i2d(crl, NID_crl_number, crl_number, 0, X509V3_ADD_DEFAULT) == 1 &&
           X509_CRL_sort(crl) == 1 && X509_CRL_sign(crl, f->key, EVP_sha256()) > 0;
    BIO *bio = BIO_new(BIO_s_mem());
    char *path = join(f->dir, "ca.crl", "");
    int rc = good && bio && path && PEM_write_bio_X509_CRL(bio, crl) == 1
                 ? write_bio(bio, path, 0, err)
                 : ea_fail_crypto(err, "make the revocation list");
    free(path);
    BIO_free(bio);
    X509_EXTENSION_free(aki);
    X509_CRL_free(crl);
    ASN1_TIME_free(now);
    ASN1_INTEGER_free(crl_number);
    return rc;
}

static int check_days(uint64_t days, ea_err *err) {
    return days >= 1 && days <= DAYS_MAX
               ? 0
               : ea_fail(err, EA_EUSAGE, "--days %" PRIu64 ": expected 1 to %d", days, DAYS_MAX);
}

int ec_ca_init(const char *dir, const char *name, uint64_t days, ea_err *err) {
    folder f = {.dir = dir};
    char serial[EC_CA_SERIAL_HEX + 1];
    char *key_path = join(dir, "ca.key", ""), *cert_path = join(dir, "ca.crt", "");
    int rc = key_path && cert_path ? check_days(days, err) : ea_fail(err, EA_ENOMEM, "make a CA in %s", dir);
    if (!rc && (!*name || strlen(name) > EC_CA_NAME_MAX))
        rc = ea_fail(err, EA_EUSAGE, "--name '%s': expected 1 to %d characters", name, EC_CA_NAME_MAX);
    if (!rc)
        rc = ea_path_make_dirs(dir, err);
    if (!rc)
        rc = lock_folder(&f, err);
    if (!rc && (ea_path_exists(key_path) || ea_path_exists(cert_path)))
        rc = ea_fail(err, EA_EEXIST, "make a CA in %s: there is one already, and it stays", dir);
    if (!rc) {
        f.key = EVP_EC_gen("P-256");
        f.cert = X509_new();
        if (!f.key || !f.cert)
            rc = ea_fail_crypto(err, "make the CA's key");
    }
    if (!rc)
        rc = set_serial(f.cert, serial, err);
    if (!rc) {
        X509 *c = f.cert;
        int good = X509_set_version(c, X509_VERSION_3) == 1 && set_times(c, (int64_t)days * DAY_S) &&
                   set_name(X509_get_subject_name(c), name) && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
                   X509_set_pubkey(c, f.key) == 1 &&
                   add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                   add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                   add_extension(c, c, NID_subject_key_identifier, "hash") &&
                   add_extension(c, c, NID_authority_key_identifier, "keyid:always") &&
                   X509_sign(c, f.key, EVP_sha256()) > 0;
        if (!good)
            rc = ea_fail_crypto(err, "make the CA's certificate");
    }
    /* the certificate last: without it the folder holds no CA yet */
    if (!rc)
        rc = write_key(f.key, key_path, err);
    if (!rc)
        rc = save_rows(&f, err);
    if (!rc)
        rc = write_crl(&f, err);
    if (!rc)
        rc = write_cert(f.cert, cert_path, err);
    free(key_path);
    free(cert_path);
    close_folder(&f);
    return rc;
}

static int make_cert(const folder *f, const ec_ca_request *r, int64_t life_s, EVP_PKEY *key, X509 *c, ec_ca_row *row,
                     ea_err *err) {
    int rc = set_serial(c, row->serial, err);
    if (rc)
        return rc;
    int good = X509_set_version(c, X509_VERSION_3) == 1 && set_times(c, life_s) &&
               set_name(X509_get_subject_name(c), r->name) &&
               X509_set_issuer_name(c, X509_get_subject_name(f->cert)) == 1 && X509_set_pubkey(c, key) == 1;
    /* no longer than the CA itself */
    if (good && ASN1_TIME_compare(X509_get0_notAfter(c), X509_get0_notAfter(f->cert)) > 0)
        good = X509_set1_notAfter(c, X509_get0_notAfter(f->cert)) == 1;
    good = good && add_extension(c, f->cert, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(c, f->cert, NID_key_usage, "critical,digitalSignature") &&
           add_extension(c, f->cert, NID_ext_key_usage, r->server ? "serverAuth" : "clientAuth") &&
           add_extension(c, f->cert, NID_subject_key_identifier, "hash") &&
           add_extension(c, f->cert, NID_authority_key_identifier, "keyid:always");
    if (!good)
        return ea_fail_crypto(err, "issue a certificate");
    if ((rc = add_sans(c, r, err)))
        return rc;
    int days, seconds;
    if (X509_sign(c, f->key, EVP_sha256()) <= 0 || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(c)) != 1)
        return ea_fail_crypto(err, "issue a certificate");
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    row->not_after_utc_ns = (now_s + days * DAY_S + seconds) * SECOND_NS;
    row->server = r->server;
    memcpy(row->name, r->name, strlen(r->name) + 1);
    return 0;
}

static int check_request(const ec_ca_request *r, ea_err *err) {
    if (!name_is_good(r->name))
        return ea_fail(err, EA_EUSAGE,
                       "--name '%s': expected 1 to %d of letters, digits, . _ -, not beginning with . or -", r->name,
                       EC_CA_NAME_MAX);
    if (strcmp(r->name, "ca") == 0)
        return ea_fail(err, EA_EUSAGE, "--name ca: the CA's own files have this name");
    if (r->san_count > EC_CA_SAN_MAX)
        return ea_fail(err, EA_EUSAGE, "--san: at most %d names", EC_CA_SAN_MAX);
    return check_days(r->days, err);
}

/* What one request makes, on its way to its files. */
typedef struct issue {
    char *key_path, *cert_path;
    EVP_PKEY *key;
    X509 *cert;
} issue;

static int make_issue(folder *f, const ec_ca_request *r, issue *i, char *ret_serial, ea_err *err) {
    const char *out = r->out_dir ? r->out_dir : f->dir;
    ec_ca_row row = {0};
    i->key_path = join(out, r->name, ".key");
    i->cert_path = join(out, r->name, ".crt");
    int rc = i->key_path && i->cert_path ? ea_path_make_dirs(out, err) : ea_fail(err, EA_ENOMEM, "issue a certificate");
    if (rc)
        return rc;
    if (ea_path_exists(i->key_path) || ea_path_exists(i->cert_path))
        return ea_fail(err, EA_EEXIST,
                       "issue a certificate: %s or %s is there already; move it away or choose another --out or --name",
                       i->key_path, i->cert_path);
    i->key = EVP_EC_gen("P-256");
    i->cert = X509_new();
    rc = i->key && i->cert ? make_cert(f, r, (int64_t)r->days * DAY_S, i->key, i->cert, &row, err)
                           : ea_fail_crypto(err, "make a key");
    if (!rc)
        rc = add_row(f, &row, err);
    if (!rc && ret_serial)
        memcpy(ret_serial, row.serial, sizeof row.serial);
    return rc;
}

static int issue_from(folder *f, const ec_ca_request *requests, size_t count, char *ret_serial, ea_err *err) {
    issue *issues = calloc(count, sizeof *issues);
    char serial[EC_CA_SERIAL_HEX + 1] = "";
    int rc = issues ? 0 : ea_fail(err, EA_ENOMEM, "issue certificates");
    for (size_t i = 0; !rc && i < count; i++)
        rc = make_issue(f, &requests[i], &issues[i], serial, err);
    /* noted before they are handed out: what is in nobody's list cannot be revoked */
    if (!rc)
        rc = save_rows(f, err);
    for (size_t i = 0; !rc && i < count; i++) {
        rc = write_key(issues[i].key, issues[i].key_path, err);
        if (!rc)
            rc = write_cert(issues[i].cert, issues[i].cert_path, err);
    }
    for (size_t i = 0; issues && i < count; i++) {
        EVP_PKEY_free(issues[i].key);
        X509_free(issues[i].cert);
        free(issues[i].key_path);
        free(issues[i].cert_path);
    }
    free(issues);
    if (!rc && ret_serial)
        memcpy(ret_serial, serial, sizeof serial);
    return rc;
}

int ec_ca_issue(const char *dir, const ec_ca_request *requests, size_t count, char *ret_serial, ea_err *err) {
    folder f = {.dir = dir};
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++)
        rc = check_request(&requests[i], err);
    if (rc || !count)
        return rc;
    rc = open_folder(&f, dir, err);
    if (!rc)
        rc = issue_from(&f, requests, count, ret_serial, err);
    close_folder(&f);
    return rc;
}

int ec_ca_revoke(const char *dir, const char *name_or_serial, size_t *ret_count, ea_err *err) {
    folder f = {.dir = dir};
    size_t found = 0, changed = 0;
    int rc = open_folder(&f, dir, err);
    int64_t now = ea_utc_ns() / SECOND_NS * SECOND_NS;
    for (size_t i = 0; !rc && i < f.row_count; i++) {
        if (strcmp(f.rows[i].name, name_or_serial) != 0 && strcmp(f.rows[i].serial, name_or_serial) != 0)
            continue;
        found++;
        if (!f.rows[i].revoked_utc_ns) {
            f.rows[i].revoked_utc_ns = now;
            changed++;
        }
    }
    if (!rc && !found)
        rc = ea_fail(err, EA_ENOTFOUND, "revoke '%s': this CA issued no certificate of that name or serial number",
                     name_or_serial);
    if (!rc && changed)
        rc = save_rows(&f, err);
    if (!rc) /* also when nothing changed: an earlier call may have been killed before it came to this */
        rc = write_crl(&f, err);
    if (!rc && !changed)
        rc = ea_fail(err, EA_EEXIST, "revoke '%s': it is revoked already", name_or_serial);
    if (!rc)
        *ret_count = changed;
    close_folder(&f);
    return rc;
}

/* ---- enrolment ---- */

/* What somebody asks for. */
typedef struct wish {
    X509_REQ *csr;
    EVP_PKEY *key; /* the request's, borrowed */
    uint8_t key_hash[EC_GRANT_KEY_BYTES];
    char name[EC_CA_NAME_MAX + 1]; /* its common name; "": none that could be an agent's */
} wish;

static int hash_key(EVP_PKEY *key, uint8_t out[EC_GRANT_KEY_BYTES]) {
    unsigned char *der = NULL;
    unsigned int n = 0;
    int len = i2d_PUBKEY(key, &der);
    int good = len > 0 && EVP_Digest(der, (size_t)len, out, &n, EVP_sha256(), NULL) == 1 && n == EC_GRANT_KEY_BYTES;
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

static void read_name(const X509_REQ *csr, char out[EC_CA_NAME_MAX + 1]) {
    const X509_NAME *subject = X509_REQ_get_subject_name(csr);
    int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
    const ASN1_STRING *text = at >= 0 ? X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)) : NULL;
    int n = text ? ASN1_STRING_length(text) : 0;
    out[0] = 0;
    if (n < 1 || n > EC_CA_NAME_MAX)
        return;
    memcpy(out, ASN1_STRING_get0_data(text), (size_t)n);
    out[n] = 0;
    if (strlen(out) != (size_t)n || !name_is_good(out))
        out[0] = 0;
}

static int read_wish(const char *pem, size_t len_bytes, wish *ret, ea_err *err) {
    BIO *bio = len_bytes <= EC_CA_CSR_MAX ? BIO_new_mem_buf(pem, (int)len_bytes) : NULL;
    ret->csr = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
    ret->key = ret->csr ? X509_REQ_get0_pubkey(ret->csr) : NULL;
    BIO_free(bio);
    int rc = 0;
    if (!ret->csr)
        rc = ea_fail(err, EA_EINVAL, "the request is no PKCS#10 request, PEM, of at most %d bytes", EC_CA_CSR_MAX);
    else if (!key_is_good(ret->key) || !hash_key(ret->key, ret->key_hash))
        rc = ea_fail(err, EA_EINVAL, "the request's key is none of EC P-256 or P-384");
    else if (X509_REQ_verify(ret->csr, ret->key) != 1)
        rc = ea_fail(err, EA_EINVAL, "the request is not signed with its own key");
    if (!rc)
        read_name(ret->csr, ret->name);
    ERR_clear_error();
    return rc;
}

/* The file of what a name got last. */
static char *enrolled_path(const folder *f, const char *name) {
    char *dir = join(f->dir, "enrolled", ""), *path = dir ? join(dir, name, ".crt") : NULL;
    free(dir);
    return path;
}

static const ec_ca_row *row_of(const folder *f, const char *serial) {
    for (size_t i = 0; i < f->row_count; i++)
        if (strcmp(f->rows[i].serial, serial) == 0)
            return &f->rows[i];
    return NULL;
}

/* The certificate that this key got already, when it is valid: the caller frees it. */
static X509 *got_before(const folder *f, const char *name, const wish *w, char ret_serial[EC_CA_SERIAL_HEX + 1]) {
    char *path = enrolled_path(f, name), *pem = NULL;
    size_t len_bytes = 0;
    uint8_t hash[EC_GRANT_KEY_BYTES];
    if (!path || !ea_path_exists(path) || ea_path_read_all(path, 1 << 16, &pem, &len_bytes, NULL)) {
        free(path);
        return NULL;
    }
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIGNUM *n = cert ? ASN1_INTEGER_to_BN(X509_get0_serialNumber(cert), NULL) : NULL;
    uint8_t serial[SERIAL_BYTES];
    int good = n && BN_bn2binpad(n, serial, sizeof serial) == (int)sizeof serial &&
               hash_key(X509_get0_pubkey(cert), hash) && memcmp(hash, w->key_hash, sizeof hash) == 0 &&
               X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
    for (size_t i = 0; good && i < sizeof serial; i++)
        snprintf(ret_serial + 2 * i, 3, "%02x", serial[i]);
    const ec_ca_row *row = good ? row_of(f, ret_serial) : NULL;
    if (!row || row->revoked_utc_ns) { /* without a row it never left */
        X509_free(cert);
        cert = NULL;
    }
    BN_free(n);
    BIO_free(bio);
    free(pem);
    free(path);
    ERR_clear_error();
    return cert;
}

/* 1 when a certificate of this name is valid: two machines under one name would be told apart by nobody. */
static int is_taken(const folder *f, const char *name) {
    int64_t now = ea_utc_ns();
    for (size_t i = 0; i < f->row_count; i++)
        if (strcmp(f->rows[i].name, name) == 0 && !f->rows[i].revoked_utc_ns && f->rows[i].not_after_utc_ns > now)
            return 1;
    return 0;
}

static int put_pem(const folder *f, X509 *cert, ec_ca_enrolled *ret, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    long n = bio && PEM_write_bio_X509(bio, cert) == 1 && PEM_write_bio_X509(bio, f->cert) == 1
                 ? BIO_get_mem_data(bio, &data)
                 : 0;
    ret->pem = n > 0 ? malloc((size_t)n + 1) : NULL;
    int rc = ret->pem ? 0 : ea_fail_crypto(err, "answer with a certificate");
    if (!rc) {
        memcpy(ret->pem, data, (size_t)n);
        ret->pem[n] = 0;
        ret->pem_bytes = (size_t)n;
    }
    BIO_free(bio);
    return rc;
}

/* Notes the certificate, and keeps it for those who ask again. */
static int keep(folder *f, X509 *cert, const ec_ca_row *row, ea_err *err) {
    char *path = enrolled_path(f, row->name);
    int rc = path ? ea_path_make_parent(path, err) : ea_fail(err, EA_ENOMEM, "enroll %s", row->name);
    if (!rc)
        rc = write_cert(cert, path, err);
    if (!rc)
        rc = add_row(f, row, err);
    if (!rc)
        rc = save_rows(f, err);
    free(path);
    return rc;
}

/* Signs the wish for a name. before is asked with the certificate made and before it is kept anywhere. */
static int sign_wish(folder *f, const wish *w, const char *name, int64_t life_s,
                     int (*before)(void *arg, const X509 *cert, ea_err *err), void *arg, ec_ca_enrolled *ret,
                     ea_err *err) {
    ec_ca_row row = {0};
    X509 *cert = X509_new();
    ec_ca_request r = {.name = name};
    int rc = cert ? make_cert(f, &r, life_s, w->key, cert, &row, err) : ea_fail(err, EA_ENOMEM, "enroll %s", name);
    if (!rc)
        rc = before(arg, cert, err);
    if (!rc)
        rc = keep(f, cert, &row, err);
    if (!rc)
        rc = put_pem(f, cert, ret, err);
    if (!rc)
        memcpy(ret->serial, row.serial, sizeof row.serial);
    X509_free(cert);
    return rc;
}

/* The name that the token gives to who asks for this. */
static int choose_name(const ec_grant *g, const wish *w, char out[EC_CA_NAME_MAX + 1], ea_err *err) {
    const char *name = ec_grant_fixed_name(g);
    if (!name && !w->name[0])
        return ea_fail(err, EA_EINVAL,
                       "the request names nobody: expected a common name of letters, digits, . _ -, and this token is "
                       "for %s",
                       g->names);
    if (!name && !ea_name_in(g->names, w->name))
        return ea_fail(err, EA_EREFUSED, "the token is for the names %s, not for %s", g->names, w->name);
    if (!name)
        name = w->name;
    if (!name_is_good(name))
        return ea_fail(err, EA_EREFUSED, "the token's name %s cannot be a certificate's", name);
    memcpy(out, name, strlen(name) + 1);
    return 0;
}

typedef struct taking {
    const char *dir;
    ec_grant *grants, *grant;
    size_t count;
    const wish *w;
} taking;

/* Takes a use, unless the last one was for this key and came to nothing. */
static int take_use(void *arg, const X509 *cert, ea_err *err) {
    taking *t = arg;
    ec_grant *g = t->grant;
    (void)cert;
    if (g->has_key && memcmp(g->key, t->w->key_hash, sizeof g->key) == 0)
        return 0;
    g->uses_left--;
    g->has_key = 1;
    memcpy(g->key, t->w->key_hash, sizeof g->key);
    return ec_grants_write(t->dir, t->grants, t->count, err);
}

static int enroll_with(folder *f, taking *t, ec_ca_enrolled *ret, ea_err *err) {
    ec_grant *g = t->grant;
    const wish *w = t->w;
    int rc = choose_name(g, w, ret->name, err);
    if (rc)
        return rc;
    X509 *before = got_before(f, ret->name, w, ret->serial);
    if (before) {
        rc = put_pem(f, before, ret, err);
        X509_free(before);
        return rc;
    }
    if (is_taken(f, ret->name))
        return ea_fail(
            err, EA_EEXIST,
            "a certificate of %s is valid already: 'etwcollector ca revoke %s' makes room for another machine "
            "of this name",
            ret->name, ret->name);
    int interrupted = g->has_key && memcmp(g->key, w->key_hash, sizeof g->key) == 0;
    if (!g->uses_left && !interrupted)
        return ea_fail(err, EA_EREFUSED, "the token is used up");
    return sign_wish(f, w, ret->name, g->life_s, take_use, t, ret, err);
}

int ec_ca_enroll(const char *dir, const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret,
                 ea_err *err) {
    folder f = {.dir = dir};
    wish w = {.csr = NULL};
    taking t = {.dir = dir, .w = &w};
    ea_file *lock = NULL;
    *ret = (ec_ca_enrolled){.pem = NULL};
    int rc = ec_grants_lock(dir, &lock, err);
    if (!rc)
        rc = ec_grants_read(dir, &t.grants, &t.count, err);
    if (rc == EA_EREFUSED) /* the file's mode: not the fault of who asks */
        rc = EA_EIO;
    if (!rc && !(t.grant = ec_grants_find(t.grants, t.count, token)))
        rc = ea_fail(err, EA_EREFUSED, "the token is wrong, or was revoked, or expired long ago");
    if (!rc) {
        memcpy(ret->token, t.grant->secret.id, sizeof ret->token);
        if (t.grant->expires_s <= ea_utc_ns() / SECOND_NS)
            rc = ea_fail(err, EA_EREFUSED, "the token has expired");
    }
    if (!rc) /* nobody without a token has a request read */
        rc = read_wish(csr, len_bytes, &w, err);
    if (!rc)
        rc = open_folder(&f, dir, err);
    if (!rc)
        rc = enroll_with(&f, &t, ret, err);
    X509_REQ_free(w.csr);
    free(t.grants);
    close_folder(&f);
    ea_file_close(lock);
    return rc;
}

/* A renewal that gives no more time is none. */
static int outlives(void *arg, const X509 *cert, ea_err *err) {
    const ec_ca_holder *holder = arg;
    time_t end = (time_t)holder->not_after_s;
    return X509_cmp_time(X509_get0_notAfter(cert), &end) > 0
               ? 0
               : ea_fail(err, EA_EREFUSED, "the CA itself ends with the certificate: it gives no longer one");
}

int ec_ca_renew(const char *dir, const ec_ca_holder *holder, const char *csr, size_t len_bytes, ec_ca_enrolled *ret,
                ea_err *err) {
    folder f = {.dir = dir};
    wish w = {.csr = NULL};
    ec_ca_holder now = *holder;
    int64_t whole_s = holder->not_after_s - holder->not_before_s, now_s = ea_utc_ns() / SECOND_NS;
    /* what set_times made of a life, the other way round */
    int64_t life_s = whole_s - SKEW_S >= SKEW_S * SKEW_PARTS ? whole_s - SKEW_S : whole_s - whole_s / (SKEW_PARTS + 1);
    *ret = (ec_ca_enrolled){.pem = NULL};
    snprintf(ret->name, sizeof ret->name, "%s", holder->name);
    int rc = read_wish(csr, len_bytes, &w, err);
    if (!rc)
        rc = open_folder(&f, dir, err);
    const ec_ca_row *row = rc ? NULL : row_of(&f, holder->serial);
    if (row && row->revoked_utc_ns)
        rc = ea_fail(err, EA_EREFUSED, "the certificate is revoked");
    X509 *before = rc ? NULL : got_before(&f, ret->name, &w, ret->serial);
    if (before)
        rc = put_pem(&f, before, ret, err);
    else if (!rc && holder->not_after_s - now_s > whole_s / 2)
        rc = ea_fail(err, EA_ELIMIT, "more than half of the certificate's life is left: it is renewed later");
    else if (!rc && life_s <= 0)
        rc = ea_fail(err, EA_EINVAL, "the certificate has no life");
    else if (!rc)
        rc = sign_wish(&f, &w, ret->name, life_s, outlives, &now, ret, err);
    X509_free(before);
    X509_REQ_free(w.csr);
    close_folder(&f);
    return rc;
}

int ec_ca_each(const char *dir, int (*fn)(const ec_ca_row *row, void *arg), void *arg, ea_err *err) {
    folder f = {.dir = dir};
    int rc = load_rows(&f, err);
    if (rc == EA_ENOTFOUND)
        rc = ea_fail(err, rc, "there is no CA in %s; 'etwcollector ca init --dir %s' makes one", dir, dir);
    for (size_t i = 0; !rc && i < f.row_count; i++)
        if ((rc = fn(&f.rows[i], arg)) > 0)
            break;
    close_folder(&f);
    return rc;
}
