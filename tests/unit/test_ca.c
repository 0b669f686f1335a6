/* The certificate authority: what it issues is good for what it says and nothing else, checked by OpenSSL's verifier.
 */
#include "collector/ca/ca.h"
#include "collector/ca/enroll_tokens.h"
#include "collector/ca/issuance.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "tests/unit/scratch.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static X509 *read_cert(const char *name) {
    FILE *f = fopen(scratch_path(name), "r");
    assert_non_null(f);
    X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(cert);
    return cert;
}

static EVP_PKEY *read_key(const char *name) {
    FILE *f = fopen(scratch_path(name), "r");
    assert_non_null(f);
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(key);
    return key;
}

/* OpenSSL's verdict on a certificate for a purpose, with the revocation list. */
static int verdict(const char *name, int purpose) {
    X509 *ca = read_cert("ca.crt"), *cert = read_cert(name);
    FILE *f = fopen(scratch_path("ca.crl"), "r");
    assert_non_null(f);
    X509_CRL *crl = PEM_read_X509_CRL(f, NULL, NULL, NULL);
    fclose(f);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_add_cert(store, ca);
    X509_STORE_add_crl(store, crl);
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_X509_STRICT);
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509_STORE_CTX_init(ctx, store, cert, NULL);
    X509_STORE_CTX_set_purpose(ctx, purpose);
    int rc = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_CRL_free(crl);
    X509_free(ca);
    X509_free(cert);
    return rc;
}

static void init(void) {
    ea_err err;
    must(ec_ca_init(scratch, &(ec_ca_init_options){.name = "test CA", .days = 100}, &err), &err);
}

static int issue(const char *name, int server, const char *const *sans, size_t count, ea_err *err) {
    return ec_ca_issue(scratch,
                       &(ec_ca_request){.name = name, .server = server, .sans = sans, .san_count = count, .days = 30},
                       1, NULL, err);
}

