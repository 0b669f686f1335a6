/* Connections by address. See guard.h. libevent tells neither when it accepts a connection nor when it frees one, but
 * it asks for the connection's TLS session just before it gives that a socket, and frees it with the connection. So a
 * session is looked at in the loop's next round. */
#include "guard.h"

#include "tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ADDRESS_BYTES = 8 };

typedef struct guest {
    struct guest *next, **link;
    ec_guests *of;
    const SSL *ssl;
    struct event *soon;
    uint8_t address[ADDRESS_BYTES];
    int is_counted;
} guest;

struct ec_guests {
    guest *first;
    size_t count;
    int index; /* of a session's guest */
    struct event_base *events;
    ea_counters *counters;
    enum ea_counter refused;
};

static void on_free(void *parent, void *p, CRYPTO_EX_DATA *data, int index, long number, void *arg) {
    guest *one = p;
    (void)parent, (void)data, (void)index, (void)number, (void)arg;
    if (!one)
        return;
    if (one->is_counted) {
        *one->link = one->next;
        if (one->next)
            one->next->link = one->link;
        one->of->count--;
    }
    if (one->soon)
        event_free(one->soon);
    free(one);
}

int ec_guests_create(ec_guests **ret, struct event_base *events, ea_counters *counters, enum ea_counter refused,
                     ea_err *err) {
    ec_guests *g = calloc(1, sizeof *g);
    if (!g)
        return ea_fail(err, EA_ENOMEM, "count connections");
    g->events = events;
    g->counters = counters;
    g->refused = refused;
    g->index = SSL_get_ex_new_index(0, NULL, NULL, NULL, on_free);
    if (g->index < 0) {
        free(g);
        return ea_fail(err, EA_ENOMEM, "count connections");
    }
    *ret = g;
    return 0;
}

void ec_guests_destroy(ec_guests *g) {
    free(g);
}

/* Where the session's socket is connected to: 0, or -1. */
static int read_address(const SSL *ssl, uint8_t out[ADDRESS_BYTES]) {
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memset(out, 0, ADDRESS_BYTES);
    if (getpeername(SSL_get_fd(ssl), (struct sockaddr *)&a, &len))
        return -1;
    if (a.ss_family == AF_INET) {
        memcpy(&v4, &a, sizeof v4);
        memcpy(out, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (a.ss_family == AF_INET6) {
        memcpy(&v6, &a, sizeof v6);
        size_t skip = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? 8 : 0;
        memcpy(out, (const uint8_t *)&v6.sin6_addr + skip, ADDRESS_BYTES);
    }
    return 0;
}

/* The session has a socket now. */
static void on_soon(evutil_socket_t none, short what, void *arg) {
    guest *one = arg;
    ec_guests *g = one->of;
    size_t same = 0;
    (void)none, (void)what;
    if (!read_address(one->ssl, one->address)) {
        for (const guest *other = g->first; other; other = other->next)
            same += memcmp(other->address, one->address, ADDRESS_BYTES) == 0;
    }
    if (same >= EC_GUESTS_OF_ADDRESS || g->count >= EC_GUESTS_MAX) {
        ea_count(g->counters, g->refused, 1);
        (void)shutdown(SSL_get_fd(one->ssl), SHUT_RDWR); /* libevent frees it then */
        return;
    }
    one->is_counted = 1;
    one->next = g->first;
    one->link = &g->first;
    if (g->first)
        g->first->link = &one->next;
    g->first = one;
    g->count++;
}

static int watch(ec_guests *g, SSL *ssl) {
    static const struct timeval AT_ONCE = {.tv_sec = 0};
    guest *one = calloc(1, sizeof *one);
    if (!one || SSL_set_ex_data(ssl, g->index, one) != 1) {
        free(one);
        return EA_ENOMEM;
    }
    one->of = g;
    one->ssl = ssl;
    one->soon = event_new(g->events, -1, 0, on_soon, one);
    return one->soon && event_add(one->soon, &AT_ONCE) == 0 ? 0 : EA_ENOMEM;
}

struct bufferevent *ec_guests_accept(ec_guests *g, struct ec_tls *tls) {
    SSL *ssl = ec_tls_session(tls);
    if (ssl && watch(g, ssl)) {
        SSL_free(ssl);
        ssl = NULL;
    }
    struct bufferevent *bev =
        ssl ? bufferevent_openssl_socket_new(g->events, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
            : NULL;
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    else
        SSL_free(ssl);
    return bev;
}
