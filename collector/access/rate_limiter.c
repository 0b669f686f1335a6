/* Buckets of requests. See rate_limiter.h. */
#include "collector/access/rate_limiter.h"

#include "proto/base/bytes.h"
#include "proto/base/platform.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 4, HASH_BYTES = 32 };

static const int64_t S_NS = INT64_C(1000000000);

struct ec_rate_limiter {
    uint64_t salt; /* random, so that a client cannot choose which addresses share its row */
    ec_rate addresses[EC_ACCESS_ADDRESSES];
};

int ec_rate_limiter_create(ec_rate_limiter **ret, ea_err *err) {
    ec_rate_limiter *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "count requests");
    int rc = ea_random_bytes(&r->salt, sizeof r->salt, err);
    if (rc) {
        free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void ec_rate_limiter_destroy(ec_rate_limiter *r) {
    free(r);
}

int ec_rate_take(ec_rate *b, int64_t now_ns) {
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

void ec_rate_put_back(ec_rate *b) {
    b->left += 1;
}

ec_rate *ec_rate_limiter_of(ec_rate_limiter *r, const char *address, const char *id) {
    enum { ADDRESS_BYTES = 16 };

    ec_rate fresh = {.seen_ns = 0};
    uint8_t mixed[sizeof fresh.key + sizeof r->salt], hash[HASH_BYTES], v6[16];
    unsigned int n = 0;
    if (inet_pton(AF_INET6, address, v6) == 1)
        memcpy(fresh.key, v6, 8);
    else
        memcpy(fresh.key, address, strnlen(address, ADDRESS_BYTES)); /* 1.2.3.4 */
    memcpy(fresh.key + ADDRESS_BYTES, id, strnlen(id, sizeof fresh.key - ADDRESS_BYTES));
    memcpy(mixed, fresh.key, sizeof fresh.key);
    memcpy(mixed + sizeof fresh.key, &r->salt, sizeof r->salt);
    if (EVP_Digest(mixed, sizeof mixed, hash, &n, EVP_sha256(), NULL) != 1)
        memset(hash, 0, sizeof hash);
    ec_rate *set = r->addresses + (size_t)WAYS * (ea_load32(hash) % (EC_ACCESS_ADDRESSES / WAYS));
    ec_rate *oldest = set;
    for (ec_rate *b = set; b < set + WAYS; b++) {
        if (b->seen_ns && memcmp(b->key, fresh.key, sizeof fresh.key) == 0)
            return b;
        if (b->seen_ns < oldest->seen_ns)
            oldest = b;
    }
    *oldest = fresh;
    return oldest;
}

int ec_rate_is_closed(ec_rate *b, int64_t now_ns) {
    if (b->failures && now_ns - b->failed_ns > EC_ACCESS_PENALTY_S * S_NS)
        b->failures = 0;
    return b->failures >= EC_ACCESS_FAILURES;
}

int ec_rate_limiter_take(ec_rate_limiter *r, const char *address, int64_t now_ns, ec_rate **ret, ea_err *err) {
    ec_rate *b = ec_rate_limiter_of(r, address, "");
    if (!ec_rate_take(b, now_ns))
        return ea_fail(err, EA_ELIMIT, "too many requests from this address");
    *ret = b;
    return 0;
}

void ec_rate_failed(ec_rate *b, int64_t now_ns) {
    b->failures++;
    b->failed_ns = now_ns;
    b->seen_ns = now_ns ? now_ns : 1;
}
