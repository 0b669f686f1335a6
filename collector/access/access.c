/* Who may ask. See access.h. */
#include "access.h"

#include "bytes.h"
#include "platform.h"
#include "text.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { WAYS = 4, KEY_BYTES = 16, HEADER_MAX = 512 };
static const int64_t S_NS = INT64_C(1000000000);

/* A bucket that fills by EC_ACCESS_RATE a second up to EC_ACCESS_BURST. Zero: never seen. */
typedef struct bucket {
    uint8_t key[KEY_BYTES];
    int64_t seen_ns;
    double left;
    unsigned failures;
    int64_t failed_ns;
} bucket;

struct ec_access {
    ea_mutex *mutex; /* guards all that follows */
    char dir[1024], path[1040];
    struct stat read; /* the tokens' file, as it was */
    int is_read;
    ec_token *tokens;
    size_t count;
    uint64_t salt; /* so that nobody chooses who shares a place */
    bucket *addresses;
    bucket of_tokens[EC_TOKENS_MAX]; /* by their place in tokens; begins anew when the file changes */
};

int ec_access_open(ec_access **ret, const char *dir, ea_err *err) {
    ec_access *a = calloc(1, sizeof *a);
    if (!a || !(a->addresses = calloc(EC_ACCESS_ADDRESSES, sizeof *a->addresses))) {
        free(a);
        return ea_fail(err, EA_ENOMEM, "read the tokens");
    }
    snprintf(a->dir, sizeof a->dir, "%s", dir);
    snprintf(a->path, sizeof a->path, "%s/tokens", a->dir);
    int rc = ea_random_bytes(&a->salt, sizeof a->salt, err);
    if (!rc)
        rc = ea_mutex_create(&a->mutex, err);
    if (rc) {
        ec_access_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_access_close(ec_access *a) {
    if (!a)
        return;
    ea_mutex_destroy(a->mutex);
    free(a->addresses);
    free(a->tokens);
    free(a);
}

static int refresh(ec_access *a, ea_err *err) {
    struct stat now = {0};
    ec_token *tokens = NULL;
    size_t count = 0;
    (void)stat(a->path, &now); /* none: all zero */
    if (a->is_read && now.st_ino == a->read.st_ino && now.st_size == a->read.st_size &&
        now.st_mtim.tv_sec == a->read.st_mtim.tv_sec && now.st_mtim.tv_nsec == a->read.st_mtim.tv_nsec &&
        now.st_ctim.tv_sec == a->read.st_ctim.tv_sec && now.st_ctim.tv_nsec == a->read.st_ctim.tv_nsec)
        return 0;
    int rc = ec_tokens_read(a->dir, &tokens, &count, err);
    free(a->tokens);
    a->tokens = rc ? NULL : tokens; /* what cannot be read lets nobody in */
    a->count = rc ? 0 : count;
    a->read = now;
    a->is_read = !rc;
    memset(a->of_tokens, 0, sizeof a->of_tokens);
    return rc;
}

/* ---- how often ---- */

/* Takes one request out of the bucket: 0 when it is empty. */
static int take(bucket *b, int64_t now_ns) {
    if (!b->seen_ns)
        b->left = EC_ACCESS_BURST;
    else if (now_ns > b->seen_ns)
        b->left += (double)(now_ns - b->seen_ns) / 1e9 * EC_ACCESS_RATE;
    if (b->left > EC_ACCESS_BURST)
        b->left = EC_ACCESS_BURST;
    b->seen_ns = now_ns ? now_ns : 1;
    if (b->left < 1)
        return 0;
    b->left -= 1;
    return 1;
}

static bucket *bucket_of(ec_access *a, const char *address) {
    uint8_t key[KEY_BYTES] = {0}, mixed[KEY_BYTES + sizeof a->salt], hash[EC_TOKEN_HASH_BYTES];
    uint8_t v6[16];
    unsigned int n = 0;
    if (inet_pton(AF_INET6, address, v6) == 1)
        memcpy(key, v6, 8);
    else
        memcpy(key, address, strnlen(address, sizeof key)); /* 1.2.3.4 */
    memcpy(mixed, key, sizeof key);
    memcpy(mixed + sizeof key, &a->salt, sizeof a->salt);
    if (EVP_Digest(mixed, sizeof mixed, hash, &n, EVP_sha256(), NULL) != 1)
        memset(hash, 0, sizeof hash);
    bucket *set = a->addresses + ea_load32(hash) % (EC_ACCESS_ADDRESSES / WAYS) * WAYS, *oldest = set;
    for (bucket *b = set; b < set + WAYS; b++) {
        if (b->seen_ns && memcmp(b->key, key, sizeof key) == 0)
            return b;
        if (b->seen_ns < oldest->seen_ns)
            oldest = b;
    }
    *oldest = (bucket){.seen_ns = 0};
    memcpy(oldest->key, key, sizeof key);
    return oldest;
}

/* ---- who ---- */

/* The token in a header; out has room for HEADER_MAX. */
static int token_of(const char *header, char *out) {
    size_t n = header ? strlen(header) : 0;
    if (n == 0 || n >= HEADER_MAX)
        return 0;
    if (strncasecmp(header, "Bearer ", 7) == 0) {
        snprintf(out, HEADER_MAX, "%s", header + 7);
        return 1;
    }
    if (strncasecmp(header, "Basic ", 6) != 0)
        return 0;
    unsigned char plain[HEADER_MAX] = {0};
    int len = (n - 6) % 4 ? -1 : EVP_DecodeBlock(plain, (const unsigned char *)header + 6, (int)(n - 6));
    const char *colon = len > 0 ? strchr((const char *)plain, ':') : NULL;
    if (colon)
        snprintf(out, HEADER_MAX, "%s", colon + 1);
    OPENSSL_cleanse(plain, sizeof plain);
    return colon != NULL;
}

static int admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns, ec_token *ret,
                 ea_err *err) {
    char text[HEADER_MAX] = "";
    bucket *b = bucket_of(a, address);
    if (!take(b, now_ns))
        return ea_fail(err, EA_ELIMIT, "too many requests from this address");
    if (b->failures && now_ns - b->failed_ns > EC_ACCESS_PENALTY_S * S_NS)
        b->failures = 0;
    if (b->failures >= EC_ACCESS_FAILURES)
        return ea_fail(err, EA_ELIMIT, "too many wrong tokens from this address: wait a minute");
    int rc = refresh(a, err);
    if (rc) /* not the fault of who asks */
        return rc == EA_EREFUSED || rc == EA_ELIMIT ? EA_EIO : rc;
    int given = token_of(authorization, text);
    const ec_token *found = given ? ec_tokens_find(a->tokens, a->count, text) : NULL;
    OPENSSL_cleanse(text, sizeof text);
    if (!found) {
        /* without any it is a browser that has to be asked first */
        b->failures += authorization != NULL;
        b->failed_ns = now_ns;
        return ea_fail(err, EA_EREFUSED, given ? "the token is wrong, or was revoked" : "a token is needed");
    }
    b->failures = 0;
    if (!take(&a->of_tokens[found - a->tokens], now_ns))
        return ea_fail(err, EA_ELIMIT, "too many requests with this token");
    *ret = *found;
    return 0;
}

int ec_access_admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns, ec_token *ret,
                    ea_err *err) {
    ea_mutex_lock(a->mutex);
    int rc = admit(a, address, authorization, now_ns, ret, err);
    ea_mutex_unlock(a->mutex);
    return rc;
}
