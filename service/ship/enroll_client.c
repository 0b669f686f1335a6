/* Enrolment. See enroll_client.h. */
#include "service/ship/enroll_client.h"

#include "proto/base/crypto_error.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "service/host/host.h"
#include "service/ship/curl_reason.h"
#include "service/ship/tls_store.h"

#include <curl/curl.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 10, ANSWER_MAX = 32 << 10, SAID_MAX = 400 };

static const int64_t TIMEOUT_NS = (int64_t)30 * 1000000000;
static const char NAME_CHARACTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

static char *beside(const char *path) {
    size_t n = strlen(path) + sizeof ".new";
    char *made = malloc(n);
    if (made)
        snprintf(made, n, "%s.new", path);
    return made;
}

/* ---- files ---- */

/* The content of a file for OpenSSL, which frees what it is given: the caller wipes and frees *ret_data. */
static BIO *enroll_client_open_pem(const char *path, char **ret_data, size_t *ret_len_bytes, ea_err *err, int *ret_rc) {
    *ret_rc = ea_path_read_all(path, FILE_MAX, ret_data, ret_len_bytes, err);
    BIO *bio = *ret_rc ? NULL : BIO_new_mem_buf(*ret_data, (int)*ret_len_bytes);
    if (!*ret_rc && !bio)
        *ret_rc = ea_fail(err, EA_ENOMEM, "read %s", path);
    return bio;
}

/* No question for a password on the terminal, where a service would wait for ever. *arg: one was wanted. */
static int note_password(char *out, int size, int is_writing, void *arg) {
    (void)out, (void)size, (void)is_writing;
    *(int *)arg = 1;
    return -1;
}

static int enroll_client_read_key(const char *path, EVP_PKEY **ret, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0;
    int rc, has_password = 0;
    BIO *bio = enroll_client_open_pem(path, &data, &len_bytes, err, &rc);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, note_password, &has_password) : NULL;
    BIO_free(bio);
    if (data)
        OPENSSL_cleanse(data, len_bytes);
    free(data);
    if (!rc && !key) {
        ERR_clear_error();
        rc = has_password
                 ? ea_fail(err, EA_EUNSUPPORTED,
                           "%s: the key has a password, which a service cannot ask for; store it without one, readable "
                           "by the agent's account alone (openssl pkey -in KEY -out NEW)",
                           path)
                 : ea_fail(err, EA_EFORMAT, "%s: expected a private key, PEM", path);
    }
    if (!rc)
        *ret = key;
    return rc;
}

int ea_key_check_password(const char *path, ea_err *err) {
    EVP_PKEY *key = NULL;
    int rc = enroll_client_read_key(path, &key, err);
    EVP_PKEY_free(key);
    return rc == EA_EUNSUPPORTED ? rc : 0;
}

static int enroll_client_read_certificate(const char *path, X509 **ret, ea_err *err) {
    char *data = NULL;
    size_t len_bytes = 0;
    int rc;
    BIO *bio = enroll_client_open_pem(path, &data, &len_bytes, err, &rc);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    free(data);
    if (!rc && !cert) {
        ERR_clear_error();
        rc = ea_fail(err, EA_EFORMAT, "%s: expected a certificate, PEM", path);
    }
    if (!rc)
        *ret = cert;
    return rc;
}

/* Seconds since 1970. ASN1_TIME_diff counts from now: mktime knows local time alone. */
static int enroll_client_seconds_of(const ASN1_TIME *t, int64_t *ret) {
    int days, seconds;
    if (ASN1_TIME_diff(&days, &seconds, NULL, t) != 1)
        return 0;
    *ret = ea_utc_ns() / 1000000000 + (int64_t)days * 86400 + seconds;
    return 1;
}