static void agents_and_collectors(void **state) {
    (void)state;
    static const char *const SANS[] = {"DNS:collector.example", "IP:192.0.2.7", "IP:2001:db8::7"};
    ea_err err;
    init();
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    must(issue("server", 1, SANS, 3, &err), &err);
    assert_int_equal(verdict("agent-1.crt", X509_PURPOSE_SSL_CLIENT), X509_V_OK);
    assert_int_equal(verdict("agent-1.crt", X509_PURPOSE_SSL_SERVER), X509_V_ERR_INVALID_PURPOSE);
    assert_int_equal(verdict("server.crt", X509_PURPOSE_SSL_SERVER), X509_V_OK);
    assert_int_equal(verdict("server.crt", X509_PURPOSE_SSL_CLIENT), X509_V_ERR_INVALID_PURPOSE);
    X509 *server = read_cert("server.crt"), *agent = read_cert("agent-1.crt");
    assert_int_equal(X509_check_host(server, "collector.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(server, "192.0.2.7", 0), 1);
    assert_int_equal(X509_check_ip_asc(server, "2001:db8::7", 0), 1);
    assert_int_equal(X509_check_host(server, "elsewhere.example", 0, 0, NULL), 0);
    assert_int_equal(X509_check_host(agent, "agent-1", 0, 0, NULL), 1);
    char name[80];
    X509_NAME_get_text_by_NID(X509_get_subject_name(agent), NID_commonName, name, sizeof name);
    assert_string_equal(name, "agent-1");
    EVP_PKEY *key = read_key("agent-1.key");
    assert_int_equal(X509_check_private_key(agent, key), 1);
    assert_int_equal(X509_check_ca(agent), 0);
    assert_true(ASN1_INTEGER_cmp(X509_get0_serialNumber(agent), X509_get0_serialNumber(server)) != 0);
    EVP_PKEY_free(key);
    X509_free(server);
    X509_free(agent);
}

static void an_agent_cannot_issue(void **state) {
    (void)state;
    ea_err err;
    init();
    X509 *ca = read_cert("ca.crt");
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_get_pathlen(ca), 0);
    assert_int_equal(X509_get_key_usage(ca), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    X509_free(ca);
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    X509 *agent = read_cert("agent-1.crt");
    assert_int_equal(X509_get_key_usage(agent), KU_DIGITAL_SIGNATURE);
    X509_free(agent);
}

static void keys_are_private_and_stay(void **state) {
    (void)state;
    ea_err err;
    struct stat st;
    init();
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    static const char *const KEYS[] = {"ca.key", "agent-1.key"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(stat(scratch_path(KEYS[i]), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    char *before, *after;
    size_t n, m;
    must(ea_path_read_all(scratch_path("ca.key"), 1 << 16, &before, &n, &err), &err);
    assert_int_equal(ec_ca_init(scratch, &(ec_ca_init_options){.name = "another", .days = 100}, &err), EA_EEXIST);
    assert_int_equal(issue("agent-1", 0, NULL, 0, &err), EA_EEXIST);
    must(ea_path_read_all(scratch_path("ca.key"), 1 << 16, &after, &m, &err), &err);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void revoked_means_revoked(void **state) {
    (void)state;
    ea_err err;
    size_t count;
    char serial[EC_CA_SERIAL_HEX + 1];
    init();
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    must(ec_ca_issue(scratch, &(ec_ca_request){.name = "agent-2", .days = 30}, 1, serial, &err), &err);
    must(issue("agent-3", 0, NULL, 0, &err), &err);
    must(ec_ca_revoke(scratch, "agent-1", &count, &err), &err);
    assert_int_equal(count, 1);
    must(ec_ca_revoke(scratch, serial, &count, &err), &err);
    assert_int_equal(verdict("agent-1.crt", X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
    assert_int_equal(verdict("agent-2.crt", X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
    assert_int_equal(verdict("agent-3.crt", X509_PURPOSE_SSL_CLIENT), X509_V_OK);
    assert_int_equal(ec_ca_revoke(scratch, "agent-1", &count, &err), EA_EEXIST);
    assert_int_equal(ec_ca_revoke(scratch, "agent-9", &count, &err), EA_ENOTFOUND);
    /* a new one under the old name is good; both go when the name is revoked again */
    assert_int_equal(remove(scratch_path("agent-1.crt")) | remove(scratch_path("agent-1.key")), 0);
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    assert_int_equal(verdict("agent-1.crt", X509_PURPOSE_SSL_CLIENT), X509_V_OK);
    must(ec_ca_revoke(scratch, "agent-1", &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(verdict("agent-1.crt", X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
}

static void names_are_checked(void **state) {
    (void)state;
    static const char *const BAD[] = {
        "",    "../x", ".x",          "-x", "a b",
        "a/b", "a\nb", "caf\xc3\xa9", "ca", "01234567890123456789012345678901234567890123456789012345678901234"};
    static const char *const BAD_SANS[] = {"localhost",        "DNS:",          "IP:localhost", "IP:1.2.3.4.5",
                                           "DNS:a,IP:1.2.3.4", "URI:https://a", "DNS:a b"};
    ea_err err;
    assert_int_equal(issue("agent-1", 0, NULL, 0, &err), EA_ENOTFOUND);
    assert_non_null(strstr(err.message, "ca init"));
    init();
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(issue(BAD[i], 0, NULL, 0, &err), EA_EUSAGE);
    for (size_t i = 0; i < sizeof BAD_SANS / sizeof *BAD_SANS; i++)
        assert_int_equal(issue("server", 1, &BAD_SANS[i], 1, &err), EA_EUSAGE);
    assert_int_equal(ec_ca_issue(scratch, &(ec_ca_request){.name = "a", .days = 0}, 1, NULL, &err), EA_EUSAGE);
    assert_int_equal(ec_ca_issue(scratch, &(ec_ca_request){.name = "a", .days = UINT64_MAX}, 1, NULL, &err), EA_EUSAGE);
    assert_false(ea_path_exists(scratch_path("server.key")));
    must(issue("0123456789012345678901234567890123456789012345678901234567890123", 0, NULL, 0, &err), &err);
}

static int compare_row(const ec_ca_row *row, void *arg) {
    size_t *n = arg;
    static const char *const NAMES[] = {"server", "agent-1"};
    assert_string_equal(row->name, NAMES[*n]);
    assert_int_equal(row->role, *n == 0 ? EC_CA_SERVER : EC_CA_AGENT);
    assert_int_equal(row->revoked_utc_ns != 0, *n == 1);
    int64_t days = (row->not_after_utc_ns - ea_utc_ns()) / 1000000000 / 86400;
    assert_in_range(days, 29, 30);
    assert_int_equal(strlen(row->serial), 32);
    ++*n;
    return 0;
}

static void what_was_issued_is_listed(void **state) {
    (void)state;
    ea_err err;
    size_t n = 0;
    init();
    must(issue("server", 1, NULL, 0, &err), &err);
    must(issue("agent-1", 0, NULL, 0, &err), &err);
    must(ec_ca_revoke(scratch, "agent-1", &n, &err), &err);
    n = 0;
    must(ec_ca_each(scratch, compare_row, &n, &err), &err);
    assert_int_equal(n, 2);
    must(ea_path_write_all(scratch_path("issued.tsv"), "what\n", 5, 0, &err), &err);
    assert_int_equal(ec_ca_each(scratch, compare_row, &n, &err), EA_ECORRUPT);
    assert_int_equal(issue("agent-2", 0, NULL, 0, &err), EA_ECORRUPT);
}

static void not_longer_than_the_ca(void **state) {
    (void)state;
    ea_err err;
    init();
    must(ec_ca_issue(scratch, &(ec_ca_request){.name = "agent-1", .days = 2000}, 1, NULL, &err), &err);
    X509 *ca = read_cert("ca.crt"), *agent = read_cert("agent-1.crt");
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(ca), X509_get0_notAfter(agent)), 0);
    X509_free(ca);
    X509_free(agent);
}

static int enroll(const char *token, const char *csr, size_t len_bytes, ec_ca_enrolled *ret, ea_err *err) {
    ec_ca *ca = NULL;
    must(ec_ca_open(&ca, scratch, NULL, err), err);
    int rc = ec_ca_enroll(ca, token, csr, len_bytes, ret, err);
    ec_ca_close(ca);
    return rc;
}

/* When the file of tokens is readable by other users, or is damaged, no certificate is issued, and the error does
 * not blame the token. */
static void enrolment_tokens_are_kept(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES], wrong[EC_SECRET_BYTES];
    ec_enroll_token grant = {
        .expires_s = ea_utc_ns() / 1000000000 + 60, .life_s = 3600, .uses_left = 2, .names = "a-*,b"};
    ec_enroll_token *grants = NULL;
    ec_ca_enrolled got;
    size_t count = 0;
    init();
    must(ec_enroll_tokens_add(scratch, &grant, token, &err), &err);
    must(ec_enroll_tokens_read(scratch, &grants, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(grants[0].uses_left, 2);
    assert_string_equal(grants[0].names, "a-*,b");
    assert_ptr_equal(ec_enroll_tokens_find(grants, count, token), grants);
    for (size_t i = 0; i < sizeof token - 1; i++) {
        memcpy(wrong, token, sizeof wrong);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_null(ec_enroll_tokens_find(grants, count, wrong));
    }
    free(grants);
    assert_int_equal(enroll(token, "", 0, &got, &err), EA_EINVAL);
    assert_string_equal(got.token, grant.secret.id);
    assert_int_equal(chmod(scratch_path("enroll-tokens"), 0644), 0);
    assert_int_equal(enroll(token, "", 0, &got, &err), EA_EIO);
    must(ea_path_write_all(scratch_path("enroll-tokens"), "what\n", 5, 1, &err), &err);
    assert_int_equal(enroll(token, "", 0, &got, &err), EA_ECORRUPT);
    assert_int_equal(ec_enroll_tokens_add(scratch, &grant, token, &err), EA_ECORRUPT);
}

/* A file with as many tokens as there may be, the first of which has expired. */
static void fill_with_tokens(int64_t now_s) {
    ea_err err;
    char token[EC_SECRET_BYTES];
    ec_enroll_token *grants = calloc(EC_ENROLL_TOKENS_MAX, sizeof *grants);
    assert_non_null(grants);
    for (size_t i = 0; i < EC_ENROLL_TOKENS_MAX; i++) {
        grants[i] = (ec_enroll_token){
            .created_s = now_s - 60, .expires_s = now_s + 3600, .life_s = 3600, .uses_left = 1, .names = "a-*"};
        must(ec_secret_make("ece_", &grants[i].secret, token, &err), &err);
    }
    grants[0].expires_s = now_s - 1;
    must(ec_enroll_tokens_write(scratch, grants, EC_ENROLL_TOKENS_MAX, &err), &err);
    free(grants);
}

/* When the file of tokens is full, only expired tokens are removed. Valid tokens are kept. */
static void enrolment_tokens_are_bounded(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES], refused[EC_SECRET_BYTES] = "untouched", *text = NULL;
    const int64_t now_s = ea_utc_ns() / 1000000000;
    ec_enroll_token grant = {.expires_s = now_s + 3600, .life_s = 3600, .uses_left = 1, .names = "b"}, *grants = NULL;
    size_t count = 0, len_bytes = 0;
    fill_with_tokens(now_s);
    must(ec_enroll_tokens_add(scratch, &grant, token, &err), &err);
    assert_int_equal(
        ec_enroll_tokens_add(scratch, &(ec_enroll_token){.expires_s = now_s + 60, .names = "c"}, refused, &err),
        EA_ELIMIT);
    assert_non_null(strstr(err.message, "4096 enrolment tokens"));
    assert_string_equal(refused, "untouched");
    must(ec_enroll_tokens_read(scratch, &grants, &count, &err), &err);
    assert_int_equal(count, 4096);
    assert_ptr_equal(ec_enroll_tokens_find(grants, count, token), grants + 4095);
    for (size_t i = 0; i < count; i++)
        assert_true(grants[i].expires_s > now_s);
    free(grants);
    /* a line too many is no file of ours */
    must(ea_path_read_all(scratch_path("enroll-tokens"), 4 << 20, &text, &len_bytes, &err), &err);
    size_t line_bytes = (size_t)(strchr(text, '\n') + 1 - text);
    text = realloc(text, len_bytes + line_bytes);
    assert_non_null(text);
    memcpy(text + len_bytes, text, line_bytes);
    must(ea_path_write_all(scratch_path("enroll-tokens"), text, len_bytes + line_bytes, 1, &err), &err);
    assert_int_equal(ec_enroll_tokens_read(scratch, &grants, &count, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "line 4097"));
    must(ea_path_write_all(scratch_path("enroll-tokens"), text, len_bytes, 1, &err), &err);
    free(text);
    must(ec_enroll_tokens_revoke(scratch, grant.secret.id, &err), &err);
    must(ec_enroll_tokens_add(scratch, &grant, token, &err), &err);
    /* nor is one of more uses than a token may have */
    grant.uses_left = EC_ENROLL_TOKEN_USES_MAX;
    must(ec_enroll_tokens_write(scratch, &grant, 1, &err), &err);
    must(ec_enroll_tokens_read(scratch, &grants, &count, &err), &err);
    free(grants);
    grant.uses_left = 1000001;
    must(ec_enroll_tokens_write(scratch, &grant, 1, &err), &err);
    assert_int_equal(ec_enroll_tokens_read(scratch, &grants, &count, &err), EA_ECORRUPT);
}

/* ---- the issuance log ---- */

static ec_ca_row make_row(uint64_t number, int64_t not_after_s, const char *name) {
    ec_ca_row row = {.role = EC_CA_AGENT, .not_after_utc_ns = not_after_s * 1000000000};
    snprintf(row.serial, sizeof row.serial, "%032llx", (unsigned long long)number + 1);
    snprintf(row.name, sizeof row.name, "%s", name);
    return row;
}

static uint64_t bytes_of(const char *name) {
    struct stat st;
    assert_int_equal(stat(scratch_path(name), &st), 0);
    return (uint64_t)st.st_size;
}

static ino_t inode_of(const char *name) {
    struct stat st;
    assert_int_equal(stat(scratch_path(name), &st), 0);
    return st.st_ino;
}

static void put_file(const char *name, const char *text) {
    ea_err err;
    must(ea_path_write_all(scratch_path(name), text, strlen(text), 0, &err), &err);
}

/* What a crash leaves of a line is skipped by readers and cut off by the next writer; two writers see each other's
 * lines; a rewrite by one is followed by the other. */
static void the_log_is_appended_to(void **state) {
    (void)state;
    static const char HEAD[] = "a1\tagent\t2100-01-01T00:00:00Z\t-\tprior-1\n"
                               "b2\tserver\t2100-01-01T00:00:00Z\t2020-01-01T00:00:00Z\tPrior-2\ta1\n";
    static const char *const TORN[] = {"c3", "c3\tagent\t2100-01-01T00:00:00Z\t-\tprior-3", "c3\tagent\t2100"};

    enum { EXPIRED = 1100 };

    static ec_ca_row expired[EXPIRED];
    ea_err err;
    for (size_t i = 0; i < sizeof TORN / sizeof *TORN; i++) {
        ec_issuance *a = NULL, *b = NULL;
        char text[400];
        snprintf(text, sizeof text, "%s%s", HEAD, TORN[i]);
        put_file("issued.tsv", text);
        must(ec_issuance_open(&a, scratch, 1, &err), &err);
        must(ec_issuance_open(&b, scratch, 1, &err), &err);
        assert_int_equal(ec_issuance_count(a), 2);
        assert_null(ec_issuance_find(a, "c3"));
        assert_string_equal(ec_issuance_find(a, "b2")->name, "Prior-2");
        assert_ptr_equal(ec_issuance_next_successor(a, "a1", NULL), ec_issuance_find(a, "b2"));
        assert_ptr_equal(ec_issuance_next_of_name(a, "pRIOR-2", NULL), ec_issuance_find(a, "b2"));
        ec_ca_row row = make_row(1, 4102444800, "new-1");
        must(ec_issuance_add(a, &row, 1, &err), &err);
        must(ec_issuance_catch_up(b, &err), &err);
        assert_non_null(ec_issuance_find(b, row.serial));
        row.revoked_utc_ns = 1000000000;
        must(ec_issuance_add(b, &row, 1, &err), &err);
        must(ec_issuance_catch_up(a, &err), &err);
        assert_int_equal(ec_issuance_find(a, row.serial)->revoked_utc_ns, 1000000000);
        assert_int_equal(ec_issuance_count(a), 3);
        for (uint64_t n = 0; n < EXPIRED; n++)
            expired[n] = make_row(100 + n, 1, "expired");
        must(ec_issuance_add(a, expired, EXPIRED, &err), &err);
        must(ec_issuance_compact(a, ea_utc_ns(), &err), &err);
        assert_int_equal(ec_issuance_count(a), 3);
        must(ec_issuance_catch_up(b, &err), &err);
        assert_int_equal(ec_issuance_count(b), 3);
        assert_int_equal(ec_issuance_find(b, "b2")->revoked_utc_ns, INT64_C(1577836800000000000));
        ec_issuance_close(a);
        ec_issuance_close(b);
    }
}

static void damage_in_the_log_is_found(void **state) {
    (void)state;
    static const char *const BAD[] = {"what\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\t-\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\t-\tname\tzz\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\t-\tname\t\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\t-\tname\ta2\tmore\n",
                                      "a1\tother\t2100-01-01T00:00:00Z\t-\tname\n",
                                      "A1\tagent\t2100-01-01T00:00:00Z\t-\tname\n",
                                      "a1\tagent\tlater\t-\tname\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\tlater\tname\n",
                                      "a1\tagent\t2100-01-01T00:00:00Z\t-\t../name\n",
                                      "\n"};
    ea_err err;
    ec_issuance *l = NULL;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char text[200];
        snprintf(text, sizeof text, "a0\tagent\t2100-01-01T00:00:00Z\t-\tname\n%s", BAD[i]);
        put_file("issued.tsv", text);
        assert_int_equal(ec_issuance_open(&l, scratch, 0, &err), EA_ECORRUPT);
        assert_non_null(strstr(err.message, "line 2 is damaged"));
    }
    /* a line without an end that is longer than any line is no torn one */
    char *text = malloc((1 << 20) + 1);
    assert_non_null(text);
    memset(text, 'a', 1 << 20);
    text[1 << 20] = 0;
    put_file("issued.tsv", text);
    free(text);
    assert_int_equal(ec_issuance_open(&l, scratch, 0, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "line 1 is damaged"));
}

/* 100,000 agents with certificates of a day: what they hold now, and several hundred thousand that have expired. One
 * certificate more is one line more; the expired ones go at the first operation. */
static void the_log_of_a_large_fleet(void **state) {
    (void)state;

    enum { EXPIRED = 300000, LIVE = 150000, MORE = 200 };

    ea_err err;
    char name[40], serial[EC_CA_SERIAL_HEX + 1];
    ec_issuance *l = NULL;
    ec_ca_row *rows = calloc(EXPIRED + LIVE, sizeof *rows);
    const int64_t now_s = ea_utc_ns() / 1000000000;
    assert_non_null(rows);
    init();
    for (size_t i = 0; i < EXPIRED + LIVE; i++) {
        snprintf(name, sizeof name, "agent-%zu", i % 100000);
        rows[i] = make_row(i, i < EXPIRED ? now_s - 86400 : now_s + 86400, name);
    }
    must(ec_issuance_open(&l, scratch, 1, &err), &err);
    must(ec_issuance_add(l, rows, EXPIRED + LIVE, &err), &err);
    ec_issuance_close(l);
    assert_true(bytes_of("issued.tsv") > 16 << 20);
    ino_t inode = inode_of("issued.tsv");
    int64_t begin_ns = ea_monotonic_ns();
    must(ec_ca_issue(scratch, &(ec_ca_request){.name = "one-more", .days = 1}, 1, serial, &err), &err);
    int64_t issued_ns = ea_monotonic_ns();
    assert_true(inode_of("issued.tsv") != inode);
    size_t count = 0;
    must(ec_ca_revoke(scratch, "AGENT-7", &count, &err), &err);
    assert_int_equal(count, 2);
    int64_t revoked_ns = ea_monotonic_ns();
    must(ec_issuance_open(&l, scratch, 1, &err), &err);
    assert_int_equal(ec_issuance_count(l), LIVE + 1);
    assert_null(ec_issuance_find(l, rows[0].serial));
    assert_string_equal(ec_issuance_next_of_name(l, "ONE-more", NULL)->serial, serial);
    inode = inode_of("issued.tsv");
    uint64_t before = bytes_of("issued.tsv");
    int64_t added_ns = ea_monotonic_ns();
    for (size_t i = 0; i < MORE; i++) {
        rows[i] = make_row(EXPIRED + LIVE + i, now_s + 86400, "more");
        must(ec_issuance_compact(l, ea_utc_ns(), &err), &err);
        must(ec_issuance_add(l, &rows[i], 1, &err), &err);
    }
    int64_t done_ns = ea_monotonic_ns();
    assert_true(inode_of("issued.tsv") == inode);
    assert_in_range(bytes_of("issued.tsv") - before, MORE * 60, MORE * 160);
    print_message("a log of %d rows: issue with a rewrite %lld ms, revoke %lld ms, a further row %lld us\n",
                  EXPIRED + LIVE, (long long)(issued_ns - begin_ns) / 1000000,
                  (long long)(revoked_ns - issued_ns) / 1000000, (long long)(done_ns - added_ns) / MORE / 1000);
    assert_true(done_ns - added_ns < INT64_C(50000000) * MORE); /* one fsync each, whatever the number of rows */
    ec_issuance_close(l);
    free(rows);
}

/* ---- renewals ---- */

static EVP_PKEY *new_key(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

static char *make_csr(EVP_PKEY *key, const char *name) {
    X509_REQ *csr = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    assert_true(X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(csr), "CN", MBSTRING_UTF8,
                                           (const unsigned char *)name, -1, -1, 0) == 1 &&
                X509_REQ_set_pubkey(csr, key) == 1 && X509_REQ_sign(csr, key, EVP_sha256()) > 0 &&
                PEM_write_bio_X509_REQ(bio, csr) == 1);
    size_t n = (size_t)BIO_get_mem_data(bio, &data);
    char *text = calloc(n + 1, 1);
    assert_non_null(text);
    memcpy(text, data, n);
    BIO_free(bio);
    X509_REQ_free(csr);
    return text;
}

static int enroll_key(ec_ca *ca, const char *token, EVP_PKEY *key, const char *name, ec_ca_enrolled *ret, ea_err *err) {
    char *csr = make_csr(key, name);
    int rc = ec_ca_enroll(ca, token, csr, strlen(csr), ret, err);
    free(csr);
    return rc;
}

/* Renews the certificate of an answer, and frees that. */
static int renew_key(ec_ca *ca, const char *pem, EVP_PKEY *key, ec_ca_enrolled *ret, ea_err *err) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    unsigned char *der = NULL;
    assert_non_null(cert);
    int n = i2d_X509(cert, &der);
    char *csr = make_csr(key, "whatever");
    int rc = ec_ca_renew(ca, der, (size_t)n, csr, strlen(csr), ret, err);
    free(csr);
    OPENSSL_free(der);
    X509_free(cert);
    BIO_free(bio);
    return rc;
}

static ec_ca *open_with_token(const char *names, int64_t life_s, uint64_t uses, char token[EC_SECRET_BYTES]) {
    ea_err err;
    ec_ca *ca = NULL;
    ec_enroll_token grant = {.expires_s = ea_utc_ns() / 1000000000 + 60, .life_s = life_s, .uses_left = uses};
    snprintf(grant.names, sizeof grant.names, "%s", names);
    init();
    must(ec_enroll_tokens_add(scratch, &grant, token, &err), &err);
    must(ec_ca_open(&ca, scratch, NULL, &err), &err);
    return ca;
}

/* One successor a certificate: the same key again is the same answer, another key is refused and reported, for as long
 * as the successor is not revoked. */
static void a_certificate_is_renewed_once(void **state) {
    (void)state;

    enum { LIFE_S = 8 }; /* half of it is what a busy machine has for the renewals */

    ea_err err;
    char token[EC_SECRET_BYTES];
    size_t count = 0;
    ec_ca *ca = open_with_token("machine", LIFE_S, 1, token);
    EVP_PKEY *first = new_key(), *second = new_key(), *thief = new_key();
    ec_ca_enrolled a, b, c;
    int64_t begun = ea_monotonic_ns();
    must(enroll_key(ca, token, first, "machine", &a, &err), &err);
    assert_int_equal(renew_key(ca, a.pem, second, &b, &err), EA_ELIMIT);
    ea_sleep_ns(INT64_C(1000000000) * LIFE_S / 2 + 100000000);
    must(renew_key(ca, a.pem, second, &b, &err), &err);
    assert_string_not_equal(a.serial, b.serial);
    assert_string_equal(b.name, "machine");
    must(renew_key(ca, a.pem, second, &c, &err), &err);
    assert_string_equal(b.serial, c.serial);
    assert_string_equal(b.pem, c.pem);
    free(c.pem);
    assert_int_equal(renew_key(ca, a.pem, thief, &c, &err), EA_EEXIST);
    assert_non_null(strstr(err.message, "was renewed before, with another key"));
    assert_int_equal(c.renewed_twice, 1);
    /* also after a restart, which reads the log */
    ec_ca_close(ca);
    must(ec_ca_open(&ca, scratch, NULL, &err), &err);
    assert_int_equal(renew_key(ca, a.pem, thief, &c, &err), EA_EEXIST);
    assert_int_equal(c.renewed_twice, 1);
    /* a successor that is revoked is none */
    must(ec_ca_revoke(scratch, b.serial, &count, &err), &err);
    must(renew_key(ca, a.pem, thief, &c, &err), &err);
    free(c.pem);
    must(ec_ca_revoke(scratch, "Machine", &count, &err), &err);
    assert_int_equal(count, 2);
    assert_int_equal(renew_key(ca, a.pem, thief, &c, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "is revoked"));
    int64_t left = begun + INT64_C(1000000000) * (LIFE_S + 2) - ea_monotonic_ns();
    ea_sleep_ns(left > 0 ? left : 0);
    assert_int_equal(renew_key(ca, a.pem, second, &c, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "expired"));
    free(a.pem);
    free(b.pem);
    EVP_PKEY_free(first);
    EVP_PKEY_free(second);
    EVP_PKEY_free(thief);
    ec_ca_close(ca);
}

/* Certificates of seconds, renewed one after the other. */
static void short_lives_follow_each_other(void **state) {
    (void)state;

    enum { ROUNDS = 2 };

    ea_err err;
    char token[EC_SECRET_BYTES];
    ec_ca *ca = open_with_token("brief", 4, 1, token);
    EVP_PKEY *key = new_key();
    ec_ca_enrolled last, next;
    must(enroll_key(ca, token, key, "brief", &last, &err), &err);
    for (int i = 0; i < ROUNDS; i++) {
        EVP_PKEY *fresh = new_key();
        int rc;
        while ((rc = renew_key(ca, last.pem, fresh, &next, &err)) == EA_ELIMIT)
            ea_sleep_ns(INT64_C(20000000));
        must(rc, &err);
        free(last.pem);
        last = next;
        EVP_PKEY_free(fresh);
    }
    free(last.pem);
    EVP_PKEY_free(key);
    ec_ca_close(ca);
}

/* A certificate of another CA, a certificate of a collector, and a modified certificate are not renewed. */
static void only_own_certificates_are_renewed(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES], other[1100];
    ec_ca *ca = open_with_token("machine", 60, 1, token);
    EVP_PKEY *key = new_key();
    ec_ca_enrolled a = {.pem = NULL};
    char *pem = NULL;
    size_t n = 0;
    snprintf(other, sizeof other, "%s/other", scratch);
    must(ec_ca_init(other, &(ec_ca_init_options){.name = "test CA", .days = 100}, &err), &err);
    must(ec_ca_issue(other, &(ec_ca_request){.name = "machine", .days = 1}, 1, NULL, &err), &err);
    must(ea_path_read_all(scratch_path("other/machine.crt"), 1 << 16, &pem, &n, &err), &err);
    assert_int_equal(renew_key(ca, pem, key, &a, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "cannot be renewed"));
    free(pem);
    must(ec_ca_issue(scratch, &(ec_ca_request){.name = "collector", .server = 1, .days = 1}, 1, NULL, &err), &err);
    must(ea_path_read_all(scratch_path("collector.crt"), 1 << 16, &pem, &n, &err), &err);
    assert_int_equal(renew_key(ca, pem, key, &a, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "purpose"));
    free(pem);
    assert_int_equal(ec_ca_renew(ca, (const uint8_t *)"x", 1, "", 0, &a, &err), EA_EINVAL);
    EVP_PKEY_free(key);
    ec_ca_close(ca);
}

/* SHOP-1 and shop-1 are one machine: the second is refused, and both go when either is revoked. */
static void names_of_another_case_are_the_same(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES];
    size_t count = 0;
    ec_ca *ca = open_with_token("shop-*", 3600, 9, token);
    EVP_PKEY *key = new_key(), *twin = new_key();
    ec_ca_enrolled a, b;
    must(enroll_key(ca, token, key, "Shop-1", &a, &err), &err);
    assert_string_equal(a.name, "Shop-1");
    assert_int_equal(enroll_key(ca, token, twin, "SHOP-1", &b, &err), EA_EEXIST);
    assert_non_null(strstr(err.message, "a certificate of SHOP-1 is valid already"));
    must(enroll_key(ca, token, key, "shop-1", &b, &err), &err); /* the same key: its answer was lost */
    assert_string_equal(a.serial, b.serial);
    free(b.pem);
    must(ec_ca_revoke(scratch, "sHOP-1", &count, &err), &err);
    assert_int_equal(count, 1);
    must(enroll_key(ca, token, twin, "SHOP-1", &b, &err), &err);
    free(a.pem);
    free(b.pem);
    EVP_PKEY_free(key);
    EVP_PKEY_free(twin);
    ec_ca_close(ca);
}

/* A request whose PEM claims to be encrypted: OpenSSL would ask for its password on the terminal, and where there
 * is none on standard input, which is the pipe with the signer's next message. */
static void an_encrypted_request_asks_for_no_password(void **state) {
    (void)state;
    static const char BEGIN[] = "-----BEGIN CERTIFICATE REQUEST-----\n", PASSWORD[] = "password\n";
    ea_err err;
    char token[EC_SECRET_BYTES], left[sizeof PASSWORD] = "";
    ec_enroll_token grant = {
        .expires_s = ea_utc_ns() / 1000000000 + 60, .life_s = 3600, .uses_left = 2, .names = "a-*"};
    ec_ca_enrolled got;
    int ends[2], before = dup(STDIN_FILENO);
    init();
    must(ec_enroll_tokens_add(scratch, &grant, token, &err), &err);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    char *plain = make_csr(key, "a-1");
    ea_text csr;
    ea_text_init(&csr);
    assert_memory_equal(plain, BEGIN, sizeof BEGIN - 1);
    ea_text_printf(&csr, "%sProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n%s",
                   BEGIN, plain + sizeof BEGIN - 1);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], PASSWORD, sizeof PASSWORD - 1), sizeof PASSWORD - 1);
    close(ends[1]);
    assert_true(before >= 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    int rc = enroll(token, csr.data, csr.len_bytes, &got, &err);
    ssize_t n = read(STDIN_FILENO, left, sizeof left - 1);
    assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
    close(ends[0]);
    assert_int_equal(rc, EA_EINVAL);
    assert_int_equal(n, sizeof PASSWORD - 1);
    assert_string_equal(left, PASSWORD);
    ea_text_deinit(&csr);
    free(plain);
    EVP_PKEY_free(key);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_clear)
    const struct CMUnitTest tests[] = {T(agents_and_collectors),
                                       T(an_agent_cannot_issue),
                                       T(keys_are_private_and_stay),
                                       T(revoked_means_revoked),
                                       T(names_are_checked),
                                       T(what_was_issued_is_listed),
                                       T(not_longer_than_the_ca),
                                       T(an_encrypted_request_asks_for_no_password),
                                       T(enrolment_tokens_are_kept),
                                       T(enrolment_tokens_are_bounded),
                                       T(the_log_is_appended_to),
                                       T(damage_in_the_log_is_found),
                                       T(the_log_of_a_large_fleet),
                                       T(a_certificate_is_renewed_once),
                                       T(short_lives_follow_each_other),
                                       T(only_own_certificates_are_renewed),
                                       T(names_of_another_case_are_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
