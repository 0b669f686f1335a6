/* Keys that others hold, as an OpenSSL provider. See tls_key.h. */
#include "service/ship/tls_key.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HELD "etwagent-held" /* names a held key to import */

struct ea_tls_keys {
    OSSL_LIB_CTX *context;
    OSSL_PROVIDER *provider;
};

/* What the key manager calls a key. */
typedef struct held_key {
    atomic_int users;
    EVP_PKEY *public_key; /* of OpenSSL's own provider: all that is public is asked of it */
    ea_signer signer;     /* sign is NULL: a public key that is compared with others */
} held_key;

static void unref_key(void *keydata) {
    held_key *k = keydata;
    if (!k || atomic_fetch_sub(&k->users, 1) != 1)
        return;
    EVP_PKEY_free(k->public_key);
    if (k->signer.release)
        k->signer.release(k->signer.arg);
    free(k);
}

/* ---- the key manager ---- */

/* An empty shell, which import fills. */
typedef struct shell {
    held_key *key;
} shell;

static void *key_new(void *provider) {
    (void)provider;
    return calloc(1, sizeof(shell));
}

static void key_free(void *keydata) {
    shell *s = keydata;
    if (s)
        unref_key(s->key);
    free(s);
}

static int key_has(const void *keydata, int selection) {
    const shell *s = keydata;
    if (!s || !s->key)
        return 0;
    return !(selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) || s->key->signer.sign;
}

static int key_match(const void *a, const void *b, int selection) {
    const shell *x = a, *y = b;
    (void)selection; /* what can be compared is public */
    return x->key && y->key && EVP_PKEY_eq(x->key->public_key, y->key->public_key) == 1;
}

/* Imports either a held key, or the public half of another key. */
static int import_as(const char *type, shell *s, int selection, const OSSL_PARAM params[]) {
    const OSSL_PARAM *held = OSSL_PARAM_locate_const(params, HELD);
    const void *given = NULL;
    if (held) {
        if (!OSSL_PARAM_get_octet_ptr(held, &given, NULL) || !given)
            return 0;
        s->key = (held_key *)(uintptr_t)given;
        atomic_fetch_add(&s->key->users, 1);
        return 1;
    }
    held_key *k = calloc(1, sizeof *k);
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    int good = k && c && EVP_PKEY_fromdata_init(c) == 1 &&
               EVP_PKEY_fromdata(c, &k->public_key, selection & ~OSSL_KEYMGMT_SELECT_PRIVATE_KEY,
                                 (OSSL_PARAM *)(uintptr_t)params) == 1;
    EVP_PKEY_CTX_free(c);
    if (!good) {
        free(k);
        return 0;
    }
    atomic_init(&k->users, 1);
    s->key = k;
    return 1;
}

static int rsa_import(void *keydata, int selection, const OSSL_PARAM params[]) {
    return import_as("RSA", keydata, selection, params);
}

static int ec_import(void *keydata, int selection, const OSSL_PARAM params[]) {
    return import_as("EC", keydata, selection, params);
}

/* Names only: only OpenSSL's own code imports. */
static const OSSL_PARAM *key_types(int selection) {
    static const OSSL_PARAM TYPES[] = {OSSL_PARAM_octet_ptr(HELD, NULL, 0), OSSL_PARAM_END};
    (void)selection;
    return TYPES;
}

/* The private half goes nowhere: then OpenSSL takes the signature from here. */
static int key_export(void *keydata, int selection, OSSL_CALLBACK *callback, void *arg) {
    const shell *s = keydata;
    if (!s->key || (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY))
        return 0;
    return EVP_PKEY_export(s->key->public_key, selection, callback, arg);
}

static int key_get_params(void *keydata, OSSL_PARAM params[]) {
    const shell *s = keydata;
    return s->key && EVP_PKEY_get_params(s->key->public_key, params);
}

static const OSSL_PARAM *key_gettable(void *provider) {
    static const OSSL_PARAM LIST[] = {OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL),
                                      OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
                                      OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
                                      OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0),
                                      OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
                                      OSSL_PARAM_END};
    (void)provider;
    return LIST;
}

static const char *ec_operation(int operation) {
    return operation == OSSL_OP_SIGNATURE ? "ECDSA" : "EC";
}

/* ---- signatures ---- */

typedef struct signing {
    held_key *key;
    EVP_MD *md;
} signing;

static void *sign_new(void *provider, const char *properties) {
    (void)provider, (void)properties;
    return calloc(1, sizeof(signing));
}

static void sign_free(void *context) {
    signing *s = context;
    if (!s)
        return;
    unref_key(s->key);
    EVP_MD_free(s->md);
    free(s);
}