static int enroll_client_describe(const X509 *cert, ea_certificate *ret, const char *whose, ea_err *err) {
    ea_certificate c = {.name = ""};
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    const ASN1_STRING *cn = at >= 0 ? X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)) : NULL;
    int n = cn ? ASN1_STRING_length(cn) : 0;
    int good = n >= 1 && n < EA_CERTIFICATE_NAME_BYTES &&
               enroll_client_seconds_of(X509_get0_notBefore(cert), &c.not_before_s) &&
               enroll_client_seconds_of(X509_get0_notAfter(cert), &c.not_after_s);
    ERR_clear_error();
    if (!good)
        return ea_fail(err, EA_EFORMAT, "%s: its certificate has no common name, or no dates", whose);
    memcpy(c.name, ASN1_STRING_get0_data(cn), (size_t)n);
    *ret = c;
    return 0;
}

int ea_certificate_read(const char *path, ea_certificate *ret, ea_err *err) {
    X509 *cert = NULL;
    int rc = enroll_client_read_certificate(path, &cert, err);
    if (!rc)
        rc = enroll_client_describe(cert, ret, path, err);
    X509_free(cert);
    return rc;
}

int ea_certificate_of_der(const uint8_t *der, size_t len_bytes, ea_certificate *ret, ea_err *err) {
    const unsigned char *at = der;
    X509 *cert = len_bytes <= FILE_MAX ? d2i_X509(NULL, &at, (long)len_bytes) : NULL;
    int rc = cert ? enroll_client_describe(cert, ret, "the store", err)
                  : ea_fail(err, EA_EFORMAT, "the store: expected a certificate");
    X509_free(cert);
    ERR_clear_error();
    return rc;
}

int ea_enroll_token_read(const char *path, char *token, ea_err *err) {
    static const char SPACE[] = " \t\r\n";
    char *data = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_read_all(path, FILE_MAX, &data, &len_bytes, err);
    if (rc)
        return rc;
    const char *begin = data + strspn(data, SPACE);
    size_t n = strcspn(begin, SPACE);
    if (!n || n >= EA_ENROLL_TOKEN_MAX || begin[n + strspn(begin + n, SPACE)] ||
        strspn(begin, "abcdefghijklmnopqrstuvwxyz0123456789_") != n) {
        rc = ea_fail(err, EA_EFORMAT, "%s: expected an enrolment token and nothing else", path);
    } else {
        memcpy(token, begin, n);
        token[n] = 0;
    }
    OPENSSL_cleanse(data, len_bytes);
    free(data);
    return rc;
}

int ea_enroll_name_is_good(const char *name) {
    size_t n = strlen(name);
    return n >= 1 && n < EA_CERTIFICATE_NAME_BYTES && name[0] != '.' && name[0] != '-' &&
           strspn(name, NAME_CHARACTERS) == n;
}

void ea_enroll_name(const char *given, char out[EA_CERTIFICATE_NAME_BYTES]) {
    if (given)
        snprintf(out, EA_CERTIFICATE_NAME_BYTES, "%s", given);
    else
        ea_machine_fact(EA_MACHINE_NAME, out, EA_CERTIFICATE_NAME_BYTES);
    for (char *at = out; *(at += strspn(at, NAME_CHARACTERS));)
        *at = '-';
    if (out[0] == '.' || out[0] == '-')
        out[0] = '_';
    if (!out[0])
        snprintf(out, EA_CERTIFICATE_NAME_BYTES, "unknown");
}

/* ---- the request ---- */

/* The key of an attempt before, or a new one. */
static int have_key(const char *path, EVP_PKEY **ret, ea_err *err) {
    EVP_PKEY *key = NULL;
    if (ea_path_exists(path) && !enroll_client_read_key(path, &key, NULL)) {
        *ret = key;
        return 0;
    }
    key = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_secmem());
    char *data = NULL;
    int rc = key && bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                 ? 0
                 : ea_fail_crypto(err, "make a key");
    if (!rc) {
        long n = BIO_get_mem_data(bio, &data);
        rc = ea_path_make_parent(path, err);
        if (!rc)
            rc = ea_path_write_all(path, data, (size_t)n, 1, err);
    }
    BIO_free(bio);
    if (rc)
        EVP_PKEY_free(key);
    else
        *ret = key;
    return rc;
}

