/* The TLS side of ingest. See tls.h. */
#include "collector/net/tls.h"

#include "collector/net/log.h"
#include "collector/sandbox/broker.h"
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TICKET_KEYS = 4,               /* the newest seals, the older ones still open */
    TICKET_ROTATE_S = 12 * 3600,   /* a new key so often */
    TICKET_LIFETIME_S = 24 * 3600, /* of a ticket */
    TICKET_FILE_VERSION = 1,
    MAX_CERT_CHAIN_BYTES = 32 << 10,
    MAX_FILE_BYTES = 64 << 20,
    CLIENTS_MAX = 65536,
};

typedef struct ticket_key {
    int64_t made_utc_ns;
    uint8_t name[16], aes[32], hmac[32];
} ticket_key;

struct ec_tls {
    SSL_CTX *ctx;
    ec_log *log;
    ec_broker *broker; /* NULL: files are opened here */
    char *cert_path, *key_path;
    char *crl_path, *ticket_path; /* NULL: none */

    ea_mutex *mutex;          /* guards all below */
    SSL_CTX *renewed;         /* has the own certificate and key as they were read again; NULL: they never were */
    STACK_OF(X509) * issuers; /* of the CA file: who may sign a revocation list */
    STACK_OF(X509_CRL) * crls;
    struct timespec crl_mtime;
    off_t crl_size;
    ino_t crl_inode;
    ticket_key keys[TICKET_KEYS]; /* newest first; made_utc_ns 0: unused */
    ea_u64_map client_ends;       /* hash of a client's name -> the end of its last certificate, seconds since 1970 */
};

/* Takes the oldest error of OpenSSL's queue into err. */
static int ssl_fail(ea_err *err, int code, const char *what) {
    unsigned long e = ERR_peek_error();
    const char *reason = e ? ERR_reason_error_string(e) : NULL;
    const char *shown = reason ? reason : "no reason given";
    int rc = ea_fail(err, code, "%s: %s", what, shown);
    ERR_clear_error();
    return rc;
}

/* For PEM files: OpenSSL would ask for a password on the terminal, which a service has not. *arg, when there is one: a
 * password was wanted. */
static int refuse_password(char *out, int size, int is_writing, void *arg) {
    (void)out, (void)size, (void)is_writing;
    if (arg)
        *(int *)arg = 1;
    return -1;
}

/* ---- revocation ---- */

/* Reads every list of a PEM text and checks who signed it. */
static int parse_crls(const ec_tls *tls, const char *pem, size_t len_bytes, STACK_OF(X509_CRL) * *ret, ea_err *err) {
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    STACK_OF(X509_CRL) *list = sk_X509_CRL_new_null();
    int rc = bio && list ? 0 : ea_fail(err, EA_ENOMEM, "read %s", tls->crl_path);
    while (!rc) {
        X509_CRL *crl = PEM_read_bio_X509_CRL(bio, NULL, refuse_password, NULL);
        if (!crl) {
            if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE || sk_X509_CRL_num(list) == 0)
                rc = ssl_fail(err, EA_EFORMAT, tls->crl_path);
            ERR_clear_error();
            break;
        }
        int signed_by_us = 0;
        for (int i = 0; i < sk_X509_num(tls->issuers) && !signed_by_us; i++) {
            X509 *ca = sk_X509_value(tls->issuers, i);
            if (X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) == 0)
                signed_by_us = X509_CRL_verify(crl, X509_get0_pubkey(ca)) == 1;
        }
        ERR_clear_error();
        if (!signed_by_us)
            rc = ea_fail(err, EA_EFORMAT, "revocation list %s: not signed by the CA", tls->crl_path);
        else if (!sk_X509_CRL_push(list, crl))
            rc = ea_fail(err, EA_ENOMEM, "read %s", tls->crl_path);
        if (rc)
            X509_CRL_free(crl);
    }
    BIO_free(bio);
    if (rc) {
        sk_X509_CRL_pop_free(list, X509_CRL_free);
        return rc;
    }
    *ret = list;
    return 0;
}

