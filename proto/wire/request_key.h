/* The public half of the key of requests: what signed a request. Called by: service/core (decides about requests),
 * collector/web (queues them). Calls: OpenSSL. Thread: any; a key is not changed after it was read. */
#ifndef EA_WIRE_REQUEST_KEY_H
#define EA_WIRE_REQUEST_KEY_H

#include "proto/wire/request.h"

typedef struct ea_request_key ea_request_key;

enum ea_request_signer {
    EA_REQUEST_SIGNED,  /* this key signed it */
    EA_REQUEST_FOREIGN, /* it names another key */
    EA_REQUEST_CHANGED, /* its signature is not that of its content */
};

/* A public Ed25519 key in PEM. EA_EINVAL: another key, or none. */
EA_MUST_CHECK int ea_request_key_read(ea_request_key **ret, const char *path, ea_err *err);
void ea_request_key_destroy(ea_request_key *k); /* NULL is allowed */
enum ea_request_signer ea_request_key_check(const ea_request_key *k, const ea_signed_request *s);

#endif