static int enroll_client_put_request(EVP_PKEY *key, const char *name, ea_text *out, ea_err *err) {
    X509_REQ *csr = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    int good = csr && bio && X509_REQ_set_version(csr, X509_REQ_VERSION_1) == 1 &&
               X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(csr), "CN", MBSTRING_UTF8,
                                          (const unsigned char *)name, -1, -1, 0) == 1 &&
               X509_REQ_set_pubkey(csr, key) == 1 && X509_REQ_sign(csr, key, EVP_sha256()) > 0 &&
               PEM_write_bio_X509_REQ(bio, csr) == 1;
    int rc = good ? 0 : ea_fail_crypto(err, "make a request for a certificate");
    if (good) {
        long n = BIO_get_mem_data(bio, &data);
        ea_text_add(out, data, (size_t)n);
        rc = out->failed ? ea_fail(err, EA_ENOMEM, "make a request for a certificate") : 0;
    }
    BIO_free(bio);
    X509_REQ_free(csr);
    return rc;
}

typedef struct exchange {
    const ea_enroll_options *o;
    char url[1024];
    ea_text answer;
    char curl_text[CURL_ERROR_SIZE];
    struct curl_slist *headers;
    ea_err tls; /* why the roots of a store cannot be had */
} exchange;

static size_t enroll_client_on_answer(char *data, size_t size, size_t n, void *arg) {
    exchange *x = arg;
    if (size != 1 || n > ANSWER_MAX - x->answer.len_bytes)
        return 0;
    ea_text_add(&x->answer, data, n);
    return x->answer.failed ? 0 : n;
}

static int enroll_client_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const exchange *x = arg;
    (void)a, (void)b, (void)c, (void)d;
    return x->o->stop && atomic_load(x->o->stop);
}

/* Roots of the operating system's store. */
static CURLcode enroll_client_on_tls(CURL *curl, void *context, void *arg) {
    exchange *x = arg;
    (void)curl;
    return ea_tls_store_apply(context, NULL, x->o->cert, x->o->ca, &x->tls) ? CURLE_SSL_CACERT_BADFILE : CURLE_OK;
}

static int add_header(exchange *x, const char *text) {
    struct curl_slist *more = curl_slist_append(x->headers, text);
    if (more)
        x->headers = more;
    return more != NULL;
}

static int make_headers(exchange *x, ea_err *err) {
    char text[EA_ENROLL_TOKEN_MAX + 32] = "";
    int good = add_header(x, "Content-Type: application/pkcs10") && add_header(x, "Expect:");
    if (good && x->o->token) {
        snprintf(text, sizeof text, "Authorization: Bearer %s", x->o->token);
        good = add_header(x, text);
        OPENSSL_cleanse(text, sizeof text);
    }
    return good ? 0 : ea_fail(err, EA_ENOMEM, "ask %s", x->url);
}

static void drop_headers(exchange *x) {
    for (const struct curl_slist *at = x->headers; at; at = at->next)
        OPENSSL_cleanse(at->data, strlen(at->data)); /* one of them holds the token */
    curl_slist_free_all(x->headers);
}

static int enroll_client_from_curl(const exchange *x, CURL *handle, CURLcode code, ea_err *err) {
    char reason[EA_CURL_REASON_BYTES];
    const char *text = ea_curl_reason(handle, code, x->url, x->curl_text, reason);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return ea_fail(err, EA_ETLS, "ask %s: the collector's certificate is not to be trusted: %s", x->url, text);
    case CURLE_SSL_CERTPROBLEM:
        return ea_fail(err, EA_ETLS, "ask %s: the certificate %s with the key %s is not usable: %s", x->url, x->o->cert,
                       x->o->key, text);
    case CURLE_SSL_CACERT_BADFILE:
        return ea_fail(err, EA_ETLS, "ask %s: the CA in %s is not usable: %s", x->url, x->o->ca,
                       x->tls.code ? x->tls.message : text);
    case CURLE_OPERATION_TIMEDOUT:
        return ea_fail(err, EA_ETIMEOUT, "ask %s: no answer in time", x->url);
    case CURLE_ABORTED_BY_CALLBACK:
        return ea_fail(err, EA_ECANCELED, "ask %s", x->url);
    case CURLE_WRITE_ERROR:
        return ea_fail(err, EA_EFORMAT, "ask %s: the answer is no certificate", x->url);
    default:
        return ea_fail(err, EA_ENET, "ask %s: %s", x->url, text);
    }
}

