/* OpenSSL's errors as ours, for those who link it: the newest of its queue says why. Input: OpenSSL. Used by:
 * collector/ca, service/ship. Thread: any; the queue is the thread's own. */
#ifndef EA_BASE_CRYPTO_ERROR_H
#define EA_BASE_CRYPTO_ERROR_H

#include "proto/base/err.h"

#include <openssl/err.h>

/* EA_ECRYPTO with "WHAT: reason"; empties the queue. */
static inline int ea_fail_crypto(ea_err *err, const char *what) {
    char text[160] = "unknown reason";
    unsigned long code = ERR_peek_last_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return ea_fail(err, EA_ECRYPTO, "%s: %s", what, text);
}

#endif
