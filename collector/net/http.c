/* HTTP listeners. See http.h. */
#include "collector/net/http.h"

#include "collector/net/listen.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>

enum { INPUT_BYTES = 64 << 20 }; /* of requests that are not whole */

int ec_http_open(ec_http *ret, const ec_http_options *o, ea_err *err) {
    ec_http *h = ret;
    *h = (ec_http){.events = NULL};
    h->events = event_base_new();
    h->http = h->events ? evhttp_new(h->events) : NULL;
    if (!h->http)
        return ea_fail(err, EA_ENOMEM, "serve %s", o->what);
    int rc = ec_wake_open(&h->wake, h->events, o->on_wake, o->arg, err);
    if (rc)
        return rc;
    evhttp_set_allowed_methods(h->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_max_headers_size(h->http, (ev_ssize_t)o->headers_max_bytes);
    evhttp_set_max_body_size(h->http, (ev_ssize_t)o->body_max_bytes);
    evhttp_set_timeout(h->http, o->timeout_s);
    evhttp_set_default_content_type(h->http, NULL);
    evhttp_set_gencb(h->http, o->on_request, o->arg);
    ec_guard_options guard = {.what = o->what,
                              .events = h->events,
                              .http = h->http,
                              .tls = o->tls,
                              .limits = o->limits,
                              .evicts_idle = 1,
                              .input_bytes = INPUT_BYTES,
                              .address_input_bytes = EC_HTTP_BODIES_OF_ONE,
                              .counters = o->counters,
                              .log = o->log};
    guard.limits.idle_ns = (int64_t)o->timeout_s * INT64_C(1000000000);
    if (!o->tls) /* an address on loopback is a proxy's or many programs' */
        guard.limits.address_connections = 0;
    if ((rc = ec_guard_create(&h->guard, &guard, err)))
        return rc;
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(h->http, o->host, o->port);
    if (!bound)
        return ea_fail_os(err, EA_EIO, errno, "listen on %s for %s", o->listen, o->what);
    ec_guard_listen(h->guard, bound);
    h->port = ec_listen_port(evhttp_bound_socket_get_fd(bound));
    return 0;
}

void ec_http_loop(void *arg) {
    const ec_http *h = arg;
    event_base_loop(h->events, EVLOOP_NO_EXIT_ON_EMPTY);
}

void ec_http_close(ec_http *h) {
    ec_guard_close(h->guard);
    if (h->http) {
        evhttp_free(h->http);
        event_base_loop(h->events, EVLOOP_NONBLOCK); /* libevent frees connections in two steps: the second one */
    }
    ec_guard_destroy(h->guard);
    ec_wake_close(&h->wake);
    if (h->events)
        event_base_free(h->events);
}
