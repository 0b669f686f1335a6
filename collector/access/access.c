/* Who may ask. See access.h. */
#include "collector/access/access.h"

#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { HEADER_MAX = 512 };

static const int64_t S_NS = INT64_C(1000000000);

struct ec_access {
    ea_mutex *mutex; /* guards all that follows */
    char dir[1024], path[1040];
    struct stat read; /* the tokens' file, as it was */
    int is_read;
    ec_token *tokens;
    size_t count;
    ec_rate_limiter *addresses;       /* requests without a right token */
    ec_rate_limiter *failures;        /* wrong tokens, by address and id */
    ec_rate of_tokens[EC_TOKENS_MAX]; /* by their place in tokens; begins anew when the file changes */
};

int ec_access_open(ec_access **ret, const char *dir, ea_err *err) {
    ec_access *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "read the tokens");
    snprintf(a->dir, sizeof a->dir, "%s", dir);
    snprintf(a->path, sizeof a->path, "%s/tokens", a->dir);
    int rc = ec_rate_limiter_create(&a->addresses, err);
    if (!rc)
        rc = ec_rate_limiter_create(&a->failures, err);
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
    ec_rate_limiter_destroy(a->addresses);
    ec_rate_limiter_destroy(a->failures);
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
    int rc = ec_api_tokens_read(a->dir, &tokens, &count, err);
    free(a->tokens);
    a->tokens = rc ? NULL : tokens; /* a token file that cannot be read admits no caller */
    a->count = rc ? 0 : count;
    a->read = now;
    a->is_read = !rc;
    memset(a->of_tokens, 0, sizeof a->of_tokens);
    return rc;
}

/* ---- who ---- */

/* The token in a header; out has room for HEADER_MAX. */
static int access_token_of(const char *header, char *out) {
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

/* The id in a token's text; "" when no token has it. All of those count as one, so that random ids fill no table. */
static const char *known_id(const ec_access *a, const char *text) {
    size_t n = strnlen(text, HEADER_MAX);
    for (size_t i = 0; i < a->count && n >= EC_SECRET_PREFIX_BYTES + EC_SECRET_ID_BYTES - 1; i++)
        if (memcmp(text + EC_SECRET_PREFIX_BYTES, a->tokens[i].secret.id, EC_SECRET_ID_BYTES - 1) == 0)
            return a->tokens[i].secret.id;
    return "";
}

static int fail_expired(const ec_token *token, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ea_text_utc_ns(&t, token->expires_s * S_NS);
    int rc = ea_fail(err, EA_EREFUSED, "the token expired at %s", t.data ? t.data : "an earlier time");
    ea_text_deinit(&t);
    return rc;
}

static int is_expired(const ec_token *token) {
    return ec_token_is_expired(token, ea_utc_ns() / S_NS);
}

/* A right token counts for its own rate alone: whatever others of the same address do, it is let in. */
static int access_admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns, ec_token *ret,
                        ea_err *err) {
    char text[HEADER_MAX] = "";
    ec_rate *b = NULL;
    int rc = refresh(a, err);
    if (rc) /* not the caller's fault */
        return rc == EA_EREFUSED || rc == EA_ELIMIT ? EA_EIO : rc;
    int given = access_token_of(authorization, text);
    const ec_token *found = given ? ec_api_tokens_find(a->tokens, a->count, text) : NULL;
    const char *id = found ? found->secret.id : known_id(a, text);
    OPENSSL_cleanse(text, sizeof text);
    if (found && !is_expired(found)) {
        *ret = *found;
        return ec_rate_take(&a->of_tokens[found - a->tokens], now_ns)
                   ? 0
                   : ea_fail(err, EA_ELIMIT, "too many requests with this token");
    }
    if ((rc = ec_rate_limiter_take(a->addresses, address, now_ns, &b, err)))
        return rc;
    if (!authorization) /* a browser that has to be asked for a token first */
        return ea_fail(err, EA_EREFUSED, "a token is needed");
    if (found) /* it is right, so it is no guess */
        return fail_expired(found, err);
    b = ec_rate_limiter_of(a->failures, address, id);
    if (ec_rate_is_closed(b, now_ns))
        return ea_fail(err, EA_ELIMIT, "too many wrong tokens from this address: wait a minute");
    ec_rate_failed(b, now_ns);
    return ea_fail(err, EA_EREFUSED, given ? "the token is wrong, or was revoked" : "a token is needed");
}

int ec_access_admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns, ec_token *ret,
                    ea_err *err) {
    ea_mutex_lock(a->mutex);
    int rc = access_admit(a, address, authorization, now_ns, ret, err);
    ea_mutex_unlock(a->mutex);
    return rc;
}

int ec_access_check(ec_access *a, const ec_token *token, ea_err *err) {
    ea_mutex_lock(a->mutex);
    int rc = refresh(a, err);
    int found = 0;
    for (size_t i = 0; !rc && i < a->count && !found; i++)
        found = strcmp(a->tokens[i].secret.id, token->secret.id) == 0 &&
                CRYPTO_memcmp(a->tokens[i].secret.hash, token->secret.hash, sizeof token->secret.hash) == 0 &&
                a->tokens[i].scope == token->scope && strcmp(a->tokens[i].hosts, token->hosts) == 0 &&
                a->tokens[i].expires_s == token->expires_s;
    ea_mutex_unlock(a->mutex);
    if (!rc && !found)
        rc = ea_fail(err, EA_EREFUSED, "the token was revoked");
    if (!rc && is_expired(token))
        rc = fail_expired(token, err);
    return rc;
}