/* What a problem (RFC 9457) says for a person; it is foreign text. */
static void put_detail(const ea_text *answer, ea_text *out) {
    static const char KEY[] = "\"detail\":\"";
    const char *begin = answer->len_bytes ? strstr(answer->data, KEY) : NULL;
    if (!begin)
        return;
    begin += sizeof KEY - 1;
    size_t n = strcspn(begin, "\"\\");
    ea_text_safe(out, begin, n < SAID_MAX ? n : SAID_MAX);
}

static int refused(exchange *x, long status, ea_err *err) {
    ea_text said;
    ea_text_init(&said);
    ea_text_add(&x->answer, "", 1);
    if (!x->answer.failed)
        put_detail(&x->answer, &said);
    ea_text_add(&said, "", 1);
    int code = status == 409 ? EA_EEXIST : status >= 400 && status < 500 && status != 429 ? EA_EREFUSED : EA_ENET;
    int rc = ea_fail(err, code, "ask %s: status %ld: %s", x->url, status, said.failed ? "" : said.data);
    ea_text_deinit(&said);
    return rc;
}

static int enroll_client_perform(exchange *x, const ea_text *body, ea_err *err) {
    const ea_enroll_options *o = x->o;
    int ca_is_place = ea_store_is_place(o->ca);
    CURL *c = curl_easy_init();
    if (!c)
        return ea_fail(err, EA_ENOMEM, "ask %s", x->url);
    CURLcode bad = CURLE_OK;
#define SET(option, value)                                                                                             \
    if (bad == CURLE_OK)                                                                                               \
    bad = curl_easy_setopt(c, option, value)
    SET(CURLOPT_URL, x->url);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, x->curl_text);
    SET(CURLOPT_PROTOCOLS_STR, "https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, o->proxy ? o->proxy : "");
    SET(CURLOPT_NOPROXY, "");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_CAINFO, ca_is_place ? NULL : o->ca);
    if (ca_is_place) {
        SET(CURLOPT_SSL_CTX_FUNCTION, enroll_client_on_tls);
        SET(CURLOPT_SSL_CTX_DATA, x);
    }
    SET(CURLOPT_CAPATH, NULL);
    if (!o->token) {
        SET(CURLOPT_SSLCERT, o->cert);
        SET(CURLOPT_SSLKEY, o->key);
        SET(CURLOPT_KEYPASSWD, ""); /* else OpenSSL asks on the terminal */
    }
    SET(CURLOPT_TIMEOUT_MS, (long)((o->timeout_ns ? o->timeout_ns : TIMEOUT_NS) / 1000000));
    SET(CURLOPT_USERAGENT, "etwagent");
    SET(CURLOPT_HTTPHEADER, x->headers);
    SET(CURLOPT_POSTFIELDS, body->data);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len_bytes);
    SET(CURLOPT_WRITEFUNCTION, enroll_client_on_answer);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, enroll_client_on_progress);
    SET(CURLOPT_XFERINFODATA, x);
#undef SET
    long status = 0;
    int rc = bad == CURLE_OK ? 0 : ea_fail(err, EA_EUNSUPPORTED, "prepare libcurl: %s", curl_easy_strerror(bad));
    CURLcode code = rc ? CURLE_OK : curl_easy_perform(c);
    if (code != CURLE_OK)
        rc = enroll_client_from_curl(x, c, code, err);
    else if (!rc)
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (!rc && status != 200)
        rc = refused(x, status, err);
    curl_easy_cleanup(c);
    return rc;
}

