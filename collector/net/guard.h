/* How many connections each address may have at a time, where others than this machine are served (over TLS).
 * Before it: nothing. After it: server.c, collector/enroll. Thread: the loop's; destroy it when all sessions are freed.
 */
#ifndef EC_NET_GUARD_H
#define EC_NET_GUARD_H

#include "counters.h"
#include "err.h"

enum {
    EC_GUESTS_OF_ADDRESS = 128, /* of IPv6 the first 64 bits are an address */
    EC_GUESTS_MAX = 2048,       /* of all addresses */
};

typedef struct ec_guests ec_guests;
struct bufferevent;
struct ec_tls;
struct event_base;

/* events: the loop's; counters: borrowed; connections that are too many are counted there, as refused says. */
EA_MUST_CHECK int ec_guests_create(ec_guests **ret, struct event_base *events, ea_counters *counters,
                                   enum ea_counter refused, ea_err *err);
void ec_guests_destroy(ec_guests *g); /* NULL is allowed */
/* A connection that speaks TLS, for evhttp_set_bevcb. It counts for its address until it is freed; one too many is cut
 * off. NULL without memory: libevent makes a plain one then, on which no TLS client is understood. */
struct bufferevent *ec_guests_accept(ec_guests *g, struct ec_tls *tls);

#endif
