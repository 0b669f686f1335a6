/* TLS with what certificate stores of the operating system hold: roots, and a certificate whose key stays there. Called
 * by: options, the sender. Calls: host.h, tls_key.h, OpenSSL. Thread: as each function says. */
#ifndef EA_SHIP_TLS_STORE_H
#define EA_SHIP_TLS_STORE_H

#include "service/ship/tls_key.h"

#include <openssl/ssl.h>

#define EA_KEY_OF_STORE "store" /* in place of a key's file: the key that the store has with the certificate */

/* What options may say: cert and ca each a file or a place of a store, key EA_KEY_OF_STORE exactly when cert is such a
 * place. EA_EINVAL, and *ret_key: the option that is wrong. */
EA_MUST_CHECK int ea_tls_store_check(const char *cert, const char *key, const char *ca, const char **ret_key,
                                     ea_err *err);
/* The certificate at a place, in DER; the caller frees it. */
EA_MUST_CHECK int ea_tls_store_certificate(const char *place, uint8_t **ret, size_t *ret_bytes, ea_err *err);
/* Gives a connection's context the certificate and key at cert, and the roots at ca; each as far as it is a place. What
 * is in the stores is read anew each time, so that a renewed certificate is used. keys outlives the context. */
EA_MUST_CHECK int ea_tls_store_apply(SSL_CTX *context, ea_tls_keys *keys, const char *cert, const char *ca,
                                     ea_err *err);

#endif
