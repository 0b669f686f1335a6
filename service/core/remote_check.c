/* Whether a request is accepted. See remote_parts.h. Thread: the sender's, with the lock. */
#include "service/core/remote_parts.h"

#include "proto/base/crypto_error.h"

#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FILE_MAX = 64 << 10, KEY_BYTES = 32 };

static const int64_t EXPIRES_MAX_NS = (int64_t)31 * 86400 * 1000000000, WINDOW_MAX_NS = (int64_t)7 * 86400 * 1000000000;

static const struct {
    enum ea_counter counter;
    const char *text;
} REFUSALS[REMOTE_REFUSALS] = {
    [REMOTE_ACCEPTED] = {EA_COUNT_requests_accepted, "accepted"},
    [REMOTE_MALFORMED] = {EA_COUNT_requests_refused_malformed, "malformed: it has no valid form"},
    [REMOTE_FOREIGN_KEY] = {EA_COUNT_requests_refused_key, "foreign key: another key signed it"},
    [REMOTE_CHANGED] = {EA_COUNT_requests_refused_signature, "changed: its signature is not that of its content"},
    [REMOTE_OTHER_HOST] = {EA_COUNT_requests_refused_host, "foreign: it is of other hosts"},
    [REMOTE_REPLAYED] = {EA_COUNT_requests_refused_replayed, "replayed: it came before"},
    [REMOTE_REORDERED] = {EA_COUNT_requests_refused_reordered, "reordered: a later one came before"},
    [REMOTE_EXPIRED] = {EA_COUNT_requests_refused_expired, "expired"},
    [REMOTE_FORBIDDEN] = {EA_COUNT_requests_refused_policy, "forbidden: the local policy does not allow its kind"},
    [REMOTE_BEYOND_LIMITS] = {EA_COUNT_requests_refused_limits,
                              "beyond limits: a window of more than 7 days, an expiry after more than 31 days, or 32 "
                              "open requests"},
};

const char *remote_refusal_text(enum remote_refusal why) {
    return REFUSALS[why].text;
}

enum ea_counter remote_refusal_counter(enum remote_refusal why) {
    return REFUSALS[why].counter;
}

int remote_read_key(const char *path, EVP_PKEY **ret, uint8_t ret_name[EA_REQUEST_KEY_BYTES], ea_err *err) {
    char *pem = NULL;
    size_t len_bytes = 0, raw_bytes = KEY_BYTES;
    uint8_t raw[KEY_BYTES], digest[EVP_MAX_MD_SIZE];
    int rc = ea_path_read_all(path, KEY_FILE_MAX, &pem, &len_bytes, err);
    if (rc)
        return rc;
    BIO *bio = BIO_new_mem_buf(pem, (int)len_bytes);
    EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    free(pem);
    if (!key || !EVP_PKEY_is_a(key, "ED25519") || EVP_PKEY_get_raw_public_key(key, raw, &raw_bytes) != 1 ||
        raw_bytes != sizeof raw) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return ea_fail(err, EA_EINVAL, "%s: expected a public Ed25519 key in PEM", path);
    }
    if (EVP_Digest(raw, sizeof raw, digest, NULL, EVP_sha256(), NULL) != 1) {
        EVP_PKEY_free(key);
        return ea_fail_crypto(err, "read the key of requests");
    }
    memcpy(ret_name, digest, EA_REQUEST_KEY_BYTES);
    *ret = key;
    return 0;
}

/* Whether the key signed these bytes of a request. */
static int is_signed(EVP_PKEY *key, const ea_signed_request *s) {
    ea_text text;
    ea_text_init(&text);
    ea_request_put_signed(s->request, s->request_bytes, &text);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int good = context && !text.failed && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
               EVP_DigestVerify(context, s->signature, EA_REQUEST_SIGNATURE_BYTES, (const uint8_t *)text.data,
                                text.len_bytes) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    ea_text_deinit(&text);
    return good;
}

static int has_seen(const ea_remote *r, uint64_t serial) {
    for (size_t i = 0; i < r->seen_count; i++)
        if (r->seen[i] == serial)
            return 1;
    return 0;
}

enum remote_refusal remote_check(const ea_remote *r, const uint8_t *data, size_t len_bytes, int64_t now_utc_ns,
                                 ea_request *ret) {
    ea_signed_request s;
    ea_err ignored;
    *ret = (ea_request){.serial = 0};
    if (ea_signed_request_decode(&s, data, len_bytes, &ignored) ||
        ea_request_decode(ret, s.request, s.request_bytes, &ignored))
        return REMOTE_MALFORMED;
    if (memcmp(s.key, r->key_name, sizeof r->key_name) != 0)
        return REMOTE_FOREIGN_KEY;
    if (!is_signed(r->key, &s))
        return REMOTE_CHANGED;
    if (!ea_name_in(ret->hosts, r->name))
        return REMOTE_OTHER_HOST;
    if (ret->serial <= r->serial)
        return has_seen(r, ret->serial) ? REMOTE_REPLAYED : REMOTE_REORDERED;
    if (ret->expires_utc_ns <= now_utc_ns)
        return REMOTE_EXPIRED;
    if (ret->kind >= 32 || !(r->allowed & UINT32_C(1) << ret->kind))
        return REMOTE_FORBIDDEN;
    if (r->open_count == REMOTE_OPEN_MAX || ret->to_utc_ns - ret->from_utc_ns > WINDOW_MAX_NS ||
        ret->expires_utc_ns - now_utc_ns > EXPIRES_MAX_NS)
        return REMOTE_BEYOND_LIMITS;
    return REMOTE_ACCEPTED;
}
