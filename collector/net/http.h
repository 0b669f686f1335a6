/* A listener for HTTP: a libevent loop, plain or with TLS. Used by: ingest_server.c, collector/enroll. Thread: its
 * owner's until ec_http_loop runs, then that one's. */
#ifndef EC_NET_HTTP_H
#define EC_NET_HTTP_H

#include "collector/net/guard.h"
#include "collector/net/wake.h"
#include "proto/base/counters.h"

#include <stdint.h>

struct evhttp;
struct evhttp_request;

/* Bytes of the bodies of requests that one address (while they are not whole) or one caller (while they wait) may have.
 */
enum { EC_HTTP_BODIES_OF_ONE = 8 << 20 };

typedef struct ec_http_options {
    const char *what;   /* "the dashboard", in errors */
    const char *listen; /* the address as it was given, in errors */
    const char *host;
    uint16_t port;         /* 0: any */
    struct ec_tls *tls;    /* NULL: plain; must outlive the listener */
    ea_counters *counters; /* borrowed */
    struct ec_log *log;    /* borrowed; may be NULL */
    ec_guard_limits limits;
    int timeout_s; /* of a connection that says nothing */
    unsigned headers_max_bytes, body_max_bytes;
    void (*on_request)(struct evhttp_request *http, void *arg);
    void (*on_wake)(void *arg); /* ec_wake_now was called */
    void *arg;
} ec_http_options;

typedef struct ec_http {
    struct event_base *events;
    struct evhttp *http;
    ec_wake wake;
    ec_guard *guard;
    uint16_t port; /* that it listens on */
} ec_http;

/* Opens and listens for GET and POST. Fills *ret also when it fails: close it in any case. It may not be moved. */
EA_MUST_CHECK int ec_http_open(ec_http *ret, const ec_http_options *options, ea_err *err);
/* Runs until event_base_loopbreak; for a thread. arg: an ec_http. */
void ec_http_loop(void *arg);
void ec_http_close(ec_http *h); /* zeros: nothing */

#endif
