/* A private key that its owner does not export: TLS requests signatures, and the owner's callback (ea_signer) makes
 * them. It is an EVP_PKEY of a small OpenSSL provider, in a library context of its own, so that no other key of the
 * process is affected. RSA signs only with PSS, EC keys with ECDSA: TLS 1.3 requires this. Called by: sender.c,
 * tls_store.c. Calls: service/host/host.h. Thread: any; one signature at a time. */
#ifndef EA_SHIP_TLS_KEY_H
#define EA_SHIP_TLS_KEY_H

#include "proto/base/err.h"

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

enum { EA_SIGNATURE_BYTES = 1024 }; /* room for the longest: RSA of 8,192 bits */

typedef struct ea_signer {
    void *arg;
    /* Signs a digest of 32, 48 or 64 bytes (SHA-256, -384, -512). RSA: PSS with a salt as long as the digest. EC: the
     * two numbers in sequence, both of the curve's size. *len_bytes: the room in signature, then its length. */
    int (*sign)(void *arg, const uint8_t *digest, size_t digest_bytes, uint8_t *signature, size_t *len_bytes,
                ea_err *err);
    void (*release)(void *arg); /* called after the last use */
} ea_signer;

/* What such keys belong to; destroyed after the last of them, and after each SSL_CTX that has one. */
typedef struct ea_tls_keys ea_tls_keys;
EA_MUST_CHECK int ea_tls_keys_create(ea_tls_keys **ret, ea_err *err);
void ea_tls_keys_destroy(ea_tls_keys *keys); /* NULL is allowed */

/* The private half of public_key, an RSA or EC key; EVP_PKEY_free releases it. Takes signer: it is released with the
 * key, or at once when this fails. public_key is borrowed. EA_EUNSUPPORTED: another kind of key; EA_ENOMEM. */
EA_MUST_CHECK int ea_tls_key_create(EVP_PKEY **ret, ea_tls_keys *keys, EVP_PKEY *public_key, const ea_signer *signer,
                                    ea_err *err);

#endif
