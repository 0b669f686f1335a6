/* HTTP listeners. See http.h. */
#include "http.h"

#include "listen.h"

#include <event2/event.h>
#include <event2/http.h>

static struct bufferevent *encrypted(struct event_base *events, void *arg) {
    const ec_http *h = arg;
    (void)events;
    return ec_guests_accept(h->guests, h->tls);
}

int ec_http_open(ec_http *ret, const ec_http_options *o, ea_err *err) {
    ec_http *h = ret;
    *h = (ec_http){.tls = o->tls};
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
    if (o->tls) {
        if ((rc = ec_guests_create(&h->guests, h->events, o->counters, o->refused, err)))
            return rc;
        evhttp_set_bevcb(h->http, encrypted, h);
    }
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(h->http, o->host, o->port);
    if (!bound)
        return ea_fail(err, EA_EIO, "listen on %s for %s", o->listen, o->what);
    h->port = ec_listen_port(evhttp_bound_socket_get_fd(bound));
    return 0;
}

void ec_http_loop(void *arg) {
    const ec_http *h = arg;
    event_base_loop(h->events, EVLOOP_NO_EXIT_ON_EMPTY);
}

void ec_http_close(ec_http *h) {
    if (h->http)
        evhttp_free(h->http);
    ec_guests_destroy(h->guests);
    ec_wake_close(&h->wake);
    if (h->events)
        event_base_free(h->events);
}
