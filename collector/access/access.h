/* Who may ask: tokens, and how often (rates.h), an address and a token each. The tokens' file is read again when it
 * changes, so that a revoked one is refused from the next request on.
 * Before it: tokens.h. After it: collector/web, on every request. Thread: any. */
#ifndef EC_ACCESS_ACCESS_H
#define EC_ACCESS_ACCESS_H

#include "rates.h"
#include "tokens.h"

typedef struct ec_access ec_access;

EA_MUST_CHECK int ec_access_open(ec_access **ret, const char *dir, ea_err *err);
void ec_access_close(ec_access *a); /* NULL is allowed */

/* One request. authorization: the header's value ("Bearer TOKEN", or "Basic ..." with the token as password), NULL:
 * none. EA_EREFUSED: no token, or a wrong one; EA_ELIMIT: too many requests, or too many wrong tokens; the token is in
 * *ret otherwise. now_ns: monotonic. */
EA_MUST_CHECK int ec_access_admit(ec_access *a, const char *address, const char *authorization, int64_t now_ns,
                                  ec_token *ret, ea_err *err);

#endif
