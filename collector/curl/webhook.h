/* Sends texts to a receiver by HTTP POST, by libcurl (loaded when it is created). Called by: the command detections
 * send, collector/sink. Thread: its owner's; it waits. */
#ifndef EC_CURL_WEBHOOK_H
#define EC_CURL_WEBHOOK_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EC_WEBHOOK_ANSWER_MS = 30000,   /* for one request, whole */
    EC_WEBHOOK_HEADERS_MAX = 32,    /* lines */
    EC_WEBHOOK_HEADER_BYTES = 8192, /* of one */
};

typedef struct ec_webhook ec_webhook;

typedef struct ec_webhook_options {
    const char *url;         /* http or https */
    const char *ca;          /* a file of certificates in place of the system's; NULL: none */
    const char *headers;     /* lines "NAME: VALUE" that each request has besides its own; NULL: none */
    const char *type;        /* of what is sent; NULL: application/json */
    uint32_t answer_ms;      /* for one request, whole; 0: EC_WEBHOOK_ANSWER_MS */
    size_t answer_max_bytes; /* of the body of an answer; 0: it is not read */
    int has_cookies;         /* a request has those of answers before it, so that a balancer finds its server again */
    const atomic_int *stop;  /* not 0: a request ends; borrowed; NULL: none */
} ec_webhook_options;

typedef struct ec_webhook_answer {
    long status;
    int64_t retry_after_s; /* as the answer has it, in seconds or as a date; 0: it has none */
    const char *data;      /* the body, a NUL after it; borrowed until the next request */
    size_t len_bytes;
} ec_webhook_answer;

/* Errors: EA_EUSAGE (the URL or a header line cannot be used), EA_ENOTFOUND (no libcurl), EA_ENOMEM. */
EA_MUST_CHECK int ec_webhook_create(ec_webhook **ret, const ec_webhook_options *options, ea_err *err);
void ec_webhook_destroy(ec_webhook *w); /* NULL is allowed */

/* Posts a text. 0: an answer came, whatever its status; redirects are not followed. Errors: EA_ENET, EA_ETLS,
 * EA_ETIMEOUT, EA_ECANCELED (stop), EA_ELIMIT (the body of the answer is larger than the options allow), EA_ENOMEM. */
EA_MUST_CHECK int ec_webhook_send(ec_webhook *w, const char *text, size_t len_bytes, ec_webhook_answer *ret,
                                  ea_err *err);
/* Requests go to another URL of the same receiver, over the same connection. EA_ENOMEM. */
EA_MUST_CHECK int ec_webhook_turn(ec_webhook *w, const char *url, ea_err *err);
/* Posts JSON. 0: the receiver answered with 2xx. EA_EREFUSED: it will not take this text, however often it comes (400,
 * 413, 415, 422). Other errors may end: EA_ENET (no answer, or another status; redirects are not followed), EA_ETLS,
 * EA_ETIMEOUT. */
EA_MUST_CHECK int ec_webhook_post(ec_webhook *w, const char *json, size_t len_bytes, ea_err *err);
/* HOST or HOST:PORT of the URL, which may have a secret elsewhere; *ret_len_bytes of it; borrowed. */
const char *ec_webhook_receiver(const ec_webhook *w, size_t *ret_len_bytes);

#endif