/* Reads the list again when the file is another than before. A list that cannot be read leaves the last good one in
 * force. */
static int refresh_crls(ec_tls *tls, ea_err *err) {
    struct stat st;
    ea_mutex_assert_held(tls->mutex);
    if (!tls->crl_path)
        return 0;
    if (stat(tls->crl_path, &st) != 0)
        return ea_fail_os(err, EA_EIO, errno, "read %s", tls->crl_path);
    if (tls->crls && st.st_mtim.tv_sec == tls->crl_mtime.tv_sec && st.st_mtim.tv_nsec == tls->crl_mtime.tv_nsec &&
        st.st_size == tls->crl_size && st.st_ino == tls->crl_inode)
        return 0;
    char *pem = NULL;
    size_t len_bytes = 0;
    STACK_OF(X509_CRL) *fresh = NULL;
    int rc = ec_broker_read(tls->broker, tls->crl_path, MAX_FILE_BYTES, &pem, &len_bytes, err);
    if (!rc)
        rc = parse_crls(tls, pem, len_bytes, &fresh, err);
    free(pem);
    /* also after a failure: say it once, not on every request */
    tls->crl_mtime = st.st_mtim;
    tls->crl_size = st.st_size;
    tls->crl_inode = st.st_ino;
    if (rc)
        return rc;
    sk_X509_CRL_pop_free(tls->crls, X509_CRL_free);
    tls->crls = fresh;
    return 0;
}

static int is_revoked(ec_tls *tls, X509 *cert) {
    ea_err err;
    int revoked = 0;
    ea_mutex_lock(tls->mutex);
    if (refresh_crls(tls, &err))
        ec_log_line(tls->log, "the revocation list as read before stays in force: %s", err.message);
    for (int i = 0; i < sk_X509_CRL_num(tls->crls) && !revoked; i++) {
        X509_CRL *crl = sk_X509_CRL_value(tls->crls, i);
        X509_REVOKED *entry = NULL;
        if (X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_issuer_name(cert)) == 0)
            revoked = X509_CRL_get0_by_cert(crl, &entry, cert) == 1; /* 2 is "removed from the list" */
    }
    ea_mutex_unlock(tls->mutex);
    return revoked;
}

/* The earlier of two times; 0: there was none yet. */
static int64_t earlier(int64_t before_s, const ASN1_TIME *t) {
    int days, seconds;
    if (!t || ASN1_TIME_diff(&days, &seconds, NULL, t) != 1)
        return before_s;
    int64_t at_s = ea_utc_ns() / 1000000000 + (int64_t)days * 86400 + seconds;
    return !before_s || at_s < before_s ? at_s : before_s;
}

ec_crl_times ec_tls_crl_times(ec_tls *tls) {
    ec_crl_times times = {.made_s = 0};
    ea_err err;
    ea_mutex_lock(tls->mutex);
    if (refresh_crls(tls, &err))
        ec_log_line(tls->log, "the revocation list as read before stays in force: %s", err.message);
    for (int i = 0; i < sk_X509_CRL_num(tls->crls); i++) {
        const X509_CRL *crl = sk_X509_CRL_value(tls->crls, i);
        times.made_s = earlier(times.made_s, X509_CRL_get0_lastUpdate(crl));
        times.end_s = earlier(times.end_s, X509_CRL_get0_nextUpdate(crl));
    }
    ea_mutex_unlock(tls->mutex);
    ERR_clear_error();
    return times;
}

static void note_client(ec_tls *tls, const char *agent, const X509 *cert) {
    int64_t end_s = earlier(0, X509_get0_notAfter(cert));
    ea_mutex_lock(tls->mutex);
    /* a full map knows the clients that came first */
    EA_IGNORE(ea_u64_map_put(&tls->client_ends, ea_hash64(agent, strlen(agent), 0), (uint64_t)end_s));
    ea_mutex_unlock(tls->mutex);
}

