/* Sends texts to a receiver by HTTP POST, by libcurl (loaded when it is created). Called by: the command detections
 * send. Thread: its owner's; it waits. */
#ifndef EC_DETECT_WEBHOOK_H
#define EC_DETECT_WEBHOOK_H

#include "proto/base/err.h"

#include <stddef.h>

enum {
    EC_WEBHOOK_ANSWER_MS = 30000,   /* for one request, whole */
    EC_WEBHOOK_HEADERS_MAX = 32,    /* lines */
    EC_WEBHOOK_HEADER_BYTES = 8192, /* of one */
};

typedef struct ec_webhook ec_webhook;

typedef struct ec_webhook_options {
    const char *url;     /* http or https */
    const char *ca;      /* a file of certificates in place of the system's; NULL: none */
    const char *headers; /* lines "NAME: VALUE" that each request has besides its own; NULL: none */
} ec_webhook_options;

/* Errors: EA_EUSAGE (the URL or a header line cannot be used), EA_ENOTFOUND (no libcurl), EA_ENOMEM. */
EA_MUST_CHECK int ec_webhook_create(ec_webhook **ret, const ec_webhook_options *options, ea_err *err);
void ec_webhook_destroy(ec_webhook *w); /* NULL is allowed */

/* Posts JSON. 0: the receiver answered with 2xx. EA_EREFUSED: it will not take this text, however often it comes (400,
 * 413, 415, 422). Other errors may end: EA_ENET (no answer, or another status; redirects are not followed), EA_ETLS,
 * EA_ETIMEOUT. The body of an answer is not read. */
EA_MUST_CHECK int ec_webhook_post(ec_webhook *w, const char *json, size_t len_bytes, ea_err *err);

#endif
