/* The body of a request: one flat JSON object of texts and numbers, read by SQLite's JSON functions. Input: call.h.
 * Used by: the handlers. Thread: the handler's. */
#ifndef EC_WEB_BODY_H
#define EC_WEB_BODY_H

#include "proto/base/err.h"

enum { EC_BODY_MAX = 8 };

typedef struct ec_body {
    const char *const *names;
    char *values[EC_BODY_MAX]; /* NULL: not given */
} ec_body;

/* names: those that may be there, at most EC_BODY_MAX, ending with NULL; borrowed. EA_EUSAGE when it is no such object,
 * or has other members. Release with ec_body_deinit. */
EA_MUST_CHECK int ec_body_read(ec_body *ret, const char *json, size_t len_bytes, const char *const *names, ea_err *err);
const char *ec_body_get(const ec_body *b, const char *name);
void ec_body_deinit(ec_body *b);

#endif