/* The answer is a certificate of the key. */
static int check_answer(const exchange *x, EVP_PKEY *key, ea_err *err) {
    char none[] = ""; /* no question for a password */
    BIO *bio = BIO_new_mem_buf(x->answer.data, (int)x->answer.len_bytes);
    X509 *cert = bio && x->answer.len_bytes ? PEM_read_bio_X509(bio, NULL, NULL, none) : NULL;
    int good = cert && X509_check_private_key(cert, key) == 1;
    X509_free(cert);
    BIO_free(bio);
    ERR_clear_error();
    return good ? 0 : ea_fail(err, EA_EFORMAT, "ask %s: the answer is no certificate for this machine's key", x->url);
}

int ea_enroll_ask(const ea_enroll_options *o, ea_err *err) {
    exchange x = {.o = o};
    char *new_cert = beside(o->cert), *new_key = beside(o->key);
    EVP_PKEY *key = NULL;
    size_t n = strlen(o->url);
    ea_text body;
    while (n && o->url[n - 1] == '/')
        n--;
    int length = snprintf(x.url, sizeof x.url, "%.*s/v1/%s", (int)n, o->url, o->token ? "enroll" : "renew");
    ea_text_init(&body);
    ea_text_init(&x.answer);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !new_cert || !new_key) {
        free(new_cert);
        free(new_key);
        return ea_fail(err, EA_ENOMEM, "ask %s", o->url);
    }
    int rc = length < 0 || (size_t)length >= sizeof x.url
                 ? ea_fail(err, EA_EUSAGE, "%.64s...: the address is too long", o->url)
                 : have_key(new_key, &key, err);
    if (!rc)
        rc = enroll_client_put_request(key, o->name, &body, err);
    if (!rc)
        rc = make_headers(&x, err);
    if (!rc)
        rc = enroll_client_perform(&x, &body, err);
    if (!rc)
        rc = check_answer(&x, key, err);
    if (!rc)
        rc = ea_path_write_all(new_cert, x.answer.data, x.answer.len_bytes, 0, err);
    EVP_PKEY_free(key);
    drop_headers(&x);
    ea_text_deinit(&body);
    ea_text_deinit(&x.answer);
    curl_global_cleanup();
    free(new_cert);
    free(new_key);
    return rc;
}

/* ---- into place ---- */

/* 1 when the file holds the certificate's key. */
static int is_key_of(const char *path, X509 *cert) {
    EVP_PKEY *key = NULL;
    if (!ea_path_exists(path) || enroll_client_read_key(path, &key, NULL))
        return 0;
    int good = X509_check_private_key(cert, key) == 1;
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}

int ea_enroll_install(const char *cert, const char *key, int *ret_installed, ea_err *err) {
    char *new_cert = beside(cert), *new_key = beside(key);
    X509 *made = NULL;
    int rc = new_cert && new_key ? 0 : ea_fail(err, EA_ENOMEM, "install %s", cert), installed = 0;
    if (!rc && ea_path_exists(new_cert)) {
        int has_key = 0;
        if (!enroll_client_read_certificate(new_cert, &made, NULL)) {
            if (is_key_of(new_key, made)) {
                rc = ea_path_rename(new_key, key, err);
                has_key = !rc;
            } else {
                has_key = is_key_of(key, made); /* it was moved before a crash */
            }
        }
        if (!rc && has_key)
            rc = ea_path_rename(new_cert, cert, err);
        else if (!rc)
            rc = ea_path_remove(new_cert, err); /* of no use to anybody */
        installed = !rc && has_key;
    }
    X509_free(made);
    free(new_cert);
    free(new_key);
    if (!rc)
        *ret_installed = installed;
    return rc;
}