ec_tls_ends ec_tls_certificate_ends(ec_tls *tls) {
    ec_tls_ends ends = {.own_s = 0};
    STACK_OF(X509) *chain = NULL;
    size_t cursor = 0;
    uint64_t name, end_s;
    int64_t now_s = ea_utc_ns() / 1000000000;
    ea_mutex_lock(tls->mutex);
    SSL_CTX *own = tls->renewed ? tls->renewed : tls->ctx;
    if (SSL_CTX_get0_certificate(own))
        ends.own_s = earlier(0, X509_get0_notAfter(SSL_CTX_get0_certificate(own)));
    if (SSL_CTX_get0_chain_certs(own, &chain) == 1)
        for (int i = 0; i < sk_X509_num(chain); i++)
            ends.own_s = earlier(ends.own_s, X509_get0_notAfter(sk_X509_value(chain, i)));
    for (int i = 0; i < sk_X509_num(tls->issuers); i++)
        ends.ca_s = earlier(ends.ca_s, X509_get0_notAfter(sk_X509_value(tls->issuers, i)));
    while (ea_u64_map_next(&tls->client_ends, &cursor, &name, &end_s))
        if ((int64_t)end_s > now_s && (!ends.client_s || (int64_t)end_s < ends.client_s))
            ends.client_s = (int64_t)end_s;
    ea_mutex_unlock(tls->mutex);
    ERR_clear_error();
    return ends;
}

static int on_verify(int ok, X509_STORE_CTX *store) {
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    ec_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    X509 *cert = X509_STORE_CTX_get_current_cert(store);
    if (ok && cert && is_revoked(tls, cert)) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
        ok = 0;
    }
    if (!ok) {
        char subject[128] = "";
        if (cert)
            X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof subject);
        ec_log_about(tls->log, EC_LOG_STRANGER, "refused the certificate of %s: %s", subject,
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
    }
    return ok;
}

int ec_tls_identify(ec_tls *tls, const SSL *ssl, char *ret_agent, ea_err *err) {
    X509 *cert = SSL_get0_peer_certificate(ssl);
    if (!cert || SSL_get_verify_result(ssl) != X509_V_OK)
        return ea_fail(err, EA_EREFUSED, "no verified client certificate");
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0)
        return ea_fail(err, EA_EREFUSED, "the client certificate has expired");
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
        return ea_fail(err, EA_EREFUSED, "the client certificate needs one common name");
    const ASN1_STRING *cn = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    const unsigned char *name = ASN1_STRING_get0_data(cn);
    int n = ASN1_STRING_length(cn);
    if (n < 1 || !ea_name_is_agent((const char *)name, (size_t)n))
        return ea_fail(err, EA_EREFUSED, "the certificate's common name is no agent's name");
    if (is_revoked(tls, cert))
        return ea_fail(err, EA_EREFUSED, "the client certificate is revoked");
    memcpy(ret_agent, name, (size_t)n);
    ret_agent[n] = 0;
    ea_name_to_lower(ret_agent);
    note_client(tls, ret_agent, cert);
    return 0;
}

/* ---- session tickets ---- */

enum { TICKET_ENTRY_BYTES = 8 + 16 + 32 + 32, TICKET_FILE_BYTES = 16 + TICKET_KEYS * TICKET_ENTRY_BYTES + 8 };

static const uint64_t TICKET_MAGIC = 0x3154454b54575445u; /* "ETWTKET1" */