/* Of RSA's paddings PSS, and its salt only as long as the digest: the only ones of TLS 1.3. */
static int sign_set_params(void *context, const OSSL_PARAM params[]) {
    const signing *s = context;
    const OSSL_PARAM *padding = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE),
                     *salt = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PSS_SALTLEN);
    int number;
    if (padding && padding->data_type == OSSL_PARAM_UTF8_STRING &&
        strcmp(padding->data, OSSL_PKEY_RSA_PAD_MODE_PSS) != 0)
        return 0;
    if (padding && padding->data_type == OSSL_PARAM_INTEGER &&
        (!OSSL_PARAM_get_int(padding, &number) || number != RSA_PKCS1_PSS_PADDING))
        return 0;
    if (salt && salt->data_type == OSSL_PARAM_UTF8_STRING &&
        strcmp(salt->data, OSSL_PKEY_RSA_PSS_SALT_LEN_DIGEST) != 0 &&
        (!s->md || strtol(salt->data, NULL, 10) != EVP_MD_get_size(s->md)))
        return 0;
    if (salt && salt->data_type == OSSL_PARAM_INTEGER &&
        (!OSSL_PARAM_get_int(salt, &number) ||
         (number != RSA_PSS_SALTLEN_DIGEST && (!s->md || number != EVP_MD_get_size(s->md)))))
        return 0;
    return 1;
}

static int sign_init(void *context, const char *md_name, void *keydata, const OSSL_PARAM params[]) {
    signing *s = context;
    const shell *key = keydata;
    if (!key || !key->key || !key->key->signer.sign || !md_name)
        return 0;
    EVP_MD_free(s->md);
    s->md = EVP_MD_fetch(NULL, md_name, NULL);
    int size = s->md ? EVP_MD_get_size(s->md) : 0;
    if (size != 32 && size != 48 && size != 64)
        return 0;
    atomic_fetch_add(&key->key->users, 1);
    unref_key(s->key);
    s->key = key->key;
    return sign_set_params(s, params);
}

static const OSSL_PARAM *sign_settable(void *context, void *provider) {
    static const OSSL_PARAM LIST[] = {OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
                                      OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0),
                                      OSSL_PARAM_END};
    (void)context, (void)provider;
    return LIST;
}

/* DER of the two numbers of an ECDSA signature. */
static int to_der(const uint8_t *numbers, size_t len_bytes, uint8_t *out, size_t *ret_bytes, size_t room_bytes) {
    ECDSA_SIG *sig = ECDSA_SIG_new();
    int half = (int)(len_bytes / 2), good = 0;
    BIGNUM *r = BN_bin2bn(numbers, half, NULL), *s = BN_bin2bn(numbers + half, half, NULL);
    if (sig && r && s && ECDSA_SIG_set0(sig, r, s)) {
        r = s = NULL;
        int n = i2d_ECDSA_SIG(sig, NULL);
        good = n > 0 && (size_t)n <= room_bytes;
        if (good)
            *ret_bytes = (size_t)i2d_ECDSA_SIG(sig, &out);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return good;
}

static int sign(void *context, unsigned char *out, size_t *ret_bytes, size_t room_bytes, const unsigned char *data,
                size_t len_bytes) {
    const signing *s = context;
    size_t max = (size_t)EVP_PKEY_get_size(s->key->public_key), n = EA_SIGNATURE_BYTES;
    uint8_t digest[EVP_MAX_MD_SIZE], signature[EA_SIGNATURE_BYTES];
    unsigned digest_bytes;
    ea_err err;
    if (!out) {
        *ret_bytes = max;
        return 1;
    }
    if (EVP_Digest(data, len_bytes, digest, &digest_bytes, s->md, NULL) != 1 ||
        s->key->signer.sign(s->key->signer.arg, digest, digest_bytes, signature, &n, &err))
        return 0;
    if (EVP_PKEY_get_base_id(s->key->public_key) == EVP_PKEY_EC)
        return to_der(signature, n, out, ret_bytes, room_bytes);
    if (n > room_bytes)
        return 0;
    memcpy(out, signature, n);
    *ret_bytes = n;
    return 1;
}

/* ---- the provider ---- */

#define KEY_FUNCTIONS(import_function)                                                                                 \
    {OSSL_FUNC_KEYMGMT_NEW, (void (*)(void))key_new}, {OSSL_FUNC_KEYMGMT_FREE, (void (*)(void))key_free},              \
        {OSSL_FUNC_KEYMGMT_HAS, (void (*)(void))key_has}, {OSSL_FUNC_KEYMGMT_MATCH, (void (*)(void))key_match},        \
        {OSSL_FUNC_KEYMGMT_IMPORT, (void (*)(void))import_function},                                                   \
        {OSSL_FUNC_KEYMGMT_IMPORT_TYPES, (void (*)(void))key_types},                                                   \
        {OSSL_FUNC_KEYMGMT_EXPORT, (void (*)(void))key_export},                                                        \
        {OSSL_FUNC_KEYMGMT_EXPORT_TYPES, (void (*)(void))key_types},                                                   \
        {OSSL_FUNC_KEYMGMT_GET_PARAMS, (void (*)(void))key_get_params}, {                                              \
        OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, (void (*)(void))key_gettable                                                \
    }

static const OSSL_DISPATCH RSA_KEYS[] = {KEY_FUNCTIONS(rsa_import), {0, NULL}};
static const OSSL_DISPATCH EC_KEYS[] = {
    KEY_FUNCTIONS(ec_import), {OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, (void (*)(void))ec_operation}, {0, NULL}};
static const OSSL_DISPATCH SIGNATURES[] = {
    {OSSL_FUNC_SIGNATURE_NEWCTX, (void (*)(void))sign_new},
    {OSSL_FUNC_SIGNATURE_FREECTX, (void (*)(void))sign_free},
    {OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, (void (*)(void))sign_init},
    {OSSL_FUNC_SIGNATURE_DIGEST_SIGN, (void (*)(void))sign},
    {OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, (void (*)(void))sign_set_params},
    {OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, (void (*)(void))sign_settable},
    {0, NULL},
};

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache) {
    static const OSSL_ALGORITHM KEYS[] = {
        {"RSA:rsaEncryption", "provider=etwagent", RSA_KEYS, NULL},
        {"EC:id-ecPublicKey", "provider=etwagent", EC_KEYS, NULL},
        {NULL, NULL, NULL, NULL},
    };
    static const OSSL_ALGORITHM SIGNING[] = {
        {"RSA", "provider=etwagent", SIGNATURES, NULL},
        {"ECDSA", "provider=etwagent", SIGNATURES, NULL},
        {NULL, NULL, NULL, NULL},
    };
    (void)provider;
    *no_cache = 0;
    return operation == OSSL_OP_KEYMGMT ? KEYS : operation == OSSL_OP_SIGNATURE ? SIGNING : NULL;
}

