/* Limits the request rate of each address with a token bucket: requests empty it, time fills it. After too many wrong
 * tokens the bucket is closed for a while. Called by: access.h, collector/enroll. Calls: none. Thread: its owner's. */
#ifndef EC_ACCESS_RATE_LIMITER_H
#define EC_ACCESS_RATE_LIMITER_H

#include "proto/base/err.h"

#include <stdint.h>

/* Addresses of IPv6 count by their first 64 bits. */
enum {
    EC_ACCESS_RATE = 50,        /* requests a second */
    EC_ACCESS_BURST = 200,      /* at once, after a pause */
    EC_ACCESS_FAILURES = 10,    /* wrong tokens from an address, then wrong ones are answered by EA_ELIMIT */
    EC_ACCESS_PENALTY_S = 60,   /* ... for so long after the last one */
    EC_ACCESS_ADDRESSES = 8192, /* that are remembered; of four that share a place the longest silent is forgotten */
};

/* A bucket that fills by EC_ACCESS_RATE a second up to EC_ACCESS_BURST. Zero: never seen. */
typedef struct ec_rate {
    uint8_t key[24]; /* address and id */
    int64_t seen_ns;
    double left;
    unsigned failures;
    int64_t failed_ns;
} ec_rate;

typedef struct ec_rate_limiter ec_rate_limiter;

EA_MUST_CHECK int ec_rate_limiter_create(ec_rate_limiter **ret, ea_err *err);
void ec_rate_limiter_destroy(ec_rate_limiter *r); /* NULL is allowed */

/* Takes one request out of a bucket: 0 when it is empty. now_ns: monotonic. */
int ec_rate_take(ec_rate *b, int64_t now_ns);
/* Undoes an ec_rate_take that succeeded. */
void ec_rate_put_back(ec_rate *b);
/* The same for an address, whose bucket is then in *ret (until the next call). EA_ELIMIT: too many requests. */
EA_MUST_CHECK int ec_rate_limiter_take(ec_rate_limiter *r, const char *address, int64_t now_ns, ec_rate **ret,
                                       ea_err *err);
/* The bucket of the pair of an address and a token's id ("": none), until the next call. */
ec_rate *ec_rate_limiter_of(ec_rate_limiter *r, const char *address, const char *id);
/* 1 while the bucket has too many failures. */
int ec_rate_is_closed(ec_rate *b, int64_t now_ns);
/* Notes a wrong token. */
void ec_rate_failed(ec_rate *b, int64_t now_ns);

#endif