static void load_keys(ec_tls *tls) {
    ea_err err;
    char *data = NULL;
    size_t n = 0;
    if (!tls->ticket_path || !ea_path_exists(tls->ticket_path))
        return;
    if (ea_path_read_all(tls->ticket_path, TICKET_FILE_BYTES, &data, &n, &err)) {
        ec_log_line(tls->log, "ticket keys: %s; new ones are made", err.message);
        return;
    }
    const uint8_t *p = (const uint8_t *)data;
    if (n != TICKET_FILE_BYTES || ea_load64(p) != TICKET_MAGIC || ea_load32(p + 8) != TICKET_FILE_VERSION ||
        ea_load64(p + n - 8) != ea_hash64(p, n - 8, 0)) {
        ec_log_line(tls->log, "ticket keys in %s are not usable; new ones are made", tls->ticket_path);
    } else {
        p += 16;
        for (int i = 0; i < TICKET_KEYS; i++, p += TICKET_ENTRY_BYTES) {
            ticket_key *k = &tls->keys[i];
            k->made_utc_ns = (int64_t)ea_load64(p);
            memcpy(k->name, p + 8, sizeof k->name);
            memcpy(k->aes, p + 24, sizeof k->aes);
            memcpy(k->hmac, p + 56, sizeof k->hmac);
        }
    }
    OPENSSL_cleanse(data, n);
    free(data);
}

static void save_keys(ec_tls *tls) {
    uint8_t data[TICKET_FILE_BYTES] = {0}, *p = data + 16;
    ea_err err;
    if (!tls->ticket_path)
        return;
    ea_store64(data, TICKET_MAGIC);
    ea_store32(data + 8, TICKET_FILE_VERSION);
    for (int i = 0; i < TICKET_KEYS; i++, p += TICKET_ENTRY_BYTES) {
        const ticket_key *k = &tls->keys[i];
        ea_store64(p, (uint64_t)k->made_utc_ns);
        memcpy(p + 8, k->name, sizeof k->name);
        memcpy(p + 24, k->aes, sizeof k->aes);
        memcpy(p + 56, k->hmac, sizeof k->hmac);
    }
    ea_store64(p, ea_hash64(data, sizeof data - 8, 0));
    if (ea_path_write_all(tls->ticket_path, data, sizeof data, 1, &err))
        ec_log_line(tls->log, "ticket keys: %s; a restart will not resume sessions", err.message);
    OPENSSL_cleanse(data, sizeof data);
}

/* Makes a new sealing key when there is none or it is old. */
static int rotate_keys(ec_tls *tls) {
    ea_mutex_assert_held(tls->mutex);
    int64_t now = ea_utc_ns(), age = now - tls->keys[0].made_utc_ns;
    if (tls->keys[0].made_utc_ns && age >= 0 && age < TICKET_ROTATE_S * INT64_C(1000000000))
        return 0;
    ticket_key fresh = {.made_utc_ns = now};
    if (RAND_bytes(fresh.name, sizeof fresh.name) != 1 || RAND_bytes(fresh.aes, sizeof fresh.aes) != 1 ||
        RAND_bytes(fresh.hmac, sizeof fresh.hmac) != 1)
        return -1;
    memmove(tls->keys + 1, tls->keys, (TICKET_KEYS - 1) * sizeof tls->keys[0]);
    tls->keys[0] = fresh;
    OPENSSL_cleanse(&fresh, sizeof fresh);
    save_keys(tls);
    return 0;
}

/* OpenSSL asks for the keys of a ticket: to seal one (seal 1), or to open one by its key's name.
 * SSL_CTX_set_tlsext_ticket_key_evp_cb(3). */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                     int seal) {
    ec_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    char digest[] = "SHA256";
    ticket_key k = {0};
    int result = 0;
    ea_mutex_lock(tls->mutex);
    if (rotate_keys(tls) == 0) {
        for (int i = 0; i < TICKET_KEYS && !result; i++) {
            const ticket_key *have = &tls->keys[i];
            if (have->made_utc_ns && (seal || CRYPTO_memcmp(have->name, name, sizeof have->name) == 0)) {
                k = *have;
                result = seal ? 1 : 2; /* 2: a new ticket goes out, since a client uses each one once (RFC 8446, C.4) */
            }
        }
    } else {
        result = -1;
    }
    ea_mutex_unlock(tls->mutex);
    if (result > 0) {
        OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k.hmac, sizeof k.hmac),
                               OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
        int ok = EVP_MAC_CTX_set_params(mac, params);
        if (ok && seal) {
            memcpy(name, k.name, sizeof k.name);
            ok = RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
                 EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k.aes, iv);
        } else if (ok) {
            ok = EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k.aes, iv);
        }
        if (!ok)
            result = -1;
    }
    OPENSSL_cleanse(&k, sizeof k);
    return result;
}

