/* The certificate authority. See ca.h. Certificates follow RFC 5280. */
#include "ca.h"
#include "clock.h"
#include "platform.h"
#include "text.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { SERIAL_BYTES = 16, FILE_MAX = 16 << 20, DAYS_MAX = 36500, SAN_TEXT_MAX = 255 };
static const int64_t SECOND_NS = 1000000000, DAY_S = 86400, SKEW_S = 300; /* clocks of a fleet differ a little */

/* What OpenSSL put on its queue, as an error of ours. */
static int crypto_failed(ea_err *err, const char *what) {
    char text[160] = "unknown reason";
    unsigned long code = ERR_peek_last_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return ea_fail(err, EA_ECRYPTO, "%s: %s", what, text);
}

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
    int rc = path ? ea_file_open(&f->lock, path, EA_OPEN_APPEND, err) : ea_fail(err, EA_ENOMEM, "lock %s", f->dir);
    if (!rc && (rc = ea_file_try_lock(f->lock, err)) == EA_EBUSY)
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
        return crypto_failed(err, "read the CA's certificate");
    rc = open_pem(dir, "ca.key", &bio, &data, err);
    if (!rc) {
        f->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
        BIO_free(bio);
        OPENSSL_cleanse(data, strlen(data));
        free(data);
        if (!f->key || X509_check_private_key(f->cert, f->key) != 1)
            rc = crypto_failed(err, "read the CA's key");
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
                 : crypto_failed(err, "write a key");
    BIO_free(bio);
    return rc;
}

static int write_cert(X509 *cert, const char *path, ea_err *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    int rc = bio && PEM_write_bio_X509(bio, cert) == 1 ? write_bio(bio, path, 0, err)
                                                       : crypto_failed(err, "write a certificate");
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

static int set_times(X509 *cert, uint64_t days) {
    return X509_gmtime_adj(X509_getm_notBefore(cert), -(long)SKEW_S) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(cert), (int)days, 0, NULL) != NULL;
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
        return crypto_failed(err, "make a serial number");
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
        rc = crypto_failed(err, "issue a certificate");
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
                 : crypto_failed(err, "make the revocation list");
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
            rc = crypto_failed(err, "make the CA's key");
    }
    if (!rc)
        rc = set_serial(f.cert, serial, err);
    if (!rc) {
        X509 *c = f.cert;
        int good = X509_set_version(c, X509_VERSION_3) == 1 && set_times(c, days) &&
                   set_name(X509_get_subject_name(c), name) && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
                   X509_set_pubkey(c, f.key) == 1 &&
                   add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                   add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                   add_extension(c, c, NID_subject_key_identifier, "hash") &&
                   add_extension(c, c, NID_authority_key_identifier, "keyid:always") &&
                   X509_sign(c, f.key, EVP_sha256()) > 0;
        if (!good)
            rc = crypto_failed(err, "make the CA's certificate");
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

static int make_cert(const folder *f, const ec_ca_request *r, EVP_PKEY *key, X509 *c, ec_ca_row *row, ea_err *err) {
    int rc = set_serial(c, row->serial, err);
    if (rc)
        return rc;
    int good = X509_set_version(c, X509_VERSION_3) == 1 && set_times(c, r->days) &&
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
        return crypto_failed(err, "issue a certificate");
    if ((rc = add_sans(c, r, err)))
        return rc;
    int days, seconds;
    if (X509_sign(c, f->key, EVP_sha256()) <= 0 || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(c)) != 1)
        return crypto_failed(err, "issue a certificate");
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
    rc = i->key && i->cert ? make_cert(f, r, i->key, i->cert, &row, err) : crypto_failed(err, "make a key");
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
