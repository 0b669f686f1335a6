/* The certificate authority: what it issues is good for what it says and nothing else, checked by OpenSSL's verifier.
 */
#include "ca.h"
#include "clock.h"
#include "grants.h"
#include "platform.h"
#include "scratch.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    must(ec_ca_init(scratch, "test CA", 100, &err), &err);
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
    assert_int_equal(ec_ca_init(scratch, "another", 100, &err), EA_EEXIST);
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
    assert_int_equal(row->server, *n == 0);
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

/* Whose file of tokens others may read, or whose file is damaged, gives nobody a certificate and blames nobody's token.
 */
static void enrolment_tokens_are_kept(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES], wrong[EC_SECRET_BYTES];
    ec_grant grant = {.expires_s = ea_utc_ns() / 1000000000 + 60, .life_s = 3600, .uses_left = 2, .names = "a-*,b"};
    ec_grant *grants = NULL;
    ec_ca_enrolled got;
    size_t count = 0;
    init();
    must(ec_grants_add(scratch, &grant, token, &err), &err);
    must(ec_grants_read(scratch, &grants, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(grants[0].uses_left, 2);
    assert_string_equal(grants[0].names, "a-*,b");
    assert_ptr_equal(ec_grants_find(grants, count, token), grants);
    for (size_t i = 0; i < sizeof token - 1; i++) {
        memcpy(wrong, token, sizeof wrong);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_null(ec_grants_find(grants, count, wrong));
    }
    free(grants);
    assert_int_equal(ec_ca_enroll(scratch, token, "", 0, &got, &err), EA_EINVAL);
    assert_string_equal(got.token, grant.secret.id);
    assert_int_equal(chmod(scratch_path("enroll-tokens"), 0644), 0);
    assert_int_equal(ec_ca_enroll(scratch, token, "", 0, &got, &err), EA_EIO);
    must(ea_path_write_all(scratch_path("enroll-tokens"), "what\n", 5, 1, &err), &err);
    assert_int_equal(ec_ca_enroll(scratch, token, "", 0, &got, &err), EA_ECORRUPT);
    assert_int_equal(ec_grants_add(scratch, &grant, token, &err), EA_ECORRUPT);
}

/* A file with as many tokens as there may be, the first of which has expired. */
static void fill_with_tokens(int64_t now_s) {
    ea_err err;
    char token[EC_SECRET_BYTES];
    ec_grant *grants = calloc(EC_GRANTS_MAX, sizeof *grants);
    assert_non_null(grants);
    for (size_t i = 0; i < EC_GRANTS_MAX; i++) {
        grants[i] = (ec_grant){
            .created_s = now_s - 60, .expires_s = now_s + 3600, .life_s = 3600, .uses_left = 1, .names = "a-*"};
        must(ec_secret_make("ece_", &grants[i].secret, token, &err), &err);
    }
    grants[0].expires_s = now_s - 1;
    must(ec_grants_write(scratch, grants, EC_GRANTS_MAX, &err), &err);
    free(grants);
}

/* What has expired makes room; nothing else does, and what is there stays. */
static void enrolment_tokens_are_bounded(void **state) {
    (void)state;
    ea_err err;
    char token[EC_SECRET_BYTES], refused[EC_SECRET_BYTES] = "untouched", *text = NULL;
    const int64_t now_s = ea_utc_ns() / 1000000000;
    ec_grant grant = {.expires_s = now_s + 3600, .life_s = 3600, .uses_left = 1, .names = "b"}, *grants = NULL;
    size_t count = 0, len_bytes = 0;
    fill_with_tokens(now_s);
    must(ec_grants_add(scratch, &grant, token, &err), &err);
    assert_int_equal(ec_grants_add(scratch, &(ec_grant){.expires_s = now_s + 60, .names = "c"}, refused, &err),
                     EA_ELIMIT);
    assert_non_null(strstr(err.message, "4096 enrolment tokens"));
    assert_string_equal(refused, "untouched");
    must(ec_grants_read(scratch, &grants, &count, &err), &err);
    assert_int_equal(count, 4096);
    assert_ptr_equal(ec_grants_find(grants, count, token), grants + 4095);
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
    assert_int_equal(ec_grants_read(scratch, &grants, &count, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "line 4097"));
    must(ea_path_write_all(scratch_path("enroll-tokens"), text, len_bytes, 1, &err), &err);
    free(text);
    must(ec_grants_revoke(scratch, grant.secret.id, &err), &err);
    must(ec_grants_add(scratch, &grant, token, &err), &err);
    /* nor is one of more uses than a token may have */
    grant.uses_left = EC_GRANT_USES_MAX;
    must(ec_grants_write(scratch, &grant, 1, &err), &err);
    must(ec_grants_read(scratch, &grants, &count, &err), &err);
    free(grants);
    grant.uses_left = 1000001;
    must(ec_grants_write(scratch, &grant, 1, &err), &err);
    assert_int_equal(ec_grants_read(scratch, &grants, &count, &err), EA_ECORRUPT);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_clear)
    const struct CMUnitTest tests[] = {
        T(agents_and_collectors),  T(an_agent_cannot_issue),     T(keys_are_private_and_stay),
        T(revoked_means_revoked),  T(names_are_checked),         T(what_was_issued_is_listed),
        T(not_longer_than_the_ca), T(enrolment_tokens_are_kept), T(enrolment_tokens_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