/* ---- the context ---- */

/* Sessions made under another CA file must not be resumed: the file's hash is the session context. */
static int bind_sessions(ec_tls *tls, const char *pem, size_t len_bytes) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    return EVP_Digest(pem, len_bytes, digest, &n, EVP_sha256(), NULL) == 1 && n <= SSL_MAX_SSL_SESSION_ID_LENGTH &&
           SSL_CTX_set_session_id_context(tls->ctx, digest, n) == 1;
}

static int load_ca(ec_tls *tls, const char *path, ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0;
    int rc = ec_broker_read(tls->broker, path, MAX_FILE_BYTES, &pem, &len_bytes, err);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    X509_STORE *store = SSL_CTX_get_cert_store(tls->ctx);
    tls->issuers = sk_X509_new_null();
    if (!bio || !tls->issuers)
        rc = ea_fail(err, EA_ENOMEM, "read %s", path);
    while (!rc) {
        X509 *ca = PEM_read_bio_X509(bio, NULL, refuse_password, NULL);
        if (!ca) {
            if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE || sk_X509_num(tls->issuers) == 0)
                rc = ssl_fail(err, EA_EFORMAT, path);
            ERR_clear_error();
            break;
        }
        if (!sk_X509_push(tls->issuers, ca)) {
            X509_free(ca);
            rc = ea_fail(err, EA_ENOMEM, "read %s", path);
        } else if (X509_STORE_add_cert(store, ca) != 1 || SSL_CTX_add_client_CA(tls->ctx, ca) != 1) {
            rc = ssl_fail(err, EA_ECRYPTO, path);
        }
    }
    if (!rc && !bind_sessions(tls, pem, len_bytes))
        rc = ssl_fail(err, EA_ECRYPTO, path);
    BIO_free(bio);
    free(pem);
    return rc;
}

/* The CAs between the own certificate and those of the CA file may sign revocation lists, too: where the CA file holds
 * a root alone, they are what issues agents' certificates. */
static int add_own_chain(ec_tls *tls, ea_err *err) {
    STACK_OF(X509) *chain = NULL;
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    int rc = ctx && SSL_CTX_get0_chain_certs(tls->ctx, &chain) == 1 ? 0 : ea_fail(err, EA_ENOMEM, "set up TLS");
    for (int i = 0; !rc && i < sk_X509_num(chain); i++) {
        X509 *ca = sk_X509_value(chain, i);
        int is_ours = X509_check_ca(ca) == 1 &&
                      X509_STORE_CTX_init(ctx, SSL_CTX_get_cert_store(tls->ctx), ca, chain) == 1 &&
                      X509_verify_cert(ctx) == 1;
        X509_STORE_CTX_cleanup(ctx);
        if (is_ours && (X509_up_ref(ca) != 1 || !sk_X509_push(tls->issuers, ca)))
            rc = ea_fail(err, EA_ENOMEM, "set up TLS");
    }
    X509_STORE_CTX_free(ctx);
    ERR_clear_error();
    return rc;
}

static char *tls_copy_string(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = malloc(n);
    if (p)
        memcpy(p, s, n);
    return p;
}

static int tls_open_pem(const ec_tls *tls, const char *path, char **ret_pem, BIO **ret, ea_err *err) {
    size_t len_bytes = 0;
    int rc = ec_broker_read(tls->broker, path, MAX_FILE_BYTES, ret_pem, &len_bytes, err);
    if (rc)
        return rc;
    *ret = BIO_new_mem_buf(*ret_pem, (int)len_bytes);
    if (*ret)
        return 0;
    free(*ret_pem);
    *ret_pem = NULL;
    return ea_fail(err, EA_ENOMEM, "read %s", path);
}