static int init_provider(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                         void **ret_provider) {
    static const OSSL_DISPATCH FUNCTIONS[] = {{OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query}, {0, NULL}};
    (void)in;
    *out = FUNCTIONS;
    *ret_provider = (void *)(uintptr_t)handle;
    return 1;
}

int ea_tls_keys_create(ea_tls_keys **ret, ea_err *err) {
    static const char NAME[] = "etwagent";
    ea_tls_keys *k = calloc(1, sizeof *k);
    if (k)
        k->context = OSSL_LIB_CTX_new();
    if (k && k->context && OSSL_PROVIDER_add_builtin(k->context, NAME, init_provider) == 1)
        k->provider = OSSL_PROVIDER_load(k->context, NAME);
    if (!k || !k->provider) {
        ea_tls_keys_destroy(k);
        return ea_fail(err, EA_ENOMEM, "prepare OpenSSL for keys of certificate stores");
    }
    *ret = k;
    return 0;
}

void ea_tls_keys_destroy(ea_tls_keys *k) {
    if (!k)
        return;
    if (k->provider)
        OSSL_PROVIDER_unload(k->provider);
    OSSL_LIB_CTX_free(k->context);
    free(k);
}

int ea_tls_key_create(EVP_PKEY **ret, ea_tls_keys *keys, EVP_PKEY *public_key, const ea_signer *signer, ea_err *err) {
    int type = EVP_PKEY_get_base_id(public_key);
    held_key *k = calloc(1, sizeof *k);
    if (!k || EVP_PKEY_up_ref(public_key) != 1) {
        free(k);
        signer->release(signer->arg);
        return ea_fail(err, EA_ENOMEM, "use a key of a certificate store");
    }
    atomic_init(&k->users, 1);
    k->public_key = public_key;
    k->signer = *signer;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_ptr(HELD, (void **)&k, sizeof k), OSSL_PARAM_construct_end()};
    const char *name = type == EVP_PKEY_RSA ? "RSA" : type == EVP_PKEY_EC ? "EC" : NULL;
    EVP_PKEY_CTX *c = name ? EVP_PKEY_CTX_new_from_name(keys->context, name, NULL) : NULL;
    EVP_PKEY *key = NULL;
    int good = c && EVP_PKEY_fromdata_init(c) == 1 && EVP_PKEY_fromdata(c, &key, EVP_PKEY_KEYPAIR, params) == 1;
    EVP_PKEY_CTX_free(c);
    unref_key(k);
    if (!good)
        return ea_fail(err, name ? EA_ENOMEM : EA_EUNSUPPORTED,
                       name ? "use a key of a certificate store"
                            : "only RSA and EC keys can be used out of a certificate store");
    *ret = key;
    return 0;
}
