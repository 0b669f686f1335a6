/* Keys that others hold: TLS 1.3 with a client certificate whose key this process only asks for signatures. */
#include "proto/base/platform.h"
#include "service/ship/tls_key.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A key provider: it has a private key and signs with it. */
typedef struct holder {
    EVP_PKEY *key;
    int asked, released, refuses, lies;
} holder;

static int sign(void *arg, const uint8_t *digest, size_t digest_bytes, uint8_t *signature, size_t *len_bytes,
                ea_err *err) {
    holder *h = arg;
    const EVP_MD *md = digest_bytes == 32 ? EVP_sha256() : digest_bytes == 48 ? EVP_sha384() : EVP_sha512();
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(h->key, NULL);
    uint8_t wrong[64] = {0}, der[512];
    h->asked++;
    if (h->refuses) {
        EVP_PKEY_CTX_free(c);
        return ea_fail(err, EA_EREFUSED, "sign");
    }
    assert_int_equal(EVP_PKEY_sign_init(c), 1);
    assert_int_equal(EVP_PKEY_CTX_set_signature_md(c, md), 1);
    if (h->lies)
        digest = wrong;
    if (EVP_PKEY_get_base_id(h->key) == EVP_PKEY_RSA) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST), 1);
        assert_int_equal(EVP_PKEY_sign(c, signature, len_bytes, digest, digest_bytes), 1);
    } else {
        size_t n = sizeof der, half = (size_t)(EVP_PKEY_get_bits(h->key) + 7) / 8;
        const uint8_t *at = der;
        assert_int_equal(EVP_PKEY_sign(c, der, &n, digest, digest_bytes), 1);
        ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)n);
        assert_non_null(sig);
        BN_bn2binpad(ECDSA_SIG_get0_r(sig), signature, (int)half);
        BN_bn2binpad(ECDSA_SIG_get0_s(sig), signature + half, (int)half);
        *len_bytes = 2 * half;
        ECDSA_SIG_free(sig);
    }
    EVP_PKEY_CTX_free(c);
    return 0;
}

static void release(void *arg) {
    ((holder *)arg)->released++;
}

static X509 *certificate(EVP_PKEY *key) {
    X509 *x = X509_new();
    X509_NAME *name = X509_get_subject_name(x);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"held", -1, -1, 0);
    X509_set_issuer_name(x, name);
    X509_set_pubkey(x, key);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    return x;
}

static int accept_any(int good, X509_STORE_CTX *c) {
    (void)good, (void)c;
    return 1;
}

/* A handshake in memory; 1 when both sides are through. The server checks the client's signature. */
static int handshake(X509 *x, EVP_PKEY *client_key, EVP_PKEY *server_key) {
    SSL_CTX *cc = SSL_CTX_new(TLS_client_method()), *sc = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_set_min_proto_version(cc, TLS1_3_VERSION), 1);
    assert_int_equal(SSL_CTX_use_certificate(sc, x), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(sc, server_key), 1);
    SSL_CTX_set_verify(sc, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any);
    int good = SSL_CTX_use_certificate(cc, x) == 1 && SSL_CTX_use_PrivateKey(cc, client_key) == 1;
    SSL *c = SSL_new(cc), *s = SSL_new(sc);
    BIO *a, *b;
    assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
    SSL_set_bio(c, a, a);
    SSL_set_bio(s, b, b);
    SSL_set_connect_state(c);
    SSL_set_accept_state(s);
    for (int i = 0; good && i < 20; i++) {
        int x1 = SSL_do_handshake(c), y1 = SSL_do_handshake(s);
        if (x1 == 1 && y1 == 1)
            break;
        good = (x1 == 1 || SSL_get_error(c, x1) == SSL_ERROR_WANT_READ) &&
               (y1 == 1 || SSL_get_error(s, y1) == SSL_ERROR_WANT_READ);
    }
    good = good && SSL_is_init_finished(s) && SSL_get0_peer_certificate(s);
    SSL_free(c);
    SSL_free(s);
    SSL_CTX_free(cc);
    SSL_CTX_free(sc);
    ERR_clear_error();
    return good;
}

static void with_key(EVP_PKEY *key) {
    ea_tls_keys *keys;
    EVP_PKEY *held, *public_key, *other;
    ea_err err;
    holder h = {.key = key};
    X509 *x = certificate(key);
    public_key = X509_get0_pubkey(x);
    assert_int_equal(ea_tls_keys_create(&keys, &err), 0);
    assert_int_equal(ea_tls_key_create(&held, keys, public_key, &(ea_signer){&h, sign, release}, &err), 0);
    assert_int_equal(EVP_PKEY_get_bits(held), EVP_PKEY_get_bits(key));
    assert_true(handshake(x, held, key));
    assert_true(h.asked > 0);
    int asked = h.asked;
    h.lies = 1;
    assert_false(handshake(x, held, key));
    h.lies = 0;
    h.refuses = 1;
    assert_false(handshake(x, held, key));
    assert_true(h.asked > asked + 1);
    h.refuses = 0;
    /* the private half goes nowhere, and nothing but PSS and ECDSA is signed */
    assert_int_equal(i2d_PrivateKey(held, NULL) > 0, 0);
    ERR_clear_error();
    /* the process's own keys are still OpenSSL's */
    EVP_KEYMGMT *theirs = EVP_KEYMGMT_fetch(NULL, EVP_PKEY_get0_type_name(key), NULL);
    assert_non_null(theirs);
    assert_string_equal(OSSL_PROVIDER_get0_name(EVP_KEYMGMT_get0_provider(theirs)), "default");
    EVP_KEYMGMT_free(theirs);
    /* another's certificate does not fit */
    other = EVP_EC_gen("P-256");
    X509 *foreign = certificate(other);
    assert_false(handshake(foreign, held, other));
    EVP_PKEY_free(other);
    X509_free(foreign);
    assert_int_equal(h.released, 0);
    EVP_PKEY_free(held);
    assert_int_equal(h.released, 1);
    ea_tls_keys_destroy(keys);
    X509_free(x);
    EVP_PKEY_free(key);
}

static void test_rsa(void **state) {
    (void)state;
    with_key(EVP_RSA_gen(2048));
}

static void test_p256(void **state) {
    (void)state;
    with_key(EVP_EC_gen("P-256"));
}

static void test_p384(void **state) {
    (void)state;
    with_key(EVP_EC_gen("P-384"));
}

static void test_others(void **state) {
    (void)state;
    ea_tls_keys *keys;
    EVP_PKEY *held, *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    ea_err err;
    holder h = {.key = key};
    assert_int_equal(ea_tls_keys_create(&keys, &err), 0);
    assert_int_equal(ea_tls_key_create(&held, keys, key, &(ea_signer){&h, sign, release}, &err), EA_EUNSUPPORTED);
    assert_int_equal(h.released, 1);
    ea_tls_keys_destroy(keys);
    EVP_PKEY_free(key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rsa),
        cmocka_unit_test(test_p256),
        cmocka_unit_test(test_p384),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