/* Whether clients take the certificate for a server's: they look at its key usages, where it has some. */
static int tls_check_purpose(const ec_tls *tls, X509 *cert, ea_err *err) {
    if (X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0) == 1)
        return 0;
    ERR_clear_error();
    return ea_fail(err, EA_EINVAL,
                   "%.200s: expected a server's certificate, found one %s, which agents and browsers refuse: make one "
                   "with \"etwcollector ca issue --server --name NAME --san DNS:HOST\"",
                   tls->cert_path,
                   X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0) == 1 ? "for a client, as agents have"
                                                                             : "that is not for a server");
}

/* The own certificate, with its chain, and its key. */
static int load_own(const ec_tls *tls, SSL_CTX *ctx, ea_err *err) {
    BIO *bio = NULL;
    char *pem = NULL;
    int rc = tls_open_pem(tls, tls->cert_path, &pem, &bio, err);
    X509 *cert = rc ? NULL : PEM_read_bio_X509_AUX(bio, NULL, refuse_password, NULL);
    if (!rc && (!cert || SSL_CTX_use_certificate(ctx, cert) != 1))
        rc = ssl_fail(err, EA_EFORMAT, tls->cert_path);
    if (!rc)
        rc = tls_check_purpose(tls, cert, err);
    X509_free(cert);
    while (!rc && (cert = PEM_read_bio_X509(bio, NULL, refuse_password, NULL)))
        if (SSL_CTX_add0_chain_cert(ctx, cert) != 1) {
            X509_free(cert);
            rc = ssl_fail(err, EA_EFORMAT, tls->cert_path);
        }
    if (!rc && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        rc = ssl_fail(err, EA_EFORMAT, tls->cert_path);
    ERR_clear_error();
    BIO_free(bio);
    free(pem);
    if (rc)
        return rc;
    rc = tls_open_pem(tls, tls->key_path, &pem, &bio, err);
    if (rc)
        return rc;
    int has_password = 0;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &has_password);
    if (!key && has_password) {
        ERR_clear_error();
        rc = ea_fail(err, EA_EUNSUPPORTED,
                     "%s: the key has a password, which a service cannot ask for; store it without one, readable by "
                     "its user alone (openssl pkey -in KEY -out NEW)",
                     tls->key_path);
    } else if (!key || SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1) {
        rc = ssl_fail(err, EA_EFORMAT, tls->key_path);
    }
    EVP_PKEY_free(key);
    BIO_free(bio);
    OPENSSL_cleanse(pem, strlen(pem));
    free(pem);
    return rc;
}

static int tls_configure(ec_tls *tls, const ec_tls_options *o, ea_err *err) {
    SSL_CTX *ctx = tls->ctx;
    SSL_CTX_set_app_data(ctx, tls);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1)
        return ssl_fail(err, EA_ECRYPTO, "TLS 1.3");
    int rc = load_own(tls, ctx, err);
    if (!rc && o->ca_path)
        rc = load_ca(tls, o->ca_path, err);
    if (!rc && o->ca_path)
        rc = add_own_chain(tls, err);
    if (!rc && o->ca_path) {
        ea_mutex_lock(tls->mutex);
        rc = refresh_crls(tls, err);
        ea_mutex_unlock(tls->mutex);
    }
    if (rc)
        return rc;
    if (o->ca_path)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (o->client_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
                           on_verify);
    SSL_CTX_set_verify_depth(ctx, 4);
    SSL_CTX_set_max_cert_list(ctx, MAX_CERT_CHAIN_BYTES);
    /* Never read-ahead: libevent then misses what OpenSSL has buffered, and uploads stall. RELEASE_BUFFERS: an idle
     * connection keeps no record buffers. */
    SSL_CTX_set_read_ahead(ctx, 0);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets hold the sessions */
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_timeout(ctx, TICKET_LIFETIME_S);
    load_keys(tls);
    ea_mutex_lock(tls->mutex);
    int failed = rotate_keys(tls);
    ea_mutex_unlock(tls->mutex);
    if (failed)
        return ssl_fail(err, EA_ECRYPTO, "make ticket keys");
    if (SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) != 1)
        return ssl_fail(err, EA_ECRYPTO, "set the ticket keys");
    return 0;
}

