/* How many connections each address may have at a time, where others than this machine are served (over TLS).
 * Before it: nothing. After it: server.c. Thread: the loop's; destroy it when all sessions are freed. */
#ifndef EC_WEB_GUESTS_H
#define EC_WEB_GUESTS_H

#include "counters.h"
#include "err.h"

#include <openssl/ssl.h>

enum {
    EC_GUESTS_OF_ADDRESS = 128, /* of IPv6 the first 64 bits are an address */
    EC_GUESTS_MAX = 2048,       /* of all addresses */
};

typedef struct ec_guests ec_guests;
struct event_base;

/* events: the loop's; counters: borrowed; connections that are too many are counted there (web_refused). */
EA_MUST_CHECK int ec_guests_create(ec_guests **ret, struct event_base *events, ea_counters *counters, ea_err *err);
void ec_guests_destroy(ec_guests *g); /* NULL is allowed */
/* Until it is freed the session counts for its address; one too many is cut off. On failure the caller frees it. */
EA_MUST_CHECK int ec_guests_watch(ec_guests *g, SSL *ssl);

#endif
