/* Checks callers of the API: their tokens, and their request rates (rate_limiter.h). The token file is read again when
 * it changes. A revoked or expired token is therefore refused from the next request on, and its open streams end within
 * a second (ec_access_check).
 *
 * A request with a valid token is charged to the rate of that token alone. All other requests are charged to the rate
 * of their address; a wrong token also counts as a failure of its address and of its id. So neither a flood nor wrong
 * tokens of one client lock out another client of the same address. The 256 random bits of a secret and the rate limit
 * make guessing infeasible.
 * Called by: collector/web, on every request. Calls: api_tokens.h, rate_limiter.h. Thread: any. */
#ifndef EC_ACCESS_ACCESS_H
#define EC_ACCESS_ACCESS_H

#include "collector/access/api_tokens.h"
#include "collector/access/rate_limiter.h"

typedef struct ec_access ec_access;

EA_MUST_CHECK int ec_access_open(ec_access **ret, const char *dir, ea_err *err);
void ec_access_close(ec_access *a); /* NULL is allowed */

/* One request. authorization: the header's value ("Bearer TOKEN", or "Basic ..." with the token as password), NULL:
 * none. EA_EREFUSED: no token, a wrong one or one that has expired; EA_ELIMIT: too many requests, or too many wrong
 * tokens. The token is in *ret when it is right, also with EA_ELIMIT. now_ns: monotonic. */
EA_MUST_CHECK int ec_access_admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns,
                                  ec_token *ret, ea_err *err);
/* 0 while the token is as it was when it was admitted; EA_EREFUSED when it was revoked or changed, or has expired. */
EA_MUST_CHECK int ec_access_check(ec_access *a, const ec_token *token, ea_err *err);

#endif