int ec_tls_create(ec_tls **ret, const ec_tls_options *options, ea_err *err) {
    ec_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return ea_fail(err, EA_ENOMEM, "set up TLS");
    ea_u64_map_init(&tls->client_ends, CLIENTS_MAX);
    tls->log = options->log;
    tls->broker = options->broker;
    tls->cert_path = tls_copy_string(options->cert_path);
    tls->key_path = tls_copy_string(options->key_path);
    tls->crl_path = options->crl_path ? tls_copy_string(options->crl_path) : NULL;
    tls->ticket_path = options->ticket_path ? tls_copy_string(options->ticket_path) : NULL;
    int rc = ea_mutex_create(&tls->mutex, err);
    if (!rc && (!tls->cert_path || !tls->key_path || (options->crl_path && !tls->crl_path) ||
                (options->ticket_path && !tls->ticket_path)))
        rc = ea_fail(err, EA_ENOMEM, "set up TLS");
    if (!rc) {
        tls->ctx = SSL_CTX_new(TLS_server_method());
        rc = tls->ctx ? tls_configure(tls, options, err) : ssl_fail(err, EA_ECRYPTO, "set up TLS");
    }
    if (rc) {
        ec_tls_destroy(tls);
        return rc;
    }
    *ret = tls;
    return 0;
}

void ec_tls_destroy(ec_tls *tls) {
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    SSL_CTX_free(tls->renewed);
    sk_X509_pop_free(tls->issuers, X509_free);
    sk_X509_CRL_pop_free(tls->crls, X509_CRL_free);
    ea_mutex_destroy(tls->mutex);
    free(tls->cert_path);
    free(tls->key_path);
    free(tls->crl_path);
    free(tls->ticket_path);
    ea_u64_map_deinit(&tls->client_ends);
    OPENSSL_cleanse(tls->keys, sizeof tls->keys);
    free(tls);
}

int ec_tls_renew(ec_tls *tls, ea_err *err) {
    SSL_CTX *fresh = SSL_CTX_new(TLS_server_method()), *old;
    int rc = fresh ? load_own(tls, fresh, err) : ssl_fail(err, EA_ENOMEM, "read the certificate again");
    if (rc) {
        SSL_CTX_free(fresh);
        return rc;
    }
    ea_mutex_lock(tls->mutex);
    old = tls->renewed;
    tls->renewed = fresh;
    ea_mutex_unlock(tls->mutex);
    SSL_CTX_free(old);
    return 0;
}

/* Gives a session the certificate that was read again. */
static int use_renewed(const ec_tls *tls, SSL *ssl) {
    STACK_OF(X509) *chain = NULL;
    ea_mutex_assert_held(tls->mutex);
    return SSL_CTX_get0_chain_certs(tls->renewed, &chain) == 1 &&
           SSL_use_cert_and_key(ssl, SSL_CTX_get0_certificate(tls->renewed), SSL_CTX_get0_privatekey(tls->renewed),
                                chain, 1) == 1;
}

SSL *ec_tls_session(ec_tls *tls) {
    SSL *ssl = SSL_new(tls->ctx);
    ea_mutex_lock(tls->mutex);
    if (ssl && tls->renewed && !use_renewed(tls, ssl)) {
        SSL_free(ssl);
        ssl = NULL;
    }
    ea_mutex_unlock(tls->mutex);
    ERR_clear_error();
    return ssl;
}
