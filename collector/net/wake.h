/* Wakes a libevent loop from another thread. Used by: ingest_server.c, collector/web. Thread: the loop's owner;
 * ec_wake_now: any. */
#ifndef EC_NET_WAKE_H
#define EC_NET_WAKE_H

#include "proto/base/err.h"

struct event;
struct event_base;

typedef struct ec_wake {
    struct event *event; /* NULL: not open */
    int fd;
    void (*fn)(void *arg);
    void *arg;
} ec_wake;

/* fn is called by the loop, once for one wake or several. */
EA_MUST_CHECK int ec_wake_open(ec_wake *ret, struct event_base *events, void (*fn)(void *arg), void *arg, ea_err *err);
void ec_wake_now(const ec_wake *w);
/* Nothing when it is not open; before the loop is freed. */
void ec_wake_close(ec_wake *w);

#endif
